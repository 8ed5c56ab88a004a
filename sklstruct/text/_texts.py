"""Texts as UTF-8, from lists of strings or the buffers of Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._checks import INT32_MAX
from ..symbols import is_missing, plain_list, unpack_strings
from ._arrow_fast import ArrowStrings, gather, string_places

# Bytes per block: large enough that words repeat, and small enough for the cache.
_BLOCK = 1 << 18

# Texts may hold lone surrogates, and so may their words, n-grams and labels.
ERRORS = "surrogatepass"


class Texts:
    """Texts in memory: the address of the UTF-8 of each text, and its size in bytes.

    owner: the object that keeps the bytes in memory. checked: whether the bytes are
    known to be UTF-8, possibly with lone surrogates.
    """

    def __init__(
        self, address: np.ndarray, sizes: np.ndarray, owner: Any, checked: bool
    ) -> None:
        self.address, self.sizes, self.owner = address, sizes, owner
        self.checked = checked

    @classmethod
    def of_list(cls, texts: list[Any]) -> Texts:
        """Texts of a list; a ValueError names the first entry that is not a string."""
        texts = list(texts)  # a copy, which keeps the strings alive
        address, sizes = np.empty(len(texts), np.uint64), np.empty(len(texts), np.int64)
        i = string_places(texts, address, sizes)
        if i < len(texts):
            what = f"X[{i}] must be a string, got {type(texts[i]).__name__}"
            if isinstance(texts[i], bytes):
                raise ValueError(f'{what}; use text.decode("utf-8")')
            if is_missing(texts[i]):
                raise ValueError(f'{what}; use "" for a missing text')
            raise ValueError(what)
        return cls(address, sizes, texts, True)

    @classmethod
    def of_arrow(cls, column: Any) -> Texts | None:
        """The strings of an Arrow column; None for any other object."""
        kind = getattr(column, "dtype", None)
        if hasattr(kind, "pyarrow_dtype") or getattr(kind, "storage", "") == "pyarrow":
            # a Series of pandas, or its array
            column = getattr(column, "array", column).__arrow_array__()
        elif hasattr(column, "iloc"):  # other columns, which pandas would convert
            return None
        if hasattr(column, "__arrow_c_stream__"):
            owner = ArrowStrings(stream=column.__arrow_c_stream__())
        elif hasattr(column, "__arrow_c_array__"):
            owner = ArrowStrings(array=column.__arrow_c_array__())
        else:
            return None
        if not owner.has_strings:
            return None
        address, sizes = np.empty(len(owner), np.uint64), np.empty(len(owner), np.int64)
        owner.places(address, sizes)
        if (sizes < 0).any():
            raise ValueError(
                f"X[{int(np.argmax(sizes < 0))}] must be a string, got null; use "
                '"" for a missing text'
            )
        return cls(address, sizes, owner, False)

    def __len__(self) -> int:
        return self.sizes.size

    def __getitem__(self, rows: Any) -> Texts:
        """Some texts, by a slice or their numbers."""
        return Texts(self.address[rows], self.sizes[rows], self.owner, self.checked)

    def __iter__(self) -> Iterator[str]:
        for part in blocks(self):
            yield from unpack_strings("X", self[part].packed(), ERRORS).tolist()

    def packed(self) -> tuple[np.ndarray, np.ndarray]:
        """The texts in UTF-8, one after the other, and the end of each."""
        ends = np.cumsum(self.sizes)
        data = np.empty(int(ends[-1]) if ends.size else 0, dtype=np.uint8)
        gather(self.address, self.sizes, data)
        if self.checked:
            return data, ends
        # A letter that two texts share is an error, even if all bytes are UTF-8.
        cut = ends[:-1][self.sizes[1:] > 0]
        cut = cut[data[cut] & 0xC0 == 0x80]
        try:
            str(data, "utf-8")  # type: ignore[call-overload]
            end = cut[0] if cut.size else None
        except UnicodeDecodeError as error:
            end = error.start + 1
        if end is not None:
            text = data[:end].tobytes()
            raise ValueError(f"X holds a string that is not UTF-8: {text[-40:]!r} ...")
        return data, ends


def as_texts(X: Any, least: int = 0) -> Texts:
    """X as texts; a ValueError names the first entry that is not a string."""
    if isinstance(X, Texts):
        return X
    if isinstance(X, str | bytes):
        raise ValueError(
            f"X must be a list of texts, got one {type(X).__name__}; use [X]"
        )
    remedy = ""
    texts: Texts | None = None
    if hasattr(X, "columns"):
        name = next(iter(getattr(X, "column_names", X.columns)), "text")
        remedy = (
            f": pass one column, such as X[{name!r}], or in a ColumnTransformer "
            f"{name!r} instead of [{name!r}]"
        )
    elif len(getattr(X, "shape", ())) == 2:
        remedy = ": pass one column, such as X[:, 0]"
    elif isinstance(X, set | frozenset):
        remedy = ": its order is not defined; pass a list"
    else:
        texts = Texts.of_arrow(X)
    if texts is None:
        values = plain_list(X)
        if remedy or not isinstance(values, list):
            raise ValueError(
                f"X must be a list of texts, got {type(X).__name__}{remedy}"
            )
        texts = Texts.of_list(values)
    if len(texts) < least:
        raise ValueError("X must hold at least one text, got an empty list")
    if len(texts) >= INT32_MAX:
        raise ValueError(f"X must have fewer than {INT32_MAX} texts, got {len(texts)}")
    return texts


def blocks(texts: Texts) -> Iterator[slice]:
    """Slices of texts of about `_BLOCK` bytes each."""
    ends = np.cumsum(texts.sizes)
    start = 0
    while start < ends.size:
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + _BLOCK, side="right"))
        stop = min(max(stop, start + 1), start + _BLOCK)
        yield slice(start, stop)
        start = stop
