"""DIFF: sign vectors by the semidefinite relaxation of the cut."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..._compat import Interval
from ._signs import best_polished, round_directions
from ._top_down import TopDownBuilder, leading_vectors


class DiffracSplit(TopDownBuilder):
    r"""Top-down bisection by the semidefinite relaxation of the cut ("diff").

    .. math::

        \min_Z \operatorname{tr}(Z Q) \quad\text{s.t.}\quad
        \operatorname{diag} Z = 1,\; Z \succeq 0,

    with Z = VVᵀ, V of `max_rank` columns with rows on the unit sphere, by the
    generalised power method V ← AAᵀV with rows scaled to norm one, in which
    :math:`\|A^\top V\|_F` never decreases. The signs of the leading eigenvectors of Z,
    and of the sums and differences of their pairs, are roundings of Z; the best one
    after flips of single signs and pairs splits the classes. Features are centred at
    the node, so the constant vector has the largest objective, and the term κ11ᵀ of the
    source is not needed.

    Parameters
    ----------
    max_rank : int, default=16
        Largest number of columns of V, >= 2. The relaxation is exact from sqrt(2K)
        columns on.

    polish : bool, default=True
        Whether roundings are improved by flips. False: the signs of the first
        eigenvector split the classes, as in the source.

    max_depth, max_leaf, delta, normalize, gram, form, rank, max_bytes
        See `SpectralSplit`.

    References
    ----------
    Nelakanti (2014), thesis, equation 4.9. Bach and Harchaoui (2007), DIFFRAC, NIPS.
    Journée, Bach, Absil, Sepulchre (2010), Low-rank optimization on the cone of
    positive semidefinite matrices, SIAM J. Optimization 20.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.taxonomy import DiffracSplit
    >>> DiffracSplit().build(*load_iris(return_X_y=True)).to_nested()
    [[0], [[1], [2]]]
    """

    max_rank: int = 16
    polish: bool = True

    _parameter_constraints: ClassVar[dict] = {
        **TopDownBuilder._parameter_constraints,
        "max_rank": [Interval(Integral, 2, None, closed="left")],
        "polish": ["boolean"],
    }

    def _bisect(self, factor, diagonal):
        v = relax(factor, self.max_rank)
        if self.polish:
            return best_polished(factor, round_directions(v, 6))
        return leading_vectors(v, 1)[0][:, 0]


def relax(
    factor: NDArray, max_rank: int, *, tol: float = 1e-5, max_iter: int = 500
) -> NDArray:
    """V of the relaxation, (K, rank)."""
    k = factor.shape[0]
    rank = int(min(max_rank, np.ceil(np.sqrt(2 * k)) + 1, k))
    u, s = leading_vectors(factor, rank)
    v = _unit_rows(u * s)
    last = -np.inf
    for _ in range(max_iter):
        y = factor.T @ v
        value = float(np.sum(y * y))
        if value <= last * (1 + tol):
            break
        last = value
        v = _unit_rows(factor @ y)
    return v


def _unit_rows(v):
    norm = np.linalg.norm(v, axis=1, keepdims=True)
    first = np.zeros_like(v)
    first[:, 0] = 1.0
    return np.where(norm > 1e-150, v / np.maximum(norm, 1e-150), first)
