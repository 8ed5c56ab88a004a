"""A `Taxonomy` from any form of the parameter `taxonomy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._io import is_nest
from ._labels import among, as_labels, as_scalar, listed
from ._taxonomy import Taxonomy

# repr, clone and pickle recurse into nested lists, with several calls per level, and
# Python allows 1000 nested calls.
_MAX_NESTING = 200


def as_taxonomy(taxonomy: Any, classes: ArrayLike) -> Taxonomy:
    r"""The tree over exactly `classes`, from any form of a given taxonomy.

    Let C be `classes`. Every set S of classes below a node of the given tree becomes
    :math:`S \cap C`. Nodes without classes are dropped, and nodes with a single child
    are merged with the child.

    Meta-estimators of scikit-learn (``CalibratedClassifierCV`` by temperature,
    ``StackingClassifier``, ``VotingClassifier``, ``cross_val_predict``) encode the
    labels as their positions before they fit a classifier. If C are the integers
    0 ... K - 1, and the given tree has exactly K labels, none of which is one of these
    integers, class k of the result is the k-th of the sorted labels (from 0). If the
    labels of the tree are the strings "0" ... "K - 1" and K > 10, an error is raised:
    their sorted order is not the order of the integers.

    Parameters
    ----------
    taxonomy : Taxonomy, list, tuple, ndarray or mapping
        - `Taxonomy`;
        - nested lists or tuples of labels, or nested mappings that name the groups,
          ``{"animal": ["dog", "cat"], "vehicle": {"road": ["bus"]}}``: see
          `Taxonomy.from_nested`;
        - a mapping from each class to its path,
          ``{"dog": ("animal",), "bus": ("vehicle", "road")}``: see
          `Taxonomy.from_paths`. A mapping to lists has paths if its keys are the
          classes;
        - a map of nodes to parents, ``{"dog": "animal"}``: see
          `Taxonomy.from_parents`.

    classes : array-like of shape (n_classes,)
        Labels that the tree must have; other labels of the tree are left out.

    Returns
    -------
    taxonomy : Taxonomy

    Raises
    ------
    ValueError
        If `taxonomy` is an object of another type, a malformed tree (see `Taxonomy`) or
        lists nested more than 200 deep; if it lacks a class; if a mapping may be read
        both as groups and as paths.

    Examples
    --------
    >>> from sklstruct.taxonomy import as_taxonomy
    >>> as_taxonomy({"even": [0, 2, 4], "odd": [1, 3]}, [0, 1, 2, 3]).to_nested()
    [[0, 2], [1, 3]]
    """
    classes = np.unique(as_labels(classes))
    tree = taxonomy
    if isinstance(taxonomy, Mapping):
        tree = _from_mapping(taxonomy, classes)
    elif is_nest(taxonomy):
        _check_nesting(taxonomy)
        tree = Taxonomy.from_nested(taxonomy)
    elif not isinstance(taxonomy, Taxonomy):
        raise ValueError(
            "taxonomy must be a Taxonomy, nested lists or mappings, a parent map or a "
            "mapping to paths (or, in a classifier, a builder, its name, or a tuple of "
            f"these), got {type(taxonomy).__name__}"
        )
    if np.array_equal(tree.classes, classes):
        return tree
    there = among(classes, tree.classes)
    if there.all():
        return _restricted(tree, classes)
    encoded = _are_positions(classes)
    if not encoded or there.any() or tree.n_classes != classes.size:
        gone = classes[~there]
        cause = _encoded(classes) if encoded else ""
        if tree.names is not None and not {*gone.tolist()}.isdisjoint(tree.names):
            cause = (
                "A class is a leaf, but the taxonomy has an inner node of this name. "
                "In HierarchicalClassifier, with several labels per sample, labels may "
                "be inner nodes of one map to parents, a dict"
            )
        raise ValueError(
            f"missing labels: the taxonomy has no place for {listed(gone)}"
            + (f". {cause}" if cause else "")
        )
    positions = list(map(str, classes.tolist()))
    if tree.classes.tolist() == sorted(positions) != positions:
        raise ValueError(
            f"taxonomy: its labels are the strings '0' ... '{classes.size - 1}', whose "
            "order is not that of the integers in y; give it integers as labels. If a "
            "meta-estimator has encoded such strings, use other names, such as 'c10'"
        )
    return Taxonomy(tree.parent, tree.leaf_of_class, names=tree.names)


def check_taxonomy(taxonomy: Any) -> None:
    """Raise ValueError unless `taxonomy` is a `Taxonomy`."""
    if not isinstance(taxonomy, Taxonomy):
        raise ValueError(
            f"taxonomy must be a Taxonomy, got {type(taxonomy).__name__}; make it with "
            "Taxonomy.from_nested, from_parents or from_paths"
        )


def _restricted(tree: Taxonomy, classes: NDArray) -> Taxonomy:
    """The tree over some of its classes; nodes without classes are dropped."""
    leaf = tree.leaf_of_class[np.searchsorted(tree.classes, classes)]
    keep = np.zeros(tree.n_nodes, dtype=bool)
    keep[leaf] = True
    for lo, hi in zip(tree.level_ptr[-2:0:-1], tree.level_ptr[:1:-1]):
        keep[tree.parent[lo:hi][keep[lo:hi]]] = True
    number = np.cumsum(keep) - 1
    parent = np.where(tree.parent < 0, -1, number[tree.parent])[keep]
    names = tree.names and [tree.names[v] for v in np.flatnonzero(keep)]
    return Taxonomy(parent, number[leaf], classes, names)


def _are_positions(classes: NDArray) -> bool:
    """Whether the classes are 0 ... K - 1."""
    return classes.dtype.kind in "iu" and np.array_equal(classes, range(classes.size))


def _encoded(classes: NDArray) -> str:
    """The remedy in error messages if a taxonomy lacks the classes 0 ... K - 1."""
    return (
        f"The classes are 0 ... {classes.size - 1}: if a meta-estimator "
        "(CalibratedClassifierCV, StackingClassifier, VotingClassifier, "
        "cross_val_predict) has encoded the labels, the taxonomy must have exactly the "
        f"{classes.size} labels and none of these integers "
        "(as_taxonomy(taxonomy, labels) leaves other labels out), or have these "
        "integers as labels"
    )


def _from_mapping(given: Mapping, classes: NDArray) -> Taxonomy:
    """The tree of a mapping: groups, paths of the classes or a map to parents."""
    nests = [value for value in given.values() if is_nest(value)]
    if not nests:
        return Taxonomy.from_parents(given)
    deeper = any(isinstance(nest, Mapping) or any(map(is_nest, nest)) for nest in nests)
    only_nests = len(nests) == len(given)
    if not deeper:
        wanted = set(map(as_scalar, classes))
        labels = [as_scalar(item) for nest in nests for item in nest]
        by_key = wanted & set(map(as_scalar, given))
        by_value = wanted & set(labels)
        distinct = len(set(labels)) == len(labels)
        nested = only_nests and distinct
        encoded = not by_key and not by_value and _are_positions(classes)
        if encoded:  # keys or values are the labels if their number is that of classes
            by_key = wanted if len(given) == len(wanted) else set()
            by_value = wanted if nested and len(labels) == len(wanted) else set()
        if nested and by_key == by_value == wanted:
            raise ValueError(
                "taxonomy has every class among its keys and among its values, so it "
                "may be groups or paths; pass Taxonomy.from_nested(taxonomy) or "
                "Taxonomy.from_paths(taxonomy)"
            )
        if not by_key and not by_value:
            raise ValueError(
                "missing labels: the taxonomy has no place for "
                f"{listed(sorted(wanted))}; its values must hold the labels (groups), "
                "or its keys must be the labels (paths)"
                + (f". {_encoded(classes)}" if encoded else "")
            )
        if not only_nests and by_value and by_key != wanted:
            key = next(key for key, value in given.items() if not is_nest(value))
            raise ValueError(
                f"taxonomy[{key!r}] is {given[key]!r}, but other values are lists of "
                f"labels; make it a list, [{given[key]!r}]"
            )
        # if a label occurs twice among the values, from_nested raises an error, unless
        # the keys are the labels
        if (
            not only_nests
            or len(by_key) > len(by_value)
            or (not distinct and by_key == wanted)
        ):
            return Taxonomy.from_paths(given)
    _check_nesting(given)
    return Taxonomy.from_nested(given)


def _check_nesting(given: Any) -> None:
    level = [given]
    for _ in range(_MAX_NESTING):
        # each list once, by identity: a list that contains itself twice would make the
        # level grow without end
        level = list(
            {
                id(item): item
                for nest in level
                for item in (nest.values() if isinstance(nest, Mapping) else nest)
                if isinstance(item, list | tuple | Mapping)
            }.values()
        )
        if not level:
            return
    raise ValueError(
        f"taxonomy is nested more than {_MAX_NESTING} lists deep, which a parameter "
        "cannot be; pass Taxonomy.from_nested(taxonomy)"
    )
