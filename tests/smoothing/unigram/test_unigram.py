"""The unigram baselines: additive, Good-Turing, absolute discounting."""

import warnings

import numpy as np
import pytest

from sklstruct.smoothing import (
    AbsoluteDiscountUnigram,
    AdditiveLM,
    AdditiveUnigram,
    GoodTuringUnigram,
    KneserNeyLM,
)


def zipf(n=2000, size=500, seed=0):
    y = np.random.default_rng(seed).zipf(1.4, n)
    return np.bincount(y[y < size], minlength=size)


def test_good_turing_by_definition():
    counts = zipf()
    n = counts.sum()
    r = np.bincount(counts)
    M = 5
    assert (r[: M + 1] > 0).all()
    proba = GoodTuringUnigram(max_count=M).from_counts(counts).proba_
    for k in range(M):
        np.testing.assert_allclose(
            proba[counts == k], (k + 1) * r[k + 1] / r[k] / n, rtol=1e-12
        )
    share = proba[counts >= M] / counts[counts >= M]
    assert np.ptp(share) < 1e-12 * share.max()
    assert proba.sum() == pytest.approx(1, abs=1e-12)
    assert proba[counts == 0].sum() == pytest.approx(r[1] / n, rel=1e-12)


def test_good_turing_lowers_m_at_a_gap():
    counts = [9, 5, 2, 2, 1, 1, 1, 0, 0]
    with pytest.warns(UserWarning, match="no class with count 3.*lowered to 2"):
        model = GoodTuringUnigram().from_counts(counts)
    assert model.max_count_ == 2
    expected = GoodTuringUnigram(max_count=2).from_counts(counts).proba_
    np.testing.assert_array_equal(model.proba_, expected)


def test_good_turing_needs_counts_above_m():
    # All mass at count 2: scaling it to what is left would leave nothing.
    with pytest.warns(UserWarning, match="no count is above 2.*lowered to 1"):
        model = GoodTuringUnigram(max_count=2).from_counts([2, 2, 1, 0])
    assert model.proba_.min() > 0
    assert model.proba_.sum() == pytest.approx(1, abs=1e-14)


def test_good_turing_without_singletons():
    with pytest.warns(UserWarning, match="no smoothing"):
        model = GoodTuringUnigram().from_counts([5, 3, 0])
    np.testing.assert_allclose(model.proba_, [5 / 8, 3 / 8, 0])
    with pytest.warns(UserWarning):
        model = GoodTuringUnigram(floor=0.1).from_counts([5, 3, 0])
    np.testing.assert_allclose(model.proba_, 0.9 * model.counts_ / 8 + 0.1 / 3)


def test_good_turing_without_unseen():
    counts = np.array([1, 1, 1, 2, 2, 5])
    model = GoodTuringUnigram(max_count=1).from_counts(counts)
    assert model.proba_.sum() == pytest.approx(1, abs=1e-14)
    assert model.unseen_mass_ == 0


@pytest.mark.parametrize("counts", [zipf(), np.array([9, 5, 2, 2, 1, 1, 1, 0, 0])])
def test_good_turing_smooth_gaps(counts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GoodTuringUnigram(gaps="smooth").from_counts(counts)
    proba, r = model.proba_, np.bincount(counts)
    assert proba.sum() == pytest.approx(1, abs=1e-12)
    assert model.unseen_mass_ == pytest.approx(r[1] / counts.sum(), rel=1e-12)
    # Probability rises with the count among seen words.
    seen = counts > 0
    order = np.argsort(counts[seen], kind="stable")
    assert (np.diff(proba[seen][order]) >= -1e-15).all()


@pytest.mark.parametrize("counts", [[5, 3, 0], [2, 2, 2], [4], [1, 1, 0], [1, 0, 0]])
@pytest.mark.parametrize("gaps", ["smooth", "lower"])
@pytest.mark.filterwarnings("ignore:GoodTuringUnigram:UserWarning")
def test_good_turing_on_tiny_counts(counts, gaps):
    model = GoodTuringUnigram(gaps=gaps, floor=0.01).from_counts(counts)
    assert np.isfinite(model.proba_).all()
    assert model.proba_.min() > 0
    assert model.proba_.sum() == pytest.approx(1, abs=1e-12)


def test_good_turing_is_linear_between_integers():
    counts = zipf().astype(float)
    counts[:3] = [2.5, 3.25, 0.5]
    model = GoodTuringUnigram(max_count=5).from_counts(counts)
    p = {k: model.proba_[counts == k][0] for k in range(6)}
    assert model.proba_.sum() == pytest.approx(1, abs=1e-14)
    assert model.proba_[0] == pytest.approx((p[2] + p[3]) / 2, rel=1e-12)
    assert model.proba_[1] == pytest.approx(0.75 * p[3] + 0.25 * p[4], rel=1e-12)
    assert model.proba_[2] == pytest.approx((p[0] + p[1]) / 2, rel=1e-12)


@pytest.mark.parametrize("discount", ["single", "modified", 0.4, (0.3, 1.2)])
def test_absolute_discount_is_kneser_ney_without_contexts(discount):
    counts = zipf()
    y = np.repeat(np.arange(counts.size), counts)
    lm = KneserNeyLM(0, discount=discount, classes=np.arange(counts.size))
    lm.fit(np.zeros((y.size, 1)), y)
    model = AbsoluteDiscountUnigram(discount).from_counts(counts)
    np.testing.assert_allclose(model.proba_, lm.predict_proba([[0]])[0], rtol=1e-14)
    np.testing.assert_array_equal(model.discounts_, lm.discounts_[0])


def test_additive_is_the_language_model_without_contexts():
    counts = zipf()
    y = np.repeat(np.arange(counts.size), counts)
    lm = AdditiveLM(0, delta=0.3, classes=np.arange(counts.size))
    lm.fit(np.zeros((y.size, 1)), y)
    model = AdditiveUnigram(0.3).from_counts(counts)
    np.testing.assert_allclose(model.proba_, lm.predict_proba([[0]])[0], rtol=1e-13)
    np.testing.assert_allclose(
        model.proba_, (counts + 0.3) / (counts + 0.3).sum(), rtol=1e-13
    )


def test_base_of_a_base():
    counts = zipf()
    model = AdditiveUnigram(base=AbsoluteDiscountUnigram(0.5)).from_counts(counts)
    inner = AbsoluteDiscountUnigram(0.5).from_counts(counts).proba_
    expected = counts + counts.size * inner
    np.testing.assert_allclose(model.proba_, expected / expected.sum(), rtol=1e-13)


@pytest.mark.parametrize(
    "model", [AdditiveUnigram(), AbsoluteDiscountUnigram(0.5), GoodTuringUnigram(2)]
)
@pytest.mark.filterwarnings("ignore:GoodTuringUnigram:UserWarning")
def test_weights_and_unknown_targets(model):
    y = np.array(list("aaaabbbccde"))
    weight = np.arange(y.size) % 3
    X = np.zeros((y.size, 1))
    model.set_params(classes=list("abcdefg"))
    a = model.fit(X, y, sample_weight=weight).proba_
    times = np.repeat(np.arange(y.size), weight)
    b = model.fit(X[times], y[times]).proba_
    np.testing.assert_allclose(a, b, rtol=1e-14)
    got = model.target_log_proba([[0], [0]], ["a", "z"])
    assert got[0] == pytest.approx(np.log(model.proba_[0]))
    assert np.isnan(got[1])


def test_refit_renews_the_backoff_model():
    model = AdditiveUnigram().from_counts([1, 2])
    first = model.backoff_model_
    assert first is model.backoff_model_
    assert model.from_counts([2, 1]).backoff_model_ is not first
    np.testing.assert_allclose(np.exp(model.backoff_model_.log_prob), [3 / 5, 2 / 5])
