"""A limited-memory quasi-Newton method: L-BFGS-B of SciPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import Bounds, minimize

from ..._docs import shared_docs
from ..._parallel import single_blas_thread
from ._base import (
    DIAGONAL,
    EVALUATIONS,
    REST,
    TOL,
    Best,
    Job,
    Result,
    Solver,
    relative_residual,
)

if TYPE_CHECKING:
    from .._penalties import Penalty

# Number of past steps that make the metric.
MEMORY = 10

# Evaluations of a line search without a lower point, after which it ends.
SEARCH = 40


class _End(Exception):
    """The budget, the tolerance or a callback ends the iterations."""


class _Evaluations:
    """The objective in variables u = w / scale, in which the metric of the diagonal
    solver is the identity: pairs of any count curve about as much."""

    def __init__(self, solver, job, w):
        self.solver, self.job = solver, job
        self.scale = 1.0 / np.sqrt(job.problem.metric(1.0))
        self.w, self._before, self.g = w, w.copy(), np.empty_like(w)
        self.best, self.status = Best(), ""

    def __call__(self, u):
        """The objective at u; the gradient of the loss by w goes to `g`."""
        best, w, g = self.best, self.w, self.g
        np.multiply(u, self.scale, out=w)
        objective = optimality = np.inf
        f = self.job.loss.value_and_gradient(w, g)
        if np.isfinite(f):
            # For the residual; the step itself is not used.
            step = self.job.penalty.step(DIAGONAL, w, g, np.empty_like(w))
            objective = f + step[1]
            optimality = relative_residual(step[0], self.job.problem)
        best.update(objective, optimality, self._before)
        self._before[:] = w
        n = len(best.history)
        stop = self.job.report(n - 1, best.objective, optimality)
        if optimality <= self.solver.tol:
            best.objective, best.optimality, best._w = objective, optimality, None
            best.history[-1] = objective
            self.status = "converged"
        elif stop:
            self.status = "stopped"
        elif n >= self.solver.max_iter:  # more than that where it was larger before
            self.status = "max_iter"
        if self.status:
            raise _End
        return objective

    def start(self):
        """u of the best point so far, or of the start."""
        return self.best.point(self.w) / self.scale

    def result(self):
        return self.best.result(self.w, self.status or "stalled")


@shared_docs(tol=TOL, evaluations=EVALUATIONS, rest=REST)
class LBFGSSolver(Solver):
    r"""L-BFGS-B of SciPy, for penalties with a gradient.

    Limited-memory BFGS with bounds [1]_. With non-negative weights
    :math:`|w| = w`, so that "l1" and "elastic_net" have a gradient wherever weights may
    be and fit as "l2" does; with signed weights only "l2" fits. The variables are
    :math:`w_p` times the root of its entry of the metric of `DiagonalSolver`: in w
    itself a frequent word curves a hundred thousand times as much as a rare pair.

    An evaluation costs one of loss and gradient and the passes of L-BFGS-B over its
    20 vectors of past steps, in one thread: 260 bytes per pair beside the loss.
    SciPy has no way to take the state out in the middle: no checkpoints.

    Parameters
    ----------
    {tol}

    {evaluations}

    {rest}

    References
    ----------
    .. [1] R. Byrd, P. Lu, J. Nocedal, C. Zhu, "A Limited Memory Algorithm for Bound
       Constrained Optimization", SIAM Journal on Scientific Computing 16, 1995.

    Examples
    --------
    >>> from sklstruct.loglinear import LBFGSSolver, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(penalty="l2", solver=LBFGSSolver(max_iter=1000))
    """

    needs = ("step", "gradient")
    by_gradient = True

    def refusal(self, penalty: Penalty, positive: bool) -> str | None:
        if not penalty.smooth(positive):
            return (
                "it needs a penalty that is differentiable, and this one is not at 0 "
                "where weights may be negative; set positive=True"
            )
        return super().refusal(penalty, positive)

    def solve(self, job: Job, w: np.ndarray) -> Result:
        max_iter = self.max_iter
        evaluate = _Evaluations(self, job, w)

        def function(u):
            objective = evaluate(u)
            if not np.isfinite(objective):
                return 1e200, np.zeros_like(u)  # the line search shortens its step
            slope = np.empty_like(u)
            job.penalty.gradient(w, slope)
            slope += evaluate.g
            slope *= evaluate.scale
            return objective, slope

        bounds = Bounds(0.0, np.inf) if job.problem.positive else None
        options = {
            "maxcor": MEMORY, "ftol": 0.0, "gtol": 0.0, "maxls": SEARCH,
            "maxiter": max_iter, "maxfun": 2 * max_iter + SEARCH,
        }  # fmt: skip
        reached = np.inf
        try:
            with single_blas_thread():
                # It ends by itself where rounding hides the descent along its
                # direction: once more with an empty memory, as long as that helps.
                while True:
                    minimize(
                        function, evaluate.start(), jac=True, method="L-BFGS-B",
                        bounds=bounds, options=options,
                    )  # fmt: skip
                    if not evaluate.best.objective < reached:
                        break
                    reached = evaluate.best.objective
        except _End:
            pass
        return evaluate.result()
