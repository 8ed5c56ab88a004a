"""Checks of labels of classes and names of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..symbols import check_ends, is_missing


def is_absent(value: Any) -> bool:
    """Whether a value stands for a missing group, level or parent.

    Missing values are None, NaN, NaT, pandas' NA and "".
    """
    return is_missing(value) or (isinstance(value, str) and value == "")


def as_scalar(label: Any) -> Any:
    """A NumPy scalar as a Python scalar: equal labels are then equal keys of a dict.

    NumPy's dates are not converted: they may have a finer resolution than Python's.
    """
    if isinstance(label, np.generic) and label.dtype.kind not in "mM":
        label = label.item()
    try:
        hash(label)
    except TypeError:
        raise ValueError(
            f"labels and names of nodes must be hashable, got {label!r:.60}; groups of "
            "labels are lists: array.tolist()"
        ) from None
    return label


def as_labels(labels: Any) -> NDArray:
    """1-D array of labels, all strings or all numbers; ValueError for other labels."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "biufUSmM":
        array = labels
    else:
        items = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        gone = [item for item in items if is_missing(item)]
        if gone:
            raise ValueError(f"labels must not be missing, got {gone[0]!r:.60}")
        text = [isinstance(item, str) for item in items]
        if any(text) and not all(text):
            odd = items[text.index(not text[0])]
            raise ValueError(
                f"labels must be all strings or all numbers, got {items[0]!r:.60} and "
                f"{odd!r:.60}"
            )
        check_ends("labels", items)
        array = np.asarray(items)
        if array.dtype.kind not in "biufUSmM" or array.ndim != 1:
            raise ValueError(f"labels must be strings or numbers, got {listed(items)}")
        if array.dtype.kind == "f":  # from floats, or from integers of several types
            given = [*map(as_scalar, items)]
            only_integers = {*map(type, given)} == {int}
            array = np.asarray(given) if only_integers else array
            if array.tolist() != given or (only_integers and array.dtype.kind == "f"):
                raise ValueError(
                    f"labels must fit into 64 bits, got {listed(items)}; use strings"
                )
    if array.ndim != 1:
        raise ValueError(f"labels must be 1-D, got shape {array.shape}")
    if array.dtype.kind in "fmM" and np.isnan(array).any():
        raise ValueError("labels must not be missing, got nan")
    return array


def among(labels: NDArray, classes: NDArray) -> NDArray:
    """Whether each label is one of the classes.

    `np.isin` would find the number 3 among strings, because it converts 3 to "3".
    """
    kinds = {array.dtype.kind for array in (labels, classes)}
    if "O" not in kinds and len({kind in "US" for kind in kinds}) > 1:
        return np.zeros(labels.shape, dtype=bool)
    return np.isin(labels, classes)


def listed(labels: Iterable) -> str:
    """The first five labels as text for an error message."""
    labels = list(labels)
    text = ", ".join(f"{as_scalar(label)!r:.60}" for label in labels[:5])
    more = len(labels) - 5
    return text + (f" and {more} more" if more > 0 else "")
