"""WARD, KMEANS and RAND: class means clustered, and the control."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from scipy.cluster.hierarchy import ward

from sklstruct._compat import Interval
from sklstruct.taxonomy._builders._base import (
    TaxonomyBuilder,
    _sides,
    leading_vectors,
    parents_of_merges,
    split_top_down,
)
from sklstruct.taxonomy._proximity import (
    ClassStatistics,
    _sum_by_class,
    check_memory,
)


def class_means(X, codes, weight, max_bytes, *, whiten=False, delta=1.0):
    """Dense class means, in the features or with the within-class covariance I."""
    k = int(codes.max()) + 1
    check_memory(
        8 * k * X.shape[1],
        max_bytes,
        f"{k} x {X.shape[1]} class means",
        "reduce the features or raise max_bytes",
    )
    if whiten:
        stats = ClassStatistics(X, codes, weight, max_bytes=max_bytes)
        return stats.whitened_means(delta)
    total = np.bincount(codes, weight, minlength=k)[:, None]
    return _sum_by_class(X, codes, k, weight) / total


class WardMerge(TaxonomyBuilder):
    """Ward's agglomerative clustering of the class means ("ward").

    Merges the pair of clusters that adds least to the sum of squared distances of the
    class means from the mean of their cluster.

    Parameters
    ----------
    max_depth : int, default=None
        Largest depth of the tree, >= 0; None is no limit.
    whiten : bool, default=False
        Measure distances with the inverse of the pooled within-class covariance
        (plus ridge `delta`).
    delta : float, default=1.0
        Ridge >= 0 of the covariance. Without ``whiten=True`` it has no effect, nor
        has the `delta` of a classifier whose taxonomy is "ward" or "kmeans".
    max_bytes : int, default=2**31
        Largest dense array; K classes need 8 K² bytes.

    Raises
    ------
    MemoryError
        From `build`: distances, class means or a Gram matrix beyond `max_bytes`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.taxonomy import WardMerge
    >>> WardMerge().build(*load_iris(return_X_y=True)).to_nested()
    [[0], [[1], [2]]]
    """

    _parameter_constraints: dict = {
        **TaxonomyBuilder._parameter_constraints,
        "whiten": ["boolean"],
        "delta": [Interval(Real, 0, None, closed="left")],
        "max_bytes": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, *, max_depth=None, whiten=False, delta=1.0, max_bytes=2**31):
        self.max_depth = max_depth
        self.whiten = whiten
        self.delta = delta
        self.max_bytes = max_bytes

    def _parents(self, X, codes, weight, rng):
        k = int(codes.max()) + 1
        check_memory(
            8 * k * k,
            self.max_bytes,
            f"the distances of {k} classes in 'ward'",
            "take the builder 'cut' or 'kmeans', or raise max_bytes",
        )
        means = class_means(
            X, codes, weight, self.max_bytes, whiten=self.whiten, delta=self.delta
        )
        merges = ward(means)[:, :2].astype(np.int64).tolist()
        return parents_of_merges(merges, k)


class KMeansSplit(TaxonomyBuilder):
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

    _parameter_constraints: dict = {
        **WardMerge._parameter_constraints,
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        n_init=4,
        max_depth=None,
        whiten=False,
        delta=1.0,
        max_bytes=2**31,
        random_state=None,
    ):
        self.n_init = n_init
        self.max_depth = max_depth
        self.whiten = whiten
        self.delta = delta
        self.max_bytes = max_bytes
        self.random_state = random_state

    def _parents(self, X, codes, weight, rng):
        means = class_means(
            X, codes, weight, self.max_bytes, whiten=self.whiten, delta=self.delta
        )

        def split(members, _):
            return _sides(members, two_means(means[members], self.n_init, rng))

        return split_top_down(len(means), split, self.max_depth)


def two_means(points, n_init, rng):
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


class RandomSplit(TaxonomyBuilder):
    """Balanced random bisection ("rand"): the control.

    Parameters
    ----------
    max_depth : int, default=None
        Largest depth of the tree, >= 0; None is no limit.
    random_state : int, RandomState or None, default=None
        Seed.

    Examples
    --------
    >>> from sklstruct.taxonomy import RandomSplit
    >>> tree = RandomSplit(random_state=0).build([[0.0]] * 8, range(8))
    >>> tree.depth, tree.n_nodes
    (3, 15)
    """

    _parameter_constraints: dict = {
        **TaxonomyBuilder._parameter_constraints,
        "random_state": ["random_state"],
    }

    def __init__(self, *, max_depth=None, random_state=None):
        self.max_depth = max_depth
        self.random_state = random_state

    def _parents(self, X, codes, weight, rng):
        k = int(codes.max()) + 1
        order = rng.permutation(k)
        parent, leaf = split_top_down(
            k, lambda m, _: (m[: m.size // 2], m[m.size // 2 :], None, None)
        )
        return parent, leaf[order]
