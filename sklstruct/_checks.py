"""Checks of data that scikit-learn's own leave out."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def check_sparse(X, name="X"):
    """Raise ValueError if a sparse X points outside of its arrays or its shape.

    `check_array` does not look at the indices, and neither do the loops of SciPy, which
    turn other formats into CSR, and ours. `check_format` of SciPy does, but may change
    X. One pass over the indices; call it before `check_array`.
    """
    if not sp.issparse(X):
        return
    remedy = "build it anew, for example from (data, (row, column))"
    if X.format == "coo":
        for index, size in zip((X.row, X.col), X.shape):
            if index.size and not 0 <= index.min() <= index.max() < size:
                raise ValueError(
                    f"{name} is a malformed COO matrix: indices must be from 0 to "
                    f"{size - 1}, got {index.min()} to {index.max()}; {remedy}"
                )
    if X.format == "bsr":
        n_major, n_minor = (n // b for n, b in zip(X.shape, X.blocksize))
    elif X.format in ("csr", "csc"):
        n_major, n_minor = X.shape if X.format == "csr" else X.shape[::-1]
    else:
        return
    indptr, indices = X.indptr, X.indices
    fault = None
    if indptr.shape != (n_major + 1,) or indices.shape != X.data.shape[:1]:
        fault = "its arrays have the wrong sizes"
    elif indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        fault = "indptr must start with 0 and not decrease"
    elif indptr[-1] > indices.size:
        fault = f"indptr ends at {indptr[-1]}, beyond the {indices.size} entries"
    elif indices.size and not 0 <= indices.min() <= indices.max() < n_minor:
        fault = (
            f"indices must be from 0 to {n_minor - 1}, got {indices.min()} to "
            f"{indices.max()}"
        )
    if fault:
        raise ValueError(
            f"{name} is a malformed {X.format.upper()} matrix: {fault}; {remedy}"
        )


def check_range(X, dtype=None, name="X"):
    """Raise ValueError if sums of squares of a checked X may overflow.

    dtype: of the sums; None is that of X.
    """
    dtype = np.dtype(X.dtype if dtype is None else dtype)
    data = X.data if sp.issparse(X) else X
    # a Python float: NumPy would compare a float32 with the limit in float32
    top = max(float(data.max(initial=0)), -float(data.min(initial=0)))
    # the square of the limit leaves eight digits for sums over samples and features
    limit = 1e-4 * float(np.finfo(dtype).max) ** 0.5
    if top > limit:
        raise ValueError(
            f"{name} has entries of size {top:.2g}, whose squares overflow {dtype}; "
            f"the largest may be {limit:.2g}. Scale the features, for example with "
            "sklearn.preprocessing.StandardScaler"
        )
