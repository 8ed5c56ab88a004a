"""The arcs of a back-off model, their links, and the bounds over longer contexts.

link_prefixes: c v with v the newest symbol -> c, one binary search a context.
link_arcs: the longest context that is a suffix of "c y", for every arc (c, y): the
context "c y" itself, else what the next shorter context's arc leads to. One
binary search an arc, and one more for each back-off.
max_backoff: the two columns of MAX-ARPA, from the longest contexts down to the root,
O(arcs log arcs of a context).
"""

from libc.math cimport INFINITY
from libc.stdlib cimport qsort


cdef class Arcs:
    """A bundle of checked arrays that the kernels of this package read."""

    def __init__(
        self, const int[::1] parent, const int[::1] depth, const double[::1] backoff,
        const long long[::1] arc_ptr, const int[::1] arc_class,
        const double[::1] arc_log_prob, const int[::1] arc_next, children,
        const int[::1] symbol_of_class, bounds, int start_node, int start_symbol,
        int max_depth,
    ):
        cdef const long long[::1] child_ptr = children[0]
        cdef const int[::1] child_node = children[1]
        cdef const int[::1] child_symbol = children[2]
        cdef const double[::1] arc_max = bounds[0]
        cdef const double[::1] max_backoff = bounds[1]
        self._owners = (
            parent, depth, backoff, arc_ptr, arc_class, arc_log_prob, arc_next,
            child_ptr, child_node, child_symbol, symbol_of_class, arc_max, max_backoff,
        )
        self.c.n_nodes = <int>parent.shape[0]
        self.c.n_classes = <int>symbol_of_class.shape[0]
        self.c.max_depth = max_depth
        self.c.parent = &parent[0]
        self.c.depth = &depth[0]
        self.c.backoff = &backoff[0]
        self.c.arc_ptr = &arc_ptr[0]
        self.c.arc_class = &arc_class[0]
        self.c.arc_log_prob = &arc_log_prob[0]
        self.c.arc_next = &arc_next[0]
        self.c.child_ptr = &child_ptr[0]
        self.c.child_node = &child_node[0]
        self.c.child_symbol = &child_symbol[0]
        self.c.symbol_of_class = &symbol_of_class[0]
        self.c.arc_max = &arc_max[0]
        self.c.max_backoff = &max_backoff[0]
        self.c.start_node = start_node
        self.c.start_symbol = start_symbol


cdef inline int child_of(
    const long long[::1] child_ptr, const int[::1] child_node,
    const int[::1] child_symbol, int node, int s,
) noexcept nogil:
    cdef long long base = child_ptr[node]
    cdef long long length = child_ptr[node + 1] - base
    cdef long long half
    if length == 0:
        return -1
    while length > 1:
        half = length >> 1
        base += half if child_symbol[base + half] <= s else 0
        length -= half
    return child_node[base] if child_symbol[base] == s else -1


cdef inline long long arc_of(
    const long long[::1] arc_ptr, const int[::1] arc_class, int node, int y
) noexcept nogil:
    cdef long long base = arc_ptr[node]
    cdef long long length = arc_ptr[node + 1] - base
    cdef long long half
    if length == 0:
        return -1
    while length > 1:
        half = length >> 1
        base += half if arc_class[base + half] <= y else 0
        length -= half
    return base if arc_class[base] == y else -1


def link_prefixes(
    const int[::1] parent, const int[::1] symbol, const long long[::1] child_ptr,
    const int[::1] child_node, const int[::1] child_symbol,
    int[::1] newest, int[::1] prefix,
):
    """Newest symbol of each context, and the context without it (-1: not stored)."""
    cdef Py_ssize_t n
    cdef int up
    with nogil:
        newest[0] = -1
        prefix[0] = -1
        for n in range(1, parent.shape[0]):
            up = parent[n]
            if up == 0:
                newest[n] = symbol[n]
                prefix[n] = 0
            else:
                newest[n] = newest[up]
                prefix[n] = -1
                if prefix[up] >= 0:
                    prefix[n] = child_of(
                        child_ptr, child_node, child_symbol, prefix[up], symbol[n]
                    )


def find_arcs(
    const long long[::1] arc_ptr, const int[::1] arc_class,
    const int[::1] node, const int[::1] y, long long[::1] out,
):
    """Index of each arc (node, y), -1 where there is none (or either is negative)."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(node.shape[0]):
            out[i] = -1
            if node[i] >= 0 and y[i] >= 0:
                out[i] = arc_of(arc_ptr, arc_class, node[i], y[i])


def link_arcs(
    const int[::1] parent, const long long[::1] arc_ptr, const int[::1] arc_class,
    const long long[::1] arc_of_node, int[::1] arc_next,
):
    """Where each arc leads; arc_of_node: the arc that leads to a context, or -1."""
    cdef Py_ssize_t n
    cdef long long a, b
    cdef int up
    with nogil:
        for a in range(arc_next.shape[0]):
            arc_next[a] = -1
        for n in range(1, parent.shape[0]):
            if arc_of_node[n] >= 0:
                arc_next[arc_of_node[n]] = <int>n
        for a in range(arc_ptr[1]):
            if arc_next[a] < 0:
                arc_next[a] = 0
        # Shorter contexts have smaller numbers: theirs are known already.
        for n in range(1, parent.shape[0]):
            for a in range(arc_ptr[n], arc_ptr[n + 1]):
                if arc_next[a] >= 0:
                    continue
                up = parent[n]
                while True:
                    b = arc_of(arc_ptr, arc_class, up, arc_class[a])
                    if b >= 0:
                        break
                    up = parent[up]
                arc_next[a] = arc_next[b]


cdef struct ranked_t:
    double value
    int node


cdef int rank(const void* a, const void* b) noexcept nogil:
    cdef double x = (<const ranked_t*>a).value
    cdef double y = (<const ranked_t*>b).value
    if x != y:
        return -1 if x > y else 1
    return (<const ranked_t*>a).node - (<const ranked_t*>b).node


def max_backoff(
    const int[::1] parent, const double[::1] backoff, const long long[::1] arc_ptr,
    const int[::1] arc_class, const double[::1] arc_log_prob,
    const long long[::1] child_ptr, const int[::1] child_node,
    const unsigned char[::1] extends, const unsigned char[::1] complete,
    double[::1] arc_max, double[::1] node_max,
):
    """max over all histories h' that end in h of P(w | h'), as two columns.

    extends: may the context occur as a longer history of its parent?
    complete: is every possible longer history of a context stored?
    A child that lacks w hands it f(h w) times its back-off: the children are looked
    at from the largest such factor down, so that those which hold w are passed once
    each. arc_max holds the maxima of the children that hold w when a node is met.
    """
    cdef Py_ssize_t n, i
    cdef long long a, b
    cdef int count, up
    cdef double best
    cdef Py_ssize_t widest = 1
    for n in range(parent.shape[0]):
        widest = max(widest, child_ptr[n + 1] - child_ptr[n])
    import numpy as np
    buffer = np.empty(widest * sizeof(ranked_t), dtype=np.uint8)
    cdef unsigned char[::1] raw = buffer
    cdef ranked_t* order = <ranked_t*>&raw[0]
    with nogil:
        for a in range(arc_max.shape[0]):
            arc_max[a] = -INFINITY
        for n in range(parent.shape[0] - 1, -1, -1):
            count = 0
            for i in range(child_ptr[n], child_ptr[n + 1]):
                if extends[child_node[i]]:
                    order[count].node = child_node[i]
                    order[count].value = (
                        backoff[child_node[i]] + node_max[child_node[i]]
                    )
                    count += 1
            if count > 1:
                qsort(order, count, sizeof(ranked_t), rank)
            node_max[n] = -INFINITY if complete[n] else 0.0
            if count and order[0].value > node_max[n]:
                node_max[n] = order[0].value
            for a in range(arc_ptr[n], arc_ptr[n + 1]):
                best = -INFINITY if complete[n] else 0.0
                for i in range(count):
                    if order[i].value <= best:
                        break
                    if arc_of(arc_ptr, arc_class, order[i].node, arc_class[a]) < 0:
                        best = order[i].value
                        break
                best += arc_log_prob[a]
                if best > arc_max[a]:
                    arc_max[a] = best
            if n and extends[n]:
                up = parent[n]
                for a in range(arc_ptr[n], arc_ptr[n + 1]):
                    b = arc_of(arc_ptr, arc_class, up, arc_class[a])
                    if arc_max[a] > arc_max[b]:
                        arc_max[b] = arc_max[a]
