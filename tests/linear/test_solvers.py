"""Both solvers of `LinearClassifier`, and the choice between them."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _cases import all_pairs
from scipy.special import logsumexp
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_classification,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score
from sklearn.preprocessing import PolynomialFeatures, StandardScaler, normalize

from sklstruct.linear import (
    LinearClassifier,
    StructuredLogisticRegression,
    _quasi_newton,
    _trial,
)
from sklstruct.linear._quasi_newton import NodeProblems
from sklstruct.linear._samples import single
from sklstruct.linear._solver import DescentSettings, NodeSolver, explained
from sklstruct.linear._targets import Targets


def digits(n=500):
    X, y = load_digits(return_X_y=True)
    return normalize(X[:n]), y[:n]


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def noise(n, d, K, seed=0, wrong=0.3):
    """Classes that overlap, some labels drawn: no linear model separates them."""
    rng = np.random.default_rng(seed)
    y = np.r_[np.arange(K), rng.integers(0, K, n - K)]
    X = 0.7 * rng.normal(size=(K, d))[y] + rng.normal(size=(n, d))
    y = np.where(rng.random(n) < wrong, rng.integers(0, K, n), y)
    return StandardScaler().fit_transform(X), y


def exact(solver="auto", **params):
    params = {"tol": 1e-5, "max_iter": 20_000, "calibration": None} | params
    return LinearClassifier("log_loss", solver=solver, random_state=0, **params)


def objective(model, X, y, C, weight=1.0, a=1.0):
    """That of the docstring; a=inf: intercepts are not penalised."""
    W, b = model.coef_.astype(float), model.intercept_.astype(float)
    z = X @ W.T + b
    if z.shape[1] == 1:
        z = np.hstack([np.zeros_like(z), z])
    loss = logsumexp(z, axis=1) - z[np.arange(len(y)), y]
    return C * (weight * loss).sum() + 0.5 * ((W**2).sum() + ((b / a) ** 2).sum())


@pytest.mark.parametrize(
    *all_pairs(data=[digits, cancer], kind=["dense", "sparse"], a=[1.0, 0.0, 0.2, 4.0])
)
def test_both_solvers_have_one_optimum(data, kind, a):
    """That of `LogisticRegression` on X and a constant column."""
    X, y = data()
    weight = np.random.default_rng(1).uniform(0.2, 2, y.size)
    rows = sp.csr_matrix(X) if kind == "sparse" else X
    params = {"intercept_scaling": a, "C": 3.0}
    column = np.full((y.size, 1), a)
    other = LogisticRegression(C=3, fit_intercept=False, tol=1e-9, max_iter=20_000)
    other.fit(np.hstack([X, column]), y, weight)
    proba = other.predict_proba(np.hstack([X, column]))
    for solver in ("dual", "quasi_newton"):
        model = exact(solver, **params).fit(rows, y, weight)
        assert model.solver_ == solver
        np.testing.assert_allclose(model.predict_proba(rows), proba, atol=1e-3)
        np.testing.assert_allclose(
            model.coef_, other.coef_[:, :-1], atol=2e-3 * np.abs(other.coef_).max()
        )


@pytest.mark.parametrize("data", [digits, cancer])
def test_intercepts_that_are_not_penalised(data):
    X, y = data()
    other = LogisticRegression(C=3, tol=1e-9, max_iter=20_000).fit(X, y)
    for rows in (X, sp.csr_matrix(X)):
        model = exact(intercept_scaling=np.inf, C=3.0).fit(rows, y)
        assert model.solver_ == "quasi_newton"
        np.testing.assert_allclose(
            model.predict_proba(rows), other.predict_proba(X), atol=2e-4
        )
        np.testing.assert_allclose(model.intercept_, other.intercept_, atol=1e-2)


@pytest.mark.parametrize("constant", [1e-3, 0.3, 1.0, 20.0])
def test_penalty_of_intercepts_by_finite_differences(constant, monkeypatch):
    """The kernel's optimum in double precision, with the metric and without."""
    X, y = noise(200, 3, 4)
    order = np.argsort(y, kind="stable")
    X, y = np.ascontiguousarray(X[order] + 1.0), y[order]
    weight = np.random.default_rng(0).uniform(0.5, 2, y.size)
    bounds = [np.concatenate([[0], np.cumsum(np.bincount(y))])]

    def value(w):
        W, b = w[:12].reshape(4, 3), w[12:]
        z = X @ W.T + b
        loss = logsumexp(z, axis=1) - z[np.arange(y.size), y]
        return 2 * weight @ loss + 0.5 * ((W**2).sum() + ((b / constant) ** 2).sum())

    for curved in (False, True):
        monkeypatch.setattr(
            _quasi_newton,
            "metric_pays",
            lambda n, d, r, c=curved: c,
        )
        coef, intercept, _, status = NodeProblems(X, weight, bounds).fit(
            np.array([2.0]), constant=constant, tol=1e-9
        )
        assert status[0] == 0
        w = np.r_[coef.ravel(), intercept]
        for j in range(w.size):
            step = 1e-5 * np.eye(w.size)[j] * (constant if j >= 12 else 1.0)
            low, mid, high = value(w - step), value(w), value(w + step)
            assert min(low, high) > mid - 1e-10 * abs(mid)
            # the derivative, in units of the root of the second one
            curvature = high - 2 * mid + low
            assert abs(high - low) < 2e-2 * curvature + 1e-10 * abs(mid)


def test_weights_are_repetitions():
    X, y = digits(300)
    times = np.random.default_rng(0).integers(0, 3, y.size)
    times[:20] = 1
    one = exact("quasi_newton", tol=1e-6).fit(X, y, times)
    two = exact("quasi_newton", tol=1e-6).fit(X.repeat(times, 0), y.repeat(times))
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_calibration_is_that_of_either_solver(kind):
    X, y = digits(900)
    rows = sp.csr_matrix(X) if kind == "sparse" else X
    models = [
        exact(solver, C=10.0, calibration="fold", tol=1e-4).fit(rows, y)
        for solver in ("dual", "quasi_newton")
    ]
    one, two = models
    assert two.scale_ == pytest.approx(one.scale_, rel=5e-3)
    assert two.fold_log_loss_ == pytest.approx(one.fold_log_loss_, rel=5e-3)
    np.testing.assert_allclose(
        one.predict_proba(rows), two.predict_proba(rows), atol=5e-3
    )


def test_fold_scores_are_those_of_a_fit_without_the_fold(monkeypatch):
    from sklstruct.linear import _classifier

    seen = {}
    draw = _classifier.draw_fold
    monkeypatch.setattr(
        _classifier, "draw_fold", lambda *a: seen.setdefault("fold", draw(*a))
    )
    scale_of = _classifier.scale_of
    monkeypatch.setattr(
        _classifier,
        "scale_of",
        lambda scores, *a: scale_of(seen.setdefault("scores", scores), *a),
    )
    X, y = digits()
    order = np.random.default_rng(0).permutation(y.size)
    X, y = X[order], y[order]
    exact("quasi_newton", calibration="fold", C=10.0).fit(X, y)
    rest = np.delete(np.arange(y.size), seen["fold"])
    apart = exact("quasi_newton", C=10.0).fit(X[rest], y[rest])
    np.testing.assert_allclose(
        seen["scores"], apart.decision_function(X[seen["fold"]]), atol=5e-3
    )


@pytest.mark.parametrize("scaling", [1.0, np.inf])
def test_small_weights_are_dropped(scaling):
    X, y = digits()
    params = {"C": 5.0, "intercept_scaling": scaling}
    full = exact("quasi_newton", **params).fit(X, y)
    cut = exact("quasi_newton", weight_threshold=0.1, **params).fit(X, y)
    W = full.coef_.copy()
    W[np.abs(W) <= 0.1 * np.abs(W).max(axis=1, keepdims=True)] = 0
    np.testing.assert_array_equal(cut.coef_.toarray(), W)
    np.testing.assert_array_equal(cut.intercept_, full.intercept_)


def chosen(X, y, loss="log_loss", **params):
    return LinearClassifier(loss, random_state=0, **params).fit(X, y).solver_


def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def test_the_choice():
    X, y = digits(1797)
    # 10 samples for each of 64 columns are needed; rows of length 1
    for rows, part, R2 in (X, y, 0.611), (X[y < 4], y[y < 4], 0.796):
        n, K = part.size, np.unique(part).size
        limit = K**2 / 20 * (1 + 64 * K / n) / (1 - R2) ** 1.5
        assert chosen(rows, part, C=1.01 * limit) == "quasi_newton"
        assert chosen(rows, part, C=0.99 * limit, max_iter=29) == "dual"
    # columns that tell nothing
    drawn = np.random.default_rng(0).integers(0, 10, y.size)
    limit = 0.3 * 5 * (1 + 640 / y.size)
    assert chosen(X, drawn, C=1.01 * limit) == "quasi_newton"
    assert chosen(X, drawn, C=0.99 * limit, max_iter=29) == "dual"
    assert chosen(X[:650], y[:650], C=55.0, max_iter=29) == "quasi_newton"
    assert chosen(X[:630], y[:630], C=55.0, max_iter=29) == "dual"
    assert chosen(*noise(600, 130, 3), C=1.0, max_iter=29) == "dual"  # many moments
    assert chosen(sp.csr_matrix(X), y, C=55.0) == "dual"
    assert chosen(X, y, "squared_hinge", C=10.0) == "dual"
    assert chosen(X, y, "ovr_log_loss", C=10.0) == "dual"
    # the mean of C s_i ||x_i||² counts
    weighted = LinearClassifier("log_loss", C=1.0, random_state=0)
    assert weighted.fit(X, y, np.full(y.size, 55.0)).solver_ == "quasi_newton"
    # fewer samples than weights
    centers = np.random.RandomState(0).normal(size=(80, 20))
    assert chosen(np.tile(centers, (15, 1)), np.arange(1200) % 80, C=55.0) == "dual"
    # two classes are one logistic problem
    two = y < 5
    assert chosen(X, two, "ovr_log_loss", C=0.1) == "quasi_newton"
    assert chosen(X[:40], two[:40], C=0.1) == "quasi_newton"
    assert chosen(sp.csr_matrix(X), two) == "dual"


def products(n, d):
    """Products of columns of digits."""
    X, y = load_digits(return_X_y=True)
    return normalize(PolynomialFeatures(2).fit_transform(X[:n, 10 : 10 + d])), y[:n]


@pytest.mark.parametrize(
    ("kind", "n", "d", "K", "C", "fewer"),
    [
        ("tails", 4000, 25, 4, 0.7, "quasi_newton"),
        ("lengths", 3000, 60, 6, 8.0, "quasi_newton"),
        ("shared", 3000, 12, 9, 8.0, "quasi_newton"),
        ("products", 300, 30, 10, 3.0, "dual"),
        ("products", 1000, 20, 10, 1.0, "dual"),
        ("products", 600, 25, 10, 2.0, "dual"),
    ],
)
def test_the_choice_has_far_fewer_steps(load_program, kind, n, d, K, C, fewer):
    # No constant of the rule was fitted to these data.
    # An epoch and an iteration both multiply X once by weights and once by residuals.
    if kind == "products":
        X, y = products(n, d)
    else:
        X, y = load_program("bench_linear_solvers").drawn(kind, n, d, K)
    steps = {}
    for solver in ("dual", "quasi_newton"):
        model = LinearClassifier("log_loss", solver=solver, C=C, calibration=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            steps[solver] = model.set_params(random_state=0).fit(X, y).n_iter_
    assert 3 * steps.pop(fewer) < min(steps.values())
    assert chosen(X, y, C=C, calibration=None) == fewer


def test_the_variance_that_columns_explain():
    X, y = digits(1200)
    yes = np.eye(10)[y]
    fitted = LinearRegression().fit(X, yes).predict(X)
    found = explained(X.astype(np.float32), y, 10)
    expected = r2_score(yes, fitted, multioutput="variance_weighted") - 64 / y.size
    assert found == pytest.approx(expected, abs=1e-3)
    # a part of the rows of a long X; classes in turns, and columns all alike
    turns = np.arange(9000) % 3
    exact = np.eye(3, dtype=np.float32)[turns]
    assert explained(exact, turns, 3) == pytest.approx(0.95, abs=1e-3)
    assert explained(np.ones_like(exact), turns, 3) == 0
    # rows that are sorted by outcome, columns of other scales
    y = np.sort(np.random.default_rng(0).integers(0, 10, 20_000))
    X = np.random.default_rng(1).normal(size=(y.size, 12)).astype(np.float32)
    X[:, :10] += 2 * np.eye(10)[y]
    yes = np.eye(10)[y]
    fitted = LinearRegression().fit(X, yes).predict(X)
    expected = r2_score(yes, fitted, multioutput="variance_weighted")
    assert explained(X, y, 10) == pytest.approx(expected, abs=0.05)
    scaled = X * np.float32(10) ** np.arange(-6, 6)
    assert explained(scaled, y, 10) == pytest.approx(explained(X, y, 10), abs=1e-4)
    # memory of many classes
    y = np.arange(8000) % 4000
    tracemalloc.start()
    try:
        explained(np.float32(y)[:, None], y, 4000)
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()
    assert explained(exact, np.zeros_like(turns), 3) == 0


def test_l_bfgs_goes_on_from_the_weights_of_the_dual():
    X, y = noise(600, 80, 5)
    auto = exact(C=1.0, tol=0.01, max_iter=1000).fit(X, y)
    other = exact("quasi_newton", C=1.0, tol=0.01, max_iter=1000).fit(X, y)
    assert auto.solver_ == "quasi_newton"
    assert auto.n_iter_ < other.n_iter_ + 5  # epochs of the dual
    excess = objective(auto, X, y, 1.0) / objective(other, X, y, 1.0) - 1
    assert abs(excess) < 1e-4


@pytest.mark.parametrize("a", [0.0, 0.25, 4.0])
def test_the_optimum_of_the_dual_is_that_of_l_bfgs(a):
    X, y = digits()
    node = NodeSolver(
        single(X), Targets.one_each(y, 10), np.ones(y.size), np.empty(0, np.int32)
    )
    model = exact("dual", C=3.0, intercept_scaling=a, tol=1e-6)
    settings = DescentSettings.of(model, "log_loss", 3.0, 0.0, np.zeros(1, np.int32))
    (descent,) = node.descents((0, 10), settings, 0)
    descent.finish()
    settings = settings._replace(solver="quasi_newton", tol=0.1)
    (other,) = node.descents((0, 10), settings, 0)
    other.begin_at(descent.W)
    _, met = other.finish()
    assert met
    assert other.n_iter <= 1


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize(
    "data",
    [
        digits,
        cancer,
        wine,
        lambda: noise(800, 8, 3),
        lambda: noise(600, 80, 2),
        lambda: noise(400, 100, 3),
        lambda: noise(300, 200, 4, wrong=0.0),
    ],
    ids=["digits", "cancer", "wine", "tall", "noisy", "wide noisy", "wide"],
)
def test_auto_always_ends_near_the_optimum(data, C):
    X, y = data()
    model = LinearClassifier("log_loss", C=C, calibration=None, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, y)
    best = exact("quasi_newton", tol=1e-4, C=C).fit(X, y)
    excess = objective(model, X, y, C) - objective(best, X, y, C)
    assert excess < 2e-3 * C * y.size


def test_the_dual_is_relieved_where_it_does_not_end():
    X, y = noise(600, 80, 3)
    params = {"C": 100.0, "calibration": "fold", "tol": 0.01, "max_iter": 200}
    with pytest.warns(ConvergenceWarning):
        exact("dual", **params).fit(X, y)
    auto = exact(**params).fit(X, y)
    assert auto.solver_ == "quasi_newton"
    named = exact("quasi_newton", **params).fit(X, y)
    np.testing.assert_array_equal(auto.coef_, named.coef_)
    assert auto.scale_ == named.scale_
    assert auto.n_iter_ == named.n_iter_ + 5  # epochs of the dual
    # too few epochs to wait for
    few = LinearClassifier("log_loss", C=100.0, max_iter=5)
    with pytest.warns(ConvergenceWarning):
        assert few.fit(X, y).solver_ == "dual"


def test_the_dual_goes_on_with_many_classes():
    """Its first epochs change the duals much, and yet it ends in fewer steps."""
    random, n, d, K = np.random.RandomState(0), 1600, 196, 100
    y = random.randint(K, size=n)
    Z = random.randn(K, 20)[y] + 2.0 * random.randn(n, 20)
    X = Z @ random.randn(20, d) + 0.3 * random.randn(n, d)
    X = StandardScaler().fit_transform(X)
    fits = {
        solver: exact(solver, C=0.1, tol=0.01, intercept_scaling=14.0).fit(X, y)
        for solver in ("auto", "dual", "quasi_newton")
    }
    assert fits["auto"].solver_ == "dual"
    assert fits["dual"].n_iter_ < fits["quasi_newton"].n_iter_


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_large_columns_do_not_hide_small_ones(kind):
    """Nothing that the end of the fit is compared with depends on a unit of X."""
    X, y = make_classification(
        600, 4, n_informative=4, n_redundant=0, random_state=0, flip_y=0.2
    )
    scale = np.array([1e3, 1.0, 1e-3, 10.0])
    params = {"intercept_scaling": np.inf, "max_iter": 5000}
    # the penalty is small in all units
    one = exact("quasi_newton", tol=1e-4, C=1e9, **params).fit(kind(X), y)
    two = exact("quasi_newton", tol=0.01, C=1e9, **params).fit(kind(X * scale), y)
    np.testing.assert_allclose(
        one.predict_proba(X), two.predict_proba(X * scale), atol=0.01
    )


def test_the_loss_that_auto_chooses_is_fitted_as_if_it_was_named(monkeypatch):
    monkeypatch.setattr(_trial, "_RELATIVE_MARGIN", {"log_loss": -1.0})
    monkeypatch.setattr(_trial, "_LEAST_MARGIN", -1.0)
    X, y = digits(1700)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(y.size) < 0.2, rng.integers(0, 10, y.size), y)
    auto = LinearClassifier("auto", C=6.0, random_state=0).fit(X, y)
    assert (auto.loss_, auto.solver_) == ("log_loss", "quasi_newton")
    named = LinearClassifier("log_loss", C=auto.C_, random_state=0).fit(X, y)
    np.testing.assert_array_equal(auto.coef_, named.coef_)
    assert auto.scale_ == named.scale_


def test_order_of_samples_and_threads_do_not_matter():
    X, y = digits()
    order = np.random.default_rng(0).permutation(y.size)
    one = exact("quasi_newton").fit(X, y)
    two = exact("quasi_newton", n_jobs=2).fit(X[order], y[order])
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-3)


@pytest.mark.parametrize(
    ("loss", "params", "text"),
    [
        ("squared_hinge", {"solver": "quasi_newton"}, 'loss.*solver.*"log_loss"'),
        ("auto", {"solver": "quasi_newton"}, 'loss.*solver.*"log_loss"'),
        ("ovr_log_loss", {"intercept_scaling": np.inf}, "loss.*intercept_scaling"),
        (
            "log_loss",
            {"intercept_scaling": np.inf, "solver": "dual"},
            "loss.*solver='dual', intercept_scaling=inf",
        ),
    ],
)
def test_solvers_that_cannot(loss, params, text):
    X, y = digits(100)
    with pytest.raises(ValueError, match=f"^{text}"):
        LinearClassifier(loss, **params).fit(X, y)


def test_rare_things():
    X, y = digits(100)
    one = exact("quasi_newton").fit(X[y == 3], y[y == 3])
    assert (one.solver_, one.n_iter_) == ("quasi_newton", 0)
    zero = exact("quasi_newton").fit(np.zeros_like(X), y)
    share = np.bincount(y) / y.size
    assert np.abs(zero.coef_).max() == 0
    free = exact("quasi_newton", intercept_scaling=np.inf).fit(np.zeros_like(X), y)
    np.testing.assert_allclose(free.predict_proba(X[:1])[0], share, atol=1e-5)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 "):
        exact("quasi_newton", max_iter=2).fit(X, y)
    wide = sp.csr_matrix(X)
    wide.resize(100, 10_000)
    np.testing.assert_allclose(
        exact("quasi_newton").fit(wide, y).coef_[:, :64],
        exact("quasi_newton").fit(X, y).coef_,
        atol=1e-3,
    )


@pytest.mark.parametrize("kind", [LinearClassifier, StructuredLogisticRegression])
@pytest.mark.parametrize(
    ("name", "value"),
    [("max_iter", 10**30), ("C", 10**400), ("tol", 10**400), ("C", np.inf)],
    ids=["max_iter", "C", "tol", "inf"],
)
def test_numbers_that_no_machine_word_holds_are_refused(kind, name, value):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        kind(**{name: value}).fit(X, y)
