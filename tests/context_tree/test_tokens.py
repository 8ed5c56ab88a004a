"""Counting running text against counting windows."""

import numpy as np
import pytest
from _cases import all_pairs
from _texts import random_tokens

from sklstruct.context_tree import ContextTree, Histories, Pairs
from sklstruct.context_tree._tokens import count_tokens


def by_windows(tokens, depth, n_symbols, n_classes, skip, weight=None):
    positions = np.flatnonzero((tokens >= 0) & (tokens != skip))
    histories = Histories.from_tokens(tokens, positions, depth)
    tree, terminal = ContextTree.from_histories(histories, n_symbols)
    weight = None if weight is None else weight[positions]
    return Pairs.count(tree, terminal, tokens[positions], n_classes, weight)


@pytest.mark.parametrize(
    *all_pairs(
        depth=[1, 0, 5, 200],
        start=[True, False],
        end=[True, False],
        seed=range(3),
    )
)
def test_text_is_its_windows(depth, start, end, seed):
    rng = np.random.default_rng(seed)
    n_words = int(rng.integers(1, 6))
    tokens = random_tokens(rng, 60, n_words, [3, 12, 190][seed], start, end)
    skip = n_words + 1 if start else -1
    sizes = n_words + 2, n_words + 1
    if not ((tokens >= 0) & (tokens != skip)).any():
        return
    assert_same_as_windows(tokens, depth, sizes, skip, rng)


@pytest.mark.parametrize("mark", range(4))
def test_the_mark_that_is_never_predicted_may_have_any_number(mark):
    rng = np.random.default_rng(mark)
    tokens = random_tokens(rng, 60, 3, 12, True, True)
    tokens[tokens >= 0] = (tokens[tokens >= 0] + 1 + mark) % 5
    assert_same_as_windows(tokens, 3, (5, 5), mark, rng)


def assert_same_as_windows(tokens, depth, sizes, skip, rng):
    weight = rng.integers(1, 5, tokens.size) / 4.0  # sums are exact
    for w in (None, weight):
        pairs, count = count_tokens(tokens, depth, *sizes, skip=skip, weight=w)
        expected, expected_count = by_windows(tokens, depth, *sizes, skip, w)
        assert pairs == expected and pairs.tree == expected.tree
        np.testing.assert_array_equal(pairs.parent, expected.parent)
        np.testing.assert_array_equal(pairs.tree.level_ptr, expected.tree.level_ptr)
        np.testing.assert_array_equal(count, expected_count)


def test_a_text_without_sentences():
    for weight in (None, np.empty(0)):
        pairs, count = count_tokens(np.empty(0, np.int32), 3, 5, 4, weight=weight)
        assert (pairs.tree.n_nodes, pairs.n_pairs) == (1, 4)
        assert count.tolist() == [0.0] * 4


def test_tokens_are_checked():
    with pytest.raises(ValueError, match="begin with -1"):
        count_tokens(np.array([0, 1], np.int32), 2, 2, 2)
    with pytest.raises(ValueError, match="tokens"):
        count_tokens(np.array([-1, 0, 5], np.int32), 2, 2, 2)
    with pytest.raises(ValueError, match="n_classes=2"):
        count_tokens(np.array([-1, 0, 2], np.int32), 2, 3, 2)
    with pytest.raises(ValueError, match="n_classes=1"):
        count_tokens(np.array([-1, 2, 1, 0], np.int32), 2, 3, 1, skip=2)
    with pytest.raises(ValueError, match="weight"):
        count_tokens(np.array([-1, 0], np.int32), 2, 2, 2, weight=np.ones(1))
