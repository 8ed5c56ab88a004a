"""Builders: samples and labels in, a `Taxonomy` out. One file per idea.

A builder is a class with ``build(X, y, sample_weight=None) -> Taxonomy`` and the
``get_params``/``set_params`` of scikit-learn. A new one is one file and one line here.
"""

from sklstruct.taxonomy._builders._base import TaxonomyBuilder
from sklstruct.taxonomy._builders._clustering import (
    KMeansSplit,
    RandomSplit,
    WardMerge,
)
from sklstruct.taxonomy._builders._confusion import ConfusionSplit
from sklstruct.taxonomy._builders._given import GivenTaxonomy
from sklstruct.taxonomy._builders._greedy import GreedyMerge
from sklstruct.taxonomy._builders._hungarian import HungarianMerge
from sklstruct.taxonomy._builders._maxcut import CutSplit, DiffracSplit
from sklstruct.taxonomy._builders._refine import RefinedTaxonomy, refine
from sklstruct.taxonomy._builders._spectral import SpectralSplit

TAXONOMY_BUILDERS = {
    "conf": ConfusionSplit,
    "cut": CutSplit,
    "diff": DiffracSplit,
    "hung": HungarianMerge,
    "kmeans": KMeansSplit,
    "obyo": GreedyMerge,
    "rand": RandomSplit,
    "spec": SpectralSplit,
    "ward": WardMerge,
}

__all__ = [
    "TAXONOMY_BUILDERS",
    "ConfusionSplit",
    "CutSplit",
    "DiffracSplit",
    "GivenTaxonomy",
    "GreedyMerge",
    "HungarianMerge",
    "KMeansSplit",
    "RandomSplit",
    "RefinedTaxonomy",
    "SpectralSplit",
    "TaxonomyBuilder",
    "WardMerge",
    "refine",
]
