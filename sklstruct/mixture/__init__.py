"""Models made of models: factored along a tree of the words, and mixtures."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._base import ModelClassifier
    from ._factored import FactoredLM
    from ._mixture import MixtureLM

__all__ = ["FactoredLM", "MixtureLM", "ModelClassifier"]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._base": ["ModelClassifier"],
            "._factored": ["FactoredLM"],
            "._mixture": ["MixtureLM"],
        },
    )
