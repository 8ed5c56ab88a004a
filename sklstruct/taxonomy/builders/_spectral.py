"""SPEC: the split by the smallest eigenvector of the proximity matrix."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from ._top_down import TopDownBuilder, leading_vectors

# Up to this K the dense Q is decomposed, at most 32 MB.
_DENSE = 2048


class SpectralSplit(TopDownBuilder):
    r"""Splits by the criterion of "cut", with an eigenvector ("spec").

    .. math::

        \min_z z^\top Q z \quad\text{s.t.}\quad z^\top z = K,

    where Q = N - AAᵀ (`ClassStatistics`). The solution is the eigenvector of the
    smallest eigenvalue of Q, and the signs of its entries split the classes. With
    ``normalize=True`` the matrix is :math:`N^{-1/2} Q N^{-1/2}` instead, and the
    solution is the leading left singular vector of :math:`N^{-1/2}A`.

    Parameters
    ----------
    max_depth : int, default=None
        Largest depth, >= 0. Nodes at this depth become leaves with several classes.
        None splits down to single classes.

    max_leaf : int, default=None
        Nodes with at most `max_leaf` classes are not split, >= 1. None splits down to
        single classes.

    delta : float, default=1.0
        Ridge >= 0 of the proximity at the root; see `ClassStatistics.proximity`.

    normalize : bool, default=True
        Whether :math:`N^{-1/2} Q N^{-1/2}` is used, for classes of unequal size. False
        uses Q, whose smallest eigenvector may separate only the smallest class.

    gram : {"pooled", "exact", "root"}, default="pooled"
        Gram matrix below the root; see `ClassStatistics.proximity`. "exact" reads the
        rows again, at most once per level.

    form, rank : as in `ClassStatistics`
        Coordinates of the statistics.

    Raises
    ------
    MemoryError
        From `build`: if a dense array of the statistics does not fit into this
        machine's memory.

    References
    ----------
    Nelakanti (2014), thesis, section 4.2.3, equation 4.10.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.taxonomy import SpectralSplit
    >>> SpectralSplit().build(*load_iris(return_X_y=True)).to_nested()
    [[0], [[1], [2]]]
    """

    short_name = "spec"

    def _bisect(self, factor, diagonal):
        return smallest_eigenvector(factor, diagonal)


def smallest_eigenvector(factor: NDArray, diagonal: NDArray) -> NDArray:
    """Eigenvector of the smallest eigenvalue of D - FFᵀ; diagonal: that of D."""
    if diagonal.min() == diagonal.max():
        return leading_vectors(factor, 1)[0][:, 0]
    k = diagonal.size
    if k <= _DENSE:
        q = -(factor @ factor.T)
        q.flat[:: k + 1] += diagonal
        vectors = scipy.linalg.eigh(q, subset_by_index=[0, 0], check_finite=False)[1]
        return vectors[:, 0]
    # It has the largest eigenvalue of FFᵀ + (max D - D), which is semidefinite.
    rest = diagonal.max() - diagonal

    def product(v: NDArray) -> NDArray:
        v = v.ravel()
        return factor @ (v @ factor) + rest * v

    shifted = LinearOperator((k, k), matvec=product, dtype=np.float64)
    # A fixed start: otherwise ARPACK draws a random start.
    start = np.cos(np.arange(k))
    return eigsh(shifted, k=1, which="LA", v0=start, maxiter=100 * k)[1][:, 0]
