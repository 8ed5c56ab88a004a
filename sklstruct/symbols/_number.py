"""Sentences of any form, numbered: text files, strings, lists of symbols."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .._warnings import warn
from ._text import (
    NumberedText,
    number_strings,
    number_symbols,
    plain_list,
    seems_unsplit,
)
from ._text_file import TextFile

# Names of files of text, for messages.
_FILE_NAME = re.compile(
    r"\S+\.(txt|text|tok|csv|tsv|json|jsonl|gz|bz2|xz|zst|[a-z]{2})"
)


def _is_file_name(text: str) -> bool:
    try:
        return bool(_FILE_NAME.fullmatch(text)) or os.path.isfile(text)
    except ValueError:  # a NUL
        return False


def check_sentences(sentences: Any) -> list:
    """A list of sentences, or a readable error when it is not one."""
    if isinstance(sentences, str | bytes):
        hint = "pass [text] or text.splitlines()"
        if isinstance(sentences, str) and _is_file_name(sentences):
            hint = f"pass TextFile({sentences!r}) to read that file"
        raise TypeError(
            f"sentences must be an iterable of sentences, not one string: {hint}"
        )
    if not isinstance(sentences, Iterable):
        raise TypeError(
            "sentences must be an iterable of sentences (strings, or iterables of "
            f"symbols), got {type(sentences).__name__}"
        )
    if isinstance(sentences, np.ndarray) and sentences.ndim == 0:
        raise TypeError("sentences must be an iterable of sentences, got a scalar")
    if isinstance(sentences, Mapping):
        raise TypeError(
            "sentences must be an iterable of sentences, got a mapping: pass the list "
            "of its values, or of its keys"
        )
    out = []
    for i, sentence in enumerate(sentences):
        if isinstance(sentence, Mapping):
            raise TypeError(
                f"sentence {i} must be a string or an iterable of symbols, got a "
                "mapping: pass one of its values, such as [row['text'] for row in X]"
            )
        if isinstance(sentence, bytes) or not isinstance(sentence, Iterable):
            raise TypeError(
                f"sentence {i} must be a string or an iterable of symbols, got "
                f"{type(sentence).__name__}"
            )
        out.append(sentence if isinstance(sentence, str) else list(sentence))
    return out


def number_sentences(X: Any, name: str = "X", analyzer: str = "word") -> NumberedText:
    """X, in any form of sentences, as numbers of symbols.

    Parameters
    ----------
    X : TextFile or iterable of sentences
        A sentence is a string, which is split, or an iterable of symbols. Strings and
        files take the compiled way.

    name : str
        Name of X in messages.

    analyzer : {"word", "kenlm", "char"}
        The rule by which strings are split.
    """
    if isinstance(X, NumberedText):
        return X
    if isinstance(X, TextFile):
        return X.number(analyzer)
    if not isinstance(X, str | bytes) and hasattr(X, "columns"):
        raise TypeError(
            f"{name} is a data frame; pass one column of it, a sentence in each row"
        )
    if hasattr(X, "__dask_graph__"):
        raise TypeError(
            f"{name} is a {type(X).__name__} of Dask, which would be gathered here: "
            f"fit by DaskLanguageModel, and score by {name}.map_partitions("
            "model.score_samples)"
        )
    strings = False
    if (
        isinstance(X, Iterable)
        and not isinstance(X, str | bytes | Mapping)
        and getattr(X, "ndim", 1) > 0
    ):
        X = plain_list(X)
        strings = all(isinstance(s, str) for s in X)
        if not strings:
            kept = str | bytes | Mapping
            X = [s if isinstance(s, kept) else plain_list(s) for s in X]
    if strings:
        text = number_strings(X, analyzer)
        if analyzer != "char":
            _warn_of_words(text, name)
        return text
    try:
        sentences = check_sentences(X)
    except TypeError as exc:
        raise TypeError(f"{name}: {exc}") from exc
    text = number_symbols(sentences, analyzer)
    _warn_of_sentences(text, name)
    return text


def _warn_of_words(text: NumberedText, name: str) -> None:
    """Strings of one word each are most likely one text that was split."""
    if text.n_sentences > 2 and (text.lengths == 1).all():
        if seems_unsplit(text.symbols, text.counts()):
            return  # a text without spaces, of which the model warns
        characters = all(len(s) == 1 for s in text.symbols)
        what = "characters of one string" if characters else "words of one sentence"
        how = f"[''.join({name})]" if characters else f"[' '.join({name})]"
        warn(
            f"{name} holds {text.n_sentences} strings of one word each, and each "
            f"string is a sentence. Are they the {what}? Then pass {how}",
            UserWarning,
        )


def _warn_of_sentences(text: NumberedText, name: str) -> None:
    """Symbols that are mostly strings of several words are most likely sentences."""
    spaced = [s for s in text.symbols if isinstance(s, str) and len(s.split()) > 1]
    if spaced and 2 * len(spaced) > len(text.symbols):
        warn(
            f"{name} holds lists of strings such as {spaced[0]!r}: a list is one "
            "sentence and each of its strings one symbol, white space included. Are "
            "they sentences? Then pass one flat list of strings",
            UserWarning,
        )
