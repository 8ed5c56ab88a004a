"""The most probable class of many samples, along one tree, in single precision.

Sixteen samples are searched side by side. Each goes down along the best children to a
first class, then to the pending nodes that are more probable than this class. Products
are in single precision with a known error bound. If the bound leaves two classes
undecided the answer is UNSURE, and `_search_fast` decides in the precision of the
model. Costs for a sample: about a tenth more nodes than best-first search, and no
queue.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.math cimport INFINITY, exp, fabs, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from ._forest_fast cimport (
    ForestView,
    ForestArrays,
    LogisticForest,
    TreeNode,
    RowsView,
    Sample,
    SampleRows,
    node_scores,
    row_score,
    take,
)
from .._prefetch cimport prefetch
from .._watch cimport Watch, over, propagate, watch_of

cdef extern from "_vector.h" nogil:
    enum:
        STRIDE "SKLSTRUCT_STRIDE"
    int32_t octave "sklstruct_octave"(float) noexcept
    float octave_end "sklstruct_octave_end"(int32_t) noexcept
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

# Largest relative error of a path's probability; walks above it are not made.
cdef double LARGEST_SLACK = 0.125


cdef class NarrowRows:
    """coef as floats, each row with its intercept, for `rounds`.

    They take half of the memory, fit into the cache more often, and their products take
    less time. The answer stays exact: the error of a product is at most `error` times
    the norm of the sample, and full precision decides where this bound does not.
    """
    cdef float* coef
    cdef void* allocated
    cdef Py_ssize_t stride
    cdef double error
    # norms of the rows without their intercepts, and the intercepts
    cdef double* norm
    cdef double* intercept

    def __cinit__(self):
        self.allocated = NULL
        self.norm = NULL

    def __dealloc__(self):
        PyMem_Free(self.allocated)
        PyMem_Free(self.norm)


def narrow_rows(
    const cython.floating[:, ::1] coef, const cython.floating[::1] intercept,
):
    """The NarrowRows of a model."""
    cdef NarrowRows rows = NarrowRows()
    cdef Py_ssize_t r, j, n = coef.shape[0], d = coef.shape[1]
    cdef double square, largest = 0
    cdef float* out
    rows.stride = (d // STRIDE + 1) * STRIDE
    rows.allocated = PyMem_Calloc(n * rows.stride + STRIDE, sizeof(float))
    rows.norm = <double*>PyMem_Calloc(2 * n, sizeof(double))
    if rows.allocated == NULL or rows.norm == NULL:
        raise MemoryError(f"no memory for {n} rows of {d} weights in float32")
    rows.intercept = rows.norm + n
    # rows start where a line of the cache does
    rows.coef = <float*>((<size_t>rows.allocated + 63) // 64 * 64)
    with nogil:
        for r in range(n):
            out = rows.coef + r * rows.stride
            square = 0
            for j in range(d):
                square += <double>coef[r, j] * coef[r, j]
                out[j] = <float>coef[r, j]
            out[d] = <float>intercept[r]
            rows.norm[r], rows.intercept[r] = sqrt(square), intercept[r]
            square += <double>intercept[r] * intercept[r]
            # not (<=): NaN is kept
            if not square <= largest:
                largest = square
    # stride / 16 + 4 roundings of the sum, two of the factors, one of the product.
    # A float that underflows errs by 1e-45 times the other factor, less than 1e18.
    rows.error = (rows.stride // STRIDE + 8) * 2.0 ** -24 * sqrt(largest)
    if cython.floating is float:
        # products of the BLAS in floats, the reference, have the same error
        rows.error *= 2
    if not largest < 1e36:
        rows.error = INFINITY
    return rows


# Tables of `Reach` are for norms up to 9/8, 10/8, ... 2, 18/8, ... 2^32.
cdef enum:
    NORMS = 256


ctypedef float* float_pointer


cdef class Reach:
    """Upper bound of the part of a node's probability that one class below has.

    reach(v) = max over the two children u of max P(u | v) reach(u), where by
    Cauchy and Schwarz the logit of v is within |w_v| |x| of the intercept. Nodes of few
    samples have small weights, so their bound is far below 1. A node whose probability
    times its reach is below that of a known class need not be expanded. A table of all
    nodes for each norm (eight to the factor 2) is made when the first sample needs it.
    """
    cdef float_pointer[NORMS] table
    cdef float* all_one
    cdef ForestArrays forest
    cdef NarrowRows rows

    def __cinit__(self):
        memset(self.table, 0, sizeof(self.table))
        self.all_one = NULL

    def __init__(self, ForestArrays forest, NarrowRows rows):
        cdef Py_ssize_t v
        self.forest, self.rows = forest, rows
        self.all_one = <float*>PyMem_Calloc(forest.n_nodes, sizeof(float))
        if self.all_one == NULL:
            raise MemoryError(f"no memory for {forest.n_nodes} bounds")
        for v in range(forest.n_nodes):
            self.all_one[v] = 1

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(NORMS):
            free(self.table[k])
        PyMem_Free(self.all_one)

    cdef const float* of_norm(self, double norm) noexcept nogil:
        """The table for samples of this norm, that of (x, 1), at least 1."""
        cdef Py_ssize_t v, q, k = octave(<float>norm)
        cdef int32_t child
        cdef double swing, b, c, largest
        cdef ForestView* f = &self.forest.view
        cdef float* table
        if k >= NORMS:
            return self.all_one
        if self.table[k] != NULL:
            return self.table[k]
        table = <float*>malloc(self.forest.n_nodes * sizeof(float))
        if table == NULL:
            return self.all_one
        norm = octave_end(<int32_t>k)
        for v in range(self.forest.n_nodes - 1, -1, -1):
            child = f.node[v].first_child
            if f.node[v].n_child == 0:
                table[v] = 1
            elif f.node[v].n_child == 2:
                b = self.rows.intercept[f.node[v].row]
                swing = self.rows.norm[f.node[v].row] * norm
                c = table[child] / (1 + exp(b - swing))
                b = table[child + 1] / (1 + exp(-b - swing))
                largest = c if c > b else b
                table[v] = <float>min(1.000001 * largest, 1.0)
            else:
                table[v] = table[child]
                for q in range(1, f.node[v].n_child):
                    if table[child + q] > table[v]:
                        table[v] = table[child + q]
        self.table[k] = table
        return table


cdef struct SampleWalk:
    Sample sample
    Py_ssize_t i
    # the table of `Reach` for this sample
    const float* reach
    # relative error of a quotient of two probabilities; error of a score
    float slack
    float doubt
    # a class of at least this probability has been found
    float least
    float best_p
    int32_t best
    int32_t size
    # pending nodes, as keys: the bound of the classes below, then the node's number;
    # and room for a zero
    int64_t[ROOM + 1] pending


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
    # samples as floats, if the products are those of NarrowRows
    float* x
    const float* coef
    Py_ssize_t stride
    double error
    Watch* watch
    # the walks at a node; those that `forward` left at a child; the others
    int32_t[SIDE] active
    int32_t[SIDE] stuck
    int32_t[SIDE] child
    int32_t[SIDE] free
    Py_ssize_t n_active
    Py_ssize_t n_stuck
    Py_ssize_t n_free


cdef inline int32_t below(ForestView* f, int32_t v) noexcept nogil:
    """The first node from v on that has a model or is a class."""
    while f.node[v].n_child == 1:
        v = f.node[v].first_child
    return v


cdef inline void arrive(
    ForestView* f, SampleWalks* walks, int32_t s, int32_t v, float p,
) noexcept nogil:
    """Put walk s at node v of probability p; prefetch what its next rounds read."""
    cdef int32_t row = f.step[v].row, first_child = f.step[v].first_child
    walks.p[s] = p
    walks.wide[s] = -1
    if row < 0:
        walks.wide[s] = v
        row = 0
    walks.row[s] = row
    walks.first_child[s] = first_child
    prefetch(f.step + first_child, 1)
    if walks.x != NULL:
        prefetch(walks.coef + row * walks.stride, walks.stride * sizeof(float))


cdef bint begin(
    ForestView* f, SampleWalks* walks, Reach reach, int32_t s, RowsView* rows,
    Py_ssize_t i, cython.floating* coef,
) noexcept nogil:
    """Put walk s at the root for row i. False if scores would be too inexact."""
    cdef SampleWalk* walk = walks.walk + s
    cdef double norm = 0, slack
    cdef void* next
    take(rows, i, &walk.sample, coef)
    if walks.x != NULL:
        if cython.floating is double:
            norm = narrow_double(
                rows.d, <double*>walk.sample.x, walks.stride,
                walks.x + s * walks.stride,
            )
        else:
            norm = narrow_float(
                rows.d, <float*>walk.sample.x, walks.stride,
                walks.x + s * walks.stride,
            )
        if not norm < 1e36:
            return False
        # the sum of squares is one of floats
        norm = sqrt(norm) * 1.001
        if i + 2 < rows.n:
            next = <cython.floating*>walk.sample.x + 2 * rows.d
            prefetch(next, rows.d * sizeof(cython.floating))
    walk.doubt = <float>(walks.error * norm)
    # log P moves by no more than the score does, at each node of either path
    slack = 2.02 * f.depth * (walks.error * norm + ROUNDING)
    if not slack <= LARGEST_SLACK:
        return False
    walk.slack = <float>slack
    walk.reach = reach.of_norm(norm) if walks.x != NULL else reach.all_one
    walk.i, walk.size, walks.n_dots[s] = i, 0, 0
    walk.least, walk.best_p, walk.best = 0, 0, UNSURE
    arrive(f, walks, s, below(f, f.tree_ptr[0]), 1)
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
    """Make node v pending unless its bound is below `least`. False if no room."""
    cdef float most = p * walk.reach[v]
    if walk.size == ROOM and not squeeze(walk):
        return False
    walk.pending[walk.size] = key(most, v)
    walk.size += most >= walk.least
    return True


cdef int32_t among_many(
    ForestView* f, SampleWalk* walk, int32_t v, float* p, Py_ssize_t* n_dots,
    cython.floating* coef, cython.floating* intercept, cython.floating* z, bint greedy,
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
    if greedy:
        return v
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
    bint greedy, int32_t* found, int64_t* n_dots,
) noexcept nogil:
    """Move each walk to the better child of its node; the other becomes pending.

    Walks whose child is below `least`, or has not two children, are listed in `stuck`,
    by a sum instead of a branch, which would be mispredicted every other time.
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
            # not (>): a score that is not a number
            if greedy:
                p = 1
                if not fabs(walks.score[s]) > walk.doubt:
                    end(walks, s, UNSURE, found, n_dots)
                    continue
            else:
                p = walks.large[s]
                if walk.size == ROOM and p * f.node[v].share > walk.least:
                    # some class below v is at least as probable
                    walk.least = p * f.node[v].share * (1 - walk.slack)
                if not p >= 0 or not keep(
                    walk, walks.small[s], walks.first_child[s] + 1 - right
                ):
                    end(walks, s, UNSURE, found, n_dots)
                    continue
        else:
            p = walks.p[s]
            over(walks.watch, f.node[walks.wide[s]].n_child * walk.sample.d)
            v = among_many(
                f, walk, walks.wide[s], &p, walks.n_dots + s, coef, intercept, z, greedy
            )
            if v == UNSURE:
                end(walks, s, UNSURE, found, n_dots)
                continue
        on = (f.step[v].row >= 0) & (p * walk.reach[v] >= walk.least)
        arrive(f, walks, s, v, p)
        walks.child[s] = v
        walks.active[n] = s
        n += on
        walks.stuck[n_stuck] = s
        n_stuck += 1 - on
    walks.n_active, walks.n_stuck = n, n_stuck


cdef void next_pending(
    ForestView* f, SampleWalks* walks, bint greedy, int32_t* found, int64_t* n_dots,
) noexcept nogil:
    """Move the walks in `stuck` to their most probable pending node, or end them."""
    cdef Py_ssize_t q
    cdef int32_t s, v, k, at_top, at_other
    cdef int64_t top, other, one, two
    cdef float p
    cdef SampleWalk* walk
    for q in range(walks.n_stuck):
        s = walks.stuck[q]
        walk = walks.walk + s
        v, p = walks.child[s], walks.p[s]
        while True:
            if p * walk.reach[v] >= walk.least:
                v = below(f, v)
                if f.node[v].n_child > 0:
                    break
                if greedy:
                    walk.best = f.node[v].node_class
                    v = -1
                    break
                if not meet(f, walk, v, p):
                    walk.best = v = UNSURE
                    break
            # two maxima, so that one comparison need not wait for the other
            walk.pending[walk.size] = 0
            top = other = 0
            at_top = at_other = 0
            for k in range(0, walk.size, 2):
                one, two = walk.pending[k], walk.pending[k + 1]
                at_top = k if one > top else at_top
                top = one if one > top else top
                at_other = k + 1 if two > other else at_other
                other = two if two > other else other
            at_top = at_other if other > top else at_top
            top = other if other > top else top
            if top < key(walk.least, 0) or walk.size == 0:
                v = -1
                break
            walk.size -= 1
            walk.pending[at_top] = walk.pending[walk.size]
            v = <int32_t>top
            p = key_float(top) / walk.reach[v]
            if f.step[v].row >= 0:
                break
        if v < 0:
            end(walks, s, walk.best, found, n_dots)
            continue
        arrive(f, walks, s, v, p)
        walks.active[walks.n_active] = s
        walks.n_active += 1


cdef void rounds(
    ForestView* f, SampleWalks* walks, Reach reach, RowsView* rows,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    bint greedy, int32_t* found, int64_t* n_dots,
) noexcept nogil:
    """The most probable class of each row along one tree, or UNSURE.

    First down along the best children to a class, then the pending nodes that are more
    probable than it, the most probable first. That is about a tenth more nodes than in
    a best-first search, whose queue of all siblings costs more than these nodes.

    The answer is exact although probabilities are floats: a class is returned only if
    it leads every other one by more than `slack`, the bound of the rounding errors. It
    has at least the probability 1 / K, so no class that underflows is the answer. Rows
    whose norm makes the products in floats too inexact are UNSURE at once.
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
            if begin(f, walks, reach, s, rows, first, coef):
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
        if not greedy:
            share_out(SIDE, walks.p, walks.score, walks.large, walks.small)
        forward(f, walks, coef, intercept, z, greedy, found, n_dots)
        next_pending(f, walks, greedy, found, n_dots)


def walk(
    LogisticForest model, SampleRows samples, cython.floating[::1] z, NarrowRows narrow,
    bint greedy, int32_t[::1] found, int64_t[::1] n_dots, int32_t[::1] stop,
):
    """Fill found (n,), negative where undecided, and n_dots (n,).

    The forest has one tree and at least one model. greedy: the class at the end of the
    best children. z: room for the scores of a node. narrow: for dense samples, or None
    for the precision of the model.
    """
    cdef Reach reach = Reach(model.forest, narrow)
    cdef SampleWalks walks
    cdef float[::1] x
    cdef ForestView* f = &model.forest.view
    cdef cython.floating* coef = <cython.floating*>model.coef
    cdef cython.floating* intercept = <cython.floating*>model.intercept
    cdef Watch watch = watch_of(stop)
    if samples.view.n == 0:
        return
    walks.x, walks.error = NULL, 0
    walks.watch = &watch
    if narrow is not None:
        x = floats(SIDE * narrow.stride)
        walks.x, walks.stride = &x[0], narrow.stride
        walks.coef, walks.error = narrow.coef, narrow.error
    with nogil:
        rounds(
            f, &walks, reach, &samples.view, coef, intercept, &z[0], greedy, &found[0],
            &n_dots[0],
        )
    propagate()


def floats(Py_ssize_t n):
    """Room for n floats, from a line of the cache on."""
    import numpy as np

    room = np.zeros(n + STRIDE, dtype=np.float32)
    start = -(room.ctypes.data // 4) % STRIDE
    return room[start : start + n]
