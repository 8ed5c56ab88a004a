"""AbsoluteDiscountLM against the definition, and its relation to Kneser-Ney."""

from collections import Counter, defaultdict
from fractions import Fraction as F

import numpy as np
import pytest
from _cases import each_value
from _oracles import histories, random_corpus

from sklstruct.smoothing import AbsoluteDiscountLM, KneserNeyLM

pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


def reference(X, y, discounts, n_classes, interpolate):
    count = defaultdict(Counter)
    for history, target in zip(histories(X), y.tolist()):
        for depth in range(len(history) + 1):
            count[history[len(history) - depth :]][target] += 1

    def row(context):
        if context not in count:
            return row(context[1:])
        seen = count[context]
        total = sum(seen.values())
        above = row(context[1:]) if context else [F(1, n_classes)] * n_classes
        d = discounts[len(context)]
        off = {c: d[min(m, len(d)) - 1] for c, m in seen.items()}
        held = sum(off.values()) / total
        own = {c: (m - off[c]) / total for c, m in seen.items()}
        if interpolate or len(seen) == n_classes:
            return [own.get(c, 0) + held * p for c, p in enumerate(above)]
        rest = sum(p for c, p in enumerate(above) if c not in seen)
        return [own.get(c, held * p / rest) for c, p in enumerate(above)]

    return row


@pytest.mark.parametrize(
    *each_value(
        discount=["single", "modified", 0.3, (0.4, 0.9, 1.2)],
        interpolate=[True, False],
    )
)
def test_equals_the_formula(discount, interpolate):
    X, y = random_corpus(4, 9, 400, 2)
    model = AbsoluteDiscountLM(
        discount=discount, interpolate=interpolate, padding=-1, classes=range(11)
    ).fit(X, y)
    exact = [[F(d) for d in row] for row in model.discounts_.tolist()]
    row = reference(X, y, exact, 11, interpolate)
    assert model.backoff_model_.check_normalized() < 1e-12
    for context, found in zip(histories(X)[:40], model.predict_proba(X[:40])):
        np.testing.assert_allclose(found, [float(p) for p in row(context)], rtol=1e-11)


def test_a_context_with_every_class_interpolates():
    """Without a class to back off to, the mass held back goes to all of them."""
    X, y = random_corpus(4, 3, 400, 2)
    model = AbsoluteDiscountLM(discount=0.3, interpolate=False, padding=-1).fit(X, y)
    pairs = model.backoff_model_.pairs
    n_seen = np.diff(pairs.ptr)
    assert (n_seen[1:] == 3).any() and (n_seen[1:] < 3).any()
    exact = [[F(d) for d in row] for row in model.discounts_.tolist()]
    row = reference(X, y, exact, 3, interpolate=False)
    for context, found in zip(histories(X), model.predict_proba(X)):
        np.testing.assert_allclose(found, [float(p) for p in row(context)], rtol=1e-11)


def test_the_single_discount_is_that_of_raw_counts():
    X, y = random_corpus(0, 12, 300, 1)
    model = AbsoluteDiscountLM(padding=-1).fit(X, y)
    pairs = Counter(zip(histories(X), y.tolist()))
    n = Counter(c for (x, _), c in pairs.items() if len(x) == 1)
    assert model.discounts_[1, 0] == pytest.approx(n[1] / (n[1] + 2 * n[2]), rel=1e-12)


def test_only_the_lower_orders_differ_from_kneser_ney():
    X, y = random_corpus(0, 12, 300, 1)
    ours = AbsoluteDiscountLM(discount=0.5, padding=-1)
    theirs = KneserNeyLM(discount=0.5, padding=-1)
    top = ours.fit(X, y).predict_proba([[-1]])[0]
    # Unigrams of the text, not of its contexts.
    count = np.bincount(y, minlength=12)[ours.classes_]
    held = 0.5 * count.size / count.sum()
    np.testing.assert_allclose(top, (count - 0.5) / count.sum() + held / count.size)
    assert np.abs(theirs.fit(X, y).predict_proba([[-1]])[0] - top).max() > 1e-3
