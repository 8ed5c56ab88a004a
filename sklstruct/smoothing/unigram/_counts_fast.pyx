"""Passes over the counts of all classes; there may be millions of classes.

Most counts are small integers with few different values, so that a table with an entry
for each integer fits in the cache and replaces sorting. Each kernel is one pass of
O(n_classes) time and allocates no memory.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset


def histogram(const double[::1] counts, int64_t[::1] size):
    """size[j] += number of counts j; returns the number of counts beyond the table.

    The result is -1 if a count within the table is not an integer. Most counts are
    small and equal, and repeated additions to one entry wait for each other, so that
    small counts use four tables in turn.
    """
    cdef Py_ssize_t i, k, n = size.shape[0], larger = 0, m = counts.shape[0]
    cdef double c
    cdef int64_t j
    cdef int64_t small[4][256]
    with nogil:
        memset(&small[0][0], 0, sizeof(small))
        for i in range(m):
            c = counts[i]
            if c < n:
                j = <int64_t> c
                if <double> j != c:
                    larger = -1
                    break
                if j < 256:
                    small[i & 3][j] += 1
                else:
                    size[j] += 1
            else:
                larger += 1
        if larger >= 0:
            for k in range(4):
                for i in range(min(n, 256)):
                    size[i] += small[k][i]
    return larger


def look_up(const double[::1] counts, const double[::1] table, double[::1] out):
    """out = table[counts] for the integer counts within the table."""
    cdef Py_ssize_t i, n = table.shape[0]
    with nogil:
        for i in range(counts.shape[0]):
            if counts[i] < n:
                out[i] = table[<Py_ssize_t> counts[i]]
