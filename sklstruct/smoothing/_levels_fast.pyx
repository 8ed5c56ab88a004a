"""Kneser-Ney smoothing of counts in files, without loading a level into memory.

Both kernels traverse the tree depth first, and hold the contexts on the path to the
current context: the pairs of each, and a table that finds the pair of a class. In the
canonical order the traversal visits the nodes of every level in order, so that each
level is read once, from the first record to the last, and each result is written in
this order. Memory: blocks of `Streams`, and O(n_classes) for each level.

A removed pair is marked by the sign of its adjusted count.
"""

from libc.float cimport DBL_MIN
from libc.math cimport fabs, signbit
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free, malloc, realloc

from ..context_tree._streams_fast cimport (
    Streams,
    more,
    next_node,
    put_record,
    take_record,
)
from ._smoothing_fast cimport kept


cdef struct Context:
    int64_t number  # of the node in its level
    bint stays
    Py_ssize_t n, room
    double* value  # of each pair
    unsigned char* gone  # 1 for each pair that is removed
    int32_t* place  # (n_classes,) the pair of each class; NULL on the last level


cdef class ContextPath:
    """The contexts on the path from the root to the current context."""

    cdef Context* at
    cdef Py_ssize_t n_levels, depth

    def __cinit__(self, Py_ssize_t n_levels, Py_ssize_t n_classes):
        cdef Py_ssize_t k
        self.n_levels, self.depth = n_levels, -1
        self.at = <Context*> calloc(n_levels, sizeof(Context))
        if not self.at:
            raise MemoryError
        for k in range(n_levels):
            self.at[k].number = -1
            if k + 1 < n_levels:
                self.at[k].place = <int32_t*> malloc(n_classes * sizeof(int32_t))
                if not self.at[k].place:
                    raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t k
        if self.at:
            for k in range(self.n_levels):
                free(self.at[k].value)
                free(self.at[k].gone)
                free(self.at[k].place)
            free(self.at)

    cdef int descend(self, Streams s) except -1 nogil:
        """Go to the next child of the current context; 0 after the last child.

        Input 3 k has the nodes of level k.
        """
        cdef Py_ssize_t k = self.depth + 1
        cdef Context* here
        if k == self.n_levels or not more(s, 3 * k):
            return 0
        if k and next_node(s, 3 * k).parent != self.at[k - 1].number:
            return 0
        here = &self.at[k]
        here.number += 1
        here.n = next_node(s, 3 * k).n_pairs
        if here.n > here.room:
            here.room = 2 * here.n
            here.value = <double*> realloc(here.value, here.room * sizeof(double))
            here.gone = <unsigned char*> realloc(here.gone, here.room)
            if not here.value or not here.gone:
                with gil:
                    raise MemoryError
        self.depth = k
        return 1


def adjust(Streams s, const double[::1] least, const unsigned char[::1] stays,
           const unsigned char[::1] known, int64_t[:, ::1] n_with, int64_t[::1] n_kept):
    """The adjusted counts of Kneser-Ney smoothing, and which pairs are removed.

    Inputs: nodes, classes of pairs and whole counts of each level. Outputs: the
    adjusted counts of each level, negative for removed pairs.

    least : (n_levels,) smallest count of a pair that stays.
    stays : (n_classes,) whether pairs with this class stay.
    known : (n_symbols,) whether contexts with this symbol stay.
    n_with : (n_levels, 5) the number of pairs whose adjusted count is 1, 2, 3 and 4.
    n_kept : (n_levels,) the number of pairs that stay.
    """
    cdef Py_ssize_t n_levels = least.shape[0], k, i
    cdef ContextPath path = ContextPath(n_levels, stays.shape[0])
    cdef Context* here
    cdef Context* above
    cdef double c
    cdef int32_t y
    cdef bint new
    with nogil:
        while True:
            new = path.descend(s)
            k = path.depth
            if k < 0:
                break
            here = &path.at[k]
            if not new:
                # All children have been seen: the adjusted counts are ready.
                for i in range(here.n):
                    c = here.value[i]
                    if c < 5.0:
                        n_with[k, <Py_ssize_t> c] += 1
                    if here.gone[i]:
                        c = -c
                    else:
                        n_kept[k] += 1
                    put_record(s, k, c)
                path.depth -= 1
                continue
            above = &path.at[k - 1] if k else NULL
            here.stays = k == 0 or (above.stays and known[next_node(s, 3 * k).symbol])
            s.ins[3 * k].at += 1
            for i in range(here.n):
                take_record(s, 3 * k + 1, &y)
                take_record(s, 3 * k + 2, &c)
                here.value[i] = c
                here.gone[i] = not (here.stays and c >= least[k] and stays[y])
                if here.place:
                    here.place[y] = <int32_t> i
                if k:
                    # In the parent, the samples of the longer context count as one.
                    above.value[above.place[y]] += 1.0 - c
    s.close()


def smooth(Streams s, const double[:, ::1] discounts, const double[::1] base):
    """Interpolated probabilities and back-off weights from adjusted counts.

    Inputs: nodes, classes of pairs and the results of `adjust` of each level. Outputs:
    the probabilities of the pairs of each level, -1 for removed pairs; then the
    back-off weights of the nodes of each level, 1 if no pair of the node stays.

    discounts : (n_levels, n_discounts)
    base : (n_classes,) the distribution with which the unigrams are interpolated.
    """
    cdef Py_ssize_t n_levels = discounts.shape[0], k, i
    cdef ContextPath path = ContextPath(n_levels, base.shape[0])
    cdef Context* here
    cdef Context* above
    cdef double a, total, rest, removed, mass
    cdef bint some, new
    cdef int32_t y
    with nogil:
        while True:
            new = path.descend(s)
            k = path.depth
            if k < 0:
                break
            if not new:
                path.depth -= 1
                continue
            here = &path.at[k]
            s.ins[3 * k].at += 1
            total = rest = removed = 0.0
            some = False
            for i in range(here.n):
                take_record(s, 3 * k + 2, &a)
                here.gone[i] = signbit(a)  # also for -0.0
                a = fabs(a)
                here.value[i] = kept(a, &discounts[k, 0], discounts.shape[1])
                total += a
                rest += a - here.value[i]
            mass = rest / total
            for i in range(here.n):
                here.value[i] = here.value[i] / total
                if here.gone[i]:
                    removed += here.value[i]
                else:
                    some = True
            mass += removed
            above = &path.at[k - 1] if k else NULL
            for i in range(here.n):
                take_record(s, 3 * k + 1, &y)
                if here.place:
                    here.place[y] = <int32_t> i
                if not here.gone[i]:
                    here.value[i] += mass * (
                        above.value[above.place[y]] if k else base[y]
                    )
                # A probability that underflows is not set to 0; see `hand_down`.
                put_record(s, k, -1.0 if here.gone[i] else max(here.value[i], DBL_MIN))
            put_record(s, n_levels + k, mass if some else 1.0)
    s.close()
