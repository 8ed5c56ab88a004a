"""Back-off models into ARPA files.

First the model is closed: every n-gram's context and suffix is in it. Then its pairs
and nodes become the rows of one section for each order, which a kernel formats block by
block. `_arpa_shards` writes the same file from the shards of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..backoff import BackoffModel, ClosedModel, close_model
from ..context_tree import ContextTree
from ..context_tree._links import nodes_ending_in
from . import _arpa_fast
from ._words import FileWords, file_words

_LN10 = np.log(10.0)
# Pairs that become rows at a time.
_ROWS = 1 << 18
_ZERO = -99.0  # log10 of a probability of 0 in ARPA files


def write_arpa(
    model: BackoffModel,
    *,
    start: Hashable = None,
    end: Hashable = None,
    unknown: Hashable = None,
    precision: int = 7,
) -> Callable[[Any], None]:
    """See `sklstruct.exchange.write`. Returns a function that writes to a file."""
    sections, words = sections_of(model, start, end, unknown, precision)
    return lambda file: put(sections, words, int(precision), file)


def sections_of(
    model: BackoffModel,
    start: Hashable = None,
    end: Hashable = None,
    unknown: Hashable = None,
    precision: int = 7,
) -> tuple[Sections, FileWords]:
    """The sections and words that `put` writes; checks the model and the options."""
    check_precision(precision)
    words = file_words(model, start, end, unknown)
    return Sections(close_model(model, words.class_of_symbol), words), words


def check_precision(precision: int) -> None:
    """ValueError if numbers cannot have so many decimals."""
    if (
        isinstance(precision, bool)
        or not isinstance(precision, (int, np.integer))
        or not 1 <= precision <= 15
    ):
        raise ValueError(f"precision must be an integer in 1..15, got {precision!r}")


def log10_probs(log_prob: np.ndarray) -> np.ndarray:
    """The first column of a file."""
    return np.clip(log_prob / _LN10, _ZERO, 0.0)


def log10_backoffs(log_backoff: np.ndarray) -> np.ndarray:
    """The last column of a file."""
    return np.clip(log_backoff / _LN10, _ZERO, None)


class NgramRows(NamedTuple):
    """n-grams: the words of a node, then a last word."""

    node: np.ndarray  # int32
    last: np.ndarray  # int32, word
    log_prob: np.ndarray  # log10
    log_backoff: np.ndarray  # log10; NaN: no third column
    further: np.ndarray | None = None  # (n_columns, n_rows): log10, after them


class Sections:
    """The n-grams of each order: pairs, and those whose last word is never predicted.

    Rows are made part by part when they are written: all of them would take more memory
    than the model.

    Attributes
    ----------
    bounds : pair of ndarrays or None
        log10 of a further column for each pair, and of one for each node.
    """

    bounds: tuple[np.ndarray, np.ndarray] | None = None

    def __init__(self, closed: ClosedModel, words: FileWords) -> None:
        tree = closed.tree
        self.closed = closed
        # Contexts of the greatest depth without pairs still need their own section; and
        # KenLM does not load a file of unigrams only.
        self.order = max(2, tree.n_levels)
        self._never: list[list[tuple[np.ndarray, NgramRows]]] = [[]] * self.order
        never = nodes_ending_in(tree, words.of_symbol >= words.n_classes)
        for k, (here, newest) in enumerate(never):
            weight = log10_backoffs(closed.log_backoff[here])
            context, last = closed.without_newest(here), words.of_symbol[newest]
            self._never[k] = [(here, never_predicted(context, last, weight))]
        marks = marks_left(words, self._never[0][0][1].last)
        none = np.zeros(len(marks.node), dtype=np.int32)
        self._never[0] = [*self._never[0], (none, marks)]
        ptr = closed.pair_ptr
        self.counts = []
        for k, rows in enumerate(self._never):
            nodes = tree.level(k)
            n_pairs = int(ptr[nodes.stop] - ptr[nodes.start])
            self.counts.append(n_pairs + sum(len(own) for own, _ in rows))

    def rows(self, k: int) -> Iterator[NgramRows]:
        """The n-grams of order k + 1."""
        closed, nodes = self.closed, self.closed.tree.level(k)
        ptr = closed.pair_ptr[nodes.start : nodes.stop + 1]
        # Of the type of `ptr`, which would be converted as a whole otherwise.
        cuts = np.arange(ptr[0], ptr[-1], _ROWS, dtype=ptr.dtype) if ptr.size else ptr
        bounds = [*np.unique(np.searchsorted(ptr, cuts)).tolist(), ptr.size - 1]
        # Decoders take their words from lines of three columns, so every line below
        # the highest order has three.
        none = 0.0 if k + 1 < self.order or self.bounds is not None else np.nan
        for first, last in pairwise(bounds):
            pairs = slice(int(ptr[first]), int(ptr[last]))
            node = np.repeat(
                np.arange(first, last, dtype=np.int32) + np.int32(nodes.start),
                np.diff(ptr[first : last + 1]),
            )
            context = closed.extension[pairs]
            known = context > 0
            weight = np.full(len(node), none)
            weight[known] = log10_backoffs(closed.log_backoff[context[known]])
            log_prob = log10_probs(closed.log_prob[pairs])
            rows = NgramRows(node, closed.target[pairs], log_prob, weight)
            yield self._with_bounds(rows, context, pairs)
        for context, rows in self._never[k]:
            yield self._with_bounds(rows, context)

    def _with_bounds(self, rows, context, pairs=None):
        """The rows with their further columns; the context of each, 0: it is none."""
        if self.bounds is None:
            return rows
        of_pair, of_node = self.bounds
        further = np.zeros((2, len(context)))
        further[0] = _ZERO if pairs is None else of_pair[pairs]
        known = np.flatnonzero(context)
        further[1, known] = of_node[context[known]]
        return rows._replace(further=further)


def never_predicted(
    node: np.ndarray, last: np.ndarray, log_backoff: np.ndarray
) -> NgramRows:
    """n-grams that have only a back-off weight; their probability is 0."""
    return NgramRows(node, last, np.full(len(node), _ZERO), log_backoff)


def marks_left(words: FileWords, listed: np.ndarray) -> NgramRows:
    """Unigrams of the special words that are neither classes nor in `listed`."""
    known = {*range(words.n_classes), *listed.tolist()}
    extra = np.array(
        [w for w in words.special.values() if w not in known], dtype=np.int32
    )
    root = np.zeros(len(extra), dtype=np.int32)
    return never_predicted(root, extra, np.zeros(len(extra)))


def put(sections: Sections, words: FileWords, precision: int, file: Any) -> None:
    """Write a file."""
    tree = sections.closed.tree
    file.write(header(sections.counts))
    for order in range(1, sections.order + 1):
        file.write(section_header(order))
        for part in sections.rows(order - 1):
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
    precision: int,
) -> Iterator[memoryview]:
    """The lines of some n-grams, in blocks that share their memory.

    order: the highest of the file; the nodes of the rows are those of the tree.
    """
    # Words and blanks; a number has a sign, a point and up to five digits before it.
    n_numbers = 2 if rows.further is None else 2 + len(rows.further)
    longest = (words.longest + 1) * order + n_numbers * (precision + 8) + 2
    longest += _arpa_fast.SPARE_BYTES
    buffer = np.empty(max(1 << 20, 2 * longest), dtype=np.uint8)
    text = np.append(words.text, np.zeros(_arpa_fast.SPARE_BYTES, dtype=np.uint8))
    at = 0
    while at < len(rows.node):
        at, size = _arpa_fast.format_block(
            text, words.ptr, tree.parent, tree.symbol, words.of_symbol, *rows,
            precision, longest, at, buffer,
        )  # fmt: skip
        yield buffer[:size].data
