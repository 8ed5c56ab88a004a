from .._sorted cimport find_pair
from ._automaton_fast cimport Arcs, arcs_t


cdef class Workspace:
    cdef:
        int[::1] local, mark, slot
        int[::1] loc_node, first_child, next_sibling
        double[::1] own
        double[:, ::1] vec
        int[:, ::1] held
        long long[:, ::1] held_arc
        int[::1] n_held, kind, root_state
        double[::1] base, shift, top, low
        double[::1] rank


cdef struct step_t:
    # The arrays of one step from a position to the next.
    const arcs_t* t
    int mode
    int n_candidates
    const int* candidate
    const double* observed
    const double* bound
    double threshold
    # the states of the next position
    int* out_node
    int* out_candidate
    double* out_score
    int n_out
    int capacity
    double dropped  # the largest score + bound of a state that the beam left out
    # the tree of the active contexts
    int* local
    int* loc_node
    int* first_child
    int* next_sibling
    double* own
    int n_local
    # masses on their way up, one row per level
    double* vec
    int* held
    long long* held_arc
    int* n_held
    int* kind
    double* base
    double* shift
    double* top
    double* low
    int stride
    # maps
    int* mark
    int* slot
    int* root_state


cdef void plant(
    step_t* w, const int* node, const double* score, int n_states, int mode
) noexcept nogil
cdef void uproot(step_t* w) noexcept nogil
cdef void bind(step_t* w, Arcs arcs, Workspace work) noexcept
cdef void enter(
    step_t* w, const long long[::1] cand_ptr, const int[::1] candidate,
    const double[::1] observed, Py_ssize_t position,
) noexcept nogil
cdef void leave(step_t* w) noexcept nogil


cdef inline int find_held(step_t* w, int node, int level) noexcept nogil:
    """List the candidates that a context stores; their number."""
    cdef const arcs_t* t = w.t
    cdef long long a, first = t.arc_ptr[node], last = t.arc_ptr[node + 1]
    cdef int* held = &w.held[<long long>level * w.stride]
    cdef long long* held_arc = &w.held_arc[<long long>level * w.stride]
    cdef const int* slot = w.slot
    cdef const int* arc_class = t.arc_class
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
            a = find_pair(t.arc_ptr, arc_class, node, w.candidate[k])
            if a >= 0:
                held[n] = k
                held_arc[n] = a
                n += 1
    w.n_held[level] = n
    return n
