"""The outcomes of samples: exactly one for each sample, or any number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


class Targets(NamedTuple):
    """Outcomes of samples: sample i has outcome[ptr[i]] to outcome[ptr[i + 1]].

    several: whether samples have any number of outcomes; each outcome is then a
    separate binary problem. Otherwise each sample has exactly one outcome. Two outcomes
    then have one weight vector, for the log-odds of the second.
    """

    ptr: NDArray  # (n_samples + 1,) int64
    outcome: NDArray  # int32, ascending for each sample
    n_outcomes: int
    several: bool

    @classmethod
    def one_each(cls, code: NDArray, n_outcomes: int) -> Targets:
        """Outcome code[i] of sample i."""
        ptr = np.arange(code.size + 1, dtype=np.int64)
        return cls(ptr, code.astype(np.int32, copy=False), n_outcomes, False)

    @classmethod
    def of_indicator(cls, Y: sp.csr_matrix) -> Targets:
        """The outcomes of a sample are the columns of the entries of its row of Y."""
        ptr, index = Y.indptr.astype(np.int64), Y.indices.astype(np.int32, copy=False)
        return cls(ptr, index, Y.shape[1], True)

    @property
    def n_samples(self) -> int:
        return self.ptr.size - 1

    @property
    def n_rows(self) -> int:
        """Number of weight vectors."""
        return 1 if self.n_outcomes == 2 and not self.several else self.n_outcomes

    @property
    def sample(self) -> NDArray:
        """The sample of each entry of `outcome`."""
        return np.repeat(np.arange(self.n_samples), np.diff(self.ptr))

    def lanes(self, first: int, m: int) -> tuple[NDArray, NDArray]:
        """(ptr, lanes): outcomes of the samples among m weight vectors from `first` on.

        Lane 0 is weight vector `first`.
        """
        if not self.several and self.n_outcomes == 2:
            first += 1
        elif m == self.n_outcomes:
            return self.ptr, self.outcome
        lane = self.outcome - np.int32(first)
        there = (lane >= 0) & (lane < m)
        before = np.concatenate([[0], np.cumsum(there)]).astype(np.int64)
        return before[self.ptr], lane[there]

    def take(self, rows: NDArray) -> Targets:
        """The targets of some samples."""
        length = np.diff(self.ptr)[rows]
        ptr = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
        shift = np.repeat(self.ptr[rows] - ptr[:-1], length)
        outcome = self.outcome[np.arange(ptr[-1]) + shift]
        return self._replace(ptr=ptr, outcome=outcome)

    def among(self, outcomes: NDArray) -> tuple[NDArray, Targets]:
        """(samples, their targets) of the problem of some outcomes, ascending.

        With one outcome per sample these are the samples with one of the outcomes,
        otherwise all samples.
        """
        number = np.full(self.n_outcomes, -1, dtype=np.int32)
        number[outcomes] = np.arange(outcomes.size, dtype=np.int32)
        outcome = number[self.outcome]
        there = outcome >= 0
        if not self.several:
            return np.flatnonzero(there), self.one_each(outcome[there], outcomes.size)
        before = np.concatenate([[0], np.cumsum(there)]).astype(np.int64)
        rows = np.arange(self.n_samples)
        return rows, Targets(before[self.ptr], outcome[there], outcomes.size, True)

    def indicator(self) -> NDArray:
        """(n_samples, n_outcomes) bool."""
        out = np.zeros((self.n_samples, self.n_outcomes), dtype=bool)
        out[self.sample, self.outcome] = True
        return out
