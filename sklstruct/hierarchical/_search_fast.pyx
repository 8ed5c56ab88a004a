"""The k most probable classes, or the probability of a given class, of each sample.

`best_first` has one heap for each tree (Fagin's threshold algorithm for several trees),
`average` goes up the paths of a given class. Cost per sample of d features: d for each
dot product, at the nodes that `best_first` expands or along the paths of the given
class. The result of a sample does not depend on the other samples of the call.
"""

cimport cython
from libc.math cimport INFINITY, log
from libc.stdint cimport int32_t, int64_t

import numpy as np

from ._forest_fast cimport (
    ForestView,
    ForestArrays,
    RowsView,
    Sample,
    log_probabilities,
    node_scores,
    rows_of,
    take,
)
from .._heap cimport offer, pop
from .._log_sum cimport add_log
from .._watch cimport Watch, over, propagate, watch_of


cdef struct SearchState:
    # node v is expanded for this sample iff stamp[v] == now
    int64_t* stamp
    # class c has been found for this sample iff seen[c] == now
    int64_t* seen
    int64_t now
    double* lp
    int32_t* path
    double* heap_cost  # negative log-probabilities: the least is at the top
    int* heap_node
    int32_t* heap_size
    # whether every score so far was a number
    bint good


cdef inline Py_ssize_t visit(
    ForestView* f, Py_ssize_t v, SearchState* state, Sample* sample,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
) noexcept nogil:
    """Log-probabilities of the children of v, once per sample; returns dot products."""
    if state.stamp[v] == state.now:
        return 0
    state.stamp[v] = state.now
    cdef Py_ssize_t r = node_scores(f, v, sample, coef, intercept, z)
    state.good &= log_probabilities(
        f.node[v].n_child, z, state.lp + f.node[v].first_child
    )
    return r


cdef double along_path(
    ForestView* f, Py_ssize_t v, SearchState* state, Sample* sample,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    Py_ssize_t* n_dots,
) noexcept nogil:
    """Log-probability of node v: the sum over its path, from the root down."""
    cdef Py_ssize_t depth = 0
    cdef double total = 0
    while f.node[v].parent >= 0:
        state.path[depth] = <int32_t>v
        depth += 1
        v = f.node[v].parent
        n_dots[0] += visit(f, v, state, sample, coef, intercept, z)
    while depth > 0:
        depth -= 1
        total += state.lp[state.path[depth]]
    return total


cdef double average(
    ForestView* f, Py_ssize_t c, SearchState* state, Sample* sample,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    Py_ssize_t* n_dots,
) noexcept nogil:
    """Log-probability of class c: the log of the mean over trees."""
    cdef Py_ssize_t t
    cdef double total = -INFINITY, a
    for t in range(f.n_trees):
        a = along_path(
            f, f.terminal[t * f.n_classes + c], state, sample, coef, intercept,
            z, n_dots,
        )
        total = add_log(total, a)
    if f.n_trees > 1:
        total -= log(<double>f.n_trees)
    return total


cdef inline void push(
    SearchState* state, Py_ssize_t t, Py_ssize_t offset, double key, int32_t v,
) noexcept nogil:
    """Insert a node into the heap of tree t."""
    cdef int32_t size = state.heap_size[t]
    state.heap_size[t] = offer(
        state.heap_cost + offset, state.heap_node + offset, size, size + 1, -key, v,
    )


cdef Py_ssize_t best_first(
    ForestView* f, SearchState* state, Sample* sample,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    Py_ssize_t k, int32_t* best, double* best_lp,
) noexcept nogil:
    """The k most probable classes; ties go to the smaller class. Returns dot products.

    One heap for each tree, of reached nodes by log-probability. A node is at least as
    probable as each node below it, so the tops of the heaps bound every class not seen
    yet (Fagin's threshold algorithm for the mean of several trees). A class that is
    found in one tree is completed with its probability in all trees.
    """
    cdef Py_ssize_t t, n_dots = 0, found = 0, offset, j, q, u, top
    cdef int32_t v, c
    cdef double key, bound, value
    for t in range(f.n_trees):
        state.heap_size[t] = 0
        offset = f.tree_ptr[t]
        push(state, t, offset, 0.0, f.tree_ptr[t])
    while True:
        for t in range(f.n_trees):
            offset = f.tree_ptr[t]
            while state.heap_size[t] > 0:
                key, v = -state.heap_cost[offset], state.heap_node[offset]
                pop(state.heap_cost + offset, state.heap_node + offset,
                    state.heap_size[t])
                state.heap_size[t] -= 1
                c = f.node[v].node_class
                if c >= 0:
                    if state.seen[c] == state.now:
                        break
                    state.seen[c] = state.now
                    if f.n_trees == 1:
                        value = key
                    else:
                        value = average(f, c, state, sample, coef, intercept, z,
                                        &n_dots)
                    j = found
                    while j > 0 and (
                        best_lp[j - 1] < value
                        or (best_lp[j - 1] == value and best[j - 1] > c)
                    ):
                        j -= 1
                    if j < k:
                        if found < k:
                            found += 1
                        for q in range(found - 1, j, -1):
                            best[q], best_lp[q] = best[q - 1], best_lp[q - 1]
                        best[j], best_lp[j] = c, value
                    break
                # a child above the top of the heap is expanded without a push and pop:
                # on the way down to the answer only its siblings are pushed
                while f.node[v].n_child > 0:
                    n_dots += visit(f, v, state, sample, coef, intercept, z)
                    u = f.node[v].first_child
                    top = u
                    for q in range(u + 1, u + f.node[v].n_child):
                        if state.lp[q] > state.lp[top]:
                            top = q
                    for q in range(u, u + f.node[v].n_child):
                        if q != top:
                            push(state, t, offset, key + state.lp[q], <int32_t>q)
                    key += state.lp[top]
                    v = <int32_t>top
                    if state.heap_size[t] and -state.heap_cost[offset] > key:
                        break
                push(state, t, offset, key, v)
        bound = -INFINITY
        for t in range(f.n_trees):
            if state.heap_size[t]:
                bound = add_log(bound, -state.heap_cost[f.tree_ptr[t]])
        if bound == -INFINITY:  # nothing is left
            return n_dots
        if f.n_trees > 1:
            # slack for the rounding of the two sums
            bound += 1e-13 - log(<double>f.n_trees)
        if found == k and best_lp[k - 1] > bound:
            return n_dots


def search(
    ForestArrays forest, const cython.floating[:, ::1] coef,
    const cython.floating[::1] intercept, const cython.floating[::1] values,
    const int32_t[::1] index, const int64_t[::1] indptr, cython.floating[::1] z,
    bint given, int32_t[:, ::1] best, double[:, ::1] log_proba, int64_t[::1] n_dots,
    int32_t[::1] stop,
):
    """Fill best (n, k) and log_proba (n, k), and add to n_dots (n,).

    coef: (n_rows, d). values, index, indptr: of a CSR matrix, or the values of dense
    rows, None and None. given: whether best (n, 1) has given classes, and only
    log_proba is filled; else best is filled with the k most probable classes. z: room
    for the scores of a node. Returns False if a score was not a number.
    """
    cdef ForestView* f = &forest.view
    cdef RowsView rows = rows_of(best.shape[0], coef.shape[1], values, index, indptr)
    cdef bint models = coef.shape[0] > 0
    cdef cython.floating* W = <cython.floating*>&coef[0, 0] if models else NULL
    cdef cython.floating* b = <cython.floating*>&intercept[0] if models else NULL
    cdef double[:, ::1] doubles = np.zeros((2, forest.n_nodes))
    cdef int32_t[:, ::1] ints = np.zeros((3, forest.n_nodes), dtype=np.int32)
    cdef int64_t[::1] stamp = np.zeros(forest.n_nodes + f.n_classes, dtype=np.int64)
    cdef SearchState state
    cdef Sample sample
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t i, dots
    state.lp, state.heap_cost = &doubles[0, 0], &doubles[1, 0]
    state.path, state.heap_node = &ints[0, 0], <int*>&ints[1, 0]
    state.heap_size = &ints[2, 0]
    state.stamp, state.seen = &stamp[0], &stamp[forest.n_nodes]
    state.now, state.good = 0, True
    with nogil:
        for i in range(rows.n):
            take(&rows, i, &sample, W)
            state.now += 1
            dots = 0
            if given:
                log_proba[i, 0] = average(
                    f, best[i, 0], &state, &sample, W, b, &z[0], &dots
                )
            else:
                dots = best_first(
                    f, &state, &sample, W, b, &z[0], best.shape[1], &best[i, 0],
                    &log_proba[i, 0],
                )
            n_dots[i] += dots
            if over(&watch, dots * sample.d):
                break
    propagate()
    return bool(state.good)
