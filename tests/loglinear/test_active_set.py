"""Active sets: the optimum of the whole tree, of which a part is built."""

import numpy as np
import pytest
from _callbacks import StopAfter, needs_callbacks
from _cases import all_pairs
from _loglinear import loglinear
from _oracles import random_corpus

from sklstruct.context_tree import SuffixTreeVectorizer
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import L1, L2, ElasticNet, TreeL2, TreeLinf

PENALTIES = [TreeL2(), TreeLinf(), L1(), ElasticNet(gamma=0.5)]


def both(penalty, lam, **params):
    """The model that grows, and the one on the whole tree."""
    shared = {
        "penalty": penalty, "lam": lam, "alpha": 0.9, "depth_weight": 1.1,
        "max_iter": 20000, "tol": 1e-6, **params,
    }  # fmt: skip
    grown = loglinear(solver="active_set", **shared)
    return grown, loglinear(**shared)


def support(model):
    """{(context, class)} of the pairs below the root that have a weight."""
    backoff = model.backoff_model_
    contexts = [tuple(c.tolist()) for c in backoff.tree.contexts()]
    pairs = zip(backoff.pairs.nodes().tolist(), backoff.pairs.target.tolist())
    some = model.coef_ != 0.0
    return {(contexts[n], y) for (n, y), keep in zip(pairs, some) if n > 0 and keep}


@pytest.mark.parametrize(
    *all_pairs(penalty=PENALTIES, lam=[0.7, 2.0, 6.0], of_root=[1.0, 0.0])
)
def test_the_grown_tree_has_the_optimum_of_the_whole_tree(penalty, lam, of_root):
    X, y = random_corpus(4, 6, 500, 4)
    weight = np.random.default_rng(1).random(y.size) * 2 + 0.1
    depth_weight = [of_root, *1.1 ** np.arange(1, 7)]
    grown, whole = both(penalty, lam, padding=-1, depth_weight=depth_weight)
    for model in (grown, whole):
        model.fit(X, y, sample_weight=weight)
    assert grown.objective_[-1] == pytest.approx(whole.objective_[-1], rel=1e-8)
    assert grown.optimality_ <= grown.solver.tol  # not ten times that
    assert support(grown) == support(whole)
    assert grown.n_parameters_ == whole.n_parameters_
    assert grown.backoff_model_.check_normalized() < 1e-10
    np.testing.assert_allclose(
        grown.predict_proba(X[:50]), whole.predict_proba(X[:50]), atol=1e-4
    )


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_a_child_may_have_a_weight_where_the_parent_may_not(penalty):
    """The strength of the long contexts is far below that of the short ones."""
    X, y = random_corpus(4, 6, 500, 4)
    depth_weight = [1.0, 40.0, 0.3, 0.2, 0.1, 0.1, 0.1]
    grown, whole = both(penalty, 1.5, padding=-1, depth_weight=depth_weight, tol=1e-5)
    for model in (grown, whole):
        model.fit(X, y)
    assert grown.objective_[-1] == pytest.approx(whole.objective_[-1], rel=1e-6)
    assert grown.n_pairs_built_ > 4


@pytest.mark.parametrize("n", [300, 1000])
@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_most_of_a_text_is_never_built(penalty, n):
    topics = load_python_topics()[:n]
    built = []
    for lam in (1.5, 3.0, 6.0):
        grown, whole = both(penalty, lam, tol=1e-5)
        models = [LanguageModel(m, max_depth=3).fit(topics) for m in (grown, whole)]
        a, b = (lm.estimator_ for lm in models)
        assert a.objective_[-1] == pytest.approx(b.objective_[-1], rel=1e-7)
        assert models[0].perplexity(topics[:99]) == pytest.approx(
            models[1].perplexity(topics[:99]), rel=1e-3
        )
        assert a.n_parameters_ <= a.n_pairs_built_ <= b.coef_.size
        assert a.n_nodes_built_ <= b.backoff_model_.tree.n_nodes
        built.append(a.n_pairs_built_ / b.coef_.size)
    assert built == sorted(built, reverse=True)
    assert built[-1] < 0.5


def test_without_a_penalty_all_of_the_tree_is_built():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    grown, whole = both(L1(), 0.0, padding=-1)
    for model in (grown, whole):
        model.fit(np.roll(y, 1)[:, None], y)
    assert grown.objective_[-1] == pytest.approx(whole.objective_[-1], rel=1e-8)
    assert grown.n_nodes_built_ == 4


def test_a_strong_penalty_builds_the_root_alone():
    topics = load_python_topics()[:100]
    grown, _ = both(TreeL2(), 1e4)
    model = LanguageModel(grown, max_depth=3).fit(topics).estimator_
    assert support(model) == set() and model.n_nodes_built_ == 1
    assert model.n_pairs_built_ == model.classes_.size


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_histories_that_are_all_padding_have_no_context(penalty):
    X, y = np.full((6, 2), -1), [0, 1, 1, 2, 1, 0]
    grown, whole = (m.fit(X, y) for m in both(penalty, 0.5, padding=-1))
    assert grown.objective_[-1] == pytest.approx(whole.objective_[-1], rel=1e-9)
    np.testing.assert_allclose(
        grown.predict_proba(X), whole.predict_proba(X), atol=1e-6
    )


def test_windows_and_paths_give_one_model():
    X, y = random_corpus(5, 5, 300, 3)
    grown, _ = both(TreeL2(), 1.5, padding=-1)
    dense = grown.fit(X, y)
    vectorizer = SuffixTreeVectorizer(max_depth=3, padding=-1)
    paths = both(TreeL2(), 1.5)[0].fit(vectorizer.fit_transform(X), y)
    collapsed = SuffixTreeVectorizer(max_depth=3, padding=-1, collapse=True)
    merged = both(TreeL2(), 1.5)[0].fit(collapsed.fit_transform(X), y)
    expected = dense.predict_proba(X)
    for model, data in (
        (paths, vectorizer.transform(X)),
        (merged, collapsed.transform(X)),
    ):
        assert model.n_parameters_ == dense.n_parameters_
        np.testing.assert_allclose(model.predict_proba(data), expected, atol=1e-5)


def test_an_active_set_has_no_batches():
    with pytest.raises(AttributeError, match="partial_fit"):
        loglinear(solver="active_set").partial_fit([[0], [1]], [0, 1])


def test_weights_are_repetitions():
    X, y = random_corpus(6, 5, 200, 3)
    times = np.random.default_rng(0).integers(0, 3, y.size)
    weighted = both(TreeLinf(), 1.0, padding=-1)[0].fit(
        X, y, sample_weight=times.astype(float)
    )
    repeated = both(TreeLinf(), 1.0, padding=-1)[0]
    repeated.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighted.objective_[-1] == pytest.approx(repeated.objective_[-1], rel=1e-9)


@pytest.mark.parametrize(
    "params, match",
    [
        ({"penalty": L2()}, "absolute term"),
        ({"penalty": L1(count_weight=[1.0, 2.0])}, "^solver=.*: count_weight"),
        ({"positive": False, "penalty": L1()}, "it needs positive=True"),
    ],
)
def test_bad_parameters_of_active_sets(params, match):
    model = loglinear(**{"solver": "active_set", **params})
    with pytest.raises(ValueError, match=match):
        model.fit([[0], [1]], [0, 1])


def test_few_iterations_are_said():
    X, y = random_corpus(4, 6, 500, 4)
    model = loglinear(
        penalty="tree_l2", solver="active_set", lam=0.5, max_iter=2, tol=1e-9
    )
    with pytest.warns(UserWarning, match="max_iter"):
        model.set_params(padding=-1).fit(X, y)


@needs_callbacks
def test_iterations_are_reported_and_can_stop_the_growth(capsys):
    X, y = random_corpus(4, 6, 500, 4)
    model = loglinear(
        penalty="tree_l2", solver="active_set", lam=0.5, padding=-1, verbose=1
    )
    n_iter = model.fit(X, y).n_iter_
    assert capsys.readouterr().out.count("[StructuredLogLinearLM]") == n_iter
    model.set_callbacks(StopAfter("iteration", 3))
    assert model.fit(X, y).n_iter_ <= 3 < n_iter
    assert model.backoff_model_.check_normalized() < 1e-10
