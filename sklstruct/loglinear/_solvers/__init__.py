"""Solvers of the penalised log-linear model: one idea a file, objects with `solve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._base import Result, Solver, next_momentum, relative_residual
from ._diagonal import DiagonalSolver
from ._fista import FistaSolver
from ._tree_metric import TreeMetric, TreeMetricSolver

if TYPE_CHECKING:
    from .._penalties import Penalty

# The names that the estimator's parameter takes, beside "auto": the first of them that
# fits the penalty and the sign of the weights.
SOLVERS: dict[str, type[Solver]] = {
    "tree_metric": TreeMetricSolver,
    "diagonal": DiagonalSolver,
    "fista": FistaSolver,
}


def make_solver(name: str, penalty: Penalty, positive: bool, **params: Any) -> Solver:
    """The solver of a name; "auto" is the first of `SOLVERS` that fits."""
    if name == "auto":
        for kind in SOLVERS.values():
            if not kind().missing(penalty) and (positive or kind.signed):
                return kind(**params)
        name = "diagonal"  # whose message says what is missing
    return SOLVERS[name](**params)


__all__ = [
    "SOLVERS",
    "DiagonalSolver",
    "FistaSolver",
    "Result",
    "Solver",
    "TreeMetric",
    "TreeMetricSolver",
    "make_solver",
    "next_momentum",
    "relative_residual",
]
