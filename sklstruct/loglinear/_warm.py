"""Starts from the solutions of other strengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ._loss import LogLinearLoss
    from ._memory import Solution
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
    so that two solutions point to the next one, and three bend the line. A polynomial
    through three swings beyond; half of its bend is taken, of weights that are in all
    of them. The lowest objective wins, of these and of the nearest solution.

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
    near.sort(key=lambda s: abs(_log(s.lam) - _log(wanted.lam)))
    best, least = None, np.inf
    for w in _candidates(near[:3], wanted.lam):
        if loss.problem.positive:
            np.maximum(w, 0.0, out=w)
        with np.errstate(over="ignore", invalid="ignore"):
            objective = loss.value(w) + bound.value(w)
        if objective < least:
            best, least = w, objective
    return best


def _candidates(near, lam):
    """New arrays, one by one: they are as large as the problem."""
    for solution in near[:1]:
        yield solution.w.copy()
    if len(near) > 1 and min(lam, *(s.lam for s in near)) > 0.0:
        lams = np.array([s.lam for s in near])
        yield _through(near[:2], lams[:2], lam)
        w = _through(near[:2], np.log(lams[:2]), np.log(lam))
        if len(near) > 2:
            in_all = np.all([s.w != 0.0 for s in near], axis=0)
            curve = _through(near, np.log(lams), np.log(lam))
            curve -= w
            curve *= 0.5
            np.add(w, curve, out=w, where=in_all)
        yield w


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


def _through(solutions, at, wanted):
    """The polynomial through the weights of solutions, which stand `at` numbers."""
    w = np.zeros_like(solutions[0].w)
    for i, solution in enumerate(solutions):
        others = np.delete(at, i)
        w += np.prod((wanted - others) / (at[i] - others)) * solution.w
    return w


def _log(lam):
    return np.log(max(lam, 1e-300))
