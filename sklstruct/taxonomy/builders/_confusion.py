"""CONF: spectral splits of the confusion matrix of a surrogate classifier."""

from __future__ import annotations

from dataclasses import field
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.utils.validation import has_fit_parameter

from ..._checks import check_learned
from ..._compat import HasMethods, Interval
from .._samples import even_folds
from ._base import TaxonomyBuilder
from ._top_down import sides, split_top_down

# Folds of the held-out predictions.
_FOLDS = 3
# Eigenvalues that differ by less count as equal: their eigenvectors are not unique.
_DEGENERATE = 1e-9


class ConfusionSplit(TaxonomyBuilder):
    r"""Splits the classes into two groups with few confusions between them ("conf").

    With C the weighted confusion matrix of a classifier (parameter `estimator`) on
    three held-out folds, whose rows are scaled to sum to 1,

    .. math::

        W = \tfrac12 (C + C^\top) + \mathrm{smoothing} / K, \qquad
        L = I - D^{-1/2} W D^{-1/2},

    where D is the diagonal matrix of the row sums of W at the node. The signs of the
    eigenvector of the second smallest eigenvalue of L split the classes. If this
    eigenvector is not unique, for example because no classes are confused, the split is
    random and balanced.

    Parameters
    ----------
    estimator : classifier, default=None
        Surrogate with ``fit`` and ``predict``; None is ``RidgeClassifier()``. If its
        ``fit`` takes no `sample_weight`, only the confusions are weighted.

    smoothing : float, default=0.01
        Mass >= 0 spread evenly over each row.

    max_depth : int, default=None
        Largest depth of the tree, >= 0; None does not limit it.

    max_leaf : int, default=None
        Nodes with at most `max_leaf` classes are not split, >= 1. None splits down to
        single classes.

    random_state : int, RandomState or None, default=None
        Seed of the folds and of the random splits.

    Attributes
    ----------
    n_random_splits_ : int
        Number of random splits in the last `build`. Nodes of two classes, which have
        only one split, do not count.

    n_splits_ : int
        Number of all splits in the last `build`; nodes of two classes do not count.

    Raises
    ------
    MemoryError
        From `build`: if the K × K confusion matrix, of 8 K² bytes, does not fit into
        this machine's memory.

    References
    ----------
    Bengio, Weston, Grangier (2010), Label embedding trees for large multi-class tasks,
    NIPS. Griffin and Perona (2008), Learning and using taxonomies for fast visual
    categorization, CVPR.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.taxonomy import ConfusionSplit
    >>> builder = ConfusionSplit(random_state=0)
    >>> builder.build(*load_iris(return_X_y=True)).to_nested()
    [[0], [[1], [2]]]
    """

    short_name = "conf"
    _matrix = "confusion matrix"

    estimator: Any = field(default=None, kw_only=False)
    smoothing: float = 0.01
    random_state: int | RandomState | None = None

    _parameter_constraints: ClassVar[dict] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "smoothing": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    def _parents(self, X, codes, weight, rng):
        k = int(codes.max()) + 1
        confusion = self._held_out_confusion(X, codes, weight, rng)
        affinity = 0.5 * (confusion + confusion.T) + self.smoothing / k
        self.n_random_splits_ = self.n_splits_ = 0

        def split(members, _):
            self.n_splits_ += 1
            score = fiedler(affinity[np.ix_(members, members)])
            if score is None or (score > 0).all() or not (score > 0).any():
                self.n_random_splits_ += 1
                side = np.zeros(members.size, dtype=bool)
                side[rng.permutation(members.size)[: members.size // 2]] = True
                return sides(members, side)
            return sides(members, score > 0)

        return split_top_down(k, split, self.max_depth, self.max_leaf)

    def _held_out_confusion(self, X, codes, weight, rng):
        """Weights of (true, predicted) classes; rows sum to 1."""
        k = int(codes.max()) + 1
        # The only sample of a class is held out, too: the surrogate of its fold does
        # not know the class.
        fold = even_folds(codes, _FOLDS, rng)
        confusion = np.zeros((k, k))
        surrogate = RidgeClassifier() if self.estimator is None else self.estimator
        weighted = (weight != 1).any() and has_fit_parameter(surrogate, "sample_weight")
        for f in range(_FOLDS):
            test = fold == f
            train = ~test
            known = np.unique(codes[train])
            if not test.any() or known.size == 0:
                continue
            if known.size == 1:
                predicted = np.full(test.sum(), known[0])
            else:
                # Unit weights are not passed: some solvers are slower with weights.
                options = {"sample_weight": weight[train]} if weighted else {}
                model = clone(surrogate).fit(X[train], codes[train], **options)
                predicted = model.predict(X[test])
                check_learned("estimator", predicted, known)
            np.add.at(confusion, (codes[test], predicted), weight[test])
        total = confusion.sum(axis=1, keepdims=True)
        return np.divide(confusion, total, out=confusion, where=total > 0)


def fiedler(affinity: NDArray) -> NDArray | None:
    """Second eigenvector of the normalised Laplacian, or None if it is not unique."""
    k = affinity.shape[0]
    degree = affinity.sum(axis=1)
    if (degree <= 0).any():
        return None
    scale = 1.0 / np.sqrt(degree)
    laplacian = -affinity * scale[:, None] * scale
    laplacian.flat[:: k + 1] += 1.0
    value, vector = scipy.linalg.eigh(
        laplacian, subset_by_index=[0, 2], check_finite=False
    )
    if value[1] - value[0] < _DEGENERATE or value[2] - value[1] < _DEGENERATE:
        return None
    return vector[:, 1] * scale
