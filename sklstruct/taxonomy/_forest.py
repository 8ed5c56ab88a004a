"""The nodes of several trees in one numbering."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import INT32_MAX
from ._taxonomy import Taxonomy


class Forest(NamedTuple):
    """The nodes of several trees over the same classes, as flat int32 arrays.

    The nodes of tree t are ``tree_ptr[t]`` to ``tree_ptr[t + 1]``: first those of the
    taxonomy, in its numbering, then one for each class of a leaf that holds several.
    Every class thus has one terminal node in each tree. A node v with m children has
    a model with the weight vectors ``row[v]``, ``row[v] + 1``, ...: m of them, one for
    m = 2, none for m < 2.

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
        return self.parent.size

    @property
    def n_trees(self) -> int:
        return self.terminal.shape[0]

    @property
    def n_rows(self) -> int:
        """Weight vectors of all nodes together."""
        return int(self.rows_of_node.sum())

    @property
    def rows_of_node(self) -> NDArray:
        """Weight vectors of each node: one for two children, none for fewer."""
        return _n_rows(self.n_child)

    @property
    def model_nodes(self) -> NDArray:
        """The nodes that have a model: those with at least two children."""
        return np.flatnonzero(self.n_child >= 2).astype(np.int32)

    @classmethod
    def from_taxonomies(cls, taxonomies: Iterable[Taxonomy]) -> Forest:
        """The forest of some trees over the same classes.

        Parameters
        ----------
        taxonomies : iterable of Taxonomy
            The trees, at least one.

        Returns
        -------
        forest : Forest

        Raises
        ------
        ValueError
            The trees have more than 2^31 - 1 nodes together.
        """
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
