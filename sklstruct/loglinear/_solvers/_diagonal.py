"""Accelerated proximal gradient in a diagonal metric, for every penalty.

The loss is badly conditioned: the most frequent word has 10^5 occurrences where
most pairs have one. A path has few active features, so the Hessian lies below
sum(beta) diag(beta_p E_p), and E_p is close to the count c_p near the optimum:
D_p = kappa sum(beta) beta_p c_p is a metric that costs nothing and knows the
scale of every pair.
"""

from __future__ import annotations

import numpy as np

from ..._docs import shared_docs
from .. import _solver_fast as _fast
from ._base import (
    DIAGONAL,
    EVALUATIONS,
    REST,
    TOL,
    Course,
    Job,
    Result,
    Solver,
    next_momentum,
    relative_residual,
)

# Smoothing of the group norms: from EPSILON, times EPSILON_DECAY an iteration, down
# to EPSILON_MIN (weights are of order 1), then 0. At once 0 where the smoothed norms,
# whose sum is up to epsilon a group larger, have led above the start: a smaller epsilon
# would hold weights of 0 in place there.
EPSILON, EPSILON_DECAY, EPSILON_MIN = 0.3, 0.7, 1e-5


@shared_docs(tol=TOL, evaluations=EVALUATIONS, rest=REST)
class DiagonalSolver(Solver):
    r"""Accelerated proximal gradient steps (FISTA) with one step size per weight.

    - The metric is the diagonal matrix kappa * scale * count. kappa begins at 0.6, and
      is raised if the curvature of the loss between two successive points is larger
      than the metric allows.
    - The momentum restarts when it points uphill [1]_.
    - The norms of tree_l2 are first smoothed, with an epsilon that falls to 0. The last
      steps are exact (epsilon = 0), so zeros are exact.
    - If the objective is larger than at the start, the next step begins at the best
      point, without smoothing or with a larger kappa. When the iterations end early,
      the best point is returned.

    Parameters
    ----------
    {tol}

    {evaluations}

    {rest}

    References
    ----------
    .. [1] B. O'Donoghue, E. Candes, "Adaptive Restart for Accelerated Gradient
       Schemes", Foundations of Computational Mathematics 15, 2015.

    Examples
    --------
    >>> from sklstruct.loglinear import DiagonalSolver, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(solver=DiagonalSolver(tol=1e-4))
    """

    needs = ("step",)
    resumable = True
    sharded = True
    by_gradient = True

    def solve(self, job: Job, w: np.ndarray) -> Result:
        tol, max_iter = self.tol, self.max_iter
        penalty, problem = job.penalty, job.problem
        g, new = np.empty_like(w), np.empty_like(w)
        at = Course(
            job,
            max_iter,
            {"f_prev": 0.0},
            y=w.copy(),
            y_prev=w.copy(),
            w=w,
            kappa=DIAGONAL,
            t=1.0,
            epsilon=EPSILON if penalty.smoothed else 0.0,
            f_prev=None,  # loss at y_prev, None if y is not a step from there
            exact=not penalty.smoothed,  # whether y comes from an exact step
        )
        best = at.best
        for iteration in at:
            f = job.loss.value_and_gradient(at.y, g)
            raised = at.kappa
            if at.f_prev is not None:
                raised = _raise_kappa(problem, at, f, g)
            if raised > at.kappa:
                at.kappa, at.t = raised, 1.0
            objective = optimality = np.inf
            if np.isfinite(f):
                squared, value = penalty.step(at.kappa, at.y, g, new, at.epsilon)
                objective, optimality = f + value, relative_residual(squared, problem)
            best.update(objective, optimality, at.y_prev)
            stop = job.report(iteration, best.objective, optimality)
            if best.rose(objective):
                if stop:
                    return best.result(at.y, "stopped")
                point = best.point(at.y)
                at.y[:], at.w[:], at.t, at.f_prev = point, point, 1.0, None
                at.exact = not penalty.smoothed
                if at.epsilon > 0.0:
                    at.epsilon = 0.0
                elif raised == at.kappa:
                    at.kappa *= 2.0
                continue

            small = optimality <= tol and at.epsilon <= EPSILON_MIN
            # Without momentum the residual is that of the answer y itself.
            if small and at.exact and problem.same(at.y, at.w):
                return best.converged(at.y, objective, optimality)
            if stop:
                return best.result(at.y, "stopped")
            if at.last:
                break  # y is the point that was evaluated
            at.f_prev = f
            if small or _uphill(problem, at.y, at.w, new):
                at.t = 1.0
            momentum, at.t = (0.0, 1.0) if small else next_momentum(at.t)
            at.exact = at.epsilon == 0.0
            if small or (penalty.smoothed and iteration >= 0.7 * max_iter):
                at.epsilon = 0.0
            elif at.epsilon > 0.0:
                at.epsilon = max(EPSILON_MIN, EPSILON_DECAY * at.epsilon)
            _extrapolate(problem, momentum, at.y, at.y_prev, at.w, new)
        return best.result(at.y, "max_iter")


def _extrapolate(problem, momentum, y, y_prev, w, new):
    """y_prev <- y, y <- new + momentum (new - w), w <- new."""

    def run(k, lo, hi):
        _fast.extrapolate(lo, hi, momentum, problem.positive, y, y_prev, w, new)

    problem.sum_over(run)


def _raise_kappa(problem, at, f, g):
    """kappa, or a larger one where the metric is below the curvature.

    The metric majorises between y_prev and y iff the Bregman distance
    f(y_prev) - f(y) - g(y) (y_prev - y) is at most D (y_prev - y)^2 / 2.
    """
    kappa, f_prev = at.kappa, at.f_prev
    if not np.isfinite(f):
        return 4.0 * kappa
    count, scale = problem.count, problem.scale

    def run(k, lo, hi):
        sums = np.zeros(2)
        _fast.curvature(lo, hi, scale.at(k), count, at.y, at.y_prev, g, sums)
        return sums

    linear, square = problem.sum_over(run)
    # Differences of f below its rounding prove nothing.
    bregman = f_prev - f - linear - 1e-13 * (abs(f) + abs(f_prev))
    allowed = 0.5 * kappa * square
    if bregman <= allowed:
        return kappa
    return kappa * 1.05 * (min(bregman / allowed, 2.0) if allowed > 0 else 2.0)


def _uphill(problem, y, w, new):
    count, scale = problem.count, problem.scale

    def run(k, lo, hi):
        return _fast.restart_test(lo, hi, scale.at(k), count, y, w, new)

    return problem.sum_over(run) > 0
