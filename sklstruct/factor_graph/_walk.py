"""The walk of SampleRank for losses and proposals of the user."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

import numpy as np

from ._graph import FactorGraph
from ._pack import Packed
from ._samplerank_fast import Graphs, Learner, change, update, value_scores, visit


class PythonWalk:
    """The walk with a loss or a proposal in Python.

    With a built-in proposal the steps are those of the compiled walk, and losses of the
    values of a variable are computed before each visit.
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
        self.kernel = Graphs(packed)
        self.truth = truth
        self.values = [
            g.decode(truth[a:b])
            for g, a, b in zip(graphs, packed.var_ptr[:-1], packed.var_ptr[1:])
        ]
        self.loss, self.proposal = loss, proposal
        self.temperature, self.rng = temperature, rng
        self.cost = np.zeros(int(packed.cand_ptr[-1]))
        self.score = np.empty(int(np.diff(packed.cand_ptr).max()))

    def visit(self, i: int, state: np.ndarray) -> None:
        """Visit each variable of one instance."""
        self.i, self.state = i, state
        self.first, self.end = (int(p) for p in self.packed.var_ptr[i : i + 2])
        sizes = np.diff(self.packed.cand_ptr[self.first : self.end + 1])
        if callable(self.proposal):
            if self.first < self.end:
                self.present = self.loss_of(state)
            for _ in range(int((sizes - 1).sum())):
                self.learner.proposed(1)
                self.metropolis(self.ask())
            return
        scan = list(range(sizes.size))
        for x in range(sizes.size - 1, 0, -1):
            r = self.learner.below(x + 1)
            scan[x], scan[r] = scan[r], scan[x]
        for v in scan:
            if sizes[v] > 1:
                self.visit_variable(self.first + v)

    def visit_variable(self, v: int) -> None:
        start, end = self.packed.cand_ptr[v : v + 2].tolist()
        value_scores(self.kernel, self.learner, self.state, v, self.score)
        now = self.state[v]
        for a in np.flatnonzero(self.score[: end - start] > -np.inf).tolist():
            self.state[v] = a
            self.cost[start + a] = self.loss_of(self.state)
        self.state[v] = now
        visit(
            self.kernel, self.learner, self.cost, self.proposal, self.state, v,
            self.score,
        )  # fmt: skip

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

    def metropolis(self, moves: Sequence[tuple[int, int]]) -> None:
        """Compare the present state with the proposed one; accept or reject it."""
        new = self.state.copy()
        for v, a in moves:
            new[self.first + v] = a
        part = slice(self.first, self.end)
        variables = np.flatnonzero(new[part] != self.state[part]) + self.first
        variables = variables.astype(np.int32)
        if not variables.size:
            return
        rise = change(self.kernel, self.learner, self.state, new, variables)
        if rise is None:
            update(self.learner, 0.0, 0.0, 1.0)
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
