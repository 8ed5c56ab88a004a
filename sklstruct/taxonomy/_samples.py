"""Checks of samples and labels, and sums over classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets

from .._checks import check_memory, check_sparse, check_squares
from .._compat import check_weights
from ..symbols import mixed_as_objects
from ._labels import as_labels


def check_samples(
    X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[Any, NDArray, NDArray]:
    """Checked X, y and float64 weights without the samples of weight 0.

    Samples of weight 0, and their labels, must not change the tree.
    """
    if y is None:
        raise ValueError("y is None; a taxonomy needs the label of every sample")
    check_sparse(X)
    features = check_array(
        X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X"
    )
    check_consistent_length(features, y)
    weight = check_weights(sample_weight, features)
    check_squares(features, np.float64)
    labels = np.asarray(mixed_as_objects(y))
    if not (weight > 0).all():
        used = np.flatnonzero(weight > 0)
        features, labels, weight = features[used], labels[used], weight[used]
    return features, labels, weight


def encode_classes(y: ArrayLike) -> tuple[NDArray, NDArray]:
    """Sorted labels and the int64 code of every sample."""
    classes, codes = np.unique(as_labels(np.asarray(y)), return_inverse=True)
    # Each label three times, because scikit-learn warns if most labels occur once; many
    # classes with few samples are valid here.
    check_classification_targets(np.tile(classes, 3))
    return classes, codes


def even_folds(codes: NDArray, n_folds: int, rng: RandomState) -> NDArray:
    """A random fold for each sample; each class is spread evenly over the folds."""
    shuffled = rng.permutation(codes.size)
    order = shuffled[np.argsort(codes[shuffled], kind="stable")]
    fold = np.empty(codes.size, dtype=np.int64)
    fold[order] = np.arange(codes.size) % n_folds
    return fold


def to_dense(X: Any) -> NDArray:
    X = X.toarray() if sp.issparse(X) else X
    return np.asarray(X, dtype=np.float64)


def sum_by_class(X: Any, codes: NDArray, n_classes: int, weight: NDArray) -> Any:
    """Weighted sums of the rows of each class, sparse for sparse X."""
    n = codes.size
    indicator = sp.csr_array((weight, codes, np.arange(n + 1)), shape=(n, n_classes))
    return indicator.T @ X


def class_means(X: Any, codes: NDArray, weight: NDArray) -> NDArray:
    """Dense weighted means of the classes, float64."""
    k = int(codes.max()) + 1
    check_memory(
        8 * k * X.shape[1], f"{k} x {X.shape[1]} class means", "reduce the features"
    )
    total = np.bincount(codes, weight, minlength=k)[:, None]
    return to_dense(sum_by_class(X, codes, k, weight)) / total
