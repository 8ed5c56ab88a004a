"""Smoothing of counts in files against smoothing of counts in memory."""

import numpy as np
import pytest
from _cases import all_pairs
from _texts import random_tokens

from sklstruct.backoff._backoff_fast import counts_of_counts
from sklstruct.context_tree import _runs
from sklstruct.context_tree._runs import CountRuns
from sklstruct.context_tree._tokens import count_tokens
from sklstruct.smoothing._levels import adjust_counts, smooth
from sklstruct.smoothing._shares import discount_levels, hand_down, leave_out

N_WORDS, N_CLASSES = 5, 7  # and the end mark, and a class that does not occur


def counted(seed, depth, end=True):
    tokens = random_tokens(np.random.default_rng(seed), 150, N_WORDS, 7, end=end)
    tokens[tokens == N_WORDS + 1] = N_CLASSES  # the start mark is the last symbol
    pairs, count = count_tokens(tokens, depth, N_CLASSES + 1, N_CLASSES, skip=N_CLASSES)
    runs = CountRuns()
    runs.add(pairs, count)
    return runs.finish(), pairs, count


def all_of(columns):
    return np.concatenate([column.read(0, column.size) for column in columns])


@pytest.mark.parametrize(
    *all_pairs(
        depth=[0, 1, 3],
        end=[True, False],
        pruned=["nothing", "counts", "words"],
        n_bytes=[1, 1 << 16],
    )
)
def test_files_give_the_numbers_of_memory(depth, end, pruned, n_bytes, monkeypatch):
    monkeypatch.setattr(_runs, "_BLOCK", n_bytes)
    run, pairs, count = counted(depth, depth, end)
    tree = pairs.tree
    least = np.array([0.0, 12.0, 12.0, 13.0])[: tree.n_levels]
    stays, known = np.ones(N_CLASSES, bool), np.ones(N_CLASSES + 1, bool)
    if pruned != "counts":
        least[:] = 0.0
    if pruned == "words":
        stays[[1, 3]] = known[[1, 3]] = False
    adjusted = adjust_counts(run, least, stays, known, None)

    used = pairs.adjusted_counts(count)
    alive = np.array([known[list(c)].all() for c in tree.contexts()])
    level = tree.levels()[pairs.nodes()]
    keep = alive[pairs.nodes()] & stays[pairs.target] & (count >= least[level])
    found = all_of(adjusted.counts)
    np.testing.assert_array_equal(np.abs(found), used)
    np.testing.assert_array_equal(~np.signbit(found), keep)
    assert (pruned == "nothing") == keep.all() or depth == 0
    for k in range(tree.n_levels):
        n_with = np.zeros(5)
        counts_of_counts(used[pairs.level(k)], n_with)
        np.testing.assert_array_equal(adjusted.n_with[k, 1:], n_with[1:])
        assert adjusted.n_kept[k] == keep[pairs.level(k)].sum()

    discounts = np.array([[0.4, 0.9, 1.3], [0.5, 1.1, 1.2], [0.0, 1.0, 2.0]])
    discounts = np.vstack([discounts, discounts[:1]])[: tree.n_levels]
    base = np.random.default_rng(0).dirichlet(np.ones(N_CLASSES))
    prob, mass = map(all_of, smooth(run, adjusted.counts, discounts, base, None))
    root = used[:N_CLASSES].copy()
    shares = discount_levels(pairs, used, discounts, 0)
    place = np.arange(tree.n_nodes)
    whole = pairs
    if pruned != "nothing":
        pairs, shares, place = leave_out(pairs, *shares, keep)
    log_prob, log_backoff = hand_down(pairs, *shares, root, base, 0)
    mass[0] = 1.0
    with np.errstate(divide="ignore"):
        if pruned == "nothing":  # bit by bit
            np.testing.assert_array_equal(np.log(prob), log_prob)
            np.testing.assert_array_equal(np.log(mass), log_backoff)
            return
        np.testing.assert_array_equal(prob[~keep], -1.0)
        kept = keep.copy()
        kept[:N_CLASSES] = True  # those of the root stay in memory
        in_both = keep[kept]
        found, expected = np.log(prob[keep]), log_prob[in_both]
        np.testing.assert_allclose(found, expected, rtol=1e-13)
        has_pairs = whole.node_sums(keep.astype(float)) > 0
        here = np.flatnonzero(has_pairs)
        np.testing.assert_allclose(
            np.log(mass[here]), log_backoff[place[here]], rtol=1e-12, atol=1e-15
        )
    assert (mass[~has_pairs] == 1.0).all()
