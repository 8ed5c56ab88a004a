"""Labels and the encoder against dictionaries."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest

from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import KneserNeyLM, WittenBellLM
from sklstruct.symbols import Labels, union_labels
from sklstruct.symbols._encoding import (
    SymbolIndex,
    encode,
    encode_labels,
    learn_symbols,
    pack_strings,
    plain,
    unpack_strings,
)
from sklstruct.symbols._sequences import items

BIG = 2**60
SYMBOLS = {
    "ids": np.arange(7),
    "dense": np.array([5, 3, 9, 4]),
    "sparse": np.array([10**9, -4, 7, 10**12]),
    "negative": np.array([-3, -1, -2], dtype=np.int8),
    "unsigned": np.array([2**64 - 1, 0, 5], dtype=np.uint64),
    "neighbours": BIG + np.arange(3),
    "far neighbours": np.array([BIG + 1, BIG, 3, -(2**62)]),
    "floats": np.array([0.5, -2.0, 1e300, 3.0]),
    "booleans": np.array([True, False]),
    "strings": np.array(["b", "a", "long word"]),
    "bytes": np.array([b"b", b"a"]),
    "objects": np.array(["b", "a", "c"], dtype=object),
    "mixed": np.array(["b", 1, ("t", 2)], dtype=object),
    "none": np.array([], dtype=np.int64),
}
VALUES = {
    "own": lambda s: s,
    "int64": lambda s: np.array([0, 3, 4, 5, 7, -1, -4, BIG, BIG + 1, 10**12]),
    "uint64": lambda s: np.array([0, 3, 5, BIG + 1, BIG + 2, 2**64 - 1], np.uint64),
    "int8": lambda s: np.array([-3, -2, 5, 9, 0, 1], dtype=np.int8),
    "float64": lambda s: np.array([0.0, 0.5, 3.0, 5.5, -2.0, 2.0**60, np.nan, np.inf]),
    "bool": lambda s: np.array([True, False]),
    "str": lambda s: np.array(["a", "b", "zz", ""]),
    "bytes": lambda s: np.array([b"a", b"z"]),
    "object": lambda s: np.array(["a", 1, None, ("t", 2), 3.0, np.nan, 5], object),
}


@pytest.mark.parametrize("symbols", SYMBOLS)
def test_encoder_is_a_dictionary(symbols):
    symbols = SYMBOLS[symbols]
    code = {s: i for i, s in enumerate(symbols.tolist())}

    def missing(v):
        return v is None or v != v

    for make, unknown in itertools.product(VALUES.values(), (-1, 1)):
        values = make(symbols)
        found = SymbolIndex(symbols).ids(values, unknown)
        assert found.dtype == np.int32
        assert found.tolist() == [
            -1 if missing(v) else code.get(v, unknown) for v in values.tolist()
        ]


def test_shape_is_kept_and_sliding_windows_stay_views():
    index = SymbolIndex(np.array([4, 5, 6]))
    X = np.array([[4, 9], [6, 5]])
    assert index.ids(X).tolist() == [[0, -1], [2, 1]]
    assert index.ids(X.T).tolist() == [[0, 2], [-1, 1]]
    windows = np.lib.stride_tricks.sliding_window_view(np.array([4, 5, 6, 4]), 2)
    ids = index.ids(windows)
    assert ids.tolist() == [[0, 1], [1, 2], [2, 0]] and ids.strides == (4, 4)


@pytest.mark.parametrize(
    ("values", "padding", "expected"),
    [
        (np.array([3, 1, 3]), None, [1, 3]),
        (np.array([3, -1, 3]), -1, [3]),
        (np.array([2**63 + 5, 2**63], np.uint64), None, [2**63, 2**63 + 5]),
        (np.array([-128, 127], np.int8), None, [-128, 127]),
        (np.array([0.5, np.nan]), np.nan, [0.5]),
        (np.array(["b", "", "a"]), "", ["a", "b"]),
        (np.array(["b", None, "a"], object), None, ["a", "b"]),
        (np.array([2, 1.5, True], object), None, [1, 1.5, 2]),
    ],
)
def test_learnt_symbols_are_sorted_and_without_padding(values, padding, expected):
    assert learn_symbols(values, padding).tolist() == expected


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a", 1], object),
        np.array(["a", np.nan], object),
        np.array([1.0, float("nan")], object),
        np.array(["a", None], object),
        np.array([[1], None], object),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
    ],
)
def test_symbols_that_do_not_go_together_are_refused(values):
    with pytest.raises(TypeError, match="the argument must be an array of"):
        learn_symbols(values, padding="x")


def test_labels_of_targets():
    code, classes = encode_labels(np.array(["b", "a", "b"]))
    assert code.tolist() == [1, 0, 1] and classes.tolist() == ["a", "b"]
    assert encode(np.array(["c", "a"]), classes).tolist() == [-1, 0]


@pytest.mark.parametrize("dtype", [np.uint64, object])
def test_large_integers_mean_the_same_in_every_type(dtype):
    X = np.array([[0], [1], [2]] * 3) + BIG
    y = np.array([0, 1, 2] * 3) + BIG
    model = KneserNeyLM(discount=0.5).fit(X, y)
    expected = model.target_log_proba(X, y)
    assert np.isfinite(expected).all()
    got = model.target_log_proba(X.astype(dtype), y.astype(dtype))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("odd", [float("nan"), None, 3])
def test_targets_of_mixed_kinds_are_refused_in_words(odd):
    y = np.array(["a", odd], dtype=object)
    with pytest.raises((TypeError, ValueError), match="symbols of y must|missing"):
        KneserNeyLM().fit([[0], [1]], y)


# ----------------------------------------------------------------------- labels


def test_tokens_number_symbols_first_then_the_other_classes():
    labels = Labels(
        ["a", "</s>", "b", "c"],
        ["^", "b", "a"],
        start="^",
        end="</s>",
        unknown="c",
    )
    assert (labels.n_classes, labels.n_symbols) == (4, 3)
    assert (labels.start_id, labels.end_id, labels.unknown_id) == (0, 1, 3)
    assert labels.symbol_of_class.tolist() == [2, -1, 1, -1]
    assert labels.token_of_class.tolist() == [2, 3, 1, 4]
    assert labels.class_of_token.tolist() == [-1, 2, 0, 1, 3, -2]
    assert labels.token_code == {"^": 0, "b": 1, "a": 2, "</s>": 3, "c": 4}
    for token, name in enumerate(["^", "b", "a", "</s>", "c"]):
        assert labels.token_code[name] == token


def test_ids_that_are_labels():
    labels = Labels.of_ids(3, 4)
    assert labels.encode_contexts([[3, 0, 9]]).tolist() == [[3, 0, -1]]
    assert labels.class_of_token.tolist() == [0, 1, 2, -1, -2]
    alone = Labels.of_ids(2)
    assert alone.n_symbols is None
    with pytest.raises(ValueError, match="symbols=None"):
        _ = alone.class_of_token


@pytest.mark.parametrize(
    "make",
    [list, tuple, np.array, pd.Series, lambda v: np.array(v, dtype=object), iter],
)
def test_any_iterable_of_labels(make):
    labels = Labels(make(["a", "b"]), make(["b", "x"]))
    assert labels == Labels(["a", "b"], ["b", "x"])
    assert labels.encode_targets(["b", None, "q"]).tolist() == [1, -1, -1]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((["a", "a"],), {}, "classes holds 'a' twice"),
        ((["a"], [1, 1]), {}, "symbols holds 1 twice"),
        (([["a"]],), {}, "classes must be hashable"),
        ((np.array([["a"]]),), {}, "classes must be 1-dimensional"),
        ((["a"], ["a"]), {"start": "a"}, "start='a' is one of classes"),
        ((["a"], ["a"]), {"end": "b"}, "end='b' is not one of classes"),
        ((["a"], ["a"]), {"start": True}, "start=True is not one of symbols"),
        ((["a"], ["a"]), {"start": "b"}, "start='b' is not one of symbols"),
        ((["a"], ["a"]), {"unknown": 1.5}, "unknown=1.5 is neither one of classes"),
        ((["a"], ["a"]), {"unknown": []}, "unknown must be hashable"),
    ],
)
def test_bad_labels(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        Labels(*arguments, **options)


def test_equality_pickle_and_repr():
    labels = Labels(["a", "</s>"], ["a", "^"], start="^", end="</s>")
    data = pickle.dumps(labels)
    assert labels.token_code == {"a": 0, "^": 1, "</s>": 2}
    assert pickle.dumps(labels) == data  # without the tables
    copy = pickle.loads(data)
    assert copy == labels and "token_code" not in vars(copy)
    assert labels != Labels(["a", "</s>"], ["a", "^"], start="^")
    assert labels != Labels(["a", "</s>"]) and labels != 3
    assert repr(labels) == ("Labels(n_classes=2, n_symbols=2, start='^', end='</s>')")


def test_end_may_be_the_first_class():
    labels = Labels(["</s>", "a"], ["a"], end="</s>")
    assert labels.class_id("</s>") == 0 and labels.end_id == 0


@pytest.mark.parametrize("words", [["a", "bc"], ["ä", "", "a😀b", "日本"], []])
def test_packed_strings(words):
    data, ends = pack_strings(words)
    assert unpack_strings("words", (data, ends)).tolist() == words
    for at in range(len(ends)):
        inside = ends.copy()
        inside[at] -= 1
        if inside[at] >= 0 and data[inside[at]] & 0xC0 == 0x80:
            with pytest.raises(ValueError, match="not those of characters"):
                unpack_strings("words", (data, inside))


@pytest.mark.parametrize("ends", [[2, 1], [1, -1], [-1], [4]])
def test_ends_of_packed_strings_rise(ends):
    """Ends that fall gave empty strings."""
    with pytest.raises(ValueError, match="the ends of words"):
        unpack_strings("words", (np.frombuffer(b"abc", np.uint8), np.array(ends)))


def test_items_of_a_list_are_plain():
    values = [np.int64(3), np.float32(0.5), np.bool_(True), np.str_("a"), "b", 7, None]
    for found, value in zip(items(values), values, strict=True):
        assert found == plain(value) and type(found) is type(plain(value))


def test_bytes_behind_the_last_packed_string_are_text():
    data, ends = np.frombuffer(b"abc\xff", np.uint8), np.array([3])
    assert unpack_strings("words", (data[:3], ends)).tolist() == ["abc"]
    with pytest.raises(ValueError, match="the text is not UTF-8"):
        unpack_strings("words", (data, ends))


def test_symbols_of_objects_are_those_of_arrays():
    """Numbers get a number's type, and strings keep what an array of strings drops."""
    numbers = np.array([3, 1, 3, 2])
    learnt = learn_symbols(numbers.astype(object))
    assert learnt.dtype == learn_symbols(numbers).dtype
    np.testing.assert_array_equal(learnt, [1, 2, 3])
    strings = np.array(["a\0", "b", "a", "b"], dtype=object)
    assert learn_symbols(strings).tolist() == ["a", "a\0", "b"]


@pytest.mark.parametrize("end", [None, "</s>"])
@pytest.mark.parametrize("unknown", [None, "<unk>"])
def test_union_of_labels(end, unknown):
    """Words in order, then the marks that are classes; the start is a symbol alone."""

    def labels(words):
        marks = [mark for mark in (unknown, end) if mark is not None]
        classes = np.array([*words, *marks], dtype=object)
        symbols = np.array([*classes, "<s>"], dtype=object)
        return Labels(classes, symbols, start="<s>", end=end, unknown=unknown)

    a, b = labels(["a", "c"]), labels(["b", "c"])
    assert union_labels([a, a]) is a
    assert union_labels([a, b]) == union_labels([b, a]) == labels(["a", "b", "c"])


@pytest.mark.parametrize("word", [None, np.nan])
def test_a_missing_word_is_not_in_a_vocabulary(word):
    model = LanguageModel(WittenBellLM(), vocabulary=["a", word])
    with pytest.raises(ValueError, match=f"vocabulary holds {word}, which is not a w"):
        model.fit(["a b"])


def test_dates_of_other_units_are_the_same_labels():
    days = np.array(["2020-01-02", "2020-01-01"], dtype="datetime64[D]")
    times = np.array(["2020-01-01T00", "2020-01-01T01", "NaT"], dtype="datetime64[ns]")
    assert encode(times, days).tolist() == [1, -1, -1]
    assert encode(days[:, np.newaxis], times).tolist() == [[-1], [0]]
