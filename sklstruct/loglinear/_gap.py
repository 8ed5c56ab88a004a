r"""The duality gap: an upper bound on the distance of a fit from its minimum.

With the scores s = A w, u_c(y) = t(c) (p_c(y) - q_c(y)) for distributions p_c, where
q_c are the relative frequencies of the t(c) samples that end at context c, and v =
-A' u, Fenchel's duality says that for every p

    min F >= sum_c t(c) H(p_c) - omega*(v).

Those of the model itself give v = -grad loss(w), and a difference in which no large
numbers are subtracted. omega* is that over bounded weights, finite for every penalty.
Over all weights it is infinite for a norm until v is scaled into the dual ball, which
on text costs some nats a word where the fit is at its minimum to 1e-4. For a squared
penalty it has v^2 / (2 lam), far too much where a frequent pair is off by some counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ._loss import LogLinearLoss
    from ._penalties import BoundPenalty


def is_within(gap: float, gap_tol: float | None, total_weight: float) -> bool:
    """Whether a gap is small enough; gap_tol: in nats a sample, None allows any."""
    return gap_tol is None or gap <= gap_tol * total_weight


def next_share(share: float, gap: float, goal: float) -> float:
    """The share of `tol` with which to go on where a gap is above its goal.

    share: of `tol`, of the residual at this gap. The gap falls about as the residual.
    """
    ratio = 0.9 * goal / gap if np.isfinite(gap) else 0.0
    return share * min(max(ratio, 0.1), 0.7)


def shortfall_text(
    gap: float, gap_tol: float | None, total_weight: float, tol: str = "tol"
) -> str:
    """What a warning about an early stop says of the rule that is not met, and of the
    gap; nothing of an infinite one.

    tol: the words for the other rule.
    """
    close = is_within(gap, gap_tol, total_weight)
    rule = f", not within {tol}" if close else f", and not within gap_tol={gap_tol:g}"
    if not np.isfinite(gap):
        return rule
    return (
        f"{rule}; the objective is at most {gap / total_weight:.2g} nats a sample "
        "above its minimum (gap_)"
    )


def duality_gap(loss: LogLinearLoss, penalty: BoundPenalty, w: np.ndarray) -> float:
    r"""A bound on F(w) - min F, total over the samples, in nats.

    .. math::
        \Omega(w) + \Omega^*(v) - v^\top w, \qquad v = -\nabla f(w)

    the inequality of Fenchel and Young, an equality at the minimum. The conjugate is
    that of ``penalty.conjugate``.

    Parameters
    ----------
    loss : LogLinearLoss
        With its problem.

    penalty : BoundPenalty
        Of the same problem.

    w : ndarray of shape (n_pairs,)
        Weights.

    Returns
    -------
    gap : float
        At least 0; infinite where the loss overflows.
    """
    problem = loss.problem
    v = np.empty(problem.n_pairs)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if not np.isfinite(loss.value_and_gradient(w, v)):
            return np.inf
        np.negative(v, out=v)
        along = problem.dot(v, w)
        gap = penalty.value(w) - along + penalty.conjugate(v)
    return max(float(gap), 0.0) if np.isfinite(gap) else np.inf
