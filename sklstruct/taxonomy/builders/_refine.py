"""A given taxonomy refined by a builder."""

from __future__ import annotations

import inspect
from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import clone

from ..._compat import HasMethods, Interval
from .._given import as_taxonomy
from .._labels import as_labels, check_integer
from .._samples import check_samples
from .._taxonomy import Taxonomy
from ._base import TaxonomyBuilder
from ._given import GivenTaxonomy
from ._named import named_builder


def _as_builder(builder, random_state):
    """A builder from a name, None ("cut") or a builder, seeded if it has no seed."""
    if builder is None:
        builder = "cut"
    if isinstance(builder, str):
        builder = named_builder(builder, "builder")
    elif inspect.isclass(builder) or not hasattr(builder, "build"):
        raise ValueError(
            f"builder must be the name of a builder, a builder or None, got {builder!r}"
        )
    if random_state is not None and hasattr(builder, "get_params"):
        params = builder.get_params(deep=False)
        if "random_state" in params and params["random_state"] is None:
            builder = clone(builder).set_params(random_state=random_state)
    return builder


def refine(
    taxonomy: Any,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    builder: TaxonomyBuilder | str | None = None,
    max_leaf_size: int = 1,
    regroup: bool = True,
    random_state: int | RandomState | None = None,
) -> Taxonomy:
    r"""Keep the groups of a given taxonomy and learn the splits inside of them.

    With :math:`\mathcal S(T)` the sets of classes below the nodes of a tree T, the
    result R keeps those of the given tree, :math:`\mathcal S(T) \subseteq
    \mathcal S(R)`. A builder splits the leaves with many classes, and groups the
    children of nodes with more than two by intermediate nodes. It gets the samples of
    the node; their labels are the classes of the leaf, or the children of the node.

    Parameters
    ----------
    taxonomy : Taxonomy, list, tuple, ndarray or mapping
        The tree to start from, e.g. an existing ontology, in any form that
        `as_taxonomy` takes.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features.

    y : array-like of shape (n_samples,)
        Labels; `taxonomy` must have all of them. Its other classes are left out.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights >= 0; samples of weight 0 count as absent.

    builder : TaxonomyBuilder or str, default=None
        Any builder, or its name in `TAXONOMY_BUILDERS`; None is ``CutSplit()``.

    max_leaf_size : int, default=1
        Leaves with more classes than this are split, >= 1.

    regroup : bool, default=True
        Whether to group the children of nodes that have more than two.

    random_state : int, RandomState or None, default=None
        Seed of a `builder` whose own `random_state` is None.

    Returns
    -------
    taxonomy : Taxonomy

    Raises
    ------
    ValueError
        Labels in y without a place in the taxonomy, an unknown builder,
        `max_leaf_size` below 1, or samples that no builder takes (see
        `TaxonomyBuilder.build`).

    See Also
    --------
    RefinedTaxonomy : The same as a builder, for use inside of a classifier.

    References
    ----------
    Nelakanti (2014), thesis, chapter 5: existing ontologies as side information.

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
    max_leaf_size = check_integer(max_leaf_size, "max_leaf_size", 1)
    builder = _as_builder(builder, random_state)
    X, y, weight = check_samples(X, y, sample_weight)
    labels = as_labels(y)
    found = np.unique(labels)
    taxonomy = as_taxonomy(taxonomy, found)

    # Samples in the order of the leaves: the rows of every node are contiguous.
    sets = taxonomy.class_sets
    place = np.empty(taxonomy.n_classes, dtype=np.int64)
    place[sets.order] = np.arange(taxonomy.n_classes)
    where = place[np.searchsorted(taxonomy.classes, labels)]
    rows = np.argsort(where, kind="stable")
    where = where[rows]

    def learn(node, boundaries):
        """A tree over 0 ... m - 1: parts of the node's run of classes."""
        lo, hi = np.searchsorted(where, [sets.start[node], sets.stop[node]])
        part = np.searchsorted(boundaries, where[lo:hi], side="right") - 1
        return builder.build(X[rows[lo:hi]], part, weight[rows[lo:hi]])

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
            # A child goes below the leaf that holds it; `Taxonomy` collapses the two if
            # it is the only one.
            for child, above in zip(children, number[tree.leaf_of_class]):
                parent[child] = int(above)
    return Taxonomy(parent, leaf, taxonomy.classes, names=names)


class RefinedTaxonomy(TaxonomyBuilder):
    r"""A given taxonomy, refined by another builder on the samples at hand.

    With T the given tree restricted to the classes in y and :math:`\mathcal S(T)` the
    sets of classes below its nodes, `build` returns a tree R with
    :math:`\mathcal S(T) \subseteq \mathcal S(R)`, whose splits inside the leaves of T
    and between the children of a node are those of `builder`. A classifier calls
    `build` in its `fit`, so that in a cross-validation or a grid search the tree is
    learned from the training samples only.

    Parameters
    ----------
    taxonomy : Taxonomy, list, tuple, ndarray or mapping
        The tree to start from, in any form that `as_taxonomy` takes.

    builder : str, TaxonomyBuilder or None, default="cut"
        The builder, a name in `TAXONOMY_BUILDERS` or a builder with its own
        parameters (``builder__delta`` in a grid); None is "cut".

    max_leaf_size : int, default=1
        Leaves with more classes than this are split, >= 1.

    regroup : bool, default=True
        Whether to group the children of nodes that have more than two.

    max_depth : int, default=None
        Largest depth of the refined tree, >= 0; None is no limit.

    max_leaf : int, default=None
        Nodes of at most so many classes are not divided, >= 1. None divides down
        to those of `builder`.

    random_state : int, RandomState or None, default=None
        Seed of a `builder` whose own `random_state` is None.

    Raises
    ------
    ValueError
        From `build`: if the tree lacks a label in y or is malformed, or `builder` is
        unknown.

    References
    ----------
    Nelakanti (2014), thesis, chapter 5: existing ontologies as side information.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklstruct import HierarchicalClassifier
    >>> from sklstruct.taxonomy import RefinedTaxonomy
    >>> X, y = load_digits(return_X_y=True)
    >>> shapes = RefinedTaxonomy([[0, 6, 8, 9], [1, 4, 7], [2, 3, 5]], max_leaf_size=3)
    >>> shapes.build(X, y).to_nested()
    [[[[[0], [6]], [[8], [9]]], [2, 3, 5]], [1, 4, 7]]
    >>> model = HierarchicalClassifier(shapes).fit(X[:1200] / 16, y[:1200])
    >>> model.taxonomy_.depth
    4
    """

    taxonomy: Any = field(kw_only=False)
    builder: Any = field(default="cut", kw_only=False)
    max_leaf_size: int = 1
    regroup: bool = True
    random_state: int | RandomState | None = None

    _parameter_constraints: ClassVar[dict] = {
        **GivenTaxonomy._parameter_constraints,
        "builder": [str, HasMethods("build"), None],
        "max_leaf_size": [Interval(Integral, 1, None, closed="left")],
        "regroup": ["boolean"],
        "random_state": ["random_state"],
    }

    def _tree(self, X, codes, weight, classes):
        return refine(
            as_taxonomy(self.taxonomy, classes),
            X,
            classes[codes],
            weight,
            builder=self.builder,
            max_leaf_size=self.max_leaf_size,
            regroup=self.regroup,
            random_state=self.random_state,
        )
