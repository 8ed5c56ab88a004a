"""Answers about sequences of observations, without graphs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from .._parallel import ThreadMap
from ._chain_fast import best_paths, item_scores, path_sums
from ._inference import BUDGET


class ChainInference:
    """Best paths and sums of sequences whose features were read.

    lengths, entries : as `read_sequences` gives them
    coef : (n_features, k); transition : (k, k)
    """

    def __init__(
        self,
        lengths: np.ndarray,
        entries: tuple[np.ndarray, np.ndarray, np.ndarray],
        coef: np.ndarray,
        transition: np.ndarray,
        n_jobs: int | None,
    ) -> None:
        self.lengths = lengths
        self.ptr = np.zeros(lengths.size + 1, dtype=np.int64)
        lengths.cumsum(out=self.ptr[1:])
        self.entries = entries
        self.per_item, self.column, self.value = entries
        self.coef, self.transition, self.n_jobs = coef, transition, n_jobs
        self.k = transition.shape[0]

    def _over_blocks(self, function: Callable[..., Any]) -> list:
        """function(starts of sequences, scores of items, which items) of each block."""
        if (self.ptr[-1] + 1) * self.k**2 <= BUDGET:
            return [self._block(function, (0, self.lengths.size))]
        # a kernel call takes some tens of milliseconds; signals are handled between
        group = (self.ptr[1:] * self.k**2) // BUDGET
        cuts = (np.flatnonzero(np.diff(group)) + 1).tolist()
        blocks = list(pairwise([0, *cuts, self.lengths.size]))
        with ThreadMap(self.n_jobs) as parallel:
            return parallel(lambda block: self._block(function, block), blocks)

    def _block(self, function: Callable[..., Any], block: tuple[int, int]) -> Any:
        ptr = self.ptr[block[0] : block[1] + 1]
        per_item = self.per_item[ptr[0] : ptr[-1]]
        first = int(self.per_item[: ptr[0]].sum()) if ptr[0] else 0
        score = np.zeros((per_item.size, self.k))
        if per_item.size:
            item_scores(
                per_item, self.column[first:], self.value[first:], self.coef, score
            )
        return function(ptr - ptr[0], score, slice(ptr[0], ptr[-1]))

    def best(self) -> np.ndarray:
        """The best path of each sequence, one after the other."""

        def best(ptr: np.ndarray, score: np.ndarray, _: slice) -> np.ndarray:
            path = np.empty(len(score), dtype=np.int32)
            back = np.empty(score.shape, dtype=np.int32)
            work = np.empty((2, self.k))
            best_paths(score, self.transition, ptr, back, work, path)
            return path

        found = self._over_blocks(best)
        return found[0] if len(found) == 1 else np.concatenate(found)

    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """(whether the result of a sequence is valid, probabilities of its values)."""
        found = self._over_blocks(
            lambda ptr, score, _: self._sums(ptr, score, True)[::2]
        )
        safe, belief = map(np.concatenate, zip(*found))
        return safe, belief

    def log_proba(self, path: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(whether it is valid, the log-probability of the path of each sequence)."""
        share = np.zeros(path.size)  # of the transition to each item
        share[1:] = self.transition[path[:-1], path[1:]]
        share[self.ptr[:-1][self.lengths > 0]] = 0.0

        def log_proba(ptr: np.ndarray, score: np.ndarray, items: slice) -> tuple:
            safe, log_z, _ = self._sums(ptr, score, False)
            share[items] += score[np.arange(len(score)), path[items]]
            return safe, log_z

        safe, log_z = map(np.concatenate, zip(*self._over_blocks(log_proba)))
        owner = np.repeat(np.arange(self.lengths.size), self.lengths)
        return safe, np.bincount(owner, share, self.lengths.size) - log_z

    def _sums(
        self, ptr: np.ndarray, score: np.ndarray, marginals: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        top = float(self.transition.max())
        ratio = np.exp(self.transition - top)
        log_z, safe = np.empty(ptr.size - 1), np.empty(ptr.size - 1, dtype=np.uint8)
        belief = np.empty(score.shape)
        path_sums(
            score, ratio, np.ascontiguousarray(ratio.T), top, ptr,
            np.empty(score.shape), np.empty((2, self.k)), log_z, belief, safe,
            marginals,
        )  # fmt: skip
        return safe.astype(bool), log_z, belief
