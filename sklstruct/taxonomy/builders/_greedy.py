"""OBYO: merge the closest pair of classes, one by one."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ._base import ProximityBuilder
from ._bottom_up import N_ROUNDS, merges_in_rounds, parents_of_merges

_BLOCK = 1024


class GreedyMerge(ProximityBuilder):
    r"""Merges the two closest groups of classes, one pair at a time ("obyo").

    .. math::

        (p, q) = \arg\min_{p \ne q} Q_{pq} = \arg\max_{p \ne q} a_p^\top a_q,
        \qquad a_{pq} = a_p + a_q,

    where Q = N - AAᵀ (`ClassStatistics`) and :math:`a_p` are the rows of A. Each step
    merges the pair with the smallest off-diagonal entry of Q. The sum of the two rows
    of A gives exactly the matrix Q of the merged classes.

    Parameters
    ----------
    normalize : bool, default=True
        Whether pairs are compared by :math:`a_p^\top a_q / \sqrt{n_p n_q}`, with n the
        weights of the clusters. False compares the entries of Q; most merges are then
        with a large cluster, and the tree becomes a chain.

    n_rounds : int, default=None
        Depth d >= 0 counted from the leaves. A round is the number of merges that halve
        the number of clusters: after d rounds the remaining
        :math:`\lceil K / 2^d \rceil` clusters become the children of the root; 0 is the
        flat tree. None merges until one cluster is left. (`max_depth` counts from the
        root.)

    max_depth, max_leaf, delta, form, rank : as in `SpectralSplit`
        Limits of the tree, and the proximity of its classes.

    Notes
    -----
    The K × K matrix is not stored: every row stores its best partner, and an upper
    bound of its score after that partner is merged. O(K² rank) time, O(K rank) memory.

    References
    ----------
    Nelakanti (2014), thesis, section 4.2.4 and algorithm 9; section 4.4 for rounds of
    several merges.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.taxonomy import GreedyMerge
    >>> GreedyMerge().build(*load_iris(return_X_y=True)).to_nested()
    [[0], [[1], [2]]]
    """

    short_name = "obyo"

    n_rounds: int | None = None

    _parameter_constraints: ClassVar[dict] = {"n_rounds": N_ROUNDS}

    def _parents(self, X, codes, weight, rng):
        near = self._statistics(X, codes, weight).proximity(delta=self.delta)
        k = near.n_classes
        n_merges = merges_in_rounds(k, self.n_rounds)
        merges = merge_greedily(near.factor, near.weight, self.normalize, n_merges)
        return parents_of_merges(merges, k, self.n_rounds)


def merge_greedily(
    factor: NDArray, weight: NDArray, normalize: bool, n_merges: int
) -> list[tuple[int, int]]:
    """Pairs of cluster numbers; merge i makes cluster K + i."""
    k = weight.size
    rows, size = factor.copy(), weight.copy()
    name = np.arange(k)  # cluster in each slot
    scaled = rows / np.sqrt(size)[:, None] if normalize else rows.copy()
    # bound[r] is at least the best score of a pair (r, other), and equal if fresh[r].
    best, bound = np.empty(k, dtype=np.intp), np.empty(k)
    for lo in range(0, k, _BLOCK):
        block = scaled[lo : lo + _BLOCK] @ scaled.T
        at = np.arange(len(block))
        block[at, lo + at] = -np.inf
        best[lo : lo + _BLOCK] = np.argmax(block, axis=1)
        bound[lo : lo + _BLOCK] = block[at, best[lo : lo + _BLOCK]]
    fresh = np.ones(k, dtype=bool)
    dead = np.zeros(k)  # -inf in the slots of merged clusters
    merges: list[tuple[int, int]] = []
    n_left = k
    while len(merges) < n_merges:
        p = int(np.argmax(bound))
        while not fresh[p]:
            score = scaled @ scaled[p] + dead
            score[p] = -np.inf
            best[p] = np.argmax(score)
            bound[p] = score[best[p]]
            fresh[p] = True
            p = int(np.argmax(bound))
        q = int(best[p])
        merges.append((int(name[p]), int(name[q])))
        name[p] = k + len(merges) - 1
        rows[p] += rows[q]
        size[p] += size[q]
        scaled[p] = rows[p] / np.sqrt(size[p]) if normalize else rows[p]
        dead[q] = bound[q] = -np.inf
        n_left -= 1
        if n_left < 0.5 * name.size:
            keep = np.flatnonzero(dead == 0)
            slot = np.full(name.size, -1)
            slot[keep] = np.arange(keep.size)
            # A merged partner has slot -1, which differs from every p.
            fresh &= (slot[best] >= 0) & (best != q)
            best = slot[best]
            p = int(slot[p])
            rows, size, scaled, name = rows[keep], size[keep], scaled[keep], name[keep]
            best, bound, fresh, dead = best[keep], bound[keep], fresh[keep], dead[keep]
            q = -2
        score = scaled @ scaled[p] + dead
        score[p] = -np.inf
        fresh &= (best != p) & (best != q)
        # A score above the bound of a row is its best score, whether fresh or not.
        higher = score >= bound
        higher &= dead == 0
        best[higher], bound[higher], fresh[higher] = p, score[higher], True
        best[p] = np.argmax(score)
        bound[p] = score[best[p]]
        fresh[p] = True
    return merges
