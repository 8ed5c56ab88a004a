"""Sums over the paths of chains, and the conditional likelihood with its gradient.

All items of the chains have the same k values, and one table of transitions.
Sequence s has the items ptr[s] ... ptr[s + 1] - 1. The likelihood is one pass over each
chain: only free weights are read, the weights of a feature are contiguous, and the
numbers of a chain stay in the cache.

Sums are scaled so that the sums of before(t) and of before(t) after(t) are 1 at each
item t. With r = exp(smallest - largest transition), the sums that arrive at the values
of an item are then all at least r / k, and after(t) is at most 1 / r. If r >=
exp(-SAFE), relevant terms do not underflow and nothing overflows for any scores. With
other transitions, sums are computed from logarithms.

The kernels do not check their arguments.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t

from .._log_sum cimport log_sum

cdef extern from "_vector.h" nogil:
    double sklstruct_exp(double x) noexcept

# Largest range of the transitions, in nats, for sums without logarithms.
SAFE = 300.0


cdef struct Sums:
    # Scratch for the longest chain, n rows of k: scores, scores with -inf for labels
    # that are not allowed, exp(scores - largest of the item), before, expectations.
    double* score
    double* allowed
    double* state
    double* before
    double* share
    double* scale  # n
    double* after  # k
    double* arriving  # k
    # The transitions and exp(transition - top), each with its transpose.
    const double* transition
    const double* transposed
    const double* ratio
    const double* reverse
    double top
    bint logs
    # Expected transitions, without the factor `ratio` and with all factors.
    double* pair
    double* whole


cdef double scaled_sums(
    Sums* s, const double* score, Py_ssize_t n, Py_ssize_t k, double weight
) noexcept nogil:
    """Logarithm of the sum over all paths; adds weight times the expectations."""
    cdef Py_ssize_t t, i, j
    cdef double most, total, x, log_z = (n - 1) * s.top
    cdef double* here
    cdef double* state
    cdef double* share
    cdef double* q = s.arriving
    cdef const double* row
    for t in range(n):
        row, state, here = score + t * k, s.state + t * k, s.before + t * k
        most = row[0]
        for j in range(1, k):
            most = row[j] if row[j] > most else most
        for j in range(k):
            state[j] = sklstruct_exp(row[j] - most)
        for j in range(k):
            state[j] = 0.0 if row[j] == -INFINITY else state[j]
        if t == 0:
            for j in range(k):
                here[j] = state[j]
        else:
            for j in range(k):
                here[j] = 0.0
            for i in range(k):
                x, row = here[i - k], s.ratio + i * k
                for j in range(k):
                    here[j] += x * row[j]
            for j in range(k):
                here[j] *= state[j]
        total = 0.0
        for j in range(k):
            total += here[j]
        log_z += most + log(total)
        s.scale[t] = x = 1.0 / total
        for j in range(k):
            here[j] *= x
    for j in range(k):
        s.after[j] = 1.0
    for t in range(n - 1, -1, -1):
        here, share = s.before + t * k, s.share + t * k
        for j in range(k):
            share[j] += weight * here[j] * s.after[j]
        if t == 0:
            break
        here, state, x = here - k, s.state + t * k, s.scale[t]
        for j in range(k):
            q[j] = x * state[j] * s.after[j]
            s.after[j] = 0.0
        for j in range(k):
            x, row = q[j], s.reverse + j * k
            for i in range(k):
                s.after[i] += x * row[i]
        for i in range(k):
            x, share = weight * here[i], s.pair + i * k
            for j in range(k):
                share[j] += x * q[j]
    return log_z


cdef double log_sums(
    Sums* s, const double* score, Py_ssize_t n, Py_ssize_t k, double weight
) noexcept nogil:
    """`scaled_sums` in logarithms."""
    cdef Py_ssize_t t, i, j
    cdef double log_z, x
    cdef double* here
    cdef double* q = s.arriving
    for t in range(n):
        here = s.before + t * k
        for j in range(k):
            here[j] = score[t * k + j]
            if t:
                here[j] += log_sum(here - k, s.transposed + j * k, k)
    for j in range(k):
        s.after[j] = 0.0
    log_z = log_sum(s.before + (n - 1) * k, s.after, k)
    for t in range(n - 1, -1, -1):
        here = s.before + t * k
        for j in range(k):
            s.share[t * k + j] += weight * exp(here[j] + s.after[j] - log_z)
        if t == 0:
            break
        for j in range(k):
            q[j] = score[t * k + j] + s.after[j]
        for i in range(k):
            s.after[i] = log_sum(q, s.transition + i * k, k)
            for j in range(k):
                x = here[i - k] + s.transition[i * k + j] + q[j] - log_z
                s.whole[i * k + j] += weight * exp(x)
    return log_z


cdef Sums arranged(
    const double[:, :, ::1] tables, double top, bint logs, double[:, :, ::1] pair,
    double[::1] room,
) noexcept:
    """The arguments of `Chains.loss` as pointers."""
    cdef Sums s
    cdef Py_ssize_t k = tables.shape[1]
    cdef Py_ssize_t longest = (room.shape[0] - 2 * k) // (5 * k + 1)
    s.score = &room[0]
    s.allowed = s.score + longest * k
    s.state = s.allowed + longest * k
    s.before = s.state + longest * k
    s.share = s.before + longest * k
    s.scale = s.share + longest * k
    s.after = s.scale + longest
    s.arriving = s.after + k
    s.transition, s.transposed = &tables[0, 0, 0], &tables[1, 0, 0]
    s.ratio, s.reverse = &tables[2, 0, 0], &tables[3, 0, 0]
    s.top, s.logs = top, logs
    s.pair, s.whole = &pair[0, 0, 0], &pair[1, 0, 0]
    return s


def chain_sums(
    const double[:, ::1] score, const int64_t[::1] ptr, const double[:, :, ::1] tables,
    double top, bint logs, double[:, :, ::1] pair, double[::1] room, double[::1] log_z,
    double[:, ::1] share,
):
    """The logarithm of the sum over all paths of each sequence, and marginals.

    score : (items, k), -inf for labels that are not allowed; at least one is.
    log_z : (sequences,) and share : (items, k), zeros on entry, are the results; the
    other arguments are as in `Chains.loss`.
    """
    cdef Py_ssize_t i, k = tables.shape[1]
    cdef Sums s = arranged(tables, top, logs, pair, room)
    with nogil:
        for i in range(ptr.shape[0] - 1):
            log_z[i] = 0.0
            if ptr[i] < ptr[i + 1]:
                s.share = &share[ptr[i], 0]
                log_z[i] = sums(&s, &score[ptr[i], 0], ptr[i + 1] - ptr[i], k, 1.0)


cdef class Chains:
    """Features and labels of sequences.

    start, column, value : rows of features of the items
    first, label : the free weights of column c are first[c] ... first[c + 1] - 1
    path : (items,), the label of each item or -1; weight : (sequences,)
    """

    cdef const int64_t[::1] ptr, start, first
    cdef const int32_t[::1] column, label, path
    cdef const double[::1] value, weight

    def __init__(self, ptr, rows, first, label, path, weight):
        self.ptr, self.first, self.label = ptr, first, label
        self.start, self.column, self.value = rows[:3]
        self.path, self.weight = path, weight

    def loss(
        self, Py_ssize_t begin, Py_ssize_t end, const double[::1] w,
        const double[:, :, ::1] tables, double top, bint logs, double[::1] gradient,
        double[:, :, ::1] pair, double[::1] room,
    ):
        """The loss of the sequences begin ... end - 1.

        w, gradient : for the free weights of features; the gradient is added to.
        tables : (4, k, k), the transitions, their transpose, exp(transition - top) and
        its transpose, top being the largest transition.
        logs : whether sums are computed from logarithms.
        pair : (2, k, k), expected transitions minus the transitions of the labels are
        added; in the first table without the factor exp(transition - top).
        room : n (5 k + 1) + 2 k numbers, with n the largest number of items of a
        sequence.
        """
        cdef Py_ssize_t i, n, k = tables.shape[1]
        cdef double loss = 0.0
        cdef Sums s = arranged(tables, top, logs, pair, room)
        with nogil:
            for i in range(begin, end):
                n = self.ptr[i + 1] - self.ptr[i]
                if n:
                    loss += self.of_one(&s, i, n, k, w, gradient)
        return loss

    cdef double of_one(
        self, Sums* s, Py_ssize_t i, Py_ssize_t n, Py_ssize_t k, const double[::1] w,
        double[::1] gradient,
    ) noexcept nogil:
        cdef Py_ssize_t t, j, e, f, at, item = self.ptr[i]
        cdef double x, loss, weight = self.weight[i]
        cdef bint known = True
        cdef double* row
        for j in range(n * k):
            s.score[j] = s.share[j] = 0.0
        for t in range(n):
            row = s.score + t * k
            for e in range(self.start[item + t], self.start[item + t + 1]):
                x = self.value[e]
                for f in range(
                    self.first[self.column[e]], self.first[self.column[e] + 1]
                ):
                    row[self.label[f]] += x * w[f]
            known = known and self.path[item + t] >= 0
        loss = sums(s, s.score, n, k, weight)
        if known:
            for t in range(n):
                j = self.path[item + t]
                loss -= s.score[t * k + j]
                s.share[t * k + j] -= weight
                if t:
                    at = self.path[item + t - 1] * k + j
                    loss -= s.transition[at]
                    s.whole[at] -= weight
        else:
            for t in range(n):
                for j in range(k):
                    at = self.path[item + t]
                    x = s.score[t * k + j] if at < 0 or at == j else -INFINITY
                    s.allowed[t * k + j] = x
            loss -= sums(s, s.allowed, n, k, -weight)
        for t in range(n):
            row = s.share + t * k
            for e in range(self.start[item + t], self.start[item + t + 1]):
                x = self.value[e]
                for f in range(
                    self.first[self.column[e]], self.first[self.column[e] + 1]
                ):
                    gradient[f] += x * row[self.label[f]]
        return weight * loss


cdef double sums(
    Sums* s, const double* score, Py_ssize_t n, Py_ssize_t k, double weight
) noexcept nogil:
    if s.logs:
        return log_sums(s, score, n, k, weight)
    return scaled_sums(s, score, n, k, weight)
