"""Labels as paths: one column for each level, shorter paths padded with ""."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._labels import as_labels, is_absent


def as_paths(paths: ArrayLike, name: str = "y") -> NDArray:
    r"""Checked paths as an array of shape (n_samples, n_levels).

    Row i is :math:`(v_1, \dots, v_m, \epsilon, \dots, \epsilon)`: the nodes from the
    child of the root down to the last node of the path, then :math:`\epsilon` = "".
    HiClass has labels in this form, too.

    Parameters
    ----------
    paths : array-like of shape (n_samples, n_levels) or (n_samples,), or list of lists
        Labels by level from the top down: strings or numbers, of one kind at each
        level. Rows may differ in length; "", None, NaN and pandas' NA at the end of a
        row mean that the path has ended. One-dimensional labels are paths of one level.

    name : str, default="y"
        Name of the paths in error messages.

    Returns
    -------
    paths : ndarray of shape (n_samples, n_levels)
        Array of strings, or of objects if a level has numbers.

    Raises
    ------
    ValueError
        If a path has a gap, an empty level above another node; if a level has strings
        and numbers; if there are more than two dimensions (several paths per sample are
        multi-label classification, for which see HiClass).

    Examples
    --------
    >>> from sklstruct.taxonomy import as_paths
    >>> as_paths([["animal", "dog"], ["animal"], ["vehicle", "rail", "tram"]])
    array([['animal', 'dog', ''],
           ['animal', '', ''],
           ['vehicle', 'rail', 'tram']], dtype='<U7')
    """
    return _checked(_table(paths, name), name)


def _table(paths: Any, name: str) -> NDArray:
    """Paths as a 2-D array, short paths padded with ""."""
    if paths is None:
        raise ValueError(f"{name} is None; pass a path for every sample")
    if hasattr(paths, "to_numpy"):  # a data frame or series
        paths = paths.to_numpy()
    elif hasattr(paths, "__array__"):
        paths = np.asarray(paths)
    if isinstance(paths, str | bytes) or not isinstance(paths, Iterable):
        raise ValueError(
            f"{name} must be an array or a list of paths, got {paths!r:.60}"
        )
    if not isinstance(paths, np.ndarray):
        rows = list(paths)
        nested = [isinstance(row, list | tuple | np.ndarray) for row in rows]
        if any(nested):
            if not all(nested):
                odd = rows[nested.index(False)]
                raise ValueError(f"{name} mixes paths and labels, such as {odd!r:.60}")
            if any(isinstance(v, list | tuple | np.ndarray) for r in rows for v in r):
                raise ValueError(_SEVERAL.format(name))
            width = max(len(row) for row in rows)
            paths = np.full((len(rows), width), "", dtype=object)
            for i, row in enumerate(rows):
                paths[i, : len(row)] = row
        else:
            paths = np.array(rows, dtype=object)
    if paths.ndim > 2:
        raise ValueError(_SEVERAL.format(name))
    if paths.ndim == 0 or 0 in paths.shape:
        raise ValueError(f"{name} holds no paths, got shape {paths.shape}")
    return paths[:, None] if paths.ndim == 1 else paths


def _checked(paths: NDArray, name: str) -> NDArray:
    if paths.dtype.kind not in "US":
        paths = paths.astype(object)
        paths[_is_absent(paths).astype(bool)] = ""
    empty = paths == ""
    gap = empty[:, :-1] & ~empty[:, 1:]
    if gap.any():
        i, level = np.argwhere(gap)[0].tolist()
        raise ValueError(
            f"{name}[{i}] = {paths[i].tolist()} leaves out level {level}; a path may "
            'have "" at its end only'
        )
    if paths.dtype == object:
        text = [isinstance(v, str) for v in paths.ravel()]
        if all(text):
            return paths.astype(str)
        for level in range(paths.shape[1]):
            try:
                as_labels(paths[~empty[:, level], level])
            except ValueError as exc:
                raise ValueError(f"{name}, level {level}: {exc}") from None
    return paths


_SEVERAL = (
    "{} has more than two dimensions, several paths per sample; that is multi-label "
    "classification, for which see HiClass (hiclass.MultiLabelLocalClassifierPerNode)"
)
_is_absent = np.frompyfunc(is_absent, 1, 1)
