"""Penalties bound to the features of a problem, with the methods that solvers call.

Weights are (columns, lanes). `SeparableTerm` and `GroupTerm` are for the Newton steps
on a working set, `ProximalTerm` is for FISTA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A working set grows by this factor, and by at least this number of weights per lane,
# or of groups. With many lanes and dense X it grows by fewer weights: the cost of the
# Hessian grows with the square of the number of weights.
_GROWTH, _LEAST_WEIGHTS, _LEAST_OF_MANY, _LEAST_GROUPS = 2, 30, 10, 50


def largest(excess: NDArray, most: int) -> NDArray:
    """Positions of the largest positive entries, at most `most` of them, ascending."""
    found = np.flatnonzero(excess > 0)
    if found.size > most:
        order = np.argpartition(-excess.ravel()[found], most)[:most]
        found = np.sort(found[order])
    return found


class SeparableTerm:
    """l1 |w| + l2 w^2 / 2, summed over the weights."""

    def __init__(self, l1: float, l2: float) -> None:
        self.l1, self.l2 = l1, l2

    def scaled(self, factor: float) -> SeparableTerm:
        """The penalty times a factor."""
        return SeparableTerm(factor * self.l1, factor * self.l2)

    def value(self, columns: NDArray, W: NDArray) -> float:
        """The penalty times its strength."""
        return float(self.l1 * np.abs(W).sum() + 0.5 * self.l2 * np.vdot(W, W))

    def shifted(self, W: NDArray) -> NDArray:
        """W minus the number c per row that makes the penalty smallest.

        With l2 > 0 the minimiser of sum_k l1 |w_k - c| + l2 (w_k - c)^2 / 2 is the
        median of the K values w_k and of the K + 1 roots that the derivative has if i =
        0 ... K of the w_k are taken to be below c.
        """
        K = W.shape[1]
        if self.l2 > 0:
            i = 2 * np.arange(K + 1) - K
            roots = W.mean(axis=1)[:, None] - self.l1 / (self.l2 * K) * i
            return W - np.median(np.hstack([W, roots]), axis=1)[:, None]
        ascending = np.sort(W, axis=1)
        c = np.clip(0, ascending[:, (K - 1) // 2], ascending[:, K // 2])
        return W - c[:, None]

    def largest_pull(self, G: NDArray) -> float:
        """The least factor of the penalty at which all weights are zero."""
        top = float(np.abs(G).max(initial=0.0))
        if self.l1 == 0:
            return np.inf if top > 0 else 0.0
        return top / self.l1

    def violations(self, g: NDArray, w: NDArray) -> NDArray:
        """Distances of 0 from the subdifferentials, given derivatives of the loss."""
        g = g + self.l2 * w
        away = np.maximum(np.abs(g) - self.l1, 0)
        return np.where(w != 0, np.abs(g + self.l1 * np.sign(w)), away)

    def duals(
        self, problem: Any, columns: NDArray, G: NDArray
    ) -> Iterator[tuple[NDArray, float]]:
        """(share, conjugate of the penalty there) of some dual points.

        This penalty does not couple the lanes of binary losses: each has its own share.
        """
        size = np.abs(G)
        if self.l1 > 0:
            top = size.max(axis=0 if not problem.coupled else None, initial=0.0)
            yield np.minimum(1.0, self.l1 / np.maximum(top, 1e-300)), 0.0
        if self.l2 > 0:
            over = np.maximum(size - self.l1, 0)
            yield np.ones(1), float(np.vdot(over, over)) / (2 * self.l2)

    def may_act(
        self, problem: Any, columns: NDArray, pull: NDArray, gap: float
    ) -> NDArray:
        """Whether columns may have a weight that is not 0 at the optimum.

        pull: x_j' theta of a dual point theta with this duality gap.
        """
        radius = np.sqrt(0.5 * gap * problem.squares.take(columns))
        return np.abs(pull).max(axis=1) + radius >= self.l1

    def choose(
        self, problem: Any, columns: NDArray, W: NDArray, alive: NDArray, G: NDArray
    ) -> tuple[float, NDArray, NDArray]:
        """(largest violation, new columns, mask of their weights) for a working set.

        columns, W: the columns in the set so far, and their weights. alive, G: the
        columns that may have weights, and their derivatives.
        """
        at = np.searchsorted(alive, columns)
        excess = np.maximum(np.abs(G) - self.l1, 0)
        excess[at] = self.violations(G[at], W)
        worst = excess.max(initial=0.0)
        excess[at] = np.where(W != 0, 0, excess[at])
        K = W.shape[1]
        few = problem.dense is None or K <= 10
        least = K * (_LEAST_WEIGHTS if few else _LEAST_OF_MANY)
        most = max(_GROWTH * np.count_nonzero(W), least)
        row, lane = np.divmod(largest(excess, most), K)
        row, place = np.unique(row, return_inverse=True)
        mask = np.zeros((row.size, K), dtype=bool)
        mask[place, lane] = True
        return float(worst), alive[row], mask


class GroupTerm:
    """Sum of strength_g ||W_g|| over the groups of a partition of the columns.

    group: the number of the group of each column, from 0.
    """

    def __init__(self, group: NDArray, strength: NDArray) -> None:
        self.group, self.strength = group, strength

    def scaled(self, factor: float) -> GroupTerm:
        return GroupTerm(self.group, factor * self.strength)

    def _sizes(self, columns, W):
        """Euclidean norms of all groups."""
        square = np.einsum("ck,ck->c", W, W)
        return np.sqrt(np.bincount(self.group[columns], square, self.strength.size))

    def value(self, columns: NDArray, W: NDArray) -> float:
        return float(self.strength @ self._sizes(columns, W))

    def shifted(self, W: NDArray) -> NDArray:
        return W - W.mean(axis=1)[:, None]

    def largest_pull(self, G: NDArray) -> float:
        sizes = self._sizes(np.arange(self.group.size), G)
        return float((sizes / self.strength).max(initial=0.0))

    def violations(self, columns: NDArray, G: NDArray, W: NDArray) -> NDArray:
        """Violations of all groups; columns that are not given have weights 0."""
        size = self._sizes(columns, W)
        away = np.maximum(self._sizes(columns, G) - self.strength, 0)
        slope = self.strength / np.where(size > 0, size, 1)
        at = self._sizes(columns, G + slope[self.group[columns], None] * W)
        return np.where(size > 0, at, away)

    def duals(
        self, problem: Any, columns: NDArray, G: NDArray
    ) -> Iterator[tuple[NDArray, float]]:
        top = (self._sizes(columns, G) / self.strength).max(initial=0.0)
        yield np.minimum(1.0, 1 / np.maximum(top, [1e-300])), 0.0

    def may_act(
        self, problem: Any, columns: NDArray, pull: NDArray, gap: float
    ) -> NDArray:
        group = self.group[columns]
        # the norm of the products of a group is at most the norm of the column lengths
        square = np.bincount(group, problem.squares[columns], self.strength.size)
        radius = np.sqrt((1.0 if problem.coupled else 0.5) * gap * square)
        return (self._sizes(columns, pull) + radius >= self.strength)[group]

    def choose(
        self, problem: Any, columns: NDArray, W: NDArray, alive: NDArray, G: NDArray
    ) -> tuple[float, NDArray, NDArray]:
        whole = np.zeros_like(G)
        whole[np.searchsorted(alive, columns)] = W
        excess = self.violations(alive, G, whole)
        worst = excess.max(initial=0.0)
        there = np.unique(self.group[columns])
        excess[there] = 0
        chosen = np.zeros(excess.size, dtype=bool)
        chosen[largest(excess, max(_GROWTH * there.size, _LEAST_GROUPS))] = True
        new = alive[chosen[self.group[alive]]]
        return float(worst), new, np.ones((new.size, W.shape[1]), dtype=bool)


class ProximalTerm:
    """strength times a penalty with methods `value(W)` and `prox(W, kappa)`.

    W is (columns, lanes) here and (lanes, columns) in the methods of the penalty.
    """

    def __init__(self, penalty: Any, strength: float) -> None:
        self.penalty, self.strength = penalty, strength

    def scaled(self, factor: float) -> ProximalTerm:
        return ProximalTerm(self.penalty, factor * self.strength)

    def value(self, columns: NDArray, W: NDArray) -> float:
        return self.strength * float(self.penalty.value(np.ascontiguousarray(W.T)))

    def prox(self, W: NDArray, step: float) -> NDArray:
        """argmin over U of ||U - W||^2 / 2 + step * strength * penalty(U)."""
        found = self.penalty.prox(np.ascontiguousarray(W.T), step * self.strength)
        found = np.asarray(found, dtype=np.float64)
        if found.shape != W.shape[::-1] or not np.isfinite(found).all():
            raise ValueError(
                "penalty: the method prox must return finite weights of the shape of "
                f"its argument, {W.shape[::-1]}, got shape {found.shape}"
            )
        return np.ascontiguousarray(found.T)

    def largest_pull(self, G: NDArray) -> float:
        return self._gauge(G, 0.0, 1e-9)

    def _gauge(self, G, least, accuracy):
        """At least the gauge of G, the least t with G in t times the dual ball.

        For a convex penalty that is 0 at 0, U = 0 minimises ||U - G||^2 / 2 +
        t penalty(U) if and only if G / t is a subgradient of the penalty at 0. The
        result is at least `least`; `accuracy` is the relative error of the excess.
        """

        def vanishes(t):
            return not self.prox(G, t).any()

        if not G.any() or (least > 0 and vanishes(least)):
            return least
        # Growing steps from `least`, then bisection: near an optimum the gauge is only
        # a little larger than 1.
        step = 1e-12 if least > 0 else 1e-3 * np.linalg.norm(G) / self.strength
        low = least
        for _ in range(100):
            if vanishes(least + step):
                break
            low, step = least + step, 8 * step
        else:
            return np.inf
        high = least + step
        for _ in range(60):  # a limit, because a gauge of 1 + rounding has no middle
            if high - low <= accuracy * (high - least):
                break
            middle = 0.5 * (low + high)
            if vanishes(middle):
                high = middle
            else:
                low = middle
        return high

    def duals(
        self, G: NDArray, W: NDArray, step: float
    ) -> Iterator[tuple[NDArray, float]]:
        """(share, conjugate of the penalty there) of some dual points.

        step: the length of a proximal step from W.
        """
        if hasattr(self.penalty, "gauge"):  # its `prox` is not exact
            here = np.ascontiguousarray(W.T), np.ascontiguousarray(G.T) / self.strength
            gauge = self.penalty.gauge(*here, step * self.strength)
        else:
            gauge = self._gauge(G, 1.0, 0.1)
        yield np.array([1 / gauge]), 0.0
        # A penalty of the user that is not a norm has a method for its conjugate.
        conjugate = getattr(self.penalty, "conjugate", None)
        if conjugate is not None:
            V = np.ascontiguousarray(-G.T) / self.strength
            yield np.ones(1), self.strength * float(conjugate(V))
