"""The minimised lattice of a high-order HMM: forward, backward, columns, bounds.

Two histories of one position are one state where they share the longest stored
context. Position i + 1 is made from position i by failure-arc pushing: the active
contexts and their shorter ones form a tree, which is walked from the leaves to the
root. A context hands the mass of the classes that it stores to their arcs and the
rest, one number for each candidate, times its back-off weight to its parent. A
plain back-off arc for every class would be no bound and no sum: the stored classes
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
from libc.math cimport exp, fabs, log, log1p, INFINITY

from ._automaton_fast cimport Arcs, arcs_t, find_arc, walk

cpdef enum:
    MAX = 0
    SUM = 1
    LOG = 2

cdef double NOTHING = -50.0  # log of a probability that a sum of counts rounds away

cdef enum:
    SCALAR = 0  # the same mass for every class
    HOLED = 1   # the same mass, but none for the classes in the level's list
    VECTOR = 2  # a mass for each candidate
    TOP = 16    # back-off targets that the bound keeps in order


cdef inline double add_log(double a, double b) noexcept nogil:
    if a < b:
        a, b = b, a
    if b == -INFINITY:
        return a
    return a + log1p(exp(b - a))


cdef class Workspace:
    """Scratch of one thread for one automaton; grows with the sentences.

    Attributes that Python allocates: see `_lattice.Lattice`.
    """

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

    def __init__(self, ints, lists, floats, vectors, levels):
        self.local, self.mark, self.slot, self.root_state = ints
        self.loc_node, self.first_child, self.next_sibling = lists
        self.own, self.rank = floats
        self.vec, self.held, self.held_arc = vectors
        self.n_held, self.kind, self.base, self.shift, self.top, self.low = levels


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
    # masses on their way up, one row a level
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


cdef int find_held(step_t* w, int node, int level) noexcept nogil:
    """List the candidates that a context stores; their number."""
    cdef const arcs_t* t = w.t
    cdef long long a, first = t.arc_ptr[node], last = t.arc_ptr[node + 1]
    cdef int* held = &w.held[<long long>level * w.stride]
    cdef long long* held_arc = &w.held_arc[<long long>level * w.stride]
    cdef int n = 0, k
    if last - first <= 8 * w.n_candidates:
        for a in range(first, last):
            k = w.slot[t.arc_class[a]]
            if k >= 0:
                held[n] = k
                held_arc[n] = a
                n += 1
    else:
        for k in range(w.n_candidates):
            a = find_arc(t, node, w.candidate[k])
            if a >= 0:
                held[n] = k
                held_arc[n] = a
                n += 1
    w.n_held[level] = n
    return n


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
    cdef double pivot, swap
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
                swap = x[i]
                x[i] = x[j]
                x[j] = swap
                i += 1
                j -= 1
        if rank <= j:
            hi = j
        elif rank >= i:
            lo = i
        else:
            break
    return x[rank]


cdef int keep_best(step_t* w, int beam, double* rank) noexcept nogil:
    """Leave the `beam` best states (score + bound); their number."""
    cdef int s, n = 0, above = 0, ties
    cdef double cut, value
    for s in range(w.n_out):
        rank[s] = w.out_score[s]
        if w.bound != NULL:
            rank[s] += w.bound[w.out_candidate[s]]
    cut = nth_largest(rank, w.n_out, beam - 1)
    for s in range(w.n_out):
        value = w.out_score[s]
        if w.bound != NULL:
            value += w.bound[w.out_candidate[s]]
        above += value > cut
    ties = beam - above
    for s in range(w.n_out):
        value = w.out_score[s]
        if w.bound != NULL:
            value += w.bound[w.out_candidate[s]]
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
    cdef int k, s, kept
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
            w.n_candidates = <int>(cand_ptr[i + 1] - cand_ptr[i])
            w.candidate = &candidate[cand_ptr[i]]
            w.observed = &observed[cand_ptr[i]]
            w.bound = &bound[cand_ptr[i]] if bound.shape[0] else NULL
            w.capacity = <int>min(room - last, 2147483646)
            w.out_node = &state_node[0] + last
            w.out_candidate = &state_candidate[0] + last
            w.out_score = &score[0] + last
            w.n_out = 0
            if last > first and w.n_candidates:
                for k in range(w.n_candidates):
                    w.slot[w.candidate[k]] = k
                    w.root_state[k] = -1
                plant(&w, &state_node[first], &score[first], <int>(last - first), mode)
                if mode == SUM:
                    visit_sum(&w, w.local[0], 0)
                else:
                    visit_log(&w, w.local[0], 0)
                uproot(&w)
                for k in range(w.n_candidates):
                    w.slot[w.candidate[k]] = -1
                for s in range(min(w.n_out, w.capacity)):
                    w.mark[w.out_node[s]] = -1
            if w.n_out <= w.capacity:
                kept = w.n_out
                if beam and kept > beam:
                    kept = keep_best(&w, beam, &work.rank[0])
                state_ptr[i + 2] = last + kept
        if w.n_out > w.capacity:
            return i
    dropped[0] = w.dropped
    return length


def column(
    Arcs arcs, const int[::1] state_node, int y,
    double[::1] log_prob, int[::1] next_node,
):
    """log P(y | state) and the context that follows, for the states of a position."""
    cdef Py_ssize_t s
    cdef long long arc
    with nogil:
        for s in range(state_node.shape[0]):
            arc = walk(&arcs.c, state_node[s], y, &log_prob[s])
            next_node[s] = arcs.c.arc_next[arc]


def trace(
    Arcs arcs, const long long[::1] cand_ptr, const int[::1] candidate,
    const double[::1] observed, const long long[::1] state_ptr,
    const int[::1] state_node, const int[::1] state_candidate,
    const double[::1] score, long long state, int position, int[::1] path,
):
    """Best path into a state of a position (1 = after the first symbol).

    The predecessor is the one whose step gives the state's own score; a state that
    could not even with the largest probability of the class is not looked at.
    """
    cdef Py_ssize_t i, s, best
    cdef int k, y
    cdef long long arc
    cdef double lp, x, top, least, gain
    with nogil:
        for i in range(position - 1, -1, -1):
            k = state_candidate[state]
            y = candidate[cand_ptr[i] + k]
            path[i] = k
            gain = observed[cand_ptr[i] + k]
            least = score[state] - gain - arcs.c.arc_max[y]
            least -= 1e-9 * (1.0 + fabs(score[state]))
            best = -1
            top = -INFINITY
            for s in range(state_ptr[i], state_ptr[i + 1]):
                if score[s] < least or score[s] <= top - arcs.c.arc_max[y]:
                    continue
                arc = walk(&arcs.c, state_node[s], y, &lp)
                if arcs.c.arc_next[arc] != state_node[state]:
                    continue
                x = score[s] + lp
                if x > top:
                    top = x
                    best = s
            # Every state was reached from one of the position before it.
            state = best if best >= 0 else state_ptr[i]


def bounds(
    Arcs arcs, Workspace work, const long long[::1] cand_ptr,
    const int[::1] candidate, const double[::1] observed, double[::1] bound,
):
    """Upper bound of all that follows each candidate, by bigram max-backoffs.

    h_i(x) = max_y w(y | x) + o_{i+1}(y) + h_{i+1}(y). The classes that x does not
    store share one factor, so that the largest of their values at the root is enough:
    the TOP largest are kept in order and nearly always hold one that x lacks.
    """
    cdef const arcs_t* t = &arcs.c
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef long long here, there, a
    cdef int k, j, n, node, n_top
    cdef int[TOP] top
    cdef double value, best, after
    cdef int* slot = &work.slot[0]
    cdef int* seen = &work.root_state[0]
    cdef double* root = &work.vec[0, 0]
    if length == 0:
        return
    for k in range(cand_ptr[length] - cand_ptr[length - 1]):
        bound[cand_ptr[length - 1] + k] = 0.0
    for i in range(length - 2, -1, -1):
        PyErr_CheckSignals()
        with nogil:
            here = cand_ptr[i]
            there = cand_ptr[i + 1]
            n = <int>(cand_ptr[i + 2] - there)
            n_top = 0
            for k in range(n):
                slot[candidate[there + k]] = k
                seen[k] = -1
                value = (
                    t.arc_log_prob[candidate[there + k]] + observed[there + k]
                    + bound[there + k]
                )
                root[k] = value
                if n_top < TOP:
                    j = n_top
                    n_top += 1
                elif value > root[top[TOP - 1]]:
                    j = TOP - 1
                else:
                    continue
                while j > 0 and root[top[j - 1]] < value:
                    top[j] = top[j - 1]
                    j -= 1
                top[j] = k
            for k in range(<int>(there - here)):
                node = t.arc_next[candidate[here + k]]
                if node == 0:
                    bound[here + k] = root[top[0]] if n_top else -INFINITY
                    continue
                best = -INFINITY
                if t.arc_ptr[node + 1] - t.arc_ptr[node] <= 8 * n:
                    for a in range(t.arc_ptr[node], t.arc_ptr[node + 1]):
                        j = slot[t.arc_class[a]]
                        if j >= 0:
                            seen[j] = k
                            value = (
                                t.arc_max[a] + observed[there + j] + bound[there + j]
                            )
                            best = value if value > best else best
                else:
                    for j in range(n):
                        a = find_arc(t, node, candidate[there + j])
                        if a >= 0:
                            seen[j] = k
                            value = (
                                t.arc_max[a] + observed[there + j] + bound[there + j]
                            )
                            best = value if value > best else best
                after = -INFINITY
                for j in range(n_top):
                    if seen[top[j]] != k:
                        after = root[top[j]]
                        break
                else:
                    for j in range(n):
                        if seen[j] != k and root[j] > after:
                            after = root[j]
                after += t.backoff[node] + t.max_backoff[node]
                bound[here + k] = after if after > best else best
            for k in range(n):
                slot[candidate[there + k]] = -1


cdef double row_sum(const double* row, int n) noexcept nogil:
    cdef int k
    cdef double top = -INFINITY, total = 0.0
    for k in range(n):
        top = row[k] if row[k] > top else top
    if top == -INFINITY:
        return top
    for k in range(n):
        total += exp(row[k] - top)
    return top + log(total)


cdef inline double gain(
    step_t* w, int k, long long arc, const double* after_root, const double* after
) noexcept nogil:
    """The value of candidate k over an arc: its step and all that follows."""
    cdef int target = w.t.arc_next[arc]
    cdef double x
    if target == 0:
        x = after_root[k]
    else:
        x = after[w.mark[target]] if w.mark[target] >= 0 else -INFINITY
    return w.t.arc_log_prob[arc] + w.observed[k] + x


cdef void descend(
    step_t* w, int j, int level, int row_level, double weight, double total,
    const double* after_root, const double* after,
) noexcept nogil:
    """Row sums of a context and the longer ones: own[j].

    The row of the nearest shorter context that holds a candidate is on row_level; this
    one's is that times exp(weight) where nothing is stored, and `total` its sum. The
    stored classes are subtracted from the sum unless digits would cancel.
    """
    cdef int c
    cdef int node = w.loc_node[j]
    cdef int k, n
    cdef long long first = <long long>level * w.stride
    cdef double* v = &w.vec[first]
    cdef double* u
    cdef double gone = 0.0, added
    if node == 0:
        for k in range(w.n_candidates):
            v[k] = gain(w, k, w.candidate[k], after_root, after)
        total = row_sum(v, w.n_candidates)
        row_level = 0
        weight = 0.0
    else:
        weight += w.t.backoff[node]
        total += w.t.backoff[node]
        n = find_held(w, node, level)
        if n:
            u = &w.vec[<long long>row_level * w.stride]
            if total > -INFINITY:
                for k in range(n):
                    gone += exp(u[w.held[first + k]] + weight - total)
            if w.first_child[j] < 0 and gone < 0.5:
                total += log1p(-gone)
                for k in range(n):
                    added = gain(
                        w, w.held[first + k], w.held_arc[first + k], after_root, after
                    )
                    total = add_log(total, added)
            else:
                for k in range(w.n_candidates):
                    v[k] = u[k] + weight
                for k in range(n):
                    v[w.held[first + k]] = gain(
                        w, w.held[first + k], w.held_arc[first + k], after_root, after
                    )
                total = row_sum(v, w.n_candidates)
                row_level = level
                weight = 0.0
    w.own[j] = total
    c = w.first_child[j]
    while c >= 0:
        descend(w, c, level + 1, row_level, weight, total, after_root, after)
        c = w.next_sibling[c]


def backward(
    Arcs arcs, Workspace work, const long long[::1] cand_ptr,
    const int[::1] candidate, const double[::1] observed,
    const long long[::1] state_ptr, const int[::1] state_node,
    const int[::1] state_candidate, double[::1] after, double[::1] after_root,
):
    """log of the sum over all continuations, for every state.

    One depth-first walk over the contexts of a position keeps a row for each level.
    after_root: scratch of the largest number of candidates.
    """
    cdef step_t w
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef long long s, first, last, end
    cdef int k
    bind(&w, arcs, work)
    w.mode = MAX
    for s in range(state_ptr[length], state_ptr[length + 1]):
        after[s] = 0.0
    for i in range(length - 1, -1, -1):
        PyErr_CheckSignals()
        with nogil:
            first = state_ptr[i]
            last = state_ptr[i + 1]
            end = state_ptr[i + 2]
            w.n_candidates = <int>(cand_ptr[i + 1] - cand_ptr[i])
            w.candidate = &candidate[cand_ptr[i]]
            w.observed = &observed[cand_ptr[i]]
            for k in range(w.n_candidates):
                w.slot[w.candidate[k]] = k
                after_root[k] = -INFINITY
            for s in range(last, end):
                if state_node[s]:
                    w.mark[state_node[s]] = <int>s
                else:
                    after_root[state_candidate[s]] = after[s]
            if last > first and w.n_candidates:
                plant(&w, &state_node[first], &after[first], <int>(last - first), MAX)
                descend(
                    &w, w.local[0], 0, 0, 0.0, 0.0, &after_root[0], &after[0]
                )
                for s in range(first, last):
                    after[s] = w.own[w.local[state_node[s]]]
                uproot(&w)
            for k in range(w.n_candidates):
                w.slot[w.candidate[k]] = -1
            for s in range(last, end):
                w.mark[state_node[s]] = -1


def expect(
    Arcs arcs, Workspace work, const long long[::1] cand_ptr,
    const int[::1] candidate, const double[::1] observed,
    const long long[::1] state_ptr, const int[::1] state_node,
    const int[::1] state_candidate, const double[::1] score,
    const double[::1] after, double log_z, double weight,
    double[:, ::1] followed, double[::1] share,
):
    """Add the expected counts of one sentence.

    followed: of each class after each context, += weight times the posterior
    probability; share: the same for each candidate of the sentence.
    """
    cdef step_t w
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef long long s, t, c, arc
    cdef int k, y, node
    cdef double lp, mass
    bind(&w, arcs, work)
    for i in range(length):
        PyErr_CheckSignals()
        with nogil:
            for c in range(cand_ptr[i], cand_ptr[i + 1]):
                w.root_state[c - cand_ptr[i]] = -1
            for s in range(state_ptr[i + 1], state_ptr[i + 2]):
                if state_node[s]:
                    w.mark[state_node[s]] = <int>s
                else:
                    w.root_state[state_candidate[s]] = <int>s
            for s in range(state_ptr[i], state_ptr[i + 1]):
                if score[s] + after[s] - log_z < NOTHING:
                    continue
                for c in range(cand_ptr[i], cand_ptr[i + 1]):
                    y = candidate[c]
                    k = <int>(c - cand_ptr[i])
                    arc = walk(&arcs.c, state_node[s], y, &lp)
                    node = arcs.c.arc_next[arc]
                    # An arc without mass may lead to no state.
                    t = w.mark[node] if node else w.root_state[k]
                    if t < 0:
                        continue
                    mass = score[s] + lp + observed[c] + after[t] - log_z
                    if mass < NOTHING:
                        continue
                    mass = weight * exp(mass)
                    followed[state_node[s], y] += mass
                    share[c] += mass
            for s in range(state_ptr[i + 1], state_ptr[i + 2]):
                w.mark[state_node[s]] = -1
