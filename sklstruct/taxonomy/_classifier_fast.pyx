"""Probabilities along one or several trees of logistic models.

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
outside); greedy depth x d; the k best the nodes that a best-first search expands; a
target depth x d. None depends on the other samples of the call.

A score that is not a number (a sum of infinities of both signs) makes `full_rows` and
the searches return False: their caller refuses the samples.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.math cimport exp, fabs, log, log1p
from libc.stdint cimport int32_t, int64_t

include "_blas_pointers.pxi"

cdef extern from *:
    """
    /* A hint only: the first kilobyte of what the next round reads. */
    #if defined(__GNUC__) || defined(__clang__)
    static inline void sklstruct_prefetch(const void* start, Py_ssize_t n_bytes) {
        Py_ssize_t a, last = n_bytes < 1024 ? n_bytes : 1024;
        for (a = 0; a < last; a += 64)
            __builtin_prefetch((const char*)start + a);
    }
    #else
    #define sklstruct_prefetch(start, n_bytes) ((void)0)
    #endif
    """
    void prefetch "sklstruct_prefetch"(const void*, Py_ssize_t) noexcept nogil

ctypedef fused index_t:
    int32_t
    int64_t

# Scores are clipped here: sums over any path stay finite, and no inf - inf.
cdef double LARGEST = 1e300


cdef struct Node:
    # what a step down the tree reads, on one line of the cache
    int32_t parent
    int32_t first_child
    int32_t n_child
    int32_t row
    int32_t node_class
    # a class below has at least this part of the node's probability
    float share


cdef struct Forest:
    Py_ssize_t n_trees
    Py_ssize_t n_classes
    const int32_t* tree_ptr
    const int32_t* terminal
    Node* node
    # the nodes with children, parents first; n_inner of all trees, in order
    int32_t* inner
    Py_ssize_t n_inner


cdef class ForestArrays:
    """The forest's arrays, checked for length once."""
    cdef Forest view
    cdef object keep
    cdef readonly Py_ssize_t n_nodes

    def __cinit__(self):
        self.view.node = NULL
        self.view.inner = NULL

    def __init__(
        self, const int32_t[::1] tree_ptr, const int32_t[::1] parent,
        const int32_t[::1] first_child, const int32_t[::1] n_child,
        const int32_t[::1] row, const int32_t[::1] node_class,
        const int32_t[:, ::1] terminal,
    ):
        cdef Py_ssize_t v
        cdef Node* node
        self.n_nodes = parent.shape[0]
        if not (
            first_child.shape[0] == n_child.shape[0] == row.shape[0]
            == node_class.shape[0] == self.n_nodes
        ):
            raise ValueError("the arrays of a forest differ in length")
        if self.view.node != NULL:
            raise RuntimeError("the arrays of a forest are read once")
        node = <Node*>PyMem_Calloc(self.n_nodes, sizeof(Node))
        if node == NULL:
            raise MemoryError(f"no memory for the {self.n_nodes} nodes of a forest")
        self.view.node = node
        self.view.inner = <int32_t*>PyMem_Calloc(self.n_nodes, sizeof(int32_t))
        if self.view.inner == NULL:
            raise MemoryError(f"no memory for the {self.n_nodes} nodes of a forest")
        self.view.n_inner = 0
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
        PyMem_Free(self.view.inner)


cdef inline double clip(double z) noexcept nogil:
    if z > LARGEST:
        return LARGEST
    if z < -LARGEST:
        return -LARGEST
    return z


cdef bint log_probabilities(
    Py_ssize_t m, cython.floating* z, double* out,
) noexcept nogil:
    """Conditional log-probabilities of m children from their scores.

    False if a score is not a number.
    """
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
        return s == s
    else:
        top = clip(z[0])
        for k in range(1, m):
            if clip(z[k]) > top:
                top = clip(z[k])
        total = 0
        for k in range(m):
            # differences first: log(total) would vanish beside a large score
            out[k] = clip(z[k]) - top
            total += exp(out[k])
        top = log(total)
        for k in range(m):
            out[k] -= top
        return top == top
    return True


def full_rows(
    ForestArrays forest, const double[:, ::1] scores, const double[:, ::1] soft,
    double[::1] work, double[:, ::1] out,
):
    """Log-probabilities (n, K) from the scores z (n, rows of coef).

    soft: log(1 + exp(-|z|)), by NumPy, whose loops take 3 ns for what the C library
    takes 30. work: one double for each node.
    """
    cdef Forest* f = &forest.view
    cdef Node* at
    cdef Py_ssize_t i, t, v, k, c
    cdef double a, b, s, n_trees = f.n_trees
    cdef double* z
    cdef double* children
    cdef const int32_t* terminal
    cdef double nothing = 0
    cdef bint good = True
    with nogil:
        for i in range(out.shape[0]):
            z = <double*>&scores[i, 0] if scores.shape[1] else &nothing
            for t in range(f.n_trees):
                work[f.tree_ptr[t]] = 0
            # no look at the leaves on the way: whether a node is one is a coin toss,
            # and half the time of the loop went into guessing it
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
            for c in range(f.n_classes):
                out[i, c] = work[f.terminal[c]]
            for t in range(1, f.n_trees):
                terminal = f.terminal + t * f.n_classes
                for c in range(f.n_classes):
                    a, b = work[terminal[c]], out[i, c]
                    if a < b:
                        a, b = b, a
                    out[i, c] = a + log1p(exp(b - a))
            if f.n_trees > 1:
                for c in range(f.n_classes):
                    out[i, c] -= log(n_trees)
    return bool(good)


cdef struct Sample:
    # dense: x of length d; sparse: nnz values x at the columns of index32 or index64
    void* x
    Py_ssize_t d
    Py_ssize_t nnz
    bint sparse
    const int32_t* index32
    const int64_t* index64


cdef struct Rows:
    # dense: indptr32 and indptr64 NULL; sparse: one of them and the same index
    Py_ssize_t n
    Py_ssize_t d
    void* data
    const int32_t* index32
    const int64_t* index64
    const int32_t* indptr32
    const int64_t* indptr64


cdef inline void take(
    Rows* rows, Py_ssize_t i, Sample* sample, cython.floating* coef,
) noexcept nogil:
    """Point sample to row i; coef only tells the type."""
    cdef Py_ssize_t start, stop
    sample.d = rows.d
    sample.sparse = rows.indptr32 != NULL or rows.indptr64 != NULL
    if not sample.sparse:
        sample.x = <cython.floating*>rows.data + i * rows.d
        return
    if rows.indptr32 != NULL:
        start, stop = rows.indptr32[i], rows.indptr32[i + 1]
        sample.index32 = rows.index32 + start
        sample.index64 = NULL
    else:
        start, stop = rows.indptr64[i], rows.indptr64[i + 1]
        sample.index32 = NULL
        sample.index64 = rows.index64 + start
    sample.nnz = stop - start
    sample.x = <cython.floating*>rows.data + start


cdef inline cython.floating row_score(
    Sample* sample, cython.floating* w,
) noexcept nogil:
    """Product of a sample with one row of coef."""
    cdef Py_ssize_t a
    cdef int d = <int>sample.d, one = 1
    cdef cython.floating* x = <cython.floating*>sample.x
    cdef cython.floating s = 0
    if sample.sparse:
        if sample.index32 != NULL:
            for a in range(sample.nnz):
                s += x[a] * w[sample.index32[a]]
        else:
            for a in range(sample.nnz):
                s += x[a] * w[sample.index64[a]]
        return s
    if cython.floating is double:
        return _ddot(&d, x, &one, w, &one)
    return _sdot(&d, x, &one, w, &one)


cdef Py_ssize_t node_scores(
    Forest* f, Py_ssize_t v, Sample* sample,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
) noexcept nogil:
    """Scores of the rows of node v; returns their number."""
    cdef Py_ssize_t k, m = f.node[v].n_child
    cdef Py_ssize_t r = 0 if m == 1 else (1 if m == 2 else m)
    cdef int d = <int>sample.d, r_ = <int>r, one = 1
    cdef cython.floating unit = 1, zero = 0
    cdef cython.floating* x = <cython.floating*>sample.x
    cdef cython.floating* w = coef + f.node[v].row * sample.d
    cdef char* T = "T"
    if sample.sparse or r == 1:
        for k in range(r):
            z[k] = row_score(sample, w + k * sample.d)
    elif r > 1:
        if cython.floating is double:
            _dgemv(T, &d, &r_, &unit, w, &d, x, &one, &zero, z, &one)
        else:
            _sgemv(T, &d, &r_, &unit, w, &d, x, &one, &zero, z, &one)
    for k in range(r):
        z[k] += intercept[f.node[v].row + k]
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
    # whether every score so far was a number
    bint good


cdef inline Py_ssize_t visit(
    Forest* f, Py_ssize_t v, Memory* memory, Sample* sample,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
) noexcept nogil:
    if memory.stamp[v] == memory.now:
        return 0
    memory.stamp[v] = memory.now
    cdef Py_ssize_t r = node_scores(f, v, sample, coef, intercept, z)
    memory.good &= log_probabilities(
        f.node[v].n_child, z, memory.lp + f.node[v].first_child
    )
    return r


cdef double along_path(
    Forest* f, Py_ssize_t v, Memory* memory, Sample* sample,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    Py_ssize_t* n_dots,
) noexcept nogil:
    """Log-probability of node v: the sum over its path, from the root down."""
    cdef Py_ssize_t depth = 0
    cdef double total = 0
    while f.node[v].parent >= 0:
        memory.path[depth] = <int32_t>v
        depth += 1
        v = f.node[v].parent
        n_dots[0] += visit(f, v, memory, sample, coef, intercept, z)
    while depth > 0:
        depth -= 1
        total += memory.lp[memory.path[depth]]
    return total


cdef double average(
    Forest* f, Py_ssize_t c, Memory* memory, Sample* sample,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    Py_ssize_t* n_dots,
) noexcept nogil:
    """Log-probability of class c: the log of the mean over trees."""
    cdef Py_ssize_t t
    cdef double total = 0, a, b
    for t in range(f.n_trees):
        a = along_path(
            f, f.terminal[t * f.n_classes + c], memory, sample, coef, intercept,
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
    Forest* f, Memory* memory, Sample* sample,
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
                c = f.node[v].node_class
                if c >= 0:
                    if seen[c] == memory.now:
                        break
                    seen[c] = memory.now
                    if f.n_trees == 1:
                        value = key
                    else:
                        value = average(f, c, memory, sample, coef, intercept, z,
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
                while f.node[v].n_child > 0:
                    n_dots += visit(f, v, memory, sample, coef, intercept, z)
                    u = f.node[v].first_child
                    top = u
                    for q in range(u + 1, u + f.node[v].n_child):
                        if memory.lp[q] > memory.lp[top]:
                            top = q
                    for q in range(u, u + f.node[v].n_child):
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
    Forest* f, Memory* memory, Sample* sample,
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
        while f.node[v].n_child > 0:
            r = node_scores(f, v, sample, coef, intercept, z)
            n_dots += r
            top = 0
            for k in range(r):
                memory.good &= z[k] == z[k]
                if z[k] > z[top]:
                    top = k
            if r == 1:
                top = z[0] > 0
            v = f.node[v].first_child + top
        c = f.node[v].node_class
        if f.n_trees == 1:
            best[0] = c
            return n_dots
        value = average(f, c, memory, sample, coef, intercept, z, &n_dots)
        if best[0] < 0 or value > best_lp[0] or (value == best_lp[0] and c < best[0]):
            best[0], best_lp[0] = c, value
    return n_dots


cdef Py_ssize_t answer(
    Forest* f, Memory* memory, Sample* sample,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    Py_ssize_t k, bint greedy, const int32_t* target,
    int64_t* seen, int32_t* best, double* best_lp,
) noexcept nogil:
    cdef Py_ssize_t n_dots = 0
    if target != NULL:
        best_lp[0] = average(f, target[0], memory, sample, coef, intercept, z,
                             &n_dots)
        return n_dots
    if greedy:
        return down(f, memory, sample, coef, intercept, z, best, best_lp)
    return best_first(f, memory, sample, coef, intercept, z, k, seen, best, best_lp)


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
        self.memory.good = True
        self.memory.lp = &lp[0]
        self.memory.path = &path[0]
        self.memory.heap_key = &heap_key[0]
        self.memory.heap_node = &heap_node[0]
        self.memory.heap_size = &heap_size[0]


# Walks that `rounds` takes side by side. One walk is a chain of latencies (a row of
# coef from the cache, its product, an exponential, and only then the next node); side
# by side they overlap. At 2 000 classes of 100 features 4 and 8 took 42 ns a node, 16
# and 32 took 47: their samples and rows no longer fit the first cache.
cdef enum:
    SIDE = 8

# Pending nodes of a walk; with more it is left to the heap of `best_first`.
cdef enum:
    ROOM = 64

# Relative error that a product along a path may have. Classes this close are left to
# `best_first`, which decides by the sums that the full rows have.
cdef double CLOSE = 1e-12


cdef struct Walk:
    # at `node` of probability p; `size` pending nodes; the best class so far
    Sample sample
    Py_ssize_t i
    Py_ssize_t n_dots
    double p
    double score
    double least
    double best_p
    int32_t best
    int32_t node
    int32_t size
    double[ROOM] pending_p
    int32_t[ROOM] pending


cdef inline void begin(
    Forest* f, Walk* walk, Rows* rows, Py_ssize_t i, cython.floating* coef,
) noexcept nogil:
    take(rows, i, &walk.sample, coef)
    walk.i, walk.n_dots, walk.node, walk.size = i, 0, f.tree_ptr[0], 0
    walk.p, walk.least, walk.best_p, walk.best = 1, 0, 0, -1


cdef bint among_many(
    Forest* f, Walk* walk,
    cython.floating* coef, cython.floating* intercept, cython.floating* z, bint greedy,
) noexcept nogil:
    """The part of `step` at a node with more than two children. False: give up."""
    cdef Node* at = f.node + walk.node
    cdef Py_ssize_t k, m = at.n_child, top = 0
    cdef double total = 0, p
    walk.n_dots += node_scores(f, walk.node, &walk.sample, coef, intercept, z)
    for k in range(m):
        if z[k] != z[k]:
            return False
        if z[k] > z[top]:
            top = k
    walk.node = at.first_child + <int32_t>top
    if greedy:
        return True
    for k in range(m):
        total += exp(z[k] - z[top])
    if not (total >= 1):
        return False
    walk.p /= total
    for k in range(m):
        if k != top:
            p = walk.p * exp(z[k] - z[top])
            if p >= walk.least:
                if walk.size == ROOM:
                    return False
                walk.pending_p[walk.size] = p
                walk.pending[walk.size] = at.first_child + <int32_t>k
                walk.size += 1
    return True


cdef inline int32_t step(
    Forest* f, Walk* walk,
    cython.floating* coef, cython.floating* intercept, cython.floating* z, bint greedy,
) noexcept nogil:
    """Go on from walk.node, whose score is there if it has two children.

    First down along the best children, which soon gives a class, then the pending
    nodes that are more probable than it, the most probable first. That is about a
    tenth more nodes than best-first, whose queue of all siblings cost more than they.
    Returns the class once it is found, -1 before, -2 if `best_first` must decide.
    """
    cdef Node* at = f.node + walk.node
    cdef double s, e, p, bound
    cdef int32_t right, k, n, top
    bound = walk.p * at.share
    walk.least = bound if bound > walk.least else walk.least
    if at.n_child == 2:
        s = walk.score
        walk.n_dots += 1
        if s != s or walk.size == ROOM:
            return -2
        right = s > 0
        walk.node = at.first_child + right
        if not greedy:
            e = exp(-fabs(s))
            walk.p /= 1 + e
            p = walk.p * e
            walk.pending_p[walk.size] = p
            walk.pending[walk.size] = at.first_child + 1 - right
            walk.size += p >= walk.least
    elif at.n_child == 1:
        walk.node = at.first_child
    elif not among_many(f, walk, coef, intercept, z, greedy):
        return -2
    while True:
        if walk.p >= walk.least:
            if f.node[walk.node].n_child > 0:
                return -1
            if walk.p >= walk.best_p * (1 - CLOSE):
                if walk.p <= walk.best_p * (1 + CLOSE):
                    return -2
                walk.best, walk.best_p = f.node[walk.node].node_class, walk.p
                walk.least = walk.p * (1 - CLOSE)
        n = 0
        top = 0
        for k in range(walk.size):
            p = walk.pending_p[k]
            if p >= walk.least:
                walk.pending_p[n], walk.pending[n] = p, walk.pending[k]
                if p > walk.pending_p[top]:
                    top = n
                n += 1
        if n == 0:
            return walk.best if walk.best >= 0 else -2
        walk.node, walk.p = walk.pending[top], walk.pending_p[top]
        n -= 1
        walk.pending[top], walk.pending_p[top] = walk.pending[n], walk.pending_p[n]
        walk.size = n


cdef void rounds(
    Forest* f, Walk* walks, Rows* rows,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    bint greedy, int32_t* found, int64_t* n_dots,
) noexcept nogil:
    """The most probable class of each row along one tree, or -2 as `step` says.

    Exact, with probabilities instead of their logarithms: one exponential for a node
    and no logarithm. The answer has at least 1 / K, so that what underflows could not
    have been it.
    """
    cdef Py_ssize_t s, first = 0, n_active = 0
    cdef int32_t c, r
    cdef Walk* w
    while n_active < SIDE and first < rows.n:
        begin(f, walks + n_active, rows, first, coef)
        first += 1
        n_active += 1
    while n_active > 0:
        for s in range(n_active):
            w = walks + s
            if f.node[w.node].n_child == 2:
                r = f.node[w.node].row
                w.score = row_score(&w.sample, coef + r * rows.d) + intercept[r]
        s = 0
        while s < n_active:
            w = walks + s
            c = step(f, w, coef, intercept, z, greedy)
            if c == -1:
                prefetch(
                    coef + f.node[w.node].row * rows.d,
                    rows.d * sizeof(cython.floating),
                )
                s += 1
                continue
            found[w.i], n_dots[w.i] = c, w.n_dots
            if first < rows.n:
                begin(f, w, rows, first, coef)
                first += 1
                s += 1
            else:
                n_active -= 1
                w[0] = walks[n_active]


cdef void search(
    ForestArrays forest, Rows* rows, cython.floating* coef, cython.floating* intercept,
    cython.floating* z, bint greedy, bint only_best, const int32_t* target,
    int32_t* best, double* best_lp, Py_ssize_t k, int64_t* n_dots,
    Workspace space, Walk* walks,
) noexcept nogil:
    """`answer` for every row, after `rounds` if only the best class is wanted."""
    cdef Forest* f = &forest.view
    cdef Sample sample
    cdef Py_ssize_t i
    cdef bint quick = only_best and f.n_trees == 1 and f.node[f.tree_ptr[0]].n_child > 0
    if quick:
        rounds(f, walks, rows, coef, intercept, z, greedy, best, n_dots)
    for i in range(rows.n):
        if quick and best[i] >= 0:
            continue
        take(rows, i, &sample, coef)
        space.memory.now += 1
        if not quick:
            n_dots[i] = 0
        n_dots[i] += answer(
            f, &space.memory, &sample, coef, intercept, z, k, greedy,
            target + i if target != NULL else NULL, space.seen, best + i * k,
            best_lp + i * k,
        )


def search_dense(
    ForestArrays forest, const cython.floating[:, ::1] X,
    const cython.floating[:, ::1] coef, const cython.floating[::1] intercept,
    cython.floating[::1] z, bint greedy, bint only_best, const int32_t[::1] target,
    int32_t[:, ::1] best, double[:, ::1] best_lp, int64_t[::1] n_dots,
):
    """Fill best (n, k) and best_lp (n, k) for every row of X; with only_best, best
    (n, 1) alone; with a target, best_lp (n, 1) with its log-probability. z, coef,
    intercept are never empty. False if a score was not a number."""
    cdef Workspace space = Workspace(forest)
    cdef Walk[SIDE] walks
    cdef Rows rows
    cdef Py_ssize_t k = best_lp.shape[1]
    rows.n, rows.d = X.shape[0], X.shape[1]
    if rows.n == 0:
        return True
    rows.data = <void*>&X[0, 0]
    rows.index32 = rows.indptr32 = NULL
    rows.index64 = rows.indptr64 = NULL
    with nogil:
        search(
            forest, &rows, <cython.floating*>&coef[0, 0],
            <cython.floating*>&intercept[0], &z[0], greedy, only_best,
            &target[0] if target.shape[0] else NULL, &best[0, 0], &best_lp[0, 0], k,
            &n_dots[0], space, walks,
        )
    return bool(space.memory.good)


def search_sparse(
    ForestArrays forest, const cython.floating[::1] data, const index_t[::1] indices,
    const index_t[::1] indptr,
    const cython.floating[:, ::1] coef, const cython.floating[::1] intercept,
    cython.floating[::1] z, bint greedy, bint only_best, const int32_t[::1] target,
    int32_t[:, ::1] best, double[:, ::1] best_lp, int64_t[::1] n_dots,
):
    """`search_dense` for CSR rows."""
    cdef Workspace space = Workspace(forest)
    cdef Walk[SIDE] walks
    cdef Rows rows
    cdef Py_ssize_t k = best_lp.shape[1]
    rows.n, rows.d = best_lp.shape[0], coef.shape[1]
    if rows.n == 0:
        return True
    rows.data = <void*>&data[0]
    rows.index32 = rows.indptr32 = NULL
    rows.index64 = rows.indptr64 = NULL
    if index_t is int32_t:
        rows.index32, rows.indptr32 = &indices[0], &indptr[0]
    else:
        rows.index64, rows.indptr64 = &indices[0], &indptr[0]
    with nogil:
        search(
            forest, &rows, <cython.floating*>&coef[0, 0],
            <cython.floating*>&intercept[0], &z[0], greedy, only_best,
            &target[0] if target.shape[0] else NULL, &best[0, 0], &best_lp[0, 0], k,
            &n_dots[0], space, walks,
        )
    return bool(space.memory.good)
