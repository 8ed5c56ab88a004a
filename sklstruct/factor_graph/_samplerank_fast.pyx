"""Kernels on features and weights: scores, and the learning walk.

A `Graphs` is a set of instances, packed. The weights are one array: features crossed
with kinds (row-major, kinds last), candidate features, then for each edge type edge
features crossed with two kinds and pair features. A kind of -1 has no weights.

- `potentials`: the scores of each candidate and of each edge's pairs of values.
- `expected_features`: its adjoint, sums of features under given probabilities.
- `walk`: SampleRank (Wick et al. 2009). A visit of a variable compares its values with
  the neighbours held fixed, so only the factors at that variable are scored:
  O(k * (features + degree * edge features)). An update touches the weights of the
  features that differ; the average is kept by the sum of step number times change, so
  it costs nothing between updates.
- `visit`, `change` and `update`: the same steps one by one, for losses and proposals in
  Python.

The walk keeps its position between calls, so that it can be run in slices. Arguments
are not checked.
"""

from libc.math cimport INFINITY, exp, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

import numpy as np

from .._random cimport draw, draw_below, pick

PERCEPTRON = 0
PASSIVE_AGGRESSIVE = 1
ADAGRAD = 2

GIBBS = 0
UNIFORM = 1


cdef class Graphs:
    """Packed instances; see the top of the file."""

    cdef const int64_t[::1] var_ptr, cand_ptr, adj_ptr
    cdef const int32_t[::1] adj_edge, edge_u, edge_v, edge_type, kind
    cdef const uint8_t[::1] has_all_kinds, allowed
    # Rows of features: of variables, of candidates (own), of edges (cross), of pairs.
    cdef const int64_t[::1] feature_ptr, own_ptr, cross_ptr, pair_ptr
    cdef const int32_t[::1] feature_index, own_index, cross_index, pair_index
    cdef const double[::1] feature_value, own_value, cross_value, pair_value
    # The first row of pairs and the first entry of `allowed` of each edge, or -1.
    cdef const int64_t[::1] pair_first, mask_first
    # The first weight of each edge type, and of the candidate features.
    cdef const int64_t[::1] cross_offset, pair_offset
    cdef int64_t own_offset
    cdef Py_ssize_t n_kinds

    def __init__(self, packed):
        layout = packed.layout
        self.var_ptr = packed.var_ptr
        self.cand_ptr = packed.cand_ptr
        self.kind = packed.kind
        self.has_all_kinds = packed.has_all_kinds
        self.feature_ptr, self.feature_index, self.feature_value = packed.features
        self.own_ptr, self.own_index, self.own_value = packed.candidate_features
        self.edge_u = packed.edge_u
        self.edge_v = packed.edge_v
        self.edge_type = packed.edge_type
        self.cross_ptr, self.cross_index, self.cross_value = packed.edge_features
        self.pair_first = packed.pair_first
        self.pair_ptr, self.pair_index, self.pair_value = packed.pair_features
        self.mask_first = packed.mask_first
        self.allowed = packed.allowed
        self.adj_ptr = packed.adj_ptr
        self.adj_edge = packed.adj_edge
        self.n_kinds = layout.n_kinds
        self.own_offset = layout.own_offset
        self.cross_offset = layout.cross_offset
        self.pair_offset = layout.pair_offset


cdef class Learner:
    """Weights, their running sum, and the workspace of updates.

    moment is the sum of squared changes (AdaGrad), total the sum of step number times
    change. delta, seen and touched are a sparse difference of features, empty between
    updates.
    """

    cdef readonly object coef
    cdef double[::1] w, total, moment, delta
    cdef uint8_t[::1] seen
    cdef int32_t[::1] touched
    cdef Py_ssize_t n_touched
    cdef int rule
    cdef double rate, margin, temperature
    cdef uint64_t seed
    cdef readonly int64_t n_proposals, n_updates

    def __init__(
        self, coef, int rule, double rate, double margin, double temperature, seed
    ):
        n = coef.shape[0]
        self.coef = coef
        self.w = coef
        self.total = np.zeros(n)
        self.moment = np.zeros(n if rule == ADAGRAD else 0)
        self.delta = np.zeros(n)
        self.seen = np.zeros(n, dtype=np.uint8)
        self.touched = np.zeros(n, dtype=np.int32)
        self.rule = rule
        self.rate = rate
        self.margin = margin
        self.temperature = temperature
        self.seed = seed

    def average(self):
        """Mean of the weights over all proposals so far."""
        return self.coef - np.asarray(self.total) / max(self.n_proposals, 1)


cdef inline Py_ssize_t size_of(Graphs g, Py_ssize_t v) noexcept nogil:
    return g.cand_ptr[v + 1] - g.cand_ptr[v]


cdef inline int32_t other_end(Graphs g, int32_t e, Py_ssize_t v) noexcept nogil:
    return g.edge_v[e] if g.edge_u[e] == v else g.edge_u[e]


cdef double row_score(
    const int64_t[::1] ptr, const int32_t[::1] index, const double[::1] value,
    Py_ssize_t row, const double* w,
) noexcept nogil:
    cdef double s = 0.0
    cdef Py_ssize_t f
    for f in range(ptr[row], ptr[row + 1]):
        s += value[f] * w[index[f]]
    return s


cdef void unary_scores(
    Graphs g, const double* w, Py_ssize_t v, double* score
) noexcept nogil:
    cdef Py_ssize_t first = g.cand_ptr[v], k = size_of(g, v), f, a
    cdef double x
    cdef const double* row
    for a in range(k):
        score[a] = row_score(
            g.own_ptr, g.own_index, g.own_value, first + a, w + g.own_offset
        )
    for f in range(g.feature_ptr[v], g.feature_ptr[v + 1]):
        x = g.feature_value[f]
        row = w + <Py_ssize_t>g.feature_index[f] * g.n_kinds
        if g.has_all_kinds[v]:
            for a in range(k):
                score[a] += x * row[a]
            continue
        for a in range(k):
            if g.kind[first + a] >= 0:
                score[a] += x * row[g.kind[first + a]]


cdef void add_edge_scores(
    Graphs g, const double* w, int32_t e, bint as_u, Py_ssize_t v, Py_ssize_t other,
    Py_ssize_t b, double* score,
) noexcept nogil:
    """Add the factor of edge e for each value of v, the other end having value b."""
    cdef Py_ssize_t first = g.cand_ptr[v], k = size_of(g, v), f, a, at
    cdef Py_ssize_t n_kinds = g.n_kinds, step_a, step_b
    cdef Py_ssize_t kind_b = g.kind[g.cand_ptr[other] + b]
    cdef double x
    cdef const double* row
    if kind_b >= 0:
        step_a = n_kinds if as_u else 1
        step_b = 1 if as_u else n_kinds
        for f in range(g.cross_ptr[e], g.cross_ptr[e + 1]):
            x = g.cross_value[f]
            row = (
                w + g.cross_offset[g.edge_type[e]]
                + <Py_ssize_t>g.cross_index[f] * n_kinds * n_kinds + kind_b * step_b
            )
            for a in range(k):
                if g.kind[first + a] >= 0:
                    score[a] += x * row[g.kind[first + a] * step_a]
    step_a = size_of(g, other) if as_u else 1
    step_b = 1 if as_u else k
    if g.pair_first[e] >= 0:
        row = w + g.pair_offset[g.edge_type[e]]
        for a in range(k):
            at = g.pair_first[e] + a * step_a + b * step_b
            score[a] += row_score(g.pair_ptr, g.pair_index, g.pair_value, at, row)
    if g.mask_first[e] >= 0:
        for a in range(k):
            if not g.allowed[g.mask_first[e] + a * step_a + b * step_b]:
                score[a] = -INFINITY


cdef void local_scores(
    Graphs g, const double* w, const int32_t[::1] state, Py_ssize_t v, double* score
) noexcept nogil:
    """Scores of the factors at v for each of its values."""
    cdef Py_ssize_t j, other
    cdef int32_t e
    unary_scores(g, w, v, score)
    for j in range(g.adj_ptr[v], g.adj_ptr[v + 1]):
        e = g.adj_edge[j]
        other = other_end(g, e, v)
        add_edge_scores(g, w, e, g.edge_u[e] == v, v, other, state[other], score)


def potentials(
    Graphs g, const double[::1] w, Py_ssize_t variable, Py_ssize_t variable_end,
    Py_ssize_t edge, Py_ssize_t edge_end, double[::1] unary, double[::1] pair,
):
    """Scores of the candidates of some variables, and of the pairs of some edges.

    Both outputs begin with the first requested variable and edge.
    """
    cdef Py_ssize_t v, e, a, b, k, ko, at = 0
    cdef Py_ssize_t start = g.cand_ptr[variable]
    cdef double* row
    with nogil:
        for v in range(variable, variable_end):
            if size_of(g, v):
                unary_scores(g, &w[0], v, &unary[g.cand_ptr[v] - start])
        for e in range(edge, edge_end):
            k, ko = size_of(g, g.edge_u[e]), size_of(g, g.edge_v[e])
            for a in range(k):
                row = &pair[at + a * ko]
                for b in range(ko):
                    row[b] = 0.0
                add_edge_scores(
                    g, &w[0], <int32_t>e, False, g.edge_v[e], g.edge_u[e], a, row
                )
            at += k * ko


def expected_features(
    Graphs g, const double[::1] unary, Py_ssize_t variable, Py_ssize_t variable_end,
    const double[::1] pair, Py_ssize_t edge, Py_ssize_t edge_end, double[::1] total,
):
    """Add the features of some candidates and pairs, times the given numbers.

    unary and pair have the layout of `potentials`: the two functions are the products
    with a matrix and with its transpose.
    """
    cdef Py_ssize_t v, e, a, b, c, f, k, ko, first, at = 0, n_kinds = g.n_kinds
    cdef Py_ssize_t start = g.cand_ptr[variable], row, offset, kind_a, kind_b
    cdef double x
    cdef double* into
    with nogil:
        for v in range(variable, variable_end):
            first, k = g.cand_ptr[v], size_of(g, v)
            for c in range(first, first + k):
                x = unary[c - start]
                for f in range(g.own_ptr[c], g.own_ptr[c + 1]):
                    total[g.own_offset + g.own_index[f]] += x * g.own_value[f]
            for f in range(g.feature_ptr[v], g.feature_ptr[v + 1]):
                x = g.feature_value[f]
                into = &total[<Py_ssize_t>g.feature_index[f] * n_kinds]
                if g.has_all_kinds[v]:
                    for a in range(k):
                        into[a] += x * unary[first - start + a]
                    continue
                for c in range(first, first + k):
                    if g.kind[c] >= 0:
                        into[g.kind[c]] += x * unary[c - start]
        for e in range(edge, edge_end):
            k, ko = size_of(g, g.edge_u[e]), size_of(g, g.edge_v[e])
            for a in range(k):
                kind_a = g.kind[g.cand_ptr[g.edge_u[e]] + a]
                for b in range(ko):
                    kind_b = g.kind[g.cand_ptr[g.edge_v[e]] + b]
                    x = pair[at + a * ko + b]
                    if kind_a >= 0 and kind_b >= 0:
                        for f in range(g.cross_ptr[e], g.cross_ptr[e + 1]):
                            row = <Py_ssize_t>g.cross_index[f] * n_kinds + kind_a
                            offset = g.cross_offset[g.edge_type[e]] + row * n_kinds
                            total[offset + kind_b] += x * g.cross_value[f]
                    if g.pair_first[e] >= 0:
                        row = g.pair_first[e] + a * ko + b
                        offset = g.pair_offset[g.edge_type[e]]
                        for f in range(g.pair_ptr[row], g.pair_ptr[row + 1]):
                            total[offset + g.pair_index[f]] += x * g.pair_value[f]
            at += k * ko


cdef inline void add(Learner learner, Py_ssize_t at, double x) noexcept nogil:
    if not learner.seen[at]:
        learner.seen[at] = 1
        learner.touched[learner.n_touched] = <int32_t>at
        learner.n_touched += 1
    learner.delta[at] += x


cdef void add_variable(
    Graphs g, Learner learner, Py_ssize_t v, Py_ssize_t a, double sign
) noexcept nogil:
    cdef Py_ssize_t f, c = g.cand_ptr[v] + a
    for f in range(g.own_ptr[c], g.own_ptr[c + 1]):
        add(learner, g.own_offset + g.own_index[f], sign * g.own_value[f])
    if g.kind[c] >= 0:
        for f in range(g.feature_ptr[v], g.feature_ptr[v + 1]):
            add(
                learner,
                <Py_ssize_t>g.feature_index[f] * g.n_kinds + g.kind[c],
                sign * g.feature_value[f],
            )


cdef void add_edge(
    Graphs g, Learner learner, int32_t e, Py_ssize_t a, Py_ssize_t b, double sign
) noexcept nogil:
    """Value a at edge_u[e], value b at edge_v[e]."""
    cdef Py_ssize_t f, row, t = g.edge_type[e], n_kinds = g.n_kinds
    cdef Py_ssize_t kind_a = g.kind[g.cand_ptr[g.edge_u[e]] + a]
    cdef Py_ssize_t kind_b = g.kind[g.cand_ptr[g.edge_v[e]] + b]
    if kind_a >= 0 and kind_b >= 0:
        for f in range(g.cross_ptr[e], g.cross_ptr[e + 1]):
            row = <Py_ssize_t>g.cross_index[f] * n_kinds + kind_a
            add(
                learner,
                g.cross_offset[t] + row * n_kinds + kind_b,
                sign * g.cross_value[f],
            )
    if g.pair_first[e] >= 0:
        row = g.pair_first[e] + a * size_of(g, g.edge_v[e]) + b
        for f in range(g.pair_ptr[row], g.pair_ptr[row + 1]):
            add(learner, g.pair_offset[t] + g.pair_index[f], sign * g.pair_value[f])


cdef void add_difference(
    Graphs g, Learner learner, const int32_t[::1] state, Py_ssize_t v,
    Py_ssize_t better, Py_ssize_t worse,
) noexcept nogil:
    """Features of the state with v = better minus features with v = worse."""
    cdef Py_ssize_t j, b
    cdef int32_t e
    add_variable(g, learner, v, better, 1.0)
    add_variable(g, learner, v, worse, -1.0)
    for j in range(g.adj_ptr[v], g.adj_ptr[v + 1]):
        e = g.adj_edge[j]
        b = state[other_end(g, e, v)]
        if g.edge_u[e] == v:
            add_edge(g, learner, e, better, b, 1.0)
            add_edge(g, learner, e, worse, b, -1.0)
        else:
            add_edge(g, learner, e, b, better, 1.0)
            add_edge(g, learner, e, b, worse, -1.0)


cdef void step(Learner learner, double score, double wanted) noexcept nogil:
    """Update along the difference, whose score is below `wanted`; then clear it."""
    cdef Py_ssize_t i, at
    cdef double tau = learner.rate, squares = 0.0, d, move
    for i in range(learner.n_touched):
        d = learner.delta[learner.touched[i]]
        squares += d * d
    if squares > 0.0:
        learner.n_updates += 1
    if learner.rule == 1:
        # Crammer et al. (2006), PA-I; a tie with margin 0 has loss 0, so no update
        tau = 0.0 if squares == 0.0 else min((wanted - score) / squares, learner.rate)
    for i in range(learner.n_touched):
        at = learner.touched[i]
        d = learner.delta[at]
        if d == 0.0:
            continue
        move = tau * d
        if learner.rule == 2:
            learner.moment[at] += d * d
            move /= sqrt(learner.moment[at])
        learner.w[at] += move
        learner.total[at] += move * learner.n_proposals
    for i in range(learner.n_touched):
        learner.delta[learner.touched[i]] = 0.0
        learner.seen[learner.touched[i]] = 0
    learner.n_touched = 0


cdef inline bint violates(Learner learner, double score, double gain) noexcept nogil:
    """Whether the better state does not win, or wins by less than the margin.

    A margin that is met up to rounding counts as met: passive-aggressive steps end
    there.
    """
    return score <= 0.0 or score < learner.margin * gain * (1.0 - 1e-9)


cdef Py_ssize_t visit_all_values(
    Graphs g, Learner learner, const double[::1] cost, const int32_t[::1] state,
    Py_ssize_t v, double* score,
) noexcept nogil:
    """Compare the best value of v with its strongest rival; draw the next value.

    The rival is the value with the highest score plus margin among the values of larger
    loss, which violates the ranking most.
    """
    cdef Py_ssize_t first = g.cand_ptr[v], k = size_of(g, v), a
    cdef Py_ssize_t best = -1, rival = -1, now
    cdef double x, top = -INFINITY, rival_score = -INFINITY
    local_scores(g, &learner.w[0], state, v, score)
    for a in range(k):
        if score[a] == -INFINITY:
            continue
        if (
            best < 0 or cost[first + a] < cost[first + best]
            or (cost[first + a] == cost[first + best] and score[a] > score[best])
        ):
            best = a
        if score[a] > top:
            top = score[a]
    for a in range(k):
        if cost[first + a] > cost[first + best]:
            x = score[a] + learner.margin * (cost[first + a] - cost[first + best])
            if x > rival_score:
                rival, rival_score = a, x
    learner.n_proposals += k - 1
    # the next value is drawn by the scores from before the update
    now = pick(score, k, top, learner.temperature, state[v], &learner.seed)
    if rival >= 0:
        x = cost[first + rival] - cost[first + best]
        if violates(learner, score[best] - score[rival], x):
            add_difference(g, learner, state, v, best, rival)
            step(learner, score[best] - score[rival], learner.margin * x)
    return now


cdef Py_ssize_t visit_one_value(
    Graphs g, Learner learner, const double[::1] cost, const int32_t[::1] state,
    Py_ssize_t v, double* score,
) noexcept nogil:
    """Compare the current value of v with another random value; Metropolis step."""
    cdef Py_ssize_t first = g.cand_ptr[v], k = size_of(g, v)
    cdef Py_ssize_t now = state[v], new, after
    cdef double rise, gain
    new = draw_below(&learner.seed, k - 1)
    new += new >= now
    learner.n_proposals += 1
    local_scores(g, &learner.w[0], state, v, score)
    if score[new] == -INFINITY:
        return now
    rise = score[new] - score[now]
    # A random number is drawn only for a step to a lower score.
    after = new if rise >= 0.0 or (
        learner.temperature > 0.0
        and draw(&learner.seed) < exp(rise / learner.temperature)
    ) else now
    gain = cost[first + now] - cost[first + new]
    if gain > 0.0 and violates(learner, rise, gain):
        add_difference(g, learner, state, v, new, now)
        step(learner, rise, learner.margin * gain)
    elif gain < 0.0 and violates(learner, -rise, -gain):
        add_difference(g, learner, state, v, now, new)
        step(learner, -rise, -learner.margin * gain)
    return after


def walk(
    Graphs g, Learner learner, const double[::1] cost, const int32_t[::1] instances,
    int proposal, int32_t[::1] state, int64_t[::1] place, int32_t[::1] scan,
    double[::1] score, Py_ssize_t budget,
):
    """Visit the instances in order; stop when done (True), or after about `budget`.

    Every variable that has a choice is visited once, in random order. place = (position
    in instances, number of visits there; -1 before the order is drawn), scan: the order
    of the variables of the current instance. cost: loss of each candidate. With budget
    1 a call draws an order or visits one variable.
    """
    cdef Py_ssize_t i, v, size, start, x, spent = 0, times, r, _repeat
    with nogil:
        while place[0] < instances.shape[0] and spent < budget:
            i = instances[place[0]]
            start, size = g.var_ptr[i], g.var_ptr[i + 1] - g.var_ptr[i]
            if place[1] < 0:
                for x in range(size):
                    scan[x] = <int32_t>x
                for x in range(size - 1, 0, -1):
                    r = draw_below(&learner.seed, x + 1)
                    scan[x], scan[r] = scan[r], scan[x]
                place[1] = 0
                spent += 1
            while place[1] < size and spent < budget:
                v = start + scan[place[1]]
                place[1] += 1
                times = size_of(g, v) - 1
                spent += 1 + (times + 1) * (
                    1 + g.feature_ptr[v + 1] - g.feature_ptr[v]
                    + g.adj_ptr[v + 1] - g.adj_ptr[v]
                ) * (1 if proposal == 0 else times)
                # uniform proposals: v is visited once per alternative value
                if times and proposal == 0:
                    r = visit_all_values(g, learner, cost, state, v, &score[0])
                    state[v] = <int32_t>r
                    continue
                for _repeat in range(times):
                    r = visit_one_value(g, learner, cost, state, v, &score[0])
                    state[v] = <int32_t>r
            if place[1] < size:
                break
            place[0] += 1
            place[1] = -1
    return bool(place[0] == instances.shape[0])


def value_scores(
    Graphs g, Learner learner, const int32_t[::1] state, Py_ssize_t v,
    double[::1] score,
):
    """Scores of the factors at v for each of its values; -inf: a forbidden pair."""
    local_scores(g, &learner.w[0], state, v, &score[0])
