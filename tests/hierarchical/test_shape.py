"""HierarchicalClassifier: how large leaves and how wide nodes are."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _nodes import leaves, logistic
from sklearn.exceptions import ConvergenceWarning
from sklearn.naive_bayes import GaussianNB

from sklstruct import HierarchicalClassifier
from sklstruct.datasets import make_sparse_classes
from sklstruct.hierarchical import GammaPrior, PerNodeC, _chain_nodes, _trees
from sklstruct.hierarchical._chain_nodes import ChainNodes
from sklstruct.hierarchical._dual_nodes import DualNodes
from sklstruct.hierarchical._forest_fast import ForestArrays, full_rows
from sklstruct.linear import LinearClassifier
from sklstruct.taxonomy import CutSplit, Taxonomy

# epochs are few: shapes are tested, not models
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The number of unique"
)


@pytest.fixture(scope="module")
def texts():
    return make_sparse_classes(3000, 300, 2000, n_groups=6, random_state=0)


def sizes(tree):
    held = tree.class_sets.stop - tree.class_sets.start
    return held[tree.is_leaf], held[~tree.is_leaf]


@pytest.mark.parametrize("taxonomy", ["auto", "cut", "ward", [[*range(5)], [*range(5, 10)]]])  # fmt: skip  # noqa: E501
def test_max_leaf(taxonomy):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 10
    X = rng.normal(size=(10, 6))[y] + 0.3 * rng.normal(size=(200, 6))
    model = HierarchicalClassifier(taxonomy, max_leaf=3).fit(X, y)
    leaves, inner = sizes(model.taxonomy_)
    assert inner.min() > 3
    if not isinstance(taxonomy, list):
        assert leaves.max() <= 3
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    one = HierarchicalClassifier(taxonomy, max_leaf=10).fit(X, y)
    assert one.taxonomy_.depth == 0


@pytest.mark.parametrize("n", [1500, 3000])
@pytest.mark.parametrize("node", [None, logistic(tol=0.1)])
def test_auto_of_dense_samples(texts, monkeypatch, node, n):
    """Flat while it is cheap, then a tree of other nodes unless they were chosen."""
    X, y = (part[:n] for part in texts)
    dense = X[:, :40].toarray()

    def fitted(taxonomy, k, **params):
        some = np.flatnonzero(y < k)
        model = HierarchicalClassifier(
            taxonomy,
            random_state=0,
            **{"estimator": node} | params,
        )
        return model.fit(dense[some], y[some])

    monkeypatch.setattr(_trees, "_FLAT_PRODUCTS", dense.size * 200.0)
    for k in (30, 130):
        flat = fitted("auto", k)
        assert flat.taxonomy_.depth == 0 and flat.builders_ == [None]
        by_depth = fitted("cut", k, max_depth=0)
        np.testing.assert_array_equal(
            flat.predict_proba(dense), by_depth.predict_proba(dense)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # such as that rows are not of unit length
        warnings.simplefilter("ignore", ConvergenceWarning)
        large = fitted("auto", 300)
    assert isinstance(large.builders_[0], CutSplit)
    if node is None:
        assert large.nodes_.loss == "log_loss" and 4 <= large.taxonomy_.n_leaves <= 8
        length = np.linalg.norm(dense) / np.sqrt(len(dense))
        other = LinearClassifier("log_loss", intercept_scaling=length)
        other = fitted("auto", 300, estimator=other)
        # the sum of squares is rounded as the machine's BLAS adds; a length that is
        # wrong by a hundredth changes probabilities by more than a thousandth
        np.testing.assert_allclose(
            large.predict_proba(dense), other.predict_proba(dense), rtol=1e-4
        )
    else:
        assert large.taxonomy_ == fitted("cut", 300).taxonomy_
    # never a tree of up to 100 classes
    monkeypatch.setattr(_trees, "_FLAT_PRODUCTS", 0)
    assert fitted("auto", 100).taxonomy_.depth == 0
    assert fitted("auto", 101).taxonomy_.depth > 0
    # the largest product of classes and values that is flat
    products = 101.0 * np.count_nonzero(y < 101) * dense.shape[1]
    for limit, is_flat in ((products, True), (products - 1, False)):
        monkeypatch.setattr(_trees, "_FLAT_PRODUCTS", limit)
        assert (fitted("auto", 101).taxonomy_.depth == 0) == is_flat
    # who says more than "auto" has the tree of "cut"
    for params in (
        {"max_leaf": 7},
        {"max_depth": 2},
        {"n_taxonomies": 2},
        {"estimator": GaussianNB()},
        {"estimator": PerNodeC([0.1, 1.0])},
    ):
        assert (
            fitted("auto", 30, **params).taxonomy_
            == fitted("cut", 30, **params).taxonomy_
        )


def test_dense_samples_of_wide_nodes_have_the_shape_too(texts):
    X, y = texts
    node = LinearClassifier(max_iter=5)
    dense = X[:, :40].toarray()
    model = HierarchicalClassifier("kmeans", estimator=node, random_state=0)
    leaves, _ = sizes(model.fit(dense, y).taxonomy_)
    assert model.taxonomy_.depth == 1 and leaves.max() <= 100


def test_auto_has_the_shape_that_pays(texts):
    X, y = texts
    node = LinearClassifier(max_iter=5)
    model = HierarchicalClassifier(estimator=node, random_state=0).fit(X, y)
    leaves, _ = sizes(model.taxonomy_)
    assert model.taxonomy_.depth == 1 and 4 <= leaves.size and leaves.max() <= 100
    halves = HierarchicalClassifier(
        "kmeans", estimator=node, max_leaf=40, random_state=0
    ).fit(X, y)
    leaves, _ = sizes(halves.taxonomy_)
    assert halves.taxonomy_.depth == 1 and np.ptp(leaves) <= 1 and leaves.max() <= 40
    few = y < 60
    flat = HierarchicalClassifier(estimator=node).fit(X[few], y[few])
    assert flat.taxonomy_ == Taxonomy.flat(np.unique(y[few]))
    assert flat.builders_ == [None]
    two = HierarchicalClassifier(estimator=node, n_taxonomies=2, random_state=0)
    assert [t.depth > 0 for t in two.fit(X[few], y[few]).taxonomies_] == [True, True]


def test_two_routing_levels():
    X, y = make_sparse_classes(
        3000, 300, 2000, n_groups=6, class_share=0.4, random_state=0
    )
    node = LinearClassifier(max_iter=20, tol=0.1)
    with leaves(5):
        model = HierarchicalClassifier(
            "kmeans", estimator=node, max_leaf=2, random_state=0
        ).fit(X[:2700], y[:2700])
    assert model.taxonomy_.depth == 2
    assert np.diff(model.taxonomy_.child_ptr).max() == 16
    proba = model.predict_proba(X[2700:])
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-6)
    found = model.predict(X[2700:])
    np.testing.assert_array_equal(found, model.classes_[proba.argmax(axis=1)])
    for i in range(2700, 2710):
        np.testing.assert_array_equal(model.predict_proba(X[i]), proba[[i - 2700]])
    assert (found == y[2700:]).mean() > 0.9


def test_more_than_20000_classes():
    """The second routing level comes by itself; the beam leaves most of it out."""
    k = 20_001
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(k), rng.integers(0, k, 2000)])
    # five words that say the digits of the class, and one that says nothing
    column = np.stack([10 * i + y // 10**i % 10 for i in range(5)], axis=1)
    column = np.column_stack([column, rng.integers(50, 3000, y.size)])
    shape = y.size, 3000
    X = sp.csr_matrix(
        (np.full(column.size, 6**-0.5, np.float32), column.ravel(),
         6 * np.arange(y.size + 1)), shape=shape,
    )  # fmt: skip
    node = LinearClassifier(max_iter=2, weight_threshold=0.02)
    with leaves(2):
        model = HierarchicalClassifier(
            "rand", estimator=node, max_leaf=100, random_state=0
        ).fit(X, y)
    tree = model.taxonomy_
    of_leaves, _ = sizes(tree)
    assert tree.depth == 2 and of_leaves.max() <= 100
    assert np.diff(tree.child_ptr).max() <= 128
    # more nodes at the second level than the beam holds
    assert (~tree.is_leaf).sum() - 1 > 4 * model.n_leaves_
    proba = model.predict_proba(X[:20])
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-10)
    np.testing.assert_array_equal(model.predict(X[:20]), proba.argmax(axis=1))
    best, log_proba = model.predict_top_k(X[:20], 3, return_log_proba=True)
    np.testing.assert_array_equal(best[:, 0], proba.argmax(axis=1))
    np.testing.assert_allclose(np.exp(log_proba), -np.sort(-proba, axis=1)[:, :3])
    target = model.target_log_proba(X[:20], y[:20])
    np.testing.assert_allclose(np.exp(target), proba[np.arange(20), y[:20]])
    for i in range(3):
        np.testing.assert_array_equal(model.predict_proba(X[i]), proba[[i]])
    # with a beam that holds every node, what was pending is as far as c' said
    model.nodes_.n_leaves = 1000
    every = model.predict_proba(X[:5])
    np.testing.assert_allclose(every.sum(axis=1), 1, atol=1e-10)
    np.testing.assert_array_equal(model.predict(X[:5]), every.argmax(axis=1))


def test_given_trees_and_builders_are_as_they_were_given(texts):
    X, y = texts
    few = y < 60
    node = LinearClassifier(max_iter=5)
    given = [list(range(20)), [list(range(20, 35)), list(range(35, 60))]]
    for taxonomy in (given, CutSplit(max_depth=3)):
        model = HierarchicalClassifier(taxonomy, estimator=node).fit(X[few], y[few])
        assert model.taxonomy_.depth == (2 if taxonomy is given else 3)


def test_bad_max_leaf(texts):
    X, y = texts
    for bad in (0, -1, 2.5, "many"):
        with pytest.raises(ValueError, match="max_leaf"):
            HierarchicalClassifier(max_leaf=bad).fit(X, y)
    with pytest.raises(ValueError, match="not the name of a builder"):
        HierarchicalClassifier(("cut", "autp"), n_taxonomies=2).fit(X[:50], y[:50])


@pytest.mark.parametrize("estimator", [None, LinearClassifier()])
def test_a_single_class_and_sparse_rows_that_are_empty(estimator):
    X = sp.csr_matrix((6, 4), dtype=np.float32)
    model = HierarchicalClassifier(estimator=estimator).fit(X, ["a"] * 6)
    assert model.predict(X).tolist() == ["a"] * 6
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((6, 1)))


def test_plain_nodes_of_wide_sparse_samples(texts, monkeypatch):
    """Weights that are too many to be stored whole have the other posterior."""
    X, y = texts
    some = np.flatnonzero(y < 30)
    X, y = X[some], y[some]
    groups = [list(range(a, a + 10)) for a in (0, 10, 20)]
    node = LinearClassifier("log_loss", calibration=None, tol=1e-4, max_iter=2000)

    def fitted(limit, X=X, estimator=node, **params):
        monkeypatch.setattr(_chain_nodes, "_MOST_WEIGHTS", limit)
        model = HierarchicalClassifier(groups, estimator=estimator, random_state=0)
        return model.set_params(**params).fit(X, y)

    size = X.shape[1] * 30
    plain, wide = fitted(size), fitted(size - 1)
    assert isinstance(plain.nodes_, ChainNodes)
    assert isinstance(wide.nodes_, DualNodes)
    np.testing.assert_allclose(plain.predict_proba(X), wide.predict_proba(X), atol=1e-2)
    for params in (
        {"X": X[:, :50].toarray()},
        {"estimator": logistic(tol=0.1)},
    ):
        assert isinstance(fitted(0, **params).nodes_, ChainNodes)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_nodes_of_either_solver(texts, kind):
    """Each node of "auto" has the optimum of one solver for all."""
    X, y = texts
    some = np.flatnonzero(y < 30)
    X, y = X[some][:, :20], y[some]
    X = X.toarray() if kind == "dense" else X
    groups = [[*range(10)], [*range(10, 14)], [*range(14, 30)]]
    probabilities = []
    for solver in ("auto", "dual", "quasi_newton"):
        node = LinearClassifier(
            "log_loss", C=20, calibration=None, solver=solver, tol=1e-4, max_iter=5000
        )
        model = HierarchicalClassifier(groups, estimator=node, n_jobs=2).fit(X, y)
        assert isinstance(model.nodes_, ChainNodes)
        assert (model.C_ == 20).all()
        probabilities.append(model.predict_proba(X))
    for other in probabilities[1:]:
        np.testing.assert_allclose(probabilities[0], other, atol=2e-2)


def test_searches_with_the_solver_of_each_node(texts):
    X, y = texts
    some = np.flatnonzero(y < 20)
    X, y = X[some], y[some]
    groups = [[*range(10)], [*range(10, 20)]]
    node = LinearClassifier(
        "log_loss", calibration=None, solver="dual", tol=1e-3, max_iter=2000
    )
    for search in (
        PerNodeC([1.0, 30.0], estimator=node),
        GammaPrior(2, [1.0, 100.0], estimator=node),
    ):
        model = HierarchicalClassifier(groups, estimator=search, random_state=0)
        model.fit(X, y)
        assert len(model.searches_) == 1
        for v, C in enumerate(model.C_):
            fixed = LinearClassifier(
                "log_loss", C=C, calibration=None, tol=1e-3, max_iter=2000
            )
            fixed = HierarchicalClassifier(groups, estimator=fixed).fit(X, y)
            a = model.forest_.row[model.model_nodes_[v]]
            rows = slice(a, a + model.forest_.rows_of_node[model.model_nodes_[v]])
            gap = np.abs(fixed.coef_[rows] - model.coef_[rows]).max()
            assert gap < 0.05 * np.abs(fixed.coef_[rows]).max()


def log_probabilities(parent, scores):
    """Of the leaves, in order, by `full_rows`; None if a score is not a number.

    Nodes are parents before children; each has its rows where its parent's ends.
    """
    n_child = np.bincount(np.maximum(parent, 0), minlength=len(parent)) - (
        np.arange(len(parent)) == 0
    )
    rows = np.where(n_child == 2, 1, n_child)
    leaf = np.flatnonzero(n_child == 0)
    node_class = np.full(len(parent), -1)
    node_class[leaf] = np.arange(leaf.size)
    arrays = (
        [0, len(parent)], parent, np.searchsorted(parent, np.arange(len(parent))),
        n_child, np.cumsum(rows) - rows, node_class, leaf[None],
    )  # fmt: skip
    forest = ForestArrays(*(np.asarray(a, dtype=np.int32) for a in arrays))
    scores, out = np.array([scores], dtype=float), np.empty((1, leaf.size))
    soft = np.log1p(np.exp(-np.abs(scores)))
    work = np.empty(len(parent) + leaf.size)
    return out[0] if full_rows(forest, scores, soft, work, out) else None


def test_a_score_that_is_not_a_number_is_seen_at_every_node():
    parent = [-1, 0, 0, 0, 1, 1, 1]
    assert log_probabilities(parent, np.zeros(6)) is not None
    for at in range(6):
        scores = np.where(np.arange(6) == at, np.nan, 0.0)
        assert log_probabilities(parent, scores) is None


@pytest.mark.parametrize("sign", [1, -1])
def test_infinite_scores_give_finite_log_probabilities(sign):
    parent = [-1, 0, 0, 1, 1, 2, 2]
    found = log_probabilities(parent, sign * np.array([np.inf, np.inf, -np.inf]))
    assert np.isfinite(found).all() and (found == 0.0).sum() == 1
