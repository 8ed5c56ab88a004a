"""Files of sparse samples: both formats, agreement with scikit-learn, bad files."""

import bz2
import gzip

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from sklstruct.datasets import (
    load_pd_sparse,
    load_sparse_classes,
    make_sparse_classes,
)


@pytest.fixture
def data():
    return make_sparse_classes(60, 5, 40, dtype=np.float64, random_state=0)


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
def test_reads_what_scikit_learn_writes(data, tmp_path, zero_based, suffix):
    X, y = data
    path = tmp_path / f"set.txt{suffix}"
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(suffix, open)
    with opener(path, "wb") as file:
        dump_svmlight_file(X, y, file, zero_based=zero_based)
    [(Z, z)] = load_sparse_classes(path, n_features=40, dtype=np.float64)
    other, _ = load_svmlight_file(str(path), n_features=40)
    assert (Z != other).nnz == 0 and Z.dtype == np.float64
    assert_array_equal(z, y)
    assert z.dtype == np.int64 and Z.has_sorted_indices


def test_files_get_the_same_columns(tmp_path):
    (tmp_path / "a").write_text("1 1:1\n2 1:2 3:1\n")
    (tmp_path / "b").write_text("3 9:1 # the largest feature\n")
    (X, y), (Z, z) = load_sparse_classes(tmp_path / "a", tmp_path / "b")
    assert X.shape == (2, 9) and Z.shape == (1, 9)
    assert_array_equal(X.toarray()[:, :3], [[1, 0, 0], [2, 0, 1]])
    assert Z.indices.tolist() == [8] and z.tolist() == [3]
    # a feature 0 in one file is one for both
    (tmp_path / "b").write_text("3 0:1\n")
    (X, _), (Z, _) = load_sparse_classes(tmp_path / "a", tmp_path / "b")
    assert X.indices.tolist() == [1, 1, 3] and Z.indices.tolist() == [0]
    with pytest.raises(ValueError, match="there is a feature 0"):
        load_sparse_classes(tmp_path / "b", zero_based=False)
    with pytest.raises(ValueError, match="n_features=3, but the files have 4"):
        load_sparse_classes(tmp_path / "a", zero_based=True, n_features=3)


@pytest.mark.parametrize("label", [2**53 + 1, 2**53, -(2**53) - 1, 2**63 - 1, 10**25])
def test_labels_that_float64_cannot_tell_apart(tmp_path, label):
    path = tmp_path / "set.txt"
    path.write_text(f"{2**53 - 1} 1:1\n{-(2**53) + 1} 2:1\n")
    [(_, y)] = load_sparse_classes(path)
    assert y.tolist() == [2**53 - 1, -(2**53) + 1]
    path.write_text(f"5 1:1\n{label} 1:1\n")
    with pytest.raises(ValueError, match=r"set\.txt has a label beyond .* sample 2"):
        load_sparse_classes(path)


def test_a_line_of_sizes(tmp_path):
    path = tmp_path / "repository.txt"
    path.write_text("3 10 4\n2 1:0.5 3:1\n0 4:1\n3\n")
    [(X, y)] = load_sparse_classes(path)
    assert X.shape == (3, 10) and y.tolist() == [2, 0, 3]
    assert X.indices.tolist() == [1, 3, 4]
    path.write_text("4 10 4\n2 1:0.5\n")
    with pytest.raises(ValueError, match="says that it holds 4 samples"):
        load_sparse_classes(path)
    path.write_text("1 10 4\n2 10:0.5\n")
    with pytest.raises(ValueError, match="of 10 features, and holds 1 of 11"):
        load_sparse_classes(path)


def test_labels_that_are_no_integers_and_double_entries(tmp_path):
    path = tmp_path / "a"
    path.write_text("0.5 0:1 2:1\n2 1:1\n")
    [(X, y)] = load_sparse_classes(path)
    assert y.tolist() == [0.5, 2] and X.shape == (2, 3)


def test_sets_of_pd_sparse(tmp_path):
    folder = tmp_path / "sector"
    folder.mkdir()
    (folder / "sector.train").write_text("1 1:1\n")
    with gzip.open(folder / "sector.test.gz", "wt") as file:
        file.write("2 5:1\n")
    for place in (tmp_path, folder):
        parts = load_pd_sparse(place, "sector")
        assert list(parts) == ["train", "test"]
        assert parts["train"][0].shape == (1, 5) == parts["test"][0].shape
    with pytest.raises(FileNotFoundError, match=r"no file Dmoz\.train"):
        load_pd_sparse(tmp_path, "Dmoz")


def test_bad_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="not part of this package"):
        load_sparse_classes(tmp_path / "nothing.txt")
    with pytest.raises(ValueError, match="^paths is empty"):
        load_sparse_classes()
    path = tmp_path / "a"
    for text, message in {
        "": "holds no samples",
        "5,17 1:1\n": "several labels",
        "1 1:1\n5,17 1:1\n": "several labels",
        " 1:1\n": "no sample",
        "dog 1:1\n": "no sample",
        "1 x:1\n": "no sample",
        "1 -3:1\n": "no sample",
        "1 3:\n": "no sample",
        "1 3:1 2:1\n": "sorted and unique",
        "1 3:1 3:1\n": "sorted and unique",
        "1 1:1\nnan 2:1\n": "not finite in float32, first in sample 2",
        "1 1:1\n2 2:inf\n": "not finite.*sample 2",
        "1 1:1\n2 2:1e39\n": "not finite",
        "2 10 4\n1 1:1\n2 2:nan\n": "not finite in float32, first in sample 2",
        "1 2147483648:1\n": "too large|2\\^31",
        "1 99999999999:1\n": "no sample|2\\^31",
    }.items():
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            load_sparse_classes(path)
    with gzip.open(tmp_path / "whole.gz", "wb") as file:
        file.write(b"1 1:1 2:0.5\n" * 100)
    whole = (tmp_path / "whole.gz").read_bytes()
    for text in (b"1 1:1\n", whole[:-12], whole[:12] + b"x" * 9 + whole[21:]):
        (tmp_path / "a.gz").write_bytes(text)
        with pytest.raises(ValueError, match=r"a\.gz is damaged or not compressed"):
            load_sparse_classes(tmp_path / "a.gz")
    (tmp_path / "a.bz2").write_bytes(b"1 1:1\n")
    with pytest.raises(ValueError, match=r"a\.bz2 is damaged or not compressed"):
        load_sparse_classes(tmp_path / "a.bz2")
    path.write_text("1 1:1\n")
    for option, message in {
        "n_features": "^n_features must be",
        "zero_based": "^zero_based must be",
        "dtype": "^dtype must be",
    }.items():
        with pytest.raises(ValueError, match=message):
            load_sparse_classes(path, **{option: -1 if option != "dtype" else int})
