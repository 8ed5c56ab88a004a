"""Absolute discounting of the counts of classes: the unigram level of Kneser-Ney."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._compat import StrOptions
from ...backoff._discounts import check_discount, find_discounts
from .. import _smoothing_fast as _fast
from .._base_distribution import BASE_CONSTRAINT, DISCOUNT_NUMBERS, base_distribution
from ._base import UnigramSmoother


class AbsoluteDiscountUnigram(UnigramSmoother):
    r"""Unigram distribution with absolute discounting.

    .. math::
        P(y) = \frac{c(y) - D(c(y))}{n} + \gamma P_0(y), \qquad
        \gamma = \frac{1}{n} \sum_y D(c(y)),

    for n samples of which c(y) have class y, with :math:`P_0` the distribution `base`.
    `KneserNeyLM` computes the probabilities of unigrams in this way.

    Parameters
    ----------
    discount : {"modified", "single"}, float or sequence of float, default="single"
        The discounts D; see `KneserNeyLM`.

    base : "uniform" or unigram estimator, default="uniform"
        The distribution :math:`P_0` of the discounted mass.

    {classes_parameter}

    Attributes
    ----------
    discounts_ : ndarray of shape (n_discounts,)
        Discounts of the counts 1, 2, ...

    {shared_attributes}

    References
    ----------
    .. [1] H. Ney, U. Essen, R. Kneser, "On structuring probabilistic dependences in
       stochastic language modelling", Computer Speech & Language 8, 1994.

    Examples
    --------
    >>> from sklstruct.smoothing import AbsoluteDiscountUnigram
    >>> model = AbsoluteDiscountUnigram(discount=0.5).from_counts([5, 2, 1, 0])
    >>> model.proba_.round(4).tolist()
    [0.6094, 0.2344, 0.1094, 0.0469]
    """

    _parameter_constraints: dict = {
        "discount": [StrOptions({"modified", "single"}), *DISCOUNT_NUMBERS],
        "base": BASE_CONSTRAINT,
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        discount: str | float | ArrayLike = "single",
        *,
        base: Any = "uniform",
        classes: ArrayLike | None = None,
    ) -> None:
        self.discount = discount
        self.base = base
        self.classes = classes

    def _check_params(self, in_order: bool) -> None:
        check_discount(self.discount, strict=False)

    def _smooth(self, counts: np.ndarray) -> np.ndarray:
        discounts = find_discounts(
            self.discount, [counts], strict=False, owner=type(self).__name__
        )
        self.discounts_ = discounts[0]
        base = base_distribution(self.base, counts, self.classes_)
        discounted, backoff_mass = counts.copy(), np.empty(1)
        ptr = np.array([0, counts.size], dtype=np.int32)
        _fast.discount(ptr, 0, 1, discounted, discounts[0], discounted, backoff_mass)
        base *= backoff_mass
        discounted += base
        return discounted
