"""Accelerated proximal Newton steps in a metric that couples the pairs of a path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._docs import shared_docs
from .. import _tree_metric_fast as _fast
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

if TYPE_CHECKING:
    from .._penalties import BoundPenalty
    from .._problem import Problem

# Smoothing of the group norms: EPSILON times a power of EPSILON_DECAY for the first
# SMOOTHED iterations (weights are of order 1), then 0.
EPSILON, EPSILON_DECAY, SMOOTHED = 0.1, 0.5, 6

# The surrogate of a smoothed penalty moves with the point, and the objective with it.
SLACK, SLACK_SMOOTHED = 1e-12, 1e-4

# A step that led upward is taken again, shorter and in a metric stiffer by STIFFER.
STIFFER, STIFFEST, LEVENBERG = 1.5, 8.0, 0.02
# With this factor of the Levenberg term a step is nothing; it need not be larger.
LARGEST_LEVENBERG = 2.0**20

# A step that led downward makes the metric softer by these factors, to the power of 1
# / failures. A descent along which the loss curved more than the metric counts as this
# part of a failure.
SOFTER, LEVENBERG_DECAY, TOO_SOFT = 0.9, 0.5, 0.25


# The decrease that a full step promises, over tol^2 times the objective, at which to
# stop. The metric is above the Hessian: it promises less than there is to gain.
DECREASE = 0.1

# Newton steps for the number that is added to all scores; two or three are taken.
COMMON_STEPS = 10


@shared_docs(tol=TOL, evaluations=EVALUATIONS, rest=REST)
class TreeMetricSolver(Solver):
    r"""Proximal Newton steps that solve a linear system along the tree of contexts.

    The weights of one class on one path of contexts enter the loss only through the
    score of the deepest pair. Let :math:`e_p = E_p - \sum_{r} E_r`, with r the child
    pairs of p, be the expected count of the samples whose deepest pair of the class is
    p. The Hessian is bounded by

    .. math::
        \nabla^2 f \preceq B^\top \mathrm{diag}(e)\, B, \qquad
        (B d)_p = \sigma_p = \sum_{a \text{ above or } = p} \beta_a d_a ,

    because the covariance matrix of the class indicators of a sample is bounded by its
    diagonal. If all scores change by the same number s, the probabilities do not
    change, so s is free. The solver minimises

    .. math::
        \min_{s,\ y + d \ge 0}\ \sum_p \tfrac{\kappa}{2} h_p (\sigma_p + s)^2
        + \tfrac{1}{2} r_p d_p^2 + G_p d_p ,

    with G the gradient and r the curvature of the penalty, by Gauss elimination: one
    pass up and one pass down the forest of pairs, in the time O(pairs). The pass up
    decides which weights are at their bound 0, and the pass down corrects these
    decisions. h is e. If the observed count is larger than e, h is the geometric mean
    of the two, so that the step is not too long.

    - The momentum is that of FISTA, and restarts when it points uphill [1]_.
    - If a step increases the objective, the next point is between the last two points,
      and the metric is increased (:math:`\kappa`, and a Levenberg term on r). The
      metric is also increased if the curvature of the loss is larger than the metric.
    - The norms of tree_l2 are smoothed and replaced by quadratic upper bounds, which
      give r, for six iterations with decreasing smoothing. Afterwards groups near zero
      take exact proximal steps in a diagonal metric.

    The solver stops when the residual is at most `tol` and the predicted decrease of a
    full step (the Newton decrement, :math:`-G d / 2`) is at most :math:`0.1\,tol^2` of
    the objective. The residual alone underestimates flat directions. The solver needs
    non-negative weights.

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
    >>> from sklstruct.loglinear import StructuredLogLinearLM, TreeMetricSolver
    >>> model = StructuredLogLinearLM(penalty="l2", solver=TreeMetricSolver(tol=1e-3))
    """

    needs = ("step", "quadratic")
    sharded = True
    signed = False
    resumable = True

    def solve(self, job: Job, w: np.ndarray) -> Result:
        tol, max_iter = self.tol, self.max_iter
        penalty, problem = job.penalty, job.problem
        metric, g = TreeMetric(problem, penalty), np.empty_like(w)
        # The new weights of the pairs that the exact operator moves.
        moves = np.empty(w.size if penalty.smoothed else 0)
        slack = SLACK_SMOOTHED if penalty.smoothed else SLACK
        at = Course(
            job,
            max_iter,
            {"previous": [0.0] * 4, "carried": [0.0] * 4},
            y=w.copy(),
            y_prev=w.copy(),
            w=w,
            t=1.0,
            # (f, objective, slope, square) of the step from y_prev to y.
            previous=None,
            # That of the step without momentum, to w, where y is not w.
            carried=None,
            # The iteration from which on nothing is smoothed.
            exact=min(SMOOTHED, max_iter // 2) if penalty.smoothed else 0,
            epsilon=0.0,
            # The factor and the Levenberg term of the metric, as the steps have shown.
            kappa=1.0,
            levenberg=LEVENBERG,
            failures=1.0,  # steps that led upward, and one more
        )
        best = at.best
        for iteration in at:
            before = at.epsilon  # of the step to y
            smoothed = iteration < at.exact
            at.epsilon = EPSILON * EPSILON_DECAY**iteration if smoothed else 0.0
            f = job.loss.value_and_gradient(at.y, g)
            objective = optimality = np.inf
            linear = 0.0
            if at.previous is None and not np.isfinite(f):
                raise FloatingPointError(
                    "solver: the loss is not finite at the start of TreeMetricSolver; "
                    'use solver="diagonal", a larger lam, or alpha <= 1'
                )
            if np.isfinite(f):
                squared, value = 0.0, 0.0
                if penalty.smoothed:
                    squared, value = penalty.step(DIAGONAL, at.y, g, moves, at.epsilon)
                sums = metric.eliminate(
                    at.kappa, at.levenberg, at.epsilon, at.y, at.y_prev, moves, g
                )
                linear = sums[0]
                squared, value = squared + sums[1], value + sums[2]
                objective, optimality = f + value, relative_residual(squared, problem)
            best.update(objective, optimality, at.y_prev)
            if job.report(iteration, best.objective, optimality):
                return best.result(at.y, "stopped")
            if at.previous is not None:
                f_prev, objective_prev, slope, square = at.previous
                if not objective <= objective_prev + slack * abs(objective_prev):
                    if at.last:
                        break
                    at.t = 1.0
                    if at.carried is not None and np.isfinite(f):
                        # The momentum led upward: the same step without it.
                        at.y[:], at.previous, at.carried = at.w, at.carried, None
                        continue
                    at.carried = None
                    if before > 0.0:
                        # Smoothing leads away from a start near the minimum.
                        at.y[:] = at.w[:] = at.y_prev
                        at.exact, at.previous = iteration, None
                        continue
                    part = shorter(objective - objective_prev, slope)
                    _pull_back(problem, part, at.y, at.y_prev, at.w)
                    at.previous = f_prev, objective_prev, part * slope, part**2 * square
                    at.kappa, at.levenberg = stiffer(at.kappa, at.levenberg)
                    at.failures += 1
                    continue
                bregman = f_prev - f - linear - 1e-13 * (abs(f) + abs(f_prev))
                _follow(at, bregman, 0.5 * square)
            momentum, at.t = next_momentum(at.t)
            newton, uphill, slope, square = metric.substitute(
                momentum, g, at.y, at.y_prev, at.w
            )
            promised = DECREASE * tol**2 * abs(objective)
            small = optimality <= tol and -0.5 * newton <= promised
            if small and at.epsilon == 0.0:
                return best.converged(at.y_prev, objective, optimality)
            if at.last:
                at.y = at.y_prev
                break
            at.previous, at.carried = (f, objective, slope, square), None
            if momentum > 0.0:
                at.carried = f, objective, newton, np.inf
                if uphill > 0.0:
                    at.y[:], at.previous, at.carried, at.t = at.w, at.carried, None, 1.0
        return best.result(at.y, "max_iter")


def stiffer(kappa: float, levenberg: float) -> tuple[float, float]:
    """The factors of the metric and of its Levenberg term after a failure."""
    return min(STIFFER * kappa, STIFFEST), _higher(levenberg)


def _higher(levenberg):
    return min(max(2.0 * levenberg, LEVENBERG), LARGEST_LEVENBERG)


def _follow(at, bregman, allowed):
    """The metric after a descent, along which the loss curved by `bregman`; the metric
    for a factor of 1 by `allowed`."""
    if bregman > at.kappa * allowed:
        ratio = bregman / (at.kappa * allowed) if allowed > 0.0 else 2.0
        at.kappa *= 1.05 * min(ratio, 2.0)
        at.failures += TOO_SOFT
        at.levenberg = _higher(at.levenberg)
        return
    # Relax more slowly after each failure and keep a floor; otherwise the same
    # too-soft metric returns after a few iterations and resets the momentum.
    root = 1.0 / at.failures
    at.kappa = max(SOFTER**root * at.kappa, 1.0)
    at.levenberg *= LEVENBERG_DECAY**root
    floor = 0.25 * LEVENBERG * (1.0 - root)
    at.levenberg = max(at.levenberg if at.levenberg > 5e-4 else 0.0, floor)


class TreeMetric:
    """The elimination and the substitution over all pairs, in blocks and threads.

    work: memory, (3, n_pairs), that other trees may use between a pair of passes; the
    terminal counts of the pairs are then computed for each pair of passes too. None:
    its own. root: whether the pairs of the root take part; else they stay where they
    are.
    """

    def __init__(
        self,
        problem: Problem,
        penalty: BoundPenalty,
        work: np.ndarray | None = None,
        root: bool = True,
    ) -> None:
        self.problem, self.penalty, self.root = problem, penalty, root
        self.terminal: np.ndarray | None = None
        if work is None:
            work = np.empty((3, problem.n_pairs))
            self.terminal = problem.pairs.terminal_counts(problem.count)
        self.work = work
        self.shards = list(zip(problem.node_blocks, problem.pair_blocks))
        self.scale = DIAGONAL * problem.beta_sum
        self.rho = np.empty(0)
        self.common = 0.0  # the number that the step adds to all scores

    def _beta(self, level):
        beta = self.problem.beta
        return beta.at(level) if beta.a_level else beta.of_nodes

    def eliminate(
        self,
        kappa: float,
        levenberg: float,
        epsilon: float,
        y: np.ndarray,
        y_prev: np.ndarray,
        moves: np.ndarray,
        g: np.ndarray,
    ) -> np.ndarray:
        """g (y_prev - y), squared residual over count, penalty at y; see the kernel."""
        problem, work = self.problem, self.work
        l1, l2, rho = self.penalty.quadratic(epsilon)
        self.rho = rho
        numbers = np.array([kappa, levenberg, self.scale, 0.0])
        terminal = self.terminal
        if terminal is None:
            terminal = problem.pairs.terminal_counts(problem.count)

        def level(k, lo, hi, top, sums):
            _fast.eliminate(
                lo, hi, problem.pair_ptr, problem.pair_parent, self._beta(k), l1(k),
                l2(k), rho, problem.count, terminal, y, y_prev, moves, numbers, g,
                work, top, sums,
            )  # fmt: skip

        def run(shard):
            top, inner = np.zeros((3, problem.n_classes)), np.empty((3, 0))
            sums = np.zeros(5)
            for (lo, hi), (first, last) in zip(*shard):
                for k in range(1, problem.n_levels):
                    work[:, first[k] : last[k]] = 0.0
                for k in range(problem.n_levels - 1, 0, -1):
                    level(k, lo[k], hi[k], top if k == 1 else inner, sums)
            return top, sums[:3]

        below = np.zeros(3 * problem.n_classes + 3)
        for top, sums in problem.map(run, self.shards):
            below[:-3] += top.ravel()
            below[-3:] += sums
        below = problem.pairs.total(below)
        work[:, : problem.n_classes] = below[:-3].reshape(3, -1)
        total = below[-3:].copy()
        self.common = 0.0
        if self.root:
            total = self._eliminate_root(level, numbers, g, total)
        else:
            work[:, : problem.n_classes] = 0.0  # its scores do not move
        return total

    def _eliminate_root(self, level, numbers, g, total):
        """The pairs of the root, and the number that is added to all scores.

        Scores that all move alike change no probability, and unigrams that do change
        the penalty alone. Without that number the metric, which knows each class by
        itself, would take such a move for the stiffest of all.

        The model is convex in it, and so is its derivative, which is linear between the
        numbers at which a bound begins to bind: Newton's steps come down to the minimum
        from the second on, and are there when no other bound binds.
        """
        work, n = self.work, self.problem.n_classes
        before = work[:, :n].copy(), g[:n].copy()
        # Without a penalty the number is free: below this, curvature is rounding.
        flat = 1e-12 * self.problem.total_weight
        for _ in range(COMMON_STEPS):
            work[:, :n], g[:n] = before
            numbers[3] = self.common
            sums = np.zeros(5)
            level(0, 0, 1, np.empty((3, 0)), sums)
            curvature, slope = sums[3:]
            self.common = -slope / curvature if curvature > flat else 0.0
            if abs(self.common - numbers[3]) <= 1e-9 * abs(self.common):
                break
        return total + sums[:3]

    def substitute(
        self,
        momentum: float,
        g: np.ndarray,
        y: np.ndarray,
        y_prev: np.ndarray,
        w: np.ndarray,
    ) -> np.ndarray:
        """The kernel's sums."""
        problem, work = self.problem, self.work

        def level(k, lo, hi, sums):
            _fast.substitute(
                lo, hi, problem.pair_ptr, problem.pair_parent, self._beta(k), self.rho,
                problem.count, momentum, self.common, g, work, y, y_prev, w, sums,
            )  # fmt: skip

        def run(shard):
            sums = np.zeros(4)
            for lo, hi in shard[0]:
                for k in range(1, problem.n_levels):
                    level(k, lo[k], hi[k], sums)
            return sums

        total = np.zeros(4)
        if self.root:
            level(0, 0, 1, total)
        below = sum(problem.map(run, self.shards), np.zeros(4))
        return total + problem.pairs.total(below)


def shorter(rise: float, slope: float) -> float:
    """The minimum of the parabola through both values and the slope, in [0.1, 0.5]."""
    if not np.isfinite(rise):
        return 0.25
    curvature = 2.0 * (rise - slope)
    return min(max(-slope / curvature, 0.1), 0.5) if curvature > 0.0 else 0.5


def _pull_back(problem, part, y, y_prev, w):
    """y, w <- y_prev + part (y - y_prev)."""

    def run(k, lo, hi):
        here = y[lo:hi]
        here -= y_prev[lo:hi]
        here *= part
        here += y_prev[lo:hi]
        w[lo:hi] = here

    problem.sum_over(run)
