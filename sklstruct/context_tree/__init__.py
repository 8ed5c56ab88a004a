"""Contexts as a tree: the data structure under every language model."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._histories import Histories, HistoryColumns
    from ._links import find_pairs, joined_ranges
    from ._merging import merge_counts, renumber_pairs
    from ._pairs import Pairs as Pairs
    from ._pairs import pairs_of_arrays, pairs_of_keys
    from ._paths import find_paths, tree_of_paths
    from ._runs import Column, CountRuns, Level, RunFile, Spill, Stored, column_streams
    from ._suffix_tree import expand_pairs, expand_tree, find_histories
    from ._tree import ContextTree as ContextTree
    from ._tree import tree_of_arrays, tree_of_windows
    from ._vectorizer import SuffixTreeVectorizer as SuffixTreeVectorizer
    from ._vectorizer import check_windows, read_windows
else:
    __all__, __getattr__, __dir__ = face(__name__)
