"""Counting: how often each class followed each context of some samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..context_tree import CountRuns, Histories, HistoryColumns, RunFile
from ..context_tree._tokens import count_tokens
from ..symbols import Labels, need_symbols
from ._counted import Counted, CountedPaths, DeferredCounts, HeldOutSplit, too_long
from ._samples import PathRows, Positions

# Upper bounds, in bytes, of the memory of counting: per token, and per token and depth
# (a node and a pair).
_BYTES_PER_TOKEN, _BYTES_PER_DEPTH = 64, 32
# Tokens that are counted at once, before the counts are merged. More tokens need more
# memory and save little time, because the sort accesses memory at random.
_PIECE = 1 << 22
_LEAST_PIECE = 1 << 12


def count_text(
    tokens: np.ndarray | Iterator[np.ndarray],
    labels: Labels,
    max_depth: int,
    *,
    depth: int | None = None,
    skip: int = -1,
    sample_weight: np.ndarray | None = None,
    share: float | None = None,
    validation: np.ndarray | None = None,
    keep_positions: bool = False,
    folder: str | None = None,
) -> Counted:
    """Count every position of a running text.

    The result is a `HeldOutSplit` with `share` or `validation`, a `DeferredCounts` with
    `keep_positions`.

    tokens: -1 before each sentence; the class of a symbol has its id. An iterator gives
    the parts of a text that is larger than memory; the counts are merged on disk, and
    only the options `depth`, `skip` and `folder` apply.
    max_depth: number of columns of the windows of the text.
    depth: longest context that is counted; None: `max_depth`.
    skip: a token that is never predicted.
    sample_weight: positive weight of each predicted position.
    share: the last share of the positions is held out. validation: a held-out text, in
    the form of `tokens`.
    keep_positions: count unigrams only, and keep the positions.
    """
    depth = max_depth if depth is None else min(depth, max_depth)

    def positions(tokens, weight=None):
        return Positions.of_tokens(tokens, depth, skip, weight)

    def count(samples):
        return Counted(*samples.tree(labels), labels, max_depth, depth)

    if keep_positions:
        samples = positions(tokens, sample_weight)
        return DeferredCounts.of_samples(samples, labels, max_depth, depth)
    if share is not None:
        samples = positions(tokens, sample_weight)
        return HeldOutSplit.of_share(samples, share, count)
    sizes = need_symbols(labels, "counting"), labels.n_classes
    if isinstance(tokens, np.ndarray):
        counts = count_tokens(tokens, depth, *sizes, skip=skip, weight=sample_weight)
    else:
        run = count_parts(tokens, labels, depth, skip=skip, folder=folder)
        counts = run.pairs()
        del run
    counted = Counted(*counts, labels, max_depth, depth)
    if validation is None:
        return counted
    return HeldOutSplit.of_samples(counted, positions(validation), counted)


def count_parts(
    tokens: Iterator[np.ndarray],
    labels: Labels,
    depth: int,
    *,
    skip: int = -1,
    folder: str | None = None,
    memory: float = math.inf,
) -> RunFile:
    """Count every position of the parts of a text into files; see `count_text`.

    memory: bytes for counting; parts that need more are counted in pieces.
    """
    most = int(min(_PIECE, max(_LEAST_PIECE, memory / bytes_per_token(depth))))
    sizes = need_symbols(labels, "counting"), labels.n_classes
    runs = CountRuns(folder)
    for part in tokens:
        for piece in _pieces(part, most):
            runs.add(*count_tokens(piece, depth, *sizes, skip=skip))
        del part, piece
    return runs.finish()


def _pieces(tokens, n_tokens):
    """Split tokens into runs of whole sentences, at least one run."""
    first = np.flatnonzero(tokens < 0)
    wanted = np.arange(n_tokens, first.max(initial=0) + 1, n_tokens)
    cuts = first[np.searchsorted(first, wanted)]
    return np.split(tokens, np.unique(cuts))


def count_windows(
    windows: np.ndarray | HistoryColumns,
    target: np.ndarray,
    labels: Labels,
    *,
    depth: int | None = None,
    sample_weight: np.ndarray | None = None,
    share: float | None = None,
    validation: tuple[np.ndarray, np.ndarray, np.ndarray | None] | None = None,
    keep_positions: bool = False,
    min_count: int = 1,
) -> Counted:
    """Count windows of context symbols and the classes that followed them.

    The result is a `HeldOutSplit` with `share` or `validation`, a `DeferredCounts` with
    `keep_positions`.

    windows: ids of symbols, the last column the most recent; -1 ends a history.
    `HistoryColumns` without `share` and `validation`, and with positive weights.
    depth: longest context that is counted; None: the number of columns.
    sample_weight: samples of weight 0 are left out.
    share: the last share of the samples is held out.
    validation: held-out windows, targets and positive weights (None: 1).
    keep_positions: count unigrams only, and keep the samples.
    min_count: contexts whose samples have a smaller total weight are not made: the
    result equals `frequent(min_count)`, but takes less memory.
    """
    max_depth = (
        windows.depth if isinstance(windows, HistoryColumns) else windows.shape[1]
    )
    depth = max_depth if depth is None else min(depth, max_depth)

    def positions(windows, target, weight):
        if isinstance(windows, HistoryColumns):
            histories = windows._replace(depth=depth)
        else:
            histories = Histories.from_windows(windows, depth)
        return Positions(histories, target, weight)

    def count(samples):
        return Counted(*samples.tree(labels, min_count), labels, max_depth, depth)

    samples = _of_weight(positions(windows, target, sample_weight))
    if keep_positions:
        return DeferredCounts.of_samples(samples, labels, max_depth, depth)
    return _split_or_whole(samples, share, positions, validation, count)


def count_paths(
    X: Any,
    target: np.ndarray,
    labels: Labels,
    *,
    depth: int | None = None,
    sample_weight: np.ndarray | None = None,
    share: float | None = None,
    validation: tuple[Any, np.ndarray, np.ndarray | None] | None = None,
) -> Counted:
    """Count the paths of a matrix and the classes that followed them.

    The result is a `CountedPaths`, or a `HeldOutSplit` with `share` or `validation`. X:
    the paths of `SuffixTreeVectorizer`; the symbols of the contexts are not known.
    depth: longest context that is allowed; None: any. The other parameters are as in
    `count_windows`.
    """

    def count(samples):
        *counts, paths = samples.tree(labels)
        longest = paths.tree.max_depth
        if depth is not None and longest > depth:
            raise too_long(paths.tree, depth)
        longest = longest if depth is None else depth
        return CountedPaths(*counts, labels, X.shape[1], longest, paths)

    samples = _of_weight(PathRows(X, target, sample_weight))
    return _split_or_whole(samples, share, PathRows, validation, count)


def _of_weight(samples):
    """The samples of positive weight."""
    if samples.weight is None or (samples.weight > 0).all():
        return samples
    return samples.select(samples.weight > 0)


def _split_or_whole(samples, share, positions, validation, count):
    """The counts of samples; a `HeldOutSplit` if some are held out."""
    if share is not None:
        return HeldOutSplit.of_share(samples, share, count)
    counted = count(samples)
    if validation is None:
        return counted
    return HeldOutSplit.of_samples(counted, positions(*validation), counted)


def bytes_per_token(max_depth: int) -> int:
    """Upper bound, in bytes, of the memory of counting a text, for each token."""
    return _BYTES_PER_TOKEN + _BYTES_PER_DEPTH * max_depth
