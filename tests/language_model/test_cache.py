"""CacheLM against its definition, computed from the text so far at every word."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator

from sklstruct import KneserNeyLM
from sklstruct.language_model import CacheLM, CacheState, LanguageModel
from sklstruct.smoothing import AdditiveLM
from sklstruct.word_classes import ExchangeClustering

pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


def random_text(seed, n=60, n_words=9):
    rng = np.random.default_rng(seed)
    follow = rng.dirichlet(np.full(n_words, 0.3), size=n_words)
    text = []
    for _ in range(n):
        word, s = rng.integers(n_words), []
        for _ in range(rng.integers(0, 9)):
            s.append(f"w{word}")
            word = rng.choice(n_words, p=follow[word])
        text.append(s)
    return text


TRAIN, HELD = random_text(0, 120), random_text(1, 40)
BASE = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(TRAIN)


def cached(base=BASE, held=HELD, **params):
    return CacheLM(FrozenEstimator(base), **params).fit(held)


class Definition:
    """Rows of the formulas in the docstring, from the words so far."""

    def __init__(self, model):
        self.model = model
        self.past = []  # (position in the count, words of the sentence before, word)
        self.classes = model.vocabulary_.tolist()

    def window(self):
        past = [p for p in self.past if p is not None]
        if self.model.length is None:
            return past
        n = self.model.length
        recent = self.past[max(len(self.past) - n, 0) :]
        return [p for p in recent if p is not None]

    def decayed(self, half_life):
        counts = np.zeros(len(self.classes))
        now = sum(p is not None for p in self.past)
        for time, _, word in self.window():
            counts[word] += 2.0 ** (-(now - time) / half_life)
        return counts

    def ngram(self, context):
        window = self.window()
        if not window:
            return np.zeros(len(self.classes)), 0
        row, order = np.zeros(len(self.classes)), 0
        for k in range(min(self.model.max_order, len(context) + 1)):
            suffix = context[len(context) - k :]
            count = np.zeros(len(self.classes))
            for _, before, word in window:
                if before[len(before) - k :] == suffix and len(before) >= k:
                    count[word] += 1
            if not count.any():
                break
            d = self.model.discount if k else 0.0
            row = (np.maximum(count - d, 0) + d * (count > 0).sum() * row) / count.sum()
            order = k + 1
        return row, order

    def row(self, base_row, context):
        model = self.model
        p = base_row
        if model.class_of_ is not None:
            b = self.decayed(model.class_half_life)
            g = model.class_of_
            mass = np.bincount(g, weights=p)[g]
            p = (
                mass
                * (b + model.theta * p / mass)
                / (np.bincount(g, weights=b)[g] + model.theta)
            )
        a = self.decayed(model.half_life)
        row, order = self.ngram(context)
        if order == 0:
            return p
        u, v, w = model.weights_[order]
        return u * p + v * a / a.sum() + w * row

    def score(self, sentences):
        """ln P of every token; the state moves on."""
        base = self.model.base_
        out = []
        for sentence in sentences:
            context, line, words = ["<s>"], [], []
            for word in [*sentence, base.end]:
                known = word if word in self.classes else base.unknown
                base_row = np.array(
                    [dict(base.predict_next(words, 99))[w] for w in self.classes]
                )
                y = self.classes.index(known)
                line.append(np.log(self.row(base_row, context)[y]))
                time = sum(p is not None for p in self.past)
                self.past.append((time, list(context), y))
                context.append(y)
                words.append(word)
            out.append(np.array(line))
        return out


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"max_order": 1},
        {"max_order": 2, "half_life": np.inf, "discount": 0.3},
        {"word_classes": 3, "theta": 2.0, "class_half_life": 7.0},
        {"length": 6},
        {"length": 1, "max_order": 3},
        {"length": 25, "word_classes": 4, "half_life": 9.0},
    ],
    ids=str,
)
def test_every_word_by_definition(params):
    model = cached(**params)
    text = [*random_text(2, 12), ["never", "w1"], []]
    got, expected = model.score_stream(text), Definition(model).score(text)
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("params", [{}, {"length": 7}, {"word_classes": 3}], ids=str)
def test_rows_sum_to_one_and_hold_what_is_scored(params):
    model = cached(**params)
    rng = np.random.default_rng(3)
    text = random_text(4, 200)
    state = model.new_state()
    for _ in range(100):  # at 100 histories
        sentence = text[rng.integers(len(text))]
        for k in range(len(sentence) + 1):
            row = model.next_proba(sentence[:k], state=state)
            assert row.sum() == pytest.approx(1.0, abs=1e-12) and (row > 0).all()
            if k < len(sentence):
                rest = model.score_stream([sentence], state=state.copy())[0]
                at = model.vocabulary_.tolist().index(sentence[k])
                assert np.log(row[at]) == pytest.approx(rest[k], rel=1e-10)
            if k > 2:
                break
        model.score_stream([sentence], state=state)
    best = model.predict_next("w1", 3, state=state)
    row = model.next_proba("w1", state=state)
    assert [p for _, p in best] == sorted(row, reverse=True)[:3]


def test_length_0_is_the_base():
    text = random_text(5, 50)
    model = cached(length=0)
    for a, b in zip(model.score_stream(text), BASE.token_log_proba(text)):
        assert np.array_equal(a, b)
    model = cached(length=0, word_classes=3)
    for a, b in zip(model.score_stream(text), BASE.token_log_proba(text)):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert np.array_equal(model.weights_, np.tile([1.0, 0, 0], (5, 1)))


def test_all_weight_on_the_base_is_the_base():
    model = cached(weights=np.tile([1.0, 0, 0], (4, 1)))
    text = random_text(5, 50)
    assert model.perplexity(text) == pytest.approx(BASE.perplexity(text), rel=1e-13)


@pytest.mark.parametrize("length", [None, 11])
def test_states_are_continued_stored_and_copied(length):
    text = random_text(6, 60)
    model = cached(length=length, word_classes=3)
    whole = model.score_stream(text)
    state, parts = model.new_state(), []
    for i in range(0, len(text), 7):
        parts += model.score_stream(text[i : i + 7], state=state)
        state = pickle.loads(pickle.dumps(state))
    for a, b in zip(whole, parts):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    branch = state.copy()
    a = model.score_stream(text[:3], state=branch)
    b = model.score_stream(text[:3], state=state)
    assert all(np.array_equal(u, v) for u, v in zip(a, b))
    assert state.n_words_ == sum(len(s) + 1 for s in text + text[:3])
    fresh = model.score_stream(text[:3])
    again = model.score_stream(text[:3], state=state.reset())
    assert all(np.array_equal(u, v) for u, v in zip(fresh, again))


def test_starts_reset():
    text = random_text(7, 30)
    model = cached(word_classes=3)
    starts = np.zeros(30, dtype=bool)
    starts[[0, 10, 23]] = True
    got = model.score_stream(text, starts=starts)
    parts = [text[:10], text[10:23], text[23:]]
    expected = [line for part in parts for line in model.score_stream(part)]
    assert all(np.array_equal(a, b) for a, b in zip(got, expected))
    state = model.new_state()
    model.score_stream(text, state=state, starts=starts)
    assert state.n_words_ == sum(len(s) + 1 for s in text[23:])


def test_order_matters():
    text = random_text(8, 80)
    model = cached()
    assert model.perplexity(text) != model.perplexity(text[::-1])
    assert model.score(text) == pytest.approx(-np.log(model.perplexity(text)))


def test_weights_are_the_most_likely():
    """No other weights are better on the held-out text."""
    model = cached(max_order=2)
    held = sum(line.sum() for line in model.score_stream(HELD))
    rng = np.random.default_rng(9)
    for _ in range(20):
        other = np.maximum(model.weights_[1:] + 0.2 * rng.normal(size=(2, 3)), 0.01)
        weights = other / other.sum(axis=1, keepdims=True)
        worse = cached(max_order=2, weights=weights)
        # Orders are drawn to their mean as by ten positions.
        assert sum(line.sum() for line in worse.score_stream(HELD)) < held + 1.0


def test_repetition_pays():
    text = TRAIN[:5] * 10
    assert cached().perplexity(text) < 0.8 * BASE.perplexity(text)


def test_long_streams_with_a_short_memory_stay_small():
    rng = np.random.default_rng(0)
    model = cached(length=20)
    state = model.new_state()
    text = [[f"w{i}" for i in rng.integers(0, 9, size=6)] for _ in range(4000)]
    got = model.score_stream(text, state=state)
    assert len(pickle.dumps(state)) < 2_000_000
    # The trie was made anew on the way.
    late = model.score_stream(text[-50:], state=None)[-20:]
    for a, b in zip(got[-20:], late):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_classes_that_were_fitted_before():
    clustering = ExchangeClustering(3, offsets=(-1, 1)).fit(TRAIN)
    model = cached(word_classes=FrozenEstimator(clustering))
    labels = clustering.predict(model.vocabulary_)
    for a, b in zip(labels, model.class_of_):
        same = labels == a
        assert np.unique(model.class_of_[same]).tolist() == [b]


def test_fit_splits_in_order_and_refits():
    text = TRAIN + HELD
    model = CacheLM(clone(BASE), validation_fraction=0.25).fit(text)
    n = len(text) // 4
    part = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(text[:-n])
    expected = CacheLM(FrozenEstimator(part)).fit(text[-n:])
    np.testing.assert_allclose(model.weights_, expected.weights_)
    whole = clone(BASE).fit(text)
    assert model.base_.perplexity(HELD) == pytest.approx(whole.perplexity(HELD))
    once = CacheLM(clone(BASE), validation_fraction=0.25, refit=False).fit(text)
    assert once.base_.perplexity(HELD) == pytest.approx(part.perplexity(HELD))
    given = CacheLM(clone(BASE)).fit(TRAIN, X_val=HELD)
    np.testing.assert_allclose(given.weights_, cached().weights_)


class Rows(ClassifierMixin, BaseEstimator):
    """A classifier without a back-off model."""

    def fit(self, X, y):
        self.model_ = KneserNeyLM(padding=-1, classes=np.arange(12)).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)

    def __sklstruct_ids__(self, labels):
        assert labels.n_classes <= 12
        return {}


@pytest.mark.parametrize("clusters", [None, 3])
def test_any_base(clusters):
    vocabulary = [f"w{i}" for i in range(10)]
    bases = [
        LanguageModel(e, max_depth=2, vocabulary=vocabulary).fit(TRAIN)
        for e in (Rows(), KneserNeyLM())
    ]
    text = random_text(10, 30)
    a, b = (cached(base, word_classes=clusters).perplexity(text) for base in bases)
    assert a == pytest.approx(b, rel=1e-9)


def test_words_without_class():
    base = LanguageModel(
        AdditiveLM(delta=0.1), max_depth=2, unknown=None, out_of_vocabulary="exclude"
    ).fit(TRAIN)
    model = cached(base, max_order=3)
    text = [["w1", "new", "w2"], ["w1", "w2"]]
    got = model.score_stream(text)
    assert np.isnan(got[0][1]) and np.isfinite(np.delete(got[0], 1)).all()
    definition = Definition(model)
    definition.score([["w1"]])
    definition.past.pop()  # no end mark was read
    assert np.isfinite(model.perplexity(text))


@pytest.mark.parametrize(
    "params, message",
    [
        ({"max_order": 0}, "max_order"),
        ({"max_order": 10**9}, "max_order"),
        ({"discount": 1.5}, "discount"),
        ({"half_life": 0.5}, "half_life"),
        ({"theta": 0}, "theta"),
        ({"length": -1}, "length"),
        ({"weights": [[1, 0, 0]]}, r"weights must have the shape \(4, 3\)"),
        ({"weights": np.full((4, 3), 0.5)}, "weights must be rows"),
        ({"weights": [["a"] * 3] * 4}, "weights"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"word_classes": 1000}, "n_clusters=1000"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        cached(**params)


def test_bad_input():
    with pytest.raises(TypeError, match="base must be a LanguageModel"):
        CacheLM(AdditiveLM()).fit(TRAIN)
    with pytest.raises(ValueError, match="held out"):
        CacheLM(clone(BASE)).fit([["a"]])
    with pytest.raises(ValueError, match="X_val is empty"):
        CacheLM(clone(BASE)).fit(TRAIN, X_val=[])
    model = cached()
    with pytest.raises(TypeError, match="state must be a CacheState"):
        model.score_stream(HELD, state=3)
    other = cached(max_order=2).new_state()
    assert isinstance(other, CacheState)
    with pytest.raises(ValueError, match="state is of another model"):
        model.score_stream(HELD, state=other)
    for starts in ([True], np.ones(len(HELD))):
        with pytest.raises(ValueError, match="starts must be"):
            model.score_stream(HELD, starts=starts)
    with pytest.raises(ValueError, match="k must be"):
        model.predict_next(k=0)
    with pytest.raises(ValueError, match="no token"):
        model.perplexity([])
    with pytest.raises(TypeError, match="one string"):
        model.score_stream("a b")
