"""The conditional likelihood of chains and trees: value, gradient, duality gap."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import numpy as np

from ._graph import FactorGraph
from ._inference import BUDGET, BlockInference, candidate_flags
from ._pack import Block, Packed
from ._samplerank_fast import Graphs, expected_features


class ConditionalLikelihood:
    r"""The loss :math:`-\sum_i a_i \log p_w(y_i \mid x_i)` of instances without loops.

    Unknown values are summed over. The loss is a function of the free weights, whose
    indices among all weights are `free`. `curvature` approximates the second
    derivatives by the diagonal of the Hessian at 0.

    packed, graphs: the instances in two forms.
    truth: positions of the values in the candidates, -1 if unknown.
    weight: the :math:`a_i`.
    min_count: weights of features of variables and of edges are free if they occur at
    least so often with the known values; an instance counts ceil(weight) times. Weights
    of candidates and of pairs are always free.
    parallel: an ordered map over blocks. Sums run in the order of the blocks, so that
    results do not depend on the threads.
    """

    def __init__(
        self,
        packed: Packed,
        graphs: list[FactorGraph],
        truth: np.ndarray,
        weight: np.ndarray,
        min_count: tuple[int, int],
        parallel: Callable[..., list],
    ) -> None:
        self.packed = packed
        self.graphs = graphs
        self.truth = truth
        self.weight = weight
        self.parallel = parallel
        self.kernel = Graphs(packed)
        self.blocks = [Block(packed, *ends) for ends in packed.blocks(BUDGET)]
        self.allowed = None
        if (truth < 0).any():
            known = [[a] if a >= 0 else None for a in truth.tolist()]
            self.allowed = candidate_flags([known], np.diff(packed.cand_ptr))
        layout = packed.layout
        wanted = np.zeros(layout.n_weights)
        wanted[: layout.own_offset] = min_count[0]
        for start, end in zip(layout.cross_offset, layout.pair_offset):
            wanted[start:end] = min_count[1]
        counts = self._sum(
            self._changed(lambda x: x != 0.0), self._right(np.ceil(weight))
        )
        self.free = np.flatnonzero(counts >= wanted)
        self.observed = self._sum(self.kernel, self._right(weight))
        squares = self._changed(np.square)
        self.curvature = self._sum(squares, self._variances())[self.free]

    def _changed(self, function: Callable[[np.ndarray], np.ndarray]) -> Graphs:
        """The instances with other values of features."""
        packed = copy.copy(self.packed)
        for name in (
            "features", "candidate_features", "edge_features", "pair_features"
        ):  # fmt: skip
            ptr, column, value = getattr(packed, name)
            setattr(packed, name, (ptr, column, function(value).astype(np.float64)))
        return Graphs(packed)

    def _right(self, weight: np.ndarray) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """The known values as probabilities of candidates and of pairs of values."""
        for block in self.blocks:
            state = self.truth[block.variables]
            of_variable, of_edge = self._weights(block, weight)
            unary = np.zeros(block.cand_ptr[-1])
            known = np.flatnonzero(state >= 0)
            unary[block.cand_ptr[known] + state[known]] = of_variable[known]
            both = (state[block.edge_u] >= 0) & (state[block.edge_v] >= 0)
            at = np.where(both, block.pairs_of(state), 0)
            size = block.table_ptr[-1]
            yield unary, np.bincount(at, of_edge * both, minlength=size)

    def _weights(
        self, block: Block, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The weights of the variables and of the edges of a block."""
        own = weight[block.first : block.last]
        return (
            np.repeat(own, np.diff(block.var_ptr)),
            np.repeat(own, np.diff(block.edge_ptr)),
        )

    def _variances(self) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """Variances of candidates and of pairs of values under uniform
        distributions."""
        for block in self.blocks:
            of_variable, of_edge = self._weights(block, self.weight)
            k, pairs = np.diff(block.cand_ptr), np.diff(block.table_ptr)
            edges = np.bincount(block.table, of_edge, minlength=pairs.size)
            yield (
                np.repeat(of_variable * (1.0 - 1.0 / k) / k, k),
                np.repeat(edges * (1.0 - 1.0 / pairs) / pairs, pairs),
            )

    def _sum(
        self, kernel: Graphs, given: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> np.ndarray:
        """Sums of the features times probabilities that are given block by block."""
        total, nothing = np.zeros(self.packed.layout.n_weights), np.empty(0)
        for block, (unary, pair) in zip(self.blocks, given):
            v = block.variables
            expected_features(kernel, unary, v.start, v.stop, nothing, 0, 0, total)
            for start, end in block.table_runs():
                part = pair[block.table_ptr[start] : block.table_ptr[end]]
                e = int(block.table_edge[start])
                expected_features(
                    kernel, nothing, 0, 0, part, e, e + end - start, total
                )
        return total

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss, in nats, and its gradient with respect to the free weights."""
        coef = np.zeros(self.packed.layout.n_weights)
        coef[self.free] = w

        def work(block: Block) -> tuple[float, np.ndarray, np.ndarray]:
            infer = BlockInference(block, self.kernel, coef, self.graphs)
            weight = self.weight[block.first : block.last]
            log_z, unary, pair = infer.sums(weight)
            if self.allowed is None:
                return (
                    weight @ (log_z - infer.score(self.truth[block.variables])),
                    unary,
                    pair,
                )
            infer.keep_only(self.allowed)
            log_known, known, known_pair = infer.sums(weight)
            if (log_known == -np.inf).any():
                i = block.first + int(np.argmin(log_known))
                raise ValueError(
                    f"y[{i}]: no state of X[{i}] has the known values and no forbidden "
                    "pair"
                )
            return weight @ (log_z - log_known), unary - known, pair - known_pair

        found = self.parallel(work, self.blocks)
        gradient = self._sum(self.kernel, (part[1:] for part in found))
        if self.allowed is None:
            gradient -= self.observed
        return float(sum(part[0] for part in found)), gradient[self.free]


def duality_gap(
    loss: float, gradient: np.ndarray, w: np.ndarray, c1: float, c2: float
) -> float:
    r"""Upper bound, in nats, of loss(w) + c1 |w|_1 + c2 |w|^2 minus its minimum.

    The loss is the maximum over distributions p of the states of H(p) + E_p[s] - s(y).
    With p = theta model + (1 - theta) truth, whose expected features differ from the
    observed ones by -theta v, v = -gradient, Fenchel's duality and the convexity of the
    divergence from the model bound the distance from the minimum by

        (1 - theta) loss
        + sum_j (c1 |w_j| + c2 w_j^2 + omega*(theta v_j) - theta v_j w_j),
        omega*(v) = max(|v| - c1, 0)^2 / (4 c2).

    If c2 is 0, theta is the largest number for which all |theta v_j| are at most c1.
    """
    size, theta = np.abs(gradient), 1.0
    largest = float(size.max(initial=0.0))
    if c2 == 0.0 and largest > c1:
        theta = c1 / largest
    terms = c1 * np.abs(w) + c2 * w * w + theta * gradient * w
    if c2 > 0.0:
        terms += np.maximum(size - c1, 0.0) ** 2 / (4.0 * c2)
    elif c1 == 0.0:
        return np.inf if largest > 0.0 else 0.0
    return max(0.0, (1.0 - theta) * loss + float(terms.sum()))
