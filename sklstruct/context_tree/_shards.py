"""Shards: parts of a tree, each with some of the branches below a root.

All contexts that end in the same symbol are one branch below the root, and no sum over
contexts crosses branches except at the root's pairs. A shard is a run of branches, in
the order of their symbols, below a root that has all classes. In the canonical order a
run of branches is one range of nodes, and of pairs, on every level: cutting takes
slices (`Run.branches`), and joining concatenates them.

`Pairs.total` sums over the branches; in a shard it sums over those of all shards. Every
shard has the same pairs of the root. Code that uses `total` for such sums works on a
whole tree and on shards, each of which belongs to one thread or machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from . import _tree_fast as _fast
from ._pairs import Pairs, pairs_of_arrays
from ._tree import check_size, tree_of_arrays


class Exchange(Protocol):
    """Sums over the shards of a tree.

    All shards call the same methods in the same order.
    """

    def total(self, x: np.ndarray) -> np.ndarray:
        """The sum of the arrays of all shards, in the order of the shards."""


class PairShard(Pairs):
    """The pairs of some branches, below the root of the whole tree.

    Parameters
    ----------
    pairs : Pairs
        Of the branches.

    n_levels : int
        Number of levels of the whole tree; the last ones may be empty here.

    exchange : Exchange
        Computes sums over all shards.
    """

    def __init__(self, pairs: Pairs, n_levels: int, exchange: Exchange) -> None:
        tree = pairs.tree
        level_ptr = np.full(n_levels + 1, tree.n_nodes, dtype=np.int64)
        level_ptr[: tree.level_ptr.size] = tree.level_ptr
        tree = tree_of_arrays(tree.parent, tree.symbol, level_ptr, tree.n_symbols)
        self._set(tree, pairs.ptr, pairs.target, pairs._parent)
        self._exchange = exchange

    def total(self, x: Any) -> Any:
        whole = self._exchange.total(np.atleast_1d(np.asarray(x, dtype=np.float64)))
        return whole if np.ndim(x) else float(whole[0])

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


def shard_bounds(sizes: np.ndarray, n_shards: int) -> list[tuple[int, int]]:
    """n_shards ranges of symbols of about equal sums of `sizes`; some may be empty."""
    # A branch goes to the shard that holds its middle.
    middle = np.cumsum(sizes) - 0.5 * sizes
    total = max(float(np.sum(sizes)), 1.0)
    owner = np.minimum(middle * n_shards / total, n_shards - 1).astype(np.int64)
    cuts = np.searchsorted(owner, np.arange(n_shards + 1))
    return [(int(a), int(b)) for a, b in pairwise(cuts)]


class ShardPlaces:
    """The places of the nodes and pairs of shards in the whole tree.

    Parameters
    ----------
    sizes : list of (list of int, list of int)
        The `level_sizes` of each shard, in the order of their branches.

    Attributes
    ----------
    n_nodes, n_pairs, n_levels : int
        Sizes of the whole tree.
    """

    def __init__(self, sizes: list[tuple[list[int], list[int]]]) -> None:
        n_levels = max(len(nodes) for nodes, _ in sizes)
        nodes, pairs = (
            np.array([one[i] + [0] * (n_levels - len(one[i])) for one in sizes]).T
            for i in (0, 1)
        )
        nodes[0, 1:] = pairs[0, 1:] = 0  # one root
        self.n_levels = max(1, int(np.count_nonzero(nodes.sum(axis=1))))
        nodes, pairs = nodes[: self.n_levels], pairs[: self.n_levels]
        # First node and first pair of each shard, level by level.
        self._start = (np.cumsum(nodes) - nodes.ravel()).reshape(nodes.shape)
        self._pair_start = (np.cumsum(pairs) - pairs.ravel()).reshape(nodes.shape)
        self.level_ptr = np.concatenate([[0], np.cumsum(nodes.sum(axis=1))])
        self.n_nodes = check_size(nodes.sum(), "contexts")
        self.n_pairs = check_size(pairs.sum(), "(context, class) pairs")

    def array_sizes(self) -> dict[str, int]:
        """Sizes of the arrays of `Place.arrays` in the whole tree."""
        n = self.n_nodes
        return {"parent": n, "symbol": n, "ptr": n + 1, "target": self.n_pairs}

    def ranges(self, shard: int, pairs: Pairs) -> Iterator[Place]:
        """The places of a shard, level by level; the first shard has the root."""
        tree, start = pairs.tree, self._start[:, shard]
        below = [*start[1:].tolist(), self.n_nodes]
        for k in range(int(shard > 0), min(tree.n_levels, self.n_levels)):
            here, slots = tree.level(k), pairs.level(k)
            at, first = int(start[k]), int(self._pair_start[k, shard])
            yield Place(
                here,
                slice(at, at + here.stop - here.start),
                slots,
                slice(first, first + slots.stop - slots.start),
                int(start[k - 1] - tree.level_ptr[k - 1]) if k > 1 else 0,
                below[k] - int(tree.level_ptr[k + 1]),
            )


class Place(NamedTuple):
    """The nodes and pairs of a level of a shard, and their places in the whole tree."""

    nodes: slice
    nodes_into: slice
    pairs: slice
    pairs_into: slice
    up: int  # from a parent here to that in the whole tree
    down: int  # from a child here to that in the whole tree

    def arrays(self, pairs: Pairs) -> Iterator[tuple[str, slice, np.ndarray]]:
        """(name, place, entries) of the arrays of the whole tree."""
        tree, first = pairs.tree, pairs.ptr[self.nodes.start]
        yield "parent", self.nodes_into, tree.parent[self.nodes] + np.int32(self.up)
        yield "symbol", self.nodes_into, tree.symbol[self.nodes]
        ptr = pairs.ptr[self.nodes] + np.int32(self.pairs_into.start - first)
        yield "ptr", self.nodes_into, ptr
        yield "target", self.pairs_into, pairs.target[self.pairs]


def level_sizes(pairs: Pairs) -> tuple[list[int], list[int]]:
    """(nodes, pairs) of each level."""
    levels = range(pairs.tree.n_levels)
    spans = [(pairs.tree.level(k), pairs.level(k)) for k in levels]
    return [a.stop - a.start for a, _ in spans], [b.stop - b.start for _, b in spans]


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
        places = ShardPlaces([level_sizes(pairs) for pairs in shards])
        # The shards are not kept: they take as much memory as the whole.
        self._ranges = [list(places.ranges(s, p)) for s, p in enumerate(shards)]
        whole = {
            name: np.empty(size, dtype=np.int32)
            for name, size in places.array_sizes().items()
        }
        whole["ptr"][-1] = places.n_pairs
        for pairs, ranges in zip(shards, self._ranges):
            for place in ranges:
                for name, into, part in place.arrays(pairs):
                    whole[name][into] = part
        tree = tree_of_arrays(
            whole["parent"], whole["symbol"], places.level_ptr,
            shards[0].tree.n_symbols,
        )  # fmt: skip
        self.pairs = pairs_of_arrays(tree, whole["ptr"], whole["target"])

    def of_pairs(self, numbers: list[np.ndarray]) -> np.ndarray:
        """Numbers of the pairs of the whole tree, from those of each shard."""
        out = np.empty(self.pairs.n_pairs, dtype=numbers[0].dtype)
        for part, ranges in zip(numbers, self._ranges):
            for place in ranges:
                out[place.pairs_into] = part[place.pairs]
        return out

    def of_nodes(self, numbers: list[np.ndarray]) -> np.ndarray:
        """Numbers of the nodes of the whole tree, from those of each shard."""
        out = np.empty(self.pairs.tree.n_nodes, dtype=numbers[0].dtype)
        for part, ranges in zip(numbers, self._ranges):
            for place in ranges:
                out[place.nodes_into] = part[place.nodes]
        return out
