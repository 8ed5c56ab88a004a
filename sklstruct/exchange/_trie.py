"""KenLM's trie of n-grams: filling it, and listing what it holds.

The children of an n-gram are those with one more word before it. The n-grams of an
order are sorted by the number of the parent, which has one word less, and then by the
id of the oldest word.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

import numpy as np

from ._kenlm_layout import ABSENT, NO_LONGER, SIGN, Layout, Records
from ._kenlm_ngrams import File, Found, NGrams
from ._trie_fast import pack, unpack

# ---------------------------------------------------------------------- writing


def fill(image: np.ndarray, layout: Layout, ngrams: NGrams) -> None:
    """Put words and n-grams into tables of zeros."""
    hashes = layout.words.of(image).view(np.uint64)
    id_of = ngrams.ids.id_of
    hashes[id_of[id_of > 0] - 1] = ngrams.ids.hashes[id_of > 0]
    if (hashes[1:] == hashes[:-1]).any() or not hashes.all():
        raise ValueError("two words of the model have one hash; rename one of them")
    unigrams = layout.unigrams.of(image).view(np.uint32).reshape(-1, 4)
    n_words = layout.n_words
    # The keys of the n-grams of the last order, sorted, and their numbers in the trie.
    key = place = np.empty(0, dtype=np.int64)
    for order, parts in groupby(ngrams.parts(), key=itemgetter(0)):
        _, rows, probs, weights = zip(*parts)
        node = np.concatenate([part.node for part in rows])
        last = np.concatenate([part.last for part in rows])
        prob, weight = np.concatenate(probs), np.concatenate(weights)
        own = node.astype(np.int64) * n_words + last
        if order == 1:
            number = id_of[last].astype(np.int64)
            plain = np.concatenate([part.log_prob for part in rows])  # with its sign
            with np.errstate(over="ignore"):
                unigrams[number, 0] = plain.astype(np.float32).view(np.uint32)
            unigrams[number, 1] = weight
        else:
            suffix = ngrams.parent[node].astype(np.int64) * n_words + last
            parent = place[np.searchsorted(key, suffix)]
            oldest = ngrams.word_of_node[node]
            by_parent = np.argsort(parent * n_words + oldest, kind="stable")
            ptr = np.zeros(layout.counts[order - 2] + 1, dtype=np.uint64)
            np.cumsum(np.bincount(parent, minlength=ptr.size - 1), out=ptr[1:])
            if order == 2:
                unigrams[: ptr.size, 2:] = ptr.view(np.uint32).reshape(-1, 2)
            else:
                _put_pointers(image, layout.longer[order - 3], ptr)
            records = layout.longer[order - 2]
            _put(image, records, "word", oldest[by_parent])
            _put_numbers(image, records, prob[by_parent] & ~SIGN, weight[by_parent])
            number = np.empty(node.size, dtype=np.int64)
            number[by_parent] = np.arange(node.size)
        by_key = np.argsort(own, kind="stable")
        key, place = own[by_key], number[by_key]


def _put(image: np.ndarray, records: Records, field: str, values: np.ndarray) -> None:
    values = np.ascontiguousarray(values, dtype=np.uint64)
    pack(image, *records.column(field), values)


def _put_pointers(image: np.ndarray, records: Records, ptr: np.ndarray) -> None:
    bits = np.uint64(records.next_bits)
    low = ptr
    if records.offsets >= 0:
        high = ptr >> bits
        low = ptr ^ (high << bits)
        n = records.n_offsets
        offsets = image[records.offsets : records.offsets + 8 * n].view(np.uint64)
        offsets[:] = np.searchsorted(high, np.arange(n, dtype=np.uint64))
    _put(image, records, "next", low)


def _put_numbers(
    image: np.ndarray, records: Records, prob: np.ndarray, weight: np.ndarray
) -> None:
    """Write probabilities and weights, or the rows of the nearest of few values.

    The values are means of as many parts of equal size of the sorted numbers. The first
    two of weights are -0 and 0, which say whether a longer n-gram begins.
    """
    if records.probs >= 0:
        number = (prob | SIGN).view(np.float32)
        centres = _centres(number, 1 << records.prob_bits)
        _values(image, records.probs, records.prob_bits)[:] = centres
        prob = _nearest(centres, number)
        if records.weight_bits:
            number = weight.view(np.float32)
            known = number != 0
            centres = _centres(number[known], (1 << records.weight_bits) - 2)
            values = _values(image, records.weights, records.weight_bits)
            values[:2], values[2:] = (-0.0, 0.0), centres
            weight = (weight != NO_LONGER).astype(np.uint32)
            weight[known] = _nearest(centres, number[known]) + 2
    _put(image, records, "prob", prob)
    if records.weight_bits:
        _put(image, records, "weight", weight)


def _values(image: np.ndarray, first: int, bits: int) -> np.ndarray:
    """The values of quantised numbers, a view."""
    return image[first : first + (4 << bits)].view(np.float32)


def _centres(numbers: np.ndarray, n: int) -> np.ndarray:
    """The means of n parts of sorted numbers; an empty part has that before it."""
    ordered = np.sort(numbers).astype(np.float64)
    bounds = ordered.size * np.arange(n + 1) // n
    some = bounds[1:] > bounds[:-1]
    centres = np.full(1 + some.sum(), -np.inf, dtype=np.float32)
    if ordered.size:
        sums = np.add.reduceat(ordered, bounds[:-1][some])
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


def ngrams(source: File, image: np.ndarray, layout: Layout) -> tuple[list[Found], bool]:
    """The n-grams of each order, and whether ``<unk>`` is one."""
    n = layout.n_words
    unigrams = layout.unigrams.of(image).copy().view(np.uint32).reshape(-1, 4)[: n + 1]
    prob, weight = unigrams[:n, 0], unigrams[:n, 1]
    ids = np.arange(n, dtype=np.int32)[:, None]
    ptr = np.ascontiguousarray(unigrams[:, 2:]).view(np.uint64).ravel()
    found = [(ids, prob, weight)]
    for order, (records, count) in enumerate(zip(layout.longer, layout.counts[1:]), 2):
        if ptr[0] or ptr[-1] != count or (ptr[1:] < ptr[:-1]).any():
            raise source.fail(
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
            raise source.fail(
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
