"""Counts that grow: what `partial_fit` keeps, and how a batch joins it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._checks import INT32_MAX
from ..context_tree import ContextTree, Pairs
from ..symbols._encoding import encode, learn_symbols

# Ids of classes and of symbols in a larger numbering, which keeps their order, and the
# sizes of that: the arguments of `Pairs.renumber`.
Numbering = tuple[np.ndarray, int, np.ndarray, int]


@dataclass(frozen=True)
class Counts:
    """The pairs of all batches so far, and what their ids mean."""

    pairs: Pairs
    count: np.ndarray  # (n_pairs,) int32 or float64
    symbols: np.ndarray  # (n_symbols,) sorted, where they are learnt
    classes: np.ndarray  # (n_classes,) sorted
    closed: np.ndarray | None  # the only classes there can be

    def join(self, batch: Counts) -> tuple[Counts, Callable[[], np.ndarray]]:
        """(counts of both, the new number of each old pair) over all labels of both."""
        symbols = _union("X", self.symbols, batch.symbols)
        classes = _union("y", self.classes, batch.classes)

        def numbering(part):
            return (
                encode(part.classes, classes),
                classes.size,
                encode(part.symbols, symbols),
                symbols.size,
            )

        pairs, count, place = join_counts(
            self.pairs, self.count, numbering(self),
            batch.pairs, batch.count, numbering(batch),
        )  # fmt: skip
        return Counts(pairs, count, symbols, classes, self.closed), place


def join_counts(
    old: Pairs,
    old_count: np.ndarray,
    old_ids: Numbering,
    new: Pairs,
    new_count: np.ndarray,
    new_ids: Numbering,
) -> tuple[Pairs, np.ndarray, Callable[[], np.ndarray]]:
    """(pairs, sums, function for the number of each old pair) in a new numbering."""
    old, old_place = old.renumber(*old_ids)
    new, new_place = new.renumber(*new_ids)
    old_count = _placed(old_count, old_place, old.n_pairs)
    new_count = _placed(new_count, new_place, new.n_pairs)
    tree, (of_old, of_new) = ContextTree.merge([old.tree, new.tree])
    pairs, count = Pairs.merge(
        tree, [(old, old_count, of_old), (new, new_count, of_new)]
    )

    def place():
        return pairs.find(of_old[old.nodes()], old.target)[old_place]

    return pairs, count, place


def small_counts(count: np.ndarray) -> np.ndarray:
    """The counts as int32, where that is exact."""
    small = count.astype(np.int32) if count.max(initial=0.0) <= INT32_MAX else count
    return small if np.array_equal(small, count) else count


def _placed(count, place, n):
    out = np.zeros(n)
    out[place] = count
    return out


def _union(name: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The labels of both, sorted."""
    kinds = {"S" if a.dtype.kind in "OSU" else "n" for a in (old, new) if a.size}
    if len(kinds) > 1:
        # numpy would turn the numbers into strings.
        raise TypeError(
            f"{name} holds strings in one batch and numbers in another; use one kind"
        )
    if np.array_equal(old, new):
        return old
    return learn_symbols(np.concatenate([old, new]), name=name)


def check_closed(given: Any, closed: np.ndarray | None) -> None:
    """ValueError if a later batch names other classes than the first."""
    if given is None:
        return
    given = np.unique(np.asarray(given))
    if closed is None or not np.array_equal(given, np.unique(closed)):
        raise ValueError(
            "classes must be those of the first call of partial_fit, or None: the "
            "model has "
            + (
                "classes as they are seen"
                if closed is None
                else f"{closed.size} others"
            )
        )
