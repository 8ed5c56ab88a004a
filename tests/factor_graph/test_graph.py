"""FactorGraph, the builders and the vectorizer: what they make and what they refuse."""

import contextlib
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction import DictVectorizer
from sklearn.pipeline import make_pipeline

from sklstruct.factor_graph import (
    FactorGraph,
    FactorGraphVectorizer,
    SampleRankClassifier,
    chain_graph,
    grid_graph,
)

AB = ["a", "b"]


def graph(**params):
    params.setdefault("name", "text 7")
    return FactorGraph(params.pop("candidates", [AB, AB, ["c"]]), **params)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"candidates": [AB, []]}, "variable 1: has no candidates"),
        ({"candidates": [AB, ["a", "a"]]}, "variable 1: candidate 'a' is listed twice"),
        ({"candidates": [AB, "ab"]}, "variable 1: candidates must be a list"),
        ({"candidates": [AB, 3]}, "variable 1: candidates must be a list"),
        ({"candidates": [AB, np.float64(3)]}, "variable 1: candidates must be a list"),
        ({"candidates": [AB, [[1], [2]]]}, "variable 1: candidates must be hashable"),
        ({"candidates": 3}, "candidates must be a sequence"),
        ({"kinds": [AB]}, "kinds must have a list for each of the 3 variables, got 1"),
        ({"kinds": [AB, AB, AB]}, "variable 2: kinds has 2 entries for 1 candidates"),
        ({"kinds": [AB, AB, "c"]}, "variable 2: kinds must be a list"),
        ({"kinds": [AB, AB, [[]]]}, "variable 2: kinds must be hashable"),
        ({"features": np.ones((2, 4))}, "features must have 3 rows.*variable, got 2"),
        ({"features": np.ones(3)}, "features must have 2 dimensions"),
        ({"features": [["x"]] * 3}, "features must be a matrix of numbers"),
        ({"features": [[0], [np.nan], [1]]}, "features has NaN.*variable 1"),
        ({"features": [[0], [0], [-np.inf]]}, "features has NaN.*variable 2"),
        ({"features": [[1e300]] * 3}, "squares overflow"),
        ({"candidate_features": np.ones((4, 1))}, "must have 5 rows"),
        ({"candidate_features": [np.ones((2, 1))] * 3}, "variable 2: must have 1 rows"),
        ({"candidate_features": [np.ones((2, 1))]}, "one matrix for each variable, 3"),
        (
            {"candidate_features": [np.ones((2, 1)), np.ones((2, 3)), [[1]]]},
            "variable 1: has 3 features, variable 0 has 1",
        ),
        ({"edges": {"e": [(0, 3)]}}, r"edge 0 = \(0, 3\) leads to variable 3.*0 to 2"),
        ({"edges": {"e": [(0, 1), (-1, 2)]}}, "edge 1 = .* leads to variable -1"),
        ({"edges": {"e": [(0, 1), (1, 1)]}}, "edge 1 joins variable 1 with itself"),
        ({"edges": {"e": [(0.0, 1.0)]}}, "integer array of shape"),
        ({"edges": {"e": [(0, 1, 2)]}}, "integer array of shape"),
        ({"edges": {"e": [(0,), (0, 1)]}}, "must be an array of shape"),
        ({"edges": {3: [(0, 1)]}}, "type must be a string, got 3"),
        ({"edge_features": {"e": [[1]]}}, "no edges of the type 'e'"),
        ({"pair_features": {"e": [[1]]}}, "no edges of the type 'e'"),
        (
            {"edges": {"e": [(0, 1)]}, "edge_features": {"e": [[1], [2]]}},
            r"edge_features\['e'\] must have 1 rows",
        ),
        (
            {"edges": {"e": [(0, 1)]}, "pair_features": {"e": [np.ones((3, 1))]}},
            r"pair_features\['e'\], edge 0: must have 4 rows",
        ),
        ({"forbidden": {"e": [("a", "a")]}}, "no edges of the type 'e'"),
        (
            {"edges": {"e": [(0, 1)]}, "forbidden": {"e": ["a"]}},
            "must hold pairs of values",
        ),
        (
            {
                "edges": {"e": [(0, 2), (1, 2)]},
                "forbidden": {"e": [("a", "c"), ("b", "c")]},
            },
            "variable [02]: the forbidden pairs leave it no candidate",
        ),
    ],
)
def test_errors_name_the_instance_and_the_variable(params, message):
    with pytest.raises(ValueError, match=f"instance 'text 7': .*{message}"):
        graph(**params)


def malformed():
    matrix = sp.csr_array(np.ones((3, 2)))
    matrix.indices[1] = 40
    return matrix


def test_malformed_sparse_matrices_are_refused():
    edges = {"e": [(0, 1)]}
    for params in (
        {"features": malformed()},
        {"candidates": [["x"]] * 3, "candidate_features": malformed()},
        {"candidates": [["x"]] * 3, "candidate_features": [malformed()] * 3},
        {"edges": {"e": [(0, 1)] * 3}, "edge_features": {"e": malformed()}},
        {"edges": edges, "pair_features": {"e": [malformed()]}},
        {"candidates": [["x"], [1, 2, 3]], "edges": edges,
         "pair_features": {"e": malformed()}},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="instance 'text 7'.*malformed CSR"):
            graph(**params)
    with pytest.raises(ValueError, match="numbers"):
        graph(features=sp.csr_array(np.ones((3, 1), dtype=complex)))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dense"])
def test_dense_and_sparse_features_are_the_same(form):
    rng = np.random.default_rng(0)
    made = rng.integers(-1, 2, size=(3, 4)).astype(float)

    def matrix(a):
        return a if form == "dense" else sp.csr_array(a).asformat(form)

    own = rng.integers(-1, 2, size=(5, 2)).astype(float)
    blocks = [matrix(own[a:b]) for a, b in ((0, 2), (2, 4), (4, 5))]
    a = graph(
        features=matrix(made),
        candidate_features=blocks,
        edges={"e": [(0, 1), (1, 2)]},
        pair_features={"e": [matrix(np.ones((4, 2))), matrix(np.ones((2, 2)))]},
    )
    b = graph(
        features=made,
        candidate_features=matrix(own),
        edges={"e": [(0, 1), (1, 2)]},
        pair_features={"e": [np.ones((2, 2, 2)), np.ones((2, 1, 2))]},
    )
    for name in ("features", "candidate_features"):
        for x, y in zip(getattr(a, name), getattr(b, name)):
            assert np.array_equal(x, y)
    for x, y in zip(a.pair_features["e"], b.pair_features["e"]):
        assert np.array_equal(x, y)
    if form != "dense":
        duplicated = sp.csr_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), (3, 2))
        duplicated = sp.csr_array(
            (np.array([1.0, 2, 4]), np.array([1, 1, 0]), np.array([0, 2, 3, 3])), (3, 2)
        )
        assert graph(features=duplicated).features.value.tolist() == [3.0, 4.0]
        assert duplicated.nnz == 3  # the user's matrix stays as it is


def test_each_edge_forbids_the_pairs_of_its_type(tools):
    """Values, not their places: every edge has its own candidates."""
    rng, n_checked = np.random.default_rng(0), 0
    for _ in range(40):
        candidates = [rng.permutation(5)[: rng.integers(1, 4)].tolist() for _ in "abcd"]
        edges = {
            "a": [(0, 1), (2, 1), (3, 0)],
            "b": [(1, 0), (2, 3)],
            "free": [(0, 2)],
        }
        forbidden = {
            kind: [(a, b) for a in range(5) for b in range(5) if rng.random() < 0.2]
            for kind in "ab"
        }
        right = [
            values
            for values in itertools.product(*candidates)
            if not any(
                (values[u], values[v]) in forbidden.get(kind, ())
                for kind, pairs in edges.items()
                for u, v in pairs
            )
        ]
        if not right:
            continue
        made = FactorGraph(candidates, edges=edges, forbidden=forbidden)
        found = [tuple(made.decode(state).tolist()) for state in tools.states(made)]
        assert found == right
        n_checked += len(right) < np.prod([len(c) for c in candidates])
    assert n_checked > 20


def test_states_there_and_back():
    g = graph(candidates=[["x", 1], [None, (2, 3)], [True, 2.5]])
    y = g.decode(np.array([1, 1, 0]))
    assert y.tolist() == [1, (2, 3), True] and y.dtype == object
    assert g.encode(y).tolist() == [1, 1, 0]
    assert graph().decode(np.array([1, 0, 0])).tolist() == ["b", "a", "c"]
    assert graph(candidates=[[1, 2]]).decode(np.array([1])).dtype.kind == "i"
    for bad in (["a", "b"], ["a", "b", "d"], ["a", ["b"], "c"]):
        with pytest.raises(ValueError, match="instance 'text 7'"):
            graph().encode(bad)
    bound = graph(edges={"e": [(0, 1)]}, forbidden={"e": [("a", "b")]})
    with pytest.raises(ValueError, match="variables 0 and 1.*forbidden pair"):
        bound.encode(["a", "b", "c"])
    assert bound.encode(["b", "a", "c"]).tolist() == [1, 0, 0]


@pytest.mark.parametrize("seed", range(4))
def test_a_pickled_graph_is_checked_and_the_same(tools, seed):
    made = None
    while made is None or not made.constrained:
        with contextlib.suppress(ValueError):
            rng = np.random.default_rng(seed)
            made = tools.make_graph(rng, n=6, constraints=True)
        seed += 100
    made.name = "one"
    again = pickle.loads(pickle.dumps(made))
    for name in ("candidates", "kinds", "edge_types", "n_edges_of_type", "forbidden"):
        assert getattr(again, name) == getattr(made, name)
    for name in ("edge_u", "edge_v", "allowed", "mask_first", "start", "adj_edge"):
        np.testing.assert_array_equal(getattr(again, name), getattr(made, name))
    for name in ("features", "candidate_features"):
        assert (dense(getattr(again, name)) == dense(getattr(made, name))).all()
    for kind in made.edge_types:
        for name in ("edge_features", "pair_features"):
            one, two = (getattr(graph, name)[kind] for graph in (again, made))
            assert (one is None) == (two is None)
            assert one is None or (dense(one) == dense(two)).all()
    assert repr(again) == repr(made)
    state = made.__getstate__()
    state["edges"] = {**state["edges"], "plain": [(0, 99)]}
    with pytest.raises(ValueError, match="leads to variable 99"):
        FactorGraph.__new__(FactorGraph).__setstate__(state)


def dense(rows):
    return sp.csr_array(
        (rows.value, rows.column, rows.ptr), shape=(rows.n_rows, rows.width)
    ).toarray()


def test_forest_or_loop():
    assert graph().is_forest
    assert graph(edges={"e": [(0, 1), (1, 2)]}).is_forest
    assert graph(edges={"e": [(0, 1), (1, 0)], "f": [(0, 1)]}).is_forest
    assert not graph(edges={"e": [(0, 1), (1, 2), (2, 0)]}).is_forest
    assert FactorGraph([]).is_forest


def test_forests_are_those_of_networkx():
    nx = pytest.importorskip("networkx")
    for seed in range(20):
        rng = np.random.default_rng(seed)
        pairs = [rng.permutation(6)[:2].tolist() for _ in range(4)]
        g = FactorGraph([AB] * 6, edges={"e": pairs})
        drawn = nx.Graph(pairs)
        drawn.add_nodes_from(range(6))
        assert g.is_forest == nx.is_forest(drawn)


def test_builders():
    for n in (0, 1):
        assert chain_graph(AB, np.ones((n, 2))).edge_u.size == 0

    def skips(keys, **params):
        made = chain_graph(AB, np.ones((len(keys), 1)), keys=keys, **params)
        n = len(keys) - 1
        return [*zip(made.edge_u[n:].tolist(), made.edge_v[n:].tolist())]

    keys = ["apple", None, "eats", "apple", None, "apple"]
    assert skips(keys) == [(0, 3), (3, 5)]
    assert skips(keys, max_distance=2) == [(3, 5)]
    assert skips("aa") == [(0, 1)] and skips("ab") == skips("abca", max_distance=2)
    chain = chain_graph(AB, np.ones((3, 2)), edge_features=[[1, 2], [3, 4]])
    assert chain.edge_types == ("next",) and chain.edge_features["next"].width == 2
    assert chain_graph(AB, sp.csr_array(np.ones((1, 2)))).n_edges == 0
    with pytest.raises(ValueError, match="keys must have 3"):
        chain_graph(AB, np.ones((3, 1)), keys="ab")
    for distance in (0, -1, 1.5):
        with pytest.raises(ValueError, match="^max_distance must be"):
            chain_graph(AB, np.ones((3, 1)), keys="aba", max_distance=distance)
    with pytest.raises(ValueError, match="instance 'c': variable"):
        chain_graph(
            AB, np.ones((3, 1)), forbidden=[(a, b) for a in AB for b in AB], name="c"
        )
    four = grid_graph(AB, np.ones((3, 5, 1)))
    eight = grid_graph(AB, np.ones((3, 5, 1)), connectivity=8)
    assert four.n_edges == 3 * 4 + 2 * 5 and eight.n_edges == four.n_edges + 2 * 2 * 4
    cells = [divmod(c, 5) for c in range(15)]
    for e in range(eight.n_edges):
        (r, c), (s, d) = cells[eight.edge_u[e]], cells[eight.edge_v[e]]
        assert max(abs(r - s), abs(c - d)) == 1
    pairs = {frozenset(p) for p in zip(eight.edge_u.tolist(), eight.edge_v.tolist())}
    assert len(pairs) == eight.n_edges
    with pytest.raises(ValueError, match="connectivity must be one of 4, 8"):
        grid_graph(AB, np.ones((2, 2, 1)), connectivity=6)
    with pytest.raises(ValueError, match="features must have the shape"):
        grid_graph(AB, np.ones((3, 5)))


# -------------------------------------------------------------------- vectorizer

TEXT = {
    "name": "t",
    "variables": [
        {
            "candidates": ["Ada", "she"],
            "kinds": ["name", "pronoun"],
            "features": {"role": "subject", "first": True},
            "candidate_features": [{"length": 2}, {"length": 1, "short": 1}],
        },
        {"candidates": ["Ada", "her"], "features": {"role": ["object", "late"]}},
    ],
    "edges": [
        (0, 1, "next", {"distance": 3.0}, {("Ada", "Ada"): {"same": 1}}),
        (0, 1, "plain"),
    ],
}


def test_vectorizer():
    vectorizer = FactorGraphVectorizer().fit([TEXT])
    assert vectorizer.feature_names_.tolist() == [
        "first", "role:late", "role:object", "role:subject",
    ]  # fmt: skip
    assert vectorizer.candidate_feature_names_.tolist() == ["length", "short"]
    assert {k: v.tolist() for k, v in vectorizer.edge_feature_names_.items()} == {
        "next": ["distance"]
    }
    assert {k: v.tolist() for k, v in vectorizer.pair_feature_names_.items()} == {
        "next": ["same"]
    }
    (g,) = vectorizer.transform([TEXT])

    rows = dense
    assert rows(g.features).tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]
    assert rows(g.candidate_features).tolist() == [[2, 0], [1, 1], [0, 0], [0, 0]]
    assert rows(g.edge_features["next"]).tolist() == [[3]]
    assert rows(g.edge_features["plain"]).tolist() == [[1]]  # the constant
    assert rows(g.pair_features["next"]).tolist() == [[1], [0], [0], [0]]
    assert g.kinds == (("name", "pronoun"), ("Ada", "her")) and g.name == "t"

    other = {"variables": [{"candidates": AB, "features": {"new": 1, "first": 2}}] * 2}
    both = vectorizer.transform([TEXT, other])
    assert rows(both[1].features).tolist() == [[2, 0, 0, 0]] * 2
    assert rows(both[0].features).tolist() == rows(g.features).tolist()
    assert [h.n_edges for h in both] == [2, 0]
    again = FactorGraphVectorizer().fit_transform([TEXT, other])
    assert rows(again[1].features)[0].tolist() == [2, 1, 0, 0, 0]


def test_vectorizer_in_a_pipeline():
    X = [TEXT] * 6
    y = [["Ada", "her"]] * 6
    model = make_pipeline(FactorGraphVectorizer(), SampleRankClassifier(random_state=0))
    assert model.fit(X, y).score(X, y) == 1.0
    nothing = {"variables": [], "name": "empty"}
    assert model.predict([nothing, TEXT])[0].size == 0


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (3, "instance 1: must be a mapping with the key 'variables'"),
        ({"nodes": []}, "instance 1: must be a mapping with the key 'variables'"),
        ({"variables": [], "edgs": []}, "instance 1: unknown key 'edgs'"),
        ({"variables": [3]}, "instance '1': variable 0: must be a mapping"),
        ({"variables": [{"candidates": 3}]}, "instance '1': variable 0: candidates"),
        ({"variables": [{"candidates": []}]}, "instance '1': variable 0: has no cand"),
        (
            {"variables": [{"candidates": AB, "feature": {}}]},
            "instance '1': variable 0: unknown key 'feature'",
        ),
        (
            {"variables": [{"candidates": AB, "features": 3}]},
            "instance '1': variable 0: features must be a mapping",
        ),
        (
            {"variables": [{"candidates": AB, "features": {"first": np.nan}}]},
            "instance '1': variable 0: feature 'first' is NaN",
        ),
        (
            {"variables": [{"candidates": AB, "candidate_features": [{}]}]},
            "instance '1': variable 0: candidate_features has 1 entries for 2",
        ),
        (
            {"variables": [{"candidates": AB}] * 2, "edges": [(0, 2, "e")]},
            "instance '1': edge 0 leads to variable 2",
        ),
        (
            {"variables": [{"candidates": AB}] * 2, "edges": [(0, 1)]},
            "instance '1': edge 0: must be",
        ),
        (
            {"variables": [{"candidates": AB}] * 2, "edges": [(0, 1, 5)]},
            "instance '1': edge 0: the type must be a string",
        ),
        (
            {
                "variables": [{"candidates": AB}] * 2,
                "edges": [(0, 1, "e", None, {("a", "z"): {}})],
            },
            "instance '1': edge 0: pair_features has .*'z'",
        ),
        (
            {
                "variables": [{"candidates": AB}] * 2,
                "edges": [(0, 1, "e")],
                "forbidden": {"e": [(a, b) for a in AB for b in AB]},
            },
            "instance '1': variable .: the forbidden pairs",
        ),
    ],
)
def test_vectorizer_errors_name_the_instance(bad, message):
    vectorizer = FactorGraphVectorizer().fit([TEXT])
    with pytest.raises(ValueError, match=message):
        vectorizer.transform([TEXT, bad])
    with pytest.raises(ValueError, match="wrap a single instance"):
        vectorizer.transform(TEXT)
    with pytest.raises(ValueError, match="^X must be a list of instances, got None$"):
        vectorizer.fit(None)


@pytest.mark.parametrize("seed", range(5))
def test_vectorizer_reads_features_as_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    names = ["a", "b=c", "b", "é", "z:1", "0"]

    def features():
        chosen = rng.choice(names, rng.integers(5), replace=False).tolist()
        made = [0.0, 2, -1.5, "c", ["c", "d", "c"], True, np.float32(0.5)]
        return {name: made[rng.integers(len(made))] for name in chosen}

    def texts(n):
        return [
            {
                "variables": [
                    {
                        "candidates": AB,
                        "features": features(),
                        **({"candidate_features": [features(), None]} if v else {}),
                    }
                    for v in rng.integers(0, 2, rng.integers(1, 5))
                ]
            }
            for _ in range(n)
        ]

    known, new = texts(4), texts(30)
    vectorizer = FactorGraphVectorizer().fit(known)
    assert_same_rows(vectorizer.transform(new), known, new, vectorizer)
    again = FactorGraphVectorizer()
    assert_same_rows(again.fit_transform(known), known, known, again)


def assert_same_rows(graphs, known, new, vectorizer):
    """Features and candidate features are those of a DictVectorizer."""

    def given(texts, own):
        for text in texts:
            for variable in text["variables"]:
                if own:
                    rows = variable.get("candidate_features", [None, None])
                    yield from (row or {} for row in rows)
                else:
                    yield variable["features"]

    for own, name in ((False, "features"), (True, "candidate_features")):
        peer = DictVectorizer(separator=":", sparse=False).fit(list(given(known, own)))
        made = [getattr(graph, name) for graph in graphs]
        rows = np.vstack(
            [
                sp.csr_array((r.value, r.column, r.ptr), (r.n_rows, r.width)).toarray()
                for r in made
            ]
        )
        expected = peer.transform(list(given(new, own)))
        np.testing.assert_array_equal(rows, expected)
        learnt = "feature_names_" if name == "features" else "candidate_feature_names_"
        assert getattr(vectorizer, learnt).tolist() == list(peer.feature_names_)


@pytest.mark.parametrize("features", [None, 3, "ab", np.float64(1.0)])
def test_chains_need_rows_of_features(features):
    with pytest.raises(ValueError, match="features must be a matrix"):
        chain_graph(["a", "b"], features)
    with pytest.raises(ValueError, match="keys must have one entry per variable"):
        chain_graph(["a", "b"], [[1.0]], keys=5)
