"""HierarchicalClassifier: scales, parameters, seeds and callbacks of `fit`."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning

from sklstruct.taxonomy import HierarchicalClassifier

NESTED = [[0], [[1, 8], [2, [3, 9]]], [[4], [5, 6, 7]]]


@pytest.fixture(scope="module")
def train():
    X, y = load_digits(return_X_y=True)
    keep = np.random.default_rng(0).permutation(y.size)[:500]
    return X[keep] / 16, y[keep]


# ------------------------------------------------------------------------ scales


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("scale", [1e6, 1e12, 1e30, 1e140])
def test_common_scale_of_the_features(kind, scale):
    """With a ridge that does not matter, the scale of X only scales the weights."""
    X, y = make_classification(
        200, 5, n_informative=3, random_state=0, flip_y=0.1
    )  # fmt: skip
    model = HierarchicalClassifier([[0], [1]], fit_intercept=False, tol=1e-10)
    plain = model.set_params(C=1e12).fit(X, y).predict_proba(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = model.set_params(C=1.0).fit(kind(X * scale), y)
    assert model.n_iter_ > 1
    assert_allclose(scaled.predict_proba(kind(X * scale)), plain, atol=1e-5)


def test_failed_line_search_is_reported():
    X, y = make_classification(200, 5, n_informative=3, random_state=0)
    stamp = 1.7e18 + np.random.default_rng(0).normal(size=200) * 1e15
    model = HierarchicalClassifier([[0], [1]])
    with pytest.warns(ConvergenceWarning, match="line search failed.*StandardScaler"):
        model.fit(np.c_[X, stamp], y)


# --------------------------------------------------------------------- bad input


def corrupt(X, fault):
    X = sp.csr_matrix(X)
    if fault == "too large":
        X.indices[5] = 10**9
    elif fault == "negative":
        X.indices[5] = -3
    elif fault == "decreasing":
        X.indptr[3] = X.indptr[5]
        X.indptr[4] = 0
    elif fault == "beyond":
        X.indptr[-1] += 1000
    elif fault == "sizes":
        X.indices = X.indices[:-4]
    elif fault == "csc":
        X = X.tocsc()
        X.indices[5] = 10**9
    return X


@pytest.mark.parametrize(
    "fault", ["too large", "negative", "decreasing", "beyond", "sizes", "csc"]
)
def test_malformed_sparse_matrix(train, fault):
    X = corrupt(train[0], fault)
    with pytest.raises(ValueError, match="X is a malformed CS[RC] matrix"):
        HierarchicalClassifier(NESTED).fit(X, train[1])
