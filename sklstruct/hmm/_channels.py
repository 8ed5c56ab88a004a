"""Noisy channels: candidates for an observed word, with their log-likelihoods."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from .._checks import (
    CheckedState,
    as_ids,
    as_random_state,
    check_length,
    check_pointers,
)
from .._compat import BaseEstimator, Interval
from ..smoothing import KneserNeyLM
from . import _channels_fast as _fast
from ._sequence_model import id_windows, learn_from_ids

_KEYS = "123456789*0#"
_KEYS_OF_LETTERS = "2abc 3def 4ghi 5jkl 6mno 7pqrs 8tuv 9wxyz 0 1"
_LETTERS = {letter: key[0] for key in _KEYS_OF_LETTERS.split() for letter in key}


class _Channel(BaseEstimator):
    """Base of the channels, with `bind`."""

    _bound: Any  # class of the object that `bind` returns
    of_words = False  # True if the channel needs a model of words, not of characters

    def bind(self, words: Iterable) -> Any:
        """An object with ``candidates(observation) -> (ids, log_factor)``."""
        self._validate_params()
        return self._bound([str(w) for w in words], self)


class _BoundKeypad:
    def __init__(self, words, channel):
        self.log_slip = np.ascontiguousarray(channel._log_slip().T)
        by_length = {}
        for i, word in enumerate(words):
            by_length.setdefault(len(word), []).append(i)
        code = {key: i for i, key in enumerate(_KEYS)}
        self.by_length = {}
        for length, ids in by_length.items():
            keys = np.array(
                [[code[key] for key in channel.encode(words[i])] for i in ids],
                dtype=np.int8,
            ).reshape(len(ids), length)
            # One contiguous array per position in the word.
            self.by_length[length] = (
                np.array(ids, dtype=np.int32),
                np.ascontiguousarray(keys.T).astype(np.intp),
            )

    def candidates(self, observation):
        word = str(observation)
        for key in word:
            if key not in _KEYS:
                raise ValueError(
                    f"X holds {word!r:.60}, but observations of a keypad are strings "
                    f"of the keys {_KEYS}: encode() makes them from a word"
                )
        ids, keys = self.by_length.get(len(word), (np.empty(0, dtype=np.int32), ()))
        factor = np.zeros(len(ids))
        for key, place in zip(word, keys):
            factor += self.log_slip[_KEYS.index(key)][place]
        return ids, factor


class KeypadChannel(_Channel):
    r"""Channel of words that are typed on the twelve keys of a telephone.

    .. math::
        p(o \mid x) \propto \prod_{t=1}^{|x|}
        \frac{1}{k \cdot d(o_t, \mathrm{key}(x_t)) + 1}

    where d is the distance of two keys on the grid ``123 / 456 / 789 / *0#``, in key
    widths. An observation is a string of keys with the length of the word. Keys near
    the right key are more probable than other wrong keys. The factors are not
    normalised over observations, which does not change the posterior distribution.

    Parameters
    ----------
    k : float, default=64
        Cost of a wrong key, at least 0. The probability of a neighbouring key is lower
        by the factor k + 1. With 0 all words of the same length are equally likely.

    See Also
    --------
    EditDistanceChannel : Words with letters missing, added or wrong.
    NoisyChannelDecoder : Finds the sentence behind the keys.

    Notes
    -----
    The letters a to z are on the keys 2 to 9, a digit is on its key, and all other
    characters are on ``*``; case is ignored.

    References
    ----------
    .. [1] S. Carter, M. Dymetman, G. Bouchard, "Exact Sampling and Decoding in
       High-Order Hidden Markov Models", EMNLP 2012, equation 9.

    Examples
    --------
    >>> from sklstruct.hmm import KeypadChannel
    >>> channel = KeypadChannel()
    >>> channel.encode("dog?")
    '364*'
    >>> ids, log_factor = channel.bind(["dog", "fog", "cow", "horse"]).candidates("364")
    >>> ids.tolist(), log_factor.round(2).tolist()
    ([0, 1, 2], [0.0, 0.0, -9.14])
    """

    _bound = _BoundKeypad
    _parameter_constraints: dict = {"k": [Interval(Real, 0, None, closed="left")]}

    def __init__(self, k: float = 64):
        self.k = k

    def encode(self, word: str) -> str:
        """The keys of a word, without errors."""
        if not isinstance(word, str):
            raise TypeError(f"word must be a string, got {word!r:.60}")
        return "".join(_LETTERS.get(letter.lower(), "*") for letter in word)

    def corrupt(self, word: str, random_state: Any = None) -> str:
        """The keys of a word, each drawn from the channel.

        Parameters
        ----------
        word : str
            The intended word.

        random_state : int, RandomState, Generator or None, default=None
            Source of the draws.

        Returns
        -------
        keys : str
        """
        rng = as_random_state(random_state)
        proba = np.exp(self._log_slip())
        proba /= proba.sum(axis=1, keepdims=True)
        keys = [_KEYS.index(key) for key in self.encode(word)]
        return "".join(_KEYS[rng.choice(12, p=proba[key])] for key in keys)

    def _log_slip(self):
        """(12, 12) log-factor of an observed key (column) given the intended key
        (row)."""
        self._validate_params()
        row, column = np.divmod(np.arange(12), 3)
        distance = np.hypot(row[:, None] - row, column[:, None] - column)
        return -np.log1p(self.k * distance)


# Letters of an observation per edit: one edit in "teh", no edit in "of".
_LETTERS_PER_EDIT = 3
# A letter is predicted from the five before it.
_LETTER_CONTEXT = 5


def _code_points(text):
    """Code points, lone surrogates included."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.int32)


def _is_letter(sign):
    """Letters, the marks that are parts of letters, and the signs within words."""
    return (
        unicodedata.category(sign)[0] in "LM"
        or sign in "'\N{RIGHT SINGLE QUOTATION MARK}-"
    )


def _is_word(text):
    return all(map(_is_letter, text)) and any(map(str.isalpha, text))


class _BoundEdits(CheckedState):
    def __init__(self, words, channel):
        self.log_edit = float(np.log(channel.error_rate))
        self.max_distance = int(channel.max_distance)
        lengths = np.array([len(w) for w in words], dtype=np.int64)
        # Sorted by length, so that only words of a possible length are compared.
        self.ids = np.argsort(lengths, kind="stable").astype(np.int32)
        self.lengths = lengths[self.ids]
        text = _code_points("".join(words[i] for i in self.ids))
        self.text = text if text.size else np.zeros(1, dtype=np.int32)
        self.ptr = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)
        self.is_word = np.array([_is_word(words[i]) for i in self.ids], dtype=bool)
        self.letters, code, count = np.unique(
            text, return_inverse=True, return_counts=True
        )
        share = count / max(text.size, 1)
        self.log_letters = float(-(share * np.log(share)).sum())
        # An additional letter stands for letters that no word has.
        n = self.letters.size + 1
        spelt = [code[a:b] for a, b in itertools.pairwise(self.ptr.tolist())]
        self.spelling, _ = learn_from_ids(
            KneserNeyLM(discount=(0.5, 1.0, 1.5)), list(range(n)),
            *id_windows(spelt or [code], n, _LETTER_CONTEXT),
        )  # fmt: skip

    def _check_arrays(self) -> None:
        ptr = as_ids("ptr", self.ptr, 1, np.int64)
        for name in ("ids", "lengths", "is_word"):
            check_length(name, getattr(self, name), ptr.size - 1, "the words")
        check_pointers("ptr", ptr, int(np.sum(self.lengths)))
        if self.text.ndim != 1 or self.text.size < ptr[-1]:
            raise ValueError(f"text must have {ptr[-1]} letters, got {self.text.shape}")
        labels = self.spelling.labels
        check_length("letters", self.letters, len(labels.classes) - 2, "the letters")

    def candidates(self, observation):
        word = str(observation)
        limit = 0
        if _is_word(word):
            limit = min(self.max_distance, len(word) // _LETTERS_PER_EDIT)
        low, high = np.searchsorted(
            self.lengths, [len(word) - limit, len(word) + limit + 1]
        )
        edits, new = np.empty((2, high - low), dtype=np.int32)
        _fast.edit_distances(
            _code_points(word + " ")[:-1].copy(), self.text, self.ptr[low : high + 1],
            limit, np.empty(3 * (len(word) + 1), dtype=np.int32), edits, new,
        )  # fmt: skip
        near = np.flatnonzero((edits == 0) | (edits <= limit) & self.is_word[low:high])
        ids = self.ids[low:high][near]
        factor = edits[near] * self.log_edit - new[near] * self.log_letters
        order = np.argsort(ids, kind="stable")
        return ids[order], 0.0 + factor[order]

    def log_unknown(self, observation):
        """Natural logarithm of the probability of this spelling."""
        code = _code_points(str(observation) + " ")[:-1]
        at = np.searchsorted(self.letters, code)
        at[at == self.letters.size] = 0
        n = self.letters.size
        known = self.letters[at] == code if n else np.zeros(code.size, dtype=bool)
        letters = np.where(known, at, n).astype(np.int32)
        before = np.insert(letters, 0, self.spelling.labels.start_id)
        end = np.arange(1, before.size + 1)
        y = np.append(letters, np.int32(n + 1))
        return float(self.spelling.of_symbols.targets(before, end, y).sum())


class EditDistanceChannel(_Channel):
    r"""Channel of typing errors: letters are missing, added, wrong or swapped.

    .. math::
        p(o \mid x) \propto \varepsilon^{d(o, x)} A^{-a(o, x)}, \qquad
        d(o, x) \le \min(D, \lfloor |o| / 3 \rfloor)

    where d is the smallest number of edits. An edit inserts, deletes or changes a
    letter, or swaps two neighbours. a is the number of letters of o that were inserted
    or changed, without inserted repetitions of the letter before. Each of these letters
    could have been any of A letters. The factors are not normalised over observations.

    Parameters
    ----------
    error_rate : float, default=0.0005
        :math:`\varepsilon`, the factor of the probability for one edit, above 0 and
        below 1. A larger value corrects more typos, but also changes more correct words
        that the language model does not know.

    max_distance : int, default=2
        D, the largest number of edits of a word, at least 0.

    See Also
    --------
    KeypadChannel : Words typed on a telephone.
    NoisyChannelDecoder : Finds the sentence behind the observations.

    Notes
    -----
    Words shorter than three letters are not changed. Numbers, punctuation and all
    strings with other characters than letters, apostrophes and hyphens are not changed
    either, and no word is changed to such a string.

    An observation that is not among the words may also be a correctly spelt word that
    the language model does not know. ``log_unknown`` of the bound channel gives the
    logarithm of the probability of its spelling, by a Kneser-Ney model of order 6 over
    the letters of the words. A is the perplexity of single letters in these words.

    Of several alignments with the fewest edits, the alignment with the fewest new
    letters is used. No letter is edited twice (optimal string alignment). One
    observation stands for one word: joined or split words, which would change the
    length of the sentence, are not corrected.

    References
    ----------
    .. [1] M. Kernighan, K. Church, W. Gale, "A Spelling Correction Program Based on a
       Noisy Channel Model", COLING 1990.

    Examples
    --------
    >>> from sklstruct.hmm import EditDistanceChannel
    >>> bound = EditDistanceChannel().bind(["cat", "cart", "dog"])
    >>> ids, log_factor = bound.candidates("cart")
    >>> ids.tolist(), log_factor.round(2).tolist()
    ([0, 1], [-9.49, 0.0])
    """

    of_words = True
    _bound = _BoundEdits
    _parameter_constraints: dict = {
        "error_rate": [Interval(Real, 0, 1, closed="neither")],
        "max_distance": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(self, error_rate: float = 0.0005, max_distance: int = 2):
        self.error_rate = error_rate
        self.max_distance = max_distance
