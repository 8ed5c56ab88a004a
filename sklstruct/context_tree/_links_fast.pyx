"""Suffix links of a context trie, each in one pass over its nodes or pairs.

Nodes are numbered level by level, so a parent's link is known before its children's.
With c the context of node n, s its oldest symbol and p its parent (c without s):

    newest(n) = newest(p), or s where p is the root
    drop(n)   = the child of drop(p) for s, because c without its newest symbol
                begins with the same s

drop costs one binary search among children a node.
"""

from ._find_fast cimport find_child


def newest_symbols(const int[::1] parent, const int[::1] symbol, int[::1] out):
    """Most recent symbol of each node; -1 for the root."""
    cdef Py_ssize_t n
    with nogil:
        out[0] = -1
        for n in range(1, parent.shape[0]):
            out[n] = symbol[n] if parent[n] == 0 else out[parent[n]]


def drop_newest(
    const int[::1] parent,
    const int[::1] symbol,
    const int[::1] child_ptr,
    int[::1] out,
):
    """Node of each context without its most recent symbol, -1 where there is none.

    The root and its children give the root.
    """
    cdef Py_ssize_t n
    cdef int above
    with nogil:
        out[0] = 0
        for n in range(1, parent.shape[0]):
            if parent[n] == 0:
                out[n] = 0
                continue
            above = out[parent[n]]
            out[n] = -1
            if above >= 0:
                out[n] = find_child(symbol, child_ptr, above, symbol[n])
