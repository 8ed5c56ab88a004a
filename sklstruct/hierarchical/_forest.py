"""The nodes of all trees in one numbering, as the kernels read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import INT32_MAX
from ..taxonomy import Taxonomy


class Forest(NamedTuple):
    """Flat arrays over the nodes of all trees.

    The nodes of tree t are ``tree_ptr[t]`` to ``tree_ptr[t + 1]``: first those of the
    taxonomy, in its numbering, then one for each class of a leaf with several, so
    that every class has one terminal node. All int32.
    """

    tree_ptr: NDArray  # (n_trees + 1,)
    parent: NDArray  # (n_nodes,), -1 for roots
    first_child: NDArray
    n_child: NDArray
    row: NDArray  # first row of the weights
    node_class: NDArray  # class of a terminal node, -1 otherwise
    terminal: NDArray  # (n_trees, n_classes)

    @property
    def n_nodes(self) -> int:
        return self.parent.size

    @property
    def n_trees(self) -> int:
        return self.terminal.shape[0]

    @property
    def n_rows(self) -> int:
        """Weight vectors of all models."""
        return int(rows_of(self.n_child).sum())

    @property
    def model_nodes(self) -> NDArray:
        """The nodes that decide something: those with two children and more."""
        return np.flatnonzero(self.n_child >= 2).astype(np.int32)

    @classmethod
    def from_taxonomies(cls, taxonomies: Iterable[Taxonomy]) -> Forest:
        """The forest of trees over the same classes."""
        parts = [_tree_arrays(taxonomy) for taxonomy in taxonomies]
        sizes = [part[0].size for part in parts]
        if sum(sizes) > INT32_MAX:
            raise ValueError(
                "n_taxonomies is too large: the trees have more than 2^31 - 1 nodes "
                "in all; use fewer"
            )
        tree_ptr = np.concatenate([[0], np.cumsum(sizes)])
        parent, first, n_child, node_class, terminal = zip(*parts)
        parent = [np.where(p < 0, -1, p + o) for p, o in zip(parent, tree_ptr)]
        n_child = np.concatenate(n_child)
        rows = rows_of(n_child)
        arrays = (
            tree_ptr,
            np.concatenate(parent),
            np.concatenate([f + o for f, o in zip(first, tree_ptr)]),
            n_child,
            np.cumsum(rows) - rows,
            np.concatenate(node_class),
            np.array([t + o for t, o in zip(terminal, tree_ptr)]),
        )
        return cls(*(np.ascontiguousarray(a, dtype=np.int32) for a in arrays))


def rows_of(n_child: NDArray) -> NDArray:
    """Weight vectors of a node: one for two children, none for fewer."""
    return np.where(n_child <= 1, 0, np.where(n_child == 2, 1, n_child))


def _tree_arrays(taxonomy: Taxonomy) -> tuple[NDArray, ...]:
    """(parent, first_child, n_child, node_class, terminal) of one tree."""
    n = taxonomy.n_nodes
    order, start, stop = taxonomy.class_sets
    held = np.where(taxonomy.is_leaf, stop - start, 0)
    wide = np.flatnonzero(held > 1)
    extra = held[wide]
    n_child = np.concatenate([np.diff(taxonomy.child_ptr), np.zeros(extra.sum(), int)])
    first = np.concatenate([taxonomy.child_ptr[:-1], np.zeros(extra.sum(), int)])
    n_child[wide] = extra
    first[wide] = n + np.cumsum(extra) - extra
    parent = np.concatenate([taxonomy.parent, np.repeat(wide, extra)])
    node_class = np.full(parent.size, -1)
    single = np.flatnonzero(held == 1)
    node_class[single] = order[start[single]]
    # the classes of wide leaves, leaf by leaf
    shift = np.repeat(start[wide] - first[wide] + n, extra)
    node_class[n:] = order[shift + np.arange(extra.sum())]
    terminal = np.empty(taxonomy.n_classes, dtype=np.int64)
    known = node_class >= 0
    terminal[node_class[known]] = np.flatnonzero(known)
    return parent, first, n_child, node_class, terminal


def outcome_bounds(taxonomy: Taxonomy, counts: NDArray) -> list[NDArray]:
    """Boundaries of the outcomes of each node that decides something.

    counts: samples of each class. With samples sorted by the position of their class
    in ``taxonomy.leaf_order()``, the classes below a node are a range, and their
    samples too. The nodes are those of `Forest.model_nodes`, in order; a node of m
    outcomes has m + 1 boundaries.
    """
    order, start, stop = taxonomy.class_sets
    ends = np.concatenate([[0], np.cumsum(counts[order])])
    first, last = taxonomy.child_ptr[:-1].tolist(), taxonomy.child_ptr[1:].tolist()
    bounds = []
    for v, (a, b) in enumerate(zip(first, last)):
        if b - a >= 2:
            bounds.append(ends[np.append(start[a:b], stop[v])])
        elif a == b and stop[v] - start[v] >= 2:
            bounds.append(ends[start[v] : stop[v] + 1])
    return bounds
