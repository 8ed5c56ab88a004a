"""Absolute discounts from the counts of counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ._backoff_fast import counts_of_counts

# Discounts of a depth whose counts of counts do not determine them. The three
# are those of KenLM's estimator, the single one is the usual textbook value.
FALLBACK = {"modified": (0.5, 1.0, 1.5), "single": (0.75,)}


def estimate_discounts(
    adjusted: np.ndarray, kind: str, strict: bool, total: Callable | None = None
) -> tuple[tuple[float, ...], str | None]:
    """Discounts from the counts of counts; KneserNeyLM has the formula.

    Parameters
    ----------
    adjusted : float64 ndarray of shape (n_pairs,)
        Adjusted counts of the pairs of one depth.

    kind : {"single", "modified"}

    strict : bool
        As in `discount_problem`.

    total : callable, default=None
        Makes the counts of counts those of a whole tree; see `Pairs.total`.

    Returns
    -------
    discounts : tuple of float
        For counts 1, 2, ...; the last holds for all larger counts too.

    problem : str or None
        Why the discounts are not estimated but those of `FALLBACK`.
    """
    n = np.zeros(5)
    counts_of_counts(adjusted, n)
    n = n if total is None else total(n)
    needed = (1, 2) if kind == "single" else (1, 2, 3)
    for i in needed:
        if n[i] <= 0:
            return FALLBACK[kind], f"no adjusted count is {i}"
    y = n[1] / (n[1] + 2 * n[2])
    found = tuple(i - (i + 1) * y * n[i + 1] / n[i] for i in needed)
    found = (y,) if kind == "single" else found
    problem = discount_problem(found, strict)
    return (found if problem is None else FALLBACK[kind]), problem


def discount_problem(discounts: Sequence[float], strict: bool) -> str | None:
    """What is wrong with discounts for counts 1, 2, ..., or None.

    D_i <= 0 would leave no mass for unseen symbols, D_i > i make probabilities
    negative; without interpolation D_i = i (`strict`) makes them 0.
    """
    for i, d in enumerate(discounts, start=1):
        if not (0 < d < i or (d == i and not strict)):
            bound = "<" if strict else "<="
            return f"the discount of count {i} is {d:.4g}, not in 0 < D {bound} {i}"
    return None
