"""Inference in blocks of instances: exact, by coordinate ascent, by annealing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from .._parallel import row_blocks, runs
from ._gibbs_fast import gibbs
from ._graph import FactorGraph
from ._inference_fast import Potentials, max_product, sum_product
from ._pack import Block, where
from ._paths import InstanceTree
from ._samplerank_fast import Graphs, potentials

# Steps of a kernel call, some tens of milliseconds: signals are handled between calls,
# and the overhead of a call is small.
BUDGET = 1_000_000
# A safeguard: coordinate ascent converges, unless rounding makes it alternate between
# two values.
_MOST_SWEEPS = 1000
# Annealed walks of an instance, and the sweeps of each.
_RESTARTS, _ANNEAL_SWEEPS = 3, 100
# First and last temperature of annealing, in units of the mean range of the potentials:
# at the first temperature the walk forgets its start, at the last temperature it hardly
# moves.
_WARM, _COLD = 0.25, 0.025
# The ends of edges with more pairs of values are not drawn together.
LARGEST_PAIR = 1024
# A draw of both ends sums all their edges. Ends with more edges than this are drawn
# together only in some random sweeps, so that the time of a sweep is linear in the
# number of edges.
_MOST_EDGES = 64


class BlockInference:
    """The potentials of a block with given weights, and inference with them."""

    def __init__(
        self, block: Block, kernel: Graphs, coef: np.ndarray, graphs: list[FactorGraph]
    ) -> None:
        self.block = block
        self.graphs = graphs[block.first : block.last]
        self.unary = np.empty(int(block.cand_ptr[-1]))
        self.pair = np.empty(int(block.table_ptr[-1]))
        nothing = np.empty(0)
        cost = max(block.cost, 1)
        v0 = block.variables.start
        n = block.n_variables
        for a, b in runs(0, n, max(1, n * BUDGET // cost)):
            out = self.unary[block.cand_ptr[a] : block.cand_ptr[b]]
            potentials(kernel, coef, v0 + a, v0 + b, 0, 0, out, nothing)
        for start, end in block.table_runs():
            for a, b in runs(start, end, max(1, block.edge_u.size * BUDGET // cost)):
                out = self.pair[block.table_ptr[a] : block.table_ptr[b]]
                e = int(block.table_edge[a])
                potentials(kernel, coef, 0, 0, e, e + b - a, nothing, out)
        self.potentials = Potentials(block, self.unary, self.pair)

    # ---------------------------------------------------------------- the methods

    def exact(self) -> np.ndarray:
        """Best states of the instances that are forests; zeros for other instances."""
        block = self.block
        back = np.empty(block.upward_ptr[-1], dtype=np.int32)
        work = np.empty(int(np.diff(block.table_ptr).max(initial=1)))
        state = np.zeros(block.n_variables, dtype=np.int32)
        max_product(
            self.potentials, block.forest, block.upward_ptr, back, self.unary.copy(),
            work, state,
        )  # fmt: skip
        return state

    def keep_only(self, allowed: np.ndarray) -> None:
        """Forbid the candidates for which `allowed` (candidates of all blocks) is
        False."""
        self.unary[~allowed[self.block.candidates]] = -np.inf

    def sums(
        self, weight: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Logarithm of the sum of exp(score) over all states; all must be forests.

        Returns the logarithm for each instance, the probability of each candidate, and
        the probability of each pair of values summed over the edges of a table, times
        the weight of the instance. Without weights, probabilities are not computed.
        """
        block = self.block
        n_pairs = np.diff(block.table_ptr)
        top = np.empty(0)
        if self.pair.size:
            top = np.maximum.reduceat(self.pair, block.table_ptr[:-1])
        ratio = np.exp(self.pair - np.repeat(top, n_pairs))
        log_z, belief = np.empty(block.n_instances), np.empty(self.unary.size)
        pair_total = np.zeros(self.pair.size)
        work = np.empty(2 * int(n_pairs.max(initial=0)))
        buffer = np.empty(2 * int(np.diff(block.cand_ptr).max(initial=0)))
        sum_product(
            self.potentials, block.forest, block.upward_ptr, ratio, top[block.table],
            belief, np.empty(block.upward_ptr[-1]), work, buffer, log_z, pair_total,
            np.empty(0) if weight is None else weight,
        )  # fmt: skip
        for i in np.flatnonzero(np.isnan(log_z)).tolist():
            tree = InstanceTree(self, i, np.logaddexp)
            of_one = None if weight is None else float(weight[i])
            log_z[i] = tree.sums(of_one, belief, pair_total)
        if weight is not None:
            n_candidates = np.diff(block.cand_ptr[block.var_ptr])
            belief *= np.repeat(weight, n_candidates)
        return log_z, belief, pair_total

    def score(self, state: np.ndarray) -> np.ndarray:
        """The score of each instance."""
        block, n = self.block, self.block.n_instances
        owners = np.repeat(np.arange(n), np.diff(block.var_ptr))
        score = np.zeros(n)  # without variables, bincount gives integers
        score += np.bincount(owners, self.unary[block.cand_ptr[:-1] + state], n)
        owners = np.repeat(np.arange(n), np.diff(block.edge_ptr))
        return score + np.bincount(owners, self.pair[block.pairs_of(state)], n)

    def start(self) -> np.ndarray:
        """The value of largest unary potential for each variable, or an allowed
        state."""
        cand_ptr = self.block.cand_ptr
        sizes = np.diff(cand_ptr)
        state = np.zeros(self.block.n_variables, dtype=np.int32)
        if sizes.size:
            top = np.maximum.reduceat(self.unary, cand_ptr[:-1])
            at = np.flatnonzero(self.unary == np.repeat(top, sizes))
            first = at[np.searchsorted(at, cand_ptr[:-1])]
            state[:] = first - cand_ptr[:-1]
        put_starts(self.graphs, self.block.var_ptr, state)
        return state

    def anneal(self, seed: np.ndarray, active: np.ndarray | None = None) -> np.ndarray:
        """The best state of several annealed walks, which start at the result of
        ICM."""
        walk = Walk(self, self.start(), seed)
        if active is not None:
            walk.active = active
        walk.icm()
        steps = np.arange(_ANNEAL_SWEEPS) / (_ANNEAL_SWEEPS - 1)
        cooling = _WARM * (_COLD / _WARM) ** steps
        temperature = cooling[:, None] * self._scale()
        parts = row_blocks(_ANNEAL_SWEEPS, walk.sweeps_per_call)
        for _ in range(_RESTARTS):
            walk.keep_best()
            walk.sweep((temperature[part] for part in parts), LARGEST_PAIR)
            walk.go_to_best()
            walk.icm(LARGEST_PAIR)
        return walk.state

    def _scale(self) -> np.ndarray:
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


class Walk:
    """Gibbs sampling of the instances of a block; arrays are changed in place.

    active: instances that move.
    seed: state of the random numbers of each instance.
    state, score: the current states and their scores.
    best_state, best_score: the best so far, or empty.
    count: sweeps after which each candidate was the value of its variable, or empty.
    """

    def __init__(
        self,
        infer: BlockInference,
        state: np.ndarray,
        seed: np.ndarray | None = None,
    ) -> None:
        block = infer.block
        self.infer, self.state, self.score = infer, state, infer.score(state)
        n = block.n_instances
        self.seed = np.zeros(n, dtype=np.uint64) if seed is None else seed
        self.active, self.changed = np.ones((2, n), dtype=np.uint8)
        self.best_state, self.best_score = np.empty(0, dtype=np.int32), np.empty(0)
        self.count = np.empty(0)
        sizes = np.diff(block.cand_ptr)
        pairs = np.minimum(block.n_pairs, LARGEST_PAIR)
        ends = sizes[block.edge_u] + sizes[block.edge_v]
        room = max(sizes.max(initial=1), (pairs + ends).max(initial=1))
        self.buffer = np.empty(int(room))
        degree = np.diff(block.adj_ptr)
        edges = np.minimum(degree[block.edge_u] + degree[block.edge_v], _MOST_EDGES)
        steps = 10 * (sizes.sum() + pairs.sum()) + edges @ ends + 1  # of a sweep
        self.sweeps_per_call = int(max(1, BUDGET // steps))

    def sweep(
        self,
        temperatures: Iterable[np.ndarray],
        largest_pair: int = 0,
        until_still: bool = False,
    ) -> None:
        """Sweeps at temperatures of shape (n_sweeps, n_instances), slice by slice.

        until_still: instances that the last sweep of a slice did not change are
        stopped.
        """
        active, number = self.active, 0
        for temperature in temperatures:
            gibbs(
                self.infer.potentials, self, temperature, number, largest_pair,
                _MOST_EDGES,
            )  # fmt: skip
            number += len(temperature)
            if until_still:
                self.active = self.active & self.changed
                if not self.active.any():
                    break
        self.active = active

    def icm(self, largest_pair: int = 0) -> None:
        """Coordinate ascent until no value changes."""
        # Slices are short, because only the last sweep of a slice can stop the loop.
        cold = np.zeros((2, self.score.size))
        slices = (cold for _ in range(_MOST_SWEEPS // 2))
        self.sweep(slices, largest_pair, until_still=True)

    def at(self, temperature: float, n_sweeps: int) -> None:
        """Sweeps at one temperature."""
        self.sweep(
            (
                np.full((b - a, self.score.size), temperature)
                for a, b in runs(0, n_sweeps, self.sweeps_per_call)
            ),
            LARGEST_PAIR,
        )

    def keep_best(self) -> None:
        """Start to record the best state."""
        self.score = self.infer.score(self.state)  # recomputed, without rounding errors
        self.best_state, self.best_score = self.state.copy(), self.score.copy()

    def go_to_best(self) -> None:
        """Continue from the best state, and stop recording it."""
        self.state, self.score = self.best_state, self.best_score
        self.best_state, self.best_score = np.empty(0, dtype=np.int32), np.empty(0)


def put_starts(
    graphs: Sequence[FactorGraph], var_ptr: np.ndarray, state: np.ndarray
) -> None:
    """Give the constrained instances their first allowed state."""
    for graph, a, b in zip(graphs, var_ptr[:-1], var_ptr[1:]):
        if graph.start is not None:
            state[a:b] = graph.start


def _means(values: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    total = np.concatenate([[0.0], np.cumsum(values)])[ptr]
    return np.diff(total) / np.maximum(1, np.diff(ptr))


def candidate_flags(
    known: Iterable[Iterable[Sequence[int] | None]], sizes: Any
) -> np.ndarray:
    """Whether each candidate (of all variables, concatenated) is among the known
    values.

    known: the known values of each variable of each instance; None or empty: all.
    """
    rows = [candidates or () for candidates in chain.from_iterable(known)]
    counts = np.array([len(candidates) for candidates in rows], dtype=np.intp)
    size = np.array(sizes, dtype=np.intp)
    flags = np.repeat(counts == 0, size)
    starts = size.cumsum() - size
    allowed = np.fromiter(chain.from_iterable(rows), dtype=np.intp)
    flags[np.repeat(starts, counts) + allowed] = True
    return flags


def refuse_loops(graphs: Sequence[FactorGraph], who: str, remedy: str) -> None:
    """Raise ValueError if an instance has a loop, before any work."""
    for i, graph in enumerate(graphs):
        if not graph.is_forest:
            raise ValueError(
                f"{who} needs chains or trees, but the edges of {where(i, graph)} form "
                f"a loop; {remedy}"
            )
