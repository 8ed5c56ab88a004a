"""Samples before they are counted: contexts with their classes.

`Positions` are positions of a text, or windows; `PathRows` are rows of a path matrix.
Both select samples, make the tree of their contexts, and find them in another tree.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from ..context_tree import (
    ContextTree,
    Histories,
    HistoryColumns,
    Pairs,
    expand_pairs,
    find_histories,
    tree_of_paths,
)
from ..symbols import Labels, need_symbols
from ._readers import PathReader, PathTree


class Positions(NamedTuple):
    """Positions of a text, or windows."""

    histories: Histories | HistoryColumns
    target: np.ndarray  # (n_samples,) int32
    weight: np.ndarray | None  # (n_samples,) float64, positive; None: 1

    @property
    def stored(self) -> Histories:
        """The histories in memory; windows are made from `HistoryColumns`."""
        if isinstance(self.histories, HistoryColumns):
            return Histories.from_windows(
                self.histories.windows(), self.histories.depth
            )
        return self.histories

    @classmethod
    def of_tokens(
        cls,
        tokens: np.ndarray,
        depth: int,
        skip: int = -1,
        weight: np.ndarray | None = None,
    ) -> Self:
        """Every position of a running text; see `count_text`."""
        at = np.flatnonzero((tokens >= 0) & (tokens != skip))
        weight = None if weight is None else weight[at]
        return cls(Histories.from_tokens(tokens, at, depth), tokens[at], weight)

    @classmethod
    def of_counts(cls, pairs: Pairs, count: np.ndarray) -> Self:
        """One weighted sample for each pair at which samples end."""
        pairs, source = expand_pairs(pairs)
        terminal = pairs.terminal_counts(count[source])
        at = np.flatnonzero(terminal > 0.0)
        windows = pairs.tree.windows()
        histories = Histories.from_windows(windows, windows.shape[1])
        return cls(histories.select(pairs.nodes()[at]), pairs.target[at], terminal[at])

    def select(self, rows: Any) -> Self:
        """Some of the samples."""
        weight = None if self.weight is None else self.weight[rows]
        return type(self)(self.stored.select(rows), self.target[rows], weight)

    def cut(self, depth: int) -> Self:
        """The samples with histories of at most `depth` symbols."""
        flat, offset, length = self.stored
        histories = Histories(flat, offset, np.minimum(length, depth))
        return self._replace(histories=histories)

    def tree(self, labels: Labels, min_count: int = 1) -> tuple[Pairs, np.ndarray]:
        """(pairs, counts) of the contexts whose samples weigh at least `min_count`."""
        n_symbols = need_symbols(labels, "counting")
        tree, terminal = ContextTree.from_histories(
            self.histories, n_symbols, weight=self.weight, min_count=min_count
        )
        return Pairs.count(tree, terminal, self.target, labels.n_classes, self.weight)

    def locate(self, tree: ContextTree) -> np.ndarray:
        """The deepest node of each context in the tree of other samples."""
        return find_histories(tree, self.stored)[0]


class PathRows(NamedTuple):
    """Rows of a path matrix; see `SuffixTreeVectorizer`."""

    X: Any  # CSR
    target: np.ndarray
    weight: np.ndarray | None

    def select(self, rows: Any) -> Self:
        """Some of the samples."""
        weight = None if self.weight is None else self.weight[rows]
        return type(self)(self.X[rows], self.target[rows], weight)

    def tree(self, labels: Labels) -> tuple[Pairs, np.ndarray, PathTree]:
        """(pairs, counts, the tree of the columns)."""
        tree, terminal, node_of_column = tree_of_paths(self.X)
        counted = Pairs.count(
            tree, terminal, self.target, labels.n_classes, self.weight
        )
        return *counted, PathTree(tree, node_of_column)

    def locate(self, paths: PathTree) -> np.ndarray:
        """The deepest node of each path in the trie of other rows."""
        return PathReader(paths).find(self.X)
