"""Warnings about words that a model does not know, with the likely cause."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._warnings import warn
from ..symbols import Labels, NumberedText, SentenceEncoder, seems_unsplit
from ..symbols._text import UNSPLIT

# The number of words from which on a share of unknown words is meaningful.
_LEAST_WORDS = 10
# The number of the most frequent unknown words in which a cause is looked for.
_MOST_WORDS = 2000
_TOKENS = re.compile(r"\w+|[^\w\s]")
_OTHERWISE = (
    "the text may be of another language or domain than the training text, or split by "
    "another tokenizer"
)
# Marks of subword tokenizers at the beginning or end of pieces.
_PIECES = ("\u2581", "\u0120", "##", "@@")


class UnknownWords(NamedTuple):
    """The words of a text that a model does not know."""

    n_words: int = 0  # of the text
    n_unknown: int = 0
    found: tuple[tuple[Any, int], ...] = ()  # the most frequent words and their counts

    @classmethod
    def of(cls, text: NumberedText, encoder: SentenceEncoder) -> UnknownWords:
        """The unknown words of a text."""
        # The unknown word itself is unknown too.
        token = encoder.labels.tokens(text.words, encoder.unknown)
        lost = token == encoder.unknown
        counts = text.counts()
        if not lost.any():
            return cls(int(counts.sum()))
        which = np.flatnonzero(lost & (counts > 0))
        which = which[np.argsort(-counts[which], kind="stable")[:_MOST_WORDS]]
        found = tuple((text.symbols[i], int(counts[i])) for i in which.tolist())
        return cls(int(counts.sum()), int(counts[lost].sum()), found)

    def plus(self, other: UnknownWords) -> UnknownWords:
        """The unknown words of two parts of a text."""
        counts = Counter(dict(self.found))
        counts.update(dict(other.found))
        return UnknownWords(
            self.n_words + other.n_words,
            self.n_unknown + other.n_unknown,
            tuple(counts.most_common(_MOST_WORDS)),
        )

    def warn(
        self,
        encoder: SentenceEncoder,
        name: str = "X",
        hint: str = "",
        otherwise: str = _OTHERWISE,
    ) -> bool:
        """Warn if more than a third of the words are unknown, or if one word shows that
        the text is not split as the model splits; return whether a warning was given.

        name: of the text in the message.
        hint: the cause, if known. Empty: the cause is looked for.
        otherwise: end of the message if no cause is found.
        """
        if not self.n_unknown:
            return False
        found, message = dict(self.found), ""
        if self.n_words >= _LEAST_WORDS and 3 * self.n_unknown > self.n_words:
            reason = hint or _cause(found, encoder) or otherwise
            message = (
                f"{self.n_unknown} of {self.n_words} words are unknown to the model, "
                f"such as {next(iter(found))!r:.60}; {reason}"
            )
        elif not hint:
            message = _other_kind(found, encoder)
        if message:
            warn(f"{name}: {message}", UserWarning)
        return bool(message)


def warn_of_unsplit(text: Any) -> None:
    """Warn if the words of a training text are most likely whole sentences.

    text: with `symbols` and `counts`.
    """
    counts = text.counts()
    n_words = int(counts.sum())
    if n_words > 2 and seems_unsplit(text.symbols, counts):
        sizes = np.array([len(s) if isinstance(s, str) else 1 for s in text.symbols])
        warn(
            f"X holds {n_words} words, of {counts @ sizes / n_words:.0f} "
            f"characters on average; {UNSPLIT}",
            UserWarning,
        )


def lost_word(what: str) -> ValueError:
    """The error about a word without a class; what: the parameter and the word."""
    return ValueError(
        f"{what} is not in the vocabulary, and unknown=None gives no probability to "
        "such words. Name an unknown symbol, or set out_of_vocabulary='exclude'"
    )


def _cause(unknown: dict, encoder: SentenceEncoder) -> str:
    """The cause that explains most of the unknown words, and the remedy; empty if no
    cause does."""
    labels = encoder.labels
    marks = {labels.start, labels.end, labels.unknown}
    known = {w for w in labels.token_code if isinstance(w, str)} - marks
    words = {w: n for w, n in unknown.items() if isinstance(w, str) and w not in marks}
    if not known or not words:
        return ""
    short = _share(words, lambda w: len(w) == 1)
    if encoder.longest == 1 and short < 0.5:
        return (
            "the model knows single characters, and the text is split into words: "
            f"{_as_characters(labels, 'lists of characters')}"
        )
    if labels.analyzer != "char":
        if encoder.longest > 1 and short > 0.5:
            return (
                "the model knows words, and the text is split into characters: pass "
                "strings, or train on characters with analyzer='char'"
            )
        if seems_unsplit(words, words.values()):
            return UNSPLIT
    folded = {w.casefold() for w in known}
    composed = {unicodedata.normalize("NFKC", w) for w in known}
    marks_of_pieces = "".join(_PIECES)
    bare = {w.strip(marks_of_pieces) for w in known}
    pieces = 4 * sum(map(_is_piece, known)) > len(known)
    causes: list[tuple[Callable[[str], bool], str]] = [
        (
            lambda w: w.casefold() in folded,
            "the same words in another case are known: bring the texts of training and "
            "scoring to one case",
        ),
        (
            lambda w: unicodedata.normalize("NFKC", w) in composed,
            "the same words in another Unicode normal form are known: apply "
            "unicodedata.normalize('NFC', text) to the texts of training and scoring",
        ),
        (
            lambda w: (pieces or _is_piece(w)) and w.strip(marks_of_pieces) in bare,
            "they are known with other marks of word pieces: split the text with the "
            "tokenizer of the training text",
        ),
        (
            lambda w: (
                any(map(str.isalnum, w))
                and known.issuperset(p for p in _TOKENS.findall(w) if p.isalnum())
            ),
            "they are known words with punctuation: split the text with the tokenizer "
            "of the training text",
        ),
    ]
    shares = [_share(words, explains) for explains, _ in causes]
    best = int(np.argmax(shares))
    if shares[best] > 0.5:
        return causes[best][1]
    return ""


def _is_piece(word: str) -> bool:
    return len(word) > 1 and (word.startswith(_PIECES) or word.endswith("@@"))


def _share(words: dict, test: Callable[[str], bool]) -> float:
    total = sum(words.values())
    return sum(n for w, n in words.items() if test(w)) / total


def _as_characters(labels: Labels, characters: str) -> str:
    """How to give a text to a model of characters."""
    if labels.analyzer == "char":
        return f"pass strings, or {characters}"
    return (
        f"pass {characters}, or train with analyzer='char', which splits strings into "
        "characters"
    )


def _other_kind(unknown: dict, encoder: SentenceEncoder) -> str:
    """The message about single unknown words of a text that is split in another way.

    A string for a model of single characters, or a list of characters for a model of
    words, would otherwise be unknown words, whose probabilities are meaningless.
    """
    labels = encoder.labels
    code = labels.token_code
    words = [w for w in unknown if isinstance(w, str) and w]
    if encoder.longest == 1:
        for word in words:
            if len(word) > 1 and all(c in code for c in word):
                return (
                    f"{word!r:.60} is one unknown word to this model of single "
                    f"characters; {_as_characters(labels, f'list({word!r:.60})')}"
                )
    elif labels.analyzer == "char":
        return ""
    elif any(map(str.isspace, words)):
        return (
            "a list of characters was given to a model of words, to which they are "
            "unknown words; pass the string itself"
        )
    elif words and seems_unsplit(words, [1] * len(words)):
        return f"{words[0]!r:.60} is one unknown word to this model; {UNSPLIT}"
    return ""
