"""Tree, pairs and counts of a running text, without windows."""

from __future__ import annotations

import numpy as np

from .._checks import as_ids, check_ids, check_length
from . import _tokens_fast as _fast
from ._pairs import Pairs, pairs_of_arrays
from ._tree import check_size, pointers, tree_of_arrays


def count_tokens(
    tokens: np.ndarray,
    max_depth: int,
    n_symbols: int,
    n_classes: int,
    *,
    skip: int = -1,
    weight: np.ndarray | None = None,
) -> tuple[Pairs, np.ndarray]:
    """Tree, pairs and counts of the contexts of every position of a text.

    The result equals ``ContextTree.from_histories`` and ``Pairs.count`` for all
    positions, with one sort instead of two, and without an array of targets. All
    classes are pairs of the root. Without a token the tree is the root, and all counts
    are 0.

    tokens: -1 before each sentence; the class of a symbol is its id.
    skip: a symbol of contexts that is never predicted (the start mark).
    weight: positive weight of each position that is predicted; None: 1.
    """
    tokens = as_ids("tokens", tokens, 1)
    check_ids("tokens", tokens, -1, n_symbols, "symbol id")
    if tokens.size and tokens[0] >= 0:
        raise ValueError("tokens must begin with -1, the separator before a sentence")
    if weight is None:
        weight = np.empty(0)
    else:
        check_length("weight", weight, tokens.size, "one per token")
    if not tokens.size:  # a text, or a part of one, without a sentence
        tokens = np.full(1, -1, dtype=np.int32)
    separators = np.flatnonzero(tokens < 0).astype(np.int32)
    # A context is no longer than its sentence.
    widest = int(np.diff(separators, append=tokens.size).max()) - 1
    depth = max(0, min(max_depth, widest - 1))
    most = max(n_symbols, n_classes)
    symbol_ptr = pointers(np.bincount(tokens[tokens >= 0], minlength=most))
    first, last = symbol_ptr[skip : skip + 2] if skip >= 0 else (0, 0)
    wrong = np.diff(symbol_ptr[n_classes:]) > 0
    if skip >= n_classes:
        wrong[skip - n_classes] = False
    if wrong.any():
        raise ValueError(
            f"tokens hold {n_classes + int(np.flatnonzero(wrong)[-1])}, which is "
            f"predicted but not a class: n_classes={n_classes}"
        )
    order = _sort(tokens, separators, symbol_ptr[:-1], depth + 1)
    short = np.int8 if depth + 1 <= np.iinfo(np.int8).max else np.int32
    shared = np.empty(order.size, dtype=short)
    length = np.empty(order.size, dtype=short)
    _fast.gram_lengths(tokens, order, depth + 1, shared, length)

    n_nodes = np.zeros(depth + 1, dtype=np.int64)
    n_pairs = np.zeros(depth + 1, dtype=np.int64)
    _fast.count_grams(shared, length, first, last, n_nodes, n_pairs)
    n_nodes[0], n_pairs[0] = 1, n_classes
    # The longest contexts may all be at the end of a sentence, without pairs.
    n_levels = int(np.flatnonzero(n_nodes)[-1]) + 1
    level_ptr = np.concatenate([[0], np.cumsum(n_nodes[:n_levels])])
    pair_ptr = np.concatenate([[0], np.cumsum(n_pairs[:n_levels])])
    size = check_size(level_ptr[-1], "contexts")
    check_size(pair_ptr[-1], "(context, class) pairs")
    parent = np.empty(size, dtype=np.int32)
    symbol = np.empty(size, dtype=np.int32)
    node_at = np.zeros(tokens.size, dtype=np.int32)
    _fast.fill_nodes(
        tokens, order, shared, length, level_ptr,
        np.empty(n_levels, dtype=np.int32), parent, symbol, node_at,
    )  # fmt: skip
    tree = tree_of_arrays(parent, symbol, level_ptr, n_symbols)

    ptr = np.empty(size + 1, dtype=np.int32)
    ptr[0], ptr[-1] = 0, pair_ptr[-1]
    target = np.empty(pair_ptr[-1], dtype=np.int32)
    above = np.empty(pair_ptr[-1], dtype=np.int32)
    # Without weights counts are integers: 32 bits until the text is freed.
    count = np.empty(pair_ptr[-1], dtype=np.float64 if weight.size else np.int32)
    target[:n_classes] = np.arange(n_classes, dtype=np.int32)
    above[:n_classes] = -1
    count[:n_classes] = np.diff(symbol_ptr[: n_classes + 1])
    if weight.size:
        of_symbol = np.bincount(tokens + 1, weight, most + 1)[1:]
        count[:n_classes] = of_symbol[:n_classes]
    if 0 <= skip < n_classes:
        count[skip] = 0
    node = np.empty(order.size, dtype=np.int32)
    _fast.nodes_before(order, node_at, node)
    del node_at
    if not weight.size:
        order = order[:0].copy()
    deepest = [node]
    del node
    _fill_pairs(
        symbol_ptr, weight, order, (shared, length, first, last), tree, deepest,
        pair_ptr, ptr, target, above, count,
    )  # fmt: skip
    del order, shared, length
    pairs = pairs_of_arrays(tree, ptr, target, above)
    return pairs, count.astype(np.float64, copy=False)


def _fill_pairs(
    symbol_ptr, weight, order, runs, tree, deepest,
    pair_ptr, ptr, target, above, count,
):  # fmt: skip
    """The pairs of all levels below the root, into the last four arrays.

    order : empty without weights, which alone need it. deepest : a list of one array,
    the deepest context before each sorted position; the array is removed from the list
    to free memory.
    """
    node = deepest.pop()
    levels = [
        (k, tree.level(k), slice(int(pair_ptr[k]), int(pair_ptr[k + 1])))
        for k in range(1, tree.n_levels)
    ]
    # `above` first has the nodes of the pairs, and then their parents.
    for k, nodes, here in reversed(levels):
        _fast.count_pairs(
            *runs, k, tree.parent, node, nodes.start, here.start, ptr[nodes],
            above[here],
        )  # fmt: skip
    place = np.empty(0, dtype=np.int32)
    for k, nodes, here in levels:
        del node
        node, place_above = above[here].copy(), place
        # The last level is the largest.
        n_placed = here.stop - here.start if k < tree.n_levels - 1 else 0
        place = np.empty(n_placed, dtype=np.int32)
        _fast.emit_pairs(
            symbol_ptr, weight, order, *runs, k, node, place_above, nodes.start,
            here.start, ptr[nodes], target[here], above[here], count[here], place,
        )  # fmt: skip


def _sort(tokens, separators, first, longest):
    """Positions of symbols in the order of their grams; first: of each symbol."""
    n = tokens.size - separators.size
    order, work = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    bucket = first.copy()
    _fast.sort_symbols(tokens, bucket, order)
    for _ in range(1, longest):
        _fast.next_round(tokens, separators, first, bucket, order, work)
        order, work = work, order
    return order
