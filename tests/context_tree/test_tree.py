"""The context tree against its definition, by brute force over dictionaries."""

import itertools
import pickle

import numpy as np
import pytest

from sklstruct.context_tree import ContextTree
from sklstruct.context_tree._tree import Histories, sliding_base


def draw(seed, n=80, width=5, n_symbols=3, n_classes=4, missing=0.1):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_symbols, size=(n, width)).astype(np.int32)
    X[rng.random(X.shape) < missing] = -1
    y = rng.integers(0, n_classes, size=n).astype(np.int32)
    return X, y, rng.random(n) + 0.1


def history(row, m):
    out = []
    for s in row[::-1][:m]:
        if s < 0:
            break
        out.append(int(s))
    return tuple(out)  # most recent first


def brute_counts(X, y, weight, m):
    """{context: {class: c}}, {context: t}, contexts written most recent first."""
    c, t = {}, {}
    for row, target, w in zip(X, y, weight):
        h = history(row, m)
        t[h] = t.get(h, 0.0) + w
        for k in range(len(h) + 1):
            pairs = c.setdefault(h[:k], {})
            pairs[int(target)] = pairs.get(int(target), 0.0) + w
    return c, t


def contexts_of(tree):
    return [tuple(int(s) for s in c[::-1]) for c in tree.contexts()]


@pytest.mark.parametrize("m", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("seed", range(3))
def test_trie_is_the_set_of_suffixes_with_their_counts(seed, m):
    X, y, weight = draw(seed)
    tree, terminal = ContextTree.from_histories(Histories.from_windows(X, m), 3)
    tree.count_pairs(terminal, y, 4, weight)
    c, t = brute_counts(X, y, weight, m)
    names = contexts_of(tree)
    assert set(names) == set(c)
    assert len(names) == len(set(names))
    for node, name in enumerate(names):
        pairs = slice(tree.pair_ptr[node], tree.pair_ptr[node + 1])
        found = dict(zip(tree.target[pairs].tolist(), tree.count[pairs]))
        expected = c[name]
        if node == 0:  # the root is dense
            expected = {k: expected.get(k, 0.0) for k in range(4)}
        assert found.keys() == expected.keys()
        for k, value in expected.items():
            assert found[k] == pytest.approx(value)
        assert tree.node_weight[node] == pytest.approx(t.get(name, 0.0))
    for i, row in enumerate(X):
        assert names[terminal[i]] == history(row, m)


@pytest.mark.parametrize("collapse", [False, True])
def test_numbering_is_canonical(collapse):
    X, y, _ = draw(0, n=200)
    tree, terminal = ContextTree.from_histories(
        Histories.from_windows(X, 5), 3, collapse=collapse
    )
    tree.count_pairs(terminal, y, 4)
    parent, level = tree.parent, tree.levels()
    assert (parent[1:] < np.arange(1, tree.n_nodes)).all()
    assert (np.diff(level) >= 0).all()
    assert (level[1:] == level[parent[1:]] + 1).all()
    for n in range(tree.n_nodes):
        children = np.flatnonzero(parent == n)
        assert np.array_equal(
            children, np.arange(tree.child_ptr[n], tree.child_ptr[n + 1])
        )
        assert (np.diff(tree.symbol[children]) > 0).all()
        targets = tree.target[tree.pair_ptr[n] : tree.pair_ptr[n + 1]]
        assert (np.diff(targets) > 0).all()
    node_of_pair = np.repeat(np.arange(tree.n_nodes), np.diff(tree.pair_ptr))
    below = np.arange(4, tree.n_pairs)
    above = tree.pair_parent[below]
    assert (tree.pair_parent[:4] == -1).all()
    assert (tree.target[above] == tree.target[below]).all()
    assert (node_of_pair[above] == parent[node_of_pair[below]]).all()

    # ... and does not depend on the order of the samples.
    order = np.random.default_rng(1).permutation(len(X))
    other, other_terminal = ContextTree.from_histories(
        Histories.from_windows(X[order], 5), 3, collapse=collapse
    )
    assert np.array_equal(other.parent, tree.parent)
    assert np.array_equal(other.symbol, tree.symbol)
    assert np.array_equal(other_terminal, terminal[order])


@pytest.mark.parametrize("m", [1, 3, 6])
@pytest.mark.parametrize("seed", range(3))
def test_collapsed_tree_merges_exactly_the_paths_without_a_choice(seed, m):
    X, y, weight = draw(seed, width=6, missing=0.05)
    histories = Histories.from_windows(X, m)
    tree, terminal = ContextTree.from_histories(histories, 3, collapse=True)
    tree.count_pairs(terminal, y, 4, weight)
    c, t = brute_counts(X, y, weight, m)
    n_of = {h: sum(v.values()) for h, v in c.items()}

    def merged(h):
        # One extension only, and no sample that ends here.
        longer = [g for g in n_of if len(g) == len(h) + 1 and g[: len(h)] == h]
        return h != () and len(longer) == 1 and h not in t

    names = contexts_of(tree)
    assert set(names) == {h for h in c if not merged(h)}
    for node, name in enumerate(names[1:], start=1):
        above = names[tree.parent[node]]
        assert name[: len(above)] == above
        assert tree.span[node] == len(name) - len(above)
    assert tree.span[0] == 1

    # Expanding gives the trie back, counts and all.
    trie, expected_terminal = ContextTree.from_histories(histories, 3)
    trie.count_pairs(expected_terminal, y, 4, weight)
    expanded, index = tree.expand()
    for name in [
        "parent",
        "symbol",
        "level_ptr",
        "child_ptr",
        "pair_ptr",
        "target",
        "pair_parent",
        "count",
        "node_weight",
    ]:
        a, b = getattr(expanded, name), getattr(trie, name)
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-13, err_msg=name)
    offset = np.cumsum(tree.span) - tree.span
    end = index[offset[terminal] + tree.span[terminal] - 1]
    assert np.array_equal(end, expected_terminal)


@pytest.mark.parametrize("collapse", [False, True])
def test_find_stops_at_the_deepest_known_suffix(collapse):
    X, _, _ = draw(3, n=40, width=6, missing=0.02)
    tree, _ = ContextTree.from_histories(
        Histories.from_windows(X, 6), 3, collapse=collapse
    )
    known = {history(row, 6)[:k] for row in X for k in range(7)}
    names = contexts_of(tree)
    new = np.array(list(itertools.product([0, 1, 2], repeat=6)), dtype=np.int32)
    new = np.vstack([new, X])
    node, matched = tree.find(Histories.from_windows(new, 6))
    depth, span = tree.depths(), tree.spans()
    for row, n, j in zip(new, node, matched):
        h = history(row, 6)
        longest = max(k for k in range(len(h) + 1) if h[:k] in known)
        assert depth[n] - span[n] + j == longest
        assert names[n][:longest] == h[:longest]


@pytest.mark.parametrize("collapse", [False, True])
def test_sliding_windows_are_read_in_place(collapse):
    tokens = np.random.default_rng(0).integers(-1, 4, size=300).astype(np.int32)
    view = np.lib.stride_tricks.sliding_window_view(tokens, 4)
    assert sliding_base(view) is not None
    assert sliding_base(view.copy()) is None
    in_place = Histories.from_windows(view, 4)
    assert np.shares_memory(in_place.flat, tokens)
    a, ta = ContextTree.from_histories(in_place, 4, collapse=collapse)
    b, tb = ContextTree.from_histories(
        Histories.from_windows(view.copy(), 4), 4, collapse=collapse
    )
    positions = np.arange(4, len(tokens) + 1)
    c, tc = ContextTree.from_histories(
        Histories.from_tokens(tokens, positions, 4), 4, collapse=collapse
    )
    for other, terminal in ((b, tb), (c, tc)):
        assert np.array_equal(a.parent, other.parent)
        assert np.array_equal(a.symbol, other.symbol)
        assert np.array_equal(ta, terminal)
        assert [x.tolist() for x in a.contexts()] == [
            x.tolist() for x in other.contexts()
        ]


def test_weights_repeat_samples():
    X, y, _ = draw(5)
    weight = np.random.default_rng(0).integers(1, 4, size=len(y))
    tree, terminal = ContextTree.from_histories(Histories.from_windows(X, 3), 3)
    tree.count_pairs(terminal, y, 4, weight.astype(float))
    again = np.repeat(np.arange(len(y)), weight)
    twin, twin_terminal = ContextTree.from_histories(
        Histories.from_windows(X[again], 3), 3
    )
    twin.count_pairs(twin_terminal, y[again], 4)
    assert np.array_equal(tree.count, twin.count)
    assert np.array_equal(tree.node_weight, twin.node_weight)
    assert np.array_equal(tree.target, twin.target)


def test_terminal_counts():
    X, y, weight = draw(6, missing=0.3)
    tree, terminal = ContextTree.from_histories(Histories.from_windows(X, 4), 3)
    tree.count_pairs(terminal, y, 4, weight)
    expected = np.zeros(tree.n_pairs)
    for n, target, w in zip(terminal, y, weight):
        pairs = slice(tree.pair_ptr[n], tree.pair_ptr[n + 1])
        p = tree.pair_ptr[n] + np.searchsorted(tree.target[pairs], target)
        expected[p] += w
    found = tree.terminal_counts()
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert (found >= 0).all()


def test_empty_and_tiny_inputs():
    none = Histories.from_windows(np.empty((0, 3), dtype=np.int32), 3)
    for collapse in (False, True):
        tree, terminal = ContextTree.from_histories(none, 2, collapse=collapse)
        assert tree.n_nodes == 1 and terminal.size == 0
    one = Histories.from_windows(np.array([[0, 1]], dtype=np.int32), 2)
    tree, terminal = ContextTree.from_histories(one, 2, collapse=True)
    assert tree.n_nodes == 2 and tree.span.tolist() == [1, 2]
    tree.count_pairs(terminal, np.zeros(1, np.int32), 1)
    assert tree.count.tolist() == [1.0, 1.0]


def test_long_repetitive_history():
    # One symbol 3 000 times: a single path, as deep as the text.
    tokens = np.zeros(3000, dtype=np.int32)
    histories = Histories.from_tokens(tokens, np.arange(1, 3001), 3000)
    trie, _ = ContextTree.from_histories(histories, 1)
    assert trie.n_nodes == 3001
    tree, terminal = ContextTree.from_histories(histories, 1, collapse=True)
    assert tree.n_nodes == 3001  # a sample ends at every depth
    last = histories.select(np.arange(3000) == 2999)
    tree, _ = ContextTree.from_histories(last, 1, collapse=True)
    assert tree.n_nodes == 2 and tree.span[1] == 3000


def test_kernels_are_behind_checks():
    with pytest.raises(ValueError, match="positions"):
        Histories.from_tokens(np.zeros(3, np.int32), np.array([4]), 2)
    X, y, weight = draw(0)
    histories = Histories.from_windows(X, 3)
    with pytest.raises(ValueError, match="n_symbols=2"):
        ContextTree.from_histories(histories, 2)
    with pytest.raises(ValueError, match="outside"):
        ContextTree.from_histories(histories._replace(length=histories.length + 99), 3)
    tree, terminal = ContextTree.from_histories(histories, 3)
    with pytest.raises(ValueError, match="target"):
        tree.count_pairs(terminal, y, 3)
    with pytest.raises(ValueError, match="terminal"):
        tree.count_pairs(terminal + tree.n_nodes, y, 4)
    with pytest.raises(ValueError, match="length"):
        tree.count_pairs(terminal, y[1:], 4)
    with pytest.raises(ValueError, match="length"):
        tree.count_pairs(terminal, y, 4, weight[1:])
    with pytest.raises(ValueError, match="parent"):
        ContextTree(np.array([-1, 5], np.int32), np.zeros(2, np.int32), [0, 1, 2], 1)


def test_pickle_holds_little_more_than_the_arrays():
    X, y, _ = draw(0, n=3000, n_symbols=3)
    tree, terminal = ContextTree.from_histories(Histories.from_windows(X, 5), 3)
    tree.count_pairs(terminal, y, 4)
    arrays = sum(v.nbytes for v in vars(tree).values() if isinstance(v, np.ndarray))
    dump = pickle.dumps(tree, protocol=5)
    assert len(dump) < arrays + 2000
    assert np.array_equal(pickle.loads(dump).count, tree.count)
    assert "trie" in repr(tree)
