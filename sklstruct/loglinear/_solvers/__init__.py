"""Solvers of the penalised log-linear model: one idea a file, objects with `solve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._base import (
    Job,
    Report,
    Result,
    Solver,
    next_momentum,
    relative_residual,
    resume,
    silent,
)
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
        # The message of "diagonal" says what a penalty lacks that none can fit.
        name = next(iter(solvers_for(penalty, positive)), "diagonal")
    return SOLVERS[name](**params)


def solvers_for(penalty: Penalty, positive: bool) -> list[str]:
    """The names of the solvers that can fit a penalty."""
    return [name for name, kind in SOLVERS.items() if kind().fits(penalty, positive)]


__all__ = [
    "SOLVERS",
    "CoordinateDescentSolver",
    "DiagonalSolver",
    "FistaSolver",
    "GISSolver",
    "IISSolver",
    "Job",
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
    "silent",
    "solvers_for",
]
