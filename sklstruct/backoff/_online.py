"""Counts that grow: what `partial_fit` keeps, and how a batch joins it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from .._checks import INT32_MAX, check_count
from ..context_tree import ContextTree, Pairs
from ..symbols._encoding import encode, learn_symbols

# Ids of classes and of symbols in another numbering, which keeps their order, and the
# sizes of that: the arguments of `Pairs.renumber`. -1 for what is gone, of which the
# counts are 0.
Numbering = tuple[np.ndarray, int, np.ndarray, int]

# Pairs of less than so many samples are forgotten.
SMALLEST = 1e-9


@dataclass(frozen=True)
class Counts:
    """The pairs of the batches so far, and what their ids mean."""

    pairs: Pairs
    count: np.ndarray  # (n_pairs,) int32 or float64
    symbols: np.ndarray  # (n_symbols,) sorted, where they are learnt
    classes: np.ndarray  # (n_classes,) sorted
    closed: np.ndarray | None  # the only classes there can be
    batches: tuple[Counts, ...] = ()  # those of a window, as they were counted

    def join(
        self, batch: Counts, decay: float | None = None
    ) -> tuple[Counts, Callable[[], np.ndarray]]:
        """(counts of both, the new number of each old pair) over all labels of both."""
        symbols = _union("X", self.symbols, batch.symbols)
        classes = _union("y", self.classes, batch.classes)
        pairs, count, place = join_counts(
            self.pairs, self.count, self._numbering(classes, symbols),
            batch.pairs, batch.count, batch._numbering(classes, symbols), decay,
        )  # fmt: skip
        return Counts(pairs, count, symbols, classes, self.closed), place

    def _numbering(self, classes, symbols):
        return (
            encode(self.classes, classes),
            classes.size,
            encode(self.symbols, symbols),
            symbols.size,
        )

    def place_in(self, counts: Counts) -> np.ndarray:
        """The number of each pair among those of other counts, -1 where it is gone."""
        ids = self._numbering(counts.classes, counts.symbols)
        return place_in(self.pairs, ids, counts.pairs)

    def keep(self, window: int) -> tuple[Counts, ...]:
        """The batches so far that a window holds with one more."""
        if not self.batches:
            raise ValueError(
                "window must be given from the first batch on: batches before it were "
                "not kept apart"
            )
        return self.batches[max(0, len(self.batches) - window + 1) :]


def join_batches(batches: tuple[Counts, ...]) -> Counts:
    """The counts of some batches over their labels, from nothing else."""
    symbols, classes = batches[0].symbols, batches[0].classes
    for batch in batches[1:]:
        symbols = _union("X", symbols, batch.symbols)
        classes = _union("y", classes, batch.classes)
    pairs, count = join_parts(
        [(b.pairs, b.count, b._numbering(classes, symbols)) for b in batches]
    )
    small = tuple(replace(b, count=small_counts(b.count)) for b in batches)
    return Counts(pairs, count, symbols, classes, batches[0].closed, small)


def join_parts(
    parts: list[tuple[Pairs, np.ndarray, Numbering]],
) -> tuple[Pairs, np.ndarray]:
    """(pairs, sums) of counts in a common numbering."""
    moved = []
    for pairs, count, ids in parts:
        pairs, place = pairs.renumber(*ids)
        moved.append((pairs, _placed(count, place, pairs.n_pairs)))
    if len(moved) == 1:
        return moved[0]
    tree, index = ContextTree.merge([pairs.tree for pairs, _ in moved])
    return Pairs.merge(tree, [(*part, of_part) for part, of_part in zip(moved, index)])


def join_counts(
    old: Pairs,
    old_count: np.ndarray,
    old_ids: Numbering,
    new: Pairs,
    new_count: np.ndarray,
    new_ids: Numbering,
    decay: float | None = None,
) -> tuple[Pairs, np.ndarray, Callable[[], np.ndarray]]:
    """(pairs, sums, function for the number of each old pair) in a new numbering.

    decay: factor of the old counts. What is then less than `SMALLEST` is left out; its
    number is -1.
    """
    old, old_place = old.renumber(*old_ids)
    new, new_place = new.renumber(*new_ids)
    old_count = _placed(old_count, old_place, old.n_pairs)
    if decay is not None:
        old_count *= float(decay)
    new_count = _placed(new_count, new_place, new.n_pairs)
    tree, (of_old, of_new) = ContextTree.merge([old.tree, new.tree])
    pairs, count = Pairs.merge(
        tree, [(old, old_count, of_old), (new, new_count, of_new)]
    )
    stay = None
    if decay is not None and count[pairs.n_classes :].min(initial=1.0) < SMALLEST:
        whole, (pairs, stay) = pairs, pairs.select(count >= SMALLEST)
        count = count[stay]
    else:
        whole = pairs

    def place():
        at = whole.find(of_old[old.nodes()], old.target)[old_place]
        if stay is None:
            return at
        index = np.full(whole.n_pairs, -1, dtype=np.int32)
        index[stay] = np.arange(stay.size, dtype=np.int32)
        return index[at]

    return pairs, count, place


def place_in(old: Pairs, ids: Numbering, new: Pairs) -> np.ndarray:
    """The number of each old pair among new ones in another numbering.

    -1 where it is not among them, as where one of its ids is gone.
    """
    class_ids, _, symbol_ids, _ = ids
    tree, stays = old.tree, np.ones(old.tree.n_nodes, dtype=bool)
    for k in range(1, tree.n_levels):
        here = tree.level(k)
        stays[here] = stays[tree.parent[here]] & (symbol_ids[tree.symbol[here]] >= 0)
    moved, kept = old.select(stays[old.nodes()] & (class_ids[old.target] >= 0))
    moved, place = moved.renumber(*ids)
    tree, (of_moved, of_new) = ContextTree.merge([moved.tree, new.tree])
    node = np.full(tree.n_nodes, -1, dtype=np.int32)
    node[of_new] = np.arange(of_new.size, dtype=np.int32)
    node = node[of_moved[moved.nodes()]]
    there = np.flatnonzero(node >= 0)
    at = np.full(moved.n_pairs, -1, dtype=np.int32)
    at[there] = new.find(node[there], moved.target[there])
    stays = place >= 0  # the root has the classes that are gone, too
    out = np.full(old.n_pairs, -1, dtype=np.int32)
    out[kept[stays]] = at[place[stays]]
    return out


def check_forgetting(decay: Any, window: Any) -> None:
    """Errors about the arguments of `partial_fit`."""
    if decay is not None and window is not None:
        raise ValueError("decay and window both forget: give one of them")
    if decay is not None and not (isinstance(decay, Real) and 0.0 < decay <= 1.0):
        raise ValueError(f"decay must be above 0 and at most 1, got {decay!r}")
    if window is not None:
        check_count("window", window, 1)


def small_counts(count: np.ndarray) -> np.ndarray:
    """The counts as int32, where that is exact."""
    small = count.astype(np.int32) if count.max(initial=0.0) <= INT32_MAX else count
    return small if np.array_equal(small, count) else count


def _placed(count, place, n):
    out = np.zeros(n)
    there = place >= 0
    if there.all():
        out[place] = count
    else:
        out[place[there]] = count[there]
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
