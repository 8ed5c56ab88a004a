"""Starts from the solutions of other strengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ._loss import LogLinearLoss
    from ._penalties import BoundPenalty


def warm_weights(
    loss: LogLinearLoss,
    bound: BoundPenalty,
    lam: float,
    before: list[tuple[float, np.ndarray]],
) -> np.ndarray | None:
    r"""The best of the start weights that solutions of other strengths give.

    Between neighbouring strengths most weights are nearly linear in
    :math:`\ln \lambda` (an absolute or squared discount of :math:`\lambda` counts), so
    that two solutions point to the next one. A weight that has just entered is no line:
    it is held where it is, in another candidate, and the lower objective wins.

    Parameters
    ----------
    loss, bound : LogLinearLoss, BoundPenalty
        Of the problem with strength `lam`.

    lam : float
        Its strength.

    before : list of (lam, w)
        One solution or two, the nearest last.

    Returns
    -------
    w : ndarray of shape (n_pairs,) or None
        A new array; None where the objective is finite at none of them.
    """
    problem = loss.problem
    last_lam, last = before[-1]
    candidates = [last.copy()]
    if len(before) > 1 and min(lam, last_lam, before[-2][0]) > 0.0:
        other_lam, other = before[-2]
        width = np.log(last_lam / other_lam)
        if width != 0.0:
            step = (last - other) * (np.log(lam / last_lam) / width)
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
