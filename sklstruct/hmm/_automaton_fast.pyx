"""The arcs of a back-off model as the kernels read them, and their upper bounds.

`max_backoff` computes the largest probability of each arc and the largest back-off
factor of each context over longer histories, from the longest contexts to the root, in
O(arcs log arcs of a context).
"""

from libc.math cimport INFINITY

from .._ranked cimport Ranked, sort_ranked
from .._sorted cimport find_pair


cdef class Arcs:
    """A bundle of checked arrays that the kernels of this package read."""

    def __init__(self, automaton):
        self.parent = automaton.tree.parent
        self.symbol = automaton.tree.symbol
        self.child_ptr = automaton.tree.child_ptr
        self.backoff = automaton.backoff
        self.arc_ptr = automaton.arc_ptr
        self.arc_class = automaton.arc_class
        self.arc_log_prob = automaton.arc_log_prob
        self.arc_next = automaton.arc_next
        self.symbol_of_class = automaton.symbol_of_class
        self.arc_max = automaton.arc_max
        self.max_backoff = automaton.max_backoff
        self.start_node = automaton.start_node
        self.start_symbol = automaton.start_symbol


def max_backoff(
    const int[::1] child_ptr, const int[::1] arc_ptr, const int[::1] arc_class,
    const double[::1] arc_log_prob, const double[::1] backoff,
    const int[::1] arc_parent, const unsigned char[::1] extends,
    const unsigned char[::1] complete, double[::1] arc_max, double[::1] node_max,
):
    """max over all histories h' that end in h of P(w | h'), as two columns.

    arc_parent: the arc of the same class from the next shorter context.
    extends: whether the context can be a longer history of its parent. complete:
    whether every possible longer history of a context is stored. After a child without
    an arc for w, the probability is f(h w) times the child's back-off weight. Children
    are tested from the largest such factor down until a child lacks w. When a node is
    visited, arc_max already has the maxima of the children that have an arc for w.
    """
    cdef Py_ssize_t n, i, n_nodes = backoff.shape[0]
    cdef long long a, b
    cdef int count, node, y
    cdef double best
    cdef Py_ssize_t widest = 1
    for n in range(n_nodes):
        widest = max(widest, child_ptr[n + 1] - child_ptr[n])
    import numpy as np
    buffer = np.empty(widest * sizeof(Ranked), dtype=np.uint8)
    cdef unsigned char[::1] raw = buffer
    cdef Ranked* order = <Ranked*>&raw[0]
    with nogil:
        for a in range(arc_max.shape[0]):
            arc_max[a] = -INFINITY
        for n in range(n_nodes - 1, -1, -1):
            count = 0
            for i in range(child_ptr[n], child_ptr[n + 1]):
                if extends[i]:
                    order[count].node = <int>i
                    order[count].key = backoff[i] + node_max[i]
                    count += 1
            if count > 1:
                sort_ranked(order, count)
            node_max[n] = -INFINITY if complete[n] else 0.0
            if count and order[0].key > node_max[n]:
                node_max[n] = order[0].key
            for a in range(arc_ptr[n], arc_ptr[n + 1]):
                best = -INFINITY if complete[n] else 0.0
                for i in range(count):
                    if order[i].key <= best:
                        break
                    y, node = arc_class[a], order[i].node
                    if find_pair(&arc_ptr[0], &arc_class[0], node, y) < 0:
                        best = order[i].key
                        break
                best += arc_log_prob[a]
                if best > arc_max[a]:
                    arc_max[a] = best
            if n and extends[n]:
                for a in range(arc_ptr[n], arc_ptr[n + 1]):
                    b = arc_parent[a]
                    if arc_max[a] > arc_max[b]:
                        arc_max[b] = arc_max[a]
