# A table of words: 32-bit ids in the order of appearance, by open addressing with
# linear probing. The bytes of the words follow each other in an arena. `WordTable` owns
# the arrays and makes them longer.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy


cdef struct Words:
    int32_t *slots  # -1, or a word
    uint64_t *hashes  # of each word
    int64_t *ends  # of its bytes in the arena
    uint8_t *arena
    uint64_t mask  # number of slots - 1
    int64_t n
    int64_t limit  # most words: half of the slots


cdef inline Words words_of(
    int32_t[::1] slots, uint64_t[::1] hashes, int64_t[::1] ends, uint8_t[::1] arena,
    int64_t n,
) noexcept nogil:
    cdef Words words
    words.slots, words.hashes = &slots[0], &hashes[0]
    words.ends, words.arena = &ends[0], &arena[0]
    words.mask = <uint64_t> (slots.shape[0] - 1)
    words.n = n
    words.limit = min(slots.shape[0] // 2, hashes.shape[0])
    return words


cdef inline uint64_t hash_byte(uint64_t h, uint8_t c) noexcept nogil:
    """The hash of some bytes, which begins with the seed of the table, and one more."""
    return (h ^ c) * <uint64_t> 0x9E3779B97F4A7C15


cdef inline uint64_t hash_bytes(
    uint64_t h, const uint8_t *p, Py_ssize_t n
) noexcept nogil:
    """The hash of some bytes and of n more."""
    cdef Py_ssize_t i
    for i in range(n):
        h = hash_byte(h, p[i])
    return h


cdef inline int sequence_length(const uint8_t *p, const uint8_t *end,
                                bint surrogates) noexcept nogil:
    """Bytes of the valid sequence at p, whose first byte is not ASCII; 0: invalid."""
    cdef uint8_t a = p[0], b
    if a < 0xC2 or end - p < 2:
        return 0
    b = p[1]
    if b & 0xC0 != 0x80:
        return 0
    if a < 0xE0:
        return 2
    if end - p < 3 or p[2] & 0xC0 != 0x80:
        return 0
    if a < 0xF0:
        if a == 0xE0 and b < 0xA0:
            return 0
        if a == 0xED and b >= 0xA0 and not surrogates:
            return 0
        return 3
    if end - p < 4 or p[3] & 0xC0 != 0x80 or a > 0xF4:
        return 0
    if (a == 0xF0 and b < 0x90) or (a == 0xF4 and b >= 0x90):
        return 0
    return 4


cdef inline int32_t find_word(
    const Words *words, const uint8_t *word, int64_t length, uint64_t h, uint64_t *at
) noexcept nogil:
    """The id of a word, or -1; `at` gets its slot, or the free slot for it."""
    cdef int32_t w
    cdef int64_t start
    h ^= h >> 32
    at[0] = h & words.mask
    while True:
        w = words.slots[at[0]]
        if w < 0:
            return -1
        if words.hashes[w] == h:
            start = words.ends[w - 1] if w > 0 else 0
            if words.ends[w] - start == length and memcmp(
                    words.arena + start, word, length) == 0:
                return w
        at[0] = (at[0] + 1) & words.mask


cdef inline int32_t add_word(
    Words *words, const uint8_t *word, int64_t length, uint64_t h
) noexcept nogil:
    """The id of a word, new or not; -1 if the table has to grow before."""
    cdef uint64_t at
    cdef int64_t start
    cdef int32_t w
    w = find_word(words, word, length, h, &at)
    if w >= 0 or words.n >= words.limit:
        return w
    w = <int32_t> words.n
    start = words.ends[w - 1] if w > 0 else 0
    memcpy(words.arena + start, word, length)
    words.ends[w] = start + length
    words.hashes[w] = h ^ (h >> 32)
    words.slots[at] = w
    words.n += 1
    return w
