"""Rounds of merges and their tree, for the bottom-up builders."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from ..._compat import Interval

N_ROUNDS = [Interval(Integral, 0, None, closed="left"), None]


def merges_in_rounds(n_classes: int, n_rounds: int | None) -> int:
    r"""Number of single merges that correspond to `n_rounds` rounds of pairing.

    A round of pairing halves the number of clusters, so d rounds are
    :math:`K - \lceil K / 2^d \rceil` merges; None: all K - 1 merges.
    """
    if n_rounds is None or n_rounds >= n_classes.bit_length():
        return n_classes - 1
    return n_classes + (-n_classes >> n_rounds)


def parents_of_merges(
    merges: Sequence[Sequence[int]], n_classes: int, n_rounds: int | None
) -> tuple[NDArray, NDArray]:
    """(parent, leaf_of_class) of the tree of some merges.

    Entry i of `merges` lists the clusters that become cluster K + i. Clusters without a
    parent become the children of a root; with ``n_rounds=0`` the root is the only leaf.
    """
    if n_rounds == 0:
        return np.array([-1]), np.zeros(n_classes, dtype=np.int64)
    n = n_classes + len(merges)
    parent = np.full(n + 1, -1, dtype=np.int64)
    for i, clusters in enumerate(merges):
        parent[list(clusters)] = n_classes + i
    top = np.flatnonzero(parent[:n] < 0)
    if top.size == 1:
        parent = parent[:n]
    else:
        parent[top] = n
    return parent, np.arange(n_classes)
