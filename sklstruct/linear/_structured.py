"""Logistic regression with sparse and grouped features."""

from __future__ import annotations

import sys
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, log_softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._checks import (
    INT32_MAX,
    as_floats,
    check_memory,
    check_sparse,
    check_squares,
)
from .._compat import (
    BaseEstimator,
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    _align_api_if_sparse,
    _fit_context,
    check_total,
    with_callbacks,
)
from .._docs import shared_docs
from .._parallel import row_blocks, rows_per_block, single_blas_thread, stop_flag
from .._progress import Progress
from .._warnings import warn
from ._feature_bounds import ProximalTerm
from ._feature_problem import FeatureProblem, Optimum, Report
from ._fista import AcceleratedSolver
from ._labels import FlatMixin, read_rows, read_training
from ._newton_cd import NewtonSolver
from ._penalties import FEATURE_PENALTIES, bind
from ._samples import check_class_weight, is_sparse

# Ratio of the lengths of two columns from which a warning is given.
_UNEVEN = 1e8

# The largest C over the smallest if `Cs` is a number.
_RANGE = 1000.0

# Blocks of docstrings; see `shared_docs`.
SAMPLES = """
X : array-like or sparse matrix of shape (n_samples, n_features)
    Features.

y : array-like of shape (n_samples,) or indicator of (n_samples, n_labels)
    Labels; several per sample as a dense or sparse matrix of 0 and 1.

sample_weight : array-like of shape (n_samples,), default=None
    Non-negative weights. Samples of weight 0 are left out.
"""
FIT_ERRORS = """
Raises
------
ValueError
    If X is not finite or so large that squares overflow, if weights are
    negative or all 0, or if the penalty does not fit the features; the message
    names the column.

MemoryError
    If the working arrays need more than this machine's memory. The message names
    the size.

Warns
-----
ConvergenceWarning
    If `max_iter` rounds do not reach `tol`. The message names the gap.
"""


class LinearPath(NamedTuple):
    """Models with increasing C, from `StructuredLogisticRegression.coef_path`.

    Attributes
    ----------
    Cs : ndarray of shape (n_Cs,)
        Inverse strengths, ascending.

    coefs : list of CSR array of shape (n_classes, n_features)
        Weights of each model.

    intercepts : ndarray of shape (n_Cs, n_classes)
        Intercepts.

    objective, gap : ndarray of shape (n_Cs,)
        Total loss + penalty / C, and its duality gap, in nats (not per sample).

    n_iter, n_alive : ndarray of shape (n_Cs,)
        Numbers of rounds, and of features not proved to have weight 0.
    """

    Cs: NDArray
    coefs: list[Any]
    intercepts: NDArray
    objective: NDArray
    gap: NDArray
    n_iter: NDArray
    n_alive: NDArray


class _Samples(NamedTuple):
    """The training set: X, lanes of outcomes, weights > 0, and their row numbers."""

    X: Any
    Y: NDArray
    coupled: bool
    weight: NDArray
    rows: NDArray


class SparseFeatures(CallbackSupportMixin, FlatMixin, BaseEstimator):
    """Predictions by `coef_` and `intercept_`."""

    coef_: Any
    intercept_: NDArray

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        if "coef_" in state:
            self._check_fitted()

    def _check_fitted(self):
        """ValueError if fitted attributes of a damaged pickle contradict each other."""
        check_sparse(self.coef_, "coef_")
        n_rows = max(self._n_rows(), 1)
        shapes = self.coef_.shape, np.shape(self.intercept_)
        if shapes != ((n_rows, self.n_features_in_), (n_rows,)):
            raise ValueError(
                "coef_ and intercept_ of the pickled model do not fit its classes_"
            )

    # --------------------------------------------------------------- prediction

    def _read(self, X):
        check_is_fitted(self, "coef_")
        X = read_rows(self, X, np.float64)
        check_squares(X)
        return X

    def _blocks(self, X, finish):
        for part in row_blocks(X.shape[0], rows_per_block(2 * self.intercept_.size)):
            scores = X[part] @ self.coef_.T
            scores = scores.toarray() if sp.issparse(scores) else scores
            finish(part, scores + self.intercept_)

    def _log_proba_of(self, scores):
        if self.label_columns_ is not None:
            return log_expit(scores)
        if scores.shape[1] == 1:
            return log_expit(scores * [-1.0, 1.0])
        return log_softmax(scores, axis=1)


class StructuredLogisticRegression(SparseFeatures):
    r"""Logistic regression with few weights, groups or trees of features.

    .. math::
        \min_{W, b}\ C \sum_i s_i\, \ell(W x_i + b, y_i) + \Omega(W),

    with sample weights :math:`s_i` and the multinomial log-loss. For two classes the
    loss is the binary log-loss, with one row of weights for the second class. With
    several labels per sample (y an indicator matrix) each label has a binary log-loss,
    and the penalty is common to all labels. As in `sklstruct.loglinear`, the loss is a
    total over the samples, and the strength is :math:`\lambda = 1 / C`.

    `gap_` is an upper bound of the distance of the objective from its minimum.

    Parameters
    ----------
    penalty : {"l1", "elastic_net", "group_lasso"} or object, default="l1"
        :math:`\Omega`: `L1`, `ElasticNet`, `GroupLasso`, `L2` or `TreeNorm`; a name is
        the penalty with default parameters. Or your own object for a norm, with the
        methods ``value(W)`` and ``prox(W, kappa)`` for W of shape (n_rows,
        n_features). ``prox`` returns the U that minimises
        :math:`\tfrac12 \|U - W\|^2 + \kappa\, \Omega(U)`. If :math:`\Omega` is convex
        but not a norm, the object must also have ``conjugate(V)``, the largest
        :math:`\langle V, W \rangle - \Omega(W)` over W.

    C : float, default=1.0
        Inverse of the strength, positive and finite. Up to 1 / `lam_max_` all weights
        are 0.

    fit_intercept : bool, default=True
        Whether there are intercepts b, which are not penalised.

    class_weight : dict or "balanced", default=None
        Weight >= 0 of each class, as in scikit-learn; multiplies `sample_weight`.
        Weight 0 removes the class. Must be None with several labels.

    tol : float, default=1e-4
        Largest duality gap, in nats per sample (per unit of weight), positive. The
        objective exceeds the minimum by at most the gap.

    max_iter : int, default=100
        Largest number of rounds, at least 1. A round computes the duality gap and takes
        up to 30 Newton steps on a working set, or 20 accelerated proximal gradient
        steps.

    verbose : int, default=0
        If v > 0, print a line for every v-th round.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels; with several labels per sample the numbers of the columns of y.

    multilabel_ : bool
        Whether y was an indicator matrix.

    label_columns_ : LabelColumns or None
        With several labels the columns of y. ``known`` are the columns with a positive
        value (others have probability 0), ``leaves`` those in ``coef_``, at least two.

    coef_ : CSR array or matrix of shape (n_classes, n_features)
        Weights. With one or two classes the shape is (1, n_features).

    intercept_ : ndarray of shape (n_classes,)
        Intercepts. With one or two classes the shape is (1,).

    gap_ : float
        Duality gap in nats, of all samples together.

    objective_ : ndarray of shape (`n_iter_`,)
        Total loss + :math:`\Omega(W) / C` in nats, at the end of each round.

    n_alive_ : int
        Number of features that are not proved to have weight 0 at the minimum.

    n_iter_ : int
        Number of rounds.

    lam_max_ : float
        The least 1 / C at which all weights are 0; infinite for `L2`.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    StructuredLogisticRegressionCV : C by cross-validation.
    LinearClassifier : Squared l2 penalty; more accurate on text, but does not select
        features.
    sklearn.linear_model.LogisticRegression : Its solver saga has l1 and elastic net.

    Notes
    -----
    "l1", "elastic_net" and groups that do not overlap are solved by proximal Newton
    steps on a working set, with the exact multinomial Hessian; other penalties by
    accelerated proximal gradient steps, which need more time.

    If y has one class, its probability is 1.

    References
    ----------
    .. [1] G.-X. Yuan, C.-H. Ho, C.-J. Lin, "An improved GLMNET for l1-regularized
       logistic regression", JMLR 13, 2012.
    .. [2] E. Ndiaye, O. Fercoq, A. Gramfort, J. Salmon, "Gap safe screening rules for
       sparsity enforcing penalties", JMLR 18, 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklstruct.linear import StructuredLogisticRegression
    >>> X, y = load_digits(return_X_y=True)
    >>> model = StructuredLogisticRegression("group_lasso", C=0.01).fit(X / 16, y)
    >>> print(f"{model.score(X / 16, y):.2f}, {(abs(model.coef_).sum(0) > 0).sum()}")
    0.86, 15
    """

    _parameter_constraints: dict = {
        "penalty": [
            StrOptions(set(FEATURE_PENALTIES)),
            HasMethods(["bind"]),
            HasMethods(["value", "prox"]),
        ],
        "fit_intercept": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "tol": [Interval(Real, 0, sys.float_info.max, closed="right")],
        "max_iter": [Interval(Integral, 1, INT32_MAX, closed="both")],
        "verbose": ["verbose"],
        "C": [Interval(Real, 0, sys.float_info.max, closed="neither")],
    }

    def __init__(
        self,
        penalty: str | Any = "l1",
        C: float = 1.0,
        *,
        fit_intercept: bool = True,
        class_weight: dict | Literal["balanced"] | None = None,
        tol: float = 1e-4,
        max_iter: int = 100,
        verbose: int = 0,
    ) -> None:
        self.penalty = penalty
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _read_samples(self, X, y, sample_weight) -> _Samples:
        check_class_weight(self.class_weight)
        X, y, weight, _, index, _ = read_training(self, X, y, sample_weight)
        check_total(weight)
        X = X.astype(np.float64, copy=False)
        check_squares(X)
        columns = self.label_columns_
        if columns is not None:
            self.classes_ = np.arange(y.shape[1])
            n_lanes = columns.leaves.size
        else:
            self.classes_, code = np.unique(y, return_inverse=True)
            n_lanes = self.classes_.size if self.classes_.size > 2 else 1
        self._check_size(X, n_lanes)
        if columns is not None:
            Y = np.ascontiguousarray(y[:, columns.leaves].toarray().T != 0)
        elif n_lanes == 1:
            Y = (code == self.classes_.size - 1)[None, :]
        else:
            Y = np.arange(n_lanes)[:, None] == code
        return _Samples(X, Y, columns is None and n_lanes > 1, weight, index)

    def _check_size(self, X, n_lanes):
        n, d = X.shape
        if max(n, d) > INT32_MAX:
            raise ValueError(
                f"X has {n} rows and {d} columns, and may have at most 2^31 - 1 of "
                "each; use fewer rows, or fewer columns (FeatureHasher)"
            )
        entries = X.nnz if is_sparse(X) else 2.0 * n * d
        check_memory(
            30.0 * entries + 8.0 * n_lanes * (7.0 * n + 3.0 * d),
            f"{n} samples of {d} features and {n_lanes} rows of weights",
            "use fewer features or samples, or LinearClassifier, which needs less",
        )

    def _problem(self, samples, stop) -> FeatureProblem:
        X, Y, coupled, weight, _ = samples
        return FeatureProblem(X, Y, coupled, weight, bool(self.fit_intercept), stop)

    def _warn_uneven(self, problem):
        square = problem.squares[problem.squares > 0]
        if square.size and square.min() < square.max() / _UNEVEN**2:
            length = np.sqrt([square.min(), square.max()])
            warn(
                f"X has columns of lengths from {length[0]:.2g} to "
                f"{length[1]:.2g}: one penalty does not suit all of them, and the "
                "gap may not get small. Scale the columns "
                "(sklearn.preprocessing.StandardScaler, MaxAbsScaler)",
            )

    def _warn_gap(self, gaps, totals):
        """Warn of the largest gap per sample (ConvergenceWarning)."""
        worst = max(gap / total for gap, total in zip(gaps, totals))
        warn(
            f"the solver stopped at max_iter={self.max_iter} rounds, or because of "
            f"rounding errors, at a duality gap of {worst:.2g} nats per sample, above "
            f"tol={self.tol:g}; scale the columns of X, increase max_iter or tol, or "
            "decrease C",
            ConvergenceWarning,
        )

    def _solver(self, problem):
        """(solver, penalty of strength 1)."""
        term = bind(self.penalty, problem)
        kind = AcceleratedSolver if isinstance(term, ProximalTerm) else NewtonSolver
        return kind(problem), term

    def _solve(self, solver, term, lams, report):
        """An `Optimum` for each of the falling strengths, begun at the previous one."""
        goal = self.tol * solver.problem.total
        for lam in lams:
            yield solver.solve(term.scaled(lam), goal, self.max_iter, report)

    def _keep(self, found: Optimum, lam_max: float) -> None:
        self.coef_ = self._sparse(found)
        self.intercept_ = found.b
        self.gap_, self.objective_ = found.gap, found.objective
        self.n_alive_, self.n_iter_ = found.n_alive, found.objective.size
        self.lam_max_ = lam_max

    def _sparse(self, found):
        """The weights (lanes, features) as CSR of the type of `sparse_interface`."""
        lane, row = np.nonzero(found.W.T)
        order = np.lexsort((found.columns[row], lane))
        lane, row = lane[order], row[order]
        ptr = np.searchsorted(lane, np.arange(found.W.shape[1] + 1)).astype(np.int32)
        weights = sp.csr_array(
            (found.W[row, lane], found.columns[row], ptr),
            shape=(found.W.shape[1], self.n_features_in_),
        )
        return _align_api_if_sparse(weights)

    def _labels_of(self, samples):
        """y of the samples of positive weight, for folds and scorers."""
        Y = samples.Y
        if self.label_columns_ is not None:
            return self.label_columns_.spread(Y.T.astype(np.int64), 0)
        code = Y.argmax(axis=0) if samples.coupled else Y[0].astype(np.intp)
        return self.classes_[code if self.classes_.size > 1 else 0 * code]

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    @shared_docs(samples=SAMPLES, errors=FIT_ERRORS)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> StructuredLogisticRegression:
        """Fit the weights.

        Parameters
        ----------
        {samples}

        Returns
        -------
        self : StructuredLogisticRegression
            Fitted estimator.

        {errors}
        """
        samples = self._read_samples(X, y, sample_weight)
        with (
            Progress.of_fit(self, self.max_iter) as progress,
            stop_flag() as stop,
            single_blas_thread(),
        ):
            problem = self._problem(samples, stop)
            self._warn_uneven(problem)
            solver, term = self._solver(problem)
            if self.classes_.size == 1:
                found, lam_max = nothing(problem), 0.0
            else:
                lam_max = solver.largest_lam(term)
                report = reporter(progress, problem.total)
                (found,) = self._solve(solver, term, [1 / self.C], report)
            self._keep(found, lam_max)
        if not found.converged:
            self._warn_gap([found.gap], [problem.total])
        return self

    @shared_docs(errors=FIT_ERRORS)
    def coef_path(
        self,
        X: ArrayLike,
        y: ArrayLike,
        Cs: int | ArrayLike = 10,
        sample_weight: ArrayLike | None = None,
    ) -> LinearPath:
        """Models with increasing C, each begun at the solution of the previous model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,) or indicator of (n_samples, n_labels)
            Labels as in `fit`, of at least two classes.

        Cs : int or array-like of shape (n_Cs,), default=10
            Inverse strengths, positive and finite; or their number, at least 1. The
            values are then equally spaced on a logarithmic scale from 1 / `lam_max_`,
            the largest C with all weights 0, to 1000 / `lam_max_`.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. Samples of weight 0 are left out.

        Returns
        -------
        path : LinearPath
            Weights, gaps and objectives.

        {errors}

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklstruct.linear import StructuredLogisticRegression
        >>> X, y = load_iris(return_X_y=True)
        >>> path = StructuredLogisticRegression().coef_path(X, y, Cs=4)
        >>> path.Cs.round(3).tolist(), [coef.nnz for coef in path.coefs]
        ([0.009, 0.087, 0.871, 8.711], [0, 2, 4, 6])
        """
        self._validate_params()
        model = clone(self)
        samples = model._read_samples(X, y, sample_weight)
        if model.classes_.size == 1:
            raise ValueError("y has one class: a path needs two or more")
        with stop_flag() as stop, single_blas_thread():
            problem = model._problem(samples, stop)
            solver, term = model._solver(problem)
            grid = strengths(Cs, solver.largest_lam(term))
            found = list(model._solve(solver, term, 1 / grid, silent))
        if not all(f.converged for f in found):
            self._warn_gap([f.gap for f in found], [problem.total])
        return LinearPath(
            grid,
            [model._sparse(f) for f in found],
            np.array([f.b for f in found]),
            np.array([f.objective[-1] for f in found]),
            np.array([f.gap for f in found]),
            np.array([f.objective.size for f in found]),
            np.array([f.n_alive for f in found]),
        )


def reporter(progress: Progress, total: float) -> Report:
    """A `Report` of rounds as steps of a task; total: the sum of the weights."""

    def report(objective, gap, n_iter):
        return progress.step(
            f"round {n_iter}: objective {objective:.8g}, gap {gap / total:.2g} nats "
            "per sample"
        )

    return report


def silent(objective: float, gap: float, n_iter: int) -> bool:
    """A `Report` that does nothing."""
    return False


def nothing(problem: FeatureProblem) -> Optimum:
    """The solution for one class, whose probability is 1: no weights."""
    n_lanes = problem.n_lanes
    return Optimum(
        np.empty(0, dtype=np.int32), np.empty((0, n_lanes)), np.zeros(n_lanes),
        np.zeros(1), 0.0, 0, True,
    )  # fmt: skip


def strengths(Cs: Any, lam_max: float) -> NDArray:
    """Checked values of C, ascending; for an integer Cs that many from 1 / lam_max."""
    if isinstance(Cs, Integral):
        if Cs < 1:
            raise ValueError(f"Cs must be at least 1, or an array, got {Cs}")
        if not np.isfinite(lam_max):
            raise ValueError(
                "Cs must be an array: an integer means values from the largest C at "
                "which all weights are 0, and this penalty never makes all weights 0"
            )
        return np.geomspace(1, _RANGE, int(Cs)) / (lam_max if lam_max > 0 else 1.0)
    grid = np.sort(as_floats("Cs", Cs))
    if grid.size == 0 or not ((grid > 0) & np.isfinite(grid)).all():
        raise ValueError(f"Cs must be positive and finite, got {grid.tolist()!r:.60}")
    return grid
