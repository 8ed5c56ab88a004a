"""What the solvers share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .. import _solver_fast as _fast
from .._sweeps import sum_over


class Result(NamedTuple):
    """What a solver found; objective and optimality are those of `w`."""

    w: np.ndarray
    history: list  # objective at each evaluation
    objective: float
    optimality: float
    status: str  # "converged", "max_iter" or "stopped" (by a callback)


def extrapolate(loss, momentum, positive, y, y_prev, w, new):
    """y_prev <- y, y <- new + momentum (new - w), w <- new."""

    def run(k, lo, hi):
        _fast.extrapolate(lo, hi, momentum, positive, y, y_prev, w, new)

    sum_over(loss.map, run, loss.ranges.groups)


def next_momentum(t):
    """(momentum, next t) of Nesterov's sequence."""
    t_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
    return (t - 1.0) / t_next, t_next


def relative_residual(squared, loss):
    """The optimality residual: root of sum r_p^2 / c_p over the total weight."""
    return float(np.sqrt(squared / loss.tree.node_weight.sum()))
