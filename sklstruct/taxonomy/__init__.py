"""Trees over classes: given or learned from data."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._forest import Forest
    from ._given import as_taxonomy
    from ._label_paths import LabelTree, as_paths
    from ._proximity import ClassProximity
    from ._shape import TreeShape, choose_shape
    from ._statistics import ClassStatistics
    from ._taxonomy import ClassSets, Taxonomy
    from .builders._base import TaxonomyBuilder
    from .builders._confusion import ConfusionSplit
    from .builders._cut import CutSplit
    from .builders._diffrac import DiffracSplit
    from .builders._given import GivenTaxonomy
    from .builders._greedy import GreedyMerge
    from .builders._hungarian import HungarianMerge
    from .builders._kmeans import KMeansSplit
    from .builders._named import TAXONOMY_BUILDERS
    from .builders._random import RandomSplit
    from .builders._refine import RefinedTaxonomy, refine
    from .builders._spectral import SpectralSplit
    from .builders._ward import WardMerge

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

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._forest": ["Forest"],
            "._given": ["as_taxonomy"],
            "._label_paths": ["LabelTree", "as_paths"],
            "._proximity": ["ClassProximity"],
            "._shape": ["TreeShape", "choose_shape"],
            "._statistics": ["ClassStatistics"],
            "._taxonomy": ["ClassSets", "Taxonomy"],
            ".builders._base": ["TaxonomyBuilder"],
            ".builders._confusion": ["ConfusionSplit"],
            ".builders._cut": ["CutSplit"],
            ".builders._diffrac": ["DiffracSplit"],
            ".builders._given": ["GivenTaxonomy"],
            ".builders._greedy": ["GreedyMerge"],
            ".builders._hungarian": ["HungarianMerge"],
            ".builders._kmeans": ["KMeansSplit"],
            ".builders._named": ["TAXONOMY_BUILDERS"],
            ".builders._random": ["RandomSplit"],
            ".builders._refine": ["RefinedTaxonomy", "refine"],
            ".builders._spectral": ["SpectralSplit"],
            ".builders._ward": ["WardMerge"],
        },
    )
