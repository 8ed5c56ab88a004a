"""The batched logistic solver: scikit-learn's optimum, node by node."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _cases import all_pairs
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from sklstruct._parallel import ThreadMap
from sklstruct.hierarchical._problems import NodeProblems, warn_not_converged
from sklstruct.linear import _quasi_newton


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    keep = np.random.default_rng(0).permutation(y.size)[:600]
    X, y = X[keep] / 16, y[keep]
    order = np.argsort(y, kind="stable")
    return np.ascontiguousarray(X[order]), y[order]


def with_metric(monkeypatch, curved):
    """Start from the metric of the features at all dense nodes, or at none."""
    monkeypatch.setattr(
        _quasi_newton, "metric_pays", lambda n, d, n_rows: curved and n_rows > 1
    )


def intercepts(fit_intercept):
    """The `constant` of intercepts that are not penalised, or of none."""
    return np.inf if fit_intercept else 0.0


def class_bounds(y):
    return np.concatenate([[0], np.cumsum(np.bincount(y))])


# outcomes of each node, as boundaries between digits: all ten, two halves, one pair,
# three digits from the middle
OUTCOMES = [list(range(11)), [0, 5, 10], [0, 1, 2], [3, 4, 5, 6]]
CONVERTERS = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "csr32": sp.csr_matrix,
    "csr64": lambda X: with_wide_indices(sp.csr_matrix(X)),
    "csr_float32": lambda X: sp.csr_matrix(X.astype(np.float32)),
}


def with_wide_indices(X):
    X.indices = X.indices.astype(np.int64)
    X.indptr = X.indptr.astype(np.int64)
    return X


def objective(X, label, weight, C, w, b):
    """scikit-learn's objective: C sum s loss + ||w||² / 2."""
    z = np.asarray(X @ w.T) + b
    if z.shape[1] == 1:
        z = np.hstack([np.zeros_like(z), z])
    top = z.max(axis=1, keepdims=True)
    log_total = np.log(np.exp(z - top).sum(axis=1)) + top[:, 0]
    loss = log_total - z[np.arange(label.size), label]
    return C * (weight @ loss) + 0.5 * (w**2).sum()


def gradient(X, label, weight, C, w, b, binary):
    z = np.asarray(X @ w.T) + b
    if binary:
        residual = weight[:, None] * (1 / (1 + np.exp(-z)) - label[:, None])
    else:
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        residual = weight[:, None] * (p - np.eye(p.shape[1])[label])
    return residual.T @ X + w / C, residual.sum(axis=0)


def node_data(X, y, cuts):
    ends = class_bounds(y)
    rows = slice(ends[cuts[0]], ends[cuts[-1]])
    label = np.searchsorted(cuts, y[rows], side="right") - 1
    return rows, label


@pytest.mark.parametrize("kind", CONVERTERS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_optimum_of_every_node(digits, kind, fit_intercept):
    X, y = digits
    weight = np.random.default_rng(1).uniform(0.1, 2, y.size)
    ends = class_bounds(y)
    problems = NodeProblems(
        CONVERTERS[kind](X), weight, [ends[cuts] for cuts in OUTCOMES]
    )
    C = np.array([0.3, 1.0, 10.0, 0.01])
    single = "float32" in kind
    tol = 1e-5 if single else 1e-8
    coef, intercept, _, status = problems.fit(
        C, constant=intercepts(fit_intercept), tol=tol
    )
    assert_array_equal(status, 0)
    for v, cuts in enumerate(OUTCOMES):
        rows, label = node_data(X, y, cuts)
        part = slice(problems.row_ptr[v], problems.row_ptr[v + 1])
        w, b = coef[part], intercept[part]
        # stationarity, in the unit of `tol`
        gw, gb = gradient(X[rows], label, weight[rows], C[v], w, b, len(cuts) == 3)
        scale = weight[rows].sum()
        slack = 2e-4 if single else 1e-6
        assert np.abs(gw).max() / scale < slack
        if fit_intercept:
            assert np.abs(gb).max() / scale < slack
        else:
            assert_array_equal(b, 0)
        flat = LogisticRegression(
            C=C[v], tol=1e-8, max_iter=10_000, fit_intercept=fit_intercept
        ).fit(X[rows], label, weight[rows])
        best = objective(
            X[rows], label, weight[rows], C[v], flat.coef_, flat.intercept_
        )
        ours = objective(X[rows], label, weight[rows], C[v], w, b)
        assert ours == pytest.approx(best, rel=2e-5 if single else 1e-9)
        assert_allclose(w, flat.coef_, atol=2e-2 if single else 1e-3)


def test_dense_and_sparse_agree(digits):
    X, y = digits
    bounds = [class_bounds(y)[cuts] for cuts in OUTCOMES]
    weight = np.ones(y.size)
    C = np.ones(4)
    dense = NodeProblems(X, weight, bounds).fit(C, tol=1e-9)
    sparse = NodeProblems(sp.csr_matrix(X), weight, bounds).fit(C, tol=1e-9)
    assert_allclose(sparse[0], dense[0], atol=1e-4)
    assert_allclose(sparse[1], dense[1], atol=1e-4)


def test_columns_unused_by_a_node_are_exactly_zero():
    X = sp.csr_matrix(
        np.array([[1.0, 0, 0, 2], [2, 0, 0, 1], [0, 1, 3, 0], [0, 3, 1, 0.0]])
    )
    problems = NodeProblems(X, np.ones(4), [np.array([0, 1, 2]), np.array([2, 3, 4])])
    coef, *_ = problems.fit(np.ones(2))
    assert_array_equal(coef[0, [1, 2]], 0)
    assert_array_equal(coef[1, [0, 3]], 0)
    assert (coef[0, [0, 3]] != 0).all()


def test_empty_rows_give_the_prior():
    X = sp.csr_matrix((6, 3))
    problems = NodeProblems(X, np.ones(6), [np.array([0, 2, 6])])
    coef, intercept, n_iter, _ = problems.fit(np.ones(1), tol=1e-10)
    assert_array_equal(coef, 0)
    assert intercept[0] == pytest.approx(np.log(2))
    assert n_iter[0] == 0  # the start is the optimum


@pytest.mark.parametrize("kind", ["float64", "csr32"])
def test_threads_do_not_change_a_bit(digits, kind):
    X, y = digits
    bounds = [class_bounds(y)[cuts] for cuts in OUTCOMES] * 5
    problems = NodeProblems(CONVERTERS[kind](X), np.ones(y.size), bounds)
    one = problems.fit(np.full(20, 0.5))
    with ThreadMap(2) as parallel:
        two = problems.fit(np.full(20, 0.5), parallel=parallel)
    for a, b in zip(one, two):
        assert_array_equal(a, b)


def test_warm_start_from_the_optimum_stops_at_once(digits):
    X, y = digits
    problems = NodeProblems(X, np.ones(y.size), [class_bounds(y), class_bounds(y)[:3]])
    coef, intercept, _, _ = problems.fit(np.ones(2), tol=1e-6)
    again = problems.fit(np.ones(2), tol=1e-5, start=(coef.copy(), intercept.copy()))
    assert_array_equal(again[2], 0)
    assert_array_equal(again[0][10], coef[10])  # of the node of two outcomes
    # with the metric the mean over the outcomes, 0 but for rounding, is taken off
    assert_allclose(again[0], coef, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_separable_and_badly_scaled(scale):
    X, y = make_classification(
        80, 5, n_informative=4, n_redundant=0, class_sep=4, random_state=0
    )
    order = np.argsort(y, kind="stable")
    X, y = np.ascontiguousarray(X[order] * scale), y[order]
    bounds = [class_bounds(y)]
    C = np.array([1e3])
    coef, intercept, _, status = NodeProblems(X, np.ones(80), bounds).fit(
        C, tol=1e-7, max_iter=10_000
    )
    assert status[0] == 0
    assert np.isfinite(coef).all() and np.isfinite(intercept).all()
    start = objective(X, y, np.ones(80), C[0], np.zeros((1, 5)), 0.0)
    assert objective(X, y, np.ones(80), C[0], coef, intercept) < start


def test_a_short_first_step_grows_by_a_secant():
    """The penalty alone is a quadratic, and the step tried first 1 / 51 of the way."""
    X = np.random.default_rng(0).normal(size=(40, 50))
    problems = NodeProblems(X, np.ones(40), [np.arange(0, 41, 10)])
    *_, n_iter, status = problems.fit(np.array([1e-9]), constant=0.0, tol=1e-4)
    assert (n_iter[0], status[0]) == (1, 0)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_rows_in_another_order_than_weights(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8)) * (rng.random((60, 8)) < rng.random((60, 1)))
    rows, weight = rng.permutation(60), rng.uniform(0.5, 2, 60)
    bounds = [np.array([0, 25, 60]), np.array([0, 10, 25]), np.array([25, 30, 45, 60])]
    sorted_ = NodeProblems(kind(X[rows]), weight, bounds)
    other = NodeProblems(kind(X), weight, bounds, rows=rows)
    some = np.flatnonzero(np.arange(60) % 4)
    for one, two in (sorted_, other), (sorted_.subset(some), other.subset(some)):
        assert_array_equal(one.n_entries, two.n_entries)
        fits = [problems.fit(np.ones(3), tol=1e-3) for problems in (one, two)]
        for found, wanted in zip(*fits):
            assert_array_equal(found, wanted)
        held = np.arange(0, 40, 3)
        assert_array_equal(one.loss(held, *fits[0][:2]), two.loss(held, *fits[0][:2]))


def test_overflow_is_an_error_not_a_nan():
    X = np.array([[1e300, -1e300], [1e300, 1e300], [-1e300, 1e300], [-1e300, 2e300]])
    problems = NodeProblems(X, np.ones(4), [np.array([0, 2, 4])])
    with pytest.raises(FloatingPointError, match="StandardScaler"):
        problems.fit(np.array([1e10]))


def test_max_iter_is_reported(digits):
    X, y = digits
    problems = NodeProblems(X, np.ones(y.size), [class_bounds(y)])
    _, _, n_iter, status = problems.fit(np.ones(1), max_iter=2)
    assert (n_iter[0], status[0]) == (2, 1)
    with pytest.warns(ConvergenceWarning, match="1 of 1 node .*max_iter=2"):
        warn_not_converged(status, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_not_converged(np.zeros(3, int), 2)


def test_no_nodes():
    problems = NodeProblems(np.ones((3, 2)), np.ones(3), [])
    coef, intercept, n_iter, status = problems.fit(np.empty(0))
    assert coef.shape == (0, 2)
    assert intercept.size == n_iter.size == status.size == 0


def test_inputs_are_not_written(digits):
    X, y = digits
    X, weight = X.copy(), np.ones(y.size)
    X.flags.writeable = weight.flags.writeable = False
    before = X.copy()
    NodeProblems(X, weight, [class_bounds(y)]).fit(np.ones(1))
    assert_array_equal(X, before)


def sorted_classes(rng, n, r, scale, signal=0.5):
    """X (n, d) whose features have the standard deviations `scale`, correlated."""
    scale = np.asarray(scale, dtype=float)
    y = np.sort(np.r_[np.arange(r), rng.choice(r, p=shares(r), size=n - r)])
    X = rng.normal(size=(n, scale.size)) * scale
    X += (signal * rng.normal(size=(r, scale.size)) * scale)[y]
    mix = np.linalg.qr(rng.normal(size=(scale.size, scale.size)))[0]
    return np.ascontiguousarray(X @ mix + rng.normal(size=scale.size)), y


def shares(r):
    share = 1 / np.arange(1, r + 1)
    return share / share.sum()


@pytest.mark.parametrize(
    *all_pairs(fit_intercept=[True, False], singular=[False, True], r=[3, 4, 12])
)
def test_first_step_is_newtons(r, singular, fit_intercept, monkeypatch):
    with_metric(monkeypatch, True)
    # the brute-force Hessian at zero weights and optimal intercepts, its null space
    # (the same number added to all intercepts) taken out by the pseudo-inverse
    rng = np.random.default_rng(r)
    X, y = sorted_classes(rng, 60, r, [2.0, 0.5, 1.0], signal=0.05)
    y = np.repeat(np.arange(r), 60 // r)  # the metric is exact for equal shares
    if singular:
        X = np.ascontiguousarray(np.c_[X, X[:, 0] + X[:, 1], np.ones(60)])
    weight = np.tile(rng.uniform(0.5, 2, 60 // r), r)
    C = 0.01
    lam = 1 / (C * weight.sum())
    coef, intercept, _, _ = NodeProblems(X, weight, [class_bounds(y)]).fit(
        np.array([C]),
        constant=intercepts(fit_intercept),
        tol=1e-14,
        max_iter=1,
    )
    s = weight / weight.sum()
    pi = np.bincount(y, weights=s) if fit_intercept else np.full(r, 1 / r)
    b = np.log(pi) - np.log(pi).mean() if fit_intercept else np.zeros(r)
    A = np.diag(pi) - np.outer(pi, pi)
    Z = np.c_[X, np.ones(60)] if fit_intercept else X
    M = Z.T @ (s[:, None] * Z)
    penalty = np.full(Z.shape[1], lam)
    if fit_intercept:
        penalty[-1] = 0
    H = np.kron(A, M) + np.kron(np.eye(r), np.diag(penalty))
    G = (s[:, None] * (pi - np.eye(r)[y])).T @ Z
    step = -np.linalg.pinv(H, rcond=1e-12) @ G.ravel()
    step = step.reshape(r, -1)
    assert_allclose(coef, step[:, : X.shape[1]], rtol=1e-7, atol=1e-10)
    if fit_intercept:
        assert_allclose(intercept, b + step[:, -1], rtol=1e-7, atol=1e-8)


def features(kind, rng):
    """X, y, weight, of which every kind is awkward in its way."""
    X, y = sorted_classes(rng, 300, 6, np.arange(1, 9) ** -1.0)
    weight = np.ones(y.size)
    if kind == "constant":
        X[:, [2, 5]] = [3.0, 0.0]
    elif kind == "singular":
        X = np.c_[X, X @ rng.normal(size=(8, 4))]
    elif kind == "wide":
        X = rng.normal(size=(300, 400)) + X[:, [0]]
    elif kind == "scales":
        X = X * np.logspace(-3, 3, 8)
    elif kind == "weights":
        weight = 10.0 ** rng.uniform(-3, 3, y.size)
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "many":
        X, y = sorted_classes(rng, 600, 77, np.arange(1, 9) ** -1.0)
        weight = rng.uniform(0.1, 2, 600)
    return np.ascontiguousarray(X), y, weight


@pytest.mark.parametrize(
    *all_pairs(
        fit_intercept=[True, False],
        C=[0.01, 1.0, 100.0],
        kind=["constant", "singular", "wide", "scales", "weights", "float32", "many"],
    )
)
def test_the_metric_does_not_move_the_optimum(kind, C, fit_intercept, monkeypatch):
    X, y, weight = features(kind, np.random.default_rng(5))
    problems = NodeProblems(X, weight, [class_bounds(y)])
    tol = 1e-6 if kind == "float32" else 1e-8
    values = []
    for curved in (False, True):
        with_metric(monkeypatch, curved)
        coef, intercept, _, status = problems.fit(
            np.array([C]),
            constant=intercepts(fit_intercept),
            tol=tol,
            max_iter=100_000,
        )
        assert status[0] == 0
        values.append(objective(X, y, weight, C, coef, intercept))
    # the plain metric stops early where features have different scales
    assert values[1] == pytest.approx(values[0], rel=1e-5)
    assert values[1] <= values[0] * (1 + 1e-6)


def test_many_outcomes_agree_with_logistic_regression(monkeypatch):
    with_metric(monkeypatch, True)
    X, y, weight = features("many", np.random.default_rng(0))
    coef, intercept, _, _ = NodeProblems(X, weight, [class_bounds(y)]).fit(
        np.ones(1), tol=1e-8
    )
    flat = LogisticRegression(tol=1e-8, max_iter=10_000).fit(X, y, weight)
    best = objective(X, y, weight, 1.0, flat.coef_, flat.intercept_)
    assert objective(X, y, weight, 1.0, coef, intercept) == pytest.approx(
        best, rel=1e-9
    )
    assert_allclose(coef, flat.coef_, atol=1e-3)
    assert_allclose(coef.sum(axis=0), 0, atol=1e-10)


@pytest.mark.parametrize("n", [500, 2000])
def test_the_metric_saves_iterations_where_it_is_chosen(n, monkeypatch):
    X, y = sorted_classes(np.random.default_rng(0), n, 12, np.arange(1, 41) ** -1.0)
    problems = NodeProblems(X, np.ones(y.size), [class_bounds(y)])
    with_ = problems.fit(np.ones(1), tol=1e-6)[2][0]
    with_metric(monkeypatch, False)
    assert 2 * with_ < problems.fit(np.ones(1), tol=1e-6)[2][0]


def test_warm_start_with_the_metric(digits, monkeypatch):
    with_metric(monkeypatch, True)
    X, y = digits
    problems = NodeProblems(X, np.ones(y.size), [class_bounds(y)])
    C = np.ones(1)
    best = problems.fit(C, tol=1e-8)
    again = problems.fit(C, tol=1e-6, start=(best[0].copy(), best[1].copy()))
    assert again[2][0] == 0
    # weights that do not sum to zero over the outcomes
    start = best[0] + np.arange(X.shape[1]), best[1] + 1.0
    moved = problems.fit(C, tol=1e-8, start=start)
    value = [objective(X, y, np.ones(y.size), 1.0, *fit[:2]) for fit in (best, moved)]
    assert value[1] == pytest.approx(value[0], rel=1e-9)


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_samples_of_weight_zero_are_as_if_absent(digits, kind, curved, monkeypatch):
    with_metric(monkeypatch, curved)
    X, y = digits
    weight = np.random.default_rng(0).integers(0, 3, y.size).astype(float)
    there = weight > 0
    fits = [
        NodeProblems(kind(X[rows]), weight[rows], [class_bounds(y[rows])]).fit(
            np.ones(1), tol=1e-8
        )
        for rows in (slice(None), there)
    ]
    assert (fits[0][3] == 0).all()
    assert_allclose(fits[0][0], fits[1][0], atol=1e-4)
    assert_allclose(fits[0][1], fits[1][1], atol=1e-4)


@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1e20, 1e140])
def test_metric_of_extreme_scales(scale, monkeypatch):
    with_metric(monkeypatch, True)
    X, y = sorted_classes(np.random.default_rng(1), 200, 4, [3.0, 1.0, 0.1])
    X = X * scale
    problems = NodeProblems(X, np.ones(200), [class_bounds(y)])
    # C that makes the problem the same at every scale, as far as it is a number
    C = np.array([scale**-2.0])
    coef, intercept, _, status = problems.fit(C, max_iter=10_000)
    assert np.isfinite(coef).all() and np.isfinite(intercept).all()
    unit = NodeProblems(X / scale, np.ones(200), [class_bounds(y)])
    expected, _, _, _ = unit.fit(np.ones(1))
    assert_allclose(coef * scale, expected, atol=1e-3)


def test_features_whose_squares_overflow_do_without_the_metric():
    X, y = sorted_classes(np.random.default_rng(1), 200, 4, [3.0, 1.0, 0.1])
    problems = NodeProblems(X * 1e160, np.ones(200), [class_bounds(y)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert problems._metric(0, 1.0, np.inf) == (None, None, None)


@pytest.mark.parametrize("d", [20, 200, 300])
def test_about_as_many_iterations_as_scipys(d, monkeypatch):
    """With as many pairs; long vectors are multiplied in pieces."""
    with_metric(monkeypatch, False)
    X, y = sorted_classes(np.random.default_rng(0), 400, 12, np.ones(d))
    one, C = np.ones(y.size), 1.0
    coef, intercept, n_iter, _ = NodeProblems(X, one, [class_bounds(y)]).fit(
        np.full(1, C), tol=1e-4
    )
    goal, found = objective(X, y, one, C, coef, intercept), []

    def value(v):
        w, b = v[: 12 * d].reshape(12, d), v[12 * d :]
        slopes = gradient(X, y, one, C, w, b, False)
        slope = C * np.concatenate([slope.ravel() for slope in slopes])
        return objective(X, y, one, C, w, b), slope

    minimize(
        value, np.zeros(12 * (d + 1)), jac=True, method="L-BFGS-B",
        options={"maxcor": _quasi_newton.kernels.MEMORY, "ftol": 0, "gtol": 0,
                 "maxiter": int(n_iter[0] / 1.2)},
        callback=lambda v: found.append(value(v)[0]),
    )  # fmt: skip
    # not there yet: SciPy's takes more than n_iter / 1.2 iterations
    assert min(found) > goal
