"""Kernels that count a running text: tree, pairs and counts from one sort.

The gram of length g at position p is ``tokens[p - g + 1 .. p]``, cut at the separator
(-1) before its sentence. Positions are sorted by their grams of length m + 1 read
backwards, the newest symbol first. Equal grams of every length are then neighbours, and
the runs of grams of length k that are followed by a symbol are, in this order, the
nodes of depth k. The runs of length k + 1 are the pairs of depth k: the pair (context,
y) is the gram "context y". The parent of a run is the run that contains it.

The sort takes m + 1 rounds of a stable counting sort, each of which moves positions by
one: positions sorted by their grams of length g give the order of the positions after
them by grams of length g + 1. The pairs of a level are then in the order of (y,
context). A counting sort by node brings the pairs into the order of (context, y): it
counts the pairs of each node and then moves every pair to its position.

The time is O(n (m + 1) + pairs), without hashing or windows. The memory per position
is 4 bytes for the order, 4 of scratch, 2 (or 8, for m > 126) for lengths and 4 for the
node; the pairs are not copied.
"""

from libc.stdint cimport int8_t, int32_t, int64_t
from libc.string cimport memcpy

from .._watch cimport interrupt

# Steps between two checks for signals: a fraction of a second.
cdef enum:
    SLICE_MASK = (1 << 20) - 1

ctypedef fused short_t:
    int8_t
    int32_t

ctypedef fused count_t:
    int32_t
    double


def sort_symbols(const int32_t[::1] tokens, int32_t[::1] bucket, int32_t[::1] order):
    """Positions sorted by their symbol; bucket: the first place of each symbol."""
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
                interrupt()
            p = source[j] + 1
            if p < n:
                s = tokens[p]
                if s >= 0:
                    target[bucket[s]] = p
                    bucket[s] += 1


def gram_lengths(const int32_t[::1] tokens, const int32_t[::1] order,
                 Py_ssize_t longest, short_t[::1] shared, short_t[::1] length):
    """Length of each sorted gram, and the length that it shares with the one before.

    length is negative if no symbol follows the gram: it is not a context.
    """
    cdef Py_ssize_t j, n = tokens.shape[0]
    cdef int32_t a, b
    cdef short_t k
    with nogil:
        for j in range(order.shape[0]):
            if j & SLICE_MASK == 0:
                interrupt()
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
            # A gram without a following symbol is skipped: the next one shares with the
            # last context the minimum of the shared lengths in between.
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
                interrupt()
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


def nodes_before(const int32_t[::1] order, const int32_t[::1] node_at,
                 int32_t[::1] node):
    """The deepest context before each sorted position."""
    cdef Py_ssize_t j
    with nogil:
        for j in range(order.shape[0]):
            node[j] = node_at[order[j] - 1]


def count_pairs(const short_t[::1] shared, const short_t[::1] length,
                Py_ssize_t skip_from, Py_ssize_t skip_to, Py_ssize_t level,
                const int32_t[::1] parent, int32_t[::1] node, int32_t first_node,
                int32_t first_pair, int32_t[::1] ptr, int32_t[::1] node_of_pair):
    """Write the first pair of each context of one level below the root into `ptr`.

    Called from the deepest level up. node : for each sorted position the context of
    this level before it, or a shorter one; entries that the level above needs move to
    the parent. ptr : of the nodes of the level. node_of_pair : of the pairs of the
    level, in the order of (class, context).
    """
    cdef Py_ssize_t j, d, s = 0
    cdef int32_t x, c, total = first_pair
    with nogil:
        for j in range(ptr.shape[0]):
            ptr[j] = 0
        for j in range(shared.shape[0]):
            if j & SLICE_MASK == 0:
                interrupt()
            if shared[j] > level or skip_from <= j < skip_to:
                continue
            d = length[j] if length[j] > 0 else -length[j]
            if d <= level:
                continue
            x = node[j]
            ptr[x - first_node] += 1
            node_of_pair[s] = x
            s += 1
            if shared[j] < level:
                node[j] = parent[x]
        for j in range(ptr.shape[0]):
            c = ptr[j]
            ptr[j] = total
            total += c


def emit_pairs(const int32_t[::1] symbol_ptr, const double[::1] weight,
               const int32_t[::1] order, const short_t[::1] shared,
               const short_t[::1] length, Py_ssize_t skip_from,
               Py_ssize_t skip_to, Py_ssize_t level, const int32_t[::1] node,
               const int32_t[::1] place_above, int32_t first_node,
               int32_t first_pair, int32_t[::1] ptr, int32_t[::1] target,
               int32_t[::1] above, count_t[::1] count, int32_t[::1] place):
    """Move the pairs of one level below the root to their places.

    The pairs come in the order of (class, context), and their places are in that of
    (context, class). ptr, from `count_pairs`, is the next place of each node, and is
    reset at the end. node : node of each pair, as they come. place_above : places of
    the pairs of the level above, as they come; empty at level 1, where the place of a
    parent is its class. place : the same of this level, for the next one; empty at the
    last level. target, above (the parents) and count: those of the level.
    """
    cdef Py_ssize_t j, d, s = 0, u = -1
    cdef int32_t x, y = 0, at = 0
    cdef count_t c = 0
    cdef bint weighted = weight.shape[0] > 0, placed = place.shape[0] > 0
    with nogil:
        for j in range(shared.shape[0]):
            if j & SLICE_MASK == 0:
                interrupt()
            if skip_from <= j < skip_to:
                continue
            d = length[j] if length[j] > 0 else -length[j]
            if shared[j] < level <= d:
                u += 1
            if d <= level:
                continue
            if shared[j] <= level:
                if s > 0:
                    count[at] = c
                c = 0
                x = node[s] - first_node
                while symbol_ptr[y + 1] <= j:
                    y += 1
                at = ptr[x] - first_pair
                ptr[x] += 1
                target[at] = y
                above[at] = y if level == 1 else place_above[u]
                if placed:
                    place[s] = first_pair + at
                s += 1
            c += <count_t> (weight[order[j]] if weighted else 1.0)
        if s > 0:
            count[at] = c
        for j in range(ptr.shape[0] - 1, 0, -1):
            ptr[j] = ptr[j - 1]
        if ptr.shape[0]:
            ptr[0] = first_pair
