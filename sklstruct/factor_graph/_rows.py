"""Rows of features as CSR arrays, and checks of matrices given by the user."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._checks import (
    as_numbers,
    check_ids,
    check_length,
    check_pointers,
    check_sparse,
    check_squares,
)


class FeatureRows(NamedTuple):
    """A sparse matrix: entries ptr[i] ... ptr[i + 1] - 1 belong to row i."""

    ptr: np.ndarray
    column: np.ndarray
    value: np.ndarray
    width: int

    @classmethod
    def of(cls, matrix: Any) -> FeatureRows:
        """Create rows from a CSR array of float64."""
        ptr, column = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
        return cls(ptr, column, matrix.data, matrix.shape[1])

    @property
    def n_rows(self) -> int:
        return self.ptr.size - 1


def empty_rows(n_rows: int, width: int = 0) -> FeatureRows:
    """Rows without entries."""
    return FeatureRows(
        np.zeros(n_rows + 1, dtype=np.int64),
        np.empty(0, dtype=np.int32),
        np.empty(0, dtype=np.float64),
        width,
    )


def constant_rows(n_rows: int) -> FeatureRows:
    """One feature that is 1 everywhere."""
    return FeatureRows(
        np.arange(n_rows + 1, dtype=np.int64),
        np.zeros(n_rows, dtype=np.int32),
        np.ones(n_rows),
        1,
    )


def check_rows(rows: FeatureRows, name: str, n_rows: int) -> None:
    """ValueError unless the arrays fit each other and the number of rows."""
    check_length(f"{name}.ptr", rows.ptr, n_rows + 1, "one per row and the end")
    check_pointers(f"{name}.ptr", rows.ptr, rows.column.size)
    check_length(f"{name}.value", rows.value, rows.column.size, "one per entry")
    check_ids(f"{name}.column", rows.column, 0, rows.width, "column")


def as_rows(matrix: Any, n_rows: int, name: str, row: str) -> FeatureRows:
    """A dense or sparse matrix of n_rows rows, checked; row: its name in errors."""
    if isinstance(matrix, FeatureRows):  # from a pickle
        check_rows(matrix, name, n_rows)
        return matrix
    check_sparse(matrix, name)
    if not sp.issparse(matrix):
        matrix = as_numbers(name, matrix, "a matrix of numbers")
        if matrix.ndim != 2:
            raise ValueError(
                f"{name} must have 2 dimensions (a row for each {row}), got "
                f"{matrix.ndim}"
            )
    elif matrix.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be a matrix of numbers, got {matrix.dtype}")
    if matrix.shape[0] != n_rows:
        raise ValueError(
            f"{name} must have {n_rows} rows, one for each {row}, got {matrix.shape[0]}"
        )
    matrix = sp.csr_array(matrix, dtype=np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        bad = np.flatnonzero(~np.isfinite(matrix.data))[0]
        at = int(np.searchsorted(matrix.indptr, bad, side="right")) - 1
        raise ValueError(f"{name} has NaN or infinity in the row of {row} {at}")
    check_squares(matrix, name=name)
    return FeatureRows.of(matrix)


def as_stacked_rows(
    matrices: Any, sizes: np.ndarray, name: str, owner: str, row: str
) -> FeatureRows:
    """Stack a matrix per owner, or check one matrix of all rows.

    sizes: number of rows of each owner. A table of pairs may have three dimensions.
    """
    whole = isinstance(matrices, FeatureRows) or sp.issparse(matrices)
    if whole or (isinstance(matrices, np.ndarray) and matrices.ndim == 2):
        return as_rows(matrices, int(sizes.sum()), name, row)
    try:
        matrices = list(matrices)
    except TypeError as exc:
        raise ValueError(f"{name} must be a matrix or a list of matrices") from exc
    if len(matrices) != sizes.size:
        raise ValueError(
            f"{name} must have one matrix for each {owner}, {sizes.size} in all, got "
            f"{len(matrices)}"
        )
    blocks: list[Any] = []
    for i, (block, size) in enumerate(zip(matrices, sizes.tolist())):
        label = f"{name}, {owner} {i}"
        check_sparse(block, label)
        if not sp.issparse(block):
            block = as_numbers(label, block, "a matrix of numbers")
            if block.ndim == 3:
                block = block.reshape(block.shape[0] * block.shape[1], -1)
        if block.ndim != 2 or block.shape[0] != size:
            raise ValueError(
                f"{label}: must have {size} rows, got an array of shape {block.shape}"
            )
        blocks.append(block)
        if block.shape[1] != blocks[0].shape[1]:
            raise ValueError(
                f"{label}: has {block.shape[1]} features, {owner} 0 has "
                f"{blocks[0].shape[1]}"
            )
    stacked: Any = np.empty((0, 0))
    if any(map(sp.issparse, blocks)):
        stacked = sp.vstack([sp.csr_array(b) for b in blocks], format="csr")
    elif blocks:
        stacked = np.concatenate(blocks)
    return as_rows(stacked, int(sizes.sum()), name, row)


def take(rows: FeatureRows, start: int, end: int) -> FeatureRows:
    """Rows start ... end - 1, sharing memory."""
    first, last = rows.ptr[start], rows.ptr[end]
    return FeatureRows(
        rows.ptr[start : end + 1] - first,
        rows.column[first:last],
        rows.value[first:last],
        rows.width,
    )
