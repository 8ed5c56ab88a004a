"""The optimisation problem: pairs, counts, features, strengths, and sweeps.

    F(w) = loss(w) + sum over the groups q of strength_q omega(w_q)

Loss and penalty use the same `Problem`. Only `Problem` depends on how the tree stores
its pairs, how pairs are split for caches and threads, and whether a number belongs to a
level (trie) or to a pair (collapsed tree).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .._parallel import serial_map
from ..context_tree import Pairs, expand_pairs
from ._loss_fast import dot as _dot

if TYPE_CHECKING:
    from .._penalties import Penalty

# Pairs in one block of branches. Its working set (w, es, gradient, counts, parents:
# about 40 bytes per pair) should stay in a core's cache between the forward and the
# backward sweep (`benchmarks/bench_loss.py --case blocks` prints a table).
BLOCK_PAIRS = 1 << 16

# Pairs in one chunk of a vector pass. Passes stream, so chunks need not fit a cache;
# large chunks need the interpreter, which threads cannot share, less often.
CHUNK_PAIRS = 1 << 16

# Shards are the units of parallel work. Their number is fixed, not taken from
# n_jobs, so that sums over shards have one order and n_jobs never changes results.
N_SHARDS = 8

# With fewer pairs the passes of an iteration, a dozen of them, are too short for a
# second thread to pay on a machine that is not idle (`benchmarks/bench_threads.py`).
THREAD_PAIRS = 1 << 19


# [function(item) for item in items], in threads or not.
Map = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]


def pull(v: np.ndarray, positive: bool) -> np.ndarray:
    """How fast <v, w> can grow with each weight, as a new array.

    positive: whether weights are non-negative.
    """
    return np.maximum(v, 0.0) if positive else np.abs(v)


class PerLevel:
    """A number for each depth, spread over nodes and pairs.

    On a trie all nodes of a level have one depth, and one number per level is kept. A
    node of a collapsed tree stands for several suffixes that share a weight: it has the
    sum of their numbers, and each of its pairs has a copy. `of_nodes` is for kernels
    that look it up by level, if `a_level` is true, or by node.
    """

    def __init__(self, of_nodes: np.ndarray, values: np.ndarray, a_level: bool) -> None:
        self.of_nodes, self._values, self.a_level = of_nodes, values, a_level

    @classmethod
    def spread(cls, by_depth: ArrayLike, pairs: Pairs) -> PerLevel:
        """A number for each depth on the pairs of a tree."""
        tree = pairs.tree
        by_depth = np.ascontiguousarray(by_depth, dtype=np.float64)
        if tree.span is None:
            of_levels = by_depth[: tree.n_levels]
            return cls(of_levels, of_levels, True)
        below = tree.depths() + 1
        total = np.concatenate([[0.0], np.cumsum(by_depth[: below.max()])])
        of_nodes = total[below] - total[below - tree.spans()]
        return cls(of_nodes, np.repeat(of_nodes, np.diff(pairs.ptr)), False)

    def __mul__(self, factor: float) -> PerLevel:
        return PerLevel(self.of_nodes * factor, self._values * factor, self.a_level)

    def by_pair(self, factor: np.ndarray, pairs: Pairs) -> PerLevel:
        """The number of each pair times its factor."""
        of_nodes = self.of_nodes[pairs.tree.levels()] if self.a_level else self.of_nodes
        values = np.repeat(of_nodes, np.diff(pairs.ptr)) * factor
        return PerLevel(of_nodes, values, False)

    def of(self, lo: int, hi: int, level: int) -> np.ndarray:
        """The numbers of the pairs lo ... hi - 1, all of one level: one entry, or
        hi - lo."""
        return self.at(level) if self.a_level else self._values[lo:hi]

    def at(self, level: int) -> np.ndarray:
        """For kernels that index by pair: one entry, or one for every pair."""
        return self._values[level : level + 1] if self.a_level else self._values


class Problem:
    r"""Pairs with counts, weights of their features and groups, and ways to walk.

    Parameters
    ----------
    pairs : Pairs
        Over a tree, collapsed or not.

    count : ndarray of shape (n_pairs,)
        Weight of the samples at or below each pair.

    beta : array-like of shape (depth + 1,)
        Weight of the features of each depth, non-negative.

    strength : array-like of shape (depth + 1,), default=None
        Weight of the penalty's groups of each depth, in counts, non-negative. None:
        no penalty.

    positive : bool, default=True
        Whether weights are non-negative.

    parallel : ThreadMap, default=serial_map
        `serial_map`: one thread. Results are the same.

    n_shards : int, default=8
        Number of units of parallel work.

    node_weight : ndarray of shape (n_nodes,), default=None
        Weight of the samples that end at each node. None: computed from the counts, if
        the tree has all pairs.

    Attributes
    ----------
    count : ndarray of shape (n_pairs,)
        Weight of the samples at or below each pair.

    node_weight : ndarray of shape (n_nodes,)
        Weight of the samples that end at each node.

    pair_ptr, parent, pair_parent : ndarray of int32
        First pair of each node, parents of nodes and of pairs.

    offset : ndarray of shape (n_pairs,) or None
        Added to the weights in the loss: those of another model, the prior. Pairs that
        the prior alone has (count 0) keep weight 0.

    unseen : ndarray of bool of shape (n_classes,)
        Root pairs of classes that never occur; they keep weight 0.

    beta, strength, scale : PerLevel
        `scale` is the factor of the counts in a diagonal metric that majorises the
        Hessian. By Cauchy's inequality (sum_k beta_k v_k)^2 <= (sum_k beta_k) sum_k
        beta_k v_k^2 over the active features of a sample, so the Hessian is below
        (sum_k beta_k) diag(beta_p E_p), and near the optimum E_p is close to c_p.

    beta_by_depth, strength_by_depth : ndarray
        As given.

    beta_sum : float
        :math:`\sum_k \beta_k` over the depths of the tree.

    levels : list of (lo, hi)
        Pairs of each level.

    chunks : list of lists of (level, lo, hi)
        Small ranges that cover all pairs in order, each within one level and none
        with a part of a context only, in groups: the units of parallel work.

    node_blocks : list of lists of (lo, hi)
        Branches of the tree in blocks that fit a cache, in shards: int64 arrays of
        node ranges by level (entry 0 unused).

    pair_blocks : list of lists of (lo, hi)
        The pairs of these blocks: lists by level.
    """

    def __init__(
        self,
        pairs: Pairs,
        count: np.ndarray,
        beta: ArrayLike,
        strength: ArrayLike | None = None,
        *,
        positive: bool = True,
        parallel: Map = serial_map,
        n_shards: int = N_SHARDS,
        node_weight: np.ndarray | None = None,
    ) -> None:
        tree = pairs.tree
        self.pairs, self.tree = pairs, tree
        if node_weight is None:
            node_weight = pairs.node_sums(pairs.terminal_counts(count))
        self.count, self.node_weight = count, node_weight
        self.pair_ptr, self.pair_parent = pairs.ptr, pairs.parent
        self.parent, self.level_ptr = tree.parent, tree.level_ptr
        self.n_nodes, self.n_levels = tree.n_nodes, tree.n_levels
        self.n_pairs, self.n_classes = pairs.n_pairs, pairs.n_classes

        beta = np.asarray(beta, dtype=np.float64)
        deepest = tree.max_depth + 1
        self.beta_by_depth = beta
        self.beta = PerLevel.spread(beta, pairs)
        self.beta_sum = float(beta[:deepest].sum())
        self.scale = self.beta * self.beta_sum
        if strength is None:
            strength = np.zeros(deepest)
        self.strength_by_depth = np.asarray(strength, dtype=np.float64)
        self.strength = PerLevel.spread(strength, pairs)
        self.positive = bool(positive)
        self.offset: np.ndarray | None = None
        self.unseen = self.count[: self.n_classes] == 0
        # Not every branch need be here; see `Pairs.total`.
        below = float(self.node_weight[1:].sum())
        self.total_weight = float(self.node_weight[0]) + pairs.total(below)

        self.map = parallel if self.n_pairs >= THREAD_PAIRS else serial_map
        ptr = self.pair_ptr
        self.levels = list(pairwise(ptr[self.level_ptr].tolist()))
        self.chunks = self._cut_chunks(n_shards)
        self.node_blocks = self._cut_blocks(n_shards)
        self.pair_blocks = [
            [(ptr[lo].tolist(), ptr[hi].tolist()) for lo, hi in shard]
            for shard in self.node_blocks
        ]

    def begin_at(self, weight: np.ndarray | None) -> None:
        """Set `offset` to the weights of a prior, for features of weight 1."""
        if weight is not None:
            self.offset = weight.copy()
            for k, (lo, hi) in enumerate(self.levels):
                self.offset[lo:hi] /= self.beta.of(lo, hi, k)

    def _cut_chunks(self, n_groups: int) -> list[list[tuple[int, int, int]]]:
        chunks = []
        for k, nodes in enumerate(pairwise(self.level_ptr.tolist())):
            start = self.pair_ptr[slice(*nodes)]
            owner = (start - start[:1]) // CHUNK_PAIRS
            cuts = start[np.flatnonzero(np.diff(owner, prepend=-1))].tolist()
            cuts.append(self.levels[k][1])
            chunks += [(k, lo, hi) for lo, hi in pairwise(cuts) if lo < hi]
        # Groups of about equal numbers of pairs: chunks of large contexts are larger.
        ends = np.array([hi for _, _, hi in chunks])
        group = (ends - 1) * n_groups // max(self.n_pairs, 1)
        bounds = np.searchsorted(group, np.arange(n_groups + 1))
        return [chunks[a:b] for a, b in pairwise(bounds) if a < b]

    def _cut_blocks(self, n_shards: int) -> list[list[tuple[np.ndarray, np.ndarray]]]:
        tree = self.tree
        n_levels = self.n_levels
        first = np.arange(*tree.level_ptr[1:3]) if n_levels > 1 else np.arange(0)
        # Node ranges of every branch, level by level: the children of a range
        # of siblings are a range.
        lo, hi = [np.zeros_like(first)], [np.zeros_like(first)]
        start, stop = first, first + 1
        pairs = np.zeros(first.size, dtype=np.int64)
        for _ in range(1, n_levels):
            lo.append(start)
            hi.append(stop)
            pairs += self.pair_ptr[stop] - self.pair_ptr[start]
            start, stop = (tree.child_ptr[v].astype(np.int64) for v in (start, stop))
        firsts, lasts = np.array(lo, dtype=np.int64), np.array(hi, dtype=np.int64)

        # Cut where the running sum passes a multiple of the block size; a branch
        # larger than that is a block by itself.
        total = np.cumsum(pairs)
        owner = (total - 1) // BLOCK_PAIRS
        cut = np.flatnonzero(np.diff(owner, prepend=-1, append=-1))
        blocks, ends = [], []
        for a, b in pairwise(cut):
            first, last = firsts[:, a], lasts[:, b - 1]
            blocks.append((np.ascontiguousarray(first), np.ascontiguousarray(last)))
            ends.append(total[b - 1])
        shard = (np.array(ends) - 1) * n_shards // max(total[-1], 1) if ends else []
        shards = (np.flatnonzero(shard == s) for s in range(n_shards))
        return [[blocks[i] for i in of] for of in shards if len(of)]

    def expand(self, w: np.ndarray) -> tuple[Problem, np.ndarray]:
        """(the problem on the trie, w on the trie): merged suffixes share their
        weights."""
        if self.tree.span is None:
            return self, w
        pairs, source = expand_pairs(self.pairs)
        trie = Problem(
            pairs,
            self.count[source],
            self.beta_by_depth,
            positive=self.positive,
            parallel=self.map,
        )
        return trie, w[source]

    # ------------------------------------------------------------------- walks

    def bound(self, penalty: Penalty) -> Any:
        """A penalty on the pairs; see `Penalty.bind`."""
        return penalty.bound(penalty, self)

    def sum_over(self, function: Callable[[int, int, int], Any]) -> Any:
        """Sum of function(level, lo, hi) over all chunks, in a fixed order."""

        def run(chunks):
            return [function(*chunk) for chunk in chunks]

        parts = self.map(run, self.chunks)
        # The first chunk is the root's pairs.
        at_root, *below = (value for part in parts for value in part)
        if at_root is None:
            return 0.0
        return at_root + self.pairs.total(sum(below, np.zeros_like(at_root)[()]))

    def dot(self, a: np.ndarray, b: np.ndarray) -> float:
        """Sum of a b over the pairs."""
        return self.sum_over(lambda _, lo, hi: _dot(a[lo:hi], b[lo:hi]))

    def same(self, a: np.ndarray, b: np.ndarray) -> bool:
        """True if two arrays over the pairs are equal."""
        return self.sum_over(lambda _, lo, hi: float((a[lo:hi] != b[lo:hi]).any())) == 0

    def upward(
        self,
        up: Callable[[int, int, int], float | None],
        state: np.ndarray | None = None,
        push: Callable[[int, int], Any] | None = None,
    ) -> float:
        """Bottom-up over the pair forest: blocks in parallel, then levels 1 and 0.

        up(level, lo, hi) handles a range and returns a number or None. Level 1 is one
        range, because the branches share its parents, the root's pairs; or it belongs
        to the blocks, and push(lo, hi) hands its results to the root's pairs. `state`
        is an array of the pairs in which `up` adds up: it is set to 0 beforehand, and
        the root's entries are summed over the shards of a tree. Returns the sum of the
        numbers.
        """
        last = 1 if push is None else 0  # the level above those of the blocks
        if state is not None:
            root = state[: self.n_classes]
            root[:] = 0.0

        def run(blocks):
            total = 0.0
            for lo, hi in blocks:
                if state is not None:
                    for k in range(1, len(lo)):
                        state[lo[k] : hi[k]] = 0.0
                for k in range(len(lo) - 1, last, -1):
                    total += up(k, lo[k], hi[k]) or 0.0
            return total

        total: float = sum(self.map(run, self.pair_blocks))
        if self.n_levels > 1:
            level_1 = self.levels[1]
            total += (push(*level_1) if push else up(1, *level_1)) or 0.0
        if state is not None:
            root[:] = self.pairs.total(root)
        at_root = up(0, *self.levels[0])
        return 0.0 if at_root is None else at_root + self.pairs.total(total)

    def downward(self, down: Callable[[int, int, int], Any]) -> None:
        """Top-down over the pair forest: the root, then blocks in parallel."""
        down(0, *self.levels[0])

        def run(blocks):
            for lo, hi in blocks:
                for k in range(1, len(lo)):
                    down(k, lo[k], hi[k])

        self.map(run, self.pair_blocks)

    # ------------------------------------------------------------------ metric

    def metric(self, kappa: float) -> np.ndarray:
        """kappa * scale * count of every pair; 1 where that is 0.

        The product is 0 only if the gradient is 0 too (classes that were never seen,
        and features whose weight underflowed), so any metric leaves such a weight
        unchanged.
        """
        out = np.empty(self.n_pairs)

        def run(k, lo, hi):
            np.multiply(self.count[lo:hi], kappa * self.scale.of(lo, hi, k),
                        out=out[lo:hi])  # fmt: skip
            out[lo:hi][out[lo:hi] == 0.0] = 1.0

        self.sum_over(run)
        return out
