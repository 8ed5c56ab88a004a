"""discount="by_block": counts without each block against counting again."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from _cases import all_pairs
from _oracles import random_corpus

from sklstruct import SuffixTreeVectorizer
from sklstruct.backoff import BackoffModel, count_windows
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import (
    AbsoluteDiscountLM,
    AdditiveUnigram,
    KneserNeyLM,
    _block_discounts,
)
from sklstruct.smoothing._block_discounts import TextBlocks, block_shares, left_out
from sklstruct.smoothing._shares import hand_down
from sklstruct.smoothing.ngram import _discounting
from sklstruct.symbols import Labels

pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")
SMOOTHERS = [KneserNeyLM, AbsoluteDiscountLM]


class Oracle:
    """The model of some samples by dictionaries and loops, of whole weights."""

    def __init__(self, samples, n_classes, distinct):
        self.n_classes = n_classes
        self.raw, blocks = Counter(), defaultdict(set)
        for block, history, y in samples:
            for k in range(len(history) + 1):
                gram = (history[len(history) - k :], y)
                self.raw[gram] += 1
                blocks[gram].add(block)
        self.spread = {gram: len(where) for gram, where in blocks.items()}
        self.used = Counter(self.raw)
        if distinct:
            self.used = Counter((history, y) for _, history, y in samples)
            for context, y in self.raw:
                if context:
                    self.used[context[1:], y] += 1
        self.followers = defaultdict(list)
        for (context, y), a in self.used.items():
            self.followers[context].append((y, a))

    def discount(self, gram, table):
        a = self.used.get(gram, 0)
        if a == 0:
            return 0.0
        return table[len(gram[0])][min(self.spread[gram], 4) - 1][min(a, 4) - 1]

    def proba(self, history, y, table, base, first):
        p = base[y]
        for k in range(first, len(history) + 1):
            context = history[len(history) - k :]
            if context not in self.followers:
                break
            total = sum(a for _, a in self.followers[context])
            off = sum(
                self.discount((context, z), table) for z, _ in self.followers[context]
            )
            gram = (context, y)
            own = self.used.get(gram, 0) - self.discount(gram, table)
            p = own / total + off / total * p
        return p


def bursty(seed, n=160, n_symbols=5, depth=2, block=16):
    """Samples of a text whose blocks prefer some symbols; short histories at starts."""
    rng = np.random.default_rng(seed)
    y = np.concatenate(
        [
            rng.choice(n_symbols, block, p=rng.dirichlet(np.full(n_symbols, 0.4)))
            for _ in range(n // block)
        ]
    ).astype(np.int32)
    X = np.full((y.size, depth), -1, dtype=np.int32)
    length = 0
    for i in range(y.size):
        length = 0 if rng.random() < 0.2 else length + 1
        for k in range(min(length, depth)):
            X[i, depth - 1 - k] = y[i - 1 - k]
    return X, y


def history(row):
    return tuple(int(s) for s in row if s >= 0)


def counted_blocks(X, y, n_classes, size, section=None):
    labels = Labels(np.arange(n_classes), np.arange(n_classes))
    samples = count_windows(X, y, labels, keep_positions=True)
    counted = samples.count_now()
    blocks = TextBlocks.of(samples, counted, size)
    return counted, blocks if section is None else blocks._replace(section=section)


@pytest.mark.parametrize("n_symbols", [3, 40])
def test_spread_is_the_number_of_blocks(n_symbols):
    X, y = bursty(0, n_symbols=n_symbols)
    counted, blocks = counted_blocks(X, y, n_symbols, 7)
    oracle = Oracle(
        [(i // 7, history(x), int(t)) for i, (x, t) in enumerate(zip(X, y))],
        n_symbols,
        False,
    )
    pairs = counted.pairs
    windows = pairs.tree.windows()
    for p, (node, target) in enumerate(zip(pairs.nodes(), pairs.target)):
        gram = (history(windows[node]), int(target))
        assert blocks.spread[p] == oracle.spread.get(gram, 0)


@pytest.mark.parametrize(
    *all_pairs(seed=range(4), first=[0, 1], distinct=[True, False], section=[1, 3])
)
def test_the_likelihood_is_that_of_counting_without_each_section(
    section, distinct, first, seed
):
    n_classes, size = 40, 9
    X, y = bursty(seed, n_symbols=n_classes)
    counted, blocks = counted_blocks(X, y, n_classes, size, section)
    pairs, count = counted.expanded(copy=True)
    adjusted = pairs.adjusted_counts(count) if distinct else None
    rng = np.random.default_rng(seed)
    base = rng.dirichlet(np.ones(n_classes))
    likelihood = left_out(pairs, count, adjusted, blocks, base, first)
    n_levels = pairs.tree.n_levels
    table = (0.1 + 0.8 * rng.random((n_levels, 4, 4))) * np.arange(1, 5)
    value, gradient = likelihood(table[first:].reshape(-1, 16))
    samples = [(i // size, history(x), int(t)) for i, (x, t) in enumerate(zip(X, y))]
    expected = total = 0.0
    for left in range(samples[-1][0] // section + 1):
        rest = [s for s in samples if s[0] // section != left]
        model = Oracle(rest, n_classes, distinct)
        for block, context, target in samples:
            if block // section == left and ((), target) in model.raw:
                total += 1
                expected -= np.log(model.proba(context, target, table, base, first))
    assert value == pytest.approx(expected / total, rel=1e-12)
    # Bursts of one section are not scored.
    assert likelihood.size == total < y.size
    for at in np.ndindex(gradient.shape):
        step = np.zeros_like(gradient)
        step[at] = 1e-6
        there = table[first:].reshape(-1, 16)
        slope = (likelihood(there + step)[0] - likelihood(there - step)[0]) / 2e-6
        assert gradient[at] == pytest.approx(slope, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("distinct", [True, False])
def test_weights_are_repetitions(distinct):
    # Blocks of whole sentences: repeated samples stay in their block.
    X, y = bursty(3)
    rng = np.random.default_rng(0)
    times = np.tile(rng.permutation([1, 1, 2, 2, 3, 1, 2, 2]), 20)
    labels = Labels(np.arange(5), np.arange(5))
    found = []
    for rows, weight, size in (
        (np.arange(y.size), times.astype(float), 8),
        (np.repeat(np.arange(y.size), times), None, int(times[:8].sum())),
    ):
        samples = count_windows(
            X[rows], y[rows], labels, sample_weight=weight, keep_positions=True
        )
        counted = samples.count_now()
        blocks = TextBlocks.of(samples, counted, size)
        pairs, count = counted.expanded(copy=True)
        adjusted = pairs.adjusted_counts(count) if distinct else None
        base = np.full(5, 0.2)
        likelihood = left_out(pairs, count, adjusted, blocks, base, 0)
        found.append(likelihood(np.tile([0.5, 1.0, 1.2, 1.3], (3, 4)))[0])
    assert found[0] == pytest.approx(found[1], rel=1e-12)


@pytest.mark.parametrize("smoother", SMOOTHERS)
@pytest.mark.parametrize("base", ["uniform", AdditiveUnigram(0.5)])
def test_the_model_is_that_of_its_discounts(smoother, base, monkeypatch):
    monkeypatch.setattr(_discounting, "BLOCK", 16)
    X, y = bursty(5)
    size = 16
    model = smoother(discount="by_block", base=base, padding=-1, classes=range(5)).fit(
        X, y
    )
    samples = [(i // size, history(x), int(t)) for i, (x, t) in enumerate(zip(X, y))]
    distinct = smoother is KneserNeyLM
    oracle = Oracle(samples, 5, distinct)
    root, first = np.full(5, 0.2), 0
    if base != "uniform":
        counts = np.array([oracle.used.get(((), z), 0) for z in range(5)], float)
        root, first = base.from_counts(counts, np.arange(5)).proba_, 1
        assert np.isnan(model.discounts_[0]).all()
    windows = np.array([[a, b] for a in range(-1, 5) for b in range(5)])
    proba = model.predict_proba(windows)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    for row, window in zip(proba, windows):
        context = history(window)
        expected = [
            oracle.proba(context, z, model.discounts_, root, first) for z in range(5)
        ]
        np.testing.assert_allclose(row, expected, rtol=1e-12)


@pytest.mark.parametrize("smoother", SMOOTHERS)
def test_no_discounts_nearby_are_better(smoother, monkeypatch):
    monkeypatch.setattr(_discounting, "BLOCK", 16)
    X, y = bursty(7, n=480)
    model = smoother(discount="by_block", padding=-1, classes=range(5))
    model.fit(X, y)
    counted, blocks = counted_blocks(X, y, 5, 16)
    pairs, count = counted.expanded(copy=True)
    adjusted = pairs.adjusted_counts(count) if smoother is KneserNeyLM else None
    likelihood = left_out(pairs, count, adjusted, blocks, np.full(5, 0.2), 0)
    found = model.discounts_.reshape(-1, 16)
    best = likelihood(found)[0]
    rng = np.random.default_rng(0)
    for _ in range(40):
        moved = found + 0.05 * rng.standard_normal(found.shape)
        moved[0] = found[0]  # the unigrams are those of the formula
        assert likelihood(np.clip(moved, 1e-3, likelihood.top))[0] >= best - 1e-9
    start = np.tile([0.5, 1.0, 1.5, 1.5], (len(found), 4))
    start[0] = found[0]
    assert best < likelihood(start)[0]


def test_bursts_are_discounted_more(monkeypatch):
    monkeypatch.setattr(_discounting, "BLOCK", 8)
    # Half of the followers of 0 come in one block each, the others in all blocks.
    rng = np.random.default_rng(0)
    y = []
    for block in range(40):
        own = 10 + block
        y += [t for w in (own, own, own, 1 + rng.integers(4)) for t in (0, w)]
    y = np.array(y)
    X = np.r_[-1, y[:-1]][:, None]
    model = KneserNeyLM(discount="by_block", padding=-1).fit(X, y)
    one, *_, many = model.discounts_[1]
    assert one[2] > 2.9  # never seen again
    assert many[3] < 1.6
    raw = KneserNeyLM(padding=-1).fit(X, y)
    fresh = np.array([1, 2, 3, 4])
    zero = np.zeros((4, 1), dtype=int)
    ours, theirs = (m.target_log_proba(zero, fresh).sum() for m in (model, raw))
    assert ours > theirs


@pytest.mark.parametrize("n", [1, 2, 11])
def test_short_texts(n):
    X, y = random_corpus(0, 4, n, 2)
    model = KneserNeyLM(discount="by_block", padding=-1, classes=range(5)).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, atol=1e-12)


def test_samples_of_evenly_spaced_sections(monkeypatch):
    X, y = bursty(2)
    monkeypatch.setattr(_block_discounts, "_MOST_SAMPLES", 45)  # not a divisor of 160
    _, blocks = counted_blocks(X, y, 5, 5, 2)
    section, block, slot, weight = blocks.sample()
    assert np.unique(section).tolist() == [0, 4, 8, 12]
    assert block.reshape(4, 10).tolist() == [[0] * 5 + [1] * 5] * 4
    assert slot.size == weight.size == 40
    np.testing.assert_array_equal(slot, blocks.slot.reshape(-1, 10)[::4].ravel())


def test_a_language_model_has_it_with_cut_offs_too(monkeypatch):
    monkeypatch.setattr(_discounting, "BLOCK", 8)
    text = [list(line) for line in ("abca", "abba", "bcab", "cabb") * 6]
    lm = LanguageModel(KneserNeyLM(discount="by_block"), max_depth=2)
    lm.fit(text)
    assert lm.estimator_.discounts_.shape == (3, 4, 4)
    assert np.shape(lm.describe()["discounts"]) == (3, 4, 4)
    cut = LanguageModel(
        KneserNeyLM(discount="by_block", min_count=[1, 1, 7]), max_depth=2
    ).fit(text)
    whole, fewer = (m.predictor.distribution for m in (lm, cut))
    assert fewer.pairs.n_pairs < whole.pairs.n_pairs
    rows = np.exp(fewer.rows(np.arange(fewer.tree.n_nodes)))
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-12)


def test_discounts_by_block_refuse_input_without_order():
    X, y = random_corpus(0, 4, 60, 2)
    model = KneserNeyLM(discount="by_block", padding=-1)
    with pytest.raises(ValueError, match="needs interpolate=True"):
        KneserNeyLM(discount="by_block", interpolate=False).fit(X, y)
    paths = SuffixTreeVectorizer(max_depth=2, padding=-1).fit_transform(X)
    with pytest.raises(ValueError, match="order of the text"):
        KneserNeyLM(discount="by_block").fit(paths, y)
    with pytest.raises(ValueError, match="does not use held-out"):
        model.fit(X, y, X_val=X, y_val=y)
    counted = LanguageModel(max_depth=2).count(["a b", "b a"])
    with pytest.raises(ValueError, match="order of the text"):
        LanguageModel(model, max_depth=2).fit(counted)
    with pytest.raises(AttributeError, match="partial_fit"):
        model.partial_fit(X, y)


@pytest.mark.parametrize("distinct", [True, False])
def test_fractional_weights_are_those_of_a_fit_without_the_section(distinct):
    X, y = bursty(1)
    rng = np.random.default_rng(1)
    weight, size, n_blocks = 0.1 + 1.3 * rng.random(y.size), 8, 4
    labels = Labels(np.arange(5), np.arange(5))
    base, table = np.full(5, 0.2), np.tile([0.5, 1.0, 1.2, 1.3], (3, 4))
    table = table * (0.6 + 0.3 * rng.random(table.shape))

    def counted(rows):
        samples = count_windows(
            X[rows], y[rows], labels, sample_weight=weight[rows], keep_positions=True
        )
        found = samples.count_now()
        pairs, count = found.expanded(copy=True)
        adjusted = pairs.adjusted_counts(count) if distinct else None
        return pairs, count, adjusted, TextBlocks.of(samples, found, size)

    pairs, count, adjusted, blocks = counted(slice(None))
    blocks = blocks._replace(section=n_blocks)
    likelihood = left_out(pairs, count, adjusted, blocks, base, 0)
    section = np.arange(y.size) // (size * n_blocks)
    expected = total = 0.0
    for left in np.unique(section):
        pairs, count, adjusted, blocks = counted(np.flatnonzero(section != left))
        root = count[:5].copy()
        own, held = block_shares(
            pairs,
            count if adjusted is None else adjusted,
            blocks.spread,
            table.reshape(-1, 4, 4),
            0,
        )
        numbers = hand_down(pairs, own, held, root, base, 0)
        model = BackoffModel(pairs, *numbers, labels)
        some = np.flatnonzero((section == left) & (root[y] > 0))
        log_prob = model.target(pairs.tree.find_windows(X[some]), y[some])
        expected -= weight[some] @ log_prob
        total += weight[some].sum()
    assert likelihood(table)[0] == pytest.approx(expected / total, rel=1e-12)
