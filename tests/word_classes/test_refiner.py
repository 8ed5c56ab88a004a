"""ContextRefiner: what each column holds, and models over it."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import BernoulliNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from sklstruct import (
    KneserNeyLM,
    LanguageModel,
    StructuredLogLinearLM,
    SuffixTreeVectorizer,
)
from sklstruct.backoff import BackoffModel
from sklstruct.symbols import number_sentences
from sklstruct.word_classes import ContextRefiner, ExchangeClustering
from sklstruct.word_classes._refiner import PATHS

pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


def windows(seed=0, n=400, n_words=12, width=4):
    rng = np.random.default_rng(seed)
    text = rng.integers(n_words, size=n + width)
    text[1:] = np.where(rng.random(n + width - 1) < 0.6, text[:-1] + 1, text[1:])
    text %= n_words
    text[rng.random(text.size) < 0.1] = -1
    X = np.lib.stride_tricks.sliding_window_view(text, width)[:-1]
    keep = text[width:] >= 0
    return X[keep], text[width:][keep]


def refine_by_hand(refiner, X):
    """Each symbol of the path, by the definition."""
    known = set(refiner.symbols_.tolist())
    sizes = [c.n_clusters_ + 1 for c in refiner.clusterings_]
    out = []
    for row in X.tolist():
        line = []
        for c, position in refiner.path_:
            word = row[-position] if -1 not in row[-position:] else -1
            if word == -1:  # or something nearer is missing
                line.append(-1)
            elif c < 0:
                at = refiner.symbols_.tolist().index(word) if word in known else -1
                line.append(at)
            else:
                label = int(refiner.clusterings_[c].classes_of([word])[0])
                line.append(refiner.symbols_.size + sum(sizes[:c]) + label)
        out.append(line[::-1])
    return np.array(out)


@pytest.mark.parametrize(
    "path", ["c3(1) w(1) c3(2) w(2) c2(3)", "w(2) c2(1)", "w(1) c2(3) w(4)"]
)
def test_columns(path):
    X, y = windows()
    refiner = ContextRefiner(path, padding=-1).fit(X, y)
    new = np.random.default_rng(1).integers(-1, 20, size=(50, 4))  # unseen words too
    for Z in (X, new):
        out = refiner.transform(Z)
        assert out.dtype == np.int32
        assert np.array_equal(out, refine_by_hand(refiner, Z))
        assert out.max() < refiner.n_symbols_
    assert np.array_equal(refiner.fit_transform(X, y), refiner.transform(X))
    # Maps never share a symbol.
    ids = [set(column) - {-1} for column in refiner.transform(X).T]
    for i, j in zip(*np.triu_indices(len(ids), 1)):
        if refiner.path_[::-1][i][0] != refiner.path_[::-1][j][0]:
            assert not ids[i] & ids[j]


@pytest.mark.parametrize("sliding", [False, True])
def test_columns_one_at_a_time_are_those_of_transform(sliding):
    X, y = windows()
    X[::7, 1] = -1
    refiner = ContextRefiner("c3(1) w(1) c3(2) w(4) c5(3) w(3)", padding=-1).fit(X, y)
    new = np.random.default_rng(1).integers(-1, 15, (50, 4))  # with unseen words
    if sliding:
        new = np.lib.stride_tricks.sliding_window_view(new.ravel(), 4)
    for other in (X, new):
        columns = refiner.columns(other)
        np.testing.assert_array_equal(columns.windows(), refiner.transform(other))
        assert columns.windows().max() < refiner.n_symbols_


def test_equal_clusterings_are_fitted_once():
    X, y = windows()
    target = ExchangeClustering(3, offsets=(-1, 1))
    path = [(3, 1), ("word", 1), (ExchangeClustering(3), 2), (target, 2), (target, 3)]
    refiner = ContextRefiner(path, padding=-1).fit(X, y)
    assert len(refiner.clusterings_) == 2
    assert refiner.path_ == [(0, 1), (-1, 1), (0, 2), (1, 2), (1, 3)]
    assert refiner.get_feature_names_out().tolist() == [
        "c3'(3)", "c3'(2)", "c3(2)", "w(1)", "c3(1)"
    ]  # fmt: skip
    assert not hasattr(target, "labels_")  # cloned


def test_words_alone_change_nothing():
    """The path of words only is the plain model."""
    X, y = windows()
    plain = KneserNeyLM(padding=-1).fit(X, y)
    refined = make_pipeline(
        ContextRefiner("w(1) w(2) w(3) w(4)", padding=-1), KneserNeyLM(padding=-1)
    ).fit(X, y)
    np.testing.assert_allclose(
        refined.predict_proba(X), plain.predict_proba(X), rtol=1e-13
    )


@pytest.mark.parametrize(
    "model",
    [
        StructuredLogLinearLM(penalty="l2", lam=0.3, alpha=0.85, padding=-1),
        KneserNeyLM(padding=-1),
    ],
    ids=repr,
)
def test_rows_sum_to_one_and_paths_agree(model):
    X, y = windows()
    path = "c4(1) w(1) c4(2) w(2) c4(3) c4(4)"
    refiner = ContextRefiner(path, padding=-1)
    direct = make_pipeline(refiner, clone(model)).fit(X, y)
    new = np.random.default_rng(2).integers(-1, 16, size=(100, 4))
    rows = direct.predict_proba(new)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-12)
    vectorizer = SuffixTreeVectorizer(max_depth=6, padding=-1)
    paths = make_pipeline(clone(refiner), vectorizer, clone(model)).fit(X, y)
    np.testing.assert_allclose(paths.predict_proba(new), rows, atol=1e-6)


def test_no_leak_in_cross_validation():
    """Clusterings are fitted on the training part alone."""
    X, y = windows()
    seen = []

    class Spy(ExchangeClustering):
        def fit(self, X, y=None):
            seen.append(len(X))
            return super().fit(X, y)

    model = make_pipeline(
        ContextRefiner([(Spy(3), 1), ("word", 1)], padding=-1), KneserNeyLM(padding=-1)
    )
    cross_val_score(model, X, y, cv=4, scoring="accuracy")
    assert len(seen) == 4 and all(n < len(X) for n in seen)


def test_search_over_paths():
    X, y = windows()
    model = make_pipeline(
        ContextRefiner(padding=-1), KneserNeyLM(padding=-1, classes=np.unique(y))
    )
    search = GridSearchCV(
        model,
        {"contextrefiner__path": ["w(1)", "c3(1) w(1)"]},
        scoring="neg_log_loss",
        cv=3,
    )
    search.fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_strings_and_padding():
    X, y = windows()
    names = np.array([f"w{i:02d}" for i in range(12)] + [""])
    ids = ContextRefiner("c3(1) w(1) c3(2)", padding=-1).fit(X, y)
    text = ContextRefiner("c3(1) w(1) c3(2)", padding="").fit(names[X], names[y])
    assert np.array_equal(ids.transform(X), text.transform(names[X]))
    objects = names[X].astype(object)
    objects[X == -1] = None
    none = ContextRefiner("c3(1) w(1) c3(2)").fit(objects, names[y])
    assert np.array_equal(none.transform(objects), ids.transform(X))
    floats = np.where(X == -1, np.nan, X)
    nan = ContextRefiner("c3(1) w(1) c3(2)", padding=np.nan).fit(floats, y)
    assert np.array_equal(nan.transform(floats), ids.transform(X))


def test_named_paths():
    X, y = windows(n_words=150, n=3000)
    for name, text in PATHS.items():
        refiner = ContextRefiner(name, padding=-1).fit(X, y)
        assert list(refiner.get_feature_names_out())[::-1] == text.split()


class Bad(BaseEstimator):
    """A clustering whose classes are beyond what it says."""

    def fit(self, X, y=None):
        self.n_clusters_ = 2
        return self

    def classes_of(self, X):
        return np.full(np.shape(X), 3)


@pytest.mark.parametrize(
    "path, message",
    [
        ("", "path is empty"),
        ([], "path is empty"),
        ("c3(1) x(2)", r"path holds 'x\(2\)'"),
        ("c0(1)", "path holds"),
        ("w(0)", "path holds"),
        ("w(5)", "position 5, but the windows of X have 4"),
        ("w(1) c3(1) w(1)", r"path\[2\].*already"),
        ([("word", 0)], r"path\[0\]: the position"),
        ([("word", 1.5)], r"path\[0\]: the position"),
        ([("words", 1)], r"path\[0\] must begin with 'word'"),
        ([(ExchangeClustering, 1)], r"path\[0\] must begin"),
        (["w"], r"path\[0\] must be a pair"),
        ([(Bad(), 1)], "must be from 0 to"),
        ([(13, 1)], "n_clusters=13 is more than the 12"),
        ([(0, 1)], "n_clusters"),
    ],
)
def test_bad_paths(path, message):
    X, y = windows()
    with pytest.raises(ValueError, match=message):
        ContextRefiner(path, padding=-1).fit(X, y)


TEXT = [
    "the cat sat on the mat",
    "the dog sat on the rug",
    "a cat ran to the dog",
    "a dog ran to the cat",
    "the rug sat on a mat",
] * 4
PATH = "c4(1) w(1) c4(2) w(2) c4(3)"


def refined_model(*between, **params):
    model = StructuredLogLinearLM(penalty="l2", lam=0.3, alpha=0.85)
    return LanguageModel(
        make_pipeline(ContextRefiner(PATH), *between, model), max_depth=3, **params
    ).fit(TEXT)


@pytest.mark.parametrize("between", [(), (SuffixTreeVectorizer(max_depth=5),)])
def test_language_model_agrees_with_the_pipeline(between):
    """Compiled answers are those of the rows of the pipeline."""
    lm = refined_model(*between)
    predictor = lm.predictor
    assert isinstance(predictor.distribution, BackoffModel)
    new = ["the mat ran", "a zebra sat on the cat", ""]
    new = number_sentences([s.split() for s in new])
    windows, target = predictor.windows(new)
    rows = lm.estimator_.predict_log_proba(windows)
    expected = rows[np.arange(target.size), target]
    np.testing.assert_allclose(predictor.score(new)[0], expected, rtol=1e-12)
    np.testing.assert_allclose(
        predictor.model.rows(predictor.locate_text(windows)), rows, rtol=1e-12
    )
    sample = lm.sample(20, random_state=0)
    assert len(sample) == 20 and all("<unk>" not in s for s in sample)
    again = pickle.loads(pickle.dumps(lm))
    assert again.perplexity(TEXT) == lm.perplexity(TEXT)


def test_a_clustering_that_was_fitted_before():
    clustering = ExchangeClustering(4).fit(TEXT)
    frozen = FrozenEstimator(clustering)
    path = [(frozen, 1), ("word", 1), (frozen, 2)]
    lm = LanguageModel(
        make_pipeline(ContextRefiner(path), KneserNeyLM()), max_depth=2
    ).fit(TEXT[:3])
    refiner = lm.estimator_[0]
    assert len(refiner.clusterings_) == 1 and refiner.clusterings_[0].n_clusters_ == 4
    words = lm.predictor.encoder.labels.symbols
    assert np.array_equal(
        refiner.clusterings_[0].classes_of(np.arange(words.size)),
        clustering.classes_of(words),
    )
    assert np.isfinite(lm.perplexity(TEXT))
    assert pickle.loads(pickle.dumps(lm)).perplexity(TEXT) == lm.perplexity(TEXT)


def test_language_model_with_unknown_words():
    lm = refined_model(unknown=None, out_of_vocabulary="exclude")
    text = ["the zebra sat on the mat"]
    log_prob = lm.token_log_proba(text)[0]
    assert np.isnan(log_prob[1]) and np.isfinite(np.delete(log_prob, 1)).all()
    # The words after the unknown word have no history.
    alone = lm.estimator_.predict_log_proba(np.array([[-1, -1, -1]]))[0]
    sat = lm.vocabulary_.tolist().index("sat")
    assert log_prob[2] == pytest.approx(alone[sat], rel=1e-12)


def test_depths_are_steps_of_the_path():
    lm = refined_model()
    table = lm.perplexity_by_depth(TEXT)
    assert table.depth.tolist() == [0, 1, 2, 3, 4, 5]
    total = table.log_likelihood.sum() / table.n_tokens.sum()
    assert np.exp(-total) == pytest.approx(lm.perplexity(TEXT))


def test_arpa_is_refused_with_the_reason(tmp_path):
    lm = refined_model()
    with pytest.raises(AttributeError, match="paths of words and classes"):
        lm.save(tmp_path / "x.arpa")
    with pytest.raises(AttributeError, match="backoff_model_.*paths of words"):
        lm.backoff_model_  # noqa: B018
    assert not hasattr(lm, "backoff_model_")


def test_other_estimators_after_a_refiner():
    """A model without a back-off model is asked for its rows."""
    naive = make_pipeline(
        ContextRefiner("c4(1) w(1)"),
        FunctionTransformer(lambda X: X + 1),
        OneHotEncoder(handle_unknown="ignore"),
        BernoulliNB(),
    )
    lm = LanguageModel(naive, max_depth=2).fit(TEXT)
    assert np.isfinite(lm.perplexity(TEXT))
