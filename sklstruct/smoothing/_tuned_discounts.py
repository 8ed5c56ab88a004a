"""Discounts that maximise the held-out likelihood, by its exact gradient.

With the discounts D of every depth the interpolated probability of a sample is

    P_k(y) = (a - D(a)) / A + P_{k-1}(y) sum_y' D(a') / A

at each context from the root down, with a and A the counts of the pair and of the
context. P, D(a) and the sum are linear in the discounts of each depth, with a fixed
part for fractional counts. The counts are read once, to build the linear maps, so an
evaluation costs O(held-out pairs). (Povey's pocolm optimises discounts in this way;
MITLM uses a search without gradients.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..backoff import HeldOut
from ..context_tree import Pairs
from ._chains import log_likelihood, parents_in_level

# Discounts are at least this: D = 0 would leave no mass for unseen symbols.
_LEAST = 1e-3


def discount_weights(count: np.ndarray, n_discounts: int) -> tuple[np.ndarray, ...]:
    """(fixed, w) with D(a) = fixed + w @ D, as the kernels interpolate.

    Between integers D is linear, constant from `n_discounts` on; below 1 it is
    a - (1 - D_1) a^2.
    """
    fixed = np.where(count < 1, count - count**2, 0.0)
    w = np.empty((count.size, n_discounts))
    for i in range(1, n_discounts + 1):
        if i < n_discounts:
            w[:, i - 1] = np.clip(1 - np.abs(count - i), 0, 1)
        else:
            w[:, i - 1] = np.clip(count - (i - 1), 0, 1)
    below = count < 1
    w[below] = 0.0
    w[below, 0] = count[below] ** 2
    return fixed, w


class DiscountedLevel(NamedTuple):
    """Interpolation at one depth, linear in its discounts."""

    parent: np.ndarray  # pair of the level above (at the root: the class)
    weight: np.ndarray  # of the samples that end here
    discounted: np.ndarray  # probability of the pair at D = 0
    discounted_slope: np.ndarray  # (n, n_discounts)
    backoff_mass: np.ndarray
    mass_slope: np.ndarray


class PathLikelihood:
    """Mean negative log-likelihood of samples, as a function of the discounts.

    base: the distribution above the first level.
    top: the largest value of each discount.
    levels: from the first level down.
    """

    def __init__(self, base: np.ndarray, top: np.ndarray, levels: list):
        self.base, self.top, self.levels = base, top, levels
        self.size = sum(float(level.weight.sum()) for level in levels)

    def __call__(self, discounts: np.ndarray) -> tuple[float, np.ndarray]:
        """Value, in nats per sample, and gradient.

        discounts: (n_levels - first, n_discounts).
        """
        shares = [
            (
                level.discounted + level.discounted_slope @ d,
                level.backoff_mass + level.mass_slope @ d,
            )
            for d, level in zip(discounts, self.levels)
        ]
        value, slopes = log_likelihood(self.base, self.levels, shares)
        gradient = np.empty_like(discounts)
        for row, level, (slope, up, _) in zip(gradient, self.levels, slopes):
            row[:] = level.discounted_slope.T @ slope + level.mass_slope.T @ (
                slope * up
            )
        return -value / self.size, -gradient / self.size

    def minimize(
        self, start: np.ndarray, tol: float = 1e-13, fixed: int = 0
    ) -> np.ndarray:
        """Discounts of a local minimum, in 0 < D <= `top`, by L-BFGS-B.

        tol: stop when a step reduces the value by less than this relative amount.
        fixed: number of the first levels, whose discounts are not changed.
        """
        if not self.size > 0.0:
            return start
        shape = start.shape
        start = np.clip(start, _LEAST, self.top)
        bounds = [(d, d) for d in start[:fixed].ravel()]
        bounds += [(_LEAST, t) for _ in range(shape[0] - fixed) for t in self.top]

        def objective(x):
            value, gradient = self(x.reshape(shape))
            return value, gradient.ravel()

        found = minimize(
            objective,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 500, "ftol": tol, "gtol": 1e-8},
        )
        return found.x.reshape(shape)


def held_out_likelihood(
    pairs: Pairs,
    count: np.ndarray,
    held_out: HeldOut,
    base: np.ndarray,
    first: int,
    n_discounts: int,
) -> PathLikelihood:
    """The likelihood of held-out samples.

    count: the counts that are discounted.
    held_out: samples over the tree of `pairs`.
    base: the distribution above the depth `first`, 0 or 1, the first with discounts.
    n_discounts: number of discounts; the last is also for all larger counts.
    """
    samples = held_out.pairs
    node, total = samples.nodes(), pairs.node_sums(count)
    levels = []
    for k in range(first, pairs.tree.n_levels):
        here, nodes = pairs.level(k), pairs.tree.level(k)
        starts = pairs.ptr[nodes] - here.start
        sums = [
            np.add.reduceat(x, starts, axis=0)
            for x in discount_weights(count[here], n_discounts)
        ]
        here = samples.level(k)
        slot = held_out.slot[here]
        known = np.where(slot >= 0, count[np.maximum(slot, 0)], 0.0)
        fixed, w = discount_weights(known, n_discounts)
        n, a = node[here] - nodes.start, total[node[here]]
        levels.append(
            DiscountedLevel(
                parents_in_level(samples, k),
                held_out.weight[here],
                (known - fixed) / a,
                -w / a[:, None],
                sums[0][n] / a,
                sums[1][n] / a[:, None],
            )
        )
    top = np.arange(1, n_discounts + 1, dtype=np.float64)
    return PathLikelihood(base, top, levels)
