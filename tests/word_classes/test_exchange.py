"""ExchangeClustering: brute force on all partitions, and what it promises."""

import itertools
import pickle

import numpy as np
import pytest
from _cases import each_value
from _oracles import class_log_likelihood, following_text, word_neighbours
from sklearn.base import clone

from sklstruct.symbols import context_windows
from sklstruct.word_classes import ExchangeClustering, _counts


@pytest.mark.parametrize(
    *each_value(offsets=[(1,), (1, 2), (-1, 1), (-2,), (2, 3)], seed=range(4))
)
def test_objective_against_all_partitions(seed, offsets):
    """No exchange improves the result; the best of a few starts is the best of all."""
    text = following_text(seed)
    counts = word_neighbours(text, offsets)
    words = sorted(counts)
    best = max(
        class_log_likelihood(counts, dict(zip(words, (0, *rest))))
        for rest in itertools.product([0, 1], repeat=len(words) - 1)
    )
    found = []
    for start in range(9):
        clustering = ExchangeClustering(
            2,
            offsets=offsets,
            max_iter=100,
            init="random" if start else "frequent",
            random_state=start,
        ).fit(text)
        assert clustering.symbols_.tolist() == words
        class_of = dict(zip(words, clustering.labels_.tolist()))
        value = class_log_likelihood(counts, class_of)
        assert clustering.objective_ == pytest.approx(value, rel=1e-12)
        for word in words:  # a local optimum, by the definition
            moved = {**class_of, word: 1 - class_of[word]}
            assert class_log_likelihood(counts, moved) <= value + 1e-9
        found.append(value)
    assert max(found) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("init", ["frequent", "random"])
def test_passes_never_lower_the_objective(init):
    text = following_text(5, n_words=60, n_sentences=400)
    model = ExchangeClustering(7, init=init, random_state=3)
    path = [clone(model).set_params(max_iter=i).fit(text).objective_ for i in range(12)]
    assert (np.diff(path) >= -1e-9 * abs(path[0])).all() and path[-1] > path[0]


def test_more_classes_fit_better_and_all_words_alone_best():
    text = following_text(6, n_words=20, n_sentences=300)
    values = [ExchangeClustering(k).fit(text).objective_ for k in (1, 5, 20)]
    assert values[0] < values[1] < values[2]
    counts = word_neighbours(text, (1, 2))
    words = sorted(counts)
    assert values[2] == pytest.approx(
        class_log_likelihood(counts, dict(zip(words, words)))
    )
    labels = ExchangeClustering(20).fit(text).labels_
    assert sorted(labels.tolist()) == list(range(20))


def test_windows_and_sentences_agree():
    """Windows without marks hold the same neighbours inside of sentences."""
    text = following_text(7, n_words=30, n_sentences=300)
    w = context_windows(text, 2, start=None, end="</s>")
    keep = w.sample_weight > 0
    names = w.vocabulary.astype(str)
    X = np.where(w.contexts[keep] < 0, "", names[w.contexts[keep]])
    y = names[w.targets[keep]]
    a = ExchangeClustering(5).fit(text)
    b = ExchangeClustering(5, padding="").fit(X, y)
    assert a.symbols_.tolist() == b.symbols_.tolist()
    assert np.array_equal(a.labels_, b.labels_)
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-12)
    ids = ExchangeClustering(5, padding=-1).fit(w.contexts[keep], w.targets[keep])
    assert np.array_equal(ids.labels_, a.labels_)
    # Without y the last column follows the others.
    c = ExchangeClustering(5, padding="").fit(np.column_stack([X, y]))
    assert c.objective_ == pytest.approx(b.objective_, rel=1e-12)


def test_hidden_classes_are_found():
    rng = np.random.default_rng(0)
    kinds = [[f"{k}{i}" for i in range(12)] for k in "abc"]
    text = [
        [rng.choice(kinds[(j + i) % 3]) for i in range(6)]
        for j in rng.integers(3, size=800)
    ]
    clustering = ExchangeClustering(3).fit(text)
    classes = [set(clustering.classes_of(kind).tolist()) for kind in kinds]
    assert all(len(c) == 1 for c in classes) and len(set.union(*classes)) == 3


@pytest.mark.parametrize("offsets", [(1, 2), (-1, 1)])
def test_neighbours_are_counted_in_blocks(offsets, monkeypatch):
    rng = np.random.default_rng(0)
    windows = rng.integers(-1, 6, (100, 2)).astype(np.int32)
    target = rng.integers(-1 if min(offsets) < 0 else 0, 6, 100).astype(np.int32)
    whole = _counts.count_features(windows, target, offsets, 6, 6)
    monkeypatch.setattr(_counts, "_ROWS", 7)
    blocks = _counts.count_features(windows, target, offsets, 6, 6)
    assert (whole != blocks).nnz == 0
    assert whole.dtype == blocks.dtype and blocks.has_canonical_format


def test_deterministic_and_numbered_by_frequency():
    text = following_text(8, n_words=40, n_sentences=300)
    a, b = (ExchangeClustering(6).fit(text) for _ in range(2))
    assert np.array_equal(a.labels_, b.labels_)
    counts = word_neighbours(text, (1, 2))
    size = np.bincount(
        a.labels_, weights=[sum(counts[w].values()) for w in a.symbols_], minlength=6
    )
    assert (np.diff(size) <= 0).all()
    r = [
        ExchangeClustering(6, init="random", random_state=s).fit(text).labels_
        for s in (1, 1, 2)
    ]
    assert np.array_equal(r[0], r[1]) and not np.array_equal(r[0], r[2])


def test_classes_of():
    clustering = ExchangeClustering(2).fit([["a", "b", "a", "c"]] * 3)
    known = clustering.classes_of(clustering.symbols_)
    assert np.array_equal(known, clustering.labels_)
    out = clustering.classes_of(np.array([["a", None], ["new", "b"]], dtype=object))
    a, b = clustering.classes_of(["a", "b"])
    assert out.tolist() == [[a, -1], [2, b]] and out.dtype == np.int32
    ids = ExchangeClustering(2, offsets=(1,), padding=-1).fit(
        np.array([[0], [1], [2]]), [1, 2, 0]
    )
    assert ids.classes_of([-1, 7]).tolist() == [-1, 2]
    again = pickle.loads(pickle.dumps(clustering))
    assert np.array_equal(
        again.classes_of(["a", "zz"]), clustering.classes_of(["a", "zz"])
    )
    assert clustering.classes_of([]).shape == (0,)


def test_words_that_differ_in_a_trailing_nul():
    text = [["a", "a\0", "b", "c"], ["b", "a", "c", "a\0"]] * 10
    clustering = ExchangeClustering(2).fit(text)
    assert clustering.symbols_.tolist() == ["a", "a\0", "b", "c"]  # as Python's strings


def test_numbers_as_words():
    clustering = ExchangeClustering(2).fit([[1, 2, 1, 3], [3, 1]])
    assert clustering.symbols_.tolist() == [1, 2, 3]
    assert clustering.classes_of([2, 9]).tolist()[1] == 2


@pytest.mark.parametrize(
    "params, X, y, message",
    [
        (
            {"n_clusters": 4},
            ["a b c"],
            None,
            "n_clusters=4 is more than the 3 distinct",
        ),
        ({"n_clusters": 0}, ["a b"], None, "n_clusters"),
        ({"n_clusters": 1, "offsets": ()}, ["a b"], None, "offsets"),
        ({"n_clusters": 1, "offsets": (0,)}, ["a b"], None, "offsets"),
        ({"n_clusters": 1, "offsets": (1, 1)}, ["a b"], None, "offsets"),
        ({"n_clusters": 1, "offsets": (1.5,)}, ["a b"], None, "offsets"),
        ({"n_clusters": 1, "offsets": (10**9,)}, ["a b"], None, "longest sentence"),
        ({"n_clusters": 1, "init": "kmeans"}, ["a b"], None, "init"),
        ({"n_clusters": 1}, [], None, "X"),
        ({"n_clusters": 1}, [[], []], None, "X has no word"),
        ({"n_clusters": 1}, np.array([[1], [2]]), [1, 2], "offsets reach 2"),
        ({"n_clusters": 1}, np.array([[1], [2]]), None, "X"),
        ({"n_clusters": 1}, np.array([[1, 2], [2, 1]]), [1], "inconsistent"),
        ({"n_clusters": 1}, np.array([[1.0, np.nan]]), [1], "NaN"),
    ],
)
def test_bad_input(params, X, y, message):
    with pytest.raises(ValueError, match=message):
        ExchangeClustering(**params).fit(X, y)


def test_true_is_the_number_1():
    clustering = ExchangeClustering(True).fit(["a b c"])
    assert clustering.labels_.tolist() == [0, 0, 0]


def test_bad_types():
    with pytest.raises(TypeError, match="not one string"):
        ExchangeClustering(1).fit("a b c")
    with pytest.raises(TypeError, match="symbols must be an array of symbols"):
        ExchangeClustering(1).fit(["a b c"]).classes_of(None)
    with pytest.raises(TypeError, match="y: with a negative offset"):
        ExchangeClustering(1, offsets=(-1, 1)).fit(np.array([["a"], ["b"]]), [1, 2])
    # Targets that are only features may be of another kind.
    ExchangeClustering(1, offsets=(1,)).fit(np.array([["a"], ["b"]]), [1, 2])


@pytest.mark.parametrize("offsets", [(1, 2), (-1, 1), (-3,)])
def test_counts_of_parts_are_summed(offsets):
    """As the workers of a cluster count; a part lacks words and targets of others."""
    windows = context_windows(following_text(1), 3)
    keep = windows.sample_weight > 0
    X, y = windows.contexts[keep], windows.targets[keep]
    clustering = ExchangeClustering(3, offsets=offsets, padding=-1)
    want = clone(clustering).fit(X, y)
    symbols, (classes, target) = np.unique(X[X >= 0]), np.unique(y, return_inverse=True)
    total = 0
    for rows in np.array_split(np.arange(len(y)), 7):
        words, *ids, n_targets = _counts.neighbour_ids(
            X[rows], target[rows].astype(np.int32), symbols, classes, offsets
        )
        total = total + _counts.count_features(*ids, offsets, words.size, n_targets)
    got = clone(clustering).fit_counts(words, total, *X.shape)
    assert got.symbols_.tolist() == want.symbols_.tolist()
    assert got.labels_.tolist() == want.labels_.tolist()
    assert (got.objective_, got.n_iter_) == (want.objective_, want.n_iter_)
    assert got.n_features_in_ == want.n_features_in_ == 3


def test_too_few_words_are_told_with_the_number_of_samples():
    with pytest.raises(ValueError, match=r"the 3 distinct .*\(n_samples=6\)"):
        ExchangeClustering(4).fit(["a b c", "a"])  # with the ends of sentences
