"""Builders by the names that the parameter `taxonomy` of estimators takes."""

from ._base import TaxonomyBuilder
from ._confusion import ConfusionSplit
from ._cut import CutSplit
from ._diffrac import DiffracSplit
from ._greedy import GreedyMerge
from ._hungarian import HungarianMerge
from ._kmeans import KMeansSplit
from ._random import RandomSplit
from ._spectral import SpectralSplit
from ._ward import WardMerge

TAXONOMY_BUILDERS: dict[str, type[TaxonomyBuilder]] = {
    "conf": ConfusionSplit,
    "cut": CutSplit,
    "diff": DiffracSplit,
    "obyo": GreedyMerge,
    "hung": HungarianMerge,
    "kmeans": KMeansSplit,
    "rand": RandomSplit,
    "spec": SpectralSplit,
    "ward": WardMerge,
}
