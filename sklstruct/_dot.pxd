# Inner products with the same order of additions on every machine.


cdef inline double dot(const double* x, const double* y, Py_ssize_t n) noexcept nogil:
    """x' y in four running sums, whose additions do not wait for each other."""
    cdef Py_ssize_t i
    cdef double a = 0.0, b = 0.0, c = 0.0, d = 0.0
    for i in range(0, n - 3, 4):
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
    for i in range(n - n % 4, n):
        a += x[i] * y[i]
    return (a + b) + (c + d)
