"""Chains whose variables all have the same k values, and one table of transitions.

This is what a model of sequences of observations is; `_inference_fast` has all other
graphs. Items of the sequences stand in a row, sequence i has ptr[i] ... ptr[i + 1] - 1.

- `item_scores`: the score of each value of each item; O(features k).
- `best_paths`: Viterbi's algorithm from the start to the end; O(items k^2). Of paths of
  equal score the one with the lowest last value, then the lowest value before it, as in
  CRFsuite.
- `path_sums`: the logarithm of the sum over all paths, and marginals; O(items k^2),
  with an exponential for each value. Numbers are scaled at each item; sequences whose
  numbers may underflow nevertheless are reported.

Inner loops run over consecutive numbers. Nothing is checked here.
"""

from libc.math cimport exp, log
from libc.stdint cimport int32_t, int64_t, uint8_t

# As in `_inference_fast`: with messages of at least this size, what underflows is too
# small to count.
cdef double UNSAFE = 1e-150


def item_scores(
    const int64_t[::1] per_item, const int64_t[::1] column, const double[::1] value,
    const double[:, ::1] coef, double[:, ::1] score,
):
    """Add the weights of the features of each item; a column of -1 is left out.

    score : (items, k), zeros.
    """
    cdef Py_ssize_t t, f, j, end, at = 0, k = score.shape[1]
    cdef double x
    cdef double* out
    cdef const double* row
    with nogil:
        for t in range(score.shape[0]):
            out = &score[t, 0]
            end = at + per_item[t]
            for f in range(at, end):
                if column[f] < 0:
                    continue
                x, row = value[f], &coef[column[f], 0]
                for j in range(k):
                    out[j] += x * row[j]
            at = end


def best_paths(
    const double[:, ::1] score, const double[:, ::1] transition,
    const int64_t[::1] ptr, int32_t[:, ::1] back, double[:, ::1] work,
    int32_t[::1] path,
):
    """The best path of each sequence.

    back : (items, k); work : (2, k); path : (items,), the result.
    """
    cdef Py_ssize_t s, t, i, j, k = score.shape[1]
    cdef double p, x
    cdef double* old = &work[0, 0]
    cdef double* new = &work[1, 0]
    cdef const double* row
    cdef int32_t* source
    with nogil:
        for s in range(ptr.shape[0] - 1):
            if ptr[s] == ptr[s + 1]:
                continue
            for j in range(k):
                old[j] = score[ptr[s], j]
            for t in range(ptr[s] + 1, ptr[s + 1]):
                source = &back[t, 0]
                p, row = old[0], &transition[0, 0]
                for j in range(k):
                    new[j] = p + row[j]
                    source[j] = 0
                for i in range(1, k):
                    p, row = old[i], &transition[i, 0]
                    for j in range(k):
                        x = p + row[j]
                        source[j] = <int32_t>i if x > new[j] else source[j]
                        new[j] = x if x > new[j] else new[j]
                row = &score[t, 0]
                for j in range(k):
                    new[j] += row[j]
                old, new = new, old
            i = 0
            for j in range(1, k):
                if old[j] > old[i]:
                    i = j
            for t in range(ptr[s + 1] - 1, ptr[s], -1):
                path[t] = <int32_t>i
                i = back[t, i]
            path[ptr[s]] = <int32_t>i


def path_sums(
    const double[:, ::1] score, const double[:, ::1] ratio,
    const double[:, ::1] reverse, double top, const int64_t[::1] ptr,
    double[:, ::1] state, double[:, ::1] work, double[::1] log_z,
    double[:, ::1] belief, uint8_t[::1] safe, bint marginals,
):
    """The logarithm of the sum over all paths of each sequence, and marginals.

    ratio : exp(transition - top), reverse : its transpose, top : the largest
    transition; state : (items, k), room; work : (2, k), room; belief : (items, k), the
    marginals; safe : 0 for sequences whose results are not valid.
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
