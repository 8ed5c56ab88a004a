"""Interpolated Kneser-Ney smoothing of counts in files; levels are not loaded.

in:   a `RunFile`, the counts of a text
out:  columns of the adjusted counts; then of the probabilities and back-off weights

The results equal the results of `_shares` for counts in memory, bit by bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..context_tree import Column, RunFile, Spill, column_streams
from . import _levels_fast as _fast


class Adjusted(NamedTuple):
    """Adjusted counts of the pairs of each level."""

    counts: list[Column]  # negative for removed pairs
    n_with: np.ndarray  # (n_levels, 5): numbers of pairs of count 1, 2, 3 and 4
    n_kept: np.ndarray  # (n_levels,): number of pairs that stay


def adjust_counts(
    run: RunFile,
    least: np.ndarray,
    stays: np.ndarray,
    known: np.ndarray,
    folder: str | None,
) -> Adjusted:
    """The adjusted counts, and which pairs are removed.

    least: pairs of lower counts are removed, by level.
    stays: whether pairs with each class stay.
    known: whether pairs of contexts with each symbol stay.
    """
    file, n_levels = Spill(folder), len(run.levels)
    count = [file.column(np.float64) for _ in run.levels]
    n_with = np.zeros((n_levels, 5), dtype=np.int64)
    n_kept = np.zeros(n_levels, dtype=np.int64)
    streams = column_streams([*run.columns()], count)
    _fast.adjust(
        streams, least, stays.astype(np.uint8), known.astype(np.uint8), n_with, n_kept
    )
    return Adjusted(count, n_with, n_kept)


def smooth(
    run: RunFile,
    adjusted: list[Column],
    discounts: np.ndarray,
    base: np.ndarray,
    folder: str | None,
) -> tuple[list[Column], list[Column]]:
    """The probabilities of the pairs of each level, -1 for removed pairs, and the
    back-off weights of the nodes.

    adjusted: from `adjust_counts`.
    discounts: of the counts 1, 2, ... of each level.
    base: the distribution with which the unigrams are interpolated.
    """
    file = Spill(folder)
    prob, mass = ([file.column(np.float64) for _ in run.levels] for _ in range(2))
    sources: list[Column | None] = [
        x
        for level, count in zip(run.levels, adjusted)
        for x in (level.nodes, level.target, count)
    ]
    _fast.smooth(column_streams(sources, [*prob, *mass]), discounts, base)
    return prob, mass
