"""The q-automaton of a sentence: an upper bound of its lattice, refined on demand.

A state is (position, context); its row holds, for each candidate, the largest
log-probability over all longer histories plus the observation factor, and the state
that follows: the longest context of the next position that is a suffix. The states of a
position are suffix-closed (`up` is the next shorter context) and prefix-closed, which
makes the automaton deterministic. A context is closed if no longer history changes its
probabilities: it begins at the sentence start, or it is not stored, or no longer
context is stored.

Costs: `evaluate` O(states * candidates), `draw` O(length * candidates). `refine`
computes a row for each new state, and passes over the states of the position before.
The next best path is found by updating only the states near the changes.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport exp, fabs, log, INFINITY
from libc.string cimport memcpy

from .._sorted cimport find_child
from ._automaton_fast cimport Arcs, find_arc, walk

cdef enum:
    NODE = 0      # stored context whose probabilities are used
    CLOSED = 1    # 1: no longer history changes the probabilities
    LENGTH = 2    # symbols of the context, including the sentence start
    UP = 3        # the state of the context without its oldest symbol, or -1
    FOLLOW = 4    # next state of the same position, or -1
    ROUND = 5     # the last round in which `settle` computed the value

cdef enum:
    STATES_BETWEEN_SIGNAL_CHECKS = 1 << 16

cdef enum:
    # Why `climb` stops.
    IMPOSSIBLE  # no path has a weight above 0
    CERTAIN     # no path is better than the best one found by more than the tolerance
    EXACT       # the bound gives its best path its own weight
    LIMIT       # the allowed number of refinements or states is reached
    FULL        # the arrays are too small for another refinement
    PAUSE       # Python handles Ctrl-C


REASONS = ("impossible", "certain", "exact", "limit", "full")


cdef class Bound:
    """The arrays of one sentence, which `_refinement._Bound` allocates and enlarges.

    score, plain, dest, edge_order: the row of state s begins at row_ptr[s] and has an
    entry for each candidate of its position. head: first state of each position. path,
    best_path: a candidate index for each position.
    """

    cdef:
        Arcs arcs
        const long long[::1] cand_ptr
        const int[::1] candidate
        const double[::1] observed
        int[::1] slot, head, path, best_path, choice, dest, edge_order
        int[:, ::1] state
        long long[::1] row_ptr
        double[::1] score, plain, value
        bint literal
        int round  # searches for the best path so far
    cdef readonly int n_states
    # log q of the bound, log p of best_path, log q and log p of path.
    cdef readonly double upper, best, log_q, log_p

    def __init__(
        self, Arcs arcs, c, int[::1] slot, int[::1] head, paths, bint literal,
    ):
        self.arcs = arcs
        self.cand_ptr, self.candidate, self.observed = c.ptr, c.ids, c.log_factor
        self.slot, self.head, self.literal = slot, head, literal
        self.path, self.best_path = paths
        self.upper = self.log_q = INFINITY
        self.best = self.log_p = -INFINITY
        self.round = self.n_states = 0

    def bind(self, arrays):
        """Replace the arrays by larger arrays with the same first entries."""
        self.state, self.row_ptr = arrays["state"], arrays["row_ptr"]
        self.value, self.choice = arrays["value"], arrays["choice"]
        self.score, self.plain = arrays["score"], arrays["plain"]
        self.dest, self.edge_order = arrays["dest"], arrays["edge_order"]


cdef inline int n_candidates(Bound b, Py_ssize_t position) noexcept nogil:
    return <int>(b.cand_ptr[position + 1] - b.cand_ptr[position])


cdef inline void set_state(
    Bound b, int s, int node, bint closed, int length, int up, int follow
) noexcept nogil:
    b.state[s, NODE] = node
    b.state[s, CLOSED] = closed
    b.state[s, LENGTH] = length
    b.state[s, UP] = up
    b.state[s, FOLLOW] = follow
    b.state[s, ROUND] = 0


def start(Bound b):
    """The coarsest automaton: the empty context at every position but the first."""
    cdef Py_ssize_t i, length = b.cand_ptr.shape[0] - 1
    cdef int k, s
    b.row_ptr[0] = 0
    for i in range(length):
        PyErr_CheckSignals()
        with nogil:
            s = <int>i + (i > 0)
            b.head[i] = s
            if i:
                set_state(b, s, 0, b.arcs.child_ptr[1] == 0, 0, -1, -1)
            else:
                set_state(b, 0, b.arcs.start_node, True, 1, 1, -1)
            fill(b, i, -1, s)
            for k in range(n_candidates(b, i)):
                b.dest[b.row_ptr[s] + k] = -1 if i == length - 1 else <int>i + 2
            if i == 0:
                # The empty context of position 0 is never visited. It ends the chain of
                # shorter contexts of the sentence start.
                set_state(b, 1, 0, True, 0, -1, -1)
                b.row_ptr[2] = b.row_ptr[1]
    b.n_states = <int>length + 1


cdef void fill(Bound b, Py_ssize_t position, int shorter, int s) noexcept nogil:
    """Compute the row of state s: the row of a shorter context, with the arcs of s.

    plain: log-probabilities after this context plus the observation factors; score:
    their maxima over longer contexts. The two are equal if s is closed, and only score
    is stored, because s gets no longer context. shorter: the state of the context
    without its oldest symbol; -1: the empty context.
    """
    cdef long long at = b.row_ptr[s], a
    cdef int n = n_candidates(b, position), node = b.state[s, NODE], k
    cdef const int* candidate = &b.candidate[0] + b.cand_ptr[position]
    cdef const double* observed = &b.observed[0] + b.cand_ptr[position]
    cdef const double* above
    cdef double* row = &b.score[0] + at
    cdef bint closed = b.state[s, CLOSED]
    cdef double* own = row if closed else &b.plain[0] + at
    cdef double x = b.arcs.backoff[node]
    b.row_ptr[s + 1] = at + n
    if b.literal:
        for k in range(n):
            b.edge_order[at + k] = b.state[s, LENGTH]
    if shorter < 0:
        for k in range(n):
            own[k] = b.arcs.arc_log_prob[candidate[k]] + observed[k]
            if not closed:
                row[k] = b.arcs.arc_max[candidate[k]] + observed[k]
        if node == 0:
            return
        above = own
    else:
        above = &b.plain[0] + b.row_ptr[shorter]
        if node == b.state[shorter, NODE]:  # it stores nothing, and is closed
            memcpy(row, above, n * sizeof(double))
            return
    for k in range(n):
        own[k] = above[k] + x
    if not closed:
        x = b.arcs.max_backoff[node]
        for k in range(n):
            row[k] = own[k] + x
    if b.arcs.arc_ptr[node + 1] - b.arcs.arc_ptr[node] <= 8 * n:
        for k in range(n):
            b.slot[candidate[k]] = k
        for a in range(b.arcs.arc_ptr[node], b.arcs.arc_ptr[node + 1]):
            k = b.slot[b.arcs.arc_class[a]]
            if k >= 0:
                own[k] = b.arcs.arc_log_prob[a] + observed[k]
                if not closed:
                    row[k] = b.arcs.arc_max[a] + observed[k]
        for k in range(n):
            b.slot[candidate[k]] = -1
    else:
        for k in range(n):
            a = find_arc(b.arcs, node, candidate[k])
            if a >= 0:
                own[k] = b.arcs.arc_log_prob[a] + observed[k]
                if not closed:
                    row[k] = b.arcs.arc_max[a] + observed[k]


def evaluate(Bound b):
    """Logarithm of the summed weight of all paths from the start to the end."""
    with nogil:
        sweep(b, True)
    return b.value[0]


cdef void sweep(Bound b, bint total) noexcept nogil:
    """Best weight, or logarithm of the summed weight, from every state to the end."""
    cdef Py_ssize_t i, length = b.cand_ptr.shape[0] - 1
    cdef int s, k, n
    cdef long long row
    cdef double top, x, summed
    for i in range(length - 1, -1, -1):
        n = n_candidates(b, i)
        s = b.head[i]
        while s >= 0:
            choose(b, s, n)
            top = b.value[s]
            if total and top > -INFINITY:
                row = b.row_ptr[s]
                summed = 0.0
                for k in range(n):
                    x = b.score[row + k]
                    if b.dest[row + k] >= 0:
                        x += b.value[b.dest[row + k]]
                    summed += exp(x - top)
                b.value[s] = top + log(summed)
            s = b.state[s, FOLLOW]


cdef inline void choose(Bound b, int s, int n) noexcept nogil:
    """Set the best candidate of a state, by the values of the next states.

    Four largest values, because each comparison waits for the one before. Of equal
    values the first candidate is the best.
    """
    cdef const double* score = &b.score[0] + b.row_ptr[s]
    cdef const int* dest = &b.dest[0] + b.row_ptr[s]
    cdef const double* value = &b.value[0]
    cdef int k = 0, j
    cdef int[4] best
    cdef double[4] top
    cdef double x
    for j in range(4):
        top[j] = -INFINITY
        best[j] = 0
    while k < n:
        for j in range(min(n - k, 4)):
            x = score[k + j]
            if dest[k + j] >= 0:
                x += value[dest[k + j]]
            if x > top[j]:
                top[j] = x
                best[j] = k + j
        k += 4
    for j in range(1, 4):
        if top[j] > top[0] or top[j] == top[0] and best[j] < best[0]:
            top[0], best[0] = top[j], best[j]
    b.choice[s] = best[0]
    b.value[s] = top[0]


cdef void settle(Bound b) noexcept nogil:
    """Update the best weight from the start to the end after weights were lowered.

    An old value is an upper bound. It is still exact if the value of the state's best
    choice is unchanged, because no candidate's value has risen. States to which no best
    choice leads keep their old values. `path` is used as scratch memory for a state per
    position.
    """
    cdef Py_ssize_t i = 0
    cdef int s, d
    cdef long long row
    cdef double x
    cdef int[::1] path = b.path
    path[0] = 0
    while i >= 0:
        s = path[i]
        row = b.row_ptr[s] + b.choice[s]
        d = b.dest[row]
        x = b.score[row]
        if d >= 0:
            if b.state[d, ROUND] != b.round:
                i += 1
                path[i] = d
                continue
            x += b.value[d]
        if x == b.value[s]:
            b.state[s, ROUND] = b.round
            i -= 1
        else:
            choose(b, s, n_candidates(b, i))


def draw(Bound b, const double[::1] uniform):
    """Draw a path from the start by `uniform`; sets log q and log p."""
    with nogil:
        follow(b, &uniform[0])


cdef void follow(Bound b, const double* uniform) noexcept nogil:
    """Follow the best path from the start, or draw a path if `uniform` is not NULL."""
    cdef Py_ssize_t i, length = b.cand_ptr.shape[0] - 1
    cdef int s = 0, k, node = b.arcs.start_node
    cdef double left, x, lp
    cdef long long arc, row, at
    b.log_q = b.log_p = 0.0
    for i in range(length):
        row = b.row_ptr[s]
        k = b.choice[s]
        if uniform != NULL:
            # If rounding leads past the end of the row, the best candidate is taken.
            left = uniform[i]
            for k in range(n_candidates(b, i)):
                x = b.score[row + k] - b.value[s]
                if b.dest[row + k] >= 0:
                    x += b.value[b.dest[row + k]]
                left -= exp(x)
                if left < 0:
                    break
            else:
                k = b.choice[s]
        b.path[i] = k
        b.log_q += b.score[row + k]
        at = b.cand_ptr[i] + k
        arc = walk(b.arcs, node, b.candidate[at], &lp)
        b.log_p += lp + b.observed[at]
        node = b.arcs.arc_next[arc]
        s = b.dest[row + k]


def refine(Bound b, const int[::1] path):
    """Lengthen the contexts that a path uses."""
    with nogil:
        lengthen(b, path)


cdef int lengthen(Bound b, const int[::1] path) noexcept nogil:
    """Lengthen by one symbol the contexts that a path uses, left to right.

    Row refinement computes the row of the new state. The literal algorithm copies the
    row of the shorter context and lowers only the weight of the path's edge, in every
    state that ends in the new context.

    Returns the number of edges on the path that were refined.
    """
    cdef Py_ssize_t i, length = b.cand_ptr.shape[0] - 1
    cdef int changed = 0, s, before = 0, m, base, k, q
    cdef int node, last
    cdef long long a
    cdef double x
    for i in range(1, length):
        last = path[i - 1]
        s = b.dest[b.row_ptr[before] + last]
        # The context that gives the current weight of the path's edge.
        base = s
        if b.literal:
            while b.state[base, LENGTH] > b.edge_order[b.row_ptr[s] + path[i]]:
                base = b.state[base, UP]
        if b.state[base, CLOSED]:
            before = s
            continue
        m = b.state[base, LENGTH]
        if base == s:
            # Prefix-closed: the context without its last symbol must be a state.
            if b.state[before, LENGTH] < m:
                before = s
                continue
            base = s = new_state(b, i, before, s, path)
        else:
            base = s
            while b.state[base, LENGTH] > m + 1:
                base = b.state[base, UP]
        changed += 1
        if b.literal:
            node = b.state[base, NODE]
            k = b.candidate[b.cand_ptr[i] + path[i]]
            a = walk(b.arcs, node, k, &x)
            if not b.state[base, CLOSED]:
                a = find_arc(b.arcs, node, k)
                x = b.arcs.arc_max[a] if a >= 0 else x + b.arcs.max_backoff[node]
            x += b.observed[b.cand_ptr[i] + path[i]]
            q = b.head[i]
            while q >= 0:
                k = q
                while b.state[k, LENGTH] > m + 1:
                    k = b.state[k, UP]
                if k == base:
                    a = b.row_ptr[q] + path[i]
                    if x < b.score[a]:
                        b.score[a] = x
                    if b.edge_order[a] < m + 1:
                        b.edge_order[a] = m + 1
                q = b.state[q, FOLLOW]
        before = s
    return changed


cdef int new_state(
    Bound b, Py_ssize_t i, int before, int s, const int[::1] path
) noexcept nogil:
    """Create the state of the context of s extended by the previous symbol of the
    path."""
    cdef int n = b.n_states, m = b.state[s, LENGTH], last = path[i - 1]
    cdef int oldest = <int>i - 1 - m, symbol = b.arcs.start_symbol, shorter, node, k, q
    cdef int n_entries = n_candidates(b, i)
    cdef int* dest = &b.dest[0] + b.row_ptr[n]
    cdef int* edge_order = &b.edge_order[0] + b.row_ptr[n]
    cdef double* score = &b.score[0] + b.row_ptr[n]
    # the row of s
    cdef const int* old_dest = &b.dest[0] + b.row_ptr[s]
    cdef const int* old_order = &b.edge_order[0] + b.row_ptr[s]
    cdef const double* old_score = &b.score[0] + b.row_ptr[s]
    if oldest >= 0:
        k = b.candidate[b.cand_ptr[oldest] + path[oldest]]
        symbol = b.arcs.symbol_of_class[k]
    node = find_child(&b.arcs.symbol[0], &b.arcs.child_ptr[0], b.state[s, NODE], symbol)
    set_state(
        b, n, node if node >= 0 else b.state[s, NODE],
        node < 0 or oldest < 0 or b.arcs.child_ptr[node + 1] == b.arcs.child_ptr[node],
        m + 1, s, b.head[i],
    )
    b.head[i] = n
    b.n_states = n + 1
    # The new weights are not larger, so the old value is an upper bound.
    b.value[n] = b.value[s]
    b.choice[n] = b.choice[s]
    memcpy(dest, old_dest, n_entries * sizeof(int))
    if b.literal:
        b.row_ptr[n + 1] = b.row_ptr[n] + n_entries
        memcpy(score, old_score, n_entries * sizeof(double))
        memcpy(edge_order, old_order, n_entries * sizeof(int))
    else:
        fill(b, i, s, n)
        for k in range(n_entries):
            score[k] = min(score[k], old_score[k])
    # Redirect the edges of the position before that lead to the new context.
    shorter = before
    while b.state[shorter, LENGTH] > m:
        shorter = b.state[shorter, UP]
    q = b.head[i - 1]
    while q >= 0:
        if b.dest[b.row_ptr[q] + last] == s:
            k = q
            while b.state[k, LENGTH] > m:
                k = b.state[k, UP]
            if k == shorter:
                b.dest[b.row_ptr[q] + last] = n
        q = b.state[q, FOLLOW]
    return n


def climb(Bound b, long long steps, double tol, long long max_states):
    """Refine along the best path until its score is certain, or a limit is reached.

    steps: largest number of refinements. Returns (reason to stop, refinements).
    """
    cdef Py_ssize_t length = b.cand_ptr.shape[0] - 1
    cdef long long done = 0, left
    cdef int reason = PAUSE
    while reason == PAUSE:
        PyErr_CheckSignals()
        left = STATES_BETWEEN_SIGNAL_CHECKS
        with nogil:
            while True:
                if b.round:
                    settle(b)
                else:
                    sweep(b, False)
                b.round += 1
                b.upper = b.value[0]
                if b.upper == -INFINITY:
                    reason = IMPOSSIBLE
                    break
                follow(b, NULL)
                b.upper = max(b.upper, b.log_q)
                if b.log_p > b.best:
                    b.best = b.log_p
                    b.best_path[:] = b.path
                # A gap within the rounding error of a sum of this size counts as 0.
                if b.upper - b.best <= max(tol, 1e-13 * fabs(b.upper)):
                    reason = CERTAIN
                    break
                if done >= steps or b.n_states >= max_states:
                    reason = LIMIT
                    break
                if (b.n_states + length > b.state.shape[0]
                        or b.row_ptr[b.n_states] + b.cand_ptr[length]
                        > b.score.shape[0]):
                    reason = FULL
                    break
                done += 1
                if lengthen(b, b.path) == 0:
                    reason = EXACT
                    break
                # The refinement may have visited every state.
                left -= b.n_states
                if left <= 0:
                    reason = PAUSE
                    break
    return REASONS[reason], done
