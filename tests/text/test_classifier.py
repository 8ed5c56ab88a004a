"""TextClassifier: the parts that it stands for, labels of all kinds, bad input."""

import io
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from _cases import each_value
from _oracles import sparse_settings
from _texts import LABELS, NEW, TEXTS, several, tickets
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MultiLabelBinarizer, normalize
from sklearn.svm import LinearSVC
from sklearn.utils import get_tags

from sklstruct import HierarchicalClassifier, LinearClassifier
from sklstruct.linear._calibration import fit_sigmoid, scale_of
from sklstruct.linear._samples import single
from sklstruct.linear._solver import Descent, NodeSolver
from sklstruct.text import NgramVectorizer, TextClassifier, _choice, _classifier
from sklstruct.text._choice import Draw
from sklstruct.text._texts import as_texts
from sklstruct.text._vectorizer import rows_of

NAMES = several(LABELS, TEXTS)
NAMED = {
    "letters": [("char_wb", (1, 4))],
    "words": [("word", (1, 2))],
    "both": [("word", (1, 2)), ("char_wb", (1, 4))],
}


@pytest.mark.parametrize("features", NAMED)
def test_probabilities_are_those_of_the_parts(features):
    parts = [
        NgramVectorizer(
            analyzer=a,
            ngram_range=r,
            min_df=1 if a == "word" else 2,
            sublinear_tf=True,
        )
        for a, r in NAMED[features]
    ]
    rows = [part.fit_transform(TEXTS) for part in parts]
    X = sp.hstack(rows, format="csr") / np.sqrt(len(parts))
    linear = LinearClassifier(C=2.0, weight_threshold=0.02, tol=0.05)
    model = HierarchicalClassifier(estimator=linear, random_state=3)
    model.fit(X.astype(np.float32), LABELS)
    new = sp.hstack([part.transform(NEW) for part in parts], format="csr")
    new = (new / np.sqrt(len(parts))).astype(np.float32)
    found = TextClassifier(features, C=2.0, random_state=3).fit(TEXTS, LABELS)
    np.testing.assert_allclose(
        found.predict_proba(NEW), model.predict_proba(new), atol=1e-5
    )
    np.testing.assert_array_equal(found.predict(NEW), model.predict(new))
    assert found.predict_proba(NEW).sum(axis=1) == pytest.approx(1)
    assert found.score(*tickets(100, seed=2)) > 0.8
    names, log_proba = found.predict_top_k(NEW, 2, return_log_proba=True)
    np.testing.assert_array_equal(names[:, 0], found.predict(NEW))
    every = np.sort(found.predict_log_proba(NEW), axis=1)[:, ::-1]
    np.testing.assert_allclose(log_proba, every[:, :2])


def without_words_of_one_text(rows, features):
    """The rows that "auto" compares: the words have the same length as before."""
    X = rows.toarray()
    names = features.get_feature_names_out()
    words = X[:, np.char.startswith(names.astype(str), "words__")]
    words *= (words > 0).sum(axis=0) > 1
    length = np.linalg.norm(words, axis=1, keepdims=True)
    words /= np.where(length > 0, length, 1) * np.sqrt(2)
    X[:, : words.shape[1]] = words
    return sp.csr_matrix(X)


@pytest.mark.parametrize("several_labels", [False, True])
def test_auto_compares_models_of_few_epochs(several_labels, monkeypatch):
    """They tell rows from rows of other texts."""
    y = MultiLabelBinarizer().fit_transform(NAMES) if several_labels else LABELS
    epochs, descend = [], Descent._descend

    def counted(self, *args):
        descend(self, *args)
        epochs.append(self.n_iter)

    rows = single(NgramVectorizer(analyzer="char_wb").fit_transform(TEXTS))
    others = rows[np.random.RandomState(0).permutation(len(TEXTS))]
    monkeypatch.setattr(Descent, "_descend", counted)
    draw = Draw.of(y, np.ones(len(TEXTS)), np.random.RandomState(0))
    assert draw.best_of((rows, others), 1.0) == 0
    assert draw.best_of((others, rows), 1.0) == 1
    assert set(epochs) == {3}


@pytest.mark.parametrize("part", ["texts", "labels"])
def test_auto_takes_the_larger_rows_if_a_part_does_not_decide(part, monkeypatch):
    """More texts than those that are compared learn the columns better."""
    y = MultiLabelBinarizer().fit_transform(NAMES)
    rng = np.random.RandomState(0)
    losses = rng.uniform(1, 2, (2, len(y), 1))
    losses[1] += 0.01 + losses[0].mean() - losses[1].mean()
    pair = [sp.csr_matrix(column) for column in losses]
    monkeypatch.setattr(
        Draw, "log_losses", lambda draw, node, held, C: node.X[held].toarray().ravel()
    )

    def choices():
        draw = Draw.of(y, np.ones(len(TEXTS)), np.random.RandomState(0))
        return draw.whole, [draw.best_of(each, 1.0) for each in (pair, pair[::-1])]

    whole, found = choices()
    assert whole and sorted(found) == [0, 1]
    most = {"texts": ("_MOST_TRIED", len(y)), "labels": ("_MOST_PAIRS", y.size)}[part]
    monkeypatch.setattr(_choice, most[0], most[1] - 1)
    assert choices() == (False, [1, 1])


@pytest.mark.parametrize(
    "kind, most, at_once",
    [
        ("two classes", 20_000, True),
        ("classes", 20_000, True),
        ("several", 150, True),
        ("several", 150, False),
        ("classes", 90, False),
    ],
)
def test_auto_has_the_smaller_loss_of_texts_that_it_has_not_learned(
    kind, most, at_once, monkeypatch
):
    if not at_once:
        monkeypatch.setattr(_choice, "_MOST_AT_ONCE", 0)
    monkeypatch.setattr(_choice, "_MOST_TRIED", most)
    # the models that are compared have a fine tolerance here
    monkeypatch.setattr(
        _choice, "LinearClassifier", lambda tol, max_iter: LinearClassifier(tol=1e-4)
    )
    labels = LABELS if kind == "classes" else np.array([x[:3] == "car" for x in LABELS])
    y = MultiLabelBinarizer().fit_transform(NAMES) if kind == "several" else labels
    weight = np.random.RandomState(0).uniform(0.5, 2, len(TEXTS))
    draw = Draw.of(y, weight, np.random.RandomState(0))
    if most > len(TEXTS):
        np.testing.assert_array_equal(draw.at, np.arange(len(TEXTS)))
    else:
        assert draw.at.size == most and np.unique(draw.at).size == most
    texts, mine, w = [TEXTS[i] for i in draw.at], y[draw.at], weight[draw.at]
    np.testing.assert_array_equal(
        np.sort(np.concatenate(draw.halves)), np.arange(draw.at.size)
    )
    losses, pair = {}, []
    for name in ("letters", "both"):
        read = (TEXTS, y) if at_once else (texts, mine)
        rows = TextClassifier(name, random_state=0).fit(*read).features_
        pair.append(rows.transform(texts))
        if name == "both":
            pair[-1] = without_words_of_one_text(pair[-1], rows)
        node = NodeSolver(single(pair[-1]), draw.targets, draw.weight, draw.halves[0])
        found = [draw.log_losses(node, held, 2.0) for held in draw.halves]
        for held, found_here in zip(draw.halves, found):
            learned = np.setdiff1d(np.arange(draw.at.size), held)
            # the same model by another route, scaled to the held texts
            linear = LinearClassifier(
                "squared_hinge", C=2.0, calibration=None, tol=1e-4
            )
            linear.fit(pair[-1][learned], mine[learned], w[learned])
            z = linear.decision_function(pair[-1][held])
            if kind == "several":
                yes = mine[held].ravel() > 0
                each = np.repeat(w[held], mine.shape[1])
                exact = fit_sigmoid(z.ravel(), yes, each)[1] / w[held].sum()
            else:
                code = np.unique(mine, return_inverse=True)[1][held]
                z = z.reshape(code.size, -1)
                exact = scale_of(z, code, w[held], "squared_hinge")[1]
            average = np.average(found_here, weights=w[held])
            assert average == pytest.approx(exact, rel=0.02)
        losses[name] = found
    # the first half decides, unless the difference may be chance
    where, n_used, mean = [], 0, 0.0
    for k, held in enumerate(draw.halves):
        where, n_used = np.concatenate([where, held]).astype(int), k + 1
        gain = np.concatenate(losses["letters"][: k + 1])
        gain -= np.concatenate(losses["both"][: k + 1])
        mean = np.average(gain, weights=w[where])
        variance = (w[where] ** 2 * (gain - mean) ** 2).sum() / w[where].sum() ** 2
        if gain.size >= 100 and mean**2 > 4 * variance:
            break
    calls, log_losses = [], Draw.log_losses
    monkeypatch.setattr(
        Draw, "log_losses", lambda *args: calls.append(1) or log_losses(*args)
    )
    # of a part of the texts the larger rows are chosen unless they are surely worse
    larger = mean > (0 if most > len(TEXTS) else -2 * np.sqrt(variance))
    assert draw.best_of(pair, 2.0) == larger
    assert len(calls) == 2 * n_used
    best = ("letters", "both")[int(larger)]
    model = TextClassifier(C=2.0, random_state=0).fit(TEXTS, y, weight)
    assert (best == "letters") == isinstance(model.features_, NgramVectorizer)
    named = TextClassifier(best, C=2.0, random_state=0).fit(TEXTS, y, weight)
    np.testing.assert_array_equal(model.predict_proba(NEW), named.predict_proba(NEW))


@pytest.mark.parametrize("wins", [0, 1])
@pytest.mark.parametrize("n_texts, n_tried", [(200, 200), (200, 60)])
def test_auto_reads_each_text_once(wins, n_texts, n_tried, monkeypatch):
    texts, labels = tickets(n_texts, seed=1)
    monkeypatch.setattr(_choice, "_MOST_TRIED", n_tried)
    read, tried, fit = [], [], NgramVectorizer._fit

    def counted(self, texts, keep):
        read.append((self.analyzer, len(texts)))
        return fit(self, texts, keep)

    def chosen(draw, pair, C):
        tried[:] = [rows.copy() for rows in pair]
        return wins

    monkeypatch.setattr(NgramVectorizer, "_fit", counted)
    monkeypatch.setattr(Draw, "best_of", chosen)
    model = TextClassifier(random_state=0).fit(texts, labels)
    assert read == [("word", n_texts), ("char_wb", n_texts)]
    weight = np.ones(n_texts)
    at = Draw.of(np.array(labels), weight, np.random.RandomState(0)).at
    assert at.size == n_tried
    for name, rows in zip(("letters", "both"), tried):
        named = TextClassifier(name, random_state=0).fit(texts, labels)
        expected = named.features_.transform(texts)[at]
        if name == "both":
            expected = without_words_of_one_text(expected, named.features_)
        np.testing.assert_allclose(rows.toarray(), expected.toarray(), rtol=1e-6)
        if name == ("letters", "both")[wins]:
            np.testing.assert_array_equal(
                model.predict_proba(NEW), named.predict_proba(NEW)
            )
            assert type(model.features_) is type(named.features_)
        else:
            assert type(model.features_) is not type(named.features_)


@pytest.mark.parametrize("settings", sparse_settings(), ids=str)
@pytest.mark.parametrize("y", [LABELS, NAMES], ids=["labels", "lists"])
def test_auto_with_each_kind_of_sparse_rows(settings, y):
    right = TextClassifier(random_state=0).fit(TEXTS, y)
    with config_context(**settings):
        model = TextClassifier(random_state=0).fit(TEXTS, y)
        np.testing.assert_array_equal(
            model.predict_proba(NEW), right.predict_proba(NEW)
        )
        assert model.score(TEXTS, y) == right.score(TEXTS, y)


@pytest.mark.parametrize("n, n_used", [(196, 2), (200, 1)])
def test_a_half_of_few_texts_does_not_decide(n, n_used, monkeypatch):
    draw = Draw.of(np.arange(n) % 2, np.ones(n), np.random.RandomState(0))
    held = []

    def losses(_, node, half, C):
        held.append(half)
        return np.full(half.size, float(node.X[0, 0]))

    monkeypatch.setattr(Draw, "log_losses", losses)
    pair = [sp.csr_matrix(np.full((n, 1), loss)) for loss in (2.0, 1.0)]
    assert draw.best_of(pair, 1.0) == 1
    assert draw.best_of(pair[::-1], 1.0) == 0
    expected = [half for half in draw.halves[:n_used] for _ in pair]
    for found, half in zip(held, 2 * expected, strict=True):
        np.testing.assert_array_equal(found, half)


@pytest.mark.parametrize("several_labels", [False, True])
def test_texts_that_features_are_compared_on(several_labels, monkeypatch):
    """Of many classes some; each class of a held text is learned."""
    rng = np.random.RandomState(0)
    code = np.append(rng.randint(0, 40, 395), np.arange(40, 45))  # five single texts
    y = np.eye(45, dtype=int)[code] if several_labels else (code + 100).astype(str)
    for most_pairs in (200, 3600, 10**6):
        monkeypatch.setattr(_choice, "_MOST_PAIRS", most_pairs)
        for seed in range(10):
            draw = Draw.of(y, np.arange(400.0) + 1, np.random.RandomState(seed))
            np.testing.assert_array_equal(draw.weight, draw.at + 1)
            m = draw.targets.n_outcomes
            assert m == 2 or draw.at.size * m <= 2 * most_pairs
            names = code[draw.at]
            if several_labels:
                assert draw.at.size == 400
                yes = draw.targets.indicator()
                assert {*map(tuple, yes.T)} <= {*map(tuple, y.T > 0)}
            else:
                order = np.unique(names, return_inverse=True)[1]
                assert (np.unique(names).size == m) and m <= 45
                np.testing.assert_array_equal(draw.targets.outcome, order)
                for held in draw.halves:
                    assert set(names[held]) <= set(np.delete(names, held))
    assert m == 45


@pytest.mark.parametrize("most_pairs", [500_000, 600])
def test_auto_finds_where_the_order_of_words_matters(most_pairs, monkeypatch):
    """All classes have equal letters, and equal n-grams inside words."""
    monkeypatch.setattr(_choice, "_MOST_PAIRS", most_pairs)  # 600: four of six classes
    rng = np.random.RandomState(0)
    words = ["north", "south", "rain", "wind", "snow", "storm"]
    pairs = [rng.permutation(words)[:2] for _ in range(900)]
    y = np.array([pair[0] for pair in pairs])
    texts = [" ".join(pair) for pair in pairs]
    for seed in range(4):
        model = TextClassifier(random_state=seed).fit(texts[:300], y[:300])
        assert model.score(texts[300:], y[300:]) == 1


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        LinearSVC(),
        LinearClassifier("log_loss", calibration=None),
        HierarchicalClassifier(estimator=LogisticRegression()),
    ],
    ids=str,
)
def test_auto_chooses_for_any_classifier(estimator):
    model = TextClassifier(estimator=estimator, random_state=0).fit(TEXTS, LABELS)
    default = TextClassifier(random_state=0).fit(TEXTS, LABELS)
    assert type(model.features_) is type(default.features_)
    assert model.score(*tickets(100, seed=2)) > 0.8


def test_several_labels_in_all_forms_are_one_model():
    names = several(LABELS, TEXTS)
    Y = MultiLabelBinarizer().fit_transform(names)
    given = {
        "sets": names,
        "lists": [sorted(labels) for labels in names],
        "series": pd.Series([tuple(labels) for labels in names]),
        "arrays": pd.Series([np.array(sorted(labels)) for labels in names]),
        "objects": [np.array([*labels], dtype=object) for labels in names],
        "dense": Y,
        "sparse": sp.csr_matrix(Y),
    }
    models = {
        kind: TextClassifier("words", random_state=0).fit(TEXTS, y)
        for kind, y in given.items()
    }
    P = models["dense"].predict_proba(NEW)
    for kind, model in models.items():
        np.testing.assert_array_equal(model.predict_proba(NEW), P)
        numbers = kind in ("dense", "sparse")
        classes = [0, 1, 2, 3] if numbers else ["card", "login", "polite", "travel"]
        assert model.classes_.tolist() == classes
        indicator = sp.csr_matrix(model.predict(NEW)).toarray()
        np.testing.assert_array_equal(indicator, P > 0.5)
        assert model.score(TEXTS, given[kind]) == models["dense"].score(TEXTS, Y)
    top, log_proba = models["sets"].predict_top_k(NEW, 2, return_log_proba=True)
    np.testing.assert_allclose(np.exp(log_proba), np.sort(P)[:, ::-1][:, :2])
    assert set(top.ravel()) <= set(models["sets"].classes_)
    assert models["sets"].score(TEXTS[:1], [["other"]]) == 0


def test_several_labels_are_learned_with_the_squared_hinge():
    names = several(LABELS, TEXTS)
    model = TextClassifier("words", threshold="f1", C=2.0, random_state=0)
    X = model.fit(TEXTS, names).features_.transform(TEXTS)
    Y = MultiLabelBinarizer().fit_transform(names)
    found = {}
    for loss in ("squared_hinge", "ovr_log_loss"):
        linear = LinearClassifier(loss, C=2.0, weight_threshold=0.02, tol=0.05)
        other = HierarchicalClassifier(
            estimator=linear, threshold="f1", random_state=0
        ).fit(X, Y)
        found[loss] = other.predict_proba(X)
    P = model.predict_proba(TEXTS)
    np.testing.assert_allclose(P, found["squared_hinge"], atol=1e-6)
    assert np.abs(P - found["ovr_log_loss"]).max() > 0.01
    plain = TextClassifier("words", C=2.0, random_state=0).fit(TEXTS, names)
    np.testing.assert_allclose(plain.predict_proba(TEXTS), P, atol=1e-6)


@pytest.mark.parametrize("features", [*NAMED, "auto"])
def test_words_of_one_text_are_kept_if_texts_are_few(features, monkeypatch):
    most = len(TEXTS) + 1
    names = several(LABELS, TEXTS)
    Y = MultiLabelBinarizer().fit_transform(names)
    texts = [*TEXTS, "zebra"]
    targets = [*names, names[0]], np.vstack([Y, Y[:1]]), [*LABELS, LABELS[0]]
    options = (None, 1, 2), (most, most - 1)
    for y, least, few in itertools.product(targets, *options):
        monkeypatch.setattr(_choice, "_FEW_TEXTS", few)
        model = TextClassifier(features, min_df=least, random_state=0).fit(texts, y)
        parts = getattr(model.features_, "transformer_list", [("", model.features_)])
        for _, part in parts:
            words = part.analyzer == "word"
            ngram = "zebra" if words else " zeb" if features == "letters" else "zebr"
            kept = ngram in part.get_feature_names_out()
            default = words and few == most
            assert kept == (default if least is None else least == 1)
    for y in ["a"], [["a", "b"]]:
        assert TextClassifier(features).fit(["zebra"], y).predict_proba(["x"]).all()


def test_score_of_several_labels_that_fit_has_not_seen():
    model = TextClassifier("words", random_state=0).fit(TEXTS, NAMES)
    Y = model.predict(TEXTS).toarray() > 0
    predicted = [{*model.classes_[row]} for row in Y]
    given = [set(names) for names in NAMES]
    given[3] = predicted[3] | {"rare"}
    given[5], given[7] = predicted[5], predicted[7]
    right = np.array([a == b for a, b in zip(predicted, given)])
    assert not right[3] and right[5] and 0.3 < right.mean() < 1
    assert model.score(TEXTS, given) == pytest.approx(right.mean())
    weight = np.arange(len(TEXTS)) % 3
    expected = np.average(right, weights=weight)
    assert model.score(TEXTS, given, weight) == pytest.approx(expected)
    rare = [*given[:-1], {"seldom"}]
    scores = cross_val_score(TextClassifier("words"), TEXTS, rare, cv=KFold(3))
    assert np.isfinite(scores).all()
    for texts, y, match in (
        (TEXTS[:3], given[:2], "inconsistent numbers of samples"),
        ([], [["a"]], "X must hold at least one text"),
    ):
        with pytest.raises(ValueError, match=match):
            model.score(texts, y)
    single = TextClassifier("words", random_state=0).fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="y of fit held single labels"):
        single.score(TEXTS, given)
    for y, expected in (NAMES, model), (LABELS, single):
        drawn = TextClassifier("words", random_state=0).fit(iter(TEXTS), iter(y))
        P = drawn.predict_proba(NEW)
        np.testing.assert_array_equal(P, expected.predict_proba(NEW))
    for y in ([["a"]] * 3, [["a"], [], ["a"]]):
        with pytest.raises(ValueError, match="y holds lists of 1 label: several"):
            model.fit(TEXTS[:3], y)


@pytest.mark.parametrize("n", [1, 2])
def test_searches_over_all_names(n):
    model = TextClassifier("words", random_state=0)
    grid = {"C": [1, 0.1][:n], "ngram_range": [(1, 1), (1, 2)], "min_df": [1, 3]}
    search = GridSearchCV(model, grid, cv=2).fit(TEXTS, LABELS)
    assert search.best_score_ > 0.7
    tree = TextClassifier("letters", random_state=0)
    trees = {"taxonomy": ["auto", [["card", "login"], "travel"]], "features": [*NAMED]}
    GridSearchCV(tree, trees, cv=2).fit(TEXTS, LABELS)
    nested = TextClassifier(
        NgramVectorizer(sublinear_tf=True),
        estimator=HierarchicalClassifier(estimator=LinearClassifier(random_state=0)),
    )
    inner = {
        "features__ngram_range": [(1, 1), (1, 2)],
        "features__min_df": [1, 2],
        "estimator__estimator__C": [0.5, 2.0][:n],
        "estimator__taxonomy": ["auto", [["card", "login"], "travel"]],
    }
    assert GridSearchCV(nested, inner, cv=2).fit(TEXTS, LABELS).best_score_ > 0.7
    P = cross_val_predict(model, TEXTS, LABELS, cv=3, method="predict_proba")
    assert P.shape == (len(TEXTS), 3)


def test_other_classifiers_and_vectorizers():
    model = TextClassifier("words", estimator=LogisticRegression()).fit(TEXTS, LABELS)
    pipe = make_pipeline(model.features_, LogisticRegression()).fit(TEXTS, LABELS)
    np.testing.assert_allclose(model.predict_proba(NEW), pipe.predict_proba(NEW))
    top = model.predict_top_k(NEW, 1)[:, 0]
    np.testing.assert_array_equal(top, pipe.predict(NEW))
    bayes = TextClassifier("words", estimator=MultinomialNB()).fit(TEXTS, LABELS)
    assert bayes.explain("my card is blocked")


@pytest.mark.parametrize(
    "estimator",
    [
        MultinomialNB(),
        LinearSVC(),
        LinearClassifier(),
        HierarchicalClassifier(estimator=LogisticRegression()),
        CalibratedClassifierCV(LinearSVC(), cv=2),
    ],
    ids=str,
)
@pytest.mark.parametrize("fitted", [False, True])
def test_methods_are_those_of_the_classifier(estimator, fitted):
    model = TextClassifier("words", estimator=estimator)
    pipe = make_pipeline(NgramVectorizer(sublinear_tf=True), estimator)
    if fitted:
        model.fit(TEXTS, LABELS), pipe.fit(TEXTS, LABELS)
    assert hasattr(model, "predict_proba") == hasattr(pipe, "predict_proba")
    assert hasattr(model, "predict_log_proba") == hasattr(pipe, "predict_proba")
    assert hasattr(model, "decision_function") == hasattr(pipe, "decision_function")
    for name in "predict_proba", "predict_log_proba", "decision_function":
        assert hasattr(TextClassifier(), name)
        if fitted:  # the fitted classifier counts
            has = hasattr(model, name)
            assert hasattr(model.set_params(estimator=None), name) == has


def test_scikit_learn_asks_for_the_method_that_there_is():
    """As of a pipeline of a vectorizer and the classifier."""
    two = LABELS == "card"
    bayes = TextClassifier("words", estimator=MultinomialNB())
    svc = TextClassifier("words", estimator=LinearSVC())
    assert cross_val_score(bayes, TEXTS, two, scoring="roc_auc", cv=2).min() > 0.9
    assert CalibratedClassifierCV(bayes, cv=2).fit(TEXTS, two).score(TEXTS, two) > 0.9
    stack = StackingClassifier([("svc", svc), ("bayes", bayes)], cv=2)
    assert stack.fit(TEXTS, LABELS).score(*tickets(100, seed=2)) > 0.8
    tuned = TunedThresholdClassifierCV(svc, cv=2).fit(TEXTS, two)
    assert tuned.score(TEXTS, two) > 0.9
    with pytest.raises(AttributeError, match="predict_proba"):
        svc.fit(TEXTS, LABELS).predict_top_k(NEW, 2)


def test_logarithms_of_a_classifier_without_logarithms():
    model = TextClassifier("words", estimator=KNeighborsClassifier()).fit(TEXTS, LABELS)
    P = model.predict_proba(NEW)
    np.testing.assert_array_equal(np.exp(model.predict_log_proba(NEW)), P)
    labels, log_proba = model.predict_top_k(NEW, 2, return_log_proba=True)
    np.testing.assert_array_equal(np.exp(log_proba), -np.sort(-P)[:, :2])
    text = "card bank travel flight"
    row = model.features_.transform([text]).toarray()
    names = model.features_.get_feature_names_out().tolist()
    with np.errstate(divide="ignore", invalid="ignore"):
        for name, change in model.explain(text, "card"):
            less = row.copy()
            less[0, names.index(name)] = 0
            P = model.estimator_.predict_proba(np.vstack([row, less]))[:, 0]
            assert change == pytest.approx(np.log(P[0] / P[1]))
    assert model.explain(text, "card")


@pytest.mark.parametrize(
    "estimator",
    [
        KNeighborsClassifier(),
        RandomForestClassifier(5, random_state=0),
        MultiOutputClassifier(LogisticRegression()),
        OneVsRestClassifier(LogisticRegression()),
        ClassifierChain(LogisticRegression()),
    ],
    ids=str,
)
def test_several_labels_by_any_classifier(estimator):
    model = TextClassifier("words", estimator=estimator).fit(TEXTS, NAMES)
    Y = MultiLabelBinarizer().fit_transform(NAMES)
    rows = model.features_.transform([*NEW, "zz"])
    pipe = clone(estimator).fit(model.features_.transform(TEXTS), Y)
    P = pipe.predict_proba(rows)
    if isinstance(P, list):
        P = np.transpose([p[:, 1] for p in P])
    P[~np.asarray(rows.sum(axis=1)).ravel().astype(bool)] = Y.mean(axis=0)
    found = model.predict_proba([*NEW, "zz"])
    np.testing.assert_allclose(found, P, atol=1e-12)
    with np.errstate(divide="ignore"):
        log_proba = np.log(P)
    np.testing.assert_allclose(model.predict_log_proba([*NEW, "zz"]), log_proba)
    assert model.classes_.tolist() == sorted(set().union(*NAMES))
    assert model.score(TEXTS, NAMES) == clone(model).fit(TEXTS, Y).score(TEXTS, Y)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(5, random_state=0),
        KNeighborsClassifier(),
        OneVsRestClassifier(LogisticRegression()),
        MultiOutputClassifier(MultinomialNB()),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:Label.*is present in all:UserWarning")
def test_a_label_of_all_texts_and_a_label_of_no_text(estimator):
    Y = MultiLabelBinarizer().fit_transform(NAMES)
    Y[:, :2] = 1, 0
    model = TextClassifier("words", estimator=estimator).fit(TEXTS, Y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 3])
    P = model.predict_proba(NEW)
    np.testing.assert_array_equal(P[:, :2], np.tile([1.0, 0.0], (len(NEW), 1)))
    assert 0 < P[:, 2:].mean() < 1
    np.testing.assert_allclose(np.exp(model.predict_log_proba(NEW)), P)


def test_conventions():
    model = TextClassifier("words", min_df=3, C=2.0, random_state=0)
    assert is_classifier(model) and len(model.get_params(deep=False)) <= 10
    tags = get_tags(model)
    assert tags.input_tags.string and not tags.input_tags.two_d_array
    assert clone(model).get_params() == model.get_params()
    weight = np.where(np.arange(len(TEXTS)) < 200, 1.0, 0.0)
    model.fit(TEXTS, LABELS, sample_weight=weight)
    assert not hasattr(model, "n_features_in_")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
    threads = clone(model).set_params(n_jobs=2).fit(TEXTS, LABELS, weight)
    np.testing.assert_array_equal(threads.predict_proba(NEW), model.predict_proba(NEW))
    few = pd.Series(NEW, index=range(5, 5 + len(NEW)))
    np.testing.assert_array_equal(model.predict(few), model.predict(NEW))


class Lengths:
    """A transformer with the methods that are asked for, and no others."""

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return normalize([[len(text), text.count(" ") + 1] for text in X])


def test_a_vectorizer_may_learn_from_the_labels():
    texts, y = tickets(60)
    features = make_pipeline(TfidfVectorizer(), SelectKBest(chi2, k=4))
    model = TextClassifier(features, random_state=0).fit(texts, y)
    rows = features.fit_transform(texts, y)
    np.testing.assert_array_equal(
        model.features_[-1].get_support(), features[-1].get_support()
    )
    by_hand = clone(model._classifier()).fit(rows, y)
    known = np.flatnonzero(np.diff(rows.indptr))
    proba = model.predict_proba(texts)[known]
    np.testing.assert_allclose(proba, by_hand.predict_proba(rows)[known], rtol=1e-9)


def test_a_vectorizer_needs_no_fit_transform():
    model = TextClassifier(Lengths(), random_state=0).fit(TEXTS, LABELS)
    rows = Lengths().transform(TEXTS)
    expected = clone(model._classifier()).fit(rows, LABELS).predict_proba(rows)
    np.testing.assert_array_equal(model.predict_proba(TEXTS), expected)


@pytest.mark.parametrize("features", ["auto", "both", TfidfVectorizer()], ids=str)
def test_texts_of_arrow_are_those_of_lists(features, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setattr(_choice, "_MOST_AT_ONCE", 0)
    monkeypatch.setattr(_choice, "_MOST_TRIED", 100)
    model = TextClassifier(features, estimator=LogisticRegression())
    if isinstance(features, str):
        model = TextClassifier(features, random_state=0)
    of_lists = clone(model).fit(TEXTS, LABELS)
    of_arrow = model.fit(pa.array(TEXTS), pa.array(LABELS))
    new = pa.chunked_array([NEW[:3], NEW[3:]])
    np.testing.assert_array_equal(
        of_arrow.predict_proba(new), of_lists.predict_proba(NEW)
    )
    with pytest.raises(ValueError, match=r"X\[1\] must be a string, got null"):
        model.predict(pa.array(["a", None]))


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
@pytest.mark.parametrize("features", ["auto", "letters"])
def test_weights_that_are_negative(features, estimator):
    """Also if the estimator would take them, as the n-grams and priors do not."""
    model = TextClassifier(features, estimator=estimator, min_df=1)
    with pytest.raises(ValueError, match="^Negative values in data .*sample_weight"):
        model.fit(["ab", "cd"] * 30, [0, 1] * 30, sample_weight=[1, 1, -1] * 20)


@pytest.mark.parametrize("form", ["labels", "lists", "matrix"])
def test_a_text_of_weight_zero_is_as_if_absent(form):
    y = {"labels": np.array(LABELS), "lists": NAMES}.get(form)
    if form == "matrix":
        y = sp.csr_matrix(MultiLabelBinarizer().fit_transform(NAMES))
    weight = np.ones(len(TEXTS))
    weight[::3] = 0
    kept = np.flatnonzero(weight)
    rows = [y[i] for i in kept] if form == "lists" else y[kept]
    if form == "lists":  # a label of this text alone
        y = [{"rare"}, *y[1:]]
    model = TextClassifier("both", random_state=0)
    found = clone(model).fit(TEXTS, y, sample_weight=weight)
    expected = model.fit([TEXTS[i] for i in kept], rows, sample_weight=weight[kept])
    np.testing.assert_array_equal(found.classes_, expected.classes_)
    np.testing.assert_array_equal(found.predict_proba(NEW), expected.predict_proba(NEW))
    names = [m.features_.get_feature_names_out() for m in (found, expected)]
    np.testing.assert_array_equal(*names)
    with pytest.raises(ValueError, match="at least one non-zero"):
        clone(model).fit(TEXTS, y, sample_weight=0 * weight)


def test_a_vectorizer_without_names_explains_nothing():
    model = TextClassifier(
        HashingVectorizer(n_features=64), estimator=LogisticRegression()
    )
    model.fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="a HashingVectorizer does not name its n-gr"):
        model.explain(NEW[0])


def test_blocks_of_texts_do_not_change_answers(monkeypatch):
    one = TextClassifier("words", random_state=0).fit(TEXTS, LABELS)
    names = several(LABELS, TEXTS)
    Y = sp.csr_matrix(MultiLabelBinarizer().fit_transform(names))
    many = TextClassifier("words", random_state=0).fit(TEXTS, Y)
    methods = "predict", "predict_proba", "decision_function", "predict_top_k"
    before = [getattr(m, name)(NEW) for m in (one, many) for name in methods[:3]]
    top = one.predict_top_k(NEW, 2, return_log_proba=True)
    monkeypatch.setattr(_classifier, "_BLOCK", 7)
    after = [getattr(m, name)(NEW) for m in (one, many) for name in methods[:3]]
    for a, b in zip(before, after):
        if sp.issparse(a):
            a, b = a.toarray(), b.toarray()
        np.testing.assert_array_equal(a, b)
    for a, b in zip(top, one.predict_top_k(NEW, 2, return_log_proba=True)):
        np.testing.assert_array_equal(a, b)


def test_explain_is_the_change_of_the_log_probability():
    linear = LinearClassifier("log_loss", C=5.0, calibration=None, random_state=0)
    model = TextClassifier("words", estimator=linear).fit(TEXTS, LABELS)
    text, k = "please reset the password of my card", list(model.classes_).index("card")
    row = model.features_.transform([text])
    names = model.features_.get_feature_names_out()
    full = model.predict_log_proba([text])[0, k]
    found = dict(model.explain(text, "card", k=50))
    assert len(found) > 5
    for j in row.indices:
        less = row.copy()
        less[0, j] = 0
        change = full - model.estimator_.predict_log_proba(less)[0, k]
        assert found.get(names[j], 0.0) == pytest.approx(change, abs=1e-9)
    changes = [change for _, change in model.explain(text, "card", k=1)]
    assert len(changes) == 2 and changes[0] == max(found.values())
    assert changes[1] == min(found.values())
    best = model.predict([text])[0]
    with config_context(transform_output="pandas"):
        assert model.explain(text) == model.explain(text, best)
    assert model.explain("") == []
    for bad, match in (([text], "text must be one string"), (3, "got int")):
        with pytest.raises(ValueError, match=match):
            model.explain(bad)
    with pytest.raises(ValueError, match="label='x' is not in classes_"):
        model.explain(text, "x")
    with pytest.raises(ValueError, match="k must be"):
        model.explain(text, k=0)


def test_rows_of_both_are_joined_without_a_matrix_of_each_part(monkeypatch):
    model = TextClassifier("both", min_df=1, random_state=0).fit(TEXTS, LABELS)
    texts = ["", *NEW, "x", "card", ""]
    parts = [part.transform(texts) for _, part in model.features_.transformer_list]
    expected = sp.hstack(parts, format="csr") * np.float32(np.sqrt(0.5))
    monkeypatch.setattr(sp, "hstack", pytest.fail)
    monkeypatch.setattr(FeatureUnion, "get_params", pytest.fail)
    rows = rows_of(model.features_, as_texts(texts))
    assert rows.shape == expected.shape and rows.dtype == np.float32
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(expected, name))


@pytest.mark.parametrize("reduced", [False, True])
def test_explain_makes_few_rows_at_a_time(monkeypatch, reduced):
    model = TextClassifier("both", min_df=1, random_state=0).fit(TEXTS, LABELS)
    model = model.reduce() if reduced else model
    expected, sizes = model.explain(TEXTS[0], k=50), []
    answer = TextClassifier._given

    def given(self, method, rows):
        sizes.append(rows.shape[0])
        return answer(self, method, rows)

    monkeypatch.setattr(TextClassifier, "_given", given)
    monkeypatch.setattr(_classifier, "rows_per_block", lambda width: 3)
    assert model.explain(TEXTS[0], k=50) == expected
    assert max(sizes) == 3
    assert sum(sizes) == model.features_.transform(TEXTS[:1]).nnz + 1


@pytest.mark.parametrize("features", NAMED)
def test_explain_names_the_ngrams_of_the_text_alone(monkeypatch, features):
    model = TextClassifier(features, min_df=1, random_state=0).fit(TEXTS, LABELS)
    row = model.features_.transform(NEW[:1])
    names = set(model.features_.get_feature_names_out()[row.indices])
    monkeypatch.delattr(NgramVectorizer, "get_feature_names_out")
    found = model.explain(NEW[0], k=10**6)
    assert len(found) > 3 and {name for name, _ in found} <= names


def test_texts_without_ngrams_get_the_prior():
    some = TextClassifier("words", min_df=1).fit(["", "card", ""], ["a", "b", "a"])
    np.testing.assert_allclose(some.predict_proba([""]), [[2 / 3, 1 / 3]])
    assert some.predict([""]).tolist() == ["a"]


UNKNOWN = ["", "  \n", "\u3042", "\ud800\0"]
WEIGHT = np.where(LABELS == "travel", 2.5, 1.0)
WEIGHT[:40] = 0
BAYES = TextClassifier("words", estimator=MultinomialNB())
SPARSE_Y = MultiLabelBinarizer(sparse_output=True).fit_transform(NAMES)
# model, y, whether it can be reduced
PRIORS = {
    "letters": (TextClassifier("letters"), LABELS, True),
    "auto": (TextClassifier(), LABELS, True),
    "two classes": (TextClassifier("both"), LABELS == "card", True),
    "a tree": (
        TextClassifier("words", taxonomy=[["card", "login"], "travel"]), LABELS, True,
    ),
    "log_loss": (
        TextClassifier("words", estimator=LinearClassifier("log_loss")), LABELS, True,
    ),
    "of others": (BAYES, LABELS, False),
    "names": (TextClassifier("both"), NAMES, True),
    "sparse": (TextClassifier("words", threshold=0.2), SPARSE_Y, True),
    "dense": (TextClassifier("words", threshold="f1"), SPARSE_Y.toarray(), True),
    "inner": (TextClassifier("words", taxonomy={1: 0, 2: 0, 3: 0}), SPARSE_Y, False),
}  # fmt: skip


@pytest.mark.parametrize(*each_value(name=PRIORS, weight=[WEIGHT, None]))
def test_texts_without_ngrams_get_the_shares_of_the_labels(name, weight):
    model, y, can_reduce = PRIORS[name]
    model = clone(model).set_params(
        **{} if name == "of others" else {"random_state": 0}
    )
    model.fit(TEXTS, y, weight)
    several_labels = name in ("names", "sparse", "dense", "inner")
    Y = SPARSE_Y.toarray().astype(bool)
    if not several_labels:
        Y = np.asarray(y)[:, None] == np.unique(y)
    elif name == "inner":
        Y[:, 0] = Y.any(axis=1)
    prior = np.average(Y, axis=0, weights=weight)
    mixed = [TEXTS[0], *UNKNOWN, TEXTS[1]]
    models = [model]
    if can_reduce:
        models.append(model.reduce())
        if name != "two classes":  # labels that are not stored
            file = io.BytesIO()
            model.save(file)
            file.seek(0)
            models.append(TextClassifier.load(file))
    for one in models:
        np.testing.assert_allclose(one.class_prior_, prior)
        P = one.predict_proba(mixed)
        np.testing.assert_allclose(P[1:-1], np.tile(prior, (4, 1)))
        np.testing.assert_array_equal(P[[0, -1]], one.predict_proba(TEXTS[:2]))
        log_proba = one.predict_log_proba(mixed)
        np.testing.assert_allclose(log_proba[1:-1], np.tile(np.log(prior), (4, 1)))
        order = np.argsort(-prior, kind="stable")[:2]
        labels, found = one.predict_top_k(mixed, 2, return_log_proba=True)
        np.testing.assert_array_equal(
            labels[1:-1], np.tile(one.classes_[order], (4, 1))
        )
        np.testing.assert_allclose(found[1:-1], np.tile(np.log(prior[order]), (4, 1)))
        predicted, plain = one.predict(mixed), one.predict(TEXTS[:2])
        assert predicted.dtype == plain.dtype and type(predicted) is type(plain)
        if sp.issparse(predicted):
            predicted, plain = predicted.toarray(), plain.toarray()
        np.testing.assert_array_equal(predicted[[0, -1]], plain)
        right = one.classes_[prior.argmax()]
        if several_labels:
            right = prior > one.estimator_.threshold_
        np.testing.assert_array_equal(predicted[1:-1], np.array([right] * 4))
        # A text of one n-gram: without the n-gram the text is empty.
        word = "\u3042 card \u3042"
        if name not in ("letters", "auto", "two classes", "names"):
            label = one.classes_[0]
            ((ngram, change),) = one.explain(word, label)
            assert ngram == "card"
            full = one.predict_log_proba([word])[0, 0]
            assert change == pytest.approx(full - np.log(prior[0]), abs=1e-5)
        assert one.explain("\u3042") == []


@pytest.mark.parametrize("features", ["auto", "words"])
def test_shares_are_those_of_the_labels_that_the_classifier_knows(features):
    texts, few = ["aa bb", "bb cc", "cc dd"] * 6, TextClassifier(features, min_df=1)
    model = few.fit(texts, ["a", "1", "1"] * 6)
    assert model.classes_.tolist() == ["1", "a"]
    np.testing.assert_allclose(model.class_prior_, [2 / 3, 1 / 3])
    for classifier in LinearClassifier, LogisticRegression:
        estimator = classifier(class_weight={"a": 0, "b": 1, "c": 1})
        model = clone(few).set_params(estimator=estimator)
        P = model.fit(texts, ["a", "b", "c"] * 6).predict_proba(["zz", "cc"])
        np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-6)


def test_no_text_is_an_error_that_names_X():
    model = TextClassifier("letters", random_state=0).fit(TEXTS, LABELS)
    for method in ("predict", "predict_proba", "decision_function", "predict_top_k"):
        with pytest.raises(ValueError, match="X must hold at least one text"):
            getattr(model, method)([], *([2] if method == "predict_top_k" else []))
    with pytest.raises(ValueError, match="X must hold at least one text"):
        model.fit([], [])


def test_auto_with_too_few_texts_is_letters():
    model = TextClassifier(min_df=1).fit(["one text", "other words"], ["a", "b"])
    assert model.features_.analyzer == "char_wb"
    assert model.predict(["texts", "word"]).tolist() == ["a", "b"]
    letters = TextClassifier(min_df=1).fit(["x y", "z w"] * 5, ["a", "b"] * 5)
    assert letters.predict(["x", "w"]).tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="min_df=9 and max_df=1.0: of 2"):
        TextClassifier(min_df=9).fit(["x y", "z w"], ["a", "b"])
    with pytest.raises(ValueError, match="X holds no n-gram of analyzer=.word"):
        TextClassifier().fit(["x", "z"], ["a", "b"])
    with pytest.raises(ValueError, match="X holds no n-gram that .* set min_df=1"):
        TextClassifier("letters").fit(["x", "z"], ["a", "b"])


@pytest.mark.parametrize("features", [*NAMED, "auto"])
def test_one_class(features):
    model = TextClassifier(features, min_df=1).fit(["a b", "cd"], ["x", "x"])
    assert model.predict(["", "zz"]).tolist() == ["x", "x"]
    np.testing.assert_array_equal(model.predict_proba(["", "zz"]), [[1], [1]])


BAD_TEXTS = {
    "one string": ("a text", r"X must be a list of texts, got one str"),
    "bytes": (["a", b"b"], r"X\[1\] must be a string, got bytes; use text.decode"),
    "None": ([None, "a"], r"X\[0\] must be a string, got NoneType; use \"\""),
    "NaN": (["a", np.nan], r"X\[1\] must be a string, got float; use \"\""),
    "numbers": ([1, 2], r"X\[0\] must be a string, got int"),
    "a data frame": (
        pd.DataFrame({"t": ["a", "b"]}),
        r"got DataFrame: pass one column, such as X\['t'\], or in a ColumnTransformer "
        r"'t' instead of \['t'\]$",
    ),
    "a matrix": (
        np.array([["a"], ["b"]]),
        r"got ndarray: pass one column, such as X\[:, 0\]$",
    ),
    "a set": ({"a", "b"}, "got set: its order is not defined"),
    "a mapping": ({"a": "b"}, "X must be a list of texts, got dict"),
}


@pytest.mark.parametrize("bad", BAD_TEXTS)
def test_bad_texts(bad):
    X, match = BAD_TEXTS[bad]
    with pytest.raises(ValueError, match=match):
        TextClassifier("words").fit(X, ["a", "b"])
    model = TextClassifier("words", random_state=0).fit(TEXTS, LABELS)
    for method in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(ValueError, match=match):
            getattr(model, method)(X)
    with pytest.raises(ValueError, match=match):
        model.predict_top_k(X, 2)


def test_bad_labels_and_parameters():
    good = TextClassifier("words", min_df=1)
    two = ["one text", "other words"]
    for y, match in (
        (None, "y must hold the labels of the texts, got None"),
        (["a"], "inconsistent numbers of samples: 2 and 1"),
        (["a", None], r"y\[1\] is missing"),
        (["a", float("nan")], r"y\[1\] is missing \(nan\): .* 1 of 2 labels"),
        ((np.nan, "a"), r"y\[0\] is missing"),
        ([0.5, 1.5], "Unknown label type"),
    ):
        with pytest.raises(ValueError, match=match):
            good.fit(two, y)
    # Before the n-grams are learned:
    wrong = NgramVectorizer(analyzer="none")
    for y, weight, match in (
        (["a", None], None, r"y\[1\] is missing"),
        ([0.5, 1.5], None, "Unknown label type"),
        (["a", "b"], [1.0], "sample_weight"),
    ):
        with pytest.raises(ValueError, match=match):
            TextClassifier(wrong).fit(two, y, weight)
    linear = LinearClassifier()
    for parameters, match in (
        ({"features": "chars"}, "'features' parameter"),
        ({"min_df": -1}, "'min_df' parameter"),
        ({"C": 0}, "'C' parameter"),
        ({"features": "auto", "ngram_range": (1, 2)}, "or 'both', got 'auto'"),
        ({"features": NgramVectorizer(), "min_df": 1}, "min_df=1 is not used with"),
        ({"features": NgramVectorizer(), "ngram_range": (1, 1)}, "of the vectorizer"),
        ({"estimator": linear, "C": 2}, "C=2 is for the default estimator"),
        ({"estimator": linear, "taxonomy": "cut"}, "taxonomy='cut' is for the def"),
        ({"estimator": linear, "threshold": "f1"}, "threshold='f1' is for the def"),
        ({"ngram_range": (2, 1)}, "ngram_range must be"),
        ({"ngram_range": ()}, "ngram_range must be"),
        ({"min_df": 2}, "min_df=2 and max_df=1.0 leave no n-gram; lower min_df"),
    ):
        with pytest.raises(ValueError, match=match):
            clone(good).set_params(**parameters).fit(two, ["a", "b"])
    with pytest.raises(ValueError, match="X holds no n-gram"):
        good.fit(["", "a"], ["a", "b"])
    with pytest.raises(ValueError, match="not fitted yet"):
        good.predict(two)


def test_negative_weights_of_score_are_refused():
    model = TextClassifier("words", random_state=0).fit(TEXTS, NAMES)
    with pytest.raises(ValueError, match="sample_weight"):
        model.score(TEXTS, NAMES, sample_weight=-np.ones(len(TEXTS)))


def test_a_pipeline_gets_the_weights():
    weight = 1.0 + np.arange(len(TEXTS)) % 3
    last = LogisticRegression()
    model = TextClassifier("words", estimator=make_pipeline(MaxAbsScaler(), last))
    model.fit(TEXTS, LABELS, sample_weight=weight)
    rows = MaxAbsScaler().fit_transform(model.features_.transform(TEXTS))
    expected = LogisticRegression().fit(rows, LABELS, sample_weight=weight).coef_
    np.testing.assert_allclose(model.estimator_[-1].coef_, expected, rtol=1e-9)
