"""Certificates against a conic solver, which shares nothing with the package: small
problems written out in all classes, solved by interior points."""

import numpy as np
import pytest
from _cases import all_pairs, each_value
from _toy_problems import N_CLASSES, dense_groups, make_problem, weights_for

from sklstruct.loglinear import PENALTIES, DiagonalSolver, StructuredLogLinearLM
from sklstruct.loglinear._fit import Fit
from sklstruct.loglinear._gap import duality_gap
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._penalties._base import LARGEST_SCORE
from sklstruct.loglinear._solvers import Job

cp = pytest.importorskip("cvxpy")

# The penalties over weights w, with the strength and the pairs of each group.
OF_GROUPS = {
    "l1": lambda w, s, g: s @ cp.abs(w),
    "l2": lambda w, s, g: s @ cp.square(w) / 2,
    "elastic_net": lambda w, s, g: s @ cp.abs(w) + s @ cp.square(w) / 4,
    "tree_l2": lambda w, s, g: sum(t * cp.norm2(w[q]) for t, q in zip(s, g)),
    "tree_linf": lambda w, s, g: sum(t * cp.norm_inf(w[q]) for t, q in zip(s, g)),
}


def conic_minimum(problem, penalty):
    """(objective, weights) of the problem written out for every class of each node."""
    groups = dense_groups(problem)
    w = cp.Variable(problem.n_pairs, nonneg=problem.positive)
    loss, rows = 0.0, []
    for n in range(problem.n_nodes):
        at = range(problem.pair_ptr[n], problem.pair_ptr[n + 1])
        up = problem.parent[n]
        features = np.zeros((N_CLASSES, problem.n_pairs)) if n == 0 else rows[up].copy()
        features[problem.pairs.target[at], at] = problem.beta_by_depth[groups.depth[at]]
        rows.append(features)
        loss += problem.node_weight[n] * cp.log_sum_exp(features @ w)
    linear = problem.count * problem.beta_by_depth[groups.depth]
    omega = OF_GROUPS[penalty](w, groups.strength, groups.subtree)
    constraints = [w[:N_CLASSES][problem.unseen] == 0.0]
    conic = cp.Problem(cp.Minimize(loss - linear @ w + omega), constraints)
    conic.solve(solver="CLARABEL")
    assert conic.status == "optimal"
    return conic.value, w.value


@pytest.mark.parametrize(
    *all_pairs(penalty=sorted(PENALTIES), positive=[True, False], seed=[0, 1])
)
def test_minimum_and_gap(penalty, positive, seed):
    problem = make_problem(2, seed, positive=positive)
    least, at = conic_minimum(problem, penalty)
    # The gap speaks of weights that add at most that to a score.
    assert np.abs(at).max() < LARGEST_SCORE
    loss, bound = LogLinearLoss(problem), PENALTIES[penalty]().bind(problem)
    for tol in (0.3, 0.03, 1e-3, 1e-7):
        solver = DiagonalSolver(tol=tol, max_iter=20_000)
        found = solver.solve(Job(loss, bound), np.zeros(problem.n_pairs))
        distance = found.objective - least
        assert duality_gap(loss, bound, found.w) >= distance - 1e-6
    assert found.objective == pytest.approx(least, rel=1e-7)
    for share in (0.01, 0.1, 1.0):
        w = at + share * (weights_for(problem, seed, positive) - at)
        w = np.maximum(w, 0.0) if positive else w
        distance = loss.value(w) + bound.value(w) - least
        assert duality_gap(loss, bound, w) >= distance - 1e-6 > 0.0


@pytest.mark.parametrize(*each_value(penalty=sorted(PENALTIES), positive=[True, False]))
def test_gap_tol_bounds_the_distance(penalty, positive):
    problem = make_problem(2, 3, positive=positive)
    least, _ = conic_minimum(problem, penalty)
    for gap_tol in (1e-2, 1e-4):
        solver = DiagonalSolver(tol=0.3, max_iter=20_000, gap_tol=gap_tol)
        fit = Fit(StructuredLogLinearLM(penalty=penalty, solver=solver), problem)
        found = fit.solve(np.zeros(problem.n_pairs))
        assert found.status == "converged"
        distance = found.objective - least
        assert -1e-5 <= distance <= gap_tol * problem.total_weight + 1e-5
