"""From scores to probabilities: the evidence of an outcome, and its scale.

The evidence g(z) of an outcome with score z is minus the loss of the sample if it has
this outcome: z for the multinomial loss (up to a term common to all outcomes),
log sigma(z) for the logistic loss, -max(0, 1 - z)² for the squared hinge. Probabilities
are the softmax of w g; the number w > 0 is fitted to a fold. A penalty of (log w)² nats
in total keeps w near 1 if the fold has few samples: with two samples that are right w
would be infinite, with two samples that are wrong 0. If each outcome is a separate
yes/no question, its probability is sigma(w sign(z) |z|^p + b). With p = 1 this is the
sigmoid of Platt. With p > 1 the probability is nearly constant for scores near 0, as
for labels that are uncertain over a range of scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit

from ._targets import Targets

LOSSES = ("squared_hinge", "log_loss", "ovr_log_loss")

# Slope of the evidence of a margin above 1, where the loss is 0: outcomes whose margins
# are all above 1 keep their order. It is too small to change other probabilities.
BEYOND = 1e-4

# Largest size of a fold: at most six numbers are fitted to a fold.
_MOST_HELD = 2000

# Size below which a tenth of the samples is too small a fold.
_FEW_HELD = 100

_LOG_SCALES = -8.0, 8.0

# Bounds of b and log p of a sigmoid, and the weights of the penalties (log w)², b² and
# (log p)² in total nats.
_OFFSETS = -30.0, 30.0
_LOG_POWERS = -np.log(2.0), np.log(4.0)
_SIGMOID_PRIOR = np.array([1.0, 1e-2, 1.0])


class Sigmoid(NamedTuple):
    """P(yes) = sigma(w sign(z) |z|^p + b) of a score z."""

    w: float = 1.0
    b: float = 0.0
    p: float = 1.0

    def odds(self, scores: NDArray) -> NDArray:
        """The log-odds of yes, in double precision."""
        z = scores.astype(np.float64)
        return self.w * np.copysign(np.abs(z) ** self.p, z) + self.b


def evidence(scores: NDArray, loss: str) -> NDArray:
    """g of the scores, in double precision."""
    z = scores.astype(np.float64)
    if loss == "log_loss":
        return z
    if loss == "ovr_log_loss":
        return -np.logaddexp(0.0, -z)
    gap = np.minimum(z - 1.0, 0.0)
    return BEYOND * np.maximum(z - 1.0, 0.0) - gap**2


def outcome_evidence(scores: NDArray, loss: str) -> NDArray:
    """`evidence` of all outcomes.

    A single column has the scores of the second of two outcomes. With the multinomial
    loss such a score is the log-odds of the second outcome.
    """
    if scores.shape[1] == 1:
        scores = scores * [0.0 if loss == "log_loss" else -1.0, 1.0]
    return evidence(scores, loss)


def prior_part(share: NDArray) -> float:
    """One nat in total as nats per sample: 1 / n for n samples of equal weight.

    share: the weights, of sum 1. A sample of weight 0 has no effect. The result does
    not depend on the scale of the weights, as 1 over their sum would.
    """
    return float(share @ share)


def fit_scale(g: NDArray, target: NDArray, weight: NDArray) -> tuple[float, float]:
    """(w, mean log-loss of the fold at w); g: the evidence (n, outcomes)."""
    if target.size == 0:
        return 1.0, np.nan
    share, top = weight / weight.sum(), g.max(axis=1)
    less, gap = g - top[:, None], top - g[np.arange(target.size), target]
    strength = prior_part(share)

    def loss(log_scale):
        w = np.exp(log_scale)
        return float(share @ (np.log(np.exp(w * less).sum(axis=1)) + w * gap))

    found = minimize_scalar(
        lambda t: loss(t) + strength * t**2,
        bounds=_LOG_SCALES,
        method="bounded",
        options={"xatol": 1e-4},
    )
    return float(np.exp(found.x)), loss(found.x)


def scale_of(
    scores: NDArray, target: NDArray, weight: NDArray, loss: str
) -> tuple[float, float]:
    """`fit_scale` for scores; a single column is that of the second of two outcomes."""
    return fit_scale(outcome_evidence(scores, loss), target, weight)


def sigmoid_loss(
    scores: NDArray, yes: NDArray, weight: NDArray
) -> Callable[[NDArray], tuple[float, NDArray]]:
    """A function of (log w, b, log p): (penalised mean log-loss, its gradient).

    yes: whether the answer to each score is yes.
    """
    z = scores.astype(np.float64)
    sign, share = np.where(yes, 1.0, -1.0), weight / weight.sum()
    side, log_z = np.sign(z), np.log(np.maximum(np.abs(z), 1e-300))
    strength = prior_part(share) * _SIGMOID_PRIOR

    def loss(theta):
        w, b, p = np.exp(theta[0]), theta[1], np.exp(theta[2])
        u = w * side * np.exp(p * log_z)
        t = sign * (u + b)
        slope = -share * sign * expit(-t)
        gradient = np.array([slope @ u, slope.sum(), p * (slope @ (u * log_z))])
        gradient += 2 * strength * theta
        prior = strength @ (theta * theta)
        return float(share @ np.logaddexp(0.0, -t)) + prior, gradient

    return loss


def fit_sigmoid(
    scores: NDArray, yes: NDArray, weight: NDArray
) -> tuple[Sigmoid, float]:
    """(sigmoid, total log-loss) of yes/no answers."""
    if scores.size == 0:
        return Sigmoid(), np.nan
    found = minimize(
        sigmoid_loss(scores, yes, weight), np.zeros(3), jac=True, method="L-BFGS-B",
        bounds=[_LOG_SCALES, _OFFSETS, _LOG_POWERS],
    )  # fmt: skip
    w, b, p = found.x.tolist()
    sigmoid = Sigmoid(float(np.exp(w)), b, float(np.exp(p)))
    t = np.where(yes, 1.0, -1.0) * sigmoid.odds(scores)
    return sigmoid, float(weight @ np.logaddexp(0.0, -t))


def fit_answers(
    scores: Sequence[NDArray], targets: Sequence[Targets], weights: Sequence[NDArray]
) -> tuple[Sigmoid, float]:
    """One `fit_sigmoid` of the scores (samples, outcomes) of several problems."""
    if not scores:
        return Sigmoid(), np.nan
    yes = np.concatenate([t.indicator().ravel() for t in targets])
    each = [np.repeat(w, z.shape[1]) for w, z in zip(weights, scores)]
    z = np.concatenate([z.ravel() for z in scores])
    return fit_sigmoid(z, yes, np.concatenate(each))


def f1_threshold(
    proba: NDArray,
    yes: NDArray,
    weight: NDArray,
    missed: float = 0.0,
    least: float = 0.0,
) -> float:
    """The threshold of largest micro-averaged F1, 2 TP / (predicted + positive).

    proba: the probabilities of at least `least`. missed: total weight of the positives
    with a smaller probability. Returns 0.5 if no probability is of a positive.
    """
    order = np.argsort(-proba, kind="stable")
    p, w = proba[order], weight[order]
    hits = np.cumsum(w * yes[order])
    if not hits.size or hits[-1] == 0:
        return 0.5
    f1 = 2 * hits / (np.cumsum(w) + hits[-1] + missed)
    f1[:-1][p[1:] == p[:-1]] = 0  # equal probabilities are predicted together
    best = int(f1.argmax())
    # not below `least`: predictions with smaller probabilities were not counted
    below = p[best + 1] if best + 1 < p.size else least
    return float((p[best] + below) / 2)


def fold_size(n: int) -> int:
    """Size of the fold of n samples, unless outcomes have too few samples."""
    return min(max(n // 10, min(n // 4, _FEW_HELD)), _MOST_HELD)


def draw_fold(targets: Targets, rng: RandomState) -> NDArray:
    """Samples of the fold, ascending; every outcome keeps a sample outside of it."""
    n = targets.n_samples
    size = fold_size(n)
    shuffled = rng.permutation(n)
    # the first sample of each outcome, in the order drawn, is not held out
    drawn_targets = targets.take(shuffled)
    _, entry = np.unique(drawn_targets.outcome, return_index=True)
    free = np.ones(n, dtype=bool)
    free[drawn_targets.sample[entry]] = False
    # the last samples: among the first samples frequent outcomes are overrepresented,
    # because their second sample comes sooner than the second of rare outcomes
    drawn = shuffled[free]
    return np.sort(drawn[max(drawn.size - size, 0) :]).astype(np.int32)
