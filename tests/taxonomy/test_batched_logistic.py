"""The batched logistic solver: scikit-learn's optimum, node by node."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from sklstruct.taxonomy._batched_logistic import NodeProblems, warn_not_converged


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    keep = np.random.default_rng(0).permutation(y.size)[:600]
    X, y = X[keep] / 16, y[keep]
    order = np.argsort(y, kind="stable")
    return np.ascontiguousarray(X[order]), y[order]


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
    coef, intercept, _, status = problems.fit(C, fit_intercept=fit_intercept, tol=tol)
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
    two = problems.fit(np.full(20, 0.5), n_jobs=2)
    for a, b in zip(one, two):
        assert_array_equal(a, b)


def test_warm_start_from_the_optimum_stops_at_once(digits):
    X, y = digits
    problems = NodeProblems(X, np.ones(y.size), [class_bounds(y), class_bounds(y)[:3]])
    coef, intercept, _, _ = problems.fit(np.ones(2), tol=1e-6)
    again = problems.fit(np.ones(2), tol=1e-5, start=(coef.copy(), intercept.copy()))
    assert_array_equal(again[2], 0)
    assert_array_equal(again[0], coef)


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
        warn_not_converged(status, 2, stacklevel=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_not_converged(np.zeros(3, int), 2, stacklevel=1)


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
