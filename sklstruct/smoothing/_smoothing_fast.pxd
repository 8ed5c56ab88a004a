cdef inline double kept(
    double a, const double* discounts, Py_ssize_t last
) noexcept nogil:
    """a - D(a), with D = discounts[i - 1] at i, constant from i = last on."""
    cdef Py_ssize_t i
    cdef double low
    if a < 1.0:
        return (1.0 - discounts[0]) * a * a
    if a >= last:
        return a - discounts[last - 1]
    i = <Py_ssize_t> a
    low = discounts[i - 1]
    return a - (low + (a - i) * (discounts[i] - low))
