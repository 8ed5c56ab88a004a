"""Probabilities along one or several trees of logistic models.

The trees ("forest") share one numbering of nodes: tree t has the nodes
tree_ptr[t] ... tree_ptr[t + 1], its root first, parents before children, the children
of a node consecutive. Node v has n_child[v] children from first_child[v] on; its model
is the rows row[v] ... of coef, one row for two children (the logit of the second), one
for each child otherwise, none for a single child. node_class[v] is the class of a
terminal node, -1 otherwise; terminal[t, c] the inverse.

The probability of a class is the mean over trees of the product along its path.
Everything is a sum of conditional log-probabilities from the root down, in the same
order in every function, so that two routes to one number agree to the last bits.

Costs for a sample, d features: `full_rows` all rows of coef (by one matrix product
outside); `greedy` depth x d; `top_k` the nodes that a best-first search expands;
`targets` depth x d. None depends on the other samples of the call.
"""

cimport cython
from libc.math cimport exp, log, log1p
from libc.stdint cimport int32_t, int64_t

include "_blas_pointers.pxi"

ctypedef fused index_t:
    int32_t
    int64_t

# Scores are clipped here: sums over any path stay finite, and no inf - inf.
cdef double LARGEST = 1e300


cdef struct Forest:
    Py_ssize_t n_trees
    Py_ssize_t n_classes
    const int32_t* tree_ptr
    const int32_t* parent
    const int32_t* first_child
    const int32_t* n_child
    const int32_t* row
    const int32_t* node_class
    const int32_t* terminal


cdef class ForestArrays:
    """The forest's arrays, checked for length once."""
    cdef Forest view
    cdef object keep
    cdef readonly Py_ssize_t n_nodes

    def __init__(
        self, const int32_t[::1] tree_ptr, const int32_t[::1] parent,
        const int32_t[::1] first_child, const int32_t[::1] n_child,
        const int32_t[::1] row, const int32_t[::1] node_class,
        const int32_t[:, ::1] terminal,
    ):
        self.n_nodes = parent.shape[0]
        if not (
            first_child.shape[0] == n_child.shape[0] == row.shape[0]
            == node_class.shape[0] == self.n_nodes
        ):
            raise ValueError("the arrays of a forest differ in length")
        self.keep = (
            tree_ptr, parent, first_child, n_child, row, node_class, terminal
        )
        self.view.n_trees = terminal.shape[0]
        self.view.n_classes = terminal.shape[1]
        self.view.tree_ptr = &tree_ptr[0]
        self.view.parent = &parent[0]
        self.view.first_child = &first_child[0]
        self.view.n_child = &n_child[0]
        self.view.row = &row[0]
        self.view.node_class = &node_class[0]
        self.view.terminal = &terminal[0, 0]


cdef inline double clip(double z) noexcept nogil:
    if z > LARGEST:
        return LARGEST
    if z < -LARGEST:
        return -LARGEST
    return z


cdef void log_probabilities(
    Py_ssize_t m, cython.floating* z, double* out,
) noexcept nogil:
    """Conditional log-probabilities of m children from their scores."""
    cdef Py_ssize_t k
    cdef double s, top, total
    if m == 1:
        out[0] = 0
    elif m == 2:
        s = clip(z[0])
        if s > 0:
            out[1] = -log1p(exp(-s))
            out[0] = out[1] - s
        else:
            out[0] = -log1p(exp(s))
            out[1] = out[0] + s
    else:
        top = clip(z[0])
        for k in range(1, m):
            if clip(z[k]) > top:
                top = clip(z[k])
        total = 0
        for k in range(m):
            total += exp(clip(z[k]) - top)
        total = log(total) + top
        for k in range(m):
            out[k] = clip(z[k]) - total


def full_rows(
    ForestArrays forest, const cython.floating[:, ::1] scores,
    double[::1] work, double[:, ::1] out,
):
    """Log-probabilities (n, K) from the scores (n, rows of coef).

    work: one double for each node.
    """
    cdef Forest* f = &forest.view
    cdef Py_ssize_t i, t, v, k, first, c
    cdef double a, b, n_trees = f.n_trees
    cdef cython.floating* z
    cdef cython.floating nothing = 0
    with nogil:
        for i in range(out.shape[0]):
            z = <cython.floating*>&scores[i, 0] if scores.shape[1] else &nothing
            for t in range(f.n_trees):
                work[f.tree_ptr[t]] = 0
                for v in range(f.tree_ptr[t], f.tree_ptr[t + 1]):
                    if f.n_child[v] == 0:
                        c = f.node_class[v]
                        if t == 0:
                            out[i, c] = work[v]
                        else:
                            a, b = out[i, c], work[v]
                            if a < b:
                                a, b = b, a
                            out[i, c] = a + log1p(exp(b - a))
                        continue
                    first = f.first_child[v]
                    log_probabilities(f.n_child[v], z + f.row[v], &work[first])
                    for k in range(first, first + f.n_child[v]):
                        work[k] += work[v]
            if f.n_trees > 1:
                for c in range(f.n_classes):
                    out[i, c] -= log(n_trees)


cdef struct Sample:
    # dense: x; sparse: nnz values x at the columns of index32 or index64
    Py_ssize_t d
    Py_ssize_t nnz
    bint sparse
    const int32_t* index32
    const int64_t* index64


cdef Py_ssize_t node_scores(
    Forest* f, Py_ssize_t v, Sample* sample, cython.floating* x,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
) noexcept nogil:
    """Scores of the rows of node v; returns their number."""
    cdef Py_ssize_t k, a, m = f.n_child[v]
    cdef Py_ssize_t r = 0 if m == 1 else (1 if m == 2 else m)
    cdef int d = <int>sample.d, r_ = <int>r, one = 1
    cdef cython.floating unit = 1, zero = 0, s
    cdef cython.floating* w = coef + f.row[v] * sample.d
    cdef char* T = "T"
    if sample.sparse:
        for k in range(r):
            s = 0
            if sample.index32 != NULL:
                for a in range(sample.nnz):
                    s += x[a] * w[sample.index32[a]]
            else:
                for a in range(sample.nnz):
                    s += x[a] * w[sample.index64[a]]
            z[k] = s
            w += sample.d
    elif r == 1:
        if cython.floating is double:
            z[0] = _ddot(&d, x, &one, w, &one)
        else:
            z[0] = _sdot(&d, x, &one, w, &one)
    elif r > 1:
        if cython.floating is double:
            _dgemv(T, &d, &r_, &unit, w, &d, x, &one, &zero, z, &one)
        else:
            _sgemv(T, &d, &r_, &unit, w, &d, x, &one, &zero, z, &one)
    for k in range(r):
        z[k] += intercept[f.row[v] + k]
    return r


cdef struct Memory:
    # node v was expanded for this sample iff stamp[v] == now
    int64_t* stamp
    int64_t now
    double* lp
    int32_t* path
    double* heap_key
    int32_t* heap_node
    int32_t* heap_size


cdef inline Py_ssize_t visit(
    Forest* f, Py_ssize_t v, Memory* memory, Sample* sample, cython.floating* x,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
) noexcept nogil:
    if memory.stamp[v] == memory.now:
        return 0
    memory.stamp[v] = memory.now
    cdef Py_ssize_t r = node_scores(f, v, sample, x, coef, intercept, z)
    log_probabilities(f.n_child[v], z, memory.lp + f.first_child[v])
    return r


cdef double along_path(
    Forest* f, Py_ssize_t v, Memory* memory, Sample* sample, cython.floating* x,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    Py_ssize_t* n_dots,
) noexcept nogil:
    """Log-probability of node v: the sum over its path, from the root down."""
    cdef Py_ssize_t depth = 0
    cdef double total = 0
    while f.parent[v] >= 0:
        memory.path[depth] = <int32_t>v
        depth += 1
        v = f.parent[v]
        n_dots[0] += visit(f, v, memory, sample, x, coef, intercept, z)
    while depth > 0:
        depth -= 1
        total += memory.lp[memory.path[depth]]
    return total


cdef double average(
    Forest* f, Py_ssize_t c, Memory* memory, Sample* sample, cython.floating* x,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    Py_ssize_t* n_dots,
) noexcept nogil:
    """Log-probability of class c: the log of the mean over trees."""
    cdef Py_ssize_t t
    cdef double total = 0, a, b
    for t in range(f.n_trees):
        a = along_path(
            f, f.terminal[t * f.n_classes + c], memory, sample, x, coef, intercept,
            z, n_dots,
        )
        if t == 0:
            total = a
        else:
            b = total
            if a < b:
                a, b = b, a
            total = a + log1p(exp(b - a))
    if f.n_trees > 1:
        total -= log(<double>f.n_trees)
    return total


cdef void push(
    double* key, int32_t* node, int32_t* size, double k, int32_t v,
) noexcept nogil:
    """Max-heap insertion."""
    cdef int32_t i = size[0], up
    size[0] += 1
    while i > 0:
        up = (i - 1) // 2
        if key[up] >= k:
            break
        key[i], node[i] = key[up], node[up]
        i = up
    key[i], node[i] = k, v


cdef int32_t pop(double* key, int32_t* node, int32_t* size) noexcept nogil:
    """Remove the largest; its key must be read before."""
    cdef int32_t top = node[0], n = size[0] - 1, i = 0, child
    cdef double k = key[n]
    cdef int32_t v = node[n]
    size[0] = n
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and key[child + 1] > key[child]:
            child += 1
        if key[child] <= k:
            break
        key[i], node[i] = key[child], node[child]
        i = child
    key[i], node[i] = k, v
    return top


cdef Py_ssize_t best_first(
    Forest* f, Memory* memory, Sample* sample, cython.floating* x,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    Py_ssize_t k, int64_t* seen, int32_t* best, double* best_lp,
) noexcept nogil:
    """The k most probable classes; ties go to the smaller class. Returns dot products.

    One heap for each tree, of reached nodes by log-probability. No node below a
    reached one is more probable than it, so the tops of the heaps bound every class
    not seen yet (Fagin's threshold algorithm for the mean of several trees). A class
    that one tree brings up is completed with its probability in all trees.
    """
    cdef Py_ssize_t t, n_dots = 0, found = 0, offset, j, q, u, top
    cdef int32_t v, c
    cdef double key, bound, a, b, value
    cdef bint left
    for t in range(f.n_trees):
        memory.heap_size[t] = 0
        offset = f.tree_ptr[t]
        push(memory.heap_key + offset, memory.heap_node + offset,
             memory.heap_size + t, 0.0, f.tree_ptr[t])
    while True:
        for t in range(f.n_trees):
            offset = f.tree_ptr[t]
            while memory.heap_size[t] > 0:
                key = memory.heap_key[offset]
                v = pop(memory.heap_key + offset, memory.heap_node + offset,
                        memory.heap_size + t)
                c = f.node_class[v]
                if c >= 0:
                    if seen[c] == memory.now:
                        break
                    seen[c] = memory.now
                    if f.n_trees == 1:
                        value = key
                    else:
                        value = average(f, c, memory, sample, x, coef, intercept, z,
                                        &n_dots)
                    j = found
                    while j > 0 and (
                        best_lp[j - 1] < value
                        or (best_lp[j - 1] == value and best[j - 1] > c)
                    ):
                        j -= 1
                    if j < k:
                        if found < k:
                            found += 1
                        for q in range(found - 1, j, -1):
                            best[q], best_lp[q] = best[q - 1], best_lp[q - 1]
                        best[j], best_lp[j] = c, value
                    break
                # a child that beats the whole heap is expanded at once: on the way
                # down to the answer the heap then sees only the siblings
                while f.n_child[v] > 0:
                    n_dots += visit(f, v, memory, sample, x, coef, intercept, z)
                    u = f.first_child[v]
                    top = u
                    for q in range(u + 1, u + f.n_child[v]):
                        if memory.lp[q] > memory.lp[top]:
                            top = q
                    for q in range(u, u + f.n_child[v]):
                        if q != top:
                            push(memory.heap_key + offset, memory.heap_node + offset,
                                 memory.heap_size + t, key + memory.lp[q], <int32_t>q)
                    key += memory.lp[top]
                    v = <int32_t>top
                    if memory.heap_size[t] and memory.heap_key[offset] > key:
                        break
                push(memory.heap_key + offset, memory.heap_node + offset,
                     memory.heap_size + t, key, v)
        left = False
        bound = 0
        for t in range(f.n_trees):
            if memory.heap_size[t] == 0:
                continue
            a = memory.heap_key[f.tree_ptr[t]]
            if not left:
                bound = a
            else:
                b = bound
                if a < b:
                    a, b = b, a
                bound = a + log1p(exp(b - a))
            left = True
        if not left:
            return n_dots
        if f.n_trees > 1:
            # slack for the rounding of the two sums
            bound += 1e-13 - log(<double>f.n_trees)
        if found == k and best_lp[k - 1] > bound:
            return n_dots


cdef Py_ssize_t down(
    Forest* f, Memory* memory, Sample* sample, cython.floating* x,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    int32_t* best, double* best_lp,
) noexcept nogil:
    """Greedy: the best child at each node, by the scores alone.

    Several trees: the most probable of their answers. best_lp is only set then.
    """
    cdef Py_ssize_t t, v, k, top, r, n_dots = 0
    cdef double value
    cdef int32_t c
    best[0] = -1
    for t in range(f.n_trees):
        v = f.tree_ptr[t]
        while f.n_child[v] > 0:
            r = node_scores(f, v, sample, x, coef, intercept, z)
            n_dots += r
            top = 0
            if r == 1:
                top = z[0] > 0
            else:
                for k in range(1, r):
                    if z[k] > z[top]:
                        top = k
            v = f.first_child[v] + top
        c = f.node_class[v]
        if f.n_trees == 1:
            best[0] = c
            return n_dots
        value = average(f, c, memory, sample, x, coef, intercept, z, &n_dots)
        if best[0] < 0 or value > best_lp[0] or (value == best_lp[0] and c < best[0]):
            best[0], best_lp[0] = c, value
    return n_dots


cdef Py_ssize_t answer(
    Forest* f, Memory* memory, Sample* sample, cython.floating* x,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    Py_ssize_t k, bint greedy, const int32_t* target,
    int64_t* seen, int32_t* best, double* best_lp,
) noexcept nogil:
    cdef Py_ssize_t n_dots = 0
    if target != NULL:
        best_lp[0] = average(f, target[0], memory, sample, x, coef, intercept, z,
                             &n_dots)
        return n_dots
    if greedy:
        return down(f, memory, sample, x, coef, intercept, z, best, best_lp)
    return best_first(f, memory, sample, x, coef, intercept, z, k, seen, best, best_lp)


cdef class Workspace:
    """What one thread needs to search one sample after the other."""
    cdef Memory memory
    cdef object keep
    cdef int64_t* seen

    def __init__(self, ForestArrays forest):
        import numpy as np

        cdef Py_ssize_t n = forest.n_nodes
        cdef int64_t[::1] stamp = np.zeros(n, dtype=np.int64)
        cdef int64_t[::1] seen = np.zeros(forest.view.n_classes, dtype=np.int64)
        cdef double[::1] lp = np.zeros(n)
        cdef double[::1] heap_key = np.zeros(n)
        cdef int32_t[::1] path = np.zeros(n, dtype=np.int32)
        cdef int32_t[::1] heap_node = np.zeros(n, dtype=np.int32)
        cdef int32_t[::1] heap_size = np.zeros(forest.view.n_trees, dtype=np.int32)
        self.keep = stamp, seen, lp, heap_key, path, heap_node, heap_size
        self.seen = &seen[0]
        self.memory.stamp = &stamp[0]
        self.memory.now = 0
        self.memory.lp = &lp[0]
        self.memory.path = &path[0]
        self.memory.heap_key = &heap_key[0]
        self.memory.heap_node = &heap_node[0]
        self.memory.heap_size = &heap_size[0]


def search_dense(
    ForestArrays forest, const cython.floating[:, ::1] X,
    const cython.floating[:, ::1] coef, const cython.floating[::1] intercept,
    cython.floating[::1] z, bint greedy, const int32_t[::1] target,
    int32_t[:, ::1] best, double[:, ::1] best_lp, int64_t[::1] n_dots,
):
    """Fill best (n, k) and best_lp (n, k) for every row of X, or, with a target,
    best_lp (n, 1) with its log-probability. z, coef, intercept have one entry more
    than needed, never none."""
    cdef Workspace space = Workspace(forest)
    cdef Forest* f = &forest.view
    cdef Sample sample
    cdef Py_ssize_t i, k = best_lp.shape[1]
    sample.d = X.shape[1]
    sample.sparse = False
    with nogil:
        for i in range(X.shape[0]):
            space.memory.now += 1
            n_dots[i] = answer(
                f, &space.memory, &sample, <cython.floating*>&X[i, 0],
                <cython.floating*>&coef[0, 0], <cython.floating*>&intercept[0], &z[0],
                k, greedy, &target[i] if target.shape[0] else NULL,
                space.seen, &best[i, 0], &best_lp[i, 0],
            )


def search_sparse(
    ForestArrays forest, const cython.floating[::1] data, const index_t[::1] indices,
    const index_t[::1] indptr,
    const cython.floating[:, ::1] coef, const cython.floating[::1] intercept,
    cython.floating[::1] z, bint greedy, const int32_t[::1] target,
    int32_t[:, ::1] best, double[:, ::1] best_lp, int64_t[::1] n_dots,
):
    """`search_dense` for CSR rows."""
    cdef Workspace space = Workspace(forest)
    cdef Forest* f = &forest.view
    cdef Sample sample
    cdef Py_ssize_t i, k = best_lp.shape[1]
    sample.d = coef.shape[1]
    sample.sparse = True
    sample.index32 = NULL
    sample.index64 = NULL
    with nogil:
        for i in range(best_lp.shape[0]):
            space.memory.now += 1
            sample.nnz = indptr[i + 1] - indptr[i]
            # pointer arithmetic: empty rows at the end start past the last entry
            if index_t is int32_t:
                sample.index32 = &indices[0] + indptr[i]
            else:
                sample.index64 = &indices[0] + indptr[i]
            n_dots[i] = answer(
                f, &space.memory, &sample, <cython.floating*>&data[0] + indptr[i],
                <cython.floating*>&coef[0, 0], <cython.floating*>&intercept[0], &z[0],
                k, greedy, &target[i] if target.shape[0] else NULL,
                space.seen, &best[i, 0], &best_lp[i, 0],
            )
