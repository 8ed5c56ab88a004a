"""Operators without a tree of entries: optimality, invariants, peers, bad input."""

import threading
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from sklstruct import prox
from sklstruct.prox import _vectors

POWERS = [1, 1.1, 1.5, 2, 2.5, 4, 20, np.inf]


def dual_power(p):
    return np.inf if p == 1 else 1.0 if p == np.inf else p / (p - 1)


def lp(x, p):
    top = np.abs(x).max(initial=0.0)
    return top * np.linalg.norm(x / top, p) if top > 0 else 0.0


def assert_optimal(v, w, kappa, p, metric=1.0):
    """0 is in D (w - v) + kappa times the subdifferential of ||.||_p at w.

    That is: the residual lies in the ball of the dual norm, and pays for w in full.
    """
    residual = metric * (v - w)
    scale = lp(metric * v, dual_power(p)) + kappa
    assert lp(residual, dual_power(p)) <= kappa + 1e-12 * scale
    assert abs(residual @ w - kappa * lp(w, p)) <= 1e-12 * scale * (lp(w, p) + 1e-300)


def draw(rng, n):
    v = rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)
    return np.where(rng.random(n) < 0.2, 0.0, v)


# ------------------------------------------------------------------ one vector


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("seed", range(3))
def test_lp_is_optimal_in_any_metric(p, seed):
    rng = np.random.default_rng(seed)
    v = draw(rng, int(rng.integers(1, 9)))
    metric = 10.0 ** rng.uniform(-2, 2, v.size) if seed % 2 else np.ones(v.size)
    dual = lp(metric * v, dual_power(p))
    for part in (0, 1e-6, 0.1, 0.5, 0.9, 0.999, 1.1):
        w = prox.prox_lp(v, part * dual, p, metric=metric)
        assert_optimal(v, w, part * dual, p, metric)
        assert (part < 1) or not w.any()


def test_lp_with_powers_near_the_ends_and_small_strengths():
    v = [3.0, -4.0, 1.0]
    # the first two by bisection with 60 digits
    for p, kappa, expected in [
        (1 + 1e-6, 0.5, [2.500000477755109, -3.500000309519174, 0.5000012824714616]),
        (1000, 2.0, [2.49806788114262, -2.500805547983036, 1]),
        (1 + 1e-15, 0.5, [2.5, -3.5, 0.5]),
        (1e300, 2.0, [2.5, -2.5, 1.0]),
        *[(p, 1e-200, v) for p in (1 + 1e-12, 1.5, 3, 500, 1e4, 1e300)],
    ]:
        assert_allclose(prox.prox_lp(v, kappa, p), expected, rtol=4e-15)
        w = prox.prox_group_lasso(v * 2, [0] * 3 + [1] * 3, kappa, p=p)
        assert_allclose(w, expected * 2, rtol=4e-15)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_names_of_single_norms(p):
    v = np.array([3.0, -4.0, 1.0, 0.0])
    assert prox.norm_lp(v, p) == pytest.approx(np.linalg.norm(v, p))
    if p == 1:
        assert_allclose(prox.prox_l1(v, 0.7), prox.prox_lp(v, 0.7, 1), rtol=1e-15)


SEPARABLE = {
    "l0": (prox.prox_l0, lambda w, k: k * (w != 0), {}),
    "l1": (prox.prox_l1, lambda w, k: k * np.abs(w), {}),
    "l2_squared": (prox.prox_l2_squared, lambda w, k: k * w**2 / 2, {}),
    "elastic_net": (
        prox.prox_elastic_net,
        lambda w, k: k * (np.abs(w) + 0.3 * w**2 / 2),
        {"gamma": 0.3},
    ),
}


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("name", SEPARABLE)
def test_separable_operators_are_minimal_on_a_grid(name, positive):
    operator, penalty, options = SEPARABLE[name]
    rng = np.random.default_rng(0)
    v, kappa = rng.normal(size=40) * 2, rng.exponential(size=40)
    metric = rng.exponential(size=40) + 0.1
    w = operator(v, kappa, metric=metric, positive=positive, **options)
    grid = np.linspace(0 if positive else -8, 8, 4001)[:, None]
    grid = np.vstack([grid, np.zeros((1, 1))])

    def value(x):
        return 0.5 * metric * (x - v) ** 2 + penalty(x, kappa)

    assert (w >= 0).all() or not positive
    assert (value(w) <= value(grid).min(axis=0) + 1e-12).all()


def test_known_values_of_the_penalties():
    v = [3.0, 0.0, -4.0]
    assert prox.norm_elastic_net(v, 2.0) == 7 + 25
    assert prox.norm_total_variation(v) == 7
    assert prox.norm_total_variation(v[:2]) == 3
    assert prox.norm_fused_lasso(v, 2.0, 0.5) == 7 + 25 + 3.5
    assert prox.norm_group_lasso(v, [0, 1, 0]) == 5
    assert prox.norm_overlapping_groups(v, [[0, 2], [2]], p=3) == pytest.approx(
        91 ** (1 / 3) + 4
    )


# ------------------------------------------------------------------ partitions


@pytest.mark.parametrize("p", [2, 1, 1.5, 4, np.inf])
def test_group_lasso_is_the_operator_of_every_group(p):
    rng = np.random.default_rng(3)
    v, group = draw(rng, 60), rng.integers(0, 9, 60)
    labels = np.array(list("abcdefghi"))[group]
    present = np.unique(group)
    kappa = rng.exponential(size=present.size) * np.abs(v).max()
    metric = rng.exponential(size=60) + 0.1
    w = prox.prox_group_lasso(v, labels, kappa, p=p, metric=metric)
    norm = 0.0
    for k, g in zip(kappa, present):
        here = group == g
        alone = prox.prox_lp(v[here], k, p, metric=metric[here])
        assert_allclose(w[here], alone, rtol=1e-12, atol=1e-12 * np.abs(v).max())
        norm += k * lp(w[here], p)
    assert prox.norm_group_lasso(w, labels, kappa, p=p) == pytest.approx(norm)


@pytest.mark.parametrize("kappa", [0, 1e-17, 0.3, 1e12])
def test_group_lasso_of_groups_of_other_sizes(kappa):
    rng = np.random.default_rng(0)
    for _ in range(20):
        group = rng.integers(0, 4, 12)
        v = rng.normal(size=12) * np.array([1e9, 1.0, 1e-6, 1e17])[group]
        v[rng.integers(0, 12, 2)] = 0
        w = prox.prox_group_lasso(v, group, kappa, p=np.inf)
        for g in np.unique(group):
            one = prox.prox_lp(v[group == g], kappa, np.inf)
            assert_allclose(w[group == g], one, rtol=1e-13, atol=0)
        if kappa == 0:
            assert_allclose(w, v, rtol=1e-15)


def test_group_lasso_with_p_2_is_direct(monkeypatch):
    rng = np.random.default_rng(5)
    v, group = draw(rng, 60), rng.integers(0, 9, 60)
    norms = np.sqrt(np.bincount(group, v**2))
    kappa = np.append(0.0, norms[1:] * rng.uniform(0.5, 1.5, norms.size - 1))
    expected = (np.maximum(1 - kappa / norms, 0.0))[group] * v
    monkeypatch.setattr(_vectors, "_STEPS", 0)  # of Newton methods
    for metric in (None, 1.0, np.ones(60)):
        w = prox.prox_group_lasso(v, group, kappa, metric=metric)
        assert_allclose(w, expected, rtol=1e-13)
    a = rng.exponential(size=60)  # within groups, with any metric
    log_s, rate = _vectors._entries(np.abs(a * v) + 1, a, a[::-1], 2)
    assert_allclose(np.exp(log_s) * (a + a[::-1]), np.abs(a * v) + 1)
    assert_allclose(rate, a / (a + a[::-1]))


# ---------------------------------------------------------------------- groups


def laminar(rng, n):
    """Random nested groups over n entries, some of them equal, some entries free."""
    groups = []

    def split(members):
        if rng.random() < 0.8:
            groups.append(rng.permutation(members))
            if rng.random() < 0.2:
                groups.append(members.copy())
        if members.size > 1 and rng.random() < 0.8:
            cut = int(rng.integers(1, members.size))
            split(members[:cut])
            split(members[cut + int(rng.random() < 0.3) :])

    members = rng.permutation(n)
    split(members[: max(1, n - 1)])
    groups = [g for g in groups if g.size]
    return [groups[i] for i in rng.permutation(len(groups))]


def one_after_the_other(v, groups, kappa, p):
    """Smaller groups first: the definition."""
    w = v.copy()
    for g in np.argsort([len(g) for g in groups], kind="stable"):
        w[groups[g]] = prox.prox_lp(w[groups[g]], kappa[g], p)
    return w


@pytest.mark.parametrize("p", [2, np.inf])
@pytest.mark.parametrize("seed", range(4))
def test_nested_groups_compose(p, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    v, groups = draw(rng, n), laminar(rng, n)
    kappa = rng.exponential(size=len(groups)) * 0.3 * (np.abs(v).max() + 0.1)
    w = prox.prox_overlapping_groups(v, groups, kappa, p=p)
    scale = np.abs(v).max()
    expected = one_after_the_other(v, groups, kappa, p)
    assert_allclose(w, expected, rtol=1e-10, atol=1e-12 * scale)
    assert not w[expected == 0].any()
    norm = prox.norm_overlapping_groups(w, groups, kappa, p=p)
    by_hand = sum(k * lp(w[g], p) for k, g in zip(kappa, groups))
    assert norm == pytest.approx(by_hand, rel=1e-12)


def splitting(v, groups, kappa, p, n_iter):
    """Another method: alternating directions with a copy of w for every group."""
    copies = [v[g].copy() for g in groups]
    duals = [np.zeros(len(g)) for g in groups]
    count = np.ones(v.size)
    for g in groups:
        count[g] += 1
    for _ in range(n_iter):
        w = v.copy()
        for g, z, u in zip(groups, copies, duals):
            w[g] += z - u
        w /= count
        for j, g in enumerate(groups):
            moved = w[g] + duals[j]
            if p == 2:
                copies[j] = moved * max(0.0, 1.0 - kappa[j] / np.linalg.norm(moved))
            else:
                copies[j] = prox.prox_lp(moved, kappa[j], p)
            duals[j] += w[g] - copies[j]
    return w


@pytest.mark.parametrize("p, seed", [(2, 0), (np.inf, 1)])
def test_overlapping_groups_against_splitting(p, seed):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=7)
    groups = [rng.choice(7, int(rng.integers(1, 6)), replace=False) for _ in range(5)]
    kappa = rng.uniform(0.1, 0.5, 5)
    w = prox.prox_overlapping_groups(v, groups, kappa, p=p, tol=1e-10)
    assert_allclose(w, splitting(v, groups, kappa, p, 600), atol=1e-5)


@pytest.mark.parametrize("p", [2, np.inf])
@pytest.mark.parametrize("seed", range(2))
def test_tree_guided_groups_are_nested_groups_of_rows(p, seed):
    """The guide's call for all rows of a matrix, and one call per row."""
    rng = np.random.default_rng(seed)
    v, outputs = rng.normal(size=(4, 6)), laminar(rng, 6)
    kappa = rng.uniform(0.1, 0.4, len(outputs))
    rows = [np.asarray(g) + 6 * i for i in range(4) for g in outputs]
    w = prox.prox_overlapping_groups(v.ravel(), rows, np.tile(kappa, 4), p=p)
    w = w.reshape(v.shape)
    for row, got in zip(v, w):
        assert_allclose(got, one_after_the_other(row, outputs, kappa, p), atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_latent_groups_are_a_partition_of_copies(seed):
    """The guide's way, beside v less its projection on the dual ball."""
    rng = np.random.default_rng(seed)
    v = rng.normal(size=7)
    groups = [np.sort(rng.choice(7, 3, replace=False)) for _ in range(4)]
    kappa = rng.uniform(0.2, 1.0, 4)
    copies, of_group = np.concatenate(groups), np.repeat(np.arange(4), 3)
    parts, step = np.zeros(copies.size), 1.0 / np.bincount(copies).max()
    for _ in range(3000):
        gradient = (np.bincount(copies, parts, minlength=7) - v)[copies]
        before, parts = parts, parts - step * gradient
        parts = prox.prox_group_lasso(parts, of_group, step * kappa)
        if np.abs(parts - before).max() < 1e-10:
            break
    # Dykstra: the projection of v on {u : ||u_g|| <= kappa_g for all g}.
    inside = np.unique(copies)
    u, moved = v.copy(), [np.zeros(3) for _ in groups]
    for _ in range(20_000):
        before = u.copy()
        for g, (members, radius) in enumerate(zip(groups, kappa)):
            point = u[members] + moved[g]
            u[members] = point * min(1.0, radius / np.linalg.norm(point))
            moved[g] = point - u[members]
        if np.abs(u - before).max() < 1e-12:
            break
    want = np.zeros(7)
    want[inside] = (v - u)[inside]
    assert_allclose(np.bincount(copies, parts, minlength=7), want, atol=1e-5)


@pytest.mark.parametrize("p", [2, np.inf])
def test_the_tolerance_of_overlapping_groups_holds(p):
    rng = np.random.default_rng(7)
    v = rng.normal(size=50)
    groups = [rng.choice(50, 12, replace=False) for _ in range(30)]
    best = prox.prox_overlapping_groups(v, groups, 0.3, p=p, tol=1e-11)
    for tol in (1e-1, 1e-3, 1e-5, 1e-7):
        w = prox.prox_overlapping_groups(v, groups, 0.3, p=p, tol=tol)
        assert np.linalg.norm(w - best) <= (tol + 1e-11) * np.linalg.norm(v)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 rounds"):
        prox.prox_overlapping_groups(v, groups, 0.3, p=p, max_iter=1)


# ------------------------------------------------------------- total variation


@pytest.mark.parametrize("seed", range(6))
def test_total_variation_has_a_dual_certificate(seed):
    """D (v - w) is the divergence of u with |u| <= kappa, tight where w steps."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    v = rng.integers(-3, 4, n).astype(float) if seed % 3 else draw(rng, n)
    kappa = rng.exponential(size=n - 1) * 10.0 ** rng.integers(-2, 2)
    kappa[rng.random(n - 1) < 0.2] = 0
    metric = rng.exponential(size=n) + 0.05 if seed % 2 else np.ones(n)
    w = prox.prox_total_variation(v, kappa, metric=metric)
    u = np.cumsum(metric * (w - v))
    scale = 1e-12 * ((metric * np.abs(v)).sum() + kappa.sum() + 1)
    assert abs(u[-1]) <= scale
    assert (np.abs(u[:-1]) <= kappa + scale).all()
    step = np.diff(w)
    moved = np.abs(step) > 1e-9 * np.abs(v).max()
    assert_allclose(u[:-1][moved], (kappa * np.sign(step))[moved], atol=scale)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("seed", range(3, 6))
def test_fused_lasso_has_a_subgradient(seed, positive):
    """A linear program finds the subgradients that add up to v - w."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    v = rng.integers(-4, 5, n) / 2
    kappa, gamma, fusion = rng.uniform(0, 1.5, 3)
    options = {"gamma": gamma, "fusion": fusion, "positive": positive}
    w = prox.prox_fused_lasso(v, kappa, **options)
    assert (w >= 0).all() or not positive
    # v - w = kappa (s + gamma w + fusion D'u) - m, m >= 0 where w = 0 (positive)
    s = [(np.sign(x), np.sign(x)) if abs(x) > 1e-12 else (-1, 1) for x in w]
    u = [(np.sign(x), np.sign(x)) if abs(x) > 1e-12 else (-1, 1) for x in np.diff(w)]
    m = [(0, None if positive and x <= 1e-12 else 0) for x in w]
    slack = [(None, None)] * n + [(0, None)]
    D = np.diff(np.eye(n), axis=0) if n > 1 else np.zeros((0, n))
    A = np.hstack([kappa * np.eye(n), kappa * fusion * D.T, -np.eye(n), np.eye(n),
                   np.zeros((n, 1))])  # fmt: skip
    b = v - w - kappa * gamma * w
    zero = np.zeros((n, 2 * n + n - 1))
    bound = np.vstack([np.hstack([zero, x * np.eye(n), -np.ones((n, 1))])
                       for x in (1, -1)])  # fmt: skip
    cost = np.append(np.zeros(A.shape[1] - 1), 1.0)
    found = linprog(cost, bound, np.zeros(2 * n), A, b, [*s, *u, *m, *slack])
    assert found.fun <= 1e-9


def test_long_and_extreme_sequences():
    v = np.random.default_rng(0).normal(size=200_000).cumsum()
    w = prox.prox_total_variation(v, 20.0)
    u = np.cumsum(w - v)
    assert np.abs(u).max() <= 20 * (1 + 1e-8) and np.unique(w).size < 50_000
    assert_allclose(prox.prox_total_variation(v, 1e300), v.mean(), rtol=1e-9)
    assert_allclose(prox.prox_total_variation(v, 0.0), v, rtol=1e-14)


# -------------------------------------------------------------------- matrices


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (1, 6)])
def test_trace_is_optimal(shape):
    v = np.random.default_rng(1).normal(size=shape) * 3
    for kappa in (0.0, 1.0, 3.0, 100.0):
        w = prox.prox_trace(v, kappa)
        assert np.linalg.norm(v - w, 2) <= kappa + 1e-12
        assert ((v - w) * w).sum() == pytest.approx(kappa * np.linalg.norm(w, "nuc"))
    assert not w.any()
    assert prox.prox_trace(np.zeros((0, 3)), 1.0).shape == (0, 3)


@pytest.mark.parametrize("waits", [True, False])
def test_interrupt_of_a_decomposition(waits, interrupt, monkeypatch):
    svd, ends = np.linalg.svd, threading.Event()

    def interrupted(*args, **kwargs):
        interrupt()
        if waits:
            ends.wait(timeout=600)
            raise RuntimeError("the test has ended")
        return svd(*args, **kwargs)

    monkeypatch.setattr(np.linalg, "svd", interrupted)
    # A decomposition of this size takes many times as long as the signal.
    v = np.random.default_rng(0).normal(size=(1500, 1500))
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        prox.prox_trace(v, 1.0)
    [thread] = set(threading.enumerate()) - before  # it has not ended yet
    ends.set()
    thread.join(timeout=600)


def test_overlapping_groups_at_any_strength():
    # All of one size: the dual norm of a group is as large as it can be.
    v = np.ones(30)
    groups = [range(30), [3, 4]]
    w = prox.prox_overlapping_groups(v, groups, 1e6, p=np.inf)
    assert_allclose(w, 0.0, atol=1e-9)


@pytest.mark.parametrize("p", [2, np.inf])
def test_one_round_is_exact_where_groups_are_nested(p):
    rng = np.random.default_rng(0)
    v, groups = (
        rng.normal(size=12),
        [[*range(12)], [*range(6)], [*range(3)], [7, 8], [1]],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        w = prox.prox_overlapping_groups(v, groups, 0.3, p=p, max_iter=1, tol=1e-9)
    assert_allclose(w, one_after_the_other(v, groups, [0.3] * 5, p), atol=1e-12)


def test_rounds_are_counted():
    v, groups = np.arange(1.0, 9.0), [range(5), range(3, 8)]

    def after(n):
        with pytest.warns(ConvergenceWarning, match=f"max_iter={n} rounds"):
            return prox.prox_overlapping_groups(v, groups, 0.9, max_iter=n, tol=1e-12)

    exact = prox.prox_overlapping_groups(v, groups, 0.9, tol=1e-12, max_iter=10**5)
    error = [np.linalg.norm(after(n) - exact) for n in (1, 2, 3, 4)]
    assert (np.diff(error) < 0).all()


@pytest.mark.parametrize("shape", [(480, 470), (700, 600)])
def test_trace_of_a_large_matrix(shape):
    # Large enough for its own thread.
    v = np.random.default_rng(0).normal(size=shape)
    w = prox.prox_trace(v, 40.0)
    sigma = np.linalg.svd(v, compute_uv=False)
    shrunk = np.maximum(sigma - 40.0, 0)
    assert_allclose(np.linalg.svd(w, compute_uv=False), shrunk, atol=1e-10)
    # The optimum: v - w is a subgradient of 40 times the norm at w.
    assert ((v - w) * w).sum() == pytest.approx(40.0 * shrunk.sum())


# ------------------------------------------------------- all of them together

GROUPS = [[0, 1, 2], [2, 3], [4, 5], [0, 1]]
NESTED = [[0, 1, 2], [3, 4, 5], [0, 1], [5]]
CONVEX = {
    "l1": prox.prox_l1,
    "l2": lambda v, k, **o: prox.prox_lp(v, k, 2, **o),
    "l2_squared": prox.prox_l2_squared,
    "linf": lambda v, k, **o: prox.prox_lp(v, k, np.inf, **o),
    "l3": lambda v, k, **o: prox.prox_lp(v, k, 3, **o),
    "elastic_net": prox.prox_elastic_net,
    "group_lasso": lambda v, k, **o: prox.prox_group_lasso(v, list("aabbcc"), k, **o),
    "nested": lambda v, k, **o: prox.prox_overlapping_groups(v, NESTED, k, **o),
    "nested_inf": lambda v, k, **o: prox.prox_overlapping_groups(
        v, NESTED, k, p=np.inf, **o
    ),
    "overlapping": lambda v, k, **o: prox.prox_overlapping_groups(v, GROUPS, k, **o),
    "overlapping_inf": lambda v, k, **o: prox.prox_overlapping_groups(
        v, GROUPS, k, p=np.inf, **o
    ),
    "total_variation": prox.prox_total_variation,
    "fused_lasso": prox.prox_fused_lasso,
}  # fmt: skip


@pytest.mark.parametrize("name", CONVEX)
def test_invariants(name):
    operator = CONVEX[name]
    rng = np.random.default_rng(11)
    a, b = rng.normal(size=(2, 6)) * 3
    a.setflags(write=False)
    wa, wb = operator(a, 0.5), operator(b, 0.5)
    # firmly non-expansive, as every operator of a convex penalty
    assert (wa - wb) @ (wa - wb) <= (wa - wb) @ (a - b) + 1e-6
    assert_allclose(operator(a, 0.0), a, atol=1e-12)
    assert_allclose(operator(-a, 0.5), -wa, atol=1e-7)
    single = operator(a.astype(np.float32), 0.5)
    assert single.dtype == np.float32 and wa.dtype == np.float64
    assert_allclose(single, wa, rtol=1e-5, atol=1e-6)
    w = operator(a, 0.5, positive=True)
    assert (w >= 0).all()
    assert operator(list(a), 0.5).shape == (6,)


HOMOGENEOUS = sorted(set(CONVEX) - {"l2_squared", "elastic_net"})


@pytest.mark.parametrize("unit", [1e-300, 1e300])
@pytest.mark.parametrize("name", HOMOGENEOUS)
def test_no_scale_overflows(name, unit):
    operator = CONVEX[name]
    a = np.array([3.0, -2.0, 1.5, 1.0, -0.5, 2.5])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        w = operator(a * unit, 0.5 * unit) / unit
        assert not operator(a * 0, 0.5).any()
    assert_allclose(w, operator(a, 0.5), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CONVEX)
def test_positive_is_the_minimum_over_the_positive_orthant(name):
    """The projection beforehand or afterwards is checked, not believed."""
    operator = CONVEX[name]
    rng = np.random.default_rng(2)
    v = rng.normal(size=6) * 2
    w = operator(v, 0.4, positive=True)

    # The operator with the orthant is the limit of alternating reflections.
    z = v.copy()
    for _ in range(1000):
        x = np.maximum(z, 0.0)
        # prox of the penalty plus half the distance to v, at 2 x - z
        y = operator((2 * x - z + v) / 2, 0.2)
        z = z + y - x
    assert_allclose(w, x, atol=1e-4)


BAD = {
    "shape": (lambda: prox.prox_l1([[1.0]], 1.0), "v must be a 1-D array"),
    "nan": (lambda: prox.prox_lp([np.nan], 1.0, 3), "v must be finite"),
    "text": (lambda: prox.prox_lp(["a"], 1.0, 2), "v must hold real numbers"),
    "kappa": (lambda: prox.prox_l1([1.0], -1.0), "kappa must be >= 0"),
    "block": (lambda: prox.prox_lp([1.0, 2.0], [1.0] * 2, 2), "a number .*got .1.0, 1"),
    "entries": (lambda: prox.prox_l1([1.0, 2.0], [1.0] * 3), "one value per entry"),
    "metric": (lambda: prox.prox_l0([1.0], 1.0, metric=0.0), "metric must be > 0"),
    "flag": (lambda: prox.prox_l1([1.0], 1.0, positive=1), "positive must be True"),
    "power": (lambda: prox.prox_lp([1.0], 1.0, 0.5), "p must be a number in .1, inf"),
    "no power": (lambda: prox.norm_lp([1.0], "2"), "p must be a number"),
    "nan power": (lambda: prox.norm_lp([1.0], np.nan), "p must be a number in .1, inf"),
    "gamma": (lambda: prox.prox_elastic_net([1], 1, -1), "gamma must be a number in "),
    "flags": (lambda: prox.prox_trace([[1.0]], True), "kappa must be a number in .0, "),
    "huge": (lambda: prox.prox_trace([[1.0]], 10**400), "kappa must be .* below 1.8e"),
    "labels": (lambda: prox.prox_group_lasso([1.0], [0, 1], 1.0), "groups must have"),
    "float labels": (lambda: prox.prox_group_lasso([1.0], [0.5], 1.0), "labels"),
    "group": (lambda: prox.prox_overlapping_groups([1.0], [[1]], 1.0), "= 1 is not a"),
    "negative": (lambda: prox.norm_overlapping_groups([1.0], [[-1]]), "= -1 is not a"),
    "twice": (lambda: prox.norm_overlapping_groups([1.0], [[0, 0]]), "holds 0 twice"),
    "empty": (lambda: prox.norm_overlapping_groups([1.0], [[]]), "at least one"),
    "floats": (lambda: prox.norm_overlapping_groups([1.0], [[0.5]]), "hold integers"),
    "tree power": (
        lambda: prox.prox_overlapping_groups([1.0], [[0]], 1.0, p=3),
        "p must be one of 2, inf",
    ),
    "tol": (
        lambda: prox.prox_overlapping_groups([1.0], [[0]], 1.0, tol=0.0),
        "tol must be a number in .1e-12, inf",
    ),
    "max_iter": (
        lambda: prox.prox_overlapping_groups([1.0], [[0]], 1.0, max_iter=0),
        "max_iter must be",
    ),
    "neighbours": (
        lambda: prox.prox_total_variation([1.0, 2.0], [1.0, 1.0]),
        "one value per two neighbours",
    ),
    "vector": (lambda: prox.prox_trace([1.0], 1.0), "v must be a 2-D array"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_empty_vectors():
    for operator in (prox.prox_l0, prox.prox_l1, prox.prox_total_variation,
                     prox.prox_fused_lasso):  # fmt: skip
        assert operator([], 1.0).shape == (0,)
    for p in (1, 2, 3, np.inf):
        assert prox.prox_lp([], 1.0, p).shape == (0,)
    assert prox.prox_group_lasso([], np.empty(0, int), 1.0).shape == (0,)
    assert prox.prox_overlapping_groups([], [], 1.0).shape == (0,)
    assert prox.prox_overlapping_groups([1.0], [], 1.0).tolist() == [1.0]
    assert prox.norm_total_variation([]) == prox.norm_lp([], 2) == 0
    assert prox.prox_total_variation([3.0], 1.0).tolist() == [3.0]


# ----------------------------------------------------------------------- peers


@pytest.fixture
def peer():
    return pytest.importorskip("spams", reason="SPAMS is not installed")


def test_against_spams(peer):
    rng = np.random.default_rng(0)
    for n in (1, 8, 300):
        v = np.asfortranarray(rng.normal(size=(n, 1)) * 3)
        x = v.ravel()

        def theirs(name, v=v, **options):
            return peer.proximalFlat(v, False, regul=name, **options).ravel()

        group = rng.integers(1, 4, n).astype(np.int32)
        present = np.unique(group)
        small = np.unique(group, return_inverse=True)[1].astype(np.int32) + 1
        two = [np.flatnonzero(group == g) for g in present] + [[i] for i in range(n)]
        strengths = [1.0] * present.size + [0.4] * n
        pairs = [
            (theirs("l0", lambda1=1.0), prox.prox_l0(x, 1.0)),
            (theirs("l1", lambda1=1.0), prox.prox_l1(x, 1.0)),
            (theirs("l2-not-squared", lambda1=1.0), prox.prox_lp(x, 1.0, 2)),
            (theirs("linf", lambda1=1.0), prox.prox_lp(x, 1.0, np.inf)),
            (theirs("l2", lambda1=1.0), prox.prox_l2_squared(x, 1.0)),
            (
                theirs("elastic-net", lambda1=1.0, lambda2=0.5),
                prox.prox_elastic_net(x, 1.0, 0.5),
            ),
        ]
        for p, name in ((2, "l2"), (np.inf, "linf")):
            pairs += [
                (
                    theirs(f"group-lasso-{name}", lambda1=1.0, groups=small),
                    prox.prox_group_lasso(x, group, 1.0, p=p),
                ),
                (
                    theirs(f"sparse-group-lasso-{name}", lambda1=1.0, lambda2=0.4,
                           groups=small),
                    prox.prox_overlapping_groups(x, two, strengths, p=p),
                ),
            ]  # fmt: skip
        if n > 1:
            ours = prox.prox_fused_lasso(x, 0.7, fusion=3 / 7, gamma=2 / 7)
            options = {"lambda1": 0.3, "lambda2": 0.7, "lambda3": 0.2}
            pairs.append((theirs("fused-lasso", **options), ours))
        for a, b in pairs:
            assert_allclose(a, b, atol=1e-9)
    V = np.asfortranarray(rng.normal(size=(6, 4)) * 2)
    ours = prox.prox_trace(V, 1.0)
    assert_allclose(peer.proximalFlat(V, False, regul="trace-norm", lambda1=1.0), ours)
