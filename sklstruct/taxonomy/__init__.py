"""Trees over classes: given or learned from data."""

from ._forest import Forest
from ._given import as_taxonomy
from ._label_paths import LabelTree, as_paths
from ._proximity import ClassProximity
from ._shape import TreeShape, choose_shape
from ._statistics import ClassStatistics
from ._taxonomy import ClassSets, Taxonomy
from .builders._base import TaxonomyBuilder
from .builders._given import GivenTaxonomy
from .builders._named import (
    TAXONOMY_BUILDERS,
    ConfusionSplit,
    CutSplit,
    DiffracSplit,
    GreedyMerge,
    HungarianMerge,
    KMeansSplit,
    RandomSplit,
    SpectralSplit,
    WardMerge,
)
from .builders._refine import RefinedTaxonomy, refine

__all__ = [
    "TAXONOMY_BUILDERS",
    "ClassProximity",
    "ClassSets",
    "ClassStatistics",
    "ConfusionSplit",
    "CutSplit",
    "DiffracSplit",
    "Forest",
    "GivenTaxonomy",
    "GreedyMerge",
    "HungarianMerge",
    "KMeansSplit",
    "LabelTree",
    "RandomSplit",
    "RefinedTaxonomy",
    "SpectralSplit",
    "Taxonomy",
    "TaxonomyBuilder",
    "TreeShape",
    "WardMerge",
    "as_paths",
    "as_taxonomy",
    "choose_shape",
    "refine",
]
