"""Kneser-Ney smoothing as weights of the log-linear model: one sweep from the root.

O(pairs), without additional memory.
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

    On entry score(p) is the pair's own part of the score. beta has one entry per node.
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
