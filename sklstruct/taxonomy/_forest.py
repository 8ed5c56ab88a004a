"""The nodes of several trees in one numbering."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import INT32_MAX, as_ids, check_ids, check_length, check_pointers
from ._taxonomy import Taxonomy


class Forest(NamedTuple):
    """The nodes of several trees over the same classes, as flat int32 arrays.

    The nodes of tree t are ``tree_ptr[t]:tree_ptr[t + 1]``: first the nodes of the
    taxonomy, in its numbering, then one node for each class of a leaf that has several,
    so that every class has one terminal node in each tree. No node has a single child.
    A node v with m > 0 children has a model with the weight vectors ``row[v]``,
    ``row[v] + 1``, ...: one vector if m = 2, otherwise m vectors.

    Examples
    --------
    >>> from sklstruct.taxonomy import Forest, Taxonomy
    >>> forest = Forest.from_taxonomies([Taxonomy.from_nested([["a", "b"], ["c"]])])
    >>> forest.parent
    array([-1,  0,  0,  1,  1], dtype=int32)
    >>> forest.node_class
    array([-1, -1,  2,  0,  1], dtype=int32)
    """

    tree_ptr: NDArray
    """(n_trees + 1,), first node of each tree."""

    parent: NDArray
    """(n_nodes,), -1 for roots."""

    first_child: NDArray
    """(n_nodes,), the children of a node have consecutive numbers."""

    n_child: NDArray
    """(n_nodes,), number of children."""

    row: NDArray
    """(n_nodes,), first weight vector."""

    node_class: NDArray
    """(n_nodes,), the class of a terminal node, -1 for other nodes."""

    terminal: NDArray
    """(n_trees, n_classes), the terminal node of each class."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return self.parent.size

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.terminal.shape[0]

    @property
    def n_rows(self) -> int:
        """Number of weight vectors of all nodes together."""
        return int(self.rows_of_node.sum())

    @property
    def rows_of_node(self) -> NDArray:
        """Number of weight vectors of each node: 1 for two children, m for m > 2."""
        return _n_rows(self.n_child)

    @property
    def model_nodes(self) -> NDArray:
        """The nodes with children. Each of these nodes has a model."""
        return np.flatnonzero(self.n_child).astype(np.int32)

    def check(self) -> None:
        """ValueError if the arrays of a damaged pickle contradict each other."""
        n, n_trees, n_classes = self.parent.size, *self.terminal.shape
        for name, array in self._asdict().items():
            as_ids(name, array, 2 if name == "terminal" else 1)
            if name not in ("tree_ptr", "terminal"):
                check_length(name, array, n, "one per node")
        check_length("tree_ptr", self.tree_ptr, n_trees + 1, "the trees and their end")
        check_pointers("tree_ptr", self.tree_ptr, n)
        check_ids("n_child", self.n_child, 0, n + 1, "number of children")
        inner = np.flatnonzero(self.n_child)
        first, n_child = self.first_child[inner], self.n_child[inner].astype(np.int64)
        check_ids("first_child - node", first - inner, 1, n + 1, "way down")
        check_ids("first_child + n_child", first + n_child, 0, n + 1, "node")
        parent, end = np.full(n, -1), np.cumsum(n_child)
        if end[-1:].sum() == n - n_trees:
            child = np.repeat(first - end + n_child, n_child) + np.arange(n - n_trees)
            parent[child] = np.repeat(inner, n_child)
        rows = self.rows_of_node
        known = np.flatnonzero(self.node_class >= 0)
        check_ids("node_class", self.node_class, -1, n_classes, "class")
        check_ids("terminal", self.terminal, 0, n, "node")
        for name, right in {
            "parent": np.array_equal(self.parent, parent)
            and np.array_equal(np.flatnonzero(parent < 0), self.tree_ptr[:-1]),
            "row": np.array_equal(self.row, np.cumsum(rows) - rows),
            "terminal": np.array_equal(np.sort(self.terminal, axis=None), known)
            and (self.node_class[self.terminal] == np.arange(n_classes)).all(),
        }.items():
            if not right:
                raise ValueError(f"{name} of the forest is not that of its children")

    @classmethod
    def from_taxonomies(cls, taxonomies: Iterable[Taxonomy]) -> Forest:
        """The forest of one or more trees over the same classes.

        ValueError if the trees have more than 2^31 - 1 nodes together.
        """
        parts = [_tree_arrays(taxonomy) for taxonomy in taxonomies]
        sizes = [part[0].size for part in parts]
        if sum(sizes) > INT32_MAX:
            raise ValueError(
                "n_taxonomies is too large: the trees have more than 2^31 - 1 nodes "
                "together; use fewer trees"
            )
        tree_ptr = np.concatenate([[0], np.cumsum(sizes)])
        parent, first, n_child, node_class, terminal = zip(*parts)
        parent = [np.where(p < 0, -1, p + o) for p, o in zip(parent, tree_ptr)]
        n_child = np.concatenate(n_child)
        rows = _n_rows(n_child)
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


def _n_rows(n_child: NDArray) -> NDArray:
    return np.where(n_child == 2, 1, n_child)


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
