"""The base of the penalties: objects with parameters, which a fit binds to a problem.

A `Penalty` has parameters and no data. Binding it to a `Problem` gives a
`BoundPenalty`, which has the strengths, the sign of the weights and scratch arrays, and
some of the methods

``value(w)``
    strength times Omega(w).
``step(kappa, y, g, out, epsilon)``
    The proximal step from y in the diagonal metric D = kappa * scale * count, exact
    or (``smoothed``, epsilon > 0) that of a majoriser tangent at y.
``quadratic(epsilon)``
    The penalty for a solver with its own metric, after `step` if it is
    ``smoothed``: (l1(level), l2(level), rho), the weights of the absolute and of the
    squared values, of one entry or one per pair, and a further quadratic weight per
    pair (or empty), -1 where the pair has to move as in the step.
``prox(v, metric, out)``
    The exact proximal operator in a metric that suits it.
``alone(lo, hi, level)``, ``coupling``
    For `lam_max` and active sets: (l1, l2), the weights of the absolute and of the
    squared value of some pairs where all weights below them are zero; and how their
    group takes the excess of the pairs below: 0 not at all (separable), 1 by sums
    (maxima), 2 by sums of squares (Euclidean norms).
``conjugate(v)``
    For the duality gap: an upper bound of v'w less the penalty of w, over all weights
    that add at most LARGEST_SCORE to a score.

A solver names the methods that it needs; a penalty without these methods raises an
error before any work. A new penalty is a file with two classes, and is passed as an
object; an entry in ``PENALTIES`` gives it a name.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._penalties import Penalty
from .. import _solver_fast as _fast
from .._problem import pull

if TYPE_CHECKING:
    from .._problem import Problem


# The conjugate of a norm is infinite outside of its dual ball, where a gradient is
# until the minimum is reached. So the conjugate is taken over the weights that multiply
# the odds of a class by at most exp(LARGEST_SCORE), which is more than any text needs.
LARGEST_SCORE = 25.0


class BoundPenalty(metaclass=ABCMeta):
    r"""A penalty with the strengths and pairs of one problem, which a solver calls.

    Parameters
    ----------
    penalty : Penalty
        Gives the parameters.

    problem : Problem
        Gives pairs, strengths by depth (``problem.strength``), the sign of the
        weights and the walks over the pairs.
    """

    smoothed = False  # whether `step` begins with a smoothed majoriser
    # Whether all sums over pairs are computed by methods of the problem, so that the
    # penalty works on the shards of a tree.
    sharded = False
    l1_ratio = 1.0  # slope at 0 along a single weight, over its strength

    if TYPE_CHECKING:
        # Methods that a subclass may have in addition to `value`; see `Solver.needs`.
        step: Callable[..., tuple[float, float]]
        prox: Callable[..., np.ndarray]
        quadratic: Callable[..., tuple[Any, Any, np.ndarray]]
        alone: Callable[..., tuple[np.ndarray, np.ndarray]]
        coupling: float

    def __init__(self, penalty: Penalty, problem: Problem) -> None:
        self.penalty = penalty
        self.problem = problem

    @abstractmethod
    def value(self, w: np.ndarray) -> float:
        """The penalty at w, strengths included."""

    def conjugate(self, v: np.ndarray) -> float:
        """A bound of <v, w> - value(w) for weights that add at most LARGEST_SCORE.

        This default bound holds for any non-negative penalty.
        """
        return self.reach(pull(v, self.problem.positive))

    def reach(self, v: np.ndarray) -> float:
        """The largest <v, w>, v >= 0, of weights that add at most LARGEST_SCORE."""
        total = 0.0
        for k, (lo, hi) in enumerate(self.problem.levels):
            total += float(np.sum(v[lo:hi] / self.problem.beta.of(lo, hi, k)))
        return LARGEST_SCORE * total


class ProximalPenalty(BoundPenalty):
    """A penalty whose proximal operator is exact in any diagonal metric.

    Parameters
    ----------
    penalty : Penalty
        Gives the parameters.

    problem : Problem
        As in `BoundPenalty`.
    """

    # The factor and the metric of the last step.
    _last: tuple[float, Any] = (0.0, None)

    @abstractmethod
    def prox(self, v: np.ndarray, metric: np.ndarray, out: np.ndarray) -> np.ndarray:
        """out = argmin over u of sum metric (u - v)^2 / 2 + value(u); v may be out.

        If weights are non-negative, v must be as well.
        """

    def conjugate(self, v: np.ndarray) -> float:
        return conjugate_by_prox(self, v)

    def step(
        self,
        kappa: float,
        y: np.ndarray,
        g: np.ndarray,
        out: np.ndarray,
        epsilon: float = 0.0,
    ) -> tuple[float, float]:
        """out = the proximal step; (squared residual over count, value at y)."""
        if self._last[0] != kappa:
            self._last = kappa, self.problem.metric(kappa)
        value = self.value(y)
        return proximal_step(self, self._last[1], y, g, out), value


def conjugate_by_prox(penalty: Any, v: np.ndarray) -> float:
    """`BoundPenalty.conjugate` of a penalty with an exact `prox`.

    With u = prox(v), v - u is a subgradient at u, so that the conjugate is finite
    there: <v - u, u> - value(u), which is 0 for a norm. The rest of v is u.
    """
    v = pull(v, penalty.problem.positive)
    u = penalty.prox(v, np.ones_like(v), np.empty_like(v))
    v -= u
    # A difference of large numbers, and not negative.
    inside = max(penalty.problem.dot(v, u) - penalty.value(u), 0.0)
    return inside + penalty.reach(u)


def proximal_step(
    penalty: BoundPenalty,
    metric: np.ndarray,
    y: np.ndarray,
    g: np.ndarray,
    out: np.ndarray,
) -> float:
    """out = prox(y - g / D); returns sum (D (y - out))^2 / count."""
    problem = penalty.problem
    count = problem.count

    def forward(k, lo, hi):
        _fast.gradient_step(lo, hi, metric, y, g, problem.positive, out)

    def residual(k, lo, hi):
        return _fast.mapping_residual(lo, hi, metric, count, y, out)

    problem.sum_over(forward)
    penalty.prox(out, metric, out)
    return problem.sum_over(residual)
