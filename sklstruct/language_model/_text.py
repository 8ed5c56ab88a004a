"""Sentences to integer ids: vocabulary, marks, unknown words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain, repeat

import numpy as np

from ..context_tree._symbols import check_sentences, split_sentence, token_stream


def read_sentences(X, name="X"):
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


def check_marks(start, end, unknown):
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


def count_symbols(sentences, sample_weight=None):
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


def sort_symbols(symbols):
    """Sorted; in the given order where they are of kinds that do not compare."""
    symbols = list(symbols)
    try:
        return sorted(symbols)
    except TypeError:
        return symbols


class SentenceEncoder:
    """Maps sentences to one int32 array of class ids.

    Class ids number `classes`. Three ids follow them: `start_id`, `oov_id` (a
    word that is no class, in a model without unknown-word class), and one for
    marks that occur as words, which is an error. The dictionary of the words is
    made on first use and not pickled.

    Parameters
    ----------
    classes : object ndarray of shape (n_classes,)
        The predicted symbols: words, unknown word and end mark, in any order.
    start, end, unknown : object
        None where the model has no such mark.
    """

    def __init__(self, classes, start, end, unknown):
        self.classes, self.start, self.end, self.unknown = classes, start, end, unknown
        n = classes.size
        self.start_id, self.oov_id, self._mark_id = n, n + 1, n + 2
        symbols = classes.tolist()
        self.end_id = None if end is None else symbols.index(end)
        self.unknown_id = None if unknown is None else symbols.index(unknown)

    @property
    def code(self):
        code = self.__dict__.get("_code")
        if code is None:
            code = dict(zip(self.classes.tolist(), range(self.classes.size)))
            for mark in (self.start, self.end):
                if mark is not None:
                    code[mark] = self._mark_id
            self._code = code
        return code

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "_code"}

    def encode(self, sentences, *, end=True, front=0):
        """Ids of all sentences, -1 before each; see `token_stream`."""
        fallback = self.oov_id if self.unknown is None else self.unknown_id
        try:
            tokens = token_stream(
                sentences,
                self.code,
                unknown=fallback,
                start=None if self.start is None else self.start_id,
                end=self.end_id if end else None,
                front=front,
            )
        except TypeError:
            count_symbols(sentences)  # names the symbol that is not hashable
            raise
        if tokens.size and tokens.max() == self._mark_id:
            self._raise_mark(sentences)
        return tokens

    def _raise_mark(self, sentences):
        for name, mark in (("start", self.start), ("end", self.end)):
            for i, sentence in enumerate(sentences):
                if mark is not None and mark in sentence:
                    raise ValueError(
                        f"X: the {name} mark {mark!r} occurs in sentence {i}; marks "
                        "are put around sentences by the model. Remove it, or choose "
                        f"another mark with {name}="
                    )

    def lengths(self, sentences):
        """Number of predicted positions of each sentence."""
        extra = self.end is not None
        return np.fromiter(
            (len(s) + extra for s in sentences), np.int64, len(sentences)
        )

    def encode_history(self, context):
        """Ids of a start mark and the words of an unfinished sentence."""
        if isinstance(context, bytes) or not hasattr(context, "__iter__"):
            raise TypeError(
                "context must be a string or an iterable of symbols, got "
                f"{type(context).__name__}"
            )
        words = split_sentence(context)
        return self.encode([list(words)], end=False)[1:]

    def first_unknown(self, sentences):
        """(sentence number, word) of the first word that is no class."""
        code = self.code
        for i, sentence in enumerate(sentences):
            for w in sentence:
                if w not in code:
                    return i, w
        return None


def repeat_weights(sample_weight, lengths):
    """One weight a position from one a sentence."""
    return np.fromiter(
        chain.from_iterable(map(repeat, sample_weight.tolist(), lengths.tolist())),
        dtype=np.float64,
        count=int(lengths.sum()),
    )
