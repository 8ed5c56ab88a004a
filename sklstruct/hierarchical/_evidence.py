"""The numbers (w_r, w_l, eta, c, c') of the posterior with evidence, fitted to a fold.

With R_l the evidence of the path to leaf l, a_y = w_l g(z_y) that of its class y and
E_l the logarithm of the sum of exp(a_y) over the leaf,

    log P(y | x) = w_r R_l + eta E_l - log Z + a_y - E_l

if leaf l is evaluated. If it is not, c replaces eta E_l; c' replaces it for nodes that
are not expanded. Z normalises over all leaves. The log-loss is smooth in (log w_r, log
w_l, eta, c, c'), and its gradient costs no more than its value (`_numbers_fast`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..linear._calibration import SCALE_PRIOR
from . import _numbers_fast as kernels
from ._numbers_fast import KINDS

# Weights of priors (eta - 1/2)² and c². The numbers are not identified if routing is
# perfect or the evidence of leaves is constant.
_ETA_PRIOR = 2e-3
_C_PRIOR = 1e-6

_BOUNDS = [(-8.0, 8.0), (-8.0, 8.0), (0.0, 1.0), (-30.0, 30.0), (-30.0, 30.0)]

# The numbers with which the posterior is the product along the path.
CHAIN = (1.0, 1.0, 0.0, 0.0, 0.0)


class Evidence(NamedTuple):
    """Evidence of a fold of n samples, L leaves and pending nodes; -inf: no entry."""

    route: NDArray  # (n, L)
    pending: NDArray  # (n, L) bool
    evaluated: NDArray  # (n, b) column of each evaluated leaf; -1: none
    inside: NDArray  # (n, b, m) g of the classes of the evaluated leaves
    own: NDArray  # (n,) column of the sample's leaf, or of the pending node above it
    own_inside: NDArray  # (n, m) g of the classes of the sample's leaf
    target: NDArray  # (n,) the sample's class among these; -1: leaf of one class
    weight: NDArray  # (n,)


def log_loss_of(fold: Evidence) -> Callable[[NDArray], tuple[float, NDArray]]:
    """The mean log-loss of the fold and its gradient, in (w_r, w_l, eta, c, c')."""
    n, n_leaves = fold.route.shape
    row = np.arange(n)
    kind = np.full((n, n_leaves), KINDS["closed"], dtype=np.int8)
    kind[fold.pending] = KINDS["pending"]
    kind[np.isneginf(fold.route)] = KINDS["absent"]
    there = fold.evaluated >= 0
    sample = np.broadcast_to(row[:, None], there.shape)[there]
    kind[sample, fold.evaluated[there]] = KINDS["open"]
    length = (fold.inside > -np.inf).sum(axis=2, dtype=np.int32)
    is_own = there & (fold.evaluated == fold.own[:, None])
    slot = np.where(is_own.any(axis=1), is_own.argmax(axis=1), -1)
    own_length = (fold.own_inside > -np.inf).sum(axis=1)
    wide = max(n_leaves, fold.inside.shape[2], 2 * there.shape[1])
    room, stop = np.empty((4, wide)), np.zeros(1, dtype=np.int32)
    kernel = kernels.Fold(
        np.ascontiguousarray(fold.route),
        kind,
        fold.evaluated.astype(np.int32, order="C"),
        np.ascontiguousarray(fold.inside),
        np.where(there, length, np.int32(0)),
        np.stack([fold.own, slot, own_length, fold.target]).astype(np.int32),
        np.ascontiguousarray(fold.own_inside),
        fold.weight / fold.weight.sum(),
    )

    def log_loss(numbers):
        gradient = np.empty(5)
        return kernel.log_loss(numbers, gradient, room, stop), gradient

    return log_loss


def fit_numbers(
    fold: Evidence, start: tuple[float, ...] | None = None
) -> tuple[tuple[float, ...], float]:
    """((w_r, w_l, eta, c, c'), mean log-loss of the fold)."""
    log_loss = log_loss_of(fold)

    def numbers_of(theta):
        return np.concatenate([np.exp(theta[:2]), theta[2:]])

    def penalised(theta):
        numbers = numbers_of(theta)
        value, gradient = log_loss(numbers)
        gradient[:2] *= numbers[:2]
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
    numbers = numbers_of(found.x)
    return tuple(numbers.tolist()), log_loss(numbers)[0]
