"""Answers about sequences of observations, without graphs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._parallel import ThreadMap
from ._chain_fast import ChainScorer, path_sums
from ._inference import BUDGET, BlockInference, over_blocks
from ._observations import as_items, chains
from ._pack import Packed, WeightLayout, unpacked
from ._rows import FeatureRows


class ScoredChains:
    """Sequences whose scores are at hand, or are read block by block.

    scores(first, end) : those of the items of these sequences, as `ChainScorer.scores`
    """

    def __init__(
        self,
        lengths: list[int],
        scores: Callable[[int, int], bytes],
        n_jobs: int | None = None,
    ) -> None:
        self.lengths, self.scores, self.n_jobs = lengths, scores, n_jobs

    def over_blocks(self, k: int, function: Callable[..., list]) -> list:
        """function(scores, first sequence, end) of each block, one after the other."""

        def block(first: int, end: int) -> list:
            return function(self.scores(first, end), first, end)

        if (sum(self.lengths) + 1) * k**2 <= BUDGET:
            return block(0, len(self.lengths))
        # a kernel call takes some tens of milliseconds; signals are handled between
        group = np.cumsum(self.lengths) * k**2 // BUDGET
        cuts = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(self.lengths)]
        with ThreadMap(self.n_jobs) as parallel:
            found = parallel(lambda i: block(*cuts[i : i + 2]), range(len(cuts) - 1))
        return list(chain.from_iterable(found))


class ChainModel:
    """The weights of a first-order chain and what they say about sequences.

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
            score, ptr, safe, _, belief = self._sums(given, scores, first, end, True)
            found = unpacked(belief, ptr)
            return self._mended(
                found, safe, unpacked(score, ptr),
                lambda infer: infer.sums()[1].reshape(-1, len(self.labels)),
            )  # fmt: skip

        return given.over_blocks(len(self.labels), marginals)

    def log_proba(self, given: ScoredChains, path: np.ndarray) -> np.ndarray:
        """The logarithm of the probability of a path of each sequence.

        path : positions in the labels, of all sequences in a row
        """
        starts = np.cumsum([0, *given.lengths])

        def log_proba(scores: bytes, first: int, end: int) -> list:
            score, ptr, safe, log_z, _ = self._sums(given, scores, first, end, False)
            here = path[starts[first] : starts[end]]
            share = np.zeros(here.size)  # of the transition to each item
            share[1:] = self.transition[here[:-1], here[1:]]
            share[ptr[:-1][np.diff(ptr) > 0]] = 0.0
            share += score[np.arange(here.size), here]
            owner = np.repeat(np.arange(end - first), given.lengths[first:end])
            found = np.bincount(owner, share, end - first) - log_z
            paths = unpacked(here, ptr)
            chosen = [paths[i] for i in np.flatnonzero(~safe)]

            def of_graphs(infer: BlockInference) -> np.ndarray:
                log_z = infer.sums(marginals=False)[0]
                state = np.concatenate(chosen)[infer.block.variables]
                return infer.score(state) - log_z

            return self._mended(found.tolist(), safe, unpacked(score, ptr), of_graphs)

        return np.array(given.over_blocks(len(self.labels), log_proba))

    def _sums(
        self, given: ScoredChains, scores: bytes, first: int, end: int, marginals: bool
    ) -> tuple[np.ndarray, ...]:
        """Scores of items, starts of sequences, and what `path_sums` finds."""
        k = len(self.labels)
        score = np.frombuffer(scores).reshape(-1, k)
        ptr = np.cumsum([0, *given.lengths[first:end]], dtype=np.int64)
        top = float(self.transition.max())
        ratio = np.exp(self.transition - top)
        log_z, safe = np.empty(ptr.size - 1), np.empty(ptr.size - 1, dtype=np.uint8)
        belief = np.empty(score.shape)
        path_sums(
            score, ratio, np.ascontiguousarray(ratio.T), top, ptr,
            np.empty(score.shape), np.empty((2, k)), log_z, belief, safe, marginals,
        )  # fmt: skip
        return score, ptr, safe.astype(bool), log_z, belief

    def _mended(
        self,
        found: list,
        safe: np.ndarray,
        score: list[np.ndarray],
        function: Callable[[BlockInference], Any],
    ) -> list:
        """found, with answers by logarithms where they are needed.

        Those are of graphs whose features are the scores; function answers about the
        sequences that are not safe.
        """
        at = np.flatnonzero(~safe).tolist()
        if at:
            k = len(self.labels)
            layout = WeightLayout(k, 0, list(range(k)), ["next"], [1], [0])
            coef = np.concatenate([np.eye(k).ravel(), self.transition.ravel()])
            rows = [FeatureRows.of(sp.csr_array(score[i])) for i in at]
            graphs = chains(rows, range(k))
            packed = Packed(graphs, layout)
            with ThreadMap(None) as parallel:
                answers = over_blocks(function, packed, coef, graphs, parallel)
            every = np.concatenate(answers)
            by_item = every.ndim > 1
            for i, answer in zip(
                at, unpacked(every, packed.var_ptr) if by_item else every.tolist()
            ):
                found[i] = answer
        return found
