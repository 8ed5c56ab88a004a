"""The duties of every n-gram smoother: rows of sum 1, ARPA files, KenLM, tiny texts."""

import warnings

import numpy as np
import pytest
from _families import smoothers
from _loglinear import loglinear
from _oracles import following_text
from sklearn.base import clone

from sklstruct import smoothing
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import (
    AbsoluteDiscountLM,
    AdditiveUnigram,
    JelinekMercerLM,
    KatzLM,
    KneserNeyLM,
    WittenBellLM,
)

SMOOTHERS = smoothers(
    [
        AbsoluteDiscountLM(discount="modified", interpolate=False),
        JelinekMercerLM(weight="held_out", validation_fraction=0.4, bucket="count"),
        JelinekMercerLM(weight=(0.9, 0.5), base=AdditiveUnigram(0.5)),
        KatzLM(k=2, base=AdditiveUnigram(0.5)),
        KneserNeyLM(interpolate=False),
        loglinear(penalty="tree_l2", lam=0.3, solver="active_set"),
        WittenBellLM(interpolate=False),
    ]
)
pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


def test_every_smoother_is_public():
    missing = sorted({type(s).__name__ for s in smoothers()} - set(smoothing.__all__))
    assert not missing, (
        f"import {', '.join(missing)} in sklstruct/smoothing/__init__.py"
    )


def random_text(seed, n_sentences=200):
    return following_text(seed, 30, n_sentences, spread=0.3, longest=11)


@pytest.fixture(params=SMOOTHERS, ids=repr)
def smoother(request):
    return clone(request.param)


def test_sums_to_one_at_every_context(smoother):
    lm = LanguageModel(smoother, max_depth=3).fit(random_text(0))
    model = lm.backoff_model_
    assert model.check_normalized() < 1e-12
    nodes = np.random.default_rng(0).integers(0, model.n_nodes, 300)
    rows = np.exp(model.rows(nodes))
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-12)
    assert rows.min() > 0


def test_arpa_round_trip_and_kenlm(smoother, tmp_path):
    path = tmp_path / "model.arpa"
    lm = LanguageModel(smoother, max_depth=2).fit(random_text(1))
    lm.save(path, precision=12)
    test = [*random_text(2, 30), ["zebra", "w1"], []]
    again = LanguageModel.load(path)
    ours = lm.score_samples(test)
    np.testing.assert_allclose(again.score_samples(test), ours, rtol=1e-9)
    kenlm = pytest.importorskip("kenlm")
    peer = kenlm.Model(str(path))
    theirs = [peer.score(" ".join(s)) * np.log(10) for s in test]
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize(
    "text", [["a a a"], ["a", ""], ["b a b a"], [""], ["a b c d e f g"]]
)
def test_tiny_texts(smoother, text):
    if getattr(smoother, "weight", None) == "held_out" and text == [""]:
        pytest.skip("one sample cannot both be learned from and chosen on")
    model = LanguageModel(smoother, max_depth=3).fit(text)
    assert model.backoff_model_.check_normalized() < 1e-12
    assert np.isfinite(model.perplexity(["a b zebra"]))


def test_vanishing_weights_stay_finite(smoother):
    X, y = np.array([[0], [0], [1], [1]]), np.array([0, 1, 0, 1])
    smoother.set_params(classes=range(3))
    for weight in ([1, 1e-300, 1, 1], [1e-200] * 4, [1e-300, 1e-320, 1, 5]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", ".*counts of counts")
            proba = smoother.fit(X, y, sample_weight=weight).predict_proba([[0], [1]])
        assert (proba > 0).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    with pytest.raises(ValueError, match="sample_weight sums to inf"):
        smoother.fit(X, y, sample_weight=np.full(4, 1e308))
