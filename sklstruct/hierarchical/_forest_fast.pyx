"""The forest of logistic models, and log-probabilities of all classes.

The trees ("forest") share one numbering of nodes: tree t has the nodes
tree_ptr[t] ... tree_ptr[t + 1], its root first, parents before children, the children
of a node consecutive. Node v has n_child[v] children from first_child[v] on; its model
is the rows row[v] ... of coef, one row for two children (the logit of the second), one
row per child otherwise. node_class[v] is the class of a terminal node, -1 otherwise;
terminal[t, c] is the terminal node of class c. No node has a single child.

The probability of a class is the mean over trees of the product along its path.
Every probability that is returned is a sum of conditional log-probabilities from the
root down, in the same order in every function, so that two functions that return the
same number agree up to the rounding of the scores.

`full_rows` costs, per sample, a product with all rows of coef (one matrix product of
the caller) and an exponential per node. `_search_fast` and `_walks_fast` need fewer.

If a score is not a number (a sum of infinities of both signs), the kernels return False
and the caller raises ValueError.
"""

from libc.stdint cimport int32_t, int64_t

import numpy as np

cdef extern from "_vector.h" nogil:
    void log_mean "sklstruct_log_mean"(
        Py_ssize_t, Py_ssize_t, const double*, double*
    ) noexcept


cdef class ForestArrays:
    """The arrays of a `Forest`, as the kernels read them."""

    def __init__(
        self, const int32_t[::1] tree_ptr, const int32_t[::1] parent,
        const int32_t[::1] first_child, const int32_t[::1] n_child,
        const int32_t[::1] row, const int32_t[::1] node_class,
        const int32_t[:, ::1] terminal,
    ):
        cdef Py_ssize_t v
        cdef TreeNode* node
        cdef int32_t[::1] depth
        cdef int64_t[::1] room
        self.n_nodes = parent.shape[0]
        room = np.zeros(self.n_nodes * (sizeof(TreeNode) + 8) // 8, dtype=np.int64)
        self.view.node = node = <TreeNode*>&room[0]
        self.view.inner = <int32_t*>(node + self.n_nodes)
        self.view.n_inner = 0
        depth = np.zeros(self.n_nodes, dtype=np.int32)
        for v in range(self.n_nodes - 1, -1, -1):
            node[v].parent = parent[v]
            node[v].first_child = first_child[v]
            node[v].n_child = n_child[v]
            node[v].row = row[v]
            node[v].node_class = node_class[v]
            if n_child[v] == 0:
                node[v].share += 1
            if parent[v] >= 0:
                node[parent[v]].share += node[v].share
        self.view.depth = 0
        for v in range(self.n_nodes):
            if parent[v] >= 0:
                depth[v] = depth[parent[v]] + 1
                self.view.depth = max(self.view.depth, <Py_ssize_t>depth[v])
            # less than 1 / (number of classes), by more than any rounding
            node[v].share = <float>(0.999999 / node[v].share)
            if n_child[v] > 0:
                self.view.inner[self.view.n_inner] = <int32_t>v
                self.view.n_inner += 1
        self.keep = tree_ptr, terminal, room
        self.view.n_trees = terminal.shape[0]
        self.view.n_classes = terminal.shape[1]
        self.view.tree_ptr = &tree_ptr[0]
        self.view.terminal = &terminal[0, 0]


def full_rows(
    ForestArrays forest, const double[:, ::1] scores, const double[:, ::1] soft,
    double[::1] work, double[:, ::1] out,
):
    """Log-probabilities (n, K) from the scores z (n, rows of coef).

    soft: log(1 + exp(-|z|)) by NumPy, whose loops are vectorised; the functions of the
    C library are not. work: one double for each node, and for each class and tree.
    """
    cdef ForestView* f = &forest.view
    cdef TreeNode* at
    cdef Py_ssize_t i, t, v, k, c
    cdef double a, b, s
    cdef double* z
    cdef double* children
    cdef double* of_class
    cdef double nothing = 0
    cdef bint good = True
    with nogil:
        for i in range(out.shape[0]):
            z = <double*>&scores[i, 0] if scores.shape[1] else &nothing
            for t in range(f.n_trees):
                work[f.tree_ptr[t]] = 0
            # only inner nodes: a test for leaves is a branch that is mispredicted every
            # other time, which takes half the time of the loop
            for v in range(f.n_inner):
                at = f.node + f.inner[v]
                a = work[f.inner[v]]
                children = &work[at.first_child]
                if at.n_child == 2:
                    s = clip(z[at.row])
                    good &= s == s
                    b = a - soft[i, at.row]
                    children[0] = b - (s if s > 0 else 0.0)
                    children[1] = b + (s if s < 0 else 0.0)
                else:
                    good &= log_probabilities(at.n_child, z + at.row, children)
                    for k in range(at.n_child):
                        children[k] += a
            if f.n_trees == 1:
                for c in range(f.n_classes):
                    out[i, c] = work[f.terminal[c]]
            else:
                of_class = &work[f.tree_ptr[f.n_trees]]
                for c in range(f.n_trees * f.n_classes):
                    of_class[c] = work[f.terminal[c]]
                log_mean(f.n_trees, f.n_classes, of_class, &out[i, 0])
    return bool(good)
