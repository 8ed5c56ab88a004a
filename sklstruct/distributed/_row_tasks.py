"""Tasks of the workers over samples: windows of a text, word classes, files of shards.

A part of a text is stored as its tokens, preceded by the last tokens of the part
before, so that its windows are the same as in the whole text. Often only the first
samples of a part are needed, because the last ones of a text are held out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from .._files import open_write
from ..backoff import count_windows
from ..context_tree import HistoryColumns
from ..mixture._transforms import ContextReader
from ..symbols import Labels, NumberedText, SentenceEncoder, encode, learn_symbols
from ..word_classes._counts import count_features, neighbour_ids
from ._client import noted
from ._tasks import ShardCounts

_NOT_THERE = (
    "folder: all workers and the client must see it under this name; give "
    "DaskLanguageModel a shared folder"
)


class PartRows(NamedTuple):
    """The samples of a part of a text."""

    tokens: np.ndarray  # int32, behind n_columns tokens of the part before
    labels: Labels
    n_columns: int

    def first(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """(windows, targets) of the first n samples."""
        encoder = SentenceEncoder(self.labels)
        windows, target = encoder.windows(self.tokens, self.n_columns)
        return windows[:n].array, target[:n]


def encode_part(text: NumberedText, labels: Labels, exclude: bool) -> np.ndarray:
    """The tokens of a part.

    exclude: True: a word without a class ends the history of the words after it. False:
    such a word is an error.
    """
    encoder = SentenceEncoder(labels)
    tokens = encoder.encode(text) if exclude else encoder.encode_known(text)
    return np.where(tokens == encoder.lost, np.int32(-1), tokens)


def last_tokens(before: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The tokens before the next part, as many as before this one."""
    return np.concatenate([before, tokens])[-before.size :]


def rows_of_part(before: np.ndarray, tokens: np.ndarray, labels: Labels) -> PartRows:
    """The samples of a part."""
    return PartRows(np.concatenate([before, tokens]), labels, before.size)


def count_rows(rows: PartRows) -> int:
    """Number of samples."""
    encoder = SentenceEncoder(rows.labels)
    return int(encoder.is_target(rows.tokens[rows.n_columns :]).sum())


def learn_rows(rows: PartRows, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(distinct symbols of the windows, number of samples of each class)."""
    windows, target = rows.first(n)
    n_classes = rows.labels.n_classes
    return learn_symbols(windows, -1), np.bincount(target, minlength=n_classes)


# --------------------------------------------------------------- word classes


def count_neighbours(
    rows: PartRows,
    n: int,
    symbols: np.ndarray,
    classes: np.ndarray,
    offsets: tuple[int, ...],
) -> sp.csr_array:
    """The `count_features` of a part; symbols, classes: of all parts."""
    windows, target = rows.first(n)
    symbols, windows, target, n_targets = neighbour_ids(
        windows, encode(target, classes), symbols, classes, offsets
    )
    return count_features(windows, target, offsets, symbols.size, n_targets)


# ------------------------------------------------------------- files of shards


def _column_path(path, k):
    return f"{path}.{k}"


def write_rows(
    rows: PartRows, n: int, reader: ContextReader, depth: int, path: str
) -> np.ndarray:
    """Write the contexts of a part, sorted by their newest symbol, into files.

    A file holds one symbol of each context, or its class, so that a tree can be made
    level by level. Samples without a context are left out. Returns the number of
    samples for each newest symbol.

    n: the number of rows.
    depth: symbols of a context that are written.
    path: the beginning of the names of the files.
    """
    windows, target = rows.first(n)
    columns = reader.columns(windows)
    newest = columns.column(1)
    assert reader.symbols is not None  # it gives ids
    sizes = np.bincount(newest + 1, minlength=reader.symbols.size + 1)
    order = np.argsort(newest, kind="stable")[sizes[0] :]
    with noted(_NOT_THERE, FileNotFoundError):
        for k in range(depth + 1):
            column = columns.column(k) if k else target
            with open_write(_column_path(path, k)) as file:
                file.write(column[order].tobytes())
    return sizes[1:]


class PartSlice(NamedTuple):
    """The samples of a shard in the files of a part."""

    path: str
    first: int
    last: int


def count_shard(
    pieces: list[PartSlice],
    totals: np.ndarray,
    n_symbols: int,
    depth: int,
    min_count: int,
) -> ShardCounts:
    """The counts of a shard, from the files of all parts.

    totals: number of samples of each class in all shards.
    depth: number of symbols of each context.
    min_count: contexts of fewer samples are left out.
    """

    def column(k):
        parts = [
            np.fromfile(
                _column_path(piece.path, k), np.int32, piece.last - piece.first,
                offset=4 * piece.first,
            )
            for piece in pieces
        ]  # fmt: skip
        return np.concatenate(parts)

    n = sum(piece.last - piece.first for piece in pieces)
    labels = Labels.of_ids(totals.size, n_symbols)
    with noted(_NOT_THERE, FileNotFoundError):
        counted = count_windows(
            HistoryColumns(column, n, depth), column(0), labels, min_count=min_count
        )
    # Every shard has the root of all samples.
    counted.count[: totals.size] = totals
    return ShardCounts.of_counted(counted)
