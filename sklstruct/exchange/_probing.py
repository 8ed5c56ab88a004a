"""KenLM's hash tables of n-grams: filling them, and listing what they hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import _probing_fast as _fast
from ._kenlm_layout import NO_LONGER, SIGN, Buckets, Layout
from ._kenlm_ngrams import File, Found, NGrams


def fill(image: np.ndarray, layout: Layout, ngrams: NGrams) -> None:
    """Put words and n-grams into tables of zeros."""
    none = np.empty(0, dtype=np.uint32)
    named = ngrams.id_of > 0
    table, id_of = layout.words, ngrams.id_of
    hashes = ngrams.hashes[named]
    if _fast.fill(table.of(image), table.width, hashes, id_of[named], none) >= 0:
        raise ValueError("two words of the model have one hash; rename one of them")
    unigrams = layout.unigrams.of(image).view(np.uint32).reshape(-1, 2)
    for order, rows, prob, weight in ngrams.parts():
        last = id_of[rows.last]
        if order == 1:
            unigrams[last] = np.column_stack([prob, weight])
            continue
        keys = np.empty(last.size, dtype=np.uint64)
        _fast.row_keys(rows.node, last, ngrams.parent, ngrams.word_of_node, keys)
        table = layout.longer[order - 2]
        weight = none if order == layout.order else weight
        if _fast.fill(table.of(image), table.width, keys, prob, weight) >= 0:
            raise ValueError(
                f"two n-grams of order {order} have one key: this model cannot be a "
                "KenLM binary of hash tables; write a trie or an ARPA file"
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
