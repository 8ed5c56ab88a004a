"""Conversion of a back-off model to the automaton that the solvers use.

A state is a stored context. An arc is a stored n-gram "c y" and leads to the longest
stored suffix of "c y". The failure arc of a state leads to its parent (the context
without its oldest symbol), and has the back-off weight.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..backoff import BackoffModel, ClosedModel, close_model
from ..context_tree import pairs_of_arrays
from ..symbols import need_symbols
from . import _automaton_fast as _fast


class ContextAutomaton:
    r"""The deterministic automaton of a back-off model, with max-backoff bounds.

    State = stored context; the arc of class y from context c has log-probability
    :math:`\log P(y \mid c)` and leads to the longest stored suffix of "c y".

    Parameters
    ----------
    model : BackoffModel
        A model over a trie, with known context symbols.

    weight : float, default=1
        Exponent of all probabilities, above 0. Raising every stored probability and
        back-off weight to this power raises their products to this power.

    Attributes
    ----------
    parent, symbol, depth : ndarray of shape (n_nodes,), int32
        Next shorter context, oldest symbol and length of each context.

    backoff : ndarray of shape (n_nodes,)
        Natural logarithm of the back-off weights.

    arc_ptr, arc_class, arc_log_prob, arc_next : ndarray
        The arcs of node n are ``arc_ptr[n]:arc_ptr[n + 1]``, sorted by class.

    arc_max : ndarray of shape (n_arcs,)
        :math:`\log \mathrm{mf}`: the largest log-probability of the arc's class over
        all histories that end in the arc's context.

    max_backoff : ndarray of shape (n_nodes,)
        :math:`\log \mathrm{mbow}`: the largest factor that a longer history can put
        in front of a probability that the context does not store.

    start_node, start_symbol, end_class : int
        -1 if the model does not have the mark (`start_node`: 0, the root).

    arcs : Arcs
        The arrays for the kernels.
    """

    def __init__(self, model: BackoffModel, weight: float = 1.0):
        labels = model.labels
        need_symbols(labels, "model")
        class_of_symbol = labels.class_of_symbol
        closed = close_model(model, class_of_symbol)
        tree = self.tree = closed.tree
        self.weight = weight
        self.backoff = closed.log_backoff * weight
        self.arc_ptr = closed.pair_ptr
        self.arc_class = closed.target
        self.arc_log_prob = closed.log_prob * weight
        self.symbol_of_class = labels.symbol_of_class
        self.start_symbol = labels.start_id
        self.end_class = labels.end_id
        self.n_nodes, self.n_classes = tree.n_nodes, len(labels.classes)
        self.depth, self.max_depth = tree.levels(), tree.n_levels - 1
        arc_parent = model.pairs.parent
        if closed.target is not model.pairs.target:
            arrays = closed.tree, closed.pair_ptr, closed.target
            arc_parent = pairs_of_arrays(*arrays).parent
        self.arc_next = closed.extension
        for k in range(tree.n_levels):
            first, last = closed.pair_ptr[tree.level_ptr[k : k + 2]]
            gone = first + np.flatnonzero(self.arc_next[first:last] == 0)
            self.arc_next[gone] = self.arc_next[arc_parent[gone]] if k else 0
        self.start_node = 0
        if self.start_symbol >= 0:
            self.start_node = max(int(tree.root_child[self.start_symbol]), 0)
        # A history is a string of classes other than the end, after the start mark.
        symbols = labels.symbol_of_class
        if self.end_class >= 0:
            symbols = np.delete(symbols, self.end_class)
        possible = np.zeros(model.n_symbols, dtype=bool)
        possible[symbols[symbols >= 0]] = True
        if self.start_symbol >= 0:
            possible[self.start_symbol] = True
        self.arc_max, self.max_backoff = max_backoffs(
            closed._replace(log_prob=self.arc_log_prob, log_backoff=self.backoff),
            arc_parent, possible, bool((symbols >= 0).all()), self.start_symbol,
        )  # fmt: skip
        self.arcs = _fast.Arcs(self)

    @cached_property
    def log_range(self) -> float:
        """Largest minus smallest log-weight; infinite if a probability is 0."""
        both = np.concatenate([self.arc_log_prob, self.backoff])
        return float(both.max() - both.min())


def max_backoffs(
    closed: ClosedModel,
    pair_parent: np.ndarray,
    possible: np.ndarray,
    whole: bool,
    start: int,
) -> tuple[np.ndarray, np.ndarray]:
    """(log mf of each pair, log mbow of each node): maxima over longer histories.

    pair_parent: the pair of the same class after the next shorter context; -1 at the
    root.
    possible: symbols that may occur in a history, including the start mark. whole:
    whether every word that may occur in a history is one of the symbols.
    start: symbol of the start mark, -1 without such a mark.
    """
    tree = closed.tree
    extends = np.zeros(tree.n_nodes, dtype=np.uint8)
    extends[1:] = possible[tree.symbol[1:]]
    if start >= 0:  # no symbol precedes the start mark
        extends[1:][tree.symbol[tree.parent[1:]] == start] = 0
    n_longer = np.bincount(tree.parent[1:][extends[1:] > 0], minlength=tree.n_nodes)
    complete = (n_longer == possible.sum()) & (whole and start >= 0)
    arc_max, node_max = np.empty(len(closed.target)), np.empty(tree.n_nodes)
    _fast.max_backoff(
        tree.child_ptr, closed.pair_ptr, closed.target,
        closed.log_prob, closed.log_backoff, pair_parent, extends,
        complete.view(np.uint8), arc_max, node_max,
    )  # fmt: skip
    return arc_max, node_max
