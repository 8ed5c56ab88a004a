"""Composed models: factored along a tree of the words, and mixtures."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._base import ModelClassifier
    from ._factored import FactoredLM as FactoredLM
    from ._mixture import MixtureLM as MixtureLM
else:
    __all__, __getattr__, __dir__ = face(__name__)
