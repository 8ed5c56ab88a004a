"""Solvers of the penalised log-linear model.

A solver is a class with `supports(penalty_class)` and `solve(loss, penalty, w,
on_iteration)`; a new one is a file here and an entry in ``SOLVERS``.
"""

from ._diagonal import DiagonalSolver
from ._fista import FistaSolver

SOLVERS = {"auto": DiagonalSolver, "fista": FistaSolver}

__all__ = ["SOLVERS"]
