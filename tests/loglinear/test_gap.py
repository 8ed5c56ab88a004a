"""The duality gap: never below the distance to the minimum, and 0 there."""

import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from _callbacks import StopAfter, needs_callbacks
from _cases import each_value
from _loglinear import joint_loglinear, loglinear
from _oracles import second_order_text
from _toy_problems import (
    definition,
    dense_groups,
    make_pairs,
    make_problem,
    problem_of,
    weights_for,
)
from scipy.special import softmax, xlogy
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import FunctionTransformer

from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import (
    PENALTIES,
    ActiveSetSolver,
    AutoSolver,
    DiagonalSolver,
    ElasticNet,
    Penalty,
)
from sklstruct.loglinear._gap import duality_gap, warn_of_end
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._penalties import BoundPenalty, Separable
from sklstruct.loglinear._penalties._base import LARGEST_SCORE, conjugate_by_prox
from sklstruct.loglinear._problem import Problem
from sklstruct.loglinear._solvers import Job, Result

# A squared term at some depths only, and none: one conjugate is finite, one is not.
BY_DEPTH = ElasticNet(gamma=[0.0, 1.0, 0.0, 2.0], count_weight=[0.5, 1.4])
NAMED = [*(kind() for kind in PENALTIES.values()), BY_DEPTH]
named = pytest.mark.parametrize("penalty", NAMED, ids=repr)
positive = pytest.mark.parametrize("positive", [True, False])


def solved(penalty, problem, tol=1e-7):
    loss, bound = LogLinearLoss(problem), penalty.bind(problem)
    solver = DiagonalSolver(tol=tol, max_iter=20_000)
    return loss, bound, solver.solve(Job(loss, bound), np.zeros(problem.n_pairs))


@pytest.mark.parametrize(
    ("penalty", "positive", "m"),
    [
        *((p, positive, 3) for p in NAMED for positive in (True, False)),
        (BY_DEPTH, True, 0),
        (BY_DEPTH, False, 2),
    ],
)
def test_gap_is_at_least_the_distance_to_the_minimum(penalty, positive, m):
    problem = make_problem(m, positive=positive, depth_weight=1.3)
    loss, bound, result = solved(penalty, problem)
    gaps = []
    for seed in range(8):
        near = weights_for(problem, seed, positive)
        for share in (0.0, 1e-4, 1e-2, 0.3, 1.0):
            w = result.w + share * (near - result.w)
            distance = loss.value(w) + bound.value(w) - result.objective
            gaps.append(duality_gap(loss, bound, w))
            assert gaps[-1] >= distance - 1e-9
    assert np.isfinite(gaps).all()


@pytest.mark.parametrize(*each_value(penalty=NAMED, positive=[True, False]))
def test_gap_vanishes_at_the_minimum(penalty, positive):
    problem = make_problem(3, positive=positive, depth_weight=1.3)
    loss, bound, result = solved(penalty, problem)
    assert duality_gap(loss, bound, result.w) < 1e-4 * result.objective
    start = duality_gap(loss, bound, np.zeros(problem.n_pairs))
    assert start > 1e-2 * result.objective


@named
@positive
def test_gap_is_the_loss_less_the_dual(penalty, positive):
    """F(w) - sum_c t(c) H(p_c) + omega*(v), written out in all classes."""
    problem = make_problem(3, positive=positive, depth_weight=1.3)
    loss, bound = LogLinearLoss(problem), penalty.bind(problem)
    w = 0.3 * weights_for(problem, 1, positive)
    gradient = np.empty_like(w)
    value = loss.value_and_gradient(w, gradient) + bound.value(w)
    conjugate = bound.conjugate(-gradient)
    scores = np.zeros((problem.n_nodes, problem.n_classes))
    entropy = 0.0
    for n in range(problem.n_nodes):
        at = slice(problem.pair_ptr[n], problem.pair_ptr[n + 1])
        if n:
            scores[n] = scores[problem.parent[n]]
        beta = problem.beta_by_depth[problem.tree.levels()[n]]
        scores[n, problem.pairs.target[at]] += beta * w[at]
        if problem.node_weight[n]:
            p = softmax(scores[n])
            entropy -= problem.node_weight[n] * float(xlogy(p, p).sum())
    expected = value - entropy + conjugate
    assert duality_gap(loss, bound, w) == pytest.approx(expected, rel=1e-9)


def limits(problem):
    """The largest weight of each pair that the conjugate speaks of."""
    return np.concatenate(
        [
            np.broadcast_to(LARGEST_SCORE / problem.beta.of(lo, hi, k), hi - lo)
            for k, (lo, hi) in enumerate(problem.levels)
        ]
    )


@named
@positive
def test_conjugate_bounds_all_weights(penalty, positive):
    """At least <v, w> - omega(w), at vertices and inside of the box of weights."""
    problem = make_problem(3, positive=positive, depth_weight=1.3)
    bound, groups = penalty.bind(problem), dense_groups(problem)
    rng, limit = np.random.default_rng(0), limits(problem)
    for scale in (0.05, 1.0, 30.0):
        v = scale * rng.normal(size=problem.n_pairs)
        given = v.copy()
        value = bound.conjugate(v)
        assert np.array_equal(v, given) and value >= 0.0
        best = 0.0
        for share in (0.0, 0.02, 0.5, 1.0, 1.0, 1.0):
            chosen = rng.random(v.size) < rng.random()
            sign = np.maximum(np.sign(v), 0.0) if positive else np.sign(v)
            w = share * limit * sign * chosen
            best = max(best, float(v @ w) - definition(penalty, w, groups))
        assert value >= best - 1e-9 * (1.0 + best)
        if isinstance(penalty, Separable) and penalty != BY_DEPTH:
            # Pair by pair, by the values of a grid.
            grid = np.linspace(0.0, 1.0, 200_001)
            most = 0.0
            for k, (lo, hi) in enumerate(problem.levels):
                l1, l2 = (part[0] for part in bound.alone(lo, hi, k))
                for p in range(lo, hi):
                    u = max(v[p], 0.0) if positive else abs(v[p])
                    w = grid * limit[p]
                    most += (u * w - l1 * w - l2 * w**2 / 2).max()
            assert value == pytest.approx(most, rel=1e-3)


@named
def test_conjugate_of_one_weight(penalty):
    """One gradient of up to the strength of its groups costs nothing; what is above it,
    as much as the largest weight that is allowed."""
    problem = make_problem(3)
    bound, groups = penalty.bind(problem), dense_groups(problem)
    pair, v = problem.n_pairs - 1, np.zeros(problem.n_pairs)
    limit, one = limits(problem)[pair], v.copy()
    one[pair] = 1.0
    border = definition(penalty, 1e-9 * one, groups) * 1e9  # slope at no weight
    for ulps in range(-8, 9):
        v[pair] = border * (1.0 + ulps * 2.0**-52)
        assert bound.conjugate(v) <= 1e-6
    v[pair] = border + 0.5
    grid = np.linspace(0.0, 1.0, 100_001) * limit
    expected = max(
        x * v[pair] - definition(penalty, x * one, groups) for x in grid[::50]
    )
    assert bound.conjugate(v) == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    "penalty", [PENALTIES["l2"](), ElasticNet(gamma=0.3)], ids=repr
)
def test_conjugate_by_the_proximal_operator_of_a_square(penalty):
    """Pair by pair, over the weights that it speaks of: not below the largest value."""
    problem = make_problem(3, depth_weight=1.3)
    bound, limit = penalty.bind(problem), limits(problem)
    grid = np.linspace(0.0, 1.0, 1001)[:, None] * limit
    l1, l2 = np.empty(limit.size), np.empty(limit.size)
    for k, (lo, hi) in enumerate(problem.levels):
        l1[lo:hi], l2[lo:hi] = bound.alone(lo, hi, k)
    for scale in (1.0, 30.0, 300.0):
        v = scale * np.random.default_rng(1).random(limit.size)
        most = (v * grid - l1 * grid - l2 * grid**2 / 2).max(axis=0).sum()
        assert conjugate_by_prox(bound, v) >= most - 1e-9


@pytest.mark.parametrize("penalty", ["l1", "l2", "elastic_net", "tree_linf"])
def test_collapsed_tree_has_the_gap_of_the_trie(penalty):
    penalty = PENALTIES[penalty]()
    # Equal weights of features and groups at all depths: the same minimum.
    pairs, count, *_ = make_pairs(2, 4, collapse=True)
    even = np.ones(5), np.full(5, 0.4)
    problem = Problem(pairs, count, *even)
    w = np.abs(weights_for(problem, 3))
    trie, spread = problem.expand(w)
    trie = Problem(trie.pairs, trie.count, *even)
    gaps = [
        duality_gap(LogLinearLoss(p), penalty.bind(p), x)
        for p, x in ((problem, w), (trie, spread))
    ]
    # The parts of merged suffixes in a score are limited together.
    assert 0.0 < gaps[0] <= gaps[1] * (1.0 + 1e-9)


class BoundQuartic(BoundPenalty):
    def value(self, w):
        return float(np.sum(w**4))


class Quartic(Penalty):
    bound = BoundQuartic

    def definition(self, w, groups):
        return float(np.sum(w**4))


def test_penalty_without_a_conjugate():
    problem = make_problem(2)
    loss, bound = LogLinearLoss(problem), Quartic().bind(problem)
    w, g = np.abs(weights_for(problem, 1)), np.empty(problem.n_pairs)
    loss.value_and_gradient(w, g)
    expected = bound.value(w) + float(g @ w + limits(problem) @ np.maximum(-g, 0.0))
    assert duality_gap(loss, bound, w) == pytest.approx(expected, rel=1e-9)


def test_gap_is_infinite_where_the_loss_overflows():
    problem = make_problem(2)
    w = np.full(problem.n_pairs, 1e300)
    for kind in PENALTIES.values():
        assert duality_gap(LogLinearLoss(problem), kind().bind(problem), w) == np.inf


@pytest.mark.parametrize("penalty", sorted(PENALTIES))
def test_estimator_tells_how_far_it_is(penalty):
    text = ["a b a c a b", "b a b", "c a b a d"] * 3
    lm = LanguageModel(loglinear(penalty=penalty, tol=1e-8), max_depth=3)
    best = lm.fit(text).estimator_
    lm.estimator.set_params(solver__tol=0.0, solver__max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        early = lm.fit(text).estimator_
    assert early.gap_ >= early.objective_[-1] - best.objective_[-1] >= 0.0
    assert best.gap_ < early.gap_ and best.gap_ < 1e-3 * best.objective_[-1]


def nats_told(caught):
    told = re.search(r"at most (\S+) nats per sample above", str(caught[-1].message))
    return float(told[1])


@pytest.mark.parametrize("solver", ["auto", "active_set"])
def test_warning_tells_how_far_it_is(solver):
    text = ["a b a c a b", "b a b", "c a b a d"] * 3
    n_samples = sum(len(s.split()) + 1 for s in text)
    lm = LanguageModel(
        loglinear(penalty="l1", tol=0.0, max_iter=2, lam=0.1, solver=solver),
        max_depth=3,
    )
    with pytest.warns(ConvergenceWarning) as caught:
        model = lm.fit(text).estimator_
    assert nats_told(caught) == pytest.approx(model.gap_ / n_samples, rel=0.05)
    assert model.gap_ > 0


def test_warning_of_several_trees_tells_how_far_it_is():
    rng = np.random.RandomState(0)
    X, y = rng.randint(0, 3, (40, 2)), rng.randint(0, 3, 40)
    weight = rng.uniform(0.5, 3.0, 40)
    model = joint_loglinear(lam=0.1, tol=0.0, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="nats per sample") as caught:
        model.fit(X, y, sample_weight=weight)
    assert nats_told(caught) == pytest.approx(model.gap_ / weight.sum(), rel=0.05)


@pytest.mark.parametrize(
    *each_value(penalty=["l1", "elastic_net", "tree_l2", "tree_linf"], tol=[0.3, 0.01])
)
def test_gap_of_an_active_set_is_one_of_the_whole_tree(penalty, tol):
    """Most of the tree is never built, and the gap speaks of all of it."""
    lm = LanguageModel(
        loglinear(penalty=penalty, lam=2.0, tol=1e-8, max_iter=5000),
        max_depth=3,
    )
    text = load_python_topics()[:60]
    whole = lm.fit(text).estimator_
    lm.set_params(estimator__solver=ActiveSetSolver(tol))
    grown = lm.fit(text).estimator_
    assert grown.n_pairs_built_ < 0.5 * whole.coef_.size
    assert grown.gap_ >= grown.objective_[-1] - whole.objective_[-1] - 1e-6 * grown.gap_
    assert 0.0 < grown.gap_ < 0.5 * grown.objective_[-1]


@needs_callbacks
def test_gap_is_infinite_where_an_active_set_is_stopped():
    model = loglinear(penalty="l1", lam=0.3, solver="active_set")
    lm = LanguageModel(model, max_depth=2)
    text = load_python_topics()[:30]
    assert np.isfinite(lm.fit(text).estimator_.gap_)
    lm.estimator.set_callbacks(StopAfter("iteration"))
    assert lm.fit(text).estimator_.gap_ == np.inf


def test_gap_of_several_trees():
    """Never below the distance to a tight fit; 0 there."""
    X, y = second_order_text(150, 5, 0.3)
    paths = [
        ("words", "passthrough"),
        ("coarse", FunctionTransformer(lambda X: np.where(X < 0, -1, X // 2))),
    ]
    # Scores in single precision: the residual ends near 1e-4.
    joint = joint_loglinear(
        paths, lam=0.3, alpha=0.9, padding=-1, tol=2e-4, max_iter=5000
    )
    best = joint.fit(X, y)
    least, gap = best.objective_[-1], best.gap_
    assert 0.0 <= gap < 1e-5 * least
    for tol in (1.0, 0.3, 0.1, 0.01):
        early = joint.set_params(solver__tol=tol).fit(X, y)
        assert early.gap_ >= early.objective_[-1] - least - 1e-4
    # Without a penalty the bounds of the weights are all that limits them.
    free = joint.set_params(lam=0.0, solver=AutoSolver(0.1)).fit(X, y)
    assert np.isfinite(free.gap_) and free.gap_ > 0.0


@pytest.mark.parametrize("lam", [0.0, 0.3])
def test_gap_of_one_tree_is_that_of_the_structured_model(lam):
    X, y = second_order_text(150, 5, 0.3)
    for tol in (0.5, 0.02):
        joint = joint_loglinear(lam=lam, alpha=0.9, padding=-1, tol=tol).fit(X, y)
        problem = problem_of(X, y, 0.9 ** np.arange(3), np.full(3, lam))
        bound = PENALTIES["l2"]().bind(problem)
        expected = duality_gap(LogLinearLoss(problem), bound, joint.coef_)
        assert joint.gap_ == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("gap", "total", "told"),
    [(6.0, 20.0, True), (4.9, 20.0, False), (6.0, 130.0, False), (np.inf, 20.0, False)],
)
def test_an_end_within_tol_far_from_the_minimum_is_told(gap, total, told):
    """Far: more than half of the objective, and more than 0.05 nats per sample."""
    result = Result(np.zeros(3), [11.0, 10.0], 10.0, 1e-3, "converged")
    model = SimpleNamespace(lam=0.0, n_iter_=2, gap_=gap)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_end(model, result, AutoSolver(), total, "")
    assert len(found) == told
    for warning in found:
        assert "is within tol=0.01, but the objective may be 0.3 nats" in str(warning)
        assert "Set gap_tol, or decrease tol, or increase lam" in str(warning)
