"""SuffixTreeVectorizer and context_windows as scikit-learn's users meet them."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from _oracles import sparse_settings
from sklearn import config_context
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline, make_union

from sklstruct import SuffixTreeVectorizer
from sklstruct.context_tree import tree_of_paths
from sklstruct.smoothing import WittenBellLM
from sklstruct.symbols import context_windows
from sklstruct.word_classes import ContextRefiner

WORDS = np.array(
    [["", "the", "cat"], ["the", "cat", "sat"], ["", "", "the"], ["a", "big", "cat"]]
)


@pytest.mark.parametrize("setting", sparse_settings())
def test_sparse_interface(setting):
    kind = sp.sparray if "sparray" in setting.values() else sp.spmatrix
    with config_context(**setting):
        vectorizer = SuffixTreeVectorizer(padding="")
        for paths in (vectorizer.fit_transform(WORDS), vectorizer.transform(WORDS)):
            assert isinstance(paths, kind) and paths.format == "csr"


def test_rows_are_paths_of_readable_contexts():
    vectorizer = SuffixTreeVectorizer(max_depth=3, padding="")
    paths = vectorizer.fit_transform(WORDS)
    names = vectorizer.get_feature_names_out()
    rows = [[names[c] for c in np.sort(paths[[i]].indices)] for i in range(len(WORDS))]
    assert rows == [
        ["context=", "context=cat", "context=the cat"],
        ["context=", "context=sat", "context=cat sat", "context=the cat sat"],
        ["context=", "context=the"],
        ["context=", "context=cat", "context=big cat", "context=a big cat"],
    ]
    assert (paths.data == 1).all()
    unseen = np.array([["zebra", "the", "cat"], ["the", "zebra", "cat"], ["", "", "x"]])
    found = vectorizer.transform(unseen)
    assert [sorted(names[found[[i]].indices]) for i in range(3)] == [
        ["context=", "context=cat", "context=the cat"],
        ["context=", "context=cat"],
        ["context="],
    ]


def test_names_stay_unique_when_symbols_hold_blanks():
    X = np.array([["a b", "c"], ["a", "b c"], ["b", "c"]], dtype=object)
    names = SuffixTreeVectorizer().fit(X).get_feature_names_out()
    assert len(set(names)) == len(names)
    assert 'context="a b" "c"' in names


def test_collapsed_columns_count_the_suffixes_that_match():
    X = np.array([["a", "b", "c"], ["x", "y", "z"]])
    vectorizer = SuffixTreeVectorizer(max_depth=3, collapse=True).fit(X)
    assert vectorizer.get_feature_names_out().tolist() == [
        "context=",
        "context=a b c",
        "context=x y z",
    ]
    half = np.array(
        [["q", "b", "c"], ["b", "b", "c"], ["a", "b", "c"], ["c", "a", "b"]]
    )
    assert vectorizer.transform(half).toarray().tolist() == [
        [1, 2, 0],
        [1, 2, 0],
        [1, 3, 0],
        [1, 0, 0],
    ]


@pytest.mark.parametrize("collapse", [False, True])
def test_tree_is_read_back_from_the_matrix_alone(collapse):
    X = np.random.default_rng(0).integers(0, 4, size=(300, 6))
    vectorizer = SuffixTreeVectorizer(max_depth=6, collapse=collapse)
    paths = vectorizer.fit_transform(X)
    tree, terminal, column_to_node = tree_of_paths(paths)
    assert np.array_equal(tree.parent, vectorizer.tree_.parent)
    assert np.array_equal(tree.spans(), vectorizer.tree_.spans())
    assert np.array_equal(column_to_node, np.arange(paths.shape[1]))
    # A relabelling of the columns that keeps parents first gives the same tree.
    rng = np.random.default_rng(1)
    depth = vectorizer.tree_.levels()
    order = np.lexsort((rng.random(depth.size), depth))
    shuffled = paths[:, order].tocsr()
    shuffled.sort_indices()
    again, _, mapping = tree_of_paths(shuffled)
    assert np.array_equal(np.bincount(again.levels()), np.bincount(tree.levels()))
    assert sorted(mapping) == list(range(depth.size))


@pytest.mark.parametrize(
    "X, padding",
    [
        (np.array([[1, 2], [3, 1], [-1, 2]]), -1),
        (np.array([[1.5, 2], [3, 1.5], [np.nan, 2]]), np.nan),
        (np.array([["u", "v"], ["w", "u"], [None, "v"]], dtype=object), None),
        (np.array([[b"u", b"v"], [b"w", b"u"], [b"", b"v"]]), b""),
        (np.array([[True, False], [False, True]]), None),
        (pd.DataFrame({"older": ["u", "w", np.nan], "newer": ["v", "u", "v"]}), np.nan),
        (pd.DataFrame({"older": [1, 3, -1], "newer": [2, 1, 2]}), -1),
        (np.array([[1, 2], [3, 1], [7, 2]], dtype=object), 7),
        (np.array([[1, 200], [255, 1], [0, 2]], dtype=np.uint8), 0),
    ],
)
def test_symbols_of_every_dtype(X, padding):
    vectorizer = SuffixTreeVectorizer(padding=padding)
    fitted = vectorizer.fit_transform(X)
    assert (fitted != clone(vectorizer).fit(X).transform(X)).nnz == 0
    assert padding not in vectorizer.categories_.tolist()
    n_rows = 3 if len(X) == 3 else 2
    assert fitted.shape[0] == n_rows
    assert fitted[[n_rows - 1]].nnz == (2 if len(X) == 3 else 3)


def test_strings_keep_their_meaning_across_dtypes():
    fixed = np.array([["the", "cat"], ["a", "dog"]])
    vectorizer = SuffixTreeVectorizer().fit(fixed)
    as_objects = vectorizer.transform(fixed.astype(object))
    assert (as_objects != vectorizer.transform(fixed)).nnz == 0
    longer = np.array([["thence", "cat"]])  # wider dtype than in fit
    assert vectorizer.transform(longer).nnz == 2


@pytest.mark.parametrize(
    "X, error, words",
    [
        (np.array([[1.0, np.nan]]), ValueError, "NaN"),
        (np.array([[1.0, np.inf]]), ValueError, "infinity"),
        (np.array([["a", 1], [2, "b"]], dtype=object), TypeError, "uniform"),
        (np.array([[{"a": 1}, "b"]], dtype=object), TypeError, "string or.*number"),
        (np.array([[1 + 2j, 0]]), ValueError, "Complex"),
        (np.ma.array([[1, 2]], mask=[[0, 1]]), ValueError, "X is masked: put"),
        (np.array(["a", "b"]), ValueError, "2D array"),
        ([["a"], ["a\0"]], ValueError, "X: 'a.x00' ends with NUL"),
        ([["a"], ["a", "b"]], ValueError, "X holds rows of several lengths: fill"),
        (np.empty((0, 2)), ValueError, "0 sample"),
        (np.empty((2, 0)), ValueError, "0 feature"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), TypeError, "datetime"),
        (sp.csr_array(np.eye(2)), TypeError, "[Ss]parse"),
    ],
)
def test_bad_input(X, error, words):
    with pytest.raises(error, match=words):
        SuffixTreeVectorizer().fit(X)


@pytest.mark.parametrize(
    "model", [SuffixTreeVectorizer(), WittenBellLM(), ContextRefiner("w(1)")]
)
def test_symbols_of_another_kind_than_those_of_fit_are_refused(model):
    W = np.arange(60).reshape(30, 2) % 7
    strings = W.astype(str)
    for X, other, words in (
        (W, strings, "X holds strings such as '3', and fit was given numbers such as"),
        (W, strings.astype(object), "X holds strings"),
        (strings, W, "X holds numbers such as 3, and fit was given strings such as"),
        (strings, W.astype(object), "X holds numbers"),
        (strings, strings.astype("S"), "X holds bytes such as b'3', and fit was given"),
        (strings.astype("S"), strings, "fit was given bytes such as b'0'"),
    ):
        padding = {"U": "", "S": b""}.get(X.dtype.kind, -1)
        model.set_params(padding=padding).fit(X, W[:, 1])
        read = getattr(model, "predict_proba", None) or model.transform
        with pytest.raises(ValueError, match=words):
            read(other)
        few = np.append(other[:3].astype(object), X[:1].astype(object), axis=0)
        read(few)  # symbols of several kinds, as objects
        read(np.full((1, 2), model.padding))
        with pytest.raises(TypeError, match="datetime64.s. are not supported"):
            read(W.astype("M8[s]"))


def test_none_is_padding_only_when_it_is_said():
    X = np.array([[None, "a"], ["b", "a"]], dtype=object)
    assert SuffixTreeVectorizer().fit_transform(X)[[0]].nnz == 2
    with pytest.raises(TypeError, match="padding"):
        SuffixTreeVectorizer(padding="").fit(X)


@pytest.mark.parametrize("padding", [np.array([1, 2]), ["a"]], ids=repr)
def test_padding_is_one_symbol(padding):
    with pytest.raises(ValueError, match="padding must be one symbol"):
        SuffixTreeVectorizer(padding=padding).fit([["a", "b"]])


@pytest.mark.parametrize("padding", [None, np.nan], ids=repr)
def test_missing_values_of_pandas_are_padding(padding):
    X = np.array([[padding, "a"], ["b", "a"], ["a", padding]], dtype=object)
    expected = SuffixTreeVectorizer(padding=padding).fit_transform(X).toarray()
    other = X.copy()
    other[pd.isna(X)] = pd.NA
    frame = pd.DataFrame(other, columns=["before", "last"], dtype=object)
    for form in (other, other.tolist(), frame, frame.astype("string")):
        vectorizer = SuffixTreeVectorizer(padding=padding)
        np.testing.assert_array_equal(
            vectorizer.fit_transform(form).toarray(), expected
        )
        np.testing.assert_array_equal(vectorizer.transform(form).toarray(), expected)
    assert vectorizer.feature_names_in_.tolist() == ["before", "last"]
    with pytest.raises(ValueError, match="X holds pandas' NA, and padding=''"):
        SuffixTreeVectorizer(padding="").fit(frame)


@pytest.mark.parametrize("depth", [0, -1, 1.5, "2"])
def test_bad_depth(depth):
    with pytest.raises(ValueError, match="max_depth"):
        SuffixTreeVectorizer(max_depth=depth).fit(WORDS)


@pytest.mark.parametrize("dtype", [np.float16, object, "U3"])
def test_dtype_that_sparse_matrices_cannot_hold(dtype):
    with pytest.raises(ValueError, match="dtype: a sparse matrix of SciPy cannot hold"):
        SuffixTreeVectorizer(dtype=dtype).fit(WORDS)


def test_width_and_depth_may_differ():
    X = np.random.default_rng(0).integers(0, 3, size=(50, 4))
    deep = SuffixTreeVectorizer(max_depth=9).fit(X)
    assert deep.tree_.depths().max() == 4
    shallow = SuffixTreeVectorizer(max_depth=2).fit(X)
    assert shallow.tree_.depths().max() == 2
    narrow = SuffixTreeVectorizer(max_depth=2).fit(X[:, 2:])
    assert np.array_equal(shallow.tree_.parent, narrow.tree_.parent)


# --------------------------------------------------------------------- windows


def test_windows_share_one_array():
    w = context_windows([["a", "b"], [], "b a"], max_depth=3)
    assert np.shares_memory(w.contexts, w.tokens)
    assert np.shares_memory(w.targets, w.tokens)
    keep = w.sample_weight > 0
    symbols = [*w.vocabulary, "."]
    rows = [
        " ".join(symbols[c] for c in context) + " > " + symbols[t]
        for context, t in zip(w.contexts[keep], w.targets[keep])
    ]

    def cut(row):  # what stands left of the most recent padding is not read
        context, target = row.split(" > ")
        parts = context.split()
        last = max((i for i, p in enumerate(parts) if p == "."), default=-1)
        return " ".join(parts[last + 1 :]) + " > " + target

    assert [cut(r) for r in rows] == [
        "<s> > a",
        "<s> a > b",
        "<s> a b > </s>",
        "<s> > </s>",
        "<s> > b",
        "<s> b > a",
        "<s> b a > </s>",
    ]
    assert set(w.targets[~keep]) <= {-1, symbols.index("<s>")}


def test_symbols_may_be_tuples():
    w = context_windows([[("a", 1), ("b", 2)], [("b", 2)]], 1, start=None, end=None)
    assert w.vocabulary.tolist() == [("a", 1), ("b", 2)]
    assert w.tokens[w.tokens >= 0].tolist() == [0, 1, 1]


@pytest.mark.parametrize("start, end", [(None, None), ("<s>", None), (None, "</s>")])
def test_marks_are_optional(start, end):
    w = context_windows(["a b", "c"], max_depth=2, start=start, end=end)
    assert int(w.sample_weight.sum()) == 3 + 2 * (end is not None)
    assert len(w.vocabulary) == 3 + (start is not None) + (end is not None)


@pytest.mark.parametrize(
    "sentences, error, words",
    [
        ("one string", TypeError, "one string"),
        ([], ValueError, "empty"),
        ([["a"], 3], TypeError, "sentence 1"),
        (7, TypeError, "iterable"),
        ([["a"], ["<s>", "b"]], ValueError, "sentence 1"),
    ],
)
def test_bad_sentences(sentences, error, words):
    with pytest.raises(error, match=words):
        context_windows(sentences)
    for depth in (0, 1.5, 10**9):
        with pytest.raises(ValueError, match="max_depth must be"):
            context_windows(["a"], max_depth=depth)


@pytest.mark.parametrize(
    "collapse, dtype", [(False, np.float64), (True, np.float32), (True, np.int8)]
)
def test_dense_output_has_the_values_of_the_sparse(collapse, dtype):
    X = np.random.default_rng(0).integers(0, 4, size=(60, 3))
    sparse = SuffixTreeVectorizer(max_depth=3, collapse=collapse, dtype=dtype)
    dense = clone(sparse).set_params(sparse_output=False)
    for method in ("fit_transform", "transform"):
        got = getattr(dense, method)(X)
        assert type(got) is np.ndarray and got.dtype == dtype
        assert np.array_equal(got, getattr(sparse, method)(X).toarray())


@pytest.mark.parametrize(
    "classifier",
    [
        HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=1),
        GaussianNB(),
        LinearDiscriminantAnalysis(),
    ],
    ids=lambda c: type(c).__name__,
)
@pytest.mark.filterwarnings("ignore:Variables are collinear")
def test_classifiers_of_dense_features_follow(classifier):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(200, 2))
    # the last symbol tells nine of ten
    y = np.where(rng.random(200) < 0.9, X[:, -1], rng.integers(0, 3, size=200))
    vectorizer = SuffixTreeVectorizer(max_depth=2, sparse_output=False)
    assert make_pipeline(vectorizer, classifier).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output(container):
    frame = pd.DataFrame(WORDS, index=list("abcd"), columns=["w3", "w2", "w1"])
    vectorizer = SuffixTreeVectorizer(padding="", sparse_output=False)
    plain = vectorizer.fit_transform(frame)
    out = clone(vectorizer).set_output(transform=container).fit_transform(frame)
    assert type(out).__module__.split(".")[0] == container
    assert list(out.columns) == vectorizer.get_feature_names_out().tolist()
    assert np.array_equal(out.to_numpy(), plain)
    if container == "pandas":
        assert out.index.tolist() == list("abcd")
    with config_context(transform_output=container):
        assert type(clone(vectorizer).fit_transform(frame)) is type(out)
        union = make_union(clone(vectorizer), "passthrough").fit_transform(frame)
        assert union.shape == (4, plain.shape[1] + 3)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_data_frames_cannot_hold_sparse_output(container, monkeypatch):
    message = "^sparse_output=True: a .* data frame.*sparse_output=False"
    vectorizer = SuffixTreeVectorizer(padding="").fit(WORDS)
    with config_context(transform_output=container):
        with pytest.raises(ValueError, match=message):
            vectorizer.transform(WORDS)
        back = clone(vectorizer).set_output(transform="default")
        assert sp.issparse(back.fit_transform(WORDS))
    vectorizer.set_output(transform=container)
    with pytest.raises(ValueError, match=message):
        vectorizer.transform(WORDS)
    # before the work
    monkeypatch.setattr(vectorizer, "_fit", None)
    with pytest.raises(ValueError, match=message):
        vectorizer.fit_transform(WORDS)


def test_dense_output_beyond_the_memory(monkeypatch):
    X = np.arange(40).reshape(20, 2)
    vectorizer = SuffixTreeVectorizer(sparse_output=False).fit(X)
    n_bytes = 20 * 41 * 8
    for memory, fits in ((n_bytes, True), (n_bytes - 1, False)):
        monkeypatch.setattr("sklstruct._checks.physical_memory", lambda m=memory: m)
        if fits:
            assert vectorizer.transform(X).nbytes == n_bytes
            continue
        with pytest.raises(MemoryError, match=r"^sparse_output=False: .*20 .*41 "):
            vectorizer.transform(X)
        with pytest.raises(MemoryError, match="sparse_output=True"):
            clone(vectorizer).fit_transform(X)
        assert vectorizer.set_params(dtype=np.int8).transform(X).nbytes == 20 * 41
        vectorizer.set_params(sparse_output=True).transform(X)
