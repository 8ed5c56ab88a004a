# The parts of KenLM's tables: hashes of words, keys of n-grams, numbers of bytes and
# of bits.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef enum:
    MOST = 32  # highest order
    WORD = 12  # bytes of a bucket: hash, id
    MIDDLE = 16  # key, probability, weight
    LONGEST = 12  # key, probability


cdef inline uint64_t murmur(const uint8_t* data, int64_t size) noexcept nogil:
    """MurmurHash64A with seed 0."""
    cdef uint64_t m = 0xc6a4a7935bd1e995u, h = <uint64_t>size * m, k
    cdef int64_t i, whole = size // 8
    for i in range(whole):
        memcpy(&k, data + 8 * i, 8)
        k *= m
        k ^= k >> 47
        k *= m
        h ^= k
        h *= m
    data += 8 * whole
    size -= 8 * whole
    if size:
        k = 0
        for i in range(size):
            k |= <uint64_t>data[i] << <uint64_t>(8 * i)
        h ^= k
        h *= m
    h ^= h >> 47
    h *= m
    h ^= h >> 47
    return h


# The key of an n-gram with one more word before it is moved(key) xor added(word).
cdef inline uint64_t moved(uint64_t key) noexcept nogil:
    return key * <uint64_t>8978948897894561157u


cdef inline uint64_t added(uint32_t word) noexcept nogil:
    return <uint64_t>(1 + word) * <uint64_t>17894857484156487943u


cdef inline uint64_t read64(const uint8_t* at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return value


cdef inline uint32_t read32(const uint8_t* at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, at, 4)
    return value


cdef inline uint64_t read_bits(
    const uint8_t* data, uint64_t at, int32_t width
) noexcept nogil:
    """The number of up to 57 bits that begins at a bit, the lowest bit first."""
    return (read64(data + (at >> 3)) >> (at & 7)) & ((<uint64_t>1 << width) - 1)


cdef extern from *:
    """
    /* key % n without a division: the quotient (key inverse) / 2^64 is too small by 1
       at most, as 2^64 - n inverse <= n. */
    static inline uint64_t sklstruct_home(
        uint64_t key, uint64_t n, uint64_t inverse) {
    #ifdef __SIZEOF_INT128__
        key -= n * (uint64_t)(((unsigned __int128)key * inverse) >> 64);
        return key < n ? key : key - n;
    #else
        return key % n;
    #endif
    }
    """
    uint64_t home_of "sklstruct_home"(
        uint64_t key, uint64_t n, uint64_t inverse
    ) noexcept nogil


cdef inline uint64_t inverse_of(uint64_t n) noexcept nogil:
    """Of the number of buckets of a table, for `home_of`."""
    return <uint64_t>-1 // n


cdef inline const uint8_t* find(
    const uint8_t* table, int64_t width, uint64_t n, uint64_t inverse, uint64_t key
) noexcept nogil:
    """The bucket of a key, NULL where it is missing."""
    cdef uint64_t at = home_of(key, n, inverse), found
    while True:
        found = read64(table + at * width)
        if found == key:
            return table + at * width
        if found == 0:
            return NULL
        at += 1
        if at == n:
            at = 0
