"""Solvers of the penalised log-linear model, objects with `solve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._auto import ActiveSetSolver as ActiveSetSolver
from ._auto import AutoSolver as AutoSolver
from ._base import Job as Job
from ._base import Report as Report
from ._base import Result as Result
from ._base import Solver as Solver
from ._base import counted_on as counted_on
from ._base import next_momentum as next_momentum
from ._base import relative_residual as relative_residual
from ._base import resume as resume
from ._base import silent as silent
from ._diagonal import DiagonalSolver as DiagonalSolver
from ._fista import FistaSolver as FistaSolver
from ._tree_metric import TreeMetric as TreeMetric
from ._tree_metric import TreeMetricSolver as TreeMetricSolver
from ._tree_metric import shorter as shorter
from ._tree_metric import stiffer as stiffer

if TYPE_CHECKING:
    from collections.abc import Callable

# The names that the estimator's parameter takes.
SOLVERS: dict[str, type[Solver]] = {
    "auto": AutoSolver,
    "tree_metric": TreeMetricSolver,
    "diagonal": DiagonalSolver,
    "fista": FistaSolver,
    "active_set": ActiveSetSolver,
}


def solvers_that(can: Callable[[Solver], bool]) -> list[str]:
    """The names of the solvers with a property, for the message of an error."""
    return [name for name, kind in SOLVERS.items() if name != "auto" and can(kind())]
