"""BackoffModel against the definition, computed by brute force in plain Python."""

import functools
import math
import pickle
import sys

import numpy as np
import pytest
from _cases import each_value
from _oracles import make_model
from scipy import stats

from sklstruct.backoff import BackoffModel, _order
from sklstruct.backoff._trees_fast import Path
from sklstruct.context_tree import ContextTree, Histories, Pairs, find_histories
from sklstruct.context_tree._suffix_tree import suffix_tree
from sklstruct.symbols import Labels


def build(contexts, pairs, bows, n_classes, **labels):
    """Model from Python dictionaries, by the array specification.

    contexts: tuples of symbol ids, oldest first, closed under dropping the oldest.
    pairs: (context, class) -> log-probability; bows: context -> log back-off weight.
    """
    levels = {}
    for c in contexts:
        levels.setdefault(len(c), []).append(c)
    order, number = [()], {(): 0}
    for depth in range(1, max(levels) + 1):
        for c in sorted(levels[depth], key=lambda c: (number[c[1:]], c[0])):
            number[c] = len(order)
            order.append(c)
    target, log_prob, pair_ptr = [], [], [0]
    for c in order:
        for y in range(n_classes):
            if (c, y) in pairs:
                target.append(y)
                log_prob.append(pairs[c, y])
        pair_ptr.append(len(target))
    model = make_model(
        [-1] + [number[c[1:]] for c in order[1:]],
        [-1] + [c[0] for c in order[1:]],
        pair_ptr,
        target,
        log_prob,
        [0.0] + [bows[c] for c in order[1:]],
        **labels,
    )
    return model, order


class Toy:
    """A random model and its definition."""

    def __init__(self, seed, n_classes=7, n_symbols=6, depth=3, n=40, **labels):
        rng = np.random.RandomState(seed)
        self.V, self.S = n_classes, n_symbols
        contexts = {()}
        for _ in range(n):
            c = tuple(rng.randint(n_symbols, size=rng.randint(1, depth + 1)).tolist())
            contexts.update(c[i:] for i in range(len(c) + 1))
        # Normalised rows, from the root down.
        self.rows, pairs, bows = {}, {}, {}
        root = rng.dirichlet(np.ones(n_classes))
        if seed % 3 == 0:
            root[rng.randint(n_classes)] = 0
            root /= root.sum()
        self.rows[()] = root
        with np.errstate(divide="ignore"):
            for y in range(n_classes):
                pairs[(), y] = np.log(root[y])
        for c in sorted(contexts - {()}, key=len):
            above = self.rows[c[1:]]
            own = np.flatnonzero(rng.rand(n_classes) < 0.4)
            left = 1 - above[own].sum()
            mass = rng.uniform(0.2, 0.9) if len(own) else 0.0
            if left < 1e-9:
                own, left, mass = own[:0], 1.0, 0.0
            row = above * (1 - mass) / left
            row[own] = mass * rng.dirichlet(np.ones(len(own))) if len(own) else row[own]
            self.rows[c] = row
            bows[c] = np.log((1 - mass) / left)
            for y in own:
                pairs[c, int(y)] = np.log(row[y])
        self.contexts, self.pairs, self.bows = contexts, pairs, bows
        self.model, self.order = build(contexts, pairs, bows, n_classes, **labels)
        self.number = {c: i for i, c in enumerate(self.order)}

    def find(self, window):
        """Node of a window by the definition."""
        history = []
        for s in reversed(list(window)):
            if s < 0:
                break
            history.insert(0, int(s))
            if tuple(history) not in self.contexts:
                return self.number[tuple(history[1:])]
        return self.number[tuple(history)]

    def log_proba(self, context, y):
        """(log-probability, depth of the pair) by the definition."""
        total = 0.0
        while (context, y) not in self.pairs:
            total += self.bows[context]
            context = context[1:]
        return self.pairs[context, y] + total, len(context)


# Each depth from 1 to 4, twice with a class of probability 0.
SEEDS = range(4)


@pytest.fixture(params=SEEDS)
def toy(request):
    return Toy(request.param, depth=1 + request.param % 4)


def windows(toy, n=300, width=None, seed=0):
    rng = np.random.RandomState(seed)
    width = toy.model.max_depth + 1 if width is None else width
    return rng.randint(-1, toy.S, size=(n, width)).astype(np.int32)


def test_find_is_the_longest_known_suffix(toy):
    for width in range(toy.model.max_depth + 3):
        w = windows(toy, width=width)
        assert toy.model.locate(w).tolist() == [toy.find(row) for row in w]
    assert toy.model.depth(np.arange(toy.model.n_nodes)).tolist() == [
        len(c) for c in toy.order
    ]


def target_depth(model, nodes, y):
    """ln P of classes after nodes, and the depths of the nodes that hold the pairs."""
    kernel, tokens, end = model.as_tokens(nodes)
    depth = np.empty(len(end), dtype=np.int32)
    return kernel.targets(tokens, end, np.asarray(y, np.int32), depth), depth


def score_tokens(model, tokens):
    """(positions of the tokens that have a class, ln P of these, depths)."""
    tokens = np.asarray(tokens, dtype=np.int32)
    y = np.where(tokens < 0, np.int32(-1), model.labels.class_of_token[tokens])
    at = np.flatnonzero(y >= 0)
    kernel = model.compiled(Path(model.max_depth, model.n_symbols))
    depth = np.empty(at.size, dtype=np.int32)
    return at, kernel.targets(tokens, at, y[at], depth), depth


def test_log_proba_and_depth(toy):
    nodes, targets = map(
        np.ravel, np.meshgrid(np.arange(toy.model.n_nodes), np.arange(toy.V))
    )
    got, depth = target_depth(toy.model, nodes, targets)
    want = [toy.log_proba(toy.order[n], int(y)) for n, y in zip(nodes, targets)]
    np.testing.assert_allclose(got, [w[0] for w in want], rtol=1e-13, atol=1e-13)
    assert depth.tolist() == [w[1] for w in want]


def test_rows_are_log_proba_and_sum_to_one(toy):
    nodes = toy.model.locate(windows(toy))
    rows = toy.model.rows(nodes)
    for y in range(toy.V):
        np.testing.assert_array_equal(
            rows[:, y], toy.model.target(nodes, np.full(len(nodes), y))
        )
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(toy.model.proba(nodes), np.exp(rows), rtol=1e-13)
    # A row does not depend on its batch.
    np.testing.assert_array_equal(toy.model.rows(nodes[7:8])[0], rows[7])


def test_best_is_the_sorted_row(toy):
    nodes = np.arange(toy.model.n_nodes)
    rows = toy.model.rows(nodes)
    for k in (1, 2, 5, 7):
        classes, values = toy.model.best(nodes, k)
        for row, got, value in zip(rows, classes, values):
            want = np.lexsort([np.arange(toy.V), -row])[:k]
            assert got.tolist() == want.tolist()
            np.testing.assert_array_equal(value, row[want])


def test_best_breaks_ties_by_class_id():
    # Uniform root; the node's own pair ties with the classes it backs off for.
    model, _ = build(
        {(), (0,)},
        {**{((), y): np.log(1 / 6) for y in range(6)}, ((0,), 3): np.log(1 / 6)},
        {(0,): 0.0},
        6,
    )
    for k in range(1, 7):
        classes, _ = model.best([0, 1], k)
        assert classes.tolist() == [list(range(k))] * 2


def test_best_breaks_ties_of_pairs_at_two_depths():
    p = np.log([0.1, 0.1, 0.3, 0.1, 0.1, 0.3])
    pairs = {((), y): v for y, v in enumerate(p)}
    pairs.update({((1, 0), 5): p[5], ((0,), 2): p[2]})
    model, _ = build({(), (0,), (1, 0)}, pairs, {(0,): 0.0, (1, 0): 0.0}, 6)
    for k in (1, 2):
        assert model.best([2], k)[0].tolist() == [[2, 5][:k]]


def test_best_agrees_with_rows_where_rounding_makes_ties():
    # Distinct root values that become equal once a large back-off weight is added.
    base = np.log(0.1)
    values = base + np.arange(9) * np.spacing(-base)
    values = np.append(values[::-1], np.log1p(-np.exp(values).sum()))
    pairs = {((), y): v for y, v in enumerate(values)}
    model, _ = build({(), (0,)}, pairs, {(0,): -50.0}, 10)
    row = model.rows([1])[0]
    assert len(np.unique(row)) < 10
    for k in range(1, 11):
        want = np.lexsort([np.arange(10), -row])[:k]
        assert model.best([1], k)[0][0].tolist() == want.tolist()


def test_sampling_follows_the_row(toy):
    n = 4000
    for node in np.random.RandomState(1).permutation(toy.model.n_nodes)[:6]:
        p = np.exp(toy.model.rows([node])[0])
        drawn = toy.model.draw(
            np.full(n, node), np.random.RandomState(int(node)).random_sample(n)
        )
        counts = np.bincount(drawn, minlength=toy.V)
        possible = p > 0
        assert counts[~possible].sum() == 0
        assert stats.chisquare(counts[possible], n * p[possible]).pvalue > 1e-4


def test_sampling_is_an_inversion_of_the_row(toy):
    # Every uniform number is spent once: a fine grid gives frequencies to 1 / n.
    n = 20_000
    grid = (np.arange(n) + 0.5) / n
    for node in range(0, toy.model.n_nodes, 5):
        p = np.exp(toy.model.rows([node])[0])
        drawn = toy.model.draw(np.full(n, node, dtype=np.int32), grid)
        np.testing.assert_allclose(
            np.bincount(drawn, minlength=toy.V) / n, p, rtol=0, atol=2.1 / n
        )


def test_sampling_an_unnormalised_row_is_proportional():
    pairs = {((), 0): np.log(0.3), ((), 1): np.log(0.1), ((0,), 1): np.log(0.9)}
    model, _ = build({(), (0,)}, pairs, {(0,): np.log(2)}, 2)
    n = 10_000
    grid = (np.arange(n) + 0.5) / n
    for node, p in ((0, 0.75), (1, 0.6 / 1.5)):
        drawn = model.draw(np.full(n, node, dtype=np.int32), grid)
        assert abs((drawn == 0).mean() - p) <= 1.1 / n


def test_row_sums_and_check_normalized(toy):
    model = toy.model
    rows = np.exp(model.rows(np.arange(model.n_nodes)))
    np.testing.assert_allclose(model.row_sums, rows.sum(axis=1), atol=1e-12)
    assert model.check_normalized() < 1e-12
    # A broken back-off weight is found and named.
    bow = model.log_backoff.copy()
    bow[1] += 0.01
    broken = BackoffModel(model.pairs, model.log_prob, bow)
    rows = np.exp(broken.rows(np.arange(model.n_nodes))).sum(axis=1)
    np.testing.assert_allclose(broken.row_sums, rows, atol=1e-12)
    assert broken.check_normalized(tol=np.inf) == pytest.approx(np.abs(rows - 1).max())
    worst = np.argmax(np.abs(rows - 1))
    with pytest.raises(ValueError, match=f"node {worst} .*deviation"):
        broken.check_normalized()


def test_row_sums_do_not_lose_digits():
    """A large back-off weight multiplies what many pairs leave of the parent's sum."""
    rng = np.random.RandomState(0)
    n = 20_000
    root = np.log(rng.dirichlet(np.ones(n)))
    own = np.log(0.5 * rng.dirichlet(np.ones(n - 1)))
    log_backoff = np.log(0.5) - root[-1]
    model = make_model(
        [-1, 0], [-1, 0], [0, n, 2 * n - 1], [*range(n), *range(n - 1)],
        [*root, *own], [0.0, log_backoff],
    )  # fmt: skip
    left = math.fsum(np.exp(root)) - math.fsum(np.exp(root[:-1]))
    expected = math.fsum(np.exp(own)) + np.exp(log_backoff) * left
    rounding = np.finfo(float).eps * np.exp(log_backoff)
    assert abs(model.row_sums[1] - expected) < 2 * rounding


def test_groups_whose_classes_all_have_pairs_are_not_negative():
    """The rest of such a group is a rounding error, which may be negative."""
    group = np.array([0, 0, 0, 1])
    for seed in range(20):
        root = np.random.RandomState(seed).dirichlet(np.ones(4))
        pairs = {((), y): np.log(p) for y, p in enumerate(root)}
        pairs.update({((0,), y): -np.inf for y in range(3)})
        model, _ = build({(), (0,)}, pairs, {(0,): -np.log(root[3])}, 4)
        found = model.group_proba([1], group)[0]
        assert (found >= 0).all()
        np.testing.assert_allclose(found, [0, 1], atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_tokens_of_a_text_are_located(seed):
    # Class 6 is not a symbol (an end mark), symbol 0 not a class (a start mark).
    rng = np.random.RandomState(seed)
    symbols = [*"^abcde"]
    toy = Toy(seed, depth=1 + seed % 4, classes=[*"abcdef$"], symbols=symbols)
    labels = toy.model.labels
    assert len(labels.token_code) == 8
    tokens = rng.randint(-1, 8, size=500).astype(np.int32)
    scored, got, depth = score_tokens(toy.model, tokens)
    context = np.where(tokens < toy.S, tokens, -1)
    width = toy.model.max_depth
    padded = np.r_[np.full(width, -1), context]
    w = np.stack([padded[i : i + width] for i in range(len(tokens))]).astype(np.int32)
    nodes = toy.model.locate(w)
    names = [*symbols, "f", "$", None]
    cls = np.array([-1 if t <= 0 else "abcdef$".index(names[t]) for t in tokens])
    assert scored.tolist() == np.flatnonzero(cls >= 0).tolist()
    want, want_depth = target_depth(toy.model, nodes[scored], cls[scored])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(depth, want_depth)


@pytest.mark.parametrize(
    *each_value(dtype=[np.int32, np.int64, np.int8], width=[1, 2, 3, 6])
)
def test_many_contexts_of_a_large_model_are_located_in_order(dtype, width, monkeypatch):
    toy = Toy(0, depth=4)
    windows = np.random.RandomState(0).randint(-1, toy.S, (300, width)).astype(dtype)
    want = toy.model.locate(windows)
    assert np.unique(want).size > 4
    monkeypatch.setattr(_order, "LARGE", 1)
    monkeypatch.setattr(_order, "MANY", 1)
    np.testing.assert_array_equal(toy.model.locate(windows), want)
    np.testing.assert_array_equal(toy.model.locate(windows.tolist()), want)
    for wrong in (windows.astype(float), windows.astype(str), windows + toy.S):
        with pytest.raises(ValueError, match="contexts"):
            toy.model.locate(wrong)


def test_contexts_beyond_a_block_are_those_of_single_ones():
    """Contexts are located in blocks, and kept rows of groups serve the next ones."""
    toy = Toy(3, classes=[*"abcdefg"], symbols=[*"abcdef"])
    tokens = np.random.RandomState(0).randint(-1, 6, size=1000)
    scored, whole, _ = score_tokens(toy.model, tokens)
    for i, of_text in zip(scored.tolist(), whole):
        assert score_tokens(toy.model, tokens[max(0, i - 5) : i + 1])[1][-1] == of_text
    nodes = np.random.RandomState(1).randint(toy.model.n_nodes, size=600)
    group = np.array([0, 1, 0, 2, 1, 1, 2])
    sums, rows = toy.model.group_proba(nodes, group), toy.model.rows(nodes)
    for node, row, of_groups in zip(nodes, rows, sums):
        assert (toy.model.rows([node])[0] == row).all()
        one = toy.model.group_proba([node], group)[0]
        np.testing.assert_allclose(of_groups, one, rtol=1e-15)


def test_contexts_of_any_length():
    """Deeper than the arrays that a kernel has without memory from the heap."""
    deepest = 150
    both = tuple([0, 1] * 75), tuple([1, 0] * 75)
    contexts = {whole[i:] for whole in both for i in range(deepest + 1)}
    rng = np.random.RandomState(0)
    pairs = {((), y): np.log(1 / 3) for y in range(3)}
    for c in sorted(contexts, key=len):
        if c:
            pairs[c, int(rng.randint(3))] = np.log(0.1 + 0.8 * rng.rand())
    bows = {c: -rng.rand() for c in contexts}
    model, order = build(contexts, pairs, bows, 3)
    assert model.max_depth == deepest
    nodes = np.arange(model.n_nodes)
    rows = model.rows(nodes)
    for node in (0, 40, deepest, model.n_nodes - 1):
        for y in range(3):
            context, total = order[node], 0.0
            while (context, y) not in pairs:
                total += bows[context]
                context = context[1:]
            expected = pairs[context, y] + total
            assert rows[node, y] == pytest.approx(expected, rel=1e-13)
            got, depth = target_depth(model, [node], [y])
            assert got[0] == rows[node, y] and depth[0] == len(context)
    # After another symbol, the context of the newest ones that is known.
    for context in (both[0], both[1][20:]):
        node = order.index(context)
        for symbol in (0, 1):
            found = model.locate([[*context, symbol]])
            assert model.follow([node], [symbol]).tolist() == found.tolist()
    assert set(model.draw(nodes, np.full(nodes.size, 0.5)).tolist()) <= {0, 1, 2}


def test_a_class_can_be_left_out_of_the_sample(toy):
    n = 20_000
    grid = (np.arange(n) + 0.5) / n
    for node in range(0, toy.model.n_nodes, 5):
        p = np.exp(toy.model.rows([node])[0])
        for skip in (0, 3):
            q = p.copy()
            q[skip] = 0
            drawn = toy.model.draw(np.full(n, node, np.int32), grid, skip)
            np.testing.assert_allclose(
                np.bincount(drawn, minlength=toy.V) / n, q / q.sum(), atol=2.1 / n
            )


def test_relabel_shares_everything():
    model = Toy(2).model
    names = Labels([*"abcdefg"], [*"abcdef"])
    named = model.relabel(names)
    assert named.labels is names and named.pairs is model.pairs
    assert named.log_prob is model.log_prob
    assert named != model and named.relabel(model.labels) == model
    with pytest.raises(ValueError, match="labels.classes must have 7 entries"):
        model.relabel(Labels([*"abc"]))
    with pytest.raises(ValueError, match="labels.symbols must have 6 entries"):
        model.relabel(Labels([*"abcdefg"], [*"ab"]))
    with pytest.raises(TypeError, match="labels must be Labels"):
        model.relabel(["a"])


# ----------------------------------------------------------------------- cursor


def closed_model(seed):
    """A model of a text, whose contexts all begin with a context."""
    rng = np.random.RandomState(seed)
    tokens = rng.randint(-1, 4, size=200).astype(np.int32)
    at = np.flatnonzero(tokens >= 0)
    histories = Histories.from_tokens(tokens, at, 1 + seed % 4)
    tree, terminal = ContextTree.from_histories(histories, 4)
    pairs, count = Pairs.count(tree, terminal, tokens[at], 5)
    prob = np.log((count + 0.5) / (pairs.node_sums(count) + 3)[pairs.nodes()])
    return BackoffModel(
        pairs,
        prob,
        np.r_[0.0, -rng.rand(tree.n_nodes - 1)],
        Labels([*"abcd$"], [*"abcd"]),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_cursor_is_locate_on_the_whole_history(seed):
    """Class ids in, where neither class nor symbol ids are those of the other."""
    model = closed_model(seed)
    model = model.relabel(Labels([*"c$bda"], [*"abcd"]))
    labels = model.labels
    rng = np.random.RandomState(seed)
    n, length = 40, 12
    text = rng.choice(labels.classes, size=(n, length))
    states = model.begin(n)
    for k in range(length):
        y = labels.encode_targets(text[:, k])
        log_prob, states = (
            model.target(states, y),
            model.follow(states, labels.symbol_of_class[y]),
        )
        history = labels.encode_contexts(text[:, : k + 1])
        np.testing.assert_array_equal(states, model.locate(history))
        above = model.locate(labels.encode_contexts(text[:, :k]))
        np.testing.assert_array_equal(log_prob, model.target(above, y))
    assert not model.follow(states, np.full(n, -1)).any()


def test_cursor_starts_after_the_start_mark():
    model = closed_model(1)
    labels = Labels([*"abc$x"], [*"abc", "^"], start="^")
    model = model.relabel(labels)
    assert model.begin(2).tolist() == [int(model.locate([[3]])[0])] * 2
    assert model.follow(model.begin(1), [3])[0] == model.locate([[3, 3]])[0]
    for n in (-1, 1.5, True):
        with pytest.raises(ValueError, match="n must be an integer of at least 0"):
            model.begin(n)


def test_cursor_refuses_trees_in_which_a_node_is_not_a_state():
    # "ab" is a context (a older), "a" is not.
    contexts = {(), (1,), (0, 1)}
    model, _ = build(contexts, {((), 0): 0.0}, {(1,): 0.0, (0, 1): 0.0}, 1)
    with pytest.raises(ValueError, match="use locate on windows"):
        model.begin()


def test_encoding():
    toy = Toy(
        1,
        n_classes=3,
        n_symbols=4,
        classes=["a", "b", "<unk>"],
        symbols=["a", "<unk>", "<s>", "b"],
        start="<s>",
        unknown="<unk>",
    )
    m = toy.model.labels
    X = np.array([["a", None, "zz"], [np.nan, "b", "<s>"]], dtype=object)
    assert m.encode_contexts(X).tolist() == [[0, -1, 1], [-1, 3, 2]]
    assert m.encode_contexts([["a", "q"]]).tolist() == [[0, 1]]
    assert m.encode_targets(["b", "a", "zz"]).tolist() == [1, 0, 2]
    assert m.class_of_token.tolist() == [0, 2, -1, 1, -2]
    assert m.symbol_of_class.tolist() == [0, 3, 1]
    no_unknown = Toy(1, n_classes=2, n_symbols=2, classes=[10, 20], symbols=[20, 10])
    m = no_unknown.model.labels
    assert m.encode_contexts([[10, 20, 7]]).tolist() == [[1, 0, -1]]
    assert m.encode_targets([20, 7]).tolist() == [1, -1]
    with pytest.raises(ValueError, match=r"y\[1\] = -1 is not a class id"):
        no_unknown.model.target([0, 0], m.encode_targets([20, 7]))


def test_depth_zero_model():
    model, _ = build({()}, {((), 0): np.log(0.25), ((), 1): np.log(0.75)}, {}, 2)
    assert model.max_depth == 0 and model.order == 1
    assert model.locate(np.full((2, 3), -1)).tolist() == [0, 0]
    assert model.locate(np.empty((2, 0), dtype=int)).tolist() == [0, 0]
    assert model.best([0], 2)[0].tolist() == [[1, 0]]
    named = model.relabel(Labels(["x", "y"], []))
    tokens = np.array([0, -1, 1], dtype=np.int32)
    np.testing.assert_allclose(score_tokens(named, tokens)[1], np.log([0.25, 0.75]))


def test_no_samples(toy):
    none = np.empty(0, dtype=np.int32)
    m = toy.model
    assert m.locate(np.empty((0, 3), dtype=np.int32)).shape == (0,)
    assert m.target(none, none).shape == (0,)
    assert m.rows([]).shape == (0, toy.V)
    assert m.best(none, 2)[0].shape == (0, 2)
    assert m.draw(none, []).shape == (0,)
    named = m.relabel(Labels(range(toy.V), range(toy.S)))
    assert score_tokens(named, none)[1].shape == (0,)


def test_equality_pickle_and_repr(toy):
    m = toy.model
    assert m.row_sums.size == m.n_nodes  # a cache, which must not be pickled
    data = pickle.dumps(m)
    copy = pickle.loads(data)
    assert copy == m
    assert "_row_sums" not in vars(copy)
    tree, pairs = m.tree, m.pairs
    arrays = sum(
        a.nbytes
        for a in (
            tree.parent, tree.symbol, tree.level_ptr, tree.child_ptr, pairs.ptr,
            pairs.target, m.log_prob, m.log_backoff, m.labels.classes,
        )
    )  # fmt: skip
    assert len(data) < arrays + 2500
    np.testing.assert_array_equal(copy.rows([0, 1]), m.rows([0, 1]))
    other = Toy(11).model
    assert m != other and m != 3
    assert f"n_nodes={m.n_nodes}" in repr(m) and len(repr(m)) < 200
    assert sys.getsizeof(repr(m)) < 300


def test_inputs_of_other_types(toy):
    m = toy.model
    w = windows(toy, 20)
    want = m.locate(w)
    for other in (
        w.tolist(),
        w.astype(np.int64),
        np.asfortranarray(w),
        w[:, ::-1][:, ::-1],
        w.astype(np.int8),
    ):
        np.testing.assert_array_equal(m.locate(other), want)
    frozen = w.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(m.locate(frozen), want)
    np.testing.assert_array_equal(m.depth(want.astype(np.uint16)), m.depth(want))


# ---------------------------------------------------------- over a ContextTree


def test_over_a_counted_tree():
    rng = np.random.RandomState(0)
    tokens = rng.randint(-1, 4, size=150).astype(np.int32)
    at = np.flatnonzero(tokens >= 0)
    histories = Histories.from_tokens(tokens, at, 4)
    tree, terminal = ContextTree.from_histories(histories, 4)
    pairs, count = Pairs.count(tree, terminal, tokens[at], 4)
    # P = c / (c(n) + 1) + P_parent / (c(n) + 1), an interpolated model.
    total, node = pairs.node_sums(count), pairs.nodes()
    prob = np.empty(pairs.n_pairs)
    for p, above in enumerate(pairs.parent):
        prob[p] = (count[p] + (0.25 if above < 0 else prob[above])) / (
            total[node[p]] + 1
        )
    bow = -np.log(total + 1)
    bow[0] = 0
    labels = Labels([*"abcd"], [*"abcd"])
    model = BackoffModel(pairs, np.log(prob), bow, labels)
    assert model.check_normalized() < 1e-12
    assert model.tree is tree and model.pairs is pairs
    padded = np.r_[np.full(5, -1, dtype=np.int32), tokens]
    # A sliding-window view is read in place.
    view = np.lib.stride_tricks.sliding_window_view(padded, 5)[at]
    nodes = model.locate(view)
    np.testing.assert_array_equal(nodes, find_histories(tree, histories)[0])
    every = model.locate(np.lib.stride_tricks.sliding_window_view(padded, 5)[:-1])
    np.testing.assert_array_equal(every[at], nodes)
    np.testing.assert_array_equal(
        score_tokens(model, tokens)[1], model.target(nodes, tokens[at])
    )


def test_a_collapsed_tree_must_be_expanded_first():
    histories = Histories.from_tokens(np.zeros(5, np.int32), np.arange(5), 3)
    tree, terminal = suffix_tree(histories, 1)
    pairs, count = Pairs.count(tree, terminal, np.zeros(5, np.int32), 1)
    with pytest.raises(ValueError, match="collapsed; expand it first"):
        BackoffModel(pairs, np.zeros(count.size), np.zeros(tree.n_nodes))
    with pytest.raises(TypeError, match="pairs must be Pairs"):
        BackoffModel(tree, np.zeros(count.size), np.zeros(tree.n_nodes))


# ------------------------------------------------------------------- bad input


@functools.cache
def toy_model(seed):
    return Toy(seed).model


def arrays(seed=1):
    m = toy_model(seed)
    return {
        "parent": m.tree.parent.copy(),
        "symbol": m.tree.symbol.copy(),
        "ptr": m.pairs.ptr.copy(),
        "target": m.pairs.target.copy(),
        "log_prob": m.log_prob.copy(),
        "log_backoff": m.log_backoff.copy(),
    }


def corrupt(name, index, value):
    def change(a):
        a[name][index] = value

    return change


CORRUPTIONS = {
    "parent of root": (corrupt("parent", 0, 0), r"parent\[0\]"),
    "symbol of root": (corrupt("symbol", 0, 0), r"symbol\[0\]"),
    "parent out of range": (corrupt("parent", 3, 10**6), r"parent\[3\] = 1000000"),
    "parent negative": (corrupt("parent", 3, -1), r"parent\[3\]"),
    "parent falls": (corrupt("parent", -1, 0), "parent must not fall"),
    "parent cycle": (corrupt("parent", 5, 5), r"parent\[5\]"),
    "symbol negative": (corrupt("symbol", 4, -3), "symbol holds a negative"),
    "symbol unsorted": (corrupt("symbol", 1, 5), "symbol must rise"),
    "pair_ptr falls": (corrupt("ptr", 4, 0), "ptr must not fall"),
    "pair_ptr beyond the end": (corrupt("ptr", 4, 10**8), "ptr must not fall"),
    "pair_ptr first": (corrupt("ptr", 0, 1), "ptr must start"),
    "pair_ptr last": (corrupt("ptr", -1, 10**8), "ptr must start"),
    "root misses a class": (corrupt("target", 2, 5), "root holds every class"),
    "target range": (corrupt("target", -1, 99), r"target\[\d+\] = 99"),
    "target of no class": (corrupt("target", -1, 7), r"target\[\d+\] = 7"),
    "target twice": (corrupt("target", 9, 1), "target must rise strictly"),
    "target negative": (corrupt("target", -1, -1), r"target\[\d+\] = -1"),
    "nan log_prob": (corrupt("log_prob", 9, np.nan), r"log_prob\[9\] = nan"),
    "positive log_prob": (corrupt("log_prob", 9, 0.1), r"log_prob\[9\] = 0.1"),
    "nan log_backoff": (corrupt("log_backoff", 2, np.nan), r"log_backoff\[2\] = nan"),
    "inf log_backoff": (corrupt("log_backoff", 2, np.inf), r"log_backoff\[2\] = inf"),
    "log_backoff of root": (corrupt("log_backoff", 0, 1.0), r"log_backoff\[0\]"),
}


@pytest.mark.parametrize("case", CORRUPTIONS)
def test_corrupted_arrays(case):
    change, message = CORRUPTIONS[case]
    a = arrays()
    make_model(**a)
    change(a)
    with pytest.raises(ValueError, match=message):
        make_model(**a)


def test_single_random_corruptions_never_crash():
    """A changed entry is refused, or gives a model that answers."""
    rng = np.random.RandomState(0)
    refused = 0
    for _ in range(400):
        a = arrays(int(rng.randint(4)))
        name = list(a)[rng.randint(len(a))]
        index = rng.randint(len(a[name]))
        a[name][index] += rng.choice([-2, -1, 1, 3])
        try:
            m = make_model(**a)
        except ValueError:
            refused += 1
            continue
        nodes = np.arange(m.n_nodes)
        m.rows(nodes)
        m.best(nodes, 3)
        assert m.row_sums.shape == nodes.shape
    assert refused > 100


@pytest.mark.parametrize(
    ("name", "how"),
    [
        *((name, how) for how in ("short", "strings") for name in arrays()),
        *((name, how) for how in ("2d", "empty") for name in ("target", "log_prob")),
    ],
)
def test_arrays_of_wrong_shape_or_type(name, how):
    a = arrays()
    a[name] = {
        "short": a[name][:-1],
        "2d": a[name][None],
        "strings": np.array(["x"] * len(a[name])),
        "empty": a[name][:0],
    }[how]
    with pytest.raises(ValueError):
        make_model(**a)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"classes": ["a", "b"]}, "labels.classes must have 7 entries"),
        ({"classes": list("aabcdef")}, "classes holds 'a' twice"),
        ({"classes": [["a"]] * 7}, "classes must be"),
        ({"symbols": list("abc")}, "n_symbols=3 is below"),
        ({"n_symbols": 2}, "n_symbols=2"),
        ({"start": 3, "symbols": range(6)}, "start=3 is one of classes"),
        ({"end": "x"}, "end='x' is not one of classes"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        make_model(**arrays(), **labels)


def named(model):
    return model.relabel(Labels(range(7), range(6)))


BAD_QUERIES = {
    "window range": (lambda m: m.locate([[0, 6]]), r"contexts\[\(0, 1\)\] = 6"),
    "window below -1": (lambda m: m.locate([[-2, 0]]), "contexts"),
    "window huge": (lambda m: m.locate(np.array([[2**40]])), "contexts.*32-bit"),
    "window float": (lambda m: m.locate([[0.0]]), "contexts must hold symbol ids"),
    "window strings": (lambda m: m.locate([["a"]]), "encode_contexts"),
    "window 1d": (lambda m: m.locate([0, 1]), "contexts must be a 2"),
    "node range": (lambda m: m.target([10**6], [0]), r"at\[0\] = 1000000"),
    "node negative": (lambda m: m.rows([-1]), r"at\[0\] = -1"),
    "node float": (lambda m: m.draw([0.5], [0.5]), "at must hold integers"),
    "draw length": (lambda m: m.draw([0, 0], [0.5]), "uniform must have 2"),
    "node 2d": (lambda m: m.best([[0]], 1), "at must be a 1"),
    "target range": (lambda m: m.target([0], [7]), r"y\[0\] = 7"),
    "target negative": (lambda m: m.target([0], [-2]), r"y\[0\] = -2"),
    "target length": (lambda m: m.target([0, 1], [0]), "y must have 2"),
    "target float": (lambda m: m.target([0], [0.0]), "y must hold integers"),
    "target 2d": (lambda m: m.target([0], [[0]]), "y must be a 1"),
    "k zero": (lambda m: m.best([0], 0), "k must be an integer from 1"),
    "k large": (
        lambda m: m.best([0], 8),
        "k must be an integer from 1 to n_classes=7",
    ),
    "k float": (lambda m: m.best([0], 1.5), "k must be an integer"),
    "encode": (lambda m: m.labels.encode_contexts([[1]]), "symbols=None"),
    "state range": (lambda m: named(m).follow([10**6], [0]), r"states\[0\]"),
    "symbol range": (lambda m: named(m).follow([0], [9]), r"symbols\[0\] = 9"),
    "symbol length": (lambda m: named(m).follow([0, 0], [1]), "symbols must have 2"),
    "tol": (lambda m: m.check_normalized(tol=-1), "tol"),
}


@pytest.mark.parametrize("case", BAD_QUERIES)
def test_bad_queries(case):
    query, message = BAD_QUERIES[case]
    with pytest.raises(ValueError, match=message):
        query(Toy(1).model)


@pytest.mark.parametrize("outside", [1.0, -1e-9, np.nan])
def test_numbers_outside_of_the_unit_interval_draw_nothing(outside):
    model, _ = build({()}, {((), 0): np.log(0.5), ((), 1): np.log(0.5)}, {}, 2)
    assert model.draw([0, 0, 0], [0.0, 0.499, 0.999]).tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match=r"uniform must hold .* uniform\[1\] = "):
        model.draw([0, 0], [0.5, outside])


def test_a_rest_that_rounding_may_have_left_is_not_drawn_from():
    pairs = {((), 0): np.log(0.3), ((), 1): np.log(0.7), ((0,), 0): np.log1p(-1e-13)}
    model, _ = build({(), (0,)}, pairs, {(0,): np.log(1e-13 / 0.7)}, 2)
    assert model.draw([1], [0.5]).tolist() == [0]
    with pytest.raises(ValueError, match="no class but class 0 has a probability"):
        model.draw([1], [0.5], skip=0)


def test_row_of_zeros_cannot_be_drawn_from():
    model, _ = build({()}, {((), 0): -np.inf}, {}, 1)
    with pytest.raises(ValueError, match="no class has a probability after context 0"):
        model.draw([0], [0.5])


def test_rows_that_no_memory_holds_say_what_to_ask_for():
    n = 100_000
    model, _ = build({()}, {((), y): np.log(1e-6) for y in range(n)}, {}, n)
    nodes = np.broadcast_to(np.zeros(1, np.int32), 10**6)
    with pytest.raises(MemoryError, match="745 GiB.*target_log_proba"):
        model.rows(nodes)
