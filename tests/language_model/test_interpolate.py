"""Mixtures of models of different words, and fewer words, by hand and in two ways."""

import copy
import itertools
import pickle
import warnings

import numpy as np
import pytest
from _cases import each_value
from numpy.testing import assert_array_equal
from scipy.optimize import minimize
from sklearn.frozen import FrozenEstimator

from sklstruct import KneserNeyLM, LanguageModel, NoisyChannelDecoder, exchange
from sklstruct.backoff import BackoffModel, mix, prune
from sklstruct.datasets import load_python_topics
from sklstruct.hmm import EditDistanceChannel
from sklstruct.language_model import CacheLM, interpolate
from sklstruct.mixture import MixtureLM
from sklstruct.smoothing import AdditiveLM, WittenBellLM
from sklstruct.symbols._text import ANALYZERS, split_string

TEXT_A = ["the cat sat", "the cat ran", "a cat sat on the mat", "the mat ran"]
TEXT_B = ["the dog ran", "a dog sat", "one dog ran to the house", "to the cat"]
HELD_OUT = ["the cat ran to the house", "a dog sat", "the mat sat", "one fox ran"]
SENTENCES = load_python_topics()


@pytest.fixture(scope="module")
def pair():
    a = LanguageModel(WittenBellLM(), max_depth=2).fit(TEXT_A)
    b = LanguageModel(AdditiveLM(delta=0.3), max_depth=1).fit(TEXT_B)
    return a, b


def closed(text, max_depth=2):
    return LanguageModel(WittenBellLM(), max_depth=max_depth, unknown=None).fit(text)


def words_of(*models):
    marks = {"<unk>", "</s>"}
    return sorted({w for m in models for w in m.vocabulary_.tolist()} - marks)


def by_hand(model, words, history):
    """P(word | history) of a model over the words of all and marks, as a dict."""
    known = model.vocabulary_.tolist()
    state = model.begin()
    for word in history:
        if model.unknown is None and word not in known:
            # An unknown word without a name ends the history.
            state = None
            continue
        if state is None:
            state = model.predictor.read(np.array([[model._labels.token_code[word]]]))[
                0
            ]
        else:
            state = model.advance(state, word)[1]
    if state is None:
        state = model.predictor.read(np.empty((1, 0), dtype=np.int32))[0]
    row = dict(zip(known, np.exp(model.rows(state))))
    lacking = [w for w in words if w not in known]
    mass = row.pop("<unk>", 0.0) / (1 + len(lacking))
    return row | dict.fromkeys([*lacking, "<unk>"], mass)


HISTORIES = [
    [], ["the"], ["the", "cat"], ["one"], ["one", "dog"], ["dog", "sat"], ["fox"],
    ["fox", "the"], ["mat", "house"], ["house", "mat", "the"],
]  # fmt: skip


@pytest.mark.parametrize("weights", [[0.3, 0.7], [1.0, 0.0], [0.0, 2.0]])
def test_rows_are_the_mixture_by_hand(pair, weights):
    words = words_of(*pair)
    model = interpolate(pair, weights=weights)
    assert model.vocabulary_.tolist() == [*words, "<unk>", "</s>"]
    shares = np.array(weights) / np.sum(weights)
    for history in HISTORIES:
        state = model.begin()
        for word in history:
            state = model.advance(state, word)[1]
        row = np.exp(model.rows(state))
        assert abs(row.sum() - 1.0) < 1e-9
        rows = [by_hand(m, words, history) for m in pair]
        expected = [
            sum(s * r[w] for s, r in zip(shares, rows)) for w in model.vocabulary_
        ]
        np.testing.assert_allclose(row, expected, rtol=1e-12)


def test_two_ways_to_a_score(pair):
    """The mixture's scores, and the models' own scores weighed word by word."""
    model = interpolate(pair, weights=[0.4, 0.6])
    assert not model.predictor.kernel.arrays  # all of it is compiled
    words = words_of(*pair)
    expected = []
    for m, share in zip(pair, (0.4, 0.6)):
        known = set(m.vocabulary_.tolist()) - {"<unk>"}
        n = 1 + sum(w not in known for w in words)
        proba = np.exp(np.concatenate(m.token_log_proba(HELD_OUT)))
        tokens = [w for s in HELD_OUT for w in [*s.split(), "</s>"]]
        lacking = np.array([w not in known for w in tokens])
        expected.append(share * np.where(lacking, proba / n, proba))
    got = np.exp(np.concatenate(model.token_log_proba(HELD_OUT)))
    np.testing.assert_allclose(got, np.sum(expected, axis=0), rtol=1e-12)


@pytest.mark.parametrize(*each_value(analyzer=ANALYZERS, weights=[None, [0.5, 0.5]]))
def test_strings_are_split_by_the_rule_of_the_models(analyzer, weights):
    texts = ["the cat\u00a0sat", "a cat ran"] * 3, ["the dog\u00a0sat", "a dog"] * 3
    models = [LanguageModel(AdditiveLM(), analyzer=analyzer).fit(t) for t in texts]
    held_out = ["the dog ran", "the cat\u00a0sat"]
    if weights is None:
        both = interpolate(models, held_out)
    else:
        both = interpolate(models, weights=weights)
    assert both.analyzer == analyzer
    shares = both.estimator_.weights_
    for sentence in held_out:
        symbols = split_string(sentence, analyzer)
        assert both.score_samples([sentence]) == both.score_samples([symbols])
        one = [np.exp(np.concatenate(m.token_log_proba([symbols]))) for m in models]
        expected = np.log(shares @ np.array(one)).sum()
        if all(s in m.vocabulary_ for m in models for s in symbols):
            assert both.score_samples([sentence])[0] == pytest.approx(expected)


def test_mixtures_of_composed_models_are_pickled_and_copied():
    parts = [("kn", KneserNeyLM(discount=0.5)), ("wb", WittenBellLM())]
    composed = LanguageModel(MixtureLM(parts, weights="logistic")).fit(TEXT_A)
    model = interpolate(
        [composed, LanguageModel(WittenBellLM()).fit(TEXT_B)], weights=[0.4, 0.6]
    )
    scores = model.score_samples(HELD_OUT)  # makes the kernels
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_array_equal(other.score_samples(HELD_OUT), scores)


def test_models_without_unknown_word():
    models = [closed(TEXT_A), closed(TEXT_B, 1)]
    model = interpolate(models, weights=[0.5, 0.5])
    assert model.unknown is None
    words = words_of(*models)
    for history in HISTORIES:
        # Of known words: an unknown one cannot be read.
        if "fox" in history:
            continue
        state = model.begin()
        for word in history:
            state = model.advance(state, word)[1]
        rows = [by_hand(m, words, history) for m in models]
        expected = [0.5 * sum(r[w] for r in rows) for w in model.vocabulary_]
        np.testing.assert_allclose(np.exp(model.rows(state)), expected, atol=1e-15)
    # "fox", which no model knows, counts for nothing.
    learnt = interpolate(models, HELD_OUT)
    assert np.isfinite(learnt.perplexity([s for s in HELD_OUT if "fox" not in s]))
    with pytest.raises(ValueError, match="'fox'"):
        learnt.perplexity(HELD_OUT)
    known = interpolate(models, ["the cat ran to the house", "a dog sat"])
    assert known.estimator_.weight_gap_ < 1e-4
    # One of two has an unknown word: so has the mixture.
    some = interpolate([models[0], LanguageModel(WittenBellLM()).fit(TEXT_B)], HELD_OUT)
    assert some.unknown == "<unk>" and np.isfinite(some.perplexity(HELD_OUT))


def test_weights_against_scipy(pair):
    third = LanguageModel(AdditiveLM(), max_depth=3).fit([*TEXT_B[:2], "a fox sat"])
    models = [*pair, third]
    model = interpolate(models, HELD_OUT)
    parts = [
        interpolate(models, weights=np.eye(3)[k]).token_log_proba(HELD_OUT)
        for k in range(3)
    ]
    proba = np.exp([np.concatenate(part) for part in parts])

    def loss(v):
        pi = np.exp(v - np.logaddexp.reduce(v))
        return -np.log(pi @ proba).mean()

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    mixed = model.estimator_
    reached = -model.score(HELD_OUT)
    assert reached <= best.fun + 1e-6
    # The certificate bounds what is left, and is small.
    assert best.fun >= reached - mixed.weight_gap_ - 1e-12
    ratio = (proba / (mixed.weights_ @ proba)).mean(axis=1)
    assert mixed.weight_gap_ == pytest.approx(max(ratio.max() - 1, 0), abs=1e-9)
    assert mixed.weight_gap_ < 1e-4
    pi = np.exp(best.x - np.logaddexp.reduce(best.x))
    np.testing.assert_allclose(mixed.weights_, pi, atol=2e-2)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two ARPA files of different texts and words, and held-out text."""
    folder = tmp_path_factory.mktemp("models")
    text = [" ".join(words) for words in SENTENCES[:600]]
    halves = text[:250], text[250:500]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, half, depth in zip("ab", halves, (2, 3)):
            lm = LanguageModel(KneserNeyLM(), max_depth=depth, min_count=2).fit(half)
            lm.save(folder / f"{name}.arpa", precision=12)
    exchange.write(exchange.read(folder / "b.arpa"), folder / "b.bin", format="kenlm")
    return folder, text[500:]


def test_files(files):
    folder, held_out = files
    paths = [folder / "a.arpa", str(folder / "b.arpa")]
    model = interpolate(paths, held_out)
    assert model.perplexity(held_out) < min(
        interpolate(paths, weights=w).perplexity(held_out) for w in ([1, 0], [0, 1])
    )
    binary = interpolate([paths[0], folder / "b.bin"], held_out)
    np.testing.assert_allclose(
        binary.estimator_.weights_, model.estimator_.weights_, rtol=1e-4
    )
    again = pickle.loads(pickle.dumps(model))
    assert again.perplexity(held_out) == model.perplexity(held_out)
    # Weights that depend on the history.
    by_depth = interpolate(paths, held_out, weights="by_depth")
    assert by_depth.perplexity(held_out) < model.perplexity(held_out) * 1.001
    drawn = model.sample(3, random_state=0)
    assert drawn == interpolate(paths, held_out).sample(3, random_state=0)


def test_written_union_in_kenlm(files):
    kenlm = pytest.importorskip("kenlm")
    folder, held_out = files
    model = interpolate([folder / "a.arpa", folder / "b.arpa"], held_out)
    path = folder / "mixed.arpa"
    parts = [LanguageModel.load(folder / f"{k}.arpa").backoff_model_ for k in "ab"]
    mixed = mix(parts, model.estimator_.weights_)
    with pytest.warns(UserWarning, match="the mixture becomes one table"):
        model.save(path, precision=9)
    union = LanguageModel.load(path)
    assert union.backoff_model_.check_normalized(tol=1e-6) < 1e-6
    theirs = kenlm.Model(str(path))
    for sentence in held_out:
        expected = union.score_samples([sentence])[0] / np.log(10)
        assert theirs.score(sentence) == pytest.approx(expected, rel=1e-5)
    # Every n-gram of both files is explicit, with the probability of the mixture.
    keys = [
        {(*context, m.labels.classes[y]) for context, y in ngrams(m)} for m in parts
    ]
    assert {(*c, mixed.labels.classes[y]) for c, y in ngrams(mixed)} == keys[0] | keys[
        1
    ]
    assert mixed.check_normalized() < 1e-9
    assert abs(union.perplexity(held_out) / model.perplexity(held_out) - 1) < 0.01


def ngrams(model):
    """(words of the context, class) of every pair."""
    symbols = np.append(model.labels.symbols, None)
    windows = model.tree.windows()
    for node, y in zip(model.pairs.nodes(), model.pairs.target):
        yield tuple(w for w in symbols[windows[node]] if w is not None), y


def test_mix_is_the_mixture_where_it_is_explicit(pair):
    models = [m.backoff_model_ for m in pair]
    mixed, exact = mix(models, [1, 3]), interpolate(pair, weights=[1, 3])
    assert mixed.labels.classes.tolist() == exact.vocabulary_.tolist()
    assert mixed.check_normalized() < 1e-12
    words = words_of(*pair)
    for (context, y), log_prob in zip(ngrams(mixed), mixed.log_prob):
        history = list(context)
        if history[:1] == ["<s>"]:
            history = history[1:]
            rows = [by_hand(m, words, history) for m in pair]
            word = mixed.labels.classes[y]
            expected = 0.25 * rows[0][word] + 0.75 * rows[1][word]
            assert np.exp(log_prob) == pytest.approx(expected, rel=1e-12)
    # The order of the models is of no account, nor are labels in another order.
    other = mix(models[::-1], [3, 1])
    assert other.labels == mixed.labels
    np.testing.assert_allclose(other.log_prob, mixed.log_prob, rtol=1e-12)


def test_mix_of_unigrams_that_miss_one(pair):
    """Files are rounded, and some leave mass: the rows of a mixture sum to 1."""
    a, b = (lm.backoff_model_ for lm in pair)
    log_prob = a.log_prob.copy()
    log_prob[: a.n_classes] += np.log(0.9)
    rough = BackoffModel(a.pairs, log_prob, a.log_backoff, a.labels)
    assert rough.check_normalized(tol=np.inf) > 0.05
    assert mix([rough, b], [0.5, 0.5]).check_normalized() < 1e-12


def test_mix_reads_lacking_words_as_unknown(tmp_path):
    """Contexts of words that one model lacks, where it has contexts of <unk>."""
    rare = [*TEXT_A, "a fox sat", "the fox ran", "one bird sat"]
    a = LanguageModel(WittenBellLM(), max_depth=2, min_count=3).fit(rare)
    b = LanguageModel(WittenBellLM(), max_depth=2).fit(TEXT_B)
    mixed = mix([a.backoff_model_, b.backoff_model_], [0.5, 0.5])
    words, n = words_of(a, b), 0
    for (context, y), log_prob in zip(ngrams(mixed), mixed.log_prob):
        if context[:1] == ("<s>",):
            rows = [by_hand(m, words, context[1:]) for m in (a, b)]
            expected = 0.5 * sum(row[mixed.labels.classes[y]] for row in rows)
            assert np.exp(log_prob) == pytest.approx(expected, rel=1e-12)
            n += bool({"dog", "one"} & set(context))
    assert n
    # Rows of files with few decimals do not sum to 1; those of their mixture do.
    for name, lm in (("a", a), ("b", b)):
        lm.save(tmp_path / f"{name}.arpa", precision=3)
    rough = mix([exchange.read(tmp_path / f"{k}.arpa") for k in "ab"], [0.5, 0.5])
    assert rough.check_normalized() < 1e-9


def test_a_word_of_each_model_alone():
    a, b = closed(["x"]), closed(["y"])
    mixed = mix([a.backoff_model_, b.backoff_model_], [0.5, 0.5])
    assert mixed.check_normalized() < 1e-12
    assert mixed.labels.classes.tolist() == ["x", "y", "</s>"]
    row = np.exp(mixed.rows([0])[0])
    np.testing.assert_allclose(
        row[:2], 0.5 * np.exp([a.rows(a.begin())[0], b.rows(b.begin())[0]]), atol=0.3
    )


def test_models_and_weights_that_cannot_be_interpolated(pair, files):
    a, b = pair
    with pytest.raises(ValueError, match="models is empty"):
        interpolate([], HELD_OUT)
    for one in ("a.arpa", a):
        with pytest.raises(TypeError, match="one path"):
            interpolate(one, HELD_OUT)
    with pytest.raises(TypeError, match=r"models\[1\] must be a fitted"):
        interpolate([a, a.estimator_], HELD_OUT)
    with pytest.raises(ValueError, match="give X_val or constant"):
        interpolate(pair)
    with pytest.raises(ValueError, match="give X_val or constant"):
        interpolate(pair, HELD_OUT, weights=[0.5, 0.5])
    for weights in ([0.5], [np.nan, 0.5], [-1, 2], [0, 0], [np.inf, 1]):
        with pytest.raises(ValueError, match="weights must be"):
            interpolate(pair, weights=weights)
    with pytest.raises(ValueError, match="X is empty"):
        interpolate(pair, [])
    marks = LanguageModel(AdditiveLM(), end="STOP").fit(TEXT_B)
    with pytest.raises(ValueError, match=r"models\[1\] has the marks"):
        interpolate([a, marks], HELD_OUT)
    with pytest.raises(ValueError, match=r"models\[1\] has the marks"):
        mix([a.backoff_model_, marks.backoff_model_], [1, 1])
    with pytest.raises(Exception, match="not fitted"):
        interpolate([a, LanguageModel(AdditiveLM())], HELD_OUT)
    # Words of a fitted model that the model around it lacks.
    mixture = MixtureLM([("a", FrozenEstimator(a)), ("b", FrozenEstimator(b))])
    with pytest.raises(ValueError, match="^models?.*lacks|^a: the fitted.*lacks"):
        LanguageModel(mixture, max_depth=2).fit(["the cat"])
    with pytest.raises(TypeError, match="inside"):
        mixture.fit([[0, 1]], [0])


def test_mixtures_of_any_models(pair):
    """A model without a table, a cache over the result."""
    better = LanguageModel("better", max_depth=2)
    text = [" ".join(words) for words in SENTENCES[:200]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        better.fit(text)
    model = interpolate([pair[0], better], text[:20])
    assert model.perplexity(text[:20]) < better.perplexity(text[:20]) * 1.01
    state = model.advance(model.begin(), "the")[1]
    assert abs(np.exp(model.rows(state)).sum() - 1.0) < 1e-9
    with pytest.raises(AttributeError, match="^save needs.*'model1' of the MixtureLM"):
        model.save("x.arpa")
    cached = CacheLM(FrozenEstimator(model), max_order=2, weights="em").fit(text[:20])
    assert np.isfinite(cached.perplexity(text[:5]))


def test_models_from_files_are_used_as_they_are(files, tmp_path):
    folder, held_out = files
    model = LanguageModel.load(folder / "a.arpa")
    frozen = FrozenEstimator(model)
    with pytest.raises(ValueError, match="FrozenEstimator"):
        NoisyChannelDecoder(model, EditDistanceChannel()).fit(held_out)
    decoder = NoisyChannelDecoder(frozen, EditDistanceChannel()).fit(held_out)
    assert decoder.transition_model_ is model.backoff_model_
    with pytest.raises(ValueError, match="FrozenEstimator"):
        CacheLM(model).fit(held_out)
    words = words_of(model)
    mixture = MixtureLM([("a", frozen)], weights=[1.0])
    one = LanguageModel(mixture, max_depth=2, vocabulary=words).fit(held_out[:1])
    np.testing.assert_allclose(
        one.score_samples(held_out), model.score_samples(held_out), rtol=1e-10
    )


# ---------------------------------------------------------- prune to a vocabulary


@pytest.mark.parametrize("unknown", ["<unk>", None])
def test_a_vocabulary_by_hand(unknown):
    lm = LanguageModel(WittenBellLM(), max_depth=2, unknown=unknown).fit(TEXT_A)
    kept = ["the", "cat", "sat", "unheard"]
    smaller = LanguageModel.from_backoff(prune(lm.backoff_model_, vocabulary=kept))
    words = smaller.vocabulary_.tolist()
    assert set(words) == {"the", "cat", "sat", "<unk>", "</s>"}
    assert smaller.backoff_model_.check_normalized() < 1e-9
    n = 0
    for length in range(4):
        for history in itertools.product(kept[:3], repeat=length):
            states = lm.begin(), smaller.begin()
            for word in history:
                states = [m.advance(s, word)[1] for m, s in zip((lm, smaller), states)]
            rows = [np.exp(m.rows(s)) for m, s in zip((lm, smaller), states)]
            row = dict(zip(lm.vocabulary_, rows[0]))
            expected = {w: row[w] for w in words if w != "<unk>"}
            expected["<unk>"] = sum(p for w, p in row.items() if w not in expected)
            np.testing.assert_allclose(rows[1], [expected[w] for w in words], rtol=1e-9)
            n += 1
    assert n == 40


def test_a_model_of_fewer_words_is_written_and_mixed(files):
    kenlm = pytest.importorskip("kenlm")
    folder, held_out = files
    whole = exchange.read(folder / "a.arpa")
    words = whole.labels.classes[::3]
    smaller = prune(whole, vocabulary=words)
    assert smaller.n_pairs < whole.n_pairs
    assert not set(smaller.labels.symbols) - {*words, "<s>", "</s>", "<unk>"}
    exchange.write(smaller, folder / "small.arpa")
    lm, theirs = (
        LanguageModel.load(folder / "small.arpa"),
        kenlm.Model(str(folder / "small.arpa")),
    )
    for sentence in held_out[:20]:
        expected = lm.score_samples([sentence])[0] / np.log(10)
        assert theirs.score(sentence) == pytest.approx(expected, rel=1e-4)
    both = interpolate([lm, folder / "b.arpa"], held_out)
    assert np.isfinite(both.perplexity(held_out))


def test_words_are_removed_before_ngrams():
    lm = LanguageModel(WittenBellLM(), max_depth=2)
    whole, words = lm.fit(TEXT_A).backoff_model_, ["the", "cat", "sat"]
    fewer = prune(whole, vocabulary=words)
    both = prune(whole, to=8, vocabulary=words)
    assert both.n_pairs == 8 < fewer.n_pairs
    assert both == prune(fewer, to=8)
    with pytest.raises(ValueError, match="LanguageModel of the words that model and"):
        prune(whole, 1e-3, vocabulary=words, counts=lm.count(TEXT_A))
    counted = LanguageModel(max_depth=2, vocabulary=words).count(TEXT_A)
    assert prune(whole, 1, method="count", vocabulary=words, counts=counted) == prune(
        fewer, 1, method="count", counts=counted
    )


def test_vocabularies_that_a_model_cannot_have(pair):
    model = pair[0].backoff_model_
    assert prune(model, vocabulary=model.labels.classes) is model
    with pytest.raises(ValueError, match="vocabulary is empty"):
        prune(model, vocabulary=[])
    for words in (["unheard"], ["<unk>", "</s>"]):
        with pytest.raises(ValueError, match="holds no word of the model"):
            prune(model, vocabulary=words)
    with pytest.raises(TypeError, match="not a string"):
        prune(model, vocabulary="the cat")
    with pytest.raises(TypeError, match="model must be"):
        prune(pair[0], vocabulary=["the"])
    other = closed(["the <unk> sat", "a cat ran"]).backoff_model_
    with pytest.raises(ValueError, match="'<unk>', which is a word of the model"):
        prune(other, vocabulary=["the"])
