"""Libraries that wrap classifiers, around ours: each finds what it asks of one."""

import numpy as np
import pandas as pd
import pytest
from _cases import each_value
from _nodes import logistic
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import (
    KFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
)
from sklearn.preprocessing import LabelEncoder
from sklearn.tree import DecisionTreeClassifier

from sklstruct import HierarchicalClassifier
from sklstruct.datasets import make_sparse_classes
from sklstruct.linear import LinearClassifier
from sklstruct.taxonomy import RefinedTaxonomy, Taxonomy

K = 12
GROUPS = [[0, 1, 2, 3], [4, 5], [6, 7, 8], [9, 10, 11]]
MODELS = {
    "tree": HierarchicalClassifier(
        GROUPS, estimator=LinearClassifier(), random_state=0
    ),
    "logistic tree": HierarchicalClassifier(GROUPS, estimator=logistic()),
    "flat": LinearClassifier(random_state=0),
}


@pytest.fixture(scope="module")
def data():
    X, y = make_sparse_classes(2400, K, 400, random_state=0)
    return X[:1500], y[:1500], X[1500:], y[1500:]


@pytest.mark.parametrize(*each_value(name=MODELS, method=["sigmoid", "isotonic"]))
def test_calibrated_by_scikit_learn(data, name, method):
    """It calls decision_function."""
    X, y, Z, T = data
    P = CalibratedClassifierCV(MODELS[name], method=method, cv=2).fit(X, y)
    P = P.predict_proba(Z)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert log_loss(T, P.clip(1e-6)) < np.log(K) - 0.3
    assert (P.argmax(axis=1) == T).mean() > 0.5


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_nodes_whose_probabilities_are_zero_are_calibrated_as_without_a_tree(
    data, method
):
    """Trees have no scores: with one node the wrapper reads the same numbers."""
    X, y, Z, _ = data
    alone = DecisionTreeClassifier(max_depth=6, random_state=0)
    model = HierarchicalClassifier(max_depth=0, estimator=alone)
    assert hasattr(model, "decision_function") is hasattr(alone, "decision_function")
    ours, theirs = (
        CalibratedClassifierCV(each, method=method, cv=2).fit(X, y).predict_proba(Z)
        for each in (model, alone)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    with pytest.raises(AttributeError) as caught:
        model.decision_function  # noqa: B018
    assert "use predict_log_proba" in str(caught.value.__cause__)


@pytest.mark.parametrize("name", ["tree", "logistic tree", "flat"])
def test_two_classes_and_a_tuned_threshold(data, name):
    X, y, Z, T = data
    rare = y < 2
    model = MODELS[name]
    if name != "flat":
        model = HierarchicalClassifier(
            [[False], [True]], estimator=model.estimator, random_state=0
        )
    plain = model.fit(X, rare)
    score = plain.decision_function(Z)
    assert score.shape == (len(T),)
    np.testing.assert_array_equal(
        np.argsort(score, kind="stable"),
        np.argsort(plain.predict_proba(Z)[:, 1], kind="stable"),
    )
    np.testing.assert_array_equal(score > 0, plain.predict(Z))
    for response in ("predict_proba", "decision_function"):
        tuned = TunedThresholdClassifierCV(
            model, scoring="balanced_accuracy", response_method=response, cv=3,
            thresholds=25,
        ).fit(X, rare)  # fmt: skip
        gain = balanced_accuracy_score(T < 2, tuned.predict(Z))
        assert gain > balanced_accuracy_score(T < 2, plain.predict(Z)) + 0.02


def test_stacked(data):
    X, y, Z, T = data
    stack = StackingClassifier(
        [(name.replace(" ", "_"), model) for name, model in MODELS.items()],
        LogisticRegression(C=10, max_iter=500),
        cv=2,
    ).fit(X, y)
    assert stack.transform(Z).shape == (len(T), len(MODELS) * K)
    worst = min(model.fit(X, y).score(Z, T) for model in MODELS.values())
    assert stack.score(Z, T) > worst - 0.05


NAMES = ["cat", "dog", "bus", "tram", "oak"]  # their order is not that of the tree
TREES = {
    "lists": [[["tram"], ["bus"]], ["oak"], ["dog", "cat"]],
    "groups": {"animal": ["dog", "cat"], "vehicle": ["tram", "bus"], "plant": ["oak"]},
    "deep groups": {"animal": ["dog", "cat"], "other": {"vehicle": ["tram", "bus"],
                                                        "plant": ["oak"]}},
    "parents": {"dog": "animal", "cat": "animal", "tram": "road", "bus": "road",
                "animal": "life", "oak": "life"},
    "paths": {"dog": ["life", "animal"], "cat": ["life", "animal"], "oak": ["life"],
              "tram": ["rail"], "bus": ["road"]},
    "taxonomy": Taxonomy.from_nested([["tram", "bus"], [["oak"], ["dog", "cat"]]]),
    "builder": RefinedTaxonomy({"a": ["dog", "cat"], "b": ["tram", "bus", "oak"]}),
    "learned": "ward",
}  # fmt: skip


def named_samples():
    rng = np.random.default_rng(0)
    code = rng.integers(5, size=300)
    X = rng.normal(size=(300, 4)) + 2 * np.eye(5, 4)[code]
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    return X, frame, np.array(NAMES)[code]


@pytest.mark.parametrize(*each_value(tree=TREES, form=["array", "frame"]))
def test_meta_estimators_encode_the_labels(tree, form):
    """The given tree is found in 0 ... K - 1: answers are those of plain fits."""
    X, frame, y = named_samples()
    X, y = (frame, pd.Series(y)) if form == "frame" else (X, y)
    model = HierarchicalClassifier(TREES[tree], random_state=0)
    plain = clone(model).fit(X, y)
    expected = plain.predict_proba(X)
    encoded = clone(model).fit(X, LabelEncoder().fit_transform(y))
    np.testing.assert_array_equal(encoded.predict_proba(X), expected)
    if tree != "learned":
        sets = [plain.classes_[labels] for labels in sets_below(encoded.taxonomy_)]
        other = [plain.classes_[labels] for labels in sets_below(plain.taxonomy_)]
        assert list(map(list, sets)) == list(map(list, other))
    voting = VotingClassifier([("h", model)], voting="soft").fit(X, y)
    np.testing.assert_array_equal(voting.predict_proba(X), expected)
    assert voting.classes_.tolist() == sorted(NAMES)
    stack = StackingClassifier([("h", model)], cv=3).fit(X, y)
    np.testing.assert_array_equal(stack.transform(X), expected)
    folds = list(KFold(3).split(X))
    take = (lambda rows: X.iloc[rows]) if form == "frame" else X.__getitem__
    rights = [clone(model).fit(take(train), np.asarray(y)[train]) for train, _ in folds]
    for method in ("predict_proba", "predict_log_proba", "decision_function"):
        found = cross_val_predict(model, X, y, cv=folds, method=method)
        for (_, test), right in zip(folds, rights):
            np.testing.assert_array_equal(
                found[test], getattr(right, method)(take(test))
            )
    # "temperature" is in scikit-learn from 1.8 on.
    (options,) = CalibratedClassifierCV._parameter_constraints["method"]
    assert options.options <= {"temperature", "sigmoid", "isotonic"}
    for method in sorted(options.options):
        calibrated = CalibratedClassifierCV(model, method=method, cv=folds).fit(X, y)
        assert calibrated.score(X, y) > 0.6
        for right, part in zip(rights, calibrated.calibrated_classifiers_):
            np.testing.assert_array_equal(
                part.estimator.predict_proba(X), right.predict_proba(X)
            )


def sets_below(tree):
    return [np.sort(tree.classes_below(v)) for v in range(tree.n_nodes)]


def test_encoded_labels_that_are_refused():
    """The rule is exact: as many labels as classes, and no label among them."""
    X, _, y = named_samples()
    code = LabelEncoder().fit_transform(y)
    numbers = Taxonomy.from_nested([[10, 20], [30, 40, 50]])
    model = HierarchicalClassifier(numbers).fit(X, code)
    assert model.taxonomy_ == Taxonomy.from_nested([[0, 1], [2, 3, 4]])
    by_label = HierarchicalClassifier(numbers).fit(X, 10 * code + 10)
    np.testing.assert_array_equal(model.predict_proba(X), by_label.predict_proba(X))
    cause = "CalibratedClassifierCV.* exactly the 5 labels and none of these integers"
    for tree in (
        [["cat", "dog", "bus"], ["tram", "oak", "elm"]],  # another label
        [["cat", "dog"], ["tram", "oak"]],  # a label is missing
        [[1, 2], [3, 4, 5]],  # some labels are positions: of themselves or of others?
        {"a": ["cat", "dog"], "b": ["tram", "oak"]},
    ):
        with pytest.raises(ValueError, match=f"missing labels: .*{cause}"):
            HierarchicalClassifier(tree).fit(X, code)
    groups = {name: [name + "s"] for name in NAMES}
    with pytest.raises(ValueError, match="may be groups or paths"):
        HierarchicalClassifier(groups).fit(X, code)
    with pytest.raises(ValueError, match="missing labels") as found:  # not 0 ... K - 1
        HierarchicalClassifier([["cat", "dog"], ["bus", "tram", "oak"]]).fit(
            X, code + 1
        )
    assert "encoded" not in str(found.value)
    floats = code.astype(float)  # no encoder gives floats
    with pytest.raises(ValueError, match="missing labels") as found:
        HierarchicalClassifier([["cat", "dog"], ["bus", "tram", "oak"]]).fit(X, floats)


def test_permutation_importance():
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=600)
    X = np.column_stack([y // 4, y % 4, rng.normal(size=600), np.ones(600)])
    X[:, :2] += 0.2 * rng.normal(size=(600, 2))
    for model in MODELS.values():
        fitted = clone(model).fit(X, y)
        found = permutation_importance(fitted, X, y, n_repeats=3, random_state=0)
        assert found.importances_mean[3] == 0
        assert (found.importances_mean[:2] > 0.1).all()
        assert abs(found.importances_mean[2]) < 0.1


@pytest.mark.parametrize(*each_value(name=MODELS, score=["lac", "aps"]))
def test_mapie_covers(data, name, score):
    mapie = pytest.importorskip("mapie.classification")
    X, y, Z, T = data
    X, Z = X.toarray(), Z.toarray()
    model = MODELS[name].fit(X, y)
    half = len(T) // 2
    wrapped = mapie.SplitConformalClassifier(
        model, confidence_level=0.9, conformity_score=score, prefit=True,
        random_state=0,
    ).conformalize(Z[:half], T[:half])  # fmt: skip
    label, sets = wrapped.predict_set(Z[half:])
    np.testing.assert_array_equal(label, model.predict(Z[half:]))
    covered = sets[np.arange(len(T) - half), T[half:], 0].mean()
    assert 0.85 < covered < 0.97
    assert 1 < sets.sum(axis=1).mean() < K - 1


@pytest.mark.parametrize("name", MODELS)
def test_cleanlab_finds_wrong_labels(data, name):
    cleanlab = pytest.importorskip("cleanlab.classification")
    X, y, Z, T = data
    rng = np.random.default_rng(0)
    wrong = rng.permutation(len(y))[:150]
    noisy = y.copy()
    noisy[wrong] = (y[wrong] + rng.integers(1, K, size=150)) % K
    # In one process: a pool that is terminated waited for ever for a worker in which
    # coverage handles SIGTERM.
    one = {"n_jobs": 1}
    learning = cleanlab.CleanLearning(
        MODELS[name], seed=0, cv_n_folds=3, find_label_issues_kwargs=one
    )
    learning.fit(X, noisy)
    issues = learning.get_label_issues()["is_label_issue"].to_numpy()
    # among those it finds wrong ones are several times as frequent as among all
    assert np.isin(np.flatnonzero(issues), wrong).mean() > 0.2
    assert issues[wrong].mean() > 0.5
    assert learning.score(Z, T) > 0.5


@pytest.mark.parametrize("name", ["tree", "flat"])
def test_scores_as_annif_reads_them(data, name):
    """Its SVC backend: expit of decision_function, best first, and joblib."""
    X, y, Z, T = data
    model = MODELS[name].fit(X, y.tolist())
    scores = 1 / (1 + np.exp(-model.decision_function(Z)))
    order = np.argsort(scores, axis=1)[:, ::-1]
    np.testing.assert_array_equal(model.classes_[order[:, 0]], model.predict(Z))
    assert (scores >= 0).all() and (scores <= 1).all()
