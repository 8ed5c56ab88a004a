"""Labels as paths: one column for each level, shorter paths filled up with ""."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._labels import as_labels, is_absent
from ._node_answers import lowest_nodes
from ._taxonomy import Taxonomy


def as_paths(paths: ArrayLike, name: str = "y") -> NDArray:
    r"""Checked paths as an array of shape (n_samples, n_levels).

    Row i is :math:`(v_1, \dots, v_m, \epsilon, \dots, \epsilon)`: the nodes from below
    the root down to the last one, then :math:`\epsilon` = "" for the levels below it.
    It is the form of labels in HiClass.

    Parameters
    ----------
    paths : array-like of shape (n_samples, n_levels) or (n_samples,), or list of lists
        Labels by level from the top down: strings or numbers, of one kind at each
        level. Rows may differ in length; "", None, NaN and pandas' NA at the end of a
        row mean that the path has ended. One-dimensional labels are paths of one level.

    name : str, default="y"
        Name of the paths in error messages.

    Returns
    -------
    paths : ndarray of shape (n_samples, n_levels)
        Of strings, or of objects if a level has numbers.

    Raises
    ------
    ValueError
        If a path leaves out a level above another one; if a level has strings and
        numbers; if there are more than two dimensions (several paths per sample are
        multi-label classification, for which see HiClass).

    Examples
    --------
    >>> from sklstruct.taxonomy import as_paths
    >>> as_paths([["animal", "dog"], ["animal"], ["vehicle", "rail", "tram"]])
    array([['animal', 'dog', ''],
           ['animal', '', ''],
           ['vehicle', 'rail', 'tram']], dtype='<U7')
    """
    return _checked(_table(paths, name), name)


def _table(paths: Any, name: str) -> NDArray:
    """Paths as an array, short ones filled up with ""."""
    if paths is None:
        raise ValueError(f"{name} is None; pass a path for every sample")
    if hasattr(paths, "to_numpy"):  # a data frame or series
        paths = paths.to_numpy()
    elif hasattr(paths, "__array__"):
        paths = np.asarray(paths)
    if isinstance(paths, str | bytes) or not isinstance(paths, Iterable):
        raise ValueError(f"{name} must be an array or a list of paths, got {paths!r}")
    if not isinstance(paths, np.ndarray):
        rows = list(paths)
        nested = [isinstance(row, list | tuple | np.ndarray) for row in rows]
        if any(nested):
            if not all(nested):
                odd = rows[nested.index(False)]
                raise ValueError(f"{name} mixes paths and labels, such as {odd!r}")
            if any(isinstance(v, list | tuple | np.ndarray) for r in rows for v in r):
                raise ValueError(_SEVERAL.format(name))
            width = max(len(row) for row in rows)
            paths = np.full((len(rows), width), "", dtype=object)
            for i, row in enumerate(rows):
                paths[i, : len(row)] = row
        else:
            paths = np.array(rows, dtype=object)
    if paths.ndim > 2:
        raise ValueError(_SEVERAL.format(name))
    if paths.ndim == 0 or 0 in paths.shape:
        raise ValueError(f"{name} holds no paths, got shape {paths.shape}")
    return paths[:, None] if paths.ndim == 1 else paths


def _checked(paths: NDArray, name: str) -> NDArray:
    if paths.dtype.kind not in "US":
        paths = paths.astype(object)
        paths[_is_absent(paths).astype(bool)] = ""
    empty = paths == ""
    gap = empty[:, :-1] & ~empty[:, 1:]
    if gap.any():
        i, level = np.argwhere(gap)[0].tolist()
        raise ValueError(
            f"{name}[{i}] = {paths[i].tolist()} leaves out level {level}; a path is "
            'filled up with "" at its end only'
        )
    if paths.dtype == object:
        text = [isinstance(v, str) for v in paths.ravel()]
        if all(text):
            return paths.astype(str)
        for level in range(paths.shape[1]):
            try:
                as_labels(paths[~empty[:, level], level])
            except ValueError as exc:
                raise ValueError(f"{name}, level {level}: {exc}") from None
    return paths


_SEVERAL = (
    "{} has more than two dimensions, several paths per sample; that is multi-label "
    "classification, for which see HiClass (hiclass.MultiLabelLocalClassifierPerNode)"
)
_is_absent = np.frompyfunc(is_absent, 1, 1)


class LabelTree(NamedTuple):
    """The nodes of a set of paths, level by level, and the classes among them.

    A node is identified by its whole path. The root is node 0. A class is a node at
    which the path of some sample ends; it may be an inner node of other paths.
    """

    parent: NDArray
    """(n_nodes,), -1 for the root."""

    label: NDArray
    """(n_nodes,) of objects: the last label of the path."""

    depth: NDArray
    """(n_nodes,), 0 for the root."""

    class_node: NDArray
    """(n_classes,), ascending."""

    @classmethod
    def of(cls, paths: NDArray) -> tuple[LabelTree, NDArray]:
        """(tree, class of each sample) of checked paths."""
        n, n_levels = paths.shape
        node = np.zeros(n, dtype=np.int64)
        parent, label, depth = [np.array([-1])], [np.array([""], object)], [np.zeros(1)]
        n_nodes = 1
        for level in range(n_levels):
            rows = np.flatnonzero(paths[:, level] != "")
            if not rows.size:
                break
            names, code = np.unique(as_labels(paths[rows, level]), return_inverse=True)
            key, place = np.unique(node[rows] * names.size + code, return_inverse=True)
            parent.append(key // names.size)
            label.append(names[key % names.size].astype(object))
            depth.append(np.full(key.size, level + 1))
            node[rows] = n_nodes + place
            n_nodes += key.size
        class_node, code = np.unique(node, return_inverse=True)
        tree = cls(
            np.concatenate(parent),
            np.concatenate(label),
            np.concatenate(depth).astype(np.int64),
            class_node,
        )
        return tree, code

    def leaves_only(self, code: NDArray) -> tuple[LabelTree, NDArray, NDArray]:
        """The tree whose classes are its leaves, for samples with the classes `code`.

        Parameters
        ----------
        code : ndarray of shape (n_samples,)
            The class of each sample in this tree.

        Returns
        -------
        tree : LabelTree
            With the same nodes.

        code : ndarray of shape (n_samples,)
            The class of each sample; for a sample that ends at an inner node the first
            leaf below it.

        level : ndarray of shape (n_samples,)
            Level of `taxonomy` down to which the path to this class is the path of the
            sample.
        """
        n = self.parent.size
        passed = np.zeros(n, dtype=bool)
        passed[self.parent[1:]] = True
        leaves = np.flatnonzero(~passed)
        first = np.full(n, leaves.size)
        first[leaves] = np.arange(leaves.size)
        n_below = np.where(passed, 0, 1)
        for v in range(n - 1, 0, -1):
            n_below[self.parent[v]] += n_below[v]
            first[self.parent[v]] = min(first[self.parent[v]], first[v])
        tree = self._replace(class_node=leaves)
        taxonomy = tree.taxonomy()
        node = self.class_node[code]
        above = lowest_nodes(taxonomy, first[node], n_below[node])
        level = taxonomy.level_of_node[above]
        return tree, first[node], level.astype(np.int64)

    def paths(self) -> NDArray:
        """(n_nodes, n_levels) paths of all nodes, of objects."""
        out = np.full((self.parent.size, int(self.depth.max())), "", dtype=object)
        for v in range(1, self.parent.size):
            out[v] = out[self.parent[v]]
            out[v, self.depth[v] - 1] = self.label[v]
        return out

    def ancestors(self) -> tuple[NDArray, NDArray]:
        """(classes, nodes): a pair for every node on the path of a class."""
        node = self.class_node
        code = np.arange(node.size)
        found = []
        while node.size:
            found.append((code, node))
            above = self.parent[node]
            code, node = code[above >= 0], above[above >= 0]
        codes, nodes = zip(*found)
        return np.concatenate(codes), np.concatenate(nodes)

    def taxonomy(self) -> Taxonomy:
        """The tree over the classes 0 ... n_classes - 1.

        A class at an inner node becomes a leaf beside the children of the node: to stop
        there is one of the outcomes of the node.
        """
        n = self.parent.size
        passed = np.zeros(n, dtype=bool)
        passed[self.parent[1:]] = True
        stops = passed[self.class_node]
        extra = np.flatnonzero(stops)
        parent = np.concatenate([self.parent, self.class_node[extra]])
        leaf = self.class_node.copy()
        leaf[extra] = n + np.arange(extra.size)
        names = [None if v == 0 else str(w) for v, w in enumerate(self.label)]
        return Taxonomy(parent, leaf, names=names + [None] * extra.size)
