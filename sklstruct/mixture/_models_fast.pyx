"""Compiled gates, mixtures and factored models; see `backoff/_core_fast.pxd`.

Rows have one entry per model, so NumPy operations would cost more than the arithmetic.
The weights of a mixture cost O(models * trees of contexts) per context.
"""

cimport cython
from libc.math cimport INFINITY, exp, floor, log, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import numpy as np

from .._heap cimport in_order, offer
from .._log_sum cimport log_sum, log_softmax
from .._watch cimport interrupt
from ..backoff._core_fast cimport (
    SOON, Model, Place, address, draw_from, hashed, padded, room_for,
)
from ..backoff._core_fast import arrays_of
from ..backoff._trees_fast cimport Backoff, Node
from ..symbols import TextWindows
from ..symbols._sentences import LONGEST_HISTORY

cdef enum:
    # Steps of `hashed`: steps of a path through a tree are below 1000.
    OF_REDRAWS = 1000
    OF_MIXTURE = 1 << 20
    # Number of times that a draw of the skipped class is repeated, before the whole row
    # is computed.
    REDRAWS = 32
    # From so many contexts on, each model of a mixture, or node, reads all contexts in
    # turn.
    MANY = 16
    BRIEF = 32  # size of the places of `add_step`, in doubles; even
    CHECK = 1 << 10  # contexts between two checks for Ctrl-C


# -------------------------------------------------------------------------- gates


@cython.final
cdef class GateTable:
    """The weights of a gate after each history, from features.

    Parameters
    ----------
    table : float64 ndarray of shape (n_rows, n_models)
        Logarithms of weights by bucket. For a logistic gate the coefficients: a
        constant; then for each tree the coefficients of x and of its square, with x the
        scaled logarithm, and for each depth a constant and the coefficient of x.

    column : int, default=-1
        The feature that selects the bucket: the depth (0), or the logarithm of the
        training weight (1), in powers of 2. -1: there is one bucket.

    deepest : int32 ndarray of shape (n_trees,), default=None
        The largest depth with coefficients for each tree. None: not a logistic gate.
    """

    cdef readonly bint reads_features
    cdef int column, n
    cdef const double[:, ::1] table
    cdef const int32_t[::1] deepest

    def __init__(self, table, int column=-1, deepest=None):
        self.table, self.column = np.ascontiguousarray(table, dtype=np.float64), column
        self.n, self.deepest = self.table.shape[1], None
        self.reads_features = column >= 0 or deepest is not None
        n_rows = 1
        if deepest is not None:
            self.deepest = np.array(deepest, dtype=np.int32)
            n_rows += sum(2 + 2 * (depth + 1) for depth in deepest)
        if self.table.shape[0] < n_rows:
            raise ValueError("the coefficients of a gate do not fit its depths")

    cdef Py_ssize_t bucket(self, const double *features) noexcept nogil:
        cdef double at = 0.0
        if self.column == 0:
            at = features[0]
        elif self.column == 1:
            at = floor(features[1] / log(2.0))
        return <Py_ssize_t> min(at, <double> (self.table.shape[0] - 1))

    cdef void weigh(self, const double *features, double *out) noexcept nogil:
        """out <- the logarithms of the weights."""
        cdef Py_ssize_t k, t, first = 1, at
        cdef double x
        at = 0 if self.deepest is not None else self.bucket(features)
        memcpy(out, &self.table[at, 0], self.n * sizeof(double))
        if self.deepest is None:
            return
        for t in range(self.deepest.shape[0]):
            at = <Py_ssize_t> features[2 * t]
            at = first + 2 + 2 * max(0, min(at, <Py_ssize_t> self.deepest[t]))
            x = 0.2 * features[2 * t + 1]
            for k in range(self.n):
                out[k] += self.table[at, k] + x * (
                    self.table[first, k] + x * self.table[first + 1, k]
                    + self.table[at + 1, k])
            first += 2 + 2 * (self.deepest[t] + 1)
        log_softmax(out, self.n)

    def buckets(self, const double[:, ::1] features):
        """(n,) the bucket of each row of features."""
        cdef Py_ssize_t i
        out = np.empty(features.shape[0], dtype=np.int64)
        cdef int64_t[::1] bucket = out
        for i in range(features.shape[0]):
            bucket[i] = self.bucket(&features[i, 0])
        return out

    def log_weights(self, const double[:, ::1] features):
        """(n, n_models) logarithms of the weights of each row of features."""
        cdef Py_ssize_t i
        out = np.empty((features.shape[0], self.n))
        cdef double[:, ::1] weights = out
        with nogil:
            for i in range(features.shape[0]):
                self.weigh(&features[0, 0] + i * features.shape[1], &weights[i, 0])
        return out


# ----------------------------------------------------------------- composed models


cdef class Composed(Model):
    """A model composed of models; its place contains a place for each of them.

    Parameters
    ----------
    models : list of Model or None

    own : int
        Bytes of the place before the places of the models.
    """

    cdef list keep
    cdef int64_t[:, ::1] places  # the memory of the next two
    cdef void **part
    cdef int64_t *offset
    cdef int n
    # Whether in `targets_in_order` each part reads all contexts in turn.
    cdef readonly bint by_part

    def compose(self, models, Py_ssize_t own):
        cdef int k
        self.keep = list(models)
        self.n = len(models)
        self.arrays = arrays_of(models)
        self.places = np.zeros((2, self.n), dtype=np.int64)
        self.part, self.offset = <void **> &self.places[0, 0], &self.places[1, 0]
        self.room, self.by_proba, self.sorted_is_faster = padded(own), True, True
        for k in range(self.n):
            model = self.keep[k]
            self.offset[k] = self.room
            if model is not None:
                self.part[k] = <void *> model
                self.room += padded((<Model?> model).room)

    def prepare(self, what):
        for model in self.keep:
            if model is not None:
                model.prepare(what)

    cdef void open(self, char *place) noexcept nogil:
        cdef int k
        for k in range(self.n):
            if self.part[k] != NULL:
                (<Model> self.part[k]).open(place + self.offset[k])

    cdef int draw_once(self, char *place, double uniform) except -2 nogil:
        return -1

    cdef int draw(self, char *place, double uniform, int skip) except -2 nogil:
        """If `skip` is drawn, draw again."""
        cdef int step, y
        for step in range(REDRAWS + 1):
            y = self.draw_once(place, uniform)
            if skip < 0 or y != skip:
                return y
            uniform = hashed(uniform, OF_REDRAWS + step)
        return Model.draw(self, place, uniform, skip)


cdef inline void add_row(
    double weight, const double *row, Py_ssize_t n, double *out
) noexcept nogil:
    """out += weight * row."""
    cdef Py_ssize_t y
    for y in range(n):
        out[y] += weight * row[y]


@cython.final
cdef class Mixture(Composed):
    """The weighted sum of models. A place has the logarithms of the weights, a number
    for each model (scratch), the features, and the places of the models."""

    cdef GateTable gate
    cdef object weights
    # For each model, the first model that finds the same nodes.
    cdef readonly const int32_t[::1] first

    def __init__(self, models, gate):
        self.gate, self.weights = gate.table(), gate
        self.first = np.array([first_alike(models, k) for k in range(len(models))],
                              dtype=np.int32)
        self.n_classes = models[0].n_classes
        self.n_features = sum([m.n_features for m in models])
        if self.gate.n != len(models) or {m.n_classes for m in models} != {
            models[0].n_classes
        }:
            raise ValueError("the models of a mixture do not fit each other")
        self.compose(models, 8 * (2 * len(models) + self.n_features))
        self.sorted_is_faster = any([m.sorted_is_faster for m in models])
        self.n_entries = max([m.n_entries for m in models])
        self.by_part = any([isinstance(m, Composed) and m.by_part for m in models])

    def targets_in_order(self, tokens, position, y, depth=None, features=None,
                         group=None, sums=None):
        cdef Py_ssize_t i, k, n = len(position)
        cdef Py_ssize_t n_groups = 0 if sums is None else sums.shape[1]
        if not self.by_part or n < MANY or features is not None:
            return Model.targets_in_order(
                self, tokens, position, y, depth, features, group, sums)
        cdef double[:, ::1] log_weight, all_sums = sums, part = np.empty((n, self.n))
        cdef double[:, :, ::1] part_sums = np.empty((self.n, n, n_groups))
        out, of_all = np.empty(n), [np.empty((n, m.n_features)) for m in self.keep]
        for k, (model, own) in enumerate(zip(self.keep, of_all)):
            np.asarray(part)[:, k] = model.targets_in_order(
                tokens, position, y, None, own if own.size else None, group,
                None if sums is None else np.asarray(part_sums)[k])
        # An additional column, because the models may have no features.
        log_weight = self.gate.log_weights(np.hstack([*of_all, np.zeros((n, 1))]))
        cdef double[::1] mixed = out
        with nogil:
            for i in range(n):
                mixed[i] = log_sum(&log_weight[i, 0], &part[i, 0], self.n)
                if n_groups:
                    memset(&all_sums[i, 0], 0, n_groups * sizeof(double))
                for k in range(self.n if n_groups else 0):
                    add_row(exp(log_weight[i, k]), &part_sums[k, i, 0], n_groups,
                            &all_sums[i, 0])
        return out

    def grouped(self, group):
        return Mixture([m.grouped(group) for m in self.keep], self.weights)

    cdef int locate(self, const int *tokens, Py_ssize_t i, char *place) except -1 nogil:
        cdef int64_t position = i
        return self.locate_many(tokens, &position, 1, place, 0)

    cdef int locate_many(
        self, const int *tokens, const int64_t *position, Py_ssize_t n, char *place,
        Py_ssize_t stride
    ) except -1 nogil:
        cdef Py_ssize_t _j
        cdef int k
        cdef double *features
        for k in range(self.n):
            if self.first[k] == k:
                (<Model> self.part[k]).locate_many(
                    tokens, position, n, place + self.offset[k], stride)
        for _j in range(n):
            for k in range(self.n):
                if self.first[k] != k:
                    (<Node *> (place + self.offset[k]))[0] = (
                        <Node *> (place + self.offset[self.first[k]]))[0]
            features = <double *> place + 2 * self.n
            if self.gate.reads_features:
                self.gate_features(place, features)
            self.gate.weigh(features, <double *> place)
            place += stride
        return 0

    cdef void ahead(
        self, const int *tokens, const int64_t *position, Py_ssize_t n, char *place
    ) noexcept nogil:
        cdef int k
        for k in range(self.n):
            (<Model> self.part[k]).ahead(tokens, position, n, place + self.offset[k])

    cdef int gate_features(self, char *place, double *out) except -1 nogil:
        cdef int k
        for k in range(self.n):
            (<Model> self.part[k]).gate_features(place + self.offset[k], out)
            out += (<Model> self.part[k]).n_features
        return 0

    cdef int64_t key(self, char *place) except? -1 nogil:
        return (<Model> self.part[0]).key(place + self.offset[0])

    cdef double target(self, char *place, int y) except? 2.0 nogil:
        cdef double *part = <double *> place + self.n
        cdef int k
        for k in range(self.n):
            part[k] = (<Model> self.part[k]).target(place + self.offset[k], y)
        return log_sum(<double *> place, part, self.n)

    cdef int proba(self, char *place, double *out) except -1 nogil:
        return self.mix(place, NULL, self.n_classes, out)

    cdef int groups(
        self, char *place, const int *group, int n, double *out
    ) except -1 nogil:
        return self.mix(place, group, n, out)

    cdef int mix(
        self, char *place, const int *group, int n, double *out
    ) except -1 nogil:
        """Probabilities of n groups of classes, or of the classes if `group` is
        NULL."""
        cdef double *row = <double *> room_for(n, sizeof(double))
        cdef char *at
        cdef int k
        memset(out, 0, n * sizeof(double))
        try:
            for k in range(self.n):
                at = place + self.offset[k]
                if group == NULL:
                    (<Model> self.part[k]).proba(at, row)
                else:
                    (<Model> self.part[k]).groups(at, group, n, row)
                add_row(exp((<double *> place)[k]), row, n, out)
        finally:
            free(row)
        return 0

    cdef int draw_once(self, char *place, double uniform) except -2 nogil:
        """Draw a model by its weight, then a class of the model."""
        cdef double *weight = <double *> place + self.n
        cdef int k
        for k in range(self.n):
            weight[k] = exp((<double *> place)[k])
        k = draw_from(weight, self.n, uniform)
        if k < 0:  # no weight is a positive number
            return -1
        uniform = hashed(uniform, OF_MIXTURE)
        return (<Model> self.part[k]).draw(place + self.offset[k], uniform, -1)


def first_alike(models, k):
    """The first model that finds the same node as model k for each context."""
    trees = [j for j in range(k) if isinstance(models[j], Backoff)]
    return next((j for j in trees if models[j].finds_as(models[k])), k)


cdef struct Here:
    const int *tokens      # of the models
    Py_ssize_t i
    const int *history     # the words that are counted: from the last one before
    Py_ssize_t end, begin  # `end` to the first that is missing, or at `begin`
    int64_t number         # of the context
    int64_t made           # of the context whose row of children was made last,
    int node               # and the node of this row


@cython.final
cdef class Factored(Composed):
    """A model for each node of a tree of classes, over its children.

    A place has a `Here`; for each node the number of the context for which its model
    was located; counts of children, zeros between calls; P of the nodes of the tree; a
    row of children; open nodes; the places of the models.

    Parameters
    ----------
    models : list of Model or None
        The model of each node of the tree; None for nodes with fewer than two children.

    model : FactoredModel
        The tree and the concentrations.

    history : TextWindows or int32 ndarray, default=None
        Windows of class ids: the last token is the number of the row that is the
        history. An array: the class id of each token, -1 for missing history. None:
        tokens are class ids.

    group : int32 ndarray of shape (n_classes,), default=None
        The group of each class, for `groups`.
    """

    cdef list args
    cdef object model, has_model
    cdef const int[:, ::1] node_of, child_of
    cdef const int[::1] word_node, first_child, n_child, terminal, class_of, step_of
    cdef const int[::1] number, tokens, word_of_token
    cdef const int64_t[::1] ends, copied
    cdef const unsigned char[::1] of_words
    cdef const double[::1] theta, prior
    cdef Py_ssize_t located, counts, totals, reach
    cdef int most, n_tokens

    def __init__(self, models, model, history=None, group=None):
        tree, n = model.tree, len(models)
        self.args = [models, model, history, group]
        self.model, self.n_classes = model, model.n_classes
        self.node_of, self.child_of = model.path_node, model.path_child
        self.word_node = model.word_node
        names = "first_child", "n_child", "node_class"
        arrays = [np.ascontiguousarray(getattr(tree, k), np.int32) for k in names]
        self.first_child, self.n_child, self.class_of = arrays
        self.terminal = np.ascontiguousarray(tree.terminal[0], dtype=np.int32)
        self.of_words = np.ascontiguousarray(model.of_words, dtype=np.uint8)
        # The step of the paths that begins at each node.
        step_of = np.full(n, -1, dtype=np.int32)
        for step, nodes in enumerate(model.path_node):
            step_of[nodes[nodes >= 0]] = step
        self.step_of = step_of
        for one, n_child, of_words in zip(models, tree.n_child, model.of_words):
            if one is not None and one.n_classes != n_child:
                raise ValueError("a model of a tree has other classes than its node")
            if isinstance(one, Backoff) and not of_words:
                one.keep_classes()
        # Bytes of a place that `locate` sets, if they are few.
        self.copied = np.array([
            0 if m is None else sizeof(Node) if isinstance(m, Backoff)
            else m.room if m.room <= 8 * BRIEF else 0 for m in models])
        # The last entry is for node -1, no node.
        self.has_model = np.array([m is not None for m in [*models, None]])
        self.theta = self.tokens = self.word_of_token = self.number = None
        if model.concentration is not None:
            self.theta = np.ascontiguousarray(model.concentration, dtype=np.float64)
            above = model.concentration[np.maximum(tree.parent, 0)]
            with np.errstate(invalid="ignore"):
                self.prior = above * model.share
            self.reach = LONGEST_HISTORY
            if isinstance(history, TextWindows):
                self.tokens, self.ends = history.tokens, history.end
                self.reach = history.reach
            elif history is not None:
                self.word_of_token, self.n_tokens = history, len(history)
        self.n_features = 2 * len(model.gate_depths)
        if group is not None:
            self.number = number_of_groups(model, group)
        self.most = int(np.max(tree.n_child)) if n else 0
        self.located = padded(sizeof(Here))
        self.counts = padded(self.located + 8 * n)
        self.totals = padded(self.counts + 4 * self.most)
        self.compose(models, self.totals + 8 * (n + self.most) + 4 * n)
        self.by_part = len(model.path_node) > 1 and models[0] is not None

    def grouped(self, group):
        return Factored(*self.args[:3], group)

    def targets_in_order(self, tokens, position, y, depth=None, features=None,
                         group=None, sums=None):
        """Many contexts are read step by step, and in a step node by node: the model of
        a node stays in the cache, and locates many contexts at once."""
        whole = group is not None and self.number is None
        if not self.by_part or self.arrays or len(position) < MANY or whole:
            return Model.targets_in_order(
                self, tokens, position, y, depth, features, group, sums)
        out = np.where(y < 0, np.nan, 0.0)
        for step, of_class in enumerate(self.node_of):
            node = np.asarray(of_class)[y]  # arbitrary if y is negative
            order = np.argsort(node, kind="stable")
            order = order[self.has_model[node[order]]]
            self.add_step(step, tokens, position[order], y[order], node[order], order,
                          out, features, group, sums)
            features = group = sums = None  # only for the root, in the first step
        return out

    cdef add_step(
        self, int step, const int[::1] tokens, const int64_t[::1] position,
        const int[::1] y, const int[::1] node, const int64_t[::1] order,
        double[::1] out, double[:, ::1] features, const int[::1] group,
        double[:, ::1] sums
    ):
        """out[order] += `at_step` of contexts in the order of their nodes."""
        cdef double found[SOON * BRIEF]  # places
        cdef Py_ssize_t i, j, k = 0, m = 0, n = position.shape[0], size
        cdef Place place = self.borrow()
        cdef bint gates = features is not None, groups = group is not None
        cdef char *at
        cdef void *model
        cdef int v
        with nogil:
            for i in range(n):
                if i % CHECK == 0:
                    interrupt()
                v = node[i]
                model, at = self.part[v], place.at + self.offset[v]
                size = self.copied[v]
                if k == m:
                    k, m = 0, 1
                    while m < SOON and i + m < n and node[i + m] == v:
                        m += 1
                    (<Model> model).ahead(address(tokens), &position[i], m, at)
                    for j in range(m if size == (<Model> model).room else 0):
                        (<Model> model).open(<char *> (found + j * BRIEF))
                    if size:
                        (<Model> model).locate_many(
                            address(tokens), &position[i], m, <char *> found,
                            8 * BRIEF)
                self.locate(address(tokens), position[i], place.at)
                if size:
                    memcpy(at, found + k * BRIEF, size)
                    (<int64_t *> (place.at + self.located))[v] = (
                        <Here *> place.at).number
                if y[i] >= 0:
                    out[order[i]] += self.at_step(place.at, step, y[i])
                if gates:
                    self.gate_features(place.at, &features[order[i], 0])
                if groups:
                    self.groups(place.at, &group[0], <int> sums.shape[1],
                                &sums[order[i], 0])
                k += 1
                if k == m:
                    (<Model> model).ahead(NULL, NULL, 0, at)
        self.spare = place

    cdef void open(self, char *place) noexcept nogil:
        memset(place, 0, self.totals)
        Composed.open(self, place)

    cdef int locate(self, const int *tokens, Py_ssize_t i, char *place) except -1 nogil:
        cdef Here *here = <Here *> place
        here.tokens, here.i = tokens, i
        here.number += 1
        if self.theta is None:
            return 0
        here.history, here.end = tokens, i
        if self.tokens is not None:
            here.history, here.end = &self.tokens[0], self.ends[tokens[i - 1]]
        here.begin = max(0, here.end - self.reach)
        return 0

    cdef inline int word(self, Here *here, Py_ssize_t j) noexcept nogil:
        """The class id of a token of the history; -1 at the end of the history."""
        cdef int token = here.history[j]
        if self.word_of_token is None:
            return token
        return self.word_of_token[token] if 0 <= token < self.n_tokens else -1

    cdef char *at(self, char *place, int v) except NULL nogil:
        """The place of the model of a node."""
        cdef Here *here = <Here *> place
        cdef int64_t *located = <int64_t *> (place + self.located)
        cdef char *found = place + self.offset[v]
        if located[v] != here.number:
            # If `locate` raises, the place is not used again.
            (<Model> self.part[v]).locate(here.tokens, here.i, found)
            located[v] = here.number
        return found

    cdef int gate_features(self, char *place, double *out) except -1 nogil:
        """The features of the root: nodes below it depend on the class."""
        if self.part[0] == NULL:
            return Model.gate_features(self, place, out)
        return (<Model> self.part[0]).gate_features(self.at(place, 0), out)

    cdef int64_t key(self, char *place) except? -1 nogil:
        if self.part[0] == NULL:
            return 0
        return (<Model> self.part[0]).key(self.at(place, 0))

    cdef inline bint adapts(self, int v) noexcept nogil:
        """Whether a node uses the words of the history."""
        return self.theta is not None and self.theta[v] < INFINITY

    cdef int count(self, char *place, int v, int *count) noexcept nogil:
        """count[c] += words of the history below child c of a node; return their
        number."""
        cdef Here *here = <Here *> place
        cdef Py_ssize_t j
        cdef int word, total = 0, step = self.step_of[v]
        for j in range(here.end - 1, here.begin - 1, -1):
            word = self.word(here, j)
            if word < 0:
                break
            if word < self.n_classes and self.node_of[step, word] == v:
                count[self.child_of[step, word]] += 1
                total += 1
        return total

    cdef double target(self, char *place, int y) except? 2.0 nogil:
        cdef int step
        cdef double total = 0.0
        for step in range(<int> self.node_of.shape[0]):
            total += self.at_step(place, step, y)
        return total

    cdef double at_step(self, char *place, int step, int y) except? 2.0 nogil:
        """ln P of the child that leads to a class, at the node of a step."""
        cdef int v = self.node_of[step, y], child = self.child_of[step, y]
        cdef double one
        cdef double *row = <double *> (place + self.totals) + self.n
        if v < 0 or self.part[v] == NULL:
            return 0.0
        if self.adapts(v) and not self.of_words[v]:
            # The normaliser needs the probabilities of all groups.
            self.children(place, v, row)
            return log(row[child])
        one = (<Model> self.part[v]).target(self.at(place, v), child)
        return self.recurring(place, v, y, one) if self.adapts(v) else one

    cdef double recurring(self, char *place, int v, int y, double one) noexcept nogil:
        """ln P of a word in its class, after the words of the history."""
        cdef Here *here = <Here *> place
        cdef Py_ssize_t j
        cdef int word, mine = 0, of_class = 0
        for j in range(here.end - 1, here.begin - 1, -1):
            word = self.word(here, j)
            if word < 0:
                break
            if word < self.n_classes and self.word_node[word] == v:
                of_class += 1
                mine += word == y
        if of_class == 0:
            return one
        return log((mine + self.theta[v] * exp(one)) / (of_class + self.theta[v]))

    cdef int children(self, char *place, int v, double *out) except -1 nogil:
        """P of the children of a node; the row of the place is computed once per
        context."""
        cdef Here *here = <Here *> place
        cdef int *count = <int *> (place + self.counts)
        cdef int c, n = self.n_child[v], n_words
        cdef double total = 1.0, prior, more
        if out == <double *> (place + self.totals) + self.n:
            if here.made == here.number and here.node == v:
                return 0
            here.made, here.node = here.number, v
        if self.part[v] == NULL:
            out[0] = 1.0
            return 0
        (<Model> self.part[v]).proba(self.at(place, v), out)
        if not self.adapts(v):
            return 0
        n_words = self.count(place, v, count)
        if n_words == 0:
            return 0
        for c in range(n):
            if self.of_words[v]:
                out[c] = (count[c] + self.theta[v] * out[c]) / (
                    n_words + self.theta[v])
            else:
                prior = self.prior[self.first_child[v] + c]
                if count[c] and prior > 0.0:
                    more = out[c] * (sqrt(1.0 + count[c] / prior) - 1.0)
                    out[c] += more
                    total += more
            count[c] = 0
        if total > 1.0:
            total = 1.0 / total
            for c in range(n):
                out[c] *= total
        return 0

    cdef int proba(self, char *place, double *out) except -1 nogil:
        cdef double *total = <double *> (place + self.totals)
        cdef const int *terminal = &self.terminal[0]
        cdef double *row
        cdef double above
        cdef int v, c, y
        total[0] = 1.0
        for v in range(self.n):
            if self.n_child[v]:
                row, above = total + self.first_child[v], total[v]
                self.children(place, v, row)
                for c in range(self.n_child[v]):
                    row[c] *= above
        for y in range(self.n_classes):
            out[y] = total[terminal[y]]
        return 0

    cdef int groups(
        self, char *place, const int *group, int n, double *out
    ) except -1 nogil:
        """P of the children of the root, if they are the groups."""
        cdef double *row = <double *> (place + self.totals) + self.n
        cdef int c
        if self.number is None:
            return Model.groups(self, place, group, n, out)
        self.children(place, 0, row)
        for c in range(n):
            out[self.number[c]] = row[c]
        return 0

    cdef int best(self, char *place, int k, int *label, double *value) except -1 nogil:
        """Best-first search: nodes are opened by falling probability until no open node
        can contain a better class."""
        cdef double *total = <double *> (place + self.totals)
        cdef double *row = total + self.n
        cdef int *todo = <int *> (row + self.most)
        cdef int v, c, i, top, size = 0, n_open = 1
        total[0], todo[0] = 1.0, 0
        while n_open:
            top = 0
            for i in range(1, n_open):
                if total[todo[i]] > total[todo[top]]:
                    top = i
            v = todo[top]
            if size == k and log(total[v]) < value[0]:
                break
            n_open -= 1
            todo[top] = todo[n_open]
            if self.n_child[v] == 0:  # a tree of one class
                size = offer(value, label, size, k, log(total[v]), self.class_of[v])
                continue
            self.children(place, v, row)
            for c in range(self.n_child[v]):
                i = self.first_child[v] + c
                total[i] = total[v] * row[c]
                if self.n_child[i]:
                    todo[n_open] = i
                    n_open += 1
                else:
                    size = offer(value, label, size, k, log(total[i]), self.class_of[i])
        in_order(value, label, k)
        return 0

    cdef int draw_once(self, char *place, double uniform) except -2 nogil:
        cdef double *row = <double *> (place + self.totals) + self.n
        cdef int v = 0, c, step = 0
        while self.n_child[v]:
            c = 0
            if self.part[v] != NULL:
                if self.adapts(v):
                    self.children(place, v, row)
                    c = draw_from(row, self.n_child[v], uniform)
                else:
                    c = (<Model> self.part[v]).draw(self.at(place, v), uniform, -1)
                if c < 0:  # no child has a positive probability
                    return -1
            v = self.first_child[v] + c
            uniform = hashed(uniform, step)
            step += 1
        return self.class_of[v]


def number_of_groups(model, group):
    """The group id of each child of the root; None if the groups are not the children,
    or if the root uses the words of the history."""
    own = model.groups()
    if own is None or (model.of_words[0] and model.concentration is not None
                       and model.concentration[0] < np.inf):
        return None
    pairs = np.unique(np.column_stack([own, np.asarray(group)]), axis=0)
    if not len(pairs) == int(np.max(own)) + 1 == int(np.max(group)) + 1:
        return None
    return np.ascontiguousarray(pairs[:, 1], dtype=np.int32)
