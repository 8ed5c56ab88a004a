"""The log-loss of a fold as a function of the numbers of the posterior, with gradient.

The formulas are those of `_evidence`. The loss is a sum over samples:

    log P(y | x) = M_l - log Z + a_y - E_l,    log Z = log sum_l exp M_l,
    M_l = w_r R_l + (eta E_l | c | c'),        a = w_l g,  E_l = log sum_y exp a_y,

where d E_l / d w_l is the mean of g under exp(a - E_l), and d log Z the mean of d M_l
under exp(M - log Z). The evidence of an evaluated leaf is computed once, even if it is
also the leaf of the sample's class.

Cost: an exponential for each leaf and for each class of the evaluated leaves and of the
sample's own.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int8_t, int32_t

from .._watch cimport Watch, over, propagate, watch_of

cdef extern from "_vector.h" nogil:
    double sklstruct_exp_sum(
        Py_ssize_t n, const double* u, double top, double* e) noexcept

cdef enum:
    # Kinds of leaves and pending nodes, by their evidence.
    ABSENT = 0
    CLOSED = 1   # by c
    OPEN = 2     # by its evidence
    PENDING = 3  # by c'

KINDS = {"absent": ABSENT, "closed": CLOSED, "open": OPEN, "pending": PENDING}


cdef struct LeafEvidence:
    double E
    double slope  # in w_l


cdef LeafEvidence evidence_of(
    const double* g, Py_ssize_t m, double w, double* u, double* e
) noexcept nogil:
    cdef LeafEvidence found
    cdef double top = -INFINITY, total, slope = 0
    cdef Py_ssize_t k
    for k in range(m):
        u[k] = w * g[k]
        top = u[k] if u[k] > top else top
    total = sklstruct_exp_sum(m, u, top, e)
    for k in range(m):
        slope += e[k] * g[k]
    found.E, found.slope = top + log(total), slope / total
    return found


cdef class Fold:
    """The evidence of a fold; the fields of `_evidence.Evidence`.

    kind (n, L): of each leaf. length (n, b), own_length (n,): the classes of the leaves
    of `inside` and `own_inside`, 0 if absent. own_slot (n,): which of the
    evaluated leaves is the sample's own, negative for none. share (n,): weights of sum
    1.
    """

    cdef const double[:, ::1] route
    cdef const int8_t[:, ::1] kind
    cdef const int32_t[:, ::1] evaluated
    cdef const double[:, :, ::1] inside
    cdef const int32_t[:, ::1] length
    cdef const int32_t[::1] own
    cdef const int32_t[::1] own_slot
    cdef const double[:, ::1] own_inside
    cdef const int32_t[::1] own_length
    cdef const int32_t[::1] target
    cdef const double[::1] share

    def __init__(
        self, const double[:, ::1] route, const int8_t[:, ::1] kind,
        const int32_t[:, ::1] evaluated, const double[:, :, ::1] inside,
        const int32_t[:, ::1] length, const int32_t[:, ::1] own_of,
        const double[:, ::1] own_inside, const double[::1] share,
    ):
        """own_of (4, n): own, own_slot, own_length, target."""
        self.route, self.kind, self.evaluated = route, kind, evaluated
        self.inside, self.length, self.own_inside = inside, length, own_inside
        self.own, self.own_slot = own_of[0], own_of[1]
        self.own_length, self.target = own_of[2], own_of[3]
        self.share = share

    def log_loss(
        self, const double[::1] numbers, double[::1] gradient, double[:, ::1] room,
        int32_t[::1] stop,
    ):
        """The mean log-loss at (w_r, w_l, eta, c, c'); gradient (5,) in those.

        room: (4, at least 2 b, the classes of any leaf and the leaves).
        """
        cdef Watch watch = watch_of(stop)
        cdef double w_r = numbers[0], w_l = numbers[1], eta = numbers[2]
        cdef double c = numbers[3], pending = numbers[4]
        cdef double loss = 0, total, top, q, share
        cdef double[5] d
        cdef double* mass = &room[0, 0]
        cdef double* u = &room[1, 0]
        cdef double* e = &room[2, 0]
        cdef LeafEvidence* found = <LeafEvidence*>&room[3, 0]
        cdef LeafEvidence mine
        cdef Py_ssize_t n = self.route.shape[0], L = self.route.shape[1], work
        cdef Py_ssize_t b = self.evaluated.shape[1], i, j, l, own
        for j in range(5):
            gradient[j] = 0
        with nogil:
            for i in range(n):
                share, own, work = self.share[i], self.own[i], L
                for j in range(5):
                    d[j] = 0
                # the masses of the leaves, and log Z
                top = -INFINITY
                for l in range(L):
                    mass[l] = -INFINITY
                    if self.kind[i, l] == CLOSED:
                        mass[l] = w_r * self.route[i, l] + c
                    elif self.kind[i, l] == PENDING:
                        mass[l] = w_r * self.route[i, l] + pending
                for j in range(b):
                    if self.length[i, j] == 0:
                        continue
                    found[j] = evidence_of(
                        &self.inside[i, j, 0], self.length[i, j], w_l, u, e
                    )
                    work += self.length[i, j]
                    l = self.evaluated[i, j]
                    mass[l] = w_r * self.route[i, l] + eta * found[j].E
                for l in range(L):
                    top = mass[l] if mass[l] > top else top
                total = sklstruct_exp_sum(L, mass, top, e)
                for l in range(L):
                    if self.kind[i, l] == ABSENT:
                        continue
                    q = e[l] / total
                    d[0] += q * self.route[i, l]
                    if self.kind[i, l] == CLOSED:
                        d[3] += q
                    elif self.kind[i, l] == PENDING:
                        d[4] += q
                for j in range(b):
                    if self.length[i, j]:
                        q = e[self.evaluated[i, j]] / total
                        d[1] += eta * q * found[j].slope
                        d[2] += q * found[j].E
                loss += share * (top + log(total) - mass[own])
                # the sample's own leaf
                d[0] -= self.route[i, own]
                if self.kind[i, own] == CLOSED:
                    d[3] -= 1
                elif self.kind[i, own] == PENDING:
                    d[4] -= 1
                if self.own_slot[i] >= 0:
                    mine = found[self.own_slot[i]]
                    d[1] -= eta * mine.slope
                    d[2] -= mine.E
                if self.target[i] >= 0:
                    if self.own_slot[i] < 0:
                        mine = evidence_of(
                            &self.own_inside[i, 0], self.own_length[i], w_l, u, e
                        )
                        work += self.own_length[i]
                    q = self.own_inside[i, self.target[i]]
                    loss -= share * (w_l * q - mine.E)
                    d[1] -= q - mine.slope
                for j in range(5):
                    gradient[j] += share * d[j]
                if over(&watch, 32 * work):
                    break
        propagate()
        return loss
