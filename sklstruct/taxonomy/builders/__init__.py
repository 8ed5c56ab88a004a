"""Builders: samples and labels in, a `Taxonomy` out. One file an idea.

A builder is a class with ``build(X, y, sample_weight=None) -> Taxonomy`` and the
``get_params``/``set_params`` of scikit-learn. A new one that learns is its file and
its lines in `_named`.
"""

from . import _named
from ._base import TaxonomyBuilder
from ._given import GivenTaxonomy
from ._named import *  # noqa: F403
from ._refine import RefinedTaxonomy, refine

__all__ = ["GivenTaxonomy", "RefinedTaxonomy", "TaxonomyBuilder", "refine"]
__all__ += _named.__all__
