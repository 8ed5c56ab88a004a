"""Accelerated stochastic proximal gradient, with mini-batches that grow."""

from __future__ import annotations

import copy
import numbers
from typing import ClassVar

import numpy as np
from sklearn.utils import check_random_state

from ..._compat import Interval
from ..._docs import shared_docs
from .. import _loss_fast as _fast
from .._loss import LogLinearLoss
from ._auto import AutoSolver
from ._base import DIAGONAL, REST, TOL, Best, Job, Result, Solver, counted_on
from ._diagonal import DiagonalSolver

# Growth of the inverse step size with t, the steps since the batches grew:
# 1 + DECAY t^(3/2).
DECAY = 0.02

# A pass that lowers the objective by less than this share of what the first one of its
# batches did is the last of them.
WORTH = 0.5

# Steps for a batch of `partial_fit`.
LEARN_STEPS = 3


@shared_docs(tol=TOL, rest=REST)
class StochasticSolver(Solver):
    r"""Accelerated proximal gradient on mini-batches (SAGE).

    At step t, with G the gradient of the loss of a random part :math:`1 / K` of the
    samples, times K, and the metric D,

    .. math::
        x &= (1 - \alpha_t)\, y + \alpha_t z, \qquad \alpha_t = \frac{2}{t + 2}, \\
        y &\leftarrow \arg\min_u\ G^\top u
             + \tfrac{L_t}{2} \|u - x\|_D^2 + \lambda \Omega(u),
             \qquad L_t = 1 + b\, t^{3/2}, \\
        z &\leftarrow z - (x - y) / \alpha_t ,

    for convex losses as in [1]_. A pass over the samples is K steps, in another random
    order and grouping each time. D is the metric of `DiagonalSolver` with :math:`c(p)
    + K - 1` instead of the count: a pair that occurs once is in one batch, where it
    curves K times as much. When a pass gains little, because the noise of the batches
    dominates, K is halved and t begins at 0 again. When one batch holds all samples
    `DiagonalSolver` ends the fit, at the minimum that all solvers have.

    A step costs about one evaluation of loss and gradient of all samples, since both
    walk the whole context tree: few large batches suit it. 100 bytes per pair beside
    the loss.

    A call of `partial_fit` does not go on to the minimum. `AutoSolver` makes three
    steps with the gradient of all samples so far, whose counts are kept: on a context
    tree that costs no more than the gradient of a batch, and has no noise.

    Every penalty, weights of either sign.

    Parameters
    ----------
    {tol}

    max_iter : int, default=300
        Largest number of passes over the samples, at least 1.

    {rest}

    n_batches : int, default=20
        K at the start, at least 1; no more than there are samples.

    random_state : int, RandomState instance or None, default=0
        Of the batches.

    References
    ----------
    .. [1] C. Hu, J. Kwok, W. Pan, "Accelerated Gradient Methods for Stochastic
       Optimization and Online Learning", NIPS 2009.

    Examples
    --------
    >>> from sklstruct.loglinear import StochasticSolver, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(
    ...     penalty="l2", solver=StochasticSolver(n_batches=10)
    ... )
    """

    needs = ("step",)
    incremental = True
    _parameter_constraints: ClassVar[dict] = {
        **Solver._parameter_constraints,
        "n_batches": [Interval(numbers.Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        tol: float = 1e-2,
        max_iter: int = 300,
        *,
        gap_tol: float | None = None,
        verbose: int = 0,
        n_batches: int = 20,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        super().__init__(tol, max_iter, gap_tol=gap_tol, verbose=verbose)
        self.n_batches = n_batches
        self.random_state = random_state

    def solve(self, job: Job, w: np.ndarray) -> Result:
        g, best, before = np.empty_like(w), Best(), w.copy()
        first_gain = None  # of the first pass with this number of batches
        rng = check_random_state(self.random_state)
        steps = _Steps(job.problem, job.penalty, self.n_batches, rng)
        for iteration in range(self.max_iter):
            if steps.n_batches == 1:
                del steps
                return self._finish(job, best.history, w)
            # A pass before every evaluation but that of the start.
            for _ in range(steps.n_batches if iteration else 0):
                steps.step(w)
            last = best.objective
            objective, optimality = job.evaluate(w, g)
            best.update(objective, optimality, before)
            before[:] = w
            stop = job.report(iteration, best.objective, optimality)
            if optimality <= self.tol:
                return best.converged(w, objective, optimality)
            if stop:
                return best.result(w, "stopped")
            if iteration == self.max_iter - 1:
                break
            gain = last - objective
            if iteration and not gain > WORTH * (first_gain or 0.0):
                w[:] = best.point(w)
                steps.grow()
                first_gain = None
            elif iteration and first_gain is None:
                first_gain = gain
        return best.result(w, "max_iter")

    def learn(self, job: Job, w: np.ndarray) -> Result:
        """A few steps with the gradient of all samples so far.

        Parameters
        ----------
        job : Job
            As for `solve`.

        w : ndarray of shape (n_pairs,)
            As for `solve`.

        Returns
        -------
        result : Result
            The best of the start and the points after it.
        """
        solver = AutoSolver(tol=self.tol, max_iter=LEARN_STEPS + 1)
        result = solver.solve(job, w)
        stopped = result.status == "stopped"
        return result._replace(status="stopped" if stopped else "converged")

    def _finish(self, job, history, w):
        """The rest of the iterations, with all samples in one batch."""
        done = len(history)
        solver = DiagonalSolver(tol=self.tol, max_iter=self.max_iter - done)
        rest = solver.solve(job._replace(report=counted_on(job.report, done)), w)
        return rest._replace(history=history + rest.history)


class _Steps:
    """The samples in batches, and the steps of a pass.

    A sample here is at most one unit of the weight of a context and class: heavier
    ones are cut into pieces, so that the batches are alike.
    """

    def __init__(self, problem, penalty, n_batches, rng):
        self.problem, self.penalty, self.rng = problem, penalty, rng
        terminal = problem.pairs.terminal_counts(problem.count)
        seen = np.flatnonzero(terminal > 0.0)
        pieces = np.minimum(np.ceil(terminal[seen]), n_batches).astype(np.int64)
        self.sample = np.repeat(seen, pieces)
        self.weight = np.repeat(terminal[seen] / pieces, pieces)
        self.n_batches = min(n_batches, self.sample.size)
        # The loss of a batch: the same pairs, other counts.
        batch = copy.copy(problem)
        batch.count = np.empty(problem.n_pairs)
        self.loss = LogLinearLoss(batch)
        self.done = 0  # steps of the pass
        self.x, self.g = np.empty(problem.n_pairs), np.empty(problem.n_pairs)
        self._begin()

    def _begin(self):
        """The metric of this number of batches, and the first step."""
        count = self.problem.count
        metric = copy.copy(self.problem)
        metric.count = np.where(count > 0.0, count + (self.n_batches - 1.0), 0.0)
        self.bound = self.penalty.in_metric_of(metric)
        self.t, self.z = 0, None

    def grow(self):
        """Batches of twice the size."""
        self.n_batches //= 2
        self._begin()

    def step(self, y):
        """One step from y, which is overwritten."""
        if self.done == 0:
            self.order = self.rng.permutation(self.sample.size)
        if self.z is None:
            self.z = y.copy()
        x, g, z, K = self.x, self.g, self.z, self.n_batches
        alpha = 2.0 / (self.t + 2.0)
        np.multiply(y, 1.0 - alpha, out=x)
        x += alpha * z
        if self.problem.positive:
            np.maximum(x, 0.0, out=x)
        self._choose(self.order[self.done :: K])
        self.loss.value_and_gradient(x, g)
        g *= K
        kappa = DIAGONAL * (1.0 + DECAY * self.t**1.5)
        self.bound.step(kappa, x, g, y)
        z -= (x - y) / alpha
        self.t += 1
        self.done = (self.done + 1) % K

    def _choose(self, samples):
        """The loss becomes that of these samples."""
        batch = self.loss.problem
        batch.count[:] = np.bincount(
            self.sample[samples], self.weight[samples], minlength=batch.count.size
        )
        batch.node_weight = batch.pairs.node_sums(batch.count)
        _fast.add_up(batch.pair_parent, batch.count)
