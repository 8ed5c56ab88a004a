"""Estimators by name: they fit small and odd texts, and are what they say."""

import warnings

import numpy as np
import pytest
from _cases import each_value
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklstruct.language_model import LanguageModel, named_estimator
from sklstruct.language_model._names import QUALITIES
from sklstruct.symbols import number_sentences

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "home", "old", "red", "bird"]


def text(n=300, seed=0):
    rng = np.random.RandomState(0)
    follows = rng.dirichlet(np.full(len(WORDS), 0.2), size=len(WORDS))
    rng = np.random.RandomState(seed)
    out = []
    for _ in range(n):
        words = [rng.randint(len(WORDS))]
        for _ in range(rng.randint(2, 8)):
            words.append(rng.choice(len(WORDS), p=follows[words[-1]]))
        out.append(" ".join(WORDS[w] for w in words))
    return out


pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


@pytest.mark.parametrize(
    "quality, max_depth",
    [("fast", 1), ("better", 1), ("better", 4), ("best", 4), ("fast", 6)],
)
def test_distributions_over_the_next_word(quality, max_depth):
    train = text()
    model = clone(LanguageModel(quality, max_depth=max_depth)).fit(train)
    uniform = LanguageModel("fast", max_depth=1).fit(WORDS)
    for context in ("", "the cat", "the red nothing"):
        total = sum(p for _, p in model.predict_next(context, 50))
        assert total == pytest.approx(1.0, abs=1e-12)
    held_out = text(50, seed=1)
    assert model.perplexity(held_out) < uniform.perplexity(held_out)
    assert type(model.estimator_) is type(named_estimator(quality))


@pytest.mark.parametrize(*each_value(quality=QUALITIES, container=["pandas", "polars"]))
def test_the_container_of_transformers_does_not_matter(quality, container):
    pytest.importorskip(container, reason="the container of the output")
    train = text(60)
    plain = LanguageModel(quality).fit(train).perplexity(train)
    with config_context(transform_output=container):
        assert LanguageModel(quality).fit(train).perplexity(train) == plain


@pytest.mark.parametrize("quality", QUALITIES)
def test_texts_of_few_words(quality):
    model = LanguageModel(quality).fit(["a b", "a", "b a b", "", "a a"] * 4)
    assert np.isfinite(model.perplexity(["a b c"]))


@pytest.mark.parametrize("n", [100, 300])
def test_a_name_and_its_estimator_are_the_same_model(n):
    """The estimator is spelt out with the number of words; a search can change it."""
    train = text(n)
    by_name = LanguageModel("better", max_depth=3).fit(train)
    estimator = named_estimator("better", n_words=by_name.vocabulary_.size, max_depth=3)
    with pytest.raises(ValueError, match="n_clusters=55 .* or n_words of named_est"):
        LanguageModel(named_estimator("better"), max_depth=4).fit(["a b c", "a b"])
    spelt_out = LanguageModel(estimator, max_depth=3)
    assert spelt_out.fit(train).score(train) == by_name.score(train)
    (lam,) = (p for p in spelt_out.get_params() if p.endswith("linearlm__lam"))
    other = clone(spelt_out).set_params(**{lam: 50.0}).fit(train)
    assert other.score(train) != by_name.score(train)


def test_classes_of_a_name_grow_with_the_root_of_the_words():
    def n_classes(n_words):
        params = named_estimator("better", n_words=n_words).get_params()
        return params["factored__taxonomy__n_clusters"]

    for n in (100, 400, 1600):
        assert n_classes(4 * n) == pytest.approx(2 * n_classes(n), abs=1)
    assert n_classes(10**6) == n_classes(10**7) == 100
    assert [n_classes(n) for n in (1, 2, 3)] == [1, 1, 1]


def test_names_are_checked():
    with pytest.raises(ValueError, match="name must be one of"):
        named_estimator("perfect")
    for wrong in (
        {"n_words": 0},
        {"max_depth": 0},
        {"n_words": 2.5},
        {"n_words": True},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            named_estimator("better", **wrong)
    with pytest.raises(ValueError, match="estimator"):
        LanguageModel("perfect").fit(["a b"])
    with pytest.raises(ValueError, match="X_val"):
        LanguageModel("fast").fit(text(20), X_val=text(20))


@pytest.mark.parametrize("quality", ["better", "best"])
@pytest.mark.parametrize("sentences", [[["a"]], ["a b"], [[]]], ids=str)
def test_a_text_without_a_part_to_hold_out_is_refused(quality, sentences):
    """With a text to learn the weights from the fit succeeds."""
    with pytest.raises(ValueError, match=r"X: .*give held-out samples \(X_val\)"):
        LanguageModel(quality).fit(sentences)
    model = LanguageModel(quality).fit(sentences, X_val=sentences)
    assert 1 < model.perplexity(sentences) < 4


def test_held_out_text_is_learnt_from():
    """It serves the weights: a model that knows the held-out text is not fitted."""
    train, held_out = text(), text(40, seed=2)
    model = LanguageModel("better").fit(train, X_val=held_out)
    windows, target = model.predictor.windows(number_sentences(held_out))
    mixture = model.estimator_
    weights = mixture.predict_weights(windows)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-12)
    of_each = mixture.model_log_proba(windows, target)
    mixed = mixture.target_log_proba(windows, target).mean()
    assert mixed > of_each.mean(axis=0).max()


def test_no_worse_than_fast_on_text_that_repeats_itself():
    rng = np.random.RandomState(0)
    passages = [" ".join(f"w{w}" for w in rng.randint(400, size=12)) for _ in range(60)]
    lines = [passages[i] for i in rng.randint(60, size=800)]
    train, test = lines[:700] + text(100), lines[700:] + text(20, seed=1)
    order = rng.permutation(len(train))
    train = [train[i] for i in order]
    fast = LanguageModel("fast").fit(train).perplexity(test)
    better = LanguageModel("better").fit(train).perplexity(test)
    assert better < 1.02 * fast


def test_a_loose_fit_inside_a_name_is_told_once():
    """Not in the parameters of the parts, which a name does not have."""
    rng = np.random.default_rng(0)
    sentences = ["".join(rng.choice(list("ACDEFGHIK"), 40)) for _ in range(30)]

    def told(estimator):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            LanguageModel(estimator).fit(sentences)
        return [str(w.message) for w in found if w.category is ConvergenceWarning]

    assert any(
        "Set gap_tol" in text for text in told(named_estimator("better", n_words=32))
    )
    (text,) = told("better")
    assert text.startswith('estimator="better": a part of the model may be far')
    assert 'estimator="fast"' in text and "tol" not in text
