"""Labels that are paths; samples of which only a group of classes is known."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from _nodes import logistic
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from sklstruct import HierarchicalClassifier
from sklstruct.hierarchical import GammaPrior, PerNodeC, _searches
from sklstruct.hierarchical._dual_nodes import DualNodes
from sklstruct.metrics import hierarchical_f1_score
from sklstruct.taxonomy import CutSplit, Taxonomy, as_paths

PATHS = [
    ["animal", "dog"],
    ["animal", "cat"],
    ["animal"],
    ["vehicle", "rail", "tram"],
    ["vehicle", "road", "bus"],
    ["vehicle", "road", "car"],
    ["stone"],
]


def data(n=210, seed=0, noise=0.4):
    """Clouds at places that go with the paths, and the paths."""
    rng = np.random.default_rng(seed)
    place = rng.normal(size=(len(PATHS), 5)) * 2
    at = np.arange(n) % len(PATHS)
    X = place[at] + noise * rng.normal(size=(n, 5))
    return X, [PATHS[i] for i in at]


# ------------------------------------------------------------------------ paths


@pytest.mark.parametrize("kind", ["string", "category", "convert", "list"])
def test_paths_with_pandas_missing_values(kind):
    frame = pd.DataFrame(as_paths(PATHS)).replace("", None)
    names = pd.DataFrame(as_paths(PATHS)).replace("", "-")
    codes = names.apply(lambda column: pd.factorize(column)[0] + 10)
    for levels in (frame, codes.where(names != "-").astype("Int64")):
        given = {
            "string": lambda f: f.astype("string") if f is frame else f,
            "category": lambda f: f.astype("category"),
            "convert": lambda f: f.convert_dtypes(),
            "list": lambda f: f.astype(object).where(f.notna(), pd.NA).values.tolist(),
        }[kind](levels)
        ragged = [[v for v in row if not pd.isna(v)] for row in levels.values.tolist()]
        assert_array_equal(as_paths(given), as_paths(ragged))
        assert hierarchical_f1_score(given, ragged) == 1


def test_forms_of_paths_agree():
    expected = as_paths(PATHS)
    assert expected.shape == (7, 3) and expected.dtype.kind == "U"
    table = expected.astype(object)
    for missing in ("", None, np.nan, np.float32("nan"), pd.NA, pd.NaT):
        other = table.copy()
        other[table == ""] = missing
        assert_array_equal(as_paths(other), expected)
        assert_array_equal(as_paths(other.tolist()), expected)
        assert_array_equal(as_paths(pd.DataFrame(other)), expected)
    assert_array_equal(as_paths([tuple(p) for p in PATHS]), expected)
    assert_array_equal(as_paths(["a", "b"]), [["a"], ["b"]])
    numbers = as_paths([[1, 20], [1], [3, 4]])
    assert numbers.tolist() == [[1, 20], [1, ""], [3, 4]]


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (None, "^y is None"),
        ([], "^y holds no paths"),
        ([["a", "", "b"]], r"^y\[0\] = .* leaves out level 1"),
        ([["a"], [None, "b"]], r"^y\[1\] = .* leaves out level 0"),
        ([["a"], "b"], "^y mixes paths and labels, such as 'b'"),
        ([[["a"], ["b"]]], "^y has more than two dimensions.*multi-label"),
        (np.zeros((2, 2, 2)), "^y has more than two dimensions"),
        ([["a", 1], ["a", "x"]], "^y, level 1: labels must be all strings"),
        ([["a", {}]], "^y, level 1"),
        (5, "^y must be an array or a list of paths"),
        ("animal", "^y must be an array or a list of paths"),
    ],
)
def test_bad_paths(paths, message):
    with pytest.raises(ValueError, match=message):
        as_paths(paths)


def names_of(paths):
    """One label for each path, and the tree of these labels."""
    names = ["/".join(path) for path in paths]
    return names, dict(zip(names, paths))


@pytest.mark.parametrize("estimator", [None, LogisticRegression(), logistic(C=10)])
def test_labels_that_are_paths(estimator):
    X, y = data()
    names, tree = names_of(y)
    model = HierarchicalClassifier(tree, estimator=estimator).fit(X[:140], names[:140])
    assert model.taxonomy_ == Taxonomy.from_nested(
        [
            [["animal/dog"], ["animal/cat"], ["animal"]],
            ["stone"],
            [["vehicle/rail/tram"], [["vehicle/road/bus"], ["vehicle/road/car"]]],
        ]
    )
    assert model.score(X[140:], names[140:]) > 0.9
    found = [label.split("/") for label in model.predict(X[140:])]
    assert hierarchical_f1_score(y[140:], found) > 0.9
    # a group has the probability of the paths that begin with the group
    P, animal = model.predict_proba(X), model.taxonomy_.find("animal")
    mine = np.array([name.startswith("animal") for name in model.classes_])
    assert_allclose(
        model.predict_node_proba(X)[:, animal], P[:, mine].sum(axis=1), atol=1e-12
    )


def test_predictions_agree_with_hiclass_on_a_clear_case():
    hiclass = pytest.importorskip("hiclass")
    X, y = data(noise=0.1)
    keep = [i for i, path in enumerate(y) if len(path) > 1]  # it stops nowhere else
    X, y = X[keep], [y[i] for i in keep]
    peer = hiclass.LocalClassifierPerParentNode(LogisticRegression())
    peer.fit(X, as_paths(y))
    names, tree = names_of(y)
    model = HierarchicalClassifier(tree).fit(X, names)
    found = as_paths([label.split("/") for label in model.predict(X)])
    assert_array_equal(found, peer.predict(X))


# ---------------------------------------------------------------- partial labels


GROUPS = {"hook": [2, 3, 9], "lone": [5], "low": [1, 4, 7], "round": [0, 6, 8]}


def partial_digits():
    """(X, digits, groups, known levels); a group has one class.

    A third of the digits is known by group only, and has the first one of the group.
    """
    X, y = load_digits(return_X_y=True)
    X, y = X[:900] / 16, y[:900]
    names = {digit: name for name, digits in GROUPS.items() for digit in digits}
    group = np.array([names[digit] for digit in y])
    known = np.random.default_rng(0).random(y.size) > 0.3
    y = np.where(known, y, [GROUPS[name][0] for name in group])
    return X, y, group, np.where(known, 2, 1)


@pytest.mark.parametrize("sparse", [False, True])
def test_partial_labels_train_the_nodes_above_only(sparse):
    X, y, group, level = partial_digits()
    X = sp.csr_matrix(X) if sparse else X
    model = HierarchicalClassifier(GROUPS, estimator=logistic(tol=1e-9))
    inside = model.fit(X, y, known_levels=level).predict_proba(X)
    # the groups by all samples, the digits of a group by those that are known
    names = sorted(GROUPS)
    flat = HierarchicalClassifier([names], estimator=logistic(tol=1e-9))
    groups = flat.fit(X, group).predict_proba(X)
    expected = np.ones_like(inside)
    for g, name in enumerate(names):
        mine = GROUPS[name]
        expected[:, mine] = groups[:, [g]]
        if len(mine) > 1:
            rows = np.flatnonzero((group == name) & (level == 2))
            own = HierarchicalClassifier([mine], estimator=logistic(tol=1e-9))
            expected[:, mine] *= own.fit(X[rows], y[rows]).predict_proba(X)
    assert_allclose(inside, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    "estimator", [logistic(), PerNodeC(), GammaPrior(2, [1.0, 100.0])]
)
def test_partial_labels_and_folds(estimator, monkeypatch):
    """No fold holds out the only known sample of a class."""
    X, y, _, level = partial_digits()
    codes, real = [], _searches.folds
    monkeypatch.setattr(
        _searches, "folds", lambda code, rng: codes.append(code) or real(code, rng)
    )
    # Others of its group have this label, too, and are known by group only.
    few = np.flatnonzero((y == 2) & (level == 2))[1:]
    keep = np.delete(np.arange(y.size), few)
    model = HierarchicalClassifier(GROUPS, estimator=estimator, random_state=0)
    model.fit(X[keep], y[keep], known_levels=level[keep])
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert all((code == 2).sum() == 1 for code in codes)


def test_partial_labels_are_not_in_the_fold(monkeypatch):
    """Sparse nodes calibrate on samples whose class is known."""
    held = []
    real = DualNodes.join

    def join(self, forest):
        held.append(self._fold[0])
        real(self, forest)

    monkeypatch.setattr(DualNodes, "join", join)
    X, y, group, level = partial_digits()
    X, known = normalize(sp.csr_matrix(X)), (level == 2) | (group == "lone")
    model = HierarchicalClassifier(GROUPS, random_state=0)
    model.fit(X, y, known_levels=level)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert len(held) == 1 and held[0].size > 50 and known[held[0]].all()
    right = model.score(X[known], y[known])
    whole = HierarchicalClassifier(GROUPS, random_state=0).fit(X[known], y[known])
    assert right > whole.score(X[known], y[known]) - 0.03


@pytest.mark.parametrize("max_depth", [None, 0, 1, 2])
def test_known_levels_are_those_of_the_tree(max_depth):
    """Levels of an uneven tree: each node sees the samples that are known below it."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:700] / 16, y[:700]
    nested = [[0], [[1, 8], [2, [3, 9]]], [[4], [5, 6, 7]]]
    tree = Taxonomy.from_nested(nested)
    levels = np.random.default_rng(1).integers(0, 5, y.size)
    # With a larger C the rounding of float32 is near the bounds below.
    estimator = logistic(C=0.1, tol=1e-8)
    model = HierarchicalClassifier(tree, max_depth=max_depth, estimator=estimator)
    model.fit(X, y, known_levels=levels)
    cut = model.taxonomy_
    for v in range(cut.n_nodes):
        classes = cut.classes[np.flatnonzero(below(cut, v))]
        outcomes = [cut.classes[below(cut, c)] for c in cut.children(v)]
        if not outcomes and classes.size > 1:
            outcomes = [[c] for c in classes]
        if len(outcomes) < 2:
            continue
        # a sample decides between the outcomes if all it may be is in one of them
        of = np.full(y.size, -1)
        for i in range(y.size):
            may = candidates(nested, y[i], levels[i])
            for k, outcome in enumerate(outcomes):
                if set(may) <= set(np.asarray(outcome).tolist()):
                    of[i] = k
        rows = np.flatnonzero(of >= 0)
        flat = [list(range(len(outcomes)))]
        own = HierarchicalClassifier(flat, estimator=estimator).fit(X[rows], of[rows])
        a = model.forest_.row[v]
        mine = slice(a, a + model.forest_.rows_of_node[v])
        assert_allclose(model.coef_[mine], own.coef_, rtol=1e-4, atol=1e-5)
        assert_allclose(model.intercept_[mine], own.intercept_, rtol=1e-4, atol=1e-5)


def below(tree, v):
    """Whether each class is below a node."""
    node, found = tree.leaf_of_class.copy(), np.zeros(tree.n_classes, dtype=bool)
    for _ in range(tree.depth + 1):
        found |= node == v
        node = np.where(node > 0, tree.parent[node], node)
    return found if v else np.ones(tree.n_classes, dtype=bool)


def leaves_of(nest):
    if not isinstance(nest, list):
        return [nest]
    return [label for item in nest for label in leaves_of(item)]


def candidates(nest, label, level):
    """The classes among which a label is known down to a level to be."""
    if level == 0:
        return leaves_of(nest)
    for item in nest:
        if isinstance(item, list) and label in leaves_of(item):
            return candidates(item, label, level - 1)
    return [label]


def test_all_known_is_as_without_levels():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16, y[:300]
    tree = [[0, 1, 2], [[3, 4], [5, 6]], [7, 8, 9]]
    first = HierarchicalClassifier(tree).fit(X, y)
    second = HierarchicalClassifier(tree).fit(X, y, known_levels=np.full(300, 9))
    assert_array_equal(first.coef_, second.coef_)


def test_known_levels_that_do_not_fit():
    X, y = load_digits(return_X_y=True)
    X, y = X[:200] / 16, y[:200]
    tree, levels = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]], np.full(200, 2)
    model = HierarchicalClassifier(tree)
    for wrong in (levels - 3, levels + 0.5, levels[:-1]):
        with pytest.raises(ValueError, match="known_levels"):
            model.fit(X, y, known_levels=wrong)
    for other in (HierarchicalClassifier(), HierarchicalClassifier(CutSplit())):
        with pytest.raises(ValueError, match="one given tree"):
            other.fit(X, y, known_levels=levels)
    with pytest.raises(ValueError, match="class 7 has no sample whose class"):
        model.fit(X, y, known_levels=np.where(y == 7, 1, 2))
