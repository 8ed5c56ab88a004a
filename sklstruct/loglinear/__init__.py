"""Log-linear language models with structured penalties."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from .._checkpoint import Checkpoint
    from ._cv import StructuredLogLinearLMCV
    from ._estimator import StructuredLogLinearLM
    from ._joint import JointLogLinear
    from ._memory import FitMemory
    from ._path import LamPath, lam_max, lam_path
    from ._penalties import (
        L1,
        L2,
        PENALTIES,
        BoundPenalty,
        ElasticNet,
        Penalty,
        ProximalPenalty,
        TreeL2,
        TreeLinf,
    )
    from ._solvers import (
        SOLVERS,
        CoordinateDescentSolver,
        DiagonalSolver,
        FistaSolver,
        GISSolver,
        IISSolver,
        LBFGSSolver,
        OWLQNSolver,
        SCISSolver,
        Solver,
        StochasticSolver,
        TreeMetricSolver,
    )

__all__ = [
    "L1",
    "L2",
    "PENALTIES",
    "SOLVERS",
    "BoundPenalty",
    "Checkpoint",
    "CoordinateDescentSolver",
    "DiagonalSolver",
    "ElasticNet",
    "FistaSolver",
    "FitMemory",
    "GISSolver",
    "IISSolver",
    "JointLogLinear",
    "LamPath",
    "LBFGSSolver",
    "OWLQNSolver",
    "Penalty",
    "ProximalPenalty",
    "SCISSolver",
    "Solver",
    "StochasticSolver",
    "StructuredLogLinearLM",
    "StructuredLogLinearLMCV",
    "TreeL2",
    "TreeLinf",
    "TreeMetricSolver",
    "lam_max",
    "lam_path",
]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            ".._checkpoint": ["Checkpoint"],
            "._cv": ["StructuredLogLinearLMCV"],
            "._estimator": ["StructuredLogLinearLM"],
            "._joint": ["JointLogLinear"],
            "._memory": ["FitMemory"],
            "._path": ["LamPath", "lam_max", "lam_path"],
            "._penalties": [
                "L1",
                "L2",
                "PENALTIES",
                "BoundPenalty",
                "ElasticNet",
                "Penalty",
                "ProximalPenalty",
                "TreeL2",
                "TreeLinf",
            ],
            "._solvers": [
                "SOLVERS",
                "CoordinateDescentSolver",
                "DiagonalSolver",
                "FistaSolver",
                "GISSolver",
                "IISSolver",
                "LBFGSSolver",
                "OWLQNSolver",
                "SCISSolver",
                "Solver",
                "StochasticSolver",
                "TreeMetricSolver",
            ],
        },
    )
