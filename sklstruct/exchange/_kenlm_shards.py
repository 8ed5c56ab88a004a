"""KenLM's binaries from the shards of a model.

The place of an n-gram in the tables follows from its words and from the numbers of
n-grams before it. So each shard gives its n-grams to the parts of the tables (see
`_kenlm_entries`), and then fills some of the parts with the n-grams of all shards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._files import open_there
from ..context_tree._shards import Prefix, border
from ..symbols import Labels
from ._arpa_shards import NGramPlan, ShardNGrams
from ._arpa_write import NgramRows, log10_backoffs
from ._kenlm_entries import EntryFiles, Source, put_entries, shard_file
from ._kenlm_layout import NO_LONGER
from ._kenlm_ngrams import (
    Part,
    WordIds,
    bits_of,
    check_order,
    newest_of_some,
    prob_bits,
    weight_bits,
)

# n-grams of each order, and what `KenlmShard.sample` has returned, for each shard.
Facts = tuple[list[int], list[np.ndarray]]


class KenlmShard(ShardNGrams):
    """The n-grams of one shard. Its methods are the steps of writing the file."""

    # The numbers are bits, and that of a context says whether an n-gram begins with it.
    _absent = NO_LONGER

    def _numbers_of(self, nodes: np.ndarray) -> np.ndarray:
        ptr = self._pairs.ptr
        weight = log10_backoffs(self._log_backoff[nodes])
        return weight_bits(weight, ptr[nodes + 1] > ptr[nodes])

    def give(self, folder: str) -> tuple[list[int], np.ndarray]:
        """As of `ShardNGrams`.

        Also writes which n-grams of borrowed contexts end a longer n-gram of the shard.
        """
        ends, pairs = self._ends(), self._pairs
        with open(shard_file(folder, "endings", self._shard), "wb") as file:
            for node in pairs.tree.level_ptr[: pairs.borrowed].tolist():
                np.packbits(ends[pairs.ptr[node] : pairs.ptr[node + 1]]).tofile(file)
        return super().give(folder)

    def sample(self) -> np.ndarray:
        """The newest two words of some n-grams."""
        pairs, ids = self._pairs, self._plan.ids
        oldest = ids.oldest(self._plan.words, pairs.tree)
        return newest_of_some(pairs.tree, pairs.ptr, pairs.target, ids, oldest)

    def _ends(self) -> np.ndarray:
        """Whether an n-gram of the shard ends with the n-gram of each pair."""
        pairs = self._pairs
        ends = np.zeros(pairs.n_pairs, dtype=bool)
        ends[pairs.parent[pairs.n_classes :]] = True
        return ends

    def write(self, folder: str, path: str, facts: Facts, marks: NgramRows) -> None:
        """Write the entries of the tables into a file of the folder.

        marks: the n-grams that no shard has, which the first one writes.
        """
        self._fetch(folder)
        ends, ptr = self._ends(), self._pairs.ptr
        plan, tree, is_first = self._plan, self._pairs.tree, self._shard == 0
        for shard in range(self._shard + 1, plan.n_shards):
            with open(shard_file(folder, "endings", shard), "rb") as file:
                for node in border(tree, plan.first[shard], True):
                    some = ends[ptr[node] : ptr[node + 1]]
                    found = np.fromfile(file, np.uint8, (some.size + 7) // 8)
                    some |= np.unpackbits(found, count=some.size).astype(bool)
        parts = self._parts(ends, marks if is_first else None)
        source = Source(parts, tree, plan.ids.oldest(plan.words, tree), is_first)
        with open_there(path) as image:
            entries = plan.file(facts).entries(image, source)
            put_entries(folder, self._shard, entries)

    def _parts(self, ends: np.ndarray, marks: NgramRows | None) -> Iterator[Part]:
        rows = self._never_rows()
        yield 1, rows, prob_bits(rows.log_prob, np.False_), rows.log_backoff
        if marks is not None:
            yield 1, marks, *bits_of(marks, np.False_, np.False_)
        for order in range(1, self._plan.order + 1):
            for rows, slots in self._rows(order):
                prob = prob_bits(rows.log_prob, ends[slots])
                yield order, rows, prob, rows.log_backoff


class KenlmPlan(NGramPlan):
    """The facts that all shards of a binary need.

    kind: `ProbingFile` or `TrieFile`. option: its last argument.
    """

    shard = KenlmShard

    def __init__(
        self,
        labels: Labels,
        bounds: list[tuple[Prefix, Prefix]],
        n_levels: int,
        kind: Any,
        option: Any,
    ) -> None:
        check_order(n_levels)
        super().__init__(labels, bounds, n_levels)
        self._kind, self._option = kind, option
        self.ids = WordIds(self.words, by_hash=kind.by_hash)

    def file(self, facts: Facts) -> Any:
        """The file, which is written step by step."""
        counts, samples = facts
        return self._kind(counts, self.ids, samples, self._option)

    def on_file(
        self, shard: int, step: str, folder: str, path: str, facts: Facts
    ) -> Any:
        """Take a step of the file for a shard: its `values`, or `fill` its parts."""
        files = EntryFiles(folder, self.n_shards)
        with open_there(path) as image:
            call = getattr(self.file(facts), step)
            return call(image, files, shard, self.n_shards)
