"""Several labels per sample, of which some are inner nodes of the given tree."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from _cases import each_value
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from sklstruct import HierarchicalClassifier
from sklstruct.hierarchical import _label_fold
from sklstruct.hierarchical._inner_labels import InnerLabels
from sklstruct.linear import LinearClassifier
from sklstruct.linear._calibration import f1_threshold
from sklstruct.taxonomy import Taxonomy

# 0 above 1 and 5, 1 above 3 and 4; "x" is not a label; 2 and 8 stand alone
PARENTS = {1: 0, 5: 0, 3: 1, 4: 1, 6: "x", 7: "x", 2: None, 8: None}
ABOVE = {1: [0], 5: [0], 3: [1, 0], 4: [1, 0]}


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(
        400, 40, n_classes=9, n_labels=2, random_state=0, allow_unlabeled=True
    )
    return sp.csr_matrix(normalize(X)), Y


def closed(Y):
    out = Y.copy()
    for label, above in ABOVE.items():
        for other in above:
            out[:, other] |= Y[:, label]
    return out


def test_labels_above_positive_ones_are_positive(data):
    X, Y = data
    full = closed(Y)
    assert (full != Y).any()
    inner = InnerLabels.of(PARENTS, 9)
    np.testing.assert_array_equal(inner.close(sp.csr_matrix(Y)).toarray(), full)
    np.testing.assert_array_equal(inner.sizes(np.arange(9)), [5, 3] + [0] * 7)
    np.testing.assert_array_equal(
        inner.sizes(np.array([0, 1, 2, 4, 5])), [4, 2, 0, 0, 0]
    )
    a = HierarchicalClassifier(PARENTS, random_state=0).fit(X, Y)
    b = HierarchicalClassifier(PARENTS, random_state=0).fit(X, full)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    alone = HierarchicalClassifier((PARENTS,), random_state=0).fit(X, Y)
    np.testing.assert_array_equal(a.predict_proba(X), alone.predict_proba(X))


@pytest.mark.parametrize("missing", [np.nan, pd.NA, "", pd.NaT], ids=repr)
def test_missing_parents_of_labels(data, missing):
    X, Y = data
    parents = {k: missing if v is None else v for k, v in PARENTS.items()}
    model = HierarchicalClassifier(parents, random_state=0).fit(X, Y)
    right = HierarchicalClassifier(PARENTS, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(X), right.predict_proba(X))
    numbers = {k: v for k, v in PARENTS.items() if v != "x"}
    column = pd.Series(numbers, dtype=float).to_dict()  # 0.0 and NaN for 0 and None
    inner, right = InnerLabels.of(column, 9), InnerLabels.of(numbers, 9)
    assert inner.parents == right.parents
    np.testing.assert_array_equal(inner.above.toarray(), right.above.toarray())


def test_a_label_above_all_others():
    """The label is uncertain even so: samples may have no label."""
    kind = np.arange(210) % 7
    X, Y = np.eye(7)[kind], np.eye(7, dtype=int)[kind, :5]
    model = HierarchicalClassifier(dict.fromkeys(range(1, 5), 0), random_state=0)
    P = model.fit(X, Y).predict_proba(np.eye(7))
    np.testing.assert_array_equal(P[:, 0] > 0.5, np.arange(7) < 5)


@pytest.mark.parametrize("loss", ["squared_hinge", "ovr_log_loss"])
def test_an_inner_label_has_the_probability_of_its_node(data, loss):
    X, Y = data
    model = HierarchicalClassifier(
        PARENTS, estimator=LinearClassifier(loss), random_state=0, threshold=0.3
    ).fit(X, Y)
    P, tree = model.predict_proba(X), model.taxonomy_
    N = model.predict_node_proba(X)
    for label in (0, 1):
        np.testing.assert_allclose(
            P[:, label], N[:, tree.find(f"label {label}")], rtol=1e-12
        )
    for label, above in ABOVE.items():
        assert (P[:, label] <= P[:, above[0]]).all()
    found = model.predict(X)
    np.testing.assert_array_equal(found, closed(found))
    np.testing.assert_array_equal(found, P > 0.3)
    top = model.predict_top_k(X, 4)
    np.testing.assert_allclose(top.data, P[top.nonzero()], rtol=1e-9)
    best = np.sort(P, axis=1)[:, -4:].sum(axis=1)
    np.testing.assert_allclose(np.asarray(top.sum(axis=1)).ravel(), best, rtol=1e-9)
    # the marginals are calibrated, those of inner labels too
    assert np.abs(P.mean(axis=0) - closed(Y).mean(axis=0)).max() < 0.12


def test_products_of_regressions(data):
    X, Y = data
    node = LinearClassifier(
        "ovr_log_loss", C=10, calibration=None, tol=1e-6, max_iter=5000
    )
    model = HierarchicalClassifier(PARENTS, estimator=node, random_state=0).fit(X, Y)
    full, P = closed(Y), model.predict_proba(X)

    def answer(rows, yes):
        peer = LogisticRegression(C=10, solver="liblinear", tol=1e-8, max_iter=5000)
        return peer.fit(X[rows], yes[rows]).predict_proba(X)[:, 1]

    every = np.arange(len(Y))
    zero, one = np.flatnonzero(full[:, 0]), np.flatnonzero(full[:, 1])
    p0 = answer(every, full[:, 0])
    p1 = p0 * answer(zero, full[:, 1])
    expected = {0: p0, 1: p1, 5: p0 * answer(zero, full[:, 5])}
    for label in (3, 4):
        expected[label] = p1 * answer(one, full[:, label])
    for label, p in expected.items():
        np.testing.assert_allclose(P[:, label], p, atol=1e-4)


ROOT = {1: 0, 5: 0, 3: 1, 4: 1, 2: 0, 8: 0, 6: 0, 7: 2}
ABOVE_OF_ROOT = {**{label: [0] for label in (1, 2, 5, 6, 8)}, 3: [1, 0], 4: [1, 0]}


@pytest.mark.parametrize(
    *each_value(
        tree=[
            (PARENTS, {"max_depth": 0}),
            (PARENTS, {"max_leaf": 100}),
            (PARENTS, {"max_depth": 1}),
            (ROOT, {}),
            (ROOT, {"max_depth": 1}),
        ],
        threshold=[0.3, "f1"],
    )
)
def test_trees_that_do_not_keep_the_node(data, tree, threshold):
    """Merged with others or at the root, a label has the largest P of those below."""
    (X, Y), (parents, params) = data, tree
    model = HierarchicalClassifier(
        parents, random_state=0, threshold=threshold, **params
    ).fit(X, Y)
    P = model.predict_proba(X)
    assert 0 < P.min() and P.max() < 1
    above = {7: [2, 0], **ABOVE_OF_ROOT} if parents is ROOT else ABOVE
    full = Y.copy()
    for label, parts in above.items():
        for other in parts:
            assert (P[:, label] <= P[:, other]).all()
            full[:, other] |= Y[:, label]
    np.testing.assert_allclose(P.mean(axis=0), full.mean(axis=0), atol=0.12)
    # all answers are those of the same probabilities
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), P, rtol=1e-12)
    found = model.predict(X)
    np.testing.assert_array_equal(found, P > model.threshold_)
    for k in (1, 4, 9):
        top = model.predict_top_k(X, k)
        order = np.argsort(-P, axis=1, kind="stable")[:, :k]
        best = np.take_along_axis(P, order, axis=1)
        np.testing.assert_allclose(np.sort(top.data.reshape(-1, k))[:, ::-1], best)
        np.testing.assert_array_equal(top.indices.reshape(-1, k), np.sort(order))
    for label in range(9):
        found = model.target_log_proba(X, np.full(len(Y), label))
        np.testing.assert_allclose(np.exp(found), P[:, label], rtol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), P)


def test_the_threshold_is_chosen_by_raised_probabilities(data, monkeypatch):
    X, Y = data
    seen = []

    def spy(proba, *others):
        seen.append(proba)
        return f1_threshold(proba, *others)

    monkeypatch.setattr(_label_fold, "f1_threshold", spy)
    HierarchicalClassifier(PARENTS, random_state=0, threshold="f1", max_depth=0).fit(
        X, Y
    )
    P = seen[0].reshape(-1, 9)  # all are above the least threshold
    assert len(P) > 30
    for label, above in ABOVE.items():
        assert (P[:, [label]] <= P[:, above]).all()


def test_raised_labels_by_hand():
    raised = InnerLabels.of(PARENTS, 9).raised(np.array([0, 1, 2, 4, 5]))
    P = np.array([[0.1, 0.2, 0.9, 0.3, 0.05], [0.5, 0.1, 0.2, 0.05, 0.8]])
    raised.raise_rows(P)
    expected = [[0.3, 0.3, 0.9, 0.3, 0.05], [0.8, 0.1, 0.2, 0.05, 0.8]]
    np.testing.assert_array_equal(P, expected)
    sample, label = raised.close(np.array([0, 0, 2]), np.array([2, 3, 4]))
    assert list(zip(sample.tolist(), label.tolist())) == [
        (0, 0), (0, 1), (0, 2), (0, 3), (2, 0), (2, 4)
    ]  # fmt: skip
    none = raised.close(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    assert [part.size for part in none] == [0, 0]


def test_bad_maps(data):
    X, Y = data
    with pytest.raises(ValueError, match="cycle"):
        HierarchicalClassifier({0: 1, 1: 0, 2: None}).fit(X, Y)
    with pytest.raises(ValueError, match="no place for"):
        HierarchicalClassifier({1: 0, 2: 0}).fit(X, Y)
    with pytest.raises(ValueError, match="rename the node"):
        InnerLabels.of({1: 0, 2: "label 0"}, 9)
    for other in ("cut", [[0, 1], [2]], {"a": [0, 1]}, {0: ("a",)}, {0: "a"}):
        assert InnerLabels.of(other, 9) is None
    for other in ((PARENTS, PARENTS), Taxonomy.from_parents(PARENTS)):
        with pytest.raises(ValueError, match="inner nodes of one map to parents"):
            HierarchicalClassifier(other).fit(X, Y)
    # with one label per sample a class is a leaf
    with pytest.raises(ValueError, match="missing labels|inner node"):
        HierarchicalClassifier(PARENTS).fit(X, np.arange(len(Y)) % 9)


def test_labels_and_features_at_their_limits(data):
    """No label at all, a single sample with labels, a million features."""
    X, Y = data
    with pytest.raises(ValueError, match="no positive entry"):
        HierarchicalClassifier(PARENTS).fit(X, np.zeros_like(Y))
    with pytest.raises(ValueError):
        HierarchicalClassifier().fit(X, np.zeros((len(Y), 0), dtype=int))
    wide = sp.csr_matrix((X.data, X.indices * 25_000, X.indptr), shape=(400, 10**6))
    a = HierarchicalClassifier(PARENTS, random_state=0).fit(X, Y)
    b = HierarchicalClassifier(PARENTS, random_state=0).fit(wide, Y)
    np.testing.assert_allclose(b.predict_proba(wide), a.predict_proba(X), atol=1e-6)
    for value in (2, -1, np.nan):
        bad = Y.astype(float)
        bad[0, 0] = value
        with pytest.raises(ValueError):
            HierarchicalClassifier(PARENTS).fit(X, bad)
