"""The duality gap: never below the distance to the minimum, and 0 there."""

import warnings

import numpy as np
import pytest
from _toy_problems import dense_groups, make_pairs, make_problem, weights_for
from scipy.special import softmax, xlogy
from sklearn.exceptions import ConvergenceWarning

from sklstruct import StructuredLogLinearLM
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import (
    PENALTIES,
    DiagonalSolver,
    ElasticNet,
    Penalty,
    TreeL2,
    TreeLinf,
)
from sklstruct.loglinear._gap import duality_gap
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._penalties import BoundPenalty
from sklstruct.loglinear._problem import Problem
from sklstruct.loglinear._solvers import Job

# A squared term at some depths only, and none: one conjugate is finite, one is not.
BY_DEPTH = ElasticNet(gamma=[0.0, 1.0, 0.0, 2.0], count_weight=[0.5, 1.4])
NAMED = [*(kind() for kind in PENALTIES.values()), BY_DEPTH]
named = pytest.mark.parametrize("penalty", NAMED, ids=repr)
positive = pytest.mark.parametrize("positive", [True, False])


def solved(penalty, problem, tol=1e-7):
    loss, bound = LogLinearLoss(problem), penalty.bind(problem)
    solver = DiagonalSolver(tol=tol, max_iter=20_000)
    return loss, bound, solver.solve(Job(loss, bound), np.zeros(problem.n_pairs))


@named
@positive
@pytest.mark.parametrize("m", [0, 2, 3])
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


@named
@positive
def test_gap_vanishes_at_the_minimum(penalty, positive):
    problem = make_problem(3, positive=positive, depth_weight=1.3)
    loss, bound, result = solved(penalty, problem)
    assert duality_gap(loss, bound, result.w) < 1e-4 * result.objective
    start = duality_gap(loss, bound, np.zeros(problem.n_pairs))
    assert start > 1e-2 * result.objective


@named
@positive
def test_gap_is_the_loss_less_the_dual(penalty, positive):
    """F(w) - sum_c t(c) H(p_c) + omega*(theta v), written out in all classes."""
    problem = make_problem(3, positive=positive, depth_weight=1.3)
    loss, bound = LogLinearLoss(problem), penalty.bind(problem)
    w = 0.3 * weights_for(problem, 1, positive)
    gradient = np.empty_like(w)
    value = loss.value_and_gradient(w, gradient) + bound.value(w)
    theta, conjugate = bound.dual(-gradient)
    ends = problem.pairs.terminal_counts(problem.count)
    scores = np.zeros((problem.n_nodes, problem.n_classes))
    entropy = 0.0
    for n in range(problem.n_nodes):
        at = slice(problem.pair_ptr[n], problem.pair_ptr[n + 1])
        if n:
            scores[n] = scores[problem.parent[n]]
        beta = problem.beta_by_depth[problem.tree.levels()[n]]
        scores[n, problem.pairs.target[at]] += beta * w[at]
        if problem.node_weight[n]:
            seen = np.zeros(problem.n_classes)
            seen[problem.pairs.target[at]] = ends[at] / ends[at].sum()
            p = theta * softmax(scores[n]) + (1.0 - theta) * seen
            entropy -= problem.node_weight[n] * float(xlogy(p, p).sum())
    expected = value - entropy + conjugate
    assert duality_gap(loss, bound, w) == pytest.approx(expected, rel=1e-9)


@named
@positive
def test_dual_is_the_conjugate(penalty, positive):
    """The value is the least upper bound of <theta v, w> - omega(w)."""
    problem = make_problem(3, positive=positive, depth_weight=1.3)
    bound, groups = penalty.bind(problem), dense_groups(problem)
    rng = np.random.default_rng(0)
    for scale in (0.05, 1.0, 30.0):
        v = scale * rng.normal(size=problem.n_pairs)
        given = v.copy()
        theta, value = bound.dual(v)
        assert np.array_equal(v, given) and 0.0 <= theta <= 1.0 and value >= 0.0

        def below(w, theta=theta, v=v):
            return penalty.definition(w, groups) - theta * float(v @ w)

        for size in (1e-3, 1.0, 1e3):
            w = size * rng.normal(size=v.size) * (rng.random(v.size) < 0.3)
            w = np.maximum(w, 0.0) if positive else w
            assert below(w) >= -value - 1e-9 * (1.0 + size)
        if scale == 0.05:
            assert theta == 1.0
        elif value == 0.0:
            # A little further a norm is less than <v, w> at its proximal point, and
            # the conjugate is infinite.
            beyond = theta + 0.021 * (1.0 - theta)
            further = beyond * (np.maximum(v, 0.0) if positive else v)
            w = bound.prox(further, np.ones(v.size), np.empty(v.size))
            assert penalty.definition(w, groups) < beyond * float(v @ w)


@pytest.mark.parametrize("penalty", [TreeL2(), TreeLinf()], ids=repr)
def test_dual_at_the_border_of_the_ball(penalty):
    """One weight whose gradient is, but for rounding, the strength of its groups."""
    problem = make_problem(3)
    bound, groups = penalty.bind(problem), dense_groups(problem)
    pair = problem.n_pairs - 1
    of_pair = [s for s, q in zip(groups.strength, groups.subtree) if pair in q]
    border = float(sum(of_pair))
    for ulps in range(-8, 9):
        v = np.zeros(problem.n_pairs)
        v[pair] = border * (1.0 + ulps * 2.0**-52)
        theta, conjugate = bound.dual(v)
        assert 1.0 - 1e-14 <= theta <= 1.0 and conjugate == 0.0
    v[pair] = 2.0 * border
    assert 0.47 <= bound.dual(v)[0] <= 0.5


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
    assert gaps[0] == pytest.approx(gaps[1], rel=1e-5)


class BoundQuartic(BoundPenalty):
    def value(self, w):
        return float(np.sum(w**4))


class Quartic(Penalty):
    bound = BoundQuartic

    def definition(self, w, groups):
        return float(np.sum(w**4))


def test_penalty_without_a_conjugate_is_measured_from_the_frequencies():
    problem = make_problem(2)
    loss, bound = LogLinearLoss(problem), Quartic().bind(problem)
    w = np.abs(weights_for(problem, 1))
    ends = problem.pairs.terminal_counts(problem.count)
    node = np.repeat(np.arange(problem.n_nodes), np.diff(problem.pair_ptr))
    seen = ends > 0
    frequency = ends[seen] / problem.node_weight[node[seen]]
    entropy = -float(ends[seen] @ np.log(frequency))
    expected = loss.value(w) + bound.value(w) - entropy
    assert duality_gap(loss, bound, w) == pytest.approx(expected, rel=1e-9)


def test_gap_is_infinite_where_the_loss_overflows():
    problem = make_problem(2)
    w = np.full(problem.n_pairs, 1e300)
    for kind in PENALTIES.values():
        assert duality_gap(LogLinearLoss(problem), kind().bind(problem), w) == np.inf


@pytest.mark.parametrize("penalty", sorted(PENALTIES))
def test_estimator_tells_how_far_it_is(penalty):
    text = ["a b a c a b", "b a b", "c a b a d"] * 3
    lm = LanguageModel(StructuredLogLinearLM(penalty=penalty, tol=1e-8), max_depth=3)
    best = lm.fit(text).estimator_
    lm.estimator.set_params(tol=0.0, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        early = lm.fit(text).estimator_
    assert early.gap_ >= early.objective_[-1] - best.objective_[-1] >= 0.0
    assert best.gap_ < early.gap_ and best.gap_ < 1e-3 * best.objective_[-1]


def test_active_set_has_no_gap():
    text = ["a b a c a b", "b a b", "c a b a d"] * 3
    model = StructuredLogLinearLM(penalty="l1", lam=0.3)
    lm = LanguageModel(model, max_depth=3).fit(text)
    assert lm.estimator_.gap_ >= 0.0
    lm.set_params(estimator__active_set=True).fit(text)
    assert not hasattr(lm.estimator_, "gap_")
