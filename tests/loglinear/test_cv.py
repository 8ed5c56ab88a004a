"""StructuredLogLinearLMCV: what is chosen, on what, and how it is said."""

import numpy as np
import pytest
from _callbacks import StopAfter, needs_callbacks
from _loglinear import loglinear, loglinear_cv
from sklearn.base import clone

from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import ElasticNet, StructuredLogLinearLMCV, _cv
from sklstruct.symbols import context_windows


def samples(first, last, max_depth=2):
    w = context_windows(load_python_topics()[:400], max_depth)
    keep = np.flatnonzero(w.sample_weight > 0)[first:last]
    return w.contexts[keep], w.targets[keep], w.vocabulary.size


@pytest.fixture(scope="module")
def data():
    X, y, n_classes = samples(0, 1200)
    X_val, y_val, _ = samples(1200, 1500)
    return X, y, X_val, y_val, np.arange(n_classes)


def held_out_loss(model, X, y):
    return -model.target_log_proba(X, y).mean()


def test_the_losses_are_those_of_plain_fits(data):
    X, y, X_val, y_val, classes = data
    model = loglinear_cv(
        penalty="l2", lam=0.3, max_fits=9, padding=-1, classes=classes, tol=1e-5
    ).fit(X, y, X_val=X_val, y_val=y_val)
    assert 1 < len(model.search_results_) <= 9
    losses = []
    for found in model.search_results_:
        plain = loglinear(
            penalty="l2", lam=found["lam"], alpha=found["alpha"], padding=-1,
            classes=classes, tol=1e-5,
        ).fit(X, y)  # fmt: skip
        losses.append(held_out_loss(plain, X_val, y_val))
        assert losses[-1] == pytest.approx(found["held_out_loss"], abs=1e-4)
    assert model.held_out_loss_ == min(
        r["held_out_loss"] for r in model.search_results_
    )
    assert held_out_loss(model, X_val, y_val) == pytest.approx(min(losses), abs=1e-4)
    assert model.held_out_loss_ < model.search_results_[0]["held_out_loss"]


def test_the_last_steps_are_by_the_root_of_the_factor(data):
    X, y, X_val, y_val, classes = data
    model = loglinear_cv(
        penalty="l2",
        lam=0.3,
        search=["lam"],
        factor=1.96,
        max_fits=40,
        padding=-1,
        classes=classes,
    ).fit(X, y, X_val=X_val, y_val=y_val)
    assert len(model.search_results_) < 40
    tried = [found["lam"] for found in model.search_results_]
    assert {type(lam) for lam in tried} == {float}  # as they are printed
    best = model.best_params_["lam"]
    for step in (1.4, 1 / 1.4):  # both are worse, or the search would go on
        assert np.isclose(tried, best * step).any()


def test_arrays_are_searched_depth_by_depth(data):
    X, y, X_val, y_val, classes = data
    weights, gamma = np.ones(3), np.full(3, 0.5)
    model = loglinear_cv(
        penalty=ElasticNet(gamma=gamma), lam=0.3, alpha=1.0, depth_weight=weights,
        search=["penalty__depth_weight", "penalty__gamma"], max_fits=14, padding=-1,
        classes=classes,
    )  # fmt: skip
    model.fit(X, y, X_val=X_val, y_val=y_val)
    assert (weights == 1.0).all() and (gamma == 0.5).all()  # not touched
    tried = np.array([r["penalty__depth_weight"] for r in model.search_results_])
    assert (tried != 1.0).any(axis=0).all()
    best = model.best_estimator_
    assert best.lam == 0.3 and best.alpha == 1.0
    assert best.penalty.depth_weight.shape == best.penalty.gamma.shape == (3,)
    assert best.penalty.gamma is model.best_params_["penalty__gamma"]


def test_the_last_samples_are_held_out_and_then_learned_from(data):
    X, y, X_val, y_val, classes = data
    params = {"penalty": "l2", "lam": 0.3, "max_fits": 5, "padding": -1}
    given = loglinear_cv(**params, classes=classes).fit(X, y, X_val=X_val, y_val=y_val)
    whole = loglinear_cv(
        **params,
        classes=classes,
        validation_fraction=y_val.size / (y.size + y_val.size),
    ).fit(np.vstack([X, X_val]), np.concatenate([y, y_val]))
    assert whole.best_params_ == given.best_params_
    assert set(whole.best_params_) == {"lam", "alpha"}
    assert whole.held_out_loss_ == pytest.approx(given.held_out_loss_, rel=1e-12)
    assert held_out_loss(whole, X_val, y_val) < held_out_loss(given, X_val, y_val) - 0.1


def test_in_a_language_model_and_the_same_in_two_threads(data):
    topics = load_python_topics()
    model = loglinear_cv(penalty="elastic_net", lam=0.2, max_fits=4)
    losses = []
    for n_jobs in (1, 2):
        tried = clone(model).set_params(estimator__n_jobs=n_jobs)
        lm = LanguageModel(tried, max_depth=2)
        lm.fit(topics[:200], X_val=topics[200:250])
        losses.append([r["held_out_loss"] for r in lm.estimator_.search_results_])
    assert losses[0] == losses[1]


def test_moves_and_the_best_of_them(data):
    X, y, X_val, y_val, classes = data
    model = loglinear_cv(
        penalty="tree_l2", lam=0.5, alpha=0.9, factor=2.0, max_fits=25, padding=-1,
        classes=classes, search=["lam", "alpha", "penalty__depth_weight"],
    ).fit(X, y, X_val=X_val, y_val=y_val)  # fmt: skip
    tried = model.search_results_
    losses = [fit["held_out_loss"] for fit in tried]
    best = tried[int(np.argmin(losses))]
    assert model.best_params_ == {k: best[k] for k in model.best_params_}
    assert model.held_out_loss_ == min(losses)
    # alpha and depth_weight act by their powers at each depth.
    for name, step in (
        ("lam", 2.0),
        ("alpha", 2**0.25),
        ("penalty__depth_weight", 2**0.5),
    ):
        values = np.array([fit[name] for fit in tried])
        first = values[np.flatnonzero(values != values[0])[0]] / values[0]
        assert np.isclose(max(first, 1 / first), step)


def test_one_fit_is_the_plain_model(data):
    X, y, X_val, y_val, classes = data
    params = {"penalty": "tree_l2", "lam": 0.4, "padding": -1, "classes": classes}
    a = loglinear_cv(**params, max_fits=1).fit(X, y, X_val=X_val, y_val=y_val)
    b = loglinear(**params).fit(X, y)
    assert np.array_equal(a.best_estimator_.coef_, b.coef_)
    assert np.array_equal(a.predict_proba(X_val), b.predict_proba(X_val))
    # It predicts alone, as the parameters of the search say.
    again = a.best_estimator_.predict_proba(X_val)
    assert np.array_equal(again, b.predict_proba(X_val))
    assert a.best_estimator_.classes is classes


@needs_callbacks
def test_fits_are_reported_and_can_end_the_search(data, capsys):
    X, y, X_val, y_val, classes = data
    model = loglinear_cv(penalty="l2", max_fits=4, padding=-1, classes=classes)
    model.set_params(verbose=1).fit(X, y, X_val=X_val, y_val=y_val)
    assert capsys.readouterr().out.count("held-out loss") == 4
    model.set_callbacks(StopAfter("fit", 2)).fit(X, y, X_val=X_val, y_val=y_val)
    assert len(model.search_results_) == 2


@pytest.mark.parametrize(
    "params, words",
    [
        ({"search": ["beta"]}, "search.*'beta'"),
        ({"search": "lam"}, "search"),
        ({"search": ["penalty__gamma"], "penalty": "l2"}, "search.*penalty__gamma"),
        ({"solver": "active_set"}, "^solver: a search uses only the tree"),
        ({"factor": 1.0}, "factor"),
        ({"max_fits": 0}, "max_fits"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"lam": -1.0}, "lam"),
        ({"depth_weight": [1.0]}, "depth_weight.*each depth"),
    ],
)
def test_bad_parameters(data, params, words):
    X, y, X_val, y_val, classes = data
    with pytest.raises(ValueError, match=words):
        loglinear_cv(**params, padding=-1, classes=classes).fit(
            X, y, X_val=X_val, y_val=y_val
        )


def test_losses_that_are_not_finite_are_refused(data, monkeypatch):
    X, y, X_val, y_val, classes = data
    model = loglinear_cv(penalty="l2", max_fits=2, padding=-1, classes=classes)
    with pytest.raises(ValueError, match="sample_weight_val sums to inf"):
        model.fit(X, y, None, X_val, y_val, np.full(y_val.size, 1e308))
    with pytest.raises(ValueError, match="^sample_weight_val: Negative values"):
        model.fit(X, y, None, X_val, y_val, np.full(y_val.size, -1.0))
    monkeypatch.setattr(_cv, "held_out_loss", lambda *_: np.nan)
    with pytest.raises(ValueError, match="^X_val: the held-out loss of no fit"):
        model.fit(X, y, X_val=X_val, y_val=y_val)


def test_held_out_samples_must_be_there(data):
    X, y, *_, classes = data
    model = loglinear_cv(padding=-1, classes=classes)
    with pytest.raises(ValueError, match="y_val"):
        model.fit(X, y, X_val=X)
    with pytest.raises(ValueError, match="zero"):
        model.fit(X, y, X_val=X, y_val=y, sample_weight_val=np.zeros(y.size))
    with pytest.raises(ValueError, match="none be left to learn from"):
        model.fit(X[:1], y[:1])


@pytest.mark.parametrize(
    ("penalty", "searched"),
    [
        ("elastic_net", {"lam", "penalty__depth_weight", "penalty__gamma"}),
        ("l1", {"lam", "alpha"}),
        ("tree_l2", {"lam", "alpha", "penalty__depth_weight"}),
    ],
)
def test_parameters_that_are_searched_by_default(data, penalty, searched):
    X, y, X_val, y_val, classes = data
    begin = {"lam": 0.9, "alpha": 1.2} if penalty == "tree_l2" else {}
    given = loglinear(penalty=penalty, **begin, padding=-1, classes=classes)
    model = StructuredLogLinearLMCV(given, max_fits=12)
    model.fit(X, y, X_val=X_val, y_val=y_val)
    first = model.search_results_[0]
    assert first.keys() == searched | {"held_out_loss", "n_iter"}
    for name in searched:
        assert first[name] == given.get_params()[name]
        assert len({fit[name] for fit in model.search_results_}) > 1
