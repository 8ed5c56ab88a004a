from libc.stdint cimport int32_t, uint64_t

from ._words_fast cimport Words


cdef class StringTable:
    cdef readonly object text, ends, hashes, slots
    cdef readonly uint64_t seed
    cdef Words words  # addresses in these arrays
    cdef object keep

    cdef int32_t find(self, word) except -2
