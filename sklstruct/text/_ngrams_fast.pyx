"""Kernels that count n-grams without making strings.

Letters (code points) or words are *symbols*. A text is one segment of symbols, or, for
n-grams inside words, a list of segments, each of which may occur often. Each n-gram is
a node of a trie, and all nodes are in one table (`_slots.pxd`) whose 64-bit key is
(parent, symbol): no two n-grams have the same key, so the counts are exact.
`find_ngrams` writes the mark of a slot for the n-gram: the node while n-grams are
learned; in a finished trie the column, or -1. Children of the root with small symbols
have their slots in an array, `roots`, at index symbol.

Segments are numbered from 1 in the order in which their symbols are stored. `numbers`
has the segments of the texts, text after text; empty: each segment occurs once, in
order. `text_ends` has the end of each text in `numbers`.
"""

from libc.math cimport log, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from .._prefetch cimport prefetch
from .._watch cimport Watch, over, propagate, watch_of
from ._slots cimport (
    AT, AT_SEGMENT, IDS, OUT, R_DONE, R_FULL, Slot, lowest, mixed,
)

cdef enum:
    # Cost of a lookup, in multiplications.
    LOOKUP = 16
    # Cost of an entry of a row, in multiplications.
    SORTED = 16
    # Places of a segment that are looked up at once.
    TOGETHER = 32
    # Counts whose values are in a table.
    SMALL = 16
    # Segments between the segment in use and the segment that is prefetched, and the
    # bytes that are prefetched of its n-grams.
    AHEAD = 4
    SEGMENT = 128

N_TOGETHER = TOGETHER

cdef extern from *:
    """
    #define LAST_BIT (1ULL << 63)
    """
    const uint64_t LAST "LAST_BIT"

ctypedef fused Real:
    float
    double

cdef inline uint64_t key_of(int32_t parent, uint32_t symbol) noexcept nogil:
    return (<uint64_t> <uint32_t> parent << 32) | symbol


cdef inline double value_of(int32_t count, bint logarithm) noexcept nogil:
    """The value of a count before it is multiplied by the idf."""
    if logarithm and count > 1:
        return log(<double> count) + 1.0
    return <double> count


def find_ngrams(const uint32_t[::1] symbols, const int64_t[::1] segment_ends,
                int64_t shortest, int64_t longest, bint padded, bint learn,
                int32_t[::1] found, int64_t[::1] found_ends, uint64_t[:, ::1] table,
                uint64_t[:, ::1] roots, int32_t[::1] parent, uint32_t[::1] symbol,
                int64_t[::1] state, int32_t[::1] stop):
    """Find the marks of the n-grams of segments; `learn` adds new n-grams to the trie.

    shortest, longest : lengths of n-grams. If `padded`, a segment that is shorter than
        `shortest` is an n-gram itself.
    parent, symbol : by node; only used if `learn`.
    found : room for one mark per n-gram, and one more.
    found_ends : (n_segments + 1,) found_ends[0] = 0; the end of each segment in found.
    state : (5,) carried from call to call; state[N_IDS] is the number of nodes.

    Returns DONE, or FULL if the table or the arrays of nodes have to grow.
    """
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef Slot *slot
    cdef Watch watch = watch_of(stop)
    cdef Slot *first = <Slot *> &roots[0, 0]
    cdef uint32_t n_roots = <uint32_t> roots.shape[0], c
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1)
    cdef int64_t limit = min(table.shape[0] // 2, parent.shape[0])
    cdef int64_t n_nodes = state[IDS], k = state[OUT]
    cdef int64_t s = state[AT_SEGMENT], i = state[AT], begin, n, least, d, end, room
    cdef const uint32_t *read
    # Places whose n-grams of one length are looked up together, and their nodes, so
    # that reads of memory do not wait for each other.
    cdef int[TOGETHER] at
    cdef int32_t[TOGETHER] node
    cdef uint64_t[TOGETHER] key
    cdef Slot *home[TOGETHER]
    cdef int many, alive, j, m
    cdef int result = R_DONE
    with nogil:
        while s < segment_ends.shape[0] and result == R_DONE:
            begin = segment_ends[s - 1] if s > 0 else 0
            n = segment_ends[s] - begin
            least = n if padded and n < shortest else shortest
            end = n - least + 1
            while i < end:
                many = <int> (TOGETHER if end - i > TOGETHER else end - i)
                room = longest if longest < n - i else n - i
                if learn and n_nodes + many * room > limit:
                    result = R_FULL
                    break
                if over(&watch, LOOKUP * many * room):
                    break
                for j in range(many):
                    at[j], node[j] = j, 0
                    # Short texts: prefetch slots of later symbols and pairs of symbols.
                    d = begin + i + j + TOGETHER
                    if not padded and d < symbols.shape[0]:
                        c = symbols[d - TOGETHER // 2]
                        if longest > 1 and c < n_roots:
                            key[0] = key_of(first[c].id, symbols[d - TOGETHER // 2 + 1])
                            prefetch(slots + (mixed(key[0]) & mask), sizeof(Slot))
                        c = symbols[d]
                        if c < n_roots:
                            prefetch(first + c, sizeof(Slot))
                alive = many
                for d in range(1, room + 1):
                    read = &symbols[begin + i + d - 1]
                    while alive > 0 and i + at[alive - 1] + d > n:
                        alive -= 1
                    for j in range(alive):
                        c = read[at[j]]
                        key[j] = key_of(node[j], c)
                        home[j] = slots + (mixed(key[j]) & mask)
                        if d == 1 and c < n_roots:
                            home[j] = first + c
                        prefetch(home[j], sizeof(Slot))
                    m = 0
                    for j in range(alive):
                        slot = home[j]
                        while slot.id != 0 and slot.key != key[j]:
                            slot = slots + ((slot - slots + 1) & mask)
                        if slot.id == 0:
                            if not learn:
                                continue
                            parent[n_nodes] = node[j]
                            symbol[n_nodes] = read[at[j]]
                            slot.key = key[j]
                            slot.id = slot.mark = <int32_t> n_nodes
                            n_nodes += 1
                        at[m], node[m] = at[j], slot.id
                        m += 1
                        found[k] = slot.mark
                        k += (d >= least) & (slot.mark >= 0)
                    alive = m
                    if alive == 0:
                        break
                i += many
            if result == R_FULL or stop[0] != 0:
                break
            i = 0
            s += 1
            found_ends[s] = k
    propagate()
    state[AT_SEGMENT], state[AT], state[OUT], state[IDS] = s, i, k, n_nodes
    return result


def count_texts(const int32_t[::1] found, const int64_t[::1] found_ends,
                const uint32_t[::1] numbers, const int64_t[::1] text_ends,
                int32_t first_text, int32_t[:, ::1] seen, int64_t[::1] totals):
    """Count the texts that have each n-gram, and the occurrences.

    first_text : number of the first text, at least 1.
    seen : by node, the last text that has the n-gram, and the number of such texts.
    totals : by node; may be empty.
    """
    cdef bint each = numbers.shape[0] == 0, total = totals.shape[0] > 0
    cdef int64_t i = 0, s, k
    cdef int32_t t, v
    with nogil:
        for t in range(<int32_t> text_ends.shape[0]):
            while i < text_ends[t]:
                s = i + 1 if each else numbers[i]
                i += 1
                if i + AHEAD < numbers.shape[0]:
                    prefetch(&found[found_ends[numbers[i + AHEAD] - 1]], SEGMENT)
                for k in range(found_ends[s - 1], found_ends[s]):
                    v = found[k]
                    seen[v, 1] += seen[v, 0] != first_text + t
                    seen[v, 0] = first_text + t
                    if total:
                        totals[v] += 1


def take_marks(int32_t[::1] found, int64_t[::1] found_ends, const int32_t[::1] mark):
    """Replace nodes by their marks, in place; nodes with a mark below 0 are left out.
    """
    cdef int64_t k = 0, begin = 0, j, s
    with nogil:
        for s in range(1, found_ends.shape[0]):
            for j in range(begin, found_ends[s]):
                found[k] = mark[found[j]]
                k += found[k] >= 0
            begin = found_ends[s]
            found_ends[s] = k


def merge_nodes(const int32_t[::1] parent, const uint32_t[::1] symbol,
                const int32_t[::1] mark, int32_t[::1] here, uint64_t[:, ::1] table,
                uint64_t[:, ::1] roots, int32_t[::1] own_parent,
                uint32_t[::1] own_symbol, int64_t[::1] state, int32_t[::1] stop):
    """Add the nodes of a trie to a trie of `find_ngrams`, or to empty tables.

    parent, symbol : the trie that is added; own_parent, own_symbol : the other trie.
    mark : by node, the marks of new slots; empty: the nodes.
    here : (n_nodes,) zeros at the first call; output, the node of the other trie.
    """
    cdef Slot *slots = <Slot *> &table[0, 0]
    cdef Slot *slot
    cdef Watch watch = watch_of(stop)
    cdef Slot *first = <Slot *> &roots[0, 0]
    cdef uint32_t n_roots = <uint32_t> roots.shape[0], c
    cdef uint64_t mask = <uint64_t> (table.shape[0] - 1), key
    cdef int32_t p
    cdef int64_t limit = min(table.shape[0] // 2, own_parent.shape[0])
    cdef int64_t n_nodes = state[IDS]
    cdef Py_ssize_t v = state[AT] + 1
    cdef int result = R_DONE
    with nogil:
        while v < parent.shape[0]:
            if n_nodes >= limit:
                result = R_FULL
                break
            if over(&watch, LOOKUP):
                break
            p, c = here[parent[v]], symbol[v]
            key = key_of(p, c)
            slot = slots + (mixed(key) & mask)
            if p == 0 and c < n_roots:
                slot = first + c
            while slot.id != 0 and slot.key != key:
                slot = slots + ((slot - slots + 1) & mask)
            if slot.id == 0:
                own_parent[n_nodes], own_symbol[n_nodes], slot.key = p, c, key
                slot.id = slot.mark = <int32_t> n_nodes
                if mark.shape[0] > 0:
                    slot.mark = mark[v]
                n_nodes += 1
            here[v] = slot.id
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
    """Find the parents of nodes in depth-first order; returns whether there is a tree.

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
    size, next_place : (n_nodes,) room; size must be 1 everywhere.
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


def fill_rows(const int32_t[::1] found, const int64_t[::1] found_ends,
              const uint32_t[::1] numbers, const int64_t[::1] text_ends,
              const double[::1] idf, bint logarithm, int norm, int32_t[::1] counts,
              uint64_t[::1] bits, uint64_t[::1] above, uint64_t[::1] top,
              int64_t[::1] ends,
              int32_t[::1] indices, Real[::1] data, int32_t[::1] stop):
    """The rows of texts: sorted columns, and the weight of each.

    found, found_ends : the columns of the n-grams of each segment.
    idf : by column, or empty.
    logarithm : whether the value of a count is 1 + its log.
    norm : 1 or 2; 0: rows are not divided.
    counts : (n_columns,) zeros; bits, above, top : zeros, one bit per column, per 64
        columns and per 4096 columns. They sort a row in linear time, and are zero again
        at the end.
    ends : (n_texts,) the end of each row. After `stop` all further rows are empty.
    indices, data : room for all entries, and two more indices.
    """
    cdef Watch watch = watch_of(stop)
    cdef bint each = numbers.shape[0] == 0
    cdef int64_t i = 0, s, k = 0, d, start
    cdef Py_ssize_t t = 0, a, b
    cdef int32_t c, base, n
    cdef int _first
    cdef uint64_t high, middle, low
    cdef double x, total
    cdef int64_t last = found_ends[found_ends.shape[0] - 1]
    # The values of small counts.
    cdef double[SMALL] value
    for c in range(SMALL):
        value[c] = value_of(c, logarithm)
    with nogil:
        for t in range(text_ends.shape[0]):
            start, total = k, 0.0
            while i < text_ends[t]:
                s = i + 1 if each else numbers[i]
                i += 1
                if i + AHEAD < numbers.shape[0]:
                    prefetch(&found[found_ends[numbers[i + AHEAD] - 1]], SEGMENT)
                for d in range(found_ends[s - 1], found_ends[s]):
                    if each and d + TOGETHER < last:
                        c = found[d + TOGETHER]
                        prefetch(&counts[c], sizeof(int32_t))
                        if idf.shape[0] > 0:
                            prefetch(&idf[c], sizeof(double))
                    c = found[d]
                    counts[c] += 1
                    bits[c >> 6] |= <uint64_t> 1 << (c & 63)
                    if above[c >> 12] == 0:
                        top[c >> 18] |= <uint64_t> 1 << (c >> 12 & 63)
                    above[c >> 12] |= <uint64_t> 1 << (c >> 6 & 63)
            for a in range(top.shape[0]):
                high = top[a]
                top[a] = 0
                while high:
                    b = (a << 6) + lowest(high)
                    high &= high - 1
                    middle = above[b]
                    above[b] = 0
                    while middle:
                        base = <int32_t> ((b << 6) + lowest(middle)) << 6
                        middle &= middle - 1
                        low = bits[base >> 6]
                        bits[base >> 6] = 0
                        # Usually one to three bits are set, which need no branch.
                        for _first in range(3):
                            indices[k] = base + lowest(low | LAST)
                            k += low != 0
                            low &= low - 1
                        while low:
                            indices[k] = base + lowest(low)
                            low &= low - 1
                            k += 1
            if over(&watch, SORTED * (k - start)):
                break
            for d in range(start, k):
                c = indices[d]
                n = counts[c]
                counts[c] = 0
                x = value[n] if n < SMALL else value_of(n, logarithm)
                if idf.shape[0] > 0:
                    x *= idf[c]
                total += x * x if norm == 2 else x
                data[d] = <Real> x
            if norm == 2:
                total = sqrt(total)
            if norm > 0:
                for d in range(start, k):
                    data[d] = <Real> (data[d] / total)
            ends[t] = k
        if stop[0] != 0:
            for a in range(t, text_ends.shape[0]):
                ends[a] = start
    propagate()
