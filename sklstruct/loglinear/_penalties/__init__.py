"""Penalties of the log-linear model: one idea per file, objects with `bind`."""

from ..._penalties import L1 as L1
from ..._penalties import L2 as L2
from ..._penalties import ElasticNet as ElasticNet
from ..._penalties import Penalty as Penalty
from ..._penalties import Separable as Separable
from ._base import BoundPenalty as BoundPenalty
from ._base import ProximalPenalty as ProximalPenalty
from ._base import proximal_step as proximal_step
from ._separable import conjugate_of_squares as conjugate_of_squares
from ._tree_l2 import TreeL2 as TreeL2
from ._tree_linf import TreeLinf as TreeLinf

# The names that the estimator's parameter takes.
PENALTIES: dict[str, type[Penalty]] = {
    "l1": L1,
    "l2": L2,
    "elastic_net": ElasticNet,
    "tree_l2": TreeL2,
    "tree_linf": TreeLinf,
}
