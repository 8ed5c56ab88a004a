"""Log-probabilities of targets for any classifier, and their sums.

ln P(y_i | x_i) is computed without the (n, V) matrix. Targets of weight 0 are left out
of sums, because 0 times minus infinity is NaN.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples, check_is_fitted

from ._checks import check_samples, check_sparse, check_top_k, strings_as_objects
from ._compat import ClassifierMixin, _safe_indexing, column_or_1d
from ._parallel import row_blocks, rows_per_block
from .symbols import encode


def check_probabilities(what: str, estimator: Any, hint: str = "") -> None:
    """TypeError for an estimator without probabilities.

    what: name of the estimator in the message. hint: end of the message.
    """
    if not any(hasattr(estimator, f"predict_{p}") for p in ("proba", "log_proba")):
        raise TypeError(
            f"{what} must give probabilities, but {type(estimator).__name__} has "
            f"neither predict_proba nor predict_log_proba{hint}"
        )


class TopKMixin(ClassifierMixin):
    """Mixin of the classifiers that find the most probable classes of each sample.

    Subclasses define `_find_top_k`. `score` reads labels as `fit` does.
    """

    classes_: np.ndarray

    @abstractmethod
    def _find_top_k(self, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(class numbers, natural log-probabilities), each of shape (n_samples, k).

        Most probable first; classes of equal probability by number.
        """

    @overload
    def predict_top_k(
        self, X: Any, k: int = 5, *, return_log_proba: Literal[False] = False
    ) -> np.ndarray: ...

    @overload
    def predict_top_k(
        self, X: Any, k: int = 5, *, return_log_proba: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def predict_top_k(
        self, X: Any, k: int = 5, *, return_log_proba: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The k most probable classes of each sample, most probable first.

        The whole matrix of probabilities is never made.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples, in the form that `fit` was given.

        k : int, default=5
            Number of classes, from 1 to n_classes.

        return_log_proba : bool, default=False
            Whether to also return natural log-probabilities.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Ties go to the class that comes first in ``classes_``.

        log_proba : ndarray of shape (n_samples, k)
            With ``return_log_proba=True`` only.
        """
        check_is_fitted(self)
        best, log_proba = self._find_top_k(X, check_top_k(k, self.classes_.size))
        labels = self.classes_[best]
        return (labels, log_proba) if return_log_proba else labels

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy: the fraction of the samples whose label is predicted.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Samples, in the form that `fit` was given.

        y : array-like of shape (n_samples,), or (n_samples, n_labels)
            True labels. With several labels per sample all labels must be right.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        accuracy : float
        """
        return super().score(X, strings_as_objects(y), sample_weight)


def reads_history(estimator: Any) -> bool:
    """Whether a fitted classifier reads more of a sentence than a window of symbols."""
    part = getattr(estimator, "part_", estimator)
    return bool(getattr(part, "reads_history", False))


def _inside(estimator: Any) -> Any:
    """The last step of a pipeline, or the model of a search; None otherwise."""
    if isinstance(estimator, Pipeline):
        return estimator.steps[-1][1]
    return getattr(estimator, "best_estimator_", None)


def innermost(estimator: Any) -> Any:
    """The last estimator inside pipelines and searches."""
    while (inside := _inside(estimator)) is not None:
        estimator = inside
    return estimator


def last_step(estimator: Any, X: Any) -> tuple[Any, Any]:
    """The classifier inside pipelines and searches, and X as it receives it."""
    while (inside := _inside(estimator)) is not None:
        if isinstance(estimator, Pipeline):
            check_is_fitted(estimator)
            if len(estimator.steps) > 1:
                X = estimator[:-1].transform(X)
        estimator = inside
    return estimator, X


def target_log_proba(estimator: Any, X: Any, y: ArrayLike) -> np.ndarray:
    """Natural logarithm of P(y_i | x_i), NaN if y_i is not in ``classes_``.

    Calls `target_log_proba` of the estimator (inside pipelines and fitted searches) if
    it has this method, else `predict_log_proba` or `predict_proba` on blocks of rows,
    whose columns are aligned by ``classes_``.
    """
    check_sparse(X)
    estimator, X = last_step(estimator, X)
    if hasattr(estimator, "target_log_proba"):
        return estimator.target_log_proba(X, y)
    check_is_fitted(estimator)
    check_probabilities("estimator", estimator)
    logarithms = hasattr(estimator, "predict_log_proba")
    predict = estimator.predict_log_proba if logarithms else estimator.predict_proba
    y = column_or_1d(y)
    classes = np.asarray(estimator.classes_)
    code = encode(y, classes)
    X = X.tocsr() if sp.issparse(X) else X
    check_samples(_num_samples(X), y.size)
    rows = np.flatnonzero(code >= 0)
    out = np.full(y.size, np.nan)
    for part in row_blocks(rows.size, rows_per_block(classes.size)):
        here = rows[part]
        with np.errstate(divide="ignore"):  # ln 0 = -inf
            picked = predict(_safe_indexing(X, here))[np.arange(here.size), code[here]]
            out[here] = picked if logarithms else np.log(picked)
    return out


def class_codes(
    y: ArrayLike, classes: np.ndarray, n_samples: int
) -> tuple[np.ndarray, np.ndarray]:
    """(int64 number of the class of each label, whether the label is in `classes`).

    A label that is not in `classes` gets the number 0.
    """
    y = column_or_1d(y)
    check_samples(n_samples, y.shape[0])
    code = encode(y, classes)
    return np.maximum(code, 0).astype(np.int64), code >= 0


def log_other(log_proba: np.ndarray) -> np.ndarray:
    """log(1 - P) from log P, minus infinity for P = 1."""
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(log_proba))


def weighted_sum(log_prob: np.ndarray, weight: np.ndarray) -> float:
    """Sum of weight times log-probability, without the entries of weight 0."""
    used = weight > 0  # 0 * -inf and 0 * NaN are NaN
    return float(np.dot(weight[used], log_prob[used]))


def sums_by_group(
    log_prob: np.ndarray, group: np.ndarray, n_groups: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(number of targets, summed log-probability, perplexity) of each group of targets.

    Log-probabilities are natural. The perplexity of a group without targets is NaN.
    """
    n_targets = np.bincount(group, minlength=n_groups)
    total = np.bincount(group, weights=log_prob, minlength=n_groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        perplexity = np.where(n_targets > 0, np.exp(-total / n_targets), np.nan)
    return n_targets, total, perplexity
