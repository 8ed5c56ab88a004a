"""Encoding of symbols of any dtype as ids."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np

from .._checks import INT32_MAX, as_ids, strings_as_objects
from .._parallel import row_blocks
from ._strings_fast import StringTable, decode_strings

Packed = tuple[np.ndarray, np.ndarray]

DATES = np.datetime64, np.timedelta64

# Number of symbols that are looked up at a time.
_IN_CACHE = 1 << 16


def is_nan(value: Any) -> bool:
    """True for a float NaN, whatever its type; False for anything else."""
    try:
        return bool(np.isnan(value))
    except (TypeError, ValueError):  # not a number, or many
        return False


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA, which mark missing values."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # NA is neither equal nor unequal to itself; pandas is optional
        return type(value).__name__ == "NAType"
    except ValueError:  # an array
        return False


def object_array(symbols: Any) -> np.ndarray:
    """1-D object array of any symbols; numpy would take tuples for rows."""
    return np.fromiter(symbols, dtype=object)


class LabelLists(list):
    """A list of lists of labels that numpy converts to a one-dimensional object array.

    The metrics of sequences take lists; `cross_val_predict` concatenates the
    predictions of folds as arrays.
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return object_array(self)


def pack_strings(values: list[str], errors: str = "strict") -> Packed:
    """Strings as one array of UTF-8 bytes, and the end of each string in the array."""
    try:
        parts = list(map(str.encode, values))
    except UnicodeEncodeError:
        parts = [value.encode("utf-8", errors) for value in values]
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    return np.frombuffer(b"".join(parts), dtype=np.uint8), np.cumsum(sizes)


def unpack_strings(name: str, packed: Packed, errors: str = "strict") -> np.ndarray:
    """The strings as an array of objects, or a ValueError that says what is wrong."""
    data = as_ids(name, packed[0], 1, np.uint8)
    ends = as_ids(f"the ends of {name}", packed[1], 1, np.int64)
    try:
        # what is behind the last end must be text, too
        ends = np.append(ends, data.size)
        return object_array(decode_strings(data, ends, errors)[:-1])
    except ValueError as exc:
        raise ValueError(
            f"the ends of {name} are not those of characters, or the text is not "
            f"UTF-8: {exc}"
        ) from exc


def label_array(values: Any) -> np.ndarray:
    """An array of labels; an object array if numpy would convert mixed types."""
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "to_pylist"):  # of Arrow, whose to_numpy refuses strings
        values = values.to_pylist()
    elif hasattr(values, "to_numpy"):
        return values.to_numpy()
    values = values if isinstance(values, list | tuple) else list(values)
    array = np.asarray(values)
    if array.dtype.kind in "US":
        # A list that mixes strings with None or numbers must not become strings.
        return np.asarray(values, dtype=object)
    return array


def check_ends(name: str, strings: Iterable) -> None:
    """ValueError for a string that ends with NUL; values that are not strings pass."""
    try:
        strings = list(strings)
        text = "".join(strings)
    except TypeError:
        return
    if "\0" in text:
        for string in strings:
            if string.endswith("\0"):
                raise ValueError(
                    f"{name}: {string!r:.60} ends with NUL, which arrays of NumPy "
                    "lose; replace it"
                )


def mixed_as_objects(y: Any, name: str = "y") -> Any:
    """A list of strings and other values as an array of objects, because NumPy would
    convert the other values to strings. Other y keep their values. ValueError for
    strings and integers that NumPy would change."""
    if isinstance(y, list | tuple):
        check_ends(name, y)
        kinds = {*map(type, y)}
        if kinds == {int} and (y := np.asarray(y)).dtype.kind not in "iu":
            raise ValueError(
                f"{name} holds integers beyond int64; use [*map(str, {name})]"
            )
        return object_array(y) if len({issubclass(k, str) for k in kinds}) > 1 else y
    return y


def check_missing(labels: np.ndarray) -> None:
    """ValueError if labels (n,) are missing."""
    gone: Any = ()
    if labels.dtype.kind in "fmM":
        gone = np.flatnonzero(labels != labels)
    elif labels.dtype == object and not {*map(type, labels)} <= {str}:
        gone = [i for i, label in enumerate(labels) if is_missing(label)]
    if len(gone):
        raise ValueError(
            f"y[{gone[0]}] is missing ({labels[gone[0]]}): every sample needs "
            f"a label; {len(gone)} of {labels.size} labels are missing"
        )


def check_strings(labels: np.ndarray) -> None:
    """Errors for labels (n,) that are objects and not strings; TypeError for a mix."""
    kinds = {*map(type, labels)} if labels.dtype == object else set()
    if not all(issubclass(kind, str) for kind in kinds):
        learn_symbols(labels, name="y")
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(
            f"Unknown label type: y of dtype object must hold strings, and holds "
            f"{names}: use y.astype(int), or y.astype(str)"
        )


def plain(symbol: Any) -> Any:
    """A symbol as Python writes it: 7 and not np.int64(7)."""
    if not isinstance(symbol, np.generic):
        return symbol
    value = symbol.item()
    # Python has no dates finer than microseconds; they would be numbers.
    finer = type(value) is int and isinstance(symbol, DATES)
    return symbol if finer else value


def plain_items(array: np.ndarray) -> list:
    """The entries of an array as Python writes them; see `plain`."""
    if array.dtype.kind in "mM" and array.ndim == 1:
        return [plain(value) for value in array]
    return array.tolist()


def sliding_base(windows: np.ndarray) -> np.ndarray | None:
    """The 1-D array below a sliding-window view, or None.

    ``sliding_window_view(tokens, w)`` has equal strides on both axes; its rows
    are then read out of `tokens` without making the (n, w) copy.
    """
    n, width = windows.shape
    item = windows.itemsize
    if n < 2 or width < 2 or windows.strides != (item, item):
        return None
    return np.lib.stride_tricks.as_strided(
        windows, shape=(n + width - 1,), strides=(item,), writeable=False
    )


def learn_symbols(
    values: np.ndarray, padding: Any = None, name: str = "X"
) -> np.ndarray:
    """The distinct symbols of an array of any shape, sorted, without the padding.

    Objects must be all strings or all numbers. With the padding None, None is left out.
    `name` is the name of the array in errors.
    """
    flat = _flat(values)
    if flat.dtype.kind == "O":
        return _learn_objects(flat.tolist(), padding, name)
    check_dtype(flat, dates=name != "X")
    symbols = _unique(flat)
    if padding is not None:
        if flat.dtype.kind == "f" and is_nan(padding):
            symbols = symbols[~np.isnan(symbols)]
        elif isinstance(padding, str | bytes) == (flat.dtype.kind in "SU"):
            symbols = symbols[symbols != padding]
    if symbols.size > INT32_MAX:
        raise ValueError(f"{name} holds more than {INT32_MAX} distinct symbols")
    return symbols


def _flat(values):
    """A 1-D array with the same symbols; a sliding-window view gives its base."""
    values = strings_as_objects(values)
    if values.ndim == 1:
        return values
    base = sliding_base(values) if values.ndim == 2 else None
    return np.ascontiguousarray(values).ravel() if base is None else base


def check_dtype(values: np.ndarray, dates: bool = False) -> None:
    """TypeError for values that are not symbols; dates: whether dates may be."""
    if values.dtype.kind not in ("biufSUOmM" if dates else "biufSUO"):
        raise TypeError(
            f"symbols of dtype {values.dtype} are not supported: the argument must be "
            "an array of strings, numbers or booleans"
        )


def _unique(seen):
    """np.unique, by counting where the values are small integers."""
    if seen.dtype.kind in "iu" and seen.size:
        low, high = int(seen.min()), int(seen.max())
        if high - low <= 4 * seen.size:
            present = np.zeros(high - low + 1, dtype=bool)
            for part in row_blocks(seen.size, _IN_CACHE):
                present[_minus(seen[part], low)] = True
            # Subtracting in the wider type keeps e.g. int8 from overflowing.
            wide = np.uint64 if high > np.iinfo(np.int64).max else np.int64
            found = np.flatnonzero(present).astype(wide) + wide(low)
            return found.astype(seen.dtype)
    return np.unique(seen)


def _minus(values, low):
    """values - low as int64, exact for every integer type."""
    if values.dtype == np.uint64 and low >= 0:
        return (values - np.uint64(low)).astype(np.int64)
    return values.astype(np.int64, copy=False) - low


def _learn_objects(values, padding, name):
    try:
        distinct = set(values)
    except TypeError:
        distinct = None
    if distinct is not None:
        distinct = {v for v in distinct if not _is_padding(v, padding)}
    kinds = {type(v) for v in (values if distinct is None else distinct)}
    strings = kinds <= {str, np.str_}
    numbers = all(issubclass(k, int | float | np.number | np.bool_) for k in kinds)
    if distinct is None or not (strings or numbers) or any(map(is_missing, distinct)):
        names = sorted(k.__name__ for k in kinds)
        raise TypeError(
            f"the symbols of {name} must be uniform: the argument must be an array of "
            f"string or of number symbols, got {names}"
            + (
                ". None marks missing history only with padding=None"
                if "NoneType" in names and name == "X"
                else ", of which NaN is not a symbol"
                if numbers
                else ""
            )
        )
    symbols = object_array(sorted(distinct))
    return np.asarray(symbols.tolist()) if numbers else symbols


def _is_padding(value, padding):
    if is_missing(value):  # pandas' NA is neither None nor NaN and stands for both
        other = is_nan(value) if padding is None else value is None
        return (padding is None or is_nan(padding)) and not other
    return padding is not None and value == padding


def code_ids(code: dict | StringTable, values: list, unknown: int = -1) -> np.ndarray:
    """(n_values,) int32: the numbers of labels in a mapping."""
    if isinstance(code, StringTable):
        return code.ids(values, unknown)
    return np.fromiter(map(code.get, values, repeat(unknown)), np.int32, len(values))


class SymbolIndex:
    """Ids of symbols: the position of each in an array of distinct labels.

    Three ways to look up: a table over the range of small integers (for the ids 0, 1,
    ... no more than a check), bisection in sorted numbers or strings, a mapping for
    objects and for values of another kind than the labels.

    number: the id of each string of a table, negative for a string without id; the last
    entry is for all other labels. None: ids are positions.
    """

    def __init__(
        self, symbols: np.ndarray | StringTable, number: np.ndarray | None = None
    ):
        self._code: dict | StringTable | None = None
        self._table: np.ndarray | None = None
        self._number = number
        if isinstance(symbols, StringTable):
            self._code = symbols
            return
        self.symbols = symbols
        kind = symbols.dtype.kind
        if kind in "biu" and symbols.size:
            low, high = int(symbols.min()), int(symbols.max())
            if high - low <= 4 * symbols.size + 1024:
                self._low = low
                self._table = np.full(high - low + 1, -1, dtype=np.int32)
                self._table[_minus(_integers(symbols), low)] = np.arange(
                    symbols.size, dtype=np.int32
                )

    @property
    def code(self) -> dict | StringTable:
        """label -> position."""
        if self._code is None:
            self._code = dict(zip(self.symbols.tolist(), range(self.symbols.size)))
        return self._code

    @cached_property
    def _in_order(self) -> tuple[np.ndarray, np.ndarray]:
        """(the symbols in order, the position of each among `symbols`)."""
        place = np.argsort(self.symbols, kind="stable").astype(np.int32)
        return self.symbols[place], place

    def id(self, label: Any) -> int:
        """Id of one label, -1 if it is not a symbol."""
        at = self.code.get(label, -1)
        return at if self._number is None or at < 0 else int(self._number[at])

    def ids(self, values: np.ndarray, unknown: int = -1) -> np.ndarray:
        """Ids of an array of labels, of the same shape; a sliding view gives a sliding
        view.

        None and NaN become -1, labels that are not known become `unknown`.
        """
        flat = _flat(values)
        check_dtype(flat, dates=True)
        if (
            flat.dtype.kind == "O"
            or isinstance(self._code, StringTable)
            or self.symbols.dtype.kind == "O"
        ):
            ids = self._from_code(flat, unknown)
        else:
            ids = np.empty(flat.size, dtype=np.int32)
            for part in row_blocks(flat.size, _IN_CACHE):
                ids[part] = self._from_array(flat[part], unknown)
        if flat is values:
            return ids
        if ids.size == values.size:
            return ids.reshape(values.shape)
        return np.lib.stride_tricks.sliding_window_view(ids, values.shape[1])

    def _from_code(self, flat, unknown):
        inverse = None
        if flat.dtype.kind != "O":
            flat, inverse = np.unique(flat, return_inverse=True)
        values = flat.tolist()
        try:
            ids = code_ids(self.code, values, unknown if self._number is None else -1)
        except TypeError as exc:
            raise TypeError(
                "the argument must be an array of string or of number symbols; "
                f"an element of X cannot be one ({exc})"
            ) from exc
        if self._number is not None:
            ids = self._number[ids]
            ids[ids < 0] = unknown
        if unknown != -1:
            ids[np.fromiter(map(is_missing, values), bool, len(values))] = -1
        return ids if inverse is None else ids[inverse.ravel()]

    def _from_array(self, flat, unknown):
        symbols = self.symbols
        if self._table is not None and flat.dtype.kind in "biu":
            return self._from_table(_integers(flat), unknown)
        if symbols.size == 0 or flat.dtype.kind != symbols.dtype.kind:
            # NumPy would compare numbers of two kinds as float64, which merges
            # neighbours above 2**53; Python compares them exactly.
            return self._from_code(flat, unknown)
        symbols, place = self._in_order
        at = np.searchsorted(symbols, flat).astype(np.int32)
        at[at == symbols.size] = 0
        ids = place[at]
        ids[symbols[at] != flat] = unknown
        if flat.dtype.kind == "f":
            ids[np.isnan(flat)] = -1
        return ids

    def _from_table(self, flat, unknown):
        ids = np.full(flat.size, unknown, dtype=np.int32)
        high = self._low + self._table.size - 1
        # Python integers: numpy compares them exactly with every integer type.
        inside = (flat >= self._low) & (flat <= high)
        if inside.all():
            ids = self._table[_minus(flat, self._low)]
        else:
            ids[inside] = self._table[_minus(flat[inside], self._low)]
        if unknown != -1:
            ids[ids == -1] = unknown
        return ids


def _integers(array):
    return array.astype(np.int8) if array.dtype.kind == "b" else array


def encode(values: np.ndarray, symbols: np.ndarray) -> np.ndarray:
    """Positions of labels among `symbols`, int32; -1 where they are not."""
    return SymbolIndex(symbols).ids(values)


def encode_labels(y: np.ndarray, name: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """(ids of labels, -1 for missing ones, the labels in order).

    `name` is the name of y in errors.
    """
    classes = learn_symbols(y, name=name)
    return encode(y, classes), classes
