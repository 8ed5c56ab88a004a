"""Files of samples with several labels: round trips, and damaged files."""

import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from _cases import each_value
from _oracles import sparse_settings
from sklearn import config_context
from sklearn.datasets import load_svmlight_file

from sklstruct.datasets import (
    load_sparse_labels,
    make_sparse_classes,
    save_sparse_labels,
)


def made(seed=0, n=50):
    rng = np.random.default_rng(seed)
    X = sp.random(n, 30, 0.2, format="csr", random_state=seed, dtype=np.float64)
    X.data = rng.normal(size=X.nnz)
    Y = sp.csr_matrix((rng.random((n, 12)) < 0.2).astype(int))
    some = sp.diags_array((np.arange(n) != 3).astype(float))  # sample 3 has nothing
    return sp.csr_matrix(some @ X), sp.csr_matrix(some @ Y).astype(int)


@pytest.mark.parametrize(
    *each_value(suffix=["", ".gz", ".bz2", ".xz"], dtype=[np.float32, np.float64])
)
def test_a_written_file_is_read_again(tmp_path, suffix, dtype):
    X, Y = made()
    X = X.astype(dtype)
    path = tmp_path / f"a.txt{suffix}"
    save_sparse_labels(path, X, Y)
    [(Z, T)] = load_sparse_labels(path, dtype=dtype)
    assert Z.dtype == dtype
    assert Z.shape == X.shape
    assert T.shape == Y.shape
    np.testing.assert_array_equal(Z.toarray(), X.toarray())
    np.testing.assert_array_equal(T.toarray(), Y.toarray())


def test_scikit_learn_reads_the_lines(tmp_path):
    X, Y = made()
    path = tmp_path / "a.txt"
    save_sparse_labels(path, X, Y)
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    Z, labels = load_svmlight_file(str(path), multilabel=True, zero_based=True)
    np.testing.assert_allclose(Z.toarray(), X.toarray())
    assert labels == [tuple(np.flatnonzero(row).tolist()) for row in Y.toarray()]
    [(_, T)] = load_sparse_labels(path, n_labels=20)
    assert T.shape == (50, 20)


def test_zeros_that_are_stored_and_labels_in_any_order(tmp_path):
    path = tmp_path / "a.txt"
    Y = sp.csr_matrix(([1, 0, 1], [0, 1, 3], [0, 3]), (1, 4))
    save_sparse_labels(path, [[0.0, 1.0]], Y)
    [(_, T)] = load_sparse_labels(path)
    np.testing.assert_array_equal(T.toarray(), Y.toarray())
    path.write_text("3,0 0:1\n")
    [(_, T)] = load_sparse_labels(path)
    assert T.indices.tolist() == [0, 3]


def test_files_have_the_same_columns(tmp_path):
    (tmp_path / "a").write_text("0,3 0:1\n")
    (tmp_path / "b").write_text(" 4:1\n")
    (X, Y), (Z, T) = load_sparse_labels(tmp_path / "a", tmp_path / "b")
    assert X.shape == Z.shape == (1, 5)
    assert Y.shape == T.shape == (1, 4)
    assert T.nnz == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no samples"),
        ("2 3 4\n1 0:1\n", "says that it holds 2 samples"),
        (f"1 3 {10**20}\n1 0:1\n", "at most 2.31 of each"),
        (f"1 {2**31 + 1} 4\n1 0:1\n", "at most 2.31 of each"),
        ("1 3 4\n1 5:1\n", "of 3 features"),
        ("1 3 4\n4 0:1\n", "label 4, and there are 4"),
        ("1,1 0:1\n", "sample 1: label 1 comes twice"),
        ("1,2,1 0:1\n", "sample 1: label 1 comes twice"),
        ("0 0:1\n-1 0:1\n", "sample 2: label -1 is not an integer"),
        ("0.5 0:1\n", "label 0.5"),
        ("nan 0:1\n", "label nan"),
        ("99999999999 0:1\n", "not an integer"),
        ("1 0:x\n", "not a sample"),
        ("1 2:1 0:1\n", "not a sample"),
        ("1 0:1\n2 0:inf\n", "not finite in float32, first in sample 2"),
        ("1 0:1e39\n", "not finite"),
        ("1 -3:1\n", "not a sample"),
        ("1 3:1 3:1\n", "sorted and unique"),
        ("1 0:1\n1 0:x\n1 0:1\n", "feature:value ...`: line 2: could not convert"),
        ("2 2 2\n1 0:1\n1 0:x\n", "line 3: could not convert"),
        ("1 0:1\n0_1:2\n", "line 2: '_' is not part of a number"),
        ("1 qid:7 0:1\n", "line 1: 'qid' is not part of a number"),
        ("1 2147483648:1\n", r"too large|2\^31"),
    ],
)
def test_odd_files(tmp_path, text, message):
    path = tmp_path / "odd.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_sparse_labels(path)


@pytest.mark.parametrize("setting", sparse_settings())
def test_sparse_interface(tmp_path, setting):
    kind = sp.sparray if "sparray" in setting.values() else sp.spmatrix
    path = tmp_path / "a.txt"
    path.write_text("0,1 0:1\n 1:1\n")
    with config_context(**setting):
        [(X, Y)] = load_sparse_labels(path)
        made_X, _ = make_sparse_classes(20, 4, 50, random_state=0)
        save_sparse_labels(tmp_path / "c.txt", X, Y)
    for matrix in (X, Y, made_X):
        assert isinstance(matrix, kind) and matrix.format == "csr"


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gz"])
@pytest.mark.parametrize("head", ["", "3 3 2\n"])
def test_byte_order_mark_and_blank_lines(tmp_path, head, compress):
    path = tmp_path / ("a.gz" if compress is gzip.compress else "a.txt")
    lines = head + "0,1 0:1\n0 1:1\n 2:1\n"
    expected = None
    for text in (lines, "\ufeff" + lines, lines + "\n \n"):
        path.write_bytes(compress(text.encode()))
        [(X, Y)] = load_sparse_labels(path)
        expected = expected or (X.toarray().tolist(), Y.toarray().tolist())
        assert expected == (X.toarray().tolist(), Y.toarray().tolist())
    path.write_bytes(compress(lines.replace("0 1:1", "\n0 1:1").encode()))
    number = 2 + bool(head)
    with pytest.raises(
        ValueError, match=rf"{path.name} .*: line {number} is blank; wr"
    ):
        load_sparse_labels(path)


def test_damaged_and_missing(tmp_path):
    whole = gzip.compress(b"1 0:1\n" * 100)
    path = tmp_path / "a.gz"
    for data in (whole[:-12], whole[:12] + b"x" * 9 + whole[21:]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"a\.gz is damaged: broken gzip data"):
            load_sparse_labels(path)
    with pytest.raises(FileNotFoundError, match="nothing"):
        load_sparse_labels(tmp_path / "nothing")
    with pytest.raises(ValueError, match="paths is empty"):
        load_sparse_labels()
    for options in ({"n_features": 0}, {"n_labels": -1}, {"dtype": int}):
        with pytest.raises(ValueError, match=next(iter(options))):
            load_sparse_labels(path, **options)


def test_bad_samples_leave_the_old_file(tmp_path):
    X, Y = made()
    odd = X.toarray()
    odd[0, 0] = np.inf
    path = tmp_path / "a.txt"
    save_sparse_labels(path, X, Y)
    before = path.read_bytes()
    for Z, T, message in [
        (X, 2 * Y, "0 and 1, and has 2"),
        (X[:1], [[1, 4, 3]], "0 and 1, and has 4"),
        (X[1:], Y, "inconsistent"),
        (odd, Y, "X contains"),
    ]:
        with pytest.raises(ValueError, match=message):
            save_sparse_labels(path, Z, T)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
