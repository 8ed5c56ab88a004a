"""A given taxonomy as a builder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from .._given import as_taxonomy
from .._taxonomy import Taxonomy
from ._base import TaxonomyBuilder


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
        A tree, nested lists, nested mappings, a table of paths or a map of parents; see
        `as_taxonomy`.

    max_depth : int, default=None
        Largest depth of the tree, >= 0; None is no limit.

    max_leaf : int, default=None
        Nodes of at most so many classes are not divided, >= 1. None divides down
        to the leaves of the given tree.

    Raises
    ------
    ValueError
        From `build`: if the tree lacks a label in y, or is malformed (see `Taxonomy`).

    See Also
    --------
    RefinedTaxonomy : Learns splits inside the groups of a given taxonomy.

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

    taxonomy: Any = field(kw_only=False)

    _parameter_constraints: ClassVar[dict] = {
        **TaxonomyBuilder._parameter_constraints,
        "taxonomy": [Taxonomy, list, tuple, np.ndarray, Mapping],
    }

    def _tree(self, X, codes, weight, classes):
        return as_taxonomy(self.taxonomy, classes)
