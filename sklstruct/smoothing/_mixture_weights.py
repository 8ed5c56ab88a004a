"""Weights of interpolation by expectation-maximisation, for all contexts at once.

The probability of a sample is a chain of two-way mixtures, from its longest context to
the distribution above the root:

    P_k = g P_ML,k + (1 - g) P_{k-1},   g the weight of the context's bucket.

Samples which share a context and a class share the chain above it, so one sweep over
the pairs from the root down gives all P, and one sweep back gives the posterior mass
that each link of the chains kept. An iteration takes O(pairs).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..context_tree import Pairs
from ._chains import log_likelihood


class _MixedLevel(NamedTuple):
    """Pairs of one depth with a share above 0 in the mixture."""

    parent: np.ndarray  # position among the pairs of the level above
    weight: np.ndarray  # of the samples whose longest context ends here
    share: np.ndarray  # maximum-likelihood probability
    bucket: np.ndarray


class Mixtures(NamedTuple):
    """The samples as chains of mixtures, for weights of interpolation."""

    levels: list[_MixedLevel]
    passed: np.ndarray  # (n_levels, n_buckets) weight of samples with a factor 1 - g
    top: np.ndarray  # (n_classes,) the distribution above the first level

    @classmethod
    def of_pairs(
        cls,
        pairs: Pairs,
        weight: np.ndarray,
        share: np.ndarray,
        bucket: np.ndarray,
        base: np.ndarray,
        first: int,
        n_buckets: int,
    ) -> Mixtures:
        """Merge the pairs whose share is 0 into their parents.

        weight, share, bucket: for each pair, the weight of the samples that end at the
        pair, the maximum-likelihood probability (NaN if the context is unknown), and
        the bucket of the context.
        base: the distribution above the depth `first`, 0 or 1.
        n_buckets: number of buckets of a depth.
        """
        n_levels = pairs.tree.n_levels
        passed = np.zeros((n_levels, n_buckets))
        weight = weight.copy()
        needed = share > 0  # false for NaN
        position = np.arange(pairs.n_pairs)  # also of the pairs above `first`
        kept = [np.empty(0, dtype=np.int64)] * n_levels
        for k in range(n_levels - 1, first - 1, -1):
            here = pairs.level(k)
            if k == 0:
                needed[here] = True
            stay = np.flatnonzero(needed[here]) + here.start
            gone = np.flatnonzero(~needed[here]) + here.start
            seen = gone[~np.isnan(share[gone])]
            passed[k] = np.bincount(bucket[seen], weight[seen], n_buckets)
            if k:
                above = pairs.level(k - 1)
                weight[above] += np.bincount(
                    pairs.parent[gone] - above.start,
                    weight[gone],
                    above.stop - above.start,
                )
                needed[pairs.parent[stay]] = True
            position[stay] = np.arange(stay.size)
            kept[k] = stay
        levels = []
        for k in range(first, n_levels):
            stay = kept[k]
            parent = position[pairs.parent[stay] if k else stay]
            # NaN if the only sample was left out, so that the root is empty.
            part = np.nan_to_num(share[stay])
            levels.append(
                _MixedLevel(parent, weight[stay], part, bucket[stay].astype(np.int64))
            )
        return cls(levels, passed[first:], base)

    def __call__(self, g: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """(value, kept, reached) for weights g of the buckets.

        value is the sum of ln P over the samples, without the part that does not depend
        on g. reached is the posterior mass that reaches each bucket, and kept is the
        part that stays there, as in one iteration of EM.
        """
        weights = [row[level.bucket] for row, level in zip(g, self.levels)]
        shares = [(w * at.share, 1.0 - w) for w, at in zip(weights, self.levels)]
        value, slopes = log_likelihood(self.top, self.levels, shares)
        value += float((self.passed * np.log1p(-g)).sum())
        kept, reached = np.zeros_like(g), self.passed.copy()
        for k, (level, (slope, _, proba)) in enumerate(zip(self.levels, slopes)):
            kept[k] = np.bincount(level.bucket, slope * shares[k][0], g.shape[1])
            reached[k] += np.bincount(level.bucket, slope * proba, g.shape[1])
        return value, kept, reached


def fit_weights(
    mixtures: Mixtures, max_iter: int, tol: float
) -> tuple[np.ndarray, int, float]:
    """(weights by level and bucket, n_iter, gain of the last iteration).

    Maximum a posteriori weights under a Beta(3/2, 3/2) prior for each bucket. The prior
    is worth one sample and keeps the weights inside of (0, 1). A bucket without samples
    has the weight of the nearest bucket of the same depth that has samples (the smaller
    bucket, if two are equally near), and 1/2 if no bucket of this depth has samples.
    The iteration stops when it gains at most `tol` nats per sample.
    """
    g = np.full(mixtures.passed.shape, 0.5)
    size = mixtures.passed.sum() + sum(level.weight.sum() for level in mixtures.levels)
    last, gain, n_iter = -np.inf, np.inf, 0
    _, kept, reached = mixtures(g)
    while n_iter < max_iter and gain > tol:
        n_iter += 1
        g = (kept + 0.5) / (reached + 1.0)
        value, kept, reached = mixtures(g)
        value += 0.5 * (np.log(g) + np.log1p(-g)).sum()
        gain, last = (value - last) / max(size, 1.0), value
    for row, mass in zip(g, reached):
        some = np.flatnonzero(mass > 0)
        if some.size:
            at = np.arange(row.size)
            nearest = np.abs(at[:, None] - some[None, :]).argmin(axis=1)
            row[:] = row[some[nearest]]
    return g, n_iter, gain
