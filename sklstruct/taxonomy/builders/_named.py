"""Builders by name, for the parameters `taxonomy` and `builder` of estimators."""

from collections.abc import Iterable

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


def named_builder(
    name: str, parameter: str, others: Iterable[str] = ()
) -> TaxonomyBuilder:
    """A builder with its default parameters.

    Raises ValueError for an unknown name; the message names the parameter, all builders
    and the other names that the parameter may have.
    """
    if name not in TAXONOMY_BUILDERS:
        raise ValueError(
            f"{parameter}={name!r} is not the name of a builder; there are "
            f"{[*others, *sorted(TAXONOMY_BUILDERS)]}"
        )
    return TAXONOMY_BUILDERS[name]()
