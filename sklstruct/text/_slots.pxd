# Hash tables of words and of n-grams, with linear probing, at most half full.
#
# A slot is 16 bytes, two 64-bit numbers: the key, then the id (0: the slot is empty)
# and a mark.

from libc.stdint cimport int32_t, uint64_t

cdef enum:
    # Entries of `state`, and results of kernels that fill a table.
    AT_TEXT = 0
    AT_SEGMENT = 1
    AT = 2
    OUT = 3
    IDS = 4
    R_DONE = 0
    R_FULL = 1

cdef struct Slot:
    uint64_t key
    int32_t id
    int32_t mark

cdef extern from *:
    """
    /* The place of the lowest bit of a number that is not 0. */
    static inline int sklstruct_lowest(unsigned long long x) {
    #if defined(__GNUC__) || defined(__clang__)
        return __builtin_ctzll(x);
    #else
        int place = 0;
        for (; !(x & 1); x >>= 1) place++;
        return place;
    #endif
    }
    """
    int lowest "sklstruct_lowest"(uint64_t) noexcept nogil


cdef inline uint64_t mixed(uint64_t x) noexcept nogil:
    x ^= x >> 32
    x *= <uint64_t> 0xD6E8FEB86659FD93
    return x ^ (x >> 32)
