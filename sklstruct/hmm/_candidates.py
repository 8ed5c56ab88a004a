"""Candidates: what a sentence allows at each position, as flat arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Candidates(NamedTuple):
    """Classes that each position may have, with their observation factors.

    Where the model has an end mark, the last position holds it alone.
    """

    ptr: np.ndarray  # (n_positions + 1,) int64
    ids: np.ndarray  # int32 class ids, distinct within a position
    log_factor: np.ndarray  # float64 log p(o | x), finite
    length: int  # positions of the sentence itself, without the end

    @property
    def n_positions(self) -> int:
        """Positions with the end."""
        return len(self.ptr) - 1

    @property
    def width(self) -> int:
        """Largest number of candidates of a position."""
        return int(np.diff(self.ptr).max(initial=0))


def make_candidates(positions: Iterable, end_class: int) -> Candidates:
    """Candidates of a list of (class ids, log factors); impossible ones left out."""
    ids, factors = [], []
    for some, factor in positions:
        some = np.asarray(some, dtype=np.int32)
        factor = np.asarray(factor, dtype=np.float64)
        possible = factor > -np.inf
        if not possible.all():
            some, factor = some[possible], factor[possible]
        ids.append(some)
        factors.append(factor)
    length = len(ids)
    if end_class >= 0:
        ids.append(np.array([end_class], dtype=np.int32))
        factors.append(np.zeros(1))
    ptr = np.zeros(len(ids) + 1, dtype=np.int64)
    np.cumsum([len(i) for i in ids], out=ptr[1:])
    # One entry at least: the kernels take addresses.
    return Candidates(
        ptr,
        np.concatenate(ids or [np.zeros(1, dtype=np.int32)]),
        np.concatenate(factors or [np.zeros(1)]),
        length,
    )


class Decoded(NamedTuple):
    """The best path of a sentence and what is known about it."""

    path: np.ndarray  # (length,) class ids; empty where the sentence is impossible
    log_proba: float  # joint log-probability of path and observations, -inf: none
    gap: float  # certified: no path is better by more than this
    n_iterations: int  # of the refinement; 0 for the lattice
    n_states: int
