from .._sorted cimport find_pair


cdef class Arcs:
    # The children of a node are neighbours, sorted by symbol.
    cdef const int[::1] parent, symbol, child_ptr, arc_ptr, arc_class, arc_next
    cdef const int[::1] symbol_of_class
    cdef const double[::1] backoff, arc_log_prob, arc_max, max_backoff
    cdef int start_node, start_symbol


cdef inline int find_arc(Arcs t, int node, int y) noexcept nogil:
    """Arc of a class that a node stores, or -1."""
    return find_pair(&t.arc_ptr[0], &t.arc_class[0], node, y)


cdef inline int walk(Arcs t, int node, int y, double* total) noexcept nogil:
    """Arc that a node takes for class y, after the back-offs that lead to it."""
    cdef int arc
    total[0] = 0.0
    while True:
        arc = find_arc(t, node, y)
        if arc >= 0:
            total[0] += t.arc_log_prob[arc]
            return arc
        total[0] += t.backoff[node]
        node = t.parent[node]
