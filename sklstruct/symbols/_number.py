"""Sentences of any form, numbered: text files, strings, lists of symbols."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

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


def number_sentences(X: Any, name: str = "X", analyzer: str = "word") -> NumberedText:
    """X, in any form of sentences, as numbers of symbols.

    A string, a mapping or a data frame raises an error. `name` is the name of the
    parameter in errors and warnings.
    """
    if isinstance(X, NumberedText):
        return X
    if isinstance(X, TextFile):
        return X.number(analyzer)
    if hasattr(X, "__dask_graph__"):
        remedy = f"pass {name}.compute()"
        if name == "X":
            remedy = (
                "fit by DaskLanguageModel, and score by "
                "X.map_partitions(model.score_samples)"
            )
        raise TypeError(
            f"{name} is a {type(X).__name__} of Dask, which would be gathered here: "
            f"{remedy}"
        )
    fault = _fault_of(X)
    if fault:
        raise TypeError(f"{name}: sentences must be an iterable of sentences{fault}")
    X = plain_list(X)
    if all(isinstance(s, str) for s in X):
        text = number_strings(X, analyzer)
        if analyzer != "char":
            _warn_of_words(text, name)
        return text
    text = number_symbols([_symbols(name, i, s) for i, s in enumerate(X)], analyzer)
    _warn_of_sentences(text, name)
    return text


def _fault_of(X: Any) -> str:
    """The reason why X is not a list of sentences, or an empty text."""
    if isinstance(X, str | bytes):
        hint = "pass [text] or text.splitlines()"
        if isinstance(X, str) and _is_file_name(X):
            hint = f"pass TextFile({X!r}) to read that file"
        return f", not one string: {hint}"
    if hasattr(X, "columns"):
        return ", not a data frame; pass one column of it, a sentence in each row"
    if hasattr(X, "tocsr"):
        return ", not a sparse matrix: pass the words of each sentence"
    if isinstance(X, set | frozenset):
        return ", not a set, which has no order: pass a list"
    if isinstance(X, Mapping):
        return ", got a mapping: pass the list of its values, or of its keys"
    if not isinstance(X, Iterable) or getattr(X, "ndim", 1) == 0:
        return f" (strings, or iterables of symbols), got {type(X).__name__}"
    return ""


def not_symbols(what: str, value: Any) -> TypeError:
    """The error for a value that is neither a string nor symbols."""
    remedy = "; decode it (b.decode())" if isinstance(value, bytes) else ""
    return TypeError(
        f"{what} must be a string or an iterable of symbols, got "
        f"{type(value).__name__}{remedy}"
    )


def _symbols(name: str, i: int, sentence: Any) -> Any:
    """A sentence as a string or a list of symbols."""
    if not isinstance(sentence, list) and isinstance(sentence, Mapping):
        raise TypeError(
            f"{name}: sentence {i} must be a string or an iterable of symbols, got a "
            "mapping: pass one of its values, such as [row['text'] for row in X]"
        )
    if isinstance(sentence, (set, frozenset)):
        raise TypeError(f"{name}: sentence {i} is a set; pass a list in order")
    if not isinstance(sentence, (str, bytes)):
        sentence = plain_list(sentence)
    if not isinstance(sentence, (str, list)):
        raise not_symbols(f"{name}: sentence {i}", sentence)
    return sentence


def _warn_of_words(text: NumberedText, name: str) -> None:
    """Warn if strings of one word each are most likely one text that was split."""
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
    """Warn if symbols are mostly strings of several words, which are most likely
    sentences."""
    strings = [s for s in text.symbols if isinstance(s, str)]
    # If most symbols have two words, there are more words than symbols.
    if len(" ".join(strings).split()) <= len(text.symbols):
        return
    spaced = [s for s in strings if len(s.split()) > 1]
    if 2 * len(spaced) > len(text.symbols):
        if name in ("context", "prefix"):  # the words of one sentence
            what, remedy = "strings", "Are these several words? Then pass one string"
        else:
            what = "lists of strings"
            remedy = "Are they sentences? Then pass one flat list of strings"
        warn(
            f"{name} holds {what} such as {spaced[0]!r:.60}: a list is one sentence "
            f"and each of its strings one symbol, white space included. {remedy}",
            UserWarning,
        )
