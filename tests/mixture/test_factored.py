"""FactoredLM: against products of models fitted by hand, and its own other answers."""

import pickle
import warnings

import numpy as np
import pytest
from _loglinear import loglinear
from _oracles import check_draws, second_order_text
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklstruct import AdditiveLM, KneserNeyLM, StructuredLogLinearLM
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import JointLogLinear
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.taxonomy import Taxonomy
from sklstruct.word_classes import ContextRefiner, ExchangeClustering

N_WORDS = 12
GROUPS = np.array([0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3, 4])
DEEP = Taxonomy.from_nested([[[0, 1], [2, 3, 4]], [5, [6, 7]], [8, 9, 10], [11]])


def histories(n=100, seed=5):
    """Random ones, some unseen, some cut."""
    X = np.random.RandomState(seed).randint(-1, N_WORDS + 3, size=(n, 2))
    return X


def log_linear():
    return loglinear(penalty="l2", lam=0.3, padding=-1, tol=1e-3)


def smoother(**params):
    return KneserNeyLM(padding=-1, discount=0.7, **params)


@pytest.fixture(scope="module")
def data():
    return second_order_text(3000, N_WORDS, 0.2)


def check_rows(model, rtol):
    """Rows sum to one, and answers about single words agree with them."""
    X = histories()
    rows = model.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=0, atol=1e-12)
    for y in range(N_WORDS):
        target = model.target_log_proba(X, np.full(len(X), y))
        np.testing.assert_allclose(target, rows[:, y], rtol=rtol)


@pytest.mark.parametrize("taxonomy", [GROUPS, DEEP], ids=["classes", "tree"])
@pytest.mark.parametrize("make", [loglinear, smoother])
def test_rows_sum_to_one_and_agree_with_targets(data, taxonomy, make):
    model = FactoredLM(taxonomy, make()).fit(*data)
    check_rows(model, rtol=1e-12)
    assert np.isnan(model.target_log_proba(histories()[:1], [99])).all()


def test_is_the_product_of_two_models(data):
    X, y = data
    model = FactoredLM(GROUPS, log_linear(), smoother()).fit(X, y)
    of_class = log_linear().fit(X, GROUPS[y])
    where = histories()
    expected = of_class.predict_log_proba(where)[:, GROUPS]
    for g in range(5):
        words = np.flatnonzero(GROUPS == g)
        here = np.isin(y, words)
        if words.size > 1:
            inner = smoother(classes=words).fit(X[here], y[here])
            expected[:, words] += inner.predict_log_proba(where)
    np.testing.assert_allclose(model.predict_log_proba(where), expected, rtol=1e-10)


@pytest.mark.parametrize("make", [loglinear, smoother])
def test_one_class_is_the_plain_model(data, make):
    plain = make().fit(*data)
    model = FactoredLM(np.zeros(N_WORDS, int), AdditiveLM(padding=-1), make())
    model.fit(*data)
    X = histories()
    np.testing.assert_allclose(
        model.predict_log_proba(X), plain.predict_log_proba(X), rtol=1e-14
    )


def test_a_class_for_each_word_is_the_model_of_classes(data):
    plain = log_linear().fit(*data)
    model = FactoredLM(np.arange(N_WORDS), log_linear()).fit(*data)
    X = histories()
    np.testing.assert_allclose(
        model.predict_log_proba(X), plain.predict_log_proba(X), rtol=1e-12
    )


@pytest.mark.parametrize(
    "taxonomy, k", [(GROUPS, 1), (GROUPS, 3), (GROUPS, N_WORDS), (DEEP, 3)]
)
def test_top_k_is_the_sorted_row(data, taxonomy, k):
    model = FactoredLM(taxonomy, log_linear()).fit(*data)
    X = histories(300)
    rows = model.predict_log_proba(X)
    expected = np.argsort(-rows, axis=1, kind="stable")[:, :k]
    found, log_proba = model.predict_top_k(X, k, return_log_proba=True)
    value = np.take_along_axis(rows, expected, axis=1)
    np.testing.assert_allclose(log_proba, value, rtol=1e-12)
    # Orders may differ where probabilities are equal up to rounding.
    differs = found != expected
    other = np.take_along_axis(rows, found, axis=1)
    np.testing.assert_allclose(other[differs], value[differs], rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.predict_top_k(X, 1)[:, 0])


@pytest.mark.parametrize("taxonomy", [GROUPS, DEEP], ids=["classes", "tree"])
def test_draws_follow_the_row(data, taxonomy):
    model = FactoredLM(taxonomy, smoother()).fit(*data)
    X = data[0]
    for skip in (-1, 3):
        check_draws(model, X[7], skip, seed=1)
    np.testing.assert_array_equal(model.sample(X[:9], 0), model.sample(X[:9], 0))


def test_forms_of_the_taxonomy_agree(data):
    class Parity(BaseEstimator):
        def fit(self, X, y=None):
            self.fitted_ = True
            return self

        def classes_of(self, X):
            assert self.fitted_
            return np.asarray(X) % 3

    X = histories()
    groups = [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]
    mapping = {word: f"group {word % 3}" for word in range(N_WORDS)}
    forms = [
        np.arange(N_WORDS) % 3,
        Parity(),
        [Parity()],
        [Parity(), Parity()],
        FrozenEstimator(Parity().fit(None)),
        groups,
        mapping,
        Taxonomy.from_nested(groups),
    ]
    fitted = [FactoredLM(form, smoother()).fit(*data) for form in forms]
    expected = fitted[0].predict_log_proba(X)
    for model in fitted[1:]:
        assert model.taxonomy_.n_leaves == 3
        np.testing.assert_array_equal(model.predict_log_proba(X), expected)


def test_clusterers_nest(data):
    class Over(BaseEstimator):
        def __init__(self, n=1):
            self.n = n

        def fit(self, X, y=None):
            return self

        def classes_of(self, X):
            return np.asarray(X) // self.n

    model = FactoredLM([Over(6), Over(4)], smoother()).fit(*data)
    assert model.taxonomy_.to_nested() == [
        [[0, 1, 2, 3], [4, 5]],
        [[6, 7], [8, 9, 10, 11]],
    ]


def test_classes_without_samples_are_uniform(data):
    X, y = data
    here = y < 7
    model = FactoredLM(GROUPS, smoother(), classes=np.arange(N_WORDS))
    model.fit(X[here], y[here])
    rows = model.predict_proba(histories())
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert np.ptp(rows[:, 7:11], axis=1).max() < 1e-15
    assert (rows > 0).all()


@pytest.mark.parametrize("weights", ["em", "logistic"])
@pytest.mark.parametrize("refit", [True, False])
def test_no_word_of_any_class_of_several_words_was_seen(data, weights, refit):
    # A class for each word, but for two words that never occur.
    X, y = data
    mixed = MixtureLM(
        [("smoother", smoother()), ("loglinear", log_linear())],
        weights=weights,
        refit=refit,
    )
    taxonomy = np.minimum(np.arange(N_WORDS + 2), N_WORDS)
    model = FactoredLM(taxonomy, log_linear(), mixed, classes=np.arange(N_WORDS + 2))
    proba = model.fit(X, y).predict_proba(histories())
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(proba[:, -1], proba[:, -2])


def test_weights_are_repetitions(data):
    X, y = data[0][:500], data[1][:500]
    weight = np.arange(500) % 3
    model = FactoredLM(GROUPS, log_linear().set_params(solver__tol=1e-6))
    a = clone(model).fit(X, y, sample_weight=weight)
    b = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    where = histories()
    np.testing.assert_allclose(
        a.predict_proba(where), b.predict_proba(where), atol=1e-5
    )


def test_threads_and_pickles_change_nothing(data):
    model = FactoredLM(GROUPS, log_linear()).fit(*data)
    threads = FactoredLM(GROUPS, log_linear(), n_jobs=2).fit(*data)
    X = histories()
    expected = model.predict_log_proba(X)
    np.testing.assert_array_equal(threads.predict_log_proba(X), expected)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_log_proba(X), expected)


def joint():
    return JointLogLinear([("words", "passthrough")], padding=-1)


def mixed(weights, **params):
    factored = FactoredLM(DEEP, joint(), smoother(), **params)
    return MixtureLM([("factored", factored), ("plain", smoother())], weights=weights)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FactoredLM(DEEP, smoother()),
        lambda: FactoredLM(GROUPS, joint(), smoother(), concentration=2.0),
        lambda: FactoredLM(GROUPS, CategoricalNB(min_categories=N_WORDS), joint()),
        lambda: mixed("em"),
        lambda: mixed("logistic", concentration=2.0),
        lambda: MixtureLM([("a", mixed("by_depth")), ("b", smoother())]),
        lambda: MixtureLM(  # no model has features
            [
                ("a", FactoredLM(GROUPS, CategoricalNB(min_categories=N_WORDS))),
                ("b", CategoricalNB(min_categories=N_WORDS)),
            ]
        ),
    ],
)
def test_many_targets_are_those_of_few(data, make):
    """Models of many contexts are asked node by node, those of few context by
    context: the numbers are equal to the last bit."""
    X, y = data
    X = np.maximum(X, 0)
    model = make().fit(X, y)
    for n in (15, 16, len(y)):
        few = [model.target_log_proba(X[i : i + 15], y[i : i + 15])
               for i in range(0, n, 15)]  # fmt: skip
        many = model.target_log_proba(X[:n], y[:n])
        np.testing.assert_array_equal(many, np.concatenate(few)[:n])


def test_contexts_that_are_found_ahead_and_not_asked_for():
    trees = JointLogLinear([(name, "passthrough") for name in "abcdef"])
    model = FactoredLM(NAMES, trees, AdditiveLM())
    kernel = LanguageModel(model, max_depth=2).fit(SENTENCES).predictor.kernel
    assert kernel.room > 2048  # contexts of smaller models are found in blocks
    rng = np.random.default_rng(0)
    tokens, other = rng.integers(0, 8, (2, 300)).astype(np.int32)
    position, y = np.arange(2, 300), rng.integers(0, 8, 298).astype(np.int32)
    want = kernel.targets(tokens, position, y, sort=False)
    last = position[288:]  # the contexts after nine times 32
    order = kernel.order(other, last)
    some = np.where(rng.random(298) < 0.5, np.int32(-1), y)
    got = kernel.targets_in_order(tokens, position, some)
    np.testing.assert_array_equal(got, np.where(some < 0, np.nan, want))
    kernel.targets_in_order(tokens, position, np.full(298, -1, np.int32))
    np.testing.assert_array_equal(kernel.order(other, last), order)


@pytest.mark.parametrize("weights", ["em", "logistic"])
def test_sums_of_groups_of_many_contexts_are_those_of_few(data, weights):
    X, y = data
    factored = FactoredLM(GROUPS, joint(), smoother(), concentration=2.0)
    models = [("factored", factored), ("plain", smoother())]
    model = MixtureLM(models, weights=weights).fit(X, y)
    predictor, at = model.distribution_, model.locate(X)
    few = [predictor.group_proba(model.locate(X[i : i + 15]), GROUPS)
           for i in range(0, len(X), 15)]  # fmt: skip
    sums = predictor.group_proba(at, GROUPS)
    np.testing.assert_allclose(sums, np.concatenate(few), rtol=1e-14)
    rows = predictor.proba(at)
    for g in range(5):
        np.testing.assert_allclose(sums[:, g], rows[:, GROUPS == g].sum(axis=1))


def test_pipelines_and_other_classifiers_are_factors(data):
    X, y = data

    def last(X):
        return np.maximum(np.asarray(X)[:, -1:], 0) % N_WORDS

    foreign = make_pipeline(
        FunctionTransformer(last), CategoricalNB(min_categories=N_WORDS)
    )
    steps = make_pipeline(FunctionTransformer(last), log_linear())
    model = FactoredLM(GROUPS, steps, foreign).fit(X, y)
    rows = model.predict_proba(histories())
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    of_class = log_linear().fit(last(X), GROUPS[y])
    classes = of_class.predict_proba(last(histories()))
    for g in range(5):
        np.testing.assert_allclose(
            rows[:, GROUPS == g].sum(axis=1), classes[:, g], rtol=1e-9
        )


def test_strings_of_words():
    X = np.array([["a", "b"], ["b", "c"], ["c", "a"], ["a", "b"]] * 5)
    y = np.array(["c", "a", "b", "d"] * 5)
    groups = [["a", "b"], ["c", "d"]]
    smooth = AdditiveLM(padding="")
    model = FactoredLM(groups, smooth).fit(X, y)
    assert model.predict(X[:3]).tolist() == ["c", "a", "b"]
    assert model.predict_proba([["z", ""]]).sum() == pytest.approx(1.0, abs=1e-12)


SENTENCES = ["the cat sat", "the dog sat", "a cat ran", "a dog ran home"] * 5
NAMES = [["a", "the"], ["cat", "dog", "home"], ["ran", "sat"], ["</s>"], ["<unk>"]]


def test_in_a_language_model():
    model = LanguageModel(FactoredLM(NAMES), max_depth=2).fit(SENTENCES)
    everything = model.predict_next("the", 20)
    assert sum(p for _, p in everything) == pytest.approx(1.0, abs=1e-12)
    assert [w for w, _ in everything[:2]] == ["cat", "dog"]
    assert model.predict_next("the", 3) == everything[:3]
    scored = np.exp(model.token_log_proba(["the cat"])[0][1])
    assert scored == pytest.approx(dict(everything)["cat"], rel=1e-12)
    drawn = model.sample(20, random_state=0)
    assert drawn == model.sample(20, random_state=0)
    assert not any("<unk>" in sentence for sentence in drawn)
    mapping = {word: i for i, group in enumerate(NAMES) for word in group}
    other = LanguageModel(FactoredLM(mapping), max_depth=2).fit(SENTENCES)
    assert other.perplexity(SENTENCES) == model.perplexity(SENTENCES)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (FactoredLM(GROUPS[:-1], smoother()), "taxonomy must give the class of each"),
        (FactoredLM([[0, 1], [2, 3]], smoother()), "no place|missing"),
        (FactoredLM({0: "a", 1: "b"}, smoother()), "no place|missing"),
        (FactoredLM(GROUPS, smoother(), FactoredLM(GROUPS)), "cannot be a FactoredLM"),
    ],
)
def test_a_taxonomy_that_does_not_fit_raises_an_error(data, model, match):
    with pytest.raises(ValueError, match=match):
        model.fit(*data)


@pytest.mark.parametrize("taxonomy", [2, "ward", 1.5])
def test_a_taxonomy_that_is_not_a_tree_raises_an_error(data, taxonomy):
    with pytest.raises(TypeError, match=r"^taxonomy must be a clustering .* Exchange"):
        FactoredLM(taxonomy, smoother()).fit(*data)
    with pytest.raises(TypeError, match=r"^taxonomy must be a clustering .* Exchange"):
        LanguageModel(FactoredLM(taxonomy), max_depth=2).fit(SENTENCES)


def test_fitted_clusterings_know_the_words_of_a_language_model():
    clustering = ExchangeClustering(4, offsets=(-1, 1)).fit(SENTENCES)
    fitted = FactoredLM(FrozenEstimator(clustering))
    model = LanguageModel(fitted, max_depth=2).fit(SENTENCES)
    names = model.vocabulary_
    for leaf in model.estimator_.taxonomy_.to_nested():
        assert len({*clustering.classes_of(names[leaf]).tolist()}) == 1
    again = LanguageModel(FactoredLM(clustering), max_depth=2).fit(SENTENCES)
    assert again.perplexity(SENTENCES) < 4


def test_few_words_have_few_classes():
    model = LanguageModel(FactoredLM(), max_depth=2).fit(SENTENCES)
    n_words = len(model.vocabulary_)
    assert model.estimator_.taxonomy_.n_leaves <= n_words // 2 + 1
    assert sum(p for _, p in model.predict_next("the", 50)) == pytest.approx(1.0)


def test_words_without_a_class_are_told():
    with pytest.raises(ValueError, match="</s>"):
        LanguageModel(FactoredLM(NAMES[:3])).fit(SENTENCES)


def test_estimators_without_probabilities_are_told(data):
    from sklearn.svm import LinearSVC

    with pytest.raises(TypeError, match="word_estimator must give probabilities"):
        FactoredLM(GROUPS, smoother(), LinearSVC()).fit(*data)


@pytest.mark.parametrize("groups", [[0, 0, 1, 1], [0, 0, 0, 1, 1, 2, 2]])
def test_a_fitted_word_estimator_cannot_serve_several_classes(groups):
    X = np.random.default_rng(0).integers(0, len(groups), size=(200, 2))
    few = X[:, 1] < 2
    words = FrozenEstimator(AdditiveLM().fit(X[few], X[few, 1]))
    with pytest.raises(ValueError, match="word_estimator: a fitted model cannot be"):
        FactoredLM(np.array(groups), word_estimator=words).fit(X, X[:, 1])


def test_a_mixture_may_be_a_factor(data):
    mixture = MixtureLM([("l2", log_linear()), ("kn", smoother())], weights="logistic")
    model = FactoredLM(GROUPS, mixture, clone(mixture).set_params(weights="em"))
    model.fit(*data)
    check_rows(model, rtol=1e-10)


@pytest.mark.parametrize("weights", ["by_depth", "by_count", "logistic"])
def test_a_gate_over_groups_that_no_sample_is_of(data, weights):
    """Its models are uniform there, and the gate has features of as many trees."""
    mixed = MixtureLM(
        [("a", smoother()), ("b", AdditiveLM(padding=-1))], weights=weights
    )
    taxonomy = np.append(GROUPS, [5, 5])
    model = FactoredLM(taxonomy, smoother(), mixed, classes=np.arange(N_WORDS + 2))
    rows = model.fit(*data).predict_log_proba(histories())
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rows[:, -1], rows[:, -2], rtol=1e-12)


class CountedFits(ExchangeClustering):
    """Counts its fits; `extra` may be anything."""

    n_fits = 0

    def __init__(self, n_clusters=3, *, offsets=(-1, 1), padding=None, extra=None):
        super().__init__(n_clusters, offsets=offsets, padding=padding)
        self.extra = extra

    def fit(self, X, y=None):
        type(self).n_fits += 1
        return super().fit(X, y)


@pytest.mark.parametrize("extra, n_fits", [(None, 1), (lambda: 0, 3)])
def test_classes_of_targets_and_of_contexts_are_fitted_once(extra, n_fits, monkeypatch):
    """Unless a parameter cannot be compared: then for each of three uses."""
    monkeypatch.setattr(CountedFits, "n_fits", 0)
    classes = CountedFits(padding=-1, extra=extra)
    tree = make_pipeline(
        ContextRefiner([(classes, 1), ("word", 1)], padding=-1),
        StructuredLogLinearLM(penalty="l2", padding=-1),
    )
    X = np.array([[-1, 0], [0, 1], [1, 2], [-1, 3], [3, 4], [4, 2]] * 9)
    y = np.array([1, 2, 5, 4, 2, 5] * 9)
    model = FactoredLM(classes, tree, padding=-1).fit(X, y)
    assert CountedFits.n_fits == n_fits
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("extra, n_fits", [(None, 2), (lambda: 0, 7)])
def test_classes_of_joint_paths_are_fitted_once_in_threads(extra, n_fits, monkeypatch):
    two, three = (CountedFits(k, padding=-1, extra=extra) for k in (2, 3))
    paths = [
        ("one", ContextRefiner([(two, 1), ("word", 1)], padding=-1)),
        ("other", ContextRefiner([(three, 1), (two, 2)], padding=-1)),
    ]
    X = np.array([[-1, 0], [0, 1], [1, 2], [-1, 3], [3, 4], [4, 2]] * 9)
    y = np.array([1, 2, 5, 4, 2, 5] * 9)
    rows = []
    for n_jobs in (1, 2):
        monkeypatch.setattr(CountedFits, "n_fits", 0)
        joint = JointLogLinear(paths, padding=-1, n_jobs=n_jobs)
        model = FactoredLM(three, joint, padding=-1).fit(X, y)
        assert CountedFits.n_fits == n_fits
        rows.append(model.predict_log_proba(X))
    np.testing.assert_array_equal(*rows)


def test_small_groups_give_no_warning_of_their_discounts(data):
    """With many groups some are too small; alone the model warns."""
    X, y = data
    few = np.isin(y, [0, 1])
    with pytest.warns(UserWarning, match="counts of counts"):
        KneserNeyLM(padding=-1).fit(X[few], y[few])
    groups = np.minimum(np.arange(N_WORDS) // 2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FactoredLM(groups, smoother(), KneserNeyLM(padding=-1)).fit(X, y)
