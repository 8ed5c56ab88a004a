"""Starts from the solutions of other strengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import _start_fast as _fast
from ._memory import SOLUTIONS, Solution

if TYPE_CHECKING:
    from ._loss import LogLinearLoss
    from ._penalties import BoundPenalty
    from ._problem import Problem


def warm_weights(
    loss: LogLinearLoss,
    bound: BoundPenalty,
    wanted: Solution,
    solutions: list[Solution],
) -> np.ndarray | None:
    r"""The best of the starts that solutions with other strengths give.

    Between neighbouring strengths most weights are nearly linear in :math:`\lambda`
    where it is small beside their counts, and in :math:`\ln \lambda` where it is not,
    so that two solutions point to the next one, and further ones bend the line. A
    polynomial through all swings beyond: half of the last bend is taken, of weights
    that are in all of them. The lowest objective wins, of these and of the nearest
    solution.

    Parameters
    ----------
    loss, bound : LogLinearLoss, BoundPenalty
        Of the problem that is to be solved.

    wanted : Solution
        What is to be solved; its weights do not matter.

    solutions : list of Solution
        Those on the same tree. Only those that differ in `lam` alone are looked at.

    Returns
    -------
    w : ndarray of shape (n_pairs,) or None
        A new array; None where there is no such solution, or the objective is not
        finite.
    """
    near = [s for s in solutions if s.differs_in_lam(wanted)]
    if not near:
        return None
    near.sort(key=lambda s: abs(_log(s.lam) - _log(wanted.lam)))

    def objective(w, f):
        with np.errstate(over="ignore", invalid="ignore"):
            return (loss.value(w) if np.isnan(f) else f) + bound.value(w)

    best, least = None, np.inf
    nearest = objective(near[0].w, near[0].loss)
    for w in _candidates(near[:SOLUTIONS], wanted.lam, loss.problem.positive):
        value = objective(w, np.nan)
        if value < least:
            best, least = w, value
    return near[0].w.copy() if nearest <= least and np.isfinite(nearest) else best


def _candidates(near, lam, positive):
    """Those that lie on lines and curves; new arrays."""
    lams = [s.lam for s in near]
    if len(near) < 2 or min(lam, *lams) <= 0.0:
        return []
    factor = np.zeros((SOLUTIONS, SOLUTIONS))
    factor[0, :2] = _through(lams[:2], lam)
    for n in range(2, len(near) + 1):
        factor[n - 1, :n] = _through(np.log(lams[:n]), np.log(lam))
    weights = [s.w for s in near] + [np.empty(0)] * (SOLUTIONS - len(near))
    line, curve = np.empty((2, near[0].w.size))
    _fast.between(factor, positive, *weights, line, curve)
    return [line, curve]


def rescaled_weights(problem: Problem, solutions: list[Solution]) -> list[np.ndarray]:
    """The latest solution, with the scores that it had: a list of one, or of none."""
    if not solutions or problem.tree.span is not None:
        return []
    latest = solutions[-1]
    w = latest.w.copy()
    keep_scores(problem, w, latest.beta)
    if problem.positive:
        np.maximum(w, 0.0, out=w)
    return [w]


def keep_scores(problem: Problem, w: np.ndarray, beta: np.ndarray) -> None:
    """Rescale weights, in place, that were found with `beta` by depth.

    Another `alpha` weighs the features of a depth by another number; what a weight adds
    to a score is about the same.
    """
    for (lo, hi), old, new in zip(problem.levels, beta, problem.beta_by_depth):
        w[lo:hi] *= old / new


def _through(at, wanted):
    """Factors of the polynomial through values that stand `at` numbers."""
    at = np.asarray(at)
    others = (np.delete(at, i) for i in range(at.size))
    return [np.prod((wanted - o) / (x - o)) for x, o in zip(at, others)]


def _log(lam):
    return np.log(max(lam, 1e-300))
