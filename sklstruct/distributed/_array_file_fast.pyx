"""Arrays of NumPy in a file that is mapped into memory.

NumPy takes the memory of arrays from an allocator, which can be another one in each
thread (NEP 49). While `ArrayFile.call` runs a function, the large arrays of its thread
are parts of a file. Between two steps of the function the pages of the file can leave
the memory of the process; they come back when they are used. The function, such as a
solver, does not know where its arrays are.
"""

import mmap

from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from ..context_tree import Spill

cdef extern from "Python.h":
    # Not those of Cython: a destructor gets an object without references.
    object PyCapsule_New(void*, const char*, void (*)(PyObject*) noexcept)
    void* PyCapsule_GetPointer(object, const char*) except NULL
    int PyCapsule_SetContext(object, void*) except -1
    void* PyCapsule_GetContext(PyObject*) noexcept

# Smaller arrays are not in the file. The others begin at multiples of ALIGNED, and the
# file grows by multiples of PIECE: so large pages of the machine fit, and a page that
# comes back costs a quarter of what it costs otherwise.
cdef enum:
    LEAST = 1 << 16
    ALIGNED = 1 << 12
    PIECE = 1 << 21

# Structures and the number of a function in the table of NumPy's binary interface,
# which does not change. NumPy's headers would be needed for this alone.
cdef struct Allocator:
    void* ctx
    void* (*malloc)(void*, size_t) noexcept
    void* (*calloc)(void*, size_t, size_t) noexcept
    void* (*realloc)(void*, void*, size_t) noexcept
    void (*free)(void*, void*, size_t) noexcept

cdef struct Handler:
    char name[127]
    unsigned char version
    Allocator allocator

cdef enum:
    SET_HANDLER = 304

ctypedef object (*SetHandler)(object)


cdef class ArrayFile:
    """Memory for arrays in a temporary file; see `Spill`.

    Parameters
    ----------
    folder : str or None
        Folder of the file.

    n_bytes : int
        Size of the file, which grows by an eighth of it or more if that is not enough.

    Attributes
    ----------
    size : int
        Bytes of the file.

    Raises
    ------
    OSError
        If the disk has no room; also by `call`.
    """

    cdef Handler _handler
    cdef object _file, _error, __weakref__
    cdef list keep
    cdef list _returned
    cdef dict _unused, _used  # address -> bytes
    cdef size_t _step
    cdef readonly size_t size

    def __init__(self, folder, size_t n_bytes):
        # The name is copied without the 0 at its end.
        self._handler = Handler(
            b"sklstruct\0", 1,
            Allocator(<void*> self, _malloc, _calloc, _realloc, _free),
        )
        self._file, self._error, self._step = Spill(folder), None, n_bytes // 8
        self.keep = []  # parts of the file in memory
        self._returned, self._unused, self._used = [], {}, {}
        self._grow(n_bytes)

    def call(self, function):
        """The result of a function, whose large arrays are in the file."""
        from numpy._core._multiarray_umath import _ARRAY_API

        cdef void** table = <void**> PyCapsule_GetPointer(_ARRAY_API, NULL)
        cdef SetHandler set_handler = <SetHandler> table[SET_HANDLER]
        # Each array refers to the capsule, and the capsule to this object.
        capsule = PyCapsule_New(&self._handler, b"mem_handler", _forget)
        PyCapsule_SetContext(capsule, <void*> self)
        Py_INCREF(self)
        before = set_handler(capsule)
        try:
            return function()
        except MemoryError:
            if self._error is not None:
                raise self._error from None
            raise
        finally:
            set_handler(before)

    def release(self):
        """Let the pages leave the memory of the process, as far as the system can."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for mapped in self.keep:
                mapped.madvise(mmap.MADV_DONTNEED)

    cdef _grow(self, size_t size):
        cdef unsigned char[::1] view
        size = (max(size, self._step, 1) + PIECE - 1) // PIECE * PIECE
        mapped = self._file.map(size)
        view = mapped
        self.keep.append(mapped)
        self._unused[<size_t> &view[0]] = size
        self.size += size

    cdef size_t _take(self, size_t size) except 0:
        size = (size + ALIGNED - 1) // ALIGNED * ALIGNED
        # Arrays can end at any time, also while this function runs.
        while self._returned:
            self._put(self._returned.pop())
        fitting = [(n, at) for at, n in self._unused.items() if n >= size]
        if not fitting:
            self._grow(size)
            return self._take(size)
        n, at = min(fitting)
        del self._unused[at]
        if n > size:
            self._unused[at + size] = n - size
        self._used[at] = size
        return at

    cdef _put(self, size_t at):
        cdef size_t size = self._used.pop(at), other, n
        for other, n in list(self._unused.items()):
            if other + n == at or at + size == other:
                del self._unused[other]
                at, size = min(at, other), size + n
        self._unused[at] = size


cdef bint _in_file(ArrayFile file, void* p) noexcept:
    return <size_t> p % ALIGNED == 0 and <size_t> p in file._used


cdef void* _malloc(void* ctx, size_t size) noexcept:
    if size < LEAST:
        return malloc(size)
    file = <ArrayFile> ctx
    try:
        return <void*> file._take(size)
    except BaseException as exc:
        file._error = exc  # NumPy raises a MemoryError
        return NULL


cdef void* _calloc(void* ctx, size_t n, size_t width) noexcept:
    if n * width < LEAST:
        return calloc(n, width)
    cdef void* p = _malloc(ctx, n * width)
    if p:
        memset(p, 0, n * width)
    return p


cdef void* _realloc(void* ctx, void* p, size_t size) noexcept:
    file = <ArrayFile> ctx
    if not _in_file(file, p):
        return realloc(p, size)
    cdef void* new = _malloc(ctx, size)
    if new:
        memcpy(new, p, min(size, <size_t> file._used[<size_t> p]))
        _free(ctx, p, 0)
    return new


cdef void _free(void* ctx, void* p, size_t size) noexcept:
    file = <ArrayFile> ctx
    if _in_file(file, p):
        file._returned.append(<size_t> p)
    else:
        free(p)


cdef void _forget(PyObject* capsule) noexcept:
    Py_DECREF(<object> PyCapsule_GetContext(capsule))
