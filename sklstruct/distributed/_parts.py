"""Parts of a text for the workers: from bags, files or sentences."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ..symbols import (
    Labels,
    NumberedText,
    SentenceEncoder,
    TextFile,
    need_symbols,
    number_sentences,
)
from ..symbols._text import OddSpaces

# Largest and smallest size of a part of a text file; a worker has its ids in memory.
_MOST_BYTES = 1 << 26
_LEAST_BYTES = 1 << 16
# Memory of a worker after its imports; the share of the rest that counting may take;
# memory in bytes for numbering one byte of text.
_IMPORTED = 250e6
_SHARE = 0.25
_NUMBERED = 2

# Size of a part of sentences, which is sent: Dask warns of messages above 10 MB.
_MOST_TOKENS = 1 << 20


def text_parts(X: Any, client: Any, analyzer: str) -> tuple[Callable[[], list], float]:
    """(function that returns the parts of a text, bytes for counting in a worker).

    The partitions of a bag, a series or an array are parts, and so is each Delayed;
    files and sentences are cut. Strings in this process are split by the rule
    `analyzer`.
    """
    memory = _memory_of_a_thread(client)
    # Enough parts for all threads, and no more: their counts have to be merged.
    n_threads = max(1, sum(client.nthreads().values()))
    if _of_dask(X):
        if not hasattr(type(X), "to_delayed"):  # a Delayed has every attribute
            raise TypeError(
                "X must be a bag, a series, an array or a list of Delayed, each with a "
                f"list of sentences, got a {type(X).__name__}; pass [X]"
            )
        if getattr(X, "ndim", 1) != 1:
            raise TypeError(
                f"X must have one dimension, got {X.ndim}; pass one column of a table"
            )
        X = np.ravel(X.to_delayed()).tolist()
    if isinstance(X, list) and X and all(map(_of_dask, X)):
        partitions = X
        return lambda: client.compute(partitions), memory
    if isinstance(X, TextFile):
        size = sum(os.path.getsize(path) for path in X.paths)
        memory = min(memory, X.memory or math.inf)
        most = min(_MOST_BYTES, memory / _NUMBERED)
        n_parts = _round_up(size / max(most, _LEAST_BYTES), n_threads)
        size = max(size // n_parts + 1, _LEAST_BYTES)
        state = X.state()

        def split():
            if X.state() != state:
                raise RuntimeError(
                    f"{X!r} changed between two readings; fit again when nothing "
                    "writes to it"
                )
            return X.split(size)

        return split, memory
    text = number_sentences(X, analyzer=analyzer)
    n_parts = _round_up(text.tokens.size / _MOST_TOKENS, n_threads)
    cuts = np.linspace(0, text.n_sentences, n_parts + 1).astype(np.int64)
    parts = [_part(text, a, b) for a, b in pairwise(cuts.tolist()) if a < b]
    return lambda: parts, memory


def _memory_of_a_thread(client):
    """Bytes for counting one part, in the worker with the least."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    limits = [
        max(worker["memory_limit"] - _IMPORTED, 0.0) * _SHARE / worker["nthreads"]
        for worker in workers
        if worker["memory_limit"]  # 0: no limit
    ]
    return min(limits, default=math.inf)


def _of_dask(X):
    return hasattr(X, "__dask_graph__")


def _round_up(x, step):
    """The least positive multiple of `step` that is not below x."""
    return max(1, math.ceil(x / step)) * step


def _part(text, first, last):
    """Some of the sentences, numbered by their own words."""
    stop = text.starts[last] if last < text.n_sentences else text.tokens.size
    tokens = text.tokens[text.starts[first] : stop]
    used = np.unique(tokens[tokens >= 0])
    table = np.full(len(text.symbols) + 1, -1, dtype=np.int32)
    table[used] = np.arange(used.size, dtype=np.int32)
    symbols = [text.symbols[i] for i in used.tolist()]
    where = partial(_sentence_name, int(first))
    # White space on which rules differ is counted once for all parts.
    return NumberedText(
        table[tokens], symbols, where, OddSpaces() if first else text.odd
    )


def _sentence_name(first, i):
    return f"sentence {first + i}"


class Vocabulary:
    """The words of all parts (`PartWords`), for the labels of the text.

    `symbols` are the distinct words, and `odd` is the white space on which the rules
    for words differ.
    """

    def __init__(self, parts: Iterable[Any]) -> None:
        counts: dict = {}
        self.n_sentences, self.odd = 0, OddSpaces()
        for words in parts:
            self.n_sentences += words.n_sentences
            self.odd = self.odd.plus(words.odd)
            for symbol, count in zip(words.symbols, words.counts.tolist()):
                counts[symbol] = counts.get(symbol, 0) + count
        self.symbols = list(counts)
        self._count = np.fromiter(counts.values(), np.int64, len(counts))

    def counts(self) -> np.ndarray:
        """(n_symbols,) occurrences of each word."""
        return self._count

    def sizes(self, labels: Labels) -> np.ndarray:
        """(n_symbols,) occurrences of each context symbol of some labels."""
        n, encoder = need_symbols(labels, "counting"), SentenceEncoder(labels)
        ids = labels.tokens(self.symbols, encoder.unknown)
        sizes = np.bincount(ids, self._count, minlength=n)[:n]
        if labels.start is not None:
            sizes[encoder.start] = self.n_sentences
        return sizes
