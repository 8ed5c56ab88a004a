"""Absolute discounts: estimated from counts of counts, given, or replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._checks import as_numbers
from .._warnings import FallbackWarning, warn
from ._backoff_fast import counts_of_counts

# Discounts of a depth whose counts of counts do not determine discounts. The three
# values are from KenLM's estimator, the single value is the usual textbook value.
FALLBACK = {"modified": (0.5, 1.0, 1.5), "single": (0.75,)}


def modified_discounts(
    adjusted: np.ndarray, total: Callable | None = None
) -> np.ndarray:
    """The three discounts of adjusted counts of one depth, or the discounts of
    `FALLBACK`.

    total: sums the counts of counts over the parts of a tree; see `Pairs.total`.
    """
    n = np.zeros(5)
    counts_of_counts(adjusted, n)
    return np.array(_estimated(n if total is None else total(n), "modified", False)[0])


def _estimated(n, kind, strict):
    """(discounts for counts 1, 2, ..., the last also for all larger counts; the reason
    why `FALLBACK` is used, or None)."""
    needed = (1, 2) if kind == "single" else (1, 2, 3)
    for i in needed:
        if n[i] <= 0:
            return FALLBACK[kind], f"no adjusted count is {i}"
    found = discounts_of_counts(n, kind)
    problem = discount_problem(found, strict)
    return (found if problem is None else FALLBACK[kind]), problem


def discounts_of_counts(n: np.ndarray, kind: str) -> tuple[float, ...]:
    """Discounts from the counts of counts n[1], n[2], ..., in the precision of n."""
    y = n[1] / (n[1] + 2 * n[2])
    if kind == "single":
        return (y,)
    return tuple(i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3))


def discount_problem(discounts: Sequence[float], strict: bool) -> str | None:
    """The reason why discounts for counts 1, 2, ... are not valid, or None.

    D_i <= 0 would leave no mass for unseen symbols, and D_i > i would make
    probabilities negative. Without interpolation (`strict`), D_i = i would make
    probabilities 0.
    """
    for i, d in enumerate(discounts, start=1):
        if not (0 < d < i or (d == i and not strict)):
            bound = "<" if strict else "<="
            return f"the discount of count {i} is {d:.4g}, not in 0 < D {bound} {i}"
    return None


def check_discount(discount: Any, strict: bool, by_depth: bool = False) -> None:
    """Check the parameter `discount` beyond its declared types.

    by_depth: True if there may be a row for each depth.
    """
    if isinstance(discount, str):
        return
    given = as_numbers("discount", discount)
    if given.size == 0 or given.ndim > (2 if by_depth else 1):
        rows = ", or a row of them for each depth" if by_depth else ""
        raise ValueError(
            "discount must be one number, or a sequence with one for each of the "
            f"counts 1, 2, ...{rows}; got shape {given.shape}"
        )
    for row in np.atleast_2d(given):
        problem = discount_problem(row, strict)
        if problem:
            hint = " (because interpolate=False)" if strict else ""
            raise ValueError(f"discount={discount!r:.60}: {problem}{hint}")


def find_discounts(
    discount: Any,
    levels: list[np.ndarray],
    strict: bool,
    owner: str,
    first_depth: int = 0,
    total: Callable | None = None,
) -> np.ndarray:
    """Discounts of each depth, with one warning for all replaced discounts.

    discount: the parameter of the smoothers.
    levels: adjusted counts of the pairs of each depth, from `first_depth` on.
    owner: name of the estimator in the warning.

    `strict` is as in `discount_problem`, `total` as in `modified_discounts`.
    """
    if not isinstance(discount, str):
        given = np.atleast_2d(np.asarray(discount, dtype=np.float64))
        depths = first_depth + np.arange(len(levels))
        return given[np.minimum(depths, len(given) - 1)]
    n = np.zeros((len(levels), 5))
    for row, adjusted in zip(n, levels):
        counts_of_counts(adjusted, row)
    if total is not None:
        n = total(n)
    rows, problems = [], []
    for depth, of_depth in enumerate(n, start=first_depth):
        row, problem = _estimated(of_depth, discount, strict)
        if problem:
            problems.append(f"depth {depth}: {problem}")
        rows.append(row)
    if problems:
        fallback = ", ".join(f"{d:g}" for d in FALLBACK[discount])
        fallback = f"({fallback})" if "," in fallback else fallback
        warn(
            f"{owner}: counts of counts do not give discount={discount!r:.60} "
            f"({'; '.join(problems)}). This is usual for small or closed-vocabulary "
            f"data. The fallback {fallback} is used there; pass discount={fallback} "
            "to use it everywhere, without this warning",
            FallbackWarning,
        )
    # A model without contexts may have no level to discount.
    return np.array(rows).reshape(-1, len(FALLBACK[discount]))
