"""Compiled trees, read along paths, and back-off models; see `_core_fast.pxd`.

A back-off model is

    log P(y | n) = log_prob(a, y) + sum of log_backoff over the nodes below a,

a = the nearest of n and its ancestors that has a pair for y. The root has a pair for
every class in class order, so its pair of class y is number y and the walk always ends.
The classes of a node are sorted: one binary search per step.

Costs (m = depth of the node, V = classes, p = pairs on the node's path): target
O(m log pairs), row O(V + p), best O(p + k log k), draw O(p + V) in the worst case and
usually O(pairs of the first nodes).
"""

cimport cython
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import numpy as np

from .._heap cimport in_order, offer
from .._prefetch cimport prefetch
from .._sorted cimport find_pair
from ._core_fast cimport BEST, BLOCK, Model, address, padded, room_for

cdef enum:
    SHORT = 64  # longest context without heap memory
    AHEAD = 8  # distance of prefetched queries


@cython.final
cdef class Path:
    """The symbol of a tree that each step of a history reads.

    Parameters
    ----------
    n_steps : int
        Length of the path.

    n_symbols : int
        Number of symbols of the tree; other symbols are unknown and end a path.

    tables : list of int32 ndarray, default=None
        For each step, the symbol of each token, -1 if absent. Steps may share an array.
        None: tokens are symbols.

    position : int32 ndarray of shape (n_steps,), default=None
        The place in the history that each step reads, 1 for the last token. None:
        1, 2, 3 ...

    missing : uint8 ndarray of shape (n_tokens,), default=None
        1 for tokens that end the history, in addition to negative tokens and tokens
        that are not in the tables. None: no further tokens.

    windows : int32 ndarray of shape (n, width), default=None
        The last token is the number of a row of this array, which is the history. None:
        the history is the tokens.
    """

    def __init__(self, int n_steps, int n_symbols, tables=None, position=None,
                 missing=None, windows=None):
        cdef const int[::1] table
        cdef int k
        self.n_symbols = self.n_tokens = n_symbols
        if windows is not None:
            n_steps = min(n_steps, windows.shape[1])
            if windows.strides[1] != windows.itemsize:
                windows = np.ascontiguousarray(windows)
        self.n_steps = n_steps
        reach = np.arange(1, n_steps + 1)
        if position is not None:
            reach = np.maximum.accumulate(position[:n_steps])
        within = np.searchsorted(reach, np.arange(reach.max(initial=0) + 1), "right")
        self.within = within.astype(np.int32)
        self.position, self.missing, self.windows = position, missing, windows
        # A plain path: step k reads token k, after all tokens before.
        self.plain = tables is None and position is None and missing is None
        if tables is None:
            return
        self.n_tokens = min([table.size for table in tables])
        for one in {id(t): t for t in tables}.values():
            if one.size and not -1 <= one.min() <= one.max() < n_symbols:
                raise ValueError("tables of a path hold symbols of another tree")
        cdef int64_t[::1] places = np.zeros(max(n_steps, 1), dtype=np.int64)
        self.keep = [*tables, places]
        self.table = <const int**> &places[0]
        for k in range(n_steps):
            table = tables[k]
            self.table[k] = address(table)

    def reads_as(self, Path other):
        """Whether another path is the same, or reads the same windows in the same
        way."""
        if self is other:
            return True
        if other is None or self.windows is None or other.windows is None:
            return False
        return (
            self.plain and other.plain and self.windows.base is other.windows.base
            and (self.n_steps, self.n_symbols) == (other.n_steps, other.n_symbols))

    cdef Py_ssize_t begin(self, const int** tokens, Py_ssize_t i) noexcept nogil:
        """Return the end of the history, and set `tokens` to the history."""
        if self.windows is None or self.n_steps == 0:
            return i
        tokens[0] = &self.windows[tokens[0][i - 1], 0]
        return self.windows.shape[1]

    cdef int symbol(
        self, int step, const int* tokens, Py_ssize_t i, int* known
    ) noexcept nogil:
        """The symbol of a step; -1 after the end of the history or path, or if unknown.

        known: how many tokens are known not to end the history.
        """
        cdef int p = step + 1, token
        if step >= self.n_steps:
            return -1
        if self.plain:
            if step >= i:
                return -1
            token = tokens[i - p]
            return token if <unsigned int> token < self.n_tokens else -1
        if self.position is not None:
            p = self.position[step]
        while known[0] < p:
            if known[0] >= i:
                return -1
            token = tokens[i - 1 - known[0]]
            if <unsigned int> token >= self.n_tokens:  # also if it is negative
                return -1
            if self.missing is not None and self.missing[token]:
                return -1
            known[0] += 1
        token = tokens[i - p]
        if self.table != NULL:
            return self.table[step][token]
        return token


@cython.final
cdef class Tree:
    def __init__(self, tree, Path path):
        self.parent, self.symbol = tree.parent, tree.symbol
        self.child_ptr, self.root_child = tree.child_ptr, tree.root_child
        self.path = path
        if path is not None and path.n_symbols > self.root_child.shape[0]:
            raise ValueError("a path leads to symbols that the tree does not have")

    cdef void find_many(
        self, const int* tokens, const int64_t* position, Py_ssize_t n, char* out,
        Py_ssize_t stride, const int* first
    ) noexcept nogil:
        """The deepest nodes of at most BLOCK histories, `stride` bytes apart.

        All histories take a step before any takes the next step, so that their memory
        accesses overlap. Steps that read the same tokens as the previous history reuse
        its nodes. first: an array whose entries for the found nodes are prefetched.
        """
        cdef int active[BLOCK]
        cdef int known[BLOCK]
        cdef int shared[BLOCK]
        cdef const int* history[BLOCK]
        cdef Py_ssize_t end[BLOCK]
        cdef Node* at
        cdef Node* before
        cdef const int* last
        cdef Py_ssize_t s, most
        cdef int j, a, child, step = 0, left = <int> n
        cdef Edges edges = edges_of(self)
        for j in range(left):
            at = <Node*> (out + j * stride)
            at.node = at.depth = at.up = known[j] = shared[j] = 0
            history[j], active[j] = tokens, j
            end[j] = self.path.begin(&history[j], position[j])
            if j == 0:
                continue
            s, last = 1, history[j - 1] + end[j - 1]
            most = min(self.path.within.shape[0] - 1, min(end[j], end[j - 1]))
            while s <= most and last[-s] == history[j][end[j] - s]:
                s += 1
            shared[j] = self.path.within[s - 1]
        while left:
            n, left = left, 0
            for a in range(<int> n):
                j = active[a]
                at = <Node*> (out + j * stride)
                if step < shared[j]:
                    before = <Node*> (out + (j - 1) * stride)
                    child = before.node if before.depth > step else -1
                    known[j] = known[j - 1]
                else:
                    child = child_of(&edges, at.node, self.path.symbol(
                        step, history[j], end[j], &known[j]))
                if child < 0:
                    continue
                at.node, at.depth = child, step + 1
                prefetch(&edges.child_ptr[child], 1)
                prefetch(&first[child], 1)
                active[left] = j
                left += 1
            for a in range(left):
                at = <Node*> (out + active[a] * stride)
                child = edges.child_ptr[at.node]
                prefetch(edges.symbol + child + (
                    (edges.child_ptr[at.node + 1] - child) >> 1), 1)
            step += 1


# ---------------------------------------------------------------- back-off models


@cython.final
cdef class Backoff(Model):
    """A back-off model.

    Parameters
    ----------
    model : BackoffModel
        The model, whose arrays are shared.

    source : Path or int32 ndarray, default=None
        How histories are read: along a path, or by an array with the node of each last
        token. None: the last token is the node.

    group : int32 ndarray of shape (n_classes,), default=None
        The group of each class. Places then keep sums over groups for the nodes of a
        path.
    """

    def __init__(self, model, source=None, group=None):
        tree = model.tree
        self.model, self.source, self.group = model, source, group
        self.parent = tree.parent
        self.ptr, self.cls = model.pairs.ptr, model.pairs.target
        self.log_prob, self.log_backoff = model.log_prob, model.log_backoff
        self.weight, self.max_depth = model.node_weight, tree.max_depth
        self.n_classes, self.n_features, self.room = model.n_classes, 2, sizeof(Node)
        self.root_prob, self.node_of = model._root_prob, None
        self.n_entries = self.cls.shape[0]
        self.root_order = self.row_sum = None
        if isinstance(source, Path) or source is None:
            self.tree = Tree(tree, source)
        else:
            self.tree = Tree(tree, None)
            if source.size and not 0 <= source.min() <= source.max() < tree.n_nodes:
                raise ValueError("contexts hold nodes that the model does not have")
            self.node_of = source
        if group is not None:
            self.keep_rows(np.bincount(group, self.root_prob))

    def grouped(self, group):
        return Backoff(self.model, self.source, group)

    def finds_as(self, model):
        """Whether another model finds the same node of each context."""
        cdef Backoff other
        if not isinstance(model, Backoff) or self.tree.path is None:
            return False
        other = model
        return self.tree.path.reads_as(other.tree.path) and (
            np.array_equal(self.parent, other.parent)
            and np.array_equal(self.tree.symbol, other.tree.symbol))

    def keep_classes(self):
        """Let a place keep rows of classes. To be called before the first place is
        made."""
        if not self.rows:
            self.keep_rows(self.root_prob)

    cdef keep_rows(self, const double[::1] root_row):
        """Let a place keep a row of each level of a path, and the node of the row."""
        self.root_row, self.n_values = root_row, <int> root_row.shape[0]
        self.row_nodes = padded(self.room)
        self.rows = padded(self.row_nodes + 4 * self.max_depth)
        self.room = self.rows + 8 * self.n_values * (1 + self.max_depth)

    def prepare(self, int what):
        cdef const int[::1] order
        cdef const double[::1] sums
        # Set only once: another thread may read the table, and a memoryview is NULL
        # during an assignment. The GIL is held between the last `is None` and `=`.
        if what == BEST and self.root_order is None:
            falling = -self.model.log_prob[:self.n_classes]
            order = np.argsort(falling, kind="stable").astype(np.int32)
            if self.root_order is None:
                self.root_order = order
        elif what != BEST:
            sums = self.model.row_sums
            if self.row_sum is None:
                self.row_sum = sums

    cdef void open(self, char* place) noexcept nogil:
        if self.rows:
            memset(place + self.row_nodes, 255, 4 * self.max_depth)

    cdef int locate(self, const int* tokens, Py_ssize_t i, char* place) except -1 nogil:
        cdef int64_t position = i
        return self.locate_many(tokens, &position, 1, place, 0)

    cdef int locate_many(
        self, const int* tokens, const int64_t* position, Py_ssize_t n, char* place,
        Py_ssize_t stride
    ) except -1 nogil:
        cdef Py_ssize_t j
        cdef Node* at
        if self.tree.path is not None:
            self.tree.find_many(tokens, position, n, place, stride, &self.ptr[0])
            return 0
        for j in range(n):  # the last token stores the node
            at = <Node*> (place + j * stride)
            at.node, at.depth, at.up = tokens[position[j] - 1], -1, 0
            if self.node_of is not None:
                at.node = self.node_of[at.node]
            prefetch(&self.ptr[at.node], 1)
        return 0

    cdef int64_t key(self, char* place) except? -1 nogil:
        """Contexts below the same child of the root have neighbouring keys."""
        cdef int node = (<Node*> place).node, top = node
        while top and self.parent[top]:
            top = self.parent[top]
        return (<int64_t> top << 32) + node

    cdef double score(self, int node, int y, int* up) noexcept nogil:
        """ln P(y | node); up: the number of levels from the node up to the pair."""
        cdef double total = 0.0
        cdef int p, n = 0
        while True:
            p = find_pair(&self.ptr[0], &self.cls[0], node, y)
            if p >= 0:
                up[0] = n
                return total + self.log_prob[p]
            total += self.log_backoff[node]
            node = self.parent[node]
            n += 1

    cdef double target(self, char* place, int y) except? 2.0 nogil:
        cdef Node* at = <Node*> place
        return self.score(at.node, y, &at.up)

    cdef int depth_of(self, Node* at) noexcept nogil:
        cdef int node = at.node
        if at.depth < 0:
            at.depth = 0
            while node:
                at.depth += 1
                node = self.parent[node]
        return at.depth

    cdef int depth(self, char* place) noexcept nogil:
        return self.depth_of(<Node*> place) - (<Node*> place).up

    cdef int gate_features(self, char* place, double* out) except -1 nogil:
        out[0] = self.depth_of(<Node*> place)
        out[1] = 0.0
        if self.weight is not None:
            out[1] = log(1.0 + self.weight[(<Node*> place).node])
        return 0

    cdef int fill(self, char* place, double* out, bint proba) except -1 nogil:
        """Write the values of the root, then overwrite them by those of deeper
        nodes."""
        cdef int node = (<Node*> place).node, n = 0, y, p, k
        cdef double total = 0.0, v
        # Local pointers: the compiler does not know that `out` does not alias this
        # object.
        cdef const double* log_prob = &self.log_prob[0]
        cdef const double* root_prob = &self.root_prob[0]
        cdef const int* cls = &self.cls[0]
        cdef Step* steps = <Step*> room_for(self.max_depth, sizeof(Step))
        while node:
            steps[n].node, steps[n].total = node, total
            total += self.log_backoff[node]
            node = self.parent[node]
            n += 1
        v = exp(total)
        for y in range(self.n_classes):
            out[y] = root_prob[y] * v if proba else log_prob[y] + total
        for k in range(n - 1, -1, -1):
            node, total = steps[k].node, steps[k].total
            for p in range(self.ptr[node], self.ptr[node + 1]):
                v = log_prob[p] + total
                out[cls[p]] = exp(v) if proba else v
        free(steps)
        return 0

    cdef int row(self, char* place, double* out) except -1 nogil:
        return self.fill(place, out, False)

    cdef int proba(self, char* place, double* out) except -1 nogil:
        if self.rows and self.group is None:
            return self.copy_row(place, out)
        return self.fill(place, out, True)

    cdef int best(self, char* place, int k, int* label, double* value) except -1 nogil:
        """After the pairs of the path, the other classes are added to the heap in
        falling order of their probability at the root. Adding a back-off weight keeps
        this order, so the scan stops at the first value below the worst value of the
        heap (equal values, which rounding can cause, are ordered by class id)."""
        cdef int node = (<Node*> place).node, size = 0, p, r, y
        cdef double total = 0.0, v, least = -INFINITY  # the worst value of a full heap
        cdef const double* log_prob = &self.log_prob[0]
        cdef const int* cls = &self.cls[0]
        cdef unsigned char* seen = <unsigned char*> room_for(self.n_classes // 8 + 1, 1)
        while node:
            for p in range(self.ptr[node], self.ptr[node + 1]):
                if mark(seen, cls[p]):
                    v = log_prob[p] + total
                    if v >= least:
                        size = offer(value, label, size, k, v, cls[p])
                        least = value[0] if size == k else least
            total += self.log_backoff[node]
            node = self.parent[node]
        for r in range(self.n_classes):
            y = self.root_order[r]
            v = log_prob[y] + total
            if v < least:
                break
            if mark(seen, y):
                size = offer(value, label, size, k, v, y)
                least = value[0] if size == k else least
        in_order(value, label, k)
        free(seen)
        return 0

    cdef int draw(self, char* place, double uniform, int skip) except -2 nogil:
        """Draw by inversion: the deepest pairs first, then the classes that have a pair
        only at the root. A row that does not sum to 1 is scaled."""
        cdef int node = (<Node*> place).node, y, p, last = -1, up
        cdef double total = 0.0, left, mass = self.row_sum[node]
        # Local pointers: the compiler does not know that `seen` does not alias this
        # object.
        cdef const double* log_prob = &self.log_prob[0]
        cdef const double* root_prob = &self.root_prob[0]
        cdef const int* cls = &self.cls[0]
        cdef unsigned char* seen
        if skip >= 0:
            mass -= exp(self.score(node, skip, &up))
            # Remaining mass of this size is a rounding error.
            if mass < 1e-12:
                mass = 0.0
        if not 0.0 < mass < INFINITY:
            return -1
        left = uniform * mass
        seen = <unsigned char*> room_for(self.n_classes // 8 + 1, 1)
        if skip >= 0:
            mark(seen, skip)
        # The last class with a positive probability gets the mass that rounding leaves.
        while node and left >= 0.0:
            for p in range(self.ptr[node], self.ptr[node + 1]):
                y = cls[p]
                if mark(seen, y):
                    mass = exp(log_prob[p] + total)
                    if mass > 0.0:
                        last = y
                        left -= mass
                        if left < 0.0:
                            break
            total += self.log_backoff[node]
            node = self.parent[node]
        total = exp(total)
        if left >= 0.0 and total > 0.0:
            for y in range(self.n_classes):
                if not is_marked(seen, y):
                    mass = root_prob[y] * total
                    if mass > 0.0:
                        last = y
                        left -= mass
                        if left < 0.0:
                            break
        free(seen)
        return last

    cdef int groups(
        self, char* place, const int* group, int n, double* out
    ) except -1 nogil:
        if self.group is None:
            return Model.groups(self, place, group, n, out)
        return self.copy_row(place, out)

    cdef int copy_row(self, char* place, double* out) noexcept nogil:
        """The kept row of the node."""
        cdef const double* row = self.row_of(
            place, (<Node*> place).node, self.depth_of(<Node*> place))
        memcpy(out, row, self.n_values * sizeof(double))
        return 0

    cdef const double* row_of(self, char* place, int node, int depth) noexcept nogil:
        """Probabilities of all classes, or of all groups, after a node, computed from
        the probabilities after its parent."""
        cdef int* nodes = <int*> (place + self.row_nodes) - 1
        cdef double* explicit = <double*> (place + self.rows)
        cdef double* row = explicit + depth * self.n_values
        cdef const double* above
        cdef const double* log_prob = &self.log_prob[0]
        cdef const int* cls = &self.cls[0]
        cdef const int* group
        cdef int g, p, up, n = self.n_values
        cdef double scale
        if node == 0:
            return &self.root_row[0]
        if nodes[depth] == node:
            return row
        above = self.row_of(place, self.parent[node], depth - 1)
        scale = exp(self.log_backoff[node])
        if self.group is None:
            for g in range(n):
                row[g] = scale * above[g]
            for p in range(self.ptr[node], self.ptr[node + 1]):
                row[cls[p]] = exp(log_prob[p])
        else:
            # The sum of the pairs of the node, plus the scaled mass that the parent
            # gives to the classes of the group without a pair.
            group = &self.group[0]
            memcpy(row, above, n * sizeof(double))
            memset(explicit, 0, n * sizeof(double))
            for p in range(self.ptr[node], self.ptr[node + 1]):
                g = group[cls[p]]
                explicit[g] += exp(log_prob[p])
                row[g] -= exp(self.score(self.parent[node], cls[p], &up))
            for g in range(n):
                # If all classes of a group have pairs, rounding may leave a negative
                # value.
                row[g] = explicit[g] + (scale * row[g] if row[g] > 0 else 0)
        nodes[depth] = node
        return row

    # ------------------------------------------------------ nodes as states

    cdef int after(self, int node, int symbol) except -1 nogil:
        """The deepest node of the context of a node followed by a symbol; symbol -1:
        the root.

        The symbols of the context are read on the way up to the root, the oldest first,
        and followed in the opposite order below the child of the new symbol.
        """
        cdef int brief[SHORT]
        cdef int n = 0, child
        cdef int* context = brief
        cdef Edges edges = edges_of(self.tree)
        if symbol < 0:
            return 0
        if self.max_depth > SHORT:
            context = <int*> room_for(self.max_depth, sizeof(int))
        while node:
            context[n] = edges.symbol[node]
            node = self.parent[node]
            n += 1
        child = child_of(&edges, 0, symbol)
        while child >= 0:
            node = child
            if n == 0:
                break
            n -= 1
            child = child_of(&edges, node, context[n])
        if context != brief:
            free(context)
        return node

    def scores(self, const int[::1] nodes, const int[::1] y):
        """`target` of many nodes."""
        cdef Py_ssize_t j, n = nodes.shape[0]
        cdef int up, first
        found = np.empty(n)
        cdef double[::1] out = found
        with nogil:
            for j in range(n):
                prefetch(&self.ptr[nodes[min(j + 2 * AHEAD, n - 1)]], 1)
                first = self.ptr[nodes[min(j + AHEAD, n - 1)]]
                prefetch(&self.cls[0] + first, 1)
                prefetch(&self.log_prob[0] + first, 1)
                out[j] = self.score(nodes[j], y[j], &up)
        return found

    def follow(self, const int[::1] nodes, const int[::1] symbols):
        """`after` of many."""
        cdef Py_ssize_t j
        found = np.empty(nodes.shape[0], dtype=np.int32)
        cdef int[::1] out = found
        with nogil:
            for j in range(nodes.shape[0]):
                out[j] = self.after(nodes[j], symbols[j])
        return found
