"""Kernels of inference: they see potentials, not features or weights.

A `Potentials` is a block of instances with a number for each candidate, and a table
of k_u * k_v numbers, u-major, for each edge (u, v), which edges may share; -inf forbids
a pair. Variables, candidates and edges of an instance are contiguous, numbered within
the block.

- `forests`: breadth-first order and parents; O(variables + edges).
- `max_product`: exact maximum on a forest by eliminating leaves first, parallel edges
  between two variables summed; O(sum over edges of k_u k_v).
- `sum_product`: the logarithm of the sum over all states of a forest, and marginals, by
  the same elimination and back; O(sum over edges of k_u k_v), with an exponential for
  each value, not for each pair. Numbers are scaled at each variable; where they
  underflow nevertheless, logarithms take their place.
- `feasible`: arc consistency, then depth-first search in the order of `forests`, which
  on a forest never goes back.
- `gibbs`: sweeps of Gibbs sampling, each with a temperature of its own (0: the best
  value, which is coordinate ascent); O(degree * k) a variable, and, where the ends of
  an edge are drawn together, O(k_u k_v + degrees * k) an edge.
  Every state that it leaves behind is allowed if the one that it got was.
- `evaluate`: the score of a state.

An `active` flag per instance lets one block hold instances of several kinds. Nothing
is checked here.
"""

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

include "_random.pxi"


cdef class Potentials:
    """The arrays of a block; see the top of the file."""

    cdef readonly Py_ssize_t n_instances
    cdef const int64_t[::1] var_ptr
    cdef const int64_t[::1] edge_ptr
    cdef const int64_t[::1] cand_ptr
    cdef const int32_t[::1] edge_u
    cdef const int32_t[::1] edge_v
    cdef const int64_t[::1] pair_ptr
    cdef const int64_t[::1] adj_ptr
    cdef const int32_t[::1] adj_edge
    cdef const double[::1] unary
    cdef const double[::1] pair

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


cdef inline int32_t other_end(Potentials p, int32_t e, Py_ssize_t v) noexcept nogil:
    return p.edge_v[e] if p.edge_u[e] == v else p.edge_u[e]


cdef inline Py_ssize_t size_of_table(Potentials p, Py_ssize_t e) noexcept nogil:
    cdef Py_ssize_t u = p.edge_u[e], v = p.edge_v[e]
    return (p.cand_ptr[u + 1] - p.cand_ptr[u]) * (p.cand_ptr[v + 1] - p.cand_ptr[v])


# ------------------------------------------------------------------ forests


def forests(
    const int64_t[::1] var_ptr,
    const int64_t[::1] adj_ptr,
    const int32_t[::1] adj_edge,
    const int32_t[::1] edge_u,
    const int32_t[::1] edge_v,
    int32_t[::1] order,
    int32_t[::1] parent,
    uint8_t[::1] is_forest,
):
    """Breadth-first order of each instance, parents (-1: a root), and whether a forest.

    Parallel edges make no loop: their tables can be added.
    """
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


def max_product(
    Potentials p,
    const uint8_t[::1] active,
    const int32_t[::1] order,
    const int32_t[::1] parent,
    const int64_t[::1] back_ptr,
    int32_t[::1] back,
    double[::1] message,
    double[::1] table,
    int32_t[::1] state,
):
    """States of the highest score of the active instances, which must be forests.

    message: a copy of the unary potentials, used up. back holds, from back_ptr[v] on,
    the best value of v for each value of its parent. table has room for the
    largest k_v * k_parent.
    """
    cdef Py_ssize_t i, j, v, up, a, b, k, ku, first, n, root_best
    cdef int32_t e
    cdef double best
    cdef const double* theta
    with nogil:
        for i in range(p.n_instances):
            if not active[i]:
                continue
            for n in range(p.var_ptr[i + 1] - 1, p.var_ptr[i] - 1, -1):
                v = order[n]
                up = parent[v]
                if up < 0:
                    continue
                first = p.cand_ptr[v]
                k = p.cand_ptr[v + 1] - first
                ku = p.cand_ptr[up + 1] - p.cand_ptr[up]
                for a in range(k):
                    for b in range(ku):
                        table[a * ku + b] = message[first + a]
                for j in range(p.adj_ptr[v], p.adj_ptr[v + 1]):
                    e = p.adj_edge[j]
                    if other_end(p, e, v) != up:
                        continue
                    theta = &p.pair[p.pair_ptr[e]]
                    if p.edge_u[e] == v:
                        for a in range(k * ku):
                            table[a] += theta[a]
                    else:
                        for b in range(ku):
                            for a in range(k):
                                table[a * ku + b] += theta[b * k + a]
                for b in range(ku):
                    best = table[b]
                    back[back_ptr[v] + b] = 0
                    for a in range(1, k):
                        if table[a * ku + b] > best:
                            best = table[a * ku + b]
                            back[back_ptr[v] + b] = <int32_t>a
                    message[p.cand_ptr[up] + b] += best
            for n in range(p.var_ptr[i], p.var_ptr[i + 1]):
                v = order[n]
                up = parent[v]
                if up >= 0:
                    state[v] = back[back_ptr[v] + state[up]]
                    continue
                first = p.cand_ptr[v]
                root_best = first
                for a in range(first + 1, p.cand_ptr[v + 1]):
                    if message[a] > message[root_best]:
                        root_best = a
                state[v] = <int32_t>(root_best - first)


# ------------------------------------------------------------ sums over states

# Sums of products of at most 1 that are smaller may have lost terms to underflow.
cdef double UNSAFE = 1e-200


cdef struct Table:
    # The factors between a variable v and its parent, n_outer rows of n_inner numbers:
    # by_v tells that the rows are the values of v. ratio is exp(theta - top).
    const double* theta
    const double* ratio
    double top
    Py_ssize_t n_outer
    Py_ssize_t n_inner
    bint by_v


cdef class Messages:
    """What `sum_product` reads and fills; see there."""

    cdef object keep
    cdef const int32_t* order
    cdef const int32_t* parent
    cdef const int64_t* message_ptr
    cdef const double[::1] ratio
    cdef const double[::1] top
    cdef double* belief
    cdef double* message
    cdef double* work
    cdef double* buffer
    cdef double* pair_total


cdef Table table_between(
    Potentials p, Messages s, Py_ssize_t v, Py_ssize_t up
) noexcept nogil:
    """The table of v and its parent; parallel edges are added up in work."""
    cdef Table t
    cdef double* theta = s.work
    cdef Py_ssize_t j, a, b, n = 0
    cdef Py_ssize_t k = p.cand_ptr[v + 1] - p.cand_ptr[v]
    cdef Py_ssize_t ku = p.cand_ptr[up + 1] - p.cand_ptr[up]
    cdef double* other = theta + k * ku
    cdef int32_t e
    cdef const double* own
    for j in range(p.adj_ptr[v], p.adj_ptr[v + 1]):
        e = p.adj_edge[j]
        if other_end(p, e, v) != up:
            continue
        own = &p.pair[p.pair_ptr[e]]
        n += 1
        if n == 1:
            t.theta = own
            t.ratio = &s.ratio[p.pair_ptr[e]]
            t.top = s.top[e]
            t.by_v = p.edge_u[e] == v
            t.n_outer = k if t.by_v else ku
            t.n_inner = ku if t.by_v else k
            continue
        if n == 2:
            for a in range(k * ku):
                theta[a] = t.theta[a]
            t.theta = theta
        if (p.edge_u[e] == v) == t.by_v:
            for a in range(k * ku):
                theta[a] += own[a]
        else:
            for a in range(t.n_outer):
                for b in range(t.n_inner):
                    theta[a * t.n_inner + b] += own[b * t.n_outer + a]
    if n > 1:
        t.top = -INFINITY
        for a in range(k * ku):
            t.top = max(t.top, theta[a])
        for a in range(k * ku):
            other[a] = exp(theta[a] - t.top)
        t.ratio = other
    return t


cdef double largest(const double* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef double top = -INFINITY
    for i in range(n):
        top = max(top, x[i])
    return top


cdef double log_sum(
    const double* x, const double* theta, Py_ssize_t n, Py_ssize_t step
) noexcept nogil:
    """log of the sum of exp(x[i] + theta[i * step]), without any loss."""
    cdef Py_ssize_t i
    cdef double top = -INFINITY, total = 0.0
    for i in range(n):
        top = max(top, x[i] + theta[i * step])
    if top == -INFINITY:
        return top
    for i in range(n):
        total += exp(x[i] + theta[i * step] - top)
    return top + log(total)


cdef void contract(
    Table t, bint over_outer, const double* x, double* weight, double* out
) noexcept nogil:
    """out[j] = log of the sum over i of exp(x[i] + theta[i, j]), i outer or inner.

    weight is left with exp(x - max x).
    """
    cdef Py_ssize_t i, j
    cdef Py_ssize_t n = t.n_outer if over_outer else t.n_inner
    cdef Py_ssize_t m = t.n_inner if over_outer else t.n_outer
    cdef double top = largest(x, n), total
    cdef const double* row
    if top == -INFINITY:
        for i in range(n):
            weight[i] = 0.0
        for j in range(m):
            out[j] = -INFINITY
        return
    for i in range(n):
        weight[i] = exp(x[i] - top)
    if over_outer:
        for j in range(m):
            out[j] = 0.0
        for i in range(n):
            row = t.ratio + i * m
            total = weight[i]
            for j in range(m):
                out[j] += total * row[j]
    else:
        for j in range(m):
            row = t.ratio + j * n
            total = 0.0
            for i in range(n):
                total += weight[i] * row[i]
            out[j] = total
    for j in range(m):
        if out[j] >= UNSAFE:
            out[j] = top + t.top + log(out[j])
        elif over_outer:
            out[j] = log_sum(x, t.theta + j, n, m)
        else:
            out[j] = log_sum(x, t.theta + j * n, n, 1)


cdef void add_pairs(
    Table t,
    const double* outer,
    const double* inner,
    const double* x,
    const double* y,
    double* total,
    bint turned,
) noexcept nogil:
    """Add the probabilities of the pairs, proportional to exp(x + theta + y).

    outer and inner are exp(x) and exp(y) up to factors; turned: total has the inner
    values as rows.
    """
    cdef Py_ssize_t i, j, n = t.n_outer, m = t.n_inner
    cdef Py_ssize_t step_i = 1 if turned else m, step_j = n if turned else 1
    cdef double z = 0.0, part, low, top = -INFINITY
    cdef const double* row
    cdef double* into
    for i in range(n):
        row = t.ratio + i * m
        part = 0.0
        for j in range(m):
            part += row[j] * inner[j]
        z += outer[i] * part
    if z >= UNSAFE:
        for i in range(n):
            row = t.ratio + i * m
            part = outer[i] / z
            if turned:
                for j in range(m):
                    total[j * n + i] += part * row[j] * inner[j]
            else:
                into = total + i * m
                for j in range(m):
                    into[j] += part * row[j] * inner[j]
        return
    for i in range(n):
        for j in range(m):
            top = max(top, x[i] + t.theta[i * m + j] + y[j])
    z = 0.0
    for i in range(n):
        for j in range(m):
            z += exp(x[i] + t.theta[i * m + j] + y[j] - top)
    low = top + log(z)
    for i in range(n):
        for j in range(m):
            part = exp(x[i] + t.theta[i * m + j] + y[j] - low)
            total[i * step_i + j * step_j] += part


cdef bint scaled_sums(
    Potentials p, Messages s, Py_ssize_t i, double* log_z
) noexcept nogil:
    """The way up with numbers instead of logarithms; False if some may be lost.

    belief is left with exp(unary) times the messages of the children, the largest being
    1, and message with the sums themselves.
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
        here = s.belief + p.cand_ptr[v]
        k = p.cand_ptr[v + 1] - p.cand_ptr[v]
        most = largest(here, k)
        log_z[0] += most
        for a in range(k):
            here[a] = exp(here[a] - most)
    for n in range(p.var_ptr[i + 1] - 1, p.var_ptr[i] - 1, -1):
        v = s.order[n]
        up = s.parent[v]
        here = s.belief + p.cand_ptr[v]
        k = p.cand_ptr[v + 1] - p.cand_ptr[v]
        most = largest(here, k)
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
        sent = s.message + s.message_ptr[v]
        above = s.belief + p.cand_ptr[up]
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
            if not sent[b] >= UNSAFE:
                return False
            above[b] *= sent[b]
    return True


cdef inline double dot(const double* x, const double* y, Py_ssize_t n) noexcept nogil:
    """In four sums, which do not wait for each other."""
    cdef Py_ssize_t i
    cdef double a = 0.0, b = 0.0, c = 0.0, d = 0.0
    for i in range(0, n - 3, 4):
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
    for i in range(n - n % 4, n):
        a += x[i] * y[i]
    return (a + b) + (c + d)


cdef void scaled_marginals(
    Potentials p, Messages s, Py_ssize_t i
) noexcept nogil:
    """The way down after `scaled_sums`; belief is left as probabilities.

    p(a, b) = belief(a) ratio(a, b) p(b) / message(b) for value b of the parent. share
    has room for the values of a parent and of its child.
    """
    cdef Py_ssize_t n, v, up, a, b, j, k, ku
    cdef Table t
    cdef int32_t e
    cdef bint turned
    cdef double total, x
    cdef double* here
    cdef double* share = s.buffer
    cdef const double* above
    cdef const double* sent
    cdef double* factor
    cdef const double* row
    cdef double* into
    for n in range(p.var_ptr[i], p.var_ptr[i + 1]):
        v = s.order[n]
        up = s.parent[v]
        here = s.belief + p.cand_ptr[v]
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
        above = s.belief + p.cand_ptr[up]
        sent = s.message + s.message_ptr[v]
        for b in range(ku):
            share[b] = above[b] / sent[b]
        for j in range(p.adj_ptr[v], p.adj_ptr[v + 1]):
            e = p.adj_edge[j]
            if other_end(p, e, v) != up:
                continue
            into = s.pair_total + p.pair_ptr[e]
            turned = (p.edge_u[e] == v) != t.by_v
            if t.by_v:
                for a in range(k):
                    row = t.ratio + a * ku
                    for b in range(ku):
                        x = here[a] * row[b] * share[b]
                        into[b * k + a if turned else a * ku + b] += x
            elif turned:
                for b in range(ku):
                    row = t.ratio + b * k
                    for a in range(k):
                        into[a * ku + b] += share[b] * row[a] * here[a]
            else:
                for b in range(ku):
                    row = t.ratio + b * k
                    x = share[b]
                    for a in range(k):
                        into[b * k + a] += x * row[a] * here[a]
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


cdef void exact_sums(
    Potentials p, Messages s, Py_ssize_t i, double* log_z
) noexcept nogil:
    """The way up with logarithms, in which nothing is lost."""
    cdef Py_ssize_t n, v, up, b, k
    cdef Table t
    cdef double* sent
    cdef double nothing = 0.0
    log_z[0] = 0.0
    for n in range(p.var_ptr[i + 1] - 1, p.var_ptr[i] - 1, -1):
        v = s.order[n]
        up = s.parent[v]
        k = p.cand_ptr[v + 1] - p.cand_ptr[v]
        if up < 0:
            log_z[0] += log_sum(s.belief + p.cand_ptr[v], &nothing, k, 0)
            continue
        t = table_between(p, s, v, up)
        sent = s.message + s.message_ptr[v]
        contract(t, t.by_v, s.belief + p.cand_ptr[v], s.buffer, sent)
        for b in range(p.cand_ptr[up + 1] - p.cand_ptr[up]):
            s.belief[p.cand_ptr[up] + b] += sent[b]


cdef void exact_marginals(
    Potentials p, Messages s, Py_ssize_t i
) noexcept nogil:
    """The way down after `exact_sums`; belief is left as probabilities.

    buffer has room for two vectors of v's values and two of its parent's.
    """
    cdef Py_ssize_t n, v, up, a, b, j, k, ku
    cdef Table t
    cdef int32_t e
    cdef double most, z
    cdef double* here
    cdef double* down
    cdef double* rest
    cdef double* weight_v
    cdef double* weight_up
    cdef const double* sent
    for n in range(p.var_ptr[i], p.var_ptr[i + 1]):
        v = s.order[n]
        up = s.parent[v]
        if up < 0:
            continue
        here = s.belief + p.cand_ptr[v]
        k = p.cand_ptr[v + 1] - p.cand_ptr[v]
        ku = p.cand_ptr[up + 1] - p.cand_ptr[up]
        weight_v, down = s.buffer, s.buffer + k
        weight_up, rest = s.buffer + 2 * k, s.buffer + 2 * k + ku
        t = table_between(p, s, v, up)
        sent = s.message + s.message_ptr[v]
        # what the parent believes without v; nothing of values that v forbids
        for b in range(ku):
            rest[b] = -INFINITY
            if sent[b] != -INFINITY:
                rest[b] = s.belief[p.cand_ptr[up] + b] - sent[b]
        contract(t, not t.by_v, rest, weight_up, down)
        most = largest(here, k)
        for a in range(k):
            weight_v[a] = exp(here[a] - most)
        for j in range(p.adj_ptr[v], p.adj_ptr[v + 1]):
            e = p.adj_edge[j]
            if other_end(p, e, v) != up:
                continue
            if t.by_v:
                add_pairs(
                    t, weight_v, weight_up, here, rest,
                    s.pair_total + p.pair_ptr[e], p.edge_u[e] != v,
                )
            else:
                add_pairs(
                    t, weight_up, weight_v, rest, here,
                    s.pair_total + p.pair_ptr[e], p.edge_u[e] == v,
                )
        for a in range(k):
            here[a] += down[a]
    for v in range(p.var_ptr[i], p.var_ptr[i + 1]):
        here = s.belief + p.cand_ptr[v]
        k = p.cand_ptr[v + 1] - p.cand_ptr[v]
        most = largest(here, k)
        z = 0.0
        for a in range(k):
            here[a] = exp(here[a] - most)
            z += here[a]
        for a in range(k):
            here[a] /= z


cdef void begin(Potentials p, Py_ssize_t i, double[::1] belief) noexcept nogil:
    cdef Py_ssize_t c
    for c in range(p.cand_ptr[p.var_ptr[i]], p.cand_ptr[p.var_ptr[i + 1]]):
        belief[c] = p.unary[c]


def sum_product(
    Potentials p,
    const int32_t[::1] order,
    const int32_t[::1] parent,
    const int64_t[::1] message_ptr,
    const double[::1] ratio,
    const double[::1] top,
    double[::1] belief,
    double[::1] message,
    double[::1] work,
    double[::1] buffer,
    double[::1] log_z,
    double[::1] pair_total,
    bint marginals,
):
    """log of the sum over all states of exp(score), and marginals; all are forests.

    ratio is exp(pair - the largest of its table), top that largest number, by edge.
    belief: room for the candidates; left as their probabilities if marginals, when also
    those of the pairs are added to the tables of pair_total. message has, from
    message_ptr[v] on, room for the values of v's parent. work has room for two tables,
    buffer for four variables. An instance whose numbers may underflow is done again
    with logarithms.
    """
    cdef Py_ssize_t i
    cdef Messages s = Messages.__new__(Messages)
    if not p.var_ptr[p.n_instances]:
        log_z[:] = 0.0
        return
    s.keep = order, parent, message_ptr, belief, message, work, buffer, pair_total
    s.order, s.parent, s.message_ptr = &order[0], &parent[0], &message_ptr[0]
    s.ratio, s.top, s.belief = ratio, top, &belief[0]
    # Without edges there is nothing in the others.
    s.message = &message[0] if message.shape[0] else NULL
    s.work = &work[0] if work.shape[0] else NULL
    s.buffer = &buffer[0] if buffer.shape[0] else NULL
    s.pair_total = &pair_total[0] if pair_total.shape[0] else NULL
    with nogil:
        for i in range(p.n_instances):
            begin(p, i, belief)
            if scaled_sums(p, s, i, &log_z[i]):
                if marginals:
                    scaled_marginals(p, s, i)
                continue
            begin(p, i, belief)
            exact_sums(p, s, i, &log_z[i])
            if marginals:
                exact_marginals(p, s, i)


# -------------------------------------------------------------- constraints


cdef bint has_partner(
    Potentials p, int32_t e, Py_ssize_t v, Py_ssize_t a, const uint8_t[::1] alive
) noexcept nogil:
    """Whether some value that is alive at the other end of e goes with a at v."""
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
    """Whether value a of v is allowed beside those neighbours that have a value."""
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
    Potentials p,
    Py_ssize_t i,
    const int32_t[::1] order,
    uint8_t[::1] alive,
    int32_t[::1] state,
    Py_ssize_t limit,
):
    """An allowed state of instance i, the first in the order of the candidates.

    Returns (-1, True) if found; else the variable that was left without a value, and
    whether this was proved (False: the search was given up after `limit` steps).
    """
    cdef Py_ssize_t v, a, j, n, start, end, steps = 0, deepest, left
    cdef bint changed = True, dead = False, found
    with nogil:
        start, end = p.var_ptr[i], p.var_ptr[i + 1]
        for a in range(p.cand_ptr[start], p.cand_ptr[end]):
            alive[a] = 1
        v = start
        while changed and not dead:
            changed = False
            for n in range(start, end):
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
            for v in range(start, end):
                state[v] = -1
            n = start
            deepest = start
            while start <= n < end:
                v = order[n]
                found = False
                # state[v] is the value tried last, if the search came back to v
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


# ----------------------------------------------------------------- sampling


cdef inline void add_edge(
    Potentials p, int32_t e, Py_ssize_t v, const int32_t* state, double* score
) noexcept nogil:
    """Add the potential of edge e for each value of v, its other end as it is."""
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


cdef inline Py_ssize_t pick(
    const double* score,
    Py_ssize_t n,
    double top,
    double t,
    Py_ssize_t now,
    uint64_t* seed,
) noexcept nogil:
    """One of n scores, whose largest is top, drawn at temperature t."""
    cdef Py_ssize_t a
    cdef double total = 0.0, u
    if t <= 0.0:
        # the present value wins ties, so that coordinate ascent ends
        if score[now] >= top:
            return now
        for a in range(n):
            if score[a] == top:
                return a
    for a in range(n):
        total += exp((score[a] - top) / t)
    u = draw(seed) * total
    for a in range(n):
        u -= exp((score[a] - top) / t)
        if u < 0.0:
            return a
    return now  # rounding used up all the mass


cdef bint visit(
    Potentials p,
    Py_ssize_t v,
    double t,
    uint64_t* seed,
    int32_t* state,
    double* total,
    double* score,
) noexcept nogil:
    """Draw a value of v given its neighbours; whether it is another one."""
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
    Potentials p,
    Py_ssize_t e,
    double t,
    uint64_t* seed,
    int32_t* state,
    double* total,
    double* score,
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


def gibbs(
    Potentials p,
    const uint8_t[::1] active,
    const double[:, ::1] temperature,
    Py_ssize_t sweep,
    Py_ssize_t largest_pair,
    uint64_t[::1] seed,
    int32_t[::1] state,
    double[::1] score,
    int32_t[::1] best_state,
    double[::1] best_score,
    double[::1] count,
    double[::1] buffer,
    uint8_t[::1] changed,
):
    """Sweeps at the temperatures (n_sweeps, n_instances); the first is number `sweep`.

    A sweep visits the variables, and then the edges with at most largest_pair pairs of
    values, drawing both ends together. score and best_score belong to state and
    best_state and are kept up to date; count of each candidate goes up by one for each
    sweep after which its variable has it; both may be empty, and are then not kept.
    changed[i] tells whether the last sweep changed instance i.
    """
    cdef Py_ssize_t i, v, e, s, n, start, size
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
                    if visit(
                        p, v, t, &seed[i], &state[0], &score[i], &buffer[0]
                    ):
                        changed[i] = 1
                start, size = p.edge_ptr[i], p.edge_ptr[i + 1] - p.edge_ptr[i]
                for n in range(size if largest_pair > 0 else 0):
                    e = start + (size - 1 - n if backward else n)
                    if size_of_table(p, e) <= largest_pair and visit_pair(
                        p, e, t, &seed[i], &state[0], &score[i], &buffer[0]
                    ):
                        changed[i] = 1
                if keep_best and score[i] > best_score[i]:
                    best_score[i] = score[i]
                    for v in range(p.var_ptr[i], p.var_ptr[i + 1]):
                        best_state[v] = state[v]
                if keep_count:
                    for v in range(p.var_ptr[i], p.var_ptr[i + 1]):
                        count[p.cand_ptr[v] + state[v]] += 1.0


def evaluate(Potentials p, const int32_t[::1] state, double[::1] score):
    """The score of each instance's state."""
    cdef Py_ssize_t i, v, e, ko
    cdef double total
    with nogil:
        for i in range(p.n_instances):
            total = 0.0
            for v in range(p.var_ptr[i], p.var_ptr[i + 1]):
                total += p.unary[p.cand_ptr[v] + state[v]]
            for e in range(p.edge_ptr[i], p.edge_ptr[i + 1]):
                ko = p.cand_ptr[p.edge_v[e] + 1] - p.cand_ptr[p.edge_v[e]]
                total += p.pair[
                    p.pair_ptr[e] + state[p.edge_u[e]] * ko + state[p.edge_v[e]]
                ]
            score[i] = total
