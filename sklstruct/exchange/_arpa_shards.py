"""An ARPA file from the shards of a model, none of which has all of it.

A shard has the contexts that end in some symbols (see `context_tree._shards`). In the
canonical order the n-grams of an order are those of the first shard, then those of the
second, and so on: a section of the file is the lines of one shard after the other. One
column is elsewhere: the back-off weight in the line of "h y" belongs to the context
"h y", which ends in y, and the line to the context h. So each shard first gives the
weights of its contexts "h y" to the shard of h, which finds the pair (h, y).

The cost is one look-up for each context, and one transfer of O(contexts) numbers.
"""

from __future__ import annotations

import numpy as np

from ..context_tree import ContextTree, Pairs, find_pairs
from ..context_tree._links import joined_ranges, node_contexts
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

# Contexts with their weights, the oldest symbol first: (n, k) and (n,) of one length k.
Weights = tuple[np.ndarray, np.ndarray]


class ArpaPlan:
    """Facts of the file that all shards of a model need.

    Parameters
    ----------
    labels : Labels
        Of the model.

    bounds : list of (int, int)
        The newest symbols of the contexts of each shard.

    n_levels : int
        Number of levels of the whole tree.

    precision : int, default=None
        As of `write`.

    Raises
    ------
    ValueError
        If a symbol cannot be written, or `precision` is out of range.
    """

    def __init__(
        self,
        labels: Labels,
        bounds: list[tuple[int, int]],
        n_levels: int,
        precision: int | None = None,
    ) -> None:
        check_precision(precision)
        self.precision = precision
        self.words = FileWords(labels)
        self.bounds = bounds
        self.order = max(2, n_levels)

    def lines_of_marks(self, listed: np.ndarray) -> tuple[int, bytes]:
        """Number and lines of the unigrams that no shard has; listed: words they have
        besides the classes."""
        left = [
            mark
            for mark in (self.words.special["start"], self.words.special["end"])
            if mark >= self.words.n_classes and mark not in listed
        ]
        rows = self.unigrams(np.array(left, dtype=np.int32), np.zeros(len(left)))
        root = ContextTree(np.array([-1]), np.array([-1]))
        blocks = format_rows(rows, self.words, root, self.order, self.precision)
        return len(rows.node), b"".join(bytes(block) for block in blocks)

    def unigrams(self, words: np.ndarray, log_backoff: np.ndarray) -> NgramRows:
        """Unigrams of words that are never predicted."""
        log_prob = marks_of_unigrams(self.words, words)
        return NgramRows(np.zeros_like(words), words, log_prob, log_backoff)


class ArpaShard:
    """The lines of one shard.

    Parameters
    ----------
    plan : ArpaPlan
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

    def __init__(
        self,
        plan: ArpaPlan,
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
        # Below the highest order all lines have a third column, of 0 where the n-gram
        # is not a context.
        below = min(tree.n_levels, plan.order - 1)
        self._weight = np.zeros(pairs.level(below - 1).stop)
        first = np.arange(*tree.level_ptr[1:3]) if tree.n_levels > 1 else np.arange(0)
        self._never = first[self._class[tree.symbol[first]] < 0].astype(np.int32)
        if self._children(self._never).size:
            raise self._not_closed()  # a start mark inside a context
        self._chosen: tuple[int, list[np.ndarray]] | None = None

    @staticmethod
    def _not_closed():
        return ValueError(
            "model: the context or the suffix of an n-gram is missing, which only the "
            "whole model can be given; gather it before it is written"
        )

    def _children(self, nodes):
        """The children of nodes in rising order, in rising order."""
        ptr = self._pairs.tree.child_ptr
        size = ptr[nodes + 1] - ptr[nodes]
        return joined_ranges(ptr[nodes], size).astype(np.int32)

    # -------------------------------------------------------- transfer of weights

    def weights_for(self, shard: int, level: int, start: int, size: int) -> Weights:
        """Some of the contexts of a level whose lines another shard has.

        Parameters
        ----------
        shard : int
            The shard that has the lines.

        level : int
            Length of the contexts, at least 1.

        start, size : int
            Number of contexts to skip and to return; a shorter result is the last.
        """
        if self._chosen is None or self._chosen[0] != shard:
            self._chosen = shard, self._choose(shard)
        levels = self._chosen[1]
        nodes = np.empty(0, dtype=np.int32)
        if level <= len(levels):
            nodes = levels[level - 1][start : start + size]
        rows = node_contexts(self._pairs.tree, nodes, level)
        return rows, log10_backoffs(self._log_backoff[nodes])

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

    def take(self, rows: np.ndarray, weights: np.ndarray) -> None:
        """Put weights of contexts beside the pairs whose lines they belong to.

        Raises
        ------
        ValueError
            If the pair of a weight is missing.
        """
        tree, level = self._pairs.tree, rows.shape[1]
        if not len(rows):
            return
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

    def take_own(self, size: int = 1 << 20) -> None:
        """The same for the contexts here whose lines are here."""
        for level in range(1, self._pairs.tree.n_levels):
            start, rows = 0, None
            while rows is None or len(rows) == size:
                rows, weights = self.weights_for(self._shard, level, start, size)
                self.take(rows, weights)
                start += size
        self._chosen = None

    # --------------------------------------------------------------------- lines

    def sizes(self) -> tuple[list[int], np.ndarray]:
        """(lines of each order, words that are never predicted, in their order)."""
        pairs = self._pairs
        sizes = [0] * self._plan.order
        for k in range(pairs.tree.n_levels):
            slots = pairs.level(k)
            sizes[k] = slots.stop - slots.start
        if self._shard:
            sizes[0] = 0
        return sizes, self._last_words()

    def lines(self, order: int, start: int, stop: int) -> bytes:
        """Lines `start` to `stop` of an order, which has at least `stop` lines."""
        pairs = self._pairs
        first = pairs.level(order - 1).start
        slots = slice(first + start, first + stop)
        at = np.arange(slots.start, slots.stop)
        node = (np.searchsorted(pairs.ptr, at, side="right") - 1).astype(np.int32)
        weight = np.full(at.size, np.nan)
        if order < self._plan.order:
            weight = self._weight[slots]
        log_prob = log10_probs(self._log_prob[slots])
        return self._format(NgramRows(node, pairs.target[slots], log_prob, weight))

    def lines_never_predicted(self) -> bytes:
        """The unigrams that have only a back-off weight."""
        never = self._never
        weights = log10_backoffs(self._log_backoff[never])
        return self._format(self._plan.unigrams(self._last_words(), weights))

    def _last_words(self):
        """The words of the contexts that end in one that is never predicted."""
        return self._plan.words.of_symbol[self._pairs.tree.symbol[self._never]]

    def _format(self, rows):
        plan, tree = self._plan, self._pairs.tree
        blocks = format_rows(rows, plan.words, tree, plan.order, plan.precision)
        return b"".join(bytes(block) for block in blocks)
