"""Sweeps of the tree-structured log-linear loss over one block of branches.

A block is a run of depth-1 nodes with everything below them. Nodes are
numbered level by level and lexicographically, so a block is one contiguous
range of nodes, and of pairs, on every level: block[k] : block_end[k] are its
nodes on level k (k >= 1). It depends on the rest of the tree only through the
root's scores and normaliser (read) and sums over its level-1 nodes and pairs
(accumulated), so blocks run in any order and on any thread.

Upward notation: es = exp(score), Z = normaliser, A = sum of t / Z over the
subtree, E = expected count of a pair. With q the parent pair of p = (n, y):

    es(p) = es(q) exp(beta w_p)
    Z(n)  = Z(parent(n)) + sum_p [es(p) - es(q)]
    E(p)  = es(p) A(n) + sum over child pairs r of [E(r) - es(p) A(node(r))]

The user guide derives these. The accumulator of the last line lives in the gradient
array, so that an evaluation touches w, es, the gradient, the counts and the parent ids
once or twice each: about 60 bytes per pair, all sequential except for the parent pairs,
which are contiguous for siblings. The deepest level is done in one fused pass that
stores no es.

Callers exponentiate first (numpy's exp is vectorised for the machine at run
time; the C library's scalar exp alone would double the cost).
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from .._dot cimport dot as dot_of


cdef void _forward(Py_ssize_t lo, Py_ssize_t hi, bint top,
                   const int32_t *parent, const int32_t *pair_ptr,
                   const int32_t *pair_parent, double z_root,
                   double *es, double *z) noexcept nogil:
    """exp(score) and Z of one level; es holds exp(beta w)."""
    cdef Py_ssize_t n, p
    cdef double s, above, here
    for n in range(lo, hi):
        s = 0.0
        for p in range(pair_ptr[n], pair_ptr[n + 1]):
            above = es[pair_parent[p]]
            here = es[p] * above
            es[p] = here
            s += here - above
        z[n] = s + (z_root if top else z[parent[n]])


cdef void _backward(Py_ssize_t lo, Py_ssize_t hi, const int32_t *parent,
                    const int32_t *pair_ptr, const int32_t *pair_parent,
                    const double *beta, bint per_node, const double *t,
                    const double *count, const double *es,
                    const double *z, double *a, double *a_above, double *grad,
                    double *grad_above) noexcept nogil:
    cdef Py_ssize_t n, p
    cdef int32_t q
    cdef double an, e, b
    for n in range(lo, hi):
        an = a[n] + t[n] / z[n]
        a_above[parent[n]] += an
        b = beta[n] if per_node else beta[0]
        for p in range(pair_ptr[n], pair_ptr[n + 1]):
            q = pair_parent[p]
            e = es[p] * an + grad[p]
            grad_above[q] += e - es[q] * an
            grad[p] = b * (e - count[p])


cdef void _leaves(Py_ssize_t lo, Py_ssize_t hi, bint top, const int32_t *parent,
                  const int32_t *pair_ptr, const int32_t *pair_parent,
                  const double *beta, bint per_node, const double *t,
                  const double *count, const double *es, double z_root,
                  double *z, const double *expw, double *a_above,
                  double *grad, double *grad_above) noexcept nogil:
    # Forward and backward at once, for a level without children.
    cdef Py_ssize_t n, p, first = pair_ptr[lo]
    cdef int32_t q
    cdef double s, an, above, here, b
    for n in range(lo, hi):
        s = z_root if top else z[parent[n]]
        for p in range(pair_ptr[n], pair_ptr[n + 1]):
            above = es[pair_parent[p]]
            s += above * expw[p - first] - above
        z[n] = s
        an = t[n] / s
        a_above[parent[n]] += an
        b = beta[n] if per_node else beta[0]
        for p in range(pair_ptr[n], pair_ptr[n + 1]):
            q = pair_parent[p]
            above = es[q] * an
            here = above * expw[p - first]
            grad_above[q] += here - above
            grad[p] = b * (here - count[p])


def block_gradient(const int64_t[::1] lo, const int64_t[::1] hi,
                   const int32_t[::1] parent, const int32_t[::1] pair_ptr,
                   const int32_t[::1] pair_parent, const double[::1] beta,
                   const double[::1] t, const double[::1] count,
                   double z_root, double[::1] es, const double[::1] leaf_exp,
                   double[::1] z, double[::1] a, double[::1] grad,
                   double[::1] a_root, double[::1] e_root):
    """Z of the block's nodes and the gradient of its pairs.

    lo, hi (n_levels): node ranges, entry 0 unused. es holds exp(beta w) on the
    inner levels (exp(score) at the root) and becomes exp(score); leaf_exp holds
    exp(beta w) of the deepest level's pairs. beta has one entry per level, or one per
    node. a_root (1) and e_root (V) accumulate the sums that the root needs.
    """
    cdef Py_ssize_t k, n, deepest = lo.shape[0] - 1
    cdef bint per_node = beta.shape[0] != lo.shape[0]
    cdef const double *b
    cdef double *a_above
    cdef double *e_above
    with nogil:
        for k in range(1, deepest):
            _forward(lo[k], hi[k], k == 1, &parent[0], &pair_ptr[0],
                     &pair_parent[0], z_root, &es[0], &z[0])
            n = pair_ptr[hi[k]] - pair_ptr[lo[k]]
            memset(&grad[0] + pair_ptr[lo[k]], 0, n * sizeof(double))
            memset(&a[0] + lo[k], 0, (hi[k] - lo[k]) * sizeof(double))
        for k in range(deepest, 0, -1):
            if lo[k] == hi[k]:
                continue
            b = &beta[0] if per_node else &beta[k]
            a_above = &a_root[0] if k == 1 else &a[0]
            e_above = &e_root[0] if k == 1 else &grad[0]
            if k == deepest:
                _leaves(lo[k], hi[k], k == 1, &parent[0], &pair_ptr[0],
                        &pair_parent[0], b, per_node, &t[0], &count[0], &es[0],
                        z_root, &z[0], &leaf_exp[0], a_above, &grad[0], e_above)
            else:
                _backward(lo[k], hi[k], &parent[0], &pair_ptr[0],
                          &pair_parent[0], b, per_node, &t[0], &count[0],
                          &es[0], &z[0], &a[0], a_above, &grad[0], e_above)


def block_normalisers(const int64_t[::1] lo, const int64_t[::1] hi,
                      const int32_t[::1] parent, const int32_t[::1] pair_ptr,
                      const int32_t[::1] pair_parent, double z_root,
                      double[::1] es, double[::1] z):
    """exp(score) and Z of the block, for every level; es holds exp(beta w)."""
    cdef Py_ssize_t k
    with nogil:
        for k in range(1, lo.shape[0]):
            _forward(lo[k], hi[k], k == 1, &parent[0], &pair_ptr[0],
                     &pair_parent[0], z_root, &es[0], &z[0])


def dot(const double[::1] a, const double[::1] b):
    """Sum of a b, in a fixed order on any machine.

    BLAS would start its own threads here: its sums then depend on their
    number, and next to busy cores its waiting threads cost more than they save.
    """
    cdef double total = 0.0
    with nogil:
        if a.shape[0]:
            total = dot_of(&a[0], &b[0], a.shape[0])
    return total
