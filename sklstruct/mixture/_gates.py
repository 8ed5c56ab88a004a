r"""Weights of a mixture: constants, by bucket of the history, a logistic gate.

A gate is fitted to held-out samples: the log-probabilities of the targets in the
models, and features of the histories. The fitted gate computes weights from the
features alone. All gates maximise

.. math::
    \sum_i \omega_i \ln \sum_k \pi_k(x_i) P_k(y_i \mid x_i) ,

which is concave in constant weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from .._parallel import single_blas_thread
from . import _models_fast as _fast

# Features of a history: two columns for each tree of contexts.
DEPTH, LOG_WEIGHT = 0, 1

# Strength of the overall weights as a prior of the weights of a bucket, in samples.
_PRIOR = 20.0

# Strength of the l2 penalty of the logistic gate, for each held-out sample.
_GATE_L2 = 1e-4

# EM of constant weights stops after an iteration that gains at most _EM_TOL nats per
# sample, or after _EM_ITER iterations.
_EM_TOL, _EM_ITER = 1e-9, 1000


class Gate(ABC):
    """Weights of the models of a mixture, from features of the histories.

    `reads_features` says whether `log_weights` depends on the features.
    """

    reads_features = True

    def fit(
        self,
        log_prob: NDArray,
        features: NDArray,
        weight: NDArray,
        gate_depths: tuple[int, ...],
    ) -> Gate:
        """Learn from held-out samples.

        log_prob (n, n_models): ln P of the targets. features, gate_depths: of
        `Distribution`. weight (n,): positive.
        """
        with single_blas_thread():
            proba, weight, rows = relative(log_prob, weight)
            self._learn(proba, weight, features[rows], gate_depths)
        return self

    @abstractmethod
    def _learn(self, proba, weight, features, gate_depths):
        """Learn from the samples with a positive probability in some model.

        proba (n, n_models): P of the targets, each row up to a factor.
        """

    @abstractmethod
    def table(self) -> _fast.GateTable:
        """The weights as kernels read them."""

    def log_weights(self, features: NDArray) -> NDArray:
        """(n, n_models) logarithms of the weights after each history."""
        return self.table().log_weights(np.ascontiguousarray(features))


def relative(log_prob: NDArray, weight: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """(P of each model divided by the largest P, weight, rows) of the samples with a
    positive probability in some model."""
    top = log_prob.max(axis=1)
    rows = np.flatnonzero(top > -np.inf)
    return np.exp(log_prob[rows] - top[rows, None]), weight[rows], rows


def em_weights(
    proba: NDArray, weight: NDArray, prior: NDArray | None = None
) -> NDArray:
    """Constant weights by expectation-maximisation.

    Each row of `proba`, the probabilities of a target, may be scaled. prior:
    pseudo-counts of the models; None: 0.
    """
    n_models = proba.shape[1]
    prior = np.zeros(n_models) if prior is None else prior
    total = weight.sum() + prior.sum()
    pi = np.full(n_models, 1.0 / n_models)
    if not total > 0:
        return pi
    before = -np.inf
    for _ in range(_EM_ITER):
        mixed = proba @ pi
        with np.errstate(divide="ignore", invalid="ignore"):
            penalty = np.where(prior > 0, prior * np.log(pi), 0.0).sum()
        value = float(weight @ np.log(mixed)) + penalty
        # No division by 0: every row has a 1 and every weight starts positive.
        pi = (pi * (proba.T @ (weight / mixed)) + prior) / total
        pi /= pi.sum()
        if value - before <= _EM_TOL * total:
            break
        before = value
    return pi


def softmax_coef(
    phi: NDArray, proba: NDArray, weight: NDArray, closed: NDArray | None = None
) -> NDArray:
    r"""Coefficients v of the weights :math:`\pi_k(x) \propto e^{v_k \cdot \phi(x)}`.

    Maximum likelihood of the mixture with a small l2 penalty, by L-BFGS from the best
    constant weights. The first column of `phi` is 1. Each row of `proba`, the
    probabilities of a target, may be scaled. closed: a mask of the samples and models
    for which the weight is 0; None: no such pairs.
    """
    total = max(weight.sum(), 1.0)
    start = np.zeros((proba.shape[1], phi.shape[1]))
    start[:, 0] = np.log(np.maximum(em_weights(proba, weight), 1e-6))

    def loss(flat):
        v = flat.reshape(start.shape)
        score = phi @ v.T
        if closed is not None:
            score[closed] = -np.inf
        score -= score.max(axis=1, keepdims=True)
        pi = np.exp(score)
        pi /= pi.sum(axis=1, keepdims=True)
        joint = pi * proba
        # The weights of all models with P > 0 may underflow during the search.
        mixed = np.maximum(joint.sum(axis=1), 1e-300)
        slope = (pi - joint / mixed[:, None]) * (weight / total)[:, None]
        away = v - start
        value = -(weight @ np.log(mixed)) / total
        value += 0.5 * _GATE_L2 * float((away**2).sum())
        return value, (slope.T @ phi + _GATE_L2 * away).ravel()

    result = minimize(
        loss, start.ravel(), jac=True, method="L-BFGS-B",
        options={"maxiter": 200, "ftol": 1e-10},
    )  # fmt: skip
    return result.x.reshape(start.shape)


class ConstantGate(Gate):
    """The same weights for all histories, by EM or given; not negative."""

    reads_features = False

    def __init__(self, weights: NDArray | None = None) -> None:
        self.weights = np.empty(0) if weights is None else weights
        self.gap: float | None = None

    def _learn(self, proba, weight, features, gate_depths):
        self.weights = em_weights(proba, weight)
        ratio = proba.T @ (weight / (proba @ self.weights)) / weight.sum()
        self.gap = max(float(ratio.max()) - 1.0, 0.0)

    def table(self) -> _fast.GateTable:
        with np.errstate(divide="ignore"):
            return _fast.GateTable(np.log(self.weights)[None])


class BucketGate(Gate):
    """Weights for each bucket of the histories, by EM with the overall weights as
    prior.

    by: the number that decides the bucket: the depth of the node that the history
    matches in the first tree of contexts (DEPTH), or the weight of the training samples
    at this node, in powers of 2 (LOG_WEIGHT).
    """

    def __init__(self, by: int) -> None:
        self.by = by

    def _learn(self, proba, weight, features, gate_depths):
        n_buckets = gate_depths[0] + 1 if self.by == DEPTH else 32
        overall = em_weights(proba, weight)
        self.weights = np.tile(overall, (n_buckets, 1))
        bucket = self.table().buckets(np.ascontiguousarray(features))
        for b in np.unique(bucket).tolist():
            here = bucket == b
            self.weights[b] = em_weights(proba[here], weight[here], _PRIOR * overall)

    def table(self) -> _fast.GateTable:
        with np.errstate(divide="ignore"):
            return _fast.GateTable(np.log(self.weights), self.by)


class LogisticGate(Gate):
    r"""Multinomial logistic regression of the weights on features of the histories.

    .. math::
        \pi_k(x) = \frac{e^{b_k + v_k \cdot \phi(x)}}
        {\sum_j e^{b_j + v_j \cdot \phi(x)}}

    with :math:`\phi` the matched depths (indicators) and logarithms of the training
    weight at the matched contexts, also by depth, of every tree of contexts. Maximum
    likelihood with a small l2 penalty, by L-BFGS.
    """

    def _design(self, features):
        columns = [np.ones(features.shape[0])]
        for t, deepest in enumerate(self.depths):
            depth = np.minimum(features[:, 2 * t + DEPTH], deepest).astype(np.int64)
            scaled = 0.2 * features[:, 2 * t + LOG_WEIGHT]
            at_depth = np.zeros((features.shape[0], 2 * (deepest + 1)))
            rows = np.arange(features.shape[0])
            at_depth[rows, 2 * depth] = 1.0
            at_depth[rows, 2 * depth + 1] = scaled
            columns += [scaled, scaled**2, at_depth]
        return np.column_stack(columns)

    def _learn(self, proba, weight, features, gate_depths):
        self.depths = tuple(gate_depths)
        self.coef = softmax_coef(self._design(features), proba, weight)

    def table(self) -> _fast.GateTable:
        # The columns of `_design` are not needed: for each tree, one indicator of depth
        # is 1.
        return _fast.GateTable(self.coef.T, deepest=self.depths)


GATES: dict[str, Callable[[], Gate]] = {
    "em": ConstantGate,
    "by_depth": lambda: BucketGate(DEPTH),
    "by_count": lambda: BucketGate(LOG_WEIGHT),
    "logistic": LogisticGate,
}
