"""Models in the file formats of other programs."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._formats import FORMATS, read, write

__all__ = ["FORMATS", "read", "write"]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._formats": ["FORMATS", "read", "write"],
        },
    )
