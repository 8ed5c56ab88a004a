"""Kernels that count a running text: tree, pairs and counts from one sort.

The gram of length g at position p is ``tokens[p - g + 1 .. p]``, cut at the separator
(-1) before its sentence. Positions are sorted by their grams of length m + 1 read
backwards, the newest symbol first. Equal grams of every length are then neighbours, and
the runs of grams of length k are, in this order, the nodes of depth k (those that
something follows), while the runs of length k + 1 are the pairs of depth k: the pair
(context, y) is the gram "context y". The parent of a run is the run around it.

The sort takes m + 1 rounds of a stable counting sort, each of which moves positions by
one: sorted by their grams of length g, they give the order of the positions after them
by grams of length g + 1. What is left is to bring the pairs of a level, which are in
the order of (y, context), into that of (context, y): one counting sort by node.

O(n (m + 1) + pairs), no hashing and no window. Per position 4 bytes of order, 4 of
scratch, 2 (or 8, for m > 126) of lengths and 4 for its node.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int8_t, int32_t, int64_t
from libc.string cimport memcpy

# Signals are looked at after so many steps, at most: a fraction of a second.
cdef enum:
    SLICE_MASK = (1 << 20) - 1

ctypedef fused short_t:
    int8_t
    int32_t


def first_round(const int32_t[::1] tokens, int32_t[::1] bucket, int32_t[::1] order):
    """Positions of symbols, sorted by their symbol; bucket: where each begins."""
    cdef Py_ssize_t p
    cdef int32_t s
    with nogil:
        for p in range(tokens.shape[0]):
            s = tokens[p]
            if s >= 0:
                order[bucket[s]] = <int32_t> p
                bucket[s] += 1


def next_round(const int32_t[::1] tokens, const int32_t[::1] separators,
               const int32_t[::1] first, int32_t[::1] bucket,
               const int32_t[::1] source, int32_t[::1] target):
    """Sort by grams that are longer by one.

    separators : positions of -1, whose grams are empty and the smallest.
    first : where each symbol begins; bucket : scratch of its size.
    """
    cdef Py_ssize_t j, n = tokens.shape[0]
    cdef int32_t p, s
    with nogil:
        memcpy(&bucket[0], &first[0], first.shape[0] * sizeof(int32_t))
        for j in range(separators.shape[0]):
            p = separators[j] + 1
            if p < n:
                s = tokens[p]
                if s >= 0:
                    target[bucket[s]] = p
                    bucket[s] += 1
        for j in range(source.shape[0]):
            if j & SLICE_MASK == 0:
                with gil:
                    PyErr_CheckSignals()
            p = source[j] + 1
            if p < n:
                s = tokens[p]
                if s >= 0:
                    target[bucket[s]] = p
                    bucket[s] += 1


def gram_lengths(const int32_t[::1] tokens, const int32_t[::1] order,
                 Py_ssize_t longest, short_t[::1] shared, short_t[::1] length):
    """Length of each sorted gram, and how much of it the one before it shares.

    length is negative where nothing follows: such a gram is no context.
    """
    cdef Py_ssize_t j, n = tokens.shape[0]
    cdef int32_t a, b
    cdef short_t k
    with nogil:
        for j in range(order.shape[0]):
            if j & SLICE_MASK == 0:
                with gil:
                    PyErr_CheckSignals()
            b = order[j]
            k = 0
            if j > 0:
                a = order[j - 1]
                while k < longest and tokens[b - k] >= 0:
                    if tokens[b - k] != tokens[a - k]:
                        break
                    k += 1
            shared[j] = k
            # tokens[0] is a separator, so that this ends in time.
            while k < longest and tokens[b - k] >= 0:
                k += 1
            length[j] = k if b + 1 < n and tokens[b + 1] >= 0 else -k


def count_grams(const short_t[::1] shared, const short_t[::1] length,
                Py_ssize_t skip_from, Py_ssize_t skip_to, int64_t[::1] nodes,
                int64_t[::1] pairs):
    """Number of nodes and of pairs of each depth; both arrays have m + 1 entries.

    The grams skip_from:skip_to end in the mark that is never predicted.
    """
    cdef Py_ssize_t j, k, low = 0, d, m = nodes.shape[0] - 1
    with nogil:
        for j in range(shared.shape[0]):
            d = length[j] if length[j] > 0 else -length[j]
            if j < skip_from or j >= skip_to:
                for k in range(shared[j], d):
                    pairs[k] += 1
            # A gram that nothing follows is passed over: what the next one shares with
            # the last context is the least of what lies between.
            if shared[j] < low:
                low = shared[j]
            if length[j] > 0:
                for k in range(low + 1, min(d, m) + 1):
                    nodes[k] += 1
                low = m + 1


def fill_nodes(const int32_t[::1] tokens, const int32_t[::1] order,
               const short_t[::1] shared, const short_t[::1] length,
               const int64_t[::1] level_ptr, int32_t[::1] last,
               int32_t[::1] parent, int32_t[::1] symbol, int32_t[::1] node):
    """Number the contexts; node[p] becomes the deepest that ends at position p.

    last (m + 1) holds the newest node of each level: the path of the current gram.
    """
    cdef Py_ssize_t j, k, low = 0, d, m = last.shape[0] - 1
    cdef int32_t x, p
    with nogil:
        for k in range(m + 1):
            last[k] = <int32_t> (level_ptr[k] - 1)
        last[0] = 0
        parent[0] = -1
        symbol[0] = -1
        for j in range(shared.shape[0]):
            if j & SLICE_MASK == 0:
                with gil:
                    PyErr_CheckSignals()
            if shared[j] < low:
                low = shared[j]
            d = length[j]
            if d <= 0:
                continue
            if d > m:
                d = m
            p = order[j]
            for k in range(low + 1, d + 1):
                x = last[k] + 1
                last[k] = x
                parent[x] = last[k - 1]
                symbol[x] = tokens[p - k + 1]
            low = m + 1
            node[p] = last[d]


def root_counts(const int32_t[::1] tokens, const double[::1] weight, int32_t skip,
                double[::1] count):
    """Weight of each class; weight is empty where every position has the weight 1."""
    cdef Py_ssize_t p
    cdef bint weighted = weight.shape[0] > 0
    with nogil:
        for p in range(tokens.shape[0]):
            if tokens[p] >= 0 and tokens[p] != skip:
                count[tokens[p]] += weight[p] if weighted else 1.0


def emit_pairs(const int32_t[::1] tokens, const double[::1] weight,
               const int32_t[::1] order, const short_t[::1] shared,
               const short_t[::1] length, Py_ssize_t skip_from,
               Py_ssize_t skip_to, Py_ssize_t level, const int32_t[::1] parent,
               const int32_t[::1] node_at, int32_t[::1] node, int32_t[::1] target,
               int32_t[::1] above, double[::1] count):
    """Pairs of one level below the root, in the order of (class, context).

    node, target, count : of each pair; above : its parent's number in this order among
    the pairs of the level above, which at the root is the class.
    """
    cdef Py_ssize_t j, _k, d, s = -1, u = -1
    cdef int32_t p, x
    cdef bint weighted = weight.shape[0] > 0
    with nogil:
        for j in range(order.shape[0]):
            if j & SLICE_MASK == 0:
                with gil:
                    PyErr_CheckSignals()
            if skip_from <= j < skip_to:
                continue
            d = length[j] if length[j] > 0 else -length[j]
            if shared[j] < level <= d:
                u += 1
            if d <= level:
                continue
            p = order[j]
            if shared[j] <= level:
                s += 1
                x = node_at[p - 1]
                for _k in range(d - 1 - level):
                    x = parent[x]
                node[s] = x
                target[s] = tokens[p]
                above[s] = tokens[p] if level == 1 else <int32_t> u
                count[s] = 0.0
            count[s] += weight[p] if weighted else 1.0


def place_pairs(const int32_t[::1] node, const int32_t[::1] target,
                const int32_t[::1] above, const double[::1] count,
                const int32_t[::1] place_above, int32_t first_node,
                int32_t first_pair, int32_t[::1] bucket, int32_t[::1] ptr,
                int32_t[::1] out_target, int32_t[::1] out_parent,
                double[::1] out_count, int32_t[::1] place):
    """Bring the pairs of one level into the order of (context, class).

    place_above : where the pairs of the level above are; empty at level 1, whose
    parents are where their classes are. place[s] : where pair s goes, out of all.
    bucket (nodes of the level) is scratch; ptr and the out arrays are those of the
    level.
    """
    cdef Py_ssize_t s, x
    cdef int32_t total = 0, c, at
    cdef bint mapped = place_above.shape[0] > 0
    with nogil:
        for x in range(bucket.shape[0]):
            bucket[x] = 0
        for s in range(node.shape[0]):
            bucket[node[s] - first_node] += 1
        for x in range(bucket.shape[0]):
            c = bucket[x]
            bucket[x] = total
            ptr[x] = first_pair + total
            total += c
        for s in range(node.shape[0]):
            if s & SLICE_MASK == 0:
                with gil:
                    PyErr_CheckSignals()
            x = node[s] - first_node
            at = bucket[x]
            bucket[x] = at + 1
            out_target[at] = target[s]
            out_parent[at] = place_above[above[s]] if mapped else above[s]
            out_count[at] = count[s]
            place[s] = first_pair + at
