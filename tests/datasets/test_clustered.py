"""make_clustered_classes: the stated distribution and bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklstruct.datasets import make_clustered_classes


def test_samples_fill_the_box_at_the_center():
    X, y, centers = make_clustered_classes(
        n_classes=5,
        n_features=4,
        n_samples_per_class=2000,
        disperse=3.0,
        variance=6.0,
        return_centers=True,
        random_state=0,
    )
    assert X.shape == (10_000, 4)
    assert_array_equal(np.bincount(y), 2000)
    offset = X - centers[y]
    assert offset.min() >= 0 and offset.max() <= 6
    for k in range(5):
        assert_allclose(offset[y == k].mean(axis=0), 3.0, atol=0.2)
        assert_allclose(offset[y == k].var(axis=0), 36 / 12, atol=0.3)


def test_orthants_are_binary_numbers():
    _, _, centers = make_clustered_classes(
        n_classes=8, n_features=3, n_samples_per_class=1, disperse=100.0,
        return_centers=True, random_state=0,
    )  # fmt: skip
    digits = (centers < 50).astype(int)  # 200 for the digit 0, -100 for 1
    assert_array_equal(digits @ [4, 2, 1], np.arange(8))
    assert_allclose(np.where(digits, -100, 200), centers, atol=6)


def test_more_classes_than_orthants_share_them():
    _, y, centers = make_clustered_classes(
        n_classes=11, n_features=2, n_samples_per_class=3, disperse=1000.0,
        return_centers=True, random_state=0,
    )  # fmt: skip
    assert_array_equal(np.bincount(y), 3)
    orthant = (centers < 500).astype(int) @ [2, 1]
    assert_array_equal(orthant, np.arange(11) % 4)
    assert len(np.unique(centers, axis=0)) == 11


def test_defaults():
    X, y, centers = make_clustered_classes(return_centers=True, random_state=0)
    assert X.shape == (10_000, 200) and len(centers) == 50
    offset = X - centers[y]
    assert offset.min() >= 0 and 7.99 < offset.max() <= 8


def test_seed_and_order():
    a = make_clustered_classes(n_samples_per_class=3, random_state=1)
    b = make_clustered_classes(n_samples_per_class=3, random_state=1)
    c = make_clustered_classes(n_samples_per_class=3, random_state=2)
    assert_array_equal(a[0], b[0])
    assert_array_equal(a[1], b[1])
    assert not np.array_equal(a[0], c[0])
    X, y = make_clustered_classes(n_samples_per_class=3, shuffle=False, random_state=1)
    assert_array_equal(y, np.repeat(np.arange(50), 3))
    assert_array_equal(np.sort(X, axis=None), np.sort(a[0], axis=None))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_classes": 0}, "'n_classes' parameter of make_clustered_classes"),
        ({"variance": -1.0}, "'variance' parameter"),
        ({"disperse": np.nan}, "'disperse' parameter"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        make_clustered_classes(**change)
