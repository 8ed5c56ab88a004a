"""Back-off models into ARPA files.

First the model is closed: the context and the suffix of every n-gram are added. Then
its pairs and nodes become the rows of one section for each order, which a kernel
formats block by block. `_arpa_shards` writes the same file from the shards of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_count
from ..backoff import BackoffModel, ClosedModel, close_model
from ..context_tree import ContextTree
from ..context_tree._links import nodes_ending_in
from . import _arpa_fast
from ._words import FileWords, file_words

_LN10 = np.log(10.0)
# Number of pairs that are converted to rows at a time.
_ROWS = 1 << 18
# log10 of 0 in the files of our models; a file that was read had -inf for it.
_ZERO = -99.0
# Bytes of a number without its decimals, or of a number with shortest digits.
_NUMBER = 24


def write_arpa(
    model: BackoffModel, *, precision: int | None = None
) -> Callable[[Any], None]:
    """See `sklstruct.exchange.write`. Returns a function that writes to a file."""
    sections, words = sections_of(model, precision)
    return lambda file: put(sections, words, precision, file)


def sections_of(
    model: BackoffModel, precision: int | None = None
) -> tuple[Sections, FileWords]:
    """The sections and words that `put` writes; checks the model and the options."""
    check_optional("precision", precision, 1, 15)
    words = file_words(model)
    closed = close_model(model, words.class_of_symbol, single=precision is None)
    return Sections(closed, words, single=precision is None), words


def check_optional(name: str, value: Any, least: int, most: int) -> int | None:
    """An integer option, or None; ValueError for other values."""
    return None if value is None else check_count(name, value, least, most)


def log10_probs(log_prob: np.ndarray, zero: float = _ZERO) -> np.ndarray:
    """The first column of a file."""
    out = log10_backoffs(log_prob, zero)
    out[out > 0.0] = 0.0  # keeps -0.0, because KenLM's tries store the sign
    return out


def log10_backoffs(log_backoff: np.ndarray, zero: float = _ZERO) -> np.ndarray:
    """The last column of a file."""
    out = log_backoff / _LN10
    out[out == -np.inf] = zero
    return out


class NgramRows(NamedTuple):
    """n-grams: the words of a node, then a last word."""

    node: np.ndarray  # int32
    last: np.ndarray  # int32, word
    log_prob: np.ndarray  # log10
    log_backoff: np.ndarray  # log10; NaN: no third column
    own: np.ndarray | None = None  # int32: the node of the n-gram, 0 if absent


class Sections:
    """The n-grams of each order: pairs, and n-grams whose last word is never predicted.

    Rows are created part by part when they are written, because all rows would take
    more memory than the model.
    """

    def __init__(
        self, closed: ClosedModel, words: FileWords, single: bool = False
    ) -> None:
        tree = closed.tree
        self.closed = closed
        self.zero = _ZERO if closed.file_ngrams is None else -np.inf
        # Contexts of the largest depth need a section even without pairs, and KenLM
        # does not load a file with only unigrams.
        self.order = max(2, tree.n_levels)
        self.never = [
            self._rows(k, *columns)
            for k, columns in enumerate(never_predicted(closed, words, single))
        ]
        ptr = closed.pair_ptr
        self.counts = []
        for k, never in enumerate(self.never):
            nodes = tree.level(k)
            self.counts.append(
                int(ptr[nodes.stop] - ptr[nodes.start]) + never.node.size
            )

    def _rows(self, k, node, last, log_prob, own):
        # Decoders read words from lines of three columns, so every line below the
        # highest order has three columns.
        weight = np.full(node.size, np.nan)
        if k + 1 < self.order:
            # An n-gram without a node takes the weight of the root, which is 0.
            weight = log10_backoffs(self.closed.log_backoff.take(own), self.zero)
        return NgramRows(node, last, log_prob, weight, own)

    def rows(self, k: int) -> Iterator[tuple[NgramRows, ContextTree]]:
        """The n-grams of order k + 1, and their tree."""
        for rows, _ in self.pairs(k):
            yield rows, self.closed.tree
        yield self.never[k], self.closed.tree

    def pairs(self, k: int) -> Iterator[tuple[NgramRows, slice]]:
        """The n-grams of order k + 1 that are pairs, and the pairs, part by part."""
        closed, nodes = self.closed, self.closed.tree.level(k)
        ptr = closed.pair_ptr[nodes.start : nodes.stop + 1]
        # Of the type of `ptr`, which would be converted as a whole otherwise.
        cuts = np.arange(ptr[0], ptr[-1], _ROWS, dtype=ptr.dtype) if ptr.size else ptr
        bounds = [*np.unique(np.searchsorted(ptr, cuts)).tolist(), ptr.size - 1]
        for first, last in pairwise(bounds):
            pairs = slice(int(ptr[first]), int(ptr[last]))
            node = np.repeat(
                np.arange(first, last, dtype=np.int32) + np.int32(nodes.start),
                np.diff(ptr[first : last + 1]),
            )
            log_prob = log10_probs(closed.log_prob[pairs], self.zero)
            own = closed.extension[pairs]
            yield self._rows(k, node, closed.target[pairs], log_prob, own), pairs


def never_predicted(
    closed: ClosedModel, words: FileWords, single: bool = False
) -> list[tuple[np.ndarray, ...]]:
    """The n-grams "h w" of each order that end in a word w that is never predicted:
    (nodes h, words w, log10-probabilities, nodes "h w" or 0).

    The start mark has the numbers of the file that the model was read from. A model of
    ours gives it a probability of 1, as KenLM's lmplz does. If a file needs the
    n-gram "h <s>" and does not have it, the number is that of backing off. Other words
    have a probability of 0.

    single : whether sums are in single precision, as in `close_model`.
    """
    tree, start = closed.tree, words.special["start"]
    levels = nodes_ending_in(tree, words.of_symbol >= words.n_classes)
    contexts = [closed.link[here] for here, _ in levels]
    last = [words.of_symbol[newest] for _, newest in levels]
    of_start = [h[w == start] for h, w in zip(contexts, last)]
    held, number = _start_numbers(closed, np.concatenate(of_start), single)
    out: list[tuple[np.ndarray, ...]] = []
    for k in range(max(2, tree.n_levels)):
        empty = np.empty(0, dtype=np.int32)
        here, context, word = empty, empty, empty
        if k < len(levels):
            here, context, word = levels[k][0], contexts[k], last[k]
        level = tree.level(k) if k < tree.n_levels else slice(0, 0)
        left = held[(held >= level.start) & (held < level.stop)]
        left = np.setdiff1d(left, context[word == start]).astype(np.int32)
        parts = [
            (context, here, word),
            (left, np.zeros_like(left), np.full(left.size, start, dtype=np.int32)),
        ]
        if k == 0:
            end = words.special["end"]
            if end >= words.n_classes and end not in word:
                mark = np.array([end], dtype=np.int32)
                parts.append((np.zeros_like(mark), np.zeros_like(mark), mark))
        context, here, word = map(np.concatenate, zip(*parts))
        log_prob = np.full(word.size, _ZERO)
        starts = word == start
        log_prob[starts] = number[np.searchsorted(held, context[starts])]
        out.append((context, word, log_prob, here))
    return out


def marks_of_unigrams(
    words: FileWords, listed: np.ndarray, log_backoff: np.ndarray
) -> NgramRows:
    """Unigrams that are not classes, for a model that was not read from a file."""
    log_prob = np.where(listed == words.special["start"], 0.0, _ZERO)
    return NgramRows(np.zeros_like(listed), listed, log_prob, log_backoff)


def _start_numbers(
    closed: ClosedModel, contexts: np.ndarray, single: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(nodes h, rising, log10 of P(<s> | h)) of every "h <s>" that a file needs.

    These are the n-grams of the file that was read and those of the given contexts, and
    their suffixes.
    """
    parent, known = closed.tree.parent, closed.file_ngrams
    if known is None:
        known = np.zeros(1, dtype=np.int32), np.zeros(1)
    held = np.union1d(np.append(contexts, 0), known[0])
    size = 0
    while held.size > size:
        size = held.size
        held = np.union1d(held, parent[held[held > 0]])
    held = held.astype(np.int32)
    number = np.full(held.size, np.nan)
    number[np.searchsorted(held, known[0])] = known[1] / _LN10
    number[0] = 0.0 if np.isnan(number[0]) else number[0]
    for i in np.flatnonzero(np.isnan(number)).tolist():  # parents come first
        above = number[np.searchsorted(held, parent[held[i]])]
        weight = closed.log_backoff[held[i]] / _LN10
        if single:
            above, weight = np.float32(above), np.float32(weight)
        number[i] = min(above + weight, 0.0)  # a weight may be above 1
    return held, number


def put(sections: Any, words: FileWords, precision: int | None, file: Any) -> None:
    """Write a file of `Sections`, or of `ArpaLevels`."""
    file.write(header(sections.counts))
    for order in range(1, sections.order + 1):
        file.write(section_header(order))
        for part, tree in sections.rows(order - 1):
            for block in format_rows(part, words, tree, sections.order, precision):
                file.write(block)
        file.write(b"\n")
    file.write(END)


END = b"\\end\\\n"


def header(counts: list[int]) -> bytes:
    """First lines of a file: the number of n-grams of each order."""
    lines = ["\\data\\", *(f"ngram {k}={c}" for k, c in enumerate(counts, 1)), "", ""]
    return "\n".join(lines).encode()


def section_header(order: int) -> bytes:
    """Line before the n-grams of an order; an empty line follows them."""
    return f"\\{order}-grams:\n".encode()


def format_rows(
    rows: NgramRows,
    words: FileWords,
    tree: ContextTree,
    order: int,
    precision: int | None,
) -> Iterator[memoryview]:
    """The lines of some n-grams, in blocks that reuse the same memory.

    order: the highest of the file; the nodes of the rows are those of the tree.
    """
    decimals = 0 if precision is None else int(precision)
    longest = (words.longest + 1) * order + 2 * (decimals + _NUMBER) + 2
    longest += _arpa_fast.SPARE_BYTES
    buffer = np.empty(max(1 << 20, 2 * longest), dtype=np.uint8)
    at = 0
    while at < len(rows.node):
        at, size = _arpa_fast.format_block(
            words.text, words.ptr, tree.parent, tree.symbol, words.of_symbol,
            *rows[:4], decimals, longest, at, buffer,
        )  # fmt: skip
        yield buffer[:size].data
