"""Inference against enumeration."""

import itertools
import time

import numpy as np
import pytest
from _cases import each_value

from sklstruct.factor_graph import (
    FactorGraph,
    SampleRankClassifier,
    chain_graph,
    grid_graph,
)
from sklstruct.factor_graph import _inference as inference


def fitted(tools, rng, graphs, **params):
    """A model with random weights: what inference sees are weights, not how they came.

    The fit is real, so that layout and types are; then the weights are replaced.
    """
    zeros = (np.zeros(g.n_variables, dtype=np.int32) for g in graphs)
    y = [g.decode(z if g.start is None else g.start) for z, g in zip(zeros, graphs)]
    model = SampleRankClassifier(epochs=1, random_state=0, **params).fit(graphs, y)
    model.coef_[:] = rng.normal(size=model.coef_.size)
    return model


@pytest.mark.parametrize(
    *each_value(shape=["chain", "tree", "loopy"], constraints=[True, False])
)
def test_joint_score_is_the_formula(tools, shape, constraints):
    rng = np.random.default_rng(0)
    graphs = solvable_graphs(tools, rng, 10, shape=shape, constraints=constraints)
    model = fitted(tools, rng, graphs)
    for graph in graphs:
        for state in list(tools.states(graph))[:10]:
            phi = tools.feature_vector(graph, state, model.kinds_, tools.types)
            assert model.joint_score([graph], [graph.decode(state)])[
                0
            ] == pytest.approx(phi @ model.coef_)


def solvable(tools, rng, **kwargs):
    try:
        return tools.make_graph(rng, **kwargs)
    except ValueError:
        return None


def solvable_graphs(tools, rng, n_draws, **kwargs):
    drawn = [solvable(tools, rng, **kwargs) for _ in range(n_draws)]
    return [graph for graph in drawn if graph]


@pytest.mark.parametrize(
    *each_value(shape=["chain", "tree"], constraints=[True, False])
)
def test_exact_inference_is_enumeration(tools, shape, constraints):
    rng = np.random.default_rng(1)
    graphs = solvable_graphs(tools, rng, 60, shape=shape, constraints=constraints)
    assert len(graphs) > 20
    model = fitted(tools, rng, graphs, inference="exact")
    found = model.joint_score(graphs, model.predict(graphs))
    for graph, score in zip(graphs, found):
        every = list(tools.states(graph))
        best = model.joint_score([graph] * len(every), map_decode(graph, every)).max()
        assert score == pytest.approx(best, abs=1e-10)


def map_decode(graph, states):
    return [graph.decode(state) for state in states]


@pytest.mark.parametrize(
    ("shape", "n_graphs"),
    [("chain", 100), ("chain", 400), ("chain", 1000), ("tree", 1000)],
)
def test_annealing_reaches_the_exact_optimum(tools, shape, n_graphs):
    rng = np.random.default_rng(2)
    graphs = [
        tools.make_graph(rng, n=int(rng.integers(2, 13)), shape=shape)
        for _ in range(n_graphs)
    ]
    model = fitted(tools, rng, graphs)
    exact = model.set_params(inference="exact").predict(graphs)
    annealed = model.set_params(inference="anneal").predict(graphs)
    best, found = model.joint_score(graphs, exact), model.joint_score(graphs, annealed)
    assert (found <= best + 1e-9).all()
    assert (found >= best - 1e-9).mean() >= 0.99
    icm = model.set_params(inference="icm").predict(graphs)
    assert (model.joint_score(graphs, icm) <= found + 1e-9).all()


@pytest.mark.parametrize("n_graphs", [50, 100, 200])
def test_annealing_on_loops_is_enumeration_nearly_always(tools, n_graphs):
    rng = np.random.default_rng(3)
    graphs = [
        g
        for g in (
            solvable(tools, rng, n=6, constraints=bool(i % 2)) for i in range(n_graphs)
        )
        if g
    ]
    model = fitted(tools, rng, graphs, inference="anneal")
    found = model.joint_score(graphs, model.predict(graphs))
    best = []
    for graph in graphs:
        every = list(tools.states(graph))
        best.append(
            model.joint_score([graph] * len(every), map_decode(graph, every)).max()
        )
    assert (found <= np.array(best) + 1e-9).all()
    assert np.isclose(found, best).mean() > 0.95


@pytest.mark.parametrize("constraints", [False, True])
def test_temperatures_are_in_units_of_the_mean_range_of_the_potentials(
    tools, constraints
):
    rng = np.random.default_rng(4)
    graphs = [
        graph
        for n in (1, 2, 3, 6)
        for graph in solvable_graphs(tools, rng, 8, n=n, constraints=constraints)
    ]

    def range_of(values):
        return np.ptp(values[np.isfinite(values)], axis=0) if values.size else 0.0

    def scales(infer):
        block, found = infer.block, []
        for i in range(block.n_instances):
            unary = [
                range_of(infer.unary[block.cand_ptr[v] : block.cand_ptr[v + 1]])
                for v in range(block.var_ptr[i], block.var_ptr[i + 1])
            ]
            pair = [
                range_of(infer.pair[block.table_ptr[t] : block.table_ptr[t + 1]])
                for t in block.table[block.edge_ptr[i] : block.edge_ptr[i + 1]]
            ]
            found.append(np.mean(unary) + (np.mean(pair) if pair else 0.0))
        np.testing.assert_allclose(infer._scale(), found, rtol=1e-12, atol=1e-12)
        return found

    model = fitted(tools, rng, graphs)
    found = np.concatenate(model._over_blocks(graphs, scales)[1])
    assert found.shape == (len(graphs),) and (found > 0).any()


def test_icm_ends_where_no_value_can_be_bettered(tools):
    rng = np.random.default_rng(4)
    graphs = [tools.make_graph(rng, n=8) for _ in range(50)]
    model = fitted(tools, rng, graphs, inference="icm")
    for graph, y in zip(graphs, model.predict(graphs)):
        state = graph.encode(y)
        near = [state]
        for i, values in enumerate(graph.candidates):
            for a in range(len(values)):
                near.append(state.copy())
                near[-1][i] = a
        score = model.joint_score([graph] * len(near), map_decode(graph, near))
        assert score.max() <= score[0] + 1e-9


def test_icm_keeps_values_that_no_value_betters(tools):
    """Of equal scores the present value stays, alone and in pairs."""
    graph = chain_graph(["a", "b", "c"], np.eye(6))
    model = fitted(tools, np.random.default_rng(0), [graph])
    model.coef_[:] = 0
    state = np.array([2, 0, 1, 1, 2, 0], dtype=np.int32)

    def ascend(infer):
        walk = inference.Walk(infer, state.copy())
        walk.icm(inference.LARGEST_PAIR)
        return walk.state.tolist()

    assert model._over_blocks([graph], ascend)[1] == [state.tolist()]


def test_exact_refuses_loops_and_names_the_instance():
    X = [
        grid_graph([0, 1], np.ones((1, 3, 1))),
        grid_graph([0, 1], np.ones((2, 2, 1)), name="a square"),
    ]
    model = SampleRankClassifier(inference="exact", random_state=0)
    model.fit(X, [[0, 1, 0], [0, 1, 1, 0]])
    with pytest.raises(ValueError, match=r"X\[1\] \('a square'\).*loop.*auto"):
        model.predict(X)
    assert len(model.set_params(inference="auto").predict(X)) == 2


@pytest.mark.parametrize("constraints", [False, True])
def test_marginals_and_samples_are_those_of_the_scores(tools, constraints):
    rng = np.random.default_rng(5)
    graph = None
    while (
        graph is None
        or len(list(tools.states(graph))) < 3
        # single-variable moves must reach all states
        or not connected(list(tools.states(graph)))
        or graph.constrained != constraints
    ):
        graph = solvable(tools, rng, n=3, shape="chain", constraints=constraints)
    model = fitted(tools, rng, [graph])
    model.coef_ *= 0.3
    every = list(tools.states(graph))
    score = model.joint_score([graph] * len(every), map_decode(graph, every))
    p = np.exp(score - score.max())
    p /= p.sum()
    truth = [np.zeros(len(c)) for c in graph.candidates]
    for state, weight in zip(every, p):
        for i, a in enumerate(state):
            truth[i][a] += weight
    found = model.predict_marginals([graph], n_sweeps=50_000)[0]
    for a, b in zip(found, truth):
        assert a.sum() == pytest.approx(1)
        np.testing.assert_allclose(a, b, atol=0.02)
    draws = model.sample([graph], 3000, thin=5, random_state=1)[0]
    for i, values in enumerate(graph.candidates):
        share = [np.mean([d[i] == v for d in draws]) for v in values]
        np.testing.assert_allclose(share, truth[i], atol=0.05)


def connected(every):
    """Whether all states can be reached by changing one variable at a time."""
    todo, seen = [0], {0}
    while todo:
        i = todo.pop()
        for j, other in enumerate(every):
            if j not in seen and (every[i] != other).sum() == 1:
                seen.add(j)
                todo.append(j)
    return len(seen) == len(every)


@pytest.mark.parametrize("method", ["exact", "anneal", "icm", "auto"])
def test_predictions_do_not_depend_on_batch_slices_or_threads(
    tools, monkeypatch, method
):
    monkeypatch.setattr(inference, "_ANNEAL_SWEEPS", 7)
    rng = np.random.default_rng(6)
    shape = "tree" if method == "exact" else "loopy"
    graphs = [
        tools.make_graph(rng, n=int(n), shape=shape) for n in rng.integers(0, 9, 60)
    ]
    model = fitted(tools, rng, graphs, inference=method)
    whole = model.predict(graphs)
    alone = [model.predict([graph])[0] for graph in graphs]
    monkeypatch.setattr(inference, "BUDGET", 300)
    sliced = model.predict(graphs)
    threaded = model.set_params(n_jobs=2).predict(graphs)
    marginals = model.predict_marginals(graphs, 20)
    one = model.set_params(n_jobs=1).predict_marginals(graphs, 20)
    for others in (alone, sliced, threaded):
        assert all(map(np.array_equal, whole, others))
    for a, b in zip(marginals, one):
        assert all(map(np.array_equal, a, b))


@pytest.mark.parametrize("n", [20, 60])
def test_constraints_hold_in_every_prediction(n):
    rng = np.random.default_rng(7)
    values = ["B", "I", "O"]
    bad = [("O", "I")]
    y = []
    for _ in range(n):
        row = []
        for _ in range(12):
            row.append(values[rng.integers(3 if row and row[-1] != "O" else 2) - 1])
            if row[-1] == "I" and (len(row) == 1 or row[-2] == "O"):
                row[-1] = "B"
        y.append(row)
    X = [
        chain_graph(values, rng.normal(size=(12, 3)), forbidden=bad, name=str(i))
        for i in range(n)
    ]
    for method in ("exact", "anneal", "icm"):
        for proposal in ("gibbs", "uniform"):
            model = SampleRankClassifier(
                inference=method, proposal=proposal, epochs=2, random_state=0
            ).fit(X, y)
            for row in model.predict(X):
                assert ("O", "I") not in set(itertools.pairwise(row))
            for draws in model.sample(X, 3):
                for row in draws:
                    assert ("O", "I") not in set(itertools.pairwise(row))


def test_constraints_that_leave_nothing_are_found(tools):
    """A graph is refused if and only if enumeration finds no allowed state."""
    refused = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 6))
        pairs = [tuple(rng.permutation(n)[:2].tolist()) for _ in range(5)]
        bad = [(a, b) for a in range(3) for b in range(3) if rng.random() < 0.55]
        free = FactorGraph([[0, 1, 2]] * n, edges={"e": pairs})
        possible = any(
            all((s[u], s[v]) not in bad for u, v in pairs) for s in tools.states(free)
        )
        try:
            graph = FactorGraph(
                [[0, 1, 2]] * n, edges={"e": pairs}, forbidden={"e": bad}
            )
        except ValueError as error:
            assert "variable" in str(error)
            assert not possible
            refused += 1
        else:
            assert possible
            if graph.constrained:
                assert tools.allowed(graph, graph.start)
    assert 30 < refused < 270


def test_an_interrupt_ends_a_sweep(tools, interrupt):
    edges = [(i, i + 1) for i in range(9)]
    graph = FactorGraph([["a", "b"]] * 10, features=np.eye(10), edges={"e": edges})
    model = fitted(tools, np.random.default_rng(0), [graph])

    def sweeps_done(infer):
        walk = inference.Walk(infer, infer.start())
        walk.count = np.zeros(infer.unary.size)
        interrupt(working=True)
        with pytest.raises(KeyboardInterrupt):
            walk.sweep([np.ones((1_000_000, 1))], inference.LARGEST_PAIR)
        return walk.count.sum() / 10

    assert 0 < model._over_blocks([graph], sweeps_done)[1][0] < 1_000_000


def test_marginals_at_a_hub_are_those_of_the_scores(tools, monkeypatch):
    """Also where only a draw of both ends of an edge changes the value of the hub."""
    monkeypatch.setattr(inference, "_MOST_EDGES", 2)
    rng = np.random.default_rng(7)
    graph = FactorGraph(
        [["a", "b", "c"]] + [["a", "b"]] * 5,
        features=np.eye(6),
        edges={"pair": [(0, 1), (2, 0), (0, 3), (4, 0), (1, 2)], "equal": [(0, 5)]},
        forbidden={"equal": [("a", "b"), ("b", "a"), ("c", "a"), ("c", "b")]},
    )
    model = fitted(tools, rng, [graph])
    every = list(tools.states(graph))
    score = model.joint_score([graph] * len(every), map_decode(graph, every))
    p = np.exp(score - score.max())
    found = model.predict_marginals([graph], n_sweeps=50_000)[0]
    for i, marginals in enumerate(found):
        values = [state[i] for state in every]
        truth = np.bincount(values, p / p.sum(), minlength=len(marginals))
        np.testing.assert_allclose(marginals, truth, atol=0.02)


def test_a_sweep_is_linear_in_the_edges_of_a_hub(tools):
    n = 3_000
    graph = FactorGraph(
        [["a", "b"]] * n,
        features=np.ones((n, 1)),
        edges={"e": [(0, i) for i in range(1, n)]},
    )
    model = fitted(tools, np.random.default_rng(8), [graph])
    # All states have the same probability: the hub changes in half of the draws.
    model.coef_[:] = 0.0
    before = time.process_time()
    model.predict_marginals([graph], n_sweeps=50)
    assert time.process_time() - before < 1.0
