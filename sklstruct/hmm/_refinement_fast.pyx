"""The q-automaton of a sentence: an upper bound of its lattice, refined on demand.

A state is (position, context); its row holds, for each candidate, the largest
log-probability over all longer histories plus the observation factor, and the state
that follows: the longest context of the next position that is a suffix. The states
of a position are suffix-closed (`up` is the next shorter context) and
prefix-closed, which makes the automaton deterministic. A context is closed where no
longer history changes anything: it starts the sentence, or is not stored, or
nothing longer is.

Costs: evaluate O(states * candidates), draw O(length * candidates), refine one row
and one pass over the states of the position before for each state that it makes,
the best path after it the states near it alone.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport exp, fabs, log, INFINITY

from ._automaton_fast cimport Arcs, arcs_t, find_arc, find_child, walk

cdef enum:
    NODE = 0      # stored context that gives the probabilities
    CLOSED = 1    # no longer history changes them
    LENGTH = 2    # symbols of the context, the start of the sentence counted
    UP = 3        # the state of the context without its oldest symbol, or -1
    FOLLOW = 4    # next state of the same position, or -1
    ROUND = 5     # the last round of `settle` that found its value

cdef enum:
    # Why `climb` stops.
    IMPOSSIBLE  # no path has a weight above 0
    CERTAIN     # no path is better than the best one found by more than the tolerance
    EXACT       # the bound gives its best path its own weight
    LIMIT       # as many refinements or states as allowed
    FULL        # the arrays have no room for another refinement
    PAUSE       # Python handles Ctrl-C


REASONS = ("impossible", "certain", "exact", "limit", "full")


def start(
    Arcs arcs, const long long[::1] cand_ptr, const int[::1] candidate,
    const double[::1] observed, int[::1] slot, bint bigram, int[:, ::1] state,
    long long[::1] row_ptr, double[::1] score, double[::1] plain, int[::1] dest,
    int[::1] edge_order, int[::1] head,
):
    """The coarsest automaton: one state a position, or one for each last symbol."""
    cdef const arcs_t* t = &arcs.c
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef long long here, before
    cdef int n = 0, k, j, node, root
    row_ptr[0] = 0
    for i in range(length):
        PyErr_CheckSignals()
        with nogil:
            here = cand_ptr[i]
            root = n
            head[i] = n
            state[n, NODE] = t.start_node if i == 0 else 0
            state[n, CLOSED] = i == 0 or t.child_ptr[1] == 0
            state[n, LENGTH] = i == 0
            state[n, UP] = -1
            state[n, FOLLOW] = -1
            state[n, ROUND] = 0
            n += 1
            fill(t, cand_ptr, candidate, observed, slot, i, NULL, NULL,
                 &state[root, 0], &row_ptr[root], &score[0], &plain[0],
                 &edge_order[0])
            if i == 0:
                # The empty context of position 0 is never visited: it ends the chain
                # of shorter contexts of the sentence start.
                state[0, UP] = n
                state[n, NODE] = 0
                state[n, CLOSED] = 1
                state[n, LENGTH] = 0
                state[n, UP] = -1
                state[n, FOLLOW] = -1
                state[n, ROUND] = 0
                row_ptr[n + 1] = row_ptr[n]
                n += 1
            if i:
                before = cand_ptr[i - 1]
                if bigram:
                    for k in range(<int>(here - before)):
                        node = find_child(
                            t, 0, t.symbol_of_class[candidate[before + k]]
                        )
                        state[n, NODE] = node if node >= 0 else 0
                        state[n, CLOSED] = node < 0 or (
                            t.child_ptr[node + 1] == t.child_ptr[node]
                        )
                        state[n, LENGTH] = 1
                        state[n, UP] = root
                        state[n, FOLLOW] = head[i]
                        state[n, ROUND] = 0
                        head[i] = n
                        fill(t, cand_ptr, candidate, observed, slot, i,
                             &state[root, 0], &plain[row_ptr[root]], &state[n, 0],
                             &row_ptr[n], &score[0], &plain[0], &edge_order[0])
                        n += 1
                j = head[i - 1]
                while j >= 0:
                    for k in range(<int>(here - before)):
                        dest[row_ptr[j] + k] = root + (k + 1 if bigram else 0)
                    j = state[j, FOLLOW]
            if i == length - 1:
                j = head[i]
                while j >= 0:
                    for k in range(<int>(cand_ptr[i + 1] - here)):
                        dest[row_ptr[j] + k] = -1
                    j = state[j, FOLLOW]
    return n


cdef void fill(
    const arcs_t* t, const long long[::1] cand_ptr, const int[::1] candidate,
    const double[::1] observed, int[::1] slot, Py_ssize_t position,
    const int* shorter, const double* above, int* state, long long* row_ptr,
    double* score, double* plain, int* edge_order,
) noexcept nogil:
    """A whole row: that of a shorter context, with what this one stores written over.

    plain: log-probabilities after this context, with the observation factors; score:
    the largest after any longer one. shorter, above: the state of the context without
    its oldest symbol and its row of plain, NULL: the empty context.
    """
    cdef long long first = cand_ptr[position], a
    cdef int n = <int>(cand_ptr[position + 1] - first)
    cdef double* row = score + row_ptr[0]
    cdef double* own = plain + row_ptr[0]
    cdef int node = state[NODE], k
    cdef double x
    cdef bint closed = state[CLOSED]
    row_ptr[1] = row_ptr[0] + n
    for k in range(n):
        edge_order[row_ptr[0] + k] = state[LENGTH]
    if above == NULL:
        for k in range(n):
            a = candidate[first + k]
            own[k] = t.arc_log_prob[a] + observed[first + k]
            row[k] = own[k] if closed else t.arc_max[a] + observed[first + k]
        if node == 0:
            return
    elif node == shorter[NODE]:  # it stores nothing
        for k in range(n):
            row[k] = own[k] = above[k]
        return
    x = 0.0 if closed else t.max_backoff[node]
    for k in range(n):
        own[k] = (own[k] if above == NULL else above[k]) + t.backoff[node]
        row[k] = own[k] + x
    if t.arc_ptr[node + 1] - t.arc_ptr[node] <= 8 * n:
        for k in range(n):
            slot[candidate[first + k]] = k
        for a in range(t.arc_ptr[node], t.arc_ptr[node + 1]):
            k = slot[t.arc_class[a]]
            if k >= 0:
                own[k] = t.arc_log_prob[a] + observed[first + k]
                row[k] = own[k] if closed else t.arc_max[a] + observed[first + k]
        for k in range(n):
            slot[candidate[first + k]] = -1
    else:
        for k in range(n):
            a = find_arc(t, node, candidate[first + k])
            if a >= 0:
                own[k] = t.arc_log_prob[a] + observed[first + k]
                row[k] = own[k] if closed else t.arc_max[a] + observed[first + k]


def evaluate(
    const long long[::1] cand_ptr, const int[:, ::1] state,
    const long long[::1] row_ptr, const double[::1] score, const int[::1] dest,
    const int[::1] head, double[::1] value, int[::1] choice,
):
    """log of the summed weight from every state to the end; its best candidate."""
    with nogil:
        sweep(cand_ptr, state, row_ptr, score, dest, head, True, value, choice)


cdef void sweep(
    const long long[::1] cand_ptr, const int[:, ::1] state,
    const long long[::1] row_ptr, const double[::1] score, const int[::1] dest,
    const int[::1] head, bint total, double[::1] value, int[::1] choice,
) noexcept nogil:
    """Best (or log of the summed) weight from every state to the end."""
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef int s, k, n
    cdef long long row
    cdef double top, x, summed
    for i in range(length - 1, -1, -1):
        n = <int>(cand_ptr[i + 1] - cand_ptr[i])
        s = head[i]
        while s >= 0:
            row = row_ptr[s]
            choose(row, n, score, dest, value, s, choice)
            top = value[s]
            if total and top > -INFINITY:
                summed = 0.0
                for k in range(n):
                    x = score[row + k]
                    if dest[row + k] >= 0:
                        x += value[dest[row + k]]
                    summed += exp(x - top)
                value[s] = top + log(summed)
            s = state[s, FOLLOW]


cdef inline void choose(
    long long row, int n, const double[::1] score, const int[::1] dest,
    double[::1] value, int s, int[::1] choice,
) noexcept nogil:
    """The best candidate of a state, by the values of the states that follow."""
    cdef int k, best = 0
    cdef double x, top = -INFINITY
    for k in range(n):
        x = score[row + k]
        if dest[row + k] >= 0:
            x += value[dest[row + k]]
        if x > top:
            top = x
            best = k
    choice[s] = best
    value[s] = top


cdef void settle(
    const long long[::1] cand_ptr, int[:, ::1] state, const long long[::1] row_ptr,
    const double[::1] score, const int[::1] dest, double[::1] value, int[::1] choice,
    int round, int[::1] path,
) noexcept nogil:
    """The best weight from the start to the end, where weights have gone down.

    An old value is an upper bound. It still holds if that of the state's best choice
    does, as no candidate's value has risen. States that no best choice leads to keep
    their old values.

    path: memory for a state a position.
    """
    cdef Py_ssize_t i = 0
    cdef int s, d
    cdef long long row
    cdef double x
    path[0] = 0
    while i >= 0:
        s = path[i]
        row = row_ptr[s] + choice[s]
        d = dest[row]
        x = score[row]
        if d >= 0:
            if state[d, ROUND] != round:
                i += 1
                path[i] = d
                continue
            x += value[d]
        if x == value[s]:
            state[s, ROUND] = round
            i -= 1
        else:
            choose(row_ptr[s], <int>(cand_ptr[i + 1] - cand_ptr[i]), score, dest, value,
                   s, choice)


def draw(
    Arcs arcs, const long long[::1] cand_ptr, const int[::1] candidate,
    const double[::1] observed, const long long[::1] row_ptr, const int[::1] dest,
    const double[::1] score, const double[::1] value, const int[::1] choice,
    const double[::1] uniform, int[::1] path, double[::1] out,
):
    """One path from the start, drawn by `uniform`.

    path: candidate index of each position. out: its log q and log p.
    """
    with nogil:
        follow(
            &arcs.c, cand_ptr, candidate, observed, row_ptr, dest, score, value, choice,
            &uniform[0], path, &out[0],
        )


cdef void follow(
    const arcs_t* t, const long long[::1] cand_ptr, const int[::1] candidate,
    const double[::1] observed, const long long[::1] row_ptr, const int[::1] dest,
    const double[::1] score, const double[::1] value, const int[::1] choice,
    const double* uniform, int[::1] path, double* out,
) noexcept nogil:
    """One path from the start: the best, or drawn by `uniform` where it is not NULL."""
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef int s = 0, k, node = t.start_node, n
    cdef double left, x, lp
    cdef long long arc, row
    out[0] = 0.0
    out[1] = 0.0
    for i in range(length):
        row = row_ptr[s]
        n = <int>(cand_ptr[i + 1] - cand_ptr[i])
        k = choice[s]
        if uniform != NULL:
            # If rounding leads past the end of the row, the best candidate is taken.
            left = uniform[i]
            for k in range(n):
                x = score[row + k] - value[s]
                if dest[row + k] >= 0:
                    x += value[dest[row + k]]
                left -= exp(x)
                if left < 0:
                    break
            else:
                k = choice[s]
        path[i] = k
        out[0] += score[row + k]
        arc = walk(t, node, candidate[cand_ptr[i] + k], &lp)
        out[1] += lp + observed[cand_ptr[i] + k]
        node = t.arc_next[arc]
        s = dest[row + k]


def refine(
    Arcs arcs, const long long[::1] cand_ptr, const int[::1] candidate,
    const double[::1] observed, int[::1] slot, bint literal, const int[::1] path,
    int[:, ::1] state, long long[::1] row_ptr, double[::1] score, double[::1] plain,
    int[::1] dest, int[::1] edge_order, int[::1] head, int n_states,
    double[::1] value, int[::1] choice,
):
    """Lengthen by one symbol the contexts that a path uses: see `lengthen`.

    Returns (number of states, number of edges on the path that were refined).
    """
    cdef int n, changed
    with nogil:
        n = lengthen(
            &arcs.c, cand_ptr, candidate, observed, slot, literal, path, state, row_ptr,
            score, plain, dest, edge_order, head, n_states, value, choice, &changed,
        )
    return n, changed


cdef int lengthen(
    const arcs_t* t, const long long[::1] cand_ptr, const int[::1] candidate,
    const double[::1] observed, int[::1] slot, bint literal, const int[::1] path,
    int[:, ::1] state, long long[::1] row_ptr, double[::1] score, double[::1] plain,
    int[::1] dest, int[::1] edge_order, int[::1] head, int n_states,
    double[::1] value, int[::1] choice, int* changed,
) noexcept nogil:
    """Lengthen by one symbol the contexts that a path uses, left to right.

    Row refinement makes a state with a row of its own. The literal algorithm copies
    the row of the shorter context and lowers the weight of the path's edge alone,
    in every state that ends in the new context.

    Returns the number of states; changed: edges on the path that were refined.
    """
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef int n = n_states, s, before = 0, m, base, shorter, k, q
    cdef int node, oldest, symbol, last
    cdef long long a
    cdef double x
    changed[0] = 0
    for i in range(1, length):
        last = path[i - 1]
        s = dest[row_ptr[before] + last]
        # The context whose weight the path's edge has now.
        base = s
        if literal:
            while state[base, LENGTH] > edge_order[row_ptr[s] + path[i]]:
                base = state[base, UP]
        if state[base, CLOSED]:
            before = s
            continue
        m = state[base, LENGTH]
        if base == s:
            # Prefix-closed: the context without its last symbol has to be there.
            q = before
            if state[before, LENGTH] < m:
                before = s
                continue
            while state[q, LENGTH] > m:
                q = state[q, UP]
            shorter = q
            oldest = <int>(i - 1 - m)
            if oldest >= 0:
                k = candidate[cand_ptr[oldest] + path[oldest]]
                symbol = t.symbol_of_class[k]
            else:
                symbol = t.start_symbol
            node = find_child(t, state[s, NODE], symbol)
            state[n, CLOSED] = node < 0 or oldest < 0 or (
                t.child_ptr[node + 1] == t.child_ptr[node]
            )
            state[n, NODE] = node if node >= 0 else state[s, NODE]
            state[n, LENGTH] = m + 1
            state[n, UP] = s
            state[n, FOLLOW] = head[i]
            state[n, ROUND] = 0
            head[i] = n
            # Its weights are no larger.
            value[n] = value[s]
            choice[n] = choice[s]
            if literal:
                row_ptr[n + 1] = row_ptr[n] + cand_ptr[i + 1] - cand_ptr[i]
                for k in range(<int>(cand_ptr[i + 1] - cand_ptr[i])):
                    score[row_ptr[n] + k] = score[row_ptr[s] + k]
                    edge_order[row_ptr[n] + k] = edge_order[row_ptr[s] + k]
            else:
                fill(t, cand_ptr, candidate, observed, slot, i, &state[s, 0],
                     &plain[row_ptr[s]], &state[n, 0], &row_ptr[n], &score[0],
                     &plain[0], &edge_order[0])
                for k in range(<int>(cand_ptr[i + 1] - cand_ptr[i])):
                    x = score[row_ptr[s] + k]
                    if score[row_ptr[n] + k] > x:
                        score[row_ptr[n] + k] = x
            for k in range(<int>(cand_ptr[i + 1] - cand_ptr[i])):
                dest[row_ptr[n] + k] = dest[row_ptr[s] + k]
            q = head[i - 1]
            while q >= 0:
                if dest[row_ptr[q] + last] == s:
                    k = q
                    while state[k, LENGTH] > m:
                        k = state[k, UP]
                    if k == shorter:
                        dest[row_ptr[q] + last] = n
                q = state[q, FOLLOW]
            base = s = n
            n += 1
        else:
            base = s
            while state[base, LENGTH] > m + 1:
                base = state[base, UP]
        changed[0] += 1
        if literal:
            node = state[base, NODE]
            k = candidate[cand_ptr[i] + path[i]]
            a = walk(t, node, k, &x)
            if not state[base, CLOSED]:
                a = find_arc(t, node, k)
                x = t.arc_max[a] if a >= 0 else x + t.max_backoff[node]
            x += observed[cand_ptr[i] + path[i]]
            q = head[i]
            while q >= 0:
                k = q
                while state[k, LENGTH] > m + 1:
                    k = state[k, UP]
                if k == base:
                    a = row_ptr[q] + path[i]
                    if x < score[a]:
                        score[a] = x
                    if edge_order[a] < m + 1:
                        edge_order[a] = m + 1
                q = state[q, FOLLOW]
        before = s
    return n


def climb(
    Arcs arcs, const long long[::1] cand_ptr, const int[::1] candidate,
    const double[::1] observed, int[::1] slot, bint literal, int[:, ::1] state,
    long long[::1] row_ptr, double[::1] score, double[::1] plain, int[::1] dest,
    int[::1] edge_order, int[::1] head, int n_states, int round, double[::1] value,
    int[::1] choice, long long steps, double tol, long long max_states,
    int[::1] path, int[::1] best_path, double[::1] out,
):
    """Refine along the best path until it is certain, or as often as allowed.

    steps: most refinements. round: number of earlier searches for the best path. out:
    log q of the bound, log p of the best path found, kept in best_path, and log q and
    log p of the last one, in path.

    Returns (reason to stop, refinements, states, rounds).
    """
    cdef const arcs_t* t = &arcs.c
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef long long done = 0
    cdef int changed, reason
    cdef double[2] scores
    while True:
        PyErr_CheckSignals()
        with nogil:
            while True:
                if round:
                    settle(cand_ptr, state, row_ptr, score, dest, value, choice, round,
                           path)
                else:
                    sweep(cand_ptr, state, row_ptr, score, dest, head, False, value,
                          choice)
                round += 1
                out[0] = value[0]
                if value[0] == -INFINITY:
                    reason = IMPOSSIBLE
                    break
                follow(t, cand_ptr, candidate, observed, row_ptr, dest, score, value,
                       choice, NULL, path, scores)
                out[2] = scores[0]
                out[3] = scores[1]
                if scores[0] > out[0]:
                    out[0] = scores[0]
                if scores[1] > out[1]:
                    out[1] = scores[1]
                    for i in range(length):
                        best_path[i] = path[i]
                # A gap within the rounding error of a sum of this size counts as 0.
                if out[0] - out[1] <= max(tol, 1e-13 * fabs(out[0])):
                    reason = CERTAIN
                    break
                if done >= steps or n_states >= max_states:
                    reason = LIMIT
                    break
                if (n_states + length > state.shape[0]
                        or row_ptr[n_states] + cand_ptr[length] > score.shape[0]):
                    reason = FULL
                    break
                n_states = lengthen(
                    t, cand_ptr, candidate, observed, slot, literal, path, state,
                    row_ptr, score, plain, dest, edge_order, head, n_states, value,
                    choice, &changed,
                )
                done += 1
                if changed == 0:
                    reason = EXACT
                    break
                if done % 64 == 0:
                    reason = PAUSE
                    break
        if reason != PAUSE:
            return REASONS[reason], done, n_states, round
