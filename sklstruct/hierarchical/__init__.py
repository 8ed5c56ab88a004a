"""Classification along a taxonomy of classes."""

from ._classifier import HierarchicalClassifier
from ._regularization import REGULARIZATIONS, GammaPrior, PerNodeC, SingleC

__all__ = [
    "REGULARIZATIONS",
    "GammaPrior",
    "HierarchicalClassifier",
    "PerNodeC",
    "SingleC",
]
