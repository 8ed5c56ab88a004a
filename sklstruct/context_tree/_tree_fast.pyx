"""Kernels that build a context tree from n samples of at most m symbols of history.

A sample is an offset into one flat array of symbol ids: its k-th most recent
symbol is ``flat[offset - k]``, and an id of -1 ends the history. Rows of a
2-D array of windows, and positions of one token stream, are both of this
form, so no window is ever copied.

Nodes: level by level, two counting sorts bring the samples of the nodes of a level
into the order of node and next symbol, so that the samples of a child are
neighbours. Children with too small a weight are left out with their descendants. The
collapsed tree sorts whole contexts instead, symbol by symbol from the oldest on. Cost
O((n + S + N) m) time and O(n + N) memory, with no hashing and no Python object.

Pairs: with the samples in the order of their target, one counting sort by
node per level makes equal (node, target) pairs neighbours; O((n + N) m).

The order of nodes (by level, then lexicographic) is canonical: it does not
depend on the order of the samples.
"""

from libc.math cimport floor
from libc.stdint cimport INT32_MAX, int32_t, int64_t
from libc.string cimport memset

from .._sorted cimport find_child


def history_lengths(const int32_t[::1] flat, const int64_t[::1] offset,
                    int32_t max_depth, int32_t[::1] length):
    """length[i] = number of symbols before sample i, at most max_depth."""
    cdef Py_ssize_t i, n = offset.shape[0]
    cdef int32_t k
    cdef int64_t o
    with nogil:
        for i in range(n):
            o = offset[i]
            k = 0
            while k < max_depth and o - k - 1 >= 0 and flat[o - k - 1] >= 0:
                k += 1
            length[i] = k


def common_prefixes(const int32_t[::1] flat, const int64_t[::1] offset,
                    const int32_t[::1] length, const int32_t[::1] order,
                    int32_t[::1] lcp):
    """lcp[j] = symbols that sample order[j] shares with sample order[j - 1]."""
    cdef Py_ssize_t j, n = order.shape[0]
    cdef int32_t k, limit
    cdef int32_t a, b
    with nogil:
        if n > 0:
            lcp[0] = 0
        for j in range(1, n):
            a = order[j - 1]
            b = order[j]
            limit = length[a] if length[a] < length[b] else length[b]
            k = 0
            while (k < limit
                   and flat[offset[a] - k - 1] == flat[offset[b] - k - 1]):
                k += 1
            lcp[j] = k


def column(const int32_t[::1] flat, const int64_t[::1] offset,
           const int32_t[::1] length, int32_t k, int32_t[::1] symbol):
    """symbol[i] = k-th most recent symbol of sample i, -1 if its history is shorter."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(offset.shape[0]):
            symbol[i] = flat[offset[i] - k] if length[i] >= k else -1


def sort_level(const int32_t[::1] symbol, const int32_t[::1] node, int32_t first,
               int32_t[::1] bucket, int32_t[::1] by_symbol, int32_t[::1] order):
    """The samples at a node of at least `first` that have a symbol, by both.

    Two counting sorts; bucket has room for the symbols and for the nodes from `first`
    on. Returns their number: the sorted samples are order[:number].
    """
    cdef Py_ssize_t i, j, n = symbol.shape[0], n_bucket = bucket.shape[0]
    cdef Py_ssize_t n_here = 0
    cdef int32_t at
    with nogil:
        memset(&bucket[0], 0, n_bucket * sizeof(int32_t))
        for i in range(n):
            if node[i] >= first and symbol[i] >= 0:
                bucket[symbol[i]] += 1
                n_here += 1
        _add_before(&bucket[0], n_bucket, 0)
        for i in range(n):
            if node[i] >= first and symbol[i] >= 0:
                at = bucket[symbol[i]]
                by_symbol[at] = <int32_t> i
                bucket[symbol[i]] = at + 1
        memset(&bucket[0], 0, n_bucket * sizeof(int32_t))
        for j in range(n_here):
            bucket[node[by_symbol[j]] - first] += 1
        _add_before(&bucket[0], n_bucket, 0)
        for j in range(n_here):
            i = by_symbol[j]
            at = bucket[node[i] - first]
            order[at] = <int32_t> i
            bucket[node[i] - first] = at + 1
    return n_here


cdef int32_t _add_before(int32_t *bucket, Py_ssize_t n, int32_t total) noexcept nogil:
    """Replace each entry by `total` plus the entries before it; return the sum of
    all."""
    cdef Py_ssize_t j
    cdef int32_t c
    for j in range(n):
        c = bucket[j]
        bucket[j] = total
        total += c
    return total


def next_level(const int32_t[::1] symbol, const double[::1] weight, double least,
               int32_t n_nodes, int32_t[::1] node, int32_t[::1] order,
               int32_t[::1] parent):
    """Create the children of the last level with weight at least `least`; return their
    number.

    order: the samples of `sort_level`; overwritten with the symbols of the children,
    as `parent` is with their parents. The children are numbered from n_nodes on, and
    become the node of their samples, unless there are more than ids: then only the
    number is right. weight: empty for 1 each.
    """
    cdef Py_ssize_t j = 0, last, q, n = order.shape[0]
    cdef int64_t n_new = 0
    cdef int32_t above, s
    cdef double total
    with nogil:
        while j < n:
            above = node[order[j]]
            s = symbol[order[j]]
            total = 0.0
            last = j
            while last < n and node[order[last]] == above and symbol[order[last]] == s:
                total += weight[order[last]] if weight.shape[0] else 1.0
                last += 1
            if total >= least:
                if n_nodes + n_new < INT32_MAX:
                    for q in range(j, last):
                        node[order[q]] = <int32_t> (n_nodes + n_new)
                # There are no more children than samples before this one.
                parent[n_new] = above
                order[n_new] = s
                n_new += 1
            j = last
    return n_new


def collapse_nodes(const int32_t[::1] length, const int32_t[::1] order,
                   const int32_t[::1] lcp, int32_t[::1] stack_depth,
                   int32_t[::1] stack_node, int32_t[::1] parent,
                   int32_t[::1] depth, int32_t[::1] first, int32_t[::1] terminal):
    """Nodes of the suffix tree, in order of creation (not yet canonical).

    A context is a node iff it branches or some sample ends there; these are
    the lcp-intervals of the sorted contexts together with the samples' ends.
    The stack holds the rightmost path. A node split off between two nodes
    (depth lcp) is inserted below the popped one, whose parent becomes it.
    first[node] = rank of one sample that passes through the node.
    Returns the number of nodes (at most 2 n + 1).
    """
    cdef Py_ssize_t j, n = order.shape[0]
    cdef int32_t top = 0, n_nodes = 1, d, l, popped, i
    with nogil:
        stack_depth[0] = 0
        stack_node[0] = 0
        parent[0] = -1
        depth[0] = 0
        first[0] = 0
        for j in range(n):
            i = order[j]
            d = length[i]
            l = lcp[j] if j > 0 else 0
            popped = -1
            while stack_depth[top] > l:
                popped = stack_node[top]
                top -= 1
            if stack_depth[top] < l:
                # The new sample leaves the edge above `popped` half-way.
                parent[n_nodes] = stack_node[top]
                depth[n_nodes] = l
                first[n_nodes] = first[popped]
                parent[popped] = n_nodes
                top += 1
                stack_depth[top] = l
                stack_node[top] = n_nodes
                n_nodes += 1
            if d > l:
                parent[n_nodes] = stack_node[top]
                depth[n_nodes] = d
                first[n_nodes] = <int32_t> j
                top += 1
                stack_depth[top] = d
                stack_node[top] = n_nodes
                n_nodes += 1
            terminal[i] = stack_node[top]
    return n_nodes


def node_levels(const int32_t[::1] parent, const int32_t[::1] by_depth,
                int32_t[::1] level):
    """Number of edges above each node; by_depth lists parents before children."""
    cdef Py_ssize_t j
    cdef int32_t x
    with nogil:
        for j in range(by_depth.shape[0]):
            x = by_depth[j]
            level[x] = 0 if parent[x] < 0 else level[parent[x]] + 1


def largest_symbol(const int32_t[::1] parent, const int32_t[::1] symbol):
    """The largest id of a tree whose nodes are in order, -2 if they are not.

    Every parent is an earlier node, `parent` never falls, and symbols are not negative
    and rise strictly among siblings.
    """
    cdef Py_ssize_t i
    cdef int32_t largest = -1
    with nogil:
        for i in range(1, parent.shape[0]):
            if (
                parent[i] < parent[i - 1] or parent[i] < 0 or parent[i] >= i
                or symbol[i] < 0
                or (parent[i] == parent[i - 1] and symbol[i] <= symbol[i - 1])
            ):
                largest = -2
                break
            largest = max(largest, symbol[i])
    return largest


def are_sorted(const int32_t[::1] ptr, const int32_t[::1] target, int32_t n_classes):
    """Whether the classes ``target[ptr[n]:ptr[n + 1]]`` of each node rise strictly and
    are in range; `ptr` leads from 0 to the end and never falls."""
    cdef Py_ssize_t n, p, last = ptr.shape[0] - 1
    cdef int32_t before
    cdef bint good = ptr[0] == 0 and ptr[last] == target.shape[0]
    with nogil:
        for n in range(last):
            if not good or not ptr[n] <= ptr[n + 1] <= target.shape[0]:
                good = False
                break
            before = -1
            for p in range(ptr[n], ptr[n + 1]):
                good &= before < target[p] < n_classes
                before = target[p]
    return bool(good)


def count_children(const int32_t[::1] parent, int32_t[::1] child_ptr):
    """child_ptr from a canonical parent array (children are contiguous)."""
    cdef Py_ssize_t i, n = parent.shape[0]
    with nogil:
        memset(&child_ptr[0], 0, (n + 1) * sizeof(int32_t))
        for i in range(1, n):
            child_ptr[parent[i]] += 1
        child_ptr[n] = _add_before(&child_ptr[0], n, 1)


def read_paths(const int32_t[::1] indptr, const int32_t[::1] indices,
               const double[::1] data, int32_t[::1] parent, double[::1] value,
               int32_t[::1] terminal):
    """Parents and values of columns from a path matrix with sorted indices.

    parent is -2 for columns that have not occurred. Returns (row, code): row is
    the first that is not a path, or -1; code 1: does not start at column 0; 2: a
    column below two parents; 3: a column with two values, or a value < 1.
    """
    cdef Py_ssize_t i, p, n = indptr.shape[0] - 1
    cdef int32_t previous, column
    cdef Py_ssize_t bad = -1
    cdef int code = 0
    with nogil:
        for i in range(n):
            if indptr[i] == indptr[i + 1] or indices[indptr[i]] != 0:
                bad, code = i, 1
                break
            previous = -1
            for p in range(indptr[i], indptr[i + 1]):
                column = indices[p]
                if parent[column] == -2:
                    if not data[p] >= 1.0:
                        bad, code = i, 3
                        break
                    parent[column] = previous
                    value[column] = data[p]
                elif parent[column] != previous:
                    bad, code = i, 2
                    break
                elif value[column] != data[p]:
                    bad, code = i, 3
                    break
                previous = column
            if code:
                break
            terminal[i] = previous
    return bad, code


def find_paths(const int32_t[::1] indptr, const int32_t[::1] indices,
               const double[::1] data, const int32_t[::1] column_to_node,
               const int32_t[::1] parent, const int32_t[::1] span,
               int32_t[::1] node, int32_t[::1] matched):
    """Deepest known node of every row of a path matrix, and the number of
    suffixes matched at it.

    Columns that the tree does not know end the path. Returns (row, code) as
    read_paths; code 4: a value larger than the node's span.
    """
    cdef Py_ssize_t i, p, n = indptr.shape[0] - 1
    cdef int32_t current, candidate, m
    cdef Py_ssize_t bad = -1
    cdef int code = 0
    with nogil:
        for i in range(n):
            if indptr[i] == indptr[i + 1] or indices[indptr[i]] != 0:
                bad, code = i, 1
                break
            current = 0
            m = 1
            for p in range(indptr[i] + 1, indptr[i + 1]):
                candidate = column_to_node[indices[p]]
                if candidate < 0:
                    break
                if parent[candidate] != current or m < span[current]:
                    bad, code = i, 2
                    break
                if not data[p] >= 1.0:
                    bad, code = i, 3
                    break
                if data[p] > span[candidate]:
                    bad, code = i, 4
                    break
                current = candidate
                m = <int32_t> data[p]
            if code:
                break
            node[i] = current
            matched[i] = m
    return bad, code


def fill_paths(const int32_t[::1] parent, const int32_t[::1] span,
               const int32_t[::1] node, const int32_t[::1] matched,
               const int64_t[::1] indptr, int32_t[::1] indices, double[::1] data):
    """Columns and values of the path of each row's terminal node."""
    cdef Py_ssize_t i, n = node.shape[0]
    cdef int64_t p
    cdef int32_t x
    with nogil:
        for i in range(n):
            x = node[i]
            p = indptr[i + 1] - 1
            indices[p] = x
            data[p] = matched[i]
            while x != 0:
                x = parent[x]
                p -= 1
                indices[p] = x
                data[p] = span[x]


def find_collapsed(const int32_t[::1] flat, const int64_t[::1] offset,
                   const int32_t[::1] length, const int[::1] symbol,
                   const int[::1] child_ptr, const int32_t[::1] root_child,
                   const int32_t[::1] span, const int32_t[::1] edge_text,
                   const int64_t[::1] edge_pos, int32_t[::1] node,
                   int32_t[::1] matched):
    """Deepest node reached in a collapsed tree, and how many of the suffixes
    merged in that node were matched (root: 1).

    The symbols on the edge into x are edge_text[edge_pos[x] - j], j = 0 ...
    span[x] - 1, from the most recent to the oldest.
    """
    cdef Py_ssize_t i, n = offset.shape[0]
    cdef int32_t x, child, k, d, j, s
    with nogil:
        for i in range(n):
            x = 0
            k = 0
            j = 1
            d = length[i]
            while k < d:
                s = flat[offset[i] - k - 1]
                if x == 0:
                    child = root_child[s]
                else:
                    child = find_child(&symbol[0], &child_ptr[0], x, s)
                if child < 0:
                    break
                x = child
                j = 1
                k += 1
                while (j < span[x] and k < d
                       and edge_text[edge_pos[x] - j] == flat[offset[i] - k - 1]):
                    j += 1
                    k += 1
                if j < span[x]:
                    break
            node[i] = x
            matched[i] = j


def level_pairs(int32_t first_node, const int32_t[::1] by_target,
                const int32_t[::1] target, const double[::1] weight,
                const int32_t[::1] parent, int32_t[::1] node,
                int32_t[::1] pair, int32_t[::1] bucket, int32_t[::1] order,
                int32_t[::1] n_pairs_of_node, int32_t[::1] pair_target,
                double[::1] count, int32_t[::1] parent_of_below):
    """Pairs of one level (depth >= 1), called from the deepest level upwards.

    node[i] is sample i's node on this level (or above, if its path ends
    earlier); on return it has moved one level up. pair[i] is its pair one
    level below (-1: none) and becomes its pair here; parent_of_below receives
    the parents of the pairs one level below. bucket (nodes of the level + 1),
    order (n) are scratch. Returns the number of pairs.
    """
    cdef Py_ssize_t j, n = by_target.shape[0], n_here
    cdef Py_ssize_t n_nodes = n_pairs_of_node.shape[0]
    cdef int32_t i, x, last_node = -1, last_target = -1, p = -1
    with nogil:
        memset(&bucket[0], 0, (n_nodes + 1) * sizeof(int32_t))
        for j in range(n):
            if node[j] >= first_node:
                bucket[node[j] - first_node] += 1
        n_here = _add_before(&bucket[0], n_nodes, 0)
        for j in range(n):
            i = by_target[j]
            x = node[i] - first_node
            if x >= 0:
                order[bucket[x]] = i
                bucket[x] += 1
        for j in range(n_here):
            i = order[j]
            x = node[i] - first_node
            if x != last_node or target[i] != last_target:
                p += 1
                last_node = x
                last_target = target[i]
                pair_target[p] = target[i]
                count[p] = 0.0
                n_pairs_of_node[x] += 1
            count[p] += weight[i]
            if pair[i] >= 0:
                parent_of_below[pair[i]] = p
            pair[i] = p
            node[i] = parent[node[i]]
    return p + 1


def are_whole(const double[::1] count):
    """Whether all counts are whole numbers, sums of which are exact."""
    cdef Py_ssize_t p
    cdef bint whole = True
    with nogil:
        for p in range(count.shape[0]):
            if not 0.0 <= count[p] < 4503599627370496.0 or count[p] != floor(count[p]):
                whole = False
                break
    return whole


def adjust_whole(const int32_t[::1] pair_parent, double[::1] count):
    """Counts become adjusted counts, as `Pairs.adjusted_counts` gives them.

    A pair contributes 1 to its parent instead of its count, before its own count
    changes, because the pairs below it come later.
    """
    cdef Py_ssize_t p
    cdef int32_t q
    with nogil:
        for p in range(count.shape[0]):
            q = pair_parent[p]
            if q >= 0 and count[p] > 1.0:
                count[q] -= count[p] - 1.0
