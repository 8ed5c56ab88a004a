"""Penalties that are a sum over the pairs: l1, squared l2, elastic net."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..._compat import Interval
from .. import _solver_fast as _fast
from ._base import Penalty, ProximalPenalty

if TYPE_CHECKING:
    from .._problem import Problem

EMPTY = np.empty(0)

# Level -> one number, or one for every pair.
ByLevel = Callable[[int], np.ndarray]


class BoundSeparable(ProximalPenalty):
    r""":math:`\sum_p \lambda_p [a\,|w_p| + \tfrac{b}{2} w_p^2]`; its step is a formula
    for each pair."""

    def __init__(self, penalty: Penalty, problem: Problem) -> None:
        super().__init__(penalty, problem)
        l1_ratio, l2_ratio = penalty.ratios()
        self.l1_ratio = l1_ratio
        self.l1, self.l2 = problem.strength * l1_ratio, problem.strength * l2_ratio

    def step(
        self,
        kappa: float,
        y: np.ndarray,
        g: np.ndarray,
        out: np.ndarray,
        epsilon: float = 0.0,
    ) -> tuple[float, float]:
        return separable_step(
            self.problem, self.l1.at, self.l2.at, kappa, y, g, EMPTY, out
        )

    def quadratic(self, epsilon: float) -> tuple[ByLevel, ByLevel, np.ndarray]:
        return self.l1.at, self.l2.at, EMPTY

    def value(self, w: np.ndarray) -> float:
        def part(k, lo, hi):
            l1, l2, v = self.l1.of(lo, hi, k), self.l2.of(lo, hi, k), w[lo:hi]
            return float(np.sum(l1 * np.abs(v)) + 0.5 * np.sum(l2 * v**2))

        return self.problem.sum_over(part)

    def prox(self, v: np.ndarray, metric: np.ndarray, out: np.ndarray) -> np.ndarray:
        def part(k, lo, hi):
            l1, l2, d = self.l1.of(lo, hi, k), self.l2.of(lo, hi, k), metric[lo:hi]
            shrunk = np.maximum(np.abs(v[lo:hi]) - l1 / d, 0.0) * (d / (d + l2))
            out[lo:hi] = np.copysign(shrunk, v[lo:hi])

        self.problem.sum_over(part)
        return out


class Separable(Penalty):
    """Base of `L1`, `L2`, `ElasticNet`."""

    bound = BoundSeparable

    @abstractmethod
    def ratios(self) -> tuple[float, float]:
        """(a, b): factors of the l1 and of the squared l2 term."""

    def definition(self, w: np.ndarray, groups: Any) -> float:
        l1_ratio, l2_ratio = self.ratios()
        return sum(
            s * (l1_ratio * abs(v) + 0.5 * l2_ratio * v**2)
            for s, v in zip(groups.strength, w)
        )


class L1(Separable):
    r""":math:`\Omega(w) = \sum_q |w_q|`, q over the pairs.

    Zeros at single pairs; a positive weight costs its pair an absolute discount of
    `lam` / :math:`\beta` counts.

    Examples
    --------
    >>> from sklstruct.loglinear import L1, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(penalty=L1(), lam=0.5)
    """

    def ratios(self) -> tuple[float, float]:
        return 1.0, 0.0


class L2(Separable):
    r""":math:`\Omega(w) = \frac12 \sum_q w_q^2`, q over the pairs.

    Examples
    --------
    >>> from sklstruct.loglinear import L2, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(penalty=L2(), lam=0.1, alpha=0.7)
    """

    def ratios(self) -> tuple[float, float]:
        return 0.0, 1.0


class ElasticNet(Separable):
    r""":math:`\Omega(w) = \sum_q |w_q| + \frac{\gamma}{2} \sum_q w_q^2`, q over the
    pairs.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight :math:`\gamma \ge 0` of the squared term, finite; 0 is `L1`.

    Examples
    --------
    >>> from sklstruct.loglinear import ElasticNet, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(penalty=ElasticNet(gamma=0.3), lam=0.2)
    >>> model.set_params(penalty__gamma=0.5).penalty
    ElasticNet(gamma=0.5)
    """

    _parameter_constraints: ClassVar[dict] = {
        "gamma": [Interval(numbers.Real, 0, np.finfo(float).max, closed="both")]
    }

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = gamma

    def ratios(self) -> tuple[float, float]:
        return 1.0, float(self.gamma)


def separable_step(
    problem: Problem,
    l1: ByLevel,
    l2: ByLevel,
    kappa: float,
    y: np.ndarray,
    g: np.ndarray,
    rho: np.ndarray,
    out: np.ndarray,
) -> tuple[float, float]:
    """(squared residual over count, penalty at y) of the step with the further
    quadratic weight rho; l1(level) and l2(level) hold one entry or one a pair."""
    count, scale = problem.count, problem.scale

    def run(k, lo, hi):
        sums = np.zeros(2)
        _fast.separable_step(
            lo, hi, kappa, scale.at(k), l1(k), l2(k), rho, problem.positive, count, y,
            g, out, sums,
        )  # fmt: skip
        return sums

    squared, value = problem.sum_over(run)
    return squared, value
