"""Sentences to tokens: reading, marks, vocabulary, token streams, windows."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._warnings import warn
from . import _text_fast as _fast
from ._encoding import object_array, plain, plain_list
from ._labels import Labels
from ._text import (
    NumberedText,
    TextFile,
    check_tokens,
    number_strings,
    number_symbols,
)

# The longest context: as many marks stand before a text, for its first symbols.
DEEPEST = 1 << 24


class ContextWindows(NamedTuple):
    """Sentences as contexts and targets that share one array of token ids.

    Attributes
    ----------
    contexts : int32 ndarray of shape (n_positions, max_depth)
        Sliding-window view, last column most recent; -1 marks missing history.

    targets : int32 ndarray of shape (n_positions,)
        The symbol that followed, a view of the same array.

    sample_weight : float64 ndarray of shape (n_positions,)
        1 where the target is a symbol of the text or an end mark, 0 at
        the separators and start marks between sentences.

    tokens : int32 ndarray
        The array below both views.

    vocabulary : ndarray of shape (n_symbols,)
        Symbol of each id.
    """

    contexts: np.ndarray
    targets: np.ndarray
    sample_weight: np.ndarray
    tokens: np.ndarray
    vocabulary: np.ndarray


def split_sentence(sentence: Any) -> Sequence:
    """The symbols of a sentence: a string is split on whitespace."""
    return sentence.split() if isinstance(sentence, str) else sentence


def check_sentences(sentences: Any) -> list:
    """A list of sentences, or a readable error when it is not one."""
    if isinstance(sentences, str | bytes):
        raise TypeError(
            "sentences must be an iterable of sentences, not one string: pass "
            "[text] or text.splitlines()"
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


def number_sentences(X: Any, name: str = "X") -> NumberedText:
    """X, whatever form of sentences it is, as numbers of symbols.

    Parameters
    ----------
    X : TextFile or iterable of sentences
        A sentence is a string, which is split on white space, or an iterable of
        symbols. Strings and files take the compiled way.

    name : str
        What messages call X.
    """
    if isinstance(X, NumberedText):
        return X
    if isinstance(X, TextFile):
        return X.number()
    if not isinstance(X, str | bytes) and hasattr(X, "columns"):
        raise TypeError(
            f"{name} is a data frame; pass one column of it, a sentence in each row"
        )
    if (
        isinstance(X, Iterable)
        and not isinstance(X, str | bytes)
        and not isinstance(X, Mapping)
        and getattr(X, "ndim", 1) > 0
    ):
        X = plain_list(X)
        if all(isinstance(s, str) for s in X):
            text = number_strings(X)
            _warn_of_words(text, name)
            return text
        X = [s if isinstance(s, str | bytes | Mapping) else plain_list(s) for s in X]
    try:
        sentences = check_sentences(X)
    except TypeError as exc:
        raise TypeError(f"{name}: {exc}") from exc
    text = number_symbols(sentences)
    _warn_of_sentences(text, name)
    return text


def _warn_of_words(text: NumberedText, name: str) -> None:
    """Strings of one word each are most likely one text that was split."""
    if text.n_sentences > 2 and (text.lengths == 1).all():
        warn(
            f"{name} holds {text.n_sentences} strings of one word each, and each "
            "string is a sentence. Are they the words of one sentence? Then pass "
            f"[' '.join({name})]",
            UserWarning,
            stacklevel=3,
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
            stacklevel=3,
        )


def read_sentences(X: Any, name: str = "X") -> list:
    """X as a list of symbol sequences, with strings split on whitespace.

    For what looks at the sentences themselves; `number_sentences` is the fast way.
    """
    text = number_sentences(X, name)
    symbols = object_array(text.symbols)
    parts = np.split(text.tokens, text.starts)[1:]
    return [symbols[part[1:]].tolist() for part in parts]


def check_marks(start: Any, end: Any, unknown: Any) -> None:
    """The three marks are hashable and distinct (None: there is no such mark)."""
    marks = {"start": start, "end": end, "unknown": unknown}
    for name, mark in marks.items():
        try:
            hash(mark)
        except TypeError as exc:
            raise ValueError(f"{name} must be hashable or None: {exc}") from exc
    given = [(n, m) for n, m in marks.items() if m is not None]
    for i, (a, mark) in enumerate(given):
        for b, other in given[:i]:
            if mark == other:
                raise ValueError(f"{b} and {a} are the same symbol, {mark!r}")


def check_symbols(text: NumberedText, counts: np.ndarray) -> None:
    """ValueError if a symbol that occurs is None or NaN; says where."""
    for number, symbol in enumerate(text.symbols):
        if (symbol is None or symbol != symbol) and counts[number] > 0:
            raise ValueError(
                f"X: {text.where_is(number)} holds the missing value {symbol!r}; drop "
                "it or replace it by a symbol"
            )


def token_stream(
    text: NumberedText,
    table: np.ndarray,
    *,
    start: int | None,
    end: int | None,
    front: int = 0,
) -> np.ndarray:
    """One int32 array of ids for all sentences, -1 before each of them.

    `table` holds the id of each symbol of the text, `start` and `end` are the ids of
    the marks (None: no mark), `front` is the number of extra -1 at the very beginning.
    """
    n_marks = (start is not None) + (end is not None)
    size = front + text.tokens.size + n_marks * text.n_sentences
    check_tokens(size)
    tokens = np.empty(size, dtype=np.int32)
    _fast.lay_out(
        text.tokens,
        table,
        -1 if start is None else start,
        -1 if end is None else end,
        front,
        tokens,
    )
    return tokens


def stream_windows(tokens: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Each token after the first `width` of a stream, and the window before it.

    Parameters
    ----------
    tokens : ndarray of shape (n_tokens,)
        From `token_stream`.

    width : int
        Columns of a window, at least 1.

    Returns
    -------
    windows : ndarray of shape (max(n_tokens - width, 0), width)
        A view, the last column the most recent token.

    targets : ndarray of shape (max(n_tokens - width, 0),)
        The token after each window.
    """
    if tokens.size <= width:
        return np.empty((0, width), tokens.dtype), tokens[:0]
    windows = np.lib.stride_tricks.sliding_window_view(tokens, width)
    return windows[:-1], tokens[width:]


class SentenceEncoder:
    """Maps sentences to one int32 array of the tokens of some labels.

    Two tokens follow those of the labels: a word that is neither class nor symbol, in
    labels without unknown word (`lost`), and a mark that occurs as a word, which is an
    error.

    Parameters
    ----------
    labels : Labels
        With symbols.
    """

    def __init__(self, labels: Labels):
        self.labels = labels
        self.lost = labels.n_tokens
        token = labels.token_of_class
        self.start = labels.start_id
        self.end = -1 if labels.end is None else int(token[labels.end_id])
        self.unknown = self.lost
        if labels.unknown is not None:
            self.unknown = int(labels.token_code[labels.unknown])

    @cached_property
    def _code(self):
        code = dict(self.labels.token_code)
        for mark in (self.labels.start, self.labels.end):
            if mark is not None:
                code[mark] = self.lost + 1
        return code

    def encode(self, sentences: Any, *, end: bool = True, front: int = 0) -> np.ndarray:
        """Tokens of all sentences, -1 before each; see `token_stream`."""
        text = number_sentences(sentences)
        code, unknown = self._code, self.unknown
        table = np.fromiter(
            (code.get(s, unknown) for s in text.symbols), np.int32, len(text.symbols)
        )
        for number in np.flatnonzero(table > self.lost).tolist():
            if (text.tokens == number).any():
                self._raise_mark(text, number)
        return token_stream(
            text,
            table,
            start=None if self.labels.start is None else self.start,
            end=self.end if end and self.labels.end is not None else None,
            front=front,
        )

    def _raise_mark(self, text, number):
        mark = text.symbols[number]
        name = "start" if mark == self.labels.start else "end"
        raise ValueError(
            f"X: the {name} mark {mark!r} occurs in {text.where_is(number)}; marks are "
            "put around sentences by the model. Remove it, or choose another mark "
            f"with {name}="
        )

    def is_target(self, tokens: np.ndarray) -> np.ndarray:
        """Which tokens are predicted: all but separators and start marks."""
        predicted = tokens >= 0
        if self.labels.start is not None:
            predicted &= tokens != self.start
        return predicted

    def lengths(self, sentences: Any) -> np.ndarray:
        """Number of predicted positions of each sentence."""
        return number_sentences(sentences).lengths + (self.labels.end is not None)

    def encode_history(self, context: Any) -> np.ndarray:
        """Tokens of a start mark and the words of an unfinished sentence."""
        if isinstance(context, bytes) or not hasattr(context, "__iter__"):
            raise TypeError(
                "context must be a string or an iterable of symbols, got "
                f"{type(context).__name__}"
            )
        words = split_sentence(context)
        return self.encode([list(words)], end=False)[1:]

    def first_lost(self, sentences: Any) -> tuple[str, Any] | None:
        """(where, symbol) of the first symbol that has no token."""
        text = number_sentences(sentences)
        lost = np.array([s not in self._code for s in text.symbols], dtype=bool)
        words = text.tokens[text.tokens >= 0]
        found = words[lost[words]]
        if not found.size:
            return None
        return text.where_is(found[0]), plain(text.symbols[found[0]])

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "_code"}


def context_windows(
    sentences: Any, max_depth: int = 4, *, start: Any = "<s>", end: Any = "</s>"
) -> ContextWindows:
    r"""Turn sentences into contexts and targets without copying.

    A sentence :math:`w_1 \ldots w_L` gives the samples

    .. math::
        (\langle s\rangle) \to w_1,\quad (\langle s\rangle w_1) \to w_2,\ \ldots,\
        (\langle s\rangle w_1 \ldots w_L) \to \langle /s\rangle ,

    each context cut to its `max_depth` most recent symbols. All contexts and
    targets are strided views of one integer array, 4 bytes a token.

    Parameters
    ----------
    sentences : TextFile or iterable of sentences
        A sentence is an iterable of hashable symbols of one kind, or a string,
        which is split on whitespace. An empty sentence gives the single sample
        :math:`\langle s\rangle \to \langle /s\rangle`.

    max_depth : int, default=4
        Number of columns of `contexts`, from 1 to 2^24.

    start, end : object or None, default="<s>", "</s>"
        The marks around each sentence; None leaves the mark out. They must not
        occur in the sentences.

    Returns
    -------
    windows : ContextWindows
        Named tuple (contexts, targets, sample_weight, tokens, vocabulary). Train on
        it with ``model.fit(windows.contexts, windows.targets,
        sample_weight=windows.sample_weight)`` and ``padding=-1``.

    Raises
    ------
    ValueError
        If there is no sentence, or a mark occurs inside one (the message names the
        sentence).
    TypeError
        If `sentences` is a single string, or its symbols cannot be sorted.

    Examples
    --------
    >>> from sklstruct.symbols import context_windows
    >>> w = context_windows(["a b", "b"], max_depth=2)
    >>> keep = w.sample_weight > 0
    >>> for context, target in zip(w.contexts[keep], w.targets[keep]):
    ...     names = [w.vocabulary[c] if c >= 0 else "." for c in context]
    ...     print(*names, "->", w.vocabulary[target])
    . <s> -> a
    <s> a -> b
    a b -> </s>
    . <s> -> b
    <s> b -> </s>
    """
    if not isinstance(max_depth, numbers.Integral) or not 1 <= max_depth <= DEEPEST:
        raise ValueError(
            f"max_depth must be an integer from 1 to {DEEPEST}, got {max_depth!r}"
        )
    text = number_sentences(sentences, "sentences")
    if not text.n_sentences:
        raise ValueError("sentences is empty: there is nothing to learn from")
    code = dict(zip(text.symbols, range(len(text.symbols))))
    for name, mark in (("start", start), ("end", end)):
        if mark is not None and mark in code:
            raise ValueError(
                f"the {name} mark {mark!r} occurs in {text.where_is(code[mark])}; "
                f"remove it or choose another mark with {name}="
            )
    try:
        vocabulary = sorted(code)
    except TypeError as exc:
        raise TypeError(f"the symbols must all be of one kind: {exc}") from exc
    marks = [m for m in (start, end) if m is not None]
    symbols = object_array(vocabulary + marks)
    code = {s: i for i, s in enumerate(symbols)}
    table = np.array([code[s] for s in text.symbols], dtype=np.int32)
    tokens = token_stream(
        text,
        table,
        start=None if start is None else code[start],
        end=None if end is None else code[end],
        front=max_depth - 1,
    )
    windows, targets = stream_windows(tokens, max_depth)
    weight = (targets >= 0).astype(np.float64)
    if start is not None:
        weight[targets == code[start]] = 0.0
    return ContextWindows(windows, targets, weight, tokens, symbols)
