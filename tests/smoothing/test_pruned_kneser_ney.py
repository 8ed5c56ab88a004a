"""PrunedKneserNeyLM: counts that return, against dictionaries; its two ends."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from _oracles import following_text, histories, pairs_below_the_root, random_corpus

from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import AbsoluteDiscountLM, KneserNeyLM, PrunedKneserNeyLM

pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


def reference(X, y, threshold, d, n_classes):
    """{(context, class): own share}, held, by the definitions; one discount d."""
    count = defaultdict(Counter)
    ends = defaultdict(Counter)
    for history, target in zip(histories(X), y.tolist()):
        ends[history][target] += 1
        for depth in range(len(history) + 1):
            count[history[len(history) - depth :]][target] += 1

    def adjusted(kept):
        """Counts of all contexts, the pairs that were removed having given theirs."""
        a = defaultdict(Counter)
        for x in sorted(count, key=len, reverse=True):
            for z in count[x]:
                a[x][z] += ends[x][z]
                if x:
                    a[x[1:]][z] += 1 if (x, z) in kept else a[x][z]
        return a

    def model(kept, a):
        def row(x):
            if x not in a:
                return row(x[1:])
            above = row(x[1:]) if x else np.full(n_classes, 1 / n_classes)
            total = sum(a[x].values())
            own = np.zeros(n_classes)
            for z, c in a[x].items():
                if (x, z) in kept:
                    own[z] = (c - d) / total
            return own + (1 - own.sum()) * above

        return row

    everything = {(x, z) for x in count for z in count[x]}
    plain = model(everything, adjusted(everything))
    kept = set(everything)
    for depth in range(X.shape[1], 0, -1):
        a = adjusted(kept)
        removed = set()
        for x in [x for x in count if len(x) == depth]:
            total = sum(a[x].values())
            for z, c in a[x].items():
                if any((*x, z) == h for h, _ in kept):
                    continue
                low = plain(x[1:])[z]
                own, held = (c - d) / total, d * len(a[x]) / total
                p, q = own + held * low, (own + held) * low
                cost = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
                if cost * sum(count[x].values()) < threshold:
                    removed.add((x, z))
        kept -= removed
    return kept, model(kept, adjusted(kept))


@pytest.mark.parametrize("threshold", [0.0, 0.3, 3.0])
def test_equals_the_definition(threshold):
    X, y = random_corpus(2, 7, 300, 2)
    model = PrunedKneserNeyLM(
        threshold=threshold, discount=0.4, padding=-1, classes=range(8)
    ).fit(X, y)
    kept, row = reference(X, y, threshold, 0.4, 8)
    backoff = model.backoff_model_
    assert pairs_below_the_root(backoff) == {(x, z) for x, z in kept if x}
    if threshold:
        assert 0 < model.n_pruned_
    for context, proba in zip(histories(X)[:60], model.predict_proba(X[:60])):
        np.testing.assert_allclose(proba, row(context), rtol=1e-11)


def test_nothing_removed_is_kneser_ney():
    X, y = random_corpus(2, 7, 300, 2)
    model = PrunedKneserNeyLM(threshold=0, padding=-1).fit(X, y)
    whole = KneserNeyLM(padding=-1).fit(X, y)
    assert model.n_pruned_ == 0
    np.testing.assert_array_equal(model.predict_proba(X), whole.predict_proba(X))


def test_everything_removed_is_the_unigram_model_of_the_text():
    """All counts are back: the unigrams are those of raw counts, not of contexts."""
    X, y = random_corpus(2, 7, 300, 2)
    model = PrunedKneserNeyLM(threshold=np.inf, discount=0.4, padding=-1).fit(X, y)
    assert model.backoff_model_.n_nodes == 1
    raw = AbsoluteDiscountLM(0, discount=0.4, padding=-1).fit(X, y)
    np.testing.assert_allclose(
        model.predict_proba(X[:1]), raw.predict_proba(X[:1]), rtol=1e-12
    )


def test_smaller_as_the_threshold_rises():
    text = following_text(0, 30, 400, spread=0.15, shortest=8)
    sizes = []
    for threshold in (0.0, 0.1, 0.5, 2.0, 8.0):
        lm = LanguageModel(PrunedKneserNeyLM(threshold=threshold), max_depth=2)
        lm.fit(text)
        lm.backoff_model_.begin()  # every context can be reached by reading
        sizes.append(lm.backoff_model_.n_pairs)
    assert sizes == sorted(set(sizes), reverse=True)
    whole = LanguageModel(KneserNeyLM(), max_depth=2).fit(text)
    assert sizes[0] == whole.backoff_model_.n_pairs
    # A text of bigrams loses its trigrams first, and hardly anything with them.
    lm = LanguageModel(PrunedKneserNeyLM(threshold=2.0), max_depth=2).fit(text[:350])
    whole.fit(text[:350])
    assert lm.backoff_model_.n_pairs < whole.backoff_model_.n_pairs / 2
    assert lm.perplexity(text[350:]) < 1.1 * whole.perplexity(text[350:])


def test_tuned_discounts_and_weights():
    X, y = random_corpus(3, 9, 500, 2)
    tuned = PrunedKneserNeyLM(discount="tuned", padding=-1)
    tuned.fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:])
    whole = KneserNeyLM(discount="tuned", padding=-1)
    whole.fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:])
    np.testing.assert_allclose(tuned.discounts_, whole.discounts_)
    weight = np.random.default_rng(0).random(len(y)) * 2
    model = PrunedKneserNeyLM(padding=-1).fit(X, y, sample_weight=weight)
    assert model.backoff_model_.check_normalized() < 1e-12


@pytest.mark.parametrize("threshold", [-1.0, np.nan, "x", None])
def test_bad_threshold(threshold):
    with pytest.raises(ValueError, match="'threshold' parameter"):
        PrunedKneserNeyLM(threshold=threshold).fit([[0], [1]], [0, 1])
