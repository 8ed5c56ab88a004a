"""The optimum of each solver, by a softmax written out over samples and classes."""

import numpy as np
import pytest
from _toy_problems import N_CLASSES, make_pairs
from scipy.optimize import minimize

from sklstruct.loglinear import L1, L2, ElasticNet
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._problem import Problem
from sklstruct.loglinear._solvers import SOLVERS, Job

NAMES = ["tree_metric", "diagonal", "fista"]
SEPARABLE = [L1(), L2(), ElasticNet(gamma=0.7)]


def solve(name, problem, penalty, tol):
    job = Job(LogLinearLoss(problem), penalty.bind(problem))
    with np.errstate(over="ignore", invalid="ignore"):
        return SOLVERS[name](tol, 50_000).solve(job, np.zeros(problem.n_pairs))


class Dense:
    """The loss of a toy problem over samples and classes, features written out."""

    def __init__(self, seed, m, beta, strength, positive):
        pairs, count, terminal, target, weight = make_pairs(seed, m)
        self.problem = Problem(pairs, count, beta, strength, positive=positive)
        self.depth = pairs.tree.levels()[pairs.nodes()]
        beta = np.asarray(beta)[self.depth]
        self.features = np.zeros((terminal.size, N_CLASSES, pairs.n_pairs))
        for i, node in enumerate(terminal):
            while node >= 0:
                for p in range(pairs.ptr[node], pairs.ptr[node + 1]):
                    self.features[i, pairs.target[p], p] = beta[p]
                node = pairs.tree.parent[node]
        self.target, self.weight = target, weight
        self.rows = np.arange(target.size)

    def proba(self, w):
        score = self.features @ w
        score = np.exp(score - score.max(axis=1, keepdims=True))
        return score / score.sum(axis=1, keepdims=True)

    def loss(self, w):
        return -self.weight @ np.log(self.proba(w)[self.rows, self.target])

    def gradient(self, w):
        gap = self.weight[:, None] * self.proba(w)
        gap[self.rows, self.target] -= self.weight
        g = np.einsum("iv,ivp->p", gap, self.features)
        g[: self.problem.n_classes][self.problem.unseen] = 0.0
        return g


def residual(dense, penalty, w):
    """Largest distance of -gradient to the subdifferential of a separable penalty."""
    l1, l2 = penalty.ratios()
    strength = dense.problem.strength_by_depth[dense.depth]
    g = dense.gradient(w) + l2 * strength * w
    a = l1 * strength
    r = np.where(w != 0.0, g + a * np.sign(w), np.minimum(g + a, 0.0))
    if not dense.problem.positive:
        r += np.where(w == 0.0, np.maximum(g - a, 0.0), 0.0)
    return np.abs(r).max()


@pytest.mark.parametrize(
    ("penalty", "positive", "name"),
    [
        (penalty, positive, name)
        for penalty in SEPARABLE
        for positive in (True, False)
        for name in NAMES
        if SOLVERS[name]().fits(penalty, positive)
    ],
)
def test_optimal_by_a_dense_softmax(penalty, positive, name):
    dense = Dense(4, 2, [1.0, 0.8, 0.6], [0.3, 0.4, 0.5], positive)
    r = solve(name, dense.problem, penalty, 1e-9)
    assert residual(dense, penalty, r.w) < 1e-6
    value = dense.loss(r.w) + penalty.bind(dense.problem).value(r.w)
    assert value == pytest.approx(r.objective, rel=1e-12)


def test_l2_equals_a_dense_fit_of_scipy():
    dense = Dense(5, 2, [1.0, 0.8, 0.6], [0.3, 0.4, 0.5], positive=False)
    strength = dense.problem.strength_by_depth[dense.depth]
    free = dense.problem.count > 0

    def function(w):
        g = dense.gradient(w) + strength * w
        return dense.loss(w) + 0.5 * strength @ w**2, np.where(free, g, 0.0)

    peer = minimize(function, np.zeros(free.size), jac=True, method="BFGS")
    for name in NAMES[1:]:
        r = solve(name, dense.problem, L2(), 1e-7)
        assert r.objective == pytest.approx(peer.fun, rel=1e-9)
        np.testing.assert_allclose(r.w, peer.x, atol=1e-3)
