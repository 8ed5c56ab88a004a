"""Pruning against the definition, SRILM's rules in kaldingram, and its invariants."""

import io
import math
import re
import warnings
from functools import partial

import numpy as np
import pytest
from _oracles import following_text, make_model, random_corpus

from sklstruct import StructuredLogLinearLM
from sklstruct.backoff import BackoffModel, Counted, prune, renormalize
from sklstruct.backoff._estimator import count_samples
from sklstruct.backoff._prune import counts_beside, log_marginals
from sklstruct.context_tree import Pairs
from sklstruct.exchange import read, write
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import (
    AbsoluteDiscountLM,
    AdditiveLM,
    KneserNeyLM,
    WittenBellLM,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


random_text = partial(
    following_text, n_words=12, n_sentences=120, spread=0.3, longest=9
)


def fitted(estimator=None, seed=0, max_depth=2, **params):
    estimator = WittenBellLM() if estimator is None else estimator
    lm = LanguageModel(estimator, max_depth=max_depth, **params)
    return lm.fit(random_text(seed)).backoff_model_


def pruned_by_counts(estimator, X, y, threshold, **options):
    """(the whole model, the model pruned with the counts of the samples)."""
    counted = count_samples(estimator, X, y)
    whole = estimator.fit_counted(counted).backoff_model_
    return whole, prune(whole, threshold, counts=counted, **options)


def names(model):
    """{(context, class): log_prob} in words."""
    labels, out = model.labels, {}
    contexts = [tuple(labels.symbols[c]) for c in model.tree.contexts()]
    for p, n in enumerate(model.pairs.nodes()):
        y = labels.classes[model.pairs.target[p]]
        out[contexts[n], y] = model.log_prob[p]
    return out


class Reference:
    """A back-off model in dictionaries, pruned by the definition."""

    def __init__(self, model):
        labels = model.labels
        self.classes = labels.classes.tolist()
        self.start, self.end = labels.start, labels.end
        contexts = [tuple(labels.symbols[c]) for c in model.tree.contexts()]
        self.bow = dict(zip(contexts, np.exp(model.log_backoff).tolist()))
        self.rows = {c: {} for c in contexts}
        for p, n in enumerate(model.pairs.nodes()):
            y = labels.classes[model.pairs.target[p]]
            self.rows[contexts[n]][y] = math.exp(model.log_prob[p])

    def prob(self, h, y):
        if h not in self.rows:
            return self.prob(h[1:], y)
        if y in self.rows[h]:
            return self.rows[h][y]
        return self.bow[h] * self.prob(h[1:], y)

    def marginal(self, h):
        p = 1.0
        for i, w in enumerate(h):
            p *= self.prob((), self.end) if w == self.start else self.prob(h[:i], w)
        return p

    def cost(self, h, y, method):
        """The divergence by summing over the vocabulary, both models in full."""
        before = {z: self.prob(h, z) for z in self.classes}
        if method == "weighted_difference":
            other = self.bow[h] * self.prob(h[1:], y)
            return self.marginal(h) * before[y] * math.log(before[y] / other)
        kept = {z: p for z, p in self.rows[h].items() if z != y}
        rest = [z for z in self.classes if z not in kept]
        low = sum(self.prob(h[1:], z) for z in rest)
        bow = (1 - sum(kept.values())) / low
        after = {z: kept.get(z, bow * self.prob(h[1:], z)) for z in self.classes}
        gap = sum(before[z] * math.log(before[z] / after[z]) for z in self.classes)
        return math.expm1(self.marginal(h) * gap)

    def prune(self, threshold, method):
        rows = {h: dict(row) for h, row in self.rows.items()}
        for h in sorted(self.rows, key=len, reverse=True):
            for y in list(self.rows[h]):
                free = h and not rows.get((*h, y))
                if free and self.cost(h, y, method) < threshold:
                    del rows[h][y]
        return {(h, y): p for h, row in rows.items() for y, p in row.items()}


@pytest.mark.parametrize(
    "method, threshold, estimator",
    [
        ("entropy", 1e-4, WittenBellLM()),
        ("entropy", 1e-2, KneserNeyLM()),
        ("weighted_difference", 1e-3, KneserNeyLM()),
        ("weighted_difference", 5e-3, WittenBellLM()),
    ],
)
def test_equals_the_definition(method, threshold, estimator):
    model = fitted(estimator)
    expected = Reference(model).prune(threshold, method)
    pruned = prune(model, threshold, method=method)
    found = names(pruned)
    assert set(found) == set(expected)
    assert model.n_classes < len(found) < model.n_pairs
    for key, p in expected.items():
        assert math.exp(found[key]) == pytest.approx(p, rel=1e-12)
    assert pruned.check_normalized() < 1e-12


@pytest.mark.parametrize("threshold", [1e-4, 1e-2])
def test_equals_kaldingram(threshold, tmp_path):
    oracle = pytest.importorskip("kaldingram.prune")
    # Without a start mark: kaldingram takes <s> itself for a word of probability 0.
    model = fitted(seed=3, start=None)
    path = tmp_path / "model.arpa"
    write(model, path, precision=15)
    peer = oracle.ArpaParser().loadf(str(path))[0]
    oracle.prune(peer, threshold, 1)
    ours = prune(model, threshold)
    found = {(*h, y): p for (h, y), p in names(ours).items()}
    theirs = {
        (*h, w): p
        for rows in peer._ngrams.values()
        for h, row in rows.items()
        for w, p in row.items()
    }
    theirs.pop(("<s>",), None)
    assert set(found) == set(theirs)
    for key, p in theirs.items():
        assert found[key] / np.log(10) == pytest.approx(p, abs=1e-9)
    for node, context in enumerate(ours.tree.contexts()):
        words = tuple(ours.labels.symbols[context])
        if words and ours.pairs.ptr[node + 1] > ours.pairs.ptr[node]:
            assert ours.log_backoff[node] / np.log(10) == pytest.approx(
                peer._log_bo(words), abs=1e-7
            )


def test_counts_give_the_frequency_of_contexts():
    X, y = random_corpus(0, 8, 500, 2)
    estimator = WittenBellLM(padding=-1, classes=range(9))
    model, pruned = pruned_by_counts(estimator, X, y, 1e-3)
    reference = Reference(model)
    count = {}
    for row in X.tolist():
        h = tuple(s for s in row if s >= 0)
        for k in range(len(h) + 1):
            count[h[len(h) - k :]] = count.get(h[len(h) - k :], 0) + 1
    reference.marginal = lambda h: count[h] / len(y)
    expected = reference.prune(1e-3, "entropy")
    assert set(names(pruned)) == set(expected)
    assert pruned.n_pairs < model.n_pairs
    assert pruned != prune(model, 1e-3)


@pytest.mark.parametrize("threshold", [1, [0, 2], [1, 1, 5]])
def test_count_cut_offs(threshold):
    X, y = random_corpus(0, 8, 500, 3)
    estimator = WittenBellLM(padding=-1)
    whole, model = pruned_by_counts(estimator, X, y, threshold, method="count")
    least = np.atleast_1d(threshold)
    kept = names(model)
    count = {}
    for row, target in zip(X.tolist(), y.tolist()):
        h = tuple(s for s in row if s >= 0)
        for k in range(len(h) + 1):
            key = h[len(h) - k :], target
            count[key] = count.get(key, 0) + 1

    def stays(h, z):
        if not h or count[h, z] > least[min(len(h), least.size) - 1]:
            return True
        longer = (*h, z)  # it begins an n-gram that stays
        return any(k[0] == longer and stays(*k) for k in count)

    assert set(kept) == {key for key in names(whole) if stays(*key)}
    assert model.check_normalized() < 1e-12


@pytest.mark.parametrize(
    ("estimator", "method"),
    [
        (WittenBellLM(), "entropy"),
        (WittenBellLM(interpolate=False), "weighted_difference"),
        (KneserNeyLM(), "count"),
        (KneserNeyLM(discount="tuned"), "entropy"),
        (AbsoluteDiscountLM(interpolate=False), "count"),
        # Its pairs have a negative weighted difference: it backs off to more.
        (AdditiveLM(), "entropy"),
        (StructuredLogLinearLM(), "weighted_difference"),
    ],
)
def test_any_model_stays_normalised_and_a_cursor_walks_it(estimator, method, tmp_path):
    thresholds = (1, 4) if method == "count" else (1e-5, 1e-3)
    sizes, whole = [], LanguageModel(estimator, max_depth=3)
    counted = whole.count(random_text(2))
    whole.fit(counted)
    for threshold in thresholds:
        model = prune(whole.backoff_model_, threshold, method=method, counts=counted)
        lm = LanguageModel.from_backoff(model)
        sizes.append(model.n_pairs)
        assert model.check_normalized() < 1e-12
        nodes = np.arange(min(model.n_nodes, 200))
        rows = np.exp(model.rows(nodes))
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-12)
        model.begin()  # would tell of a context that no reading leads to
        path = tmp_path / "pruned.arpa"
        lm.save(path, precision=12)
        test = random_text(5, n_sentences=20)
        np.testing.assert_allclose(
            LanguageModel.load(path).score_samples(test),
            lm.score_samples(test),
            rtol=1e-8,
        )
    assert sizes[0] > sizes[1]


def test_all_and_nothing():
    model = fitted()
    unigrams = prune(model, np.inf)
    assert unigrams.n_nodes == 1 and unigrams.n_pairs == model.n_classes
    np.testing.assert_allclose(unigrams.log_prob, model.log_prob[: model.n_classes])
    same = prune(model, 0.0)
    assert same.pairs == model.pairs
    np.testing.assert_allclose(same.log_prob, model.log_prob, atol=1e-12)
    np.testing.assert_allclose(same.log_backoff, model.log_backoff, atol=1e-10)
    assert prune(unigrams, 1.0) == prune(unigrams, np.inf)


def test_a_context_with_every_class_is_not_emptied():
    """Each of its pairs follows from the others; all of them do not from nothing."""
    X = np.repeat([[0], [1]], 100, axis=0)
    y = np.r_[np.repeat([0, 1, 2], [80, 15, 5]), np.repeat([0, 1, 2], [5, 15, 80])]
    whole, model = pruned_by_counts(WittenBellLM(), X, y, 1e-4)
    p, q = (np.exp(m.rows(m.tree.find_windows([[0], [1]]))) for m in (whole, model))
    np.testing.assert_allclose(p, q, atol=2e-3)
    y = np.tile([0, 1, 2], 100)  # the same after both
    whole, model = pruned_by_counts(WittenBellLM(), X[:100], y[:100], 1e-4)
    assert whole.n_pairs - model.n_pairs == 3


def test_a_file_that_is_rounded_is_normalised(tmp_path):
    path = tmp_path / "model.arpa"
    write(fitted(), path, precision=5)
    model = read(path)
    assert model.check_normalized(tol=np.inf) > 1e-7
    assert prune(model, 1e-4).check_normalized() < 1e-12


def test_a_context_that_nearly_covers_its_parent():
    # P(c | root) = 1e-9 is all that "a" leaves; 1 - sum would lose its digits.
    tiny = 1e-9
    root = np.array([0.7, 0.3 - tiny, tiny])
    own = np.array([0.5, 0.3])
    model = make_model(
        [-1, 0], [-1, 0], [0, 3, 5], [0, 1, 2, 0, 1],
        np.log([*root, *own]), np.log([1, 0.2 / tiny]),
        classes=["a", "b", "c"], symbols=["a", "b", "c"],
    )  # fmt: skip
    same = prune(model, 0.0)
    row = np.exp(same.rows([1])[0])
    np.testing.assert_allclose(row, [0.5, 0.3, 0.2], rtol=1e-12)
    assert same.log_backoff[1] == pytest.approx(np.log(0.2 / tiny))


@pytest.mark.parametrize(
    "threshold, params, match",
    [
        (-1.0, {}, "threshold must hold numbers in .0, inf"),
        (np.nan, {}, "threshold must hold numbers in .0, inf"),
        ("x", {}, "threshold must be numbers"),
        ([1e-7, 1e-6], {}, "threshold must be one number; got shape"),
        ([], {}, "threshold must be one number; got shape"),
        ([[1]], {"method": "count"}, "one for each depth"),
        (1, {"method": "count"}, "counts must be given"),
        (1, {"method": "katz"}, "method must be one of"),
    ],
)
def test_bad_parameters(threshold, params, match):
    with pytest.raises(ValueError, match=match):
        prune(fitted(), threshold, **params)


def test_counts_of_another_text_are_refused():
    lm = LanguageModel(WittenBellLM(), max_depth=2)
    counted = lm.count(random_text(0))
    model = lm.fit(counted).backoff_model_
    with pytest.raises(TypeError, match="^counts must be a Counted, from"):
        prune(model, 0.1, counts=np.ones(model.n_pairs))
    with pytest.raises(ValueError, match="^counts: the words that were counted are"):
        prune(model, 0.1, counts=lm.count(["other words"]))
    shorter = LanguageModel(WittenBellLM(), max_depth=1).count(random_text(0))
    with pytest.raises(ValueError, match="^counts: contexts of up to 1 symbols were"):
        prune(model, 2, method="count", counts=shorter)
    none = Counted(counted.pairs, 0 * counted.count, counted.labels, 2, 2)
    with pytest.raises(ValueError, match="^counts of the empty context are all 0"):
        prune(model, 0.1, counts=none)


def test_counts_with_held_out_samples_are_those_of_all():
    text = random_text(0)
    lm = LanguageModel(KneserNeyLM(discount="tuned"), max_depth=2)
    counted = lm.count(text)
    model = lm.fit(counted).backoff_model_
    plain = LanguageModel(WittenBellLM(), max_depth=2).count(text)
    assert prune(model, 2, method="count", counts=counted) == prune(
        model, 2, method="count", counts=plain
    )


def test_counts_beside_a_model_with_other_pairs():
    """One that lacks seen pairs, and one with pairs that were never seen."""
    text = random_text(0)
    for estimator in (KneserNeyLM(discount=0.5, min_count=2), AdditiveLM()):
        lm = LanguageModel(estimator, max_depth=3)
        counted = lm.count(text)
        model = lm.fit(counted).backoff_model_
        plain = LanguageModel(WittenBellLM(), max_depth=3).fit(counted).backoff_model_
        seen = dict(zip(names(plain), counted.count.tolist()))
        expected = [seen.get(key, 0.0) for key in names(model)]
        assert set(names(model)) != set(seen)
        np.testing.assert_array_equal(counts_beside(model, counted), expected)
        small = prune(model, 1e-3, counts=counted)
        assert small.check_normalized() < 1e-12


def test_pruning_refuses_values_that_are_not_a_model():
    with pytest.raises(TypeError, match="model must be a BackoffModel"):
        prune(3, 0.1)
    nothing = make_model(
        [-1], [-1], [0, 2], [0, 1], [-np.inf, -np.inf], [0.0], n_symbols=1
    )
    with pytest.raises(ValueError, match=r"after the context \[\] sum to 0.0"):
        prune(nothing, 0.1)


def off(model, seed, factor):
    """The model with other sums: random factors of its rows and of its weights."""
    rng = np.random.default_rng(seed)
    scale = rng.uniform(-factor, 0, model.n_nodes)
    log_prob = model.log_prob + scale[model.pairs.nodes()]
    log_backoff = model.log_backoff + rng.uniform(-factor, factor, model.n_nodes)
    log_backoff[0] = 0
    return BackoffModel(model.pairs, log_prob, log_backoff, model.labels)


@pytest.mark.parametrize(
    ("seed", "to"), [(0, None), (1, None), (2, "all"), (3, "all"), (0, 60), (2, 60)]
)
def test_rows_that_do_not_sum_to_one_are_divided_by_their_sums(seed, to):
    model = off(fitted(seed=seed, max_depth=3), seed, 0.5)
    assert model.check_normalized(tol=np.inf) > 0.1
    size = {"to": model.n_pairs if to == "all" else to}
    with pytest.warns(UserWarning, match=r"rows miss the sum 1, by up to 0\.\d+; each"):
        pruned = prune(model, **(size if to else {"threshold": 1e-3}))
    assert pruned.check_normalized() < 1e-11
    if to == "all":  # nothing is gone: each row is the old one, divided
        nodes = np.arange(model.n_nodes, dtype=np.int32)
        before = np.exp(model.rows(nodes))
        before /= before.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(np.exp(pruned.rows(nodes)), before, atol=1e-12)


@pytest.mark.parametrize("method", ["entropy", "weighted_difference"])
def test_files_whose_rows_do_not_sum_to_one_are_pruned(method):
    """Unigrams of sum .58, and a row after "red" of sum .49."""
    text = (
        "\\data\\\nngram 1=4\nngram 2=2\n\n\\1-grams:\n-2.0\t<unk>\n-99\t<s>\t-0.4\n"
        "-0.6\t</s>\n-0.5\tred\t-0.3\n\n\\2-grams:\n-0.2\t<s> red\n-0.4\tred </s>\n"
        "\n\\end\\\n"
    )
    model = read(io.BytesIO(text.encode()))
    with pytest.warns(UserWarning, match="3 of 3 rows miss the sum 1, by up to 0.438"):
        pruned = prune(model, 1e-9, method=method)
    assert pruned.check_normalized() < 1e-12
    assert pruned.n_pairs == model.n_pairs
    root = 10.0 ** np.array([-0.6, -2.0, -0.5])
    expected = root / root.sum()
    np.testing.assert_allclose(np.exp(pruned.rows([0])[0]), expected, atol=1e-12)


def test_rows_that_sum_to_one_are_pruned_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        prune(fitted(), 1e-3)


# ------------------------------------------------------------------- by size


def n_bytes(model):
    labels = model.labels
    words = [*labels.classes, *labels.symbols]
    arrays = model.log_prob, model.pairs.target, model.log_backoff
    size = sum(a.nbytes for a in arrays) + model.pairs.ptr.itemsize * model.n_nodes
    size += model.tree.parent.nbytes + model.tree.symbol.nbytes
    return size + sum(len(w.encode()) + 8 for w in words)


@pytest.mark.parametrize(
    "method, step", [("entropy", 28), ("entropy", 7), ("weighted_difference", 7)]
)
def test_prune_to_a_number(method, step):
    model = fitted(max_depth=3)
    sizes = []
    for to in [*range(model.n_classes, model.n_pairs, step), model.n_pairs + 2]:
        smaller = prune(model, to=to, method=method)
        assert smaller.n_pairs == min(to, model.n_pairs)
        assert smaller.check_normalized() < 1e-12
        sizes.append(smaller.n_pairs)
        # Every context can be reached by reading its symbols, and a file has no more.
        assert smaller.has_states
        file = io.BytesIO()
        write(smaller, file)
        counts = re.findall(rb"^ngram \d=(\d+)$", file.getvalue(), re.M)
        # The start mark is not a pair; a model without bigrams has an empty section.
        assert sum(map(int, counts)) == smaller.n_pairs + 1
    assert sizes == sorted(sizes)


def test_prune_to_a_number_keeps_the_dearest():
    """A threshold keeps the pairs, with their suffixes, that their number keeps."""
    model = fitted(seed=1, max_depth=3)
    n = 0
    for threshold in np.geomspace(1e-5, 3e-2, 12):
        expected = names(prune(model, threshold)).keys()
        closed = {(c[k:], y) for c, y in expected for k in range(len(c) + 1)}
        got = names(prune(model, to=len(closed))).keys()
        # N-grams of equal cost may change places.
        n += got == closed
        assert len(got & closed) > 0.95 * len(closed)
    assert n > 6


def test_prune_to_a_size():
    model = fitted(seed=2, max_depth=3)
    whole = n_bytes(model)
    for share in (0.3, 0.6, 0.9):
        to = f"{share * whole / 1000:.6f}kB"
        smaller = prune(model, to=to)
        room = share * whole - n_bytes(smaller)
        # Another pair, with its contexts, would not have fitted.
        assert 0 <= room < 12 + 20 * model.max_depth
    assert prune(model, to="1MB") == prune(model, to=model.n_pairs)
    assert prune(model, to="2GB").n_pairs == model.n_pairs


@pytest.mark.parametrize("depth", [1, 2])
def test_prune_to_a_size_counts_contexts_without_pairs(depth):
    """Contexts that only lead to longer ones take room too."""
    model = fitted(seed=2, max_depth=3)
    pairs, node = model.pairs, model.pairs.nodes()
    level = model.tree.levels()[node]
    kept = (level != depth) | (node % 2 == 0)
    ptr = np.concatenate([[0], np.cumsum(kept)])[pairs.ptr]
    holed = Pairs(model.tree, ptr, pairs.target[kept])
    log_prob = model.log_prob[kept]
    log_left = np.log(np.maximum(1 - holed.node_sums(np.exp(log_prob)), 1e-300))
    model = renormalize(holed, log_prob, log_left, model.labels)
    model.check_normalized()
    whole = n_bytes(model)
    for share in (0.3, 0.5, 0.7, 0.9):
        smaller = prune(model, to=f"{share * whole / 1000:.6f}kB")
        assert n_bytes(smaller) <= share * whole
        assert (np.diff(smaller.pairs.ptr) == 0).any()


def test_prune_to_refuses():
    model = fitted(max_depth=3)
    for to in ("much", "20", "-1MB", "20 mb", "1e3kB"):
        with pytest.raises(ValueError, match="such as '20MB'"):
            prune(model, to=to)
    for to in (0, -3, 1.5, True):
        with pytest.raises(ValueError, match="to must be an integer"):
            prune(model, to=to)
    for to in (3, "0.1kB"):
        with pytest.raises(ValueError, match="unigrams of the model need"):
            prune(model, to=to)
    with pytest.raises(ValueError, match="threshold, to or vocabulary must be given"):
        prune(model)
    with pytest.raises(ValueError, match="give one"):
        prune(model, 1e-3, to=50)
    with pytest.raises(TypeError, match="counts must be"):
        prune(model, vocabulary=["a"], counts="the text")


@pytest.mark.parametrize("seed, n, width, n_symbols", [(1, 30, 6, 4), (0, 60, 3, 6)])
def test_contexts_whose_beginnings_are_not_contexts(seed, n, width, n_symbols):
    """All symbols are read; in the first tree some begin with such a context."""
    rng = np.random.RandomState(seed)
    X, y = rng.randint(n_symbols, size=(n, width)), rng.randint(n_symbols, size=n)
    model = KneserNeyLM().fit(X, y).backoff_model_
    assert not model.has_states
    expected = np.zeros(model.n_nodes)
    for k, context in enumerate(model.tree.contexts(np.arange(model.n_nodes))):
        state = np.zeros(1, dtype=np.int32)
        for symbol in context[context >= 0][:, None].astype(np.int32):
            expected[k] += model.target(state, model.labels.class_of_symbol[symbol])[0]
            state = model.follow(state, symbol)
    np.testing.assert_array_equal(log_marginals(model), expected)
