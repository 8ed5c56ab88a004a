"""Shards: parts of a tree, each with a range of the contexts.

A context is read from its newest symbol to its oldest. In the order of these sequences,
in which a context precedes all longer contexts that end in it, a shard is the contexts
from one `Prefix` to another. In the canonical order of a tree they are one range of
nodes, and of pairs, on every level: cutting takes slices (`RunFile.range`), and joining
concatenates them.

A shard also has the nodes above its own nodes: the root, and, if a branch is divided,
the contexts with which its first prefix begins. These nodes belong to earlier shards
and are called borrowed: each is the first node of its level. In the same way, the last
nodes of levels may be borrowed by later shards. The pairs of shared nodes have the
numbers of the whole tree in all shards that have the node. Sums over their children are
sums over these shards.

`Pairs.total` sums over the contexts of a tree; in a shard it sums over the contexts of
all shards. Code that uses `total` for sums over the `own` nodes and pairs works both on
a whole tree and on shards, each of which belongs to one thread or machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from . import _tree_fast as _fast
from ._pairs import Pairs, pairs_of_arrays
from ._tree import ContextTree, check_size, tree_of_arrays

# The newest symbols of contexts, the newest first.
Prefix = tuple[int, ...]


class Exchange(Protocol):
    """Sums over the shards of a tree.

    All shards call the same methods in the same order.
    """

    def total(self, x: dict[Prefix, np.ndarray]) -> dict[Prefix, np.ndarray]:
        """The sum of the arrays of the shards, in order, for each name.

        Arrays of a context that some of the shards have are named by the context; the
        name of arrays of all shards is ().
        """


def border(tree: ContextTree, prefix: Prefix, last: bool) -> list[int]:
    """The nodes of a tree above a prefix, the root first.

    They are the first (or the last) nodes of their levels; the tree may lack some.
    """
    nodes: list[int] = []
    for k in range(len(prefix)):
        level = tree.level(k)
        node = level.stop - 1 if last else level.start
        if k and (
            level.start == level.stop
            or tree.symbol[node] != prefix[k - 1]
            or tree.parent[node] != nodes[-1]
        ):
            break
        nodes.append(node)
    return nodes


class PairShard(Pairs):
    """The pairs of some of the contexts of a whole tree, and of those above them.

    bounds: the first of the contexts, and the first after them.
    n_levels: of the whole tree; the last ones may be empty here.
    exchange: computes sums over all shards.
    """

    def __init__(
        self,
        pairs: Pairs,
        bounds: tuple[Prefix, Prefix],
        n_levels: int,
        exchange: Exchange,
    ) -> None:
        tree = pairs.tree
        level_ptr = np.full(n_levels + 1, tree.n_nodes, dtype=np.int64)
        level_ptr[: tree.level_ptr.size] = tree.level_ptr
        tree = tree_of_arrays(tree.parent, tree.symbol, level_ptr, tree.n_symbols)
        self._set(tree, pairs.ptr, pairs.target, pairs._parent)
        self.bounds, self._exchange = bounds, exchange
        above = [border(tree, prefix, bool(i)) for i, prefix in enumerate(bounds)]
        self.borrowed = len(above[0])
        slots = [
            [slice(int(self.ptr[node]), int(self.ptr[node + 1])) for node in nodes]
            for nodes in above
        ]
        self._borrowed_slots = slots[0]
        self._shared = {
            prefix[:k]: slot
            for prefix, some in zip(bounds, slots)
            for k, slot in enumerate(some)
        }

    def total(self, x: Any) -> Any:
        mine = np.atleast_1d(np.asarray(x, dtype=np.float64))
        whole = self._exchange.total({(): mine})[()]
        return whole if np.ndim(x) else float(whole[0])

    def adjust_counts(self, count: np.ndarray) -> np.ndarray:
        # All shards must use the same method, because the other method needs other
        # sums.
        if not _fast.are_whole(count):
            raise ValueError("count: the counts of shards must be whole numbers")
        return super().adjust_counts(count)

    def _own_numbers(self, numbers, overwrite=False):
        # In sums over shards, each number must be counted once.
        numbers = numbers if overwrite else numbers.copy()
        for slot in self._borrowed_slots:
            numbers[slot] = 0.0
        return numbers

    def _add_up(self, numbers):
        # Copies, because a view would keep all numbers in memory.
        found = self._exchange.total(
            {name: numbers[slot].copy() for name, slot in self._shared.items()}
        )
        for name, slot in self._shared.items():
            numbers[slot] = found[name]

    def __reduce__(self):
        raise TypeError("a shard cannot be pickled: it belongs to a running fit")


def shard_bounds(
    prefixes: np.ndarray, sizes: np.ndarray, n_shards: int, n_symbols: int
) -> list[tuple[Prefix, Prefix]]:
    """n_shards ranges of contexts of about equal sizes; some may be empty.

    prefixes: the contexts with which a range may begin, in their order; -1 after the
    last symbol. sizes: of the contexts from each prefix to the next.
    """
    # A prefix is assigned to the shard that contains its middle.
    middle = np.cumsum(sizes) - 0.5 * sizes
    total = max(float(np.sum(sizes)), 1.0)
    owner = np.minimum(middle * n_shards / total, n_shards - 1).astype(np.int64)
    cuts: list[Prefix] = [()]
    for i in np.searchsorted(owner, np.arange(1, n_shards)).tolist():
        if i == len(prefixes):
            cuts.append((n_symbols,))
            continue
        # As short as possible, because contexts above a prefix are in two shards.
        differ = np.flatnonzero(prefixes[i] != prefixes[i - 1]) if i else [0]
        cuts.append(tuple(prefixes[i, : differ[0] + 1].tolist()))
    return list(pairwise([*cuts, (n_symbols,)]))


def most_symbols(n_symbols: int) -> int:
    """Most symbols of a prefix, so that `prefix_keys` fit into 64 bits."""
    return int(62 / np.log2(n_symbols + 1.0))


def prefix_keys(prefixes: np.ndarray, width: int, n_symbols: int) -> np.ndarray:
    """(n,) int64 keys in the order of prefixes, by their first `width` symbols.

    prefixes: (n, any width), the newest symbol first, -1 after the last one.
    """
    key = np.zeros(len(prefixes), dtype=np.int64)
    for k in range(width):
        key *= n_symbols + 1
        if k < prefixes.shape[1]:
            key += prefixes[:, k] + 1
    return key


def prefixes_of_keys(keys: np.ndarray, width: int, n_symbols: int) -> np.ndarray:
    """(n, width) the prefixes of `prefix_keys`."""
    powers = (n_symbols + 1) ** np.arange(width - 1, -1, -1, dtype=np.int64)
    return keys[:, np.newaxis] // powers % (n_symbols + 1) - 1


class ShardPlaces:
    """The positions of the nodes and pairs of shards in the whole tree, and its
    sizes."""

    def __init__(self, sizes: list[tuple[list[int], list[int]]]) -> None:
        n_levels = max(len(nodes) for nodes, _ in sizes)
        nodes, pairs = (
            np.array([one[i] + [0] * (n_levels - len(one[i])) for one in sizes]).T
            for i in (0, 1)
        )
        self.n_levels = max(1, int(np.count_nonzero(nodes.sum(axis=1))))
        nodes, pairs = nodes[: self.n_levels], pairs[: self.n_levels]
        # First node and first pair of each shard, level by level.
        self._start = (np.cumsum(nodes) - nodes.ravel()).reshape(nodes.shape)
        self._pair_start = (np.cumsum(pairs) - pairs.ravel()).reshape(nodes.shape)
        self.level_ptr = np.concatenate([[0], np.cumsum(nodes.sum(axis=1))])
        self.n_nodes = check_size(nodes.sum(), "contexts")
        self.n_pairs = check_size(pairs.sum(), "(context, class) pairs")

    def array_sizes(self) -> dict[str, int]:
        """Sizes of the arrays of `LevelSlices.arrays` in the whole tree."""
        n = self.n_nodes
        return {"parent": n, "symbol": n, "ptr": n + 1, "target": self.n_pairs}

    def ranges(self, shard: int, pairs: Pairs) -> Iterator[LevelSlices]:
        """The places of the own nodes and pairs of a shard, level by level."""
        # The borrowed node of a level precedes the own nodes, and is the last node of
        # the earlier shards, so all nodes of a level are shifted by the same number.
        start = [*self._start[:, shard].tolist(), self.n_nodes]
        moves = [at - pairs.own(k)[0].start for k, at in enumerate(start)]
        for k in range(min(pairs.tree.n_levels, self.n_levels)):
            here, slots = pairs.own(k)
            at, first = start[k], int(self._pair_start[k, shard])
            yield LevelSlices(
                here,
                slice(at, at + here.stop - here.start),
                slots,
                slice(first, first + slots.stop - slots.start),
                moves[k - 1] if k else 0,
                moves[k + 1],
            )


class LevelSlices(NamedTuple):
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
    """(own nodes, own pairs) of each level."""
    spans = [pairs.own(k) for k in range(pairs.tree.n_levels)]
    return [a.stop - a.start for a, _ in spans], [b.stop - b.start for _, b in spans]


class Joined:
    """The whole tree of some shards, in their order, and the places of their nodes and
    pairs.
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
