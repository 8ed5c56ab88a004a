"""Contexts as a tree: the data structure under every language model."""

from ._histories import Histories
from ._pairs import Pairs
from ._suffix_tree import expand_pairs, expand_tree, suffix_tree
from ._tree import ContextTree
from ._vectorizer import SuffixTreeVectorizer

__all__ = [
    "ContextTree",
    "Histories",
    "Pairs",
    "SuffixTreeVectorizer",
    "expand_pairs",
    "expand_tree",
    "suffix_tree",
]
