"""Back-off models into ARPA files.

First the model is closed: every n-gram's context and suffix is in it. Then its pairs
and nodes become the rows of one section for each order, which a kernel formats block by
block.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from ..backoff import BackoffModel
from ..backoff._closure import ClosedModel, close_model
from ..context_tree._links import extend_pairs, newest_symbols
from . import _arpa_fast
from ._parts import take_apart
from ._words import Words

_LN10 = np.log(10.0)
_ZERO = -99.0  # log10 of a probability of 0 in ARPA files


def write_arpa(
    model: BackoffModel,
    *,
    start: Hashable,
    end: Hashable,
    unknown: Hashable,
    precision: int,
) -> Callable[[Any], None]:
    """See `sklstruct.exchange.write`. Returns a function that writes to a file."""
    if (
        isinstance(precision, bool)
        or not isinstance(precision, (int, np.integer))
        or not 1 <= precision <= 15
    ):
        raise ValueError(f"precision must be an integer in 1..15, got {precision!r}")
    parts = take_apart(model)
    if parts.symbols is None and parts.tree.n_nodes > 1:
        raise ValueError(
            "model does not know its context symbols (symbols=None), so it cannot be "
            "written as an ARPA file; give symbols to BackoffModel"
        )
    if (parts.log_backoff > 900 * _LN10).any():
        raise ValueError("model has a back-off weight above 10^900 in log_backoff")
    words = Words(
        parts,
        {"start": (start, "<s>"), "end": (end, "</s>"), "unknown": (unknown, "<unk>")},
    )
    sections = _sections(close_model(model, _class_of_symbol(words)), words)
    return lambda file: _put(sections, words, int(precision), file)


def _class_of_symbol(words: Words) -> np.ndarray:
    return np.where(words.of_symbol < words.n_classes, words.of_symbol, -1).astype(
        np.int32
    )


class _Rows(NamedTuple):
    """n-grams: the words of a node, then a last word."""

    node: np.ndarray  # int32
    last: np.ndarray  # int32, word
    log_prob: np.ndarray  # log10
    log_backoff: np.ndarray  # log10; NaN: no third column


class _Sections(NamedTuple):
    """The rows of each order, and the tree that spells their contexts."""

    rows: list[list[_Rows]]
    parent: np.ndarray
    word_of_node: np.ndarray
    order: int


def _sections(closed: ClosedModel, words: Words) -> _Sections:
    """Pairs, and n-grams whose last word is never predicted, by order."""
    tree, link = closed.tree, closed.link
    word_of_node = np.full(tree.n_nodes, -1, dtype=np.int32)
    last_word = np.full(tree.n_nodes, -1, dtype=np.int32)
    if tree.n_nodes > 1:
        word_of_node[1:] = words.of_symbol[tree.symbol[1:]]
        last_word[1:] = words.of_symbol[newest_symbols(tree)[1:]]
    extension = extend_pairs(
        tree, link, closed.pair_ptr, closed.target, _class_of_symbol(words)
    )
    log_backoff = np.clip(closed.log_backoff / _LN10, _ZERO, None)
    depth = tree.levels()
    never = np.flatnonzero(last_word >= words.n_classes).astype(np.int32)

    # Contexts of the greatest depth without pairs still need their own section; and
    # KenLM does not load a file of unigrams only.
    order = max(2, tree.n_levels)
    rows = []
    for k in range(tree.n_levels):
        # Programs take the words of a decoder from lines of three columns: below the
        # highest order all have them.
        none = 0.0 if k + 1 < order else np.nan
        level = slice(int(tree.level_ptr[k]), int(tree.level_ptr[k + 1]))
        ptr = closed.pair_ptr
        pairs = slice(int(ptr[level.start]), int(ptr[level.stop]))
        node = np.repeat(
            np.arange(level.start, level.stop, dtype=np.int32),
            np.diff(ptr[level.start : level.stop + 1]),
        )
        weight = np.full(len(node), none)
        context = extension[pairs]
        weight[context >= 0] = log_backoff[context[context >= 0]]
        log_prob = np.clip(closed.log_prob[pairs] / _LN10, _ZERO, 0.0)
        here = never[depth[never] == k + 1]
        rows.append(
            [
                _Rows(node, closed.target[pairs], log_prob, weight),
                _never_predicted(link[here], last_word[here], log_backoff[here]),
            ]
        )
    listed = {*range(words.n_classes), *rows[0][1].last.tolist()}
    extra = np.array(
        [w for w in words.special.values() if w not in listed], dtype=np.int32
    )
    root = np.zeros(len(extra), dtype=np.int32)
    rows[0].append(_never_predicted(root, extra, np.zeros(len(extra))))
    rows += [[] for _ in range(order - len(rows))]
    return _Sections(rows, tree.parent, word_of_node, order)


def _never_predicted(
    node: np.ndarray, last: np.ndarray, log_backoff: np.ndarray
) -> _Rows:
    return _Rows(node, last, np.full(len(node), _ZERO), log_backoff)


def _put(sections: _Sections, words: Words, precision: int, file: Any) -> None:
    counts = [sum(len(part.node) for part in rows) for rows in sections.rows]
    header = ["\\data\\", *(f"ngram {k}={c}" for k, c in enumerate(counts, 1)), "", ""]
    file.write("\n".join(header).encode())
    # Words and blanks, two numbers with sign, point and up to three digits before it.
    longest = (words.longest + 1) * sections.order + 2 * (precision + 8) + 2
    buffer = np.empty(max(1 << 20, 2 * longest), dtype=np.uint8)
    for order, rows in enumerate(sections.rows, 1):
        file.write(f"\\{order}-grams:\n".encode())
        for part in rows:
            at = 0
            while at < len(part.node):
                at, size = _arpa_fast.format_block(
                    words.text,
                    words.ptr,
                    sections.parent,
                    sections.word_of_node,
                    *part,
                    precision,
                    longest,
                    at,
                    buffer,
                )
                file.write(memoryview(buffer)[:size])
        file.write(b"\n")
    file.write(b"\\end\\\n")
