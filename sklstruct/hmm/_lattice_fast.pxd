from ._automaton_fast cimport Arcs, find_arc


cdef class Workspace:
    cdef Arcs arcs
    cdef readonly int width
    cdef readonly Py_ssize_t capacity
    cdef readonly tuple states  # arrays of their nodes, candidates and scores
    # the step from a position to the next
    cdef int mode, n_candidates
    cdef Py_ssize_t at  # the first candidate of the position
    cdef const int[::1] candidate
    cdef const double[::1] observed, bound
    cdef double threshold
    # the states of the next position, from `out` on
    cdef Py_ssize_t out
    cdef int[::1] out_node, out_candidate
    cdef double[::1] out_score
    cdef int n_out, room
    cdef double dropped  # the largest score + bound of a state that the beam left out
    # the tree of the active contexts
    cdef int n_local
    cdef int[::1] local, loc_node, first_child, next_sibling
    cdef double[::1] own
    # masses on their way up, one row per level
    cdef double[:, ::1] vec
    cdef int[:, ::1] held
    cdef long long[:, ::1] held_arc
    cdef int[::1] n_held, kind
    cdef double[::1] base, shift, top, low
    # maps, and the values of the states that a beam ranks
    cdef int[::1] mark, slot, root_state
    cdef double[::1] rank


cdef void plant(
    Workspace w, const int* node, const double* score, int n_states, int mode
) noexcept nogil
cdef void uproot(Workspace w) noexcept nogil
cdef void enter(
    Workspace w, const long long[::1] cand_ptr, Py_ssize_t position
) noexcept nogil
cdef void leave(Workspace w) noexcept nogil


cdef inline int find_held(Workspace w, int node, int level) noexcept nogil:
    """List the candidates for which a context has an arc; return their number."""
    cdef long long a, first = w.arcs.arc_ptr[node], last = w.arcs.arc_ptr[node + 1]
    cdef int* held = &w.held[level, 0]
    cdef long long* held_arc = &w.held_arc[level, 0]
    cdef const int* slot = &w.slot[0]
    cdef const int* arc_class = &w.arcs.arc_class[0]
    cdef int n = 0, k
    if last - first <= 8 * w.n_candidates:
        for a in range(first, last):
            k = slot[arc_class[a]]
            if k >= 0:
                held[n] = k
                held_arc[n] = a
                n += 1
    else:
        for k in range(w.n_candidates):
            a = find_arc(w.arcs, node, w.candidate[w.at + k])
            if a >= 0:
                held[n] = k
                held_arc[n] = a
                n += 1
    w.n_held[level] = n
    return n
