"""Sequences of observations with named features, as chains."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._checks import check_squares
from ._builders import chain_graph
from ._graph import FactorGraph
from ._rows import FeatureRows, empty_rows, take


class _Growing(dict):
    """Name -> number, in the order in which names are first asked for."""

    def __missing__(self, name: Any) -> int:
        self[name] = number = len(self)
        return number


class Names:
    """Numbers of the names of features: first come first, then in sorted order."""

    def __init__(self) -> None:
        self._known = _Growing()
        self.number = self._known.__getitem__

    def finish(self) -> tuple[dict[str, int], np.ndarray]:
        """(the column of each name, the column of each number)."""
        for name in self._known:
            if not isinstance(name, str):
                raise ValueError(
                    f"X has the feature name {name!r} ({type(name).__name__}); names "
                    "of features must be strings"
                )
        names = sorted(self._known)
        new = np.empty(len(names), dtype=np.int64)
        new[[self._known[name] for name in names]] = np.arange(len(names))
        return dict(zip(names, range(len(names)))), new


def learn_columns(X: Sequence) -> tuple[list[FeatureRows], dict[str, int]]:
    """Rows of each sequence, and the column of each name; names are sorted."""
    names = Names()
    sizes, rows = _read(X, names.number)
    columns, new = names.finish()
    return _split(sizes, rows, new, len(new)), columns


def find_columns(X: Sequence, columns: Mapping[str, int]) -> list[FeatureRows]:
    """Rows of each sequence; names that are not among the columns are left out."""
    get = columns.get
    sizes, rows = _read(X, lambda name: get(name, -1))
    return _split(sizes, rows, np.arange(len(columns)), len(columns))


def chains(
    rows: list[FeatureRows], values: Sequence, joined: bool = True
) -> list[FactorGraph]:
    """A chain of each sequence, its variables with all the values.

    joined: False leaves out the edges.
    """
    values = tuple(values)
    shapes: dict[int, FactorGraph] = {}  # by length: one is checked for all
    for row in rows:
        if row.n_rows not in shapes:
            nothing = empty_rows(row.n_rows)
            shapes[row.n_rows] = (
                chain_graph(values, nothing)
                if joined
                else FactorGraph([values] * row.n_rows, features=nothing)
            )
    return [shapes[row.n_rows].with_rows(row) for row in rows]


def _read(
    X: Sequence, find: Callable[[Any], int]
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Lengths of the sequences; features of each item, their columns and values."""
    sequences = [_items(i, sequence) for i, sequence in enumerate(X)]
    lengths = np.array([len(items) for items in sequences], dtype=np.int64)

    def owner(item: int) -> str:
        i = int(np.searchsorted(np.cumsum(lengths), item, side="right"))
        return f"X[{i}], item {item - int(lengths[:i].sum())}"

    return lengths, read_items(chain.from_iterable(sequences), find, owner)


def read_items(
    items: Iterable, find: Callable[[Any], int], owner: Callable[[int], str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(features per item, their columns, their values).

    Parameters
    ----------
    items : iterable of mappings or iterables of names

    find : callable
        The column of a name, -1 for none.

    owner : callable
        Names an item in an error message.
    """
    per_item: list[int] = []
    column: list[int] = []
    value: list[float] = []
    for t, item in enumerate(items):
        before = len(column)
        try:
            if isinstance(item, (dict, Mapping)):  # a dict is known at once
                _add_named("", item, find, column, value)
            elif isinstance(item, (str, bytes)):
                raise TypeError("a single string is ambiguous: make it [string]")
            else:
                column.extend(map(find, item))
                value.extend([1.0] * (len(column) - before))
        except TypeError as exc:
            raise ValueError(
                f"{owner(t)}: must be a mapping from names of features to values or "
                f"an iterable of names, got {item!r:.60} ({exc})"
            ) from exc
        per_item.append(len(column) - before)
    return (
        np.array(per_item, dtype=np.int64),
        np.array(column, dtype=np.int64),
        np.array(value, dtype=np.float64),
    )


def _items(i: int, sequence: Any) -> Sequence:
    if isinstance(sequence, FactorGraph):
        raise ValueError(
            f"X[{i}] is a FactorGraph and X[0] a sequence of observations; X must "
            "hold one or the other"
        )
    if isinstance(sequence, (str, bytes, Mapping)):
        raise ValueError(
            f"X[{i}] must be a sequence of observations, each a mapping or an "
            f"iterable of names of features, got {type(sequence).__name__}"
        )
    try:
        return list(sequence)
    except TypeError as exc:
        raise ValueError(
            f"X[{i}] must be a FactorGraph or a sequence of observations, got "
            f"{type(sequence).__name__}"
        ) from exc


def _add_named(
    prefix: str, item: Mapping, find: Callable, column: list[int], value: list[float]
) -> None:
    """The features of a mapping; names of those of an inner one get the outer name."""
    for key, x in item.items():
        if not isinstance(key, str):
            raise TypeError(f"the name {key!r} is no string")
        name = prefix + key
        if isinstance(x, str):
            column.append(find(f"{name}={x}"))
            value.append(1.0)
        elif isinstance(x, (float, int, numbers.Real, np.bool_)):
            column.append(find(name))
            value.append(float(x))
        elif isinstance(x, Mapping):
            _add_named(f"{name}:", x, find, column, value)
        elif x is None:
            raise TypeError(f"the value of {name!r} is None; leave the feature out")
        else:
            _add_several(name, x, find, column, value)


def _add_several(
    name: str, x: Iterable, find: Callable, column: list[int], value: list[float]
) -> None:
    for part in x:
        if not isinstance(part, str):
            raise TypeError(f"the values of {name!r} must be strings, got {part!r}")
        column.append(find(f"{name}={part}"))
        value.append(1.0)


def _split(
    lengths: np.ndarray,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    new: np.ndarray,
    width: int,
) -> list[FeatureRows]:
    """The rows of each sequence: entries sorted and summed, unknown ones left out."""
    per_item, column, value = rows
    ends = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    if not np.isfinite(value).all():
        bad = np.flatnonzero(~np.isfinite(value))[0]
        at = int(np.searchsorted(np.cumsum(per_item), bad, side="right"))
        i = int(np.searchsorted(ends, at, side="right")) - 1
        raise ValueError(
            f"X[{i}], item {at - ends[i]}: the value of a feature is NaN or infinite"
        )
    check_squares(value)
    item = np.repeat(np.arange(per_item.size), per_item)
    every = rows_of_entries(item, column, value, new, (per_item.size, width))
    return [take(every, a, b) for a, b in pairwise(ends)]


def rows_of_entries(
    row: np.ndarray,
    column: np.ndarray,
    value: np.ndarray,
    new: np.ndarray,
    shape: tuple[int, int],
) -> FeatureRows:
    """Rows of entries: sorted and summed, those of column -1 left out.

    new: the column of each number in `column`.
    """
    known = column >= 0
    matrix = sp.csr_array((value[known], (row[known], new[column[known]])), shape=shape)
    return FeatureRows.of(matrix)
