"""Sparse, text-like samples: common words, words of a group and words of a class."""

from __future__ import annotations

from math import isqrt
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator, RandomState
from numpy.typing import DTypeLike, NDArray

from .._checks import INT32_MAX, as_random_state, check_choice, check_memory
from .._compat import Interval, _align_api_if_sparse, validate_params

# Words per block of draws; the arrays of a block take about 60 bytes per word.
_BLOCK = 2**20


_COUNT = [Interval(Integral, 1, INT32_MAX, closed="both")]
_SHARE = [Interval(Real, 0, 1, closed="both")]


@validate_params(
    {
        "n_samples": _COUNT,
        "n_classes": _COUNT,
        "n_features": _COUNT,
        "n_groups": [*_COUNT, None],
        "n_words": _COUNT,
        "n_class_words": _COUNT,
        "n_group_words": _COUNT,
        "class_share": _SHARE,
        "group_share": _SHARE,
        "exponent": [Interval(Real, 0, None, closed="neither")],
        "return_groups": ["boolean"],
        "return_words": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def make_sparse_classes(
    n_samples: int = 10_000,
    n_classes: int = 1000,
    n_features: int = 100_000,
    *,
    n_groups: int | None = None,
    n_words: int = 40,
    n_class_words: int = 30,
    n_group_words: int = 60,
    class_share: float = 0.12,
    group_share: float = 0.18,
    exponent: float = 3.0,
    dtype: DTypeLike = np.float32,
    return_groups: bool = False,
    return_words: bool = False,
    random_state: int | RandomState | Generator | None = None,
) -> tuple[Any, ...]:
    r"""Sparse samples of many classes in groups, like short texts on many subjects.

    Every class and every group of classes has a list of words, drawn uniformly from the
    d features. A sample draws its class, then `n_words` words, each from

    .. math::

        \begin{cases}
        \text{the list of its class} & \text{with probability } \mathtt{class\_share},\\
        \text{the list of its group} & \text{with probability } \mathtt{group\_share},\\
        \min(\lfloor d\, u^{\mathtt{exponent}} \rfloor, d - 1),\
        u \sim \mathcal U[0, 1) & \text{otherwise},
        \end{cases}

    The third case gives common words with a long tail: the first features are the most
    frequent. A word that was drawn c times has the value 1 + ln c, and every sample is
    scaled to unit length. All draws are with replacement, so lists may share words and
    a class may have no sample.

    Parameters
    ----------
    n_samples : int, default=10_000
        Number of samples n, >= 1.

    n_classes : int, default=1000
        Number of classes K, >= 1.

    n_features : int, default=100_000
        Number of features d, >= 1.

    n_groups : int, default=None
        Number of groups, 1 to K; None is :math:`\lfloor \sqrt K \rfloor`. Classes are
        distributed evenly over the groups, at random.

    n_words : int, default=40
        Number of words of a sample, >= 1; the largest number of entries of a row.

    n_class_words, n_group_words : int, default=30 and 60
        Lengths of the lists, >= 1.

    class_share, group_share : float, default=0.12 and 0.18
        Probabilities that a word is from the list of the class, and from the list of
        the group; >= 0, with a sum of at most 1.

    exponent : float, default=3.0
        Exponent of the distribution of common words, > 0. 1 is uniform; larger values
        make the first features more frequent.

    dtype : {float32, float64}, default=float32
        Type of X.

    return_groups : bool, default=False
        Whether to also return the group of every class, the true hierarchy.

    return_words : bool, default=False
        Whether to also return the lists of words, which determine the best possible
        classifier.

    random_state : int, RandomState, Generator or None, default=None
        Seed. Another call draws other classes: for training and test samples, draw all
        samples at once and split them.

    Returns
    -------
    X : CSR matrix of shape (n_samples, n_features)
        Rows of unit length, sorted indices.

    y : int64 ndarray of shape (n_samples,)
        Classes, 0 to n_classes - 1.

    groups : int64 ndarray of shape (n_classes,)
        Group of every class. Only with ``return_groups=True``.

    class_words : int32 ndarray of shape (n_classes, n_class_words)
        List of every class. Only with ``return_words=True``.

    group_words : int32 ndarray of shape (n_groups, n_group_words)
        List of every group. Only with ``return_words=True``.

    Raises
    ------
    ValueError
        If a parameter is out of its range, there are more groups than classes, or the
        sum of `class_share` and `group_share` is above 1.

    MemoryError
        If the matrix does not fit into this machine's memory.

    See Also
    --------
    make_clustered_classes : Dense features with a hierarchy of classes.

    Examples
    --------
    >>> from sklstruct.datasets import make_sparse_classes
    >>> X, y, groups = make_sparse_classes(
    ...     500, 50, 2000, return_groups=True, random_state=0)
    >>> X.shape, groups.max() + 1
    ((500, 2000), np.int64(7))
    >>> round(float(X[0].multiply(X[0]).sum()), 6)
    1.0
    """
    n_groups = isqrt(n_classes) if n_groups is None else n_groups
    if n_groups > n_classes:
        raise ValueError(
            f"n_groups must be at most n_classes={n_classes}, got {n_groups}"
        )
    if class_share + group_share > 1:
        raise ValueError(
            "class_share and group_share must have a sum of at most 1, got "
            f"{class_share + group_share!r}"
        )
    dtype = np.dtype(dtype)
    check_choice("dtype", dtype, ("float32", "float64"))
    entries = float(n_samples) * n_words
    lists = float(n_classes) * n_class_words + float(n_groups) * n_group_words
    # blocks and their concatenation are in memory at the same time
    check_memory(
        2 * entries * (4 + dtype.itemsize) + 4 * lists,
        f"{n_samples} samples of {n_words} words",
        "ask for fewer samples or words",
    )
    rng = as_random_state(random_state)
    groups = rng.permutation(n_classes) % n_groups
    of_class = rng.randint(n_features, size=(n_classes, n_class_words), dtype=np.int32)
    of_group = rng.randint(n_features, size=(n_groups, n_group_words), dtype=np.int32)
    y = rng.randint(n_classes, size=n_samples)

    def words(label: NDArray) -> NDArray:
        """Drawn words, one row per sample."""
        shape = label.size, n_words
        source = rng.random_sample(shape)
        place = rng.random_sample(shape)
        common = np.minimum(n_features * place**exponent, n_features - 1)
        drawn = common.astype(np.int32)
        row, _ = at = np.nonzero(source < class_share)
        drawn[at] = of_class[label[row], (n_class_words * place[at]).astype(np.intp)]
        own = class_share + group_share
        row, _ = at = np.nonzero((source >= class_share) & (source < own))
        column = (n_group_words * place[at]).astype(np.intp)
        drawn[at] = of_group[groups[label[row]], column]
        return drawn

    step = max(1, _BLOCK // n_words)
    blocks = [
        _log_counts(words(y[start : start + step]), dtype)
        for start in range(0, n_samples, step)
    ]
    data, indices, n_entries = (np.concatenate(part) for part in zip(*blocks))
    del blocks
    indptr = np.concatenate([[0], np.cumsum(n_entries)])
    shape = n_samples, n_features
    X = sp.csr_matrix((data, indices, indptr), shape=shape)
    X.has_canonical_format = True
    found: tuple[Any, ...] = (_align_api_if_sparse(X), y)
    found += (groups,) if return_groups else ()
    found += (of_class, of_group) if return_words else ()
    return found


def _log_counts(words: NDArray, dtype: np.dtype) -> tuple[NDArray, NDArray, NDArray]:
    """(values of rows of unit length, words, number of entries of each row)."""
    words.sort(axis=1)
    first = np.ones(words.shape, dtype=bool)
    np.not_equal(words[:, 1:], words[:, :-1], out=first[:, 1:])
    start = np.flatnonzero(first)
    count = np.diff(np.append(start, words.size))
    value = 1 + np.log(count)
    n_entries = first.sum(axis=1)
    ends = np.cumsum(n_entries)
    norm = np.sqrt(np.add.reduceat(value * value, ends - n_entries))
    value /= np.repeat(norm, n_entries)
    return value.astype(dtype), words.ravel()[start], n_entries
