"""KenLM's hash tables from the shards of a model.

A key follows from the words of an n-gram alone, and a bucket from the key. So each
shard gives its n-grams to the parts of the tables (see `_probing`), and then fills some
of the parts with the n-grams of all shards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from .._files import open_there
from ..context_tree import Pairs
from ..context_tree._shards import Prefix, border
from ..symbols import Labels
from . import _probing
from ._arpa_shards import NGramPlan, ShardNGrams
from ._arpa_write import NgramRows, log10_backoffs
from ._kenlm import check_multiplier
from ._kenlm_layout import NO_LONGER, Layout, probing_layout
from ._kenlm_ngrams import Part, WordIds, check_order, prob_bits, weight_bits


class ProbingPlan(NGramPlan):
    """The facts that all shards of a file of hash tables need.

    Parameters
    ----------
    labels, bounds, n_levels
        As of `NGramPlan`.

    multiplier : float, default=1.5
        As of `write`.
    """

    def __init__(
        self,
        labels: Labels,
        bounds: list[tuple[Prefix, Prefix]],
        n_levels: int,
        multiplier: float = 1.5,
    ) -> None:
        check_multiplier(multiplier)
        check_order(n_levels)
        super().__init__(labels, bounds, n_levels)
        self.multiplier = multiplier
        self.ids = WordIds(self.words, by_hash=False)

    def layout(self, counts: list[int]) -> Layout:
        """The tables of a file of so many n-grams."""
        return probing_layout(counts, self.words.n_words, self.multiplier)

    def begin(self, image: Any, layout: Layout, marks: NgramRows) -> None:
        """Write what no shard has."""
        _probing.begin(image, layout, self.ids.spelling(self.words))
        nothing = np.zeros(marks.node.size, dtype=bool)
        prob = prob_bits(marks.log_prob, nothing)
        weight = weight_bits(marks.log_backoff, nothing)
        _probing.put_unigrams(image, layout, self.ids.id_of[marks.last], prob, weight)

    def fill(
        self, shard: int, folder: str, path: str, counts: list[int]
    ) -> list[_probing.Beyond]:
        """Fill the parts of the tables of a shard, from the entries of all shards."""
        with open_there(path) as image:
            return _probing.fill(
                image, folder, self.layout(counts), shard, self.n_shards
            )

    def of_shard(
        self, shard: int, pairs: Pairs, log_prob: np.ndarray, log_backoff: np.ndarray
    ) -> ProbingShard:
        """The n-grams of a shard."""
        return ProbingShard(self, shard, pairs, log_prob, log_backoff)


class ProbingShard(ShardNGrams):
    """The n-grams of one shard. Its methods are the steps of writing the file."""

    # The numbers are bits, and that of a context says whether an n-gram begins with it.
    _absent = NO_LONGER

    def _numbers_of(self, nodes: np.ndarray) -> np.ndarray:
        ptr = self._pairs.ptr
        weight = log10_backoffs(self._log_backoff[nodes])
        return weight_bits(weight, ptr[nodes + 1] > ptr[nodes])

    def give(self, folder: str) -> tuple[list[int], np.ndarray]:
        """As of `ShardNGrams`; also tell which n-grams of earlier shards end one of the
        shard."""
        ends, pairs = self._ends(), self._pairs
        with open(_endings(folder, self._shard), "wb") as file:
            for node in pairs.tree.level_ptr[: pairs.borrowed].tolist():
                np.packbits(ends[pairs.ptr[node] : pairs.ptr[node + 1]]).tofile(file)
        return super().give(folder)

    def _ends(self) -> np.ndarray:
        """Whether an n-gram of the shard ends with the n-gram of each pair."""
        pairs = self._pairs
        ends = np.zeros(pairs.n_pairs, dtype=bool)
        ends[pairs.parent[pairs.n_classes :]] = True
        return ends

    def write(self, folder: str, path: str, counts: list[int]) -> None:
        """Write the entries of the tables into a file of the folder."""
        self._fetch(folder)
        ends, ptr = self._ends(), self._pairs.ptr
        plan, layout, tree = self._plan, self._plan.layout(counts), self._pairs.tree
        for shard in range(self._shard + 1, plan.n_shards):
            with open(_endings(folder, shard), "rb") as file:
                for node in border(tree, plan.first[shard], True):
                    some = ends[ptr[node] : ptr[node + 1]]
                    found = np.fromfile(file, np.uint8, (some.size + 7) // 8)
                    some |= np.unpackbits(found, count=some.size).astype(bool)
        words = [] if self._shard else [_probing.word_entries(plan.ids)]
        with open_there(path) as image:
            entries = _probing.ngram_entries(
                image, layout, self._parts(ends), plan.ids, tree.parent,
                plan.ids.oldest(plan.words, tree),
            )  # fmt: skip
            _probing.put_entries(folder, self._shard, layout, chain(words, entries))

    def _parts(self, ends: np.ndarray) -> Iterator[Part]:
        never = self._never_rows()
        nothing = np.zeros(never.node.size, dtype=bool)
        yield 1, never, prob_bits(never.log_prob, nothing), never.log_backoff
        for order in range(1, self._plan.order + 1):
            for rows, slots in self._rows(order):
                prob = prob_bits(rows.log_prob, ends[slots])
                yield order, rows, prob, rows.log_backoff


def _endings(folder: str, shard: int) -> str:
    return os.path.join(folder, f"endings{shard}")
