"""NgramVectorizer: the matrix of scikit-learn, in blocks and threads; bad input."""

import gc
import pickle
import random
import re
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from _texts import PLANES
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline

from sklstruct.linear import ngram_parents
from sklstruct.text import (
    NgramVectorizer,
    TextClassifier,
    _ngrams,
    _reading,
    _texts,
    _vectorizer,
)
from sklstruct.text._ngrams import Columns, NgramTrie, side_by_side
from sklstruct.text._reading import Reader, Words
from sklstruct.text._texts import as_texts
from sklstruct.text._vectorizer import parts_of, rows_of

# Letters of one, two and four bytes, letters whose lower case is longer or depends on
# the place, combining marks, and what only Unicode takes for a space.
LETTERS = "aAbB  \n\t éÉß İΣς 中文_1٣\u2003\U0001f600\u0301'-.\x1c\x85\0\ud800"
TEXTS = ["to be or not to be", "That is the question!", "", "to see, or not", "be it"]


def draw_text(rng):
    n = rng.choice([0, 1, 2, 5, 20, 60])
    return "".join(rng.choice(LETTERS) for _ in range(n))


def draw_parameters(rng):
    shortest = rng.randint(1, 3)
    given = {
        "analyzer": rng.choice(["char", "char_wb", "word"]),
        "ngram_range": (shortest, shortest + rng.randint(0, 3)),
        "lowercase": rng.random() < 0.7,
        "min_df": rng.choice([1, 1, 2, 0.1, 0.3]),
        "max_df": rng.choice([1.0, 1.0, 0.6, 5]),
        "max_features": rng.choice([None, None, 5, 50]),
        "sublinear_tf": rng.random() < 0.5,
        "norm": rng.choice(["l2", "l1", None]),
        "use_idf": rng.random() < 0.7,
    }
    if given["analyzer"] == "word" and rng.random() < 0.4:
        given["stop_words"] = rng.sample(["aa", "ab", "a中", "中文", "ba_", "a'b"], 2)
    if rng.random() < 0.15:
        terms = {draw_text(rng)[:4] for _ in range(20)} - {""}
        terms = sorted(terms | {"aa ab", "aa", "ab", "a", "a ", " a"})
        rng.shuffle(terms)
        given["vocabulary"] = terms
    return given


def sorted_rows(matrix):
    matrix = sp.csr_array(matrix)
    matrix.sort_indices()
    return matrix


def check_equal(ours, theirs, rtol=1e-15):
    theirs = sorted_rows(theirs)
    assert ours.shape == theirs.shape and ours.has_sorted_indices
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_allclose(ours.data, theirs.data, rtol=rtol, atol=0)


def attempt(vectorizer, texts):
    try:
        return vectorizer.fit_transform(texts)
    except ValueError:
        return None


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed, repeats", [(0, 25), (1, 100), (2, 100), (3, 100)])
def test_the_matrix_is_that_of_scikit_learn(monkeypatch, seed, repeats):
    rng = random.Random(seed)
    compared = 0
    for _ in range(repeats):
        texts = [draw_text(rng) for _ in range(rng.choice([1, 3, 12, 40]))]
        new = [draw_text(rng) for _ in range(10)]
        given = draw_parameters(rng)
        # Words of all blocks are numbered, or of large blocks only.
        monkeypatch.setattr(_reading, "_FEW", rng.choice([0, 1 << 12]))
        theirs, ours = TfidfVectorizer(**given), NgramVectorizer(**given)
        expected, found = attempt(theirs, texts), attempt(ours, texts)
        assert (expected is None) == (found is None), given
        if found is None:
            continue
        compared += 1
        names = theirs.get_feature_names_out().tolist()
        assert ours.get_feature_names_out().tolist() == names
        assert ours.vocabulary_ == {name: j for j, name in enumerate(names)}
        # scikit-learn divides the rows of fit_transform before it sorts them, so that
        # their sums are rounded otherwise than in transform.
        check_equal(found, expected, rtol=4e-15)
        check_equal(found, theirs.transform(texts))
        check_equal(ours.transform(new), theirs.transform(new))
        check_equal(clone(ours).fit(texts).transform(new), theirs.transform(new))
        if given["use_idf"]:
            np.testing.assert_array_equal(ours.idf_, theirs.idf_)
    assert compared > repeats / 2


@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
def test_counts_are_whole_numbers_equal_to_theirs(analyzer):
    given = {
        "analyzer": analyzer,
        "ngram_range": (1, 2),
        "use_idf": False,
        "norm": None,
    }
    found = NgramVectorizer(**given).fit_transform(TEXTS)
    check_equal(found, TfidfVectorizer(**given).fit_transform(TEXTS), rtol=0)


def long_texts(n=400):
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghij", k=3)) for _ in range(900)]
    return [" ".join(rng.choices(words, k=rng.randint(0, 30))) for _ in range(n)]


@pytest.mark.parametrize(
    "analyzer, n", [("word", 100), ("word", 400), ("char", 400), ("char_wb", 400)]
)
def test_blocks_and_threads_do_not_change_the_rows(analyzer, n, monkeypatch):
    texts = long_texts(n)
    given = {"analyzer": analyzer, "ngram_range": (1, 3), "min_df": 2}
    expected = TfidfVectorizer(**given).fit(texts).transform(texts)
    whole = NgramVectorizer(**given).fit_transform(texts)
    check_equal(whole, expected)
    monkeypatch.setattr(_texts, "_BLOCK", 50)
    monkeypatch.setattr(_ngrams, "_ROOTS", 100)
    monkeypatch.setattr(_reading, "_FEW", 0)
    for n_jobs in (1, 3):
        vectorizer = NgramVectorizer(**given, n_jobs=n_jobs).fit(texts)
        for found in (
            vectorizer.transform(texts),
            clone(vectorizer).fit_transform(texts),
        ):
            check_equal(found, expected)
            np.testing.assert_array_equal(found.data, whole.data)


def test_more_columns_than_one_word_of_the_top_level_marks():
    terms = [f"w{i}" for i in range(300_000)]
    rng = np.random.default_rng(0)
    texts = [
        " ".join(row) for row in np.take(terms, rng.integers(len(terms), size=(20, 50)))
    ]
    given = {"vocabulary": terms[::-1], "use_idf": False}
    found = NgramVectorizer(**given).fit_transform(texts)
    check_equal(found, TfidfVectorizer(**given).fit_transform(texts))


@pytest.mark.parametrize("plane", PLANES, ids=["first", "other"])
def test_letters_are_those_of_python(plane):
    lower, letters = _reading._lower(), list(map(chr, plane))
    by_text = {letter.decode() for letter in _reading._BY_TEXT}
    expected = [letter.lower() for letter in letters]
    # Lower case stays as it is when it is read again.
    again = np.array(list({ord(c) for c in "".join(expected)}))
    np.testing.assert_array_equal(lower[again], again)
    for letter, found, one in zip(
        letters, lower[plane.start : plane.stop].tolist(), expected, strict=True
    ):
        assert chr(found) == one or letter in by_text
    classes = _reading._classes()[plane.start : plane.stop]
    text = "".join(letters)
    for bit, pattern in ((_reading.WORD, r"\w"), (_reading.SPACE, r"\s")):
        found = [ord(letter) for letter in re.findall(pattern, text)]
        np.testing.assert_array_equal(
            np.flatnonzero(classes & bit) + plane.start, found
        )


def test_the_letters_of_a_repeated_word_are_read_once(monkeypatch):
    monkeypatch.setattr(_reading, "_FEW", 0)
    reader = Reader("char_wb", 1, 2, True, None)
    texts = as_texts(["To be, or", "", "be, TO be,\u2003a\0 a", "a a\0\0"])
    symbols, ends, numbers, text_ends = reader.read(texts)
    found = "".join(map(chr, symbols))
    words = [found[a:b] for a, b in zip([0, *ends], ends)]
    assert words == [" to ", " be, ", " or ", " a\0 ", " a ", " a\0\0 "]
    assert numbers.tolist() == [1, 2, 3, 2, 1, 2, 4, 5, 5, 6]
    assert text_ends.tolist() == [3, 3, 8, 10]


def test_long_runs_of_ascii_end_at_spaces(monkeypatch):
    # Eight bytes at a time: all letters of ASCII, at all places.
    monkeypatch.setattr(_reading, "_FEW", 0)
    letters = [chr(i) for i in range(128)]
    texts = ["abcdefghijk"[:i] + c + "Wxyz{|}~\x7f" for c in letters for i in range(10)]
    given = {"analyzer": "char_wb", "ngram_range": (1, 3)}
    expected = TfidfVectorizer(**given).fit(texts).transform(texts)
    check_equal(NgramVectorizer(**given).fit_transform(texts), expected)


@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
def test_values_of_large_counts(analyzer):
    texts = [" ".join(["ab"] * n + ["c d"]) for n in (1, 2, 3, 14, 15, 16, 17, 300)]
    for given in ({}, {"sublinear_tf": True}):
        given = {"analyzer": analyzer, "ngram_range": (1, 2), **given}
        expected = TfidfVectorizer(**given).fit(texts).transform(texts)
        check_equal(NgramVectorizer(**given).fit_transform(texts), expected)


def test_values_of_float32_are_the_rounded_ones():
    given = {"ngram_range": (1, 2), "sublinear_tf": True}
    exact = NgramVectorizer(**given).fit_transform(TEXTS)
    vectorizer = NgramVectorizer(**given)
    vectorizer._dtype = "float32"
    found = vectorizer.fit_transform(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.toarray(), exact.toarray(), rtol=2e-7)


@pytest.mark.parametrize("drop", ["last", "first"])
@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
def test_the_tree_of_the_ngrams(analyzer, drop):
    given = {"analyzer": analyzer, "ngram_range": (1, 3)}
    ours = ngram_parents(NgramVectorizer(**given).fit(TEXTS), drop)
    theirs = ngram_parents(TfidfVectorizer(**given).fit(TEXTS), drop)
    np.testing.assert_array_equal(ours, theirs)
    assert ours.max() >= 0


@pytest.mark.parametrize("kind", ["array", "strings", "series", "arrow", "polars"])
def test_containers_of_texts(kind):
    expected = NgramVectorizer().fit_transform(TEXTS)
    if kind == "array":
        given = np.array(TEXTS, dtype=object)
    elif kind == "strings":
        given = np.array(TEXTS)
    elif kind == "series":
        given = pytest.importorskip("pandas").Series(TEXTS, index=list("edcba"))
    elif kind == "arrow":
        given = pytest.importorskip("pyarrow").chunked_array([TEXTS[:2], TEXTS[2:]])
    else:
        given = pytest.importorskip("polars").Series(TEXTS)
    check_equal(NgramVectorizer().fit_transform(given), expected, rtol=0)
    generator = (np.str_(text) for text in TEXTS)
    check_equal(NgramVectorizer().fit_transform(generator), expected, rtol=0)


ODD_TEXTS = [
    "", "straße ÄÖ", "ΟΔΟΣ οδος", "İstanbul", "Ⱥⱦ Kelvin K", "x" * 12, "y" * 13,
    "𐐀𐐨 mixed", "word_1 a2b", "a\0b nul", "sixteen_letters_ and_seventeen_let",
]  # fmt: skip


@pytest.mark.parametrize(
    "kind, analyzer",
    [("string", "word"), ("large_string", "char"), ("string_view", "char_wb")],
)
def test_buffers_of_arrow_give_the_rows_of_lists(kind, analyzer, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    vectorizer = NgramVectorizer(analyzer=analyzer, ngram_range=(1, 2))
    expected = vectorizer.fit_transform(ODD_TEXTS)
    whole = pa.array(["before", *ODD_TEXTS, "after"], type=getattr(pa, kind)())
    array = whole.slice(1, len(ODD_TEXTS))
    chunks = pa.chunked_array([array.slice(0, 3), array.slice(3, 0), array.slice(3)])
    monkeypatch.setattr(_texts, "plain_list", None)  # nothing else is read
    for block in (1 << 17, 8):
        monkeypatch.setattr(_texts, "_BLOCK", block)
        for given in (array, chunks):
            check_equal(vectorizer.fit_transform(given), expected, rtol=0)
            check_equal(vectorizer.transform(given), expected, rtol=0)


def test_columns_of_polars_and_pandas_are_read_from_their_buffers(monkeypatch):
    pytest.importorskip("pyarrow")
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    expected = NgramVectorizer().fit_transform(ODD_TEXTS)
    array = pd.array(ODD_TEXTS, dtype="string[pyarrow]")
    columns = [pl.Series(ODD_TEXTS), pd.Series(array), array]
    monkeypatch.setattr(_texts, "plain_list", None)
    for given in columns:
        check_equal(NgramVectorizer().fit_transform(given), expected, rtol=0)


def test_a_null_is_named_by_its_row():
    pa = pytest.importorskip("pyarrow")
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        array = pa.array(["null of", None, *"abcdefghij", None], type=kind)
        parts = pa.chunked_array([["a"], array.slice(2, 3), array.slice(10)], type=kind)
        for given, row in ((array, 1), (array.slice(2), 10), (parts, 6)):
            with pytest.raises(ValueError, match=rf'X\[{row}\] must .* null; use ""'):
                NgramVectorizer().fit(given)


def test_too_many_texts_are_refused(monkeypatch):
    pa = pytest.importorskip("pyarrow")
    monkeypatch.setattr(_texts, "INT32_MAX", 3)
    for texts in (["a cat"] * 3, pa.array(["a cat"] * 3)):
        NgramVectorizer().fit(texts[:2])
        with pytest.raises(ValueError, match="X must have fewer than 3 texts, got 3"):
            NgramVectorizer().fit(texts)


def test_other_columns_of_arrow():
    pa = pytest.importorskip("pyarrow")
    texts = ["a cat", "a dog", "a cat"]
    expected = NgramVectorizer().fit_transform(texts)
    coded = pa.array(texts).dictionary_encode()
    check_equal(NgramVectorizer().fit_transform(coded), expected, rtol=0)
    with pytest.raises(ValueError, match=r"X\[0\] must be a string, got int"):
        NgramVectorizer().fit(pa.array([1, 2]))
    with pytest.raises(ValueError, match="X holds no n-gram"):
        NgramVectorizer().fit(pa.array([], type=pa.string()))
    ends = pa.py_buffer(np.array([0, 5, 6, 6], dtype=np.int32))
    for bad in (b"a cat\xff", "a caé".encode()):
        given = pa.Array.from_buffers(pa.string(), 3, [None, ends, pa.py_buffer(bad)])
        with pytest.raises(ValueError, match="X holds a string that is not UTF-8"):
            NgramVectorizer().fit(given)


def words_of_one_hash():
    """Two words of 16 letters whose keys in the table of words are the same."""
    letters, mask = b"abcdefghijklmnopqrstuvwxyz0123456789_", (1 << 64) - 1
    pair_of = {a ^ b: (a, b) for a in letters for b in letters}
    rng = np.random.default_rng(0)
    seen: list = []
    while True:
        first = bytes(rng.choice(list(letters), 8).tolist())
        key = int.from_bytes(first, "little") * 0x9FB21C651E98DF25 & mask
        key ^= key >> 29
        for other, other_key in seen:
            # The key is a product whose last byte, and that of the word, do not count.
            change = (key ^ other_key).to_bytes(8, "little")[:7]
            if all(byte in pair_of for byte in change):
                ends = zip(*(pair_of[byte] for byte in change))
                return [
                    (a + bytes(b) + b"x").decode() for a, b in zip((first, other), ends)
                ]
        seen.append((first, key))


def test_words_of_one_hash_are_two_words():
    one, other = words_of_one_hash()
    vectorizer = NgramVectorizer(use_idf=False, norm=None).fit([one, f"{other} {one}"])
    assert vectorizer.get_feature_names_out().tolist() == sorted([one, other])
    found = vectorizer.transform([f"{other} {other} {one}", other]).toarray()
    order = np.argsort([one, other])
    np.testing.assert_array_equal(found, np.array([[1, 2], [0, 1]])[:, order])


def test_words_that_begin_alike_are_sorted():
    texts = ["international internationally internationale", "zz internati internat"]
    texts += ["intern\u00e4tional internation\u00e4l internationb \U00020000x12345678"]
    given = {"ngram_range": (1, 2)}
    found = NgramVectorizer(**given).fit(texts).get_feature_names_out()
    expected = TfidfVectorizer(**given).fit(texts).get_feature_names_out()
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("analyzer", ["word", "char", "char_wb"])
def test_threads_that_learn_do_not_change_the_columns(analyzer, monkeypatch):
    texts = long_texts() + ODD_TEXTS
    given = {"analyzer": analyzer, "ngram_range": (1, 3), "max_features": 500}
    if analyzer == "word":
        given["stop_words"] = [texts[1].split()[0]]
    monkeypatch.setattr(_texts, "_BLOCK", 100)
    one = NgramVectorizer(**given)
    expected = one.fit_transform(texts)
    for n_jobs in (2, 5):
        several = NgramVectorizer(**given, n_jobs=n_jobs)
        check_equal(several.fit_transform(texts), expected, rtol=0)
        assert several.vocabulary_ == one.vocabulary_
        np.testing.assert_array_equal(several.idf_, one.idf_)


BAD_TEXTS = [
    ("one text", "X must be a list of texts, got one str"),
    (b"one text", "X must be a list of texts, got one bytes"),
    (7, "X must be a list of texts, got int"),
    ({"a": 1}, "X must be a list of texts, got dict"),
    (["a", b"b"], r"X\[1\] must be a string, got bytes; use text.decode"),
    (["a", None], r'X\[1\] must be a string, got NoneType; use "" for a missing'),
    (["a", float("nan")], r'X\[1\] must be a string, got float; use "" for a missing'),
    ([["a", "b"]], r"X\[0\] must be a string, got list"),
    ([3], r"X\[0\] must be a string, got int"),
]


@pytest.mark.parametrize("X, message", BAD_TEXTS)
def test_bad_texts(X, message):
    fitted = NgramVectorizer().fit(TEXTS)
    for call in (
        NgramVectorizer().fit,
        NgramVectorizer().fit_transform,
        fitted.transform,
    ):
        with pytest.raises(ValueError, match=message):
            call(X)


BAD_PARAMETERS = [
    ({"analyzer": str.split}, "analyzer must .* got a callable; use sklearn.feature"),
    ({"analyzer": "letters"}, "The 'analyzer' parameter"),
    ({"ngram_range": (2, 1)}, r"ngram_range must be \(shortest, longest\)"),
    ({"ngram_range": (0, 1)}, r"ngram_range must be \(shortest, longest\)"),
    ({"ngram_range": (1, 2.5)}, r"ngram_range must be \(shortest, longest\)"),
    ({"ngram_range": (1,)}, r"ngram_range must be \(shortest, longest\)"),
    ({"stop_words": "french"}, "The 'stop_words' parameter"),
    ({"analyzer": "char", "stop_words": ["a"]}, 'stop_words needs analyzer="word"'),
    ({"stop_words": ["a", 7]}, "stop_words must hold strings"),
    ({"min_df": -1}, "The 'min_df' parameter"),
    ({"min_df": 0}, "The 'min_df' parameter"),
    ({"min_df": 9}, "min_df=9 and max_df=1.0: of 5 .* at least 9 and at most 5$"),
    (
        {"min_df": 4, "max_df": 2},
        "min_df=4 and max_df=2: of 5 .* at least 4 and at most 2",
    ),
    ({"min_df": 4}, "min_df=4 and max_df=1.0 leave no n-gram; lower"),
    ({"max_features": 0}, "The 'max_features' parameter"),
    ({"norm": "max"}, "The 'norm' parameter"),
    ({"vocabulary": "abc"}, "vocabulary must be a list of n-grams, got one string"),
    ({"vocabulary": []}, "vocabulary must hold at least one n-gram"),
    ({"vocabulary": ["a", "b", "a"]}, "vocabulary must hold each n-gram once, got 'a'"),
    ({"vocabulary": {"a": 0, "b": 2}}, "vocabulary must give each column from 0 to 1"),
    ({"vocabulary": ["a", 3]}, "vocabulary must hold strings only"),
    ({"vocabulary": 7}, "vocabulary must be a mapping or an iterable of strings"),
]


@pytest.mark.parametrize("given, message", BAD_PARAMETERS)
def test_bad_parameters(given, message):
    with pytest.raises(ValueError, match=message):
        NgramVectorizer(**given).fit(TEXTS)


@pytest.mark.parametrize("texts", [[], ["", " "], ["the", "a"]])
def test_no_ngram_left(texts):
    with pytest.raises(ValueError, match="X holds no n-gram of analyzer='word'"):
        NgramVectorizer(stop_words="english").fit(texts)


def test_odd_texts_have_rows():
    vectorizer = NgramVectorizer(analyzer="char", ngram_range=(1, 2)).fit(TEXTS)
    rows = vectorizer.transform(["", "\0", "\ud800", "zzz", "\0to"])
    np.testing.assert_array_equal(np.diff(rows.indptr)[:4], 0)
    assert rows.shape[0] == 5 and np.diff(rows.indptr)[4] == 3
    odd = ["a\0b", "\ud800\0"]
    names = vectorizer.fit(odd).get_feature_names_out().tolist()
    assert names == ["\0", "\0b", "a", "a\0", "b", "\ud800", "\ud800\0"]
    assert vectorizer.transform([]).shape == (0, len(names))


def test_a_vocabulary_as_mapping_or_set():
    given = NgramVectorizer(
        vocabulary={"not": 1, "be": 0, "to be": 2}, ngram_range=(1, 2)
    )
    assert given.fit(TEXTS).get_feature_names_out().tolist() == ["be", "not", "to be"]
    given.set_params(vocabulary={"not", "be"}, use_idf=False, norm=None)
    expected = [[2, 1], [0, 0], [0, 0], [0, 1], [1, 0]]
    np.testing.assert_array_equal(given.fit_transform(TEXTS).toarray(), expected)


@pytest.mark.parametrize("analyzer", ["word", "char"])
def test_damaged_pickles_are_refused(analyzer):
    vectorizer = NgramVectorizer(analyzer=analyzer, ngram_range=(1, 2)).fit(TEXTS)
    expected = vectorizer.transform(TEXTS)
    copy = pickle.loads(pickle.dumps(vectorizer))
    check_equal(copy.transform(TEXTS), expected, rtol=0)
    copy.idf_ = copy.idf_[:-1]
    with pytest.raises(ValueError, match="idf must have"):
        copy.transform(TEXTS)
    trie = vectorizer.trie_
    damaged = {
        "parent": [-1, *trie.parent[1:]],
        "column": trie.column + 1,
        "symbol": np.full_like(trie.symbol, 0x110000),
        "n_columns": 1,
    }
    for name, value in damaged.items():
        state = trie.__getstate__() | {name: value}
        with pytest.raises(ValueError, match="parent|column|symbol"):
            NgramTrie.__new__(NgramTrie).__setstate__(state)
    twins = NgramTrie.__new__(NgramTrie)
    twins.__setstate__(
        trie.__getstate__()
        | {"symbol": np.ones_like(trie.symbol), "parent": np.zeros_like(trie.parent)}
    )
    with pytest.raises(ValueError, match="symbol must differ"):
        twins.make_tables()


def test_damaged_words_are_refused():
    words = Words.of(["of", "the"], ["cat"])
    state = words.__getstate__()
    for ends in ([], [1, 2, 5, 8], [0, 2, 5], [0, 5, 2, 8]):
        with pytest.raises(ValueError, match="ends"):
            Words.__new__(Words).__setstate__(state | {"ends": ends})
    for wrong in (b"ofthe\xffat", b"of\x00hecat", b"ofthe\xc1\xa1t", b"of\xe2\x82ecat"):
        damaged = Words.__new__(Words)
        letters = np.frombuffer(wrong, np.uint8)
        damaged.__setstate__(state | {"letters": letters})
        for _ in range(2):
            with pytest.raises(ValueError, match="distinct words in UTF-8"):
                damaged.strings()
    twice = Words.of(["of"], ["cat", "of"])
    with pytest.raises(ValueError, match="distinct words"):
        twice.strings()


def test_in_a_search_over_a_pipeline():
    texts = ["the cat", "a cat", "my dog", "the dog"] * 5
    model = make_pipeline(NgramVectorizer(), LogisticRegression())
    grid = {"ngramvectorizer__ngram_range": [(1, 1), (1, 2)]}
    search = GridSearchCV(model, grid, cv=2).fit(texts, [0, 0, 1, 1] * 5)
    assert search.score(["cat cat", "dog dog"], [0, 1]) == 1.0


def test_an_ngram_range_longer_than_all_texts():
    given = {"analyzer": "char", "ngram_range": (2, 10**9)}
    found = NgramVectorizer(**given).fit_transform(["abc", "ab"])
    check_equal(
        found, TfidfVectorizer(**given).fit_transform(["abc", "ab"]), rtol=4e-15
    )


def test_terms_of_a_trie_have_the_columns_of_their_places():
    reader = Reader("word", 1, 2, True, Words.of(["the"]))
    trie = NgramTrie.of_terms(reader, ["cat sat", "the cat", "x", "cat"])
    assert trie.names() == ["cat sat", "", "", "cat"]
    assert trie.names(np.array([3, 1, 0])) == ["cat", "", "cat sat"]
    texts = as_texts(["the cat the sat"])
    data, columns, ends = side_by_side([Columns(trie, {})], texts, None)
    assert (columns.tolist(), data.tolist(), ends.tolist()) == ([0, 3], [1, 1], [0, 2])


def test_threads_may_read_words_while_the_table_of_words_is_made(monkeypatch):
    vectorizer = NgramVectorizer().fit(TEXTS)
    right = vectorizer.transform(TEXTS).toarray()
    vectorizer = pickle.loads(pickle.dumps(vectorizer))
    number_words, inner = _reading.number_words, []

    def kernel(*given):
        if not inner:  # as another thread that begins while the first word is entered
            inner.append(None)
            inner.append(vectorizer.transform(TEXTS).toarray())
        return number_words(*given)

    monkeypatch.setattr(_reading, "number_words", kernel)
    np.testing.assert_array_equal(vectorizer.transform(TEXTS).toarray(), right)
    np.testing.assert_array_equal(inner[1], right)
    assert vectorizer.get_feature_names_out().size == right.shape[1]


def test_a_thread_that_learns_ends_at_the_flag():
    reader, texts = Reader("char", 1, 2, True, None), as_texts(TEXTS)
    parts = [slice(i, i + 1) for i in range(len(TEXTS))]
    for stop, n in ((0, len(TEXTS)), (1, 0)):
        learner = _ngrams._Learner(reader, False, 0)
        learner.learn(texts, parts, True, np.array([stop], np.int32))
        assert len(learner.found) == n


def test_rows_after_the_flag_are_empty(monkeypatch):
    # Their ends are read although the rows are not used.
    trie = NgramVectorizer(analyzer="char").fit(TEXTS).trie_
    found = trie.found(as_texts(TEXTS), np.zeros(1, np.int32))
    fill_rows = _ngrams.fill_rows

    def kernel(*given):
        ends = given[-4]
        assert ends.size == len(TEXTS)
        ends[:] = -7  # as memory may hold
        fill_rows(*given)

    monkeypatch.setattr(_ngrams, "fill_rows", kernel)
    _, _, expected = trie.block_rows(found, np.zeros(1, np.int32))
    assert expected.min() > 0
    data, indices, ends = trie.block_rows(found, np.ones(1, np.int32))
    assert ends.tolist() == [0] * len(TEXTS)
    assert data.size == indices.size == 0


@pytest.mark.parametrize("n_jobs, n", [(1, 40), (1, 400), (3, 400)])
def test_columns_side_by_side_are_those_of_a_union(n_jobs, n, monkeypatch):
    monkeypatch.setattr(_texts, "_BLOCK", 50)
    monkeypatch.setattr(_ngrams, "_AT_ONCE", 2)
    texts = long_texts(n) + ODD_TEXTS
    union = FeatureUnion(
        [
            ("a", NgramVectorizer(ngram_range=(1, 2), n_jobs=n_jobs)),
            (
                "b",
                NgramVectorizer(analyzer="char_wb", use_idf=False, n_jobs=n_jobs),
            ),
        ],
        transformer_weights={"a": None, "b": 0.3},
    )
    expected = union.fit_transform(texts)
    for most in (0, 1 << 20):  # texts are read twice, and their symbols are kept
        monkeypatch.setattr(_vectorizer, "_MOST_KEPT", most)
        other = clone(union)
        for fit in (True, False):
            for dtype, rtol in (("float64", 0), ("float32", 2e-7)):
                for _, one in other.transformer_list:
                    one._dtype = dtype
                found = rows_of(other, as_texts(texts), fit=fit)
                assert found.dtype == dtype
                check_equal(found, expected, rtol=rtol)


def test_a_fit_leaves_the_rows_and_the_trie(monkeypatch):
    """The tables are larger than the trie, and no fit of a classifier reads them."""
    monkeypatch.setattr(_vectorizer, "_MOST_KEPT", 0)
    texts = as_texts([" ".join(map(str, range(i, i + 9))) for i in range(9000)])
    one = NgramVectorizer(ngram_range=(1, 2), min_df=2)
    rows_of(clone(one), texts, fit=True)
    tracemalloc.start()
    try:
        rows = rows_of(one, texts, fit=True)
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    left -= sum(a.nbytes for a in (rows.data, rows.indices, rows.indptr))
    trie = one.trie_
    arrays = trie.parent, trie.symbol, trie.column, one.idf_
    tables = sum(table.nbytes for table in trie.tables)
    assert left - sum(a.nbytes for a in arrays) < tables
    check_equal(one.transform(texts), rows, rtol=0)


def test_unions_that_are_wrong_are_not_taken_apart():
    one = NgramVectorizer()
    assert parts_of(FeatureUnion([("a", one), ("b", TfidfVectorizer())])) == {}
    twice = FeatureUnion([("a", one), ("a", one)])
    unknown = FeatureUnion([("a", one)], transformer_weights={"b": 1.0})
    joined, own = (FeatureUnion([(name, one)]) for name in ("a__b", "n_jobs"))
    wrong = {
        "not unique": twice, "not present in": unknown, "must not contain __": joined,
        "conflict with constructor": own,
    }  # fmt: skip
    for message, union in wrong.items():
        assert parts_of(union) == {}
        with pytest.raises(ValueError, match=message):
            TextClassifier(union).fit(["the cat", "a dog"] * 4, [0, 1] * 4)


class OwnList:
    """Has a list of texts, which it also gives away."""

    def __init__(self, texts):
        self.texts = texts

    def __iter__(self):
        return iter(self.texts)

    def tolist(self):
        return self.texts


class OtherEncode(str):
    """A string whose method `encode` returns something else."""

    __slots__ = ()

    def encode(self, *_):
        return None


def test_strings_belong_to_the_texts():
    plain = ["a \ud800 b", "é", "the cat"]

    class Listed(list):
        pass

    for kind in (list, Listed):
        given = OwnList(kind(map(OtherEncode, plain)))
        texts = as_texts(given)
        assert given.texts == plain  # no bytes in it
        given.texts.clear()
        gc.collect()
        assert list(texts) == plain
