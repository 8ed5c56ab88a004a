"""FISTA with one step size and backtracking: the reference solver.

Beck & Teboulle (2009); Algorithm 3 of Nelakanti's thesis. It needs nothing but
the exact proximal operator, so it is the oracle for the fast solver on small
data. On text it crawls: one step size must suit the most frequent word.
"""

from __future__ import annotations

import numpy as np

from .._penalties import proximal_step
from ._base import Result, next_momentum, relative_residual


class FistaSolver:
    """Proximal gradient in the metric L * identity, L found by backtracking.

    Parameters
    ----------
    tol : float
        Tolerance on the optimality residual.
    max_iter : int
        Maximum number of iterations (each evaluates the loss at least twice).
    """

    def __init__(self, tol, max_iter):
        self.tol = tol
        self.max_iter = max_iter

    @staticmethod
    def supports(penalty_class):
        return hasattr(penalty_class, "prox")

    def solve(self, loss, penalty, w, on_iteration):
        """See `DiagonalSolver.solve`."""
        y = w.copy()
        g, new = np.empty_like(w), np.empty_like(w)
        lipschitz, t = 1.0, 1.0
        metric = np.full(w.size, lipschitz)
        history = []
        status = "max_iter"
        for iteration in range(self.max_iter):
            f, _ = loss.value_and_gradient(y, g)
            value = penalty.value(y)
            while True:
                squared = proximal_step(penalty, metric, y, g, new)
                step = new - y
                bound = f + g @ step + 0.5 * lipschitz * (step @ step)
                if loss.value(new) <= bound + 1e-12 * abs(f):
                    break
                lipschitz *= 2.0
                if not np.isfinite(lipschitz):
                    raise FloatingPointError(
                        "no step size decreases the loss; the weights have left the "
                        "range of floating point numbers. Use lam > 0."
                    )
                metric.fill(lipschitz)
            optimality = relative_residual(squared, loss)
            history.append(f + value)
            stop = on_iteration(iteration, f + value, optimality)
            plain = np.array_equal(y, w)
            if optimality <= self.tol and plain:
                status = "converged"
                break
            if stop:
                status = "stopped"
                break
            if iteration == self.max_iter - 1:
                break  # y is the point that was evaluated
            if optimality <= self.tol:
                y[:], w[:], t = new, new, 1.0
                continue
            if (y - new) @ (new - w) > 0:
                t = 1.0
            momentum, t = next_momentum(t)
            y = new + momentum * (new - w)
            if penalty.positive:
                np.maximum(y, 0.0, out=y)
            w[:] = new
        return Result(y, history, history[-1], optimality, status)
