"""Exact loss and gradient of the log-linear model in O(number of pairs)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from .._parallel import serial_map
from . import _loss_fast as _fast
from ._sweeps import PairRanges

# Pairs in one block. Its working set (w, es, gradient, counts, parents: about 40
# bytes a pair) should stay in a core's cache between the forward and the backward
# sweep; 2^16 pairs are 2.6 MB. On WikiText-2 at depth 4, one evaluation took 51, 43,
# 41, 40, 40 ms with blocks of 2^12, 2^14, 2^16, 2^18, 2^20 pairs (and 32 MB of L3;
# `benchmarks/bench_loss.py --block` prints the table).
BLOCK_PAIRS = 1 << 16

# Shards are the units of parallel work. Their number is fixed, not taken from
# n_jobs, so that sums over shards have one order and n_jobs never changes results.
N_SHARDS = 8


class Shards:
    """Branches of a tree in blocks that fit a cache, and blocks in shards.

    Parameters
    ----------
    tree : ContextTree
        With pairs.
    n_shards : int
        Number of groups of about equal numbers of pairs.

    Attributes
    ----------
    blocks : list of lists of (lo, hi)
        For each shard its blocks: int64 arrays (n_levels,) of node ranges.
    """

    def __init__(self, tree, n_shards=N_SHARDS, block_pairs=BLOCK_PAIRS):
        n_levels = tree.n_levels
        first = np.arange(*tree.level_ptr[1:3]) if n_levels > 1 else np.arange(0)
        # Node ranges of every branch, level by level: the children of a range
        # of siblings are a range.
        lo, hi = [np.zeros_like(first)], [np.zeros_like(first)]
        start, stop = first, first + 1
        pairs = np.zeros(first.size, dtype=np.int64)
        for _ in range(1, n_levels):
            lo.append(start)
            hi.append(stop)
            pairs += tree.pair_ptr[stop] - tree.pair_ptr[start]
            start, stop = (tree.child_ptr[v].astype(np.int64) for v in (start, stop))
        lo, hi = np.array(lo, dtype=np.int64), np.array(hi, dtype=np.int64)

        # Cut where the running sum passes a multiple of the block size; a branch
        # larger than that is a block by itself.
        total = np.cumsum(pairs)
        owner = (total - 1) // block_pairs
        cut = np.flatnonzero(np.diff(owner, prepend=-1, append=-1))
        blocks, ends = [], []
        for a, b in pairwise(cut):
            blocks.append(
                (
                    np.ascontiguousarray(lo[:, a]),
                    np.ascontiguousarray(hi[:, b - 1]),
                )
            )
            ends.append(total[b - 1])
        shard = (np.array(ends) - 1) * n_shards // max(total[-1], 1) if ends else []
        self.blocks = [
            [blocks[i] for i in np.flatnonzero(shard == s)] for s in range(n_shards)
        ]


class LogLinearLoss:
    r"""Weighted log-loss of the model, with its gradient.

    .. math::
        f(w) = \sum_n t(n) \ln Z(n) - \sum_p \beta_p\, c(p)\, w_p

    The second sum is :math:`\sum_p T(p) s(p)` with scores written out along their
    paths, so that no score needs to be kept. Total over the samples, in nats.

    Parameters
    ----------
    tree : ContextTree
        With pairs.
    beta : ndarray of shape (depth + 1,)
        Weight of the features of each depth, positive.
    n_shards : int
        See `Shards`.
    parallel : callable, default=None
        Maps a function over a list, in order; None for a plain loop.
    """

    def __init__(self, tree, beta, n_shards=N_SHARDS, parallel=None):
        self.tree = tree
        self.shards = Shards(tree, n_shards).blocks
        self.map = parallel if parallel is not None else serial_map
        n_levels, n_pairs = tree.n_levels, tree.n_pairs
        if tree.span is None:
            self.beta = np.ascontiguousarray(beta[:n_levels], dtype=np.float64)
            self.pair_beta = None
            self._scale = self.beta * self.beta.sum()
        else:
            # A merged path keeps one weight, and each of its suffixes its own
            # beta: their sum multiplies the weight.
            below = tree.depths() + 1
            total = np.concatenate([[0.0], np.cumsum(beta[: below.max()])])
            self.beta = total[below] - total[below - tree.spans()]
            self.pair_beta = np.repeat(self.beta, np.diff(tree.pair_ptr))
            self._scale = self.pair_beta * total[-1]
        self.ranges = PairRanges(tree, self.shards, n_shards)
        # Inner nodes at which samples end (sentence starts).
        inner = tree.level_ptr[-2] if n_levels > 1 else 1
        self.ends = np.flatnonzero(tree.node_weight[:inner])
        self.unseen = tree.count[: tree.n_classes] == 0
        if self.pair_beta is not None:
            self._beta_count = self.pair_beta * tree.count
        self._es = np.empty(n_pairs)
        self._z = np.empty(tree.n_nodes)
        self._a = np.empty(tree.n_nodes)

    def _linear(self, w):
        """Sum of beta c w over the pairs."""
        if self.pair_beta is not None:
            return _fast.dot(self._beta_count, w)
        count, total = self.tree.count, 0.0
        for b, (lo, hi) in zip(self.beta, self.ranges.levels):
            total += b * _fast.dot(count[lo:hi], w[lo:hi])
        return total

    def metric_scale(self, level):
        r"""Factor of the counts in a diagonal metric that majorises the Hessian.

        By Cauchy's inequality :math:`(\sum_k \beta_k v_k)^2 \le
        (\sum_k \beta_k) \sum_k \beta_k v_k^2` over the active features of a
        sample, so the Hessian is below :math:`(\sum_k \beta_k)
        \mathrm{diag}(\beta_p E_p)`, and near the optimum :math:`E_p \approx c_p`.
        One entry for the level, or (collapsed tree) one for each pair.
        """
        if self.pair_beta is not None:
            return self._scale
        return self._scale[level : level + 1]

    def _exp(self, w, level, lo, hi, out):
        """out = exp(beta w) for the pairs lo:hi of one level."""
        if self.pair_beta is not None:
            np.multiply(w[lo:hi], self.pair_beta[lo:hi], out=out)
            np.exp(out, out=out)
        elif self.beta[level] == 1.0:
            np.exp(w[lo:hi], out=out)
        else:
            np.multiply(w[lo:hi], self.beta[level], out=out)
            np.exp(out, out=out)

    def _root(self, w):
        n_classes = self.tree.n_classes
        es = self._es[:n_classes]
        self._exp(w, 0, 0, n_classes, es)
        z_root = float(es.sum())
        self._z[0] = z_root
        return es, z_root

    def value_and_gradient(self, w, grad):
        """f(w), and its gradient in the array `grad`.

        Pairs at the root of classes never seen keep weight 0: gradient 0.
        """
        tree = self.tree
        n_classes = tree.n_classes
        es_root, z_root = self._root(w)

        def run(blocks):
            return self._shard_gradient(blocks, w, grad, z_root)

        parts = self.map(run, self.shards)
        a_root = tree.node_weight[0] / z_root
        e_root = np.zeros(n_classes)
        value = 0.0
        for part_value, part_a, part_e in parts:
            value += part_value
            a_root += part_a
            e_root += part_e
        e_root += es_root * a_root
        # beta has one entry a level, or a node: the first is the root's either way.
        grad[:n_classes] = self.beta[0] * (e_root - tree.count[:n_classes])
        grad[:n_classes][self.unseen] = 0.0
        value += self._ends_value()
        return value - self._linear(w), grad

    def _ends_value(self):
        z, t = self._z[self.ends], self.tree.node_weight[self.ends]
        return _fast.dot(t, np.log(z))

    def _shard_gradient(self, blocks, w, grad, z_root):
        tree = self.tree
        ptr, t = tree.pair_ptr, tree.node_weight
        es, z, a = self._es, self._z, self._a
        value = 0.0
        a_root = np.zeros(1)
        e_root = np.zeros(tree.n_classes)
        deepest = tree.n_levels - 1
        largest = max((int(ptr[hi[-1]] - ptr[lo[-1]]) for lo, hi in blocks), default=0)
        scratch = np.empty(max(largest, 1))
        for lo, hi in blocks:
            for k in range(1, deepest):
                first, last = ptr[lo[k]], ptr[hi[k]]
                self._exp(w, k, first, last, es[first:last])
            first, last = ptr[lo[deepest]], ptr[hi[deepest]]
            self._exp(w, deepest, first, last, scratch[: last - first])
            _fast.block_gradient(
                lo, hi, tree.parent, ptr, tree.pair_parent, self.beta, t, tree.count,
                z_root, es, scratch, z, a, grad, a_root, e_root,
            )  # fmt: skip
            leaves = slice(lo[deepest], hi[deepest])
            value += _fast.dot(t[leaves], np.log(z[leaves]))
        return value, float(a_root[0]), e_root

    def value(self, w):
        """f(w) alone, at about half the cost."""
        return self.value_and_scores(w)[0]

    def value_and_scores(self, w):
        """f(w), exp(score) of every pair and Z of every node (views, reused)."""
        tree = self.tree
        ptr, t = tree.pair_ptr, tree.node_weight
        es, z = self._es, self._z
        _, z_root = self._root(w)

        def run(blocks):
            value = 0.0
            for lo, hi in blocks:
                for k in range(1, tree.n_levels):
                    first, last = ptr[lo[k]], ptr[hi[k]]
                    self._exp(w, k, first, last, es[first:last])
                _fast.block_normalisers(
                    lo, hi, tree.parent, ptr, tree.pair_parent, z_root, es, z
                )
                leaves = slice(lo[-1], hi[-1])
                value += _fast.dot(t[leaves], np.log(z[leaves]))
            return value

        value = sum(self.map(run, self.shards)) + self._ends_value()
        return value - self._linear(w), es, z
