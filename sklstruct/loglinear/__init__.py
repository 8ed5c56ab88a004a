"""Log-linear language models with structured penalties."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from .._checkpoint import Checkpoint as Checkpoint
    from ._cv import StructuredLogLinearLMCV as StructuredLogLinearLMCV
    from ._estimator import StructuredLogLinearLM as StructuredLogLinearLM
    from ._joint import JointLogLinear as JointLogLinear
    from ._path import lam_max as lam_max
    from ._path import lam_path as lam_path
    from ._penalties import L1 as L1
    from ._penalties import L2 as L2
    from ._penalties import PENALTIES
    from ._penalties import BoundPenalty as BoundPenalty
    from ._penalties import ElasticNet as ElasticNet
    from ._penalties import Penalty as Penalty
    from ._penalties import ProximalPenalty as ProximalPenalty
    from ._penalties import TreeL2 as TreeL2
    from ._penalties import TreeLinf as TreeLinf
    from ._solvers import ActiveSetSolver as ActiveSetSolver
    from ._solvers import AutoSolver as AutoSolver
    from ._solvers import DiagonalSolver as DiagonalSolver
    from ._solvers import FistaSolver as FistaSolver
    from ._solvers import Solver as Solver
    from ._solvers import TreeMetricSolver as TreeMetricSolver
else:
    __all__, __getattr__, __dir__ = face(__name__)
