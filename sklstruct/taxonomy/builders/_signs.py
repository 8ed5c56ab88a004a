r"""Sign vectors that minimise :math:`z^\top Q z`, by rounding and flips of signs.

With Q = D - FFᵀ, D diagonal, zᵀDz is equal for all sign vectors. So the problem is to
maximise the convex function ‖Fᵀz‖² over z ∈ {±1}^K, a maximum cut.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ._top_down import leading_vectors

# Up to this K flips store FFᵀ, at most 32 MB.
_DENSE_GRAM = 2048
# Up to this K all starts are improved by flips, and pairs of signs are flipped, too,
# with K² sums per step. Single flips alone miss the best cut of well separated classes.
_PAIRS = 256
# Number of leading singular vectors that are rounded.
_DIRECTIONS = 6


def objective(factor: NDArray, z: NDArray) -> float:
    """‖Fᵀz‖², to be maximised."""
    return float(np.sum((z @ factor) ** 2))


def bound_of(factor: NDArray, v: NDArray) -> float:
    """An upper bound of ‖Fᵀz‖² over all sign vectors, from any V of the relaxation.

    By duality tr(ZFFᵀ) <= sum(d) for every d with diag(d) - FFᵀ >= 0. At the optimum of
    the relaxation d_i = ‖(FFᵀV)_i‖; for other V the largest eigenvalue of FFᵀ - diag(d)
    is added to each d_i. That takes K³ steps; above 2048 classes every d_i is the
    largest eigenvalue of FFᵀ instead.
    """
    k = factor.shape[0]
    if k > _DENSE_GRAM:
        return float(k * leading_vectors(factor, 1)[1][0] ** 2)
    gram = factor @ factor.T
    d = np.linalg.norm(gram @ v, axis=1)
    gram[np.diag_indices(k)] -= d
    return float(d.sum() + k * max(0.0, np.linalg.eigvalsh(gram)[-1]))


def flip(factor: NDArray, z: NDArray) -> NDArray:
    """Flip one sign after another, the best first, while ‖Fᵀz‖² increases.

    A flip of sign i changes ‖Fᵀz‖² by 4 (‖f_i‖² - z_i f_iᵀFᵀz). If no single flip
    increases ‖Fᵀz‖² and K is small, the best pair is flipped, until no pair increases
    ‖Fᵀz‖².
    """
    k = factor.shape[0]
    gram = factor @ factor.T if k <= _DENSE_GRAM else None
    z = z.copy()
    square = np.einsum("ij,ij->i", factor, factor)
    pull = factor @ (z @ factor)
    tiny = 1e-12 * max(square.sum(), 1e-300)
    for _ in range(10 * k):  # a safeguard: every flip increases the objective
        gain = square - z * pull
        chosen = [int(np.argmax(gain))]
        if gain[chosen[0]] <= tiny:
            if k > _PAIRS:
                break
            both = gain[:, None] + gain + 2 * z[:, None] * z * gram
            np.fill_diagonal(both, -np.inf)
            chosen = [int(i) for i in np.unravel_index(np.argmax(both), both.shape)]
            if both[chosen[0], chosen[1]] <= tiny:
                break
        for i in chosen:
            step = gram[i] if gram is not None else factor @ factor[i]
            pull = pull - 2 * z[i] * step
            z[i] = -z[i]
    return z


def flip_columns(gram: NDArray, z: NDArray) -> None:
    """Single flips of every column of z at once, in place."""
    square = np.diag(gram)[:, None]
    pull = gram @ z
    tiny = 1e-12 * max(square.sum(), 1e-300)
    for _ in range(10 * len(gram)):
        gain = square - z * pull
        i = np.argmax(gain, axis=0)
        on = np.flatnonzero(gain[i, np.arange(i.size)] > tiny)
        if on.size == 0:
            break
        i = i[on]
        pull[:, on] -= 2 * gram[:, i] * z[i, on]
        z[i, on] = -z[i, on]


def round_directions(factor: NDArray) -> NDArray:
    """Signs of t leading singular vectors, their sums and differences, (K, t²)."""
    u, s = leading_vectors(factor, _DIRECTIONS)
    u = u * s
    starts = [u]
    pairs = list(combinations(range(u.shape[1]), 2))
    if pairs:
        i, j = np.array(pairs).T
        starts += [u[:, i] + u[:, j], u[:, i] - u[:, j]]
    return np.where(np.hstack(starts) >= 0, 1.0, -1.0)


def best_polished(factor: NDArray, z: NDArray) -> NDArray:
    """The best column of z after flips; for large K only a few columns are improved."""
    k = factor.shape[0]
    if k <= _PAIRS:
        flip_columns(factor @ factor.T, z)
    value = np.sum((factor.T @ z) ** 2, axis=0)
    top = np.argsort(-value, kind="stable")[: 4 if k <= _DENSE_GRAM else 1]
    polished = [flip(factor, z[:, t]) for t in top]
    return max(polished, key=lambda z: objective(factor, z))
