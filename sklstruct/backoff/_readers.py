"""Readers: they find the node of each row of X in a fitted model.

There is a reader for windows of symbols and a reader for the path matrices of
`SuffixTreeVectorizer`. Both have the methods

=============================  ====================================================
``nodes(estimator, tree, X)``  the node of each row, in the model's trie
``renumber(tree, kept)``       set the model's node of each node that was counted
=============================  ====================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._checks import check_sparse
from ..context_tree import ContextTree, expand_tree, find_paths, joined_ranges

if TYPE_CHECKING:
    import scipy.sparse as sp

    from .._compat import BaseEstimator


class PathTree(NamedTuple):
    """The tree that was read from a path matrix."""

    tree: ContextTree  # collapsed or not; its symbols are columns
    node_of_column: np.ndarray  # (n_columns,) int32, -1 for an absent column


class WindowReader(NamedTuple):
    """Reads rows of context symbols, the last column the most recent."""

    padding: Any  # the symbol that marks missing history
    symbols: np.ndarray  # (n_symbols,) the context symbols

    def renumber(self, tree: ContextTree, kept: np.ndarray) -> None:
        """Do nothing: windows are looked up in the model's own tree."""

    def nodes(self, estimator: BaseEstimator, tree: ContextTree, X: Any) -> np.ndarray:
        """The deepest known node of each window."""
        import scipy.sparse as sp

        from ..context_tree import read_windows

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
    """Reads the rows of a path matrix, each a path from the root to a node."""

    def __init__(self, paths: PathTree) -> None:
        self._tree, self._node_of_column = paths
        self.kept: np.ndarray | None = None
        self._nearest: np.ndarray | None = None
        # Suffix j of the node n of a collapsed tree is a separate node of the trie.
        self._index = None if self._tree.span is None else expand_tree(self._tree)[1]

    def find(self, X: Any) -> np.ndarray:
        """The deepest node of each path in the trie that was counted."""
        node, matched = find_paths(self._tree, X, self._node_of_column)
        if self._index is not None:
            offset = np.cumsum(self._tree.span, dtype=np.int64) - self._tree.span
            node = self._index[offset[node] + matched - 1]
        return node

    def nodes(self, estimator: BaseEstimator, tree: ContextTree, X: Any) -> np.ndarray:
        """The deepest known node of each path."""
        import scipy.sparse as sp

        if not sp.issparse(X):
            raise ValueError(
                f"X: this {type(estimator).__name__} was fitted on a sparse path "
                "matrix; X must also be a path matrix (transform it with the same "
                "SuffixTreeVectorizer)"
            )
        node = self.find(read_paths(estimator, X, reset=False))
        return node if self._nearest is None else self._nearest[node]

    def renumber(self, tree: ContextTree, kept: np.ndarray) -> None:
        """Let paths lead to the nodes of the counted trie that the model keeps.

        kept: the number of each node of the trie in the model, -1 for removed nodes.
        """
        self.kept = kept
        self._nearest = tree.nearest(kept)

    def columns_to_symbols(
        self, tree: ContextTree, vectorized: ContextTree
    ) -> ContextTree:
        """The model's tree with the symbols of the vectorizer's tree.

        The symbols of `tree` are columns, the nodes of `vectorized`. Columns are in its
        canonical order, so siblings stay sorted.
        """
        column = np.flatnonzero(self._node_of_column >= 0)
        node = self._node_of_column[column]
        trie, of_suffix = expand_tree(vectorized)
        span = vectorized.spans()
        first = np.cumsum(span, dtype=np.int64) - span
        if self._index is None:
            # The fitted tree is a trie: each column is one context.
            where, source = node, of_suffix[first[column]]
        else:
            size = span[column]
            mine = np.cumsum(self._tree.span, dtype=np.int64) - self._tree.span
            where = self._index[joined_ranges(mine[node], size)]
            source = of_suffix[joined_ranges(first[column], size)]
        if self.kept is not None:
            where = self.kept[where]
            source, where = source[where >= 0], where[where >= 0]
        symbol = np.full(tree.n_nodes, -1, dtype=np.int32)
        symbol[where] = trie.symbol[source]
        return ContextTree(tree.parent, symbol, vectorized.n_symbols)


def read_paths(
    estimator: BaseEstimator, X: Any, *, reset: bool
) -> sp.csr_array | sp.csr_matrix:
    """Validate a path matrix."""
    from sklearn.utils.validation import validate_data

    check_sparse(X)
    return validate_data(
        estimator, X, accept_sparse="csr", dtype=np.float64, reset=reset
    )
