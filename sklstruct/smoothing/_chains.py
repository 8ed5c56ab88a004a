"""Chains: the probability of a sample along its contexts, and its derivatives.

The interpolated probability of a sample is

    P_k = discounted_k + mass_k P_{k-1}

at each context from the root to its longest one. Samples that share a context and a
class share the chain above them, so one sweep down the pairs gives the likelihood of
all samples, and one sweep up its derivatives by the discounted probabilities and the
back-off masses. O(pairs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..context_tree import Pairs


def log_likelihood(
    base: np.ndarray,
    levels: Sequence[Any],
    shares: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[float, list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """The log-likelihood of samples, in nats, and its derivatives.

    For each level (slope, up, proba): the derivative by the discounted probability, P
    of the parent, and P. The derivative by the back-off mass is ``slope * up``.

    base: the distribution above the first level.
    levels: from the first level down, with `parent`, the pair in the level above (at
    the first level the class), and `weight`, of the samples that end at the pair.
    shares: discounted probabilities and back-off masses of each level, by pair.
    """
    above, chain, value = base, [], 0.0
    for level, (discounted, backoff_mass) in zip(levels, shares):
        up = above[level.parent]
        above = discounted + backoff_mass * up
        chain.append((up, above))
        at = level.weight > 0
        value += float(level.weight[at] @ np.log(above[at]))
    slopes, mass = [], None
    for k in range(len(levels) - 1, -1, -1):
        level, (up, proba) = levels[k], chain[k]
        slope = np.zeros(proba.size)
        at = level.weight > 0
        slope[at] = level.weight[at] / proba[at]
        if mass is not None:
            slope += mass
        if k:
            size = levels[k - 1].weight.size
            mass = np.bincount(level.parent, slope * shares[k][1], size)
        slopes.append((slope, up, proba))
    return value, slopes[::-1]


def parents_in_level(pairs: Pairs, k: int) -> np.ndarray:
    """The index of the parent of each pair of level k in level k - 1; at the root the
    class."""
    here = pairs.level(k)
    if k == 0:
        return np.arange(here.stop - here.start)
    return pairs.parent[here].astype(np.int64) - pairs.level(k - 1).start


def leave_one_out(
    pairs: Pairs, count: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(count of a pair, sum and number of classes of its context) without one sample.

    The sum is 0 if the context has no other sample.
    """
    sizes = np.diff(pairs.ptr)
    left = np.maximum(count - 1.0, 0.0)
    total = np.repeat(pairs.node_sums(count), sizes) - (count - left)
    distinct = np.repeat(pairs.node_sums(np.minimum(count, 1.0)), sizes)
    distinct += np.minimum(left, 1.0) - np.minimum(count, 1.0)
    total[total <= 1e-12 * (count - left)] = 0.0
    return left, total, distinct
