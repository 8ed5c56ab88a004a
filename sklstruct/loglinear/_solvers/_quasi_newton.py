"""Limited-memory quasi-Newton methods: L-BFGS-B of scipy, and OWL-QN."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import Bounds, minimize

from ..._docs import shared_docs
from ..._parallel import single_blas_thread
from ._base import EVALUATIONS, REST, TOL, Best, Job, Result, Solver

if TYPE_CHECKING:
    from ..._checkpoint import State
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
        objective, optimality = self.job.evaluate(w, g, np.empty_like(w))
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

    def get_state(self) -> State:
        """The state after an evaluation."""
        return {"w": self.w, **self.best.get_state()}

    def set_state(self, state: State) -> None:
        """Set what `get_state` returned."""
        self.w[:], self._before[:] = state["w"], state["w"]
        self.best = Best.of_state(state)

    def start(self):
        """u of the best point so far, or of the start."""
        return self.best.point(self.w) / self.scale

    def result(self):
        return self.best.result(self.w, self.status or "stalled")


@shared_docs(tol=TOL, evaluations=EVALUATIONS, rest=REST)
class LBFGSSolver(Solver):
    r"""L-BFGS-B of scipy, for penalties with a gradient.

    Limited-memory BFGS with bounds [1]_. With non-negative weights
    :math:`|w| = w`, so that "l1" and "elastic_net" have a gradient wherever weights may
    be and fit as "l2" does; with signed weights only "l2" fits, and `OWLQNSolver` has
    the others. The variables are :math:`w_p` times the root of its entry of the
    metric of `DiagonalSolver`: in w itself a frequent word curves a hundred thousand
    times as much as a rare pair.

    An evaluation costs one of loss and gradient and the passes of L-BFGS-B over its
    20 vectors of past steps, in one thread: 260 bytes per pair beside the loss.
    Scipy has no way to take the state out in the middle: no checkpoints.

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
                'where weights may be negative; solver="owlqn" is'
                " the quasi-Newton method for it, or set positive=True"
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


@shared_docs(tol=TOL, evaluations=EVALUATIONS, rest=REST)
class OWLQNSolver(Solver):
    r"""Orthant-wise limited-memory quasi-Newton, for penalties with an l1 term.

    Within one orthant the absolute values are linear. Every step is that of L-BFGS from
    the pseudo-gradient (the subgradient of least norm), in which a coordinate
    that points the other way than its own descent stays; the line search projects
    every point on the orthant of the last one, or of the descent where a weight is 0
    [1]_. With non-negative weights that orthant is the feasible set. The variables are
    scaled as in `LBFGSSolver`.

    An evaluation costs one of loss and gradient, a step a pass over 20 vectors of past
    steps, in one thread: 270 bytes per pair beside the loss.

    For "l1", "l2" and "elastic_net", weights of either sign.

    Parameters
    ----------
    {tol}

    {evaluations}

    {rest}

    References
    ----------
    .. [1] G. Andrew, J. Gao, "Scalable Training of L1-Regularized Log-Linear Models",
       ICML 2007.

    Examples
    --------
    >>> from sklstruct.loglinear import OWLQNSolver, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(
    ...     penalty="l1", positive=False, solver=OWLQNSolver()
    ... )
    """

    needs = ("step", "separable")
    resumable = True
    by_gradient = True

    def solve(self, job: Job, w: np.ndarray) -> Result:
        problem, keeper = job.problem, job.keeper
        evaluate = _Evaluations(self, job, w)
        l1, l2 = job.penalty.separable()
        absolute, square = np.empty_like(w), np.empty_like(w)

        def fill(k, lo, hi):
            for values, out in ((l1(k), absolute), (l2(k), square)):
                out[lo:hi] = values if values.size == 1 else values[lo:hi]

        problem.sum_over(fill)
        absolute *= evaluate.scale
        memory: deque = deque(maxlen=MEMORY)

        def smooth_gradient():
            return (evaluate.g + square * w) * evaluate.scale

        like = {
            "u": w, "g": w, "w": w, "objective": 0.0, "halvings": 0,
            "curvatures": [0.0], **Best.like(w),
        }  # fmt: skip
        state = keeper.load(like)
        if state is not None:
            n = len(state["curvatures"])
            steps = {f"{name}{i}": w for i in range(n) for name in ("step", "change")}
            keeper.checked(state, steps)
        try:
            if state is None:
                u = evaluate.start()
                objective, g, halvings = evaluate(u), smooth_gradient(), 0
            else:
                u, g, objective = state["u"], state["g"], state["objective"]
                halvings = state["halvings"]
                memory.extend(_steps_of_state(state))
                evaluate.set_state(state)
            slope = orthant = d = np.empty(0)  # at u; empty: to be made
            while True:
                keeper.save(
                    u=u, g=g, objective=objective, halvings=halvings,
                    **_state_of_steps(memory), **evaluate.get_state(),
                )  # fmt: skip
                if not d.size:
                    slope, orthant, d = _line(problem, u, g, absolute, memory)
                new = u + 0.5**halvings * d
                new[new * orthant < 0.0] = 0.0
                promised = problem.dot(slope, new - u)
                if promised < 0.0:
                    value = evaluate(new)
                    if value <= objective + 1e-4 * promised and value < objective:
                        g_new = smooth_gradient()
                        step, change = new - u, g_new - g
                        curvature = problem.dot(step, change)
                        if curvature > 1e-12 * problem.dot(change, change):
                            memory.append((step, change, curvature))
                        u, g, objective, halvings = new, g_new, value, 0
                        d = np.empty(0)
                        continue
                    halvings += 1
                    if halvings < SEARCH:
                        continue
                # No step along d goes down.
                if not memory:
                    break
                memory.clear()
                halvings, d = 0, np.empty(0)
        except _End:
            pass
        return evaluate.result()


def _state_of_steps(memory):
    """The past steps as a state, for `_steps_of_state`."""
    state: State = {"curvatures": [curvature for *_, curvature in memory]}
    for i, (step, change, _) in enumerate(memory):
        state |= {f"step{i}": step, f"change{i}": change}
    return state


def _steps_of_state(state):
    """(step, change of the gradient, product of both) of the past steps."""
    return [
        (state[f"step{i}"], state[f"change{i}"], curvature)
        for i, curvature in enumerate(state["curvatures"])
    ]


def _line(problem, u, g, absolute, memory):
    """(pseudo-gradient, orthant, direction) at u."""
    slope = _pseudo_gradient(u, g, absolute, problem.positive)
    if problem.positive:
        orthant = np.ones_like(u)
    else:
        orthant = np.where(u != 0.0, np.sign(u), -np.sign(slope))
    d = _direction(slope, memory, problem.dot)
    d[d * slope >= 0.0] = 0.0
    return slope, orthant, d


def _pseudo_gradient(u, g, absolute, positive):
    """The subgradient of least norm of g u + absolute |u|."""
    at_zero = np.minimum(g + absolute, 0.0)
    if not positive:
        at_zero += np.maximum(g - absolute, 0.0)
    return np.where(u != 0.0, g + np.sign(u) * absolute, at_zero)


def _direction(slope, memory, dot):
    """- H slope by the two loops of L-BFGS; H is the identity without memory."""
    d = -slope
    factors = []
    for step, change, curvature in reversed(memory):
        factors.append(dot(step, d) / curvature)
        d -= factors[-1] * change
    if memory:
        _, change, curvature = memory[-1]
        d *= curvature / dot(change, change)
    for (step, change, curvature), factor in zip(memory, reversed(factors)):
        d += (factor - dot(change, d) / curvature) * step
    return d
