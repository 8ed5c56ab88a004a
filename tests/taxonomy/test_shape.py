"""choose_shape: the cost model, and the trees that are built by it."""

import numpy as np
import pytest

from sklstruct.taxonomy import RandomSplit, choose_shape


def test_shapes_follow_the_cost_model():
    for k in (1, 2, 60, 100):
        shape = choose_shape(k, 15_000, 30_000)
        assert shape == (k, 1, 0, k, shape.n_bytes)
    assert choose_shape(150, 15_000, 30_000)[:3] == (50, 4, 1)
    assert choose_shape(1000, 40_000, 100_000)[:4] == (100, 16, 1, 79)
    assert choose_shape(10_000, 100_000, 200_000)[:4] == (200, 64, 1, 221)
    large = choose_shape(100_000, 10**6, 10**6)
    assert large.n_levels == 2 and large.max_children**2 * large.max_leaf >= 10**5
    for k in (257, 3000, 70_000, 10**6):
        for budget in (2**20, 2**26, 2**40):
            shape = choose_shape(k, 10 * k, 50_000, n_entries=400 * k, max_bytes=budget)
            if budget > 2**20:  # a megabyte holds no routing node
                assert shape.n_bytes <= budget or shape.max_children == 2
            if shape.n_levels:
                leaves = shape.max_children**shape.n_levels
                assert leaves * shape.max_leaf >= k
    mine = choose_shape(10_000, 100_000, 200_000, max_leaf=20)
    assert mine.max_leaf == 20 and mine.n_levels == 2
    assert choose_shape(100, 1000, 1000, max_leaf=20).n_levels == 1
    assert choose_shape(100, 1000, 1000, max_leaf=100).n_levels == 0


def test_shapes_describe_the_tree_that_is_built():
    k = 900
    X, y = np.zeros((k, 1)), np.arange(k)
    for max_leaf in (None, 10, 3):
        shape = choose_shape(k, 40_000, 100_000, max_leaf=max_leaf)
        tree = RandomSplit(max_leaf=shape.max_leaf, random_state=0).build(X, y)
        tree = tree.limit(max_children=shape.max_children)
        assert tree.depth == shape.n_levels
        assert np.diff(tree.child_ptr).max() <= shape.max_children
        size = tree.class_sets.stop - tree.class_sets.start
        assert size[tree.is_leaf].max() <= shape.max_leaf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_classes": 0}, "^n_classes must be an integer of"),
        ({"n_samples": 2.5}, "^n_samples must be an integer of"),
        ({"n_features": None}, "^n_features must be an integer of"),
        ({"n_entries": -1}, "^n_entries must be an integer of"),
        ({"max_leaf": 0}, "^max_leaf must be an integer of"),
        ({"max_bytes": 0}, "^max_bytes must be a number in .0, inf"),
        ({"max_bytes": np.nan}, "^max_bytes must be a number in .0, inf"),
    ],
)
def test_bad_sizes_of_shapes(change, message):
    given = {"n_classes": 10, "n_samples": 100, "n_features": 5} | change
    with pytest.raises(ValueError, match=message):
        choose_shape(**given)
