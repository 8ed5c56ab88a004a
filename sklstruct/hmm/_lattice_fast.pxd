from libc.math cimport exp, log1p, INFINITY

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


cdef int find_held(step_t* w, int node, int level) noexcept nogil
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


cdef inline double add_log(double a, double b) noexcept nogil:
    if a < b:
        a, b = b, a
    if b == -INFINITY:
        return a
    return a + log1p(exp(b - a))
