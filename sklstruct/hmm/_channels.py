"""Noisy channels: candidates for an observed word, with their log-likelihoods."""

from __future__ import annotations

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
from . import _channels_fast as _fast

_KEYS = "123456789*0#"
_LETTERS = {
    **dict.fromkeys("abc", "2"),
    **dict.fromkeys("def", "3"),
    **dict.fromkeys("ghi", "4"),
    **dict.fromkeys("jkl", "5"),
    **dict.fromkeys("mno", "6"),
    **dict.fromkeys("pqrs", "7"),
    **dict.fromkeys("tuv", "8"),
    **dict.fromkeys("wxyz", "9"),
    **{d: d for d in "0123456789"},
}


class _Channel(BaseEstimator):
    """Base of the channels: parameters, and `bind` to a vocabulary."""

    def bind(self, words: Iterable) -> Any:
        """An object with ``candidates(observation) -> (ids, log_factor)``."""
        self._validate_params()
        return self._bind([str(w) for w in words])

    def _bind(self, words):
        raise NotImplementedError


class KeypadChannel(_Channel):
    r"""Words typed on the twelve keys of a telephone, with slips to near keys.

    .. math::
        p(o \mid x) \propto \prod_{t=1}^{|x|}
        \frac{1}{k \cdot d(o_t, \mathrm{key}(x_t)) + 1}

    where d is the distance of two keys on the grid ``123 / 456 / 789 / *0#``, in key
    widths. Observations are strings of keys, of the length of the word; the factors are
    not normalised over observations, which changes no posterior.

    Parameters
    ----------
    k : float, default=64
        Price of a slip: one to the next key costs a factor of k + 1. At least 0, where
        all words of the same length are equally likely.

    See Also
    --------
    EditDistanceChannel : Words with letters missing, added or wrong.
    NoisyChannelDecoder : Finds the sentence behind the keys.

    Notes
    -----
    a to z are on the keys 2 to 9, digits on their own, everything else on ``*``; case
    is ignored.

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

    _parameter_constraints: dict = {"k": [Interval(Real, 0, None, closed="left")]}

    def __init__(self, k: float = 64):
        self.k = k

    def encode(self, word: str) -> str:
        """The keys of a word, typed without a slip."""
        return "".join(_LETTERS.get(letter, "*") for letter in word.lower())

    def corrupt(self, word: str, random_state: Any = None) -> str:
        """The keys of a word, each drawn from the channel.

        Parameters
        ----------
        word : str

        random_state : int, RandomState, Generator or None, default=None

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
        """(12, 12) log factor of an observed key (column) for a meant one (row)."""
        row, column = np.divmod(np.arange(12), 3)
        distance = np.hypot(row[:, None] - row, column[:, None] - column)
        return -np.log1p(self.k * distance)

    def _bind(self, words):
        return _BoundKeypad(words, self)


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
                [[code[key] for key in channel.encode(words[i])[:length]] for i in ids],
                dtype=np.int8,
            ).reshape(len(ids), length)
            # One contiguous array a place in the word.
            self.by_length[length] = (
                np.array(ids, dtype=np.int32),
                np.ascontiguousarray(keys.T).astype(np.intp),
            )

    def candidates(self, observation):
        word = str(observation)
        for key in word:
            if key not in _KEYS:
                raise ValueError(
                    f"X holds {word!r}, but observations of a keypad are strings of "
                    f"the keys {_KEYS}: encode() makes them from a word"
                )
        ids, keys = self.by_length.get(len(word), (np.empty(0, dtype=np.int32), ()))
        factor = np.zeros(len(ids))
        for key, place in zip(word, keys):
            factor += self.log_slip[_KEYS.index(key)][place]
        return ids, factor


class EditDistanceChannel(_Channel):
    r"""Words with letters missing, added or wrong.

    .. math::
        p(o \mid x) \propto \varepsilon^{\,d(o, x)}, \qquad d(o, x) \le D

    where d is the Levenshtein distance: the least number of letters to insert, delete
    or change. The factors are not normalised over observations.

    Parameters
    ----------
    error_rate : float, default=0.01
        :math:`\varepsilon`, the price of one edit, above 0 and below 1.

    max_distance : int, default=2
        D, the largest number of edits of a word, at least 0.

    See Also
    --------
    KeypadChannel : Words typed on a telephone.

    Notes
    -----
    One observation stands for one word: words run together or torn apart, which
    would change the length of the sentence, are out of scope.

    Examples
    --------
    >>> from sklstruct.hmm import EditDistanceChannel
    >>> bound = EditDistanceChannel(max_distance=1).bind(["cat", "cart", "dog"])
    >>> ids, log_factor = bound.candidates("cat")
    >>> ids.tolist(), log_factor.round(2).tolist()
    ([0, 1], [0.0, -4.61])
    """

    _parameter_constraints: dict = {
        "error_rate": [Interval(Real, 0, 1, closed="neither")],
        "max_distance": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(self, error_rate: float = 0.01, max_distance: int = 2):
        self.error_rate = error_rate
        self.max_distance = max_distance

    def _bind(self, words):
        return _BoundEdits(words, self)


def _letters(text):
    """Code points, lone surrogates included."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.int32)


class _BoundEdits(CheckedState):
    def __init__(self, words, channel):
        self.log_edit = float(np.log(channel.error_rate))
        self.max_distance = int(channel.max_distance)
        lengths = np.array([len(w) for w in words], dtype=np.int64)
        # By length, so that only words of a possible length are compared.
        self.ids = np.argsort(lengths, kind="stable").astype(np.int32)
        self.lengths = lengths[self.ids]
        text = "".join(words[i] for i in self.ids)
        self.text = _letters(text)
        if self.text.size == 0:
            self.text = np.zeros(1, dtype=np.int32)
        self.ptr = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)

    def _check_arrays(self) -> None:
        ptr = as_ids("ptr", self.ptr, 1, np.int64)
        for name in ("ids", "lengths"):
            check_length(name, getattr(self, name), ptr.size - 1, "the words")
        check_pointers("ptr", ptr, 0, int(np.sum(self.lengths)))
        if self.text.ndim != 1 or self.text.size < ptr[-1]:
            raise ValueError(f"text must have {ptr[-1]} letters, got {self.text.shape}")

    def candidates(self, observation):
        word = str(observation)
        code = _letters(word + " ")[:-1]
        low, high = np.searchsorted(
            self.lengths,
            [len(word) - self.max_distance, len(word) + self.max_distance + 1],
        )
        out = np.empty(high - low, dtype=np.int32)
        _fast.edit_distances(
            np.ascontiguousarray(code), self.text, self.ptr[low : high + 1],
            self.max_distance, np.empty(2 * (len(word) + 1), dtype=np.int32), out,
        )  # fmt: skip
        near = np.flatnonzero(out <= self.max_distance)
        ids = self.ids[low:high][near]
        order = np.argsort(ids, kind="stable")
        return ids[order], 0.0 + out[near][order] * self.log_edit
