"""Screening: the optimality condition of groups of zero weights.

With the groups subtree(q), zero weights stay zero if the negative gradient v lies in
the dual ball of the penalty. Nested groups pass their excess up to the surrounding
group:

    R_q = norm of (v_q, the excesses (R_r - t_r)_+ of the child pairs r),

with the norm dual to that of the group (Euclidean for Euclidean norms, the sum for
maxima) and t the strengths; the subtree of q is zero iff R_q <= t_q. Separable
penalties pass no excess up: R_q = v_q.

`RootProblem` is the model without any context: all other weights are zero.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from ..backoff import selected_nodes
from ._problem import pull

if TYPE_CHECKING:
    from ..context_tree import Pairs
    from ._penalties import BoundPenalty, Penalty
    from ._problem import Problem

# The methods of a bound penalty that say which weights are zero.
NEEDS = ("alone", "coupling")

# Newton's steps for one weight; from above they come down monotonically.
_NEWTON_STEPS = 60


def screens(penalty: Penalty) -> bool:
    """Whether a penalty can tell, on any part of the pairs, when a group is zero.

    `count_weight` needs the adjusted counts of the whole tree.
    """
    known = all(hasattr(penalty.bound, name) for name in NEEDS)
    return known and penalty.count_weight is None


def join_excesses(
    coupling: float, own: np.ndarray, excess: np.ndarray, at: np.ndarray
) -> np.ndarray:
    """R of some pairs: the norm of their v and the excesses of their children.

    coupling: 1: they add; 2: their squares do.
    own: v of the pairs.
    excess, at: of the child pairs, and the pair of `own` that each stands below.
    """
    total = np.bincount(at, weights=excess**coupling, minlength=own.size)
    return (own**coupling + total) ** (1.0 / coupling)


def residuals(
    coupling: float,
    levels: list[tuple[int, int]],
    parent: np.ndarray,
    threshold: list[np.ndarray],
    v: np.ndarray,
) -> np.ndarray:
    """R of every pair of a forest.

    coupling: 0: separable, 1, or 2.
    levels: (lo, hi) of the pairs of each level.
    threshold: t of the pairs of each level, or one number.
    v: the size of the negative gradient of each pair.
    """
    R = v.copy()
    if coupling:
        for k in range(len(levels) - 1, 0, -1):
            (lo, hi), up = levels[k], slice(*levels[k - 1])
            excess = np.maximum(R[lo:hi] - threshold[k], 0.0)
            R[up] = join_excesses(coupling, R[up], excess, parent[lo:hi] - up.start)
    return R


def subtree_bound(
    coupling: float, beta: np.ndarray, threshold: np.ndarray, k: int, c: np.ndarray
) -> np.ndarray:
    """The largest R that a pair of depth k and count c can have with any subtree.

    The counts of the child pairs sum to at most c, and the excess of a subtree is a
    convex function of its count that is 0 at 0: a chain of pairs that all have the
    count c passes the most up. Separable penalties pass nothing up; their R is raised
    by the excess of a pair below over its own threshold.

    beta, threshold: feature weights and t by depth.
    k: depth of the pairs.
    c: upper bounds of count less expected count, for the pairs and all below them.
    """
    R = np.zeros_like(c)
    for j in range(beta.size - 1, k - 1, -1):
        if coupling:
            below = np.maximum(R - threshold[j + 1], 0.0) if j + 1 < beta.size else R
            R = ((beta[j] * c) ** coupling + below**coupling) ** (1.0 / coupling)
        else:
            R = np.maximum(R, beta[j] * c - threshold[j])
    return R if coupling else R + threshold[k]


class RootProblem:
    r"""The optimum with only the weights of the root.

    .. math::
        \min_w\ N \ln \sum_y e^{\beta_0 w_y} - \sum_y \beta_0 c_y w_y
        + \lambda \sum_y a_y |w_y| + \tfrac{b}{2} w_y^2 .

    With :math:`u = N / Z` the expected counts are :math:`u\,e^{\beta_0 w_y}`, each
    rises with u, and they sum to N: one equation for u. Without the squared term they
    are :math:`\max(c_y - \lambda a_y / \beta_0, u)` where weights are not negative. The
    bound penalty gives a and b, for a `lam` of 1.
    """

    def __init__(self, problem: Problem, bound: BoundPenalty) -> None:
        n_classes = problem.n_classes
        self.count = problem.count[:n_classes]
        self.seen = ~problem.unseen
        self.beta = float(problem.beta_by_depth[0])
        self.total = problem.total_weight
        self.positive = problem.positive
        l1, l2 = bound.alone(0, n_classes, 0)
        self.l1 = np.broadcast_to(l1, self.count.shape)
        self.l2 = float(np.max(l2))

    def weights(self, lam: float) -> np.ndarray:
        """The weights of the classes; 0 for classes without a sample.

        ValueError if a class does not have a sample and the unigrams do not have a
        penalty: the best weight of the class would be -inf.
        """
        high = np.log(max(self.count.max(), self.total / self.count.size))
        low = high - 1.0
        while self._sum(low, lam) > self.total:
            low -= 2.0 * (high - low)
            if low < -600.0:
                raise ValueError(
                    "lam: some class never occurs in the samples, and without a "
                    "penalty on the unigrams its optimal weight is -inf; use a larger "
                    "lam, and give depth_weight a positive first entry"
                )
        log_u = low
        if self._sum(high, lam) > self.total:
            log_u = brentq(
                lambda x: self._sum(x, lam) - self.total, low, high,
                xtol=1e-15, rtol=4 * np.finfo(float).eps,
            )  # fmt: skip
        elif self._sum(high, lam) == self.total:
            log_u = high
        return self._at(log_u, lam)

    def _sum(self, log_u, lam):
        """Sum of the expected counts, a rising function of u."""
        with np.errstate(over="ignore"):
            return float(np.exp(log_u + self.beta * self._at(log_u, lam)).sum())

    def _at(self, log_u, lam):
        l1, l2 = lam * self.l1 / self.beta, lam * self.l2 / self.beta
        w = self._part(log_u, self.count - l1, l2)
        if not self.positive:
            # The weights below zero: each is the same problem with other signs.
            u = np.exp(log_u)
            target = self.count + l1
            w = np.where(u > target, self._below(log_u, target, l2), w)
        return np.where(self.seen, w, 0.0)

    def _part(self, log_u, target, l2):
        """w >= 0 with u exp(beta w) + l2 w = target, 0 where u is above it."""
        with np.errstate(divide="ignore"):
            w = (np.log(np.maximum(target, 0.0)) - log_u) / self.beta
        w = np.maximum(w, 0.0)
        return np.maximum(self._newton(log_u, target, l2, w), 0.0)

    def _below(self, log_u, target, l2):
        """w <= 0 with u exp(beta w) + l2 w = target, where u is above it."""
        if l2 > 0.0:
            return self._newton(log_u, target, l2, np.zeros_like(target))
        with np.errstate(divide="ignore"):
            return (np.log(target) - log_u) / self.beta

    def _newton(self, log_u, target, l2, w):
        """From above the root of a convex rising function, monotonically."""
        if l2 > 0.0:
            for _ in range(_NEWTON_STEPS):
                e = np.exp(log_u + self.beta * w)
                step = (e + l2 * w - target) / (self.beta * e + l2)
                w = w - step
                if (np.abs(step) <= 1e-15 * (1.0 + np.abs(w))).all():
                    break
        return w


class SafeScreening:
    """Safe screening rule: the pairs that are zero at every lam above a given one.

    The problem has the strengths of a `lam` of 1, and the penalty is bound to it.
    """

    def __init__(self, problem: Problem, bound: BoundPenalty) -> None:
        self.problem, self.coupling = problem, float(bound.coupling)
        self.root = RootProblem(problem, bound)
        pairs = problem.pairs
        self.node_count = pairs.node_sums(problem.count)[pairs.nodes()]
        self.threshold = [
            np.asarray(bound.alone(lo, hi, k)[0]) * np.ones(1)
            for k, (lo, hi) in enumerate(problem.levels)
        ]
        self.beta = [
            np.asarray(problem.beta.of(lo, hi, k))
            for k, (lo, hi) in enumerate(problem.levels)
        ]

    def top(self) -> float:
        """A lam at which all weights below the root are zero."""
        largest = 0.0
        for (lo, hi), threshold, beta in zip(
            self.problem.levels[1:], self.threshold[1:], self.beta[1:]
        ):
            if lo == hi:
                continue
            if not (threshold > 0.0).all():
                raise ValueError(
                    "lam_max: some weights below the root are not penalised, so that "
                    "no lam makes them all zero; use a penalty with an absolute term, "
                    "and a positive depth_weight (and count_weight)"
                )
            pull = beta * self.node_count[lo:hi]
            largest = max(largest, float((pull / threshold).max()))
        return largest

    def may_move(self, lam: float) -> np.ndarray:
        """A mask of the pairs that a `lam` of at least this may not hold at zero.

        No gradient pulls a weight that is not negative by more than the count of its
        pair, whatever the other weights are.
        """
        problem = self.problem
        keep = np.ones(problem.n_pairs, dtype=bool)
        if not problem.positive or problem.tree.span is not None:
            return keep
        beta = np.array([float(b[0]) for b in self.beta])
        least = lam * np.array([float(t.min(initial=np.inf)) for t in self.threshold])
        for k in range(1, problem.n_levels):
            lo, hi = problem.levels[k]
            bound = subtree_bound(self.coupling, beta, least, k, problem.count[lo:hi])
            keep[lo:hi] = (bound > least[k]) & keep[problem.pair_parent[lo:hi]]
        return keep

    def part(self, lam: float) -> tuple[Pairs, np.ndarray, np.ndarray]:
        """(those pairs, their old numbers, weight of the samples that end at each
        node). The optimum on them is that on all pairs, where the others are zero."""
        problem, tree = self.problem, self.problem.tree
        keep = self.may_move(lam)
        if keep.all():
            return problem.pairs, np.arange(problem.n_pairs), problem.node_weight
        pairs, kept = problem.pairs.select(keep)
        place = tree.nearest(selected_nodes(problem.pairs, keep))
        weight = np.bincount(place, problem.node_weight, pairs.tree.n_nodes)
        return pairs, kept, weight

    def excess(self, lam: float, kept: np.ndarray) -> float:
        """The largest excess of R over its threshold below the root."""
        problem, n_classes = self.problem, self.problem.n_classes
        w = self.root.weights(lam)
        proba = np.exp(self.root.beta * w)
        proba /= proba.sum()
        expected = self.node_count[kept] * proba[problem.pairs.target[kept]]
        gradient = expected - problem.count[kept]
        gradient[:n_classes][problem.unseen] = 0.0
        edges = np.searchsorted(kept, [lo for lo, _ in problem.levels] + [kept[-1] + 1])
        levels = list(pairwise(edges.tolist()))
        threshold = []
        for k, ((a, b), (lo, _)) in enumerate(zip(levels, problem.levels)):
            at = kept[a:b] - lo
            beta, t = self.beta[k], self.threshold[k]
            gradient[a:b] *= beta if beta.size == 1 else beta[at]
            threshold.append(lam * (t if t.size == 1 else t[at]))
        v = pull(-gradient, problem.positive)
        parent = np.searchsorted(kept, problem.pair_parent[kept])
        R = residuals(self.coupling, levels, parent, threshold, v)
        # The group of a root weight takes no excess of the pairs below if that weight
        # is not zero, or not penalised.
        first = slice(*levels[1]) if self.coupling else slice(n_classes, None)
        parts = zip(threshold, levels)
        rest = np.concatenate([np.broadcast_to(t, b - a) for t, (a, b) in parts])
        over = R - rest
        if not self.coupling:
            return float(over[first].max(initial=-np.inf))
        held = (w == 0.0) & ~problem.unseen & (rest[:n_classes] > 0.0)
        free = ~held[parent[first]]
        return max(
            float(over[first][free].max(initial=-np.inf)),
            float(over[:n_classes][held].max(initial=-np.inf)),
        )


def smallest_lam(problem: Problem, bound: BoundPenalty) -> float:
    """The smallest lam at which all weights below the root are zero.

    0 if the gradient is 0 for all of them. The arguments are as in `SafeScreening`.
    """
    if problem.n_levels < 2:
        return 0.0
    screening = SafeScreening(problem, bound)
    high = top = screening.top()
    while True:
        low = 0.25 * high
        if not low > 1e-15 * top:
            return 0.0
        kept = np.flatnonzero(screening.may_move(low))
        if kept.size > problem.n_classes and screening.excess(low, kept) > 0.0:
            break
        high = low
    lam = brentq(
        screening.excess, low, high, args=(kept,), xtol=1e-15 * high,
        rtol=4 * np.finfo(float).eps,
    )  # fmt: skip
    while screening.excess(lam, kept) > 0.0:
        lam *= 1.0 + 4 * np.finfo(float).eps
    return float(lam)
