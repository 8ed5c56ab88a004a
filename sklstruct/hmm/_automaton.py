"""From a back-off model to the automaton that the solvers walk on.

This is the only file of the package that reads a `BackoffModel`. A state is a stored
context; an arc is a stored n-gram "c y" and leads to the longest context that is
a suffix of it; the failure arc of a state is its parent (the context without its
oldest symbol) at the price of the back-off weight.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..backoff import BackoffModel
from . import _automaton_fast as _fast


class _Tables:
    """What the solvers need of a BackoffModel, as plain arrays."""

    def __init__(self, model: BackoffModel, weight: float):
        labels = model.labels
        self.parent, self.symbol = model.tree.parent, model.tree.symbol
        self.arc_ptr = model.pairs.ptr.astype(np.int64)
        self.arc_class = model.pairs.target
        self.arc_log_prob = model.log_prob * weight
        self.backoff = model.log_backoff * weight
        self.classes = labels.classes
        labels.known_symbols("model")
        self.symbol_of_class = labels.symbol_of_class
        self.class_of_symbol = labels.class_of_symbol
        self.start_symbol = labels.start_id
        self.end_class = labels.end_id
        self.unknown_class = labels.unknown_id


def _children(parent, symbol):
    """(child_ptr, child_node, child_symbol): children of each node by symbol."""
    n = len(parent)
    order = np.lexsort((symbol[1:], parent[1:])) + 1
    ptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(parent[1:], minlength=n), out=ptr[1:])
    node = order.astype(np.int32)
    if node.size == 0:  # the kernels want an address
        node = np.full(1, -1, dtype=np.int32)
        return ptr, node, node.copy()
    return ptr, node, np.ascontiguousarray(symbol[node])


def _add_prefixes(t):
    """Store every context that is a stored context without its newest symbols.

    Trained models have them all; pruned ones and files may not. Such a context has no
    pairs and a back-off weight of 1, so no probability changes.
    """
    while True:
        n = len(t.parent)
        t.children = _children(t.parent, t.symbol)
        t.newest = np.empty(n, dtype=np.int32)
        t.prefix = np.empty(n, dtype=np.int32)
        _fast.link_prefixes(t.parent, t.symbol, *t.children, t.newest, t.prefix)
        missing = np.flatnonzero(t.prefix[1:] < 0) + 1
        if missing.size == 0:
            return
        # One level a round, from the shortest: where the prefix of the parent is
        # there, the new context is its child.
        up = t.prefix[t.parent[missing]]
        ready = up >= 0
        pairs = np.unique(np.stack([up[ready], t.symbol[missing[ready]]]), axis=1)
        t.parent = np.concatenate([t.parent, pairs[0].astype(np.int32)])
        t.symbol = np.concatenate([t.symbol, pairs[1].astype(np.int32)])
        added = pairs.shape[1]
        t.backoff = np.concatenate([t.backoff, np.zeros(added)])
        t.arc_ptr = np.concatenate([t.arc_ptr, np.repeat(t.arc_ptr[-1:], added)])


def _find_arcs(t, node, y):
    out = np.empty(len(node), dtype=np.int64)
    _fast.find_arcs(
        t.arc_ptr,
        t.arc_class,
        np.ascontiguousarray(node, dtype=np.int32),
        np.ascontiguousarray(y, dtype=np.int32),
        out,
    )
    return out


def _backed_off(t, node, y):
    """log P(y | node) for few pairs."""
    node, total = node.copy(), np.zeros(len(node))
    while True:
        arc = _find_arcs(t, node, y)
        gone = arc < 0
        if not gone.any():
            return total + t.arc_log_prob[arc]
        total[gone] += t.backoff[node[gone]]
        node[gone] = t.parent[node[gone]]


def _add_arcs(t):
    """Store the arc that leads to each context, and each arc's next shorter one.

    A missing arc gets the probability that backing off gives it.
    """
    while True:
        owner = np.repeat(np.arange(len(t.parent), dtype=np.int32), np.diff(t.arc_ptr))
        newest = t.class_of_symbol[t.newest[1:]] if len(t.parent) > 1 else t.newest[1:]
        node = np.concatenate([t.prefix[1:], t.parent[owner]])
        y = np.concatenate([newest, t.arc_class])
        wanted = (node >= 0) & (y >= 0)
        node, y = node[wanted], y[wanted]
        missing = _find_arcs(t, node, y) < 0
        if not missing.any():
            t.owner = owner
            return
        node, y = np.unique(np.stack([node[missing], y[missing]]), axis=1)
        log_prob = _backed_off(t, node, y)
        owner = np.concatenate([owner, node])
        arc_class = np.concatenate([t.arc_class, y]).astype(np.int32)
        order = np.lexsort((arc_class, owner))
        t.arc_class = arc_class[order]
        t.arc_log_prob = np.concatenate([t.arc_log_prob, log_prob])[order]
        t.arc_ptr = np.zeros(len(t.parent) + 1, dtype=np.int64)
        np.cumsum(np.bincount(owner, minlength=len(t.parent)), out=t.arc_ptr[1:])


class ContextAutomaton:
    r"""The deterministic automaton of a back-off model, with max-backoff bounds.

    State = stored context; the arc of class y from context c has log-probability
    :math:`\log P(y \mid c)` and leads to the longest stored suffix of "c y".

    Parameters
    ----------
    model : BackoffModel
        Over a trie, with known context symbols.

    weight : float, default=1
        Power of all probabilities, above 0: one of every stored probability and
        back-off weight is one of their products.

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

    start_node, start_symbol, end_class, unknown_class : int
        -1 where the model has no such mark (`start_node`: 0, the root).
    """

    def __init__(self, model: BackoffModel, weight: float = 1.0):
        self.weight = weight
        t = _Tables(model, weight)
        _add_prefixes(t)
        _add_arcs(t)
        self.parent, self.symbol = t.parent, t.symbol
        self.backoff = t.backoff
        self.arc_ptr, self.arc_class = t.arc_ptr, t.arc_class
        self.arc_log_prob = t.arc_log_prob
        self.children = t.children
        self.classes = t.classes
        self.symbol_of_class = t.symbol_of_class
        self.start_symbol = t.start_symbol
        self.end_class = t.end_class
        self.unknown_class = t.unknown_class
        self.n_nodes, self.n_classes = len(t.parent), len(t.classes)
        self.depth = self._depths()
        self.max_depth = int(self.depth.max())
        newest = np.full(self.n_nodes, -1, dtype=np.int32)
        if self.n_nodes > 1:
            newest[1:] = t.class_of_symbol[t.newest[1:]]
        arc_of_node = _find_arcs(t, t.prefix, newest)
        self.arc_next = np.empty(len(t.arc_class), dtype=np.int32)
        _fast.link_arcs(t.parent, t.arc_ptr, t.arc_class, arc_of_node, self.arc_next)
        self.start_node = 0
        if t.start_symbol >= 0:
            first = self.children[2][: self.children[0][1]]
            at = int(np.searchsorted(first, t.start_symbol))
            if at < len(first) and first[at] == t.start_symbol:
                self.start_node = int(self.children[1][at])
        self._set_bounds()

    def _depths(self):
        depth = np.zeros(self.n_nodes, dtype=np.int32)
        # Numbers rise with the length of the context, so a few rounds settle it.
        level = np.array([0])
        ptr, node, _ = self.children
        while level.size:
            sizes = ptr[level + 1] - ptr[level]
            starts = np.repeat(ptr[level] - np.cumsum(sizes) + sizes, sizes)
            below = node[starts + np.arange(sizes.sum())]
            depth[below] = depth[level[0]] + 1
            level = below
        return depth

    def _set_bounds(self):
        # A history is a string of classes other than the end, after the start mark.
        words = (
            np.delete(np.arange(self.n_classes), self.end_class)
            if (self.end_class >= 0)
            else np.arange(self.n_classes)
        )
        symbols = self.symbol_of_class[words]
        possible = np.zeros(
            max(
                int(self.symbol.max()),
                int(symbols.max(initial=-1)),
                self.start_symbol,
                0,
            )
            + 1,
            dtype=bool,
        )
        possible[symbols[symbols >= 0]] = True
        whole = bool((symbols >= 0).all()) and self.start_symbol >= 0
        if self.start_symbol >= 0:
            possible[self.start_symbol] = True
        extends = np.zeros(self.n_nodes, dtype=np.uint8)
        extends[1:] = possible[self.symbol[1:]]
        if self.start_symbol >= 0:  # nothing stands before a start
            extends[1:][self.symbol[self.parent[1:]] == self.start_symbol] = 0
        n_longer = np.bincount(self.parent[1:][extends[1:] > 0], minlength=self.n_nodes)
        complete = (n_longer == possible.sum()) & whole
        self.arc_max = np.empty(len(self.arc_class))
        self.max_backoff = np.empty(self.n_nodes)
        _fast.max_backoff(
            self.parent, self.backoff, self.arc_ptr, self.arc_class,
            self.arc_log_prob, self.children[0], self.children[1], extends,
            complete.view(np.uint8), self.arc_max, self.max_backoff,
        )  # fmt: skip

    @cached_property
    def arcs(self) -> _fast.Arcs:
        """The arrays as the kernels take them."""
        return _fast.Arcs(
            self.parent, self.depth, self.backoff, self.arc_ptr, self.arc_class,
            self.arc_log_prob, self.arc_next, self.children, self.symbol_of_class,
            (self.arc_max, self.max_backoff), self.start_node, self.start_symbol,
            self.max_depth,
        )  # fmt: skip

    @cached_property
    def log_range(self) -> float:
        """Largest minus smallest log-weight; infinite where there are zeros."""
        both = np.concatenate([self.arc_log_prob, self.backoff])
        return float(both.max() - both.min())

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("arcs", None)
        return state
