from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t


cdef extern from "_weights.h" nogil:
    enum:
        SKLSTRUCT_SPARE

    ctypedef struct sklstruct_weights:
        const uint64_t* words
        const int32_t* rank
        const uint32_t* start
        const uint32_t* cell
        const float* intercept
        Py_ssize_t M
        Py_ssize_t given

    Py_ssize_t sklstruct_row(
        const uint64_t* words, const int32_t* rank, int32_t feature) noexcept
    void sklstruct_node_scores(
        const sklstruct_weights* node, Py_ssize_t n, const float* x,
        const int32_t* index, float* z) noexcept


cdef class FloatRows:
    cdef const float[:, ::1] dense_rows
    cdef const float[::1] data
    cdef const int32_t[::1] index
    cdef const int64_t[::1] indptr
    cdef bint is_sparse
    cdef readonly Py_ssize_t n
    cdef Py_ssize_t row(
        self, Py_ssize_t i, const float** x, const int32_t** index
    ) noexcept nogil


cdef class NodeWeightsView:
    cdef const uint64_t[:, ::1] words
    cdef const int32_t[:, ::1] rank
    cdef const int64_t[::1] start_ptr
    cdef const uint32_t[::1] start
    cdef const int64_t[::1] cell_ptr
    cdef const uint32_t[::1] cell
    cdef const int64_t[::1] lane_ptr
    cdef const float[::1] intercept
    cdef const int64_t[::1] given
    cdef sklstruct_weights at(self, Py_ssize_t v) noexcept nogil
