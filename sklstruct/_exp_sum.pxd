# Maximum and sum of exponentials, computed with wide registers; see _vector.h.
cdef extern from "_vector.h" nogil:
    double largest "sklstruct_most"(Py_ssize_t n, const double* u) noexcept
    double exp_sum "sklstruct_exp_sum"(
        Py_ssize_t n, const double* u, double top, double* e) noexcept
