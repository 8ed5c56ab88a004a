from libc.stdint cimport int64_t


cdef struct Sink:
    # destination of the features of an item: arrays, or, if `score` is not NULL, the
    # scores of k labels (value times weights); `room` is then the number of rows of
    # `coef`
    int64_t n, room
    int64_t* column
    double* value
    double* score
    const double* coef
    Py_ssize_t k


cdef class Node:
    cdef str prefix
    cdef dict numbers, pairs, inner
    cdef int depth


cdef class FeatureReader:
    cdef dict names
    cdef bint grows
    cdef Node root
    cdef Sink kept
    cdef int read(self, Sink* to, item) except -1
    cdef int mapping(self, Sink* to, Node node, item) except -1
    cdef int number_of(self, Sink* to, Node node, str key, double value) except -1
    cdef int64_t pair(self, Node node, str key, x) except -2
    cdef int64_t find(self, str name) except -2
