"""Log-linear model over several context trees at once, by exact softmax.

    score(y | x) = sum over trees t, over nodes n on x's path in t, of beta_n w(n, y)

The trees stand one after the other in one numbering of nodes; only the first keeps
its root, which the others would only repeat. A sample is the deepest node of its path
in each tree, -1 where the path is empty. Pairs (n, y) that do not occur in training
have no weight. beta is a number for each depth: that of a node is the length of its way
up, and one more where the root is not among the nodes. Weights are in double precision
while they are fitted, and in single precision in a fitted model.

Cost of a sample: the pairs of the nodes on its paths, once to score, once for the
gradient, and the exponentials of the outcomes.
"""

from libc.math cimport exp, log
from libc.stdint cimport int32_t

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


cdef double _exponentials(double *score, Py_ssize_t n_outcomes,
                          double *total) noexcept nogil:
    """score <- exp(score - top), their sum to `total`; returns the top."""
    cdef Py_ssize_t y
    cdef double top = score[0], s = 0.0
    for y in range(1, n_outcomes):
        if score[y] > top:
            top = score[y]
    for y in range(n_outcomes):
        score[y] = exp(score[y] - top)
        s += score[y]
    total[0] = s
    return top


def add_gradient(const int32_t[:, ::1] nodes, const int32_t[::1] outcome,
                 const double[::1] weight, const int32_t[::1] parent,
                 const int32_t[::1] ptr, const int32_t[::1] target,
                 const double[::1] beta, const double[::1] w, double[::1] score,
                 double[::1] gradient):
    """Add the slopes of the losses to `gradient`; returns the sum of the losses."""
    cdef Py_ssize_t i, t, k, n_trees = nodes.shape[1], n_outcomes = score.shape[0]
    cdef int32_t n, p
    cdef double raw, top, total, b, loss = 0.0
    with nogil:
        for i in range(nodes.shape[0]):
            _scores(&nodes[i, 0], n_trees, &parent[0], &ptr[0], &target[0], &beta[0],
                    &w[0], &score[0], n_outcomes)
            raw = score[outcome[i]]
            top = _exponentials(&score[0], n_outcomes, &total)
            loss += weight[i] * (top + log(total) - raw)
            total = weight[i] / total
            for t in range(n_outcomes):
                score[t] *= total
            score[outcome[i]] -= weight[i]
            for t in range(n_trees):
                n = nodes[i, t]
                k = _depth(n, &parent[0], t == 0)
                while n >= 0:
                    b = beta[k]
                    for p in range(ptr[n], ptr[n + 1]):
                        gradient[p] += b * score[target[p]]
                    n = parent[n]
                    k -= 1
    return loss


def log_rows(const int32_t[:, ::1] nodes, const int32_t[::1] parent,
             const int32_t[::1] ptr, const int32_t[::1] target,
             const double[::1] beta, const real[::1] w, double[:, ::1] out):
    """ln P of every outcome for each sample."""
    cdef Py_ssize_t i, y, n_trees = nodes.shape[1], n_outcomes = out.shape[1]
    cdef double top, total
    with nogil:
        for i in range(nodes.shape[0]):
            _scores(&nodes[i, 0], n_trees, &parent[0], &ptr[0], &target[0], &beta[0],
                    &w[0], &out[i, 0], n_outcomes)
            top = out[i, 0]
            for y in range(1, n_outcomes):
                if out[i, y] > top:
                    top = out[i, y]
            total = 0.0
            for y in range(n_outcomes):
                total += exp(out[i, y] - top)
            top += log(total)
            for y in range(n_outcomes):
                out[i, y] -= top


def log_targets(const int32_t[:, ::1] nodes, const int32_t[::1] outcome,
                const int32_t[::1] parent, const int32_t[::1] ptr,
                const int32_t[::1] target, const double[::1] beta,
                const real[::1] w, double[::1] score, double[::1] out):
    """ln P of one outcome for each sample; `score` is scratch for the outcomes."""
    cdef Py_ssize_t i, n_outcomes = score.shape[0], n_trees = nodes.shape[1]
    cdef double raw, top, total
    with nogil:
        for i in range(nodes.shape[0]):
            _scores(&nodes[i, 0], n_trees, &parent[0], &ptr[0], &target[0], &beta[0],
                    &w[0], &score[0], n_outcomes)
            raw = score[outcome[i]]
            top = _exponentials(&score[0], n_outcomes, &total)
            out[i] = raw - top - log(total)
