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

    Between neighbouring strengths most weights are nearly linear in
    :math:`\ln \lambda` (an absolute or squared discount of :math:`\lambda` counts), so
    that two solutions point to the next one. A weight that has just entered is no line:
    it is held where it is, in another candidate, and the lower objective wins.

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
    lam = wanted.lam
    near = [s for s in solutions if s.differs_in_lam(wanted)]
    if not near:
        return None
    near.sort(key=lambda s: abs(_log(s.lam) - _log(lam)))
    problem, last = loss.problem, near[0].w
    candidates = [last.copy()]
    if len(near) > 1 and lam > 0.0 and near[0].lam > 0.0 and near[1].lam > 0.0:
        other = near[1].w
        width = _log(near[0].lam) - _log(near[1].lam)
        step = (last - other) * ((_log(lam) - _log(near[0].lam)) / width)
        both = (last != 0.0) & (other != 0.0)
        candidates += [last + step, last + np.where(both, step, 0.0)]
    best, least = None, np.inf
    for w in candidates:
        if problem.positive:
            np.maximum(w, 0.0, out=w)
        with np.errstate(over="ignore", invalid="ignore"):
            objective = loss.value(w) + bound.value(w)
        if objective < least:
            best, least = w, objective
    return best


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


def _log(lam):
    return np.log(max(lam, 1e-300))
