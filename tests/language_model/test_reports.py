"""Comparisons of models, tables of sentences, the heaviest n-grams."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from sklstruct.language_model import CacheLM, LanguageModel, compare
from sklstruct.loglinear import StructuredLogLinearLM
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.smoothing import AdditiveLM
from sklstruct.word_classes import ContextRefiner

WORDS = np.array(["the", "cat", "dog", "sat", "ran", "on", "a", "mat"])


def draw(n, seed):
    rng = np.random.RandomState(seed)
    p = 1.0 / np.arange(1, WORDS.size + 1)
    sizes = rng.randint(1, 9, size=n)
    words = WORDS[rng.choice(WORDS.size, sizes.sum(), p=p / p.sum())]
    return [row.tolist() for row in np.split(words, sizes.cumsum()[:-1])]


@pytest.fixture(scope="module")
def models():
    text = draw(200, 0)
    few = LanguageModel(AdditiveLM(delta=5.0), max_depth=2).fit(text[:50])
    return few, LanguageModel(AdditiveLM(delta=0.1), max_depth=1).fit(text)


@pytest.mark.parametrize("include_end", [True, False])
@pytest.mark.parametrize("include_unknown", [True, False])
def test_gain_is_that_of_the_perplexities(models, include_end, include_unknown):
    a, b = models
    X = [*draw(60, 1), ["zebra", "the"], []]
    options = {"include_end": include_end, "include_unknown": include_unknown}
    found = compare(a, b, X, n_resamples=5, random_state=0, **options)
    ppl = a.perplexity(X, **options), b.perplexity(X, **options)
    assert found.perplexity == pytest.approx(ppl, rel=1e-12)
    assert found.gain == pytest.approx(100 * (1 - ppl[1] / ppl[0]), rel=1e-10)
    counts = a.perplexity(X, return_counts=True, **options)[1]
    assert found.n_tokens == counts.n_counted
    assert found.n_sentences == len(X) - (not include_end)
    back = compare(b, a, X, n_resamples=2, **options)
    assert (1 - found.gain / 100) * (1 - back.gain / 100) == pytest.approx(1)


def test_standard_error_is_that_of_new_texts(models):
    """Against the spread of the gain over texts drawn anew, and the resamples."""
    a, b = models
    X = draw(200 * 80, 1)
    gains = b.score_samples(X) - a.score_samples(X)
    n_words = np.array([len(x) + 1 for x in X])
    gains, n_words = (row.reshape(200, 80).sum(axis=1) for row in (gains, n_words))
    gains = 100 * (1 - np.exp(-gains / n_words))
    found = compare(a, b, draw(80, 1000), n_resamples=2000, random_state=0)
    assert found.standard_error == pytest.approx(np.std(gains), rel=0.3)
    low, high = found.interval
    assert (high - low) / (2 * 1.96) == pytest.approx(found.standard_error, rel=0.15)
    assert low < found.gain < high
    again = compare(a, b, draw(80, 1000), n_resamples=2000, random_state=0)
    assert again == found


@pytest.fixture(scope="module")
def six_sentences(models):
    """Sentences of one length; how much more probable each is to the second model."""
    X = [sentence[:4] for sentence in draw(60, 5) if len(sentence) >= 4][:6]
    a, b = (m.perplexity_by_sentence(X).log_likelihood for m in models)
    assert len(X) == 6
    return X, (b - a) / 5.0


def test_standard_error_of_few_sentences_of_one_length(models, six_sentences):
    """The ratio of sums is then a mean, whose standard error is in every book."""
    X, d = six_sentences
    found = compare(*models, X, n_resamples=2)
    error = np.std(d, ddof=1) / np.sqrt(6)
    assert found.standard_error == pytest.approx(100 * np.exp(-d.mean()) * error)


def test_interval_holds_95_percent_of_all_resamples(models, six_sentences):
    X, d = six_sentences
    found = compare(*models, X, n_resamples=20_000, random_state=0)
    every = d[np.indices((6,) * 6).reshape(6, -1)].mean(axis=0)
    gains = 100 * (1 - np.exp(-every))
    below = (gains < found.interval[0]).mean(), (gains > found.interval[1]).mean()
    np.testing.assert_allclose(below, 0.025, atol=0.004)
    assert found.p_worse == pytest.approx((gains <= 0).mean(), abs=0.02)


def test_equal_models_gain_nothing(models):
    found = compare(models[0], models[0], draw(20, 1))
    assert found.gain == found.standard_error == 0 and found.interval == (0, 0)
    assert found.p_worse == 1


def test_a_cache_reads_the_text_in_its_order(models):
    base = models[1]
    options = {"half_life": 10, "max_order": 1, "weights": [0.8, 0.2]}
    cached = CacheLM(FrozenEstimator(base), **options).fit(draw(5, 0))
    X = draw(40, 3)
    found = compare(base, cached, X)
    expected = base.perplexity(X), cached.perplexity(X)
    assert found.perplexity == pytest.approx(expected, rel=1e-12)


def test_compare_refuses(models):
    a, b = models
    other = LanguageModel(AdditiveLM(), vocabulary=WORDS[:5]).fit(draw(20, 0))
    with pytest.raises(ValueError, match="'(on|a|mat)' is unknown to one model"):
        compare(a, other, draw(20, 1))
    left = compare(a, other, draw(20, 1), include_unknown=False)
    assert left.n_tokens < compare(a, b, draw(20, 1)).n_tokens
    without = LanguageModel(AdditiveLM(), end=None).fit(draw(20, 0))
    with pytest.raises(ValueError, match="end=None"):
        compare(a, without, draw(20, 1))
    for name, pair in (("a", (a.estimator_, b)), ("b", (a, "b.arpa"))):
        with pytest.raises(TypeError, match=f"^{name} must be a fitted LanguageModel"):
            compare(*pair, draw(20, 1))
    with pytest.raises(ValueError, match="needs two"):
        compare(a, b, [["the"]])
    with pytest.raises(ValueError, match="n_resamples"):
        compare(a, b, draw(3, 0), n_resamples=1)


@pytest.mark.parametrize("include_end", [True, False])
def test_sentences_are_those_of_perplexity(models, include_end):
    model = models[1]
    X = [["the", "zebra", "cat", "gnu", "zebra"], [], ["a", "dog"]]
    table = model.perplexity_by_sentence(X, include_end=include_end)
    assert table.unknown_words == [["zebra", "gnu", "zebra"], [], []]
    assert table.n_unknown.tolist() == [3, 0, 0]
    for i, sentence in enumerate(X):
        if not sentence and not include_end:
            assert np.isnan(table.perplexity[i]) and table.n_tokens[i] == 0
            continue
        expected = model.perplexity([sentence], include_end=include_end)
        assert table.perplexity[i] == pytest.approx(expected, rel=1e-12)
    total = table.log_likelihood.sum() / table.n_tokens.sum()
    expected = model.perplexity(X, include_end=include_end)
    assert np.exp(-total) == pytest.approx(expected, rel=1e-12)
    fewer = model.perplexity_by_sentence(X, include_unknown=False)
    assert fewer.n_tokens.tolist() == [3, 1, 3]


def test_words_without_class_are_named():
    model = LanguageModel(AdditiveLM(), unknown=None, out_of_vocabulary="exclude").fit(
        ["a b"]
    )
    table = model.perplexity_by_sentence(["a c b", "d"])
    assert table.unknown_words == [["c"], ["d"]]
    assert table.n_tokens.tolist() == [3, 1]


def test_heaviest_ngrams_are_the_largest_weights():
    model = LanguageModel(max_depth=2).fit(draw(60, 0))
    weights = model.estimator_.coef_
    found = model.heaviest_ngrams(10**6)
    sizes = [abs(w) for *_, w in found]
    assert sizes == sorted(np.abs(weights[weights != 0]).tolist(), reverse=True)
    assert [len(c) for c, _, _ in model.heaviest_ngrams(9, depth=2)] == [2] * 9
    table, labels = model.backoff_model_, model.backoff_model_.labels
    for context, word, weight in found:
        if context:  # "older newer", as windows have them
            node = table.locate(labels.encode_contexts([list(context)]))[0]
            assert table.depth([node])[0] == len(context)
            pairs = slice(table.pairs.ptr[node], table.pairs.ptr[node + 1])
        else:
            pairs = slice(0, table.n_classes)
        names = labels.classes[table.pairs.target[pairs]].tolist()
        assert weights[pairs][names.index(word)] == weight


def test_heaviest_ngrams_of_refined_contexts_name_steps():
    refiner = ContextRefiner("c3(1) w(1) c2(2)")
    loglinear = StructuredLogLinearLM(penalty="l2", lam=0.1)
    model = LanguageModel(make_pipeline(refiner, loglinear), max_depth=2)
    model.fit(draw(60, 0))
    found = model.heaviest_ngrams(40, depth=3)
    fitted = model.estimator_[0]
    for (second, word, first), _, _ in found:
        assert first.startswith("c3(1)=") and word.startswith("w(1)=")
        assert second.startswith("c2(2)=")
        token = model._labels.token_code[word.removeprefix("w(1)=")]
        group = fitted.clusterings_[0].classes_of(np.array([token]))[0]
        assert first == f"c3(1)={group}"


def test_models_without_such_weights_say_so(models):
    with pytest.raises(AttributeError, match="StructuredLogLinearLM.*AdditiveLM"):
        models[0].heaviest_ngrams()
    with pytest.raises(ValueError, match="depth must be an integer from 0 to 4"):
        LanguageModel().fit(draw(9, 0)).heaviest_ngrams(depth=5)
    mixed = MixtureLM([("a", AdditiveLM()), ("b", FactoredLM([0] * 10, AdditiveLM()))])
    model = LanguageModel(mixed.set_params(weights=[0.5, 0.5])).fit(draw(40, 0))
    with pytest.raises(AttributeError, match="MixtureLM does not have"):
        model.perplexity_by_depth(draw(2, 0))
