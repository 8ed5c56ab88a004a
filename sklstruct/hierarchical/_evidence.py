"""The numbers (w_r, w_l, eta, c, c') of the posterior with evidence, fitted to a fold.

R_l is the evidence of the path to leaf l, a_y = w_l g(z_y) the evidence of a class y of
the leaf, and E_l the logarithm of the sum of exp(a_y) over the classes of the leaf. If
leaf l is evaluated,

    log P(y | x) = w_r R_l + eta E_l - log Z + a_y - E_l.

In the mass of a leaf that is not evaluated c replaces eta E_l, and in the mass of a
pending node (not expanded) c' replaces eta E_l. Z normalises the masses. The log-loss
is smooth in (log w_r, log w_l, eta, c, c'), and its gradient costs no more than its
value (`_numbers_fast`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..linear._calibration import prior_part
from . import _numbers_fast as kernels

# Weights of the penalties (eta - 1/2)², c² and c'². Without penalties the numbers are
# not identified if routing is perfect or the evidence of leaves is constant.
_ETA_PRIOR = 2e-3
_C_PRIOR = 1e-6

_BOUNDS = [(-8.0, 8.0), (-8.0, 8.0), (0.0, 1.0), (-30.0, 30.0), (-30.0, 30.0)]

# The numbers with which the posterior is the product along the path.
CHAIN = (1.0, 1.0, 0.0, 0.0, 0.0)


class Evidence(NamedTuple):
    """Evidence of a fold of n samples, with up to L items and b evaluated leaves each.

    The items of a sample are the leaves and the pending nodes above leaves. The true
    leaf of a sample is the leaf of its class. `inside` has a slot for each evaluated
    leaf, and one more slot for the true leaf if this is not evaluated and has several
    classes.
    """

    route: NDArray  # (n, L)
    kind: NDArray  # (n, L) int8, values of STATES in `_evidence_fast`
    inside: NDArray  # (n, b + 1, m) g of the classes of a leaf
    length: NDArray  # (n, b + 1) int32, number of classes of the leaf, 0: no slot
    item: NDArray  # (n, b + 1) int32, item of the leaf, -1 if not evaluated
    # (4, n) int32: the number of items; the item of the true leaf, or of the pending
    # node above; the slot of the true leaf; the place of the class in the slot. The
    # last two are -1 if the true leaf has one class
    own: NDArray
    weight: NDArray  # (n,)

    @classmethod
    def empty(cls, weight: NDArray, n_items: int, b: int, m: int) -> Evidence:
        """Arrays that `Posterior.record` fills."""
        n = weight.size
        return cls(
            np.empty((n, n_items)),
            np.empty((n, n_items), dtype=np.int8),
            np.empty((n, b + 1, m)),
            np.zeros((n, b + 1), dtype=np.int32),
            np.empty((n, b + 1), dtype=np.int32),
            np.empty((4, n), dtype=np.int32),
            weight,
        )


def log_loss_of(fold: Evidence) -> Callable[[NDArray], tuple[float, NDArray]]:
    """A function of (w_r, w_l, eta, c, c'): mean log-loss of the fold, its gradient."""
    wide = max(fold.route.shape[1], fold.inside.shape[2], 2 * fold.item.shape[1])
    room, stop = np.empty((4, wide)), np.zeros(1, dtype=np.int32)
    share = fold.weight / fold.weight.sum()

    def log_loss(numbers):
        gradient = np.empty(5)
        arrays = numbers, gradient, room, stop
        return kernels.log_loss(*fold[:-1], share, *arrays), gradient

    return log_loss


def fit_numbers(
    fold: Evidence, start: tuple[float, ...] | None = None
) -> tuple[tuple[float, ...], float]:
    """((w_r, w_l, eta, c, c'), mean log-loss of the fold)."""
    log_loss = log_loss_of(fold)
    scale_prior = prior_part(fold.weight / fold.weight.sum())
    strength = np.array([scale_prior] * 2 + [_ETA_PRIOR] + [_C_PRIOR] * 2)

    def numbers_of(theta):
        return np.concatenate([np.exp(theta[:2]), theta[2:]])

    def penalised(theta):
        numbers = numbers_of(theta)
        value, gradient = log_loss(numbers)
        gradient[:2] *= numbers[:2]
        away = theta - np.array([0.0, 0.0, 0.5, 0.0, 0.0])
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
