"""Sparse and grouped features: the optimum by other solvers, proofs, bad input."""

import gzip
import itertools
import pickle
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from _oracles import DATA
from scipy.optimize import approx_fprime
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, PredefinedSplit
from sklearn.utils.fixes import parse_version

from sklstruct import SuffixTreeVectorizer
from sklstruct.datasets import make_sparse_classes
from sklstruct.linear import (
    GroupLasso,
    StructuredLogisticRegression,
    StructuredLogisticRegressionCV,
    TreeNorm,
    _newton_cd,
    ngram_parents,
)
from sklstruct.linear._feature_bounds import GroupTerm, ProximalTerm, SeparableTerm
from sklstruct.linear._feature_problem import FeatureProblem
from sklstruct.linear._newton_cd import NewtonSolver
from sklstruct.linear._penalties import bind
from sklstruct.loglinear import L1, L2, ElasticNet, StructuredLogLinearLM, TreeL2

PARENTS = [-1, 0, 0, 1, 1, -1, 5, 2]


@pytest.fixture(params=["scaled", "raw"])
def iris(request):
    """Columns of unit variance, and as they are: many more sweeps."""
    X, y = load_iris(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0) if request.param == "scaled" else X, y


class RowNorms:
    """A user's penalty: the group lasso over classes, by its two methods."""

    def value(self, W):
        return np.linalg.norm(W, axis=0).sum()

    def prox(self, W, kappa):
        size = np.linalg.norm(W, axis=0)
        return W * np.maximum(1 - kappa / np.maximum(size, 1e-300), 0)


PENALTIES = {
    "l1": lambda: "l1",
    "l2": L2,
    "elastic_net": lambda: ElasticNet(0.7),
    "group_lasso": lambda: "group_lasso",
    "groups": lambda: GroupLasso([0, 0, 1, 1, 1, 2, 3, 3]),
    "weighted": lambda: GroupLasso(list("aabbbcdd"), weights=[1.0, 0.5, 2.0, 0.1]),
    "overlapping": lambda: GroupLasso([[0, 1, 2], [2, 3, 4, 5], [5, 6, 7]]),
    "tree_linf": lambda: TreeNorm(PARENTS, depth_weight=0.8),
    "tree_l2": lambda: TreeNorm(PARENTS, norm="l2"),
    "user": RowNorms,
}
NEWTON = ("l1", "l2", "elastic_net", "group_lasso", "groups", "weighted")


def omega(cvxpy, name, W):
    """The penalty of a cvxpy variable (lanes, 8), written out."""

    def below(j):
        return [j] + [i for c, p in enumerate(PARENTS) if p == j for i in below(c)]

    def depth(j):
        return 0 if PARENTS[j] < 0 else 1 + depth(PARENTS[j])

    norm = cvxpy.norm
    if name == "l1":
        return cvxpy.sum(cvxpy.abs(W))
    if name == "l2":
        return 0.5 * cvxpy.sum_squares(W)
    if name == "elastic_net":
        return cvxpy.sum(cvxpy.abs(W)) + 0.35 * cvxpy.sum_squares(W)
    if name in ("group_lasso", "user"):
        return sum(norm(W[:, j]) for j in range(8))
    if name.startswith("tree"):
        factor, p = (0.8, "inf") if name == "tree_linf" else (1.0, 2)
        rows = range(W.shape[0])
        return sum(
            factor ** depth(j) * norm(W[k, below(j)], p) for k in rows for j in range(8)
        )
    groups = {
        "groups": [[0, 1], [2, 3, 4], [5], [6, 7]],
        "weighted": [[0, 1], [2, 3, 4], [5], [6, 7]],
        "overlapping": [[0, 1, 2], [2, 3, 4, 5], [5, 6, 7]],
    }[name]
    weights = (
        [1.0, 0.5, 2.0, 0.1] if name == "weighted" else map(np.sqrt, map(len, groups))
    )
    return sum(w * norm(cvxpy.vec(W[:, g], order="C")) for w, g in zip(weights, groups))


def conic_minimum(name, X, y, C, weight, intercept):
    """The minimum of total loss + penalty / C, by an interior point method."""
    cvxpy = pytest.importorskip("cvxpy")
    if y.ndim == 2:
        Y = y.T
    elif y.max() == 1:
        Y = y[None, :]
    else:
        Y = np.arange(y.max() + 1)[:, None] == y
    W = cvxpy.Variable((Y.shape[0], X.shape[1]))
    Z = W @ X.T
    if intercept:
        b = cvxpy.Variable((Y.shape[0], 1))
        Z = Z + b @ np.ones((1, X.shape[0]))
    right = cvxpy.sum(cvxpy.multiply(Y * weight, Z))
    if Y.shape[0] > 1 and y.ndim == 1:
        loss = weight @ cvxpy.log_sum_exp(Z, axis=0) - right
    else:
        each = np.broadcast_to(weight, Y.shape)
        loss = cvxpy.sum(cvxpy.multiply(each, cvxpy.logistic(Z))) - right
    problem = cvxpy.Problem(cvxpy.Minimize(loss + omega(cvxpy, name, W) / C))
    problem.solve(solver="CLARABEL")
    assert problem.status == "optimal"
    return problem.value


def drawn(seed):
    """(X, y, C, weights, intercept) of a small problem, of all kinds."""
    rng = np.random.default_rng(seed)
    n, kind = int(rng.integers(8, 30)), seed % 3
    K = 3 + seed % 2
    X = rng.normal(size=(n, 8)) * rng.choice([0.3, 1.0, 3.0], size=8)
    if rng.random() < 0.5:
        X *= rng.random(X.shape) < 0.5
    if kind == 0:
        y = np.concatenate([np.arange(K), rng.integers(K, size=n - K)])
    elif kind == 1:
        y = np.concatenate([[0, 1], rng.integers(2, size=n - 2)])
    else:
        y = (rng.random((n, 3)) < 0.4).astype(int)
        y[:2] = [[1, 1, 1], [0, 0, 0]]
    weight = rng.integers(1, 4, size=n) * rng.choice([1.0, 0.7])
    C = 10.0 ** rng.uniform(-1.5, 0.7)
    return X, y, C, weight, bool(rng.random() < 0.7)


def against_conic(name, seed):
    X, y, C, weight, intercept = drawn(seed)
    least = conic_minimum(name, X, y, C, weight, intercept)
    model = StructuredLogisticRegression(
        PENALTIES[name](), C, fit_intercept=intercept, tol=1e-7, max_iter=500
    )
    given = sp.csr_matrix(X) if seed % 2 else X
    model.fit(given, y, sample_weight=weight)
    error = 1e-6 * max(least, 1)  # of the conic solver
    assert model.gap_ <= 1e-7 * weight.sum()
    assert least - error <= model.objective_[-1] <= least + model.gap_ + error
    # the gap is a proof far from the optimum too
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for max_iter in (1, 2):
            model.set_params(max_iter=max_iter).fit(given, y, sample_weight=weight)
            assert model.objective_[-1] - model.gap_ <= least + error


@pytest.mark.parametrize("name", PENALTIES)
def test_a_conic_solver_finds_no_better_weights(name):
    for seed in range(3):
        against_conic(name, 17 * seed + len(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", PENALTIES)
def test_a_conic_solver_finds_no_better_weights_in_many_problems(name):
    for seed in range(100, 124):
        against_conic(name, seed)


def objective_of(model, X, y, coef, intercept):
    """Total loss + penalty / C of the l1 or l2 norm, one label per sample."""
    Z = X @ np.asarray(coef).T + intercept
    if Z.shape[1] == 1:
        Z = np.hstack([np.zeros_like(Z), Z])
    top = Z.max(axis=1)
    lse = top + np.log(np.exp(Z - top[:, None]).sum(axis=1))
    return (lse - Z[np.arange(y.size), y]).sum()


needs_l1_ratio = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="LogisticRegression has an l1 penalty by l1_ratio alone from 1.8 on",
)


@needs_l1_ratio
@pytest.mark.parametrize("n_classes", [2, 3])
def test_saga_reaches_the_same_l1_optimum(n_classes):
    X, y = make_classification(
        150, 12, n_informative=6, n_classes=n_classes, random_state=0
    )
    ours = StructuredLogisticRegression("l1", C=0.1, tol=1e-10).fit(X, y)
    saga = LogisticRegression(
        C=0.1, l1_ratio=1.0, solver="saga", tol=1e-10, max_iter=20_000
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_.toarray(), saga.coef_, atol=1e-6)
    shift = ours.intercept_ - saga.intercept_
    np.testing.assert_allclose(shift, shift.mean(), atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), saga.predict_proba(X), atol=1e-6)
    theirs = objective_of(ours, X, y, saga.coef_, saga.intercept_)
    theirs += np.abs(saga.coef_).sum() / 0.1
    assert ours.objective_[-1] == pytest.approx(theirs, rel=1e-10)


def test_lbfgs_reaches_the_same_l2_optimum():
    X, y = load_iris(return_X_y=True)
    ours = StructuredLogisticRegression(L2(), C=2.0, tol=1e-11).fit(X, y)
    lbfgs = LogisticRegression(C=2.0, tol=1e-10, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), lbfgs.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(ours.coef_.toarray(), lbfgs.coef_, atol=1e-4)


@needs_l1_ratio
def test_two_classes_are_those_of_liblinear():
    X, y = make_classification(100, 10, random_state=1)
    ours = StructuredLogisticRegression(C=0.2, fit_intercept=False, tol=1e-11).fit(X, y)
    theirs = LogisticRegression(
        C=0.2, l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-10,
        max_iter=10_000,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(ours.coef_.toarray(), theirs.coef_, atol=1e-5)


@pytest.mark.parametrize("several", [False, True])
def test_the_gradient_is_that_of_the_loss(several):
    X, y, _, weight, _ = drawn(2 if several else 0)
    Y = y.T == 1 if several else np.arange(y.max() + 1)[:, None] == y
    problem = FeatureProblem(
        sp.csr_matrix(X), Y, not several, weight, True, np.zeros(1, np.int32)
    )
    W = np.random.default_rng(0).normal(size=(8, Y.shape[0]))

    def loss(w):
        return problem.loss((X @ w.reshape(W.shape)).T.copy())

    P = np.empty(Y.shape)
    problem.loss((X @ W).T.copy(), P)
    G = problem.gradient(np.arange(8, dtype=np.int32), P)
    numeric = approx_fprime(W.ravel(), loss, 1e-6).reshape(W.shape)
    np.testing.assert_allclose(G, numeric, atol=1e-3)


@pytest.mark.parametrize(("l1", "l2"), [(1.0, 0.0), (0.7, 0.4), (0.0, 1.0), (2.0, 0.1)])
def test_the_common_shift_has_the_least_penalty(l1, l2):
    rng = np.random.default_rng(0)
    for K in (3, 4):
        W = np.rint(4 * rng.normal(size=(20, K))) / 4
        groups = GroupTerm(np.zeros(20, np.intp), np.ones(1))
        for term, rows in ((SeparableTerm(l1, l2), W[:, None]), (groups, [W])):
            shifted = term.shifted(W)
            moved = W - shifted
            np.testing.assert_allclose(
                moved, moved[:, :1].repeat(K, axis=1), atol=1e-12
            )
            for row, at in zip(rows, np.split(shifted, len(rows))):
                columns = np.arange(len(at))
                least = term.value(columns, at)
                for c in np.linspace(-2, 2, 41):
                    assert least <= term.value(columns, row - c) + 1e-12
                    assert least <= term.value(columns, at - 0.1 * c) + 1e-12


def test_flat_directions_do_not_slow_the_solver():
    X, y = make_classification(
        2000, 5, n_informative=5, n_redundant=0, n_classes=5, n_clusters_per_class=1,
        random_state=0,
    )  # fmt: skip
    model = StructuredLogisticRegression(C=1e4, tol=1e-7).fit(X, y)
    assert model.n_iter_ <= 20  # 60 rounds do not do without the shift


@pytest.mark.parametrize(("n_classes", "n_rows"), [(2, 200), (4, 200), (3, 20)])
def test_columns_of_unequal_length_share_a_group(n_classes, n_rows, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 24)) + 2 * rng.normal(size=(n_rows, 6)).repeat(4, 1)
    W = rng.normal(size=(24, n_classes)) * (np.arange(24) < 12)[:, None]
    y = (X @ W + 2 * rng.gumbel(size=(n_rows, n_classes))).argmax(axis=1)
    X *= np.tile(np.geomspace(1e-3, 1, 4), 6)
    group = np.arange(24) // 4
    model = StructuredLogisticRegression(GroupLasso(group), C=10.0, tol=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, y)
        assert model.gap_ <= 1e-7 * n_rows and model.n_iter_ <= 30
        monkeypatch.setattr(_newton_cd, "_LARGEST_BLOCK", 1)  # a looser bound
        loose = clone(model).fit(X, y)
    assert loose.objective_[-1] == pytest.approx(model.objective_[-1], abs=2e-6)
    # At the minimum the gradient of a group is minus its direction, or is short.
    P, coef = model.predict_proba(X), model.coef_.toarray()
    G = (P - np.eye(n_classes)[y]).T @ X
    G = G[-len(coef) :] * 10
    for g in range(6):
        at = coef[:, group == g]
        size = np.linalg.norm(at)
        if size:
            pull = -2 * at / size  # sqrt(4 columns)
            np.testing.assert_allclose(G[:, group == g], pull, atol=2e-2)
        else:
            assert np.linalg.norm(G[:, group == g]) <= 2 * (1 + 1e-6)


@pytest.mark.parametrize("form", ["one-hot", "scaled", "centred"])
@pytest.mark.parametrize("several", [False, True])
def test_one_hot_groups_against_the_intercepts(form, several, monkeypatch):
    """Scores do not tell a constant of a group from the intercepts: descent creeps."""
    rng = np.random.default_rng(0)
    sizes = (2, 3, 10, 30, *([2] * 20))
    group = np.repeat(np.arange(24), sizes)
    X = np.hstack([np.eye(k)[rng.integers(0, k, 800)] for k in sizes])
    Z = X[:, :45] @ rng.normal(size=(45, 3)) + rng.gumbel(size=(800, 3))
    y = (Z > 0.5).astype(int) if several else Z.argmax(axis=1)
    if form != "one-hot":
        X /= X.std(axis=0)
    if form == "centred":
        X -= X.mean(axis=0)
    X = sp.csr_matrix(X)
    moves, n_zero, shift = [], [], _newton_cd.Blocks._shift
    monkeypatch.setattr(_newton_cd, "_DAMPING", 1.0)

    def checked(model, blocks, V, c):
        assert blocks.tolist() == list(range(len(model.starts) - 1))
        scores, value = X[:, model.columns] @ model.u + model.db, model.value()
        zero = ~np.logical_or.reduceat(model.u.any(axis=1), model.starts[:-1])
        shift(model, blocks, V, c)
        assert not model.u[np.repeat(zero, np.diff(model.starts))].any()
        n_zero.append(np.count_nonzero(zero))
        other = X[:, model.columns] @ model.u + model.db
        np.testing.assert_allclose(other, scores, atol=1e-9)
        assert model.value() <= value + 1e-9 * abs(value)
        moves.append(value - model.value())

    model = StructuredLogisticRegression(GroupLasso(group), C=1000, tol=1e-7)
    with monkeypatch.context() as watched:
        watched.setattr(_newton_cd.Blocks, "_shift", checked)
        clone(model).set_params(C=0.1).fit(X, y)
        assert max(n_zero) > 0
        moves.clear()
        model.fit(X, y)
    assert max(moves) > 0 and len(moves) < 400 and model.gap_ <= 1e-7 * len(y)
    plain = clone(model).set_params(fit_intercept=False, C=10, tol=1e-5).fit(X, y)
    assert not plain.intercept_.any() and plain.gap_ <= 1e-5 * len(y)


@pytest.mark.parametrize("largest", [64, 1])
@pytest.mark.parametrize(
    ("coupled", "K", "n"), [(True, 2, 30), (True, 4, 30), (False, 3, 30), (True, 2, 2)]
)
def test_curvatures_of_blocks_bound_their_hessians(coupled, K, n, largest, monkeypatch):
    monkeypatch.setattr(_newton_cd, "_LARGEST_BLOCK", largest)
    rng = np.random.default_rng(K)
    X = rng.normal(size=(n, 6)) * np.geomspace(1e-3, 10, 6)
    X[rng.random(X.shape) < 0.2] = 0
    X[:, 4], X[0] = 2 * X[:, 3], 1  # the last column is nearly orthogonal
    weight, starts = rng.uniform(0.2, 3, n), np.array([0, 1, 3, 6])
    Y = np.eye(K, dtype=bool)[:, np.arange(n) % K]
    problem = FeatureProblem(
        sp.csr_matrix(X), Y, coupled, weight, False, np.zeros(1, np.int32)
    )
    uneven, half = rng.random((K, n)) ** 3, np.full((K, n), 0.5)
    for P in (uneven / uneven.sum(axis=0) if coupled else uneven, half):
        h = _newton_cd.block_curvatures(problem, np.arange(6), starts, P)
        with monkeypatch.context() as sparse:
            sparse.setattr(_newton_cd, "_DENSE", 1.0)
            other = _newton_cd.block_curvatures(problem, np.arange(6), starts, P)
        np.testing.assert_allclose(other, h, rtol=1e-9)
        for lo, hi in itertools.pairwise(starts):
            H = sum(
                s * np.kron(np.outer(x, x), np.diag(p) - np.outer(p, p))
                if coupled
                else s * np.kron(np.outer(x, x), np.diag(p * (1 - p)))
                for s, x, p in zip(weight, X[:, lo:hi], P.T)
            )
            root = 1 / np.sqrt(h[lo:hi].ravel())
            top = np.linalg.eigvalsh(H * root * root[:, None])[-1]
            assert top <= 1 + 1e-9
            # the bound of a sample is exact here
            if P is half and (K == 2 or not coupled) and (largest > 1 or hi - lo == 1):
                assert top == pytest.approx(1)


def test_extrapolation_saves_sweeps(monkeypatch):
    X, y = make_sparse_classes(
        n_classes=5, n_features=2000, n_samples=600, random_state=0
    )[:2]
    descend, sweeps = _newton_cd.descend, []

    def counted(model):
        n = descend(model)
        sweeps[-1] += n
        return n

    monkeypatch.setattr(_newton_cd, "descend", counted)
    for memory in (_newton_cd._MEMORY, 10**9):  # 10**9: never
        monkeypatch.setattr(_newton_cd, "_MEMORY", memory)
        sweeps.append(0)
        StructuredLogisticRegression(tol=1e-4, max_iter=300).fit(X, y)
    assert sweeps[0] < 0.7 * sweeps[1]


@pytest.mark.parametrize("dense", [False, True])
def test_conditions_of_the_optimum_hold(dense):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16, y[:300]
    model = StructuredLogisticRegression(C=0.5, tol=1e-9)
    model.fit(X if dense else sp.csr_matrix(X), y)
    residual = model.predict_proba(X) - np.eye(10)[y]
    np.testing.assert_allclose(residual.sum(axis=0), 0, atol=1e-7)
    G, W = (residual.T @ X) * 0.5, model.coef_.toarray()
    assert np.abs(G).max() <= 1 + 1e-6
    np.testing.assert_allclose(G[W != 0], -np.sign(W[W != 0]), atol=1e-6)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    ("kind", "name"),
    [("Coordinates", "elastic_net"), ("Gram", "elastic_net"), ("Blocks", "groups")],
)
def test_sweeps_minimise_the_second_order_model(kind, name, several):
    X, y, _, weight, _ = drawn(5 if several else 6)
    Y = y.T == 1 if several else np.arange(y.max() + 1)[:, None] == y
    stop, rng = np.zeros(1, np.int32), np.random.default_rng(0)
    problem = FeatureProblem(X, Y, not several, weight, True, stop)
    term = bind(PENALTIES[name](), problem).scaled(0.2)
    alive = np.arange(8, dtype=np.int32)
    solver = NewtonSolver(problem)
    solver.columns, solver.W = alive, 0.1 * rng.normal(size=(8, Y.shape[0]))
    solver.b = rng.normal(size=Y.shape[0])
    solver.Z = np.ascontiguousarray((X @ solver.W + solver.b).T)
    solver.loss = problem.loss(solver.Z, solver.P)
    solver._choose(term, alive, problem.gradient(alive, solver.P))
    model = getattr(_newton_cd, kind)(solver, term)
    model.begin()
    values = [model.value()]
    for _ in range(5000):
        model.sweep(True)
        values.append(model.value())
        if values[-1] >= values[-2]:
            break
    assert (np.diff(values) <= 1e-9).all()

    here = model.vector()
    model.load(here)  # another route to the same numbers
    assert model.value() == pytest.approx(values[-1], abs=1e-9)
    for _ in range(30):
        model.load(here + 1e-3 * rng.normal(size=here.size))
        assert model.value() >= values[-1] - 1e-9
    model.load(here)
    change, db, D, curvature = model.moves()
    slope = model.slope(change)
    e = 1e-3

    def loss(step):
        return problem.loss(solver.Z + step * D)

    assert slope == pytest.approx((loss(e) - loss(-e)) / (2 * e), rel=1e-4)
    second = (loss(e) - 2 * loss(0) + loss(-e)) / e**2
    assert curvature == pytest.approx(second, rel=1e-3)
    scores = (X[:, solver.columns] @ change).T + db[:, None]
    np.testing.assert_allclose(D, scores, atol=1e-10)


def solved(model, X, y, weight=None):
    fitted = clone(model).fit(X, y, sample_weight=weight)
    return fitted.coef_.toarray(), fitted.intercept_, fitted.objective_[-1]


# Three classes: with four, two weights above 0 and two below may shift together.
SAMPLES = drawn(6)[:2]


@pytest.mark.parametrize("name", NEWTON)
def test_weights_are_repetitions(name):
    X, y = SAMPLES
    times = np.random.default_rng(0).integers(0, 4, size=y.size)
    times[:4] = 1
    model = StructuredLogisticRegression(PENALTIES[name](), tol=1e-11)
    weighted = solved(model, X, y, times)
    repeated = solved(model, np.repeat(X, times, axis=0), np.repeat(y, times))
    for a, b in zip(weighted, repeated):
        np.testing.assert_allclose(a, b, atol=1e-5)
    kept = times > 0
    absent = solved(model, X[kept], y[kept], times[kept])
    for a, b in zip(weighted, absent):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", NEWTON)
def test_orders_of_columns_and_classes_do_not_matter(name):
    X, y = SAMPLES
    penalty = PENALTIES[name]()
    model = StructuredLogisticRegression(penalty, tol=1e-11)
    coef, intercept, objective = solved(model, X, y)
    columns = np.random.default_rng(1).permutation(8)
    if name in ("groups", "weighted"):
        penalty.set_params(groups=np.asarray(penalty.groups)[columns])
        model = StructuredLogisticRegression(penalty, tol=1e-11)
    moved = solved(model, X[:, columns], y)
    np.testing.assert_allclose(moved[0], coef[:, columns], atol=1e-5)
    assert moved[2] == pytest.approx(objective, rel=1e-9)
    swapped = solved(
        StructuredLogisticRegression(PENALTIES[name](), tol=1e-11), X, 3 - y
    )
    np.testing.assert_allclose(swapped[0], coef[::-1], atol=1e-5)
    np.testing.assert_allclose(swapped[1], intercept[::-1], atol=1e-5)


@pytest.mark.parametrize("name", NEWTON)
@pytest.mark.parametrize("several", [False, True])
def test_screening_changes_nothing(monkeypatch, name, several):
    X, y, *_ = drawn(5 if several else 6)
    Y = y.T == 1 if several else np.arange(y.max() + 1)[:, None] == y
    X = np.hstack([X, 0.02 * np.random.default_rng(0).normal(size=(X.shape[0], 0))])
    problem = FeatureProblem(
        sp.csr_matrix(X), Y, not several, np.ones(X.shape[0]), True,
        np.zeros(1, np.int32),
    )  # fmt: skip
    term = bind(PENALTIES[name](), problem).scaled(1.5)
    on = NewtonSolver(problem).solve(term, 1e-9, 100, lambda *_: False)
    monkeypatch.setattr(type(term), "may_act", lambda *a: np.ones(a[2].size, bool))
    off = NewtonSolver(problem).solve(term, 1e-9, 100, lambda *_: False)
    assert off.n_alive == 8
    np.testing.assert_array_equal(on.columns, off.columns)
    np.testing.assert_allclose(on.W, off.W, rtol=1e-9, atol=1e-12)
    assert on.objective[-1] == pytest.approx(off.objective[-1], rel=1e-13)


def test_screening_proves_zeros():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 200)), rng.integers(3, size=60)
    model = StructuredLogisticRegression(C=0.12, tol=1e-8).fit(X, y)
    used = (model.coef_.toarray() != 0).any(axis=0).sum()
    assert 0 < used <= model.n_alive_ < 60


def test_the_gram_matrix_and_the_columns_agree(monkeypatch):
    X, y = load_digits(return_X_y=True)
    X, y = X[:200] / 16, y[:200]
    for outcomes in (y, np.eye(10, dtype=int)[y]):
        model = StructuredLogisticRegression(ElasticNet(0.1), C=0.5, tol=1e-9)
        by_gram = solved(model, X, outcomes)
        monkeypatch.setattr(_newton_cd, "_GRAM", 0)
        by_column = solved(model, X, outcomes)
        monkeypatch.undo()
        np.testing.assert_allclose(by_gram[0], by_column[0], atol=1e-3)
        assert by_gram[2] == pytest.approx(by_column[2], rel=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_the_gradient_of_columns_in_any_order(kind):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 4)), np.arange(20)[None, :] % 2 == 0
    weight, stop = rng.uniform(1, 2, 20), np.zeros(1, np.int32)
    problem = FeatureProblem(kind(X), Y, False, weight, True, stop)
    P = rng.uniform(size=(1, 20))
    for columns in ([0, 1, 2, 3], [2, 0, 3, 1], [3, 1]):
        G = problem.gradient(np.array(columns, dtype=np.int32), P)
        expected = X[:, columns].T @ (weight * (P - Y)).T
        np.testing.assert_allclose(G, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("n_classes", "sparse", "size"),
    [(10, False, 300), (12, False, 120), (12, True, 360)],
)
def test_many_classes_of_dense_samples_have_small_first_hessians(
    n_classes, sparse, size
):
    X = np.random.default_rng(0).normal(size=(240, 60))
    Y = np.arange(n_classes)[:, None] == np.arange(240) % n_classes
    stop = np.zeros(1, np.int32)
    problem = FeatureProblem(
        sp.csr_matrix(X) if sparse else X, Y, True, np.ones(240), True, stop
    )
    solver, every = NewtonSolver(problem), np.arange(60, dtype=np.int32)
    solver._choose(bind("l1", problem).scaled(1e-3), every, solver.gradient(every))
    assert np.count_nonzero(solver.work) == size


@pytest.mark.parametrize("several", [False, True])
def test_the_hessian_of_a_part_of_the_samples_is_near_that_of_all(several, monkeypatch):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(3000, 3)), rng.random((3, 3000)) < 0.5
    Y = Y if several else np.arange(3)[:, None] == Y.sum(axis=0) % 3
    weight = rng.uniform(1, 3, 3000)
    stop = np.zeros(1, np.int32)
    problem = FeatureProblem(X, Y, not several, weight, True, stop)
    solver = NewtonSolver(problem)
    term = bind("l1", problem).scaled(0.1)
    solver._choose(term, np.arange(3, dtype=np.int32), solver.gradient(np.arange(3)))
    model = _newton_cd.Gram(solver, term)
    part = model._hessian(12)
    model.rough = False
    whole = model._hessian(12)
    assert not np.array_equal(part, whole)
    assert np.linalg.norm(part - whole) < 0.3 * np.linalg.norm(whole)
    np.testing.assert_array_equal(whole, whole.T)
    # that of tall X is made in single precision
    monkeypatch.setattr(_newton_cd, "_ENOUGH", 3000)
    exact = model._hessian(12)
    assert 0 < np.abs(exact - whole).max() < 1e-5 * np.abs(exact).max()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("of_X, of_weight", [(1e20, 1), (1e-30, 1), (1, 1e40)])
def test_the_size_of_tall_samples_and_of_their_weights_does_not_matter(of_X, of_weight):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = rng.integers(3, size=2000) * (X[:, 0] > 0)
    model = StructuredLogisticRegression(tol=1e-8).fit(X, y)
    C = 1 / (of_X * of_weight)
    scaled = StructuredLogisticRegression(C=C, tol=1e-8)
    scaled.fit(of_X * X, y, np.full(2000, of_weight))
    loss = scaled.objective_[-1] / of_weight
    np.testing.assert_allclose(loss, model.objective_[-1], rtol=1e-7)


@pytest.mark.filterwarnings("error")
def test_a_part_of_tall_samples_has_those_of_large_weight():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 4)), np.arange(3000) > 9
    weight, few = np.full(3000, 1e-300), [5, 50]
    weight[few] = 1e10
    tall = StructuredLogisticRegression(C=1e-8, tol=1e-6).fit(X, y, weight)
    model = StructuredLogisticRegression(C=100.0, tol=1e-6).fit(X[few], y[few])
    np.testing.assert_allclose(1e-10 * tall.objective_[-1], model.objective_[-1], 1e-5)


@pytest.mark.parametrize("entries", ["next", "apart", "once"])
def test_columns_of_sparse_samples(entries):
    rng = np.random.default_rng(0)
    weight, stop = rng.uniform(1, 3, 30), np.zeros(1, np.int32)
    column = np.array([rng.permutation(7)[:4] for _ in range(30)])
    if entries != "once":
        # the last two of a row, or the first and the last, are in one column
        column[3, 3] = column[3, 2 if entries == "next" else 0]
    parts = rng.normal(size=120), column.ravel(), np.arange(0, 121, 4)
    X, before = sp.csr_matrix(parts, shape=(30, 8)), parts[0].copy()
    problem = FeatureProblem(X, np.ones((1, 30), bool), False, weight, True, stop)
    assert (problem.X is X) == (entries == "once")
    dense = X.toarray()
    np.testing.assert_allclose(problem.squares, weight @ dense**2, rtol=1e-13)
    np.testing.assert_array_equal(X.data, before)
    ptr, row, x = problem.columns
    np.testing.assert_allclose(
        sp.csc_matrix((x, row, ptr), shape=X.shape).toarray(), dense, rtol=1e-15
    )
    assert x.size == np.count_nonzero(dense)


def test_a_path_reads_columns_that_screening_left_out_before():
    X, y = make_classification(200, 40, n_informative=10, random_state=0)
    X = sp.csr_matrix(np.where(np.abs(X) > 0.5, X, 0))
    model = StructuredLogisticRegression(tol=1e-9)
    path = model.coef_path(X, y, Cs=[0.02, 0.05, 1.0])
    assert path.n_alive[0] < path.coefs[1].nnz < path.coefs[2].nnz
    for C, coef in zip(path.Cs, path.coefs):
        alone = clone(model).set_params(C=C).fit(X.toarray(), y)
        np.testing.assert_allclose(coef.toarray(), alone.coef_.toarray(), atol=1e-4)


@pytest.mark.parametrize("C", [1.0, 1e2, 1e4, 1e6, 1e8])
@pytest.mark.parametrize("seed", range(3))
def test_separable_samples(C, seed):
    # Other solvers of the multinomial l1 problem do not end on this problem.
    X, y = make_classification(
        20, 20, n_informative=10, n_redundant=0, n_classes=3, random_state=seed
    )
    model = StructuredLogisticRegression(C=C, tol=5e-9, max_iter=500).fit(X, y)
    assert model.gap_ <= 1e-7


def test_labels_separate_with_l1_and_share_features_with_groups():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 8))
    Y = (X[:, :1] + rng.normal(size=(80, 3)) > 0).astype(int)
    joint = StructuredLogisticRegression(C=0.1, tol=1e-10).fit(X, Y)
    for k in range(3):
        alone = StructuredLogisticRegression(C=0.1, tol=1e-10).fit(X, Y[:, k])
        np.testing.assert_allclose(
            joint.coef_.toarray()[k], alone.coef_.toarray()[0], atol=1e-4
        )
        np.testing.assert_allclose(joint.intercept_[k], alone.intercept_[0], atol=1e-4)
    shared = StructuredLogisticRegression("group_lasso", C=0.05).fit(X, Y)
    used = shared.coef_.toarray() != 0
    np.testing.assert_array_equal(used, used[:1].repeat(3, axis=0))
    assert 0 < used[0].sum() < 8
    sparse = StructuredLogisticRegression("group_lasso", C=0.05).fit(X, sp.csr_array(Y))
    assert sp.issparse(sparse.predict(X))
    np.testing.assert_array_equal(sparse.predict(X).toarray(), shared.predict(X))
    np.testing.assert_allclose(
        shared.predict_proba(X) > 0.5, shared.predict(X).astype(bool)
    )


def test_a_path_is_its_single_fits(iris):
    X, y = iris
    model = StructuredLogisticRegression(tol=1e-8)
    path = model.coef_path(X, y, Cs=6)
    assert path.coefs[0].nnz == 0
    for i, C in enumerate(path.Cs):
        one = clone(model).set_params(C=C).fit(X, y)
        assert (
            abs(one.objective_[-1] - path.objective[i])
            <= one.gap_ + path.gap[i] + 1e-10
        )
        np.testing.assert_allclose(
            one.coef_.toarray(), path.coefs[i].toarray(), atol=1e-2
        )
    assert path.Cs[0] * one.lam_max_ == pytest.approx(1)
    assert not hasattr(model, "coef_")
    given = model.coef_path(X, y, Cs=[3.0, 0.5])
    np.testing.assert_array_equal(given.Cs, [0.5, 3.0])


@pytest.mark.parametrize("name", [name for name in PENALTIES if name != "l2"])
def test_weights_enter_at_lam_max(name):
    X, y, _, weight, _ = drawn(3)
    model = StructuredLogisticRegression(PENALTIES[name](), tol=1e-8, max_iter=300)
    lam = model.fit(X, y, sample_weight=weight).lam_max_
    for factor, empty in ((1.001, True), (0.97, False)):
        model.set_params(C=1 / (factor * lam)).fit(X, y, sample_weight=weight)
        assert (model.coef_.nnz == 0) == empty


# ------------------------------------------------------------- cross-validation


def searched(tol=1e-4, **params):
    model = StructuredLogisticRegression(tol=tol)
    return StructuredLogisticRegressionCV(model, **params)


def test_a_search_that_fails_leaves_the_earlier_one():
    X, y = SAMPLES
    search = StructuredLogisticRegressionCV(StructuredLogisticRegression(), Cs=3, cv=2)
    before = vars(search.fit(X, y)).copy()

    def fails(model, X, y):
        raise RuntimeError("no score")

    with pytest.raises(RuntimeError, match="no score"):
        search.set_params(Cs=[1.0, 2.0], scoring=fails).fit(X, y)
    assert search.C_ == before["C_"]
    assert search.Cs_ is before["Cs_"] and search.scores_ is before["scores_"]


def test_cross_validation_is_paths_of_folds(iris):
    X, y = iris
    cv = KFold(3, shuffle=True, random_state=0)
    Cs = [0.05, 0.5, 5.0]
    model = searched(Cs=Cs, cv=cv, tol=1e-8).fit(X, y)
    for f, (train, test) in enumerate(cv.split(X)):
        for i, C in enumerate(Cs):
            one = StructuredLogisticRegression(C=C, tol=1e-8).fit(X[train], y[train])
            score = one.target_log_proba(X[test], y[test]).mean()
            assert model.scores_[f, i] == pytest.approx(score, abs=1e-5)
    assert model.C_ == Cs[model.scores_.mean(axis=0).argmax()]
    again = StructuredLogisticRegression(C=model.C_, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.coef_.toarray(), again.coef_.toarray(), atol=1e-9)


def test_given_folds_number_the_rows_of_weight_zero_too(iris):
    X, y = iris
    X, y = X[::2], y[::2]
    weight = np.arange(y.size) % 3 / 2.0
    used = np.flatnonzero(weight)
    number = np.arange(y.size) // 3 % 4
    settings = {"Cs": [0.1, 1.0], "tol": 1e-8}
    given = PredefinedSplit(number)
    model = searched(cv=given, **settings)
    model.fit(X, y, sample_weight=weight)
    absent = searched(cv=PredefinedSplit(number[used]), **settings)
    absent.fit(X[used], y[used], sample_weight=weight[used])
    np.testing.assert_allclose(model.scores_, absent.scores_, rtol=1e-9)
    listed = searched(cv=list(given.split()), **settings)
    listed.fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(listed.scores_, model.scores_)
    unseen = [(np.flatnonzero(weight), np.flatnonzero(weight == 0))]
    beyond = [(used, np.array([y.size]))]
    for cv, text in ((beyond, "^cv: a fold is not"), ([], "^cv has no folds")):
        with pytest.raises(ValueError, match=text):
            searched(cv=cv).fit(X, y)
    with pytest.raises(ValueError, match="^cv: a part of a fold has no sample"):
        searched(cv=unseen).fit(X, y, sample_weight=weight)


def test_one_standard_error_takes_the_smaller_model():
    X, y = make_classification(120, 30, n_informative=3, random_state=0)
    best = searched(Cs=8).fit(X, y)
    small = searched(Cs=8, one_standard_error=True).fit(X, y)
    np.testing.assert_array_equal(best.scores_, small.scores_)
    mean, n = small.scores_.mean(axis=0), 5
    least = mean.max() - small.scores_[:, mean.argmax()].std(ddof=1) / np.sqrt(n)
    assert small.C_ == small.Cs_[mean >= least][0] < best.C_
    assert small.coef_.nnz < best.coef_.nnz


@pytest.mark.parametrize("Cs", [2, 4])
def test_threads_do_not_change_scores(iris, Cs):
    X, y = iris
    one, two = (searched(Cs=Cs, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.scores_, two.scores_)
    np.testing.assert_array_equal(one.coef_.toarray(), two.coef_.toarray())


def test_scores_of_scoring_are_weighted(iris):
    X, y = iris
    weight = np.random.RandomState(0).randint(1, 5, y.size)
    fold = np.arange(y.size) % 3
    options = {"Cs": [0.01, 0.1, 1.0], "cv": PredefinedSplit(fold)}
    default = searched(**options).fit(X, y, weight)
    found = searched(scoring="neg_log_loss", **options).fit(X, y, weight)
    np.testing.assert_allclose(found.scores_, default.scores_, rtol=1e-9)
    options["cv"] = PredefinedSplit(np.repeat(fold, weight))
    repeated = searched(scoring="accuracy", **options)
    repeated.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    options["cv"] = PredefinedSplit(fold)
    found = searched(scoring="accuracy", **options).fit(X, y, weight)
    np.testing.assert_allclose(found.scores_, repeated.scores_, rtol=1e-12)
    with pytest.raises(ValueError, match="^scoring: the function must take sample_we"):
        searched(scoring=lambda model, X, y: 0.0, **options).fit(X, y, weight)


def test_a_splitter_of_groups_is_given_as_folds(iris):
    X, y = iris
    groups = np.arange(y.size) // 5
    with pytest.raises(ValueError, match=r"^cv: .*cv=list\(splitter"):
        searched(cv=GroupKFold(3)).fit(X, y)
    with pytest.raises(ValueError, match=r"^cv: Cannot have number(?!.*list)"):
        searched(cv=KFold(y.size + 1)).fit(X, y)
    searched(Cs=[1.0], cv=list(GroupKFold(3).split(X, y, groups))).fit(X, y)


def test_scoring_and_several_labels(iris):
    X, y = iris
    accuracy = searched(Cs=3, scoring="accuracy").fit(X, y)
    assert (accuracy.scores_ * 30 % 1 < 1e-9).all()
    Y = np.eye(3, dtype=int)[y]
    labels = searched(Cs=[1.0], cv=KFold(3, shuffle=True, random_state=0)).fit(X, Y)
    (train, test), *_ = KFold(3, shuffle=True, random_state=0).split(X)
    one = StructuredLogisticRegression().fit(X[train], Y[train])
    P = one.predict_proba(X[test])
    expected = np.log(np.where(Y[test] == 1, P, 1 - P)).sum(axis=1).mean()
    assert labels.scores_[0, 0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("no_score", [np.nan, -np.inf, np.inf])
@pytest.mark.parametrize("one_standard_error", [False, True])
def test_a_score_that_is_not_finite_is_not_the_best(no_score, one_standard_error):
    X, y = load_iris(return_X_y=True)
    calls = itertools.count()

    def middle(model, X, y):
        return 1.0 if next(calls) % 3 == 1 else no_score

    options = {"Cs": [0.1, 1.0, 10.0], "cv": 2}
    options["one_standard_error"] = one_standard_error
    assert searched(scoring=middle, **options).fit(X, y).C_ == 1.0
    with pytest.raises(ValueError, match="^scoring: the mean score of no C is finite"):
        searched(scoring=lambda *_: no_score, **options).fit(X, y)


def test_a_fold_without_a_known_class_is_named():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="^cv: the test samples of fold 0 have no cl"):
        searched(cv=KFold(3)).fit(X, y)


# -------------------------------------------------------------------- penalties


def test_a_user_penalty_is_the_group_lasso():
    X, y = SAMPLES
    ours = StructuredLogisticRegression("group_lasso", tol=1e-10).fit(X, y)
    theirs = StructuredLogisticRegression(RowNorms(), tol=1e-8, max_iter=500).fit(X, y)
    np.testing.assert_allclose(ours.coef_.toarray(), theirs.coef_.toarray(), atol=1e-4)
    assert ours.lam_max_ == pytest.approx(theirs.lam_max_, rel=1e-8)


def test_a_user_penalty_that_is_not_a_norm_gives_its_conjugate():
    class Ridge:
        def value(self, W):
            return 0.5 * (W**2).sum()

        def prox(self, W, kappa):
            return W / (1 + kappa)

        def conjugate(self, V):
            return 0.5 * (V**2).sum()

    X, y = SAMPLES
    theirs = StructuredLogisticRegression(Ridge(), tol=1e-8, max_iter=500).fit(X, y)
    ours = StructuredLogisticRegression(L2(), tol=1e-10).fit(X, y)
    assert ours.objective_[-1] == pytest.approx(
        theirs.objective_[-1], abs=2 * theirs.gap_
    )
    assert theirs.lam_max_ == np.inf


def test_penalties_are_shared_with_language_models_and_searched():
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(
        StructuredLogisticRegression(ElasticNet()), {"penalty__gamma": [0.1, 1.0]}, cv=2
    ).fit(X, y)
    assert search.best_estimator_.penalty.gamma in (0.1, 1.0)
    assert StructuredLogLinearLM(2, penalty=search.best_estimator_.penalty)
    tree = StructuredLogisticRegression(TreeNorm([-1, 0, 0, -1], norm="l2"))
    copy = clone(tree).set_params(penalty__depth_weight=0.5)
    assert copy.penalty.depth_weight == 0.5 and tree.penalty.depth_weight == 1.0
    restored = pickle.loads(pickle.dumps(tree.fit(X, y)))
    np.testing.assert_array_equal(restored.predict(X), tree.predict(X))
    with pytest.raises(ValueError, match="penalty: TreeL2 is for context trees"):
        StructuredLogisticRegression(TreeL2()).fit(X, y)
    with pytest.raises(ValueError, match="factors for counts or depths"):
        StructuredLogisticRegression(L1([1.0, 2.0])).fit(X, y)
    with pytest.raises(ValueError, match="factors for counts or depths"):
        StructuredLogisticRegression(ElasticNet([1.0, 2.0])).fit(X, y)
    with pytest.raises(ValueError, match="factors for counts or depths"):
        StructuredLogisticRegression(L1(depth_weight=[0.0, 1.0])).fit(X, y)


def test_a_tree_takes_features_with_those_above_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 8))
    y = (X[:, 3] + X[:, 1] + 0.3 * rng.normal(size=100) > 0).astype(int)
    for norm in ("linf", "l2"):
        model = StructuredLogisticRegression(
            TreeNorm(PARENTS, norm=norm), C=0.1, max_iter=500
        ).fit(X, y)
        used = model.coef_.toarray()[0] != 0
        assert used[3] and used[1] and used[0] and not used.all()
        for j, parent in enumerate(PARENTS):
            assert parent < 0 or not used[j] or used[parent]


def test_value_and_prox_of_a_tree():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(2, 8))
    for norm in ("linf", "l2"):
        tree = TreeNorm(PARENTS, norm=norm, depth_weight=0.5)
        U = tree.prox(W, 0.3)

        def of(V, tree=tree):
            return 0.5 * ((V - W) ** 2).sum() + 0.3 * tree.value(V)

        for _ in range(50):
            assert of(U) <= of(U + 1e-3 * rng.normal(size=W.shape)) + 1e-12
        both = sum(tree.value(row[None, :]) for row in W)
        assert tree.value(W) == pytest.approx(both)


def test_a_gauge_of_one_and_rounding_ends():
    """The bisection has no number between its ends."""
    for size in (1.0, 1 + 1e-16, 1 + 3e-16, 1 + 1e-15, 1 + 1e-13):
        term = ProximalTerm(RowNorms(), 1.0)
        (share, conjugate), *_ = term.duals(np.array([[size]]), np.zeros((1, 1)), 1.0)
        assert 1 - 2e-12 <= share[0] * size <= 1 + 1e-15 and conjugate == 0


def test_parents_of_ngrams():
    text = ["a b c", "b c a", "a b"]
    words = CountVectorizer(ngram_range=(1, 3), token_pattern=r"\w").fit(text)
    names = words.get_feature_names_out().tolist()
    for drop, cut in (("last", slice(None, -1)), ("first", slice(1, None))):
        for name, parent in zip(names, ngram_parents(words, drop)):
            above = " ".join(name.split()[cut])
            assert (names[parent] if parent >= 0 else "") == above
    characters = CountVectorizer(analyzer="char", ngram_range=(1, 3)).fit(text)
    names = characters.get_feature_names_out().tolist()
    for name, parent in zip(names, ngram_parents(characters)):
        assert (names[parent] if parent >= 0 else "") == name[:-1]
    # a parent that is not a column: the next above it
    gap = CountVectorizer(vocabulary=["a", "a b c"]).fit(text)
    assert ngram_parents(gap).tolist() == [-1, 0]
    contexts = SuffixTreeVectorizer(max_depth=2).fit([["a", "b"], ["b", "b"]])
    np.testing.assert_array_equal(
        ngram_parents(contexts, "first"), contexts.tree_.parent
    )
    with pytest.raises(ValueError, match="drop must be"):
        ngram_parents(contexts)
    with pytest.raises(ValueError, match="drop must be"):
        ngram_parents(words, "middle")
    with pytest.raises(ValueError, match="analyzer"):
        ngram_parents(CountVectorizer(analyzer=str.split).fit(text))


def test_groups_of_a_series_are_in_its_order():
    X, y = SAMPLES
    groups = pd.Series(list("aabbbcdd"), index=list("ABCDEFGH"))
    coef = [
        StructuredLogisticRegression(GroupLasso(given)).fit(X, y).coef_.toarray()
        for given in (groups, groups.tolist())
    ]
    np.testing.assert_array_equal(*coef)


# -------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([0, 0, 1], "a label for each of the 8 columns"),
        ([[0, 1, 2], [3, 4, 5, 6]], "leave out column 7"),
        (
            [[0, 1, 2, 3], [4, 5, 6, 7, 4]],
            r"groups\[1\] holds 4 twice: give each column of X once",
        ),
        ([[0, 1, 2, 3], [4, 5, 6, 8]], r"groups\[1\]\[3\] = 8 is not a column of X"),
        ([[0, 1, 2, 3, 4, 5, 6, 7], []], r"groups\[1\] is empty"),
        ([0, 0, 1, 1, 2, 2, 3, np.nan], "no label for column 7"),
        ([*"aabbaa", np.nan, "b"], "no label for column 6: nan"),
        (pd.Series([*"aabbaa", np.nan, "b"]), "no label for column 6: nan"),
        ([*"aabbaa", None, "b"], "no label for column 6: None"),
        (np.array([2020] * 7 + ["NaT"], dtype="M8[Y]"), "no label for column 7"),
        ([*"aabbaa", 1, "b"], "groups: labels must be all strings or all numbers"),
        ([{1}, {2}] * 4, "groups: labels .* must be hashable"),
        ({"a": [0, 1, 2, 3], "b": [4, 5, 6, 7]}, "a label for each of the 8 columns"),
    ],
)
def test_groups_that_do_not_fit(groups, words):
    X, y = SAMPLES
    with pytest.raises(ValueError, match=words):
        StructuredLogisticRegression(GroupLasso(groups)).fit(X, y)


@pytest.mark.parametrize(
    "weights", [[1.0], [1.0, -1.0], [1.0, 0.0], [1.0, np.inf], "x"]
)
def test_weights_of_groups_that_do_not_fit(weights):
    X, y = SAMPLES
    with pytest.raises(ValueError, match="weights"):
        StructuredLogisticRegression(GroupLasso([0] * 4 + [1] * 4, weights)).fit(X, y)


@pytest.mark.parametrize(
    ("parents", "words"),
    [
        ([-1, 0, 1], r"parents must have 8 entries \(one per column of X\), got 3"),
        ([-1, 0, 1, 4, 5, 3, 0, 0], "the first of them 3, lie on a cycle"),
        ([-1, 0, 1, 8, 0, 0, 0, 0], r"parents must hold .* got parents\[3\] = 8"),
        ([-1, 0, 1, -2, 0, 0, 0, 0], r"parents must hold .* got parents\[3\] = -2"),
        ([1, 0, -1, -1, -1, -1, -1, 7], "the first of them 0, lie on a cycle"),
        ([-1.0] * 8, "parents must hold integers"),
    ],
)
def test_parents_that_are_not_a_forest(parents, words):
    X, y = SAMPLES
    with pytest.raises(ValueError, match=words):
        StructuredLogisticRegression(TreeNorm(parents)).fit(X, y)


def test_trees_that_do_not_fit():
    chain = TreeNorm(range(-1, 7), depth_weight=1e40)
    with pytest.raises(ValueError, match=r"depth_weight=1e\+40 to the power .*, 7,"):
        StructuredLogisticRegression(chain).fit(*SAMPLES)
    tree = TreeNorm([-1, 0])
    for method in (tree.value, partial(tree.prox, kappa=1.0)):
        for W in ([1.0, 2.0], [["a", "b"]]):
            with pytest.raises(ValueError, match="^W must"):
                method(W)


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 0.0},
        {"C": -1.0},
        {"C": np.inf},
        {"C": np.nan},
        {"tol": 0.0},
        {"penalty": "lasso"},
        {"penalty": object()},
        {"penalty": GroupLasso},
        {"max_iter": 0},
        {"class_weight": {0: -1.0}},
        {"class_weight": {0: "a"}},
        {"class_weight": {0: 1j}},
    ],
)
def test_parameters_out_of_range(parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        StructuredLogisticRegression(**parameters).fit(*SAMPLES)


def test_samples_that_cannot_be_used():
    X, y = SAMPLES
    model = StructuredLogisticRegression()
    for bad in (np.nan, np.inf):
        broken = X.copy()
        broken[1, 1] = bad
        with pytest.raises(ValueError, match="X contains"):
            model.fit(broken, y)
    with pytest.raises(ValueError, match="Negative values"):
        model.fit(X, y, sample_weight=-np.ones(y.size))
    with pytest.raises(ValueError, match="at least one non-zero"):
        model.fit(X, y, sample_weight=np.zeros(y.size))
    for method in (model.fit, model.fit(X, y).score):
        with pytest.raises(ValueError, match="squares overflow"):
            method(X * 1e160, y)
    with pytest.raises(ValueError, match="Cs must be positive"):
        model.coef_path(X, y, Cs=[1.0, 0.0])
    with pytest.raises(ValueError, match="Cs must be an array"):
        StructuredLogisticRegression(L2()).coef_path(X, y)
    with pytest.raises(ValueError, match="y has one class"):
        model.coef_path(X, np.zeros(y.size))


def test_a_fit_that_does_not_fit_into_memory_is_refused():
    X = sp.csr_matrix(([1.0, 1.0], ([0, 1], [0, 10**9])), shape=(200, 10**9 + 1))
    with pytest.raises(MemoryError, match="200 samples of 1000000001 features"):
        StructuredLogisticRegression().fit(X, np.arange(200))


def test_odd_columns():
    X, y = SAMPLES
    plain = StructuredLogisticRegression(tol=1e-10).fit(X, y)
    n = y.size
    odd = np.column_stack([X, np.zeros(n), np.full(n, 3.0), 1e-150 * X[:, 1], X[:, 0]])
    with pytest.warns(UserWarning, match="Scale the columns"):
        model = StructuredLogisticRegression(tol=1e-10).fit(odd, y)
    coef = model.coef_.toarray()
    assert not coef[:, 8:11].any()
    assert model.objective_[-1] == pytest.approx(plain.objective_[-1], rel=1e-9)
    together = coef[:, 0] + coef[:, 11]  # how two equal columns share is open
    np.testing.assert_allclose(together, plain.coef_.toarray()[:, 0], atol=1e-5)
    for size in (1e15, 1e-15):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for penalty in ("l1", "elastic_net", "group_lasso"):
                scaled = np.column_stack([X, size * X[:, 1]])
                model = StructuredLogisticRegression(penalty).fit(scaled, y)
                assert np.isfinite(model.coef_.data).all()
                assert np.isfinite(model.predict_proba(scaled)).all()
                assert model.gap_ >= 0


def test_one_class_fewer_samples_than_classes_and_certain_labels():
    X, y = SAMPLES
    one = StructuredLogisticRegression().fit(X, np.full(y.size, "a"))
    assert one.gap_ == 0 and one.coef_.nnz == 0
    np.testing.assert_array_equal(one.predict(X), np.full(y.size, "a"))
    np.testing.assert_array_equal(one.predict_proba(X), np.ones((y.size, 1)))
    few = StructuredLogisticRegression().fit(X[:3], ["a", "b", "c"])
    assert few.gap_ <= 3e-4
    labels = np.column_stack([y == 0, np.ones(y.size)]).astype(int)
    sure = StructuredLogisticRegression().fit(X, labels)
    assert (sure.predict_proba(X)[:, 1] > 1 - 1e-12).all()
    assert sure.gap_ <= 1e-4 * y.size
    weight = np.where(y == 2, 0.0, 1.0)
    gone = StructuredLogisticRegression().fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(gone.classes_, [0, 1])


@pytest.mark.parametrize(
    "container", [sp.csr_array, sp.csc_matrix, sp.coo_array, np.float32, np.int64]
)
def test_kinds_of_X(container):
    X, y = SAMPLES
    X = np.rint(X)
    given = X.astype(container) if container in (np.float32, np.int64) else container(X)
    if container is sp.csr_array:
        given.indices, given.indptr = (
            given.indices.astype(np.int64), given.indptr.astype(np.int64),
        )  # fmt: skip
    plain = StructuredLogisticRegression(tol=1e-9).fit(X, y)
    model = StructuredLogisticRegression(tol=1e-9).fit(given, y)
    np.testing.assert_allclose(model.coef_.toarray(), plain.coef_.toarray(), atol=1e-6)


def test_too_few_rounds_warn_with_the_gap():
    X, y = SAMPLES
    for penalty in ("l1", TreeNorm(PARENTS)):
        model = StructuredLogisticRegression(penalty, C=10.0, max_iter=1, tol=1e-9)
        with pytest.warns(ConvergenceWarning, match="nats per sample") as found:
            model.fit(X, y)
        assert f"{model.gap_ / y.size:.2g} nats" in str(found[0].message)
        assert model.n_iter_ == 1


def test_an_operator_of_the_wrong_shape_is_an_error():
    class Wrong(RowNorms):
        def prox(self, W, kappa):
            return W.T

    with pytest.raises(ValueError, match="penalty: the method prox must return"):
        StructuredLogisticRegression(Wrong()).fit(*SAMPLES)


def test_ctrl_c_ends_a_fit(interrupt):
    rng = np.random.default_rng(0)
    column, at = rng.integers(3000, size=450_000), np.arange(3001) * 150
    X = sp.csr_array((rng.random(450_000), column, at), shape=(3000, 3000))
    for penalty in ("l1", "group_lasso", GroupLasso([[0, 1], range(1, 3000)])):
        model = StructuredLogisticRegression(penalty, C=1e4, tol=1e-12)
        interrupt()
        start = time.process_time()
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, rng.integers(40, size=3000))
        assert time.process_time() - start < 3.0


@pytest.mark.slow
def test_newsgroups_do_not_stall():
    """Without damping the line search never ends at this strength."""
    if not DATA:
        pytest.skip("SKLSTRUCT_DATA is not set")
    path = Path(DATA) / "text-classes" / "20news-bydate-train.tsv.gz"
    if not path.is_file():
        pytest.skip("SKLSTRUCT_DATA holds no text-classes")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t", 2) for line in lines][::3]
    X = TfidfVectorizer().fit_transform([row[2] for row in rows])
    y = [row[0] for row in rows]
    for C in (1.0, 10.0):
        model = StructuredLogisticRegression(C=C).fit(X, y)
        assert model.gap_ <= 1e-4 * len(y)
        assert model.n_iter_ < 30
    screened = model.coef_.toarray().any(axis=0).sum()
    assert screened <= model.n_alive_ < X.shape[1]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("penalty", ["l1", ElasticNet(), GroupLasso()])
def test_columns_far_from_0_are_those_near_0(penalty, n_classes):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((400, 4))
    y = (X @ rng.standard_normal((4, n_classes))).argmax(axis=1)
    moved = X + [1000.0, 0.0, -3e4, 0.5]
    near, far = (
        StructuredLogisticRegression(penalty, C=0.3, tol=1e-7).fit(part, y)
        for part in (X, moved)
    )
    assert far.n_iter_ < near.n_iter_ + 5
    assert far.objective_[-1] == pytest.approx(near.objective_[-1], rel=1e-6)
    np.testing.assert_allclose(
        far.predict_proba(moved), near.predict_proba(X), atol=1e-3
    )
    path = StructuredLogisticRegression(penalty, tol=1e-7).coef_path(moved, y, Cs=[0.3])
    np.testing.assert_allclose(path.intercepts[0], far.intercept_, rtol=1e-3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("constant", [0.1, 1 / 3, -123.456])
def test_a_constant_column_has_no_weight_and_no_warning(constant):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((200, 3))
    y = (X[:, 0] > 0).astype(int)
    weight = rng.uniform(0.5, 2.0, 200)
    wide = np.column_stack([np.full(200, constant), X])
    model = StructuredLogisticRegression().fit(wide, y, weight)
    assert model.coef_[:, [0]].nnz == 0
    alone = StructuredLogisticRegression().fit(X, y, weight)
    np.testing.assert_allclose(model.coef_[:, 1:].toarray(), alone.coef_.toarray())
    np.testing.assert_allclose(model.intercept_, alone.intercept_)
