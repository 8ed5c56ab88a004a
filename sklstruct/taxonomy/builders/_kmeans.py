"""KMEANS: bisecting 2-means of the class means."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from ..._compat import Interval
from .._directions import weighted_means
from .._samples import class_means
from ._base import TaxonomyBuilder
from ._top_down import leading_vectors, sides, split_top_down


class KMeansSplit(TaxonomyBuilder):
    r"""Splits the class means into two clusters by k-means ("kmeans").

    With :math:`\mu_c` the mean of class c, the classes of every node are split into A
    and B by

    .. math::

        \min_{A, B} \sum_{P \in \{A, B\}} \sum_{c \in P}
        \Bigl\|\mu_c - \tfrac{1}{|P|} \sum_{c' \in P} \mu_{c'}\Bigr\|^2
        \qquad\text{or, spherical,}\qquad
        \max_{A, B} \sum_{P \in \{A, B\}}
        \Bigl\|\sum_{c \in P} \mu_c / \|\mu_c\|\Bigr\| ,

    with Lloyd's algorithm. With `balanced` the classes are sorted by the difference of
    their distances to the two centres, and the sorted list is halved.

    Parameters
    ----------
    balanced : bool, default=False
        Whether both sides get half of the classes.

    spherical : bool, default=False
        Whether means are compared by their directions. Class means of sparse X then
        stay sparse, with O(nnz) memory for any number of features.

    n_init : int, default=4
        Number of starts per node, >= 1. The first start is the split by the leading
        principal component (unless `spherical`); other starts are random pairs of
        classes as centres.

    max_iter : int, default=100
        Largest number of iterations from a start, >= 1. Spherical splits of texts
        rarely take more than 20.

    max_depth, max_leaf : as in `WardMerge`
        Limits of the tree. No K × K matrix is made.

    random_state : int, RandomState or None, default=None
        Seed of the starts.

    Raises
    ------
    MemoryError
        From `build`: if dense class means do not fit into this machine's memory.

    References
    ----------
    Balanced and spherical: Y. Prabhu, A. Kag, S. Harsola, R. Agrawal, M. Varma,
    "Parabel: partitioned label trees for extreme classification", WWW 2018, section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.taxonomy import KMeansSplit
    >>> KMeansSplit(random_state=0).build(*load_iris(return_X_y=True)).to_nested()
    [[0], [[1], [2]]]
    """

    short_name = "kmeans"

    balanced: bool = False
    spherical: bool = False
    n_init: int = 4
    max_iter: int = 100
    random_state: int | RandomState | None = None

    _parameter_constraints: ClassVar[dict] = {
        "balanced": ["boolean"],
        "spherical": ["boolean"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def _parents(self, X, codes, weight, rng):
        options = self.n_init, rng, self.balanced, self.max_iter
        if self.spherical:
            # means of unit length, sparse for sparse X; means of length 0 stay 0
            k = int(codes.max()) + 1
            points = normalize(weighted_means(X, codes, weight, k), copy=False)

            def split(members, points):
                side = two_directions(points, *options)
                left, right, *_ = sides(members, side)
                # `sides` may exchange the sides, or replace a trivial split
                side = np.isin(members, left)
                return left, right, _part(points, side), _part(points, ~side)

            return split_top_down(
                points.shape[0], split, self.max_depth, self.max_leaf, points
            )
        means = class_means(X, codes, weight)

        def split_means(members, _):
            return sides(members, two_means(means[members], *options))

        return split_top_down(len(means), split_means, self.max_depth, self.max_leaf)


def _part(points: Any, side: NDArray) -> Any:
    """The rows with `side`; empty columns of a sparse matrix are removed."""
    points = points[np.flatnonzero(side)]
    if not sp.issparse(points):
        return points
    used = np.zeros(points.shape[1], dtype=bool)
    used[points.indices] = True
    number = np.cumsum(used, dtype=points.indices.dtype) - 1
    return sp.csr_array(
        (points.data, number[points.indices], points.indptr),
        shape=(points.shape[0], int(used.sum())),
    )


def two_directions(
    points: Any, n_init: int, rng: RandomState, balanced: bool, max_iter: int
) -> NDArray:
    """Boolean side per row of unit length, the best of `n_init` spherical 2-means.

    Every iteration makes two products with the points: the sums of both sides, and the
    difference of the similarities with both sums.
    """
    n = points.shape[0]
    transposed = points.T  # CSC of the same arrays
    total = transposed @ np.ones(n, dtype=points.dtype)
    best, best_value = np.arange(n) < (n + 1) // 2, 0.0
    for _ in range(n_init):
        p, q = rng.choice(n, 2, replace=False)
        pair = np.zeros(n, dtype=points.dtype)
        pair[[p, q]] = 1, -1
        axis = transposed @ pair
        value, kept = 0.0, best
        for i in range(max_iter):
            side = _halves(points @ axis) if balanced else points @ axis > 0
            a = transposed @ side.astype(points.dtype)
            b = total - a
            norm_a, norm_b = np.linalg.norm(a), np.linalg.norm(b)
            # smaller gains are rounding errors in single precision
            if i > 0 and norm_a + norm_b <= value * (1 + 1e-6):
                break
            value, kept = float(norm_a + norm_b), side
            if norm_a == 0 or norm_b == 0:
                break
            axis = a / norm_a - b / norm_b
        if value > best_value and 0 < kept.sum() < n:
            best, best_value = kept, value
    return best


def two_means(
    points: NDArray, n_init: int, rng: RandomState, balanced: bool, max_iter: int
) -> NDArray:
    """Boolean side per point, the best of `n_init` runs of Lloyd's algorithm."""
    points = points - points.mean(axis=0)
    n = len(points)
    best, best_value = np.arange(n) < (n + 1) // 2, 0.0
    for run in range(n_init):
        if run == 0:
            score = leading_vectors(points, 1)[0][:, 0]
        else:
            p, q = rng.choice(n, 2, replace=False)
            score = _nearer(points, points[p], points[q])
        value = 0.0
        for _ in range(max_iter):
            side = _halves(score) if balanced else score > 0
            m = int(side.sum())
            if m in (0, n):
                break
            # The mean of all points is 0, so the sum of one side gives both means, and
            # the between-cluster scatter is n/(m(n - m)) times its square.
            total = points[side].sum(axis=0)
            new = float(total @ total) * n / (m * (n - m))
            if new <= value * (1 + 1e-12):
                break
            value, kept = new, side
            score = _nearer(points, total / m, -total / (n - m))
        if value > best_value:
            best, best_value = kept, value
    return best


def _nearer(points: NDArray, a: NDArray, b: NDArray) -> NDArray:
    """Half the difference of the squared distances to b and to a."""
    return points @ (a - b) - 0.5 * (a @ a - b @ b)


def _halves(score: NDArray) -> NDArray:
    """Mask of the larger half of the scores; equal scores keep their order."""
    side = np.zeros(score.size, dtype=bool)
    side[np.argsort(-score, kind="stable")[: (score.size + 1) // 2]] = True
    return side
