# Compiled models: each computes a distribution for one context.
#
# A *place* is memory of the caller, `room` bytes aligned to 16, that one thread uses.
# It holds a context that was located, and values that the model reuses for the next
# context, which never change an answer. The methods of a model, in the order of calls:
#
#     open(place)                once, before all other methods
#     locate(tokens, i, place)   the context is tokens[:i], the last token the most
#                                recent; a negative token ends it. The tokens must stay
#                                in memory as long as the place is used
#     locate_many(...)           `locate` of tokens[:position[k]] in place + k * stride
#     ahead(tokens, position, n, place)  the next contexts to be located, at most SOON,
#                                if they are located one by one; n = 0: not known
#     target(place, y)           ln P(y | context); -inf for probability 0
#     depth(place)               length of the context that has the last target, -1 if
#                                the model is not a single tree of contexts
#     row(place, out)            ln P of all classes
#     proba(place, out)          P of all classes. by_proba: the model computes
#                                probabilities, and `row` is their logarithm
#     gate_features(place, out)  n_features numbers for a gate; see `Distribution`
#     key(place)                 queries are faster in the order of the keys
#     groups(place, group, n, out)   P of n groups of classes; group: the group of each
#                                class. A model from `grouped(group)` keeps sums
#     best(place, k, label, value)   the k most probable classes and their ln P, the
#                                most probable first, ties by class
#     draw(place, uniform, skip)     the class at the quantile `uniform` in [0, 1),
#                                without `skip` (-1: none); -1 if all have P = 0
#
# All methods run without the GIL and may raise. A subclass sets room, n_classes and
# n_features in __init__ and defines `locate` and `target` at least. A model of parts
# gives each part a place inside its own, at a multiple of 16 (`padded`), keeps the
# parts as `void*` (Cython has no local variables of a class without the GIL) together
# with a list of the parts, and sets `arrays` to `arrays_of(parts)`.
#
# Python queries many contexts by the loop of the base: `targets`, `rows`, `best_of`,
# `draws`, `group_sums`, `all_features`; `prepare` is called before `best` or `draw`. A
# model of parts may query its parts in turn (`targets_in_order`).
# For a single context: place = self.borrow(); ...; self.spare = place.
from libc.stdint cimport int64_t


cdef enum:
    TARGET, ROW, PROBA, GROUPS, BEST, DRAW  # kinds of queries
    # Contexts that are located at a time, if a place has no more bytes than SMALL.
    BLOCK = 256
    SMALL = 2048
    # Otherwise, the contexts that `ahead` gets before they are located.
    SOON = 32


cdef inline const int* address(const int[::1] array) noexcept nogil:
    return &array[0] if array.shape[0] else NULL


cdef inline Py_ssize_t padded(Py_ssize_t n) noexcept nogil:
    """The next multiple of 16."""
    return (n + 15) & ~(<Py_ssize_t> 15)


cdef class Place


cdef class Model:
    cdef readonly Py_ssize_t room
    cdef readonly int n_classes, n_features
    cdef readonly bint by_proba
    cdef readonly bint sorted_is_faster  # queries in the order of keys are faster
    cdef readonly Py_ssize_t n_entries  # of the largest table of a back-off model
    cdef public list arrays  # the `ArrayModel`s of the parts
    cdef Place spare

    cdef void open(self, char* place) noexcept nogil
    cdef int locate(
        self, const int* tokens, Py_ssize_t i, char* place) except -1 nogil
    cdef int locate_many(
        self, const int* tokens, const int64_t* position, Py_ssize_t n, char* place,
        Py_ssize_t stride) except -1 nogil
    cdef void ahead(
        self, const int* tokens, const int64_t* position, Py_ssize_t n,
        char* place) noexcept nogil
    cdef double target(self, char* place, int y) except? 2.0 nogil  # ln P is never 2
    cdef int depth(self, char* place) noexcept nogil
    cdef int row(self, char* place, double* out) except -1 nogil
    cdef int proba(self, char* place, double* out) except -1 nogil
    cdef int gate_features(self, char* place, double* out) except -1 nogil
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


cdef void* room_for(Py_ssize_t n, Py_ssize_t size) except NULL nogil  # zeros
cdef double hashed(double uniform, int64_t step) noexcept nogil
cdef int draw_from(double* proba, int n, double uniform) noexcept nogil
