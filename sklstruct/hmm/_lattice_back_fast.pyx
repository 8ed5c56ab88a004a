"""Backward passes over the lattice: paths, bounds, sums over continuations, counts.

The states and forward scores are written by `_lattice_fast.forward`.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport exp, fabs, log1p, INFINITY

from .._log_sum cimport add_log, log_total
from ._automaton_fast cimport Arcs, walk
from ._lattice_fast cimport Workspace, enter, find_held, leave, plant, uproot

cdef double NOTHING = -50.0  # log of a probability that a sum of counts rounds away

cdef enum:
    MAX = 0   # as in `_lattice_fast`
    TOP = 16  # back-off targets that the bound keeps in order


def column(
    Arcs arcs, const int[::1] state_node, int y,
    double[::1] log_prob, int[::1] next_node,
):
    """log P(y | state) and the next context, for the states of one position."""
    cdef Py_ssize_t s
    cdef long long arc
    with nogil:
        for s in range(state_node.shape[0]):
            arc = walk(arcs, state_node[s], y, &log_prob[s])
            next_node[s] = arcs.arc_next[arc]


def trace(
    Arcs arcs, const long long[::1] cand_ptr, const int[::1] candidate,
    const double[::1] observed, const long long[::1] state_ptr,
    const int[::1] state_node, const int[::1] state_candidate,
    const double[::1] score, long long state, int position, int[::1] path,
):
    """Best path into a state of a position (1 = after the first symbol).

    The predecessor is the state whose step gives the state's own score. States that
    could not reach this score with the largest probability of the class are skipped.
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
            least = score[state] - gain - arcs.arc_max[y]
            least -= 1e-9 * (1.0 + fabs(score[state]))
            best = -1
            top = -INFINITY
            for s in range(state_ptr[i], state_ptr[i + 1]):
                if score[s] < least or score[s] <= top - arcs.arc_max[y]:
                    continue
                arc = walk(arcs, state_node[s], y, &lp)
                if arcs.arc_next[arc] != state_node[state]:
                    continue
                x = score[s] + lp
                if x > top:
                    top = x
                    best = s
            # Every state was reached from a state of the position before.
            state = best if best >= 0 else state_ptr[i]


def bounds(
    Workspace w, const long long[::1] cand_ptr,
    const int[::1] candidate, const double[::1] observed, double[::1] bound,
):
    """Upper bound of the score after each candidate, by bigram max-backoffs.

    h_i(x) = max_y w(y | x) + o_{i+1}(y) + h_{i+1}(y). All classes for which x has no
    arc share one factor, so the largest of their values at the root is enough. The TOP
    largest values are kept in order, and nearly always contain a class for which x has
    no arc.
    """
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef long long here, there
    cdef int k, j, n, node, n_top, held
    cdef int[TOP] top
    cdef double value, best, after
    cdef int* seen = &w.root_state[0]
    cdef double* root = &w.vec[0, 0]
    if length == 0:
        return
    w.candidate = candidate
    for k in range(cand_ptr[length] - cand_ptr[length - 1]):
        bound[cand_ptr[length - 1] + k] = 0.0
    for i in range(length - 2, -1, -1):
        PyErr_CheckSignals()
        with nogil:
            here = cand_ptr[i]
            there = cand_ptr[i + 1]
            enter(w, cand_ptr, i + 1)
            n = w.n_candidates
            n_top = 0
            for k in range(n):
                value = (
                    w.arcs.arc_log_prob[candidate[there + k]] + observed[there + k]
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
                node = w.arcs.arc_next[candidate[here + k]]
                if node == 0:
                    bound[here + k] = root[top[0]] if n_top else -INFINITY
                    continue
                best = -INFINITY
                for j in range(find_held(w, node, 0)):
                    held = w.held[0, j]
                    seen[held] = k
                    value = (
                        w.arcs.arc_max[w.held_arc[0, j]] + observed[there + held]
                        + bound[there + held]
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
                after += w.arcs.backoff[node] + w.arcs.max_backoff[node]
                bound[here + k] = after if after > best else best
            leave(w)


cdef inline double gain(
    Workspace w, int k, long long arc, const double* after_root, const double* after
) noexcept nogil:
    """The value of candidate k over an arc: its step plus the sum over
    continuations."""
    cdef int target = w.arcs.arc_next[arc]
    cdef double x
    if target == 0:
        x = after_root[k]
    else:
        x = after[w.mark[target]] if w.mark[target] >= 0 else -INFINITY
    return w.arcs.arc_log_prob[arc] + w.observed[w.at + k] + x


cdef void descend(
    Workspace w, int j, int level, int row_level, double weight, double total,
    const double* after_root, const double* after,
) noexcept nogil:
    """Set own[j], the row sums, for a context and its longer contexts.

    row_level has the row of the nearest shorter context with an arc for a candidate.
    The row of this context is that row times exp(weight) except for classes with arcs,
    and `total` is the sum of that row. The classes with arcs are subtracted from the
    sum unless this would be inaccurate.
    """
    cdef int c
    cdef int node = w.loc_node[j]
    cdef int k, n
    cdef const int* held = &w.held[level, 0]
    cdef const long long* held_arc = &w.held_arc[level, 0]
    cdef double* v = &w.vec[level, 0]
    cdef double* u
    cdef double gone = 0.0, added
    if node == 0:
        for k in range(w.n_candidates):
            v[k] = gain(w, k, w.candidate[w.at + k], after_root, after)
        total = log_total(v, w.n_candidates)
        row_level = 0
        weight = 0.0
    else:
        weight += w.arcs.backoff[node]
        total += w.arcs.backoff[node]
        n = find_held(w, node, level)
        if n:
            u = &w.vec[row_level, 0]
            if total > -INFINITY:
                for k in range(n):
                    gone += exp(u[held[k]] + weight - total)
            if w.first_child[j] < 0 and gone < 0.5:
                total += log1p(-gone)
                for k in range(n):
                    added = gain(w, held[k], held_arc[k], after_root, after)
                    total = add_log(total, added)
            else:
                for k in range(w.n_candidates):
                    v[k] = u[k] + weight
                for k in range(n):
                    v[held[k]] = gain(w, held[k], held_arc[k], after_root, after)
                total = log_total(v, w.n_candidates)
                row_level = level
                weight = 0.0
    w.own[j] = total
    c = w.first_child[j]
    while c >= 0:
        descend(w, c, level + 1, row_level, weight, total, after_root, after)
        c = w.next_sibling[c]


def backward(
    Workspace w, const long long[::1] cand_ptr,
    const int[::1] candidate, const double[::1] observed,
    const long long[::1] state_ptr, const int[::1] state_node,
    const int[::1] state_candidate, double[::1] after, double[::1] after_root,
):
    """log of the sum over all continuations, for every state.

    One depth-first pass over the contexts of a position keeps a row for each level.
    after_root: scratch of the largest number of candidates.
    """
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef long long s, first, last, end
    cdef int k
    w.candidate, w.observed = candidate, observed
    for s in range(state_ptr[length], state_ptr[length + 1]):
        after[s] = 0.0
    for i in range(length - 1, -1, -1):
        PyErr_CheckSignals()
        with nogil:
            first = state_ptr[i]
            last = state_ptr[i + 1]
            end = state_ptr[i + 2]
            enter(w, cand_ptr, i)
            for k in range(w.n_candidates):
                after_root[k] = -INFINITY
            for s in range(last, end):
                if state_node[s]:
                    w.mark[state_node[s]] = <int>s
                else:
                    after_root[state_candidate[s]] = after[s]
            if last > first and w.n_candidates:
                plant(w, &state_node[first], &after[first], <int>(last - first), MAX)
                descend(w, w.local[0], 0, 0, 0.0, 0.0, &after_root[0], &after[0])
                for s in range(first, last):
                    after[s] = w.own[w.local[state_node[s]]]
                uproot(w)
            leave(w)
            for s in range(last, end):
                w.mark[state_node[s]] = -1


def expect(
    Workspace w, const long long[::1] cand_ptr,
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
    cdef Py_ssize_t i, length = cand_ptr.shape[0] - 1
    cdef long long s, t, c, arc
    cdef int k, y, node
    cdef double lp, mass
    w.candidate, w.observed = candidate, observed
    for i in range(length):
        PyErr_CheckSignals()
        with nogil:
            enter(w, cand_ptr, i)
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
                    arc = walk(w.arcs, state_node[s], y, &lp)
                    node = w.arcs.arc_next[arc]
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
            leave(w)
            for s in range(state_ptr[i + 1], state_ptr[i + 2]):
                w.mark[state_node[s]] = -1
