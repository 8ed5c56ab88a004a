"""Absolute discounts: estimated from counts of counts, given, or replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._warnings import warn
from ..backoff._discounts import FALLBACK, discount_problem, estimate_discounts
from . import _smoothing_fast as _fast


def check_discount(discount: Any, strict: bool, by_depth: bool = False) -> None:
    """Errors about the parameter `discount` beyond its declared types.

    by_depth: whether there may be a row for each depth.
    """
    if isinstance(discount, str):
        return
    try:
        given = np.atleast_1d(np.asarray(discount, dtype=np.float64))
    except (TypeError, ValueError) as exc:
        raise ValueError(f"discount must be numbers, got {discount!r}") from exc
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
            raise ValueError(f"discount={discount!r}: {problem}{hint}")


def find_discounts(
    discount: Any,
    levels: list[np.ndarray],
    strict: bool,
    owner: str,
    first_depth: int = 0,
    total: Callable | None = None,
) -> np.ndarray:
    """Discounts of each depth, with one warning for all that were replaced.

    Parameters
    ----------
    discount : "modified", "single", float, sequence of float, or rows by depth

    levels : list of float64 ndarray
        Adjusted counts of the pairs of each depth.

    strict : bool
        As `discount_problem`.

    owner : str
        Who warns.

    first_depth : int
        Depth of the first of `levels`.

    total : callable, default=None
        As `estimate_discounts`, for depths above 0.

    Returns
    -------
    discounts : float64 ndarray of shape (n_levels, n_discounts)
    """
    if not isinstance(discount, str):
        given = np.atleast_2d(np.asarray(discount, dtype=np.float64))
        depths = first_depth + np.arange(len(levels))
        return given[np.minimum(depths, len(given) - 1)]
    rows, problems = [], []
    for depth, adjusted in enumerate(levels, start=first_depth):
        row, problem = estimate_discounts(
            adjusted, discount, strict, total if depth else None
        )
        if problem:
            problems.append(f"depth {depth}: {problem}")
        rows.append(row)
    if problems:
        fallback = ", ".join(f"{d:g}" for d in FALLBACK[discount])
        fallback = f"({fallback})" if "," in fallback else fallback
        warn(
            f"{owner}: counts of counts do not give discount={discount!r} "
            f"({'; '.join(problems)}). Small or closed-vocabulary data do this. The "
            f"fallback {fallback} is used there; pass discount={fallback} to have it "
            "everywhere, without this warning",
            UserWarning,
            stacklevel=2,
        )
    # A model without contexts may have no level to discount.
    return np.array(rows).reshape(-1, len(FALLBACK[discount]))


def discount_vector(
    counts: np.ndarray, discounts: np.ndarray
) -> tuple[np.ndarray, float]:
    """((c - D(c)) / n of each count c, the mass that was taken off in all)."""
    own, held = np.empty(counts.size), np.empty(1)
    ptr = np.array([0, counts.size], dtype=np.int32)
    _fast.discount(ptr, 0, 1, counts, discounts, own, held)
    return own, float(held[0])
