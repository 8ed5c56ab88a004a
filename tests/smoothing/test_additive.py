"""Additive smoothing against its formula."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp

from sklstruct import SuffixTreeVectorizer
from sklstruct.context_tree import Pairs, tree_of_paths
from sklstruct.smoothing import AdditiveLM
from sklstruct.smoothing.ngram import _additive as module


def corpus(seed=0, n_symbols=5, n=300, width=3):
    rng = np.random.default_rng(seed)
    y = rng.choice(n_symbols, size=n, p=rng.dirichlet(np.full(n_symbols, 0.5)))
    X = np.full((n, width), -1)
    for k in range(1, width + 1):
        X[k:, width - k] = y[:-k]
    return X, y


def expected_row(X, y, weight, context, classes, delta, base=None):
    """The formula, at the longest suffix of `context` seen in training."""
    for k in range(len(context), -1, -1):
        suffix = context[len(context) - k :]
        hit = (X[:, X.shape[1] - k :] == suffix).all(axis=1) & (weight > 0)
        if hit.any() and (suffix >= 0).all():
            break
    count = Counter()
    for target, w in zip(y[hit], weight[hit]):
        count[target] += w
    V = len(classes)
    base = np.full(V, 1 / V) if base is None else base
    top = np.array([count[c] for c in classes]) + delta * V * base
    return top / top.sum()


@pytest.mark.parametrize("delta", [0.01, 3.0])
def test_equals_the_formula(delta):
    X, y = corpus()
    classes = list(range(7))  # two are never seen
    weight = np.random.default_rng(1).choice([0, 1, 2, 0.3], size=y.size)
    model = AdditiveLM(delta=delta, padding=-1, classes=classes)
    model.fit(X, y, sample_weight=weight)
    contexts = np.concatenate([X, np.random.default_rng(2).integers(0, 8, (100, 3))])
    got = model.predict_proba(contexts)
    np.testing.assert_allclose(got.sum(axis=1), 1, atol=1e-12)
    for row, context in zip(got, contexts):
        np.testing.assert_allclose(
            row, expected_row(X, y, weight, context, classes, delta), rtol=1e-11
        )


def test_equals_nltk():
    """nltk's Lidstone at contexts seen in training; it has 1/V at the others."""
    lm = pytest.importorskip("nltk.lm")
    rng = np.random.default_rng(0)
    text = rng.choice(list("abcd"), size=60)
    windows = np.lib.stride_tricks.sliding_window_view(text, 3)
    X, y = windows[:, :-1], windows[:, -1]
    classes = sorted(set(text.tolist()))
    model = AdditiveLM(delta=0.2, classes=classes).fit(X, y)
    peer = lm.Lidstone(0.2, 3)
    peer.fit([[tuple(map(str, w)) for w in windows]], vocabulary_text=classes[:-1])
    assert len(peer.vocab) == len(classes)  # nltk adds its unknown word
    for context, row in zip(X[:20], model.predict_proba(X[:20])):
        for c, p in zip(classes[:-1], row):
            assert p == pytest.approx(peer.score(c, context.tolist()), rel=1e-12)


def test_base_replaces_the_uniform_distribution():
    class Fixed:
        def get_params(self, deep=False):
            return {}

        def from_counts(self, counts, classes):
            self.proba_ = np.array([0.5, 0.2, 0.1, 0.1, 0.1])
            return self

    X, y = corpus()
    model = AdditiveLM(delta=0.3, padding=-1, base=Fixed(), classes=range(5)).fit(X, y)
    base = Fixed().from_counts(None, None).proba_
    for context, row in zip(X[:50], model.predict_proba(X[:50])):
        expected = expected_row(X, y, np.ones(y.size), context, range(5), 0.3, base)
        np.testing.assert_allclose(row, expected, rtol=1e-12)


@pytest.mark.parametrize("collapse", [False, True])
def test_path_matrix_gives_the_same_model(collapse):
    # Contexts merged in a collapsed column have equal counts, thus equal rows.
    X, y = corpus(n=60)
    vectorizer = SuffixTreeVectorizer(max_depth=3, padding=-1, collapse=collapse)
    paths = vectorizer.fit_transform(X)
    dense = AdditiveLM(padding=-1).fit(X, y)
    sparse = AdditiveLM().fit(paths, y)
    test = np.random.default_rng(0).integers(0, 5, (100, 3))
    np.testing.assert_allclose(
        dense.predict_proba(test),
        sparse.predict_proba(vectorizer.transform(test)),
        rtol=1e-13,
    )


def test_parent_pairs_are_consistent():
    X, y = corpus()
    paths = SuffixTreeVectorizer(max_depth=3, padding=-1).fit_transform(X)
    tree, terminal, _ = tree_of_paths(sp.csr_array(paths))
    pairs, count = Pairs.count(tree, terminal, y.astype(np.int32), 7)
    new, more = module.with_parent_pairs(pairs, count)
    node = new.nodes()
    below = node > 0
    np.testing.assert_array_equal(new.target[new.parent[below]], new.target[below])
    np.testing.assert_array_equal(node[new.parent[below]], tree.parent[node[below]])
    np.testing.assert_array_equal(new.node_sums(more), pairs.node_sums(count))
    assert new == Pairs(tree, new.ptr, new.target)  # in order
    # The pairs that were given are as they were.
    assert pairs.ptr[-1] == count.size < more.size


@pytest.mark.parametrize("delta", [0.3, 4.0])
def test_log_prior_is_that_of_the_rows_of_the_longest_contexts(delta):
    X, y = corpus()
    X, y = X[X.shape[1] :], y[X.shape[1] :]  # whole contexts, none of which is longer
    model = AdditiveLM(delta=delta, classes=range(7)).fit(X, y)
    rows = model.predict_proba(np.unique(X, axis=0))
    assert model.log_prior() == pytest.approx(delta * np.log(rows).sum(), rel=1e-12)


def test_too_many_pairs_are_refused_before_they_are_made(monkeypatch):
    X, y = corpus()
    monkeypatch.setattr(module.with_parent_pairs, "__defaults__", (100,))
    with pytest.raises(ValueError, match="Lower max_depth"):
        AdditiveLM(padding=-1).fit(X, y)
    AdditiveLM(max_depth=1, padding=-1).fit(X, y)


@pytest.mark.parametrize("delta", [0, -1, "x", None])
def test_bad_delta(delta):
    with pytest.raises(ValueError, match="delta"):
        AdditiveLM(delta=delta).fit([[0], [1]], [0, 1])
