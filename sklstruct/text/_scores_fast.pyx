"""Scores of rows of n-grams by weights of 8 bits; see `_scores.h`."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from .._watch cimport Watch, over, propagate, watch_of

cdef extern from "_scores.h" nogil:
    void sklstruct_add_columns(
        Py_ssize_t n, const int32_t *index, const float *x, float factor,
        const int64_t *at, const int64_t *before, const float *scale,
        const int8_t *weight, const uint8_t *gap, Py_ssize_t n_scores,
        float *z) noexcept


def add_scores(const int32_t[::1] indices, const float[::1] data,
               const int64_t[::1] ends, float factor, const int64_t[::1] at,
               const int64_t[::1] before, const float[::1] scale,
               const int8_t[::1] weight, const uint8_t[::1] gap, float[:, ::1] z,
               int32_t[::1] stop):
    """Add `factor` times the scores of rows to z (n_rows, n_scores).

    indices, data : columns and values of the rows; ends : (n_rows,) the end of each.
    at, before : (n_columns + 1,) the first weight and the first gap of each column.
    scale : (n_columns,). weight, gap : at least one entry each.
    """
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t t, start = 0, n
    with nogil:
        for t in range(ends.shape[0]):
            n = ends[t] - start
            if n > 0:
                if over(&watch, n * z.shape[1]):
                    break
                sklstruct_add_columns(
                    n, &indices[start], &data[start], factor, &at[0], &before[0],
                    &scale[0], &weight[0], &gap[0], z.shape[1], &z[t, 0],
                )
            start = ends[t]
    propagate()
