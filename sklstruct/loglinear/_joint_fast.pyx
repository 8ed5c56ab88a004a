"""Log-linear model over several context trees at once, by exact softmax.

    score(y | x) = sum over trees t, over nodes n on x's path in t, of beta_n w(n, y)

The trees stand one after the other in one numbering of nodes; only the first keeps
its root, which the others would only repeat. A sample is the deepest node of its path
in each tree, -1 where the path is empty. Pairs (n, y) that do not occur in training
have no weight. beta is a number for each depth: that of a node is the length of its way
up, and one more where the root is not among the nodes. Weights are in double precision
while they are fitted, and in single precision in a fitted model.

Cost of a sample: the pairs of the nodes on its paths, once to score, once for the
gradient, and the exponentials of the outcomes. Fitted models score many samples, those
of one context one after the other, and use the sums over the upper part of a path,
where most pairs are, again: a row of additions a tree, and the pairs of the lower part.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport log
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

cdef extern from "_joint.h" nogil:
    double exp_sum "sklstruct_exp_sum"(
        Py_ssize_t n, const double* u, double top, double* e) noexcept
    double largest "sklstruct_largest"(Py_ssize_t n, const double* s) noexcept
    void add_doubles "sklstruct_add_doubles"(
        Py_ssize_t n, const double* a, double* b) noexcept

from .._prefetch cimport prefetch

cdef enum:
    # A node with fewer pairs than one in so many outcomes has no row of its own.
    SPARSE = 16
    # Samples whose pointers are prefetched, and then their pairs.
    AHEAD = 8

ctypedef fused real:
    float
    double


cdef inline Py_ssize_t _depth(int32_t n, const int32_t *parent,
                              bint first) noexcept nogil:
    """Of a node of the first tree, which has its root, or of another; -1 for none."""
    cdef Py_ssize_t k = -1 if first or n < 0 else 0
    while n >= 0:
        k += 1
        n = parent[n]
    return k


cdef void _scores(const int32_t *nodes, Py_ssize_t n_trees, const int32_t *parent,
                  const int32_t *ptr, const int32_t *target, const double *beta,
                  const real *w, double *score,
                  Py_ssize_t n_outcomes) noexcept nogil:
    cdef Py_ssize_t t, k, y
    cdef int32_t n, p
    cdef double b
    for y in range(n_outcomes):
        score[y] = 0.0
    for t in range(n_trees):
        n = nodes[t]
        k = _depth(n, parent, t == 0)
        while n >= 0:
            b = beta[k]
            for p in range(ptr[n], ptr[n + 1]):
                score[target[p]] += b * w[p]
            n = parent[n]
            k -= 1


def add_scores(const int32_t[::1] node, const int64_t[::1] order, bint first,
               const int32_t[::1] parent, const int32_t[::1] ptr,
               const int32_t[::1] target, const double[::1] beta, const real[::1] w,
               int32_t[::1] path, double[:, ::1] rows, double[:, ::1] score):
    """score[i] += the scores of one tree for the sample that ends at its node[i]; of
    the first tree, in which each sample has a node, score[i] = them.

    order: the samples, those of one context one after the other. A node with pairs of
    a SPARSE-th of the outcomes or more has a row of sums from the top of its path,
    which the next samples use again; it adds the rows, then the pairs of the nodes
    below. So what a sample gets does not depend on the others. path (n_levels): the
    nodes whose sums `rows` (n_levels, n_outcomes) holds, -1 for none. first: whether it
    is the tree with the root.
    """
    cdef Py_ssize_t i, j, k, top = 0 if first else 1, n_outcomes = score.shape[1]
    cdef Py_ssize_t dense, depth, m = order.shape[0]
    cdef int32_t n, p
    cdef double b
    cdef double *out
    # Without pairs there are no addresses to take.
    if target.shape[0] == 0:
        if first:
            score[:] = 0.0
        return
    with nogil:
        for i in range(m + 2 * AHEAD):
            if i < m:
                n = node[order[i]]
                if n >= 0:
                    prefetch(&ptr[n], 1)
                    prefetch(&parent[n], 1)
            if AHEAD <= i < m + AHEAD:
                j = order[i - AHEAD]
                n = node[j]
                if n >= 0:
                    prefetch(&target[0] + ptr[n], 1)
                    prefetch(&w[0] + ptr[n], 1)
                    prefetch(&score[j, 0], n_outcomes * sizeof(double))
            if i < 2 * AHEAD:
                continue
            j = order[i - 2 * AHEAD]
            n = node[j]
            if n < 0:
                continue
            depth = _depth(n, &parent[0], first)
            # The longer a context, the fewer classes were seen after it.
            dense = depth
            while dense >= top and SPARSE * (ptr[n + 1] - ptr[n]) < n_outcomes:
                n = parent[n]
                dense -= 1
            out = &score[j, 0]
            if dense >= top:
                _sums(n, dense, top, &parent[0], &ptr[0], &target[0], &beta[0], &w[0],
                      &path[0], rows)
                if first:
                    memcpy(out, &rows[dense, 0], n_outcomes * sizeof(double))
                else:
                    add_doubles(n_outcomes, &rows[dense, 0], out)
            elif first:
                memset(out, 0, n_outcomes * sizeof(double))
            n = node[j]
            for k in range(depth, dense, -1):
                b = beta[k]
                for p in range(ptr[n], ptr[n + 1]):
                    out[target[p]] += b * w[p]
                n = parent[n]


cdef void _sums(int32_t node, Py_ssize_t k, Py_ssize_t top, const int32_t *parent,
                const int32_t *ptr, const int32_t *target, const double *beta,
                const real *w, int32_t *path, double[:, ::1] rows) noexcept nogil:
    """rows[k] <- the scores of a node of depth k and of those above it."""
    cdef Py_ssize_t n_outcomes = rows.shape[1]
    cdef double *row = &rows[k, 0]
    cdef int32_t p
    if path[k] == node:
        return
    if k > top:
        _sums(parent[node], k - 1, top, parent, ptr, target, beta, w, path, rows)
        memcpy(row, &rows[k - 1, 0], n_outcomes * sizeof(double))
    else:
        memset(row, 0, n_outcomes * sizeof(double))
    for p in range(ptr[node], ptr[node + 1]):
        row[target[p]] += beta[k] * w[p]
    path[k] = node


cdef struct Sums:
    const int32_t *parent
    const int32_t *ptr
    const int32_t *target
    const double *beta
    int32_t *path      # the node of each level whose sum is not handed on yet
    double *rows       # a sum a level
    double *gradient
    Py_ssize_t top, n_outcomes


cdef void _hand_on(Sums *sums, Py_ssize_t k) noexcept nogil:
    """The sum of a level to the slopes of its node, and to the node above."""
    cdef double *row = sums.rows + k * sums.n_outcomes
    cdef int32_t p, node = sums.path[k]
    for p in range(sums.ptr[node], sums.ptr[node + 1]):
        sums.gradient[p] += sums.beta[k] * row[sums.target[p]]
    if k > sums.top:
        _collect(sums, sums.parent[node], k - 1, row)


cdef void _collect(Sums *sums, int32_t node, Py_ssize_t k,
                   const double *row) noexcept nogil:
    """Add a row to the sum of a node of depth k."""
    cdef double *total = sums.rows + k * sums.n_outcomes
    cdef Py_ssize_t y
    if sums.path[k] == node:
        for y in range(sums.n_outcomes):
            total[y] += row[y]
        return
    if sums.path[k] >= 0:
        _hand_on(sums, k)
    sums.path[k] = node
    memcpy(total, row, sums.n_outcomes * sizeof(double))


def add_slopes(const int32_t[::1] node, const int64_t[::1] order, bint first,
               const int32_t[::1] parent, const int32_t[::1] ptr,
               const int32_t[::1] target, const double[::1] beta, int32_t[::1] path,
               double[:, ::1] rows, const double[:, ::1] slope, double[::1] gradient):
    """gradient += the slopes of the pairs of one tree, of those of the scores.

    What `add_scores` does, turned round, with its parameters: a node with many pairs
    has a row of sums over the samples one after the other that end there or below.
    path: all -1, and so it is left.
    """
    cdef Py_ssize_t i, j, k, n_outcomes = slope.shape[1]
    cdef int32_t n, p
    cdef double b
    cdef const double *row
    cdef Sums sums
    # Without pairs there are no addresses to take.
    if target.shape[0] == 0:
        return
    sums.parent, sums.ptr, sums.target = &parent[0], &ptr[0], &target[0]
    sums.beta, sums.path, sums.rows = &beta[0], &path[0], &rows[0, 0]
    sums.gradient, sums.n_outcomes = &gradient[0], n_outcomes
    sums.top = 0 if first else 1
    with nogil:
        for i in range(order.shape[0]):
            j = order[i]
            n = node[j]
            if n < 0:
                continue
            row = &slope[j, 0]
            k = _depth(n, &parent[0], first)
            while k >= sums.top and SPARSE * (ptr[n + 1] - ptr[n]) < n_outcomes:
                b = beta[k]
                for p in range(ptr[n], ptr[n + 1]):
                    gradient[p] += b * row[target[p]]
                n = parent[n]
                k -= 1
            if k >= sums.top:
                _collect(&sums, n, k, row)
        for k in range(path.shape[0] - 1, sums.top - 1, -1):
            if path[k] >= 0:
                _hand_on(&sums, k)
                path[k] = -1


def weighted_softmax(double[:, ::1] score, const double[::1] weight,
                     double[::1] out):
    """score <- the weight of its row times P of every outcome, of scores; out <- the
    logarithm of the sum of the exponentials of each row."""
    cdef Py_ssize_t i, y, n = score.shape[1]
    cdef double top, total
    cdef double *row
    with nogil:
        for i in range(score.shape[0]):
            row = &score[i, 0]
            top = largest(n, row)
            total = exp_sum(n, row, top, row)
            out[i] = top + log(total)
            total = weight[i] / total
            for y in range(n):
                row[y] *= total


cdef inline double _log_total(const double *score, Py_ssize_t n,
                              double *scratch) noexcept nogil:
    cdef double top = largest(n, score)
    return top + log(exp_sum(n, score, top, scratch))


def log_rows(double[:, ::1] score, double[::1] scratch):
    """score <- ln P of every outcome, of scores."""
    cdef Py_ssize_t i, y
    cdef double total
    with nogil:
        for i in range(score.shape[0]):
            total = _log_total(&score[i, 0], score.shape[1], &scratch[0])
            for y in range(score.shape[1]):
                score[i, y] -= total


def log_totals(const double[:, ::1] score, double[::1] scratch, double[::1] out):
    """out <- the logarithm of the sum of the exponentials of each row."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(score.shape[0]):
            out[i] = _log_total(&score[i, 0], score.shape[1], &scratch[0])


cdef class JointLeaf:
    """Scores of a fitted model after the nodes of one context, without arrays.

    Parameters
    ----------
    parent, ptr, target, beta, w
        Of the model.

    n_outcomes : int
        Number of outcomes.
    """

    cdef const int32_t[::1] parent, ptr, target
    cdef const double[::1] beta
    cdef const float[::1] w
    cdef Py_ssize_t n_outcomes

    def __init__(self, parent, ptr, target, beta, w, Py_ssize_t n_outcomes):
        self.parent, self.ptr, self.target = parent, ptr, target
        self.beta, self.w, self.n_outcomes = beta, w, n_outcomes

    def score(self, list nodes, Py_ssize_t y):
        """ln P of one outcome after the deepest node of each tree, -1 for none."""
        cdef Py_ssize_t t, n_trees = len(nodes), n = self.n_outcomes
        cdef double found
        # A call has memory of its own: threads may ask at the same time.
        cdef double *score = <double *> PyMem_Malloc(
            2 * n * sizeof(double) + n_trees * sizeof(int32_t))
        cdef int32_t *node = <int32_t *> (score + 2 * n)
        if score == NULL:
            raise MemoryError
        try:
            for t in range(n_trees):
                node[t] = nodes[t]
            # Without pairs there are no addresses to take.
            if self.w.shape[0]:
                _scores(node, n_trees, &self.parent[0], &self.ptr[0], &self.target[0],
                        &self.beta[0], &self.w[0], score, n)
            else:
                memset(score, 0, n * sizeof(double))
            found = score[y] - _log_total(score, n, score + n)
        finally:
            PyMem_Free(score)
        return found
