"""Batches: the running counts of `partial_fit`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._checks import INT32_MAX, check_count, check_real
from ..context_tree import find_pairs, renumber_pairs
from ..symbols import is_nan
from ._counted import Counted, Numbering

# Pairs with a count below this are removed.
SMALLEST = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class ExtendedCounts(Counted):
    """Counts to which a batch was added, for fits that continue from the last fit.

    before: the counts without the batch.
    numbers: the new ids of the labels of `before`.
    weight: sum of the weights of the samples of the batch.
    """

    before: Counted
    numbers: Numbering
    weight: float

    def new_index(self) -> np.ndarray:
        """The new number of each pair of `before`, -1 for a pair that was removed."""
        old, new, ids = self.before.pairs, self.pairs, self.numbers
        class_ids, n_classes, symbol_ids, _ = ids
        tree, stays = old.tree, np.ones(old.tree.n_nodes, dtype=bool)
        for k in range(1, tree.n_levels):
            here = tree.level(k)
            known = symbol_ids[tree.symbol[here]] >= 0
            stays[here] = known & stays[tree.parent[here]]
        moved, kept = old.select(stays[old.nodes()] & (class_ids[old.target] >= 0))
        moved = renumber_pairs(moved, *ids)
        node = moved.tree.nodes_in(new.tree)[moved.nodes()]
        at = find_pairs(new.ptr, new.target, node, moved.target)
        out = np.full(old.n_pairs, -1, dtype=np.int32)
        # The root of `before` also has pairs of the removed classes.
        seen = np.flatnonzero(class_ids >= 0)
        out[seen] = at[class_ids[seen]]
        out[kept[old.n_classes :]] = at[n_classes:]
        return out


class Batches(NamedTuple):
    """The counts of the batches so far.

    Counts are stored as int32, if that is exact.
    """

    counted: Counted
    last: tuple[Counted, ...]  # counts of each batch of a window; empty without window
    fixed_classes: bool  # True: later batches must not have new classes
    settings: dict[str, Any]  # of `read_settings`, equal for all batches


def add_batch(
    before: Batches | None,
    batch: Counted,
    settings: dict[str, Any],
    *,
    decay: float | None = None,
    window: int | None = None,
    fixed_classes: bool = False,
) -> tuple[Counted, Batches]:
    """The counts to fit, and the batches so far; `before` is None in the first call.

    decay: factor of the earlier counts. window: number of the last batches, including
    this batch, that are counted.
    """
    if before is None:
        batch.check_mergeable()
        small = _compact(batch)
        last = () if window is None else (small,)
        return batch, Batches(small, last, fixed_classes, settings)
    last = ()
    if window is None:
        old = before.counted if decay is None else decayed(before.counted, decay)
        counted = Counted.merge([old, batch])
    elif not before.last:
        raise ValueError(
            "window must be given from the first batch on: earlier batches were "
            "not kept apart"
        )
    else:
        kept = before.last[max(0, len(before.last) - window + 1) :]
        last = (*kept, _compact(batch))
        counted = Counted.merge(last)
    extended = ExtendedCounts(
        **vars(counted),
        before=before.counted,
        numbers=before.counted.numbering(counted.labels),
        weight=float(batch.count[: batch.labels.n_classes].sum()),
    )
    return extended, before._replace(counted=_compact(counted), last=last)


def read_settings(
    model: Any, names: Iterable[str], before: Batches | None = None
) -> dict[str, Any]:
    """The parameters that change the counts; ValueError if one of them was changed
    after the first batch."""
    settings = {name: getattr(model, name) for name in names}
    for name, value in settings.items():
        if isinstance(value, Iterable) and not isinstance(value, str | bytes):
            settings[name] = value = list(value)
        last = value if before is None else before.settings[name]
        if value != last and not (is_nan(value) and is_nan(last)):
            raise ValueError(
                f"{name} was changed after the first batch, and all batches must be "
                f"counted in one way; set {name} back, or call fit"
            )
    return settings


def decayed(counted: Counted, factor: float) -> Counted:
    """All counts times a factor, without pairs whose count is then below 1e-9.

    All classes stay.
    """
    count = counted.count * float(factor)
    pairs, kept = counted.pairs.select(count >= SMALLEST)
    return replace(counted, pairs=pairs, count=count[kept])


def _compact(counted):
    """The counts without further data, as int32 if that is exact."""
    count = counted.count
    if count.dtype != np.int32 and count.max(initial=0.0) <= INT32_MAX:
        small = count.astype(np.int32)
        count = small if np.array_equal(small, count) else count
    depths = counted.max_depth, counted.depth
    return Counted(counted.pairs, count, counted.labels, *depths)


def check_forgetting(decay: Any, window: Any) -> None:
    """Check the arguments `decay` and `window` of `partial_fit`."""
    if decay is not None and window is not None:
        raise ValueError("decay and window both forget: give one of them")
    if decay is not None:
        check_real("decay", decay, "(0, 1]")
    if window is not None:
        check_count("window", window, 1)
