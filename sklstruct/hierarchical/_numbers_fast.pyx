"""The log-loss of a fold as a function of the numbers of the posterior, with gradient.

The formulas are those of `_evidence`. The loss is a sum over samples:

    log P(y | x) = M_l - log Z + a_y - E_l,    log Z = log sum_l exp M_l,
    M_l = w_r R_l + (eta E_l | c | c'),        a = w_l g,  E_l = log sum_y exp a_y,

where d E_l / d w_l is the mean of g under exp(a - E_l), and d log Z the mean of d M_l
under exp(M - log Z). The evidence of an evaluated leaf is computed once, even if it is
also the leaf of the sample's class.

Cost: an exponential per item and per class of the evaluated leaves and of the true leaf
(the leaf of the sample's class).
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int8_t, int32_t

from .._exp_sum cimport exp_sum, largest
from .._watch cimport Watch, over, propagate, watch_of

cdef enum:
    # States of leaves and pending nodes, those of `_evidence_fast`.
    PENDING = 1
    CLOSED = 2  # not evaluated


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
    total = exp_sum(m, u, top, e)
    for k in range(m):
        slope += e[k] * g[k]
    found.E, found.slope = top + log(total), slope / total
    return found


def log_loss(
    const double[:, ::1] route, const int8_t[:, ::1] kind,
    const double[:, :, ::1] inside, const int32_t[:, ::1] length,
    const int32_t[:, ::1] item, const int32_t[:, ::1] own, const double[::1] share,
    const double[::1] numbers, double[::1] gradient, double[:, ::1] room,
    int32_t[::1] stop,
):
    """The mean log-loss at numbers = (w_r, w_l, eta, c, c'); fills gradient (5,).

    route to own: fields of `_evidence.Evidence`. share: weights of the samples, of sum
    1. room: (4, the largest of twice the slots, the classes of a leaf, and the items).
    """
    cdef Watch watch = watch_of(stop)
    cdef double w_r = numbers[0], w_l = numbers[1], eta = numbers[2]
    cdef double c = numbers[3], pending = numbers[4]
    cdef double loss = 0, total, top, q
    cdef double[5] d
    cdef double* mass = &room[0, 0]
    cdef double* u = &room[1, 0]
    cdef double* e = &room[2, 0]
    cdef LeafEvidence* found = <LeafEvidence*>&room[3, 0]
    cdef Py_ssize_t i, j, l, n_slots, mine, slot, L
    for j in range(5):
        gradient[j] = 0
    with nogil:
        for i in range(route.shape[0]):
            L, mine, slot, n_slots = own[0, i], own[1, i], own[2, i], 0
            for j in range(5):
                d[j] = 0
            # the masses of the leaves, and log Z
            for l in range(L):
                mass[l] = w_r * route[i, l] + (
                    pending if kind[i, l] == PENDING else c
                )
            while n_slots < length.shape[1] and length[i, n_slots]:
                found[n_slots] = evidence_of(
                    &inside[i, n_slots, 0], length[i, n_slots], w_l, u, e
                )
                l = item[i, n_slots]
                if l >= 0:
                    mass[l] = w_r * route[i, l] + eta * found[n_slots].E
                n_slots += 1
            top = largest(L, mass)
            total = exp_sum(L, mass, top, e)
            loss += share[i] * (top + log(total) - mass[mine])
            # the mean of d M under the probabilities, less that of the sample's leaf
            for l in range(L):
                q = e[l] / total - (l == mine)
                d[0] += q * route[i, l]
                if kind[i, l] == CLOSED:
                    d[3] += q
                elif kind[i, l] == PENDING:
                    d[4] += q
            for j in range(n_slots):
                l = item[i, j]
                if l >= 0:
                    q = e[l] / total - (l == mine)
                    d[1] += eta * q * found[j].slope
                    d[2] += q * found[j].E
            if slot >= 0:
                q = inside[i, slot, own[3, i]]
                loss -= share[i] * (w_l * q - found[slot].E)
                d[1] -= q - found[slot].slope
            for j in range(5):
                gradient[j] += share[i] * d[j]
            if over(&watch, 32 * (L + n_slots * inside.shape[2])):
                break
    propagate()
    return loss
