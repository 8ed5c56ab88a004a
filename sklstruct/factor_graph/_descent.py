"""A quasi-Newton method for a smooth function with l1 and l2 penalties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Number of past steps in the L-BFGS metric.
_MEMORY = 6
# Halvings of a step, after which no lower point is expected.
_HALVINGS = 40


def descend(
    loss: Callable[[np.ndarray], tuple[float, np.ndarray]],
    curvature: np.ndarray,
    c1: float,
    c2: float,
    report: Callable[[np.ndarray, float, np.ndarray], bool],
) -> None:
    r"""Minimise loss(w) + c1 |w|_1 + c2 |w|^2 from w = 0, until `report` returns True.

    Within an orthant the absolute values are linear. A weight moves if it is not 0, or
    if the objective falls on one side of 0, which is then its side; the other weights
    stay 0. The step is the L-BFGS step *for the weights that move*: products of past
    steps and changes of the gradient are sums over these weights only, which estimates
    the inverse of the corresponding block of the Hessian. Weights that would leave
    their orthant become 0. OWL-QN (Andrew and Gao 2007) differs in two points: it uses
    the block of the inverse instead, and drops components whose sign disagrees with the
    slope. On the benchmark data OWL-QN then needs two to five times as many iterations,
    or does not converge.

    Weights of rare features have small slopes, so the unknowns are w / unit with unit =
    curvature^(-0.2): the initial metric of L-BFGS, a multiple of the identity, is then
    between the metric of steepest descent (power 0) and of Newton's diagonal (-0.5).
    Powers of -0.15 and -0.4 need more iterations.

    All scalar products in the two loops of L-BFGS are between the last 6 steps, the
    last 6 changes and the slope, so they are computed by one matrix product.

    Parameters
    ----------
    loss : callable
        w -> (value, gradient); smooth.

    curvature : ndarray of shape (n,)
        Approximate second derivatives of the loss.

    report : callable
        Called with w, the loss and its gradient at the start and after each iteration;
        returns whether to stop. The descent also ends when rounding hides all lower
        points.
    """
    curve = curvature + 2.0 * c2
    largest = curve.max(initial=0.0)
    unit = np.ones(curve.size)
    if largest > 0.0:
        unit = np.maximum(curve / largest, 1e-12) ** -0.2
    slope_of_absolute = c1 * unit

    def evaluate(u: np.ndarray) -> tuple:
        w = u * unit
        value, gradient = loss(w)
        objective = value + c2 * float(w @ w) + c1 * float(np.abs(w).sum())
        return objective, (gradient + 2.0 * c2 * w) * unit, (w, value, gradient)

    u, memory = np.zeros(unit.size), _Memory(unit.size)
    objective, smooth, point = evaluate(u)
    while not report(*point):
        sides, moving, slope = np.zeros(u.size), None, smooth
        if c1 > 0.0:
            sides, slope = _sides(u, smooth, slope_of_absolute)
            moving = np.flatnonzero(sides)
        step = memory.direction(slope, moving)
        if not memory.used:  # the scale is not known yet
            step *= 1.0 / max(1.0, float(np.abs(slope).sum()))
        for _ in range(_HALVINGS):
            new = u + step
            if c1 > 0.0:
                new[new * sides <= 0.0] = 0.0
            move = new - u
            promise = float(slope @ move)
            if promise >= 0.0:
                break
            found, smooth_there, there = evaluate(new)
            # If rounding hides the descent, the slope at the end decides.
            along = smooth_there @ move + slope_of_absolute @ (sides * move)
            hidden = found <= objective + 1e-14 * abs(objective)
            if found <= objective + 1e-4 * promise or (hidden and along <= -promise):
                memory.add(move, smooth_there - smooth)
                u, objective, smooth, point = new, found, smooth_there, there
                break
            step *= 0.5
        else:
            promise = 0.0
        if promise >= 0.0:  # no lower point along the step
            if not memory.used:
                return
            memory = _Memory(u.size)


def _sides(
    u: np.ndarray, smooth: np.ndarray, slope_of_absolute: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(the sign that each weight has or will have, 0 if it stays; the slopes)."""
    sides = np.sign(u)
    slope = smooth + sides * slope_of_absolute
    at = np.flatnonzero(sides == 0.0)
    there = smooth[at]
    there -= np.clip(there, -slope_of_absolute[at], slope_of_absolute[at])
    slope[at] = there
    sides[at] = -np.sign(there)
    return sides, slope


class _Memory:
    """Past steps, their changes of the gradient, and a row for a slope."""

    def __init__(self, n: int) -> None:
        self.rows = np.zeros((2 * _MEMORY + 1, n))
        self.product = np.zeros((len(self.rows), len(self.rows)))
        self.used: list[int] = []  # rows of the steps, from the oldest on
        self.new = [-1]  # rows whose products are not in `product`

    def add(self, step: np.ndarray, change: np.ndarray) -> None:
        if step @ change > 1e-12 * (change @ change):
            at = 2 * len(self.used)
            if len(self.used) == _MEMORY:
                at = self.used.pop(0)
            self.used.append(at)
            self.rows[at], self.rows[at + 1] = step, change
            self.new = [at, at + 1, -1]

    def direction(self, slope: np.ndarray, moving: np.ndarray | None) -> np.ndarray:
        """- H slope by the two loops of L-BFGS, over the weights that move.

        The loops run over the coefficients of the rows.
        """
        self.rows[-1] = slope
        rows, product = self.rows, self.product
        if moving is None:
            part = rows[self.new] @ rows.T
            product[self.new], product[:, self.new] = part, part.T
            self.new = [-1]
        else:
            rows = rows.take(moving, axis=1)
            product = rows @ rows.T
        weight = np.zeros(len(rows))
        weight[-1] = -1.0
        pairs = [
            (at, product[at, at + 1])
            for at in self.used
            if product[at, at + 1] > 1e-12 * product[at + 1, at + 1]
        ]
        factors = []
        for at, curvature in reversed(pairs):
            factors.append(product[at] @ weight / curvature)
            weight[at + 1] -= factors[-1]
        if pairs:
            at, curvature = pairs[-1]
            weight *= curvature / product[at + 1, at + 1]
        for (at, curvature), factor in zip(pairs, reversed(factors)):
            weight[at] += factor - product[at + 1] @ weight / curvature
        if moving is None:
            return weight @ rows
        step = np.zeros(slope.size)
        step[moving] = weight @ rows
        return step
