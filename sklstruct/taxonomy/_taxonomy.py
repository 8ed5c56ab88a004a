"""A tree over classes as flat arrays."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from difflib import get_close_matches
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import as_floats, as_ids, check_count, check_length
from ._io import read_nested, read_parents, read_paths, write_nested, write_text
from ._labels import among, as_labels, is_absent, listed
from ._node_answers import sums_below, write_paths
from ._numbering import ClassSets, breadth_first, canonical, pruned, widened

_STATE = ("parent", "leaf_of_class", "classes", "names")  # of a pickle


class Taxonomy:
    r"""A rooted tree whose leaves partition the classes.

    Let C(v) be the classes below node v, and 0 the root. :math:`C(0)` are all classes,
    and :math:`C(v) = \bigcup_{c \in children(v)} C(c)`, a disjoint union. A leaf holds
    one or several classes, and leaves may be on different levels.

    Parameters
    ----------
    parent : array-like of int, shape (n_nodes,)
        Parent of each node, -1 for the root, in any numbering. Nodes are
        renumbered breadth-first, siblings in the order given. A node with a single
        child is merged with the child: both have the same set of classes.

    leaf_of_class : array-like of int, shape (n_classes,)
        The leaf that holds each class.

    classes : array-like of shape (n_classes,), default=None
        Distinct labels; None means 0 ... n_classes - 1. Labels in another order are
        sorted, together with `leaf_of_class`.

    names : sequence of length n_nodes, default=None
        Names of the nodes, None for a node without a name. `export_text` and plots use
        them; the comparison ``==`` ignores them.

    Attributes
    ----------
    parent : int32 ndarray of shape (n_nodes,)
        ``parent[0] == -1``: node 0 is the root. Nodes are numbered breadth-first, so
        ``parent[v] < v``, `parent` is sorted, and siblings and levels are contiguous.
        All arrays are read-only.

    child_ptr : int32 ndarray of shape (n_nodes + 1,)
        Children of node v are the nodes ``child_ptr[v]:child_ptr[v + 1]``.

    level_ptr : int32 ndarray of shape (depth + 2,)
        Nodes of level k are ``level_ptr[k]:level_ptr[k + 1]``.

    leaf_of_class : int32 ndarray of shape (n_classes,)
        Leaf of each class.

    classes : ndarray of shape (n_classes,)
        Sorted labels.

    names : tuple or None
        Names of the nodes.

    n_nodes, n_classes, n_leaves : int
        Numbers of nodes (including the root and leaves), classes and leaves.

    depth : int
        Number of decisions on the longest path; 0 for a single leaf.

    is_leaf : bool ndarray of shape (n_nodes,)
        Whether a node has no children.

    level_of_node : int32 ndarray of shape (n_nodes,)
        Number of decisions on the path to each node; 0 for the root.

    Raises
    ------
    ValueError
        If `parent` has a cycle or several roots, a leaf has no class, a class is at an
        inner node, or labels are repeated.

    See Also
    --------
    TaxonomyBuilder : Base of the classes that learn a taxonomy from data.

    Notes
    -----
    No method is recursive: trees may be 10 000 levels deep. A pickle stores `parent`,
    `leaf_of_class`, `classes` and `names` only.

    Examples
    --------
    >>> from sklstruct.taxonomy import Taxonomy
    >>> tree = Taxonomy.from_nested([["cat", "dog"], [["car"], ["bus", "tram"]]])
    >>> tree
    Taxonomy(n_classes=5, n_nodes=5, n_leaves=3, depth=2)
    >>> print(tree.export_text())
    root
    |--- cat, dog
    |--- (3 classes)
    |    |--- car
    |    |--- bus, tram
    >>> tree.parent
    array([-1,  0,  0,  2,  2], dtype=int32)
    >>> tree.classes[tree.class_sets.order]
    array(['cat', 'dog', 'car', 'bus', 'tram'], dtype='<U4')
    >>> tree.limit(max_depth=1).to_nested()
    [['cat', 'dog'], ['bus', 'car', 'tram']]
    """

    def __init__(
        self,
        parent: ArrayLike,
        leaf_of_class: ArrayLike,
        classes: ArrayLike | None = None,
        names: Sequence | None = None,
    ):
        parent = as_ids("parent", parent, 1, np.int64)
        leaf = as_ids("leaf_of_class", leaf_of_class, 1, np.int64)
        if leaf.size == 0:
            raise ValueError(
                "leaf_of_class is empty; a taxonomy has at least one class"
            )
        if classes is None:
            labels = np.arange(leaf.size)
        else:
            labels = as_labels(classes)
            if labels.size != leaf.size:
                raise ValueError(
                    f"classes has {labels.size} labels and leaf_of_class "
                    f"{leaf.size} entries; there must be one leaf per class"
                )
            order = np.argsort(labels, kind="stable")
            labels, leaf = labels[order], leaf[order]
            twice = np.flatnonzero(labels[1:] == labels[:-1])
            if twice.size:
                raise ValueError(
                    f"duplicate label {listed(labels[twice[:1]])}: every class has "
                    f"exactly one leaf"
                )
        if names is not None:
            names = tuple(None if is_absent(name) else name for name in names)
            check_length("names", names, parent.size, "one per node")
        parent, leaf, names = breadth_first(parent, leaf, names)
        self._set(parent, leaf, names, labels)

    def _set(self, parent, leaf, names, labels):
        n = parent.size
        self.parent = parent
        self.leaf_of_class = leaf
        self.classes = labels
        self.names = names
        # Breadth-first: `parent` is sorted.
        self.child_ptr = (
            np.searchsorted(parent[1:], np.arange(n + 1, dtype=np.int32)) + 1
        ).astype(np.int32)
        ptr = [0, 1]
        while ptr[-1] < n:
            # The next level ends with the last child of this level's last node.
            ptr.append(int(self.child_ptr[ptr[-1]]))
        self.level_ptr = np.array(ptr, dtype=np.int32)
        self.n_nodes, self.n_classes, self.depth = n, labels.size, len(ptr) - 2
        self.is_leaf = np.diff(self.child_ptr) == 0
        self.n_leaves = int(self.is_leaf.sum())
        levels = np.arange(self.depth + 1, dtype=np.int32)
        self.level_of_node = np.repeat(levels, np.diff(self.level_ptr))
        self._sets = None
        for array in (
            parent, leaf, labels, self.child_ptr, self.level_ptr, self.is_leaf,
            self.level_of_node,
        ):  # fmt: skip
            array.flags.writeable = False

    def __getstate__(self):
        return {name: getattr(self, name) for name in _STATE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled taxonomy; ValueError if its arrays are not a tree."""
        Taxonomy.__init__(self, *(state[k] for k in _STATE))

    # ------------------------------------------------------------ given trees

    @classmethod
    def from_nested(cls, nested: Sequence | Mapping | NDArray) -> Taxonomy:
        """Taxonomy from nested lists of labels, or nested mappings with names of nodes.

        Parameters
        ----------
        nested : list, tuple, range, ndarray or mapping
            A list with only labels is one leaf with these classes. Any other list is an
            inner node: its lists and mappings are its children, and each of its labels
            is a leaf with one class. A mapping is an inner node whose children have
            names: a key is the name of a child, and the value its list or mapping.

        Returns
        -------
        taxonomy : Taxonomy

        Raises
        ------
        ValueError
            If a label is repeated, or a list is empty or contains itself.

        Examples
        --------
        >>> from sklstruct.taxonomy import Taxonomy
        >>> Taxonomy.from_nested(["a", ["b", "c"]]).to_nested()
        [['a'], ['b', 'c']]
        >>> tree = Taxonomy.from_nested(
        ...     {"animal": ["cat", "dog"], "vehicle": {"rail": ["tram"],
        ...                                            "road": ["bus", "car"]}})
        >>> print(tree.export_text())
        root
        |--- animal: cat, dog
        |--- vehicle (3 classes)
        |    |--- tram
        |    |--- road: bus, car
        """
        return cls(*read_nested(nested))

    @classmethod
    def from_parents(cls, parents: Mapping[Hashable, Hashable]) -> Taxonomy:
        """Taxonomy from a map from each node to its parent.

        Parameters
        ----------
        parents : mapping
            Node to parent; nodes are any hashable names. A node without an entry, or
            with the parent None, NaN, pandas' NA or "", is a root; several roots
            become the children of one root without a name. Nodes without children are
            the class labels. An inner node whose children are all labels becomes one
            leaf with these classes.

        Returns
        -------
        taxonomy : Taxonomy

        Raises
        ------
        ValueError
            If `parents` has a cycle, or a node without a name.

        Examples
        --------
        >>> from sklstruct.taxonomy import Taxonomy
        >>> tree = Taxonomy.from_parents(
        ...     {"cat": "animal", "dog": "animal", "car": "vehicle", "bus": "vehicle"})
        >>> print(tree.export_text())
        root
        |--- animal: cat, dog
        |--- vehicle: bus, car
        """
        return cls(*read_parents(parents))

    @classmethod
    def from_paths(cls, paths: Mapping[Hashable, Sequence]) -> Taxonomy:
        """Taxonomy from a map from each label to its path of groups.

        Parameters
        ----------
        paths : mapping
            Label to the names of its groups from the top down, without the label
            itself. A string is a path of one group, an empty path is the root. None,
            NaN, pandas' NA and "" at the end of a path are ignored. A group is
            identified by its whole path: ``("a", "x")`` and ``("b", "x")`` are two
            groups. A group without subgroups is one leaf; in a group with subgroups
            each label that is not in a subgroup is a leaf.

        Returns
        -------
        taxonomy : Taxonomy

        Raises
        ------
        ValueError
            If a path is not a sequence, or has a missing group above another group.

        Examples
        --------
        >>> from sklstruct.taxonomy import Taxonomy
        >>> Taxonomy.from_paths({1: ("odd",), 2: ("even", "prime"), 3: ("odd",),
        ...                      4: ("even",)}).to_nested()
        [[1, 3], [[2], [4]]]
        """
        return cls(*read_paths(paths))

    @classmethod
    def flat(cls, classes: ArrayLike) -> Taxonomy:
        """The taxonomy of depth 0: the root is one leaf with all classes."""
        labels = as_labels(classes)
        return cls([-1], np.zeros(labels.size, dtype=np.int32), labels)

    # ------------------------------------------------------------------ shape

    def children(self, node: int) -> NDArray:
        """Children of a node from left to right; empty for a leaf."""
        node = check_count("node", node, 0, self.n_nodes - 1)
        return np.arange(self.child_ptr[node], self.child_ptr[node + 1], dtype=np.int32)

    @property
    def class_sets(self) -> ClassSets:
        """Class indices below every node: ``order[start[v]:stop[v]]``."""
        if self._sets is None:
            self._sets = ClassSets.of(self)
        return self._sets

    def classes_below(self, node: int) -> NDArray:
        """Indices (into `classes`) of the classes below a node."""
        node = check_count("node", node, 0, self.n_nodes - 1)
        order, start, stop = self.class_sets
        return order[start[node] : stop[node]]

    # ------------------------------------------------------------ node answers

    def find(self, name: Hashable) -> int:
        """The node with the given name.

        Parameters
        ----------
        name : hashable
            An entry of ``names``.

        Returns
        -------
        node : int

        Raises
        ------
        ValueError
            If no node has the name, or several nodes have it.

        Examples
        --------
        >>> from sklstruct.taxonomy import Taxonomy
        >>> tree = Taxonomy.from_nested({"animal": ["cat", "dog"], "car": ["bus"]})
        >>> tree.find("animal")
        1
        """
        found = [v for v, other in enumerate(self.names or ()) if other == name]
        if len(found) != 1:
            having = f"nodes {listed(found)} have" if found else "no node has"
            texts = [other for other in self.names or () if isinstance(other, str)]
            near = get_close_matches(name, texts, 3) if isinstance(name, str) else []
            remedy = "use the number of a node"
            if near and not found:
                remedy = f"did you mean {' or '.join(map(repr, near))}?"
            raise ValueError(f"{having} the name {name!r:.60}; {remedy}")
        return found[0]

    def node_sums(self, values: ArrayLike) -> NDArray:
        r"""Sums over the classes below each node, :math:`\sum_{c \in C(v)} x_c`.

        If the values are probabilities of classes, the sums are probabilities of nodes.

        Parameters
        ----------
        values : array-like of shape (n_samples, n_classes)
            Columns in the order of ``classes``.

        Returns
        -------
        sums : ndarray of shape (n_samples, n_nodes)

        Raises
        ------
        ValueError
            If values are not finite real numbers, or do not have a column per class.

        Examples
        --------
        >>> from sklstruct.taxonomy import Taxonomy
        >>> Taxonomy.from_nested([["a", "b"], ["c"]]).node_sums([[0.5, 0.25, 0.25]])
        array([[1.  , 0.75, 0.25]])
        """
        values = as_floats("values", values, None)
        if values.ndim != 2 or values.shape[1] != self.n_classes:
            raise ValueError(
                f"values must have shape (n_samples, {self.n_classes}), a column for "
                f"each class, got {values.shape}"
            )
        if not np.isfinite(values).all():
            raise ValueError("values must be finite, and have NaN or infinity")
        return sums_below(self, values)

    def node_paths(self) -> NDArray:
        """The path of each node as labels, in the form of `as_paths` and the metrics.

        Returns
        -------
        paths : ndarray of str, shape (n_nodes, n_levels)
            The nodes from the child of the root down to the node, padded with "". The
            text of a leaf of one class is its label; the text of any other node is its
            name, or "node 3" for node 3 without a name. If siblings have equal texts,
            their numbers are appended.

        Examples
        --------
        >>> from sklstruct.taxonomy import Taxonomy
        >>> tree = Taxonomy.from_nested({"animal": ["cat", "dog"], "car": ["bus"]})
        >>> tree.node_paths()
        array([['', ''],
               ['animal', ''],
               ['bus', '']], dtype='<U6')
        """
        return write_paths(self, np.arange(self.n_nodes))

    def label_paths(self, labels: ArrayLike) -> NDArray:
        """The paths of classes: `node_paths` of their leaves, then the class itself.

        Parameters
        ----------
        labels : array-like of shape (n_samples,)
            Labels of classes.

        Returns
        -------
        paths : ndarray of str, shape (n_samples, n_levels)
            The last entry of a path is the label of the class.

        Raises
        ------
        ValueError
            If a label is not a class of the taxonomy, or a class is "".

        Examples
        --------
        >>> from sklstruct.taxonomy import Taxonomy
        >>> tree = Taxonomy.from_nested({"animal": ["cat", "dog"], "car": ["bus"]})
        >>> tree.label_paths(["dog", "bus"])
        array([['animal', 'dog'],
               ['bus', '']], dtype='<U6')
        """
        labels = as_labels(labels)
        known = among(labels, self.classes)
        if not known.all():
            raise ValueError(
                f"unknown label {listed(labels[~known][:1])}: the label is not a class "
                "of the taxonomy"
            )
        return write_paths(self, self.n_nodes + np.searchsorted(self.classes, labels))

    # ---------------------------------------------------------------- changes

    def limit(
        self,
        *,
        max_depth: int | None = None,
        max_leaf: int | None = None,
        max_children: int | None = None,
    ) -> Taxonomy:
        r"""The tree with fewer levels.

        Parameters
        ----------
        max_depth : int, default=None
            Largest number of decisions, >= 0: nodes at this level become leaves; 0
            gives the flat taxonomy. None: no limit.

        max_leaf : int, default=None
            Largest number of classes of a node that becomes a leaf, >= 1. A node v
            stays an inner node if :math:`|C(v)| > \mathtt{max\_leaf}`; leaves with more
            classes are kept. None: leaves stay as they are.

        max_children : int, default=None
            Largest number of children, >= 2. From the root down, inner children are
            replaced by their children, the child with the most classes first, as long
            as the node then has at most `max_children` children. The leaves and their
            classes stay the same; nodes with more children keep them. None: children
            stay as they are.

        Returns
        -------
        taxonomy : Taxonomy

        Raises
        ------
        ValueError
            If a limit is not an integer in its range.

        Examples
        --------
        >>> from sklstruct.taxonomy import Taxonomy
        >>> tree = Taxonomy.from_nested([[[1], [[2], [3, 4]]], [[5], [6]]])
        >>> tree.limit(max_depth=1).to_nested()
        [[1, 2, 3, 4], [5, 6]]
        >>> tree.limit(max_leaf=3).to_nested()
        [[[1], [2, 3, 4]], [5, 6]]
        >>> tree.limit(max_children=4).to_nested()
        [[1], [2], [3, 4], [[5], [6]]]
        """
        tree = self
        if max_depth is not None:
            max_depth = check_count("max_depth", max_depth, 0)
            tree = tree._renumbered(*pruned(tree, tree.level_of_node <= max_depth))
        if max_leaf is not None:
            max_leaf = check_count("max_leaf", max_leaf, 1)
            _, start, stop = tree.class_sets
            divided = (stop - start > max_leaf) & ~tree.is_leaf
            keep = np.append(True, divided[tree.parent[1:]])
            tree = tree._renumbered(*pruned(tree, keep))
        if max_children is not None:
            max_children = check_count("max_children", max_children, 2)
            tree = tree._renumbered(*widened(tree, max_children))
        return tree

    def _renumbered(
        self, parent: NDArray, kept: list[int], up: NDArray | None = None
    ) -> Taxonomy:
        """The tree of the nodes `kept`; up: the kept node above each node."""
        if len(kept) == self.n_nodes:
            return self
        number = np.full(self.n_nodes, -1, dtype=np.int32)
        number[kept] = np.arange(len(kept), dtype=np.int32)
        leaf = self.leaf_of_class if up is None else up[self.leaf_of_class]
        names = self.names and tuple(self.names[v] for v in kept)
        tree = type(self).__new__(type(self))
        # valid and breadth-first, so that the constructor has nothing to do
        tree._set(parent, number[leaf], names, self.classes)
        return tree

    # ----------------------------------------------------------------- output

    def to_nested(self) -> list:
        """Nested lists: a leaf is a list of labels, an inner node a list of children.

        Labels are Python scalars. `from_nested` is the inverse, except for the names of
        nodes, which are lost.
        """
        return write_nested(self)

    def export_text(self, *, max_depth: int | None = None) -> str:
        """The tree as text, one node per line, with up to eight labels per leaf.

        Parameters
        ----------
        max_depth : int, default=None
            Deepest level to show, >= 0; truncated branches show their number of
            classes. None shows all levels, if there are at most 1000: the text grows
            with the square of the depth.

        Returns
        -------
        text : str

        Raises
        ------
        ValueError
            If a tree of more than 1000 levels has no `max_depth`, or `max_depth` is not
            an integer of at least 0.
        """
        return write_text(self, max_depth)

    def _repr_html_(self) -> str:
        depth = 3 if self.n_nodes > 200 else None  # about a screenful
        return f"<pre>{escape(self.export_text(max_depth=depth))}</pre>"

    def __repr__(self) -> str:
        return (
            f"Taxonomy(n_classes={self.n_classes}, n_nodes={self.n_nodes}, "
            f"n_leaves={self.n_leaves}, depth={self.depth})"
        )

    def __eq__(self, other: object) -> bool:
        """Whether labels and sets of classes are equal, in any order of siblings."""
        if not isinstance(other, Taxonomy):
            return NotImplemented
        if self.n_nodes != other.n_nodes or not np.array_equal(
            self.classes, other.classes
        ):
            return False
        pairs = zip(canonical(self), canonical(other))
        return all(np.array_equal(a, b) for a, b in pairs)

    __hash__ = None  # type: ignore[assignment]  # __eq__ without __hash__

    def __sklearn_clone__(self) -> Taxonomy:
        return self  # immutable: the clones of an estimator can share it
