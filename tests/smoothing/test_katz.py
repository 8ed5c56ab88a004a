"""KatzLM against the book's formula in exact arithmetic."""

import functools
from collections import Counter, defaultdict
from fractions import Fraction as F

import numpy as np
import pytest
from _oracles import histories

from sklstruct.smoothing import GoodTuringUnigram, KatzLM
from sklstruct.smoothing.ngram._katz import katz_ratios


def zipf_text(seed, n=3000, n_words=3000, width=2):
    rng = np.random.default_rng(seed)
    p = 1.0 / np.arange(1, n_words + 1)
    y = rng.choice(n_words, size=n, p=p / p.sum())
    y[1::2] = (y[0::2] * 7 + rng.integers(0, 3, n // 2)) % n_words
    X = np.full((n, width), -1)
    for k in range(1, width + 1):
        X[k:, width - k] = y[:-k]
    return X, y


def reference(X, y, k, n_classes):
    """P(. | history) by dictionaries: discounts, then back-off from the root down."""
    count = defaultdict(Counter)
    for history, target in zip(histories(X), y.tolist()):
        for depth in range(len(history) + 1):
            count[history[len(history) - depth :]][target] += 1
    ratio = []
    for depth in range(X.shape[1] + 1):
        n = Counter(
            c for x, row in count.items() if len(x) == depth for c in row.values()
        )
        above = F((k + 1) * n[k + 1], n[1])
        ratio.append(
            {
                r: (F((r + 1) * n[r + 1], r * n[r]) - above) / (1 - above)
                for r in range(1, k + 1)
            }
        )
        # Good-Turing: what is taken off is the number of single occurrences.
        taken = sum(r * n[r] * (1 - ratio[depth][r]) for r in range(1, k + 1))
        assert taken == n[1]

    @functools.cache
    def row(context):
        if context not in count:
            return row(context[1:])
        seen, total = count[context], sum(count[context].values())
        above = row(context[1:]) if context else [F(1, n_classes)] * n_classes
        d = ratio[len(context)]
        own = {c: d.get(m, 1) * F(m, total) for c, m in seen.items()}
        left = 1 - sum(own.values())
        if left == 0:
            own = {c: F(m, total + 1) for c, m in seen.items()}
            left = F(1, total + 1)
        left /= sum(p for c, p in enumerate(above) if c not in seen)
        return [own[c] if c in seen else left * p for c, p in enumerate(above)]

    return row, ratio


@pytest.mark.parametrize("k", [2, 4])
def test_equals_the_formula(k):
    X, y = zipf_text(1)
    n_classes = 3002  # the last two are never seen
    row, ratio = reference(X, y, k, n_classes)
    model = KatzLM(k=k, padding=-1, classes=range(n_classes)).fit(X, y)
    np.testing.assert_allclose(
        model.discount_ratios_,
        [[float(d[r]) for r in range(1, k + 1)] for d in ratio],
        rtol=1e-12,
    )
    assert model.backoff_model_.check_normalized() < 1e-12
    some = np.random.default_rng(0).choice(len(y), 12, replace=False)
    new = np.vstack([X[some], [[399, 5], [-1, -1], [3, 2999]]])
    for context, found in zip(histories(new), model.predict_proba(new)):
        np.testing.assert_allclose(found, [float(p) for p in row(context)], rtol=1e-10)


def test_a_smaller_k_where_counts_have_gaps():
    # n_1 = 10, n_2 = 3, n_3 = 1, nothing above: k = 2 is all that works.
    y = np.repeat(np.arange(14), [1] * 10 + [2] * 3 + [3])
    with pytest.warns(UserWarning, match="KatzLM: .*no count is 4; k=2"):
        model = KatzLM(max_depth=0, classes=range(15)).fit(np.zeros((19, 1)), y)
    np.testing.assert_allclose(
        model.discount_ratios_, [[3 / 7, 2 / 7, 1, 1, 1]], rtol=1e-12
    )


def test_a_context_without_small_counts_holds_back_one_sample():
    y = np.repeat([0, 1], [30, 70])
    with pytest.warns(UserWarning, match="no count is 1; k=0"):
        model = KatzLM(max_depth=0, classes=range(4)).fit(np.zeros((100, 1)), y)
    np.testing.assert_allclose(
        model.predict_proba([[0]])[0], [30 / 101, 70 / 101, 0.5 / 101, 0.5 / 101]
    )


def test_base_takes_the_place_of_the_unigrams():
    X, y = zipf_text(2)
    base = GoodTuringUnigram(gaps="smooth", floor=1e-9)
    model = KatzLM(base=base, padding=-1, classes=range(3001)).fit(X, y)
    counts = np.bincount(y, minlength=3001)
    np.testing.assert_allclose(
        model.predict_proba([[-1, -1]])[0], base.from_counts(counts).proba_, rtol=1e-12
    )
    assert np.isnan(model.discount_ratios_[0]).all()


@pytest.mark.parametrize("k", [0, 1, 1001, 2.5, "five"])
def test_bad_k(k):
    with pytest.raises(ValueError, match="'k' parameter"):
        KatzLM(k=k).fit([[0]], [0])


def test_a_ratio_just_above_one_is_told_with_its_digits():
    _, problem = katz_ratios(np.array([0, 2_000_000, 1_000_001, 10, 5]))
    told = float(problem.split(" is ")[1].split(",")[0])
    assert 1 < told < 1.00001
