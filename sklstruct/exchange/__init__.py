"""Models in the file formats of other programs, for `LanguageModel` and the command."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._att import att_lines
    from ._container import Container, labels_of, put_labels
    from ._formats import format_to_write, read, write
else:
    __all__, __getattr__, __dir__ = face(__name__)
