"""Top-down bisection, and the base of the bisecting builders that use proximity."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..._compat import StrOptions
from .._statistics import ClassStatistics
from ._base import ProximityBuilder

# A Gram matrix computed as a difference is recomputed from the rows if its relative
# trace is smaller than this: the subtraction has lost 6 of 16 digits.
_CANCELLED = 1e-6


class TopDownBuilder(ProximityBuilder, metaclass=ABCMeta):
    """Base of the builders that bisect the classes of a node by its proximity.

    A subclass implements ``_bisect(factor, diagonal)`` for Q = D - FFᵀ. The arguments
    are the factor F of the node, one row per class, whose rows (or rows times the
    square roots of the weights) sum to zero, and the diagonal of D. The method returns
    a score per class; the classes with a score > 0 are one side. If one side is empty,
    as for classes with equal means, the sides are halves in the order of the labels.
    """

    gram: Literal["pooled", "exact", "root"] = "pooled"

    _parameter_constraints: ClassVar[dict] = {
        "gram": [StrOptions({"pooled", "exact", "root"})],
    }

    @abstractmethod
    def _bisect(self, factor: NDArray, diagonal: NDArray) -> NDArray: ...

    def _parents(self, X, codes, weight, rng):
        exact = self.gram == "exact"
        stats = self._statistics(X, codes, weight, keep_rows=exact)

        def split(members, scatter):
            near = stats.proximity(
                members, delta=self.delta, gram=self.gram, scatter=scatter
            )
            if self.normalize:
                factor, diagonal = near.normalized_factor, np.ones(members.size)
            else:
                factor, diagonal = near.factor, near.weight
            left, right, *_ = sides(members, self._bisect(factor, diagonal) > 0)
            if exact:
                return left, right, *_share_gram(stats, (left, right), scatter)
            return left, right, None, None

        state = stats.scatter if exact else None
        return split_top_down(
            stats.n_classes, split, self.max_depth, self.max_leaf, state
        )


def sides(members: NDArray, mask: NDArray) -> tuple[NDArray, NDArray, None, None]:
    """Both sides, that of the first class first; halves if a side would be empty."""
    if mask.all() or not mask.any():
        mask = np.arange(members.size) < (members.size + 1) // 2
    if not mask[0]:
        mask = ~mask
    return members[mask], members[~mask], None, None


def _share_gram(
    stats: ClassStatistics, parts: tuple[NDArray, NDArray], gram: NDArray
) -> list:
    """Gram matrices: of the smaller side from its rows, of the other by subtraction."""
    small = int(stats.weight[parts[1]].sum() < stats.weight[parts[0]].sum())
    grams: list[NDArray | None] = [None, None]
    if max(part.size for part in parts) < 3:
        return grams  # nodes of two classes are split without a Gram matrix
    own = stats.subset_scatter(parts[small])
    rest = gram - own
    if np.trace(rest) < _CANCELLED * np.trace(gram):
        rest = stats.subset_scatter(parts[1 - small])
    grams[small], grams[1 - small] = own, rest
    return grams


def split_top_down(
    n_classes: int,
    split: Callable[[NDArray, Any], tuple[NDArray, NDArray, Any, Any]],
    max_depth: int | None = None,
    max_leaf: int | None = None,
    state: Any = None,
) -> tuple[NDArray, NDArray]:
    """Bisect until `max_leaf` classes (None: one), depth first.

    ``split(members, state)`` returns both sides and their states, any objects. The
    smaller side is split first, so that at most log2(K) states are stored.
    """
    few = max_leaf or 1
    parent, leaf = [-1], np.zeros(n_classes, dtype=np.int64)
    stack = [(0, np.arange(n_classes), 0, state)]
    while stack:
        node, members, level, state = stack.pop()
        if members.size <= few or level == max_depth:
            leaf[members] = node
            continue
        # Two classes have only one split.
        parts = members[:1], members[1:], None, None
        if members.size > 2:
            parts = split(members, state)
        left, right, state_left, state_right = parts
        children = [
            (len(parent), left, level + 1, state_left),
            (len(parent) + 1, right, level + 1, state_right),
        ]
        parent += [node, node]
        stack += sorted(children, key=lambda child: -child[1].size)
    return np.array(parent), leaf


def leading_vectors(factor: NDArray, n: int) -> tuple[NDArray, NDArray]:
    """The n leading left singular vectors of the factor, and their singular values."""
    k, r = factor.shape
    if k <= r:
        s2, u = np.linalg.eigh(factor @ factor.T)
        return u[:, ::-1][:, :n], np.sqrt(np.maximum(s2[::-1][:n], 0))
    s2, v = np.linalg.eigh(factor.T @ factor)
    s2, v = np.maximum(s2[::-1][:n], 0), v[:, ::-1][:, :n]
    norm = np.sqrt(s2)
    return factor @ v / np.maximum(norm, 1e-150), norm
