"""Penalties of the log-linear model: one idea a file, objects with `bind`."""

from ._base import BoundPenalty, Penalty, ProximalPenalty, proximal_step
from ._separable import L1, L2, ElasticNet, Separable
from ._tree_l2 import TreeL2
from ._tree_linf import TreeLinf

# The names that the estimator's parameter takes.
PENALTIES: dict[str, type[Penalty]] = {
    "l1": L1,
    "l2": L2,
    "elastic_net": ElasticNet,
    "tree_l2": TreeL2,
    "tree_linf": TreeLinf,
}

__all__ = [
    "L1",
    "L2",
    "PENALTIES",
    "BoundPenalty",
    "ElasticNet",
    "Penalty",
    "ProximalPenalty",
    "Separable",
    "TreeL2",
    "TreeLinf",
    "proximal_step",
]
