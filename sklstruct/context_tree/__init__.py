"""Contexts as a tree: the data structure under every language model."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

# Names imported `as` themselves are for the packages above, not on the API page.
if TYPE_CHECKING:
    from ._histories import Columns as Columns
    from ._histories import Histories
    from ._links import find_pairs as find_pairs
    from ._pairs import Pairs
    from ._pairs import pairs_of_arrays as pairs_of_arrays
    from ._pairs import pairs_of_keys as pairs_of_keys
    from ._suffix_tree import expand_pairs, expand_tree, suffix_tree
    from ._tree import ContextTree
    from ._tree import tree_of_arrays as tree_of_arrays
    from ._vectorizer import SuffixTreeVectorizer
    from ._vectorizer import check_windows as check_windows
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

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._histories": ["Columns", "Histories"],
            "._links": ["find_pairs"],
            "._pairs": ["Pairs", "pairs_of_arrays", "pairs_of_keys"],
            "._suffix_tree": ["expand_pairs", "expand_tree", "suffix_tree"],
            "._tree": ["ContextTree", "tree_of_arrays"],
            "._vectorizer": ["SuffixTreeVectorizer", "check_windows", "read_windows"],
        },
    )
