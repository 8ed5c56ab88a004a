"""Truncated: a distribution with a temperature, top-k and top-p, to draw from."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import check_count, check_real
from ..backoff import Distribution


class Truncated(Distribution):
    r"""Another distribution at a temperature, without its least probable classes.

    .. math::
        P'(y \mid x) \propto P(y \mid x)^{1/T} \quad \text{for } y \in S(x),

    S(x) the `top_k` most probable classes (None: all), and of these the fewest whose
    probabilities sum to `top_p` or more. skip: a class that gets probability 0, or -1.
    """

    def __init__(
        self,
        model: Distribution,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        skip: int = -1,
    ) -> None:
        self.model, self.skip = model, skip
        self.temperature, self.top_k, self.top_p = temperature, top_k, top_p
        self.n_classes = model.n_classes

    def proba(self, at: Any) -> NDArray:
        rows = self.model.rows(at)
        if self.skip >= 0:
            rows[:, self.skip] = -np.inf
        rows /= self.temperature
        if self.top_k is None and self.top_p == 1.0:
            return _normalised(rows)
        order = np.argsort(-rows, axis=1, kind="stable")[:, : self.top_k]
        ranked = _normalised(np.take_along_axis(rows, order, axis=1))
        # The class with which the sum reaches top_p stays.
        before = np.cumsum(ranked, axis=1) - ranked
        ranked[:, 1:][before[:, 1:] >= self.top_p] = 0.0
        rows[:] = 0.0
        np.put_along_axis(rows, order, _scaled(ranked), axis=1)
        return rows


def _normalised(rows):
    """Probabilities of rows of logarithms; a row of -inf becomes a row of zeros."""
    top = rows.max(axis=1, keepdims=True, initial=-np.inf)
    top[np.isneginf(top)] = 0.0
    rows -= top
    return _scaled(np.exp(rows, out=rows))


def _scaled(rows):
    """Scale rows to sum to 1; a row of zeros stays."""
    total = rows.sum(axis=1, keepdims=True)
    rows /= np.where(total > 0.0, total, 1.0)
    return rows


def check_truncation(temperature: Any, top_k: Any, top_p: Any) -> None:
    """Check the parameters; the ValueError names the invalid parameter."""
    number = isinstance(temperature, Real) and not isinstance(temperature, bool)
    if not number or not 0.0 < temperature < np.inf:
        raise ValueError(
            f"temperature must be a finite number above 0, got {temperature!r:.60}; "
            "near 0 the most probable symbol is drawn"
        )
    if top_k is not None:
        check_count("top_k", top_k, 1)
    check_real("top_p", top_p, "(0, 1]")
