"""WARD: Ward's clustering of the class means."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.cluster.hierarchy import ward

from ..._checks import check_memory
from ._bottom_up import N_ROUNDS, merges_in_rounds, parents_of_merges
from ._class_means import ClassMeansBuilder


class WardMerge(ClassMeansBuilder):
    r"""Ward's agglomerative clustering of the class means ("ward").

    .. math::

        \arg\min_{A, B}\ \frac{|A|\,|B|}{|A| + |B|}\, \|m_A - m_B\|^2 ,

    with :math:`m_A` the mean of the class means in cluster A: each step merges the pair
    of clusters that adds least to the sum of squared distances of the class means from
    the mean of their cluster.

    Parameters
    ----------
    max_depth : int, default=None
        Largest depth of the tree, >= 0; None is no limit.

    max_leaf : int, default=None
        Nodes of at most so many classes are not divided, >= 1. None divides down
        to single classes.

    n_rounds : int, default=None
        Depth d >= 0 counted from the leaves: after d rounds the remaining
        :math:`\lceil K / 2^d \rceil` clusters become the children of the root. None
        merges to the end. See `GreedyMerge`.

    whiten : bool, default=False
        Whether distances use the inverse of the pooled within-class covariance (plus
        the ridge `delta`).

    delta : float, default=1.0
        Ridge >= 0 of the covariance; used with ``whiten=True`` only.

    max_bytes : int, default=2**31
        Largest dense array; K classes need 8 K² bytes.

    Raises
    ------
    MemoryError
        From `build`: if the distances, class means or a Gram matrix are larger than
        `max_bytes`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.taxonomy import WardMerge
    >>> WardMerge().build(*load_iris(return_X_y=True)).to_nested()
    [[0], [[1], [2]]]
    """

    n_rounds: int | None = None

    _parameter_constraints: ClassVar[dict] = {
        **ClassMeansBuilder._parameter_constraints,
        "n_rounds": N_ROUNDS,
    }

    def _parents(self, X, codes, weight, rng):
        k = int(codes.max()) + 1
        check_memory(
            8 * k * k,
            self.max_bytes,
            f"the distances of {k} classes in 'ward'",
            "use the builder 'cut' or 'kmeans', or raise max_bytes",
        )
        merges = ward(self._means(X, codes, weight))[:, :2].astype(np.int64).tolist()
        merges = merges[: merges_in_rounds(k, self.n_rounds)]
        return parents_of_merges(merges, k, self.n_rounds)
