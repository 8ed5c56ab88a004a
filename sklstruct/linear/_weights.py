"""Weights of the outcomes of nodes, stored by feature; weights of 0 may be left out.

The weights of all outcomes for one feature are contiguous, because a sample needs only
the weights of the features that the sample has. `_weights.h` describes the layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._checks import CheckedState, as_ids, check_length, check_pointers
from . import _weights_fast as kernels
from ._samples import Samples, is_sparse, narrow_indices

LANES = 16  # outcomes are padded to a multiple of this

# If at least this fraction of the values are of features that only one sample has, a
# copy of X without these features is used in a descent.
LONE = 0.1

# Starts are 32-bit, and lanes 16-bit.
_MOST_CELLS = int(np.iinfo(np.uint32).max)
MOST_OUTCOMES = int(np.iinfo(np.uint16).max)


def lanes_of(n_outcomes: int) -> int:
    """Number of outcomes with their padding; a single outcome is not padded."""
    return 1 if n_outcomes == 1 else -(-n_outcomes // LANES) * LANES


class Features(NamedTuple):
    """A set of columns, and the position of each column in the set, its row."""

    words: NDArray  # (n_words,) uint64: one bit per column
    rank: NDArray  # (n_words,) int32: bits before each word
    size: int

    @classmethod
    def of(cls, index: NDArray, n_features: int) -> Features:
        """The columns in `index` (int32)."""
        words = np.zeros(n_features // 64 + 1, dtype=np.uint64)
        kernels.mark(index, words)
        return cls.of_words(words)

    @classmethod
    def of_words(cls, words: NDArray) -> Features:
        count = np.bitwise_count(words).astype(np.int32)
        ends = np.cumsum(count, dtype=np.int32)
        return cls(words, ends - count, int(ends[-1]))

    def rows(self, index: NDArray) -> NDArray:
        """The rows of columns, which must be in the set."""
        local = np.empty(index.size, dtype=np.int32)
        kernels.localise(index, self.words, self.rank, local)
        return local

    def columns(self) -> NDArray:
        """The columns, ascending."""
        octets = self.words.astype("<u8", copy=False).view(np.uint8)
        bits = np.unpackbits(octets, bitorder="little")
        return np.flatnonzero(bits).astype(np.int32)


class Divided(NamedTuple):
    """Samples without the features that only one sample has.

    The weights of a feature of one sample are its value times the duals of the sample.
    The descent needs only the sum of the squares of these values, not the weights,
    which it would read from memory: in text many features occur in one sample.
    """

    rows: kernels.FloatRows
    n_shared: int  # number of features of `rows`
    own: NDArray  # (n_samples,) float32: the sum of the squares
    sample: NDArray  # (features,) int32: the only sample with the feature, or -1
    value: NDArray  # (features,) float32: the value in that sample

    @classmethod
    def of(
        cls, data: NDArray, index: NDArray, indptr: NDArray, n_features: int
    ) -> Divided | None:
        """None if less than `LONE` of the values are of features of one sample."""
        n, sample = indptr.size - 1, np.full(n_features, -2, dtype=np.int32)
        if kernels.only_samples(index, indptr, sample) < LONE * index.size:
            return None
        shared, lone = sample[index] < 0, sample >= 0
        number = np.cumsum(~lone, dtype=np.int32) - np.int32(1)
        ends = indptr - np.append(0, np.cumsum(np.bincount(sample[lone], minlength=n)))
        rows = kernels.FloatRows.sparse(data[shared], number[index[shared]], ends)
        value = np.zeros(n_features, dtype=np.float32)
        value[index[~shared]] = data[~shared]
        own = np.bincount(sample[lone], value[lone] ** 2, n).astype(np.float32)
        return cls(rows, int((~lone).sum()), own, sample, value)


class LocalRows(NamedTuple):
    """Samples with only the features that they have."""

    features: Features
    rows: kernels.FloatRows  # indices of sparse rows are rows of `features`
    divided: Divided | None = None

    @classmethod
    def of(cls, X: Samples) -> LocalRows:
        """The rows of X (float32)."""
        d = X.shape[1]
        if not is_sparse(X):
            return cls(Features.of(np.arange(d, dtype=np.int32), d), as_rows(X))
        index, indptr = narrow_indices(X), X.indptr.astype(np.int64)
        features = Features.of(index, d)
        if features.size < d:  # otherwise columns and their rows are equal
            index = features.rows(index)
        rows = kernels.FloatRows.sparse(X.data, index, indptr)
        return cls(features, rows, Divided.of(X.data, index, indptr, features.size))


class Piece(NamedTuple):
    """The weights of one node."""

    features: Features
    start: NDArray | None  # (size + 1,) uint32; None: all rows have all lanes
    cell: NDArray  # uint32
    intercept: NDArray  # (lanes,)
    n_outcomes: int

    @classmethod
    def empty(cls, n_outcomes: int, n_features: int) -> Piece:
        """The weights of a node without features."""
        features = Features.of(np.empty(0, dtype=np.int32), n_features)
        cell = np.empty(0, dtype=np.uint32)
        intercept = np.zeros(lanes_of(n_outcomes), dtype=np.float32)
        return cls(features, None, cell, intercept, n_outcomes)

    def weights(self) -> NDArray:
        """The weights (size, lanes); `start` must be None."""
        return self.cell.view(np.float32).reshape(-1, self.intercept.size)

    def at(self, columns: NDArray) -> NDArray:
        """The weights of columns, 0 if not in `features`; `start` must be None."""
        out = np.zeros((columns.size, self.intercept.size), dtype=np.float32)
        own = self.features.columns()
        there = np.isin(columns, own, assume_unique=True)
        out[there] = self.weights()[self.features.rows(columns[there])]
        return out

    def replaced(self, other: Piece) -> Piece:
        """This piece with the weights of `other` at the features of `other`."""
        features = Features.of_words(self.features.words | other.features.words)
        W = self.at(features.columns())
        W[features.rows(other.features.columns())] = other.weights()
        cell = W.reshape(-1).view(np.uint32)
        return Piece(features, None, cell, other.intercept, self.n_outcomes)


class FittedStrip(NamedTuple):
    """The weights of some outcomes of a node, as the descent returns them."""

    W: NDArray  # (features + 1, lanes), the last row for the constant feature
    n_outcomes: int


def whole(
    features: Features, strips: Iterable[FittedStrip], n_outcomes: int, constant: float
) -> Piece:
    """The weights of the strips, which are consumed one by one, as one piece.

    constant: value of the constant feature.
    """
    M = lanes_of(n_outcomes)
    W, first = np.empty((0, M), dtype=np.float32), 0
    for strip in strips:
        if strip.n_outcomes == n_outcomes:  # no copy of large weights
            W = strip.W
            break
        if first == 0:
            W = np.zeros((features.size + 1, M), dtype=np.float32)
        last = first + strip.n_outcomes
        W[:, first:last] = strip.W[:, : strip.n_outcomes]
        first = last
    cell = W[:-1].reshape(-1).view(np.uint32)
    intercept = W[-1] * np.float32(constant)
    return Piece(features, None, cell, intercept, n_outcomes)


def packed(
    features: Features,
    strips: Iterable[FittedStrip],
    n_outcomes: int,
    constant: float,
    threshold: float,
) -> Piece:
    """As `whole`, without small weights.

    An absolute weight of at most `threshold` times the largest of its outcome is
    dropped. Intercepts are kept.
    """
    M = lanes_of(n_outcomes)
    intercept = np.zeros(M, dtype=np.float32)
    count = np.zeros(features.size, dtype=np.uint32)
    parts, first = [], 0
    for W, m in strips:
        intercept[first : first + m] = W[-1, :m] * np.float32(constant)
        W, least = W[:-1], np.empty(W.shape[1], dtype=np.float32)
        kernels.count_kept(W, m, threshold, least, count)  # lanes from m on are padding
        parts.append((W, first, least))
        first += m
    length = np.minimum(count + (count + 1) // 2, np.uint32(M))
    end = np.cumsum(length, dtype=np.int64)
    total = int(end[-1]) if end.size else 0
    if total > _MOST_CELLS:
        raise ValueError(
            f"weight_threshold={threshold} leaves {total} weights of a node, more than "
            f"{_MOST_CELLS}; increase weight_threshold, or use a taxonomy with smaller "
            "leaves"
        )
    cell = np.zeros(total + 1, dtype=np.uint32)  # never empty: the kernel points to it
    at = (end - length).astype(np.uint32)
    filled = np.zeros_like(count)
    for W, first, least in parts:
        kernels.pack(W, first, M, least, at, count, filled, cell)
    words = np.zeros_like(features.words)
    kernels.mark(features.columns()[length > 0], words)
    start = np.append(at[length > 0], np.uint32(total))
    return Piece(Features.of_words(words), start, cell[:total], intercept, n_outcomes)


class NodeWeights(CheckedState):
    """The weights of several nodes over the same columns.

    Either all pieces have a `start`, or none of them has one.
    """

    # First feature of each node if the features are scores, otherwise empty.
    given: NDArray = np.empty(0, dtype=np.int64)

    def __init__(self, pieces: Sequence[Piece], n_features: int) -> None:
        self.n_features = n_features
        shape = len(pieces), n_features // 64 + 1
        words = _join([p.features.words for p in pieces], np.uint64)
        self.words = words.reshape(shape)
        self.rank = _join([p.features.rank for p in pieces], np.int32).reshape(shape)
        self.n_outcomes = np.array([p.n_outcomes for p in pieces])
        self.lane_ptr = _ptr([p.intercept.size for p in pieces])
        self.intercept = _join([p.intercept for p in pieces], np.float32)
        self.cell_ptr = _ptr([p.cell.size for p in pieces])
        packed = [p.start for p in pieces if p.start is not None]
        cells = [p.cell for p in pieces]
        if packed:  # the kernels read beyond the last row
            cells.append(np.zeros(kernels.SPARE, dtype=np.uint32))
        self.cell = _join(cells, np.uint32)
        self.start_ptr = _ptr([s.size for s in packed] or [0] * len(pieces))
        self.start = _join(packed, np.uint32)

    @classmethod
    def of_scores(cls, sizes: Sequence[int]) -> NodeWeights:
        """Weights of nodes with `sizes` outcomes whose features are their scores."""
        first = np.append(0, np.cumsum(sizes, dtype=np.int64))
        n_features, pieces = max(int(first[-1]), 1), []
        for a, m in zip(first.tolist(), sizes):
            features = Features.of(np.arange(a, a + m, dtype=np.int32), n_features)
            one, lane = np.ones(m, np.float32).view(np.uint32), np.arange(m)
            cell, step = one, 1
            if lanes_of(m) > 1:
                cell, step = np.stack([one, lane.astype(np.uint32)], 1).ravel(), 2
            start = np.arange(0, step * m + 1, step, dtype=np.uint32)
            intercept = np.zeros(lanes_of(m), dtype=np.float32)
            pieces.append(Piece(features, start, cell, intercept, m))
        weights = cls(pieces, n_features)
        weights.given = first[:-1]
        return weights

    def _check_arrays(self) -> None:
        n, size = self.n_nodes, as_ids("n_outcomes", self.n_outcomes, 1, np.int64)
        shape = n, self.n_features // 64 + 1
        spare = kernels.SPARE if self.start.size else 0
        for name, array in {"words": self.words, "rank": self.rank}.items():
            if array.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
        for name, last in {
            "lane_ptr": self.intercept.size,
            "cell_ptr": self.cell.size - spare,
            "start_ptr": self.start.size,
        }.items():
            pointers = as_ids(name, getattr(self, name), 1, np.int64)
            check_length(name, pointers, n + 1, "the nodes and their end")
            check_pointers(name, pointers, last)
        if self.given.size:
            check_length("given", self.given, n, "one per node")
            last = as_ids("given", self.given, 1, np.int64) + size
            if self.given.min() < 0 or last.max() > self.n_features:
                raise ValueError("given must be features of the scores")
        # A search for the best classes does not end if a score is NaN.
        if not np.isfinite(self.intercept).all():
            raise ValueError("intercept holds NaN or an infinite number")
        for v in range(n):
            features = Features.of_words(self.words[v])
            M, cell = lanes_of(int(size[v])), self._cells(v)
            start = self._starts(v, M)
            good = (
                size[v] > 0
                and self.lane_ptr[v + 1] - self.lane_ptr[v] == M
                and np.array_equal(self.rank[v], features.rank)
                and features.columns()[-1:].sum() < max(self.n_features, 1)
                and start.size == (features.size if cell.size else 0) + 1
            )
            if good and cell.size:
                check_pointers("start", start, cell.size)
                length = np.diff(start.astype(np.int64))
                short = np.flatnonzero(length < M)
                n_lanes = length[short] - 2 * length[short] // 3
                at = np.repeat(start[short + 1] - np.cumsum(n_lanes), n_lanes)
                lanes = cell[at.astype(np.int64) + np.arange(at.size)].view(np.uint16)
                good = length.max() <= M and lanes.max(initial=0) < size[v]
            if not good:
                raise ValueError(f"the pickled weights of node {v} are damaged")

    @property
    def n_nodes(self) -> int:
        return self.n_outcomes.size

    @property
    def lanes(self) -> int:
        """Largest number of lanes of a node."""
        return int(np.diff(self.lane_ptr).max(initial=1))

    def piece(self, v: int) -> Piece:
        """The weights of node v as a piece without `start`."""
        features = Features.of_words(self.words[v])
        lanes = slice(*self.lane_ptr[v : v + 2].tolist())
        cell = self._cells(v)
        if self.start.size:
            W = np.zeros((features.size, lanes.stop - lanes.start), dtype=np.float32)
            column, outcome, weight = self._entries(v)
            W[features.rows(column), outcome] = weight
            cell = W.reshape(-1).view(np.uint32)
        n_outcomes = int(self.n_outcomes[v])
        return Piece(features, None, cell, self.intercept[lanes], n_outcomes)

    def intercepts(self) -> NDArray:
        """Intercepts of all outcomes, node after node."""
        size = self.n_outcomes.astype(np.int64)
        padding = np.repeat(self.lane_ptr[:-1] - _ptr(size)[:-1], size)
        return self.intercept[padding + np.arange(padding.size)]

    def whole(self) -> list[NDArray] | None:
        """Weights (n_features, outcomes) of each node; None if not all are stored."""
        lanes, cell = np.diff(self.lane_ptr), self.cell.view(np.float32)
        if self.start.size or (np.diff(self.cell_ptr) < lanes * self.n_features).any():
            return None
        each = zip(self.cell_ptr[:-1], self.cell_ptr[1:], lanes, self.n_outcomes)
        return [cell[a:b].reshape(-1, M)[:, :m] for a, b, M, m in each]

    def dense(self) -> NDArray:
        """Weights (all outcomes, n_features); a view if it can be one."""
        whole = self.whole()
        if whole and len(whole) == 1:
            return whole[0].T
        ends = _ptr(self.n_outcomes)
        W = np.zeros((self.n_features, ends[-1]), dtype=np.float32)
        for v, (a, b) in enumerate(pairwise(ends)):
            piece = self.piece(v)
            W[piece.features.columns(), a:b] = piece.weights()[:, : b - a]
        return W.T

    def sparse(self, first: int = 0, last: int | None = None) -> sp.csr_matrix:
        """Weights (outcomes, n_features) that are not 0.

        first, last: the range of nodes; None: to the end.
        """
        blocks = [sp.csr_matrix((0, self.n_features), dtype=np.float32)]
        for v in range(first, self.n_nodes if last is None else last):
            column, outcome, weight = self._entries(v)
            shape = int(self.n_outcomes[v]), self.n_features
            blocks.append(sp.csr_matrix((weight, (outcome, column)), shape=shape))
        return sp.vstack(blocks, format="csr")

    def _cells(self, v):
        return self.cell[self.cell_ptr[v] : self.cell_ptr[v + 1]]

    def _starts(self, v, M):
        if self.start.size:
            return self.start[self.start_ptr[v] : self.start_ptr[v + 1]]
        return np.arange(0, self._cells(v).size + 1, M, dtype=np.uint32)

    def _entries(self, v):
        """(column, outcome, weight) of the weights of node v that are not 0."""
        M = int(self.lane_ptr[v + 1] - self.lane_ptr[v])
        cell, start = self._cells(v), self._starts(v, M)
        row = np.empty(cell.size, dtype=np.int32)
        outcome = np.empty(cell.size, dtype=np.int32)
        weight = np.empty(cell.size, dtype=np.float32)
        if cell.size == 0:
            return row, outcome, weight
        m = int(self.n_outcomes[v])
        n = kernels.unpack(m, M, start, cell, row, outcome, weight)
        columns = Features.of_words(self.words[v]).columns()
        return columns[row[:n]], outcome[:n], weight[:n]


def as_rows(X: Samples, part: slice = slice(None)) -> kernels.FloatRows:
    """Rows of a float32 X as the kernels read them, without a copy of a sparse X."""
    if not is_sparse(X):
        return kernels.FloatRows.dense(X[part])
    start, stop, _ = part.indices(X.shape[0])
    indptr = X.indptr[start : stop + 1].astype(np.int64)
    index = narrow_indices(X)[indptr[0] : indptr[-1]]
    return kernels.FloatRows.sparse(X.data, index, indptr)


def _ptr(sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _join(arrays, dtype):
    if len(arrays) == 1:
        return arrays[0]  # no copy: flat weights may be half of the memory
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=dtype)
