"""Texts as UTF-8: from lists of strings, and from the buffers of Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._checks import INT32_MAX
from ..symbols import is_missing, plain_list, unpack_strings
from ._arrow_fast import ArrowStrings, gather
from ._letters_fast import letters_to_bytes

# Letters that are read at a time: the arrays of a block stay in the cache.
_BLOCK = 1 << 17

# Texts may hold lone surrogates, and so may their words, n-grams and labels.
ERRORS = "surrogatepass"


class Texts:
    """Texts in memory, and the size of each: in letters, or in bytes of UTF-8."""

    sizes: np.ndarray

    def __len__(self) -> int:
        return self.sizes.size

    def __getitem__(self, rows: Any) -> Texts:
        """Some texts, by a slice or their numbers."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        for part in blocks(self):
            yield from unpack_strings("X", self[part].packed(), ERRORS).tolist()

    def packed(self) -> tuple[np.ndarray, np.ndarray]:
        """The texts in UTF-8, one after the other, and the end of each."""
        raise NotImplementedError


class ListedTexts(Texts):
    """A list of strings."""

    def __init__(self, texts: list[str], sizes: np.ndarray | None = None) -> None:
        self.texts = texts
        n = len(texts)
        self.sizes = (
            np.fromiter(map(len, texts), np.int64, n) if sizes is None else sizes
        )

    def __getitem__(self, rows: Any) -> Texts:
        if isinstance(rows, slice):
            return ListedTexts(self.texts[rows], self.sizes[rows])
        return ListedTexts([self.texts[i] for i in rows.tolist()], self.sizes[rows])

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def packed(self) -> tuple[np.ndarray, np.ndarray]:
        data = np.frombuffer("".join(self.texts).encode("utf-8", ERRORS), np.uint8)
        ends = np.cumsum(self.sizes)
        if ends.size and ends[-1] < data.size:
            letters_to_bytes(data, ends)
        return data, ends


class ArrowTexts(Texts):
    """Strings in the buffers of Arrow: the address of each, and its size in bytes."""

    def __init__(self, address: np.ndarray, sizes: np.ndarray, owner: Any) -> None:
        self.address, self.sizes, self.owner = address, sizes, owner

    @classmethod
    def of(cls, column: Any) -> ArrowTexts | None:
        """The strings of an Arrow column; None for objects of another kind."""
        kind = getattr(column, "dtype", None)
        if hasattr(kind, "pyarrow_dtype") or getattr(kind, "storage", "") == "pyarrow":
            # a Series of pandas, or its array
            column = getattr(column, "array", column).__arrow_array__()
        elif hasattr(column, "iloc"):  # others, which pandas would convert
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
        return cls(address, sizes, owner)

    def __getitem__(self, rows: Any) -> Texts:
        return ArrowTexts(self.address[rows], self.sizes[rows], self.owner)

    def packed(self) -> tuple[np.ndarray, np.ndarray]:
        ends = np.cumsum(self.sizes)
        data = np.empty(int(ends[-1]) if ends.size else 0, dtype=np.uint8)
        gather(self.address, self.sizes, data)
        # A letter that is cut in two is wrong, though the bytes together are UTF-8.
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


def as_texts(X: Any) -> Texts:
    """X as texts, or a ValueError with the place of what is not a string."""
    if isinstance(X, Texts):
        return X
    if isinstance(X, str | bytes):
        raise ValueError(
            f"X must be a list of texts, got one {type(X).__name__}; use [X]"
        )
    remedy = ""
    texts: Texts | None = None
    if hasattr(X, "columns"):
        remedy = ": pass one column of it, a text in each row"
    elif isinstance(X, set | frozenset):
        remedy = ": its order is not defined; pass a list"
    else:
        texts = ArrowTexts.of(X)
    if texts is None:
        texts = _listed(X, remedy)
    if len(texts) >= INT32_MAX:
        raise ValueError(f"X must have fewer than {INT32_MAX} texts, got {len(texts)}")
    return texts


def _listed(X: Any, remedy: str) -> ListedTexts:
    texts = plain_list(X)
    if remedy or not isinstance(texts, list):
        raise ValueError(f"X must be a list of texts, got {type(X).__name__}{remedy}")
    if set(map(type, texts)) - {str}:
        for i, text in enumerate(texts):
            if isinstance(text, str):
                continue
            what = f"X[{i}] must be a string, got {type(text).__name__}"
            if isinstance(text, bytes):
                raise ValueError(f'{what}; use text.decode("utf-8")')
            if is_missing(text):
                raise ValueError(f'{what}; use "" for a missing text')
            raise ValueError(what)
    return ListedTexts(texts)


def blocks(texts: Texts) -> Iterator[slice]:
    """Slices of texts of about as many letters."""
    ends = np.cumsum(texts.sizes)
    start = 0
    while start < ends.size:
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + _BLOCK, side="right"))
        stop = min(max(stop, start + 1), start + _BLOCK)
        yield slice(start, stop)
        start = stop
