"""Several context trees in one softmax: the fitted state, and what is minimised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import CheckedState, as_ids, check_ids, check_length
from .._parallel import row_blocks, serial_map
from ..backoff import Distribution, Model, Path, single_precision
from ..context_tree import ContextTree, Pairs
from ..context_tree._tree import check_size, pointers
from . import _joint_fast as _fast
from ._joint_fast import Joint
from ._penalties import conjugate_of_squares
from ._problem import THREAD_PAIRS, Map, pull

# Scores per kernel call (Ctrl-C is handled between calls), and the number of calls
# whose scores are stored at a time, which does not depend on the number of threads.
_SCORES, _AT_A_TIME = 1 << 20, 4


class JointTrees(CheckedState, Distribution):
    """The fitted state: trees, one after the other, and weights on their pairs.

    The first tree keeps its root. `w` is float64 while it is fitted, float32 after
    `finish`.

    weight: of the training samples at or below each node of the first tree. beta:
    weight of the features of each depth.
    """

    def __init__(
        self,
        trees: list[ContextTree],
        pairs: list[Pairs],
        weight: np.ndarray,
        beta: np.ndarray,
    ) -> None:
        self.trees = trees
        self.n_classes = pairs[0].n_classes
        # Only the first tree has gate features: each further tree adds some twenty
        # columns to a gate, for little gain.
        self.gate_depths = (trees[0].max_depth,)
        self.first = np.cumsum([0] + [tree.n_nodes for tree in trees])
        self.parent = _parents(trees, self.first)
        sizes, target = [], []
        for t, here in enumerate(pairs):
            n_pairs = np.diff(here.ptr)
            kept = here.target
            if t:
                # No path leads to the other roots.
                kept, n_pairs[0] = kept[here.ptr[1] :], 0
            sizes.append(n_pairs)
            target.append(kept)
        self.pair_class = np.concatenate(target)
        check_size(self.pair_class.size, "(context, class) pairs")
        self.ptr = pointers(np.concatenate(sizes))
        self.beta = beta
        self.node_weight = single_precision(weight)
        self.w = np.zeros(self.pair_class.size)

    def finish(self, w: np.ndarray) -> None:
        """Set the fitted weights, in single precision; pairs of weight 0 are left out.

        The softmax of rounded weights is exact as well: rows sum to 1.
        """
        kept = np.concatenate([[0], np.cumsum(w != 0.0)])
        self.ptr = kept[self.ptr].astype(np.int32)
        self.pair_class = self.pair_class[w != 0.0]
        self.w = w[w != 0.0].astype(np.float32)

    def __getstate__(self) -> dict[str, Any]:
        # Most of a model are small numbers per node and per pair, stored in few bytes.
        state = {"n_pairs": _narrow(np.diff(self.ptr))}
        for name, value in vars(self).items():
            if name not in ("parent", "ptr"):
                state[name] = _narrow(value) if name == "pair_class" else value
        return state

    def _check_arrays(self) -> None:
        n_nodes = [tree.n_nodes for tree in self.trees]
        n, first = sum(n_nodes), as_ids("first", self.first, 1, np.int64)
        if not np.array_equal(first, np.cumsum([0, *n_nodes])):
            raise ValueError("first of the pickled model is not that of its trees")
        self.parent = _parents(self.trees, self.first)
        n_pairs = as_ids("n_pairs", vars(self).pop("n_pairs"), 1)
        check_length("n_pairs", n_pairs, n, "of the nodes of all trees")
        self.pair_class = as_ids("pair_class", self.pair_class, 1)
        if n_pairs.min() < 0 or n_pairs.sum(dtype=np.int64) != self.pair_class.size:
            raise ValueError("n_pairs of the pickled model do not sum to its pairs")
        self.ptr = pointers(n_pairs)
        check_ids("pair_class", self.pair_class, 0, self.n_classes, "class")
        check_length("w", self.w, self.pair_class.size, "one per pair")
        deepest = max(tree.n_levels for tree in self.trees)
        if self.w.dtype != np.float32 or self.beta.size < deepest:
            raise ValueError("w or beta of the pickled model is not that of its trees")
        check_length("node_weight", self.node_weight, n_nodes[0], "of the first tree")

    def locate(self, contexts: tuple[NDArray, ...] | NDArray) -> NDArray:
        """(n_samples, n_trees) int32 deepest nodes of windows, a matrix for each tree;
        -1 for an empty path. An array is such nodes already."""
        if isinstance(contexts, np.ndarray):
            return contexts
        found = [tree.find_windows(ids) for tree, ids in zip(self.trees, contexts)]
        return self.places(found)

    def places(self, found: list[NDArray]) -> NDArray:
        """As `locate`, of the node of each context in its tree."""
        nodes = np.empty((found[0].size, len(found)), dtype=np.int32)
        for t, node in enumerate(found):
            nodes[:, t] = node + self.first[t]
            if t:
                nodes[node == 0, t] = -1
        return nodes

    def weighted_log_totals(
        self, nodes: np.ndarray, weight: np.ndarray, parallel: Map = serial_map
    ) -> tuple[float, np.ndarray]:
        """(sum of `log_totals` times a weight, its gradient)."""
        gradient, log_total = np.zeros(self.w.size), np.empty(weight.size)

        def slopes(part):
            at = nodes[part]
            score = np.empty((len(at), self.n_classes))
            # Gradients are sums over the samples of a context, in their order.
            orders = self._orders(at, "stable")
            self._add_scores(at, orders, score)
            _fast.weighted_softmax(score, weight[part], log_total[part])
            return at, orders, score

        blocks = self._score_blocks(weight.size)
        for first in range(0, len(blocks), _AT_A_TIME):
            made = parallel(slopes, blocks[first : first + _AT_A_TIME])

            def add(t, made=made):
                path, rows = self._scratch()
                for at, orders, score in made:
                    _fast.add_slopes(
                        np.ascontiguousarray(at[:, t]), orders[t], t == 0, self.parent,
                        self.ptr, self.pair_class, self.beta, path, rows, score,
                        gradient,
                    )  # fmt: skip

            # Trees have other pairs.
            parallel(add, range(len(self.trees)))
        return float(weight @ log_total), gradient

    def compiled(self, source: Any) -> Model:
        """As `Distribution.compiled`; contexts may also be read along the `Path` of
        each tree, in a tuple."""
        if not isinstance(source, tuple):
            return super().compiled(source)
        paths = [
            path
            if isinstance(path, Path)
            else Path(tree.max_depth, tree.n_symbols, windows=path)
            for tree, path in zip(self.trees, source)
        ]
        return Joint(self, paths)

    def as_tokens(self, at: NDArray) -> tuple[Model, NDArray, NDArray]:
        """As `Distribution.as_tokens`."""
        n, n_trees = at.shape
        nodes = np.ascontiguousarray(at, dtype=np.int32).ravel()
        return Joint(self), nodes, np.arange(1, n + 1) * n_trees

    def log_totals(self, at: NDArray, parallel: Map = serial_map) -> NDArray:
        """(n,) ln of the sums over all classes of the exponentials of the scores."""
        out = np.empty(at.shape[0])

        def add(part):
            score = np.empty((at[part].shape[0], self.n_classes))
            self._add_scores(at[part], self._orders(at[part]), score)
            _fast.weighted_softmax(score, np.ones(len(score)), out[part])

        parallel(add, self._score_blocks(at.shape[0]))
        return out

    def _score_blocks(self, n_rows):
        return row_blocks(n_rows, max(1, _SCORES // self.n_classes))

    def _orders(self, at, kind=None):
        """Of each tree, the order of the samples by their nodes: contexts of one length
        are numbered in the order of those above them."""
        return [np.argsort(at[:, t], kind=kind) for t in range(len(self.trees))]

    def _scratch(self):
        path = np.full(self.beta.size, -1, dtype=np.int32)
        return path, np.empty((self.beta.size, self.n_classes))

    def _add_scores(self, at, orders, score):
        path, rows = self._scratch()
        for t, order in enumerate(orders):
            _fast.add_scores(
                np.ascontiguousarray(at[:, t]), order, t == 0, self.parent, self.ptr,
                self.pair_class, self.beta, self.w, path, rows, score,
            )  # fmt: skip


class OutcomeRows(NamedTuple):
    """Samples whose contexts are the same in all trees, as one row of outcomes.

    Row i was followed by outcome[ptr[i]] ..., each of them once, of these weights.
    """

    ptr: np.ndarray
    outcome: np.ndarray
    weight: np.ndarray


class JointObjective:
    r"""The penalised loss of the joint model in double precision.

    .. math::
        \sum_r \omega_r \ln Z_r(w) - \sum_p c_p \beta_p w_p + \frac{\lambda}{2} |w|^2

    over the rows r of samples with the same contexts and the pairs p, of count c. The
    weights of the trees change.

    nodes: the deepest node of each row; see `JointTrees.locate`.
    samples: the outcomes of each row.
    own: the pairs of each tree that the joint model has.
    counts: of the pairs of each tree.
    parallel: None: one thread. Results are the same.
    """

    def __init__(
        self,
        joint: JointTrees,
        nodes: np.ndarray,
        samples: OutcomeRows,
        own: list[slice],
        counts: Sequence[np.ndarray],
        lam: float,
        parallel: Map = serial_map,
    ) -> None:
        self.joint, self.nodes, self.own, self.counts = joint, nodes, own, counts
        self.samples = samples
        self.row_weight = np.add.reduceat(samples.weight, samples.ptr[:-1])
        self.lam = lam
        self.map = parallel if joint.w.size >= THREAD_PAIRS else serial_map

    def terminals(self) -> Iterator[np.ndarray]:
        """For each tree the node at which each row ends, int32, in its numbering."""
        for t, start in enumerate(self.joint.first[:-1]):
            yield np.maximum(self.nodes[:, t] - np.int32(start), np.int32(0))

    def joined(self, weights: Sequence[np.ndarray]) -> np.ndarray:
        """Weights of the pairs of the joint model, of those of each tree."""
        return np.concatenate([w[kept] for w, kept in zip(weights, self.own)])

    def value(self, weights: list[np.ndarray]) -> float:
        """The objective at the weights of each tree."""
        w = self.joint.w = self.joined(weights)
        value = float(self.row_weight @ self.joint.log_totals(self.nodes, self.map))
        value += 0.5 * self.lam * float(w @ w)
        for part, count, beta in self._levels():
            value -= beta * float(count @ w[part])
        # Free the copy of all weights, which is large, during the passes.
        self.joint.w = np.empty(0)
        return value

    def _levels(self):
        """Of each level of each tree: its pairs of the joint model, their counts, the
        weight of its features."""
        joint = self.joint
        for t, (tree, count) in enumerate(zip(joint.trees, self.counts)):
            start = joint.first[t]
            shift = joint.ptr[start] - (self.own[t].start or 0)
            for k, (a, z) in enumerate(pairwise(tree.level_ptr.tolist())):
                part = slice(joint.ptr[start + a], joint.ptr[start + z])
                here = slice(part.start - shift, part.stop - shift)
                yield part, count[here], joint.beta[k]

    def gap(self, w: np.ndarray, gradient: np.ndarray) -> float:
        """The duality gap at joined weights with this gradient; see `_gap`."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            gap = 0.5 * self.lam * float(w @ w)
            # Level by level, because temporary arrays of all pairs would set the peak
            # memory.
            for part, _, beta in self._levels():
                v = self.lam * w[part] - gradient[part]
                gap -= float(v @ w[part])
                v = pull(v, positive=True)
                gap += conjugate_of_squares(v, self.lam, np.asarray(beta))
        return max(gap, 0.0) if np.isfinite(gap) else np.inf

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray, float]:
        """(objective, gradient, optimality residual) at joined weights."""
        joint = self.joint
        joint.w = np.ascontiguousarray(w)
        loss, gradient = joint.weighted_log_totals(
            self.nodes, self.row_weight, self.map
        )
        squared = 0.0
        for part, count, beta in self._levels():
            here, slope = w[part], gradient[part]
            loss -= beta * float(count @ here)
            slope -= beta * count
            slope += self.lam * here
            # Root pairs of classes that never occur have no slope at weight 0.
            seen = count > 0
            slope[~seen] = 0.0
            slope = np.where(here > 0, slope, np.minimum(slope, 0.0))[seen]
            squared += float((slope**2 / count[seen]).sum())
        residual = (squared / float(self.row_weight.sum())) ** 0.5
        return loss + 0.5 * self.lam * float(w @ w), gradient, residual


def _parents(trees, first):
    """(n_nodes of all trees,) int32: -1 for roots and, but for the first tree, for the
    nodes below them."""
    parent = np.concatenate([tree.parent for tree in trees])
    for t, (a, z) in enumerate(pairwise(first.tolist())):
        up = parent[a:z]
        if t:
            up[up == 0] = -1
        up[up >= 0] += np.int32(a)
    return parent


def _narrow(values):
    """Non-negative integers in as few bytes as the largest of them needs."""
    return values.astype(np.min_scalar_type(values.max(initial=0)))
