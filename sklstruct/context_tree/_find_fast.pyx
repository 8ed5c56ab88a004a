"""Deepest known node of context windows, and pairs of a node and a class.

A context is read from its most recent symbol backwards: down to one level by a direct
table, then each further depth by a binary search among the children, which are sorted
by symbol. The direct level is a level at which each symbol has a single node: the first
level for contexts of words, or the level of the first word if its classes precede it.
The search of a window that begins like the previous window starts at their last common
node. Cost per window: O(depth reached * log(children)), no allocation. The classes of a
node are sorted: a pair is one binary search.
"""

from .._sorted cimport find_child, find_pair


# Number of stored nodes of the last path.
cdef enum:
    DEEP = 15


def find_nodes(
    const int[::1] parent,
    const int[::1] symbol,
    const int[::1] child_ptr,
    Py_ssize_t level,
    const int[::1] entry,
    const int[:, :] windows,
    int[::1] out,
):
    """Write the deepest node of every window to `out`.

    parent, symbol, child_ptr : the tree (see ContextTree), N, N and N + 1 long.
    level, entry : (S,) the only node of depth `level` with each symbol, or
        -1.
    windows : (n, w) symbol ids below S, the last column the most recent. A
        negative id ends the history: nothing to its left is read. Any strides: a
        sliding-window view is read in place.
    """
    cdef Py_ssize_t i, j, k, first = 0, last = 0
    cdef Py_ssize_t width = windows.shape[1]
    cdef int s, node, child
    cdef int[DEEP + 1] path
    path[0] = 0
    with nogil:
        for i in range(windows.shape[0]):
            # path[first ... last] are the nodes of the window before, by depth.
            k = 0
            j = width - 1
            while k < last and windows[i, j - k] == windows[i - 1, j - k]:
                k += 1
            if k < first:
                k = first = 0
            if k < level <= width and level <= DEEP:
                s = windows[i, width - level]
                child = entry[s] if s >= 0 else -1
                if child > 0 and _is_context(parent, symbol, child, windows, i, level):
                    k = first = level
                    path[k] = child
            node = path[k]
            j -= k
            while j >= 0:
                s = windows[i, j]
                if s < 0:
                    break
                child = find_child(&symbol[0], &child_ptr[0], node, s)
                if child < 0:
                    break
                node = child
                j -= 1
                k += 1
                if k <= DEEP:
                    path[k] = node
            last = min(k, <Py_ssize_t> DEEP)
            out[i] = node


cdef inline bint _is_context(
    const int[::1] parent, const int[::1] symbol, int node, const int[:, :] windows,
    Py_ssize_t i, Py_ssize_t depth
) noexcept nogil:
    """Whether window i begins with the context above a node of its last symbol."""
    cdef Py_ssize_t j
    for j in range(windows.shape[1] - depth + 1, windows.shape[1]):
        node = parent[node]
        if symbol[node] != windows[i, j]:
            return False
    return True


def find_pairs(
    const int[::1] pair_ptr,
    const int[::1] target,
    const int[::1] nodes,
    const int[::1] targets,
    int[::1] out,
):
    """Index of each pair (node, target); -1 if the pair does not exist or either is
    -1."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(nodes.shape[0]):
            out[i] = -1
            # A class without a pair at the root has no pair at all.
            if nodes[i] >= 0 and 0 <= targets[i] < pair_ptr[1]:
                out[i] = find_pair(&pair_ptr[0], &target[0], nodes[i], targets[i])


def parent_pairs(
    const int[::1] parent,
    const int[::1] pair_ptr,
    const int[::1] target,
    int[::1] place,
    int[::1] out,
):
    """The pair of the same class at the parent of each pair's node, -1 for none.

    place: memory for a number per class. Nodes with the same parent are consecutive, so
    each pair is entered at most once; numbers below the first pair of the parent are
    left over from earlier nodes.
    """
    cdef Py_ssize_t n, p, above = -1
    with nogil:
        for p in range(pair_ptr[1]):
            out[p] = -1
            place[p] = -1
        for n in range(1, parent.shape[0]):
            if parent[n] != above:
                above = parent[n]
                for p in range(pair_ptr[above], pair_ptr[above + 1]):
                    place[target[p]] = <int> p
            for p in range(pair_ptr[n], pair_ptr[n + 1]):
                out[p] = place[target[p]]
                if out[p] < pair_ptr[above]:
                    out[p] = -1
