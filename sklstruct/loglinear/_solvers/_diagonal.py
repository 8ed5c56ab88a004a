"""Accelerated proximal gradient in a diagonal metric: the solver behind "auto".

The loss is badly conditioned: the most frequent word has 10^5 occurrences where
most pairs have one. A path has few active features, so the Hessian lies below
sum(beta) diag(beta_p E_p), and E_p is close to the count c_p near the optimum:
D_p = kappa sum(beta) beta_p c_p is a metric that costs nothing and knows the
scale of every pair.
"""

from __future__ import annotations

import numpy as np

from .. import _solver_fast as _fast
from .._sweeps import sum_over
from ._base import Result, extrapolate, next_momentum, relative_residual

# kappa = 0.6 was stable from w = 0 for every penalty and depth tried on
# WikiText-2; 0.4 diverged for l2 (alpha 0.7, depth 4) and 1.0 needs a fifth more
# iterations. Where 0.6 is too small the curvature test raises it.
KAPPA = 0.6

# Smoothing of the group norms: from EPSILON, times EPSILON_DECAY an iteration, down
# to EPSILON_MIN (weights are of order 1), then 0.
EPSILON, EPSILON_DECAY, EPSILON_MIN = 0.3, 0.7, 1e-5


class DiagonalSolver:
    """FISTA in the metric kappa * scale * count, with restarts.

    - kappa is raised whenever the loss curves more between two successive points
      than the metric allows (the Bregman distance, free once both gradients are
      known).
    - The momentum restarts when it points uphill (O'Donoghue & Candes 2015).
    - A smoothed penalty (tree_l2) is first majorised with a smoothing epsilon that
      is driven down; once that has converged the steps are exact (epsilon = 0), so
      that zeros are exact and the residual is that of the penalty itself.

    Parameters
    ----------
    tol : float
        Tolerance on the optimality residual.
    max_iter : int
        Maximum number of evaluations of loss and gradient.
    """

    def __init__(self, tol, max_iter):
        self.tol = tol
        self.max_iter = max_iter

    @staticmethod
    def supports(penalty_class):
        return hasattr(penalty_class, "step")

    def solve(self, loss, penalty, w, on_iteration):
        """Minimise from w, which is overwritten.

        Parameters
        ----------
        loss : LogLinearLoss
        penalty : Penalty
        w : float64 ndarray of shape (n_pairs,)
        on_iteration : callable
            Called with (iteration, objective, optimality); True stops the fit.

        Returns
        -------
        result : Result
        """
        y, y_prev = w.copy(), w.copy()
        g, new = np.empty_like(w), np.empty_like(w)
        kappa, t = KAPPA, 1.0
        epsilon = EPSILON if penalty.smoothed else 0.0
        f_prev = np.inf
        exact = not penalty.smoothed  # whether y comes from an exact step
        history = []
        status = "max_iter"
        for iteration in range(self.max_iter):
            f, _ = loss.value_and_gradient(y, g)
            if iteration:
                raised = self._raise_kappa(loss, kappa, f, f_prev, y, y_prev, g)
                if raised > kappa:
                    kappa, t = raised, 1.0
                    if not np.isfinite(f):  # back to the last sane point
                        y[:], w[:] = y_prev, y_prev
                        f, _ = loss.value_and_gradient(y, g)
            squared, value = penalty.step(kappa, y, g, new, epsilon)
            optimality = relative_residual(squared, loss)
            history.append(f + value)
            stop = on_iteration(iteration, f + value, optimality)

            small = optimality <= self.tol and epsilon <= EPSILON_MIN
            # Without momentum the residual is that of the answer y itself.
            if small and exact and np.array_equal(y, w):
                status = "converged"
                break
            if stop:
                status = "stopped"
                break
            if iteration == self.max_iter - 1:
                break  # y is the point that was evaluated
            f_prev = f
            if small or self._uphill(loss, y, w, new):
                t = 1.0
            momentum, t = (0.0, 1.0) if small else next_momentum(t)
            exact = epsilon == 0.0
            if small or (penalty.smoothed and iteration >= 0.7 * self.max_iter):
                epsilon = 0.0
            elif epsilon > 0.0:
                epsilon = max(EPSILON_MIN, EPSILON_DECAY * epsilon)
            extrapolate(loss, momentum, penalty.positive, y, y_prev, w, new)
        return Result(y, history, history[-1], optimality, status)

    def _raise_kappa(self, loss, kappa, f, f_prev, y, y_prev, g):
        """kappa, or a larger one where the metric is below the curvature.

        The metric majorises between y_prev and y iff the Bregman distance
        f(y_prev) - f(y) - g(y) (y_prev - y) is at most D (y_prev - y)^2 / 2.
        """
        if not np.isfinite(f):
            return 4.0 * kappa
        count = loss.tree.count

        def run(k, lo, hi):
            sums = np.zeros(2)
            _fast.curvature(lo, hi, loss.metric_scale(k), count, y, y_prev, g, sums)
            return sums

        linear, square = sum_over(loss.map, run, loss.ranges.groups)
        # Differences of f below its rounding prove nothing.
        bregman = f_prev - f - linear - 1e-13 * (abs(f) + abs(f_prev))
        allowed = 0.5 * kappa * square
        if bregman <= allowed:
            return kappa
        return kappa * 1.05 * (min(bregman / allowed, 2.0) if allowed > 0 else 2.0)

    def _uphill(self, loss, y, w, new):
        count = loss.tree.count

        def run(k, lo, hi):
            return _fast.restart_test(lo, hi, loss.metric_scale(k), count, y, w, new)

        return sum_over(loss.map, run, loss.ranges.groups) > 0
