"""KenLM's hash tables of n-grams: filling them, and listing what they hold.

A table is filled in parts, so that no more than a part is in memory. First the entries
of all tables go into files, in blocks whose entries are grouped by the parts that they
have their homes in. There is such a file for each shard of a model, and one for a model
in one process. Then each part is filled from all files. Entries that find no bucket in
their part go on in the next part: these few are put there in the end.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _probing_fast as _fast
from ._kenlm_layout import ABSENT, NO_LONGER, SIGN, Buckets, Layout, put_header
from ._kenlm_ngrams import File, Found, Part, WordIds

# Bytes of a part of a table, and buckets that are read to put one more entry in.
_PART = 1 << 24
_WINDOW = 1 << 12

# Number of a table (0: the words, 1: the bigrams, and so on), keys and numbers.
Entries = tuple[int, np.ndarray, np.ndarray, np.ndarray]
_NONE = np.empty(0, dtype=np.uint32)


class Beyond(NamedTuple):
    """Entries that found no bucket in a part of a table, and the bucket after it."""

    table: int
    at: int
    entries: np.ndarray


def begin(image: Any, layout: Layout, spelling: bytes) -> None:
    """Write what is not an entry, with <unk> as if it is not there."""
    image.seek(layout.end)
    image.write(spelling)  # what is before it is 0
    head = np.zeros(layout.words.first, dtype=np.uint8)
    put_header(layout, head)
    image.seek(0)
    image.write(head.data)
    image.seek(layout.unigrams.first)
    image.write(ABSENT.tobytes())


def word_entries(ids: WordIds) -> Entries:
    """The entries of all words but <unk>."""
    named = ids.id_of > 0
    return 0, ids.hashes[named], ids.id_of[named], _NONE


def ngram_entries(
    image: Any,
    layout: Layout,
    parts: Iterable[Part],
    ids: WordIds,
    parent: np.ndarray,
    word_of_node: np.ndarray,
) -> Iterator[Entries]:
    """The entries of n-grams. Unigrams have no table, and are written to their places.

    parent, word_of_node : as of `NGrams`
    """
    for order, rows, prob, weight in parts:
        last = ids.id_of[rows.last]
        if order == 1:
            put_unigrams(image, layout, last, prob, weight)
            continue
        keys = np.empty(last.size, dtype=np.uint64)
        _fast.row_keys(rows.node, last, parent, word_of_node, keys)
        yield order - 1, keys, prob, _NONE if order == layout.order else weight


def put_unigrams(
    image: Any, layout: Layout, ids: np.ndarray, prob: np.ndarray, weight: np.ndarray
) -> None:
    """Write the numbers of words; those of successive ids at once."""
    numbers = np.column_stack([prob, weight])
    runs = np.flatnonzero(np.diff(ids.astype(np.int64), prepend=-2) != 1).tolist()
    for a, b in zip(runs, [*runs[1:], ids.size]):
        image.seek(layout.unigrams.first + layout.unigrams.width * int(ids[a]))
        image.write(numbers[a:b].tobytes())


def put_entries(
    folder: str, shard: int, layout: Layout, blocks: Iterable[Entries]
) -> None:
    """Write the entries of a shard into a file of the folder."""
    tables = _tables(layout)
    index: list[list[np.ndarray]] = [[] for _ in tables]
    with open(_path(folder, "entries", shard), "wb") as file:
        for i, key, first, second in blocks:
            table, n_in_part = tables[i], _n_in_part(tables[i])
            out = np.empty(key.size * table.width, dtype=np.uint8)
            start = np.empty(-(-table.n // n_in_part) + 1, dtype=np.int64)
            _fast.group(key, first, second, table.n, n_in_part, out, start)
            index[i].append(start * table.width + file.tell())
            file.write(out.data)
    with open(_path(folder, "index", shard), "wb") as file:
        pickle.dump([np.array(starts) for starts in index], file, protocol=5)


def fill(
    image: Any, folder: str, layout: Layout, shard: int = 0, n_shards: int = 1
) -> list[Beyond]:
    """Fill the parts of tables whose number modulo n_shards is the shard's."""
    index, out, number = [], [], 0
    for k in range(n_shards):
        with open(_path(folder, "index", k), "rb") as file:
            index.append(pickle.load(file))
    for i, table in enumerate(_tables(layout)):
        n_in_part = _n_in_part(table)
        for first in range(0, table.n, n_in_part):
            number += 1
            if number % n_shards != shard:
                continue
            end = min(first + n_in_part, table.n)
            part = np.zeros((end - first) * table.width, dtype=np.uint8)
            beyond = []
            for k, starts in enumerate(index):
                places = (
                    starts[i][:, first // n_in_part :][:, :2] if starts[i].size else []
                )
                with open(_path(folder, "entries", k), "rb") as file:
                    for start, stop in places:
                        file.seek(start)
                        entries = np.frombuffer(file.read(stop - start), np.uint8)
                        beyond.append(_insert(i, table, part, first, entries))
            image.seek(table.first + first * table.width)
            image.write(part.data)
            beyond = np.concatenate(beyond) if beyond else part[:0]
            out.append(Beyond(i, end, beyond))
    return out


def finish(image: Any, layout: Layout, beyond: Iterable[Beyond]) -> None:
    """Put in the entries that were beyond their parts."""
    for i, at, entries in beyond:
        table = _tables(layout)[i]
        while entries.size:
            at %= table.n  # the first bucket is after the last
            end = min(at + _WINDOW, table.n)
            image.seek(table.first + at * table.width)
            window = np.frombuffer(
                bytearray(image.read((end - at) * table.width)), np.uint8
            )
            entries = _insert(i, table, window, -1, entries)
            image.seek(table.first + at * table.width)
            image.write(window.data)
            at = end


def _insert(
    i: int, table: Buckets, part: np.ndarray, first: int, entries: np.ndarray
) -> np.ndarray:
    """Put entries into a part of table i; those that are beyond it."""
    beyond = np.empty(entries.size, dtype=np.uint8)
    n = _fast.fill(part, table.width, table.n, first, entries, beyond)
    if n >= 0:
        return beyond[: n * table.width].copy()
    if i == 0:
        raise ValueError("two words of the model have one hash; rename one of them")
    raise ValueError(
        f"two n-grams of order {i + 1} have one key: this model cannot be a KenLM "
        "binary of hash tables; write a trie or an ARPA file"
    )


def _tables(layout: Layout) -> Sequence[Buckets]:
    return [layout.words, *layout.longer]


def _n_in_part(table: Buckets) -> int:
    return max(1, _PART // table.width)


def _path(folder: str, what: str, shard: int) -> str:
    return os.path.join(folder, f"{what}{shard}")


class _Known(NamedTuple):
    """The n-grams of one order that were found."""

    ids: np.ndarray  # (n, order) int32: words, the oldest first
    prefix: np.ndarray  # (n,) the row of the first order - 1 words
    suffix: np.ndarray  # (n,) the row of the last order - 1 words
    key: np.ndarray  # (n,) uint64
    prob: np.ndarray  # (n,) uint32, bits
    weight: np.ndarray  # (n,) uint32, bits


def ngrams(
    source: File, image: np.ndarray, layout: Layout, max_candidates: float
) -> list[Found]:
    """The n-grams of each order.

    The file holds keys of n-grams and not their words. Those of order n are searched
    among the pairs "x m", "m y" of known n-grams of order n - 1.
    """
    n = layout.n_words
    words = np.arange(n, dtype=np.int32)
    bits = layout.unigrams.of(image).copy().view(np.uint32).reshape(-1, 2)[:n]
    root = np.zeros(n, dtype=np.int32)
    known = _Known(
        words[:, None], root, root, words.astype(np.uint64), bits[:, 0], bits[:, 1]
    )
    n_prefixes = 1
    found = [(known.ids, known.prob, known.weight)]
    for table, count in zip(layout.longer, layout.counts[1:]):
        longer = _longer(source, known, n_prefixes, image, table, count, max_candidates)
        n_prefixes, known = known.key.size, longer
        found.append((known.ids, known.prob, known.weight))
    return found


def _longer(
    source: File,
    known: _Known,
    n_middles: int,
    image: np.ndarray,
    buckets: Buckets,
    count: int,
    max_candidates: float,
) -> _Known:
    """The n-grams of a table, all of which must be found."""
    table, width = buckets.of(image), buckets.width
    # Candidates begin a longer n-gram and end one.
    a = np.flatnonzero(known.weight != NO_LONGER)
    b = np.flatnonzero((known.prob & SIGN) == 0)
    a = a[np.argsort(known.suffix[a], kind="stable")]
    b = b[np.argsort(known.prefix[b], kind="stable")]
    size_a = np.bincount(known.suffix[a], minlength=n_middles)
    size_b = np.bincount(known.prefix[b], minlength=n_middles)
    n_candidates = float(size_a.astype(np.float64) @ size_b)
    if n_candidates > max_candidates:
        raise source.fail(
            f"{n_candidates:.2g} candidates for {count} n-grams, more than "
            f"max_candidates={max_candidates:.2g}: raise it, or read the ARPA file "
            "that this file was made from"
        )
    n_bits = max(64, 1 << (8 * max(count, 1) - 1).bit_length())
    bits = np.zeros(n_bits // 64, dtype=np.uint64)
    shift = 64 - (n_bits.bit_length() - 1)
    used = _fast.mark_keys(table, width, bits, shift)
    found_a, found_b = np.empty((2, used), dtype=np.int32)
    key = np.empty(used, dtype=np.uint64)
    numbers = np.empty((used, 1 if width == 12 else 2), dtype=np.uint32)
    n_found = _fast.find_longer(
        _pointers(size_a), known.ids[a, 0].astype(np.uint32),
        _pointers(size_b), known.key[b],
        table, width, bits, shift, found_a, found_b, key, numbers.ravel(),
    )  # fmt: skip
    if n_found != used or used != count:
        raise source.fail(
            f"{n_found} of {used} n-grams of order {known.ids.shape[1] + 1} were "
            f"found, and the header says {count}: an n-gram lacks its context or its "
            "suffix, or the file is damaged; read the ARPA file that it was made from"
        )
    prefix, suffix = a[found_a], b[found_b]
    weight = numbers[:, 1] if width == 16 else np.full(used, NO_LONGER)
    ids = np.column_stack([known.ids[prefix], known.ids[suffix, -1]])
    return _Known(ids, prefix, suffix, key, numbers[:, 0], weight)


def _pointers(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
