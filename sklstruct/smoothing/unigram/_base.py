"""UnigramSmoother: base of the unigram smoothers.

`fit` and `from_counts` read counts of the classes; `_smooth`, the only method that a
subclass must define, computes the distribution `proba_`. The distribution has no
contexts: only the number of rows of X is used.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from ..._checks import as_floats, check_rows
from ..._compat import BaseEstimator, _fit_context
from ..._docs import shared_docs
from ...backoff import (
    BackoffModel,
    read_sample_weight,
    read_targets,
    require_targets,
    target_column,
)
from ...backoff._targets import BackoffMixin
from ...context_tree import ContextTree, Pairs
from ...symbols import Labels, encode, encode_labels, label_array

# Blocks of the docstrings of subclasses; see `shared_docs`.
_SHARED = {
    "classes_parameter": """
        classes : array-like of shape (n_classes,), default=None
            The closed vocabulary. None takes the targets seen in `fit`, or the labels
            given to `from_counts`.
        """,
    "floor_parameter": """
        floor : float, default=0.0
            Weight of the uniform distribution in the mixture, in [0, 1).
        """,
    "shared_attributes": """
        proba_ : ndarray of shape (n_classes,)
            P(y) of each class.

        counts_ : ndarray of shape (n_classes,)
            Count c(y) of each class.

        classes_ : ndarray of shape (n_classes,)
            The symbols, sorted.

        backoff_model_ : BackoffModel
            The distribution as a model without contexts.

        unseen_mass_ : float
            Total probability of the classes with count 0.

        n_features_in_ : int
            Number of columns of X, after `fit`.
        """,
}


class UnigramSmoother(BackoffMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the unigram smoothers: subclasses define `_smooth`.

    Each subclass has the parameter `classes`. Only the number of rows of X is used.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        doc = cls.__doc__ or ""
        shared_docs(**{k: v for k, v in _SHARED.items() if f"{{{k}}}" in doc})(cls)

    @abstractmethod
    def _smooth(self, counts: np.ndarray) -> np.ndarray:
        """A new array with P of each class, for checked counts of ``classes_``."""

    def _check_params(self, in_order: bool) -> None:
        """Check parameters beyond `_parameter_constraints`.

        in_order: True if the classes were given in sorted order.
        """

    # ------------------------------------------------------------- training

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the distribution to the targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only the number of rows is used.

        y : array-like of shape (n_samples,)
            The symbols.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, which may be fractional. A sample of weight 0 is left
            out, a sample of weight 2 counts as two samples.

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            If a target is not in `classes`, or a weight is negative.
        """
        validate_data(self, X, skip_check_array=True)
        require_targets(self, y)
        labels = target_column(y, _num_samples(X))
        keep, weight = read_sample_weight(sample_weight, labels)
        if keep is not None:
            labels = labels[keep]
        target, classes = read_targets(labels, self.classes)
        counts = np.bincount(target, weight, minlength=classes.size)
        in_order = self.classes is None or np.array_equal(classes, self.classes)
        return self._fit_counts(check_counts(counts), classes, in_order)

    def from_counts(
        self, counts: ArrayLike | Mapping, classes: ArrayLike | None = None
    ) -> Self:
        """Fit the distribution to counts.

        Parameters
        ----------
        counts : array-like of shape (n_classes,) or mapping of labels to numbers
            The count of each class, at least 0, fractional or not. A class of a
            closed vocabulary that was not seen has count 0. The keys of a mapping,
            such as a :class:`collections.Counter`, are the classes; so is the index of
            a pandas Series if `classes` is None.

        classes : array-like of shape (n_classes,), default=None
            The classes in the order of `counts`, or, for a mapping, the closed
            vocabulary. None takes the parameter `classes` of the estimator; if it is
            None too, the labels of `counts`, or 0, 1, ..., n_classes - 1.

        Returns
        -------
        self : object
            Fitted estimator. ``classes_`` and the arrays with one entry per class are
            sorted by class.

        Raises
        ------
        ValueError
            If counts are empty, negative, all zero or not finite, their number differs
            from the number of classes, or a class occurs twice.

        Examples
        --------
        >>> from collections import Counter
        >>> from sklstruct.smoothing import AdditiveUnigram
        >>> model = AdditiveUnigram().from_counts(Counter("banana"), list("nabx"))
        >>> dict(zip(model.classes_.tolist(), model.proba_.tolist()))
        {'a': 0.4, 'b': 0.2, 'n': 0.3, 'x': 0.1}
        """
        self._validate_params()
        labels, given = None, cast(Any, counts)
        if isinstance(counts, Mapping):
            labels, given = list(counts), list(counts.values())
        elif classes is None and getattr(counts, "ndim", 0) == 1:
            # A series of pandas has the classes as index.
            labels = getattr(counts, "index", None)
        number = check_counts(given, labels)
        if classes is None:
            classes = self.classes
        if classes is None:
            classes, labels = labels, None
        if classes is None:
            classes = np.arange(number.size, dtype=np.int32)
            return self._fit_counts(number, classes, True)
        return self._fit_counts(*sort_classes(number, classes, labels))

    def _fit_counts(self, counts, classes, in_order):
        self._check_params(in_order)
        self.classes_ = classes
        self.counts_ = counts
        self.depth_ = 0
        self._model = []
        proba = self._smooth(counts)
        # The sum is NaN if a smoother left the range of float64.
        if not abs(proba.sum() - 1.0) < 1e-6:
            raise ValueError(
                f"counts and the parameters of {type(self).__name__} together leave "
                f"the range of float64 (the probabilities sum to {proba.sum():g}): "
                "scale them nearer to 1"
            )
        self.proba_ = proba
        return self

    # ----------------------------------------------------------- fitted state

    @property
    def backoff_model_(self) -> BackoffModel:
        """The distribution as a back-off model without contexts."""
        check_is_fitted(self, "proba_")
        # Made on demand, as its labels cost more than the fit; kept in a list, because
        # `predict` must not add an attribute.
        if self._model:
            return self._model[0]
        n_classes = self.proba_.size
        tree = ContextTree(np.array([-1]), np.array([-1]), n_classes)
        pairs = Pairs(tree, [0, n_classes], np.arange(n_classes, dtype=np.int32))
        with np.errstate(divide="ignore"):  # ln 0 = -inf is the right value
            log_proba = np.log(self.proba_)
        labels = Labels(self.classes_, self.classes_)
        self._model.append(BackoffModel(pairs, log_proba, [0.0], labels))
        return self._model[0]

    @property
    def unseen_mass_(self) -> float:
        """Total probability of the classes with count 0."""
        return float(self.proba_[self.counts_ == 0].sum())

    # ------------------------------------------------------------- prediction

    def locate(self, X: Any) -> np.ndarray:
        """The root of ``backoff_model_``, once for each row of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only the number of rows is used.

        Returns
        -------
        nodes : ndarray of shape (n_samples,), int32
            Zeros.
        """
        check_is_fitted(self, "proba_")
        return np.zeros(_num_samples(X), dtype=np.int32)

    def predict_proba(self, X: Any) -> np.ndarray:
        """P(y) for every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only the number of rows is used.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Equal rows, in the order of ``classes_``.
        """
        n = self.locate(X).size
        check_rows(n, self.proba_.size)
        return np.tile(self.proba_, (n, 1))

    def __sklearn_is_fitted__(self) -> bool:
        return "proba_" in vars(self)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.poor_score = True
        tags.no_validation = True
        return tags


# ---------------------------------------------------------------------- counts


def check_counts(counts: ArrayLike, labels: Any = None) -> np.ndarray:
    """Counts as a float64 vector, finite, not negative, not all zero.

    labels: names of the classes in errors; None: errors give their indices.
    """
    counts = as_floats("counts", counts)
    if counts.size == 0:
        raise ValueError("counts is empty: there is nothing to learn from")
    if not counts.min() >= 0:  # NaN too
        i = int(np.argmin(counts >= 0))
        name = i if labels is None else repr(list(labels)[i])
        raise ValueError(f"counts[{name}] = {counts[i]:g}: counts must not be negative")
    with np.errstate(over="ignore"):
        total = counts.sum()
    if total == 0:
        raise ValueError("counts are all zero: there is nothing to learn from")
    if not total < np.inf:
        raise ValueError("counts must be finite, and so must their sum")
    return counts


def sort_classes(
    counts: np.ndarray, classes: Any, labels: Any = None
) -> tuple[np.ndarray, np.ndarray, bool]:
    """(counts, classes, True if they were sorted), both sorted by class.

    labels: labels of the counts; None: the classes.
    """
    classes = label_array(classes)
    if classes.ndim != 1:
        raise ValueError(
            "classes must be 1-dimensional, one label per class, got shape "
            f"{classes.shape}"
        )
    if labels is None and classes.size != counts.size:
        raise ValueError(f"there are {counts.size} counts for {classes.size} classes")
    if labels is None:
        with suppress(TypeError):  # labels without an order
            rising = (classes[:-1] < classes[1:]).all()
            if rising and (classes[-1:] == classes[-1:]).all():  # NaN is the last
                return counts, classes, True
    code, found = encode_labels(classes, name="classes")
    if (code < 0).any() or (found[-1:] != found[-1:]).any():
        raise ValueError("classes must not hold a missing value (None or NaN)")
    if found.size != classes.size:
        same = np.flatnonzero(np.bincount(code) > 1)[0]
        raise ValueError(f"classes holds {found.tolist()[same]!r} twice")
    target = code if labels is None else encode(label_array(labels), found)
    if (target < 0).any():
        label = label_array(labels).tolist()[int(np.argmax(target < 0))]
        raise ValueError(
            f"counts has the label {label!r:.60}, which is not among the {found.size} "
            "classes; add it, or count it as an unknown word"
        )
    in_order = np.array_equal(code, np.arange(code.size))
    return np.bincount(target, counts, found.size), found, in_order


def add_floor(proba: np.ndarray, floor: float) -> np.ndarray:
    """(1 - floor) P + floor / V, for P that sums to 1."""
    if floor == 0:
        return proba
    return (1 - floor) * proba + floor / proba.size
