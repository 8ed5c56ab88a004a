"""Numbered texts, from strings and lists of symbols.

A `NumberedText` has the numbers of the symbols of a text in the order of appearance.
Strings and files are numbered by compiled code, block by block.

An *analyzer* is the rule by which a string is split into symbols. There are three:
"word" is `str.split()`, "kenlm" is KenLM's rule, "char" makes each character a symbol.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from .._checks import INT32_MAX
from .._warnings import warn
from . import _text_fast as _fast
from ._encoding import Packed, object_array
from ._strings_fast import decode_strings

# Largest number of tokens of a text in one array, because positions are 32-bit numbers.
# Includes the marks around sentences, with which there can be three times as many.
MOST_TOKENS = INT32_MAX
# Strings that are joined to one text.
_BLOCK_STRINGS = 4096
# Words that a warning shows.
_EXAMPLES = 3

# The blank in files of character models, in which words must not contain a space.
BLANK = "\u2581"

Analyzer = Literal["word", "kenlm", "char"]
ANALYZERS: tuple[str, ...] = get_args(Analyzer)
_RULES = {"word": _fast.UNICODE, "kenlm": _fast.KENLM, "char": _fast.CHARACTERS}
_KENLM_WORDS = re.compile("[^\0\t\n\r ]+")
# White space on which `str.split()` and KenLM differ, and what is around it.
_ODD_RUN = re.compile(
    "[^\t\n\r ]*[\0\v\f\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f"
    "\u205f\u3000][^\t\n\r ]*"
)


def split_string(text: str, analyzer: str = "word") -> list[str]:
    """The symbols of a string."""
    if analyzer == "char":
        return list(without_line_end(text))
    return text.split() if analyzer == "word" else _KENLM_WORDS.findall(text)


def without_line_end(text: str) -> str:
    """The string without a line feed, or carriage return and line feed, at its end.

    Lines of a file object or a Dask bag have one, those of a `TextFile` do not. By
    rules for words it is white space.
    """
    return text[:-1].removesuffix("\r") if text.endswith("\n") else text


def join_symbols(symbols: Iterable[str], analyzer: str = "word") -> str:
    """A string that `split_string` splits into the symbols."""
    return ("" if analyzer == "char" else " ").join(symbols)


class OddSpaces(NamedTuple):
    """Characters of a text that separate words by only one of "word" and "kenlm"."""

    n_places: int = 0
    examples: tuple[str, ...] = ()  # runs of characters around some of them

    def plus(self, other: OddSpaces) -> OddSpaces:
        """The `OddSpaces` of two parts of a text."""
        examples = dict.fromkeys(self.examples + other.examples)
        return OddSpaces(self.n_places + other.n_places, tuple(examples)[:_EXAMPLES])

    def warn(self, analyzer: str, name: str = "X") -> None:
        """Warn that the two rules split a text into different words."""
        if not self.n_places:
            return
        rules = {"word": "str.split()", "kenlm": "KenLM"}
        other = "kenlm" if analyzer == "word" else "word"
        warn(
            f"{name}: str.split() and KenLM split the text into different words, at "
            f"{self.n_places} place(s), as in {', '.join(map(repr, self.examples))}. "
            f"This model splits as {rules[analyzer]} (analyzer={analyzer!r}), so "
            f"programs that split as {rules[other]} read other words. Replace these "
            f"characters by blanks, or use analyzer={other!r} to split as "
            f"{rules[other]}",
            UserWarning,
        )


def odd_spaces(lines: Iterable[str]) -> OddSpaces:
    """The `OddSpaces` of strings."""
    words = WordTable()
    words.add_strings(list(lines))
    return words.odd()


class NumberedText:
    """A text as the numbers of its symbols.

    tokens: -1 before each sentence, then the numbers of its symbols.
    words: the distinct symbols, in the order of appearance; position = number. Strings
    may be given as their text and the end of each, as of `pack_strings`.
    where: name, for messages, of the sentence with a number.
    odd: white space on which the rules for words differ; None: no such white space.
    """

    def __init__(
        self,
        tokens: np.ndarray,
        words: list | Packed,
        where: Callable[[int], str],
        odd: OddSpaces | None = None,
    ) -> None:
        self.tokens, self.words, self.where = tokens, words, where
        self.odd = odd or OddSpaces()

    def __sizeof__(self) -> int:
        # The scheduler of a cluster reads it to plan memory; a symbol is some 60 bytes.
        return object.__sizeof__(self) + self.tokens.nbytes + 60 * self.n_symbols

    @cached_property
    def symbols(self) -> list:
        """The distinct symbols; position = number."""
        words = self.words
        return words if isinstance(words, list) else decode_strings(*words)

    @property
    def n_symbols(self) -> int:
        """Number of distinct symbols."""
        return len(self.words if isinstance(self.words, list) else self.words[1])

    @cached_property
    def starts(self) -> np.ndarray:
        """(n_sentences,) position before each sentence."""
        return np.flatnonzero(self.tokens < 0)

    @property
    def n_sentences(self) -> int:
        """Number of sentences, empty ones included."""
        return self.starts.size

    @property
    def lengths(self) -> np.ndarray:
        """(n_sentences,) number of symbols of each sentence."""
        return np.diff(self.starts, append=self.tokens.size) - 1

    def __iter__(self) -> Iterator[list]:
        return iter(self.sentences())

    def counts(self, sample_weight: np.ndarray | None = None) -> np.ndarray:
        """(n_symbols,) occurrences of each symbol, weighted by its sentences."""
        if sample_weight is not None:
            sample_weight = np.repeat(sample_weight, self.lengths)
        words = self.tokens[self.tokens >= 0]
        return np.bincount(words, sample_weight, minlength=self.n_symbols)

    def where_is(self, number: int) -> str:
        """Name, for messages, of the first sentence that holds a symbol."""
        at = int(np.argmax(self.tokens == number))
        return self.where(int(np.searchsorted(self.starts, at)) - 1)

    def without(self, numbers: list[int]) -> NumberedText:
        """The text without the tokens of some symbols."""
        mask = ~np.isin(self.tokens, numbers)
        return NumberedText(self.tokens[mask], self.words, self.where, self.odd)

    def sentences(self) -> list[list]:
        """The symbols of each sentence."""
        symbols = object_array(self.symbols)
        parts = np.split(self.tokens, self.starts)[1:]
        return [symbols[part[1:]].tolist() for part in parts]

    def select(self, keep: np.ndarray) -> NumberedText:
        """Some of the sentences; symbols keep their numbers."""
        kept = np.flatnonzero(keep)
        mask = np.repeat(keep, self.lengths + 1)
        return NumberedText(
            self.tokens[mask],
            self.words,
            lambda i: self.where(int(kept[i])),
            self.odd,
        )


class WordTable:
    """The words of a text, numbered in the order of appearance: a table that grows."""

    def __init__(self, analyzer: str = "word") -> None:
        self.analyzer = analyzer
        self.slots = np.full(1 << 12, -1, dtype=np.int32)
        self.hashes = np.empty(1 << 11, dtype=np.uint64)
        self.ends = np.empty(1 << 11, dtype=np.int64)
        self.arena = np.empty(1 << 14, dtype=np.uint8)
        self.state = np.zeros(8, dtype=np.int64)
        self._examples: list[str] = []
        # A random seed, as PYTHONHASHSEED, so that an attacker cannot choose words that
        # share a slot of the table.
        self.seed = int.from_bytes(os.urandom(8), "little")
        self._tokens = np.empty(0, dtype=np.int32)
        self.chunks: list[np.ndarray] = []
        self.n_tokens = 0

    @property
    def n_words(self) -> int:
        return int(self.state[_fast.WORDS])

    @n_words.setter
    def n_words(self, n: int) -> None:
        self.state[_fast.WORDS] = n

    def reserve(self, n_bytes: int) -> None:
        """Make room for the bytes of further words."""
        used = int(self.ends[self.n_words - 1]) if self.n_words else 0
        if used + n_bytes > self.arena.size:
            self.arena = _grown(self.arena, used + n_bytes)

    def add(
        self,
        text: Any,
        *,
        strict: bool,
        keep_blank: bool,
        max_line: int,
    ) -> int:
        """Number whole lines; return the code of an error, whose place is
        state[POSITION]."""
        state = self.state
        state[[_fast.POSITION, _fast.TOKENS, _fast.IN_LINE, _fast.LINE_START]] = 0
        state[_fast.ODD_AT] = -1
        n_bytes = len(text)
        if self._tokens.size <= n_bytes:
            self._tokens = np.empty(n_bytes + 1, dtype=np.int32)
        self.reserve(n_bytes)
        while True:
            code = _fast.number_words(
                np.frombuffer(text, dtype=np.uint8), strict, _RULES[self.analyzer],
                keep_blank, max_line, self.seed, self.slots, self.hashes, self.ends,
                self.arena, self._tokens, state,
            )  # fmt: skip
            if code != _fast.FULL:
                break
            self.grow()
        n = int(state[_fast.TOKENS])
        self.chunks.append(self._tokens[:n].copy())
        self.n_tokens += n
        if state[_fast.ODD_AT] >= 0 and len(self._examples) < _EXAMPLES:
            # Runs of characters around white space on which the rules differ.
            at = int(state[_fast.ODD_AT])
            near = bytes(text[max(0, at - 30) : at + 2000]).decode("utf-8", "ignore")
            runs = [found[0][:40] for found in _ODD_RUN.finditer(near)]
            self._examples = list(dict.fromkeys(self._examples + runs))[:_EXAMPLES]
        return code

    def add_strings(self, sentences: list[str]) -> None:
        """Number strings; a line feed within one is white space like any other."""
        for i in range(0, len(sentences), _BLOCK_STRINGS):
            lines = [s.replace("\n", " ") for s in sentences[i : i + _BLOCK_STRINGS]]
            lines.append("")
            text = "\n".join(lines).encode("utf-8", "surrogatepass")
            self.add(text, strict=False, keep_blank=True, max_line=len(text))

    def odd(self) -> OddSpaces:
        """White space on which the rules for words differ; none for characters."""
        return OddSpaces(int(self.state[_fast.N_ODD]), tuple(self._examples))

    def grow(self) -> None:
        """Make room for twice as many words."""
        n = self.n_words
        if n >= INT32_MAX // 4:
            raise ValueError(f"the text has more than {n} distinct words")
        self.slots = np.full(2 * self.slots.size, -1, dtype=np.int32)
        self.hashes = _grown(self.hashes, 2 * self.hashes.size)
        self.ends = _grown(self.ends, 2 * self.ends.size)
        _fast.rehash(self.hashes, n, self.slots)

    def spelling(self) -> list[bytes]:
        """The bytes of the words, in the order of their numbers."""
        arena, ends = self.packed()
        text, stop = arena.tobytes(), ends.tolist()
        return [text[a:b] for a, b in zip([0, *stop], stop)]

    def packed(self) -> Packed:
        """The text of the words so far and the end of each word."""
        ends = self.ends[: self.n_words]
        return self.arena[: ends[-1] if ends.size else 0], ends

    def take(self) -> np.ndarray:
        """The tokens since the last call."""
        check_tokens(sum(chunk.size for chunk in self.chunks))
        tokens = np.concatenate(self.chunks or [np.empty(0, np.int32)])
        self.chunks = []
        return tokens

    def finish(self, where: Callable[[int], str]) -> NumberedText:
        return NumberedText(self.take(), self.packed(), where, self.odd())


def check_tokens(n_tokens: int) -> None:
    """ValueError for a text that cannot be in one array."""
    if n_tokens > MOST_TOKENS:
        raise ValueError(
            f"X: {n_tokens} tokens in one piece, more than the {MOST_TOKENS} that "
            "32-bit positions can number; `LanguageModel.fit` takes a text of any size "
            "as a TextFile, others in parts"
        )


def _grown(array, size):
    out = np.empty(max(size, 2 * array.size), dtype=array.dtype)
    out[: array.size] = array
    return out


# Name of a sentence for messages.
_sentence_name = "sentence {}".format


def number_strings(sentences: list[str], analyzer: str = "word") -> NumberedText:
    """Strings, split by a rule and numbered."""
    if analyzer == "char":
        return number_symbols(sentences, analyzer)
    words = WordTable(analyzer)
    words.add_strings(sentences)
    return words.finish(_sentence_name)


def number_symbols(sentences: list, analyzer: str = "word") -> NumberedText:
    """Sequences of hashable symbols; strings among them are split.

    TypeError, with the sentence, if a symbol is not hashable.
    """
    # A string is a sequence of its characters.
    split = (
        without_line_end
        if analyzer == "char"
        else partial(split_string, analyzer=analyzer)
    )
    sentences = [split(s) if isinstance(s, str) else s for s in sentences]
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    stop = np.cumsum(lengths + 1)
    size = int(stop[-1]) if stop.size else 0
    check_tokens(size)
    tokens = np.full(size, -1, dtype=np.int32)
    inner = np.ones(size, dtype=bool)
    inner[stop - lengths - 1] = False
    # A new symbol gets the next number.
    code: dict = defaultdict(itertools.count().__next__)
    try:
        tokens[inner] = np.fromiter(
            map(code.__getitem__, itertools.chain.from_iterable(sentences)),
            dtype=np.int32,
            count=size - len(sentences),
        )
    except TypeError as exc:
        for i, sentence in enumerate(sentences):
            for s in sentence:
                try:
                    hash(s)
                except TypeError:
                    raise TypeError(
                        f"X: sentence {i} has a symbol that is not hashable, {s!r:.60}"
                    ) from exc
        raise
    return NumberedText(tokens, list(code), _sentence_name)


def plain_list(values: Any) -> Any:
    """The values of a list, an array or a column as Python objects, in a list.

    Scalars of NumPy and Arrow are slow or impossible to hash and compare, and `sample`
    would return them. Values that cannot be iterated are returned unchanged, and so is
    a list without scalars of Arrow.
    """
    if not isinstance(values, (list, tuple)):  # a union would be made at each call
        if isinstance(values, Mapping) or not isinstance(values, Iterable):
            # A scalar of Arrow may hold a list.
            return values.as_py() if hasattr(values, "as_py") else values
        for method in ("to_pylist", "as_py", "to_list", "tolist"):
            if hasattr(values, method):
                return getattr(values, method)()
    values = values if isinstance(values, list) else list(values)
    if values and hasattr(values[0], "as_py"):
        values = [v.as_py() if hasattr(v, "as_py") else v for v in values]
    return values


# Characters of scripts that put no spaces between words: Thai, Lao, Tibetan, Burmese,
# Khmer, Japanese kana, Chinese characters.
_SPACELESS = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)
# Mean number of characters per word, above which a text is most likely not split.
_LONG_SPACELESS, _LONG = 6, 20


def seems_unsplit(symbols: Iterable, counts: Iterable[float]) -> bool:
    """Whether symbols are most likely unsplit sentences of a text without spaces.

    counts: number of occurrences of each symbol. Only strings are tested.
    """
    total = length = spaceless = 0.0
    for symbol, count in zip(symbols, counts):
        if isinstance(symbol, str) and count > 0:
            total += count
            length += count * len(symbol)
            spaceless += count * len(_SPACELESS.findall(symbol))
    if not total:
        return False
    mostly = 2 * spaceless > length
    return length / total > (_LONG_SPACELESS if mostly else _LONG)


UNSPLIT = (
    "if the text has no spaces between words, use analyzer='char', which makes each "
    "character a symbol, or pass lists of the words that a tokenizer finds"
)
