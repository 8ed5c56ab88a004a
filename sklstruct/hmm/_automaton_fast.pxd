cdef struct arcs_t:
    # Borrowed pointers into the arrays that an Arcs object keeps alive.
    const int* parent
    const double* backoff
    const long long* arc_ptr
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


cdef inline long long find_arc(const arcs_t* t, int node, int y) noexcept nogil:
    """Index of the arc (node, y), or -1; the root holds every class in order."""
    cdef long long base, length, half
    if node == 0:
        return y
    base = t.arc_ptr[node]
    length = t.arc_ptr[node + 1] - base
    if length == 0:
        return -1
    while length > 1:
        half = length >> 1
        base += half if t.arc_class[base + half] <= y else 0
        length -= half
    return base if t.arc_class[base] == y else -1


cdef inline long long walk(
    const arcs_t* t, int node, int y, double* total
) noexcept nogil:
    """Arc that a node takes for class y, after the back-offs that lead to it."""
    cdef long long arc
    total[0] = 0.0
    while True:
        arc = find_arc(t, node, y)
        if arc >= 0:
            total[0] += t.arc_log_prob[arc]
            return arc
        total[0] += t.backoff[node]
        node = t.parent[node]


cdef inline int find_child(const arcs_t* t, int node, int s) noexcept nogil:
    """The context that is `node` with the symbol s before it, or -1."""
    cdef int base = t.child_ptr[node]
    cdef int length = t.child_ptr[node + 1] - base
    cdef int half
    if length == 0 or s < 0:
        return -1
    while length > 1:
        half = length >> 1
        base += half if t.symbol[base + half] <= s else 0
        length -= half
    return base if t.symbol[base] == s else -1
