"""StructuredLogLinearLMCV: strengths tuned on held-out samples."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from .._checkpoint import Checkpoint, State, StateStore
from .._compat import CallbackSupportMixin, Interval, MetaEstimatorMixin, with_callbacks
from .._digest import digest
from .._docs import shared_docs
from .._parallel import ThreadMap
from .._progress import Progress
from ..backoff import Counted
from ..backoff._estimator import check_parameters
from ..backoff._held_out import (
    VALIDATION_CONSTRAINT,
    VALIDATION_FRACTION,
    HeldOutClassifier,
)
from ..symbols import Labels
from ._estimator import StructuredLogLinearLM
from ._fit import Fit, bind, check_one_tree, held_out_loss, penalty_of

# The parameters that can be searched, and the power of `factor` by which each is
# changed: alpha and depth_weight act by their powers at each depth.
POWERS = {
    "lam": 1.0,
    "alpha": 0.25,
    "penalty__depth_weight": 0.5,
    "penalty__gamma": 1.0,
}

# If no coordinate lowers the loss, the logarithm of the factor is halved, once.
N_SCALES = 2

Params = dict[str, Any]


class _Coordinate(NamedTuple):
    """A number that is searched: a parameter, or its value at one depth."""

    name: str
    depth: int | None

    def of(self, params: Params) -> float:
        value = params[self.name]
        return float(value if self.depth is None else value[self.depth])

    def scaled(self, params: Params, factor: float) -> Params:
        """The parameters with this number times the factor, to its power."""
        if self.depth is None:
            value = params[self.name] * factor ** POWERS[self.name]
        else:
            value = params[self.name].copy()
            value[self.depth] *= factor
        return params | {self.name: value}

    def __str__(self) -> str:
        return self.name if self.depth is None else f"{self.name}[{self.depth}]"


@shared_docs(validation_fraction=VALIDATION_FRACTION)
class StructuredLogLinearLMCV(
    CallbackSupportMixin, MetaEstimatorMixin, HeldOutClassifier
):
    r"""`StructuredLogLinearLM` with strengths tuned on held-out samples.

    .. math::
        \max_\theta\ \sum_{(x, y)\ \text{held out}} \ln P_{w(\theta)}(y \mid x), \qquad
        w(\theta) = \arg\min_{w \ge 0} f(w) + \Omega_\theta(w),

    by a coordinate search: one number of :math:`\theta` after the other is multiplied
    or divided by `factor`, as long as the held-out loss falls. If no number lowers the
    loss, `factor` is replaced by its square root, once. Each fit starts from the
    weights of the best fit so far, and needs fewer iterations than a first fit. The
    last samples, or X_val, are held out. Cross-validation is not used, as the parts of
    a text are not independent.

    Parameters
    ----------
    estimator : StructuredLogLinearLM
        The model; cloned. The search begins at its parameters. A parameter that is an
        array is searched depth by depth. When `alpha` changes, the weights that a fit
        starts from are rescaled so that the scores stay. The `gap_tol` of its solver is
        used only in the last fit; the fits of the search stop at `tol`. The
        `checkpoint` of the model stores the losses of the finished fits, which are not
        repeated, and the weights of the best fit; an interrupted fit begins again. A
        `prior` or an active set is not allowed.

    search : list of str, default=None
        The parameters to search, in order, named as in `set_params`: of "lam", "alpha",
        "penalty__depth_weight" and "penalty__gamma", which needs an `ElasticNet`. A
        value of 0 is not changed. None: the parameters that are not redundant for the
        penalty, ``Penalty.searched``.

    factor : float, default=1.4
        First factor, above 1 and at most 100. `alpha` is changed by the fourth root of
        the factor, and a single `depth_weight` by its square root, because each depth
        uses a power of them.

    max_fits : int, default=30
        Largest number of fits of the search, at least 1. The last fit, on all samples,
        is not counted.

    {validation_fraction}

    verbose : int, default=0
        Print the loss of every `verbose`-th fit; 0 is silent.

    Attributes
    ----------
    best_params_ : dict
        The values chosen, by the names of `search`.

    best_estimator_ : StructuredLogLinearLM
        The model with these values, fitted to all samples.

    held_out_loss_ : float
        Mean log-loss of the held-out samples, in nats, with these values.

    search_results_ : list of dict
        The values, ``held_out_loss`` and ``n_iter`` of each fit of the search, in
        order.

    classes_ : ndarray of shape (n_classes,)
        Sorted.

    backoff_model_ : BackoffModel
        The model of ``best_estimator_``.

    depth_ : int
        Longest context of the fitted tree.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    sklearn.model_selection.GridSearchCV : Searches any parameters, without warm starts.

    Examples
    --------
    >>> from sklstruct.datasets import load_python_topics
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.loglinear import StructuredLogLinearLM, StructuredLogLinearLMCV
    >>> model = StructuredLogLinearLM(penalty="l2", lam=0.1, alpha=0.8)
    >>> topics = load_python_topics()
    >>> lm = LanguageModel(StructuredLogLinearLMCV(model, max_fits=8), max_depth=2)
    >>> chosen = lm.fit(topics[:300], X_val=topics[300:400]).estimator_
    >>> sorted(chosen.best_params_)
    ['alpha', 'lam']
    >>> losses = [fit["held_out_loss"] for fit in chosen.search_results_]
    >>> len(losses), min(losses) == chosen.held_out_loss_ < losses[0]
    (8, True)
    """

    best_estimator_: StructuredLogLinearLM
    best_params_: dict[str, Any]

    _parameter_constraints: dict = {
        "estimator": [StructuredLogLinearLM],
        "search": [list, tuple, None],
        "factor": [Interval(numbers.Real, 1, 100, closed="right")],
        "max_fits": [Interval(numbers.Integral, 1, None, closed="left")],
        **VALIDATION_CONSTRAINT,
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator: StructuredLogLinearLM,
        *,
        search: Sequence[str] | None = None,
        factor: float = 1.4,
        max_fits: int = 30,
        validation_fraction: float = 0.1,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.search = search
        self.factor = factor
        self.max_fits = max_fits
        self.validation_fraction = validation_fraction
        self.verbose = verbose

    @property
    def max_depth(self) -> int | None:  # type: ignore[override]
        """Longest context, as the estimator has it."""
        return self.estimator.max_depth

    @property
    def padding(self) -> Any:
        """The symbol of missing history, as the estimator has it."""
        return self.estimator.padding

    @property
    def classes(self) -> ArrayLike | None:  # type: ignore[override]
        """The closed vocabulary, as the estimator has it."""
        return self.estimator.classes

    @property
    def least_context(self) -> int:
        return self.estimator.least_context

    def __sklstruct_ids__(self, labels: Labels) -> dict:
        """No parameters: `LanguageModel` asks the inner estimator, too."""
        return {}

    fit = with_callbacks(HeldOutClassifier.fit)

    fit_counted = with_callbacks(HeldOutClassifier.fit_counted)

    def _uses_held_out(self):
        return True

    def _check_params(self):
        check_parameters(self.estimator)
        check_one_tree(self.estimator, "a search")
        known = _with_penalty(self.estimator).get_params()
        for name in self._searched():
            if name not in POWERS or name not in known:
                raise ValueError(
                    f"search must hold some of {[n for n in POWERS if n in known]} for "
                    f"penalty={self.estimator.penalty!r}, got {name!r}"
                )

    def _searched(self):
        if self.search is not None:
            return self.search
        return penalty_of(self.estimator).searched

    def _learn(self, counted: Counted, overwrite: bool = False) -> Self:
        least = self.least_context
        counted = counted.count_now(least).frequent(least)
        model = _with_penalty(self.estimator).set_params(classes=None, max_depth=None)
        with (
            Progress.of_fit(self, self.max_fits) as progress,
            ThreadMap(model.n_jobs) as parallel,
        ):
            search = _Search(self, model, counted, self._held_out(counted), parallel)
            with search.record.store:  # also for Ctrl-C in the last fit
                best = search.run(progress)
                model.set_params(**best)
                if not search.record.store.in_folder:
                    model.set_params(checkpoint=None)  # the search uses the file
                model.fit_counted(counted.all_counts, overwrite=overwrite)
        self.held_out_loss_, self.search_results_ = search.loss, search.results
        self.best_params_ = best
        self.best_estimator_ = model.set_params(
            checkpoint=self.estimator.checkpoint,
            classes=self.classes, max_depth=self.max_depth,
        )  # fmt: skip
        for name in ("classes_", "depth_", "_reader", "backoff_model_", "_so_far"):
            setattr(self, name, getattr(model, name))
        return self


def _with_penalty(estimator):
    """A clone whose penalty is an object."""
    return clone(estimator).set_params(penalty=clone(penalty_of(estimator)))


class _Record:
    """Checkpoint of a search: the losses of the fits, and the best weights.

    On resume the search is replayed; fits whose loss is stored are not repeated. The
    sizes are those of the tree on which the search fits.
    """

    def __init__(self, store: StateStore, n_pairs: int, n_levels: int) -> None:
        self.store = store
        like: State = {"fits": [[0.0, 0]]}
        state = store.result(like) or store.load(like) or {}
        like = {"w": np.empty(n_pairs), "beta": np.empty(n_levels)}
        self.best: State = {k: state[k] for k in like if k in state}
        if self.best:
            store.checked(state, like)
        self.fits: list[list] = state.get("fits", [])  # [held-out loss, n_iter]

    def add(self, loss: float, n_iter: int, best: State) -> None:
        """Record a finished fit; `best`: weights of the best fit, and their beta by
        depth."""
        self.fits.append([loss, n_iter])
        self.best = best
        self.store.save(fits=self.fits, **best)


class _Search:
    """Fits of one problem with changing strengths, from the best weights so far."""

    def __init__(self, cv, model, counted, held_out, parallel):
        self.cv, self.parallel, self.held_out = cv, parallel, held_out
        self.model = model
        self.pairs, self.count = counted.expanded()
        self.loss, self.results, self.stopped = np.inf, [], False
        given = model.get_params()
        self.params = {name: _value(given[name]) for name in cv._searched()}
        # Errors about arrays that do not fit the depth come first.
        fit, self.coordinates = self._begin(self.params), self._coordinates()
        n_pairs, n_levels = fit.problem.n_pairs, fit.problem.beta_by_depth.size
        self.record = _Record(self._store(fit), n_pairs, n_levels)

    def _begin(self, params):
        """The fit with some parameters."""
        model = clone(self.model).set_params(**params)
        fit = Fit(model, bind(model, self.pairs, self.count, self.parallel))
        fit.solver.set_params(gap_tol=None)
        return fit

    def _store(self, fit):
        return fit.store_at(
            Checkpoint.of(self.model.checkpoint),
            solver=fit.solver.identity(),  # other tolerances are other searches
            held_out=digest(*self.held_out.samples()),
            search=[str(coordinate) for coordinate in self.coordinates],
            factor=self.cv.factor,
            max_fits=self.cv.max_fits,
        )

    def run(self, progress: Progress) -> Params:
        """The best parameters."""
        self.progress = progress
        params = self._descend(self.params)
        if self.stopped:  # by a callback, which may be gone next time
            return params
        if not np.isfinite(self.loss):
            raise ValueError(
                "X_val: the held-out loss of no fit is finite; give other held-out "
                "samples, or an estimator with other strengths"
            )
        self.record.store.finish(fits=self.record.fits)
        return params

    def _descend(self, params):
        self.try_out(params)
        factor = float(self.cv.factor)
        for _ in range(N_SCALES):
            helped = True
            while helped and self.coordinates:
                helped = False
                for coordinate in self.coordinates:
                    params, moved = self.move(coordinate, params, factor)
                    helped |= moved
                if self.is_over():
                    return params
            factor = float(np.sqrt(factor))
        return params

    def is_over(self) -> bool:
        return self.stopped or len(self.results) >= self.cv.max_fits

    def move(
        self, coordinate: _Coordinate, params: Params, factor: float
    ) -> tuple[Params, bool]:
        """(parameters, whether they are better): up, or else down, while that helps."""
        for step in (factor, 1.0 / factor):
            moved = False
            while not self.is_over():
                other = coordinate.scaled(params, step)
                if not self.try_out(other):
                    break
                params, moved = other, True
            if moved:
                return params, True
        return params, False

    def _coordinates(self):
        depths = range(self.pairs.tree.n_levels)
        out = []
        for name, value in self.params.items():
            split = depths if np.ndim(value) else [None]
            out += [_Coordinate(name, k) for k in split]
        return [c for c in out if c.of(self.params) > 0.0]

    def try_out(self, params: Params) -> bool:
        """Fit, or take the stored loss; True if it is the best so far."""
        record, number = self.record, len(self.results)
        if number == len(record.fits):
            self._fit(params)
        loss, n_iter = record.fits[number]
        self.results.append({**params, "held_out_loss": loss, "n_iter": n_iter})
        self.stopped = self.progress.step(
            f"fit {number + 1}: held-out loss {loss:.5f}, "
            + ", ".join(f"{name}={value!r}" for name, value in params.items()),
            "fit",
        )
        if not loss < self.loss:
            return False
        self.loss = loss
        return True

    def _fit(self, params):
        """Fit from the best weights so far; the record keeps the better ones."""
        record, fit = self.record, self._begin(params)
        if record.best:
            w = fit.from_solution(record.best["w"], record.best["beta"])
        else:
            w = fit.start()
        result = fit.solve(w)
        loss = held_out_loss(self.held_out, fit.problem, result.w)
        best = record.best
        if loss < self.loss:
            best = {"w": result.w.copy(), "beta": fit.problem.beta_by_depth}
        record.add(loss, len(result.history), best)


def _value(given):
    """A number, or a copy of the user's array."""
    return float(given) if np.ndim(given) == 0 else np.array(given, dtype=np.float64)
