"""FISTA with one step size and backtracking: the reference solver.

Beck & Teboulle (2009); Algorithm 3 of Nelakanti's thesis. The solver needs only the
exact proximal operator, so it is the reference for the fast solver on small data. On
text the solver is slow, because one step size must suit the most frequent word.
"""

from __future__ import annotations

import numpy as np

from ..._docs import shared_docs
from .._penalties import proximal_step
from ._base import (
    REST,
    TOL,
    Course,
    Job,
    Result,
    Solver,
    next_momentum,
    relative_residual,
)


@shared_docs(tol=TOL, rest=REST)
class FistaSolver(Solver):
    r"""FISTA with one step size for all weights, found by backtracking [1]_.

    Parameters
    ----------
    {tol}

    max_iter : int, default=300
        Largest number of iterations, at least 1; each evaluates the loss at least
        twice.

    {rest}

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
    by_gradient = True

    def solve(self, job: Job, w: np.ndarray) -> Result:
        tol, max_iter = self.tol, self.max_iter
        loss, penalty, problem = job.loss, job.penalty, job.problem
        g, new = np.empty_like(w), np.empty_like(w)
        at = Course(
            job, max_iter, y=w.copy(), before=w.copy(), w=w, lipschitz=1.0, t=1.0
        )
        best = at.best
        metric = np.full(w.size, float(at.lipschitz))
        for iteration in at:
            f = loss.value_and_gradient(at.y, g)
            value = penalty.value(at.y)
            while True:
                squared = proximal_step(penalty, metric, at.y, g, new)
                step = new - at.y
                bound = f + problem.dot(g, step)
                bound += 0.5 * at.lipschitz * problem.dot(step, step)
                if loss.value(new) <= bound + 1e-12 * abs(f):
                    break
                at.lipschitz *= 2.0
                if not np.isfinite(at.lipschitz):
                    raise FloatingPointError(
                        "solver: no step size of FistaSolver decreases the loss, whose "
                        "values have left the range of floating point numbers; use "
                        'solver="auto", a larger lam, or alpha <= 1'
                    )
                metric.fill(at.lipschitz)
            objective, optimality = f + value, relative_residual(squared, problem)
            best.update(objective, optimality, at.before)
            at.before = at.y
            stop = job.report(iteration, best.objective, optimality)
            if best.rose(objective):
                # The momentum has led above the start: a plain step from the best.
                at.y, at.t = best.point(at.y).copy(), 1.0
                at.w[:] = at.y
            elif optimality <= tol and problem.same(at.y, at.w):
                return best.converged(at.y, objective, optimality)
            elif stop or at.last:
                pass  # y is the point that was evaluated
            elif optimality <= tol:
                at.y, at.t = new.copy(), 1.0
                at.w[:] = new
            else:
                if problem.dot(at.y - new, new - at.w) > 0:
                    at.t = 1.0
                momentum, at.t = next_momentum(at.t)
                at.y = new + momentum * (new - at.w)
                if problem.positive:
                    np.maximum(at.y, 0.0, out=at.y)
                at.w[:] = new
            if stop:
                return best.result(at.before, "stopped")
        return best.result(at.before, "max_iter")
