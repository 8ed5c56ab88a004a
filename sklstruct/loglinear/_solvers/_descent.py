"""The loop of the methods whose objective falls at every iteration."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from ._base import DIAGONAL, Course, Job, Result, Solver, relative_residual

if TYPE_CHECKING:
    from .._loss import LogLinearLoss
    from .._penalties import BoundPenalty


class Moves(metaclass=ABCMeta):
    """The step of an iteration."""

    @abstractmethod
    def look(self, g: np.ndarray) -> None:
        """Read the gradient at the weights; the array changes afterwards."""

    @abstractmethod
    def move(self, w: np.ndarray) -> None:
        """Change the weights, which are those of the last gradient."""


class DescentSolver(Solver):
    """Base of the solvers whose steps lower the objective from any point.

    They need no line search and no restarts.
    """

    needs = ("step", "separable")
    resumable = True

    @abstractmethod
    def moves(self, loss: LogLinearLoss, penalty: BoundPenalty) -> Moves:
        """The moves of one fit."""

    def solve(self, job: Job, w: np.ndarray) -> Result:
        tol, max_iter = self.tol, self.max_iter
        penalty, problem = job.penalty, job.problem
        moves, g = self.moves(job.loss, penalty), np.empty_like(w)
        at = Course(job, max_iter, w=w, before=w.copy())
        best = at.best
        for iteration in at:
            f = job.loss.value_and_gradient(at.w, g)
            moves.look(g)
            # For the residual; the step overwrites the gradient and is not used.
            squared, value = penalty.step(DIAGONAL, at.w, g, g)
            objective, optimality = f + value, relative_residual(squared, problem)
            best.update(objective, optimality, at.before)
            stop = job.report(iteration, best.objective, optimality)
            if optimality <= tol:
                return best.converged(at.w, objective, optimality)
            if stop:
                return best.result(at.w, "stopped")
            if not at.last:
                at.before[:] = at.w
                moves.move(at.w)
        return best.result(at.w, "max_iter")
