"""Dual ascent over the blocks of overlapping groups.

With w = v - sum of the dual vectors, a step updates the dual vector of one group by a
projection on the ball of the dual norm:

    u = w_g + dual_g,  dual_g = projection(u),  w_g = u - dual_g.

For p = 2 the ball is Euclidean, and the projection scales u. For p = infinity it is the
ball of the l1 norm, and the projection subtracts a threshold, which Michelot's method
finds in a few steps of O(size): the next threshold follows from the values above the
threshold.

The gap between the objectives of w and of the duals is a sum over the groups of kappa_g
||w_g|| - <w_g, dual_g> >= 0. In this form rounding would hide gaps below 1e-16, that is
errors of w below 1e-8. So the gap is written as a sum of differences that each vanish
at the optimum: with radius r = ||dual||_q and, for p = 2, directions e of the dual and
f of w,

    ||w|| ((kappa - r) + r ||e - f||^2 / 2)   or   max |w| (kappa - r)
                                   + sum of |dual_i| (max |w| - sign(dual_i) w_i),

where differences below SMALL, which rounding of the dual and of w causes, count as 0.

Cost of a round: O(sum of the sizes of the groups). Nothing is allocated.
"""

from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t, int64_t


# The entries of v are at most 1.
cdef double SMALL = 1e-14


cdef double _gap(const double *w, const double *dual, const int32_t *entry,
                 Py_ssize_t n, double kappa, bint largest) noexcept nogil:
    """The part of one group in the gap."""
    cdef Py_ssize_t i
    cdef double size = 0, radius = 0, apart = 0, d, short
    for i in range(n):
        if largest:
            size = max(size, fabs(w[entry[i]]))
            radius += fabs(dual[i])
        else:
            size += w[entry[i]] * w[entry[i]]
            radius += dual[i] * dual[i]
    if not largest:
        size, radius = sqrt(size), sqrt(radius)
    if size <= SMALL:
        return 0.0
    short = kappa - radius
    if short <= SMALL * kappa:
        short = 0.0
    if radius > 0:
        for i in range(n):
            if largest:
                d = size - (w[entry[i]] if dual[i] > 0 else -w[entry[i]])
                if d > SMALL:
                    apart += fabs(dual[i]) * d
            else:
                d = dual[i] / radius - w[entry[i]] / size
                apart += d * d
    if largest:
        return size * short + apart
    return size * (short + 0.5 * radius * apart)


cdef double _threshold(const double *u, Py_ssize_t n, double kappa) noexcept nogil:
    """r with sum of (|u| - r)+ = kappa; 0 if the sum of |u| is at most kappa."""
    cdef Py_ssize_t i, count = n, now
    cdef double total = 0, r, new, rest
    for i in range(n):
        total += fabs(u[i])
    if total <= kappa:
        return 0.0
    r = (total - kappa) / n
    # r increases from step to step, as fewer values are above it
    while True:
        rest, now = 0.0, 0
        for i in range(n):
            if fabs(u[i]) > r:
                rest += fabs(u[i])
                now += 1
        if now == 0 or now == count:
            return r
        new = (rest - kappa) / now
        if new <= r:
            return r
        r, count = new, now


def rounds(const int64_t[::1] ptr, const int32_t[::1] entry, const double[::1] kappa,
           const int64_t[::1] order, bint largest, const double[::1] v, double[::1] w,
           double[::1] dual, double[::1] room, double enough, Py_ssize_t n_rounds):
    """At most `n_rounds` rounds, until the gap is at most `enough`; returns the gap.

    dual is the start, and is changed in place; w is set to v - sum of the duals. In the
    last step of a group that vanishes, its entries of w are set to exactly 0.
    """
    cdef Py_ssize_t k, i, g, size, first, _
    cdef double norm, scale, r, own, gap = 0
    cdef double *u
    with nogil:
        for i in range(w.shape[0]):
            w[i] = v[i]
        for i in range(entry.shape[0]):
            w[entry[i]] -= dual[i]
        for _ in range(n_rounds):
            for k in range(order.shape[0]):
                g = order[k]
                first = ptr[g]
                size = ptr[g + 1] - first
                u = &room[0]
                norm = 0
                for i in range(size):
                    u[i] = w[entry[first + i]] + dual[first + i]
                    norm += u[i] * u[i]
                norm = sqrt(norm)
                if largest:
                    r = _threshold(u, size, kappa[g])
                    for i in range(size):
                        if fabs(u[i]) <= r:
                            own = u[i]
                        else:
                            own = r if u[i] > 0 else -r
                        w[entry[first + i]] = own
                        dual[first + i] = u[i] - own
                else:
                    scale = 1.0 - kappa[g] / norm if norm > kappa[g] else 0.0
                    for i in range(size):
                        own = scale * u[i]
                        w[entry[first + i]] = own
                        dual[first + i] = u[i] - own
            gap = 0
            for g in range(order.shape[0]):
                first = ptr[g]
                gap += _gap(&w[0], &dual[first], &entry[first], ptr[g + 1] - first,
                            kappa[g], largest)
            if gap <= enough:
                break
    return gap
