"""A taxonomy that is known already, as a builder."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sklstruct.taxonomy._builders._base import TaxonomyBuilder
from sklstruct.taxonomy._taxonomy import Taxonomy

# repr, clone and pickle recurse into nested lists, and Python stops at a thousand
# calls, several for a level.
_MAX_NESTING = 200


def as_taxonomy(given) -> Taxonomy:
    """A `Taxonomy` from any of the forms that a parameter may have."""
    if isinstance(given, Taxonomy):
        return given
    if isinstance(given, Mapping):
        if any(isinstance(value, list | tuple) for value in given.values()):
            return Taxonomy.from_paths(given)
        return Taxonomy.from_parents(given)
    if not isinstance(given, list | tuple | np.ndarray):
        raise ValueError(
            "taxonomy must be a Taxonomy, nested lists, a parent map or a table of "
            f"paths (or, in a classifier, a builder, its name, or a tuple of these), "
            f"got {type(given).__name__}"
        )
    level = [given]
    for _ in range(_MAX_NESTING):
        # by identity, for a list that holds itself twice grows without bound
        level = list(
            {id(v): v for u in level for v in u if isinstance(v, list | tuple)}.values()
        )
        if not level:
            return Taxonomy.from_nested(given)
    raise ValueError(
        f"taxonomy is nested more than {_MAX_NESTING} lists deep, which a parameter "
        "cannot be; pass Taxonomy.from_nested(taxonomy)"
    )


def restrict_to(taxonomy, classes) -> Taxonomy:
    """The tree over exactly these sorted labels; others of its own are left out."""
    if np.array_equal(taxonomy.classes_, classes):
        return taxonomy
    if not np.isin(classes, taxonomy.classes_).all():
        taxonomy.check_classes(classes)
    return taxonomy.restrict(classes)


class GivenTaxonomy(TaxonomyBuilder):
    r"""A given taxonomy under the protocol of the builders.

    With C the classes of the given tree T and :math:`C_y` those in y, `build` returns
    the restriction of T to :math:`C_y`: every set of classes below a node,
    :math:`S \subseteq C`, becomes :math:`S \cap C_y`; nodes that are left without
    classes are dropped and nodes with a single child collapsed. X is checked and not
    used.

    Parameters
    ----------
    taxonomy : Taxonomy, list, tuple, ndarray or mapping
        - `Taxonomy`: as it is;
        - nested lists or tuples of labels: see `Taxonomy.from_nested`;
        - a mapping with a list or tuple among its values: label to path of groups, see
          `Taxonomy.from_paths`;
        - any other mapping: node to parent, see `Taxonomy.from_parents`.
    max_depth : int, default=None
        Largest depth of the tree, >= 0; None is no limit.

    Raises
    ------
    ValueError
        From `build`: a label in y without a place in the tree, or a tree that is none
        (see `Taxonomy`).

    See Also
    --------
    RefinedTaxonomy : Learns what a given taxonomy leaves open.

    References
    ----------
    Nelakanti (2014), thesis, chapter 5: existing ontologies as side information.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.taxonomy import GivenTaxonomy
    >>> builder = GivenTaxonomy([[0, 3], [[1], [2]]])
    >>> builder.build(*load_iris(return_X_y=True)).to_nested()
    [[0], [[1], [2]]]
    """

    _parameter_constraints: dict = {
        **TaxonomyBuilder._parameter_constraints,
        "taxonomy": [Taxonomy, list, tuple, np.ndarray, Mapping],
    }

    def __init__(self, taxonomy, *, max_depth=None):
        self.taxonomy = taxonomy
        self.max_depth = max_depth

    def _tree(self, X, codes, weight, classes):
        return restrict_to(as_taxonomy(self.taxonomy), classes)
