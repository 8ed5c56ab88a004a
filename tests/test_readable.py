"""The readable programs of examples/readable give the numbers of the package."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from _loglinear import loglinear
from _nodes import logistic
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits

from sklstruct import HierarchicalClassifier, LanguageModel
from sklstruct.datasets import load_python_topics

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "readable"


def program(name):
    return runpy.run_path(str(FOLDER / f"{name}.py"))


@pytest.mark.parametrize("order", [5, 2])
def test_kneser_ney(order):
    text = load_python_topics()[:1500]
    train, test = text[:1200], text[1200:]
    twin = program("kneser_ney")["KneserNey"](train, order)
    model = LanguageModel("fast", max_depth=order - 1).fit(train)
    assert_allclose(twin.perplexity(test), model.perplexity(test), rtol=1e-12)


@pytest.mark.parametrize("norm", ["tree_l2", "tree_linf"])
@pytest.mark.parametrize("alpha", [1.2, 0.7])
def test_tree_penalty(norm, alpha):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(200, 3))
    y = np.where(rng.random(200) < 0.7, X[:, -1], rng.integers(0, 5, size=200))
    model = loglinear(penalty=norm, lam=0.5, alpha=alpha, depth_weight=1.0)
    model.fit(X, y)
    backoff = model.backoff_model_
    contexts = [tuple(backoff.labels.symbols[c]) for c in backoff.tree.contexts()]
    of = backoff.labels.classes[backoff.pairs.target].tolist()
    weights = {
        (contexts[node], k): w
        for node, k, w in zip(backoff.pairs.nodes(), of, model.coef_)
    }
    twin = program("tree_penalty")
    found = twin["objective"](
        weights, model.classes_.tolist(), [tuple(row) for row in X], y.tolist(),
        lam=0.5, alpha=alpha, norm=norm,
    )  # fmt: skip
    assert 0 < model.n_parameters_ < model.coef_.size
    assert_allclose(found, model.objective_[-1], rtol=1e-12)
    history = (2, 0, 1)
    expected = model.predict_log_proba([history])[0]
    got = twin["log_probabilities"](weights, model.classes_.tolist(), history, alpha)
    assert_allclose(got, expected, atol=1e-12)


def test_taxonomy_posterior():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    tree = [[0, 6], [[1, 4, 7], [2, 3]], [5, [8, 9]]]
    model = HierarchicalClassifier(tree, estimator=logistic()).fit(X[:1200], y[:1200])
    forest, weights = model.forest_, {}

    def collect(node, given, path):
        """The children of a node of the package stand in the order of the list."""
        row = forest.row[node]
        n_rows = 1 if len(given) == 2 else len(given)
        rows = slice(row, row + n_rows)
        weights[path] = model.coef_[rows], model.intercept_[rows]
        for k, child in enumerate(np.flatnonzero(forest.parent == node).tolist()):
            if isinstance(given[k], list):
                collect(child, given[k], (*path, k))

    collect(0, tree, ())
    twin = program("taxonomy_posterior")
    proba = model.predict_proba(X[1200:1250])
    evaluated = []
    for x, expected in zip(X[1200:1250], proba):
        found = twin["posterior"](tree, weights, x)
        assert_allclose([found[k] for k in range(10)], expected, atol=1e-12)
        best, p, n_nodes = twin["most_probable"](tree, weights, x)
        assert best == expected.argmax()
        assert_allclose(p, expected.max(), rtol=1e-12)
        evaluated.append(n_nodes)
    assert np.mean(evaluated) < len(weights)
