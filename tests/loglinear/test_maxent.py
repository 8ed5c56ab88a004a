"""Iterative scaling, coordinate descent and quasi-Newton solvers.

Their optimum is that of `DiagonalSolver`, and optimal by a dense softmax written out
over samples and classes; their updates are those of their definitions.
"""

import numpy as np
import pytest
from _cases import all_pairs
from _loglinear import loglinear
from _toy_problems import N_CLASSES, make_pairs, make_problem, samples
from scipy.optimize import minimize, minimize_scalar
from sklearn.exceptions import ConvergenceWarning

from sklstruct import StructuredLogLinearLM
from sklstruct.loglinear import (
    L1,
    L2,
    CoordinateDescentSolver,
    DiagonalSolver,
    ElasticNet,
    GISSolver,
    IISSolver,
    LBFGSSolver,
    SCISSolver,
    TreeL2,
    TreeLinf,
    _problem,
)
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._problem import Problem
from sklstruct.loglinear._solvers import SOLVERS, Job, _base, _coordinate
from sklstruct.loglinear._solvers._coordinate import _Columns
from sklstruct.loglinear._start import kneser_ney_weights

NEW = ["lbfgs", "gis", "iis", "scis", "cd"]
MONOTONE = [GISSolver, IISSolver, SCISSolver, CoordinateDescentSolver]
PENALTIES = [L1(), L2(), ElasticNet(gamma=0.7), TreeL2(), TreeLinf()]
SEPARABLE = PENALTIES[:3]


def fits(name, penalty, positive=True):
    return SOLVERS[name]().fits(penalty, positive)


def solve(solver, problem, penalty, start=None):
    loss, bound = LogLinearLoss(problem), penalty.bind(problem)
    w = np.zeros(problem.n_pairs) if start is None else start.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        return solver.solve(Job(loss, bound), w)


class Dense:
    """The loss of a toy problem over samples and classes, features written out."""

    def __init__(self, seed, m, beta, strength, positive=True):
        pairs, count, terminal, target, weight = make_pairs(seed, m)
        self.problem = Problem(pairs, count, beta, strength, positive=positive)
        level = pairs.tree.levels()
        self.depth = level[pairs.nodes()]
        self.beta = np.asarray(beta)[self.depth]
        self.features = np.zeros((terminal.size, N_CLASSES, pairs.n_pairs))
        self.last = np.full((terminal.size, N_CLASSES), -1)  # depth of the deepest pair
        for i, node in enumerate(terminal):
            while node >= 0:
                for p in range(pairs.ptr[node], pairs.ptr[node + 1]):
                    self.features[i, pairs.target[p], p] = self.beta[p]
                    self.last[i, pairs.target[p]] = max(
                        self.last[i, pairs.target[p]], level[node]
                    )
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

    def expected(self, w):
        """E of each pair by the depth of the deepest pair of its class."""
        p = self.weight[:, None] * self.proba(w)
        active = self.features > 0
        return np.stack(
            [
                np.einsum("iv,ivp->p", np.where(self.last == k, p, 0.0), active)
                for k in range(self.depth.max() + 1)
            ],
            axis=1,
        )


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


# ---------------------------------------------------------------------- optima


def pairs_that_fit(penalties, signs=(True, False)):
    return pytest.mark.parametrize(
        "name, penalty, positive",
        [
            pytest.param(name, penalty, positive, id=f"{name}-{penalty!r}-{positive}")
            for name in NEW
            for penalty in penalties
            for positive in signs
            if fits(name, penalty, positive)
        ],
    )


@pairs_that_fit(PENALTIES)
def test_all_reach_the_optimum(name, penalty, positive):
    for m, seed, collapse in ((3, 0, False), (0, 1, False), (5, 2, True)):
        if collapse and not penalty.collapsible:
            continue
        problem = make_problem(
            m, seed, positive=positive, depth_weight=1.1, collapse=collapse
        )
        reference = solve(DiagonalSolver(tol=1e-8, max_iter=100_000), problem, penalty)
        solver = SOLVERS[name](tol=1e-6, max_iter=20_000)
        for start in (None, kneser_ney_weights(problem, 1.0)):
            r = solve(solver, problem, penalty, start)
            assert r.status == "converged" and r.optimality <= 1e-6
            assert r.objective == pytest.approx(reference.objective, rel=1e-8)
            assert (np.diff(r.history) <= 0).all()
            value = LogLinearLoss(problem).value(r.w) + penalty.bind(problem).value(r.w)
            assert value == pytest.approx(r.objective, rel=1e-12)
            if positive:
                assert (r.w >= 0).all()


@pairs_that_fit(SEPARABLE)
def test_optimal_by_a_dense_softmax(name, penalty, positive):
    dense = Dense(4, 2, [1.0, 0.8, 0.6], [0.3, 0.4, 0.5], positive)
    r = solve(SOLVERS[name](tol=1e-9, max_iter=50_000), dense.problem, penalty)
    assert residual(dense, penalty, r.w) < 1e-6
    assert dense.loss(r.w) + penalty.bind(dense.problem).value(r.w) == pytest.approx(
        r.objective, rel=1e-12
    )


def test_l2_equals_a_dense_fit_of_scipy():
    dense = Dense(5, 2, [1.0, 0.8, 0.6], [0.3, 0.4, 0.5], positive=False)
    strength = dense.problem.strength_by_depth[dense.depth]
    free = dense.problem.count > 0

    def function(w):
        g = dense.gradient(w) + strength * w
        return dense.loss(w) + 0.5 * strength @ w**2, np.where(free, g, 0.0)

    peer = minimize(function, np.zeros(free.size), jac=True, method="BFGS")
    for name in NEW:
        r = solve(SOLVERS[name](tol=1e-7, max_iter=20_000), dense.problem, L2())
        assert r.objective == pytest.approx(peer.fun, rel=1e-9)
        np.testing.assert_allclose(r.w, peer.x, atol=1e-3)


# --------------------------------------------------------------------- updates


@pytest.mark.parametrize(
    *all_pairs(positive=[True, False], penalty=SEPARABLE, kind=MONOTONE)
)
def test_the_objective_falls_at_every_iteration(kind, penalty, positive, monkeypatch):
    seen, update = [], _base.Best.update

    def spy(self, objective, *args):
        seen.append(objective)
        update(self, objective, *args)

    monkeypatch.setattr(_base.Best, "update", spy)
    for lam, scale in ((0.4, 1.0), (0.01, 1.0), (3.0, 1.0), (0.4, 1e3)):
        problem = make_problem(4, positive=positive, lam=lam)
        wild = scale * 0.01 * np.random.default_rng(0).normal(size=problem.n_pairs)
        wild = np.where(problem.count > 0, np.abs(wild) if positive else wild, 0.0)
        for start in (None, wild):
            seen.clear()
            solve(kind(tol=0.0, max_iter=30), problem, penalty, start)
            assert np.isfinite(seen).all()
            assert (np.diff(seen) <= 1e-12 * np.abs(seen[:-1])).all()


@pytest.mark.parametrize("penalty", SEPARABLE, ids=repr)
def test_updates_of_scaling_are_the_minima_of_their_bounds(penalty):
    # GIS and IIS from dense expected counts, one weight at a time by bounded search.
    beta, strength = [1.0, 0.8, 0.6], [0.3, 0.4, 0.5]
    dense = Dense(6, 2, beta, strength)
    start = 0.3 * np.random.default_rng(1).random(dense.problem.n_pairs)
    start[dense.problem.count == 0] = 0.0
    expected, count = dense.expected(start), dense.problem.count
    l1, l2 = penalty.ratios()
    # Iterates before they are chosen from: one bad step of the bound is seen as well.
    for kind, rates in (
        (GISSolver, np.full(3, np.sum(beta))),
        (IISSolver, np.cumsum(beta)),
    ):
        r = solve(kind(tol=0.0, max_iter=2), dense.problem, penalty, start)
        for p in np.flatnonzero(count > 0):
            s = strength[dense.depth[p]]

            def bound(u, p=p, s=s, rates=rates):
                d = u - start[p]
                e = dense.beta[p] * expected[p] / rates * np.exp(rates * d)
                linear = dense.beta[p] * count[p] * d
                return e.sum() - linear + s * (l1 * u + 0.5 * l2 * u**2)

            best = minimize_scalar(
                bound, bounds=(0.0, 9.0), method="bounded", options={"xatol": 1e-10}
            ).x
            assert r.w[p] == pytest.approx(best, abs=1e-5)


def test_scaling_without_a_penalty_has_the_updates_of_the_textbook():
    beta = [1.0, 0.8, 0.6]
    dense = Dense(7, 2, beta, [0.0, 0.0, 0.0], positive=False)
    count, seen = dense.problem.count, dense.problem.count > 0
    start = 0.1 * np.random.default_rng(2).random(seen.size) * seen
    expected = dense.expected(start).sum(axis=1)
    r = solve(GISSolver(tol=0.0, max_iter=2), dense.problem, L2(), start)
    by_hand = np.log(count[seen] / expected[seen]) / np.sum(beta)
    np.testing.assert_allclose((r.w - start)[seen], by_hand, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    *all_pairs(
        positive=[True, False],
        penalty=SEPARABLE,
        kind=[SCISSolver, CoordinateDescentSolver],
    )
)
def test_a_sweep_updates_one_weight_after_the_other(kind, penalty, positive):
    # A literal twin: the softmax of all samples anew for every weight.
    strength = np.array([0.3, 0.4, 0.5])
    dense = Dense(8, 2, [1.0, 0.8, 0.6], strength, positive)
    problem, (l1, l2) = dense.problem, penalty.ratios()
    w = 0.2 * np.random.default_rng(3).random(problem.n_pairs) * (problem.count > 0)
    expected = w.copy()
    order = _Columns(LogLinearLoss(problem), penalty.bind(problem), False).order
    assert np.array_equal(np.sort(order), np.arange(problem.n_pairs))
    for p in order:
        b, c, s = dense.beta[p], problem.count[p], strength[dense.depth[p]]
        if c == 0.0:
            continue
        share = dense.proba(expected)[:, problem.pairs.target[p]]
        here = dense.weight * (dense.features[:, :, p].max(axis=1) > 0)
        E, h = here @ share, b**2 * here @ (share * (1.0 - share))
        at = expected[p]

        def bound(u, b=b, c=c, s=s, E=E, h=h, at=at):
            d = u - at
            if kind is SCISSolver:
                loss = E * np.exp(b * d) - b * c * d
            else:
                x = b * abs(d)
                loss = b * (E - c) * d + h / b**2 * (np.exp(x) - 1.0 - x)
            return loss + s * (l1 * abs(u) + 0.5 * l2 * u**2)

        low = 0.0 if positive else -9.0
        at_kink = minimize_scalar(
            bound, bounds=(low, 9.0), method="bounded", options={"xatol": 1e-10}
        )
        expected[p] = at_kink.x if at_kink.fun < bound(0.0) else 0.0
    r = solve(kind(tol=0.0, max_iter=2), problem, penalty, w)
    np.testing.assert_allclose(r.w, expected, atol=1e-5)


def test_contexts_of_a_feature_are_a_range_of_the_walk():
    for collapse in (False, True):
        problem = make_problem(5, seed=3, collapse=collapse)
        columns = _Columns(LogLinearLoss(problem), L2().bind(problem), False)
        node = problem.pairs.nodes()[columns.order]
        for p, (lo, hi) in enumerate(columns.span):
            below = set()
            for x, end in enumerate(columns.ends):
                while end >= 0 and end != node[p]:
                    end = problem.parent[end]
                if end >= 0:
                    below.add(x)
            assert below == set(range(lo, hi))
        assert (np.diff(problem.pairs.target[columns.order]) >= 0).all()


def test_slices_of_a_sweep_do_not_matter(monkeypatch):
    problem = make_problem(4, n=300)
    whole = solve(SCISSolver(tol=0.0, max_iter=4), problem, L2())
    monkeypatch.setattr(_coordinate, "SLICE", 50)
    assert len(_Columns(LogLinearLoss(problem), L2().bind(problem), False).slices) > 1
    cut = solve(SCISSolver(tol=0.0, max_iter=4), problem, L2())
    assert np.array_equal(whole.w, cut.w)


# ------------------------------------------------------------------- estimator


def windows(seed=0, n=400):
    X, y, weight = samples(seed, n=n)
    return X[:, -3:], y, weight


@pytest.mark.parametrize("name", NEW)
def test_by_name_and_by_object(name):
    X, y, weight = windows()
    params = {"penalty": "l2", "lam": 0.4, "alpha": 0.8, "tol": 1e-5}
    a = loglinear(solver=name, max_iter=5000, **params)
    b = loglinear(solver=SOLVERS[name](1e-5, 5000), **params)
    c = loglinear(solver="diagonal", max_iter=5000, **params)
    a, b, c = (model.fit(X, y, weight) for model in (a, b, c))
    assert np.array_equal(a.coef_, b.coef_) and a.optimality_ <= 1e-5
    assert a.objective_[-1] == pytest.approx(c.objective_[-1], rel=1e-8)
    np.testing.assert_allclose(a.predict_proba(X), c.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize(
    "solver, penalty, positive, words",
    [
        ("gis", "tree_l2", True, "BoundTreeL2 has no separable"),
        ("iis", "tree_linf", True, "BoundTreeLinf has no separable"),
        ("scis", "tree_l2", True, "has no separable"),
        ("cd", "tree_linf", False, "has no separable"),
        ("lbfgs", "tree_l2", True, "BoundTreeL2 has no gradient"),
        ("lbfgs", "l1", False, "differentiable"),
        ("lbfgs", ElasticNet(), False, "differentiable"),
    ],
)
def test_pairs_that_do_not_fit(solver, penalty, positive, words):
    model = StructuredLogLinearLM(solver=solver, penalty=penalty, positive=positive)
    with pytest.raises(ValueError, match=words):
        model.fit("nonsense", None)


def test_parameters_of_solvers():
    X, y, _ = windows(n=20)
    for solver in (
        LBFGSSolver(tol="x"),
        LBFGSSolver(gap_tol=-1.0),
        GISSolver(max_iter=0),
    ):
        with pytest.raises(ValueError, match="parameter of"):
            StructuredLogLinearLM(penalty="l2", solver=solver).fit(X, y)


@pairs_that_fit(PENALTIES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_degenerate_data(name, penalty, positive):
    model = loglinear(
        penalty=penalty, solver=name, positive=positive, lam=0.3, alpha=0.9,
        max_iter=200,
    )  # fmt: skip
    one_class = model.fit([[0, 1], [1, 1], [0, 0]], ["a", "a", "a"])
    assert one_class.predict_proba([[0, 1], [5, 5]]).tolist() == [[1.0], [1.0]]
    one_sample = model.fit([[0, 1]], ["a"])
    assert one_sample.predict([[0, 1]]).tolist() == ["a"]
    one_context = model.fit([[0]] * 4, [0, 1, 1, 2])
    assert one_context.predict([[0]]).tolist() == [1]
    unigram = model.set_params(max_depth=0).fit([[0]] * 4, [0, 1, 1, 2])
    assert unigram.predict([[5]]).tolist() == [1]
    model.set_params(max_depth=None)
    X, y, weight = windows(n=60)
    for factor in (1e-12, 1e12):
        proba = model.fit(X, y, factor * weight).predict_proba(X)
        assert np.isfinite(proba).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    zero = model.fit(X, y, np.arange(60) % 2)
    assert np.isfinite(zero.coef_).all()
    unseen = model.set_params(classes=[0, 1, 2, 3, 7]).fit(X, y)
    assert unseen.coef_[4] == 0.0 and np.isfinite(unseen.predict_proba(X)).all()
    for lam in (0.0, 1e9):
        model = loglinear(
            penalty=penalty, solver=name, positive=positive, lam=lam, alpha=0.9,
            max_iter=50,
        ).fit(X, y)  # fmt: skip
        assert np.isfinite(model.predict_proba(X)).all()
    with pytest.raises(ValueError):
        model.fit(np.empty((0, 2)), [])


def test_a_tolerance_below_rounding_stalls_and_warns():
    X, y, weight = windows(n=60)
    model = loglinear(
        penalty="l2", solver="lbfgs", lam=0.4, alpha=0.8, tol=0.0, max_iter=100_000
    )
    with pytest.warns(ConvergenceWarning, match="Rounding hides"):
        model.fit(X, y, weight)
    assert model.optimality_ < 1e-6


def test_a_solver_can_be_interrupted_at_once(monkeypatch):
    # Between slices of a sweep, which take a fraction of a second each.
    monkeypatch.setattr(_coordinate, "SLICE", 50)
    kernel, calls = _coordinate._fast.sweep_columns, []

    def interrupted(*args):
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt
        kernel(*args)

    monkeypatch.setattr(_coordinate._fast, "sweep_columns", interrupted)
    X, y, _ = windows()
    with pytest.raises(KeyboardInterrupt):
        StructuredLogLinearLM(penalty="l2", solver="scis").fit(X, y)


def test_threads_do_not_matter(monkeypatch):
    monkeypatch.setattr(_problem, "THREAD_PAIRS", 1)
    X, y, weight = windows(n=600)
    for name in NEW:
        one, two = (
            loglinear(
                penalty="l2", solver=name, lam=0.4, alpha=0.8, tol=1e-3, n_jobs=n_jobs,
                max_iter=2000,
            ).fit(X, y, weight)
            for n_jobs in (1, 2)
        )  # fmt: skip
        assert np.array_equal(one.coef_, two.coef_)
