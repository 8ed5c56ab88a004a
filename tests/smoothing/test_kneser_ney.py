"""Kneser-Ney against hand computation, brute force and its invariants."""

import itertools
import warnings
from collections import defaultdict
from fractions import Fraction as F

import numpy as np
import pytest
from _cases import all_pairs, each_value
from _oracles import histories, random_corpus

from sklstruct import SuffixTreeVectorizer
from sklstruct.exchange import write
from sklstruct.smoothing import AbsoluteDiscountUnigram, KneserNeyLM
from sklstruct.symbols import Labels, context_windows

# --------------------------------------------------------------- brute force


def reference(samples, m, classes, *, discount, interpolate, base=None):
    """P(y | history) in exact arithmetic, by dictionaries and the definitions.

    samples: list of (history tuple, y); returns a function (history, y) -> Fraction
    and the discounts by depth.
    """
    count = defaultdict(lambda: defaultdict(int))
    ends = defaultdict(lambda: defaultdict(int))
    before = defaultdict(lambda: defaultdict(set))
    for history, y in samples:
        x = history[-m:] if m else ()
        for k in range(len(x) + 1):
            n = x[len(x) - k :]
            count[n][y] += 1
            if k < len(x):
                before[n][y].add(x[len(x) - k - 1])
        ends[x][y] += 1
    deepest = max(map(len, count))
    adjusted = {
        n: {
            y: c if len(n) == deepest else len(before[n][y]) + ends[n][y]
            for y, c in row.items()
        }
        for n, row in count.items()
    }
    discounts = []
    for depth in range(deepest + 1):
        values = [
            a for n, row in adjusted.items() if len(n) == depth for a in row.values()
        ]
        n1, n2, n3, n4 = (values.count(i) for i in (1, 2, 3, 4))
        if not isinstance(discount, str):
            discounts.append(tuple(F(d) for d in np.atleast_1d(discount).tolist()))
        elif discount == "single":
            d = F(n1, n1 + 2 * n2) if n1 and n2 else F(3, 4)
            discounts.append((d,))
        else:
            d = (0,)
            if n1 and n2 and n3:
                y = F(n1, n1 + 2 * n2)
                d = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
            ok = all(0 < v <= i for i, v in enumerate(d, 1))
            if not interpolate:
                ok = ok and all(v < i for i, v in enumerate(d, 1))
            discounts.append(d if ok else (F(1, 2), F(1), F(3, 2)))
    uniform = dict.fromkeys(classes, F(1, len(classes)))

    def prob(n, y, above):
        """P(y | n) where `above` is P(. | parent)."""
        row = adjusted[n]
        d = discounts[len(n)]
        total = sum(row.values())
        left = F(0)
        for a in row.values():
            left += d[min(a, len(d)) - 1]
        left /= total
        own = F(0)
        if y in row:
            own = (row[y] - d[min(row[y], len(d)) - 1]) / total
        full = len(row) == len(classes)
        if interpolate or full:
            return own + left * above[y]
        if y in row:
            return own
        return left * above[y] / sum(above[z] for z in classes if z not in row)

    cache = {}

    def distribution(n):
        if n not in cache:
            above = distribution(n[1:]) if n else uniform
            if not n and base is not None:
                cache[n] = base
            elif n in adjusted:
                cache[n] = {y: prob(n, y, above) for y in classes}
            else:
                cache[n] = above
        return cache[n]

    def query(history):
        n = tuple(history)[-m:] if m else ()
        return distribution(n)

    return query, discounts


def fit(model, X, y, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(X, y, **kwargs)


@pytest.mark.parametrize(
    *all_pairs(
        discount=["modified", "single", 0.3, (0.4, 0.9, 1.2, 2.5)],
        interpolate=[True, False],
        size=[(3, 40, 2), (9, 300, 3)],
    )
)
def test_equals_brute_force(discount, interpolate, size):
    n_symbols, n_samples, width = size
    for seed in range(3):
        X, y = random_corpus(seed, n_symbols, n_samples, width)
        classes = list(range(n_symbols + 1))  # the last one is never seen
        model = KneserNeyLM(
            discount=discount, interpolate=interpolate, padding=-1, classes=classes
        )
        fit(model, X, y)
        query, discounts = reference(
            list(zip(histories(X), y.tolist())),
            width,
            classes,
            discount=discount,
            interpolate=interpolate,
        )
        np.testing.assert_allclose(
            model.discounts_, np.array(discounts, dtype=float), rtol=1e-12
        )
        contexts = np.unique(
            np.concatenate([X, np.random.default_rng(0).permuted(X, axis=0)]), axis=0
        )
        got = model.predict_proba(contexts)
        for row, history in zip(got, histories(contexts)):
            expected = query(history)
            assert sum(expected.values()) == 1
            np.testing.assert_allclose(
                row, [float(expected[c]) for c in classes], rtol=1e-11
            )


# ------------------------------------------------------------ a ten-word text

TEXT = ["a b a", "b a b", "a b c c"]
# Bigram counts: <s>: a 2, b 1;  a: b 3, </s> 1;  b: a 2, </s> 1, c 1;
#                c: c 1, </s> 1.
# Distinct predecessors: a {<s>, b}, b {<s>, a}, c {b, c}, </s> {a, b, c}: 2 2 2 3.


def ten_words(**kwargs):
    w = context_windows(TEXT, max_depth=1)
    model = fit(
        KneserNeyLM(padding=-1, **kwargs),
        w.contexts,
        w.targets,
        sample_weight=w.sample_weight,
    )
    code = {s: i for i, s in enumerate(w.vocabulary)}
    assert w.vocabulary[model.classes_].tolist() == ["a", "b", "c", "</s>"]
    return model, code


def test_ten_words_interpolated_by_hand():
    model, code = ten_words(discount=0.5)
    got = model.predict_proba([[-1], [code["a"]], [code["b"]], [code["<s>"]]])
    # Root: (a - 1/2) / 9 + (4 * 1/2) / 9 * 1/4.
    root = [F(2, 9), F(2, 9), F(2, 9), F(1, 3)]
    # After a: total 4, left 2 * 1/2 / 4 = 1/4.
    after_a = [
        F(1, 4) * F(2, 9),
        F(5, 8) + F(1, 4) * F(2, 9),
        F(1, 4) * F(2, 9),
        F(1, 8) + F(1, 4) * F(1, 3),
    ]
    # After b: total 4, left 3/8.
    after_b = [
        F(3, 8) + F(3, 8) * F(2, 9),
        F(3, 8) * F(2, 9),
        F(1, 8) + F(3, 8) * F(2, 9),
        F(1, 8) + F(3, 8) * F(1, 3),
    ]
    # After <s>: total 3, left 1/3.
    start = [
        F(1, 2) + F(1, 3) * F(2, 9),
        F(1, 6) + F(1, 3) * F(2, 9),
        F(1, 3) * F(2, 9),
        F(1, 3) * F(1, 3),
    ]
    expected = np.array([root, after_a, after_b, start], dtype=float)
    np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_ten_words_back_off_by_hand():
    model, code = ten_words(discount=0.5, interpolate=False)
    got = model.predict_proba([[-1], [code["a"]], [code["<s>"]]])
    # Every class was seen, so the root interpolates. After a, the left-over 1/4 is
    # shared by a and c; after <s>, 1/3 by c (2/9) and </s> (1/3).
    expected = [
        [F(2, 9), F(2, 9), F(2, 9), F(1, 3)],
        [F(1, 8), F(5, 8), F(1, 8), F(1, 8)],
        [F(1, 2), F(1, 6), F(1, 3) * F(2, 5), F(1, 3) * F(3, 5)],
    ]
    np.testing.assert_allclose(got, np.array(expected, dtype=float), rtol=1e-14)


def test_ten_words_discounts_by_hand():
    # Bigrams: n1 = 6, n2 = 2, n3 = 1, n4 = 0; Y = 6 / 10. No unigram has count 1.
    model, _ = ten_words(discount="single")
    np.testing.assert_allclose(model.discounts_, [[0.75], [0.6]])
    model, _ = ten_words(discount="modified")
    np.testing.assert_allclose(model.discounts_, [[0.5, 1, 1.5], [0.6, 1.1, 3]])
    # D3 = 3 would give a pair of count 3 the probability 0 without interpolation.
    model, _ = ten_words(discount="modified", interpolate=False)
    np.testing.assert_allclose(model.discounts_, [[0.5, 1, 1.5], [0.5, 1, 1.5]])


def test_sentence_starts_keep_raw_counts():
    """Nothing precedes a start mark: contexts which hold it are not 'distinct'."""
    text = ["a b", "a b", "a c", "c a b"]
    w = context_windows(text, max_depth=2)
    model = fit(
        KneserNeyLM(discount=0.5, padding=-1),
        w.contexts,
        w.targets,
        sample_weight=w.sample_weight,
    )
    code = {s: i for i, s in enumerate(w.vocabulary)}
    row = dict(
        zip(
            w.vocabulary[model.classes_],
            model.predict_proba([[-1, code["<s>"]]])[0],
        )
    )
    # <s> is followed by a 3 times, by c once, on depth 1 of a model of depth 2.
    root = dict(zip(row, model.predict_proba([[-1, -1]])[0]))
    assert row["a"] == pytest.approx(2.5 / 4 + 0.25 * root["a"], rel=1e-14)
    assert row["c"] == pytest.approx(0.5 / 4 + 0.25 * root["c"], rel=1e-14)
    # a is followed by b after <s> and after c: 2; by c after <s>: 1.
    row = dict(
        zip(w.vocabulary[model.classes_], model.predict_proba([[-1, code["a"]]])[0])
    )
    assert row["b"] == pytest.approx(1.5 / 3 + 1 / 3 * root["b"], rel=1e-14)


# ---------------------------------------------------------------- other tools


def test_equals_nltk_where_definitions_coincide():
    """nltk's interpolated Kneser-Ney on a circular text over seen words.

    nltk does not discount the unigrams and has no base, mine are interpolated with
    1/V. With one discount D and all V words seen the two agree: (a - D) / A +
    (V D / A) / V = a / A. They disagree at sentence starts, where nltk counts
    the padding symbols it repeats as distinct predecessors; a circular text lacks them.
    """
    lm = pytest.importorskip("nltk.lm")
    rng = np.random.default_rng(0)
    text = rng.choice(list("abcdef"), size=200, p=[0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    order = 3
    ring = np.concatenate([text[-(order - 1) :], text])
    windows = np.lib.stride_tricks.sliding_window_view(ring, order)
    X, y = windows[:, :-1], windows[:, -1]
    model = KneserNeyLM(discount=0.3).fit(X, y)
    peer = lm.KneserNeyInterpolated(order, discount=0.3)
    grams = [tuple(str(s) for s in row[i:]) for row in windows for i in range(order)]
    peer.fit([grams], vocabulary_text=sorted(set(text.tolist())))
    seen = {tuple(row) for row in X.tolist()}
    contexts = [c for c in itertools.product("abcdef", repeat=2) if c in seen]
    assert len(contexts) > 20
    got = model.predict_proba(np.array(contexts))
    for context, row in zip(contexts, got):
        expected = [peer.score(c, context) for c in model.classes_.tolist()]
        np.testing.assert_allclose(row, expected, rtol=1e-12)


@pytest.mark.parametrize("interpolate", [True, False])
def test_arpa_scores_like_kenlm(tmp_path, interpolate):
    kenlm = pytest.importorskip("kenlm")
    rng = np.random.default_rng(1)
    words = [f"w{i}" for i in range(12)]
    sentences = [
        list(rng.choice(words, size=rng.integers(1, 9), p=rng.dirichlet(np.ones(12))))
        for _ in range(60)
    ]
    m = 2
    text = [["<s>", *s, "</s>"] for s in sentences]
    X = np.full((sum(len(s) - 1 for s in text), m), "", dtype=object)
    y = []
    for s in text:
        for i in range(1, len(s)):
            h = s[max(0, i - m) : i]
            X[len(y), m - len(h) :] = h
            y.append(s[i])
    model = fit(KneserNeyLM(padding="", interpolate=interpolate), X, np.array(y))
    path = tmp_path / "model.arpa"
    found = model.backoff_model_
    marks = Labels(found.labels.classes, found.labels.symbols, start="<s>", end="</s>")
    write(found.relabel(marks), path)
    peer = kenlm.Model(str(path))
    test = [list(rng.choice(words, size=7)) for _ in range(20)]
    for s in test:
        s = ["<s>", *s, "</s>"]
        rows = np.full((len(s) - 1, m), "", dtype=object)
        for i in range(1, len(s)):
            h = s[max(0, i - m) : i]
            rows[i - 1, m - len(h) :] = h
        got = model.target_log_proba(rows, np.array(s[1:])) / np.log(10)
        expected = [p for p, _, _ in peer.full_scores(" ".join(s[1:-1]))]
        np.testing.assert_allclose(got, expected, atol=1e-5)


# ----------------------------------------------------------------- invariants


@pytest.mark.parametrize(
    *each_value(
        discount=["modified", "single", 1e-3, 0.95],
        interpolate=[True, False],
    )
)
def test_rows_sum_to_one(discount, interpolate):
    # Peaky data: one follower takes nearly all of its context, so that nodes cover
    # nearly all mass of their parents, where 1 - sum cancels.
    rng = np.random.default_rng(0)
    n = 20_000
    y = np.where(rng.random(n) < 0.999, 0, rng.integers(0, 6, n))
    X = np.lib.stride_tricks.sliding_window_view(np.concatenate([[0, 0, 0], y]), 3)[:-1]
    model = fit(
        KneserNeyLM(discount=discount, interpolate=interpolate, classes=range(7)), X, y
    )
    every = np.array(list(itertools.product(range(-1, 8), repeat=3)))
    proba = model.predict_proba(every)
    assert (proba > 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize("interpolate", [True, False])
def test_weight_two_is_repetition_and_zero_absence(interpolate):
    X, y = random_corpus(5, 6, 300, 3)
    weight = np.random.default_rng(0).integers(0, 4, y.size)
    model = KneserNeyLM(padding=-1, interpolate=interpolate, classes=range(6))
    a = fit(model, X, y, sample_weight=weight).predict_proba(X)
    times = np.repeat(np.arange(y.size), weight)
    b = fit(model, X[times], y[times]).predict_proba(X)
    np.testing.assert_array_equal(a, b)


def test_fractional_weights_are_continuous():
    X, y = random_corpus(7, 6, 400, 2)
    model = KneserNeyLM(padding=-1, classes=range(6))

    def proba(weight):
        return fit(model, X, y, sample_weight=weight).predict_proba(X)

    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, y.size).astype(float)
    noise = rng.random(y.size)
    distance = [
        np.abs(proba(weight + eps * noise) - proba(weight)).max()
        for eps in (1e-3, 1e-6)
    ]
    assert distance[0] > 0
    assert distance[1] < 2e-3 * distance[0]
    p = proba(rng.random(y.size))
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    assert (p > 0).all()


def test_order_of_samples_does_not_matter():
    X, y = random_corpus(2, 5, 200, 3)
    order = np.random.default_rng(0).permutation(y.size)
    a = fit(KneserNeyLM(padding=-1), X, y).predict_proba(X)
    b = fit(KneserNeyLM(padding=-1), X[order], y[order]).predict_proba(X)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(*each_value(collapse=[False, True], interpolate=[True, False]))
def test_path_matrix_gives_the_same_model(collapse, interpolate):
    X, y = random_corpus(3, 5, 60, 4)
    vectorizer = SuffixTreeVectorizer(max_depth=4, padding=-1, collapse=collapse)
    paths = vectorizer.fit_transform(X)
    dense = fit(KneserNeyLM(padding=-1, interpolate=interpolate), X, y)
    sparse = fit(KneserNeyLM(interpolate=interpolate), paths, y)
    # Not seen in training, these leave merged paths half-way.
    test = np.concatenate([X, np.random.default_rng(0).integers(0, 5, (200, 4))])
    np.testing.assert_allclose(
        dense.predict_proba(test),
        sparse.predict_proba(vectorizer.transform(test)),
        rtol=1e-13,
    )


@pytest.mark.parametrize("max_depth", [0, 1, 2, 7])
def test_max_depth_is_narrower_windows(max_depth):
    X, y = random_corpus(4, 5, 200, 3)
    model = fit(KneserNeyLM(max_depth=max_depth, padding=-1), X, y)
    assert model.depth_ == min(3, max_depth)
    assert model.discounts_.shape == (model.depth_ + 1, 3)
    if max_depth == 0:
        assert np.ptp(model.predict_proba(X), axis=0).max() == 0
    elif max_depth < 3:
        narrow = X[:, -max_depth:]
        other = fit(KneserNeyLM(padding=-1), narrow, y)
        np.testing.assert_array_equal(
            model.predict_proba(X), other.predict_proba(narrow)
        )


def test_unigram_model_by_hand():
    y = np.array(list("aabbbc"))
    model = KneserNeyLM(0, discount=0.5, classes=list("abcd"))
    model.fit(np.zeros((6, 1)), y)
    left = 1.5 / 6
    expected = np.array([1.5, 2.5, 0.5, 0]) / 6 + left / 4
    np.testing.assert_allclose(model.predict_proba([[0]])[0], expected, rtol=1e-14)


# ------------------------------------------------------- discounts and errors


def test_fallback_warns_once_and_names_depth_and_reason():
    X = np.array([[0], [1], [0], [1]])
    y = np.array([1, 0, 1, 0])
    with pytest.warns(UserWarning) as record:
        model = KneserNeyLM().fit(X, y)
    assert len(record) == 1
    message = str(record[0].message)
    assert "depth 0: no adjusted count is 2" in message
    assert "depth 1: no adjusted count is 1" in message
    assert "discount=(0.5, 1, 1.5)" in message
    np.testing.assert_array_equal(model.discounts_, [[0.5, 1, 1.5]] * 2)
    # The remedy the message names gives the same model, silently.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = KneserNeyLM(discount=(0.5, 1, 1.5)).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), other.predict_proba(X))


def test_discount_out_of_range_falls_back():
    # One context; n1 = 1, n2 = 1, n3 = 4: D2 = 2 - 3 * (1/3) * 4 < 0.
    y = np.repeat(np.arange(6), [1, 2, 3, 3, 3, 3])
    X = np.zeros((y.size, 1))
    with pytest.warns(UserWarning, match="depth 1: the discount of count 2 is -2"):
        KneserNeyLM().fit(X, y)


def test_good_data_do_not_warn():
    # Zipf's law: many words are seen once, fewer twice, and so on.
    y = np.random.default_rng(0).zipf(1.5, size=3000)
    X = np.roll(y, 1)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KneserNeyLM().fit(X, y)


@pytest.mark.parametrize(
    "discount, interpolate, match",
    [
        ((), True, "one number, or a sequence"),
        ([[[0.5]]], True, "one number, or a sequence"),
        ((0.5, 2.5), True, "count 2 is 2.5"),
        ((0.5, 0.0), True, "count 2 is 0"),
        ((np.nan,), True, "count 1 is nan"),
        (("x",), True, "must be numbers"),
        (1.0, False, "interpolate=False"),
        ((0.5, 2.0), False, "interpolate=False"),
    ],
)
def test_bad_discounts(discount, interpolate, match):
    with pytest.raises(ValueError, match=match):
        KneserNeyLM(discount=discount, interpolate=interpolate).fit([[0], [1]], [0, 1])


@pytest.mark.parametrize("discount", [0.0, -0.1, 1.5, "katz"])
def test_bad_discount_parameter(discount):
    with pytest.raises(ValueError, match="discount"):
        KneserNeyLM(discount=discount).fit([[0], [1]], [0, 1])


def test_choices_of_discount_are_listed_once():
    with pytest.raises(ValueError, match="discount") as told:
        KneserNeyLM(discount="katz").fit([[0], [1]], [0, 1])
    assert str(told.value).count("modified") == 1


def test_target_outside_classes_is_named():
    with pytest.raises(ValueError, match=r"y\[1\] = .*'z'"):
        KneserNeyLM(classes=["a"]).fit([[0], [1]], ["a", "z"])


class _Unigram:
    """A minimal base: the protocol, and nothing else."""

    def __init__(self, proba=None):
        self.proba = proba

    def get_params(self, deep=False):
        return {"proba": self.proba}

    def from_counts(self, counts, classes):
        self.proba_ = counts / counts.sum() if self.proba is None else self.proba
        return self


@pytest.mark.parametrize("interpolate", [True, False])
def test_base_takes_the_place_of_the_unigrams(interpolate):
    X, y = random_corpus(1, 4, 100, 2)
    base = [0.1, 0.2, 0.3, 0.15, 0.2, 0.05]
    model = KneserNeyLM(
        discount=0.5,
        padding=-1,
        classes=range(6),
        base=_Unigram(np.array(base)),
        interpolate=interpolate,
    ).fit(X, y)
    query, _ = reference(
        list(zip(histories(X), y.tolist())),
        2,
        list(range(6)),
        discount=0.5,
        interpolate=interpolate,
        base=dict(enumerate(map(F, base))),
    )
    got = model.predict_proba(X[:20])
    for row, history in zip(got, histories(X[:20])):
        expected = query(history)
        np.testing.assert_allclose(
            row, [float(expected[c]) for c in range(6)], rtol=1e-11
        )
    assert not hasattr(model.base, "proba_")
    assert np.isnan(model.discounts_[0]).all()
    assert (model.discounts_[1:] == 0.5).all()


@pytest.mark.parametrize(
    *each_value(
        discount=["modified", "single", 0.6, (0.5, 1.1)],
        interpolate=[True, False],
    )
)
def test_uniform_base_is_absolute_discounting(discount, interpolate):
    y = np.random.default_rng(0).zipf(1.5, size=3000)
    X = np.roll(y, 1)[:, None]
    # Without interpolation the root, which has seen every class, interpolates too.
    model = KneserNeyLM(discount=discount, interpolate=interpolate)
    other = KneserNeyLM(
        discount=discount,
        interpolate=interpolate,
        base=AbsoluteDiscountUnigram(discount),
    )
    np.testing.assert_allclose(
        fit(model, X, y).predict_proba(X[:50]),
        fit(other, X, y).predict_proba(X[:50]),
        rtol=1e-13,
    )


@pytest.mark.parametrize(
    "proba, match",
    [
        (None, "1 of 3 classes probability 0"),
        (np.ones(2) / 2, "shape"),
        (np.ones(3), "not give a distribution"),
        (np.full(3, np.nan), "not give a distribution"),
    ],
)
def test_bad_base(proba, match):
    model = KneserNeyLM(discount=0.5, classes=range(3), base=_Unigram(proba))
    with pytest.raises(ValueError, match=match):
        model.fit([[0], [1]], [0, 1])


@pytest.mark.parametrize(
    *each_value(discount=["modified", 0.5], interpolate=[True, False])
)
def test_unigram_model_with_a_base_is_the_base(discount, interpolate):
    base = _Unigram(np.array([0.2, 0.3, 0.5]))
    model = KneserNeyLM(0, discount=discount, interpolate=interpolate, base=base)
    model.fit(np.zeros((3, 1)), [0, 1, 2])
    np.testing.assert_allclose(model.predict_proba([[0]])[0], base.proba)
    assert np.isnan(model.discounts_).all()
