"""The unigram baselines: additive, Good-Turing, absolute discounting."""

import warnings
from collections import Counter
from inspect import getdoc

import numpy as np
import pytest

from sklstruct.smoothing import (
    AbsoluteDiscountUnigram,
    AdditiveLM,
    AdditiveUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
    GraphSpreadUnigram,
    KneserNeyLM,
)
from sklstruct.smoothing.unigram._base import UnigramSmoother

SMOOTHERS = [
    AdditiveUnigram,
    AbsoluteDiscountUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
    GraphSpreadUnigram,
]


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
    rows = [[0], [1]]
    np.testing.assert_allclose(
        model.predict_proba(rows), lm.predict_proba(rows), rtol=1e-13
    )
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
    assert first == model.backoff_model_
    assert model.from_counts([2, 1]).backoff_model_ != first
    np.testing.assert_allclose(np.exp(model.backoff_model_.log_prob), [3 / 5, 2 / 5])


# ------------------------------------------------------------- counts with labels


def test_counter():
    model = AdditiveUnigram().from_counts(Counter("banana"))
    assert model.classes_.tolist() == ["a", "b", "n"]
    np.testing.assert_allclose(model.proba_, np.array([4, 2, 3]) / 9)
    fitted = AdditiveUnigram().fit(np.zeros((6, 1)), list("banana"))
    np.testing.assert_array_equal(fitted.proba_, model.proba_)
    assert model.target_log_proba([[0]], ["n"]) == pytest.approx(np.log(3 / 9))
    # A closed vocabulary, in any order, from the call or from the parameter.
    for closed in (
        AdditiveUnigram().from_counts(Counter("banana"), ["x", "n", "b", "a"]),
        AdditiveUnigram(classes=["x", "n", "b", "a"]).from_counts(Counter("banana")),
    ):
        assert closed.classes_.tolist() == ["a", "b", "n", "x"]
        np.testing.assert_allclose(closed.proba_, [0.4, 0.2, 0.3, 0.1])
    numbers = AdditiveUnigram().from_counts({7: 1, -3: 4, 10**9: 0.5})
    assert numbers.classes_.tolist() == [-3, 7, 10**9]
    np.testing.assert_array_equal(numbers.counts_, [4, 1, 0.5])


def test_series():
    pd = pytest.importorskip("pandas")
    model = AdditiveUnigram().from_counts(pd.Series(list("banana")).value_counts())
    assert model.classes_.tolist() == ["a", "b", "n"]
    np.testing.assert_array_equal(model.counts_, [3, 1, 2])
    # Next to classes a column is a column, whatever its index.
    table = pd.DataFrame({"word": ["b", "a"], "count": [1, 3]}, index=[5, 9])
    model = AdditiveUnigram().from_counts(table["count"], table["word"])
    assert model.classes_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(model.counts_, [3, 1])


def test_labels_in_any_order():
    rng = np.random.default_rng(0)
    counts = zipf(size=60)
    words = np.array([f"w{i:02d}" for i in range(60)])
    order = rng.permutation(60)
    for smoother in SMOOTHERS:
        model = smoother()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            expected = model.from_counts(counts, words).proba_
            for classes in (words[order], words[order].astype(object)):
                got = model.from_counts(counts[order], classes)
                np.testing.assert_array_equal(got.proba_, expected)
                np.testing.assert_array_equal(got.counts_, counts)
                assert got.classes_.tolist() == words.tolist()
    model = AdditiveUnigram(classes=words[order])
    np.testing.assert_array_equal(model.from_counts(counts[order]).counts_, counts)


@pytest.mark.parametrize(
    "counts, classes, error, match",
    [
        ({}, None, ValueError, "empty"),
        ({"a": 1, "b": -2}, None, ValueError, r"counts\['b'\] = -2"),
        ({"a": 1, 2: 2}, None, TypeError, "classes must be uniform"),
        ({"a": 1, None: 2}, None, ValueError, "missing value"),
        ({(1, 2): 1, (3, 4): 2}, None, ValueError, "classes must be 1-dim"),
        ({"a": 1}, ["b"], ValueError, "'a', which is not among the 1 classes"),
        ({"a": 1}, ["b", "b", "a"], ValueError, "classes holds 'b' twice"),
        ([1, 2], ["b", "b"], ValueError, "classes holds 'b' twice"),
        ([1, 2], [2.0, np.nan], ValueError, "missing value"),
        ([1, 2], [2.0, 1.0, 0.0], ValueError, "2 counts for 3 classes"),
        ([1, 2], [[2.0, 1.0]] * 2, ValueError, "classes must be 1-dimensional"),
    ],
)
def test_bad_labels(counts, classes, error, match):
    with pytest.raises(error, match=match):
        AdditiveUnigram().from_counts(counts, classes)


def test_counts_for_the_parameter_classes():
    with pytest.raises(ValueError, match="3 counts for 2 classes"):
        AdditiveUnigram(classes=["a", "b"]).from_counts([1, 2, 3])


# ---------------------------------------------------------- the ends of the range


def test_additive_beyond_the_range_of_sums():
    np.testing.assert_allclose(
        AdditiveUnigram(1e308).from_counts([1, 2, 3]).proba_, 1 / 3
    )
    np.testing.assert_allclose(
        AdditiveUnigram(1e308).from_counts([1e308, 0]).proba_, [2 / 3, 1 / 3]
    )
    counts = np.array([3.0, 1, 0])
    base = AbsoluteDiscountUnigram(0.5)
    for size in (2.0**1020, 2.0**-1070):
        expected = AdditiveUnigram(0.5, base=base).from_counts(counts).proba_
        model = AdditiveUnigram(0.5 * size, base=AdditiveUnigram(0.5 * size))
        same = AdditiveUnigram(0.5, base=AdditiveUnigram(0.5)).from_counts(counts)
        got = model.from_counts(counts * size).proba_
        np.testing.assert_allclose(got, same.proba_, rtol=1e-14)
        assert not np.allclose(got, expected)


@pytest.mark.parametrize("gaps", ["lower", "smooth"])
@pytest.mark.filterwarnings("ignore:GoodTuringUnigram:UserWarning")
def test_good_turing_at_the_ends_of_the_range(gaps):
    model = GoodTuringUnigram(gaps=gaps)
    got = model.from_counts(np.array([5, 2, 1]) * 5e-324).proba_
    np.testing.assert_allclose(got, np.array([5, 2, 1]) / 8, rtol=1e-14)
    for counts in ([5e-324, 0, 0], [1e308, 1, 0], [1e-200, 1e-300, 0], [8e307] * 2):
        proba = model.from_counts(counts).proba_
        assert proba.min() >= 0
        assert proba[0] > 0
        assert proba.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("smoother", SMOOTHERS)
@pytest.mark.parametrize(
    "counts",
    [[5e-324, 0, 0], [1e308, 1, 0], [1e308, 5e-324, 0], [1e-310, 2e-310, 5e307]],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_distributions_at_the_ends_of_the_range(smoother, counts):
    proba = smoother().from_counts(counts).proba_
    assert proba.min() >= 0
    assert proba.sum() == pytest.approx(1, abs=1e-12)


def test_values_that_are_not_a_distribution_raise_an_error():
    class Broken(UnigramSmoother):
        _parameter_constraints = {"value": "no_validation", "classes": [None]}

        def __init__(self, value=np.nan, classes=None):
            self.value = value
            self.classes = classes

        def _smooth(self, counts):
            return np.full(counts.size, self.value)

    for value in (np.nan, np.inf, 0.0, 1.0):
        with pytest.raises(ValueError, match="leave the range of float64"):
            Broken(value).from_counts([1, 2])
    assert Broken(0.5).from_counts([1, 2]).proba_.tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="so must their sum"):
        Broken(0.5).from_counts([1e308, 1e308])


# ------------------------------------------------------------------ documentation


@pytest.mark.parametrize("smoother", SMOOTHERS)
def test_shared_parts_of_the_docs_are_there_once(smoother):
    doc = getdoc(smoother)
    for line in ("proba_ : ndarray", "unseen_mass_ : float", "classes : array-like"):
        assert doc.count(f"\n{line}") == 1
    assert "SHARED_ATTRIBUTES" not in doc
    assert "_PARAMETER" not in doc
