"""Merging of any number of counts, and renumbering of ids.

The trees are traversed together, depth first: at a context, the pairs of all trees that
have the context are merged by class, and then its children by symbol. Children that
only one tree has are copied with their descendants. In the canonical order, this
traversal visits the nodes and pairs of each level in order, in every tree and in the
result. So each level of each tree is read once, from the first record to the last, and
each level of the result is written in order. The memory is that of the blocks of
`Streams`. O(sum of the sizes times the number of trees that share a context).
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t

import numpy as np

from ._streams_fast cimport (
    Node,
    Streams,
    copy,
    more,
    next_node,
    put_record,
    take_record,
)


cdef int32_t merge_pairs(
    Streams s, Py_ssize_t depth, Py_ssize_t n_levels, const int32_t* runs,
    Py_ssize_t n_runs, int32_t* left, int32_t* live, int32_t* head,
) except -1 nogil:
    """Merge the pairs of one context; return their number. left[r] pairs of run r are
    read."""
    cdef Py_ssize_t j, k, i, n_live = 0
    cdef int32_t r, y, n = 0
    cdef double count, total
    for j in range(n_runs):
        r = runs[j]
        if left[r]:
            live[n_live] = r
            take_record(s, 3 * (r * n_levels + depth) + 1, &head[n_live])
            n_live += 1
    while n_live:
        y = head[0]
        for j in range(1, n_live):
            y = min(y, head[j])
        total = 0.0
        k = 0
        for j in range(n_live):
            r = live[j]
            live[k] = r
            head[k] = head[j]
            if head[k] == y:
                i = 3 * (r * n_levels + depth) + 1
                take_record(s, i + 1, &count)
                total += count
                left[r] -= 1
                if not left[r]:
                    continue
                take_record(s, i, &head[k])
            k += 1
        n_live = k
        put_record(s, 3 * depth + 1, y)
        put_record(s, 3 * depth + 2, total)
        n += 1
    return n


cdef int copy_branches(
    Streams s, int32_t r, Py_ssize_t depth, Py_ssize_t n_levels, int32_t bound,
    int64_t* number, int64_t* n_out, Py_ssize_t index,
) except -1 nogil:
    """Copy children of the last context of a depth that run r alone has.

    Their symbols are below `bound`. They and their descendants are ranges of the
    levels.
    """
    cdef Py_ssize_t k, i
    cdef int64_t last, shift, n_pairs
    cdef Node* node
    for k in range(depth + 1, n_levels):
        i = 3 * (r * n_levels + k)
        last = number[k - 1]
        shift = n_out[k - 1] - 1 - last
        n_pairs = 0
        while more(s, i):
            node = next_node(s, i)
            if node.parent > last or (k == depth + 1 and node.symbol >= bound):
                break
            put_record(s, 3 * k, Node(node.parent + shift, node.symbol, node.n_pairs))
            if index:
                put_record(s, index + k, <int32_t> n_out[k])
            n_pairs += node.n_pairs
            s.ins[i].at += 1
            number[k] += 1
            n_out[k] += 1
        copy(s, i + 1, 3 * k + 1, n_pairs, sizeof(int32_t))
        copy(s, i + 2, 3 * k + 2, n_pairs, sizeof(double))
    return 0


def merge(
    Streams s, Py_ssize_t n_runs, Py_ssize_t n_levels, const int64_t[::1] first,
    bint indexed,
):
    """Merge the trees, the pairs and the counts of some runs.

    Inputs: nodes, classes of pairs and counts of each level, level by level, of the
    first run; then those of the second, and so on; runs have equally many levels, of
    which the last may be empty. first: the number of the first node of each level of
    each run, which is not 0 in a range of contexts. Outputs: the same of the result. If
    `indexed`, then the number, within its level, of each node of each level of each
    run.
    """
    # The number of the last node of each level that was read.
    cdef int64_t[::1] number = np.asarray(first) - 1
    cdef int64_t[::1] n_out = np.zeros(n_levels, dtype=np.int64)
    cdef int64_t parent
    # The runs that have the current context of each depth.
    cdef int32_t[:, ::1] active = np.empty((n_levels, n_runs), dtype=np.int32)
    cdef Py_ssize_t[::1] n_active = np.zeros(n_levels, dtype=np.intp)
    cdef int32_t[::1] left = np.empty(n_runs, dtype=np.int32)
    cdef int32_t[::1] live = np.empty(n_runs, dtype=np.int32)
    cdef int32_t[::1] head = np.empty(n_runs, dtype=np.int32)
    cdef Py_ssize_t depth = -1, j, i
    cdef int32_t r, y, symbol, bound, n_pairs
    with nogil:
        while True:
            # The next context: the first child that is left, of the first symbol. The
            # child after it that another run has is of the symbol `bound`.
            symbol = bound = INT32_MAX
            if depth < 0:
                for r in range(n_runs):
                    active[0, r] = r
                n_active[0] = n_runs
                symbol = -1
            elif depth + 1 < n_levels:
                n_active[depth + 1] = 0
                for j in range(n_active[depth]):
                    r = active[depth, j]
                    i = 3 * (r * n_levels + depth + 1)
                    if not more(s, i):
                        continue
                    if next_node(s, i).parent != number[r * n_levels + depth]:
                        continue
                    y = next_node(s, i).symbol
                    if y < symbol:
                        bound = symbol
                        symbol = y
                        n_active[depth + 1] = 0
                    elif y > symbol:
                        bound = min(bound, y)
                    if y == symbol:
                        active[depth + 1, n_active[depth + 1]] = r
                        n_active[depth + 1] += 1
            if symbol == INT32_MAX:
                if depth == 0:
                    break
                depth -= 1
                continue
            if depth >= 0 and n_active[depth + 1] == 1:
                r = active[depth + 1, 0]
                copy_branches(
                    s, r, depth, n_levels, bound, &number[r * n_levels], &n_out[0],
                    (3 + r) * n_levels if indexed else 0,
                )
                continue
            depth += 1
            for j in range(n_active[depth]):
                r = active[depth, j]
                i = 3 * (r * n_levels + depth)
                more(s, i)
                left[r] = next_node(s, i).n_pairs
                s.ins[i].at += 1
                number[r * n_levels + depth] += 1
                if indexed:
                    put_record(s, (3 + r) * n_levels + depth, <int32_t> n_out[depth])
            n_pairs = merge_pairs(
                s, depth, n_levels, &active[depth, 0], n_active[depth], &left[0],
                &live[0], &head[0],
            )
            parent = n_out[depth - 1] - 1 if depth else -1
            put_record(s, 3 * depth, Node(parent, symbol, n_pairs))
            n_out[depth] += 1
    s.close()


def renumber(const int32_t[::1] ids, const int32_t[::1] table, int32_t[::1] out):
    """out[i] = table[ids[i]], -1 for a negative id."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(ids.shape[0]):
            out[i] = table[ids[i]] if ids[i] >= 0 else -1
