# The k best entries of a row: a heap whose top is the worst of the k.


cdef inline bint worse(double va, int ya, double vb, int yb) noexcept nogil:
    """Whether (va, ya) ranks after (vb, yb); equal values rank by class id."""
    return va < vb or (va == vb and ya > yb)


cdef inline void sift_down(
    double* value, int* label, int size, double v, int y
) noexcept nogil:
    """Replace the top of a heap by (v, y)."""
    cdef int at = 0, child
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and worse(
            value[child + 1], label[child + 1], value[child], label[child]
        ):
            child += 1
        if not worse(value[child], label[child], v, y):
            break
        value[at], label[at] = value[child], label[child]
        at = child
    value[at], label[at] = v, y


cdef inline int offer(
    double* value, int* label, int size, int k, double v, int y
) noexcept nogil:
    """Offer a candidate to a heap of the k best; returns the new size."""
    cdef int at = size, up
    if size == k:
        if worse(value[0], label[0], v, y):
            sift_down(value, label, k, v, y)
        return k
    while at > 0:
        up = (at - 1) >> 1
        if not worse(v, y, value[up], label[up]):
            break
        value[at], label[at] = value[up], label[up]
        at = up
    value[at], label[at] = v, y
    return size + 1


cdef inline void pop(double* value, int* label, int size) noexcept nogil:
    """Move the top of a heap to its end; the first size - 1 entries stay a heap."""
    cdef double v = value[size - 1]
    cdef int y = label[size - 1]
    value[size - 1], label[size - 1] = value[0], label[0]
    sift_down(value, label, size - 1, v, y)


cdef inline void in_order(double* value, int* label, int k) noexcept nogil:
    """Sort a heap of k entries, best first."""
    cdef int size
    for size in range(k, 1, -1):
        pop(value, label, size)
