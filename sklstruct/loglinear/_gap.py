r"""The duality gap: an upper bound of the objective of a fit minus its minimum.

With the scores s = A w, u_c(y) = t(c) (p_c(y) - q_c(y)) for distributions p_c, where
q_c are the relative frequencies of the t(c) samples that end at context c, and v =
-A' u, Fenchel's duality says that for every p

    min F >= sum_c t(c) H(p_c) - omega*(v).

With p the probabilities of the model, v = -grad loss(w), and no large numbers are
subtracted. omega* is the conjugate over bounded weights, which is finite for every
penalty. Over all weights, the conjugate of a norm is infinite until v is scaled into
the dual ball; on text the scaling loosens the bound by some nats per word, even if the
fit is within 1e-4 of its minimum. For a squared penalty it has v^2 / (2 lam), far too
much where a frequent pair is off by some counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._warnings import warn

if TYPE_CHECKING:
    from ._loss import LogLinearLoss
    from ._penalties import BoundPenalty
    from ._solvers import Result, Solver

# Share of the objective from which on the gap of a fit that met `tol` is worth a
# warning: the residual is relative to the weight of all samples, so that a few heavy
# samples hide the gradients of other samples.
LOOSE = 0.5
# A smaller gap, in nats per sample, changes perplexity by less than a twentieth, so no
# warning is given. If one word dominates a class, the gap is most of the small
# objective.
LEAST_NATS = 0.05


def is_within(gap: float, gap_tol: float | None, total_weight: float) -> bool:
    """Whether a gap is small enough; gap_tol: in nats per sample, None allows any."""
    return gap_tol is None or gap <= gap_tol * total_weight


def next_share(share: float, gap: float, goal: float) -> float:
    """The share of `tol` with which to continue if a gap is above its goal.

    share: the residual at this gap, as a share of `tol`. The gap falls about as the
    residual.
    """
    ratio = 0.9 * goal / gap if np.isfinite(gap) else 0.0
    return share * min(max(ratio, 0.1), 0.7)


def warn_of_end(
    model: Any, result: Result, solver: Solver, total: float, remedy: str
) -> None:
    """A ConvergenceWarning if a fit may be far from its minimum.

    model: has ``lam``, ``n_iter_`` and ``gap_``, which is infinite if it is not known.
    total: weight of the samples.
    remedy: advice for a fit in which rounding hides any further descent.
    """
    n_iter, gap = model.n_iter_, model.gap_
    rules = "tol" if solver.gap_tol is None else "tol and gap_tol"
    free = ", or lam: unpenalised weights may have no finite optimum"
    if model.lam > 0.0:
        free = ""
    residual = f"an optimality residual of {result.optimality:.2g}"
    missed = f"tol={solver.tol:g}"
    if not is_within(gap, solver.gap_tol, total):
        missed = f"gap_tol={solver.gap_tol:g}"
    residual += f", not within {missed}"
    if np.isfinite(gap):
        residual += (
            f"; the objective is at most {gap / total:.2g} nats per sample above its "
            "minimum (gap_)"
        )
    if result.status == "max_iter":
        text = (
            f"the solver stopped at max_iter={solver.max_iter}, after {n_iter} "
            f"iterations, with {residual}. Increase max_iter, or {rules}{free}"
        )
    elif result.status == "stalled":
        text = f"the solver stopped after {n_iter} iterations with {residual}. {remedy}"
    elif (
        result.status == "converged"
        and max(LOOSE * result.objective, LEAST_NATS * total) < gap < np.inf
    ):
        text = (
            f"the optimality residual is within tol={solver.tol:g}, but the objective "
            f"may be {gap / total:.2g} nats per sample above its minimum (gap_), which "
            f"is most of it. Set gap_tol, or decrease tol{free and ', or increase lam'}"
        )
    else:
        return
    warn(text, ConvergenceWarning)


def duality_gap(loss: LogLinearLoss, penalty: BoundPenalty, w: np.ndarray) -> float:
    r"""Upper bound of F(w) - min F, in nats, total over the samples.

    .. math::
        \Omega(w) + \Omega^*(v) - v^\top w, \qquad v = -\nabla f(w)

    the inequality of Fenchel and Young, an equality at the minimum. The conjugate is
    that of ``penalty.conjugate``. At least 0; infinite where the loss overflows.
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
