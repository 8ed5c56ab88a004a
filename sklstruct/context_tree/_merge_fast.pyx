"""Kernels that merge two counts: nodes by (parent, symbol), pairs by (node, class).

Both are sorted by these keys in a tree in canonical order, and they stay so under the
numbers of the merged tree, which keep the order. So one walk along both is enough,
O(size of both), with no memory but the results.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t

# Steps between two checks for signals: a fraction of a second.
cdef enum:
    SLICE_MASK = (1 << 20) - 1


def merge_nodes(const int32_t[::1] parent_a, const int32_t[::1] symbol_a,
                const int64_t[::1] level_a, const int32_t[::1] parent_b,
                const int32_t[::1] symbol_b, const int64_t[::1] level_b,
                int32_t[::1] index_a, int32_t[::1] index_b, int64_t[::1] level_ptr,
                int32_t[::1] parent, int32_t[::1] symbol):
    """The merged tree, and the number in it of each node of the two.

    parent and symbol have room for all nodes of both; level_ptr (n_levels + 1 of the
    deeper one) has the numbers that are used. If there are more nodes than 31 bits can
    number, only level_ptr is valid: the caller then raises an error.
    """
    cdef Py_ssize_t k, n_levels = level_ptr.shape[0] - 1
    cdef Py_ssize_t last_a = level_a.shape[0] - 1, last_b = level_b.shape[0] - 1
    cdef int64_t i, j, end_i, end_j, n = 1
    cdef int64_t key_a, key_b
    with nogil:
        parent[0] = -1
        symbol[0] = -1
        index_a[0] = 0
        index_b[0] = 0
        level_ptr[0] = 0
        level_ptr[1] = 1
        for k in range(1, n_levels):
            i = level_a[k] if k < last_a else parent_a.shape[0]
            end_i = level_a[k + 1] if k < last_a else i
            j = level_b[k] if k < last_b else parent_b.shape[0]
            end_j = level_b[k + 1] if k < last_b else j
            while i < end_i or j < end_j:
                if n & SLICE_MASK == 0:
                    with gil:
                        PyErr_CheckSignals()
                # A key above all others where one of the two has ended.
                key_a = INT64_MAX
                key_b = key_a
                if i < end_i:
                    key_a = <int64_t> <uint32_t> index_a[parent_a[i]]
                    key_a = (key_a << 31) | symbol_a[i]
                if j < end_j:
                    key_b = <int64_t> <uint32_t> index_b[parent_b[j]]
                    key_b = (key_b << 31) | symbol_b[j]
                if key_a <= key_b:
                    parent[n] = index_a[parent_a[i]]
                    symbol[n] = symbol_a[i]
                    index_a[i] = <int32_t> n
                    i += 1
                    if key_a == key_b:
                        index_b[j] = <int32_t> n
                        j += 1
                else:
                    parent[n] = index_b[parent_b[j]]
                    symbol[n] = symbol_b[j]
                    index_b[j] = <int32_t> n
                    j += 1
                n += 1
            level_ptr[k + 1] = n


def merge_pairs(const int32_t[::1] ptr_a, const int32_t[::1] target_a,
                const double[::1] count_a, const int32_t[::1] index_a,
                const int32_t[::1] ptr_b, const int32_t[::1] target_b,
                const double[::1] count_b, const int32_t[::1] index_b,
                int32_t[::1] place_a, int32_t[::1] place_b, int32_t[::1] ptr,
                int32_t[::1] target, double[::1] count):
    """The merged pairs and sums, and the number of each pair of the two; their number.

    index_a, index_b : the merged node of each node, rising.
    ptr : of the merged tree; target and count have room for all pairs of both and all
        classes at the root, which is dense. Pairs beyond 31 bits are
        counted, too.
    """
    cdef Py_ssize_t x, a = 0, b = 0, n_nodes = ptr.shape[0] - 1
    cdef Py_ssize_t n_a = index_a.shape[0], n_b = index_b.shape[0]
    cdef int32_t i, j, end_i, end_j
    cdef int64_t n = 0
    cdef double c
    with nogil:
        for x in range(n_nodes):
            if x & SLICE_MASK == 0:
                with gil:
                    PyErr_CheckSignals()
            ptr[x] = <int32_t> n
            i = end_i = j = end_j = 0
            if a < n_a and index_a[a] == x:
                i = ptr_a[a]
                end_i = ptr_a[a + 1]
                a += 1
            if b < n_b and index_b[b] == x:
                j = ptr_b[b]
                end_j = ptr_b[b + 1]
                b += 1
            while i < end_i or j < end_j:
                c = 0.0
                if j >= end_j or (i < end_i and target_a[i] <= target_b[j]):
                    target[n] = target_a[i]
                    if j < end_j and target_a[i] == target_b[j]:
                        c = count_b[j]
                        place_b[j] = <int32_t> n
                        j += 1
                    count[n] = count_a[i] + c
                    place_a[i] = <int32_t> n
                    i += 1
                else:
                    target[n] = target_b[j]
                    count[n] = count_b[j]
                    place_b[j] = <int32_t> n
                    j += 1
                n += 1
        ptr[n_nodes] = <int32_t> n
    return n


def move_parents(const int32_t[::1] parent, const int32_t[::1] place,
                 int32_t[::1] out):
    """out[place[p]] = place[parent[p]] for every pair p with a parent."""
    cdef Py_ssize_t p
    with nogil:
        for p in range(parent.shape[0]):
            if parent[p] >= 0:
                out[place[p]] = place[parent[p]]


def renumber(const int32_t[::1] ids, const int32_t[::1] table, int32_t[::1] out):
    """out[i] = table[ids[i]], -1 for a negative id."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(ids.shape[0]):
            out[i] = table[ids[i]] if ids[i] >= 0 else -1
