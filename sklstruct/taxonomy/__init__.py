"""Trees over classes: given or learned from data."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._forest import Forest
    from ._given import as_taxonomy as as_taxonomy
    from ._label_paths import as_paths as as_paths
    from ._shape import TreeShape
    from ._shape import choose_shape as choose_shape
    from ._statistics import ClassStatistics as ClassStatistics
    from ._taxonomy import Taxonomy as Taxonomy
    from .builders._base import TaxonomyBuilder as TaxonomyBuilder
    from .builders._confusion import ConfusionSplit as ConfusionSplit
    from .builders._cut import CutSplit as CutSplit
    from .builders._diffrac import DiffracSplit as DiffracSplit
    from .builders._greedy import GreedyMerge as GreedyMerge
    from .builders._hungarian import HungarianMerge as HungarianMerge
    from .builders._kmeans import KMeansSplit as KMeansSplit
    from .builders._named import TAXONOMY_BUILDERS
    from .builders._random import RandomSplit as RandomSplit
    from .builders._refine import RefinedTaxonomy as RefinedTaxonomy
    from .builders._spectral import SpectralSplit as SpectralSplit
    from .builders._ward import WardMerge as WardMerge
else:
    __all__, __getattr__, __dir__ = face(__name__)
