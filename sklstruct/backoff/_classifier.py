"""Classifiers with a distribution, and the distribution of any classifier."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from .._checks import check_samples
from .._likelihood import TopKMixin, target_log_proba
from ..symbols import Labels, encode
from ._distribution import Distribution, count_rows, take


class DistributionClassifier(TopKMixin):
    """Mixin of the classifiers whose fitted model is a `Distribution`.

    Subclasses have the parameter `classes`, define `locate`, and set ``classes_`` and
    ``distribution_``.
    """

    classes: Any
    classes_: NDArray

    if TYPE_CHECKING:

        @property
        def distribution_(self) -> Distribution: ...

    @abstractmethod
    def locate(self, X: Any) -> Any:
        """Locate each row of X for the methods of ``distribution_``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Contexts, in the form that `fit` was given.

        Returns
        -------
        at : array or tuple of arrays
            One row per sample, for the methods of ``distribution_``.
        """

    def predict_log_proba(self, X: Any) -> NDArray:
        r"""Natural logarithm of :math:`P(y \mid x)` for every class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Contexts, in the form that `fit` was given.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``. For many classes prefer
            `target_log_proba` and `predict_top_k`, which do not make this matrix.
        """
        at = self.locate(X)  # first, as it raises NotFittedError
        return self.distribution_.rows(at)

    def predict_proba(self, X: Any) -> NDArray:
        r""":math:`P(y \mid x)` for every class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Contexts, in the form that `fit` was given.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to 1, for seen and unseen contexts.
        """
        log_proba = self.predict_log_proba(X)
        return np.exp(log_proba, out=log_proba)

    def predict(self, X: Any) -> NDArray:
        """The most probable class after each context.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Contexts, in the form that `fit` was given.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Of equally probable classes, the first in ``classes_``.
        """
        at = self.locate(X)
        return self.classes_[self.distribution_.best(at, 1)[0][:, 0]]

    def _find_top_k(self, X, k):
        at = self.locate(X)
        return self.distribution_.best(at, k)

    def target_log_proba(self, X: Any, y: ArrayLike) -> NDArray:
        r"""Natural logarithm of :math:`P(y_i \mid x_i)` for given targets.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Contexts, in the form that `fit` was given.

        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        log_proba : ndarray of shape (n_samples,)
            NaN where y is not in ``classes_``; the metrics of `sklstruct.metrics` have
            a parameter for the cost of such a target.
        """
        at, target, known = self._locate_known(X, y)
        out = np.full(target.size, np.nan)
        out[known] = self.distribution_.target(at, target[known])
        return out

    def _locate_known(self, X, y):
        """(places of samples with known targets, class ids of all samples, known
        rows)."""
        at = self.locate(X)
        target = encode(column_or_1d(y), self.classes_)
        check_samples(count_rows(at), target.size)
        known = np.flatnonzero(target >= 0)
        return (at if known.size == target.size else take(at, known)), target, known

    def __sklstruct_ids__(self, labels: Labels) -> dict[str, Any]:
        """The parameters to set before the estimator learns from class ids.

        `LanguageModel` calls this on every part of its estimator that has the method.
        The classes are the ids of `labels`, seen or not.
        """
        if self.classes is not None:
            raise ValueError(
                f"classes of {type(self).__name__} must be None inside a "
                "LanguageModel, which numbers its symbols itself; set vocabulary of "
                "the LanguageModel"
            )
        return {"classes": np.arange(labels.n_classes, dtype=np.int32)}


class ClassifierModel(Distribution):
    """The distribution of any fitted classifier with probabilities; contexts are its X.

    Classes that the classifier does not know have probability 0.
    """

    def __init__(self, estimator: Any, classes: NDArray) -> None:
        self.estimator, self.classes = estimator, classes
        self.n_classes = classes.size

    def target(self, at: Any, y: NDArray) -> NDArray:
        log_prob = target_log_proba(self.estimator, at, self.classes[y])
        log_prob[np.isnan(log_prob)] = -np.inf
        return log_prob

    def rows(self, at: Any) -> NDArray:
        if count_rows(at) == 0:  # scikit-learn's classifiers refuse an empty X
            return np.empty((0, self.n_classes))
        if hasattr(self.estimator, "predict_log_proba"):
            rows = self.estimator.predict_log_proba(at)
        else:
            with np.errstate(divide="ignore"):  # ln 0 = -inf is meant
                rows = np.log(self.estimator.predict_proba(at))
        known = np.asarray(self.estimator.classes_)
        if np.array_equal(known, self.classes):
            return np.array(rows, dtype=np.float64)
        out = np.full((rows.shape[0], self.n_classes), -np.inf)
        column = encode(known, self.classes)
        out[:, column[column >= 0]] = rows[:, column >= 0]
        return out
