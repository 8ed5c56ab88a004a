"""Weights of a mixture after each history, and mixtures of few models.

Rows are as short as there are models: array operations along them cost more than the
numbers. Each row is read once; O(models * trees of contexts) a row.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t


cdef inline double _log_sum(const double *a, const double *b,
                            Py_ssize_t n) noexcept nogil:
    """The logarithm of the sum of exp(a + b); NaN if there is one."""
    cdef Py_ssize_t k
    cdef double top = -INFINITY, total = 0.0
    for k in range(n):
        if a[k] + b[k] > top:
            top = a[k] + b[k]
    if top == -INFINITY:
        top = 0.0
    for k in range(n):
        total += exp(a[k] + b[k] - top)
    return top + log(total)


def log_mixture(const double[:, ::1] log_weights, const double[:, ::1] log_prob,
                double[::1] out):
    """out <- the logarithm of the weighted sum of each row of probabilities.

    log_weights: a row for each of log_prob, or one for all.
    """
    cdef Py_ssize_t i, step = 0 if log_weights.shape[0] == 1 else 1
    with nogil:
        for i in range(log_prob.shape[0]):
            out[i] = _log_sum(&log_weights[step * i, 0], &log_prob[i, 0],
                              log_prob.shape[1])


def log_softmax(double[:, ::1] score, const double[::1] zeros):
    """score <- each row minus the logarithm of the sum of its exponentials.

    zeros: as many as there are columns.
    """
    cdef Py_ssize_t i, k
    cdef double total
    with nogil:
        for i in range(score.shape[0]):
            total = _log_sum(&score[i, 0], &zeros[0], score.shape[1])
            for k in range(score.shape[1]):
                score[i, k] -= total


def logistic_scores(const double[:, ::1] facts, const int32_t[::1] deepest,
                    const double[:, ::1] coef, double[:, ::1] out):
    """out <- the scores of the models; see `LogisticGate`.

    facts: depth and logarithm of the weight of the node in each tree. deepest: the
    largest depth with coefficients, of each tree. coef (n_features, n_models): a
    constant; of each tree those of x and its square, with x the scaled logarithm, and
    of each depth the constant and that of x.
    """
    cdef Py_ssize_t i, k, t, first, at
    cdef double x
    with nogil:
        for i in range(facts.shape[0]):
            for k in range(out.shape[1]):
                out[i, k] = coef[0, k]
            first = 1
            for t in range(deepest.shape[0]):
                at = <Py_ssize_t> facts[i, 2 * t]
                at = first + 2 + 2 * max(0, min(at, <Py_ssize_t> deepest[t]))
                x = 0.2 * facts[i, 2 * t + 1]
                for k in range(out.shape[1]):
                    out[i, k] += coef[at, k] + x * (
                        coef[first, k] + x * coef[first + 1, k] + coef[at + 1, k])
                first += 2 + 2 * (deepest[t] + 1)
