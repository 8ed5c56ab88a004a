"""Logistic regression with sparse and grouped features, and its choice of C."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from .._checks import (
    INT32_MAX,
    as_floats,
    check_memory,
    check_sparse,
    check_squares,
    check_total,
)
from .._compat import (
    BaseEstimator,
    CallbackSupportMixin,
    HasMethods,
    Interval,
    MetaEstimatorMixin,
    StrOptions,
    _align_api_if_sparse,
    _fit_context,
    with_callbacks,
)
from .._parallel import (
    ThreadMap,
    row_blocks,
    rows_per_block,
    single_blas_thread,
    stop_flag,
)
from .._progress import Progress
from ._feature_bounds import ProximalTerm
from ._feature_problem import FeatureProblem, Found, Report
from ._fista import AcceleratedSolver
from ._labels import FlatMixin, read_training
from ._newton_cd import NewtonSolver
from ._penalties import FEATURE_PENALTIES, bind
from ._samples import check_class_weight, is_sparse

# Ratio of the lengths of two columns from which a warning is given.
_UNEVEN = 1e8

# The largest over the smallest C where `Cs` is a number.
_RANGE = 1000.0


class LinearPath(NamedTuple):
    """Models with growing C, from `StructuredLogisticRegression.coef_path`.

    Attributes
    ----------
    Cs : ndarray of shape (n_Cs,)
        Inverse strengths, ascending.

    coefs : list of CSR array of shape (n_classes, n_features)
        Weights of each model.

    intercepts : ndarray of shape (n_Cs, n_classes)
        Intercepts.

    objective, gap : ndarray of shape (n_Cs,)
        Total loss + penalty / C, and its duality gap, in nats.

    n_iter, n_alive : ndarray of shape (n_Cs,)
        Rounds, and features not proved to have weight 0.
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


class _SparseFeatures(CallbackSupportMixin, FlatMixin, BaseEstimator):
    """Predictions by `coef_` and `intercept_`."""

    coef_: Any
    intercept_: NDArray

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        if "coef_" in state:
            self._check_fitted()

    def _check_fitted(self):
        """ValueError if the fitted attributes of a damaged pickle cannot be used."""
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
        check_sparse(X)
        return validate_data(
            self, X, accept_sparse="csr", dtype=np.float64, reset=False
        )

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
        return scores - logsumexp(scores, axis=1, keepdims=True)


class StructuredLogisticRegression(_SparseFeatures):
    r"""Logistic regression with few weights, groups or trees of features.

    .. math::
        \min_{W, b}\ C \sum_i s_i\, \ell(W x_i + b, y_i) + \Omega(W),

    with sample weights :math:`s_i` and the multinomial log-loss; for two classes the
    binary one, with one row of weights for the second class against the first. With
    several labels per sample (y an indicator matrix) each label has a binary log-loss,
    and all labels share X and the penalty. Strengths :math:`\lambda = 1 / C` are those
    of the language models in `sklstruct.loglinear`: of the total loss.

    The result comes with a proof: `gap_` is at least the distance of the objective to
    its minimum.

    Parameters
    ----------
    penalty : {"l1", "elastic_net", "group_lasso"} or object, default="l1"
        :math:`\Omega`: `L1`, `ElasticNet`, `GroupLasso`, `L2` or `TreeNorm`; the names
        are those with default parameters. Or an object with ``value(W)`` and
        ``prox(W, kappa)`` for W of shape (n_rows, n_features), the latter the minimiser
        over U of :math:`\tfrac12 \|U - W\|^2 + \kappa\, \Omega(U)`, for a norm. For a
        convex :math:`\Omega` that is not a norm it also has ``conjugate(V)``, the
        largest :math:`\langle V, W \rangle - \Omega(W)`.

    C : float, default=1.0
        Inverse of the strength, positive and finite. Below 1 / `lam_max_` all weights
        are 0.

    fit_intercept : bool, default=True
        Whether there are intercepts b, which are not penalised.

    class_weight : dict or "balanced", default=None
        Weight >= 0 of each class, as in scikit-learn; multiplies `sample_weight`.
        Weight 0 removes the class. None with several labels.

    tol : float, default=1e-4
        Largest duality gap, in nats per sample (per unit of weight), positive: the
        objective is at most that much above the minimum.

    max_iter : int, default=100
        Largest number of rounds, at least 1. A round has one duality gap, and up to 30
        Newton steps on a working set or 20 accelerated proximal gradient steps.

    verbose : int, default=0
        If v > 0, print a line for every v-th round.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels; with several labels per sample the numbers of the columns of y.

    multilabel_ : bool
        Whether y was an indicator matrix.

    label_columns_ : LabelColumns or None
        With several labels the columns of y: ``known`` are those with a positive, to
        which rows of ``coef_`` belong; others have probability 0.

    coef_ : CSR array or matrix of shape (n_classes, n_features)
        Weights; (1, n_features) with two classes or one.

    intercept_ : ndarray of shape (n_classes,)
        Intercepts, or (1,).

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
    LinearClassifier : Squared l2 penalty; more accurate on text, with all weights.
    sklearn.linear_model.LogisticRegression : Its solver saga has l1 and elastic net.

    Notes
    -----
    "l1", "elastic_net" and groups that do not overlap are solved by proximal Newton
    steps on a working set, with the exact multinomial Hessian; other penalties by
    accelerated proximal gradient steps, which need more time.

    With one class in y the model predicts it with probability 1.

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
            n_lanes = columns.known.size
        else:
            self.classes_, code = np.unique(y, return_inverse=True)
            n_lanes = self.classes_.size if self.classes_.size > 2 else 1
        self._check_size(X, n_lanes)
        if columns is not None:
            Y = np.ascontiguousarray(y[:, columns.known].toarray().T != 0)
        elif n_lanes == 1:
            Y = (code == self.classes_.size - 1)[None, :]
        else:
            Y = np.arange(n_lanes)[:, None] == code
        return _Samples(X, Y, columns is None and n_lanes > 1, weight, index)

    def _check_size(self, X, n_lanes):
        n, d = X.shape
        if max(n, d) > INT32_MAX:
            raise ValueError(
                f"X has {n} rows and {d} columns, and may have 2^31 - 1 of each; use "
                "fewer (FeatureHasher)"
            )
        entries = X.nnz if is_sparse(X) else 2.0 * n * d
        check_memory(
            30.0 * entries + 8.0 * n_lanes * (7.0 * n + 3.0 * d),
            None,
            f"{n} samples of {d} features and {n_lanes} rows of weights",
            "use fewer features or samples, or LinearClassifier, which needs less",
        )

    def _problem(self, samples, stop) -> FeatureProblem:
        X, Y, coupled, weight, _ = samples
        return FeatureProblem(X, Y, coupled, weight, bool(self.fit_intercept), stop)

    def _warn_uneven(self, problem):
        length = np.sqrt(problem.squares[problem.squares > 0])
        if length.size and length.max() > _UNEVEN * length.min():
            warnings.warn(
                f"X has columns of lengths from {length.min():.2g} to "
                f"{length.max():.2g}: one penalty does not suit all of them, and the "
                "gap may not get small. Scale the columns "
                "(sklearn.preprocessing.StandardScaler, MaxAbsScaler)",
                stacklevel=5,
            )

    def _warn_gap(self, gaps, totals, stacklevel=5):
        """ConvergenceWarning of the largest gap per sample."""
        worst = max(gap / total for gap, total in zip(gaps, totals))
        warnings.warn(
            f"max_iter={self.max_iter} rounds, or the precision of floating point "
            f"numbers, leave a duality gap of {worst:.2g} nats per sample, and tol is "
            f"{self.tol:g}; scale the columns of X, or increase max_iter or tol, or "
            "decrease C",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )

    def _solver(self, problem):
        """(solver, penalty of strength 1)."""
        term = bind(self.penalty, problem)
        kind = AcceleratedSolver if isinstance(term, ProximalTerm) else NewtonSolver
        return kind(problem), term

    def _solve(self, solver, term, lams, report):
        """A `Found` for each strength, falling; each begins at the last one."""
        goal = self.tol * solver.problem.total
        for lam in lams:
            yield solver.solve(term.scaled(lam), goal, self.max_iter, report)

    def _keep(self, found: Found, lam_max: float) -> None:
        self.coef_ = self._sparse(found)
        self.intercept_ = found.b
        self.gap_, self.objective_ = found.gap, found.objective
        self.n_alive_, self.n_iter_ = found.n_alive, found.objective.size
        self.lam_max_ = lam_max

    def _sparse(self, found):
        """The weights in CSR format (lanes, features), as `sparse_interface` says."""
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
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> StructuredLogisticRegression:
        """Fit the weights.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,) or indicator of (n_samples, n_labels)
            Labels; several per sample as a dense or sparse matrix of 0 and 1.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; weight 0 is as if absent.

        Returns
        -------
        self : StructuredLogisticRegression
            Fitted estimator.

        Raises
        ------
        ValueError
            If X is not finite or so large that squares overflow, if weights are
            negative or all 0, or if the penalty does not fit the features; the message
            names the column.

        MemoryError
            If the working arrays need more than this machine's memory; says how much.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` rounds do not reach `tol`; says the gap.
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

    def coef_path(
        self,
        X: ArrayLike,
        y: ArrayLike,
        Cs: int | ArrayLike = 10,
        sample_weight: ArrayLike | None = None,
    ) -> LinearPath:
        """Models with growing C, each begun where the last one ended.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,) or indicator of (n_samples, n_labels)
            Labels, as `fit` takes them; of at least two classes.

        Cs : int or array-like of shape (n_Cs,), default=10
            Inverse strengths, positive and finite; or how many, in equal ratios from
            1 / `lam_max_`, where weights enter, to 1000 / `lam_max_`.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; weight 0 is as if absent.

        Returns
        -------
        path : LinearPath
            Weights, gaps and objectives.

        Raises
        ------
        ValueError
            If X is not finite or so large that squares overflow, if weights are
            negative or all 0, or if the penalty does not fit the features; the message
            names the column.

        MemoryError
            If the working arrays need more than this machine's memory; says how much.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` rounds do not reach `tol`; says the gap.

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
            self._warn_gap([f.gap for f in found], [problem.total], stacklevel=3)
        return LinearPath(
            grid,
            [model._sparse(f) for f in found],
            np.array([f.b for f in found]),
            np.array([f.objective[-1] for f in found]),
            np.array([f.gap for f in found]),
            np.array([f.objective.size for f in found]),
            np.array([f.n_alive for f in found]),
        )


class StructuredLogisticRegressionCV(MetaEstimatorMixin, _SparseFeatures):
    r"""`StructuredLogisticRegression` with C chosen by cross-validation.

    One path of models for each fold, from the smallest C on, each begun where the last
    one ended; then a fit of all samples with the chosen C. The fitted attributes of
    ``best_estimator_`` are attributes of this estimator too, and it predicts alike.

    Parameters
    ----------
    estimator : StructuredLogisticRegression
        The model; cloned. Its C is not used.

    Cs : int or array-like of shape (n_Cs,), default=10
        Values of C, positive and finite; or how many, in equal ratios from
        1 / `lam_max_`, where weights enter, to 1000 / `lam_max_`.

    cv : int, cross-validation generator or iterable, default=None
        As in scikit-learn; None is 5 folds, stratified with one label per sample.

    scoring : str or callable, default=None
        Score of the held-out samples, larger is better, as in scikit-learn. None: the
        weighted mean log-probability of the labels in nats; of several labels the sum
        over all of them. Samples of classes that a fold has not seen are left out.

    one_standard_error : bool, default=False
        Whether to take the smallest C whose mean score is at most one standard error
        (over the folds) below the best: fewer weights, at a score that the folds
        hardly tell from the best.

    n_jobs : int, default=None
        Threads over folds. None is 1 unless in a `joblib.parallel_config` context.
        Results do not depend on it.

    Attributes
    ----------
    best_estimator_ : StructuredLogisticRegression
        The model with the chosen C, fitted to all samples.

    C_ : float
        The value chosen.

    Cs_ : ndarray of shape (n_Cs,)
        The values tried, ascending.

    scores_ : ndarray of shape (n_folds, n_Cs)
        Scores of the held-out samples.

    classes_ : ndarray of shape (n_classes,)
        Sorted labels; with several labels per sample the numbers of the columns of y.

    multilabel_ : bool
        Whether y was an indicator matrix.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    StructuredLogisticRegression : With a given C.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.linear import StructuredLogisticRegression
    >>> from sklstruct.linear import StructuredLogisticRegressionCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = StructuredLogisticRegressionCV(
    ...     StructuredLogisticRegression("l1"), one_standard_error=True
    ... )
    >>> search.fit(X, y).coef_.nnz, round(search.C_, 2)
    (6, 4.04)
    """

    _parameter_constraints: dict = {
        "estimator": [StructuredLogisticRegression],
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "one_standard_error": ["boolean"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        estimator: StructuredLogisticRegression,
        Cs: int | ArrayLike = 10,
        cv: Any = None,
        scoring: str | Callable | None = None,
        *,
        one_standard_error: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.one_standard_error = one_standard_error
        self.n_jobs = n_jobs

    @property
    def class_weight(self) -> dict | str | None:
        """Weights of classes, as the estimator has them."""
        return self.estimator.class_weight

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> StructuredLogisticRegressionCV:
        """Choose C, and fit the weights.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,) or indicator of (n_samples, n_labels)
            Labels; several per sample as a dense or sparse matrix of 0 and 1.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; weight 0 is as if absent.

        Returns
        -------
        self : StructuredLogisticRegressionCV
            Fitted estimator.

        Raises
        ------
        ValueError
            If X is not finite or so large that squares overflow, if weights are
            negative or all 0, or if the penalty does not fit the features; the message
            names the column.

        MemoryError
            If the working arrays need more than this machine's memory; says how much.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` rounds do not reach `tol`; says the gap.
        """
        model = clone(self.estimator)
        model._validate_params()
        samples = model._read_samples(X, y, sample_weight)
        labels = model._labels_of(samples)
        if model.classes_.size == 1:
            raise ValueError("y has one class: choosing C needs two or more")
        folds = self._folds(X, y, samples, labels)
        with (
            Progress.of_fit(self, len(folds) + 1) as progress,
            stop_flag() as stop,
            single_blas_thread(),
            ThreadMap(self.n_jobs) as parallel,
        ):
            problem = model._problem(samples, stop)
            model._warn_uneven(problem)
            solver, term = model._solver(problem)
            lam_max = solver.largest_lam(term)
            self.Cs_ = strengths(self.Cs, lam_max)
            results = parallel(
                lambda fold: self._fold(samples, labels, fold, stop), folds
            )
            self.scores_ = np.array([scores for scores, _ in results])
            for i, scores in enumerate(self.scores_):
                progress.step(f"fold {i}: best score {scores.max():.4g}", "fold")
            self.C_ = float(self.Cs_[self._choose()])
            (found,) = model._solve(solver, term, [1 / self.C_], silent)
            model._keep(found, lam_max)
        gaps = [(gap, 1.0) for _, gap in results] + [(found.gap, problem.total)]
        if any(gap > model.tol * total for gap, total in gaps):
            model._warn_gap(*zip(*gaps))
        self.best_estimator_ = model.set_params(C=self.C_)
        fitted = {k: v for k, v in vars(model).items() if k.endswith("_")}
        self.__dict__.update(fitted)
        return self

    def _folds(self, X, y, samples, labels):
        """(training, held-out) samples of each fold, numbered as in `samples`."""
        if self.cv is None or isinstance(self.cv, Integral):
            cv = check_cv(self.cv, labels, classifier=True)
            return list(cv.split(samples.X, labels))
        # A splitter and given folds number all rows, also those of weight 0.
        number = np.full(_num_samples(X), -1)
        number[samples.rows] = np.arange(samples.rows.size)
        folds = []
        for parts in check_cv(self.cv, classifier=True).split(X, y):
            try:
                train, test = (number[part][number[part] >= 0] for part in parts)
            except IndexError as exc:
                raise ValueError(f"cv: a fold is not one of rows of X: {exc}") from exc
            if not (train.size and test.size):
                raise ValueError(
                    "cv: a part of a fold has no sample of positive weight"
                )
            folds.append((train, test))
        if not folds:
            raise ValueError("cv has no folds")
        return folds

    def _fold(self, samples, labels, fold, stop):
        """(score of each C, largest gap per sample) of a fold."""
        train, test = fold
        # the weights of the samples hold those of the classes
        model = clone(self.estimator).set_params(class_weight=None)
        weight = samples.weight[train]
        part = model._read_samples(samples.X[train], labels[train], weight)
        if model.classes_.size == 1:
            raise ValueError("cv: a fold has training samples of one class only")
        X, y = samples.X[test], labels[test]
        scorer = None
        if self.scoring is not None:
            scorer = check_scoring(model, scoring=self.scoring)
        problem = model._problem(part, stop)
        scores, worst = [], 0.0
        for found in model._solve(*model._solver(problem), 1 / self.Cs_, silent):
            model._keep(found, np.nan)
            worst = max(worst, found.gap / problem.total)
            if scorer is not None:
                scores.append(scorer(model, X, y))
            else:
                scores.append(self._mean_log_proba(model, X, y, samples.weight[test]))
        return scores, worst

    @staticmethod
    def _mean_log_proba(model, X, y, weight):
        """The default score; what the model has not seen is left out."""
        if model.label_columns_ is None:
            log_proba = model.target_log_proba(X, y)
        else:
            sign = 1 - 2 * y[:, model.label_columns_.known]
            scores = model.decision_function(X)[:, model.label_columns_.known]
            log_proba = log_expit(-sign * scores).sum(axis=1)
        known = ~np.isnan(log_proba)
        return float(np.average(log_proba[known], weights=weight[known]))

    def _choose(self):
        """The index of the C chosen."""
        mean = self.scores_.mean(axis=0)
        best = int(mean.argmax())
        if not self.one_standard_error or self.scores_.shape[0] == 1:
            return best
        n = self.scores_.shape[0]
        error = self.scores_[:, best].std(ddof=1) / np.sqrt(n)
        return int(np.flatnonzero(mean >= mean[best] - error)[0])


def reporter(progress: Progress, total: float) -> Report:
    """A report of rounds as steps of a task; total: the sum of the weights."""

    def report(objective, gap, n_iter):
        return progress.step(
            f"round {n_iter}: objective {objective:.8g}, gap {gap / total:.2g} nats "
            "per sample"
        )

    return report


def silent(objective: float, gap: float, n_iter: int) -> bool:
    """A report that says nothing."""
    return False


def nothing(problem: FeatureProblem) -> Found:
    """No weights, for one class: its probability is 1 without any."""
    n_lanes = problem.n_lanes
    return Found(
        np.empty(0, dtype=np.int32), np.empty((0, n_lanes)), np.zeros(n_lanes),
        np.zeros(1), 0.0, 0, True,
    )  # fmt: skip


def strengths(Cs: Any, lam_max: float) -> NDArray:
    """Checked values of C, ascending; a number: that many from 1 / lam_max up."""
    if isinstance(Cs, Integral):
        if Cs < 1:
            raise ValueError(f"Cs must be at least 1, or an array, got {Cs}")
        if not np.isfinite(lam_max):
            raise ValueError(
                "Cs must be an array: this penalty never makes all weights 0, so that "
                "there is no smallest C to begin with"
            )
        return np.geomspace(1, _RANGE, int(Cs)) / (lam_max if lam_max > 0 else 1.0)
    grid = np.sort(as_floats("Cs", Cs))
    if grid.size == 0 or not ((grid > 0) & np.isfinite(grid)).all():
        raise ValueError(f"Cs must be positive and finite, got {grid.tolist()}")
    return grid
