"""What ids mean: labels, sentences and windows of symbols."""

from ._labels import Labels
from ._sentences import ContextWindows, context_windows
from ._text import TextFile

__all__ = ["ContextWindows", "Labels", "TextFile", "context_windows"]
