"""Models made of models: factored along a tree of the words, and mixtures."""

from ._base import ModelClassifier
from ._factored import FactoredLM
from ._mixture import MixtureLM

__all__ = ["FactoredLM", "MixtureLM", "ModelClassifier"]
