"""Readers: what X of an estimator is, and the node of each of its rows.

Two kinds of X say the same: windows of symbols, and the path matrices that
`SuffixTreeVectorizer` makes of them. A reader knows one of them. It is made by `fit`,
kept by the estimator, and answers `nodes` when the estimator predicts:

===========================  ======================================================
``fit(estimator, X)``        X validated and encoded; learns what X is made of
``grow(data, keep, depth)``  (tree, terminal) of the samples in the mask `keep`
``nodes(estimator, X)``      the node of each row, in the trie
``renumber(tree, kept)``     the trie of the model has fewer nodes than were grown
``symbols``                  the context symbols, None where they are not known
===========================  ======================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from .._checks import check_sparse
from .._compat import BaseEstimator
from ..context_tree import ContextTree, Histories, expand_tree
from ..context_tree._vectorizer import read_windows


class WindowReader:
    """Reads rows of context symbols, the last column the most recent.

    Parameters
    ----------
    padding : object
        The symbol that marks missing history.

    symbols : ndarray of shape (n_symbols,), default=None
        The context symbols; None to learn them in `fit`.
    """

    def __init__(self, padding: Any, symbols: np.ndarray | None = None):
        self.padding = padding
        self.symbols = symbols

    def fit(self, estimator: BaseEstimator, X: Any) -> np.ndarray:
        """Ids of the windows."""
        ids, self.symbols = read_windows(estimator, X, self.padding, reset=True)
        return ids

    def grow(
        self, data: np.ndarray, keep: np.ndarray | None, max_depth: int | None
    ) -> tuple[ContextTree, np.ndarray]:
        """Tree of the windows' contexts, and the terminal node of each."""
        depth = data.shape[1] if max_depth is None else max_depth
        histories = Histories.from_windows(data, depth)
        if keep is not None:
            histories = histories.select(keep)
        return ContextTree.from_histories(histories, self.symbols.size)

    def renumber(self, tree: ContextTree, kept: np.ndarray) -> None:
        """Nothing: windows are looked up in the model's own tree."""

    def nodes(self, estimator: BaseEstimator, tree: ContextTree, X: Any) -> np.ndarray:
        """The deepest known node of each window."""
        if sp.issparse(X):
            raise ValueError(
                f"X: this {type(estimator).__name__} was fitted on dense context "
                "windows; X must not be sparse"
            )
        ids, _ = read_windows(
            estimator, X, self.padding, reset=False, symbols=self.symbols
        )
        return tree.find_windows(ids)


class PathReader:
    """Reads the rows of a path matrix: each is a way from the root to a node."""

    symbols = None

    def fit(self, estimator: BaseEstimator, X: Any) -> sp.csr_array | sp.csr_matrix:
        """The matrix, validated."""
        return self._validate(estimator, X, reset=True)

    def grow(
        self, data: Any, keep: np.ndarray | None, max_depth: int | None
    ) -> tuple[ContextTree, np.ndarray]:
        """Tree of the paths, and the terminal node of each."""
        X = data if keep is None else data[keep]
        tree, terminal, self._node_of_column = ContextTree.from_paths(X)
        if max_depth is not None and tree.max_depth > max_depth:
            raise ValueError(
                f"max_depth={max_depth}, but the paths of X are up to "
                f"{tree.max_depth} symbols long: set max_depth on "
                "SuffixTreeVectorizer, and leave it None here"
            )
        self._tree = tree
        self._kept = self._nearest = None
        # Suffix j of the node n of a collapsed tree is a node of its own in the trie.
        self._index = None if tree.span is None else expand_tree(tree)[1]
        return tree, terminal

    def nodes(self, estimator: BaseEstimator, tree: ContextTree, X: Any) -> np.ndarray:
        """The deepest known node of each path."""
        if not sp.issparse(X):
            raise ValueError(
                f"X: this {type(estimator).__name__} was fitted on a sparse path "
                "matrix; X must be one too (transform it with the same "
                "SuffixTreeVectorizer)"
            )
        X = self._validate(estimator, X, reset=False)
        node, matched = self._tree.find_paths(X, self._node_of_column)
        if self._index is not None:
            offset = np.cumsum(self._tree.span, dtype=np.int64) - self._tree.span
            node = self._index[offset[node] + matched - 1]
        return node if self._nearest is None else self._nearest[node]

    def renumber(self, tree: ContextTree, kept: np.ndarray) -> None:
        """Paths lead to the nodes that are left of the trie that was grown.

        Parameters
        ----------
        tree : ContextTree
            The trie.

        kept : int32 ndarray of shape (n_nodes,)
            The number of each of its nodes in the model, -1 for those that are gone.
        """
        self._kept = kept
        self._nearest = kept.copy()
        for k in range(1, tree.n_levels):
            here = np.arange(tree.level(k).start, tree.level(k).stop)
            gone = here[kept[here] < 0]
            self._nearest[gone] = self._nearest[tree.parent[gone]]

    def columns_to_symbols(
        self, tree: ContextTree, vectorized: ContextTree
    ) -> ContextTree:
        """The model's tree under the symbols of the tree that made the columns.

        Parameters
        ----------
        tree : ContextTree
            The trie of the fitted model, whose symbols are columns.

        vectorized : ContextTree
            The tree of the vectorizer, whose nodes are the columns. Columns are in
            its canonical order, so siblings stay sorted.
        """
        column = np.flatnonzero(self._node_of_column >= 0)
        node = self._node_of_column[column]
        trie, of_suffix = expand_tree(vectorized)
        span = vectorized.spans()
        first = np.cumsum(span, dtype=np.int64) - span
        if self._index is None:
            # A trie was fitted, of columns that stand for one context each.
            where, source = node, of_suffix[first[column]]
        else:
            size = span[column]
            j = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
            mine = np.cumsum(self._tree.span, dtype=np.int64) - self._tree.span
            where = self._index[np.repeat(mine[node], size) + j]
            source = of_suffix[np.repeat(first[column], size) + j]
        if self._kept is not None:
            where = self._kept[where]
            source, where = source[where >= 0], where[where >= 0]
        symbol = np.full(tree.n_nodes, -1, dtype=np.int32)
        symbol[where] = trie.symbol[source]
        return tree.with_symbols(symbol, vectorized.n_symbols)

    @staticmethod
    def _validate(estimator, X, reset):
        check_sparse(X)
        return validate_data(
            estimator, X, accept_sparse="csr", dtype=np.float64, reset=reset
        )


Reader = WindowReader | PathReader


def reader_of(X: Any, padding: Any) -> Reader:
    """The reader for this kind of X, not yet fitted."""
    return PathReader() if sp.issparse(X) else WindowReader(padding)
