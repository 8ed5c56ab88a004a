"""Checks of data: malformed sparse matrices and values whose squares overflow."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklstruct._checks import check_range, check_sparse

FORMATS = ["csr", "csc", "coo", "bsr", "lil", "dia", "dok"]


@pytest.mark.parametrize("fmt", FORMATS)
def test_good_matrices_pass_and_stay(fmt):
    dense = np.arange(12.0).reshape(3, 4) % 5
    for shape in ((3, 4), (0, 4), (3, 0)):
        X = sp.random_array(shape, density=0.5, rng=0, format="csr").asformat(fmt)
        check_sparse(X)
    X = sp.csr_array(dense).asformat(fmt)
    check_sparse(X)
    np.testing.assert_array_equal(X.toarray(), dense)
    check_sparse(dense)
    check_sparse([[1.0]])


@pytest.mark.parametrize("fmt", ["csr", "csc", "bsr"])
@pytest.mark.parametrize(
    ("array", "at", "value"),
    [
        ("indices", 0, 10**6),
        ("indices", -1, -1),
        ("indptr", 0, 1),
        ("indptr", 1, 10**6),
        ("indptr", -1, 10**6),
    ],
)
def test_compressed_matrices_that_point_outside(fmt, array, at, value):
    X = sp.csr_matrix(np.eye(4)).asformat(fmt)
    getattr(X, array)[at] = value
    with pytest.raises(ValueError, match=rf"Z is a malformed {fmt.upper()} matrix"):
        check_sparse(X, "Z")


def test_coordinates_that_point_outside():
    for index, value in ((0, -1), (1, 4)):
        X = sp.coo_matrix(np.eye(4))
        (X.row, X.col)[index][2] = value
        with pytest.raises(ValueError, match="X is a malformed COO matrix"):
            check_sparse(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_range_leaves_room_for_sums(dtype, make):
    largest = np.finfo(dtype).max
    for sign in (1, -1):
        X = make(np.array([[sign * 9e-5 * float(largest) ** 0.5, 0.0]], dtype=dtype))
        check_range(X)
        data = X.data if sp.issparse(X) else X.ravel()
        # a hundred million such squares are finite
        assert np.isfinite(dtype(1e8) * np.sum(data * data, dtype=dtype))
        with pytest.raises(ValueError, match="StandardScaler"):
            check_range(X * dtype(2))
    check_range(make(np.zeros((0, 3), dtype=dtype)))


def test_range_of_a_wider_type():
    X = np.array([[1e30]], dtype=np.float32)
    check_range(X, np.float64)
    with pytest.raises(ValueError, match="float32"):
        check_range(X)
