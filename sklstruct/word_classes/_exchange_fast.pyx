"""The exchange algorithm: moves every word in turn to its best class.

With h(x) = x ln x the objective is

    sum over (c, f) of h(N(c, f)) - sum over c of h(N(c)),

N(c, f) the count of feature f in class c. Putting the counts n(w, f) of a word into
class c changes it by

    sum over f of [h(N(c, f) + n(w, f)) - h(N(c, f))] - [h(N(c) + n(w)) - h(N(c))].

The tables are stored by feature, with the classes contiguous, so that one feature of a
word is one run of memory. Most counts n(w, f) are 1: for them the differences
h(N + 1) - h(N) are stored, and a feature costs one addition of rows. The other
differences come from a table of h over 0, 1, ... The score of a word's own class is
computed for the class without the word. It is corrected by one number for each feature,
so that tables change only when a word moves.

Cost of a visit: O(features of the word x classes). Nothing is allocated.
"""

from libc.math cimport log
from libc.stdint cimport int32_t, int64_t

from .._watch cimport OPS_BETWEEN_SIGNAL_CHECKS, interrupt


cdef inline double _xlogx(double x) noexcept nogil:
    return x * log(x) if x > 0 else 0.0


cdef void _add(const int32_t *feature, const int32_t *count, Py_ssize_t n,
               int32_t c, int32_t sign, Py_ssize_t n_classes,
               const double *h, int32_t *table, double *one_more) noexcept nogil:
    """Add the counts of a word to class c, or subtract them (sign -1)."""
    cdef Py_ssize_t i, at
    cdef int32_t x
    for i in range(n):
        at = feature[i] * n_classes + c
        x = table[at] + sign * count[i]
        table[at] = x
        one_more[at] = h[x + 1] - h[x]


def exchange(const int64_t[::1] ptr, const int32_t[::1] feature,
             const int32_t[::1] count, const int64_t[::1] weight,
             const int32_t[::1] words, const double[::1] h,
             int32_t[::1] label, int32_t[:, ::1] table,
             double[:, ::1] one_more, int64_t[::1] total, double[::1] score):
    """Visit `words`; returns (number of moves, gain in the objective).

    Word w has the counts ptr[w]:ptr[w + 1] of features that other words have too;
    weight[w] is the sum over all its features. A word with the label -1 has no class
    yet; its first class counts as a move without gain. A word moves only if another
    class is better by more than rounding. score: room for n_classes doubles.
    """
    cdef Py_ssize_t n_classes = total.shape[0], i, c
    cdef int64_t k, first, last
    cdef int32_t w, n, a, best, x
    cdef double own, gain, t, top, gained = 0
    cdef int64_t moves = 0, work = 0
    cdef const double *row
    cdef const int32_t *counts
    if n_classes == 0 or words.shape[0] == 0:
        return 0, 0.0
    with nogil:
        for i in range(words.shape[0]):
            w = words[i]
            a = label[w]
            first = ptr[w]
            last = ptr[w + 1]
            work += (last - first + 8) * n_classes
            if work > OPS_BETWEEN_SIGNAL_CHECKS:
                work = 0
                interrupt()
            own = 0
            for c in range(n_classes):
                score[c] = 0
            for k in range(first, last):
                n = count[k]
                if n == 1:
                    row = &one_more[feature[k], 0]
                    for c in range(n_classes):
                        score[c] += row[c]
                else:
                    counts = &table[feature[k], 0]
                    for c in range(n_classes):
                        score[c] += h[counts[c] + n] - h[counts[c]]
                if a >= 0:
                    x = table[feature[k], a]
                    own += h[x] - h[x - n]
            t = <double> weight[w]
            for c in range(n_classes):
                score[c] -= _xlogx(total[c] + t) - _xlogx(<double> total[c])
            if a >= 0:
                score[a] = own - (_xlogx(<double> total[a]) - _xlogx(total[a] - t))
            best = 0
            for c in range(1, n_classes):
                if score[c] > score[best]:
                    best = <int32_t> c
            if best == a:
                continue
            gain = 0
            if a >= 0:
                gain = score[best] - score[a]
                # a smaller gain is rounding of sums of this size
                top = _xlogx(<double> total[a]) + _xlogx(<double> total[best])
                if gain <= 1e-12 * (1 + top):
                    continue
                if last > first:
                    _add(&feature[first], &count[first], last - first, a, -1,
                         n_classes, &h[0], &table[0, 0], &one_more[0, 0])
                total[a] -= weight[w]
            if last > first:
                _add(&feature[first], &count[first], last - first, best, 1,
                     n_classes, &h[0], &table[0, 0], &one_more[0, 0])
            total[best] += weight[w]
            label[w] = best
            moves += 1
            gained += gain
    return moves, gained


def merge_losses(const int32_t[:, ::1] table, int32_t a, const int32_t[::1] others,
                 const double[::1] h, double[::1] out):
    """out[i] = sum over f of h(N(a, f)) + h(N(b, f)) - h(N(a, f) + N(b, f))."""
    cdef Py_ssize_t i, f
    cdef int32_t b
    cdef double loss
    with nogil:
        for i in range(others.shape[0]):
            b = others[i]
            loss = 0
            for f in range(table.shape[1]):
                # the loss is 0 if one count is 0
                if table[a, f] > 0 and table[b, f] > 0:
                    loss += (h[table[a, f]] + h[table[b, f]]
                             - h[table[a, f] + table[b, f]])
            out[i] = loss
