"""Queries of one window at a time give the numbers of the queries by arrays."""

import numpy as np
import pytest
from _cases import all_pairs, each_value
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from sklstruct.backoff import _order
from sklstruct.backoff._order import by_last
from sklstruct.language_model import LanguageModel, _predictors
from sklstruct.loglinear import JointLogLinear
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.smoothing import AdditiveLM
from sklstruct.word_classes import ContextRefiner

TEXT = ["a b a c", "b a a b", "c a b", "b b a"]
# Steps that read an older word first go past a newest word that is missing history.
PATHS = ["w(2) w(1)", "w(1) w(2)", "w(3) w(1) w(2)"]


def word_by_word(model, words):
    state, out = model.begin(), []
    for word in [*words, "</s>"]:
        log_prob, state = model.advance(state, word)
        out.append(log_prob)
    return out


@pytest.mark.parametrize("path", PATHS)
def test_words_without_class_end_the_history(path):
    estimator = make_pipeline(ContextRefiner(path), AdditiveLM(delta=0.1))
    model = LanguageModel(
        estimator, max_depth=3, unknown=None, out_of_vocabulary="exclude"
    ).fit(TEXT)
    for text in ("a b zebra b a", "a zebra b", "zebra a b zebra zebra a"):
        (want,) = model.token_log_proba([text])
        np.testing.assert_allclose(word_by_word(model, text.split()), want)
        assert np.isnan(want).sum() == text.split().count("zebra")


@pytest.mark.parametrize(
    *all_pairs(path=[None, *PATHS], unknown=[None, "<unk>"], mixed=[True, False])
)
def test_texts_of_large_models_are_scored_in_the_order_of_the_contexts(
    path, unknown, mixed, monkeypatch
):
    estimator = AdditiveLM(delta=0.1)
    if path is not None:
        estimator = make_pipeline(ContextRefiner(path), estimator)
    if mixed:
        parts = [("a", estimator), ("b", AdditiveLM(delta=1))]
        estimator = MixtureLM(parts, weights=[0.8, 0.2])
    model = LanguageModel(
        estimator, max_depth=3, unknown=unknown, out_of_vocabulary="exclude"
    ).fit(TEXT)
    rng = np.random.default_rng(0)
    words = np.array(["a", "b", "c", "zebra"])
    text = [" ".join(words[rng.integers(0, 4, n)]) for n in rng.integers(0, 9, 40)]
    sentences = model.number_text(text)
    want = model.predictor.score(sentences)
    orders = []
    monkeypatch.setattr(
        _predictors, "by_last", lambda *a: orders.append(by_last(*a)) or orders[-1]
    )
    monkeypatch.setattr(_order, "LARGE", 1)
    monkeypatch.setattr(_order, "MANY", 1)
    monkeypatch.setattr(_predictors, "_BLOCK", 50)
    got = model.predictor.score(sentences)
    assert len(orders) > 2
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(*each_value(path=PATHS, padding=[-1, 0]))
def test_padding_of_a_frozen_pipeline_ends_the_history(path, padding):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 5, (200, 3)), rng.integers(0, 5, 200)
    pipeline = make_pipeline(
        ContextRefiner(path, padding=padding), AdditiveLM(delta=0.1, padding=-1)
    ).fit(X, y)
    models = [("frozen", FrozenEstimator(pipeline)), ("other", AdditiveLM())]
    mixture = MixtureLM(models, weights=[0.8, 0.2])
    # The classes are the ids 0 ... 4: three words, <unk>, </s>.
    model = LanguageModel(mixture, max_depth=3).fit(TEXT)
    (want,) = model.token_log_proba(["b a c b c"])
    np.testing.assert_allclose(word_by_word(model, list("bacbc")), want)


@pytest.mark.parametrize(
    *each_value(
        paths=[["passthrough"], ["passthrough", "w(2) w(1)"], PATHS],
        lost=["zebra", "a"],
    )
)
def test_joint_models_answer_one_word_as_they_answer_many(paths, lost):
    steps = [path if path == "passthrough" else ContextRefiner(path) for path in paths]
    joint = JointLogLinear([(f"p{t}", step) for t, step in enumerate(steps)], lam=0.1)
    # The gate reads the features of the joint model: contexts of all lengths are known.
    unlike = ["c c c a a c c", "a a a b b b", "c b c a", "b c c b"]
    mixture = MixtureLM([("joint", joint), ("kn", AdditiveLM())], weights="logistic")
    model = LanguageModel(
        mixture, max_depth=3, unknown=None, out_of_vocabulary="exclude"
    ).fit(TEXT * 5, X_val=TEXT + unlike)
    assert model.predictor.kernel.arrays == []  # nothing is asked of arrays
    for words in ("b a c b", f"b {lost} a b", f"{lost} c c {lost} {lost} b", *unlike):
        (want,) = model.token_log_proba([words])
        np.testing.assert_allclose(word_by_word(model, words.split()), want, rtol=1e-12)


def test_a_joint_model_without_weights_is_uniform():
    joint = JointLogLinear([("words", "passthrough")], lam=1e15)
    factors = FactoredLM({"a": 0, "b": 0, "c": 1, "<unk>": 1, "</s>": 1}, joint, joint)
    model = LanguageModel(factors, max_depth=2).fit(TEXT)
    (want,) = model.token_log_proba(["a b c"])
    np.testing.assert_allclose(word_by_word(model, list("abc")), want, rtol=1e-12)
