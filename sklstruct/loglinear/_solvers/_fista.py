"""FISTA with one step size and backtracking: the reference solver.

Beck & Teboulle (2009); Algorithm 3 of Nelakanti's thesis. It needs nothing but
the exact proximal operator, so it is the oracle for the fast solver on small
data. On text it crawls: one step size must suit the most frequent word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._docs import shared_docs
from .._penalties import proximal_step
from ._base import (
    TOL,
    Best,
    Report,
    Result,
    Solver,
    next_momentum,
    relative_residual,
    resume,
)

if TYPE_CHECKING:
    from ..._checkpoint import FitKeeper
    from .._loss import LogLinearLoss
    from .._penalties import BoundPenalty


@shared_docs(tol=TOL)
class FistaSolver(Solver):
    r"""FISTA in the metric L * identity, with L found by backtracking [1]_.

    Parameters
    ----------
    {tol}

    max_iter : int, default=None
        Largest number of iterations, at least 1; each evaluates the loss at least
        twice. None: `max_iter` of the model.

    References
    ----------
    .. [1] A. Beck, M. Teboulle, "A Fast Iterative Shrinkage-Thresholding Algorithm for
       Linear Inverse Problems", SIAM Journal on Imaging Sciences 2, 2009.

    Examples
    --------
    >>> from sklstruct.loglinear import FistaSolver, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(solver=FistaSolver(max_iter=2000))
    """

    needs = ("value", "prox")
    resumable = True
    sharded = True

    def solve(
        self,
        loss: LogLinearLoss,
        penalty: BoundPenalty,
        w: np.ndarray,
        report: Report,
        keeper: FitKeeper | None = None,
    ) -> Result:
        tol, max_iter = self.limits()
        problem = loss.problem
        y = before = w.copy()
        g, new = np.empty_like(w), np.empty_like(w)
        lipschitz, t = 1.0, 1.0
        best = Best()
        like = {"y": w, "before": w, "w": w, "lipschitz": 0.0, "t": 0.0}
        iterations, state = resume(keeper, max_iter, like | Best.like(w))
        if state is not None:
            y, before, w[:] = state["y"], state["before"], state["w"]
            lipschitz, t = state["lipschitz"], state["t"]
            best = Best.of_state(state)
        metric = np.full(w.size, float(lipschitz))
        for iteration in iterations:
            if keeper is not None:
                keeper.save(
                    iteration=iteration, y=y, before=before, w=w,
                    lipschitz=lipschitz, t=t, **best.state(),
                )  # fmt: skip
            f = loss.value_and_gradient(y, g)
            value = penalty.value(y)
            while True:
                squared = proximal_step(penalty, metric, y, g, new)
                step = new - y
                bound = f + problem.dot(g, step)
                bound += 0.5 * lipschitz * problem.dot(step, step)
                if loss.value(new) <= bound + 1e-12 * abs(f):
                    break
                lipschitz *= 2.0
                if not np.isfinite(lipschitz):
                    raise FloatingPointError(
                        "solver: no step size of FistaSolver decreases the loss, whose "
                        "values have left the range of floating point numbers; use "
                        'solver="auto", a larger lam, or alpha <= 1'
                    )
                metric.fill(lipschitz)
            objective, optimality = f + value, relative_residual(squared, problem)
            best.update(objective, optimality, before)
            before = y
            stop = report(iteration, best.objective, optimality)
            if best.rose(objective):
                # The momentum has led above the start: a plain step from the best.
                y, t = best.point(y).copy(), 1.0
                w[:] = y
            elif optimality <= tol and problem.same(y, w):
                return best.converged(y, objective, optimality)
            elif stop or iteration == iterations[-1]:
                pass  # y is the point that was evaluated
            elif optimality <= tol:
                y, t = new.copy(), 1.0
                w[:] = new
            else:
                if problem.dot(y - new, new - w) > 0:
                    t = 1.0
                momentum, t = next_momentum(t)
                y = new + momentum * (new - w)
                if problem.positive:
                    np.maximum(y, 0.0, out=y)
                w[:] = new
            if stop:
                return best.result(before, "stopped")
        return best.result(before, "max_iter")
