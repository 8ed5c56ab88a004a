"""Classification along a taxonomy of classes."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._classifier import HierarchicalClassifier as HierarchicalClassifier
    from ._paths import PathClassifier as PathClassifier
    from ._searches import GammaPrior as GammaPrior
    from ._searches import PerNodeC as PerNodeC
    from ._senses import SenseClassifier as SenseClassifier
else:
    __all__, __getattr__, __dir__ = face(__name__)
