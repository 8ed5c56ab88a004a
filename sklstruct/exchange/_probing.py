"""KenLM's hash tables of n-grams: filling them, and listing what they hold.

A part of a table is a range of buckets (see `_kenlm_entries`). The few entries that
find no bucket in their part are inserted into the next part at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from . import _probing_fast as _fast
from ._arpa_read import Fail
from ._kenlm_entries import MOST_PARTS, Entries, EntryFiles, Source, begin_file, put
from ._kenlm_layout import ABSENT, NO_LONGER, SIGN, Buckets, Layout, probing_layout
from ._kenlm_ngrams import Found, WordIds

# Bytes of a part of a table, which the cache of a processor holds; and buckets that are
# read to put an entry in.
_PART = 1 << 21
_WINDOW = 1 << 12


class Beyond(NamedTuple):
    """Entries that found no bucket in a part of a table, and the bucket after it."""

    table: int
    at: int
    entries: np.ndarray


class ProbingFile:
    """A file of hash tables, which is written step by step.

    The tables are those of the words, of the bigrams, and so on.

    counts : n-grams of each order
    """

    by_hash = False

    def __init__(
        self, counts: list[int], ids: WordIds, samples: Any, multiplier: float
    ) -> None:
        self._layout = probing_layout(counts, ids.hashes.size, multiplier)
        self._ids = ids
        self._tables: list[Buckets] = [self._layout.words, *self._layout.longer]

    def begin(self, image: Any, spelling: bytes) -> None:
        """Write everything except entries, with <unk> as a word that the model
        lacks."""
        begin_file(image, self._layout, spelling)
        put(image, self._layout.unigrams.first, ABSENT.tobytes())

    def entries(self, image: Any, source: Source) -> Iterator[Entries]:
        """The entries. Unigrams have no table, and are written to their places."""
        ids, highest = self._ids, self._layout.order
        if source.is_first:
            named = ids.id_of > 0
            rows = np.empty((named.sum(), 3), dtype=np.uint32)
            rows[:, :2] = ids.hashes[named].view(np.uint32).reshape(-1, 2)
            rows[:, 2] = ids.id_of[named]
            table, n_in_part = self._tables[0], self._n_in_part(self._tables[0])
            part = ids.hashes[named] % np.uint64(table.n) // np.uint64(n_in_part)
            yield Entries(0, rows, part.astype(np.uint16), -(-table.n // n_in_part))
        for order, ngrams, prob, weight in source.parts:
            last = ids.id_of.take(ngrams.last)
            if order == 1:
                self._put_unigrams(image, last, np.column_stack([prob, weight]))
                continue
            table = self._tables[order - 1]
            n_in_part = self._n_in_part(table)
            rows = np.empty((last.size, table.width // 4), dtype=np.uint32)
            part = np.empty(last.size, dtype=np.uint16)
            _fast.row_keys(
                ngrams.node, last, source.tree.parent, source.word_of_node,
                table.n, n_in_part, rows, part,
            )  # fmt: skip
            rows[:, 2] = prob
            if order < highest:
                rows[:, 3] = weight
            yield Entries(order - 1, rows, part, -(-table.n // n_in_part))

    def _n_in_part(self, table):
        return max(1, _PART // table.width, table.n // MOST_PARTS)

    def _put_unigrams(self, image: Any, ids: np.ndarray, numbers: np.ndarray) -> None:
        # Those of successive ids at once.
        runs = np.flatnonzero(np.diff(ids.astype(np.int64), prepend=-2) != 1).tolist()
        table = self._layout.unigrams
        for a, b in zip(runs, [*runs[1:], ids.size]):
            put(image, table.first + table.width * int(ids[a]), numbers[a:b].tobytes())

    def values(
        self, image: Any, files: EntryFiles, shard: int = 0, n_shards: int = 1
    ) -> None:
        """Numbers are as they are."""

    def fill(
        self, image: Any, files: EntryFiles, shard: int = 0, n_shards: int = 1
    ) -> list[Beyond]:
        """Fill the parts of tables whose number modulo n_shards is the shard's."""
        out, number = [], 0
        for i, table in enumerate(self._tables):
            n_in_part = self._n_in_part(table)
            for k, first in enumerate(range(0, table.n, n_in_part)):
                number += 1
                if number % n_shards != shard:
                    continue
                end = min(first + n_in_part, table.n)
                part = np.zeros((end - first) * table.width, dtype=np.uint8)
                beyond = [part[:0]]
                for entries in files.read(i, k, k + 1):
                    beyond.append(_insert(i, table, part, first, entries))
                put(image, table.first + first * table.width, part.data)
                out.append(Beyond(i, end, np.concatenate(beyond)))
        return out

    def finish(self, image: Any, left: Iterable[Beyond]) -> None:
        """Put in the entries that were beyond their parts."""
        for i, at, entries in left:
            table = self._tables[i]
            while entries.size:
                at %= table.n  # the first bucket is after the last
                end, place = min(at + _WINDOW, table.n), table.first + at * table.width
                image.seek(place)
                data = bytearray(image.read((end - at) * table.width))
                window = np.frombuffer(data, np.uint8)
                entries = _insert(i, table, window, -1, entries)
                put(image, place, data)
                at = end


def _insert(
    i: int, table: Buckets, part: np.ndarray, first: int, entries: np.ndarray
) -> np.ndarray:
    """Insert entries into a part of table i; return the entries that are beyond it."""
    beyond = np.empty(entries.size, dtype=np.uint8)
    n = _fast.fill(part, table.width, table.n, first, entries, beyond)
    if n >= 0:
        return beyond[: n * table.width].copy()
    if i == 0:
        raise ValueError("model: two words have one hash; rename one of them")
    raise ValueError(
        f"model: two n-grams of order {i + 1} have one key, which KenLM's hash tables "
        "cannot hold; write a trie or an ARPA file"
    )


class _Known(NamedTuple):
    """The n-grams of one order that were found."""

    ids: np.ndarray  # (n, order) int32: words, the oldest first
    prefix: np.ndarray  # (n,) the row of the first order - 1 words
    suffix: np.ndarray  # (n,) the row of the last order - 1 words
    key: np.ndarray  # (n,) uint64
    prob: np.ndarray  # (n,) uint32, bits
    weight: np.ndarray  # (n,) uint32, bits


def ngrams(
    fail: Fail, image: np.ndarray, layout: Layout, max_candidates: float
) -> list[Found]:
    """The n-grams of each order.

    The file holds keys of n-grams and not their words. Those of order n are searched
    among the pairs "x m", "m y" of known n-grams of order n - 1.
    """
    n = layout.n_words
    words = np.arange(n, dtype=np.int32)
    bits = layout.unigrams.of(image).copy().view(np.uint32).reshape(-1, 2)[:n]
    root = np.zeros(n, dtype=np.int32)
    keys = words.astype(np.uint64)
    found = [_Known(words[:, None], root, root, keys, bits[:, 0], bits[:, 1])]
    for table, count in zip(layout.longer, layout.counts[1:]):
        longer = _longer(fail, found[-1], image, table, count, max_candidates)
        found.append(longer)
    return [(known.ids, known.prob, known.weight) for known in found]


def _longer(
    fail: Fail,
    known: _Known,
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
    n_middles = int(np.append(known.prefix, known.suffix).max(initial=0)) + 1
    size_a = np.bincount(known.suffix[a], minlength=n_middles)
    size_b = np.bincount(known.prefix[b], minlength=n_middles)
    n_candidates = float(size_a.astype(np.float64) @ size_b)
    if n_candidates > max_candidates:
        raise fail(
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
        raise fail(
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
