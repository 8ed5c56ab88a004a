"""Inference for sequences of observations, without graphs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import numpy as np

from .._parallel import ThreadMap
from ._chain_fast import ChainScorer
from ._chain_likelihood import sum_room, sum_tables
from ._chain_loss_fast import chain_sums
from ._inference import BUDGET
from ._observations import as_items
from ._pack import unpacked


class ScoredChains:
    """Sequences whose scores are computed block by block, or are given.

    scores(first, end) : scores of the items of these sequences, as `ChainScorer.scores`
    """

    def __init__(
        self,
        lengths: list[int],
        scores: Callable[[int, int], bytes],
        n_jobs: int | None = None,
    ) -> None:
        self.lengths, self.scores, self.n_jobs = lengths, scores, n_jobs

    def within(self, allowed: np.ndarray) -> ScoredChains:
        """The same sequences with a score of -inf where `allowed`, (items, k), is
        False."""
        starts = np.cumsum([0, *self.lengths])

        def scores(first: int, end: int) -> bytes:
            here = allowed[starts[first] : starts[end]]
            score = np.frombuffer(self.scores(first, end)).reshape(here.shape)
            return np.where(here, score, -np.inf).tobytes()

        return ScoredChains(self.lengths, scores, self.n_jobs)

    def over_blocks(self, k: int, function: Callable[..., list]) -> list:
        """Concatenated results of function(scores, first sequence, end) of each
        block."""

        def block(first: int, end: int) -> list:
            return function(self.scores(first, end), first, end)

        if (sum(self.lengths) + 1) * k**2 <= BUDGET:
            return block(0, len(self.lengths))
        # a kernel call takes some tens of milliseconds; signals are handled between
        # calls
        group = np.cumsum(self.lengths) * k**2 // BUDGET
        cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(self.lengths)]
        with ThreadMap(self.n_jobs) as parallel:
            found = parallel(lambda i: block(*cuts[i : i + 2]), range(len(cuts) - 1))
        return list(chain.from_iterable(found))


class ChainModel:
    """The weights of a first-order chain, and inference with them.

    columns : the row of `coef` of each name
    coef : (n_features, k); transition : (k, k), the earlier label first
    labels : list of k labels
    """

    def __init__(
        self,
        columns: dict[str, int],
        coef: np.ndarray,
        transition: np.ndarray,
        labels: list,
    ) -> None:
        self.labels, self.transition = labels, transition
        self.scorer = ChainScorer(columns, coef, transition, labels)

    def read(self, X: list, n_jobs: int | None) -> ScoredChains:
        """Sequences of observations, with scores when they are needed."""
        sequences = [as_items(i, sequence) for i, sequence in enumerate(X)]

        def scores(first: int, end: int) -> bytes:
            return self.scorer.scores(
                sequences[first:end], lambda i, t: f"X[{first + i}], item {t}"
            )

        return ScoredChains(list(map(len, sequences)), scores, n_jobs)

    def best(self, given: ScoredChains) -> list[list]:
        """The labels of the best path of each sequence."""
        return given.over_blocks(
            len(self.labels),
            lambda scores, a, b: self.scorer.best(scores, given.lengths[a:b]),
        )

    def marginals(self, given: ScoredChains) -> list[np.ndarray]:
        """Probabilities (length, k) of the labels at each item of each sequence."""

        def marginals(scores: bytes, first: int, end: int) -> list:
            ptr, _, share = self._sums(given, scores, first, end)
            return unpacked(share, ptr)

        return given.over_blocks(len(self.labels), marginals)

    def log_sums(self, given: ScoredChains) -> np.ndarray:
        """The logarithm of the sum over all paths of each sequence."""
        return np.array(
            given.over_blocks(
                len(self.labels),
                lambda scores, a, b: self._sums(given, scores, a, b)[1].tolist(),
            )
        )

    def _sums(
        self, given: ScoredChains, scores: bytes, first: int, end: int
    ) -> tuple[np.ndarray, ...]:
        """Starts of sequences, logarithms of sums, marginals."""
        k = len(self.labels)
        score = np.frombuffer(scores).reshape(-1, k)
        lengths = given.lengths[first:end]
        ptr = np.cumsum([0, *lengths], dtype=np.int64)
        log_z, share = np.empty(len(lengths)), np.zeros(score.shape)
        room = sum_room(max(lengths, default=0), k)
        chain_sums(
            score, ptr, *sum_tables(self.transition), np.zeros((2, k, k)), room, log_z,
            share,
        )  # fmt: skip
        return ptr, log_z, share
