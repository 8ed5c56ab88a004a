"""Models of some of the pairs of another: normalised by their back-off weights.

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

# The parent's mass on the classes without a pair is one minus a sum; a difference below
# this has lost digits, and the mass is summed instead.
_SMALL = 1e-2
# Largest difference of natural logarithms by rounding, relative above 1.
_SAME = 1e-12


def next_contexts(pairs: Pairs, labels: Labels) -> np.ndarray:
    """The context "h y" of each pair (h, y) of a trie.

    The root where it is not in the tree, -1 where it is not known: labels without
    symbols know none.
    """
    tree = pairs.tree
    if tree.n_nodes == 1 or labels.symbols is None:
        return np.full(pairs.n_pairs, -1, dtype=np.int32)
    link, class_of_symbol = drop_newest(tree), labels.class_of_symbol
    return extend_pairs(tree, link, pairs.ptr, pairs.target, class_of_symbol)[0]


def selected_nodes(pairs: Pairs, keep: np.ndarray) -> np.ndarray:
    """The number of each node after ``pairs.select(keep)``, -1 for a node that goes."""
    alive = np.zeros(pairs.tree.n_nodes, dtype=bool)
    alive[pairs.nodes()[keep]] = True
    return pairs.tree.select(alive)[1]


class Masses:
    """Probabilities of the pairs below the root, and the mass left by each context."""

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
    """The parent's mass on the classes without a pair at a node, of the given nodes.

    0 for the root, nodes with every class, and nodes that are not asked for. The
    back-off weights of the model are read at ancestors of `nodes` only.

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

    Those of the root stay, whatever `keep` says.
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
    # Rows may miss the sum 1 a little; they sum to it afterwards.
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
    """The model with the back-off weights by which every row sums to 1.

    log_left: logarithm of one minus the sum of a context's probabilities; the root's is
    not used.
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
        # The parent has no mass on other classes: the pairs share all.
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
    """The same distribution without the n-grams that backing off gives.

    A pair of weight 0 has the probability of backing off, so that it can go, unless its
    n-gram is the beginning of one that stays, or the end. A context goes with the last
    of its pairs, if its back-off weight is 1. `zero_weight` of the model names the
    candidates; with a prior the weight of 0 keeps the number of the prior, so each is
    compared. The model itself if every pair stays.
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
    alive[0] = False  # where "h y" is not a context, `ahead` is the root
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
