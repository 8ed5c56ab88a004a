"""An ARPA file from the shards of a model, each of which has a part.

A shard has a range of the contexts (see `context_tree._shards`). In the canonical
order, the n-grams of an order are the n-grams of the first shard, then of the second
shard, and so on, so a section of the file is the concatenation of the lines of the
shards. But the line of "h y" belongs to the context h, and its back-off weight belongs
to the context "h y", which can be in another shard. So each shard first sends the
weights of its contexts "h y" to the shard of h, which finds the pair (h, y). The shards
write the weights into files in a folder that all shards see. They also write their
lines there, because the place of a line is known only when all lines before it are
made. In the end each shard copies its lines into the file.

The cost is one look-up per context, one transfer of O(contexts) numbers, and temporary
disk space of the size of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from .._files import open_there, packing
from ..context_tree import ContextTree, Pairs, find_pairs
from ..context_tree._links import node_contexts
from ..context_tree._shards import Prefix, level_sizes, prefix_keys
from ..symbols import Labels
from ._arpa_write import (
    NgramRows,
    check_optional,
    format_rows,
    log10_backoffs,
    log10_probs,
    marks_of_unigrams,
)
from ._kenlm_entries import shard_file
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
    """The data that all shards need to write a file of n-grams.

    ValueError if a symbol cannot be written.
    bounds: the contexts of each shard.
    n_levels: of the whole tree.
    """

    def __init__(
        self, labels: Labels, bounds: list[tuple[Prefix, Prefix]], n_levels: int
    ) -> None:
        self.words = FileWords(labels)
        self.first = [first for first, _ in bounds]
        self.n_shards = len(bounds)
        self.order = max(2, n_levels)

    def owners(self, contexts: np.ndarray, n_symbols: int) -> np.ndarray:
        """The shard of each context; (n, length), the newest symbol first."""
        width = max(map(len, self.first))
        first = [
            prefix_keys(np.array([prefix]), width, n_symbols)[0]
            for prefix in self.first
        ]
        keys = prefix_keys(contexts, width, n_symbols)
        return np.searchsorted(first, keys, side="right") - 1

    def counts(
        self, n_rows: Sequence[list[int]], listed: Sequence[np.ndarray]
    ) -> list[int]:
        """n-grams of each order, from what `ShardNGrams.give` has returned."""
        counts = [sum(some) for some in zip(*n_rows)]
        counts[0] += sum(words.size for words in listed)
        counts[0] += self.marks(listed).node.size
        return counts

    def marks(self, listed: Sequence[np.ndarray]) -> NgramRows:
        """The unigrams that are not in any shard.

        listed: the words of each shard that are never predicted.
        """
        found = np.concatenate(listed)
        left = [
            mark
            for mark in (self.words.special["start"], self.words.special["end"])
            if mark >= self.words.n_classes and mark not in found
        ]
        words = np.array(left, dtype=np.int32)
        return marks_of_unigrams(self.words, words, np.zeros(len(left)))


class ShardNGrams:
    """The n-grams of one shard, for a file.

    ValueError if a suffix of an n-gram is missing, or a weight is beyond what a file
    can hold.
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
        first, _ = pairs.own(1)
        never = first.start + np.flatnonzero(self._class[tree.symbol[first]] < 0)
        self._never = never.astype(np.int32)
        if (tree.child_ptr[never] < tree.child_ptr[never + 1]).any():
            raise self._not_closed()  # a start mark inside a context

    @staticmethod
    def _not_closed():
        return ValueError(
            "model: the context or the suffix of an n-gram is missing, which only the "
            "whole model can be given; save compute(), or a native file"
        )

    def _numbers_of(self, nodes: np.ndarray) -> np.ndarray:
        """The weights of contexts as numbers of the file, of the type of `_absent`."""
        return log10_backoffs(self._log_backoff[nodes])

    # -------------------------------------------------------- transfer of weights

    def give(self, folder: str) -> tuple[list[int], np.ndarray]:
        """Write the weights of contexts to files for the shards that have their lines.

        (number of n-grams of each order, words that are never predicted, in their
        order).
        """
        # The file begins with the first bytes of the weights for each shard.
        begin = np.zeros(self._plan.n_shards, dtype=np.int64)
        with open(shard_file(folder, "weights", self._shard), "wb") as file:
            begin.tofile(file)
            for shard, nodes in enumerate(self._chosen()):
                begin[shard] = file.tell()
                for rows, weights in self._weights_of(nodes):
                    # Not np.save: the parser of its headers, ast.literal_eval, can
                    # fail in Python 3.11 if several threads of a worker read at once.
                    np.array(rows.shape, dtype=np.int64).tofile(file)
                    rows.astype(np.int32, copy=False).tofile(file)
                    weights.tofile(file)
            file.seek(0)
            begin.tofile(file)
        _, sizes = level_sizes(self._pairs)
        sizes += [0] * (self._plan.order - len(sizes))
        return sizes, self._last_words()

    def _weights_of(self, nodes: np.ndarray) -> Iterator[Weights]:
        """Contexts, level by level, and weights; the last of the pieces is empty."""
        tree = self._pairs.tree
        cuts = np.searchsorted(nodes, tree.level_ptr[1:])
        for level, (a, b) in enumerate(pairwise(cuts.tolist()), 1):
            for at in range(a, b, _MOST_WEIGHTS):
                some = nodes[at : min(at + _MOST_WEIGHTS, b)]
                rows = node_contexts(tree, some, level)
                yield rows, self._numbers_of(some)
        yield np.empty((0, 1), dtype=np.int32), self._weight[:0]

    def _chosen(self) -> list[np.ndarray]:
        """The contexts whose n-grams each shard has, in rising order."""
        tree = self._pairs.tree
        owner = np.full(tree.n_nodes, -1, dtype=np.int32)
        for level in range(1, tree.n_levels):
            nodes, _ = self._pairs.own(level)
            for at in range(nodes.start, nodes.stop, _MOST_WEIGHTS):
                stop = min(at + _MOST_WEIGHTS, nodes.stop)
                here = np.arange(at, stop, dtype=np.int32)
                # The n-gram "h y" is at the context h.
                before = node_contexts(tree, here, level)[:, -2::-1]
                owner[here] = self._plan.owners(before, tree.n_symbols)
        owner[self._never] = -1
        order = np.argsort(owner, kind="stable").astype(np.int32)
        cuts = np.searchsorted(owner, np.arange(self._plan.n_shards + 1), sorter=order)
        return [order[a:b] for a, b in pairwise(cuts.tolist())]

    def _fetch(self, folder: str) -> None:
        """Read the weights of the n-grams, which all shards gave."""
        for shard in range(self._plan.n_shards):
            with open(shard_file(folder, "weights", shard), "rb") as file:
                file.seek(8 * self._shard)
                file.seek(int(np.fromfile(file, np.int64, 1)[0]))
                while (shape := np.fromfile(file, np.int64, 2))[0]:
                    rows = np.fromfile(file, np.int32, shape.prod()).reshape(shape)
                    self._take(rows, np.fromfile(file, self._weight.dtype, shape[0]))

    def _take(self, rows: np.ndarray, weights: np.ndarray) -> None:
        """Store weights of contexts at the pairs whose lines contain them."""
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
        """n-grams of an order, and their pairs."""
        pairs = self._pairs
        if order > pairs.tree.n_levels:
            return
        _, level = pairs.own(order - 1)
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
        weights = self._numbers_of(self._never)
        return marks_of_unigrams(self._plan.words, self._last_words(), weights)

    def _last_words(self):
        """The words of the contexts that end in one that is never predicted."""
        return self._plan.words.of_symbol[self._pairs.tree.symbol[self._never]]


class ArpaShard(ShardNGrams):
    """The lines of one shard. Its methods are the steps of writing the file."""

    def write(self, folder: str) -> list[int]:
        """Write the lines into a file of the folder, when all shards gave weights.

        Returns the bytes of each section: unigrams, words that are never predicted,
        bigrams, and so on.
        """
        self._fetch(folder)
        sections: list[Iterator] = [
            self._lines(order) for order in range(1, self._plan.order + 1)
        ]
        sections.insert(1, self._format(self._never_rows()))
        sizes = []
        with open(shard_file(folder, "lines", self._shard), "wb") as raw:
            for section in sections:
                at = raw.tell()
                first = next(section, None)
                if first is not None:  # a packed part takes bytes, even if empty
                    with packing(raw, self._plan.path) as file:
                        for block in chain([first], section):
                            file.write(block)
                sizes.append(raw.tell() - at)
        return sizes

    def _lines(self, order: int) -> Iterator[memoryview]:
        for rows, _ in self._rows(order):
            yield from self._format(rows)

    def _format(self, rows):
        plan, tree = self._plan, self._pairs.tree
        return format_rows(rows, plan.words, tree, plan.order, plan.precision)


class ArpaPlan(NGramPlan):
    """The data that all shards need to write an ARPA file.

    The suffix of the path says how the file is packed; `precision` is that of `write`.
    """

    shard = ArpaShard

    def __init__(
        self,
        labels: Labels,
        bounds: list[tuple[Prefix, Prefix]],
        n_levels: int,
        path: str,
        precision: int | None = None,
    ) -> None:
        check_optional("precision", precision, 1, 15)
        super().__init__(labels, bounds, n_levels)
        self.precision = precision
        self.path = path

    def put(
        self, shard: int, folder: str, path: str, places: Sizes, sizes: Sizes
    ) -> None:
        """Copy the lines of a shard, from and to the places of their sections."""
        with (
            open(shard_file(folder, "lines", shard), "rb") as lines,
            open_there(path) as file,
        ):
            for at, size in zip(places[shard], sizes[shard]):
                file.seek(at)
                while size:
                    block = lines.read(min(size, _COPIED))
                    file.write(block)
                    size -= len(block)

    def lines(self, rows: NgramRows) -> bytes:
        """The lines of some unigrams."""
        root = ContextTree(np.array([-1]), np.array([-1]))
        blocks = format_rows(rows, self.words, root, self.order, self.precision)
        return b"".join(bytes(block) for block in blocks)
