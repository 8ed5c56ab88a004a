"""Answers at inner nodes against sums, walks and subsets by hand."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from _cases import each_value
from _nodes import logistic
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.preprocessing import normalize

from sklstruct import HierarchicalClassifier
from sklstruct.linear import LinearClassifier
from sklstruct.metrics import hierarchical_f1_score, hierarchical_precision_score
from sklstruct.taxonomy import Taxonomy, as_paths

# a leaf of one class beside groups, a leaf of several, a group in a group
GIVEN = {
    "round": {"closed": [0, 6], "eight": [8]},
    "straight": [1, 7, 4],
    "rest": {"a": {"b": [2], "c": [3, 5]}, "d": [9]},
}
MODELS = {
    "logistic": {"taxonomy": GIVEN, "estimator": logistic()},
    "dual": {"taxonomy": GIVEN, "estimator": LinearClassifier()},
    "dual chain": {
        "taxonomy": GIVEN,
        "estimator": LinearClassifier("log_loss", calibration=None),
    },
    "estimators": {"taxonomy": GIVEN, "estimator": LogisticRegression()},
    "flat": {"max_depth": 0, "estimator": logistic()},
    "learned": {"taxonomy": "cut", "estimator": logistic()},
    "two trees": {
        "taxonomy": (GIVEN, "ward"),
        "n_taxonomies": 2,
        "estimator": logistic(),
    },
    "two sparse trees": {
        "taxonomy": (GIVEN, "ward"),
        "n_taxonomies": 2,
        "estimator": LinearClassifier(),
    },
}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    # blurred, so that there is doubt
    return X[:600] / 16, y[:600], X[600:800] / 16 * 0.5 + 0.25, y[600:800]


@pytest.fixture(scope="module", params=MODELS)
def model(request, digits):
    X, y, _, _ = digits
    params = MODELS[request.param]
    return HierarchicalClassifier(random_state=0, **params).fit(X, y)


def test_probabilities_of_nodes_are_sums_over_leaves(model, digits):
    Z = digits[2]
    P = model.predict_proba(Z)
    for t, tree in enumerate(model.taxonomies_):
        found = model.predict_node_proba(Z, tree=t)
        assert found.shape == (len(Z), tree.n_nodes)
        for v in range(tree.n_nodes):
            expected = P[:, tree.classes_below(v)].sum(axis=1)
            np.testing.assert_allclose(found[:, v], expected, rtol=0, atol=1e-12)
        inner = np.flatnonzero(~tree.is_leaf)
        for v in inner:
            np.testing.assert_allclose(
                found[:, tree.children(v)].sum(axis=1), found[:, v], atol=1e-12
            )
    # the BLAS adds in another order for another number of rows
    single = model.nodes_.dtype == np.float32
    np.testing.assert_allclose(
        model.predict_node_proba(Z[3:5], tree=t),
        found[3:5],
        atol=1e-6 if single else 1e-12,
    )
    model.set_params(n_jobs=2)
    np.testing.assert_array_equal(model.predict_node_proba(Z, tree=t), found)
    model.set_params(n_jobs=None)


@pytest.mark.parametrize(
    *each_value(model=MODELS, confidence=[0.7, 0.0, 0.3, 0.5, 0.95, 1.0]),
    indirect=["model"],
)
def test_deepest_sure_node_is_the_end_of_a_walk(model, digits, confidence):
    Z = digits[2]
    P = model.predict_proba(Z)
    for t, tree in enumerate(model.taxonomies_):
        found = model.predict_at(Z, threshold=confidence, tree=t)
        of_node = tree.node_paths()
        depths = set()
        for p, path in zip(P, found):
            v, end = 0, of_node[0]
            while True:
                places = [
                    (p[tree.classes_below(c)].sum(), of_node[c], c)
                    for c in tree.children(v).tolist()
                ]
                if not places:
                    below = tree.classes_below(v)
                    labels = tree.label_paths(tree.classes[below])
                    places = list(zip(p[below], labels, [None] * below.size))
                    if below.size == 1:
                        break
                top = max(range(len(places)), key=lambda i: places[i][0])
                if places[top][0] < confidence:
                    break
                end, v = places[top][1:]
                if v is None:
                    break
            assert path.tolist() == end.tolist()
            depths.add(int((path != "").sum()))
        if confidence == 0.7:
            assert len(depths) > 1


def test_above_one_half_it_is_the_smallest_node(model, digits):
    Z = digits[2][:60]
    P, tree = model.predict_proba(Z), model.taxonomy_
    classes = tree.label_paths(tree.classes)
    for confidence in (0.51, 0.8, 0.99):
        for p, path in zip(P, model.predict_at(Z, confidence)):
            depth = int((path != "").sum())
            inside = (classes[:, :depth] == path[:depth]).all(axis=1)
            assert p[inside].sum() >= confidence - 1e-12
            # every node of that probability is above the answer
            for other in np.vstack([tree.node_paths(), classes]):
                d = int((other != "").sum())
                if p[(classes[:, :d] == other[:d]).all(axis=1)].sum() >= confidence:
                    assert d <= depth
                    assert (path[:d] == other[:d]).all()


@pytest.mark.parametrize(
    *each_value(model=MODELS, alpha=[0.02, 0.1, 0.9, 0.4]), indirect=["model"]
)
def test_sets_are_the_smallest(model, digits, alpha):
    Z = digits[2][:40]
    P = model.predict_proba(Z)
    sets = model.predict_set(Z, alpha)
    assert sets.shape == P.shape
    for p, row in zip(P, sets.toarray().astype(bool)):
        assert p[row].sum() >= 1 - alpha - 1e-12
        fewer = combinations(range(10), int(row.sum()) - 1)
        assert all(p[list(s)].sum() < 1 - alpha for s in fewer)
    np.testing.assert_array_equal(sets[:, model.predict(Z)].diagonal(), np.ones(len(Z)))


def test_paths_are_those_of_the_metrics(model, digits):
    Z, y = digits[2], digits[3]
    tree, found = model.taxonomy_, model.predict(Z)
    true, answer = tree.label_paths(y), tree.label_paths(found)
    assert np.array_equal(as_paths(true), true)
    assert hierarchical_f1_score(true, answer) == pytest.approx(
        hierarchical_f1_score(y, found, taxonomy=tree)
    )
    if tree.depth > 1:  # stopping early trades recall for precision
        sure = hierarchical_precision_score(true, model.predict_at(Z, 0.9))
        assert sure > hierarchical_precision_score(true, answer)


def test_a_group_by_name_and_its_confusions(digits):
    X, y, Z, T = digits
    model = HierarchicalClassifier(GIVEN, estimator=logistic(C=0.01)).fit(X, y)
    tree = model.taxonomy_
    P = model.predict_node_proba(Z)[:, tree.find("rest")]
    np.testing.assert_allclose(P, model.predict_proba(Z)[:, [2, 3, 5, 9]].sum(axis=1))
    top = tree.label_paths(T)[:, 0], tree.label_paths(model.predict(Z))[:, 0]
    found = confusion_matrix(*top, labels=["round", "straight", "rest"])
    group = np.array([0, 1, 2, 2, 1, 2, 0, 1, 0, 2])
    expected = confusion_matrix(group[T], group[model.predict(Z)])
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="no node has the name 'other'"):
        tree.find("other")
    with pytest.raises(ValueError, match="nodes 1, 2 have the name 'x'"):
        Taxonomy([-1, 0, 0], [1, 2], names=[None, "x", "x"]).find("x")


# --------------------------------------------------------------- several labels


@pytest.mark.parametrize("n_taxonomies", [1, 2])
def test_nodes_of_several_labels(n_taxonomies):
    X, Y = make_multilabel_classification(
        300, 40, n_classes=9, n_labels=2, random_state=0
    )
    X = sp.csr_matrix(normalize(X))
    # all children of "f" are nodes of one class
    nest = {
        "a": {"b": [0, 1, 2], "c": [3, 4]},
        "d": {"f": {"g": [5], "h": [6]}, "i": [7]},
        "e": [8],
    }
    model = HierarchicalClassifier(
        (nest, "cut")[:n_taxonomies], n_taxonomies=n_taxonomies, random_state=0
    ).fit(X, Y)
    marginals = np.zeros(Y.shape)
    for t, tree in enumerate(model.taxonomies_):
        P = model.predict_node_proba(X, tree=t)
        assert P.shape == (300, tree.n_nodes)
        np.testing.assert_array_equal(P[:, 0], 1)
        assert (P[:, 1:] < P[:, tree.parent[1:]]).all()
        alone = tree.leaf_of_class
        single = np.bincount(alone, minlength=tree.n_nodes)[alone] == 1
        marginals[:, single] += P[:, alone[single]]
        if n_taxonomies == 1:
            np.testing.assert_allclose(
                P[:, alone[single]], model.predict_proba(X)[:, single], rtol=1e-9
            )
            # a node is at least as probable as each label below it
            for v in range(1, tree.n_nodes):
                below = model.predict_proba(X)[:, tree.classes_below(v)]
                assert (P[:, v] >= below.max(axis=1) * (1 - 1e-12)).all()
    for method in (model.predict_at, model.predict_set):
        with pytest.raises(ValueError, match="one label per sample"):
            method(X)
    model.nodes_.threshold = 1.0  # no label of any sample
    n_nodes = sum(tree.n_nodes for tree in model.taxonomies_)
    assert model.decision_path(X).shape == (300, n_nodes)
    assert model.decision_path(X).nnz == 0


# ------------------------------------------------------------- features of nodes


@pytest.mark.parametrize("node", [logistic(), LinearClassifier("log_loss")])
def test_heaviest_features_are_rows_of_the_scores(digits, node):
    X, y, _, _ = digits
    model = HierarchicalClassifier(GIVEN, estimator=node, random_state=0).fit(X, y)
    tree = model.taxonomy_
    of_root = model.heaviest_features(k=64)
    assert list(of_root) == ["round", "straight", "rest"]
    rows = model.coef_[:3]
    rows = rows.toarray() if sp.issparse(rows) else rows
    for row, found in zip(rows, of_root.values()):
        expected = [(j, row[j]) for j in np.argsort(-row, kind="stable") if row[j] > 0]
        assert found == [(int(j), float(w)) for j, w in expected]
    # a node of two children has one row, for the second
    closed = model.heaviest_features(tree.find("closed"), 64)
    assert list(closed) == ["0", "6"]
    weights = dict(closed["6"]) | {j: -w for j, w in closed["0"]}
    assert len(weights) == len(closed["0"]) + len(closed["6"])
    apart = LogisticRegression().fit(X[y % 6 == 0], y[y % 6 == 0])
    row = np.array([weights.get(j, 0.0) for j in range(64)])
    assert np.corrcoef(row, apart.coef_[0])[0, 1] > 0.9
    names = [f"pixel {j}" for j in range(64)]
    named = model.heaviest_features(k=2, feature_names=names)
    assert named["round"] == [(names[j], w) for j, w in of_root["round"][:2]]


def test_heaviest_features_read_one_node(digits, monkeypatch):
    """The weights of all nodes together may be larger than the memory."""
    X, y, _, _ = digits
    node = LinearClassifier("log_loss", weight_threshold=0.02)
    model = HierarchicalClassifier(GIVEN, estimator=node, random_state=0)
    model.fit(sp.csr_matrix(X), y)
    expected = model.heaviest_features(k=3)
    read, real = [], type(model.nodes_.weights)._entries

    def entries(self, v):
        read.append(v)
        return real(self, v)

    monkeypatch.setattr(type(model.nodes_.weights), "_entries", entries)
    assert model.heaviest_features(k=3) == expected
    assert len(read) == 1 < model.nodes_.weights.n_nodes


def test_heaviest_features_of_several_labels_and_a_second_tree(digits):
    X, y, _, _ = digits
    Y = np.eye(10, dtype=int)[y]
    two = HierarchicalClassifier(
        (GIVEN, "ward"), n_taxonomies=2, max_leaf=4, random_state=0
    ).fit(sp.csr_matrix(X), Y)
    row = 0
    for t, tree in enumerate(two.taxonomies_):
        forest, start = two.forest_, two.forest_.tree_ptr[t]
        for v in range(tree.n_nodes):
            m = int(forest.n_child[start + v])
            if m < 2:
                with pytest.raises(ValueError, match="no model"):
                    two.heaviest_features(v, tree=t)
                continue
            for found in two.heaviest_features(v, 1, tree=t).values():
                top = two.coef_[[row]].toarray()[0]
                assert found == [(int(top.argmax()), float(top.max()))]
                row += 1
    assert row == two.coef_.shape[0]


# ---------------------------------------------------------------------- errors


def test_bad_questions(digits):
    X, y, Z, _ = digits
    model = HierarchicalClassifier(GIVEN, estimator=logistic(C=0.01)).fit(X, y)
    for bad in (-0.1, 1.1, "much", None, True):
        with pytest.raises(ValueError, match="^threshold must be a number"):
            model.predict_at(Z, bad)
    for bad in (0, 1, -1, "x"):
        with pytest.raises(ValueError, match="alpha"):
            model.predict_set(Z, bad)
    for bad in (1, -1, 0.5):
        for ask in (model.predict_node_proba, model.predict_at):
            with pytest.raises(ValueError, match="tree must be"):
                ask(Z, tree=bad)
    with pytest.raises(ValueError, match="node must be an integer"):
        model.heaviest_features(99)
    with pytest.raises(ValueError, match="k must be"):
        model.heaviest_features(k=0)
    with pytest.raises(ValueError, match="64 names"):
        model.heaviest_features(feature_names=["a"])
    other = HierarchicalClassifier(GIVEN, estimator=LogisticRegression(C=0.01))
    with pytest.raises(ValueError, match="Regressions: heaviest_features needs"):
        other.fit(X, y).heaviest_features()
    one = HierarchicalClassifier().fit(X, np.zeros(len(X)))
    assert one.predict_at(Z[:2]).tolist() == [["0.0"], ["0.0"]]
    assert one.predict_set(Z[:2]).toarray().tolist() == [[1], [1]]
    np.testing.assert_array_equal(one.predict_node_proba(Z[:2]), [[1], [1]])
    sparse = HierarchicalClassifier().fit(sp.csr_matrix(X), np.zeros(len(X)))
    assert sparse.coef_.shape == (0, X.shape[1])


def test_no_call_makes_all_rows_of_many_classes(digits, monkeypatch):
    """predict_at and predict_set read blocks of rows."""
    X, y, Z, _ = digits
    model = HierarchicalClassifier(GIVEN, estimator=logistic(C=0.01)).fit(X, y)
    expected = model.predict_at(Z), model.predict_set(Z).toarray()
    rows, seen = type(model.nodes_).rows, []

    def in_small_blocks(self, X, use, n_jobs):
        for a in range(0, len(X), 7):
            part = slice(a, min(a + 7, len(X)))
            seen.append(part)
            rows(self, X[part], lambda _, block, part=part: use(part, block), n_jobs)

    monkeypatch.setattr(type(model.nodes_), "rows", in_small_blocks)
    np.testing.assert_array_equal(model.predict_at(Z), expected[0])
    np.testing.assert_array_equal(model.predict_set(Z).toarray(), expected[1])
    assert len(seen) == 2 * -(-len(Z) // 7)


def test_missing_attributes_name_the_estimator():
    X, y = load_digits(return_X_y=True)
    model = HierarchicalClassifier(GIVEN, estimator=LogisticRegression())
    with pytest.raises(AttributeError, match="nodes_"):
        model.coef_  # noqa: B018
    model.fit(X[:200] / 16, y[:200])
    with pytest.raises(AttributeError, match="^nodes of estimator=LogisticRegression"):
        model.coef_  # noqa: B018
