"""make_sparse_classes: the stated distribution and bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklstruct.datasets import _sparse_classes as module
from sklstruct.datasets import make_sparse_classes


def counts_of(X):
    """Counts of words from values (1 + ln c) / norm: the smallest value has c = 1."""
    X = X.toarray().astype(np.float64)
    norm = np.where(X > 0, X, np.inf).min(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.where(X > 0, np.exp(X / norm - 1), 0)


def test_rows_are_unit_length_counts_of_the_given_number_of_words():
    # so many features that every sample has a word that comes once
    X, y = make_sparse_classes(
        300, 10, 500, n_words=25, dtype=np.float64, random_state=0
    )
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert X.shape == (300, 500) and X.has_canonical_format and y.shape == (300,)
    assert (np.diff(X.indices) != 0).all() and X.data.min() > 0
    assert_allclose(np.asarray(X.multiply(X).sum(axis=1)).ravel(), 1, atol=1e-12)
    assert_allclose(counts_of(X).sum(axis=1), 25, atol=1e-9)
    assert_array_equal(counts_of(X).round(9) % 1, 0)


@pytest.mark.parametrize("shares", [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (0.3, 0.5)])
def test_words_come_from_their_lists_at_their_rates(shares):
    # far more features than words of the lists: where a word came from is known
    K, d = 12, 10**6
    X, y, groups, of_class, of_group = make_sparse_classes(
        6000, K, d, n_groups=4, n_words=10, n_class_words=5, n_group_words=7,
        class_share=shares[0], group_share=shares[1], exponent=1.0,
        return_groups=True, return_words=True, random_state=3,
    )  # fmt: skip
    assert_array_equal(np.bincount(groups), 3)
    assert of_class.shape == (K, 5) and of_group.shape == (4, 7)
    row = np.repeat(np.arange(6000), np.diff(X.indptr))
    own = (X.indices[:, None] == of_class[y[row]]).any(axis=1)
    group = (X.indices[:, None] == of_group[groups[y[row]]]).any(axis=1)
    assert not (own & group).any()
    # rates in words, not in distinct words, need the counts
    least = np.minimum.reduceat(X.data, X.indptr[:-1])
    count = np.rint(np.exp(X.data / least[row] - 1))
    whole = np.add.reduceat(count, X.indptr[:-1]) == 10  # a word that comes once
    count *= whole[row]
    assert whole.mean() > 0.4
    total = count.sum()
    if 0 < sum(shares) < 1 or not sum(shares):
        # samples without a single word are few, so that the rates hardly change
        assert_allclose(count[own].sum() / total, shares[0], atol=0.02)
        assert_allclose(count[group].sum() / total, shares[1], atol=0.02)
    else:
        assert (own if shares[0] else group).all()


def test_common_words_follow_the_power():
    d, n = 1000, 4000
    X, _ = make_sparse_classes(
        n, 2, d, n_words=1, class_share=0, group_share=0, exponent=3.0, random_state=0
    )
    found = np.bincount(X.indices, minlength=d) / n
    edges = (np.arange(d + 1) / d) ** (1 / 3)  # P(floor(d u^3) = j)
    assert_allclose(np.cumsum(found), edges[1:], atol=0.03)


def test_classes_and_groups_are_even():
    X, y, groups = make_sparse_classes(
        20_000, 30, 100, return_groups=True, random_state=0
    )
    assert groups.shape == (30,)
    assert_array_equal(np.bincount(groups), 6)  # isqrt(30) groups
    assert_allclose(np.bincount(y) / 20_000, 1 / 30, atol=0.01)


def test_blocks_and_seeds(monkeypatch):
    options = {"n_samples": 200, "n_classes": 7, "n_features": 50}
    X, y = make_sparse_classes(**options, random_state=5)
    Z, z = make_sparse_classes(**options, random_state=5)
    assert (X != Z).nnz == 0 and (y == z).all()
    Z, z = make_sparse_classes(**options, random_state=6)
    assert (X != Z).nnz > 0
    monkeypatch.setattr(module, "_BLOCK", 40 * 13)
    Z, z = make_sparse_classes(**options, random_state=5)
    assert Z.shape == X.shape and (y == z).all()
    assert_allclose(np.asarray(Z.multiply(Z).sum(axis=1)).ravel(), 1, atol=1e-6)


def test_smallest():
    X, y = make_sparse_classes(1, 1, 1, n_words=1, random_state=0)
    assert_array_equal(X.toarray(), [[1.0]])
    assert X.dtype == np.float32 and y.tolist() == [0]


def test_bad_input():
    for name, value in {
        "n_samples": 0, "n_words": 2.5, "n_class_words": 2**31, "n_groups": 0,
        "class_share": np.nan, "group_share": 1.1, "exponent": 0,
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=f"'{name}' parameter of make_sparse_cl"):
            make_sparse_classes(**{name: value})
    with pytest.raises(ValueError, match="^n_groups must be at most n_classes=10"):
        make_sparse_classes(n_classes=10, n_groups=11)
    with pytest.raises(ValueError, match="sum of at most 1"):
        make_sparse_classes(class_share=0.6, group_share=0.6)
    with pytest.raises(ValueError, match="^dtype"):
        make_sparse_classes(dtype=np.int32)
    with pytest.raises(MemoryError, match="ask for fewer"):
        make_sparse_classes(2**31 - 1, n_words=10_000)
