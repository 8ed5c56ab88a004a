"""KenLM's trie of n-grams: filling it, and listing what it holds.

The children of an n-gram are the n-grams with one more word before it. The n-grams of
an order are sorted by the number of the parent, which has one word less, and then by
the id of the oldest word. This is the order of their words, the newest first.

A part of the trie (see `_kenlm_entries`) has all n-grams whose newest two words are in
a range. So a part has the children of its n-grams of two or more words, and the part in
which the bigrams of a word begin has the unigram. The number of n-grams before a part
follows from the sizes of the parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._arpa_read import Fail
from ._kenlm_entries import MOST_PARTS, Entries, EntryFiles, Source, begin_file, put
from ._kenlm_layout import (
    ABSENT,
    NO_LONGER,
    SIGN,
    Layout,
    Packing,
    Records,
    trie_layout,
)
from ._kenlm_ngrams import Found, WordIds, newest_two
from ._trie_fast import first_longer, order_of, pack, unpack

# Bytes of the entries of a part, about.
_PART = 1 << 22

# ---------------------------------------------------------------------- writing


class Edges(NamedTuple):
    """The bits and pointers at the borders of parts, which are written at the end."""

    bits: list[tuple[int, bytes]]  # places, and bits to be added there
    # Order, number of the first record, high bits of the first pointer and of the last.
    pointers: list[tuple[int, int, int, int]]


class TrieFile:
    """A file with a trie, which is written step by step.

    counts : n-grams of each order, which may leave out <unk>
    samples : as of `newest_of_some`, for each shard
    """

    by_hash = True

    def __init__(
        self,
        counts: list[int],
        ids: WordIds,
        samples: Sequence[np.ndarray],
        packing: Packing,
    ) -> None:
        self._layout = trie_layout([ids.hashes.size, *counts[1:]], packing)
        self._ids = ids
        n_bytes = sum(n * self._width(k) for k, n in enumerate(counts, 1))
        n_parts = min(1 + n_bytes // _PART, MOST_PARTS)
        ordered = np.sort(np.concatenate(samples))
        # The newest two words with which parts begin, but the first.
        self._cuts = np.unique(ordered[np.arange(1, n_parts) * ordered.size // n_parts])
        self._n_parts = self._cuts.size + 1

    def begin(self, image: Any, spelling: bytes) -> None:
        """Write everything except n-grams."""
        layout, ids = self._layout, self._ids
        begin_file(image, layout, spelling)
        hashes = np.sort(ids.hashes[ids.id_of > 0])
        if (hashes[1:] == hashes[:-1]).any() or not hashes.all():
            raise ValueError("model: two words have one hash; rename one of them")
        put(image, layout.words.first, hashes.tobytes())
        end = np.array([0, 0, layout.counts[1], 0], dtype=np.uint32)
        end[2:].view(np.uint64)[:] = layout.counts[1]
        put(image, layout.unigrams.first + 16 * layout.n_words, end.tobytes())

    def entries(self, image: Any, source: Source) -> Iterator[Entries]:
        """The n-grams: words, the newest first, then the bits of their numbers."""
        highest = self._layout.order
        for order, rows, prob, weight in source.parts:
            if order == 1:  # with its sign
                with np.errstate(over="ignore"):
                    prob = rows.log_prob.astype(np.float32).view(np.uint32)
            out = np.empty((prob.size, order + 1 + (order < highest)), dtype=np.uint32)
            out[:, 0] = self._ids.id_of[rows.last]
            node = rows.node
            for column in range(order - 1, 0, -1):
                out[:, column] = source.word_of_node[node]
                node = source.tree.parent[node]
            out[:, order] = prob
            if order < highest:
                out[:, order + 1] = weight
            second = out[:, 1] if order > 1 else np.uint32(0)
            newest = newest_two(out[:, 0], second)
            part = np.searchsorted(self._cuts, newest, side="right")
            yield Entries(order, out, part.astype(np.uint16), self._n_parts)

    def _read(self, files: EntryFiles, order: int, a: int, b: int) -> np.ndarray:
        blocks = [np.empty(0, dtype=np.uint8), *files.read(order, a, b)]
        width = self._width(order) // 4
        return np.concatenate(blocks).view(np.uint32).reshape(-1, width)

    def _width(self, order):
        """Bytes of an entry."""
        return 4 * (order + 1 + (order < self._layout.order))

    def values(
        self, image: Any, files: EntryFiles, shard: int = 0, n_shards: int = 1
    ) -> None:
        """Write the values of quantised numbers, of some of the orders.

        The values are means of as many parts of equal size of the sorted numbers. The
        first two of weights are -0 and 0, which say whether a longer n-gram begins.
        """
        for order, records in enumerate(self._layout.longer, 2):
            if records.probs < 0 or order % n_shards != shard:
                continue
            for column, at, bits in (
                (order, records.probs, records.prob_bits),
                (order + 1, records.weights, records.weight_bits),
            ):
                if not bits:
                    continue
                blocks = [np.empty(0, dtype=np.float32)]
                for part in range(self._n_parts):
                    rows = self._read(files, order, part, part + 1)
                    number = np.ascontiguousarray(rows[:, column]).view(np.float32)
                    blocks.append(number)
                numbers = np.concatenate(blocks)
                del blocks
                if column == order:
                    centres = _centres(-np.abs(numbers), 1 << bits)
                else:
                    centres = _centres(numbers[numbers != 0], (1 << bits) - 2)
                    centres = np.concatenate([[-0.0, 0.0], centres])
                put(image, at, centres.astype(np.float32).tobytes())

    def fill(
        self, image: Any, files: EntryFiles, shard: int = 0, n_shards: int = 1
    ) -> list[Edges]:
        """Write the parts whose number modulo n_shards is the shard's."""
        n_words, highest, out = self._layout.n_words, self._layout.order, []
        # Of each order, the n-grams before each part.
        before = np.array(
            [
                np.cumsum([0, *files.sizes(k, self._n_parts)])[:-1] // self._width(k)
                for k in range(1, highest + 1)
            ]
        )
        values = [self._centres_in(image, records) for records in self._layout.longer]
        # A buffer of what was read would be written back with what is written next to
        # it, over the bytes of other shards.
        image.flush()
        for part in range(shard, self._n_parts, n_shards):
            edges = Edges([], [])
            rows: Any = self._read(files, 1, part, part + 1)
            for order in range(1, highest + 1):
                first = int(before[order - 1, part])
                longer, number = None, 0
                if order < highest:
                    longer = self._read(files, order + 1, part, part + 1)
                    longer = longer[order_of(longer, order + 1, n_words)]
                    number = int(before[order, part])
                if order == 1:
                    self._put_unigrams(image, part, rows, longer, number)
                else:
                    ptr = None
                    if longer is not None:
                        ptr = number + first_longer(rows, longer, order)[:-1]
                    self._put_records(image, order, first, rows, ptr, values, edges)
                rows = longer
            out.append(edges)
        return out

    def _put_unigrams(self, image, part, rows, longer, number):
        """Unigrams of the words whose bigrams begin in a part."""
        bounds = [0, *(-(-int(cut) // 2**32) for cut in self._cuts)]
        bounds.append(self._layout.n_words)
        first, last = bounds[part : part + 2]
        out = np.zeros((last - first, 4), dtype=np.uint32)
        if first == 0 < last:
            out[0, 0] = ABSENT
        out[rows[:, 0] - first, :2] = rows[:, 1:]
        words = np.arange(first, last, dtype=np.uint32)
        ptr = number + np.searchsorted(longer[:, 0], words)
        out[:, 2:] = ptr.astype(np.uint64).view(np.uint32).reshape(-1, 2)
        put(image, self._layout.unigrams.first + 16 * first, out.tobytes())

    def _put_records(self, image, order, first, rows, ptr, values, edges):
        records = self._layout.longer[order - 2]
        columns = {"word": rows[:, order - 1], "prob": rows[:, order] & ~SIGN}
        if ptr is not None:
            columns["weight"] = rows[:, order + 1]
        if records.probs >= 0:
            self._quantise(columns, *values[order - 2])
        if ptr is not None:
            columns["next"] = low = ptr.astype(np.uint64)
            if records.offsets >= 0 and ptr.size:
                bits = np.uint64(records.next_bits)
                high = low >> bits
                columns["next"] = low ^ (high << bits)
                a, b = int(high[0]), int(high[-1])
                edges.pointers.append((order, first, a, b))
                inner = np.arange(a + 1, b + 1, dtype=np.uint64)
                begin = first + np.searchsorted(high, inner).astype(np.uint64)
                put(image, records.offsets + 8 * (a + 1), begin.tobytes())
        place, data = _packed(records, first, rows.shape[0], columns)
        if len(data):
            put(image, place + 1, data[1:-1])
            edges.bits.append((place, data[:1]))
        if len(data) > 1:
            edges.bits.append((place + len(data) - 1, data[-1:]))

    def _centres_in(self, image, records):
        out = []
        for at, bits in (
            (records.probs, records.prob_bits), (records.weights, records.weight_bits)
        ):  # fmt: skip
            image.seek(max(at, 0))
            data = image.read(4 << bits) if at >= 0 and bits else b""
            out.append(np.frombuffer(data, np.float32))
        return out

    @staticmethod
    def _quantise(columns, probs, weights):
        """Rows of the nearest values instead of numbers."""
        number = (columns["prob"] | SIGN).view(np.float32)
        columns["prob"] = _nearest(probs, number)
        if "weight" in columns:
            bits = columns["weight"]
            number = np.ascontiguousarray(bits).view(np.float32)
            known = number != 0
            weight = (bits != NO_LONGER).astype(np.uint32)
            weight[known] = _nearest(weights[2:], number[known]) + 2
            columns["weight"] = weight

    def finish(self, image: Any, left: Iterable[Edges]) -> None:
        """Write the borders between parts."""
        left, layout = list(left), self._layout
        bits = [one for edges in left for one in edges.bits]
        pointers = sorted(one for edges in left for one in edges.pointers)
        for order, records in enumerate(layout.longer[:-1], 2):
            # One more record has the pointer at the end.
            end = layout.counts[order]
            if records.offsets >= 0:
                high = end >> records.next_bits
                end -= high << records.next_bits
                known = -1  # high bits that have an offset
                mine = [one[1:] for one in pointers if one[0] == order]
                for first, a, b in [*mine, (records.n, high, high)]:
                    begin = np.full(max(a - known, 0), first, dtype=np.uint64)
                    put(image, records.offsets + 8 * (known + 1), begin.tobytes())
                    known = b
            pointer = {"next": np.array([end])}
            bits.append(_packed(records, records.n, 1, pointer))
        for place, data in bits:
            image.seek(place)
            old = np.frombuffer(image.read(len(data)), np.uint8)
            put(image, place, (old | np.frombuffer(data, np.uint8)).tobytes())


def _packed(
    records: Records, first: int, n: int, columns: dict[str, np.ndarray]
) -> tuple[int, bytes]:
    """The place and the bytes of n records from number `first` on."""
    at = 8 * records.first + first * records.width
    shift = at % 8
    size = -(-(shift + n * records.width) // 8)
    data = np.zeros(size + 8, dtype=np.uint8)
    for field, values in columns.items():
        begin, stride, bits = records.column(field)
        begin += shift - 8 * records.first
        pack(data, begin, stride, bits, np.ascontiguousarray(values, dtype=np.uint64))
    return at // 8, data[:size].tobytes()


def _values(image: np.ndarray, first: int, bits: int) -> np.ndarray:
    """The values of quantised numbers, a view."""
    return image[first : first + (4 << bits)].view(np.float32)


def _centres(numbers: np.ndarray, n: int) -> np.ndarray:
    """The means of n parts of sorted numbers; an empty part has that before it."""
    ordered = np.sort(numbers)
    bounds = ordered.size * np.arange(n + 1) // n
    some = bounds[1:] > bounds[:-1]
    centres = np.full(1 + some.sum(), -np.inf, dtype=np.float32)
    if ordered.size:
        sums = np.add.reduceat(ordered, bounds[:-1][some], dtype=np.float64)
        # The mean of -0 is 0, as in KenLM.
        centres[1:] = sums / np.diff(bounds)[some] + 0.0
    return centres[np.cumsum(some)]


def _nearest(centres: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The row of the nearest of rising values, the higher one of two."""
    above = np.minimum(np.searchsorted(centres, numbers), centres.size - 1)
    below = np.maximum(above - 1, 0)
    with np.errstate(invalid="ignore"):
        nearer = numbers - centres[below] < centres[above] - numbers
    return np.where(nearer, below, above)


# ---------------------------------------------------------------------- reading


def ngrams(fail: Fail, image: np.ndarray, layout: Layout) -> tuple[list[Found], bool]:
    """The n-grams of each order, and whether ``<unk>`` is one."""
    n = layout.n_words
    unigrams = layout.unigrams.of(image).copy().view(np.uint32).reshape(-1, 4)[: n + 1]
    prob, weight = unigrams[:n, 0], unigrams[:n, 1]
    if (prob.view(np.float32) > 0).any():
        raise fail("damaged: the log10-probability of a unigram is above 0")
    ids = np.arange(n, dtype=np.int32)[:, None]
    ptr = np.ascontiguousarray(unigrams[:, 2:]).view(np.uint64).ravel()
    found = [(ids, prob, weight)]
    for order, (records, count) in enumerate(zip(layout.longer, layout.counts[1:]), 2):
        if ptr[0] or ptr[-1] != count or (ptr[1:] < ptr[:-1]).any():
            raise fail(
                f"damaged: the pointers from order {order - 1} do not divide the "
                f"{count} n-grams of order {order}"
            )
        starts = ptr.astype(np.int64)
        sizes = starts[1:] - starts[:-1]
        oldest = _take(image, records, "word").astype(np.int64)
        inner = np.ones(count, dtype=bool)
        inner[starts[:-1][sizes > 0]] = False
        rising = oldest[1:] > oldest[:-1]
        if (oldest >= n).any() or not (rising | ~inner[1:]).all():
            raise fail(
                f"damaged: the words of the n-grams of order {order} do not rise below "
                f"{n}, the number of words"
            )
        ids = np.column_stack([oldest.astype(np.int32), np.repeat(ids, sizes, axis=0)])
        prob = _take(image, records, "prob").astype(np.uint32)
        weight = np.full(count, NO_LONGER)
        if order < layout.order:
            weight = _take(image, records, "weight").astype(np.uint32)
            ptr = _pointers(image, records)
        if records.probs >= 0:
            values = _values(image, records.probs, records.prob_bits)
            prob = values[prob].view(np.uint32)
            if order < layout.order:
                values = _values(image, records.weights, records.weight_bits)
                weight = values[weight].view(np.uint32)
        found.append((ids, prob, weight))
    # An <unk> that KenLM adds has -100, and a weight as if a longer n-gram began.
    added = unigrams[0, 0] == ABSENT and unigrams[0, 1] == 0
    return found, not added or any((ids == 0).any() for ids, *_ in found[1:])


def _take(image: np.ndarray, records: Records, field: str, more: int = 0) -> np.ndarray:
    return unpack(image, *records.column(field), records.n + more)


def _pointers(image: np.ndarray, records: Records) -> np.ndarray:
    ptr = _take(image, records, "next", 1)
    if records.offsets >= 0:
        n = records.n_offsets
        offsets = image[records.offsets : records.offsets + 8 * n].view(np.uint64)
        rows = np.arange(ptr.size, dtype=np.uint64)
        high = np.searchsorted(offsets, rows, side="right").astype(np.uint64)
        ptr |= (high - np.uint64(1)) << np.uint64(records.next_bits)
    return ptr
