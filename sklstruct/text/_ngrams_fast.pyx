"""Kernels that count n-grams without making a string for any of them.

Letters (code points) or words are *symbols*. A text is one segment of symbols, or, for
n-grams inside words, a segment for each of its words. Each n-gram is a node of a trie,
and all nodes are in one table (`_slots.pxd`) whose 64-bit key is (parent, symbol): no
two n-grams have the same key, so the counts are exact. While n-grams are learned the
mark of a slot is the last text that has the n-gram; in a finished trie the mark is the
column of the n-gram, or -1. The children of the root whose symbol is small stand in an
array of slots, `roots`, at their symbol.
"""

from libc.math cimport log, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from .._prefetch cimport prefetch
from .._watch cimport Watch, over, propagate, watch_of
from ._slots cimport (
    AT, AT_SEGMENT, AT_TEXT, IDS, R_DONE, R_FULL, Slot, lowest, mixed,
)

# Values of a count.
COUNTED, BINARY, LOGARITHM = range(3)

cdef enum:
    AS_ONE = 1
    AS_LOGARITHM = 2
    # A lookup takes as long as about so many multiplications.
    LOOKUP = 16
    # Symbols between the looked up symbol and the symbol whose slot is prefetched.
    AHEAD = 8

ctypedef fused Real:
    float
    double

cdef inline Slot *find(Slot *slots, uint64_t mask, uint64_t key) noexcept nogil:
    """The slot of a key, or the empty slot where the key would stand."""
    cdef uint64_t at = mixed(key) & mask
    while slots[at].id != 0 and slots[at].key != key:
        at = (at + 1) & mask
    return slots + at


cdef inline uint64_t key_of(int32_t parent, uint32_t symbol) noexcept nogil:
    return (<uint64_t> <uint32_t> parent << 32) | symbol


cdef inline Slot *child(Slot *slots, uint64_t mask, Slot *roots, uint32_t n_roots,
                        int32_t parent, uint32_t symbol) noexcept nogil:
    """The slot of a child of a node; empty if the node has no such child."""
    if parent == 0 and symbol < n_roots:
        return roots + symbol
    return find(slots, mask, key_of(parent, symbol))


def enter_nodes(const int32_t[::1] parent, const uint32_t[::1] symbol,
                const int32_t[::1] column, uint64_t[:, ::1] table,
                uint64_t[:, ::1] roots):
    """Enter the nodes of a trie into empty arrays; False: two nodes are the same."""
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef Slot *first = <Slot *> &roots[0, 0]
    cdef uint32_t n_roots = <uint32_t> roots.shape[0]
    cdef Slot *slot
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1)
    cdef Py_ssize_t v
    cdef bint distinct = True
    with nogil:
        for v in range(1, parent.shape[0]):
            slot = child(slots, mask, first, n_roots, parent[v], symbol[v])
            distinct = distinct and slot.id == 0
            slot.key = key_of(parent[v], symbol[v])
            slot.id, slot.mark = <int32_t> v, column[v]
    return distinct


def learn_ngrams(const uint32_t[::1] symbols, const int64_t[::1] segment_ends,
                 const int64_t[::1] text_ends, int64_t shortest, int64_t longest,
                 bint padded, int32_t first_text, uint64_t[:, ::1] table,
                 uint64_t[:, ::1] roots, int32_t[::1] parent, uint32_t[::1] symbol,
                 int32_t[::1] n_texts, int64_t[::1] totals, int64_t[::1] state,
                 int32_t[::1] stop):
    """Add the n-grams of texts to a trie, and count the texts that have each.

    shortest, longest : symbols of an n-gram. If `padded`, a segment that is shorter
        than `shortest` counts as a whole.
    first_text : number of the first text, at least 1.
    parent, symbol, n_texts, totals : by node, the last two zeros for new nodes; totals
        (occurrences) may be empty.
    state : (5,) carried from call to call; state[N_IDS] is the number of nodes.

    Returns DONE, or FULL where the table or the arrays of nodes have to grow.
    """
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef Slot *slot
    cdef Watch watch = watch_of(stop)
    cdef Slot *first = <Slot *> &roots[0, 0]
    cdef uint32_t n_roots = <uint32_t> roots.shape[0], c
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1)
    cdef int64_t limit = table.shape[0] // 2, n_nodes = state[IDS]
    cdef int64_t s = state[AT_SEGMENT], i = state[AT], begin, n, least, d, end
    cdef Py_ssize_t t = state[AT_TEXT]
    cdef int32_t v
    cdef bint total = totals.shape[0] > 0
    cdef int result = R_DONE
    if limit > parent.shape[0]:
        limit = parent.shape[0]
    with nogil:
        while t < text_ends.shape[0] and result == R_DONE:
            while s < text_ends[t]:
                begin = segment_ends[s - 1] if s > 0 else 0
                n = segment_ends[s] - begin
                least = n if padded and n < shortest else shortest
                while i + least <= n:
                    if n_nodes + longest > limit:
                        result = R_FULL
                        break
                    if over(&watch, LOOKUP * longest):
                        break
                    v = 0
                    end = longest if longest < n - i else n - i
                    for d in range(1, end + 1):
                        c = symbols[begin + i + d - 1]
                        slot = child(slots, mask, first, n_roots, v, c)
                        if slot.id == 0:
                            parent[n_nodes], symbol[n_nodes] = v, c
                            slot.key, slot.id = key_of(v, c), <int32_t> n_nodes
                            n_nodes += 1
                        v = slot.id
                        if d >= least:
                            if slot.mark != first_text + t:
                                slot.mark = <int32_t> (first_text + t)
                                n_texts[v] += 1
                            if total:
                                totals[v] += 1
                    i += 1
                if result == R_FULL or stop[0] != 0:
                    break
                i = 0
                s += 1
            if result == R_FULL or stop[0] != 0:
                break
            t += 1
    propagate()
    state[AT_TEXT], state[AT_SEGMENT], state[AT], state[IDS] = t, s, i, n_nodes
    return result


def merge_nodes(const int32_t[::1] parent, const uint32_t[::1] symbol,
                const int32_t[::1] n_texts, const int64_t[::1] totals,
                int32_t[::1] here, uint64_t[:, ::1] table, uint64_t[:, ::1] roots,
                int32_t[::1] own_parent, uint32_t[::1] own_symbol,
                int32_t[::1] own_n_texts, int64_t[::1] own_totals, int64_t[::1] state,
                int32_t[::1] stop):
    """Add the nodes of a trie, and their counts, to those of `learn_ngrams`.

    here : (n_nodes,) zeros at the first call; the node of the other trie for each node.
    """
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef Slot *slot
    cdef Watch watch = watch_of(stop)
    cdef Slot *first = <Slot *> &roots[0, 0]
    cdef uint32_t n_roots = <uint32_t> roots.shape[0]
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1)
    cdef int64_t limit = table.shape[0] // 2, n_nodes = state[IDS]
    cdef Py_ssize_t v = state[AT] + 1
    cdef int result = R_DONE
    if limit > own_parent.shape[0]:
        limit = own_parent.shape[0]
    with nogil:
        while v < parent.shape[0]:
            if n_nodes >= limit:
                result = R_FULL
                break
            if over(&watch, LOOKUP):
                break
            slot = child(slots, mask, first, n_roots, here[parent[v]], symbol[v])
            if slot.id == 0:
                own_parent[n_nodes], own_symbol[n_nodes] = here[parent[v]], symbol[v]
                slot.key = key_of(here[parent[v]], symbol[v])
                slot.id = <int32_t> n_nodes
                n_nodes += 1
            here[v] = slot.id
            own_n_texts[slot.id] += n_texts[v]
            if totals.shape[0] > 0:
                own_totals[slot.id] += totals[v]
            v += 1
    propagate()
    state[AT], state[IDS] = v - 1, n_nodes
    return result


def live_nodes(const int32_t[::1] parent, uint8_t[::1] live):
    """Mark the nodes that lead to a marked node; parents come before their children."""
    cdef Py_ssize_t v
    with nogil:
        for v in range(parent.shape[0] - 1, 0, -1):
            if live[v]:
                live[parent[v]] = 1


def parents_of(const int32_t[::1] depth, int32_t[::1] last, int32_t[::1] parent):
    """The parents of nodes in depth-first order, by their depths; False: no tree.

    depth : (n_nodes,) 0 for the root, the first node; at least 0.
    last : room for a node of each depth. parent : (n_nodes,).
    """
    cdef Py_ssize_t v
    cdef int32_t d
    cdef bint good = depth[0] == 0
    with nogil:
        last[0] = parent[0] = 0
        for v in range(1, depth.shape[0]):
            d = depth[v]
            if d < 1 or d > depth[v - 1] + 1:
                good = False
                break
            parent[v] = last[d - 1]
            last[d] = <int32_t> v
    return good


def sorted_places(const int32_t[::1] parent, const int64_t[::1] by_key,
                  int32_t[::1] size, int32_t[::1] next_place, int32_t[::1] place,
                  int32_t[::1] depth):
    """The place of each node when the n-grams are sorted as strings.

    by_key : all nodes but the root, sorted by parent, then by symbol.
    size, next_place : (n_nodes,) for numbers of the kernel; size is 1 everywhere.
    place, depth : (n_nodes,) 0 for the root, whose n-gram is empty.
    """
    cdef Py_ssize_t i, v
    cdef int32_t p
    with nogil:
        for v in range(parent.shape[0] - 1, 0, -1):
            size[parent[v]] += size[v]
        place[0], next_place[0], depth[0] = 0, 1, 0
        for i in range(by_key.shape[0]):
            v = by_key[i]
            p = parent[v]
            place[v], depth[v] = next_place[p], depth[p] + 1
            next_place[p] += size[v]
            next_place[v] = place[v] + 1


def count_rows(const uint32_t[::1] symbols, const int64_t[::1] segment_ends,
               const int64_t[::1] text_ends, int64_t shortest, int64_t longest,
               bint padded, uint64_t[:, ::1] table, uint64_t[:, ::1] roots,
               const double[::1] idf, int values, int norm, int32_t[::1] counts,
               uint64_t[::1] bits, uint64_t[::1] above, uint64_t[::1] top,
               int64_t[::1] indptr, int32_t[::1] indices, Real[::1] data,
               int32_t[::1] stop):
    """The rows of texts: sorted columns, and the weight of each.

    table, roots : of a finished trie. idf : by column, or empty.
    values : COUNTED, BINARY, or LOGARITHM (1 + log of the count).
    norm : 1 or 2, 0 for none.
    counts : (n_columns,) zeros; bits, above, top : zeros, a bit for each column, for
        each 64 columns and for each 4096. They sort a row in linear time, and are all
        zero again at the end.
    indptr : (n_texts,) the end of each row. After `stop` all further rows are empty.
    indices, data : room for all entries.
    """
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef Slot *slot
    cdef Watch watch = watch_of(stop)
    cdef Slot *first = <Slot *> &roots[0, 0]
    cdef uint32_t n_roots = <uint32_t> roots.shape[0], symbol
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1), low, middle, high
    cdef int64_t s = 0, i, begin, n, least, d, end, k = 0, start
    cdef Py_ssize_t t = 0, a, b, c
    cdef int32_t v
    cdef double x, total
    with nogil:
        for t in range(text_ends.shape[0]):
            start, total = k, 0.0
            while s < text_ends[t]:
                begin = segment_ends[s - 1] if s > 0 else 0
                n = segment_ends[s] - begin
                least = n if padded and n < shortest else shortest
                for i in range(n - least + 1):
                    if over(&watch, LOOKUP * longest):
                        break
                    v = 0
                    end = longest if longest < n - i else n - i
                    # Rows of words wait for memory at the first slot and at the idf.
                    if begin + i + AHEAD < symbols.shape[0]:
                        symbol = symbols[begin + i + AHEAD]
                        if symbol < n_roots:
                            prefetch(first + symbol, sizeof(Slot))
                    for d in range(1, end + 1):
                        slot = child(slots, mask, first, n_roots, v,
                                     symbols[begin + i + d - 1])
                        v = slot.id
                        if v == 0:
                            break
                        c = slot.mark
                        if d >= least and c >= 0:
                            if counts[c] == 0:
                                if idf.shape[0] > 0:
                                    prefetch(&idf[c], sizeof(double))
                                bits[c >> 6] |= <uint64_t> 1 << (c & 63)
                                above[c >> 12] |= <uint64_t> 1 << (c >> 6 & 63)
                                top[c >> 18] |= <uint64_t> 1 << (c >> 12 & 63)
                            counts[c] += 1
                if stop[0] != 0:
                    break
                s += 1
            if stop[0] != 0:
                break
            for a in range(top.shape[0]):
                high = top[a]
                top[a] = 0
                while high:
                    b = (a << 6) + lowest(high)
                    high &= high - 1
                    middle = above[b]
                    above[b] = 0
                    while middle:
                        c = (b << 6) + lowest(middle)
                        middle &= middle - 1
                        low = bits[c]
                        bits[c] = 0
                        while low:
                            v = <int32_t> ((c << 6) + lowest(low))
                            low &= low - 1
                            x = counts[v]
                            counts[v] = 0
                            if values == AS_ONE:
                                x = 1.0
                            elif values == AS_LOGARITHM and x > 1.0:
                                x = log(x) + 1.0
                            if idf.shape[0] > 0:
                                x *= idf[v]
                            total += x * x if norm == 2 else x
                            indices[k] = v
                            data[k] = <Real> x
                            k += 1
            if norm == 2:
                total = sqrt(total)
            if norm > 0:
                for d in range(start, k):
                    data[d] = <Real> (data[d] / total)
            indptr[t] = k
        if stop[0] != 0:
            for a in range(t, text_ends.shape[0]):
                indptr[a] = k
    propagate()
