"""Tree-structured proximal operators: oracles, invariants, peers, bad input."""

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from _oracles import below, random_forest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog, minimize

from sklstruct.prox import (
    _tree_prox_fast as kernels,
)
from sklstruct.prox import (
    norm_tree_l2,
    norm_tree_linf,
    prox_lp,
    prox_tree_l2,
    prox_tree_linf,
)

PROXES = [prox_tree_l2, prox_tree_linf]
NORMS = {prox_tree_l2: norm_tree_l2, prox_tree_linf: norm_tree_linf}
DESIGN_PARENTS = [-1, 0, 1, 2, 3, 3, 1, 6]
DESIGN_V = [3, 4, 6, 6, 4, 5, 7, 7]


def stepwise_linf(v, parents, kappa, metric):
    """The definition: one residual of a projection per node, by bisection."""
    w = np.abs(v).astype(float)
    member = below(parents)
    for g in np.argsort(member.sum(1), kind="stable"):  # subtrees before supertrees
        x, d = w[member[g]], metric[member[g]]
        if d @ x <= kappa[g]:
            w[member[g]] = 0
            continue
        low, high = 0.0, x.max()
        for _ in range(200):
            r = 0.5 * (low + high)
            low, high = (r, high) if d @ np.maximum(x - r, 0) > kappa[g] else (low, r)
        w[member[g]] = np.minimum(x, r)
    return np.sign(v) * w


def stepwise_l2(v, parents, kappa, mult):
    w = np.array(v, float)
    member = below(parents)
    for g in np.argsort(member.sum(1), kind="stable"):
        norm = np.sqrt(mult[member[g]] @ w[member[g]] ** 2)
        w[member[g]] *= max(1 - kappa[g] / norm, 0) if norm > 0 else 0
    return w


def shuffle(parents, perm):
    """Renumber: node i becomes perm[i]."""
    out = np.empty_like(parents)
    out[perm] = np.where(parents >= 0, perm[parents], -1)
    return out


# ------------------------------------------------------------- known answers


def test_worked_example():
    """Figure 1 of Nelakanti et al. with lambda = 0.8, to the digits printed."""
    assert_allclose(
        prox_tree_l2(DESIGN_V, DESIGN_PARENTS, 0.8),
        [2.81, 3.51, 4.81, 4.33, 2.31, 3.03, 5.61, 4.97],
        atol=0.005,
    )
    assert_allclose(
        prox_tree_linf(DESIGN_V, DESIGN_PARENTS, 0.8),
        [3, 4, 5.2, 5.2, 3.2, 4.2, 5.4, 5.4],
        atol=1e-14,
    )


def test_norms_by_hand():
    v, parents = [3.0, -4.0, 12.0], [-1, 0, 1]
    assert norm_tree_l2(v, parents) == pytest.approx(13 + np.sqrt(160) + 12)
    assert norm_tree_linf(v, parents) == 36.0
    assert norm_tree_linf(v, parents, [1, 0, 2], multiplicity=[5, 1, 3]) == 132.0
    assert norm_tree_l2([3, 2], [-1, 0], [1, 0], multiplicity=[1, 4]) == 5.0


@pytest.mark.parametrize("seed", range(3))
def test_norms_against_dense_groups(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    parents, v = random_forest(n, rng), rng.standard_normal(n)
    a, c = rng.random(n), rng.random(n) + 0.5
    member = below(parents)
    assert norm_tree_l2(v, parents, a, multiplicity=c) == pytest.approx(
        a @ np.sqrt(member @ (c * v**2)), rel=1e-13
    )
    assert norm_tree_linf(v, parents, a, multiplicity=c) == pytest.approx(
        (a * c) @ np.max(np.where(member, np.abs(v), 0), axis=1), rel=1e-13
    )


def test_the_norm_of_many_nodes_is_rounded_as_if_once():
    v = np.full(1_000_000, 0.1)
    total = norm_tree_linf(v, np.full(v.size, -1))
    assert total == pytest.approx(math.fsum(v), rel=1e-15)


# ------------------------------------------------------------- oracles


@pytest.mark.parametrize("width", [None, 1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_against_stepwise_definition(seed, width):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 70))
    parents = random_forest(n, rng, roots=0.05, width=width)
    v = rng.standard_normal(n) * (rng.random(n) < 0.8)
    if seed % 3 == 0:
        v = v.round(1)  # ties
    kappa = rng.random(n) * rng.choice([0.02, 0.2, 1.0])
    kappa[rng.random(n) < 0.2] = 0
    metric = rng.lognormal(size=n)
    assert_allclose(
        prox_tree_linf(v, parents, kappa, metric=metric),
        stepwise_linf(v, parents, kappa, metric),
        atol=1e-13,
    )
    assert_allclose(
        prox_tree_l2(v, parents, kappa, multiplicity=metric),
        stepwise_l2(v, parents, kappa, metric),
        atol=1e-13,
    )


def star_forest(rng, few=16):
    """(parents, values): nodes of many children, of which few have large values.

    Two levels, as language has them: a root with leaves and with nodes that have
    many leaves.
    """
    n_inner = int(rng.integers(0, 5))
    parents = [-1] + [0] * n_inner
    for node in range(n_inner + 1):
        parents += [node] * int(rng.integers(few - 2, 3 * few))
    n = len(parents)
    v = 0.1 * rng.random(n)
    large = rng.random(n) < 0.1
    v[large] = 5 * rng.random(large.sum())
    return np.array(parents), v * rng.choice([-1, 1], n)


def test_a_step_that_several_of_many_children_share():
    """Two large values among twenty small: 5 and 4.4 meet at 4.2, as 0.8 + 0.2 = 1."""
    v = np.array([0, 5, 4.4] + [0.1] * 20)
    parents = np.array([-1] + [0] * 22)
    kappa = np.array([1.0] + [0.0] * 22)
    w = prox_tree_linf(v, parents, kappa)
    assert_allclose(w, [0, 4.2, 4.2] + [0.1] * 20, atol=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_many_children_against_stepwise_definition(seed):
    rng = np.random.default_rng(seed)
    parents, v = star_forest(rng)
    n = v.size
    if seed % 3 == 0:
        v = v.round(1)  # ties
    metric = rng.lognormal(size=n) if seed % 2 else np.ones(n)
    kappa = rng.random(n) * rng.choice([0.05, 1.0, 3.0])
    kappa[rng.random(n) < 0.5] = 0
    kappa[0] = rng.choice([1.0, 5.0])
    assert_allclose(
        prox_tree_linf(v, parents, kappa, metric=metric),
        stepwise_linf(v, parents, kappa, metric),
        atol=1e-13,
    )


def solve_linf_qp(v, parents, kappa, metric):
    """min 1/2 |w - |v||_D^2 + kappa @ t, 0 <= w_i <= t_g for i below g (SLSQP)."""
    n, member = len(v), below(parents)
    a = np.abs(v)
    groups, nodes = np.nonzero(member)
    rows = np.arange(len(groups))
    constraint = np.zeros((len(groups), 2 * n))
    constraint[rows, n + groups] = 1
    constraint[rows, nodes] = -1
    start = np.concatenate([a, np.full(n, a.max())])
    result = minimize(
        lambda x: 0.5 * metric @ (x[:n] - a) ** 2 + kappa @ x[n:],
        start,
        jac=lambda x: np.concatenate([metric * (x[:n] - a), kappa]),
        bounds=[(0, None)] * (2 * n),
        constraints={
            "type": "ineq",
            "fun": lambda x: constraint @ x,
            "jac": lambda x: constraint,
        },
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    # 8: the line search cannot improve any more at this ftol, i.e. converged
    assert result.status in (0, 8), result.message
    return np.sign(v) * result.x[:n]


@pytest.mark.parametrize("seed", range(3))
def test_linf_against_generic_solver(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 11))
    parents, v = random_forest(n, rng), rng.standard_normal(n)
    kappa, metric = 0.5 * rng.random(n), rng.lognormal(size=n)
    mult = rng.integers(1, 4, n)
    assert_allclose(
        prox_tree_linf(v, parents, kappa, metric=metric, multiplicity=mult),
        solve_linf_qp(v, parents, kappa * mult, metric * mult),
        atol=2e-6,
    )


@pytest.mark.parametrize("seed", range(3))
def test_l2_against_generic_solver(seed):
    """On the smooth side: kappa so small that no group vanishes."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 11))
    parents = random_forest(n, rng)
    v = rng.choice([-1, 1], n) * (1 + rng.random(n))
    kappa, mult = 0.1 * rng.random(n), rng.integers(1, 4, n)
    member = below(parents).astype(float)

    def objective(w):
        norms = np.sqrt(member @ (mult * w**2))
        value = 0.5 * mult @ (w - v) ** 2 + kappa @ norms
        return value, mult * (w - v) + mult * w * (member.T @ (kappa / norms))

    result = minimize(objective, v, jac=True, method="BFGS", options={"gtol": 1e-10})
    assert_allclose(
        prox_tree_l2(v, parents, kappa, multiplicity=mult), result.x, atol=1e-7
    )


@pytest.mark.parametrize("seed", range(3))
def test_linf_optimality_condition(seed):
    """D (v - w) is a subgradient: a sum of kappa_g u_g, u_g >= 0 on the maxima of g
    with sum 1 (sum <= 1 where the maximum is 0). The split is found by an LP."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 16))
    parents, v = random_forest(n, rng), rng.random(n)
    kappa, metric = 0.3 * rng.random(n), rng.lognormal(size=n)
    w = prox_tree_linf(v, parents, kappa, metric=metric)
    member = below(parents)
    top = np.max(np.where(member, w, 0), axis=1)
    groups, nodes = np.nonzero(member & (w >= top[:, None] - 1e-12))
    split = np.zeros((n, len(groups)))
    split[nodes, np.arange(len(groups))] = kappa[groups]
    total = np.zeros((n, len(groups)))
    total[groups, np.arange(len(groups))] = 1
    zero = top == 0
    # slack: the LP minimises the l1 distance of D (v - w) to the subdifferential;
    # at w = 0 the condition is one-sided by |u|, which v >= 0 makes the same
    slack = np.hstack([np.eye(n), -np.eye(n)])
    result = linprog(
        np.concatenate([np.zeros(len(groups)), np.ones(2 * n)]),
        A_eq=np.block(
            [[split, slack], [total[~zero], np.zeros(((~zero).sum(), 2 * n))]]
        ),
        b_eq=np.concatenate([metric * (v - w), np.ones((~zero).sum())]),
        A_ub=np.hstack([total[zero], np.zeros((zero.sum(), 2 * n))])
        if zero.any()
        else None,
        b_ub=np.ones(zero.sum()) if zero.any() else None,
    )
    assert result.success, result.message
    assert result.fun < 1e-9


@pytest.mark.parametrize("prox", PROXES)
@pytest.mark.parametrize("seed", range(3))
def test_optimality_by_duality(prox, seed):
    """w = prox(v) iff <v - w, w> = Omega(w) and <v - w, x> <= Omega(x) for all x."""
    rng = np.random.default_rng(seed)
    n = 60
    parents, v = random_forest(n, rng, 0.05, width=8), rng.standard_normal(n)
    kappa = 0.2 * rng.random(n)
    norm = NORMS[prox]
    w = prox(v, parents, kappa)
    assert np.count_nonzero(w) > 0
    assert (v - w) @ w == pytest.approx(norm(w, parents, kappa), rel=1e-12)
    for _ in range(200):
        x = rng.standard_normal(n) * (rng.random(n) < rng.random())
        x = x + w * rng.choice([0, 1, 10])
        assert (v - w) @ x <= norm(x, parents, kappa) + 1e-12
    x = v - w
    assert x @ x <= norm(x, parents, kappa) + 1e-12


def dfs_numbering(parents):
    """Old number of each node in depth-first order (what spams needs)."""
    children = [[] for _ in parents]
    stack = []
    for i, p in enumerate(parents):
        (stack if p < 0 else children[p]).append(i)
    order = []
    while stack:
        i = stack.pop()
        order.append(i)
        stack.extend(children[i])
    return np.array(order)


@pytest.mark.parametrize("regul, prox", [("tree-l2", prox_tree_l2),
                                         ("tree-linf", prox_tree_linf)])  # fmt: skip
@pytest.mark.parametrize("width", [None, 3])
def test_against_spams(regul, prox, width):
    spams = pytest.importorskip("spams", reason="peer spams-bin is not installed")
    from scipy.sparse import csc_matrix

    rng = np.random.default_rng(7)
    n = 3000
    parents = random_forest(n, rng, roots=0.01, width=width)
    old = dfs_numbering(parents)
    new = np.argsort(old)
    parents = np.where(parents[old] >= 0, new[parents[old]], -1)
    weight, v = 0.5 + rng.random(n), rng.standard_normal(n)
    # spams wants one root: group 0 without variables; group i + 1 owns variable i
    groups = csc_matrix(
        (np.ones(n, bool), (np.arange(1, n + 1), parents + 1)), shape=(n + 1, n + 1)
    )
    tree = {
        "eta_g": np.concatenate([[0.0], weight]),
        "groups": groups,
        "own_variables": np.concatenate([[0], np.arange(n)]).astype(np.int32),
        "N_own_variables": np.concatenate([[0], np.ones(n)]).astype(np.int32),
    }
    for kappa in [0.01, 0.2]:
        for pos in [False, True]:
            want = spams.proximalTree(
                np.asfortranarray(v[:, None]), tree, lambda1=kappa, regul=regul,
                pos=pos, numThreads=1,
            )[:, 0]  # fmt: skip
            got = prox(v, parents, kappa * weight, positive=pos)
            assert_allclose(got, want, atol=2e-13)
            assert 0 < np.count_nonzero(got) < n or kappa < 0.1


def test_rounding_along_a_path_does_not_add_up():
    """Norms fall by kappa at each node; here s - kappa is rounded the same way always,
    by half a unit in the last place, which 2000 nodes would make 700 units of."""
    n, kappa = 2000, 2.0**-13 - 2.0**-54
    v, norm = np.zeros(n), np.zeros(n)
    v[-1] = 0.97
    parents = np.arange(-1, n - 1, dtype=np.int32)
    kernels.tree_l2_up(parents, np.array([kappa]), np.ones(1), v, norm, 0, n)
    exact = Fraction(0.97) - (n - 1) * Fraction(kappa)
    assert abs(Fraction(norm[0]) / exact - 1) < 100 * np.finfo(float).eps


# ------------------------------------------------------------- properties


@pytest.mark.parametrize("prox", PROXES)
def test_nonexpansive_and_moreau(prox):
    """|prox(u) - prox(v)| <= |u - v|; v - prox(v) projects on the dual ball, so it is
    a fixed point: prox(v - prox(v)) = 0."""
    rng = np.random.default_rng(0)
    parents = random_forest(300, rng, width=20)
    for _ in range(20):
        u, v = rng.standard_normal((2, 300))
        p, q = prox(u, parents, 0.2), prox(v, parents, 0.2)
        assert (p - q) @ (p - q) <= (p - q) @ (u - v) + 1e-12
        # the dual ball's boundary: a threshold larger by rounding gives exactly 0
        assert np.count_nonzero(prox(u - p, parents, 0.2 * (1 + 1e-12))) == 0


@pytest.mark.parametrize("seed", range(3))
def test_linf_nonexpansive_in_its_metric(seed):
    rng = np.random.default_rng(seed)
    parents, metric = random_forest(200, rng), rng.lognormal(size=200)
    u, v = rng.standard_normal((2, 200))
    d = prox_tree_linf(u, parents, 0.2, metric=metric) - prox_tree_linf(
        v, parents, 0.2, metric=metric
    )
    assert metric @ d**2 <= metric @ (d * (u - v)) + 1e-12


@pytest.mark.parametrize("prox", PROXES)
def test_roots_only_is_soft_thresholding(prox):
    rng = np.random.default_rng(0)
    v, kappa = rng.standard_normal(500), rng.random(500)
    w = prox(v, np.full(500, -1), kappa)
    assert_allclose(w, np.sign(v) * np.maximum(np.abs(v) - kappa, 0), atol=1e-15)
    assert_array_equal(w == 0, np.abs(v) <= kappa)


@pytest.mark.parametrize("prox", PROXES)
def test_kappa_zero_is_the_identity(prox):
    rng = np.random.default_rng(0)
    v = rng.standard_normal(400)
    v[::7] = 0
    v[::11] *= 1e-250  # squares underflow
    assert_array_equal(prox(v, random_forest(400, rng), 0), v)
    assert_array_equal(prox(v, random_forest(400, rng, width=2), 0.0), v)


def test_single_group():
    """A star whose only threshold is at the root: one block norm."""
    rng = np.random.default_rng(0)
    v = rng.standard_normal(50)
    parents = np.zeros(50, int)
    parents[0] = -1
    kappa = np.zeros(50)
    kappa[0] = 2.0
    assert_allclose(
        prox_tree_l2(v, parents, kappa), v * (1 - 2 / np.linalg.norm(v)), atol=1e-15
    )
    w = prox_tree_linf(v, parents, kappa)
    assert np.abs(v - w).sum() == pytest.approx(2.0)
    r = np.abs(w).max()
    assert_allclose(w, np.clip(v, -r, r), atol=1e-15)


@pytest.mark.parametrize("prox", PROXES)
def test_scaling_and_sign(prox):
    rng = np.random.default_rng(0)
    parents, v = random_forest(200, rng), rng.standard_normal(200)
    kappa = 0.3 * rng.random(200)
    w = prox(v, parents, kappa)
    assert_allclose(prox(3 * v, parents, 3 * kappa), 3 * w, atol=1e-14)
    assert_array_equal(prox(v * 2.0**40, parents, kappa * 2.0**40), w * 2.0**40)
    assert_array_equal(prox(-v, parents, kappa), -w)
    assert_array_equal(
        prox(v, parents, kappa, positive=True),
        prox(np.maximum(v, 0), parents, kappa),
    )
    assert np.all(np.abs(w) <= np.abs(v)) and np.all(w * v >= 0)


def test_linf_common_factor_of_metric_and_kappa():
    rng = np.random.default_rng(0)
    parents, v = random_forest(200, rng), rng.standard_normal(200)
    metric = rng.lognormal(size=200)
    w = prox_tree_linf(v, parents, 0.2, metric=metric)
    assert_array_equal(prox_tree_linf(v, parents, 0.8, metric=4 * metric), w)
    assert_array_equal(
        prox_tree_linf(v, parents, 0.2, metric=1.0), prox_tree_linf(v, parents, 0.2)
    )


@pytest.mark.parametrize("prox", PROXES)
def test_zeros_are_exact_and_positive(prox):
    rng = np.random.default_rng(0)
    parents, v = random_forest(500, rng, roots=0), rng.standard_normal(500)
    w = prox(v, parents, 1e3)
    assert_array_equal(w, np.zeros(500))
    assert not np.signbit(w).any()
    w = prox(v, parents, 0.5)
    assert 0 < np.count_nonzero(w) < 500
    assert not np.signbit(w[w == 0]).any()
    # hierarchical sparsity: a group that vanishes takes its subtree with it
    dead = np.zeros(501, bool)
    for i in range(500):
        dead[i] = dead[parents[i]] or not np.any(w[membership_of(i, parents)])
    assert not w[dead[:500]].any()
    # and in the l-infinity case a leaf dies exactly when |v| <= kappa
    leaves = np.setdiff1d(np.arange(500), parents)
    assert_array_equal(w[leaves][np.abs(v[leaves]) <= 0.5], 0)


def membership_of(i, parents):
    """Indices of the subtree of i (parent < child)."""
    inside = np.zeros(len(parents) + 1, bool)
    inside[i] = True
    for j in range(i + 1, len(parents)):
        inside[j] = parents[j] >= 0 and inside[parents[j]]
    return np.nonzero(inside)[0]


@pytest.mark.parametrize("seed", range(3))
def test_collapsed_paths_equal_the_trie(seed):
    """Propositions 1 and 2, also with a metric: one node of multiplicity c stands
    for a path of c nodes which share value, kappa and D."""
    rng = np.random.default_rng(seed)
    n = 80
    parents = random_forest(n, rng, width=rng.choice([3, 30]))
    v, kappa = rng.standard_normal(n), 0.2 * rng.random(n)
    metric, mult = rng.lognormal(size=n), rng.integers(1, 5, n)
    last = np.cumsum(mult) - 1  # lowest copy of node i
    long = np.arange(mult.sum()) - 1
    first = last - mult + 1
    long[first] = np.where(parents >= 0, last[parents], -1)
    repeat = [np.repeat(x, mult) for x in (v, kappa, metric)]
    w = prox_tree_linf(v, parents, kappa, multiplicity=mult, metric=metric)
    assert_allclose(
        prox_tree_linf(repeat[0], long, repeat[1], metric=repeat[2]),
        np.repeat(w, mult),
        atol=1e-13,
    )
    assert norm_tree_linf(v, parents, kappa, multiplicity=mult) == pytest.approx(
        norm_tree_linf(repeat[0], long, repeat[1]), rel=1e-13
    )


@pytest.mark.parametrize("seed", range(3))
def test_l2_multiplicity_is_equal_entries_of_one_group(seed):
    """A leaf of multiplicity c and kappa 0 is c sibling leaves."""
    rng = np.random.default_rng(seed)
    inner = random_forest(30, rng)
    at, mult = rng.integers(0, 30, 20), rng.integers(1, 5, 20)
    v_in, v_leaf = rng.standard_normal(30), rng.standard_normal(20)
    kappa = np.concatenate([0.3 * rng.random(30), np.zeros(20)])
    w = prox_tree_l2(
        np.concatenate([v_in, v_leaf]),
        np.concatenate([inner, at]),
        kappa,
        multiplicity=np.concatenate([np.ones(30), mult]),
    )
    many = prox_tree_l2(
        np.concatenate([v_in, np.repeat(v_leaf, mult)]),
        np.concatenate([inner, np.repeat(at, mult)]),
        np.concatenate([kappa[:30], np.zeros(mult.sum())]),
    )
    assert_allclose(many[:30], w[:30], atol=1e-14)
    assert_allclose(many[30:], np.repeat(w[30:], mult), atol=1e-14)


@pytest.mark.parametrize("prox", PROXES)
@pytest.mark.parametrize("seed", range(2))
def test_any_numbering(prox, seed):
    rng = np.random.default_rng(seed)
    n = 400
    parents, v = random_forest(n, rng, width=[None, 5][seed % 2]), rng.normal(size=n)
    kappa, mult = 0.3 * rng.random(n), 0.5 + rng.random(n)
    perm = rng.permutation(n)
    old = np.argsort(perm)
    w = prox(v, parents, kappa, multiplicity=mult)
    renumbered = shuffle(parents, perm)
    assert np.any(renumbered > np.arange(n))
    w2 = prox(v[old], renumbered, kappa[old], multiplicity=mult[old])
    assert_allclose(w2[perm], w, atol=1e-13)
    norm = NORMS[prox]
    assert norm(v[old], renumbered, kappa[old], multiplicity=mult[old]) == (
        pytest.approx(norm(v, parents, kappa, multiplicity=mult), rel=1e-13)
    )
    assert_array_equal(prox(v, parents, 0.1), prox(v, parents, np.full(n, 0.1)))


# ------------------------------------------------------------- large, extreme


@pytest.mark.parametrize("prox", PROXES)
def test_chain_of_a_million_nodes(prox):
    n = 1_000_000
    rng = np.random.default_rng(0)
    v = rng.standard_normal(n)
    parents = np.arange(n) - 1
    w = prox(v, parents, 1e-3)
    assert np.isfinite(w).all() and np.count_nonzero(w) > 0
    norm = NORMS[prox]
    # <v - w, w> = Omega(w) is the optimality condition along w itself
    assert (v - w) @ w == pytest.approx(norm(w, parents, 1e-3), rel=1e-7)
    # deepest node first: the renumbering must not recurse either
    upside_down = np.arange(1, n + 1)
    upside_down[-1] = -1
    assert_array_equal(prox(v[::-1], upside_down, 1e-3), w[::-1])


def test_star_of_many_heaps():
    """All heaps meet at one node, which removes most of the clusters."""
    n = 20_000
    rng = np.random.default_rng(0)
    v = rng.random(n)
    parents = np.zeros(n, int)
    parents[0] = -1
    kappa = np.zeros(n)
    kappa[0] = 0.9 * v.sum()
    w = prox_tree_linf(v, parents, kappa)
    assert (v - w).sum() == pytest.approx(kappa[0], rel=1e-12)
    assert_array_equal(w, np.minimum(v, w.max()))


@pytest.mark.parametrize("prox", PROXES)
@pytest.mark.parametrize("exponent", [-1040, 1000])
def test_extreme_magnitudes(prox, exponent):
    rng = np.random.default_rng(0)
    parents = random_forest(50, rng)
    v = 1 + rng.integers(0, 8, 50) / 8.0  # few bits: exact even when subnormal
    w = prox(v, parents, 0.125)
    scaled = prox(np.ldexp(v, exponent), parents, np.ldexp(0.125, exponent))
    assert_allclose(np.ldexp(scaled, -exponent), w, rtol=1e-9)
    norm = NORMS[prox]
    want = np.ldexp(norm(v, parents), exponent)
    assert norm(np.ldexp(v, exponent), parents) == pytest.approx(want, rel=1e-9)


def test_overflow_of_a_norm_is_infinite_not_nan():
    v = np.full(10, 1e308)
    parents = np.arange(10) - 1
    assert norm_tree_l2(v, parents) == np.inf
    assert norm_tree_linf(v, parents) == np.inf


@pytest.mark.parametrize("prox", PROXES)
def test_dtypes_and_inputs_untouched(prox):
    v = np.array(DESIGN_V, dtype=np.float32)
    v.flags.writeable = False
    parents = np.array(DESIGN_PARENTS, dtype=np.int16)
    parents.flags.writeable = False
    w = prox(v, parents, 0.8)
    assert w.dtype == np.float32
    exact = prox(DESIGN_V, DESIGN_PARENTS, 0.8)
    assert exact.dtype == np.float64
    assert_array_equal(w, prox(v.astype(float), parents, 0.8).astype(np.float32))
    assert_array_equal(prox(np.repeat(v, 2)[::2], parents.astype(np.int64), 0.8), w)
    assert_array_equal(v, DESIGN_V)
    roots_first = np.array([0, 0], dtype=np.uint8)  # no root: a cycle
    with pytest.raises(ValueError, match="parents"):
        prox([1.0, 2.0], roots_first, 0.1)


@pytest.mark.parametrize("prox", PROXES)
def test_empty(prox):
    w = prox([], [], 0.5)
    assert w.shape == (0,) and w.dtype == np.float64
    assert prox(np.empty(0, np.float32), [], np.empty(0)).dtype == np.float32
    assert NORMS[prox]([], []) == 0.0


# ------------------------------------------------------------- kernels on ranges


def level_forest(rng, shards=3):
    """Levels in order, each level in `shards` blocks, subtrees inside one block
    from level 1 down; the children of a level-0 node are in all blocks.

    Returns parents and, per level, the bounds of the blocks.
    """
    sizes = [(5,), *(tuple(rng.integers(1, 30, shards)) for _ in range(6))]
    parents, bounds, above = [np.full(5, -1)], [np.array([0, 5])], None
    start = 5
    for level, size in enumerate(sizes[1:], 1):
        edges = start + np.concatenate([[0], np.cumsum(size)])
        for b, k in enumerate(size):
            low, high = (0, 5) if level == 1 else (above[b], above[b + 1])
            parents.append(np.sort(rng.integers(low, high, k)))
        bounds.append(edges)
        above, start = edges, edges[-1]
    return np.concatenate(parents).astype(np.int32), bounds


def run_sharded(parents, bounds, up, down=None, push=None, workers=3):
    """The order the language-model solver uses; sums of the up calls returned."""
    shards = range(len(bounds[1]) - 1)

    def upward(b):
        total = 0.0
        for level in range(len(bounds) - 1, 0 if push else 1, -1):
            total += up(*bounds[level][b : b + 2]) or 0.0
        return total

    def downward(b):
        for level in range(1, len(bounds)):
            down(*bounds[level][b : b + 2])

    with ThreadPoolExecutor(workers) as pool:
        total = sum(pool.map(upward, shards))
        total += (push or up)(bounds[1][0], bounds[1][-1]) or 0.0
        total += up(0, bounds[0][1]) or 0.0
        if down is not None:
            down(0, bounds[0][1])
            list(pool.map(downward, shards))
    return total


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("per_node", [False, True])
def test_shards_equal_one_call_bitwise(seed, per_node):
    rng = np.random.default_rng(seed)
    parents, bounds = level_forest(rng)
    n = len(parents)
    v = rng.standard_normal(n)
    size = n if per_node else 1
    kappa, scale = 0.2 * rng.random(size), 0.5 + rng.random(size)
    if per_node:  # equal levels of different masses: their order decides on last bits
        v[1::2], kappa[1::2], kappa[:5] = np.round(v[1::2]), 0.0, 20.0

    slots = kernels.tree_linf_slots(n)
    for _ in range(2):  # the second time on the slots as the first one left them
        w = v.copy()
        state = np.zeros(n)
        run_sharded(
            parents, bounds,
            lambda lo, hi, w=w, state=state: kernels.tree_l2_up(
                parents, kappa, scale, w, state, lo, hi),
            lambda lo, hi, w=w, state=state: kernels.tree_l2_down(
                parents, kappa, w, state, lo, hi),
        )  # fmt: skip
        kappa_public = kappa if per_node else kappa[0]
        scale_public = scale if per_node else scale[0]
        assert_array_equal(
            w, prox_tree_l2(v, parents, kappa_public, multiplicity=scale_public)
        )

        w = v.copy()
        run_sharded(
            parents, bounds,
            lambda lo, hi, w=w: kernels.tree_linf_up(
                parents, kappa, scale, w, slots, lo, hi, lo >= bounds[2][0]),
            lambda lo, hi, w=w: kernels.tree_linf_down(parents, w, slots, lo, hi),
            lambda lo, hi: kernels.tree_linf_push(parents, slots, lo, hi),
        )  # fmt: skip
        assert_array_equal(
            w, prox_tree_linf(v, parents, kappa_public, metric=scale_public)
        )

    state = np.zeros(n)
    total = run_sharded(
        parents, bounds,
        lambda lo, hi: kernels.tree_norm_up(
            parents, kappa, np.ones(1), v, state, False, lo, hi),
    )  # fmt: skip
    assert total == pytest.approx(norm_tree_l2(v, parents, kappa_public), rel=1e-13)
    state = np.zeros(n)
    total = run_sharded(
        parents, bounds,
        lambda lo, hi: kernels.tree_norm_up(
            parents, kappa, np.ones(1), v, state, True, lo, hi),
    )  # fmt: skip
    assert total == pytest.approx(norm_tree_linf(v, parents, kappa_public), rel=1e-13)


def test_slots_are_ready_again_after_a_change_of_signs_and_zeros():
    """Marks and levels of an earlier sweep must not leak into a later one."""
    rng = np.random.default_rng(0)
    n = 300
    parents = random_forest(n, rng, 0.02, width=30).astype(np.int32)
    slots, one = kernels.tree_linf_slots(n), np.ones(1)
    for kappa in [0.05, 3.0, 0.05, 0.0, 0.4]:
        v = rng.standard_normal(n)
        w = v.copy()
        k = np.array([kappa])
        kernels.tree_linf_up(parents, k, one, w, slots, 0, n)
        kernels.tree_linf_down(parents, w, slots, 0, n)
        assert_array_equal(w, prox_tree_linf(v, parents, kappa))
    # given up half way, then reset
    kernels.tree_linf_up(parents, np.array([0.1]), one, v, slots, n // 2, n)
    slots["child"] = -1
    w = v.copy()
    kernels.tree_linf_up(parents, np.array([0.1]), one, w, slots, 0, n)
    kernels.tree_linf_down(parents, w, slots, 0, n)
    assert_array_equal(w, prox_tree_linf(v, parents, 0.1))


@pytest.mark.parametrize("prox", PROXES)
def test_more_nodes_than_one_kernel_call(prox, monkeypatch):
    from sklstruct.prox import _tree_prox

    rng = np.random.default_rng(0)
    parents, v = random_forest(1000, rng), rng.standard_normal(1000)
    whole = prox(v, parents, 0.1)
    total = NORMS[prox](v, parents)
    monkeypatch.setattr(_tree_prox, "_STRIDE", 7)
    assert_array_equal(prox(v, parents, 0.1), whole)
    assert NORMS[prox](v, parents) == pytest.approx(total, rel=1e-13)


# ------------------------------------------------------------- bad input

BAD = [
    ({"parents": [-1, 2, 1]}, "parents .* the first of them 1, lie on a cycle"),
    ({"parents": [-1, 1, 0]}, "parents .*cycle"),
    ({"parents": [-1, 0, 3]}, r"parents .*parents\[2\] = 3"),
    ({"parents": [-1, 0, -2]}, r"parents .*parents\[2\] = -2"),
    ({"parents": np.array([0, 1, 2**63], np.uint64)}, "parents holds .* 64-bit"),
    ({"parents": [-1, 0, 2**40]}, "parents must hold node numbers .* = 1099511627776"),
    ({"parents": [-1.0, 0.0, 0.0]}, "parents must hold integers"),
    ({"parents": [[-1, 0, 0]]}, "parents must be a 1-dim"),
    ({"v": [1.0, 2.0]}, r"v must have shape \(3,\)"),
    ({"v": [[1.0, 2.0, 3.0]]}, "v must have shape"),
    ({"v": [1.0, np.nan, 3.0]}, "v must be finite"),
    ({"v": [1.0, np.inf, -np.inf]}, "v must be finite"),
    ({"v": [1.0, 1j, 0]}, "v must hold real"),
    ({"v": ["a", "b", "c"]}, "v must hold real"),
    ({"multiplicity": [1, 0, 1]}, "multiplicity must be > 0"),
    ({"multiplicity": [1, 1]}, "multiplicity must be a scalar or"),
    ({"multiplicity": [1, np.nan, 1]}, "multiplicity must be finite"),
]
BAD_KAPPA = [
    (-0.1, "must be >= 0"),
    ([0.1, 0.1, -0.1], "must be >= 0"),
    ([0.1, 0.1], "must be a scalar or an array of shape"),
    ([[0.1, 0.1, 0.1]], "must be a scalar or an array of shape"),
    (np.nan, "must be finite"),
    (np.inf, "must be finite"),
    ("a", "must hold real numbers"),
    (True, "must hold real numbers"),
]


@pytest.mark.parametrize("change, message", BAD)
def test_bad_input(change, message):
    good = {"v": [1.0, 2.0, 3.0], "parents": [-1, 0, 0]}
    for prox in PROXES:
        with pytest.raises(ValueError, match=message):
            prox(**(good | {"kappa": 0.1} | change))
        with pytest.raises(ValueError, match=message):
            NORMS[prox](**(good | change))


@pytest.mark.parametrize("value, message", BAD_KAPPA)
def test_bad_thresholds(value, message):
    v, parents = [1.0, 2.0, 3.0], [-1, 0, 0]
    for prox in PROXES:
        with pytest.raises(ValueError, match="kappa " + message):
            prox(v, parents, value)
        with pytest.raises(ValueError, match="weights " + message):
            NORMS[prox](v, parents, value)


def test_bad_metric_and_flags():
    v, parents = [1.0, 2.0, 3.0], [-1, 0, 0]
    for metric, message in [
        ([1, 1, 0], "metric must be > 0"),
        ([1, 1, np.inf], "metric must be finite"),
        ([1, 1], "metric must be a scalar or"),
        (1e308, "multiplicity [*] metric"),
    ]:
        with pytest.raises(ValueError, match=message):
            prox_tree_linf(v, parents, 0.1, metric=metric)
    with pytest.raises(ValueError, match=r"multiplicity \* kappa"):
        prox_tree_linf(v, parents, 1e308, multiplicity=1e10)
    for prox in PROXES:
        with pytest.raises(ValueError, match="positive must be True or False"):
            prox(v, parents, 0.1, positive="no")


@pytest.mark.parametrize("kappa", [0.3, 1e-3, 40.0])
def test_many_children_step_by_step(kappa):
    """Leaves, then the nodes above them, then the root, each by the plain operator."""
    rng = np.random.default_rng(int(1e3 * kappa))
    middle = np.repeat([1, 2, 3], [200, 17, 3])
    parents = np.concatenate([[-1, 0, 0, 0], middle, np.zeros(300, dtype=int)])
    w = rng.standard_normal(parents.size)
    w[rng.random(w.size) < 0.2] = 0.25  # ties
    expected = w.copy()
    leaves = np.arange(parents.size) > 3
    expected[leaves] = np.sign(w[leaves]) * np.maximum(np.abs(w[leaves]) - kappa, 0)
    for q in (1, 2, 3):
        below_q = np.flatnonzero(parents == q)
        group = np.concatenate([[q], below_q])
        expected[group] = prox_lp(expected[group], kappa, np.inf)
    expected = prox_lp(expected, kappa, np.inf)
    assert_allclose(prox_tree_linf(w, parents, kappa), expected, atol=1e-12)
