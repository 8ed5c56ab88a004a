"""HUNG: all pairs of a level by optimal assignment."""

from __future__ import annotations

from itertools import pairwise
from operator import itemgetter
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ..._parallel import interruptible
from ._base import ProximityBuilder
from ._bottom_up import N_ROUNDS, parents_of_merges

# Number of dummy columns of the assignment, as a fraction of the clusters.
_DUMMIES = 0.1


class HungarianMerge(ProximityBuilder):
    r"""Merges close groups of classes, all pairs of a level at once ("hung").

    .. math::

        \min_B \operatorname{tr}\bigl(B^\top [\,Q + \eta I \;\; 0\,]\bigr),
        \qquad B \text{ an assignment of } K \text{ rows to } 1.1\,K
        \text{ columns,}

    where Q = N - AAᵀ (`ClassStatistics`), η is large, so that no cluster is assigned to
    itself, and K/10 additional columns with cost 0 are for clusters that are not merged
    on this level. The assignment consists of cycles and chains. Each cycle or chain is
    cut into as many pairs as possible, with the least cost, and the pairs are merged. A
    cycle or chain of odd length leaves one cluster for the next level.

    Parameters
    ----------
    n_rounds : int, default=None
        Depth d >= 0 counted from the leaves: after d rounds the remaining clusters
        become the children of the root; 0 is the flat tree. None pairs until one
        cluster is left. (`max_depth` counts from the root.)

    normalize, max_depth, max_leaf, delta, form, rank : as in `GreedyMerge`
        Limits of the tree, and the proximity of its classes.

    Raises
    ------
    MemoryError
        From `build`: if the K × 1.1 K assignment matrix does not fit into this
        machine's memory.

    References
    ----------
    Nelakanti (2014), thesis, section 4.2.4, equations 4.11 and 4.12, and
    algorithm 9.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklstruct.taxonomy import HungarianMerge
    >>> HungarianMerge().build(*load_digits(return_X_y=True)).n_leaves
    10
    """

    short_name = "hung"
    _matrix = "assignment matrix"

    n_rounds: int | None = None

    _parameter_constraints: ClassVar[dict] = {"n_rounds": N_ROUNDS}

    def _parents(self, X, codes, weight, rng):
        k = int(codes.max()) + 1
        near = self._statistics(X, codes, weight).proximity(delta=self.delta)
        name, merges = np.arange(k), []
        n_rounds = k if self.n_rounds is None else self.n_rounds
        for _ in range(n_rounds):
            m = near.n_classes
            if m <= 2:
                break
            scaled = near.normalized_factor if self.normalize else near.factor
            pairs = pair_level(scaled)
            group = np.arange(m)
            for p, q in pairs:
                merges.append((int(name[p]), int(name[q])))
                name[p] = k + len(merges) - 1
                group[q] = p
            kept, group = np.unique(group, return_inverse=True)
            near, name = near.merge(group), name[kept]
        return parents_of_merges(merges, k, self.n_rounds)


def pair_level(rows: NDArray) -> list[tuple[int, int]]:
    """Disjoint pairs of rows by an optimal assignment, at least one pair.

    The cost of a pair is the off-diagonal entry -a_pᵀa_q.
    """
    k = rows.shape[0]
    wide = np.zeros((k, k + int(_DUMMIES * k)))
    cost = wide[:, :k]
    np.matmul(-rows, rows.T, out=cost)
    # A diagonal entry costs more than any assignment without one.
    most = max(cost.max(), -cost.min(), 1e-300)
    np.fill_diagonal(cost, 2.0 * k * most)
    _, to = interruptible(linear_sum_assignment, wide)
    pairs = pairs_of_assignment(np.where(to < k, to, -1), cost)
    if not pairs:  # every row is assigned to a dummy
        p, q = np.unravel_index(np.argmin(cost), cost.shape)
        pairs = [(int(min(p, q)), int(max(p, q)))]
    return pairs


def pairs_of_assignment(to: NDArray, cost: NDArray) -> list[tuple[int, int]]:
    """As many pairs as possible, of least cost, along the chains and cycles i -> to[i].

    to[i] is -1 at the end of a chain.
    """
    k = to.size
    entered = np.zeros(k, dtype=bool)
    entered[to[to >= 0]] = True
    seen = np.zeros(k, dtype=bool)
    pairs = []
    # Chains first, from their first rows; what remains are cycles.
    for start in [*np.flatnonzero(~entered), *range(k)]:
        trail, v = [], start
        while v >= 0 and not seen[v]:
            seen[v] = True
            trail.append(int(v))
            v = to[v]
        if len(trail) < 2:
            continue
        match = _match_path(trail, cost)
        if v == start and len(trail) > 2:  # a cycle may use its closing edge as well
            value, inner = _match_path(trail[1:-1], cost)
            ends = (trail[-1], trail[0])
            match = min(match, (value + cost[ends], [*inner, ends]), key=itemgetter(0))
        pairs += match[1]
    return [(min(p, q), max(p, q)) for p, q in pairs]


def _match_path(path, cost):
    """(cost, pairs) of the cheapest floor(m / 2) disjoint edges of m nodes in line."""
    m = left_out = len(path)
    if m % 2:
        # One node at an even place 2 i is left out: the matching has the edges at the
        # places 0, 2, ... before the node, and 2 i + 1, 2 i + 3, ... after the node.
        edge = np.array([cost[ends] for ends in pairwise(path)])
        before = np.append(0.0, np.cumsum(edge[::2]))
        after = np.append(0.0, np.cumsum(edge[1::2][::-1]))[::-1]
        left_out = 2 * int(np.argmin(before + after))
    rest = path[:left_out] + path[left_out + 1 :]
    pairs = list(zip(rest[::2], rest[1::2]))
    return sum(cost[pair] for pair in pairs), pairs
