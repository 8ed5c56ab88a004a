from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from ._words_fast cimport Words


cdef class StringTable:
    cdef readonly object text, ends, hashes, slots
    cdef readonly uint64_t seed
    cdef const uint8_t[::1] _text
    cdef const int64_t[::1] _ends
    cdef const uint64_t[::1] _hashes
    cdef const int32_t[::1] _slots
    cdef Words words  # pointers to these arrays

    cdef int32_t find(self, word) except -2
