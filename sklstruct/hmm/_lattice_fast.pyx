"""The minimised lattice of a high-order HMM: states and their forward scores.

Two histories of one position are one state if they have the same longest stored
context. Position i + 1 is computed from position i by pushing along failure arcs: the
active contexts and their shorter contexts form a tree, which is traversed from the
leaves to the root. A context passes the mass of the classes that it stores to their
arcs, and the remaining mass, a number for each candidate, times its back-off weight to
its parent. A back-off arc for all classes would be wrong, because the stored classes
must be left out; the vectors leave them out.

Masses (log domain, m(y) = the mass that arrives at a context for class y):
    MAX   the best path; a child whose best mass is below all that its parent has
          already changes nothing and is skipped, so that few vectors are pushed;
    SUM   relative to the largest mass of the context, in linear numbers;
    LOG   SUM by log-sum-exp, for models whose log-weights span so many nats that a
          class which only a negligible history leaves possible would be lost.

Cost of a position with S states and K candidates: O(S + visited arcs) and a vector of
length K for each context that stores a candidate (MAX: for the few contexts that are
not skipped).
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport exp, log, INFINITY

import numpy as np

from .._log_sum cimport add_log

cpdef enum:
    MAX = 0
    SUM = 1
    LOG = 2

cdef enum:
    SCALAR = 0  # the same mass for every class
    HOLED = 1   # the same mass, but 0 for the classes in the level's list
    VECTOR = 2  # a mass for each candidate


cdef class Workspace:
    """Scratch memory of one thread for one automaton, and the states of its last
    lattice.

    maps: -1 for each node, each node and each class. width: candidates per position.
    capacity: states.
    """

    def __init__(self, automaton, maps, int width, Py_ssize_t capacity):
        levels = automaton.max_depth + 2
        n_local = min(automaton.n_nodes, capacity * max(automaton.max_depth, 1)) + 1
        self.arcs, self.width, self.capacity = automaton.arcs, width, capacity
        self.local, self.mark, self.slot = maps
        tree = np.empty((3, n_local), dtype=np.int32)
        self.loc_node, self.first_child, self.next_sibling = tree
        self.own, self.rank = np.empty(n_local), np.empty(capacity)
        self.vec = np.empty((levels, width))
        self.held = np.empty((levels, width), dtype=np.int32)
        self.held_arc = np.empty((levels, width), dtype=np.int64)
        self.n_held, self.kind = np.empty((2, levels), dtype=np.int32)
        self.base, self.shift, self.top, self.low = np.empty((4, levels))
        self.root_state = np.empty(width, dtype=np.int32)
        ids = np.empty((2, capacity), dtype=np.int32)
        self.states = *ids, np.empty(capacity)


cdef inline void emit(Workspace w, int k, long long arc, double mass) noexcept nogil:
    cdef double score = mass + w.arcs.arc_log_prob[arc] + w.observed[w.at + k]
    cdef int node, at
    if score == -INFINITY or score != score:
        return
    if w.bound.shape[0] and score + w.bound[w.at + k] < w.threshold:
        return
    node = w.arcs.arc_next[arc]
    # Different classes lead to different contexts, except for the empty context.
    at = w.mark[node] if node else w.root_state[k]
    if at < 0:
        if w.n_out >= w.room:
            w.n_out = w.room + 1
            return
        if w.n_out > w.room:
            return
        at = w.n_out
        w.n_out += 1
        if node:
            w.mark[node] = at
        else:
            w.root_state[k] = at
        w.out_node[w.out + at] = node
        w.out_candidate[w.out + at] = k
        w.out_score[w.out + at] = score
    elif w.mode == MAX:
        if score > w.out_score[w.out + at]:
            w.out_score[w.out + at] = score
    else:
        w.out_score[w.out + at] = add_log(w.out_score[w.out + at], score)


cdef void punch(Workspace w, int level) noexcept nogil:
    """Convert a HOLED level to a vector."""
    cdef double* v = &w.vec[level, 0]
    cdef int* held = &w.held[level, 0]
    cdef int k
    cdef double hole = 0.0 if w.mode == SUM else -INFINITY
    for k in range(w.n_candidates):
        v[k] = w.base[level]
    for k in range(w.n_held[level]):
        v[held[k]] = hole
    w.kind[level] = VECTOR


cdef void absorb_log(Workspace w, int level, double weight, bint has) noexcept nogil:
    """Combine the level below into this one: MAX and LOG."""
    cdef double* v = &w.vec[level, 0]
    cdef double* u = &w.vec[level + 1, 0]
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


cdef void visit_log(Workspace w, int j, int level) noexcept nogil:
    """Mass of a context without the mass of its stored classes: MAX and LOG."""
    cdef int c = w.first_child[j]
    cdef int node = w.loc_node[j]
    cdef double weight, x
    cdef bint has = False
    cdef int k, n
    cdef double* v = &w.vec[level, 0]
    cdef int* held
    cdef long long* held_arc
    w.base[level] = w.own[j]
    w.top[level] = w.own[j]
    w.low[level] = -INFINITY
    while c >= 0:
        visit_log(w, c, level + 1)
        weight = w.arcs.backoff[w.loc_node[c]]
        x = w.top[level + 1] + weight
        c = w.next_sibling[c]
        if x == -INFINITY:
            continue
        if w.mode == MAX and (x <= w.base[level] or (has and x <= w.low[level])):
            continue
        if w.kind[level + 1] == SCALAR:
            if w.mode == MAX:
                w.base[level] = x  # larger than before, as smaller values are skipped
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
                emit(w, k, w.candidate[w.at + k], x)
        return
    n = find_held(w, node, level)
    held = &w.held[level, 0]
    held_arc = &w.held_arc[level, 0]
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


cdef void visit_sum(Workspace w, int j, int level) noexcept nogil:
    """`visit_log` in linear numbers: mass = exp(shift) * (base + vec[y])."""
    cdef int c = w.first_child[j]
    cdef int node = w.loc_node[j]
    cdef double x, factor
    cdef bint has = False
    cdef int k, n
    cdef double* v = &w.vec[level, 0]
    cdef double* u = &w.vec[level + 1, 0]
    cdef int* held
    cdef long long* held_arc
    w.shift[level] = w.own[j]
    w.base[level] = 1.0 if w.own[j] != -INFINITY else 0.0
    while c >= 0:
        visit_sum(w, c, level + 1)
        x = w.shift[level + 1] + w.arcs.backoff[w.loc_node[c]]
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
                emit(w, k, w.candidate[w.at + k], log(x) + w.shift[level])
        return
    n = find_held(w, node, level)
    held = &w.held[level, 0]
    held_arc = &w.held_arc[level, 0]
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
    Workspace w, const int* node, const double* score, int n_states, int mode
) noexcept nogil:
    """Build the tree of the active contexts and their shorter contexts."""
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
            n = w.arcs.parent[n]
        j = w.local[node[s]]
        if mode == MAX:
            w.own[j] = score[s] if score[s] > w.own[j] else w.own[j]
        else:
            w.own[j] = add_log(w.own[j], score[s])


cdef void uproot(Workspace w) noexcept nogil:
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


cdef inline double best_through(Workspace w, int s) noexcept nogil:
    """Upper bound of the paths through a state, or its score without bounds."""
    if not w.bound.shape[0]:
        return w.out_score[w.out + s]
    return w.out_score[w.out + s] + w.bound[w.at + w.out_candidate[w.out + s]]


cdef int keep_best(Workspace w, int beam, double* rank) noexcept nogil:
    """Keep the `beam` best states by score + bound; return their number."""
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
            w.out_node[w.out + n] = w.out_node[w.out + s]
            w.out_candidate[w.out + n] = w.out_candidate[w.out + s]
            w.out_score[w.out + n] = w.out_score[w.out + s]
            n += 1
        elif value > w.dropped:
            w.dropped = value
    return n


cdef void enter(
    Workspace w, const long long[::1] cand_ptr, Py_ssize_t position
) noexcept nogil:
    """Set the candidates of a position, and the slot of each class."""
    cdef int k
    w.n_candidates = <int>(cand_ptr[position + 1] - cand_ptr[position])
    w.at = cand_ptr[position]
    for k in range(w.n_candidates):
        w.slot[w.candidate[w.at + k]] = k
        w.root_state[k] = -1


cdef void leave(Workspace w) noexcept nogil:
    """Reset the slots."""
    cdef int k
    for k in range(w.n_candidates):
        w.slot[w.candidate[w.at + k]] = -1


def forward(
    Workspace w, int mode,
    const long long[::1] cand_ptr, const int[::1] candidate, const double[::1] observed,
    const double[::1] bound, double threshold, int beam,
    long long[::1] state_ptr, int[::1] state_node, int[::1] state_candidate,
    double[::1] score, double[::1] dropped,
):
    """Compute states and forward scores; return the number of completed positions.

    If not all positions are completed, the states did not fit. bound: upper bound of
    the score after each candidate, or empty; states whose score plus bound is below
    `threshold` are dropped. beam: number of states kept per position, 0 for all.
    dropped[0]: upper bound of the paths that the beam left out, if `bound` is given.
    """
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef long long first, last, room = state_node.shape[0]
    cdef int s, kept
    w.candidate, w.observed, w.bound = candidate, observed, bound
    w.out_node, w.out_candidate, w.out_score = state_node, state_candidate, score
    w.mode, w.threshold, w.dropped = mode, threshold, -INFINITY
    state_ptr[0] = 0
    state_ptr[1] = 1
    state_node[0] = w.arcs.start_node
    state_candidate[0] = -1
    score[0] = 0.0
    for i in range(length):
        PyErr_CheckSignals()
        with nogil:
            first = state_ptr[i]
            last = state_ptr[i + 1]
            enter(w, cand_ptr, i)
            w.room = <int>min(room - last, 2147483646)
            w.out, w.n_out = last, 0
            if last > first and w.n_candidates:
                plant(w, &state_node[first], &score[first], <int>(last - first), mode)
                if mode == SUM:
                    visit_sum(w, w.local[0], 0)
                else:
                    visit_log(w, w.local[0], 0)
                uproot(w)
                for s in range(min(w.n_out, w.room)):
                    w.mark[w.out_node[w.out + s]] = -1
            leave(w)
            if w.n_out <= w.room:
                kept = w.n_out
                if beam and kept > beam:
                    kept = keep_best(w, beam, &w.rank[0])
                state_ptr[i + 2] = last + kept
        if w.n_out > w.room:
            return i
    dropped[0] = w.dropped
    return length
