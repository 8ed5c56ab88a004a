"""KenLM's probing files, version 5: their layout, byte for byte.

Such a file is an image of hash tables that a program maps and queries; see
`_probing_fast` for the tables. It begins with a header that gives the order and the
number of n-grams of each order; the sizes of all tables follow from these. Numbers are
little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_byte_order
from ..backoff import BackoffModel, ClosedModel
from . import _probing_fast as _fast
from ._arpa_read import Section, build_model, decode_words
from ._arpa_write import NgramRows, Sections, sections_of

_FAMILY = b"mmap lm http://kheafield.com/code "
MAGIC = _FAMILY + b"format version 5\n"
_SIGNATURE = MAGIC.ljust(56, b"\0") + struct.pack(
    "<3f3IQ", 0.0, 1.0, -0.5, 1, 2**32 - 1, 0, 1
)
_KINDS = {
    0: "probing",
    1: "probing with rest costs",
    2: "trie",
    3: "quantised trie",
    4: "trie with compressed pointers",
    5: "quantised trie with compressed pointers",
}
_SIGN = np.uint32(0x80000000)
# The weight of an n-gram that begins no longer one.
_NO_LONGER = np.float32(-0.0).view(np.uint32)
_ABSENT = np.float32(-100.0).view(np.uint32)  # log10 P of an <unk> that is not there


class TableLayout(NamedTuple):
    """Offsets and sizes of the tables of a file: words, unigrams, bigrams, ..."""

    order: int
    multiplier: float
    counts: list[int]  # n-grams of each order
    n_words: int  # with <unk>
    first: list[int]  # offset of each table
    n_buckets: list[int]  # of each table
    width: list[int]  # bytes of a bucket of each table
    end: int  # offset of the spelling of the words

    def table(self, image: np.ndarray, k: int) -> np.ndarray:
        """The bytes of a table of the file, a view."""
        a = self.first[k]
        return image[a : a + self.n_buckets[k] * self.width[k]]


def n_buckets(count: int, multiplier: float) -> int:
    """Buckets of a table of so many entries; the product is one of float32 numbers."""
    product = np.float32(multiplier) * np.float32(count)
    return max(count + 1, int(np.floor(product)))


def layout_of(counts: list[int], n_words: int, multiplier: float) -> TableLayout:
    """Offsets and sizes of the tables in a file of so many n-grams."""
    order = len(counts)
    buckets = [
        n_buckets(counts[0], multiplier),
        counts[0] + 1,
        *(n_buckets(count, multiplier) for count in counts[1:]),
    ]
    widths = [12, 8, *[16] * (order - 2), 12]
    at = -(-(108 + 8 * order) // 8) * 8 + 8
    first = []
    for width, n in zip(widths, buckets):
        first.append(at)
        at += width * n
    return TableLayout(order, multiplier, counts, n_words, first, buckets, widths, at)


def header_of(layout: TableLayout) -> bytes:
    """Bytes of a file before the table of words."""
    fixed = struct.pack(
        "<B3xfIB3xI", layout.order, layout.multiplier, 0, 1, 0
    ) + struct.pack(f"<{layout.order}Q", *layout.counts)
    head = _SIGNATURE + fixed
    head += bytes(-len(head) % 8)
    return head + struct.pack("<II", 0, layout.n_words)


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
    if kind != 0:
        name = _KINDS.get(kind, f"of type {kind}")
        return f"a KenLM binary that is {name}; only type probing can be read"
    return "a KenLM binary"


def read_layout(image: Any, label: str) -> TableLayout:
    """The layout of the file whose bytes are given.

    Raises
    ------
    ValueError
        If it is not a probing file of this version, or its sizes do not fit.
    """
    check_byte_order("KenLM binaries")
    head = bytes(image[: 108 + 8 * _fast.MOST_ORDER + 16])

    def fail(what: str) -> ValueError:
        return ValueError(f"{label}: {what}")

    what = kenlm_file(head)
    if what != "a KenLM binary":
        raise fail(what or "not a KenLM binary of version 5")
    if len(head) < 108:
        raise fail("cut short within its header")
    order, multiplier, _, has_words, search = struct.unpack("<B3xfIB3xI", head[88:108])
    if search != 0 or not 2 <= order <= _fast.MOST_ORDER:
        raise fail(
            f"order {order} (2 to {_fast.MOST_ORDER} can be read), search version "
            f"{search} (0 can be read)"
        )
    if not (multiplier > 1.0 and np.isfinite(multiplier)):
        raise fail(f"the multiplier is {multiplier}, and must be above 1")
    at = 108 + 8 * order
    if len(head) < at:
        raise fail("cut short within its header")
    counts = list(struct.unpack(f"<{order}Q", head[108:at]))
    if max(counts) > len(image):
        raise fail(f"counts {counts} are beyond the size of the file")
    at += -at % 8
    if len(head) < at + 8:
        raise fail("cut short within its header")
    version, n_words = struct.unpack("<II", head[at : at + 8])
    layout = layout_of(counts, n_words, multiplier)
    if version != 0 or not counts[0] <= n_words <= counts[0] + 1:
        raise fail(f"{n_words} words, and {counts[0]} unigrams")
    if layout.end > len(image):
        raise fail(f"cut short: {len(image)} bytes, the tables need {layout.end}")
    if not has_words:
        layout = layout._replace(end=-1)
    return layout


def read_words(image: Any, layout: TableLayout, label: str) -> list[str]:
    """The words in the order of their ids."""
    if layout.end < 0:
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


# ---------------------------------------------------------------------- writing


_Bits = tuple[np.ndarray, np.ndarray]


def _numbers(rows: NgramRows, begins: np.ndarray, ends: np.ndarray) -> _Bits:
    """The bits of probability and weight of n-grams.

    begins, ends: whether some longer n-gram begins with each n-gram, and ends with it.
    The sign of the probability holds `ends`, that of a weight of 0 `begins`.
    """
    with np.errstate(over="ignore"):  # beyond the range: -inf, as KenLM reads it
        prob = rows.log_prob.astype(np.float32).view(np.uint32)
        weight = rows.log_backoff.astype(np.float32)
    prob |= _SIGN
    prob[ends] ^= _SIGN
    none = weight == 0.0
    bits = weight.view(np.uint32)
    bits[none] = 0  # -0 means: begins no longer n-gram
    none &= ~begins
    bits[none] = _NO_LONGER
    return prob, bits


def _ngrams(sections: Sections) -> Iterator[tuple[int, NgramRows, _Bits]]:
    """(order, n-grams, their numbers) of all n-grams, part by part."""
    closed = sections.closed
    begins = np.diff(closed.pair_ptr) > 0
    for rows in sections.never:  # "h w" with w never predicted begins with h
        begins[rows.node] = True
    begins[0] = False  # the node of an n-gram that is not a context
    ends = closed.suffixes().astype(bool)
    # "h w" with w never predicted ends "x h w", if that is there.
    longer = [*(_suffixes(rows, closed) for rows in sections.never[1:]), set()]
    for k, (never, more) in enumerate(zip(sections.never, longer)):
        for rows, pairs in sections.pairs(k):
            yield k + 1, rows, _numbers(rows, begins[rows.own], ends[pairs])
        both = zip(never.node.tolist(), never.last.tolist())
        ending = np.array([row in more for row in both], dtype=bool)
        yield k + 1, never, _numbers(never, begins[never.own], ending)


def _suffixes(rows: NgramRows, closed: ClosedModel) -> set[tuple[int, int]]:
    """The n-grams without their oldest word, as (node, word)."""
    return set(zip(closed.tree.parent[rows.node].tolist(), rows.last.tolist()))


def image_of(model: BackoffModel, *, multiplier: float = 1.5) -> np.ndarray:
    """The bytes of the file of a model; see `sklstruct.exchange.write`."""
    check_byte_order("KenLM binaries")
    if not (isinstance(multiplier, float | int) and 1.0 < multiplier <= 100.0):
        raise ValueError(
            f"multiplier must be above 1 and at most 100, got {multiplier!r}"
        )
    if model.order > _fast.MOST_ORDER:
        raise ValueError(
            f"model is of order {model.order}; KenLM binaries are written up to order "
            f"{_fast.MOST_ORDER}"
        )
    sections, words = sections_of(model)
    # <unk> is word 0, the others follow in their order.
    of_unknown = words.special["unknown"]
    id_of = np.arange(1, words.n_words + 1, dtype=np.uint32)
    id_of[of_unknown:] -= np.uint32(1)
    id_of[of_unknown] = 0
    layout = layout_of(sections.counts, words.n_words, float(np.float32(multiplier)))
    spelling = words.spelling.copy()
    spelling.insert(0, spelling.pop(of_unknown))
    spelt = b"".join(word + b"\0" for word in spelling)
    image = np.zeros(layout.end + len(spelt), dtype=np.uint8)
    head = header_of(layout)
    image[: len(head)] = np.frombuffer(head, np.uint8)
    image[layout.end :] = np.frombuffer(spelt, np.uint8)
    hashes = np.empty(words.n_words, dtype=np.uint64)
    _fast.hash_words(words.text, words.ptr, hashes)
    named = np.arange(words.n_words) != of_unknown
    none = np.empty(0, dtype=np.uint32)
    table = layout.table(image, 0)
    if _fast.fill(table, 12, hashes[named], id_of[named], none) >= 0:
        raise ValueError("two words of the model have one hash; rename one of them")
    unigrams = layout.table(image, 1).view(np.uint32).reshape(-1, 2)
    unigrams[0] = _ABSENT, 0
    tree = sections.closed.tree
    word_of_node = np.zeros(tree.n_nodes, dtype=np.uint32)
    word_of_node[1:] = id_of[words.of_symbol[tree.symbol[1:]]]
    for order, rows, (prob, weight) in _ngrams(sections):
        last = id_of[rows.last]
        if order == 1:
            unigrams[last] = np.column_stack([prob, weight])
            continue
        keys = np.empty(last.size, dtype=np.uint64)
        _fast.row_keys(rows.node, last, tree.parent, word_of_node, keys)
        table, width = layout.table(image, order), layout.width[order]
        weight = none if order == layout.order else weight
        if _fast.fill(table, width, keys, prob, weight) >= 0:
            raise ValueError(
                f"two n-grams of order {order} have one key: this model cannot be a "
                "KenLM binary; write an ARPA file"
            )
    return image


def write_probing(
    model: BackoffModel, *, multiplier: float = 1.5
) -> Callable[[Any], None]:
    """See `sklstruct.exchange.write`. Returns a function that writes to a file."""
    image = image_of(model, multiplier=multiplier)
    return lambda file: file.write(image.data)


# ---------------------------------------------------------------------- reading


class _File:
    """The name of a file, for errors."""

    def __init__(self, label: str) -> None:
        self.label = label

    def fail(self, message: str, line: int | None = None) -> ValueError:
        return ValueError(f"{self.label}: {message}")


class _Known(NamedTuple):
    """The n-grams of one order that were found."""

    ids: np.ndarray  # (n, order) int32: words, the oldest first
    prefix: np.ndarray  # (n,) the row of the first order - 1 words
    suffix: np.ndarray  # (n,) the row of the last order - 1 words
    key: np.ndarray  # (n,) uint64
    prob: np.ndarray  # (n,) uint32, bits
    weight: np.ndarray  # (n,) uint32, bits


def read_probing(
    file: Any, label: str, *, max_candidates: float = 1e11
) -> BackoffModel:
    """See `sklstruct.exchange.read`.

    The file holds keys of n-grams and not their words. Those of order n are searched
    among the pairs "x m", "m y" of known n-grams of order n - 1.
    """
    image = np.frombuffer(file.read(), dtype=np.uint8)
    layout = read_layout(image.data, label)
    source = _File(label)
    try:
        _fast.Tables(
            image, layout.order, layout.n_words, layout.first, layout.n_buckets
        )
    except ValueError as exc:
        raise source.fail(f"damaged: {exc}") from exc
    raw = [word.encode() for word in read_words(image, layout, label)]
    spelt, roles = decode_words(source, raw, 0)
    n = layout.n_words
    words = np.arange(n, dtype=np.int32)
    bits = layout.table(image, 1).copy().view(np.uint32).reshape(-1, 2)[:n]
    root = np.zeros(n, dtype=np.int32)
    known = _Known(
        words[:, None], root, root, words.astype(np.uint64), bits[:, 0], bits[:, 1]
    )
    n_prefixes = 1
    sections = [_section(known)]
    for k in range(2, layout.order + 1):
        table, count = layout.table(image, k), layout.counts[k - 1]
        found = _longer(
            source, known, n_prefixes, table, layout.width[k], count, max_candidates
        )
        n_prefixes, known = known.key.size, found
        sections.append(_section(known))
    if layout.counts[0] < n:  # the file from which the tables were made had no <unk>
        del spelt[0], roles["unknown"]
        roles = {name: word - 1 for name, word in roles.items()}
        first = sections[0]
        sections[0] = Section(first.ids[:-1], first.values[1:], 0)
        sections[1:] = [part._replace(ids=part.ids - 1) for part in sections[1:]]
        if any((part.ids < 0).any() for part in sections):
            raise source.fail("damaged: an n-gram has <unk>, which is not a unigram")
    return build_model(source, spelt, roles, sections)


def _longer(
    source: _File,
    known: _Known,
    n_middles: int,
    table: np.ndarray,
    width: int,
    count: int,
    max_candidates: float,
) -> _Known:
    """The n-grams of a table, all of which must be found."""
    # Candidates begin a longer n-gram and end one.
    a = np.flatnonzero(known.weight != _NO_LONGER)
    b = np.flatnonzero((known.prob & _SIGN) == 0)
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
    weight = numbers[:, 1] if width == 16 else np.full(used, _NO_LONGER)
    ids = np.column_stack([known.ids[prefix], known.ids[suffix, -1]])
    return _Known(ids, prefix, suffix, key, numbers[:, 0], weight)


def _pointers(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _section(known: _Known) -> Section:
    log_prob = (known.prob | _SIGN).view(np.float32).astype(np.float64)
    weight = known.weight.copy().view(np.float32).astype(np.float64)
    return Section(
        np.ascontiguousarray(known.ids), np.column_stack([log_prob, weight + 0.0]), 0
    )
