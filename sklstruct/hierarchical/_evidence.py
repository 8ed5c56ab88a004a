"""The four numbers of the posterior with evidence, fitted to a fold.

With R_l the evidence of the way to leaf l, a_y = w_l g(z_y) that of its class y and E_l
the logarithm of the sum of exp(a_y) over the leaf,

    log P(y | x) = w_r R_l + eta E_l - log Z + a_y - E_l

where l is among the leaves that were looked into, else with c for eta E_l, and with c'
for what the beam left pending. log Z is that of the masses of all leaves. Everything is
smooth in (log w_r, log w_l, eta, c, c'), with a gradient that costs no more than the
value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..linear._calibration import SCALE_PRIOR

# Where routing is perfect, or leaves say nothing, the numbers are not identified: a
# prior of little weight keeps eta in the middle, and c near 0.
_ETA_PRIOR = 2e-3
_C_PRIOR = 1e-6

_BOUNDS = [(-8.0, 8.0), (-8.0, 8.0), (0.0, 1.0), (-30.0, 30.0), (-30.0, 30.0)]

# The product of the conditionals along the path.
CHAIN = (1.0, 1.0, 0.0, 0.0, 0.0)


class Evidence(NamedTuple):
    """What the fold's samples have met; n samples, L leaves and pending nodes.

    Entries that are not there are -inf.
    """

    route: NDArray  # (n, L)
    pending: NDArray  # (n, L) bool
    looked: NDArray  # (n, b) column of each leaf that was looked into; -1: none
    inside: NDArray  # (n, b, m) g of the classes of those
    own: NDArray  # (n,) column of the sample's leaf, or of the pending node above
    own_inside: NDArray  # (n, m) g of the classes of the sample's leaf
    target: NDArray  # (n,) which of them is the sample's; -1: leaf of one class
    weight: NDArray  # (n,)


def _log_total(a):
    """(log of the sum of exp(a), shares) over the last axis; -inf: not there."""
    top = np.maximum(a.max(axis=-1, keepdims=True, initial=-np.inf), -1e300)
    e = np.exp(a - top)
    total = e.sum(axis=-1, keepdims=True)
    safe = np.maximum(total, 1e-300)
    return (top + np.log(safe))[..., 0], e / safe


def fit_numbers(
    fold: Evidence, start: tuple[float, ...] | None = None
) -> tuple[tuple[float, ...], float]:
    """((w_r, w_l, eta, c, c'), mean log-loss of the fold)."""
    n = fold.own.size
    share = fold.weight / fold.weight.sum()
    row = np.arange(n)
    there = fold.looked >= 0
    column = np.where(there, fold.looked, 0)
    open_ = np.zeros(fold.route.shape, dtype=bool)
    open_[np.broadcast_to(row[:, None], there.shape)[there], fold.looked[there]] = True
    exists = fold.route > -np.inf
    route = np.where(exists, fold.route, 0.0)
    closed = exists & ~open_ & ~fold.pending
    own_closed = closed[row, fold.own]
    own_pending = fold.pending[row, fold.own]
    several = fold.target >= 0
    at = np.where(several, fold.target, 0)
    inside = np.where(fold.inside > -np.inf, fold.inside, 0.0)
    own_inside = np.where(fold.own_inside > -np.inf, fold.own_inside, 0.0)
    # which of the leaves looked into is the sample's
    own_look = there & (fold.looked == fold.own[:, None])

    def loss(theta):
        w_r, w_l = np.exp(theta[0]), np.exp(theta[1])
        eta, c, pending = theta[2:]
        E, p = _log_total(w_l * fold.inside)
        E = np.where(there, E, 0.0)
        dE = np.einsum("ijk,ijk->ij", p, inside)
        M = np.where(exists, w_r * route + c * closed + pending * fold.pending, -np.inf)
        extra = np.where(there, eta * E, 0.0)
        np.add.at(M, (row[:, None], column), extra)
        log_Z, q = _log_total(M)
        own_E, own_p = _log_total(w_l * fold.own_inside)
        own_dE = np.einsum("ij,ij->i", own_p, own_inside)
        g = own_inside[row, at]
        within = np.where(several, w_l * g - own_E, 0.0)
        value = -(share @ (M[row, fold.own] - log_Z + within))
        q_open = np.where(there, np.take_along_axis(q, column, axis=1), 0.0)
        # derivatives of log Z less those of the sample's own terms
        excess = q_open - own_look
        gradient = np.array(
            [
                share @ ((q * route).sum(axis=1) - route[row, fold.own]) * w_r,
                share
                @ (eta * (excess * dE).sum(axis=1) - np.where(several, g - own_dE, 0.0))
                * w_l,
                share @ (excess * E).sum(axis=1),
                share @ ((q * closed).sum(axis=1) - own_closed),
                share @ ((q * fold.pending).sum(axis=1) - own_pending),
            ]
        )
        return value, gradient

    def penalised(theta):
        value, gradient = loss(theta)
        away = theta - np.array([0.0, 0.0, 0.5, 0.0, 0.0])
        strength = np.array([SCALE_PRIOR] * 2 + [_ETA_PRIOR] + [_C_PRIOR] * 2)
        return value + strength @ away**2, gradient + 2 * strength * away

    theta = np.array([0.0, 0.0, 0.5, 0.0, 0.0])
    if start is not None:
        theta = np.array([np.log(start[0]), np.log(start[1]), *start[2:]])
    found = minimize(
        penalised,
        theta,
        jac=True,
        method="L-BFGS-B",
        bounds=_BOUNDS,
        options={"maxiter": 200},
    )
    theta = found.x
    numbers = (np.exp(theta[0]), np.exp(theta[1]), *theta[2:])
    return tuple(float(t) for t in numbers), float(loss(theta)[0])
