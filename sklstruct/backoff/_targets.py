"""Targets and weights, as every classifier with a back-off model reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from .._checks import check_dates, check_samples, strings_as_objects
from .._compat import check_weights
from ..symbols import (
    check_missing,
    check_strings,
    encode,
    encode_labels,
    mixed_as_objects,
    plain,
)
from ._classifier import DistributionClassifier
from ._model import BackoffModel


class BackoffMixin(DistributionClassifier):
    """Classifiers whose fitted distribution is `backoff_model_`, a `BackoffModel`.

    The models over contexts (`BackoffClassifier`) and the unigram smoothers derive from
    it.
    """

    if TYPE_CHECKING:

        @property
        def backoff_model_(self) -> BackoffModel: ...

    @property
    def distribution_(self) -> BackoffModel:
        """The fitted model, `backoff_model_`."""
        return self.backoff_model_


def read_sample_weight(
    sample_weight: Any, X: Any
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(rows of positive weight, their weights); None for all rows, or no weights.

    Rows of weight 0 are left out before anything is learned from them.
    """
    if sample_weight is None:
        return None, None
    sample_weight = check_weights(sample_weight, X)
    keep = sample_weight > 0
    return (None, sample_weight) if keep.all() else (keep, sample_weight[keep])


def require_targets(estimator: Any, y: Any, X: Any = None) -> None:
    """Raise ValueError if targets are missing, with scikit-learn's message, or
    TypeError if X holds sentences in the place of contexts."""
    name = type(estimator).__name__
    hint = (
        f"{name} learns from contexts X and the symbols y that followed them; "
        f"LanguageModel({name}()) learns from sentences"
    )
    if isinstance(X, str) or (
        isinstance(X, list | tuple) and X and all(isinstance(s, str) for s in X)
    ):
        raise TypeError(f"X holds strings: {hint}")
    if y is None:
        raise ValueError(
            f"This {name} estimator requires y to be passed, but the target y is "
            f"None: {hint}"
        )


def target_column(y: Any, n_samples: int) -> np.ndarray:
    """The targets as an array of shape (n_samples,)."""
    y = strings_as_objects(column_or_1d(mixed_as_objects(y), warn=True))
    check_samples(n_samples, y.shape[0])
    check_dates(y)
    return y


def read_known(
    y: np.ndarray, classes: np.ndarray, name: str = "y_val", kind: str = "classes"
) -> np.ndarray:
    """The class ids of targets; ValueError if a target is not a class."""
    target = encode(y, classes)
    if (target < 0).any():
        i = int(np.argmax(target < 0))
        raise ValueError(
            f"{name}[{i}] = {plain(y[i])!r:.60} is not among the {classes.size} "
            f"{kind}; add it to the parameter classes, or leave such samples out"
        )
    return target


def read_targets(y: np.ndarray, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """(class ids of y, classes in sorted order).

    classes: the classes of a closed vocabulary; None to learn the classes from y.
    """
    check_missing(y)
    if classes is None:
        check_strings(y)
        check_classification_targets(y)
        return encode_labels(y)
    classes = column_or_1d(mixed_as_objects(classes, "classes"))
    _, found = encode_labels(classes, name="classes")
    if found.size != classes.size:
        raise ValueError("classes holds the same symbol twice")
    return read_known(y, found, "y", "symbols"), found
