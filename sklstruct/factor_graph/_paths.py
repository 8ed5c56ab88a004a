"""Sums, the best states and exact samples of the states of one tree."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np


class InstanceTree:
    """Instance i of a block without loops, in which leaves are eliminated first.

    total: `numpy.maximum` or `numpy.logaddexp`, the total over states of a subtree.
    order: the variables, each after its parent.
    edges: for each edge to a parent (v, the start of its table, whether v is the first
    of its variables).
    step: for each variable the total of its subtree, by its value and the parent's
    value; one column if it has no parent.
    """

    def __init__(self, infer: Any, i: int, total: np.ufunc) -> None:
        self.block = block = infer.block
        self.first, end = block.var_ptr[i : i + 2].tolist()
        self.order = block.forest.order[self.first : end].tolist()
        self.parent = dict(
            zip(
                range(self.first, end),
                block.forest.parent[self.first : end].tolist(),
            )
        )
        ptr = block.cand_ptr
        here = {v: infer.unary[ptr[v] : ptr[v + 1]] for v in self.order}
        self.step: dict[int, np.ndarray] = {}
        self.edges: list[tuple[int, int, bool]] = []
        for v in reversed(self.order):
            up = self.parent[v]
            table = here[v][:, None]
            if up >= 0:
                for e in block.adj_edge[block.adj_ptr[v] : block.adj_ptr[v + 1]]:
                    ends = int(block.edge_u[e]), int(block.edge_v[e])
                    if up in ends:
                        shape = here[ends[0]].size, here[ends[1]].size
                        start = block.pair_ptr[e]
                        pair = infer.pair[start : start + shape[0] * shape[1]]
                        pair = pair.reshape(shape)
                        table = table + (pair if ends[0] == v else pair.T)
                        self.edges.append((v, start, ends[0] == v))
                here[up] = here[up] + total.reduce(table, axis=0)
            self.step[v] = table

    def sums(self, weight: float | None, belief: Any, pair_total: Any) -> float:
        """Logarithm of the total of all states, without underflow (`numpy.logaddexp`).

        With a weight, belief gets the probabilities of the values, and the
        probabilities of pairs times the weight are added to pair_total.
        """
        roots = [self.step[v] for v in self.order if self.parent[v] < 0]
        log_z = float(sum(np.logaddexp.reduce(table[:, 0]) for table in roots))
        if weight is None or log_z == -np.inf:
            return log_z
        joint: dict[int, np.ndarray] = {}  # joint probabilities of v and its parent
        for v in self.order:
            share = self._given_parent(v)
            share /= np.maximum(share.sum(axis=0), 1.0)
            up = self.parent[v]
            joint[v] = share * (joint[up].sum(axis=1) if up >= 0 else 1.0)
            belief[self.block.cand_ptr[v] :][: len(share)] = joint[v].sum(axis=1)
        for v, start, v_first in self.edges:
            pairs = joint[v] if v_first else joint[v].T
            pair_total[start : start + pairs.size] += weight * pairs.ravel()
        return log_z

    def _given_parent(self, v: int) -> np.ndarray:
        """Shares of the values of v by that of the parent; the largest is 1."""
        table = self.step[v]
        top = table.max(axis=0)
        return np.exp(table - np.where(top == -np.inf, 0.0, top))

    def sample(self, n: int, rng: np.random.RandomState) -> np.ndarray:
        """(n, n_variables) positions of values: independent draws, from the roots down.

        Needs the totals of `numpy.logaddexp`.
        """
        state = np.zeros((len(self.order), n), dtype=np.int32)
        for v in self.order:
            up, share = self.parent[v], self._given_parent(v).cumsum(axis=0)
            column = state[up - self.first] if up >= 0 else np.zeros(n, dtype=np.int32)
            uniform = rng.random_sample(n) * share[-1][column]
            for a in range(len(share) - 1):
                state[v - self.first] += uniform >= share[a][column]
        return state.T

    def n_best(self, n: int) -> list[tuple[np.ndarray, float]]:
        """The n best states with their scores, by best-first search from the roots
        down.

        Needs the totals of `numpy.maximum`. The cost of an entry is the best score
        minus the score of the best state of the entry. Entries are disjoint sets of
        states, so entries after the n-th best can be dropped.
        """
        loss, best = {}, 0.0
        for v, table in self.step.items():
            top = table.max(axis=0)
            best += float(top[0]) if self.parent[v] < 0 else 0.0
            with np.errstate(invalid="ignore"):  # columns of impossible values
                loss[v] = np.where(table > -np.inf, top - table, np.inf)
        place = {v: t for t, v in enumerate(self.order)}
        # (cost, tie-break, number of variables that are set, (value, values before))
        queue: list[tuple[float, int, int, Any]] = [(0.0, 0, 0, None)]
        found: list[tuple[np.ndarray, float]] = []
        tick = 0
        while queue and len(found) < n:
            cost, _, t, path = heapq.heappop(queue)
            if t == len(self.order):
                state = np.empty(t, dtype=np.int32)
                for v in reversed(self.order):
                    state[v - self.first], path = path
                found.append((state, best - cost))
                continue
            v = self.order[t]
            column, before = 0, path
            if self.parent[v] >= 0:
                for _ in range(t - place[self.parent[v]] - 1):
                    before = before[1]
                column = before[0]
            for a, more in enumerate(loss[v][:, column].tolist()):
                if more < np.inf:
                    tick += 1
                    heapq.heappush(queue, (cost + more, tick, t + 1, (a, path)))
            if len(queue) > 4 * n + 64:
                queue = heapq.nsmallest(n - len(found), queue)
        return found
