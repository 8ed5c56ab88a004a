"""Counts of (word, feature), where features are neighbours of the word."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import column_or_1d

from .._checks import check_samples
from .._parallel import row_blocks
from ..context_tree import check_windows
from ..symbols import (
    check_symbols,
    encode,
    encode_labels,
    label_array,
    learn_symbols,
    number_sentences,
    stream_windows,
)
from ..symbols._sentences import token_stream

# Samples whose neighbours are counted at a time.
_ROWS = 1 << 22


def is_windows(X: Any) -> bool:
    """Whether X is windows (a 2-D array) and not sentences."""
    return getattr(X, "ndim", 1) == 2 or hasattr(X, "columns")


def check_offsets(offsets: Any) -> tuple[int, ...]:
    """Distinct integers other than 0, at least one."""
    given, offsets = offsets, tuple(offsets)
    if not offsets or any(
        isinstance(k, bool) or not isinstance(k, numbers.Integral) or k == 0
        for k in offsets
    ):
        raise ValueError(
            f"offsets must be integers other than 0, at least one, got {given!r:.60}"
        )
    if len(set(offsets)) < len(offsets):
        raise ValueError(f"offsets has a place twice: {given!r:.60}")
    return tuple(int(k) for k in offsets)


def read_neighbours(
    estimator: Any,
    X: Any,
    y: Any,
    offsets: tuple[int, ...],
    *,
    reset: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """(words, windows, target, n_targets): windows and the symbols after them, as ids.

    The ids of words are their places among the sorted words. Windows have at least as
    many columns as the offsets reach; -1 is missing history. Targets have the ids of
    words, and -1 is the end of a sentence. If y is given and no offset is negative,
    targets are numbered separately. n_targets is the number of ids of targets.

    estimator: with a parameter `padding`; its number of columns is set or checked.
    X: windows, if y is given or X has two dimensions; else sentences.
    y: the symbol after each window. None: the last column of X, or the words of the
    sentences and their ends.
    reset: whether the number of columns is set or checked.
    """
    reach = max(map(abs, offsets))
    if y is None and not is_windows(X):
        return _read_sentences(X, reach)
    X = check_windows(estimator, X, estimator.padding, reset=reset)
    symbols = learn_symbols(X, estimator.padding)
    if y is None:
        windows = encode(X[:, -(reach + 1) :], symbols)
        if windows.shape[1] < 2:
            raise ValueError(
                "X: windows of 1 column have no neighbours; give y, the symbol that "
                f"followed each (n_features={windows.shape[1]}, minimum of 2 is "
                "required)"
            )
        windows, target = windows[:, :-1], np.ascontiguousarray(windows[:, -1])
        n_targets = symbols.size
        keep = target >= 0
        if not keep.all():
            windows, target = windows[keep], target[keep]
    else:
        y = column_or_1d(y, warn=True)
        check_samples(X.shape[0], y.shape[0])
        target, classes = encode_labels(y)
        if (target < 0).any():
            raise ValueError(f"y[{int(np.argmax(target < 0))}] is missing")
        return neighbour_ids(X, target, symbols, classes, offsets)
    _check_reach(windows, reach)
    return symbols, windows, target, n_targets


def neighbour_ids(
    X: np.ndarray,
    target: np.ndarray,
    symbols: np.ndarray,
    classes: np.ndarray,
    offsets: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """`read_neighbours` of some of the windows, where the symbols of all are known.

    target: ids among `classes`. symbols, classes: the words of all windows and all
    targets, sorted.
    """
    reach = max(map(abs, offsets))
    windows, n_targets = encode(X[:, -reach:], symbols), classes.size
    _check_reach(windows, reach)
    if min(offsets) < 0:  # targets are words
        symbols, windows, target = _unite(symbols, windows, classes, target)
        n_targets = symbols.size
    return symbols, windows, target, n_targets


def _check_reach(windows, reach):
    if windows.shape[1] < reach:
        raise ValueError(
            f"offsets reach {reach} symbols far, but the windows of X have only "
            f"{windows.shape[1]} column(s); make them longer or offsets smaller"
        )


def _unite(symbols, windows, classes, target):
    """(symbols, windows, target) with the same ids for contexts and targets."""
    if np.array_equal(symbols, classes):
        return symbols, windows, target
    names = {**dict.fromkeys("OSU", "strings"), **dict.fromkeys("mM", "dates")}
    kinds = {names.get(a.dtype.kind, "numbers") for a in (symbols, classes) if a.size}
    if len(kinds) > 1:
        one, other = sorted(kinds, reverse=True)
        raise TypeError(
            "y: with a negative offset the targets are words of X, but X and y differ: "
            f"one has {one} and the other {other}"
        )
    union = learn_symbols(np.concatenate([symbols, classes]))
    of_symbol = np.append(np.searchsorted(union, symbols), -1).astype(np.int32)
    of_class = np.searchsorted(union, classes).astype(np.int32)
    return union, of_symbol[windows], of_class[target]


def _read_sentences(X, reach):
    text = number_sentences(X)
    check_symbols(text, text.counts())
    table, words = encode_labels(label_array(text.symbols), "X")
    n = words.size
    if n == 0:
        raise ValueError("X has no word: there is nothing to cluster")
    longest = int(text.lengths.max())
    if reach > longest + 2:
        raise ValueError(
            f"offsets reach {reach} symbols far, but the longest sentence of X has "
            f"{longest}"
        )
    # The end of a sentence is a target, but not a word.
    tokens = token_stream(text, table, end=n, front=reach - 1)
    windows, target = stream_windows(tokens, reach)
    keep = target >= 0
    return words, windows[keep], np.where(target == n, -1, target)[keep], n


def history_column(windows: np.ndarray, position: int) -> np.ndarray:
    """The symbol at a position counted back from the newest, -1 if it is missing.

    In a sliding view the symbols before missing history belong to the previous
    sentence, and count as missing.
    """
    column = windows[:, -position].copy()
    for nearer in range(1, position):
        column[windows[:, -nearer] < 0] = -1
    return column


def count_features(
    windows: np.ndarray,
    target: np.ndarray,
    offsets: tuple[int, ...],
    n_words: int,
    n_targets: int,
) -> sp.csr_array:
    """int32 counts of (word, feature), canonical; each offset has its own columns.

    Offset k > 0: the feature of a word is the symbol k places after it; k < 0: before
    it. Missing history and the end of a sentence are features too. The others are as
    `read_neighbours` returns them.
    """
    counts = None
    for rows in row_blocks(max(target.size, 1), _ROWS):
        words, features, size = _features(
            windows[rows], target[rows], offsets, n_words, n_targets
        )
        ones = np.ones(words.size, dtype=np.int32)
        some = sp.csr_array((ones, (words, features)), shape=(n_words, size))
        some.sum_duplicates()
        counts = some if counts is None else counts + some
    return counts


def count_neighbours(
    estimator: Any, X: Any, y: Any, offsets: Any, *, reset: bool = True
) -> tuple[np.ndarray, sp.csr_array, int]:
    """Words, their counts of features, and the number of samples.

    The parameters are those of `read_neighbours`, which reads the samples, but offsets
    are not checked yet.
    """
    offsets = check_offsets(offsets)
    symbols, windows, target, n_targets = read_neighbours(
        estimator, X, y, offsets, reset=reset
    )
    counts = count_features(windows, target, offsets, symbols.size, n_targets)
    return symbols, counts, target.size


def _features(windows, target, offsets, n_words, n_targets):
    """(word, number of the feature) of each neighbour, and the number of features."""
    word_parts, feature_parts, size = [], [], 0
    for k in offsets:
        column = history_column(windows, abs(k))
        if k > 0:
            word, feature, width = column, target, n_targets
        else:
            word, feature, width = target, column, n_words
        keep = word >= 0
        word_parts.append(word[keep])
        # The id `width` is the feature "missing".
        feature = np.where(feature < 0, np.int32(width), feature)[keep]
        feature_parts.append(feature.astype(np.int64) + size)
        size += width + 1
    return np.concatenate(word_parts), np.concatenate(feature_parts), size
