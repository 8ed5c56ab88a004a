"""Search and Gibbs sampling of one or two variables at a time, on any graph.

- `feasible`: arc consistency, then depth-first search in the order of `forests`, which
  never backtracks on a forest.
- `gibbs`: sweeps of Gibbs sampling, each with its own temperature (0: the best
  value, which is coordinate ascent); O(degree * k) a variable, and, if the ends of
  an edge are drawn together, O(k_u k_v + degrees * k) an edge. Edges with many
  neighbours are drawn at random, so that a sweep is linear in the number of edges.
  Every state that it leaves behind is allowed if the state at its start was.

Nothing is checked here.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

import numpy as np

from .._random cimport draw_below, pick
from .._watch cimport Watch, over, propagate, watch_of
from ._inference_fast cimport Potentials, other_end


cdef inline Py_ssize_t size_of_table(Potentials p, Py_ssize_t e) noexcept nogil:
    cdef Py_ssize_t u = p.edge_u[e], v = p.edge_v[e]
    return (p.cand_ptr[u + 1] - p.cand_ptr[u]) * (p.cand_ptr[v + 1] - p.cand_ptr[v])


cdef bint has_partner(
    Potentials p, int32_t e, Py_ssize_t v, Py_ssize_t a, const uint8_t[::1] alive
) noexcept nogil:
    """Whether a remaining value of the other end of e is compatible with a at v."""
    cdef Py_ssize_t o = other_end(p, e, v)
    cdef Py_ssize_t first = p.cand_ptr[o], k = p.cand_ptr[o + 1] - first
    cdef Py_ssize_t kv = p.cand_ptr[v + 1] - p.cand_ptr[v]
    cdef Py_ssize_t b, at
    for b in range(k):
        if alive[first + b]:
            at = a * k + b if p.edge_u[e] == v else b * kv + a
            if p.pair[p.pair_ptr[e] + at] != -INFINITY:
                return True
    return False


cdef bint goes_with_neighbours(
    Potentials p, Py_ssize_t v, Py_ssize_t a, const int32_t[::1] state
) noexcept nogil:
    """Whether value a of v is compatible with the neighbours that have a value."""
    cdef Py_ssize_t j, o, at
    cdef Py_ssize_t kv = p.cand_ptr[v + 1] - p.cand_ptr[v]
    cdef int32_t e
    for j in range(p.adj_ptr[v], p.adj_ptr[v + 1]):
        e = p.adj_edge[j]
        o = other_end(p, e, v)
        if state[o] < 0:
            continue
        if p.edge_u[e] == v:
            at = a * (p.cand_ptr[o + 1] - p.cand_ptr[o]) + state[o]
        else:
            at = state[o] * kv + a
        if p.pair[p.pair_ptr[e] + at] == -INFINITY:
            return False
    return True


def feasible(
    Potentials p, const int32_t[::1] order, uint8_t[::1] alive, int32_t[::1] state,
    Py_ssize_t limit,
):
    """Find the first allowed state, in the order of the candidates, of a single
    instance.

    Returns (-1, True) if a state was found; otherwise the variable without a value, and
    whether no state exists (False: the search stopped after `limit` steps).
    """
    cdef Py_ssize_t v = 0, a, j, n, end = p.var_ptr[1], steps = 0, deepest = 0, left
    cdef bint changed = True, dead = False, found
    with nogil:
        for a in range(p.cand_ptr[end]):
            alive[a] = 1
        while changed and not dead:
            changed = False
            for n in range(end):
                v = order[n]
                left = 0
                for a in range(p.cand_ptr[v + 1] - p.cand_ptr[v]):
                    if not alive[p.cand_ptr[v] + a]:
                        continue
                    for j in range(p.adj_ptr[v], p.adj_ptr[v + 1]):
                        if not has_partner(p, p.adj_edge[j], v, a, alive):
                            alive[p.cand_ptr[v] + a] = 0
                            changed = True
                            break
                    else:
                        left += 1
                if not left:
                    dead = True
                    break
        if not dead:
            for v in range(end):
                state[v] = -1
            n = 0
            while 0 <= n < end:
                v = order[n]
                found = False
                # after backtracking to v, state[v] is the last value that was tried
                a = state[v] + 1
                state[v] = -1
                while a < p.cand_ptr[v + 1] - p.cand_ptr[v]:
                    steps += 1
                    if alive[p.cand_ptr[v] + a] and goes_with_neighbours(
                        p, v, a, state
                    ):
                        found = True
                        break
                    a += 1
                if steps > limit:
                    break
                if found:
                    state[v] = <int32_t>a
                    n += 1
                    if n > deepest:
                        deepest = n
                else:
                    n -= 1
            if n < end:
                dead = True
                v = order[min(deepest, end - 1)]
    return (int(v) if dead else -1), bool(steps <= limit)


cdef inline void add_edge(
    Potentials p, int32_t e, Py_ssize_t v, const int32_t* state, double* score
) noexcept nogil:
    """Add the potential of edge e for each value of v, given its other end."""
    cdef Py_ssize_t k = p.cand_ptr[v + 1] - p.cand_ptr[v], a, ko
    cdef Py_ssize_t o = other_end(p, e, v)
    cdef const double* theta = &p.pair[p.pair_ptr[e]]
    if p.edge_u[e] == v:
        ko = p.cand_ptr[o + 1] - p.cand_ptr[o]
        for a in range(k):
            score[a] += theta[a * ko + state[o]]
    else:
        theta += state[o] * k
        for a in range(k):
            score[a] += theta[a]


cdef double local_scores(
    Potentials p, Py_ssize_t v, const int32_t* state, double* score
) noexcept nogil:
    """Potentials of the factors at v for each of its values; returns the largest."""
    cdef Py_ssize_t first = p.cand_ptr[v], k = p.cand_ptr[v + 1] - first, j, a
    cdef double best = -INFINITY
    for a in range(k):
        score[a] = p.unary[first + a]
    for j in range(p.adj_ptr[v], p.adj_ptr[v + 1]):
        add_edge(p, p.adj_edge[j], v, state, score)
    for a in range(k):
        if score[a] > best:
            best = score[a]
    return best


cdef bint visit(
    Potentials p, Py_ssize_t v, double t, uint64_t* seed, int32_t* state,
    double* total, double* score,
) noexcept nogil:
    """Draw a value of v given its neighbours; return whether the value changed."""
    cdef Py_ssize_t k = p.cand_ptr[v + 1] - p.cand_ptr[v], now = state[v], a
    if k == 1:
        return False
    a = pick(score, k, local_scores(p, v, state, score), t, now, seed)
    if a == now:
        return False
    total[0] += score[a] - score[now]
    state[v] = <int32_t>a
    return True


cdef bint visit_pair(
    Potentials p, Py_ssize_t e, double t, uint64_t* seed, int32_t* state,
    double* total, double* score,
) noexcept nogil:
    """Draw the values of both ends of e together, given all others.

    score has room for k_u * k_v + k_u + k_v numbers.
    """
    cdef Py_ssize_t u = p.edge_u[e], v = p.edge_v[e]
    cdef Py_ssize_t ku = p.cand_ptr[u + 1] - p.cand_ptr[u]
    cdef Py_ssize_t kv = p.cand_ptr[v + 1] - p.cand_ptr[v]
    cdef Py_ssize_t a, b, j, now = state[u] * kv + state[v]
    cdef double* at_u = score + ku * kv
    cdef double* at_v = at_u + ku
    cdef const double* theta
    cdef int32_t f
    cdef double top = -INFINITY
    for a in range(ku):
        at_u[a] = p.unary[p.cand_ptr[u] + a]
    for b in range(kv):
        at_v[b] = p.unary[p.cand_ptr[v] + b]
    for a in range(ku * kv):
        score[a] = 0.0
    for j in range(p.adj_ptr[u], p.adj_ptr[u + 1]):
        f = p.adj_edge[j]
        theta = &p.pair[p.pair_ptr[f]]
        if other_end(p, f, u) != v:
            add_edge(p, f, u, state, at_u)
        elif p.edge_u[f] == u:
            for a in range(ku * kv):
                score[a] += theta[a]
        else:
            for a in range(ku):
                for b in range(kv):
                    score[a * kv + b] += theta[b * ku + a]
    for j in range(p.adj_ptr[v], p.adj_ptr[v + 1]):
        f = p.adj_edge[j]
        if other_end(p, f, v) != u:
            add_edge(p, f, v, state, at_v)
    for a in range(ku):
        for b in range(kv):
            score[a * kv + b] += at_u[a] + at_v[b]
            if score[a * kv + b] > top:
                top = score[a * kv + b]
    a = pick(score, ku * kv, top, t, now, seed)
    if a == now:
        return False
    total[0] += score[a] - score[now]
    state[u] = <int32_t>(a // kv)
    state[v] = <int32_t>(a % kv)
    return True


cdef inline Py_ssize_t degree(Potentials p, Py_ssize_t v) noexcept nogil:
    return p.adj_ptr[v + 1] - p.adj_ptr[v]


cdef inline int64_t work_at(Potentials p, Py_ssize_t v) noexcept nogil:
    """Cost of drawing a value of v, in multiplications."""
    return 8 * (10 + degree(p, v)) * (p.cand_ptr[v + 1] - p.cand_ptr[v])


def gibbs(
    Potentials p, walk, const double[:, ::1] temperature, Py_ssize_t sweep,
    Py_ssize_t largest_pair, Py_ssize_t most_edges,
):
    """Do sweeps at the temperatures (n_sweeps, n_instances), from row `sweep` on.

    A sweep visits the variables, and then the edges with at most largest_pair pairs of
    values, and draws both ends together; if the ends have n > most_edges edges, only
    with probability most_edges / n. walk has the arrays: score and best_score are the
    scores of state and best_state, and are updated; count is the number of sweeps after
    which the variable had the candidate; best_state and count may be empty, and are
    then not updated. changed[i] tells whether the last sweep changed instance i.
    """
    cdef const uint8_t[::1] active = walk.active
    cdef uint64_t[::1] seed = walk.seed
    cdef int32_t[::1] state = walk.state
    cdef double[::1] score = walk.score
    cdef int32_t[::1] best_state = walk.best_state
    cdef double[::1] best_score = walk.best_score
    cdef double[::1] count = walk.count
    cdef double[::1] buffer = walk.buffer
    cdef uint8_t[::1] changed = walk.changed
    cdef Py_ssize_t i, v, e, s, n, start, size, ends
    cdef int32_t[::1] stop = np.zeros(1, dtype=np.int32)
    cdef Watch watch = watch_of(stop)
    cdef double t
    cdef bint keep_best = best_state.shape[0] > 0, keep_count = count.shape[0] > 0
    cdef bint backward
    with nogil:
        for i in range(p.n_instances):
            if not active[i]:
                continue
            for s in range(temperature.shape[0]):
                t = temperature[s, i]
                changed[i] = 0
                backward = (sweep + s) & 1
                start, size = p.var_ptr[i], p.var_ptr[i + 1] - p.var_ptr[i]
                for n in range(size):
                    v = start + (size - 1 - n if backward else n)
                    if over(&watch, work_at(p, v)):
                        break
                    if visit(
                        p, v, t, &seed[i], &state[0], &score[i], &buffer[0]
                    ):
                        changed[i] = 1
                start, size = p.edge_ptr[i], p.edge_ptr[i + 1] - p.edge_ptr[i]
                for n in range(size if largest_pair > 0 else 0):
                    e = start + (size - 1 - n if backward else n)
                    if size_of_table(p, e) > largest_pair:
                        continue
                    ends = degree(p, p.edge_u[e]) + degree(p, p.edge_v[e])
                    if ends > most_edges and draw_below(&seed[i], ends) >= most_edges:
                        continue
                    if over(
                        &watch,
                        work_at(p, p.edge_u[e]) + work_at(p, p.edge_v[e])
                        + 20 * size_of_table(p, e),
                    ):
                        break
                    if visit_pair(
                        p, e, t, &seed[i], &state[0], &score[i], &buffer[0]
                    ):
                        changed[i] = 1
                if stop[0]:
                    break
                if keep_best and score[i] > best_score[i]:
                    best_score[i] = score[i]
                    for v in range(p.var_ptr[i], p.var_ptr[i + 1]):
                        best_state[v] = state[v]
                if keep_count:
                    for v in range(p.var_ptr[i], p.var_ptr[i + 1]):
                        count[p.cand_ptr[v] + state[v]] += 1.0
    propagate()
