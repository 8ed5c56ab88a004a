"""Builders of word graphs."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklstruct.smoothing import (
    cooccurrence_graph,
    group_graph,
    neighbors_graph,
    wordnet_graph,
)


def check_graph(graph, n):
    assert isinstance(graph, sp.csr_array)
    assert graph.shape == (n, n)
    assert graph.has_canonical_format
    assert (graph.data > 0).all()
    assert not graph.diagonal().any()
    assert abs(graph - graph.T).nnz == 0


def test_cooccurrence():
    rng = np.random.default_rng(0)
    c = rng.poisson(0.5, (12, 12))
    s = c + c.T
    graph = cooccurrence_graph(sp.csr_array(c))
    check_graph(graph, 12)
    with np.errstate(divide="ignore"):
        pmi = np.log(s * s.sum() / np.outer(s.sum(0), s.sum(0)))
    expected = np.maximum(pmi, 0)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(graph.toarray(), expected, rtol=1e-12)
    np.fill_diagonal(s, 0)
    np.testing.assert_array_equal(cooccurrence_graph(c, weighting="count").toarray(), s)


@pytest.mark.parametrize("size", [2.0**1020, 2.0**-1060])
def test_cooccurrence_of_any_size(size):
    c = np.random.default_rng(0).poisson(0.5, (12, 12)).astype(float)
    expected = cooccurrence_graph(c).toarray()
    np.testing.assert_array_equal(cooccurrence_graph(c * size).toarray(), expected)
    with pytest.raises(ValueError, match="not finite"):
        cooccurrence_graph([[0, 1e308], [1e308, 0]], weighting="count")


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("sparse", [False, True])
def test_neighbors(metric, sparse):
    X = np.random.default_rng(0).normal(size=(30, 4))
    graph = neighbors_graph(sp.csr_array(X) if sparse else X, 3, metric=metric)
    check_graph(graph, 30)
    if metric == "cosine":
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)
        near = unit @ unit.T
    else:
        near = -np.linalg.norm(X[:, None] - X, axis=2)
    np.fill_diagonal(near, -np.inf)
    top = np.argsort(-near, axis=1)[:, :3]
    linked = np.zeros((30, 30), dtype=bool)
    linked[np.arange(30)[:, None], top] = True
    linked |= linked.T
    if metric == "cosine":
        np.testing.assert_allclose(
            graph.toarray(), np.where(linked, np.maximum(near, 0), 0), atol=1e-12
        )
    else:
        np.testing.assert_array_equal(graph.toarray() > 0, linked)


def test_groups():
    graph = group_graph(["a", "b", "a", None, None, "a"])
    check_graph(graph, 6)
    expected = np.zeros((6, 6))
    for i, j in ((0, 2), (0, 5), (2, 5)):
        expected[i, j] = expected[j, i] = 1
    np.testing.assert_array_equal(graph.toarray(), expected)
    check_graph(group_graph(range(4)), 4)
    check_graph(group_graph([]), 0)


def test_groups_that_are_too_large():
    with pytest.raises(ValueError, match="smaller groups"):
        group_graph(["x"] * 10_002)


WORDNET = {
    "noun": """\
  1 a licence line
00000010 03 n 02 animal 0 beast 0 000 | a being
00000020 03 n 01 dog 0 002 @ 00000010 n 0000 ! 00000030 n 0000 | barks; an "animal"
00000030 03 n 01 cat 0 001 @ 00000010 n 0000 | meows
""",
    "verb": "00000040 30 v 01 bark 0 001 + 00000020 n 0101 01 + 02 00 | woof\n",
    "adj": """\
00000050 00 a 02 big 0 large(a) 0 001 & 00000060 a 0000 | of size
00000060 00 s 01 huge 0 001 & 00000050 a 0000 | very big
""",
    "adv": "",
}
WORDS = ["Animal", "bark", "beast", "big", "cat", "dog", "huge", "large", "xyzzy"]


@pytest.fixture
def wordnet(tmp_path):
    for name, text in WORDNET.items():
        (tmp_path / f"data.{name}").write_text(text)
    return tmp_path


def edges(graph):
    rows, columns = sp.triu(graph).nonzero()
    return {(WORDS[i], WORDS[j]): float(graph[i, j]) for i, j in zip(rows, columns)}


def test_wordnet(wordnet):
    graph = wordnet_graph(WORDS, wordnet)
    check_graph(graph, len(WORDS))
    assert edges(graph) == {
        ("Animal", "beast"): 1.0,
        ("Animal", "cat"): 0.5,
        ("Animal", "dog"): 0.5,
        ("beast", "cat"): 0.5,
        ("beast", "dog"): 0.5,
        ("bark", "dog"): 0.5,
        ("big", "large"): 1.0,
        ("big", "huge"): 0.5,
        ("huge", "large"): 0.5,
    }


def test_wordnet_relations(wordnet):
    graph = wordnet_graph(WORDS, wordnet, relations=())
    assert set(edges(graph)) == {("Animal", "beast"), ("big", "large")}
    graph = wordnet_graph(WORDS, wordnet, relations=("antonym",), relation_weight=2)
    assert edges(graph)["cat", "dog"] == 2.0


def test_wordnet_bad_input(wordnet, tmp_path):
    with pytest.raises(ValueError, match="relations must be among"):
        wordnet_graph(WORDS, wordnet, relations=["meronym"])
    with pytest.raises(ValueError, match="relation_weight"):
        wordnet_graph(WORDS, wordnet, relation_weight=0)
    with pytest.raises(FileNotFoundError, match="apt install wordnet-base"):
        wordnet_graph(WORDS, tmp_path / "nowhere")
    (wordnet / "data.verb").write_text(WORDNET["verb"] + "00000041 30 v 02 bark\n")
    with pytest.raises(ValueError, match=r"data\.verb, line 2 is not"):
        wordnet_graph(WORDS, wordnet)


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: cooccurrence_graph([[1, 2]]), "square"),
        (lambda: cooccurrence_graph([[1, -2], [0, 0]]), "negative"),
        (lambda: cooccurrence_graph([[1]], weighting="x"), "weighting"),
        (lambda: neighbors_graph([[1], [2]], 2), "n_neighbors"),
        (lambda: neighbors_graph([[1], [2]], 0), "n_neighbors"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()
