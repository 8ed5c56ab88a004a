"""DualLinearClassifier: a flat linear model of many classes on sparse rows."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from .._checks import (
    INT32_MAX,
    check_memory,
    check_rows,
    check_sparse,
)
from .._compat import (
    BaseEstimator,
    CallbackSupportMixin,
    Interval,
    StrOptions,
    _fit_context,
    available_if,
    with_callbacks,
)
from .._likelihood import TopKMixin, class_codes
from .._parallel import ThreadMap, row_blocks, rows_per_block, stop_flag
from .._progress import Progress
from . import _weights_fast as kernels
from ._calibration import LOSSES, both_outcomes, draw_fold, evidence, fit_scale
from ._samples import (
    AUTO_C,
    check_class_weight,
    costs,
    sample_weights,
    single,
    warn_uneven,
)
from ._solver import DescentSettings, Node, peak_bytes, stored_bytes
from ._weights import MOST_OUTCOMES, NodeWeights, as_rows


def _has_probabilities(estimator):
    if estimator.calibration is None and estimator.loss in ("squared_hinge", "auto"):
        raise AttributeError(
            f"loss={estimator.loss!r} has no probabilities with calibration=None; use "
            'calibration="fold"'
        )
    return True


class DualLinearClassifier(CallbackSupportMixin, TopKMixin, BaseEstimator):
    r"""Linear classifier of many classes, by dual coordinate descent on all at once.

    .. math::
        \min_{W, b}\ \tfrac12 \|W\|^2 + \tfrac12 \|b\|^2
        + \sum_i C s_i\, \ell(W x_i + a b,\ y_i),

    with sample weights :math:`s_i`, the intercept :math:`a b`, a the
    `intercept_scaling`, and one of the losses

    .. math::
        \text{squared\_hinge:}\quad & \sum_k \max(0, 1 - \sigma_{ik} z_k)^2, \\
        \text{ovr\_log\_loss:}\quad & \sum_k \ln(1 + e^{-\sigma_{ik} z_k}), \\
        \text{log\_loss:}\quad & \ln \sum_k e^{z_k} - z_{y_i},

    :math:`\sigma_{ik}` being 1 for the class of sample i and -1 for others. They are
    the problems of `LinearSVC`, of LIBLINEAR's logistic regression one-vs-rest, and of
    the multinomial `LogisticRegression`, all with a penalised intercept. Every step
    updates the dual variables of all classes for one sample. With a thousand classes
    this takes a small part of the time that one problem after the other takes.

    Probabilities are :math:`P(k \mid x) \propto e^{w g(z_k)}`, where :math:`g(z)` is z
    (log_loss), :math:`-\ln(1 + e^{-z})` (ovr_log_loss) or :math:`-\max(0, 1 - z)^2`
    (squared_hinge), and w > 0 is chosen on samples that the model has not seen.

    Parameters
    ----------
    loss : {"squared_hinge", "log_loss", "ovr_log_loss", "auto"}, \
default="squared_hinge"
        The loss. Take squared_hinge for text whose classes are nearly separable, and
        log_loss for noisy labels (the next word). "auto" fits squared_hinge with C and
        log_loss with 10 C, and keeps the one of smaller log-loss on the fold; it needs
        ``calibration="fold"``. Two classes are one problem, of the second against the
        first.

    C : float, default=1.0
        Inverse of the regularisation strength, positive. For rows of about unit length
        1 suits the squared hinge, 3 to 30 the logistic losses.

    fit_intercept : bool, default=True
        Whether there are intercepts.

    intercept_scaling : float, default=1.0
        Value a of the feature whose weight is the intercept, from 1e-15 to 1e15.
        Intercepts are penalised; a larger value penalises them less.

    calibration : {"fold", None}, default="fold"
        How w is chosen. "fold": a tenth of the samples (at most 2000, and a larger
        part of less than 1000) is held out. The model of the others is fitted first and
        scores them; then the fit continues with all samples. None: w = 1, and no
        probabilities with the squared hinge.

    weight_threshold : float, default=0.0
        Weights of at most this part of the largest of their class are dropped, in [0,
        1). 0.02 makes models of text several times smaller and hardly changes them.

    class_weight : dict or "balanced", default=None
        Weight >= 0 of each class, as in scikit-learn; multiplies `sample_weight`.
        Weight 0 removes the class.

    tol : float, default=0.01
        The descent ends after an epoch whose change of the dual variables is at most
        `tol` times that of the first epoch; > 0.

    max_iter : int, default=200
        Largest number of epochs, at least 1.

    n_jobs : int, default=None
        Threads over blocks of classes in `fit` (not with log_loss) and over samples in
        prediction. None is 1 unless in a `joblib.parallel_config` context. Results do
        not depend on it.

    random_state : int, RandomState instance or None, default=None
        Seed of the order of the samples, and of the fold.

    verbose : int, default=0
        If positive, print a line for each block of classes that is fitted.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.

    coef_ : ndarray or CSR matrix of shape (n_classes, n_features)
        Weights, float32; (1, n_features) with two classes. Sparse with a
        `weight_threshold`. A copy: changing its entries does not change the model.

    intercept_ : ndarray of shape (n_classes,)
        Intercepts, or (1,).

    loss_ : str
        The loss, chosen if `loss` is "auto".

    C_ : float
        C of ``loss_``.

    scale_ : float
        w of the probabilities.

    fold_log_loss_ : float
        Mean log-loss (nats) of the fold by the model fitted without it. NaN without a
        fold: with ``calibration=None``, or if every class has one sample.

    n_iter_ : int
        Largest number of epochs of a class.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    sklstruct.hierarchical.HierarchicalClassifier : The same models along a tree of
        classes, faster from about a thousand classes on.
    sklearn.svm.LinearSVC : The same problem, class after class.
    sklearn.linear_model.LogisticRegression : By methods on the primal problem, which
        suit few classes and dense features.

    Notes
    -----
    Computation and weights are in single precision. Scale the rows of X to unit length
    (as `TfidfVectorizer` does); features of other scales need more epochs, and C
    another value.

    With one class in y the model predicts it with probability 1.

    References
    ----------
    .. [1] C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A dual
       coordinate descent method for large-scale linear SVM", ICML 2008.
    .. [2] H.-F. Yu, F.-L. Huang, C.-J. Lin, "Dual coordinate descent methods for
       logistic regression and maximum entropy models", Machine Learning 85, 2011.
    .. [3] S. Shalev-Shwartz, T. Zhang, "Accelerated proximal stochastic dual coordinate
       ascent for regularized loss minimization", Mathematical Programming 155, 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from sklstruct.linear import DualLinearClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DualLinearClassifier(C=10, random_state=0)
    >>> model.fit(normalize(X[:1200]), y[:1200]).score(normalize(X[1200:]), y[1200:])
    0.9...
    >>> model.predict_proba(normalize(X[1200:])).sum(axis=1).round(12).max()
    np.float64(1.0)
    """

    _parameter_constraints: dict = {
        "loss": [StrOptions({*LOSSES, "auto"})],
        "C": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 1e-15, 1e15, closed="both")],
        "calibration": [StrOptions({"fold"}), None],
        "weight_threshold": [Interval(Real, 0, 1, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        loss: Literal[
            "squared_hinge", "log_loss", "ovr_log_loss", "auto"
        ] = "squared_hinge",
        *,
        C: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        calibration: Literal["fold"] | None = "fold",
        weight_threshold: float = 0.0,
        class_weight: dict | Literal["balanced"] | None = None,
        tol: float = 0.01,
        max_iter: int = 200,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.C = C
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.calibration = calibration
        self.weight_threshold = weight_threshold
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> DualLinearClassifier:
        """Fit all classes, and the scale of the probabilities.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features; read in single precision.

        y : array-like of shape (n_samples,)
            Labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; weight 0 is as if absent.

        Returns
        -------
        self : DualLinearClassifier
            Fitted estimator.

        Raises
        ------
        ValueError
            If X is not finite, a malformed sparse matrix or so large that squares
            overflow; if weights are negative or all 0, or parameters contradict each
            other.
        MemoryError
            If the weights and dual variables need more than this machine's memory;
            says how much.
        """
        if self.loss == "auto" and self.calibration is None:
            raise ValueError(
                'loss="auto" chooses by the log-loss of a fold: use '
                'calibration="fold", or name the loss'
            )
        rows, code, weight = self._read_training(X, y, sample_weight)
        self._check_size(rows)
        rng = check_random_state(self.random_state)
        candidates = [(self.loss, float(self.C))]
        if self.loss == "auto":
            candidates = [
                ("squared_hinge", float(self.C)),
                ("log_loss", AUTO_C * float(self.C)),
            ]
        if self.classes_.size == 1:
            weights = NodeWeights([], rows.shape[1])
            found = _Found(np.nan, candidates[0], weights, 1.0, 0, True)
            self._keep(found)
            return self
        held = np.empty(0, dtype=np.int32)
        if self.calibration is not None:
            held = draw_fold(code, rng)
        seed = rng.randint(1, INT32_MAX)
        fits: list[_Found] = []
        with (
            Progress.of_fit(self, len(candidates)) as progress,
            ThreadMap(self.n_jobs) as parallel,
        ):
            for candidate in candidates:
                found = self._solve(
                    rows, code, weight, held, seed, candidate, progress, parallel
                )
                # the log-loss of an empty fold is NaN: the first candidate stays
                if not fits or found.fold_log_loss < fits[0].fold_log_loss:
                    fits = [found]
        best = fits[0]
        self._keep(best)
        if not best.converged:
            warnings.warn(
                f"the descent stopped at max_iter={self.max_iter} epochs before it met "
                "tol. Scale the rows of X to unit length, or increase max_iter or tol, "
                "or decrease C",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self

    def _keep(self, found):
        self.loss_, self.C_ = found.candidate
        self.weights_ = found.weights
        self.scale_ = found.scale
        self.fold_log_loss_ = found.fold_log_loss
        self.n_iter_ = found.n_iter

    def _read_training(self, X, y, sample_weight):
        """(X in single precision, class of each sample, weights > 0)."""
        if y is None:
            raise ValueError(
                "This DualLinearClassifier estimator requires y to be passed, but "
                "the target y is None"
            )
        check_sparse(X)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], order="C"
        )
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        check_class_weight(self.class_weight)
        weight, _, used = sample_weights(X, y, sample_weight, self.class_weight)
        if used.size < weight.size:
            X, y, weight = X[used], y[used], weight[used]
        X = single(X)
        warn_uneven(X, stacklevel=6)
        self.classes_, code = np.unique(y, return_inverse=True)
        if self.classes_.size > MOST_OUTCOMES and self.loss in ("log_loss", "auto"):
            raise ValueError(
                f"y has {self.classes_.size} classes, more than the {MOST_OUTCOMES} "
                f"that loss={self.loss!r} can hold; use HierarchicalClassifier, or "
                'loss="squared_hinge"'
            )
        return X, code.astype(np.int32), weight

    def _check_size(self, X):
        n, d = X.shape
        d = min(d, X.nnz) if sp.issparse(X) else d
        k = self.classes_.size
        loss = "log_loss" if self.loss == "auto" else self.loss
        threads = ThreadMap(self.n_jobs).n_threads
        needed = peak_bytes(n, d, k, loss, threads)
        remedy = "use fewer features, or a tree of classes (HierarchicalClassifier)"
        if self.weight_threshold == 0:
            if loss != "log_loss":  # whose weights are stored where they were fitted
                needed += stored_bytes(d, k)
            remedy += ", or weight_threshold=0.02"
        check_memory(needed, None, f"n_classes={k} with {d} features", remedy)

    def _solve(self, X, code, weight, held, seed, candidate, progress, parallel):
        loss, C = candidate
        constant = float(self.intercept_scaling) if self.fit_intercept else 0.0
        cost = costs(C, weight)
        divide = loss != "log_loss" or self.weight_threshold > 0
        node = Node(X, 0, X.shape[0], code, cost, self.classes_.size, held, divide)
        with stop_flag() as stop:
            settings = DescentSettings(
                loss, constant, self.tol, self.max_iter, self.weight_threshold, stop
            )
            blocks = node.blocks(settings)

            def fit(b):
                return node.fit(blocks[b], settings, seed + b)

            with progress.task(loss, len(blocks), f"{loss}, C={C:g}: ") as task:
                fits = parallel(fit, range(len(blocks)))
                for (a, b), found in zip(blocks, fits):
                    task.step(f"classes {a} to {b}, {found.n_iter} epochs", "block")
        scores = np.hstack([f.fold_scores for f in fits])
        scale, log_loss = 1.0, np.nan
        if held.size:
            g = evidence(
                both_outcomes(scores, loss) if scores.shape[1] == 1 else scores, loss
            )
            scale, log_loss = fit_scale(g, code[held], weight[held])
        return _Found(
            log_loss,
            candidate,
            NodeWeights([f.piece for f in fits], X.shape[1]),
            scale,
            max(f.n_iter for f in fits),
            all(f.converged for f in fits),
        )

    # --------------------------------------------------------------- prediction

    @property
    def coef_(self) -> NDArray | sp.csr_matrix:
        weights = self.weights_
        return weights.sparse() if weights.start.size else weights.dense()

    @property
    def intercept_(self) -> NDArray:
        return self.weights_.intercepts()

    def _read(self, X):
        check_is_fitted(self, "weights_")
        check_sparse(X)
        X = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            reset=False,
        )
        return single(X)

    def _blocks(self, X, finish):
        """finish(slice, scores of the rows (n, n_rows)), block by block."""
        weights = self.weights_
        n_rows = int(weights.n_outcomes.sum())
        first = np.concatenate([[0], np.cumsum(weights.n_outcomes)]).astype(np.int64)
        nodes = weights.kernel() if n_rows else None

        def block(part):
            scores = np.empty((part.stop - part.start, n_rows), dtype=np.float32)
            if n_rows:
                rows = as_rows(X, part.start, part.stop)
                room = np.empty(weights.lanes, dtype=np.float32)
                kernels.all_scores(nodes, 0, rows, first, scores, room, stop)
            finish(part, scores)

        step = rows_per_block(4 * (n_rows + 1))
        with ThreadMap(self.n_jobs) as parallel, stop_flag() as stop:
            parallel(block, row_blocks(X.shape[0], step))

    def decision_function(self, X: ArrayLike) -> NDArray:
        r"""Scores :math:`z = W x + b`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes)
            float32; (n_samples,) with two classes, positive for the second.

        Raises
        ------
        MemoryError
            If the matrix is larger than this machine's memory.
        """
        rows = self._read(X)
        n_classes = self.classes_.size
        width = 1 if n_classes <= 2 else n_classes
        check_rows(rows.shape[0], width)
        out = np.zeros((rows.shape[0], width), dtype=np.float32)

        def finish(part, scores):
            if scores.shape[1]:
                out[part] = scores

        self._blocks(rows, finish)
        return out[:, 0] if width == 1 else out

    def predict(self, X: ArrayLike) -> NDArray:
        """The class of the largest score, the most probable one.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels. Ties go to the class that comes first in ``classes_``.
        """
        rows = self._read(X)
        code = np.zeros(rows.shape[0], dtype=np.int64)

        def finish(part, scores):
            if scores.shape[1] == 1:
                code[part] = scores[:, 0] > 0
            elif scores.shape[1]:
                code[part] = scores.argmax(axis=1)

        self._blocks(rows, finish)
        return self.classes_[code]

    def _log_proba_blocks(self, X, use):
        """use(slice, log-probabilities of the rows), block by block."""

        def finish(part, scores):
            if scores.shape[1] == 0:
                use(part, np.zeros((scores.shape[0], 1)))
                return
            if scores.shape[1] == 1:
                scores = both_outcomes(scores, self.loss_)
            log_proba = self.scale_ * evidence(scores, self.loss_)
            log_proba -= logsumexp(log_proba, axis=1, keepdims=True)
            use(part, log_proba)

        self._blocks(X, finish)

    def _log_proba(self, X, finish):
        check_rows(X.shape[0], self.classes_.size)
        out = np.empty((X.shape[0], self.classes_.size))
        self._log_proba_blocks(X, lambda part, rows: finish(rows, out=out[part]))
        return out

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: ArrayLike) -> NDArray:
        r"""Natural logarithm of :math:`P(k \mid x)` for every class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.

        Raises
        ------
        MemoryError
            If the matrix is larger than this machine's memory.
        """
        return self._log_proba(self._read(X), np.positive)

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> NDArray:
        r""":math:`P(k \mid x)` for every class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns in the order of ``classes_``.

        Raises
        ------
        MemoryError
            If the matrix is larger than this machine's memory.
        """
        return self._log_proba(self._read(X), np.exp)

    @available_if(_has_probabilities)
    def target_log_proba(self, X: ArrayLike, y: ArrayLike) -> NDArray:
        r"""Natural logarithm of :math:`P(y_i \mid x_i)` for given labels.

        The matrix of all classes is made in blocks.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        log_proba : ndarray of shape (n_samples,)
            NaN where y is not in ``classes_``.
        """
        rows = self._read(X)
        code, known = class_codes(y, self.classes_, rows.shape[0])
        out = np.empty(rows.shape[0])

        def use(part, log_proba):
            out[part] = log_proba[np.arange(log_proba.shape[0]), code[part]]

        self._log_proba_blocks(rows, use)
        out[~known] = np.nan
        return out

    predict_top_k = available_if(_has_probabilities)(TopKMixin.predict_top_k)

    def _find_top_k(self, X, k):
        rows = self._read(X)
        best = np.empty((rows.shape[0], k), dtype=np.int64)
        log_proba = np.empty((rows.shape[0], k))

        def use(part, log_p):
            best[part] = np.argsort(-log_p, axis=1, kind="stable")[:, :k]
            log_proba[part] = np.take_along_axis(log_p, best[part], axis=1)

        self._log_proba_blocks(rows, use)
        return best, log_proba

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _Found:
    """A fit of one candidate."""

    def __init__(self, fold_log_loss, candidate, weights, scale, n_iter, converged):
        self.fold_log_loss, self.candidate = fold_log_loss, candidate
        self.weights, self.scale = weights, scale
        self.n_iter, self.converged = n_iter, converged
