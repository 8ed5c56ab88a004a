"""The loop of the methods whose objective falls at every iteration."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from ._base import (
    DIAGONAL,
    Best,
    Report,
    Result,
    Solver,
    relative_residual,
    resume,
)

if TYPE_CHECKING:
    from ..._checkpoint import FitKeeper
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

    def solve(
        self,
        loss: LogLinearLoss,
        penalty: BoundPenalty,
        w: np.ndarray,
        report: Report,
        keeper: FitKeeper | None = None,
    ) -> Result:
        tol, max_iter = self.limits()
        problem, moves = loss.problem, self.moves(loss, penalty)
        g, before = np.empty_like(w), w.copy()
        best = Best()
        like = {"w": w, "before": w, **Best.like(w)}
        iterations, state = resume(keeper, max_iter, like)
        if state is not None:
            w[:], before, best = state["w"], state["before"], Best.of_state(state)
        for iteration in iterations:
            if keeper is not None:
                keeper.save(iteration=iteration, w=w, before=before, **best.state())
            f = loss.value_and_gradient(w, g)
            moves.look(g)
            # For the residual; the step overwrites the gradient and is not used.
            squared, value = penalty.step(DIAGONAL, w, g, g)
            objective, optimality = f + value, relative_residual(squared, problem)
            best.update(objective, optimality, before)
            stop = report(iteration, best.objective, optimality)
            if optimality <= tol:
                return best.converged(w, objective, optimality)
            if stop:
                return best.result(w, "stopped")
            if iteration < iterations[-1]:
                before[:] = w
                moves.move(w)
        return best.result(w, "max_iter")
