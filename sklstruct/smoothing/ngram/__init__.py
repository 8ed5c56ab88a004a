"""Smoothed n-gram models: one file a smoother, one engine for all."""

from typing import TYPE_CHECKING

from ..._lazy import lazy_face

if TYPE_CHECKING:
    from ._absolute_discount import AbsoluteDiscountLM
    from ._additive import AdditiveLM
    from ._grown import GrownLM
    from ._jelinek_mercer import JelinekMercerLM
    from ._katz import KatzLM
    from ._kneser_ney import KneserNeyLM
    from ._pruned_kneser_ney import PrunedKneserNeyLM
    from ._witten_bell import WittenBellLM

__all__ = [
    "AbsoluteDiscountLM",
    "AdditiveLM",
    "GrownLM",
    "JelinekMercerLM",
    "KatzLM",
    "KneserNeyLM",
    "PrunedKneserNeyLM",
    "WittenBellLM",
]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._absolute_discount": ["AbsoluteDiscountLM"],
            "._additive": ["AdditiveLM"],
            "._grown": ["GrownLM"],
            "._jelinek_mercer": ["JelinekMercerLM"],
            "._katz": ["KatzLM"],
            "._kneser_ney": ["KneserNeyLM"],
            "._pruned_kneser_ney": ["PrunedKneserNeyLM"],
            "._witten_bell": ["WittenBellLM"],
        },
    )
