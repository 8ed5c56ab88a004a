"""Suffix links against dictionaries of contexts."""

import numpy as np
import pytest

from sklstruct.context_tree import ContextTree, Histories, Pairs
from sklstruct.context_tree._links import (
    close_links,
    drop_newest,
    extend_pairs,
    find_pairs,
    newest_symbols,
    nodes_ending_in,
)
from sklstruct.context_tree._suffix_tree import suffix_tree


def tree_of(contexts, n_symbols, build=ContextTree.from_histories):
    """Tree of contexts written oldest first."""
    flat = np.array([s for c in contexts for s in c], dtype=np.int32)
    length = np.array([len(c) for c in contexts], dtype=np.int32)
    histories = Histories(flat, np.cumsum(length, dtype=np.int64), length)
    return build(histories, n_symbols)[0]


def random_tree(seed, n_symbols=4, n=40, width=5):
    rng = np.random.default_rng(seed)
    return tree_of(
        [rng.integers(0, n_symbols, rng.integers(0, width + 1)) for _ in range(n)],
        n_symbols,
    )


def contexts_of(tree):
    return [tuple(c.tolist()) for c in tree.contexts()]


def random_pairs(tree, seed, n_classes):
    """pair_ptr, target: all classes at the root, some at each other node."""
    rng = np.random.default_rng(seed)
    own = [np.arange(n_classes)] + [
        np.flatnonzero(rng.random(n_classes) < 0.5) for _ in range(tree.n_nodes - 1)
    ]
    ptr = np.concatenate([[0], np.cumsum([len(o) for o in own])]).astype(np.int32)
    return ptr, np.concatenate(own).astype(np.int32)


TREES = [
    *(random_tree(seed) for seed in range(3)),
    random_tree(20, n_symbols=1, n=3, width=30),
    random_tree(21, n_symbols=300, n=500, width=2),
    tree_of([], 3),
    tree_of([()], 1),
    tree_of([(2,)], 3),
    tree_of([(0, 1, 2)], 3),  # neither (0, 1) nor (0,) nor (1,)
]


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_newest_and_dropped_are_those_of_the_contexts(tree):
    contexts = contexts_of(tree)
    node = {c: i for i, c in enumerate(contexts)}
    newest, link = newest_symbols(tree), drop_newest(tree)
    assert newest.dtype == link.dtype == np.int32
    assert newest.tolist() == [c[-1] if c else -1 for c in contexts]
    assert link.tolist() == [node.get(c[:-1], -1) for c in contexts]


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_pairs_extend_to_the_node_of_context_and_class(tree):
    n_classes = 2
    ptr, target = random_pairs(tree, 1, n_classes)
    rng = np.random.default_rng(2)
    # Classes are numbered differently; some symbols are not classes.
    class_of_symbol = np.full(max(tree.n_symbols, n_classes), -1, dtype=np.int32)
    class_of_symbol[rng.permutation(len(class_of_symbol))[:n_classes]] = np.arange(
        n_classes
    )
    class_of_symbol = class_of_symbol[: tree.n_symbols].copy()
    contexts = contexts_of(tree)
    node = {c: i for i, c in enumerate(contexts)}
    symbol = {c: s for s, c in enumerate(class_of_symbol.tolist()) if c >= 0}
    expected = [
        node.get((*contexts[n], symbol[y]), 0) if y in symbol else 0
        for n in range(tree.n_nodes)
        for y in target[ptr[n] : ptr[n + 1]].tolist()
    ]
    link = drop_newest(tree)
    got, missing = extend_pairs(tree, link, ptr, target, class_of_symbol)
    assert got.tolist() == expected
    named = sum(class_of_symbol[c[-1]] >= 0 for c in contexts if c)
    assert missing == named - np.count_nonzero(expected)


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_parents_of_pairs(tree):
    ptr, target = random_pairs(tree, 4, 40)
    nodes = np.repeat(np.arange(tree.n_nodes), np.diff(ptr)).tolist()
    index = {pair: p for p, pair in enumerate(zip(nodes, target.tolist()))}
    above = tree.parent.tolist()
    expected = [index.get((above[n], y), -1) for n, y in index]
    assert Pairs(tree, ptr, target).parent.tolist() == expected


def test_pairs_are_found():
    tree = TREES[0]
    ptr, target = random_pairs(tree, 3, 7)
    index = {
        (n, int(target[p])): p
        for n in range(tree.n_nodes)
        for p in range(ptr[n], ptr[n + 1])
    }
    asked = [(n, y) for n in range(-1, tree.n_nodes) for y in range(-1, 9)]
    nodes, targets = np.array(asked, dtype=np.int32).T.copy()
    found = find_pairs(ptr, target, nodes, targets)
    assert found.tolist() == [index.get(pair, -1) for pair in asked]


@pytest.mark.parametrize("tree", TREES, ids=range(len(TREES)))
def test_closed_tree_has_every_run_of_symbols_and_no_more(tree):
    contexts = contexts_of(tree)
    closed, index = close_links(tree, drop_newest(tree))
    runs = {
        c[i:j] for c in contexts for i in range(len(c)) for j in range(i, len(c) + 1)
    }
    got = contexts_of(closed)
    assert len(got) == len(set(got)) and set(got) == runs | {()}
    assert (drop_newest(closed) >= 0).all()
    assert [got[i] for i in index] == contexts
    assert (np.diff(index) > 0).all()
    assert close_links(closed, drop_newest(closed))[0] is closed


def test_context_at_the_end_of_a_text_has_no_link():
    # "a b c" ends the text "a b c" as a context of nothing before it: see (1, 2).
    tree = tree_of([(0, 1, 2), (1,)], 3)
    contexts = contexts_of(tree)
    link = dict(zip(contexts, drop_newest(tree).tolist()))
    assert link[1, 2] == contexts.index((1,))
    assert link[0, 1, 2] == -1


def test_collapsed_trees_are_refused():
    tree = tree_of([(0, 1, 2), (0, 1, 2)], 3, build=suffix_tree)
    assert tree.span is not None
    ptr, target = random_pairs(tree, 0, 2)
    link = np.zeros(tree.n_nodes, dtype=np.int32)
    for query in (
        lambda: newest_symbols(tree),
        lambda: drop_newest(tree),
        lambda: close_links(tree, link),
        lambda: extend_pairs(tree, link, ptr, target, np.zeros(3, np.int32)),
    ):
        with pytest.raises(ValueError, match="tree is collapsed"):
            query()


@pytest.mark.parametrize("tree", TREES)
def test_nodes_by_their_newest_symbol(tree):
    newest = newest_symbols(tree)
    for seed in range(3):
        wanted = np.random.default_rng(seed).random(tree.n_symbols) < 0.4
        levels = nodes_ending_in(tree, wanted)
        expected = 1 + np.flatnonzero(wanted[newest[1:]])
        np.testing.assert_array_equal(np.concatenate([n for n, _ in levels]), expected)
        for k, (nodes, symbols) in enumerate(levels, 1):
            np.testing.assert_array_equal(symbols, newest[nodes])
            assert (tree.levels()[nodes] == k).all()
