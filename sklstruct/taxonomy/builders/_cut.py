"""CUT: splits by sign vectors, found by ascent."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ._diffrac import relax
from ._signs import best_polished, bound_of, objective, round_directions
from ._top_down import TopDownBuilder

# Up to this K all 2^(K-1) sign vectors are evaluated, which is faster than the ascents.
_EXHAUSTIVE = 10


class CutSplit(TopDownBuilder):
    r"""Splits the classes into two groups that a linear model separates ("cut").

    .. math::

        \min_{z \in \{\pm1\}^K} z^\top Q z
        \quad\text{by}\quad
        z \leftarrow \operatorname{sign}(A A^\top z),

    where :math:`Q = N - AA^\top` (`ClassStatistics`) and :math:`\|A^\top z\|^2` never
    decreases. The ascent starts at the signs of the six leading eigenvectors, and at
    the signs of sums and differences of two of them. The best results are improved by
    changes of single signs and, up to 256 classes, of pairs of signs. Nodes of up to 10
    classes are solved exactly.

    Parameters
    ----------
    certify : bool, default=False
        Whether the splits are compared with an upper bound (see `gap_`), from the
        semidefinite relaxation of `DiffracSplit` up to 2048 classes, and from the
        largest eigenvalue for more classes.

    max_depth, max_leaf, delta, normalize, gram, form, rank : as in `SpectralSplit`
        Limits of the tree, and the proximity of its classes.

    Attributes
    ----------
    gap_ : float
        If ``certify=True``, the largest relative gap (u - v) / u over the splits, with
        v the :math:`\|A^\top z\|^2` of the split and u the upper bound; 0 if every
        split is proven to be optimal.

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

    short_name = "cut"

    certify: bool = False

    _parameter_constraints: ClassVar[dict] = {
        "certify": ["boolean"],
    }

    def _parents(self, X, codes, weight, rng):
        if self.certify:
            self.gap_ = 0.0
        return super()._parents(X, codes, weight, rng)

    def _bisect(self, factor, diagonal):
        if factor.shape[0] <= _EXHAUSTIVE:
            return exhaustive(factor)
        z = sign_ascent(factor)
        if self.certify:
            found = objective(factor, z)
            most = bound_of(factor, relax(factor, tol=1e-9, max_iter=5000))
            if most > 0.0:
                self.gap_ = max(self.gap_, (most - found) / most)
        return z


@cache
def _all_signs(k: int) -> NDArray:
    """All splits of k classes into two non-empty sides, the first class positive."""
    bits = (np.arange(1, 2 ** (k - 1))[:, None] >> np.arange(k - 1)) & 1
    return np.hstack([np.ones((len(bits), 1)), 1.0 - 2.0 * bits])


def exhaustive(factor: NDArray) -> NDArray:
    """The best sign vector by enumeration."""
    signs = _all_signs(factor.shape[0])
    value = np.einsum("ij,ij->i", signs @ (factor @ factor.T), signs)
    return signs[np.argmax(value)]


def sign_ascent(factor: NDArray) -> NDArray:
    """The best of the ascents from the leading eigenvectors."""
    rounded = z = round_directions(factor)
    for _ in range(100):  # ends when no sign changes, usually within ten steps
        y = factor.T @ z
        better = np.where(factor @ y >= 0, 1.0, -1.0)
        if np.array_equal(better, z):
            break
        z = better
    # Flips from the rounded start may reach a better vector than the ascent.
    return best_polished(factor, np.hstack([z, rounded]))
