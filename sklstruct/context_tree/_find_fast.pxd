cdef inline int find_child(
    const int[::1] symbol, const int[::1] child_ptr, int node, int s
) noexcept nogil:
    """Child of `node` whose edge label is `s`, or -1.

    A binary search without unpredictable branches: the comparison becomes a
    conditional move, and the trip count depends on the number of children alone.
    """
    cdef int base = child_ptr[node]
    cdef int length = child_ptr[node + 1] - base
    cdef int half
    if length == 0:
        return -1
    while length > 1:
        half = length >> 1
        base += half if symbol[base + half] <= s else 0
        length -= half
    return base if symbol[base] == s else -1
