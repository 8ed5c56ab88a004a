"""Classification along a taxonomy of classes."""

from ._classifier import HierarchicalClassifier
from ._paths import PathClassifier
from ._regularization import REGULARIZATIONS, GammaPrior, PerNodeC, SingleC
from ._senses import SenseClassifier

__all__ = [
    "REGULARIZATIONS",
    "GammaPrior",
    "HierarchicalClassifier",
    "PathClassifier",
    "PerNodeC",
    "SenseClassifier",
    "SingleC",
]
