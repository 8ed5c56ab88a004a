"""BLAS of SciPy, found at run time through the capsules that SciPy exports for Cython.

The build then needs no SciPy. The capsule's name is the C signature; "int *" guards
against a BLAS with 64-bit integers.
"""

from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer

from scipy.linalg import cython_blas as _scipy_blas


cdef void* pointer_of(str name) except NULL:
    capsule = _scipy_blas.__pyx_capi__[name]
    cdef const char* signature = PyCapsule_GetName(capsule)
    if b"int *" not in <bytes>signature:
        raise ImportError(
            f"SciPy's BLAS function {name} has the signature {signature!r}; sklstruct "
            "needs a SciPy whose BLAS has 32-bit integers"
        )
    return PyCapsule_GetPointer(capsule, signature)


ddot = <ddot_t>pointer_of("ddot")
sdot = <sdot_t>pointer_of("sdot")
daxpy = <daxpy_t>pointer_of("daxpy")
dgemv = <dgemv_t>pointer_of("dgemv")
sgemv = <sgemv_t>pointer_of("sgemv")
dgemm = <dgemm_t>pointer_of("dgemm")
sgemm = <sgemm_t>pointer_of("sgemm")
