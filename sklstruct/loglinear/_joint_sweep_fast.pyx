"""Sweeps over one of several trees in a joint softmax, whose scores are kept.

    scores[i, y] = sum over trees t, over nodes n on i's path in t, of beta_n w(n, y)

in single precision, a row a sample. With them kept, a tree is a problem of its own:
`expected` gives, for each pair (n, y) of a tree, the sum of P(y | x_i) over the samples
i at or below n; `move` adds the change of one tree's weights to the scores.

Both walk a range of branches depth first, with one row of scratch a level: `expected`
hands the sums of children to their parent, `move` hands the change of a context's
scores to its children. Cost: a row of exponentials a sample, a row of additions a node,
and the pairs once. Rows of samples are reached in the order of the tree, which is not
that of memory: the next ones are prefetched.
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

# Samples whose rows are prefetched.
cdef enum:
    AHEAD = 6


cdef class SampleTree:
    """A tree, its pairs, and the samples that end at its nodes: the same in all sweeps.

    child_ptr, first (n_nodes + 1): children of node n are the nodes child_ptr[n] ...,
    its samples order[first[n]] ... ; ptr (n_nodes + 1), target (n_pairs): its pairs;
    beta: a number a level. n_outcomes: columns of the scores.
    """

    cdef const int32_t[::1] child_ptr
    cdef const int64_t[::1] first
    cdef const int32_t[::1] order
    cdef const int32_t[::1] ptr
    cdef const int32_t[::1] target
    cdef const double[::1] beta
    cdef Py_ssize_t n_outcomes

    def __init__(self, const int32_t[::1] child_ptr, const int64_t[::1] first,
                 const int32_t[::1] order, const int32_t[::1] ptr,
                 const int32_t[::1] target, const double[::1] beta,
                 Py_ssize_t n_outcomes):
        if not child_ptr.shape[0] == first.shape[0] == ptr.shape[0]:
            raise ValueError("one entry a node, and one more where they start")
        self.child_ptr, self.first, self.order = child_ptr, first, order
        self.ptr, self.target, self.beta = ptr, target, beta
        self.n_outcomes = n_outcomes


cdef struct Walk:
    const int32_t *child_ptr
    const int64_t *first
    const int32_t *order
    const int32_t *ptr
    const int32_t *target
    const double *beta
    const float *scores
    const int32_t *outcome
    const double *weight
    float *changed     # scores that may be written
    float *rows        # a row a level
    float *spare       # another row
    double *out
    const double *step
    Py_ssize_t n
    Py_ssize_t n_order
    double loss


cdef inline void _ask(Walk *walk, int64_t i) noexcept nogil:
    """Prefetch the row of a sample further on, about half a kilobyte."""
    cdef Py_ssize_t a
    cdef const float *row
    if i + AHEAD < walk.n_order:
        row = walk.scores + walk.order[i + AHEAD] * walk.n
        for a in range(0, min(walk.n, 128), 16):
            SKLSTRUCT_PREFETCH(row + a)


cdef float *_expect(Walk *walk, int32_t node, Py_ssize_t level) noexcept nogil:
    """Sums of P at or below a node: a row that the next call on its level changes."""
    cdef float *total = walk.rows + level * walk.n
    cdef float *part
    cdef int64_t i
    cdef int32_t child, row
    cdef Py_ssize_t p
    cdef double v, log_total
    cdef const float *s
    cdef bint empty = True
    for i in range(walk.first[node], walk.first[node + 1]):
        _ask(walk, i)
        row = walk.order[i]
        v = walk.weight[row]
        s = walk.scores + row * walk.n
        part = total if empty else walk.spare
        log_total = softmax(walk.n, s, part)
        walk.loss += v * (log_total - s[walk.outcome[row]])
        if v != 1.0:
            scale_row(walk.n, <float> v, part)
        if not empty:
            add_row(walk.n, part, total)
        empty = False
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
    """Add the change of the scores to all samples at or below a node."""
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


cdef Walk _walk(SampleTree tree, const float[:, ::1] scores,
                float[:, ::1] rows) noexcept:
    cdef Walk walk
    walk.child_ptr, walk.first = &tree.child_ptr[0], &tree.first[0]
    walk.order, walk.ptr = &tree.order[0], &tree.ptr[0]
    walk.target, walk.beta = &tree.target[0], &tree.beta[0]
    walk.scores = &scores[0, 0]
    walk.n, walk.n_order = tree.n_outcomes, tree.order.shape[0]
    walk.rows, walk.spare = &rows[1, 0], &rows[0, 0]
    walk.loss = 0.0
    return walk


def expected(SampleTree tree, Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t level,
             const float[:, ::1] scores, const int32_t[::1] outcome,
             const double[::1] weight, float[:, ::1] rows, double[::1] out,
             float[::1] total):
    """Expected counts of the pairs of the branches of nodes lo:hi, of one level.

    rows: scratch, a row a level and two more. `total` += the sums over all branches.
    Returns the sum of the losses of their samples.
    """
    cdef Walk walk = _walk(tree, scores, rows)
    cdef Py_ssize_t node
    walk.outcome, walk.weight, walk.out = &outcome[0], &weight[0], &out[0]
    with nogil:
        for node in range(lo, hi):
            add_row(walk.n, _expect(&walk, <int32_t> node, level), &total[0])
    return walk.loss


def own_samples(SampleTree tree, Py_ssize_t node, const float[:, ::1] scores,
                const int32_t[::1] outcome, const double[::1] weight,
                float[:, ::1] rows, float[::1] total):
    """The same for the samples that end at one node, without those below it."""
    cdef Walk walk = _walk(tree, scores, rows)
    cdef int64_t i
    cdef int32_t row
    with nogil:
        for i in range(walk.first[node], walk.first[node + 1]):
            _ask(&walk, i)
            row = walk.order[i]
            walk.loss += weight[row] * (
                softmax(walk.n, &scores[row, 0], walk.spare)
                - scores[row, outcome[row]])
            scale_row(walk.n, <float> weight[row], walk.spare)
            add_row(walk.n, walk.spare, &total[0])
    return walk.loss


def move(SampleTree tree, Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t level,
         const float[::1] above, const double[::1] step, float[:, ::1] rows,
         float[:, ::1] scores):
    """Add to the scores the change `step` of the weights of the branches of lo:hi, and
    `above`, that of the contexts above them."""
    cdef Walk walk = _walk(tree, scores, rows)
    cdef Py_ssize_t node
    walk.changed, walk.step = &scores[0, 0], &step[0]
    with nogil:
        for node in range(lo, hi):
            _shift(&walk, <int32_t> node, level, &above[0])


def move_own(SampleTree tree, Py_ssize_t node, const float[::1] change,
             float[:, ::1] scores):
    """Add `change` to the scores of the samples that end at one node."""
    cdef int64_t i
    with nogil:
        for i in range(tree.first[node], tree.first[node + 1]):
            add_row(tree.n_outcomes, &change[0], &scores[tree.order[i], 0])
