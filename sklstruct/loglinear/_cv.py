"""StructuredLogLinearLMCV: strengths chosen on held-out samples."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.callback import with_callbacks

from .._compat import Interval
from .._docs import shared_docs
from .._parallel import ThreadMap
from ..backoff import BackoffModel
from ..backoff._held_out import (
    VALIDATION_CONSTRAINT,
    VALIDATION_FRACTION,
    HeldOut,
    HeldOutClassifier,
)
from ..context_tree import Pairs
from ..symbols import Labels
from ._estimator import Settings, StructuredLogLinearLM
from ._loss import LogLinearLoss
from ._penalties import Penalty
from ._solvers import Solver

# A number that acts by its power at each depth moves by a power of the factor.
POWERS = {"lam": 1.0, "gamma": 1.0, "alpha": 0.25, "depth_weight": 0.5}

# The factor is halved (in its logarithm) once where no coordinate helps any more.
N_SCALES = 2


class _Coordinate(NamedTuple):
    """A number that is searched: a parameter, or its value at one depth."""

    name: str
    depth: int | None

    def of(self, settings: Settings) -> float:
        value = self._holder(settings)
        return float(value if self.depth is None else value[self.depth])

    def _holder(self, settings):
        if self.name == "gamma":
            return settings.penalty.gamma
        return getattr(settings, self.name)

    def scaled(self, settings: Settings, factor: float) -> Settings:
        """The settings with this number times the factor, to its power."""
        if self.depth is None:
            value = self._holder(settings) * factor ** POWERS[self.name]
        else:
            value = np.array(self._holder(settings), dtype=np.float64)
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
    divided by `factor`, and again as long as that helps; when no number helps, the
    factor becomes its root, once. Fits start from the weights of the best fit so
    far, so that one costs a part of a first fit. The samples are held out once (their
    last part, or X_val): a text is no bag of independent samples, whose folds could
    take turns.

    The values of the parameters are where the search begins. A parameter that is an
    array (`depth_weight`, `alpha`, or the `gamma` of an `ElasticNet`) is searched depth
    by depth. With `alpha` moves the weight of the features, and the weights that a fit
    starts from keep their scores.

    Parameters
    ----------
    max_depth, penalty, lam, alpha, depth_weight
        As in `StructuredLogLinearLM`; the search begins at these values.

    positive, penalize_root, solver, tol, max_iter, warm_start
        As in `StructuredLogLinearLM`.

    padding, classes, n_jobs, verbose
        As in `StructuredLogLinearLM`.

    search : list of str, default=None
        The parameters to search, in order, of "lam", "alpha", "depth_weight" and
        "gamma", which needs an `ElasticNet`. A value of 0 stays. None: those that mean
        different things for the penalty, "lam", "depth_weight" and "gamma" for an
        `ElasticNet`, "lam" and "alpha" for l1 and l2, else "lam", "alpha" and
        "depth_weight".

    factor : float, default=1.4
        First factor, above 1 and at most 100. `alpha` moves by its fourth root, one
        `depth_weight` for all depths by its square root, as their powers act.

    max_fits : int, default=30
        Largest number of fits of the search, at least 1. The last fit, on all samples,
        comes on top.

    {validation_fraction}

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

    coef_, n_parameters_, n_iter_, objective_, optimality_
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

    _HELD_OUT_HINT = "its search needs them"

    _of_pairs = None  # chooses on held-out samples, which no shard has alone

    _parameter_constraints: dict = {
        **{
            name: constraint
            for name, constraint in StructuredLogLinearLM._parameter_constraints.items()
            if name not in ("checkpoint", "memory")
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
        positive: bool = True,
        penalize_root: bool = True,
        solver: str | Solver = "auto",
        tol: float = 1e-2,
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
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            warm_start=warm_start,
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
    def fit(
        self,
        X: ArrayLike | sp.spmatrix,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> StructuredLogLinearLMCV:
        """Choose the strengths, and fit the weights.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Dense: context windows, one symbol a column, the last column the most
            recent. Sparse: the path matrix that `SuffixTreeVectorizer` makes.

        y : array-like of shape (n_samples,)
            The symbol that followed each context.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, fractional or not; weight 0 is as if absent, weight
            2 as a repetition.

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

    @with_callbacks
    def fit_tokens(
        self,
        tokens: np.ndarray,
        max_depth: int,
        labels: Labels,
        *,
        skip: int = -1,
        sample_weight: np.ndarray | None = None,
        validation: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    ) -> StructuredLogLinearLMCV:
        """Fit on a running text; see `HeldOutClassifier.fit_tokens`."""
        return HeldOutClassifier.fit_tokens(
            self, tokens, max_depth, labels, skip=skip, sample_weight=sample_weight,
            validation=validation,
        )  # fmt: skip

    def _uses_held_out(self):
        return True

    def _check_params(self):
        super()._check_params()
        for name in self._searched():
            if name not in POWERS:
                raise ValueError(
                    f"search must hold some of {list(POWERS)}, got {name!r}"
                )
        if "gamma" in self._searched() and not hasattr(self._penalty(), "gamma"):
            raise ValueError(
                f"search: penalty={self.penalty!r} has no gamma; leave it out, or use "
                "an ElasticNet"
            )

    def _searched(self):
        return self._penalty().searched if self.search is None else self.search

    def _settings(self):
        return Settings(self.penalty_, self.lam_, self.alpha_, self.depth_weight_)

    def _tune(self, pairs: Pairs, count: np.ndarray, held_out: HeldOut) -> None:
        penalty, lam, *by_depth = self._given()
        settings = Settings(clone(penalty), float(lam), *map(_value, by_depth))
        with (
            ThreadMap(self.n_jobs) as parallel,
            np.errstate(over="ignore", invalid="ignore"),
        ):
            search = _Search(self, pairs, count, held_out, parallel)
            best = search.run(settings)
        self.penalty_, self.lam_, self.alpha_, self.depth_weight_ = best
        self.held_out_loss_, self.search_results_ = search.loss, search.results


class _Search:
    """Fits of one problem with changing strengths, from the best weights so far."""

    def __init__(self, model, pairs, count, held_out, parallel):
        self.model, self.parallel = model, parallel
        self.pairs, self.count = pairs, count
        ends = np.flatnonzero(held_out.weight)
        self.node = held_out.pairs.nodes()[ends]
        self.target = held_out.pairs.target[ends]
        self.weight = held_out.weight[ends]
        self.w, self.beta, self.loss, self.results = None, None, np.inf, []

    def run(self, settings: Settings) -> Settings:
        """The best settings."""
        model = self.model
        self.try_out(settings)
        coordinates = self.coordinates(settings)
        factor = float(model.factor)
        for _ in range(N_SCALES):
            helped = True
            while helped and coordinates:
                helped = False
                for coordinate in coordinates:
                    for step in (factor, 1.0 / factor):
                        moved = False
                        while len(self.results) < model.max_fits:
                            other = coordinate.scaled(settings, step)
                            if not self.try_out(other):
                                break
                            settings, moved = other, True
                        if moved:
                            helped = True
                            break
                if len(self.results) >= model.max_fits:
                    return settings
            factor = np.sqrt(factor)
        return settings

    def coordinates(self, settings):
        depths = range(self.pairs.tree.n_levels)
        out = []
        for name in self.model._searched():
            one = _Coordinate(name, None)
            value = one._holder(settings)
            split = (
                [one] if np.ndim(value) == 0 else [_Coordinate(name, k) for k in depths]
            )
            out += [c for c in split if c.of(settings) > 0.0]
        return out

    def try_out(self, settings) -> bool:
        """Fit; whether that is the best so far, whose weights are then kept."""
        model = self.model
        problem = model._problem(self.pairs, self.count, settings, self.parallel)
        loss, bound = LogLinearLoss(problem), settings.penalty.bind(problem)
        if self.w is None:
            w = model._start(problem, loss, bound, settings)
        else:
            w = self.w.copy()
            # The scores of the best fit: alpha alone may have changed.
            for k, ratio in enumerate(self.beta / problem.beta_by_depth):
                if ratio != 1.0:
                    w[self.pairs.level(k)] *= ratio
        result = model._solver().solve(loss, bound, w, lambda *_: False)
        log_prob, log_backoff = loss.backoff(result.w)
        fitted = BackoffModel(self.pairs, log_prob, log_backoff)
        log_proba = fitted.log_proba(self.node, self.target)
        held_out_loss = float(-(self.weight @ log_proba) / self.weight.sum())
        self.results.append(
            {
                **{name: getattr(settings, name) for name in Settings._fields},
                "held_out_loss": held_out_loss,
                "n_iter": len(result.history),
            }
        )
        if model.verbose > 0:
            print(
                f"[{type(model).__name__}] fit {len(self.results)}: held-out loss "
                f"{held_out_loss:.5f}, lam={settings.lam:.4g}",
                flush=True,
            )
        if not held_out_loss < self.loss:
            return False
        self.w, self.beta = result.w.copy(), problem.beta_by_depth
        self.loss = held_out_loss
        return True


def _value(given):
    """A number, or an array that is not the user's."""
    return float(given) if np.ndim(given) == 0 else np.array(given, dtype=np.float64)
