"""The Good-Turing estimate of small counts."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from ..._compat import Interval, StrOptions
from ..._warnings import warn
from ...backoff._backoff_fast import counts_of_counts
from ._base import UnigramSmoother, add_floor

# Largest size of the table of counts of counts.
MAX_COUNT = 1_000_000


class GoodTuringUnigram(UnigramSmoother):
    r"""Unigram distribution by the Good-Turing estimate for small counts.

    .. math::
        P(y) = \frac{k + 1}{n}\,\frac{r_{k+1}}{r_k} \quad (c(y) = k < M), \qquad
        P(y) = (1 - \epsilon)\,\frac{c(y)}{n} \quad (c(y) \ge M),

    for n samples of which c(y) have class y, with :math:`r_k` the number of classes of
    count k and :math:`\epsilon` such that the sum is 1. The unseen classes together
    get :math:`r_1 / n`, the relative frequency of the classes seen once.

    Parameters
    ----------
    max_count : int, default=7
        M, from 1 to 1 000 000; counts of M and more are only scaled. Values between 5
        and 10 are usual.

    gaps : {"lower", "smooth"}, default="lower"
        The rule if some :math:`r_k` is 0 for k ≤ M. ``"lower"`` lowers M to below the
        first gap, with a warning. ``"smooth"`` replaces :math:`r_k` by the regression
        of log :math:`r_k` (averaged over the gaps next to it) on log k, and scales the
        probabilities of the seen classes to sum to :math:`1 - r_1 / n` [2]_.

    {floor_parameter}
        With ``floor=0``, unseen classes have probability 0 if no class was seen once.

    {classes_parameter}

    Attributes
    ----------
    max_count_ : int
        The M that was used.

    {shared_attributes}

    Notes
    -----
    Fractional counts: :math:`r_k` and P are interpolated linearly between integers.

    References
    ----------
    .. [1] I. J. Good, "The population frequencies of species and the estimation of
       population parameters", Biometrika 40, 1953.
    .. [2] W. A. Gale, G. Sampson, "Good-Turing frequency estimation without tears",
       Journal of Quantitative Linguistics 2, 1995.

    Examples
    --------
    Three of ten tokens occurred once, so the two unseen classes share 3/10.

    >>> from sklstruct.smoothing import GoodTuringUnigram
    >>> model = GoodTuringUnigram(max_count=1).from_counts([5, 2, 1, 1, 1, 0, 0])
    >>> model.proba_[-2:].round(4).tolist()
    [0.15, 0.15]
    """

    _parameter_constraints: dict = {
        "max_count": [Interval(Integral, 1, MAX_COUNT, closed="both")],
        "gaps": [StrOptions({"lower", "smooth"})],
        "floor": [Interval(Real, 0, 1, closed="left")],
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        max_count: int = 7,
        *,
        gaps: str = "lower",
        floor: float = 0.0,
        classes: ArrayLike | None = None,
    ) -> None:
        self.max_count = max_count
        self.gaps = gaps
        self.floor = floor
        self.classes = classes

    def _smooth(self, counts: np.ndarray) -> np.ndarray:
        n = counts.sum()
        r = np.zeros(self.max_count + 1)
        counts_of_counts(counts, r)
        if self.gaps == "smooth":
            proba = self._smoothed(counts, n, r)
        else:
            proba = self._lowered(counts, n, r)
        return add_floor(proba / proba.sum(), self.floor)

    def _lowered(self, counts, n, r):
        k = np.arange(r.size)
        # Sum of the counts that are at least k.
        above = n - np.concatenate([[0.0], np.cumsum(k * r)[:-1]])
        # A difference of this size is a rounding error.
        valid = (r > 0) & (above - k * r > 1e-12 * n)
        M = self.max_count
        if not valid[1:].all():
            M = int(np.argmin(valid[1:]))
            what = (
                f"there is no class with count {M + 1}"
                if r[M + 1] <= 0
                else f"no count is above {M + 1}"
            )
            warn(
                f"GoodTuringUnigram: {what}, so max_count={self.max_count} is lowered "
                f"to {M}"
                + (
                    " (no smoothing: unseen classes get only the probability of floor)"
                    if M == 0 and r[0] > 0
                    else ""
                )
                + "; gaps='smooth' uses the smoothed counts of counts instead",
            )
        self.max_count_ = M
        scale = 1.0 - M * r[M] / above[M] if M else 1.0
        # P at the integers 0 ... M; a straight line from M on.
        table = np.empty(M + 1)
        table[M] = scale * M / n
        if M:
            low = np.maximum(r[:M], np.finfo(float).tiny)  # r_0 = 0: not used
            table[:M] = (k[:M] + 1) * r[1 : M + 1] / low / n
            if r[0] <= 0:
                table[0] = 0.0
        proba = np.interp(counts, np.arange(M + 1), table)
        large = counts > M
        proba[large] = counts[large] / n * scale
        return proba

    def _smoothed(self, counts, n, r):
        M = self.max_count_ = self.max_count
        line = _log_linear(counts)
        k = np.arange(M + 1)
        table = k.astype(np.float64)
        if line is not None:
            # A slope above -1 would not discount; -1 leaves the counts unchanged.
            slope = min(line[0], -1.0)
            j = k[1:M]
            # (k + 1) S(k + 1) / S(k) with log S(k) = a + b log k
            table[1:M] = (j + 1) * ((j + 1) / j) ** slope
        unseen = counts == 0
        left = 0.0
        if unseen.any():
            once = r[1]
            if once <= 0 and line is not None:
                once = min(np.exp(line[1]), 0.5 * n)
            left = min(once / n, 1 - 1e-3)
        proba = np.interp(counts, k, table)
        large = counts > M
        proba[large] = counts[large]
        proba /= n
        proba[unseen] = 0.0
        proba *= (1 - left) / proba.sum()
        if left:
            proba[unseen] = left / np.count_nonzero(unseen)
        return proba


def _log_linear(counts):
    """(slope, intercept) of log Z against log k, or None with fewer than two counts.

    Z averages r_k over the gap between its neighbours (Gale and Sampson, section 6).
    """
    value, size = np.unique(
        np.maximum(np.round(counts[counts > 0]), 1), return_counts=True
    )
    if value.size < 2:
        return None
    below = np.concatenate([[0.0], value[:-1]])
    half_gap = value - below
    half_gap[:-1] = 0.5 * value[1:] - 0.5 * below[:-1]
    slope, intercept = np.polyfit(np.log(value), np.log(size / half_gap), 1)
    return slope, intercept
