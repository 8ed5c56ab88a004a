"""The distribution with which the unigrams are interpolated, the parameter `base`.

A *unigram estimator* is any object with a method ``from_counts(counts, classes)`` that
fits the estimator to the counts of the classes, sets ``proba_`` and returns itself.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from .._compat import HasMethods, Interval, StrOptions

DISCOUNT_NUMBERS = [Interval(Real, 0, 1, closed="right"), "array-like"]
BASE_CONSTRAINT = [StrOptions({"uniform"}), HasMethods(["from_counts"])]


def base_distribution(
    base: Any, counts: np.ndarray, classes: np.ndarray, *, positive: bool = True
) -> np.ndarray:
    """P(y) of the parameter `base`, which sums to 1 and, if `positive`, is positive.

    The estimator is cloned, and fitted to the counts of the sorted classes. positive: a
    class of probability 0 is an error.
    """
    n_classes = counts.size
    if isinstance(base, str):
        return np.full(n_classes, 1.0 / n_classes)
    name = type(base).__name__
    proba = np.array(clone(base).from_counts(counts, classes).proba_, dtype=np.float64)
    if proba.shape != (n_classes,):
        raise ValueError(
            f"base={name} gave a distribution of shape {proba.shape} for {n_classes} "
            "classes"
        )
    if not (proba.min() >= 0 and abs(proba.sum() - 1.0) < 1e-6):
        raise ValueError(
            f"base={name} did not give a distribution: sum {proba.sum():g}"
        )
    if positive and not proba.min() > 0:
        raise ValueError(
            f"base={name} gives {np.count_nonzero(proba <= 0)} of {n_classes} classes "
            "probability 0, so their log-probability would be infinite; give it a "
            "floor, or choose another base"
        )
    return proba / proba.sum()
