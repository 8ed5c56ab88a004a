"""Functions of the nodes of a tree: texts of paths, sums over leaves, the path down."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# A `Taxonomy`; its module imports this one.
Tree: TypeAlias = Any


def sums_below(tree: Tree, values: NDArray) -> NDArray:
    """(n, n_nodes) sums of values (n, n_classes) over the classes below each node."""
    order, start, _ = tree.class_sets
    leaves = np.flatnonzero(tree.is_leaf)
    leaves = leaves[np.argsort(start[leaves])]
    out = np.zeros((values.shape[0], tree.n_nodes))
    out[:, leaves] = np.add.reduceat(values[:, order], start[leaves], axis=1)
    ptr, parent = tree.level_ptr, tree.parent
    for lo, hi in zip(ptr[-2:0:-1], ptr[:1:-1]):
        above, first = np.unique(parent[lo:hi], return_index=True)
        out[:, above] = np.add.reduceat(out[:, lo:hi], first, axis=1)
    return out


def lowest_nodes(tree: Tree, code: NDArray, n_classes: NDArray) -> NDArray:
    """The lowest node above class code[i] with at least n_classes[i] classes."""
    _, start, stop = tree.class_sets
    node = tree.leaf_of_class[code].astype(np.int64)
    low = np.flatnonzero((stop - start)[node] < n_classes)
    while low.size:
        node[low] = tree.parent[node[low]]
        low = low[(stop - start)[node[low]] < n_classes[low]]
    return node


def walk_down(
    first_child: NDArray, n_child: NDArray, mass: NDArray, least: float
) -> NDArray:
    """The last node of the path of most probable children, for each row of mass.

    mass: (n, n_nodes) probabilities of the nodes. The path ends before the first node
    whose mass is below `least`.
    """
    at = np.zeros(len(mass), dtype=np.int64)
    active = np.arange(len(mass))
    while active.size:
        moved = []
        for v in np.unique(at[active]).tolist():
            if n_child[v] == 0:
                continue
            rows = active[at[active] == v]
            children = mass[rows, first_child[v] : first_child[v] + n_child[v]]
            best = children.argmax(axis=1)
            on = children[np.arange(rows.size), best] >= least
            at[rows[on]] = first_child[v] + best[on]
            moved.append(rows[on])
        active = np.concatenate(moved) if moved else np.empty(0, dtype=np.int64)
    return at


def texts_of_nodes(tree: Tree) -> NDArray:
    """A text for each node, unique among its siblings; "" at the root.

    The text is the label of a leaf of one class, else the name of the node, or
    "node 3" for node 3 without a name. " (node 3)" is appended to repeated texts.
    """
    n, held = tree.n_nodes, np.bincount(tree.leaf_of_class, minlength=tree.n_nodes)
    label = np.full(n, "", dtype=object)
    label[tree.leaf_of_class] = tree.classes.astype(str)
    names = tree.names or (None,) * n
    texts, seen = np.full(n, "", dtype=object), set[tuple[int, str]]()
    group = np.flatnonzero(held != 1).tolist()
    for v in [*np.flatnonzero(held == 1).tolist(), *group]:
        if v == 0:
            continue
        if held[v] == 1:
            text = label[v]
        else:
            text = f"node {v}" if names[v] is None else str(names[v])
        while (int(tree.parent[v]), text) in seen:
            text += f" (node {v})"
        seen.add((int(tree.parent[v]), text))
        texts[v] = text
    return texts


def write_paths(tree: Tree, place: NDArray) -> NDArray:
    """(n, n_levels) paths; place: node v, or n_nodes + c for the path of class c."""
    n, leaf = tree.n_nodes, tree.leaf_of_class
    if (tree.classes == "").any():
        raise ValueError(
            'classes has the label "", which marks the end of a path: rename the class'
        )
    level = tree.level_of_node
    # A class has its own entry unless its leaf has no other class.
    alone = (np.bincount(leaf, minlength=n) == 1)[leaf] & (leaf > 0)
    width = int((level[leaf] + ~alone).max())
    out = np.full((place.size, width), "", dtype=object)
    code = np.flatnonzero(place >= n)
    node = place.astype(np.int64)
    node[code] = leaf[place[code] - n]
    own = code[~alone[place[code] - n]]
    out[own, level[node[own]]] = tree.classes.astype(str)[place[own] - n]
    texts, row = texts_of_nodes(tree), np.arange(place.size)
    while row.size:
        row = row[node[row] > 0]
        out[row, level[node[row]] - 1] = texts[node[row]]
        node[row] = tree.parent[node[row]]
    return out.astype(str)
