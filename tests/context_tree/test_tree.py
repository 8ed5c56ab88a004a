"""The context tree against its definition, by brute force over dictionaries."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse

from sklstruct.context_tree import (
    ContextTree,
    Histories,
    HistoryColumns,
    Pairs,
    expand_pairs,
    expand_tree,
    find_histories,
    find_paths,
    merge_counts,
    tree_of_paths,
    tree_of_windows,
)
from sklstruct.context_tree._paths import path_arrays
from sklstruct.context_tree._suffix_tree import suffix_tree
from sklstruct.symbols._encoding import sliding_base

BUILD = {False: ContextTree.from_histories, True: suffix_tree}


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


@pytest.mark.parametrize("m", [1, 0, 2, 5, 9])
def test_trie_is_the_set_of_suffixes_with_their_counts(m):
    X, y, weight = draw(m)
    tree, terminal = ContextTree.from_histories(Histories.from_windows(X, m), 3)
    pairs, count = Pairs.count(tree, terminal, y, 4, weight)
    c, t = brute_counts(X, y, weight, m)
    names = contexts_of(tree)
    assert set(names) == set(c)
    assert len(names) == len(set(names))
    for node, name in enumerate(names):
        here = slice(pairs.ptr[node], pairs.ptr[node + 1])
        found = dict(zip(pairs.target[here].tolist(), count[here]))
        expected = c[name]
        if node == 0:  # the root is dense
            expected = {k: expected.get(k, 0.0) for k in range(4)}
        assert found.keys() == expected.keys()
        for k, value in expected.items():
            assert found[k] == pytest.approx(value)
        assert pairs.node_sums(pairs.terminal_counts(count))[node] == pytest.approx(
            t.get(name, 0.0)
        )
    for i, row in enumerate(X):
        assert names[terminal[i]] == history(row, m)


@pytest.mark.parametrize("min_count", [2, 1, 50])
@pytest.mark.parametrize("weighted", [False, True])
def test_rare_contexts_are_not_made(min_count, weighted):
    for seed in range(4):
        X, y, weight = draw(seed, n_symbols=4)
        weight[::4] = 0.0  # contexts without weight occur, too
        weight = weight if weighted else np.ones(len(y))
        windows = Histories.from_windows(X, 5)
        tree, terminal = ContextTree.from_histories(
            windows, 4, weight=weight if weighted else None, min_count=min_count
        )
        c, _ = brute_counts(X, y, weight, 5)
        total = {name: sum(of.values()) for name, of in c.items()}
        kept = {n for n, t in total.items() if not n or min_count == 1 or t > min_count}
        if not weighted and min_count > 1:
            kept |= {name for name, t in total.items() if t == min_count}
        names = contexts_of(tree)
        assert set(names) == kept
        # In the order of the whole tree: by level, then by parent and symbol.
        whole, _ = ContextTree.from_histories(windows, 4)
        assert names == [name for name in contexts_of(whole) if name in kept]
        ContextTree(tree.parent, tree.symbol)  # which checks the order
        for i, row in enumerate(X):
            deepest = history(row, 5)
            while deepest not in kept:
                deepest = deepest[:-1]
            assert names[terminal[i]] == deepest


@pytest.mark.parametrize("min_count", [1, 3])
def test_columns_that_are_made_when_they_are_read_give_the_same_tree(min_count):
    X, _, weight = draw(3)
    histories = Histories.from_windows(X, 4)
    asked = []

    def make(k):
        asked.append(k)
        return np.ascontiguousarray(X[:, -k])

    columns = HistoryColumns(make, len(X), 4)
    options = {"weight": weight, "min_count": min_count}
    tree, node = ContextTree.from_histories(columns, 3, **options)
    expected, of_sample = ContextTree.from_histories(histories, 3, **options)
    assert tree == expected
    np.testing.assert_array_equal(node, of_sample)
    assert asked == [1, 2, 3, 4]
    np.testing.assert_array_equal(columns.windows(), X[:, -4:])


def test_columns_that_do_not_fit_are_refused():
    def tree(column, n_symbols=3):
        made = HistoryColumns(lambda k: column, 2, 1)
        return ContextTree.from_histories(made, n_symbols)

    with pytest.raises(ValueError, match="hold the symbol id 3, but n_symbols=3"):
        tree(np.array([0, 3], dtype=np.int32))
    for bad in (np.zeros(3, dtype=np.int32), np.zeros(2)):
        with pytest.raises(ValueError, match="columns must be int32 arrays"):
            tree(bad)


def test_sums_of_fractions_count_as_the_whole_number_that_they_stand_for():
    X = np.zeros((10, 1), dtype=np.int32)
    weight = np.full(10, 0.2)
    assert 1.999 < weight.cumsum()[-1] < 2.0
    histories = Histories.from_windows(X, 1)
    for min_count, n_nodes in ((2, 2), (3, 1)):
        tree, _ = ContextTree.from_histories(
            histories, 1, weight=weight, min_count=min_count
        )
        assert tree.n_nodes == n_nodes
    with pytest.raises(ValueError, match="histories and weight differ in length"):
        ContextTree.from_histories(histories, 1, weight=weight[1:])


@pytest.mark.parametrize("collapse", [False, True])
def test_numbering_is_canonical(collapse):
    X, y, _ = draw(0, n=200)
    tree, terminal = BUILD[collapse](Histories.from_windows(X, 5), 3)
    pairs, count = Pairs.count(tree, terminal, y, 4)
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
        targets = pairs.target[pairs.ptr[n] : pairs.ptr[n + 1]]
        assert (np.diff(targets) > 0).all()
    node_of_pair = np.repeat(np.arange(tree.n_nodes), np.diff(pairs.ptr))
    below = np.arange(4, pairs.n_pairs)
    above = pairs.parent[below]
    assert (pairs.parent[:4] == -1).all()
    assert (pairs.target[above] == pairs.target[below]).all()
    assert (node_of_pair[above] == parent[node_of_pair[below]]).all()

    # ... and does not depend on the order of the samples.
    order = np.random.default_rng(1).permutation(len(X))
    other, other_terminal = BUILD[collapse](Histories.from_windows(X[order], 5), 3)
    assert np.array_equal(other.parent, tree.parent)
    assert np.array_equal(other.symbol, tree.symbol)
    assert np.array_equal(other_terminal, terminal[order])


@pytest.mark.parametrize("m", [6, 1, 3])
def test_collapsed_tree_merges_exactly_the_paths_without_a_choice(m):
    X, y, weight = draw(m, width=6, missing=0.05)
    histories = Histories.from_windows(X, m)
    tree, terminal = suffix_tree(histories, 3)
    pairs, count = Pairs.count(tree, terminal, y, 4, weight)
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
    trie_pairs, trie_count = Pairs.count(trie, expected_terminal, y, 4, weight)
    expanded, index = expand_tree(tree)
    assert expanded == trie
    assert np.array_equal(expanded.level_ptr, trie.level_ptr)
    assert np.array_equal(expanded.child_ptr, trie.child_ptr)
    expanded_pairs, source = expand_pairs(pairs)
    assert expanded_pairs.tree is expanded and expanded_pairs == trie_pairs
    assert np.array_equal(expanded_pairs.parent, trie_pairs.parent)
    np.testing.assert_allclose(count[source], trie_count, rtol=1e-13)
    np.testing.assert_allclose(
        expanded_pairs.node_sums(expanded_pairs.terminal_counts(count[source])),
        trie_pairs.node_sums(trie_pairs.terminal_counts(trie_count)),
        atol=1e-12,
    )
    offset = np.cumsum(tree.span) - tree.span
    end = index[offset[terminal] + tree.span[terminal] - 1]
    assert np.array_equal(end, expected_terminal)


@pytest.mark.parametrize("collapse", [False, True])
def test_find_stops_at_the_deepest_known_suffix(collapse):
    X, _, _ = draw(3, n=40, width=6, missing=0.02)
    tree, _ = BUILD[collapse](Histories.from_windows(X, 6), 3)
    known = {history(row, 6)[:k] for row in X for k in range(7)}
    names = contexts_of(tree)
    new = np.array(list(itertools.product([0, 1, 2], repeat=6)), dtype=np.int32)
    new = np.vstack([new, X])
    node, matched = find_histories(tree, Histories.from_windows(new, 6))
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
    a, ta = BUILD[collapse](in_place, 4)
    b, tb = BUILD[collapse](Histories.from_windows(view.copy(), 4), 4)
    positions = np.arange(4, len(tokens) + 1)
    c, tc = BUILD[collapse](Histories.from_tokens(tokens, positions, 4), 4)
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
    pairs, count = Pairs.count(tree, terminal, y, 4, weight.astype(float))
    again = np.repeat(np.arange(len(y)), weight)
    twin, twin_terminal = ContextTree.from_histories(
        Histories.from_windows(X[again], 3), 3
    )
    twin_pairs, twin_count = Pairs.count(twin, twin_terminal, y[again], 4)
    assert np.array_equal(count, twin_count) and pairs == twin_pairs
    assert np.array_equal(
        pairs.node_sums(pairs.terminal_counts(count)),
        twin_pairs.node_sums(twin_pairs.terminal_counts(twin_count)),
    )


def test_terminal_counts():
    X, y, weight = draw(6, missing=0.3)
    tree, terminal = ContextTree.from_histories(Histories.from_windows(X, 4), 3)
    pairs, count = Pairs.count(tree, terminal, y, 4, weight)
    expected = np.zeros(pairs.n_pairs)
    for n, target, w in zip(terminal, y, weight):
        here = slice(pairs.ptr[n], pairs.ptr[n + 1])
        p = pairs.ptr[n] + np.searchsorted(pairs.target[here], target)
        expected[p] += w
    found = pairs.terminal_counts(count)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert (found >= 0).all()


def test_empty_and_tiny_inputs():
    none = Histories.from_windows(np.empty((0, 3), dtype=np.int32), 3)
    for collapse in (False, True):
        tree, terminal = BUILD[collapse](none, 2)
        assert tree.n_nodes == 1 and terminal.size == 0
    one = Histories.from_windows(np.array([[0, 1]], dtype=np.int32), 2)
    tree, terminal = suffix_tree(one, 2)
    assert tree.n_nodes == 2 and tree.span.tolist() == [1, 2]
    pairs, count = Pairs.count(tree, terminal, np.zeros(1, np.int32), 1)
    assert count.tolist() == [1.0, 1.0]


def test_long_repetitive_history():
    # One symbol 3 000 times: a single path, as deep as the text.
    tokens = np.zeros(3000, dtype=np.int32)
    histories = Histories.from_tokens(tokens, np.arange(1, 3001), 3000)
    trie, _ = ContextTree.from_histories(histories, 1)
    assert trie.n_nodes == 3001
    tree, terminal = suffix_tree(histories, 1)
    assert tree.n_nodes == 3001  # a sample ends at every depth
    last = histories.select(np.arange(3000) == 2999)
    tree, _ = suffix_tree(last, 1)
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
        pairs, count = Pairs.count(tree, terminal, y, 3)
    with pytest.raises(ValueError, match="terminal"):
        pairs, count = Pairs.count(tree, terminal + tree.n_nodes, y, 4)
    with pytest.raises(ValueError, match="length"):
        pairs, count = Pairs.count(tree, terminal, y[1:], 4)
    with pytest.raises(ValueError, match="length"):
        pairs, count = Pairs.count(tree, terminal, y, 4, weight[1:])
    with pytest.raises(ValueError, match="parent"):
        ContextTree([-1, 5], [-1, 0], 1)


def test_pickle_holds_little_more_than_the_arrays():
    X, y, _ = draw(0, n=3000, n_symbols=3)
    tree, terminal = ContextTree.from_histories(Histories.from_windows(X, 5), 3)
    pairs, _ = Pairs.count(tree, terminal, y, 4)
    tree.root_child  # noqa: B018 a table that is not to be pickled
    arrays = sum(
        v.nbytes
        for v in (*vars(tree).values(), *vars(pairs).values())
        if isinstance(v, np.ndarray)
    )
    dump = pickle.dumps(pairs, protocol=5)
    assert len(dump) < arrays + 2500
    assert pickle.loads(dump) == pairs
    assert "trie" in repr(tree) and "pairs" in repr(pairs)


def test_parents_of_pairs_are_found_where_they_were_not_counted():
    X, y, _ = draw(2, n=300)
    tree, terminal = ContextTree.from_histories(Histories.from_windows(X, 4), 3)
    pairs, _ = Pairs.count(tree, terminal, y, 4)
    again = Pairs(tree, pairs.ptr, pairs.target)
    assert np.array_equal(again.parent, pairs.parent)
    gap = Pairs(ContextTree([-1, 0, 1], [-1, 0, 0]), [0, 2, 2, 3], [0, 1, 1])
    assert gap.parent.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("seed", range(3))
def test_merging_parts_is_counting_the_whole(seed):
    X, y, weight = draw(seed, n=400)
    weight = np.round(weight * 8)
    tree, terminal = ContextTree.from_histories(Histories.from_windows(X, 4), 3)
    pairs, count = Pairs.count(tree, terminal, y, 4, weight)
    parts = []
    for rows in np.array_split(np.random.default_rng(seed).permutation(400), 3):
        part, ends = ContextTree.from_histories(Histories.from_windows(X[rows], 4), 3)
        # A part may not have met the last classes.
        n_classes = int(y[rows].max()) + 1
        parts.append(Pairs.count(part, ends, y[rows], n_classes, weight[rows]))
    merged, sums, indexes = merge_counts(parts)
    names = contexts_of(merged.tree)
    for (old, _), index in zip(parts, indexes):
        assert [names[i] for i in index] == contexts_of(old.tree)
    assert merged == pairs
    assert np.array_equal(merged.tree.level_ptr, tree.level_ptr)
    assert np.array_equal(merged.parent, pairs.parent)
    assert np.array_equal(sums, count)


@pytest.mark.parametrize("seed", range(3))
def test_selecting_keeps_what_was_asked_for_and_what_it_stands_on(seed):
    X, y, _ = draw(seed, n=200)
    tree, terminal = ContextTree.from_histories(Histories.from_windows(X, 4), 3)
    pairs, count = Pairs.count(tree, terminal, y, 4)
    rng = np.random.default_rng(seed)
    keep = rng.random(tree.n_nodes) < 0.1
    small, index = tree.select(keep)
    names = contexts_of(tree)
    wanted = {names[n][:k] for n in np.flatnonzero(keep) for k in range(9)} | {()}
    assert contexts_of(small) == [name for name in names if name in wanted]
    assert small == ContextTree(small.parent, small.symbol, small.n_symbols)
    for n, new in enumerate(index):
        assert (new >= 0) == (names[n] in wanted)
        if new >= 0:
            assert contexts_of(small)[new] == names[n]

    keep = rng.random(pairs.n_pairs) < 0.2
    some, kept = pairs.select(keep)
    assert some == Pairs(some.tree, some.ptr, some.target)  # in order
    keep[:4] = True
    node = pairs.nodes()
    before = {(names[node[p]], int(pairs.target[p])): count[p]
              for p in np.flatnonzero(keep)}  # fmt: skip
    names = contexts_of(some.tree)
    after = {(names[n], int(t)): c
             for n, t, c in zip(some.nodes(), some.target, count[kept])}  # fmt: skip
    assert before == after


BAD_TREES = {
    "empty": ([], [], "empty"),
    "lengths": ([-1, 0], [-1], "symbol must have 2 entries"),
    "root": ([0, 0], [-1, 0], r"parent\[0\]"),
    "later parent": ([-1, 2, 0], [-1, 0, 0], r"parent\[1\] = 2"),
    "own parent": ([-1, 1], [-1, 0], r"parent\[1\] = 1"),
    "two roots": ([-1, -1], [-1, 0], r"parent\[1\] = -1"),
    "falling": ([-1, 0, 1, 0], [-1, 0, 0, 1], "must not fall"),
    "negative symbol": ([-1, 0], [-1, -2], "negative id"),
    "unsorted": ([-1, 0, 0], [-1, 1, 0], "must rise strictly"),
    "twice": ([-1, 0, 0], [-1, 1, 1], "must rise strictly"),
    "floats": ([-1, 0.5], [-1, 0], "integers"),
}


@pytest.mark.parametrize("case", BAD_TREES)
def test_bad_trees(case):
    parent, symbol, message = BAD_TREES[case]
    with pytest.raises(ValueError, match=message):
        ContextTree(parent, symbol)


def test_bad_pairs():
    tree = ContextTree([-1, 0], [-1, 0])
    for ptr, target, message in (
        ([0, 2], [0, 1], "ptr must have 3 entries"),
        ([0, 0, 1], [0], r"ptr\[1\] is 0"),
        ([0, 2, 1], [0, 1], "ptr"),
        ([0, 2, 3], [1, 0, 1], "target must start with 0, 1"),
        ([0, 2, 3], [0, 1, 2], r"target\[2\] = 2"),
        ([0, 2, 4], [0, 1, 1, 0], "target must rise strictly"),
    ):
        with pytest.raises(ValueError, match=message):
            Pairs(tree, ptr, target)
    pairs = Pairs(tree, [0, 2, 3], [0, 1, 1])
    with pytest.raises(ValueError, match="count must have 3 entries"):
        pairs.adjust_counts(np.ones(2))
    for parent in ([-1, -1], [-1, -1, 3]):
        state = vars(pairs) | {"_parent": np.array(parent, dtype=np.int32)}
        with pytest.raises(ValueError, match="^parent"):
            Pairs.__new__(Pairs).__setstate__(state)


def test_too_few_symbols_and_other_misuse():
    with pytest.raises(ValueError, match="n_symbols=3 is below"):
        ContextTree([-1, 0], [-1, 3], 3)
    tree = ContextTree([-1, 0], [-1, 3])
    with pytest.raises(ValueError, match="keep must have 2 entries"):
        tree.select([True])
    last, _ = suffix_tree(Histories.from_windows(np.zeros((1, 3), np.int32), 3), 1)
    for method in (
        lambda t: t.select([True, True]),
        lambda t: tree_of_windows([t.windows()], 1),
        lambda t: t.find_windows([[0]]),
    ):
        with pytest.raises(ValueError, match="collapsed; expand it first"):
            method(last)
    with pytest.raises(ValueError, match="columns"):
        find_paths(tree, sparse.csr_matrix(np.ones((1, 3))), np.zeros(2, np.int32))


BAD_QUERIES = {
    "node of a pair": (lambda t, p: p.find([9], [0]), r"nodes\[0\] = 9 is not a node"),
    "class of a pair": (lambda t, p: p.find([0], [-1]), r"targets\[0\] = -1"),
    "length": (lambda t, p: p.find([0, 0], [0]), "targets must have 2 entries"),
    "floats": (lambda t, p: p.find([0.5], [0]), "integers"),
    "counts": (lambda t, p: p.terminal_counts([1.0]), "count must have"),
    "numbers": (lambda t, p: p.node_sums(np.ones(99)), "numbers must have"),
    "node of a path": (lambda t, p: path_arrays(t, [9], [1]), r"node\[0\] = 9"),
    "matched": (lambda t, p: path_arrays(t, [0], []), "matched must have 1"),
    "context": (lambda t, p: t.contexts([-1]), r"nodes\[0\] = -1"),
    "columns": (
        lambda t, p: find_paths(t, sparse.csr_matrix((1, 1)), [9]),
        r"column_to_node\[0\] = 9",
    ),
}


@pytest.mark.parametrize("case", BAD_QUERIES)
def test_queries_check_their_ids(case):
    tree = ContextTree([-1, 0], [-1, 0])
    pairs = Pairs(tree, [0, 2, 3], [0, 1, 1])
    call, message = BAD_QUERIES[case]
    with pytest.raises(ValueError, match=message):
        call(tree, pairs)


@pytest.mark.parametrize("seed", range(3))
def test_parents_of_pairs_that_are_found_again(seed):
    """Also where pairs are gone: a pair may have no parent pair."""
    rng = np.random.default_rng(seed)
    tokens = (rng.random(400) ** 2 * 30).astype(np.int32)
    windows = np.lib.stride_tricks.sliding_window_view(tokens, 3)[:-1]
    tree, terminal = ContextTree.from_histories(Histories.from_windows(windows, 3), 30)
    pairs, _ = Pairs.count(tree, terminal, tokens[3:], 30)
    for some in (pairs, pairs.select(rng.random(pairs.n_pairs) < 0.6)[0]):
        up = np.maximum(some.tree.parent, 0)[some.nodes()]
        expected = some.find(up, some.target)
        expected[: some.n_classes] = -1
        some.forget_parents()
        np.testing.assert_array_equal(some.parent, expected)


# Rows of columns with their values, and what is wrong with them.
NO_PATHS = {
    "no root": ([{1: 1}], "does not start at column 0"),
    "two parents": ([{0: 1, 1: 1, 3: 1}, {0: 1, 2: 1, 3: 1}], "another parent column"),
    "below one": ([{0: 1, 1: 0.5}], "a value below 1"),
    "two values": ([{0: 1, 1: 2}, {0: 1, 1: 3}], "another value than the same column"),
    "smaller value": ([{0: 1, 1: 3}, {0: 1, 1: 2}], "another value than the same"),
    "root": ([{0: 2}], "another value than 1, or several entries, in column 0"),
}


@pytest.mark.parametrize("case", NO_PATHS)
def test_matrices_that_do_not_hold_paths(case):
    rows, message = NO_PATHS[case]
    X = np.array([[row.get(j, 0) for j in range(4)] for row in rows], dtype=float)
    with pytest.raises(ValueError, match=message):
        tree_of_paths(sparse.csr_array(X))


def test_matrix_with_more_suffixes_than_a_column_merges():
    tree = ContextTree([-1, 0], [-1, 0])
    X = sparse.csr_array(np.array([[1.0, 2.0]]))
    with pytest.raises(ValueError, match="larger than the number of suffixes"):
        find_paths(tree, X, [0, 1])


@pytest.mark.parametrize(
    "row, message", [([1, 1, 1], "another parent column"), ([1, 0.5, 0], "below 1")]
)
def test_matrices_that_do_not_hold_paths_of_the_tree(row, message):
    """A path goes on only from the end of a column."""
    tree, _, columns = tree_of_paths(sparse.csr_array(np.array([[1.0, 2.0, 1.0]])))
    with pytest.raises(ValueError, match=message):
        find_paths(tree, sparse.csr_array(np.array([row], dtype=float)), columns)


@pytest.mark.parametrize("end", [[], [3], [3, 3]])
def test_levels_of_a_pickle(end):
    """Empty levels may follow, those of the tree itself are what its parents say."""
    tree = ContextTree([-1, 0, 0], [-1, 0, 1])
    state, again = tree.__getstate__(), ContextTree.__new__(ContextTree)
    again.__setstate__({**state, "level_ptr": np.array([0, 1, 3, *end])})
    assert again.n_levels == 2 + len(end) and np.array_equal(again.parent, tree.parent)
    wrong = [[0, 2, 3, *end], [0, 1], [0, 1, 3, *end, 4], [0, 1, 3, 2, *end]]
    for levels in wrong:
        with pytest.raises(ValueError, match="does not fit its parents"):
            again.__setstate__({**state, "level_ptr": np.array(levels)})


@pytest.mark.parametrize("share", [0.5, 0.0, 1.0])
def test_numbers_of_the_nearest_nodes_above(share):
    X, *_ = draw(0, n=200)
    tree, _ = ContextTree.from_histories(Histories.from_windows(X, 4), 3)
    rng = np.random.default_rng(0)
    number = rng.permutation(tree.n_nodes).astype(np.int32)
    number[1:][rng.random(tree.n_nodes - 1) >= share] = -1
    given, found = number.copy(), tree.nearest(number)
    np.testing.assert_array_equal(number, given)
    for node in range(tree.n_nodes):
        above = node
        while number[above] < 0:
            above = tree.parent[above]
        assert found[node] == number[above]


@pytest.mark.parametrize(
    "path", [[0], [1, 0], [2, 1, 0], [2, 1, 0, 5, 4, 3], [2, 0], 17 * [2] + [0]]
)
def test_windows_are_found_from_the_level_of_the_first_word_on(path):
    """Against a dictionary. Classes come before their word, so that a word has one
    node; windows whose classes are not those of their words have other contexts."""
    rng = np.random.RandomState(len(path))
    words = rng.randint(0, 40, size=(500, 2))
    # Ids of words, of 9 classes and of 3; the two clusterings are not nested.
    kinds = [words, 40 + words % 9, 49 + words // 14]
    columns = np.column_stack([k[:, j] for j in (1, 0) for k in kinds])
    X = columns[:, path[::-1]].astype(np.int32)
    tree, _ = ContextTree.from_histories(Histories.from_windows(X[:300], len(path)), 52)
    level = path.index(0) + 1
    assert tree.entry[0] == level
    mixed = np.where(rng.rand(*X.shape) < 0.7, X, rng.permutation(X))
    missing = np.where(rng.rand(*X.shape) < 0.9, X, -1)
    node_of = {history(row, 18): n for n, row in enumerate(tree.windows().tolist())}
    lists = [X, mixed.astype(np.int32), missing, X[:, -1:], X[:, -2:], X[:0]]
    # One after the other those with the newest symbols in common.
    lists += [windows[np.lexsort(windows.T)] for windows in lists]
    for windows in lists:
        expected = []
        for row in windows.tolist():
            read = history(row, 18)
            known = (node_of.get(read[:k]) for k in range(len(read), -1, -1))
            expected.append(next(n for n in known if n is not None))
        assert tree.find_windows(windows).tolist() == expected


def test_long_windows_with_common_ends_are_found():
    """In any order, and in place in a sliding view."""
    rng = np.random.RandomState(0)
    tokens = np.tile(rng.randint(0, 3, size=60), 4)
    tokens[rng.choice(tokens.size, 25)] = -1
    tokens = tokens.astype(np.int32)
    X = np.lib.stride_tricks.sliding_window_view(tokens, 24)
    tree, _ = ContextTree.from_histories(Histories.from_windows(X[::2], 24), 3)
    node_of = {history(row, 24): n for n, row in enumerate(tree.windows().tolist())}
    assert tree.n_levels > 20
    for windows in (X, X[np.lexsort(X.T)], X[:, ::-1]):
        expected = []
        for row in windows.tolist():
            read = history(row, 24)
            known = (node_of.get(read[:k]) for k in range(len(read), -1, -1))
            expected.append(next(n for n in known if n is not None))
        assert tree.find_windows(windows).tolist() == expected


def test_the_level_at_which_a_search_begins_has_the_most_nodes():
    X = np.array([[-1, 0], [-1, 1], [-1, 2], [0, 0]], dtype=np.int32)
    tree, _ = ContextTree.from_histories(Histories.from_windows(X, 2), 3)
    depth, table = tree.entry
    assert depth == 1
    assert table.tolist() == tree.root_child.tolist() == [1, 2, 3]
    assert "entry" not in pickle.loads(pickle.dumps(tree)).__dict__
    root = ContextTree.from_histories(Histories.from_windows(X[:0], 2), 3)[0]
    assert root.find_windows(X).tolist() == [0, 0, 0, 0]
    X = np.array([[0, 2], [1, 2]], dtype=np.int32)
    tree, _ = ContextTree.from_histories(Histories.from_windows(X, 2), 3)
    assert tree.entry[0] == tree.max_depth == 2
