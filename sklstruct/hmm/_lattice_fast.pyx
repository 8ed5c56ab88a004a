"""The minimised lattice of a high-order HMM: states and their forward masses.

Two histories of one position are one state if they share the longest stored
context. Position i + 1 is made from position i by failure-arc pushing: the active
contexts and their shorter ones form a tree, which is walked from the leaves to the
root. A context hands the mass of the classes that it stores to their arcs and the
rest, one number for each candidate, times its back-off weight to its parent. A
plain back-off arc for every class would give neither bound nor sum: the stored classes
have to be left out, and the vectors leave them out.

Masses (log domain, m(y) = the mass that arrives at a context for class y):
    MAX   the best path; a child whose best mass is below all that its parent has
          already changes nothing and is skipped, so that few vectors are pushed;
    SUM   relative to the largest mass of the context, in linear numbers;
    LOG   SUM by log-sum-exp, for models whose log-weights span so many nats that a
          class which only a negligible history leaves possible would be lost.

Cost of a position with S states and K candidates: O(S + arcs looked at) and a vector
of K for each context that stores a candidate (MAX: for the few that are not skipped).
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport exp, log, INFINITY

from .._log_sum cimport add_log
from ._automaton_fast cimport Arcs, arcs_t

cpdef enum:
    MAX = 0
    SUM = 1
    LOG = 2

cdef enum:
    SCALAR = 0  # the same mass for every class
    HOLED = 1   # the same mass, but none for the classes in the level's list
    VECTOR = 2  # a mass for each candidate


cdef class Workspace:
    """Scratch of one thread for one automaton; grows with the sentences.

    Attributes that Python allocates: see `_lattice.Lattice`.
    """

    def __init__(self, ints, lists, floats, vectors, levels):
        self.local, self.mark, self.slot, self.root_state = ints
        self.loc_node, self.first_child, self.next_sibling = lists
        self.own, self.rank = floats
        self.vec, self.held, self.held_arc = vectors
        self.n_held, self.kind, self.base, self.shift, self.top, self.low = levels


cdef inline void emit(step_t* w, int k, long long arc, double mass) noexcept nogil:
    cdef double score = mass + w.t.arc_log_prob[arc] + w.observed[k]
    cdef int node, at
    if score == -INFINITY or score != score:
        return
    if w.bound != NULL and score + w.bound[k] < w.threshold:
        return
    node = w.t.arc_next[arc]
    # Two classes never lead to one stored context, but several may lead to none.
    at = w.mark[node] if node else w.root_state[k]
    if at < 0:
        if w.n_out >= w.capacity:
            w.n_out = w.capacity + 1
            return
        if w.n_out > w.capacity:
            return
        at = w.n_out
        w.n_out += 1
        if node:
            w.mark[node] = at
        else:
            w.root_state[k] = at
        w.out_node[at] = node
        w.out_candidate[at] = k
        w.out_score[at] = score
    elif w.mode == MAX:
        if score > w.out_score[at]:
            w.out_score[at] = score
    else:
        w.out_score[at] = add_log(w.out_score[at], score)


cdef void punch(step_t* w, int level) noexcept nogil:
    """Write a HOLED level out as a vector."""
    cdef double* v = &w.vec[<long long>level * w.stride]
    cdef int* held = &w.held[<long long>level * w.stride]
    cdef int k
    cdef double hole = 0.0 if w.mode == SUM else -INFINITY
    for k in range(w.n_candidates):
        v[k] = w.base[level]
    for k in range(w.n_held[level]):
        v[held[k]] = hole
    w.kind[level] = VECTOR


cdef void absorb_log(step_t* w, int level, double weight, bint has) noexcept nogil:
    """Combine the level below into this one: MAX and LOG."""
    cdef double* v = &w.vec[<long long>level * w.stride]
    cdef double* u = &w.vec[<long long>(level + 1) * w.stride]
    cdef int k, n = w.n_candidates
    cdef double x, low
    if w.kind[level + 1] == HOLED:
        punch(w, level + 1)
    if not has:
        for k in range(n):
            v[k] = u[k] + weight
    elif w.mode == MAX:
        for k in range(n):
            x = u[k] + weight
            v[k] = x if x > v[k] else v[k]
    else:
        for k in range(n):
            v[k] = add_log(v[k], u[k] + weight)
    if w.mode == MAX:
        low = INFINITY
        for k in range(n):
            low = v[k] if v[k] < low else low
        w.low[level] = low


cdef void visit_log(step_t* w, int j, int level) noexcept nogil:
    """Mass of a context without that of its stored classes: MAX and LOG."""
    cdef int c = w.first_child[j]
    cdef int node = w.loc_node[j]
    cdef double weight, x
    cdef bint has = False
    cdef int k, n
    cdef double* v = &w.vec[<long long>level * w.stride]
    cdef int* held
    cdef long long* held_arc
    w.base[level] = w.own[j]
    w.top[level] = w.own[j]
    w.low[level] = -INFINITY
    while c >= 0:
        visit_log(w, c, level + 1)
        weight = w.t.backoff[w.loc_node[c]]
        x = w.top[level + 1] + weight
        c = w.next_sibling[c]
        if x == -INFINITY:
            continue
        if w.mode == MAX and (x <= w.base[level] or (has and x <= w.low[level])):
            continue
        if w.kind[level + 1] == SCALAR:
            if w.mode == MAX:
                w.base[level] = x  # above the old one, or it would have been skipped
            else:
                w.base[level] = add_log(w.base[level], w.base[level + 1] + weight)
        else:
            absorb_log(w, level, weight, has)
            has = True
        if x > w.top[level]:
            w.top[level] = x
    if node == 0:
        for k in range(w.n_candidates):
            x = w.base[level]
            if has:
                if w.mode == MAX:
                    x = v[k] if v[k] > x else x
                else:
                    x = add_log(x, v[k])
            if x != -INFINITY:
                emit(w, k, w.candidate[k], x)
        return
    n = find_held(w, node, level)
    held = &w.held[<long long>level * w.stride]
    held_arc = &w.held_arc[<long long>level * w.stride]
    if not has:
        if w.base[level] != -INFINITY:
            for k in range(n):
                emit(w, held[k], held_arc[k], w.base[level])
        w.kind[level] = HOLED if n else SCALAR
        return
    if w.base[level] != -INFINITY:
        for k in range(w.n_candidates):
            if w.mode == MAX:
                v[k] = w.base[level] if w.base[level] > v[k] else v[k]
            else:
                v[k] = add_log(w.base[level], v[k])
    for k in range(n):
        if v[held[k]] != -INFINITY:
            emit(w, held[k], held_arc[k], v[held[k]])
            v[held[k]] = -INFINITY
    w.kind[level] = VECTOR


cdef void visit_sum(step_t* w, int j, int level) noexcept nogil:
    """The same in linear numbers: mass = exp(shift) * (base + vec[y])."""
    cdef int c = w.first_child[j]
    cdef int node = w.loc_node[j]
    cdef double x, factor
    cdef bint has = False
    cdef int k, n
    cdef double* v = &w.vec[<long long>level * w.stride]
    cdef double* u = &w.vec[<long long>(level + 1) * w.stride]
    cdef int* held
    cdef long long* held_arc
    w.shift[level] = w.own[j]
    w.base[level] = 1.0 if w.own[j] != -INFINITY else 0.0
    while c >= 0:
        visit_sum(w, c, level + 1)
        x = w.shift[level + 1] + w.t.backoff[w.loc_node[c]]
        c = w.next_sibling[c]
        if x == -INFINITY:
            continue
        if x > w.shift[level]:
            factor = exp(w.shift[level] - x)
            w.base[level] *= factor
            if has:
                for k in range(w.n_candidates):
                    v[k] *= factor
            w.shift[level] = x
        factor = exp(x - w.shift[level])
        if w.kind[level + 1] == SCALAR:
            w.base[level] += factor * w.base[level + 1]
            continue
        if w.kind[level + 1] == HOLED:
            punch(w, level + 1)
        if has:
            for k in range(w.n_candidates):
                v[k] += factor * u[k]
        else:
            for k in range(w.n_candidates):
                v[k] = factor * u[k]
            has = True
    if node == 0:
        for k in range(w.n_candidates):
            x = w.base[level]
            if has:
                x += v[k]
            if x > 0:
                emit(w, k, w.candidate[k], log(x) + w.shift[level])
        return
    n = find_held(w, node, level)
    held = &w.held[<long long>level * w.stride]
    held_arc = &w.held_arc[<long long>level * w.stride]
    if not has:
        if w.base[level] > 0:
            x = log(w.base[level]) + w.shift[level]
            for k in range(n):
                emit(w, held[k], held_arc[k], x)
        w.kind[level] = HOLED if n else SCALAR
        return
    for k in range(w.n_candidates):
        v[k] += w.base[level]
    for k in range(n):
        if v[held[k]] > 0:
            emit(w, held[k], held_arc[k], log(v[held[k]]) + w.shift[level])
            v[held[k]] = 0.0
    w.kind[level] = VECTOR


cdef void plant(
    step_t* w, const int* node, const double* score, int n_states, int mode
) noexcept nogil:
    """The tree of the active contexts and their shorter ones."""
    cdef const arcs_t* t = w.t
    cdef int s, n, j, before
    cdef bint new
    w.n_local = 0
    for s in range(n_states):
        n = node[s]
        before = -1
        while True:
            j = w.local[n]
            new = j < 0
            if new:
                j = w.n_local
                w.n_local += 1
                w.local[n] = j
                w.loc_node[j] = n
                w.first_child[j] = -1
                w.next_sibling[j] = -1
                w.own[j] = -INFINITY
            if before >= 0:
                w.next_sibling[before] = w.first_child[j]
                w.first_child[j] = before
            if not new or n == 0:
                break
            before = j
            n = t.parent[n]
        j = w.local[node[s]]
        if mode == MAX:
            w.own[j] = score[s] if score[s] > w.own[j] else w.own[j]
        else:
            w.own[j] = add_log(w.own[j], score[s])


cdef void uproot(step_t* w) noexcept nogil:
    cdef int j
    for j in range(w.n_local):
        w.local[w.loc_node[j]] = -1


cdef double nth_largest(double* x, int n, int rank) noexcept nogil:
    """The value of the given rank (0 = largest); x is reordered."""
    cdef int lo = 0, hi = n - 1, i, j
    cdef double pivot
    while lo < hi:
        pivot = x[(lo + hi) >> 1]
        i = lo
        j = hi
        while i <= j:
            while x[i] > pivot:
                i += 1
            while x[j] < pivot:
                j -= 1
            if i <= j:
                x[i], x[j] = x[j], x[i]
                i += 1
                j -= 1
        if rank <= j:
            hi = j
        elif rank >= i:
            lo = i
        else:
            break
    return x[rank]


cdef inline double best_through(step_t* w, int s) noexcept nogil:
    """Upper bound of the paths through a state, or its score without bounds."""
    if w.bound == NULL:
        return w.out_score[s]
    return w.out_score[s] + w.bound[w.out_candidate[s]]


cdef int keep_best(step_t* w, int beam, double* rank) noexcept nogil:
    """Leave the `beam` best states (score + bound); their number."""
    cdef int s, n = 0, above = 0, ties
    cdef double cut, value
    for s in range(w.n_out):
        rank[s] = best_through(w, s)
    cut = nth_largest(rank, w.n_out, beam - 1)
    for s in range(w.n_out):
        above += best_through(w, s) > cut
    ties = beam - above
    for s in range(w.n_out):
        value = best_through(w, s)
        if value > cut or (value == cut and ties > 0):
            ties -= value == cut
            w.out_node[n] = w.out_node[s]
            w.out_candidate[n] = w.out_candidate[s]
            w.out_score[n] = w.out_score[s]
            n += 1
        elif value > w.dropped:
            w.dropped = value
    return n


cdef void bind(step_t* w, Arcs arcs, Workspace work) noexcept:
    w.t = &arcs.c
    w.local = &work.local[0]
    w.mark = &work.mark[0]
    w.slot = &work.slot[0]
    w.root_state = &work.root_state[0]
    w.loc_node = &work.loc_node[0]
    w.first_child = &work.first_child[0]
    w.next_sibling = &work.next_sibling[0]
    w.own = &work.own[0]
    w.vec = &work.vec[0, 0]
    w.held = &work.held[0, 0]
    w.held_arc = &work.held_arc[0, 0]
    w.stride = <int>work.vec.shape[1]
    w.n_held = &work.n_held[0]
    w.kind = &work.kind[0]
    w.base = &work.base[0]
    w.shift = &work.shift[0]
    w.top = &work.top[0]
    w.low = &work.low[0]


cdef void enter(
    step_t* w, const long long[::1] cand_ptr, const int[::1] candidate,
    const double[::1] observed, Py_ssize_t position,
) noexcept nogil:
    """Set the candidates of a position, and their slots."""
    cdef int k
    w.n_candidates = <int>(cand_ptr[position + 1] - cand_ptr[position])
    if w.n_candidates:
        w.candidate = &candidate[cand_ptr[position]]
        w.observed = &observed[cand_ptr[position]]
    for k in range(w.n_candidates):
        w.slot[w.candidate[k]] = k
        w.root_state[k] = -1


cdef void leave(step_t* w) noexcept nogil:
    """Empty the slots."""
    cdef int k
    for k in range(w.n_candidates):
        w.slot[w.candidate[k]] = -1


def forward(
    Arcs arcs, Workspace work, int mode,
    const long long[::1] cand_ptr, const int[::1] candidate, const double[::1] observed,
    const double[::1] bound, double threshold, int beam,
    long long[::1] state_ptr, int[::1] state_node, int[::1] state_candidate,
    double[::1] score, double[::1] dropped,
):
    """States and their forward masses; the number of positions done.

    Fewer than there are: the states did not fit. bound: upper bound of the score after
    each candidate, or empty; states below `threshold` with it are dropped.
    beam: states kept for a position, 0 for all. dropped[0]: no path that the beam has
    left out is better, if `bound` holds.
    """
    cdef step_t w
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef long long first, last, room = state_node.shape[0]
    cdef int s, kept
    bind(&w, arcs, work)
    w.mode = mode
    w.threshold = threshold
    w.dropped = -INFINITY
    state_ptr[0] = 0
    state_ptr[1] = 1
    state_node[0] = arcs.c.start_node
    state_candidate[0] = -1
    score[0] = 0.0
    for i in range(length):
        PyErr_CheckSignals()
        with nogil:
            first = state_ptr[i]
            last = state_ptr[i + 1]
            enter(&w, cand_ptr, candidate, observed, i)
            w.bound = NULL
            if bound.shape[0] and w.n_candidates:
                w.bound = &bound[cand_ptr[i]]
            w.capacity = <int>min(room - last, 2147483646)
            w.out_node = &state_node[0] + last
            w.out_candidate = &state_candidate[0] + last
            w.out_score = &score[0] + last
            w.n_out = 0
            if last > first and w.n_candidates:
                plant(&w, &state_node[first], &score[first], <int>(last - first), mode)
                if mode == SUM:
                    visit_sum(&w, w.local[0], 0)
                else:
                    visit_log(&w, w.local[0], 0)
                uproot(&w)
                for s in range(min(w.n_out, w.capacity)):
                    w.mark[w.out_node[s]] = -1
            leave(&w)
            if w.n_out <= w.capacity:
                kept = w.n_out
                if beam and kept > beam:
                    kept = keep_best(&w, beam, &work.rank[0])
                state_ptr[i + 2] = last + kept
        if w.n_out > w.capacity:
            return i
    dropped[0] = w.dropped
    return length
