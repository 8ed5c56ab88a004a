"""Sequences of records that kernels read and write block by block; see `Streams`."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy


cdef struct Node:
    int64_t parent  # number in the level above
    int32_t symbol
    int32_t n_pairs


ctypedef fused Record:
    Node
    int32_t
    double


cdef struct Buffer:
    char* data
    Py_ssize_t at, n  # records: the next one, and their number


cdef class Streams:
    cdef Buffer* ins
    cdef Buffer* outs
    cdef list keep  # a memoryview of the block of each input
    cdef list _sources, _sinks, _arrays

    cdef int fill(self, Py_ssize_t i) except -1 nogil
    cdef int flush(self, Py_ssize_t i) except -1 nogil


cdef inline int more(Streams s, Py_ssize_t i) except -1 nogil:
    """1 if input i has a next record, 0 at its end."""
    if s.ins[i].at < s.ins[i].n:
        return 1
    return s.fill(i)


cdef inline Node* next_node(Streams s, Py_ssize_t i) noexcept nogil:
    """The next record of an input, which `more` has found."""
    return <Node*> s.ins[i].data + s.ins[i].at


cdef inline int take_record(Streams s, Py_ssize_t i, Record* value) except -1 nogil:
    """Read the next record of an input that has one."""
    more(s, i)
    value[0] = (<Record*> s.ins[i].data)[s.ins[i].at]
    s.ins[i].at += 1
    return 0


cdef inline int put_record(Streams s, Py_ssize_t i, Record value) except -1 nogil:
    cdef Buffer* out = &s.outs[i]
    if out.at == out.n:
        s.flush(i)
    (<Record*> out.data)[out.at] = value
    out.at += 1
    return 0


cdef inline int copy(
    Streams s, Py_ssize_t i, Py_ssize_t o, int64_t n, Py_ssize_t width
) except -1 nogil:
    """Copy the next n records of input i, of `width` bytes each, to output o."""
    cdef Buffer* source = &s.ins[i]
    cdef Buffer* out = &s.outs[o]
    cdef Py_ssize_t m
    while n and more(s, i):
        if out.at == out.n:
            s.flush(o)
        m = min(n, source.n - source.at, out.n - out.at)
        memcpy(out.data + out.at * width, source.data + source.at * width, m * width)
        source.at += m
        out.at += m
        n -= m
    return 0
