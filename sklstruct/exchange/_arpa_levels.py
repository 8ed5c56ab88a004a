"""An ARPA file of a model in files, without loading a level into memory.

The lines of a level are its pairs in order. The back-off weight in the line of "h y" is
the weight of the node "h y", which is on the level below. For one class y, the nodes "h
y" are in the order of h, as are the pairs (h, y). So a counter for each class gives the
number of the node of each pair, by which its weight is found: in memory if the weights
of the level fit, otherwise part by part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..context_tree import Column, ContextTree, RunFile, Spill, tree_of_arrays
from ..context_tree._links_fast import next_extensions
from ..symbols import Labels
from ._arpa_write import (
    NgramRows,
    log10_backoffs,
    log10_probs,
    marks_of_unigrams,
    put,
)
from ._words import FileWords

# Nodes, and pairs, of a block of lines.
_ROWS = 1 << 16


class ArpaLevels:
    """The lines of a model of sentences with an end mark.

    ValueError if a symbol cannot be written.

    run: the nodes and pairs of a counted text, in which every n-gram that does not end
    a sentence is followed by a symbol.
    prob: probabilities of the pairs of each level, -1 for pairs that are left out.
    backoff: back-off weights of the nodes of each level.
    n_kept: number of pairs of each level that are not left out.
    labels: of the text; the class of a symbol has its id.
    memory: bytes that the weights of a level may take.
    """

    def __init__(
        self,
        run: RunFile,
        prob: Sequence[Column],
        backoff: Sequence[Column],
        n_kept: list[int],
        labels: Labels,
        memory: int,
        folder: str | None = None,
    ) -> None:
        self._levels, self._prob, self._backoff = run.levels, prob, backoff
        self._words = FileWords(labels)
        self._end = labels.end_id
        self._most = max(1, memory // 8)
        self._folder = folder
        self.order = max(2, len(run.levels))
        self.counts = [*n_kept] + [0] * (self.order - len(run.levels))
        self.counts[0] += 1  # the start mark

    def put(self, file: Any) -> None:
        """Write the file."""
        put(self, self._words, None, file)

    def rows(self, k: int) -> Iterator[tuple[NgramRows, ContextTree]]:
        """The lines of level k, and the trees of their contexts."""
        if k == len(self._levels):
            return
        nodes, weights, at = self._levels[k].nodes, _Weights(self, k), 0
        for a in range(0, nodes.size, _ROWS):
            tree, sizes = self._contexts(k, a, min(a + _ROWS, nodes.size))
            place = np.arange(*tree.level_ptr[k : k + 2], dtype=np.int32)
            owner = np.repeat(place, sizes)
            for first in range(0, owner.size, _ROWS):
                node = owner[first : first + _ROWS]
                target = self._levels[k].target.read(at, at + node.size)
                prob = self._prob[k].read(at, at + node.size)
                at += node.size
                weight, keep = weights.of(target), prob >= 0.0
                if not keep.all():
                    node, target = node[keep], target[keep]
                    prob, weight = prob[keep], weight[keep]
                yield NgramRows(node, target, log10_probs(np.log(prob)), weight), tree
        if k == 0:
            start = np.array([self._words.special["start"]], dtype=np.int32)
            yield marks_of_unigrams(self._words, start, weights.of(start)), tree

    def _contexts(self, k, first, last):
        """(a tree of the nodes from `first` to `last` of level k and those above them,
        the number of pairs of each)."""
        levels = []
        for j in range(k, -1, -1):
            nodes = self._levels[j].nodes.read(first, last)
            levels.append((first, nodes))
            first, last = int(nodes["parent"][0]), int(nodes["parent"][-1]) + 1
        levels.reverse()
        level_ptr = np.cumsum([0, *(nodes.size for _, nodes in levels)])
        parent, symbol = np.empty((2, level_ptr[-1]), dtype=np.int32)
        for j, (_, nodes) in enumerate(levels):
            here = slice(level_ptr[j], level_ptr[j + 1])
            shift = level_ptr[j - 1] - levels[j - 1][0] if j else 0
            parent[here], symbol[here] = nodes["parent"] + shift, nodes["symbol"]
        return tree_of_arrays(parent, symbol, level_ptr, 0), levels[-1][1]["n_pairs"]


class _Weights:
    """The weights in the lines of level k, in the order of its pairs."""

    def __init__(self, model: ArpaLevels, k: int) -> None:
        self._none = 0.0 if k + 1 < model.order else np.nan
        # Some nodes of the next level: the first, the one after the last, and their
        # weights, in memory or in the order of the lines.
        self._parts: list[tuple[int, int, np.ndarray | _InOrder]] = []
        self._next = np.full(model._words.n_words, -1, dtype=np.int64)
        if k + 1 == len(model._levels):
            return
        column, file = model._backoff[k + 1], Spill(model._folder)
        first = _first_nodes(model, k)
        for a in range(0, column.size, model._most):
            b = min(a + model._most, column.size)
            with np.errstate(divide="ignore"):
                table = log10_backoffs(np.log(column.read(a, b)))
            if b == column.size:
                self._parts.append((a, b, table))
                break
            # The next part takes the memory.
            found, self._next = file.column(np.float64), first.copy()
            for block in model._levels[k].target.blocks(8 * _ROWS):
                number = self._numbers(block)
                found.append(table[number[(number >= a) & (number < b)] - a])
            self._parts.append((a, b, _InOrder(found)))
        self._next = first

    def _numbers(self, target):
        """The node of each n-gram in the next level, -1 for none."""
        out = np.empty(target.size, dtype=np.int64)
        next_extensions(target, self._next, out)
        return out

    def of(self, target: np.ndarray) -> np.ndarray:
        """The weights of the next pairs."""
        weight = np.full(target.size, self._none)
        if self._parts:
            number = self._numbers(target)
            for a, b, part in self._parts:
                here = np.flatnonzero((number >= a) & (number < b))
                if isinstance(part, _InOrder):
                    weight[here] = part.take(here.size)
                else:
                    weight[here] = part[number[here] - a]
        return weight


class _InOrder:
    """The next entries of a column."""

    def __init__(self, column: Column) -> None:
        self._column, self._at = column, 0

    def take(self, n: int) -> np.ndarray:
        """The next n."""
        self._at += n
        return self._column.read(self._at - n, self._at)


def _first_nodes(model, k):
    """(n_words,) for each last word of a line of level k the first node of the next
    level that ends in it, -1 for none."""
    nodes = model._levels[k + 1].nodes
    first = np.full(model._words.n_words, -1, dtype=np.int64)
    if k == 0:
        # A class may have no node: it did not occur, or ends the sentences.
        first[nodes.read(0, nodes.size)["symbol"]] = np.arange(nodes.size)
        return first
    sizes = np.zeros(first.size, dtype=np.int64)
    for block in model._levels[k].target.blocks(8 * _ROWS):
        sizes += np.bincount(block, minlength=sizes.size)
    sizes[model._end] = 0
    if sizes.sum() != nodes.size:
        raise ValueError(
            f"run: {nodes.size} contexts of {k + 1} symbols for {sizes.sum()} n-grams "
            "that do not end a sentence; only counts of sentences with an end mark can "
            "be written so"
        )
    first[:] = np.cumsum(sizes) - sizes
    first[model._end] = -1
    return first
