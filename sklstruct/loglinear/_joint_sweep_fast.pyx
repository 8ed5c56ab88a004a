"""Sweeps over one of several trees in a joint softmax, whose scores are kept.

    scores[i, y] = sum over trees t, over nodes n on i's path in t, of beta_n w(n, y)

in single precision. Samples whose contexts are the same in all trees share the row i.
With stored scores, each tree is a separate problem: `expected` gives, for each pair
(n, y) of a tree, the sum of P(y | i), times the weight of its samples, over the rows i
at or below n; `move` adds the change of one tree's weights to the scores.

Both traverse a range of branches depth first, with one row of scratch per level:
`expected` adds the sums of children to their parent, `move` passes the change of a
context's scores to its children. Cost: a row of exponentials and one of additions for
each row of scores, one of additions a node, and the pairs once. Rows are visited in the
order of the tree, not of memory, so the next rows are prefetched.
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


cdef class SampleTree:
    """A tree, its pairs, the rows that end at its nodes, and the scores.

    child_ptr, first (n_nodes + 1): children of node n are the nodes child_ptr[n] ...,
    its rows order[first[n]] ... ; ptr (n_nodes + 1), target (n_pairs): its pairs;
    beta: one number per level.
    observed (n_rows + 1), outcome, weight: row i was followed by outcome[observed[i]]
    ..., each once, of these weights. scores (n_rows, n): changed by `move`.
    """

    cdef const int32_t[::1] child_ptr, order, ptr, target, outcome
    cdef const int64_t[::1] first, observed
    cdef const double[::1] beta, weight
    cdef float[:, ::1] scores
    cdef Py_ssize_t n

    def __init__(self, problem, first, order, observed, outcome, weight, scores):
        self.child_ptr, self.first, self.order = problem.tree.child_ptr, first, order
        self.ptr, self.target = problem.pair_ptr, problem.pairs.target
        self.beta, self.scores, self.n = problem.beta_by_depth, scores, scores.shape[1]
        self.observed, self.outcome, self.weight = observed, outcome, weight


cdef struct Walk:
    float *rows        # one row per level
    float *spare       # two other rows
    double *out
    const double *step
    double loss


cdef inline void _ask(SampleTree t, int64_t i) noexcept nogil:
    """Prefetch a row further on, about half a kilobyte."""
    cdef Py_ssize_t a
    cdef const float *row
    if i + AHEAD < t.order.shape[0]:
        row = &t.scores[t.order[i + AHEAD], 0]
        for a in range(0, min(t.n, 128), 16):
            SKLSTRUCT_PREFETCH(row + a)


cdef void _expect_row(
    SampleTree t, Walk *walk, int32_t row, float *out
) noexcept nogil:
    """out <- P after a row, times the weight of its samples; adds up their losses."""
    cdef const float *s = &t.scores[row, 0]
    cdef double log_total = softmax(t.n, s, out), total = 0.0
    cdef int64_t i
    for i in range(t.observed[row], t.observed[row + 1]):
        walk.loss += t.weight[i] * (log_total - s[t.outcome[i]])
        total += t.weight[i]
    if total != 1.0:
        scale_row(t.n, <float> total, out)


cdef void _expect_own(
    SampleTree t, Walk *walk, int32_t node, float *total
) noexcept nogil:
    """total <- sums of P over the rows that end at a node, of which there are some.

    Rows are summed in runs, because a running sum of millions of rows in single
    precision would be inaccurate.
    """
    cdef float *row = walk.spare
    cdef float *run = total  # the first
    cdef int64_t i, a = t.first[node]
    for i in range(a, t.first[node + 1]):
        _ask(t, i)
        if (i - a) % RUN:
            _expect_row(t, walk, t.order[i], row)
            add_row(t.n, row, run)
        else:
            if run != total:
                add_row(t.n, run, total)
            if i > a:
                run = walk.spare + t.n
            _expect_row(t, walk, t.order[i], run)
    if run != total:
        add_row(t.n, run, total)


cdef float *_expect(
    SampleTree t, Walk *walk, int32_t node, Py_ssize_t level
) noexcept nogil:
    """Sums of P at or below a node: a row that the next call on its level changes."""
    cdef float *total = walk.rows + level * t.n
    cdef float *part
    cdef int32_t child
    cdef Py_ssize_t p
    cdef bint empty = t.first[node] == t.first[node + 1]
    if not empty:
        _expect_own(t, walk, node, total)
    for child in range(t.child_ptr[node], t.child_ptr[node + 1]):
        part = _expect(t, walk, child, level + 1)
        if not empty:
            add_row(t.n, part, total)
        elif child + 1 == t.child_ptr[node + 1]:
            total = part  # the only one
        else:
            memcpy(total, part, t.n * sizeof(float))
        empty = False
    if empty:
        memset(total, 0, t.n * sizeof(float))
    for p in range(t.ptr[node], t.ptr[node + 1]):
        walk.out[p] = total[t.target[p]]
    return total


cdef void _shift(SampleTree t, Walk *walk, int32_t node, Py_ssize_t level,
                 const float *above) noexcept nogil:
    """Add the change of the scores to all rows at or below a node."""
    cdef float *change = walk.rows + level * t.n
    cdef float *row
    cdef float b = <float> t.beta[level]
    cdef int64_t i, a = t.first[node], z = t.first[node + 1]
    cdef int32_t child
    cdef Py_ssize_t p
    cdef bint leaf = t.child_ptr[node] == t.child_ptr[node + 1]
    if leaf and z - a == 1:
        _ask(t, a)
        row = &t.scores[t.order[a], 0]
        add_row(t.n, above, row)
        for p in range(t.ptr[node], t.ptr[node + 1]):
            row[t.target[p]] += b * <float> walk.step[p]
        return
    memcpy(change, above, t.n * sizeof(float))
    for p in range(t.ptr[node], t.ptr[node + 1]):
        change[t.target[p]] += b * <float> walk.step[p]
    for i in range(a, z):
        _ask(t, i)
        add_row(t.n, change, &t.scores[t.order[i], 0])
    for child in range(t.child_ptr[node], t.child_ptr[node + 1]):
        _shift(t, walk, child, level + 1, change)


cdef Walk _walk(float[:, ::1] rows) noexcept:
    cdef Walk walk
    walk.rows, walk.spare, walk.loss = &rows[2, 0], &rows[0, 0], 0.0
    return walk


def expected(SampleTree t, Py_ssize_t lo, Py_ssize_t hi, float[:, ::1] rows,
             double[::1] out, float[::1] total):
    """Expected counts of the pairs of the branches lo:hi, nodes below the root.

    rows: scratch, one row per level and three more. `total` += the sums over all
    branches. Returns the sum of the losses of their samples.
    """
    cdef Walk walk = _walk(rows)
    cdef Py_ssize_t node
    walk.out = &out[0]
    with nogil:
        for node in range(lo, hi):
            add_row(t.n, _expect(t, &walk, <int32_t> node, 1), &total[0])
    return walk.loss


def own_samples(SampleTree t, float[:, ::1] rows, float[::1] total):
    """`expected` for the rows that end at the root."""
    cdef Walk walk = _walk(rows)
    with nogil:
        if t.first[0] < t.first[1]:
            _expect_own(t, &walk, 0, walk.rows)
            add_row(t.n, walk.rows, &total[0])
    return walk.loss


def move(SampleTree t, Py_ssize_t lo, Py_ssize_t hi, const float[::1] above,
         const double[::1] step, float[:, ::1] rows):
    """Add to the scores the change `step` of the weights of the branches lo:hi, and
    `above`, that of the root."""
    cdef Walk walk = _walk(rows)
    cdef Py_ssize_t node
    walk.step = &step[0]
    with nogil:
        for node in range(lo, hi):
            _shift(t, &walk, <int32_t> node, 1, &above[0])


def move_own(SampleTree t, const float[::1] change):
    """Add `change` to the scores of the rows that end at the root."""
    cdef int64_t i
    with nogil:
        for i in range(t.first[0], t.first[1]):
            add_row(t.n, &change[0], &t.scores[t.order[i], 0])
