"""KMEANS: bisecting 2-means of the class means."""

from __future__ import annotations

from numbers import Integral
from typing import ClassVar

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from ..._compat import Interval
from ._class_means import ClassMeansBuilder
from ._top_down import leading_vectors, sides, split_top_down

__all__ = ["KMeansSplit"]


class KMeansSplit(ClassMeansBuilder):
    """Bisecting 2-means of the class means ("kmeans").

    Parameters
    ----------
    n_init : int, default=4
        Starts per node, >= 1: the split by the leading principal component, then
        random pairs of classes.

    max_depth, whiten, delta, max_bytes
        See `WardMerge`; no K × K matrix is made.

    random_state : int, RandomState or None, default=None
        Seed of the starts.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.taxonomy import KMeansSplit
    >>> KMeansSplit(random_state=0).build(*load_iris(return_X_y=True)).to_nested()
    [[0], [[1], [2]]]
    """

    name = "kmeans"
    n_init: int = 4
    random_state: int | RandomState | None = None

    _parameter_constraints: ClassVar[dict] = {
        **ClassMeansBuilder._parameter_constraints,
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def _parents(self, X, codes, weight, rng):
        means = self._means(X, codes, weight)

        def split(members, _):
            return sides(members, two_means(means[members], self.n_init, rng))

        return split_top_down(len(means), split, self.max_depth)


def two_means(points: NDArray, n_init: int, rng: RandomState) -> NDArray:
    """Boolean side per point, the best of `n_init` runs of Lloyd's algorithm."""
    points = points - points.mean(axis=0)
    n = len(points)
    if n == 2:
        return np.array([True, False])
    best, best_value = np.arange(n) < (n + 1) // 2, 0.0
    for run in range(n_init):
        if run == 0:
            side = leading_vectors(points, 1)[0][:, 0] > 0
        else:
            p, q = rng.choice(n, 2, replace=False)
            side = _closer(points, points[p], points[q])
        value = 0.0
        for _ in range(100):
            m = int(side.sum())
            if m in (0, n):
                break
            # The mean of all is 0, so one side's sum gives both means, and the
            # between-cluster scatter is n/(m(n - m)) times its square.
            total = points[side].sum(axis=0)
            new = float(total @ total) * n / (m * (n - m))
            if new <= value * (1 + 1e-12):
                break
            value = new
            kept = side
            side = _closer(points, total / m, -total / (n - m))
        if value > best_value:
            best, best_value = kept, value
    return best


def _closer(points, a, b):
    return points @ (a - b) > 0.5 * (a @ a - b @ b)
