"""Sparse sets with many classes or labels, in files of the svmlight format."""

from __future__ import annotations

import bz2
import codecs
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.datasets import load_svmlight_file
from sklearn.utils import check_array

from .._checks import INT32_MAX, check_count, check_sparse
from .._compat import _align_api_if_sparse
from .._files import open_write

_PARTS = ("train", "heldout", "test")
_SUFFIXES = ("", ".gz", ".bz2")
# Indices of columns are of 32 bits.
_MOST_COLUMNS = 1 << 31
_OPENERS: dict[str, Callable] = {".gz": gzip.open, ".bz2": bz2.open}


def load_sparse_classes(
    *paths: str | os.PathLike,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    dtype: DTypeLike = np.float32,
) -> list[tuple[sp.csr_matrix, NDArray]]:
    r"""Read files of sparse samples with one label each.

    A line is a sample, ``label feature:value feature:value ...`` with features that
    rise: the format of svmlight and LIBSVM, in which the sets of PD-Sparse [1]_
    (sector, aloi.bin, LSHTC1, Dmoz, imageNet) come too. If the first line is three
    integers, the numbers of samples, features and labels, as in the Extreme
    Classification Repository [2]_, they are checked and features count from 0.

    Parameters
    ----------
    *paths : str or path-like
        Files, plain or ``.gz`` or ``.bz2``. All get the same number of columns.

    n_features : int, default=None
        Number of columns, >= 1. None: the number in the first lines, else the largest
        feature in any of the files.

    zero_based : bool or "auto", default="auto"
        Whether features of files without a line of sizes count from 0; "auto": if
        there is a feature 0 in any of them.

    dtype : {float32, float64}, default=float32
        Type of the matrices.

    Returns
    -------
    parts : list of (X, y)
        X a CSR matrix with sorted indices, y int64 where all labels of all files are
        integers, else float64.

    Raises
    ------
    FileNotFoundError
        A file that is not there.

    ValueError
        No path; a line that is no sample, or whose features do not rise; samples with
        several labels (`Notes`); an integer label beyond 2^53 - 1; fewer columns than
        features; sizes in the first line that are not those of the file.

    See Also
    --------
    load_pd_sparse : The three files of a set of PD-Sparse, by its name.

    load_sparse_labels : Several labels a sample.

    sklearn.datasets.load_svmlight_file : Reads one file, of other targets too.

    Notes
    -----
    `load_sparse_labels` reads samples of several labels each.

    References
    ----------
    .. [1] I. Yen, X. Huang, P. Ravikumar, K. Zhong, I. Dhillon, "PD-Sparse: a primal
       and dual sparse approach to extreme multiclass and multilabel classification",
       ICML 2016.
    .. [2] K. Bhatia et al., "The extreme classification repository: multi-label
       datasets and code", 2016.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklstruct.datasets import load_sparse_classes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "sector.train"
    ...     _ = path.write_text("53 1:0.25 4:1\n7 2:0.5\n")
    ...     [(X, y)] = load_sparse_classes(path)
    >>> X.toarray(), y
    (array([[0.25, 0.  , 0.  , 1.  ],
           [0.  , 0.5 , 0.  , 0.  ]], dtype=float32), array([53,  7]))
    """
    if not (isinstance(zero_based, (bool, np.bool_)) or zero_based == "auto"):
        raise ValueError(
            f'zero_based must be True, False or "auto", got {zero_based!r}'
        )
    read = _read_files(paths, n_features, dtype, zero_based=zero_based)
    _check_labels(paths, [y for _, y, _ in read])
    integers = all((y == np.rint(y)).all() for _, y, _ in read)
    return [
        (_align_api_if_sparse(X), y.astype(np.int64) if integers else y)
        for X, y, _ in read
    ]


def load_sparse_labels(
    *paths: str | os.PathLike,
    n_features: int | None = None,
    n_labels: int | None = None,
    dtype: DTypeLike = np.float32,
) -> list[tuple[sp.csr_matrix, sp.csr_matrix]]:
    r"""Read files of sparse samples with any number of labels each.

    The format of the Extreme Classification Repository [1]_: the first line has the
    numbers of samples, features and labels; a line is a sample, ``label,label,...
    feature:value feature:value ...``, both counted from 0. A line of a sample without
    labels begins with its features. The first line may be missing. Blank lines are an
    error except at the end: " 0:0" is a sample without labels and features.

    Parameters
    ----------
    *paths : str or path-like
        Files, plain or ``.gz`` or ``.bz2``. All get the same numbers of columns.

    n_features, n_labels : int, default=None
        Numbers of columns, >= 1. None: those of the first lines, else the largest in
        any of the files.

    dtype : {float32, float64}, default=float32
        Type of X.

    Returns
    -------
    parts : list of (X, Y)
        CSR matrices with sorted indices; Y is an int64 indicator of the labels.

    Raises
    ------
    FileNotFoundError
        A file that is not there.

    ValueError
        No path; a line that is no sample, or whose features do not rise; labels that
        are no integers >= 0, or twice in one line; fewer columns than features or
        labels; sizes in the first line that are not those of the file.

    See Also
    --------
    save_sparse_labels : Writes such a file.

    load_sparse_classes : One label a sample.

    References
    ----------
    .. [1] K. Bhatia et al., "The extreme classification repository: multi-label
       datasets and code", 2016.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklstruct.datasets import load_sparse_labels
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "train.txt"
    ...     _ = path.write_text("2 3 4\n0,2 0:0.5 2:1\n 1:2\n")
    ...     [(X, Y)] = load_sparse_labels(path)
    >>> X.toarray()
    array([[0.5, 0. , 1. ],
           [0. , 2. , 0. ]], dtype=float32)
    >>> Y.toarray()
    array([[1, 0, 1, 0],
           [0, 0, 0, 0]])
    """
    _check_n_columns("n_labels", n_labels)
    read = _read_files(paths, n_features, dtype, several=True)
    label = [_label_entries(path, y) for path, (_, y, _) in zip(paths, read)]
    found = 1 + max((int(index.max()) for _, index in label if index.size), default=0)
    if n_labels is None:
        n_labels = max([found, *(s[2] for _, _, s in read if s is not None)])
    for path, (_, index), (_, _, sizes) in zip(paths, label, read):
        most = n_labels if sizes is None else min(n_labels, sizes[2])
        if index.size and index.max() >= most:
            raise ValueError(
                f"{path} has label {index.max()}, and there are {most} labels, from 0 "
                f"to {most - 1}"
            )
    parts = []
    for (X, y, _), (ptr, index) in zip(read, label):
        one = np.ones(index.size, dtype=np.int64)
        Y = sp.csr_matrix((one, index, ptr), (len(y), n_labels))
        parts.append((_align_api_if_sparse(X), _align_api_if_sparse(Y)))
    return parts


def _label_entries(path, y):
    """(ptr, index) of labels read as a tuple of floats for each sample."""
    ptr = np.concatenate([[0], np.cumsum([len(labels) for labels in y])])
    flat = np.array([label for labels in y for label in labels], dtype=np.float64)
    sample = np.repeat(np.arange(len(y)), np.diff(ptr))
    odd = np.flatnonzero(~((flat >= 0) & (flat == np.rint(flat)) & (flat <= INT32_MAX)))
    if odd.size:
        raise ValueError(
            f"{path}, sample {sample[odd[0]] + 1}: label {flat[odd[0]]:g} is no "
            "integer from 0 to 2^31 - 1"
        )
    order = np.lexsort((flat, sample))
    flat = flat[order].astype(np.int32)
    twice = np.flatnonzero((flat[1:] == flat[:-1]) & (sample[1:] == sample[:-1]))
    if twice.size:
        raise ValueError(
            f"{path}, sample {sample[twice[0]] + 1}: label {flat[twice[0]]} comes twice"
        )
    return ptr, flat


def save_sparse_labels(
    path: str | os.PathLike, X: ArrayLike | sp.spmatrix, Y: ArrayLike | sp.spmatrix
) -> None:
    """Write samples of any number of labels; `load_sparse_labels` has the format.

    Values are written so that reading them gives the same numbers.

    Parameters
    ----------
    path : str or path-like
        The file, compressed if its name ends with ``.gz`` or ``.bz2``. It is written
        aside and renamed, so that an old one stays if this fails.

    X : array-like or sparse matrix of shape (n_samples, n_features)
        Finite features.

    Y : array-like or sparse matrix of shape (n_samples, n_labels)
        Indicator of the labels, 0 or 1.

    Raises
    ------
    ValueError
        Numbers of samples that differ, features that are not finite, values of Y other
        than 0 and 1.

    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from sklstruct.datasets import load_sparse_labels, save_sparse_labels
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_sparse_labels(f"{folder}/a.txt.gz", [[0, .25]], [[1, 1, 0]])
    ...     [(X, Y)] = load_sparse_labels(f"{folder}/a.txt.gz")
    >>> X.toarray(), Y.toarray()
    (array([[0.  , 0.25]], dtype=float32), array([[1, 1, 0]]))
    """
    check_sparse(X)
    check_sparse(Y, "Y")
    dtype = [np.float64, np.float32]
    X = sp.csr_matrix(check_array(X, accept_sparse="csr", dtype=dtype, input_name="X"))
    Y = sp.csr_matrix(check_array(Y, accept_sparse="csr", input_name="Y"))
    if X.shape[0] != Y.shape[0]:
        raise ValueError(
            f"X and Y have inconsistent numbers of samples: {X.shape[0]} and "
            f"{Y.shape[0]}"
        )
    X, Y = X.copy(), Y.copy()
    for matrix in (X, Y):
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    if (Y.data != 1).any():
        value = Y.data[Y.data != 1][0]
        raise ValueError(f"Y must be an indicator matrix of 0 and 1, has {value}")
    with open_write(path) as file:
        file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n".encode())
        for i in range(X.shape[0]):
            at = slice(X.indptr[i], X.indptr[i + 1])
            labels = Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist()
            # shortest decimals that are read as the same number
            values = [str(value) for value in X.data[at]]
            pairs = [f"{j}:{v}" for j, v in zip(X.indices[at].tolist(), values)]
            # a reader may drop a line of nothing
            line = ",".join(map(str, labels)) + " " + " ".join(pairs or ["0:0"])
            file.write(line.encode() + b"\n")


def _read_files(
    paths: tuple,
    n_features: int | None,
    dtype: DTypeLike,
    *,
    several: bool = False,
    zero_based: bool | str = True,
) -> list[tuple[sp.csr_matrix, Any, tuple[int, int, int] | None]]:
    """`_read` of each file; all X have the same columns, numbered from 0."""
    if not paths:
        raise ValueError("paths is empty; pass at least one file")
    _check_n_columns("n_features", n_features)
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype}")
    read = [_read(os.fspath(path), dtype, several) for path in paths]
    _count_from_zero([X for X, _, sizes in read if sizes is None], zero_based)
    width = _n_columns(read, n_features)
    return [
        (sp.csr_matrix((X.data, X.indices, X.indptr), (len(y), width)), y, sizes)
        for X, y, sizes in read
    ]


def _check_n_columns(name: str, given: int | None) -> None:
    if given is not None and check_count(name, given, 1) > _MOST_COLUMNS:
        raise ValueError(f"{name} must be at most 2^31, got {given}")


def _count_from_zero(matrices: list[sp.csr_matrix], zero_based: bool | str) -> None:
    """Number the features of files without a line of sizes from 0, in place."""
    least = [int(X.indices.min()) for X in matrices if X.nnz]
    if zero_based == "auto":
        zero_based = not least or min(least) == 0
    if zero_based:
        return
    if 0 in least:
        raise ValueError("zero_based is False, but there is a feature 0")
    for X in matrices:
        X.indices -= 1


def _n_columns(read: list, n_features: int | None) -> int:
    """Columns of all matrices: as given, else as the first lines say, else as found."""
    found = 1 + max((int(X.indices.max()) for X, _, _ in read if X.nnz), default=0)
    if n_features is None:
        n_features = max([found, *(s[1] for _, _, s in read if s is not None)])
    if n_features < found:
        raise ValueError(
            f"n_features={n_features}, but the files have {found} features"
        )
    return int(n_features)


def _check_labels(paths: tuple, labels: list[NDArray]) -> None:
    """They are read as float64, which merges large integers."""
    for path, y in zip(paths, labels):
        large = np.flatnonzero(np.abs(y) >= 2.0**53)
        if large.size:
            raise ValueError(
                f"{path} has a label beyond 2^53 - 1, first in sample {large[0] + 1}, "
                "and such labels may be merged; number the classes"
            )


def load_pd_sparse(
    folder: str | os.PathLike, name: str, **options: Any
) -> dict[str, tuple[sp.csr_matrix, NDArray]]:
    r"""Training, validation and test part of a set of PD-Sparse.

    The sets with one label a sample are sector (105 classes), aloi.bin and imageNet
    (1 000 each), Dmoz (11 947) and LSHTC1 (12 294). The files are not part of this
    package; the README of the program says how to get them.

    Parameters
    ----------
    folder : str or path-like
        The folder that holds ``name.train``, ``name.heldout`` and ``name.test``, or
        a folder `name` with these; plain, ``.gz`` or ``.bz2``.

    name : str
        Such as "sector".

    **options : dict
        As in `load_sparse_classes`.

    Returns
    -------
    parts : dict of (X, y)
        "train", "heldout" and "test"; the latter two only where there is a file.

    Raises
    ------
    FileNotFoundError
        If the training part is missing; the message lists the places tried.

    ValueError
        As `load_sparse_classes`.

    References
    ----------
    I. Yen, X. Huang, P. Ravikumar, K. Zhong, I. Dhillon, "PD-Sparse: a primal and dual
    sparse approach to extreme multiclass and multilabel classification", ICML 2016,
    table 1; https://github.com/a061105/ExtremeMulticlass.

    Examples
    --------
    >>> from sklstruct.datasets import load_pd_sparse
    >>> parts = load_pd_sparse("examples/multiclass", "sector")  # doctest: +SKIP
    >>> X, y = parts["train"]  # doctest: +SKIP
    """
    folder, name = Path(folder), os.fspath(name)
    found = {}
    for part in _PARTS:
        for path in [
            where / f"{name}.{part}{suffix}"
            for where in (folder, folder / name)
            for suffix in _SUFFIXES
        ]:
            if path.is_file():
                found[part] = path
                break
    if "train" not in found:
        raise FileNotFoundError(
            f"no file {name}.train (or .gz, .bz2) in {folder} or {folder / name}; the "
            "sets are described at https://github.com/a061105/ExtremeMulticlass, "
            "section 1.3 of its README"
        )
    return dict(zip(found, load_sparse_classes(*found.values(), **options)))


def _read(
    path: str, dtype: np.dtype, several: bool = False
) -> tuple[sp.csr_matrix, Any, tuple[int, int, int] | None]:
    """(X, y, sizes in the first line or None); features as they are numbered.

    y: a label a sample; if there are `several`, a tuple of them.
    """
    opener: Callable = _OPENERS.get(Path(path).suffix, open)
    try:
        with opener(path, "rb") as file:
            head = file.readline()
            start = len(codecs.BOM_UTF8) * head.startswith(codecs.BOM_UTF8)
            sizes = _sizes(head[start:])
            if sizes is None:
                file.seek(start)
            elif max(sizes[1:]) > _MOST_COLUMNS:
                raise ValueError(
                    f"{path} says that it holds {sizes[1]} features and {sizes[2]} "
                    "labels; no more than 2^31 of each can be read"
                )
            try:
                lines = _Lines(file, 1 + (sizes is not None)) if several else file
                X, y = load_svmlight_file(
                    lines, dtype=dtype, zero_based=True, multilabel=several
                )
                X = sp.csr_matrix(X)  # by `sparse_interface` an array
            except (ValueError, OverflowError) as exc:
                raise ValueError(_fault(path, exc, several)) from exc
    except FileNotFoundError as exc:
        raise FileNotFoundError(
            f"no file {path}; data sets are not part of this package, pass the path of "
            "one that you have"
        ) from exc
    except (EOFError, OSError, zlib.error) as exc:
        if getattr(exc, "errno", None) is not None:  # the system's: no rights, no disk
            raise
        raise ValueError(f"{path} is damaged or not compressed: {exc}") from exc
    n = len(y)
    if not n:
        raise ValueError(f"{path} holds no samples")
    if X.nnz and X.indices.min() < 0:
        raise ValueError(f"{path} has a feature beyond 2^31 - 1")
    finite = np.ones(n, dtype=bool) if several else np.isfinite(y)
    if not (finite.all() and np.isfinite(X.data).all()):
        raise ValueError(
            f"{path} has labels or values that are not finite in {dtype}, first in "
            f"sample {_first_not_finite(X, finite) + 1}"
        )
    if sizes is not None and (n != sizes[0] or (X.nnz and X.indices.max() >= sizes[1])):
        raise ValueError(
            f"{path} says that it holds {sizes[0]} samples of {sizes[1]} features, and "
            f"holds {n} of {X.shape[1]}"
        )
    return X, y, sizes


class _Lines:
    """The lines of a file for `load_svmlight_file`, which passes over blank ones.

    With several labels a blank line inside the file may be a sample without labels and
    features, so that it is refused.
    """

    def __init__(self, file: Any, first: int) -> None:
        self._file, self._first = file, first
        self.read = file.read  # scikit-learn looks for the method, and iterates

    def __iter__(self) -> Iterator[bytes]:
        blank = None
        for number, line in enumerate(self._file, self._first):
            if line.isspace():
                blank = blank or number
            elif blank is not None:
                raise ValueError(
                    f'line {blank} is blank; write " 0:0" for a sample without labels '
                    "and features"
                )
            else:
                yield line


def _first_not_finite(X: sp.csr_matrix, finite: NDArray) -> int:
    row = np.repeat(np.arange(finite.size), np.diff(X.indptr))
    bad = row[~np.isfinite(X.data)]
    return int(min([*np.flatnonzero(~finite)[:1], *bad[:1]]))


def _sizes(line: bytes) -> tuple[int, int, int] | None:
    words = line.split()
    if len(words) != 3 or not all(word.isdigit() for word in words):
        return None
    n_samples, n_features, n_labels = map(int, words)
    return n_samples, n_features, n_labels


def _fault(path: str, exc: Exception, several: bool) -> str:
    text = str(exc)
    if several:
        return (
            f"{path} has a line that is no sample, `label,label,... feature:value ...`:"
            f" {text}"
        )
    if "," in text.partition("float: ")[2]:
        return (
            f"{path} has samples with several labels ({text}); load_sparse_labels "
            "reads them"
        )
    return (
        f"{path} has a line that is no sample, `label feature:value ...` with one "
        f"label: {text}"
    )
