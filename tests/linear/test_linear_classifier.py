"""LinearClassifier against the solvers of other libraries, and its own promises."""

import os
import pickle
import signal
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _cases import all_pairs, each_value
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from sklstruct import HierarchicalClassifier, _checks
from sklstruct._parallel import ThreadMap
from sklstruct.linear import LinearClassifier, _solver, _trial, _weights
from sklstruct.linear._calibration import draw_fold, evidence, fit_scale
from sklstruct.linear._samples import single
from sklstruct.linear._solver import DescentSettings, NodeSolver
from sklstruct.linear._targets import Targets
from sklstruct.linear._weights import (
    Features,
    FittedStrip,
    LocalRows,
    NodeWeights,
    lanes_of,
    packed,
    whole,
)


def fold_of(code, rng):
    return draw_fold(Targets.one_each(code, int(code.max()) + 1), rng)


LOSSES = ["squared_hinge", "log_loss", "ovr_log_loss"]


def text(seed=0, n=400, n_classes=7, d=300, words=12):
    """Unit rows of a few words, a part of which belong to the class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    own = rng.integers(0, d, (n_classes, 6))
    word = np.where(
        rng.random((n, words)) < 0.4,
        own[y[:, None], rng.integers(0, 6, (n, words))],
        (d * rng.random((n, words)) ** 2).astype(int),
    )
    X = sp.csr_matrix((np.ones(n * words), word.ravel(), np.arange(n + 1) * words))
    X.resize(n, d)
    X.sum_duplicates()
    return normalize(X), y


def objective(loss, X, y, W, b, C=1.0, weight=1.0, a=1.0):
    """The objective of the docstring, in double precision."""
    W, b = np.asarray(W, float), np.asarray(b, float)
    z = X @ W.T + b
    if W.shape[0] == 1:
        sign = np.where(y == 1, 1, -1)[:, None]
        loss = "ovr_log_loss" if loss == "log_loss" else loss
    else:
        sign = np.where(np.arange(W.shape[0]) == y[:, None], 1, -1)
    if loss == "squared_hinge":
        each = (np.maximum(0, 1 - sign * z) ** 2).sum(axis=1)
    elif loss == "ovr_log_loss":
        each = np.logaddexp(0, -sign * z).sum(axis=1)
    else:
        each = logsumexp(z, axis=1) - z[np.arange(len(y)), y]
    penalty = 0.5 * (W**2).sum() + 0.5 * ((b / a) ** 2).sum()
    return penalty + C * (weight * each).sum()


def others(loss, X, y, C, weight=None):
    """(coef, intercept) of another library, with a penalised intercept."""
    if loss == "squared_hinge":
        model = LinearSVC(C=C, tol=1e-8, max_iter=20_000).fit(X, y, weight)
        return model.coef_, model.intercept_
    if loss == "ovr_log_loss":
        coef, intercept = [], []
        for k in range(int(y.max()) + 1) if y.max() > 1 else [1]:
            one = LogisticRegression(C=C, solver="liblinear", tol=1e-8, max_iter=2000)
            one.fit(X, y == k, weight)
            coef.append(one.coef_[0])
            intercept.append(one.intercept_[0])
        return np.array(coef), np.array(intercept)
    one = sp.hstack([sp.csr_matrix(X), np.ones((X.shape[0], 1))]).tocsr()
    model = LogisticRegression(C=C, fit_intercept=False, tol=1e-8, max_iter=5000)
    coef = model.fit(one, y, weight).coef_
    return coef[:, :-1], coef[:, -1]


def exact(loss, **params):
    params = {"tol": 1e-4, "max_iter": 5000, "random_state": 0, **params}
    return LinearClassifier(loss, calibration=None, **params)


@pytest.mark.parametrize(
    *all_pairs(
        loss=LOSSES, n_classes=[2, 7, 40], C=[0.1, 1.0, 30.0], weighted=[False, True]
    )
)
def test_objective_is_that_of_other_libraries(loss, n_classes, C, weighted):
    X, y = text(n_classes=n_classes)
    weight = np.random.default_rng(1).random(len(y)) * 3 if weighted else None
    ours = exact(loss, C=C).fit(X, y, weight)
    args = loss, X, y
    found, best = (
        objective(*args, *model, C, 1.0 if weight is None else weight)
        for model in (
            (ours.coef_, ours.intercept_),
            others(loss, X, y, C, weight),
        )
    )
    assert found == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize(*each_value(n_classes=[2, 7], loss=LOSSES))
def test_weights_are_those_of_other_libraries(loss, n_classes):
    X, y = text(n_classes=n_classes)
    coef, intercept = others(loss, X, y, 1.0)
    ours = exact(loss, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(ours.coef_, coef, atol=2e-4)
    np.testing.assert_allclose(ours.intercept_, intercept, atol=2e-4)


@pytest.mark.parametrize(
    *each_value(n_classes=[5, 150], loss=LOSSES)  # 150: dense rows in blocks
)
def test_dense_rows_are_sparse_rows(loss, n_classes):
    X, y = text(n_classes=n_classes)
    kept = np.flatnonzero(np.diff(X.tocsc().indptr))  # every column has entries
    X = X[:, kept].tocsr()
    a, b = exact(loss).fit(X, y), exact(loss).fit(X.toarray(), y)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-5)
    np.testing.assert_allclose(
        a.decision_function(X), b.decision_function(X.toarray()), atol=1e-4
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    *each_value(
        intercept_scaling=[0.0, 3.0], n=[400, 403, 407], n_classes=[130, 150, 200]
    )
)
def test_blocks_of_dense_rows_take_the_steps_of_single_rows(
    n, n_classes, intercept_scaling
):
    """Two epochs, far from the optimum; sparse rows have no blocks."""
    X, y = text(n=n, n_classes=n_classes)
    X = X[:, np.flatnonzero(np.diff(X.tocsc().indptr))].tocsr()
    params = {
        "C": 10.0, "max_iter": 2, "tol": 1e-9,
        "intercept_scaling": intercept_scaling,
    }  # fmt: skip
    a, b = (exact("log_loss", **params).fit(rows, y) for rows in (X, X.toarray()))
    assert np.abs(a.coef_).max() > 0.5
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-5)
    np.testing.assert_allclose(a.intercept_, b.intercept_, atol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_blocks_of_many_columns_are_multiplied_in_parts():
    """A product of more than a million numbers goes to BLAS in parts of the classes."""
    X, y = text(n=407, n_classes=150)
    rng = np.random.default_rng(0)
    X = sp.hstack([X, sp.csr_array(0.02 * rng.normal(size=(407, 2000)))]).tocsr()
    assert 8 * X.shape[1] * 150 > 2_000_000
    params = {"C": 10.0, "max_iter": 2, "tol": 1e-9}
    a, b = (exact("log_loss", **params).fit(rows, y) for rows in (X, X.toarray()))
    assert np.abs(a.coef_).max() > 0.5
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-4)  # single precision


@pytest.mark.parametrize("loss", LOSSES)
def test_intercept(loss):
    X, y = text()
    a = 5.0
    model = exact(loss, intercept_scaling=a).fit(X, y)
    args = loss, X, y, model.coef_, model.intercept_
    best = objective(*args, a=a)
    scaled = sp.hstack([X, np.full((X.shape[0], 1), a)]).tocsr()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows of length 5
        inside = exact(loss, intercept_scaling=0).fit(scaled, y)
    assert not inside.intercept_.any()
    again = objective(loss, X, y, inside.coef_[:, :-1], inside.coef_[:, -1] * a, a=a)
    assert best == pytest.approx(again, rel=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_repetitions(loss):
    X, y = text()
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    again = np.repeat(np.arange(len(y)), weight)
    a = exact(loss, tol=1e-6).fit(X, y, weight)
    b = exact(loss, tol=1e-6).fit(X[again], y[again])
    np.testing.assert_allclose(a.coef_, b.coef_, atol=2e-4)
    by_class = {k: 1.0 + (k == 3) for k in range(7)}
    c = exact(loss, tol=1e-6, class_weight=by_class).fit(X, y)
    d = exact(loss, tol=1e-6).fit(X, y, np.where(y == 3, 2.0, 1.0))
    assert np.array_equal(c.coef_, d.coef_)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_fold_is_unseen_when_it_calibrates_and_learned_in_the_end(loss):
    X, y = text(n=2000)
    model = LinearClassifier(loss, C=3, tol=1e-5, max_iter=5000, random_state=0)
    model.fit(X, y)
    held = fold_of(y, np.random.RandomState(0))
    assert 150 < held.size < 250
    apart = np.setdiff1d(np.arange(len(y)), held)
    separate = exact(loss, C=3, tol=1e-5).fit(X[apart], y[apart])
    g = evidence(separate.decision_function(X[held]), loss)
    scale, log_loss = fit_scale(g, y[held], np.ones(held.size))
    assert model.scale_ == pytest.approx(scale, rel=1e-2)
    assert model.fold_log_loss_ == pytest.approx(log_loss, rel=1e-3)
    # the model is that of all samples
    whole = exact(loss, C=3, tol=1e-5).fit(X, y)
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-3)
    assert not np.allclose(model.coef_, separate.coef_, atol=1e-2)


def test_fold_leaves_a_sample_of_every_class():
    rng = np.random.RandomState(0)
    for n_classes in (1, 2, 50, 80, 99, 100):
        code = np.arange(100) % n_classes
        held = fold_of(code, rng)
        left = np.delete(code, held)
        assert set(left) == set(code)
        assert held.size == min(25, 100 - n_classes)
        assert (np.diff(held) > 0).all()


@pytest.mark.parametrize(
    ("n", "size"),
    [(40, 10), (200, 50), (399, 99), (600, 100), (3000, 300), (30_000, 2000)],
)
def test_size_of_the_fold(n, size):
    """A tenth, at most 2000; of few samples a quarter, at most 100."""
    assert fold_of(np.zeros(n, dtype=int), np.random.RandomState(0)).size == size


@pytest.mark.parametrize("n_classes", [2, 3, 40, 300])
def test_scores_of_rows_of_any_length(n_classes):
    """Rows of 64 features, and 1 024 entries, are the kernel's steps."""
    rng = np.random.default_rng(n_classes)
    lengths = np.concatenate([[0, 1, 63, 64, 65, 128, 129], rng.integers(0, 900, 293)])
    X = sp.csr_matrix((lengths.size, 1000), dtype=np.float32).tolil()
    for i, length in enumerate(lengths.tolist()):
        X[i, rng.permutation(1000)[:length]] = rng.normal(size=length) / 30
    X = X.tocsr().astype(np.float32)
    y = np.arange(lengths.size) % n_classes
    for threshold in (0.0, 0.01, 0.2, 0.6):
        model = LinearClassifier(
            weight_threshold=threshold, calibration=None, max_iter=3
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        W = model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_
        expected = X.toarray().astype(float) @ W.T.astype(float) + model.intercept_
        scores = model.decision_function(X).reshape(expected.shape)
        np.testing.assert_allclose(scores, expected, atol=2e-5)


def test_fold_has_its_share_of_rare_classes():
    # a third of the samples are of one class, the others of 1 000 classes with two
    code = np.repeat(np.arange(1001), [1000] + [2] * 1000)
    rare = np.concatenate(
        [
            code[
                fold_of(
                    code,
                    np.random.RandomState(seed),
                )
            ]
            > 0
            for seed in range(20)
        ]
    )
    assert rare.size == 20 * 300
    # a rare sample of the fold needs its twin outside: 0.95 of the chance of others
    expected = 2 * 0.95 / (2 * 0.95 + 1)
    assert abs(rare.mean() - expected) < 4 * np.sqrt(expected / 3 / rare.size)


def test_scale_minimises_the_log_loss():
    rng = np.random.default_rng(0)
    g, target = rng.normal(size=(500, 4)), rng.integers(0, 4, 500)
    g[np.arange(500), target] += 1
    weight = rng.random(500)

    def loss(w):
        p = w * g - logsumexp(w * g, axis=1, keepdims=True)
        return -np.average(p[np.arange(500), target], weights=weight)

    w, least = fit_scale(g, target, weight)
    assert least == pytest.approx(loss(w), rel=1e-12)
    assert loss(w) <= min(loss(0.9 * w), loss(1.1 * w))


@pytest.mark.parametrize(
    *all_pairs(loss=LOSSES, n_classes=[1, 2, 7], threshold=[0.0, 0.05])
)
def test_probabilities(loss, n_classes, threshold):
    X, y = text(n_classes=n_classes)
    model = LinearClassifier(loss, weight_threshold=threshold, random_state=0)
    model.fit(X, y)
    new = text(1, n_classes=n_classes)[0]
    proba, scores = model.predict_proba(new), model.decision_function(new)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    assert np.array_equal(model.predict(new), model.classes_[proba.argmax(axis=1)])
    if n_classes > 2:
        assert np.array_equal(proba.argmax(axis=1), scores.argmax(axis=1))
    elif n_classes == 2:
        assert np.array_equal(proba.argmax(axis=1), scores > 0)
    for i in range(20):  # a function of the row alone, to the last bit
        assert np.array_equal(model.predict_proba(new[i : i + 1])[0], proba[i])
    assert np.array_equal(np.log(proba), model.predict_log_proba(new)) or np.allclose(
        np.log(proba), model.predict_log_proba(new), rtol=1e-12
    )
    labels, top = model.predict_top_k(new, n_classes, return_log_proba=True)
    assert np.array_equal(labels[:, 0], model.predict(new))
    assert (np.diff(top, axis=1) <= 0).all()
    np.testing.assert_array_equal(top[:, 0], model.target_log_proba(new, labels[:, 0]))


def test_margins_beyond_one_keep_their_order():
    z = np.linspace(-4, 4, 801)
    assert (np.diff(evidence(z, "squared_hinge")) > 0).all()
    below = z < 1
    np.testing.assert_allclose(
        evidence(z, "squared_hinge")[below], -((1 - z[below]) ** 2), rtol=1e-12
    )


def test_dense_weights_are_filled_node_by_node(monkeypatch):
    expected, nodes = np.zeros((5, 9), dtype=np.float32), []
    rng = np.random.default_rng(0)
    for columns, first, m in [([0, 3, 8], 0, 2), ([1, 3], 2, 3)]:
        W = rng.normal(size=(len(columns) + 1, lanes_of(m))).astype(np.float32)
        features = Features.of(np.array(columns, dtype=np.int32), 9)
        nodes.append(whole(features, [FittedStrip(W, m)], m, 1.0))
        expected[first : first + m, columns] = W[:-1, :m].T
    weights = NodeWeights(nodes, 9)
    np.testing.assert_array_equal(weights.sparse().toarray(), expected)
    monkeypatch.delattr(NodeWeights, "sparse")
    np.testing.assert_array_equal(weights.dense(), expected)


def test_html_does_not_make_the_dense_weights(monkeypatch):
    X, y = text()
    model = LinearClassifier(random_state=0).fit(X, y)
    monkeypatch.setattr(LinearClassifier, "coef_", property(lambda _: pytest.fail()))
    assert "LinearClassifier" in model._repr_html_()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_classes", [2, 7, 300])
def test_threshold(loss, n_classes):
    X, y = text(n_classes=n_classes, n=900)
    params = {"random_state": 0, "max_iter": 15, "tol": 0.1}
    full = LinearClassifier(loss, **params).fit(X, y)
    cut = LinearClassifier(loss, weight_threshold=0.1, **params).fit(X, y)
    dense = full.coef_
    top = np.abs(dense).max(axis=1, keepdims=True)
    expected = np.where(np.abs(dense) > np.float32(0.1) * top, dense, 0)
    assert sp.issparse(cut.coef_) and isinstance(dense, np.ndarray)
    assert np.array_equal(cut.coef_.toarray(), expected)
    assert np.array_equal(cut.intercept_, full.intercept_)
    assert cut.coef_.nnz < 0.9 * np.count_nonzero(dense)
    for model in (full, cut):
        scores = X @ model.coef_.T
        scores = scores.toarray() if sp.issparse(scores) else scores
        scores = scores + model.intercept_
        found = model.decision_function(X).reshape(scores.shape)
        np.testing.assert_allclose(found, scores, atol=1e-4)


def test_packed_weights():
    """Rows of every length, on columns with gaps, come back as they went in."""
    rng = np.random.default_rng(0)
    d = 400
    X = sp.random(40, d, 0.02, "csr", np.float32, rng)
    X.indices = X.indices.astype(np.int32)
    features = LocalRows.of(X).features
    assert (np.unique(X.indices) == features.columns()).all()
    for sizes in ((1,), (2,), (5,), (16,), (17,), (32, 28), (3, 40, 16)):
        strips, every, m = [], [], sum(sizes)
        intercept = []
        for size in sizes:
            shape = features.size + 1, lanes_of(size)
            W = np.zeros(shape, np.float32)
            W[:, :size] = rng.normal(size=(shape[0], size)) * (
                rng.random((shape[0], size)) < rng.random((shape[0], 1))
            )
            W[3, :size] = 0
            strips.append(FittedStrip(W, size))
            dense = np.zeros((d, size), np.float32)
            dense[features.columns()] = W[:-1, :size]
            every.append(dense.T)
            intercept.append(2 * W[-1, :size])
        expected = np.vstack(every)
        for piece in (
            whole(features, strips, m, 2.0),
            packed(features, strips, m, 2.0, 1e-9),
        ):
            weights = NodeWeights([piece] * 2, d)
            np.testing.assert_array_equal(weights.dense(), np.vstack([expected] * 2))
            sparse = weights.sparse()
            assert np.array_equal(sparse.toarray(), np.vstack([expected] * 2))
            assert np.array_equal(
                weights.intercepts(), np.tile(np.hstack(intercept), 2)
            )
        assert sparse.nnz == 2 * np.count_nonzero(expected)
        half = NodeWeights([packed(features, strips, m, 2.0, 0.5)], d).sparse()
        least = np.float32(0.5) * np.abs(expected).max(axis=1, keepdims=True)
        expected[np.abs(expected) <= least] = 0
        assert np.array_equal(half.toarray(), expected)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept_scaling", [1.0, 0.0])
def test_features_of_one_sample_are_apart_from_the_descent(
    loss, intercept_scaling, monkeypatch
):
    """The weights are those of a descent over all features."""
    X, y = text(d=4000)
    X = sp.hstack([X, sp.diags(np.linspace(0.1, 2.0, X.shape[0]))], format="csr")
    params = {"tol": 1e-6, "max_iter": 3000, "random_state": 0, "solver": "dual"}
    params["intercept_scaling"] = intercept_scaling
    divided = LocalRows.of(single(X)).divided
    assert divided.n_shared + (divided.sample >= 0).sum() == np.unique(X.indices).size
    apart = LinearClassifier(loss, **params).fit(X, y)
    monkeypatch.setattr(_weights, "LONE", 1.1)
    assert LocalRows.of(single(X)).divided is None
    whole = LinearClassifier(loss, **params).fit(X, y)
    np.testing.assert_allclose(apart.coef_, whole.coef_, atol=2e-5)
    np.testing.assert_allclose(apart.intercept_, whole.intercept_, atol=2e-5)


@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss"])
def test_weights_are_packed_without_the_duals_and_without_large_masks(
    loss, monkeypatch
):
    n = 20_000  # samples and features: the duals are as large as the weights
    rng = np.random.default_rng(0)
    X = single(sp.diags(rng.random(n) ** 4, format="csr", dtype=np.float32))
    targets = Targets.one_each(rng.integers(0, 3, n).astype(np.int32), 3)
    node = NodeSolver(X, targets, np.ones(n), np.arange(100, dtype=np.int32))
    stop = np.zeros(1, dtype=np.int32)
    settings = DescentSettings.of(LinearClassifier(max_iter=1), loss, 1.0, 0.9, stop)
    used = []

    def watched(features, strips, *rest):
        before = tracemalloc.get_traced_memory()[0]

        def each():
            for strip in strips:
                tracemalloc.reset_peak()
                yield strip

        piece = packed(features, each(), *rest)
        used.append(tracemalloc.get_traced_memory()[1] - before)
        return piece

    monkeypatch.setattr(_solver, "packed", watched)
    tracemalloc.start()
    try:
        node.fit((0, 3), settings, 1)
    finally:
        tracemalloc.stop()
    # 2.7 with the duals, 1.83 with masks of all weights
    assert used[0] < 1.7 * 4 * n * lanes_of(3)


@pytest.mark.parametrize("loss", LOSSES)
def test_threads_and_blocks(loss, monkeypatch):
    X, y = text(n_classes=40)
    monkeypatch.setattr(_solver, "BLOCK", 24)
    monkeypatch.setattr(_solver, "STRIP", 16)
    one, two = (
        LinearClassifier(loss, random_state=0, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (1, 2)
    )
    assert np.array_equal(one.coef_, two.coef_) and one.scale_ == two.scale_
    assert np.array_equal(one.predict_proba(X), two.predict_proba(X))
    # blocks are the same problems
    tight = exact(loss, tol=1e-5).fit(X, y)
    monkeypatch.undo()
    whole = exact(loss, tol=1e-5).fit(X, y)
    np.testing.assert_allclose(tight.coef_, whole.coef_, atol=1e-3)


def test_auto():
    X, y = text(n=1000)
    model = LinearClassifier("auto", random_state=0).fit(X, y)
    one = LinearClassifier(model.loss_, C=model.C_, random_state=0).fit(X, y)
    assert model.loss_ == "squared_hinge" and model.C_ == 1
    assert np.array_equal(model.coef_, one.coef_)
    assert model.fold_log_loss_ == one.fold_log_loss_
    noise = np.random.default_rng(0).integers(0, 7, len(y))
    assert LinearClassifier("auto", random_state=0).fit(X, noise).scale_ < 1
    # without a fold it is the loss whose scores are log-probabilities
    one_each = np.unique(y, return_index=True)[1]
    few = LinearClassifier("auto").fit(X[one_each], y[one_each])
    assert few.loss_ == "log_loss"


def test_trials_are_never_rougher_than_a_tenth(monkeypatch):
    X, y = text(8)
    tols = []
    descend = _solver.Descent.without_fold

    def recorded(self, tol, most):
        tols.append(tol)
        descend(self, tol, most)

    monkeypatch.setattr(_solver.Descent, "without_fold", recorded)
    for tol, wanted in [(0.001, 0.01), (0.05, 0.1), (0.3, 0.3)]:
        tols.clear()
        LinearClassifier("auto", tol=tol, random_state=0).fit(X, y)
        assert tols[0] == pytest.approx(wanted)


@pytest.mark.parametrize("several", [False, True])
def test_losses_are_tried_on_some_of_many_samples(several, monkeypatch):
    """The whole fold and some others, in the order of the node; X fits the targets."""
    rng, n = np.random.default_rng(0), 300
    X = single(np.arange(n)[:, None] + np.zeros(3))
    order = rng.permutation(n).astype(np.int32)
    code = rng.integers(0, 3, n)
    targets = Targets.one_each(code, 3)
    if several:
        order = np.sort(order)
        targets = Targets.of_indicator(sp.csr_matrix(code[:, None] == np.arange(3)))
    held = np.sort(rng.choice(n, 60, replace=False)).astype(np.int32)
    trial = NodeSolver(X, targets, rng.random(n), held, order)
    assert _trial.part_of(trial, 5) is trial
    monkeypatch.setattr(_trial, "_MANY", 299)
    monkeypatch.setattr(_trial, "_LEARNED", 100)
    part = _trial.part_of(trial, 5)
    rows = part.X[:, 0].astype(int)
    assert rows.size == np.unique(rows).size == 160
    assert set(rows[part.held]) == set(held)
    np.testing.assert_array_equal(rows, order[np.isin(order, rows)])
    assert np.array_equal(part.targets.outcome, code[rows])
    assert np.array_equal(part.weight, trial.weight[rows])
    # the chosen loss is fitted to all samples, as if it had been named
    X, y = text(8)
    for many in (0, 10_000):
        monkeypatch.setattr(_trial, "_MANY", many)
        auto = LinearClassifier("auto", random_state=0).fit(X, y)
        named = LinearClassifier(auto.loss_, C=auto.C_, random_state=0).fit(X, y)
        np.testing.assert_array_equal(auto.predict_proba(X), named.predict_proba(X))


@pytest.mark.parametrize("n_classes, several", [(7, False), (40, False), (40, True)])
def test_part_that_losses_are_tried_on(several, n_classes, monkeypatch):
    """The problem of the chosen outcomes, with the fold of the whole."""
    rng = np.random.default_rng(0)
    X, n = single(sp.csr_matrix(sp.random(400, 30, 0.3, "csr", random_state=rng))), 300
    targets = Targets.one_each(rng.integers(0, n_classes, n), n_classes)
    if several:
        targets = Targets.of_indicator(
            sp.csr_matrix(rng.random((n, n_classes)) < 0.2)
        )  # fmt: skip
    held = np.sort(rng.choice(n, 60, replace=False)).astype(np.int32)
    weight = rng.random(n)
    trial = NodeSolver(X[50:350], targets, weight, held)
    monkeypatch.setattr(_trial, "_MEMBERS", 30)
    monkeypatch.setattr(_trial, "_FEWEST", 16)
    part = _trial.part_of(trial, 5)
    if n_classes <= 16:
        assert part is trial
        return
    assert part.targets.n_outcomes == n_classes // 2
    full, yes = targets.indicator(), part.targets.indicator()
    # which outcomes: those with the same samples
    rows = np.arange(n)
    if not several:
        chosen = np.random.RandomState(5).permutation(n_classes)[: n_classes // 2]
        rows = np.flatnonzero(np.isin(targets.outcome, chosen))
        assert (yes.sum(axis=1) == 1).all()
    columns = [
        np.flatnonzero((full[rows].T == yes[:, k]).all(axis=1))
        for k in range(yes.shape[1])
    ]
    columns = [c[0] for c in columns if c.size == 1]
    assert len(columns) == yes.shape[1] and columns == sorted(columns)
    assert np.array_equal(part.weight, weight[rows])
    assert np.array_equal(rows[part.held], np.intersect1d(rows, held))
    found = part.X - X[50:350][rows]
    assert abs(found).sum() == 0


@pytest.mark.parametrize(
    *all_pairs(
        loss=["squared_hinge", "log_loss", "ovr_log_loss"],
        most=[1, 2, 3, 1000],
        threshold=[0.0, 0.02],
    )
)
def test_halted_descents_continue(loss, most, threshold):
    """The fit is the same bit by bit, wherever it was halted."""
    X, y = text(n=900, n_classes=40)
    held = np.arange(0, len(y), 9, dtype=np.int32)
    node = NodeSolver(single(X), Targets.one_each(y, 40), np.ones(len(y)), held)
    stop = np.zeros(1, dtype=np.int32)
    settings = DescentSettings(loss, 2.0, 1.0, 0.01, 50, threshold, stop)
    (block,) = node.blocks(settings)
    paused = list(node.descents(block, settings, 3))
    for descent in paused:
        descent.without_fold(0.05, most)
        assert descent.n_iter <= most
    early = np.hstack([d.fold_scores() for d in paused])
    found = node.fit(block, settings, 3, paused=paused)
    expected = node.fit(block, settings, 3)
    for a, b in zip(found.piece, expected.piece):
        if isinstance(a, np.ndarray):
            assert np.array_equal(a, b)
    assert np.array_equal(found.fold_scores, expected.fold_scores)
    assert found[2:] == expected[2:]
    # the fold was not learned before
    z, at = expected.fold_scores, (np.arange(held.size), y[held])
    assert np.corrcoef(early[at], z[at])[0, 1] > (0.5 if most < 3 else 0.95)


@pytest.mark.parametrize(
    *each_value(longer=[1.0, 300.0], n_classes=[130, 3, 128, 16, 40, 20])
)
def test_multinomial_steps_of_any_width(n_classes, longer):
    """The optimum of a quasi-Newton method, also with scores that overflow exp."""
    rng = np.random.default_rng(n_classes)
    centres = rng.normal(size=(n_classes, 12))
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 300)])
    X = centres[y] + 0.3 * rng.normal(size=(y.size, 12))
    X[::40] *= longer
    X, C = X.astype(np.float32).astype(float), 3.0

    def loss(W):
        z = X @ W.reshape(n_classes, -1).T
        log_p = z - logsumexp(z, axis=1, keepdims=True)
        p = np.exp(log_p)
        p[np.arange(y.size), y] -= 1
        value = W @ W / 2 - C * log_p[np.arange(y.size), y].sum()
        return value, W + C * (p.T @ X).ravel()

    best = minimize(
        loss, np.zeros(n_classes * 12), jac=True, method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 20000, "gtol": 1e-8, "ftol": 1e-13},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearClassifier(
            "log_loss", C=C, calibration=None, intercept_scaling=0, tol=1e-5,
            max_iter=3000, random_state=0,
        ).fit(X, y)  # fmt: skip
    value = loss(model.coef_.ravel().astype(float))[0]
    assert value == pytest.approx(best.fun, rel=1e-3)
    assert (np.abs(X @ model.coef_.T).max() > 90) == (longer > 1)


@pytest.mark.parametrize("n_columns", [20, 600])
def test_auto_of_dense_samples(n_columns):
    """Also with more columns than samples, where the squared hinge separates all."""
    X, y = make_classification(
        600, n_columns, n_informative=10, n_redundant=0, n_classes=5,
        n_clusters_per_class=1, class_sep=2.0, flip_y=0.0, random_state=0,
    )  # fmt: skip
    right = {}
    for loss, C in (("auto", 1.0), ("squared_hinge", 1.0), ("log_loss", 10.0)):
        model = LinearClassifier(loss, C=C, random_state=0).fit(X[:300], y[:300])
        proba = model.predict_proba(X[300:])
        right[loss] = np.log(proba[np.arange(300), y[300:]]).mean()
    assert right["auto"] == right["log_loss"] > right["squared_hinge"] + 0.01
    hinge = LinearClassifier(random_state=0).fit(X[:300], y[:300])
    assert (hinge.score(X[:300], y[:300]) == 1) == (n_columns == 600)


@pytest.mark.parametrize(*each_value(noise=[0.0, 0.4], threshold=[0.0, 0.02]))
def test_trial_that_is_the_whole_fit(threshold, noise, monkeypatch):
    """The fit of the chosen loss continues its trial, as if it had been named."""
    if noise:
        monkeypatch.setattr(_trial, "_RELATIVE_MARGIN", {"log_loss": -1.0})
        monkeypatch.setattr(_trial, "_LEAST_MARGIN", -1.0)
    X, y = text(n=900)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(y.size) < noise, rng.integers(0, 7, y.size), y)
    params = {"weight_threshold": threshold, "random_state": 0}
    auto = LinearClassifier("auto", **params).fit(X, y)
    assert auto.loss_ == ("log_loss" if noise else "squared_hinge")
    named = LinearClassifier(auto.loss_, C=auto.C_, **params).fit(X, y)
    assert abs(auto.coef_ - named.coef_).max() == 0
    assert auto.scale_ == named.scale_ and auto.n_iter_ == named.n_iter_


def test_log_loss_that_decides(monkeypatch):
    """The logistic loss must be better by a part and by some nats."""
    found = {}
    monkeypatch.setattr(_trial, "fold_log_loss", lambda parts, z, loss: found[loss])
    X, y = text()
    held = np.arange(0, len(y), 9, dtype=np.int32)
    targets = Targets.one_each(y, 7)
    trial = NodeSolver(single(X), targets, np.ones(len(y)), held)
    stop = np.zeros(1, dtype=np.int32)

    def chosen(hinge, logistic):
        found.update(squared_hinge=hinge, log_loss=logistic)
        return _trial.choose_loss(
            [trial], lambda loss, C: DescentSettings(loss, C, 1.0, 0.1, 9, 0.0, stop),
            2.0, np.array([1]), ThreadMap(None),
        )[:2]  # fmt: skip

    hinge, logistic = ("squared_hinge", 2.0), ("log_loss", 20.0)
    assert chosen(1.0, 0.98) == hinge and chosen(1.0, 0.96) == logistic
    assert chosen(0.1, 0.0905) == hinge and chosen(0.1, 0.0895) == logistic
    assert chosen(0.005, -1.0) == hinge


def test_without_calibration():
    X, y = text()
    hinge = exact("squared_hinge").fit(X, y)
    assert not hasattr(hinge, "predict_proba")
    assert np.isnan(hinge.fold_log_loss_)
    multinomial = exact("log_loss", C=3).fit(X, y)
    z = multinomial.decision_function(X).astype(float)
    np.testing.assert_allclose(
        multinomial.predict_proba(X), np.exp(z - logsumexp(z, axis=1)[:, None])
    )
    rest = exact("ovr_log_loss", C=3).fit(X, y)
    p = 1 / (1 + np.exp(-rest.decision_function(X).astype(float)))
    np.testing.assert_allclose(rest.predict_proba(X), p / p.sum(axis=1, keepdims=True))


def test_answers_that_no_machine_can_hold(monkeypatch):
    X, y = text()
    model = exact("log_loss").fit(X, y)
    monkeypatch.setattr(_checks, "physical_memory", lambda: 8.0 * 7 * 300)
    for call in (model.decision_function, model.predict_proba):
        assert call(X[:300]).shape == (300, 7)
        with pytest.raises(MemoryError, match=r"301 rows"):
            call(X[:301])


def test_string_labels_and_pickles():
    X, y = text()
    names = np.array(list("abcdefg"))[y]
    model = LinearClassifier(weight_threshold=0.02, random_state=0).fit(X, names)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert set(model.predict(X)) <= set(names)
    log_proba = model.target_log_proba(X[:3], ["a", "stranger", "c"])
    assert np.isnan(log_proba).tolist() == [False, True, False]


def test_rare_things():
    """A class with one sample, rows without entries, columns of zeros."""
    X, y = text()
    X = X.tolil()
    X[:5] = 0
    X[:, 250:] = 0
    X = X.tocsr()
    y = y.copy()
    y[17] = 7
    for loss in LOSSES:
        model = LinearClassifier(loss, random_state=0).fit(X, y)
        assert model.classes_.size == 8
        assert np.isfinite(model.predict_proba(X)).all()
        assert not model.coef_[:, 250:].any()
    # every class has one sample: there is no fold
    model = LinearClassifier(random_state=0).fit(X[10:17], np.arange(7))
    assert model.scale_ == 1 and np.isnan(model.fold_log_loss_)
    assert np.array_equal(model.predict(X[10:17]), np.arange(7))
    # no entry at all
    model.fit(sp.csr_matrix((6, 4)), [0, 0, 0, 1, 1, 2])
    np.testing.assert_allclose(model.predict_proba(X[:1, :4]).sum(), 1)


@pytest.mark.parametrize("C", [1e-12, 1e12])
@pytest.mark.parametrize("loss", LOSSES)
def test_extreme_strengths_are_finite(loss, C):
    X, y = text()
    model = LinearClassifier(
        loss, C=C, intercept_scaling=C, random_state=0, max_iter=20
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.predict_log_proba(X)).all()


def test_bad_input(monkeypatch):
    X, y = text()
    with pytest.raises(ValueError, match="loss.*calibration"):
        LinearClassifier("auto", calibration=None).fit(X, y)
    with pytest.raises(ValueError, match="non-zero|zero for every sample"):
        LinearClassifier().fit(X, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match="sample_weight"):
        LinearClassifier().fit(X, y, np.full(len(y), 1e30))
    with pytest.raises(ValueError, match="intercept_scaling"):
        LinearClassifier(intercept_scaling=1e300).fit(X, y)
    with pytest.raises(ValueError, match="class_weight"):
        LinearClassifier(class_weight={0: -1.0}).fit(X, y)
    with pytest.raises(ValueError, match="class_weight must hold numbers: .*'a'"):
        LinearClassifier(class_weight={0: "a"}).fit(X, y)
    with pytest.raises(ValueError, match="C=1e-300 .*; choose C nearer to 1, or scale"):
        LinearClassifier(C=1e-300).fit(X, y)
    for bad in (np.nan, np.inf):
        worse = X.copy()
        worse.data[3] = bad
        with pytest.raises(ValueError, match="NaN|infinity"):
            LinearClassifier().fit(worse, y)
    with pytest.raises(ValueError, match="overflow"):
        LinearClassifier().fit(X * 1e30, y)
    with pytest.warns(UserWarning, match="rows of lengths"):
        LinearClassifier().fit(sp.diags(np.arange(1.0, 401)) @ X, y)
    with pytest.warns(UserWarning, match="rows of lengths from 20 to 20"):
        LinearClassifier().fit(20 * X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        LinearClassifier(max_iter=1, tol=1e-9).fit(X, y)
    model = LinearClassifier().fit(X, y)
    for k in (0, 8, 1.5):
        with pytest.raises(ValueError, match="k must be"):
            model.predict_top_k(X, k)
    with pytest.raises(ValueError, match="inconsistent"):
        model.target_log_proba(X, y[:3])
    # negative entries are entries like others
    LinearClassifier().fit(-X, y)
    known = {"SC_PHYS_PAGES": 100, "SC_PAGE_SIZE": 64}
    monkeypatch.setattr(os, "sysconf", known.get)
    with pytest.raises(MemoryError, match="n_classes=7 with 300 features needs"):
        LinearClassifier().fit(X, y)
    with pytest.raises(MemoryError, match="rows"):
        model.predict_proba(X)


def refusal(model, X, y):
    """The message of the refusal for memory, or None."""
    try:
        model.fit(X, y)
    except MemoryError as error:
        return str(error)
    return None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    "loss, n",
    [("squared_hinge", 450), ("squared_hinge", 900), ("log_loss", 900), ("auto", 900)],
)
def test_remedies_of_a_refusal_for_memory_work(monkeypatch, loss, several, n):
    """The remedy of the message is fitted at limits that refuse the fit."""
    X, y = text(n=n, n_classes=2 * n // 3, d=2000)
    if several:
        y = sp.csr_matrix((np.ones(n, dtype=int), (np.arange(n), y)))
        loss = "ovr_log_loss" if loss == "log_loss" else loss
    params = {"max_iter": 1, "random_state": 0}
    small = LinearClassifier(weight_threshold=0.02, **params)
    tree = HierarchicalClassifier(
        "kmeans", estimator=small, max_leaf=20, random_state=0
    )
    worked = {"small": False, "tree": False}
    for limit in 1e5 * 2 ** np.arange(0, 10, 0.5):
        known = {"SC_PHYS_PAGES": int(limit), "SC_PAGE_SIZE": 1}
        monkeypatch.setattr(os, "sysconf", known.get)
        said = refusal(LinearClassifier(loss, **params), X, y)
        if said is None:
            break
        assert "HierarchicalClassifier" in said and "weight_threshold=0.02" in said
        worked["small"] |= refusal(small, X, y) is None
        worked["tree"] |= refusal(tree, X, y) is None
    assert all(worked.values())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_answers_of_the_fold_need_memory_too(monkeypatch):
    X, y = text(n=3000, n_classes=250, d=40)
    y = sp.csr_matrix((np.ones(3000, dtype=int), (np.arange(3000), y)))
    limit = {"SC_PHYS_PAGES": 60 * 300, "SC_PAGE_SIZE": 250}
    monkeypatch.setattr(os, "sysconf", limit.get)
    params = {"max_iter": 1, "weight_threshold": 0.02}
    LinearClassifier(calibration=None, **params).fit(X, y)
    with pytest.raises(MemoryError, match="n_classes=250 with 40 features needs"):
        LinearClassifier(**params).fit(X, y)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that signal")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c(loss, n_jobs, monkeypatch):
    X, y = text(n=3000, n_classes=64, words=30)
    monkeypatch.setattr(_solver, "BLOCK", 32)
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            exact(loss, C=1e4, tol=1e-12, max_iter=10**6, n_jobs=n_jobs).fit(X, y)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0])
def test_no_warning_where_a_fit_ends_by_itself(scale):
    """For all sizes of the features and so of the gradients."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    y = (X[:, 0] + 0.3 * rng.normal(size=80) > 0).astype(int) + (X[:, 1] > 1)
    model = LinearClassifier(tol=0.1, max_iter=5000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(scale * X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        model.set_params(max_iter=1, tol=1e-6).fit(scale * X, y)


@pytest.mark.parametrize("solver", ["dual", "quasi_newton"])
def test_one_class_has_no_outcomes(solver):
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = LinearClassifier("log_loss", solver=solver, random_state=0).fit(X, [7] * 20)
    assert model.intercept_.size == 0
    assert model.predict(X[:2]).tolist() == [7, 7]


def test_scores_of_many_weights_without_the_small_ones():
    """64 features have more weights than are gathered before they are added up."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(240, 64)), np.arange(240) % 60
    model = LinearClassifier(weight_threshold=0.3, max_iter=1, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    W = model.coef_.toarray()
    n_entries = np.count_nonzero(W, axis=0)
    assert n_entries[n_entries < 42].sum() > 1024
    expected = X @ W.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-4)


@pytest.mark.parametrize("n_classes", [1, 2, 5, 300])
def test_scores_of_dense_samples_are_those_of_sparse_samples(n_classes):
    rng = np.random.default_rng(0)
    y = np.arange(600) % n_classes
    X = rng.normal(size=(600, 7)).astype(np.float32)
    model = LinearClassifier(max_iter=3, tol=1.0, random_state=0).fit(X, y)
    assert len(model.weights_.whole()) == -(-model._n_rows() // 256)
    expected = X @ model.coef_.T + model.intercept_
    for rows in X, sp.csr_matrix(X):
        scores = model.decision_function(rows).reshape(600, -1)
        if n_classes > 1:
            np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
        if n_classes > 2:
            best = model.classes_[expected.argmax(axis=1)]
            np.testing.assert_array_equal(model.predict(rows), best)
    # a column that no sample of the fit has
    less = sp.csr_matrix(X * np.r_[np.ones(6), 0])
    model.fit(less, y)
    assert n_classes == 1 or model.weights_.whole() is None
    dense, sparse = model.decision_function(X), model.decision_function(less)
    np.testing.assert_allclose(dense, sparse, rtol=1e-4, atol=1e-4)


def test_parameters_after_fit_change_no_probabilities():
    X, y = make_classification(200, random_state=0)
    plain = LinearClassifier("squared_hinge", calibration=None).fit(X, y)
    assert not hasattr(plain.set_params(calibration="fold"), "predict_proba")
    fitted = LinearClassifier("squared_hinge", random_state=0).fit(X, y)
    before = fitted.predict_proba(X)
    after = fitted.set_params(calibration=None).predict_proba(X)
    np.testing.assert_array_equal(after, before)
    assert not hasattr(fitted.fit(X, y), "predict_proba")


def test_weights_of_text_are_named():
    X, y = make_classification(20, random_state=0)
    for model in (LinearClassifier(), HierarchicalClassifier()):
        with pytest.raises(ValueError, match="^sample_weight: could not convert"):
            model.fit(X, y, sample_weight=["a"] * 20)
