"""From counts to probabilities, by the shares of each context and one sweep.

A smoother defines two shares (as in NLTK): the discounted probability of each class
that followed a context, and the back-off mass of the context, which is given to the
parent's distribution. The functions here take arrays, because the command, which does
not import scikit-learn, also calls them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import by_depth
from ..backoff import selected_nodes
from ..context_tree import Pairs
from . import _smoothing_fast as _fast


def discount_levels(
    pairs: Pairs, count: np.ndarray, discounts: np.ndarray, first_level: int
) -> tuple[np.ndarray, np.ndarray]:
    """The discounted probability of each pair and the back-off mass of each node.

    By absolute discounting with one row of discounts per level. The probabilities
    overwrite the counts.
    """
    backoff_mass = np.empty(pairs.tree.n_nodes)
    for k in range(first_level, pairs.tree.n_levels):
        here = pairs.tree.level(k)
        _fast.discount(
            pairs.ptr, here.start, here.stop, count, discounts[k], count, backoff_mass
        )
    return count, backoff_mass


def reached(pairs: Pairs, count: np.ndarray, min_count: Any) -> np.ndarray | None:
    """A mask of the pairs of a trie that reach `min_count`; None if all pairs do.

    min_count: the least count of each depth; the last also applies to larger depths.
    The unigrams stay.
    """
    least = by_depth("min_count", min_count)
    if least.max() <= 1.0:
        return None
    keep = np.ones(pairs.n_pairs, dtype=bool)
    for k in range(1, pairs.tree.n_levels):
        here = pairs.level(k)
        smallest = least[min(k, least.size - 1)]
        np.greater_equal(count[here], smallest, out=keep[here])
    return keep


def leave_out(
    pairs: Pairs, discounted: np.ndarray, backoff_mass: np.ndarray, keep: np.ndarray
) -> tuple[Pairs, tuple[np.ndarray, np.ndarray], np.ndarray]:
    """(pairs, (discounted probabilities, back-off masses), new_index) of some pairs.

    The probability of the other pairs is added to the back-off mass of their context.

    new_index: the new number of each node, -1 for removed nodes.
    """
    backoff_mass = backoff_mass + pairs.node_sums(np.where(keep, 0.0, discounted))
    smaller, kept = pairs.select(keep)
    new_index = selected_nodes(pairs, keep)
    return smaller, (discounted[kept], backoff_mass[new_index >= 0]), new_index


def hand_down(
    pairs: Pairs,
    discounted: np.ndarray,
    backoff_mass: np.ndarray,
    root: np.ndarray,
    base: np.ndarray,
    first: int,
    *,
    interpolate: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    r"""(log_prob, log_backoff), written into the arrays of the shares.

    .. math::
        P(y \mid n) = \mathrm{discounted}(n, y) + \mathrm{mass}(n)\, P(y \mid
        \mathrm{parent}(n))

    discounted: the discounted probability of each pair.
    backoff_mass: the back-off mass of each context.
    root: counts of the root; only their zeros are read.
    base: the distribution above the root, or, if `first` is 1, of the root.
    first: the first level with shares, 0 or 1.
    interpolate: False: back off; see `_smoothing_fast`.
    """
    top, unseen = discounted[: pairs.n_classes], root == 0.0
    if first:
        top[:] = base
    elif interpolate or not unseen.any():
        top += backoff_mass[0] * base
    else:
        top[unseen] = backoff_mass[0] / base[unseen].sum() * base[unseen]
    if interpolate:
        _fast.interpolate(pairs.ptr, pairs.parent, backoff_mass, discounted)
    else:
        _fast.back_off(
            pairs.tree.parent, pairs.ptr, pairs.target, pairs.parent,
            np.zeros(pairs.tree.n_nodes), backoff_mass, discounted,
        )  # fmt: skip
    backoff_mass[0] = 1.0  # every class has a pair at the root
    # Products of very small weights, such as 1e-160 squared, underflow.
    np.maximum(discounted, np.finfo(np.float64).tiny, out=discounted)
    return np.log(discounted, out=discounted), np.log(backoff_mass, out=backoff_mass)
