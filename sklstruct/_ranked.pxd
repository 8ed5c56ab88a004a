# Nodes sorted by a key, largest first; nodes with equal keys are sorted by number.
from libc.stdlib cimport qsort


cdef struct Ranked:
    double key
    int node


cdef inline int _larger_first(const void* a, const void* b) noexcept nogil:
    cdef const Ranked* x = <const Ranked*>a
    cdef const Ranked* y = <const Ranked*>b
    if x.key != y.key:
        return 1 if x.key < y.key else -1
    return (x.node > y.node) - (x.node < y.node)


cdef inline void sort_ranked(Ranked* ranked, Py_ssize_t n) noexcept nogil:
    qsort(ranked, n, sizeof(Ranked), _larger_first)
