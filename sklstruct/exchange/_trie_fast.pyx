"""Columns of records of bits, and rows of words.

Field i of a column begins at bit ``first + i * stride``. Rows of words are n-grams.
They are grouped by parts and sorted, and the longer n-grams of each are found.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from ._kenlm_fast cimport read64, read_bits

import numpy as np


def pack(
    uint8_t[::1] data, int64_t first, int64_t stride, int width,
    const uint64_t[::1] values,
):
    """Write a column into bits that are 0."""
    cdef int64_t i
    cdef uint64_t at, word
    check(data.shape[0], first, stride, width, values.shape[0])
    with nogil:
        for i in range(values.shape[0]):
            at = <uint64_t>(first + i * stride)
            word = read64(&data[at >> 3]) | (values[i] << (at & 7))
            memcpy(&data[at >> 3], &word, 8)


def unpack(
    const uint8_t[::1] data, int64_t first, int64_t stride, int width, int64_t n
):
    """The n numbers of a column."""
    cdef int64_t i
    check(data.shape[0], first, stride, width, n)
    values = np.empty(n, dtype=np.uint64)
    cdef uint64_t[::1] out = values
    with nogil:
        for i in range(n):
            out[i] = read_bits(&data[0], <uint64_t>(first + i * stride), width)
    return values


def group(
    const uint32_t[:, ::1] rows,
    const uint16_t[::1] part,
    uint32_t[:, ::1] out,
    int64_t[::1] start,
):
    """Copy rows, grouped by their parts.

    start: output, the first row of each part, then the number of rows.
    """
    cdef int64_t i, n_parts = start.shape[0] - 1, width = 4 * rows.shape[1]
    with nogil:
        start[:] = 0
        for i in range(rows.shape[0]):
            start[part[i] + 1] += 1
        for i in range(n_parts):
            start[i + 1] += start[i]
        for i in range(rows.shape[0]):
            memcpy(&out[start[part[i]], 0], &rows[i, 0], width)
            start[part[i]] += 1
        for i in range(n_parts, 0, -1):
            start[i] = start[i - 1]
        start[0] = 0


def order_of(const uint32_t[:, ::1] rows, int n_columns, uint32_t most):
    """The order that sorts rows by some first columns, whose numbers are at most
    `most`: digit by digit, the last first."""
    cdef int64_t i, n = rows.shape[0]
    cdef int64_t at
    cdef int column, shift
    now, other = np.arange(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    starts = np.empty((1 << 16) + 1, dtype=np.int64)
    cdef int64_t[::1] old, new, start = starts
    for column in range(n_columns - 1, -1, -1):
        for shift in range(0, 32 if most >> 16 else 16, 16):
            old, new = now, other
            with nogil:
                start[:] = 0
                for i in range(n):
                    start[(rows[i, column] >> shift & 0xffff) + 1] += 1
                for i in range(start.shape[0] - 1):
                    start[i + 1] += start[i]
                for i in range(n):
                    at = rows[old[i], column] >> shift & 0xffff
                    new[start[at]] = old[i]
                    start[at] += 1
            now, other = other, now
    return now


def first_longer(
    const uint32_t[:, ::1] rows, const uint32_t[:, ::1] longer, int n_columns
):
    """(n_rows + 1,) the first of the longer rows that begin with the columns of a row
    or of a later one. Both are sorted."""
    cdef int64_t i, j = 0, n = rows.shape[0], m = longer.shape[0]
    out = np.empty(n + 1, dtype=np.int64)
    cdef int64_t[::1] first = out
    with nogil:
        for i in range(n):
            first[i] = j
            while j < m and memcmp(&rows[i, 0], &longer[j, 0], 4 * n_columns) == 0:
                j += 1
        first[n] = j
    if j < m:
        raise ValueError("model: the suffix of an n-gram is missing")
    return out


cdef check(int64_t size, int64_t first, int64_t stride, int width, int64_t n):
    """ValueError if the last number reaches beyond the bytes: 8 are read at a time."""
    if not 0 <= width <= 57 or first < 0 or stride < 0 or n < 0:
        raise ValueError(f"{n} numbers of {width} bits from bit {first} on")
    if n and (first + (n - 1) * stride >> 3) + 8 > size:
        raise ValueError("a column reaches beyond the end")
