"""Models in the file formats of other programs."""

from ._formats import FORMATS, read, write

__all__ = ["FORMATS", "read", "write"]
