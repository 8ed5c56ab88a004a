"""Checks of the arguments of operators: vectors, numbers, flags, powers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import check_choice, check_real
from .._docs import shared_docs

T = TypeVar("T", bound=Callable)

# Parameters that the docstrings of the operators share; see `shared_docs`.
_PARAMETERS = {
    "v": """
        v : array-like of shape (n,)
            Finite values, of any sign.
    """,
    "kappa": """
        kappa : float
            Strength, finite and >= 0.
    """,
    "kappa_of_entry": """
        kappa : float or array-like of shape (n,)
            Strength, finite and >= 0.
    """,
    "metric": """
        metric : float or array-like of shape (n,), default=None
            Diagonal D > 0 of the quadratic term. None means 1.
    """,
    "metric_term": r"""
        metric : float or array-like of shape (n,), default=None
            Diagonal D > 0 of the quadratic term
            :math:`\tfrac12 \sum_i D_i (w_i - v_i)^2`. None means 1.
    """,
    "positive": """
        positive : bool, default=False
            Minimise over w >= 0.
    """,
    "result": """
        w : ndarray of shape (n,)
            The minimiser; float32 if v is float32, else float64.
    """,
}


def shared_parameters(operator: T) -> T:
    """Decorator that replaces lines ``{name}`` by the shared parameters."""
    names = re.findall(r"(?m)^ *\{(\w+)\}$", operator.__doc__ or "")
    return shared_docs(**{name: _PARAMETERS[name] for name in names})(operator)


def check_vector(
    v: ArrayLike,
    n: int | None = None,
    of: str = "",
    *,
    ndim: int = 1,
    positive: bool = False,
) -> tuple[NDArray, np.dtype]:
    """A fresh float64 copy of v and the dtype of the result.

    v must have `n` entries, one for each entry of the argument `of`. With `positive`
    the copy is projected to v >= 0.
    """
    v = np.asarray(v)
    if v.dtype.kind not in "fiub":
        raise ValueError(f"v must hold real numbers, got dtype {v.dtype}")
    if n is not None and v.shape != (n,):
        raise ValueError(
            f"v must have shape ({n},), one value per entry of {of}, got shape "
            f"{v.shape}"
        )
    if v.ndim != ndim:
        raise ValueError(f"v must be a {ndim}-D array, got shape {v.shape}")
    out = np.array(v, dtype=np.float64, order="C")
    if not np.isfinite(out).all():
        raise ValueError("v must be finite, it contains NaN or infinity")
    if check_positive(positive):
        # All penalties here increase with |w_i|: a negative entry of v becomes 0 and
        # does not change other entries of the result.
        np.maximum(out, 0.0, out=out)
    return out, np.dtype(np.float32 if v.dtype == np.float32 else np.float64)


def check_per_entry(
    x: ArrayLike | None,
    n: int,
    name: str,
    *,
    positive: bool = False,
    what: str = "node",
) -> NDArray:
    """x as float64, of shape (1,) for a scalar (None means 1), else (n,)."""
    x = np.asarray(1.0 if x is None else x)
    if x.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, got dtype {x.dtype}")
    if x.shape not in ((), (n,)):
        raise ValueError(
            f"{name} must be a scalar or an array of shape ({n},), one value per "
            f"{what}, got shape {x.shape}"
        )
    x = np.ascontiguousarray(np.atleast_1d(x), dtype=np.float64)
    if not np.isfinite(x).all():
        raise ValueError(f"{name} must be finite, it contains NaN or infinity")
    if x.size and (x.min() <= 0 if positive else x.min() < 0):
        raise ValueError(
            f"{name} must be {'> 0' if positive else '>= 0'}, its smallest value is "
            f"{x.min()}"
        )
    return x


def check_positive(positive: bool) -> bool:
    """The parameter `positive` as a bool, or a ValueError."""
    if not isinstance(positive, bool | np.bool_):
        raise ValueError(f"positive must be True or False, got {positive!r:.60}")
    return bool(positive)


def check_power(p: Any, allowed: tuple[float, ...] | None = None) -> float:
    """The power of a norm: 1 to infinity, or one of a few."""
    p = check_real("p", p, "[1, inf]")
    if allowed is not None:
        check_choice("p", p, allowed)
    return p


def power_of_two(exponent: float) -> float:
    """2 to the exponent rounded down: a divisor without rounding errors, never 0."""
    return float(2.0 ** np.clip(np.floor(exponent), -1022, 1023))
