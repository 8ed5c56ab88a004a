"""KenLM's probing hash tables: filling and listing them.

A table of n-grams of order n has B buckets of (key, log10-probability[, back-off
weight]). An n-gram w_1 ... w_n of word ids has the key

    key(w_n) = w_n,   key(w_k ... w_n) = key(w_{k+1} ... w_n) A  xor  (1 + w_k) C

modulo 2^64. Its home is bucket key mod B. The n-gram is in its home, or in a later
bucket without an empty bucket between; key 0 marks an empty bucket. Several
arrangements of the entries meet this rule, and in KenLM's programs the arrangement
depends on the order of the n-grams. Here, in addition, all buckets between the home of
an entry and the entry have smaller keys, which makes the arrangement unique: of the
entries that compete for a bucket, the entry with the smallest key gets it (O. Amble, D.
E. Knuth, "Ordered hash tables", The Computer Journal 17, 1974). The parts of such a
table can be filled one by one, in any order.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from .._prefetch cimport prefetch
from .._watch cimport Watch, over, propagate, watch_of
from ._kenlm_fast cimport (
    MIDDLE, MOST, added, find, home_of, inverse_of, moved, murmur, read32, read64,
)

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
    uint64_t n,
    uint64_t n_in_part,
    uint32_t[:, ::1] out,
    uint16_t[::1] part,
):
    """The key of each n-gram: the words of a node, which lead from the oldest to the
    newest up to the root, then a last word. It becomes the first 8 bytes of a row, and
    its home in a table of n buckets gives the part."""
    cdef int64_t i
    cdef int32_t j, k = 0
    cdef uint32_t[MOST] words
    cdef uint64_t key
    with nogil:
        for i in range(node.shape[0]):
            if i == 0 or node[i] != node[i - 1]:
                k = words_of(parent, word_of_node, node[i], words)
            key = last[i]
            for j in range(k - 1, -1, -1):
                key = moved(key) ^ added(words[j])
            memcpy(&out[i, 0], &key, 8)
            part[i] = <uint16_t>(key % n // n_in_part) if n_in_part < n else 0


def fill(
    uint8_t[::1] part,
    int64_t width,
    uint64_t n,
    int64_t first,
    const uint8_t[::1] entries,
    uint8_t[::1] beyond,
):
    """Put entries into a part of a table, whose first bucket is number `first` of n.

    Of two entries that want a bucket the smaller key gets it, and the other moves on.
    So the table is the same for any order of the entries, and an entry that meets its
    own key is found. The rows are put in blocks whose buckets are prefetched.

    Parameters
    ----------
    first : -1 for entries that come from the part before, and begin at its end
    entries : of the bytes of a bucket each
    beyond : output, as long: entries that want the bucket after the part

    Returns
    -------
    n_beyond : int
        -1 if two entries have one key, or an entry has a key of 0.
    """
    cdef uint64_t[BLOCK] home
    cdef uint64_t key, found, at, numbers, others, size = part.shape[0] // width
    cdef int64_t i, begin = 0, stop, n_entries = entries.shape[0] // width, n_beyond = 0
    cdef uint64_t inverse = inverse_of(n)
    cdef bint two = width == MIDDLE
    cdef uint8_t* bucket
    with nogil:
        while begin < n_entries and n_beyond >= 0:
            stop = min(begin + BLOCK, n_entries)
            for i in range(begin, stop):
                at = 0
                if first >= 0:
                    at = home_of(read64(&entries[i * width]), n, inverse) - first
                home[i - begin] = at
                prefetch(&part[0] + home[i - begin] * width, 1)
            for i in range(begin, stop):
                key, at = read64(&entries[i * width]), home[i - begin]
                numbers = numbers_of(&entries[i * width], two)
                if key == 0:
                    n_beyond = -1
                    break
                while at < size:
                    bucket = &part[0] + at * width
                    found = read64(bucket)
                    if found == key:
                        break
                    if found == 0 or found > key:
                        others = numbers_of(bucket, two)
                        put_entry(bucket, key, numbers, two)
                        if found == 0:
                            break
                        key, numbers = found, others
                    at += 1
                if at == size:
                    put_entry(&beyond[n_beyond * width], key, numbers, two)
                    n_beyond += 1
                elif found == key:
                    n_beyond = -1
                    break
            begin = stop
    return n_beyond


cdef inline uint64_t numbers_of(const uint8_t* entry, bint two) noexcept nogil:
    """The bits of the number or of the two numbers after the key of an entry."""
    return read64(entry + 8) if two else read32(entry + 8)


cdef inline void put_entry(
    uint8_t* place, uint64_t key, uint64_t numbers, bint two
) noexcept nogil:
    memcpy(place, &key, 8)
    if two:
        memcpy(place + 8, &numbers, 8)
    else:
        memcpy(place + 8, &numbers, 4)


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
    cdef uint64_t inverse = inverse_of(n_buckets) if n_buckets else 0
    cdef const uint8_t* at
    cdef uint32_t step = 2 if width == MIDDLE else 1
    cdef uint64_t[::1] word = np.empty(n, dtype=np.uint64)
    cdef int32_t[::1] stop = np.zeros(1, dtype=np.int32)
    cdef Watch watch = watch_of(stop)
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
                    at = find(&table[0], width, n_buckets, inverse, candidate)
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
            if n_found < 0 or stop[0]:
                break
    propagate()
    return n_found
