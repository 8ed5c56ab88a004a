"""Suffix links of a context trie, each in one pass over its nodes or pairs.

Nodes are numbered level by level, so a parent's link is known before its children's.
With c the context of node n, s its oldest symbol and p its parent (c without s):

    newest(n) = newest(p), or s where p is the root
    drop(n)   = the child of drop(p) for s, because c without its newest symbol
                begins with the same s

drop costs one binary search among children per node, and a pair another search in its
node. Links access memory at random, so the time is dominated by memory latency: nodes
are processed in blocks, and each step of a block prefetches what the next step reads.
"""

from libc.stdint cimport int64_t

from .._prefetch cimport prefetch
from .._sorted cimport find_child, find_pair


cdef enum:
    BLOCK = 64  # nodes; the data of a block stays in the first-level cache


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
    """Node of each context without its most recent symbol, -1 if the tree lacks it.

    The root and its children give the root.
    """
    cdef Py_ssize_t n, first = 1, last, n_below_root, n_nodes = parent.shape[0]
    cdef int above, s
    with nogil:
        out[0] = 0
        while first < n_nodes and parent[first] == 0:
            out[first] = 0
            first += 1
        n_below_root = first - 1
        while first < n_nodes:
            # The links of the parents are known: a block ends before its own children.
            last = min(first + BLOCK, n_nodes)
            while parent[last - 1] >= first:
                last -= 1
            for n in range(first, last):
                above = out[parent[n]]
                if above >= 0:
                    prefetch(&child_ptr[above], 8)
            for n in range(first, last):
                above = out[parent[n]]
                if above >= 0 and child_ptr[above] < n_nodes:
                    prefetch(&symbol[child_ptr[above]], 4)
            for n in range(first, last):
                above = out[parent[n]]
                s = symbol[n]
                # Almost every symbol is a child of the root, and stands at its place.
                if above == 0 and s < n_below_root and symbol[1 + s] == s:
                    out[n] = 1 + s
                elif above >= 0:
                    out[n] = find_child(&symbol[0], &child_ptr[0], above, s)
                else:
                    out[n] = -1
            first = last


def extend_pairs(
    const int[::1] link,
    const int[::1] newest_class,
    const int[::1] pair_ptr,
    const int[::1] target,
    int[::1] out,
):
    """Write each node to the pair of its context without its newest symbol.

    link, newest_class : of each node, as from `drop_newest`, -1 for none.
    out : (n_pairs,), zeros.

    Returns
    -------
    missing : int
        How many nodes have a class and no such pair.
    """
    cdef Py_ssize_t n_nodes = link.shape[0], n_pairs = target.shape[0]
    cdef Py_ssize_t n, first = 1, last, missing = 0
    cdef int[BLOCK] pair
    with nogil:
        while first < n_nodes:
            last = min(first + BLOCK, n_nodes)
            for n in range(first, last):
                if link[n] >= 0:
                    prefetch(&pair_ptr[link[n]], 8)
            for n in range(first, last):
                if link[n] >= 0 and pair_ptr[link[n]] < n_pairs:
                    prefetch(&target[pair_ptr[link[n]]], 4)
            for n in range(first, last):
                pair[n - first] = -1
                # A class without a pair at the root has no pair at all.
                if link[n] >= 0 and 0 <= newest_class[n] < pair_ptr[1]:
                    pair[n - first] = find_pair(
                        &pair_ptr[0], &target[0], link[n], newest_class[n]
                    )
                    if pair[n - first] >= 0:
                        prefetch(&out[pair[n - first]], 4)
            for n in range(first, last):
                if pair[n - first] >= 0:
                    out[pair[n - first]] = <int>n
                elif newest_class[n] >= 0:
                    missing += 1
            first = last
    return missing


def next_extensions(const int[::1] last, int64_t[::1] first, int64_t[::1] out):
    """out[i] = first[last[i]], which then rises by 1 unless it is negative.

    The numbers of the nodes "h y" of pairs (h, y) in order: for one y, both come in the
    order of h.
    """
    cdef Py_ssize_t i
    cdef int y
    with nogil:
        for i in range(last.shape[0]):
            y = last[i]
            out[i] = first[y]
            if first[y] >= 0:
                first[y] += 1
