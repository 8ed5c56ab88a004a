"""Random graphs, and what is true of them by definition."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from sklstruct.factor_graph import FactorGraph


def make_graph(rng, n=5, shape="loopy", k=(1, 4), constraints=False, integers=False):
    """A graph with features of all four sorts, some of them sparse.

    Widths, kinds and types are those of every other such graph. integers: features
    are small integers, so that sums are exact whatever their order.
    """

    def draw(*size):
        if integers:
            return rng.integers(-2, 3, size=size).astype(float)
        return rng.normal(size=size)

    sizes = rng.integers(k[0], k[1] + 1, size=n)
    candidates = [list(rng.permutation(6)[:s].tolist()) for s in sizes]
    kinds = [[f"kind {v % 3}" for v in c] for c in candidates]
    if shape == "chain":
        pairs = [(i, i + 1) for i in range(n - 1)]
    else:
        pairs = [(int(rng.integers(i)), i) for i in range(1, n)]
        pairs = [p if rng.random() < 0.5 else p[::-1] for p in pairs]
    if shape == "loopy":
        pairs += [tuple(rng.permutation(n)[:2].tolist()) for _ in range(n // 2)]
    here = [p for p in pairs if rng.random() < 0.6]
    there = [p for p in pairs if p not in here] + here[:1]  # parallel edges too
    edges = {"plain": here, "rich": there, "bare": pairs[:2]}
    edges = {t: np.array(e).reshape(-1, 2) for t, e in edges.items()}
    tables = [draw(sizes[u], sizes[v], 2) for u, v in there]
    forbidden = None
    if constraints:
        forbidden = {
            t: [(a, b) for a in range(6) for b in range(6) if rng.random() < 0.35]
            for t in ("plain", "bare")
        }
    return FactorGraph(
        candidates,
        features=sp.csr_array(draw(n, 3)),
        candidate_features=[draw(s, 2) for s in sizes],
        kinds=kinds,
        edges=edges,
        edge_features={
            "rich": draw(len(there), 2),
            "bare": np.empty((len(pairs[:2]), 0)),
        },
        pair_features={"rich": tables},
        forbidden=forbidden,
    )


def dense(rows):
    return sp.csr_array(
        (rows.value, rows.column, rows.ptr), shape=(rows.ptr.size - 1, rows.width)
    ).toarray()


def feature_vector(graph, state, kinds, types):
    """phi(x, y) in the order of coef_, from the formula in FactorGraph."""
    return feature_vectors(graph, state[None, :], kinds, types)[0]


def feature_vectors(graph, states, kinds, types):
    """`feature_vector` of each row of states."""
    code = {kind: j for j, kind in enumerate(kinds)}
    k, n, each = len(kinds), len(states), np.arange(len(states))
    # a kind that is not in `kinds` has the number k, whose sums are left out
    kind = [np.array([code.get(c, k) for c in names])[a]
            for names, a in zip(graph.kinds, states.T)]  # fmt: skip
    crossed = np.zeros((n, graph.features.width, k + 1))
    for row, j in zip(dense(graph.features), kind):
        crossed[each, :, j] += row
    own = dense(graph.candidate_features)[graph.cand_ptr[:-1] + states].sum(axis=1)
    parts = [crossed[:, :, :k].reshape(n, -1), own]
    start = dict(zip(graph.edge_types, np.cumsum((0, *graph.n_edges_of_type))))
    for t, (d, dp) in types.items():
        cross, pair = np.zeros((n, d, k + 1, k + 1)), np.zeros((n, dp))
        if t in start:
            tables = graph.pair_features[t]
            tables = None if tables is None else dense(tables)
            at = 0
            for e, row in enumerate(dense(graph.edge_features[t])):
                u, v = graph.edge_u[start[t] + e], graph.edge_v[start[t] + e]
                cross[each, :, kind[u], kind[v]] += row
                ku, kv = len(graph.candidates[u]), len(graph.candidates[v])
                if tables is not None:
                    pair += tables[at + states[:, u] * kv + states[:, v]]
                    at += ku * kv
        parts += [cross[:, :, :k, :k].reshape(n, -1), pair]
    return np.concatenate(parts, axis=1)


def allowed(graph, state):
    """Whether a state, or each row of states, has no forbidden pair."""
    state = np.asarray(state)
    found = np.ones(state.shape[:-1], dtype=bool)
    for e in range(graph.n_edges):
        u, v, table = graph.edge_u[e], graph.edge_v[e], graph.mask_first[e]
        if table >= 0:
            at = table + state[..., u] * len(graph.candidates[v]) + state[..., v]
            found &= graph.allowed[at] != 0
    return found


def states(graph):
    """All allowed states, one per row."""
    sizes = [len(c) for c in graph.candidates]
    rows = np.indices(sizes, dtype=np.int32).reshape(len(sizes), math.prod(sizes)).T
    return np.ascontiguousarray(rows[allowed(graph, rows)])


@pytest.fixture(scope="session")
def tools():
    class Tools:
        pass

    functions = make_graph, dense, feature_vector, feature_vectors, allowed, states
    for function in functions:
        setattr(Tools, function.__name__, staticmethod(function))
    Tools.types = {"plain": (1, 0), "rich": (2, 2), "bare": (0, 0)}
    return Tools
