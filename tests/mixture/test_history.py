"""Words of the history in factored models: `concentration` of FactoredLM."""

import functools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from sklstruct.language_model import CacheLM, LanguageModel, interpolate
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.mixture._history import count_words, find_concentrations, history_of
from sklstruct.smoothing import KneserNeyLM, WittenBellLM
from sklstruct.symbols import TextWindows
from sklstruct.symbols._sentences import LONGEST_HISTORY

WORDS = ["!", *(f"w{i}" for i in range(1, 12))]  # "!" comes before "<unk>"
CLASS_OF = {word: i % 4 for i, word in enumerate(WORDS)}


def sentences(n, seed, longest=12):
    """Few words make up a sentence, so that they come again."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        some = rng.choice(WORDS, size=4)
        out.append(rng.choice(some, size=rng.integers(1, longest)).tolist())
    return out


def windows(n=300, width=6, seed=0):
    """Windows of strings, some of them short, with a symbol that is not a class."""
    rng = np.random.default_rng(seed)
    X = rng.choice([*WORDS, "only in X"], size=(n, width)).astype(object)
    for row in X:
        row[: rng.integers(0, width + 1)] = ""
    return X, rng.choice(WORDS, size=n)


def factored(concentration, **params):
    estimator = WittenBellLM(padding=params.get("padding", ""), max_depth=2)
    groups = params.pop("taxonomy", CLASS_OF)
    return FactoredLM(
        groups, estimator, concentration=concentration, **{"padding": "", **params}
    )


def by_definition(plain, X, y, classes, group, theta):
    """Rows after the words of windows, from the rows without them.

    group: of each word, the tuple of the groups above it. theta: of each group, a tuple
    as well, or a number for all.
    """
    rows = np.ones_like(plain)
    y = [classes.index(w) for w in y.tolist()]

    def below(prefix):
        return [k for k, w in enumerate(classes) if group[w][: len(prefix)] == prefix]

    @functools.cache
    def split(prefix):
        """Classes of a group, its groups, their classes and their shares of y."""
        inside = below(prefix)
        keys = sorted({group[classes[k]][len(prefix)] for k in inside if
                       len(group[classes[k]]) > len(prefix)})  # fmt: skip
        parts = [below((*prefix, key)) for key in keys]
        n_inside = sum(k in inside for k in y)
        return (
            inside,
            keys,
            parts,
            [sum(k in part for k in y) / n_inside for part in parts],
        )

    def weigh(i, prefix, history):
        inside, keys, parts, share = split(prefix)
        t = theta if isinstance(theta, float) else theta[prefix]
        before = [k for k in history if k in inside]
        if not keys:
            of_group = plain[i, inside].sum()
            p = plain[i, inside] / of_group
            a = np.array([before.count(k) for k in inside])
            after = p if np.isinf(t) else (a + t * p) / (a.sum() + t)
            rows[i, inside] *= after
            return
        p = np.array([plain[i, part].sum() for part in parts])
        p /= p.sum()
        a = [sum(k in part for k in before) for part in parts]
        if len(keys) > 1 and not np.isinf(t):
            a, share = np.array(a), np.array(share)
            p = p * np.sqrt((a + t * share) / ((a.sum() + t) * share))
            p /= p.sum()
        for key, part, value in zip(keys, parts, p):
            rows[i, part] *= value
            weigh(i, (*prefix, key), history)

    for i, row in enumerate(X):
        history = []
        for symbol in row[::-1]:
            if symbol == "":
                break
            if symbol in classes:
                history.append(classes.index(symbol))
        weigh(i, (), history)
    return rows


def flat(group):
    return {word: (g,) for word, g in group.items()}


@pytest.mark.parametrize("theta", [0.3, 5.0])
def test_rows_are_those_of_the_definition(theta):
    X, y = windows()
    plain, model = factored(None).fit(X, y), factored(theta).fit(X, y)
    wanted = by_definition(
        plain.predict_proba(X), X, y, model.classes_.tolist(), flat(CLASS_OF), theta
    )
    rows = model.predict_proba(X)
    np.testing.assert_allclose(rows, wanted, rtol=1e-10)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert np.abs(rows - plain.predict_proba(X)).max() > 0.01
    # Every other way to ask gives the same numbers.
    at = np.arange(y.size)
    column = np.searchsorted(model.classes_, y)
    np.testing.assert_allclose(model.target_log_proba(X, y), np.log(rows[at, column]))
    best, log_prob = model.predict_top_k(X, 5, return_log_proba=True)
    order = np.argsort(-rows, axis=1, kind="stable")[:, :5]
    np.testing.assert_allclose(
        log_prob, np.log(np.take_along_axis(rows, order, axis=1)), rtol=1e-10
    )
    found = np.take_along_axis(rows, np.searchsorted(model.classes_, best), axis=1)
    np.testing.assert_allclose(np.exp(log_prob), found, rtol=1e-10)


def test_draws_have_the_probabilities_of_the_rows():
    X, y = windows()
    model = factored(0.5).fit(X, y)
    some = X[[3, 50, 111]]
    rows = model.predict_proba(some)
    n = 20_000
    drawn = model.sample(np.repeat(some, n, axis=0), random_state=0).reshape(3, n)
    for row, words in zip(rows, drawn):
        share = np.array([(words == c).mean() for c in model.classes_])
        assert np.abs(share - row).max() < 5 * np.sqrt(0.25 / n)


@pytest.mark.parametrize(
    "taxonomy",
    [
        dict.fromkeys(WORDS, 0),
        {word: i for i, word in enumerate(WORDS)},
        {word: max(0, i - 9) for i, word in enumerate(WORDS)},
    ],
    ids=["one class", "one word each", "uneven"],
)
def test_any_classes(taxonomy):
    X, y = windows()
    plain = factored(None, taxonomy=taxonomy).fit(X, y)
    model = factored(2.0, taxonomy=taxonomy).fit(X, y)
    # With one class, or one word in each, the words hang below the root.
    one_level = len(set(taxonomy.values())) in (1, len(WORDS))
    group = dict.fromkeys(WORDS, ()) if one_level else flat(taxonomy)
    wanted = by_definition(
        plain.predict_proba(X), X, y, model.classes_.tolist(), group, 2.0
    )
    np.testing.assert_allclose(model.predict_proba(X), wanted, rtol=1e-10)
    at = model.locate(X)
    group = np.array([taxonomy[word] for word in model.classes_])
    group = np.unique(group, return_inverse=True)[1]
    target = np.searchsorted(model.classes_, y)
    asked = group.astype(np.int32), None, target.astype(np.int32)
    of_groups, log_prob = model.distribution_._ask(at, "group_sums", *asked)
    np.testing.assert_allclose(
        log_prob, np.log(wanted[np.arange(y.size), target]), rtol=1e-9
    )
    sums = np.array([wanted[:, group == g].sum(axis=1) for g in range(group.max() + 1)])
    np.testing.assert_allclose(of_groups, sums.T, rtol=1e-9)
    np.testing.assert_allclose(
        model.distribution_.group_proba(at, group), sums.T, rtol=1e-9
    )


@pytest.mark.parametrize("concentration", ["auto", 1.5])
def test_a_deeper_tree(concentration):
    X, y = windows()
    tree = [[["!", "w4"], ["w1", "w5", "w9"]], [["w2", "w3"], WORDS[6:9], WORDS[10:]]]
    group = {
        word: (i, j)
        for i, top in enumerate(tree)
        for j, words in enumerate(top)
        for word in words
    }
    plain = factored(None, taxonomy=tree).fit(X, y)
    model = factored(concentration, taxonomy=tree).fit(X, y)
    classes, theta = model.classes_.tolist(), concentration
    if concentration == "auto":
        found, of = model.distribution_.concentration, model.distribution_.path_node
        theta = {
            group[word][:step]: found[of[step][k]]
            for step in range(3)
            for k, word in enumerate(classes)
        }
        assert (found[np.unique(of)] < np.inf).any()
    wanted = by_definition(plain.predict_proba(X), X, y, classes, group, theta)
    np.testing.assert_allclose(model.predict_proba(X), wanted, rtol=1e-10)
    column = np.searchsorted(classes, y)
    np.testing.assert_allclose(
        model.target_log_proba(X, y), np.log(wanted[np.arange(y.size), column])
    )


@pytest.mark.parametrize("padding", [None, np.nan, -1, ""])
def test_padding_ends_the_history(padding):
    code = {w: i for i, w in enumerate(WORDS)}
    X, y = windows()
    if padding == "" or padding is None:
        other = np.where(X == "", padding, X).astype(object)
        target, taxonomy = y, CLASS_OF
    else:
        other = np.vectorize(lambda w: padding if w == "" else code.get(w, 99))(X)
        target = np.array([code[w] for w in y])
        taxonomy = {code[w]: f"g{g}" for w, g in CLASS_OF.items()}
    wanted = factored(1.5).fit(X, y)
    model = factored(1.5, padding=padding, taxonomy=taxonomy).fit(other, target)
    np.testing.assert_allclose(
        model.target_log_proba(other, target), wanted.target_log_proba(X, y), rtol=1e-9
    )


# ------------------------------------------------------------ concentrations


def samples(n=4000, seed=1):
    """Words of a group that come again more often than by chance, and of one that
    do not."""
    rng = np.random.default_rng(seed)
    tokens, end, outcome = [-1], [], []
    for _ in range(n // 20):
        often = rng.choice(6, size=2)
        for _ in range(20):
            g = rng.integers(2)
            y = rng.choice(often) if g == 0 and rng.random() < 0.6 else 6 * g
            y = rng.integers(6) + 6 * g if g or rng.random() < 0.5 else y
            end.append(len(tokens))
            outcome.append(y)
            tokens.append(y)
        tokens.append(-1)
    text = TextWindows(np.array(tokens, dtype=np.int32), np.array(end), 1)
    return text, np.array(outcome)


def test_concentrations_are_the_most_likely_ones():
    text, y = samples()
    group = np.repeat([0, 1], 6).astype(np.int32)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=y.size)
    theta, shares = find_concentrations(text, y, weight, group, 3)
    assert np.isinf(theta[2])  # a group without words
    share = np.bincount(y, weight) / np.bincount(group[y], weight)[group]
    np.testing.assert_allclose(shares, share)
    a = np.empty(y.size)
    c = np.empty(y.size)
    for i, end in enumerate(text.end):
        back = text.tokens[:end]
        back = back[np.flatnonzero(back < 0)[-1] + 1 :]
        a[i], c[i] = (back == y[i]).sum(), (group[back] == group[y[i]]).sum()

    def loss(log_theta, g):
        here, t = group[y] == g, np.exp(log_theta)
        above = a[here] + t * share[y[here]]
        return -weight[here] @ np.log(above / (c[here] + t))

    best = minimize_scalar(loss, bounds=(-6, 13), method="bounded", args=(0,))
    assert theta[0] == pytest.approx(np.exp(best.x), rel=1e-3)
    assert theta[0] < 30
    assert theta[1] > 300 or np.isinf(theta[1])
    # Weight 2 is a repetition.
    twice = np.sort(np.r_[np.arange(y.size), np.arange(y.size)])
    np.testing.assert_allclose(
        find_concentrations(text[twice], y[twice], np.ones(2 * y.size), group, 3)[0],
        find_concentrations(text, y, np.full(y.size, 2.0), group, 3)[0],
        rtol=1e-9,
    )


def test_counts_of_the_words_of_windows():
    """Token 4 is not a class: no group has it, though one is written behind `group`."""
    rng = np.random.default_rng(0)
    rows = rng.integers(-1, 5, size=(60, 4)).astype(np.int32)
    y, group = rng.integers(0, 4, size=60), np.array([0, 1, 0, -1, 0], np.int32)[:4]
    word, of_group = count_words(TextWindows.of_rows(rows, 4), y, group)
    for i, row in enumerate(rows.tolist()):
        history = row[max(j + 1 for j in range(-1, 4) if j < 0 or row[j] < 0) :]
        same = [t for t in history if t < 4 and group[t] == group[y[i]] >= 0]
        assert (word[i], of_group[i]) == (same.count(y[i]), len(same))


def test_words_that_never_come_again_have_no_concentration():
    X = np.array([["", "a"], ["", "b"], ["a", "b"], ["b", "a"]], dtype=object)
    y = np.array(["b", "a", "c", "c"])
    model = factored("auto", taxonomy=dict.fromkeys("abc", 0)).fit(X, y)
    plain = factored(None, taxonomy=dict.fromkeys("abc", 0)).fit(X, y)
    assert np.isinf(model.distribution_.concentration).all()
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


# ----------------------------------------------------------- language models


def language_model(concentration, **params):
    estimator = FactoredLM(
        [WORDS[:5], WORDS[5:], ["</s>"], ["<unk>"]],
        WittenBellLM(),
        concentration=concentration,
    )
    return LanguageModel(estimator, max_depth=2, **params)


def after_history(plain, train, test, theta):
    """ln P of each word and end mark, from a model without histories."""
    groups = [WORDS[:5], WORDS[5:], ["</s>"], ["<unk>"]]
    group_of = {word: g for g, words in enumerate(groups) for word in words}
    seen = [word for sentence in train for word in [*sentence, "</s>"]]
    share = np.bincount([group_of[w] for w in seen], minlength=4) / len(seen)
    out = []
    for sentence in test:
        state = plain.begin()
        for i, word in enumerate([*sentence, "</s>"]):
            p = {w: np.exp(plain.advance(state, w)[0]) for w in group_of}
            # The start mark is one of the symbols of the history.
            before = sentence[max(0, i - LONGEST_HISTORY) : i]
            a = np.bincount([group_of[w] for w in before], minlength=4)
            of_groups = np.array([sum(p[w] for w in words) for words in groups])
            after = of_groups * np.sqrt(
                1 + np.divide(a, theta * share, out=np.zeros(4), where=share > 0)
            )
            after /= after.sum()
            g = group_of[word]
            inside = p[word] / of_groups[g]
            if len(groups[g]) > 1:
                inside = (before.count(word) + theta * inside) / (a[g] + theta)
            out.append(np.log(after[g] * inside))
            state = plain.advance(state, word)[1]
    return np.array(out)


def test_the_sentence_before_the_window_counts():
    text = sentences(60, 0)
    test = [*sentences(10, 1), [], ["w3"]]
    # More words than are remembered, none of which comes again later.
    test.append(["!"] * 40 + ["w7"] * LONGEST_HISTORY + ["!", "w1", "w7"])
    plain = language_model(None).fit(text)
    model = language_model(2.5).fit(text)
    wanted = after_history(plain, text, test, 2.5)
    np.testing.assert_allclose(
        np.concatenate(model.token_log_proba(test)), wanted, rtol=1e-9
    )
    # Word by word, one state or many, and each sentence alone.
    total, states = [], model.begin(1)
    for sentence in test:
        state = model.begin()
        for word in [*sentence, "</s>"]:
            one, state = model.advance(state, word)
            (many,), states = model.advance(states, [word])
            assert many == pytest.approx(one, rel=1e-9)
            total.append(one)
        assert state == model.begin()
    np.testing.assert_allclose(total, wanted, rtol=1e-9)
    alone = np.concatenate([model.score_samples([s]) for s in test])
    np.testing.assert_allclose(alone, model.score_samples(test), rtol=1e-9)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.score_samples(test), model.score_samples(test))


def test_words_without_class_end_the_history():
    text = sentences(60, 0)
    params = {"unknown": None, "vocabulary": WORDS, "out_of_vocabulary": "exclude"}
    model = language_model(2.5, **params)
    model.set_params(estimator__taxonomy=[WORDS[:5], WORDS[5:], ["</s>"]]).fit(text)
    first = ["!", "!", "new", "!", "w1"]
    found = model.token_log_proba([first])[0]
    state = model.begin()
    one = []
    for word in [*first, "</s>"]:
        value, state = model.advance(state, word)
        one.append(value)
    np.testing.assert_allclose(found, one, rtol=1e-9)
    assert np.isnan(found[2])
    # Of the words before the new one nothing is left.
    ready = model.advance(model.begin(), "!")[1]
    cut = np.asarray(ready)
    cut[:-1] = -1
    assert model.advance(tuple(cut.tolist()), "w1")[0] == pytest.approx(
        found[4], rel=1e-9
    )


def test_blocks_and_mixtures_do_not_matter(monkeypatch):
    text, test = sentences(80, 0), sentences(30, 1)
    mixture = MixtureLM(
        [
            ("factored", language_model(2.0).estimator),
            ("kn", KneserNeyLM(discount=0.7)),
        ],
        weights="logistic",
    )
    model = LanguageModel(mixture, max_depth=2).fit(text)
    wanted = model.score_samples(test)
    monkeypatch.setattr("sklstruct.language_model._predictors._BLOCK", 7)
    np.testing.assert_allclose(model.score_samples(test), wanted, rtol=1e-12)
    total = 0.0
    state = model.begin()
    for word in [*test[0], "</s>"]:
        value, state = model.advance(state, word)
        total += value
    assert total == pytest.approx(wanted[0], rel=1e-9)
    # Held-out text decides the gate with its histories.
    again = clone(model).fit(text, X_val=test)
    assert np.isfinite(again.score(test))


def test_fitted_models_keep_their_histories_when_they_are_mixed():
    text, test = sentences(80, 0), sentences(20, 1)
    a = language_model(2.0).fit(text)
    b = LanguageModel(KneserNeyLM(discount=0.7), max_depth=3).fit(text)
    both = interpolate([a, b], weights=[0.3, 0.7])
    wanted = np.logaddexp(
        np.log(0.3) + np.concatenate(a.token_log_proba(test)),
        np.log(0.7) + np.concatenate(b.token_log_proba(test)),
    )
    np.testing.assert_allclose(
        np.concatenate(both.token_log_proba(test)), wanted, rtol=1e-9
    )
    state, total = both.begin(), 0.0
    for word in [*test[0], "</s>"]:
        value, state = both.advance(state, word)
        total += value
    assert total == pytest.approx(both.score_samples(test[:1])[0], rel=1e-9)
    # As a frozen classifier of windows it has the history that a window holds.
    frozen = MixtureLM([("a", FrozenEstimator(a.estimator_))], weights=[1.0])
    inside = LanguageModel(frozen, max_depth=2).fit(text)
    np.testing.assert_allclose(
        inside.score_samples(test), a.score_samples(test), rtol=1e-9
    )


def test_caches_over_a_model_with_histories():
    text, test = sentences(80, 0), sentences(20, 1)
    base = language_model(2.0).fit(text)
    params = {"word_classes": "base", "max_order": 2, "half_life": 50.0}
    model = CacheLM(FrozenEstimator(base), **params).fit(sentences(40, 2))
    streamed = model.score_stream(test)
    state = model.begin()
    for sentence, found in zip(test[:5], streamed):
        for word, value in zip([*sentence, "</s>"], found):
            one, state = model.advance(state, word)
            assert one == pytest.approx(value, rel=1e-9)


def test_threads_and_draws_of_sentences():
    text = sentences(80, 0)
    model = language_model("auto").fit(text)
    other = language_model("auto").set_params(estimator__n_jobs=2).fit(text)
    np.testing.assert_array_equal(other.score_samples(text), model.score_samples(text))
    drawn = model.sample(50, random_state=0)
    assert np.isfinite(model.score_samples(drawn)).all()


def test_windows_know_their_history():
    tokens = np.array([-1, -1, 7, 0, 1, 2, -1, 7, 3, 4], dtype=np.int32)
    text = TextWindows(tokens, np.array([3, 4, 6, 9, 10]), 2)
    np.testing.assert_array_equal(
        np.asarray(text), [[-1, 7], [7, 0], [1, 2], [7, 3], [3, 4]]
    )
    for rows in (
        slice(2, 4),
        np.array([3, 0]),
        np.array([False, True] * 2 + [True]),
        [],
    ):
        rows = np.array(rows, dtype=int) if isinstance(rows, list) else rows
        some = text[rows]
        np.testing.assert_array_equal(some.array, text.array[rows])
        assert some.shape == (len(some), 2)
    wide = text.of_width(4)
    np.testing.assert_array_equal(wide.array[:, 2:], text.array)
    np.testing.assert_array_equal(wide.array[2], [7, 0, 1, 2])
    rows = np.array([[3, -1, 1, 2], [0, 1, 2, 3]], dtype=np.int32)
    again = TextWindows.of_rows(rows, 2)
    np.testing.assert_array_equal(again.array, rows[:, 2:])
    found = history_of(rows, np.arange(4), -1)
    rows[0, 0] = -1  # before a missing symbol nothing is known
    np.testing.assert_array_equal(found.of_width(4).array, rows)


# ------------------------------------------------------------------- errors


@pytest.mark.parametrize("value", [1e-6, 1e300])
def test_extreme_concentrations(value):
    X, y = windows(50)
    model = factored(value).fit(X, y)
    rows = model.predict_proba(X)
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    best, log_prob = model.predict_top_k(X, 3, return_log_proba=True)
    np.testing.assert_allclose(np.exp(log_prob[:, 0]), rows.max(axis=1), rtol=1e-10)
    if value > 1.0:
        plain = factored(None).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(rows, plain, rtol=1e-10)


@pytest.mark.parametrize("value", [0, 1e-310, -1.0, "often", np.nan, [1.0]])
def test_bad_concentrations(value):
    X, y = windows(20)
    with pytest.raises(ValueError, match="concentration"):
        factored(value).fit(X, y)


def test_sparse_paths_hold_no_words():
    X = sp.csr_matrix(np.eye(4))
    model = FactoredLM(
        np.array([0, 0, 1, 1]), WittenBellLM(), concentration=1.0, padding=-1
    )
    with pytest.raises(ValueError, match="concentration counts the words"):
        model.fit(X, np.array([0, 1, 2, 3]))


def test_damaged_pickles_are_refused():
    X, y = windows(50)
    model = factored(2.0).fit(X, y).distribution_
    model.concentration = model.concentration[:-1]
    with pytest.raises(ValueError, match="one entry per node"):
        pickle.loads(pickle.dumps(model))
