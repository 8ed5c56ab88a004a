"""Kernels of inference from potentials (features and weights are not needed).

A `Potentials` is a block of instances with a number for each candidate, and a table of
k_u * k_v numbers, u-major, for each edge (u, v); edges may share a table; -inf forbids
a pair. Variables, candidates and edges of an instance are contiguous, numbered within
the block.

- `forests`: breadth-first order and parents; O(variables + edges).
- `max_product`: exact maximum on a forest by eliminating leaves first, parallel edges
  between two variables summed; O(sum over edges of k_u k_v).
- `sum_product`: the logarithm of the sum over all states of a forest, and marginals, by
  the same elimination and a pass back; O(sum over edges of k_u k_v), with an
  exponential for each value, not for each pair. Numbers are scaled at each variable; an
  instance in which they still underflow is summed again with logarithms.

`_gibbs_fast` has the kernels for graphs with loops. Arguments are not checked.
"""

from libc.math cimport INFINITY, NAN, exp, log
from libc.stdint cimport int32_t, int64_t, uint8_t

from .._dot cimport dot
from .._exp_sum cimport largest


cdef class Potentials:
    """The arrays of a block; see the top of the file."""

    def __init__(self, structure, const double[::1] unary, const double[::1] pair):
        self.var_ptr = structure.var_ptr
        self.edge_ptr = structure.edge_ptr
        self.cand_ptr = structure.cand_ptr
        self.edge_u = structure.edge_u
        self.edge_v = structure.edge_v
        self.pair_ptr = structure.pair_ptr
        self.adj_ptr = structure.adj_ptr
        self.adj_edge = structure.adj_edge
        self.unary = unary
        self.pair = pair
        self.n_instances = self.var_ptr.shape[0] - 1


# ------------------------------------------------------------------ forests


def forests(structure, int32_t[::1] order, int32_t[::1] parent, uint8_t[::1] is_forest):
    """Breadth-first order of each instance, parents (-1: root), whether it is a forest.

    Parallel edges are not a loop, because their tables can be added.
    """
    cdef const int64_t[::1] var_ptr = structure.var_ptr
    cdef const int64_t[::1] adj_ptr = structure.adj_ptr
    cdef const int32_t[::1] adj_edge = structure.adj_edge
    cdef const int32_t[::1] edge_u = structure.edge_u
    cdef const int32_t[::1] edge_v = structure.edge_v
    cdef Py_ssize_t i, root, head, tail, v, o, j
    cdef int32_t e
    with nogil:
        for i in range(var_ptr.shape[0] - 1):
            is_forest[i] = 1
            for v in range(var_ptr[i], var_ptr[i + 1]):
                parent[v] = -2
            tail = var_ptr[i]
            for root in range(var_ptr[i], var_ptr[i + 1]):
                if parent[root] != -2:
                    continue
                parent[root] = -1
                head = tail
                order[tail] = <int32_t>root
                tail += 1
                while head < tail:
                    v = order[head]
                    head += 1
                    for j in range(adj_ptr[v], adj_ptr[v + 1]):
                        e = adj_edge[j]
                        o = edge_v[e] if edge_u[e] == v else edge_u[e]
                        if parent[o] == -2:
                            parent[o] = <int32_t>v
                            order[tail] = <int32_t>o
                            tail += 1
                        elif o != parent[v] and parent[o] != v:
                            is_forest[i] = 0


cdef struct Table:
    # The factors between a variable v and its parent, n_outer rows of n_inner numbers:
    # by_v tells that the rows are the values of v. ratio is exp(theta - top).
    const double* theta
    const double* ratio
    double top
    Py_ssize_t n_outer
    Py_ssize_t n_inner
    bint by_v
    Py_ssize_t n_edges
    int32_t edge  # the first


cdef Table log_factors(
    Potentials p, Py_ssize_t v, Py_ssize_t up, double* work
) noexcept nogil:
    """The table of v and its parent without ratio; work: sums over parallel edges."""
    cdef Table t
    cdef Py_ssize_t j, a, b
    cdef Py_ssize_t k = p.cand_ptr[v + 1] - p.cand_ptr[v]
    cdef Py_ssize_t ku = p.cand_ptr[up + 1] - p.cand_ptr[up]
    cdef int32_t e
    cdef const double* own
    t.n_edges = 0
    for j in range(p.adj_ptr[v], p.adj_ptr[v + 1]):
        e = p.adj_edge[j]
        if other_end(p, e, v) != up:
            continue
        own = &p.pair[p.pair_ptr[e]]
        t.n_edges += 1
        if t.n_edges == 1:
            t.theta, t.edge = own, e
            t.by_v = p.edge_u[e] == v
            t.n_outer = k if t.by_v else ku
            t.n_inner = ku if t.by_v else k
            continue
        if t.n_edges == 2:
            for a in range(k * ku):
                work[a] = t.theta[a]
            t.theta = work
        if (p.edge_u[e] == v) == t.by_v:
            for a in range(k * ku):
                work[a] += own[a]
        else:
            for a in range(t.n_outer):
                for b in range(t.n_inner):
                    work[a * t.n_inner + b] += own[b * t.n_outer + a]
    return t


def max_product(
    Potentials p, forest, const int64_t[::1] back_ptr, int32_t[::1] back,
    double[::1] message, double[::1] work, int32_t[::1] state,
):
    """Best states of the instances that are forests.

    message: a copy of the unary potentials, which is overwritten. back has, from
    back_ptr[v] on, the best value of v for each value of its parent. work: scratch for
    a table.
    """
    cdef const int32_t[::1] order = forest.order
    cdef const int32_t[::1] parent = forest.parent
    cdef const uint8_t[::1] active = forest.is_forest
    cdef Py_ssize_t i, v, up, a, b, k, ku, n, best, step_a, step_b
    cdef Table t
    cdef double x, top
    cdef double* here
    with nogil:
        for i in range(p.n_instances):
            if not active[i]:
                continue
            for n in range(p.var_ptr[i + 1] - 1, p.var_ptr[i] - 1, -1):
                v = order[n]
                up = parent[v]
                if up < 0:
                    continue
                here = &message[p.cand_ptr[v]]
                k = p.cand_ptr[v + 1] - p.cand_ptr[v]
                ku = p.cand_ptr[up + 1] - p.cand_ptr[up]
                t = log_factors(p, v, up, &work[0])
                step_a = ku if t.by_v else 1
                step_b = 1 if t.by_v else k
                for b in range(ku):
                    best, top = 0, here[0] + t.theta[b * step_b]
                    for a in range(1, k):
                        x = here[a] + t.theta[a * step_a + b * step_b]
                        if x > top:
                            best, top = a, x
                    back[back_ptr[v] + b] = <int32_t>best
                    message[p.cand_ptr[up] + b] += top
            for n in range(p.var_ptr[i], p.var_ptr[i + 1]):
                v = order[n]
                up = parent[v]
                if up >= 0:
                    state[v] = back[back_ptr[v] + state[up]]
                    continue
                here = &message[p.cand_ptr[v]]
                best = 0
                for a in range(1, p.cand_ptr[v + 1] - p.cand_ptr[v]):
                    if here[a] > here[best]:
                        best = a
                state[v] = <int32_t>best


# ------------------------------------------------------------ sums over states

# Smaller sums of products of at most 1 may have lost terms by underflow.
cdef double UNSAFE = 1e-200


cdef class Messages:
    """The arrays of `sum_product`; see its docstring."""

    cdef const int32_t[::1] order, parent
    cdef const int64_t[::1] message_ptr
    cdef const double[::1] ratio, top
    cdef double[::1] belief, message, work, buffer, pair_total


cdef Table table_between(
    Potentials p, Messages s, Py_ssize_t v, Py_ssize_t up
) noexcept nogil:
    """The table of v and its parent, with the ratio."""
    cdef Table t = log_factors(p, v, up, &s.work[0])
    cdef Py_ssize_t a, size = t.n_outer * t.n_inner
    cdef double* ratio = &s.work[0] + size
    if t.n_edges == 1:
        t.ratio = &s.ratio[p.pair_ptr[t.edge]]
        t.top = s.top[t.edge]
        return t
    t.top = largest(size, t.theta)
    for a in range(size):
        ratio[a] = exp(t.theta[a] - t.top)
    t.ratio = ratio
    return t


cdef bint forbids(
    Potentials p, Table t, Py_ssize_t v, Py_ssize_t k, Py_ssize_t b
) noexcept nogil:
    """Whether no value of v is compatible with value b of the parent."""
    cdef Py_ssize_t a
    for a in range(k):
        if (
            p.unary[p.cand_ptr[v] + a] != -INFINITY
            and t.theta[a * t.n_inner + b if t.by_v else b * k + a] != -INFINITY
        ):
            return False
    return True


cdef bint scaled_sums(
    Potentials p, Messages s, Py_ssize_t i, double* log_z
) noexcept nogil:
    """The upward pass without logarithms; False if numbers may have underflowed.

    Sets belief to exp(unary) times the messages of the children, scaled to the maximum
    1, and message to the sums, which are 0 for a value that a child forbids.
    """
    cdef Py_ssize_t n, v, up, a, b, k, ku
    cdef Table t
    cdef double most, total
    cdef double* here
    cdef double* above
    cdef double* sent
    cdef const double* row
    log_z[0] = 0.0
    for v in range(p.var_ptr[i], p.var_ptr[i + 1]):
        here = &s.belief[p.cand_ptr[v]]
        row = &p.unary[p.cand_ptr[v]]
        k = p.cand_ptr[v + 1] - p.cand_ptr[v]
        most = largest(k, row)
        log_z[0] += most
        for a in range(k):
            here[a] = exp(row[a] - most)
    for n in range(p.var_ptr[i + 1] - 1, p.var_ptr[i] - 1, -1):
        v = s.order[n]
        up = s.parent[v]
        here = &s.belief[p.cand_ptr[v]]
        k = p.cand_ptr[v + 1] - p.cand_ptr[v]
        most = largest(k, here)
        if not most >= UNSAFE:
            return False
        log_z[0] += log(most)
        for a in range(k):
            here[a] /= most
        if up < 0:
            total = 0.0
            for a in range(k):
                total += here[a]
            log_z[0] += log(total)
            continue
        t = table_between(p, s, v, up)
        log_z[0] += t.top
        sent = &s.message[s.message_ptr[v]]
        above = &s.belief[p.cand_ptr[up]]
        ku = p.cand_ptr[up + 1] - p.cand_ptr[up]
        if t.by_v:
            for b in range(ku):
                sent[b] = 0.0
            for a in range(k):
                row = t.ratio + a * ku
                total = here[a]
                for b in range(ku):
                    sent[b] += total * row[b]
        else:
            for b in range(ku):
                sent[b] = dot(t.ratio + b * k, here, k)
        for b in range(ku):
            if not sent[b] >= UNSAFE and not forbids(p, t, v, k, b):
                return False
            above[b] *= sent[b]
    return True


cdef void scaled_marginals(
    Potentials p, Messages s, Py_ssize_t i, double weight
) noexcept nogil:
    """The downward pass after `scaled_sums`; sets belief to probabilities.

    p(a, b) = belief(a) ratio(a, b) p(b) / message(b) for value b of the parent. share:
    scratch for the values of a parent and of its child.
    """
    cdef Py_ssize_t n, v, up, a, b, j, k, ku, at
    cdef Table t
    cdef int32_t e
    cdef bint transposed
    cdef double total, x
    cdef double* here
    cdef double* share = &s.buffer[0]
    cdef const double* above
    cdef const double* sent
    cdef double* factor
    cdef const double* row
    cdef double* into
    for n in range(p.var_ptr[i], p.var_ptr[i + 1]):
        v = s.order[n]
        up = s.parent[v]
        here = &s.belief[p.cand_ptr[v]]
        k = p.cand_ptr[v + 1] - p.cand_ptr[v]
        if up < 0:
            total = 0.0
            for a in range(k):
                total += here[a]
            for a in range(k):
                here[a] /= total
            continue
        ku = p.cand_ptr[up + 1] - p.cand_ptr[up]
        factor = share + ku
        t = table_between(p, s, v, up)
        above = &s.belief[p.cand_ptr[up]]
        sent = &s.message[s.message_ptr[v]]
        for b in range(ku):
            share[b] = above[b] / sent[b] if sent[b] > 0.0 else 0.0
        for j in range(p.adj_ptr[v], p.adj_ptr[v + 1]):
            e = p.adj_edge[j]
            if other_end(p, e, v) != up:
                continue
            into = &s.pair_total[p.pair_ptr[e]]
            transposed = (p.edge_u[e] == v) != t.by_v
            if t.by_v:
                for a in range(k):
                    row = t.ratio + a * ku
                    for b in range(ku):
                        x = weight * here[a] * row[b] * share[b]
                        into[b * k + a if transposed else a * ku + b] += x
                continue
            for b in range(ku):
                row = t.ratio + b * k
                x = weight * share[b]
                for a in range(k):
                    at = a * ku + b if transposed else b * k + a
                    into[at] += x * row[a] * here[a]
        if t.by_v:
            for a in range(k):
                here[a] *= dot(t.ratio + a * ku, share, ku)
            continue
        for a in range(k):
            factor[a] = 0.0
        for b in range(ku):
            row = t.ratio + b * k
            x = share[b]
            for a in range(k):
                factor[a] += x * row[a]
        for a in range(k):
            here[a] *= factor[a]


def sum_product(
    Potentials p, forest, const int64_t[::1] message_ptr, const double[::1] ratio,
    const double[::1] top, double[::1] belief, double[::1] message, double[::1] work,
    double[::1] buffer, double[::1] log_z, double[::1] pair_total,
    const double[::1] weight,
):
    """Logarithm of the sum of exp(score) over all states, and marginals, of forests.

    ratio is exp(pair - maximum of the table), top the maximum, by edge. belief: scratch
    for the candidates. If weight has a number for each instance, belief is set to the
    probabilities of the candidates, and the probabilities of pairs, times the weight of
    the instance, are added to the tables of pair_total. message has, from
    message_ptr[v] on, an entry for each value of v's parent. work: scratch for two
    tables; buffer: for two variables. log_z is NaN for an instance whose numbers may
    underflow.
    """
    cdef Py_ssize_t i
    cdef Messages s = Messages.__new__(Messages)
    if not p.var_ptr[p.n_instances]:
        log_z[:] = 0.0
        return
    s.order, s.parent, s.message_ptr = forest.order, forest.parent, message_ptr
    s.ratio, s.top, s.belief, s.message = ratio, top, belief, message
    s.work, s.buffer, s.pair_total = work, buffer, pair_total
    with nogil:
        for i in range(p.n_instances):
            if not scaled_sums(p, s, i, &log_z[i]):
                log_z[i] = NAN
            elif weight.shape[0]:
                scaled_marginals(p, s, i, weight[i])
