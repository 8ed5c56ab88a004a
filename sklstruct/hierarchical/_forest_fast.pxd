# The nodes of all trees, the weights of their models and rows of samples, as the
# kernels share them; see _forest_fast.pyx.
cimport cython
from libc.math cimport exp, log, log1p
from libc.stdint cimport int32_t, int64_t

from ..linear._blas cimport dot, gemv

cdef struct TreeNode:
    # the fields of a step down the tree, on one line of the cache
    int32_t parent
    int32_t first_child
    int32_t n_child
    int32_t row
    int32_t node_class
    # some class below has at least this fraction of the node's probability
    float share


cdef struct ForestView:
    Py_ssize_t n_trees
    Py_ssize_t n_classes
    const int32_t* tree_ptr
    const int32_t* terminal
    TreeNode* node
    # the n_inner nodes with children, of all trees in order, parents first
    int32_t* inner
    Py_ssize_t n_inner
    # models on the longest path
    Py_ssize_t depth


cdef class ForestArrays:
    cdef ForestView view
    cdef object keep
    cdef readonly Py_ssize_t n_nodes


cdef struct Sample:
    # dense: x of length d, nnz -1; sparse: nnz values x at the columns of index
    void* x
    Py_ssize_t d
    Py_ssize_t nnz
    const int32_t* index


cdef struct RowsView:
    # dense: indptr NULL
    Py_ssize_t n
    Py_ssize_t d
    void* data
    const int32_t* index
    const int64_t* indptr


cdef inline RowsView rows_of(
    Py_ssize_t n, Py_ssize_t d, const cython.floating[::1] values,
    const int32_t[::1] index, const int64_t[::1] indptr,
):
    """The n rows of a dense array, or of a CSR matrix; the caller keeps the arrays."""
    cdef RowsView rows = RowsView(n, d, NULL, NULL, NULL)
    if values.shape[0]:
        rows.data = <void*>&values[0]
    if indptr is not None:
        rows.indptr = &indptr[0]
        rows.index = &index[0] if index.shape[0] else NULL
    return rows


cdef inline double clip(double z) noexcept nogil:
    # sums along a path stay finite: no inf - inf
    if z > 1e300:
        return 1e300
    if z < -1e300:
        return -1e300
    return z


cdef inline bint log_probabilities(
    Py_ssize_t m, cython.floating* z, double* out,
) noexcept nogil:
    """Conditional log-probabilities of m > 1 children from their scores.

    False if a score is not a number.
    """
    cdef Py_ssize_t k
    cdef double s, top, total
    if m == 2:
        s = clip(z[0])
        if s > 0:
            out[1] = -log1p(exp(-s))
            out[0] = out[1] - s
        else:
            out[0] = -log1p(exp(s))
            out[1] = out[0] + s
        return s == s
    top = clip(z[0])
    for k in range(1, m):
        if clip(z[k]) > top:
            top = clip(z[k])
    total = 0
    for k in range(m):
        # subtract the maximum first: beside a large score log(total) would be lost
        out[k] = clip(z[k]) - top
        total += exp(out[k])
    top = log(total)
    for k in range(m):
        out[k] -= top
    return top == top


cdef inline void take(
    RowsView* rows, Py_ssize_t i, Sample* sample, cython.floating* coef,
) noexcept nogil:
    """Point sample to row i; coef only tells the type."""
    sample.d, sample.nnz = rows.d, -1
    if rows.indptr == NULL:
        sample.x = <cython.floating*>rows.data + i * rows.d
        return
    sample.index = rows.index + rows.indptr[i]
    sample.nnz = rows.indptr[i + 1] - rows.indptr[i]
    sample.x = <cython.floating*>rows.data + rows.indptr[i]


cdef inline cython.floating row_score(
    Sample* sample, cython.floating* w,
) noexcept nogil:
    """Product of a sample with one row of coef."""
    cdef Py_ssize_t a
    cdef cython.floating* x = <cython.floating*>sample.x
    cdef cython.floating s = 0
    if sample.nnz >= 0:
        for a in range(sample.nnz):
            s += x[a] * w[sample.index[a]]
        return s
    return dot(<int>sample.d, x, w)


cdef inline Py_ssize_t node_scores(
    ForestView* f, Py_ssize_t v, Sample* sample,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
) noexcept nogil:
    """Scores of the rows of node v; returns their number."""
    cdef Py_ssize_t k, m = f.node[v].n_child, r = 1 if m == 2 else m
    cdef cython.floating* x = <cython.floating*>sample.x
    cdef cython.floating* w = coef + f.node[v].row * sample.d
    if sample.nnz >= 0 or r == 1:
        for k in range(r):
            z[k] = row_score(sample, w + k * sample.d)
    else:
        gemv("T", <int>sample.d, <int>r, w, x, z)
    for k in range(r):
        z[k] += intercept[f.node[v].row + k]
    return r
