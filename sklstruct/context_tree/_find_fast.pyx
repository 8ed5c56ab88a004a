"""Deepest known node of context windows, and pairs of a node and a class.

A context is read from its most recent symbol backwards: depth 1 through a
direct table (the root has almost as many children as there are symbols), each
further depth by a binary search among the children, which are sorted by symbol.
Cost per window: O(depth reached * log(children)), no allocation. The classes of a
node are sorted: a pair is one binary search.
"""


def find_nodes(
    const int[::1] symbol,
    const int[::1] child_ptr,
    const int[::1] root_child,
    const int[:, :] windows,
    int[::1] out,
):
    """Write the deepest node of every window to `out`.

    symbol, child_ptr : the tree (see ContextTree), N and N + 1 long.
    root_child : (S,) the root's child for each symbol id, -1 where it has none.
    windows : (n, w) symbol ids below S, the last column the most recent. A
        negative id ends the history: nothing to its left is read. Any strides: a
        sliding-window view is read in place.
    """
    cdef Py_ssize_t i, j
    cdef Py_ssize_t width = windows.shape[1]
    cdef int s, node, child
    with nogil:
        for i in range(windows.shape[0]):
            node = 0
            for j in range(width - 1, -1, -1):
                s = windows[i, j]
                if s < 0:
                    break
                if j == width - 1:
                    child = root_child[s]
                else:
                    child = find_child(symbol, child_ptr, node, s)
                if child < 0:
                    break
                node = child
            out[i] = node


def find_pairs(
    const int[::1] pair_ptr,
    const int[::1] target,
    const int[::1] nodes,
    const int[::1] targets,
    int[::1] out,
):
    """Index of each pair (node, target), -1 where there is none or either is -1."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(nodes.shape[0]):
            out[i] = -1
            # Classes that the root does not hold have no pair anywhere.
            if nodes[i] >= 0 and 0 <= targets[i] < pair_ptr[1]:
                out[i] = find_pair(pair_ptr, target, nodes[i], targets[i])
