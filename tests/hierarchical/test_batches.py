"""partial_fit of HierarchicalClassifier against its formula, and against fit."""

import pickle
import re
from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from _nodes import logistic
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklstruct import HierarchicalClassifier
from sklstruct.datasets import make_sparse_classes
from sklstruct.hierarchical import PerNodeC
from sklstruct.hierarchical._dual_nodes import DualNodes
from sklstruct.linear import LinearClassifier

K = 12
GROUPS = [[0, 1, 2, 3], [4, 5], [6, [7, 8]], [9, 10, 11]]
LOSSES = ["squared_hinge", "ovr_log_loss", "log_loss"]


@pytest.fixture(scope="module")
def data():
    X, y = make_sparse_classes(1500, K, 400, random_state=0)
    return X[:1000], y[:1000], X[1000:], y[1000:]


def batched(X, y, n_batches, loss="squared_hinge", taxonomy=GROUPS, **params):
    node = {"C": 2.0} | params
    model = HierarchicalClassifier(
        taxonomy, estimator=LinearClassifier(loss, **node), random_state=0
    )
    for part in np.array_split(np.arange(len(y)), n_batches):
        model.partial_fit(X[part], y[part], classes=np.arange(K))
    return model


def test_one_batch_is_fit(data):
    X, y, Z, _ = data
    one = batched(X, y, 1)
    whole = clone(one).fit(X, y)
    np.testing.assert_array_equal(one.predict_proba(Z), whole.predict_proba(Z))
    np.testing.assert_array_equal(one.taxonomy_.parent, whole.taxonomy_.parent)
    assert one.nodes_.n_leaves == whole.nodes_.n_leaves
    assert whole.nodes_.window is None


def gradients(loss, Z, yes):
    """Of the losses by the scores Z (n, rows); yes (n, outcomes)."""
    if loss == "log_loss" and Z.shape[1] > 1:
        return softmax(Z, axis=1) - yes
    sign = np.where(yes[:, -Z.shape[1] :], 1.0, -1.0)
    if loss == "squared_hinge":
        return -2 * sign * np.maximum(0, 1 - sign * Z)
    return -sign * expit(-sign * Z)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_batch_moves_the_weights_to_the_minimum_of_its_formula(data, loss, dense):
    """W - W_before = -C sum of x_i times the gradient, at every node."""
    X, y, _, _ = data
    X = X.toarray() if dense else X
    C, exact = 2.0, {"calibration": None, "tol": 1e-7, "max_iter": 3000}
    parts = np.split(np.arange(1000), [400, 700])
    weight = np.random.default_rng(0).uniform(0.2, 2, 1000)
    node = LinearClassifier(loss, C=C, **exact)
    model = HierarchicalClassifier(GROUPS, estimator=node, random_state=0)
    if loss == "squared_hinge":  # whose probabilities need a fold
        node.set_params(calibration="fold")
    before = None
    for part in parts:
        model.partial_fit(X[part], y[part], range(K), sample_weight=weight[part])
        W = model.coef_.toarray(), model.intercept_
        if before is not None:
            row = 0
            for v in model.model_nodes_.tolist():
                tree, forest = model.taxonomy_, model.forest_
                first, m = int(forest.first_child[v]), int(forest.n_child[v])
                of_child = np.full(K, -1)
                for k in range(m):
                    c = forest.node_class[first + k]
                    below = [c] if c >= 0 else tree.classes_below(first + k)
                    of_child[below] = k
                mine = part[of_child[y[part]] >= 0]
                rows = slice(row, row + (1 if m == 2 else m))
                row = rows.stop
                score = np.asarray(X[mine] @ W[0][rows].T) + W[1][rows]
                yes = of_child[y[mine]][:, None] == np.arange(m)
                G = C * weight[mine, None] * gradients(loss, score, yes)
                step = W[0][rows] - before[0][rows]
                np.testing.assert_allclose(step, -(X[mine].T @ G).T, atol=2e-3)
                np.testing.assert_allclose(
                    W[1][rows] - before[1][rows], -G.sum(axis=0), atol=2e-3
                )
            assert row == len(W[1])
        before = W


@pytest.mark.parametrize("n_batches", [15, 50])
@pytest.mark.parametrize("loss", ["squared_hinge", "log_loss", "auto"])
def test_batches_come_near_to_one_fit(data, loss, n_batches):
    X, y, Z, T = data
    whole = batched(X, y, 1, loss)
    few, many = batched(X, y, 4, loss), batched(X, y, n_batches, loss)
    score = whole.score(Z, T)
    assert score > 0.6
    assert few.score(Z, T) > 0.8 * score
    assert many.score(Z, T) > 0.7 * score
    # each sample of the window was scored before it was learned
    assert few.nodes_.window.weight.size == 62 + 750
    alone, loss = (-model.target_log_proba(Z, T).mean() for model in (whole, few))
    assert alone < 0.93 and loss < min(1.058, alone + 0.16)
    few.nodes_.numbers = np.array([[1.0, 1.0, 0.0, 0.0, 0.0]])
    assert few.nodes_.loss == "log_loss" or loss < -few.target_log_proba(Z, T).mean()


def test_classes_that_come_late(data):
    X, y, Z, T = data
    order = np.argsort(y >= 6, kind="stable")  # the second half of the classes last
    model = batched(X[order], y[order], 1)
    first = np.flatnonzero(y < 6)
    late = batched(X[first], y[first], 1)
    assert set(late.predict(Z)) <= set(range(6))
    assert np.count_nonzero(late.node_n_iter_) == 3  # three nodes have no samples
    P = late.predict_proba(Z)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    rest = np.flatnonzero(y >= 6)
    late.partial_fit(X[rest], y[rest])
    assert (late.predict(Z[T >= 6]) >= 6).mean() > 0.6
    again = np.random.default_rng(0).permutation(first)[:200]
    late.partial_fit(X[again], y[again])
    assert late.score(Z, T) > model.score(Z, T) - 0.25


def test_reproducible_pickled_and_independent_of_jobs(data):
    X, y, Z, _ = data
    model = batched(X, y, 3)
    other = clone(model).set_params(n_jobs=2)
    copy = clone(model)
    for part in np.array_split(np.arange(1000), 3):
        other.partial_fit(X[part], y[part], classes=np.arange(K))
        copy.partial_fit(X[part], y[part], classes=np.arange(K))
        copy = pickle.loads(pickle.dumps(copy))
    for same in (other, copy):
        np.testing.assert_array_equal(same.predict_proba(Z), model.predict_proba(Z))
        found, expected = same.nodes_.window, model.nodes_.window
        np.testing.assert_array_equal(found.X.toarray(), expected.X.toarray())


def test_window_holds_the_last_samples(data, monkeypatch):
    X, y, Z, _ = data
    for module in ("_dual_nodes", "_label_fold"):
        monkeypatch.setattr(f"sklstruct.hierarchical.{module}.WINDOW", 300)
    model = batched(X, y, 1)
    scored = []
    for part in np.array_split(np.arange(1000), 4):
        score = X[part] @ model.coef_.toarray()[:4].T + model.intercept_[:4]
        model.partial_fit(X[part], y[part])
        window = model.nodes_.window
        scored.append(score)
        assert window.weight.size <= 300
        order = np.argsort(window.unseen[0].member)
        root = window.unseen[0]
        root = root._replace(member=root.member[order], scores=root.scores[order])
        np.testing.assert_array_equal(root.member, np.arange(window.weight.size))
        # root's scores are those of the weights before the batch
        new = np.flatnonzero(root.member >= window.weight.size - len(part))
        rows = window.X[window.weight.size - len(part) :].toarray()
        given = X[part].toarray()
        at = [np.flatnonzero((given == r).all(axis=1))[0] for r in rows]
        np.testing.assert_allclose(root.scores[new], score[at], atol=1e-4)
        np.testing.assert_array_equal(window.targets.outcome[new], y[part][at])
        for v, node in window.unseen.items():
            assert node.scores.shape == (node.member.size, node.scores.shape[1])
            assert node.targets.n_samples == node.member.size
            own = window.targets.outcome[node.member]
            forest = model.forest_
            child = forest.terminal[0][own]
            while (forest.parent[child] != v).any():
                up = forest.parent[child] != v
                child[up] = forest.parent[child[up]]
            np.testing.assert_array_equal(
                child - forest.first_child[v], node.targets.outcome
            )


def test_numbers_are_fitted_again_after_some_new_samples(data):
    X, y, _, _ = data
    model = batched(X[:600], y[:600], 1)
    changed = []
    for start in range(600, 1000, 40):
        before = model.nodes_.numbers.copy()
        model.partial_fit(X[start : start + 40], y[start : start + 40])
        changed.append((model.nodes_.numbers != before).any())
    # at a hundred samples since the last time, which 40, 80, 120 reach
    assert changed == [False, False, True] * 3 + [False]


def test_weight_zero_is_absent(data):
    X, y, Z, _ = data
    a, b = batched(X[:500], y[:500], 1), batched(X[:500], y[:500], 1)
    weight = np.arange(500) % 2
    a.partial_fit(X[500:], y[500:], sample_weight=weight)
    b.partial_fit(X[501::2], y[501::2])
    np.testing.assert_array_equal(a.coef_.toarray(), b.coef_.toarray())
    with pytest.raises(ValueError, match="zero"):
        a.partial_fit(X[500:], y[500:], sample_weight=0 * weight)


@pytest.mark.parametrize("X_of", [lambda X: X, lambda X: X.toarray()])
def test_goes_on_after_a_fit(data, X_of):
    """Also from a learned tree, and from weights of which small ones were dropped."""
    X, y, Z, T = data
    node = LinearClassifier(weight_threshold=0.02)
    model = HierarchicalClassifier("cut", estimator=node, max_leaf=4, random_state=0)
    assert not hasattr(model, "partial_fit")
    model.fit(X[:500], y[:500])
    assert not hasattr(model, "partial_fit")
    before, tree = model.score(Z, T), model.taxonomy_
    coef = model.coef_.toarray()
    model.set_params(taxonomy=tree)
    model.partial_fit(X_of(X[500:510]), y[500:510])
    assert model.taxonomy_ is tree
    untouched = (X[500:510].sum(axis=0) == 0).A1
    np.testing.assert_array_equal(
        model.coef_.toarray()[:, untouched], coef[:, untouched]
    )
    model.partial_fit(X_of(X[510:]), y[510:])
    assert model.score(Z, T) > before
    model.set_params(taxonomy="cut").fit(X[:500], y[:500])  # fit starts anew
    np.testing.assert_array_equal(model.coef_.toarray(), coef)
    flat = HierarchicalClassifier(max_depth=0, random_state=0)
    assert flat.partial_fit(X, y, range(K)).score(Z, T) > 0.6


def test_single_samples_and_other_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    y = np.array(["a", "b", "c"])[np.arange(60) % 3]
    X[np.arange(60), np.arange(60) % 3] += 3
    model = HierarchicalClassifier({"u": ["a", "b"], "v": ["c"]}, random_state=0)
    for i in range(60):
        model.partial_fit(X[[i]], y[[i]], classes=["c", "b", "a"])
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(X, y) > 0.8
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.predict_at(X[:1], 0.0).shape == (1, 2)
    one = HierarchicalClassifier(max_depth=0).partial_fit(X, y, classes=list("abc"))
    assert one.partial_fit(sp.csr_matrix(X), y).score(X, y) > 0.8
    single = HierarchicalClassifier(["a"]).partial_fit(X[::3], y[::3], ["a"])
    assert set(single.partial_fit(X[::3], y[::3]).predict(X)) == {"a"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": None}, "classes must be passed on the first call"),
        ({"classes": range(5)}, "which is not among the classes"),
        ({"classes": range(20)}, "missing labels"),
        ({"y": np.arange(3)}, "inconsistent numbers"),
        ({"sample_weight": [1, 2]}, "sample_weight"),
        ({"classes": [1, "a"]}, "labels must be all"),
    ],
)
def test_bad_first_batches(data, change, message):
    X, y, _, _ = data
    passed = {"X": X, "y": y, "classes": range(K)} | change
    model = HierarchicalClassifier(GROUPS)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(**passed)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_bad_later_batches(data):
    X, y, _, _ = data
    model = batched(X, y, 1)
    coef = model.coef_.toarray()
    for passed, message in [
        ((X, y, range(K + 1)), "classes differ"),
        ((X, y + 1), "has the label 12, which is not among the classes"),
        ((X[:, 1:], y), "features"),
        ((X, np.eye(K, dtype=int)[y]), "one label per sample"),
        ((X * np.nan, y), "NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.partial_fit(*passed)
        np.testing.assert_array_equal(model.coef_.toarray(), coef)
    model.partial_fit(X, y, np.arange(K)[::-1])  # any order


@pytest.mark.parametrize("calibration", ["fold", None])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_strength_loss_and_intercepts_are_those_of_the_first_batch(
    data, method, calibration
):
    X, y, _, _ = data
    node = LinearClassifier("log_loss", C=0.01, calibration=calibration)
    model = HierarchicalClassifier(GROUPS, estimator=node, random_state=0)
    options = {"classes": range(K)} if method == "partial_fit" else {}
    getattr(model, method)(X[:400], y[:400], **options)
    before = model.predict_proba(X)
    for changed in ({"C": 100}, {"intercept_scaling": 0}, {"loss": "squared_hinge"}):
        model.set_params(estimator=clone(node).set_params(**changed))
        (name,) = changed
        with pytest.raises(ValueError, match=f"estimator: {name}=.* with {name}="):
            model.partial_fit(X[400:], y[400:])
        np.testing.assert_array_equal(model.predict_proba(X), before)
    other = deepcopy(model).set_params(estimator=None).partial_fit(X, y)
    model.set_params(estimator=clone(node).set_params(calibration="fold"))
    model.partial_fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))


def test_the_loss_that_the_first_batch_chose_can_be_named(data):
    X, y, _, _ = data
    model = batched(X, y, 2, "auto")
    node = LinearClassifier(model.nodes_.loss, C=model.C_[0])
    other = deepcopy(model).partial_fit(X, y)
    model.set_params(estimator=node).partial_fit(X, y)
    np.testing.assert_array_equal(model.coef_.toarray(), other.coef_.toarray())


@pytest.mark.parametrize(
    "params",
    [
        {"taxonomy": "cut"},
        {"taxonomy": (GROUPS, "cut"), "n_taxonomies": 2},
        {"estimator": GaussianNB()},
        {"estimator": logistic()},
        {"estimator": PerNodeC()},
        {"estimator": LinearClassifier("log_loss", solver="quasi_newton")},
        {"class_weight": "balanced"},
    ],
)
def test_parameters_without_batches(data, params):
    X, y, _, _ = data
    model = HierarchicalClassifier(**{"taxonomy": GROUPS} | params)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as refused:
        model.partial_fit(X, y, range(K))
    assert re.search("one given tree.*estimator=None", str(refused.value.__cause__))


def test_a_class_of_weight_0_is_not_among_the_classes(data):
    X, y, _, _ = data
    model = HierarchicalClassifier(max_depth=0, class_weight={0: 0.0}, random_state=0)
    with pytest.raises(ValueError, match="class_weight of 0 is 0.*leave it out of"):
        model.partial_fit(X, y, range(K))
    model.partial_fit(X, y, range(1, K)).partial_fit(X, y)
    assert model.classes_.tolist() == [*range(1, K)]


@pytest.mark.parametrize("taxonomy", [GROUPS, [[0, 1], [*range(2, K)]]])
@pytest.mark.parametrize("dense", [False, True])
def test_plain_nodes_go_on_after_a_fit(data, taxonomy, dense):
    """Batches begin at the weights and the probabilities of `fit`."""
    X, y, Z, T = data
    X, Z = (X.toarray(), Z.toarray()) if dense else (X, Z)
    node = LinearClassifier("log_loss", C=10.0, calibration=None, tol=1e-4)
    model = HierarchicalClassifier(taxonomy, estimator=node, random_state=0)
    model.fit(X[:500], y[:500])
    P, coef, score = model.predict_proba(Z), model.coef_, model.score(Z, T)
    same = DualNodes.of_chain(model.nodes_, node)
    found = np.empty_like(P)

    def use(part, log_proba):
        found[part] = np.exp(log_proba)

    same.rows(Z, use, 1)
    np.testing.assert_allclose(found, P, atol=1e-6)
    np.testing.assert_array_equal(same.coef.toarray(), coef)
    # what the nodes know already hardly moves them
    again = clone(model).fit(X[:500], y[:500]).partial_fit(X[:1], y[:1])
    assert np.abs(again.predict_proba(Z) - P).max() < 0.3
    model.partial_fit(X[500:], y[500:])
    assert model.score(Z, T) > score


def test_fitted_models_without_batches(data):
    X, y, _, _ = data
    for fitted in (
        HierarchicalClassifier(GROUPS).fit(X[:200].toarray(), y[:200]),
        HierarchicalClassifier(GROUPS, random_state=0).fit(X, np.eye(K, dtype=int)[y]),
        HierarchicalClassifier(GROUPS, estimator=LogisticRegression()).fit(
            X[:200], y[:200]
        ),
    ):
        assert not hasattr(fitted, "partial_fit")


def test_altered_windows_are_refused(data):
    X, y, _, _ = data
    state = batched(X, y, 2).nodes_.__getstate__()
    for field, value in {
        "X": lambda w: w.X[:, 1:],
        "weight": lambda w: w.weight[1:],
        "targets": lambda w: w.targets._replace(outcome=w.targets.outcome + K),
    }.items():
        window = state["window"]
        broken = state | {"window": window._replace(**{field: value(window)})}
        with pytest.raises(ValueError):
            type(batched(X[:100], y[:100], 1).nodes_).__new__(
                type(batched(X[:100], y[:100], 1).nodes_)
            ).__setstate__(broken)
