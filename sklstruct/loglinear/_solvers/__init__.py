"""Solvers of the penalised log-linear model: one idea a file, objects with `solve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._base import Report, Result, Solver, next_momentum, relative_residual, resume
from ._coordinate import CoordinateDescentSolver, SCISSolver
from ._diagonal import DiagonalSolver
from ._fista import FistaSolver
from ._quasi_newton import LBFGSSolver, OWLQNSolver
from ._scaling import GISSolver, IISSolver
from ._stochastic import StochasticSolver
from ._tree_metric import TreeMetric, TreeMetricSolver, shorter

if TYPE_CHECKING:
    from .._penalties import Penalty

# The names that the estimator's parameter takes, beside "auto": the first of them that
# fits the penalty and the sign of the weights.
SOLVERS: dict[str, type[Solver]] = {
    "tree_metric": TreeMetricSolver,
    "diagonal": DiagonalSolver,
    "fista": FistaSolver,
    "lbfgs": LBFGSSolver,
    "owlqn": OWLQNSolver,
    "gis": GISSolver,
    "iis": IISSolver,
    "scis": SCISSolver,
    "cd": CoordinateDescentSolver,
    "stochastic": StochasticSolver,
}


def make_solver(name: str, penalty: Penalty, positive: bool, **params: Any) -> Solver:
    """The solver of a name; "auto" is the first of `SOLVERS` that fits."""
    if name == "auto":
        for kind in SOLVERS.values():
            solver = kind(**params)
            if not (solver.missing(penalty) or solver.refusal(penalty, positive)):
                return solver
        name = "diagonal"  # whose message says what is missing
    return SOLVERS[name](**params)


__all__ = [
    "SOLVERS",
    "CoordinateDescentSolver",
    "DiagonalSolver",
    "FistaSolver",
    "GISSolver",
    "IISSolver",
    "LBFGSSolver",
    "OWLQNSolver",
    "Report",
    "Result",
    "SCISSolver",
    "Solver",
    "TreeMetric",
    "StochasticSolver",
    "TreeMetricSolver",
    "make_solver",
    "next_momentum",
    "relative_residual",
    "resume",
    "shorter",
]
