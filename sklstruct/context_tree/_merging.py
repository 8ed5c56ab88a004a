"""Merges of two trees over the same symbols, and of the counts beside them.

Nodes and pairs are sorted in their canonical order, so one walk along both is enough.
The result does not depend on the order of the two, but for the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from . import _merge_fast as _merge
from ._pairs import Pairs, pairs_of_arrays
from ._tree import ContextTree, check_size, tree_of_arrays


class MergedCounts(NamedTuple):
    """The pairs of two counts together."""

    pairs: Pairs
    total: np.ndarray  # (n_pairs,) float64, the summed counts
    index_a: np.ndarray  # (n_nodes of a,) int32, the node of each node
    index_b: np.ndarray


def merge_trees(
    a: ContextTree,
    b: ContextTree,
    *,
    empty: Callable = np.empty,
    scratch: Callable = np.empty,
) -> tuple[ContextTree, np.ndarray, np.ndarray]:
    """The tree of the contexts of two tries.

    Parameters
    ----------
    a, b : ContextTree
        Tries with one numbering of their symbols.

    empty, scratch : callables
        Allocators of the arrays of the tree, and of temporary ones: ``np.empty``, or
        one of arrays in files.

    Returns
    -------
    tree : ContextTree
        The union of the contexts.

    index_a, index_b : int32 ndarray of shape (n_nodes of a or b,)
        The node of the merged tree for each node.
    """
    for tree in (a, b):
        tree.check_trie("a merge")
    index_a = scratch(a.n_nodes, dtype=np.int32)
    index_b = scratch(b.n_nodes, dtype=np.int32)
    room = a.n_nodes + b.n_nodes - 1
    parent = scratch(room, dtype=np.int32)
    symbol = scratch(room, dtype=np.int32)
    level_ptr = np.zeros(max(a.n_levels, b.n_levels) + 1, dtype=np.int64)
    _merge.merge_nodes(
        a.parent, a.symbol, a.level_ptr, b.parent, b.symbol, b.level_ptr,
        index_a, index_b, level_ptr, parent, symbol,
    )  # fmt: skip
    n = check_size(level_ptr[-1], "contexts")
    parent, symbol = _fitted(parent, n, empty), _fitted(symbol, n, empty)
    n_symbols = max(a.n_symbols, b.n_symbols)
    return tree_of_arrays(parent, symbol, level_ptr, n_symbols), index_a, index_b


def merge_counts(
    a: tuple[Pairs, np.ndarray],
    b: tuple[Pairs, np.ndarray],
    *,
    empty: Callable = np.empty,
    scratch: Callable = np.empty,
) -> MergedCounts:
    """The pairs of two counts, and their summed counts.

    Parameters
    ----------
    a, b : (Pairs, ndarray)
        Pairs over tries, and their counts. Symbols and classes are numbered alike;
        there may be more classes in one than in the other.

    empty, scratch : callables
        As in `merge_trees`.

    Returns
    -------
    merged : MergedCounts
        A pair is in it if it is in one of the two.
    """
    (pairs_a, count_a), (pairs_b, count_b) = a, b
    tree, index_a, index_b = merge_trees(
        pairs_a.tree, pairs_b.tree, empty=empty, scratch=scratch
    )
    place_a = scratch(pairs_a.n_pairs, dtype=np.int32)
    place_b = scratch(pairs_b.n_pairs, dtype=np.int32)
    room = pairs_a.n_pairs + pairs_b.n_pairs
    ptr = empty(tree.n_nodes + 1, dtype=np.int32)
    target = scratch(room, dtype=np.int32)
    count = scratch(room, dtype=np.float64)
    n = _merge.merge_pairs(
        pairs_a.ptr, pairs_a.target, np.ascontiguousarray(count_a, dtype=np.float64),
        index_a, pairs_b.ptr, pairs_b.target,
        np.ascontiguousarray(count_b, dtype=np.float64), index_b, place_a, place_b,
        ptr, target, count,
    )  # fmt: skip
    check_size(n, "(context, class) pairs")
    parent = None  # if neither part has them, they are found at first use
    if pairs_a.has_parents or pairs_b.has_parents:
        parent = empty(n, dtype=np.int32)
        parent[:] = -1
        _merge.move_parents(pairs_a.parent, place_a, parent)
        _merge.move_parents(pairs_b.parent, place_b, parent)
        if int(parent[int(ptr[1]) :].min(initial=0)) < 0:
            parent = None  # the parent of a pair may be in the other part only
    pairs = pairs_of_arrays(tree, ptr, _fitted(target, n, empty), parent)
    return MergedCounts(pairs, _fitted(count, n, empty), index_a, index_b)


def renumber_pairs(
    pairs: Pairs,
    class_ids: np.ndarray,
    n_classes: int,
    symbol_ids: np.ndarray,
    n_symbols: int,
) -> tuple[Pairs, np.ndarray]:
    """The same pairs under new ids, with more classes and symbols.

    Parameters
    ----------
    class_ids : int32 ndarray of shape (`n_classes` before,)
        The new id of each class, rising.

    n_classes : int
        Number of classes, at the root too.

    symbol_ids : int32 ndarray of shape (`n_symbols` before,)
        The new id of each context symbol, rising.

    n_symbols : int
        Number of symbols.

    Returns
    -------
    pairs : Pairs
        Over a tree with the same nodes.

    place : int32 ndarray of shape (n_pairs before,)
        The new number of each pair.
    """
    tree = pairs.tree
    symbol = np.empty_like(tree.symbol)
    _merge.renumber(tree.symbol, symbol_ids, symbol)
    tree = tree_of_arrays(tree.parent, symbol, tree.level_ptr, n_symbols)
    more = n_classes - pairs.n_classes
    place = np.arange(more, pairs.n_pairs + more, dtype=np.int32)
    place[: pairs.n_classes] = class_ids
    ptr = pairs.ptr + np.int32(more)
    ptr[0] = 0
    target = np.empty(pairs.n_pairs + more, dtype=np.int32)
    target[:n_classes] = np.arange(n_classes, dtype=np.int32)
    _merge.renumber(pairs.target[pairs.n_classes :], class_ids, target[n_classes:])
    parent = np.empty(target.size, dtype=np.int32)
    parent[:n_classes] = -1
    _merge.renumber(pairs.parent[pairs.n_classes :], place, parent[n_classes:])
    return pairs_of_arrays(tree, ptr, target, parent), place


def _fitted(array, n, empty):
    """The first n entries, in an array of their size."""
    out = empty(n, dtype=array.dtype)
    out[:] = array[:n]
    return out
