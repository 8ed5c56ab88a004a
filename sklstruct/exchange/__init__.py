"""Models in the file formats of other programs."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._att import att_lines as att_lines
    from ._formats import FORMATS, read, write
    from ._formats import format_to_write as format_to_write

__all__ = ["FORMATS", "read", "write"]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._att": ["att_lines"],
            "._formats": ["FORMATS", "format_to_write", "read", "write"],
        },
    )
