"""Sparse nodes, and the posterior that hears the leaves' evidence."""

import os
import pickle
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from _cases import all_pairs, each_value
from _nodes import leaves, logistic
from scipy.optimize import check_grad, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklstruct.hierarchical import (
    HierarchicalClassifier,
    PerNodeC,
    _dual_nodes,
)
from sklstruct.hierarchical import _evidence as numbers
from sklstruct.hierarchical._chain_nodes import ChainNodes
from sklstruct.hierarchical._dual_nodes import DualNodes
from sklstruct.hierarchical._evidence_fast import STATES
from sklstruct.hierarchical._label_fold import unseen_scores
from sklstruct.hierarchical._nodes import TrainingSet
from sklstruct.hierarchical._problems import problems_of, solver_of
from sklstruct.linear import LinearClassifier, _trial
from sklstruct.linear._calibration import evidence, fit_scale
from sklstruct.linear._samples import single
from sklstruct.linear._solver import DescentSettings, NodeSolver
from sklstruct.linear._targets import Targets
from sklstruct.linear._trial import part_of
from sklstruct.linear._weights import as_rows
from sklstruct.taxonomy import as_taxonomy

sys.path.insert(0, str(Path(__file__).parents[1] / "linear"))
from test_linear_classifier import text

LOSSES = ["squared_hinge", "log_loss", "ovr_log_loss"]
logsumexp = np.logaddexp.reduce  # many times as fast as SciPy's for few numbers
K = 24
ONE_LEVEL = [list(range(a, a + 6)) for a in range(0, K, 6)]
UNEQUAL = [[0], [1], list(range(2, 12)), list(range(12, K))]
TWO_LEVELS = [
    [[0, 1, 2], [3, 4], [5]],
    [[6, 7, 8], [9, 10, 11, 12]],
    [[13, 14, 15], [16, 17, 18], [19, [20, 21]], [22, 23]],
]
BINARY = None  # filled below


def halves(items):
    if len(items) == 1:
        return items[0]
    return [halves(items[: len(items) // 2]), halves(items[len(items) // 2 :])]


BINARY = halves(list(range(K)))
TREES = {
    "one level": ONE_LEVEL,
    "unequal": UNEQUAL,
    "two levels": TWO_LEVELS,
    "binary": BINARY,
}


@pytest.fixture(scope="module")
def data():
    return text(n=1500, n_classes=K)


@pytest.fixture(scope="module")
def new():
    return text(1, n=150, n_classes=K)


def random_tree(rng, labels, depth):
    """Nested lists: leaves of one class and of several, at all levels."""
    if depth == 0 or labels.size == 1:
        return labels.tolist()
    n_children = int(rng.integers(2, max(3, min(labels.size, 6) + 1)))
    cuts = np.sort(rng.choice(labels.size - 1, n_children - 1, replace=False)) + 1
    return [random_tree(rng, part, depth - 1) for part in np.split(labels, cuts)]


def dual(loss="squared_hinge", **params):
    return LinearClassifier(loss, **{"tol": 0.02, **params})


def by_definition(model, X):
    """P(y | x) from the weights and numbers, with loops over nodes and leaves."""
    nodes, forest = model.nodes_, model.forest_
    W, b = model.coef_.toarray().astype(float), model.intercept_.astype(float)
    loss, n_trees = nodes.loss, forest.terminal.shape[0]
    child_of = {v: np.flatnonzero(forest.parent == v) for v in range(forest.n_nodes)}
    out = np.zeros((X.shape[0], model.classes_.size))

    def g(v):
        m = forest.n_child[v]
        if m == 1:
            return np.zeros((X.shape[0], 1))
        row = slice(forest.row[v], forest.row[v] + (1 if m == 2 else m))
        z = X @ W[row].T + b[row]
        if m == 2:
            z = np.hstack([np.zeros_like(z) if loss == "log_loss" else -z, z])
        return evidence(z, loss)

    for t in range(n_trees):
        w_r, w_l, eta, c, pending = nodes.numbers[t]
        root = int(forest.tree_ptr[t])

        def leaf(v):
            return all(forest.n_child[u] == 0 for u in child_of[v])

        for i in range(X.shape[0]):
            route, level, items, left = {root: 0.0}, [root], [], []
            if leaf(root):
                items, level = [root], []
            while level:
                level.sort(key=lambda v: (-route[v], v))
                beam = 4 * nodes.n_leaves
                left += level[beam:]
                below = []
                for v in level[:beam]:
                    e = g(v)[i]
                    if loss == "log_loss":
                        e = e - logsumexp(e)
                    for u, value in zip(child_of[v], e):
                        route[u] = route[v] + value
                        (items if leaf(u) else below).append(u)
                level = below
            ranked = sorted(items, key=lambda v: (-route[v], v))
            looked = ranked[: nodes.n_leaves]
            mass, within = {}, {}

            def inside(v, i=i, w_l=w_l):
                classes = [v] if forest.n_child[v] == 0 else child_of[v]
                a = np.zeros(1) if len(classes) == 1 else w_l * g(v)[i]
                return forest.node_class[classes], a - logsumexp(a), logsumexp(a)

            for v in items:
                within[v] = inside(v)
                heard = v in looked and len(within[v][0]) > 1
                mass[v] = w_r * route[v] + (eta * within[v][2] if heard else c)
            for v in left:
                mass[v] = w_r * route[v] + pending
            total = logsumexp(list(mass.values()))
            for v in left:  # shared out by what the way below says
                stack, leaves = [(v, 0.0)], []
                while stack:
                    u, r = stack.pop()
                    if leaf(u):
                        leaves.append((u, r))
                        continue
                    e = g(u)[i]
                    e = e - logsumexp(e) if loss == "log_loss" else e
                    stack += [(s, r + value) for s, value in zip(child_of[u], e)]
                share = logsumexp([w_r * r for _, r in leaves])
                for u, r in leaves:
                    within[u] = inside(u)
                    mass[u] = mass[v] + w_r * r - share
            for v, (classes, conditional, _) in within.items():
                out[i, classes] += np.exp(mass[v] - total + conditional) / n_trees
    return out


@pytest.fixture(scope="module", params=LOSSES)
def loss(request):
    return request.param


@pytest.fixture(scope="module", params=TREES)
def fitted(request, loss, data):
    n_leaves = {"binary": 1, "two levels": 1}.get(request.param, 2)
    model = HierarchicalClassifier(
        TREES[request.param], estimator=dual(loss, C=3), random_state=0
    )
    with leaves(n_leaves):
        return model.fit(*data)


def test_is_the_formula(fitted, new):
    X = new[0][:20]
    proba = fitted.predict_proba(X)
    np.testing.assert_allclose(
        proba, by_definition(fitted, X.toarray()), rtol=2e-4, atol=1e-9
    )


def test_is_the_formula_where_exponentials_leave_the_range(data, new):
    model = HierarchicalClassifier(UNEQUAL, estimator=dual(), random_state=0)
    with leaves(2):
        model.fit(*data)
    X = 40 * new[0]
    expected = by_definition(model, X.toarray())
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=0.02, atol=1e-6)
    # No class has evidence: exponentials are 0 unless the largest is taken off before.
    for shift, rtol in ((60, 0.005), (440, 0.1)):  # margins are in single precision
        model.nodes_.weights.intercept -= shift
        expected = by_definition(model, new[0].toarray())
        found = model.predict_proba(new[0])
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-9)


def test_several_trees_are_the_mean(new, data):
    model = HierarchicalClassifier(
        (ONE_LEVEL, TWO_LEVELS, BINARY), estimator=dual(), random_state=0
    )
    with leaves(1):
        model.fit(*data)
    X = new[0][:20]
    expected = by_definition(model, X.toarray())
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=2e-4, atol=1e-9)
    check_answers(model, new[0])


def test_one_answer_evaluates_one_leaf_of_sure_samples(data, new):
    model = HierarchicalClassifier(ONE_LEVEL, estimator=dual(), random_state=0)
    with leaves(1):
        model.fit(*data)
    sure = model.predict_proba(new[0]).max(axis=1) > 0.5
    # four scores of the root and six of a leaf
    assert np.median(model.n_dot_products(new[0])[sure]) == 10


@pytest.mark.parametrize("seed", range(12))
def test_random_trees(seed):
    """For all trees, losses, numbers of leaves that are looked into, and beams."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(5, 60))
    X, y = text(seed, n=15 * k, n_classes=k)
    trees = [random_tree(rng, rng.permutation(k), rng.integers(1, 5)) for _ in "abc"]
    n_trees = int(rng.integers(1, 4))
    model = HierarchicalClassifier(
        tuple(trees[:n_trees]), n_taxonomies=n_trees,
        estimator=dual(LOSSES[seed % 3], max_iter=20, C=10), random_state=seed,
    )  # fmt: skip
    with warnings.catch_warnings(), leaves(int(rng.integers(1, 4))):
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    # numbers that no fit would find
    model.nodes_.numbers = np.column_stack(
        [rng.uniform(0.2, 3, (n_trees, 2)), rng.random(n_trees),
         rng.normal(size=(n_trees, 2)) * 3]
    )  # fmt: skip
    some = X[rng.choice(X.shape[0], 8, replace=False)]
    for n_leaves in (model.n_leaves_, 1000):
        model.nodes_.n_leaves = n_leaves
        np.testing.assert_allclose(
            model.predict_proba(some), by_definition(model, some.toarray()),
            rtol=1e-3, atol=1e-9,
        )  # fmt: skip
        check_answers(model, some)


@pytest.mark.parametrize("n_leaves", [3, 4, 17, 18, 19])
def test_leaves_that_are_evaluated(n_leaves, data, new):
    """As many as asked for where the tree has one or two more, not all of them.

    With more than 16 the best leaves are found in another way.
    """
    X, y = text(3, n=800, n_classes=40)
    trees = {4: ONE_LEVEL, 20: [[k, k + 20] for k in range(20)]}
    n_all = 4 if n_leaves <= 4 else 20
    X, y = data if n_all == 4 else (X, y)
    with leaves(n_leaves):
        model = HierarchicalClassifier(
            trees[n_all], estimator=dual(), random_state=0
        ).fit(X, y)
    # the evidence of leaves that are not evaluated, -c, is not that of the others
    model.nodes_.numbers = np.array([[0.3, 1.0, 0.8, -1.0, 0.0]])
    proba = model.predict_proba(X[:15])
    np.testing.assert_allclose(
        proba, by_definition(model, X[:15].toarray()), rtol=1e-3, atol=1e-9
    )
    check_answers(model, X[:15])


def check_answers(model, X):
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    best = proba.argmax(axis=1)
    assert np.array_equal(model.predict(X), model.classes_[best])
    labels, log_proba = model.predict_top_k(X, 5, return_log_proba=True)
    assert np.array_equal(labels[:, 0], model.classes_[best])
    top = -np.sort(-proba, axis=1)[:, :5]
    np.testing.assert_allclose(np.exp(log_proba), top, rtol=1e-12)
    for k in range(5):
        np.testing.assert_allclose(
            model.target_log_proba(X, labels[:, k]), log_proba[:, k], rtol=1e-12
        )
    every, log_proba = model.predict_top_k(
        X[:9], model.classes_.size, return_log_proba=True
    )
    assert all(set(row) == set(model.classes_) for row in every)
    assert (np.diff(log_proba, axis=1) <= 0).all()


@pytest.mark.parametrize(
    *all_pairs(loss=LOSSES, fitted=TREES, n_leaves=[1, 2, 3, 100]),
    indirect=["loss", "fitted"],
)
def test_answers_agree_whatever_is_looked_into(fitted, new, n_leaves):
    model = pickle.loads(pickle.dumps(fitted))
    model.nodes_.n_leaves = n_leaves
    check_answers(model, new[0])
    proba = model.predict_proba(new[0])
    for i in range(0, 100, 7):  # a function of the row alone, to the last bit
        assert np.array_equal(model.predict_proba(new[0][i])[0], proba[i])
        assert model.predict(new[0][i])[0] == model.predict(new[0])[i]


def test_ties_of_leaves_go_to_the_first_class():
    """A leaf of the mass of the best class so far may hold a class before it."""
    X, y = text(n=400, n_classes=6)
    node = dual("squared_hinge", intercept_scaling=0)
    tree, other = [[4, 5], [3], [2], [0], [1]], [[4, 5], [2, 3], [1], [0]]
    nothing = sp.csr_matrix((1, X.shape[1]))  # all scores are 0
    for trees in ((tree,), (tree, other)):
        model = HierarchicalClassifier(trees, n_taxonomies=len(trees), estimator=node)
        with leaves(1):
            model.fit(X, y)
        model.nodes_.numbers = np.array([[1.0, 1.0, 0.0, 5.0, 0.0]] * len(trees))
        P = model.predict_proba(nothing)[0]
        assert P[0] == P[1] and P[2] == P[3] and P[0] > P[4] == P[5]
        assert (P[2] == P[0]) == (len(trees) == 1)
        for k in range(1, 7):
            best = model.nodes_.search(nothing, k, None)[0][0]
            assert best.tolist() == list(range(k))
        assert model.predict(nothing) == [0]


@pytest.mark.parametrize("tree", TREES)
def test_without_evidence_it_is_the_chain(tree, data, new):
    """The product of conditionals, that of the dense solver too."""
    params = {"calibration": None, "intercept_scaling": 0, "max_iter": 2000}
    # the least threshold keeps all weights and the other posterior
    other = dual("log_loss", tol=1e-5, weight_threshold=1e-12, **params)
    chain = HierarchicalClassifier(TREES[tree], estimator=other, random_state=0)
    chain.fit(*data)
    assert isinstance(chain.nodes_, DualNodes)
    X = new[0]
    for node, kind in (
        (logistic(tol=1e-7, intercept_scaling=0), sp.csr_matrix.toarray),
        (dual("log_loss", tol=1e-5, **params), sp.csr_matrix),
    ):
        plain = HierarchicalClassifier(TREES[tree], estimator=node, random_state=0)
        plain.fit(kind(data[0]), data[1])
        assert isinstance(plain.nodes_, ChainNodes)
        np.testing.assert_allclose(
            chain.predict_log_proba(X), plain.predict_log_proba(kind(X)), atol=2e-3
        )
        np.testing.assert_allclose(chain.coef_.toarray(), plain.coef_, atol=1e-3)


def test_flat_is_the_flat_classifier(loss, data, new):
    params = {"tol": 1e-4, "max_iter": 2000}
    tree = HierarchicalClassifier(
        max_depth=0, estimator=dual(loss, **params), random_state=0
    ).fit(*data)
    flat = dual(loss, random_state=0, **params).fit(*data)
    np.testing.assert_allclose(tree.coef_.toarray(), flat.coef_, atol=1e-3)
    np.testing.assert_allclose(
        tree.predict_proba(new[0]), flat.predict_proba(new[0]), atol=0.05
    )


def test_sparse_nodes_are_dense_nodes(loss, data, new):
    kept = np.flatnonzero(np.diff(data[0].tocsc().indptr))
    X = data[0][:, kept].tocsr()
    model = HierarchicalClassifier(ONE_LEVEL, estimator=dual(loss), random_state=0)
    a = model.fit(X, data[1]).predict_proba(new[0][:, kept])
    b = model.fit(X.toarray(), data[1]).predict_proba(new[0][:, kept].toarray())
    np.testing.assert_allclose(a, b, atol=1e-2)
    assert np.array_equal(
        a.argmax(axis=1)[a.max(axis=1) > 0.6], b.argmax(axis=1)[a.max(axis=1) > 0.6]
    )


def test_threshold(data, new):
    full, none, cut = (
        HierarchicalClassifier(
            ONE_LEVEL, estimator=dual(weight_threshold=threshold), random_state=0
        ).fit(*data)
        for threshold in (0.0, 1e-30, 0.1)
    )
    # what is dropped has no weight: only the way of storing differs
    assert np.array_equal(full.predict_proba(new[0]), none.predict_proba(new[0]))
    assert (full.coef_ != none.coef_).nnz == 0
    assert cut.coef_.nnz < 0.9 * full.coef_.nnz
    W = full.coef_.toarray()
    top = np.abs(W).max(axis=1, keepdims=True)
    assert np.array_equal(
        cut.coef_.toarray(), np.where(np.abs(W) > np.float32(0.1) * top, W, 0)
    )


def test_numbers_minimise_the_fold_and_their_gradient_is_right(monkeypatch, data):
    seen = []
    real = minimize

    def spy(function, x, **params):
        rng = np.random.default_rng(0)
        for _ in range(5):
            at = x + rng.normal(size=5) * [0.5, 0.5, 0.2, 1, 1]
            error = check_grad(lambda t: function(t)[0], lambda t: function(t)[1], at)
            assert error < 1e-4
        found = real(function, x, **params)
        seen.append(found)
        return found

    monkeypatch.setattr(numbers, "minimize", spy)
    for tree, n_leaves in ((ONE_LEVEL, 2), (BINARY, 1), (UNEQUAL, 1), (TWO_LEVELS, 4)):
        for loss in LOSSES:
            with leaves(n_leaves):
                HierarchicalClassifier(tree, estimator=dual(loss), random_state=0).fit(
                    *data
                )
    assert len(seen) == 12


def test_a_tree_after_a_flat_one(data, new):
    """The flat one has no leaves to choose; the other one chooses. Also before it."""
    trees = list(range(K)), TWO_LEVELS
    Z = new[0][:20]
    for both in (trees, trees[::-1]):
        model = HierarchicalClassifier(
            both, estimator=dual(), n_taxonomies=2, random_state=0
        ).fit(*data)
        np.testing.assert_allclose(
            model.predict_proba(Z), by_definition(model, Z), atol=1e-5
        )
        check_answers(model, Z)


def test_rows_without_entries(data):
    X, y = data
    model = HierarchicalClassifier(TWO_LEVELS, estimator=dual(), random_state=0)
    model.fit(X, y)
    empty = sp.csr_matrix((3, X.shape[1]), dtype=X.dtype)
    found = model.predict_proba(empty)
    np.testing.assert_allclose(found, model.predict_proba(empty.toarray()), atol=1e-6)
    assert model.predict(empty).tolist() == model.classes_[found.argmax(1)].tolist()


@pytest.mark.parametrize("n_classes", [2, 7])
def test_scale_of_one_leaf_minimises_the_fold(n_classes):
    """A tree of one leaf has one number, that of the flat model."""
    X, y = text(n=800, n_classes=n_classes)
    model = HierarchicalClassifier(max_depth=0, random_state=0)
    nodes = model.partial_fit(X, y, classes=range(n_classes)).nodes_
    member, targets, scores = nodes.window.unseen[0]
    if n_classes == 2:
        scores = np.hstack([-scores, scores])
    g = evidence(scores, nodes.loss)

    def log_loss(w):
        log_p = w * g - logsumexp(w * g, axis=1, keepdims=True)
        return -log_p[np.arange(member.size), targets.outcome].mean()

    w_r, w, *rest = nodes.numbers[0].tolist()
    assert (w_r, rest) == (1.0, [0.0, 0.0, 0.0])
    assert nodes.fold_log_loss[0] == pytest.approx(log_loss(w), rel=1e-12)
    scales = w * np.geomspace(0.25, 4, 101)
    prior = np.log(scales) ** 2 / member.size
    values = np.array([log_loss(s) for s in scales]) + prior
    assert abs(values.argmin() - 50) <= 1


@pytest.mark.parametrize("weight", [1.0, 1e-9, 1e9])
def test_the_scale_of_few_samples_stays_near_one(weight):
    """If all samples are right, or all wrong, the probabilities stay below 1."""
    target, g = np.zeros(2, dtype=int), np.array([[3.0, 0.0], [2.0, 0.0]])
    weights = np.full(2, weight)
    right, wrong = (fit_scale(side, target, weights)[0] for side in (g, g[:, ::-1]))
    assert 1 < right < 2
    assert 0.2 < wrong < 1
    absent = np.vstack([g, g]), np.zeros(4, dtype=int), np.append(weights, [0, 0])
    assert fit_scale(*absent)[0] == pytest.approx(right, rel=1e-3)
    many = np.tile(g, (1000, 1)), np.zeros(2000, dtype=int), np.full(2000, weight)
    assert fit_scale(*many)[0] > 3


@pytest.mark.parametrize("best", ["squared_hinge", "log_loss"])
def test_trial_that_is_the_whole_fit(best, monkeypatch):
    """With few classes loss="auto" continues the trial of the chosen loss."""
    X, y = text(n=900, n_classes=9)
    monkeypatch.setattr(
        _trial, "fold_log_loss", lambda parts, scores, loss: 1.0 + (loss != best)
    )
    auto, named = (
        HierarchicalClassifier(
            max_depth=0, estimator=LinearClassifier(loss, C=C), random_state=0
        ).fit(X, y)
        for loss, C in (("auto", 1.0), (best, 10.0 if best == "log_loss" else 1.0))
    )
    assert auto.nodes_.loss == best
    assert (auto.coef_ != named.coef_).nnz == 0
    np.testing.assert_array_equal(auto.predict_proba(X), named.predict_proba(X))


def test_the_fold_is_scored_by_models_that_have_not_seen_it(monkeypatch, data):
    """The evidence of the fold is that of a classifier fitted without it."""
    X, y = data
    caught = {}

    def join(self, forest):
        caught["held"] = self._fold[0]
        real_join(self, forest)

    def evidence_of(self, *args):
        caught["fold"] = real(self, *args)
        return caught["fold"]

    real, real_join = DualNodes._evidence, DualNodes.join
    monkeypatch.setattr(DualNodes, "_evidence", evidence_of)
    monkeypatch.setattr(DualNodes, "join", join)
    node = dual(tol=1e-5, max_iter=5000)
    with leaves(4):
        HierarchicalClassifier(ONE_LEVEL, estimator=node, random_state=0).fit(X, y)
    fold, held = caught["fold"], caught["held"]
    apart = np.setdiff1d(np.arange(y.size), held)
    root, leaf = (
        LinearClassifier(calibration=None, tol=1e-5, max_iter=5000) for _ in "ab"
    )
    z = root.fit(X[apart], y[apart] // 6).decision_function(X[held])
    np.testing.assert_allclose(
        fold.route[:, :4], evidence(z, "squared_hinge"), atol=0.02
    )
    mine = apart[y[apart] // 6 == 2]
    z = leaf.fit(X[mine], y[mine]).decision_function(X[held])
    at = np.flatnonzero(fold.own[1] == 2)
    inside = fold.inside[at, fold.own[2, at], :6]
    np.testing.assert_allclose(inside, evidence(z[at], "squared_hinge"), atol=0.02)


@pytest.mark.parametrize("tree", [ONE_LEVEL, UNEQUAL, TWO_LEVELS, BINARY])
def test_log_loss_of_the_fold_is_that_of_predictions(tree, loss, data):
    """Predictions by the weights that had not seen the fold have the log-loss."""
    model = HierarchicalClassifier(tree, estimator=dual(loss), random_state=0)
    nodes = model.partial_fit(*data, classes=range(K)).nodes_
    X, targets, weight, folds = nodes.window
    n = weight.size
    code = targets.outcome.astype(np.int32)[:, None]
    log_proba, stop = np.empty((n, 1)), np.zeros(1, dtype=np.int32)

    def found(unseen):
        nodes._posterior(n_leaves=100).answer(
            as_rows(X), _dual_nodes.scratch_of(nodes), "given", code, log_proba,
            np.empty(n, dtype=np.int64), 0.0, stop, unseen,
        )  # fmt: skip
        return -log_proba[:, 0] @ weight / weight.sum()

    unseen = unseen_scores(folds, n)
    fold = nodes._evidence(0, nodes.window, 100)
    expected, _ = numbers.log_loss_of(fold)(nodes.numbers[0])
    np.testing.assert_allclose(found(unseen), expected, rtol=1e-9)
    assert found(None) < 0.9 * expected  # the final weights know the samples


def test_calibrated_probabilities_are_good(data, new):
    """Log-loss of the fold and of new data agree; the evidence helps."""
    model = HierarchicalClassifier(
        ONE_LEVEL, estimator=dual(), random_state=0
    ).fit(*data)  # fmt: skip
    X, y = text(0, n=3000, n_classes=K)  # the same classes, other and the same rows
    found = -model.target_log_proba(X, y).mean()
    assert found < 2 * model.nodes_.fold_log_loss[0] + 0.1
    chain = HierarchicalClassifier(
        ONE_LEVEL, estimator=dual("log_loss", calibration=None), random_state=0
    ).fit(*data)
    assert found < -chain.target_log_proba(X, y).mean()


def test_auto(monkeypatch, data):
    """The loss of the smaller log-loss at the nodes that are tried, and its C."""
    seen = {}

    def spy(parts, scores, loss):
        seen[loss] = handicap[loss]
        assert all(t.held.size for t in parts)
        return seen[loss]

    monkeypatch.setattr(_trial, "fold_log_loss", spy)
    for best in ("squared_hinge", "log_loss"):
        handicap = dict.fromkeys(("squared_hinge", "log_loss"), 2.0) | {best: 1.0}
        model = HierarchicalClassifier(ONE_LEVEL, estimator=dual("auto"))
        model.set_params(random_state=0).fit(*data)
        assert set(seen) == {"squared_hinge", "log_loss"}
        assert model.nodes_.loss == best
        C = {"squared_hinge": 1, "log_loss": 10}[best]
        assert (model.C_ == C).all()


def test_leaves_that_are_looked_into(monkeypatch, loss, data):
    """As few as are worth it."""
    monkeypatch.setattr(_dual_nodes, "_GAIN", -np.inf)  # all are tried
    X, y = data
    params = {"estimator": dual(loss, C=3), "random_state": 0}
    groups = [[k for k in range(K) if k % 8 == j] for j in range(8)]  # hard to route
    fold = {}
    for b in (2, 3, 5, 8):
        with leaves(b):
            model = HierarchicalClassifier(groups, **params).fit(X, y)
        fold[b] = model.nodes_.fold_log_loss[0]
    for worth in (0.5, 0.02, 0.001):
        monkeypatch.setattr(_dual_nodes, "_TOLERANCE", worth)
        good = [b for b in fold if fold[b] <= (1 + worth) * min(fold.values())]
        expected = min(good)
        model = HierarchicalClassifier(groups, **params).fit(X, y)
        assert model.n_leaves_ == expected == model.nodes_.n_leaves
        assert model.nodes_.fold_log_loss[0] == pytest.approx(fold[expected], rel=1e-4)
    monkeypatch.setattr(_dual_nodes, "_GAIN", 1.0)  # two are
    monkeypatch.setattr(_dual_nodes, "_TOLERANCE", 0.0)
    model = HierarchicalClassifier(groups, **params).fit(X, y)
    assert model.n_leaves_ == (2 if fold[2] <= fold[3] else 3)
    one_each = HierarchicalClassifier(groups, estimator=dual()).fit(X[:K], y[:K])
    assert one_each.n_leaves_ == 2  # no fold to choose by
    # the fold stands in no order, so that the first of it are like the others
    seen = []
    real = DualNodes._choose_leaves

    def choose(self, t, window):
        seen.append(window.targets.outcome)
        return real(self, t, window)

    monkeypatch.setattr(DualNodes, "_choose_leaves", choose)
    order = np.argsort(y, kind="stable")
    HierarchicalClassifier(groups, **params).fit(X[order], y[order])
    assert np.unique(seen[0][: seen[0].size // 3]).size > K // 2


def test_threads(loss, data, new):
    one, two = (
        HierarchicalClassifier(
            TWO_LEVELS, estimator=dual(loss), n_jobs=n_jobs, random_state=0
        ).fit(*data)
        for n_jobs in (1, 2)
    )
    assert (one.coef_ != two.coef_).nnz == 0
    assert np.array_equal(one.predict_proba(new[0]), two.predict_proba(new[0]))


def test_default_of_sparse_samples(data, new):
    X, y = data
    model = HierarchicalClassifier(ONE_LEVEL, random_state=0).fit(X, y)
    assert isinstance(model.nodes_, DualNodes)
    same = LinearClassifier("auto", weight_threshold=0.02)
    same = HierarchicalClassifier(ONE_LEVEL, estimator=same, random_state=0).fit(X, y)
    assert np.array_equal(model.predict_proba(new[0]), same.predict_proba(new[0]))
    for params in ({"estimator": logistic()}, {"estimator": PerNodeC()}):
        other = HierarchicalClassifier(ONE_LEVEL, random_state=0, **params)
        assert not isinstance(other.fit(X[:200], y[:200]).nodes_, DualNodes)
    dense = HierarchicalClassifier(ONE_LEVEL).fit(X[:200].toarray(), y[:200])
    assert not isinstance(dense.nodes_, DualNodes)


def test_formats_and_duplicates(data):
    X, y = data
    wide = X.copy()
    wide.indices, wide.indptr = (a.astype(np.int64) for a in (X.indices, X.indptr))
    halves_ = (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), X.indptr * 2)
    twice = sp.csr_matrix(halves_, shape=X.shape)
    model = HierarchicalClassifier(ONE_LEVEL, estimator=dual(), random_state=0)
    expected = model.fit(X, y).predict_proba(X)
    for other in (wide, twice, X.tocsc(), sp.coo_array(X), X.astype(np.float32)):
        found = model.fit(other, y).predict_proba(other)
        np.testing.assert_allclose(found, expected, atol=1e-3)


def test_in_a_pipeline_and_a_grid():
    """Texts, string labels, sample weights, clones: what scikit-learn does with it."""
    rng = np.random.default_rng(0)
    topics = [f"topic {chr(97 + k)}" for k in range(8)]
    words = [[f"w{rng.integers(60)}" for _ in range(6)] for _ in topics]
    y = np.array(topics)[np.arange(240) % 8]
    texts = [
        " ".join([*rng.choice(words[topics.index(t)], 5), f"w{rng.integers(60)}"])
        for t in y
    ]
    node = dual()
    pipe = make_pipeline(
        TfidfVectorizer(),
        HierarchicalClassifier(max_leaf=3, estimator=node, random_state=0),
    )
    grid = GridSearchCV(
        pipe,
        {
            "hierarchicalclassifier__estimator__C": [1e-3, 1.0],
            "hierarchicalclassifier__estimator__loss": ["squared_hinge", "log_loss"],
        },
        cv=3,
        scoring="neg_log_loss",
    )
    weight = rng.uniform(0.5, 2, 240)
    grid.fit(texts, y, hierarchicalclassifier__sample_weight=weight)
    assert grid.best_params_["hierarchicalclassifier__estimator__C"] == 1
    assert grid.score(texts, y) > -0.5 and grid.predict(texts[:1])[0] in topics
    model = grid.best_estimator_[-1]
    assert model.taxonomy_.depth > 0 and model.classes_.tolist() == topics
    assert clone(model).estimator is not model.estimator and node.C == 1
    proba = grid.predict_proba(texts)
    again = clone(grid.best_estimator_).fit(
        texts, y, hierarchicalclassifier__sample_weight=weight
    )
    assert np.array_equal(again.predict_proba(texts), proba)


def test_rare_things(data):
    X, y = text(n=400, n_classes=K)
    X = X.tolil()
    X[:5] = 0
    X = X.tocsr()
    y = y.copy()
    y[y == 3] = 4
    y[17] = 3  # alone
    for loss in LOSSES:
        model = HierarchicalClassifier(ONE_LEVEL, estimator=dual(loss)).fit(X, y)
        check_answers(model, X[:60])
    model = HierarchicalClassifier(ONE_LEVEL, estimator=dual()).fit(X[:24], range(K))
    check_answers(model, X[:60])  # no fold at all: the chain
    assert np.array_equal(model.nodes_.numbers[0], numbers.CHAIN)
    one = HierarchicalClassifier(estimator=dual()).fit(X, np.zeros(400))
    assert (one.predict_proba(X) == 1).all()
    two = HierarchicalClassifier(estimator=dual()).fit(X, y % 2)
    assert two.coef_.shape == (1, X.shape[1])
    np.testing.assert_allclose(two.predict_proba(X).sum(axis=1), 1)


def test_weights_of_samples(data):
    X, y = data
    model = HierarchicalClassifier(
        ONE_LEVEL, estimator=dual("log_loss", calibration=None, tol=1e-6),
        class_weight={k: 1.0 + (k == 3) for k in range(K)},
    )  # fmt: skip
    a = model.fit(X, y).coef_
    model.set_params(class_weight=None)
    b = model.fit(X, y, np.where(y == 3, 2.0, 1.0)).coef_
    again = np.concatenate([np.arange(y.size), np.flatnonzero(y == 3)])
    c = model.fit(X[again], y[again]).coef_
    np.testing.assert_allclose(a, b, atol=1e-3)
    np.testing.assert_allclose(b, c, atol=1e-3)


def test_bad_input(data, monkeypatch):
    X, y = data

    def fit(**params):
        return HierarchicalClassifier(**params).fit(X, y)

    for loss in ("squared_hinge", "auto"):  # they have no probabilities
        with pytest.raises(ValueError, match="'estimator' parameter.*predict_proba"):
            fit(estimator=dual(loss, calibration=None))
    with pytest.raises(ValueError, match="class_weight"):
        fit(estimator=dual(class_weight="balanced"))
    with pytest.raises(ValueError, match="solver"):
        fit(estimator=dual(solver="quasi_newton"))
    with pytest.raises(ValueError, match="C"):
        fit(estimator=dual(C=-1))
    with pytest.raises(TypeError, match="unexpected"):
        HierarchicalClassifier(estimator=dual()).fit(X, y, check_input=True)
    with pytest.warns(UserWarning, match="rows of lengths"):
        HierarchicalClassifier(ONE_LEVEL).fit(sp.diags(np.arange(1.0, 1501)) @ X, y)
    with pytest.warns(UserWarning, match="rows of lengths from 20 to 20"):
        HierarchicalClassifier(ONE_LEVEL).fit(20 * X, y)
    known = {"SC_PHYS_PAGES": 100, "SC_PAGE_SIZE": 64}
    model = fit(taxonomy=ONE_LEVEL, estimator=dual())
    monkeypatch.setattr(os, "sysconf", known.get)
    with pytest.raises(MemoryError, match="tree of 5 nodes.*max_leaf"):
        fit(taxonomy=ONE_LEVEL, estimator=dual())
    with pytest.raises(MemoryError, match="predict_top_k"):
        model.predict_proba(X)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that signal")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c(data, n_jobs):
    X, y = data
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    slow = dual(C=1e4, tol=1e-12, max_iter=10**6)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            HierarchicalClassifier(ONE_LEVEL, estimator=slow, n_jobs=n_jobs).fit(X, y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize(
    *each_value(loss=LOSSES, fitted=TREES), indirect=["loss", "fitted"]
)
def test_pickles(fitted, new):
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(new[0]), fitted.predict_proba(new[0]))
    assert sp.issparse(fitted.coef_) and fitted.coef_.dtype == np.float32
    assert fitted.coef_.shape[0] == fitted.intercept_.size == fitted.forest_.n_rows
    assert len(fitted.C_) == len(fitted.node_n_iter_) == len(fitted.model_nodes_)


def test_log_loss_of_the_fold():
    """Value against the formula leaf by leaf, gradient against differences."""
    rng = np.random.default_rng(0)
    n, L, b, wide = 30, 6, 2, 40
    sizes = np.array([3, 40, 17, 1, 8, 2])  # the fourth is a leaf of one class
    route = rng.normal(size=(n, L)) * 2
    pending = np.zeros((n, L), dtype=bool)
    pending[:, 5] = rng.random(n) < 0.5
    absent = np.zeros((n, L), dtype=bool)
    absent[:, 4] = rng.random(n) < 0.5
    route[absent] = -np.inf
    own = np.where(absent[:, 4], rng.integers(0, 4, n), rng.integers(0, 6, n))
    looked = np.argsort(-np.where(np.isin(np.arange(L), (0, 1, 2)), route, -99))[:, :b]
    looked[rng.random((n, b)) < 0.2] = -1
    looked[looked[:, 0] == looked[:, 1], 1] = -1
    every = [[rng.normal(size=size) for size in sizes] for _ in range(n)]
    target = np.where(sizes[own] > 1, rng.integers(0, 10**6, n) % sizes[own], -1)
    weight = rng.random(n) + 0.1
    fold = numbers.Evidence.empty(weight, L, b, wide)
    for i in range(n):
        items = np.flatnonzero(~absent[i]).tolist()
        fold.route[i, : len(items)] = route[i, items]
        fold.kind[i, : len(items)] = [
            STATES["pending" if pending[i, leaf] else "closed"] for leaf in items
        ]
        slots = [leaf for leaf in looked[i].tolist() if leaf >= 0]
        fold.kind[i, [items.index(leaf) for leaf in slots]] = STATES["open"]
        inside = slots + [own[i]] * int(target[i] >= 0 and own[i] not in slots)
        for slot, leaf in enumerate(inside):
            fold.item[i, slot] = items.index(leaf) if leaf in slots else -1
            fold.length[i, slot] = sizes[leaf]
            fold.inside[i, slot, : sizes[leaf]] = every[i][leaf]
        slot = inside.index(own[i]) if target[i] >= 0 else -1
        fold.own[:, i] = len(items), items.index(own[i]), slot, target[i]
    log_loss = numbers.log_loss_of(fold)

    def expected(theta):
        w_r, w_l, eta, c, left = theta
        total = 0.0
        for i in range(n):
            mass = {}
            for leaf in np.flatnonzero(~absent[i]):
                extra = left if pending[i, leaf] else c
                if leaf in looked[i]:
                    extra = eta * logsumexp(w_l * every[i][leaf])
                mass[leaf] = w_r * route[i, leaf] + extra
            log_p = mass[own[i]] - logsumexp(list(mass.values()))
            if target[i] >= 0:
                a = w_l * every[i][own[i]]
                log_p += a[target[i]] - logsumexp(a)
            total -= weight[i] * log_p
        return total / weight.sum()

    for theta in ((1.0, 1.0, 0.0, 0.0, 0.0), (0.7, 2.3, 0.6, -1.2, 0.8)):
        theta = np.array(theta)
        value, gradient = log_loss(theta)
        np.testing.assert_allclose(value, expected(theta), rtol=1e-12)
        step = 1e-5 * np.eye(5)
        differences = [(expected(theta + s) - expected(theta - s)) / 2e-5 for s in step]
        np.testing.assert_allclose(gradient, differences, atol=1e-8)
    best, least = numbers.fit_numbers(fold)
    np.testing.assert_allclose(least, expected(best), rtol=1e-12)
    assert least <= log_loss(np.array([1.0, 1.0, 0.5, 0.0, 0.0]))[0]
    # without evidence of leaves their part in the mass is that of the prior
    fold.kind[fold.kind == STATES["open"]] = STATES["closed"]
    fold.item[:] = -1
    assert numbers.fit_numbers(fold)[0][2] == pytest.approx(0.5)


@pytest.mark.parametrize(
    *each_value(kind=[sp.csr_matrix, np.asarray], loss=["squared_hinge", "log_loss"])
)
def test_the_root_reads_the_training_set_and_sorts_no_copy(loss, kind, monkeypatch):
    """Fits and trials are those of sorted samples, bit by bit."""
    rng = np.random.default_rng(0)
    n, K = 300, 12
    X = single(kind(rng.random((n, 40)) * (rng.random((n, 40)) < 0.2)))
    targets = Targets.one_each(rng.permutation(np.arange(n) % K), K)
    data = TrainingSet(X, targets, rng.uniform(0.5, 2, n), np.arange(n), n)
    names = np.arange(K)
    settings = DescentSettings.of(
        LinearClassifier(loss, solver="dual"), loss, 1.0, 0.0, np.zeros(1, np.int32)
    )
    monkeypatch.setattr(_trial, "_FEWEST", 4)
    monkeypatch.setattr(_trial, "_MEMBERS", 20)
    for tree in ([[*names[:5]], [*names[5:]]], [*names[::-1]]):
        problems = problems_of(as_taxonomy(tree, names), data)
        number = np.full(n, -1)
        number[rng.permutation(n)[:40]] = np.arange(40)
        node = solver_of(problems, 0, number)
        at, sorted_targets = problems.targets_of(0)
        assert node.X is X and problems.X is X and at == slice(0, n)
        held = np.flatnonzero(number >= 0).astype(np.int32)
        copy = NodeSolver(X[problems.rows], sorted_targets, problems.weight, held)
        for one, other in [(node, copy), tuple(part_of(s, 3) for s in (node, copy))]:
            assert one.held.size == other.held.size > 0
            (block,) = one.blocks(settings)
            a, b = (s.fit(block, settings, 7) for s in (one, other))
            np.testing.assert_array_equal(a.fold_scores, b.fold_scores)
            np.testing.assert_array_equal(a.piece.cell, b.piece.cell)
            np.testing.assert_array_equal(a.piece.intercept, b.piece.intercept)
            assert a.n_iter == b.n_iter
