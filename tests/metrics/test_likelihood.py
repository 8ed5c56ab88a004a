"""Likelihood metrics and scorers against brute force over full rows."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sklstruct import StructuredLogLinearLM, SuffixTreeVectorizer
from sklstruct.hmm import HighOrderHMM
from sklstruct.language_model import LanguageModel
from sklstruct.linear import LinearClassifier
from sklstruct.metrics import LikelihoodScorer, log_likelihood, perplexity
from sklstruct.smoothing import KneserNeyLM

NEG_PERPLEXITY = LikelihoodScorer("neg_perplexity")


def make_data(n=120, seed=0):
    """Windows and next symbols of skewed random text; rare symbols at places."""
    rng = np.random.default_rng(seed)
    p = 1 / np.arange(1, 13) ** 1.5
    text = np.array([f"s{i:02d}" for i in rng.choice(12, size=n + 2, p=p / p.sum())])
    return np.lib.stride_tricks.sliding_window_view(text, 2)[:n].copy(), text[2:]


def brute_force(estimator, X, y):
    """ln P(y_i | x_i) from full rows, None where y_i is not a class."""
    rows = estimator.predict_proba(X)
    classes = list(estimator.classes_)
    return [
        np.log(row[classes.index(t)]) if t in classes else None
        for row, t in zip(rows, y)
    ]


ESTIMATORS = {
    "window model": KneserNeyLM(discount=0.5),
    "log-linear pipeline": make_pipeline(
        SuffixTreeVectorizer(max_depth=2), StructuredLogLinearLM(lam=0.3)
    ),
    "collapsed pipeline": make_pipeline(
        SuffixTreeVectorizer(max_depth=2, collapse=True),
        StructuredLogLinearLM(penalty="tree_linf", alpha=1.0),
    ),
    "scikit-learn pipeline": make_pipeline(
        OneHotEncoder(handle_unknown="ignore"), LogisticRegression()
    ),
    "passthrough": make_pipeline("passthrough", KneserNeyLM(discount=0.5)),
    "one step": make_pipeline(KneserNeyLM(discount=0.5)),
    "search": GridSearchCV(
        KneserNeyLM(),
        {"discount": [0.3, 0.8]},
        cv=KFold(2),
        scoring=NEG_PERPLEXITY,
    ),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_metrics_against_brute_force(name):
    X, y = make_data()
    train = slice(0, 60)
    test = slice(60, 120)
    estimator = clone(ESTIMATORS[name]).fit(X[train], y[train])
    y_test = y[test].copy()
    y_test[[3, 17]] = "unheard"
    w = np.random.default_rng(1).integers(0, 3, size=60).astype(float)
    expected = brute_force(estimator, X[test], y_test)
    known = np.array([e is not None for e in expected])
    assert 0 < known.sum() < 60 - 1
    values = np.array([0.0 if e is None else e for e in expected])

    for weight in (None, w):
        v = np.ones(60) if weight is None else weight
        mean = np.sum((v * values)[known]) / v[known].sum()
        args = (estimator, X[test], y_test)
        got = log_likelihood(*args, sample_weight=weight)
        assert got == pytest.approx(mean, rel=1e-10)
        assert perplexity(*args, sample_weight=weight) == pytest.approx(np.exp(-mean))
        m = 0.2
        total = np.sum(v * np.where(known, values + np.log(1 - m), np.log(m)))
        assert log_likelihood(*args, sample_weight=weight, unknown=m) == pytest.approx(
            total / v.sum()
        )
    i = int(np.argmax(~known))
    with pytest.raises(ValueError, match=rf"the first is y\[{i}\]"):
        perplexity(estimator, X[test], y_test, unknown="error")
    assert perplexity(
        estimator, X[test][known], y_test[known], unknown="error"
    ) == pytest.approx(np.exp(-values[known].mean()))


def test_unknown_target_of_weight_zero_is_absent():
    X, y = make_data()
    model = KneserNeyLM(discount=0.5).fit(X, y)
    y = y.copy()
    y[0] = "unheard"
    w = np.ones(len(y))
    w[0] = 0
    assert log_likelihood(
        model, X, y, sample_weight=w, unknown="error"
    ) == log_likelihood(model, X[1:], y[1:])


def test_mass_sums_to_one():
    """P over the classes and one unknown symbol adds up to 1."""
    X, y = make_data()
    model = KneserNeyLM(discount=0.5).fit(X, y)
    targets = [*model.classes_.tolist(), "unheard"]
    p = [np.exp(log_likelihood(model, X[:1], [t], unknown=0.3)) for t in targets]
    assert sum(p) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("unknown", ["exclude", 0.05])
@pytest.mark.parametrize("name", ["window model", "log-linear pipeline"])
def test_folds_with_different_classes(name, unknown):
    X, y = make_data()
    cv = KFold(6)
    folds = list(cv.split(X))
    classes = [set(y[a]) for a, _ in folds]
    assert any(c != classes[0] for c in classes)
    assert any(set(y[b]) - set(y[a]) for a, b in folds)
    scorer = LikelihoodScorer("neg_perplexity", unknown=unknown)
    got = cross_val_score(ESTIMATORS[name], X, y, cv=cv, scoring=scorer)
    for (a, b), score in zip(folds, got):
        model = clone(ESTIMATORS[name]).fit(X[a], y[a])
        values = []
        for value in brute_force(model, X[b], y[b]):
            if unknown == "exclude":
                values += [value] if value is not None else []
            else:
                values.append(np.log(0.05 if value is None else 0.95 * np.exp(value)))
        assert score == pytest.approx(-np.exp(-np.mean(values)), rel=1e-9)


def test_grid_search_over_a_pipeline():
    X, y = make_data(200)
    pipeline = make_pipeline(SuffixTreeVectorizer(), StructuredLogLinearLM())
    grid = {
        "suffixtreevectorizer__max_depth": [1, 2],
        "structuredloglinearlm__lam": [0.1, 2.0],
        "structuredloglinearlm__alpha": [0.5, 1.0],
    }
    search = GridSearchCV(pipeline, grid, cv=KFold(3), scoring=NEG_PERPLEXITY)
    search.fit(X, y)
    table = search.cv_results_["mean_test_score"]
    assert np.isfinite(table).all() and (table < -1).all()
    assert search.best_score_ == table.max()
    assert search.score(X, y) == -perplexity(search, X, y)


def test_scorers_agree_with_functions():
    X, y = make_data()
    model = KneserNeyLM(discount=0.5).fit(X[:60], y[:60])
    assert LikelihoodScorer()(model, X, y) == log_likelihood(model, X, y)
    assert NEG_PERPLEXITY(model, X, y) == -perplexity(model, X, y)
    w = np.arange(120.0)
    for metric, function, sign in (
        ("log_likelihood", log_likelihood, 1),
        ("neg_perplexity", perplexity, -1),
    ):
        scorer = clone(LikelihoodScorer(metric, unknown=0.01))
        scorer = pickle.loads(pickle.dumps(scorer))
        assert scorer(model, X, y, sample_weight=w) == sign * function(
            model, X, y, sample_weight=w, unknown=0.01
        )
        assert "0.01" in repr(scorer)
    many = cross_validate(
        KneserNeyLM(discount=0.5),
        X,
        y,
        cv=KFold(3),
        scoring={"neg_perplexity": NEG_PERPLEXITY, "nats": LikelihoodScorer()},
    )
    np.testing.assert_allclose(-np.log(-many["test_neg_perplexity"]), many["test_nats"])


def test_metadata_routing_of_sample_weight():
    X, y = make_data()
    w = np.random.default_rng(0).uniform(0.1, 3, size=120)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = clone(NEG_PERPLEXITY).set_score_request(sample_weight=True)
        model = KneserNeyLM(discount=0.5).set_fit_request(sample_weight=True)
        got = cross_validate(
            model, X, y, cv=KFold(3), scoring=scorer, params={"sample_weight": w}
        )["test_score"]
        unweighted = cross_validate(
            model,
            X,
            y,
            cv=KFold(3),
            scoring=clone(NEG_PERPLEXITY).set_score_request(sample_weight=False),
            params={"sample_weight": w},
        )["test_score"]
    for (a, b), weighted, plain in zip(KFold(3).split(X), got, unweighted):
        fold = KneserNeyLM(discount=0.5).fit(X[a], y[a], sample_weight=w[a])
        assert weighted == -perplexity(fold, X[b], y[b], sample_weight=w[b])
        assert plain == -perplexity(fold, X[b], y[b])


def test_language_model_takes_no_targets():
    text = ["a b c", "b a", "a a b", "c a b", "", "b"]
    model = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2).fit(text)
    assert log_likelihood(model, text) == pytest.approx(model.score(text))
    assert perplexity(model, text) == pytest.approx(model.perplexity(text))
    w = np.array([1, 2, 0, 1, 3, 1])
    assert log_likelihood(model, text, sample_weight=w) == pytest.approx(
        model.score(text, sample_weight=w)
    )
    scores = cross_val_score(model, text, cv=3, scoring=NEG_PERPLEXITY)
    np.testing.assert_allclose(scores, -np.exp(-cross_val_score(model, text, cv=3)))
    search = GridSearchCV(
        model, {"max_depth": [1, 2]}, cv=3, scoring=NEG_PERPLEXITY
    ).fit(text)
    assert perplexity(search, text) == pytest.approx(-search.score(text))
    closed = LanguageModel(
        KneserNeyLM(discount=0.5), unknown=None, out_of_vocabulary="exclude"
    ).fit(text)
    test = ["a new b", "c"]
    value = perplexity(closed, test)
    assert value == pytest.approx(closed.perplexity(test))
    assert perplexity(closed, test, unknown=0.1) > value
    with pytest.raises(ValueError, match="1 targets are unknown"):
        perplexity(closed, test, unknown="error")
    with pytest.raises(ValueError, match="X is empty"):
        perplexity(model, [])


class Rows(ClassifierMixin, BaseEstimator):
    """Uniform over many classes; counts the rows asked for at once."""

    def __init__(self, n_classes=10_000):
        self.n_classes = n_classes

    def fit(self, X, y):
        self.classes_ = np.arange(self.n_classes)
        self.largest_ = 0
        return self

    def predict_proba(self, X):
        self.largest_ = max(self.largest_, len(X))
        return np.full((len(X), self.n_classes), 1 / self.n_classes)


def test_generic_estimators_are_asked_in_blocks():
    n, v = 5000, 10_000
    y = np.random.default_rng(0).integers(0, v, size=n)
    X = np.zeros((n, 1))
    model = Rows(v).fit(X, y)
    tracemalloc.start()
    value = perplexity(model, X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert value == pytest.approx(v)
    assert model.largest_ < n
    assert peak < 8 * n * v / 2


def test_own_models_never_make_rows(monkeypatch):
    X, y = make_data()
    pipeline = clone(ESTIMATORS["log-linear pipeline"]).fit(X, y)

    def fail(self, X):
        raise AssertionError("full rows were asked for")

    monkeypatch.setattr(StructuredLogLinearLM, "predict_log_proba", fail)
    monkeypatch.setattr(StructuredLogLinearLM, "predict_proba", fail)
    assert perplexity(pipeline, X, y) > 1


@pytest.mark.parametrize("container", ["frame", "sparse", "list"])
def test_containers(container):
    import pandas as pd
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    y = rng.choice(["a", "b", "c"], size=50)
    scale = StandardScaler(with_mean=False)
    model = make_pipeline(scale, LogisticRegression())
    value = perplexity(model.fit(X, y), X, y)
    data = {
        "frame": pd.DataFrame(X, columns=list("abc")),
        "sparse": sp.coo_array(X),
        "list": X.tolist(),
    }[container]
    assert perplexity(model.fit(data, y), data, list(y)) == pytest.approx(value)
    last = LogisticRegression().fit(data, y)
    assert perplexity(last, data, pd.Series(y)) == pytest.approx(
        perplexity(LogisticRegression().fit(X, y), X, y)
    )


def test_unsorted_classes_are_aligned():
    class Reversed(DummyClassifier):
        def fit(self, X, y):
            super().fit(X, y)
            self.classes_ = self.classes_[::-1]
            return self

        def predict_proba(self, X):
            return np.tile([0.7, 0.2, 0.1], (len(X), 1))

        def predict_log_proba(self, X):
            return np.log(self.predict_proba(X))

    model = Reversed().fit([[0]] * 3, ["a", "b", "c"])
    assert perplexity(model, [[0]], ["c"]) == pytest.approx(1 / 0.7)
    assert perplexity(model, [[0]], ["a"]) == pytest.approx(10)


def test_probability_zero():
    model = DummyClassifier(strategy="most_frequent").fit([[0]] * 3, ["a", "a", "b"])
    assert log_likelihood(model, [[0]], ["b"]) == -np.inf
    assert perplexity(model, [[0]], ["b"]) == np.inf
    assert perplexity(model, [[0]] * 2, ["b", "a"], sample_weight=[0, 1]) == 1.0


@pytest.mark.parametrize("unknown", ["drop", 0, 1, 1.5, -0.1, None, True, np.nan])
def test_bad_unknown(unknown):
    X, y = make_data(20)
    model = KneserNeyLM(discount=0.5).fit(X, y)
    for function in (log_likelihood, perplexity):
        with pytest.raises(ValueError, match="'unknown' parameter of"):
            function(model, X, y, unknown=unknown)
    with pytest.raises(ValueError, match="'unknown' parameter of"):
        LikelihoodScorer(unknown=unknown)
    with pytest.raises(ValueError, match="'metric' parameter of"):
        LikelihoodScorer("perplexity")


@pytest.mark.parametrize("metric", ["log_likelihood", "neg_perplexity"])
def test_several_labels_and_sequences_have_no_likelihood(metric):
    X, Y = np.eye(3)[[0, 1, 2] * 4], np.eye(3, dtype=int)[[1, 0, 2] * 4]
    several, words = LinearClassifier().fit(X, Y), [["a", "b"], ["b"]] * 4
    tags = [["x", "y"], ["y"]] * 4
    tagger = HighOrderHMM(2).fit(words, tags)
    series = pd.Series(tags)
    for model, samples, targets in (
        *((several, X, y) for y in (Y, Y.tolist(), pd.DataFrame(Y), sp.csr_matrix(Y))),
        *((tagger, words, y) for y in (tags, series, series.to_numpy())),
        (tagger, words[::2], tags[::2]),
    ):
        with pytest.raises(ValueError, match="^y must hold one target for each sample"):
            LikelihoodScorer(metric)(model, samples, targets)
    for y in (np.ones((12, 1), dtype=int), [[1]] * 12):  # labels of columns
        assert log_likelihood(several, X, y) < 0


def test_bad_input():
    from sklearn.exceptions import NotFittedError
    from sklearn.svm import LinearSVC

    X, y = make_data(20)
    model = KneserNeyLM(discount=0.5).fit(X, y)
    with pytest.raises(ValueError, match="all are unknown"):
        perplexity(model, X[:2], ["x", "y"])
    with pytest.raises(ValueError, match="pass the targets"):
        perplexity(model, X)
    with pytest.raises(ValueError, match="sample_weight"):
        perplexity(model, X, y, sample_weight=-np.ones(20))
    with pytest.raises(ValueError, match="sample_weight sums to inf"):
        perplexity(model, X, y, sample_weight=np.full(20, 1e308))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        perplexity(model, X, y[:5])
    dummy = DummyClassifier().fit(X, y)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        perplexity(dummy, X, y[:5])
    with pytest.raises(
        TypeError, match="estimator must give probabilities, but LinearSVC has"
    ):
        perplexity(LinearSVC().fit([[0], [1]], [0, 1]), [[0]], [0])
    for estimator in (KneserNeyLM(), DummyClassifier(), ESTIMATORS["one step"]):
        with pytest.raises(NotFittedError):
            perplexity(clone(estimator), X, y)
