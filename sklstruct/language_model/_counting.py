"""Sentences to counts: vocabulary, tokens, contexts, before any estimator.

For the estimators and for the command, which starts without scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import physical_memory
from ..backoff import Counted
from ..context_tree._runs import CountRuns
from ..symbols import (
    Labels,
    NumberedText,
    SentenceEncoder,
    check_symbols,
    number_sentences,
    read_vocabulary,
    sort_symbols,
)
from ..symbols._encoding import object_array
from ..symbols._text import LargeText

# Upper bounds, in bytes, of the memory of counting: per token, per token and depth (a
# node and a pair of it), per distinct word (its entries in tables and dictionaries).
_BYTES_PER_TOKEN, _BYTES_PER_DEPTH = 64, 32
_BYTES_PER_WORD = 300


@dataclass(frozen=True)
class SentenceCounter:
    """Which words of sentences are known, and how the sentences are counted.

    The fields are the parameters of `LanguageModel`.
    """

    max_depth: int
    min_count: int = 1
    max_vocabulary: int | None = None
    unknown: Any = "<unk>"
    start: Any = "<s>"
    end: Any = "</s>"
    vocabulary: Any = None

    @property
    def bytes_per_token(self) -> int:
        """Upper bound of the memory of counting, for a token."""
        return _BYTES_PER_TOKEN + _BYTES_PER_DEPTH * self.max_depth

    def count(self, text: NumberedText, depth: int | None = None) -> Counted:
        """The counts of a text that is in memory, for a file of its n-grams.

        depth: the longest context that is counted; None: `max_depth`.
        """
        labels = self.find_labels(text)
        tokens, _, encoder = self.encode(text, labels)
        skip = encoder.start
        del text, encoder
        return Counted.of_tokens(
            tokens, labels, self.max_depth, depth=depth, skip=skip, extend=True
        )

    def count_parts(self, text: LargeText, depth: int | None = None) -> Counted:
        """The counts of a text that is larger than its memory, part by part.

        depth: the longest context that is counted; None: `max_depth`.
        """
        memory = text.file.memory or physical_memory() / 2
        needed = _BYTES_PER_WORD * len(text.symbols)
        if needed > memory / 2:
            raise MemoryError(
                f"X: the {len(text.symbols)} distinct words of {text.file!r} need "
                f"about {2 * needed} bytes, more than memory={int(memory)}; raise "
                "memory"
            )
        labels = self.find_labels(text)
        encoder = SentenceEncoder(labels)
        with CountRuns(text.file.folder) as runs:
            for part in text.parts(int(memory / 2) // self.bytes_per_token):
                tokens = encoder.encode(part, front=self.max_depth - 1)
                self._check_lost(tokens, encoder, part)
                counted = Counted.of_tokens(
                    tokens, labels, self.max_depth, depth=depth,
                    skip=encoder.start,
                )  # fmt: skip
                runs.add(counted.pairs, counted.count)
                longest = counted.depth
                del part, tokens, counted
            return Counted(*runs.finish(), labels, self.max_depth, longest)

    def find_labels(self, text: Any, sample_weight: np.ndarray | None = None) -> Labels:
        """Labels of a text, of which only the words and their counts are asked for."""
        classes = self._find_vocabulary(text, sample_weight)
        symbols = classes
        if self.start is not None:
            symbols = object_array([*classes, self.start])
        return Labels(
            classes, symbols, start=self.start, end=self.end, unknown=self.unknown
        )

    def encode(
        self,
        text: NumberedText,
        labels: Labels,
        sample_weight: np.ndarray | None = None,
        exclude: bool = False,
    ) -> tuple[np.ndarray, np.ndarray | None, SentenceEncoder]:
        """(tokens, their weights or None, the encoder).

        exclude: whether a word without class is no error.
        """
        encoder = SentenceEncoder(labels)
        tokens = encoder.encode(text, front=self.max_depth - 1)
        scored = encoder.is_target(tokens)
        if not scored.any():
            raise ValueError(
                "X: every sentence is empty and end=None: there is nothing to predict"
            )
        if not exclude:
            self._check_lost(tokens, encoder, text)
        weight = None
        if sample_weight is not None:
            weight = np.zeros(tokens.size)
            weight[scored] = np.repeat(sample_weight, encoder.lengths(text))
        return tokens, weight, encoder

    @staticmethod
    def _check_lost(tokens, encoder, text):
        if (tokens == encoder.lost).any():
            where, word = encoder.first_lost(text)
            raise ValueError(
                f"X: the word {word!r} of {where} is not in vocabulary, and "
                "unknown=None: add it, or name an unknown symbol"
            )

    def _find_vocabulary(self, text, sample_weight):
        """Predicted symbols: words, unknown, end."""
        marks = [m for m in (self.unknown, self.end) if m is not None]
        known = {*marks, self.start}
        counts = text.counts() if sample_weight is None else text.counts(sample_weight)
        check_symbols(text, counts)
        if self.vocabulary is None:
            # Sums of weights miss whole numbers by rounding, and a weight below 1 is
            # still a word that occurs.
            least = 0.0 if self.min_count == 1 else self.min_count * (1.0 - 1e-9)
            frequent = (counts > 0.0) & (counts >= least)
            pool = zip(text.symbols, frequent.tolist())
            words = [w for w, kept in pool if kept]
            words = sort_symbols(words)
            if self.max_vocabulary is not None:
                words = self._most_frequent(words, known, text, counts)
        else:
            words = read_vocabulary(self.vocabulary)
        classes = object_array([w for w in words if w not in known] + marks)
        if classes.size == 0:
            raise ValueError(
                "there is nothing to predict: no word, unknown=None and end=None"
            )
        return classes

    def _most_frequent(self, words, known, text, counts):
        """The max_vocabulary most frequent words; of equal ones the first sorted."""
        words = [w for w in words if w not in known]
        if len(words) <= self.max_vocabulary:
            return words
        count = dict(zip(text.symbols, counts.tolist()))
        rank = np.argsort([-count[w] for w in words], kind="stable")
        return [words[i] for i in np.sort(rank[: self.max_vocabulary]).tolist()]

    def encode_held_out(self, encoder: SentenceEncoder, X_val: Any) -> np.ndarray:
        """The tokens of held-out sentences."""
        text = number_sentences(X_val, "X_val")
        if not text.n_sentences:
            raise ValueError("X_val is empty: there is no sentence to choose on")
        tokens = encoder.encode(text, front=self.max_depth - 1)
        if (tokens == encoder.lost).any():
            where, word = encoder.first_lost(text)  # type: ignore[misc]
            raise ValueError(
                f"X_val: the word {word!r} of {where} is not in the vocabulary, "
                "and unknown=None: add it, or name an unknown symbol"
            )
        return tokens
