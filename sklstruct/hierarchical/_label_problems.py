"""The yes/no problems of all nodes of a tree, for several labels per sample.

The samples of a node are those with a label below it; the root has all samples. Its
outcomes are its children, each a binary problem: does the sample have a label below
this child? A sample may belong to several branches, so the rows of a node are not a
range as in `NodeProblems`; they are copied while the node is fitted.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..linear._samples import is_sparse
from ..linear._targets import Targets
from ..taxonomy import Taxonomy
from ._nodes import TrainingSet


def outcome_starts(taxonomy: Taxonomy) -> list[tuple[int, NDArray]]:
    """(v, positions) of the nodes with a model, in the order of `Forest.model_nodes`.

    The classes of outcome k of node v are at positions[k], ..., positions[k + 1] - 1 of
    ``taxonomy.class_sets.order``.
    """
    _, start, stop = taxonomy.class_sets
    found = []
    for v, (a, b) in enumerate(pairwise(taxonomy.child_ptr.tolist())):
        if a < b:
            found.append((v, np.concatenate([start[a:b], stop[v : v + 1]])))
        elif stop[v] - start[v] >= 2:
            found.append((v, np.arange(start[v], stop[v] + 1)))
    return found


class LabelProblems:
    """The problems of all nodes with a model, in the order of `Forest.model_nodes`.

    n_below: for each label that is an inner node the number of labels at and below it,
    else 0. At the node with exactly these labels, the leaf of the label has the
    probability 1.
    """

    def __init__(self, taxonomy: Taxonomy, data: TrainingSet, n_below: NDArray) -> None:
        self.X = data.X
        targets, weight = data.targets, data.weight
        self.weight, self.rows = weight, np.arange(weight.size)
        order = taxonomy.class_sets.order
        place = np.argsort(order)[targets.outcome]
        by_place = np.argsort(place, kind="stable")
        self._place, self._sample = place[by_place], targets.sample[by_place]
        # first entry of _place from each position on
        self._first = np.searchsorted(self._place, np.arange(order.size + 1))
        self._starts = [starts for _, starts in outcome_starts(taxonomy)]
        self.n_nodes = len(self._starts)
        self.n_outcomes = np.array([s.size - 1 for s in self._starts], dtype=np.int64)
        self.n_rows = self.n_outcomes
        entries = [self._entries(v) for v in range(self.n_nodes)]
        # the children of each node that all of its samples belong to, and those that
        # no sample belongs to
        self.sure: list[NDArray] = []
        self.never = [
            np.flatnonzero(np.bincount(child, minlength=m) == 0)
            for (_, _, child), m in zip(entries, self.n_outcomes)
        ]
        for v, starts in enumerate(self._starts):
            size = starts[-1] - starts[0]
            sure = (np.diff(starts) == 1) & (n_below[order[starts[:-1]]] == size)
            # samples without labels are at the root
            self.sure.append(np.flatnonzero(sure & (v > 0)))
        # whether each label that is an inner node has the probability of this node
        n_sure = sum(sure.size for sure in self.sure)
        self.keeps_nodes = n_sure == np.count_nonzero(n_below)
        rows = [r for r, _, _ in entries]
        self.sizes = np.array([r.size for r in rows], dtype=np.int64)
        length = np.full(weight.size, self.X.shape[1])
        if is_sparse(self.X):
            length = np.diff(self.X.indptr)
        self.n_entries = np.array([length[r].sum() for r in rows], dtype=np.int64)

    def _entries(self, v):
        """(samples of node v; number of the sample, child) of each positive outcome."""
        starts, n = self._starts[v], self.weight.size
        part = slice(self._first[starts[0]], self._first[starts[-1]])
        child = np.searchsorted(starts, self._place[part], side="right") - 1
        m = starts.size - 1
        key = np.unique(self._sample[part] * m + child)
        sample, child = key // m, key % m
        if v == 0:  # samples without a label belong to the root, too
            return np.arange(n), sample, child
        rows, number = np.unique(sample, return_inverse=True)
        return rows, number, child

    def targets_of(self, v: int) -> tuple[NDArray, Targets]:
        """(samples of a node, for each sample the children with one of its labels)."""
        rows, number, child = self._entries(v)
        ptr = np.searchsorted(number, np.arange(rows.size + 1)).astype(np.int64)
        m = int(self.n_outcomes[v])
        return rows, Targets(ptr, child.astype(np.int32), m, True)
