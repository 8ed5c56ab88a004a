"""Log-linear model over several context trees at once, by exact softmax.

    score(y | x) = sum over trees t, over nodes n on x's path in t, of beta_n w(n, y)

The nodes of all trees are numbered consecutively; only the first tree keeps its root,
because the roots are equal. A sample is the deepest node of its path in each tree, -1
where the path is empty. Pairs (n, y) that do not occur in training have no weight. beta
has a number for each depth; the depth of a node is the length of its path to the root
(plus one if the root is not stored). Weights are in double precision during the fit,
and in single precision in a fitted model.

Cost of a sample: the pairs of the nodes on its paths, once to score, once for the
gradient, and the exponentials of the outcomes. Fitted models score many samples, sorted
by context, and reuse the sums over the upper part of a path, which has most pairs: a
row of additions per tree, plus the pairs of the lower part.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport log, log1p
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

import numpy as np

from .._exp_sum cimport exp_sum, largest
from .._prefetch cimport prefetch
from ..backoff._core_fast cimport SOON, Model, padded
from ..backoff._trees_fast cimport Node, Tree

cdef enum:
    # A node with pairs for fewer than 1 / SPARSE of the outcomes has no row.
    SPARSE = 16

ctypedef fused real:
    float
    double


cdef inline Py_ssize_t _depth(int32_t n, const int32_t *parent,
                              bint first) noexcept nogil:
    """Depth of a node of the first tree, which has its root, or of another tree; -1 if
    absent."""
    cdef Py_ssize_t k = -1 if first or n < 0 else 0
    while n >= 0:
        k += 1
        n = parent[n]
    return k


def add_scores(const int32_t[::1] node, const int64_t[::1] order, bint first,
               const int32_t[::1] parent, const int32_t[::1] ptr,
               const int32_t[::1] target, const double[::1] beta, const real[::1] w,
               int32_t[::1] path, double[:, ::1] rows, double[:, ::1] score):
    """score[i] += the scores of one tree for the sample that ends at its node[i]; of
    the first tree, in which each sample has a node, score[i] = them.

    order: the samples, those of one context one after the other. A node with pairs of
    a SPARSE-th of the outcomes or more has a row of sums from the top of its path,
    which the next samples use again; it adds the rows, then the pairs of the nodes
    below. So what a sample gets does not depend on the others. path (n_levels): the
    nodes whose sums `rows` (n_levels, n_outcomes) holds, -1 for none. first: whether it
    is the tree with the root.
    """
    cdef Py_ssize_t i, j, n_outcomes = score.shape[1]
    cdef int32_t n
    # Without pairs there are no addresses to take.
    if target.shape[0] == 0:
        if first:
            score[:] = 0.0
        return
    with nogil:
        for i in range(order.shape[0]):
            j = order[i]
            n = node[j]
            if n >= 0:
                _add_tree(n, _depth(n, &parent[0], first), first, &parent[0], &ptr[0],
                          &target[0], &beta[0], &w[0], &path[0], &rows[0, 0],
                          &score[j, 0], n_outcomes)


cdef void _add_tree(int32_t node, Py_ssize_t depth, bint first, const int32_t *parent,
                    const int32_t *ptr, const int32_t *target, const double *beta,
                    const real *w, int32_t *path, double *rows, double *out,
                    Py_ssize_t n_outcomes) noexcept nogil:
    """out += the scores of the tree of a node; of the first tree out <- them."""
    cdef Py_ssize_t k, top = 0 if first else 1, dense = depth
    cdef int32_t n = node, p
    cdef double b
    # Longer contexts have fewer pairs.
    while dense >= top and SPARSE * (ptr[n + 1] - ptr[n]) < n_outcomes:
        n = parent[n]
        dense -= 1
    if dense >= top:
        _sums(n, dense, top, parent, ptr, target, beta, w, path, rows, n_outcomes)
        if first:
            memcpy(out, rows + dense * n_outcomes, n_outcomes * sizeof(double))
        else:
            rows += dense * n_outcomes
            for k in range(n_outcomes):
                out[k] += rows[k]
    elif first:
        memset(out, 0, n_outcomes * sizeof(double))
    n = node
    for k in range(depth, dense, -1):
        b = beta[k]
        for p in range(ptr[n], ptr[n + 1]):
            out[target[p]] += b * w[p]
        n = parent[n]


cdef void _sums(int32_t node, Py_ssize_t k, Py_ssize_t top, const int32_t *parent,
                const int32_t *ptr, const int32_t *target, const double *beta,
                const real *w, int32_t *path, double *rows,
                Py_ssize_t n_outcomes) noexcept nogil:
    """Row k of `rows` <- the scores of a node of depth k and of those above it."""
    cdef double *row = rows + k * n_outcomes
    cdef int32_t p
    if path[k] == node:
        return
    if k > top:
        _sums(parent[node], k - 1, top, parent, ptr, target, beta, w, path, rows,
              n_outcomes)
        memcpy(row, row - n_outcomes, n_outcomes * sizeof(double))
    else:
        memset(row, 0, n_outcomes * sizeof(double))
    for p in range(ptr[node], ptr[node + 1]):
        row[target[p]] += beta[k] * w[p]
    path[k] = node


cdef struct Sums:
    const int32_t *parent
    const int32_t *ptr
    const int32_t *target
    const double *beta
    int32_t *path      # the node of each level whose sum is not handed on yet
    double *rows       # one sum per level
    double *gradient
    Py_ssize_t top, n_outcomes


cdef void _hand_on(Sums *sums, Py_ssize_t k) noexcept nogil:
    """The sum of a level to the slopes of its node, and to the node above."""
    cdef double *row = sums.rows + k * sums.n_outcomes
    cdef int32_t p, node = sums.path[k]
    for p in range(sums.ptr[node], sums.ptr[node + 1]):
        sums.gradient[p] += sums.beta[k] * row[sums.target[p]]
    if k > sums.top:
        _collect(sums, sums.parent[node], k - 1, row)


cdef void _collect(Sums *sums, int32_t node, Py_ssize_t k,
                   const double *row) noexcept nogil:
    """Add a row to the sum of a node of depth k."""
    cdef double *total = sums.rows + k * sums.n_outcomes
    cdef Py_ssize_t y
    if sums.path[k] == node:
        for y in range(sums.n_outcomes):
            total[y] += row[y]
        return
    if sums.path[k] >= 0:
        _hand_on(sums, k)
    sums.path[k] = node
    memcpy(total, row, sums.n_outcomes * sizeof(double))


def add_slopes(const int32_t[::1] node, const int64_t[::1] order, bint first,
               const int32_t[::1] parent, const int32_t[::1] ptr,
               const int32_t[::1] target, const double[::1] beta, int32_t[::1] path,
               double[:, ::1] rows, const double[:, ::1] slope, double[::1] gradient):
    """gradient += the slopes of the pairs of one tree, of those of the scores.

    The adjoint of `add_scores`, with the same parameters: a node with many pairs has a
    row of sums over the consecutive samples that end at or below the node. path: all -1
    on entry and on return.
    """
    cdef Py_ssize_t i, j, k, n_outcomes = slope.shape[1]
    cdef int32_t n, p
    cdef double b
    cdef const double *row
    cdef Sums sums
    # Without pairs there are no addresses to take.
    if target.shape[0] == 0:
        return
    sums.parent, sums.ptr, sums.target = &parent[0], &ptr[0], &target[0]
    sums.beta, sums.path, sums.rows = &beta[0], &path[0], &rows[0, 0]
    sums.gradient, sums.n_outcomes = &gradient[0], n_outcomes
    sums.top = 0 if first else 1
    with nogil:
        for i in range(order.shape[0]):
            j = order[i]
            n = node[j]
            if n < 0:
                continue
            row = &slope[j, 0]
            k = _depth(n, &parent[0], first)
            while k >= sums.top and SPARSE * (ptr[n + 1] - ptr[n]) < n_outcomes:
                b = beta[k]
                for p in range(ptr[n], ptr[n + 1]):
                    gradient[p] += b * row[target[p]]
                n = parent[n]
                k -= 1
            if k >= sums.top:
                _collect(&sums, n, k, row)
        for k in range(path.shape[0] - 1, sums.top - 1, -1):
            if path[k] >= 0:
                _hand_on(&sums, k)
                path[k] = -1


def weighted_softmax(double[:, ::1] score, const double[::1] weight,
                     double[::1] out):
    """score <- the weight of its row times P of every outcome, of scores; out <- the
    logarithm of the sum of the exponentials of each row."""
    cdef Py_ssize_t i, y, n = score.shape[1]
    cdef double top, total
    cdef double *row
    with nogil:
        for i in range(score.shape[0]):
            row = &score[i, 0]
            top = largest(n, row)
            total = exp_sum(n, row, top, row)
            out[i] = top + log(total)
            total = weight[i] / total
            for y in range(n):
                row[y] *= total


cdef struct Context:
    double total      # of the exponentials of the scores less the largest score
    double log_total  # ln of the sum of the exponentials of the scores
    int64_t position[SOON]  # of the contexts ahead, whose nodes are found
    int32_t n_ahead
    int32_t next      # the first of these that was not located
    int32_t known     # whether the scores are made


@cython.final
cdef class Joint(Model):
    """The fitted model of one context.

    A place holds a `Context`; the node of each tree; the nodes of the contexts ahead;
    of each level of each tree the node whose sums a row holds; the scores; their
    exponentials; these rows, for the levels down to the last one with a node of many
    pairs. The next context uses the sums over the upper parts of its paths again.

    Parameters
    ----------
    model : JointTrees
        Its arrays are shared.

    paths : list of Path, default=None
        Of each tree. None: the last tokens are the nodes of the trees.
    """

    cdef list keep
    cdef void **tree
    cdef const int32_t[::1] parent, ptr, cls, first, n_rows
    cdef const double[::1] beta
    cdef const float[::1] w, weight
    cdef int n_trees, n_levels
    cdef Py_ssize_t found, paths, scores

    def __cinit__(self):
        self.tree = NULL

    def __dealloc__(self):
        PyMem_Free(self.tree)

    def __init__(self, model, paths=None):
        cdef int t
        self.n_trees, self.n_levels = len(model.trees), model.beta.size
        self.tree = <void **> PyMem_Malloc(self.n_trees * sizeof(void *))
        if self.tree == NULL:
            raise MemoryError
        if paths is None:
            paths = [None] * self.n_trees
        self.keep = [Tree(tree, path) for tree, path in zip(model.trees, paths)]
        for t in range(self.n_trees):
            self.tree[t] = <void *> self.keep[t]
        self.parent, self.ptr, self.cls = model.parent, model.ptr, model.pair_class
        self.first = model.first.astype(np.int32)
        self.beta, self.w, self.weight = model.beta, model.w, model.node_weight
        self.n_classes, self.n_features = model.n_classes, 2
        self.sorted_is_faster = True
        self.found = sizeof(Context) + self.n_trees * sizeof(Node)
        self.paths = self.found + SOON * self.n_trees * sizeof(Node)
        self.scores = padded(self.paths + 4 * self.n_trees * self.n_levels)
        self.n_rows = np.array(
            [dense_levels(model, t) for t in range(self.n_trees)], dtype=np.int32)
        self.room = self.scores + 8 * self.n_classes * (2 + sum(self.n_rows))

    cdef void open(self, char *place) noexcept nogil:
        memset(place, 0, sizeof(Context))
        memset(place + sizeof(Context), 255, self.scores - sizeof(Context))

    cdef void ahead(
        self, const int *tokens, const int64_t *position, Py_ssize_t n, char *place
    ) noexcept nogil:
        """Find the nodes of contexts: their look-ups wait for memory together."""
        cdef Context *here = <Context *> place
        cdef char *found = place + self.found
        cdef int t
        if (<Tree> self.tree[0]).path is None:
            return
        here.n_ahead, here.next = <int32_t> n, 0
        if n == 0:
            return
        memcpy(here.position, position, n * sizeof(int64_t))
        for t in range(self.n_trees):
            (<Tree> self.tree[t]).find_many(
                tokens, position, n, found + t * sizeof(Node),
                self.n_trees * sizeof(Node), <const int *> &self.ptr[self.first[t]])

    cdef int locate(self, const int *tokens, Py_ssize_t i, char *place) except -1 nogil:
        cdef Context *here = <Context *> place
        cdef Node *node = <Node *> (here + 1)
        cdef Node *found = <Node *> (place + self.found)
        cdef int64_t position = i
        cdef bint given = (<Tree> self.tree[0]).path is None
        cdef int32_t n
        cdef int t
        if not given:
            while here.next < here.n_ahead and here.position[here.next] != i:
                here.next += 1
            if here.next == here.n_ahead:
                self.ahead(tokens, &position, 1, place)
            found += here.next * self.n_trees
            here.next += 1
        for t in range(self.n_trees):
            if given:
                n = tokens[i - self.n_trees + t]
            else:  # only the root of the first tree has pairs
                n = found[t].node + self.first[t] if t == 0 or found[t].node else -1
            if n == node[t].node:
                continue
            here.known, node[t].node = 0, n
            node[t].depth = found[t].depth
            if given:
                node[t].depth = <int> _depth(n, &self.parent[0], t == 0)
            if n >= 0 and self.w.shape[0]:
                prefetch(&self.parent[n], 1)
                prefetch(&self.cls[0] + self.ptr[n], 1)
                prefetch(&self.w[0] + self.ptr[n], 1)
        return 0

    cdef int64_t key(self, char *place) except? -1 nogil:
        return (<Node *> (place + sizeof(Context))).node

    cdef const double *scored(self, char *place) noexcept nogil:
        """The scores of the context, and the sum of their exponentials."""
        cdef Context *here = <Context *> place
        cdef const Node *node = <Node *> (here + 1)
        cdef int32_t *path = <int32_t *> (place + self.paths)
        cdef double *score = <double *> (place + self.scores)
        cdef double *rows = score + 2 * self.n_classes
        cdef double top
        cdef int t
        if here.known:
            return score
        if self.w.shape[0] == 0:
            memset(score, 0, self.n_classes * sizeof(double))
        for t in range(self.n_trees if self.w.shape[0] else 0):
            if node[t].node >= 0:
                _add_tree(
                    node[t].node, node[t].depth, t == 0, &self.parent[0], &self.ptr[0],
                    &self.cls[0], &self.beta[0], &self.w[0], path, rows, score,
                    self.n_classes)
            path += self.n_levels
            rows += self.n_rows[t] * self.n_classes
        top = largest(self.n_classes, score)
        here.total = exp_sum(self.n_classes, score, top, score + self.n_classes)
        here.log_total = top + log(here.total)
        here.known = 1
        return score

    cdef double target(self, char *place, int y) except? 2.0 nogil:
        return self.scored(place)[y] - (<Context *> place).log_total

    cdef int row(self, char *place, double *out) except -1 nogil:
        cdef const double *score = self.scored(place)
        cdef int y
        for y in range(self.n_classes):
            out[y] = score[y] - (<Context *> place).log_total
        return 0

    cdef int proba(self, char *place, double *out) except -1 nogil:
        cdef const double *exponential = self.scored(place) + self.n_classes
        cdef double scale = 1.0 / (<Context *> place).total
        cdef int y
        for y in range(self.n_classes):
            out[y] = exponential[y] * scale
        return 0

    cdef int gate_features(self, char *place, double *out) except -1 nogil:
        cdef const Node *node = <Node *> (place + sizeof(Context))
        out[0] = node.depth
        out[1] = log1p(self.weight[node.node])
        return 0


def dense_levels(model, t):
    """The number of levels of a tree that may have rows of sums; see `_add_tree`."""
    tree = model.trees[t]
    sizes = np.diff(model.ptr)[model.first[t]:][:tree.n_nodes]
    dense = np.flatnonzero(SPARSE * sizes >= model.n_classes)
    if dense.size == 0:
        return 0
    return int(np.searchsorted(tree.level_ptr, dense.max(), "right"))
