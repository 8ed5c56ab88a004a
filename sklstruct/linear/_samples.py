"""Training samples in single precision, their weights and costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import row_norms

from .._checks import INT32_MAX, as_floats, check_reals, check_squares
from .._compat import check_weights
from .._warnings import warn

# X of kernels and node models.
Samples: TypeAlias = NDArray | sp.csr_matrix

# Ratio of the lengths of two rows, or of a length and 1, from which a warning is given.
_UNEVEN = 10.0


def is_sparse(X: object) -> TypeGuard[sp.csr_matrix]:
    """`scipy.sparse.issparse` as a type guard."""
    return sp.issparse(X)


def narrow_indices(X: sp.csr_matrix) -> NDArray:
    """Indices of X in 32 bits; ValueError for more columns."""
    if X.shape[1] > INT32_MAX:
        raise ValueError(
            f"X has {X.shape[1]} columns, more than 2^31 - 1; use fewer (FeatureHasher)"
        )
    return X.indices.astype(np.int32, copy=False)


def single(X: Samples) -> Samples:
    """A checked X in single precision; indices are 32-bit, sorted and distinct.

    ValueError if squares overflow.
    """
    check_squares(X, np.float32)
    if not is_sparse(X):
        return np.ascontiguousarray(X, dtype=np.float32)
    out = sp.csr_matrix(
        (X.data.astype(np.float32, copy=False), narrow_indices(X), X.indptr),
        shape=X.shape,
    )
    if not out.has_canonical_format:
        out = out.copy()  # the arrays may be the caller's
        out.sum_duplicates()
    if out.indices.dtype != np.int32:  # SciPy uses 64 bits if indptr needs them
        out.indices = out.indices.astype(np.int32)
    return out


def check_class_weight(class_weight: Mapping | str | None) -> None:
    """ValueError for weights of classes that are negative or not finite."""
    if isinstance(class_weight, Mapping):
        values = as_floats("class_weight", list(class_weight.values()))
        check_reals("class_weight", values, "[0, inf)")


def sample_weights(
    X: Samples,
    y: NDArray,
    sample_weight: ArrayLike | None,
    class_weight: Mapping | str | None,
) -> tuple[NDArray, NDArray, NDArray]:
    """(sample weight times class weight, class weight, samples of positive weight)."""
    weight, factor = check_weights(sample_weight, X), np.ones(X.shape[0])
    if class_weight is not None:
        known, heavy = y[weight > 0], weight[weight > 0]
        present, code = np.unique(known, return_inverse=True)
        if isinstance(class_weight, str):
            # "balanced", which scikit-learn < 1.8 computes without sample weights
            by_class = heavy.sum() / (present.size * np.bincount(code, heavy))
        else:
            by_class = compute_class_weight(class_weight, classes=present, y=known)
        factor = by_class[np.minimum(np.searchsorted(present, y), present.size - 1)]
        with np.errstate(over="ignore"):
            weight = weight * factor
    index = np.flatnonzero(weight > 0)
    if index.size == 0:
        raise ValueError(
            "sample_weight or class_weight is zero for every sample: there is "
            "nothing to learn from"
        )
    return weight, factor, index


def costs(C: float, weight: NDArray) -> NDArray:
    """C times the weight of each sample in single precision."""
    with np.errstate(over="ignore", under="ignore"):
        cost = (C * weight).astype(np.float32)
    # their squares and inverses must be in the range of float32
    if not ((cost > 1e-15) & (cost < 1e15)).all():
        raise ValueError(
            f"sample_weight times C={C:g} must be from 1e-15 to 1e15, got "
            f"{(C * weight).min():.2g} to {(C * weight).max():.2g}; choose C nearer "
            "to 1, or scale the weights to a mean of 1"
        )
    return cost


def warn_uneven(X: Samples) -> None:
    """Warn if rows are short, sparse rows are long, or lengths of rows differ much."""
    length = row_norms(X)
    length = length[length > 0]
    # dense rows of d standardised features have length sqrt(d), so only sparse rows,
    # such as counts that were not scaled, are tested for large lengths
    most = _UNEVEN if sp.issparse(X) else np.inf
    if length.size and not (
        1 / _UNEVEN < length.min() and length.max() < min(_UNEVEN * length.min(), most)
    ):
        warn(
            f"X has rows of lengths from {length.min():.2g} to {length.max():.2g}: C "
            "and the margins of the squared hinge are meant for lengths of about 1. "
            "Scale the rows (sklearn.preprocessing.normalize), or search for C",
        )
