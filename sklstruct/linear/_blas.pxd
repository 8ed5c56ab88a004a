# The BLAS functions that the kernels call, for floats and doubles; see _blas.pyx.
cimport cython

ctypedef double (*ddot_t)(int*, double*, int*, double*, int*) noexcept nogil
ctypedef float (*sdot_t)(int*, float*, int*, float*, int*) noexcept nogil
ctypedef void (*daxpy_t)(int*, double*, double*, int*, double*, int*) noexcept nogil
ctypedef void (*dgemv_t)(
    char*, int*, int*, double*, double*, int*, double*, int*, double*, double*, int*
) noexcept nogil
ctypedef void (*sgemv_t)(
    char*, int*, int*, float*, float*, int*, float*, int*, float*, float*, int*
) noexcept nogil
ctypedef void (*dgemm_t)(
    char*, char*, int*, int*, int*, double*, double*, int*, double*, int*,
    double*, double*, int*
) noexcept nogil
ctypedef void (*sgemm_t)(
    char*, char*, int*, int*, int*, float*, float*, int*, float*, int*,
    float*, float*, int*
) noexcept nogil

cdef ddot_t ddot
cdef sdot_t sdot
cdef daxpy_t daxpy
cdef dgemv_t dgemv
cdef sgemv_t sgemv
cdef dgemm_t dgemm
cdef sgemm_t sgemm


cdef inline cython.floating dot(
    int n, cython.floating* x, cython.floating* y,
) noexcept nogil:
    cdef int one = 1
    if cython.floating is double:
        return ddot(&n, x, &one, y, &one)
    return sdot(&n, x, &one, y, &one)


cdef inline void gemv(
    char* trans, int m, int n, cython.floating* A, cython.floating* x,
    cython.floating* y,
) noexcept nogil:
    """y = A x or A' x, A (m, n) column-major."""
    cdef int one = 1
    cdef cython.floating unit = 1, zero = 0
    if cython.floating is double:
        dgemv(trans, &m, &n, &unit, A, &m, x, &one, &zero, y, &one)
    else:
        sgemv(trans, &m, &n, &unit, A, &m, x, &one, &zero, y, &one)


cdef inline void gemm(
    char* trans_a, char* trans_b, int m, int n, int k, cython.floating* A, int lda,
    cython.floating* B, int ldb, cython.floating* C,
) noexcept nogil:
    """C (m, n) = A B, or their transposes, column-major."""
    cdef cython.floating unit = 1, zero = 0
    if cython.floating is double:
        dgemm(trans_a, trans_b, &m, &n, &k, &unit, A, &lda, B, &ldb, &zero, C, &m)
    else:
        sgemm(trans_a, trans_b, &m, &n, &k, &unit, A, &lda, B, &ldb, &zero, C, &m)
