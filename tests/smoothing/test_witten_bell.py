"""WittenBellLM against the definition, and against nltk."""

import numpy as np
import pytest
from _cases import each_value
from _oracles import histories, random_corpus

from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import AdditiveUnigram, WittenBellLM


def row(X, y, weight, context, classes, base):
    """P(. | context) by the formula, from the shortest suffix on."""
    past = histories(X)
    p = base
    for k in range(len(context) + 1):
        suffix = context[len(context) - k :]
        at = np.array([h[len(h) - k :] == suffix and len(h) >= k for h in past])
        count = np.array([weight[at & (y == c)].sum() for c in classes])
        if count.sum() == 0:
            break
        distinct = np.minimum(count, 1).sum()
        p = (count + distinct * p) / (count.sum() + distinct)
    return p


@pytest.mark.parametrize(
    *each_value(
        weights=["ones", "whole", "fractional"], base=["uniform", AdditiveUnigram(0.5)]
    )
)
def test_equals_the_formula(weights, base):
    X, y = random_corpus(3, 4, 150, 2)
    rng = np.random.default_rng(0)
    weight = {
        "ones": np.ones(y.size),
        "whole": rng.integers(1, 4, y.size).astype(float),
        "fractional": rng.random(y.size) + 0.01,
    }[weights]
    classes = np.arange(5)  # the last one is never seen
    model = WittenBellLM(base=base, padding=-1, classes=classes)
    model.fit(X, y, sample_weight=weight)
    assert model.backoff_model_.check_normalized() < 1e-12
    top = np.full(5, 0.2)
    if base != "uniform":
        counts = np.bincount(y, weight, minlength=5)
        top = base.from_counts(counts).proba_
    for context, found in zip(histories(X)[:60], model.predict_proba(X[:60])):
        expected = row(X, y, weight, context, classes, top)
        if base != "uniform":  # it takes the place of the unigram level
            expected = top
            for k in range(1, len(context) + 1):
                suffix = context[len(context) - k :]
                expected = level(X, y, weight, suffix, classes, expected)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def level(X, y, weight, suffix, classes, above):
    at = np.array([h[len(h) - len(suffix) :] == suffix for h in histories(X)])
    count = np.array([weight[at & (y == c)].sum() for c in classes])
    distinct = np.minimum(count, 1).sum()
    return (count + distinct * above) / (count.sum() + distinct)


def test_backing_off_keeps_the_seen_and_sums_to_one():
    X, y = random_corpus(1, 6, 300, 2)
    smooth = WittenBellLM(padding=-1, interpolate=False).fit(X, y)
    model = smooth.backoff_model_
    assert model.check_normalized() < 1e-10
    rows = np.exp(model.rows(np.arange(model.n_nodes)))
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-10)
    # A seen pair has c / (c + d), whatever its parent says.
    for context in {h for h in histories(X) if len(h) == 2}:
        node = int(model.locate(model.labels.encode_contexts([context]))[0])
        at = np.array([h == context for h in histories(X)])
        count = np.bincount(y[at], minlength=6)
        seen = np.flatnonzero(count)
        if seen.size < model.n_classes:
            total = count.sum() + seen.size
            np.testing.assert_allclose(rows[node, seen], count[seen] / total)


def test_equals_nltk():
    lm = pytest.importorskip("nltk.lm")
    from nltk.util import everygrams

    text = [list("abracadabra"), list("cabala"), list("barbara")]
    ours = LanguageModel(
        WittenBellLM(), max_depth=2, start=None, end=None, unknown=None
    )
    ours.fit(text)
    theirs = lm.WittenBellInterpolated(3)
    theirs.fit([everygrams(s, max_len=3) for s in text], sorted(set("abracadabra")))
    words = ours.vocabulary_.tolist()
    # nltk has no distribution above the unigrams and a class for unknown words:
    # compare where its unigram level is left out, the ratio of a seen trigram's parts.
    context = ("a", "b")
    fd = theirs.counts[3][context]
    gamma = len(fd) / (fd.N() + len(fd))
    assert theirs.estimator.alpha_gamma("r", context) == pytest.approx(
        ((1 - gamma) * fd["r"] / fd.N(), gamma)
    )
    above = dict(ours.predict_next("b", len(words)))
    here = dict(ours.predict_next(["a", "b"], len(words)))
    for w in words:
        alpha, gamma = theirs.estimator.alpha_gamma(w, context)
        assert here[w] == pytest.approx(alpha + gamma * above[w], rel=1e-12)


def counts_of_others(X, y, left_out, classes):
    """Counts of the classes after each suffix of the history of a sample left out."""
    past = histories(X)
    others = np.arange(len(y)) != left_out
    for k in range(len(past[left_out]) + 1):
        suffix = past[left_out][len(past[left_out]) - k :]
        at = np.array([h[len(h) - k :] == suffix and len(h) >= k for h in past])
        count = np.array([(at & others & (y == c)).sum() for c in classes])
        if count.sum() == 0:
            break
        yield count


def strengths_row(counts, strengths, base):
    """P of the classes by the formula."""
    p = base
    for strength, count in zip(strengths, counts):
        distinct = strength * (count > 0).sum()
        p = (count + distinct * p) / (count.sum() + distinct)
    return p


def test_deleted_strengths_are_a_maximum_of_the_left_out_likelihood():
    X, y = random_corpus(5, 4, 120, 2)
    classes = np.arange(5)
    model = WittenBellLM(strength="deleted", padding=-1, classes=classes).fit(X, y)
    assert model.strengths_.shape == (3,) and np.all(model.strengths_ > 0)

    counts = [list(counts_of_others(X, y, i, classes)) for i in range(len(y))]

    def objective(log_strength):
        p = [
            strengths_row(of_others, np.exp(log_strength), np.full(5, 0.2))[target]
            for of_others, target in zip(counts, y)
        ]
        return np.log(p).sum() - 0.5 * 1e-2 * (log_strength**2).sum()

    best = np.log(model.strengths_)
    top = objective(best)
    for k in range(3):
        for step in (-0.02, 0.02):
            near = best.copy()
            near[k] += step
            assert objective(near) < top
        a, b = best.copy(), best.copy()
        a[k] -= 0.02
        b[k] += 0.02
        slope = (objective(b) - objective(a)) / 0.04
        assert abs(slope) < 1e-3


def test_given_strengths_are_the_formula():
    X, y = random_corpus(3, 4, 150, 2)
    classes = np.arange(5)
    strengths = [0.5, 2.0, 3.0]
    model = WittenBellLM(strength=strengths, padding=-1, classes=classes).fit(X, y)
    np.testing.assert_array_equal(model.strengths_, strengths)
    past = histories(X)
    for context, found in zip(past[:40], model.predict_proba(X[:40])):
        p = np.full(5, 0.2)
        for k in range(len(context) + 1):
            suffix = context[len(context) - k :]
            at = np.array([h[len(h) - k :] == suffix and len(h) >= k for h in past])
            count = np.array([(at & (y == c)).sum() for c in classes])
            d = strengths[k] * (count > 0).sum()
            p = (count + d * p) / (count.sum() + d)
        np.testing.assert_allclose(found, p, rtol=1e-12)
    one = WittenBellLM(padding=-1, classes=classes).fit(X, y)
    last = WittenBellLM(strength=[2.0], padding=-1, classes=classes).fit(X, y)
    assert (
        last.strengths_.tolist() == [2.0] * 3 and one.strengths_.tolist() == [1.0] * 3
    )
    bare = WittenBellLM(strength="deleted", base=AdditiveUnigram(0.5), padding=-1)
    strengths = bare.fit(X, y).strengths_
    assert np.isnan(strengths[0]) and np.all(strengths[1:] > 0)


def test_samples_that_are_all_alike_or_fractional_leave_finite_strengths():
    for X, y, weight in (
        ([[0]], [1], None),
        ([[0], [1], [2]], [0, 1, 2], None),
        ([[0], [0], [1]], [0, 1, 1], [0.3, 1.7, 2.5]),
    ):
        model = WittenBellLM(strength="deleted").fit(X, y, sample_weight=weight)
        assert np.all(np.isfinite(model.strengths_))
        assert model.backoff_model_.check_normalized() < 1e-10


@pytest.mark.parametrize("value", [0, -1.0, [1.0, 0.0], [[1.0]], [], "other", np.inf])
def test_bad_strengths(value):
    with pytest.raises(ValueError, match="strength"):
        WittenBellLM(strength=value).fit([[0], [1]], [0, 1])
