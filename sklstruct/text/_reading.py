"""Texts to symbols: letters, or numbers of words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from .._checks import CheckedState, as_ids, check_pointers
from ..symbols import pack_strings, unpack_strings
from ._arrow_fast import gather
from ._letters_fast import (
    ANY,
    FULL,
    N_IDS,
    N_OUT,
    RUN,
    SPACE,
    WORD,
    move_slots,
    number_words,
    read_symbols,
)
from ._texts import ERRORS, Texts

# The words of the word analyzer of scikit-learn.
TOKEN = re.compile(r"(?u)\b\w\w+\b")
_SHORTEST_WORD = 2

# Texts with these letters are converted to lower case one by one: the form of a sigma
# depends on the letters around it, and the second letter becomes two letters.
_BY_TEXT = "\u03a3".encode(), "\u0130".encode()
# An empty table of lower case: letters are kept.
_SAME = np.empty(0, dtype=np.uint32)
# Each segment occurs once.
_EACH = np.empty(0, dtype=np.uint32)

# Texts of fewer bytes are read letter by letter for "char_wb", not word by word.
_FEW = 1 << 12


@cache
def _classes() -> np.ndarray:
    """The bits of the classes of each code point, as the module `re` sees them."""
    letters = np.arange(0x110000, dtype=np.uint32).view("U1")
    is_space, is_word = np.char.isspace(letters), np.char.isalnum(letters)
    is_word[ord("_")] = True
    classes = np.where(is_space, SPACE, RUN) + WORD * is_word + ANY
    classes[0] = RUN  # not a letter of words that are stored
    return classes.astype(np.uint8)


@cache
def _lower() -> np.ndarray:
    """The lower case of each code point, except those of `_BY_TEXT`."""
    table = np.arange(0x110000, dtype=np.uint32)
    # No letter above this has a lower case.
    last = 0x1FFFF
    table[: last + 1] = [ord(chr(i).lower()[0]) for i in range(last + 1)]
    return table


def table_of(n: int) -> np.ndarray:
    """An empty table for n ids."""
    return np.zeros((1 << max(4, (2 * n - 1).bit_length()), 2), dtype=np.uint64)


def grown(table: np.ndarray) -> np.ndarray:
    larger = table_of(len(table))
    move_slots(table, larger)
    return larger


def _read_text(
    texts: Texts, lowercase: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(texts in UTF-8, end of each text, table of lower case for the kernels)."""
    text, ends = texts.packed()
    first, second = text[:-1], text[1:]
    letters = _BY_TEXT if lowercase else ()
    places = [np.flatnonzero((first == a) & (second == b)) for a, b in letters]
    if any(place.size for place in places):
        odd = np.unique(np.searchsorted(ends, np.concatenate(places), "right"))
        new, new_ends = pack_strings([text.lower() for text in texts[odd]], ERRORS)
        address, sizes = texts.address.copy(), texts.sizes.copy()
        sizes[odd] = np.diff(new_ends, prepend=0)
        address[odd] = new.ctypes.data + (new_ends - sizes[odd]).astype(np.uint64)
        text, ends = Texts(address, sizes, new, True).packed()
    return text, ends, _lower() if lowercase else _SAME


_NO_NUMBERS = np.empty(0, dtype=np.uint32)


class Words(CheckedState):
    """Distinct words, numbered from 1; the first `n_stop` words are stop words.

    letters, ends: the words in UTF-8, and the end of each word; ends[0] is 0.
    n_words: number of words, including the words learned since.
    """

    def __init__(self, letters: np.ndarray, ends: np.ndarray, n_stop: int) -> None:
        self.letters, self.ends = letters, ends
        self.n_stop, self.n_words = n_stop, ends.size - 1

    @classmethod
    def of(cls, stop_words: Sequence[str], words: Sequence[str] = ()) -> Words:
        letters, ends = pack_strings([*stop_words, *words], ERRORS)
        return cls(letters, np.append(0, ends), len(stop_words))

    def _check_arrays(self) -> None:
        self.letters = as_ids("letters", self.letters, 1, np.uint8)
        self.ends = as_ids("ends", self.ends, 1, np.int64)
        if not self.ends.size:
            raise ValueError("ends must begin with 0, got no number")
        check_pointers("ends", self.ends, self.letters.size)
        self.n_stop, self.n_words = int(self.n_stop), self.ends.size - 1

    @cached_property
    def known(self) -> list[np.ndarray]:
        """Table, letters and ends of all words, with room for more."""
        # Several threads may read `self` meanwhile: another object grows.
        grows = Words(self.letters, self.ends, self.n_stop)
        n, grows.n_words = grows.n_words, 0
        known = [table_of(n), np.empty_like(self.letters), np.zeros_like(self.ends)]
        grows.__dict__["known"] = known
        numbers = grows.add(self.letters, self.ends[1:])
        # Invalid UTF-8 is changed when it is entered.
        same = np.array_equal(known[1][: self.letters.size], self.letters)
        if numbers.size != n or grows.n_words != n or not same:
            raise ValueError(
                "letters must hold distinct words in UTF-8 that are not empty"
            )
        return known

    @property
    def learned(self) -> tuple[np.ndarray, np.ndarray]:
        """The letters and the ends of all words, including the words learned since."""
        _, letters, ends = self.known
        ends = ends[: self.n_words + 1]
        return letters[: ends[-1]], ends

    def strings(self, numbers: np.ndarray = _NO_NUMBERS) -> list[str]:
        """The stop words, then the words with these numbers, as strings."""
        packed = self.chosen(numbers)
        ends = packed.ends[1:]
        return unpack_strings("letters", (packed.letters, ends), ERRORS).tolist()

    def ranks(self) -> np.ndarray:
        """The place of each word, by its number, if all words are sorted as strings."""
        letters, ends = self.learned
        start, size = ends[:-1], np.diff(ends)
        # Sorted by the first eight bytes; UTF-8 sorts as the code points do.
        padded = np.append(letters, np.zeros(8, np.uint8))
        prefix = np.zeros(start.size, dtype=np.uint64)
        for i in range(8):
            byte = np.where(i < size, padded[np.minimum(start + i, letters.size)], 0)
            prefix = prefix << np.uint64(8) | byte.astype(np.uint64)
        order = np.argsort(prefix)
        equal = np.append(False, np.diff(prefix[order]) == 0)
        if equal.any():
            equal |= np.append(equal[1:], False)
            text, tied = letters.tobytes(), order[equal]
            words = {
                w: text[a:b]
                for w, a, b in zip(
                    tied.tolist(), start[tied].tolist(), ends[1:][tied].tolist()
                )
            }
            order[equal] = sorted(words, key=words.__getitem__)
        rank = np.zeros(start.size + 1, dtype=np.uint32)
        rank[order + 1] = np.arange(start.size)
        return rank

    def chosen(self, numbers: np.ndarray) -> Words:
        """The stop words, then the words with these numbers, as `Words`."""
        letters, ends = self.learned
        of = np.append(np.arange(self.n_stop), numbers - 1)
        size = np.diff(ends)[of]
        address = letters.ctypes.data + ends[of].astype(np.uint64)
        out = np.empty(int(size.sum()), dtype=np.uint8)
        gather(address, size, out)
        return Words(out, np.append(0, np.cumsum(size)), self.n_stop)

    def add(self, text: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Learn words in UTF-8; returns their numbers."""
        return self.number(text, ends, _SAME, True, ANY)[0]

    def number(
        self,
        text: np.ndarray,
        ends: np.ndarray,
        lower: np.ndarray,
        learn: bool,
        kind: int = WORD,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the words of texts, and the end of each text among them.

        kind: the class of letters; with WORD, stop words and words of one letter are
        left out.
        """
        shortest, n_stop = (_SHORTEST_WORD, self.n_stop) if kind == WORD else (1, 0)
        out = np.empty(text.size // shortest + 1, dtype=np.uint32)
        out_ends = np.empty_like(ends)
        longest = int(np.diff(ends, prepend=0).max(initial=0))
        word = np.empty(4 * longest + 16, dtype=np.uint8)
        state = np.zeros(5, dtype=np.int64)
        state[N_IDS] = self.n_words
        while (
            number_words(
                text, ends, _classes(), lower, kind, shortest, n_stop, learn, word,
                *self.known, out, out_ends, state,
            )
            == FULL
        ):  # fmt: skip
            table, arena, word_ends = self.known
            room = max(len(arena), word.size)
            if arena.size - word_ends[state[N_IDS]] < word.size:
                self.known[1] = np.append(arena, np.zeros(room, np.uint8))
            else:
                self.known[0] = grown(table)
                self.known[2] = np.append(word_ends, np.zeros(len(table), np.int64))
        self.n_words = int(state[N_IDS])
        out.resize(int(state[N_OUT]), refcheck=False)
        return out, out_ends


class Symbols(NamedTuple):
    """The symbols of texts, in segments; no n-gram crosses segments.

    numbers: the segments of the texts, from 1, text after text; empty: each segment
    occurs once, in order. text_ends: the end of each text in `numbers`.
    """

    symbols: np.ndarray
    segment_ends: np.ndarray
    numbers: np.ndarray
    text_ends: np.ndarray


class Reader(NamedTuple):
    """Splits texts into symbols; `words` is None for n-grams of letters."""

    analyzer: str
    shortest: int
    longest: int
    lowercase: bool
    words: Words | None

    @property
    def padded(self) -> bool:
        return self.analyzer == "char_wb"

    @property
    def lengths(self) -> tuple[int, int, bool]:
        """(shortest, longest, whether a shorter segment is an n-gram itself)."""
        return self.shortest, self.longest, self.padded

    def read(self, texts: Texts, learn: bool = False) -> Symbols:
        text, ends, lower = _read_text(texts, self.lowercase)
        if self.words is not None:
            symbols, ends = self.words.number(text, ends, lower, learn)
            return Symbols(symbols, ends, _EACH, np.arange(1, ends.size + 1))
        if not self.padded or text.size < _FEW:
            return Symbols(*_letters(text, ends, lower, self.padded))
        # Texts repeat words: the letters of each distinct word are read once.
        words, n = Words.of(()), 16 + (text.size >> 4)
        words.known = [table_of(n), np.empty(n << 3, np.uint8), np.zeros(n, np.int64)]
        numbers, text_ends = words.number(text, ends, lower, True, RUN)
        letters, ends = words.learned
        symbols, segments, *_ = _letters(letters, ends[1:], _SAME)
        return Symbols(symbols, segments, numbers, text_ends)


def _letters(text, ends, lower, padded=True):
    """The letters of texts; padded: each run without spaces is a segment."""
    symbols = np.empty((3 if padded else 1) * text.size, np.uint32)
    segments = np.empty(text.size if padded else ends.size, np.int64)
    text_ends = np.empty_like(ends)
    n = read_symbols(
        text, ends, _classes(), lower, padded, symbols, segments, text_ends
    )
    size = int(segments[n - 1]) if n else 0
    return symbols[:size], segments[:n], _EACH, text_ends
