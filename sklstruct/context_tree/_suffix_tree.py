"""The collapsed (suffix) tree of a trie, and the trie of a collapsed tree."""

from __future__ import annotations

import numpy as np

from . import _tree_fast as _fast
from ._histories import Histories
from ._pairs import Pairs, pairs_of_arrays
from ._tokens_fast import sort_symbols
from ._tree import ContextTree, check_samples, check_size, pointers, tree_of_arrays


def suffix_tree(histories: Histories, n_symbols: int) -> tuple[ContextTree, np.ndarray]:
    """Collapsed tree of the contexts of the samples, and the deepest node of each
    sample.

    A context and its only extension are one node when every occurrence of the context
    has that extension; `ContextTree.from_histories` gives the trie.
    """
    order, lcp = sort_histories(histories, n_symbols)
    flat, offset, length = histories
    n = offset.size
    capacity = 2 * n + 1
    check_size(capacity, "contexts")
    parent, depth, first = (np.empty(capacity, dtype=np.int32) for _ in range(3))
    terminal = np.empty(n, dtype=np.int32)
    stack = np.empty((2, int(length.max(initial=0)) + 1), dtype=np.int32)
    n_nodes = _fast.collapse_nodes(
        length, order, lcp, stack[0], stack[1], parent, depth, first, terminal
    )
    parent, depth, first = parent[:n_nodes], depth[:n_nodes], first[:n_nodes]
    level = np.empty(n_nodes, dtype=np.int32)
    by_depth = np.empty(n_nodes, dtype=np.int32)
    sort_symbols(depth, pointers(np.bincount(depth)), by_depth)
    _fast.node_levels(parent, by_depth, level)
    canonical = np.lexsort((first, level))
    rank = np.empty(n_nodes, dtype=np.int32)
    rank[canonical] = np.arange(n_nodes, dtype=np.int32)
    level_ptr = np.concatenate([[0], np.cumsum(np.bincount(level))])
    old_parent = parent[canonical]
    new_parent = np.where(old_parent < 0, np.int32(-1), rank[old_parent])
    above = np.where(old_parent < 0, -1, depth[old_parent])  # root: span 1
    span = (depth[canonical] - above).astype(np.int32)
    sample = order[first[canonical]] if n else np.zeros(1, dtype=np.int32)
    position = (offset[sample] if n else np.zeros(1, np.int64)) - above - 1
    position[0] = 0  # the root adds no symbol
    symbol = np.full(n_nodes, -1, dtype=np.int32)
    symbol[1:] = flat[position[1:]]
    # The text needs less memory than the edges if windows overlap.
    if flat.size <= span.sum():
        text, pos = flat.copy(), position
    else:
        stop = np.cumsum(span, dtype=np.int64)
        owner = np.repeat(np.arange(n_nodes), span)
        back = stop[owner] - 1 - np.arange(stop[-1])  # span - 1 ... 0
        source = position[owner] - back
        source[0] = 0
        text = flat[source] if flat.size else np.zeros(1, np.int32)
        pos = stop - 1
    tree = tree_of_arrays(
        new_parent,
        symbol,
        level_ptr,
        n_symbols,
        span=span,
        edges=(text, np.ascontiguousarray(pos, dtype=np.int64)),
    )
    return tree, rank[terminal]


def find_histories(
    tree: ContextTree, histories: Histories
) -> tuple[np.ndarray, np.ndarray]:
    """Deepest known node of each sample, of a trie or a collapsed tree.

    Also the number of contexts merged in the node that were matched; 1 in a trie.
    """
    histories.check(tree.n_symbols)
    flat, offset, length = histories
    node = np.empty(offset.size, dtype=np.int32)
    matched = np.empty(offset.size, dtype=np.int32)
    text, pos = tree.edge_text, tree.edge_pos
    if tree.span is None:
        text, pos = np.zeros(1, np.int32), np.zeros(tree.n_nodes, np.int64)
    _fast.find_collapsed(
        flat, offset, length, tree.symbol, tree.child_ptr, tree.root_child,
        tree.spans(), text, pos, node, matched,
    )  # fmt: skip
    return node, matched


def sort_histories(
    histories: Histories, n_symbols: int
) -> tuple[np.ndarray, np.ndarray]:
    """(order, lcp): the samples sorted by context, most recent symbol first, and the
    number of symbols that each shares with the one before it."""
    histories.check(n_symbols)
    flat, offset, length = histories
    n = offset.size
    check_samples(n)
    order, place, lcp = (np.arange(n, dtype=np.int32) for _ in range(3))
    for k in range(histories.depth, 0, -1):
        symbol = histories.column(k).take(order) + 1
        sort_symbols(symbol, pointers(np.bincount(symbol)), place)
        order = order.take(place)
    _fast.common_prefixes(flat, offset, length, order, lcp)
    return order, lcp


def expand_tree(tree: ContextTree) -> tuple[ContextTree, np.ndarray]:
    """The trie of a collapsed tree; the tree itself for a trie.

    Suffix j (1 ... ``span[n]``) of node n is the trie's node ``index[offset[n] + j -
    1]`` of the second result, with `offset` the exclusive running sum of the spans.
    """
    if tree.span is None:
        return tree, np.arange(tree.n_nodes, dtype=np.int32)
    if tree.expanded is None:
        tree.expanded = _expand(tree)
    return tree.expanded


def _expand(tree):
    span, depth = tree.span, tree.depths()
    start = depth - span
    offset = np.cumsum(span, dtype=np.int64) - span
    size = check_size(int(span.sum(dtype=np.int64)), "contexts")
    parent, source = (np.full(size, -1, dtype=np.int32) for _ in range(2))
    rank, index = (np.zeros(size, dtype=np.int32) for _ in range(2))
    newest = np.zeros(tree.n_nodes, dtype=np.int32)  # deepest suffix so far
    level_ptr = [0, 1]
    source[0] = 0
    for d in range(1, int(depth.max()) + 1):
        here = np.flatnonzero((start < d) & (d <= depth)).astype(np.int32)
        first = start[here] + 1 == d
        above = newest[np.where(first, tree.parent[here], here)]
        # Siblings come in the order of their nodes: sorted by symbol.
        order = np.argsort(above, kind="stable")
        here, above = here[order], above[order]
        ids = slice(level_ptr[-1], level_ptr[-1] + here.size)
        parent[ids], source[ids] = above, here
        rank[ids] = d - start[here] - 1
        newest[here] = np.arange(ids.start, ids.stop, dtype=np.int32)
        index[offset[here] + rank[ids]] = newest[here]
        level_ptr.append(ids.stop)
    symbol = tree.symbol[source].copy()
    if tree.edge_text is not None:
        symbol[1:] = tree.edge_text[tree.edge_pos[source[1:]] - rank[1:]]
    trie = tree_of_arrays(
        parent, symbol, np.asarray(level_ptr, np.int64), tree.n_symbols
    )
    return trie, index


def expand_pairs(pairs: Pairs) -> tuple[Pairs, np.ndarray]:
    """The pairs of the trie of `expand_tree`: every merged context has the same ones.

    `pairs` itself where the tree is a trie. Also the pair that each is merged in:
    numbers of the pairs become ``numbers[source]``.
    """
    tree = pairs.tree
    if tree.span is None:
        return pairs, np.arange(pairs.n_pairs, dtype=np.int32)
    trie, index = expand_tree(tree)
    # The node of the collapsed tree that each node of its trie is merged in.
    node = np.empty(index.size, dtype=np.int32)
    node[index] = np.repeat(np.arange(tree.n_nodes, dtype=np.int32), tree.spans())
    sizes = np.diff(pairs.ptr)[node]
    check_size(int(sizes.sum(dtype=np.int64)), "(context, class) pairs")
    ptr = pointers(sizes)
    within = np.arange(ptr[-1], dtype=np.int32) - np.repeat(ptr[:-1], sizes)
    source = np.repeat(pairs.ptr[node], sizes) + within
    # Parent of the first suffix of a node: the last suffix of its parent node, by the
    # parent pairs. Parent of another suffix: the suffix before, pair by pair.
    is_first = np.ones(trie.n_nodes, dtype=bool)
    is_first[1:] = node[1:] != node[trie.parent[1:]]
    above = pairs.ptr[tree.parent[node]]  # of the root: not used
    up = np.where(
        np.repeat(is_first, sizes), pairs.parent[source] - np.repeat(above, sizes),
        within,
    )  # fmt: skip
    parent = (np.repeat(ptr[trie.parent], sizes) + up).astype(np.int32, copy=False)
    parent[: pairs.n_classes] = -1
    return pairs_of_arrays(trie, ptr, pairs.target[source], parent), source
