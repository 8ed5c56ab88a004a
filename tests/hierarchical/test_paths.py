"""PathClassifier and the paths it takes; SenseClassifier."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from _nodes import logistic
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from sklstruct import HierarchicalClassifier
from sklstruct.hierarchical import (
    GammaPrior,
    PathClassifier,
    PerNodeC,
    SenseClassifier,
)
from sklstruct.hierarchical._dual_nodes import DualNodes
from sklstruct.metrics import hierarchical_f1_score
from sklstruct.taxonomy import CutSplit, LabelTree, Taxonomy, as_paths

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
    X, y = data()
    frame = pd.DataFrame(as_paths(y)).replace("", None)
    names = pd.DataFrame(as_paths(y)).replace("", "-")
    codes = names.apply(lambda column: pd.factorize(column)[0] + 10)
    for levels in (frame, codes.where(names != "-").astype("Int64")):
        given = {
            "string": lambda f: f.astype("string") if f is frame else f,
            "category": lambda f: f.astype("category"),
            "convert": lambda f: f.convert_dtypes(),
            "list": lambda f: f.astype(object).where(f.notna(), pd.NA).values.tolist(),
        }[kind](levels)
        ragged = [[v for v in row if not pd.isna(v)] for row in levels.values.tolist()]
        model = PathClassifier().fit(X, given)
        expected = PathClassifier().fit(X, ragged)
        assert_array_equal(model.classes_, expected.classes_)
        assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
        assert model.score(X, given) == expected.score(X, ragged) > 0.9
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


def test_tree_of_paths():
    paths = as_paths(PATHS)
    tree, code = LabelTree.of(paths)
    assert_array_equal(tree.paths()[tree.class_node][code], paths)
    # the nodes are the distinct prefixes
    prefixes = {tuple(p[:k]) for p in PATHS for k in range(len(p) + 1)}
    found = [tuple(v for v in p if v) for p in tree.paths().tolist()]
    assert len(found) == len(prefixes) and set(found) == prefixes
    assert (np.diff(tree.parent) >= 0).all()
    taxonomy = tree.taxonomy()
    number = {tuple(PATHS[i]): int(c) for i, c in enumerate(code)}

    def k(*path):
        return number[path]

    assert taxonomy == Taxonomy.from_nested(
        [
            [[k("animal", "cat")], [k("animal", "dog")], [k("animal")]],
            [k("stone")],
            [
                [k("vehicle", "rail", "tram")],
                [[k("vehicle", "road", "bus")], [k("vehicle", "road", "car")]],
            ],
        ]
    )
    order, ancestor = tree.ancestors()
    for c, path in enumerate(tree.paths()[tree.class_node].tolist()):
        above = tree.paths()[ancestor[order == c]].tolist()
        depth = sum(v != "" for v in path)
        assert sorted(sum(v != "" for v in p) for p in above) == list(range(depth + 1))


# --------------------------------------------------------------- PathClassifier


@pytest.mark.parametrize(
    "estimator",
    [None, LogisticRegression(), HierarchicalClassifier(estimator=logistic(C=10))],
)
def test_paths_are_learned(estimator):
    X, y = data()
    model = PathClassifier(estimator).fit(X[:140], y[:140])
    found = model.predict(X[140:])
    assert found.shape == (70, 3)
    assert model.score(X[140:], y[140:]) > 0.9
    assert hierarchical_f1_score(y[140:], found) > 0.9
    proba = model.predict_proba(X[140:])
    assert_allclose(proba.sum(axis=1), 1)
    assert_array_equal(model.classes_[proba.argmax(axis=1)], found)
    assert_allclose(model.predict_log_proba(X[140:]), np.log(proba))
    target = model.target_log_proba(X[140:], [*y[140:-1], ["cat"]])
    column = [model.classes_.tolist().index([*p, "", ""][:3]) for p in y[140:-1]]
    assert_allclose(np.exp(target[:-1]), proba[np.arange(69), column])
    assert np.isnan(target[-1])
    if estimator is None:
        assert model.estimator_.taxonomy_ == model.label_tree_.taxonomy()
        cut = HierarchicalClassifier("cut")
        learned = PathClassifier(cut, learn_taxonomy=True).fit(X, y)
        assert learned.estimator_.builders_[0] is not None


@pytest.mark.parametrize("min_proba", [0.2, 0.5, 0.8, 0.99, 1.0])
def test_paths_stop_where_nodes_are_improbable(min_proba):
    X, y = data(noise=2.0)
    model = PathClassifier(LogisticRegression(), min_proba=min_proba).fit(X, y)
    found, proba = model.predict(X), model.predict_proba(X)
    classes = [[v for v in p if v] for p in model.classes_.tolist()]

    def mass(row, path):
        """Probability of a node, and that it is the end."""
        below = [p for c, p in zip(classes, row) if c[: len(path)] == path]
        return sum(below), sum(p for c, p in zip(classes, row) if c == path)

    prefixes = {tuple(c[:k]) for c in classes for k in range(1, len(c) + 1)}
    for row, answer in zip(proba, found.tolist()):
        path = []
        while True:  # the same walk, said with lists
            below = [list(p) for p in sorted(prefixes) if list(p[:-1]) == path]
            if not below:
                break
            best = max(below, key=lambda p: mass(row, p)[0])
            top = mass(row, best)[0]
            own = mass(row, path)[1] if path else 0.0
            if path and not (top >= min_proba - 1e-12 and top >= own):
                break
            path = best
        assert [v for v in answer if v] == path


def test_texts_frames_and_weights():
    texts = ["a dog barks", "a cat purrs", "a tram rings", "a bus stops"] * 6
    y = [["animal", "dog"], ["animal", "cat"], ["vehicle"], ["vehicle", "bus"]] * 6
    model = PathClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression(C=100)))
    assert model.fit(texts, y).predict(texts[:4]).tolist() == [
        [*p, ""][:2] for p in y[:4]
    ]
    X, y = data(70)
    frame = pd.DataFrame(X, columns=[*"abcde"])
    labels = pd.DataFrame(as_paths(y))
    model = PathClassifier().fit(frame, labels)
    assert model.feature_names_in_.tolist() == [*"abcde"]
    assert_array_equal(model.predict(frame), PathClassifier().fit(X, y).predict(X))
    node = HierarchicalClassifier(estimator=logistic())
    sparse = PathClassifier(node).fit(sp.csr_matrix(X), y)
    assert_allclose(sparse.predict_proba(sp.csr_matrix(X)), model.predict_proba(frame), atol=1e-3)  # fmt: skip  # noqa: E501
    with pytest.raises(ValueError, match="does not take weights"):
        PathClassifier(KNeighborsClassifier()).fit(X, y, sample_weight=np.ones(70))


def test_bad_labels_of_path_classifiers():
    X, y = data(14)
    with pytest.raises(ValueError, match=r"^y\[3\] is an empty path"):
        PathClassifier().fit(X, [*y[:3], [], *y[4:]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples: 14 and 13"):
        PathClassifier().fit(X, y[:13])
    with pytest.raises(ValueError, match="min_proba"):
        PathClassifier(min_proba=1.5).fit(X, y)
    with pytest.raises(ValueError, match="multi-label"):
        PathClassifier().fit(X, [[["a"], ["b"]]] * 14)
    model = PathClassifier().fit(X, y)
    with pytest.raises(ValueError, match="minimum of 1"):
        model.predict(X[:0])


def test_predictions_agree_with_hiclass_on_a_clear_case():
    hiclass = pytest.importorskip("hiclass")
    X, y = data(noise=0.1)
    keep = [i for i, path in enumerate(y) if len(path) > 1]  # it stops nowhere else
    X, y = X[keep], [y[i] for i in keep]
    peer = hiclass.LocalClassifierPerParentNode(LogisticRegression())
    peer.fit(X, as_paths(y))
    assert_array_equal(PathClassifier().fit(X, y).predict(X), peer.predict(X))


# ---------------------------------------------------------------- partial labels


def partial_digits():
    """(X, paths, whether the class is known); a group of one class among the groups."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:900] / 16, y[:900]
    group = np.array(["round", "low", "hook", "hook", "low", "lone", "round", "low",
                      "round", "hook"])  # fmt: skip
    paths = np.stack([group[y], y.astype(str)], axis=1)
    known = np.random.default_rng(0).random(y.size) > 0.3
    paths[~known, 1] = ""
    return X, paths, known | (paths[:, 0] == "lone")


@pytest.mark.parametrize("sparse", [False, True])
def test_partial_labels_train_the_nodes_above_only(sparse):
    X, paths, known = partial_digits()
    X = sp.csr_matrix(X) if sparse else X
    node = HierarchicalClassifier(estimator=logistic(tol=1e-9))
    model = PathClassifier(node, partial="unknown").fit(X, paths)
    assert set(model.classes_[:, 1]) == set("0123456789")
    answers = model.predict(X)
    assert (answers[:, 1] != "").all()
    # the groups by all samples, the digits of a group by those that are known
    tree = model.estimator_.taxonomy_
    inside = model.predict_proba(X)
    total = np.ones_like(inside)
    names = sorted(set(paths[:, 0]))
    flat = HierarchicalClassifier([names], estimator=logistic(tol=1e-9))
    groups = flat.fit(X, paths[:, 0]).predict_proba(X)
    for g, name in enumerate(names):
        rows = np.flatnonzero(known & (paths[:, 0] == name) & (paths[:, 1] != ""))
        mine = np.flatnonzero(model.classes_[:, 0] == name)
        total[:, mine] = groups[:, [g]]
        if mine.size > 1:
            labels = model.classes_[mine, 1].tolist()
            own = HierarchicalClassifier([labels], estimator=logistic(tol=1e-9))
            total[:, mine] *= own.fit(X[rows], paths[rows, 1]).predict_proba(X)
    assert tree.n_classes == 10
    assert_allclose(inside, total, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("estimator", [logistic(), PerNodeC(), GammaPrior()])
def test_partial_labels_and_folds(estimator):
    """No fold holds out the only known sample of a class."""
    X, paths, known = partial_digits()
    few = np.flatnonzero(paths[:, 1] == "2")[1:]  # the first class of its group
    keep = np.delete(np.arange(len(paths)), few)
    inner = HierarchicalClassifier(estimator=estimator, random_state=0)
    model = PathClassifier(inner, partial="unknown").fit(X[keep], paths[keep])
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_partial_labels_are_not_in_the_fold(monkeypatch):
    """Sparse nodes calibrate on samples whose class is known."""
    held = []
    real = DualNodes._choose_leaves

    def choose(self, t, window):
        held.append(self._fold[0])
        return real(self, t, window)

    monkeypatch.setattr(DualNodes, "_choose_leaves", choose)
    X, paths, known = partial_digits()
    X = normalize(sp.csr_matrix(X))
    inner = HierarchicalClassifier(random_state=0)
    model = PathClassifier(inner, partial="unknown").fit(X, paths)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert len(held) == 1 and held[0].size > 50 and known[held[0]].all()
    whole = PathClassifier(inner).fit(X[known], paths[known])
    right = (model.predict(X)[known] == paths[known]).all(axis=1).mean()
    assert right > (whole.predict(X)[known] == paths[known]).all(axis=1).mean() - 0.03
    # the default learns to stop
    stops = PathClassifier(inner).fit(X, paths).predict(X)
    assert (stops[:, 1] == "").mean() > 0.01


@pytest.mark.parametrize("max_depth", [None, 0, 1, 2])
def test_known_levels_are_those_of_the_tree(max_depth):
    """Levels of an uneven tree: each node sees the samples that are known below it."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:700] / 16, y[:700]
    nested = [[0], [[1, 8], [2, [3, 9]]], [[4], [5, 6, 7]]]
    tree = Taxonomy.from_nested(nested)
    levels = np.random.default_rng(1).integers(0, 5, y.size)
    model = HierarchicalClassifier(
        tree, max_depth=max_depth, estimator=logistic(tol=1e-8)
    )
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
        own = HierarchicalClassifier(flat, estimator=logistic(tol=1e-8)).fit(
            X[rows], of[rows]
        )
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
    with pytest.raises(ValueError, match="leave the class 7 without"):
        model.fit(X, y, known_levels=np.where(y == 7, 1, 2))
    paths = [["a", "b"], ["a"], ["c"], ["a", "d"]] * 5
    with pytest.raises(ValueError, match="known_levels"):
        PathClassifier(LogisticRegression(), partial="unknown").fit(X[:20], paths)
    with pytest.raises(ValueError, match="learn_taxonomy=False"):
        PathClassifier(learn_taxonomy=True, partial="unknown").fit(X[:20], paths)


# -------------------------------------------------------------- SenseClassifier


def banks(n=600, seed=0):
    """Six places in a row; "bank" is at two that are far apart."""
    rng = np.random.default_rng(seed)
    place = rng.integers(6, size=n)
    X = rng.normal(size=(n, 1)) * 0.4 + 3 * place[:, None]
    return X, np.array(["bank", "river", "tree", "money", "bank", "stone"])[place]


def test_senses_of_a_class_are_at_several_leaves():
    X, y = banks()
    plain = HierarchicalClassifier().fit(X[:400], y[:400])
    model = SenseClassifier(random_state=0).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.97 > plain.score(X[400:], y[400:]) + 0.1
    assert_array_equal(np.bincount(model.sense_class_), [2, 2, 2, 2, 2])
    first, second = np.flatnonzero(model.sense_class_ == 0)
    tree = model.estimator_.taxonomy_
    assert tree.leaf_of_class[first] != tree.leaf_of_class[second]
    # the two of "bank" part by place
    bank = np.flatnonzero(y[:400] == "bank")
    far = X[bank, 0] > 6
    assert len(set(zip(far.tolist(), model.sense_labels_[bank].tolist()))) == 2


def test_probabilities_are_sums_over_senses():
    X, y = banks(200)
    model = SenseClassifier(LogisticRegression(), random_state=0).fit(X, y)
    proba, senses = model.predict_proba(X), model.estimator_.predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1)
    for c in range(model.classes_.size):
        mine = model.sense_class_ == c
        assert_allclose(proba[:, c], senses[:, mine].sum(axis=1))
    assert_array_equal(model.sense_class_[model.sense_labels_], np.unique(y, return_inverse=True)[1])  # fmt: skip  # noqa: E501


@pytest.mark.parametrize("sparse", [False, True])
def test_senses_of_samples_with_nan(sparse):
    X, y = data(140)
    y = np.array([path[-1] for path in y])
    X[::9, 0] = np.nan
    rows = sp.csr_matrix(X) if sparse else X
    node = make_pipeline(SimpleImputer(), LogisticRegression())
    model = SenseClassifier(node, min_samples=5, random_state=0)
    P = model.fit(rows, y).predict_proba(rows)
    assert model.sense_class_.size > model.classes_.size
    assert_allclose(P.sum(axis=1), 1)
    assert (model.classes_[P.argmax(axis=1)] == y).mean() > 0.9
    with pytest.raises(ValueError, match="Input X contains NaN"):
        SenseClassifier().fit(rows, y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        SenseClassifier(LogisticRegression()).fit(rows, y)


def test_missing_cells_do_not_separate_senses():
    X, y = banks(200)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    filled = X.copy()
    for label in np.unique(y):
        mine = y == label
        means = np.nanmean(X[mine], axis=0)
        filled[mine] = np.where(np.isnan(X[mine]), means, X[mine])
    node = make_pipeline(SimpleImputer(), LogisticRegression())
    senses, expected = (
        SenseClassifier(node, n_rounds=1, random_state=0).fit(rows, y).sense_labels_
        for rows in (X, filled)
    )
    assert senses.max() > np.unique(y).size - 1
    assert_array_equal(senses, expected)


def test_one_sense_is_the_estimator_itself():
    X, y = banks(200)
    alone = LogisticRegression().fit(X, y).predict_proba(X)
    for options in ({"n_senses": 1}, {"min_samples": 1000}):
        model = SenseClassifier(LogisticRegression(), **options).fit(X, y)
        assert_allclose(model.predict_proba(X), alone)
        assert model.n_rounds_ == 1


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_seed_of_senses_is_that_of_their_classifier_too(kind):
    """The nodes of sparse samples draw a fold."""
    X = kind(sp.random(60, 20, 0.3, format="csr", random_state=0).toarray())
    y = np.random.default_rng(0).integers(0, 5, 60)

    def fitted(**params):
        return SenseClassifier(min_samples=2, **params).fit(X, y)

    first, second = fitted(random_state=0), fitted(random_state=0)
    assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    own = HierarchicalClassifier(random_state=3)
    assert fitted(estimator=own, random_state=0).estimator_.random_state == 3


def test_rounds_of_senses_lower_the_objective():
    X, y = banks(300, seed=3)
    code = np.unique(y, return_inverse=True)[1]
    values, fits = [], []
    for n_rounds in (1, 2, 3, 8):
        model = SenseClassifier(
            LogisticRegression(tol=1e-8, max_iter=5000),
            n_rounds=n_rounds,
            random_state=0,
        ).fit(X, y)
        proba = model.estimator_.predict_proba(X)
        loss = -np.log(proba[np.arange(300), model.sense_labels_]).sum()
        values.append(loss + 0.5 * (model.estimator_.coef_**2).sum())
        fits.append(model.n_rounds_)
        assert_array_equal(model.sense_class_[model.sense_labels_], code)
    assert (np.diff(values) <= 1e-6).all() and fits[0] == 1 and fits[1] == 2


def test_equal_samples_and_bad_weights_of_senses():
    X, y = np.zeros((120, 2)), np.arange(120) % 2
    model = SenseClassifier(LogisticRegression(), random_state=0).fit(X, y)
    assert model.sense_class_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="does not take weights"):
        SenseClassifier(KNeighborsClassifier()).fit(X, y, sample_weight=np.ones(120))
    for name in ("n_senses", "min_samples", "n_rounds"):
        with pytest.raises(ValueError, match=name):
            SenseClassifier(**{name: 0}).fit(X, y)
