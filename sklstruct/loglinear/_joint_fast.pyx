"""Log-linear model over several context trees at once, by exact softmax.

    score(y | x) = sum over trees t, over nodes n on x's path in t, of beta_n w(n, y)

The trees stand one after the other in one numbering of nodes; only the first keeps
its root, which the others would only repeat. A sample is the deepest node of its path
in each tree, -1 where the path is empty. Pairs (n, y) that do not occur in training
have no weight.

Cost of a sample: the pairs of the nodes on its paths, once to score, once to update,
and the exponentials of the outcomes.
"""

from libc.math cimport exp, log, sqrt
from libc.stdint cimport int32_t, int64_t


cdef void _scores(const int32_t *nodes, Py_ssize_t n_trees, const int32_t *parent,
                  const int64_t *ptr, const int32_t *target, const double *beta,
                  const double *w, double *score,
                  Py_ssize_t n_outcomes) noexcept nogil:
    cdef Py_ssize_t t, y
    cdef int64_t p
    cdef int32_t n
    cdef double b
    for y in range(n_outcomes):
        score[y] = 0.0
    for t in range(n_trees):
        n = nodes[t]
        while n >= 0:
            b = beta[n]
            for p in range(ptr[n], ptr[n + 1]):
                score[target[p]] += b * w[p]
            n = parent[n]


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


def epoch(const int32_t[:, ::1] nodes, const int32_t[::1] outcome,
          const double[::1] weight, const int64_t[::1] order,
          const int32_t[::1] parent, const int64_t[::1] ptr,
          const int32_t[::1] target, const double[::1] beta,
          const double[::1] share, double rate, bint positive,
          double[::1] w, double[::1] squares, double[::1] score):
    """One pass of proximal AdaGrad over the samples in `order`.

    For each pair on the path of a sample of weight v, with g the slope of its loss:

        squares += g^2,  a = rate / sqrt(squares)
        w <- (w - a g) / (1 + a v share(n)), at least 0 where weights are positive

    share(n) is the strength of the l2 penalty over the weight of all samples that pass
    the node, so that one pass counts each weight's penalty once. `score` is scratch for
    the outcomes. Returns the sum of the losses, each before its own update.
    """
    cdef Py_ssize_t i, t, n_trees = nodes.shape[1], n_outcomes = score.shape[0]
    cdef int64_t p, row
    cdef int32_t n, y
    cdef double v, raw, top, total, g, a, u, b, loss = 0.0
    with nogil:
        for i in range(order.shape[0]):
            row = order[i]
            y = outcome[row]
            v = weight[row]
            _scores(&nodes[row, 0], n_trees, &parent[0], &ptr[0], &target[0],
                    &beta[0], &w[0], &score[0], n_outcomes)
            raw = score[y]
            top = _exponentials(&score[0], n_outcomes, &total)
            loss += v * (top + log(total) - raw)
            total = v / total
            for t in range(n_outcomes):
                score[t] *= total
            score[y] -= v
            for t in range(n_trees):
                n = nodes[row, t]
                while n >= 0:
                    b = beta[n]
                    for p in range(ptr[n], ptr[n + 1]):
                        g = b * score[target[p]]
                        if g == 0.0:
                            continue
                        squares[p] += g * g
                        a = rate / sqrt(squares[p])
                        u = (w[p] - a * g) / (1.0 + a * v * share[n])
                        w[p] = 0.0 if positive and u < 0.0 else u
                    n = parent[n]
    return loss


def add_gradient(const int32_t[:, ::1] nodes, const int32_t[::1] outcome,
                 const double[::1] weight, const int32_t[::1] parent,
                 const int64_t[::1] ptr, const int32_t[::1] target,
                 const double[::1] beta, const double[::1] w, double[::1] score,
                 double[::1] gradient):
    """Add the slopes of the losses to `gradient`; returns the sum of the losses."""
    cdef Py_ssize_t i, t, n_trees = nodes.shape[1], n_outcomes = score.shape[0]
    cdef int64_t p
    cdef int32_t n
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
                while n >= 0:
                    b = beta[n]
                    for p in range(ptr[n], ptr[n + 1]):
                        gradient[p] += b * score[target[p]]
                    n = parent[n]
    return loss


def log_rows(const int32_t[:, ::1] nodes, const int32_t[::1] parent,
             const int64_t[::1] ptr, const int32_t[::1] target,
             const double[::1] beta, const double[::1] w, double[:, ::1] out):
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
                const int32_t[::1] parent, const int64_t[::1] ptr,
                const int32_t[::1] target, const double[::1] beta,
                const double[::1] w, double[::1] score, double[::1] out):
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
