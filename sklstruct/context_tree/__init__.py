"""Contexts as a tree: the data structure under every language model."""

# Names imported `as` themselves are for the packages above, not on the API page.
from ._histories import Histories
from ._links import find_pairs as find_pairs
from ._pairs import Pairs
from ._pairs import pairs_of_arrays as pairs_of_arrays
from ._suffix_tree import expand_pairs, expand_tree, suffix_tree
from ._tree import ContextTree
from ._tree import tree_of_arrays as tree_of_arrays
from ._vectorizer import SuffixTreeVectorizer
from ._vectorizer import read_windows as read_windows

__all__ = [
    "ContextTree",
    "Histories",
    "Pairs",
    "SuffixTreeVectorizer",
    "expand_pairs",
    "expand_tree",
    "suffix_tree",
]
