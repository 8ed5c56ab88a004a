"""A given taxonomy refined by a builder."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_consistent_length

from sklstruct.taxonomy._builders._base import TaxonomyBuilder
from sklstruct.taxonomy._builders._maxcut import CutSplit
from sklstruct.taxonomy._taxonomy import Taxonomy, _label_array


def refine(
    taxonomy: Taxonomy,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    builder: TaxonomyBuilder | None = None,
    max_leaf_size: int = 1,
    regroup: bool = True,
) -> Taxonomy:
    """Keep the groups of a given taxonomy and learn what it leaves open.

    Every set of classes of the given tree stays a node of the result. Between them,
    leaves with many classes are split, and nodes with more than two children get
    intermediate nodes; in both cases a builder decides, given the samples of the
    node and, in the second, the child of each as its class.

    Parameters
    ----------
    taxonomy : Taxonomy
        The tree to start from, e.g. an existing ontology.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features.
    y : array-like of shape (n_samples,)
        Labels, each of the classes of `taxonomy` at least once.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights >= 0; every class needs a positive one.
    builder : TaxonomyBuilder, default=None
        Any builder; None is ``CutSplit()``.
    max_leaf_size : int, default=1
        Leaves with more classes than this are split, >= 1.
    regroup : bool, default=True
        Whether to group the children of nodes that have more than two.

    Returns
    -------
    taxonomy : Taxonomy

    Raises
    ------
    ValueError
        Labels in y without a place in the taxonomy, or classes without samples.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklstruct.taxonomy import Taxonomy, refine
    >>> odd_even = Taxonomy.from_nested([[1, 3, 5, 7, 9], [0, 2, 4, 6, 8]])
    >>> refined = refine(odd_even, *load_digits(return_X_y=True), max_leaf_size=2)
    >>> refined.cut(1) == odd_even
    True
    >>> refined.n_leaves > 2
    True
    """
    if not isinstance(taxonomy, Taxonomy):
        kind = "from_parents" if isinstance(taxonomy, Mapping) else "from_nested"
        raise ValueError(
            f"taxonomy must be a Taxonomy, got {type(taxonomy).__name__}; make one "
            f"with Taxonomy.{kind}."
        )
    if max_leaf_size != int(max_leaf_size) or max_leaf_size < 1:
        raise ValueError(f"max_leaf_size must be >= 1, got {max_leaf_size!r}.")
    builder = CutSplit() if builder is None else builder
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    check_consistent_length(X, y, sample_weight)
    labels = _label_array(np.asarray(y))
    if sample_weight is not None:
        sample_weight = np.asarray(sample_weight, dtype=np.float64)
        used = np.flatnonzero(sample_weight != 0)
        X, labels, sample_weight = X[used], labels[used], sample_weight[used]
    found = np.unique(labels)
    absent = taxonomy.classes_[~np.isin(taxonomy.classes_, found)]
    if absent.size:
        raise ValueError(
            f"class {absent[0].item()!r} of the taxonomy has no samples; drop it with "
            f"taxonomy.restrict(np.unique(y)) first."
        )
    taxonomy.check_classes(found)

    # Samples in the order of the leaves: the rows of every node are contiguous.
    sets = taxonomy.class_sets
    place = np.empty(taxonomy.n_classes, dtype=np.int64)
    place[sets.order] = np.arange(taxonomy.n_classes)
    where = place[np.searchsorted(taxonomy.classes_, labels)]
    rows = np.argsort(where, kind="stable")
    where = where[rows]

    def learn(node, boundaries):
        """A tree over 0 ... m - 1: parts of the node's run of classes."""
        lo, hi = np.searchsorted(where, [sets.start[node], sets.stop[node]])
        part = np.searchsorted(boundaries, where[lo:hi], side="right") - 1
        weight = None if sample_weight is None else sample_weight[rows[lo:hi]]
        return builder.build(X[rows[lo:hi]], part, weight)

    parent = taxonomy.parent.tolist()
    names = list(taxonomy.names) if taxonomy.names else None
    leaf = taxonomy.leaf_of_class.copy()

    def attach(tree, node):
        """Add the nodes of the tree but its root; number of each in the result."""
        number = np.concatenate([[node], np.arange(tree.n_nodes - 1) + len(parent)])
        parent.extend(number[tree.parent[1:]].tolist())
        if names is not None:
            names.extend([None] * (tree.n_nodes - 1))
        return number

    for node in range(taxonomy.n_nodes):
        children = taxonomy.children(node)
        if children.size == 0:
            start, stop = sets.start[node], sets.stop[node]
            if stop - start > max_leaf_size:
                tree = learn(node, np.arange(start, stop))
                number = attach(tree, node)
                leaf[sets.order[start:stop]] = number[tree.leaf_of_class]
        elif regroup and children.size > 2:
            tree = learn(node, sets.start[children])
            number = attach(tree, node)
            # A child goes below the leaf that holds it; alone there, the two are one.
            for child, above in zip(children, number[tree.leaf_of_class]):
                parent[child] = int(above)
    return Taxonomy(parent, leaf, taxonomy.classes_, names=names)
