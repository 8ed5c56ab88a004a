from .._sorted cimport find_pair


cdef struct arcs_t:
    # Borrowed pointers into the arrays that an Arcs object keeps alive.
    const int* parent
    const double* backoff
    const int* arc_ptr
    const int* arc_class
    const double* arc_log_prob
    const int* arc_next
    const int* symbol
    const int* child_ptr
    const int* symbol_of_class
    const double* arc_max
    const double* max_backoff
    int start_node
    int start_symbol


cdef class Arcs:
    # The children of a node are neighbours, sorted by symbol.
    cdef arcs_t c
    cdef object keep


cdef inline int walk(
    const arcs_t* t, int node, int y, double* total
) noexcept nogil:
    """Arc that a node takes for class y, after the back-offs that lead to it."""
    cdef int arc
    total[0] = 0.0
    while True:
        arc = find_pair(t.arc_ptr, t.arc_class, node, y)
        if arc >= 0:
            total[0] += t.arc_log_prob[arc]
            return arc
        total[0] += t.backoff[node]
        node = t.parent[node]
