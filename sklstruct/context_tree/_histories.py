"""Histories: samples as offsets into one flat array of symbol ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..symbols._encoding import sliding_base
from . import _tree_fast as _fast


class Histories(NamedTuple):
    """n samples as offsets into one flat array of symbol ids.

    The k-th most recent symbol of sample i is ``flat[offset[i] - k]``; an id of
    -1 (or the start of the array) ends the history, and ``length[i]`` says how
    many symbols are read.
    """

    flat: np.ndarray  # (n_tokens,) int32
    offset: np.ndarray  # (n_samples,) int64
    length: np.ndarray  # (n_samples,) int32

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.offset.size

    @property
    def depth(self) -> int:
        """Length of the longest context."""
        return int(self.length.max(initial=0))

    def column(self, k: int) -> np.ndarray:
        """(n_samples,) int32: the k-th most recent symbols, -1 beyond the history."""
        symbol = np.empty(self.n_samples, dtype=np.int32)
        _fast.column(self.flat, self.offset, self.length, k, symbol)
        return symbol

    def check(self, n_symbols: int | None = None) -> None:
        """ValueError unless every read stays within `flat` and below n_symbols."""
        flat, offset, length = self
        if not (flat.dtype == np.int32 and flat.ndim == 1 and flat.flags.c_contiguous):
            raise ValueError("histories.flat must be a contiguous 1-D int32 array")
        if offset.shape != length.shape or offset.ndim != 1:
            raise ValueError("histories.offset and .length must be of one length")
        if offset.size and (
            length.min() < 0 or (offset - length).min() < 0 or offset.max() > flat.size
        ):
            raise ValueError("a history reaches outside of histories.flat")
        if n_symbols is not None and flat.size and flat.max() >= n_symbols:
            raise ValueError(
                f"histories hold the symbol id {flat.max()}, but n_symbols={n_symbols}"
            )

    @classmethod
    def from_tokens(cls, tokens: Any, positions: Any, max_depth: int) -> Histories:
        """Histories of the given positions of one token stream."""
        flat = np.ascontiguousarray(tokens, dtype=np.int32)
        offset = np.ascontiguousarray(positions, dtype=np.int64)
        if offset.size and not (0 <= offset.min() and offset.max() <= flat.size):
            raise ValueError("positions must lie within the token stream")
        length = np.empty(offset.size, dtype=np.int32)
        _fast.history_lengths(flat, offset, max_depth, length)
        return cls(flat, offset, length)

    @classmethod
    def from_windows(cls, windows: np.ndarray, max_depth: int) -> Histories:
        """Histories of the rows of a 2-D array, last column most recent.

        A sliding-window view is read in place: its rows overlap in one
        underlying array, which is used as the token stream.
        """
        n, width = windows.shape
        depth = min(max_depth, width)
        base = sliding_base(windows)
        if base is not None:
            flat, stride = base, 1
        else:
            # The oldest columns are not read when max_depth < width.
            flat = np.ascontiguousarray(windows[:, width - depth :]).ravel()
            stride = width = depth
        offset = np.arange(n, dtype=np.int64) * stride + width
        return cls.from_tokens(flat, offset, depth)

    def select(self, keep: Any) -> Histories:
        """The samples for which the boolean array `keep` holds."""
        return Histories(
            self.flat,
            np.ascontiguousarray(self.offset[keep]),
            np.ascontiguousarray(self.length[keep]),
        )


class HistoryColumns(NamedTuple):
    """n samples whose symbols are computed by a function, one column at a time.

    For contexts that are computed from other contexts: all columns at once may need
    more memory than the tree.
    """

    make: Callable[[int], np.ndarray]  # k -> (n_samples,) int32 as `Histories.column`
    n_samples: int
    depth: int

    def check(self, n_symbols: int | None = None) -> None:
        """Do nothing: `column` checks each column."""

    def column(self, k: int) -> np.ndarray:
        """The k-th symbols of all samples, -1 beyond the history."""
        symbol = self.make(k)
        if symbol.shape != (self.n_samples,) or symbol.dtype != np.int32:
            raise ValueError("columns must be int32 arrays of n_samples symbols")
        return symbol

    def windows(self) -> np.ndarray:
        """(n_samples, depth) int32: all columns in reverse order."""
        windows = np.empty((self.n_samples, self.depth), dtype=np.int32)
        for k in range(1, self.depth + 1):
            windows[:, -k] = self.column(k)
        return windows
