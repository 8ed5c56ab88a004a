"""WARD: Ward's clustering of the class means."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.cluster.hierarchy import ward

from .._samples import class_means
from ._base import TaxonomyBuilder
from ._bottom_up import N_ROUNDS, merges_in_rounds, parents_of_merges


class WardMerge(TaxonomyBuilder):
    r"""Merges groups of classes by Ward's criterion on the class means ("ward").

    .. math::

        \arg\min_{A, B}\ \frac{|A|\,|B|}{|A| + |B|}\, \|m_A - m_B\|^2 ,

    with :math:`m_A` the mean of the class means in cluster A. Each step merges the pair
    of clusters that least increases the sum of squared distances of the class means
    from the mean of their cluster.

    Parameters
    ----------
    max_depth : int, default=None
        Largest depth of the tree, >= 0; None does not limit it.

    max_leaf : int, default=None
        Nodes with at most `max_leaf` classes are not split, >= 1. None splits down to
        single classes.

    n_rounds : int, default=None
        Depth d >= 0 counted from the leaves: after d rounds the remaining
        :math:`\lceil K / 2^d \rceil` clusters become the children of the root. None
        merges until one cluster is left. See `GreedyMerge`.

    Raises
    ------
    MemoryError
        From `build`: if the distances (8 K² bytes) or class means do not fit into this
        machine's memory.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.taxonomy import WardMerge
    >>> WardMerge().build(*load_iris(return_X_y=True)).to_nested()
    [[0], [[1], [2]]]
    """

    short_name = "ward"
    _matrix = "matrix of distances"

    n_rounds: int | None = None

    _parameter_constraints: ClassVar[dict] = {"n_rounds": N_ROUNDS}

    def _parents(self, X, codes, weight, rng):
        k = int(codes.max()) + 1
        merges = ward(class_means(X, codes, weight))[:, :2].astype(np.int64).tolist()
        merges = merges[: merges_in_rounds(k, self.n_rounds)]
        return parents_of_merges(merges, k, self.n_rounds)
