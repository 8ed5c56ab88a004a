"""Unigram smoothers: a distribution over the classes from their counts alone."""

from ._additive import AdditiveUnigram
from ._diffusion import GraphDiffusionUnigram
from ._discount import AbsoluteDiscountUnigram
from ._good_turing import GoodTuringUnigram
from ._spread import GraphSpreadUnigram

__all__ = [
    "AbsoluteDiscountUnigram",
    "AdditiveUnigram",
    "GoodTuringUnigram",
    "GraphDiffusionUnigram",
    "GraphSpreadUnigram",
]
