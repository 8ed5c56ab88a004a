"""Sentences to tokens: vocabulary, marks, token streams, windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import combinations, compress
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_count, least_weight
from .._lazy import stored
from . import _text_fast as _fast
from ._encoding import is_missing, object_array, plain
from ._labels import Labels, check_hashable, read_vocabulary, sort_symbols
from ._number import not_symbols, number_sentences
from ._text import Analyzer, NumberedText, check_tokens, split_string
from ._text_file import LargeText

# The longest context; as many marks precede a text, for its first symbols.
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


def check_symbols(text: NumberedText, counts: np.ndarray) -> None:
    """ValueError, with the place, if a symbol that occurs is None or NaN."""
    if set(map(type, text.symbols)) <= {str}:
        return
    missing = np.fromiter(map(is_missing, text.symbols), bool, len(text.symbols))
    for number in np.flatnonzero(missing & (counts > 0)).tolist():
        raise ValueError(
            f"X: {text.where_is(number)} holds the missing value "
            f"{text.symbols[number]!r:.60}; drop it or replace it by a symbol"
        )


class VocabularyRules(NamedTuple):
    """The rules for the words of a text that a model predicts, and its marks.

    start, end, unknown: distinct and hashable. None leaves the mark out.
    vocabulary: the words to choose from. None: the words of the text.
    min_count: words that occur less often are left out.
    max_vocabulary: number of the most frequent words that are kept; ties in sorted
    order. None: all.
    analyzer: the rule by which strings are split.
    """

    start: Any = "<s>"
    end: Any = "</s>"
    unknown: Any = "<unk>"
    min_count: int = 1
    max_vocabulary: int | None = None
    vocabulary: Any = None
    analyzer: Analyzer = "word"

    def check(self) -> None:
        """ValueError if marks are equal or not hashable."""
        marks = {"start": self.start, "end": self.end, "unknown": self.unknown}
        for name, mark in marks.items():
            check_hashable(name, mark)
        given = [(name, mark) for name, mark in marks.items() if mark is not None]
        for (a, mark), (b, other) in combinations(given, 2):
            if mark == other:
                raise ValueError(f"{a} and {b} are the same symbol, {other!r:.60}")

    @property
    def by_count(self) -> bool:
        """Whether words are chosen by their counts in the text."""
        return self.min_count > 1 or self.max_vocabulary is not None

    def check_labels(self, labels: Labels, counts: np.ndarray) -> None:
        """ValueError if these rules would not give the labels of a counted text.

        Words that are unknown in `labels` stay unknown: rules that keep more words are
        accepted. counts: the weight of each class in the text.
        """
        marks = labels.start, labels.end, labels.unknown
        found = *marks, labels.analyzer
        wanted = self.start, self.end, self.unknown, self.analyzer
        if found != wanted:
            raise ValueError(
                f"X was counted with start, end, unknown and analyzer {found}, and "
                f"this model has {wanted}; count X with this model"
            )
        weight = dict(zip(labels.classes.tolist(), counts.tolist()))
        for mark in marks:
            weight.pop(mark, None)
        if self.vocabulary is not None:
            given = set(read_vocabulary(self.vocabulary, self.analyzer)) - {*marks}
            others = weight.keys() - given
            if not self.by_count:
                others |= given - weight.keys()
            if others:
                raise ValueError(
                    f"vocabulary: X was counted with another vocabulary; {len(others)} "
                    f"words differ, such as {min(others, key=repr)!r:.60}. "
                    "Count X with this model"
                )
        least = least_weight(self.min_count)
        rare = [word for word in weight if weight[word] < least]
        if self.min_count > 1 and rare:  # 1 keeps every word
            raise ValueError(
                f"min_count={self.min_count}, but X was counted with {len(rare)} words "
                f"that occur less often, such as {rare[0]!r:.60}; count X by this model"
            )
        if self.max_vocabulary is not None and len(weight) > self.max_vocabulary:
            raise ValueError(
                f"max_vocabulary={self.max_vocabulary}, but X was counted with "
                f"{len(weight)} words; count X with this model"
            )

    def find_labels(self, text: Any, sample_weight: np.ndarray | None = None) -> Labels:
        """The labels of a text: words in sorted order, `unknown`, `end`, `start`.

        The text has ``symbols`` and ``counts``. The weights of sentences are positive.
        """
        marks = [mark for mark in (self.unknown, self.end) if mark is not None]
        known = {*marks, self.start}
        counts = text.counts() if sample_weight is None else text.counts(sample_weight)
        check_symbols(text, counts)
        if self.vocabulary is None:
            frequent = (counts > 0.0) & (counts >= least_weight(self.min_count))
            words = sort_symbols(compress(text.symbols, frequent.tolist()))
        else:
            words = read_vocabulary(self.vocabulary, self.analyzer)
        words = [word for word in words if word not in known]
        most = self.max_vocabulary or len(words)
        if len(words) > most or (self.min_count > 1 and self.vocabulary is not None):
            count = dict(zip(text.symbols, counts.tolist()))
            weight = np.array([count.get(word, 0.0) for word in words])
            rank = np.argsort(-weight, kind="stable")[:most]
            rank = np.sort(rank[weight[rank] >= least_weight(self.min_count)])
            words = [words[i] for i in rank.tolist()]
        classes = object_array(words + marks)
        if classes.size == 0:
            raise ValueError(
                "there is nothing to predict: no word, unknown=None and end=None"
            )
        symbols = classes
        if self.start is not None:
            symbols = np.append(classes, object_array([self.start]))
        return Labels(
            classes, symbols, start=self.start, end=self.end, unknown=self.unknown,
            analyzer=self.analyzer,
        )  # fmt: skip


def token_stream(
    text: NumberedText,
    table: np.ndarray,
    *,
    start: int = -1,
    end: int = -1,
    front: int = 0,
) -> np.ndarray:
    """One int32 array of ids for all sentences, -1 before each of them.

    `table` holds the id of each symbol of the text, `start` and `end` are the ids of
    the marks (-1: no mark), `front` is the number of extra -1 at the very beginning.
    """
    n_marks = (start >= 0) + (end >= 0)
    size = front + text.tokens.size + n_marks * text.n_sentences
    check_tokens(size)
    tokens = np.empty(size, dtype=np.int32)
    _fast.lay_out(text.tokens, table, start, end, front, tokens)
    return tokens


def stream_windows(tokens: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Each token of a `token_stream` after the first `width`, and the window before it.

    The windows are a view, the last column the most recent token.
    """
    if tokens.size <= width:
        return np.empty((0, width), tokens.dtype), tokens[:0]
    windows = np.lib.stride_tricks.sliding_window_view(tokens, width)
    return windows[:-1], tokens[width:]


# Number of words of a sentence that a model may read before its contexts.
LONGEST_HISTORY = 256


class TextWindows:
    """Windows of ids, each with the history before its columns.

    As an array it is the windows, of `width` columns. Row i ends before
    ``tokens[end[i]]``; its history goes back from there to the first -1, over at most
    `reach` ids. All ends are at least `width`.
    """

    ndim = 2

    def __init__(
        self,
        tokens: np.ndarray,
        end: np.ndarray,
        width: int,
        reach: int = LONGEST_HISTORY,
    ) -> None:
        self.tokens, self.end, self.width, self.reach = tokens, end, width, reach
        self.shape, self.dtype = (end.size, width), tokens.dtype

    @classmethod
    def of_rows(cls, rows: np.ndarray, width: int) -> TextWindows:
        """Of histories, the rows of an array; windows are its last columns."""
        n, reach = rows.shape
        end = np.arange(1, n + 1, dtype=np.int64) * reach
        return cls(np.ascontiguousarray(rows).ravel(), end, width, reach)

    def with_tokens(self, tokens: np.ndarray) -> TextWindows:
        """The same windows with other ids."""
        return TextWindows(tokens, self.end, self.width, self.reach)

    def of_width(self, width: int) -> TextWindows:
        """The same windows with another number of columns; -1 before the first
        token."""
        tokens, end = self.tokens, self.end
        lacking = width - int(end.min(initial=width))
        if lacking > 0:
            tokens = np.pad(tokens, (lacking, 0), constant_values=-1)
            end = end + lacking
        return TextWindows(tokens, end, width, self.reach)

    @cached_property
    def array(self) -> np.ndarray:
        """(n_windows, width) ids; all that is left of a -1 is -1."""
        if not self.end.size:
            return np.empty(self.shape, dtype=self.dtype)
        view = np.lib.stride_tricks.sliding_window_view(self.tokens, self.width)
        out = view[self.end - self.width]
        for k in range(self.width - 1, 0, -1):
            out[out[:, k] < 0, k - 1] = -1  # words of the sentence before
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return self.end.size

    def __getitem__(self, rows: Any) -> TextWindows:
        """Some of the windows, and the part of the tokens that they read."""
        if isinstance(rows, slice) and rows.indices(len(self)) == (0, len(self), 1):
            return self  # with its array
        end = self.end[rows]
        if not end.size:
            return TextWindows(self.tokens[:0], end, self.width, self.reach)
        first = max(0, int(end.min()) - max(self.reach, self.width))
        tokens = self.tokens[first : int(end.max())]
        return TextWindows(tokens, end - first, self.width, self.reach)


class SentenceEncoder:
    """Maps sentences to one int32 array of the tokens of some labels, with symbols.

    After the tokens of the labels follows the token `lost`, for a word that is neither
    class nor symbol if the labels have no unknown word. A mark that occurs as a word is
    an error.
    """

    def __init__(self, labels: Labels):
        self.labels = labels
        self.lost = labels.class_of_token.size - 1
        token = labels.token_of_class
        self.start = labels.start_id
        self.end = -1 if labels.end is None else int(token[labels.end_id])
        self.unknown = self.lost
        if labels.unknown is not None:
            self.unknown = labels.token_code[labels.unknown]

    @cached_property
    def longest(self) -> int:
        """Characters of the longest word except the marks; 0 without strings."""
        labels = self.labels
        marks = {labels.start, labels.end, labels.unknown}
        if labels.strings is not None:
            lengths = labels.strings.table.lengths()
            lengths[[labels.token_code[m] for m in marks if m is not None]] = 0
            return int(lengths.max(initial=0))
        words = (w for w in labels.token_code if isinstance(w, str) and w not in marks)
        return max(map(len, words), default=0)

    def encode(
        self, text: NumberedText, *, end: bool = True, front: int = 0, name: str = "X"
    ) -> np.ndarray:
        """Tokens of all sentences, -1 before each; see `token_stream`.

        name: of the text in an error.
        """
        table = self.labels.tokens(text.words, self.unknown)
        marked = (table == self.start) | (table == self.end)
        for number in np.flatnonzero(marked).tolist():
            if (text.tokens == number).any():
                self._raise_mark(text, number, name)
        mark = self.end if end else -1
        return token_stream(text, table, start=self.start, end=mark, front=front)

    def encode_known(
        self, text: NumberedText, *, front: int = 0, name: str = "X"
    ) -> np.ndarray:
        """As `encode`; a ValueError names the first word that has no token."""
        tokens = self.encode(text, front=front, name=name)
        lost = self.first_lost(text) if (tokens == self.lost).any() else None
        if lost is not None:
            where, word = lost
            raise ValueError(
                f"{name}: the word {word!r:.60} of {where} is not in the vocabulary, "
                "and unknown=None: keep the word (vocabulary, min_count, "
                "max_vocabulary), or name an unknown symbol"
            )
        return tokens

    def encode_parts(
        self, text: LargeText, n_tokens: int, *, front: int = 0
    ) -> Iterator[np.ndarray]:
        """`encode_known` of each part of about n_tokens of a large text."""
        for part in text.parts(n_tokens):
            tokens = self.encode_known(part, front=front)
            del part
            yield tokens
            del tokens

    def _raise_mark(self, text, number, name):
        mark = text.symbols[number]
        kind = "start" if mark == self.labels.start else "end"
        raise ValueError(
            f"{name}: the {kind} mark {mark!r:.60} occurs in {text.where_is(number)}; "
            "the model puts marks around sentences. Remove it, or choose another mark "
            f"with {kind}="
        )

    def is_target(self, tokens: np.ndarray) -> np.ndarray:
        """A mask of the predicted tokens: all except separators and start marks."""
        predicted = tokens >= 0
        if self.labels.start is not None:
            predicted &= tokens != self.start
        return predicted

    def windows(self, tokens: np.ndarray, width: int) -> tuple[TextWindows, np.ndarray]:
        """(windows, next tokens) of all predicted positions; see `stream_windows`."""
        end = width + np.flatnonzero(self.is_target(tokens[width:]))
        return TextWindows(tokens, end, width), tokens[end]

    def lengths(self, text: NumberedText) -> np.ndarray:
        """Number of predicted positions of each sentence."""
        return text.lengths + (self.labels.end is not None)

    def number_context(self, context: Any, name: str = "context") -> NumberedText:
        """The words of an unfinished sentence as a text of one sentence."""
        if isinstance(context, bytes | Mapping) or not hasattr(context, "__iter__"):
            raise not_symbols(name, context)
        if isinstance(context, str):
            context = split_string(context, self.labels.analyzer)
        return number_sentences([list(context)], name, self.labels.analyzer)

    def first_lost(self, text: NumberedText) -> tuple[str, Any] | None:
        """(where, symbol) of the first symbol that has no token."""
        lost = self.labels.tokens(text.words, -1) < 0
        words = text.tokens[text.tokens >= 0]
        found = words[lost[words]]
        if not found.size:
            return None
        return text.where_is(found[0]), plain(text.symbols[found[0]])

    def __getstate__(self):
        return stored(self)


def context_windows(
    sentences: Any, max_depth: int = 4, *, start: Any = "<s>", end: Any = "</s>"
) -> ContextWindows:
    r"""Turn sentences into contexts and targets without copying.

    A sentence :math:`w_1 \ldots w_L` gives the samples

    .. math::
        (\langle s\rangle) \to w_1,\quad (\langle s\rangle w_1) \to w_2,\ \ldots,\
        (\langle s\rangle w_1 \ldots w_L) \to \langle /s\rangle ,

    each context cut to its `max_depth` most recent symbols. All contexts and
    targets are strided views of one integer array, 4 bytes per token.

    Parameters
    ----------
    sentences : TextFile or iterable of sentences
        A sentence is an iterable of hashable symbols of one kind, or a string,
        which is split on whitespace. An empty sentence gives the single sample
        :math:`\langle s\rangle \to \langle /s\rangle`.

    max_depth : int, default=4
        Number of columns of `contexts`, from 1 to 2^24.

    start, end : object or None, default="<s>" and "</s>"
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
        If `sentences` is empty, or a mark occurs inside a sentence (the message names
        the sentence).
    TypeError
        If `sentences` is a single string.

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
    check_count("max_depth", max_depth, 1, DEEPEST)
    text = number_sentences(sentences, "sentences")
    if not text.n_sentences:
        raise ValueError("sentences is empty: there is nothing to learn from")
    rules = VocabularyRules(start, end, unknown=None)
    rules.check()
    labels = rules.find_labels(text)
    encoder = SentenceEncoder(labels)
    tokens = encoder.encode(text, front=max_depth - 1)
    windows, targets = stream_windows(tokens, max_depth)
    weight = encoder.is_target(targets).astype(np.float64)
    return ContextWindows(windows, targets, weight, tokens, labels.known_symbols(""))
