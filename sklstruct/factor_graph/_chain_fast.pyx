"""Chains whose variables all have the same k values, and one table of transitions.

These kernels serve models of sequences of observations; `_inference_fast` serves all
other graphs. The items of all sequences are concatenated; sequence i has the items
ptr[i] ... ptr[i + 1] - 1.

- `ChainScorer.scores`: the score of each value of each item, directly from dictionaries
  and lists of names; O(features k).
- `ChainScorer.best`: Viterbi's algorithm from the start to the end; O(items k^2). Of
  paths of equal score the one with the lowest last value, then the lowest value before
  it, as in CRFsuite.

Inner loops run over contiguous memory.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from ._features_fast cimport FeatureReader, Sink

from ._features_fast import refusal


cdef class ChainScorer:
    """Scores and best paths of sequences of observations, in the form that users pass.

    A call for one short sequence takes only some microseconds, so it creates no arrays
    or memoryviews: scores are bytes, k doubles for each item. Each call has its own
    scratch memory, so threads may share the object.

    columns : the row of `coef` of each name
    coef : (n_features, k); transition : (k, k), the earlier value first
    labels : list of k values
    """

    cdef FeatureReader reader
    cdef const double[:, ::1] weights, transition
    cdef list labels

    def __cinit__(self, dict columns, coef, transition, list labels):
        self.reader = FeatureReader(columns, False)
        self.weights, self.transition, self.labels = coef, transition, labels
        k = len(labels)
        if not self.weights.shape[1] == transition.shape[0] == transition.shape[1] == k:
            raise ValueError(
                f"coef has {self.weights.shape[1]} columns and transition the shape "
                f"{transition.shape}, but there are {k} labels"
            )

    def scores(self, list sequences, owner):
        """The scores of the items of all sequences, one after the other.

        sequences : list of lists of items, which must not change during the call
        owner : (number of a sequence, of an item) -> their name in an error message
        """
        cdef Py_ssize_t n = 0, i = 0, t
        cdef list items
        cdef Sink to
        for items in sequences:
            n += len(items)
        to.k = len(self.labels)
        scores = PyBytes_FromStringAndSize(NULL, n * to.k * sizeof(double))
        to.score = <double*>PyBytes_AsString(scores)
        memset(to.score, 0, n * to.k * sizeof(double))
        to.room = self.weights.shape[0]
        to.coef = &self.weights[0, 0] if to.room else NULL
        for items in sequences:
            t = 0
            for item in items:
                try:
                    self.reader.read(&to, item)
                except (TypeError, OverflowError, ValueError) as exc:
                    raise refusal(owner(i, t), item, exc) from exc
                to.score += to.k
                t += 1
            i += 1
        return scores

    def best(self, bytes scores, list lengths):
        """The best path of each sequence, as lists of labels."""
        cdef Py_ssize_t k = len(self.labels), n = 0, s, t
        cdef Py_ssize_t n_sequences = len(lengths)
        for length in lengths:
            n += <Py_ssize_t>length
        if len(scores) != n * k * <Py_ssize_t>sizeof(double):
            raise ValueError("scores must have k numbers for each item of `lengths`")
        cdef void* room = malloc(
            n * k * sizeof(double) + (n_sequences + n + 1) * sizeof(int64_t)
        )
        if not room:
            raise MemoryError()
        cdef double* best = <double*>room
        cdef int64_t* end = <int64_t*>(best + n * k)
        cdef int64_t* path = end + n_sequences
        cdef const double* score = <const double*>PyBytes_AsString(scores)
        cdef list found = [], labels
        try:
            t = 0
            for s in range(n_sequences):
                t += <Py_ssize_t>lengths[s]
                end[s] = t
            with nogil:
                t = 0
                for s in range(n_sequences):
                    best_path(score + t * k, &self.transition[0, 0], k, end[s] - t,
                              best, path + t)
                    t = end[s]
            t = 0
            for s in range(n_sequences):
                labels = []
                while t < end[s]:
                    labels.append(self.labels[path[t]])
                    t += 1
                found.append(labels)
        finally:
            free(room)
        return found


cdef void best_path(
    const double* score, const double* transition, Py_ssize_t k, Py_ssize_t n,
    double* best, int64_t* path,
) noexcept nogil:
    """The best path of one sequence of n items.

    best : (n, k), scratch for the score of the best path to each value of each item.
    The predecessors are recomputed along the best path, which costs less than storing
    them for all values.
    path : (n,), the result.
    """
    cdef Py_ssize_t t, i, j, a
    cdef double p, x, most
    cdef double* new = best
    cdef const double* old
    cdef const double* row
    if n == 0:
        return
    for j in range(k):
        new[j] = score[j]
    for t in range(1, n):
        old, new = new, new + k
        p = old[0]
        for j in range(k):
            new[j] = p + transition[j]
        for i in range(1, k):
            p, row = old[i], transition + i * k
            for j in range(k):
                x = p + row[j]
                new[j] = x if x > new[j] else new[j]
        row = score + t * k
        for j in range(k):
            new[j] += row[j]
    j, most = 0, new[0]
    for i in range(1, k):
        if new[i] > most:
            j, most = i, new[i]
    path[n - 1] = j
    for t in range(n - 2, -1, -1):
        old = best + t * k
        a, most = 0, old[0] + transition[j]
        for i in range(1, k):
            x = old[i] + transition[i * k + j]
            if x > most:
                a, most = i, x
        path[t] = j = a
