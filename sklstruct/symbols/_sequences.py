"""Checks of sequences that users pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from .._checks import INT32_MAX
from ._encoding import DATES, is_missing, plain, plain_items
from ._text import plain_list


def check_sequences(X: Any, name: str = "X", of: list | None = None) -> list:
    """X as a list of sequences; errors name the parameter.

    of: the sequences of observations, if X holds their labels. None as a sequence of
    labels then means None for each observation.
    """
    one = isinstance(X, str | bytes) or getattr(X, "ndim", 1) == 0
    if one or not isinstance(X, Iterable):
        raise TypeError(f"{name} must be a list of sequences, got {X!r:.60}")
    refuse_frame(name, X)
    sequences = X.to_pylist() if hasattr(X, "to_pylist") else list(X)
    for i, sequence in enumerate(sequences):
        if isinstance(sequence, list | tuple | np.ndarray):
            continue
        refuse_table(f"{name}[{i}]", sequence)
        if of is not None and i < len(of) and is_unknown(sequence):
            sequences[i] = [None] * len(of[i])
            continue
        if hasattr(sequence, "to_pylist") or hasattr(sequence, "as_py"):
            sequences[i] = items(sequence)
            continue
        if isinstance(sequence, Set | Mapping):
            raise TypeError(
                f"{name}[{i}] is a {type(sequence).__name__}, which has no order of "
                "positions; pass a list"
            )
        if isinstance(sequence, str | bytes):
            raise TypeError(
                f"{name}[{i}] is a string; pass its symbols, for example "
                f"{name}[{i}].split()"
            )
        if not hasattr(sequence, "__len__") or not isinstance(sequence, Iterable):
            raise TypeError(
                f"{name}[{i}] is not a sequence: {name} must be a list of sequences, "
                f"one per sentence, got {sequence!r:.60}"
            )
    return sequences


def refuse_frame(name: str, X: Any) -> None:
    """TypeError for a data frame, set or mapping in the place of a list."""
    if hasattr(type(X), "columns") or isinstance(X, Set | Mapping):
        raise TypeError(f"{name} is a {type(X).__name__}; pass a list of sequences")


def refuse_table(name: str, sequence: Any) -> None:
    """TypeError for a data frame or sparse matrix, whose items are not its rows."""
    if hasattr(type(sequence), "columns"):  # an item of a Series may have this name
        remedy = (
            f"{name}.to_numpy() for rows of numbers; for rows of named features "
            f"{name}.to_dict('records') with pandas, {name}.to_dicts() with polars"
        )
    elif hasattr(sequence, "tocsr"):
        remedy = f"{name}.toarray()"
    else:
        return
    raise TypeError(f"{name} is a {type(sequence).__name__}; pass {remedy}")


def check_pairs(X: Any, y: Any) -> tuple[list, list]:
    """X as a list of sequences, and y as lists of Python's values of equal lengths."""
    X = check_sequences(X)
    if y is None:
        raise ValueError("y is None, but the labels of every sequence are needed")
    y = check_sequences(y, "y", X)
    if len(X) != len(y):
        raise ValueError(f"y has {len(y)} sequences, but X has {len(X)}")
    for i, (a, b) in enumerate(zip(X, y)):
        if len(a) != len(b):
            raise ValueError(f"y[{i}] has {len(b)} labels, but X[{i}] has {len(a)}")
    return X, list(map(items, y))


def count_right(
    found: Iterable, y: Iterable, classes: np.ndarray
) -> tuple[list[int], list[int]]:
    """For each sequence the numbers of right and of known labels.

    None is an unknown label, and so is -1 if the classes are integers without -1.
    """
    marked = classes.dtype.kind in "iu" and -1 not in classes
    right, size = [], []
    for row, true in zip(found, y):
        known = [(a, b) for a, b in zip(row, true) if b is not None]
        if any(is_unknown(b) for _, b in known):
            raise ValueError("y holds NaN; an unknown label of y is None")
        known = [(a, b) for a, b in known if not (marked and b == -1)]
        right.append(sum(a == b for a, b in known))
        size.append(len(known))
    return right, size


def share_right(
    right: Iterable[float], size: Iterable[float], weight: np.ndarray
) -> float:
    """Weighted share of the labels of sequences that are right.

    right, size: numbers of the labels of each sequence that are right, and of all.
    """
    right, size = (np.fromiter(each, np.float64, weight.size) for each in (right, size))
    total = weight @ size
    if not total:
        raise ValueError("y has no known label: there is nothing to score")
    return float(weight @ right / total)


def items(sequence: Any) -> list:
    """A sequence as a new list of Python's values, of dates with their precision."""
    if isinstance(sequence, np.ndarray):
        return plain_items(sequence)
    values = list(plain_list(sequence))
    # Calling `plain` for each value would slow down a fit noticeably.
    kinds = [k for k in set(map(type, values)) if issubclass(k, np.generic)]
    if not kinds:
        return values
    if any(issubclass(k, DATES) for k in kinds):
        return list(map(plain, values))
    return [v.item() if isinstance(v, np.generic) else v for v in values]


def label_ids(y: list[list], classes: np.ndarray) -> list[np.ndarray]:
    """Positions of labels in `classes`; -1 if a label is unknown.

    None is an unknown label, and so is -1 if labels are integers.
    """
    code: dict[Any, int] = {c: i for i, c in enumerate(classes.tolist())}
    code[None] = -1
    if classes.dtype.kind in "iu":
        code.setdefault(-1, -1)
    try:
        flat = np.array([code[one] for row in y for one in row], dtype=np.int32)
    except KeyError as exc:
        wrong = exc.args[0]
        i = next(i for i, row in enumerate(y) if any(one not in code for one in row))
        raise ValueError(f"y[{i}] holds {wrong!r}, which is not in classes_") from None
    ends = list(itertools.accumulate(map(len, y), initial=0))
    return [flat[a:b] for a, b in itertools.pairwise(ends)]


def is_unknown(value: Any) -> bool:
    """A missing observation, or an unknown label; a vector with NaN is neither."""
    return not isinstance(value, np.ndarray) and is_missing(value)


# A block of the docstrings of methods that take known labels; see `shared_docs`.
GIVEN = """
given : list of sequences, default=None
    Known labels. Each observation has None (unknown; or -1 if labels are integers),
    a label, or a set or list of labels of which one is right; None for a sequence means
    None for all its observations. The result is exact given this condition.
"""

# The same for methods that draw labels.
DRAWS = """
n_samples : int, default=1
    Draws for each entry of X, at least 1.

random_state : int, RandomState, Generator or None, default=None
    Source of a seed for each entry of X, so that draws do not depend on `n_jobs`.
"""


# Types of several labels of which one is right.
_SEVERAL = (set, frozenset, list, np.ndarray)


def known_labels(
    name: str,
    given: Any,
    X: list,
    code_of: Callable[[int, int], dict],
    own: Callable[[int, int, Any], int | None] | None = None,
) -> list[list[list[int] | None]]:
    """For each item None (unknown), or the numbers of the allowed labels.

    name: parameter that holds the labels, for messages.
    given: None, a label, or a set or list of labels for each item; -1 is None if labels
    are integers and it is not one of them. X: the sequences.
    code_of: (number of a sequence, of an item) -> numbers of its labels.
    own: (the same, another label) -> its number, or None if it is unknown.

    ValueError if lengths differ, a label is unknown, or a set is empty.
    """
    given = check_sequences(given, name, X)
    if len(given) != len(X):
        raise ValueError(f"{name} has {len(given)} sequences, but X has {len(X)}")
    integers: dict[int, bool] = {}  # by the id of a dictionary
    out: list[list[list[int] | None]] = []
    for i, (sequence, wanted) in enumerate(zip(X, given)):
        if len(wanted) != len(sequence):
            raise ValueError(
                f"{name}[{i}] has {len(wanted)} entries, but X[{i}] has {len(sequence)}"
            )
        row: list[list[int] | None] = []
        for j, entry in enumerate(items(wanted)):
            code = code_of(i, j)
            if id(code) not in integers:
                integers[id(code)] = all(isinstance(c, int) for c in code)
            if is_unknown(entry) or (
                type(entry) is int
                and entry == -1
                and integers[id(code)]
                and entry not in code
            ):
                row.append(None)
                continue
            labels = items(entry) if isinstance(entry, _SEVERAL) else [entry]
            if not labels:
                raise ValueError(
                    f"{name}[{i}][{j}] is empty: no label is allowed there; None "
                    "allows all"
                )
            codes: list[int] = []
            for one in labels:
                try:
                    found = code.get(one)
                except TypeError:  # not hashable
                    found = None
                if found is None and own is not None:
                    found = own(i, j, one)
                if found is None:
                    shown = ", ".join(repr(c) for c in list(code)[:5])
                    more = ", ..." if len(code) > 5 else ""
                    raise ValueError(
                        f"{name}[{i}][{j}] holds {one!r:.60}, which is not in the "
                        f"labels that are possible there ({shown}{more})"
                    )
                codes.append(found)
            row.append(codes)
        out.append(row)
    return out


def check_possible(given: Any, log_proba: Sequence) -> None:
    """ValueError if the given labels leave a sequence without a possible labelling."""
    if given is None:
        return
    for i, value in enumerate(log_proba):
        if value == -np.inf:
            raise ValueError(
                f"given[{i}]: the labels make X[{i}] impossible: every labelling with "
                "them has the probability 0"
            )


def check_draws(n_samples: int, length: int) -> None:
    """ValueError if the samples of a sequence have too many labels."""
    if n_samples * length > INT32_MAX:
        raise ValueError(
            f"n_samples={n_samples} of a sequence of {length} items are more than "
            f"{INT32_MAX} labels; draw fewer at a time"
        )
