"""Solvers of the penalised log-linear model: one idea a file, objects with `solve`."""

from ._base import Result, Solver
from ._diagonal import DiagonalSolver
from ._fista import FistaSolver

# The names that the estimator's parameter takes.
SOLVERS: dict[str, type[Solver]] = {"auto": DiagonalSolver, "fista": FistaSolver}

__all__ = ["SOLVERS", "DiagonalSolver", "FistaSolver", "Result", "Solver"]
