"""Labels that are unknown or known in part, weights, n best, samples: enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.model_selection import cross_val_score

from sklstruct.factor_graph import (
    ConditionalRandomField,
    SampleRankClassifier,
    chain_graph,
)
from sklstruct.factor_graph._chain_likelihood import ChainLikelihood
from sklstruct.factor_graph._conditional import ConditionalLikelihood
from sklstruct.factor_graph._pack import Packed, WeightLayout
from sklstruct.factor_graph._rows import as_rows

LABELS = ["a", "b", "c"]


def sequences(seed=0, n=12, unknown=0.0):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for length in [0, 1, *rng.integers(1, 5, size=n)]:
        X.append([{"w": str(rng.integers(4)), "x": rng.normal()}
                  for _ in range(length)])  # fmt: skip
        row = [str(label) for label in rng.choice(LABELS, length)]
        y.append([None if rng.random() < unknown else label for label in row])
    return X, y


def fitted(scale=1.0, **params):
    """A model with random weights, large ones too."""
    X, y = sequences()
    model = ConditionalRandomField(min_count=0, tol=0.1, **params).fit(X, y)
    model.coef_ = scale * np.random.default_rng(1).normal(size=model.coef_.size)
    return model, X


def paths(model, sequence):
    """All paths of a sequence and their scores, from the weights by name."""
    row = {name: f for f, name in enumerate(model.feature_names_)}
    step = model.edge_coef_["next"][0]
    out = []
    for path in itertools.product(range(3), repeat=len(sequence)):
        score = sum(
            model.feature_coef_[row[f"w:{item['w']}"], a]
            + item["x"] * model.feature_coef_[row["x"], a]
            for item, a in zip(sequence, path)
        )
        score += sum(step[a, b] for a, b in itertools.pairwise(path))
        out.append(score)
    every = list(itertools.product(LABELS, repeat=len(sequence)))
    return every, np.array(out) - logsumexp(out)


def agrees(path, entries):
    return all(
        entry is None or label in (entry if isinstance(entry, set | list) else [entry])
        for label, entry in zip(path, entries)
    )


def marks(sequence, seed):
    rng = np.random.default_rng(seed)
    choices = [None, "a", {"b", "c"}, ["a", "b"]]
    return [choices[rng.integers(4)] for _ in sequence]


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_given_labels_are_a_condition(scale):
    model, X = fitted(scale)
    given = [marks(x, i) for i, x in enumerate(X)]
    given[3] = None
    best = model.predict(X, given)
    proba = model.predict_proba(X, given)
    each = model.target_log_proba(X, given)
    top = model.predict_k(X, 4, given)
    for i, x in enumerate(X):
        entries = [None] * len(x) if given[i] is None else given[i]
        every, log_p = paths(model, x)
        keep = np.array([agrees(path, entries) for path in every])
        log_p = np.where(keep, log_p, -np.inf)
        total = logsumexp(log_p)
        assert each[i] == pytest.approx(total, rel=1e-9, abs=1e-9 * scale)
        assert log_p[every.index(tuple(best[i]))] == pytest.approx(log_p.max())
        for t, row in enumerate(proba[i]):
            share = [
                sum(np.exp(p - total) for path, p in zip(every, log_p) if path[t] == c)
                for c in LABELS
            ]
            np.testing.assert_allclose(row, share, atol=1e-9 * scale)
        wanted = np.sort(log_p[keep])[::-1][:4] - total
        assert [p for _, p in top[i]] == pytest.approx(wanted, abs=1e-8 * scale)
        for labels, p in top[i]:
            at = every.index(tuple(labels))
            assert log_p[at] - total == pytest.approx(p, abs=1e-8 * scale)
        assert len({tuple(labels) for labels, _ in top[i]}) == len(top[i])


def test_samples_have_the_probabilities_of_the_model():
    model, X = fitted(0.7)
    drawn = model.sample_posterior(X, 4000, random_state=0)
    again = model.set_params(n_jobs=2).sample_posterior(X, 4000, random_state=0)
    for x, states, same in zip(X, drawn, again):
        assert states.shape == (4000, len(x))
        assert np.array_equal(states, same)
        every, log_p = paths(model, x)
        seen = [tuple(row) for row in states.tolist()]
        for path, p in zip(every, np.exp(log_p)):
            sigma = math.sqrt(p * (1 - p) / 4000)
            assert abs(seen.count(path) / 4000 - p) <= 5 * sigma + 1e-3
    given = [["b"] * len(x) for x in X]
    held = model.sample_posterior(X, 50, random_state=0, given=given)
    assert all((states == "b").all() for states in held)


@pytest.mark.parametrize("constraints", [False, True])
def test_states_of_trees(tools, constraints):
    rng = np.random.default_rng(3)
    done = 0
    while done < 8:
        try:
            graph = tools.make_graph(rng, n=5, shape="tree", constraints=constraints)
        except ValueError:
            continue
        done += 1
        states = list(tools.states(graph))
        y = graph.decode(states[rng.integers(len(states))])
        model = ConditionalRandomField(tol=1.0).fit([graph], [y])
        model.coef_ = np.random.default_rng(0).normal(size=model.coef_.size)
        kept = [None, y[1], None, {y[3]}, None]
        log_p = model.joint_score(
            [graph] * len(states), list(map(graph.decode, states))
        )
        log_p -= logsumexp(log_p)
        keep = np.array([s[1] == graph.encode(y)[1] and s[3] == graph.encode(y)[3]
                         for s in states])  # fmt: skip
        found = model.target_log_proba([graph], [kept])[0]
        total = logsumexp(log_p[keep])
        assert found == pytest.approx(total, abs=1e-10)
        top = model.predict_k([graph], 3, [kept])[0]
        wanted = np.sort(log_p[keep])[::-1][:3] - total
        assert [p for _, p in top] == pytest.approx(wanted, abs=1e-9)
        best = model.predict([graph], [kept])[0]
        assert best.tolist() == top[0][0].tolist() or len(wanted) > 1
        proba = model.predict_proba([graph], [kept])[0]
        for v in range(5):
            share = np.zeros(len(graph.candidates[v]))
            np.add.at(share, [s[v] for s, k in zip(states, keep) if k],
                      np.exp(log_p[keep] - total))  # fmt: skip
            np.testing.assert_allclose(proba[v], share, atol=1e-10)
        drawn = model.sample_posterior([graph], 2000, random_state=1)[0]
        names = [tuple(graph.decode(s).tolist()) for s in states]
        seen = list(map(tuple, drawn.tolist()))
        assert set(seen) <= set(names)
        for name, p in zip(names, np.exp(log_p)):
            assert abs(seen.count(name) / 2000 - p) <= 5 * math.sqrt(p / 2000) + 2e-3


def test_constraints_and_given_labels_can_be_impossible():
    graph = chain_graph(["B", "I", "O"], np.ones((2, 1)), forbidden=[("O", "I")])
    model = ConditionalRandomField().fit([graph], [["B", "I"]])
    for method in (model.predict, model.predict_proba, model.predict_k,
                   model.sample_posterior):  # fmt: skip
        with pytest.raises(ValueError, match=r"given\[0\]: the labels make X\[0\] imp"):
            method([graph], given=[["O", "I"]])
    with pytest.raises(ValueError, match=r"y\[0\]"):
        ConditionalRandomField().fit(
            [chain_graph(["B", "O"], np.ones((3, 1)), forbidden=[("B", "O"), ("O", "O"),
             ("O", "B")])], [[None, None, "O"]],
        )  # fmt: skip


# ------------------------------------------------------------------------ learning


def chain_loss(X, y, weight, min_count=(0, 0)):
    """The likelihood of sequences, and that of the same chains as graphs."""
    columns = {f"w:{i}": i for i in range(4)} | {"x": 4}
    code = {label: a for a, label in enumerate(LABELS)}
    dense = np.zeros((sum(map(len, X)), 5))
    for row, item in zip(dense, itertools.chain.from_iterable(X)):
        row[columns[f"w:{item['w']}"]] = 1.0
        row[4] = item["x"]
    ptr = np.cumsum([0, *map(len, X)]).astype(np.int64)
    path = np.array([code.get(v, -1) for row in y for v in row], np.int32)
    weight = np.array(weight, dtype=float)

    def serial(function, items):
        return list(map(function, items))

    rows = as_rows(dense, len(dense), "features", "item")
    chains = ChainLikelihood(ptr, rows, path, 3, weight, min_count, serial)
    graphs = [chain_graph(LABELS, dense[a:b]) for a, b in itertools.pairwise(ptr)]
    layout = WeightLayout.of(graphs)
    of_graphs = ConditionalLikelihood(
        Packed(graphs, layout), graphs, path, weight, min_count, serial
    )
    return chains, of_graphs, dense, ptr


@pytest.mark.parametrize("unknown", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("scale", [1.0, 200.0])
def test_likelihood_of_chains_is_that_of_graphs_and_of_enumeration(unknown, scale):
    X, y = sequences(unknown=unknown)
    rng = np.random.default_rng(0)
    weight = rng.random(len(X)) + 0.5
    chains, graphs, dense, ptr = chain_loss(X, y, weight)
    assert np.array_equal(chains.free, graphs.free)
    np.testing.assert_allclose(chains.curvature, graphs.curvature, rtol=1e-12)
    w = scale * rng.normal(size=chains.free.size)
    value, gradient = chains.value_and_gradient(w)
    other, slope = graphs.value_and_gradient(w)
    assert value == pytest.approx(other, rel=1e-11, abs=1e-9)
    np.testing.assert_allclose(gradient, slope, atol=1e-9)
    table, step = w[:15].reshape(5, 3), w[15:].reshape(3, 3)
    wanted = 0.0
    for i, row in enumerate(y):
        score = dense[ptr[i] : ptr[i + 1]] @ table
        every = list(itertools.product(range(3), repeat=len(row)))
        total = np.array([
            sum(score[t, a] for t, a in enumerate(path))
            + sum(step[a, b] for a, b in itertools.pairwise(path))
            for path in every
        ])  # fmt: skip
        keep = [agrees([LABELS[a] for a in path], row) for path in every]
        wanted += weight[i] * (logsumexp(total) - logsumexp(total[keep]))
    assert value == pytest.approx(wanted, rel=1e-10, abs=1e-8)
    if scale == 1.0:
        for j in rng.choice(w.size, 8, replace=False):
            step = np.zeros(w.size)
            step[j] = 1e-5
            ends = [chains.value_and_gradient(w + s)[0] for s in (step, -step)]
            assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(gradient[j], abs=1e-6)


@pytest.mark.parametrize("least", [0, 1, 2, 3])
def test_free_weights_are_those_of_graphs(least):
    X, y = sequences(unknown=0.3)
    weight = [1.0, 2.0, 0.4] + [1.0] * (len(X) - 3)
    chains, graphs, _, _ = chain_loss(X, y, weight, (least, max(0, least - 1)))
    assert np.array_equal(chains.free, graphs.free)


@pytest.mark.parametrize("kind", ["sequences", "graphs"])
def test_integer_weights_are_repetitions(kind):
    X, y = sequences(n=20)
    if kind == "graphs":
        rows = [[[float(item["w"] == "1"), item["x"]] for item in x] for x in X]
        keep = [i for i, x in enumerate(X) if x]
        X = [chain_graph(LABELS, rows[i]) for i in keep]
        y = [y[i] for i in keep]
    times = np.random.default_rng(0).integers(0, 4, size=len(X))
    again = [i for i, n in enumerate(times) for _ in range(n)]
    for params in ({"c1": 0.2, "c2": 0.1}, {"min_count": 3}):
        model = ConditionalRandomField(tol=1e-9, **params)
        weighted = model.fit(X, y, sample_weight=times).coef_
        objective, gap = model.objective_[-1], model.gap_
        model.fit([X[i] for i in again], [y[i] for i in again])
        assert objective == pytest.approx(model.objective_[-1], rel=1e-9)
        assert gap <= 1e-9 * sum(len(y[i]) for i in again)
        np.testing.assert_allclose(weighted, model.coef_, atol=1e-3)


def test_unknown_labels_are_summed_over():
    X, y = sequences(n=40, unknown=0.3)
    y[4] = None
    model = ConditionalRandomField(c2=0.5, tol=1e-7).fit(X, y)
    likelihood = model.target_log_proba(X, y).sum()
    wanted = -likelihood + 0.5 * (model.coef_**2).sum()
    assert model.objective_[-1] == pytest.approx(wanted, rel=1e-10)
    assert model.gap_ == np.inf  # not convex
    assert np.all(np.diff(model.objective_) <= 1e-9)
    # sequences without any label have the likelihood 1
    more = model.set_params(min_count=0).fit(X, y).objective_[-1]
    X, y = [*X, X[5]], [*y, [None] * len(X[5])]
    assert model.fit(X, y).objective_[-1] == pytest.approx(more, rel=1e-6)
    integers = [[-1 if v is None else ord(v) for v in row or []] for row in y]
    integers[4] = None
    assert model.fit(X, integers).classes_.tolist() == [97, 98, 99]
    assert model.objective_[-1] == pytest.approx(more, rel=1e-6)


@pytest.mark.parametrize("as_graphs", [False, True])
def test_unknown_labels_do_not_count_in_a_score(as_graphs):
    X, y = sequences(n=40)
    numbers = [[ord(label) for label in row] for row in y]
    if as_graphs:
        features = [np.reshape([item["x"] for item in row], (-1, 1)) for row in X]
        X = [chain_graph([97, 98, 99], rows) for rows in features]
    model = ConditionalRandomField().fit(X, numbers)
    right = np.concatenate(model.predict(X)) == np.concatenate(numbers)
    known = np.random.default_rng(0).random(right.size) < 0.5
    flags = iter(known.tolist())
    some = [[v if next(flags) else None for v in row] for row in numbers]
    assert model.score(X, some) == right[known].mean()
    if not as_graphs:
        minus = [[-1 if v is None else v for v in row] for row in some]
        assert model.score(X, minus) == right[known].mean()
        scores = cross_val_score(ConditionalRandomField(), X, some, cv=2)
        assert np.isfinite(scores).all()
    with pytest.raises(ValueError, match="y has no known label"):
        model.score(X, [None] * len(X))


@pytest.mark.parametrize("as_graphs", [False, True])
def test_answers_for_nothing_are_empty(as_graphs):
    X, y = [[["a"], ["b"]]] * 2, [["s", "t"]] * 2
    if as_graphs:
        X = [chain_graph(["s", "t"], [[1.0], [2.0]])] * 2
    model = ConditionalRandomField().fit(X, y)
    for method in (model.predict, model.predict_proba, model.predict_k,
                   model.sample_posterior):  # fmt: skip
        assert len(method([])) == len(method([], given=[])) == 0
    assert model.target_log_proba([], []).size == model.joint_score([], []).size == 0
    rank = SampleRankClassifier(random_state=0).fit(X, y)
    assert len(rank.predict([])) == len(rank.predict_marginals([])) == 0
    with pytest.raises(ValueError, match="nothing to score"):
        model.score([], [])


def test_bad_weights_marks_and_numbers():
    X, y = sequences()
    model = ConditionalRandomField()
    for weight in ([1.0], [-1.0] * len(X), [math.nan] * len(X), [0.0] * len(X)):
        with pytest.raises(ValueError, match="sample_weight"):
            model.fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match="no label to learn from"):
        model.fit(X, [None] * len(X))
    model.fit(X, y)
    one = [X[1]]
    for given, message in (
        ([["a", "b"]], r"given\[0\] has 2 entries"),
        ([["z"]], r"given\[0\]\[0\] holds 'z', which is not in"),
        ([[[["a"]]]], r"given\[0\]\[0\] holds \['a'\], which is not in"),
        ([[set()]], r"given\[0\]\[0\] is empty"),
        ([["a"], ["a"]], "given has 2 sequences, but X has 1"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(one, given)
    with pytest.raises(ValueError, match="k must be"):
        model.predict_k(one, 0)
    with pytest.raises(ValueError, match="n_samples=1000000000000 .* draw fewer"):
        model.sample_posterior(one, 10**12)


@pytest.mark.parametrize("n", [3_000, 20_000, 100_000])
def test_chains_of_many_items(n):
    rng = np.random.default_rng(0)
    X = [[[f"w{a}"] for a in rng.integers(5, size=n)]]
    y = [rng.choice(LABELS, n).tolist()]
    model = ConditionalRandomField(max_iter=2, tol=1.0).fit(X, y)
    given = [[None] * (n - 1) + ["b"]]
    assert model.predict(X, given)[0][-1] == "b"
    assert model.predict_k(X, 2, given)[0][1][0][-1] == "b"
    rows = model.predict_proba(X, given)[0]
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-9)
    assert np.isfinite(model.target_log_proba(X, y)).all()
