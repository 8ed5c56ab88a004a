# BLAS of SciPy, found at run time through the capsules that SciPy exports for Cython:
# the build then needs no SciPy. The capsule's name is the C signature; "int *"
# guards against a BLAS with 64-bit integers.
from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer

from scipy.linalg import cython_blas as _scipy_blas

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


cdef void* _blas(str name) except NULL:
    capsule = _scipy_blas.__pyx_capi__[name]
    cdef const char* signature = PyCapsule_GetName(capsule)
    if b"int *" not in <bytes>signature:
        raise ImportError(
            f"SciPy's BLAS function {name} has the signature {signature!r}; sklstruct "
            "needs a SciPy whose BLAS has 32-bit integers"
        )
    return PyCapsule_GetPointer(capsule, signature)


cdef ddot_t _ddot = <ddot_t>_blas("ddot")
cdef sdot_t _sdot = <sdot_t>_blas("sdot")
cdef daxpy_t _daxpy = <daxpy_t>_blas("daxpy")
cdef dgemv_t _dgemv = <dgemv_t>_blas("dgemv")
cdef sgemv_t _sgemv = <sgemv_t>_blas("sgemv")
cdef dgemm_t _dgemm = <dgemm_t>_blas("dgemm")
cdef sgemm_t _sgemm = <sgemm_t>_blas("sgemm")
