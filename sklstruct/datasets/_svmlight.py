"""Sparse samples of several labels, in files of the svmlight format."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.datasets import load_svmlight_file
from sklearn.utils import check_array

from .._checks import (
    INT32_MAX,
    as_indicator,
    check_choice,
    check_count,
    check_samples,
    check_sparse,
)
from .._compat import _align_api_if_sparse
from .._files import DamagedData, check_path, open_read, open_write

# Indices of columns are of 32 bits.
_MOST_COLUMNS = 1 << 31


def load_sparse_labels(
    *paths: str | os.PathLike,
    n_features: int | None = None,
    n_labels: int | None = None,
    dtype: DTypeLike = np.float32,
) -> list[tuple[sp.csr_matrix, sp.csr_matrix]]:
    r"""Read files of sparse samples with any number of labels each.

    The format of the Extreme Classification Repository [1]_: the first line has the
    numbers of samples, features and labels; every other line is a sample,
    ``label,label,... feature:value feature:value ...``, with labels and features
    counted from 0. The line of a sample without labels begins with its features. The
    first line may be missing. Blank lines are an error except at the end: " 0:0" is a
    sample without labels and features.

    Parameters
    ----------
    *paths : str or path-like
        Files, plain or compressed (gzip, bzip2, xz). The matrices of all files have
        equal numbers of columns.

    n_features, n_labels : int, default=None
        Numbers of columns, >= 1. None: the largest number that a first line or an index
        in any of the files needs.

    dtype : {float32, float64}, default=float32
        Type of X.

    Returns
    -------
    parts : list of (X, Y)
        CSR matrices with sorted indices; Y is an int64 indicator of the labels.

    Raises
    ------
    FileNotFoundError
        If a file does not exist.

    ValueError
        If `paths` is empty; if a line is not a sample, or its features do not increase;
        if a label is not an integer >= 0, or is twice in one line; if there are fewer
        columns than features or labels; if the sizes in the first line are wrong.

    See Also
    --------
    save_sparse_labels : Writes such a file.

    sklearn.datasets.load_svmlight_files : Files with one label per sample.

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
    if not paths:
        raise ValueError("paths is empty; pass at least one file")
    dtype = np.dtype(dtype)
    check_choice("dtype", dtype, ("float32", "float64"))
    for name, given in {"n_features": n_features, "n_labels": n_labels}.items():
        if given is not None:
            check_count(name, given, 1, _MOST_COLUMNS)
    names = [check_path(path, "paths", "one path or more") for path in paths]
    read = [_read(name, dtype) for name in names]
    found = 1 + max((int(X.indices.max()) for X, *_ in read if X.nnz), default=0)
    said = [sizes[1:] for *_, sizes in read if sizes is not None]
    if n_features is None:
        n_features = max([found, *(sizes[0] for sizes in said)])
    if n_features < found:
        raise ValueError(
            f"n_features={n_features}, but the files have {found} features"
        )
    found = 1 + max(
        (int(label.max()) for _, _, label, _ in read if label.size), default=0
    )
    if n_labels is None:
        n_labels = max([found, *(sizes[1] for sizes in said)])
    parts = []
    for path, (X, ptr, label, sizes) in zip(paths, read):
        most = n_labels if sizes is None else min(n_labels, sizes[2])
        if label.size and label.max() >= most:
            raise ValueError(
                f"{path} has label {label.max()}, and there are {most} labels, from 0 "
                f"to {most - 1}"
            )
        n = ptr.size - 1
        X = sp.csr_matrix((X.data, X.indices, X.indptr), (n, n_features))
        one = np.ones(label.size, dtype=np.int64)
        Y = sp.csr_matrix((one, label, ptr), (n, n_labels))
        parts.append((_align_api_if_sparse(X), _align_api_if_sparse(Y)))
    return parts


def save_sparse_labels(
    path: str | os.PathLike, X: ArrayLike | sp.spmatrix, Y: ArrayLike | sp.spmatrix
) -> None:
    """Write samples of any number of labels in the format of `load_sparse_labels`.

    Values are written with enough digits to read equal numbers.

    Parameters
    ----------
    path : str or path-like
        The file, compressed if its name ends with ``.gz``, ``.bz2`` or ``.xz``. It is
        written to a temporary file, which is renamed at the end, so that an existing
        file stays if the write fails.

    X : array-like or sparse matrix of shape (n_samples, n_features)
        Finite features.

    Y : array-like or sparse matrix of shape (n_samples, n_labels)
        Indicator of the labels, 0 or 1.

    Raises
    ------
    ValueError
        If X and Y have different numbers of samples, a feature is not finite, or Y has
        other values than 0 and 1.

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
    Y = check_array(Y, accept_sparse="csr", input_name="Y")
    check_samples(X.shape[0], Y.shape[0])
    X, Y = X.copy(), as_indicator(Y, "Y")
    X.sum_duplicates()
    X.eliminate_zeros()
    with open_write(path, name="path") as file:
        file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n".encode())
        for i in range(X.shape[0]):
            at = slice(X.indptr[i], X.indptr[i + 1])
            labels = Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist()
            # the shortest decimals that are read as equal numbers
            values = [str(value) for value in X.data[at]]
            pairs = [f"{j}:{v}" for j, v in zip(X.indices[at].tolist(), values)]
            # a reader may skip an empty line
            line = ",".join(map(str, labels)) + " " + " ".join(pairs or ["0:0"])
            file.write(line.encode() + b"\n")


def _read(
    path: str, dtype: np.dtype
) -> tuple[sp.csr_matrix, NDArray, NDArray, tuple[int, int, int] | None]:
    """(X, ptr and labels of each sample, sizes in the first line or None)."""
    with open_read(path, name="paths") as (file, _):
        lines = None
        try:
            head = file.readline()
            start = len(codecs.BOM_UTF8) * head.startswith(codecs.BOM_UTF8)
            sizes = _sizes(head[start:])
            if sizes is None:
                file.seek(start)
            elif max(sizes[1:]) > _MOST_COLUMNS:
                raise ValueError(
                    f"the first line has {sizes[1]} features and {sizes[2]} labels; at "
                    "most 2^31 of each can be read"
                )
            lines = _SampleLines(file, 1 + (sizes is not None))
            X, y = load_svmlight_file(
                lines, dtype=dtype, zero_based=True, multilabel=True
            )
        except DamagedData as exc:
            raise ValueError(f"{path} is damaged: {exc}") from exc
        except (ValueError, OverflowError) as exc:
            place = f"line {lines.number}: " if lines and lines.number else ""
            raise ValueError(
                f"{path} has a line that is not a sample, `label,label,... "
                f"feature:value ...`: {place}{exc}"
            ) from exc
    X = sp.csr_matrix(X)  # by `sparse_interface` an array
    n = len(y)
    if not n:
        raise ValueError(f"{path} holds no samples")
    if X.nnz and X.indices.min() < 0:
        raise ValueError(f"{path} has a feature beyond 2^31 - 1")
    if not np.isfinite(X.data).all():
        row = np.repeat(np.arange(n), np.diff(X.indptr))[~np.isfinite(X.data)][0]
        raise ValueError(
            f"{path} has values that are not finite in {dtype}, first in sample "
            f"{row + 1}"
        )
    if sizes is not None and (n != sizes[0] or (X.nnz and X.indices.max() >= sizes[1])):
        raise ValueError(
            f"{path} says that it holds {sizes[0]} samples of {sizes[1]} features, and "
            f"holds {n} of {X.shape[1]}"
        )
    return X, *_label_entries(path, y), sizes


def _label_entries(path, y):
    """(ptr, label) of labels that were read as a tuple of floats for each sample."""
    ptr = np.concatenate([[0], np.cumsum([len(labels) for labels in y])])
    flat = np.array([label for labels in y for label in labels], dtype=np.float64)
    sample = np.repeat(np.arange(len(y)), np.diff(ptr))
    odd = np.flatnonzero(~((flat >= 0) & (flat == np.rint(flat)) & (flat <= INT32_MAX)))
    if odd.size:
        raise ValueError(
            f"{path}, sample {sample[odd[0]] + 1}: label {flat[odd[0]]:g} is not "
            "an integer from 0 to 2^31 - 1"
        )
    order = np.lexsort((flat, sample))
    flat = flat[order].astype(np.int32)
    twice = np.flatnonzero((flat[1:] == flat[:-1]) & (sample[1:] == sample[:-1]))
    if twice.size:
        raise ValueError(
            f"{path}, sample {sample[twice[0]] + 1}: label {flat[twice[0]]} comes twice"
        )
    return ptr, flat


class _SampleLines:
    """The lines of a file for `load_svmlight_file`, which skips blank lines.

    With several labels, a blank line inside the file may stand for a sample without
    labels and features, so it is an error. number: number of the line that is parsed.
    """

    number = 0

    def __init__(self, file: Any, first: int) -> None:
        self._file, self._first = file, first
        self.read = file.read  # scikit-learn needs the method, but iterates

    def __iter__(self) -> Iterator[bytes]:
        blank = None
        for number, line in enumerate(self._file, self._first):
            if line.isspace():
                blank = blank or number
            elif blank is not None:
                self.number = 0
                raise ValueError(
                    f'line {blank} is blank; write " 0:0" for a sample without labels '
                    "and features"
                )
            else:
                self.number = number
                # Python's numbers may have "_", and scikit-learn ignores "qid:".
                if b"_" in line or b"qid" in line:
                    odd = re.match(rb"[^#]*(_|qid)", line)
                    if odd:
                        raise ValueError(
                            f"{odd[1].decode()!r} is not part of a number: remove it"
                        )
                yield line
        self.number = 0


def _sizes(line: bytes) -> tuple[int, int, int] | None:
    words = line.split()
    if len(words) != 3 or not all(word.isdigit() for word in words):
        return None
    n_samples, n_features, n_labels = map(int, words)
    return n_samples, n_features, n_labels
