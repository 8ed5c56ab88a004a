"""Merging of trees over the same symbols, and of their counts.

Nodes and pairs are in canonical order, so one pass over all parts is enough. The result
does not depend on the order of the parts, except for rounding of sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from . import _merge_fast as _merge
from ._pairs import Pairs, pairs_of_arrays
from ._streams_fast import NODE, Streams
from ._tree import ContextTree, check_size, tree_of_arrays

# Bytes of a block of records.
_BLOCK = 1 << 16


def merge_counts(
    parts: Sequence[tuple[Pairs, np.ndarray]],
) -> tuple[Pairs, np.ndarray, list[np.ndarray]]:
    """(pairs, summed counts, the node of each node of each part) of several counts over
    tries.

    Symbols and classes have the same ids in all parts; the numbers of classes may
    differ.
    """
    trees = [pairs.tree for pairs, _ in parts]
    for tree in trees:
        tree.check_trie("a merge")
    n_levels = max(tree.n_levels for tree in trees)
    index = [np.empty(tree.n_nodes, dtype=np.int32) for tree in trees]
    sources: list = []
    n_nodes, n_pairs = np.zeros((2, n_levels), dtype=np.int64)
    for (pairs, count), numbers in zip(parts, index):
        for k in range(n_levels):
            n_nodes[k] += numbers[pairs.tree.level(k)].size
            here = pairs.level(k)
            n_pairs[k] += here.stop - here.start
            sources += [
                node_blocks(pairs, k),
                [np.ascontiguousarray(pairs.target[here])],
                [np.ascontiguousarray(count[here], dtype=np.float64)],
            ]
    # One block of each output has room for all records of the inputs.
    blocks = []
    for k in range(n_levels):
        blocks += [np.empty(n_nodes[k], dtype=NODE)]
        blocks += [
            np.empty(n_pairs[k], dtype=dtype) for dtype in (np.int32, np.float64)
        ]
    for tree, numbers in zip(trees, index):
        blocks += [numbers[tree.level(k)] for k in range(n_levels)]
    out: list[np.ndarray] = []
    first = np.zeros(len(trees) * n_levels, dtype=np.int64)
    streams = Streams(sources, [(out.append, block) for block in blocks])
    _merge.merge(streams, len(trees), n_levels, first, True)
    nodes, targets, totals = (out[j : 3 * n_levels : 3] for j in range(3))
    del streams, blocks, out  # the records are free as soon as they are read
    sizes = [level.size for level in nodes]
    n_symbols = max(tree.n_symbols for tree in trees)
    merged, ptr = read_nodes(
        ([nodes.pop(0)] for _ in sizes), sizes, [0] * n_levels, n_symbols
    )
    target = np.concatenate(targets)
    del targets
    for tree, numbers in zip(trees, index):
        for k in range(1, n_levels):
            numbers[tree.level(k)] += np.int32(merged.level_ptr[k])
    return pairs_of_arrays(merged, ptr, target), np.concatenate(totals), index


def node_blocks(pairs: Pairs, k: int) -> Iterator[np.ndarray]:
    """The nodes of level k as records, block by block."""
    tree, ptr = pairs.tree, pairs.ptr
    here, size = tree.level(k), _BLOCK // NODE.itemsize
    above = tree.level(k - 1).start if k else 0
    for at in range(here.start, here.stop, size):
        last = min(at + size, here.stop)
        block = np.zeros(last - at, dtype=NODE)
        np.subtract(tree.parent[at:last], above, out=block["parent"])
        block["symbol"] = tree.symbol[at:last]
        np.subtract(ptr[at + 1 : last + 1], ptr[at:last], out=block["n_pairs"])
        yield block


def read_nodes(
    levels: Iterable[Iterable[np.ndarray]],
    sizes: Sequence[int],
    first: Sequence[int],
    n_symbols: int,
) -> tuple[ContextTree, np.ndarray]:
    """The tree of the records of each level, block by block, and pointers to its pairs.

    sizes, first: of each level the number of nodes, and the number of the first node,
    from which parents are numbered.
    """
    level_ptr = np.concatenate([[0], np.cumsum(sizes)])
    n, at = check_size(level_ptr[-1], "contexts"), 0
    parent, symbol = np.empty((2, n), dtype=np.int32)
    ptr = np.zeros(n + 1, dtype=np.int32)
    for k, blocks in enumerate(levels):
        above = level_ptr[max(k - 1, 0)] - first[max(k - 1, 0)]
        for block in blocks:
            here = slice(at, at + block.size)
            parent[here] = block["parent"] + above
            symbol[here] = block["symbol"]
            ptr[1:][here] = block["n_pairs"]
            at += block.size
    check_size(ptr.sum(dtype=np.int64), "(context, class) pairs")
    np.cumsum(ptr, out=ptr)
    return tree_of_arrays(parent, symbol, level_ptr, n_symbols), ptr


def renumber_pairs(
    pairs: Pairs,
    class_ids: np.ndarray,
    n_classes: int,
    symbol_ids: np.ndarray,
    n_symbols: int,
) -> Pairs:
    """The same pairs under new ids, which rise, with more classes and symbols.

    The pairs below the root keep their order, and follow the `n_classes` classes at the
    root.
    """
    tree, below = pairs.tree, pairs.target[pairs.n_classes :]
    symbol = np.empty_like(tree.symbol)
    _merge.renumber(tree.symbol, symbol_ids, symbol)
    tree = tree_of_arrays(tree.parent, symbol, tree.level_ptr, n_symbols)
    ptr = pairs.ptr + np.int32(n_classes - pairs.n_classes)
    ptr[0] = 0
    target = np.empty(n_classes + below.size, dtype=np.int32)
    target[:n_classes] = np.arange(n_classes, dtype=np.int32)
    _merge.renumber(below, class_ids, target[n_classes:])
    return pairs_of_arrays(tree, ptr, target)
