"""From scores to probabilities: the evidence of an outcome, and its scale.

The evidence g of a score z is minus the loss it would have as the score of the outcome
of the sample: z for the multinomial loss (up to what is common to all outcomes),
log sigma(z) for the logistic one, -max(0, 1 - z)² for the squared hinge. Probabilities
are the softmax of w g with one w > 0, which a fold chooses.
"""

from __future__ import annotations

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

LOSSES = ("squared_hinge", "log_loss", "ovr_log_loss")

# Slope of the evidence of a margin above 1, where the loss is 0: outcomes whose margins
# are all above 1 keep their order. Too small to change a probability otherwise.
BEYOND = 1e-4

# Largest size of a fold: at most five numbers are fitted to it.
_MOST_HELD = 2000

# Size below which a tenth of the samples is too small a fold.
_FEW_HELD = 100

# Weight of a prior (log w)², in nats, that keeps w finite where the fold has no
# errors, and moves it little where it has some.
SCALE_PRIOR = 5e-4

_LOG_SCALES = -8.0, 8.0


def evidence(scores: NDArray, loss: str) -> NDArray:
    """g of the scores, in double precision."""
    z = scores.astype(np.float64)
    if loss == "log_loss":
        return z
    if loss == "ovr_log_loss":
        return -np.logaddexp(0.0, -z)
    gap = np.minimum(z - 1.0, 0.0)
    return BEYOND * np.maximum(z - 1.0, 0.0) - gap**2


def both_outcomes(scores: NDArray, loss: str) -> NDArray:
    """Scores of two outcomes from those (n, 1) of the second, as `evidence` wants."""
    if loss == "log_loss":  # z is a log-ratio: it counts once
        return np.hstack([np.zeros_like(scores), scores])
    return np.hstack([-scores, scores])


def fit_scale(g: NDArray, target: NDArray, weight: NDArray) -> tuple[float, float]:
    """(w, mean log-loss of the fold at w) of evidence g (n, outcomes)."""
    if target.size == 0:
        return 1.0, np.nan
    share = weight / weight.sum()
    own = g[np.arange(target.size), target]

    def loss(log_scale):
        w = np.exp(log_scale)
        return float(share @ (logsumexp(w * g, axis=1) - w * own))

    found = minimize_scalar(
        lambda t: loss(t) + SCALE_PRIOR * t**2,
        bounds=_LOG_SCALES,
        method="bounded",
        options={"xatol": 1e-4},
    )
    return float(np.exp(found.x)), loss(found.x)


def draw_fold(code: NDArray, rng: RandomState) -> NDArray:
    """Samples to calibrate on, ascending; at least one of every class is left."""
    n = code.size
    size = min(max(n // 10, min(n // 4, _FEW_HELD)), _MOST_HELD)
    shuffled = rng.permutation(n)
    # the first of each class, in the order drawn, stays
    _, kept = np.unique(code[shuffled], return_index=True)
    free = np.ones(n, dtype=bool)
    free[kept] = False
    # the last of them: the first are second samples of their classes, which frequent
    # classes have sooner than rare ones
    drawn = shuffled[free]
    return np.sort(drawn[max(drawn.size - size, 0) :]).astype(np.int32)
