"""The most probable class of many samples, along one tree, in single precision.

Sixteen samples are searched side by side. The walk of a sample goes down along the best
children to a first class, then to the pending nodes (siblings of the path) that are
more probable than this class. Products are in single precision with a known error
bound. If the bound leaves two classes undecided, the answer is UNSURE, and
`_search_fast` decides in the precision of the model. A walk visits about a tenth more
nodes than best-first search, but needs no queue.
"""

cimport cython
from libc.math cimport exp, sqrt
from libc.stdint cimport int32_t, int64_t

import numpy as np

from ._forest_fast cimport (
    ForestArrays,
    ForestView,
    TreeNode,
    RowsView,
    Sample,
    node_scores,
    row_score,
    rows_of,
    take,
)
from ..linear._solver import aligned_zeros
from .._watch cimport Watch, over, propagate, watch_of

cdef extern from "_vector.h" nogil:
    enum:
        STRIDE "SKLSTRUCT_STRIDE"
    int64_t key "sklstruct_key"(float, int32_t) noexcept
    float key_float "sklstruct_key_float"(int64_t) noexcept
    float narrow_double "sklstruct_narrow_double"(
        Py_ssize_t, const double*, Py_ssize_t, float*
    ) noexcept
    float narrow_float "sklstruct_narrow_float"(
        Py_ssize_t, const float*, Py_ssize_t, float*
    ) noexcept
    void products "sklstruct_products"(
        const float*, Py_ssize_t, const float*, Py_ssize_t, const int32_t*,
        const int32_t*, float*
    ) noexcept
    void share_out "sklstruct_share_out"(
        Py_ssize_t, const float*, const float*, float*, float*
    ) noexcept

# Walks that `rounds` advances side by side. One walk is a chain of latencies (a row of
# coef from the cache, its product, an exponential, and only then the next node); side
# by side they overlap. Tried without gain: two groups of walks that alternate, vector
# instructions on the pending nodes (they wait for the last store), one matrix product
# for the top nodes (they are the cheapest already).
cdef enum:
    SIDE = 16

# Largest number of pending nodes of a walk; beyond it `best_first` searches.
cdef enum:
    ROOM = 64

# The answer of `rounds` if `_search_fast` has to decide.
cdef enum:
    UNSURE = -2

# Relative error of a conditional probability by `share_out` from a score in float:
# |z| 2^-24 for its rounding, |z| < 21 on paths that matter (a class among 2^31 that is
# the answer has more than exp(-21.5)), the exponential, a sum, a quotient, a product.
cdef double ROUNDING = 3e-6

# Largest relative error of a path's probability; beyond it the answer is UNSURE.
cdef double LARGEST_SLACK = 0.125


cdef struct SampleWalk:
    Sample sample
    Py_ssize_t i
    # relative error of a quotient of two probabilities
    float slack
    # a class of at least this probability has been found
    float least
    float best_p
    int32_t best
    int32_t size
    # pending nodes, as keys: the probability, then the node's number
    int64_t[ROOM] pending


cdef struct SampleWalks:
    SampleWalk[SIDE] walk
    # of each walk: its node if that has more than two children, else -1; the node's
    # probability, row (0 if it has many) and first child; the score of the row; the
    # probabilities of the two children
    int32_t[SIDE] wide
    float[SIDE] p
    int32_t[SIDE] row
    int32_t[SIDE] first_child
    float[SIDE] score
    float[SIDE] large
    float[SIDE] small
    Py_ssize_t[SIDE] n_dots
    # samples and weights as floats, for dense samples
    float* x
    const float* coef
    Py_ssize_t stride
    double error
    Watch* watch
    # the walks at a node; the walks that `forward` left at a child; the unused walks
    int32_t[SIDE] active
    int32_t[SIDE] stuck
    int32_t[SIDE] child
    int32_t[SIDE] free
    Py_ssize_t n_active
    Py_ssize_t n_stuck
    Py_ssize_t n_free


cdef inline void arrive(
    ForestView* f, SampleWalks* walks, int32_t s, int32_t v, float p,
) noexcept nogil:
    """Put walk s at node v of probability p."""
    cdef bint two = f.node[v].n_child == 2
    walks.p[s] = p
    walks.wide[s] = -1 if two else v
    walks.row[s] = f.node[v].row if two else 0
    walks.first_child[s] = f.node[v].first_child


cdef bint begin(
    ForestView* f, SampleWalks* walks, int32_t s, RowsView* rows,
    Py_ssize_t i, cython.floating* coef,
) noexcept nogil:
    """Put walk s at the root for row i. False if scores would be too inexact."""
    cdef SampleWalk* walk = walks.walk + s
    cdef double norm = 0, slack
    take(rows, i, &walk.sample, coef)
    if walks.x != NULL:
        if cython.floating is double:
            norm = narrow_double(
                rows.d, <double*>walk.sample.x, walks.stride, walks.x + s * walks.stride
            )
        else:
            norm = narrow_float(
                rows.d, <float*>walk.sample.x, walks.stride, walks.x + s * walks.stride
            )
        if not norm < 1e36:
            return False
        # the sum of squares was rounded to floats
        norm = sqrt(norm) * 1.001
    # log P changes by no more than the score does, at each node of either path
    slack = 2.02 * f.depth * (walks.error * norm + ROUNDING)
    if not slack <= LARGEST_SLACK:
        return False
    walk.slack = <float>slack
    walk.i, walk.size, walks.n_dots[s] = i, 0, 0
    walk.least, walk.best_p, walk.best = 0, 0, UNSURE
    arrive(f, walks, s, f.tree_ptr[0], 1)
    return True


cdef bint squeeze(SampleWalk* walk) noexcept nogil:
    """Drop the pending nodes below `least`. False if there is still no room."""
    cdef int64_t least = key(walk.least, 0)
    cdef int32_t k, n = 0
    for k in range(walk.size):
        walk.pending[n] = walk.pending[k]
        n += walk.pending[k] >= least
    walk.size = n
    return n < ROOM


cdef inline bint keep(SampleWalk* walk, float p, int32_t v) noexcept nogil:
    """Make node v pending unless it is below `least`. False if no room."""
    if walk.size == ROOM and not squeeze(walk):
        return False
    walk.pending[walk.size] = key(p, v)
    walk.size += p >= walk.least
    return True


cdef int32_t among_many(
    ForestView* f, SampleWalk* walk, int32_t v, float* p, Py_ssize_t* n_dots,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
) noexcept nogil:
    """The best of more than two children; the others become pending. Or UNSURE.

    p: the probability of v, then that of the child.
    """
    cdef TreeNode* at = f.node + v
    cdef Py_ssize_t k, m = at.n_child, top = 0
    cdef double total = 0
    cdef float q
    n_dots[0] += node_scores(f, v, &walk.sample, coef, intercept, z)
    for k in range(m):
        if z[k] != z[k]:
            return UNSURE
        if z[k] > z[top]:
            top = k
    v = at.first_child + <int32_t>top
    for k in range(m):
        total += exp(z[k] - z[top])
    if not (total >= 1):
        return UNSURE
    p[0] = <float>(p[0] / total)
    q = p[0] * f.node[v].share * (1 - walk.slack)
    walk.least = q if q > walk.least else walk.least
    for k in range(m):
        if k != top:
            q = <float>(p[0] * exp(z[k] - z[top]))
            if q >= walk.least and not keep(walk, q, at.first_child + <int32_t>k):
                return UNSURE
    return v


cdef bint meet(ForestView* f, SampleWalk* walk, int32_t v, float p) noexcept nogil:
    """Compare a class with the best so far. False if the error bound cannot decide."""
    cdef bint first, clear = True
    if p >= walk.least:
        clear = p > walk.best_p * (1 + walk.slack) or p < walk.best_p * (1 - walk.slack)
        first = walk.best < 0
        if p > walk.best_p:
            walk.best, walk.best_p = f.node[v].node_class, p
            if p * (1 - walk.slack) > walk.least:
                walk.least = p * (1 - walk.slack)
        if first:
            squeeze(walk)
    return clear


cdef inline void end(
    SampleWalks* walks, int32_t s, int32_t found_one, int32_t* found, int64_t* n_dots,
) noexcept nogil:
    cdef SampleWalk* walk = walks.walk + s
    found[walk.i], n_dots[walk.i] = found_one, walks.n_dots[s]
    walks.free[walks.n_free] = s
    walks.n_free += 1


cdef void forward(
    ForestView* f, SampleWalks* walks,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    int32_t* found, int64_t* n_dots,
) noexcept nogil:
    """Move each walk to the better child of its node; the other becomes pending.

    Walks whose child is below `least`, or does not have two children, are listed in
    `stuck`, by a sum instead of a branch, which would be mispredicted every other time.
    """
    cdef Py_ssize_t q, n = 0, n_stuck = 0
    cdef int32_t s, v, right
    cdef float p
    cdef bint on
    cdef SampleWalk* walk
    for q in range(walks.n_active):
        s = walks.active[q]
        walk = walks.walk + s
        if walks.wide[s] < 0:
            walks.n_dots[s] += 1
            right = walks.score[s] > 0
            v = walks.first_child[s] + right
            p = walks.large[s]
            if walk.size == ROOM and p * f.node[v].share > walk.least:
                # some class below v is at least as probable
                walk.least = p * f.node[v].share * (1 - walk.slack)
            # not (>=): a score that is not a number
            if not p >= 0 or not keep(
                walk, walks.small[s], walks.first_child[s] + 1 - right
            ):
                end(walks, s, UNSURE, found, n_dots)
                continue
        else:
            p = walks.p[s]
            over(walks.watch, f.node[walks.wide[s]].n_child * walk.sample.d)
            v = among_many(
                f, walk, walks.wide[s], &p, walks.n_dots + s, coef, intercept, z
            )
            if v == UNSURE:
                end(walks, s, UNSURE, found, n_dots)
                continue
        on = (f.node[v].n_child == 2) & (p >= walk.least)
        arrive(f, walks, s, v, p)
        walks.child[s] = v
        walks.active[n] = s
        n += on
        walks.stuck[n_stuck] = s
        n_stuck += 1 - on
    walks.n_active, walks.n_stuck = n, n_stuck


cdef void next_pending(
    ForestView* f, SampleWalks* walks, int32_t* found, int64_t* n_dots,
) noexcept nogil:
    """Move the walks in `stuck` to their most probable pending node, or end them."""
    cdef Py_ssize_t q
    cdef int32_t s, v, k, at_top
    cdef int64_t top, one
    cdef float p
    cdef SampleWalk* walk
    for q in range(walks.n_stuck):
        s = walks.stuck[q]
        walk = walks.walk + s
        v, p = walks.child[s], walks.p[s]
        while True:
            if p >= walk.least:
                if f.node[v].n_child > 0:
                    break
                if not meet(f, walk, v, p):
                    walk.best = v = UNSURE
                    break
            top, at_top = 0, 0
            for k in range(walk.size):
                one = walk.pending[k]
                at_top = k if one > top else at_top
                top = one if one > top else top
            if top < key(walk.least, 0) or walk.size == 0:
                v = -1
                break
            walk.size -= 1
            walk.pending[at_top] = walk.pending[walk.size]
            v = <int32_t>top
            p = key_float(top)
            if f.node[v].n_child == 2:
                break
        if v < 0:
            end(walks, s, walk.best, found, n_dots)
            continue
        arrive(f, walks, s, v, p)
        walks.active[walks.n_active] = s
        walks.n_active += 1


cdef void rounds(
    ForestView* f, SampleWalks* walks, RowsView* rows,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    int32_t* found, int64_t* n_dots,
) noexcept nogil:
    """The most probable class of each row along one tree, or UNSURE.

    A walk goes down along the best children to a class, then visits the pending nodes
    that are more probable than this class, the most probable first. These are about a
    tenth more nodes than in a best-first search, whose queue costs more than the nodes.

    The answer is exact although probabilities are floats: a class is returned only if
    it exceeds every other class by more than `slack`, the bound of the rounding errors.
    The answer has at least the probability 1 / K, so it does not underflow. Rows whose
    norm makes the products in floats too inexact are UNSURE at once.
    """
    cdef Py_ssize_t q, first = 0
    cdef int32_t s, r
    cdef SampleWalk* walk
    for s in range(SIDE):
        walks.free[s] = s
        walks.p[s] = walks.score[s] = 0
    walks.n_free, walks.n_active = SIDE, 0
    while True:
        while walks.n_free > 0 and first < rows.n:
            s = walks.free[walks.n_free - 1]
            if begin(f, walks, s, rows, first, coef):
                walks.n_free -= 1
                walks.active[walks.n_active] = s
                walks.n_active += 1
            else:
                found[first], n_dots[first] = UNSURE, 0
            first += 1
        if walks.n_free == SIDE or over(walks.watch, SIDE * rows.d):
            return
        if walks.x != NULL:
            products(
                walks.coef, walks.stride, walks.x, walks.n_active, walks.active,
                walks.row, walks.score,
            )
        else:
            for q in range(walks.n_active):
                s = walks.active[q]
                walk = walks.walk + s
                r = walks.row[s]
                walks.score[s] = <float>(
                    row_score(&walk.sample, coef + r * rows.d) + intercept[r]
                )
        share_out(SIDE, walks.p, walks.score, walks.large, walks.small)
        forward(f, walks, coef, intercept, z, found, n_dots)
        next_pending(f, walks, found, n_dots)


def walk(
    ForestArrays forest, const cython.floating[:, ::1] coef,
    const cython.floating[::1] intercept, const cython.floating[::1] values,
    const int32_t[::1] index, const int64_t[::1] indptr, cython.floating[::1] z,
    const float[:, ::1] narrow, double error, int32_t[::1] found, int64_t[::1] n_dots,
    int32_t[::1] stop,
):
    """Fill found (n,), negative where undecided, and n_dots (n,).

    The forest has one tree and at least one model. coef, ..., z: as in `search`.
    narrow, error: of `narrow_rows`, for dense samples; None and 0 for sparse ones.
    """
    cdef SampleWalks walks
    cdef float[:, ::1] x
    cdef RowsView rows = rows_of(found.shape[0], coef.shape[1], values, index, indptr)
    cdef Watch watch = watch_of(stop)
    if rows.n == 0:
        return
    walks.x, walks.error = NULL, error
    walks.watch = &watch
    if narrow is not None:
        x = aligned_zeros(SIDE, narrow.shape[1])
        walks.x, walks.stride, walks.coef = &x[0, 0], narrow.shape[1], &narrow[0, 0]
    with nogil:
        rounds(
            &forest.view, &walks, &rows, <cython.floating*>&coef[0, 0],
            <cython.floating*>&intercept[0], &z[0], &found[0], &n_dots[0],
        )
    propagate()


def narrow_rows(coef, intercept):
    """(coef as floats, each row with its intercept; their error) for `walk`.

    The rows take half of the memory, fit into the cache more often, and their products
    take less time. The answer stays exact: the error of a product is at most `error`
    times the norm of the sample, and full precision decides where this bound does not.
    """
    n, d = coef.shape
    stride = (d // STRIDE + 1) * STRIDE
    rows = aligned_zeros(n, stride)
    with np.errstate(over="ignore", invalid="ignore"):
        rows[:, :d], rows[:, d] = coef, intercept
        square = np.einsum("ij,ij->i", coef, coef, dtype=np.float64)
        largest = (square + np.square(intercept, dtype=np.float64)).max()
    # stride / 16 + 4 roundings of the sum, two of the factors, one of the product.
    # A float that underflows errs by 1e-45 times the other factor, less than 1e18.
    error = (stride // STRIDE + 8) * 2.0**-24 * np.sqrt(largest)
    if coef.dtype == np.float32:
        error *= 2  # products of the BLAS in floats, the reference, have the same error
    return rows, error if largest < 1e36 else np.inf
