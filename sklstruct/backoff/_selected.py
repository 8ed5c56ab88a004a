"""Models of some of the pairs of another model, normalised by the back-off weights.

A pair (h, y) is never removed while the context "h y" holds pairs, so that every
context of the result can be reached by reading its symbols, as in a file of n-grams.
"""

from __future__ import annotations

import numpy as np

from .._parallel import row_blocks, rows_per_block
from ..context_tree import Pairs, joined_ranges, pairs_of_arrays
from ..context_tree._links import drop_newest, extend_pairs
from ..symbols import Labels
from ._model import BackoffModel, check_model

# The parent's mass on the classes without a pair is computed as one minus a sum. A
# difference below this is inaccurate, and the mass is summed instead.
_SMALL = 1e-2
# Largest difference of natural logarithms by rounding; relative for logarithms above 1.
_SAME = 1e-12


def next_contexts(pairs: Pairs, labels: Labels) -> np.ndarray:
    """The context "h y" of each pair (h, y) of a trie.

    The root if the tree lacks the context; -1 if the contexts are not known, because
    the labels have no symbols.
    """
    tree = pairs.tree
    if tree.n_nodes == 1 or labels.symbols is None:
        return np.full(pairs.n_pairs, -1, dtype=np.int32)
    link, class_of_symbol = drop_newest(tree), labels.class_of_symbol
    return extend_pairs(tree, link, pairs.ptr, pairs.target, class_of_symbol)[0]


def selected_nodes(pairs: Pairs, keep: np.ndarray) -> np.ndarray:
    """The number of each node after ``pairs.select(keep)``, -1 for a removed node."""
    alive = np.zeros(pairs.tree.n_nodes, dtype=bool)
    alive[pairs.nodes()[keep]] = True
    return pairs.tree.select(alive)[1]


class Masses:
    """Probabilities of the pairs below the root, and the back-off mass of each
    context."""

    def __init__(self, model: BackoffModel):
        pairs, n_classes = model.pairs, model.n_classes
        self.node = pairs.nodes()[n_classes:]
        self.log_prob = model.log_prob[n_classes:]
        above = model.tree.parent[self.node]
        self.log_low = model.target(above, pairs.target[n_classes:])
        self.prob, self.low = np.exp(self.log_prob), np.exp(self.log_low)
        self.free = free_mass(
            model, self.low, np.arange(1, model.n_nodes, dtype=np.int32)
        )
        # The mass of each context for the classes that it has no pair for.
        self.left = np.exp(model.log_backoff) * self.free


def free_mass(model: BackoffModel, low: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """The parent's mass on the classes without a pair at a node, for the given nodes.

    0 for the root, nodes with a pair for every class, and nodes that are not given.
    Back-off weights are read only at ancestors of `nodes`.

    low: P(y | parent(n)) of the pairs (n, y) below the root. nodes: rising, without the
    root.
    """
    pairs, n_classes = model.pairs, model.n_classes
    sizes = np.diff(pairs.ptr)
    padded = np.concatenate([np.zeros(n_classes), low])
    free = np.zeros(model.n_nodes)
    free[nodes] = 1.0 - pairs.node_sums(padded)[nodes]
    full = sizes == n_classes
    free[full] = 0.0
    small = nodes[(free[nodes] < _SMALL) & ~full[nodes] & (sizes[nodes] > 0)]
    for rows in row_blocks(small.size, rows_per_block(n_classes)):
        some = small[rows]
        row = np.exp(model.rows(model.tree.parent[some]))
        own = joined_ranges(pairs.ptr[some], sizes[some])
        row[np.repeat(np.arange(some.size), sizes[some]), pairs.target[own]] = 0.0
        free[some] = row.sum(axis=1)
    return free


def without_pairs(model: BackoffModel, keep: np.ndarray) -> BackoffModel:
    """The model of some of the pairs, normalised by its back-off weights.

    The pairs of the root always stay.
    """
    n_classes = model.n_classes
    m = Masses(model)

    def per_node(values):
        return model.pairs.node_sums(np.concatenate([np.zeros(n_classes), values]))

    gone = ~keep[n_classes:]
    left = m.left + per_node(np.where(gone, m.prob, 0.0))
    total = left + per_node(np.where(gone, 0.0, m.prob))
    pairs, kept = model.pairs.select(keep)
    old = np.flatnonzero(selected_nodes(model.pairs, keep) >= 0)
    # Rows may sum to slightly more or less than 1; the new rows sum to 1.
    with np.errstate(divide="ignore"):
        log_total = np.log(np.where(total > 0, total, 1.0))[old]
        log_left = np.log(left)[old] - log_total
    log_prob = model.log_prob[kept] - np.repeat(
        np.concatenate([[0.0], log_total[1:]]), np.diff(pairs.ptr)
    )
    log_prob[:n_classes] -= np.log(np.exp(log_prob[:n_classes]).sum())
    return renormalize(pairs, np.minimum(log_prob, 0.0), log_left, model.labels)


def renormalize(
    pairs: Pairs, log_prob: np.ndarray, log_left: np.ndarray, labels: Labels
) -> BackoffModel:
    """The model whose back-off weights make every row sum to 1.

    log_left: natural logarithm of one minus the sum of a context's probabilities; the
    value of the root is not used.
    """
    tree, n_classes = pairs.tree, pairs.n_classes
    log_prob = np.array(log_prob)
    log_backoff = np.zeros(tree.n_nodes)
    node = pairs.nodes()[n_classes:]
    target = pairs.target[n_classes:]
    low = np.zeros(node.size)
    for k in range(1, tree.n_levels):
        # A model of the levels above k, whose weights are known.
        known = BackoffModel(pairs, log_prob, log_backoff, labels)
        here = pairs.level(k)
        some = slice(here.start - n_classes, here.stop - n_classes)
        low[some] = np.exp(known.target(tree.parent[node[some]], target[some]))
        nodes = np.arange(tree.level(k).start, tree.level(k).stop, dtype=np.int32)
        free = free_mass(known, low, nodes)[nodes]
        left = log_left[nodes]
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = left - np.log(free)
        # The parent has no mass on the other classes: the pairs get the whole mass.
        stuck = free <= 0
        weight[stuck] = 0.0
        lost = stuck & (left > -np.inf)
        if lost.any():
            share = np.zeros(tree.n_nodes)
            share[nodes[lost]] = np.log1p(-np.exp(left[lost]))
            sizes = np.diff(pairs.ptr)[nodes]
            log_prob[here] -= np.repeat(share[nodes], sizes)
        log_backoff[nodes] = weight
    return BackoffModel(pairs, log_prob, log_backoff, labels)


def without_zero_weights(model: BackoffModel) -> BackoffModel:
    """The same distribution without the n-grams whose probability backing off gives.

    A pair of weight 0 has the backed-off probability, so it is removed, unless its
    n-gram is the beginning or the end of an n-gram that stays. A context is removed
    with the last of its pairs, if its back-off weight is 1. `zero_weight` of the model
    marks the candidates. With a prior, a pair of weight 0 has the probability of the
    prior, so the probability of each candidate is compared with backing off. If every
    pair stays, the model itself is returned.
    """
    check_model(model)
    if model.zero_weight is None or model.max_depth == 0:
        return model
    pairs, tree = model.pairs, model.tree
    some = np.flatnonzero(model.zero_weight[pairs.n_classes :]) + pairs.n_classes
    node = pairs.nodes()[some]
    low = model.target(tree.parent[node], pairs.target[some])
    with np.errstate(invalid="ignore"):  # -inf - -inf
        gap = np.abs(model.log_prob[some] - (low + model.log_backoff[node]))
    scale = _SAME * (1.0 + np.abs(low))
    keep = np.ones(pairs.n_pairs, dtype=bool)
    keep[some[(gap <= scale) & np.isfinite(low)]] = False
    alive = np.abs(model.log_backoff) > _SAME
    alive[0] = False  # `ahead` is the root if "h y" is not a context
    ahead = np.maximum(next_contexts(pairs, model.labels), 0)
    of_pair = pairs.nodes()
    for k in range(tree.n_levels - 1, 0, -1):
        here, nodes = pairs.level(k), tree.level(k)
        keep[here] |= alive[ahead[here]]
        kept = np.flatnonzero(keep[here]) + here.start
        shorter = pairs.parent[kept]
        keep[shorter[shorter >= 0]] = True
        alive[of_pair[kept]] = True
        alive[tree.parent[nodes][alive[nodes]]] = k > 1
    if keep.all():
        return model
    smaller, index = tree.select(alive)
    sizes = np.bincount(index[of_pair[keep]], minlength=smaller.n_nodes)
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    out = BackoffModel(
        pairs_of_arrays(smaller, ptr, pairs.target[keep]),
        model.log_prob[keep],
        model.log_backoff[index >= 0],
        model.labels,
    )
    if model.node_weight is not None:
        out.node_weight = np.asarray(model.node_weight)[index >= 0]
    return out
