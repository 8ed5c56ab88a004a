"""A given taxonomy refined by a builder."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.random import RandomState
from sklearn.base import clone

from ..._compat import HasMethods, Interval
from .._given import as_taxonomy
from .._taxonomy import Taxonomy
from ._base import TaxonomyBuilder
from ._named import named_builder


class RefinedTaxonomy(TaxonomyBuilder):
    r"""A given taxonomy, refined by another builder.

    With T the given tree restricted to the classes in y (see `as_taxonomy`) and
    :math:`\mathcal S(T)` the sets of classes below its nodes, `build` returns a tree R
    with :math:`\mathcal S(T) \subseteq \mathcal S(R)`. The parameter `builder` splits
    leaves with many classes, and adds groups between a node and its children if there
    are more than two children. `builder` gets the samples of the node; the labels are
    the classes of the leaf, or the children of the node. A classifier calls `build` in
    its `fit`, so that in a cross-validation or a grid search the tree is learned from
    the training samples only.

    Parameters
    ----------
    taxonomy : Taxonomy, list, tuple, ndarray or mapping
        The tree to start from, such as an existing ontology, in any form that
        `as_taxonomy` takes. Classes without samples are left out.

    builder : str, TaxonomyBuilder or None, default="cut"
        A name in `TAXONOMY_BUILDERS`, or a builder with its own parameters
        (``builder__delta`` in a grid); None is "cut".

    max_leaf_size : int, default=1
        Leaves with more classes than this are split, >= 1.

    regroup : bool, default=True
        Whether to group the children of nodes that have more than two.

    max_depth : int, default=None
        Largest depth of the refined tree, >= 0; None does not limit it.

    max_leaf : int, default=None
        Nodes of the result with at most `max_leaf` classes become leaves, >= 1. None
        does not change the leaves.

    random_state : int, RandomState or None, default=None
        Seed of a `builder` whose own `random_state` is None.

    Raises
    ------
    ValueError
        From `build`: if the tree lacks a label in y or is malformed, or `builder` is
        unknown.

    See Also
    --------
    as_taxonomy : The forms of a given tree.

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
        "taxonomy": [Taxonomy, list, tuple, np.ndarray, Mapping],
        "builder": [str, HasMethods("build"), None],
        "max_leaf_size": [Interval(Integral, 1, None, closed="left")],
        "regroup": ["boolean"],
        "random_state": ["random_state"],
    }

    def _builder(self) -> TaxonomyBuilder:
        """The builder, seeded if it has no seed."""
        builder = "cut" if self.builder is None else self.builder
        if isinstance(builder, str):
            builder = named_builder(builder, "builder")
        elif inspect.isclass(builder):
            raise ValueError(f"builder must be a builder, not the class {builder!r}")
        if self.random_state is not None and hasattr(builder, "get_params"):
            params = builder.get_params(deep=False)
            if "random_state" in params and params["random_state"] is None:
                builder = clone(builder).set_params(random_state=self.random_state)
        return builder

    def _tree(self, X, codes, weight, classes):
        builder = self._builder()
        taxonomy = as_taxonomy(self.taxonomy, classes)
        # Samples in the order of the leaves: the rows of every node are contiguous.
        sets = taxonomy.class_sets
        place = np.argsort(sets.order)[codes]
        rows = np.argsort(place, kind="stable")
        where = place[rows]

        def learn(node, boundaries):
            """A tree over 0 ... m - 1, the parts of the classes of the node."""
            lo, hi = np.searchsorted(where, [sets.start[node], sets.stop[node]])
            part = np.searchsorted(boundaries, where[lo:hi], side="right") - 1
            return builder.build(X[rows[lo:hi]], part, weight[rows[lo:hi]])

        parent = taxonomy.parent.tolist()
        names = list(taxonomy.names) if taxonomy.names else None
        leaf = taxonomy.leaf_of_class.copy()

        def attach(tree, node):
            """Add the nodes of the tree except its root, which is `node`.

            Returns the number of each node of the tree in the result.
            """
            number = np.concatenate([[node], np.arange(tree.n_nodes - 1) + len(parent)])
            parent.extend(number[tree.parent[1:]].tolist())
            if names is not None:
                names.extend([None] * (tree.n_nodes - 1))
            return number

        for node in range(taxonomy.n_nodes):
            children = taxonomy.children(node)
            if children.size == 0:
                start, stop = sets.start[node], sets.stop[node]
                if stop - start > self.max_leaf_size:
                    tree = learn(node, np.arange(start, stop))
                    number = attach(tree, node)
                    leaf[sets.order[start:stop]] = number[tree.leaf_of_class]
            elif self.regroup and children.size > 2:
                tree = learn(node, sets.start[children])
                number = attach(tree, node)
                # A child goes below its leaf; `Taxonomy` merges them if it is the only
                # child.
                for child, above in zip(children, number[tree.leaf_of_class]):
                    parent[child] = int(above)
        return Taxonomy(parent, leaf, classes, names)
