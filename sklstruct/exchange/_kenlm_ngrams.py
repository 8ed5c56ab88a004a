"""The n-grams of a model and those of a file, as KenLM's tables hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._checks import check_byte_order
from ..backoff import BackoffModel
from ..context_tree import ContextTree
from ._arpa_write import NgramRows, sections_of
from ._kenlm_fast import MOST_ORDER
from ._kenlm_layout import SIGN
from ._probing_fast import hash_words
from ._words import FileWords

# The n-grams of an order that a file holds: (n, order) int32 words, the oldest first,
# and the bits of probabilities and weights.
Found = tuple[np.ndarray, np.ndarray, np.ndarray]

# n-grams of a shard that tell where parts of a trie should begin.
_SAMPLES = 1 << 12
# An order, some of its n-grams, and the bits of their probabilities and weights.
Part = tuple[int, NgramRows, np.ndarray, np.ndarray]


class WordIds:
    """The ids of words in a file, by their uint64 hashes.

    `id_of` has the id of each word in the file, 0 for ``<unk>``. Words of a trie are
    numbered in the order of their hashes, words of hash tables in their own order.
    """

    def __init__(self, words: FileWords, *, by_hash: bool) -> None:
        unknown, n = words.special["unknown"], words.n_words
        self.hashes = np.empty(n, dtype=np.uint64)
        hash_words(words.text, words.ptr, self.hashes)
        order = np.argsort(self.hashes) if by_hash else np.arange(n)
        order = np.concatenate([[unknown], order[order != unknown]])
        self.id_of = np.empty(n, dtype=np.uint32)
        self.id_of[order] = np.arange(n, dtype=np.uint32)

    def spelling(self, words: FileWords) -> bytes:
        """The words in the order of their ids, each with a NUL after it."""
        order = np.argsort(self.id_of).tolist()
        return b"".join(words.spelling[i] + b"\0" for i in order)

    def oldest(self, words: FileWords, tree: ContextTree) -> np.ndarray:
        """The id of the oldest word of each node."""
        out = np.zeros(tree.n_nodes, dtype=np.uint32)
        out[1:] = self.id_of[words.of_symbol].take(tree.symbol[1:])
        return out


def check_order(order: int) -> None:
    """ValueError if no file can have this order, or this machine cannot write any."""
    check_byte_order("KenLM binaries")
    if order > MOST_ORDER:
        raise ValueError(
            f"model is of order {order}; KenLM binaries are written up to order "
            f"{MOST_ORDER}"
        )


class NGrams:
    """The n-grams of a model for a KenLM binary.

    `counts` are the numbers of n-grams of each order, and `word_of_node` has the id of
    the oldest word of each context.
    """

    def __init__(self, model: BackoffModel, *, by_hash: bool) -> None:
        check_order(model.order)
        self._sections, self.words = sections_of(model)
        self.counts = self._sections.counts
        self.ids = WordIds(self.words, by_hash=by_hash)
        self.tree = self._sections.closed.tree
        self.word_of_node = self.ids.oldest(self.words, self.tree)

    def sample(self) -> np.ndarray:
        """The newest two words of some n-grams, as of `newest_of_some`."""
        closed = self._sections.closed
        return newest_of_some(
            self.tree, closed.pair_ptr, closed.target, self.ids, self.word_of_node
        )

    def parts(self) -> Iterator[Part]:
        """The n-grams of each order, part by part."""
        sections, closed = self._sections, self._sections.closed
        begins = np.diff(closed.pair_ptr) > 0
        for rows in sections.never:  # "h w" with w never predicted begins with h
            begins[rows.node] = True
        begins[0] = False  # the node of an n-gram that is not a context
        ends = closed.suffixes().view(bool)
        # "h w" with w never predicted ends "x h w", if that is there.
        parent = closed.tree.parent
        longer = [
            set(zip(parent[rows.node].tolist(), rows.last.tolist()))
            for rows in sections.never[1:]
        ] + [set()]
        for k, (never, more) in enumerate(zip(sections.never, longer)):
            for rows, pairs in sections.pairs(k):
                begin = begins.take(closed.extension[pairs])
                yield k + 1, rows, *bits_of(rows, begin, ends[pairs])
            both = zip(never.node.tolist(), never.last.tolist())
            ending = np.array([row in more for row in both], dtype=bool)
            yield k + 1, never, *bits_of(never, begins[never.own], ending)


# One for each n-gram, or one for all.
Flags = np.ndarray | np.bool_


def bits_of(
    rows: NgramRows, begins: Flags, ends: Flags
) -> tuple[np.ndarray, np.ndarray]:
    """The bits of probability and weight of n-grams.

    begins, ends: whether some longer n-gram begins with each n-gram, and ends with it.
    """
    return prob_bits(rows.log_prob, ends), weight_bits(rows.log_backoff, begins)


def prob_bits(log_prob: np.ndarray, ends: Flags) -> np.ndarray:
    """The bits of log10-probabilities; the sign holds `ends`."""
    with np.errstate(over="ignore"):  # beyond the range: -inf, as KenLM reads it
        prob = log_prob.astype(np.float32).view(np.uint32)
    prob |= SIGN
    prob ^= _signs(ends)
    return prob


def weight_bits(log_backoff: np.ndarray, begins: Flags) -> np.ndarray:
    """The bits of log10-weights; the sign of a weight of 0 holds `begins`."""
    with np.errstate(over="ignore"):
        weight = log_backoff.astype(np.float32)
    none = (weight == 0.0) & ~begins
    weight += np.float32(0.0)  # no -0, which means: begins no longer n-gram
    bits = weight.view(np.uint32)
    bits |= _signs(none)
    return bits


def _signs(which: Flags) -> np.ndarray:
    """The sign bit where `which`. A mask as an index takes far longer than a shift."""
    return np.left_shift(which, 31, dtype=np.uint32)


def newest_of_some(
    tree: ContextTree,
    ptr: np.ndarray,
    last: np.ndarray,
    ids: WordIds,
    word_of_node: np.ndarray,
) -> np.ndarray:
    """The newest two words of some n-grams, as `newest_two` has them.

    ptr, last : the pairs of each node, and their words
    """
    some = np.arange(0, ptr[-1], 1 + ptr[-1] // _SAMPLES, dtype=ptr.dtype)
    node = np.searchsorted(ptr, some, side="right") - 1
    while ((above := tree.parent[node]) > 0).any():
        node = np.where(above > 0, above, node)
    return newest_two(ids.id_of[last[some]], word_of_node[node])


def newest_two(newest: np.ndarray, second: Any) -> np.ndarray:
    """The newest two words of n-grams as one number, which rises in their order."""
    return newest.astype(np.uint64) << np.uint64(32) | second
