"""CacheLM against its definition, computed from the text so far at every word."""

import contextlib
import pickle
import sys
import threading
from unittest import mock

import numpy as np
import pytest
from _oracles import following_text
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from sklstruct import KneserNeyLM
from sklstruct.language_model import (
    CacheLM,
    LanguageModel,
    _cache,
    _predictors,
)
from sklstruct.language_model._cache_fast import SENTENCE, Mixer
from sklstruct.language_model._cache_state import CacheSettings, CacheState, ScoredWords
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.smoothing import AdditiveLM, WittenBellLM
from sklstruct.symbols import number_sentences
from sklstruct.word_classes import ContextRefiner, ExchangeClustering

pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


def random_text(seed, n_sentences):
    return following_text(seed, 9, n_sentences, spread=0.3, shortest=0)


TRAIN, HELD = random_text(0, 120), random_text(1, 40)
BASE = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(TRAIN)


def cached(
    base=BASE, held=HELD, class_half_life=(100, 1000), ngram_half_life=(600, np.inf),
    learning=2500, **params,
):  # fmt: skip
    """A fitted model; half-lives of n-grams, classes and weights are constants."""
    with mock.patch.multiple(
        _cache, _CLASS_HALF_LIVES=class_half_life, _NGRAM_HALF_LIVES=ngram_half_life,
        _LEARNING_HALF_LIFE=learning,
    ):  # fmt: skip
        return CacheLM(FrozenEstimator(base), **params).fit(held)


def next_row(model, context="", state=None):
    """P of every word after the first words of a sentence."""
    proba = dict(model.predict_next(context, 99, state=state))
    return np.array([proba[word] for word in model.vocabulary_])


class Definition:
    """Rows of the formulas in the docstring, from the words so far."""

    def __init__(self, model):
        self.model = model
        self.settings = model.new_state().counts.settings
        self.past = []  # (position in the count, words of the sentence before, word)
        self.steps = []  # (position, class and word before, gradient), as of `past`
        self.classes = model.vocabulary_.tolist()

    def window(self):
        past = [p for p in self.past if p is not None]
        if self.settings.length is None:
            return past
        n = self.settings.length
        recent = self.past[max(len(self.past) - n, 0) :]
        return [p for p in recent if p is not None]

    def decayed(self, keep, tau):
        """Decayed counts of the words of the window that `keep` says yes to."""
        counts = np.zeros(len(self.classes))
        now = sum(p is not None for p in self.past)
        for time, before, word in self.window():
            if keep(before):
                counts[word] += 2.0 ** (-(now - time) / tau)
        return counts

    def weights(self, context):
        """The sum of the steps of what can be used, by class; its contexts."""
        g, tau = self.model.class_of_, self.settings.learning_half_life
        before = context[-1] if context else None
        of_class = before if before in ("<s>", None) else ("class", g[before])
        contexts = ["all", of_class, ("word", before)]
        now = sum(p is not None for p in self.past)
        alive = {p[0] for p in self.window()}
        total = np.zeros(g.max() + 1)
        rates = self.settings.learning_rate
        for time, its, gradient in self.steps:
            for mine, other, rate in zip(contexts, its, rates):
                if mine == "all" or (mine == other and before is not None):
                    total += (
                        (time in alive) * rate * gradient * 2 ** (-(now - time) / tau)
                    )
        return total, contexts

    def adapted(self, base_row, context):
        """The row of the base after the steps, P of its classes, the contexts."""
        g = self.model.class_of_
        total, contexts = self.weights(context)
        mass = np.bincount(g, weights=base_row)
        proba = mass * np.exp(total)
        proba /= proba.sum()
        return base_row * (proba / mass)[g], proba, contexts

    def learn(self, time, proba, contexts, y):
        gradient = -proba
        gradient[self.model.class_of_[y]] += 1
        self.steps.append((time, contexts, gradient))

    def parts(self, base_row, context):
        """(rows of the parts, NaN for those that have nothing to say; facts)."""
        model = self.model
        rows, facts = [base_row], []
        for k, tau in enumerate(self.settings.class_half_life):
            b = self.decayed(lambda _: True, tau)
            g = model.class_of_
            theta = model.theta_[k][g]
            mass = np.bincount(g, weights=base_row)[g]
            inner = (b + theta * base_row / mass) / (
                np.bincount(g, weights=b)[g] + theta
            )
            rows.append(mass * inner)
        for tau in self.settings.half_life:
            a = self.decayed(lambda _: True, tau)
            rows.append(a / a.sum() if a.any() else np.full(a.size, np.nan))
        for k in range(model.max_order):

            def follows(before, k=k):
                suffix = context[len(context) - k :]
                return k <= len(context) and (
                    len(before) >= k and before[len(before) - k :] == suffix
                )

            whole = self.decayed(follows, np.inf)
            facts.append((whole.sum(), (whole > 0).sum()))
            for tau in self.settings.ngram_half_life if k else ():
                count = self.decayed(follows, tau)
                rows.append(count / count.sum() if count.any() else count * np.nan)
        return np.array(rows), np.array(facts)

    def row(self, base_row, context):
        model = self.model
        rows, facts = self.parts(base_row, context)
        speaks = ~np.isnan(rows[:, 0])
        if not facts[0, 0]:
            return base_row
        if model.gate_coef_ is not None:
            phi = [1.0]
            for n, distinct in facts:
                phi += [n > 0, 0.3 * np.log1p(n), 0.3 * np.log1p(distinct)]
            weight = np.exp(model.gate_coef_ @ np.array(phi))
            weight = np.where(speaks, weight, 0.0)
        else:
            weight = model.weights_[(facts[:, 0] > 0).sum()]
            assert (weight[~speaks] == 0).all()
        return weight / weight.sum() @ np.where(np.isnan(rows), 0.0, rows)

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
                time = sum(p is not None for p in self.past)
                if self.model.class_of_ is not None:
                    base_row, *step = self.adapted(base_row, context)
                    self.learn(time, *step, y)
                line.append(np.log(self.row(base_row, context)[y]))
                self.past.append((time, list(context), y))
                context.append(y)
                words.append(word)
            out.append(np.array(line))
        return out


SHORT = {"half_life": (5.0, np.inf), "ngram_half_life": (9.0, np.inf)}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"max_order": 1},
        {"max_order": 2, "half_life": np.inf, "weights": "em"},
        {"word_classes": 3, "class_half_life": (7.0,), **SHORT},
        {"word_classes": 3, "weights": [1] * 13, **SHORT},
        {"word_classes": 3, "learning_rate": 0.9, "learning": 3, **SHORT},
        {"word_classes": 4, "learning_rate": (0, 0.7, 0), "class_half_life": ()},
        {"word_classes": 2, "learning_rate": (0.5, 0, 1), "length": 5, **SHORT},
        {"length": 6, **SHORT},
        {"length": 1, "max_order": 3},
        {"length": 25, "word_classes": 4, **SHORT},
        {"half_life": (), "ngram_half_life": (3.0,), "max_order": 3},
        {"ngram_half_life": (), "weights": [0.7, 0.1, 0.2], "max_order": 3},
        {
            "weights": [6, 1, 3],
            "half_life": 4.0,
            "ngram_half_life": (8,),
            "max_order": 2,
        },
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


@pytest.mark.parametrize(
    "params, n",
    [
        ({}, 30),
        ({}, 100),
        ({"length": 7}, 100),
        ({"word_classes": 3}, 100),
        ({"word_classes": 4, "learning_rate": 1, "learning": 9, "length": 5}, 100),
    ],
    ids=str,
)
def test_rows_sum_to_one_and_hold_what_is_scored(params, n):
    model = cached(**params)
    rng = np.random.default_rng(3)
    text = random_text(4, 200)
    state = model.new_state()
    for _ in range(n):  # at n histories
        sentence = text[rng.integers(len(text))]
        for k in range(len(sentence) + 1):
            row = next_row(model, sentence[:k], state)
            assert row.sum() == pytest.approx(1.0, abs=1e-12) and (row > 0).all()
            if k < len(sentence):
                rest = model.score_stream([sentence], state=state.copy())[0]
                at = model.vocabulary_.tolist().index(sentence[k])
                assert np.log(row[at]) == pytest.approx(rest[k], rel=1e-10)
            if k > 2:
                break
        model.score_stream([sentence], state=state)
    best = model.predict_next("w1", 3, state=state)
    row = next_row(model, "w1", state)
    assert [p for _, p in best] == sorted(row, reverse=True)[:3]


def test_too_many_classes_name_the_parameter():
    with pytest.raises(ValueError, match="^word_classes: n_clusters=1000000 is more"):
        cached(word_classes=10**6)


def test_length_0_is_the_base():
    text = random_text(5, 50)
    model = cached(length=0)
    for a, b in zip(model.score_stream(text), BASE.token_log_proba(text)):
        assert np.array_equal(a, b)
    model = cached(length=0, word_classes=3)
    for a, b in zip(model.score_stream(text), BASE.token_log_proba(text)):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("path", ["tree", "refined", "factored", "mixture"])
def test_classes_of_the_base_and_their_mass(path):
    """The sum over a class without rows is the sum over rows."""
    clustering = ExchangeClustering(3, offsets=(-1, 1))
    refined = make_pipeline(ContextRefiner("c2(1) w(1)"), KneserNeyLM())
    estimator = {
        "tree": KneserNeyLM(),
        "refined": refined,
        "factored": FactoredLM(clustering, refined),
        "mixture": MixtureLM(
            [("f", FactoredLM(clustering, KneserNeyLM())), ("kn", KneserNeyLM())]
        ),
    }[path]
    base = LanguageModel(estimator, max_depth=2).fit(TRAIN)
    predictor = base.predictor
    text = number_sentences(random_text(11, 30))
    windows, target = predictor.windows(text)
    proba = np.exp(predictor.model.rows(predictor.locate_text(windows)))
    groups = predictor.distribution.groups()
    assert (groups is not None) == (path in ("factored", "mixture"))
    rng = np.random.default_rng(0)
    others = [rng.integers(0, 4, size=base.vocabulary_.size), np.arange(proba.shape[1])]
    for group in [*others, groups] if groups is not None else others:
        group = np.unique(group, return_inverse=True)[1]
        blocks = list(predictor.score_groups(text, group))
        log_prob, token, got = map(np.concatenate, zip(*blocks))
        known = token != predictor.encoder.lost
        expected = proba[known] @ (group[:, None] == np.arange(group.max() + 1))
        np.testing.assert_allclose(got[known], expected, rtol=1e-10)
        assert np.isnan(got[~known]).all()
        alone = predictor.score(text)
        np.testing.assert_array_equal(token, alone.token)
        np.testing.assert_allclose(log_prob, alone.log_prob, rtol=1e-12)
        # One word after the other.
        ask = predictor.step_with_groups(group.astype(np.int32))
        state, sums = base.begin(), got[0] * 0
        words = [w for sentence in random_text(11, 30) for w in [*sentence, "</s>"]]
        for i, word in enumerate(words):
            one, state = ask(state, word, sums)
            assert one == pytest.approx(log_prob[i], rel=1e-12)
            np.testing.assert_allclose(sums, got[i], rtol=1e-12, atol=1e-15)
    if groups is None:
        with pytest.raises(ValueError, match="word_classes='base'"):
            cached(base, word_classes="base")
    else:
        model = cached(base, word_classes="base", class_half_life=(9,))
        assert np.unique(model.class_of_).size == np.unique(groups).size
        got = model.score_stream(HELD[:9])
        for a, b in zip(got, Definition(model).score(HELD[:9])):
            np.testing.assert_allclose(a, b, rtol=1e-9)


class Follows(ClassifierMixin, BaseEstimator):
    """Relative frequencies after one symbol: P is 0 where a word never followed."""

    def fit(self, X, y):
        self.classes_, code = np.unique(y, return_inverse=True)
        self.table_ = np.zeros((self.classes_.size + 3, self.classes_.size))
        np.add.at(self.table_, (X[:, -1], code), 1.0)
        self.table_[self.table_.sum(axis=1) == 0] = 1.0
        self.table_ /= self.table_.sum(axis=1, keepdims=True)
        return self

    def predict_proba(self, X):
        return self.table_[X[:, -1]]


def test_a_word_that_no_part_knows_has_no_probability():
    base = LanguageModel(Follows(), max_depth=1).fit([["a", "b"], ["a", "b", "b"]] * 9)
    for params in ({}, {"word_classes": 2}):
        model = cached(base, [["a", "b"], ["a", "b", "b"]] * 20, **params)
        log_prob = np.concatenate(model.score_stream([["b", "b"], ["a", "b"]]))
        assert log_prob[0] == -np.inf
        assert not np.isnan(log_prob).any()
        assert (log_prob[1:] > -np.inf).all()


def test_all_weight_on_the_base_is_the_base():
    model = cached(weights=np.eye(11)[0])
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
    cursor, branch = model.begin(state), state.copy()
    a = model.score_stream(text[:3], state=branch)
    for word, log_prob in zip(
        [w for s in text[:3] for w in [*s, "</s>"]], np.hstack(a)
    ):
        row = model.rows(cursor)
        found, cursor = model.advance(cursor, word)
        assert found == pytest.approx(log_prob, rel=1e-14)
        y = model.base_.predictor.encoder.labels.encode_targets([word])[0]
        assert row[y] == pytest.approx(log_prob, rel=1e-9)
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


@pytest.mark.parametrize("length", [None, 9])
def test_scores_do_not_depend_on_blocks_of_positions(length, monkeypatch):
    """The cut of the text into blocks changes nothing, at a reset neither."""
    text = [*random_text(7, 30), []]
    model = cached(word_classes=3, length=length)
    starts = np.zeros(31, dtype=bool)
    starts[[4, 10, 30]] = True
    whole = model.score_stream(text, starts=starts)
    for n in (1, 3, 50):
        monkeypatch.setattr(_predictors, "_NUMBERS", 3 * n)
        state = model.new_state()
        parts = model.score_stream(text, starts=starts, state=state)
        for a, b in zip(whole, parts):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        assert state.n_words_ == len(text[-1]) + 1
    assert model.score_stream([], state=state) == []


def test_classes_of_the_text_are_learnt():
    """On a text of other words the base that learns is better."""
    base = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(TRAIN)
    rare = [s for s in random_text(12, 300) if s[:1] == ["w1"]]
    parts = {"weights": [1, 0], "half_life": 9, "ngram_half_life": ()}
    fixed, learns = (
        cached(base, word_classes=4, class_half_life=(), learning_rate=rate, **parts)
        for rate in (0, 0.1)
    )
    assert fixed.perplexity(rare) == pytest.approx(base.perplexity(rare), rel=1e-12)
    assert learns.perplexity(rare) < 0.98 * fixed.perplexity(rare)


def test_order_matters():
    text = random_text(8, 80)
    model = cached()
    assert model.perplexity(text) != model.perplexity(text[::-1])
    assert model.score(text) == pytest.approx(-np.log(model.perplexity(text)))


@pytest.mark.parametrize("weights", ["em", "logistic"])
def test_weights_are_the_most_likely(weights):
    """No other weights are better on the held-out text."""
    model = cached(max_order=2, weights=weights)
    held = sum(line.sum() for line in model.score_stream(HELD))
    rng = np.random.default_rng(9)
    name = "weights_" if weights == "em" else "gate_coef_"
    fitted = getattr(model, name)
    for _ in range(20):
        if weights == "em":
            other = np.maximum(fitted + 0.2 * rng.normal(size=fitted.shape), 0.01)
            other[fitted == 0] = 0.0
            other /= other.sum(axis=1, keepdims=True)
        else:
            other = fitted + 0.3 * rng.normal(size=fitted.shape)
        setattr(model, name, other)
        vars(model).pop("_compiled", None)
        # Weights of an order are drawn to their mean as by twenty positions.
        worse = sum(line.sum() for line in model.score_stream(HELD))
        assert worse < held + (3.0 if weights == "em" else 0.05)


def test_a_gate_is_no_worse_than_constants():
    """On the text that both were fitted to, but for the gate's penalty."""
    em = cached(max_order=3, weights="em", word_classes=3).perplexity(HELD)
    gate = cached(max_order=3, word_classes=3).perplexity(HELD)
    assert gate < em * 1.001


def test_repetition_pays():
    text = TRAIN[:5] * 10
    assert cached().perplexity(text) < 0.9 * BASE.perplexity(text)


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


def test_forgotten_ngrams_leave_the_tables_and_change_nothing():
    """They leave at other words if a text is read sentence by sentence."""
    rng = np.random.default_rng(1)
    model = cached(word_classes=4, learning_rate=0.5, length=15, **SHORT)
    text = [[f"w{i}" for i in rng.integers(0, 9, size=5)] for _ in range(600)]
    whole = model.score_stream(text)
    state, parts = model.new_state(), []
    for sentence in text:
        parts += model.score_stream([sentence], state=state)
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts))
    seen = {tuple(s[i:j]) for s in text for j in range(6) for i in range(j)}
    _, (at, _) = state.counts.__reduce__()[1:]
    assert len(seen) > 2000 and at["n_nodes"] < 500


def test_a_model_is_stored_after_single_words():
    model = cached(word_classes=3)
    found, _ = model.advance(model.begin(), "w1")
    again = pickle.loads(pickle.dumps(model))
    assert again.advance(again.begin(), "w1")[0] == found
    # A fit with other classes asks the base about these.
    model.set_params(word_classes=4).fit(HELD)
    expected = model.score_stream([["w1"]])[0][0]
    assert model.advance(model.begin(), "w1")[0] == expected


def test_classes_that_were_fitted_before():
    clustering = ExchangeClustering(3, offsets=(-1, 1)).fit(TRAIN)
    model = cached(word_classes=FrozenEstimator(clustering))
    labels = clustering.classes_of(model.vocabulary_)
    for a, b in zip(labels, model.class_of_):
        same = labels == a
        assert np.unique(model.class_of_[same]).tolist() == [b]


def without_refit(model, text):
    """The model whose base does not see the held-out sentences."""
    n = int(np.ceil(model.validation_fraction * len(text)))
    return clone(model).fit(text[:-n], X_val=text[-n:])


def test_fit_splits_in_order_and_refits():
    text = TRAIN + HELD
    model = CacheLM(clone(BASE), validation_fraction=0.25).fit(text)
    n = len(text) // 4
    part = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(text[:-n])
    expected = CacheLM(FrozenEstimator(part)).fit(text[-n:])
    np.testing.assert_allclose(model.gate_coef_, expected.gate_coef_)
    whole = clone(BASE).fit(text)
    assert model.base_.perplexity(HELD) == pytest.approx(whole.perplexity(HELD))
    once = without_refit(model, text)
    assert once.base_.perplexity(HELD) == pytest.approx(part.perplexity(HELD))
    given = CacheLM(clone(BASE)).fit(TRAIN, X_val=HELD)
    np.testing.assert_allclose(given.gate_coef_, cached().gate_coef_)


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
    params = {"word_classes": clusters, "weights": np.ones(13 if clusters else 11)}
    a, b = (cached(base, **params).perplexity(text) for base in bases)
    assert a == pytest.approx(b, rel=1e-9)


@pytest.mark.parametrize("n, n_scored", [(300, 10), (3000, 40)])
def test_samples_are_drawn_from_the_rows(n, n_scored):
    model = cached(word_classes=3, half_life=9, ngram_half_life=(20,))
    state = model.new_state()
    model.score_stream(HELD[:5], state=state)
    drawn = model.sample(n, max_length=1, state=state.copy(), random_state=0)
    assert state.n_words_ == sum(len(s) + 1 for s in HELD[:5])
    again = model.sample(3, max_length=4, state=state, random_state=1)
    assert again == model.sample(3, max_length=4, state=state, random_state=1)
    assert len(drawn) == n and {len(s) for s in drawn} <= {0, 1}
    # The first words of many texts.
    firsts = [
        model.sample(1, max_length=1, state=state, random_state=k)[0]
        for k in range(400)
    ]
    row = next_row(model, state=state)
    unknown = model.vocabulary_.tolist().index("<unk>")
    row[unknown] = 0.0
    row /= row.sum()
    for word, p in zip(model.vocabulary_.tolist(), row.tolist()):
        count = sum((s or ["</s>"]) == [word] for s in firsts)
        assert abs(count - 400 * p) < 5 * np.sqrt(400 * p * (1 - p)) + 1
    # Scored as they were drawn.
    text = model.sample(n_scored, state=state, random_state=2)
    assert model.perplexity(text, state=state.copy()) < BASE.perplexity(text)
    with pytest.raises(ValueError, match="n_sentences"):
        model.sample(-1)


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
        ({"length": 10**30}, "length"),
        ({"half_life": 0.5}, "half_life"),
        ({"half_life": [[3.0]]}, "half_life"),
        ({"half_life": ["x"]}, "half_life"),
        ({"half_life": [3, np.nan]}, "half_life"),
        ({"learning_rate": -0.1}, "learning_rate"),
        ({"learning_rate": 1.5}, "learning_rate"),
        ({"learning_rate": [0.1, 0.1]}, "learning_rate must be a number in .0, 1., or"),
        ({"learning_rate": [0.1, 0.1, np.nan]}, "learning_rate"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"length": -1}, "length"),
        ({"weights": [1, 0, 0]}, "weights must be 11 numbers, for base, word 60"),
        ({"weights": np.full(11, -0.5)}, "weights must be non-negative"),
        ({"weights": np.full(11, np.inf)}, "weights must be non-negative"),
        ({"weights": 1 - np.eye(11)[0]}, "positive for the base"),
        ({"weights": ["a"] * 11}, "weights"),
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
    with pytest.raises(ValueError, match="X is empty"):
        CacheLM(FrozenEstimator(cached().base_)).fit([])
    model = cached()
    with pytest.raises(TypeError, match="state must be a CacheState"):
        model.score_stream(HELD, state=3)
    with pytest.raises(TypeError, match="cursor must be a CacheCursor"):
        model.advance(model.base_.begin(), "a")
    # The kernel would read behind the arrays of the other cache.
    foreign = cached(max_order=2, word_classes=2).begin()
    for ask in (model.rows, lambda cursor: model.advance(cursor, "a")):
        with pytest.raises(ValueError, match="state is of another model"):
            ask(foreign)
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


def test_a_base_from_a_file_is_not_trained_again(tmp_path):
    LanguageModel(AdditiveLM(), max_depth=2).fit(TRAIN).save(tmp_path / "a.arpa")
    base = LanguageModel.load(tmp_path / "a.arpa")
    for given in (base, clone(base)):
        with pytest.raises(ValueError, match=r"give FrozenEstimator\(base\)"):
            CacheLM(given).fit(TRAIN)
    model = CacheLM(FrozenEstimator(base), weights="em").fit(TRAIN)
    assert model.base_ is base


def test_classes_see_no_held_out_sentences_while_weights_are_learnt():
    text = TRAIN + HELD
    model = CacheLM(clone(BASE), word_classes=3, validation_fraction=0.25).fit(text)
    same = without_refit(model, text)
    np.testing.assert_allclose(model.gate_coef_, same.gate_coef_)
    clustering = ExchangeClustering(3, offsets=(-1, 1)).fit(text)
    labels = np.asarray(clustering.classes_of(model.vocabulary_))
    number = np.unique(labels, return_inverse=True)[1]
    np.testing.assert_array_equal(model.class_of_, number)


SETTINGS = CacheSettings(3, 2, (2.0,), (2.0,), (), None, None, (0.0,) * 3, 2500.0)
MIXER = Mixer(np.array([0, 1, 2], dtype=np.int32), np.zeros((0, 2)), None, None)


def read_words(words, of_base, class_of=(0, 1, 1), **settings):
    """Read words with given P of two classes; ln of the factor of P of each word."""
    class_of = np.array(class_of, dtype=np.int32)
    state = CacheState(SETTINGS._replace(class_of=class_of, **settings))
    n = len(words)
    first = np.zeros(n, dtype=np.uint8)
    first[0] = SENTENCE
    of_base = np.array(of_base) + np.zeros((n, 2))
    at = ScoredWords(np.array(words, dtype=np.int32), first, np.zeros(n), of_base)
    return np.nan_to_num(state.recall(MIXER, [at]).log_parts[:, 0]), state


def scores(state, first, of_base=(0.5, 0.5)):
    """ln of the factors of P of both classes after a state."""
    row = np.log(np.repeat(of_base, (1, 2)) / (1, 2, 2))
    out = np.empty(3)
    only_base = Mixer(
        np.array([0, 1, 2], dtype=np.int32), np.zeros((0, 2)), None,
        np.tile([1.0, 0.0, 0.0], (3, 1)),
    )  # fmt: skip
    state.counts.row(only_base, first, row, out)
    return (out - row)[:2]


def test_words_from_which_no_classes_are_learnt():
    """A word without class ends the context; a class of probability 0 takes no step."""
    words = [0, 1, 0, 1, 0, -1, 1]
    rates = {"learning_rate": (0, 0.5, 0.5)}
    gain, state = read_words(words, [0.5, 0.5], **rates)
    assert (gain[3:5] > 0).all() and gain[5] == gain[6] == 0
    assert np.abs(scores(state, first=False)).max() > 0
    gain, state = read_words([*words, -1], [0.5, 0.5], **rates)
    np.testing.assert_allclose(scores(state, first=False), 0.0, rtol=0, atol=1e-15)
    assert np.abs(scores(state, first=True)).max() > 0
    rates = {"learning_rate": (1, 1, 1)}
    for length in (None, 1):
        gain, state = read_words([1, 1, 0], [1.0, 0.0], **rates, length=length)
        assert (gain == 0).all()
        found = scores(state, first=False)
        np.testing.assert_allclose(found, 0.0, rtol=0, atol=1e-15)
    # Steps are forgotten once, also where words without one came after them.
    proba = [[0.5, 0.5]] * 3 + [[1.0, 0.0]] * 5
    gain, state = read_words([1, 0, 1, 1, 1, 1, 1, 1], proba, **rates, length=1)
    np.testing.assert_allclose(scores(state, first=False), 0.0, rtol=0, atol=1e-12)
    words = [0, 1, -1, 0, 1, 1, -1, 0, -1, -1]
    gain, state = read_words(words, [0.3, 0.7], **rates, length=2)
    for first in (False, True):
        found = scores(state, first, (0.3, 0.7))
        np.testing.assert_allclose(found, 0.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [40_000, 200_000])
def test_a_state_is_read_by_one_thread_at_a_time(n):
    """The other thread gets an error, no memory that is written to at once."""
    model, text = cached(), [["w1", "w2"]] * n
    state, errors, meet = model.new_state(), [], threading.Barrier(2, timeout=600)

    def read():
        meet.wait()
        try:
            model.score_stream(text, state=state)
        except ValueError as exc:
            errors.append(str(exc))

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert all("give each thread its own copy" in error for error in errors)
    assert np.isfinite(model.perplexity(HELD, state=state))


def test_a_text_is_read_as_a_whole_or_not_at_all():
    """Also where another thread begins while this one makes room for the words."""
    model, text = cached(), [["w1", "w2"]] * 2_000
    want = []
    state = model.new_state()
    for _ in range(2):
        model.score_stream(text, state=state)
        want.append((state.n_words_, model.perplexity(HELD, state=state.copy())))

    def run(meet, state, read):
        meet.wait()
        with contextlib.suppress(ValueError):
            model.score_stream(text, state=state)
            read.append(1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(60):
            state, read = model.new_state(), []
            meet = threading.Barrier(2, timeout=600)

            both = [
                threading.Thread(target=run, args=(meet, state, read)) for _ in range(2)
            ]
            for thread in both:
                thread.start()
            for thread in both:
                thread.join(600)
            n_read, perplexity = want[len(read) - 1]
            assert state.n_words_ == n_read
            assert model.perplexity(HELD, state=state) == pytest.approx(perplexity)
    finally:
        sys.setswitchinterval(interval)


def test_a_length_beyond_the_text_takes_no_room():
    """Gradients are kept for the words that were read, not for those that may come."""
    text = random_text(11, 30)
    far, near = (
        cached(word_classes=3, learning_rate=0.5, length=length)
        for length in (10**15, 70)
    )
    for model in (far, near):
        whole = model.score_stream(text)
        state, parts = model.new_state(), []
        for i in range(0, 30, 3):
            parts += model.score_stream(text[i : i + 3], state=state)
        for a, b in zip(whole, parts):
            np.testing.assert_allclose(a, b, rtol=1e-9)
    assert sum(len(s) + 1 for s in text) > 100
    assert len(pickle.dumps(far.new_state())) < 100_000


def test_theta_is_the_most_likely_of_each_class():
    """Against plain loops over the held-out text, which the base has not seen."""
    from sklstruct.language_model._cache_fit import _PRIOR_POSITIONS, _THETAS

    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(12)]
    text = []
    for _ in range(60):  # each document has its own words, beside common ones
        own = [*rng.choice(words[:6], 2), *words[6:]]
        text += [" ".join(rng.choice(own, 8)) for _ in range(4)]
    base = LanguageModel(KneserNeyLM(), max_depth=2).fit(text[:120])
    clustering = ExchangeClustering(3, offsets=(-1, 1)).fit(text[:120])
    model = cached(
        base, text[120:], word_classes=FrozenEstimator(clustering), max_order=2,
        class_half_life=(5, 50),
    )  # fmt: skip
    given = clone(model).set_params(weights=[1] * 7).fit(text)
    assert (given.theta_ == 15).all()
    held, g = number_sentences(text[120:]), model.class_of_
    fit, n_used = np.zeros((*model.theta_.shape, _THETAS.size)), np.zeros(2)
    for block in model._positions(held):
        past = []
        for y, log_base, of_base in zip(
            block.words.tolist(), block.log_base, block.of_base
        ):
            inside = np.exp(log_base) / of_base[g[y]]
            for k, tau in enumerate((5, 50)):
                age = len(past) - np.arange(len(past))
                in_class = g[past] == g[y] if past else np.zeros(0, dtype=bool)
                a = (2.0 ** (-age / tau))[np.array(past) == y].sum()
                total = (2.0 ** (-age / tau))[in_class].sum()
                if total == 0:
                    continue
                n_used[k] += 1
                fit[k, g[y]] += np.log((a + _THETAS * inside) / (total + _THETAS))
            past.append(y)
    fit += _PRIOR_POSITIONS * fit.sum(axis=1, keepdims=True) / n_used[:, None, None]
    np.testing.assert_array_equal(model.theta_, _THETAS[fit.argmax(axis=2)])
    assert np.unique(model.theta_).size > 1


def test_theta_after_a_refit():
    """Classes that stay the same keep theirs."""
    rng = np.random.default_rng(1)
    text = [" ".join(rng.choice(list("abcdefgh"), 6)) for _ in range(90)]
    clustering = ExchangeClustering(3, offsets=(-1, 1)).fit(text)
    base = LanguageModel(
        KneserNeyLM(discount=0.7), max_depth=2, vocabulary=list("abcdefgh")
    )
    model = CacheLM(
        base, word_classes=FrozenEstimator(clustering), max_order=2,
        validation_fraction=0.3,
    )  # fmt: skip
    first = without_refit(model, text)
    np.testing.assert_allclose(model.fit(text).theta_, first.theta_, rtol=1e-12)
    # Other classes have a mean of those of their words.
    model.set_params(word_classes=3)
    first = without_refit(model, text)
    other = clone(model).fit(text)
    read = " ".join(f"{s} </s>" for s in text).split()
    count = np.array([1.0 + read.count(w) for w in other.vocabulary_])
    for k, theta in enumerate(first.theta_):
        for g in range(3):
            here = other.class_of_ == g
            wanted = np.average(
                np.log(theta[first.class_of_[here]]), weights=count[here]
            )
            assert np.log(other.theta_[k, g]) == pytest.approx(wanted)
    assert not np.allclose(other.theta_, first.theta_)


@pytest.mark.parametrize(
    "params", [{}, {"max_vocabulary": 6}, {"min_count": 9}], ids=str
)
@pytest.mark.parametrize("word_classes", [3, "base"])
def test_theta_after_a_refit_with_other_words(params, word_classes):
    """The last sentences have words that those before do not have."""
    rng = np.random.default_rng(4)
    # The words a to d come in bursts.
    text = [
        " ".join([*"abcd"[i // 3 % 4] * 3, *rng.choice(list("efgh"), 3)])
        for i in range(80)
    ]
    text += [" ".join(rng.choice(list("bhxyz"), 6)) for _ in range(30)]
    smoother = KneserNeyLM(discount=0.7)
    if word_classes == "base":
        smoother = FactoredLM(ExchangeClustering(3, random_state=0), smoother)
    base = LanguageModel(smoother, max_depth=2, **params)
    model = CacheLM(
        base, word_classes=word_classes, max_order=2, validation_fraction=0.3
    )
    first = without_refit(model, text)
    other = model.fit(text)
    assert set(first.vocabulary_) != set(other.vocabulary_)
    assert np.unique(first.theta_).size > 1
    place = {word: i for i, word in enumerate(first.vocabulary_.tolist())}
    known = [word in place for word in other.vocabulary_.tolist()]
    read = [w if w in other.vocabulary_ else "<unk>" for w in " ".join(text).split()]
    read += ["</s>"] * len(text)
    count = np.array([1.0 + read.count(w) for w in other.vocabulary_])
    assert other.theta_.shape == (2, other.class_of_.max() + 1)
    for (k, g), theta in np.ndenumerate(other.theta_):
        words = np.flatnonzero(known & (other.class_of_ == g))
        if not words.size:  # a class of new words
            words = np.flatnonzero(known)
        at = [place[word] for word in other.vocabulary_[words]]
        old = np.log(first.theta_[k, first.class_of_[at]])
        assert np.log(theta) == pytest.approx(np.average(old, weights=count[words]))
    assert np.isfinite(other.perplexity(text))


def test_a_class_of_new_words_only():
    text = ["a b a b b a"] * 40 + ["c d c c d"] * 10
    model = CacheLM(
        LanguageModel(WittenBellLM(), max_depth=1), word_classes=AToC(), max_order=1,
        validation_fraction=0.2,
    )  # fmt: skip
    first = without_refit(model, text)
    other = model.fit(text)
    old = np.log(first.theta_[0, first.class_of_])  # a, b, <unk>, </s>
    weights = np.array([121.0, 121.0, 1.0, 51.0])
    new = other.class_of_[other.vocabulary_.tolist().index("d")]
    assert (other.class_of_ == new).sum() == 1
    wanted = np.average(old, weights=weights)
    assert np.log(other.theta_[0, new]) == pytest.approx(wanted)


class AToC(BaseEstimator):
    """A clustering: words by their letter, d alone in the last class."""

    def fit(self, X, y=None):
        return self

    def classes_of(self, symbols):
        return np.array([{"a": 0, "b": 1, "d": 2}.get(s, 0) for s in symbols])


class BAndC(BaseEstimator):
    """A clustering: b and c, all others."""

    def fit(self, X, y=None):
        return self

    def classes_of(self, symbols):
        return np.array([int(s not in ("b", "c")) for s in symbols])


def test_theta_where_nothing_knows_a_word():
    """A word of probability 0, new to the cache, says nothing about theta."""
    base = LanguageModel(Follows(), max_depth=1)
    base.fit([["a", "b"], ["a", "b", "b"], ["c", "a", "b"]] * 9)
    model = CacheLM(FrozenEstimator(base), word_classes=BAndC(), max_order=1)
    held = [["a", "b"], ["a", "b", "b"]] * 9
    for text in (held, [*held, ["a", "c"]]):
        assert (clone(model).fit(text).theta_[:, 0] > 100).all()
