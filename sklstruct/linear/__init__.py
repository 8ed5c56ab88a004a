"""Linear classifiers of many classes on sparse rows."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._dual import DualLinearClassifier as DualLinearClassifier
else:
    __all__, __getattr__, __dir__ = face(__name__)
