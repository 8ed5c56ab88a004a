"""Nested groups in the solvers of skglm."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklstruct.prox import norm_tree_linf, prox_tree_l2, prox_tree_linf, tree_penalty

PARENTS = [-1, 0, 0, 1, 1, 2, -1, 6]


@pytest.fixture(scope="module")
def problem():
    pytest.importorskip("skglm", reason="skglm is not installed")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 8))
    return X, X[:, 0] * 2 + X[:, 1] + 0.1 * rng.normal(size=80)


@pytest.mark.parametrize("p", [2, np.inf])
def test_the_solution_is_a_fixed_point_of_our_operator(problem, p):
    from skglm.datafits import Quadratic
    from skglm.solvers import FISTA

    X, y = problem
    weights = np.linspace(0.5, 1.5, 8)
    penalty = tree_penalty(PARENTS, 0.2, weights=weights, p=p)
    solver = FISTA(max_iter=5000, tol=1e-11, opt_strategy="fixpoint")
    w, objective, _ = solver.solve(X, y, Quadratic(), penalty)
    step = len(y) / np.linalg.norm(X, 2) ** 2
    prox = prox_tree_l2 if p == 2 else prox_tree_linf
    moved = prox(w - step * X.T @ (X @ w - y) / len(y), PARENTS, 0.2 * step * weights)
    assert_allclose(moved, w, atol=1e-9)
    assert 0 < np.count_nonzero(w) < 8
    parents = np.array(PARENTS)
    for i in np.flatnonzero(w):  # no feature without those above it
        assert parents[i] < 0 or w[parents[i]] != 0
    assert objective[-1] <= objective[0]


def test_in_an_estimator(problem):
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import Logistic
    from skglm.solvers import FISTA

    X, y = problem
    model = GeneralizedLinearEstimator(
        Logistic(),
        tree_penalty(PARENTS, 0.02, p=np.inf, positive=True),
        FISTA(max_iter=2000, opt_strategy="fixpoint"),
    ).fit(X, np.sign(y))
    assert (model.coef_ >= 0).all() and model.coef_.any()
    assert np.mean(model.predict(X) == np.sign(y)) > 0.9


def test_value(problem):
    w = np.array([3.0, -4.0, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0])
    penalty = tree_penalty(PARENTS, 0.5, p=np.inf)
    assert penalty.value(w) == pytest.approx(0.5 * norm_tree_linf(w, PARENTS))


def test_bad_input(problem):
    with pytest.raises(ValueError, match="parents"):
        tree_penalty([1, 0], 1.0)
    with pytest.raises(ValueError, match="alpha must be >= 0"):
        tree_penalty(PARENTS, -1.0)
    with pytest.raises(ValueError, match="p must be one of"):
        tree_penalty(PARENTS, 1.0, p=3)
    with pytest.raises(ValueError, match="weights"):
        tree_penalty(PARENTS, 1.0, weights=[1.0])
    with pytest.raises(ValueError, match="one value per entry of parents"):
        tree_penalty(PARENTS, 1.0).prox_vec(np.zeros(3), 1.0)


def test_without_skglm(monkeypatch):
    from sklstruct.prox import _penalty_of_skglm as module

    monkeypatch.setattr(module, "_CLASSES", [])
    monkeypatch.setitem(sys.modules, "skglm", None)
    monkeypatch.setitem(sys.modules, "skglm.penalties.base", None)
    with pytest.raises(ImportError, match=r"pip install 'sklstruct\[skglm\]'"):
        tree_penalty(PARENTS, 1.0)
