"""StructuredLogLinearLMCV: strengths chosen on held-out samples."""

from __future__ import annotations

import numbers
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone

from .._checkpoint import (
    Checkpoint,
    FitKeeper,
    State,
    join_part,
    split_part,
)
from .._compat import Interval, with_callbacks
from .._digest import digest
from .._docs import shared_docs
from .._parallel import ThreadMap
from ..backoff import Counted, Fitted
from ..backoff._estimator import SAMPLES
from ..backoff._held_out import (
    VALIDATION_CONSTRAINT,
    VALIDATION_FRACTION,
    HeldOutClassifier,
)
from ._estimator import StructuredLogLinearLM
from ._fit import Fit, Settings, held_out_loss, penalty_of, solver_of
from ._penalties import Penalty
from ._solvers import Solver

# The power of the factor by which a number moves: alpha and depth_weight act by their
# powers at each depth.
POWERS = {"lam": 1.0, "gamma": 1.0, "alpha": 0.25, "depth_weight": 0.5}

# The settings that a search may change, as `search_results_` has them.
CHOSEN = ("penalty", "lam", "alpha", "depth_weight")

# The factor is halved (in its logarithm) once where no coordinate helps any more.
N_SCALES = 2


class _Coordinate(NamedTuple):
    """A number that is searched: a parameter, or its value at one depth."""

    name: str
    depth: int | None

    def of(self, settings: Settings) -> float:
        value = self.held_by(settings)
        return float(value if self.depth is None else value[self.depth])

    def held_by(self, settings: Settings) -> Any:
        """The parameter, a number or one a depth."""
        if self.name == "gamma":
            return settings.penalty.get_params()["gamma"]
        return getattr(settings, self.name)

    def scaled(self, settings: Settings, factor: float) -> Settings:
        """The settings with this number times the factor, to its power."""
        if self.depth is None:
            value = self.held_by(settings) * factor ** POWERS[self.name]
        else:
            value = np.array(self.held_by(settings), dtype=np.float64)
            value[self.depth] *= factor
        if self.name == "gamma":
            return settings._replace(
                penalty=clone(settings.penalty).set_params(gamma=value)
            )
        return settings._replace(**{self.name: value})

    def __str__(self) -> str:
        return self.name if self.depth is None else f"{self.name}[{self.depth}]"


@shared_docs(validation_fraction=VALIDATION_FRACTION)
class StructuredLogLinearLMCV(HeldOutClassifier, StructuredLogLinearLM):
    r"""`StructuredLogLinearLM` with strengths chosen on held-out samples.

    .. math::
        \max_\theta\ \sum_{(x, y)\ \text{held out}} \ln P_{w(\theta)}(y \mid x), \qquad
        w(\theta) = \arg\min_{w \ge 0} f(w) + \Omega_\theta(w),

    by a coordinate search: each number of :math:`\theta` in turn is multiplied or
    divided by `factor`, repeatedly as long as the held-out loss falls; when no number
    helps, the factor becomes its root, once. Each fit starts from the weights of the
    best fit so far, and needs fewer iterations than a first fit. One part of the
    samples is held out (the last, or X_val). Cross-validation is not used, as the parts
    of a text are not independent.

    The search begins at the values of the parameters. A parameter that is an array
    (`depth_weight`, `alpha`, or the `gamma` of an `ElasticNet`) is searched depth by
    depth. When `alpha` changes, the weights that a fit starts from are rescaled so that
    the scores stay.

    Parameters
    ----------
    max_depth, penalty, lam, alpha, depth_weight
        As in `StructuredLogLinearLM`; the search begins at these values.

    positive, penalize_root, min_count, solver, tol, max_iter, warm_start
        As in `StructuredLogLinearLM`.

    gap_tol : float, default=None
        As in `StructuredLogLinearLM`, for the last fit; those of the search end at
        `tol`.

    padding, classes, n_jobs, verbose
        As in `StructuredLogLinearLM`.

    search : list of str, default=None
        The parameters to search, in order, of "lam", "alpha", "depth_weight" and
        "gamma", which needs an `ElasticNet`. A value of 0 stays. None: those that are
        not redundant for the penalty: "lam", "depth_weight" and "gamma" for an
        `ElasticNet`, "lam" and "alpha" for l1 and l2, else "lam", "alpha" and
        "depth_weight".

    factor : float, default=1.4
        First factor, above 1 and at most 100. `alpha` moves by its fourth root, one
        `depth_weight` for all depths by its square root, as each depth has their power.

    max_fits : int, default=30
        Largest number of fits of the search, at least 1. The last fit, on all samples,
        is not counted.

    {validation_fraction}

    checkpoint : str, os.PathLike or Checkpoint, default=None
        As in `StructuredLogLinearLM`. The file also holds the losses of the finished
        fits, which are not repeated, and the weights of the best one. Other `tol`,
        `max_iter` or `max_fits` are other settings here.

    Attributes
    ----------
    lam_, alpha_, depth_weight_ : float or ndarray
        The values chosen.

    penalty_ : Penalty
        The penalty with the `gamma` chosen.

    held_out_loss_ : float
        Mean log-loss of the held-out samples, in nats, with these values.

    search_results_ : list of dict
        ``lam``, ``alpha``, ``depth_weight``, ``penalty``, ``held_out_loss`` and
        ``n_iter`` of each fit of the search, in order.

    classes_, backoff_model_, depth_, n_features_in_, feature_names_in_
        As in `StructuredLogLinearLM`.

    coef_, n_parameters_, n_iter_, objective_, optimality_, gap_
        As in `StructuredLogLinearLM`, of the last fit.

    See Also
    --------
    sklearn.model_selection.GridSearchCV : Any parameters, without warm starts.

    Examples
    --------
    >>> from sklstruct.datasets import load_python_topics
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.loglinear import StructuredLogLinearLMCV
    >>> model = StructuredLogLinearLMCV(
    ...     penalty="l2", lam=0.1, alpha=0.8, search=("lam", "alpha"), max_fits=8
    ... )
    >>> topics = load_python_topics()
    >>> lm = LanguageModel(model, max_depth=2).fit(topics[:300], X_val=topics[300:400])
    >>> chosen = lm.estimator_
    >>> losses = [fit["held_out_loss"] for fit in chosen.search_results_]
    >>> len(losses), min(losses) == chosen.held_out_loss_ < losses[0]
    (8, True)
    """

    held_out_hint = "its search needs them"

    _parameter_constraints: dict = {
        **{
            name: constraint
            for name, constraint in StructuredLogLinearLM._parameter_constraints.items()
            if name not in ("memory", "active_set", "prior")
        },
        **VALIDATION_CONSTRAINT,
        "search": [list, tuple, None],
        "factor": [Interval(numbers.Real, 1, 100, closed="right")],
        "max_fits": [Interval(numbers.Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        penalty: str | Penalty = "elastic_net",
        lam: float | None = None,
        alpha: float | ArrayLike | None = None,
        depth_weight: float | ArrayLike | None = None,
        search: Sequence[str] | None = None,
        factor: float = 1.4,
        max_fits: int = 30,
        validation_fraction: float = 0.1,
        checkpoint: str | os.PathLike | Checkpoint | None = None,
        positive: bool = True,
        penalize_root: bool = True,
        min_count: int = 1,
        solver: str | Solver = "auto",
        tol: float = 1e-2,
        gap_tol: float | None = None,
        max_iter: int = 300,
        warm_start: bool = False,
        padding: Any = None,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            max_depth,
            penalty=penalty,
            lam=lam,
            alpha=alpha,
            depth_weight=depth_weight,
            positive=positive,
            penalize_root=penalize_root,
            min_count=min_count,
            solver=solver,
            tol=tol,
            gap_tol=gap_tol,
            max_iter=max_iter,
            warm_start=warm_start,
            checkpoint=checkpoint,
            padding=padding,
            classes=classes,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.search = search
        self.factor = factor
        self.max_fits = max_fits
        self.validation_fraction = validation_fraction

    @with_callbacks
    @shared_docs(samples=SAMPLES)
    def fit(
        self,
        X: ArrayLike | sp.spmatrix,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> StructuredLogLinearLMCV:
        """Choose the strengths, and fit the weights.

        Parameters
        ----------
        {samples}

        X_val, y_val : as X and y, default=None
            Held-out samples. None: the last `validation_fraction` of the samples.

        sample_weight_val : array-like of shape (n_val_samples,), default=None
            Weights of the held-out samples.

        Returns
        -------
        self : StructuredLogLinearLMCV
            Fitted estimator.
        """
        return HeldOutClassifier.fit(
            self, X, y, sample_weight, X_val, y_val, sample_weight_val
        )

    def _uses_held_out(self):
        return True

    def _check_params(self):
        super()._check_params()
        for name in self._searched():
            if name not in POWERS:
                raise ValueError(
                    f"search must hold some of {list(POWERS)}, got {name!r}"
                )
        if "gamma" in self._searched() and not hasattr(penalty_of(self), "gamma"):
            raise ValueError(
                f"search: penalty={self.penalty!r} has no gamma; leave it out, or use "
                "an ElasticNet"
            )

    def _searched(self):
        return penalty_of(self).searched if self.search is None else self.search

    def _fit_divided(self, counted: Counted, overwrite: bool) -> Fitted:
        given, held_out = Settings.of(self), self._held_out(counted)
        settings = given._replace(
            penalty=clone(given.penalty), lam=float(given.lam),
            alpha=_value(given.alpha), depth_weight=_value(given.depth_weight),
        )  # fmt: skip
        with ThreadMap(self.n_jobs) as parallel:
            search = _Search(self, *counted.expanded(), held_out, parallel)
            best = search.run(settings)
        self.penalty_, self.lam_ = best.penalty, best.lam
        self.alpha_, self.depth_weight_ = best.alpha, best.depth_weight
        self.held_out_loss_, self.search_results_ = search.loss, search.results
        search.record.close()
        # The last fit has a file of its own in a folder, else that of the search.
        record = None if search.record.keeper.in_folder else search.record
        return self._fit_settings(counted.all_counts, best, record)


class _Record(FitKeeper):
    """The checkpoint of a search: losses, the best weights, the running fit.

    It is the keeper of the running fit. On resume the search is replayed; fits whose
    loss is stored are not repeated.

    Parameters
    ----------
    keeper : FitKeeper
        Of the checkpoints.

    n_pairs, n_levels : int
        Of the tree on which the search fits.
    """

    def __init__(self, keeper: FitKeeper, n_pairs: int, n_levels: int) -> None:
        self.keeper = keeper
        like: State = {"fits": [[0.0, 0]]}
        state = keeper.result(like) or keeper.load(like) or {}
        keeper.checked(state, {"of_last": (None, {})} if "of_last" in state else {})
        if "w" in state:
            like = {"w": np.empty(n_pairs), "beta": np.empty(n_levels)}
            keeper.checked(state, like)
        state, self.running = split_part(state)
        self.fits: list[list] = state.get("fits", [])  # [held-out loss, n_iter]
        self.best: State = {
            name: state[name] for name in ("w", "beta") if name in state
        }
        self.of_last: dict | None = state.get("of_last")

    def add(self, loss: float, n_iter: int, best: State) -> None:
        """A fit is done; `best`: weights of the best one, and their beta by depth."""
        self.fits.append([loss, n_iter])
        self.best = best
        self.save()

    def close(self) -> None:
        """The search is done."""
        self.keeper.finish(fits=self.fits)

    def last(self, identity: dict[str, Any]) -> _Record:
        """The keeper of the last fit, which is on other samples."""
        if self.of_last is None:
            self.of_last, self.best, self.running = identity, {}, {}
        else:
            self.keeper.check(self.of_last, identity)
        return self

    def load(self, like: State | None = None) -> State | None:
        """The state of the running fit, once."""
        state, self.running = self.running, {}
        return self.checked(state, like or {}) if state else None

    def damaged(self, why: object) -> ValueError:
        """The error about a state from which no fit can continue."""
        return self.keeper.damaged(why)

    def __exit__(self, kind: type[BaseException] | None, *given: object) -> None:
        """Ctrl-C writes the last state."""
        self.keeper.__exit__(kind, *given)

    def save(self, **running: Any) -> None:
        """Save the search, and the running fit if there is one."""
        found = {"fits": self.fits, "of_last": self.of_last, **self.best}
        self.keeper.save(**join_part(found, running))


class _Search:
    """Fits of one problem with changing strengths, from the best weights so far."""

    def __init__(self, model, pairs, count, held_out, parallel):
        self.model, self.parallel = model, parallel
        self.pairs, self.count, self.held_out = pairs, count, held_out
        self.loss, self.results = np.inf, []

    def _begin(self, settings):
        """The fit of some settings."""
        problem = settings.problem(self.pairs, self.count, self.parallel)
        return Fit(settings, solver_of(self.model), problem)

    def _keeper(self, fit, coordinates):
        return fit.keeper_at(
            Checkpoint.of(self.model.checkpoint),
            solver=fit.solver.identity(),  # other tolerances are other searches
            held_out=digest(*self.held_out.samples()),
            search=[str(coordinate) for coordinate in coordinates],
            factor=self.model.factor,
            max_fits=self.model.max_fits,
        )

    def run(self, settings: Settings) -> Settings:
        """The best settings."""
        # Errors about arrays that do not fit the depth come first.
        fit = self._begin(settings)
        coordinates = self.coordinates(settings)
        problem = fit.problem
        self.record = _Record(
            self._keeper(fit, coordinates), problem.n_pairs, problem.beta_by_depth.size
        )
        del fit, problem
        with self.record:
            return self._descend(settings, coordinates)

    def _descend(self, settings, coordinates):
        self.try_out(settings)
        factor = float(self.model.factor)
        for _ in range(N_SCALES):
            helped = True
            while helped and coordinates:
                helped = False
                for coordinate in coordinates:
                    settings, moved = self.move(coordinate, settings, factor)
                    helped |= moved
                if self.is_over():
                    return settings
            factor = np.sqrt(factor)
        return settings

    def is_over(self) -> bool:
        return len(self.results) >= self.model.max_fits

    def move(
        self, coordinate: _Coordinate, settings: Settings, factor: float
    ) -> tuple[Settings, bool]:
        """(settings, whether they are better): up, or else down, while that helps."""
        for step in (factor, 1.0 / factor):
            moved = False
            while not self.is_over():
                other = coordinate.scaled(settings, step)
                if not self.try_out(other):
                    break
                settings, moved = other, True
            if moved:
                return settings, True
        return settings, False

    def coordinates(self, settings):
        depths = range(self.pairs.tree.n_levels)
        out = []
        for name in self.model._searched():
            one = _Coordinate(name, None)
            value = one.held_by(settings)
            split = (
                [one] if np.ndim(value) == 0 else [_Coordinate(name, k) for k in depths]
            )
            out += [c for c in split if c.of(settings) > 0.0]
        return out

    def try_out(self, settings) -> bool:
        """Fit, or take the stored loss; True if it is the best so far."""
        record, number = self.record, len(self.results)
        if number == len(record.fits):
            self._fit(settings)
        loss, n_iter = record.fits[number]
        self.results.append(
            {
                **{name: getattr(settings, name) for name in CHOSEN},
                "held_out_loss": loss,
                "n_iter": n_iter,
            }
        )
        if self.model.verbose > 0:
            print(
                f"[{type(self.model).__name__}] fit {len(self.results)}: held-out loss "
                f"{loss:.5f}, lam={settings.lam:.4g}",
                flush=True,
            )
        if not loss < self.loss:
            return False
        self.loss = loss
        return True

    def _fit(self, settings):
        """Fit from the best weights so far; the record keeps the better ones."""
        record, fit = self.record, self._begin(settings)
        if record.best:
            w = fit.from_solution(record.best["w"], record.best["beta"])
        else:
            w = fit.start()
        fit.keeper = record
        result = fit.solve(w)
        loss = held_out_loss(self.held_out, fit.problem, result.w)
        best = record.best
        if loss < self.loss:
            best = {"w": result.w.copy(), "beta": fit.problem.beta_by_depth}
        record.add(loss, len(result.history), best)


def _value(given):
    """A number, or a copy of the user's array."""
    return float(given) if np.ndim(given) == 0 else np.array(given, dtype=np.float64)
