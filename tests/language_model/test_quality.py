"""Estimators by name: they fit small and odd texts, and are what they say."""

import numpy as np
import pytest
from sklearn.base import clone

from sklstruct.language_model import LanguageModel
from sklstruct.language_model._quality import QUALITIES, quality_estimator

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


@pytest.mark.parametrize("quality", QUALITIES)
@pytest.mark.parametrize("max_depth", [1, 4, 6])
def test_distributions_over_the_next_word(quality, max_depth):
    train = text()
    model = clone(LanguageModel(quality, max_depth=max_depth)).fit(train)
    uniform = LanguageModel("fast", max_depth=1).fit(WORDS)
    for context in ("", "the cat", "the red nothing"):
        total = sum(p for _, p in model.predict_next(context, 50))
        assert total == pytest.approx(1.0, abs=1e-12)
    held_out = text(50, seed=1)
    assert model.perplexity(held_out) < uniform.perplexity(held_out)
    assert type(model.estimator_) is type(quality_estimator(quality, max_depth, 12))


@pytest.mark.parametrize("quality", QUALITIES)
def test_texts_of_few_words(quality):
    model = LanguageModel(quality).fit(["a b", "a", "b a b", "", "a a"] * 4)
    assert np.isfinite(model.perplexity(["a b c"]))


def test_names_are_checked():
    with pytest.raises(ValueError, match="estimator"):
        LanguageModel("perfect").fit(["a b"])
    model = LanguageModel("better").fit(text(), X_val=text(40, seed=2))
    assert model.estimator_.weights_.sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="X_val"):
        LanguageModel("good").fit(text(20), X_val=text(20))
