"""Libraries that wrap classifiers, around ours: each finds what it asks of one."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import TunedThresholdClassifierCV

from sklstruct import HierarchicalClassifier
from sklstruct.datasets import make_sparse_classes
from sklstruct.linear import DualLinearClassifier

K = 12
GROUPS = [[0, 1, 2, 3], [4, 5], [6, 7, 8], [9, 10, 11]]
MODELS = {
    "tree": HierarchicalClassifier(
        GROUPS, estimator=DualLinearClassifier(), random_state=0
    ),
    "logistic tree": HierarchicalClassifier(GROUPS, estimator="logistic"),
    "flat": DualLinearClassifier(random_state=0),
}


@pytest.fixture(scope="module")
def data():
    X, y = make_sparse_classes(2400, K, 400, random_state=0)
    return X[:1500], y[:1500], X[1500:], y[1500:]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibrated_by_scikit_learn(data, name, method):
    """It calls decision_function."""
    X, y, Z, T = data
    P = CalibratedClassifierCV(MODELS[name], method=method, cv=2).fit(X, y)
    P = P.predict_proba(Z)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert log_loss(T, P.clip(1e-6)) < np.log(K) - 0.3
    assert (P.argmax(axis=1) == T).mean() > 0.5


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
            model, scoring="balanced_accuracy", response_method=response, cv=3
        ).fit(X, rare)
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


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("score", ["lac", "aps"])
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
    learning = cleanlab.CleanLearning(MODELS[name], seed=0, cv_n_folds=3)
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
