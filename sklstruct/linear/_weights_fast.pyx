"""Weights of nodes stored by feature: sets of features, packing, scores of samples.

`_weights.h` describes the layout. Packing takes two passes over the dense weights of a
node; scores read the weights of the sample's features, without a search.
"""

from libc.math cimport INFINITY, fabsf
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t

from .._watch cimport Watch, over, propagate, watch_of

# Cells behind the last row that kernels may read.
SPARE = SKLSTRUCT_SPARE


def mark(const int32_t[::1] index, uint64_t[::1] words):
    """Set the bits of the features in `index`."""
    cdef Py_ssize_t k
    with nogil:
        for k in range(index.shape[0]):
            words[index[k] >> 6] |= <uint64_t>1 << (index[k] & 63)


def only_samples(
    const int32_t[::1] index, const int64_t[::1] indptr, int32_t[::1] sample
):
    """Set sample[f] to the only sample with feature f, or to -1 if several have it.

    sample must be -2 before. Returns the number of features with only one sample.
    """
    cdef Py_ssize_t i, k, n = 0
    with nogil:
        for i in range(indptr.shape[0] - 1):
            for k in range(indptr[i], indptr[i + 1]):
                sample[index[k]] = <int32_t>i if sample[index[k]] == -2 else -1
        for i in range(sample.shape[0]):
            n += sample[i] >= 0
    return n


def localise(
    const int32_t[::1] index, const uint64_t[::1] words, const int32_t[::1] rank,
    int32_t[::1] local,
):
    """local[k] = the row of feature index[k]; the feature must be in the set."""
    cdef Py_ssize_t k
    with nogil:
        for k in range(index.shape[0]):
            local[k] = <int32_t>sklstruct_row(&words[0], &rank[0], index[k])


def count_kept(
    const float[:, ::1] W, Py_ssize_t m, float threshold, float[::1] least,
    uint32_t[::1] count,
):
    """Thresholds of the lanes, and numbers of weights above them.

    least[k] = `threshold` times the largest absolute weight of lane k, infinite from
    lane m on; count[r] += the number of absolute weights of row r above `least`.
    """
    cdef Py_ssize_t r, k, L = W.shape[1]
    cdef uint32_t n
    cdef const float* w
    with nogil:
        for k in range(L):
            least[k] = 0
        for r in range(W.shape[0]):
            w = &W[r, 0]
            for k in range(L):
                least[k] = fabsf(w[k]) if fabsf(w[k]) > least[k] else least[k]
        for k in range(L):
            least[k] = threshold * least[k] if k < m else INFINITY
        for r in range(W.shape[0]):
            w, n = &W[r, 0], 0
            for k in range(L):
                n += fabsf(w[k]) > least[k]
            count[r] += n


def pack(
    const float[:, ::1] W, Py_ssize_t first, Py_ssize_t M, const float[::1] least,
    const uint32_t[::1] at, const uint32_t[::1] count, uint32_t[::1] filled,
    uint32_t[::1] cell,
):
    """Write the weights of the outcomes from `first` on into the rows of cells.

    W, least: one strip. Row r begins at cell at[r] and has count[r] weights of all
    strips, of which filled[r] are written so far.
    """
    cdef Py_ssize_t r, k, n
    cdef bint full
    cdef const float* w
    cdef float* value
    cdef uint16_t* lane
    with nogil:
        for r in range(W.shape[0]):
            if count[r] == 0:
                continue
            w, n, value = &W[r, 0], filled[r], <float*>&cell[at[r]]
            lane = <uint16_t*>(value + count[r])
            full = count[r] + (count[r] + 1) // 2 >= M
            for k in range(W.shape[1]):
                if fabsf(w[k]) > least[k]:
                    if full:
                        value[first + k] = w[k]
                    else:
                        value[n] = w[k]
                        lane[n] = <uint16_t>(first + k)
                    n += 1
            filled[r] = <uint32_t>n


def unpack(
    Py_ssize_t m, Py_ssize_t M, const uint32_t[::1] start, const uint32_t[::1] cell,
    int32_t[::1] row, int32_t[::1] outcome, float[::1] weight,
):
    """Write the entries that are not 0 of m outcomes; returns their number."""
    cdef Py_ssize_t r, k, n = 0, length, count
    cdef const float* value
    cdef const uint16_t* lane
    with nogil:
        for r in range(start.shape[0] - 1):
            length = start[r + 1] - start[r]
            if length == 0:
                continue
            value = <const float*>&cell[start[r]]
            count = 2 * length // 3 if length < M else m
            lane = <const uint16_t*>(value + count)
            for k in range(count):
                if value[k] != 0:
                    row[n] = <int32_t>r
                    outcome[n] = lane[k] if length < M else <int32_t>k
                    weight[n] = value[k]
                    n += 1
    return n


cdef class NodeWeightsView:
    """The arrays of `NodeWeights`: the weights of several nodes, one after the other.

    Node v has row v of words and rank, starts from start_ptr[v] on (`start` is empty if
    all rows have M cells), cells from cell_ptr[v] on and intercepts, one per lane, from
    lane_ptr[v] on. If features are scores, given[v] is the first feature of node v;
    otherwise `given` is empty.
    """

    def __init__(self, weights):
        self.words, self.rank = weights.words, weights.rank
        self.start_ptr, self.start = weights.start_ptr, weights.start
        self.cell_ptr, self.cell = weights.cell_ptr, weights.cell
        self.lane_ptr, self.intercept = weights.lane_ptr, weights.intercept
        self.given = weights.given

    cdef sklstruct_weights at(self, Py_ssize_t v) noexcept nogil:
        cdef sklstruct_weights node
        node.words = &self.words[v, 0]
        node.rank = &self.rank[v, 0]
        node.start = NULL
        if self.start.shape[0]:
            node.start = &self.start[self.start_ptr[v]]
        node.cell = NULL
        if self.cell_ptr[v] < self.cell_ptr[v + 1]:
            node.cell = &self.cell[self.cell_ptr[v]]
        node.intercept = &self.intercept[self.lane_ptr[v]]
        node.M = self.lane_ptr[v + 1] - self.lane_ptr[v]
        node.given = self.given[v] if self.given.shape[0] else -1
        return node


cdef class FloatRows:
    """Consecutive samples in single precision, dense or sparse."""

    @staticmethod
    def sparse(const float[::1] data, const int32_t[::1] index,
               const int64_t[::1] indptr):
        """Sample i has data[indptr[i]:indptr[i + 1]]; index starts at indptr[0]."""
        cdef FloatRows rows = FloatRows()
        rows.data, rows.index, rows.indptr = data, index, indptr
        rows.is_sparse, rows.n = True, indptr.shape[0] - 1
        return rows

    @staticmethod
    def dense(const float[:, ::1] X):
        cdef FloatRows rows = FloatRows()
        rows.dense_rows, rows.is_sparse, rows.n = X, False, X.shape[0]
        return rows

    cdef Py_ssize_t row(
        self, Py_ssize_t i, const float** x, const int32_t** index
    ) noexcept nogil:
        """Number of entries of sample i; sets x and index to them."""
        cdef Py_ssize_t n
        if self.is_sparse:
            n = self.indptr[i + 1] - self.indptr[i]
            if n > 0:
                x[0] = &self.data[self.indptr[i]]
                index[0] = &self.index[self.indptr[i] - self.indptr[0]]
        else:
            n = self.dense_rows.shape[1]
            index[0] = NULL
            if n > 0:
                x[0] = &self.dense_rows[i, 0]
        return n


def all_scores(
    NodeWeightsView nodes, FloatRows rows, const int64_t[::1] first,
    float[:, ::1] out, float[::1] room, int32_t[::1] stop,
):
    """out[:, first[v]:first[v + 1]] = the scores of the outcomes of node v."""
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t i, v, j, n
    cdef const float* x = NULL
    cdef const int32_t* index = NULL
    cdef sklstruct_weights node
    with nogil:
        for i in range(rows.n):
            n = rows.row(i, &x, &index)
            for v in range(first.shape[0] - 1):
                node = nodes.at(v)
                sklstruct_node_scores(&node, n, x, index, &room[0])
                for j in range(first[v + 1] - first[v]):
                    out[i, first[v] + j] = room[j]
                if over(&watch, (n + 8) * node.M):
                    break
            if stop[0]:
                break
    propagate()
