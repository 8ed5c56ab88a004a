"""LinearClassifier: a flat linear model of one or many classes, sparse or dense."""

from __future__ import annotations

import sys
from numbers import Integral, Real
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, log_softmax, logit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._checks import INT32_MAX, check_memory
from .._compat import (
    N_JOBS,
    BaseEstimator,
    CallbackSupportMixin,
    Interval,
    Options,
    StrOptions,
    _align_api_if_sparse,
    _fit_context,
    available_if,
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
from .._warnings import warn
from . import _weights_fast as kernels
from ._calibration import (
    LOSSES,
    Sigmoid,
    draw_fold,
    f1_threshold,
    fit_sigmoid,
    fold_size,
    outcome_evidence,
    scale_of,
)
from ._labels import FlatMixin, check_threshold, read_rows, read_training
from ._samples import Samples, check_class_weight, single, warn_uneven
from ._solver import DescentSettings, NodeSolver, peak_bytes, stored_bytes
from ._targets import Targets
from ._trial import Choice, choose_loss, trial_bytes
from ._weights import MOST_OUTCOMES, NodeWeights, as_rows

# Peak bytes of the calibration per score of the fold: with one label per sample, and
# with several, whose fit has a gradient.
_FOLD_BYTES = 40.0, 80.0

# Open intervals of the fitted numbers.
_RANGES = {
    "scale_": (0, np.inf),
    "offset_": (-np.inf, np.inf),
    "power_": (0, np.inf),
    "threshold_": (0, 1),
}


def _has_probabilities(estimator):
    # a change of the parameters after fit does not change the fitted model
    params = estimator.loss, estimator.calibration
    loss, calibration = getattr(estimator, "_fitted_by", params)
    if calibration is None and loss in ("squared_hinge", "auto"):
        raise AttributeError(
            f"loss={loss!r} has no probabilities with calibration=None; use "
            'calibration="fold"'
        )
    return True


class LinearClassifier(CallbackSupportMixin, FlatMixin, BaseEstimator):
    r"""Linear classifier with calibrated probabilities, for few or many classes.

    .. math::
        \min_{W, b}\ \tfrac12 \|W\|^2 + \tfrac12 \|b\|^2
        + \sum_i C s_i\, \ell(W x_i + a b,\ y_i),

    with sample weights :math:`s_i`, the intercept :math:`a b`, a the
    `intercept_scaling`, and one of the losses

    .. math::
        \text{squared\_hinge:}\quad & \sum_k \max(0, 1 - \sigma_{ik} z_k)^2, \\
        \text{ovr\_log\_loss:}\quad & \sum_k \ln(1 + e^{-\sigma_{ik} z_k}), \\
        \text{log\_loss:}\quad & \ln \sum_k e^{z_k} - z_{y_i},

    :math:`\sigma_{ik}` is 1 for the class of sample i and -1 for the other classes.
    These are the problems of `LinearSVC`, of LIBLINEAR's one-vs-rest logistic
    regression, and of the multinomial `LogisticRegression`.

    Probabilities are :math:`P(k \mid x) \propto e^{w g(z_k)}`, where :math:`g(z)` is z
    (log_loss), :math:`-\ln(1 + e^{-z})` (ovr_log_loss) or :math:`-\max(0, 1 - z)^2`
    (squared_hinge), and w > 0 is fitted to samples that the model has not seen.

    With several labels per sample (y an indicator matrix) :math:`\sigma_{ik}` is 1 for
    each label of sample i, every label is a separate binary problem, and

    .. math::
        P(k \mid x) = \frac{1}{1 + e^{-w\, \mathrm{sign}(z_k) |z_k|^p - v}},

    with w, v and p equal for all labels and fitted to the held-out samples. Rows do not
    sum to 1. The loss must be squared_hinge or ovr_log_loss.

    Parameters
    ----------
    loss : {"squared_hinge", "log_loss", "ovr_log_loss", "auto"}
        The loss; default "squared_hinge". Use squared_hinge for text whose classes
        are nearly separable, and log_loss for dense X and noisy labels. "auto" fits
        squared_hinge with C and log_loss (ovr_log_loss with several labels) with 10 C
        to a part of the classes, and of the samples if there are more than 15 000. The
        second loss is chosen if its log-loss on the fold is smaller by .01 nats per
        sample and, for log_loss, by 3 %. "auto" needs ``calibration="fold"``.

    C : float, default=1.0
        Inverse of the regularisation strength, positive. For rows of about unit length
        1 suits the squared hinge, 3 to 30 the logistic losses.

    solver : {"auto", "dual", "quasi_newton"}, default="auto"
        Both solvers reach the same optimum. "dual": coordinate descent, one sample
        after the other, for all losses. "quasi_newton": L-BFGS, for log_loss. "auto":
        "dual" for sparse X and for the other losses. For log_loss and dense X it is
        "quasi_newton" with two classes (also for ovr_log_loss); with more classes the
        size of X and C decide, or the first epochs of "dual" (:ref:`linear_solvers`).

    intercept_scaling : float, default=1.0
        Value a of the feature whose weight is the intercept: 0 for no intercepts, from
        1e-15 to 1e15, or infinite for intercepts without penalty. Infinity needs
        log_loss and L-BFGS; with `calibration` None the model is then the model of
        `sklearn.linear_model.LogisticRegression`.

    calibration : {"fold", None}, default="fold"
        How w is chosen. "fold": a tenth of the samples, at most 2000, is held out as a
        fold; with fewer than 1000 samples up to a quarter. The model is fitted to the
        other samples and scores the fold; then the fit continues with all samples.
        None: w = 1, and no probabilities with the squared hinge.

    weight_threshold : float, default=0.0
        Weights of at most this fraction of the largest weight of their class are set to
        0, in [0, 1). 0.02 makes models of text several times smaller.

    threshold : float or "f1", default=0.5
        With several labels, the labels with a larger probability are predicted; in (0,
        1). "f1": the threshold with the largest micro-averaged F1 on the fold. Must be
        0.5 with one label per sample and with ``calibration=None``; without calibration
        the labels with positive scores are predicted.

    class_weight : dict or "balanced", default=None
        Weight >= 0 of each class, as in scikit-learn; multiplies `sample_weight`.
        Weight 0 removes the class. Must be None with several labels.

    tol : float, default=0.01
        Tolerance relative to the start of the fit, > 0. "dual" ends after an epoch
        whose change of the dual variables is at most `tol` times the change in the
        first epoch. "quasi_newton" ends when the predicted decrease by a change of one
        weight is at most :math:`(0.03\, tol)^2` times the largest at zero weights.

    max_iter : int, default=None
        Largest number of epochs or of L-BFGS iterations, at least 1. With `calibration`
        there are two fits, each with this limit. None: 200 epochs or 1000 iterations.

    n_jobs : int, default=None
        Threads over blocks of classes in `fit` (not with log_loss) and over samples in
        prediction. None is 1 unless in a `joblib.parallel_config` context.

    random_state : int, RandomState instance or None, default=None
        Seed of the order of the samples, and of the fold.

    Attributes
    ----------
    classes_, multilabel_ : ndarray of shape (n_classes,), bool
        Sorted labels, or the column numbers of an indicator y; True for an indicator y.

    label_columns_ : LabelColumns or None
        With several labels the columns of y. ``known`` are the columns with a positive
        value (others have probability 0), ``leaves`` those in ``coef_``, at least two.

    coef_, intercept_ : ndarray or CSR matrix of shape (n_classes, n_features), ndarray
        Weights, float32; one row with two classes. Sparse with a `weight_threshold`.

    loss_, C_, solver_ : str, float, str
        The loss, its C, and the solver of the fit.

    scale_, offset_, power_ : float
        w, v and p of the probabilities; v is 0 and p is 1 with one label per sample.

    threshold_ : float
        Threshold of `predict` with several labels.

    fold_log_loss_ : float
        Mean log-loss of the fold (nats per sample) by the model fitted without the
        fold; with several labels it is summed over the labels. NaN without a fold.

    n_iter_ : int
        Largest number of epochs of a class, plus the number of L-BFGS iterations.

    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        Number of columns of X, and their names if they were strings.

    See Also
    --------
    sklstruct.hierarchical.HierarchicalClassifier : Such models along a tree of classes.
    StructuredLogisticRegression : Models with few weights, or groups of weights.

    Notes
    -----
    Batches: use ``HierarchicalClassifier(max_depth=0, estimator=model).partial_fit``.
    The float32 values and int32 indices of a CSR matrix may be mapped files
    (``numpy.load(file, mmap_mode="r")``), which are read in place.

    Computation and weights are in single precision. Scale the rows of X to unit length
    (as `TfidfVectorizer` does), or change C. With one class in y its probability is 1.

    References
    ----------
    C.-J. Hsieh, K.-W. Chang, C.-J. Lin, S. S. Keerthi, S. Sundararajan, "A dual
    coordinate descent method for large-scale linear SVM", ICML 2008; S. Shalev-Shwartz,
    T. Zhang, "Accelerated proximal stochastic dual coordinate ascent for regularized
    loss minimization", Mathematical Programming 155, 2016.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from sklstruct.linear import LinearClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LinearClassifier(C=10, random_state=0)
    >>> model.fit(normalize(X[:1200]), y[:1200]).score(normalize(X[1200:]), y[1200:])
    0.9...
    """

    _parameter_constraints: dict = {
        "loss": [StrOptions({*LOSSES, "auto"})],
        "C": [Interval(Real, 0, sys.float_info.max, closed="right")],
        "solver": [StrOptions({"auto", "dual", "quasi_newton"})],
        "intercept_scaling": [
            Options(Real, {0.0, np.inf}),
            Interval(Real, 1e-15, 1e15, closed="both"),
        ],
        "calibration": [StrOptions({"fold"}), None],
        "weight_threshold": [Interval(Real, 0, 1, closed="left")],
        "threshold": [Interval(Real, 0, 1, closed="neither"), StrOptions({"f1"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "tol": [Interval(Real, 0, sys.float_info.max, closed="right")],
        "max_iter": [Interval(Integral, 1, INT32_MAX, closed="both"), None],
        "n_jobs": N_JOBS,
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        loss: Literal[
            "squared_hinge", "log_loss", "ovr_log_loss", "auto"
        ] = "squared_hinge",
        *,
        C: float = 1.0,
        solver: Literal["auto", "dual", "quasi_newton"] = "auto",
        intercept_scaling: float = 1.0,
        calibration: Literal["fold"] | None = "fold",
        weight_threshold: float = 0.0,
        threshold: float | Literal["f1"] = 0.5,
        class_weight: dict | Literal["balanced"] | None = None,
        tol: float = 0.01,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.loss = loss
        self.C = C
        self.solver = solver
        self.intercept_scaling = intercept_scaling
        self.calibration = calibration
        self.weight_threshold = weight_threshold
        self.threshold = threshold
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> LinearClassifier:
        """Fit the weights of all classes, and the scale of the probabilities.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features; read in single precision.

        y : array-like of shape (n_samples,) or indicator of (n_samples, n_labels)
            Labels; several per sample as a dense or sparse matrix of 0 and 1. A sample
            may have no label.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. Samples of weight 0 are left out.

        Returns
        -------
        self : LinearClassifier
            Fitted estimator.

        Raises
        ------
        ValueError
            If X is not finite, a malformed sparse matrix or so large that squares
            overflow; if weights are negative or all 0, or parameters contradict each
            other; if a y of several columns is not an indicator matrix or has no
            positive.
        MemoryError
            If the weights and dual variables need more than this machine's memory. The
            message names the size.
        """
        self._check_solver()
        rows, targets, weight = self._read_training(X, y, sample_weight)
        check_threshold(self.threshold, targets.several, self.calibration is not None)
        self._check_size(rows, targets)
        rng = check_random_state(self.random_state)
        if self.classes_.size == 1:
            loss = "squared_hinge" if self.loss == "auto" else self.loss
            self._keep(NodeWeights([], rows.shape[1]), (loss, self.C), 0)
            self.solver_ = "dual" if self.solver == "auto" else self.solver
            return self
        held = np.empty(0, dtype=np.int32)
        if self.calibration is not None:
            held = draw_fold(targets, rng)
        seed = rng.randint(1, INT32_MAX)
        node = NodeSolver(rows, targets, weight, held)
        with (
            Progress.of_fit(self, 1 + 2 * (self.loss == "auto")) as progress,
            ThreadMap(self.n_jobs) as parallel,
            single_blas_thread(),
            stop_flag() as stop,
        ):
            chosen = Choice(self.loss, float(self.C), None)
            if self.loss == "auto":
                chosen = choose_loss(
                    [node],
                    lambda loss, C: self._settings(loss, C, stop),
                    float(self.C), np.array([seed]), parallel,
                )  # fmt: skip
                with progress.task("auto", 1) as task:
                    task.step(f"loss={chosen.loss} with C={chosen.C:g}", "choose")
            fits = self._solve(node, seed, chosen, stop, progress, parallel)
        weights = NodeWeights([f.piece for f in fits], rows.shape[1])
        self._keep(weights, chosen[:2], max(f.n_iter for f in fits))
        self.solver_ = fits[0].solver
        if held.size:
            scores = np.hstack([f.fold_scores for f in fits])
            self._calibrate(scores, targets.take(held), weight[held])
        if not all(f.converged for f in fits):
            warn(
                f"the fit ended before it met tol (max_iter={self.max_iter} epochs or "
                "iterations). Scale the rows of X to unit length, or increase max_iter "
                "or tol, or decrease C",
                ConvergenceWarning,
            )
        return self

    def _keep(self, weights, candidate, n_iter):
        """Set the fitted attributes, as without a fold."""
        self.weights_, self.n_iter_ = weights, n_iter
        self.loss_, self.C_ = candidate[0], float(candidate[1])
        self.scale_, self.offset_, self.power_ = Sigmoid()
        self._fitted_by = self.loss, self.calibration
        self.threshold_, self.fold_log_loss_ = 0.5, np.nan

    def _calibrate(self, scores, targets, weight):
        """Fit the numbers of the probabilities to the scores of the fold."""
        if not targets.several:
            self.scale_, self.fold_log_loss_ = scale_of(
                scores, targets.outcome, weight, self.loss_
            )
            return
        z, yes = scores.ravel(), targets.indicator().ravel()
        each = np.repeat(weight, scores.shape[1])
        sigmoid, total = fit_sigmoid(z, yes, each)
        self.scale_, self.offset_, self.power_ = sigmoid
        self.fold_log_loss_ = total / weight.sum()
        self.threshold_ = self.threshold
        if self.threshold == "f1":
            self.threshold_ = f1_threshold(expit(sigmoid.odds(z)), yes, each)

    def _check_solver(self) -> None:
        """Raise ValueError if the solver cannot solve the problem."""
        free = np.isinf(self.intercept_scaling)
        if self.loss == "auto" and self.calibration is None:
            raise ValueError(
                'loss="auto" chooses by the log-loss of a fold: use '
                'calibration="fold", or name the loss'
            )
        if (free or self.solver == "quasi_newton") and (
            self.loss != "log_loss" or self.solver == "dual"
        ):
            raise ValueError(
                f"loss={self.loss!r}, solver={self.solver!r}, intercept_scaling="
                f"{self.intercept_scaling}: quasi_newton solves log_loss only, and "
                "dual needs a finite intercept_scaling; use "
                'solver="auto", with loss="log_loss" or a large intercept_scaling'
            )

    def _refusal_of_labels(self) -> str | None:
        if self.loss == "log_loss":
            return (
                'loss="log_loss" is for one label per sample, and y has several: use '
                '"ovr_log_loss", "squared_hinge" or "auto"'
            )
        return super()._refusal_of_labels()

    def _read_training(self, X, y, sample_weight):
        """(X in single precision, Targets, weights > 0)."""
        check_class_weight(self.class_weight)
        X, y, weight, *_ = read_training(self, X, y, sample_weight)
        several = self.label_columns_ is not None
        X = single(X)
        if self.loss != "log_loss":
            warn_uneven(X)
        if several:
            self.classes_ = np.arange(y.shape[1])
            return X, self.label_columns_.targets(y), weight
        self.classes_, code = np.unique(y, return_inverse=True)
        if self.classes_.size > MOST_OUTCOMES and self.loss in ("log_loss", "auto"):
            raise ValueError(
                f"y has {self.classes_.size} classes, more than the {MOST_OUTCOMES} "
                f"that loss={self.loss!r} can hold; use HierarchicalClassifier, or "
                'loss="squared_hinge"'
            )
        return X, Targets.one_each(code, self.classes_.size), weight

    def _check_size(self, X, targets):
        n, d = X.shape
        d = min(d, X.nnz) if sp.issparse(X) else d
        loss, k, n_rows = self.loss, targets.n_outcomes, targets.n_rows
        auto = loss == "auto"
        if auto:
            loss = "ovr_log_loss" if targets.several else "log_loss"
        needed = peak_bytes(n, d, n_rows, loss, ThreadMap(self.n_jobs).n_threads)
        # the multinomial loss has all of its weights at once
        if self.weight_threshold == 0 and loss != "log_loss":
            needed += stored_bytes(d, n_rows)
        if auto:
            needed = max(needed, trial_bytes(n, d, k, n_rows))
        if self.calibration is not None:
            answers = float(fold_size(n)) * n_rows
            needed = max(needed, _FOLD_BYTES[targets.several] * answers)
        check_memory(
            needed,
            f"n_classes={k} with {d} features",
            "use fewer features, a tree of classes (HierarchicalClassifier), or "
            'loss="squared_hinge" with weight_threshold=0.02, which needs the least',
        )

    def _settings(self, loss, C, stop):
        return DescentSettings.of(self, loss, C, self.weight_threshold, stop)

    def _solve(self, node, seed, chosen, stop, progress, parallel):
        """The fits of all blocks of classes."""
        loss, C, paused = chosen
        node = node if paused is None else paused.solver
        settings = self._settings(loss, C, stop)
        blocks = node.blocks(settings)

        def fit(b):
            descents = None if paused is None else paused.blocks[b]
            return node.fit(blocks[b], settings, seed + b, paused=descents)

        with progress.task(loss, len(blocks), f"{loss}, C={C:g}: ") as task:
            fits = parallel(fit, range(len(blocks)))
            for (a, b), found in zip(blocks, fits):
                task.step(f"classes {a} to {b}, {found.n_iter} epochs", "block")
        return fits

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        if "weights_" in state:
            self._check_fitted()

    def _check_fitted(self):
        """ValueError if fitted attributes of a damaged pickle contradict each other."""
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name, None)
            if not isinstance(value, Real) or not least < value < most:
                raise ValueError(
                    f"{name} of the pickled model is not a number above {least:g} and "
                    f"below {most:g}"
                )
        if self.loss_ not in LOSSES:
            raise ValueError(f"loss_ of the pickled model is not one of {LOSSES}")
        if self.weights_.n_outcomes.sum() != self._n_rows():
            raise ValueError("weights_ of the pickled model do not fit its classes_")

    # --------------------------------------------------------------- prediction

    _dtype = np.float32

    @property
    def coef_(self) -> Samples:
        """Weights of shape (n_classes, n_features); (1, n_features) for two classes."""
        weights = self.weights_
        if weights.start.size:
            return _align_api_if_sparse(weights.sparse())
        return weights.dense()

    @property
    def intercept_(self) -> NDArray:
        """Intercepts of the classes."""
        return self.weights_.intercepts()

    def _read(self, X):
        check_is_fitted(self, "weights_")
        return single(read_rows(self, X, [np.float64, np.float32]))

    def _blocks(self, X, finish):
        """Call finish(slice, scores of the rows (n, n_rows)) for each block."""
        weights = self.weights_
        first = np.concatenate([[0], np.cumsum(weights.n_outcomes)]).astype(np.int64)
        n_rows = int(first[-1])
        # A dense product takes less time than a loop over the features. In float32 its
        # last digits would depend on the number of rows: BLAS adds in another order.
        whole = None if n_rows and sp.issparse(X) else weights.whole()

        def block(part):
            scores = np.empty((part.stop - part.start, n_rows), dtype=np.float32)
            if whole is None:
                room = np.empty(weights.lanes, dtype=np.float32)
                view, rows = kernels.NodeWeightsView(weights), as_rows(X, part)
                kernels.all_scores(view, rows, first, scores, room, stop)
            else:
                dense = X[part].astype(np.float64)
                with np.errstate(over="ignore", invalid="ignore"):
                    for W, a, b in zip(whole, first, first[1:]):
                        scores[:, a:b] = dense @ W
                    scores += weights.intercepts()
            finish(part, scores)

        step = rows_per_block(4 * (n_rows + 1) + (whole is not None) * X.shape[1])
        with ThreadMap(self.n_jobs) as parallel, stop_flag() as stop:
            parallel(block, row_blocks(X.shape[0], step))

    _least = property(lambda self: logit(self.threshold_))

    def _odds(self, scores):
        return Sigmoid(self.scale_, self.offset_, self.power_).odds(scores)

    def _log_proba_of(self, scores):
        if self.label_columns_ is not None:
            return log_expit(self._odds(scores))
        return log_softmax(self.scale_ * outcome_evidence(scores, self.loss_), axis=1)

    predict_proba = available_if(_has_probabilities)(FlatMixin.predict_proba)
    predict_log_proba = available_if(_has_probabilities)(FlatMixin.predict_log_proba)
    target_log_proba = available_if(_has_probabilities)(FlatMixin.target_log_proba)
    predict_top_k = available_if(_has_probabilities)(FlatMixin.predict_top_k)
