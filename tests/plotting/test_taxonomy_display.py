"""Displays of taxonomies."""

from itertools import pairwise

import numpy as np
import pytest
from _nodes import logistic
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse as sp
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklstruct.hierarchical import HierarchicalClassifier
from sklstruct.plotting import TaxonomyDisplay
from sklstruct.plotting._taxonomy import _node_accuracy
from sklstruct.taxonomy import Taxonomy

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

NESTED = [[0, 6], [[1, 8], [2, 3]], [[4], [5, 7, 9]]]


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:800] / 16, y[:800]


@pytest.fixture(scope="module")
def model(digits):
    X, y = digits
    return HierarchicalClassifier(NESTED, estimator=logistic(C=0.01)).fit(
        X[:500], y[:500]
    )


@pytest.mark.parametrize("name", ["$1 to $2", r"$\frac{$", "a $5 b", r"\$"])
def test_dollar_signs_are_not_read_as_formulas(name):
    tree = Taxonomy.from_nested({name: [name + "a", name + "b"], "other": ["c", "d"]})
    display = TaxonomyDisplay(tree).plot()
    display.figure_.canvas.draw()  # a broken formula would raise
    texts = [*display.labels_, *display.names_]
    assert {name, name + "a", name + "b"} <= {text.get_text() for text in texts}
    assert not any(text.get_parse_math() for text in texts)


def test_node_accuracy_by_hand():
    tree = Taxonomy.from_nested([["a", "b"], [["c"], ["d"]]])
    proba = np.array(
        [
            [0.4, 0.1, 0.3, 0.2],  # a: right everywhere
            [0.4, 0.1, 0.3, 0.2],  # b: right at the root, wrong in the leaf
            [0.4, 0.1, 0.3, 0.2],  # d: wrong at the root and below
            [0.3, 0.1, 0.25, 0.35],  # d: right twice, though a beats c
            [0.5, 0.1, 0.3, 0.1],  # a: right everywhere
        ]
    )
    accuracy, count = _node_accuracy(tree, proba, np.array([0, 1, 3, 3, 0]))
    display = TaxonomyDisplay(tree, node_accuracy=accuracy, node_count=count).plot()
    # nodes: root, leaf {a, b}, node {c, d}, leaf c, leaf d
    assert_allclose(display.node_accuracy, [4 / 5, 2 / 3, 1 / 2, np.nan, np.nan])
    assert_array_equal(display.node_count, [5, 3, 2, 0, 2])
    assert display.nodes_.get_offsets().shape[0] == 3


def test_from_estimator(model, digits):
    X, y = digits
    display = TaxonomyDisplay.from_estimator(model, X[500:], y[500:])
    assert display.node_count[0] == 300
    right = model.predict_proba(X[500:])
    order, start, stop = model.taxonomy_.class_sets
    mass = np.column_stack(
        [
            right[:, order[start[v] : stop[v]]].sum(1)
            for v in model.taxonomy_.children(0)
        ]
    )
    child = np.array(
        [
            next(
                i
                for i, v in enumerate(model.taxonomy_.children(0))
                if c in model.taxonomy_.classes_below(v)
            )
            for c in y[500:]
        ]
    )
    assert display.node_accuracy[0] == (mass.argmax(1) == child).mean()
    assert [t.get_text() for t in display.labels_] == [str(c) for c in order]
    # unknown labels are left out
    again = TaxonomyDisplay.from_estimator(
        model, X[500:], np.where(y[500:] == 3, 99, y[500:])
    )
    assert again.node_count[0] == (y[500:] != 3).sum()
    with pytest.raises(ValueError, match="no label"):
        TaxonomyDisplay.from_estimator(model, X[:5], np.full(5, 77))


def test_from_estimator_with_a_pipeline(digits):
    X, y = digits
    pipeline = make_pipeline(
        StandardScaler(), HierarchicalClassifier(NESTED, estimator=logistic(C=0.01))
    )
    pipeline.fit(X[:500], y[:500])
    display = TaxonomyDisplay.from_estimator(pipeline, X[500:], y[500:])
    direct = TaxonomyDisplay.from_estimator(
        pipeline[-1], pipeline[:-1].transform(X[500:]), y[500:]
    )
    assert_array_equal(display.node_accuracy, direct.node_accuracy)
    texts = [f"class{k} word{i % 7}" for i, k in enumerate(y)]
    reader = make_pipeline(TfidfVectorizer(), HierarchicalClassifier(NESTED))
    display = TaxonomyDisplay.from_estimator(reader.fit(texts, y), texts, y)
    assert display.node_accuracy[0] == 1.0 and display.node_count[0] == len(y)


@pytest.mark.parametrize("kind", [list, sp.coo_array, sp.csc_array, sp.csr_matrix])
def test_from_estimator_takes_kinds_of_x(model, digits, kind):
    X, y = digits[0][500:], digits[1][500:]
    expected = TaxonomyDisplay.from_estimator(model, X, y)
    other = X.tolist() if kind is list else kind(X)
    display = TaxonomyDisplay.from_estimator(model, other, y.tolist())
    assert_array_equal(display.node_accuracy, expected.node_accuracy)


def test_estimators_that_do_not_fit(model, digits):
    X, y = digits
    unfitted = HierarchicalClassifier(NESTED)
    for estimator in (unfitted, make_pipeline(StandardScaler(), unfitted)):
        with pytest.raises(NotFittedError):
            TaxonomyDisplay.from_estimator(estimator, X, y)
    flat = LogisticRegression()
    for estimator in (flat, make_pipeline(StandardScaler(), flat)):
        with pytest.raises(ValueError, match="estimator must be a Hierarchical"):
            TaxonomyDisplay.from_estimator(estimator, X, y)
    with pytest.raises(ValueError, match="tree must be an integer from 0 to 0, got 1"):
        TaxonomyDisplay.from_estimator(model, X, y, tree=1)
    Y = np.eye(10, dtype=int)[y]
    several = HierarchicalClassifier(NESTED).fit(X, Y)
    with pytest.raises(ValueError, match="from_estimator is for one label per sample"):
        TaxonomyDisplay.from_estimator(several, X, Y)


def test_layout_is_a_tree(model):
    tree = model.taxonomy_
    display = TaxonomyDisplay(tree).plot()
    x, y, rows = display._layout()
    assert_array_equal(x, tree.level_of_node)
    assert sorted(rows) == list(range(10))
    for v in range(tree.n_nodes):
        below = rows[tree.classes_below(v)]
        assert below.min() <= y[v] <= below.max()
        assert np.ptp(below) == below.size - 1  # no branch crosses another
    assert display.nodes_ is None


def test_the_tree_alone(model):
    tree = model.taxonomies_[0]
    display = TaxonomyDisplay(tree).plot()
    assert display.nodes_ is None and display.names_ == []
    names = [text.get_text() for text in display.labels_]
    assert names == [str(c) for c in tree.classes[tree.class_sets.order]]


def test_readable_at_150_classes():
    rng = np.random.default_rng(0)
    names = np.array([f"intent_number_{i:03d}" for i in range(150)])
    nested = [
        [[str(n)] for n in part] for part in np.array_split(rng.permutation(names), 10)
    ]
    display = TaxonomyDisplay(Taxonomy.from_nested(nested)).plot()
    assert len(display.labels_) == 150
    display.figure_.canvas.draw()
    boxes = [text.get_window_extent() for text in display.labels_]
    assert display.labels_[0].get_size() >= 5
    for above, below in pairwise(boxes):
        assert below.y1 <= above.y0 + 1  # pixels
    width = display.figure_.bbox.width
    assert max(box.x1 for box in boxes) <= width


def test_few_ticks_along_a_chain():
    nested = [149]
    for k in range(148, -1, -1):
        nested = [[k], nested]
    display = TaxonomyDisplay(Taxonomy.from_nested(nested)).plot()
    display.figure_.canvas.draw()
    ticks = display.ax_.get_xticks()
    assert 4 <= len(ticks) <= 11 and ticks[0] == 0 and ticks[-1] <= 149
    assert_array_equal(ticks, np.round(ticks))
    boxes = [text.get_window_extent() for text in display.ax_.get_xticklabels()]
    for left, right in pairwise(boxes):
        assert left.x1 < right.x0
    small = TaxonomyDisplay(Taxonomy.from_nested(NESTED)).plot()
    assert_array_equal(small.ax_.get_xticks(), [0, 1, 2])


def test_too_many_classes_for_given_axes():
    tree = Taxonomy.from_nested([[i] for i in range(2000)])
    _, ax = plt.subplots(figsize=(4, 3))
    display = TaxonomyDisplay(tree).plot(ax=ax)
    assert display.labels_ == []
    assert display.ax_ is ax


def test_flat_and_single():
    for nested in ([[1, 2, 3]], [1]):
        display = TaxonomyDisplay(Taxonomy.from_nested(nested)).plot()
        assert len(display.labels_) == len(np.ravel(nested))


def test_bad_arguments(model):
    tree = model.taxonomy_
    with pytest.raises(ValueError, match="labels must have"):
        TaxonomyDisplay(tree).plot(labels=["a"])
    with pytest.raises(ValueError, match="node_accuracy must have"):
        TaxonomyDisplay(tree, node_accuracy=[0.5]).plot()
    with pytest.raises(ValueError, match="^taxonomy must be a Taxonomy, got list"):
        TaxonomyDisplay([[1], [2]]).plot()


def test_names_of_groups_are_drawn():
    nested = {
        "animal": {"mammal": ["cat", "dog"], "bird": ["duck"]},
        "vehicle": {"road": ["bus", "car"]},
    }
    tree = Taxonomy.from_nested(nested)
    display = TaxonomyDisplay(tree).plot()
    found = {text.get_text(): text.xy for text in display.names_}
    # a chain is one node, called by the lowest name
    assert set(found) == {"animal", "mammal", "bird", "road"}
    x, y, _ = display._layout()
    for name, at in found.items():
        v = tree.names.index(name)
        assert at == (x[v], y[v])
    assert TaxonomyDisplay(Taxonomy.from_nested(NESTED)).plot().names_ == []
    # names do not meet each other nor the labels
    display.figure_.draw_without_rendering()
    boxes = [text.get_window_extent() for text in (*display.names_, *display.labels_)]
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:i])
