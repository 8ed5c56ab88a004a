"""Penalties that are a sum over the pairs: l1, squared l2, elastic net."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..._penalties import Separable
from .. import _solver_fast as _fast
from .._problem import PerLevel, pull
from ._base import LARGEST_SCORE, ProximalPenalty

if TYPE_CHECKING:
    from .._problem import Problem

EMPTY = np.empty(0)

# Level -> one number, or one for every pair.
ByLevel = Callable[[int], np.ndarray]


def conjugate_of_squares(
    v: np.ndarray, l2: np.ndarray | float, beta: np.ndarray
) -> float:
    """The largest sum of v w - l2 w^2 / 2, v >= 0, over all weights of features beta
    that add at most LARGEST_SCORE to a score."""
    l2, limit = np.asarray(l2), LARGEST_SCORE / beta
    w = np.minimum(v, l2 * limit) / np.where(l2 > 0.0, l2, 1.0)
    w = np.where(l2 > 0.0, w, limit)
    return float(np.sum(v * w - 0.5 * l2 * w**2))


class BoundSeparable(ProximalPenalty):
    r""":math:`\sum_p \lambda_p [a_p\,|w_p| + \tfrac{b_p}{2} w_p^2]`; its step is a
    formula for each pair."""

    sharded = True
    coupling = 0.0

    def __init__(self, penalty: Separable, problem: Problem) -> None:
        super().__init__(penalty, problem)
        pairs, strength = problem.pairs, problem.strength_by_depth
        l1_ratio, l2_ratio = penalty.ratios()
        l2_ratio = np.asarray(l2_ratio, dtype=np.float64)
        depth = pairs.tree.max_depth
        if l2_ratio.ndim and l2_ratio.size <= depth:
            raise ValueError(
                "gamma must be a number or give one value for each depth 0 ... "
                f"{depth} of the contexts, got {l2_ratio.size} values"
            )
        weight = penalty.count_weights()
        collapsed = pairs.tree.span is not None
        if collapsed and weight is not None:
            raise ValueError(
                "count_weight needs a tree that is not collapsed, as merged contexts "
                "differ in their adjusted counts; use collapse=False in "
                "SuffixTreeVectorizer"
            )
        by_depth = np.full(depth + 1, l2_ratio) if l2_ratio.ndim == 0 else l2_ratio
        by_depth = by_depth[: depth + 1]
        if collapsed and (by_depth[1:] != by_depth[1:2]).any():
            raise ValueError(
                "gamma must be the same at all depths above 0 on a collapsed tree, as "
                "merged suffixes share one weight; use collapse=False in "
                "SuffixTreeVectorizer"
            )
        self.l1_ratio = l1_ratio
        self.l1 = problem.strength * l1_ratio
        self.l2 = PerLevel.spread(strength[: depth + 1] * by_depth, pairs)
        if weight is not None:
            adjusted = np.rint(pairs.adjusted_counts(problem.count))
            index = np.clip(adjusted, 1, weight.size).astype(np.intp) - 1
            self.l1 = self.l1.by_pair(weight[index], pairs)

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

    def conjugate(self, v: np.ndarray) -> float:
        """The largest value, pair by pair."""
        problem, value = self.problem, 0.0
        for k, (lo, hi) in enumerate(problem.levels):
            over = pull(v[lo:hi], problem.positive) - self.l1.of(lo, hi, k)
            value += conjugate_of_squares(
                np.maximum(over, 0.0), self.l2.of(lo, hi, k), problem.beta.of(lo, hi, k)
            )
        return value

    def quadratic(self, epsilon: float) -> tuple[ByLevel, ByLevel, np.ndarray]:
        return self.l1.at, self.l2.at, EMPTY

    def alone(self, lo: int, hi: int, level: int) -> tuple[np.ndarray, np.ndarray]:
        return self.l1.of(lo, hi, level), self.l2.of(lo, hi, level)

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


# Its parameters stand below both packages; this is their form on a context tree.
Separable.bound = BoundSeparable


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
    quadratic weight rho; l1(level) and l2(level) hold one entry or one per pair."""
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
