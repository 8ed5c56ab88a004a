"""Classification along a taxonomy of classes."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
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

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._classifier": ["HierarchicalClassifier"],
            "._paths": ["PathClassifier"],
            "._regularization": [
                "REGULARIZATIONS",
                "GammaPrior",
                "PerNodeC",
                "SingleC",
            ],
            "._senses": ["SenseClassifier"],
        },
    )
