"""KenLM's probing hash tables: filling and listing them.

A table of n-grams of order n has B buckets of (key, log10-probability[, back-off
weight]). An n-gram w_1 ... w_n of word ids has the key

    key(w_n) = w_n,   key(w_k ... w_n) = key(w_{k+1} ... w_n) A  xor  (1 + w_k) C

modulo 2^64, and stands in bucket key mod B or, where that is taken, in the next
free one; key 0 marks an empty bucket.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from .._prefetch cimport prefetch
from .._watch cimport Watch, over, propagate, watch_of
from ._kenlm_fast cimport MIDDLE, MOST, added, find, moved, murmur, read64

import numpy as np


cdef enum:
    BLOCK = 64  # n-grams that are put into a table together
    LANES = 8

cdef uint64_t SPREAD = 0x9e3779b97f4a7c15u  # makes the number of a bit of a key


def hash_bytes(const uint8_t[::1] data):
    """A hash of bytes. A change of one 8-byte word always changes it.

    Word i goes into lane i mod 8 by h = (h xor word) M, h xor= h >> 47, which takes
    different words to different lanes; the hash is that of the lanes and of the bytes
    after the last whole row of words. Lanes do not wait for each other: the time is
    that of reading the memory.
    """
    cdef uint64_t m = 0xc6a4a7935bd1e995u, word
    cdef uint64_t[LANES + 1] lane
    cdef int64_t _i, j, size = data.shape[0], row = 8 * LANES
    cdef const uint8_t* at = &data[0] if size else NULL
    with nogil:
        for j in range(LANES):
            lane[j] = j
        for _i in range(size // row):
            for j in range(LANES):
                memcpy(&word, at + 8 * j, 8)
                lane[j] = (lane[j] ^ word) * m
                lane[j] ^= lane[j] >> 47
            at += row
        lane[LANES] = murmur(at, size % row) ^ <uint64_t>size
        word = murmur(<const uint8_t*>lane, sizeof(lane))
    return word


# ---------------------------------------------------------------------- filling


def hash_words(const uint8_t[::1] text, const int64_t[::1] ptr, uint64_t[::1] out):
    """The hash of each word ``text[ptr[w]:ptr[w + 1]]``."""
    cdef int64_t w
    cdef const uint8_t* data = &text[0] if text.size else NULL
    with nogil:
        for w in range(out.shape[0]):
            out[w] = murmur(data + ptr[w], ptr[w + 1] - ptr[w])


def row_keys(
    const int32_t[::1] node,
    const uint32_t[::1] last,
    const int32_t[::1] parent,
    const uint32_t[::1] word_of_node,
    uint64_t[::1] out,
):
    """The key of each n-gram: the words of a node, which lead from the oldest to the
    newest up to the root, then a last word."""
    cdef int64_t i
    cdef int32_t j, k = 0
    cdef uint32_t[MOST] words
    cdef uint64_t key
    with nogil:
        for i in range(out.shape[0]):
            if i == 0 or node[i] != node[i - 1]:
                k = words_of(parent, word_of_node, node[i], words)
            key = last[i]
            for j in range(k - 1, -1, -1):
                key = moved(key) ^ added(words[j])
            out[i] = key


cdef inline int64_t free_bucket(
    const uint8_t* table, int64_t width, uint64_t n, uint64_t key, uint64_t at
) noexcept nogil:
    """Index of the free bucket for a key, from bucket key mod n on; -1 if the table
    holds the key."""
    cdef uint64_t found
    while True:
        found = read64(table + at * width)
        if found == 0:
            return <int64_t>at
        if found == key:
            return -1
        at += 1
        if at == n:
            at = 0


def fill(
    uint8_t[::1] table,
    int64_t width,
    const uint64_t[::1] key,
    const uint32_t[::1] first,
    const uint32_t[::1] second,
):
    """Put (key, first[, second]) into a table of zeros.

    The rows are put in their order, in blocks whose buckets are prefetched. Returns a
    row that has the key of another row or a key of 0, -1 if no row has.
    second: empty where a bucket has one number.
    """
    cdef uint64_t n = table.shape[0] // width
    cdef uint64_t[BLOCK] home
    cdef int64_t i, at, begin = 0, stop, wrong = -1
    cdef uint8_t* bucket
    cdef bint two = second.shape[0] > 0
    with nogil:
        while begin < key.shape[0] and wrong < 0:
            stop = min(begin + BLOCK, key.shape[0])
            for i in range(begin, stop):
                home[i - begin] = key[i] % n
                prefetch(&table[0] + home[i - begin] * width, 1)
            for i in range(begin, stop):
                at = -1
                if key[i]:
                    at = free_bucket(&table[0], width, n, key[i], home[i - begin])
                if at < 0:
                    wrong = i
                    break
                bucket = &table[0] + at * width
                memcpy(bucket, &key[i], 8)
                memcpy(bucket + 8, &first[i], 4)
                if two:
                    memcpy(bucket + 12, &second[i], 4)
            begin = stop
    return wrong


cdef inline int32_t words_of(
    const int32_t[::1] parent,
    const uint32_t[::1] word_of_node,
    int32_t n,
    uint32_t* words,
) noexcept nogil:
    """Write the words of a node, the oldest first; how many there are."""
    cdef int32_t k = 0
    while n > 0 and k < MOST:
        words[k] = word_of_node[n]
        n = parent[n]
        k += 1
    return k


# ---------------------------------------------------------------------- listing


def mark_keys(const uint8_t[::1] table, int64_t width, uint64_t[::1] bits, int shift):
    """Set a bit for the key of each used bucket; returns how many are used."""
    cdef int64_t i, used = 0, n = table.shape[0] // width
    cdef uint64_t key
    with nogil:
        for i in range(n):
            key = read64(&table[0] + i * width)
            if key:
                used += 1
                key = (key * SPREAD) >> shift
                bits[key >> 6] |= <uint64_t>1 << (key & 63)
    return used


def find_longer(
    const int64_t[::1] ptr_a,
    const uint32_t[::1] first,
    const int64_t[::1] ptr_b,
    const uint64_t[::1] key_b,
    const uint8_t[::1] table,
    int64_t width,
    const uint64_t[::1] bits,
    int shift,
    int32_t[::1] found_a,
    int32_t[::1] found_b,
    uint64_t[::1] key,
    uint32_t[::1] numbers,
):
    """The n-grams of a table, from those that are one word shorter.

    An n-gram "x m y" is there if its key is: that of "m y" (a row of b) with the first
    word of "x m" (a row of a). Rows are grouped by the words m that they share. The
    bits of `mark_keys` rule out almost all candidates without a look-up.

    Parameters
    ----------
    ptr_a, ptr_b : the rows of each group
    first : first word of each row of a
    key_b : key of each row of b
    table, width, bits, shift : a table, and its bits from `mark_keys`
    found_a, found_b, key, numbers : outputs, of one length

    Returns
    -------
    n_found : int
        -1 if the outputs are too short.
    """
    cdef int64_t m, i, j, n_found = 0, room = found_a.shape[0]
    cdef int64_t n = first.shape[0]
    cdef uint64_t n_buckets = table.shape[0] // width, candidate, base, bit
    cdef const uint8_t* at
    cdef uint32_t step = 2 if width == MIDDLE else 1
    summand = np.empty(n, dtype=np.uint64)
    stop = np.zeros(1, dtype=np.int32)
    cdef uint64_t[::1] word = summand
    cdef int32_t[::1] stopped = stop
    cdef Watch watch = watch_of(stopped)
    with nogil:
        for i in range(n):
            word[i] = added(first[i])
        for m in range(ptr_a.shape[0] - 1):
            for j in range(ptr_b[m], ptr_b[m + 1]):
                base = moved(key_b[j])
                if over(&watch, ptr_a[m + 1] - ptr_a[m] + 1):
                    break
                for i in range(ptr_a[m], ptr_a[m + 1]):
                    candidate = base ^ word[i]
                    bit = (candidate * SPREAD) >> shift
                    if not (bits[bit >> 6] >> (bit & 63)) & 1:
                        continue
                    at = find(&table[0], width, n_buckets, candidate)
                    if at == NULL:
                        continue
                    if n_found == room:
                        n_found = -1
                        break
                    found_a[n_found], found_b[n_found] = <int32_t>i, <int32_t>j
                    key[n_found] = candidate
                    memcpy(&numbers[n_found * step], at + 8, 4 * step)
                    n_found += 1
                if n_found < 0:
                    break
            if n_found < 0 or stopped[0]:
                break
    propagate()
    return n_found
