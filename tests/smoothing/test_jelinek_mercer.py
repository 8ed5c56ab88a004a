"""JelinekMercerLM: the formula, EM against brute force and its optimality."""

import warnings
from collections import Counter, defaultdict

import numpy as np
import pytest
from _cases import all_pairs
from _oracles import histories, random_corpus
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import AdditiveUnigram, JelinekMercerLM


def counts(X, y, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    count = defaultdict(Counter)
    for history, target, w in zip(histories(X), y.tolist(), weight):
        for depth in range(len(history) + 1):
            count[history[len(history) - depth :]][target] += w
    return count


def proba(count, context, y, weight_of, base):
    """P(y | context) from the root on; unknown contexts are passed by."""
    p = base
    for depth in range(len(context) + 1):
        suffix = context[len(context) - depth :]
        row = count.get(suffix)
        total = sum(row.values()) if row else 0
        if not total > 0:
            break
        w = weight_of(depth, row)
        p = w * row.get(y, 0) / total + (1 - w) * p
    return p


def test_given_weights_are_the_formula():
    X, y = random_corpus(3, 5, 200, 3)
    model = JelinekMercerLM(weight=[0.9, 0.6, 0.3], padding=-1, classes=range(7))
    model.fit(X, y)
    count = counts(X, y)
    given = [0.9, 0.6, 0.3, 0.3]
    np.testing.assert_array_equal(model.weights_[:, 0], given)
    for context, row in zip(histories(X)[:40], model.predict_proba(X[:40])):
        expected = [
            proba(count, context, c, lambda depth, _: given[depth], 1 / 7)
            for c in range(7)
        ]
        np.testing.assert_allclose(row, expected, rtol=1e-12)


def deleted_counts(X, y):
    """Of every sample (count of its class, sum) by depth, without the sample itself."""
    count, found = counts(X, y), []
    for context, target in zip(histories(X), y.tolist()):
        suffixes = [context[len(context) - k :] for k in range(len(context) + 1)]
        rows = [count[suffix] for suffix in suffixes]
        found.append([(row[target] - 1, sum(row.values()) - 1) for row in rows])
    return found


def deleted_log_likelihood(deleted, weights, n_classes):
    total = 0.0
    for rows in deleted:
        p = 1 / n_classes
        for w, (own, of_all) in zip(weights, rows):
            if of_all > 0:
                p = w * own / of_all + (1 - w) * p
        total += np.log(p)
    return total


@pytest.mark.parametrize("how", ["deleted", "held_out"])
def test_weights_by_depth_maximise_the_posterior(how):
    X, y = random_corpus(5, 5, 150, 2)
    V, X_val, y_val = X[100:], y[100:], {}
    model = JelinekMercerLM(
        weight=how, bucket="depth", tol=0, max_iter=3000, padding=-1, classes=range(6)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if how == "deleted":
            model.fit(X, y)
        else:
            y_val = {"X_val": V, "y_val": X_val}
            model.fit(X[:100], y[:100], **y_val)

    deleted = deleted_counts(X, y)

    def objective(z):
        w = 1 / (1 + np.exp(-z))
        prior = 0.5 * (np.log(w) + np.log1p(-w)).sum()
        if how == "deleted":
            return -deleted_log_likelihood(deleted, w, 6) - prior
        count = counts(X[:100], y[:100])
        return -prior - sum(
            np.log(proba(count, context, target, lambda d, _: w[d], 1 / 6))
            for context, target in zip(histories(X[100:]), y[100:].tolist())
        )

    w = model.weights_[:, 0]
    ours = objective(np.log(w / (1 - w)))
    best = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-6})
    assert ours <= best.fun + 1e-6
    np.testing.assert_allclose(w, 1 / (1 + np.exp(-best.x)), atol=1e-3)


@pytest.mark.parametrize(
    *all_pairs(
        bucket=["mean_count", "count", "depth"],
        base=["uniform", AdditiveUnigram(0.5)],
        how=["deleted", "held_out"],
    )
)
def test_more_iterations_never_lose(how, base, bucket):
    X, y = random_corpus(2, 8, 400, 3)
    last = -np.inf
    for max_iter in (1, 2, 5, 20, 100):
        model = JelinekMercerLM(
            weight=how, bucket=bucket, base=base, max_iter=max_iter, tol=0, padding=-1
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X[:300], y[:300], **_validation(how, X, y))
        if how == "held_out":
            value = model.target_log_proba(X[300:], y[300:]).sum()
            w = model.weights_[~np.isnan(model.weights_)]
            # of EM's objective: the prior counts each bucket
            value += 0.5 * (np.log(w) + np.log1p(-w)).sum()
            if bucket == "depth":  # no bucket is filled from another
                assert value >= last - 1e-9
            last = value
        assert ((model.weights_ > 0) & (model.weights_ < 1))[1:].all()
        assert np.isnan(model.weights_[0]).all() == (base != "uniform")
        assert model.backoff_model_.check_normalized() < 1e-12


def _validation(how, X, y):
    return {"X_val": X[300:], "y_val": y[300:]} if how == "held_out" else {}


def test_held_out_fraction_is_the_end_of_the_samples():
    X, y = random_corpus(7, 6, 300, 2)
    ours = JelinekMercerLM(weight="held_out", validation_fraction=0.2, padding=-1)
    ours.fit(X, y)
    tuned = JelinekMercerLM(weight="held_out", padding=-1)
    tuned.fit(X[:240], y[:240], X_val=X[240:], y_val=y[240:])
    np.testing.assert_allclose(ours.weights_, tuned.weights_, rtol=1e-12)
    # ... and all samples are counted.
    assert ours.backoff_model_.n_pairs > tuned.backoff_model_.n_pairs


def test_language_model_hands_on_held_out_sentences():
    rng = np.random.default_rng(0)
    text = [list(rng.choice(list("abcdef"), 8)) for _ in range(80)]
    lm = LanguageModel(JelinekMercerLM(weight="held_out"), max_depth=2)
    lm.fit(text[:60], X_val=text[60:])
    some = LanguageModel(JelinekMercerLM(weight="held_out"), max_depth=2)
    some.fit(text[:60], X_val=[["a", "b", "zebra"]])
    assert np.abs(lm.estimator_.weights_ - some.estimator_.weights_).max() > 0.01
    with pytest.raises(ValueError, match="X_val.*weight='held_out'"):
        LanguageModel(JelinekMercerLM()).fit(text, X_val=text)
    with pytest.raises(ValueError, match="X_val.*StructuredLogLinearLM"):
        LanguageModel().fit(text, X_val=text)
    with pytest.raises(ValueError, match="X_val is empty"):
        lm.fit(text, X_val=[])
    lm = LanguageModel(JelinekMercerLM(weight="held_out"), unknown=None)
    with pytest.raises(ValueError, match="X_val: the word 'zebra' of sentence 1"):
        lm.fit(text, X_val=[["a"], ["zebra"]])


def test_contexts_of_large_counts_get_more_weight():
    rng = np.random.default_rng(0)
    X = rng.zipf(1.6, size=(20_000, 1)) % 500
    y = np.where(rng.random(20_000) < 0.5, X[:, 0] % 50, rng.integers(0, 50, 20_000))
    model = JelinekMercerLM(bucket="count").fit(X, y)
    assert model.weights_[1, 10] > model.weights_[1, 0] + 0.2
    assert model.weights_.shape == (2, 32)


def test_weights_that_still_change_are_told():
    X, y = random_corpus(2, 8, 400, 3)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 .*tol=1e-06"):
        model = JelinekMercerLM(max_iter=1, padding=-1).fit(X, y)
    assert model.n_iter_ == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 1 < JelinekMercerLM(padding=-1).fit(X, y).n_iter_ < 200


@pytest.mark.parametrize(
    "params, match",
    [
        ({"weight": 0.0}, "'weight' parameter"),
        ({"weight": [0.5, 1.0]}, "weight must hold numbers in .0, 1"),
        ({"weight": [[0.5]]}, "shape"),
        ({"weight": []}, "shape"),
        ({"weight": [0.5, np.nan]}, "weight must hold numbers in .0, 1"),
        ({"weight": ["x"]}, "must be numbers"),
        (
            {"weight": "held_out", "validation_fraction": 0.99},
            "none be left to learn from",
        ),
    ],
)
def test_bad_parameters(params, match):
    with pytest.raises(ValueError, match=match):
        JelinekMercerLM(**params).fit([[0], [1]], [0, 1])


def test_bad_held_out_samples():
    X, y = np.array([[0], [1], [0]]), np.array([0, 1, 1])
    model = JelinekMercerLM(weight="held_out")
    with pytest.raises(ValueError, match="given together"):
        model.fit(X, y, X_val=X)
    with pytest.raises(ValueError, match="without X_val"):
        model.fit(X, y, sample_weight_val=[1, 1, 1])
    with pytest.raises(ValueError, match=r"y_val\[1\] = .*7") as held_out:
        model.fit(X, y, X_val=X, y_val=[0, 7, 1])
    with pytest.raises(ValueError, match=r"y\[1\] = .*7") as closed:
        JelinekMercerLM(classes=[0, 1]).fit(X, [0, 7, 1])
    remedies = {str(told.value).partition(";")[2] for told in (held_out, closed)}
    assert len(remedies) == 1 and "parameter classes" in remedies.pop()
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, y, X_val=X, y_val=[0])
    with pytest.raises(ValueError, match="at least one non-zero"):
        model.fit(X, y, X_val=X, y_val=y, sample_weight_val=[0, 0, 0])
    with pytest.raises(ValueError, match="weight='held_out'"):
        JelinekMercerLM().fit(X, y, X_val=X, y_val=y)
