"""Unigram smoothers: a distribution over the classes from their counts alone."""

from typing import TYPE_CHECKING

from ..._lazy import lazy_face

if TYPE_CHECKING:
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

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._additive": ["AdditiveUnigram"],
            "._diffusion": ["GraphDiffusionUnigram"],
            "._discount": ["AbsoluteDiscountUnigram"],
            "._good_turing": ["GoodTuringUnigram"],
            "._spread": ["GraphSpreadUnigram"],
        },
    )
