"""Linear classifiers of many classes on sparse rows."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._dual import DualLinearClassifier

__all__ = ["DualLinearClassifier"]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._dual": ["DualLinearClassifier"],
        },
    )
