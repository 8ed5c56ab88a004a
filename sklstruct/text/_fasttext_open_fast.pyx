"""Tables of a file of fastText that are built when the file is opened."""

from cpython.bytes cimport PyBytes_AsString, PyBytes_Size
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy

from ._fasttext_lines cimport hash_of, mixed

import numpy as np


def hash_bytes(bytes text not None):
    """fastText's hash of the UTF-8 of a word or of letters."""
    return hash_of(<const uint8_t*>PyBytes_AsString(text), PyBytes_Size(text))


def read_entries(
    const uint8_t[::1] image, int64_t at, int64_t n_words, int64_t[::1] start,
    int64_t[::1] count,
):
    """Read the places and counts of the entries of a dictionary: words, then labels.

    start : (n + 1,) output, where each entry begins; its text ends at
    start[i + 1] - 10.

    Returns the number of entries that are complete and of the right kind, and the
    offset of their end.
    """
    cdef int64_t i, n = count.shape[0], size = image.shape[0]
    cdef const uint8_t* end
    with nogil:
        for i in range(n):
            start[i] = at
            end = NULL
            if at < size:
                end = <const uint8_t*>memchr(&image[at], 0, size - at)
            if end == NULL or size - (end - &image[0]) < 10:
                break
            memcpy(&count[i], end + 1, 8)
            if end[9] != (i >= n_words):
                break
            at = end - &image[0] + 10
        else:
            i = n
            start[n] = at
    return i, at


def fill_table(
    const uint8_t[::1] image, const int64_t[::1] start, uint32_t[:, ::1] table
):
    """Enter words into an empty table of (hash, id + 1); of equal words the last."""
    cdef uint32_t mask = <uint32_t>(table.shape[0] - 1), h, at
    cdef int64_t i, n
    cdef const uint8_t* word
    with nogil:
        for i in range(start.shape[0] - 1):
            word = &image[start[i]]
            n = start[i + 1] - 10 - start[i]
            h = hash_of(word, n)
            at = h & mask
            while table[at, 1] and not (
                table[at, 0] == h and same(image, start, table[at, 1] - 1, word, n)
            ):
                at = (at + 1) & mask
            table[at, 0], table[at, 1] = h, <uint32_t>i + 1


cdef inline bint same(
    const uint8_t[::1] image, const int64_t[::1] start, int64_t i, const uint8_t* word,
    int64_t n,
) noexcept nogil:
    return (
        start[i + 1] - 10 - start[i] == n and memcmp(&image[start[i]], word, n) == 0
    )


def fill_pairs(const int32_t[:, ::1] pairs, int32_t[:, ::1] table):
    """Enter (bucket, row) into a table of -1; of equal buckets the last."""
    cdef uint32_t mask = <uint32_t>(table.shape[0] - 1), at
    cdef int64_t i
    with nogil:
        for i in range(pairs.shape[0]):
            if pairs[i, 0] < 0:  # no hash has a negative bucket
                continue
            at = mixed(<uint32_t>pairs[i, 0]) & mask
            while table[at, 0] >= 0 and table[at, 0] != pairs[i, 0]:
                at = (at + 1) & mask
            table[at, 0], table[at, 1] = pairs[i, 0], pairs[i, 1]


# The count that fastText gives to a node that does not exist yet.
cdef int64_t NOT_MADE = 1000000000000000


def grow_tree(const int64_t[::1] count, int32_t[:, ::1] children):
    """Build the Huffman tree of labels with decreasing counts.

    The nodes are the n labels, then n - 1 inner nodes; the last node is the root.

    children : (n - 1, 2) output. Returns whether the counts define a tree.
    """
    cdef int64_t n = count.shape[0], i, j, leaf = n - 1, node = n
    cdef int64_t[::1] total = np.empty(2 * n - 1, dtype=np.int64)
    cdef bint whole = True
    with nogil:
        for i in range(n):
            total[i] = count[i]
            whole = whole and 0 <= count[i] < NOT_MADE
        for i in range(n, 2 * n - 1):
            for j in range(2):
                if leaf >= 0 and (node >= i or total[leaf] < total[node]):
                    children[i - n, j] = <int32_t>leaf
                    leaf -= 1
                else:
                    children[i - n, j] = <int32_t>node
                    node += 1
            total[i] = total[children[i - n, 0]] + total[children[i - n, 1]]
            whole = whole and total[i] < NOT_MADE
            if not whole:
                break
    return whole
