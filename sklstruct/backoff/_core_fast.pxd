# Compiled models: each states the mathematics of a distribution for one context.
#
# A *place* is memory of the caller, `room` bytes aligned to 16, that one thread uses.
# It holds a context that was located, and what the model keeps from one context to the
# next; no answer depends on the latter. The methods of a model, in the order of calls:
#
#     open(place)                once, before all else
#     locate(tokens, i, place)   the context is tokens[:i], the last token the most
#                                recent; a negative token ends it. The tokens must stay
#                                where they are until the place is not asked any more
#     locate_many(...)           `locate` of tokens[:position[k]] in place + k * stride
#     target(place, y)           ln P(y | context); -inf for an impossible class
#     depth(place)               length of the context that held the last target,
#                                -1 where no single tree of contexts is asked
#     row(place, out)            ln P of all classes
#     proba(place, out)          P of all classes. by_proba: the model computes
#                                probabilities, and `row` is their logarithm
#     facts(place, out)          n_facts numbers for a gate; see `Distribution.facts`
#     key(place)                 contexts with neighbouring keys are cheap one after
#                                the other
#     groups(place, group, n, out)   P of n groups of classes; group: that of each
#                                class. A model from `grouped(group)` keeps sums
#     best(place, k, label, value)   the k most probable classes and their ln P, the
#                                most probable first, equal ones by class
#     draw(place, uniform, skip)     the class that a number in [0, 1) falls on, `skip`
#                                left out (-1: none); -1 if no class has a probability
#
# All of them run without the GIL and may raise. A subclass sets room, n_classes and
# n_facts in __init__ and defines `locate` and `target` at least. A model made of others
# gives each part a place inside its own, at a multiple of 16 (`padded`), keeps the
# parts as `void*` (Cython has no local variables of a class without the GIL) together
# with a list of them, and sets `arrays` to those of its parts (`arrays_of`).
#
# Python asks about many contexts by the loop of the base: `targets`, `rows`, `best_of`,
# `draws`, `group_sums`, `all_facts`; `prepare` comes before a `best` or `draw`.
# For a single context take a place from the pool: place = self.borrow(); ...;
# self.places.append(place).
cimport cython
from libc.stdint cimport int64_t


cdef inline Py_ssize_t padded(Py_ssize_t n) noexcept nogil:
    """The next multiple of 16."""
    return (n + 15) & ~(<Py_ssize_t> 15)


cdef class Place


cdef class Model:
    cdef readonly Py_ssize_t room
    cdef readonly int n_classes, n_facts
    cdef readonly bint by_proba
    cdef readonly bint sorted_is_faster  # than the order of a text
    cdef public list arrays  # the `ArrayModel`s inside
    cdef list places

    cdef void open(self, char* place) noexcept nogil
    cdef int locate(
        self, const int* tokens, Py_ssize_t i, char* place) except -1 nogil
    cdef int locate_many(
        self, const int* tokens, const int64_t* position, Py_ssize_t n, char* place,
        Py_ssize_t stride) except -1 nogil
    cdef double target(self, char* place, int y) except? 2.0 nogil  # ln P is never 2
    cdef int depth(self, char* place) noexcept nogil
    cdef int row(self, char* place, double* out) except -1 nogil
    cdef int proba(self, char* place, double* out) except -1 nogil
    cdef int facts(self, char* place, double* out) except -1 nogil
    cdef int64_t key(self, char* place) except? -1 nogil
    cdef int groups(
        self, char* place, const int* group, int n, double* out) except -1 nogil
    cdef int best(
        self, char* place, int k, int* label, double* value) except -1 nogil
    cdef int draw(self, char* place, double uniform, int skip) except -2 nogil
    cdef double* made(self, char* place, bint proba) except NULL nogil
    cdef Place borrow(self)


cdef class Place:
    """Memory of n places of a model, at a distance of `padded(model.room)`."""
    cdef char* at


@cython.final
cdef class Path:
    """Which symbol of a tree each step of a history is."""
    cdef list keep
    cdef const int** table
    cdef const int[::1] position
    cdef const int[::1] reach   # tokens that the steps up to each one read
    cdef const int[::1] within  # steps that read no more than 0, 1, 2 ... tokens
    cdef const unsigned char[::1] missing
    cdef int n_steps, n_symbols
    cdef bint plain
    cdef unsigned int n_tokens
    cdef const int[:, :] windows

    cdef Py_ssize_t begin(self, const int** tokens, Py_ssize_t i) noexcept nogil
    cdef int symbol(
        self, int step, const int* tokens, Py_ssize_t i, int* known) noexcept nogil


cdef struct Node:
    int node
    int depth  # negative: not known
    int up     # how far above the node the pair of the last target is


@cython.final
cdef class Tree:
    """A context tree, read along a path."""
    cdef const int[::1] parent, symbol, child_ptr, root_child
    cdef Path path
    cdef int n_kept, kept_size

    cdef Node find(
        self, const int* tokens, Py_ssize_t i, int* kept) noexcept nogil


cdef void* room_for(Py_ssize_t n, Py_ssize_t size) except NULL nogil  # zeros, to free
cdef double hashed(double uniform, int64_t step) noexcept nogil
cdef int draw_from(double* proba, int n, double uniform) noexcept nogil
