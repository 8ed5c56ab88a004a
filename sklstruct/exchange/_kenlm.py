"""KenLM's binaries: models into files of either kind, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._checks import check_byte_order
from ..backoff import BackoffModel, ClosedModel
from . import _probing, _trie
from ._arpa_read import Section, build_model, decode_words
from ._arpa_write import NgramRows, sections_of
from ._kenlm_fast import MOST_ORDER, Tables
from ._kenlm_layout import (
    ABSENT,
    MOST_BITS,
    NO_LONGER,
    SIGN,
    Layout,
    Packing,
    probing_layout,
    put_header,
    read_layout,
    read_words,
    trie_layout,
)
from ._probing_fast import hash_words

# The n-grams of an order that a file holds: (n, order) int32 words, the oldest first,
# and the bits of probabilities and weights.
Found = tuple[np.ndarray, np.ndarray, np.ndarray]


# ---------------------------------------------------------------------- writing


class NGrams:
    """The n-grams of a model for a KenLM binary.

    Attributes
    ----------
    hashes : uint64 ndarray of shape (n_words,)
        Of the words.

    id_of : uint32 ndarray of shape (n_words,)
        The id of each word in the file: 0 for ``<unk>``; of a trie, the others by their
        hashes, else in their order.

    counts : list of int
        n-grams of each order.

    parent, word_of_node : ndarrays of shape (n_nodes,)
        The node without the oldest word, and the id of the oldest word.
    """

    def __init__(self, model: BackoffModel, *, by_hash: bool) -> None:
        check_byte_order("KenLM binaries")
        if model.order > MOST_ORDER:
            raise ValueError(
                f"model is of order {model.order}; KenLM binaries are written up to "
                f"order {MOST_ORDER}"
            )
        self._sections, self.words = sections_of(model)
        self.counts = self._sections.counts
        unknown, n = self.words.special["unknown"], self.words.n_words
        self.hashes = np.empty(n, dtype=np.uint64)
        hash_words(self.words.text, self.words.ptr, self.hashes)
        order = np.arange(n)
        if by_hash:
            order = np.argsort(self.hashes)
        order = np.concatenate([[unknown], order[order != unknown]])
        self.id_of = np.empty(n, dtype=np.uint32)
        self.id_of[order] = np.arange(n, dtype=np.uint32)
        self.spelling = b"".join(self.words.spelling[i] + b"\0" for i in order.tolist())
        tree = self._sections.closed.tree
        self.parent = tree.parent
        self.word_of_node = np.zeros(tree.n_nodes, dtype=np.uint32)
        of_symbol = self.id_of[self.words.of_symbol]
        self.word_of_node[1:] = of_symbol[tree.symbol[1:]]

    def image(self, layout: Layout) -> np.ndarray:
        """The bytes of a file whose tables are empty, and <unk> is not there."""
        image = np.zeros(layout.end + len(self.spelling), dtype=np.uint8)
        put_header(layout, image)
        image[layout.end :] = np.frombuffer(self.spelling, np.uint8)
        layout.unigrams.of(image)[:4] = ABSENT.reshape(1).view(np.uint8)
        return image

    def parts(self) -> Iterator[tuple[int, NgramRows, np.ndarray, np.ndarray]]:
        """(order, n-grams, bits of their probabilities and weights), part by part."""
        sections, closed = self._sections, self._sections.closed
        begins = np.diff(closed.pair_ptr) > 0
        for rows in sections.never:  # "h w" with w never predicted begins with h
            begins[rows.node] = True
        begins[0] = False  # the node of an n-gram that is not a context
        ends = closed.suffixes().astype(bool)
        # "h w" with w never predicted ends "x h w", if that is there.
        longer = [*(_suffixes(rows, closed) for rows in sections.never[1:]), set()]
        for k, (never, more) in enumerate(zip(sections.never, longer)):
            for rows, pairs in sections.pairs(k):
                yield k + 1, rows, *_numbers(rows, begins[rows.own], ends[pairs])
            both = zip(never.node.tolist(), never.last.tolist())
            ending = np.array([row in more for row in both], dtype=bool)
            yield k + 1, never, *_numbers(never, begins[never.own], ending)


def _suffixes(rows: NgramRows, closed: ClosedModel) -> set[tuple[int, int]]:
    """The n-grams without their oldest word, as (node, word)."""
    return set(zip(closed.tree.parent[rows.node].tolist(), rows.last.tolist()))


def _numbers(
    rows: NgramRows, begins: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The bits of probability and weight of n-grams.

    begins, ends: whether some longer n-gram begins with each n-gram, and ends with it.
    The sign of the probability holds `ends`, that of a weight of 0 `begins`.
    """
    with np.errstate(over="ignore"):  # beyond the range: -inf, as KenLM reads it
        prob = rows.log_prob.astype(np.float32).view(np.uint32)
        weight = rows.log_backoff.astype(np.float32)
    prob |= SIGN
    prob[ends] ^= SIGN
    none = weight == 0.0
    bits = weight.view(np.uint32)
    bits[none] = 0  # -0 means: begins no longer n-gram
    none &= ~begins
    bits[none] = NO_LONGER
    return prob, bits


def probing_image(model: BackoffModel, *, multiplier: float = 1.5) -> np.ndarray:
    """The bytes of the file of a model; see `sklstruct.exchange.write`."""
    if not (isinstance(multiplier, float | int) and 1.0 < multiplier <= 100.0):
        raise ValueError(
            f"multiplier must be above 1 and at most 100, got {multiplier!r}"
        )
    ngrams = NGrams(model, by_hash=False)
    n_words = ngrams.words.n_words
    layout = probing_layout(ngrams.counts, n_words, float(np.float32(multiplier)))
    image = ngrams.image(layout)
    _probing.fill(image, layout, ngrams)
    return image


def write_probing(
    model: BackoffModel, *, multiplier: float = 1.5
) -> Callable[[Any], None]:
    """See `sklstruct.exchange.write`. Returns a function that writes to a file."""
    image = probing_image(model, multiplier=multiplier)
    return lambda file: file.write(image.data)


def write_trie(
    model: BackoffModel,
    *,
    prob_bits: int | None = None,
    backoff_bits: int | None = None,
    pointer_bits: int | None = None,
) -> Callable[[Any], None]:
    """See `sklstruct.exchange.write`. Returns a function that writes to a file."""
    if backoff_bits is not None and prob_bits is None:
        raise ValueError("backoff_bits needs prob_bits")
    if backoff_bits is None:
        # Two of the values of weights are fixed.
        backoff_bits = prob_bits if prob_bits is None else max(prob_bits, 2)
    for name, bits, least, most in (
        ("prob_bits", prob_bits, 1, MOST_BITS),
        ("backoff_bits", backoff_bits, 2, MOST_BITS),
        ("pointer_bits", pointer_bits, 0, 255),
    ):
        if bits is not None and (
            isinstance(bits, bool)
            or not isinstance(bits, int | np.integer)
            or not least <= bits <= most
        ):
            raise ValueError(
                f"{name} must be an integer in {least}..{most} or None, got {bits!r}"
            )
    ngrams = NGrams(model, by_hash=True)
    counts = [ngrams.words.n_words, *ngrams.counts[1:]]
    layout = trie_layout(counts, Packing(prob_bits, backoff_bits, pointer_bits))
    image = ngrams.image(layout)
    _trie.fill(image, layout, ngrams)
    return lambda file: file.write(image.data)


# ---------------------------------------------------------------------- reading


class File:
    """The name of a file, for errors."""

    def __init__(self, label: str) -> None:
        self.label = label

    def fail(self, message: str, line: int | None = None) -> ValueError:
        return ValueError(f"{self.label}: {message}")


def read_kenlm(file: Any, label: str, *, max_candidates: float = 1e11) -> BackoffModel:
    """See `sklstruct.exchange.read`."""
    image = np.frombuffer(file.read(), dtype=np.uint8)
    layout = read_layout(image.data, label)
    source = File(label)
    try:
        tables = Tables(image, layout)
    except ValueError as exc:
        raise source.fail(f"damaged: {exc}") from exc
    raw = [word.encode() for word in read_words(image, layout, label)]
    wrong = next((i for i, word in enumerate(raw) if tables.id_of(word) != i), None)
    if wrong is not None:
        raise source.fail(
            f"damaged: the word {raw[wrong][:80]!r} is spelt as number {wrong}, and "
            f"found as number {tables.id_of(raw[wrong])}"
        )
    spelt, roles = decode_words(source, raw, 0)
    if layout.is_trie:
        found, known = _trie.ngrams(source, image, layout)
    else:
        found = _probing.ngrams(source, image, layout, max_candidates)
        known = layout.counts[0] == layout.n_words
    sections = [_section(source, *part) for part in found]
    if not known:  # the file from which the tables were made had no <unk>
        del spelt[0], roles["unknown"]
        roles = {name: word - 1 for name, word in roles.items()}
        first = sections[0]
        sections[0] = Section(first.ids[:-1], first.values[1:], 0)
        sections[1:] = [part._replace(ids=part.ids - 1) for part in sections[1:]]
        if any((part.ids < 0).any() for part in sections):
            raise source.fail("damaged: an n-gram has <unk>, which is not a unigram")
    return build_model(source, spelt, roles, sections)


def _section(
    source: File, ids: np.ndarray, prob: np.ndarray, weight: np.ndarray
) -> Section:
    log_prob, weight = (bits.view(np.float32) for bits in (prob | SIGN, weight.copy()))
    values = np.column_stack([log_prob, weight + 0.0]).astype(np.float64)
    bad = np.isnan(values).any(axis=1) | (values[:, 1] == np.inf)
    if bad.any():
        raise source.fail(
            f"damaged: a value of an n-gram of order {ids.shape[1]} is not a number"
        )
    return Section(np.ascontiguousarray(ids), values, 0)
