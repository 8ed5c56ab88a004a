"""Labels that are known when a sequence is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._sequences import check_sequences, is_unknown, items

# A block of the docstrings of methods that take known labels; see `shared_docs`.
GIVEN = """
given : list of sequences, default=None
    Known labels. Each observation has None (unknown; or -1 if labels are integers),
    a label, or a set or list of labels of which one is right; None for a sequence is
    None for all its observations. The answer is exact under this condition.
"""


def restrict(X: list, positions: list, given: Any, class_of: dict) -> list:
    """The candidates of every position that are among the labels given for it.

    Parameters
    ----------
    X : list of sequences
        Shown in messages.

    positions : list of list of (ids, log-factors)
        Candidates of each observation.

    given : list of sequences
        None, a label, or a set or list of labels for each observation; -1 is None
        if labels are integers.

    class_of : dict
        Class id of each label.

    Raises
    ------
    ValueError
        If lengths differ, a label is unknown, a set is empty, or none of the labels
        is possible for the observation.
    """
    given = check_sequences(given, "given", X)
    if len(given) != len(X):
        raise ValueError(f"given has {len(given)} sequences, but X has {len(X)}")
    integers = all(isinstance(c, int) for c in class_of)
    out = []
    for i, (sequence, some, wanted) in enumerate(zip(X, positions, given)):
        if len(wanted) != len(sequence):
            raise ValueError(
                f"given[{i}] has {len(wanted)} entries, but X[{i}] has {len(sequence)}"
            )
        row = []
        for j, (candidates, entry) in enumerate(zip(some, items(wanted))):
            if is_unknown(entry) or (integers and type(entry) is int and entry == -1):
                row.append(candidates)
                continue
            labels = _labels(entry)
            if not labels:
                raise ValueError(
                    f"given[{i}][{j}] is empty: no label is allowed there; None allows "
                    "all"
                )
            for one in labels:
                if one not in class_of:
                    raise ValueError(
                        f"given[{i}][{j}] holds {one!r}, which is not in classes_"
                    )
            ids, factor = candidates
            keep = np.isin(ids, [class_of[one] for one in labels])
            if not (factor[keep] > -np.inf).any():
                raise ValueError(
                    f"given[{i}][{j}]: {entry!r} is not a candidate of the observation "
                    f"{items(sequence)[j]!r:.60}, so that no labelling is possible"
                )
            row.append((ids[keep], factor[keep]))
        out.append(row)
    return out


def _labels(entry):
    if isinstance(entry, set | frozenset | list | np.ndarray):
        return items(entry)
    return [entry]


def check_possible(given: Any, log_proba: Sequence) -> None:
    """A ValueError if the labels given leave a sequence no possible labelling."""
    if given is None:
        return
    for i, value in enumerate(log_proba):
        if value == -np.inf:
            raise ValueError(
                f"given[{i}]: the labels make X[{i}] impossible: every labelling with "
                "them has the probability 0"
            )
