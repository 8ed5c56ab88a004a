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
target depth x d. No answer depends on the other samples of the call. The best class
alone of many samples goes an own way, `rounds`.

A score that is not a number (a sum of infinities of both signs) makes `full_rows` and
the searches return False: their caller refuses the samples.
"""

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.math cimport INFINITY, exp, fabs, log, log1p, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

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

cdef extern from "_vector.h" nogil:
    enum:
        STRIDE "SKLSTRUCT_STRIDE"
    void log_mean "sklstruct_log_mean"(
        Py_ssize_t, Py_ssize_t, const double*, double*
    ) noexcept
    int32_t octave "sklstruct_octave"(float) noexcept
    float octave_end "sklstruct_octave_end"(int32_t) noexcept
    int64_t key "sklstruct_key"(float, int32_t) noexcept
    float key_float "sklstruct_key_float"(int64_t) noexcept
    float narrow_double "sklstruct_narrow_double"(
        Py_ssize_t, const double*, Py_ssize_t, float*
    ) noexcept
    float narrow_float "sklstruct_narrow_float"(
        Py_ssize_t, const float*, Py_ssize_t, float*
    ) noexcept
    void products "sklstruct_products"(
        const float*, Py_ssize_t, const float*, Py_ssize_t, const int32_t*,
        const int32_t*, float*
    ) noexcept
    void share_out "sklstruct_share_out"(
        Py_ssize_t, const float*, const float*, float*, float*
    ) noexcept

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


cdef struct Step:
    # the two children first_child and first_child + 1 of a node, told apart by a row of
    # coef; row -1 for all other nodes
    int32_t first_child
    int32_t row


cdef struct Forest:
    Py_ssize_t n_trees
    Py_ssize_t n_classes
    const int32_t* tree_ptr
    const int32_t* terminal
    Node* node
    # what most steps need of a node, on a third of the memory
    Step* step
    # the nodes with children, parents first; n_inner of all trees, in order
    int32_t* inner
    Py_ssize_t n_inner
    # models on the longest path
    Py_ssize_t depth


cdef class ForestArrays:
    """The forest's arrays, checked for length once."""
    cdef Forest view
    cdef object keep
    cdef readonly Py_ssize_t n_nodes

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
        cdef Node* node
        cdef int32_t* depth
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
        self.view.step = <Step*>PyMem_Calloc(self.n_nodes, sizeof(Step))
        if self.view.step == NULL:
            raise MemoryError(f"no memory for the {self.n_nodes} nodes of a forest")
        for v in range(self.n_nodes):
            self.view.step[v].first_child = first_child[v]
            self.view.step[v].row = row[v] if n_child[v] == 2 else -1
        depth = <int32_t*>PyMem_Calloc(self.n_nodes, sizeof(int32_t))
        if depth == NULL:
            raise MemoryError(f"no memory for the {self.n_nodes} nodes of a forest")
        self.view.depth = 0
        for v in range(self.n_nodes):
            if parent[v] >= 0:
                depth[v] = depth[parent[v]] + (n_child[parent[v]] > 1)
                self.view.depth = max(self.view.depth, <Py_ssize_t>depth[v])
        PyMem_Free(depth)
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
    takes 30. work: one double for each node, and for each class and tree.
    """
    cdef Forest* f = &forest.view
    cdef Node* at
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
            if f.n_trees == 1:
                for c in range(f.n_classes):
                    out[i, c] = work[f.terminal[c]]
            else:
                of_class = &work[f.tree_ptr[f.n_trees]]
                for c in range(f.n_trees * f.n_classes):
                    of_class[c] = work[f.terminal[c]]
                log_mean(f.n_trees, f.n_classes, of_class, &out[i, 0])
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

    def floats(self, Py_ssize_t n):
        """Room for n floats, from a line of the cache on."""
        import numpy as np

        room = np.zeros(n + STRIDE, dtype=np.float32)
        start = -(room.ctypes.data // 4) % STRIDE
        return room[start : start + n]


# Walks that `rounds` takes side by side. One walk is a chain of latencies (a row of
# coef from the cache, its product, an exponential, and only then the next node); side
# by side they overlap. At 2 000 classes of 100 features 12, 16, 24 and 32 took 25.8,
# 23.8, 24.2 and 24.9 ns a node. In vain: two groups of walks that take turns, lists of
# pending nodes searched by vector instructions (which wait for what was just stored),
# and the 15 top nodes by one matrix product (they are the cheapest as it is).
cdef enum:
    SIDE = 16

# Pending nodes of a walk; with more it is left to the heap of `best_first`.
cdef enum:
    ROOM = 64

# Answers of `rounds` that are no class: another way must find it.
cdef enum:
    UNSURE = -2
    TOO_LONG = -3

# Relative error of a conditional probability by `share_out` from a score in float:
# |z| 2^-24 for its rounding, |z| < 21 on paths that matter (a class among 2^31 that is
# the answer has more than exp(-21.5)), the exponential, a sum, a quotient, a product.
cdef double ROUNDING = 3e-6

# Walks whose paths may be wrong by more go another way.
cdef double LARGEST_SLACK = 0.125


cdef class NarrowRows:
    """coef as floats, each row with its intercept, for `rounds`.

    Half the memory to read (2 000 rows of 100 fit a cache of 1 MB), and products of a
    third of the time. The answer stays exact: the error of a product is at most
    `error` times the norm of the sample, and what it leaves undecided goes the way of
    full precision.
    """
    cdef float* coef
    cdef void* allocated
    cdef Py_ssize_t stride
    cdef double error
    # norms of the rows without their intercepts, and the intercepts
    cdef double* norm
    cdef double* intercept

    def __cinit__(self):
        self.allocated = NULL
        self.norm = NULL

    def __dealloc__(self):
        PyMem_Free(self.allocated)
        PyMem_Free(self.norm)


def narrow_rows(
    const cython.floating[:, ::1] coef, const cython.floating[::1] intercept,
):
    """The NarrowRows of a model."""
    cdef NarrowRows rows = NarrowRows()
    cdef Py_ssize_t r, j, n = coef.shape[0], d = coef.shape[1]
    cdef double square, largest = 0
    cdef float* out
    rows.stride = (d // STRIDE + 1) * STRIDE
    rows.allocated = PyMem_Calloc(n * rows.stride + STRIDE, sizeof(float))
    rows.norm = <double*>PyMem_Calloc(2 * n, sizeof(double))
    if rows.allocated == NULL or rows.norm == NULL:
        raise MemoryError(f"no memory for {n} rows of {d} weights in float32")
    rows.intercept = rows.norm + n
    # rows start where a line of the cache does
    rows.coef = <float*>((<size_t>rows.allocated + 63) // 64 * 64)
    with nogil:
        for r in range(n):
            out = rows.coef + r * rows.stride
            square = 0
            for j in range(d):
                square += <double>coef[r, j] * coef[r, j]
                out[j] = <float>coef[r, j]
            out[d] = <float>intercept[r]
            rows.norm[r], rows.intercept[r] = sqrt(square), intercept[r]
            square += <double>intercept[r] * intercept[r]
            # not (<=): not a number stays
            if not square <= largest:
                largest = square
    # stride / 16 + 4 roundings of the sum, two of the factors, one of the product.
    # A float that underflows errs by 1e-45 times the other factor, less than 1e18.
    rows.error = (rows.stride // STRIDE + 8) * 2.0 ** -24 * sqrt(largest)
    if cython.floating is float:
        # the products of BLAS, which these stand for, err as much
        rows.error *= 2
    if not largest < 1e36:
        rows.error = INFINITY
    return rows


# Tables of `Reach` are for norms up to 9/8, 10/8, ... 2, 18/8, ... 2^32.
cdef enum:
    NORMS = 256


ctypedef float* float_pointer


cdef class Reach:
    """How much of a node's probability one class below can have, at most.

    reach(v) = max over the two children u of max P(u | v) reach(u), where by
    Cauchy and Schwarz the logit of v is within |w_v| |x| of the intercept: small
    weights, which nodes of few samples have, leave each class little. A node whose
    probability times its reach is below that of a known class need not be opened:
    a tenth of the nodes at 2 000 classes. A table of all nodes for each norm (eight
    to the factor 2), made when the first sample needs it.
    """
    cdef float_pointer[NORMS] table
    cdef float* all_one
    cdef ForestArrays forest
    cdef NarrowRows rows

    def __cinit__(self):
        memset(self.table, 0, sizeof(self.table))
        self.all_one = NULL

    def __init__(self, ForestArrays forest, NarrowRows rows):
        cdef Py_ssize_t v
        self.forest, self.rows = forest, rows
        self.all_one = <float*>PyMem_Calloc(forest.n_nodes, sizeof(float))
        if self.all_one == NULL:
            raise MemoryError(f"no memory for {forest.n_nodes} bounds")
        for v in range(forest.n_nodes):
            self.all_one[v] = 1

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(NORMS):
            free(self.table[k])
        PyMem_Free(self.all_one)

    cdef const float* of_norm(self, double norm) noexcept nogil:
        """The table for samples of this norm, at least 1, with the constant 1."""
        cdef Py_ssize_t v, q, k = octave(<float>norm)
        cdef int32_t child
        cdef double swing, b, c, largest
        cdef Forest* f = &self.forest.view
        cdef float* table
        if k >= NORMS:
            return self.all_one
        if self.table[k] != NULL:
            return self.table[k]
        table = <float*>malloc(self.forest.n_nodes * sizeof(float))
        if table == NULL:
            return self.all_one
        norm = octave_end(<int32_t>k)
        for v in range(self.forest.n_nodes - 1, -1, -1):
            child = f.node[v].first_child
            if f.node[v].n_child == 0:
                table[v] = 1
            elif f.node[v].n_child == 2:
                b = self.rows.intercept[f.node[v].row]
                swing = self.rows.norm[f.node[v].row] * norm
                c = table[child] / (1 + exp(b - swing))
                b = table[child + 1] / (1 + exp(-b - swing))
                largest = c if c > b else b
                table[v] = <float>min(1.000001 * largest, 1.0)
            else:
                table[v] = table[child]
                for q in range(1, f.node[v].n_child):
                    if table[child + q] > table[v]:
                        table[v] = table[child + q]
        self.table[k] = table
        return table


cdef struct Walk:
    Sample sample
    Py_ssize_t i
    # of this sample, see Reach
    const float* reach
    # relative error of a quotient of two probabilities; error of a score
    float slack
    float doubt
    # a class of at least this probability is known
    float least
    float best_p
    int32_t best
    int32_t size
    # pending nodes, as keys: the most that a class below can have, then the node's
    # number; and room for a zero
    int64_t[ROOM + 1] pending


cdef struct Walks:
    Walk[SIDE] walk
    # of each walk: its node if that has more than two children, else -1; the node's
    # probability, row (0 if it has many) and first child; the score of the row; the
    # probabilities of the two children
    int32_t[SIDE] wide
    float[SIDE] p
    int32_t[SIDE] row
    int32_t[SIDE] first_child
    float[SIDE] score
    float[SIDE] large
    float[SIDE] small
    Py_ssize_t[SIDE] n_dots
    # samples as floats, if the products are those of NarrowRows
    float* x
    const float* coef
    Py_ssize_t stride
    double error
    # the walks at a node; those that `forward` left at a child; the others
    int32_t[SIDE] active
    int32_t[SIDE] stuck
    int32_t[SIDE] child
    int32_t[SIDE] free
    Py_ssize_t n_active
    Py_ssize_t n_stuck
    Py_ssize_t n_free


cdef inline int32_t below(Forest* f, int32_t v) noexcept nogil:
    """The first node from v on that has a model or is a class."""
    while f.node[v].n_child == 1:
        v = f.node[v].first_child
    return v


cdef inline void arrive(
    Forest* f, Walks* walks, int32_t s, int32_t v, float p,
) noexcept nogil:
    """Walk s is at node v of probability p; what its next rounds read is fetched."""
    cdef int32_t row = f.step[v].row, first_child = f.step[v].first_child
    walks.p[s] = p
    walks.wide[s] = -1
    if row < 0:
        walks.wide[s] = v
        row = 0
    walks.row[s] = row
    walks.first_child[s] = first_child
    prefetch(f.step + first_child, 1)
    if walks.x != NULL:
        prefetch(walks.coef + row * walks.stride, walks.stride * sizeof(float))


cdef bint begin(
    Forest* f, Walks* walks, Reach reach, int32_t s, Rows* rows, Py_ssize_t i,
    cython.floating* coef,
) noexcept nogil:
    """Put walk s at the root for row i. False if scores would not be good enough."""
    cdef Walk* walk = walks.walk + s
    cdef double norm = 0, slack
    cdef void* next
    take(rows, i, &walk.sample, coef)
    if walks.x != NULL:
        if cython.floating is double:
            norm = narrow_double(
                rows.d, <double*>walk.sample.x, walks.stride,
                walks.x + s * walks.stride,
            )
        else:
            norm = narrow_float(
                rows.d, <float*>walk.sample.x, walks.stride,
                walks.x + s * walks.stride,
            )
        if not norm < 1e36:
            return False
        # the sum of squares is one of floats
        norm = sqrt(norm) * 1.001
        if i + 2 < rows.n:
            next = <cython.floating*>walk.sample.x + 2 * rows.d
            prefetch(next, rows.d * sizeof(cython.floating))
    walk.doubt = <float>(walks.error * norm)
    # log P moves by no more than the score does, at each node of either path
    slack = 2.02 * f.depth * (walks.error * norm + ROUNDING)
    if not slack <= LARGEST_SLACK:
        return False
    walk.slack = <float>slack
    walk.reach = reach.of_norm(norm) if walks.x != NULL else reach.all_one
    walk.i, walk.size, walks.n_dots[s] = i, 0, 0
    walk.least, walk.best_p, walk.best = 0, 0, UNSURE
    arrive(f, walks, s, below(f, f.tree_ptr[0]), 1)
    return True


cdef bint squeeze(Walk* walk) noexcept nogil:
    """Forget the pending nodes that cannot win. False if there is still no room."""
    cdef int64_t least = key(walk.least, 0)
    cdef int32_t k, n = 0
    for k in range(walk.size):
        walk.pending[n] = walk.pending[k]
        n += walk.pending[k] >= least
    walk.size = n
    return n < ROOM


cdef inline bint keep(Walk* walk, float p, int32_t v) noexcept nogil:
    """Leave node v pending if it can win. False if there is no room."""
    cdef float most = p * walk.reach[v]
    if walk.size == ROOM and not squeeze(walk):
        return False
    walk.pending[walk.size] = key(most, v)
    walk.size += most >= walk.least
    return True


cdef int32_t among_many(
    Forest* f, Walk* walk, int32_t v, float* p, Py_ssize_t* n_dots,
    cython.floating* coef, cython.floating* intercept, cython.floating* z, bint greedy,
) noexcept nogil:
    """The best of more than two children; the others stay pending. UNSURE: give up.

    p: the probability of v, then that of the child.
    """
    cdef Node* at = f.node + v
    cdef Py_ssize_t k, m = at.n_child, top = 0
    cdef double total = 0
    cdef float q
    n_dots[0] += node_scores(f, v, &walk.sample, coef, intercept, z)
    for k in range(m):
        if z[k] != z[k]:
            return UNSURE
        if z[k] > z[top]:
            top = k
    v = at.first_child + <int32_t>top
    if greedy:
        return v
    for k in range(m):
        total += exp(z[k] - z[top])
    if not (total >= 1):
        return UNSURE
    p[0] = <float>(p[0] / total)
    q = p[0] * f.node[v].share * (1 - walk.slack)
    walk.least = q if q > walk.least else walk.least
    for k in range(m):
        if k != top:
            q = <float>(p[0] * exp(z[k] - z[top]))
            if q >= walk.least and not keep(walk, q, at.first_child + <int32_t>k):
                return UNSURE
    return v


cdef bint meet(Forest* f, Walk* walk, int32_t v, float p) noexcept nogil:
    """A class on the way. False if another one's probability is too close to tell."""
    cdef bint first, clear = True
    if p >= walk.least:
        clear = p > walk.best_p * (1 + walk.slack) or p < walk.best_p * (1 - walk.slack)
        first = walk.best < 0
        if p > walk.best_p:
            walk.best, walk.best_p = f.node[v].node_class, p
            if p * (1 - walk.slack) > walk.least:
                walk.least = p * (1 - walk.slack)
        if first:
            squeeze(walk)
    return clear


cdef inline void end(
    Walks* walks, int32_t s, int32_t found_one, int32_t* found, int64_t* n_dots,
) noexcept nogil:
    cdef Walk* walk = walks.walk + s
    found[walk.i], n_dots[walk.i] = found_one, walks.n_dots[s]
    walks.free[walks.n_free] = s
    walks.n_free += 1


cdef void forward(
    Forest* f, Walks* walks,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    bint greedy, int32_t* found, int64_t* n_dots,
) noexcept nogil:
    """Each walk on to the better child of its node; the other one stays pending.

    Those whose child cannot win, or is no node of two children, are left in `stuck`:
    by a sum and not by a branch, which would be a guess, wrong every other time.
    """
    cdef Py_ssize_t q, n = 0, n_stuck = 0
    cdef int32_t s, v, right
    cdef float p
    cdef bint on
    cdef Walk* walk
    for q in range(walks.n_active):
        s = walks.active[q]
        walk = walks.walk + s
        if walks.wide[s] < 0:
            walks.n_dots[s] += 1
            right = walks.score[s] > 0
            v = walks.first_child[s] + right
            # not (>): a score that is not a number
            if greedy:
                p = 1
                if not fabs(walks.score[s]) > walk.doubt:
                    end(walks, s, UNSURE, found, n_dots)
                    continue
            else:
                p = walks.large[s]
                if walk.size == ROOM and p * f.node[v].share > walk.least:
                    # a class below v has at least this
                    walk.least = p * f.node[v].share * (1 - walk.slack)
                if not p >= 0 or not keep(
                    walk, walks.small[s], walks.first_child[s] + 1 - right
                ):
                    end(walks, s, UNSURE, found, n_dots)
                    continue
        else:
            p = walks.p[s]
            v = among_many(
                f, walk, walks.wide[s], &p, walks.n_dots + s, coef, intercept, z, greedy
            )
            if v == UNSURE:
                end(walks, s, UNSURE, found, n_dots)
                continue
        on = (f.step[v].row >= 0) & (p * walk.reach[v] >= walk.least)
        arrive(f, walks, s, v, p)
        walks.child[s] = v
        walks.active[n] = s
        n += on
        walks.stuck[n_stuck] = s
        n_stuck += 1 - on
    walks.n_active, walks.n_stuck = n, n_stuck


cdef void turn(
    Forest* f, Walks* walks, bint greedy, int32_t* found, int64_t* n_dots,
) noexcept nogil:
    """The walks in `stuck` to the most probable pending node, until none can win."""
    cdef Py_ssize_t q
    cdef int32_t s, v, k, at_top, at_other
    cdef int64_t top, other, one, two
    cdef float p
    cdef Walk* walk
    for q in range(walks.n_stuck):
        s = walks.stuck[q]
        walk = walks.walk + s
        v, p = walks.child[s], walks.p[s]
        while True:
            if p * walk.reach[v] >= walk.least:
                v = below(f, v)
                if f.node[v].n_child > 0:
                    break
                if greedy:
                    walk.best = f.node[v].node_class
                    v = -1
                    break
                if not meet(f, walk, v, p):
                    walk.best = v = UNSURE
                    break
            # two at a time: what one of them waits for does not hold up the other
            walk.pending[walk.size] = 0
            top = other = 0
            at_top = at_other = 0
            for k in range(0, walk.size, 2):
                one, two = walk.pending[k], walk.pending[k + 1]
                at_top = k if one > top else at_top
                top = one if one > top else top
                at_other = k + 1 if two > other else at_other
                other = two if two > other else other
            at_top = at_other if other > top else at_top
            top = other if other > top else top
            if top < key(walk.least, 0) or walk.size == 0:
                v = -1
                break
            walk.size -= 1
            walk.pending[at_top] = walk.pending[walk.size]
            v = <int32_t>top
            p = key_float(top) / walk.reach[v]
            if f.step[v].row >= 0:
                break
        if v < 0:
            end(walks, s, walk.best, found, n_dots)
            continue
        arrive(f, walks, s, v, p)
        walks.active[walks.n_active] = s
        walks.n_active += 1


cdef void rounds(
    Forest* f, Walks* walks, Reach reach, Rows* rows,
    cython.floating* coef, cython.floating* intercept, cython.floating* z,
    bint greedy, bint again, int32_t* found, int64_t* n_dots,
) noexcept nogil:
    """The most probable class of each row along one tree, or UNSURE or TOO_LONG.

    First down along the best children, which soon gives a class, then the pending
    nodes that are more probable than it, the most probable first. That is about a
    tenth more nodes than best-first, whose queue of all siblings cost more than they.

    Exact although probabilities are floats: a class is the answer only if no other
    comes within the slack of it, which bounds what rounding can have done. The answer
    has at least 1 / K, so that what underflows could not have been it.

    again: only rows whose answer is TOO_LONG so far.
    """
    cdef Py_ssize_t q, first = 0
    cdef int32_t s, r
    cdef Walk* walk
    for s in range(SIDE):
        walks.free[s] = s
        walks.p[s] = walks.score[s] = 0
    walks.n_free, walks.n_active = SIDE, 0
    while True:
        while walks.n_free > 0 and first < rows.n:
            if not again or found[first] == TOO_LONG:
                s = walks.free[walks.n_free - 1]
                if begin(f, walks, reach, s, rows, first, coef):
                    walks.n_free -= 1
                    walks.active[walks.n_active] = s
                    walks.n_active += 1
                else:
                    found[first], n_dots[first] = UNSURE if again else TOO_LONG, 0
            first += 1
        if walks.n_free == SIDE:
            return
        if walks.x != NULL:
            products(
                walks.coef, walks.stride, walks.x, walks.n_active, walks.active,
                walks.row, walks.score,
            )
        else:
            for q in range(walks.n_active):
                s = walks.active[q]
                walk = walks.walk + s
                r = walks.row[s]
                walks.score[s] = <float>(
                    row_score(&walk.sample, coef + r * rows.d) + intercept[r]
                )
        if not greedy:
            share_out(SIDE, walks.p, walks.score, walks.large, walks.small)
        forward(f, walks, coef, intercept, z, greedy, found, n_dots)
        turn(f, walks, greedy, found, n_dots)


cdef void search(
    ForestArrays forest, Rows* rows, cython.floating* coef, cython.floating* intercept,
    cython.floating* z, bint greedy, bint only_best, const int32_t* target,
    int32_t* best, double* best_lp, Py_ssize_t k, int64_t* n_dots,
    Workspace space, Walks* walks, Reach reach,
) noexcept nogil:
    """`answer` for every row, after `rounds` if only the best class is wanted."""
    cdef Forest* f = &forest.view
    cdef Sample sample
    cdef Py_ssize_t i
    cdef bint quick = only_best and f.n_trees == 1 and f.depth > 0
    cdef bint narrow = walks.x != NULL
    if quick:
        rounds(f, walks, reach, rows, coef, intercept, z, greedy, False, best, n_dots)
        if narrow:
            walks.x, walks.error = NULL, 0
            rounds(
                f, walks, reach, rows, coef, intercept, z, greedy, True, best, n_dots
            )
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
    NarrowRows narrow,
):
    """Fill best (n, k) and best_lp (n, k) for every row of X; with only_best, best
    (n, 1) alone; with a target, best_lp (n, 1) with its log-probability. z, coef,
    intercept are never empty. narrow: for only_best, or None. False if a score was
    not a number."""
    cdef Workspace space = Workspace(forest)
    cdef Reach reach = Reach(forest, narrow)
    cdef Walks walks
    cdef Rows rows
    cdef float[::1] x
    cdef Py_ssize_t k = best_lp.shape[1]
    rows.n, rows.d = X.shape[0], X.shape[1]
    if rows.n == 0:
        return True
    walks.x, walks.error = NULL, 0
    if narrow is not None:
        x = space.floats(SIDE * narrow.stride)
        walks.x, walks.stride = &x[0], narrow.stride
        walks.coef, walks.error = narrow.coef, narrow.error
    rows.data = <void*>&X[0, 0]
    rows.index32 = rows.indptr32 = NULL
    rows.index64 = rows.indptr64 = NULL
    with nogil:
        search(
            forest, &rows, <cython.floating*>&coef[0, 0],
            <cython.floating*>&intercept[0], &z[0], greedy, only_best,
            &target[0] if target.shape[0] else NULL, &best[0, 0], &best_lp[0, 0], k,
            &n_dots[0], space, &walks, reach,
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
    cdef Reach reach = Reach(forest, None)
    cdef Walks walks
    cdef Rows rows
    cdef Py_ssize_t k = best_lp.shape[1]
    rows.n, rows.d = best_lp.shape[0], coef.shape[1]
    if rows.n == 0:
        return True
    walks.x, walks.error = NULL, 0
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
            &n_dots[0], space, &walks, reach,
        )
    return bool(space.memory.good)
