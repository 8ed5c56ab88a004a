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
from ..context_tree._links import (
    close_links,
    drop_newest,
    extend_pairs,
    find_pairs,
    newest_symbols,
)
from . import _arpa_fast
from ._parts import Parts, pair_pointers, take_apart
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
    sections = _sections(*_closed(model, parts, words), words)
    return lambda file: _put(sections, words, int(precision), file)


def _class_of_symbol(words: Words) -> np.ndarray:
    return np.where(words.of_symbol < words.n_classes, words.of_symbol, -1).astype(
        np.int32
    )


def _closed(model: BackoffModel, old: Parts, words: Words) -> tuple[Parts, np.ndarray]:
    """The same model with the context and the suffix of every n-gram, and its links.

    Additional nodes have a back-off weight of 1 and no pairs, additional pairs the
    probability that backing off gives: no query changes. Models estimated from
    sentences lack nothing, and then the cost is a look-up per pair and node.
    """
    link = drop_newest(old.tree)
    tree, index = close_links(old.tree, link)
    if tree is not old.tree:
        link = drop_newest(tree)
    n_nodes, n_classes = tree.n_nodes, words.n_classes
    if n_nodes == 1:
        return old, link
    # Nodes keep their order, so the pairs stay sorted.
    node_of_pair = np.repeat(index, np.diff(old.pair_ptr))
    pair_ptr, target = pair_pointers(node_of_pair, n_nodes), old.target
    log_prob = old.log_prob
    log_backoff = np.zeros(n_nodes)
    log_backoff[index] = old.log_backoff

    # Nodes "h w" need the pair (h, w), if w is a class; pairs (h, w) need (h', w).
    last = _class_of_symbol(words)[newest_symbols(tree)[1:]]
    below = slice(n_classes, None)
    chosen = last >= 0
    nodes = np.concatenate([link[1:][chosen], tree.parent[node_of_pair[below]]])
    targets = np.concatenate([last[chosen], target[below]])
    added = []
    while len(nodes):
        missing = find_pairs(pair_ptr, target, nodes, targets) < 0
        key = np.unique(nodes[missing].astype(np.int64) * n_classes + targets[missing])
        added.append(key)
        nodes = tree.parent[key // n_classes]
        targets = (key % n_classes).astype(np.int32)
    key = np.unique(np.concatenate(added)) if added else np.empty(0, dtype=np.int64)
    if len(key):
        nodes = (key // n_classes).astype(np.int32)
        targets = (key % n_classes).astype(np.int32)
        # Backing off from an additional node ends at the nearest node of the model.
        nearest = np.full(n_nodes, -1, dtype=np.int32)
        nearest[index] = np.arange(old.tree.n_nodes, dtype=np.int32)
        for k in range(1, tree.n_levels):
            level = np.arange(tree.level_ptr[k], tree.level_ptr[k + 1])
            new = level[nearest[level] < 0]
            nearest[new] = nearest[tree.parent[new]]
        at = np.searchsorted(node_of_pair.astype(np.int64) * n_classes + target, key)
        node_of_pair = np.insert(node_of_pair, at, nodes)
        log_prob = np.insert(log_prob, at, model.log_proba(nearest[nodes], targets))
        target = np.insert(target, at, targets)
        pair_ptr = pair_pointers(node_of_pair, n_nodes)
    closed = old._replace(
        tree=tree,
        pair_ptr=pair_ptr,
        target=target,
        log_prob=log_prob,
        log_backoff=log_backoff,
    )
    return closed, link


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


def _sections(parts: Parts, link: np.ndarray, words: Words) -> _Sections:
    """Pairs, and n-grams whose last word is never predicted, by order."""
    tree = parts.tree
    word_of_node = np.full(tree.n_nodes, -1, dtype=np.int32)
    last_word = np.full(tree.n_nodes, -1, dtype=np.int32)
    if tree.n_nodes > 1:
        word_of_node[1:] = words.of_symbol[tree.symbol[1:]]
        last_word[1:] = words.of_symbol[newest_symbols(tree)[1:]]
    extension = extend_pairs(
        tree, link, parts.pair_ptr, parts.target, _class_of_symbol(words)
    )
    log_backoff = np.clip(parts.log_backoff / _LN10, _ZERO, None)
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
        pairs = slice(int(parts.pair_ptr[level.start]), int(parts.pair_ptr[level.stop]))
        node = np.repeat(
            np.arange(level.start, level.stop, dtype=np.int32),
            np.diff(parts.pair_ptr[level.start : level.stop + 1]),
        )
        weight = np.full(len(node), none)
        context = extension[pairs]
        weight[context >= 0] = log_backoff[context[context >= 0]]
        log_prob = np.clip(parts.log_prob[pairs] / _LN10, _ZERO, 0.0)
        here = never[depth[never] == k + 1]
        rows.append(
            [
                _Rows(node, parts.target[pairs], log_prob, weight),
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
