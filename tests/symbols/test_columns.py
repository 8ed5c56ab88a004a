"""Sentences in columns of pandas, polars and Arrow; X without sentences."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklstruct import LanguageModel
from sklstruct.smoothing import WittenBellLM
from sklstruct.symbols import Labels, number_sentences

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

STRINGS = ["the cat", "a dog ran"]
LISTS = [["the", "cat"], ["a", "dog", "ran"]]
COLUMNS = {
    "pandas objects": pd.Series(STRINGS, dtype=object),
    "pandas strings": pd.Series(STRINGS, dtype="string"),
    "pandas on Arrow": pd.Series(STRINGS, dtype=pd.ArrowDtype(pa.string())),
    "pandas categories": pd.Series(STRINGS, dtype="category"),
    "pandas index": pd.Index(STRINGS),
    "polars": pl.Series(STRINGS),
    "Arrow": pa.array(STRINGS),
    "Arrow in chunks": pa.chunked_array([STRINGS[:1], STRINGS[1:]]),
    "Arrow dictionary": pa.array(STRINGS).dictionary_encode(),
    "scalars of Arrow": list(pa.array(STRINGS)),
    "NumPy": np.array(STRINGS),
    "pandas lists": pd.Series(LISTS),
    "pandas lists on Arrow": pd.Series(
        LISTS, dtype=pd.ArrowDtype(pa.list_(pa.string()))
    ),
    "polars lists": pl.Series(LISTS),
    "Arrow lists": pa.array(LISTS),
    "Arrow large lists": pa.array(LISTS, pa.large_list(pa.large_string())),
    "Arrow lists in chunks": pa.chunked_array([LISTS[:1], LISTS[1:]]),
    "list scalars of Arrow": list(pa.array(LISTS)),
    "lists of scalars of Arrow": [list(pa.array(words)) for words in LISTS],
    "list of Arrow": [pa.array(words) for words in LISTS],
    "list of polars": [pl.Series(words) for words in LISTS],
    "list of pandas": [pd.Series(words) for words in LISTS],
    "list of NumPy": [np.array(words) for words in LISTS],
}


@pytest.mark.parametrize("X", COLUMNS.values(), ids=COLUMNS)
def test_columns_are_read_as_lists(X):
    got = number_sentences(X).sentences()
    assert got == LISTS
    assert {type(word) for sentence in got for word in sentence} == {str}
    model = LanguageModel(WittenBellLM(), max_depth=1)
    want = model.fit(LISTS).score_samples(LISTS)
    np.testing.assert_array_equal(model.fit(X).score_samples(X), want)


def test_a_column_like_that_of_datasets():
    class Column:
        """Rows as Python objects, and nothing else."""

        def __iter__(self):
            return iter(LISTS)

        def __len__(self):
            return len(LISTS)

    assert number_sentences(Column()).sentences() == LISTS


def test_labels_of_arrow():
    labels = Labels(pa.array(["a", "b"]), pa.chunked_array([["b"], ["a"]]))
    assert labels.classes.tolist() == ["a", "b"] and labels.symbols.tolist() == [
        "b",
        "a",
    ]
    assert labels.encode_targets(pa.array(["b", None, "c"])).tolist() == [1, -1, -1]


@pytest.mark.parametrize(
    "X, message",
    [
        ({"text": STRINGS}, "got a mapping: pass the list of its values"),
        ([{"text": "the cat"}], "sentence 0 .* got a mapping: pass one of its values"),
        ({"the cat"}, "not a set, which has no order: pass a list"),
        ([{"the", "cat"}], "sentence 0 is a set; pass a list in order"),
        (sp.csr_array([[1, 2]]), "not a sparse matrix: pass the words"),
        (pa.table({"text": STRINGS}), "not a data frame"),
        (pa.array(["the cat", None]), "sentence 1 .* got NoneType"),
        (pa.array([["the"], None]), "sentence 1 .* got NoneType"),
        (list(pa.array([["the"], None])), "sentence 1 .* got NoneType"),
        (pa.array([1, 2]), "sentence 0 .* got int"),
    ],
)
def test_values_that_do_not_hold_sentences(X, message):
    with pytest.raises(TypeError, match=message):
        LanguageModel(WittenBellLM()).fit(X)


def test_words_in_the_place_of_sentences():
    words = ["the", "cat", "sat"]
    with pytest.warns(UserWarning, match=r"X holds 3 strings of one word each"):
        LanguageModel(WittenBellLM()).fit(words)


@pytest.mark.filterwarnings("error::UserWarning")
def test_sentences_do_not_give_the_warning_of_single_words():
    number_sentences(["the", "cat", "sat down"]).sentences()
    number_sentences([["the"], ["cat"], ["sat"]]).sentences()
    number_sentences([["New York", "is", "big"], ["a", " ", "b"]]).sentences()


def test_sentences_in_the_place_of_words():
    n_best = [["the cat sat", "the cad sat"], ["he ran home"]]
    model = LanguageModel(WittenBellLM()).fit(["the cat sat", "he ran home"])
    with pytest.raises(ValueError, match="a list inside of X is one sentence"):
        model.score_samples(n_best)
