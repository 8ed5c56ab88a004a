"""Loss, penalties and solvers against dense and generic computations."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import log_softmax

from sklstruct._parallel import ThreadMap
from sklstruct.context_tree import ContextTree
from sklstruct.context_tree._tree import Histories
from sklstruct.loglinear._estimator import _expand_weights
from sklstruct.loglinear._loss import LogLinearLoss, Shards
from sklstruct.loglinear._penalties import PENALTIES
from sklstruct.loglinear._solvers import SOLVERS

V = 5  # one class more than the targets use
NAMES = sorted(PENALTIES)


# ------------------------------------------------------------------- loss


def make_tree(seed, m, collapse=False, n=70, n_symbols=3):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_symbols, size=(n, 6)).astype(np.int32)
    X[rng.random(X.shape) < 0.1] = -1
    y = rng.integers(0, V - 1, n).astype(np.int32)
    weight = rng.random(n) + 0.1
    tree, terminal = ContextTree.from_histories(
        Histories.from_windows(X, m), n_symbols, collapse=collapse
    )
    tree.count_pairs(terminal, y, V, weight)
    return tree, terminal, y, weight


def weights_for(tree, seed, positive=True):
    w = np.random.default_rng(seed).random(tree.n_pairs)
    if not positive:
        w -= 0.5
    w[:V][tree.count[:V] == 0] = 0.0
    return w


def dense(tree, terminal, y, weight, beta_of_node, w):
    """Loss and gradient by a softmax over all classes for every sample."""
    node = np.repeat(np.arange(tree.n_nodes), np.diff(tree.pair_ptr))
    table = np.zeros((tree.n_nodes, V))
    table[node, tree.target] = w
    active = np.zeros((len(y), tree.n_nodes))
    for i, x in enumerate(terminal):
        while x >= 0:
            active[i, x] = beta_of_node[x]
            x = tree.parent[x]
    log_p = log_softmax(active @ table, axis=1)
    error = np.exp(log_p)
    error[np.arange(len(y)), y] -= 1
    gradient = (active.T @ (weight[:, None] * error))[node, tree.target]
    gradient[:V][tree.count[:V] == 0] = 0.0
    return -(weight * log_p[np.arange(len(y)), y]).sum(), gradient


def betas(tree, beta):
    if tree.span is None:
        return beta[tree.levels()]
    depth = tree.depths()
    return np.array([beta[d - s + 1 : d + 1].sum() for d, s in zip(depth, tree.span)])


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("collapse", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 0.7, 1.2])
@pytest.mark.parametrize("m", [0, 1, 2, 5])
def test_equals_dense_softmax(m, alpha, collapse, positive):
    tree, terminal, y, weight = make_tree(m, m, collapse)
    beta = alpha ** np.arange(m + 1.0)
    w = weights_for(tree, 1, positive)
    value, gradient = dense(tree, terminal, y, weight, betas(tree, beta), w)
    loss = LogLinearLoss(tree, beta)
    found, g = loss.value_and_gradient(w, np.empty_like(w))
    assert found == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(g, gradient, atol=1e-12)
    assert loss.value(w) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("collapse", [False, True])
def test_gradient_equals_finite_differences(collapse):
    tree, *_ = make_tree(0, 4, collapse)
    loss = LogLinearLoss(tree, 0.8 ** np.arange(5.0))
    w = weights_for(tree, 2)
    _, g = loss.value_and_gradient(w, np.empty_like(w))
    numeric = approx_fprime(w, loss.value, 1e-6)
    free = np.ones(w.size, dtype=bool)
    free[:V] = tree.count[:V] > 0
    np.testing.assert_allclose(g[free], numeric[free], atol=2e-5)


@pytest.mark.parametrize("collapse", [False, True])
def test_expected_counts_of_a_level_sum_to_the_weight_below(collapse):
    # Over all classes, sum E - c = 0 at each node once the pairs that do not exist
    # are counted; at the root, which is dense, they all exist.
    tree, *_ = make_tree(1, 3, collapse)
    loss = LogLinearLoss(tree, np.ones(4))
    w = weights_for(tree, 3)
    _, g = loss.value_and_gradient(w, np.empty_like(w))
    unseen = tree.count[:V] == 0
    _, es, z = loss.value_and_scores(w)
    # E of the unseen class, whose gradient is not reported.
    a_root = (tree.node_weight / z).sum()
    assert g[:V].sum() + unseen.sum() * a_root == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("collapse", [False, True])
def test_shards_blocks_and_threads_do_not_matter(collapse, monkeypatch):
    tree, *_ = make_tree(4, 5, collapse, n=3000, n_symbols=9)
    beta = 0.9 ** np.arange(6.0)
    w = weights_for(tree, 5)
    reference = LogLinearLoss(tree, beta, n_shards=1)
    value, g = reference.value_and_gradient(w, np.empty_like(w))
    for n_shards, block in ((1, 64), (4, 1 << 16), (4, 100), (8, 1)):
        monkeypatch.setattr("sklstruct.loglinear._loss.BLOCK_PAIRS", block)
        loss = LogLinearLoss(tree, beta, n_shards=n_shards)
        found, h = loss.value_and_gradient(w, np.empty_like(w))
        assert found == pytest.approx(value, rel=1e-13)
        np.testing.assert_allclose(h, g, rtol=1e-11, atol=1e-11)
        with ThreadMap(2) as parallel:
            threaded = LogLinearLoss(tree, beta, n_shards=n_shards, parallel=parallel)
            again, k = threaded.value_and_gradient(w, np.empty_like(w))
        assert again == found  # to the last bit
        assert np.array_equal(k, h)


def test_blocks_cover_each_branch_once():
    tree, *_ = make_tree(4, 5, n=3000, n_symbols=9)
    for n_shards, block in ((1, 10), (3, 50), (8, 1 << 20)):
        shards = Shards(tree, n_shards, block).blocks
        assert len(shards) == n_shards
        seen = np.zeros(tree.n_nodes, dtype=int)
        for blocks in shards:
            for lo, hi in blocks:
                for k in range(1, tree.n_levels):
                    assert tree.level_ptr[k] <= lo[k] <= hi[k]
                    assert hi[k] <= tree.level_ptr[k + 1]
                    seen[lo[k] : hi[k]] += 1
        assert (seen[1:] == 1).all() and seen[0] == 0


def test_collapsed_tree_with_shared_weights_equals_the_trie():
    tree, terminal, y, weight = make_tree(2, 5, collapse=True)
    beta = 0.6 ** np.arange(6.0)
    w = weights_for(tree, 6)
    trie, index = tree.expand()
    spread = _expand_weights(tree, trie, index, w)
    value, _ = LogLinearLoss(trie, beta).value_and_gradient(
        spread, np.empty_like(spread)
    )
    assert LogLinearLoss(tree, beta).value(w) == pytest.approx(value, rel=1e-13)


def test_scores_far_apart_stay_finite():
    tree, *_ = make_tree(3, 3)
    loss = LogLinearLoss(tree, np.ones(4))
    w = weights_for(tree, 7) * 150.0  # scores up to 600
    value, g = loss.value_and_gradient(w, np.empty_like(w))
    assert np.isfinite(value) and np.isfinite(g).all()


# -------------------------------------------------- penalties and solvers


def make(name, m=3, seed=0, positive=True, lam=0.4, collapse=False, depth_weight=None):
    tree, *_ = make_tree(seed, m, collapse)
    loss = LogLinearLoss(tree, 0.8 ** np.arange(m + 1.0))
    if depth_weight is None:
        depth_weight = 1.3 ** np.arange(m + 1.0)
    extra = {"gamma": 0.7} if name == "elastic_net" else {}
    return loss, PENALTIES[name](loss, lam, depth_weight, positive, **extra).prepare()


def brute_value(name, tree, w, lam, depth_weight):
    """The definition, group by group."""
    depth = np.repeat(tree.levels(), np.diff(tree.pair_ptr))
    groups = [[] for _ in range(tree.n_pairs)]
    for p in range(tree.n_pairs):
        q = p
        while q >= 0:
            groups[q].append(p)
            q = tree.pair_parent[q]
    total = 0.0
    for q in range(tree.n_pairs):
        v = w[groups[q]]
        total += (
            depth_weight[depth[q]]
            * {
                "l1": abs(w[q]),
                "l2": 0.5 * w[q] ** 2,
                "elastic_net": abs(w[q]) + 0.35 * w[q] ** 2,
                "tree_l2": np.linalg.norm(v),
                "tree_linf": np.abs(v).max(),
            }[name]
        )
    return lam * total


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_value_is_the_definition(name, positive):
    loss, penalty = make(name, positive=positive)
    w = weights_for(loss.tree, 1, positive)
    expected = brute_value(name, loss.tree, w, 0.4, 1.3 ** np.arange(4.0))
    assert penalty.value(w) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_prox_is_a_minimiser(name, positive):
    # Against random perturbations, at every scale.
    loss, penalty = make(name, positive=positive)
    rng = np.random.default_rng(0)
    v = weights_for(loss.tree, 2, positive)
    metric = np.full(v.size, 1.7)
    u = penalty.prox(v.copy(), metric, np.empty_like(v))

    def objective(x):
        return 0.5 * np.sum(metric * (x - v) ** 2) + penalty.value(x)

    best = objective(u)
    for scale in (1e-1, 1e-3, 1e-5):
        for _ in range(50):
            x = u + scale * rng.normal(size=v.size)
            if positive:
                x = np.maximum(x, 0.0)
            assert objective(x) >= best - 1e-12
    assert objective(np.zeros_like(v)) >= best


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("m", [0, 1, 3])
def test_solvers_reach_the_same_optimum(name, m, positive):
    loss, penalty = make(name, m, positive=positive, depth_weight=np.ones(m + 1))
    results = [
        SOLVERS[s](1e-7, 50_000).solve(
            loss, penalty, np.zeros(loss.tree.n_pairs), lambda *_: False
        )
        for s in ("auto", "fista")
    ]
    for r in results:
        assert r.status == "converged"
        assert r.optimality <= 1e-7
        f, _ = loss.value_and_gradient(r.w, np.empty_like(r.w))
        assert f + penalty.value(r.w) == pytest.approx(r.objective, rel=1e-12)
        if positive:
            assert (r.w >= 0).all()
    assert results[0].objective == pytest.approx(results[1].objective, rel=1e-9)
    np.testing.assert_allclose(results[0].w, results[1].w, atol=2e-4)
    assert np.array_equal(results[0].w == 0, results[1].w == 0)


@pytest.mark.parametrize("name", NAMES)
def test_optimum_beats_a_generic_solver(name):
    # scipy knows nothing of trees; the penalty is smoothed by its own rounding only.
    loss, penalty = make(name, m=1, depth_weight=np.ones(2))
    n = loss.tree.n_pairs
    found = SOLVERS["auto"](1e-8, 50_000).solve(
        loss, penalty, np.zeros(n), lambda *_: False
    )
    unseen = loss.tree.count[:V] == 0

    def objective(w):
        w = np.maximum(w, 0.0)
        w[:V][unseen] = 0.0
        return loss.value(w) + penalty.value(w)

    rng = np.random.default_rng(0)
    for start in (found.w, np.maximum(found.w + 0.01 * rng.normal(size=n), 0)):
        generic = minimize(objective, start, method="Powell", options={"maxiter": 3})
        assert generic.fun >= found.objective - 1e-7


@pytest.mark.parametrize("name", NAMES)
def test_optimality_by_subgradients(name):
    # First-order condition on directions: at the optimum no coordinate direction,
    # and no direction towards another point, goes downhill.
    loss, penalty = make(name, depth_weight=np.ones(4))
    n = loss.tree.n_pairs
    w = (
        SOLVERS["auto"](1e-9, 100_000)
        .solve(loss, penalty, np.zeros(n), lambda *_: False)
        .w
    )
    f = loss.value(w) + penalty.value(w)
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = np.maximum(w + rng.normal(size=n) * rng.choice([1e-3, 1e-1, 1]), 0.0)
        other[:V][loss.tree.count[:V] == 0] = 0.0
        step = 1e-4
        x = w + step * (other - w)
        assert loss.value(x) + penalty.value(x) >= f - 1e-10


@pytest.mark.parametrize("name", [n for n in NAMES if PENALTIES[n].collapsible])
def test_collapsed_value_equals_that_of_the_trie(name):
    loss, penalty = make(name, m=5, collapse=True, seed=2)
    w = weights_for(loss.tree, 3)
    trie, index = loss.tree.expand()
    spread = _expand_weights(loss.tree, trie, index, w)
    expected = brute_value(name, trie, spread, 0.4, 1.3 ** np.arange(6.0))
    assert penalty.value(w) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_huge_penalty_gives_zero_and_no_penalty_stays_finite(name):
    loss, penalty = make(name, lam=1e9)
    n = loss.tree.n_pairs
    r = SOLVERS["auto"](1e-6, 1000).solve(loss, penalty, np.zeros(n), lambda *_: False)
    assert r.status == "converged"
    assert np.abs(r.w).max() < 1e-6 if name == "l2" else not r.w.any()

    loss, penalty = make(name, lam=0.0)
    r = SOLVERS["auto"](1e-6, 200).solve(loss, penalty, np.zeros(n), lambda *_: False)
    assert np.isfinite(r.objective) and np.isfinite(r.w).all()


@pytest.mark.parametrize("solver", sorted(SOLVERS))
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("max_iter", [1, 2, 7])
def test_what_is_reported_is_what_is_returned(name, solver, max_iter):
    loss, penalty = make(name)
    n = loss.tree.n_pairs
    r = SOLVERS[solver](0.0, max_iter).solve(
        loss, penalty, np.zeros(n), lambda *_: False
    )
    assert r.status == "max_iter" and len(r.history) == max_iter
    assert r.history[-1] == r.objective
    assert loss.value(r.w) + penalty.value(r.w) == pytest.approx(r.objective, rel=1e-12)


def test_callback_stops_a_solver():
    loss, penalty = make("l2")
    for solver in SOLVERS.values():
        r = solver(0.0, 1000).solve(
            loss, penalty, np.zeros(loss.tree.n_pairs), lambda i, *_: i == 4
        )
        assert r.status == "stopped" and len(r.history) == 5
