"""Loss and gradient of the log-linear model against dense computations."""

import numpy as np
import pytest
from _cases import all_pairs
from _toy_problems import N_CLASSES, make_pairs, make_problem, weights_for
from scipy.optimize import approx_fprime
from scipy.special import log_softmax

from sklstruct._parallel import ThreadMap
from sklstruct.loglinear import _problem
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._problem import PerLevel, Problem

V = N_CLASSES


def dense(pairs, count, terminal, y, weight, beta_of_node, w):
    """Loss and gradient by a softmax over all classes for every sample."""
    tree = pairs.tree
    node = np.repeat(np.arange(tree.n_nodes), np.diff(pairs.ptr))
    table = np.zeros((tree.n_nodes, V))
    table[node, pairs.target] = w
    active = np.zeros((len(y), tree.n_nodes))
    for i, x in enumerate(terminal):
        while x >= 0:
            active[i, x] = beta_of_node[x]
            x = tree.parent[x]
    log_p = log_softmax(active @ table, axis=1)
    error = np.exp(log_p)
    error[np.arange(len(y)), y] -= 1
    gradient = (active.T @ (weight[:, None] * error))[node, pairs.target]
    gradient[:V][count[:V] == 0] = 0.0
    return -(weight * log_p[np.arange(len(y)), y]).sum(), gradient


def betas(tree, beta):
    if tree.span is None:
        return beta[tree.levels()]
    depth = tree.depths()
    return np.array([beta[d - s + 1 : d + 1].sum() for d, s in zip(depth, tree.span)])


@pytest.mark.parametrize(
    *all_pairs(
        positive=[True, False],
        collapse=[False, True],
        alpha=[1.0, 0.7, 1.2],
        m=[0, 1, 2, 5],
    )
)
def test_equals_dense_softmax(m, alpha, collapse, positive):
    pairs, count, terminal, y, weight = make_pairs(m, m, collapse)
    beta = alpha ** np.arange(m + 1.0)
    problem = Problem(pairs, count, beta)
    w = weights_for(problem, 1, positive)
    value, gradient = dense(
        pairs, count, terminal, y, weight, betas(pairs.tree, beta), w
    )
    loss, g = LogLinearLoss(problem), np.empty_like(w)
    assert loss.value_and_gradient(w, g) == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(g, gradient, atol=1e-12)
    assert loss.value(w) == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("collapse", [False, True])
def test_backoff_is_the_softmax_at_every_context(collapse):
    pairs, count, *_ = make_pairs(3, 4, collapse)
    problem = Problem(pairs, count, 0.8 ** np.arange(5.0))
    trie, w = problem.expand(weights_for(problem, 4))
    log_prob, log_backoff = LogLinearLoss(trie).backoff(w)
    table = np.zeros((trie.n_nodes, V))  # scores
    for n in range(trie.n_nodes):
        if n:
            table[n] = table[trie.parent[n]]
        pairs = slice(trie.pair_ptr[n], trie.pair_ptr[n + 1])
        mine = trie.pairs.target[pairs]
        table[n, mine] += trie.beta.of_nodes[trie.tree.levels()[n]] * w[pairs]
        expected = log_softmax(table[n])
        np.testing.assert_allclose(log_prob[pairs], expected[mine], atol=1e-12)
        if n:
            others = np.setdiff1d(np.arange(V), mine)
            above = log_softmax(table[trie.parent[n]])[others]
            np.testing.assert_allclose(
                log_backoff[n] + above, expected[others], atol=1e-12
            )


@pytest.mark.parametrize("collapse", [False, True])
def test_gradient_equals_finite_differences(collapse):
    problem = make_problem(4, collapse=collapse)
    loss = LogLinearLoss(problem)
    w = weights_for(problem, 2)
    g = np.empty_like(w)
    loss.value_and_gradient(w, g)
    numeric = approx_fprime(w, loss.value, 1e-6)
    free = np.ones(w.size, dtype=bool)
    free[:V] = ~problem.unseen
    np.testing.assert_allclose(g[free], numeric[free], atol=2e-5)


@pytest.mark.parametrize("collapse", [False, True])
def test_expected_counts_of_the_root_sum_to_the_weight(collapse):
    # Over all classes, sum E - c = 0 once the pairs that do not exist are counted; at
    # the root, which is dense, they all exist.
    pairs, count, *_ = make_pairs(1, 3, collapse)
    problem = Problem(pairs, count, np.ones(4))
    loss = LogLinearLoss(problem)
    w = weights_for(problem, 3)
    g = np.empty_like(w)
    loss.value_and_gradient(w, g)
    _, _, z = loss.value_and_scores(w)
    # E of the unseen class, whose gradient is not reported.
    a_root = (problem.node_weight / z).sum()
    total = g[:V].sum() + problem.unseen.sum() * a_root
    assert total == pytest.approx(0.0, abs=1e-10)


def test_collapsed_tree_with_shared_weights_equals_the_trie():
    problem = make_problem(5, 2, collapse=True)
    w = weights_for(problem, 6)
    trie, spread = problem.expand(w)
    assert trie.n_pairs > problem.n_pairs
    expected = LogLinearLoss(trie).value(spread)
    assert LogLinearLoss(problem).value(w) == pytest.approx(expected, rel=1e-13)


def test_scores_far_apart_stay_finite():
    problem = make_problem(3, 3)
    w = weights_for(problem, 7) * 150.0  # scores up to 600
    g = np.empty_like(w)
    assert np.isfinite(LogLinearLoss(problem).value_and_gradient(w, g))
    assert np.isfinite(g).all()


# ---------------------------------------------------------------- cuts and walks


@pytest.mark.parametrize("collapse", [False, True])
def test_shards_blocks_and_threads_do_not_matter(collapse, monkeypatch):
    pairs, count, *_ = make_pairs(4, 5, collapse, n=3000, n_symbols=9)
    beta = 0.9 ** np.arange(6.0)
    reference = Problem(pairs, count, beta, n_shards=1)
    w = weights_for(reference, 5)
    g, h, k = (np.empty_like(w) for _ in range(3))
    value = LogLinearLoss(reference).value_and_gradient(w, g)
    monkeypatch.setattr(_problem, "THREAD_PAIRS", 1)
    for n_shards, block in ((1, 64), (4, 1 << 16), (4, 100), (8, 1)):
        monkeypatch.setattr(_problem, "BLOCK_PAIRS", block)
        loss = LogLinearLoss(Problem(pairs, count, beta, n_shards=n_shards))
        found = loss.value_and_gradient(w, h)
        assert found == pytest.approx(value, rel=1e-13)
        np.testing.assert_allclose(h, g, rtol=1e-11, atol=1e-11)
        with ThreadMap(2) as parallel:
            problem = Problem(pairs, count, beta, parallel=parallel, n_shards=n_shards)
            assert problem.map is parallel
            again = LogLinearLoss(problem).value_and_gradient(w, k)
        assert again == found  # to the last bit
        assert np.array_equal(k, h)


def test_few_pairs_stay_in_one_thread():
    pairs, count, *_ = make_pairs(4, 5)
    with ThreadMap(2) as parallel:
        assert Problem(pairs, count, np.ones(6), parallel=parallel).map is not parallel


@pytest.mark.parametrize("n_shards, size", [(1, 10), (3, 50), (8, 1 << 20)])
def test_blocks_and_chunks_cover_everything_once(n_shards, size, monkeypatch):
    monkeypatch.setattr(_problem, "BLOCK_PAIRS", size)
    monkeypatch.setattr(_problem, "CHUNK_PAIRS", size)
    pairs, count, *_ = make_pairs(4, 5, n=3000, n_symbols=9)
    tree = pairs.tree
    problem = Problem(pairs, count, np.ones(6), n_shards=n_shards)
    assert len(problem.node_blocks) <= n_shards
    seen = np.zeros(tree.n_nodes, dtype=int)
    for blocks, of_pairs in zip(problem.node_blocks, problem.pair_blocks, strict=True):
        for (lo, hi), (first, last) in zip(blocks, of_pairs, strict=True):
            for k in range(1, tree.n_levels):
                assert tree.level_ptr[k] <= lo[k] <= hi[k]
                assert hi[k] <= tree.level_ptr[k + 1]
                seen[lo[k] : hi[k]] += 1
                assert [first[k], last[k]] == pairs.ptr[[lo[k], hi[k]]].tolist()
    assert (seen[1:] == 1).all() and seen[0] == 0

    chunks = [chunk for group in problem.chunks for chunk in group]
    ends = [0]
    for k, lo, hi in chunks:
        assert lo == ends[-1] < hi
        assert problem.levels[k][0] <= lo and hi <= problem.levels[k][1]
        # none holds a part of a context, and only one large context is a large chunk
        a, b = np.searchsorted(pairs.ptr, [lo, hi])
        assert pairs.ptr[a] == lo and pairs.ptr[b] == hi
        assert hi - lo < size + np.diff(pairs.ptr[a : b + 1]).max()
        ends.append(hi)
    assert ends[-1] == pairs.n_pairs


@pytest.mark.parametrize("collapse", [False, True])
def test_numbers_per_level_and_their_sums_over_merged_suffixes(collapse):
    pairs, count, *_ = make_pairs(2, 5, collapse)
    tree = pairs.tree
    by_depth = np.random.default_rng(0).random(9)
    numbers = PerLevel.spread(by_depth, pairs) * 2.0
    node = np.repeat(np.arange(tree.n_nodes), np.diff(pairs.ptr))
    depth, span = tree.depths()[node], tree.spans()[node]
    expected = [2 * by_depth[d - s + 1 : d + 1].sum() for d, s in zip(depth, span)]
    for k in range(tree.n_levels):
        lo, hi = pairs.ptr[tree.level_ptr[k : k + 2]]
        found = np.broadcast_to(numbers.of(lo, hi, k), hi - lo)
        np.testing.assert_allclose(found, expected[lo:hi])
        whole = np.broadcast_to(numbers.at(k), pairs.n_pairs)
        np.testing.assert_allclose(whole[lo:hi], expected[lo:hi])
