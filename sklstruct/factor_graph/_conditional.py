"""The conditional likelihood of chains and trees: value, gradient, duality gap."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ._graph import FactorGraph
from ._inference import BUDGET, BlockInference
from ._pack import Block, Packed
from ._samplerank_fast import Graphs, expected_features


class ConditionalLikelihood:
    r"""The loss :math:`-\sum \log p_w(y \mid x)` of packed instances without loops.

    parallel: an ordered map over blocks. Sums run in the order of the blocks, so that
    results do not depend on the threads.
    """

    def __init__(
        self,
        packed: Packed,
        graphs: Sequence[FactorGraph],
        truth: np.ndarray,
        parallel: Callable[..., list],
    ) -> None:
        self.packed = packed
        self.graphs = graphs
        self.truth = truth
        self.parallel = parallel
        self.kernel = Graphs(packed)
        self.blocks = [Block(packed, *ends) for ends in packed.blocks(BUDGET)]
        self.observed = self._sum(self.kernel, self._right())

    def _right(self) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """The true states as probabilities of candidates and of pairs of values."""
        for block in self.blocks:
            state = self.truth[block.variables]
            unary = np.zeros(block.cand_ptr[-1])
            unary[block.cand_ptr[:-1] + state] = 1.0
            at = block.pairs_of(state)
            yield unary, np.bincount(at, minlength=block.table_ptr[-1]).astype(float)

    def _sum(
        self, kernel: Graphs, given: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> np.ndarray:
        """Sums of the features under probabilities that are given block by block."""
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

    def counts(self) -> np.ndarray:
        """How often the feature of each weight is not 0, in the true states."""
        ones = copy.copy(self.packed)
        for name in (
            "features", "candidate_features", "edge_features", "pair_features"
        ):  # fmt: skip
            ptr, column, value = getattr(ones, name)
            setattr(ones, name, (ptr, column, (value != 0).astype(np.float64)))
        return self._sum(Graphs(ones), self._right())

    def value_and_gradient(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss, in nats, and its gradient by all weights."""

        def work(i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            block = self.blocks[i]
            infer = BlockInference(block, self.packed, self.kernel, coef, self.graphs)
            log_z, unary, pair = infer.sums()
            return log_z - infer.score(self.truth[block.variables]), unary, pair

        found = self.parallel(work, range(len(self.blocks)))
        loss = float(np.concatenate([part[0] for part in found]).sum())
        expected = self._sum(self.kernel, (part[1:] for part in found))
        return loss, expected - self.observed


def duality_gap(
    loss: float, gradient: np.ndarray, w: np.ndarray, c1: float, c2: float
) -> float:
    r"""Upper bound, in nats, of loss(w) + c1 |w|_1 + c2 |w|^2 less its minimum.

    The loss is the maximum over distributions p of the states of H(p) + E_p[s] - s(y).
    With p = theta model + (1 - theta) truth, whose expected features differ from the
    observed ones by -theta v, v = -gradient, Fenchel's duality and the convexity of the
    divergence from the model bound the distance from the minimum by

        (1 - theta) loss
        + sum_j (c1 |w_j| + c2 w_j^2 + omega*(theta v_j) - theta v_j w_j),
        omega*(v) = max(|v| - c1, 0)^2 / (4 c2).

    Without c2, theta is the largest number for which all |theta v_j| are at most c1.
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
