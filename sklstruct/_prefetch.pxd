# Prefetching of memory.
#
# A loop that waits for one read of memory per iteration takes the sum of the waits. If
# the addresses of many iterations can be computed first, the waits overlap.
cdef extern from *:
    """
    /* A hint only: the first kilobyte of a range. */
    #if defined(__GNUC__) || defined(__clang__)
    static inline void sklstruct_prefetch(const void* start, Py_ssize_t n_bytes) {
        Py_ssize_t a, last = n_bytes < 1024 ? n_bytes : 1024;
        for (a = 0; a < last; a += 64)
            __builtin_prefetch((const char*)start + a);
    }
    #else
    #define sklstruct_prefetch(start, n_bytes) ((void)0)
    #endif
    """
    void prefetch "sklstruct_prefetch"(const void*, Py_ssize_t) noexcept nogil
