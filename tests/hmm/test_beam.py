"""Decoding by a beam: any language model against sums over words, and exact answers."""

import functools
import itertools
import pickle

import numpy as np
import pytest
from _cases import each_value
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import InvalidParameterError

from sklstruct import (
    AdditiveLM,
    BackoffModel,
    KneserNeyLM,
    LanguageModel,
    NoisyChannelDecoder,
)
from sklstruct.hmm import EditDistanceChannel, KeypadChannel
from sklstruct.hmm._beam import BeamSearch
from sklstruct.language_model import CacheLM
from sklstruct.mixture import MixtureLM
from sklstruct.smoothing import WittenBellLM

pytestmark = pytest.mark.filterwarnings("ignore:estimator=.*too few words")

TEXT = [
    "the dog ran home",
    "the fog came in",
    "a cat sat on the mat",
    "the cat ran",
    "a cat sat on the dog",
    "an ant sat in the fog",
] * 3
WORDS = sorted({word for line in TEXT for word in line.split()})


class Repeats(ClassifierMixin, BaseEstimator):
    """A word of the window comes again; a distribution that a user writes."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        proba = np.ones((len(X), self.classes_.size))
        for row, window in zip(proba, np.asarray(X)):
            row[np.isin(self.classes_, window)] += 3.0
        return proba / proba.sum(axis=1, keepdims=True)


class KeepsOne:
    """A channel that changes no word."""

    def bind(self, words):
        self.words = words
        return self

    def candidates(self, observation):
        return [self.words.index(observation)], [0.0]


def mixture():
    models = [("kn", KneserNeyLM(discount=0.5)), ("repeats", Repeats())]
    return MixtureLM(models, weights=[0.7, 0.3])


MODELS = {
    "mixture": lambda: LanguageModel(mixture(), max_depth=2),
    "user": lambda: LanguageModel(Repeats(), max_depth=3),
    "fast": lambda: LanguageModel("fast", max_depth=2),
    "better": lambda: LanguageModel("better"),
    "cache": lambda: CacheLM(
        LanguageModel(KneserNeyLM(discount=0.5), max_depth=2),
        max_order=2, half_life=50, weights=[0.7, 0.1, 0.1, 0.1],
    ),
    "closed": lambda: LanguageModel(Repeats(), max_depth=2, unknown=None),
    "closed cache": lambda: CacheLM(
        LanguageModel(AdditiveLM(delta=0.5), max_depth=2, unknown=None),
        max_order=2, half_life=50, weights=[0.7, 0.1, 0.1, 0.1],
    ),
}  # fmt: skip


@functools.cache
def fitted(kind):
    """A model that no test changes."""
    return MODELS[kind]().fit(TEXT)


def log_proba(lm, sentences):
    """Natural logarithms of P of the words of each sentence and its end, one by one."""
    if isinstance(lm, CacheLM):
        return [np.concatenate(list(lm.score_stream([words]))) for words in sentences]
    return list(lm.token_log_proba(sentences))


def all_paths(decoder, lm, channel, observed, weight):
    """Every sentence with its joint log-probability, best first.

    The scores are those of whole texts. An unknown word has the probability
    10 / sqrt(V), at most 1/2, after no history; or after all, if the model gives none.
    """
    base, bound = getattr(lm, "base_", lm), channel.bind(WORDS)
    share = np.log(min(0.5, 10 / np.sqrt(len(WORDS))))
    empty, unknown = -np.inf, "<unk>"
    if base.unknown is None:
        base.out_of_vocabulary, unknown = "exclude", "outside"
    else:
        predictor = base.predictor
        at = predictor.locate(predictor.read(np.full((1, 1), -1, dtype=np.int32)))
        empty = predictor.model.rows(at)[0, lm.vocabulary_.tolist().index("<unk>")]
    given = empty > -np.inf
    choices = []
    for o in observed:
        ids, factor = (range(len(WORDS)), np.zeros(len(WORDS)))
        if o is not None:
            ids, factor = bound.candidates(o)
        some = [(WORDS[i], f) for i, f in zip(ids, factor)]
        spelt = getattr(bound, "log_unknown", None)
        if o is not None and o not in WORDS and (spelt or not some):
            own = 0.0 if spelt is None else spelt(o)
            some.append((None, own + weight * (share - empty if given else share)))
        choices.append(some)
    out, paths = [], list(itertools.product(*choices))
    said = [[unknown if w is None else w for w, _ in path] for path in paths]
    for path, values in zip(paths, log_proba(lm, said), strict=True):
        counts = [given or word is not None for word, _ in path] + [True]
        value = weight * values[counts].sum() + sum(f for _, f in path)
        answer = [o if word is None else word for o, (word, _) in zip(observed, path)]
        out.append((value, answer))
    return sorted(out, key=lambda entry: -entry[0])


@pytest.mark.parametrize(*each_value(kind=MODELS, weight=[0.6, 1.0]))
def test_a_wide_beam_agrees_with_enumeration(kind, weight):
    lm = MODELS[kind]().fit(TEXT)
    keys, edits = KeypadChannel(k=4), EditDistanceChannel(0.01)
    for channel, sentences in (
        (keys, [["228", "726", None], ["843", "999999"], []]),
        (edits, [["teh", "dxg", "sta", "12", "home"], ["zzzzzzz"]]),
    ):
        decoder = NoisyChannelDecoder(
            FrozenEstimator(lm), channel, beam_width=10_000, transition_weight=weight
        ).fit()
        assert decoder.classes_.tolist() == WORDS
        found, best = decoder.decode(sentences), decoder.predict_k(sentences, 3)
        narrow = clone(decoder).set_params(beam_width=2).fit().decode(sentences)
        for i, observed in enumerate(sentences):
            paths = all_paths(decoder, lm, channel, observed, weight)
            scores = [score for score, _ in paths]
            assert found.log_proba[i] == pytest.approx(scores[0], rel=1e-9)
            if len(paths) > 1 and scores[0] - scores[1] > 1e-9:
                assert found.labels[i].tolist() == paths[0][1]
            np.testing.assert_allclose([s for _, s in best[i]], scores[:3], rtol=1e-9)
            # A narrow beam finds a path with its own score, and no better one.
            score = {tuple(answer): s for s, answer in paths}
            own = score[tuple(narrow.labels[i])]
            assert narrow.log_proba[i] == pytest.approx(own, rel=1e-9)
            assert own <= scores[0] + 1e-9
        assert not found.approximate.any() and (found.gap == 0).all()
        assert narrow.approximate.any() and (narrow.gap[narrow.approximate] > 1e9).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_beam_and_the_exact_decoder(seed):
    """Back-off models: the same answers if nothing is lost, and none better."""
    rng = np.random.RandomState(seed)
    smoother = [WittenBellLM(), AdditiveLM(delta=0.1), KneserNeyLM(discount=0.5)]
    lm = LanguageModel(smoother[seed % 3], max_depth=int(rng.randint(1, 4)))
    lm = FrozenEstimator(lm.fit(rng.permutation(TEXT)[:9].tolist()))
    channel = [KeypadChannel(k=2), EditDistanceChannel(0.02)][seed % 2]
    options = {"transition_weight": float(rng.uniform(0.3, 2.0))}
    exact = NoisyChannelDecoder(lm, channel, **options).fit()
    words = exact.classes_.tolist()
    X = []
    for _ in range(6):
        x = [str(rng.choice(words)) for _ in range(rng.randint(0, 7))]
        if seed % 2 == 0:
            x = [channel.corrupt(word, rng) for word in x]
        else:
            x = [word[::-1] if rng.rand() < 0.3 else word for word in x]
        X.append([None if rng.rand() < 0.2 else o for o in x])
    given = [
        [{*rng.choice(words, 3).tolist()} if o is None else None for o in x] for x in X
    ]
    for known in (None, given):
        best = exact.decode(X, given=known)
        scores = [[s for _, s in paths] for paths in exact.predict_k(X, 4, given=known)]
        for width in (1, 2, 4, 5000):
            beam = NoisyChannelDecoder(lm, channel, beam_width=width, **options).fit()
            found = beam.decode(X, given=known)
            assert (found.log_proba <= best.log_proba + 1e-9).all()
            same = ~found.approximate
            np.testing.assert_allclose(
                found.log_proba[same], best.log_proba[same], rtol=1e-9
            )
            if width == 5000:
                assert same.all()
                many = beam.predict_k(X, 4, given=known)
                for a, b in zip(many, scores, strict=True):
                    np.testing.assert_allclose([s for _, s in a], b, rtol=1e-9)


@pytest.mark.parametrize(
    "estimator", [WittenBellLM(), MixtureLM([("wb", WittenBellLM())], weights=[1.0])]
)
def test_histories_with_equal_states_are_merged(estimator):
    # The state of a bigram model is the last word: a beam of all words is exact.
    lm = FrozenEstimator(LanguageModel(estimator, max_depth=1).fit(TEXT))
    table = LanguageModel(WittenBellLM(), max_depth=1)
    X = [["228", None, None, "364", None, None, "843"]]
    exact = NoisyChannelDecoder(table, KeypadChannel(k=1)).fit(TEXT)
    beam = NoisyChannelDecoder(lm, KeypadChannel(k=1), beam_width=30).fit()
    found = beam.decode(X)
    assert not found.approximate[0] and found.n_states[0] <= 1 + 7 * len(WORDS)
    assert found.log_proba[0] == pytest.approx(exact.decode(X).log_proba[0], rel=1e-12)


class Remainders:
    """States are the remainder of the last class, as rows of two numbers."""

    def __init__(self, modulus):
        self.modulus, self.asked = modulus, 0

    def advance(self, states, y):
        self.asked += len(y)
        return np.column_stack([y % self.modulus, np.zeros_like(y)])


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("width", [2, 9])
@pytest.mark.parametrize("modulus", [5, 2])
def test_states_that_are_kept(modulus, width, n):
    rng = np.random.RandomState(width)
    ids, before = np.arange(12), np.zeros((4, 2), dtype=np.int64)
    order = rng.permutation(48)
    search = BeamSearch(Remainders(modulus), 1.0, width)
    states, kept, number, lost = search._keep(before, order, ids, n)
    remainder = [j % 12 % modulus for j in order.tolist()]
    first = list(dict.fromkeys(remainder))[:width]
    assert states[:, 0].tolist() == first
    assert lost == (width <= modulus)
    # The best of each state, best first, and up to n if all were looked at.
    assert [remainder[order.tolist().index(j)] for j in kept] == [
        first[k] for k in number
    ]
    rank = [order.tolist().index(j) for j in kept]
    assert rank == sorted(rank)
    assert {remainder.index(r) for r in first} <= set(rank)
    assert all(number.tolist().count(k) <= n for k in range(len(first)))
    if width > modulus:
        assert len(kept) == n * modulus and search.automaton.asked == 48
    # All at once, in the first block.
    few = order[: width * n]
    lost = search._keep(before, few, ids, n)[3]
    assert lost == (len({j % 12 % modulus for j in few.tolist()}) > width)
    none = search._keep(before, order[:0], ids, n)
    assert [len(part) for part in none[:3]] == [0, 0, 0] and not none[3]


@pytest.mark.parametrize("kind", ["better", "user", "cache"])
def test_the_narrowest_beam_is_greedy(kind):
    lm, channel = fitted(kind), KeypadChannel(k=4)
    X = [["228", "726", "66", "843"], ["22", "268", "728"]]
    decoder = NoisyChannelDecoder(FrozenEstimator(lm), channel, beam_width=1).fit()
    bound, known = channel.bind(WORDS), lm.vocabulary_.tolist()
    for x, answer in zip(X, decoder.predict(X), strict=True):
        state, found = lm.begin(), []
        for o in x:
            ids, factor = bound.candidates(o)
            row = lm.rows(state)
            scores = [row[known.index(WORDS[i])] + f for i, f in zip(ids, factor)]
            found.append(WORDS[ids[int(np.argmax(scores))]])
            state = lm.advance(state, found[-1])[1]
        assert answer == found


def test_the_first_of_the_best_is_the_prediction():
    lm = FrozenEstimator(fitted("mixture"))
    X = [["228", "726", "66", "843"], [None, "268", None], ["364"]]
    decoder = NoisyChannelDecoder(lm, KeypadChannel(k=1), beam_width=6).fit()
    best = decoder.decode(X)
    for k in (1, 2, 6):
        for paths, labels, score in zip(
            decoder.predict_k(X, k), best.labels, best.log_proba, strict=True
        ):
            assert paths[0] == (labels.tolist(), score)
            values = [s for _, s in paths]
            assert len(paths) <= k and values == sorted(values, reverse=True)
            assert len({tuple(path) for path, _ in paths}) == len(paths)
    with pytest.raises(ValueError, match="^k=7 must be at most beam_width=6"):
        decoder.predict_k(X, 7)


@pytest.mark.parametrize("kind", ["better", "cache", "user"])
def test_threads_and_ties_do_not_change_answers(kind):
    class Equal(Repeats):
        def predict_proba(self, X):
            return np.full((len(X), self.classes_.size), 1 / self.classes_.size)

    channel = KeypadChannel(k=0)  # all words of a length are equal
    lm = FrozenEstimator(LanguageModel(Equal(), max_depth=2).fit(TEXT))
    X = [["222"] * n for n in range(6)] * 4
    decoder = NoisyChannelDecoder(lm, channel, beam_width=3).fit()
    first = next(word for word in WORDS if len(word) == 3)
    assert decoder.predict(X) == [[first] * len(x) for x in X]
    lm = FrozenEstimator(fitted(kind))
    decoder = NoisyChannelDecoder(lm, KeypadChannel(k=1), beam_width=3).fit()
    one, two = decoder.decode(X), decoder.set_params(n_jobs=2).decode(X)
    for a, b in zip(one[1:], two[1:], strict=True):
        np.testing.assert_array_equal(a, b)
    assert [*map(list, one.labels)] == [*map(list, two.labels)]


def test_all_histories_of_a_position_are_asked_in_one_call(monkeypatch):
    lm = FrozenEstimator(LanguageModel(Repeats(), max_depth=3).fit(TEXT))
    decoder = NoisyChannelDecoder(lm, KeypadChannel(k=1), beam_width=20).fit()
    calls, ask = [], Repeats.predict_proba
    monkeypatch.setattr(
        Repeats, "predict_proba", lambda self, X: calls.append(len(X)) or ask(self, X)
    )
    decoder.predict([["228", "726", "66", "843", "364", "728"]])
    # A position: the rows, and a step or two.
    assert len(calls) <= 3 * 7 and max(calls) >= 20


def test_sums_are_refused_by_name():
    lm = LanguageModel(mixture(), max_depth=2)
    decoder = NoisyChannelDecoder(lm, KeypadChannel(), beam_width=4).fit(TEXT)
    X = [["843", "364"]]
    for ask, name in (
        (decoder.predict_proba, "predict_proba"),
        (decoder.sample_posterior, "sample_posterior"),
        (decoder.log_likelihood, "log_likelihood"),
        (decoder.score, "score without y"),
        (lambda X: decoder.inspect(X[0]), "inspect"),
    ):
        with pytest.raises(
            ValueError, match=f"^beam_width=4 .*{name}.*beam_width=None"
        ):
            ask(X)
    assert decoder.score(X, [["the", "dog"]]) in (0.5, 1.0)
    with pytest.raises(ValueError, match=r"given\[0\]: the labels|given\[0\]\[0\]"):
        decoder.predict(X, given=[["zebra", None]])
    assert decoder.predict(X, given=[[None, {"fog"}]]) == [["the", "fog"]]


class NotToBeFitted(LanguageModel):
    def fit(self, X, y=None):
        raise AssertionError("work was done before the parameters were checked")


def test_models_that_cannot_be_decoded():
    lm = LanguageModel(mixture(), max_depth=2)
    with pytest.raises(TypeError, match="(?s)^language_model: .*beam_width=20"):
        NoisyChannelDecoder(lm, KeypadChannel()).fit(TEXT)
    for wrong in (0, -1, 2.5, "wide"):
        with pytest.raises(InvalidParameterError, match="'beam_width' parameter"):
            NoisyChannelDecoder(NotToBeFitted(), KeypadChannel(), beam_width=wrong).fit(
                TEXT
            )
    table = LanguageModel(WittenBellLM(), max_depth=1).fit(TEXT).backoff_model_
    with pytest.raises(TypeError, match=r"^beam_width .*from_backoff"):
        NoisyChannelDecoder(table, KeypadChannel(), beam_width=3).fit()
    again = FrozenEstimator(LanguageModel.from_backoff(table))
    decoder = NoisyChannelDecoder(again, KeypadChannel(), beam_width=30).fit()
    exact = NoisyChannelDecoder(table, KeypadChannel()).fit()
    assert decoder.predict([["843", "364"]]) == exact.predict([["843", "364"]])
    for model, width in ((decoder, None), (exact, 3)):
        model.set_params(beam_width=width)
        with pytest.raises(ValueError, match=f"^beam_width={width} was changed after"):
            model.predict([["843"]])


def test_a_model_that_gives_nan_is_refused(monkeypatch):
    lm = LanguageModel(Repeats(), max_depth=2).fit(TEXT)
    decoder = NoisyChannelDecoder(
        FrozenEstimator(lm), KeypadChannel(), beam_width=3
    ).fit()
    monkeypatch.setattr(
        Repeats,
        "predict_proba",
        lambda self, X: np.full((len(X), self.classes_.size), np.nan),
    )
    with pytest.raises(ValueError, match="^language_model gives NaN"):
        decoder.predict([["843"]])


def test_sentences_without_a_possible_path():
    table = LanguageModel(AdditiveLM(), max_depth=2).fit(TEXT).backoff_model_
    log_prob = table.log_prob.copy()
    log_prob[table.pairs.target == table.labels.class_id("the")] = -np.inf
    table = BackoffModel(table.pairs, log_prob, table.log_backoff, table.labels)
    lm = FrozenEstimator(LanguageModel.from_backoff(table))
    exact = NoisyChannelDecoder(table, KeepsOne()).fit()
    decoder = NoisyChannelDecoder(lm, KeepsOne(), beam_width=50).fit()
    X = [["the", "dog"], ["a", "dog"], ["dog", "the"], []]
    found, best = decoder.decode(X), exact.decode(X)
    np.testing.assert_allclose(found.log_proba, best.log_proba)
    assert np.isfinite(found.log_proba).tolist() == [False, True, False, True]
    assert decoder.predict_k(X[:1]) == [[]] and not found.approximate.any()
    assert [*map(list, found.labels)] == [*map(list, best.labels)]


def test_parameters_and_pickles():
    lm = LanguageModel(mixture(), max_depth=2)
    decoder = NoisyChannelDecoder(lm, KeypadChannel(), beam_width=7)
    assert decoder.get_params(deep=False)["beam_width"] == 7
    assert clone(decoder).beam_width == 7
    X = [["843", "364", None], ["228", "726"]]
    decoder.fit(TEXT)
    again = pickle.loads(pickle.dumps(decoder))
    for name in ("predict", "predict_k"):
        assert getattr(again, name)(X) == getattr(decoder, name)(X)
    # The width of a fitted decoder can be changed.
    wide = clone(decoder).set_params(beam_width=100).fit(TEXT).predict(X)
    assert again.set_params(beam_width=100).predict(X) == wide
