"""Compiled models that call Python, and models that are read word by word."""

import threading

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memcmp, memcpy, memset

import numpy as np

from ..symbols._strings_fast cimport StringTable
from ._core_fast cimport Model, Place
from ._trees_fast cimport Backoff

cdef enum:
    # Last tokens of a history that an `ArrayModel` reads for a single query.
    REACH = 1 << 10


cdef struct Here:
    const int* tokens
    Py_ssize_t i


class Asked:
    """Queries to an `ArrayModel` by kind, and the answers in the same order."""

    def __init__(self, tokens):
        self.tokens, self.position, self.y = tokens, {}, []
        self.answers = self.number = None


cdef class ArrayModel(Model):
    """A distribution in Python, which is called for many contexts at once.

    A first pass over contexts records the queries, the distribution answers all queries
    in one call, and a second pass, with the same queries, reads the answers.

    Parameters
    ----------
    distribution : Distribution
        Any distribution.

    find : callable
        ``find(tokens, end)`` returns what the methods of the distribution take, for the
        histories that end before ``tokens[end]``.

    has_target : bool
        Whether the distribution computes the probability of a class without its row.

    by_proba : bool, default=False
        Whether the distribution returns rows of probabilities, not of logarithms.
    """

    cdef object distribution, find, local
    cdef bint has_target

    def __init__(self, distribution, find, has_target, by_proba=False):
        self.distribution, self.find = distribution, find
        self.has_target, self.by_proba = has_target, by_proba
        self.local = threading.local()
        self.room, self.n_classes = sizeof(Here), distribution.n_classes
        self.n_features = 2 * len(distribution.gate_depths)

    def array_models(self):  # a list of the model in the model would be a cycle
        return [self]

    def record(self, tokens):
        self.local.asked = Asked(np.asarray(tokens))

    def answer(self):
        """Answer the recorded queries."""
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
        """The answer for a context; None while queries are recorded."""
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
        if self.by_proba:
            return Model.row(self, place, out)
        with gil:
            copy_row(self.ask("rows", <Here*> place, 0), out, self.n_classes)
        return 0

    cdef int proba(self, char* place, double* out) except -1 nogil:
        if not self.by_proba:
            return Model.proba(self, place, out)
        with gil:
            copy_row(self.ask("proba", <Here*> place, 0), out, self.n_classes)
        return 0

    cdef int gate_features(self, char* place, double* out) except -1 nogil:
        if self.n_features:
            with gil:
                copy_row(
                    self.ask("gate_features", <Here*> place, 0), out, self.n_features)
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

    Cursors are immutable and hashable, and equal histories compare equal. As an array,
    a cursor is the window of the tokens, -1 for missing history.
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
    """The cursor of a window of tokens; missing tokens, -1, come first."""
    tokens = np.asarray(window, dtype=np.int32)
    known = np.flatnonzero(tokens != -1)
    first = int(known[0]) if known.size else tokens.size
    cdef Cursor found = Cursor(tokens.size - first, tokens.size)
    cdef const int[::1] values = np.ascontiguousarray(tokens[first:])
    if found.n:
        memcpy(found.tokens, &values[0], found.n * sizeof(int))
    return found


cdef class WordReader:
    """Reads one word after a state.

    Parameters
    ----------
    model : Model
        A model whose contexts are tokens, or a `Backoff` whose nodes are states.

    encoder : SentenceEncoder
        Converts words to tokens.

    begin : Cursor or int
        The state at the beginning of a sentence.

    group : int32 ndarray of shape (n_classes,), default=None
        The group of each class, for `step`.
    """

    cdef Model model
    cdef Backoff tree
    cdef const int[::1] group
    cdef dict code  # tokens of words; None if `table` is used
    cdef StringTable table
    cdef const int[::1] class_of_token
    cdef int unknown, end, lost, n_nodes
    cdef object begin

    def __init__(self, Model model, encoder, begin, group=None):
        self.model = model if group is None else model.grouped(group)
        self.begin, self.group = begin, group
        if type(begin) is int:
            self.tree = self.model
            self.n_nodes = self.tree.model.n_nodes
        code = encoder.labels.token_code
        if isinstance(code, dict):
            self.code = code
        else:
            self.table = code
        self.class_of_token = encoder.labels.class_of_token
        self.unknown, self.end, self.lost = encoder.unknown, encoder.end, encoder.lost

    def step(self, state, word, double[::1] sums=None):
        """(ln P, next state); None if the state is not a single state of this model, or
        the word does not have a class. sums <- P of each group of classes after the
        state."""
        cdef int token, y, node, up
        cdef double found
        if type(state) is not (Cursor if self.tree is None else int):
            return None
        try:
            if self.table is not None:
                token = self.table.find(word)
            else:
                known = self.code.get(word)
                token = -1 if known is None else known
        except TypeError:  # not hashable
            return None
        if token < 0:
            token = self.unknown
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
        self.model.spare = place
        return found
