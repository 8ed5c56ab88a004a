"""An ARPA file from the shards of a model, none of which has all of it.

A shard has the contexts that end in some symbols (see `context_tree._shards`). In the
canonical order the n-grams of an order are those of the first shard, then those of the
second, and so on: a section of the file is the lines of one shard after the other. One
column is elsewhere: the back-off weight in the line of "h y" belongs to the context
"h y", which ends in y, and the line to the context h. So each shard first gives the
weights of its contexts "h y" to the shard of h, which finds the pair (h, y). The shards
do so by files in a folder that all see, and so they do with their lines, as the place
of a line is known when all lines before it are made. In the end each shard copies its
lines into the file.

The cost is one look-up for each context, one transfer of O(contexts) numbers, and the
room of the file a second time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from .._files import open_there, packing
from ..context_tree import ContextTree, Pairs, find_pairs
from ..context_tree._links import joined_ranges, node_contexts
from ..context_tree._shards import level_sizes
from ..symbols import Labels
from ._arpa_write import (
    NgramRows,
    check_precision,
    format_rows,
    log10_backoffs,
    log10_probs,
    marks_of_unigrams,
)
from ._words import FileWords, check_backoffs

# Contexts, and pairs, of a piece: a few MB.
_MOST_WEIGHTS = 1 << 18
_MOST_LINES = 1 << 17
_COPIED = 1 << 20  # bytes

# Contexts with their numbers, the oldest symbol first: (n, k) and (n,) of one length k.
Weights = tuple[np.ndarray, np.ndarray]
# Bytes, or first bytes, of the sections of each shard.
Sizes = list[list[int]]


class NGramPlan:
    """The facts that all shards of a file of n-grams need.

    Parameters
    ----------
    labels : Labels
        Of the model.

    bounds : list of (int, int)
        The newest symbols of the contexts of each shard.

    n_levels : int
        Number of levels of the whole tree.

    Raises
    ------
    ValueError
        If a symbol cannot be written.
    """

    def __init__(
        self, labels: Labels, bounds: list[tuple[int, int]], n_levels: int
    ) -> None:
        self.words = FileWords(labels)
        self.bounds = bounds
        self.order = max(2, n_levels)

    def counts(
        self, n_rows: Sequence[list[int]], listed: Sequence[np.ndarray]
    ) -> list[int]:
        """n-grams of each order, from what `ShardNGrams.give` has returned."""
        counts = [sum(some) for some in zip(*n_rows)]
        counts[0] += sum(words.size for words in listed)
        counts[0] += self.marks(listed).node.size
        return counts

    def marks(self, listed: Sequence[np.ndarray]) -> NgramRows:
        """The unigrams that no shard has; listed: words they have besides the
        classes."""
        found = np.concatenate(listed)
        left = [
            mark
            for mark in (self.words.special["start"], self.words.special["end"])
            if mark >= self.words.n_classes and mark not in found
        ]
        return self.unigrams(np.array(left, dtype=np.int32), np.zeros(len(left)))

    def unigrams(self, words: np.ndarray, log_backoff: np.ndarray) -> NgramRows:
        """Unigrams of words that are never predicted."""
        log_prob = marks_of_unigrams(self.words, words)
        return NgramRows(np.zeros_like(words), words, log_prob, log_backoff)


class ArpaPlan(NGramPlan):
    """The facts that all shards of an ARPA file need.

    Parameters
    ----------
    labels, bounds, n_levels
        As of `NGramPlan`.

    path : str
        The file, whose suffix says how it is packed.

    precision : int, default=None
        As of `write`.
    """

    def __init__(
        self,
        labels: Labels,
        bounds: list[tuple[int, int]],
        n_levels: int,
        path: str,
        precision: int | None = None,
    ) -> None:
        check_precision(precision)
        super().__init__(labels, bounds, n_levels)
        self.precision = precision
        self.path = path

    def lines(self, rows: NgramRows) -> bytes:
        """The lines of some unigrams."""
        root = ContextTree(np.array([-1]), np.array([-1]))
        blocks = format_rows(rows, self.words, root, self.order, self.precision)
        return b"".join(bytes(block) for block in blocks)

    def of_shard(
        self, shard: int, pairs: Pairs, log_prob: np.ndarray, log_backoff: np.ndarray
    ) -> ArpaShard:
        """The lines of a shard."""
        return ArpaShard(self, shard, pairs, log_prob, log_backoff)


class ShardNGrams:
    """The n-grams of one shard, for a file.

    Parameters
    ----------
    plan : NGramPlan
        The file.

    shard : int
        Number of the shard; the first has the unigrams.

    pairs, log_prob, log_backoff
        The shard, and its numbers.

    Raises
    ------
    ValueError
        If a suffix of an n-gram is missing, or a weight is beyond what a file can hold.
    """

    # The number of an n-gram that is not a context.
    _absent: np.generic = np.float64(0.0)

    def __init__(
        self,
        plan: Any,
        shard: int,
        pairs: Pairs,
        log_prob: np.ndarray,
        log_backoff: np.ndarray,
    ) -> None:
        check_backoffs(log_backoff)
        if (pairs.parent[pairs.n_classes :] < 0).any():
            raise self._not_closed()
        self._plan, self._shard, self._pairs = plan, shard, pairs
        self._log_prob, self._log_backoff = log_prob, log_backoff
        self._class = plan.words.class_of_symbol
        tree = pairs.tree
        # Below the highest order all n-grams have a weight.
        below = min(tree.n_levels, plan.order - 1)
        self._weight = np.full(pairs.level(below - 1).stop, self._absent)
        first = np.arange(*tree.level_ptr[1:3]) if tree.n_levels > 1 else np.arange(0)
        self._never = first[self._class[tree.symbol[first]] < 0].astype(np.int32)
        if self._children(self._never).size:
            raise self._not_closed()  # a start mark inside a context

    @staticmethod
    def _not_closed():
        return ValueError(
            "model: the context or the suffix of an n-gram is missing, which only the "
            "whole model can be given; save compute(), or a native file"
        )

    def _children(self, nodes):
        """The children of nodes in rising order, in rising order."""
        ptr = self._pairs.tree.child_ptr
        size = ptr[nodes + 1] - ptr[nodes]
        return joined_ranges(ptr[nodes], size).astype(np.int32)

    def _numbers_of(self, nodes: np.ndarray) -> np.ndarray:
        """The weights of contexts as numbers of the file, of the type of `_absent`."""
        return log10_backoffs(self._log_backoff[nodes])

    # -------------------------------------------------------- transfer of weights

    def give(self, folder: str) -> tuple[list[int], np.ndarray, list[int]]:
        """Write the weights of contexts for the shards that have their lines.

        Returns
        -------
        sizes : list of int
            Number of n-grams of each order.

        listed : ndarray
            Words that are never predicted, in their order.

        begin : list of int
            The first byte of the weights for each shard.
        """
        begin = []
        with open(_weights(folder, self._shard), "wb") as file:
            for shard in range(len(self._plan.bounds)):
                begin.append(file.tell())
                for rows, weights in self._weights_for(shard):
                    # Not np.save: the parser of its headers, ast.literal_eval, can
                    # fail in Python 3.11 if several threads of a worker read at once.
                    np.array(rows.shape, dtype=np.int64).tofile(file)
                    rows.astype(np.int32, copy=False).tofile(file)
                    weights.tofile(file)
        _, sizes = level_sizes(self._pairs)
        sizes += [0] * (self._plan.order - len(sizes))
        if self._shard:
            sizes[0] = 0
        return sizes, self._last_words(), begin

    def _weights_for(self, shard: int) -> Iterator[Weights]:
        """Contexts whose n-grams a shard has; the last of the pieces is empty."""
        tree = self._pairs.tree
        for level, nodes in enumerate(self._choose(shard), 1):
            for at in range(0, nodes.size, _MOST_WEIGHTS):
                some = nodes[at : at + _MOST_WEIGHTS]
                rows = node_contexts(tree, some, level)
                yield rows, self._numbers_of(some)
        yield np.empty((0, 1), dtype=np.int32), self._weight[:0]

    def _choose(self, shard):
        """The nodes of each level, from the first on."""
        tree = self._pairs.tree
        if tree.n_levels == 1:
            return []
        first = np.arange(*tree.level_ptr[1:3], dtype=np.int32)
        first = first[self._class[tree.symbol[first]] >= 0]
        # A context of one symbol shortens to the root, whose lines the first shard
        # has; a longer one to a context that ends in its second newest symbol.
        levels = [first if shard == 0 else first[:0]]
        here = self._children(first)
        a, b = self._plan.bounds[shard]
        here = here[(tree.symbol[here] >= a) & (tree.symbol[here] < b)]
        while here.size:
            levels.append(here)
            here = self._children(here)
        return levels

    def _fetch(self, folder: str, begin: list[list[int]]) -> None:
        """Read the weights of the n-grams; begin: what `give` has returned, for each
        shard."""
        for shard, places in enumerate(begin):
            with open(_weights(folder, shard), "rb") as file:
                file.seek(places[self._shard])
                while (shape := np.fromfile(file, np.int64, 2))[0]:
                    rows = np.fromfile(file, np.int32, shape.prod()).reshape(shape)
                    self._take(rows, np.fromfile(file, self._weight.dtype, shape[0]))

    def _take(self, rows: np.ndarray, weights: np.ndarray) -> None:
        """Put weights of contexts beside the pairs whose lines they belong to."""
        tree, level = self._pairs.tree, rows.shape[1]
        nodes = np.zeros(len(rows), dtype=np.int32)
        if level > 1:
            nodes = tree.find_windows(rows[:, :-1])
            at = tree.level_ptr[min(level - 1, tree.n_levels)]
            if (nodes < at).any():
                raise self._not_closed()
        last = self._class[rows[:, -1]]
        found = find_pairs(self._pairs.ptr, self._pairs.target, nodes, last)
        if (found < 0).any():
            raise self._not_closed()
        self._weight[found] = weights

    # -------------------------------------------------------------------- n-grams

    def _rows(self, order: int) -> Iterator[tuple[NgramRows, slice]]:
        """n-grams of an order, and their pairs; the first shard has the unigrams."""
        pairs = self._pairs
        if order > pairs.tree.n_levels or (order == 1 and self._shard):
            return
        level = pairs.level(order - 1)
        for start in range(level.start, level.stop, _MOST_LINES):
            slots = slice(start, min(start + _MOST_LINES, level.stop))
            # Of the type of `ptr`, which would be converted as a whole otherwise.
            at = np.arange(slots.start, slots.stop, dtype=pairs.ptr.dtype)
            node = (np.searchsorted(pairs.ptr, at, side="right") - 1).astype(np.int32)
            weight = np.full(at.size, np.nan)
            if order < self._plan.order:
                weight = self._weight[slots]
            log_prob = log10_probs(self._log_prob[slots])
            yield NgramRows(node, pairs.target[slots], log_prob, weight), slots

    def _never_rows(self) -> NgramRows:
        """The unigrams that have only a back-off weight."""
        return self._plan.unigrams(self._last_words(), self._numbers_of(self._never))

    def _last_words(self):
        """The words of the contexts that end in one that is never predicted."""
        return self._plan.words.of_symbol[self._pairs.tree.symbol[self._never]]


class ArpaShard(ShardNGrams):
    """The lines of one shard. Its methods are the steps of writing the file."""

    def write(self, folder: str, begin: list[list[int]]) -> list[int]:
        """Write the lines into a file of the folder.

        begin: what `give` has returned, for each shard. Returns the bytes of each
        section: unigrams, words that are never predicted, bigrams, and so on.
        """
        self._fetch(folder, begin)
        sections: list[Iterator] = [
            self._lines(order) for order in range(1, self._plan.order + 1)
        ]
        sections.insert(1, self._format(self._never_rows()))
        sizes = []
        with open(_lines(folder, self._shard), "wb") as raw:
            for section in sections:
                at = raw.tell()
                first = next(section, None)
                if first is not None:  # a packed part takes bytes, even if empty
                    with packing(raw, self._plan.path) as file:
                        for block in chain([first], section):
                            file.write(block)
                sizes.append(raw.tell() - at)
        return sizes

    def put(
        self, folder: str, path: str, places: list[list[int]], sizes: Sizes
    ) -> None:
        """Copy the lines; the places and sizes are those of the sections of shards."""
        with (
            open(_lines(folder, self._shard), "rb") as lines,
            open_there(path) as file,
        ):
            for at, size in zip(places[self._shard], sizes[self._shard]):
                file.seek(at)
                while size:
                    block = lines.read(min(size, _COPIED))
                    file.write(block)
                    size -= len(block)

    def _lines(self, order: int) -> Iterator[memoryview]:
        for rows, _ in self._rows(order):
            yield from self._format(rows)

    def _format(self, rows):
        plan, tree = self._plan, self._pairs.tree
        return format_rows(rows, plan.words, tree, plan.order, plan.precision)


def _weights(folder: str, shard: int) -> str:
    return os.path.join(folder, f"weights{shard}")


def _lines(folder: str, shard: int) -> str:
    return os.path.join(folder, f"lines{shard}")
