"""Counts of a text that is larger than memory: runs in files, merged two by two.

A run is the result of `count_tokens` for a part of the text: tree, pairs and counts,
each in its canonical order. Runs are written to files and mapped. A merge is one pass
along two runs into a third file: its data is in the page cache, which the system frees
when it needs memory. Runs of equal size merge first, like the carry of a binary
counter, so every pair is copied O(log runs) times. The last merge writes into memory.

in:   parts of a text, in any order, with one numbering of symbols and classes
out:  the pairs and counts of the whole text, which do not depend on the parts
"""

from __future__ import annotations

import mmap
import os
import secrets
import tempfile
from contextlib import suppress
from typing import Any

import numpy as np

from ._merging import merge_counts
from ._pairs import Pairs, pairs_of_arrays
from ._tree import tree_of_arrays


class _Folder:
    """Arrays in files; a file is freed with the last reference to its array."""

    def __init__(self, path: str) -> None:
        self.path = path

    def empty(self, size: int, dtype: Any = np.float64) -> np.ndarray:
        """An array in a new file, whose space on the disk is reserved."""
        dtype = np.dtype(dtype)
        n_bytes = max(1, int(size) * dtype.itemsize)
        name = os.path.join(self.path, secrets.token_hex(8))
        with open(name, "x+b") as file:
            # A write to a mapped page without space on the disk kills the process.
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, n_bytes)
                else:
                    block = bytes(1 << 20)
                    for at in range(0, n_bytes, len(block)):
                        file.write(block[: n_bytes - at])
                    file.flush()
            except OSError as exc:
                raise OSError(
                    exc.errno,
                    f"{exc.strerror}: no room for {n_bytes} bytes of the counts of the "
                    "text; free some, or give TextFile another folder",
                    name,
                ) from exc
            pages = mmap.mmap(file.fileno(), n_bytes)
        with suppress(OSError):  # POSIX keeps the bytes as long as they are mapped
            os.unlink(name)
        return np.frombuffer(pages, dtype=dtype, count=int(size))

    def keep(self, array: np.ndarray) -> np.ndarray:
        """A copy in a file."""
        out = self.empty(array.size, array.dtype)
        out[:] = array
        return out


class CountRuns:
    """Counts of the parts of a text, on disk.

    ``with CountRuns(folder) as runs: runs.add(pairs, count); ...; runs.finish()``

    Parameters
    ----------
    folder : str or None
        Folder of the files; None: the folder of the system for temporary files.

    Raises
    ------
    OSError
        If the disk has no room.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder_name = folder
        # (pairs, counts, number of parts in it)
        self._runs: list[tuple[Pairs, np.ndarray, int]] = []

    def __enter__(self) -> CountRuns:
        self._temporary = tempfile.TemporaryDirectory(
            prefix="sklstruct-", dir=self._folder_name, ignore_cleanup_errors=True
        )
        self._folder = _Folder(self._temporary.name)
        return self

    def __exit__(self, *_: object) -> None:
        self._runs = []
        self._temporary.cleanup()

    def add(self, pairs: Pairs, count: np.ndarray) -> None:
        """Write the counts of a part, and merge runs of equal size."""
        keep = self._folder.keep
        tree = pairs.tree
        tree = tree_of_arrays(
            keep(tree.parent),
            keep(tree.symbol),
            tree.level_ptr,
            tree.n_symbols,
        )
        pairs = pairs_of_arrays(
            tree, keep(pairs.ptr), keep(pairs.target), keep(pairs.parent)
        )
        self._runs.append((pairs, keep(count), 1))
        while len(self._runs) > 1 and self._runs[-1][2] >= self._runs[-2][2]:
            self._merge_last(self._folder.empty)

    def _merge_last(self, empty):
        (*a, n_a), (*b, n_b) = self._runs[-2:]
        merged = merge_counts(a, b, empty=empty, scratch=self._folder.empty)
        self._runs[-2:] = [(merged.pairs, merged.total, n_a + n_b)]

    def finish(self) -> tuple[Pairs, np.ndarray]:
        """The pairs and counts of all parts, in memory."""
        while len(self._runs) > 2:
            self._merge_last(self._folder.empty)
        if len(self._runs) == 2:
            self._merge_last(np.empty)
            pairs, count, _ = self._runs.pop()
            return pairs, count
        pairs, count, _ = self._runs.pop()
        tree = pairs.tree
        tree = tree_of_arrays(
            tree.parent.copy(), tree.symbol.copy(), tree.level_ptr, tree.n_symbols
        )
        return (
            pairs_of_arrays(
                tree, pairs.ptr.copy(), pairs.target.copy(), pairs.parent.copy()
            ),
            count.copy(),
        )
