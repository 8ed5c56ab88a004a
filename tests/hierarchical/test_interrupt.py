"""Ctrl-C in the middle of one kernel call: it ends there and not behind the call."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from _nodes import logistic

from sklstruct._parallel import ThreadMap, interruptible
from sklstruct.hierarchical import HierarchicalClassifier
from sklstruct.hierarchical._forest_fast import ForestArrays
from sklstruct.hierarchical._problems import NodeProblems
from sklstruct.hierarchical._search_fast import search
from sklstruct.hierarchical._walks_fast import narrow_rows, walk
from sklstruct.linear import _quasi_newton


def long_problems(kind, n_nodes):
    """Nodes that take many times as long as the signal."""
    rng = np.random.default_rng(0)
    n, d, r = 20_000, 60, 150
    X = kind(rng.normal(size=(n_nodes * n, d)))
    bounds = [v * n + np.linspace(0, n, r + 1).astype(int) for v in range(n_nodes)]
    return NodeProblems(X, np.ones(n_nodes * n), bounds)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_fit(interrupt, kind, n_threads, monkeypatch):
    monkeypatch.setattr(_quasi_newton, "metric_pays", lambda *_: False)  # takes longer
    problems = long_problems(kind, n_threads)
    coef, intercept = problems.empty_coef()
    options = {"tol": 1e-14, "max_iter": 10**6}
    with pytest.raises(KeyboardInterrupt), ThreadMap(n_threads) as parallel:
        interrupt()
        problems.fit(
            np.full(n_threads, 1e6), start=(coef, intercept), parallel=parallel,
            **options,
        )  # fmt: skip
    for thread in threading.enumerate():
        if thread.name.startswith("sklstruct"):
            thread.join(timeout=600)
            assert not thread.is_alive()
    # weights are written when a node is done: none was
    assert not coef.any() and not intercept.any()


def test_a_stopped_node_keeps_its_start(monkeypatch):
    """Another thread was interrupted when the node had passed some iterations."""
    monkeypatch.setattr(_quasi_newton, "metric_pays", lambda *_: False)  # takes longer
    problems = long_problems(np.asarray, 1)
    start = coef, intercept = problems.empty_coef()
    coef += 0.5
    stop = np.zeros(1, dtype=np.int32)
    timer = threading.Timer(0.2, stop.fill, [1])
    timer.start()
    *_, status = problems.fit(np.array([1e6]), start=start, tol=0, stop=stop)
    timer.join()
    assert status.tolist() == [4]
    assert (coef == 0.5).all() and not intercept.any()


@pytest.fixture(scope="module")
def flat():
    rng = np.random.default_rng(0)
    n_classes, d = 800, 60
    y = np.arange(n_classes)
    model = HierarchicalClassifier(max_depth=0, estimator=logistic(max_iter=1))
    with pytest.warns(match="stopped at max_iter"):
        model.fit(rng.normal(size=(n_classes, d)), y)
    nodes = model.nodes_
    kernel_model = ForestArrays(*nodes.forest), nodes.coef, nodes.intercept
    X = np.tile(rng.normal(size=(1000, d)), (200, 1))
    return kernel_model, X, narrow_rows(nodes.coef, nodes.intercept)


@pytest.mark.parametrize("call", ["walk", "best", "given"])
def test_predict(interrupt, flat, call):
    model, X, narrow = flat
    n = len(X)
    samples = *model, X.reshape(-1), None, None, np.empty(800)
    best, n_dots = np.full((n, 1), -9, np.int32), np.zeros(n, np.int64)
    log_proba, stop = np.full((n, 1), 9.0), np.zeros(1, np.int32)
    with pytest.raises(KeyboardInterrupt):
        interrupt(working=True)
        if call == "walk":
            walk(*samples, *narrow, best[:, 0], n_dots, stop)
        else:
            code = np.zeros((n, 1), np.int32) if call == "given" else best
            search(*samples, call == "given", code, log_proba, n_dots, stop)
    assert stop[0] == 1
    answered = (log_proba if call == "given" else best)[:, 0]
    assert answered[-1] == (9.0 if call == "given" else -9)
    assert answered[0] != (9.0 if call == "given" else -9)


def test_a_set_flag_stops_at_once(flat):
    """Other threads find the flag set after one was interrupted."""
    model, X, _ = flat
    best, n_dots = np.full((1000, 1), -9, np.int32), np.zeros(1000, np.int64)
    rows = *model, X[:1000].reshape(-1), None, None, np.empty(800)
    stop = np.ones(1, np.int32)
    search(*rows, False, best, np.empty((1000, 1)), n_dots, stop)
    assert (best[1:] == -9).all()


def test_long_calls_of_libraries(interrupt):
    release = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        interrupt()
        interruptible(release.wait)
    release.set()
    assert interruptible(max, 3, 4) == 4
    with pytest.raises(ZeroDivisionError):
        interruptible(divmod, 1, 0)
