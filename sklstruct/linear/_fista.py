"""Accelerated proximal gradient steps, for penalties that are not separable.

The steps minimise f(W) = min over b of the loss. Its gradient is the gradient of the
loss at the best intercepts, and it is as smooth as the loss. The residuals of each lane
then sum to zero, as the duality gap needs, and the length of a step does not depend on
the scale of the intercepts. The length adapts: it falls until the quadratic bound
holds, and grows a little before each step. The momentum restarts if it points uphill.

Reference: A. Beck, M. Teboulle, "A fast iterative shrinkage-thresholding algorithm",
SIAM J. Imaging Sciences 2, 2009; B. O'Donoghue, E. Candes, "Adaptive restart for
accelerated gradient schemes", Found. Comput. Math. 15, 2015.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._feature_bounds import ProximalTerm
from ._feature_problem import FeatureProblem, Optimum, PathSolver, Report

# Steps between two duality gaps.
_STEPS = 20


class AcceleratedSolver(PathSolver):
    """`PathSolver` by accelerated proximal gradient steps, without screening."""

    def __init__(self, problem: FeatureProblem) -> None:
        super().__init__(problem)
        self.W = np.zeros((problem.n_features, problem.n_lanes))
        self.X: Any = problem.X
        # First guess of the Lipschitz constant: the constant of the longest column.
        unit = 0.5 if problem.coupled else 0.25
        self.lipschitz = unit * max(problem.squares.max(initial=0.0), 1e-300)

    def _at(self, S, b, P):
        """The loss at scores S without intercepts; b is set to the best intercepts."""
        Z = S + b[:, None]
        return self.problem.fit_intercepts(b, Z, P, self.problem.loss(Z, P))

    def solve(
        self, penalty: ProximalTerm, goal: float, max_iter: int, report: Report
    ) -> Optimum:
        problem = self.problem
        every = np.arange(problem.n_features, dtype=np.int32)
        W, b, P = self.W, self.b, self.P
        S = np.ascontiguousarray((self.X @ W).T)
        Y, S_Y, t, bound, history = W, S, 1.0, -np.inf, []
        while True:
            loss = self._at(S, b, P)
            objective = loss + penalty.value(every, W)
            G = self.gradient(every)
            for share, conjugate in penalty.duals(G, W, 1 / self.lipschitz):
                bound = max(bound, problem.dual(P, share) - conjugate)
            gap = max(objective - bound, 0.0)
            history.append(objective)
            n_iter = len(history)
            stopped = report(objective, gap, n_iter)
            if gap <= goal or n_iter == max_iter or stopped:
                break
            for _ in range(_STEPS):
                loss_Y = self._at(S_Y, b, P)
                G = problem.gradient(every, P)
                self.lipschitz *= 0.9
                while True:
                    U = penalty.prox(Y - G / self.lipschitz, 1 / self.lipschitz)
                    move = U - Y
                    S_U = np.ascontiguousarray((self.X @ U).T)
                    of_U = b.copy()
                    loss_U = self._at(S_U, of_U, P)
                    square = 0.5 * self.lipschitz * np.vdot(move, move)
                    slack = 1e-12 * abs(loss_Y)
                    if loss_U <= loss_Y + np.vdot(G, move) + square + slack:
                        break
                    self.lipschitz *= 2
                b = of_U
                if np.vdot(Y - U, U - W) > 0:
                    t = 1.0
                new = 0.5 * (1 + np.sqrt(1 + 4 * t * t))
                ahead = (t - 1) / new
                Y, S_Y = U + ahead * (U - W), S_U + ahead * (S_U - S)
                W, S, t = U, S_U, new
        self.W, self.b = W, b
        kept = np.flatnonzero(W.any(axis=1)).astype(np.int32)
        return Optimum(
            kept, W[kept], problem.intercepts(b, kept, W[kept]), np.array(history),
            float(gap), problem.n_features, gap <= goal,
        )  # fmt: skip
