"""Closure of a model: add the context and the suffix of every n-gram.

A file of n-grams needs both: it has a line for the context of each n-gram and for the
n-gram without its oldest symbol. An automaton also needs both: its arc (h, y) leads to
the context "h y" or to the longest suffix of "h y" that is a context.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..context_tree import ContextTree, find_pairs, pairs_of_arrays
from ..context_tree._links import (
    close_links,
    drop_newest,
    extend_pairs,
    newest_symbols,
    pair_pointers,
)
from ._model import BackoffModel

_LN10 = np.log(10.0)


class ClosedModel(NamedTuple):
    """Arrays of a model in which no context or suffix of an n-gram is missing."""

    tree: ContextTree
    pair_ptr: np.ndarray  # (n_nodes + 1,) int32
    target: np.ndarray  # (n_pairs,) int32
    log_prob: np.ndarray  # (n_pairs,)
    log_backoff: np.ndarray  # (n_nodes,)
    link: np.ndarray  # (n_nodes,) int32: the context without its newest symbol
    extension: np.ndarray  # (n_pairs,) int32: the node "h y" of (h, y), 0: no node
    marks: np.ndarray | None = None  # see `suffixes`
    file_ngrams: tuple[np.ndarray, np.ndarray] | None = None  # nodes of this tree

    def suffixes(self) -> np.ndarray:
        """(n_pairs,) uint8: 1 for each pair (h', y) of a pair (h, y), h' a suffix."""
        if self.marks is not None:
            return self.marks
        return _marks(self.tree, self.pair_ptr, self.target)[0]


def _marks(tree, pair_ptr, target):
    """`ClosedModel.suffixes`, and how many pairs below the root lack their suffix."""
    parent = pairs_of_arrays(tree, pair_ptr, target).parent
    found = parent[parent >= 0]
    marks = np.zeros(target.size, dtype=np.uint8)
    marks[found] = 1
    return marks, target.size - pair_ptr[1] - found.size


def close_model(
    model: BackoffModel, class_of_symbol: np.ndarray, single: bool = False
) -> ClosedModel:
    """Add the missing contexts and suffixes; the distribution stays the same.

    Additional nodes have a back-off weight of 1 and no pairs; additional pairs have the
    probability that backing off gives. Nodes keep their order. Models estimated from
    sentences are already closed; the cost is then one look-up per node and a pass over
    the pairs.

    class_of_symbol: -1 for a symbol that is not a class. single: the probability of an
    additional pair is the sum of log10 values in single precision, the shortest context
    first, as KenLM computes it.
    """
    pairs = model.pairs
    link = drop_newest(model.tree)
    tree, index = close_links(model.tree, link)
    if tree is not model.tree:
        link = drop_newest(tree)
    n_nodes, n_classes = tree.n_nodes, model.n_classes
    pair_ptr, target, log_prob = pairs.ptr, pairs.target, model.log_prob
    file_ngrams = model.file_ngrams
    if tree is model.tree:
        # No context is missing. Check the pairs (h, y) of nodes "h y", and of suffixes
        # of h.
        extension, missing = extend_pairs(tree, link, pair_ptr, target, class_of_symbol)
        if missing == 0:
            marks, missing = _marks(tree, pair_ptr, target)
        if missing == 0:
            return ClosedModel(
                tree, pair_ptr, target, log_prob, model.log_backoff, link, extension,
                marks, file_ngrams,
            )  # fmt: skip
    # Nodes keep their order, so the pairs stay sorted.
    node_of_pair = np.repeat(index, np.diff(pair_ptr))
    pair_ptr = pair_pointers(node_of_pair, n_nodes)
    log_backoff = np.zeros(n_nodes)
    log_backoff[index] = model.log_backoff
    if file_ngrams is not None:
        file_ngrams = index[file_ngrams[0]], file_ngrams[1]

    # Nodes "h w" need the pair (h, w), if w is a class; pairs (h, w) need (h', w).
    last = class_of_symbol[newest_symbols(tree)[1:]]
    below = slice(n_classes, None)
    chosen = last >= 0
    nodes = np.concatenate([link[1:][chosen], tree.parent[node_of_pair[below]]])
    targets = np.concatenate([last[chosen], target[below]])
    added = []
    while len(nodes):
        lacks = find_pairs(pair_ptr, target, nodes, targets) < 0
        key = np.unique(nodes[lacks].astype(np.int64) * n_classes + targets[lacks])
        added.append(key)
        nodes = tree.parent[key // n_classes]
        targets = (key % n_classes).astype(np.int32)
    key = np.unique(np.concatenate(added)) if added else np.empty(0, dtype=np.int64)
    if len(key):
        nodes = (key // n_classes).astype(np.int32)
        targets = (key % n_classes).astype(np.int32)
        # Backing off from an additional node ends at the nearest node of the model.
        nearest = np.full(n_nodes, -1, dtype=np.int32)
        nearest[index] = np.arange(model.n_nodes, dtype=np.int32)
        nearest = tree.nearest(nearest)
        at = np.searchsorted(node_of_pair.astype(np.int64) * n_classes + target, key)
        node_of_pair = np.insert(node_of_pair, at, nodes)
        log_prob = np.insert(log_prob, at, model.target(nearest[nodes], targets))
        target = np.insert(target, at, targets)
        pair_ptr = pair_pointers(node_of_pair, n_nodes)
        if single:
            new = at + np.arange(at.size)
            _add_up_in_single(tree, pair_ptr, target, log_prob, log_backoff, new, nodes)
    extension, _ = extend_pairs(tree, link, pair_ptr, target, class_of_symbol)
    return ClosedModel(
        tree, pair_ptr, target, log_prob, log_backoff, link, extension,
        file_ngrams=file_ngrams,
    )  # fmt: skip


def with_all_contexts(model: BackoffModel) -> tuple[BackoffModel, np.ndarray]:
    """The closure as a model, in which a cursor reaches every context.

    Also return the new number of each pair of the model. If the labels of the model
    have no symbols, nothing is added.
    """
    pairs = model.pairs
    if model.labels.symbols is None:
        return model, np.arange(pairs.n_pairs, dtype=np.int32)
    closed = close_model(model, model.labels.class_of_symbol)
    more = pairs_of_arrays(closed.tree, closed.pair_ptr, closed.target)
    node = closed.tree.find_windows(model.tree.windows())
    new_index = more.find(node[pairs.nodes()], pairs.target)
    out = BackoffModel(more, closed.log_prob, closed.log_backoff, model.labels)
    return out, new_index


def _add_up_in_single(tree, pair_ptr, target, log_prob, log_backoff, new, nodes):
    """Set log_prob of the pairs `new` of `nodes` by sums of single precision.

    P(y | h) = b(h) P(y | h'), and the pair of h' exists: one sum for each pair, shorter
    contexts first.
    """
    above = find_pairs(pair_ptr, target, tree.parent[nodes], target[new])
    level = np.searchsorted(tree.level_ptr, nodes, side="right")
    for k in np.unique(level):
        here = level == k
        total = single_log10(log_prob[above[here]])
        total += single_log10(log_backoff[nodes[here]])
        log_prob[new[here]] = total.astype(np.float64) * _LN10


def single_log10(log: np.ndarray) -> np.ndarray:
    """log10 in single precision of natural logarithms."""
    with np.errstate(over="ignore"):  # values out of range are -inf, as in KenLM
        return (log / _LN10).astype(np.float32)
