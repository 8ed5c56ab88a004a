"""Models along a falling lam: where weights enter, and warm starts on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone

from .._checks import INT32_MAX, as_floats
from .._compat import BaseEstimator, Interval, validate_params
from .._docs import shared_docs
from .._parallel import ThreadMap
from ..backoff import BackoffModel
from ..backoff._held_out import HeldOut, HeldOutClassifier
from ..context_tree import Pairs
from ..symbols import Labels
from ._estimator import LARGEST, StructuredLogLinearLM
from ._loss import LogLinearLoss
from ._memory import SOLUTIONS
from ._problem import Problem
from ._screening import RootProblem, check_screening, smallest_lam
from ._solvers import Result
from ._solvers._base import relative_residual
from ._warm import warm_weights

# Blocks of the docstrings of `lam_max` and `lam_path`; see `shared_docs`.
_SHARED = {
    "samples": """
estimator : StructuredLogLinearLM, or an estimator that holds one
    Its parameters but `lam`. A `LanguageModel` takes sentences.

X : array-like, CSR matrix, or sentences
    As `fit` of the estimator takes it.

y : array-like of shape (n_samples,), default=None
    As `fit` of the estimator takes it.
""",
    "sample_weight": """
sample_weight : array-like of shape (n_samples,), default=None
    As `fit` of the estimator takes it.
""",
}


class LamPath:
    r"""Models of one penalty with falling strengths, from `lam_path`.

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

    optimality : ndarray of shape (n_lams,)
        Optimality residual of each model; see `StructuredLogLinearLM`.

    held_out_loss : ndarray of shape (n_lams,) or None
        Mean log-loss of the held-out samples, in nats.

    pairs : Pairs
        Contexts and what followed them.

    count : ndarray of shape (n_pairs,)
        Of each pair.

    labels : Labels
        What the ids mean.
    """

    def __init__(
        self,
        pairs: Pairs,
        count: np.ndarray,
        beta: np.ndarray,
        labels: Labels,
        fits: list[dict],
        positive: bool,
    ) -> None:
        self.pairs, self.count, self.labels = pairs, count, labels
        self._beta, self._positive = beta, positive
        self.lams = np.array([fit["lam"] for fit in fits])
        self._columns = [(fit["row"], fit["coef"]) for fit in fits]
        self.objective = np.array([fit["objective"] for fit in fits])
        self.n_parameters = np.array([row.size for row, _ in self._columns])
        self.n_iter = np.array([fit["n_iter"] for fit in fits])
        self.optimality = np.array([fit["optimality"] for fit in fits])
        self.held_out_loss = None
        if "held_out_loss" in fits[0]:
            self.held_out_loss = np.array([fit["held_out_loss"] for fit in fits])

    @cached_property
    def coefs(self) -> sp.csc_array:
        """Weights of each pair, a column for each strength."""
        rows, values = zip(*self._columns)
        ptr = np.concatenate([[0], np.cumsum(self.n_parameters)])
        if ptr[-1] <= INT32_MAX:  # or all is copied to one kind of index
            ptr = ptr.astype(np.int32)
        coefs = sp.csc_array(
            (np.concatenate(values), np.concatenate(rows), ptr),
            shape=(self.pairs.n_pairs, self.lams.size),
        )
        ends = list(pairwise(coefs.indptr.tolist()))
        self._columns = [(coefs.indices[a:b], coefs.data[a:b]) for a, b in ends]
        return coefs

    def model(self, index: int) -> BackoffModel:
        """The model of one strength.

        Parameters
        ----------
        index : int
            Its number in `lams`.

        Returns
        -------
        model : BackoffModel
        """
        w = np.zeros(self.pairs.n_pairs)
        row, values = self._columns[range(self.lams.size)[index]]
        w[row] = values
        problem = Problem(self.pairs, self.count, self._beta, positive=self._positive)
        trie, w = problem.expand(w)
        log_prob, log_backoff = LogLinearLoss(trie).backoff(w)
        return BackoffModel(trie.pairs, log_prob, log_backoff, self.labels)

    def __repr__(self):
        return (
            f"<LamPath: {self.lams.size} strengths from {self.lams[0]:.4g} to "
            f"{self.lams[-1]:.4g}, {self.n_parameters[0]} to {self.n_parameters[-1]} "
            f"of {self.pairs.n_pairs} weights>"
        )


class _PathFitter(HeldOutClassifier, StructuredLogLinearLM):
    """Stands in the place of a `StructuredLogLinearLM` while a path is made.

    What fits it (a `LanguageModel`) clones it, and its results are what is wanted: it
    is its own clone.
    """

    lams: np.ndarray | None = None
    n_lams, eps = 1, 1.0
    validates, only_lam_max = False, False
    _held_out: HeldOut | None = None

    def __sklearn_clone__(self):
        return self

    def fit(self, X, y, sample_weight=None, X_val=None, y_val=None):
        return HeldOutClassifier.fit(self, X, y, sample_weight, X_val, y_val)

    def fit_tokens(self, tokens, max_depth, labels, **more):
        return HeldOutClassifier.fit_tokens(self, tokens, max_depth, labels, **more)

    def _uses_held_out(self):
        return self.validates

    def _tune(self, pairs, count, held_out):
        self._held_out = held_out

    def _check_params(self):
        super()._check_params()
        if self.lams is None or self.only_lam_max:
            check_screening(self._penalty(), "lam_max")
        if self.checkpoint is not None and not self.only_lam_max:
            raise ValueError(
                "checkpoint: lam_path keeps no state of its fits; set checkpoint=None, "
                "or fit the models one by one with a folder"
            )

    def _fit_pairs(self, pairs, count):
        with (
            ThreadMap(self.n_jobs) as parallel,
            np.errstate(over="ignore", invalid="ignore"),
        ):
            trie, w = self._run(pairs, count, parallel)
            log_prob, log_backoff = LogLinearLoss(trie).backoff(w)
        return trie.pairs, log_prob, log_backoff

    def _run(self, pairs, count, parallel):
        settings = self._settings()._replace(lam=1.0)
        lams, largest = self.lams, None
        if lams is None or self.only_lam_max:
            problem = self._problem(pairs, count, settings, parallel)
            largest = smallest_lam(problem, settings.penalty.bind(problem))
            if self.only_lam_max:
                self.lam_max_ = largest
                return problem.expand(np.zeros(problem.n_pairs))
            if largest == 0.0:
                raise ValueError(
                    "lams: no weight below the root is ever other than zero on these "
                    "samples, so that there is no lam to begin with; give lams"
                )
            lams = largest * np.geomspace(1.0, self.eps, self.n_lams)
        fits, before, weight = [], [], None
        for lam in lams.tolist():
            now = settings._replace(lam=lam)
            problem = self._problem(pairs, count, now, parallel, node_weight=weight)
            weight = problem.node_weight
            loss, bound = LogLinearLoss(problem), settings.penalty.bind(problem)
            if lam == largest:
                result = _unigrams(problem, loss, bound)
            else:
                result = self._solver().solve(
                    loss, bound, self._begin(loss, bound, now, before),
                    lambda *_: False,
                )  # fmt: skip
            w = result.w.copy()
            solution = self._solution(problem, now, w, result.objective)
            before = [*before[1 - SOLUTIONS :], solution]
            fits.append(self._fit_of(loss, result, lam))
        self.path_ = LamPath(
            pairs, count, problem.beta_by_depth, Labels(self.classes_, None), fits,
            self.positive,
        )  # fmt: skip
        return problem.expand(w)

    def _begin(self, loss, bound, settings, before):
        problem = loss.problem
        w = None
        if before:
            wanted = self._solution(problem, settings, before[-1].w)
            w = warm_weights(loss, bound, wanted, before)
        return self._start(problem, loss, bound, settings) if w is None else w

    def _fit_of(self, loss, result, lam):
        row = np.flatnonzero(result.w).astype(np.int32)  # as pairs are numbered
        fit = {
            "lam": lam,
            "row": row,
            "coef": result.w[row],
            "objective": result.objective,
            "n_iter": len(result.history),
            "optimality": result.optimality,
        }
        if self._held_out is not None:
            fitted = BackoffModel(loss.problem.pairs, *loss.backoff(result.w))
            fit["held_out_loss"] = self._held_out.log_loss(fitted)
        if self.verbose > 0:
            print(
                f"[lam_path] lam={lam:.4g}: objective {result.objective:.6g}, "
                f"{np.count_nonzero(result.w)} weights, {fit['n_iter']} iterations",
                flush=True,
            )
        return fit


def _unigrams(problem, loss, bound):
    """The solution where all weights below the root are zero."""
    w, g, new = np.zeros((3, problem.n_pairs))
    w[: problem.n_classes] = RootProblem(problem, bound).weights(1.0)
    objective = loss.value_and_gradient(w, g) + bound.value(w)
    squared, _ = bound.step(1.0, w, g, new)
    optimality = relative_residual(squared, problem)
    return Result(w, [objective], objective, optimality, "converged")


def _fitter(estimator):
    """(a clone whose log-linear model is a fitter, the fitter)."""
    if isinstance(estimator, StructuredLogLinearLM):
        fitter = _PathFitter(**_parameters(estimator))
        return fitter, fitter
    if not isinstance(estimator, BaseEstimator):
        raise TypeError(
            "estimator must be a StructuredLogLinearLM, or hold one, as a "
            f"LanguageModel does, got {type(estimator).__name__}"
        )
    inside = [
        (name, part)
        for name, part in estimator.get_params(deep=True).items()
        if isinstance(part, StructuredLogLinearLM)
    ]
    if len(inside) != 1:
        raise TypeError(
            f"estimator: a {type(estimator).__name__} must hold one "
            f"StructuredLogLinearLM to vary lam of, and holds {len(inside)}"
        )
    name, model = inside[0]
    fitter = _PathFitter(**_parameters(model))
    return clone(estimator).set_params(**{name: fitter}), fitter


def _parameters(model):
    names = StructuredLogLinearLM._get_param_names()
    return {name: getattr(model, name) for name in names}


def _arguments(X, y, sample_weight):
    given = {"sample_weight": sample_weight} if sample_weight is not None else {}
    return ((X,) if y is None else (X, y)), given


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
    :math:`v_q = \beta_q (c_q - E_q)`, what pulls on each other weight, which is zero
    where v lies in the dual ball of the penalty: for "l1" and "elastic_net" where
    :math:`v_q \le \lambda d_q`, :math:`d_q` the depth weight. For groups over subtrees
    where :math:`R_q \le \lambda d_q` at depth 1, with

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
        In counts, as `lam`; 0 where no weight below the root would ever be other than
        zero.

    Raises
    ------
    ValueError
        If the penalty never makes weights exactly zero ("l2", or a depth weight of 0).

    See Also
    --------
    lam_path : Models from there on down.

    Examples
    --------
    >>> from sklstruct import StructuredLogLinearLM
    >>> from sklstruct.datasets import load_python_topics
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.loglinear import lam_max
    >>> lm = LanguageModel(StructuredLogLinearLM(tol=1e-5), max_depth=2)
    >>> topics = load_python_topics()[:300]
    >>> largest = lam_max(lm, topics)
    >>> for lam in (1.01 * largest, 0.99 * largest):
    ...     fitted = lm.set_params(estimator__lam=lam).fit(topics)
    ...     coef = fitted.estimator_.coef_
    ...     print(coef[len(fitted.vocabulary_):].any())
    False
    True
    """
    outer, fitter = _fitter(estimator)
    fitter.only_lam_max = True
    arguments, given = _arguments(X, y, sample_weight)
    outer.fit(*arguments, **given)
    return fitter.lam_max_


@shared_docs(**_SHARED)
@validate_params(
    {
        "n_lams": [Interval(Integral, 1, None, closed="left")],
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
    r"""Models with falling strengths, each begun where the last one ended.

    .. math::
        \hat w(\lambda_j) = \arg\min_{w \ge 0} f(w) + \lambda_j\, \Omega(w), \qquad
        \lambda_1 > \lambda_2 > \ldots

    The samples are read and counted once.

    Parameters
    ----------
    {samples}

    lams : array-like of shape (n_lams,), default=None
        Strengths, in any order, finite and not negative. None: `n_lams` of them in
        equal ratios, from `lam_max` on.

    n_lams : int, default=20
        Number of strengths where `lams` is None, at least 1.

    eps : float, default=1e-2
        The smallest strength over the largest, between 0 and 1, where `lams` is None.

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
        estimator has a `checkpoint`: a path keeps none.

    See Also
    --------
    lam_max : The strength that a path begins with.
    StructuredLogLinearLMCV : Searches other parameters too.
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
    >>> bool((path.n_parameters[1:] >= path.n_parameters[:-1]).all())
    True
    >>> best = path.model(path.held_out_loss.argmin())
    >>> best.check_normalized() < 1e-12
    True
    """
    outer, fitter = _fitter(estimator)
    if lams is not None:
        fitter.lams = _check_lams(lams)
    fitter.n_lams, fitter.eps = n_lams, eps
    arguments, given = _arguments(X, y, sample_weight)
    if X_val is not None or y_val is not None:
        fitter.validates = True
        given["X_val"] = X_val
        if y_val is not None:
            given["y_val"] = y_val
    outer.fit(*arguments, **given)
    path = fitter.path_
    model = getattr(outer, "backoff_model_", None)
    path.labels = fitter.backoff_model_.labels if model is None else model.labels
    return path


def _check_lams(lams: Iterable[float]) -> np.ndarray:
    lams = as_floats("lams", lams, 1)
    if not lams.size:
        raise ValueError("lams is empty: give at least one strength")
    if not ((lams >= 0.0) & (lams <= LARGEST)).all():
        raise ValueError(
            f"lams must be finite, at least 0 and at most {LARGEST:g}, got "
            f"{lams.tolist()}"
        )
    return np.sort(lams)[::-1]
