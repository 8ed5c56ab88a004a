"""Sums over all nodes and pairs of a back-off model; see `_core_fast` for one node."""

from libc.math cimport exp, INFINITY

from .._sorted cimport find_pair


def row_sums(
    const int[::1] parent,
    const int[::1] pair_ptr,
    const int[::1] target,
    const double[::1] log_prob,
    const double[::1] log_backoff,
    double[::1] out,
):
    """Sum over all classes of P(y | n), for every node, in one downward sweep.

        Z(n) = F(n) + bow(n) * (Z(parent) - sum over n's classes of P(y | parent)),

    F(n) = sum of n's own pairs. A node is numbered after its parent, so Z(parent)
    is ready. The two sums are compensated (Neumaier): the difference is multiplied
    by a back-off weight that can be large.
    """
    cdef int n, a, p, q, y
    cdef double own, own_c, taken, taken_c, v, t, total
    with nogil:
        for n in range(parent.shape[0]):
            own = own_c = taken = taken_c = 0.0
            for p in range(pair_ptr[n], pair_ptr[n + 1]):
                v = exp(log_prob[p])
                t = own + v
                own_c += (own - t) + v if own >= v else (v - t) + own
                own = t
                if n == 0:
                    continue
                y = target[p]
                a = parent[n]
                total = 0.0
                while True:
                    q = find_pair(&pair_ptr[0], &target[0], a, y)
                    if q >= 0:
                        break
                    total += log_backoff[a]
                    a = parent[a]
                v = exp(log_prob[q] + total)
                t = taken + v
                taken_c += (taken - t) + v if taken >= v else (v - t) + taken
                taken = t
            if n == 0:
                out[0] = own + own_c
            elif log_backoff[n] == -INFINITY:
                out[n] = own + own_c
            else:
                v = (out[parent[n]] - taken) - taken_c
                out[n] = own + own_c + exp(log_backoff[n]) * v


def counts_of_counts(const double[::1] adjusted, double[::1] n):
    """n[i] += number of pairs with the count i, for 1 <= i < len(n).

    A count between i and i + 1 is divided between n[i] and n[i + 1] in proportion.
    """
    cdef Py_ssize_t p, i, top = n.shape[0] - 1
    cdef double a, rest
    with nogil:
        for p in range(adjusted.shape[0]):
            a = adjusted[p]
            if a < top + 1:
                i = <Py_ssize_t> a
                rest = a - i
                n[i] += 1.0 - rest
                if i < top:
                    n[i + 1] += rest
