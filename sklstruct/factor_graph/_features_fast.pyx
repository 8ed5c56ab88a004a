"""Columns and values of the named features in a dictionary or a list of names.

Most of the time would be spent on creating names: "word:cat" is the name of the feature
of the key "word" with the string "cat". Keys and strings occur repeatedly, so the
column of each pair is cached and its name is created once.
"""

from libc.math cimport fabs, isfinite
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

import numbers
from collections.abc import Mapping

import numpy as np


# Most entries of a cache of a `Node`, which exists as long as its model.
cdef Py_ssize_t MOST = 100_000
# Deepest nesting of mappings in an item.
cdef int DEEPEST = 100
# Sums of squares of values up to this size do not overflow.
cdef double LARGEST = 1e150


cdef object remember(dict known, key, value):
    if len(known) >= MOST:
        known.clear()
    known[key] = value
    return value


cdef str text(name):
    """A name as a plain string; bytes are decoded as by `open`."""
    if isinstance(name, str):
        return str.__str__(name)
    if isinstance(name, bytes):
        return (<bytes>name).decode("utf-8", "surrogateescape")
    raise TypeError(f"the name {name!r} is not a string")


def refusal(str owner, item, exc):
    """The ValueError about an item that cannot be read, from what `add` raised."""
    if isinstance(exc, ValueError):
        return ValueError(f"{owner}: {exc}")
    return ValueError(
        f"{owner}: must be a mapping from names of features to values or an iterable "
        f"of names, got {item!r:.60} ({exc!s:.100})"
    )


cdef class Node:
    """Numbers of the names with one prefix.

    numbers : key -> number of prefix + key
    pairs : key -> string -> number of prefix + key + ":" + string
    inner : key -> Node of the prefix + key + ":"
    depth : number of keys in the prefix
    """

    def __cinit__(self, str prefix, int depth):
        self.prefix, self.depth = prefix, depth
        self.numbers, self.pairs, self.inner = {}, {}, {}


cdef class FeatureReader:
    """Reads the features of items.

    names: the number of each name.
    grows: whether a new name gets the next number; otherwise it gets -1.
    """

    def __cinit__(self, dict names, bint grows):
        self.names = names
        self.grows = grows
        self.root = Node("", 0)
        self.kept.n = self.kept.room = 0
        self.kept.column = NULL
        self.kept.value = self.kept.score = NULL

    def __dealloc__(self):
        free(self.kept.column)
        free(self.kept.value)

    def add(self, item):
        """Keep an item, and return the number of its features.

        TypeError if it is not an item, ValueError if a value is not finite.
        """
        cdef int64_t before = self.kept.n
        self.read(&self.kept, item)
        return self.kept.n - before

    def entries(self):
        """(columns, values) of all kept items."""
        columns = np.empty(self.kept.n, dtype=np.int64)
        values = np.empty(self.kept.n)
        cdef int64_t[::1] to_columns = columns
        cdef double[::1] to_values = values
        cdef int64_t i
        for i in range(self.kept.n):
            to_columns[i] = self.kept.column[i]
            to_values[i] = self.kept.value[i]
        return columns, values

    cdef int read(self, Sink* to, item) except -1:
        if isinstance(item, (dict, Mapping)):  # fast test for a dict
            self.mapping(to, self.root, item)
        elif isinstance(item, (str, bytes)):
            raise TypeError("a single string is ambiguous: make it [string]")
        else:
            for name in item:
                put(to, self.find(name if type(name) is str else text(name)), 1.0)
        return 0

    cdef int mapping(self, Sink* to, Node node, item) except -1:
        for key, x in item.items():
            if type(key) is not str:
                key = text(key)
            if x is False:
                self.number_of(to, node, key, 0.0)
            elif x is True:
                self.number_of(to, node, key, 1.0)
            elif isinstance(x, str):
                put(to, self.pair(node, key, x), 1.0)
            elif isinstance(x, dict):  # fast test; other mappings below
                self.mapping(to, inner(node, key), x)
            elif isinstance(x, (float, int, numbers.Real, np.bool_)):
                self.number_of(to, node, key, float(x))
            elif isinstance(x, Mapping):
                self.mapping(to, inner(node, key), x)
            elif isinstance(x, bytes):
                put(to, self.pair(node, key, text(x)), 1.0)
            elif x is None:
                raise TypeError(f"the value of {key!r} is None; leave the feature out")
            else:
                for part in x:
                    if not isinstance(part, str):
                        if not isinstance(part, bytes):
                            raise TypeError(
                                f"the values of {key!r} must be strings, got {part!r}"
                            )
                        part = text(part)
                    put(to, self.pair(node, key, part), 1.0)
        return 0

    cdef int number_of(self, Sink* to, Node node, str key, double value) except -1:
        if not fabs(value) <= LARGEST:
            name = f"feature {node.prefix + key!r}"
            if not isfinite(value):
                raise ValueError(f"{name} is NaN or infinite")
            raise ValueError(
                f"{name} is {value:g}, its size may be at most {LARGEST:g}: scale it"
            )
        if value == 0.0 and to.score != NULL:
            return 0  # adds nothing
        if node is self.root:
            return put(to, self.find(key), value)
        number = node.numbers.get(key)
        if number is None:
            number = remember(node.numbers, key, self.find(node.prefix + key))
        return put(to, number, value)

    cdef int64_t pair(self, Node node, str key, x) except -2:
        cdef dict known
        # An instance of a subclass, such as a member of an enumeration, may be equal to
        # one string and print another, so its name is not cached.
        if type(x) is not str:
            return self.find(f"{node.prefix}{key}:{x}")
        known = node.pairs.get(key)
        if known is None:
            known = remember(node.pairs, key, {})
        number = known.get(x)
        if number is None:
            number = remember(known, x, self.find(f"{node.prefix}{key}:{x}"))
        return number

    cdef int64_t find(self, str name) except -2:
        found = self.names.get(name)
        if found is not None:
            return found
        if not self.grows:
            return -1
        found = len(self.names)
        self.names[name] = found
        return found


cdef Node inner(Node node, str key):
    found = node.inner.get(key)
    if found is None:
        # a mapping that contains itself would overflow the C stack
        if node.depth == DEEPEST:
            raise ValueError(
                f"the mapping at {node.prefix[:40] + '...'!r} contains itself, or has "
                f"more than {DEEPEST} mappings inside each other"
            )
        new = Node(f"{node.prefix}{key}:", node.depth + 1)
        found = remember(node.inner, key, new)
    return found


cdef int put(Sink* to, int64_t column, double value) except -1:
    """Append a feature, or add value times the weights of a known feature to the
    scores."""
    cdef int64_t room
    cdef Py_ssize_t j
    cdef const double* weight
    cdef void* grown
    if to.score != NULL:
        if column >= to.room:
            raise ValueError(f"a name has the number {column} of {to.room} features")
        if column >= 0:
            weight = to.coef + column * to.k
            for j in range(to.k):
                to.score[j] += value * weight[j]
        return 0
    if to.n == to.room:
        room = 2 * to.room + 1024
        grown = realloc(to.column, room * sizeof(int64_t))
        if not grown:
            raise MemoryError()
        to.column = <int64_t*>grown
        grown = realloc(to.value, room * sizeof(double))
        if not grown:
            raise MemoryError()
        to.value = <double*>grown
        to.room = room
    to.column[to.n] = column
    to.value[to.n] = value
    to.n += 1
    return 0
