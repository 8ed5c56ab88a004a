"""Proximal operators and norms of structured penalties."""

from ._tree_prox import (
    norm_tree_l2,
    norm_tree_linf,
    prox_tree_l2,
    prox_tree_linf,
)

__all__ = [
    "norm_tree_l2",
    "norm_tree_linf",
    "prox_tree_l2",
    "prox_tree_linf",
]
