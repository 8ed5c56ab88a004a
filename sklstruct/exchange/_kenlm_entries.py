"""Temporary files of table entries for a KenLM binary.

A file is filled in parts, so that no more than a part is in memory. First the entries
of all tables are written to files in a folder, in blocks that are grouped by part.
There is a file for each shard of a model, and one file for a model in one process. Then
each part is filled from all files.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..context_tree import ContextTree
from ._kenlm_layout import Layout, headers
from ._kenlm_ngrams import Part
from ._trie_fast import group

# Largest number of parts of a table. Larger tables have larger parts, because the
# pieces of a block of entries would otherwise be too small to be read one by one.
MOST_PARTS = 1 << 10


class Entries(NamedTuple):
    """Some entries of a table, and the part of each."""

    table: int
    rows: np.ndarray  # (n, width) uint32
    part: np.ndarray  # (n,) uint16
    n_parts: int


class Source(NamedTuple):
    """The n-grams of a shard, or of a model in one process."""

    parts: Iterable[Part]
    tree: ContextTree
    word_of_node: np.ndarray  # id of the oldest word
    is_first: bool = True  # or the only one


def put_entries(folder: str, shard: int, blocks: Iterable[Entries]) -> None:
    """Write the entries of a shard into a file of the folder."""
    index: dict[int, list[np.ndarray]] = {}
    with open(shard_file(folder, "entries", shard), "wb") as file:
        for table, rows, part, n_parts in blocks:
            grouped = np.empty_like(rows)
            start = np.empty(n_parts + 1, dtype=np.int64)
            group(rows, part, grouped, start)
            index.setdefault(table, []).append(start * 4 * rows.shape[1] + file.tell())
            file.write(grouped.data)
    with open(shard_file(folder, "index", shard), "wb") as file:
        starts = {table: np.array(some) for table, some in index.items()}
        pickle.dump(starts, file, protocol=5)


class EntryFiles:
    """The entries of all shards."""

    def __init__(self, folder: str, n_shards: int) -> None:
        self._folder, self._index = folder, []
        for shard in range(n_shards):
            with open(shard_file(folder, "index", shard), "rb") as file:
                self._index.append(pickle.load(file))

    def sizes(self, table: int, n_parts: int) -> np.ndarray:
        """(n_parts,) the bytes of the entries of each part of a table."""
        out = np.zeros(n_parts, dtype=np.int64)
        for index in self._index:
            if table in index:
                out += np.diff(index[table], axis=1).sum(axis=0)
        return out

    def read(self, table: int, first: int, last: int) -> Iterator[np.ndarray]:
        """The bytes of the entries of parts of a table, block by block."""
        for shard, index in enumerate(self._index):
            if table in index:
                places = index[table][:, [first, last]].tolist()
                with open(shard_file(self._folder, "entries", shard), "rb") as file:
                    for start, stop in places:
                        if start < stop:
                            file.seek(start)
                            yield np.frombuffer(file.read(stop - start), np.uint8)


def begin_file(image: Any, layout: Layout, spelling: bytes) -> None:
    """Write everything except tables; bytes that are not written are 0."""
    for at, data in [(layout.end, spelling), *headers(layout)]:
        put(image, at, data)


def put(image: Any, at: int, data: Any) -> None:
    """Write bytes to a place."""
    image.seek(at)
    image.write(data)


def shard_file(folder: str, what: str, shard: int) -> str:
    """The path of a file of a shard, for the other shards."""
    return os.path.join(folder, f"{what}{shard}")
