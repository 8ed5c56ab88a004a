"""Contexts as a tree: the data structure under every language model."""

from ._symbols import ContextWindows, context_windows
from ._tree import ContextTree
from ._vectorizer import SuffixTreeVectorizer

__all__ = ["ContextTree", "ContextWindows", "SuffixTreeVectorizer", "context_windows"]
