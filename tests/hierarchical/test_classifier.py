"""HierarchicalClassifier: oracles, invariants, scikit-learn's checks, bad input."""

import copy
import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from _callbacks import needs_callbacks
from _cases import all_pairs, each_value
from _nodes import logistic
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

from sklstruct import _checks
from sklstruct.hierarchical import (
    GammaPrior,
    HierarchicalClassifier,
    PerNodeC,
)
from sklstruct.hierarchical._searches import folds
from sklstruct.hierarchical._trees import another_view
from sklstruct.linear import LinearClassifier
from sklstruct.taxonomy import (
    TAXONOMY_BUILDERS,
    Taxonomy,
)

NESTED = [[0], [[1, 8], [2, [3, 9]]], [[4], [5, 6, 7]]]  # leaves at levels 1, 2 and 3
BUILDERS = sorted(TAXONOMY_BUILDERS)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    keep = np.random.default_rng(0).permutation(y.size)[:900]
    return X[keep] / 16, y[keep]


@pytest.fixture(scope="module")
def train(digits):
    return digits[0][:600], digits[1][:600]


@pytest.fixture(params=[200, 600])
def part(request, train):
    """The first of the samples `train`: claims that do not depend on their number."""
    X, y = train
    return X[: request.param], y[: request.param]


@pytest.fixture(scope="module")
def test(digits):
    return digits[0][600:], digits[1][600:]


def clouds(n_classes, per_class, d=8, seed=0, spread=3.0):
    return make_blobs(
        n_classes * per_class,
        d,
        centers=np.random.default_rng(seed).normal(size=(n_classes, d)) * spread,
        random_state=seed,
    )


VARIANTS = {
    "cut": {},
    "flat": {"max_depth": 0},
    "depth": {"max_depth": 2},
    "given": {"taxonomy": NESTED},
    "chain": {"taxonomy": [[[[[[[[[0, 1], 2], 3], 4], 5], 6], 7], 8], 9]},
    "three": {"n_taxonomies": 3},
    "mixed": {"taxonomy": ("cut", NESTED, "rand"), "n_taxonomies": 3},
    "no_intercept": {"estimator": logistic(intercept_scaling=0)},
    "estimator": {"estimator": GaussianNB(), "taxonomy": NESTED},
    "estimator_three": {"estimator": GaussianNB(), "n_taxonomies": 3},
}


@pytest.fixture(scope="module", params=VARIANTS)
def fitted(request, train):
    return HierarchicalClassifier(**VARIANTS[request.param], random_state=0).fit(*train)


# ------------------------------------------------------------- probabilities


def product_along_path(model, X):
    """P(y | x) by the definition, with Python loops over nodes and classes."""
    forest = model.forest_
    out = np.zeros((X.shape[0], model.classes_.size))
    of_node = {int(v): i for i, v in enumerate(model.model_nodes_)}
    for t in range(len(model.taxonomies_)):
        for c in range(model.classes_.size):
            p = np.ones(X.shape[0])
            v = int(forest.terminal[t, c])
            while forest.parent[v] >= 0:
                u = int(forest.parent[v])
                k, m = v - forest.first_child[u], forest.n_child[u]
                if hasattr(model, "estimators_"):
                    p *= model.estimators_[of_node[u]].predict_proba(X)[:, k]
                else:
                    r = forest.row[u]
                    w = model.coef_[r : r + (1 if m == 2 else m)]
                    z = X @ w.T + model.intercept_[r : r + w.shape[0]]
                    if m == 2:
                        z = np.hstack([np.zeros_like(z), z])
                    e = np.exp(z - z.max(axis=1, keepdims=True))
                    p *= e[:, k] / e.sum(axis=1)
                v = u
            out[:, c] += p / len(model.taxonomies_)
    return out


def test_product_of_the_factors(fitted, test):
    X, _ = test
    assert_allclose(
        fitted.predict_proba(X), product_along_path(fitted, X), rtol=1e-9, atol=1e-15
    )


def test_sums_to_one(fitted, test):
    assert_allclose(fitted.predict_proba(test[0]).sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize(*each_value(name=BUILDERS, max_depth=[0, 1, 2, None]))
def test_sums_to_one_for_every_builder(train, test, name, max_depth):
    model = HierarchicalClassifier(
        name, max_depth=max_depth, random_state=0, estimator=logistic(tol=1e-2)
    )
    model.fit(*train)
    proba = model.predict_proba(test[0])
    assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert model.taxonomy_.depth <= (np.inf if max_depth is None else max_depth)
    assert (model.predict(test[0]) == test[1]).mean() > 0.7


def test_independent_of_the_batch(fitted, test):
    X, y = test
    whole = fitted.predict_proba(X)
    single = np.vstack([fitted.predict_proba(x[None]) for x in X[:15]])
    assert_allclose(single, whole[:15], rtol=1e-11, atol=1e-15)
    target = fitted.target_log_proba(X, y)
    single = np.array([fitted.target_log_proba(X[[i]], y[[i]])[0] for i in range(15)])
    if not hasattr(fitted, "estimators_"):
        assert_array_equal(single, target[:15])  # compiled: to the last bit
    assert_allclose(single, target[:15], rtol=1e-11)
    assert_array_equal(fitted.predict(X[:15]), fitted.predict(X)[:15])


def test_log_proba_ranks_like_proba(fitted, test):
    X, _ = test
    log_proba, proba = fitted.predict_log_proba(X), fitted.predict_proba(X)
    assert_array_equal(np.exp(log_proba), proba)
    assert_array_equal(log_proba.argmax(1), proba.argmax(1))
    assert_array_equal(fitted.predict(X), fitted.classes_[proba.argmax(1)])


def test_target_log_proba_and_top_k(fitted, test):
    X, y = test
    log_proba = fitted.predict_log_proba(X)
    column = np.searchsorted(fitted.classes_, y)
    assert_allclose(
        fitted.target_log_proba(X, y),
        log_proba[np.arange(y.size), column],
        rtol=1e-10,
        atol=1e-13,
    )
    for k in (1, 3, fitted.classes_.size):
        labels, values = fitted.predict_top_k(X, k, return_log_proba=True)
        order = np.argsort(-log_proba, axis=1, kind="stable")[:, :k]
        assert_array_equal(labels, fitted.classes_[order])
        assert_allclose(
            values,
            np.take_along_axis(log_proba, order, axis=1),
            rtol=1e-10,
            atol=1e-13,
        )
        assert_array_equal(fitted.predict_top_k(X, k), labels)


@pytest.mark.parametrize("classes", [[0], [0, 1], [0, 1, 2]])
def test_decision_function_is_the_log_probability(train, classes):
    keep = np.isin(train[1], classes)
    X, y = train[0][keep], train[1][keep]
    model = HierarchicalClassifier().fit(X, y)
    scores, log_proba = model.decision_function(X), model.predict_log_proba(X)
    if len(classes) == 2:
        assert_array_equal(scores > 0, model.predict(X) == 1)
        assert_allclose(1 / (1 + np.exp(-scores)), np.exp(log_proba[:, 1]))
    elif len(classes) == 1:  # as LinearClassifier
        flat = LinearClassifier().fit(X, y).decision_function(X)
        assert scores.tolist() == flat.tolist() == log_proba[:, 0].tolist()
    else:
        assert_array_equal(scores, log_proba)
    found = cross_val_predict(model, X, y, cv=2, method="decision_function")
    assert found.shape == scores.shape


def test_the_models_of_fit_decide_whether_there_are_scores(train):
    forest = RandomForestClassifier(2, random_state=0)
    plain, other = (
        HierarchicalClassifier(NESTED, estimator=estimator).fit(*train)
        for estimator in (None, forest)
    )
    assert not hasattr(other.set_params(estimator=None), "decision_function")
    scores = plain.decision_function(train[0])
    plain.set_params(estimator=forest)
    assert_array_equal(plain.decision_function(train[0]), scores)


@pytest.mark.parametrize("n_taxonomies", [1, 3])
@pytest.mark.parametrize("max_depth", [None, 2])
def test_the_search_finds_the_joint_argmax(n_taxonomies, max_depth):
    X, y = clouds(40, 15, spread=0.7)
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(10_000, X.shape[1])) * 1.5
    model = HierarchicalClassifier(
        "rand", n_taxonomies=n_taxonomies, max_depth=max_depth, random_state=0
    ).fit(X, y)
    joint = model.classes_[model.predict_log_proba(Z).argmax(axis=1)]
    assert_array_equal(model.predict(Z), joint)
    products = model.n_dot_products(Z)
    # a sample that is undecided in single precision is searched twice
    assert (products <= model.coef_.shape[0]).mean() > 0.999
    assert (products <= 2 * model.coef_.shape[0]).all()
    if n_taxonomies == 1:
        assert products.mean() < model.coef_.shape[0]


def test_the_search_breaks_ties_like_argmax():
    # constant features: only priors, and classes of equal size are exactly tied
    y = np.repeat(np.arange(8), 4)
    model = HierarchicalClassifier("rand", random_state=0).fit(np.ones((32, 2)), y)
    Z = np.ones((3, 2))
    assert_array_equal(
        model.predict(Z), model.classes_[model.predict_log_proba(Z).argmax(1)]
    )


@pytest.mark.parametrize(
    *all_pairs(
        as_sparse=[False, True],
        dtype=[np.float64, np.float32],
        scale=[0.0, 1e-3, 1.0, 30.0],
    )
)
def test_joint_where_classes_are_near_each_other(scale, dtype, as_sparse):
    """From all classes equally probable, more pending nodes than a walk keeps and all
    of them tied, to one of probability 1, at nodes with two and with many children."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(300), 2)
    X = rng.normal(size=(y.size, 4)).astype(dtype)
    Z = rng.normal(size=(200, 4)).astype(dtype)
    nested = [[[c, c + 1] for c in range(0, 100, 2)], list(range(100, 200)), [
        [list(range(a, a + 5)) for a in range(200, 300, 5)]
    ]]  # fmt: skip
    for taxonomy in ("rand", nested):
        model = HierarchicalClassifier(
            taxonomy, random_state=0, estimator=logistic(max_iter=5)
        )
        with pytest.warns(ConvergenceWarning):
            model.fit(X, y)
        model.nodes_.coef *= dtype(scale)
        model.nodes_.intercept *= dtype(scale)
        Q = sp.csr_matrix(Z) if as_sparse else Z
        log_proba = model.predict_log_proba(Q)
        found = model.predict(Q)
        best = log_proba.max(axis=1)
        assert_array_equal(found, model.predict_top_k(Q, 1)[:, 0])
        assert_allclose(log_proba[np.arange(200), found], best, rtol=1e-5, atol=1e-6)
        if scale in (0.0, 30.0):
            assert_array_equal(found, log_proba.argmax(axis=1))


SHAPES = {
    "balanced": "rand",
    "chain": Taxonomy.from_parents(
        {f"v{c + 1}": f"v{c}" for c in range(98)}
        | {c: f"v{c}" for c in range(99)}
        | {99: "v98"}
    ),
    "single": [[[list(range(40))]], [[[[40], [[41]]]], [[list(range(42, 100))]]]],
    "wide": [list(range(a, a + 20)) for a in range(0, 100, 20)],
}


@pytest.fixture(scope="module", params=SHAPES)
def random_weights(request):
    """Models of 100 classes and 40 features with weights drawn at random."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 40)), np.repeat(np.arange(100), 2)
    model = HierarchicalClassifier(
        SHAPES[request.param], random_state=0, estimator=logistic(max_iter=1)
    )
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    model.nodes_.coef = rng.normal(size=model.coef_.shape) * rng.exponential(
        size=(model.coef_.shape[0], 1)
    )
    model.nodes_.intercept = rng.normal(size=model.intercept_.shape)
    return model


@pytest.mark.parametrize("scale", [1e-9, 0.01, 0.3, 30.0, 1e5, 1e200])
def test_predict_is_exact_at_every_scale(random_weights, scale):
    """One sample alone is searched in double precision, many in single precision with
    bounds: the answers, and those of the full rows, are the same. Samples of one call
    differ in norm by ten orders of magnitude, so that some go either way."""
    model = random_weights
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(2000, 40)) * scale
    Z[:500] *= 10.0 ** rng.uniform(-5, 5, size=(500, 1))
    many = model.predict(Z)
    for one in range(0, 2000, 100):
        assert many[one] == model.predict(Z[[one]])[0]
    log_proba = model.predict_log_proba(Z)
    rows = np.arange(2000)
    # classes that are tied in the last bits may change places
    assert_allclose(log_proba[rows, many], log_proba.max(axis=1), rtol=1e-12)
    assert_array_equal(many, model.predict_top_k(Z, 1)[:, 0])
    assert (model.n_dot_products(Z) <= 2 * model.coef_.shape[0]).all()


# "wide" has no node with two classes
@pytest.mark.parametrize(
    "random_weights", ["balanced", "chain", "single"], indirect=True
)
@pytest.mark.parametrize("gap", [1e-6, 1e-9, 1e-12])
def test_classes_that_single_precision_cannot_tell_apart(random_weights, gap):
    model = copy.deepcopy(random_weights)
    forest = model.forest_
    two = np.flatnonzero(forest.n_child == 2)
    first = forest.first_child[two]
    classes = (forest.n_child[first] == 0) & (forest.n_child[first + 1] == 0)
    rows = forest.row[two[classes]]
    model.coef_[rows] *= gap
    model.intercept_[rows] = 0
    Z = np.random.default_rng(2).normal(size=(3000, 40))
    log_proba = model.predict_log_proba(Z)
    assert_array_equal(model.predict(Z), log_proba.argmax(axis=1))


def test_small_weights(random_weights):
    """Classes of nearly equal probability: nearly all nodes are opened."""
    model = copy.deepcopy(random_weights)
    model.nodes_.coef *= 0.03
    Z = np.random.default_rng(3).normal(size=(2000, 40))
    assert_array_equal(model.predict(Z), model.predict_log_proba(Z).argmax(axis=1))


def test_many_children_and_large_scores_sum_to_one(train):
    """The logarithm of a sum must not vanish beside a large score."""
    X, y = train
    model = HierarchicalClassifier(max_depth=0, estimator=logistic(C=1e-3)).fit(X, y)
    twin = HierarchicalClassifier(max_depth=0, estimator=logistic(C=1e-3)).fit(X, y)
    twin.coef_[1] = twin.coef_[0]
    for fitted in (model, twin):
        for scale in (1.0, 1e3, 1e6, 1e12, 1e300):
            proba = fitted.predict_proba(X[:20] * scale)
            assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)


def test_scores_that_are_not_numbers_are_refused(train):
    X, y = train
    Z = np.where(np.arange(X.shape[1]) % 2, 1.5e308, -1.5e308)[None]
    for options in ({}, {"max_depth": 0}, {"n_taxonomies": 2, "random_state": 0}):
        model = HierarchicalClassifier(**options).fit(X, y)
        model.nodes_.coef = (
            np.where(np.arange(X.shape[1]) % 2, 3.0, -3.0)
            * np.array([[1.0], [-1.0]] * model.coef_.shape[0])[: model.coef_.shape[0]]
        )
        model.coef_[:, ::3] *= -1
        for call in (model.predict, model.predict_proba, model.predict_top_k):
            with pytest.raises(ValueError, match="a score is not a number"):
                call(Z)
        with pytest.raises(ValueError, match="a score is not a number"):
            model.target_log_proba(Z, y[:1])


def test_malformed_rows_are_refused(train):
    X, y = train
    model = HierarchicalClassifier(NESTED).fit(sp.csr_matrix(X), y)
    for value in (10**6, -3):
        Z = sp.csr_matrix(X[:5])
        Z.indices[7] = value
        for call in (model.predict, model.predict_proba, model.predict_top_k):
            with pytest.raises(ValueError, match="X is a malformed CSR matrix"):
                call(Z)


class Refuses(DecisionTreeClassifier):
    """A model whose probabilities are not a distribution far from the training data."""

    answer = 0.0

    def predict_proba(self, X):
        proba = super().predict_proba(X)
        proba[X[:, 0] > 1e6] = self.answer
        return proba


@pytest.mark.parametrize("answer", [np.nan, 0.0, -1.0, np.inf])
def test_node_model_without_a_distribution(train, answer, monkeypatch):
    X, y = train
    monkeypatch.setattr(Refuses, "answer", answer)
    model = HierarchicalClassifier(NESTED, estimator=Refuses(max_depth=2)).fit(X, y)
    model.predict(X[:5])
    with pytest.raises(ValueError, match="not a distribution"):
        model.predict(np.vstack([X[:5], np.full((1, X.shape[1]), 1e7)]))


def test_a_frozen_classifier_cannot_be_every_node():
    X, y = load_iris(return_X_y=True)
    frozen = FrozenEstimator(GaussianNB().fit(X, y > 0))
    inside = (
        frozen,
        make_pipeline(StandardScaler(), frozen),
        GridSearchCV(make_pipeline(frozen), {}),
    )
    for estimator in inside:
        model = HierarchicalClassifier([[0], [1, 2]], estimator=estimator)
        with pytest.raises(ValueError, match="estimator must learn anew .* unfitted"):
            model.fit(X, y)
    # a step before the classifier may be frozen
    scaled = make_pipeline(FrozenEstimator(StandardScaler().fit(X)), GaussianNB())
    model = HierarchicalClassifier([[0], [1, 2]], estimator=scaled).fit(X, y)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("n_taxonomies", [1, 2])
def test_compiled_and_generic_routes_agree(part, test, n_taxonomies):
    """scikit-learn's LogisticRegression as node model finds the same as ours."""
    options = {"n_taxonomies": n_taxonomies, "random_state": 0, "max_depth": 2}
    ours = HierarchicalClassifier(estimator=logistic(C=0.1, tol=1e-8), **options).fit(
        *part
    )
    theirs = HierarchicalClassifier(
        estimator=LogisticRegression(C=0.1, tol=1e-8, max_iter=5000), **options
    ).fit(*part)
    X = test[0]
    assert_allclose(theirs.predict_proba(X), ours.predict_proba(X), atol=1e-5)
    assert_array_equal(theirs.predict(X), ours.predict(X))
    assert_array_equal(
        theirs.decision_path(X).toarray(), ours.decision_path(X).toarray()
    )


@pytest.mark.parametrize("estimator", [LogisticRegression(C=0.1), GaussianNB()])
def test_most_probable_class_of_other_estimators(train, test, estimator):
    model = HierarchicalClassifier(estimator=estimator, random_state=0).fit(*train)
    X = test[0]
    expected = model.classes_[model.predict_proba(X).argmax(axis=1)]
    assert_array_equal(model.predict(X), expected)
    assert_array_equal(model.n_dot_products(X), model.forest_.n_rows)


def test_decision_path_holds_the_predicted_class(fitted, test):
    X, _ = test
    path = fitted.decision_path(X)
    assert path.shape == (len(X), sum(t.n_nodes for t in fitted.taxonomies_))
    offset = 0
    code = np.searchsorted(fitted.classes_, fitted.predict(X))
    for tree in fitted.taxonomies_:
        part = path[:, offset : offset + tree.n_nodes]
        for i in range(20):
            below = map(tree.classes_below, range(tree.n_nodes))
            above = [v for v, classes in enumerate(below) if code[i] in classes]
            assert_array_equal(part[i].nonzero()[1], above)
        offset += tree.n_nodes


# ------------------------------------------------------------ degenerate cases


def test_depth_zero_is_the_flat_model(part, test):
    for weight in (None, np.random.default_rng(0).uniform(0.5, 2, part[1].size)):
        model = HierarchicalClassifier(max_depth=0, estimator=logistic(C=0.3, tol=1e-8))
        model.fit(*part, sample_weight=weight)
        flat = LogisticRegression(C=0.3, tol=1e-8, max_iter=10_000)
        flat.fit(*part, sample_weight=weight)
        assert_allclose(
            model.predict_proba(test[0]), flat.predict_proba(test[0]), atol=1e-5
        )
        assert (model.n_dot_products(test[0]) == 10).all()


def test_two_classes_are_the_binary_model(train, test):
    X, y = train
    two = y < 2
    names = np.where(y[two] == 0, "zero", "one")
    model = HierarchicalClassifier(estimator=logistic(C=2.0, tol=1e-9)).fit(
        X[two], names
    )
    flat = LogisticRegression(C=2.0, tol=1e-9, max_iter=10_000).fit(X[two], names)
    assert_array_equal(model.classes_, flat.classes_)
    assert_allclose(
        model.predict_proba(test[0]), flat.predict_proba(test[0]), atol=1e-6
    )
    assert (model.n_dot_products(test[0]) == 1).all()


def test_one_class(train, test):
    X, _ = train
    for options in ({}, {"taxonomy": [[7]]}, {"n_taxonomies": 2}):
        model = HierarchicalClassifier(**options).fit(X, np.full(len(X), 7))
        assert (model.predict(test[0]) == 7).all()
        assert (model.n_dot_products(test[0]) == 0).all()
        assert (model.predict_proba(test[0]) == 1).all()
        assert_array_equal(model.target_log_proba(test[0][:2], [7, 3]), [0, np.nan])


@pytest.mark.parametrize("name", ["cut", "ward"])
def test_permuting_class_names_permutes_the_answer(train, test, name):
    """Two classifiers that differ in the names of classes only give one answer.

    The tree is that of the first, renamed: how a builder breaks ties between classes
    is its own affair.
    """
    X, y = train
    new = np.random.default_rng(3).permutation(10)
    model = HierarchicalClassifier(
        name, random_state=0, estimator=logistic(tol=1e-9, C=0.1)
    ).fit(X, y)

    def rename(node):
        return [rename(v) if isinstance(v, list) else int(new[v]) for v in node]

    renamed = HierarchicalClassifier(
        rename(model.taxonomy_.to_nested()), estimator=logistic(tol=1e-9, C=0.1)
    ).fit(X, new[y])
    assert_allclose(
        renamed.predict_proba(test[0])[:, new], model.predict_proba(test[0]), atol=1e-5
    )
    assert_array_equal(renamed.predict(test[0]), new[model.predict(test[0])])


@pytest.mark.parametrize("name", ["spec", "cut", "diff", "ward", "obyo"])
def test_builders_do_not_look_at_names(train, test, name):
    X, y = train
    new = np.random.default_rng(3).permutation(10)
    model = HierarchicalClassifier(
        name, random_state=0, estimator=logistic(tol=1e-9, C=0.1)
    ).fit(X, y)
    renamed = clone(model).fit(X, new[y])
    assert_allclose(
        renamed.predict_proba(test[0])[:, new], model.predict_proba(test[0]), atol=1e-5
    )


def test_string_labels(train, test):
    X, y = train
    words = np.array(list("jihgfedcba"))
    model = HierarchicalClassifier(random_state=0).fit(X, words[y])
    assert_array_equal(model.classes_, np.sort(words))
    assert set(model.predict(test[0])) <= set(words)
    assert np.isnan(model.target_log_proba(test[0][:1], ["unknown"])).all()
    assert np.isfinite(model.target_log_proba(test[0], words[test[1]])).all()


# ------------------------------------------------------------------ input kinds


def test_csr_is_dense(part, test):
    X, y = part
    for options in (
        {},
        {"n_taxonomies": 2},
        {"estimator": PerNodeC([0.1, 1.0], estimator=logistic(tol=1e-9))},
    ):
        dense = HierarchicalClassifier(
            NESTED, estimator=logistic(tol=1e-9), random_state=0
        )
        if "n_taxonomies" in options:
            options["taxonomy"] = (NESTED, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]])
        dense.set_params(**options)
        sparse = clone(dense).fit(sp.csr_array(X), y)
        dense.fit(X, y)
        Z = sp.csr_matrix(test[0])
        assert_allclose(sparse.predict_proba(Z), dense.predict_proba(test[0]),
                        atol=1e-5)  # fmt: skip
        assert_array_equal(sparse.predict(Z), dense.predict(test[0]))
        assert_allclose(
            sparse.target_log_proba(Z, test[1]),
            dense.target_log_proba(test[0], test[1]),
            atol=1e-4,
        )


def test_csr_with_wide_indices_duplicates_and_empty_rows(part):
    X, y = part
    S = sp.csr_matrix(X)
    wide = S.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(
        np.int64
    )  # fmt: skip
    # every entry split into two halves: not summed, not sorted
    twice = sp.csr_matrix(
        (np.repeat(S.data / 2, 2), np.repeat(S.indices, 2), S.indptr * 2), shape=S.shape
    )
    base = HierarchicalClassifier(NESTED, estimator=logistic(tol=1e-9)).fit(S, y)
    for other in (wide, twice, S.tocsc()):
        model = clone(base).fit(other, y)
        assert_allclose(model.predict_proba(other), base.predict_proba(S), atol=1e-5)
        assert_array_equal(model.predict(other), base.predict(S))
    empty = sp.csr_matrix((3, X.shape[1]))
    assert_allclose(
        base.predict_proba(empty), base.predict_proba(np.zeros((3, X.shape[1])))
    )
    assert len(base.predict(empty)) == 3


def test_float32_stays_float32(train, test):
    X, y = train
    wide = HierarchicalClassifier(NESTED, estimator=logistic(C=0.1)).fit(X, y)
    narrow = clone(wide).fit(X.astype(np.float32), y)
    assert narrow.coef_.dtype == np.float32
    Z = test[0].astype(np.float32)
    proba = narrow.predict_proba(Z)
    assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert_allclose(proba, wide.predict_proba(test[0]), atol=2e-2)
    assert (narrow.predict(Z) == wide.predict(test[0])).mean() > 0.98


def test_pandas(train, test):
    columns = [f"pixel{i}" for i in range(64)]
    X = pd.DataFrame(train[0], columns=columns)
    model = HierarchicalClassifier(NESTED).fit(X, pd.Series(train[1]))
    assert_array_equal(model.feature_names_in_, columns)
    Z = pd.DataFrame(test[0], columns=columns)
    plain = HierarchicalClassifier(NESTED).fit(*train)
    assert_array_equal(model.predict(Z), plain.predict(test[0]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(Z[columns[::-1]])


# ----------------------------------------------------------------- weights, jobs


@pytest.mark.parametrize("search", [False, True])
def test_weights_are_repetitions(train, test, search):
    X, y = train
    weight = np.random.default_rng(0).integers(0, 4, y.size)
    node = logistic(tol=1e-9)
    node = GammaPrior(2, 1, estimator=node) if search else node
    model = HierarchicalClassifier(NESTED, estimator=node)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    # this prior lets C grow to thousands, where the solvers stop at 64 ulp of the loss
    # and scores are 1e-2 from the optimum
    atol = 3e-3 if search else 1e-3
    assert_allclose(
        weighted.predict_proba(test[0]), repeated.predict_proba(test[0]), atol=atol
    )


def test_class_weight_is_sample_weight(train, test):
    X, y = train
    by_class = {c: 1.0 + c for c in range(10)}
    weighted = HierarchicalClassifier(
        NESTED, class_weight=by_class, estimator=logistic(tol=1e-9)
    )
    plain = HierarchicalClassifier(NESTED, estimator=logistic(tol=1e-9))
    assert_allclose(
        weighted.fit(X, y).predict_proba(test[0]),
        plain.fit(X, y, sample_weight=1.0 + y).predict_proba(test[0]),
        atol=1e-6,
    )
    counts = np.bincount(y)
    balanced = HierarchicalClassifier(
        NESTED, class_weight="balanced", estimator=logistic(tol=1e-9)
    )
    assert_allclose(
        balanced.fit(X, y).predict_proba(test[0]),
        plain.fit(X, y, sample_weight=(y.size / (10 * counts))[y]).predict_proba(
            test[0]
        ),
        atol=1e-6,
    )


def test_n_jobs_does_not_change_the_answer(part, test):
    options = {"random_state": 0, "n_taxonomies": 2, "estimator": PerNodeC()}
    one = HierarchicalClassifier(**options).fit(*part)
    two = HierarchicalClassifier(**options, n_jobs=2).fit(*part)
    assert_array_equal(one.coef_, two.coef_)
    assert_array_equal(one.C_, two.C_)
    X = np.tile(test[0], (20, 1))
    assert_array_equal(one.predict(X), two.predict(X))
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.parametrize("options", [{}, {"estimator": PerNodeC()}])
def test_same_seed_same_answer(train, test, options):
    options = {"taxonomy": "kmeans", "n_taxonomies": 2, **options}
    one = HierarchicalClassifier(random_state=5, **options).fit(*train)
    two = HierarchicalClassifier(random_state=5, **options).fit(*train)
    assert_array_equal(one.predict_proba(test[0]), two.predict_proba(test[0]))


def test_pickle_is_small_and_whole(train, test):
    model = HierarchicalClassifier(random_state=0).fit(*train)
    data = pickle.dumps(model)
    # coefficients, and a few arrays over the nodes: nothing of X
    assert len(data) < model.coef_.nbytes + 20_000 < train[0].nbytes
    assert_array_equal(
        pickle.loads(data).predict_proba(test[0]), model.predict_proba(test[0])
    )


# ---------------------------------------------------------------------- policies


def test_indep_chooses_a_candidate_for_each_node(part):
    C = [0.003, 0.1, 30.0]
    model = HierarchicalClassifier(NESTED, estimator=PerNodeC(C), random_state=0).fit(
        *part
    )
    assert set(model.C_) <= set(C)
    assert model.C_.size == model.model_nodes_.size
    only = HierarchicalClassifier(NESTED, estimator=PerNodeC([0.1])).fit(*part)
    single = HierarchicalClassifier(NESTED, estimator=logistic(C=0.1)).fit(*part)
    assert_allclose(only.coef_, single.coef_)


def test_indep_chooses_by_held_out_loss():
    """One node: scikit-learn's own cross-validation over the same folds agrees."""
    X, y = clouds(2, 60, d=30, spread=0.25)
    C = np.array([1e-4, 1e-2, 1.0, 100.0])
    search = PerNodeC(C, estimator=logistic(tol=1e-8))
    model = HierarchicalClassifier([[0], [1]], estimator=search, random_state=0)
    model.fit(X, y)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    fold = folds(y, np.random.RandomState(0))
    loss = np.zeros(C.size)
    for f in range(3):
        for i, c in enumerate(C):
            flat = LogisticRegression(C=c, tol=1e-8, max_iter=10_000)
            flat.fit(X[fold != f], y[fold != f])
            p = flat.predict_proba(X[fold == f])
            p = np.maximum(p[np.arange(len(p)), y[fold == f]], 1e-300)
            loss[i] -= np.log(p).sum()
    assert model.C_.tolist() == [C[loss.argmin()]]


def test_folds_keep_every_class_in_training():
    code = np.repeat(np.arange(6), [1, 2, 3, 7, 1, 40])
    fold = folds(code, np.random.RandomState(0))
    assert (fold[[0, 13]] == -1).all()
    for f in range(3):
        assert set(code[fold != f]) == set(range(6))
    spread = [np.bincount(fold[code == c] + 1, minlength=4)[1:] for c in (3, 5)]
    assert all(np.ptp(s) <= 1 for s in spread)


def test_gamma_is_a_fixed_point(part):
    a, b = 3.0, 2.0
    model = HierarchicalClassifier(
        NESTED, estimator=GammaPrior(a, b, estimator=logistic(tol=1e-6))
    ).fit(*part)
    row = model.forest_.row[model.model_nodes_]
    ends = np.append(row[1:], model.coef_.shape[0])
    square = np.array([(model.coef_[i:j] ** 2).sum() for i, j in zip(row, ends)])
    lam = (a - 1) / (b + square)
    # C = 1 / (2 lambda), for the penalty lambda ||w||²
    assert_allclose(model.C_, 1 / (2 * lam), rtol=0.15)
    # and the weights are those of this C
    for v, C in enumerate(model.C_):
        fixed = HierarchicalClassifier(NESTED, estimator=logistic(C=C, tol=1e-6)).fit(
            *part
        )
        own = slice(row[v], ends[v])
        gap = np.linalg.norm(fixed.coef_[own] - model.coef_[own])
        assert gap < 0.02 * np.linalg.norm(fixed.coef_[own])


# ------------------------------------------------------------ several taxonomies


def test_average_of_taxonomies(train, test):
    A, B = NESTED, [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    both = HierarchicalClassifier((A, B), n_taxonomies=2).fit(*train)
    parts = [HierarchicalClassifier(t).fit(*train).predict_proba(test[0])
             for t in (A, B)]  # fmt: skip
    assert_allclose(both.predict_proba(test[0]), np.mean(parts, axis=0), rtol=1e-10)


def test_repeated_builders_differ(train):
    model = HierarchicalClassifier("rand", n_taxonomies=3, random_state=0).fit(*train)
    for one, other in pairwise(model.taxonomies_):
        assert one != other


def test_another_view_keeps_classes_and_total_weight():
    rng = np.random.RandomState(0)
    code = np.repeat([2, 0, 1, 3], [5, 1, 8, 2])
    X = np.arange(code.size)[:, None] * np.ones(7)
    for kind in (np.asarray, sp.csr_matrix):
        part, labels, weight = another_view(kind(X), code, np.ones(code.size), rng)
        assert part.shape == (labels.size, 4)
        rows = np.asarray(part[:, [0]].todense() if sp.issparse(part) else part)[:, 0]
        assert_array_equal(code[rows.astype(int)], labels)
        assert_array_equal(np.bincount(labels, weight), np.bincount(code))


# -------------------------------------------------------------------- estimators


@pytest.mark.parametrize(
    "estimator",
    [GaussianNB(), DecisionTreeClassifier(max_depth=4, random_state=0)],
    ids=lambda e: type(e).__name__,
)
def test_any_classifier(train, test, estimator):
    model = HierarchicalClassifier(NESTED, estimator=estimator).fit(*train)
    proba = model.predict_proba(test[0])
    assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    assert (model.predict(test[0]) == test[1]).mean() > 0.6
    # trees give exact zeros and exact ties
    assert_array_equal(model.predict(test[0]), model.classes_[proba.argmax(1)])


@pytest.mark.parametrize("sparse", [False, True])
def test_nan_is_passed_on_to_the_estimator(part, test, sparse):
    (X, y), (T, _) = part, test
    X, T = X.copy(), T.copy()
    X[::5, 0] = T[::7, 1] = np.nan
    kind = sp.csr_matrix if sparse else np.asarray
    mean = SimpleImputer().fit(X)
    node = make_pipeline(FunctionTransformer(mean.transform), LogisticRegression())
    model = HierarchicalClassifier(NESTED, estimator=node)
    if sparse:  # the transformer reads one form
        node.steps.insert(0, ["dense", FunctionTransformer(sp.csr_matrix.toarray)])
    model.fit(kind(X), y)
    right = HierarchicalClassifier(NESTED, estimator=LogisticRegression())
    right.fit(mean.transform(X), y)
    filled = mean.transform(T)
    assert_allclose(model.predict_proba(kind(T)), right.predict_proba(filled))
    assert_array_equal(model.predict(kind(T)), right.predict(filled))
    with pytest.raises(ValueError, match="contains NaN.* give the tree as taxonomy"):
        HierarchicalClassifier("cut", estimator=node).fit(kind(X), y)
    for estimator in (None, logistic(), LogisticRegression()):
        with pytest.raises(ValueError, match="contains NaN"):
            HierarchicalClassifier(NESTED, estimator=estimator).fit(kind(X), y)
    X[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        HierarchicalClassifier(NESTED, estimator=node).fit(kind(X), y)


def test_the_tag_of_nan_is_that_of_the_estimator():
    for estimator in (HistGradientBoostingClassifier(), LogisticRegression(), None):
        right = estimator is not None and get_tags(estimator).input_tags.allow_nan
        model = HierarchicalClassifier(estimator=estimator)
        assert get_tags(model).input_tags.allow_nan == right
    assert not get_tags(
        HierarchicalClassifier(estimator=logistic())
    ).input_tags.allow_nan


def test_missing_labels_and_columns_of_other_types(train):
    X = train[0][:60]
    names = ["a", "b", "c"] * 20
    models = HierarchicalClassifier(), LinearClassifier()
    for missing in (None, pd.NA, np.nan):
        y = np.array([*names[:-1], missing], dtype=object)
        for form in (y, pd.Series(y, dtype="string"), pd.Series(y, dtype="category")):
            for model in models:
                with pytest.raises(ValueError, match=r"y\[59\] is missing .*1 of 60"):
                    model.fit(X, form)
    Y = np.eye(3, dtype=int)[np.arange(60) % 3]
    for y in (Y.astype(str), Y.astype(object), Y.astype(np.float16)):
        message = f"y of several columns must hold 0 and 1, .*{y.dtype}: use y.astype"
        for model in (HierarchicalClassifier(), LinearClassifier()):
            with pytest.raises(ValueError, match=message):
                model.fit(X, y)
    with pytest.raises(
        ValueError, match="y holds sets of labels .*MultiLabelBinarizer"
    ):
        HierarchicalClassifier().fit(X, [{"a"}, {"a", "b"}] * 30)


def test_sample_weight_reaches_the_estimator(part, test):
    X, y = part
    weight = np.random.default_rng(0).integers(0, 3, y.size)
    node = LogisticRegression(tol=1e-8, max_iter=5000)
    model = HierarchicalClassifier(NESTED, estimator=node)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(
        weighted.predict_proba(test[0]), repeated.predict_proba(test[0]), atol=1e-5
    )
    model = HierarchicalClassifier(NESTED, estimator=KNeighborsClassifier())
    with pytest.raises(ValueError, match=r"takes no sample_weight.*make_pipeline"):
        model.fit(X, y, sample_weight=weight)
    bagging = BaggingClassifier(make_pipeline(model), 3, random_state=0)
    assert bagging.fit(X, y).score(X, y) > 0.9


class Recorder(GaussianNB):
    """Fails unless the metadata has one entry for each of its samples."""

    def fit(self, X, y, sample_weight=None, origin=None):
        assert origin is not None and len(origin) == len(y)
        self.origin_ = np.asarray(origin)
        self.weight_ = sample_weight
        return super().fit(X, y, sample_weight)


def test_metadata_routing(train):
    X, y = train
    origin = np.arange(y.size)
    with config_context(enable_metadata_routing=True):
        node = Recorder().set_fit_request(origin=True, sample_weight=False)
        model = HierarchicalClassifier(NESTED, estimator=node).fit(X, y, origin=origin)
        sizes = {m.origin_.size for m in model.estimators_}
        assert max(sizes) == y.size  # the root sees all, the others their own
        for m in model.estimators_:
            assert np.isin(y[m.origin_], np.unique(y[m.origin_])).all()
            assert m.weight_ is None
        node = Recorder().set_fit_request(origin=True, sample_weight=True)
        weight = 1.0 + y
        model = HierarchicalClassifier(NESTED, estimator=node)
        model.set_fit_request(sample_weight=True)
        model.fit(X, y, origin=origin, sample_weight=weight)
        for m in model.estimators_:
            assert_array_equal(m.weight_, weight[m.origin_])
    plain = HierarchicalClassifier(NESTED, estimator=Recorder())
    assert plain.fit(X, y, origin=origin).estimators_[0].origin_.size == y.size
    with pytest.raises(TypeError, match="origin"):
        HierarchicalClassifier(NESTED).fit(X, y, origin=origin)


@pytest.mark.parametrize("routing", [False, True])
def test_weights_that_no_node_takes_are_refused(train, routing):
    X, y = train
    weight = 1.0 + y
    with config_context(enable_metadata_routing=routing):
        model = HierarchicalClassifier(NESTED, estimator=KNeighborsClassifier())
        with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_w"):
            model.fit(X, y, sample_weight=weight)
        if routing:  # the step of a pipeline takes them
            node = LogisticRegression().set_fit_request(sample_weight=True)
            fits = [
                HierarchicalClassifier(NESTED, estimator=estimator)
                .fit(X, y, sample_weight=weight)
                .predict_proba(X)
                for estimator in (node, make_pipeline(node))
            ]
            assert_array_equal(*fits)


# ------------------------------------------------------------------ scikit-learn


def test_grid_search(part):
    X, y = part
    search = GridSearchCV(
        make_pipeline(
            StandardScaler(),
            HierarchicalClassifier(estimator=logistic(), random_state=0),
        ),
        {
            "hierarchicalclassifier__taxonomy": ["cut", "ward", NESTED],
            "hierarchicalclassifier__max_depth": [0, None],
            "hierarchicalclassifier__estimator__C": [0.01, 1.0],
            "hierarchicalclassifier__n_taxonomies": [1, 2],
        },
        cv=2,
        error_score=np.nan,
        scoring="neg_log_loss",
    )
    with warnings.catch_warnings():
        # a given tree cannot come twice: these candidates fail, and say so
        warnings.simplefilter("ignore")
        search.fit(X, y)
    failed = np.isnan(search.cv_results_["mean_test_score"])
    twice = [
        p["hierarchicalclassifier__taxonomy"] == NESTED
        and p["hierarchicalclassifier__n_taxonomies"] == 2
        for p in search.cv_results_["params"]
    ]
    assert_array_equal(failed, twice)
    assert search.best_score_ > -0.6


@needs_callbacks
def test_callbacks(train, capsys):
    model = HierarchicalClassifier(n_taxonomies=2, random_state=0)
    tasks = []

    class Counter:
        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            tasks.append(context.task_name)

        def on_fit_task_end(self, estimator, context):
            return False

    model.set_callbacks(Counter()).fit(*train)
    assert tasks.count("taxonomy") == 2
    assert tasks.count("solve") == 2
    tasks.clear()
    model.set_params(estimator=PerNodeC(), n_taxonomies=1).fit(*train)
    assert tasks.count("solve") == 4


def test_verbose(train, capsys):
    HierarchicalClassifier(NESTED, verbose=1).fit(*train)
    out = capsys.readouterr().out
    assert "tree 1" in out and "iterations" in out
    HierarchicalClassifier(NESTED).fit(*train)
    assert capsys.readouterr().out == ""


# -------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("taxonomy", "message"),
    [
        ([[0, 1], [1, 2], [3, 4, 5, 6, 7, 8, 9]], "duplicate label"),
        ([[0, 1, 2], [3, 4, 5]], "missing label"),
        ([[], list(range(10))], "empty"),
        ({0: 1, 1: 0}, "cycle"),
        ("nonsense", "taxonomy"),
        ((NESTED, NESTED), "n_taxonomies"),
        ((), "empty tuple"),
    ],
)
def test_bad_taxonomies(train, taxonomy, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalClassifier(taxonomy).fit(*train)


def test_given_trees_may_be_arrays(train, test):
    nested = [[0, 1], [2, 3]]
    X, y = train[0], train[1] % 4
    first, second = (
        HierarchicalClassifier(tree).fit(X, y).predict_proba(test[0])
        for tree in (nested, np.array(nested))
    )
    assert_array_equal(first, second)


def test_given_tree_may_hold_more_classes(train, test):
    extra = [*NESTED, [[10], [11, 12]]]
    model = HierarchicalClassifier(extra).fit(*train)
    assert_array_equal(model.classes_, np.arange(10))
    plain = HierarchicalClassifier(NESTED).fit(*train)
    assert_allclose(
        model.predict_proba(test[0]), plain.predict_proba(test[0]), atol=1e-12
    )
    assert model.taxonomy_ == Taxonomy.from_nested(NESTED)


@pytest.mark.parametrize(
    *each_value(
        case=["single_samples", "constant", "one_constant", "wide", "duplicates"],
        name=BUILDERS,
    )
)
def test_degenerate_data(name, case):
    rng = np.random.default_rng(0)
    n_classes, per_class, d = 7, 6, 4
    y = np.repeat(np.arange(n_classes), per_class)
    X = rng.normal(size=(y.size, d)) + y[:, None]
    if case == "single_samples":
        y, X = np.append(y, [7, 8]), np.vstack([X, rng.normal(size=(2, d))])
    elif case == "constant":
        X = np.ones_like(X)
    elif case == "one_constant":
        X[:, 1] = 3.0
    elif case == "wide":
        X = rng.normal(size=(y.size, 150))
    elif case == "duplicates":
        X = X[np.zeros(y.size, int)]
    model = HierarchicalClassifier(name, random_state=0).fit(X, y)
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    assert_allclose(proba.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"estimator": logistic(C=[0.1, 1.0])}, "'C' parameter"),
        ({"estimator": logistic(C=np.inf)}, "'C' parameter"),
        ({"estimator": PerNodeC([0.1, -1.0])}, "candidates must hold numbers in"),
        ({"estimator": PerNodeC([])}, "candidates must be"),
        ({"estimator": GammaPrior(1.0)}, "shape"),
        ({"estimator": GammaPrior([2, 1])}, "shape must hold numbers in .1, inf"),
        ({"estimator": GammaPrior(2, np.nan)}, "rate"),
        ({"estimator": GammaPrior(2, [["a"]])}, "rate must be"),
        ({"estimator": "logistic"}, "'estimator' parameter"),
        (
            {"estimator": PerNodeC(estimator=LinearClassifier())},
            "estimator of PerNodeC",
        ),
        ({"estimator": PerNodeC(estimator=GaussianNB())}, "'estimator' parameter"),
        (
            {"estimator": GammaPrior(estimator=logistic(weight_threshold=0.1))},
            "estimator of GammaPrior",
        ),
        ({"n_taxonomies": 10**7}, "'n_taxonomies' parameter"),
        ({"class_weight": {99: 1.0}}, "class"),
    ],
)
def test_bad_parameters(train, params, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalClassifier(NESTED, **params).fit(*train)


def test_bad_samples(train):
    X, y = train
    model = HierarchicalClassifier(NESTED)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X == X[0, 0], np.nan, X), y)
    with pytest.raises(ValueError, match="non-zero"):
        model.fit(X, y, sample_weight=np.zeros(y.size))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        model.fit(X, y, sample_weight=-np.ones(y.size))
    with pytest.raises(ValueError, match="requires y"):
        model.fit(X, None)
    with pytest.raises(ValueError, match=r"[Uu]nknown label type"):
        model.fit(X, y + 0.5)
    model.fit(X, y)
    with pytest.raises(ValueError, match="inconsistent"):
        model.target_log_proba(X, y[:-1])
    for k in (0, 11, 1.5):
        with pytest.raises(ValueError, match="k must be"):
            model.predict_top_k(X, k)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("n", [1_200, 3_000, 10_000])
def test_chain_thousands_deep(n):
    """Every node splits one class off; neither fit nor prediction recurses."""
    parent = np.concatenate([[-1], np.repeat(np.arange(0, 2 * n - 2, 2), 2)])
    leaves = np.append(np.arange(1, 2 * n - 2, 2), 2 * n - 2)
    tree = Taxonomy(parent, leaves)
    assert tree.depth == n - 1
    X = np.linspace(-1, 1, n)[:, None]
    model = HierarchicalClassifier(tree, estimator=logistic(tol=1e-2)).fit(
        X, np.arange(n)
    )
    rows = X[:: n // 5]
    proba = model.predict_proba(rows)
    assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)
    # nothing can be learned here: all classes are equally probable to the last bits
    found = proba[np.arange(len(rows)), model.predict(rows)]
    assert_allclose(found, proba.max(axis=1), rtol=1e-11)
    pickle.loads(pickle.dumps(model))


def test_convergence_warning_once(train):
    with pytest.warns(ConvergenceWarning, match="node classifiers") as record:
        HierarchicalClassifier(NESTED, estimator=logistic(max_iter=1, tol=1e-12)).fit(
            *train
        )
    assert len([r for r in record if r.category is ConvergenceWarning]) == 1
    assert record[0].filename == __file__


def test_feature_scale_iris():
    X, y = load_iris(return_X_y=True)
    model = HierarchicalClassifier("spec").fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.n_iter_ == model.node_n_iter_.max()


def test_forest_estimator_in_threads(train, test):
    model = HierarchicalClassifier(
        NESTED, estimator=RandomForestClassifier(5, random_state=0), n_jobs=2
    ).fit(*train)
    assert model.score(*test) > 0.8


# ------------------------------------------------------------------------- searches


def test_searches_are_parameters(part):
    """clone, get_params, set_params and a grid search reach into the objects."""
    model = HierarchicalClassifier(NESTED, estimator=PerNodeC([0.1, 1.0]))
    other = clone(model).set_params(estimator__candidates=[2.0])
    assert other.get_params()["estimator__candidates"] == [2.0]
    assert model.estimator.candidates == [0.1, 1.0]
    assert "candidates=[2.0]" in repr(other)
    search = GridSearchCV(
        HierarchicalClassifier(NESTED, estimator=GammaPrior(2, 1)),
        {"estimator__rate": [1e5, 10.0]},
        cv=2,
        scoring="neg_log_loss",
    ).fit(*part)
    assert search.best_params_ == {"estimator__rate": 10.0}
    search = GridSearchCV(
        HierarchicalClassifier(NESTED, random_state=0),
        {
            "estimator": [
                None,
                logistic(),
                PerNodeC([0.1, 1.0]),
                GammaPrior([2, 4], 10.0),
            ]
        },
        cv=2,
    ).fit(*part)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] == scores[1]
    assert scores.min() > 0.8


def test_fit_leaves_the_search_alone(part):
    prior = GammaPrior([2, 101], 10.0)
    model = HierarchicalClassifier(
        ("cut", "ward"), n_taxonomies=2, estimator=prior, random_state=0
    ).fit(*part)
    assert not hasattr(prior, "shape_")
    assert len(model.searches_) == 2
    for fitted in model.searches_:
        assert fitted.shape_ in (2.0, 101.0) and fitted.rate_ == 10.0


@pytest.mark.parametrize("rates", [[0.3, 300.0], [0.3, 3.0, 300.0]])
def test_gamma_chooses_by_held_out_loss(rates):
    """One node: the definition, with scikit-learn's models, over the same folds."""
    X, y = clouds(2, 60, d=30, spread=0.25)
    shapes = [2.0, 30.0]
    prior = GammaPrior(shapes, rates, estimator=logistic(tol=1e-8))
    model = HierarchicalClassifier([[0], [1]], estimator=prior, random_state=0).fit(
        X, y
    )
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    fold = folds(y, np.random.RandomState(0))
    loss = {(a, b): 0.0 for a in shapes for b in rates}
    for f in range(3):
        for a, b in loss:
            C = 1.0
            for _ in range(10):
                flat = LogisticRegression(C=C, tol=1e-8, solver="newton-cholesky")
                flat.fit(X[fold != f], y[fold != f])
                new = (b + (flat.coef_**2).sum()) / (2 * (a - 1))
                if abs(new - C) <= 1e-2 * C:
                    break
                C = new
            with np.errstate(divide="ignore"):
                p = flat.predict_log_proba(X[fold == f])
            loss[a, b] -= p[np.arange(len(p)), y[fold == f]].sum()
    chosen = model.searches_[0]
    assert (chosen.shape_, chosen.rate_) == min(loss, key=loss.get)
    fixed = clone(model).set_params(
        estimator__shape=chosen.shape_, estimator__rate=chosen.rate_
    )
    assert_array_equal(fixed.fit(X, y).coef_, clone(model).fit(X, y).coef_)


@pytest.mark.parametrize("n", [200, 450])
def test_gamma_is_as_good_as_a_single_strength(digits, n):
    """On new data, where its defaults may not be far worse than a good C."""
    X, y = digits
    loss = {}
    node = logistic(C=0.1)
    for name, each in {"single": node, "gamma": GammaPrior(estimator=node)}.items():
        model = HierarchicalClassifier(NESTED, estimator=each, random_state=0)
        model.fit(X[:n], y[:n])
        loss[name] = -model.target_log_proba(X[450:], y[450:]).mean()
    assert loss["gamma"] < 1.3 * loss["single"]


# ------------------------------------------------------------- impossible requests


def test_requests_that_no_machine_can_hold(train, monkeypatch):
    X, y = train
    model = HierarchicalClassifier(NESTED).fit(X, y)
    monkeypatch.setattr(_checks, "physical_memory", lambda: 8.0 * 10 * 100)
    assert model.predict_proba(X[:100]).shape == (100, 10)
    for call in (model.predict_proba, model.predict_log_proba):
        with pytest.raises(MemoryError, match=r"101 rows.*GiB.*target_log_proba"):
            call(X[:101])
    assert model.predict(X).shape == y.shape
    with pytest.raises(MemoryError, match="n_taxonomies=5 trees of 10 classes"):
        HierarchicalClassifier(n_taxonomies=5).fit(X, y)


def test_scores_of_a_flat_model_that_no_machine_can_hold(train, monkeypatch):
    """The system would end the process; a tree of the same classes fits.

    With one column three numbers per sample and class are nearly all that is needed.
    """
    X, y = train[0][:, :1], train[1]
    monkeypatch.setattr(_checks, "physical_memory", lambda: 3.0 * 8 * 600 * 10)
    flat = HierarchicalClassifier(estimator=logistic(), max_depth=0)
    with pytest.raises(MemoryError, match=r"600 samples and 10 vectors.*max_depth"):
        flat.fit(X, y)
    tree = HierarchicalClassifier(NESTED, estimator=logistic())
    assert tree.fit(X, y).predict(X).shape == y.shape


@pytest.mark.parametrize(
    *each_value(class_weight=[None, "balanced"], scale=[1e-300, 1e300])
)
def test_weights_beyond_the_range_of_floats(train, scale, class_weight):
    X, y = train
    model = HierarchicalClassifier(class_weight=class_weight)
    with pytest.raises(ValueError, match="^sample_weight, times class_weight"):
        model.fit(X * 1e60, y, sample_weight=np.full(y.size, scale))


def test_scale_of_the_weights_is_that_of_C(train):
    X, y = train
    plain = HierarchicalClassifier(NESTED, estimator=logistic(tol=1e-8)).fit(X, y)
    for scale in (1e-80, 1e80):
        model = HierarchicalClassifier(
            NESTED, estimator=logistic(C=1 / scale, tol=1e-8)
        )
        model.fit(X, y, sample_weight=np.full(y.size, scale))
        assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("columns", [slice(0, -1), [*range(64), 0]])
def test_weights_of_another_number_of_features(columns):
    """A damaged pickle has such weights. The kernels would read beyond X."""
    X, y = load_digits(return_X_y=True)
    model = HierarchicalClassifier([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]).fit(X / 16, y)
    model.nodes_.coef = np.ascontiguousarray(model.nodes_.coef[:, columns])
    for rows in (X, sp.csr_matrix(X)):
        for ask in (model.predict, lambda Z: model.target_log_proba(Z, y)):
            with pytest.raises(ValueError, match="coef of the pickled model"):
                ask(rows)


def test_samples_that_are_searched_again_count_both_searches():
    model = HierarchicalClassifier().fit([[-1.0], [-2.0], [1.0], [2.0]], [0, 0, 1, 1])
    model.nodes_.intercept[:] = 0  # a tie at 0, which single precision cannot decide
    assert model.n_dot_products([[0.0], [1.0]]).tolist() == [2, 1]
    assert model.predict([[0.0], [1.0]]).tolist() == [0, 1]


def test_rows_of_single_precision_do_not_depend_on_other_rows():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(400, 300)) + 50).astype(np.float32)
    y = np.arange(400) % 6
    model = HierarchicalClassifier([[0, 1, 2], [3, 4, 5]]).fit(X[:200], y[:200])
    assert model.coef_.dtype == np.float32
    single = np.vstack([model.predict_log_proba(row[None]) for row in X])
    np.testing.assert_allclose(model.predict_log_proba(X), single, rtol=0, atol=1e-10)
