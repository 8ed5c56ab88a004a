"""Compiled models: the base with its loops, trees read along paths, back-off models.

`_core_fast.pxd` has the contract. A back-off model is

    log P(y | n) = log_prob(a, y) + sum of log_backoff over the nodes below a,

a = the nearest of n and its ancestors that holds a pair for y. The root holds every
class in class order, so its pair of class y is number y and the walk always ends. The
classes of a node are sorted: one binary search per step.

Costs (m = depth of the node, V = classes, p = pairs on the node's path): target
O(m log pairs), row O(V + p), best O(p + k log k), draw O(p + V) in the worst case and
O(pairs of the first nodes looked at) mostly.
"""

import threading

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport INFINITY, exp, log, log1p
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

import numpy as np

from .._checks import check_length, check_rows, check_top_k
from .._parallel import row_blocks, rows_per_block
from .._heap cimport in_order, offer
from .._prefetch cimport prefetch
from ..context_tree._find_fast cimport find_child, find_pair

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef enum:
    TARGET, ROW, PROBA, GROUPS, FACTS, BEST, DRAW  # questions

cdef enum:
    # Contexts that are located at a time, if a place has no more bytes than SMALL.
    BLOCK = 256
    SMALL = 2048
    # Numbers that are made between two looks for Ctrl-C.
    WORK = 1 << 22
    # Tokens by which a kept path is found again.
    KEPT = 8
    # Nodes of a path without memory from the heap.
    SHORT = 64
    # Tokens of a history that an `ArrayModel` reads where it is asked one by one.
    REACH = 1 << 10


# Arguments with an entry for each context.
SPLIT = {"y", "target", "depth", "value", "label", "uniform"}


cdef inline const int* address(const int[::1] array) noexcept nogil:
    return &array[0] if array.shape[0] else NULL


cdef int interrupt() except -1 nogil:
    """Raise what a handler of a signal raises."""
    with gil:
        return PyErr_CheckSignals()


cdef void* room_for(Py_ssize_t n, Py_ssize_t size) except NULL nogil:
    """n zeros of a size, to be freed."""
    cdef void* found = calloc(max(n, 1), size)
    if found == NULL:
        with gil:
            raise MemoryError
    return found


# -------------------------------------------------------------------------- draws


cdef double hashed(double uniform, int64_t step) noexcept nogil:
    """A further number in [0, 1) made of one (SplitMix64)."""
    cdef uint64_t x
    memcpy(&x, &uniform, sizeof(double))
    x += <uint64_t> 0x9E3779B97F4A7C15ULL * <uint64_t> (step + 1)
    x = (x ^ (x >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9ULL
    x = (x ^ (x >> 27)) * <uint64_t> 0x94D049BB133111EBULL
    x = x ^ (x >> 31)
    return <double> (x >> 11) * (1.0 / 9007199254740992.0)


cdef int draw_from(double* proba, int n, double uniform) noexcept nogil:
    """The entry that a number in [0, 1) falls on; -1 if all are 0.

    A row may miss the sum 1 by rounding: the number is scaled, not the row.
    """
    cdef int y, last = -1
    cdef double total = 0.0, below = 0.0
    for y in range(n):
        total += proba[y]
    for y in range(n):
        if proba[y] > 0.0:
            last = y
            below += proba[y]
            if uniform * total < below:
                break
    return last


# --------------------------------------------------------------------------- base


cdef class Place:
    def __cinit__(self, Model model, Py_ssize_t n=1):
        cdef Py_ssize_t k, stride = padded(model.room)
        self.at = <char*> PyMem_Malloc(n * stride + 16)
        if self.at == NULL:
            raise MemoryError
        for k in range(n):
            model.open(self.at + k * stride)

    def __dealloc__(self):
        PyMem_Free(self.at)


def arrays_of(models):
    """The array models inside of some."""
    return [a for model in models if model is not None for a in (<Model> model).arrays]


cdef class Model:
    """A distribution over classes given a context of tokens, compiled."""

    def __cinit__(self):
        self.arrays, self.places = [], []

    cdef void open(self, char* place) noexcept nogil:
        pass

    cdef int locate(self, const int* tokens, Py_ssize_t i, char* place) except -1 nogil:
        return 0

    cdef int locate_many(
        self, const int* tokens, const int64_t* position, Py_ssize_t n, char* place,
        Py_ssize_t stride
    ) except -1 nogil:
        cdef Py_ssize_t j
        for j in range(n):
            self.locate(tokens, position[j], place + j * stride)
        return 0

    cdef double target(self, char* place, int y) except? 2.0 nogil:
        return -INFINITY

    cdef int depth(self, char* place) noexcept nogil:
        return -1

    cdef int row(self, char* place, double* out) except -1 nogil:
        cdef int y
        if self.by_proba:
            self.proba(place, out)
        for y in range(self.n_classes):
            out[y] = log(out[y]) if self.by_proba else self.target(place, y)
        return 0

    cdef int proba(self, char* place, double* out) except -1 nogil:
        cdef int y
        self.row(place, out)
        for y in range(self.n_classes):
            out[y] = exp(out[y])
        return 0

    cdef int facts(self, char* place, double* out) except -1 nogil:
        memset(out, 0, self.n_facts * sizeof(double))
        return 0

    cdef int64_t key(self, char* place) except? -1 nogil:
        return 0

    cdef double* made(self, char* place, bint proba) except NULL nogil:
        """The row of a context, in memory that the caller frees."""
        cdef double* row = <double*> room_for(self.n_classes, sizeof(double))
        cdef int failed = 1
        try:
            failed = self.proba(place, row) if proba else self.row(place, row)
        finally:
            if failed:
                free(row)
        return row

    cdef int groups(
        self, char* place, const int* group, int n, double* out
    ) except -1 nogil:
        cdef int y
        cdef double* row = self.made(place, True)
        memset(out, 0, n * sizeof(double))
        for y in range(self.n_classes):
            out[group[y]] += row[y]
        free(row)
        return 0

    cdef int best(self, char* place, int k, int* label, double* value) except -1 nogil:
        cdef int y, size = 0
        cdef double* row = self.made(place, False)
        for y in range(self.n_classes):
            size = offer(value, label, size, k, row[y], y)
        in_order(value, label, k)
        free(row)
        return 0

    cdef int draw(self, char* place, double uniform, int skip) except -2 nogil:
        cdef int drawn
        cdef double* row = self.made(place, True)
        if skip >= 0:
            row[skip] = 0.0
        drawn = draw_from(row, self.n_classes, uniform)
        free(row)
        return drawn

    cdef Place borrow(self):
        """A place from the pool: threads do not share places."""
        try:
            return self.places.pop()
        except IndexError:
            return Place(self)

    def grouped(self, const int[::1] group):
        """The same model, fast for sums over these groups of classes."""
        return self

    def prepare(self, int what):
        """Make the tables that the answers to BEST or DRAW need."""

    # ------------------------------------------- the loop, the same for all models

    def _ask(self, int what, tokens, position, order=None, **given):
        """`_each`; of array models in blocks of contexts, and twice, as the second call
        reads the answers to the first."""
        if not self.arrays:
            self._each(what, tokens, position, order, **given)
            return
        for s in row_blocks(len(position), rows_per_block(self.n_classes)):
            part = {k: v[s] if k in SPLIT and v is not None else v
                    for k, v in given.items()}
            try:
                for model in self.arrays:
                    model.record(tokens)
                self._each(what, tokens, position[s], None, **part)
                for model in self.arrays:
                    model.answer()
                self._each(what, tokens, position[s], None, **part)
            finally:
                for model in self.arrays:
                    model.forget()

    def _each(self, int what, const int[::1] tokens, const int64_t[::1] position,
              const int64_t[::1] order, const int[::1] y=None, double[::1] target=None,
              int[::1] depth=None, double[:, ::1] value=None, int[:, ::1] label=None,
              const int[::1] group=None, const double[::1] uniform=None, int skip=-1):
        """Answer a question of all contexts, in an order (None: as they are)."""
        cdef Py_ssize_t i = 0, j, k, m, n = position.shape[0]
        cdef Py_ssize_t stride = padded(self.room)
        cdef Py_ssize_t block = BLOCK if stride <= SMALL and order is None else 1
        cdef bint targets = y is not None, ordered = order is not None
        cdef bint depths = depth is not None
        # The questions to array models may not depend on their answers.
        cdef bint whole = bool(self.arrays)
        cdef int width = 0 if value is None else <int> value.shape[1]
        cdef Py_ssize_t work = 0
        cdef char* at
        cdef Place place = Place(self, block) if block > 1 else self.borrow()
        with nogil:
            while i < n:
                m = min(block, n - i)
                work += m * (16 if block > 1 else self.n_classes)
                if work > WORK:
                    work = 0
                    interrupt()
                if ordered:
                    self.locate(address(tokens), position[order[i]], place.at)
                else:
                    self.locate_many(
                        address(tokens), &position[i], m, place.at, stride)
                for k in range(m):
                    j = order[i] if ordered else i + k
                    at = place.at + k * stride
                    if targets and y[j] >= 0:
                        target[j] = self.target(at, y[j])
                        if depths:
                            depth[j] = self.depth(at)
                    if what == ROW:
                        self.row(at, &value[j, 0])
                    elif what == PROBA:
                        self.proba(at, &value[j, 0])
                    elif what == GROUPS:
                        self.groups(at, &group[0], width, &value[j, 0])
                    elif what == FACTS:
                        self.facts(at, &value[j, 0])
                    elif what == BEST and whole:
                        Model.best(self, at, width, &label[j, 0], &value[j, 0])
                    elif what == BEST:
                        self.best(at, width, &label[j, 0], &value[j, 0])
                    elif what == DRAW and whole:
                        label[j, 0] = Model.draw(self, at, uniform[j], skip)
                    elif what == DRAW:
                        label[j, 0] = self.draw(at, uniform[j], skip)
                i += m
        if block == 1:
            self.places.append(place)

    def order(self, const int[::1] tokens, const int64_t[::1] position):
        """An order of the contexts in which they are cheap, by their keys."""
        cdef Py_ssize_t j
        cdef Place place
        keys = np.empty(position.shape[0], dtype=np.int64)
        cdef int64_t[::1] out = keys
        # Keys may depend on what array models answer.
        if self.arrays:
            return np.arange(keys.size)
        place = self.borrow()
        with nogil:
            for j in range(position.shape[0]):
                self.locate(address(tokens), position[j], place.at)
                out[j] = self.key(place.at)
        self.places.append(place)
        return np.argsort(keys, kind="stable")

    def targets(self, tokens, position, y, depth=None, sort=True):
        """ln P of y[j] after tokens[:position[j]]; depth[j] <- its `depth`.

        sort: whether they may be asked in another order.
        """
        out = np.empty(len(position))
        check_length("y", y, out.size, "one per context")
        if sort and self.sorted_is_faster:
            order = self.order(tokens, position)
            out[order] = self.targets(tokens, position[order], y[order], sort=False)
        else:
            self._ask(TARGET, tokens, position, y=y, target=out, depth=depth)
        return out

    def rows(self, tokens, position, proba=False):
        """(n, n_classes) ln P of all classes, or P."""
        check_rows(len(position), self.n_classes)
        out = np.empty((len(position), self.n_classes))
        order = self.order(tokens, position) if self.sorted_is_faster else None
        what = PROBA if proba or self.by_proba else ROW
        self._ask(what, tokens, position, order, value=out)
        if self.by_proba and not proba:
            with np.errstate(divide="ignore"):
                np.log(out, out=out)
        return out

    def best_of(self, tokens, position, k):
        """The k most probable classes of each context, and their ln P."""
        shape = len(position), check_top_k(k, self.n_classes)
        labels, values = np.empty(shape, dtype=np.int32), np.empty(shape)
        self.prepare(BEST)
        self._ask(BEST, tokens, position, label=labels, value=values)
        return labels, values

    def draws(self, tokens, position, uniform, skip=-1):
        """The class that each number in [0, 1) falls on; -1 if none has a
        probability."""
        out = np.empty((len(position), 1), dtype=np.int32)
        check_length("uniform", uniform, len(out), "one per context")
        self.prepare(DRAW)
        self._ask(DRAW, tokens, position, label=out, uniform=uniform, skip=skip)
        return out[:, 0]

    def group_sums(self, tokens, position, group, order=None, y=None):
        """(n, n_groups) P of the groups of classes, and `targets`, NaN where y is
        negative; group: that of each class."""
        model = self.grouped(group)
        sums = np.empty((len(position), int(np.max(group)) + 1))
        out = np.full(len(position), np.nan)
        if order is None:
            order = model.order(tokens, position)
        model._ask(
            GROUPS, tokens, position, order, value=sums, group=group, y=y, target=out)
        return sums, out

    def all_facts(self, tokens, position):
        """(n, n_facts) the facts of each context."""
        out = np.zeros((len(position), self.n_facts))
        if self.n_facts:
            self._ask(FACTS, tokens, position, value=out)
        return out


# -------------------------------------------------------------------------- trees


@cython.final
cdef class Path:
    """Which symbol of a tree each step of a history is.

    Parameters
    ----------
    n_steps : int
        Length of the path.

    n_symbols : int
        Symbols of the tree; others are unknown and end a path.

    tables : list of int32 ndarray, default=None
        Of each step, the symbol of each token, -1 for none. Steps may share an array.
        None: symbols are tokens.

    position : int32 ndarray of shape (n_steps,), default=None
        The place in the history that each step reads, 1 for the last token. None:
        1, 2, 3 ...

    missing : uint8 ndarray of shape (n_tokens,), default=None
        1 for tokens that end the history, as those do that are negative or not in the
        tables. None: no others.

    windows : int32 ndarray of shape (n, width), default=None
        The history is the row of this array whose number is the last token. None: it
        is made of the tokens.
    """

    def __cinit__(self):
        self.table = NULL

    def __dealloc__(self):
        PyMem_Free(self.table)

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
        self.reach, self.within = reach.astype(np.int32), within.astype(np.int32)
        self.keep = tables
        self.position, self.missing, self.windows = position, missing, windows
        # Then step k reads token k, after all before it.
        self.plain = tables is None and position is None and missing is None
        if tables is None:
            return
        self.n_tokens = min([table.size for table in tables])
        for one in {id(t): t for t in tables}.values():
            if one.size and not -1 <= one.min() <= one.max() < n_symbols:
                raise ValueError("tables of a path hold symbols of another tree")
        self.table = <const int**> PyMem_Malloc(max(n_steps, 1) * sizeof(int*))
        if self.table == NULL:
            raise MemoryError
        for k in range(n_steps):
            table = tables[k]
            self.table[k] = address(table)

    cdef Py_ssize_t begin(self, const int** tokens, Py_ssize_t i) noexcept nogil:
        """The end of the history; `tokens` becomes where the history is."""
        if self.windows is None or self.n_steps == 0:
            return i
        tokens[0] = &self.windows[tokens[0][i - 1], 0]
        return self.windows.shape[1]

    cdef int symbol(
        self, int step, const int* tokens, Py_ssize_t i, int* known
    ) noexcept nogil:
        """-1 at the end of the history, of the path and of the tree's symbols.

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
        if path is not None:
            self.n_kept = min(path.within.shape[0] - 1, KEPT)
            self.kept_size = 2 + self.n_kept + tree.max_depth

    cdef Node find(self, const int* tokens, Py_ssize_t i, int* kept) noexcept nogil:
        """The deepest node of a history.

        kept: `kept_size` numbers, the first 0 at the beginning: the length of the last
        path of this place, how many of the tokens that it was read from are known,
        these, and the node of each step. The steps that read equal tokens are not
        looked up. NULL: no path is kept.
        """
        cdef Node out
        cdef int s, n, child, known = 0
        cdef int* nodes = NULL
        # The compiler does not know that `kept` is apart from this object.
        cdef Edges edges = edges_of(self)
        out.node = out.depth = out.up = 0
        i = self.path.begin(&tokens, i)
        if kept != NULL:
            nodes = kept + 2 + self.n_kept
            n, s = <int> min(i, <Py_ssize_t> self.n_kept), 0
            while s < min(n, kept[1]) and kept[2 + s] == tokens[i - 1 - s]:
                s += 1
            out.depth = min(self.path.within[s], kept[0])
            if out.depth:
                out.node = nodes[out.depth - 1]
                known = self.path.reach[out.depth - 1]
            if out.depth < self.path.within[s]:  # the same end
                return out
            kept[1] = n
            while s < n:
                kept[2 + s] = tokens[i - 1 - s]
                s += 1
        while True:
            s = self.path.symbol(out.depth, tokens, i, &known)
            child = child_of(&edges, out.node, s)
            if child < 0:
                break
            if kept != NULL:
                nodes[out.depth] = child
            out.node = child
            out.depth += 1
        if kept != NULL:
            kept[0] = out.depth
        return out


cdef struct Edges:
    const int* root_child
    const int* symbol
    const int* child_ptr


cdef inline Edges edges_of(Tree tree) noexcept nogil:
    """The arrays of a tree, for a loop."""
    cdef Edges out
    out.root_child = address(tree.root_child)
    out.symbol, out.child_ptr = &tree.symbol[0], &tree.child_ptr[0]
    return out


cdef inline int child_of(const Edges* edges, int node, int symbol) noexcept nogil:
    """The child with a symbol, -1 for none or the symbol -1."""
    if symbol < 0:
        return -1
    if node == 0:
        return edges.root_child[symbol]
    return find_child(edges.symbol, edges.child_ptr, node, symbol)


# ---------------------------------------------------------------- back-off models


cdef struct Step:
    int node
    double total  # of the back-off weights below the node


@cython.final
cdef class Backoff(Model):
    """A back-off model.

    Parameters
    ----------
    model : BackoffModel
        Its arrays are shared.

    source : Path or int32 ndarray, default=None
        How histories are read: along a path, or as the node whose number is the entry
        of this array at the last token. None: the last token is the node.

    group : int32 ndarray of shape (n_classes,), default=None
        The group of each class, whose sums the places keep for the nodes of a path.
    """

    cdef readonly object model
    cdef object source
    cdef Tree tree
    cdef const int[::1] parent, ptr, cls, root_order, node_of, group
    cdef const double[::1] log_prob, log_backoff, row_sum, root_prob, root_mass
    cdef const float[::1] weight
    cdef int max_depth, n_groups
    cdef Py_ssize_t kept, kept_row, masses

    def __init__(self, model, source=None, group=None):
        tree = model.tree
        self.model, self.source, self.group = model, source, group
        self.parent = tree.parent
        self.ptr, self.cls = model.pairs.ptr, model.pairs.target
        self.log_prob, self.log_backoff = model.log_prob, model.log_backoff
        self.weight, self.max_depth = model.node_weight, tree.max_depth
        self.n_classes, self.n_facts, self.room = model.n_classes, 2, sizeof(Node)
        self.root_prob, self.node_of = model._root_prob, None
        self.root_order = self.row_sum = None
        if isinstance(source, Path) or source is None:
            self.tree = Tree(tree, source)
        else:
            self.tree = Tree(tree, None)
            if source.size and not 0 <= source.min() <= source.max() < tree.n_nodes:
                raise ValueError("contexts hold nodes that the model does not have")
            self.node_of = source
        if group is not None:
            self.n_groups = int(np.max(group)) + 1
            self.root_mass = np.bincount(group, self.root_prob, self.n_groups)
            # The node of each level whose row of masses is kept, and the rows.
            self.masses = padded(16 + 4 * self.max_depth)
            self.room = self.masses + 8 * self.n_groups * (1 + self.max_depth)

    def grouped(self, group):
        return Backoff(self.model, self.source, group)

    def keep_path(self, bint row):
        """Let a place keep its last path, where contexts are not located in blocks, and
        its last row of probabilities. Before the first place is made."""
        if self.kept:
            return
        self.kept = padded(self.room)
        self.room = self.kept + 4 * self.tree.kept_size
        if row:
            self.kept_row = padded(self.room)
            self.room = self.kept_row + 8 * (1 + self.n_classes)

    def prepare(self, int what):
        cdef const int[::1] order
        cdef const double[::1] sums
        # Once: another thread may read the table now, and a memoryview is NULL while
        # another takes its place. Nothing between `is None` and `=` gives up the GIL.
        if what == BEST:
            order = self.model._root_order
            if self.root_order is None:
                self.root_order = order
        else:
            sums = self.model.row_sums
            if self.row_sum is None:
                self.row_sum = sums

    cdef void open(self, char* place) noexcept nogil:
        if self.n_groups:
            memset(place + 16, 255, 4 * self.max_depth)
        if self.kept:
            memset(place + self.kept, 0, 8)
        if self.kept_row:
            (<int*> (place + self.kept_row))[0] = -1

    cdef int locate(self, const int* tokens, Py_ssize_t i, char* place) except -1 nogil:
        cdef Node* at = <Node*> place
        if self.tree.path is not None:
            at[0] = self.tree.find(
                tokens, i, <int*> (place + self.kept) if self.kept else NULL)
            return 0
        at.node, at.depth, at.up = tokens[i - 1], -1, 0
        if self.node_of is not None:
            at.node = self.node_of[at.node]
        return 0

    cdef int locate_many(
        self, const int* tokens, const int64_t* position, Py_ssize_t n, char* place,
        Py_ssize_t stride
    ) except -1 nogil:
        """A step of all paths after the other: their look-ups wait for memory at the
        same time."""
        cdef int active[BLOCK]
        cdef int known[BLOCK]
        cdef const int* history[BLOCK]
        cdef Py_ssize_t end[BLOCK]
        cdef Node* at
        cdef int j, a, child, step = 0, left = <int> n
        cdef Edges edges
        if self.tree.path is None:
            return Model.locate_many(self, tokens, position, n, place, stride)
        edges = edges_of(self.tree)
        for j in range(left):
            at = <Node*> (place + j * stride)
            at.node = at.depth = at.up = known[j] = 0
            history[j], active[j] = tokens, j
            end[j] = self.tree.path.begin(&history[j], position[j])
        while left:
            n, left = left, 0
            for a in range(<int> n):
                j = active[a]
                at = <Node*> (place + j * stride)
                child = child_of(&edges, at.node, self.tree.path.symbol(
                    step, history[j], end[j], &known[j]))
                if child < 0:
                    continue
                at.node, at.depth = child, step + 1
                prefetch(&edges.child_ptr[child], 1)
                prefetch(&self.ptr[child], 1)
                active[left] = j
                left += 1
            for a in range(left):
                at = <Node*> (place + active[a] * stride)
                child = edges.child_ptr[at.node]
                prefetch(edges.symbol + child + (
                    (edges.child_ptr[at.node + 1] - child) >> 1), 1)
            step += 1
        return 0

    cdef int64_t key(self, char* place) except? -1 nogil:
        """Contexts below one child of the root are neighbours."""
        cdef int node = (<Node*> place).node, top = node
        while top and self.parent[top]:
            top = self.parent[top]
        return (<int64_t> top << 32) + node

    cdef double score(self, int node, int y, int* up) noexcept nogil:
        """ln P(y | node); up: how far above the node the pair is."""
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

    cdef int facts(self, char* place, double* out) except -1 nogil:
        out[0] = self.depth_of(<Node*> place)
        out[1] = 0.0
        if self.weight is not None:
            out[1] = log1p(self.weight[(<Node*> place).node])
        return 0

    cdef Step* climb(
        self, int node, Step* brief, int* n, double* total
    ) except NULL nogil:
        """The n nodes from one up to the root, without it, and the sum of all back-off
        weights; from the heap if they are too many for `brief`."""
        cdef Step* steps = brief
        if self.max_depth > SHORT:
            steps = <Step*> room_for(self.max_depth, sizeof(Step))
        n[0], total[0] = 0, 0.0
        while node:
            steps[n[0]].node, steps[n[0]].total = node, total[0]
            total[0] += self.log_backoff[node]
            node = self.parent[node]
            n[0] += 1
        return steps

    cdef int fill(self, char* place, double* out, bint proba) except -1 nogil:
        """The values of the root first, then each deeper node overwrites."""
        cdef Step brief[SHORT]
        cdef int n, y, p, k, node
        cdef double total, v
        # The compiler does not know that `out` is apart from this object.
        cdef const double* log_prob = &self.log_prob[0]
        cdef const double* root_prob = &self.root_prob[0]
        cdef const int* cls = &self.cls[0]
        cdef Step* steps = self.climb((<Node*> place).node, brief, &n, &total)
        v = exp(total)
        for y in range(self.n_classes):
            out[y] = root_prob[y] * v if proba else log_prob[y] + total
        for k in range(n - 1, -1, -1):
            node, total = steps[k].node, steps[k].total
            for p in range(self.ptr[node], self.ptr[node + 1]):
                v = log_prob[p] + total
                out[cls[p]] = exp(v) if proba else v
        if steps != brief:
            free(steps)
        return 0

    cdef int row(self, char* place, double* out) except -1 nogil:
        return self.fill(place, out, False)

    cdef int proba(self, char* place, double* out) except -1 nogil:
        cdef int* node = <int*> (place + self.kept_row)
        cdef double* row = <double*> node + 1
        if not self.kept_row:
            return self.fill(place, out, True)
        if node[0] != (<Node*> place).node:
            self.fill(place, row, True)
            node[0] = (<Node*> place).node
        memcpy(out, row, self.n_classes * sizeof(double))
        return 0

    cdef int best(self, char* place, int k, int* label, double* value) except -1 nogil:
        """Once the pairs of the path are in the heap, classes are taken by falling
        probability at the root; adding one back-off weight keeps that order, so the
        scan stops at the first value below the worst of the heap (equal values, which
        rounding can make, still compete by class id). Few classes come so far that a
        deeper pair of theirs is looked for."""
        cdef Step brief[SHORT]
        cdef int n, size = 0, s, p, r, y
        cdef double total, v, above, least = -INFINITY  # the worst of a full heap
        cdef const double* log_prob = &self.log_prob[0]
        cdef const int* cls = &self.cls[0]
        cdef Step* steps = self.climb((<Node*> place).node, brief, &n, &total)
        for s in range(n):
            above = steps[s].total
            for p in range(self.ptr[steps[s].node], self.ptr[steps[s].node + 1]):
                v = log_prob[p] + above
                if v >= least and not self.is_held(steps, s, cls[p]):
                    size = offer(value, label, size, k, v, cls[p])
                    least = value[0] if size == k else least
        for r in range(self.n_classes):
            y = self.root_order[r]
            v = log_prob[y] + total
            if v < least:
                break
            if not self.is_held(steps, n, y):
                size = offer(value, label, size, k, v, y)
                least = value[0] if size == k else least
        in_order(value, label, k)
        if steps != brief:
            free(steps)
        return 0

    cdef inline bint is_held(self, const Step* steps, int n, int y) noexcept nogil:
        """Whether one of the first n nodes has a pair for a class; the last of them
        have the most pairs."""
        cdef int s
        for s in range(n - 1, -1, -1):
            if find_pair(&self.ptr[0], &self.cls[0], steps[s].node, y) >= 0:
                return True
        return False

    cdef int draw(self, char* place, double uniform, int skip) except -2 nogil:
        """By inversion, in the order deepest pairs first, then the classes that only
        the root holds. A row that does not sum to 1 is drawn in proportion."""
        cdef int node = (<Node*> place).node, y, p, last = -1, up
        cdef double total = 0.0, left, mass = self.row_sum[node]
        cdef unsigned char* seen
        if skip >= 0:
            mass -= exp(self.score(node, skip, &up))
            # A rest of this size is a rounding error.
            if mass < 1e-12:
                mass = 0.0
        if not 0.0 < mass < INFINITY:
            return -1
        left = uniform * mass
        seen = <unsigned char*> room_for(self.n_classes // 8 + 1, 1)
        if skip >= 0:
            mark(seen, skip)
        # The last class with a positive probability takes what rounding of the sums
        # leaves over.
        while node and left >= 0.0:
            for p in range(self.ptr[node], self.ptr[node + 1]):
                y = self.cls[p]
                if mark(seen, y):
                    mass = exp(self.log_prob[p] + total)
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
                if mark(seen, y):
                    mass = self.root_prob[y] * total
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
        if self.n_groups == 0:
            return Model.groups(self, place, group, n, out)
        memcpy(out, self.mass(place, (<Node*> place).node,
                              self.depth_of(<Node*> place)), n * sizeof(double))
        return 0

    cdef const double* mass(self, char* place, int node, int depth) noexcept nogil:
        """P of all groups after a node: its pairs, and of the classes without a pair
        the share of what the parent gives to their group."""
        cdef int* path = <int*> (place + 16) - 1
        cdef double* explicit = <double*> (place + self.masses)
        cdef double* row = explicit + depth * self.n_groups
        cdef const double* above
        cdef const double* log_prob = &self.log_prob[0]
        cdef const int* cls = &self.cls[0]
        cdef const int* group = &self.group[0]
        cdef int g, p, up
        cdef double scale
        if node == 0:
            return &self.root_mass[0]
        if path[depth] == node:
            return row
        above = self.mass(place, self.parent[node], depth - 1)
        memcpy(row, above, self.n_groups * sizeof(double))
        memset(explicit, 0, self.n_groups * sizeof(double))
        for p in range(self.ptr[node], self.ptr[node + 1]):
            g = group[cls[p]]
            explicit[g] += exp(log_prob[p])
            row[g] -= exp(self.score(self.parent[node], cls[p], &up))
        scale = exp(self.log_backoff[node])
        for g in range(self.n_groups):
            # If all classes of a group have pairs a rounding may be left below 0.
            row[g] = explicit[g] + (scale * row[g] if row[g] > 0 else 0)
        path[depth] = node
        return row

    # ------------------------------------------------------ nodes as states

    cdef int after(self, int node, int symbol) except -1 nogil:
        """The deepest node of the context of a node followed by a symbol; -1: the
        root.

        The symbols of the context, the oldest first, are read on the way up to the
        root, and walked again in the opposite order below the new symbol.
        """
        cdef Step brief[SHORT]
        cdef int n, child
        cdef double total
        cdef Step* steps
        cdef Edges edges = edges_of(self.tree)
        if symbol < 0:
            return 0
        steps = self.climb(node, brief, &n, &total)
        node = 0
        child = child_of(&edges, 0, symbol)
        while child >= 0:
            node = child
            if n == 0:
                break
            n -= 1
            child = child_of(&edges, node, edges.symbol[steps[n].node])
        if steps != brief:
            free(steps)
        return node

    def follow(self, const int[::1] nodes, const int[::1] symbols):
        """`after` of many."""
        cdef Py_ssize_t j
        found = np.empty(nodes.shape[0], dtype=np.int32)
        cdef int[::1] out = found
        with nogil:
            for j in range(nodes.shape[0]):
                out[j] = self.after(nodes[j], symbols[j])
        return found


cdef inline bint mark(unsigned char* seen, int y) noexcept nogil:
    """Set the bit of a class; whether it was not set."""
    cdef unsigned char bit = <unsigned char> (1 << (y & 7))
    if seen[y >> 3] & bit:
        return False
    seen[y >> 3] |= bit
    return True


cdef class Uniform(Model):
    """The uniform distribution."""

    cdef double value

    def __init__(self, int n_classes, int n_facts=0):
        self.n_classes, self.n_facts, self.value = n_classes, n_facts, -log(n_classes)

    cdef double target(self, char* place, int y) except? 2.0 nogil:
        return self.value


# ----------------------------------------------- distributions written in Python


cdef struct Here:
    const int* tokens
    Py_ssize_t i


class Asked:
    """Questions to an `ArrayModel` by kind, and the answers in the same order."""

    def __init__(self, tokens):
        self.tokens, self.position, self.y = tokens, {}, []
        self.answers = self.number = None


cdef class ArrayModel(Model):
    """A distribution in Python, which answers about many contexts in one call.

    A first pass over contexts writes down what is asked, the distribution answers all
    in one call, and a second pass, which asks the same, reads the answers.

    Parameters
    ----------
    distribution : Distribution
        Any.

    find : callable
        ``find(tokens, end)`` returns what the methods of the distribution take, for the
        histories that end before ``tokens[end]``.

    has_target : bool
        Whether it can give the probability of a class without its row.
    """

    cdef object distribution, find, local
    cdef bint has_target

    def __init__(self, distribution, find, has_target):
        self.distribution, self.find = distribution, find
        self.has_target = has_target
        self.local = threading.local()
        self.arrays = [self]
        self.room, self.n_classes = sizeof(Here), distribution.n_classes
        self.n_facts = 2 * len(distribution.fact_depths)

    def record(self, tokens):
        self.local.asked = Asked(np.asarray(tokens))

    def answer(self):
        """Answer what was asked."""
        asked = self.local.asked
        asked.answers, asked.number = {}, dict.fromkeys(asked.position, 0)
        for kind, position in asked.position.items():
            at = self.find(asked.tokens, np.array(position, dtype=np.int64))
            asked.answers[kind] = self.reply(kind, at, asked.y)

    def forget(self):
        self.local.asked = None

    def reply(self, kind, at, y):
        if kind == "target":
            return self.distribution.target(at, np.array(y, dtype=np.int32))
        return getattr(self.distribution, kind)(at)

    cdef object ask(self, str kind, Here* here, int y):
        """The answer about a context; None while questions are written down."""
        cdef Py_ssize_t n = min(here.i, <Py_ssize_t> REACH)
        asked = getattr(self.local, "asked", None)
        if asked is None:
            tokens = np.empty(n, dtype=np.int32)
            copy_tokens(tokens, here.tokens + here.i - n)
            return self.reply(kind, self.find(tokens, np.array([n])), [y])[0]
        if asked.answers is None:
            asked.position.setdefault(kind, []).append(here.i)
            if kind == "target":
                asked.y.append(y)
            return None
        k = asked.number[kind]
        asked.number[kind] = k + 1
        return asked.answers[kind][k]

    cdef int locate(self, const int* tokens, Py_ssize_t i, char* place) except -1 nogil:
        (<Here*> place).tokens, (<Here*> place).i = tokens, i
        return 0

    cdef double target(self, char* place, int y) except? 2.0 nogil:
        with gil:
            if self.has_target:
                found = self.ask("target", <Here*> place, y)
                return 0.0 if found is None else found
            found = self.ask("rows", <Here*> place, y)
            return 0.0 if found is None else found[y]

    cdef int row(self, char* place, double* out) except -1 nogil:
        with gil:
            copy_row(self.ask("rows", <Here*> place, 0), out, self.n_classes)
        return 0

    cdef int facts(self, char* place, double* out) except -1 nogil:
        if self.n_facts:
            with gil:
                copy_row(self.ask("facts", <Here*> place, 0), out, self.n_facts)
        return 0


cdef int copy_tokens(int[::1] out, const int* values) except -1:
    if out.shape[0]:
        memcpy(&out[0], values, out.shape[0] * sizeof(int))
    return 0


cdef int copy_row(found, double* out, Py_ssize_t n) except -1:
    cdef const double[::1] values
    if found is None:
        memset(out, 0, n * sizeof(double))
        return 0
    values = np.ascontiguousarray(found, dtype=np.float64)
    memcpy(out, &values[0], n * sizeof(double))
    return 0


# ------------------------------------------------------------------ word by word


cdef class Cursor:
    """A history of tokens, the state of a model of windows.

    It is immutable, and equal histories are equal keys. As an array it is the window
    of the tokens, -1 where history is missing.
    """

    cdef int n, width
    cdef int* tokens

    def __cinit__(self, int n, int width):
        self.n, self.width = n, width
        self.tokens = <int*> PyMem_Malloc((n + 1) * sizeof(int))
        if self.tokens == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.tokens)

    def __array__(self, dtype=None, copy=None):
        out = np.full(self.width, -1, dtype=np.int32)
        copy_tokens(out[self.width - self.n:], self.tokens)
        return out if dtype is None else out.astype(dtype)

    def __reduce__(self):
        return cursor_of, (np.asarray(self),)

    def __eq__(self, other):
        if type(other) is not Cursor:
            return NotImplemented
        return self.width == (<Cursor> other).width and self.n == (<Cursor> other).n \
            and memcmp(self.tokens, (<Cursor> other).tokens, self.n * sizeof(int)) == 0

    def __hash__(self):
        return hash((<char*> self.tokens)[:self.n * sizeof(int)])

    def __repr__(self):
        return f"Cursor({np.asarray(self).tolist()})"


def cursor_of(window):
    """The cursor of a window of tokens; missing ones, -1, come first."""
    tokens = np.asarray(window, dtype=np.int32)
    known = np.flatnonzero(tokens != -1)
    first = int(known[0]) if known.size else tokens.size
    cdef Cursor found = Cursor(tokens.size - first, tokens.size)
    cdef const int[::1] values = np.ascontiguousarray(tokens[first:])
    if found.n:
        memcpy(found.tokens, &values[0], found.n * sizeof(int))
    return found


cdef class Words:
    """Reads one word after a state.

    Parameters
    ----------
    model : Model
        Its contexts are tokens, or nodes of a `Backoff` whose nodes are states.

    encoder : SentenceEncoder
        Words to tokens.

    begin : Cursor or int
        The state at the beginning of a sentence.

    group : int32 ndarray of shape (n_classes,), default=None
        The group of each class, for `step`.
    """

    cdef Model model
    cdef Backoff tree
    cdef const int[::1] group
    cdef dict code
    cdef const int[::1] class_of_token
    cdef int unknown, end, lost, n_nodes
    cdef object begin

    def __init__(self, Model model, encoder, begin, group=None):
        self.model = model if group is None else model.grouped(group)
        self.begin, self.group = begin, group
        if type(begin) is int:
            self.tree = self.model
            self.n_nodes = self.tree.model.n_nodes
        self.code = encoder.labels.token_code
        self.class_of_token = encoder.labels.class_of_token
        self.unknown, self.end, self.lost = encoder.unknown, encoder.end, encoder.lost

    def step(self, state, word, double[::1] sums=None):
        """(ln P, next state); None: the state is not a single one of this model, or the
        word does not have a class. sums <- P of each group of classes after the
        state."""
        cdef int token, y, node, up
        cdef double found
        if type(state) is not (Cursor if self.tree is None else int):
            return None
        try:
            known = self.code.get(word)
        except TypeError:  # not hashable
            return None
        token = self.unknown if known is None else known
        y = self.class_of_token[token]
        if y < 0:
            return None
        if self.tree is None:
            return self.after(state, token, y, sums) if self.fits(state) else None
        try:
            node = state
        except OverflowError:
            return None
        if not 0 <= node < self.n_nodes:
            return None
        if sums is None:
            found = self.tree.score(node, y, &up)
        else:
            found = self.ask(&node, 1, y, sums)
        if token == self.end:
            return found, self.begin
        if token >= self.tree.tree.root_child.shape[0]:
            token = -1
        return found, self.tree.after(node, token)

    cdef bint fits(self, Cursor state):
        """Whether a state may be one of this model."""
        cdef int k
        if state.width != (<Cursor> self.begin).width:
            return False
        for k in range(state.n):
            if not -1 <= state.tokens[k] <= self.lost:
                return False
        return True

    cdef object after(self, Cursor state, int token, int y, double[::1] sums):
        cdef double found = self.ask(state.tokens, state.n, y, sums)
        cdef int n = min(state.n, state.width - 1)
        cdef Cursor cursor
        if token == self.end:
            return found, self.begin
        cursor = Cursor(n + 1, state.width)
        memcpy(cursor.tokens, state.tokens + state.n - n, n * sizeof(int))
        cursor.tokens[n] = -1 if token == self.lost else token
        return found, cursor

    cdef double ask(
        self, const int* tokens, int n, int y, double[::1] sums
    ) except? 2.0:
        """ln P of a class after n tokens; sums, if given, <- P of the groups."""
        cdef Place place = self.model.borrow()
        self.model.locate(tokens, n, place.at)
        cdef double found = self.model.target(place.at, y)
        if sums is not None:
            self.model.groups(place.at, &self.group[0], <int> sums.shape[0], &sums[0])
        self.model.places.append(place)
        return found
