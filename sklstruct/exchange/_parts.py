"""Parts of a model that files hold: models are taken apart and made here alone.

Readers give `Parts` to `assemble`, writers get them from `take_apart`; neither knows
how a `BackoffModel` keeps its arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..backoff import BackoffModel
from ..context_tree import ContextTree, pairs_of_arrays
from ..symbols import Labels


class Parts(NamedTuple):
    """Tree, pairs, numbers and labels of a back-off model."""

    tree: ContextTree
    pair_ptr: np.ndarray  # (n_nodes + 1,) int32
    target: np.ndarray  # (n_pairs,) int32
    log_prob: np.ndarray  # (n_pairs,)
    log_backoff: np.ndarray  # (n_nodes,)
    classes: np.ndarray
    symbols: np.ndarray | None
    start: Any
    end: Any
    unknown: Any


def take_apart(model: BackoffModel) -> Parts:
    if not isinstance(model, BackoffModel):
        raise ValueError(
            f"model must be a BackoffModel, got {type(model).__name__}; a fitted "
            "language model holds one as backoff_model_"
        )
    pairs, labels = model.pairs, model.labels
    return Parts(
        model.tree,
        pairs.ptr,
        pairs.target,
        model.log_prob,
        model.log_backoff,
        labels.classes,
        labels.symbols,
        labels.start,
        labels.end,
        labels.unknown,
    )


def assemble(parts: Parts) -> BackoffModel:
    labels = Labels(
        parts.classes,
        parts.symbols,
        start=parts.start,
        end=parts.end,
        unknown=parts.unknown,
    )
    pairs = pairs_of_arrays(parts.tree, parts.pair_ptr, parts.target)
    return BackoffModel(pairs, parts.log_prob, parts.log_backoff, labels)
