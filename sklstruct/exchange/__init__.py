"""Models in the file formats of other programs."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._att import att_lines
    from ._formats import FORMATS as FORMATS
    from ._formats import format_to_write
    from ._formats import read as read
    from ._formats import write as write
else:
    __all__, __getattr__, __dir__ = face(__name__)
