"""Smoothed n-gram models: one file a smoother, one engine for all."""

from ._additive import AdditiveLM
from ._kneser_ney import KneserNeyLM
from ._witten_bell import WittenBellLM

__all__ = ["AdditiveLM", "KneserNeyLM", "WittenBellLM"]
