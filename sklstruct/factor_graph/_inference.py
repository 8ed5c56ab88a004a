"""Inference in blocks of instances: exact, by coordinate ascent, by annealing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._graph import FactorGraph
from ._inference_fast import (
    Potentials,
    evaluate,
    forests,
    gibbs,
    max_product,
    sum_product,
)
from ._pack import Block, Packed
from ._samplerank_fast import Graphs, potentials

# Steps of a kernel call: some tens of milliseconds. Signals are handled between calls,
# and the overhead of a call is small.
BUDGET = 1_000_000
# A safeguard: coordinate ascent ends by itself, unless rounding makes it alternate
# between two values.
_MOST_SWEEPS = 1000
# First and last temperature of annealing, in mean ranges of the potentials: at the
# first the walk forgets its start, at the last it hardly moves.
_WARM, _COLD = 0.25, 0.025
# The ends of edges with more pairs of values are not drawn together.
LARGEST_PAIR = 1024


@dataclass
class Schedule:
    """Length of annealing."""

    n_sweeps: int
    n_restarts: int


class BlockInference:
    """The potentials of a block with given weights, and inference with them."""

    def __init__(
        self,
        block: Block,
        packed: Packed,
        kernel: Graphs,
        coef: np.ndarray,
        graphs: Sequence[FactorGraph],
    ) -> None:
        self.block = block
        self.graphs = graphs[block.first : block.last]
        self._fill(packed, kernel, coef)

    def _fill(self, packed: Packed, kernel: Graphs, coef: np.ndarray) -> None:
        block = self.block
        self.unary = np.empty(int(block.cand_ptr[-1]))
        self.pair = np.empty(int(block.table_ptr[-1]))
        nothing = np.empty(0)
        costs = packed.cost[block.first : block.last].sum()
        step = max(1, int(block.n_variables * BUDGET // max(costs, 1)))
        v0 = block.variables.start
        for a in range(0, block.n_variables, step):
            b = min(a + step, block.n_variables)
            out = self.unary[block.cand_ptr[a] : block.cand_ptr[b]]
            potentials(kernel, coef, v0 + a, v0 + b, 0, 0, out, nothing)
        step = max(1, int(block.edge_u.size * BUDGET // max(costs, 1)))
        for start, end in block.table_runs():
            for a in range(start, end, step):
                b = min(a + step, end)
                out = self.pair[block.table_ptr[a] : block.table_ptr[b]]
                first = int(block.table_edge[a])
                potentials(kernel, coef, 0, 0, first, first + b - a, nothing, out)
        self.potentials = Potentials(block, self.unary, self.pair)

    # ---------------------------------------------------------------- the methods

    def exact(
        self, active: np.ndarray, order: np.ndarray, parent: np.ndarray
    ) -> np.ndarray:
        """Best states of the active instances, which must be forests."""
        block = self.block
        sizes = np.diff(block.cand_ptr)
        back_ptr = _upward(block, parent)
        state = np.zeros(block.n_variables, dtype=np.int32)
        max_product(
            self.potentials,
            active,
            order,
            parent,
            back_ptr,
            np.empty(back_ptr[-1], dtype=np.int32),
            self.unary.copy(),
            np.empty(int((sizes * np.diff(back_ptr)).max(initial=0))),
            state,
        )
        return state

    def sums(
        self, order: np.ndarray, parent: np.ndarray, marginals: bool = True
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log of the sum of exp(score) over all states; all must be forests.

        Returns it for each instance, the probability of each candidate, and of each
        pair of values, summed over the edges of a table.
        """
        block = self.block
        sizes = np.diff(block.cand_ptr)
        message_ptr = _upward(block, parent)
        n_pairs = np.diff(block.table_ptr)
        top = np.empty(0)
        if self.pair.size:
            top = np.maximum.reduceat(self.pair, block.table_ptr[:-1])
        log_z, belief = np.empty(block.n_instances), np.empty(self.unary.size)
        pair_total = np.zeros(self.pair.size)
        sum_product(
            self.potentials,
            order,
            parent,
            message_ptr,
            np.exp(self.pair - np.repeat(top, n_pairs)),
            top[block.table],
            belief,
            np.empty(message_ptr[-1]),
            np.empty(2 * int(n_pairs.max(initial=0))),
            np.empty(4 * int(sizes.max(initial=0))),
            log_z,
            pair_total,
            marginals,
        )
        return log_z, belief, pair_total

    def start(self) -> np.ndarray:
        """For each variable the value of largest unary potential; an allowed state."""
        cand_ptr = self.block.cand_ptr
        sizes = np.diff(cand_ptr)
        state = np.zeros(self.block.n_variables, dtype=np.int32)
        if sizes.size:
            top = np.maximum.reduceat(self.unary, cand_ptr[:-1])
            at = np.flatnonzero(self.unary == np.repeat(top, sizes))
            first = at[np.searchsorted(at, cand_ptr[:-1])]
            state[:] = first - cand_ptr[:-1]
        for i, graph in enumerate(self.graphs):
            if graph.start is not None:
                a, b = self.block.var_ptr[i : i + 2]
                state[a:b] = graph.start
        return state

    def sweeps(
        self,
        active: np.ndarray,
        temperatures: Iterator[np.ndarray],
        seed: np.ndarray,
        state: np.ndarray,
        score: np.ndarray,
        best: tuple[np.ndarray, np.ndarray] | None = None,
        count: np.ndarray | None = None,
        until_still: bool = False,
        largest_pair: int = 0,
    ) -> None:
        """Run Gibbs sweeps in slices; each item of temperatures is a slice."""
        sizes = np.diff(self.block.cand_ptr)
        ends = sizes[self.block.edge_u], sizes[self.block.edge_v]
        pairs = np.minimum(ends[0] * ends[1], largest_pair)
        room = max(sizes.max(initial=1), (pairs + ends[0] + ends[1]).max(initial=1))
        buffer = np.empty(int(room))
        changed = np.zeros(self.block.n_instances, dtype=np.uint8)
        best_state, best_score = best or (np.empty(0, dtype=np.int32), np.empty(0))
        count = np.empty(0) if count is None else count
        sweep = 0
        for temperature in temperatures:
            gibbs(
                self.potentials,
                active,
                temperature,
                sweep,
                largest_pair,
                seed,
                state,
                score,
                best_state,
                best_score,
                count,
                buffer,
                changed,
            )
            sweep += len(temperature)
            if until_still:
                active = active & changed
                if not active.any():
                    break

    def slice_length(self) -> int:
        """Sweeps that one kernel call makes."""
        sizes = np.diff(self.block.cand_ptr)
        edges = sizes[self.block.edge_u] + sizes[self.block.edge_v]
        pairs = np.minimum(self.block.n_pairs, LARGEST_PAIR)
        steps = 10 * (sizes.sum() + pairs.sum()) + edges.sum() + 1
        return int(max(1, BUDGET // steps))

    def slices(self, temperature: np.ndarray) -> Iterator[np.ndarray]:
        """Parts of (n_sweeps, n_instances) for one kernel call each."""
        step = self.slice_length()
        for a in range(0, len(temperature), step):
            yield np.ascontiguousarray(temperature[a : a + step])

    def score(self, state: np.ndarray) -> np.ndarray:
        """The score of each instance."""
        score = np.zeros(self.block.n_instances)
        evaluate(self.potentials, state, score)
        return score

    def icm(
        self, active: np.ndarray, state: np.ndarray, largest_pair: int = 0
    ) -> np.ndarray:
        """Coordinate ascent from `state`, in place, until no value changes."""
        seed = np.zeros(self.block.n_instances, dtype=np.uint64)
        cold = np.zeros((_MOST_SWEEPS, self.block.n_instances))
        self.sweeps(
            active,
            # the last sweep of a slice decides whether to go on, so slices are short
            (cold[a : a + 2] for a in range(0, _MOST_SWEEPS, 2)),
            seed,
            state,
            self.score(state),
            until_still=True,
            largest_pair=largest_pair,
        )
        return state

    def scale(self) -> np.ndarray:
        """Mean range of the potentials, the scale of the change of score by a step."""
        block = self.block
        spread = np.zeros(block.n_instances)
        if self.unary.size:
            top = np.maximum.reduceat(self.unary, block.cand_ptr[:-1])
            low = np.minimum.reduceat(self.unary, block.cand_ptr[:-1])
            spread += _means(top - low, block.var_ptr)
        if self.pair.size:
            top = np.maximum.reduceat(self.pair, block.table_ptr[:-1])
            finite = np.where(np.isinf(self.pair), np.inf, self.pair)
            low = np.minimum.reduceat(finite, block.table_ptr[:-1])
            width = np.where(np.isfinite(low), top - low, 0.0)
            spread += _means(width[block.table], block.edge_ptr)
        return spread

    def anneal(
        self, active: np.ndarray, seed: np.ndarray, schedule: Schedule
    ) -> np.ndarray:
        """The best state of some annealed walks, each started at the result of ICM."""
        state = self.icm(active, self.start())
        score = self.score(state)
        best_state, best_score = state.copy(), score.copy()
        scale = self.scale()
        steps = np.arange(schedule.n_sweeps) / max(1, schedule.n_sweeps - 1)
        cooling = _WARM * (_COLD / _WARM) ** steps
        temperature = cooling[:, None] * scale
        for _ in range(schedule.n_restarts):
            self.sweeps(
                active,
                self.slices(temperature),
                seed,
                state,
                score,
                best=(best_state, best_score),
                largest_pair=LARGEST_PAIR,
            )
            state = self.icm(active, best_state.copy(), LARGEST_PAIR)
            score = self.score(state)
            best_state, best_score = state.copy(), score.copy()
        return state


def forest(block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order of elimination, parents, and which instances are forests."""
    order = np.empty(block.n_variables, dtype=np.int32)
    parent = np.empty(block.n_variables, dtype=np.int32)
    is_forest = np.empty(block.n_instances, dtype=np.uint8)
    forests(
        block.var_ptr,
        block.adj_ptr,
        block.adj_edge,
        block.edge_u,
        block.edge_v,
        order,
        parent,
        is_forest,
    )
    return order, parent, is_forest


def _upward(block: Block, parent: np.ndarray) -> np.ndarray:
    """Where the message of each variable to its parent begins."""
    n_values = np.where(parent < 0, 0, np.diff(block.cand_ptr)[parent])
    return np.concatenate([[0], np.cumsum(n_values)]).astype(np.int64)


def _means(values: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    total = np.concatenate([[0.0], np.cumsum(values)])[ptr]
    return np.diff(total) / np.maximum(1, np.diff(ptr))


def refuse_loops(graphs: Sequence[FactorGraph], who: str, remedy: str) -> None:
    """Raise ValueError if an instance has a loop, before any work."""
    for i, graph in enumerate(graphs):
        if not graph.is_forest:
            name = "" if graph.name is None else f" ({graph.name!r})"
            raise ValueError(
                f"{who} needs chains or trees, but the edges of X[{i}]{name} form a "
                f"loop; {remedy}"
            )


def best_states(
    infer: BlockInference, method: str, seed: int, schedule: Schedule
) -> np.ndarray:
    """States of a block by one of the methods of the estimator."""
    n = infer.block.n_instances
    everyone = np.ones(n, dtype=np.uint8)
    if method == "icm":
        return infer.icm(everyone, infer.start())
    # the same seed for each instance: its prediction does not depend on the others
    seeds = np.full(n, seed, dtype=np.uint64)
    if method == "anneal":
        return infer.anneal(everyone, seeds, schedule)
    order, parent, is_forest = forest(infer.block)
    state = infer.exact(is_forest, order, parent)
    if not is_forest.all():
        loopy = 1 - is_forest
        found = infer.anneal(loopy, seeds, schedule)
        owner = np.repeat(loopy.astype(bool), np.diff(infer.block.var_ptr))
        state = np.where(owner, found, state)
    return state


def over_blocks(
    function: Callable[[BlockInference], Any],
    packed: Packed,
    coef: np.ndarray,
    graphs: Sequence[FactorGraph],
    parallel: Callable[..., list],
) -> list:
    """function of each block of instances, in order."""
    kernel = Graphs(packed, packed.layout)

    def work(block: tuple[int, int]) -> Any:
        return function(
            BlockInference(Block(packed, *block), packed, kernel, coef, graphs)
        )

    return parallel(work, packed.blocks(BUDGET))
