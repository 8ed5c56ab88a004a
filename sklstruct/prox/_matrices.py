"""Operators of norms of matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from .._checks import check_real
from .._parallel import interruptible
from ._arguments import check_vector

# If m n min(m, n) is at least this, a decomposition takes 0.1 seconds or more.
_LONG = 1e8


def _decompose(v):
    try:  # NumPy's call releases the GIL, SciPy's does not
        return np.linalg.svd(v, full_matrices=False)
    except np.linalg.LinAlgError:  # divide and conquer may fail to converge
        return linalg.svd(
            v, full_matrices=False, check_finite=False, lapack_driver="gesvd"
        )


def _shrink(v, kappa):
    """v with singular values [sigma - kappa]_+."""
    left, sigma, right = _decompose(v)
    sigma = np.maximum(sigma - kappa, 0.0)
    rank = int(np.count_nonzero(sigma))
    return (left[:, :rank] * sigma[:rank]) @ right[:rank]


def prox_trace(v: ArrayLike, kappa: float) -> NDArray:
    r"""Soft thresholding of singular values, the operator of the trace norm.

    .. math::
        \operatorname*{arg\,min}_W\; \tfrac12 \|W - V\|_F^2
        + \kappa \sum_i \sigma_i(W)

    Parameters
    ----------
    v : array-like of shape (m, n)
        Finite values V.

    kappa : float
        Strength, finite and >= 0.

    Returns
    -------
    w : ndarray of shape (m, n)
        float32 if v is float32 (the computation is in float64), else float64. Its rank
        is the number of singular values above kappa.

    Raises
    ------
    ValueError
        Naming the parameter.

    Notes
    -----
    The parameters ``positive`` and ``metric`` do not exist here: they would change the
    singular vectors. O(m n min(m, n)), by LAPACK.

    References
    ----------
    A. Nelakanti, thesis, 2014, section 2.2.1.

    Examples
    --------
    >>> from sklstruct.prox import prox_trace
    >>> prox_trace([[3.0, 0.0], [0.0, 1.0]], 2.0)
    array([[1., 0.],
           [0., 0.]])
    """
    kappa = check_real("kappa", kappa, "[0, inf)")
    w, dtype = check_vector(v, ndim=2)
    unit = np.abs(w).max(initial=0.0)
    if unit == 0:
        return w.astype(dtype, copy=False)
    scaled = w / unit, kappa / unit
    is_long = w.size * min(w.shape) >= _LONG  # Ctrl-C can interrupt it then
    out = interruptible(_shrink, *scaled) if is_long else _shrink(*scaled)
    return (unit * out).astype(dtype, copy=False)
