"""CacheState: the words that a cache remembers, as counts."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from .._checks import INT32_MAX
from . import _cache_fast

# Words read in one call of a kernel: signals are looked at between calls.
_CALL = 1 << 16


class Recalled(NamedTuple):
    """What the counts gave for each word of a text, before it was counted."""

    unigram: np.ndarray  # decayed count of the word ...
    total: np.ndarray  # ... and of all words
    in_class: np.ndarray  # the same with the half-life of classes ...
    class_total: np.ndarray  # ... and of the words of its class
    ngram: np.ndarray  # probability in the n-gram cache
    matched: np.ndarray  # int32: the order that it came from, 0 where it is empty


class _Decayed:
    """Decayed counts of words and of their groups."""

    def __init__(self, group, half_life):
        self.group = group
        self.decay = 0.5 ** (1.0 / half_life)
        self.now = 0
        n_groups = int(group.max()) + 1 if group.size else 0
        self.value, self.time = np.zeros(group.size), np.zeros(group.size, np.int64)
        self.group_value = np.zeros(n_groups)
        self.group_time = np.zeros(n_groups, np.int64)

    def read(self, words, begin, length):
        n = words.size - begin
        own, total = np.empty(n), np.empty(n)
        self.now = _cache_fast.read_decayed(
            words, begin, length, self.group, self.decay, self.now,
            self.value, self.time, self.group_value, self.group_time, own, total,
        )  # fmt: skip
        return own, total

    def row(self):
        """(count of every word, count of every group), now."""
        return (
            self.value * self.decay ** (self.now - self.time),
            self.group_value * self.decay ** (self.now - self.group_time),
        )


class _NGrams:
    """Counts of n-grams in a trie."""

    def __init__(self, n_classes, order, discount):
        self.n_words, self.discount = n_classes + 1, discount
        self.path = np.full(order, -1, dtype=np.int32)
        self.path[0] = 0
        self.tail_path = self.path.copy()
        self.keys = np.full(64, -1, dtype=np.int64)
        self.slots = np.zeros(64, dtype=np.int32)
        self.nodes = np.zeros((32, 6), dtype=np.int32)
        self.nodes[0, 3:] = -1
        self.n_nodes = 1

    def _grow(self, n):
        """Room for n more nodes; the table of keys stays half empty."""
        need = self.n_nodes + n
        if need > INT32_MAX:
            raise ValueError(
                f"the n-gram cache needs {need} nodes, more than {INT32_MAX}: reset "
                "the state, or set length"
            )
        if need > self.nodes.shape[0]:
            nodes = np.zeros((max(need, 2 * self.nodes.shape[0]), 6), dtype=np.int32)
            nodes[: self.n_nodes] = self.nodes[: self.n_nodes]
            self.nodes = nodes
        size = self.keys.size
        while size < 2 * need:
            size *= 2
        if size > self.keys.size:
            keys, slots = np.full(size, -1, dtype=np.int64), np.zeros(size, np.int32)
            _cache_fast.rehash(self.keys, self.slots, keys, slots)
            self.keys, self.slots = keys, slots

    def read(self, words, first, begin, length):
        n = words.size - begin
        prob, matched = np.empty(n), np.empty(n, dtype=np.int32)
        self._grow((self.path.size + 1) * n + 2)
        self.n_nodes = _cache_fast.read_ngrams(
            words, first, begin, length, self.discount, self.n_words, self.path,
            self.tail_path, self.keys, self.slots, self.nodes, self.n_nodes,
            prob, matched,
        )  # fmt: skip
        return prob, matched

    def row(self, words, n_classes):
        """(probability of every word, order) after the first words of a sentence."""
        self._grow(1)
        path = self.path.copy()
        self.n_nodes = _cache_fast.start_context(
            path, self.n_words, self.keys, self.slots, self.nodes, self.n_nodes
        )
        _cache_fast.follow(words, path, self.n_words, self.keys, self.slots)
        row = np.empty(n_classes)
        order = _cache_fast.ngram_row(path, self.discount, self.nodes, row)
        return row, order


class CacheState:
    """The words that a `CacheLM` has read, as it remembers them.

    Made by :meth:`CacheLM.new_state`; read and changed by
    :meth:`CacheLM.score_stream`. It can be pickled, and continued in another process.

    Parameters
    ----------
    n_classes : int
        Number of words that are predicted.

    max_order : int
        Longest n-grams, at least 1.

    discount : float
        Taken from every n-gram count, between 0 and 1.

    half_life, class_half_life : float
        Words after which a count is worth a half.

    length : int or None
        Words that are remembered; None: all.

    class_of : int32 ndarray of shape (n_classes,) or None
        The class of each word, for the within-class cache.

    Attributes
    ----------
    n_words_ : int
        Words read since the last reset.
    """

    def __init__(
        self,
        n_classes: int,
        max_order: int,
        discount: float,
        half_life: float,
        class_half_life: float,
        length: int | None = None,
        class_of: np.ndarray | None = None,
    ):
        self.n_classes, self.max_order, self.discount = n_classes, max_order, discount
        self.half_life, self.class_half_life = half_life, class_half_life
        self.length, self.class_of = length, class_of
        self.reset()

    def reset(self) -> CacheState:
        """Forget everything, as at the beginning of a document.

        Returns
        -------
        self : CacheState
        """
        one_group = np.zeros(self.n_classes, dtype=np.int32)
        self._all = _Decayed(one_group, self.half_life)
        self._classes = None
        if self.class_of is not None:
            self._classes = _Decayed(self.class_of, self.class_half_life)
        self._ngrams = _NGrams(self.n_classes, self.max_order, self.discount)
        self._words = np.empty(0, dtype=np.int32)
        self._first = np.empty(0, dtype=np.uint8)
        self.n_words_ = 0
        return self

    def fits(self, other: CacheState) -> bool:
        """Whether the other state counts the same words in the same way."""
        mine, its = (
            (s.n_classes, s.max_order, s.discount, s.half_life, s.class_half_life)
            for s in (self, other)
        )
        classes = (self.class_of is None) == (other.class_of is None)
        return (
            mine == its
            and self.length == other.length
            and classes
            and (self.class_of is None or np.array_equal(self.class_of, other.class_of))
        )

    def copy(self) -> CacheState:
        """A state that goes its own way.

        Returns
        -------
        state : CacheState
        """
        return copy.deepcopy(self)

    def read(self, words: np.ndarray, first: np.ndarray) -> Recalled:
        """Read words, each before it is counted.

        Parameters
        ----------
        words : int32 ndarray of shape (n,)
            Class ids; a negative one is a word without class, which is not counted.

        first : bool ndarray of shape (n,)
            Where sentences begin.

        Returns
        -------
        recalled : Recalled
        """
        first = np.ascontiguousarray(first).view(np.uint8)
        parts = [
            self._read(words[i : i + _CALL], first[i : i + _CALL])
            for i in range(0, max(words.size, 1), _CALL)
        ]
        return Recalled(*map(np.concatenate, zip(*parts)))

    def _read(self, new, first):
        length = -1 if self.length is None else int(self.length)
        begin = self._words.size
        words = np.ascontiguousarray(np.append(self._words, new), dtype=np.int32)
        first = np.append(self._first, first)
        own, total = self._all.read(words, begin, length)
        in_class, class_total = np.zeros(new.size), np.zeros(new.size)
        if self._classes is not None:
            in_class, class_total = self._classes.read(words, begin, length)
        ngram, matched = self._ngrams.read(words, first, begin, length)
        self.n_words_ += new.size
        if length >= 0:
            # Beside those that count, the words that the oldest of them follow.
            keep = min(words.size, length + self.max_order)
            self._words, self._first = words[words.size - keep :], first[-keep:]
            self._compact(length)
        return own, total, in_class, class_total, ngram, matched

    def _compact(self, length):
        """Make the trie of n-grams anew where most of its nodes count nothing."""
        old = self._ngrams
        if old.n_nodes < 8 * (self.max_order + 1) * (self._words.size + 128):
            return
        new = _NGrams(self.n_classes, self.max_order, self.discount)
        new.read(self._words, self._first, 0, length)
        self._ngrams = new

    def rows(self, words: np.ndarray) -> tuple:
        """What the counts give for every word after the first words of a sentence.

        Parameters
        ----------
        words : int32 ndarray of shape (n,)
            Class ids of the words of the sentence so far, which are not counted.

        Returns
        -------
        unigram, total : ndarray of shape (n_classes,), float
            Decayed counts and their sum.

        in_class, class_total : ndarray of shape (n_classes,) or None
            The same with the half-life of classes; the sum over the word's class.

        ngram : ndarray of shape (n_classes,)
            Probabilities in the n-gram cache.

        matched : int
            The order that they came from, 0 where it is empty.
        """
        unigram, total = self._all.row()
        in_class = class_total = None
        if self._classes is not None:
            in_class, of_class = self._classes.row()
            class_total = of_class[self.class_of]
        ngram, matched = self._ngrams.row(words, self.n_classes)
        return unigram, float(total[0]), in_class, class_total, ngram, matched
