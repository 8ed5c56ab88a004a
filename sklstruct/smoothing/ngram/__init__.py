"""Smoothed n-gram models: one file a smoother, one engine for all."""

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
