"""The walk of SampleRank in Python, for losses and proposals of the user."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from operator import index
from typing import Any

import numpy as np

from ._graph import FactorGraph
from ._pack import Packed
from ._samplerank_fast import Graphs, Learner, change, update


class PythonWalk:
    """The steps of the compiled walk, in Python.

    With a built-in proposal it draws the same numbers as the compiled walk and makes
    the same comparisons, up to rounding: tests compare the two.
    """

    def __init__(
        self,
        graphs: Sequence[FactorGraph],
        packed: Packed,
        learner: Learner,
        truth: np.ndarray,
        loss: Any,
        proposal: Any,
        temperature: float,
        rng: np.random.Generator,
    ) -> None:
        self.graphs, self.packed, self.learner = graphs, packed, learner
        self.kernel = Graphs(packed, packed.layout)
        self.truth = truth
        self.values = [
            g.decode(truth[a:b])
            for g, a, b in zip(graphs, packed.var_ptr[:-1], packed.var_ptr[1:])
        ]
        self.loss, self.proposal = loss, proposal
        self.temperature, self.rng = temperature, rng

    def visit(self, i: int, n_sweeps: int, state: np.ndarray) -> None:
        """The sweeps of one instance."""
        self.i, self.state = i, state
        self.first, self.end = (int(p) for p in self.packed.var_ptr[i : i + 2])
        sizes = np.diff(self.packed.cand_ptr[self.first : self.end + 1])
        if self.first == self.end:
            return
        self.present = self.loss_of(state)
        if callable(self.proposal):
            for _ in range(n_sweeps * int((sizes - 1).sum())):
                self.learner.proposed(1)
                self.metropolis(self.ask())
            return
        below = self.learner.below
        for _ in range(n_sweeps):
            scan = list(range(sizes.size))
            for x in range(sizes.size - 1, 0, -1):
                r = below(x + 1)
                scan[x], scan[r] = scan[r], scan[x]
            for v in scan:
                if self.proposal == "gibbs":
                    if sizes[v] > 1:
                        self.all_values(v, int(sizes[v]))
                    continue
                for _ in range(int(sizes[v]) - 1):
                    new = below(int(sizes[v]) - 1)
                    new += new >= state[self.first + v]
                    self.learner.proposed(1)
                    self.metropolis([(v, new)])

    def loss_of(self, state: np.ndarray) -> float:
        """Loss of the present instance in a state."""
        part = slice(self.first, self.end)
        if self.loss == "hamming":
            return float((state[part] != self.truth[part]).sum())
        graph = self.graphs[self.i]
        value = self.loss(self.values[self.i], graph.decode(state[part]), graph)
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not 0.0 <= number < math.inf:
            raise ValueError(
                "loss must return a finite number of at least 0, got "
                f"{value!r:.60} for X[{self.i}]"
            )
        return number

    def ask(self) -> list[tuple[int, int]]:
        """A proposal of the user's function, checked."""
        graph = self.graphs[self.i]
        now = self.state[self.first : self.end].copy()
        given = self.proposal(graph, now, self.rng)
        moves = list(given) if isinstance(given, Iterable) else [given]
        try:
            moves = [(index(v), index(a)) for v, a in moves]
        except (TypeError, ValueError) as exc:
            raise ValueError(
                "proposal must return pairs of integers (variable, position in its "
                f"candidates), got {given!r:.60} for X[{self.i}]"
            ) from exc
        for v, a in moves:
            if not (0 <= v < graph.n_variables and 0 <= a < len(graph.candidates[v])):
                raise ValueError(
                    f"proposal: X[{self.i}] has no variable {v} with a candidate {a}"
                )
        return moves

    def moved(self, moves: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        new = self.state.copy()
        for v, a in moves:
            new[self.first + v] = a
        part = slice(self.first, self.end)
        different = np.flatnonzero(new[part] != self.state[part]) + self.first
        return new, different.astype(np.int32)

    def difference(self, new: np.ndarray, variables: np.ndarray) -> float | None:
        return change(self.kernel, self.learner, self.state, new, variables)

    def forget(self) -> None:
        update(self.learner, 0.0, 0.0, 1.0)

    def metropolis(self, moves: Sequence[tuple[int, int]]) -> None:
        """Compare the present state with the proposed one; accept or reject it."""
        new, variables = self.moved(moves)
        if not variables.size:
            return
        rise = self.difference(new, variables)
        if rise is None:
            self.forget()
            return
        t = self.temperature
        accept = rise >= 0.0 or (
            t > 0.0 and self.learner.uniform() < math.exp(rise / t)
        )
        loss = self.loss_of(new)
        gain = self.present - loss
        sign = 1.0 if gain >= 0.0 else -1.0
        update(self.learner, sign * rise, sign * gain, sign)
        if accept:
            self.state[variables] = new[variables]
            self.present = loss

    def all_values(self, v: int, k: int) -> None:
        """Compare the best value of v with the one of largest score plus margin."""
        now = int(self.state[self.first + v])
        score, cost = np.full(k, -np.inf), np.full(k, np.inf)
        for a in range(k):
            new, variables = self.moved([(v, a)])
            rise = self.difference(new, variables)
            self.forget()
            if rise is not None:
                score[a], cost[a] = rise, self.loss_of(new)
        self.learner.proposed(k - 1)
        top = score.max()
        t = self.temperature
        after = now
        if t > 0.0:
            weight = [math.exp((s - top) / t) for s in score]
            total = 0.0
            for x in weight:
                total += x
            u = self.learner.uniform() * total
            for a, x in enumerate(weight):
                if u < x:
                    after = a
                    break
                u -= x
        elif score[now] < top:
            after = int(np.argmax(score))
        best = max(range(k), key=lambda a: (-cost[a], score[a], -a))
        worse = np.flatnonzero((cost > cost[best]) & np.isfinite(cost))
        if worse.size:
            margin = score[worse] + self.learner.margin * (cost[worse] - cost[best])
            rival = int(worse[np.argmax(margin)])
            old = self.state
            self.state, _ = self.moved([(v, rival)])
            new, variables = self.moved([(v, best)])
            rise = self.difference(new, variables)
            update(self.learner, rise, cost[rival] - cost[best], 1.0)
            self.state = old
        self.state[self.first + v] = after
        self.present = float(cost[after])


Proposal = Callable[[FactorGraph, np.ndarray, np.random.Generator], Any]
