"""The `Evidence` of a fold of the training samples in one fitted tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..linear._calibration import both_outcomes, evidence
from ..linear._samples import Samples
from ..linear._targets import Targets
from ..taxonomy import Forest
from ._evidence import Evidence
from ._evidence_fast import ROLES
from ._label_fold import NodeFold

# Largest number of doubles of an `Evidence`, and the samples that are used even if they
# need more.
_FOLD_SIZE = 20_000_000
_FEWEST = 200


class TreeFold(NamedTuple):
    """A fold of the training samples and one fitted tree.

    `unseen` has, for each node with a model, the members of the fold below it and
    their scores by weights that had not seen them. For other members a node scores by
    its final weights.
    """

    X: Samples
    targets: Targets
    weight: NDArray
    forest: Forest
    role: NDArray  # of every node of the forest
    tree: int
    loss: str
    final_scores: Callable[[int, Samples], NDArray]
    unseen: dict[int, NodeFold]

    def evidence(self, n_leaves: int, beam: int) -> Evidence:
        """The evidence of the members if `n_leaves` leaves are evaluated for each.

        beam: routing nodes of a level that are expanded for each member.
        """
        forest, role = self.forest, self.role
        root, end = forest.tree_ptr[self.tree : self.tree + 2].tolist()
        # a column for each leaf and routing node, none for classes inside leaves
        kept = root + np.flatnonzero(role[root:end] != ROLES["class"])
        wide = int(forest.n_child[role == ROLES["leaf"]].max(initial=1))
        most = _FOLD_SIZE // max(kept.size, n_leaves * wide)
        n = min(self.targets.n_samples, max(_FEWEST, most))
        route, pending = self._descend(n, root, end, kept, beam)
        # leaves and pending nodes have a route, expanded nodes do not
        column = np.flatnonzero((route > -np.inf).any(axis=0))
        route, pending, node = route[:, column], pending[:, column], kept[column]
        place = np.full(end - root, -1)
        place[node - root] = np.arange(column.size)
        evaluated = self._evaluated(route, node, n_leaves)
        own_leaf, target = self._targets(n)
        own = self._own_column(own_leaf, place, route, root)
        inside, own_inside = self._inside_leaves(
            evaluated, node, own_leaf, target >= 0, place, root, wide
        )
        weight = self.weight[:n]
        return Evidence(
            route, pending, evaluated, inside, own, own_inside, target, weight
        )

    def _inside(self, v, who, n):
        """g of the children of node v for the members `who`."""
        m = int(self.forest.n_child[v])
        if m == 1:
            return np.zeros((who.size, 1))
        scores = self.final_scores(v, self.X[who])
        member, _, unseen = self.unseen[v]
        row = np.full(n, -1)
        known = member < n
        row[member[known]] = np.flatnonzero(known)
        mine = row[who]
        scores[mine >= 0] = unseen[mine[mine >= 0]]
        if m == 2:
            scores = both_outcomes(scores, self.loss)
        return evidence(scores, self.loss)

    def _descend(self, n, root, end, kept, beam):
        """(evidence of the path to each node, pending nodes), both (n, kept.size)."""
        forest, role = self.forest, self.role
        column_of = np.full(end - root, -1)
        column_of[kept - root] = np.arange(kept.size)
        route = np.full((n, kept.size), -np.inf)
        route[:, 0] = 0.0
        pending = np.zeros(route.shape, dtype=bool)
        level = [root] if role[root] == ROLES["route"] else []
        while level:
            columns = column_of[np.array(level) - root]
            expanded = _best(route[:, columns], beam)
            pending[:, columns] = (route[:, columns] > -np.inf) & ~expanded
            below = []
            for k, v in enumerate(level):
                who = np.flatnonzero(expanded[:, k])
                a, m = int(forest.first_child[v]), int(forest.n_child[v])
                if who.size:
                    g = self._inside(v, who, n)
                    if self.loss == "log_loss":
                        g = g - np.logaddexp.reduce(g, axis=1, keepdims=True)
                    # siblings are side by side
                    first, above = column_of[a - root], column_of[v - root]
                    route[who, first : first + m] = route[who, above][:, None] + g
                    route[who, above] = -np.inf
                below += [u for u in range(a, a + m) if role[u] == ROLES["route"]]
            level = below
        return route, pending

    def _evaluated(self, route, node, n_leaves):
        """Columns of the leaves that are evaluated for each member, -1 for none."""
        role = self.role[node]
        leaf = (role == ROLES["leaf"]) | (role == ROLES["single"])
        ranked = np.where(leaf[None, :], route, -np.inf)
        n_best = min(n_leaves, node.size)
        best = np.argsort(-ranked, axis=1, kind="stable")[:, :n_best]
        real = np.take_along_axis(ranked, best, axis=1) > -np.inf
        real &= role[best] == ROLES["leaf"]
        return np.where(real, best, -1)

    def _targets(self, n):
        """(leaf of each member, its class among those of the leaf; -1: one class)."""
        forest, role = self.forest, self.role
        code = self.targets.outcome[:n]
        terminal = forest.terminal[self.tree, code].astype(np.int64)
        leaf = terminal.copy()
        several = role[terminal] == ROLES["class"]
        leaf[several] = forest.parent[terminal[several]]
        return leaf, np.where(several, terminal - forest.first_child[leaf], -1)

    def _own_column(self, leaf, place, route, root):
        """Column of the leaf of each member, or of the pending node above it."""
        node = leaf.copy()
        while True:
            here = place[node - root]
            there = np.take_along_axis(route, np.maximum(here, 0)[:, None], 1)[:, 0]
            ok = (here >= 0) & (there > -np.inf)
            if ok.all():
                return here
            node[~ok] = self.forest.parent[node[~ok]]

    def _inside_leaves(self, evaluated, node, own_leaf, several, place, root, wide):
        """g of the classes of the evaluated leaves (n, b, m) and of the own leaf."""
        n = own_leaf.size
        inside = np.full((*evaluated.shape, wide), -np.inf)
        own_inside = np.full((n, wide), -np.inf)
        met = node[evaluated[evaluated >= 0]]
        for v in np.union1d(met, own_leaf[several]).tolist():
            is_own = several & (own_leaf == v)
            at = slot = np.empty(0, dtype=np.int64)
            if place[v - root] >= 0:
                at, slot = np.nonzero(evaluated == place[v - root])
            who = np.union1d(np.flatnonzero(is_own), at)
            g = self._inside(v, who, n)
            mine = np.searchsorted(who, np.flatnonzero(is_own))
            own_inside[is_own, : g.shape[1]] = g[mine]
            inside[at, slot, : g.shape[1]] = g[np.searchsorted(who, at)]
        return inside, own_inside


def _best(route, most):
    """The nodes of a level that are reached and among the best of each row."""
    reached = route > -np.inf
    if route.shape[1] <= most:
        return reached
    order = np.argsort(-route, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(
        rank, order, np.arange(route.shape[1])[None, :].repeat(len(route), 0), axis=1
    )
    return reached & (rank < most)
