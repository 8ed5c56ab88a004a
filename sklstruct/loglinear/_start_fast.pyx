"""One weight for the contexts of a path that always goes on in one way.

O(pairs), without additional memory.
"""

from libc.stdint cimport int32_t


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
