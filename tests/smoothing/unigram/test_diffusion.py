"""Diffusion over graphs of words against dense matrices and closed forms."""

import functools
import io

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from _cases import all_pairs
from sklearn.model_selection import GridSearchCV

from sklstruct.exchange import read, write
from sklstruct.metrics import LikelihoodScorer
from sklstruct.smoothing import (
    AbsoluteDiscountUnigram,
    AdditiveUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
    GraphSpreadUnigram,
    KneserNeyLM,
    group_graph,
)
from sklstruct.smoothing.unigram import _graphs as module

COUNTS = {
    "connected": [0, 0, 0, 0, 1, 1, 1, 2, 2, 3],
    "gaps": [0, 0, 1, 1, 1, 2, 5, 6, 6, 40],
    "no singleton": [0, 0, 2, 2, 3, 9],
    "no unseen": [1, 1, 2, 3, 3, 8],
    "one class": [4],
    "all equal": [2, 2, 2],
    # up to 255 the kernel uses four tables in turn
    "beyond the table": [
        0,
        1,
        1,
        2,
        255,
        256,
        256,
        module.TABLE,
        module.TABLE + 1,
        10**9,
    ],
    "fractional": [0, 0, 0.3, 0.9, 1.2, 1.9, 2.0, 3.5, 7.25],
}
COUNTS = {name: np.array(c, dtype=float) for name, c in COUNTS.items()}
counts_of = pytest.mark.parametrize("counts", list(COUNTS.values()), ids=COUNTS)


def count_graph(counts):
    """The explicit graph, without loops."""
    w = (np.abs(counts[:, None] - counts) <= 1).astype(float)
    np.fill_diagonal(w, 0)
    return w


def normalized(w, start):
    w = w + np.eye(start.size)
    return (w / w.sum(axis=1, keepdims=True)).T @ start


def laplacian(w):
    return w - np.diag(w.sum(axis=1))


class Fixed:
    """A base that is not a function of the counts."""

    def __init__(self, n):
        self.n = n

    def get_params(self, deep=False):
        return {"n": self.n}

    def from_counts(self, counts, classes):
        p = np.random.default_rng(3).random(self.n) + 0.1
        self.proba_ = p / p.sum()
        return self


BASES = {"empirical": lambda n: None, "base": Fixed}


def base_and_start(name, counts):
    """(base, the distribution that diffuses)"""
    base = BASES[name](counts.size)
    if base is None:
        return None, counts / counts.sum()
    return base, base.from_counts(None, None).proba_


@counts_of
@pytest.mark.parametrize("base", BASES)
def test_normalized_count_graph_equals_the_explicit_one(counts, base):
    base, start = base_and_start(base, counts)
    model = GraphDiffusionUnigram(base=base)
    expected = normalized(count_graph(counts), start)
    np.testing.assert_allclose(
        model.from_counts(counts).proba_, expected, rtol=1e-13, atol=1e-17
    )
    explicit = GraphDiffusionUnigram(graph=sp.csr_array(count_graph(counts)), base=base)
    np.testing.assert_allclose(
        explicit.from_counts(counts).proba_, expected, rtol=1e-13, atol=1e-17
    )


@pytest.mark.parametrize(*all_pairs(name=COUNTS, base=BASES, n_steps=[2, 5]))
def test_several_steps_are_powers_of_the_matrix(name, base, n_steps):
    counts = COUNTS[name]
    base, start = base_and_start(base, counts)
    w = count_graph(counts)
    expected = start
    for _ in range(n_steps):
        expected = normalized(w, expected)
    for graph in ("counts", sp.csr_array(w)):
        model = GraphDiffusionUnigram(graph=graph, n_steps=n_steps, base=base)
        np.testing.assert_allclose(
            model.from_counts(counts).proba_, expected, rtol=1e-12, atol=1e-17
        )


def test_fractional_counts_one_apart_by_hand():
    # In floating point 2.3 - 1.3 < 1 < 1.3 - 0.3 + 1e-15: all are neighbours.
    model = GraphDiffusionUnigram().from_counts([2.3, 1.3, 1.3, 0.3, 0.3, 0.3])
    a = (2.3 / 3 + 2.6 / 6) / 5.8
    b = (2.3 / 3 + 2.6 / 6 + 0.9 / 5) / 5.8
    c = (2.6 / 6 + 0.9 / 5) / 5.8
    np.testing.assert_allclose(model.proba_, [a, b, b, c, c, c], rtol=1e-14)


@pytest.mark.parametrize("digits", [1, 2, 3, 7])
def test_decimal_counts_are_neighbours_as_their_integers_say(digits):
    unit = 10**digits
    rng = np.random.default_rng(digits)
    # Many that differ by exactly 1, and some that nearly do.
    low = rng.integers(0, 3 * unit, 12)
    integer = np.concatenate([low, low + unit, low + unit + 1, low + unit - 1])
    integer = np.concatenate([integer, [7 * unit, 8 * unit, 10**6 * unit]])
    w = (np.abs(integer[:, None] - integer) <= unit).astype(float)
    np.fill_diagonal(w, 0.0)
    counts = integer / unit
    for start in (None, Fixed(counts.size)):
        model = GraphDiffusionUnigram(base=start).from_counts(counts)
        first = (
            counts / counts.sum() if start is None else start.from_counts(0, 0).proba_
        )
        np.testing.assert_allclose(
            model.proba_, normalized(w, first), rtol=1e-11, atol=1e-16
        )


@pytest.mark.parametrize("large", [2.0**52, 70_000.5])
def test_large_counts_stay_apart(large):
    counts = np.array([large, large + 1, large + 3, 1, 3, 4])
    w = count_graph(counts)
    model = GraphDiffusionUnigram().from_counts(counts)
    expected = normalized(w, counts / counts.sum())
    np.testing.assert_allclose(model.proba_, expected, rtol=1e-14)


def test_closed_form_of_the_paper():
    """Equation 15 of Jedynak and Karakos."""
    counts = COUNTS["gaps"].astype(int)
    r = np.bincount(counts, minlength=50)
    n = counts.sum()
    expected = [
        sum(
            j * r[j] / (r[max(j - 1, 0)] * (j > 0) + r[j] + r[j + 1])
            for j in range(max(c - 1, 0), c + 2)
            if r[j]
        )
        / n
        for c in counts
    ]
    got = GraphDiffusionUnigram().from_counts(counts).proba_
    np.testing.assert_allclose(got, expected, rtol=1e-14)


@pytest.mark.parametrize(*all_pairs(name=COUNTS, t=[None, 0.05, 0.2], base=BASES))
def test_kernel_equals_dense_expm(name, t, base):
    counts = COUNTS[name]
    base, start = base_and_start(base, counts)
    H = laplacian(count_graph(counts))
    time = 1 / counts.size if t is None else t
    for n_terms in ("exact", 3, 20):
        if n_terms == "exact":
            expected = scipy.linalg.expm(time * H) @ start
        else:
            step = np.eye(counts.size) + time / n_terms * H
            if step.min() < 0:
                continue
            expected = np.linalg.matrix_power(step, n_terms) @ start
        for graph in ("counts", sp.csr_array(count_graph(counts))):
            model = GraphDiffusionUnigram(
                "kernel", graph=graph, t=time, n_terms=n_terms, base=base
            )
            got = model.from_counts(counts).proba_
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-16)
            assert model.t_ == time


def test_exact_kernel_with_large_times():
    rng = np.random.default_rng(0)
    w = sp.random_array(
        (40, 40), density=0.2, random_state=rng, data_sampler=rng.random
    )
    w = sp.csr_array(w + w.T)
    w.setdiag(0)
    counts = rng.integers(0, 20, 40)
    for t in (1e-3, 1.0, 50.0, 2000.0):
        model = GraphDiffusionUnigram("kernel", graph=w, t=t, n_terms="exact")
        expected = scipy.linalg.expm(t * laplacian(w.toarray())) @ (
            counts / counts.sum()
        )
        np.testing.assert_allclose(
            model.from_counts(counts).proba_, expected, rtol=1e-8, atol=1e-14
        )


def test_exact_kernel_that_comes_to_rest():
    # All counts differ and all words are neighbours: at rest long before the last term.
    counts = np.random.default_rng(0).random(300)
    for t in (0.001, 0.02, 3.0):
        model = GraphDiffusionUnigram("kernel", t=t, n_terms="exact")
        keep = np.exp(-300 * t)
        expected = keep * counts / counts.sum() + (1 - keep) / 300
        np.testing.assert_allclose(
            model.from_counts(counts).proba_, expected, rtol=1e-12
        )


# All that counts is the ratio of weights and of t to them.
SIZES = [2.0**490, 2.0**100, 2.0**-100, 2.0**-490]


@pytest.mark.parametrize("size", SIZES)
def test_graphs_of_any_size_of_weights(size):
    rng = np.random.default_rng(0)
    w = rng.integers(1, 4, (6, 6)) * (rng.random((6, 6)) < 0.6)
    w = (w + w.T).astype(float)
    counts = [5, 3, 1, 1, 0, 0]
    for make in (
        lambda w: GraphDiffusionUnigram("kernel", graph=w),
        lambda w: GraphDiffusionUnigram("kernel", graph=w, n_terms="exact"),
        lambda w: GraphSpreadUnigram(w, base=AdditiveUnigram()),
    ):
        expected = make(w).from_counts(counts).proba_
        got = make(w * size).from_counts(counts).proba_
        np.testing.assert_allclose(got, expected, rtol=1e-13)
    t = 0.01 / size
    if 0 < t < np.inf:
        expected = GraphDiffusionUnigram("kernel", graph=w, t=0.01).from_counts(counts)
        model = GraphDiffusionUnigram("kernel", graph=w * size, t=t).from_counts(counts)
        np.testing.assert_allclose(model.proba_, expected.proba_, rtol=1e-12)
        assert model.t_ == t


def test_a_word_whose_weights_are_all_small_stays():
    w = np.zeros((4, 4))
    w[0, 1] = w[1, 0] = 1.0
    w[2, 3] = w[3, 2] = 1e-150
    # The weight to itself is 1.
    model = GraphDiffusionUnigram(graph=w).from_counts([1, 0, 3, 0])
    np.testing.assert_allclose(model.proba_, [0.125, 0.125, 0.75, 0], atol=1e-140)
    # Multiplied by a large number nearly nothing stays.
    model = GraphDiffusionUnigram(graph=1e149 * w).from_counts([1, 0, 3, 0])
    np.testing.assert_allclose(model.proba_[:2], [0, 0.25], atol=1e-140)
    for wrong in (1e151, 1e-151, 5e-324):
        w[2, 3] = w[3, 2] = wrong
        with pytest.raises(ValueError, match="^graph holds the similarity .* multiply"):
            GraphDiffusionUnigram(graph=w).from_counts([1, 0, 3, 0])


@pytest.mark.parametrize("beta", [0.5, 3.0])
def test_normalized_complete_graph_is_additive(beta):
    counts = np.array([5, 3, 1, 0, 0])
    w = (np.ones((5, 5)) - np.eye(5)) / (1 + beta)
    expected = AdditiveUnigram(delta=counts.sum() / beta).from_counts(counts).proba_
    model = GraphDiffusionUnigram(graph=w).from_counts(counts)
    np.testing.assert_allclose(model.proba_, expected, rtol=1e-14)


@pytest.mark.parametrize("n_terms", ["exact", 2])
def test_kernel_complete_graph(n_terms):
    counts = np.array([5, 3, 1, 0, 0])
    w = np.ones((5, 5)) - np.eye(5)
    H = laplacian(w)
    model = GraphDiffusionUnigram("kernel", graph=w, n_terms=n_terms, t=0.1)
    expected = (
        scipy.linalg.expm(0.1 * H)
        if n_terms == "exact"
        else np.linalg.matrix_power(np.eye(5) + 0.05 * H, 2)
    ) @ (counts / 9)
    np.testing.assert_allclose(model.from_counts(counts).proba_, expected, rtol=1e-13)


@counts_of
def test_sums_to_one_and_floor_makes_it_positive(counts):
    for model in (
        GraphDiffusionUnigram(floor=1e-3),
        GraphDiffusionUnigram("kernel", floor=1e-3, n_terms="exact"),
        GraphSpreadUnigram(base=AdditiveUnigram()),
    ):
        proba = model.from_counts(counts).proba_
        assert abs(proba.sum() - 1) < 1e-12
        assert proba.min() > 0


def test_corner_cases_of_count_graphs():
    # A gap above 0 leaves the unseen without probability, isolated counts keep theirs.
    model = GraphDiffusionUnigram().from_counts([0, 0, 2, 2, 9])
    assert model.unseen_mass_ == 0
    assert model.proba_[4] == pytest.approx(9 / 13, rel=1e-15)
    np.testing.assert_allclose(model.proba_, np.array([0, 0, 2, 2, 9]) / 13)


def test_callable_graph_gets_the_classes():
    words = np.array(["ape", "apes", "bee", "cow"])

    def stems(classes):
        assert classes.tolist() == words.tolist()
        return group_graph([c.removesuffix("s") for c in classes])

    X, y = np.zeros((5, 1)), ["ape", "bee", "bee", "ape", "ape"]
    model = GraphDiffusionUnigram(graph=stems, classes=words).fit(X, y)
    np.testing.assert_allclose(model.proba_, [0.3, 0.3, 0.4, 0])


def test_fit_equals_from_counts():
    y = np.random.default_rng(0).zipf(1.7, 300)
    weight = np.random.default_rng(1).integers(0, 3, 300)
    model = GraphDiffusionUnigram("kernel")
    a = model.fit(np.zeros((300, 2)), y, sample_weight=weight)
    counts = np.bincount(y, weight)
    classes = np.flatnonzero(counts)
    proba = a.proba_.copy()
    b = model.from_counts(counts[classes], classes)
    np.testing.assert_array_equal(proba, b.proba_)
    np.testing.assert_array_equal(b.classes_, classes)
    assert b.t_ == 1 / classes.size
    assert not hasattr(b.set_params(method="normalized").from_counts(counts), "t_")


def test_grid_search_and_arpa():
    rng = np.random.default_rng(0)
    vocabulary = np.arange(1, 400)
    y = np.minimum(rng.zipf(1.5, 1500), 399)
    X = np.zeros((y.size, 1))

    search = GridSearchCV(
        GraphDiffusionUnigram(classes=vocabulary, floor=0.01, n_terms="exact"),
        {
            "method": ["normalized", "kernel"],
            "floor": [0.01, 0.1],
            "t": [None, 1e-4],
            "base": [None, AdditiveUnigram(0.01)],
        },
        scoring=LikelihoodScorer(),
        cv=3,
    ).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0
    words = np.array([f"w{i:03d}" for i in range(399)])
    model = GraphDiffusionUnigram(floor=0.01).from_counts(
        np.bincount(y, minlength=400)[1:], words
    )
    file = io.BytesIO()
    write(model.backoff_model_, file)
    file.seek(0)
    back = read(file)
    labels = back.labels.classes.tolist()
    at = [labels.index(w) for w in words]
    np.testing.assert_allclose(np.exp(back.log_prob[at]), model.proba_, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")
def test_as_base_of_kneser_ney():
    rng = np.random.default_rng(0)
    y = np.minimum(rng.zipf(1.5, 500), 99)
    X = np.roll(y, 1)[:, None]
    classes = np.arange(1, 100)
    for base in (
        GraphDiffusionUnigram(floor=1e-3),
        GoodTuringUnigram(floor=1e-3),
        AbsoluteDiscountUnigram(),
        GraphSpreadUnigram(base=AdditiveUnigram()),
    ):
        model = KneserNeyLM(discount="single", base=base, classes=classes).fit(X, y)
        proba = model.predict_proba([[1], [50], [-7]])
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
        # The adjusted counts at the root: distinct predecessors.
        pairs = np.unique(np.column_stack([X[:, 0], y]), axis=0)
        counts = np.bincount(pairs[:, 1], minlength=100)[1:]
        expected = base.from_counts(counts, classes).proba_
        np.testing.assert_allclose(proba[2], expected, rtol=1e-13)


# --------------------------------------------------------------------- spread


def test_spread_moves_only_the_unseen_mass():
    counts = np.array([4, 3, 1, 1, 0, 0, 0])
    w = np.zeros((7, 7))
    w[0, 4] = w[4, 0] = 2.0
    w[0, 1] = w[1, 0] = 1.0
    w[2, 5] = w[5, 2] = 1.0
    w[4, 5] = w[5, 4] = 9.0  # from unseen to unseen: nothing starts there
    base = AdditiveUnigram(0.5).from_counts(counts).proba_
    # s from 0: 2/3 to word 4; from 2: all to word 5.
    s = np.array([2 / 3, 1, 0]) / (5 / 3)
    for spread in (0, 0.4, 1):
        model = GraphSpreadUnigram(
            sp.csr_array(w), spread=spread, base=AdditiveUnigram(0.5)
        ).from_counts(counts)
        np.testing.assert_allclose(model.proba_[:4], base[:4], rtol=1e-14)
        p0 = base[4:].sum()
        np.testing.assert_allclose(
            model.proba_[4:], p0 * (spread * s + (1 - spread) / 3), rtol=1e-14
        )
        assert model.reached_ == 2


def test_spread_without_neighbours_is_the_base():
    counts = np.array([4, 3, 1, 1, 0, 0])
    model = GraphSpreadUnigram(sp.csr_array((6, 6)), base=AdditiveUnigram())
    np.testing.assert_allclose(
        model.from_counts(counts).proba_, AdditiveUnigram().from_counts(counts).proba_
    )
    assert model.reached_ == 0


# ------------------------------------------------------------------ bad input


def _edit(i, j, value):
    w = sp.lil_array((4, 4))
    w[0, 1] = w[1, 0] = 1.0
    w[i, j] = value
    return sp.csr_array(w)


@pytest.mark.parametrize(
    "graph, match",
    [
        (_edit(2, 3, 1.0), "not symmetric"),
        (_edit(2, 2, -1.0), "Negative values in data passed to graph"),
        (_edit(2, 2, np.nan), "Input graph contains NaN"),
        (sp.csr_array((3, 4)), "each of the 4 classes"),
        (lambda classes: "no", "each of the 4 classes"),
        (np.ones((5, 5)), "each of the 4 classes"),
    ],
)
def test_bad_graphs(graph, match):
    with pytest.raises(ValueError, match=match):
        GraphDiffusionUnigram(graph=graph).from_counts([1, 2, 0, 0])


def test_time_that_makes_probabilities_negative_names_the_largest():
    counts = [0, 0, 1, 2]
    with pytest.raises(ValueError, match=r"largest valid t is 1\b"):
        GraphDiffusionUnigram("kernel", t=1.01).from_counts(counts)
    model = GraphDiffusionUnigram("kernel", t=1.0).from_counts(counts)
    assert model.proba_.min() >= 0
    with pytest.raises(ValueError, match="the largest is 333333"):
        GraphDiffusionUnigram("kernel", t=1e9, n_terms="exact").from_counts(counts)


@pytest.mark.parametrize(
    "counts, classes, match",
    [
        ([], None, "empty"),
        ([0, 0], None, "all zero"),
        ([1, -2], None, r"counts\[1\] = -2"),
        ([1, np.nan], None, r"counts\[1\] = nan"),
        ([1, np.inf], None, "finite"),
        ([[1, 2]], None, "1-dimensional"),
        (["a"], None, "must hold numbers"),
        ([1, 2], ["a"], "2 counts for 1 classes"),
        ([1, 2], [None, "a"], "missing"),
        ([1, 2], ["a", "a"], "twice"),
    ],
)
def test_bad_counts(counts, classes, match):
    for model in (GraphDiffusionUnigram(), AdditiveUnigram()):
        with pytest.raises(ValueError, match=match):
            model.from_counts(counts, classes)


@pytest.mark.parametrize("name", ["n_terms", "n_steps"])
def test_more_steps_than_anybody_waits_for_are_refused(name):
    for method in ("normalized", "kernel"):
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            GraphDiffusionUnigram(method, **{name: 10**15}).from_counts([1, 2])


@pytest.mark.parametrize(
    "graph, match",
    [
        (np.eye(2) * 1j, "Complex data not supported"),
        (np.array([["a", "b"], ["b", "a"]]), "could not convert string"),
    ],
)
def test_graphs_that_hold_no_numbers(graph, match):
    with pytest.raises(ValueError, match=match):
        GraphDiffusionUnigram(graph=graph).from_counts([1, 2])


def test_rows_of_a_matrix_are_not_guessed():
    w = group_graph(["x", "x", None])
    words = ["c", "a", "b"]
    for make in (
        lambda graph: GraphDiffusionUnigram(graph=graph),
        lambda graph: GraphSpreadUnigram(graph, base=AdditiveUnigram()),
    ):
        with pytest.raises(ValueError, match="rows are the classes in sorted order"):
            make(w).from_counts([1, 2, 3], words)
        with pytest.raises(ValueError, match="rows are the classes in sorted order"):
            make(w).set_params(classes=words).fit([[0]] * 2, ["a", "b"])
        make(w).set_params(classes=sorted(words)).fit([[0]] * 2, ["a", "b"])
        a = make(lambda classes: w).from_counts([3, 1, 2], words).proba_
        b = make(w).from_counts([1, 2, 3], sorted(words)).proba_
        np.testing.assert_array_equal(a, b)


def test_words_outside_the_vocabulary_are_named():
    with pytest.raises(ValueError, match=r"'zebra'.* is not among the 2 symbols"):
        GraphDiffusionUnigram(classes=["ant", "bee"]).fit([[0]] * 2, ["ant", "zebra"])


def test_diagonal_and_duplicates_of_a_graph_are_normalised():
    w = np.array([[7.0, 1, 0], [1, 0, 2], [0, 2, 5]])
    plain = w - np.diag(np.diag(w))
    duplicated = sp.coo_array(
        ([0.5, 0.5, 1, 2, 2, 7], ([0, 0, 1, 1, 2, 0], [1, 1, 0, 2, 1, 0])), shape=(3, 3)
    )
    counts = [3, 1, 0]
    expected = GraphDiffusionUnigram(graph=plain).from_counts(counts).proba_
    for graph in (w, sp.csr_matrix(w), sp.csc_array(w), duplicated):
        got = GraphDiffusionUnigram(graph=graph).from_counts(counts).proba_
        np.testing.assert_allclose(got, expected, rtol=1e-15)
    assert duplicated.nnz == 6


def test_partial_builder_survives_clone_and_pickle():
    import pickle

    from sklearn.base import clone

    builder = functools.partial(group_graph)
    model = clone(GraphDiffusionUnigram(graph=builder))
    model.from_counts([1, 0], ["a", "b"])
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).proba_, model.proba_
    )
