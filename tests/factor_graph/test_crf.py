"""The conditional likelihood: enumeration, finite differences, CRFsuite."""

import itertools
import math
import pickle
import re
import warnings
from collections import UserDict

import numpy as np
import pytest
from _cases import all_pairs, each_value
from scipy.optimize import approx_fprime
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict

from sklstruct import TRUSTED_TYPES
from sklstruct.factor_graph import (
    ConditionalRandomField,
    FactorGraph,
    SampleRankClassifier,
    chain_graph,
)
from sklstruct.factor_graph import _inference as inference
from sklstruct.factor_graph._conditional import ConditionalLikelihood, duality_gap
from sklstruct.factor_graph._pack import Packed, WeightLayout
from sklstruct.symbols import object_array


def problem(tools, seed, shape, constraints=False, n=6, **kwargs):
    """Random graphs without loops, and labels drawn from their allowed states."""
    rng = np.random.default_rng(seed)
    graphs, y = [], []
    while len(graphs) < n:
        try:
            graph = tools.make_graph(
                rng, n=int(rng.integers(1, 6)), shape=shape, constraints=constraints,
                **kwargs,
            )  # fmt: skip
        except ValueError:  # constraints that leave nothing
            continue
        every = list(tools.states(graph))
        graphs.append(graph)
        y.append(graph.decode(every[rng.integers(len(every))]).tolist())
    return graphs, y


def enumerated(tools, graph, coef, layout):
    """States, their log-probabilities and feature vectors, by the formula."""
    states = tools.states(graph)
    types = {t: tools.types[t] for t in layout.edge_types}
    phi = tools.feature_vectors(graph, states, layout.kinds, types)
    score = phi @ coef
    return states, score - logsumexp(score), phi


def likelihood(graphs, y):
    layout = WeightLayout.of(graphs)
    truth = np.concatenate([g.encode(row) for g, row in zip(graphs, y)])
    return layout, ConditionalLikelihood(
        Packed(graphs, layout), graphs, truth, np.ones(len(graphs)), (0, 0),
        lambda f, items: list(map(f, items)),
    )  # fmt: skip


@pytest.mark.parametrize(
    *all_pairs(budget=[30, 10**6], shape=["chain", "tree"], constraints=[False, True])
)
def test_value_gradient_and_marginals_are_enumeration(
    tools, shape, constraints, budget, monkeypatch
):
    monkeypatch.setattr("sklstruct.factor_graph._conditional.BUDGET", budget)
    for seed in range(4):
        graphs, y = problem(tools, seed, shape, constraints)
        layout, loss = likelihood(graphs, y)
        coef = np.random.default_rng(seed).normal(size=layout.n_weights)
        value, gradient = loss.value_and_gradient(coef)
        wanted, slope = 0.0, np.zeros(layout.n_weights)
        model = ConditionalRandomField().fit(graphs, y)
        model.coef_[:] = coef
        proba = model.predict_proba(graphs)
        each = model.target_log_proba(graphs, y)
        for i, (graph, row) in enumerate(zip(graphs, y)):
            states, log_p, phi = enumerated(tools, graph, coef, layout)
            at = [tuple(s) for s in states].index(tuple(graph.encode(row)))
            wanted -= log_p[at]
            assert each[i] == pytest.approx(log_p[at], abs=1e-10)
            slope += np.exp(log_p) @ phi - phi[at]
            for v in range(graph.n_variables):
                share = np.zeros(len(graph.candidates[v]))
                np.add.at(share, [s[v] for s in states], np.exp(log_p))
                np.testing.assert_allclose(proba[i][v], share, atol=1e-11)
            best = model.predict([graph])[0].tolist()
            assert log_p[[tuple(s) for s in states].index(tuple(graph.encode(best)))] \
                == pytest.approx(log_p.max(), abs=1e-10)  # fmt: skip
        assert value == pytest.approx(wanted, abs=1e-9)
        np.testing.assert_allclose(gradient, slope, atol=1e-9)


@pytest.mark.parametrize("forbidden", [[], [("a", "a"), ("c", "d")]])
def test_edges_share_a_table_only_if_it_is_the_same(forbidden):
    """One type of edge: other values of its feature, constraints, kinds, directions."""
    first, second = ["a", "b"], ["c", "d"]
    kinds = ["x", "y"]
    edges = [(0, 1), (1, 2), (3, 2), (3, 4), (5, 4), (5, 6), (6, 7)]
    value = [1.0, -2.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    graph = FactorGraph(
        [first, first, first, second, second, first[::-1], first, first],
        kinds=[kinds] * 6 + [kinds[::-1], kinds],
        edges={"next": edges},
        edge_features={"next": np.array(value)[:, None]},
        forbidden={"next": forbidden} if forbidden else None,
    )
    model = ConditionalRandomField(min_count=0).fit([graph], [list("abbddbab")])
    table = model.edge_coef_["next"][0]
    table[:] = [[0.3, -1.0], [2.0, 0.7]]
    weight = {}
    for state in itertools.product(range(2), repeat=8):
        values = [graph.candidates[v][a] for v, a in enumerate(state)]
        kind = [kinds.index(graph.kinds[v][a]) for v, a in enumerate(state)]
        if not any((values[u], values[v]) in forbidden for u, v in edges):
            score = sum(x * table[kind[u], kind[v]] for (u, v), x in zip(edges, value))
            weight[state] = math.exp(score)
    z = sum(weight.values())
    for v, proba in enumerate(model.predict_proba([graph])[0]):
        share = sum(w for s, w in weight.items() if s[v] == 1) / z
        assert proba[1] == pytest.approx(share, abs=1e-12)


def test_edges_with_features_of_pairs_share_nothing():
    graph = FactorGraph(
        [["a", "b"]] * 3,
        edges={"next": [(0, 1), (1, 2)]},
        pair_features={"next": np.array([[1, 0, 0, 1], [0, 2, 1, 0]]).reshape(8, 1)},
    )
    model = ConditionalRandomField().fit([graph], [["a", "b", "b"]])
    model.coef_[:] = 0.0
    model.pair_coef_["next"][0] = 1.5
    tables = np.exp(1.5 * np.array([[[1, 0], [0, 1]], [[0, 2], [1, 0]]]))
    share = np.einsum("ab,bc->c", *tables)
    proba = model.predict_proba([graph])[0][2]
    np.testing.assert_allclose(proba, share / share.sum(), rtol=1e-12)


def test_gradient_is_that_of_finite_differences(tools):
    graphs, y = problem(tools, 7, "tree")
    layout, loss = likelihood(graphs, y)
    coef = np.random.default_rng(0).normal(size=layout.n_weights)
    slope = approx_fprime(coef, lambda w: loss.value_and_gradient(w)[0], 1e-6)
    np.testing.assert_allclose(loss.value_and_gradient(coef)[1], slope, atol=1e-4)


@pytest.mark.parametrize(*each_value(scale=[30.0, 1e3, 1e5], constraints=[True, False]))
def test_scores_of_any_size(tools, scale, constraints):
    """Exponentials underflow: the sums are those of logarithms."""
    for seed in range(6):
        graphs, y = problem(tools, seed, "tree", constraints)
        layout, loss = likelihood(graphs, y)
        coef = scale * np.random.default_rng(seed).normal(size=layout.n_weights)
        value, gradient = loss.value_and_gradient(coef)
        wanted, slope = 0.0, np.zeros(layout.n_weights)
        for graph, row in zip(graphs, y):
            states, log_p, phi = enumerated(tools, graph, coef, layout)
            at = [tuple(s) for s in states].index(tuple(graph.encode(row)))
            wanted -= log_p[at]
            slope += np.exp(log_p) @ phi - phi[at]
        assert value == pytest.approx(wanted, rel=1e-9, abs=1e-9 * scale)
        np.testing.assert_allclose(gradient, slope, atol=1e-8)


def test_underflow_of_every_good_path_is_summed_again():
    """A value that constraints demand is so unlikely that its exponential is 0."""
    far = 2000.0
    values = ["a", "b"]
    graph = FactorGraph(
        [values] * 3,
        candidate_features=np.array([[0.0], [-far], [0.0], [0.0], [-far], [0.0]]),
        edges={"next": [(0, 1), (1, 2)]},
        forbidden={"next": [("a", "a"), ("a", "b")]},
    )
    model = ConditionalRandomField(c2=1e-3, tol=0.1).fit([graph], [["b", "b", "a"]])
    model.coef_[:] = 0.0
    model.candidate_coef_[:] = 1.0
    model.edge_coef_["next"][0, 1, 1] = 1.5  # b b
    proba = model.predict_proba([graph])[0]
    states = [("b", "b", "a"), ("b", "b", "b")]
    score = np.array([-2 * far + 1.5, -far + 3.0])
    np.testing.assert_allclose(proba[0], [0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(proba[2][1], 1.0 / (1 + math.exp(-1000)), atol=1e-12)
    each = model.target_log_proba([graph] * 2, states)
    np.testing.assert_allclose(each, score - logsumexp(score), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("turned", [False, True])
def test_underflow_beside_a_forbidden_pair_is_summed_again(turned):
    """The sum of "y" over "a" and "b" is 0 in numbers, but "b", "y" is the best."""
    order = slice(None, None, -1 if turned else 1)
    graph = FactorGraph(
        [["c"], ["x", "y"], ["a", "b"]],
        candidate_features=np.array([[0.0], [-450.0], [0.0], [0.0], [-800.0]]),
        edges={"one": [(0, 1)], "two": [(1, 2)[order]]},
        forbidden={"two": [("y", "a")[order]]},
    )
    model = ConditionalRandomField(tol=1.0).fit([graph], [["c", "x", "a"]])
    model.coef_[:] = 0.0
    model.candidate_coef_[:] = 1.0
    kinds = model.kinds_.tolist()
    model.edge_coef_["one"][0, kinds.index("c"), kinds.index("x")] = -440.0
    states = [["c", "y", "b"], ["c", "x", "a"], ["c", "x", "b"]]
    each = model.target_log_proba([graph] * 3, states)
    np.testing.assert_allclose(each, [0.0, -90.0, -890.0], atol=1e-9)
    found = model.predict_proba([graph])[0]
    for proba, right in zip(found, ([1.0], [0.0, 1.0], [0.0, 1.0])):
        np.testing.assert_allclose(proba, right, atol=1e-12)


def tagged(seed=0, n=30, length=8):
    """Sentences of made-up words whose tags follow each other."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        tags = ["D"]
        while len(tags) < int(rng.integers(2, length)):
            tags.append(rng.choice({"D": ["N"], "N": ["V", "P"], "V": ["D"],
                                    "P": ["D"]}[tags[-1]]))  # fmt: skip
        words = [f"{t.lower()}{rng.integers(4)}" if rng.random() < 0.8 else "x"
                 for t in tags]  # fmt: skip
        X.append([{"word": w, "long": rng.normal()} for w in words])
        y.append([str(t) for t in tags])
    return X, y


@pytest.mark.parametrize("c1, c2", [(0.0, 0.5), (0.3, 0.2), (0.5, 0.0)])
def test_gap_bounds_the_distance_at_any_point(c1, c2):
    X, y = tagged(n=12)
    best = ConditionalRandomField(c1, c2, tol=1e-7, max_iter=5000).fit(X, y)
    optimum = best.objective_[-1]  # to rounding
    rng = np.random.default_rng(0)
    for iterations in (1, 3, 10):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = clone(best).set_params(max_iter=iterations).fit(X, y)
        assert model.gap_ >= model.objective_[-1] - optimum - 1e-6
        assert model.gap_ >= best.gap_
    assert best.gap_ <= 1e-7 * sum(map(len, X))
    # and at points that no descent visits
    graphs, truth, _ = best._learn_input(X, y)
    layout, loss = likelihood(graphs, [g.decode(t) for g, t in zip(graphs, np.split(
        truth, np.cumsum([g.n_variables for g in graphs])[:-1]))])  # fmt: skip
    for scale in (0.01, 1.0, 10.0):
        w = best.coef_ + scale * rng.normal(size=layout.n_weights)
        value, gradient = loss.value_and_gradient(w)
        objective = value + c1 * abs(w).sum() + c2 * w @ w
        assert duality_gap(value, gradient, w, c1, c2) >= objective - optimum - 1e-6


def test_gap_with_squares_is_that_of_strong_convexity():
    rng = np.random.default_rng(0)
    w, g = rng.normal(size=(2, 5))
    step = g + 2 * 0.7 * w
    assert duality_gap(3.0, g, w, 0.0, 0.7) == pytest.approx(step @ step / (4 * 0.7))


def test_without_penalty_there_is_no_bound():
    X, y = tagged(n=40)
    X = [[["bias"] for _ in row] for row in X]  # finite weights
    y = [[np.random.default_rng(i).choice(["a", "b"]) for _ in row]
         for i, row in enumerate(X)]  # fmt: skip
    model = ConditionalRandomField(c2=0.0, tol=1e-8).fit(X, y)
    assert model.gap_ == np.inf
    close = ConditionalRandomField(c2=1e-6, tol=1e-9).fit(X, y)
    assert model.objective_[-1] == pytest.approx(close.objective_[-1], abs=1e-3)


def test_c1_makes_weights_zero_and_meets_its_conditions():
    X, y = tagged()
    model = ConditionalRandomField(0.5, 0.0, tol=1e-7, min_count=0).fit(X, y)
    w = model.coef_
    assert 0 < np.count_nonzero(np.abs(w) > 1e-8) < w.size / 2
    graphs, truth, _ = model._learn_input(X, y)
    _, loss = likelihood(graphs, [model.classes_[t] for t in np.split(
        truth, np.cumsum(list(map(len, X)))[:-1])])  # fmt: skip
    _, g = loss.value_and_gradient(w)
    assert np.all(np.abs(g) <= 0.5 + 0.01)
    far = np.abs(w) > 0.05
    np.testing.assert_allclose(g[far], -0.5 * np.sign(w[far]), atol=0.02)


@pytest.mark.parametrize("every", [False, True])
def test_crfsuite_has_the_same_minimum(every, tmp_path):
    crfsuite = pytest.importorskip("sklearn_crfsuite")
    X, y = tagged(n=60)
    # CRFsuite drops features whose values have a sum below 0
    X = [[item | {"long": abs(item["long"])} for item in row] for row in X]
    c2 = 0.7
    peer = crfsuite.CRF(
        c1=0.0, c2=c2, max_iterations=2000, epsilon=1e-9, period=50, delta=1e-12,
        all_possible_states=every, all_possible_transitions=every,
        model_filename=str(tmp_path / "crf"),
    ).fit(X, y)  # fmt: skip
    model = ConditionalRandomField(c2=c2, min_count=0 if every else 1, tol=1e-9)
    model.fit(X, y)
    label = {v: a for a, v in enumerate(model.classes_.tolist())}
    row = {v: f for f, v in enumerate(model.feature_names_.tolist())}
    for (a, b), weight in peer.transition_features_.items():
        ours = model.edge_coef_["next"][0, label[a], label[b]]
        assert ours == pytest.approx(weight, abs=1e-4)
    seen = 0
    for (name, a), weight in peer.state_features_.items():
        ours = model.feature_coef_[row[name], label[a]]
        assert ours == pytest.approx(weight, abs=1e-4)
        seen += 1
    n_free = (
        model.feature_coef_.size if every else np.count_nonzero(model.feature_coef_)
    )
    assert seen == n_free
    assert [list(r) for r in peer.predict(X)] == model.predict(X)
    for theirs, ours in zip(peer.predict_marginals(X), model.predict_proba(X)):
        for item, proba in zip(theirs, ours):
            wanted = [item[v] for v in model.classes_]
            np.testing.assert_allclose(proba, wanted, atol=1e-4)


def test_min_count_is_how_often_a_feature_meets_a_label():
    X = [[["a"], ["b"]], [["a"], ["a"]], [[], ["b"]]]
    y = [["s", "t"], ["s", "s"], ["t", "t"]]
    count = {("a", "s"): 3, ("b", "t"): 2, ("a", "t"): 0, ("b", "s"): 0}
    steps = {("s", "t"): 1, ("s", "s"): 1, ("t", "t"): 1, ("t", "s"): 0}
    for least in (0, 1, 2, 3, (1, 0), (0, 2), (3, 1)):
        model = ConditionalRandomField(min_count=least, c2=0.1).fit(X, y)
        states, edges = least if isinstance(least, tuple) else (least, least)
        for (name, label), n in count.items():
            at = model.feature_names_.tolist().index(name), ["s", "t"].index(label)
            assert (model.feature_coef_[at] != 0) == (n >= states)
        for (a, b), n in steps.items():
            at = "st".index(a), "st".index(b)
            assert (model.edge_coef_["next"][0][at] != 0) == (n >= edges)
    # values count as occurrences, whatever their size
    X = [[{"a": 0.01}, {"b": 0.0}]]
    model = ConditionalRandomField().fit(X, [["s", "t"]])
    assert model.feature_coef_[0, 0] != 0 and not model.feature_coef_[1].any()


def test_own_features_keep_their_weights():
    """A feature that only wrong candidates have tells against them."""
    graph = FactorGraph([["a", "b"]], candidate_features=[np.eye(2)])
    model = ConditionalRandomField().fit([graph], [["a"]])
    assert model.candidate_coef_[1] < 0 < model.candidate_coef_[0]


def test_a_single_variable_is_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X @ rng.normal(size=(3, 4)) + rng.normal(size=(60, 4))).argmax(axis=1)
    c2 = 0.8
    flat = LogisticRegression(C=1 / (2 * c2), fit_intercept=False, tol=1e-10).fit(X, y)
    graphs = [chain_graph(range(4), row[None]) for row in X]
    model = ConditionalRandomField(c2=c2, tol=1e-10).fit(graphs, y[:, None])
    np.testing.assert_allclose(model.feature_coef_.T, flat.coef_, atol=1e-4)
    found = np.concatenate([p[0][None] for p in model.predict_proba(graphs)])
    np.testing.assert_allclose(found, flat.predict_proba(X), atol=1e-5)


# -------------------------------------------------------------------- observations


def test_all_ways_to_write_a_feature_are_the_same():
    names = [["word:cat", "long", "tag:N", "tag:V", "in:deep:1", "in:more"], ["long"]]
    dicts = [
        {"word": "cat", "long": True, "tag": ["N", "V"],
         "in": {"deep": "1", "more": np.float32(1)}},
        UserDict(long=np.int64(1), short=0),
    ]  # fmt: skip
    y = ["a", "b"]
    first = ConditionalRandomField(min_count=0).fit([names] * 3, [y] * 3)
    second = ConditionalRandomField(min_count=0).fit([dicts] * 3, [y] * 3)
    assert set(second.feature_names_) - set(first.feature_names_) == {"short"}
    for X in ([names], [dicts], [[tuple(names[0]), {"long"}]]):
        for model in (first, second):
            np.testing.assert_allclose(
                model.predict_proba(X)[0], first.predict_proba([names])[0], atol=1e-6
            )
    unknown = [[*names[0], "never seen"], {"long": 1.0, "new": "x", "other": 3}]
    assert np.array_equal(
        first.predict_proba([unknown])[0], first.predict_proba([names])[0]
    )


def test_sequences_are_chain_graphs():
    X, y = tagged()
    model = ConditionalRandomField(c2=0.3, tol=1e-8).fit(X, y)
    names = model.feature_names_.tolist()
    assert names == sorted(names)
    values = tuple(model.classes_.tolist())

    def rows(sequence):
        out = np.zeros((len(sequence), len(names)))
        for t, item in enumerate(sequence):
            out[t, names.index(f"word:{item['word']}")] = 1
            out[t, names.index("long")] = item["long"]
        return out

    graphs = [chain_graph(values, rows(x)) for x in X]
    other = clone(model).fit(graphs, y)
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-6)
    assert [row.tolist() for row in other.predict(graphs)] == model.predict(X)
    assert not hasattr(other, "classes_") and not hasattr(other, "feature_names_")
    np.testing.assert_allclose(
        other.target_log_proba(graphs, y), model.target_log_proba(X, y), atol=1e-6
    )


def test_sample_rank_reads_sequences_too():
    X, y = tagged(n=60)
    model = SampleRankClassifier(random_state=0).fit(X[:40], y[:40])
    assert model.score(X[40:], y[40:]) > 0.8
    assert isinstance(model.predict(X[:1])[0], list)
    assert len(model.predict_marginals(X[:1], n_sweeps=10)[0]) == len(X[0])


def test_empty_and_single_observations():
    X = [[], [["a"]], [["b"]]]
    model = ConditionalRandomField(c2=0.1).fit(X, [[], ["s"], ["t"]])
    assert model.predict([[], [["a"], ["b"]]]) == [[], ["s", "t"]]
    assert model.predict_proba([[]])[0].shape == (0, 2)
    assert model.target_log_proba([[]], [[]]) == [0.0]
    one = ConditionalRandomField().fit([[["a"], ["b"]]], [["s", "s"]])
    assert one.predict_proba([[["c"]]])[0].tolist() == [[1.0]]
    assert one.gap_ == pytest.approx(0.0, abs=1e-3 * 2)
    bare = ConditionalRandomField().fit([[[], []]], [["s", "t"]])
    assert bare.predict([[[], []]]) == [["s", "t"]]


def test_labels_of_other_types():
    X = [[["a"], ["b"]]] * 2
    for y in ([[1, 0]] * 2, np.array([[1, 0]] * 2), [[True, False]] * 2,
              [[("B", 1), ("I", 1)]] * 2, [["1", 1]] * 2):  # fmt: skip
        model = ConditionalRandomField(c2=0.1).fit(X, y)
        assert model.predict(X)[0] == list(y[0])
        assert model.score(X, y) == 1.0


@pytest.mark.parametrize(
    "model", [ConditionalRandomField(), SampleRankClassifier(random_state=0)]
)
def test_score_weighs_instances(model):
    """As HighOrderHMM.score: a weight of 2 is the instance twice, 0 is as if absent."""
    X = [[["a"], ["b"], ["a"]], [["b"]], [["a"], ["b"]]]
    y = [["x", "y", "y"], ["x"], ["x", "y"]]
    graphs = [chain_graph(["x", "y"], np.ones((len(row), 1))) for row in y]
    for given in X, graphs:
        fitted = clone(model).fit(given, y)
        twice = fitted.score([given[i] for i in (0, 2, 2)], [y[i] for i in (0, 2, 2)])
        assert fitted.score(given, y, [1, 0, 2]) == twice
        assert fitted.score(given, y, sample_weight=np.ones(3)) == fitted.score(
            given, y
        )
        for wrong, message in (
            ([1, 1], "sample_weight.shape == (2,), expected (3,)"),
            ([1, -1, 1], "Negative values in data passed to `sample_weight`"),
            (
                [0, 0, 0],
                "sample_weight: Sample weights must contain at least one non-zero",
            ),
        ):
            with pytest.raises(ValueError, match=re.escape(message)):
                fitted.score(given, y, wrong)


@pytest.mark.parametrize(
    "model", [ConditionalRandomField(), SampleRankClassifier(random_state=0)]
)
def test_sequences_of_arrow(model):
    pa = pytest.importorskip("pyarrow")
    X = [[["a", "c"], ["b"], ["a"]], [["b"]]]
    for y in ([["x", "y", "x"], ["y"]], [[3, 1, 3], [1]]):
        plain = clone(model).fit(X, y)
        for form in (pa.array, lambda rows: pa.chunked_array([rows[:1], rows[1:]])):
            of_arrow = clone(model).fit(form(X), form(y))
            assert of_arrow.predict(form(X)) == plain.predict(X) == y
            assert of_arrow.classes_.tolist() == plain.classes_.tolist()
            np.testing.assert_array_equal(of_arrow.coef_, plain.coef_)
            assert of_arrow.score(X, form(y)) == 1.0
        entries = clone(model).fit(X, list(pa.array(y)))
        np.testing.assert_array_equal(entries.coef_, plain.coef_)


def test_score_counts_labels_that_fit_did_not_see_as_wrong():
    X = [[["a"], ["b"]]]
    model = ConditionalRandomField(c2=0.1).fit(X, [["s", "t"]])
    assert model.score(X, [["s", "new"]]) == 0.5
    with pytest.raises(ValueError, match=r"y\[0\]\[1\] holds 'new', which is not in"):
        model.target_log_proba(X, [["s", "new"]])


@pytest.mark.parametrize(
    "X, y, message",
    [
        ([], [], "at least one instance"),
        (3, [[]], "got 3$"),
        (None, [[]], "^X must be a list of FactorGraph or .*, got None$"),
        ([[["a"]]], None, "^y (is None, but|must be a list with) the labels of "),
        ([[["a"]]], [["s"], ["t"]], "y has 2 sequences, but X has 1"),
        ([[["a"]]], [["s", "t"]], r"y\[0\] has 2 labels, but X\[0\] has 1"),
        ([[["a"]]], ["s"], r"^y\[0\] is a string; pass its symbols"),
        (
            [[["a"]]],
            [[None]],
            r"y(\[0\] has no label at| has no label)",
        ),
        ([[["a"]]], [[math.nan]], r"y\[0\] has no label at item 0"),
        ([[["a"]]], [[["s"]]], r"y\[0\] must be a list of hashable labels"),
        ([[]], [[]], "all its sequences are empty"),
        ([["a"]], [["s"]], r"X\[0\], item 0: .*make it \[string\]"),
        (["ab"], [["s", "t"]], r"X\[0\] must be a sequence of observations"),
        ([{"a": 1}], [["s"]], r"X\[0\] must be a sequence of observations"),
        ([[["a"]], [3]], [["s"], ["s"]], r"X\[1\], item 0: must be a mapping"),
        ([[{"a": None}]], [["s"]], "the value of 'a' is None"),
        ([[{1: 2}]], [["s"]], "the name 1 is not a string"),
        ([[[1]]], [["s"]], r"X\[0\], item 0: .*the name 1 is not a string"),
        ([[[["a"]]]], [["s"]], r"X\[0\], item 0: must be a mapping"),
        ([[{"a": [1]}]], [["s"]], "the values of 'a' must be strings, got 1"),
        ([[["a"], {"a": math.inf}]], [["s", "t"]], r"X\[0\], item 1: .* NaN or inf"),
        ([[["a"]], [["a"], {"a": math.nan}]], [["s"], ["s", "t"]], r"X\[1\], item 1:"),
        ([[{"a": 1e200}]], [["s"]], r"feature 'a' is 1e\+200, .* at most 1e\+150"),
        ([[["a"]], chain_graph(["s"], [[1]])], [["s"], ["s"]], "one or the other"),
        ([chain_graph(["s"], [[1]]), [["a"]]], [["s"], ["s"]], r"X\[1\] is list"),
    ],
)
def test_bad_input_is_named(X, y, message):
    error = TypeError if "is a string" in message else ValueError
    for model in (ConditionalRandomField(), SampleRankClassifier()):
        with pytest.raises(error, match=message):
            model.fit(X, y)


def test_loops_and_the_other_sort_of_input_are_refused():
    X, y = tagged(n=5)
    model = ConditionalRandomField().fit(X, y)
    graph = chain_graph(["D"], [[1.0]])
    with pytest.raises(ValueError, match="sequences of observations, as in fit"):
        model.predict([graph])
    loop = chain_graph(["a", "b"], np.ones((3, 1)), keys=["w", None, "w"])
    with pytest.raises(ValueError, match=r"edges of X\[0\] form a loop; SampleRank"):
        ConditionalRandomField().fit([loop], [["a", "b", "a"]])
    chain = chain_graph(["a", "b"], np.ones((3, 1)), keys=["w", "w", None])
    model = ConditionalRandomField().fit([chain], [["a", "b", "a"]])
    for method in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match=r"edges of X\[1\] form a loop"):
            method([chain, loop])
    with pytest.raises(ValueError, match="FactorGraph"):
        model.predict(X)
    with pytest.raises(NotFittedError):
        ConditionalRandomField().predict(X)


@pytest.mark.parametrize(
    "name, value",
    [("c1", -1), ("c2", -1), ("c2", math.nan), ("c1", math.inf), ("tol", -1),
     ("tol", math.inf), ("max_iter", 0), ("min_count", -1), ("min_count", 1.5),
     ("min_count", (1,)), ("min_count", (1, -1)), ("min_count", (0.5, 1))],
)  # fmt: skip
def test_bad_parameters(name, value):
    with pytest.raises(ValueError, match=name):
        ConditionalRandomField(**{name: value}).fit([[["a"]]], [["s"]])


# ----------------------------------------------------------------------- estimator


def test_threads_and_blocks_change_nothing(monkeypatch):
    X, y = tagged(n=50)
    monkeypatch.setattr("sklstruct.factor_graph._conditional.BUDGET", 500)
    monkeypatch.setattr(inference, "BUDGET", 500)
    one = ConditionalRandomField(n_jobs=1).fit(X, y)
    two = ConditionalRandomField(n_jobs=2).fit(X, y)
    assert np.array_equal(one.coef_, two.coef_)
    whole = one.predict_proba(X)
    monkeypatch.undo()
    for n_jobs in (1, 2):
        one.n_jobs = n_jobs
        for a, b in zip(whole, one.predict_proba(X)):
            assert np.array_equal(a, b)
    for i in (0, 7):
        assert np.array_equal(one.predict_proba(X[i : i + 1])[0], whole[i])
        assert one.predict(X[i : i + 1])[0] == one.predict(X)[i]


def test_pickle_and_clone():
    X, y = tagged()
    model = ConditionalRandomField().fit(X, y)
    text = pickle.dumps(model)
    again = pickle.loads(text)
    assert again.predict(X) == model.predict(X)
    assert again.feature_coef_.base is again.coef_
    assert not hasattr(clone(model), "coef_")
    X, y = [chain_graph(["s", "t"], [[1.0], [2.0]])], [["s", "t"]]
    refit = model.fit(X, y)
    assert not hasattr(refit, "feature_names_") and not hasattr(refit, "classes_")


def test_model_selection():
    X, y = tagged(n=24)
    search = GridSearchCV(ConditionalRandomField(), {"c2": [0.1, 100.0]}, cv=2)
    assert search.fit(X, y).best_params_ == {"c2": 0.1}


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize(
    "model", [ConditionalRandomField(), SampleRankClassifier(random_state=0)], ids=str
)
def test_a_table_in_place_of_a_sequence_raises_an_error(model, kind):
    DataFrame = pytest.importorskip(kind).DataFrame
    X, y = [[{"a": 1.0}, {"a": 2.0}]] * 2, [["s", "t"]] * 2
    with pytest.raises(TypeError, match=r"X\[1\] is a DataFrame; .*X\[1\]\.to_dicts"):
        model.fit([X[0], DataFrame(X[0])], y)
    model.fit(X, y)
    with pytest.raises(TypeError, match=r"X\[0\] is a DataFrame"):
        model.predict([DataFrame(X[0])])
    with pytest.raises(TypeError, match="^X is a DataFrame; pass a list of sequences"):
        model.predict(DataFrame(X[0]))
    with pytest.raises(TypeError, match="^y is a DataFrame; pass a list of sequences"):
        model.fit(X, DataFrame({"a": y[0], "b": y[0]}))


@pytest.mark.parametrize("kind", [list, object_array, "series"])
@pytest.mark.parametrize(
    "model", [ConditionalRandomField(), SampleRankClassifier(random_state=0)], ids=str
)
def test_labels_out_of_fold(model, kind):
    if kind == "series":
        kind = pytest.importorskip("pandas").Series
    X, y = tagged(n=12)
    found = cross_val_predict(model, kind(X), kind(y), cv=3)
    assert [len(row) for row in found] == [len(row) for row in y]
    for train, test in KFold(3).split(X):
        fold = clone(model).fit([X[i] for i in train], [y[i] for i in train])
        assert [found[i] for i in test] == fold.predict([X[i] for i in test])
    graphs = [chain_graph(["s", "t"], [[1.0 * i], [2.0]]) for i in range(6)]
    states = [["s", "t"], ["t", "s"]] * 3
    answers = cross_val_predict(model, graphs, states, cv=2)
    fold = clone(model).fit(graphs[:3], states[:3]).predict(graphs[3:])
    assert [row.tolist() for row in answers[3:]] == [row.tolist() for row in fold]


@pytest.mark.parametrize(
    "model", [ConditionalRandomField(), SampleRankClassifier(random_state=0)], ids=str
)
def test_files_of_skops_hold_labels_of_any_kind(model):
    io = pytest.importorskip("skops.io")
    X, y = tagged(n=6)
    for name in (lambda label: (label, 1), lambda label: ord(label[0]), str):
        labels = [[name(label) for label in row] for row in y]
        model.fit(X, labels)
        again = io.loads(io.dumps(model), trusted=TRUSTED_TYPES)
        assert again.predict(X) == model.predict(X)
        assert again.score(X, labels) == model.score(X, labels)


def test_stops_honestly(capsys):
    X, y = tagged()
    with pytest.warns(ConvergenceWarning, match="not within tol=1e-08 after 2 iter"):
        model = ConditionalRandomField(max_iter=2, tol=1e-8, verbose=1).fit(X, y)
    assert model.n_iter_ == 2 == len(model.objective_) - 1
    assert "lower by" in capsys.readouterr().out
    n = sum(map(len, X))
    for tol in (1e-1, 1e-2, 1e-4):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = ConditionalRandomField(tol=tol).fit(X, y)
        assert model.gap_ <= tol * n
        assert np.all(np.diff(model.objective_) <= 1e-9)
    # the objective is that of the weights that are kept
    log_p = model.target_log_proba(X, y).sum()
    wanted = -log_p + (model.coef_**2).sum()
    assert model.objective_[-1] == pytest.approx(wanted, rel=1e-12)


def test_probabilities_are_calibrated_in_the_sum():
    """Without penalty expected counts of the labels are those of the training set."""
    X, y = tagged(n=80)
    model = ConditionalRandomField(c2=1e-4, tol=1e-7).fit(X, y)
    expected = np.concatenate(model.predict_proba(X)).sum(axis=0)
    flat = list(itertools.chain.from_iterable(y))
    observed = [flat.count(label) for label in model.classes_]
    np.testing.assert_allclose(expected, observed, atol=0.05)


@pytest.mark.parametrize("penalties", [(0.0, 1.0), (0.5, 0.0), (0.0, 0.0)])
def test_min_count_above_all_counts_leaves_weights_of_zero(penalties):
    X, y = [[["a"], ["b"]], [["a"]]], [["N", "V"], ["N"]]
    graphs = [
        chain_graph(["N", "V"], np.eye(2)),
        chain_graph(["N", "V"], np.eye(2)[:1]),
    ]
    for given in (X, graphs):
        model = ConditionalRandomField(*penalties, min_count=9).fit(given, y)
        assert not model.coef_.any() and model.gap_ == 0.0
        np.testing.assert_allclose(model.objective_, [3 * np.log(2)])
        np.testing.assert_allclose(model.target_log_proba(given, y), -np.log([4, 2]))
    # min_count is above all counts of the folds only
    search = GridSearchCV(ConditionalRandomField(), {"min_count": [1, 3]}, cv=3)
    search.fit(X[:1] * 3, y[:1] * 3)
    assert search.cv_results_["mean_test_score"].tolist() == [1.0, 0.5]


def test_a_feature_of_value_0_occurs(tmp_path):
    X = [[{"up": True}, {"up": 1.0}, {"up": False}], [{"up": 0.0}, {"low": {"e": 0}}]]
    y = [["N", "N", "P"], ["P", "N"]]
    model = ConditionalRandomField(0.0, 0.1, tol=1e-9).fit(X, y)
    low, up = model.feature_coef_
    # "P" has `up` with the value 0 alone
    np.testing.assert_allclose(up[1], -up[0], atol=1e-4)
    assert up[0] > 0.5 and not low.any()
    crfsuite = pytest.importorskip("sklearn_crfsuite")
    X = [[{k: v for k, v in x.items() if k == "up"} for x in row] for row in X]
    model.fit(X, y)
    peer = crfsuite.CRF(
        c1=0.0, c2=0.1, epsilon=1e-8, delta=1e-12, max_iterations=1000,
        model_filename=str(tmp_path / "model"),
    ).fit(X, y)  # fmt: skip
    theirs = [[peer.state_features_["up", label] for label in "NP"]]
    np.testing.assert_allclose(model.feature_coef_, theirs, atol=1e-4)


def test_a_descent_to_the_end_without_a_bound_does_not_warn():
    X = [[["a"], ["b"]], [["a"], ["c"]]]
    for y in (
        [["N", None], None],
        [["N", None], ["N", None]],
        [["N", None], ["V", None]],
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = ConditionalRandomField(tol=0.0, max_iter=5000).fit(X, y)
        assert model.gap_ == np.inf and model.n_iter_ < 5000
        again = ConditionalRandomField(tol=1e-3).fit(X, y)
        assert model.objective_[-1] <= again.objective_[-1] + 1e-12
    X, y = tagged()
    y[0] = None
    with pytest.warns(
        ConvergenceWarning, match="may still fall by more than tol=1e-09"
    ):
        ConditionalRandomField(tol=1e-9, max_iter=2).fit(X, y)


@pytest.mark.parametrize("y", [5, 2.5, None, object()])
def test_y_that_is_not_a_list(y):
    graphs = [chain_graph(["N", "V"], np.eye(2))]
    message = "^y (must be a list (with the labels of each|of seq)|is None, but the la)"
    for model in (ConditionalRandomField(), SampleRankClassifier()):
        for X in (graphs, [[["a"], ["b"]]]):
            with pytest.raises((TypeError, ValueError), match=message):
                model.fit(X, y)


def test_a_pickle_does_not_hold_positions_of_weights():
    # Kernels read and write at these positions: wrong ones would end the interpreter.
    layout = WeightLayout(3, 2, ["a", "b"], ["next", "far"], [1, 0], [2, 5])
    again = pickle.loads(pickle.dumps(layout))
    assert not any(isinstance(v, np.ndarray) for v in layout.__getstate__().values())
    assert (again.n_weights, again.own_offset) == (19, 6)
    assert (again.cross_offset.tolist(), again.pair_offset.tolist()) == (
        [8, 14],
        [12, 14],
    )
