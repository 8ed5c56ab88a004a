"""Classification along a taxonomy of classes."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._classifier import HierarchicalClassifier as HierarchicalClassifier
    from ._searches import GammaPrior as GammaPrior
    from ._searches import PerNodeC as PerNodeC
else:
    __all__, __getattr__, __dir__ = face(__name__)
