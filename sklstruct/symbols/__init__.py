"""What ids mean: labels, sentences and windows of symbols."""

from ._labels import Labels
from ._sentences import ContextWindows, context_windows

__all__ = ["ContextWindows", "Labels", "context_windows"]
