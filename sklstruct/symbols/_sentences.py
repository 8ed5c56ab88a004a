"""Sentences to tokens: reading, marks, vocabulary, token streams, windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np

from .._checks import INT32_MAX
from ._encoding import object_array
from ._labels import Labels


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
    out = []
    for i, sentence in enumerate(sentences):
        if isinstance(sentence, bytes) or not isinstance(sentence, Iterable):
            raise TypeError(
                f"sentence {i} must be a string or an iterable of symbols, got "
                f"{type(sentence).__name__}"
            )
        out.append(sentence if isinstance(sentence, str) else list(sentence))
    return out


def read_sentences(X: Any, name: Any = "X") -> list:
    """X as a list of symbol sequences, with strings split on whitespace."""
    if not isinstance(X, str | bytes) and hasattr(X, "columns"):
        raise TypeError(
            f"{name} is a data frame; pass one column of it, a sentence in each row"
        )
    if (
        isinstance(X, Iterable)
        and not isinstance(X, str | bytes)
        and getattr(X, "ndim", 1) > 0
    ):
        # Arrays as Python objects: their own scalars hash and compare slowly, and
        # would come back from `sample`.
        X = (s.tolist() if isinstance(s, np.ndarray) else s for s in X)
    try:
        sentences = check_sentences(X)
    except TypeError as exc:
        raise TypeError(f"{name}: {exc}") from exc
    return [split_sentence(s) for s in sentences]


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


def count_symbols(sentences: Any, sample_weight: Any = None) -> dict:
    """Weighted number of occurrences of each symbol, in order of appearance."""
    try:
        if sample_weight is None:
            counts = Counter(chain.from_iterable(sentences))
        else:
            counts = {}
            for sentence, weight in zip(sentences, sample_weight.tolist()):
                for s in sentence:
                    counts[s] = counts.get(s, 0.0) + weight
    except TypeError as exc:
        for i, sentence in enumerate(sentences):
            for s in sentence:
                try:
                    hash(s)
                except TypeError:
                    raise TypeError(
                        f"X: sentence {i} holds a symbol that is not hashable, {s!r}"
                    ) from exc
        raise
    missing = [s for s in counts if s is None or s != s]
    if missing:
        i = next(i for i, s in enumerate(sentences) if any(m in s for m in missing))
        raise ValueError(
            f"X: sentence {i} holds the missing value {missing[0]!r}; drop it or "
            "replace it by a symbol"
        )
    return counts


def sort_symbols(symbols: Any) -> list:
    """Sorted; in the given order where they are of kinds that do not compare."""
    symbols = list(symbols)
    try:
        return sorted(symbols)
    except TypeError:
        return symbols


def token_stream(
    sentences: Any, code: dict, *, unknown: Any, start: Any, end: Any, front: int = 0
) -> np.ndarray:
    """One int32 array of ids for all sentences, -1 before each of them.

    `code` maps symbols to ids; `unknown` is the id of symbols that it does not
    hold (None: a KeyError), `start` and `end` the ids of the marks (None: no
    mark), `front` the number of extra -1 at the very beginning.
    """
    lengths = np.fromiter((len(s) for s in sentences), np.int64, len(sentences))
    extra = 1 + (start is not None) + (end is not None)
    stop = np.cumsum(lengths + extra) + front
    if stop[-1] > INT32_MAX if len(stop) else False:
        raise ValueError(f"more than {INT32_MAX} tokens; split the corpus")
    tokens = np.full(int(stop[-1]) if len(stop) else front, -1, dtype=np.int32)
    inner = np.ones(tokens.size, dtype=bool)
    inner[:front] = False
    first = stop - lengths - extra
    inner[first] = False
    if start is not None:
        inner[first + 1] = False
        tokens[first + 1] = start
    if end is not None:
        inner[stop - 1] = False
        tokens[stop - 1] = end
    # map() over a chain stays in C: a quarter faster than a generator expression.
    words = chain.from_iterable(sentences)
    if unknown is None:
        ids = map(code.__getitem__, words)
    else:
        ids = map(code.get, words, repeat(unknown))
    tokens[inner] = np.fromiter(ids, dtype=np.int32, count=int(lengths.sum()))
    return tokens


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

    def encode(
        self, sentences: list, *, end: bool = True, front: int = 0
    ) -> np.ndarray:
        """Tokens of all sentences, -1 before each; see `token_stream`."""
        try:
            tokens = token_stream(
                sentences,
                self._code,
                unknown=self.unknown,
                start=None if self.labels.start is None else self.start,
                end=self.end if end and self.labels.end is not None else None,
                front=front,
            )
        except TypeError:
            count_symbols(sentences)  # names the symbol that is not hashable
            raise
        if tokens.size and tokens.max() > self.lost:
            self._raise_mark(sentences)
        return tokens

    def _raise_mark(self, sentences):
        for name in ("start", "end"):
            mark = getattr(self.labels, name)
            for i, sentence in enumerate(sentences):
                if mark is not None and mark in sentence:
                    raise ValueError(
                        f"X: the {name} mark {mark!r} occurs in sentence {i}; marks "
                        "are put around sentences by the model. Remove it, or choose "
                        f"another mark with {name}="
                    )

    def is_target(self, tokens: np.ndarray) -> np.ndarray:
        """Which tokens are predicted: all but separators and start marks."""
        predicted = tokens >= 0
        if self.labels.start is not None:
            predicted &= tokens != self.start
        return predicted

    def lengths(self, sentences: list) -> np.ndarray:
        """Number of predicted positions of each sentence."""
        extra = self.labels.end is not None
        return np.fromiter(
            (len(s) + extra for s in sentences), np.int64, len(sentences)
        )

    def encode_history(self, context: Any) -> np.ndarray:
        """Tokens of a start mark and the words of an unfinished sentence."""
        if isinstance(context, bytes) or not hasattr(context, "__iter__"):
            raise TypeError(
                "context must be a string or an iterable of symbols, got "
                f"{type(context).__name__}"
            )
        words = split_sentence(context)
        return self.encode([list(words)], end=False)[1:]

    def first_lost(self, sentences: list) -> tuple | None:
        """(sentence number, word) of the first word that has no token."""
        for i, sentence in enumerate(sentences):
            for w in sentence:
                if w not in self._code:
                    return i, w
        return None

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "_code"}


def repeat_weights(sample_weight: Any, lengths: Any) -> np.ndarray:
    """One weight a position from one a sentence."""
    return np.fromiter(
        chain.from_iterable(map(repeat, sample_weight.tolist(), lengths.tolist())),
        dtype=np.float64,
        count=int(lengths.sum()),
    )


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
    sentences : iterable of sentences
        A sentence is an iterable of hashable symbols of one kind, or a string,
        which is split on whitespace. An empty sentence gives the single sample
        :math:`\langle s\rangle \to \langle /s\rangle`.

    max_depth : int, default=4
        Number of columns of `contexts`, at least 1.

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
    if max_depth < 1:
        raise ValueError(f"max_depth must be at least 1, got {max_depth}")
    sentences = [split_sentence(s) for s in check_sentences(sentences)]
    if not sentences:
        raise ValueError("sentences is empty: there is nothing to learn from")
    code = {}
    for s in sentences:
        code.update(dict.fromkeys(s))
    for name, mark in (("start", start), ("end", end)):
        if mark is not None and mark in code:
            where = next(i for i, s in enumerate(sentences) if mark in s)
            raise ValueError(
                f"the {name} mark {mark!r} occurs in sentence {where}; remove it or "
                f"choose another mark with {name}="
            )
    try:
        vocabulary = sorted(code)
    except TypeError as exc:
        raise TypeError(f"the symbols must all be of one kind: {exc}") from exc
    marks = [m for m in (start, end) if m is not None]
    symbols = object_array(vocabulary + marks)
    code = {s: i for i, s in enumerate(symbols)}
    tokens = token_stream(
        sentences,
        code,
        unknown=None,
        start=None if start is None else code[start],
        end=None if end is None else code[end],
        front=max_depth - 1,
    )
    windows = np.lib.stride_tricks.sliding_window_view(tokens, max_depth)[:-1]
    targets = tokens[max_depth:]
    weight = (targets >= 0).astype(np.float64)
    if start is not None:
        weight[targets == code[start]] = 0.0
    return ContextWindows(windows, targets, weight, tokens, symbols)
