"""Weights of 8 bits, and the scores of texts by them without a matrix of rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._checks import CheckedState, as_ids, check_length
from .._parallel import ThreadMap, stop_flag
from ..hierarchical._score_model import ScoreModel
from ._scores_fast import add_scores
from ._texts import Texts, blocks
from ._vectorizer import NgramVectorizer

_LARGEST = 127
_LONGEST_GAP = 255

# Largest bias and scale: squares of the scores must not overflow. A larger bias would
# only stand for a probability of 1.
_MOST = 1e12

# A column with at least this fraction of nonzero weights has one byte per score: adding
# up consecutive bytes is several times as fast.
_WHOLE = 0.15


class ByteWeights(CheckedState):
    """Weights (n_scores, n_columns) of 8 bits, with one scale for each column.

    count: by column, the number of its bytes. gap: for columns with fewer than n_scores
    bytes, the number of scores that are skipped before each byte. bias: by score.
    """

    def __init__(
        self,
        scale: NDArray,
        count: NDArray,
        gap: NDArray,
        weight: NDArray,
        bias: NDArray,
    ) -> None:
        self.scale, self.count, self.gap, self.weight = scale, count, gap, weight
        self.bias = bias
        self._check_arrays()

    @classmethod
    def of(cls, weights: sp.csr_matrix, bias: NDArray, threshold: float) -> ByteWeights:
        """Rounded weights, without weights up to `threshold` times the largest of their
        score.
        """
        W = sp.csr_matrix(weights, dtype=np.float32, copy=True)
        n_scores, n_columns = W.shape
        row = np.repeat(np.arange(n_scores), np.diff(W.indptr))
        top = abs(W).max(axis=1).toarray().ravel()
        W.data[np.abs(W.data) <= threshold * top[row]] = 0
        W = W.tocsc()
        W.sort_indices()
        column = np.repeat(np.arange(n_columns), np.diff(W.indptr))
        scale = abs(W).max(axis=0).toarray().ravel() / _LARGEST
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.nan_to_num(np.rint(W.data / scale[column])).astype(np.int8)
        kept = value != 0
        score, column, value = W.indices[kept], column[kept], value[kept]
        number = np.bincount(column, minlength=n_columns)
        whole = number >= _WHOLE * n_scores
        # Other columns, with additional bytes of 0 if a gap would be too long.
        part = ~whole[column]
        gap, c, v = _with_gaps(score[part], column[part], value[part])
        count = np.bincount(c, minlength=n_columns)
        # Additional zeros never make a column as long as a whole column.
        count[whole] = n_scores
        number_of = np.cumsum(whole) - 1
        dense = np.zeros((int(whole.sum()), n_scores), dtype=np.int8)
        dense[number_of[column[~part]], score[~part]] = value[~part]
        weight = np.empty(int(count.sum()), dtype=np.int8)
        is_whole = np.repeat(whole, count)
        weight[is_whole], weight[~is_whole] = dense.ravel(), v
        bias = np.clip(bias, -_MOST, _MOST).astype(np.float32)
        return cls(scale, count, gap.astype(np.uint8), weight, bias)

    def _check_arrays(self) -> None:
        self.count = as_ids("count", self.count, 1, np.int64)
        n, m = self.count.size, self.bias.size
        check_length("scale", self.scale, n, "one per column")
        whole = self.count == m
        if not ((self.count >= 0) & (self.count <= m)).all():
            raise ValueError(f"count must be from 0 to {m}")
        check_length("weight", self.weight, int(self.count.sum()), "as counted")
        check_length("gap", self.gap, int(self.count[~whole].sum()), "as counted")
        for name, kind in {
            "scale": np.float32, "bias": np.float32, "weight": np.int8, "gap": np.uint8,
        }.items():  # fmt: skip
            array = np.ascontiguousarray(getattr(self, name))
            if array.ndim != 1 or array.dtype != kind:
                raise ValueError(f"{name} must hold numbers of type {np.dtype(kind)}")
            setattr(self, name, array)
        for array in (self.scale, self.bias):
            if not (np.abs(array) <= _MOST).all():
                raise ValueError(f"scale and bias must be at most {_MOST:g}")
        before = self.places[1]
        size = np.diff(before)
        some = size > 0
        way = size[some] + np.add.reduceat(self.gap, before[:-1][some], dtype=np.int64)
        if (way > m).any():
            raise ValueError(f"gap must lead to one of {m} scores")

    @cached_property
    def places(self) -> tuple[NDArray, NDArray]:
        """The places of the first weight and the first gap of each column."""
        gaps = np.where(self.count == self.bias.size, 0, self.count)
        return tuple(
            np.append(0, np.cumsum(n)).astype(np.int64) for n in (self.count, gaps)
        )  # type: ignore[return-value]

    @cached_property
    def kernel(self) -> tuple[NDArray, ...]:
        """The arrays that the kernel reads, of at least one entry each."""
        weight, gap, scale = self.weight, self.gap, self.scale
        some = [a if a.size else np.zeros(1, a.dtype) for a in (scale, weight, gap)]
        return (*self.places, *some)

    def sparse(self) -> sp.csr_matrix:
        """The weights of shape (n_scores, n_columns)."""
        m, n = self.bias.size, self.count.size
        column = np.repeat(np.arange(n), self.count)
        whole = np.repeat(self.count == m, self.count)
        step = np.ones(column.size, dtype=np.int64)
        step[~whole] += self.gap
        at = np.cumsum(step)
        start = self.places[0][:-1]
        score = at - 1 - np.append(0, at)[start][column]
        value = self.weight * self.scale[column]
        W = sp.csr_matrix((value, (score, column)), shape=(m, n))
        W.eliminate_zeros()
        return W

    def add_scores(
        self,
        rows: tuple[NDArray, NDArray, NDArray],
        z: NDArray,
        stop: NDArray,
        first: int = 0,
        factor: float = 1.0,
    ) -> None:
        """Add `factor` times the scores of rows to z; their columns begin at `first`.

        rows: data, indices, and the ends of the rows among them.
        """
        data, indices, ends = rows
        at, before, scale, weight, gap = self.kernel
        add_scores(
            indices, data, ends, factor, at[first:], before[first:], scale[first:],
            weight, gap, z, stop,
        )  # fmt: skip

    def scores(self, rows: sp.csr_matrix) -> NDArray:
        """Scores (n_rows, n_scores) of rows of n-grams."""
        data = rows.data.astype(np.float32, copy=False)
        indices = rows.indices.astype(np.int32, copy=False)
        z = np.tile(self.bias, (rows.shape[0], 1))
        given = data, indices, rows.indptr[1:].astype(np.int64)
        self.add_scores(given, z, np.zeros(1, np.int32))
        return z


class Reduced(NamedTuple):
    """A classifier as weights of 8 bits, and the model of their scores."""

    model: ScoreModel
    weights: ByteWeights
    threshold: float  # fraction of the largest weight up to which weights are dropped

    @classmethod
    def of(
        cls, model: ScoreModel, W: sp.csr_matrix, bias: NDArray, threshold: float
    ) -> Reduced:
        if W.shape[0] == 0:  # one class
            W, bias = sp.csr_matrix((1, W.shape[1]), dtype=np.float32), np.zeros(1)
        return cls(model, ByteWeights.of(W, bias, threshold), threshold)


def _with_gaps(score, column, value):
    """(gaps, columns, values) of entries that are sorted by column and score.

    A gap above `_LONGEST_GAP` is split: longest gaps, each before an additional value
    of 0, and the rest.
    """
    first = np.append(True, column[1:] != column[:-1])[: column.size]
    before = np.where(first, -1, np.append(-1, score[:-1])[: score.size])
    n_more, rest = np.divmod(score - before - 1, _LONGEST_GAP + 1)
    last = np.cumsum(n_more + 1) - 1
    n = int(last[-1]) + 1 if last.size else 0
    gap, full = np.full(n, _LONGEST_GAP), np.zeros(n, dtype=value.dtype)
    gap[last], full[last] = rest, value
    return gap, np.repeat(column, n_more + 1), full


def empty_rows(ends: NDArray, indices: NDArray, spaces: NDArray) -> NDArray:
    """Whether each row has entries in the columns `spaces` only, or no entry.

    Every text has the n-gram of a single space, which says nothing about the text.
    """
    n_entries = np.append(0, np.cumsum(~np.isin(indices, spaces)))
    return np.diff(n_entries[ends], prepend=0) == 0


def text_scores(
    vectorizers: Sequence[NgramVectorizer],
    weights: ByteWeights,
    texts: Texts,
    n_jobs: int | None,
) -> tuple[NDArray, NDArray]:
    """(scores (n_texts, n_scores), whether each text is empty as in `empty_rows`).

    The parts of a row by the vectorizers have equal lengths.
    """
    z = np.empty((len(texts), weights.bias.size), dtype=np.float32)
    empty = np.ones(len(texts), dtype=bool)
    options = [vectorizer.row_options(np.float32) for vectorizer in vectorizers]
    factor = 1 / np.sqrt(len(vectorizers))
    for vectorizer in vectorizers:
        vectorizer.trie_.make_tables()

    def block(part: slice) -> None:
        mine, first = z[part], 0
        mine[:] = weights.bias
        for vectorizer, how in zip(vectorizers, options):
            trie = vectorizer.trie_
            found = trie.found(texts[part], stop)
            rows = trie.block_rows(found, stop, **how)
            weights.add_scores(rows, mine, stop, first, factor)
            empty[part] &= empty_rows(rows[2], rows[1], trie.spaces)
            first += trie.n_columns

    with stop_flag() as stop, ThreadMap(n_jobs) as parallel:
        parallel(block, blocks(texts))
    return z, empty
