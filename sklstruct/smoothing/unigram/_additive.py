"""Additive smoothing (Laplace, Lidstone, Jeffreys) of the counts of classes."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._compat import Interval
from .._base_distribution import BASE_CONSTRAINT, base_distribution
from ._base import UnigramSmoother


class AdditiveUnigram(UnigramSmoother):
    r"""Unigram distribution with additive smoothing (Laplace, Lidstone, Jeffreys).

    .. math::
        P(y) = \frac{c(y) + \delta V P_0(y)}{n + \delta V}

    for n samples over V classes, with :math:`P_0` the distribution `base`.

    Parameters
    ----------
    delta : float, default=1.0
        :math:`\delta`, positive: the mean count added to a class. 1 is Laplace's rule,
        0.5 is Jeffreys' rule.

    base : "uniform" or unigram estimator, default="uniform"
        The distribution :math:`P_0` of the added counts.

    {classes_parameter}

    Attributes
    ----------
    {shared_attributes}

    See Also
    --------
    AbsoluteDiscountUnigram, GoodTuringUnigram, GraphDiffusionUnigram

    Examples
    --------
    >>> from sklstruct.smoothing import AdditiveUnigram
    >>> AdditiveUnigram().from_counts([5, 2, 1, 0]).proba_.round(4).tolist()
    [0.5, 0.25, 0.1667, 0.0833]
    """

    _parameter_constraints: dict = {
        "delta": [Interval(Real, 0, None, closed="neither")],
        "base": BASE_CONSTRAINT,
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        delta: float = 1.0,
        *,
        base: Any = "uniform",
        classes: ArrayLike | None = None,
    ) -> None:
        self.delta = delta
        self.base = base
        self.classes = classes

    def _smooth(self, counts: np.ndarray) -> np.ndarray:
        base = base_distribution(self.base, counts, self.classes_)
        mass, total = float(self.delta) * counts.size, counts.sum()
        if not 2.0**-900 < mass + total < 2.0**1000:
            # Scaling counts and delta by one factor does not change P.
            unit = 2.0**64 if mass + total < 1 else 2.0**-64
            counts, total = unit * counts, unit * total
            mass = unit * self.delta * counts.size
        return (counts + mass * base) / (total + mass)
