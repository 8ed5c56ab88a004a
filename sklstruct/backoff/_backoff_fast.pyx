"""Queries of a back-off model held in flat arrays.

    log P(y | n) = log_prob(a, y) + sum of log_backoff over the nodes below a,

a = the nearest of n and its ancestors that holds a pair for y. The root holds
every class in class order, so its pair of class y is number y and the walk always
ends. The classes of a node are sorted: one binary search per step.

Costs (m = depth of the node, V = classes, p = pairs on the node's path):
log_proba and score_tokens O(m log pairs) a sample, fill_rows O(V + p) a row,
top_k O(p + k log k), sample O(p + V) in the worst case and O(pairs of the first
nodes looked at) mostly, row_sums O(all pairs * m log pairs), once.
"""

from libc.math cimport exp, INFINITY

from ..context_tree._find_fast cimport find_child, find_pair


def log_proba(
    const int[::1] parent,
    const int[::1] pair_ptr,
    const int[::1] target,
    const double[::1] log_prob,
    const double[::1] log_backoff,
    const int[::1] nodes,
    const int[::1] targets,
    double unknown_log_prob,
    double[::1] out,
    int[::1] out_node,
):
    """Log-probability of each target after its node, and the node of its pair.

    A target of -1 is an unknown class: it stands at the root with
    `unknown_log_prob`, so all back-off weights of the path are added.
    """
    cdef Py_ssize_t i
    cdef int node, y, p
    cdef double total
    with nogil:
        for i in range(nodes.shape[0]):
            node = nodes[i]
            y = targets[i]
            total = 0.0
            if y < 0:
                while node:
                    total += log_backoff[node]
                    node = parent[node]
                out[i] = unknown_log_prob + total
            else:
                while True:
                    p = find_pair(pair_ptr, target, node, y)
                    if p >= 0:
                        break
                    total += log_backoff[node]
                    node = parent[node]
                out[i] = log_prob[p] + total
            out_node[i] = node


def score_tokens(
    const int[::1] symbol,
    const int[::1] child_ptr,
    const int[::1] root_child,
    const int[::1] pair_ptr,
    const int[::1] target,
    const double[::1] log_prob,
    const double[::1] log_backoff,
    const int[::1] tokens,
    Py_ssize_t first,
    const int[::1] class_of_token,
    double unknown_log_prob,
    int[::1] path,
    double[::1] out,
    int[::1] out_depth,
):
    """Log-probability of the tokens from `first` on, given the ones before them.

    The history of a token is read backwards until the tree ends, the array ends
    or a token is no context symbol (negative, or root_child.shape[0] and above).
    class_of_token: the class of a token id, -1 = not scored, -2 = unknown class.
    path: scratch for depth of the tree + 1 nodes.
    """
    cdef Py_ssize_t i, j
    cdef int n_symbols = <int>root_child.shape[0]
    cdef int y, s, child, depth, p
    cdef double total
    with nogil:
        for i in range(first, tokens.shape[0]):
            y = -1 if tokens[i] < 0 else class_of_token[tokens[i]]
            if y == -1:
                out[i] = 0.0
                out_depth[i] = -1
                continue
            depth = 0
            path[0] = 0
            j = i - 1
            while j >= 0:
                s = tokens[j]
                if s < 0 or s >= n_symbols:
                    break
                if depth == 0:
                    child = root_child[s]
                else:
                    child = find_child(symbol, child_ptr, path[depth], s)
                if child < 0:
                    break
                depth += 1
                path[depth] = child
                j -= 1
            total = 0.0
            if y < 0:
                while depth:
                    total += log_backoff[path[depth]]
                    depth -= 1
                out[i] = unknown_log_prob + total
            else:
                while True:
                    p = find_pair(pair_ptr, target, path[depth], y)
                    if p >= 0:
                        break
                    total += log_backoff[path[depth]]
                    depth -= 1
                out[i] = log_prob[p] + total
            out_depth[i] = depth


def fill_rows(
    const int[::1] parent,
    const int[::1] pair_ptr,
    const int[::1] target,
    const double[::1] log_prob,
    const double[::1] log_backoff,
    const int[::1] nodes,
    int[::1] path,
    double[::1] path_backoff,
    double[:, ::1] out,
):
    """Whole rows: the root's values first, then every deeper node overwrites.

    path, path_backoff: scratch for depth of the tree + 1 entries.
    """
    cdef Py_ssize_t i
    cdef int n_classes = <int>out.shape[1]
    cdef int node, y, p, k, length
    cdef double total
    with nogil:
        for i in range(nodes.shape[0]):
            node = nodes[i]
            length = 0
            total = 0.0
            while node:
                path[length] = node
                path_backoff[length] = total
                total += log_backoff[node]
                node = parent[node]
                length += 1
            for y in range(n_classes):
                out[i, y] = log_prob[y] + total
            for k in range(length - 1, -1, -1):
                node = path[k]
                total = path_backoff[k]
                for p in range(pair_ptr[node], pair_ptr[node + 1]):
                    out[i, target[p]] = log_prob[p] + total


cdef inline bint worse(double va, int ya, double vb, int yb) noexcept nogil:
    """Does (va, ya) rank after (vb, yb)? Equal values rank by class id."""
    return va < vb or (va == vb and ya > yb)


cdef inline void sift_down(
    double[:, ::1] value, int[:, ::1] label, Py_ssize_t row, int pos, int size
) noexcept nogil:
    cdef int child
    cdef double v = value[row, pos]
    cdef int y = label[row, pos]
    while True:
        child = 2 * pos + 1
        if child >= size:
            break
        if child + 1 < size and worse(
            value[row, child + 1], label[row, child + 1],
            value[row, child], label[row, child],
        ):
            child += 1
        if not worse(value[row, child], label[row, child], v, y):
            break
        value[row, pos] = value[row, child]
        label[row, pos] = label[row, child]
        pos = child
    value[row, pos] = v
    label[row, pos] = y


cdef inline int push(
    double[:, ::1] value, int[:, ::1] label, Py_ssize_t row, int size, int k,
    double v, int y,
) noexcept nogil:
    """Offer a candidate to the heap whose top is the worst kept; new size."""
    cdef int pos, up
    if size < k:
        pos = size
        while pos > 0:
            up = (pos - 1) >> 1
            if not worse(v, y, value[row, up], label[row, up]):
                break
            value[row, pos] = value[row, up]
            label[row, pos] = label[row, up]
            pos = up
        value[row, pos] = v
        label[row, pos] = y
        return size + 1
    if worse(value[row, 0], label[row, 0], v, y):
        value[row, 0] = v
        label[row, 0] = y
        sift_down(value, label, row, 0, k)
    return size


def group_masses(
    const int[::1] parent,
    const int[::1] pair_ptr,
    const int[::1] target,
    const double[::1] log_prob,
    const double[::1] log_backoff,
    const int[::1] group,
    const int[::1] nodes,
    const int[::1] above,
    double[::1] explicit,
    double[:, ::1] mass,
):
    """mass[i, g] <- the sum of P over the classes of group g after nodes[i].

    nodes: in order, with all their ancestors; the first is the root, whose row is
    given. above[i]: where the parent of nodes[i] is among them. explicit: scratch, one
    number a group.

    The classes without a pair share what the parent gives to their group.
    """
    cdef Py_ssize_t i, g, n_groups = mass.shape[1]
    cdef int p, q, n, y
    cdef double scale, total
    cdef double *row
    cdef const double *its
    with nogil:
        for i in range(1, nodes.shape[0]):
            row = &mass[i, 0]
            its = &mass[above[i], 0]
            for g in range(n_groups):
                row[g] = its[g]
                explicit[g] = 0
            for p in range(pair_ptr[nodes[i]], pair_ptr[nodes[i] + 1]):
                y = target[p]
                g = group[y]
                explicit[g] += exp(log_prob[p])
                n, total = parent[nodes[i]], 0.0
                while True:
                    q = find_pair(pair_ptr, target, n, y)
                    if q >= 0:
                        break
                    total += log_backoff[n]
                    n = parent[n]
                row[g] -= exp(log_prob[q] + total)
            scale = exp(log_backoff[nodes[i]])
            for g in range(n_groups):
                # If all classes of a group have pairs a rounding may be left below 0.
                row[g] = explicit[g] + (scale * row[g] if row[g] > 0 else 0)


def top_k(
    const int[::1] parent,
    const int[::1] pair_ptr,
    const int[::1] target,
    const double[::1] log_prob,
    const double[::1] log_backoff,
    const int[::1] root_order,
    const int[::1] nodes,
    int[::1] seen,
    int[:, ::1] out_label,
    double[:, ::1] out_value,
):
    """The k most probable classes of each node, best first, ties by class id.

    root_order: classes by falling probability at the root. Once the path's own
    pairs are in the heap, classes are taken in that order; adding one back-off
    weight keeps it, so the scan stops at the first value below the heap's worst
    (equal values, which rounding can make, still compete by class id).
    seen: (V,) scratch, zeros.
    """
    cdef Py_ssize_t i
    cdef int k = <int>out_label.shape[1]
    cdef int node, y, p, r, size, last, mark
    cdef double total, v
    with nogil:
        for i in range(nodes.shape[0]):
            mark = <int>i + 1
            node = nodes[i]
            size = 0
            total = 0.0
            while node:
                for p in range(pair_ptr[node], pair_ptr[node + 1]):
                    y = target[p]
                    if seen[y] != mark:
                        seen[y] = mark
                        size = push(
                            out_value, out_label, i, size, k, log_prob[p] + total, y
                        )
                total += log_backoff[node]
                node = parent[node]
            for r in range(root_order.shape[0]):
                y = root_order[r]
                v = log_prob[y] + total
                if size == k and v < out_value[i, 0]:
                    break
                if seen[y] != mark:
                    size = push(out_value, out_label, i, size, k, v, y)
            for last in range(k - 1, 0, -1):
                v = out_value[i, last]
                y = out_label[i, last]
                out_value[i, last] = out_value[i, 0]
                out_label[i, last] = out_label[i, 0]
                out_value[i, 0] = v
                out_label[i, 0] = y
                sift_down(out_value, out_label, i, 0, last)


def sample(
    const int[::1] parent,
    const int[::1] pair_ptr,
    const int[::1] target,
    const double[::1] log_prob,
    const double[::1] log_backoff,
    const double[::1] root_prob,
    const double[::1] sampled_mass,
    const int[::1] nodes,
    const double[::1] uniform,
    int skip,
    int[::1] seen,
    int[::1] out,
):
    """One class per node by inversion: the classes in the order deepest pairs
    first, then the classes that only the root holds.

    sampled_mass: the sum of each row without the class `skip` (-1: none), so that
    what is not normalised is sampled in proportion. seen: (V,) scratch, zeros.
    """
    cdef Py_ssize_t i
    cdef int node, y, p, mark, chosen, last
    cdef double total, left, mass, scale
    with nogil:
        for i in range(nodes.shape[0]):
            mark = <int>i + 1
            node = nodes[i]
            left = uniform[i] * sampled_mass[i]
            total = 0.0
            if skip >= 0:
                seen[skip] = mark
            chosen = -1
            # The last class with a positive probability takes what rounding of
            # the sums leaves over.
            last = 1 if skip == 0 else 0
            while node and chosen < 0:
                for p in range(pair_ptr[node], pair_ptr[node + 1]):
                    y = target[p]
                    if seen[y] == mark:
                        continue
                    seen[y] = mark
                    mass = exp(log_prob[p] + total)
                    if mass > 0.0:
                        last = y
                        if left < mass:
                            chosen = y
                            break
                        left -= mass
                total += log_backoff[node]
                node = parent[node]
            if chosen < 0:
                scale = exp(total)
                if scale > 0.0:
                    for y in range(root_prob.shape[0]):
                        if seen[y] == mark:
                            continue
                        mass = root_prob[y] * scale
                        if mass > 0.0:
                            last = y
                            if left < mass:
                                chosen = y
                                break
                            left -= mass
            out[i] = chosen if chosen >= 0 else last


def row_sums(
    const int[::1] parent,
    const int[::1] pair_ptr,
    const int[::1] target,
    const double[::1] log_prob,
    const double[::1] log_backoff,
    double[::1] out,
):
    """Sum over all classes of P(y | n), for every node, in one downward sweep.

        Z(n) = F(n) + bow(n) * (Z(parent) - sum over n's classes of P(y | parent)),

    F(n) = sum of n's own pairs. A node is numbered after its parent, so Z(parent)
    is ready. The two sums are compensated (Neumaier): the difference is multiplied
    by a back-off weight that can be large.
    """
    cdef int n, a, p, q, y
    cdef double own, own_c, taken, taken_c, v, t, total
    with nogil:
        for n in range(parent.shape[0]):
            own = own_c = taken = taken_c = 0.0
            for p in range(pair_ptr[n], pair_ptr[n + 1]):
                v = exp(log_prob[p])
                t = own + v
                own_c += (own - t) + v if own >= v else (v - t) + own
                own = t
                if n == 0:
                    continue
                y = target[p]
                a = parent[n]
                total = 0.0
                while True:
                    q = find_pair(pair_ptr, target, a, y)
                    if q >= 0:
                        break
                    total += log_backoff[a]
                    a = parent[a]
                v = exp(log_prob[q] + total)
                t = taken + v
                taken_c += (taken - t) + v if taken >= v else (v - t) + taken
                taken = t
            if n == 0:
                out[0] = own + own_c
            elif log_backoff[n] == -INFINITY:
                out[n] = own + own_c
            else:
                v = (out[parent[n]] - taken) - taken_c
                out[n] = own + own_c + exp(log_backoff[n]) * v


def advance(
    const int[::1] parent,
    const int[::1] symbol,
    const int[::1] child_ptr,
    const int[::1] root_child,
    const int[::1] states,
    const int[::1] symbols,
    int[::1] path,
    int[::1] out,
):
    """Deepest node of each state's context followed by a symbol; -1: the root.

    The context's symbols, the oldest first, are read on the way up to the root, and
    walked again in the opposite order below the new symbol. path: scratch for depth
    of the tree + 1 symbols. O(depth log children) a state.
    """
    cdef Py_ssize_t i
    cdef int node, child, length
    with nogil:
        for i in range(states.shape[0]):
            if symbols[i] < 0:
                out[i] = 0
                continue
            length = 0
            node = states[i]
            while node:
                path[length] = symbol[node]
                length += 1
                node = parent[node]
            child = root_child[symbols[i]]
            while child >= 0:
                node = child
                if length == 0:
                    break
                length -= 1
                child = find_child(symbol, child_ptr, node, path[length])
            out[i] = node


def counts_of_counts(const double[::1] adjusted, double[::1] n):
    """n[i] += number of pairs with the count i, for 1 <= i < len(n).

    A count between i and i + 1 is shared out to the two in proportion.
    """
    cdef Py_ssize_t p, i, top = n.shape[0] - 1
    cdef double a, rest
    with nogil:
        for p in range(adjusted.shape[0]):
            a = adjusted[p]
            if a < top + 1:
                i = <Py_ssize_t> a
                rest = a - i
                n[i] += 1.0 - rest
                if i < top:
                    n[i + 1] += rest
