"""Labels that are known when a sequence is decoded."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..symbols import known_labels


def restrict(X: list, positions: list, given: Any, class_of: dict) -> list:
    """The candidates of every position that are among the labels given for it.

    positions: (ids, log-factors) of the candidates of each observation. class_of: class
    id of each label. ValueError if none of the labels is possible for an observation,
    and as `known_labels`, which explains `given`.
    """
    out = []
    known = known_labels("given", given, X, lambda i, j: class_of)
    for i, (sequence, some, wanted) in enumerate(zip(X, positions, known)):
        row = []
        for j, (candidates, classes) in enumerate(zip(some, wanted)):
            if classes is not None:
                ids, factor = candidates
                keep = np.isin(ids, classes)
                if not (factor[keep] > -np.inf).any():
                    raise ValueError(
                        f"given[{i}][{j}]: {given[i][j]!r} is not a candidate of the "
                        f"observation {list(sequence)[j]!r:.60}, so that no labelling "
                        "is possible"
                    )
                candidates = ids[keep], factor[keep]
            row.append(candidates)
        out.append(row)
    return out
