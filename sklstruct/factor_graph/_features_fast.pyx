"""Columns and values of named features: what a dictionary or a list of names holds.

Most of the time of reading goes into making names: "word:cat" is the name of the
feature of the key "word" with the string "cat". Keys and strings come again and again,
so the number of a pair is kept beside it and its name is made once.
"""

from libc.math cimport fabs
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

import numbers
from collections.abc import Mapping

import numpy as np


# Most entries of one dictionary of `FeatureReader`, which lives as long as its model.
cdef Py_ssize_t MOST = 100_000


cdef object remember(dict known, key, value):
    if len(known) >= MOST:
        known.clear()
    known[key] = value
    return value


cdef class FeatureReader:
    """Reads items one after the other.

    names: the number of each name.
    grows: whether a new name gets the next number; otherwise it gets -1.
    like: a reader of the same names; what it knows of keys and strings is shared.
    """

    cdef dict names
    cdef bint grows
    cdef dict pairs  # key -> string -> number of "key:string"
    cdef dict inner  # name of an outer mapping -> key -> name of the inner feature
    # whether a value is NaN, or so large that `check_squares` may refuse it
    cdef readonly bint unusual
    cdef int64_t n, room
    cdef int64_t* column
    cdef double* value

    def __cinit__(self, dict names, bint grows, FeatureReader like=None):
        self.names = names
        self.grows = grows
        self.pairs = {} if like is None else like.pairs
        self.inner = {} if like is None else like.inner
        self.unusual = False
        self.n = self.room = 0
        self.column = NULL
        self.value = NULL

    def __dealloc__(self):
        free(self.column)
        free(self.value)

    def add(self, item):
        """The number of features of an item; TypeError if it is not an item."""
        cdef int64_t before = self.n
        if isinstance(item, (dict, Mapping)):  # a dict is known at once
            self.add_mapping(None, item)
        elif isinstance(item, (str, bytes)):
            raise TypeError("a single string is ambiguous: make it [string]")
        else:
            for name in item:
                if type(name) is not str and isinstance(name, str):
                    name = str.__str__(name)
                self.append(self.number(name), 1.0)
        return self.n - before

    def entries(self):
        """(columns, values) of all that was read."""
        columns = np.empty(self.n, dtype=np.int64)
        values = np.empty(self.n)
        cdef int64_t[::1] to_columns = columns
        cdef double[::1] to_values = values
        cdef int64_t i
        for i in range(self.n):
            to_columns[i] = self.column[i]
            to_values[i] = self.value[i]
        return columns, values

    cdef int add_mapping(self, outer, item) except -1:
        """outer: the name of the mapping that holds this one as a value, or None."""
        cdef double number
        for key, x in item.items():
            if not isinstance(key, str):
                raise TypeError(f"the name {key!r} is not a string")
            if type(key) is not str:
                key = str.__str__(key)
            name = key if outer is None else self.inner_name(outer, key)
            if isinstance(x, str):
                self.append(self.pair(name, x), 1.0)
            elif isinstance(x, dict):  # known at once, other mappings are not
                self.add_mapping(name, x)
            elif isinstance(x, (float, int, numbers.Real, np.bool_)):
                number = float(x)
                self.append(self.number(name), number)
            elif isinstance(x, Mapping):
                self.add_mapping(name, x)
            elif x is None:
                raise TypeError(f"the value of {name!r} is None; leave the feature out")
            else:
                for part in x:
                    if not isinstance(part, str):
                        raise TypeError(
                            f"the values of {name!r} must be strings, got {part!r}"
                        )
                    self.append(self.pair(name, part), 1.0)
        return 0

    cdef inner_name(self, outer, key):
        cdef dict known
        known = self.inner.get(outer)
        if known is None:
            known = remember(self.inner, outer, {})
        name = known.get(key)
        if name is None:
            name = remember(known, key, f"{outer}:{key}")
        return name

    cdef int64_t pair(self, name, x) except -2:
        cdef dict known
        # A subclass, say a member of an enumeration, may equal one string and print
        # another: its name is made each time.
        if type(x) is not str:
            return self.number(f"{name}:{x}")
        known = self.pairs.get(name)
        if known is None:
            known = remember(self.pairs, name, {})
        number = known.get(x)
        if number is None:
            number = remember(known, x, self.number(f"{name}:{x}"))
        return number

    cdef int64_t number(self, name) except -2:
        cdef dict names = self.names
        found = names.get(name)
        if found is not None:
            return found
        if not self.grows:
            return -1
        found = len(names)
        names[name] = found
        return found

    cdef int append(self, int64_t column, double value) except -1:
        cdef int64_t room
        cdef void* grown
        if self.n == self.room:
            room = 2 * self.room + 1024
            grown = realloc(self.column, room * sizeof(int64_t))
            if not grown:
                raise MemoryError()
            self.column = <int64_t*>grown
            grown = realloc(self.value, room * sizeof(double))
            if not grown:
                raise MemoryError()
            self.value = <double*>grown
            self.room = room
        if not fabs(value) < 1e100:
            self.unusual = True
        self.column[self.n] = column
        self.value[self.n] = value
        self.n += 1
        return 0
