"""Counts in files: the runs of a text that is larger than memory, and their merge.

A run has the counts of a part of the text, level by level in the canonical order: the
nodes, the classes of their pairs, and the counts. The only numbers in the files that
grow with the text are the parents of nodes, which have 64 bits. One merge reads all
runs block by block and writes the counts of the whole text; see `_merge_fast`.

in:   parts of a text, in any order, with one numbering of symbols and classes
out:  the pairs and counts of the whole text, which do not depend on the parts
"""

from __future__ import annotations

import mmap
import pickle
import tempfile
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._files import raise_if_full
from . import _merge_fast as _merge
from ._merging import node_blocks, read_nodes
from ._pairs import Pairs, pairs_of_arrays
from ._streams_fast import NODE, Streams

# Bytes of a written block, and of all blocks of a kernel together; number of runs that
# are merged at once, each of which is an open file.
_BLOCK, _BLOCKS = 1 << 16, 1 << 24
_MOST_RUNS = 64


class Spill:
    """A temporary file of columns, without a name, so that no file is left behind."""

    def __init__(self, folder: str | None) -> None:
        self._folder = tempfile.gettempdir() if folder is None else folder
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        self._size = 0
        # Threads read the columns of a file at once, each at its position.
        self._lock = threading.Lock()

    def __del__(self) -> None:
        # The last column closes the file. `_file` is missing if `__init__` failed, as
        # in a folder that was removed.
        if "_file" in vars(self):
            self._file.close()

    def column(self, dtype: Any, arrays: Iterable[np.ndarray] = ()) -> Column:
        """A new column, of the entries of some arrays."""
        column = Column(self, np.dtype(dtype))
        for array in arrays:
            column.append(array)
        return column

    def write(self, data: memoryview) -> int:
        """Write some bytes; returns their position.

        OSError, with the folder, if the disk has no room.
        """
        at = self._size
        try:
            self._file.seek(at)
            while len(data):
                n = self._file.write(data)
                data = data[n:]
                self._size += n
        except OSError as exc:
            raise_if_full(exc, f"more than {self._size} bytes", self._folder)
            raise
        return at

    def map(self, n_bytes: int) -> mmap.mmap:
        """Zeros at the end of the file, mapped into memory.

        n_bytes: a multiple of 2 MB, and so is the size of the file.
        """
        at, zeros = self._size, memoryview(bytes(1 << 21))
        # Zeros are written, because a sparse file would crash the process on a full
        # disk.
        for _ in range(n_bytes // len(zeros)):
            self.write(zeros)
        return mmap.mmap(self._file.fileno(), n_bytes, offset=at)

    def read_into(self, at: int, data: memoryview) -> None:
        """Fill a buffer with the bytes at a position."""
        with self._lock:
            self._file.seek(at)
            while len(data):
                n = self._file.readinto(data)
                if not n:
                    raise OSError(
                        f"a temporary file of counts in {self._folder} is cut"
                    )
                data = data[n:]


class Column:
    """An array in a file, to which entries can be appended; see `Spill.column`."""

    def __init__(self, file: Spill, dtype: np.dtype) -> None:
        self._file, self.dtype = file, dtype
        # Pieces of the file: their positions, and the entries before each.
        self._at: list[int] = []
        self._before = [0]

    @property
    def size(self) -> int:
        """Number of entries."""
        return self._before[-1]

    def append(self, array: np.ndarray) -> None:
        """Add entries."""
        if array.size:
            data = np.ascontiguousarray(array, dtype=self.dtype).view(np.uint8)
            self._at.append(self._file.write(data.data))
            self._before.append(self.size + array.size)

    def read(self, start: int, stop: int, out: np.ndarray | None = None) -> np.ndarray:
        """The entries from `start` to `stop`, which may be written into an array."""
        if out is None:
            out = np.empty(stop - start, dtype=self.dtype)
        data, width, at = out.view(np.uint8).data, self.dtype.itemsize, start
        piece = bisect_right(self._before, start) - 1
        while at < stop:
            last = min(stop, self._before[piece + 1])
            self._file.read_into(
                self._at[piece] + (at - self._before[piece]) * width,
                data[(at - start) * width : (last - start) * width],
            )
            at, piece = last, piece + 1
        return out

    def part(self, start: int, stop: int) -> Column:
        """The entries from `start` to `stop`, in the same file."""
        part, width = Column(self._file, self.dtype), self.dtype.itemsize
        first = bisect_right(self._before, start) - 1
        last = bisect_left(self._before, stop)
        if start < stop:
            part._at = self._at[first:last]
            part._at[0] += (start - self._before[first]) * width
            part._before = [0, *(b - start for b in self._before[first + 1 : last])]
            part._before.append(stop - start)
        return part

    def blocks(self, n_bytes: int = _BLOCK) -> Iterator[np.ndarray]:
        """The entries in order, in blocks that reuse the same memory."""
        n = max(1, n_bytes // self.dtype.itemsize)
        block = np.empty(min(n, self.size), dtype=self.dtype)
        for at in range(0, self.size, n):
            last = min(at + n, self.size)
            yield self.read(at, last, block[: last - at])


class Stored:
    """A picklable object, whose arrays are stored in a temporary file."""

    def __init__(self, x: Any, folder: str | None) -> None:
        arrays: list[pickle.PickleBuffer] = []
        self._rest = pickle.dumps(x, protocol=5, buffer_callback=arrays.append)
        file = Spill(folder)
        self._arrays = [
            file.column(np.uint8, [np.frombuffer(array.raw(), dtype=np.uint8)])
            for array in arrays
        ]

    def load(self) -> Any:
        """A copy of the object in memory."""
        arrays = [column.read(0, column.size) for column in self._arrays]
        return pickle.loads(self._rest, buffers=arrays)


class Level(NamedTuple):
    """The nodes of one level, their pairs, and the counts of these, in files."""

    nodes: Column  # of NODE
    target: Column  # of int32
    counts: Column  # of float64
    # Number of the first node, which is not 0 in a range of contexts: parents have the
    # numbers of the whole run.
    first: int = 0

    @classmethod
    def empty(cls, file: Spill, first: int = 0) -> Level:
        """A level without nodes."""
        columns = file.column(NODE), file.column(np.int32), file.column(np.float64)
        return cls(*columns, first)


class RunFile(NamedTuple):
    """Counts in a file."""

    levels: list[Level]
    n_symbols: int

    @classmethod
    def of_pairs(cls, pairs: Pairs, count: np.ndarray, folder: str | None) -> RunFile:
        """Write counts to a file."""
        file = Spill(folder)
        levels = [
            Level(
                file.column(NODE, node_blocks(pairs, k)),
                file.column(np.int32, [pairs.target[pairs.level(k)]]),
                file.column(np.float64, [count[pairs.level(k)]]),
            )
            for k in range(pairs.tree.n_levels)
        ]
        return cls(levels, pairs.tree.n_symbols)

    def columns(self) -> list[Column]:
        """The columns, level by level."""
        return [column for level in self.levels for column in level[:3]]

    def places(self, prefixes: Sequence[tuple[int, ...]]) -> tuple[np.ndarray, ...]:
        """The positions at which ranges of contexts begin and end, for `range`.

        Numbers of nodes and pairs of each level, (n_levels, 2, n), before a range that
        begins, and that ends, with each of the prefixes, which are in their order (see
        `_shards`). The contexts above the prefix are in both ranges.
        """
        length = np.array([len(prefix) for prefix in prefixes])
        begin, end = np.zeros((2, len(self.levels), 2, length.size), dtype=np.int64)
        above = np.ones(length.size, dtype=bool)  # whether the run has that context
        for k, level in enumerate(self.levels[1:], 1):
            symbol = [prefix[k - 1] if k <= len(prefix) else 0 for prefix in prefixes]
            key = begin[k - 1, 0] * self.n_symbols + np.where(above, symbol, 0)
            above &= k < length
            for block in level.nodes.blocks():
                keys = block["parent"] * self.n_symbols + block["symbol"]
                n_pairs = np.append(0, np.cumsum(block["n_pairs"], dtype=np.int64))
                first = np.searchsorted(keys, key)
                last = np.where(above, np.searchsorted(keys, key, "right"), first)
                begin[k] += first, n_pairs[first]
                end[k] += last, n_pairs[last]
            above &= begin[k, 0] < end[k, 0]
        return begin, end

    def range(self, begin: np.ndarray, end: np.ndarray) -> RunFile:
        """A range of contexts, with the contexts above them.

        begin, end: (n_levels, 2), of `places`.
        """
        levels = self.levels[:1]
        for level, (a, p), (b, q) in zip(
            self.levels[1:], begin[1:].tolist(), end[1:].tolist()
        ):
            if a == b:
                break
            slots = level.target.part(p, q), level.counts.part(p, q)
            levels.append(Level(level.nodes.part(a, b), *slots, a))
        return RunFile(levels, self.n_symbols)

    def pairs(self) -> tuple[Pairs, np.ndarray]:
        """The pairs and counts, in memory."""
        tree, ptr = read_nodes(
            (level.nodes.blocks() for level in self.levels),
            [level.nodes.size for level in self.levels],
            [level.first for level in self.levels],
            self.n_symbols,
        )
        target, count = np.empty(ptr[-1], dtype=np.int32), np.empty(ptr[-1])
        for level, start in zip(self.levels, ptr[tree.level_ptr].tolist()):
            slots = slice(start, start + level.target.size)
            level.target.read(0, level.target.size, target[slots])
            level.counts.read(0, level.counts.size, count[slots])
        return pairs_of_arrays(tree, ptr, target), count


class CountRuns:
    """Counts of the parts of a text, on disk; OSError if the disk is full.

    folder: None: the folder of the system for temporary files.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._runs: list[RunFile] = []

    def add(self, pairs: Pairs, count: np.ndarray) -> None:
        """Write the counts of a part."""
        self.take(RunFile.of_pairs(pairs, count, self._folder))

    def take(self, run: RunFile) -> None:
        """Add the counts of a part that are in a file."""
        if len(self._runs) == _MOST_RUNS:
            self._runs = [self._merged()]
        self._runs.append(run)

    def finish(self) -> RunFile:
        """The counts of all parts."""
        run = self._runs[0] if len(self._runs) == 1 else self._merged()
        self._runs = []
        return run

    def _merged(self):
        n_runs, n_levels = len(self._runs), max(len(run.levels) for run in self._runs)
        file = Spill(self._folder)
        merged = [Level.empty(file) for _ in range(n_levels)]
        columns: list = [None] * (3 * n_runs * n_levels)
        first = np.zeros((n_runs, n_levels), dtype=np.int64)
        for i, run in enumerate(self._runs):
            at = 3 * i * n_levels
            columns[at : at + 3 * len(run.levels)] = run.columns()
            first[i, : len(run.levels)] = [level.first for level in run.levels]
        streams = column_streams(columns, RunFile(merged, 0).columns())
        _merge.merge(streams, n_runs, n_levels, first.ravel(), False)
        return RunFile(merged, self._runs[0].n_symbols)


def column_streams(sources: list[Column | None], sinks: list[Column]) -> Streams:
    """Streams that read and write columns; None is an empty column."""
    n_bytes = max(64, min(_BLOCK, _BLOCKS // max(1, len(sources) + len(sinks))))
    return Streams(
        [() if column is None else column.blocks(n_bytes) for column in sources],
        [
            (c.append, np.empty(max(1, n_bytes // c.dtype.itemsize), c.dtype))
            for c in sinks
        ],
    )
