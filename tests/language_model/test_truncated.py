"""Drawing at a temperature and from the most probable symbols: the definition."""

import numpy as np
import pytest

from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.language_model._truncated import Truncated
from sklstruct.mixture._models import UniformModel

TEXT = ["the cat sat on the mat", "the dog sat", "a cat ran", "a dog ran on"] * 5


@pytest.fixture(scope="module")
def model():
    return LanguageModel(KneserNeyLM(discount=0.5), max_depth=2).fit(TEXT)


def defined(proba, temperature, top_k, top_p, skip):
    """The definition, one class after the other."""
    proba = np.array(proba)
    if skip >= 0:
        proba[skip] = 0.0
    proba = proba ** (1.0 / temperature)
    order = sorted(range(len(proba)), key=lambda i: (-proba[i], i))
    kept = order[: top_k or len(order)]
    total = sum(proba[i] for i in kept)
    chosen, reached = [], 0.0
    for i in kept:
        if chosen and reached >= top_p:
            break
        chosen.append(i)
        reached += proba[i] / total
    out = np.zeros(len(proba))
    out[chosen] = proba[chosen] / proba[chosen].sum()
    return out


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "skip"),
    [
        (0.5, None, 1.0, -1),
        (2.0, 3, 1.0, 3),
        (1.0, 1, 0.2, -1),
        (1.0, None, 0.55, 3),
        (0.8, 6, 0.77, 3),
    ],
)
def test_rows(model, temperature, top_k, top_p, skip):
    predictor = model.predictor
    for words in ("", "the", "the cat", "a zebra"):
        at = predictor.locate(predictor.read(model._read_context(words)[1][None]))
        proba = np.exp(predictor.model.rows(at)[0])
        cut = Truncated(predictor.model, temperature, top_k, top_p, skip)
        np.testing.assert_allclose(
            np.exp(cut.rows(at)[0]),
            defined(proba, temperature, top_k, top_p, skip),
            atol=1e-12,
        )


def test_nothing_is_changed_by_the_defaults(model):
    drawn = model.sample(20, random_state=0)
    same = model.sample(20, random_state=0, temperature=1.0, top_k=None, top_p=1.0)
    assert drawn == same


def test_nothing_is_left(model):
    cut = Truncated(UniformModel(1), temperature=0.5, top_p=0.5, skip=0)
    at = np.zeros((2, 1))
    np.testing.assert_array_equal(cut.proba(at), 0.0)
    np.testing.assert_array_equal(cut.rows(at), -np.inf)
    with pytest.raises(ValueError, match="no class but class 0"):
        cut.draw(at, np.array([0.1, 0.9]), 0)


def test_samples(model):
    greedy = [model.sample(3, random_state=s, top_k=1) for s in range(3)]
    assert len({tuple(s) for drawn in greedy for s in drawn}) == 1
    cold = model.sample(3, random_state=1, temperature=1e-3)
    assert cold[0] == greedy[0][0]
    # Each step of the greedy sentence is the most probable word.
    words = greedy[0][0]
    for i, word in enumerate(words):
        candidates = [w for w, _ in model.predict_next(words[:i], 2) if w != "<unk>"]
        assert word == candidates[0]
    hot = model.sample(200, random_state=1, temperature=50.0, max_length=5)
    assert len({w for s in hot for w in s}) == len(model.vocabulary_) - 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 0},
        {"temperature": np.nan},
        {"temperature": "1"},
        {"top_k": 0},
        {"top_k": 1.5},
        {"top_k": True},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_p": None},
    ],
)
def test_wrong_numbers(model, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        model.sample(1, **wrong)
