"""Shards: parts of a tree, each with some of the branches below a root.

All contexts that end in the same symbol are one branch below the root, and no sum over
contexts crosses branches except at the root's pairs. A shard is a run of branches, in
the order of their symbols, below a root that has all classes. In the canonical order a
run of branches is one range of nodes, and of pairs, on every level: cutting takes
slices, and joining concatenates them.

`Pairs.total` sums over the branches; in a shard it sums over those of all shards. Every
shard has the same pairs of the root. Code that uses `total` for such sums works on a
whole tree and on shards, each of which belongs to one thread or machine.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from . import _tree_fast as _fast
from ._pairs import Pairs, pairs_of_arrays
from ._tree import check_size, tree_of_arrays


class Exchange(Protocol):
    """Sums and maxima over the shards of a tree.

    All shards call the same methods in the same order.
    """

    def total(self, x: np.ndarray) -> np.ndarray:
        """The sum of the arrays of all shards, in the order of the shards."""

    def largest(self, x: np.ndarray) -> np.ndarray:
        """The entry-wise maximum of the arrays of all shards."""


class PairShard(Pairs):
    """The pairs of some branches, below the root of the whole tree.

    Parameters
    ----------
    pairs : Pairs
        Of the branches.

    n_levels : int
        Number of levels of the whole tree; the last ones may be empty here.

    exchange : Exchange
        Computes sums and maxima over all shards.
    """

    def __init__(self, pairs: Pairs, n_levels: int, exchange: Exchange) -> None:
        tree = pairs.tree
        level_ptr = np.full(n_levels + 1, tree.n_nodes, dtype=np.int64)
        level_ptr[: tree.level_ptr.size] = tree.level_ptr
        tree = tree_of_arrays(tree.parent, tree.symbol, level_ptr, tree.n_symbols)
        self._set(tree, pairs.ptr, pairs.target, pairs.parent)
        self._exchange = exchange

    whole = False

    def total(self, x: Any) -> Any:
        whole = self._exchange.total(np.atleast_1d(np.asarray(x, dtype=np.float64)))
        return whole if np.ndim(x) else float(whole[0])

    def largest(self, x: np.ndarray) -> np.ndarray:
        return self._exchange.largest(np.asarray(x, dtype=np.float64))

    def terminal_counts(self, count: np.ndarray) -> np.ndarray:
        terminal = super().terminal_counts(count)
        root = slice(0, self.n_classes)
        # Terminal counts of the root: its counts less those of the level below.
        below = self.total(count[root] - terminal[root])
        terminal[root] = count[root] - below
        # Sums of fractional weights cancel only up to rounding.
        terminal[root][terminal[root] < 1e-12 * count[root]] = 0.0
        return terminal

    def adjusted_counts(self, count: np.ndarray) -> np.ndarray:
        adjusted = self.terminal_counts(count)
        distinct = np.zeros(self.n_pairs)
        _fast.add_distinct(self.parent, self._beside("count", count), distinct)
        root = slice(0, self.n_classes)
        distinct[root] = self.total(distinct[root])
        adjusted += distinct
        return adjusted

    def adjust_counts(self, count: np.ndarray) -> np.ndarray:
        self._beside("count", count)
        if self.total(float(not _fast.are_whole(count))):
            return self.adjusted_counts(count)
        root = slice(0, self.n_classes)
        before = count[root].copy()
        _fast.adjust_whole(self.parent, count)
        # Every shard adds the changes of all shards to the root's counts.
        count[root] = before + self.total(count[root] - before)
        return count

    def __reduce__(self):
        raise TypeError("a shard cannot be pickled: it belongs to a running fit")


def pairs_by_symbol(pairs: Pairs) -> np.ndarray:
    """(n_symbols,) number of pairs in the branch of each symbol."""
    tree = pairs.tree
    tree.check_trie("pairs_by_symbol")
    first = np.arange(*tree.level_ptr[1:3]) if tree.n_levels > 1 else np.arange(0)
    sizes = np.zeros(first.size, dtype=np.int64)
    start, stop = first, first + 1
    for _ in range(1, tree.n_levels):
        sizes += pairs.ptr[stop].astype(np.int64) - pairs.ptr[start]
        start, stop = tree.child_ptr[start], tree.child_ptr[stop]
    out = np.zeros(tree.n_symbols, dtype=np.int64)
    out[tree.symbol[first]] = sizes
    return out


def shard_bounds(sizes: np.ndarray, n_shards: int) -> list[tuple[int, int]]:
    """n_shards ranges of symbols of about equal sums of `sizes`; some may be empty."""
    # A branch goes to the shard that holds its middle.
    middle = np.cumsum(sizes) - 0.5 * sizes
    total = max(float(np.sum(sizes)), 1.0)
    owner = np.minimum(middle * n_shards / total, n_shards - 1).astype(np.int64)
    cuts = np.searchsorted(owner, np.arange(n_shards + 1))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


def cut_pairs(
    pairs: Pairs, count: np.ndarray, first: int, last: int
) -> tuple[Pairs, np.ndarray]:
    """The branches of a range of symbols, below a root with all its counts.

    Parameters
    ----------
    pairs : Pairs
        Over a trie.

    count : float64 ndarray of shape (n_pairs,)
        The counts of the pairs.

    first, last : int
        The first symbol of the range on the first level, and the one after the last.

    Returns
    -------
    pairs, count : Pairs, ndarray
        Of the range.
    """
    pairs.tree.check_trie("cut_pairs")
    tree = pairs.tree
    lo, hi = [0], [1]
    if tree.n_levels > 1:
        here = tree.level(1)
        symbol = tree.symbol[here]
        lo.append(here.start + int(np.searchsorted(symbol, first)))
        hi.append(here.start + int(np.searchsorted(symbol, last)))
    while lo[-1] < hi[-1] and len(lo) < tree.n_levels:
        lo.append(int(tree.child_ptr[lo[-1]]))
        hi.append(int(tree.child_ptr[hi[-1]]))
    if lo[-1] == hi[-1]:
        del lo[-1], hi[-1]
    level_ptr = np.concatenate([[0], np.cumsum(np.subtract(hi, lo))]).astype(np.int64)
    ranges = list(zip(lo, hi))
    pair_ranges = [(int(pairs.ptr[a]), int(pairs.ptr[b])) for a, b in ranges]
    starts = np.concatenate([[0], np.cumsum([b - a for a, b in pair_ranges])])
    parent, ptr = [], [np.zeros(1, dtype=np.int32)]
    for k, ((a, b), (p, _)) in enumerate(zip(ranges, pair_ranges)):
        up = level_ptr[k - 1] - lo[k - 1] if k else 0
        parent.append(tree.parent[a:b] + np.int32(up))
        ptr.append(pairs.ptr[a + 1 : b + 1] + np.int32(starts[k] - p))
    part = tree_of_arrays(
        np.concatenate(parent),
        np.concatenate([tree.symbol[a:b] for a, b in ranges]),
        level_ptr,
        tree.n_symbols,
    )
    return (
        pairs_of_arrays(
            part,
            np.concatenate(ptr),
            np.concatenate([pairs.target[p:q] for p, q in pair_ranges]),
        ),
        np.concatenate([count[p:q] for p, q in pair_ranges]),
    )


class Joined:
    """The whole tree of some shards, and the places of their nodes and pairs in it.

    Parameters
    ----------
    shards : list of Pairs
        In the order of their branches.

    Attributes
    ----------
    pairs : Pairs
        Of the whole tree.
    """

    def __init__(self, shards: list[Pairs]) -> None:
        trees = [pairs.tree for pairs in shards]
        n_levels = max(tree.n_levels for tree in trees)
        sizes = np.zeros((n_levels, len(shards)), dtype=np.int64)
        pair_sizes = np.zeros_like(sizes)
        for s, pairs in enumerate(shards):
            for k in range(pairs.tree.n_levels):
                here, slots = pairs.tree.level(k), pairs.level(k)
                sizes[k, s] = here.stop - here.start
                pair_sizes[k, s] = slots.stop - slots.start
        sizes[0, 1:] = pair_sizes[0, 1:] = 0  # one root
        while n_levels > 1 and not sizes[n_levels - 1].any():
            n_levels -= 1
        sizes, pair_sizes = sizes[:n_levels], pair_sizes[:n_levels]
        # First node and first pair of each shard, level by level.
        start = (np.cumsum(sizes) - sizes.ravel()).reshape(sizes.shape)
        pair_start = (np.cumsum(pair_sizes) - pair_sizes.ravel()).reshape(sizes.shape)
        n_nodes = check_size(sizes.sum(), "contexts")
        n_pairs = check_size(pair_sizes.sum(), "(context, class) pairs")
        # The shards are not kept: they take as much memory as the whole.
        self._ranges = [
            list(_ranges(pairs, start[:, s], pair_start[:, s], n_levels, s > 0))
            for s, pairs in enumerate(shards)
        ]

        parent = np.empty(n_nodes, dtype=np.int32)
        symbol = np.empty(n_nodes, dtype=np.int32)
        ptr = np.empty(n_nodes + 1, dtype=np.int32)
        target = np.empty(n_pairs, dtype=np.int32)
        ptr[-1] = n_pairs
        for s, (pairs, tree) in enumerate(zip(shards, trees)):
            for k, here, nodes, slots, into in self._ranges[s]:
                up = start[k - 1, s] - tree.level_ptr[k - 1] if k > 1 else 0
                parent[nodes] = tree.parent[here] + np.int32(up)
                symbol[nodes] = tree.symbol[here]
                first = pairs.ptr[here.start]
                ptr[nodes] = pairs.ptr[here] + np.int32(into.start - first)
                target[into] = pairs.target[slots]
        level_ptr = np.concatenate([[0], np.cumsum(sizes.sum(axis=1))])
        whole = tree_of_arrays(parent, symbol, level_ptr, trees[0].n_symbols)
        self.pairs = pairs_of_arrays(whole, ptr, target)

    def of_pairs(self, numbers: list[np.ndarray]) -> np.ndarray:
        """Numbers of the pairs of the whole tree, from those of each shard."""
        out = np.empty(self.pairs.n_pairs, dtype=numbers[0].dtype)
        for s, part in enumerate(numbers):
            for _, _, _, slots, into in self._ranges[s]:
                out[into] = part[slots]
        return out

    def of_nodes(self, numbers: list[np.ndarray]) -> np.ndarray:
        """Numbers of the nodes of the whole tree, from those of each shard."""
        out = np.empty(self.pairs.tree.n_nodes, dtype=numbers[0].dtype)
        for s, part in enumerate(numbers):
            for _, here, nodes, _, _ in self._ranges[s]:
                out[nodes] = part[here]
        return out


def _ranges(pairs, start, pair_start, n_levels, first):
    """(level, nodes of a shard, their place, its pairs, their place), from level
    `first` on: the root is that of the first shard."""
    for k in range(int(first), min(pairs.tree.n_levels, n_levels)):
        here, slots = pairs.tree.level(k), pairs.level(k)
        nodes = slice(start[k], start[k] + here.stop - here.start)
        into = slice(pair_start[k], pair_start[k] + slots.stop - slots.start)
        yield k, here, nodes, slots, into
