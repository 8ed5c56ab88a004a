"""Linear classifiers of many classes on sparse rows."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._classifier import LinearClassifier as LinearClassifier
else:
    __all__, __getattr__, __dir__ = face(__name__)
