"""Checks of data: malformed sparse matrices and values whose squares overflow."""

import datetime

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from sklstruct import (
    HierarchicalClassifier,
    KneserNeyLM,
    LanguageModel,
    StructuredLogLinearLM,
    prox,
)
from sklstruct._checks import (
    check_choice,
    check_count,
    check_real,
    check_reals,
    check_rows,
    check_sparse,
    check_squares,
)
from sklstruct.factor_graph import (
    ConditionalRandomField,
    SampleRankClassifier,
    chain_graph,
)
from sklstruct.hmm import HighOrderHMM
from sklstruct.language_model import named_estimator
from sklstruct.linear import LinearClassifier, StructuredLogisticRegression
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.smoothing import AbsoluteDiscountLM
from sklstruct.symbols import Labels, TextFile, context_windows
from sklstruct.taxonomy import Taxonomy, as_taxonomy
from sklstruct.text import NgramVectorizer, TextClassifier
from sklstruct.word_classes import ExchangeClustering

FORMATS = ["csr", "csc", "coo", "bsr", "lil", "dia", "dok"]


@pytest.mark.parametrize("fmt", FORMATS)
def test_good_matrices_pass_and_stay(fmt):
    dense = np.arange(12.0).reshape(3, 4) % 5
    for shape in ((3, 4), (0, 4), (3, 0)):
        X = sp.random_array(shape, density=0.5, random_state=0).asformat(fmt)
        check_sparse(X)
    X = sp.csr_array(dense).asformat(fmt)
    check_sparse(X)
    np.testing.assert_array_equal(X.toarray(), dense)
    check_sparse(dense)
    check_sparse([[1.0]])


@pytest.mark.parametrize("fmt", ["csr", "csc", "bsr"])
@pytest.mark.parametrize(
    ("array", "at", "value"),
    [
        ("indices", 0, 10**6),
        ("indices", -1, -1),
        ("indptr", 0, 1),
        ("indptr", 1, 10**6),
        ("indptr", -1, 10**6),
    ],
)
def test_compressed_matrices_that_point_outside(fmt, array, at, value):
    X = sp.csr_matrix(np.eye(4)).asformat(fmt)
    getattr(X, array)[at] = value
    with pytest.raises(ValueError, match=rf"Z is a malformed {fmt.upper()} matrix"):
        check_sparse(X, "Z")


def test_coordinates_that_point_outside():
    for index, value in ((0, -1), (1, 4)):
        X = sp.coo_matrix(np.eye(4))
        (X.row, X.col)[index][2] = value
        with pytest.raises(ValueError, match="X is a malformed COO matrix"):
            check_sparse(X)


def lil(rows, data):
    X = sp.lil_matrix(np.eye(4))
    X.rows[: len(rows)] = rows
    X.data[: len(data)] = data
    return X


def dia(data, offsets):
    X = sp.dia_matrix((np.ones((2, 4)), [0, 1]), shape=(4, 4))
    X.data, X.offsets = np.asarray(data), np.asarray(offsets)
    return X


def dok(key):
    X = sp.dok_matrix(np.eye(4))
    X._dict[key] = 1.0
    return X


def replaced(fmt, **arrays):
    X = sp.csr_matrix(np.eye(4)).asformat(fmt)
    for name, array in arrays.items():
        setattr(X, name, array)
    return X


MALFORMED = {
    "lil column beyond": lil([[10**8]], [[1.0]]),
    "lil column negative": lil([[-1]], [[1.0]]),
    "lil column of 200 bits": lil([[1 << 200]], [[1.0]]),
    "lil lengths differ": lil([[0, 1]], [[1.0]]),
    "lil rows no lists": lil([(0,)], [(1.0,)]),
    "lil rows None": lil([None], [[1.0]]),
    "dia too few offsets": dia(np.ones((2, 4)), [0]),
    "dia data of one axis": dia(np.ones(4), [0]),
    "dia smallest offset": dia(np.ones((2, 4)), [np.iinfo(np.int64).min, 0]),
    "dia largest offset": dia(np.ones((2, 4)), [np.iinfo(np.int32).max - 3, 0]),
    "dok row beyond": dok((4, 0)),
    "dok column negative": dok((0, -1)),
    "dok key no integers": dok(("a", "b")),
    "csr data shorter": replaced("csr", data=np.ones(3)),
    "csr indices shorter": replaced("csr", indices=np.arange(3, dtype=np.int32)),
    "csr indices no integers": replaced("csr", indices=np.arange(4.0)),
    "csr indices a list": replaced("csr", indices=[0, 1, 2, 3]),
    "csr indices None": replaced("csr", indices=None),
    "csr indptr no integers": replaced("csr", indptr=np.arange(5.0)),
    "csr data of two axes": replaced("csr", data=np.ones((4, 2))),
    "csr without a shape": replaced("csr", _shape=None),
    "bsr blocks of another size": replaced("bsr", data=np.ones((4, 3, 3))),
    "bsr blocks of size 0": replaced("bsr", data=np.ones((4, 0, 1))),
    "bsr data of one axis": replaced("bsr", data=np.ones(4)),
    "coo data shorter": replaced("coo", data=np.ones(3)),
    "coo three axes": replaced("coo", coords=(np.arange(4),) * 3),
    "coo no integers": replaced("coo", coords=(np.arange(4.0),) * 2),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_arrays_that_disagree(case):
    X = MALFORMED[case]
    with pytest.raises(ValueError, match="^Z "):
        check_sparse(X, "Z")


def test_one_axis_is_refused():
    with pytest.raises(ValueError, match="X must have 2 dimensions"):
        check_sparse(sp.coo_array(np.ones(3)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_range_leaves_room_for_sums(dtype, make):
    largest = np.finfo(dtype).max
    for sign in (1, -1):
        X = make(np.array([[sign * 9e-5 * float(largest) ** 0.5, 0.0]], dtype=dtype))
        check_squares(X)
        data = X.data if sp.issparse(X) else X.ravel()
        # a hundred million such squares are finite
        assert np.isfinite(dtype(1e8) * np.sum(data * data, dtype=dtype))
        with pytest.raises(ValueError, match="StandardScaler"):
            check_squares(X * dtype(2))
    check_squares(make(np.zeros((0, 3), dtype=dtype)))


def test_range_of_a_wider_type():
    X = np.array([[1e30]], dtype=np.float32)
    check_squares(X, np.float64)
    with pytest.raises(ValueError, match="float32"):
        check_squares(X)


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        ("(0, 1]", [1e-9, 0.5, 1, np.float32(1.0)], [0, -1, 1.1, np.inf, np.nan]),
        ("[0, inf)", [0, 0.0, 1e300], [-1e-300, np.inf, np.nan]),
        ("[0, 1)", [0, np.nextafter(1, 0)], [1, 1.0]),
        ("(1, inf]", [np.inf, 2], [1, -np.inf]),
    ],
)
def test_intervals(interval, inside, outside):
    for value in inside:
        check_real("p", value, interval)
    check_reals("p", np.array(inside), interval)
    for value in [*outside, True, "1", None, 1j, [1.0]]:
        with pytest.raises(ValueError, match=r"^p must be a number in [([].*, got "):
            check_real("p", value, interval)
    for value in outside:
        mixed = np.array([inside[0], value], dtype=float)
        with pytest.raises(ValueError, match=r"^p must hold .*, got p\[1\] = "):
            check_reals("p", mixed, interval)
        with pytest.raises(ValueError, match=r"^p must hold numbers in .*, got [^p]*$"):
            check_reals("p", mixed[1:], interval)


def test_counts_and_choices():
    assert check_count("n", np.int8(3), 1, 3) == 3
    assert check_count("n", 2**63 - 1, 1) == 2**63 - 1
    with pytest.raises(ValueError, match="must be at most"):
        check_count("n", 2**63, 1)
    for value in (0, 4, 2.0, True, None):
        with pytest.raises(ValueError, match="^n must be an integer from 1 to 3, got "):
            check_count("n", value, 1, 3)
    check_choice("unit", "bits", {"bits": 2, "nats": 3})
    for value in ("bit", None, ["bits"], {}):
        with pytest.raises(ValueError, match="^unit must be one of bits, nats, got "):
            check_choice("unit", value, {"bits": 2, "nats": 3})


def test_rows_beyond_the_memory():
    check_rows(1000, 1000)
    check_rows(0, 10**18)
    for n_rows, n_classes in ((10**9, 10**9), (1, 10**18), (10**18, 1)):
        with pytest.raises(MemoryError, match=f"the matrix of {n_rows} rows"):
            check_rows(n_rows, n_classes)


def test_generators_are_sources_of_random_numbers_of_methods():
    from sklstruct.datasets import make_sparse_classes
    from sklstruct.hmm import HighOrderHMM, KeypadChannel
    from sklstruct.mixture import MixtureLM
    from sklstruct.smoothing import WittenBellLM

    X, y = np.arange(40)[:, None] % 4, np.arange(40) % 3
    mixture = MixtureLM([("wb", WittenBellLM())]).fit(X, y)
    words = [["a", "b", "a"], ["b", "a"]] * 5
    tags = [["xyz"[(i + j) % 3] for j in range(len(s))] for i, s in enumerate(words)]
    hmm = HighOrderHMM(order=2).fit(words, tags)
    for draw in (
        lambda r: mixture.sample(X, random_state=r).tolist(),
        lambda r: [s.tolist() for s in hmm.sample_posterior(words, 20, random_state=r)],
        lambda r: KeypadChannel(k=2).corrupt("sentence" * 9, random_state=r),
        lambda r: make_sparse_classes(30, 3, 20, random_state=r)[0].toarray().tolist(),
    ):
        a, b = np.random.default_rng(3), np.random.default_rng(3)
        first = draw(a)
        assert first == draw(b)
        assert [draw(a) for _ in range(3)] != [first] * 3  # the generator has moved on
        assert draw(5) == draw(np.random.RandomState(5))
        with pytest.raises(ValueError, match="random_state must be None, an integer"):
            draw("seed")


pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")
DAYS = np.tile(np.array(["2020-01-03", "2020-01-01", "2020-01-02"], "M8[D]"), 4)
CLASSIFIERS = [
    LogisticRegression(),
    LinearClassifier(),
    HierarchicalClassifier(),
    HierarchicalClassifier("ward", max_leaf=1),
    StructuredLogisticRegression(),
    TextClassifier(features="letters"),
    KneserNeyLM(),
    StructuredLogLinearLM(),
]


def samples_of(model):
    numbers = np.arange(12) % 3
    if isinstance(model, TextClassifier):
        return [["ab", "cd", "ef"][i] for i in numbers]
    if isinstance(model, (KneserNeyLM, StructuredLogLinearLM)):
        return numbers[:, None]
    return np.eye(3)[numbers]


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_dates_of_numpy_are_classes(model):
    """Of every unit, as for LogisticRegression; also where Python has no such date."""
    X = samples_of(model)
    for y in (DAYS, DAYS.astype("M8[ns]"), pd.Series(DAYS), DAYS - DAYS[0]):
        found = model.fit(X, y).predict(X)
        assert found.dtype == model.classes_.dtype == np.asarray(y).dtype
        np.testing.assert_array_equal(found, y)
        assert model.score(X, y) == 1.0
        if hasattr(model, "target_log_proba"):
            log_proba = model.target_log_proba(X, y)
            numbers = np.searchsorted(model.classes_, y)
            expected = np.log(model.predict_proba(X))[np.arange(12), numbers]
            np.testing.assert_allclose(log_proba, expected, rtol=1e-12)


def test_dates_are_not_words_of_contexts():
    X = samples_of(KneserNeyLM())
    with pytest.raises(TypeError, match="one has numbers and the other dates"):
        FactoredLM().fit(X, DAYS)
    with pytest.raises(TypeError, match=r"symbols of dtype datetime64.* not supported"):
        KneserNeyLM().fit(DAYS[:, None], DAYS)


@pytest.mark.parametrize("model", CLASSIFIERS[1:])
def test_labels_that_are_refused(model):
    """In the same words by every classifier, for lists, arrays and columns."""
    X, names, numbers = samples_of(model), ["b", "a", "c"] * 4, [2.0, 0.0, 1.0] * 4
    mixed = [*names[:-1], 1]
    for y in (mixed, tuple(mixed), np.array(mixed, dtype=object)):
        with pytest.raises(TypeError, match=r"of y must be uniform.*\['int', 'str'\]"):
            model.fit(X, y)
    for y in (
        [*names[:5], np.nan, *names[6:]],
        np.array([*names[:5], None, *names[6:]], dtype=object),
        [*numbers[:5], np.nan, *numbers[6:]],
        np.array([*numbers[:5], np.nan, *numbers[6:]]),
        pd.array([*map(int, numbers[:5]), None, *map(int, numbers[6:])]),
    ):
        with pytest.raises(ValueError, match=r"^y\[5\] is missing .*; 1 of 12 labels"):
            model.fit(X, y)
    for kind, each in (("int", [3, 1, 2] * 4), ("bool", [True, False, True] * 4)):
        objects = np.array(each, dtype=object)
        for y in (objects, pd.Series(objects)):
            words = f"y of dtype object must hold strings, and holds {kind}: use y.as"
            with pytest.raises(ValueError, match=words):
                model.fit(X, y)
    for y in ([], names[:5], np.array(numbers[:5])):
        words = f"^X and y have inconsistent numbers of samples: 12 and {len(y)}$"
        with pytest.raises(ValueError, match=words):
            model.fit(X, y)


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_dates_as_objects_are_refused(model):
    X = samples_of(model)
    plain = isinstance(model, LogisticRegression)
    message = "^Unknown label type" if plain else "^y holds objects such as .* pass "
    zone = pd.DatetimeIndex(DAYS).tz_localize("UTC")
    for y in (DAYS.tolist(), DAYS.astype(object), list(pd.DatetimeIndex(DAYS)), zone):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y)
    if plain:
        return
    several = "several columns must hold 0 and 1|should be a 1d array"
    with pytest.raises(ValueError, match=several):
        model.fit(X, np.column_stack([DAYS, DAYS]))
    for unit in "D", "ns":
        y = DAYS.astype(f"M8[{unit}]")
        y[3] = "NaT"
        with pytest.raises(ValueError, match=r"^y\[3\] is missing \(NaT\): every"):
            model.fit(X, y)


@pytest.mark.parametrize(
    "model",
    [
        ConditionalRandomField(),
        SampleRankClassifier(random_state=0),
        HighOrderHMM(2),
    ],
)
def test_dates_are_labels_of_sequences(model):
    """Python's values, and NumPy's where Python has no such date: never integers."""
    X = [["a", "b"], ["b", "a"]]
    if not isinstance(model, HighOrderHMM):
        X = [[[name] for name in row] for row in X]
    for unit, kind in ("D", datetime.date), ("ns", np.datetime64):
        days = DAYS[:2].astype(f"M8[{unit}]")
        for y in ([days, days[::-1]], [list(days), list(days[::-1])]):
            found = model.fit(X, y).predict(X)
            assert all(isinstance(one, kind) for row in found for one in row)
            np.testing.assert_array_equal(np.array(list(found), days.dtype), y)
            assert model.score(X, y) == 1.0


WORD, MANY = "z" * 10**5, ["q"] * 10**5
NEGATIVE = [-1.0] * 10**5
WINDOWS, TARGET = np.array([["a"], ["b"]] * 9), ["a", "b"] * 9
LONG = {
    "features": lambda model: chain_graph(["a", "b"], [{"w": 1.0}] * 10**5),
    "max_distance": lambda model: chain_graph(
        ["a", "b"], np.ones((2, 1)), max_distance=MANY, keys="ab"
    ),
    "discount": lambda model: AbsoluteDiscountLM(discount=NEGATIVE).fit(
        WINDOWS, TARGET
    ),
    "min_count": lambda model: KneserNeyLM(min_count=NEGATIVE).fit(WINDOWS, TARGET),
    "weights": lambda model: MixtureLM(
        [("a", KneserNeyLM()), ("b", KneserNeyLM())], weights=MANY
    ).fit(WINDOWS, TARGET),
    "padding": lambda model: KneserNeyLM(padding=MANY).fit(WINDOWS, TARGET),
    "max_depth": lambda model: context_windows(["a b"], max_depth=MANY),
    "end": lambda model: Labels(["a"], end=WORD),
    "analyzer": lambda model: Labels(["a"], analyzer=WORD),
    "offsets": lambda model: ExchangeClustering(2, offsets=MANY).fit(["a b"]),
    "name": lambda model: named_estimator(WORD),
    "memory": lambda model: TextFile("a", memory=MANY),
    "random_state": lambda model: model.sample(random_state=MANY),
    "temperature": lambda model: model.sample(temperature=MANY),
    "state": lambda model: model.advance(WORD, "a"),
    "word of a state": lambda model: model.advance(model.begin(), MANY),
    "X of an unhashable word": lambda model: clone(model).fit([[MANY]]),
    "X of an unknown word": lambda model: model.perplexity([WORD]),
    "missing label of a taxonomy": lambda model: as_taxonomy(["a", "b"], [WORD, "b"]),
    "duplicate label of a taxonomy": lambda model: Taxonomy.from_nested([WORD, WORD]),
    "nested": lambda model: Taxonomy.from_nested(WORD),
    "p": lambda model: prox.prox_lp([1.0], 1.0, MANY),
    "positive": lambda model: prox.prox_l1([1.0], 1.0, positive=MANY),
    "stop_words": lambda model: NgramVectorizer(stop_words=[MANY]).fit(["a b"]),
    "sample_weight": lambda model: TextClassifier(min_df=1).fit(
        ["a", "b"], ["a", "b"], sample_weight=[WORD, WORD]
    ),
}


@pytest.fixture(scope="module")
def closed_model():
    model = LanguageModel(KneserNeyLM(discount=0.5), unknown=None, max_depth=1)
    return model.fit(["a b a", "b a"])


@pytest.mark.parametrize("case", LONG)
def test_messages_cut_long_values(case, closed_model):
    with pytest.raises((ValueError, TypeError), match=f"^{case.split()[0]}") as e:
        LONG[case](closed_model)
    assert len(str(e.value)) < 2000
