"""Suffix links: from each context to the context without its newest symbol.

The parent of a context is the context without its *oldest* symbol. Decoders and cursors
along a text need suffix links, because they go from "h" to "h y". Pruning and growing
test whether "h y" is a context, and a file of n-grams lists "h y" with the probability
of the pair (h, y) and the back-off weight of the node "h y".

`drop_newest` finds the links; the functions after it take its result. All need a trie
(``span is None``): in a collapsed tree the context without its newest symbol may end
inside an edge, so expand the tree first (`expand_tree`).
"""

from __future__ import annotations

import numpy as np

from . import _find_fast
from . import _links_fast as _fast
from ._tree import ContextTree, pointers, tree_of_windows


def newest_symbols(tree: ContextTree) -> np.ndarray:
    """Most recent symbol of the context of each node of a trie; -1 for the root."""
    tree.check_trie("a suffix link")
    out = np.empty(tree.n_nodes, dtype=np.int32)
    _fast.newest_symbols(tree.parent, tree.symbol, out)
    return out


def joined_ranges(first: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Concatenation of first[i], ..., first[i] + size[i] - 1 for each i."""
    before = np.cumsum(size) - size
    return np.repeat(first - before, size) + np.arange(int(size.sum()))


def nodes_ending_in(
    tree: ContextTree, wanted: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The contexts whose most recent symbol is among the given symbols, level by level.

    (nodes in their order, the most recent symbol of each) for level 1, 2, ... of a
    trie. Level 1 is always in the list, empty if the tree has no such level.
    """
    tree.check_trie("a suffix link")
    level = tree.level(1)
    here = np.flatnonzero(wanted[tree.symbol[level]])
    nodes = (here + level.start).astype(np.int32)
    levels = [(nodes, tree.symbol[nodes])]
    for k in range(2, tree.n_levels):
        level, (above, newest) = tree.level(k), levels[-1]
        # `parent` never falls, so the children of a node are contiguous.
        parent = tree.parent[level]
        first = np.searchsorted(parent, above)
        size = np.searchsorted(parent, above, side="right") - first
        nodes = joined_ranges(first + level.start, size).astype(np.int32)
        levels.append((nodes, np.repeat(newest, size)))
    return levels


def drop_newest(tree: ContextTree) -> np.ndarray:
    """Node of each context of a trie without its most recent symbol.

    0, the root, for the root and for contexts of one symbol; -1 if the shorter context
    is not a node. In a tree of running text only contexts that end the text may lack a
    link.
    """
    tree.check_trie("a suffix link")
    out = np.empty(tree.n_nodes, dtype=np.int32)
    _fast.drop_newest(tree.parent, tree.symbol, tree.child_ptr, out)
    return out


def find_pairs(
    pair_ptr: np.ndarray, target: np.ndarray, nodes: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    """Index of each pair (node, class); -1 without such a pair, or for negative
    numbers.

    Pairs of node n are ``pair_ptr[n]:pair_ptr[n + 1]``, of rising classes `target`.
    """
    out = np.empty(nodes.size, dtype=np.int32)
    _find_fast.find_pairs(pair_ptr, target, nodes, targets, out)
    return out


def pair_pointers(nodes: np.ndarray, n_nodes: int) -> np.ndarray:
    """(n_nodes + 1,) int32: first pair of each node; `nodes` (of pairs) is sorted."""
    return pointers(np.bincount(nodes, minlength=n_nodes))


def extend_pairs(
    tree: ContextTree,
    link: np.ndarray,
    pair_ptr: np.ndarray,
    target: np.ndarray,
    class_of_symbol: np.ndarray,
) -> tuple[np.ndarray, int]:
    """The node "h y" of each pair (h, y), the context after y has followed h.

    It is 0, the root, if "h y" is not a node. Also the number of nodes "h y" with a
    class y that lack the pair (h, y).

    link: ``drop_newest(tree)``, of a trie. class_of_symbol: -1 for a symbol without a
    class.
    """
    out = np.zeros(target.size, dtype=np.int32)
    missing = 0
    if tree.n_nodes > 1:
        # The root has no newest symbol, and is skipped.
        last = class_of_symbol[newest_symbols(tree)]
        missing = _fast.extend_pairs(link, last, pair_ptr, target, out)
    return out, missing


def close_links(tree: ContextTree, link: np.ndarray) -> tuple[ContextTree, np.ndarray]:
    """The smallest trie with the contexts of `tree` in which no `drop_newest` is -1.

    Its contexts are all substrings of contexts of `tree`, which is returned itself if
    it has all links. Nodes keep their order. Also the new node of each node of `tree`.
    link: ``drop_newest(tree)``.
    """
    tree.check_trie("a suffix link")
    missing = link < 0
    if not missing.any():
        return tree, np.arange(tree.n_nodes, dtype=np.int32)
    windows = tree.windows()
    rows, shorter = [windows], windows[missing]
    while shorter.size:
        # Without the newest symbol; the tree adds the suffixes.
        shorter = np.insert(shorter[:, :-1], 0, -1, axis=1)
        shorter = shorter[shorter[:, -1] >= 0]
        rows.append(shorter)
    closed, (index, *_) = tree_of_windows(rows, tree.n_symbols)
    return closed, index


def node_contexts(tree: ContextTree, nodes: np.ndarray, depth: int) -> np.ndarray:
    """(len(nodes), depth) symbols of nodes of one depth, the most recent last."""
    rows = np.empty((nodes.size, depth), dtype=np.int32)
    for j in range(depth):
        rows[:, j] = tree.symbol[nodes]
        nodes = tree.parent[nodes]
    return rows
