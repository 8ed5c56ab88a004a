"""Count-based smoothing: language models from discounted or added counts."""

from ._additive import AdditiveLM
from ._kneser_ney import KneserNeyLM

__all__ = ["AdditiveLM", "KneserNeyLM"]
