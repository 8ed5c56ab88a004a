"""Small trees with pairs and counts, and dense views of them."""

from types import SimpleNamespace

import numpy as np

from sklstruct.context_tree import ContextTree, Histories, Pairs
from sklstruct.context_tree._suffix_tree import suffix_tree
from sklstruct.loglinear import TreeL2, TreeLinf
from sklstruct.loglinear._penalties import Separable
from sklstruct.loglinear._problem import Problem

N_CLASSES = 5  # one class more than the targets use


def samples(seed, n=70, n_symbols=3):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_symbols, size=(n, 6)).astype(np.int32)
    X[rng.random(X.shape) < 0.1] = -1
    y = rng.integers(0, N_CLASSES - 1, n).astype(np.int32)
    return X, y, rng.random(n) + 0.1


def make_pairs(seed, m, collapse=False, n=70, n_symbols=3):
    """(pairs, counts, node of each sample, targets, weights)."""
    X, y, weight = samples(seed, n, n_symbols)
    build = suffix_tree if collapse else ContextTree.from_histories
    tree, terminal = build(Histories.from_windows(X, m), n_symbols)
    pairs, count = Pairs.count(tree, terminal, y, N_CLASSES, weight)
    return pairs, count, terminal, y, weight


def make_problem(
    m=3, seed=0, collapse=False, positive=True, lam=0.4, depth_weight=1.3, **size
):
    pairs, count, *_ = make_pairs(seed, m, collapse, **size)
    depths = np.arange(m + 1.0)
    return Problem(
        pairs, count, 0.8**depths, lam * depth_weight**depths, positive=positive
    )


def problem_of(X, y, beta, strength):
    """The problem of given windows and targets."""
    windows = Histories.from_windows(X.astype(np.int32), X.shape[1])
    tree, terminal = ContextTree.from_histories(windows, int(X.max()) + 1)
    pairs, count = Pairs.count(tree, terminal, y.astype(np.int32), int(y.max()) + 1)
    return Problem(pairs, count, beta, strength)


def weights_for(problem, seed, positive=True):
    w = np.random.default_rng(seed).random(problem.n_pairs)
    if not positive:
        w -= 0.5
    w[:N_CLASSES][problem.unseen] = 0.0
    return w


def definition(penalty, w, groups):
    """Strength times the penalty, by a plain loop over the pairs or their groups."""
    if isinstance(penalty, Separable):
        return _separable(penalty, w, groups)
    if type(penalty) in GROUP_NORMS:
        norm = GROUP_NORMS[type(penalty)]
        return sum(s * norm(w[q]) for s, q in zip(groups.strength, groups.subtree))
    return penalty.definition(w, groups)  # of a test


GROUP_NORMS = {TreeL2: np.linalg.norm, TreeLinf: lambda w: np.abs(w).max()}


def _separable(penalty, w, groups):
    l1_ratio, given = penalty.ratios()
    l2_ratio, weight = np.asarray(given, dtype=np.float64), penalty.count_weights()
    total = 0.0
    for q in np.flatnonzero(w):
        a, v = l1_ratio, w[q]
        if weight is not None:
            a *= weight[min(max(int(np.rint(groups.adjusted[q])), 1), len(weight)) - 1]
        b = l2_ratio[groups.depth[q]] if l2_ratio.ndim else l2_ratio
        total += groups.strength[q] * (a * abs(v) + 0.5 * b * v**2)
    return total


def dense_groups(problem, lam=0.4, depth_weight=1.3):
    """The terms of `definition` for a trie: ``subtree[q]`` the pairs at and below
    pair q, ``context[n]`` the pairs of node n, ``strength[q]`` and ``depth[q]``,
    ``adjusted[q]`` the adjusted count of the pair."""
    parent = problem.pair_parent
    subtree = [[] for _ in range(problem.n_pairs)]
    for p in range(problem.n_pairs):
        q = p
        while q >= 0:
            subtree[q].append(p)
            q = parent[q]
    node = np.repeat(np.arange(problem.n_nodes), np.diff(problem.pair_ptr))
    context = [np.flatnonzero(node == n) for n in range(problem.n_nodes)]
    depth = problem.tree.levels()[node]
    return SimpleNamespace(
        subtree=subtree,
        context=context,
        strength=lam * depth_weight**depth,
        depth=depth,
        adjusted=problem.pairs.adjusted_counts(problem.count),
    )
