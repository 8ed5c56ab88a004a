"""KenLM's binaries, version 5: the byte offsets of their parts.

A file is an image of tables that a program maps and queries. It begins with a header
that gives the kind of the tables, the order and the number of n-grams of each order;
the sizes of all tables follow from these. Numbers are little-endian. The parts, in
their order:

* probing: a hash table of words, the unigrams, a hash table for each higher order;
* trie: the number of words and their sorted hashes; if numbers are quantised, the
  tables of their values; the unigrams; records of bits for each higher order, before
  them, if pointers are compressed, the offsets of the high bits;
* the spelling of the words.

`_kenlm_fast` explains the tables.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_byte_order
from ._kenlm_fast import MOST_ORDER

_FAMILY = b"mmap lm http://kheafield.com/code "
MAGIC = _FAMILY + b"format version 5\n"
_SIGNATURE = MAGIC.ljust(56, b"\0") + struct.pack(
    "<3f3IQ", 0.0, 1.0, -0.5, 1, 2**32 - 1, 0, 1
)
_PROBING, _TRIE, _QUANTISED, _COMPRESSED = 0, 2, 1, 2  # a kind is a sum of the last
SIGN = np.uint32(0x80000000)
# The weight of an n-gram that begins no longer one.
NO_LONGER = np.float32(-0.0).view(np.uint32)
ABSENT = np.float32(-100.0).view(np.uint32)  # log10 P of an <unk> that is not there
_HEADER = 108  # bytes before the counts
MOST_BITS = 25  # of a quantised number


class Buckets(NamedTuple):
    """A table: its first byte, its rows and the bytes of a row."""

    first: int
    n: int
    width: int

    def of(self, image: np.ndarray) -> np.ndarray:
        """The bytes of the table in an image, a view."""
        return image[self.first : self.first + self.n * self.width]


class Records(NamedTuple):
    """The records of one order of a trie: bits of the fields, and where they begin."""

    first: int  # byte
    n: int  # one more record has the pointer at the end
    width: int
    word_bits: int
    prob_at: int
    prob_bits: int
    weight_at: int
    weight_bits: int
    next_at: int
    next_bits: int
    probs: int  # first byte of the values of quantised numbers, -1: none
    weights: int
    offsets: int  # first byte, -1: pointers are not compressed
    n_offsets: int

    def column(self, field: str) -> tuple[int, int, int]:
        """(first bit, bits from one record to the next, bits) of a field."""
        at = 0 if field == "word" else getattr(self, f"{field}_at")
        return 8 * self.first + at, self.width, getattr(self, f"{field}_bits")


class Packing(NamedTuple):
    """How the numbers of a trie are packed; None: they are not."""

    prob_bits: int | None = None
    backoff_bits: int | None = None
    pointer_bits: int | None = None


class Layout(NamedTuple):
    """The tables of a file."""

    kind: int
    multiplier: float
    counts: list[int]  # n-grams of each order
    n_words: int  # with <unk>
    words: Buckets
    unigrams: Buckets
    longer: list[Any]  # Buckets or Records of the orders from 2 on
    end: int  # offset of the spelling of the words
    has_words: bool = True
    packing: Packing = Packing()

    @property
    def order(self) -> int:
        """Length of the longest n-grams."""
        return len(self.counts)

    @property
    def is_trie(self) -> bool:
        """Whether the n-grams are a trie."""
        return self.kind != _PROBING


def n_buckets(count: int, multiplier: float) -> int:
    """Buckets of a table of so many entries; the product is one of float32 numbers."""
    product = np.float32(multiplier) * np.float32(count)
    return max(count + 1, int(np.floor(product)))


def _after_counts(order: int) -> int:
    return -(-(_HEADER + 8 * order) // 8) * 8


def probing_layout(counts: list[int], n_words: int, multiplier: float) -> Layout:
    """The hash tables of a file of so many n-grams."""
    order, multiplier = len(counts), float(np.float32(multiplier))
    at = _after_counts(order) + 8
    parts = []
    for width, n in [
        (12, n_buckets(counts[0], multiplier)),
        (8, counts[0] + 1),
        *((16, n_buckets(count, multiplier)) for count in counts[1:-1]),
        (12, n_buckets(counts[-1], multiplier)),
    ]:
        parts.append(Buckets(at, n, width))
        at += width * n
    words, unigrams, *longer = parts
    return Layout(_PROBING, multiplier, counts, n_words, words, unigrams, longer, at)


def trie_layout(counts: list[int], packing: Packing) -> Layout:
    """The trie of a file of so many n-grams; `counts` has ``<unk>``."""
    kind, order = _TRIE, len(counts)
    prob_bits, backoff_bits = packing.prob_bits or 0, packing.backoff_bits or 0
    pointer_bits = packing.pointer_bits
    # <unk> has no hash, and its place is left at the end.
    words = Buckets(_after_counts(order) + 8, counts[0] - 1, 8)
    at = words.first + 8 * counts[0]
    values = []
    if prob_bits:
        kind += _QUANTISED
        at += 8
        for _ in counts[1:]:
            values.append((at, at + (4 << prob_bits)))
            at = values[-1][1] + (4 << backoff_bits)
        at -= 4 << backoff_bits  # the highest order has no weights
    if pointer_bits is not None:
        kind += _COMPRESSED
    unigrams = Buckets(at, counts[0] + 2, 16)
    at += 16 * unigrams.n
    longer = []
    for k, n in enumerate(counts[1:], 1):
        word_bits = counts[0].bit_length()
        n_next = counts[k + 1] if k + 1 < order else 0
        next_bits, offsets, n_offsets = n_next.bit_length(), -1, 0
        if pointer_bits is not None and k + 1 < order:
            next_bits, n_offsets = _compress(n + 1, n_next, pointer_bits)
            offsets = -(-(at + 8) // 8) * 8
            at += 8 + 8 * n_offsets + 7
        weight_bits = 32 if k + 1 < order else 0
        if values:
            probs, weights = values[k - 1]
            weight_bits = min(weight_bits, backoff_bits)
            weight_at = word_bits
            prob_at = weight_at + weight_bits
            next_at = prob_at + prob_bits
        else:
            probs = weights = -1
            prob_at, weight_at = word_bits, word_bits + 31
            next_at = weight_at + weight_bits
        width = next_at + next_bits
        longer.append(
            Records(
                at, n, width, word_bits, prob_at, prob_bits or 31,
                weight_at, weight_bits, next_at, next_bits, probs, weights,
                offsets, n_offsets,
            )
        )  # fmt: skip
        at += ((n + 1) * width + 7) // 8 + 8
    # The multiplier is not used, and is that of KenLM.
    return Layout(
        kind, 1.5, counts, counts[0], words, unigrams, longer, at, True, packing
    )


def _compress(n: int, largest: int, most: int) -> tuple[int, int]:
    """(bits that a record keeps, offsets of the others) of n rising pointers.

    The number of high bits that are moved out of the records, at most `most`, minimises
    the size: b bits save n b bits, and need an offset of 64 bits for each value.
    """
    bits = largest.bit_length()
    taken = min(
        range(min(bits, most) + 1),
        key=lambda b: (largest >> (bits - b)) * 64 - n * b,
    )
    return bits - taken, (largest >> (bits - taken)) + 1


def headers(layout: Layout) -> Iterator[tuple[int, bytes]]:
    """The places and bytes of the headers before and between the tables."""
    trie = layout.is_trie
    head = _SIGNATURE + struct.pack(
        "<B3xfIB3xI", layout.order, layout.multiplier, layout.kind, 1, int(trie)
    )
    head += struct.pack(f"<{layout.order}Q", *layout.counts)
    head += bytes(-len(head) % 8)
    # A trie counts its hashes.
    head += struct.pack("<Q", layout.n_words - 1 if trie else layout.n_words << 32)
    yield 0, head
    prob_bits, backoff_bits, pointer_bits = layout.packing
    if prob_bits is not None:
        at = layout.words.first + 8 * layout.n_words
        yield at, bytes([2, prob_bits, backoff_bits or 0])
    for part in layout.longer[:-1] if pointer_bits is not None else []:
        yield part.first - 8 * part.n_offsets - 15, bytes([0, pointer_bits or 0])


def kenlm_file(head: bytes) -> str | None:
    """The kind of a KenLM file by its first bytes; None if it is another file."""
    if not head.startswith(_FAMILY):
        return None
    line = head[len(_FAMILY) :].partition(b"\n")[0]
    version = line.removeprefix(b"format version ")
    if line.startswith(b"incomplete"):
        return "a KenLM binary that build_binary did not finish; make the file again"
    if version != line and version.isdigit() and version != b"5":
        return (
            f"a KenLM binary of version {version.decode()}, and version 5 can be read; "
            "make the file again with a newer build_binary"
        )
    if not head.startswith(_SIGNATURE[: len(head)]):
        return "a KenLM binary of another version or machine"
    kind = int.from_bytes(head[96:100], "little")
    if kind == 1 or kind > _TRIE + _QUANTISED + _COMPRESSED:
        name = "probing with rest costs" if kind == 1 else f"of type {kind}"
        return f"a KenLM binary that is {name}; only probing and trie can be read"
    return "a KenLM binary"


def read_layout(image: Any, label: str) -> Layout:
    """The layout of the file whose bytes are given.

    ValueError if it is not a file of this version, or its sizes do not fit.
    """
    check_byte_order("KenLM binaries")
    head = bytes(image[: _after_counts(MOST_ORDER) + 8])

    def fail(what: str) -> ValueError:
        return ValueError(f"{label}: {what}")

    what = kenlm_file(head)
    if what != "a KenLM binary":
        raise fail(what or "not a KenLM binary of version 5")
    if len(head) < _HEADER:
        raise fail("cut short within its header")
    order, multiplier, kind, has_words, search = struct.unpack(
        "<B3xfIB3xI", head[88:_HEADER]
    )
    expected = int(kind != _PROBING)
    if search != expected or not 2 <= order <= MOST_ORDER:
        raise fail(
            f"order {order} (2 to {MOST_ORDER} can be read), search version "
            f"{search} ({expected} can be read)"
        )
    if kind == _PROBING and not (multiplier > 1.0 and np.isfinite(multiplier)):
        raise fail(f"the multiplier is {multiplier}, and must be above 1")
    at = _after_counts(order)
    if len(head) < at + 8:
        raise fail("cut short within its header")
    counts = list(struct.unpack(f"<{order}Q", head[_HEADER : _HEADER + 8 * order]))
    if max(counts) > len(image):
        raise fail(f"counts {counts} are beyond the size of the file")
    if kind == _PROBING:
        version, n_words = struct.unpack("<II", head[at : at + 8])
        wrong = version != 0 or not counts[0] <= n_words <= counts[0] + 1
        layout = probing_layout(counts, n_words, multiplier)
    else:
        n_words = int.from_bytes(head[at : at + 8], "little") + 1
        wrong = n_words != counts[0]
        layout = trie_layout(counts, _packing(image, counts, kind, fail))
    if wrong:
        raise fail(f"{n_words} words, and {counts[0]} unigrams")
    if layout.end > len(image):
        raise fail(f"cut short: {len(image)} bytes, the tables need {layout.end}")
    # Each word has a NUL after it; to count them would read all.
    least = layout.end + 2 * n_words if has_words else 0
    if len(image) < least or (has_words and image[-1] != 0):
        raise fail(
            f"cut short or damaged: {n_words} words are spelt at its end, and NUL ends "
            "each of them"
        )
    return layout._replace(has_words=bool(has_words))


def _packing(image: Any, counts: list[int], kind: int, fail: Any) -> Packing:
    """How a trie is packed, which stands before its tables."""
    packing = Packing()
    at = _after_counts(len(counts)) + 8 + 8 * counts[0]
    if kind - _TRIE & _QUANTISED:
        version, a, b = bytes(image[at : at + 3]).ljust(3, b"\0")
        if version != 2 or not (1 <= a <= MOST_BITS and 1 <= b <= MOST_BITS):
            raise fail(
                f"damaged: version {version} of quantised numbers (2 can be read) of "
                f"{a} and {b} bits (1 to {MOST_BITS} can be read)"
            )
        packing = Packing(a, b)
    if not kind - _TRIE & _COMPRESSED:
        return packing
    if len(counts) == 2:
        return packing._replace(pointer_bits=0)
    at = trie_layout(counts, packing).longer[0].first
    version, pointer_bits = bytes(image[at : at + 2]).ljust(2, b"\0")
    if version != 0:
        raise fail(f"damaged: version {version} of pointers (0 can be read)")
    return packing._replace(pointer_bits=pointer_bits)


def read_words(image: Any, layout: Layout, label: str) -> list[str]:
    """The words in the order of their ids."""
    if not layout.has_words:
        raise ValueError(f"{label} does not hold its words")
    text = bytes(memoryview(image)[layout.end :])
    words = text.split(b"\0")
    if words.pop() or len(words) != layout.n_words or words[:1] != [b"<unk>"]:
        raise ValueError(
            f"{label}: damaged: {len(words)} words are spelt, beginning with "
            f"{words[:1]}, not {layout.n_words} beginning with <unk>"
        )
    try:
        return [word.decode("utf-8") for word in words]
    except UnicodeDecodeError as exc:
        raise ValueError(f"{label}: a word is not UTF-8: {exc}") from exc
