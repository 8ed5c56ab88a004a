"""Sequences of observations without graphs, against the same chains as graphs."""

import copy
import itertools
import pickle
import threading

import numpy as np
import pytest
from _cases import each_value
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklstruct.factor_graph import (
    ConditionalRandomField,
    SampleRankClassifier,
    _chains,
    chain_graph,
)
from sklstruct.factor_graph._chain_fast import ChainScorer


def model_and_sequences(seed, scale=1.0):
    """A model with random weights; lengths 0 to 7, unknown and repeated names."""
    rng = np.random.default_rng(seed)
    names = [f"f{i}" for i in range(12)]

    def item():
        chosen = rng.choice([*names, "unknown"], size=rng.integers(5)).tolist()
        return chosen if rng.random() < 0.5 else {n: rng.normal() for n in chosen}

    X = [[item() for _ in range(rng.integers(8))] for _ in range(20)]
    y = [rng.choice(list("abcd"), size=len(row)).tolist() for row in X]
    every = [[[name] for name in names]], [["a", "b", "c", "d"] * 3]
    model = ConditionalRandomField(max_iter=1, tol=100.0).fit(*every)
    model.coef_[:] = rng.normal(size=model.coef_.size) * scale
    return model, X, y


@pytest.mark.parametrize(
    *each_value(budget=[_chains.BUDGET, 60], scale=[0.1, 1.0, 30.0, 1000.0])
)
def test_answers_are_those_of_graphs(scale, budget, monkeypatch):
    monkeypatch.setattr(_chains, "BUDGET", budget)
    for seed in range(5):
        model, X, y = model_and_sequences(seed, scale)
        model.set_params(n_jobs=1 + seed % 2)
        graphs = model._graphs(X)
        wanted = [row.tolist() for row in model._predict_graphs(graphs)]
        assert model.predict(X) == wanted
        log_proba = model.joint_score(X, y) - model._log_sums(graphs, None)
        np.testing.assert_allclose(
            model.target_log_proba(X, y), log_proba, rtol=1e-12, atol=1e-11 * scale
        )
        found = model.predict_proba(X)
        assert [row.shape for row in found] == [(len(x), 4) for x in X]
        for ours, theirs in zip(found, model._marginals(graphs)):
            theirs = np.reshape(theirs, ours.shape)
            np.testing.assert_allclose(ours, theirs, atol=1e-12)
            np.testing.assert_allclose(ours.sum(axis=1), 1, atol=1e-12)


def test_empty_sequences_at_any_place():
    model, X, y = model_and_sequences(0)
    X, y = ([[], *part[:3], [], [], *part[3:6], []] for part in (X, y))
    found = model.target_log_proba(X, y)
    alone = [model.target_log_proba([a], [b])[0] for a, b in zip(X, y)]
    np.testing.assert_allclose(found, alone, atol=1e-12)
    assert model.predict(X) == [model.predict([a])[0] for a in X]
    assert [p.shape for p in model.predict_proba(X)] == [(len(a), 4) for a in X]


@pytest.mark.parametrize("far", [100.0, 2e4])
def test_transitions_of_any_size(far):
    """Both transitions that lead anywhere have weights far below the others."""
    score = np.array([[0.0, -far / 2], [-far / 2, 0.0], [0.0, -far / 2]])
    transition = np.array([[0.0, -far], [-far, 0.0]])
    model = _chains.ChainModel({}, np.empty((0, 2)), transition, [0, 1])
    given = _chains.ScoredChains([3], lambda first, end: score.tobytes())
    # 0 0 0 has the score - far / 2, 1 1 1 - far; all other paths a step of - far
    assert model.log_sums(given)[0] == pytest.approx(-far / 2, rel=1e-12)
    np.testing.assert_allclose(model.marginals(given)[0][:, 0], 1.0, atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_sums_and_paths_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    # whole numbers: many paths have the same score
    score = rng.integers(-2, 3, size=(n, k)).astype(float)
    transition = rng.integers(-2, 3, size=(k, k)).astype(float)
    paths = list(itertools.product(range(k), repeat=n))
    totals = np.array(
        [
            sum(score[t, a] for t, a in enumerate(path))
            + sum(transition[a, b] for a, b in itertools.pairwise(path))
            for path in paths
        ]
    )
    scorer = ChainScorer({}, np.empty((0, k)), transition, list(range(k)))
    first, found, last = scorer.best(bytes(8 * k) + score.tobytes(), [1, n, 0])
    assert len(first) == 1 and last == []
    best = [path for path, total in zip(paths, totals) if total == totals.max()]
    assert tuple(found) == min(best, key=lambda path: path[::-1])
    model = _chains.ChainModel({}, np.empty((0, k)), transition, list(range(k)))
    given = _chains.ScoredChains([n], lambda first, end: score.tobytes())
    log_z, belief = model.log_sums(given), model.marginals(given)[0]
    share = np.exp(totals - np.logaddexp.reduce(totals))
    assert log_z[0] == pytest.approx(np.logaddexp.reduce(totals), rel=1e-13)
    for t in range(n):
        for a in range(k):
            wanted = sum(p for p, path in zip(share, paths) if path[t] == a)
            assert belief[t, a] == pytest.approx(wanted, abs=1e-13)


@pytest.mark.parametrize("n", [110_000, 250_000])
def test_memory_of_names_is_bounded_and_forgetting_changes_nothing(n):
    # more strings of a key than are remembered, and twice as many
    model, X, _ = model_and_sequences(0)
    items = [{"f": str(i % 12), "g": str(i)} for i in range(n)]
    strings = [items[i : i + 100] for i in range(0, n, 100)]
    again = model.predict(X)
    first = model.predict(strings[:12])
    assert model.predict(strings)[:12] == first
    assert model.predict(strings[:12]) == first
    assert model.predict(X) == again


def test_a_model_is_copied_without_its_reader():
    model, X, _ = model_and_sequences(0)
    answers = model.predict(X)
    assert "_reader" in vars(model)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert "_reader" not in vars(again)
        assert again.predict(X) == answers
    # another fit forgets the columns of the one before
    model.set_params(max_iter=50, tol=1e-3)
    model.fit([[{"new": "x"}, {"new": "y"}]] * 3, [["p", "q"]] * 3)
    assert model.predict([[{"new": "y"}, {"f0": 1.0}]])[0][0] in ("p", "q")
    assert model.predict([[{"new": "x"}, {"new": "y"}]]) == [["p", "q"]]


def test_score_counts_the_labels_of_predict():
    """Also where several paths have the same score."""
    model, X, _ = model_and_sequences(4)
    model.coef_[:] = np.round(model.coef_)
    rounded = [[{n: 1.0 for n in x if n != "unknown"} for x in row] for row in X]
    found = model.predict(rounded)
    assert found != [g.tolist() for g in model._predict_graphs(model._graphs(rounded))]
    assert model.score(rounded, found) == 1.0
    other = [["new"] * len(row) for row in X]
    assert model.score(rounded, other) == 0.0


def test_weights_that_change_are_seen():
    """Changed in place, or other arrays."""
    model, X, _ = model_and_sequences(2)
    first = model.predict(X)
    model.coef_ *= -1
    graphs = model._predict_graphs(model._graphs(X))
    assert model.predict(X) == [row.tolist() for row in graphs] != first
    model.coef_ = -model.coef_
    assert model.predict(X) == first


def test_values_of_zero_and_repeated_names():
    model, _, _ = model_and_sequences(2)
    X = [[{"f0": 0.0, "f1": False, "f2": True}, ["f3", "f3"]]]
    Y = [[{"f2": 1}, {"f3": 2.0}]]
    for ours, theirs in zip(model.predict_proba(X), model.predict_proba(Y)):
        np.testing.assert_allclose(ours, theirs, atol=1e-15)


def test_threads_share_a_model():
    model, X, _ = model_and_sequences(3)
    X = [
        [{"f": str(t), "in": {"f0": 1.0}, "f1": 2.0} for t, _ in enumerate(x)]
        for x in X
    ]
    wanted, wrong = model.predict(X), []

    def work():
        for _ in range(30):
            if model.predict(X) != wanted:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


CHAINS = ConditionalRandomField(), [[["a"], ["b"]], [["b"], ["a"]]]


@pytest.mark.parametrize(
    ("model", "X", "place"),
    [
        (*CHAINS, "_crf.descend"),
        (*CHAINS, "_crf._Descent.coef"),
        (ConditionalRandomField(), "graphs", "_crf.descend"),
        (SampleRankClassifier(random_state=0), CHAINS[1], "_samplerank.Learner"),
        (SampleRankClassifier(random_state=0), "graphs", "_samplerank.Learner"),
    ],
)
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_fit_that_does_not_end_leaves_the_model_before(
    model, X, place, error, monkeypatch
):
    if X == "graphs":
        X = [chain_graph(["N", "V"], np.eye(2)) for _ in range(2)]
    y = [["N", "V"], ["V", "N"]]

    def stop(*given):
        raise error

    model = clone(model)
    others = [[[f"w{i}"] for i in range(300)]], [[f"L{i}" for i in range(300)]]
    with monkeypatch.context() as patch:
        patch.setattr(f"sklstruct.factor_graph.{place}", stop)
        with pytest.raises(error):
            model.fit(*others)
        with pytest.raises(NotFittedError):
            model.predict(others[0])
    model.fit(X, y)
    before, answer = dict(vars(model)), list(map(list, model.predict(X)))
    with monkeypatch.context() as patch:
        patch.setattr(f"sklstruct.factor_graph.{place}", stop)
        with pytest.raises(error):
            model.fit(*others)
    assert {k: v for k, v in vars(model).items() if k != "_reader"} == {
        k: v for k, v in before.items() if k != "_reader"
    }
    assert list(map(list, model.predict(X))) == answer


def test_a_state_whose_parts_do_not_fit_is_refused():
    """The kernels would read outside of the arrays."""
    X = [[[f"w{i}"] for i in range(3000)]]
    whole = ConditionalRandomField(max_iter=1, tol=100.0).fit(
        X, [[f"L{i % 50}" for i in range(3000)]]
    )

    def altered(**state):
        model = ConditionalRandomField().fit([[["a"], ["b"]]], [["N", "V"]])
        vars(model).update(state)
        return model

    for model in (
        altered(classes_=whole.classes_, _columns=whole._columns),
        altered(_columns=whole._columns),
        altered(_columns={"w2999": -1, "w0": 10**12}),
        altered(coef_=whole.coef_[:5]),
        altered(_layout=whole._layout),
    ):
        for method in ("predict", "predict_proba", "predict_k", "sample_posterior"):
            with pytest.raises(
                (ValueError, IndexError), match="coef|features|reshape|out of bounds"
            ):
                getattr(model, method)(X)
