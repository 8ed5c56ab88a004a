r"""CUT and DIFF: sign vectors that minimise :math:`z^\top Q z`, a maximum cut.

With Q = D - FFᵀ, D diagonal, the diagonal is the same for every sign vector, so both
maximise the convex function ‖Fᵀz‖² over z ∈ {±1}^K: `CutSplit` over the signs
themselves, `DiffracSplit` over the unit vectors of the semidefinite relaxation.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from numbers import Integral

import numpy as np

from sklstruct._compat import Interval
from sklstruct.taxonomy._builders._base import TopDownBuilder, leading_vectors

# Up to here all 2^(K-1) sign vectors are looked at: at 10 classes 0.1 ms, less than
# the ascents take.
_EXHAUSTIVE = 10
# Up to here FFᵀ is kept during flips: 32 MB.
_DENSE_GRAM = 2048
# Up to here every start is polished, and pairs of signs are flipped too: K² sums a
# step. Without them the cut of 14 well separated classes missed the best by 5 %.
_PAIRS = 256


@cache
def _all_signs(k):
    """Every split of k classes but the trivial one, first class positive."""
    bits = (np.arange(1, 2 ** (k - 1))[:, None] >> np.arange(k - 1)) & 1
    return np.hstack([np.ones((len(bits), 1)), 1.0 - 2.0 * bits])


def exhaustive(factor):
    """The best sign vector by enumeration."""
    signs = _all_signs(factor.shape[0])
    value = np.einsum("ij,ij->i", signs @ (factor @ factor.T), signs)
    return signs[np.argmax(value)]


def objective(factor, z):
    """‖Fᵀz‖², to be maximised."""
    return float(np.sum((z @ factor) ** 2))


def flip(factor, z):
    """Flip one sign after another, the best first, while ‖Fᵀz‖² grows.

    Flipping i changes it by 4 (‖f_i‖² - z_i f_iᵀFᵀz). Where no single flip helps and
    the node is small, the best pair is flipped, and so on until none helps either.
    """
    k = factor.shape[0]
    gram = factor @ factor.T if k <= _DENSE_GRAM else None
    z = z.copy()
    square = np.einsum("ij,ij->i", factor, factor)
    pull = factor @ (z @ factor)
    tiny = 1e-12 * max(square.sum(), 1e-300)
    for _ in range(10 * k):  # each flip grows the objective; the bound never binds
        gain = square - z * pull
        chosen = [int(np.argmax(gain))]
        if gain[chosen[0]] <= tiny:
            if k > _PAIRS:
                break
            both = gain[:, None] + gain + 2 * z[:, None] * z * gram
            np.fill_diagonal(both, -np.inf)
            chosen = list(np.unravel_index(np.argmax(both), both.shape))
            if both[tuple(chosen)] <= tiny:
                break
        for i in chosen:
            step = gram[i] if gram is not None else factor @ factor[i]
            pull = pull - 2 * z[i] * step
            z[i] = -z[i]
    return z


def flip_columns(gram, z):
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


class CutSplit(TopDownBuilder):
    r"""Top-down bisection by sign ascent ("cut").

    .. math::

        \min_{z \in \{\pm1\}^K} z^\top Q z
        \quad\text{by}\quad
        z \leftarrow \operatorname{sign}(A A^\top z),

    which never lets the convex :math:`\|A^\top z\|^2` shrink, from starts in the span
    of the leading eigenvectors; the best results are polished by flips of single
    signs and, up to 256 classes, of pairs. Nodes with up to 10 classes are solved
    exactly.

    Parameters
    ----------
    n_directions : int, default=6
        Leading eigenvectors t >= 1; they, their sums and their differences in pairs
        are t² starts.
    max_depth, delta, normalize, gram, form, rank, max_bytes
        See `SpectralSplit`.

    References
    ----------
    The criterion: Nelakanti (2014), thesis, equation 4.8.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklstruct.taxonomy import CutSplit
    >>> CutSplit(max_depth=2).build(*load_digits(return_X_y=True)).to_nested()
    [[[0, 4, 6], [5, 7]], [[1, 8, 9], [2, 3]]]
    """

    _parameter_constraints: dict = {
        **TopDownBuilder._parameter_constraints,
        "n_directions": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        n_directions=6,
        max_depth=None,
        delta=1.0,
        normalize=True,
        gram="pooled",
        form="auto",
        rank=512,
        max_bytes=2**31,
    ):
        super().__init__(
            max_depth=max_depth,
            delta=delta,
            normalize=normalize,
            gram=gram,
            form=form,
            rank=rank,
            max_bytes=max_bytes,
        )
        self.n_directions = n_directions

    def _bisect(self, factor):
        if factor.shape[0] <= _EXHAUSTIVE:
            return exhaustive(factor)
        return sign_ascent(factor, self.n_directions)


def sign_ascent(factor, n_directions):
    """The best of the ascents from the leading eigenvectors."""
    rounded = z = round_directions(factor, n_directions)
    for _ in range(100):  # ends when no sign changes, usually within ten steps
        y = factor.T @ z
        better = np.where(factor @ y >= 0, 1.0, -1.0)
        if np.array_equal(better, z):
            break
        z = better
    # The ascent can skip what flips reach from the rounded start itself.
    return best_polished(factor, np.hstack([z, rounded]))


def round_directions(factor, n_directions):
    """Signs of the leading singular vectors, their sums and differences, (K, t²)."""
    u, s = leading_vectors(factor, n_directions)
    u = u * s
    starts = [u]
    pairs = list(combinations(range(u.shape[1]), 2))
    if pairs:
        i, j = np.array(pairs).T
        starts += [u[:, i] + u[:, j], u[:, i] - u[:, j]]
    return np.where(np.hstack(starts) >= 0, 1.0, -1.0)


def best_polished(factor, z):
    """The best column of z after flips: of all where they are cheap, else of a few."""
    k = factor.shape[0]
    if k <= _PAIRS:
        flip_columns(factor @ factor.T, z)
    value = np.sum((factor.T @ z) ** 2, axis=0)
    top = np.argsort(-value, kind="stable")[: 4 if k <= _DENSE_GRAM else 1]
    polished = [flip(factor, z[:, t]) for t in top]
    return max(polished, key=lambda z: objective(factor, z))


class DiffracSplit(TopDownBuilder):
    r"""Top-down bisection by the semidefinite relaxation of the cut ("diff").

    .. math::

        \min_Z \operatorname{tr}(Z Q) \quad\text{s.t.}\quad
        \operatorname{diag} Z = 1,\; Z \succeq 0,

    with Z = VVᵀ, V of `max_rank` columns with rows on the unit sphere, by the
    generalised power method V ← AAᵀV with rows scaled to norm one (it never lets
    :math:`\|A^\top V\|_F` shrink). The signs of the leading eigenvectors of Z, of their
    sums and differences in pairs are roundings of Z; the best one after flips of single
    signs and pairs splits the classes. As features are centred at the node, the
    constant vector is the worst of all, and the term κ11ᵀ of the source is not needed.

    Parameters
    ----------
    max_rank : int, default=16
        Largest number of columns of V, >= 2; sqrt(2K) are enough for the relaxation
        to be exact.
    polish : bool, default=True
        False takes the signs of the first eigenvector as they are, like the source.
    max_depth, delta, normalize, gram, form, rank, max_bytes
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

    _parameter_constraints: dict = {
        **TopDownBuilder._parameter_constraints,
        "max_rank": [Interval(Integral, 2, None, closed="left")],
        "polish": ["boolean"],
    }

    def __init__(
        self,
        *,
        max_rank=16,
        polish=True,
        max_depth=None,
        delta=1.0,
        normalize=True,
        gram="pooled",
        form="auto",
        rank=512,
        max_bytes=2**31,
    ):
        super().__init__(
            max_depth=max_depth,
            delta=delta,
            normalize=normalize,
            gram=gram,
            form=form,
            rank=rank,
            max_bytes=max_bytes,
        )
        self.max_rank = max_rank
        self.polish = polish

    def _bisect(self, factor):
        v = relax(factor, self.max_rank)
        if self.polish:
            return best_polished(factor, round_directions(v, 6))
        return leading_vectors(v, 1)[0][:, 0]


def relax(factor, max_rank, *, tol=1e-5, max_iter=500):
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
