"""Katz smoothing: Good-Turing discounts of small counts, and back-off."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._compat import Interval
from ..._docs import shared_docs
from ..._warnings import FallbackWarning, warn
from ...backoff._backoff_fast import counts_of_counts
from .. import _engine, _shares

# Largest k; it bounds the table of counts of counts.
_MAX_COUNT = 1_000


def katz_ratios(n: np.ndarray) -> tuple[np.ndarray, str | None]:
    """Ratios d_1, ..., d_k from the counts of counts, for the largest valid k.

    0 < d_r <= 1; empty if no count can be discounted. Also return the reason why k is
    below K, or None. n: number of pairs with each count 0, 1, ..., K + 1.
    """
    problem = None
    # k = 1 would give d_1 = 0, and so probability 0 to pairs that occurred once.
    for k in range(n.size - 2, 1, -1):
        r = np.arange(1, k + 1)
        gaps = np.flatnonzero(n[1 : k + 2] <= 0)
        if gaps.size:
            problem = problem or f"no count is {gaps[0] + 1}"
            continue
        above = (k + 1) * n[k + 1] / n[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = ((r + 1) * n[r + 1] / (r * n[r]) - above) / (1 - above)
        bad = ~((ratios > 0) & (ratios <= 1))
        if bad.any():
            i = int(np.argmax(bad))
            problem = problem or (
                f"the ratio of count {i + 1} is {ratios[i]:.9g}, not in 0 < d <= 1"
            )
            continue
        return ratios, problem
    return np.empty(0), problem


@shared_docs(**_engine.DOCS)
class KatzLM(_engine.NGramSmoother):
    r"""Katz's back-off language model with Good-Turing discounts.

    .. math::
        P(y \mid n) = \begin{cases}
        d_{c(n, y)}\, c(n, y) / c(n) & c(n, y) > 0 \\
        b(n)\, P(y \mid \mathrm{parent}(n)) & \text{otherwise,}
        \end{cases} \qquad
        d_r = \frac{\frac{(r + 1)\, n_{r+1}}{r\, n_r} - \frac{(k + 1)\, n_{k+1}}{n_1}}
        {1 - \frac{(k + 1)\, n_{k+1}}{n_1}} \quad (r \le k),

    :math:`d_r = 1` for r > k, with c(n, y) the number of times that y followed the
    context n, :math:`n_r` the number of pairs of a depth with the count r, and b(n)
    such that the row sums to 1. The discounts of a depth sum to :math:`n_1`, which is
    the Good-Turing estimate for the unseen pairs. The sum is divided among the counts
    up to k as in the Good-Turing estimate.

    Parameters
    ----------
    {max_depth}

    k : int, default=5
        Largest count that is discounted, 2 to 1000; Katz chose 5. If the counts of
        counts of a depth have a gap or give a ratio outside 0 < d <= 1 (small,
        character and closed-vocabulary data), the depth gets the largest smaller k that
        is valid, or no discounts. One warning names all such depths and the reasons.

    base : "uniform" or unigram estimator, default="uniform"
        The distribution to which the empty context backs off for the classes without
        a sample. An estimator is cloned, fitted to the counts of the classes, and takes
        the place of the unigram level; it must give every class a positive
        probability.

    {parameters}

    Attributes
    ----------
    {attributes}

    discount_ratios_ : ndarray of shape (`depth_` + 1, k)
        :math:`d_r` of the counts 1, ..., k at each depth; NaN at depth 0 if `base` is
        an estimator.

    See Also
    --------
    KneserNeyLM : Lower perplexity.

    GoodTuringUnigram : The Good-Turing estimate of the unigrams alone.

    Notes
    -----
    A context whose counts are all above k has no discounts. It holds back
    :math:`1 / (c(n) + 1)`, as if one more sample of an unseen class had followed [2]_.
    A context after which every class was seen interpolates its left-over mass with the
    parent's distribution.

    Fractional `sample_weight`: functions of integer counts are interpolated linearly,
    as in `KneserNeyLM`.

    References
    ----------
    .. [1] S. M. Katz, "Estimation of probabilities from sparse data for the language
       model component of a speech recognizer", IEEE TASSP 35(3), 1987.
    .. [2] A. Stolcke, "SRILM -- an extensible language modeling toolkit", ICSLP 2002
       (ngram-discount(7): the denominator is incremented where no mass is left).

    Examples
    --------
    Ten classes were seen once, three twice, one three times, and one never. With k = 2
    the ratios are 3/7 and 2/7, and the unseen class has probability 10/19.

    >>> import numpy as np
    >>> from sklstruct.smoothing import KatzLM
    >>> y = np.repeat(np.arange(14), [1] * 10 + [2] * 3 + [3])
    >>> model = KatzLM(max_depth=0, k=2, classes=range(15)).fit(np.zeros((19, 1)), y)
    >>> model.discount_ratios_.round(4).tolist()
    [[0.4286, 0.2857]]
    >>> round(float(model.predict_proba([[0]])[0, 14]), 4), round(10 / 19, 4)
    (0.5263, 0.5263)
    """

    # Classes with counts above 0 have only their discounted share.
    interpolate = False

    _parameter_constraints: dict = {
        **_engine.CONSTRAINTS,
        "k": [Interval(Integral, 2, _MAX_COUNT, closed="both")],
    }

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        k: int = 5,
        base: Any = "uniform",
        padding: Any = None,
        classes: ArrayLike | None = None,
    ):
        self.max_depth = max_depth
        self.k = k
        self.base = base
        self.padding = padding
        self.classes = classes

    def _shares(self, pairs, count, first_level):
        n_levels = pairs.tree.n_levels
        self.discount_ratios_ = np.full((n_levels, self.k), np.nan)
        discounts = np.zeros((n_levels, self.k + 1))
        problems = []
        n = np.zeros((n_levels, self.k + 2))
        for depth in range(first_level, n_levels):
            counts_of_counts(count[pairs.own(depth)[1]], n[depth])
        n = pairs.total(n)
        for depth in range(first_level, n_levels):
            ratios, problem = katz_ratios(n[depth])
            if problem:
                problems.append(f"depth {depth}: {problem}; k={ratios.size}")
            self.discount_ratios_[depth] = 1.0
            self.discount_ratios_[depth, : ratios.size] = ratios
            # A ratio d of the count r is the discount r (1 - d); the discount is 0
            # above k.
            r = np.arange(1, self.k + 1)
            discounts[depth, : self.k] = r * (1 - self.discount_ratios_[depth])
        if problems:
            warn(
                f"KatzLM: counts of counts do not give the ratios of k={self.k} "
                f"({'; '.join(problems)} there). This is usual for small "
                "or closed-vocabulary data; use KneserNeyLM or WittenBellLM",
                FallbackWarning,
            )
        discounted, backoff_mass = _shares.discount_levels(
            pairs, count.copy(), discounts, first_level
        )
        first_node = int(pairs.tree.level_ptr[first_level])
        self._hold_back_one(pairs, count, discounted, backoff_mass, first_node)
        return discounted, backoff_mass

    @staticmethod
    def _hold_back_one(pairs, count, discounted, backoff_mass, first_node):
        """Hold back the share of one more sample at contexts without discounts."""
        nothing = np.flatnonzero(backoff_mass[first_node:] <= 0) + first_node
        if nothing.size:
            total = pairs.node_sums(count)
            scale = np.ones(backoff_mass.size)
            scale[nothing] = total[nothing] / (total[nothing] + 1)
            backoff_mass[nothing] = 1 / (total[nothing] + 1)
            first_pair = int(pairs.ptr[first_node])
            discounted[first_pair:] *= np.repeat(
                scale[first_node:], np.diff(pairs.ptr[first_node:])
            )
