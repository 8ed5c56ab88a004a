"""Candidates: the classes that a sentence allows at each position, in flat arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .._checks import as_floats, as_ids, check_ids, check_length
from ..symbols import check_sequences, items, known_labels


class Candidates(NamedTuple):
    """The possible classes of each position, with their observation factors.

    If the model has an end mark, it is the only candidate of the last position.
    """

    ptr: np.ndarray  # (n_positions + 1,) int64
    ids: np.ndarray  # int32 class ids, distinct within a position
    log_factor: np.ndarray  # float64 log p(o | x), finite
    length: int  # positions of the sentence itself, without the end
    shift: float = 0.0  # what `make_candidates` took from the factors of each path

    @property
    def n_positions(self) -> int:
        """Number of positions, including the end."""
        return len(self.ptr) - 1

    @property
    def width(self) -> int:
        """Largest number of candidates of a position."""
        return int((self.ptr[1:] - self.ptr[:-1]).max(initial=0))

    def classes(self, path: np.ndarray) -> np.ndarray:
        """Class ids of a path of candidate indices, without the end."""
        return self.ids[self.ptr[: self.length] + path[: self.length]]


def check_candidates(
    source: str, observation: Any, found: Any, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """(ids, log-factors) of one observation, as arrays that the kernels may read.

    ValueError, with the parameter `source` and the observation, if `found` is not a
    pair of arrays of one length, ids are not in 0..n-1, each at most once, or a
    log-factor is NaN or +inf.
    """
    try:
        try:
            ids, factor = found
        except (TypeError, ValueError):
            kind = type(found).__name__
            raise ValueError(
                f"must give a pair (ids, log-factors), got {kind}"
            ) from None
        ids, factor = as_ids("ids", ids, 1), as_floats("log-factors", factor)
        check_length("log-factors", factor, len(ids), "one for each id")
        check_ids("ids", ids, 0, n, "candidate")
        # The maximum is NaN if any number is NaN.
        if not factor.max(initial=-np.inf) < np.inf:
            raise ValueError("log-factors must be finite or -inf, got NaN or +inf")
        if (ids[1:] <= ids[:-1]).any():
            ordered = np.sort(ids)
            twice = ordered[1:][ordered[1:] == ordered[:-1]]
            if twice.size:
                raise ValueError(f"ids must differ, got {twice[0]} more than once")
    except ValueError as exc:
        raise ValueError(f"{source}: candidates of {observation!r:.60}: {exc}") from exc
    return ids, factor


def candidate_rows(emission: Any, X: list, n: int) -> list:
    """`check_candidates` for each observation of each sequence; None is allowed.

    Rows of the right types are checked together, because checking each row would take
    as long as decoding.
    """
    rows = emission.candidates(X)
    for i, (sequence, some) in enumerate(zip(X, rows, strict=True)):
        if len(some) != len(sequence):
            raise ValueError(
                f"emission: candidates of {len(some)} observations for X[{i}], which "
                f"has {len(sequence)}"
            )
    # Equal symbols share a row.
    rows_of = {id(row): row for some in rows for row in some if row is not None}
    found = list(rows_of.values())
    if all(map(_is_pair, found)):
        ids = np.concatenate([_NO_IDS, *(row[0] for row in found)])
        factor = np.concatenate([_NO_FACTORS, *(row[1] for row in found)])
        rising = np.diff(ids, prepend=-1) > 0
        first = np.cumsum([0, *(len(row[0]) for row in found)], dtype=np.int64)
        rising[first[first < len(ids)]] = True
        inside = ids.min(initial=0) >= 0 and ids.max(initial=-1) < n
        if inside and rising.all() and factor.max(initial=-np.inf) < np.inf:
            return list(rows)
    return [
        [
            row if row is None else check_candidates("emission", observation, row, n)
            for observation, row in zip(sequence, some)
        ]
        for sequence, some in zip(X, rows)
    ]


_NO_IDS, _NO_FACTORS = np.empty(0, dtype=np.int32), np.empty(0)


def _is_pair(row):
    """True for a pair of arrays of the kernels' types and of one length."""
    ids, factor = row if type(row) is tuple and len(row) == 2 else (None, None)
    return (
        type(ids) is type(factor) is np.ndarray
        and ids.dtype == np.int32
        and factor.dtype == np.float64
        and ids.ndim == 1
        and ids.shape == factor.shape
    )


def make_candidates(positions: Iterable, end_class: int) -> Candidates:
    """Candidates of a list of (class ids, log factors); impossible ones left out.

    Beside log-factors of -1e18, as those of an outlier, sums would lose the digits of
    transitions: then the largest factor of each position is taken from all of them.
    Factors whose sums keep 8 decimals stay as they are.
    """
    rows = list(positions)
    length = len(rows)
    if end_class >= 0:
        rows.append((np.array([end_class], dtype=np.int32), np.zeros(1)))
    # At least one entry, because the kernels take addresses.
    ids = np.concatenate([row[0] for row in rows] or [[0]], dtype=np.int32)
    factor = np.concatenate([row[1] for row in rows] or [[0.0]], dtype=np.float64)
    ptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row[0]) for row in rows], out=ptr[1:])
    possible = factor > -np.inf
    if rows and not possible.all():
        ptr = np.concatenate([[0], np.cumsum(possible)])[ptr]
        ids, factor = ids[possible], factor[possible]
    if factor.min(initial=0.0) > -1e6:
        return Candidates(ptr, ids, factor, length)
    position = np.repeat(np.arange(len(rows)), np.diff(ptr))
    largest = np.full(len(rows), -np.inf)
    np.maximum.at(largest, position, factor)
    shift = float(largest.sum())
    return Candidates(ptr, ids, factor - largest[position], length, shift)


def restrict(
    X: list, positions: list, given: Any, class_of: dict, unknown: int
) -> list:
    """The candidates of every position that are among the labels given for it.

    positions: (ids, log-factors) of the candidates of each observation. class_of: class
    id of each label. unknown: class id of unknown words, which are named by the
    observation; or -1. ValueError if none of the given labels is possible for an
    observation, and as in `known_labels`, which explains `given`.
    """
    out = []
    given = check_sequences(given, "given", X)

    def itself(i: int, j: int, label: Any) -> int | None:
        same = unknown in positions[i][j][0] and label == list(X[i])[j]
        return unknown if same else None

    known = known_labels("given", given, X, lambda i, j: class_of, itself)
    for i, (sequence, some, wanted) in enumerate(zip(X, positions, known)):
        row = []
        for j, (candidates, classes) in enumerate(zip(some, wanted)):
            if classes is not None:
                ids, factor = candidates
                keep = np.isin(ids, classes)
                if not (factor[keep] > -np.inf).any():
                    raise ValueError(
                        f"given[{i}][{j}]: {items(given[i])[j]!r} is not a candidate "
                        f"of the observation {list(sequence)[j]!r:.60}, so that no "
                        "labelling is possible"
                    )
                candidates = ids[keep], factor[keep]
            row.append(candidates)
        out.append(row)
    return out


class Decoded(NamedTuple):
    """The best path of a sentence, its score, gap and effort."""

    path: np.ndarray  # (length,) class ids; empty if the sentence is impossible
    log_proba: float  # joint, of path and observations; -inf if none is possible
    gap: float  # upper bound of the score of any better path, minus log_proba
    n_iterations: int  # of the refinement; 0 for the lattice
    n_states: int

    @property
    def upper(self) -> float:
        """Upper bound of all scores."""
        if self.log_proba == -np.inf and self.gap == 0.0:
            return -np.inf  # no path is possible
        return self.log_proba + self.gap if self.log_proba > -np.inf else np.inf

    def nearer(self, other: Decoded) -> Decoded:
        """The better path of two results, with the smaller of their upper bounds."""
        best = other if other.log_proba >= self.log_proba else self
        upper = min(self.upper, other.upper)
        gap = max(upper - best.log_proba, 0.0) if upper > -np.inf else 0.0
        return Decoded(
            best.path, best.log_proba, gap,
            self.n_iterations + other.n_iterations, max(self.n_states, other.n_states),
        )  # fmt: skip
