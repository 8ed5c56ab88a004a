"""Several labels per sample: trees and flat models against definitions and others."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _cases import each_value
from _nodes import logistic
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, normalize
from sklearn.svm import LinearSVC

from sklstruct import HierarchicalClassifier
from sklstruct.hierarchical import PerNodeC, _dual_nodes, _label_fold
from sklstruct.hierarchical._dual_nodes import DualNodes
from sklstruct.hierarchical._evidence_fast import ROLES
from sklstruct.hierarchical._label_fold import (
    choose_threshold,
    fit_sigmoids,
    unseen_scores,
)
from sklstruct.linear import (
    LinearClassifier,
    StructuredLogisticRegression,
    _classifier,
    _trial,
)
from sklstruct.linear._calibration import (
    Sigmoid,
    f1_threshold,
    fit_sigmoid,
    sigmoid_loss,
)
from sklstruct.linear._targets import Targets
from sklstruct.linear._weights import NodeWeights
from sklstruct.metrics import precision_at_k

NEST = [[[0, 1, 2], [3, 4]], [5, 6, 7], [8, [9, 10, 11]]]
SHAPES = {
    "given": {"taxonomy": NEST},
    "flat": {"max_depth": 0},
    "binary": {"taxonomy": "cut", "max_leaf": 1},
    "leaves": {"taxonomy": "kmeans", "max_leaf": 3},
    "two trees": {"taxonomy": ("cut", NEST), "n_taxonomies": 2, "max_leaf": 3},
}


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(
        400, 40, n_classes=12, n_labels=2, random_state=0, allow_unlabeled=True
    )
    assert (Y.sum(axis=1) == 0).any()
    return sp.csr_matrix(normalize(X)), Y


def exact(**params):
    """Nodes at their optimum, and the sigmoid of their scores."""
    node = LinearClassifier(
        "ovr_log_loss", C=10, calibration=None, tol=1e-6, max_iter=5000
    )
    return HierarchicalClassifier(estimator=node, random_state=0, **params)


def labels_below(nest):
    if isinstance(nest, int):
        return [nest]
    return [label for part in nest for label in labels_below(part)]


def by_hand(nest, X, Y, rows, above, out):
    """Products of independent regressions, each on the samples of its parent."""
    for part in nest:
        yes = Y[:, labels_below(part)].any(axis=1)
        model = LogisticRegression(C=10, solver="liblinear", tol=1e-8, max_iter=5000)
        p = above * model.fit(X[rows], yes[rows]).predict_proba(X)[:, 1]
        if isinstance(part, int):
            out[:, part] = p
        else:
            by_hand(part, X, Y, np.flatnonzero(yes), p, out)


@pytest.mark.parametrize("dense", [False, True])
def test_marginals_are_products_of_independent_regressions(data, dense):
    X, Y = data
    expected = np.empty(Y.shape)
    by_hand(NEST, X, Y, np.arange(len(Y)), np.ones(len(Y)), expected)
    given = X.toarray() if dense else X
    found = exact(taxonomy=NEST).fit(given, Y).predict_proba(given)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_tree_of_one_leaf_is_the_flat_model(data):
    X, Y = data
    tree = exact(max_depth=0).fit(X, Y)
    flat = clone(tree.estimator).fit(X, Y)
    np.testing.assert_allclose(tree.predict_proba(X), flat.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(tree.predict(X), flat.predict(X))


@pytest.mark.parametrize("loss", ["squared_hinge", "ovr_log_loss"])
def test_flat_model_is_one_vs_rest_of_scikit_learn(data, loss):
    X, Y = data
    one = {
        "squared_hinge": LinearSVC(tol=1e-8, max_iter=20_000),
        "ovr_log_loss": LogisticRegression(solver="liblinear", tol=1e-8),
    }[loss]
    ours = LinearClassifier(
        loss, tol=1e-6, max_iter=5000, random_state=0, calibration=None
    )
    peer = OneVsRestClassifier(one).fit(X, Y)
    np.testing.assert_allclose(
        ours.fit(X, Y).decision_function(X), peer.decision_function(X), atol=5e-4
    )
    for threshold in (0.5, 0.2):
        ours.set_params(calibration="fold", threshold=threshold).fit(X, Y)
        odds, proba = ours.decision_function(X), ours.predict_proba(X)
        np.testing.assert_allclose(odds, logit(proba), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(ours.predict(X), odds > logit(threshold))


@pytest.mark.parametrize(
    *each_value(name=SHAPES, loss=["squared_hinge", "ovr_log_loss"])
)
def test_searches_find_what_all_marginals_say(data, name, loss):
    X, Y = data
    model = HierarchicalClassifier(
        estimator=LinearClassifier(loss), random_state=0, **SHAPES[name]
    ).fit(X, Y)
    P = model.predict_proba(X)
    assert P.min() > 0
    assert P.max() < 1
    for k in (1, 3, 12):
        best = np.argsort(-P, axis=1, kind="stable")[:, :k]
        top = model.predict_top_k(X, k)
        assert (np.diff(top.indptr) == k).all()
        np.testing.assert_array_equal(top.indices.reshape(-1, k), np.sort(best, axis=1))
        np.testing.assert_allclose(top.data, P[top.nonzero()], rtol=1e-12)
    for threshold in (0.5, 0.05):
        model.nodes_.threshold = threshold
        np.testing.assert_array_equal(model.predict(X), P > threshold)
    label = np.arange(len(Y)) % 12
    found = model.target_log_proba(X, label)
    np.testing.assert_allclose(found, np.log(P[np.arange(len(Y)), label]), rtol=1e-9)
    np.testing.assert_allclose(
        model.decision_function(X), np.log(P / (1 - P)), rtol=1e-6, atol=1e-9
    )


def test_answers_do_not_depend_on_batch_jobs_or_format(data):
    X, Y = data
    params = {"taxonomy": "cut", "max_leaf": 3, "n_taxonomies": 2, "random_state": 0}
    model = HierarchicalClassifier(**params).fit(X, Y)
    P = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X[7:9]), P[7:9])
    other = HierarchicalClassifier(n_jobs=2, **params).fit(X, sp.csr_matrix(Y))
    np.testing.assert_array_equal(other.predict_proba(X), P)
    found = other.predict(X)
    assert sp.issparse(found)
    np.testing.assert_array_equal(found.toarray(), model.predict(X))
    assert model.predict(X).dtype == Y.dtype


def test_decision_path_is_above_every_predicted_label(data):
    X, Y = data
    model = HierarchicalClassifier(NEST, random_state=0, threshold=0.2).fit(X, Y)
    tree, found = model.taxonomy_, model.predict(X)
    path = model.decision_path(X).toarray()
    for i in range(len(Y)):
        nodes = set()
        for label in np.flatnonzero(found[i]):
            v = tree.leaf_of_class[label]
            while v >= 0:
                nodes.add(int(v))
                v = tree.parent[v]
        assert set(np.flatnonzero(path[i]).tolist()) == nodes
    assert path.max() == 1


@pytest.mark.parametrize("loss", ["squared_hinge", "ovr_log_loss"])
def test_calibrated_marginals_are_those_of_the_formula(data, loss):
    X, Y = data
    model = HierarchicalClassifier(
        NEST, estimator=LinearClassifier(loss), random_state=0
    ).fit(X, Y)
    forest, tree = model.forest_, model.taxonomy_
    numbers = model.nodes_.numbers[0]
    assert (numbers[:3] != numbers[3:]).all()
    P, row = np.ones((len(Y), forest.n_nodes)), 0
    z = X @ model.coef_.T.toarray() + model.intercept_
    for v in model.model_nodes_:
        first, m = forest.first_child[v], forest.n_child[v]
        mine = z[:, row : row + m]
        # a node is a leaf if all of its children are single labels
        leaf = (forest.node_class[first : first + m] >= 0).all()
        w, b, p = numbers[3:] if leaf else numbers[:3]
        t = w * np.sign(mine) * np.abs(mine) ** p + b
        P[:, first : first + m] = P[:, [v]] / (1 + np.exp(-t))
        row += m
    assert row == model.coef_.shape[0]
    assert tree.n_classes == 12
    np.testing.assert_allclose(
        model.predict_proba(X), P[:, forest.terminal[0]], rtol=2e-3
    )


def test_f1_threshold_is_the_best_of_all():
    rng = np.random.default_rng(0)
    p, weight = rng.random(300).round(2), rng.random(300)
    yes = rng.random(300) < p

    def f1(threshold, missed):
        taken = p > threshold
        hits = weight[taken & yes].sum()
        return 2 * hits / (weight[taken].sum() + weight[yes].sum() + missed)

    for missed in (0.0, 50.0):
        found = f1_threshold(p, yes, weight, missed)
        best = max(f1(t, missed) for t in np.arange(-0.005, 1, 0.01))
        assert f1(found, missed) == pytest.approx(best)


def test_f1_threshold_is_not_below_what_was_counted():
    """If all pairs are best predicted, those that are not among them are not."""
    rng = np.random.default_rng(0)
    p, none = 0.01 * (1 + rng.random(50)), np.zeros(4)
    yes, weight = np.ones(50, dtype=bool), np.ones(50)
    found = f1_threshold(p, yes, weight, 0.0, 0.01)
    assert 0.01 <= found < p.min()
    # all of them: a threshold below the least
    assert 0 < f1_threshold(p, yes, weight) < p.min()
    assert f1_threshold(none[:0], yes[:0], weight[:0], 3.0, 0.01) == 0.5


@pytest.mark.parametrize("power", [0.6, 1.0, 2.5])
def test_sigmoid_is_found_again(power):
    rng = np.random.default_rng(0)
    z, weight = rng.normal(scale=1.5, size=20_000), rng.random(20_000)
    u = np.sign(z) * np.abs(z) ** power
    yes = rng.random(z.size) < 1 / (1 + np.exp(-(2 * u - 1)))
    found, total = fit_sigmoid(z, yes, weight)
    assert found == pytest.approx((2, -1, power), rel=0.1)
    # with this power it is a regression
    w, b, p = found
    u = np.sign(z) * np.abs(z) ** p
    peer = LogisticRegression(C=1e8).fit(u[:, None], yes, weight)
    assert (w, b) == pytest.approx((peer.coef_[0, 0], peer.intercept_[0]), rel=2e-2)
    t = np.where(yes, 1, -1) * (w * u + b)
    assert total == pytest.approx(weight @ np.log1p(np.exp(-t)))
    # and as likely as without a power, or more
    straight = LogisticRegression(C=1e8).fit(z[:, None], yes, weight)
    chance = straight.predict_proba(z[:, None])[np.arange(z.size), yes.astype(int)]
    assert total <= -weight @ np.log(chance) + 2


def test_sigmoid_of_few_answers_is_as_likely_as_without_a_power():
    rng = np.random.default_rng(0)
    for n in (2, 5, 20, 100) * 10:
        z, weight = rng.normal(size=n).round(1), rng.random(n)
        yes = rng.random(n) < expit(3 * z**3 - 1)
        loss = sigmoid_loss(z, yes, weight)
        (w, b, p), _ = fit_sigmoid(z, yes, weight)
        straight = minimize(
            lambda x, loss=loss: loss(np.append(x, 0))[0], np.zeros(2)
        ).fun
        assert loss(np.array([np.log(w), b, np.log(p)]))[0] <= straight + 1e-6
        assert 0.5 <= p <= 4


def test_the_scores_of_a_role_determine_the_sigmoid_of_the_role(data, monkeypatch):
    seen = {}

    def spy(folds, role, weight):
        seen.update(folds=folds, role=role, weight=weight)
        return fit_sigmoids(folds, role, weight)

    monkeypatch.setattr(_dual_nodes, "fit_sigmoids", spy)
    weight = np.random.default_rng(0).uniform(0.2, 3, len(data[1]))
    model = HierarchicalClassifier(NEST, random_state=0).fit(*data, weight)
    total = 0.0
    for kind, mine in zip(("route", "leaf"), model.nodes_.numbers[0].reshape(2, 3)):
        z, yes, weight = [], [], []
        for v, (member, targets, scores) in seen["folds"].items():
            if seen["role"][v] == ROLES[kind]:
                z += scores.ravel().tolist()
                yes += targets.indicator().ravel().tolist()
                weight += np.repeat(seen["weight"][member], scores.shape[1]).tolist()
        found, loss = fit_sigmoid(np.array(z), np.array(yes), np.array(weight))
        assert mine == pytest.approx(found, rel=1e-6)
        total += loss / seen["weight"].sum()
    assert model.nodes_.fold_log_loss[0] == pytest.approx(total)


def test_gradient_of_the_sigmoid():
    rng = np.random.default_rng(0)
    z, weight = rng.normal(size=50), rng.random(50)
    z[:5] = 0
    loss = sigmoid_loss(z, rng.random(50) < 0.5, weight)
    for theta in rng.normal(scale=0.7, size=(5, 3)):
        found = loss(theta)[1]
        for k, step in enumerate(1e-5 * np.eye(3)):
            slope = (loss(theta + step)[0] - loss(theta - step)[0]) / 2e-5
            assert found[k] == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_sigmoid_rises_with_the_score():
    z = np.linspace(-30, 30, 601)
    for p in (0.5, 1, 2.2, 4):
        assert (np.diff(Sigmoid(0.3, 0.2, p).odds(z)) >= 0).all()
        assert np.diff(Sigmoid(0.3, 0.2, p).odds(z[::10])).min() > 0
        assert Sigmoid(0.3, 0.2, p).odds(-z) + Sigmoid(0.3, -0.2, p).odds(
            z
        ) == pytest.approx(np.zeros(z.size))


@pytest.mark.parametrize(
    ("several", "part", "chosen"),
    [
        (True, 0.98, "ovr_log_loss"),
        (True, 0.996, "squared_hinge"),
        (False, 0.98, "squared_hinge"),
        (False, 0.94, "log_loss"),
    ],
)
def test_auto_weighs_the_log_loss_against_the_time(
    data, monkeypatch, several, part, chosen
):
    X, Y = data
    monkeypatch.setattr(
        _trial, "fold_log_loss", lambda *args: 2 if args[2] == "squared_hinge" else loss
    )
    loss = 2 * part
    y = Y if several else Y[:, :4].argmax(axis=1)
    assert LinearClassifier("auto", random_state=0).fit(X, y).loss_ == chosen


@pytest.mark.parametrize(
    "change",
    [
        lambda numbers: numbers[:, :5],
        lambda numbers: -numbers,
        lambda numbers: numbers * [1, 1, 0, 1, 1, 1],
        lambda numbers: numbers * [1, 1, 1, 1, np.nan, 1],
    ],
)
def test_altered_calibration_is_refused(data, change):
    model = HierarchicalClassifier(NEST, random_state=0).fit(*data)
    model.nodes_.numbers = change(model.nodes_.numbers)
    with pytest.raises(ValueError, match="pickled model"):
        pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize(
    *each_value(
        change=[
            {"scale_": np.nan},
            {"scale_": -1.0},
            {"power_": 0.0},
            {"offset_": np.inf},
            {"offset_": "1"},
            {"threshold_": 1.0},
            {"threshold_": np.zeros(2)},
            {"loss_": "none"},
            {"weights_": NodeWeights([], 40)},
        ],
        several=[False, True],
    )
)
def test_altered_calibration_of_the_flat_model_is_refused(data, several, change):
    X, Y = data
    y = Y if several else Y[:, :4].argmax(axis=1)
    model = LinearClassifier(random_state=0).fit(X, y)
    pickle.loads(pickle.dumps(model))
    vars(model).update(change)
    with pytest.raises(ValueError, match=f"{next(iter(change))} of the pickled model"):
        pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("shift", [0.0, -2.5])
@pytest.mark.parametrize("name", ["given", "two trees"])
def test_f1_threshold_of_trees_is_the_best_on_the_fold(data, monkeypatch, name, shift):
    """With a negative shift of the log-odds many positives are below .01."""
    X, Y = data
    seen, given = {}, {}

    def spy(*args):
        seen["args"] = args
        return choose_threshold(*args)

    def spy_on_folds(folds, n):
        seen["folds"] = folds
        return unseen_scores(folds, n)

    def spy_on_rows(self, X, *others):
        seen["X"] = X
        return real(self, X, *others)

    def spy_on_numbers(proba, yes, weight, missed, least):
        given.update(missed=missed, least=least)
        return f1_threshold(proba, yes, weight, missed, least)

    real = DualNodes._rows_of_fold
    monkeypatch.setattr(DualNodes, "_rows_of_fold", spy_on_rows)
    monkeypatch.setattr(_dual_nodes, "choose_threshold", spy)
    monkeypatch.setattr(_dual_nodes, "unseen_scores", spy_on_folds)
    monkeypatch.setattr(_label_fold, "f1_threshold", spy_on_numbers)
    monkeypatch.setattr(_label_fold, "rows_per_block", lambda width: 30)
    weight = np.random.default_rng(0).uniform(0.2, 3, len(Y))
    model = HierarchicalClassifier(threshold="f1", random_state=0, **SHAPES[name])
    found = model.fit(X, Y, weight).threshold_
    nodes, folds = model.nodes_, seen["folds"]
    (rows, targets, w), forest, role = seen["args"], nodes.forest, nodes.role
    assert nodes.raised is None  # no label is an inner node
    if shift:
        nodes.numbers = nodes.numbers + shift * np.array([0, 1, 0, 0, 1, 0])
        found = choose_threshold(rows, targets, w)
    numbers, every = nodes.numbers, np.append(0, np.cumsum(nodes.weights.n_outcomes))

    def scores(v):
        at = slice(*every[nodes.model_ptr[[v, v + 1]]].tolist())
        return np.asarray(
            seen["X"] @ nodes.coef_of(v).T.toarray() + nodes.intercept[at]
        )

    P = np.zeros((w.size, 12))
    for t, (root, end) in enumerate(zip(forest.tree_ptr, forest.tree_ptr[1:])):
        p = np.ones((forest.n_nodes, w.size))
        for v in range(root, end):
            m, first = forest.n_child[v], forest.first_child[v]
            answer = np.ones((m, w.size))
            if m > 1:
                z = scores(v)
                z[folds[v].member] = folds[v].scores  # by weights without them
                k = 3 * int(role[v] == ROLES["leaf"])
                answer = expit(Sigmoid(*numbers[t][k : k + 3]).odds(z)).T
            p[first : first + m] = np.where(p[v] > 0.01, p[v] * answer, 0)
        P += p[forest.terminal[t]].T / forest.n_trees
    yes, each = targets.indicator(), w[:, None]

    def f1(threshold):
        hit = P > threshold
        return 2 * (each * (hit & yes)).sum() / (each * (0 + hit + yes)).sum()

    best = max(f1(p - 1e-9) for p in P[P >= 0.01])
    assert f1(found) == pytest.approx(best, rel=1e-9)
    below = yes & (P < 0.01)
    assert below.any() == bool(shift)
    assert given["missed"] == pytest.approx((each * below).sum(), rel=1e-9)
    assert given["least"] == 0.01
    # if all pairs from .01 on are best predicted, those below are not
    every = Targets.of_indicator(sp.csr_matrix(np.ones(P.shape, dtype=int)))
    nodes.numbers = numbers - np.array([0, 0, 0, 0, 4, 0])
    found = choose_threshold(rows, every, w)
    assert found >= 0.01


@pytest.mark.parametrize("model", [HierarchicalClassifier, LinearClassifier])
def test_f1_threshold_without_a_fold(data, model):
    """If every sample is the only one of a label, none is held out."""
    fitted = model(threshold="f1", random_state=0).fit(
        data[0][:12], np.eye(12, dtype=int)
    )
    assert fitted.threshold_ == 0.5
    assert np.isfinite(fitted.predict_proba(data[0])).all()


def test_f1_threshold_of_the_flat_model_is_the_best_on_the_fold(data, monkeypatch):
    seen = {}

    def spy(*args):
        seen["args"] = args
        return fit_sigmoid(*args)

    monkeypatch.setattr(_classifier, "fit_sigmoid", spy)
    weight = np.random.default_rng(0).uniform(0.2, 3, len(data[1]))
    model = LinearClassifier(threshold="f1", random_state=0).fit(*data, weight)
    z, yes, each = seen["args"]
    odds = model.scale_ * np.sign(z) * np.abs(z) ** model.power_ + model.offset_
    P = expit(odds)

    def f1(threshold):
        hit = P > threshold
        return 2 * (each * (hit & yes)).sum() / (each * (0 + hit + yes)).sum()

    best = max(f1(p - 1e-9) for p in P)
    assert f1(model.threshold_) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("model", [HierarchicalClassifier, LinearClassifier])
def test_threshold_for_f1_raises_it(data, model):
    X, Y = data

    def f1(found):
        return 2 * (found & Y).sum() / (found.sum() + Y.sum())

    half = model(random_state=0).fit(X, Y)
    chosen = model(random_state=0, threshold="f1").fit(X, Y)
    assert 0 < chosen.threshold_ < 0.5
    assert f1(chosen.predict(X)) > f1(half.predict(X)) + 0.02


@pytest.mark.parametrize("model", [HierarchicalClassifier, LinearClassifier])
def test_calibration_helps_on_other_samples(data, model):
    X, Y = data
    params = {"random_state": 0}
    if model is HierarchicalClassifier:
        params |= {"taxonomy": NEST, "estimator": LinearClassifier()}
    fitted = model(**params).fit(X[:300], Y[:300])
    Z, T = X[300:], Y[300:]

    def loss():
        P = fitted.predict_proba(Z)
        return -(T * np.log(P) + (1 - T) * np.log(1 - P)).sum() / len(T)

    calibrated = loss()
    if model is HierarchicalClassifier:
        assert fitted.nodes_.fold_log_loss[0] > 0
        fitted.nodes_.numbers = np.array([[1.0, 0.0, 1.0, 1.0, 0.0, 1.0]])
    else:
        assert fitted.fold_log_loss_ == pytest.approx(calibrated, rel=0.3)
        fitted.scale_, fitted.offset_, fitted.power_ = 1.0, 0.0, 1.0
    assert calibrated < loss()


@pytest.mark.parametrize("model", [HierarchicalClassifier, LinearClassifier])
def test_labels_that_no_sample_has(data, model):
    X, Y = data
    Y = Y.copy()
    Y[:, [2, 7]] = 0
    with pytest.warns(UserWarning, match="no training sample has label 2, 7"):
        fitted = model(random_state=0).fit(X, Y)
    P = fitted.predict_proba(X)
    assert P.shape == Y.shape
    assert (P[:, [2, 7]] == 0).all()
    assert (np.delete(P, [2, 7], axis=1) > 0).all()
    assert fitted.predict(X)[:, [2, 7]].sum() == 0
    assert np.isneginf(fitted.predict_log_proba(X)[:, 2]).all()
    assert np.isfinite(fitted.decision_function(X)).all()
    assert fitted.predict_top_k(X, 12).nnz == 10 * len(Y)
    with pytest.raises(ValueError, match="no positive entry"):
        model().fit(X, np.zeros_like(Y))
    # samples of weight 0 are absent, and so are their labels
    first = Y[:, 0] == 1
    with pytest.warns(UserWarning, match="label 0, 2, 7"):
        model(random_state=0).fit(X, Y, sample_weight=~first)


@pytest.mark.parametrize("model", [HierarchicalClassifier, LinearClassifier])
def test_one_label_with_positives(data, model):
    X, Y = data
    Y = np.column_stack([np.zeros(len(Y), int), Y[:, 0]])
    with pytest.warns(UserWarning, match="label 0"):
        fitted = model(random_state=0).fit(X, Y)
    P = fitted.predict_proba(X)
    assert P[:, 0].max() < 0.5
    assert P[Y[:, 1] == 1, 1].mean() > P[Y[:, 1] == 0, 1].mean() + 0.1


@pytest.mark.filterwarnings("ignore:no training sample")
@pytest.mark.parametrize(
    "model",
    [
        LinearClassifier(random_state=0),
        HierarchicalClassifier(random_state=0),
        HierarchicalClassifier([[0, 1], [2, 3]], max_leaf=1, random_state=0),
        StructuredLogisticRegression(),
    ],
)
def test_only_the_label_with_positives_is_predicted(model):
    X = np.random.default_rng(0).normal(size=(140, 6))
    Y = np.zeros((6, 4), int)
    Y[::2, 2] = 1
    fitted = pickle.loads(pickle.dumps(clone(model).fit(X[:6], Y)))
    others = [0, 1, 3]
    P = fitted.predict_proba(X)
    assert (P[:, others] == 0).all()
    assert np.isneginf(fitted.predict_log_proba(X)[:, others]).all()
    least = fitted.decision_function(X)[:, others]
    assert (least == np.finfo(least.dtype).min).all()
    assert fitted.predict(X).sum(axis=0)[others].sum() == 0
    for k in (1, 4):
        top = fitted.predict_top_k(X, k)
        np.testing.assert_allclose(top.toarray(), P, atol=1e-7)
        assert top.nnz == len(X)
    log_proba = fitted.target_log_proba(X[:4], [0, 1, 2, 3])
    assert np.isnan(log_proba[others]).all()
    assert log_proba[2] == pytest.approx(np.log(P[2, 2]))
    if isinstance(model, HierarchicalClassifier):
        tree = fitted.taxonomy_
        only = [v for v in range(tree.n_nodes) if [*tree.classes_below(v)] == [0]]
        assert (fitted.predict_node_proba(X)[:, only] == 0).all()
        assert fitted.decision_path(X)[:, only].nnz == 0


def test_weights_are_repeated_samples(data):
    X, Y = data[0][:150], data[1][:150]
    weight = 1 + np.arange(150) % 2
    again = np.repeat(np.arange(150), weight)
    weighted = exact(taxonomy=NEST).fit(X, Y, sample_weight=weight)
    repeated = exact(taxonomy=NEST).fit(X[again], Y[again])
    np.testing.assert_allclose(
        weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-4
    )


@pytest.mark.parametrize("model", [HierarchicalClassifier, LinearClassifier])
@pytest.mark.parametrize(
    ("params", "change", "message"),
    [
        ({}, lambda Y: 2 * Y, "indicator matrix of 0 and 1, and has 2;"),
        ({}, lambda Y: Y - 1, "indicator matrix of 0 and 1, and has -1;"),
        ({}, lambda Y: sp.csr_matrix(2 * Y), "indicator matrix of 0 and 1"),
        ({}, lambda Y: Y + 0.5, "Unknown label type"),
        ({}, lambda Y: Y[:-1], "inconsistent numbers"),
        ({}, lambda Y: Y[:, :0], "y has 0 labels"),
        ({}, lambda Y: sp.csr_matrix(Y[:, :0]), "y has 0 labels"),
        ({}, lambda Y: [[1, 2], [3]] * 200, "MultiLabelBinarizer"),
        ({"class_weight": "balanced"}, lambda Y: Y, "class_weight"),
        ({"threshold": 0.3}, lambda Y: Y[:, 0], "several labels"),
    ],
)
def test_bad_labels(data, model, params, change, message):
    X, Y = data
    with pytest.raises(ValueError, match=message):
        model(**params).fit(X, change(Y))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"estimator": logistic()}, "ovr_log_loss"),
        ({"estimator": LogisticRegression()}, "LinearClassifier"),
        ({"estimator": PerNodeC()}, "LinearClassifier"),
        ({"estimator": LinearClassifier("log_loss")}, "ovr_log_loss"),
        ({"taxonomy": [[0, 1], [2, 3]]}, "4"),
    ],
)
def test_parameters_of_one_label(data, params, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalClassifier(**params).fit(*data)


def test_flat_parameters_of_one_label(data):
    with pytest.raises(ValueError, match="ovr_log_loss"):
        LinearClassifier("log_loss").fit(*data)
    with pytest.raises(ValueError, match="calibration"):
        LinearClassifier(calibration=None, threshold="f1").fit(*data)
    fitted = LinearClassifier(random_state=0).fit(*data)
    with pytest.raises(ValueError, match="return_log_proba"):
        fitted.predict_top_k(data[0], 2, return_log_proba=True)
    plain = LinearClassifier(calibration=None, random_state=0).fit(*data)
    np.testing.assert_array_equal(
        plain.predict(data[0]), plain.decision_function(data[0]) > 0
    )


def test_a_million_labels_of_which_few_are_used(data):
    X, Y = data
    wide = sp.csr_matrix(Y)
    wide = sp.csr_matrix(
        (wide.data, wide.indices * 90_000, wide.indptr), shape=(len(Y), 1_000_000)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = HierarchicalClassifier(random_state=0).fit(X, wide)
    top = fitted.predict_top_k(X, 3)
    assert top.shape == wide.shape
    assert set(top.indices.tolist()) <= set(range(0, 1_000_000, 90_000))
    assert fitted.predict(X).shape == wide.shape


@pytest.mark.parametrize("way", ["function", "make_scorer"])
def test_search_over_parameters_by_ranked_labels(data, way):
    X, Y = data
    node = LinearClassifier("auto")
    model = HierarchicalClassifier(estimator=node, random_state=0)
    pipe = make_pipeline(Normalizer(), model)

    def scoring(model, X, Y):
        return precision_at_k(Y, model[-1].predict_top_k(model[0].transform(X), 1), k=1)

    if way == "make_scorer":
        scoring = make_scorer(precision_at_k, response_method="predict_proba", k=1)
    search = GridSearchCV(
        pipe,
        {"hierarchicalclassifier__estimator__C": [1e-4, 1.0]},
        scoring=scoring,
        cv=2,
    ).fit(X, Y)
    assert search.best_params_ == {"hierarchicalclassifier__estimator__C": 1.0}
    P = search.best_estimator_.predict_proba(X)
    assert search.score(X, Y) == pytest.approx(precision_at_k(Y, P, k=1))
