"""LanguageModel against hand-computed values, brute force and kenlm."""

import itertools
import math
import pickle
import subprocess
import sys
import warnings

import joblib
import numpy as np
import pytest
from _callbacks import needs_callbacks
from _cases import all_pairs, each_value
from _loglinear import loglinear
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from sklstruct import StructuredLogLinearLM, SuffixTreeVectorizer
from sklstruct.language_model import LanguageModel
from sklstruct.language_model._predictors import TextPredictor
from sklstruct.mixture import MixtureLM
from sklstruct.smoothing import AdditiveLM, AdditiveUnigram, KneserNeyLM, WittenBellLM
from sklstruct.symbols import SentenceEncoder, number_sentences

CATS = ["the cat sat", "the dog sat", "the cat ran"]


def make_text(n_sentences=60, n_words=9, seed=0):
    """Sentences with skewed words, repeated phrases and some empty lines."""
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(n_words)]
    p = 1 / np.arange(1, n_words + 1)
    text = []
    for _ in range(n_sentences):
        length = rng.integers(0, 8)
        text.append(" ".join(rng.choice(words, size=length, p=p / p.sum())))
    return text


def kneser_ney(**params):
    # Fixed discounts: no warning about the few counts of small corpora.
    return KneserNeyLM(discount=0.6, **params)


class Opaque(ClassifierMixin, BaseEstimator):
    """A plain classifier to LanguageModel, one of ours inside."""

    def __init__(self, estimator=None, padding=None, classes=None, log=True):
        self.estimator = estimator
        self.padding = padding
        self.classes = classes
        self.log = log

    def fit(self, X, y, sample_weight=None):
        assert X.shape[0] == len(y) and (np.asarray(y) >= 0).all()
        self.model_ = clone(self.estimator).set_params(
            padding=self.padding, classes=self.classes
        )
        self.model_.fit(X, y, sample_weight=sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)

    def __sklstruct_ids__(self, labels):
        return {"padding": -1, "classes": np.arange(labels.n_classes)}


def windows_of(model, text):
    """(windows of ids, next id) of every position of sentences."""
    encoder = SentenceEncoder(model._labels)
    predictor = TextPredictor(model.estimator_, encoder, model.max_depth)
    windows, symbol = predictor.windows(number_sentences([s.split() for s in text]))
    return windows.array, symbol


def by_brute_force(model, sentences):
    """ln P of every token, one at a time, by full rows of the BackoffModel."""
    backoff = model.backoff_model_
    classes = model.vocabulary_.tolist()
    out = []
    for sentence in sentences:
        words = sentence.split() if isinstance(sentence, str) else list(sentence)
        words = [w if w in classes else model.unknown for w in words]
        history = [] if model.start is None else [model.start]
        row = []
        for w in words + ([] if model.end is None else [model.end]):
            recent = history[-model.max_depth :]
            ids = backoff.labels.encode_contexts(np.array([recent], dtype=object))
            log_proba = backoff.rows(backoff.locate(ids))[0]
            row.append(log_proba[classes.index(w)])
            history.append(w)
        out.append(np.array(row))
    return out


# ------------------------------------------------------------- hand-computed


def test_add_delta_by_hand():
    model = LanguageModel(AdditiveLM(delta=0.1), max_depth=1).fit(CATS)
    assert model.vocabulary_.tolist() == [
        "cat", "dog", "ran", "sat", "the", "<unk>", "</s>"
    ]  # fmt: skip
    v = 7

    def p(count, total):
        return (count + 0.1) / (total + 0.1 * v)

    expected = [p(3, 3), p(2, 3), p(1, 2), p(1, 1)]  # the cat ran </s>
    got = model.token_log_proba(["the cat ran"])[0]
    np.testing.assert_allclose(got, np.log(expected), rtol=1e-12)
    assert model.score(["the cat ran"]) == pytest.approx(np.log(expected).mean())
    # "mouse" is <unk>, of count 0 after "the"; nothing is known after <unk>: the
    # root, where 12 tokens were seen, 2 of them "sat".
    expected = [p(3, 3), p(0, 3), p(2, 12), p(2, 2)]
    got = model.token_log_proba([["the", "mouse", "sat"]])[0]
    np.testing.assert_allclose(got, np.log(expected), rtol=1e-12)


def test_first_word_after_the_start_mark_and_empty_sentences():
    model = LanguageModel(AdditiveLM(delta=0.5), max_depth=2).fit(["a", "", "b a", ""])
    # <s> was followed by a, </s>, b, </s>; classes a, b, <unk>, </s>.
    got = model.token_log_proba(["", "a"])
    assert [len(g) for g in got] == [1, 2]
    np.testing.assert_allclose(got[0], np.log([2.5 / 6]))
    np.testing.assert_allclose(got[1][0], np.log(1.5 / 6))


def test_min_count_maps_rare_words_to_unknown():
    model = LanguageModel(AdditiveLM(delta=0.1), max_depth=1, min_count=2).fit(CATS)
    assert model.vocabulary_.tolist() == ["cat", "sat", "the", "<unk>", "</s>"]
    same = LanguageModel(AdditiveLM(delta=0.1), max_depth=1).fit(
        ["the cat sat", "the <unk> sat", "the cat <unk>"]
    )
    text = ["the dog ran", "the cat mouse"]
    np.testing.assert_array_equal(model.score_samples(text), same.score_samples(text))


# ------------------------------------------------------- equality of routes


@pytest.mark.parametrize(
    *all_pairs(max_depth=[1, 3], end=["</s>", None], start=["<s>", None])
)
def test_score_is_the_sum_of_the_back_off_models_rows(start, end, max_depth):
    text = make_text()
    model = LanguageModel(
        kneser_ney(), max_depth=max_depth, start=start, end=end, min_count=3
    ).fit(text[:40])
    test = [*text[40:], "w0 new w1 w0 new new w2", "new", ""]
    expected = by_brute_force(model, test)
    got = model.token_log_proba(test)
    assert [len(g) for g in got] == [len(e) for e in expected]
    for g, e in zip(got, expected):
        np.testing.assert_allclose(g, e, rtol=1e-12)
    np.testing.assert_allclose(
        model.score_samples(test), [e.sum() for e in expected], rtol=1e-12
    )
    flat = np.concatenate(expected)
    assert model.score(test) == pytest.approx(flat.mean(), rel=1e-12)
    assert model.perplexity(test) == pytest.approx(np.exp(-flat.mean()), rel=1e-12)


@pytest.mark.parametrize(*each_value(max_depth=[1, 2, 4], start=["<s>", None]))
def test_generic_route_equals_fast_route(max_depth, start):
    text = make_text()
    params = {"max_depth": max_depth, "min_count": 3, "start": start}
    fast = LanguageModel(kneser_ney(), **params).fit(text[:40])
    slow = LanguageModel(Opaque(kneser_ney()), **params).fit(text[:40])
    assert hasattr(fast, "backoff_model_") and not hasattr(slow, "backoff_model_")
    test = [*text[40:], "w0 new w1", ""]
    np.testing.assert_allclose(
        slow.score_samples(test), fast.score_samples(test), rtol=1e-12
    )
    for context in ["", "w0", "w1 new w0 w1", "w0 w1 w0 w0 w1 w2"]:
        a, b = fast.predict_next(context, 4), slow.predict_next(context, 4)
        assert [w for w, _ in a] == [w for w, _ in b]
        np.testing.assert_allclose([p for _, p in a], [p for _, p in b])
    assert slow.perplexity(test, include_end=False) == pytest.approx(
        fast.perplexity(test, include_end=False)
    )


@pytest.mark.parametrize("collapse", [False, True])
def test_pipeline_equals_windows(collapse, tmp_path):
    text = make_text()
    model = loglinear(penalty="l2", alpha=1.0, lam=0.3, tol=1e-9)
    direct = LanguageModel(model, max_depth=3).fit(text[:40])
    piped = LanguageModel(
        make_pipeline(SuffixTreeVectorizer(max_depth=3, collapse=collapse), model),
        max_depth=3,
    ).fit(text[:40])
    test = [*text[40:], "w0 new w1 w0", "w7 w8 w8 w0 w8 w1", ""]
    tol = {"rtol": 1e-4 if collapse else 1e-10}
    np.testing.assert_allclose(
        piped.score_samples(test), direct.score_samples(test), **tol
    )
    # The fast route over the renamed tree is what the pipeline itself predicts.
    windows, symbol = windows_of(piped, test)
    log_proba = piped.estimator_.predict_log_proba(windows)
    np.testing.assert_allclose(
        np.concatenate(piped.token_log_proba(test)),
        log_proba[np.arange(symbol.size), symbol],
        rtol=1e-12,
    )
    piped.save(tmp_path / "piped.arpa", precision=12)
    read = LanguageModel.load(tmp_path / "piped.arpa")
    np.testing.assert_allclose(
        read.score_samples(test), piped.score_samples(test), rtol=1e-9
    )


def test_scikit_learn_classifier_over_one_hot_windows():
    text = make_text()
    estimator = make_pipeline(
        OneHotEncoder(handle_unknown="ignore"), LogisticRegression()
    )
    model = LanguageModel(estimator, max_depth=2).fit(text[:40])
    windows, symbol = windows_of(model, text[40:])
    rows = model.estimator_.predict_log_proba(windows)
    classes = model.estimator_.classes_.tolist()
    expected = [row[classes.index(s)] for row, s in zip(rows, symbol)]
    assert model.score(text[40:]) == pytest.approx(np.mean(expected))
    # It never saw <unk> as a target: probability 0, said plainly.
    assert model.score(["new"]) == -math.inf
    assert model.perplexity(["w0 new"]) == math.inf
    assert math.isfinite(model.perplexity(["w0 new"], include_unknown=False))
    assert sum(p for _, p in model.predict_next("w0", 100)) == pytest.approx(1)
    with pytest.raises(
        AttributeError, match=r"^save needs a model that is a BackoffModel; joblib.dump"
    ):
        model.save("unused.arpa")
    with pytest.raises(AttributeError, match="needs one tree of contexts"):
        model.perplexity_by_depth(text)


def test_blocks_of_the_generic_route(monkeypatch):
    from sklstruct import _parallel

    text = make_text()
    model = LanguageModel(DecisionTreeClassifier(random_state=0), max_depth=2)
    model.fit(text)
    whole = model.score_samples(text)
    monkeypatch.setattr(_parallel, "BLOCK_BYTES", 1)  # a row at a time
    np.testing.assert_array_equal(model.score_samples(text), whole)


def test_score_does_not_depend_on_the_batch():
    text = make_text()
    model = LanguageModel(kneser_ney(), max_depth=3).fit(text)
    whole = model.score_samples(text)
    alone = [model.score_samples([s])[0] for s in text]
    np.testing.assert_array_equal(whole, alone)


# ------------------------------------------------------ perplexity conventions


def test_perplexity_conventions_against_brute_force():
    text = make_text()
    model = LanguageModel(kneser_ney(), max_depth=2, min_count=4).fit(text[:40])
    test = [*text[40:], "new w0 new", ""]
    classes = set(model.vocabulary_.tolist())
    rows = by_brute_force(model, test)
    n_end = len(test)
    n_unknown = sum(w not in classes for s in test for w in s.split())
    for include_end, include_unknown in itertools.product([True, False], repeat=2):
        kept = []
        for sentence, row in zip(test, rows):
            for w, value in zip([*sentence.split(), None], row):
                if w is None and not include_end:
                    continue
                if w is not None and w not in classes and not include_unknown:
                    continue
                kept.append(value)
        value, counts = model.perplexity(
            test,
            include_end=include_end,
            include_unknown=include_unknown,
            return_counts=True,
        )
        assert value == pytest.approx(np.exp(-np.mean(kept)), rel=1e-12)
        assert counts == {
            "n_counted": len(kept), "n_end": n_end, "n_unknown": n_unknown
        }  # fmt: skip
        table = model.perplexity_by_depth(
            test, include_end=include_end, include_unknown=include_unknown
        )
        assert table.n_tokens.sum() == len(kept)
        assert table.log_likelihood.sum() == pytest.approx(np.sum(kept))
    assert (table.depth == [0, 1, 2]).all()
    seen = table.n_tokens > 0
    np.testing.assert_allclose(
        table.perplexity[seen], np.exp(-table.log_likelihood / table.n_tokens)[seen]
    )


def test_matched_depth_is_that_of_the_longest_seen_ngram():
    model = LanguageModel(kneser_ney(), max_depth=2).fit(["a b c", "b c"])
    table = model.perplexity_by_depth(["a b c"])
    # Longest: "<s> a", "<s> a b", "a b c", "b c </s>".
    assert table.n_tokens.tolist() == [0, 1, 3]
    table = model.perplexity_by_depth(["c a"])
    # Not even a bigram: "<s> c", "c a", "a </s>".
    assert table.n_tokens.tolist() == [3, 0, 0]


def test_unknown_word_in_the_text_is_the_unknown_class():
    model = LanguageModel(kneser_ney(), max_depth=2).fit(["a <unk> b", "a b"])
    assert model.vocabulary_.tolist() == ["a", "b", "<unk>", "</s>"]
    assert model.score(["a zebra b"]) == model.score(["a <unk> b"])


def test_unseen_unknown_has_small_positive_probability():
    for estimator in (kneser_ney(), StructuredLogLinearLM(), AdditiveLM(delta=0.1)):
        model = LanguageModel(estimator, max_depth=2).fit(CATS)
        table = dict(model.predict_next("the", 100))
        assert sum(table.values()) == pytest.approx(1, abs=1e-12)
        assert 0 < table["<unk>"] <= min(table.values()) + 1e-15


# ------------------------------------------------------------ out of vocabulary


def test_unknown_none_excludes_or_raises():
    model = LanguageModel(kneser_ney(), max_depth=2, unknown=None).fit(CATS)
    assert "<unk>" not in model.vocabulary_.tolist()
    with pytest.raises(ValueError, match=r"'mouse' of sentence 1.*out_of_vocabulary"):
        model.score(["the cat", "the mouse"])
    model.set_params(out_of_vocabulary="exclude")
    test = ["the cat", "the mouse sat"]
    rows = model.token_log_proba(test)
    assert np.isnan(rows[1]).tolist() == [False, True, False, False]
    flat = np.concatenate(rows)
    assert model.score(test) == pytest.approx(np.nanmean(flat))
    value, counts = model.perplexity(test, return_counts=True)
    assert value == pytest.approx(np.exp(-np.nanmean(flat)))
    assert (counts.n_counted, counts.n_unknown) == (6, 1)
    # The unknown word ends the history of "sat".
    backoff = model.backoff_model_
    sat = backoff.target([0], backoff.labels.encode_targets(["sat"]))
    assert rows[1][2] == pytest.approx(sat[0])
    np.testing.assert_allclose(model.score_samples(test), [np.nansum(r) for r in rows])
    with pytest.raises(ValueError, match="no token to score"):
        LanguageModel(
            kneser_ney(), unknown=None, end=None, out_of_vocabulary="exclude"
        ).fit(CATS).score(["mouse"])


def test_closed_vocabulary():
    words = ["the", "cat", "sat", "zebra"]
    model = LanguageModel(kneser_ney(), vocabulary=words).fit(CATS)
    assert model.vocabulary_.tolist() == ["cat", "sat", "the", "zebra", "<unk>", "</s>"]
    assert dict(model.predict_next("the", 10))["zebra"] > 0
    assert model.score(["the dog"]) == model.score(["the <unk>"])
    with pytest.raises(
        ValueError, match=r"'dog' of sentence 1 is not in the vocabulary"
    ):
        LanguageModel(kneser_ney(), vocabulary=["the", "cat", "sat"], unknown=None).fit(
            CATS
        )
    again = LanguageModel(kneser_ney(), vocabulary=np.array(words)).fit(CATS)
    assert again.score(CATS) == model.score(CATS)


@pytest.mark.parametrize("rule", [{"min_count": 2}, {"max_vocabulary": 3}])
def test_counts_choose_from_a_given_vocabulary(rule):
    text = ["a b c a b", "a b d", "a c", "d d e"]  # a, b and d occur three times
    model = LanguageModel(WittenBellLM(), vocabulary=["a", "b", "c", "e"], **rule)
    alone = LanguageModel(WittenBellLM()).fit(
        [" ".join(w if w in "abc" else "<unk>" for w in s.split()) for s in text]
    )
    scores = alone.score_samples(text)
    np.testing.assert_allclose(model.fit(text).score_samples(text), scores)
    counted = model.count(text)
    np.testing.assert_allclose(model.fit(counted).score_samples(text), scores)
    with pytest.raises(ValueError, match="another vocabulary.*'c'"):
        clone(model).set_params(vocabulary=["a", "b"]).fit(counted)


# --------------------------------------------------------------- other symbols


@pytest.mark.parametrize(
    "rename",
    [
        int,
        lambda i: ("tag", i),
        lambda i: float(i) / 2,
        lambda i: [str(i), int(i)][i % 2],
    ],
    ids=["int", "tuple", "float", "mixed"],
)
def test_any_hashable_symbols(rename):
    text = [[int(w[1:]) for w in s.split()] for s in make_text()]
    plain = [[f"w{i}" for i in s] for s in text]
    renamed = [[rename(i) for i in s] for s in text]
    a = LanguageModel(kneser_ney(), max_depth=3).fit(plain)
    b = LanguageModel(kneser_ney(), max_depth=3).fit(renamed)
    np.testing.assert_allclose(
        a.score_samples(plain), b.score_samples(renamed), rtol=1e-12
    )
    words = {w for s in renamed for w in s}
    assert all(w in words for s in b.sample(5, random_state=0) for w in s)


def test_symbols_of_arrays_come_back_as_python_objects():
    model = LanguageModel(kneser_ney()).fit(np.array([[1, 2, 3], [1, 3, 2]]))
    assert all(type(w) in (int, str) for w in model.vocabulary_)
    assert model.predict_next(np.array([1]), 1)[0][0] in (2, 3)
    with pytest.raises(TypeError, match="sentence 0 must be"):
        model.fit(np.array([1, 2, 3]))
    with pytest.raises(TypeError, match="an iterable of sentences"):
        model.fit(np.array("a b"))


def test_input_containers_are_equal():
    import pandas as pd

    text = [s for s in make_text() if s]
    expected = LanguageModel(kneser_ney()).fit(text).score(text)
    for make in (
        tuple,
        iter,
        np.array,
        lambda t: np.array(t, dtype=object),
        pd.Series,
        lambda t: (s.split() for s in t),
        lambda t: [iter(s.split()) for s in t],
        lambda t: [np.array(s.split()) for s in t],
    ):
        model = LanguageModel(kneser_ney()).fit(make(text))
        assert model.score(make(text)) == pytest.approx(expected, rel=1e-12)


# ------------------------------------------------------------------- sampling


@pytest.mark.parametrize("opaque", [False, True])
def test_sampling_frequencies(opaque):
    estimator = kneser_ney()
    model = LanguageModel(Opaque(estimator) if opaque else estimator, max_depth=2)
    model.fit(["a b", "a c", "b", ""])
    n = 20_000
    drawn = model.sample(n, max_length=2, allow_unknown=True, random_state=0)
    first = dict(model.predict_next((), 10))
    for symbol, p in first.items():
        if symbol == "</s>":
            count = sum(not s for s in drawn)
        else:
            count = sum(s[:1] == [symbol] for s in drawn)
        assert abs(count - n * p) < 5 * np.sqrt(n * p * (1 - p)) + 1
    after = [s for s in drawn if s[:1] == ["a"]]
    second = dict(model.predict_next("a", 10))
    for symbol, p in second.items():
        if symbol == "</s>":
            count = sum(len(s) == 1 for s in after)
        else:
            count = sum(s[1:2] == [symbol] for s in after)
        assert abs(count - len(after) * p) < 5 * np.sqrt(len(after) * p * (1 - p)) + 1


def test_sampling_is_reproducible_and_bounded():
    text = make_text()
    model = LanguageModel(kneser_ney(), max_depth=3).fit(text)
    assert model.sample(4, random_state=3) == model.sample(4, random_state=3)
    assert model.sample(4, random_state=3) != model.sample(4, random_state=4)
    assert model.sample(0) == []
    assert model.sample(2, max_length=0) == [[], []]
    assert all(len(s) <= 3 for s in model.sample(50, max_length=3, random_state=0))
    for s in model.sample(3, prefix="w0 w1", random_state=0):
        assert s[:2] == ["w0", "w1"]
    endless = LanguageModel(kneser_ney(), start=None, end=None).fit(text)
    assert [len(s) for s in endless.sample(3, max_length=7, random_state=0)] == [7] * 3
    assert endless.predict_next("", 3)[0][0] == "w0"


def test_predict_next_is_sorted_and_complete():
    model = LanguageModel(kneser_ney(), max_depth=3).fit(make_text())
    table = model.predict_next("w0 w1", 1000)
    assert sorted(w for w, _ in table) == sorted(model.vocabulary_.tolist())
    p = [p for _, p in table]
    assert p == sorted(p, reverse=True)
    assert sum(p) == pytest.approx(1, abs=1e-12)
    assert model.predict_next(["w0", "w1"], 3) == table[:3]
    for k in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="k must be an integer"):
            model.predict_next("w0", k)
    for bad in 3, {"w0": 1}:
        with pytest.raises(TypeError, match="context must be a string or an iterable"):
            model.predict_next(bad)
    with pytest.raises(TypeError, match="prefix must be a string or an iterable"):
        model.sample(prefix=3)
    with pytest.warns(UserWarning, match="context holds strings.*pass one string"):
        model.predict_next(["w0 w1"])
    with pytest.warns(UserWarning, match="prefix holds strings.*pass one string"):
        model.sample(prefix=["w0 w1"], random_state=0)
    with pytest.warns(UserWarning, match="X holds lists of strings.*one flat list"):
        LanguageModel(kneser_ney(), max_depth=1).fit([["w0 w1"], ["w1 w0"]] * 9)
    decode = r"must be a string.*, got bytes; decode it \(b.decode\(\)\)$"
    with pytest.raises(TypeError, match="^context " + decode):
        model.predict_next(b"w0")
    with pytest.raises(TypeError, match="^X: sentence 1 " + decode):
        model.score(["w0", b"w1"])


# ----------------------------------------------------------------------- ARPA


@pytest.mark.parametrize("suffix", ["arpa", "arpa.gz"])
@pytest.mark.parametrize(
    "estimator", [kneser_ney(), StructuredLogLinearLM(lam=0.2)], ids=["kn", "loglinear"]
)
def test_arpa_round_trip_and_kenlm(estimator, suffix, tmp_path):
    kenlm = pytest.importorskip("kenlm")
    text = make_text(n_sentences=200)
    model = LanguageModel(
        estimator, max_depth=2, min_count=4, unknown="UNK", start="^", end="$"
    ).fit(text[:150])
    path = tmp_path / f"model.{suffix}"
    model.save(path)
    test = [*text[150:], "w0 new w1", "new new", ""]
    read = LanguageModel.load(path)
    assert (read.unknown, read.start, read.end) == ("<unk>", "<s>", "</s>")
    assert read.estimator_ is None and read.max_depth == 2
    np.testing.assert_allclose(
        read.score_samples(test), model.score_samples(test), atol=1e-5
    )
    peer = kenlm.Model(str(path))
    for sentence, row in zip(test, model.token_log_proba(test)):
        theirs = [s[0] for s in peer.full_scores(sentence, bos=True, eos=True)]
        np.testing.assert_allclose(row / np.log(10), theirs, atol=1e-5)
    assert read.sample(2, random_state=0)
    again = tmp_path / "again.arpa"
    read.save(again)
    np.testing.assert_allclose(
        LanguageModel.load(again).score_samples(test),
        read.score_samples(test),
        atol=1e-6,
    )
    clone(read)  # an unfitted model with the same parameters
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(read)).score_samples(test), read.score_samples(test)
    )


def test_arpa_without_unknown_word(tmp_path):
    model = LanguageModel(kneser_ney(), max_depth=1, unknown=None).fit(CATS)
    model.save(tmp_path / "closed.arpa")
    read = LanguageModel.load(tmp_path / "closed.arpa")
    assert read.unknown is None
    np.testing.assert_allclose(read.score(CATS), model.score(CATS), atol=1e-6)
    with pytest.raises(ValueError, match="'mouse' of sentence 0"):
        read.score(["the mouse"])
    lenient = LanguageModel.load(tmp_path / "closed.arpa", out_of_vocabulary="exclude")
    assert np.isnan(lenient.token_log_proba(["the mouse"])[0][1])
    with pytest.raises(ValueError, match="out_of_vocabulary"):
        LanguageModel.load(tmp_path / "closed.arpa", out_of_vocabulary="drop")


# --------------------------------------------------------------- scikit-learn


def test_probabilities_above_1_are_a_warning(tmp_path):
    path = tmp_path / "odd.arpa"
    path.write_text(
        "\\data\\\nngram 1=3\nngram 2=1\n\n\\1-grams:\n-99\t<s>\n-0.5\ta\t5\n"
        "-0.5\t</s>\n\n\\2-grams:\n-0.1\t<s> a\n\n\\end\\\n"
    )
    model = LanguageModel.load(path)
    with pytest.warns(UserWarning, match=r"X: 1 token\(s\) have a probability above 1"):
        assert model.perplexity(["a"]) < 1
    path.write_text(path.read_text().replace("\t5\n", "\t0.501\n"))
    with warnings.catch_warnings(action="error"):
        LanguageModel.load(path).perplexity(["a"])


def test_grid_search_needs_no_scoring():
    text = make_text(80)
    model = LanguageModel(StructuredLogLinearLM(penalty="l2"), min_count=1)
    grid = {
        "estimator__lam": [0.05, 50.0],
        "estimator__alpha": [0.5, 1.0],
        "max_depth": [1, 2],
    }
    search = GridSearchCV(model, grid, cv=3).fit(text)
    assert search.best_params_["estimator__lam"] in (0.05, 50.0)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    # By hand for one candidate.
    i = search.cv_results_["params"].index(
        {"estimator__alpha": 0.5, "estimator__lam": 0.05, "max_depth": 2}
    )
    one = clone(model).set_params(
        estimator__alpha=0.5, estimator__lam=0.05, max_depth=2
    )
    for k, (train, test) in enumerate(KFold(3).split(text)):
        one.fit([text[j] for j in train])
        value = one.score([text[j] for j in test])
        assert value == search.cv_results_[f"split{k}_test_score"][i]
    assert search.score(text) == search.best_estimator_.score(text)


def test_cross_val_score_of_every_container():
    text = make_text(30)
    model = LanguageModel(kneser_ney(), max_depth=2)
    expected = cross_val_score(model, text, cv=3)
    np.testing.assert_allclose(
        cross_val_score(model, [s.split() for s in text], cv=3), expected
    )
    np.testing.assert_allclose(
        cross_val_score(model, np.array(text, dtype=object), cv=3), expected
    )


def test_parameters_clone_pickle_repr():
    model = LanguageModel(kneser_ney(), max_depth=2)
    assert model.get_params()["estimator__discount"] == 0.6
    model.set_params(estimator__discount=0.4, max_depth=3)
    assert model.estimator.discount == 0.4
    text = make_text()
    model.fit(text)
    assert model.estimator.padding is None  # the user's object is left alone
    assert model.estimator_.padding == -1
    assert not hasattr(clone(model), "vocabulary_")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.score_samples(text), model.score_samples(text))
    assert again.sample(2, random_state=0) == model.sample(2, random_state=0)
    assert "KneserNeyLM" in repr(model) and "KneserNeyLM" in model._repr_html_()
    assert LanguageModel()._repr_html_()


def test_pickle_holds_the_model_once_and_no_corpus():
    small, large = make_text(60), make_text(60) * 50
    a = LanguageModel(kneser_ney(), max_depth=2).fit(small)
    b = LanguageModel(kneser_ney(), max_depth=2).fit(large)
    assert abs(len(pickle.dumps(a)) - len(pickle.dumps(b))) < 100
    b.score(large)  # the dictionary made for scoring stays out
    assert abs(len(pickle.dumps(a)) - len(pickle.dumps(b))) < 2000
    arrays = a.backoff_model_.log_prob.nbytes + a.backoff_model_.pairs.target.nbytes
    assert len(pickle.dumps(a)) < len(pickle.dumps(a.backoff_model_)) + 2 * arrays


def test_joblib_writes_no_array_twice_and_maps_what_it_reads(tmp_path):
    text = make_text(60) * 4
    model = LanguageModel(kneser_ney(), max_depth=3).fit(text)
    expected = model.token_log_proba(text[:5])  # fills what is not to be written
    assert np.shares_memory(
        model.backoff_model_.log_prob, model.estimator_.backoff_model_.log_prob
    )
    path = tmp_path / "model.joblib"
    joblib.dump(model, path)
    plain = len(pickle.dumps(model))
    assert path.stat().st_size < 1.1 * plain + 20_000
    for mode in (None, "r"):
        again = joblib.load(path, mmap_mode=mode)
        backoff = again.backoff_model_
        inner = again.estimator_.backoff_model_
        assert np.shares_memory(backoff.log_prob, inner.log_prob)
        assert backoff.tree is inner.tree
        for array in (
            backoff.log_prob, backoff.log_backoff, backoff.pairs.target,
            backoff.pairs.ptr, backoff.tree.parent, backoff.tree.symbol,
        ):  # fmt: skip
            assert isinstance(array, np.memmap) == (mode == "r")
            assert mode is None or not array.flags.writeable
        for a, b in zip(again.token_log_proba(text[:5]), expected):
            np.testing.assert_array_equal(a, b)
        assert again.sample(3, random_state=0) == model.sample(3, random_state=0)


@pytest.mark.parametrize("opaque", [False, True])
def test_unknown_is_drawn_only_if_allowed(opaque):
    estimator = Opaque(kneser_ney()) if opaque else kneser_ney()
    model = LanguageModel(estimator, max_depth=2).fit(["a b", "a c", "b", ""])
    n = 20_000
    drawn = model.sample(n, max_length=1, random_state=0)
    assert not any("<unk>" in s for s in drawn)
    assert any(
        "<unk>" in s for s in model.sample(n, allow_unknown=True, random_state=0)
    )
    proba = dict(model.predict_next((), 10))
    left = 1 - proba.pop("<unk>")
    for symbol, p in proba.items():
        want = n * p / left
        count = sum(s == ([] if symbol == "</s>" else [symbol]) for s in drawn)
        assert abs(count - want) < 5 * np.sqrt(want) + 1
    # A prefix of unknown words is the user's own.
    assert model.sample(1, prefix="zebra", random_state=0)[0][0] == "zebra"


def test_a_limit_on_length_costs_nothing_unless_it_is_reached():
    model = LanguageModel(kneser_ney(), max_depth=2).fit(["a b", "a c", "b", ""])
    assert model.sample(3, max_length=10**12, random_state=0) == model.sample(
        3, max_length=1000, random_state=0
    )


def test_fit_after_load_says_what_it_does(tmp_path):
    LanguageModel(kneser_ney(), max_depth=2).fit(CATS).save(tmp_path / "m.arpa")
    read = LanguageModel.load(tmp_path / "m.arpa")
    message = "replaces the model by a StructuredLogLinearLM"
    with pytest.warns(UserWarning, match=message):
        read.fit(CATS)
    assert isinstance(read.estimator_, StructuredLogLinearLM)
    read.fit(CATS)  # it is not a model of a file any more


def test_default_estimator():
    model = LanguageModel().fit(CATS)
    assert isinstance(model.estimator_, StructuredLogLinearLM)
    assert model.estimator is None


def test_refit_forgets():
    model = LanguageModel(kneser_ney()).fit(CATS)
    model.set_params(estimator=DummyClassifier(strategy="prior")).fit(CATS)
    assert not hasattr(model, "backoff_model_")
    # 12 tokens, two of which are "cat".
    assert model.token_log_proba(["cat"])[0][0] == pytest.approx(np.log(2 / 12))


def test_same_answer_twice():
    text = make_text()
    a = LanguageModel(StructuredLogLinearLM()).fit(text)
    b = LanguageModel(StructuredLogLinearLM()).fit(text)
    np.testing.assert_array_equal(a.score_samples(text), b.score_samples(text))


@pytest.mark.parametrize(
    "estimator",
    [
        AdditiveLM(delta=0.3),
        Opaque(AdditiveLM(delta=0.3)),
        make_pipeline(SuffixTreeVectorizer(), AdditiveLM(delta=0.3)),
    ],
    ids=["ours", "generic", "pipeline"],
)
def test_sentence_weights(estimator):
    text = make_text(30)
    weight = np.random.default_rng(0).integers(0, 4, size=30)
    repeated = [s for s, w in zip(text, weight) for _ in range(w)]
    model = LanguageModel(estimator, max_depth=2, min_count=3)
    a = clone(model).fit(text, sample_weight=weight)
    b = clone(model).fit(repeated)
    assert a.vocabulary_.tolist() == b.vocabulary_.tolist()
    np.testing.assert_allclose(a.score_samples(text), b.score_samples(text))
    assert a.score(text, sample_weight=weight) == pytest.approx(b.score(repeated))


def test_weights_that_the_estimator_does_not_take():
    from sklearn.neighbors import KNeighborsClassifier

    model = LanguageModel(KNeighborsClassifier(), max_depth=2)
    model.fit(make_text())
    match = r"KNeighborsClassifier\.fit does not take it"
    for routing in (False, True):
        with (
            config_context(enable_metadata_routing=routing),
            pytest.raises(ValueError, match=match),
        ):
            model.fit(make_text(), sample_weight=np.ones(60))


def test_search_inside():
    text = make_text(80)
    inner = GridSearchCV(
        Opaque(kneser_ney()), {"estimator__discount": [0.2, 0.7]}, cv=2
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few members of a class
        model = LanguageModel(inner, max_depth=2).fit(text)
    assert np.isfinite(model.score(text))
    assert model.estimator_.best_params_["estimator__discount"] in (0.2, 0.7)


@needs_callbacks
def test_callbacks_reach_the_estimator():
    class Recorder:
        def __init__(self):
            self.seen = []

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            self.seen.append(context.estimator_name)

        def on_fit_task_end(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        max_propagation_depth = None

    recorder = Recorder()
    LanguageModel(StructuredLogLinearLM()).set_callbacks(recorder).fit(CATS)
    assert {"LanguageModel", "StructuredLogLinearLM"} <= set(recorder.seen)


def test_tags():
    from sklearn.utils import get_tags

    tags = get_tags(LanguageModel())
    assert tags.input_tags.string and not tags.input_tags.two_d_array
    assert tags.estimator_type == "density_estimator"


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    "X, error, message",
    [
        ("the cat", TypeError, "not one string"),
        (b"the cat", TypeError, "not one string"),
        (3, TypeError, "iterable of sentences"),
        ([], ValueError, "X is empty"),
        (iter([]), ValueError, "X is empty"),
        ([3, 4], TypeError, "sentence 0 must be"),
        (["a", None], TypeError, "sentence 1 must be"),
        ([b"a b"], TypeError, "sentence 0 must be"),
        ([["a"], ["b", ["c"]]], TypeError, "sentence 1 .*not hashable"),
        ([["a"], ["b", None]], ValueError, "sentence 1 .*missing value None"),
        ([["a"], ["b", float("nan")]], ValueError, "sentence 1 .*missing value nan"),
        (["a", "b <s> c"], ValueError, "start mark '<s>' occurs in sentence 1"),
        (["a", "b </s> c"], ValueError, "end mark '</s>' occurs in sentence 1"),
    ],
)
def test_bad_corpus(X, error, message):
    with pytest.raises(error, match=message):
        LanguageModel(kneser_ney()).fit(X)


@pytest.mark.parametrize(
    "params, error, message",
    [
        ({"max_depth": -1}, ValueError, "max_depth"),
        ({"max_depth": 1.5}, ValueError, "max_depth"),
        ({"min_count": 0}, ValueError, "min_count"),
        ({"out_of_vocabulary": "drop"}, ValueError, "out_of_vocabulary"),
        ({"estimator": 3}, ValueError, "estimator"),
        ({"estimator": OneHotEncoder()}, TypeError, "must give probabilities"),
        ({"start": "x", "end": "x"}, ValueError, "start and end are the same"),
        ({"unknown": "</s>"}, ValueError, "end and unknown are the same"),
        ({"unknown": []}, ValueError, "unknown must be hashable"),
        ({"vocabulary": "the cat"}, TypeError, "vocabulary must be an array"),
        ({"vocabulary": 3}, TypeError, "vocabulary must be an array"),
        ({"vocabulary": [["a"]]}, TypeError, "vocabulary must be an array"),
        (
            {"estimator": AdditiveLM(classes=["a", "b"])},
            ValueError,
            "classes of .* must be None inside a LanguageModel",
        ),
        ({"estimator__discount": -1.0}, ValueError, "discount"),
    ],
)
def test_bad_parameters(params, error, message):
    model = LanguageModel(kneser_ney()).set_params(**params)
    with pytest.raises(error, match=message):
        model.fit(CATS)


def test_other_bad_input():
    model = LanguageModel(kneser_ney(), max_depth=2)
    with pytest.raises(ValueError, match="not fitted"):
        model.score(CATS)
    with pytest.raises(ValueError, match="not fitted"):
        model.save("unused.arpa")
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(CATS, sample_weight=[1, -1, 1])
    for fit in ("fit", "partial_fit"):  # partial_fit left an empty iterator
        words = LanguageModel(kneser_ney(), vocabulary=iter(["cat"]))
        with pytest.raises(TypeError, match="vocabulary must be.*not.*an iterator"):
            getattr(words, fit)(CATS)
    for wrong in ("a", ["a"] * 3, "3", object(), [1j] * 3):
        with pytest.raises(ValueError, match="^sample_weight: "):
            model.fit(CATS, sample_weight=wrong)
    with pytest.raises(ValueError, match="non-zero"):
        model.fit(CATS, sample_weight=[0, 0, 0])
    for large in ([1e308] * 3, [5e307, 0, 0]):  # of sentences, and of their words
        with pytest.raises(ValueError, match="sample_weight sums to inf"):
            model.fit(CATS, sample_weight=large)
        with pytest.raises(ValueError, match="sample_weight sums to inf"):
            model.fit(CATS).score(CATS, sample_weight=large)
    with pytest.raises(ValueError, match="nothing to predict"):
        LanguageModel(kneser_ney(), end=None).fit(["", ""])
    with pytest.raises(ValueError, match="nothing to predict"):
        LanguageModel(kneser_ney(), end=None, unknown=None).fit([""])
    model.fit(CATS)
    with pytest.raises(TypeError, match="not one string"):
        model.score("the cat")
    with pytest.raises(ValueError, match="no token to score"):
        model.score([])
    assert model.score_samples([]).shape == (0,)
    assert model.token_log_proba([]) == []
    with pytest.raises(ValueError, match="start mark '<s>' occurs in sentence 1"):
        model.score(["the", "<s> cat"])
    with pytest.raises(ValueError, match="end mark"):
        model.predict_next("the </s>")
    with pytest.raises(TypeError, match="not hashable"):
        model.score([["the", ["cat"]]])
    with pytest.raises(ValueError, match="no token to score"):
        model.perplexity([""], include_end=False)
    for name in ("n_sentences", "max_length"):
        with pytest.raises(ValueError, match=name):
            model.sample(**{name: -1})
    with pytest.raises(TypeError, match="data frame"):
        import pandas as pd

        model.fit(pd.DataFrame({"text": CATS}))


def test_corpus_of_empty_sentences_predicts_the_end():
    model = LanguageModel(AdditiveLM(delta=1.0), max_depth=2).fit(["", "", ""])
    assert model.vocabulary_.tolist() == ["<unk>", "</s>"]
    assert dict(model.predict_next())["</s>"] == pytest.approx(4 / 5)
    one_class = LanguageModel(AdditiveLM(), unknown=None, max_depth=1).fit([""])
    assert one_class.score([""]) == 0
    assert one_class.sample(2) == [[], []]


def test_fixed_discount_is_what_the_tests_mean():
    """The corpora here are too small to estimate discounts; that only warns."""
    with pytest.warns(UserWarning, match="counts of counts"):
        LanguageModel(KneserNeyLM()).fit(CATS)


# -------------------------------------------------- mistakes that are not silent


def test_lists_of_sentences_are_not_scored_as_words():
    model = LanguageModel(AdditiveLM(), max_depth=2).fit(["the cat sat", "he ran home"])
    n_best = [["the cat sat", "the cad sat"], ["he ran home"]]
    for ask in (model.score_samples, model.perplexity, model.token_log_proba):
        with pytest.raises(ValueError, match=r"flat list: score_samples\("):
            ask(n_best)
    flat = [sentence for group in n_best for sentence in group]
    assert model.score_samples(flat).shape == (3,)
    # Words with white space in them are words like others.
    city = LanguageModel(AdditiveLM(), max_depth=2).fit([["New York", "is", "large"]])
    assert np.isfinite(city.score_samples([["New York", "was", "large"]])).all()


def test_words_are_not_trained_on_as_sentences():
    words = ["the", "cat", "sat"]
    with pytest.warns(UserWarning, match="strings of one word each"):
        LanguageModel(AdditiveLM(), max_depth=2).fit(words)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LanguageModel(AdditiveLM(), max_depth=2).fit([words])
        LanguageModel(AdditiveLM(), max_depth=2).fit(["the cat", "sat"])


def test_a_clone_of_a_model_from_a_file_knows_it(tmp_path):
    trained = LanguageModel(AdditiveLM(), max_depth=2).fit(["the cat sat", "a cat ran"])
    trained.save(tmp_path / "model.arpa")
    model = LanguageModel.load(tmp_path / "model.arpa")
    copy = clone(model)
    assert model.from_file and copy.from_file and not trained.from_file
    for again in (copy, clone(copy), pickle.loads(pickle.dumps(model))):
        with pytest.warns(UserWarning, match="was read from a file"):
            again.set_params(estimator=AdditiveLM()).fit(["the cat sat"])
        assert not again.from_file and not clone(again).from_file


def test_frozen_models_of_other_words_are_not_mixed_by_id():
    texts = ["the cat sat on a mat"], ["one dog ran to my house"]
    a, b = (LanguageModel(AdditiveLM(), max_depth=2).fit(text) for text in texts)
    assert a.vocabulary_.size == b.vocabulary_.size
    frozen = [
        ("a", FrozenEstimator(a.estimator_)),
        ("b", FrozenEstimator(b.estimator_)),
    ]
    mixture = MixtureLM(frozen, weights=[0.5, 0.5])
    with pytest.raises(ValueError, match="^b: the fitted AdditiveLM has other words"):
        LanguageModel(mixture, max_depth=2).fit(texts[0])
    with pytest.raises(ValueError, match="has other words or marks"):
        LanguageModel(MixtureLM(frozen[:1], weights=[1.0]), start=None).fit(texts[0])
    words = sorted({w for text in texts for w in text[0].split()})
    a, b = (
        LanguageModel(AdditiveLM(), max_depth=2, vocabulary=words).fit(text)
        for text in texts
    )
    frozen = [
        ("a", FrozenEstimator(a.estimator_)),
        ("b", FrozenEstimator(b.estimator_)),
    ]
    both = LanguageModel(
        MixtureLM(frozen, weights=[0.5, 0.5]), max_depth=2, vocabulary=words
    ).fit(texts[0])
    expected = 0.5 * np.exp(a.token_log_proba(texts[1])[0]) + 0.5 * np.exp(
        b.token_log_proba(texts[1])[0]
    )
    np.testing.assert_allclose(np.exp(both.token_log_proba(texts[1])[0]), expected)
    with pytest.raises(TypeError, match=r"FrozenEstimator\(a\) inside"):
        MixtureLM([("a", a)]).fit([[0, 1]], [0])


@pytest.mark.processes
def test_packages_of_parts_are_imported_when_they_are_needed():
    program = (
        "import sys\n"
        "from sklstruct.language_model import LanguageModel\n"
        "def parts():\n"
        "    rooms = 'loglinear', 'mixture', 'word_classes', 'taxonomy', 'smoothing'\n"
        "    return [r for r in rooms if 'sklstruct.' + r in sys.modules]\n"
        "assert not parts(), parts()\n"
        "lm = LanguageModel('fast', max_depth=1).fit(['a b c a b', 'c a b b'] * 3)\n"
        "lm.perplexity(['a b'])\n"
        "assert parts() == ['smoothing'], parts()"
    )
    command = [sys.executable, "-P", "-W", "ignore", "-c", program]
    subprocess.run(command, check=True)


def test_a_unigram_smoother_is_a_model_without_contexts(tmp_path):
    text = ["the cat sat", "the dog ran", "a cat ran"]
    lm = LanguageModel(AdditiveUnigram()).fit(text)
    assert lm.backoff_model_.max_depth == 0
    assert lm.backoff_model_.labels.end == "</s>"
    proba = dict(zip(lm.vocabulary_, lm.estimator_.proba_, strict=True))
    expected = np.log([proba[word] for word in ("dog", "<unk>", "</s>")])
    np.testing.assert_allclose(lm.token_log_proba(["dog zebra"])[0], expected)
    lm.save(tmp_path / "u.arpa")
    again = LanguageModel.load(tmp_path / "u.arpa")
    assert again.perplexity(text) == pytest.approx(lm.perplexity(text), rel=1e-6)
