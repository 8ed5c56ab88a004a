"""Path matrices: each row is the path of a sample from the root to its node.

`SuffixTreeVectorizer` creates these matrices; the tree can be reconstructed from the
matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import INT32_MAX, as_ids, check_ids, check_length
from . import _tree_fast as _fast
from ._tree import ContextTree, tree_of_arrays


def tree_of_paths(X: Any) -> tuple[ContextTree, np.ndarray, np.ndarray]:
    """Reconstruct the tree from a path matrix, whose rows are paths of samples.

    Nodes are the columns that occur. Symbols are numbers of columns: they are distinct
    among siblings and have no other meaning. Also the deepest node of each sample, and
    the node of each column, -1 for a column that does not occur. ValueError if a row is
    not a path of one tree. The indices of X are sorted.
    """
    indptr, indices, data = _path_arrays(X)
    n_columns = X.shape[1]
    # The arrays below need memory for each column.
    if n_columns > 10_000_000 + 100 * data.size:
        raise ValueError(
            f"X has {n_columns} columns for {data.size} entries: a path matrix has "
            "one for each context that occurs; fit SuffixTreeVectorizer on these "
            "samples themselves"
        )
    parent = np.full(n_columns, -2, dtype=np.int32)
    value = np.zeros(n_columns)
    terminal = np.empty(X.shape[0], dtype=np.int32)
    _raise_path_error(*_fast.read_paths(indptr, indices, data, parent, value, terminal))
    _raise_path_error(0, 5 * (value[0] > 1.0))
    used = np.flatnonzero(parent > -2).astype(np.int32)
    if used.size == 0:  # no sample: the tree of the root alone
        used = np.zeros(1, dtype=np.int32)
        parent[0], value[0] = -1, 1.0
    level = np.full(n_columns, -1, dtype=np.int32)
    _fast.node_levels(parent, used, level)  # parents have smaller columns
    # Canonical order level by level: by the parent's new number, then column.
    column_to_node = np.full(n_columns, -1, dtype=np.int32)
    columns = np.empty(used.size, dtype=np.int32)
    by_level = used[np.argsort(level[used], kind="stable")]
    bounds = np.concatenate([[0], np.cumsum(np.bincount(level[used]))])
    for k in range(bounds.size - 1):
        here = by_level[bounds[k] : bounds[k + 1]]
        if k:
            here = here[np.argsort(column_to_node[parent[here]], kind="stable")]
        columns[bounds[k] : bounds[k + 1]] = here
        column_to_node[here] = np.arange(bounds[k], bounds[k + 1], dtype=np.int32)
    new_parent = np.full(used.size, -1, dtype=np.int32)
    new_parent[1:] = column_to_node[parent[columns[1:]]]
    symbol = columns.copy()
    symbol[0] = -1
    span = value[columns]
    if np.any(span != np.round(span)) or span.max() > INT32_MAX:
        column = columns[np.argmax(span != np.round(span))]
        raise ValueError(
            f"X is not a path matrix: column {column} has the value "
            f"{value[column]:g}, which is not a number of suffixes. Pass the "
            "sparse output of SuffixTreeVectorizer unchanged (unscaled)"
        )
    tree = tree_of_arrays(
        new_parent,
        symbol,
        bounds,
        n_columns,
        span=span.astype(np.int32) if np.any(span != 1) else None,
    )
    return tree, column_to_node[terminal], column_to_node


def find_paths(
    tree: ContextTree, X: Any, column_to_node: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Deepest known node of each row of a path matrix; see `find_histories`."""
    indptr, indices, data = _path_arrays(X)
    column_to_node = as_ids("column_to_node", column_to_node, 1)
    check_ids("column_to_node", column_to_node, -1, tree.n_nodes, "node")
    if X.shape[1] > column_to_node.size:
        raise ValueError(
            f"X has {X.shape[1]} columns, but the tree was read from "
            f"{column_to_node.size}"
        )
    node = np.empty(X.shape[0], dtype=np.int32)
    matched = np.empty(X.shape[0], dtype=np.int32)
    _raise_path_error(
        *_fast.find_paths(
            indptr,
            indices,
            data,
            column_to_node,
            tree.parent,
            tree.spans(),
            node,
            matched,
        )
    )
    return node, matched


def path_arrays(
    tree: ContextTree, node: np.ndarray, matched: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CSR arrays (data, indices, indptr) of the paths to the given nodes."""
    node, matched = as_ids("node", node, 1), as_ids("matched", matched, 1)
    check_length("matched", matched, node.size, "one per node")
    check_ids("node", node, 0, tree.n_nodes, "node")
    indptr = np.zeros(node.size + 1, dtype=np.int64)
    np.cumsum(tree.levels()[node] + 1, out=indptr[1:])
    indices = np.empty(indptr[-1], dtype=np.int32)
    data = np.empty(indptr[-1])
    _fast.fill_paths(tree.parent, tree.spans(), node, matched, indptr, indices, data)
    if indptr[-1] <= INT32_MAX:
        indptr = indptr.astype(np.int32)
    return data, indices, indptr


def _path_arrays(X):
    if X.nnz > INT32_MAX:
        raise ValueError(f"X: a path matrix may hold at most {INT32_MAX} entries")
    if not X.has_sorted_indices or not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return (
        np.ascontiguousarray(X.indptr, dtype=np.int32),
        np.ascontiguousarray(X.indices, dtype=np.int32),
        np.ascontiguousarray(X.data, dtype=np.float64),
    )


_PATH_ERRORS = {
    1: "does not start at column 0, the root",
    2: "is not a path: a column has another parent column than in an earlier row",
    3: (
        "has a value below 1, or another value than the same column in an earlier row "
        "(rows that match a part of a merged edge cannot be trained on)"
    ),
    4: "has a value larger than the number of suffixes that its column merges",
    5: "has another value than 1, or several entries, in column 0, the root",
}


def _raise_path_error(row, code):
    if code:
        raise ValueError(
            f"sparse X is not a path matrix: row {row} {_PATH_ERRORS[code]}. Pass the "
            "output of SuffixTreeVectorizer unchanged, or a dense array of context "
            "windows"
        )
