"""Checks and numbering of the nodes of a tree; trees with fewer levels."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ._io import reject_cycle
from ._labels import listed


def breadth_first(
    parent: NDArray, leaf: NDArray, names: tuple | None
) -> tuple[NDArray, NDArray, tuple | None]:
    """Checked and renumbered (parent, leaf_of_class, names), int32.

    A node with a single child is merged with the child.
    """
    n = parent.size
    only = _check_tree(parent, leaf)
    if not (
        only.any() or (np.diff(parent) < 0).any() or (parent >= np.arange(n)).any()
    ):
        return parent.astype(np.int32), leaf.astype(np.int32), names

    # `first` and `following` are linked lists of the children of every node, in the
    # order of their numbers.
    above, only = parent.tolist(), only.tolist()
    first, following = [-1] * n, [-1] * n
    for v in range(n - 1, -1, -1):
        if above[v] >= 0:
            following[v] = first[above[v]]
            first[above[v]] = v

    def bottom(v):
        while only[v]:
            v = first[v]
        return v

    number = [-1] * n
    order = [bottom(above.index(-1))]
    new_parent = [-1]
    for i, v in enumerate(order):  # grows while it is read
        number[v] = i
        child = first[v]
        while child >= 0:
            order.append(bottom(child))
            new_parent.append(i)
            child = following[child]
    if names is not None:
        names = tuple(_name_of_chain(v, names, above, only) for v in order)
    return (
        np.array(new_parent, dtype=np.int32),
        np.array(number, dtype=np.int32)[leaf],
        names,
    )


def _name_of_chain(v, names, above, only):
    """The lowest name in the chain of single-child nodes that ends at node v."""
    while names[v] is None and above[v] >= 0 and only[above[v]]:
        v = above[v]
    return names[v]


def _check_tree(parent, leaf):
    """Raise ValueError unless the arrays are a tree.

    Returns (n_nodes,) bool: whether nodes have a single child.
    """
    n = parent.size
    if n == 0:
        raise ValueError("parent is empty; a taxonomy has at least a root")
    if (parent >= n).any() or (parent < -1).any():
        bad = np.flatnonzero((parent >= n) | (parent < -1))[0]
        raise ValueError(
            f"parent must hold node numbers from 0 to {n - 1} or -1 for the root, got "
            f"parent[{bad}] = {parent[bad]}"
        )
    if leaf.min() < 0 or leaf.max() >= n:
        raise ValueError(
            f"leaf_of_class must hold node numbers from 0 to {n - 1}, got "
            f"{leaf.min() if leaf.min() < 0 else leaf.max()}"
        )
    roots = np.flatnonzero(parent < 0)
    if roots.size > 1:
        raise ValueError(
            f"parent has {roots.size} roots (-1), e.g. nodes {listed(roots)}; a "
            f"taxonomy has one root"
        )
    if roots.size == 0:
        raise ValueError("cycle: parent has no root (-1)")
    reject_cycle(parent.tolist(), roots, range(n))
    n_children = np.bincount(parent[parent >= 0], minlength=n)
    n_classes = np.bincount(leaf, minlength=n)
    if (bad := np.flatnonzero((n_children > 0) & (n_classes > 0))).size:
        raise ValueError(
            f"leaf_of_class puts classes into the inner node {bad[0]}; classes are "
            f"held by leaves only"
        )
    if (bad := np.flatnonzero((n_children == 0) & (n_classes == 0))).size:
        raise ValueError(
            f"empty node: leaf {bad[0]} of parent has no class"
            f"{'' if bad.size == 1 else f', nor do {bad.size - 1} other leaves'}"
        )
    return n_children == 1


class ClassSets(NamedTuple):
    """The classes below each node v: ``order[start[v]:stop[v]]``.

    The leaves from left to right have consecutive runs of `order`, so the sets of all
    nodes share one array; separate lists would take K²/2 entries in a chain.
    """

    order: NDArray  # (n_classes,) int32, class indices from left to right
    start: NDArray  # (n_nodes,) int32
    stop: NDArray  # (n_nodes,) int32

    @classmethod
    def of(cls, tree: Any) -> Self:
        """The sets of a taxonomy, as arrays that cannot be changed."""
        n, parent = tree.n_nodes, tree.parent.tolist()
        size = np.bincount(tree.leaf_of_class, minlength=n).tolist()
        for v in range(n - 1, 0, -1):
            size[parent[v]] += size[v]
        start = [0] * n
        free = [0] * n  # where the next child of a node starts
        for v in range(1, n):
            p = parent[v]
            start[v] = free[v] = free[p]
            free[p] += size[v]
        begin = np.array(start, dtype=np.int32)
        order = np.argsort(begin[tree.leaf_of_class], kind="stable").astype(np.int32)
        sets = cls(order, begin, begin + np.array(size, dtype=np.int32))
        for array in sets:
            array.flags.writeable = False
        return sets


def pruned(tree: Any, keep: NDArray) -> tuple[NDArray, list[int], NDArray]:
    """(parents, kept nodes, the lowest kept node at or above each node).

    keep: (n_nodes,) bool; if False for a node, also for all nodes below it.
    """
    up = np.arange(tree.n_nodes, dtype=np.int32)
    for lo, hi in zip(tree.level_ptr[1:-1], tree.level_ptr[2:]):
        up[lo:hi] = np.where(keep[lo:hi], up[lo:hi], up[tree.parent[lo:hi]])
    # whole subtrees are removed, so the kept nodes are still breadth-first
    parent = tree.parent[keep]
    parent[1:] = (np.cumsum(keep) - 1)[parent[1:]]
    return parent, np.flatnonzero(keep).tolist(), up


def widened(tree: Any, max_children: int) -> tuple[NDArray, list[int]]:
    """(parents, kept nodes) of `Taxonomy.limit` by `max_children`."""
    _, start, stop = tree.class_sets
    size, start = (stop - start).tolist(), start.tolist()
    ptr = tree.child_ptr.tolist()
    parent, kept = [-1], [0]
    for number, v in enumerate(kept):  # grows while it is read
        children = list(range(ptr[v], ptr[v + 1]))
        n_children = len(children)
        found = []
        inner = [(-size[c], c) for c in children if ptr[c + 1] > ptr[c]]
        heapify(inner)
        children = [c for c in children if ptr[c + 1] == ptr[c]]
        while inner:
            _, c = heappop(inner)
            more = ptr[c + 1] - ptr[c]
            if n_children - 1 + more > max_children:
                found.append(c)
                continue
            n_children += more - 1
            for grandchild in range(ptr[c], ptr[c + 1]):
                if ptr[grandchild + 1] > ptr[grandchild]:
                    heappush(inner, (-size[grandchild], grandchild))
                else:
                    children.append(grandchild)
        children = sorted(children + found, key=start.__getitem__)
        kept += children
        parent += [number] * len(children)
    return np.array(parent, dtype=np.int32), kept


def canonical(tree: Any) -> tuple[NDArray, NDArray]:
    """(parent, leaf_of_class) with siblings sorted by the first class below each."""
    n, parent, ptr = tree.n_nodes, tree.parent, tree.level_ptr
    smallest = np.full(n, tree.n_classes, dtype=np.int64)
    np.minimum.at(smallest, tree.leaf_of_class, np.arange(tree.n_classes))
    for lo, hi in zip(ptr[-2:0:-1], ptr[:1:-1]):
        np.minimum.at(smallest, parent[lo:hi], smallest[lo:hi])
    # Level by level, sorted by (new number of the parent, smallest class).
    number = np.zeros(n, dtype=np.int32)
    for lo, hi in pairwise(ptr[1:]):
        rank = np.lexsort((smallest[lo:hi], number[parent[lo:hi]]))
        number[lo:hi][rank] = np.arange(lo, hi, dtype=np.int32)
    out = np.full(n, -1, dtype=np.int32)
    out[number[1:]] = number[parent[1:]]
    return out, number[tree.leaf_of_class]
