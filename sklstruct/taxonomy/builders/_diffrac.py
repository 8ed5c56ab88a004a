"""DIFF: sign vectors by the semidefinite relaxation of the cut."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._signs import best_polished, round_directions
from ._top_down import TopDownBuilder, leading_vectors

# Largest number of columns of V; the relaxation is exact with sqrt(2K) or more.
_RANK = 16


class DiffracSplit(TopDownBuilder):
    r"""Splits by the criterion of "cut", with a semidefinite relaxation ("diff").

    .. math::

        \min_Z \operatorname{tr}(Z Q) \quad\text{s.t.}\quad
        \operatorname{diag} Z = 1,\; Z \succeq 0,

    where Q = N - AAᵀ (`ClassStatistics`), and Z = VVᵀ with V of at most 16 columns and
    rows of norm 1. The generalised power method V ← AAᵀV scales the rows to norm 1, and
    :math:`\|A^\top V\|_F` never decreases. The signs of the leading eigenvectors of Z,
    and of sums and differences of two of them, are candidates for the split. The
    candidates are improved by changes of single signs and of pairs of signs, and the
    best candidate splits the classes. (The thesis uses the signs of the first
    eigenvector.) Features are centred at the node, so the constant vector has the
    largest (worst) objective, and the term κ11ᵀ of the thesis is not needed.

    Parameters
    ----------
    max_depth, max_leaf, delta, normalize, gram, form, rank : as in `SpectralSplit`
        Limits of the tree, and the proximity of its classes.

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

    short_name = "diff"

    def _bisect(self, factor, diagonal):
        return best_polished(factor, round_directions(relax(factor)))


def relax(factor: NDArray, *, tol: float = 1e-5, max_iter: int = 500) -> NDArray:
    """V of the relaxation, (K, rank)."""
    k = factor.shape[0]
    rank = int(min(_RANK, np.ceil(np.sqrt(2 * k)) + 1, k))
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
