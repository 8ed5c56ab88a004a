"""Sequences as users hand them in."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._checks import as_floats, check_length
from ..symbols import is_missing


def check_sequences(X: Any, name: str = "X", of: list | None = None) -> list:
    """X as a list of sequences; errors name the parameter.

    of: the sequences of observations, if X holds their labels. None, as a sequence of
    labels, is then one None for each observation.
    """
    one = isinstance(X, str | bytes) or getattr(X, "ndim", 1) == 0
    if one or not isinstance(X, Iterable):
        raise TypeError(f"{name} must be a list of sequences, got {X!r:.60}")
    if hasattr(X, "columns") or isinstance(X, Set | Mapping):
        raise TypeError(f"{name} is a {type(X).__name__}; pass a list of sequences")
    sequences = X.to_pylist() if hasattr(X, "to_pylist") else list(X)
    for i, sequence in enumerate(sequences):
        if isinstance(sequence, list | tuple | np.ndarray):
            continue
        if of is not None and i < len(of) and is_unknown(sequence):
            sequences[i] = [None] * len(of[i])
            continue
        if hasattr(sequence, "to_pylist"):
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


def check_pairs(X: Any, y: Any) -> tuple[list, list]:
    """X and y as lists of sequences of equal lengths."""
    X = check_sequences(X)
    if y is None:
        raise ValueError("y is None, but the labels of every sequence are needed")
    y = check_sequences(y, "y", X)
    if len(X) != len(y):
        raise ValueError(f"y has {len(y)} sequences, but X has {len(X)}")
    for i, (a, b) in enumerate(zip(X, y)):
        if len(a) != len(b):
            raise ValueError(f"y[{i}] has {len(b)} labels, but X[{i}] has {len(a)}")
    return X, y


def check_weights(sample_weight: ArrayLike | None, n: int) -> np.ndarray:
    """Weights of sequences as floats: finite, at least 0, not all 0; None is 1 each."""
    if sample_weight is None:
        return np.ones(n)
    weight = as_floats("sample_weight", sample_weight, 1)
    check_length("sample_weight", weight, n, "one per sequence")
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise ValueError("sample_weight must hold finite numbers of at least 0")
    if not weight.any():
        raise ValueError("sample_weight is 0 for every sequence: nothing is left")
    return weight


def items(sequence: Any) -> list:
    """A sequence as a list of Python's values.

    A scalar of Arrow does not equal a string or a number of Python.
    """
    if hasattr(sequence, "to_pylist"):
        return sequence.to_pylist()
    return sequence.tolist() if isinstance(sequence, np.ndarray) else list(sequence)


def label_ids(name: str, y: list, classes: np.ndarray) -> list[np.ndarray]:
    """Positions of labels in `classes`; -1 if a label is unknown.

    None is an unknown label, and so is -1 if labels are integers.
    """
    code: dict[Any, int] = {c: i for i, c in enumerate(classes.tolist())}
    code[None] = -1
    if classes.dtype.kind in "iu":
        code.setdefault(-1, -1)
    rows = list(map(items, y))
    try:
        flat = np.array([code[one] for row in rows for one in row], dtype=np.int32)
    except KeyError as exc:
        wrong = exc.args[0]
        i = next(i for i, row in enumerate(rows) if any(one not in code for one in row))
        raise ValueError(
            f"{name}[{i}] holds {wrong!r}, which is not in classes_"
        ) from None
    ends = list(itertools.accumulate(map(len, rows), initial=0))
    return [flat[a:b] for a, b in itertools.pairwise(ends)]


def is_unknown(value: Any) -> bool:
    """A missing observation, or an unknown label; a vector with NaN is neither."""
    return not isinstance(value, np.ndarray) and is_missing(value)


def split_sequences(X: Any, lengths: ArrayLike) -> list:
    r"""Split one long sequence into a list of sequences.

    Sequence i is :math:`X[s_i : s_i + \ell_i]` with :math:`s_i = \sum_{j<i} \ell_j`.

    For data in the format of other libraries, which pass all sequences end to end
    and an array of their lengths; that format cannot be cross-validated.

    Parameters
    ----------
    X : sequence or array-like of shape (n_observations, ...)
        Anything that can be sliced.

    lengths : array-like of shape (n_sequences,)
        Non-negative; they add up to ``len(X)``.

    Returns
    -------
    sequences : list
        Slices of X.

    Raises
    ------
    ValueError
        If the lengths are negative or do not add up.

    Examples
    --------
    >>> from sklstruct.hmm import split_sequences
    >>> split_sequences(["the", "cat", "ran", "go"], [3, 1])
    [['the', 'cat', 'ran'], ['go']]
    """
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
        raise ValueError("lengths must be a one-dimensional array of integers")
    if lengths.size and lengths.min() < 0:
        raise ValueError(f"lengths must not be negative, got {int(lengths.min())}")
    if int(lengths.sum()) != len(X):
        raise ValueError(
            f"lengths add up to {int(lengths.sum())}, but X has {len(X)} observations"
        )
    ends = np.cumsum(lengths).tolist()
    return [X[end - n : end] for end, n in zip(ends, lengths.tolist())]
