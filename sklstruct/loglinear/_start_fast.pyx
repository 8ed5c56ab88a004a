"""Kneser-Ney smoothing as weights of the log-linear model: one sweep from the root.

O(pairs), without memory of its own.
"""

from libc.stdint cimport int32_t


def interpolate_ratios(Py_ssize_t first, Py_ssize_t last,
                       const int32_t[::1] ptr, const int32_t[::1] pair_parent,
                       const double[::1] adjusted, const double[::1] discounts,
                       double[::1] proba, double[::1] ratio):
    """P and P / (held P(parent)) of the pairs of the nodes first:last of one level.

    discounts are those of the adjusted counts 1, 2, ..., the last for all above; of
    a count below its discount nothing is left.
    """
    cdef Py_ssize_t n, p, i, top = discounts.shape[0]
    cdef double a, k, total, held, above
    with nogil:
        for n in range(first, last):
            total = 0.0
            held = 0.0
            for p in range(ptr[n], ptr[n + 1]):
                a = adjusted[p]
                total += a
                i = <Py_ssize_t> a if a < top else top
                # Of a count below 1 this keeps (1 - D_1) a^2.
                k = a - discounts[i - 1] if i > 0 else (1.0 - discounts[0]) * a * a
                proba[p] = k if k > 0.0 else 0.0
                held += a - proba[p]
            for p in range(ptr[n], ptr[n + 1]):
                above = held / total * proba[pair_parent[p]]
                ratio[p] = 1.0 + proba[p] / total / above
                proba[p] = proba[p] / total + above


def share_along_paths(const int32_t[::1] parent, const int32_t[::1] child_ptr,
                      const int32_t[::1] ptr, const double[::1] node_weight,
                      const double[::1] beta, double[::1] beta_sum,
                      double[::1] score):
    """score <- one weight for all nodes of a path whose contexts always go on in one
    way (one child, no sample ends), such that the score at its end is the same.

    On entry score(p) is the pair's own part of the score. beta has one entry a node.
    Such contexts have the same classes as their child: pair j the parent pair j.
    """
    cdef Py_ssize_t n, m, j, n_nodes = parent.shape[0]
    with nogil:
        for n in range(n_nodes):
            beta_sum[n] = beta[n]
        for n in range(n_nodes - 1, 0, -1):
            m = parent[n]
            if m > 0 and child_ptr[m + 1] - child_ptr[m] == 1 and node_weight[m] == 0:
                beta_sum[m] += beta_sum[n]
                for j in range(ptr[n + 1] - ptr[n]):
                    score[ptr[m] + j] += score[ptr[n] + j]
        for n in range(n_nodes):
            m = parent[n]
            if m > 0 and child_ptr[m + 1] - child_ptr[m] == 1 and node_weight[m] == 0:
                for j in range(ptr[n + 1] - ptr[n]):
                    score[ptr[n] + j] = score[ptr[m] + j]
            elif beta_sum[n] > 0:
                for j in range(ptr[n], ptr[n + 1]):
                    score[j] = score[j] / beta_sum[n]
            else:
                for j in range(ptr[n], ptr[n + 1]):
                    score[j] = 0.0


def between(const double[:, ::1] factor, bint positive, const double[::1] w0,
            const double[::1] w1, const double[::1] w2, const double[::1] w3,
            double[::1] line, double[::1] curve):
    """Where the weights of solutions point to; w2 and w3 may be empty.

    line = factor[0] w. In `curve`, factor[1] w[:2] is halfway replaced: by the mean of
    it and of factor[2] w[:3] where the three weights are not 0, and by the mean of
    that and of factor[3] w where the four are not. Both from 0 on if positive.
    """
    cdef Py_ssize_t p
    cdef int n = 2 + (w2.shape[0] > 0) + (w3.shape[0] > 0)
    cdef double a, b, c, d, v, lower, higher
    with nogil:
        for p in range(w0.shape[0]):
            a, b = w0[p], w1[p]
            v = factor[0, 0] * a + factor[0, 1] * b
            line[p] = 0.0 if positive and v < 0.0 else v
            v = factor[1, 0] * a + factor[1, 1] * b
            if n > 2 and a != 0.0 and b != 0.0:
                c = w2[p]
                if c != 0.0:
                    lower = v
                    higher = factor[2, 0] * a + factor[2, 1] * b + factor[2, 2] * c
                    v = 0.5 * (lower + higher)
                    d = w3[p] if n > 3 else 0.0
                    if d != 0.0:
                        lower = higher
                        higher = (factor[3, 0] * a + factor[3, 1] * b
                                  + factor[3, 2] * c + factor[3, 3] * d)
                        v = 0.5 * (lower + higher)
            curve[p] = 0.0 if positive and v < 0.0 else v
