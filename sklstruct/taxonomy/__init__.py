"""Trees over classes: given or learned from data."""

from sklstruct.taxonomy._builders import (
    TAXONOMY_BUILDERS,
    ConfusionSplit,
    CutSplit,
    DiffracSplit,
    GivenTaxonomy,
    GreedyMerge,
    HungarianMerge,
    KMeansSplit,
    RandomSplit,
    RefinedTaxonomy,
    SpectralSplit,
    TaxonomyBuilder,
    WardMerge,
    refine,
)
from sklstruct.taxonomy._proximity import ClassProximity, ClassStatistics
from sklstruct.taxonomy._taxonomy import ClassSets, Taxonomy

__all__ = [
    "TAXONOMY_BUILDERS",
    "ClassProximity",
    "ClassSets",
    "ClassStatistics",
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
    "Taxonomy",
    "TaxonomyBuilder",
    "WardMerge",
    "refine",
]
