"""Columns of records of bits: field i begins at bit ``first + i * stride``."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

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


cdef check(int64_t size, int64_t first, int64_t stride, int width, int64_t n):
    """ValueError if the last number reaches beyond the bytes: 8 are read at a time."""
    if not 0 <= width <= 57 or first < 0 or stride < 0 or n < 0:
        raise ValueError(f"{n} numbers of {width} bits from bit {first} on")
    if n and (first + (n - 1) * stride >> 3) + 8 > size:
        raise ValueError("a column reaches beyond the end")
