"""A classifier that a user writes answers every question of a language model."""

import itertools
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator

from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.hmm import KeypadChannel, NoisyChannelDecoder
from sklstruct.mixture import FactoredLM, MixtureLM

TEXT = ["the cat sat on the mat", "the dog sat", "a cat ran", "a dog ran on"] * 5


class RecentWords(ClassifierMixin, BaseEstimator):
    """Words of the window come again: a share for each of them, the rest uniform."""

    def __init__(self, share=0.5):
        self.share = share

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        proba = np.ones((len(X), self.classes_.size))
        for row, window in zip(proba, np.asarray(X)):
            recent = np.isin(self.classes_, window)
            if recent.any():
                row *= 1.0 - self.share
                row[recent] += self.share * proba.shape[1] / recent.sum()
        return proba / proba.sum(axis=1, keepdims=True)


def mixture(weights):
    models = [("kn", KneserNeyLM(discount=0.5)), ("recent", RecentWords())]
    return MixtureLM(models, weights=weights)


MODELS = {
    "alone": RecentWords,
    "in a mixture": lambda: mixture([0.7, 0.3]),
    "behind a gate": lambda: mixture("logistic"),
    "of words in classes": lambda: FactoredLM(
        {"the": 0, "a": 0, "cat": 1, "dog": 1}
        | dict.fromkeys(["sat", "ran", "on", "mat", "<unk>", "</s>"], 2),
        KneserNeyLM(discount=0.5),
        RecentWords(),
        concentration=2.0,
    ),
    "of classes": lambda: FactoredLM(
        {"the": 0, "a": 0, "cat": 1, "dog": 1}
        | dict.fromkeys(["sat", "ran", "on", "mat", "<unk>", "</s>"], 2),
        RecentWords(),
        mixture([0.5, 0.5]),
        concentration=2.0,
    ),
}


@pytest.fixture(params=MODELS)
def model(request):
    return LanguageModel(MODELS[request.param](), max_depth=3).fit(TEXT)


def test_all_questions_have_one_answer(model):
    text = ["the dog ran on the mat", "a a a", "zebra the zebra"]
    with np.errstate(divide="ignore"):
        for sentence, expected in zip(text, model.token_log_proba(text)):
            state, found, rows = model.begin(), [], []
            for word in [*sentence.split(), "</s>"]:
                rows.append(model.rows(state))
                log_prob, state = model.advance(state, word)
                found.append(log_prob)
            np.testing.assert_allclose(found, expected, rtol=1e-12)
            np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=1e-12)
            known = model.vocabulary_.tolist()
            y = [known.index(w if w in known else "<unk>") for w in sentence.split()]
            some = np.array(rows)[np.arange(len(y)), y]
            np.testing.assert_allclose(some, expected[:-1], rtol=1e-12)
        best = model.predict_next("the dog", 3)
        state = model.advance(model.advance(model.begin(), "the")[1], "dog")[1]
        row = np.exp(model.rows(state))
        np.testing.assert_allclose([p for _, p in best], np.sort(row)[::-1][:3])


def test_windows_end_where_the_sentence_begins():
    seen = []

    class Recording(RecentWords):
        def fit(self, X, y):
            seen.append(np.array(X))
            return super().fit(X, y)

        def predict_proba(self, X):
            seen.append(np.array(X))
            return super().predict_proba(X)

    model = LanguageModel(Recording(), max_depth=4).fit(["a b c", "a", "b c"])
    model.score(["c b a", "b"])
    assert len(seen) >= 2
    for windows in seen:
        missing = windows < 0
        assert missing.any() and (windows >= 0).any()
        # Once a word is missing, all older ones are.
        assert (missing[:, :-1] >= missing[:, 1:]).all()


def test_it_is_drawn_from_and_its_states_are_kept(model):
    drawn = model.sample(3000, max_length=1, random_state=0, allow_unknown=True)
    row = np.exp(model.rows(model.begin()))
    known = model.vocabulary_.tolist()
    share = np.zeros(len(known))
    for words in drawn:
        share[known.index(words[0] if words else "</s>")] += 1 / len(drawn)
    np.testing.assert_allclose(share, row, rtol=0, atol=0.05)
    state = model.advance(model.advance(model.begin(), "a")[1], "cat")[1]
    again = pickle.loads(pickle.dumps(state))
    assert again == state and hash(again) == hash(state)
    np.testing.assert_array_equal(model.rows(again), model.rows(state))


def test_the_decoder_finds_the_best_sentence(model):
    channel = KeypadChannel(k=8)
    decoder = NoisyChannelDecoder(FrozenEstimator(model), channel, beam_width=300).fit()
    words = decoder.classes_.tolist()
    assert sorted(words) == sorted({word for line in TEXT for word in line.split()})
    typed, bound = ["228", "362", "66", "843"], channel.bind(words)
    found = decoder.decode([typed])
    assert not found.approximate[0]
    ids, factors = zip(*map(bound.candidates, typed), strict=True)
    paths = list(itertools.product(*ids))
    said = [[words[i] for i in path] for path in paths]
    score = model.score_samples(said) + [sum(f) for f in itertools.product(*factors)]
    assert len(paths) > 100
    assert found.log_proba[0] == pytest.approx(score.max(), rel=1e-12)
    chosen = said.index(found.labels[0].tolist())
    assert score[chosen] == pytest.approx(score.max(), rel=1e-12)
    # A narrow beam has the score of its sentence.
    narrow = decoder.set_params(beam_width=2).decode([typed])
    own = score[said.index(narrow.labels[0].tolist())]
    assert narrow.log_proba[0] == pytest.approx(own, rel=1e-12)
    assert narrow.approximate[0] and own <= score.max() + 1e-9


def test_many_states_are_asked_in_one_call(model, monkeypatch):
    calls = []
    ask = RecentWords.predict_proba
    monkeypatch.setattr(
        RecentWords,
        "predict_proba",
        lambda self, X: calls.append(len(X)) or ask(self, X),
    )
    model.score(TEXT[:4] * 10)
    assert 0 < len(calls) <= 4  # one of each model


def test_its_errors_reach_the_caller(model, monkeypatch):
    def refuse(self, X):
        raise RuntimeError("from the user")

    monkeypatch.setattr(RecentWords, "predict_proba", refuse)
    for ask in (
        lambda: model.score(TEXT[:2]),
        lambda: model.advance(model.begin(), "the"),
        lambda: model.rows(model.begin()),
        lambda: model.sample(2, random_state=0),
    ):
        with pytest.raises(RuntimeError, match="from the user"):
            ask()
    monkeypatch.undo()
    assert np.isfinite(model.score(TEXT[:2]))
