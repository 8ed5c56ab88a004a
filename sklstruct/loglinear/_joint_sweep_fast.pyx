"""Sweeps over one of several trees in a joint softmax, whose scores are kept.

    scores[i, y] = sum over trees t, over nodes n on i's path in t, of beta_n w(n, y)

in single precision. Samples whose contexts are the same in all trees share the row i.
With them kept, a tree is its own problem: `expected` gives, for each pair (n, y)
of a tree, the sum of P(y | i), times the weight of its samples, over the rows i at or
below n; `move` adds the change of one tree's weights to the scores.

Both walk a range of branches depth first, with one row of scratch a level: `expected`
hands the sums of children to their parent, `move` hands the change of a context's
scores to its children. Cost: a row of exponentials and one of additions for each row of
scores, one of additions a node, and the pairs once. Rows are reached in the order of
the tree, which is not that of memory: the next ones are prefetched.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

cdef extern from "_joint.h" nogil:
    double softmax "sklstruct_softmax"(
        Py_ssize_t n, const float* s, float* p) noexcept
    void add_row "sklstruct_add_row"(
        Py_ssize_t n, const float* a, float* b) noexcept
    void scale_row "sklstruct_scale_row"(
        Py_ssize_t n, float factor, float* a) noexcept
    void SKLSTRUCT_PREFETCH(const void* address) noexcept

cdef enum:
    AHEAD = 6  # rows that are prefetched
    RUN = 64  # rows that are added to each other before they are added to others


cdef class Observed:
    """The outcomes of the samples of each row, the same for all trees.

    ptr (n_rows + 1), outcome, weight: row i was followed by outcome[ptr[i]] ..., each
    once, of these weights.
    """

    cdef const int64_t[::1] ptr
    cdef const int32_t[::1] outcome
    cdef const double[::1] weight

    def __init__(self, const int64_t[::1] ptr, const int32_t[::1] outcome,
                 const double[::1] weight):
        self.ptr, self.outcome, self.weight = ptr, outcome, weight


cdef class SampleTree:
    """A tree, its pairs, and the rows that end at its nodes: the same in all sweeps.

    child_ptr, first (n_nodes + 1): children of node n are the nodes child_ptr[n] ...,
    its rows order[first[n]] ... ; ptr (n_nodes + 1), target (n_pairs): its pairs;
    beta: one number per level. n_outcomes: columns of the scores.
    """

    cdef const int32_t[::1] child_ptr
    cdef const int64_t[::1] first
    cdef const int32_t[::1] order
    cdef const int32_t[::1] ptr
    cdef const int32_t[::1] target
    cdef const double[::1] beta
    cdef Py_ssize_t n_outcomes

    def __init__(self, problem, first, order):
        self.child_ptr, self.first, self.order = problem.tree.child_ptr, first, order
        self.ptr, self.target = problem.pair_ptr, problem.pairs.target
        self.beta, self.n_outcomes = problem.beta_by_depth, problem.n_classes


cdef struct Walk:
    const int32_t *child_ptr
    const int64_t *first
    const int32_t *order
    const int32_t *ptr
    const int32_t *target
    const double *beta
    const float *scores
    const int64_t *observed
    const int32_t *outcome
    const double *weight
    float *changed     # scores that may be written
    float *rows        # one row per level
    float *spare       # two other rows
    double *out
    const double *step
    Py_ssize_t n
    Py_ssize_t n_order
    double loss


cdef inline void _ask(Walk *walk, int64_t i) noexcept nogil:
    """Prefetch a row further on, about half a kilobyte."""
    cdef Py_ssize_t a
    cdef const float *row
    if i + AHEAD < walk.n_order:
        row = walk.scores + walk.order[i + AHEAD] * walk.n
        for a in range(0, min(walk.n, 128), 16):
            SKLSTRUCT_PREFETCH(row + a)


cdef void _expect_row(Walk *walk, int32_t row, float *out) noexcept nogil:
    """out <- P after a row, times the weight of its samples; adds up their losses."""
    cdef const float *s = walk.scores + row * walk.n
    cdef double log_total = softmax(walk.n, s, out), total = 0.0
    cdef int64_t i
    for i in range(walk.observed[row], walk.observed[row + 1]):
        walk.loss += walk.weight[i] * (log_total - s[walk.outcome[i]])
        total += walk.weight[i]
    if total != 1.0:
        scale_row(walk.n, <float> total, out)


cdef void _expect_own(Walk *walk, int32_t node, float *total) noexcept nogil:
    """total <- sums of P over the rows that end at a node, of which there are some.

    Rows are summed up in runs: of a sum of millions in single precision, one row after
    the other, little would be left.
    """
    cdef float *row = walk.spare
    cdef float *run = total  # the first
    cdef int64_t i, a = walk.first[node]
    for i in range(a, walk.first[node + 1]):
        _ask(walk, i)
        if (i - a) % RUN:
            _expect_row(walk, walk.order[i], row)
            add_row(walk.n, row, run)
        else:
            if run != total:
                add_row(walk.n, run, total)
            if i > a:
                run = walk.spare + walk.n
            _expect_row(walk, walk.order[i], run)
    if run != total:
        add_row(walk.n, run, total)


cdef float *_expect(Walk *walk, int32_t node, Py_ssize_t level) noexcept nogil:
    """Sums of P at or below a node: a row that the next call on its level changes."""
    cdef float *total = walk.rows + level * walk.n
    cdef float *part
    cdef int32_t child
    cdef Py_ssize_t p
    cdef bint empty = walk.first[node] == walk.first[node + 1]
    if not empty:
        _expect_own(walk, node, total)
    for child in range(walk.child_ptr[node], walk.child_ptr[node + 1]):
        part = _expect(walk, child, level + 1)
        if not empty:
            add_row(walk.n, part, total)
        elif child + 1 == walk.child_ptr[node + 1]:
            total = part  # the only one
        else:
            memcpy(total, part, walk.n * sizeof(float))
        empty = False
    if empty:
        memset(total, 0, walk.n * sizeof(float))
    for p in range(walk.ptr[node], walk.ptr[node + 1]):
        walk.out[p] = total[walk.target[p]]
    return total


cdef void _shift(Walk *walk, int32_t node, Py_ssize_t level,
                 const float *above) noexcept nogil:
    """Add the change of the scores to all rows at or below a node."""
    cdef float *change = walk.rows + level * walk.n
    cdef float *row
    cdef float b = <float> walk.beta[level]
    cdef int64_t i, a = walk.first[node], z = walk.first[node + 1]
    cdef int32_t child
    cdef Py_ssize_t p
    cdef bint leaf = walk.child_ptr[node] == walk.child_ptr[node + 1]
    if leaf and z - a == 1:
        _ask(walk, a)
        row = walk.changed + walk.order[a] * walk.n
        add_row(walk.n, above, row)
        for p in range(walk.ptr[node], walk.ptr[node + 1]):
            row[walk.target[p]] += b * <float> walk.step[p]
        return
    memcpy(change, above, walk.n * sizeof(float))
    for p in range(walk.ptr[node], walk.ptr[node + 1]):
        change[walk.target[p]] += b * <float> walk.step[p]
    for i in range(a, z):
        _ask(walk, i)
        add_row(walk.n, change, walk.changed + walk.order[i] * walk.n)
    for child in range(walk.child_ptr[node], walk.child_ptr[node + 1]):
        _shift(walk, child, level + 1, change)


cdef Walk _walk(SampleTree tree, Observed observed, const float[:, ::1] scores,
                float[:, ::1] rows) noexcept:
    cdef Walk walk
    walk.child_ptr, walk.first = &tree.child_ptr[0], &tree.first[0]
    walk.order, walk.ptr = &tree.order[0], &tree.ptr[0]
    walk.target, walk.beta = &tree.target[0], &tree.beta[0]
    walk.scores = &scores[0, 0]
    walk.n, walk.n_order = tree.n_outcomes, tree.order.shape[0]
    walk.rows, walk.spare = &rows[2, 0], &rows[0, 0]
    if observed is not None:
        walk.observed, walk.outcome = &observed.ptr[0], &observed.outcome[0]
        walk.weight = &observed.weight[0]
    walk.loss = 0.0
    return walk


def expected(SampleTree tree, Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t level,
             const float[:, ::1] scores, Observed observed, float[:, ::1] rows,
             double[::1] out, float[::1] total):
    """Expected counts of the pairs of the branches of nodes lo:hi, of one level.

    rows: scratch, one row per level and three more. `total` += the sums over all
    branches. Returns the sum of the losses of their samples.
    """
    cdef Walk walk = _walk(tree, observed, scores, rows)
    cdef Py_ssize_t node
    walk.out = &out[0]
    with nogil:
        for node in range(lo, hi):
            add_row(walk.n, _expect(&walk, <int32_t> node, level), &total[0])
    return walk.loss


def own_samples(SampleTree tree, Py_ssize_t node, const float[:, ::1] scores,
                Observed observed, float[:, ::1] rows, float[::1] total):
    """The same for the rows that end at one node, without those below it."""
    cdef Walk walk = _walk(tree, observed, scores, rows)
    with nogil:
        if walk.first[node] < walk.first[node + 1]:
            _expect_own(&walk, <int32_t> node, walk.rows)
            add_row(walk.n, walk.rows, &total[0])
    return walk.loss


def move(SampleTree tree, Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t level,
         const float[::1] above, const double[::1] step, float[:, ::1] rows,
         float[:, ::1] scores):
    """Add to the scores the change `step` of the weights of the branches of lo:hi, and
    `above`, that of the contexts above them."""
    cdef Walk walk = _walk(tree, None, scores, rows)
    cdef Py_ssize_t node
    walk.changed, walk.step = &scores[0, 0], &step[0]
    with nogil:
        for node in range(lo, hi):
            _shift(&walk, <int32_t> node, level, &above[0])


def move_own(SampleTree tree, Py_ssize_t node, const float[::1] change,
             float[:, ::1] scores):
    """Add `change` to the scores of the rows that end at one node."""
    cdef int64_t i
    with nogil:
        for i in range(tree.first[node], tree.first[node + 1]):
            add_row(tree.n_outcomes, &change[0], &scores[tree.order[i], 0])
