r"""The leading directions of many class means, without making them dense.

Let M be the K × d class means and H = I - 11ᵀ/K. The r leading right singular vectors
of HM are computed by subspace iteration on the left singular vectors,

    Z = Mᵀ Q,   Q ← orthonormal basis of H M Z,

where Q (K × r) is centred, so that no dense mean is subtracted from M. A pass costs 2 r
multiplications for each entry of M; Z (d × r) is the largest array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._samples import sum_by_class

# Additional columns, and passes. The error of a direction is the power 2 _PASSES + 1 of
# a ratio: the first singular value outside of the subspace over the singular value of
# the direction.
_EXTRA = 10
_PASSES = 2
_CHUNK = 2**15
_LARGE = 1e15


def weighted_means(X: Any, codes: NDArray, weight: NDArray, n_classes: int) -> Any:
    """Weighted means of the classes (K, d), in the precision of X; CSR if X is CSR."""
    share = weight / np.bincount(codes, weight, minlength=n_classes)[codes]
    means = sum_by_class(X, codes, n_classes, share.astype(X.dtype))
    return means.tocsr() if sp.issparse(means) else means


def leading_directions(means: Any, rank: int) -> NDArray:
    """Orthonormal (d, r) basis, r <= rank, of the leading directions of the means."""
    k = means.shape[0]
    data = means.data if sp.issparse(means) else means
    top = max(float(data.max(initial=0)), -float(data.min(initial=0)))
    if top == 0:
        return np.zeros((means.shape[1], 1), dtype=means.dtype)
    # Scaled so that squares do not overflow; the basis is float64 for large features.
    means = means * means.dtype.type(1 / top)
    wide = means.dtype if top < _LARGE else np.float64
    # A fixed seed: the start changes the result only by the error of the iteration.
    start = np.random.RandomState(0).standard_normal((k, min(rank + _EXTRA, k)))
    q = np.linalg.qr(start - start.mean(axis=0))[0].astype(means.dtype)
    transposed = means.T.tocsr() if sp.issparse(means) else means.T
    for _ in range(_PASSES):
        q = np.asarray(means @ (transposed @ q), dtype=np.float64)
        q = np.linalg.qr(q - q.mean(axis=0))[0]
        # Centred again: a mean left by rounding would hide small directions.
        q = (q - q.mean(axis=0)).astype(means.dtype)
    z = np.asarray(transposed @ q)
    gram = np.zeros((q.shape[1], q.shape[1]))
    for lo in range(0, len(z), _CHUNK):
        block = z[lo : lo + _CHUNK].astype(np.float64)
        gram += block.T @ block
    s2, v = np.linalg.eigh(gram)
    s2, v = s2[::-1][:rank], v[:, ::-1][:, :rank]
    keep = s2 > 1e-12 * max(s2[0], 0)
    if not keep.any():
        return np.zeros((means.shape[1], 1), dtype=wide)
    return z @ (v[:, keep] / np.sqrt(s2[keep])).astype(wide)
