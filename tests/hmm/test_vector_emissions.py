"""Emissions of numbers and vectors, chains without an end, samples and criteria."""

import itertools

import numpy as np
import pytest
from _cases import each_value
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from sklstruct import AdditiveLM, KneserNeyLM
from sklstruct.hmm import (
    CategoricalEmission,
    GaussianEmission,
    HighOrderHMM,
    PoissonEmission,
    SuffixEmission,
)

LENGTHS = [40, 60, 30, 1, 2]
# No smoothing: the smallest prior whose logarithm is finite.
PLAIN = AdditiveLM(delta=1e-300)


def vectors(d=2, seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.normal(size=(n, d)) + 3 * rng.integers(0, 3, size=(n, 1)) for n in LENGTHS
    ]


def counts(d=2, seed=0):
    return [np.random.default_rng(seed).poisson(np.abs(x)) for x in vectors(d, seed)]


def chain(emission, classes, max_iter, order=2):
    return HighOrderHMM(
        order, smoothing=PLAIN, emission=emission, classes=classes, end=False,
        max_iter=max_iter, random_state=0,
    )  # fmt: skip


def start_and_steps(tagger):
    """(P(first label), P(next label | label)) of an order of 2."""
    model, at = tagger.transition_model_, tagger._class_of_label
    start = model.begin(1)
    symbols = model.labels.symbol_of_class[at]
    after = model.follow(np.repeat(start, len(at)), symbols)
    return np.exp(model.rows(start))[0, at], np.exp(model.rows(after))[:, at]


def peer(kind, fitted, n_iter):
    """A model of hmmlearn that begins where `fitted` is, and its parameters."""
    hmm = pytest.importorskip("hmmlearn.hmm")
    k, e = len(fitted.classes_), fitted.emission_
    options = {"n_iter": n_iter, "tol": -np.inf, "init_params": ""}
    if kind == "categorical":
        model = hmm.CategoricalHMM(k, **options)
        model.emissionprob_ = np.zeros((k, e.n_symbols_))
        for symbol, (ids, log_factor) in e._known.items():
            model.emissionprob_[ids, symbol] = np.exp(log_factor)
        model.n_features = e.n_symbols_
    elif kind == "poisson":
        model = hmm.PoissonHMM(k, **options)
        model.lambdas_ = e.rates_
    else:
        d = e.n_features_in_
        full = kind == "full"
        model = hmm.GaussianHMM(
            k, "full" if full else "diag", min_covar=0,
            covars_prior=0.01 * np.eye(d) if full else 0.01, **options,
        )  # fmt: skip
        model.means_, model.covars_ = e.means_, e.covariances_
    model.startprob_, model.transmat_ = start_and_steps(fitted)
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    *each_value(kind=["diagonal", "full", "poisson", "categorical"], n_labels=[2, 3])
)
def test_steps_are_those_of_hmmlearn(kind, n_labels):
    if kind == "categorical":
        rng = np.random.default_rng(1)
        numbers = [rng.integers(0, 5, size=(n, 1)) for n in LENGTHS]
        X, emission = [x.ravel().tolist() for x in numbers], CategoricalEmission()
    elif kind == "poisson":
        X = numbers = counts(3)
        emission = PoissonEmission(prior=0)
    else:
        X = numbers = vectors(n_labels)
        emission = GaussianEmission(kind)
    first = chain(emission, n_labels, 1).fit(X)
    last = chain(emission, n_labels, 4).fit(X)
    model = peer(kind, first, last.n_iter_ - 1)
    assert last.n_iter_ > 1
    flat = np.concatenate(numbers)
    model.fit(flat, LENGTHS)
    start, steps = start_and_steps(last)
    np.testing.assert_allclose(start, model.startprob_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(steps, model.transmat_, rtol=0, atol=1e-8)
    e = last.emission_
    if kind == "poisson":
        np.testing.assert_allclose(e.rates_, model.lambdas_, rtol=1e-8)
    elif kind != "categorical":
        np.testing.assert_allclose(e.means_, model.means_, rtol=1e-8)
        theirs = model.covars_
        if kind == "diagonal":
            theirs = theirs.diagonal(axis1=1, axis2=2)
        np.testing.assert_allclose(e.covariances_, theirs, rtol=1e-8)
    assert last.log_likelihood(X).sum() == pytest.approx(model.score(flat, LENGTHS))
    assert last.aic(X) == pytest.approx(model.aic(flat, LENGTHS))
    assert last.bic(X) == pytest.approx(model.bic(flat, LENGTHS))
    path, _ = model.decode(flat, LENGTHS)
    assert sum(last.decode(X).log_proba) == pytest.approx(path)


def fitted(emission, X, seed=0):
    rng = np.random.default_rng(seed)
    ids = [rng.integers(0, 3, size=len(x)) for x in X]
    weight = [rng.uniform(0, 2, size=len(x)) for x in X]
    return emission.fit(X, ids, 4, weight), ids, weight


def log_densities(emission, X):
    return [np.array([row for _, row in rows]) for rows in emission.candidates(X)]


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_normal_densities(covariance):
    X = vectors(3)
    emission, _, _ = fitted(GaussianEmission(covariance), X)
    assert emission.candidates(X)[0][0][0].tolist() == [0, 1, 2]  # 3 was not observed
    for x, found in zip(X, log_densities(emission, X)):
        for k in range(3):
            c = emission.covariances_[k]
            normal = stats.multivariate_normal(
                emission.means_[k], c if c.ndim == 2 else np.diag(c)
            )
            np.testing.assert_allclose(found[:, k], normal.logpdf(x), rtol=1e-10)


def test_poisson_probabilities():
    X = counts(2)
    emission, _, _ = fitted(PoissonEmission(), X)
    for x, found in zip(X, log_densities(emission, X)):
        for k in range(3):
            true = stats.poisson(emission.rates_[k]).logpmf(x).sum(axis=1)
            np.testing.assert_allclose(found[:, k], true, rtol=1e-10)


@pytest.mark.parametrize(
    ("emission", "names"),
    [
        (GaussianEmission(prior=0.5), ["means_", "covariances_"]),
        (GaussianEmission("full", prior=0.5), ["means_", "covariances_"]),
        (PoissonEmission(prior=0.5), ["rates_"]),
    ],
)
def test_fit_is_the_maximum_with_the_prior(emission, names):
    X = counts(2)
    emission, ids, weight = fitted(clone(emission), X)

    def objective():
        likelihood = sum(
            w @ rows[np.arange(len(k)), k]
            for rows, k, w in zip(log_densities(emission, X), ids, weight)
        )
        return likelihood + emission.log_prior()

    best = objective()
    rng = np.random.default_rng(0)
    for name in names:
        true = getattr(emission, name)
        for _ in range(6):
            change = 1e-4 * rng.normal(size=true.shape)
            if change.ndim == 3:
                change = change + change.transpose(0, 2, 1)
            changed = []
            for sign in (-1, 1):
                setattr(emission, name, true + sign * change)
                changed.append(objective())
            setattr(emission, name, true)
            assert max(changed) < best
            # The slope is 0.
            assert abs(changed[1] - changed[0]) < 1e-2 * (2 * best - sum(changed))


@pytest.mark.filterwarnings("ignore:.*still gains")
@pytest.mark.parametrize(
    *each_value(
        emission=[GaussianEmission(), GaussianEmission("full"), PoissonEmission()],
        order=[2, 3],
    )
)
def test_the_objective_never_falls(emission, order):
    model = chain(emission, 3, 6, order).set_params(smoothing=AdditiveLM(delta=0.1))
    found = model.fit(counts(2))
    assert found.n_iter_ > 1
    assert np.diff(found.objective_).min() > 0


@pytest.mark.parametrize("order", [2, 3])
def test_chains_without_an_end_sum_to_one_at_every_length(order):
    X = [list("abba"), list("ba"), list("aab")]
    y = [[0, 1, 1, 0], [1, 0], [0, 0, 1]]
    model = HighOrderHMM(order, emission="categorical", end=False).fit(X, y)
    labels = model.transition_model_.labels
    assert labels.end is None
    for n in (1, 2, 3):
        both = itertools.product(itertools.product("ab", repeat=n))
        total = np.exp(model.log_likelihood([list(*x) for x in both])).sum()
        assert total == pytest.approx(1.0, abs=1e-12)
        paths = itertools.product([0, 1], repeat=n)
        one = [np.exp(model.joint_log_proba([X[0][:n]], [list(p)]))[0] for p in paths]
        z = model.log_likelihood([X[0][:n]])[0]
        assert sum(one) == pytest.approx(np.exp(z), rel=1e-12)
    some = [[0, None, 1, None], [1, 0], None]
    assert HighOrderHMM(order, emission="categorical", end=False).fit(X, some).n_iter_


def test_numbers_and_vectors_of_one_number_are_the_same():
    X = [[0.5, 3.0, None], [2.5]]
    y = [[0, 1, 1], [1]]
    both = [
        HighOrderHMM(2, emission="gaussian").fit(rows, y)
        for rows in (X, [[None if o is None else [o] for o in x] for x in X])
    ]
    assert both[0].log_likelihood(X) == pytest.approx(both[1].log_likelihood(X))
    np.testing.assert_array_equal(both[0].emission_.means_, both[1].emission_.means_)
    arrays = HighOrderHMM(2, emission="gaussian").fit(
        [np.array([[0.5], [3.0]]), np.array([[2.5]])], [[0, 1], [1]]
    )
    assert arrays.predict(np.array([[[0.4], [2.9]]])) == [[0, 1]]


def test_samples_have_the_probabilities_of_the_model():
    X = [list("abba"), list("ba"), list("aab")] * 5
    y = [[0, 1, 1, 0], [1, 0], [0, 0, 1]] * 5
    model = HighOrderHMM(2, emission="categorical").fit(X, y)
    n = 4000
    drawn, labels = model.sample(n, max_length=50, random_state=0)
    assert [*map(len, drawn)] == [*map(len, labels)]
    assert model.sample(n, max_length=50, random_state=0)[0] == drawn
    for x, label in (("ba", [1, 0]), ("a", [0]), ("", [])):
        p = np.exp(model.joint_log_proba([list(x)], [label]))[0]
        share = np.mean([a == list(x) and b == label for a, b in zip(drawn, labels)])
        assert abs(share - p) < 5 * np.sqrt(p * (1 - p) / n) + 1e-12
    endless = HighOrderHMM(2, emission="categorical", end=False).fit(X, y)
    assert {*map(len, endless.sample(9, max_length=7)[0])} == {7}
    assert model.sample(0) == ([], [])
    # A label that ends nothing may be cut.
    assert max(map(len, model.sample(200, max_length=2, random_state=1)[1])) == 2


@pytest.mark.parametrize(
    "emission", [GaussianEmission(), GaussianEmission("full"), PoissonEmission()]
)
def test_samples_of_vectors_give_the_parameters_again(emission):
    X = counts(2)
    rng = np.random.default_rng(0)
    y = [np.where(x.sum(axis=1) > 4, "high", "low").tolist() for x in X]
    model = HighOrderHMM(2, emission=emission, end=False).fit(X, y)
    drawn, labels = model.sample(40, max_length=500, random_state=rng.integers(99))
    again = HighOrderHMM(2, emission=emission, end=False).fit(drawn, labels)
    names = ["rates_"] if hasattr(model.emission_, "rates_") else ["means_"]
    names += ["covariances_"] * hasattr(model.emission_, "covariances_")
    for name in names:
        true = getattr(model.emission_, name)
        np.testing.assert_allclose(
            getattr(again.emission_, name), true, atol=0.05 * np.abs(true).max()
        )


def test_models_without_labels_are_chosen_by_likelihood():
    X = vectors(2) * 2
    model = HighOrderHMM(2, emission="gaussian", end=False, classes=2, random_state=0)
    search = GridSearchCV(model, {"classes": [1, 2, 3]}, cv=2).fit(X)
    assert search.best_params_ == {"classes": 3}
    best = search.best_estimator_
    n = sum(map(len, X))
    assert best.score(X) == pytest.approx(best.log_likelihood(X).sum() / n)
    weight = np.arange(len(X))
    heavy = weight @ best.log_likelihood(X) / (weight @ [*map(len, X)])
    assert best.score(X, sample_weight=weight) == pytest.approx(heavy)
    assert cross_val_score(model, X, cv=2).shape == (2,)
    three = best.bic(X)
    assert three < HighOrderHMM(2, emission="gaussian", end=False, classes=1).fit(
        X
    ).bic(X)


def test_free_parameters_of_orders():
    X, y = [[0.0, 1, 2, 3] * 3] * 2, [[0, 1, 0, 1, 1, 0, 0, 1, 1, 0, 1, 0]] * 2
    for order, histories in ((2, 3), (3, 6)):
        # Histories: the start; start y; y y'. Only those that occur.
        model = HighOrderHMM(order, smoothing=PLAIN, emission="gaussian", end=False)
        model.fit(X, y)
        found = (model.aic(X) + 2 * model.log_likelihood(X).sum()) / 2
        assert found == pytest.approx(histories * 1 + 2 * 2)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[[1.0], [np.nan]]], "which is not finite; None is a missing observation"),
        ([[[1.0], [np.inf]]], "which is not finite"),
        ([[10**400, 1]], "X: observations must be numbers"),
        (
            [[[1.0], [-1e160]]],
            "a number above 1e\\+150, whose square overflows; scale X",
        ),
        ([[[1.0], [1.0, 2.0]]], "numbers, or vectors of equal lengths"),
        ([["a", "b"]], "numbers, or vectors of equal lengths"),
        ([[[[1.0]], [[2.0]]]], "must be numbers or vectors"),
        ([[[], []]], "must be numbers or vectors"),
        ([[None, None]], "X holds no observation to learn emissions from"),
    ],
)
def test_observations_that_are_refused(X, message):
    for emission in ("gaussian", "poisson"):
        with pytest.raises(ValueError, match=message):
            HighOrderHMM(2, emission=emission).fit(X, [[0, 1]])


def test_other_bad_input():
    with pytest.raises(ValueError, match=r"counts of at least 0, got \[-1"):
        HighOrderHMM(2, emission="poisson").fit([[1, -1]], [[0, 1]])
    with pytest.raises(ValueError, match=r"counts of at least 0, got \[0.5"):
        HighOrderHMM(2, emission="poisson").fit([[1, 0.5]], [[0, 1]])
    with pytest.raises(ValueError, match="label 0 is singular with prior=0"):
        HighOrderHMM(2, emission=GaussianEmission(prior=0)).fit(
            [[1, 1, 2, 3]], [[0, 0, 1, 1]]
        )
    with pytest.raises(ValueError, match="label 1 is singular with prior=0"):
        HighOrderHMM(2, emission=GaussianEmission("full", prior=0)).fit(
            [[[1, 2], [3, 1], [0, 1], [3, 3]]], [[0, 0, 0, 1]]
        )
    model = HighOrderHMM(2, emission="gaussian").fit([[[1, 2], [3, 4]]], [[0, 1]])
    with pytest.raises(ValueError, match="observations of 1 numbers, but fit saw"):
        model.predict([[1.0]])
    with pytest.raises(ValueError, match="no observation to score"):
        model.score([[]])
    words = HighOrderHMM(2, emission=SuffixEmission()).fit([["a"]], [[0]])
    for answer in (
        words.sample,
        lambda: words.aic([["a"]]),
        lambda: words.bic([["a"]]),
    ):
        with pytest.raises(ValueError, match="SuffixEmission has no method"):
            answer()
    with pytest.raises(ValueError, match="n_sequences must be"):
        model.sample(-1)
    with pytest.raises(ValueError, match="max_length must be"):
        model.sample(max_length=0)


def test_more_labels_than_distinct_vectors():
    X = [[[0.0], [1.0], [0.0], [1.0]]] * 3
    model = HighOrderHMM(
        2, smoothing=KneserNeyLM(discount=0.5), emission="gaussian", classes=4,
        end=False, random_state=0,
    ).fit(X)  # fmt: skip
    assert np.isfinite(model.log_likelihood(X)).all()


@pytest.mark.parametrize(
    "emission, outlier, at",
    [
        (PoissonEmission(), 1e100, 2),
        (GaussianEmission(), 1e100, 2),
        (GaussianEmission(), 1e9, 0),
    ],
)
def test_an_outlier_leaves_the_other_positions_as_they_were(emission, outlier, at):
    X, y = [[0.0, 1.0, 5.0, 4.0], [5.0, 0.0, 1.0]], [[0, 0, 1, 1], [1, 0, 0]]
    model = HighOrderHMM(2, emission=emission).fit(X, y)
    few, many = (np.insert([3.0, 2.0], at, far) for far in (1e4, outlier))
    near, far = model.predict_proba([few, many])
    np.testing.assert_allclose(far, near, rtol=1e-6, atol=1e-300)
    paths, scores = zip(*model.predict_k([many], 4)[0])
    assert paths == tuple(p for p, _ in model.predict_k([few], 4)[0])
    decoding = model.decode([many])
    assert decoding.labels[0].tolist() == paths[0]
    assert decoding.log_proba[0] == scores[0]
    traces = [model.inspect(x).trace for x in (few, many)]
    assert len(traces[0]) == len(traces[1]) and traces[1][-1][1] == scores[0]
    np.testing.assert_allclose(scores[0], model.log_likelihood([many]))
    drawn = model.sample_posterior([many], 300, random_state=0)[0]
    assert np.abs((np.asarray(drawn) == 1).mean(axis=0) - near[:, 1]).max() < 0.1
