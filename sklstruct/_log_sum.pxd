# Sums of probabilities in the domain of natural logarithms.
from libc.math cimport INFINITY, exp, log, log1p


cdef inline double add_log(double a, double b) noexcept nogil:
    """The logarithm of exp(a) + exp(b)."""
    if a < b:
        a, b = b, a
    if b == -INFINITY:
        return a
    return a + log1p(exp(b - a))


cdef inline double log_total(const double *a, Py_ssize_t n) noexcept nogil:
    """The logarithm of the sum of exp(a); -inf if all a are -inf, NaN if one is NaN."""
    cdef Py_ssize_t k
    cdef double top = -INFINITY, total = 0.0
    for k in range(n):
        top = a[k] if a[k] > top else top
    if top == -INFINITY:
        return top
    for k in range(n):
        total += exp(a[k] - top)
    return top + log(total)


cdef inline double log_sum(
    const double *a, const double *b, Py_ssize_t n
) noexcept nogil:
    """The logarithm of the sum of exp(a + b); -inf if all a + b are, NaN if one is."""
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


cdef inline void log_softmax(double *score, Py_ssize_t n) noexcept nogil:
    """Subtract the logarithm of the sum of exp(score) from score; -inf is weight 0."""
    cdef Py_ssize_t k
    cdef double total = log_total(score, n)
    for k in range(n):
        score[k] -= total
