"""Models for a sequence of falling lam, with warm starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone

from .._checks import as_floats, check_reals
from .._compat import BaseEstimator, Interval, validate_params
from .._docs import shared_docs
from .._parallel import ThreadMap
from ..backoff import BackoffModel, Counted, HeldOutSplit
from ..backoff._estimator import HeldOutData, check_parameters, count_samples
from ._estimator import StructuredLogLinearLM
from ._fit import (
    LARGEST,
    Fit,
    bind,
    check_one_tree,
    fitted_numbers,
    held_out_loss,
    is_positive,
    penalty_of,
)
from ._problem import Problem
from ._screening import NEEDS, RootProblem, SafeScreening, screens, smallest_lam
from ._solvers import Result, relative_residual

# Blocks of the docstrings of `lam_max` and `lam_path`; see `shared_docs`.
_SHARED = {
    "samples": """
estimator : StructuredLogLinearLM, or an estimator that holds one
    The estimator, whose `lam` is not used. A `LanguageModel` takes sentences.

X : array-like, CSR matrix, sentences or Counted
    Samples in the form that `fit` takes, or counts from `LanguageModel.count`.

y : array-like of shape (n_samples,), default=None
    As in `fit` of the estimator.
""",
    "sample_weight": """
sample_weight : array-like of shape (n_samples,), default=None
    As in `fit` of the estimator.
""",
}


class LamPath:
    r"""Models with falling strengths of a penalty, from `lam_path`.

    Attributes
    ----------
    lams : ndarray of shape (n_lams,)
        Strengths :math:`\lambda`, falling.

    coefs : csc_array of shape (n_pairs, n_lams)
        Weights of each pair, in the order of the context tree.

    objective : ndarray of shape (n_lams,)
        Penalised loss of each model, in nats.

    n_parameters : ndarray of shape (n_lams,)
        Number of weights that are not zero.

    n_iter : ndarray of shape (n_lams,)
        Evaluations of loss and gradient.

    optimality, gap : ndarray of shape (n_lams,)
        Optimality residual and duality gap of each model, as ``optimality_`` and
        ``gap_`` of `StructuredLogLinearLM`.

    held_out_loss : ndarray of shape (n_lams,) or None
        Mean log-loss of the held-out samples, in nats.

    pairs : Pairs
        Contexts and the classes that followed them.

    count : ndarray of shape (n_pairs,)
        The count of each pair.

    labels : Labels
        The classes and symbols of the ids.
    """

    def __init__(
        self, counted: Counted, beta: np.ndarray, fits: list[dict], positive: bool
    ) -> None:
        self.pairs, self.count = counted.pairs, counted.count
        self.labels = counted.labels
        self._beta, self._positive = beta, positive
        self.lams = np.array([fit["lam"] for fit in fits])
        # as one copy: hstack of columns makes three
        ptr = np.cumsum([0, *(fit["row"].size for fit in fits)])
        ptr = ptr.astype(np.int32 if ptr[-1] < 2**31 else np.int64)
        row, coef = (
            np.concatenate([f[name] for f in fits]) for name in ("row", "coef")
        )
        shape = counted.pairs.n_pairs, len(fits)
        self.coefs = sp.csc_array((coef, row, ptr), shape=shape)
        self.objective = np.array([fit["objective"] for fit in fits])
        self.n_parameters = np.diff(self.coefs.indptr)
        self.n_iter = np.array([fit["n_iter"] for fit in fits])
        self.optimality = np.array([fit["optimality"] for fit in fits])
        self.gap = np.array([fit["gap"] for fit in fits])
        self.held_out_loss = None
        if "held_out_loss" in fits[0]:
            self.held_out_loss = np.array([fit["held_out_loss"] for fit in fits])

    def model(self, index: int) -> BackoffModel:
        """The model of one strength.

        Parameters
        ----------
        index : int
            Index in `lams`.

        Returns
        -------
        model : BackoffModel
        """
        w = self.coefs[:, [range(self.lams.size)[index]]].toarray().ravel()
        problem = Problem(self.pairs, self.count, self._beta, positive=self._positive)
        fitted = fitted_numbers(problem, w)
        model = BackoffModel(*fitted[:3], self.labels)
        model.zero_weight = fitted.zero_weight
        return model

    def __repr__(self):
        return (
            f"<LamPath: {self.lams.size} strengths from {self.lams[0]:.4g} to "
            f"{self.lams[-1]:.4g}, {self.n_parameters[0]} to {self.n_parameters[-1]} "
            f"of {self.pairs.n_pairs} weights>"
        )


def _largest(model, counted):
    """`lam_max` of a log-linear model."""
    penalty = penalty_of(model)
    missing = [name for name in NEEDS if not hasattr(penalty.bound, name)]
    if missing:
        raise ValueError(
            f"penalty={penalty!r} has no lam_max: its bound penalty has no "
            f"{' and no '.join(missing)}, which say when a group of weights is zero"
        )
    with ThreadMap(model.n_jobs) as parallel:
        problem = bind(model, counted.pairs, counted.count, parallel, lam=1.0)
        return smallest_lam(problem, penalty.bind(problem))


def _solutions(model, counted, lams, largest):
    """The fits of all strengths; each starts at the previous solution."""
    fits, w, penalty = [], None, penalty_of(model)
    with ThreadMap(model.n_jobs) as parallel:
        whole = bind(model, counted.pairs, counted.count, parallel, lam=1.0)
        screening = None
        if screens(penalty):
            screening = SafeScreening(whole, penalty.bind(whole))
        pairs, kept, weight = whole.pairs, slice(None), whole.node_weight
        for lam in lams.tolist():
            if w is None and lam != largest:
                w = Fit(
                    model, bind(model, whole.pairs, whole.count, parallel, lam=lam)
                ).start()
            if screening is not None:
                pairs, kept, weight = screening.part(lam)
            fit = Fit(
                model,
                bind(
                    model, pairs, whole.count[kept], parallel, lam=lam,
                    node_weight=weight,
                ),
            )  # fmt: skip
            if lam == largest:
                result = _unigrams(fit)
            else:
                result = fit.solve(w[kept].copy())
            w = np.zeros(whole.n_pairs)
            w[kept] = result.w
            # Pairs that take no part are held at zero, and add nothing to the gap.
            fits.append(_row_of(fit, lam, result, w))
            if isinstance(counted, HeldOutSplit):
                # Its contexts are nodes of the whole tree.
                fits[-1]["held_out_loss"] = held_out_loss(counted.held_out, whole, w)
    return fits, whole.beta_by_depth


def _row_of(fit, lam, result, w):
    """One row of a `LamPath`; w: the weights of all pairs."""
    row = np.flatnonzero(w).astype(np.int32)
    found = {
        "lam": lam,
        "row": row,
        "coef": w[row],
        "objective": result.objective,
        "n_iter": len(result.history),
        "optimality": result.optimality,
        "gap": fit.gap(result.w),
    }
    if fit.solver.verbose > 0:
        print(
            f"[lam_path] lam={lam:.4g}: objective {result.objective:.6g}, "
            f"{row.size} weights, {found['n_iter']} iterations",
            flush=True,
        )
    return found


def _unigrams(fit):
    """The solution where all weights below the root are zero."""
    problem, bound = fit.problem, fit.bound
    w, g, new = np.zeros((3, problem.n_pairs))
    w[: problem.n_classes] = RootProblem(problem, bound).weights(1.0)
    objective = fit.loss.value_and_gradient(w, g) + bound.value(w)
    squared, _ = bound.step(1.0, w, g, new)
    optimality = relative_residual(squared, problem)
    return Result(w, [objective], objective, optimality, "converged")


def _counted(estimator, X, y, sample_weight, held_out=None):
    """(a clone of the log-linear model, the counted samples)."""
    holds = isinstance(getattr(estimator, "estimator", None), StructuredLogLinearLM)
    if isinstance(estimator, StructuredLogLinearLM):
        model = clone(estimator)
    elif holds and hasattr(estimator, "count"):
        model = clone(estimator.estimator)
    else:
        raise TypeError(
            "estimator must be a StructuredLogLinearLM to vary lam of, or hold one, as "
            f"a LanguageModel does, got {type(estimator).__name__}"
        )
    check_parameters(model)
    check_one_tree(model, "a path of strengths")
    if isinstance(X, Counted):
        counted = X.cut(model.max_depth)
    elif not holds:
        counted = count_samples(model, X, y, sample_weight, held_out)
    else:
        X_val = None if held_out is None else held_out.X
        counted = estimator.count(X, sample_weight=sample_weight, X_val=X_val)
    return model, counted.frequent(model.min_count)


@shared_docs(**_SHARED)
def lam_max(
    estimator: BaseEstimator,
    X: Any,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""The smallest strength at which only unigrams have weights.

    .. math::
        \lambda_{\max} = \min \{\lambda : \hat w_q(\lambda) = 0
        \text{ for every pair } q \text{ below the root}\} .

    The weights of the root alone are the solution of one equation. They give
    :math:`v_q = \beta_q (c_q - E_q)`, the negative gradient for each other weight. The
    other weights are zero if v lies in the dual ball of the penalty: for "l1" and
    "elastic_net" if :math:`v_q \le \lambda d_q`, with :math:`d_q` the depth weight, and
    for groups over subtrees if :math:`R_q \le \lambda d_q` at depth 1, with

    .. math::
        R_q = v_q + \sum_r (R_r - \lambda d_r)_+ \ \text{(tree\_linf)}, \qquad
        R_q^2 = v_q^2 + \sum_r (R_r - \lambda d_r)_+^2 \ \text{(tree\_l2)},

    r over the child pairs. As the weights of the root change with :math:`\lambda` too,
    the largest :math:`R_q - \lambda d_q` is one function of :math:`\lambda` in each
    case, whose root is found to rounding.

    Parameters
    ----------
    {samples}

    {sample_weight}

    Returns
    -------
    lam : float
        In counts, as `lam`; 0 if all weights below the root are zero for every
        strength.

    Raises
    ------
    ValueError
        If the penalty never makes weights exactly zero ("l2", or a depth weight of 0).

    See Also
    --------
    lam_path : Models with falling strengths from `lam_max` on.

    Examples
    --------
    >>> from sklstruct import StructuredLogLinearLM
    >>> from sklstruct.datasets import load_python_topics
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.loglinear import AutoSolver, lam_max
    >>> model = StructuredLogLinearLM(solver=AutoSolver(tol=1e-5))
    >>> lm = LanguageModel(model, max_depth=2)
    >>> topics = load_python_topics()[:300]
    >>> largest = lam_max(lm, topics)
    >>> import numpy as np
    >>> for lam in (1.01 * largest, 0.99 * largest):
    ...     fitted = lm.set_params(estimator__lam=lam).fit(topics)
    ...     coef = fitted.estimator_.coef_
    ...     print(np.count_nonzero(coef[len(fitted.vocabulary_):]))
    0
    1
    """
    return _largest(*_counted(estimator, X, y, sample_weight))


@shared_docs(**_SHARED)
@validate_params(
    {
        "n_lams": [Interval(Integral, 1, 1_000_000, closed="both")],
        "eps": [Interval(Real, 0, 1, closed="neither")],
        "lams": ["array-like", None],
    },
    prefer_skip_nested_validation=True,
)
def lam_path(
    estimator: BaseEstimator,
    X: Any,
    y: ArrayLike | None = None,
    *,
    lams: Sequence[float] | None = None,
    n_lams: int = 20,
    eps: float = 1e-2,
    sample_weight: ArrayLike | None = None,
    X_val: Any = None,
    y_val: ArrayLike | None = None,
) -> LamPath:
    r"""Models with falling strengths; each fit starts at the previous solution.

    .. math::
        \hat w(\lambda_j) = \arg\min_{w \ge 0} f(w) + \lambda_j\, \Omega(w), \qquad
        \lambda_1 > \lambda_2 > \ldots

    The samples are read and counted once. If weights are non-negative and the penalty
    has an absolute term, pairs whose counts show that their weights are zero at a
    strength are left out of its fit.

    Parameters
    ----------
    {samples}

    lams : array-like of shape (n_lams,), default=None
        Strengths, in any order, finite and not negative. None: `n_lams` of them in
        equal ratios, from `lam_max` on.

    n_lams : int, default=20
        Number of strengths if `lams` is None, from 1 to 1 000 000.

    eps : float, default=1e-2
        Ratio of the smallest to the largest strength, between 0 and 1, if `lams` is
        None.

    {sample_weight}

    X_val, y_val : as X and y, default=None
        Held-out samples, for `held_out_loss`.

    Returns
    -------
    path : LamPath
        Weights, objectives, numbers of weights, and models.

    Raises
    ------
    ValueError
        If `lams` is None and the penalty never makes weights exactly zero. If the
        estimator has a `checkpoint`, a `prior` or an active set.

    See Also
    --------
    lam_max : The strength that a path begins with.
    StructuredLogLinearLMCV : Also searches other parameters.
    sklearn.linear_model.enet_path : The same for linear regression.

    Examples
    --------
    >>> from sklstruct import StructuredLogLinearLM
    >>> from sklstruct.datasets import load_python_topics
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.loglinear import lam_path
    >>> lm = LanguageModel(StructuredLogLinearLM(), max_depth=2)
    >>> topics = load_python_topics()
    >>> path = lam_path(lm, topics[:300], n_lams=5, X_val=topics[300:400])
    >>> path.n_parameters.tolist()
    [27, 78, 339, 2046, 6181]
    >>> best = path.model(path.held_out_loss.argmin())
    >>> round(best.check_normalized(), 9)
    0.0
    """
    strengths = None if lams is None else _check_lams(lams)
    held_out = None
    if X_val is not None or y_val is not None:
        if X_val is None or (y_val is None) != (y is None):
            raise ValueError("X_val and y_val must be given together")
        held_out = HeldOutData(X_val, y_val)
    model, counted = _counted(estimator, X, y, sample_weight, held_out)
    if model.checkpoint is not None:
        raise ValueError(
            "checkpoint: lam_path does not store its fits; set checkpoint=None, or "
            "fit the models one by one with a folder"
        )
    largest = None
    if strengths is None:
        largest = _largest(model, counted)
        if largest == 0.0:
            raise ValueError(
                "lams: all weights below the root are zero for every lam on these "
                "samples, so that lams cannot be chosen; give lams"
            )
        strengths = largest * np.geomspace(1.0, eps, n_lams)
    fits, beta = _solutions(model, counted, strengths, largest)
    return LamPath(counted, beta, fits, is_positive(model))


def _check_lams(lams: Iterable[float]) -> np.ndarray:
    lams = as_floats("lams", lams, 1)
    if not lams.size:
        raise ValueError("lams is empty: give at least one strength")
    check_reals("lams", lams, f"[0, {LARGEST:g}]")
    return np.sort(lams)[::-1]
