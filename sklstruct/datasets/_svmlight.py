"""Sparse sets with many classes, read from files in the svmlight format."""

from __future__ import annotations

import bz2
import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from sklearn.datasets import load_svmlight_file

_PARTS = ("train", "heldout", "test")
_SUFFIXES = ("", ".gz", ".bz2")
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

    sklearn.datasets.load_svmlight_file : Reads one file, of other targets too.

    Notes
    -----
    Samples of several labels each are another problem, for which there are omikuji,
    napkinXC and PECOS; ``load_svmlight_file(path, multilabel=True)`` reads them.

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
    if not paths:
        raise ValueError("paths is empty; pass at least one file")
    if n_features is not None and not (
        isinstance(n_features, (int, np.integer)) and n_features >= 1
    ):
        raise ValueError(f"n_features must be an integer >= 1, got {n_features!r}")
    if not (isinstance(zero_based, (bool, np.bool_)) or zero_based == "auto"):
        raise ValueError(
            f'zero_based must be True, False or "auto", got {zero_based!r}'
        )
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype}")
    read = [_read(os.fspath(path), dtype) for path in paths]
    _count_from_zero([X for X, _, sizes in read if sizes is None], zero_based)
    width = _n_columns(read, n_features)
    labels = [y for _, y, _ in read]
    _check_labels(paths, labels)
    integers = all((y == np.rint(y)).all() for y in labels)
    return [
        (
            sp.csr_matrix((X.data, X.indices, X.indptr), (y.size, width)),
            y.astype(np.int64) if integers else y,
        )
        for X, y, _ in read
    ]


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
    path: str, dtype: np.dtype
) -> tuple[sp.csr_matrix, NDArray, tuple[int, int, int] | None]:
    """(X, y, sizes in the first line or None); features as they are numbered."""
    opener: Callable = _OPENERS.get(Path(path).suffix, open)
    try:
        with opener(path, "rb") as file:
            sizes = _sizes(file.readline())
            if sizes is None:
                file.seek(0)
            try:
                X, y = load_svmlight_file(file, dtype=dtype, zero_based=True)
            except (ValueError, OverflowError) as exc:
                raise ValueError(_fault(path, exc)) from exc
    except FileNotFoundError as exc:
        raise FileNotFoundError(
            f"no file {path}; data sets are not part of this package, pass the path of "
            "one that you have"
        ) from exc
    except (EOFError, OSError, zlib.error) as exc:
        if getattr(exc, "errno", None) is not None:  # the system's: no rights, no disk
            raise
        raise ValueError(f"{path} is damaged or not compressed: {exc}") from exc
    if not y.size:
        raise ValueError(f"{path} holds no samples")
    if X.nnz and X.indices.min() < 0:
        raise ValueError(f"{path} has a feature beyond 2^31 - 1")
    if not (np.isfinite(y).all() and np.isfinite(X.data).all()):
        raise ValueError(
            f"{path} has labels or values that are not finite in {dtype}, first in "
            f"sample {_first_not_finite(X, y) + 1}"
        )
    if sizes is not None and (
        y.size != sizes[0] or (X.nnz and X.indices.max() >= sizes[1])
    ):
        raise ValueError(
            f"{path} says that it holds {sizes[0]} samples of {sizes[1]} features, and "
            f"holds {y.size} of {X.shape[1]}"
        )
    return X, y, sizes


def _first_not_finite(X: sp.csr_matrix, y: NDArray) -> int:
    row = np.repeat(np.arange(y.size), np.diff(X.indptr))
    bad = row[~np.isfinite(X.data)]
    return int(min([*np.flatnonzero(~np.isfinite(y))[:1], *bad[:1]]))


def _sizes(line: bytes) -> tuple[int, int, int] | None:
    words = line.split()
    if len(words) != 3 or not all(word.isdigit() for word in words):
        return None
    n_samples, n_features, n_labels = map(int, words)
    return n_samples, n_features, n_labels


def _fault(path: str, exc: Exception) -> str:
    text = str(exc)
    if "," in text.partition("float: ")[2]:
        return (
            f"{path} has samples with several labels ({text}), which is another "
            "problem; sklearn.datasets.load_svmlight_file reads them with "
            "multilabel=True"
        )
    return (
        f"{path} has a line that is no sample, `label feature:value ...` with one "
        f"label: {text}"
    )
