"""MixtureLM: weights against their optimum, distributions against explicit sums."""

import gc
import pickle
import weakref

import numpy as np
import pytest
from _cases import all_pairs, each_value
from _oracles import check_draws, second_order_text
from scipy.optimize import minimize, minimize_scalar
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import CategoricalNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from sklstruct import AdditiveLM, KneserNeyLM, StructuredLogLinearLM
from sklstruct.backoff import mix
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import JointLogLinear
from sklstruct.mixture import FactoredLM, MixtureLM, _gates
from sklstruct.mixture._gates import GATES, em_weights
from sklstruct.smoothing import GrownLM, WittenBellLM
from sklstruct.word_classes import ContextRefiner, ExchangeClustering

N_WORDS = 9
GROUPS = np.arange(N_WORDS) // 3
WEIGHTS = ["em", "by_depth", "by_count", "logistic", [0.2, 0.8]]


def text():
    return second_order_text(4000, N_WORDS, 0.3)


@pytest.fixture(scope="module")
def data():
    return tuple(part[:1500] for part in text())


@pytest.fixture(scope="module")
def held_out():
    return tuple(part[1500:] for part in text())


def histories(n=100, seed=5):
    return np.random.RandomState(seed).randint(-1, N_WORDS + 3, size=(n, 2))


def parts():
    return [
        ("kn", KneserNeyLM(padding=-1, discount=0.7)),
        ("short", AdditiveLM(1, delta=0.5, padding=-1)),
    ]


@pytest.mark.parametrize("weights", WEIGHTS, ids=str)
def test_rows_are_distributions_and_agree_with_targets(data, weights):
    model = MixtureLM(parts(), weights=weights).fit(*data)
    X = histories()
    rows = model.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=0, atol=1e-12)
    weight = model.predict_weights(X)
    np.testing.assert_allclose(weight.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    for y in range(N_WORDS):
        y_here = np.full(len(X), y)
        target = model.target_log_proba(X, y_here)
        np.testing.assert_allclose(target, rows[:, y], rtol=1e-12)
        by_model = model.model_log_proba(X, y_here)
        np.testing.assert_allclose(
            np.log((weight * np.exp(by_model)).sum(axis=1)), target, rtol=1e-12
        )
    best, value = model.predict_top_k(X, 4, return_log_proba=True)
    np.testing.assert_allclose(value, -np.sort(-rows, axis=1)[:, :4], rtol=1e-12)
    np.testing.assert_array_equal(best[:, 0], model.predict(X))


@pytest.mark.parametrize("weights", ["em", "by_depth", "by_count", "logistic"])
def test_one_model_is_that_model(data, weights):
    name, kn = parts()[0]
    model = MixtureLM([(name, kn)], weights=weights).fit(*data)
    expected = clone(kn).fit(*data).predict_log_proba(histories())
    np.testing.assert_allclose(
        model.predict_log_proba(histories()), expected, rtol=1e-12
    )


@pytest.mark.parametrize("k", [0, 1])
def test_one_weight_is_that_model(data, k):
    weights = np.eye(2)[k]
    model = MixtureLM(parts(), weights=weights).fit(*data)
    expected = clone(parts()[k][1]).fit(*data).predict_log_proba(histories())
    np.testing.assert_allclose(
        model.predict_log_proba(histories()), expected, rtol=1e-12
    )
    assert model.weights_.tolist() == weights.tolist()


def test_em_finds_the_optimum(data, held_out):
    model = MixtureLM(parts()).fit(*data, X_val=held_out[0], y_val=held_out[1])
    p = np.exp(model.model_log_proba(*held_out))

    def loss(a):
        pi = 1 / (1 + np.exp(-a[0]))
        return -np.log(pi * p[:, 0] + (1 - pi) * p[:, 1]).mean()

    best = minimize(loss, [0.0], method="Nelder-Mead", options={"fatol": 1e-14})
    found = -np.log(p @ model.weights_).mean()
    assert found == pytest.approx(best.fun, abs=1e-7)


def test_em_with_weights_and_priors():
    rng = np.random.RandomState(0)
    p = rng.dirichlet(np.ones(3), 400)
    weight = rng.randint(1, 4, 400)
    a = em_weights(p, weight.astype(float))
    b = em_weights(np.repeat(p, weight, axis=0), np.ones(weight.sum()))
    np.testing.assert_allclose(a, b, atol=1e-6)
    prior = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(em_weights(p[:1], weight[:1] * 1.0, 1e9 * prior), prior)


def test_finer_gates_fit_held_out_samples_better(data, held_out):
    value = {}
    for weights in ("em", "by_depth", "by_count", "logistic"):
        model = MixtureLM(parts(), weights=weights)
        model.fit(*data, X_val=held_out[0], y_val=held_out[1])
        value[weights] = model.target_log_proba(*held_out).mean()
        by_model = model.model_log_proba(*held_out).mean(axis=0)
        assert value[weights] > by_model.max()
    assert value["by_depth"] >= value["em"] - 1e-9
    assert value["logistic"] >= value["em"]


@pytest.mark.parametrize("prior", [[0.1, 1.0], [3.0, 0.4], [0.0, 0.5]])
def test_pseudo_counts_pull_constant_weights(prior):
    """The weights maximise the log-likelihood with the pseudo-counts."""
    p, weight = np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0.4, 0.1])
    prior = np.array(prior)

    def minus(x):
        return -weight @ np.log(p @ [x, 1 - x]) - prior @ np.log([x, 1 - x])

    best = minimize_scalar(minus, bounds=(1e-9, 1 - 1e-9), method="bounded").x
    assert em_weights(p, weight, prior)[0] == pytest.approx(best, abs=1e-3)


def shallow(X, y, seed=0):
    """The same samples, some of whose histories are cut or not known."""
    X = X.copy()
    cut = np.random.RandomState(seed).randint(3, size=len(X))
    X[cut < 2, 0] = -1
    X[cut == 0, 1] = N_WORDS + 1
    return X, y


def matched(train, X, deepest):
    """(depth, training samples) of the longest context of each row, by counting."""
    count = {(): len(train)}
    for row in train.tolist():
        for k in range(1, deepest + 1):
            count[tuple(row[-k:])] = count.get(tuple(row[-k:]), 0) + 1
    depth = [
        max(k for k in range(deepest + 1) if tuple(row[len(row) - k :]) in count)
        for row in X.tolist()
    ]
    found = [count[tuple(row[len(row) - k :])] for k, row in zip(depth, X.tolist())]
    return np.array(depth), np.array(found, dtype=float)


def test_weights_by_depth_are_the_optimum_of_each_depth(data, held_out):
    """Each depth has the weights of its own samples, with the overall ones as prior."""
    X, y = shallow(*held_out)
    model = MixtureLM(parts(), weights="by_depth").fit(*data, X_val=X, y_val=y)
    proba = np.exp(model.model_log_proba(X, y))
    depth, _ = matched(data[0], X, 2)

    def best(rows, prior):
        def loss(p):
            pi = np.array([p, 1 - p])
            return -np.log(rows @ pi).sum() - prior @ np.log(pi)

        found = minimize_scalar(
            loss, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-10}
        ).x
        return np.array([found, 1 - found])

    overall = best(proba, np.zeros(2))
    expected = np.array([best(proba[depth == k], 20 * overall) for k in range(3)])
    assert np.abs(np.diff(expected[:, 0])).min() > 0.08
    weight = model.predict_weights(X)
    # Expectation-maximisation stops where the likelihood is flat.
    np.testing.assert_allclose(weight, expected[depth], rtol=0, atol=0.02)


def test_logistic_weights_are_the_optimum_over_the_features(data, held_out):
    """The features: indicators of the depths, logarithms of counts, also by depth."""
    X, y = shallow(*held_out)
    model = MixtureLM(parts(), weights="logistic").fit(*data, X_val=X, y_val=y)
    proba = np.exp(model.model_log_proba(X, y))

    def features(X):
        columns = [np.ones(len(X))]
        for deepest in (2, 1):
            depth, count = matched(data[0], X, deepest)
            own = np.eye(deepest + 1)[depth]
            log_count = 0.2 * np.log1p(count)
            columns += [log_count, log_count**2, own, own * log_count[:, None]]
        return np.column_stack(columns)

    phi = features(X)
    start = np.zeros((2, phi.shape[1]))
    start[:, 0] = np.log(em_weights(proba, np.ones(len(X))))

    def weights_at(v, phi):
        score = np.exp(phi @ v.reshape(start.shape).T)
        return score / score.sum(axis=1, keepdims=True)

    def loss(v):
        pi = weights_at(v, phi)
        mixed = (pi * proba).sum(axis=1)
        away = v.reshape(start.shape) - start
        slope = (pi - pi * proba / mixed[:, None]) / len(X)
        value = -np.log(mixed).mean() + 0.5e-4 * (away**2).sum()
        return value, (slope.T @ phi + 1e-4 * away).ravel()

    best = minimize(
        loss, start.ravel(), jac=True, method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
    )  # fmt: skip
    new = shallow(histories(300), None, seed=1)[0]
    expected = weights_at(best.x, features(new))
    depth, _ = matched(data[0], new, 2)
    means = [expected[depth == k, 0].mean() for k in range(3)]
    assert np.abs(np.diff(means)).min() > 0.05
    np.testing.assert_allclose(model.predict_weights(new), expected, rtol=0, atol=5e-3)


def test_by_count_wants_counts(data):
    X, y = data
    frozen = ("kn", FrozenEstimator(parts()[0][1].fit(X, y)))
    with pytest.raises(ValueError, match="weights='by_count'.*'kn'.*'by_depth'"):
        MixtureLM([frozen, parts()[1]], weights="by_count").fit(X, y)
    # The first tree counts.
    MixtureLM([parts()[1], frozen], weights="by_count").fit(X, y)
    MixtureLM([frozen, parts()[1]], weights="by_depth").fit(X, y)


@pytest.mark.parametrize("weights", ["by_depth", "by_count", "logistic"])
def test_gates_see_the_history_only(data, weights):
    """The weights that are in effect do not change when the targets are permuted."""
    factored = FactoredLM(GROUPS, KneserNeyLM(padding=-1, discount=0.6))
    model = MixtureLM([("factored", factored), *parts()[1:]], weights=weights)
    model.fit(*data)
    X, y = data[0][:500], data[1][:500]
    permuted = np.random.RandomState(0).permutation(y)
    for targets in (y, permuted):
        by_model = np.exp(model.model_log_proba(X, targets))
        total = np.exp(model.target_log_proba(X, targets))
        in_effect = (total - by_model[:, 1]) / (by_model[:, 0] - by_model[:, 1])
        tell = np.abs(by_model[:, 0] - by_model[:, 1]) > 1e-3
        np.testing.assert_allclose(
            in_effect[tell], model.predict_weights(X)[tell, 0], atol=1e-9
        )
    rows = model.predict_proba(histories())
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)


class Remembered(CategoricalNB):
    """Tells at each fit how many fitted ones there are."""

    fitted: weakref.WeakSet = weakref.WeakSet()
    alive: list = []

    def fit(self, X, y, sample_weight=None):
        gc.collect()
        self.alive.append(len(self.fitted))
        self.fitted.add(self)
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("factored", [False, True])
def test_models_of_the_weights_are_gone_before_the_last_fit(data, factored):
    """Both at once would take twice the memory."""
    X, y = np.maximum(data[0], 0), data[1]
    model = MixtureLM([("a", Remembered(min_categories=20)), *parts()[:1]])
    if factored:
        model = FactoredLM(ExchangeClustering(1), word_estimator=model)
    Remembered.fitted.clear()
    Remembered.alive.clear()
    model.fit(X, y)
    assert Remembered.alive == [0, 0]


def test_held_out_share_is_the_last_samples(data):
    X, y = data
    model = MixtureLM(parts(), validation_fraction=0.25, refit=False).fit(X, y)
    same = MixtureLM(parts(), classes=np.unique(y))
    same.fit(X[:1125], y[:1125], X_val=X[1125:], y_val=y[1125:])
    where = histories()
    np.testing.assert_array_equal(
        model.predict_log_proba(where), same.predict_log_proba(where)
    )
    refitted = MixtureLM(parts(), validation_fraction=0.25).fit(X, y)
    np.testing.assert_array_equal(refitted.weights_, model.weights_)
    by_model = refitted.model_log_proba(X, y)[:, 0]
    np.testing.assert_array_equal(
        by_model, parts()[0][1].fit(X, y).target_log_proba(X, y)
    )


def test_frozen_models_stay(data, held_out):
    fitted = [(name, FrozenEstimator(m.fit(*data))) for name, m in parts()]
    for weights in ("em", "by_depth"):
        model = MixtureLM(fitted, weights=weights).fit(*held_out)
        again = MixtureLM(parts(), weights=weights)
        again.fit(*data, X_val=held_out[0], y_val=held_out[1])
        np.testing.assert_allclose(
            model.predict_log_proba(histories()),
            again.predict_log_proba(histories()),
            rtol=1e-12,
        )
    inner = FrozenEstimator(MixtureLM(parts()).fit(*data))
    nested = MixtureLM([("a", inner), fitted[0]]).fit(*held_out)
    assert nested.predict_proba(histories()).sum(axis=1) == pytest.approx(1.0)


def test_frozen_models_with_fewer_classes(data):
    X, y = data
    few = AdditiveLM(padding=-1).fit(X[y < 4], y[y < 4])
    model = MixtureLM([("few", FrozenEstimator(few)), *parts()[:1]]).fit(X, y)
    rows = model.predict_proba(histories())
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    known = few.predict_proba(histories())
    kn = parts()[0][1].fit(X, y).predict_proba(histories())
    expected = model.weights_[1] * kn
    expected[:, :4] += model.weights_[0] * known
    np.testing.assert_allclose(rows, expected, rtol=1e-9)


def test_models_that_give_zero_are_mixed(data):
    X, y = data

    def last(X):
        return np.clip(np.asarray(X)[:, -1:], 0, N_WORDS)

    foreign = make_pipeline(
        FunctionTransformer(last),
        CategoricalNB(alpha=0, force_alpha=True, min_categories=N_WORDS + 1),
    )
    model = MixtureLM([("nb", foreign), *parts()[:1]])
    with np.errstate(all="ignore"):
        model.fit(X, y)
        rows = model.predict_proba(data[0][:50])
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-9)


def test_draws_follow_the_row(data):
    model = MixtureLM(parts(), weights="by_depth").fit(*data)
    for skip in (-1, 2):
        check_draws(model, data[0][11], skip, seed=3)


def test_fitted_joint_trees_are_mixed(data):
    joint = JointLogLinear(padding=-1).fit(*data)
    models = [("joint", FrozenEstimator(joint)), ("short", AdditiveLM(padding=-1))]
    mixture = MixtureLM(models, weights=[0.7, 0.3]).fit(*data)
    other, X = AdditiveLM(padding=-1).fit(*data), histories()
    expected = 0.7 * joint.predict_proba(X) + 0.3 * other.predict_proba(X)
    np.testing.assert_allclose(mixture.predict_proba(X), expected, rtol=1e-12)
    y = np.arange(len(X)) % expected.shape[1]
    got = mixture.target_log_proba(X, mixture.classes_[y])
    np.testing.assert_allclose(got, np.log(expected[np.arange(y.size), y]), rtol=1e-12)


def test_nothing_but_the_skipped_class():
    X, y = np.zeros((30, 1), int), np.zeros(30, int)
    model = MixtureLM([("a", AdditiveLM(padding=-1))], weights=[1.0]).fit(X, y)
    with pytest.raises(ValueError, match="skip=0: no class but class 0"):
        model.distribution_.draw(model.locate(X[:2]), np.array([0.2, 0.9]), skip=0)


def test_parameters_of_models_have_names(data):
    model = MixtureLM(parts())
    model.set_params(kn__discount=0.3, short=AdditiveLM(0, padding=-1))
    assert model.get_params()["kn__discount"] == 0.3
    assert clone(model).models[1][1].max_depth == 0
    again = pickle.loads(pickle.dumps(model.fit(*data)))
    np.testing.assert_array_equal(
        again.predict_log_proba(histories()), model.predict_log_proba(histories())
    )


@pytest.mark.filterwarnings("error:overflow")
def test_gate_features_of_large_weights_are_finite(data, held_out):
    """Weights beyond single precision."""
    joint = JointLogLinear(padding=-1, lam=1e42)
    parts = [("joint", joint), ("short", AdditiveLM(1, delta=0.5, padding=-1))]
    X, y = data
    model = MixtureLM(parts, weights="logistic")
    weight = np.full(y.size, 1e42)
    model.fit(X, y, sample_weight=weight, X_val=held_out[0], y_val=held_out[1])
    features = model.distribution_.gate_features(model.locate(histories()))
    assert np.isfinite(features).all() and features[:, 1::2].max() > 80
    rows = model.predict_proba(histories())
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-12)


def test_mixtures_inside_factors_share_one_gate(data):
    mixture = MixtureLM(parts(), weights="by_depth")
    model = FactoredLM(GROUPS, mixture).fit(*data)
    gates = [m.gate for m in model.distribution_.models if m is not None]
    assert gates[0] is not gates[1]
    assert all(gate is gates[1] for gate in gates[2:])


SENTENCES = ["the cat sat", "the dog sat", "a cat ran", "a dog ran home"] * 5


@pytest.mark.parametrize("weights", ["em", "logistic"])
def test_in_a_language_model(weights):
    mixture = MixtureLM(
        [("kn", KneserNeyLM(discount=0.5)), ("l2", StructuredLogLinearLM())],
        weights=weights,
    )
    model = LanguageModel(mixture, max_depth=2).fit(SENTENCES, X_val=SENTENCES[:4])
    everything = model.predict_next("the", 20)
    assert sum(p for _, p in everything) == pytest.approx(1.0, abs=1e-12)
    scored = np.exp(model.token_log_proba(["the cat"])[0][1])
    assert scored == pytest.approx(dict(everything)["cat"], rel=1e-12)
    drawn = model.sample(20, random_state=0)
    assert drawn == model.sample(20, random_state=0)
    assert not any("<unk>" in sentence for sentence in drawn)


@pytest.mark.parametrize(
    ("models", "params", "error", "match"),
    [
        ([], {}, ValueError, "models is empty"),
        ([AdditiveLM()], {}, ValueError, "pairs \\(name, classifier\\)"),
        ([("a", AdditiveLM)], {}, TypeError, "object with fit"),
        ([("a", LinearSVC())], {}, TypeError, "must give probabilities"),
        ([("a", AdditiveLM()), ("a", AdditiveLM())], {}, ValueError, "unique"),
        (parts(), {"weights": [1.0]}, ValueError, "weights must be a name or one"),
        (parts(), {"weights": [1.0, -1.0]}, ValueError, "non-negative"),
        (parts(), {"weights": [0.0, 0.0]}, ValueError, "not all zero"),
        (parts(), {"weights": [np.nan, 1.0]}, ValueError, "non-negative, finite"),
        (parts(), {"weights": [1e308, 1e308]}, ValueError, "weights: the sum of"),
        (parts(), {"weights": "mean"}, ValueError, "weights"),
        (
            [("nb", CategoricalNB(min_categories=20))],
            {"weights": "logistic"},
            ValueError,
            "none of models has a tree",
        ),
    ],
)
def test_wrong_models_and_weights_raise_an_error(data, models, params, error, match):
    with pytest.raises(error, match=match):
        MixtureLM(models, **params).fit(*data)


@pytest.mark.parametrize(
    "models", [[("a", AdditiveLM())] * 2, [AdditiveLM()] * 2, 5, None]
)
def test_models_are_named_if_they_do_not_fit_also_in_a_language_model(data, models):
    with pytest.raises(ValueError, match="models"):
        MixtureLM(models).fit(*data)
    with pytest.raises(ValueError, match="models"):
        LanguageModel(MixtureLM(models)).fit(SENTENCES)


@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_weight_gap_bounds_what_better_weights_gain(monkeypatch, max_iter):
    """Weights of an EM that was stopped early have a gap; the best have the gap 0."""
    ratios = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n, n_models = 150, 2 + seed % 4
        proba = rng.beta(0.4, 1.0 + rng.random(n_models) * 3, (n, n_models)) + 1e-6
        weight = rng.uniform(0.1, 3.0, n)
        monkeypatch.setattr(_gates, "_EM_TOL", 0.0)
        monkeypatch.setattr(_gates, "_EM_ITER", 20_000)
        best = em_weights(proba, weight)
        monkeypatch.setattr(_gates, "_EM_TOL", -np.inf)
        monkeypatch.setattr(_gates, "_EM_ITER", max_iter)
        gate = _gates.ConstantGate().fit(np.log(proba), np.empty((n, 0)), weight, ())
        gain = weight @ np.log(proba @ best / (proba @ gate.weights)) / weight.sum()
        assert gate.gap >= gain - 1e-12
        ratios.append(gain / gate.gap)
    assert max(ratios) > 0.05  # it is a bound, and not any large number


def test_held_out_samples_are_checked(data):
    X, y = data
    model = MixtureLM(parts())
    with pytest.raises(ValueError, match="give both or neither"):
        model.fit(X, y, X_val=X)
    fixed = MixtureLM(parts(), weights=[0.5, 0.5])
    for unused in (fixed, FactoredLM(GROUPS, parts()[0][1])):
        with pytest.raises(ValueError, match="does not use held-out samples"):
            unused.fit(X, y, X_val=X, y_val=y)
    with pytest.raises(
        ValueError, match=r"y_val\[0\] = 100 is not among the 9 classes"
    ):
        model.fit(X, y, X_val=X[:5], y_val=y[:5] + 100)
    with pytest.raises(ValueError, match=r"y_val\[1\] = 99 is not among the 9 classes"):
        model.fit(X, y, X_val=X[:3], y_val=[y[0], 99, y[2]])
    with pytest.raises(ValueError, match="X_val is empty"):
        model.fit(X, y, X_val=X[:0], y_val=y[:0])
    with pytest.raises(ValueError, match="none be left to learn from"):
        model.fit(X[:1], y[:1])
    other = AdditiveLM(padding=-1).fit(X, y + 50)
    with pytest.raises(ValueError, match="knows the class"):
        MixtureLM([("a", FrozenEstimator(other)), *parts()]).fit(X, y)
    with pytest.raises(NotFittedError, match="AdditiveLM in a FrozenEstimator is not"):
        MixtureLM([("a", FrozenEstimator(AdditiveLM())), *parts()]).fit(X, y)


@pytest.mark.parametrize(*each_value(weights=WEIGHTS[:-1], factored=[False, True]))
def test_held_out_samples_of_new_classes_alone_are_refused(data, weights, factored):
    """Their number is not zero, yet no model knows the class of any of them."""
    X, y = data
    model = MixtureLM(parts(), weights=weights)
    if factored:
        model = FactoredLM({k: f"g{k // 3}" for k in range(N_WORDS)}, model, model)
    X, y = X[:50], y[:50].copy()
    y[:45], y[45:] = y[:45] % 8, 8
    with pytest.raises(ValueError, match=r"last 5 of 50.*X_val.*or more samples"):
        model.fit(X, y)
    y[44] = 8
    assert np.isfinite(model.fit(X, y).score(X, y))
    y[44] = 0
    assert np.isfinite(model.fit(X, y, X_val=X[:9], y_val=y[:9]).score(X, y))


def word_models():
    return [
        ("kn", KneserNeyLM(discount=0.5)),
        ("l2", StructuredLogLinearLM(1, penalty="l2")),
    ]


def fitted_word_models(text):
    """The models alone, each with its depth."""
    for name, model in word_models():
        depth = model.max_depth or 2
        yield name, LanguageModel(model, max_depth=depth).fit(text)


def test_the_file_of_a_mixture(tmp_path):
    text = [*SENTENCES, "the dog ran home", "a cat sat"]
    fitted = [lm for _, lm in fitted_word_models(text)]
    models = [(f"m{k}", FrozenEstimator(lm)) for k, lm in enumerate(fitted)]
    mixture = MixtureLM(models, weights=[0.4, 0.6])
    model = LanguageModel(mixture, max_depth=2).fit(text)
    with pytest.warns(UserWarning, match="the mixture becomes one table"):
        model.save(tmp_path / "mixed.arpa", precision=12)
    union = LanguageModel.load(tmp_path / "mixed.arpa")
    assert union.backoff_model_.check_normalized(tol=1e-8) < 1e-8
    # Every n-gram of the training text is explicit in both.
    assert union.perplexity(text) == pytest.approx(model.perplexity(text), rel=1e-8)
    assert union.backoff_model_.order == 3
    # A mixture of mixtures; others say why they are not a table.
    both = [("all", FrozenEstimator(model)), *models]
    for members, weights, message in [
        (both, [0, 1, 0], None),
        (models, "by_depth", "weights of the MixtureLM depend on the history"),
        ([("wb", WittenBellLM()), *models], [0.2, 0.4, 0.4], "'wb' was trained inside"),
        ([("f", FrozenEstimator(LanguageModel(FactoredLM(), max_depth=2).fit(text)))],
         [1], "'f' of the MixtureLM: .* not FactoredLM"),
    ]:  # fmt: skip
        lm = LanguageModel(MixtureLM(members, weights=weights), max_depth=2).fit(text)
        if message is None:
            lm.save(tmp_path / "one.arpa")
            one = LanguageModel.load(tmp_path / "one.arpa")
            assert one.perplexity(text) == pytest.approx(fitted[0].perplexity(text))
        else:
            with pytest.raises(AttributeError, match=message):
                lm.save(tmp_path / "mixed.arpa")


def test_fitted_models_keep_the_length_of_their_contexts():
    fitted = LanguageModel(WittenBellLM(), max_depth=3).fit(SENTENCES)
    mixture = MixtureLM([("deep", FrozenEstimator(fitted)), ("kn", KneserNeyLM())])
    for depth in (1, 2):
        with pytest.raises(ValueError, match="contexts of 3 words; set max_depth=3"):
            LanguageModel(mixture, max_depth=depth).fit(SENTENCES)
    model = LanguageModel(mixture, max_depth=3).fit(SENTENCES)
    state, of_words = model.begin(), []
    for word in [*SENTENCES[0].split(), "</s>"]:
        log_prob, state = model.advance(state, word)
        of_words.append(log_prob)
    np.testing.assert_allclose(of_words, model.token_log_proba(SENTENCES[:1])[0])


@pytest.mark.parametrize("name", ["classes", "weights"])
def test_models_are_not_called_as_parameters(name):
    model = LanguageModel(MixtureLM([(name, AdditiveLM())]))
    with pytest.raises(ValueError, match="conflict with constructor arguments"):
        model.fit(SENTENCES)


def test_mix_is_the_mixture_where_it_is_explicit():
    text = [*SENTENCES, "the dog ran home", "a cat sat"]
    fitted = [lm for _, lm in fitted_word_models(text)]
    models = [lm.backoff_model_ for lm in fitted]
    mixed = mix(models, [1, 3])
    assert mixed.check_normalized(tol=1e-12) < 1e-12
    contexts = mixed.tree.contexts()
    width = mixed.max_depth
    windows = np.full((len(contexts), width), -1)
    for row, context in zip(windows, contexts):
        row[width - len(context) :] = context
    rows = [np.exp(m.rows(m.locate(windows))) for m in models]
    expected = 0.25 * rows[0] + 0.75 * rows[1]
    nodes, target = mixed.pairs.nodes(), mixed.pairs.target
    np.testing.assert_allclose(
        np.exp(mixed.log_prob), expected[nodes, target], rtol=1e-12
    )
    one = mix([models[0]], [2.0])
    np.testing.assert_allclose(one.log_prob, models[0].log_prob, rtol=1e-12, atol=1e-12)
    at = mixed.locate(windows)
    np.testing.assert_allclose(np.exp(mixed.rows(at)).sum(axis=1), 1.0)
    with pytest.raises(ValueError, match="weights must be one number"):
        mix(models, [1.0])
    with pytest.raises(ValueError, match="non-negative"):
        mix(models, [1.0, -1.0])
    with pytest.raises(TypeError, match=r"models\[1\] must be a BackoffModel"):
        mix([models[0], fitted[1]], [1.0, 1.0])


@pytest.mark.parametrize("factored", [False, True])
def test_transformers_see_no_held_out_samples(data, factored):
    """Weights are those of the first samples with the last ones given as held out."""

    class Symbols(FunctionTransformer):
        """It passes symbols that it was fitted to, and knows no others."""

        fitted: list[int] = []

        def fit(self, X, y=None):
            self.fitted.append(len(X))
            self.known_ = np.unique(X)
            return self

        def transform(self, X):
            return np.where(np.isin(X, self.known_), X, -1)

    def mixture():
        refined = make_pipeline(Symbols(), parts()[0][1])
        models = [("refined", refined), parts()[1]]
        if factored:
            factor = MixtureLM(models, weights="logistic", refit=refit)
            return FactoredLM(ExchangeClustering(3, padding=-1), factor)
        return MixtureLM(models, weights="logistic", refit=refit)

    X, y = data[0].copy(), data[1]
    X[1350:, 1][::2] += N_WORDS  # symbols that only held-out samples have
    for refit in (False, True):
        Symbols.fitted.clear()
        model = mixture().fit(X, y)
        assert list(dict.fromkeys(Symbols.fitted)) == [1350, 1500][: 1 + refit]
        gates = [gate_of(model)]
        refit = False
        same = mixture().set_params(classes=np.unique(y))
        same.fit(X[:1350], y[:1350], X_val=X[1350:], y_val=y[1350:])
        gates.append(gate_of(same))
        np.testing.assert_array_equal(*(gate.coef for gate in gates))


def gate_of(model):
    """The gate of a mixture, or of the classes of a factored model."""
    model = model.distribution_
    return model.gate if hasattr(model, "gate") else model.models[0].gate


def test_held_out_samples_of_new_classes_are_left_out(data):
    X, y = data
    y = y.copy()
    y[y == 4] = 5
    y[-100:-50] = 4  # only there
    model = MixtureLM(parts(), refit=False).fit(X, y)
    kept = np.flatnonzero(y != 4)
    kept = kept[kept >= 1350]
    same = MixtureLM(parts(), classes=np.unique(y))
    same.fit(X[:1350], y[:1350], X_val=X[kept], y_val=y[kept])
    np.testing.assert_array_equal(model.weights_, same.weights_)
    np.testing.assert_allclose(model.predict_proba(histories()).sum(axis=1), 1.0)


def test_a_factor_without_held_out_samples_has_equal_weights(data):
    X, y = data
    X, y = X[np.argsort(y < 3, kind="stable")], np.sort(y)[::-1]
    X, y = np.concatenate([X, X[:200]]), np.concatenate([y, np.full(200, 0)])
    groups = [[0], list(range(1, N_WORDS))]
    model = FactoredLM(groups, parts()[0][1], MixtureLM(parts())).fit(X, y)
    (words,) = (m for m in model.distribution_.models if hasattr(m, "gate"))
    np.testing.assert_array_equal(words.gate.weights, [0.5, 0.5])


def test_held_out_samples_that_no_model_can_explain_are_refused():
    """One that some model can is enough."""
    X = np.zeros((40, 2), dtype=int)
    y = np.r_[np.zeros(30, dtype=int), 1, np.zeros(5, dtype=int), np.ones(4, dtype=int)]
    models = [(name, DummyClassifier(strategy="most_frequent")) for name in "ab"]
    with pytest.raises(ValueError, match="no held-out sample has a positive"):
        MixtureLM(models, validation_fraction=0.1).fit(X, y)
    y[-1] = 0
    assert MixtureLM(models, validation_fraction=0.1).fit(X, y).classes_.size == 2


@pytest.mark.parametrize("by", ["by_depth", "by_count"])
def test_weights_by_bucket_are_those_of_its_samples(by):
    """By EM with the weights of all as prior; deeper histories have the last bucket."""
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.integers(0, 4, 300), rng.exponential(3, 300)])
    log_prob, weight = np.log(rng.random((300, 3))), rng.random(300) + 0.1
    gate = GATES[by]().fit(log_prob, features, weight, (3,))
    bucket = features[:, 0] if by == "by_depth" else features[:, 1] // np.log(2.0)
    overall = em_weights(np.exp(log_prob), weight)
    for b in np.unique(bucket)[:4]:
        here = bucket == b
        proba = np.exp(log_prob[here])
        expected = np.log(em_weights(proba, weight[here], 20.0 * overall))
        got = gate.log_weights(features[here])
        np.testing.assert_allclose(got, np.tile(expected, (here.sum(), 1)), atol=1e-6)
    deep = gate.log_weights(np.array([[9.0, 900.0]]))[0]
    last = gate.weights[3 if by == "by_depth" else 31]
    np.testing.assert_array_equal(deep, np.log(last))


def test_weights_of_the_logistic_gate_are_those_of_its_features():
    rng = np.random.default_rng(0)
    depths, n = (3, 1), 400
    # Deeper than in training, too: the gate knows no more than the depth that it saw.
    depth = np.column_stack([rng.integers(0, d + 2, size=n) for d in depths])
    features = np.empty((n, 4))
    features[:, ::2], features[:, 1::2] = depth, rng.uniform(0, 9, size=(n, 2))
    log_prob = np.log(rng.dirichlet(np.ones(3), size=n))
    gate = GATES["logistic"]().fit(log_prob, features, np.ones(n), depths)
    score = gate._design(features) @ gate.coef.T
    expected = score - np.logaddexp.reduce(score, axis=1)[:, None]
    assert np.ptp(expected, axis=0).min() > 0.1
    got = gate.log_weights(features)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    *all_pairs(
        tree=[
            KneserNeyLM(padding=-1),
            KneserNeyLM(padding=-1, min_count=[1, 2]),
            KneserNeyLM(padding=-1, discount="tuned"),
            StructuredLogLinearLM(penalty="l2", lam=0.3, padding=-1, min_count=2),
            GrownLM(padding=-1),
        ],
        refined=[False, True],
        weighted=[False, True],
    )
)
@pytest.mark.filterwarnings("ignore:.*counts of counts")
def test_gates_know_the_weight_of_the_samples_below_each_context(
    tree, refined, weighted, data
):
    X, y = data
    weight = np.where(np.arange(len(y)) % 2, 1.0, 0.5) if weighted else None
    model = clone(tree)
    if refined:
        model = make_pipeline(ContextRefiner("c2(1) w(1) w(2)", padding=-1), model)
    mixture = MixtureLM([("tree", model), ("add", AdditiveLM())], weights="by_count")
    mixture.fit(X, y, sample_weight=weight)
    fitted = mixture.distribution_.models[0]
    at = fitted.locate(mixture.locate(X)[0])
    total = np.zeros(fitted.tree.n_nodes)
    for node, w in zip(at.tolist(), np.ones(len(y)) if weight is None else weight):
        while node >= 0:
            total[node] += w
            node = fitted.tree.parent[node]
    np.testing.assert_allclose(fitted.node_weight, total, rtol=1e-6)
    assert abs(mixture.predict_proba(X).sum(axis=1) - 1.0).max() < 1e-9


def test_equal_trees_are_walked_once_and_others_alone():
    """The words and the single steps of a text against the models on their own."""
    words = [str(s) for s in np.random.RandomState(0).randint(0, 6, 900)]
    lines = [words[i : i + 9] for i in range(0, 900, 9)]
    models = {
        "kn": KneserNeyLM(discount=0.7),
        "twin": AdditiveLM(delta=0.5),
        "pruned": KneserNeyLM(discount=0.7, min_count=3),
    }
    share = [0.5, 0.3, 0.2]
    mixed = LanguageModel(MixtureLM(list(models.items()), weights=share)).fit(lines)
    alone = [LanguageModel(model).fit(lines) for model in models.values()]
    tests = [["0", "5", "1", "1"], ["3", "7"], ["2", "2", "2", "2", "2", "4"]]
    want = np.log(
        sum(
            w * np.exp(np.concatenate(lm.token_log_proba(tests)))
            for w, lm in zip(share, alone)
        )
    )
    got = np.concatenate(mixed.token_log_proba(tests))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-14)
    steps = []
    for line in tests:
        state = mixed.begin()
        for word in [*line, "</s>"]:
            log_prob, state = mixed.advance(state, word)
            steps.append(log_prob)
    np.testing.assert_allclose(steps, want, rtol=0, atol=1e-14)
    assert list(mixed.predictor.kernel.first) == [0, 0, 2]


def test_windows_that_models_share(data):
    """One look-up serves the models of equal trees."""
    X, y = data
    names = {"kn": KneserNeyLM(discount=0.7), "twin": AdditiveLM(delta=0.5)}
    names["low"] = KneserNeyLM(discount=0.7, max_depth=1)
    share = [0.5, 0.3, 0.2]
    mixed = MixtureLM(list(names.items()), weights=share).fit(X[:-30], y[:-30])
    windows = np.ascontiguousarray(X, dtype=np.int32)
    kernel = mixed.distribution_.compiled((windows,) * 3)
    assert list(kernel.first) == [0, 0, 2]
    apart = mixed.distribution_.compiled((windows, windows.copy(), windows))
    assert list(apart.first) == [0, 1, 2]
    alone = [clone(m).fit(X[:-30], y[:-30]) for m in names.values()]
    proba = [np.exp(m.target_log_proba(X, y)) for m in alone]
    got = mixed.target_log_proba(X, y)
    np.testing.assert_allclose(got, np.log(share @ np.array(proba)), atol=1e-14)


@pytest.mark.filterwarnings("ignore:.*counts of counts")
def test_weights_that_a_model_does_not_take(data):
    X, y = data
    mixture = MixtureLM([("a", KneserNeyLM()), ("b", KNeighborsClassifier())])
    match = r"^sample_weight was given, but KNeighborsClassifier\.fit does not take it"
    with pytest.raises(ValueError, match=match):
        mixture.fit(X, y, sample_weight=np.full(len(y), 2.0))
