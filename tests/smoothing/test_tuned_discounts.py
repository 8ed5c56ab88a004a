"""discount="tuned": exact derivatives, optimality, and the ways data come in."""

import numpy as np
import pytest
from _cases import each_value
from _oracles import random_corpus

from sklstruct import SuffixTreeVectorizer
from sklstruct.backoff._held_out import HeldOut
from sklstruct.context_tree import ContextTree, Histories, Pairs
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import AbsoluteDiscountLM, AdditiveUnigram, KneserNeyLM
from sklstruct.smoothing import _smoothing_fast as _fast
from sklstruct.smoothing._tuned_discounts import discount_weights, held_out_likelihood

pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


def test_the_linear_form_of_a_discount_is_the_kernels():
    count = np.concatenate([np.arange(7.0), np.random.default_rng(0).random(50) * 6])
    for d in ([0.7], [0.5, 1.1], [0.4, 0.9, 1.3], [0.3, 0.9, 1.1, 1.9]):
        fixed, w = discount_weights(count, len(d))
        own, held = np.empty(count.size), np.empty(1)
        ptr = np.array([0, count.size], dtype=np.int32)
        _fast.discount(ptr, 0, 1, count, np.array(d), own, held)
        expected = count - own * count.sum()
        np.testing.assert_allclose(fixed + w @ d, expected, atol=1e-12)


@pytest.mark.parametrize(*each_value(first=[0, 1], weights=["ones", "fractional"]))
def test_gradient_by_finite_differences(first, weights):
    X, y = random_corpus(0, 6, 300, 3)
    X_val, y_val = random_corpus(1, 6, 120, 3)
    rng = np.random.default_rng(0)
    weight = None if weights == "ones" else rng.random(y.size) * 3
    tree, node = ContextTree.from_histories(
        Histories.from_windows(X.astype(np.int32), 3), 6
    )
    pairs, count = Pairs.count(tree, node, y.astype(np.int32), 7, weight)
    held_out = HeldOut.of_samples(
        pairs, tree.find_windows(X_val.astype(np.int32)), y_val.astype(np.int32)
    )
    base = rng.dirichlet(np.ones(7))
    for n_discounts in (1, 3, 4):
        f = held_out_likelihood(pairs, count, held_out, base, first, n_discounts)
        top = np.arange(1, n_discounts + 1)
        at = (0.2 + 0.6 * rng.random((tree.n_levels - first, n_discounts))) * top
        _, gradient = f(at)
        for index in np.ndindex(at.shape):
            step = np.zeros_like(at)
            step[index] = 1e-5
            slope = (f(at + step)[0] - f(at - step)[0]) / 2e-5
            assert gradient[index] == pytest.approx(slope, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    *each_value(
        smoother=[KneserNeyLM, AbsoluteDiscountLM],
        base=["uniform", AdditiveUnigram(0.5)],
    )
)
def test_no_discount_nearby_is_better(smoother, base):
    X, y = random_corpus(0, 12, 800, 2)
    X, X_val, y, y_val = X[:600], X[600:], y[:600], y[600:]
    common = {"padding": -1, "classes": range(13), "base": base}
    tuned = smoother(discount="tuned", **common).fit(X, y, X_val=X_val, y_val=y_val)

    def score(discounts):
        given = np.nan_to_num(discounts, nan=0.5)
        model = smoother(discount=given, **common).fit(X, y)
        return model.target_log_proba(X_val, y_val).sum()

    best = score(tuned.discounts_)
    # The parameter takes what was found, and gives the same model.
    assert best == pytest.approx(tuned.target_log_proba(X_val, y_val).sum(), rel=1e-12)
    for discount in ("modified", "single"):
        other = smoother(discount=discount, **common).fit(X, y)
        assert best > other.target_log_proba(X_val, y_val).sum()
    rng = np.random.default_rng(0)
    top = np.arange(1, 4)
    for _ in range(20):
        moved = tuned.discounts_ + 0.02 * rng.standard_normal(tuned.discounts_.shape)
        assert score(np.clip(moved, 1e-3, top)) <= best + 1e-6


def test_the_fraction_is_the_end_of_the_samples_and_all_are_counted():
    X, y = random_corpus(3, 9, 500, 2)
    ours = KneserNeyLM(discount="tuned", validation_fraction=0.2, padding=-1).fit(X, y)
    held = KneserNeyLM(discount="tuned", padding=-1, classes=ours.classes_)
    held.fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:])
    np.testing.assert_allclose(ours.discounts_, held.discounts_, atol=1e-9)
    given = KneserNeyLM(discount=ours.discounts_, padding=-1).fit(X, y)
    np.testing.assert_array_equal(ours.predict_proba(X), given.predict_proba(X))


@pytest.mark.parametrize(*each_value(held=[False, True], collapse=[False, True]))
def test_paths_and_windows_tune_alike(collapse, held):
    X, y = random_corpus(3, 9, 500, 3)
    dense = KneserNeyLM(discount="tuned", padding=-1)
    vectorizer = SuffixTreeVectorizer(max_depth=3, padding=-1, collapse=collapse)
    paths = vectorizer.fit_transform(X[:400])
    sparse = KneserNeyLM(discount="tuned")
    if held:
        dense.fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:])
        more = {"X_val": vectorizer.transform(X[400:]), "y_val": y[400:]}
        with pytest.raises(ValueError, match="features"):
            narrow = vectorizer.transform(X[400:])[:, 1:]
            sparse.fit(paths, y[:400], X_val=narrow, y_val=y[400:])
        sparse.fit(paths, y[:400], **more)
    else:
        dense.fit(X[:400], y[:400])
        sparse.fit(paths, y[:400])
    np.testing.assert_allclose(dense.discounts_, sparse.discounts_, atol=1e-6)


def test_weights_zero_are_absent():
    X, y = random_corpus(3, 9, 400, 2)
    weight = np.random.default_rng(0).integers(0, 2, y.size)
    keep = weight > 0
    a = KneserNeyLM(discount="tuned", padding=-1).fit(X, y, sample_weight=weight)
    b = KneserNeyLM(discount="tuned", padding=-1).fit(X[keep], y[keep])
    np.testing.assert_array_equal(a.discounts_, b.discounts_)


def test_language_model_tunes_on_held_out_sentences():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(20, 0.2), size=20)
    text = []
    for _ in range(150):
        at, sentence = 0, []
        for _ in range(10):
            at = rng.choice(20, p=p[at])
            sentence.append(f"w{at}")
        text.append(sentence)
    lm = LanguageModel(KneserNeyLM(discount="tuned"), max_depth=2)
    lm.fit(text[:100], X_val=text[100:])
    plain = LanguageModel(KneserNeyLM(), max_depth=2).fit(text[:100])
    assert lm.perplexity(text[100:]) < plain.perplexity(text[100:])
    given = KneserNeyLM(discount=lm.estimator_.discounts_)
    given = LanguageModel(given, max_depth=2).fit(text[:100])
    assert given.perplexity(text[100:]) == pytest.approx(lm.perplexity(text[100:]))


def test_tiny_texts_and_bad_input():
    model = LanguageModel(KneserNeyLM(discount="tuned"), max_depth=3)
    assert np.isfinite(model.fit(["a b a", "b"]).perplexity(["a zebra"]))
    with pytest.raises(ValueError, match="validation_fraction=0.1: of 1 sample"):
        KneserNeyLM(discount="tuned").fit([[0]], [0])
    with pytest.raises(ValueError, match="needs interpolate=True"):
        KneserNeyLM(discount="tuned", interpolate=False).fit([[0], [1]], [0, 1])
    with pytest.raises(ValueError, match="X_val.*discount='tuned'"):
        KneserNeyLM().fit([[0], [1]], [0, 1], X_val=[[0]], y_val=[0])
    with pytest.raises(ValueError, match="a row of them for each depth"):
        KneserNeyLM(discount=np.full((1, 1, 1), 0.5)).fit([[0], [1]], [0, 1])
    with pytest.raises(ValueError, match="count 2 is 2.5"):
        KneserNeyLM(discount=[[0.5, 1.0], [0.5, 2.5]]).fit([[0], [1]], [0, 1])
