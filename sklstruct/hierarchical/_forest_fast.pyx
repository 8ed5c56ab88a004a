"""The forest of logistic models, and log-probabilities of all classes.

The trees ("forest") share one numbering of nodes: tree t has the nodes
tree_ptr[t] ... tree_ptr[t + 1], its root first, parents before children, the children
of a node consecutive. Node v has n_child[v] children from first_child[v] on; its model
is the rows row[v] ... of coef, one row for two children (the logit of the second), one
for each child otherwise, none for a single child. node_class[v] is the class of a
terminal node, -1 otherwise; terminal[t, c] the inverse.

The probability of a class is the mean over trees of the product along its path.
Every probability that is returned is a sum of conditional log-probabilities from the
root down, in the same order in every function, so that two routes to one number agree
to the rounding of the scores.

Costs for a sample, d features: `full_rows` all rows of coef (by one matrix product
outside) and an exponential a node. `_search_fast` and `_walks_fast` need fewer.

If a score is not a number (a sum of infinities of both signs), the kernels return False
and the caller raises ValueError.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int32_t, int64_t

import numpy as np

cdef extern from "_vector.h" nogil:
    void log_mean "sklstruct_log_mean"(
        Py_ssize_t, Py_ssize_t, const double*, double*
    ) noexcept


cdef class ForestArrays:
    """The forest's arrays, checked for length once."""

    def __cinit__(self):
        self.view.node = NULL
        self.view.step = NULL
        self.view.inner = NULL

    def __init__(
        self, const int32_t[::1] tree_ptr, const int32_t[::1] parent,
        const int32_t[::1] first_child, const int32_t[::1] n_child,
        const int32_t[::1] row, const int32_t[::1] node_class,
        const int32_t[:, ::1] terminal,
    ):
        cdef Py_ssize_t v
        cdef TreeNode* node
        cdef int32_t[::1] depth
        self.n_nodes = parent.shape[0]
        if not (
            first_child.shape[0] == n_child.shape[0] == row.shape[0]
            == node_class.shape[0] == self.n_nodes
        ):
            raise ValueError("the arrays of a forest differ in length")
        if self.view.node != NULL:
            raise RuntimeError("the arrays of a forest are read once")
        self.view.node = node = <TreeNode*>PyMem_Calloc(self.n_nodes, sizeof(TreeNode))
        self.view.inner = <int32_t*>PyMem_Calloc(self.n_nodes, sizeof(int32_t))
        self.view.step = <Step*>PyMem_Calloc(self.n_nodes, sizeof(Step))
        if node == NULL or self.view.inner == NULL or self.view.step == NULL:
            raise MemoryError(f"no memory for the {self.n_nodes} nodes of a forest")
        self.view.n_inner = 0
        depth = np.zeros(self.n_nodes, dtype=np.int32)
        for v in range(self.n_nodes):
            self.view.step[v].first_child = first_child[v]
            self.view.step[v].row = row[v] if n_child[v] == 2 else -1
        self.view.depth = 0
        for v in range(self.n_nodes):
            if parent[v] >= 0:
                depth[v] = depth[parent[v]] + (n_child[parent[v]] > 1)
                self.view.depth = max(self.view.depth, <Py_ssize_t>depth[v])
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
        for v in range(self.n_nodes):
            # less than 1 / (number of classes), by more than any rounding
            node[v].share = <float>(0.999999 / node[v].share)
            if n_child[v] > 0:
                self.view.inner[self.view.n_inner] = <int32_t>v
                self.view.n_inner += 1
        self.keep = tree_ptr, terminal
        self.view.n_trees = terminal.shape[0]
        self.view.n_classes = terminal.shape[1]
        self.view.tree_ptr = &tree_ptr[0]
        self.view.terminal = &terminal[0, 0]

    def __dealloc__(self):
        PyMem_Free(self.view.node)
        PyMem_Free(self.view.step)
        PyMem_Free(self.view.inner)


cdef class LogisticForest:
    """A forest with the weights of its models, float32 or float64.

    coef (n_rows, d), intercept (n_rows,). At least one row: a forest without models
    gets a row that no node refers to.
    """

    def __init__(self, ForestArrays forest, coef, intercept):
        cdef const double[:, ::1] wide
        cdef const double[::1] wide_b
        cdef const float[:, ::1] narrow
        cdef const float[::1] narrow_b
        if intercept.shape[0] != coef.shape[0] or coef.shape[0] == 0:
            raise ValueError("coef and intercept differ in length, or are empty")
        self.forest = forest
        self.keep = coef, intercept
        if coef.dtype == "float32":
            narrow, narrow_b = coef, intercept
            self.coef, self.intercept = <void*>&narrow[0, 0], <void*>&narrow_b[0]
        else:
            wide, wide_b = coef, intercept
            self.coef, self.intercept = <void*>&wide[0, 0], <void*>&wide_b[0]


cdef class SampleRows:
    """RowsView of samples: a C-contiguous array, or the arrays of a CSR matrix.

    Their dtype must be that of coef. CSR: checked, indices int32 and indptr int64, d
    the number of columns.
    """

    @staticmethod
    def dense(X):
        cdef SampleRows rows = SampleRows()
        cdef const double[:, ::1] wide
        cdef const float[:, ::1] narrow
        rows.keep = X
        rows.view.n, rows.view.d = X.shape
        if X.size == 0:
            return rows
        if X.dtype == "float32":
            narrow = X
            rows.view.data = <void*>&narrow[0, 0]
        else:
            wide = X
            rows.view.data = <void*>&wide[0, 0]
        return rows

    @staticmethod
    def sparse(data, const int32_t[::1] index, const int64_t[::1] indptr, Py_ssize_t d):
        cdef SampleRows rows = SampleRows()
        cdef const double[::1] wide
        cdef const float[::1] narrow
        # pointers to nothing are not NULL, which stands for dense rows
        if data.size == 0:
            data, index = np.zeros(1, dtype=data.dtype), np.zeros(1, dtype=np.int32)
        rows.keep = data, index, indptr
        rows.view.n, rows.view.d = indptr.shape[0] - 1, d
        if data.dtype == "float32":
            narrow = data
            rows.view.data = <void*>&narrow[0]
        else:
            wide = data
            rows.view.data = <void*>&wide[0]
        rows.view.index, rows.view.indptr = &index[0], &indptr[0]
        return rows


def full_rows(
    ForestArrays forest, const double[:, ::1] scores, const double[:, ::1] soft,
    double[::1] work, double[:, ::1] out,
):
    """Log-probabilities (n, K) from the scores z (n, rows of coef).

    soft: log(1 + exp(-|z|)), by NumPy: its loops are vectorised, those of the C library
    are not. work: one double for each node, and for each class and tree.
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
