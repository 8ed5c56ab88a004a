"""CacheState: the counts of a cache."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._checks import INT32_MAX, as_numbers, check_ids, check_length
from . import _cache_fast

# Words read in one call of a kernel; Python handles Ctrl-C between calls.
_CALL = 1 << 16


class Recalled(NamedTuple):
    """Counts of each word of a text, just before it was counted.

    Counts of words come with the sum over all words, or over those of its class; both
    have a column for each half-life.
    """

    unigram: np.ndarray  # decayed count of the word ...
    total: np.ndarray  # ... and of all words
    in_class: np.ndarray  # the same for the within-class caches ...
    class_total: np.ndarray  # ... and of the words of its class
    share: np.ndarray  # (n, order - 1, half-lives) of the followers of a context
    facts: np.ndarray  # (n, order, 2) number of followers, and of different ones
    gain: np.ndarray  # (n,) what the learnt weights add to ln P of the word's class


def matched_order(facts: np.ndarray) -> np.ndarray:
    """The longest n-gram order whose context occurred, 0 for none.

    The contexts of a position that occurred are its shortest ones.
    """
    return (facts[:, :, 0] > 0).sum(axis=1)


def learning_rates(value: ArrayLike) -> tuple[float, ...]:
    """The steps of the weights of classes: three numbers, or one for all of them."""
    rates = as_numbers("learning_rate", value)
    if rates.shape == (1,):
        rates = np.full(3, rates)
    if rates.shape != (3,) or not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError(
            "learning_rate must be a number in [0, 1], or three: after all "
            "histories, after the class of the last word, after the last word; got "
            f"{value!r}"
        )
    return tuple(rates.tolist())


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
    """Counts of n-grams in a trie, whole and decayed."""

    def __init__(self, n_classes, order, half_lives):
        self.n_words = n_classes + 1
        self.decay = 0.5 ** (1.0 / np.asarray(half_lives, dtype=np.float64))
        self.now = 0
        # Of the newest word, and of the oldest one that is counted.
        self.paths = np.full((2, order), -1, dtype=np.int32)
        self.paths[:, 0] = 0
        self.keys = np.full(64, -1, dtype=np.int64)
        self.slots = np.zeros(64, dtype=np.int32)
        self.nodes = np.zeros((32, 6), dtype=np.int32)
        self.nodes[0, 3:] = -1
        self.value = np.zeros((32, 2 * self.decay.size + 2))
        self.n_nodes = 1

    def _grow(self, n):
        """Room for n more nodes; the table of keys stays half empty."""
        need = self.n_nodes + n
        if need > INT32_MAX:
            raise ValueError(
                f"the n-gram cache needs {need} nodes, more than {INT32_MAX}: reset "
                "the state, or set length"
            )
        for name in ("nodes", "value"):  # an interrupt may have left one of them behind
            old = getattr(self, name)
            if need > old.shape[0]:
                size = max(need, 2 * old.shape[0])
                new = np.zeros((size, old.shape[1]), dtype=old.dtype)
                new[: self.n_nodes] = old[: self.n_nodes]
                setattr(self, name, new)
        size = self.keys.size
        while size < 2 * need:
            size *= 2
        if size > self.keys.size:
            keys, slots = np.full(size, -1, dtype=np.int64), np.zeros(size, np.int32)
            _cache_fast.rehash(self.keys, self.slots, keys, slots)
            self.keys, self.slots = keys, slots

    def read(self, words, first, begin, length):
        n, order = words.size - begin, self.paths.shape[1]
        share = np.empty((n, order - 1, self.decay.size))
        facts = np.empty((n, order, 2), dtype=np.int32)
        self._grow((order + 1) * n + 2)
        self.n_nodes = _cache_fast.read_ngrams(
            words, first, begin, length, self.decay, self.n_words, self.now, self.paths,
            self.keys, self.slots, self.nodes, self.value, self.n_nodes, share, facts,
        )  # fmt: skip
        self.now += int((words[begin:] >= 0).sum())
        return share, facts

    def path(self, begins):
        """The contexts of the next word; begins: a sentence begins with it."""
        path = self.paths[0].copy()
        if begins:
            self._grow(1)
            self.n_nodes = _cache_fast.start_context(
                path, self.n_words, self.keys, self.slots, self.nodes, self.value,
                self.n_nodes,
            )  # fmt: skip
        return path

    def facts(self, path):
        """The `facts` of `Recalled`, for one position."""
        return np.where(path[:, None] >= 0, self.nodes[path][:, 1:3], 0)[None]

    def add_row(self, path, weight, row):
        """Add the weighted shares of all words to a row."""
        _cache_fast.add_ngram_row(path, self.decay, weight, self.nodes, self.value, row)


class _ClassWeights:
    """Weights of classes after a history, which learn from each word."""

    def __init__(self, group, rates, half_life, length):
        self.group, self.rates = group, np.asarray(rates)
        self.decay = 0.5 ** (1.0 / half_life)
        self.now, self.last = 0, -1
        n_groups = int(group.max()) + 1 if group.size else 0
        # Of all histories, of each class of the last word, of the start mark.
        self.n_rows = n_groups + 2
        self.value = np.zeros((self.n_rows, n_groups))
        self.time = np.zeros(self.n_rows, dtype=np.int64)
        self.row_of_word = np.full(group.size + 1, -1, dtype=np.int32)
        # A ring of gradients: a word is forgotten after the next one was read.
        self.n_past = 0 if length is None else int(length) + 1
        self.past = np.zeros((0, n_groups))

    def _grow(self, n):
        """Room for n more words, each with a row of its own, and one more row."""
        n_groups = self.value.shape[1]
        # Until it has all its rows, the ring is as long as the text.
        ring = min(self.n_past, self.now + n)
        if ring > len(self.past):
            size = min(self.n_past, max(ring, 2 * len(self.past)))
            past = np.zeros((size, n_groups))
            past[: len(self.past)] = self.past
            self.past = past
        n += 1
        need = min(self.n_rows + n, n_groups + 2 + self.row_of_word.size)
        for name in ("value", "time"):  # an interrupt may have left one of them behind
            old = getattr(self, name)
            if need > len(old):
                size = max(need, 2 * self.n_rows)
                new = np.zeros((size, *old.shape[1:]), dtype=old.dtype)
                new[: self.n_rows] = old[: self.n_rows]
                setattr(self, name, new)

    def read(self, words, first, begin, length, proba):
        n, n_groups = words.size - begin, self.value.shape[1]
        gain, scratch = np.zeros(n), np.empty((2, n_groups))
        if n and n_groups:
            self._grow(n)
            self.now, self.last, self.n_rows = _cache_fast.learn_classes(
                words, first, begin, length, self.group, proba, self.rates, self.decay,
                self.now, self.last, self.row_of_word, self.value, self.time,
                self.n_rows, self.past, scratch, gain,
            )  # fmt: skip
        return gain

    def scores(self, begins):
        """(n_groups,) sums of the weights after the words so far."""
        total = np.zeros(self.value.shape[1])
        _cache_fast.add_class_weights(
            self.group.size if begins else self.last, self.group, self.row_of_word,
            self.rates, self.decay, self.now, self.value, self.time, total,
        )  # fmt: skip
        return total


class CacheState:
    """The counts of the words that a `CacheLM` has read.

    :meth:`CacheLM.new_state` creates it, :meth:`CacheLM.score_stream` reads and changes
    it. It can be pickled, and used further in another process.

    Parameters
    ----------
    n_classes : int
        Number of words that are predicted.

    max_order : int
        Longest n-grams, at least 1.

    half_life, class_half_life, ngram_half_life : tuple of float
        Numbers of words after which an occurrence counts one half: of words, of words
        within their class, of n-grams.

    length : int or None
        Number of the last words that are remembered; None: all.

    class_of : int32 ndarray of shape (n_classes,) or None
        The class of each word, for the within-class caches and the weights of classes.

    learning_rate : float or array-like of shape (3,)
        Steps of the weights of classes, as of :class:`CacheLM`.

    learning_half_life : float
        Number of words after which a step counts one half, at least 1.

    Attributes
    ----------
    n_words_ : int
        Words read since the last reset.
    """

    def __init__(
        self,
        n_classes: int,
        max_order: int,
        half_life: tuple[float, ...],
        class_half_life: tuple[float, ...],
        ngram_half_life: tuple[float, ...],
        length: int | None = None,
        class_of: np.ndarray | None = None,
        learning_rate: float | ArrayLike = (0.0, 0.0, 0.0),
        learning_half_life: float = np.inf,
    ):
        self.n_classes, self.max_order = n_classes, max_order
        self.half_life, self.class_half_life = half_life, class_half_life
        self.ngram_half_life = ngram_half_life
        self.length, self.class_of = length, class_of
        self.learning_rate = learning_rates(learning_rate)
        if not learning_half_life >= 1:
            raise ValueError(
                f"learning_half_life must be at least 1, got {learning_half_life!r}"
            )
        self.learning_half_life = learning_half_life
        if class_of is not None:
            check_length("class_of", class_of, n_classes, "a class of each word")
            check_ids("class_of", class_of, 0, max(n_classes, 1), "class of words")
        self.reset()

    def reset(self) -> CacheState:
        """Forget everything, as at the beginning of a document.

        Returns
        -------
        self : CacheState
        """
        one_group = np.zeros(self.n_classes, dtype=np.int32)
        self._all = [_Decayed(one_group, h) for h in self.half_life]
        self._classes = []
        if self.class_of is not None:
            self._classes = [_Decayed(self.class_of, h) for h in self.class_half_life]
        self._weights = None
        if self.learns:
            self._weights = _ClassWeights(
                self.class_of, self.learning_rate, self.learning_half_life, self.length
            )
        self._ngrams = self._new_ngrams()
        self._words = np.empty(0, dtype=np.int32)
        self._first = np.empty(0, dtype=np.uint8)
        self.n_words_ = 0
        return self

    @property
    def learns(self) -> bool:
        """Whether there are weights of classes, so that `read` needs probabilities."""
        return self.class_of is not None and any(self.learning_rate)

    def _new_ngrams(self):
        return _NGrams(self.n_classes, self.max_order, self.ngram_half_life)

    def fits(self, other: CacheState) -> bool:
        """True if the other state counts the same words in the same way."""
        mine, its = (
            (
                s.n_classes,
                s.max_order,
                s.half_life,
                s.class_half_life,
                s.ngram_half_life,
                s.length,
                s.learning_rate,
                s.learning_half_life,
                s.class_of is None,
            )
            for s in (self, other)
        )
        return mine == its and (
            self.class_of is None
            or other.class_of is None
            or np.array_equal(self.class_of, other.class_of)
        )

    def copy(self) -> CacheState:
        """An independent copy.

        Returns
        -------
        state : CacheState
        """
        fixed = [self.class_of, *(c.group for c in (*self._all, *self._classes))]
        return copy.deepcopy(self, {id(array): array for array in fixed})

    def read(
        self, words: np.ndarray, first: np.ndarray, proba: np.ndarray | None = None
    ) -> Recalled:
        """Read words, each before it is counted.

        Parameters
        ----------
        words : int32 ndarray of shape (n,)
            Class ids; a negative one is a word without class, which is not counted.

        first : bool ndarray of shape (n,)
            True where a sentence begins.

        proba : ndarray of shape (n, number of classes), default=None
            The probability of each class of words that the base gives at each position;
            needed if the state learns weights of classes.

        Returns
        -------
        recalled : Recalled

        Raises
        ------
        ValueError
            If ids are no class ids, or `proba` is needed and is not given.
        """
        check_ids("words", words, -INT32_MAX, self.n_classes, "class id")
        first = np.ascontiguousarray(first).view(np.uint8)
        if self._weights is not None:
            shape = (words.size, self._weights.value.shape[1])
            if proba is None or proba.shape != shape:
                raise ValueError(
                    "proba must hold the probability of each class at each word, of "
                    f"shape {shape}: this state learns weights of classes; with "
                    "learning_rate=0 it learns none"
                )
            proba = np.ascontiguousarray(proba, dtype=np.float64)
        parts = []
        for i in range(0, max(words.size, 1), _CALL):
            s = slice(i, i + _CALL)
            here = None if proba is None else proba[s]
            parts.append(self._read(words[s], first[s], here))
        return Recalled(*map(np.concatenate, zip(*parts)))

    def _read(self, new, first, proba):
        length = -1 if self.length is None else int(self.length)
        begin = self._words.size
        words = np.ascontiguousarray(np.append(self._words, new), dtype=np.int32)
        first = np.append(self._first, first)
        of_words = []
        for caches in (self._all, self._classes):
            found = [cache.read(words, begin, length) for cache in caches]
            for values in zip(*found) if found else ((), ()):
                table = np.empty((new.size, len(caches)))
                for k, column in enumerate(values):
                    table[:, k] = column
                of_words.append(table)
        share, facts = self._ngrams.read(words, first, begin, length)
        gain = np.zeros(new.size)
        if self._weights is not None:
            gain = self._weights.read(words, first, begin, length, proba)
        self.n_words_ += new.size
        if length >= 0:
            # The last `length` words, and the context of the oldest of them.
            keep = min(words.size, length + self.max_order)
            self._words, self._first = words[words.size - keep :], first[-keep:]
            self._compact(length)
        return *of_words, share, facts, gain

    def _compact(self, length):
        """Make the trie of n-grams anew if most of its nodes have a count of 0."""
        old = self._ngrams
        if old.n_nodes < 8 * (self.max_order + 1) * (self._words.size + 128):
            return
        self._ngrams = self._new_ngrams()
        self._ngrams.read(self._words, self._first, 0, length)

    def class_scores(self, begins: bool) -> np.ndarray | None:
        """What the learnt weights add to the logarithm of each class's probability,
        before the classes are normalised; None: nothing is learnt.

        Parameters
        ----------
        begins : bool
            True if a sentence begins with the next word.

        Returns
        -------
        scores : ndarray of shape (number of classes,) or None
        """
        return None if self._weights is None else self._weights.scores(begins)

    def rows(self, begins: bool) -> tuple:
        """Counts of every word that may come next.

        Parameters
        ----------
        begins : bool
            True if a sentence begins with it.

        Returns
        -------
        counts : list of (count of every word, sum over all)
            One for each half-life.

        class_counts : list of (count of every word, sum over its class)
            One for each half-life of the within-class caches.

        facts : ndarray of shape (1, max_order, 2)
            The `facts` of `Recalled`.

        add_ngrams : callable
            ``add_ngrams(weight, row)`` adds the shares of n-grams, with weights of
            shape (max_order - 1, n_half_lives), to a row.
        """
        counts = []
        for cache in self._all:
            count, total = cache.row()
            counts.append((count, total[0]))
        class_counts = []
        for cache in self._classes:
            count, total = cache.row()
            class_counts.append((count, total[self.class_of]))
        path = self._ngrams.path(begins)

        def add_ngrams(weight, row):
            self._ngrams.add_row(path, weight, row)

        return counts, class_counts, self._ngrams.facts(path), add_ngrams
