"""Sequences of observations with named features, as chains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..symbols import refuse_table
from ._builders import chain_graph
from ._features_fast import FeatureReader, refusal
from ._graph import FactorGraph
from ._rows import FeatureRows, empty_rows, take


class Names:
    """Numbers of feature names, in order of occurrence; `finish` sorts the names."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self.reader = FeatureReader(self._known, True)

    def finish(self) -> tuple[dict[str, int], np.ndarray]:
        """(the column of each name, the column of each number)."""
        names = sorted(self._known)
        new = np.empty(len(names), dtype=np.int64)
        new[[self._known[name] for name in names]] = np.arange(len(names))
        return dict(zip(names, range(len(names)))), new


def learn_columns(X: Sequence) -> tuple[np.ndarray, FeatureRows, dict[str, int]]:
    """Lengths of the sequences, rows of all items, the column of each sorted name."""
    names = Names()
    lengths, entries = read_sequences(X, names.reader)
    columns, new = names.finish()
    return lengths, rows_of_entries(*entries, new), columns


def find_columns(
    X: Sequence, columns: dict[str, int]
) -> tuple[np.ndarray, FeatureRows]:
    """As `learn_columns`; names without a column are left out."""
    lengths, entries = read_sequences(X, FeatureReader(columns, False))
    return lengths, rows_of_entries(*entries, np.arange(len(columns)))


def chains(
    lengths: np.ndarray, every: FeatureRows, values: Sequence, joined: bool = True
) -> list[FactorGraph]:
    """A chain for each sequence; each variable has all values.

    joined: False for chains without edges.
    """
    values = tuple(values)
    ends = np.cumsum([0, *lengths]).tolist()
    rows = [take(every, a, b) for a, b in pairwise(ends)]
    shapes: dict[int, FactorGraph] = {}  # by length: one chain per length is checked
    for row in rows:
        if row.n_rows not in shapes:
            nothing = empty_rows(row.n_rows)
            shapes[row.n_rows] = (
                chain_graph(values, nothing)
                if joined
                else FactorGraph([values] * row.n_rows, features=nothing)
            )
    return [shapes[row.n_rows].with_rows(row) for row in rows]


def read_sequences(
    X: Sequence, reader: FeatureReader
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Lengths of the sequences, number of features per item, their columns and
    values."""
    sequences = [as_items(i, sequence) for i, sequence in enumerate(X)]
    lengths = np.array([len(items) for items in sequences], dtype=np.int64)

    def owner(item: int) -> str:
        i = int(np.searchsorted(np.cumsum(lengths), item, side="right"))
        return f"X[{i}], item {item - int(lengths[:i].sum())}"

    return lengths, read_items(chain.from_iterable(sequences), reader, owner)


def read_items(
    items: Iterable, reader: FeatureReader, owner: Callable[[int], str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features per item, their columns, their values).

    items: as `ConditionalRandomField` takes observations.
    reader: a new reader with the columns of the names.
    owner: names an item in an error message.
    """
    per_item: list[int] = []
    for t, item in enumerate(items):
        try:
            per_item.append(reader.add(item))
        except (TypeError, OverflowError, ValueError) as exc:
            raise refusal(owner(t), item, exc) from exc
    return np.array(per_item, dtype=np.int64), *reader.entries()


def as_items(owner: int | str, sequence: Any) -> list:
    """The items of a sequence, in a new list.

    owner: name of the sequence in an error message, or its index in X
    """
    if type(sequence) in (list, tuple):  # fast path for valid input
        return list(sequence)
    name = owner if isinstance(owner, str) else f"X[{owner}]"
    if isinstance(sequence, FactorGraph):
        raise ValueError(
            f"{name} is a FactorGraph and X[0] a sequence of observations; X must "
            "hold one or the other"
        )
    if isinstance(sequence, (str, bytes, Mapping)):
        raise ValueError(
            f"{name} must be a sequence of observations, each a mapping or an "
            f"iterable of names of features, got {type(sequence).__name__}"
        )
    refuse_table(name, sequence)
    try:
        return list(sequence)
    except TypeError as exc:
        raise ValueError(
            f"{name} must be a FactorGraph or a sequence of observations, got "
            f"{type(sequence).__name__}"
        ) from exc


def rows_of_entries(
    per_row: np.ndarray, column: np.ndarray, value: np.ndarray, new: np.ndarray
) -> FeatureRows:
    """Rows of entries, sorted and summed, without entries of column -1.

    new: the column of each number in `column`.
    """
    ends = np.concatenate([[0], np.cumsum(per_row)])
    known = column >= 0
    if not known.all():
        ends = np.concatenate([[0], np.cumsum(known)])[ends]
        column, value = column[known], value[known]
    index = np.int32 if column.size < 2**31 else np.int64
    matrix = sp.csr_array(
        (value, new.astype(index)[column], ends.astype(index)),
        shape=(per_row.size, len(new)),
    )
    matrix.sum_duplicates()
    return FeatureRows.of(matrix)
