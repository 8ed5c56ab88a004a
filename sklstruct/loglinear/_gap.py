r"""The duality gap: an upper bound on the distance of a fit from its minimum.

With the scores s = A w, u_c(y) = t(c) (p_c(y) - q_c(y)) for distributions p_c, where
q_c are the relative frequencies of the t(c) samples that end at context c, and v =
-A' u, Fenchel's duality says that for every p

    min F >= sum_c t(c) H(p_c) - omega*(v).

Any p gives a bound, if the conjugate of the penalty is finite at v. That of the model
itself gives v = -grad loss(w), which is finite for a squared penalty and just outside
of the dual ball of a norm before the minimum is reached. The mixtures p = theta model +
(1 - theta) q have v = -theta grad loss(w): theta is the largest factor that is finite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ._loss import LogLinearLoss
    from ._penalties import BoundPenalty


def duality_gap(loss: LogLinearLoss, penalty: BoundPenalty, w: np.ndarray) -> float:
    r"""A bound on F(w) - min F, total over the samples, in nats.

    .. math::
        \sum_c t(c)\, KL(p_c \| P_c) + \Omega(w) + \Omega^*(\theta v) - \theta v^\top w

    the sum of the two inequalities of Fenchel and Young, each of which is an equality
    at the minimum; no large numbers are subtracted.

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
        theta, conjugate = penalty.dual(v)
        gap = penalty.value(w) - theta * along + conjugate
        if theta < 1.0:
            gap += _divergence(loss, w, theta)
    return max(float(gap), 0.0) if np.isfinite(gap) else np.inf


def _divergence(loss: LogLinearLoss, w: np.ndarray, theta: float) -> float:
    """sum t(c) KL(theta P_c + (1 - theta) q_c || P_c) at weights w.

    A class that never followed c has the mass theta P, and adds theta P ln theta.
    """
    problem = loss.problem
    ends = problem.pairs.terminal_counts(problem.count)
    _, es, z = loss.value_and_scores(w)
    node_of_pair, weight = problem.pairs.nodes(), problem.node_weight
    shrunk = theta * np.log(theta) if theta > 0.0 else 0.0

    def part(_, lo, hi):
        seen = lo + np.flatnonzero(ends[lo:hi] > 1e-12 * problem.count[lo:hi])
        node = node_of_pair[seen]
        p, total = es[seen] / z[node], weight[node]
        mixed = theta * p + (1.0 - theta) * (ends[seen] / total)
        return float(np.dot(total, mixed * np.log(mixed / p) - shrunk * p))

    return shrunk * problem.total_weight + problem.sum_over(part)
