"""The base of compiled models, with its loops; `_core_fast.pxd` has the interface."""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

import numpy as np

from .._checks import check_length, check_rows, check_top_k
from .._parallel import row_blocks, rows_per_block
from .._heap cimport in_order, offer
from .._random cimport draw as next_draw
from .._watch cimport interrupt

cdef enum:
    WORK = 1 << 22  # numbers that are computed between two checks for Ctrl-C


# Arguments with an entry for each context.
SPLIT = {"y", "target", "depth", "value", "label", "uniform", "features"}


cdef void* room_for(Py_ssize_t n, Py_ssize_t size) except NULL nogil:
    """n zeros of `size` bytes, which the caller frees."""
    cdef void* found = calloc(max(n, 1), size)
    if found == NULL:
        with gil:
            raise MemoryError
    return found


# -------------------------------------------------------------------------- draws


cdef double hashed(double uniform, int64_t step) noexcept nogil:
    """Another number in [0, 1), computed from `uniform` (SplitMix64)."""
    cdef uint64_t x
    memcpy(&x, &uniform, sizeof(double))
    x += <uint64_t> 0x9E3779B97F4A7C15ULL * <uint64_t> step
    return next_draw(&x)


cdef int draw_from(double* proba, int n, double uniform) noexcept nogil:
    """The entry at the quantile `uniform` in [0, 1); -1 if all are 0.

    The sum of a row may differ from 1 by rounding, so `uniform` is scaled by the sum.
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
    """The array models inside of several models."""
    return [a for model in models if model is not None
            for a in (<Model> model).array_models()]


cdef class Model:
    """A distribution over classes given a context of tokens, compiled."""

    def __cinit__(self):
        self.arrays = []

    def array_models(self):
        """The `ArrayModel`s inside, or the model itself."""
        return self.arrays

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

    cdef void ahead(
        self, const int* tokens, const int64_t* position, Py_ssize_t n, char* place
    ) noexcept nogil:
        pass

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

    cdef int gate_features(self, char* place, double* out) except -1 nogil:
        memset(out, 0, self.n_features * sizeof(double))
        return 0

    cdef int64_t key(self, char* place) except? -1 nogil:
        return 0

    cdef double* made(self, char* place, bint proba) except NULL nogil:
        """The row of a context, in memory that the caller frees."""
        # All entries are written, so the memory need not be zeroed.
        cdef double* row = <double*> malloc(max(self.n_classes, 1) * sizeof(double))
        cdef int failed = 1
        if row == NULL:
            with gil:
                raise MemoryError
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
        """A place for this call, which no other thread uses: the spare place or a new
        place."""
        cdef Place place = self.spare
        self.spare = None
        return Place(self) if place is None else place

    def grouped(self, const int[::1] group):
        """The same model, possibly optimised for sums over these groups of classes."""
        return self

    def prepare(self, int what):
        """Make the tables that the answers to BEST or DRAW need."""

    # ------------------------------------------- the loop, the same for all models

    def _ask(self, int what, tokens, position, order=None, **given):
        """Call `_each`. With array models, call it twice for each block of contexts:
        the first call records the queries, the second call reads the answers."""
        arrays = self.array_models()
        if not arrays:
            self._each(what, tokens, position, order, **given)
            return
        for s in row_blocks(len(position), rows_per_block(self.n_classes)):
            part = {k: v[s] if k in SPLIT and v is not None else v
                    for k, v in given.items()}
            try:
                for model in arrays:
                    model.record(tokens)
                self._each(what, tokens, position[s], None, **part)
                for model in arrays:
                    model.answer()
                self._each(what, tokens, position[s], None, **part)
            finally:
                for model in arrays:
                    model.forget()

    def _each(self, int what, const int[::1] tokens, const int64_t[::1] position,
              const int64_t[::1] order, const int[::1] y=None, double[::1] target=None,
              int[::1] depth=None, double[:, ::1] value=None, int[:, ::1] label=None,
              const int[::1] group=None, const double[::1] uniform=None, int skip=-1,
              double[:, ::1] features=None):
        """Answer one kind of query for all contexts, in an order (None: as given)."""
        cdef Py_ssize_t i = 0, j, k, m, n = position.shape[0]
        cdef Py_ssize_t stride = padded(self.room)
        # Sums of groups reuse the rows of the last context, so there is one place.
        cdef bint alone = what == GROUPS or order is not None or stride > SMALL
        cdef Py_ssize_t block = 1 if alone else BLOCK
        cdef bint targets = y is not None, ordered = order is not None
        cdef bint depths = depth is not None, gates = features is not None
        # The queries to array models must not depend on their answers.
        cdef bint whole = bool(self.array_models())
        cdef int width = 0 if value is None else <int> value.shape[1]
        cdef Py_ssize_t work = 0
        cdef int64_t soon[SOON]
        cdef char* at
        cdef Place place = Place(self, block) if block > 1 else self.borrow()
        with nogil:
            while i < n:
                m = min(block, n - i)
                work += m * (16 if block > 1 else self.n_classes)
                if work > WORK:
                    work = 0
                    interrupt()
                if block == 1 and i % SOON == 0:
                    for k in range(min(<Py_ssize_t> SOON, n - i)):
                        soon[k] = position[order[i + k] if ordered else i + k]
                    self.ahead(address(tokens), soon, min(<Py_ssize_t> SOON, n - i),
                               place.at)
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
                    if gates:
                        self.gate_features(at, &features[j, 0])
                    if what == ROW:
                        self.row(at, &value[j, 0])
                    elif what == PROBA:
                        self.proba(at, &value[j, 0])
                    elif what == GROUPS:
                        self.groups(at, &group[0], width, &value[j, 0])
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
            self.ahead(NULL, NULL, 0, place.at)
            self.spare = place

    def order(self, const int[::1] tokens, const int64_t[::1] position):
        """An order of the contexts in which queries are fast, by the keys."""
        cdef Py_ssize_t j
        cdef Place place
        keys = np.empty(position.shape[0], dtype=np.int64)
        cdef int64_t[::1] out = keys
        # Keys may depend on the answers of array models.
        if self.array_models():
            return np.arange(keys.size)
        place = self.borrow()
        with nogil:
            for j in range(position.shape[0]):
                self.locate(address(tokens), position[j], place.at)
                out[j] = self.key(place.at)
        self.spare = place
        return np.argsort(keys, kind="stable")

    def targets(self, tokens, position, y, depth=None, sort=True):
        """ln P of y[j] after tokens[:position[j]]; depth[j] <- its `depth`.

        sort: whether the contexts may be queried in another order.
        """
        check_length("y", y, len(position), "one per context")
        if not (sort and self.sorted_is_faster):
            return self.targets_in_order(tokens, position, y, depth)
        out = np.empty(len(position))
        order = self.order(tokens, position)
        out[order] = self.targets_in_order(tokens, position[order], y[order])
        return out

    def targets_in_order(self, tokens, position, y, depth=None, features=None,
                         group=None, sums=None):
        """`targets` in the given order, NaN where y is negative; features <- features
        of each context, sums <- as in `group_sums`."""
        out = np.full(len(position), np.nan)
        what = TARGET if group is None else GROUPS
        self._ask(what, tokens, position, y=y, target=out, depth=depth,
                  features=features, group=group, value=sums)
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
        """The class at each quantile in [0, 1); -1 if all probabilities are 0."""
        out = np.empty((len(position), 1), dtype=np.int32)
        check_length("uniform", uniform, len(out), "one per context")
        self.prepare(DRAW)
        self._ask(DRAW, tokens, position, label=out, uniform=uniform, skip=skip)
        return out[:, 0]

    def group_sums(self, tokens, position, group, order=None, y=None):
        """(n, n_groups) P of the groups of classes, and `targets`, NaN where y is
        negative; group: the group of each class."""
        return self.grouped(group).sums_and_targets(tokens, position, group, order, y)

    def sums_and_targets(self, tokens, position, group, order=None, y=None):
        """`group_sums` of a model that `grouped` made."""
        n = len(position)
        sums, out = np.empty((n, int(np.max(group)) + 1)), np.empty(n)
        if order is None:
            order = self.order(tokens, position)
        found = np.empty_like(sums)
        y = np.full(n, -1, np.int32) if y is None else y
        out[order] = self.targets_in_order(
            tokens, position[order], y[order], group=group, sums=found)
        sums[order] = found
        return sums, out

    def all_features(self, tokens, position):
        """(n, n_features) the features of each context."""
        out = np.zeros((len(position), self.n_features))
        if self.n_features:
            self._ask(TARGET, tokens, position, features=out)
        return out


cdef class Uniform(Model):
    """The uniform distribution."""

    cdef double value

    def __init__(self, int n_classes, int n_features=0):
        self.n_classes, self.n_features = n_classes, n_features
        self.value = -log(n_classes)

    cdef double target(self, char* place, int y) except? 2.0 nogil:
        return self.value


@cython.final
cdef class Wider(Model):
    """A model over other classes: class y has the share `share[y]` of the probability
    of class own[y] of a model; own[y] = -1: probability 0."""

    cdef Model model
    cdef const int[::1] own
    cdef const double[::1] log_share, share

    def __init__(self, Model model, own, log_share):
        self.model, self.own, self.log_share = model, own, log_share
        self.share, self.n_classes = np.exp(log_share), own.size
        self.arrays, self.room, self.by_proba = model.array_models(), model.room, True
        self.n_features = model.n_features
        self.sorted_is_faster = model.sorted_is_faster
        self.n_entries = model.n_entries

    cdef void open(self, char* place) noexcept nogil:
        self.model.open(place)

    cdef int locate(self, const int* tokens, Py_ssize_t i, char* place) except -1 nogil:
        return self.model.locate(tokens, i, place)

    cdef int locate_many(
        self, const int* tokens, const int64_t* position, Py_ssize_t n, char* place,
        Py_ssize_t stride
    ) except -1 nogil:
        return self.model.locate_many(tokens, position, n, place, stride)

    cdef double target(self, char* place, int y) except? 2.0 nogil:
        if self.own[y] < 0:
            return -INFINITY
        return self.log_share[y] + self.model.target(place, self.own[y])

    cdef int proba(self, char* place, double* out) except -1 nogil:
        cdef int y
        cdef double* row = self.model.made(place, True)
        for y in range(self.n_classes):
            # The share of a class that the model does not have is 0.
            out[y] = row[max(self.own[y], 0)] * self.share[y]
        free(row)
        return 0

    cdef int gate_features(self, char* place, double* out) except -1 nogil:
        return self.model.gate_features(place, out)

    cdef int64_t key(self, char* place) except? -1 nogil:
        return self.model.key(place)
