"""The protocol of builders, and the engines they share: top-down and from merges."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from sklstruct._compat import Interval, StrOptions
from sklstruct._parallel import single_blas_thread
from sklstruct.taxonomy._proximity import (
    ClassStatistics,
    check_samples,
    encode_classes,
)
from sklstruct.taxonomy._taxonomy import Taxonomy

# Relative trace below which a Gram got by subtraction is computed from the rows
# instead: the difference of two sums has lost 6 of 16 digits there.
_CANCELLED = 1e-6


class TaxonomyBuilder(BaseEstimator):
    """Base of all builders.

    A subclass that learns implements ``_parents(X, codes, weight, rng)``: float X
    (dense or CSR), the class 0 ... K - 1 of each row (K >= 2, none empty), positive
    weights, and a RandomState in; ``parent`` (n_nodes,) in any numbering and
    ``leaf_of_class`` (K,) out. One that has a tree already returns it from
    ``_tree(X, codes, weight, classes)``. Builders keep nothing of the data.
    """

    _parameter_constraints: dict = {
        "max_depth": [Interval(Integral, 0, None, closed="left"), None],
    }

    def build(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Taxonomy:
        """Learn a taxonomy of the classes in y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite features.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0; samples of weight 0 count as absent, and so does a class that
            has no others.

        Returns
        -------
        taxonomy : Taxonomy
            Over the sorted labels in y, of depth `max_depth` at most.

        Raises
        ------
        ValueError
            A parameter out of its range; features that are NaN, infinite or so large
            that squares overflow (beyond 1.3e150), a malformed sparse matrix,
            continuous labels, lengths that differ, negative or NaN weights, no
            positive weight.
        MemoryError
            A dense array beyond `max_bytes`, of builders that have this parameter; the
            message says how large, and what to do.
        """
        self._validate_params()
        X, y, weight = check_samples(X, y, sample_weight)
        classes, codes = encode_classes(y)
        taxonomy = self._tree(X, codes, weight, classes)
        return taxonomy if self.max_depth is None else taxonomy.cut(self.max_depth)

    def _tree(self, X, codes, weight, classes) -> Taxonomy:
        if classes.size == 1 or self.max_depth == 0:
            return Taxonomy.flat(classes)
        rng = check_random_state(getattr(self, "random_state", None))
        # A build is thousands of small products. On a busy machine with two cores, two
        # BLAS threads took 13 to 45 times as long as one.
        with single_blas_thread():
            parent, leaf = self._parents(X, codes, weight, rng)
        return Taxonomy(parent, leaf, classes)

    def _parents(self, X, codes, weight, rng) -> tuple[NDArray, NDArray]:
        raise NotImplementedError

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ProximityBuilder(TaxonomyBuilder):
    """Base of the builders that look at the factored proximity matrix."""

    _parameter_constraints: dict = {
        **TaxonomyBuilder._parameter_constraints,
        "delta": [Interval(Real, 0, None, closed="left")],
        "normalize": ["boolean"],
        "form": [StrOptions({"auto", "primal", "dual", "low_rank", "class_means"})],
        "rank": [Interval(Integral, 1, None, closed="left")],
        "max_bytes": [Interval(Integral, 1, None, closed="left")],
    }

    def _statistics(self, X, codes, weight, **options) -> ClassStatistics:
        return ClassStatistics(
            X,
            codes,
            weight,
            form=self.form,
            rank=self.rank,
            max_bytes=self.max_bytes,
            **options,
        )


class TopDownBuilder(ProximityBuilder, metaclass=ABCMeta):
    """Base of the builders that bisect the classes of a node by its proximity.

    A subclass implements ``_bisect(F)``: the factor of the node, one row per class,
    whose rows (or rows times the roots of the weights) sum to zero, to a sign or
    score per class; the classes with a score > 0 are one side. A score that does
    not split, as for classes with equal means, is replaced by halves in the order of
    the labels.
    """

    _parameter_constraints: dict = {
        **ProximityBuilder._parameter_constraints,
        "gram": [StrOptions({"pooled", "exact", "root"})],
    }

    def __init__(
        self,
        *,
        max_depth=None,
        delta=1.0,
        normalize=True,
        gram="pooled",
        form="auto",
        rank=512,
        max_bytes=2**31,
    ):
        self.max_depth = max_depth
        self.delta = delta
        self.normalize = normalize
        self.gram = gram
        self.form = form
        self.rank = rank
        self.max_bytes = max_bytes

    @abstractmethod
    def _bisect(self, factor: NDArray) -> NDArray: ...

    def _parents(self, X, codes, weight, rng):
        exact = self.gram == "exact"
        stats = self._statistics(X, codes, weight, keep_rows=exact)

        def split(members, scatter):
            if members.size == 2:
                return _sides(members, np.array([True, False]))
            near = stats.proximity(
                members, delta=self.delta, gram=self.gram, scatter=scatter
            )
            factor = near.normalized_factor if self.normalize else near.factor
            left, right, *_ = _sides(members, self._bisect(factor) > 0)
            if exact:
                return left, right, *_share_gram(stats, (left, right), scatter)
            return left, right, None, None

        state = stats.scatter if exact else None
        return split_top_down(stats.n_classes, split, self.max_depth, state)


def _sides(members, mask):
    """Both sides, the one of the first class first; never an empty one."""
    if mask.all() or not mask.any():
        mask = np.arange(members.size) < (members.size + 1) // 2
    if not mask[0]:
        mask = ~mask
    return members[mask], members[~mask], None, None


def _share_gram(stats, parts, gram):
    """Grams of both sides: the smaller from its rows, the other by subtraction."""
    small = int(stats.weight[parts[1]].sum() < stats.weight[parts[0]].sum())
    grams = [None, None]
    if max(part.size for part in parts) < 3:
        return grams  # a pair is split without looking
    grams[small] = stats.subset_scatter(parts[small])
    rest = gram - grams[small]
    if np.trace(rest) < _CANCELLED * np.trace(gram):
        rest = stats.subset_scatter(parts[1 - small])
    grams[1 - small] = rest
    return grams


def split_top_down(n_classes, split, max_depth=None, state=None):
    """Bisect until single classes, depth first.

    ``split(members, state)`` gives both sides and the state of each. Of two sides the
    smaller is taken up first, so that at most log2(K) states wait.
    """
    parent, leaf = [-1], np.zeros(n_classes, dtype=np.int64)
    stack = [(0, np.arange(n_classes), 0, state)]
    while stack:
        node, members, level, state = stack.pop()
        if members.size == 1 or level == max_depth:
            leaf[members] = node
            continue
        left, right, state_left, state_right = split(members, state)
        children = [
            (len(parent), left, level + 1, state_left),
            (len(parent) + 1, right, level + 1, state_right),
        ]
        parent += [node, node]
        stack += sorted(children, key=lambda child: -child[1].size)
    return np.array(parent), leaf


def parents_of_merges(merges, n_classes):
    """`merges` lists the clusters joined, one tuple per new cluster, from K on.

    What is left without a parent is joined below a root.
    """
    n = n_classes + len(merges)
    parent = np.full(n + 1, -1, dtype=np.int64)
    for i, clusters in enumerate(merges):
        parent[list(clusters)] = n_classes + i
    top = np.flatnonzero(parent[:n] < 0)
    if top.size == 1:
        parent = parent[:n]
    else:
        parent[top] = n
    return parent, np.arange(n_classes)


def leading_vectors(factor, n):
    """The n leading left singular vectors of the factor, with their values."""
    k, r = factor.shape
    if k <= r:
        s2, u = np.linalg.eigh(factor @ factor.T)
        return u[:, ::-1][:, :n], np.sqrt(np.maximum(s2[::-1][:n], 0))
    s2, v = np.linalg.eigh(factor.T @ factor)
    s2, v = np.maximum(s2[::-1][:n], 0), v[:, ::-1][:, :n]
    norm = np.sqrt(s2)
    return factor @ v / np.maximum(norm, 1e-150), norm
