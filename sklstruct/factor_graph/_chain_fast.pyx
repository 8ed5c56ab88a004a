"""Chains whose variables all have the same k values, and one table of transitions.

This is what a model of sequences of observations is; `_inference_fast` has all other
graphs. Items of the sequences stand in a row, sequence i has ptr[i] ... ptr[i + 1] - 1.

- `ChainScorer.scores`: the score of each value of each item, from dictionaries and
  lists of names without arrays between; O(features k).
- `ChainScorer.best`: Viterbi's algorithm from the start to the end; O(items k^2). Of
  paths of equal score the one with the lowest last value, then the lowest value before
  it, as in CRFsuite.
- `path_sums`: the logarithm of the sum over all paths, and marginals; O(items k^2),
  with an exponential for each value. Numbers are scaled at each item; sequences whose
  numbers may underflow nevertheless are reported.

Inner loops run over consecutive numbers.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.math cimport exp, log
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from ._features_fast cimport FeatureReader, Sink

from ._features_fast import refusal

# As in `_inference_fast`: with messages of at least this size, what underflows is too
# small to count.
cdef double UNSAFE = 1e-150


cdef class ChainScorer:
    """Scores and best paths of sequences of observations, as they are given.

    A call for one short sequence takes some microseconds, so that neither arrays nor
    memoryviews are made in it: scores are bytes, k doubles for each item. Calls have
    their own room, threads may share the object.

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

    def scores(self, list sequences, owner):
        """The scores of the items of all sequences, one after the other.

        sequences : list of lists of items, made for this call: no list grows
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
        to.coef = &self.weights[0, 0] if self.weights.shape[0] else NULL
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

    best : (n, k), room for the score of the best path to each value of each item; where
    it comes from is found again for the values of the one path, which costs less than
    to keep it for all.
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


def path_sums(
    const double[:, ::1] score, const double[:, ::1] ratio,
    const double[:, ::1] reverse, double top, const int64_t[::1] ptr,
    double[:, ::1] state, double[:, ::1] work, double[::1] log_z,
    double[:, ::1] belief, uint8_t[::1] safe, bint marginals,
):
    """The logarithm of the sum over all paths of each sequence, and marginals.

    ratio : exp(transition - top), reverse : its transpose, top : the largest
    transition; state : (items, k), room; work : (2, k), room; belief : (items, k), the
    marginals; safe : 0 for sequences whose results are not valid. Nothing is checked.
    """
    cdef Py_ssize_t s
    with nogil:
        for s in range(ptr.shape[0] - 1):
            log_z[s] = 0.0
            safe[s] = 1
            if ptr[s] == ptr[s + 1]:
                continue
            safe[s] = forwards(score, ratio, top, ptr[s], ptr[s + 1], state, belief,
                               &log_z[s])
            if safe[s] and marginals:
                safe[s] = backwards(reverse, ptr[s], ptr[s + 1], state, belief,
                                    &work[0, 0], &work[1, 0])


cdef bint step(
    const double* x, const double[:, ::1] ratio, double* out, Py_ssize_t k
) noexcept nogil:
    """out = x times ratio; whether no number is too small."""
    cdef Py_ssize_t i, j
    cdef double a
    cdef const double* row
    for j in range(k):
        out[j] = 0.0
    for i in range(k):
        a, row = x[i], &ratio[i, 0]
        for j in range(k):
            out[j] += a * row[j]
    for j in range(k):
        if not out[j] >= UNSAFE:
            return False
    return True


cdef bint forwards(
    const double[:, ::1] score, const double[:, ::1] ratio, double top,
    Py_ssize_t start, Py_ssize_t end, double[:, ::1] state, double[:, ::1] belief,
    double* log_z,
) noexcept nogil:
    """belief is left with the sums up to each item, the largest of an item being 1."""
    cdef Py_ssize_t t, j, k = score.shape[1]
    cdef double most, total
    cdef double* here
    for t in range(start, end):
        most = score[t, 0]
        for j in range(1, k):
            most = score[t, j] if score[t, j] > most else most
        log_z[0] += most
        for j in range(k):
            state[t, j] = exp(score[t, j] - most)
        here = &belief[t, 0]
        if t == start:
            for j in range(k):
                here[j] = state[t, j]
            continue
        if not step(&belief[t - 1, 0], ratio, here, k):
            return False
        most = 0.0
        for j in range(k):
            here[j] *= state[t, j]
            most = here[j] if here[j] > most else most
        if not most >= UNSAFE:
            return False
        log_z[0] += top + log(most)
        for j in range(k):
            here[j] /= most
    total = 0.0
    for j in range(k):
        total += belief[end - 1, j]
    log_z[0] += log(total)
    return True


cdef bint backwards(
    const double[:, ::1] reverse, Py_ssize_t start, Py_ssize_t end,
    const double[:, ::1] state, double[:, ::1] belief, double* after, double* sent,
) noexcept nogil:
    """belief is left as probabilities."""
    cdef Py_ssize_t t, j, k = state.shape[1]
    cdef double most, total
    for j in range(k):
        sent[j] = 1.0
    for t in range(end - 1, start - 1, -1):
        if t < end - 1:
            most = 0.0
            for j in range(k):
                after[j] = state[t + 1, j] * sent[j]
                most = after[j] if after[j] > most else most
            if not most >= UNSAFE:
                return False
            for j in range(k):
                after[j] /= most
            if not step(after, reverse, sent, k):
                return False
        total = 0.0
        for j in range(k):
            belief[t, j] *= sent[j]
            total += belief[t, j]
        if not total >= UNSAFE:
            return False
        for j in range(k):
            belief[t, j] /= total
    return True
