"""Hierarchical precision, recall and F1: HiClass's numbers, trees, bad input."""

import warnings

import numpy as np
import pytest
from _cases import all_pairs
from numpy.testing import assert_allclose
from sklearn.exceptions import UndefinedMetricWarning

from sklstruct.metrics import (
    hierarchical_f1_score,
    hierarchical_precision_score,
    hierarchical_recall_score,
)
from sklstruct.taxonomy import Taxonomy

SCORES = {
    "precision": hierarchical_precision_score,
    "recall": hierarchical_recall_score,
    "f1": hierarchical_f1_score,
}


def random_paths(rng, n, depth=4, branch=3):
    """Paths down a tree in which every node has its own name."""
    paths = []
    for _ in range(n):
        path, name = [], "n"
        for _ in range(rng.integers(1, depth + 1)):
            name += str(rng.integers(branch))
            path.append(name)
        paths.append(path)
    return paths


@pytest.mark.parametrize(
    *all_pairs(average=["micro", "macro"], name=SCORES, seed=range(2))
)
def test_equals_hiclass(name, average, seed):
    hiclass = pytest.importorskip("hiclass.metrics")
    rng = np.random.default_rng(seed)
    true = random_paths(rng, 60)
    predicted = [p[: rng.integers(1, len(p) + 1)] for p in true[:30]]
    predicted += random_paths(rng, 30)
    assert_allclose(
        SCORES[name](true, predicted, average=average),
        getattr(hiclass, name)(true, predicted, average),
        rtol=1e-12,
    )


def test_by_hand():
    # from HiClass's own tests
    y_true, y_pred = [[1, 2, 3, 4], [1, 2, 5, 6]], [[1, 5, 6, 7], [1, 2, 3, 4]]
    assert hierarchical_precision_score(y_true, y_pred, average="macro") == 0.375
    short, long = [[1, 2], [1, 2]], [[1, 5, 6, 7], [1, 2, 3, 4]]
    assert hierarchical_recall_score(short, long, average="macro") == 0.75
    assert hierarchical_recall_score(long, short, average="macro") == 0.375
    assert hierarchical_precision_score([1, 2, 3, 4], [1, 2, 5, 6]) == 0.5
    y_true, y_pred = [[1, 2, 3, 4], [1, 2, 5, 6]], [[1, 2, 5, 6], [1, 2, 3, 4]]
    for score in SCORES.values():
        assert score(y_true, y_pred) == 0.5 and score(y_true, y_true) == 1
    assert hierarchical_recall_score(short, y_pred) == 1
    assert hierarchical_recall_score(y_pred, short) == 0.5
    # two groups of one name are two
    assert hierarchical_f1_score([["a", "x"]], [["b", "x"]]) == 0.0


@pytest.mark.parametrize("name", SCORES)
def test_weights_are_repetitions(name):
    rng = np.random.default_rng(0)
    true, predicted = random_paths(rng, 20), random_paths(rng, 20)
    weight = rng.integers(0, 4, size=20)
    for average in ("micro", "macro"):
        repeated = [
            [p for p, w in zip(paths, weight) for _ in range(w)]
            for paths in (true, predicted)
        ]
        assert_allclose(
            SCORES[name](true, predicted, average=average, sample_weight=weight),
            SCORES[name](*repeated, average=average),
        )


def test_labels_of_a_tree_are_paths():
    tree = Taxonomy.from_nested([["a", "b"], [["c"], ["d", "e"]], ["f"]])
    paths = {
        "a": [1, "a"],
        "b": [1, "b"],
        "c": [2, "c"],
        "d": [2, 3, "d"],
        "e": [2, 3, "e"],
        "f": ["f"],
    }
    rng = np.random.default_rng(0)
    true, predicted = rng.choice([*"abcdef"], size=(2, 200))
    for score in SCORES.values():
        for average in ("micro", "macro"):
            assert_allclose(
                score(true, predicted, taxonomy=tree, average=average),
                score(
                    [[str(v) for v in paths[c]] for c in true],
                    [[str(v) for v in paths[c]] for c in predicted],
                    average=average,
                ),
            )
    flat = Taxonomy.flat([*"abcdef"])
    assert_allclose(
        hierarchical_f1_score(true, predicted, taxonomy=flat),
        (true == predicted).mean(),
    )
    assert hierarchical_f1_score(["a"], ["b"], taxonomy=tree) == 0.5
    with pytest.raises(ValueError, match="^taxonomy must be a Taxonomy"):
        hierarchical_f1_score(["a"], ["b"], taxonomy=[["a"], ["b"]])
    with pytest.raises(ValueError, match="^y_pred has the label 'z'"):
        hierarchical_f1_score(["a"], ["z"], taxonomy=tree)


def test_nothing_over_nothing():
    root, node = [["", ""]], [["a", ""]]
    for zero_division, expected in ((0.0, 0.0), (1.0, 1.0), (np.nan, np.nan)):
        assert_allclose(
            hierarchical_precision_score(node, root, zero_division=zero_division),
            expected,
        )
    with pytest.warns(UndefinedMetricWarning, match="precision is 0 / 0"):
        assert hierarchical_precision_score(node, root) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hierarchical_recall_score(node, root) == 0
        assert hierarchical_f1_score(node, root) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_true": [["a"], ["b"]]}, "inconsistent numbers of samples: 2 and 1"),
        ({"y_true": [["", "b"]]}, "^y_true.*leaves out level 0"),
        ({"y_pred": [[["a"], ["b"]]]}, "^y_pred has more than two dimensions"),
        ({"y_pred": np.empty((0, 2))}, "^y_pred holds no paths"),
        ({"y_true": None}, "^y_true is None"),
        ({"y_true": [[1, 2]]}, "^level 0 has numbers in one of.*label_paths"),
        ({"y_pred": [["a", 2]]}, "^level 1 has numbers in one of"),
        ({"average": "weighted"}, "^The 'average' parameter"),
        ({"zero_division": 2}, "^The 'zero_division' parameter"),
        ({"sample_weight": [0.0]}, "at least one non-zero"),
        ({"sample_weight": [-1.0]}, "[Nn]egative"),
    ],
)
def test_bad_input(change, message):
    given = {"y_true": [["a", "b"]], "y_pred": [["a", "c"]]} | change
    with pytest.raises(ValueError, match=message):
        hierarchical_precision_score(**given)
