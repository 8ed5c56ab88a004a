"""The base of the builders that cluster class means."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..._checks import check_memory
from ..._compat import Interval
from .._samples import sum_by_class
from .._statistics import ClassStatistics
from ._base import TaxonomyBuilder


class ClassMeansBuilder(TaxonomyBuilder):
    """Base of the builders that cluster class means."""

    whiten: bool = False
    delta: float = 1.0
    max_bytes: int = 2**31

    _parameter_constraints: ClassVar[dict] = {
        **TaxonomyBuilder._parameter_constraints,
        "whiten": ["boolean"],
        "delta": [Interval(Real, 0, None, closed="left")],
        "max_bytes": [Interval(Integral, 1, None, closed="left")],
    }

    def _means(self, X: Any, codes: NDArray, weight: NDArray) -> NDArray:
        """Dense class means, in the features or with the within-class covariance I."""
        k = int(codes.max()) + 1
        check_memory(
            8 * k * X.shape[1],
            self.max_bytes,
            f"{k} x {X.shape[1]} class means",
            "reduce the features or raise max_bytes",
        )
        if self.whiten:
            stats = ClassStatistics(X, codes, weight, max_bytes=self.max_bytes)
            return stats.whitened_means(self.delta)
        total = np.bincount(codes, weight, minlength=k)[:, None]
        return sum_by_class(X, codes, k, weight) / total
