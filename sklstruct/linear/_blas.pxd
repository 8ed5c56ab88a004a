# Signatures of the BLAS functions that the kernels call; see _blas.pyx.
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
