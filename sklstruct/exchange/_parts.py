"""What a file holds of a model: the one place that takes models apart and makes them.

Readers give `Parts` to `assemble`, writers get them from `take_apart`; neither knows
how a `BackoffModel` keeps its arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..backoff import BackoffModel
from ..context_tree import ContextTree


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
    if model.span is not None:
        raise ValueError(
            "model stands on a collapsed tree, which does not hold every context; fit "
            "on a trie (collapse=False) to write it"
        )
    return Parts(
        model.tree,
        model.pair_ptr,
        model.target,
        model.log_prob,
        model.log_backoff,
        model.classes_,
        model.symbols_,
        model.start_,
        model.end_,
        model.unknown_,
    )


def assemble(parts: Parts) -> BackoffModel:
    tree = parts.tree
    return BackoffModel(
        tree.parent,
        tree.symbol,
        tree.level_ptr,
        tree.child_ptr,
        parts.pair_ptr,
        parts.target,
        parts.log_prob,
        parts.log_backoff,
        classes=parts.classes,
        symbols=parts.symbols,
        start=parts.start,
        end=parts.end,
        unknown=parts.unknown,
    )


def pair_pointers(nodes: np.ndarray, n_nodes: int) -> np.ndarray:
    """(n_nodes + 1,) int32: where the pairs of each node begin; `nodes` is sorted."""
    out = np.zeros(n_nodes + 1, dtype=np.int32)
    np.cumsum(np.bincount(nodes, minlength=n_nodes), out=out[1:])
    return out
