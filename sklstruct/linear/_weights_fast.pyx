"""Weights of nodes stored by feature: which features, which weights, their scores.

The layout is that of `_weights.h`. Building it costs two passes over the dense weights
of a node; scores cost the weights of the sample's features and no search.
"""

from libc.math cimport fabsf
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t

from .._watch cimport Watch, over, propagate, watch_of


def mark(const int32_t[::1] index, uint64_t[::1] words):
    """Set the bits of the features in `index`."""
    cdef Py_ssize_t k
    with nogil:
        for k in range(index.shape[0]):
            words[index[k] >> 6] |= <uint64_t>1 << (index[k] & 63)


def ranks(const uint64_t[::1] words, int32_t[::1] rank):
    """rank[w] = bits before word w. Returns the number of all."""
    cdef Py_ssize_t w, total = 0
    with nogil:
        for w in range(words.shape[0]):
            rank[w] = <int32_t>total
            total += sklstruct_ones(words[w])
    return total


def localise(
    const int32_t[::1] index, const uint64_t[::1] words, const int32_t[::1] rank,
    int32_t[::1] local,
):
    """local[k] = the row of feature index[k], which has one."""
    cdef Py_ssize_t k
    with nogil:
        for k in range(index.shape[0]):
            local[k] = <int32_t>sklstruct_row(&words[0], &rank[0], index[k])


def features_of(const uint64_t[::1] words, int32_t[::1] feature):
    """feature[r] = the feature of row r."""
    cdef Py_ssize_t w, r = 0, bit
    with nogil:
        for w in range(words.shape[0]):
            if words[w] == 0:
                continue
            for bit in range(64):
                if (words[w] >> bit) & 1:
                    feature[r] = <int32_t>(64 * w + bit)
                    r += 1


def lengths(const float[:, ::1] W, const float[::1] least, uint32_t[::1] length):
    """Cells of each row but the last when entries up to least[k] are left out."""
    cdef Py_ssize_t r, k, n, M = W.shape[1]
    with nogil:
        for r in range(W.shape[0] - 1):
            n = 0
            for k in range(least.shape[0]):
                n += fabsf(W[r, k]) > least[k]
            n += (n + 1) // 2
            length[r] = <uint32_t>(n if n < M else M)


def pack(
    const float[:, ::1] W, const float[::1] least, const uint32_t[::1] length,
    const int32_t[::1] feature, uint64_t[::1] words, uint32_t[::1] start,
    uint32_t[::1] cell,
):
    """Write the rows with a length: their bits, starts (the first is 0) and cells."""
    cdef Py_ssize_t r, k, n, at = 0, row = 0, M = W.shape[1], count
    cdef float* value = <float*>&cell[0]
    cdef uint16_t* lane
    with nogil:
        for r in range(length.shape[0]):
            if length[r] == 0:
                continue
            words[feature[r] >> 6] |= <uint64_t>1 << (feature[r] & 63)
            n = 0
            if length[r] == M:
                for k in range(M):
                    value[at + k] = 0
                for k in range(least.shape[0]):
                    if fabsf(W[r, k]) > least[k]:
                        value[at + k] = W[r, k]
            else:
                count = 2 * <Py_ssize_t>length[r] // 3
                lane = <uint16_t*>&cell[at + count]
                for k in range(least.shape[0]):
                    if fabsf(W[r, k]) > least[k]:
                        value[at + n] = W[r, k]
                        lane[n] = <uint16_t>k
                        n += 1
                if count & 1:
                    lane[count] = 0
            at += length[r]
            row += 1
            start[row] = <uint32_t>at


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


cdef class Nodes:
    """The weights of several nodes, one array after the other.

    Node v has words and ranks ``v * n_words`` onward, starts from start_ptr[v] (none
    if `start` is empty: rows of M cells), cells from cell_ptr[v] and intercepts from
    lane_ptr[v], a lane each.
    """

    def __init__(
        self,
        const uint64_t[:, ::1] words,
        const int32_t[:, ::1] rank,
        const int64_t[::1] start_ptr,
        const uint32_t[::1] start,
        const int64_t[::1] cell_ptr,
        const uint32_t[::1] cell,
        const int64_t[::1] lane_ptr,
        const float[::1] intercept,
    ):
        self.words, self.rank = words, rank
        self.start_ptr, self.start = start_ptr, start
        self.cell_ptr, self.cell = cell_ptr, cell
        self.lane_ptr, self.intercept = lane_ptr, intercept

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
        return node


cdef class Rows:
    """Consecutive samples in single precision, dense or sparse."""

    @staticmethod
    def sparse(const float[::1] data, const int32_t[::1] index,
               const int64_t[::1] indptr):
        """Samples i at indptr[i] to indptr[i + 1] of data; `index` begins with
        the first of them."""
        cdef Rows rows = Rows()
        rows.data, rows.index, rows.indptr = data, index, indptr
        rows.is_sparse, rows.n = True, indptr.shape[0] - 1
        return rows

    @staticmethod
    def dense(const float[:, ::1] X):
        cdef Rows rows = Rows()
        rows.is_sparse, rows.n, rows.width = False, X.shape[0], X.shape[1]
        if rows.n * rows.width:
            rows.data = <const float[:rows.n * rows.width]> &X[0, 0]
        return rows

    cdef Py_ssize_t row(
        self, Py_ssize_t i, const float** x, const int32_t** index
    ) noexcept nogil:
        """Entries of sample i, and where they are."""
        cdef Py_ssize_t n
        if self.is_sparse:
            n = self.indptr[i + 1] - self.indptr[i]
            if n > 0:
                x[0] = &self.data[self.indptr[i]]
                index[0] = &self.index[self.indptr[i] - self.indptr[0]]
        else:
            n = self.width
            index[0] = NULL
            if n > 0:
                x[0] = &self.data[i * n]
        return n


def all_scores(
    Nodes nodes, Py_ssize_t start, Rows rows, const int64_t[::1] first,
    float[:, ::1] out, float[::1] room, int32_t[::1] stop,
):
    """out[:, first[v]:first[v + 1]] = the scores of the outcomes of node start + v."""
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t i, v, j, n
    cdef const float* x = NULL
    cdef const int32_t* index = NULL
    cdef sklstruct_weights node
    with nogil:
        for i in range(rows.n):
            n = rows.row(i, &x, &index)
            for v in range(first.shape[0] - 1):
                node = nodes.at(start + v)
                sklstruct_node_scores(&node, n, x, index, &room[0])
                for j in range(first[v + 1] - first[v]):
                    out[i, first[v] + j] = room[j]
                if over(&watch, (n + 8) * node.M):
                    break
            if stop[0]:
                break
    propagate()
