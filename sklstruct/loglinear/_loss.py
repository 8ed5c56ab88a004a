"""Exact loss and gradient of the log-linear model in O(number of pairs)."""

from __future__ import annotations

import numpy as np

from . import _loss_fast as _fast
from ._problem import Problem


class LogLinearLoss:
    r"""Weighted log-loss of the model, with its gradient.

    .. math::
        f(w) = \sum_n t(n) \ln Z(n) - \sum_p \beta_p\, c(p)\, w_p

    The second sum equals :math:`\sum_p T(p) s(p)` with the scores expanded along their
    paths, so that scores need not be stored. Total over the samples, in nats.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._beta_count = None
        if not problem.beta.a_level:
            self._beta_count = problem.beta.at(0) * problem.count
        # Inner nodes below the root at which samples end (sentence starts).
        inner = problem.level_ptr[-2] if problem.n_levels > 1 else 1
        self._ends = np.flatnonzero(problem.node_weight[1:inner]) + 1
        self._es = np.empty(problem.n_pairs)
        self._z = np.empty(problem.n_nodes)
        self._a = np.empty(problem.n_nodes)

    def _whole(self, w):
        """The weights with those of the prior."""
        return w if self.problem.offset is None else w + self.problem.offset

    def _exp(self, w, level, lo, hi, out):
        """out = exp(beta w) for the pairs lo:hi of one level."""
        beta = self.problem.beta.of(lo, hi, level)
        if beta.size == 1 and beta[0] == 1.0:
            np.exp(w[lo:hi], out=out)
        else:
            np.multiply(w[lo:hi], beta, out=out)
            np.exp(out, out=out)

    def _linear(self, w, level, lo, hi):
        """Sum of beta c w over the pairs lo:hi of one level."""
        if self._beta_count is not None:
            return _fast.dot(self._beta_count[lo:hi], w[lo:hi])
        beta = self.problem.beta.at(level)[0]
        return beta * _fast.dot(self.problem.count[lo:hi], w[lo:hi])

    def _root(self, w):
        n_classes = self.problem.n_classes
        es = self._es[:n_classes]
        self._exp(w, 0, 0, n_classes, es)
        z_root = float(es.sum())
        self._z[0] = z_root
        return es, z_root

    def _root_value(self, w):
        """The part of the loss that is not a sum over the branches."""
        value = self.problem.node_weight[0] * np.log(self._z[0])
        return value - self._linear(w, 0, 0, self.problem.n_classes)

    def _inner_value(self):
        """The part of the branches' loss that is not a sum over the blocks."""
        t = self.problem.node_weight[self._ends]
        return _fast.dot(t, np.log(self._z[self._ends]))

    def value_and_gradient(self, w: np.ndarray, grad: np.ndarray) -> float:
        """f(w); its gradient goes to the array `grad`.

        Pairs at the root of classes never seen keep weight 0: gradient 0.
        """
        problem = self.problem
        n_classes = problem.n_classes
        w = self._whole(w)
        es_root, z_root = self._root(w)

        def run(shard):
            return self._shard_gradient(*shard, w, grad, z_root)

        shards = list(zip(problem.node_blocks, problem.pair_blocks))
        sums = np.zeros(2 + n_classes)
        for part_value, part_a, part_e in problem.map(run, shards):
            sums[0] += part_value
            sums[1] += part_a
            sums[2:] += part_e
        sums[0] += self._inner_value()
        sums = problem.pairs.total(sums)
        value, a_root = float(sums[0]), problem.node_weight[0] / z_root + sums[1]
        e_root = sums[2:] + es_root * a_root
        # One entry per level, or per node: the first is the root's either way.
        beta = problem.beta.of_nodes[0]
        grad[:n_classes] = beta * (e_root - problem.count[:n_classes])
        grad[:n_classes][problem.unseen] = 0.0
        if problem.offset is not None:
            grad[problem.count == 0.0] = 0.0
        return value + self._root_value(w)

    def _shard_gradient(self, nodes, pairs, w, grad, z_root):
        """The kernel over the blocks of a shard: their part of the value, and the
        sums that the root needs."""
        problem = self.problem
        t, z = problem.node_weight, self._z
        es = self._es
        value = 0.0
        a_root = np.zeros(1)
        e_root = np.zeros(problem.n_classes)
        deepest = problem.n_levels - 1
        scratch = np.empty(max(1, *(last[-1] - first[-1] for first, last in pairs)))
        for (lo, hi), (first, last) in zip(nodes, pairs):
            for k in range(1, deepest):
                self._exp(w, k, first[k], last[k], es[first[k] : last[k]])
            leaves = scratch[: last[-1] - first[-1]]
            self._exp(w, deepest, first[-1], last[-1], leaves)
            _fast.block_gradient(
                lo, hi, problem.parent, problem.pair_ptr, problem.pair_parent,
                problem.beta.of_nodes, t, problem.count, z_root, es, scratch, z,
                self._a, grad, a_root, e_root,
            )  # fmt: skip
            value += self._block_value(w, lo, hi, first, last)
        return value, float(a_root[0]), e_root

    def _block_value(self, w, lo, hi, first, last):
        leaves = slice(lo[-1], hi[-1])
        value = _fast.dot(self.problem.node_weight[leaves], np.log(self._z[leaves]))
        for k in range(1, len(first)):
            value -= self._linear(w, k, first[k], last[k])
        return value

    def value(self, w: np.ndarray) -> float:
        """f(w) alone, at about half the cost."""
        return self.value_and_scores(w)[0]

    def value_and_scores(self, w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """f(w), exp(score) of every pair and Z of every node (views, reused)."""
        problem = self.problem
        w = self._whole(w)
        es, z = self._es, self._z
        _, z_root = self._root(w)

        def run(shard):
            value = 0.0
            for (lo, hi), (first, last) in zip(*shard):
                for k in range(1, problem.n_levels):
                    self._exp(w, k, first[k], last[k], es[first[k] : last[k]])
                _fast.block_normalisers(
                    lo, hi, problem.parent, problem.pair_ptr, problem.pair_parent,
                    z_root, es, z,
                )  # fmt: skip
                value += self._block_value(w, lo, hi, first, last)
            return value

        shards = list(zip(problem.node_blocks, problem.pair_blocks))
        value = sum(problem.map(run, shards)) + self._inner_value()
        return problem.pairs.total(value) + self._root_value(w), es, z

    def backoff(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ln P of the pairs and ln back-off of the nodes of the model with weights w.

        On the trie, where a context without a pair for y has its parent's score:
        P(y | n) = exp s(n, y) / Z(n) and the back-off is Z(parent(n)) / Z(n).
        """
        problem = self.problem
        _, es, z = self.value_and_scores(w)
        log_z = np.log(z)
        log_prob = np.log(es) - np.repeat(log_z, np.diff(problem.pair_ptr))
        log_backoff = np.zeros(problem.n_nodes)
        log_backoff[1:] = log_z[problem.parent[1:]] - log_z[1:]
        return log_prob, log_backoff
