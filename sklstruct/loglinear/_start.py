"""The start of the solvers: Kneser-Ney smoothing, which is a point of the model."""

from __future__ import annotations

import numpy as np

from ..backoff._discounts import modified_discounts
from ..context_tree import expand_pairs
from ..smoothing._shares import discount_levels
from ..smoothing._smoothing_fast import interpolate
from . import _start_fast as _fast
from ._penalties import BoundPenalty
from ._problem import Problem


def kneser_ney_weights(problem: Problem, l1_ratio: float = 0.0) -> np.ndarray:
    r"""The weights at which the model is (nearly) interpolated modified Kneser-Ney.

    An interpolated model with P(p) = a(p) + gamma(n) P(parent p), a the discounted
    probability and gamma the back-off weight, is the log-linear model with

    .. math::
        \beta_p w_p = \ln P(p) - \ln \gamma(n) - \ln P(\mathrm{parent}\ p) \ge 0

    and, at the root, :math:`\ln P(y) - \min \ln P`. A context with a single child, at
    which no sample ends, shares its weight with the child, so that a collapsed tree
    starts at the same point as the trie: the score at the child is the Kneser-Ney
    score, and the score at the shorter context is not.

    l1_ratio: least number of counts that are taken off a pair, in units of its strength
    over beta: with an l1 term, E(p) = c(p) - l1 / beta where the weight is not 0, and
    without any of its counts a pair has weight 0.
    """
    pairs, source = expand_pairs(problem.pairs)
    tree = pairs.tree
    adjusted = pairs.adjusted_counts(problem.count[source])
    V = pairs.n_classes
    beta = problem.beta_by_depth
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.nan_to_num(l1_ratio * problem.strength_by_depth / beta, nan=0.0)
    least[0] = min(least[0], 0.5 * adjusted[:V].max())
    discounts = np.empty((tree.n_levels, 3))
    for k in range(tree.n_levels):
        total = pairs.total if k else None  # every shard has the whole root
        discounts[k] = modified_discounts(adjusted[pairs.level(k)], total)
    np.maximum(discounts, least[: len(discounts), None], out=discounts)
    own, held = discount_levels(pairs, adjusted, discounts, 0)
    proba = own.copy()
    proba[:V] += held[0] / V
    interpolate(pairs.ptr, pairs.parent, held, proba)
    above = proba[pairs.parent]
    above *= np.repeat(held, np.diff(pairs.ptr))
    with np.errstate(divide="ignore", invalid="ignore"):
        score = own / above + 1.0
    score[:V] = proba[:V] / proba[:V].min()
    np.log(score, out=score)
    node_weight = problem.node_weight
    if tree is not problem.tree:
        node_weight = pairs.node_sums(pairs.terminal_counts(problem.count[source]))
    _fast.share_along_paths(
        tree.parent, tree.child_ptr, pairs.ptr, node_weight, beta[tree.levels()],
        np.empty(tree.n_nodes), score,
    )  # fmt: skip
    if tree is problem.tree:
        w = score
    else:
        w = np.empty(problem.n_pairs)
        w[source] = score
    w[: problem.n_classes][problem.unseen] = 0.0
    return w


def ridge_weights(bound: BoundPenalty, w: np.ndarray) -> np.ndarray:
    r"""The weights shrunk by a squared penalty, each as if it were the only one:

    .. math::
        w_p\, \frac{\beta_p^2 c_p}{\beta_p^2 c_p + \lambda_p} .

    Kneser-Ney smoothing subtracts an absolute discount from a count. A squared penalty
    removes a share of a weight, which is nearly the whole weight if beta is small.
    """
    problem, out = bound.problem, np.empty_like(w)

    def shrink(k, lo, hi):
        beta = problem.beta.of(lo, hi, k)
        curvature = beta * beta * problem.count[lo:hi]
        total = curvature + bound.alone(lo, hi, k)[1]
        share = np.divide(curvature, total, out=np.zeros(hi - lo), where=total > 0.0)
        np.multiply(w[lo:hi], share, out=out[lo:hi])

    problem.sum_over(shrink)
    return out
