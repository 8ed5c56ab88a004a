"""Operators and norms of differences of neighbours: total variation, fused lasso."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import check_real
from . import _fused_fast as kernels
from ._arguments import (
    check_per_entry,
    check_positive,
    check_vector,
    power_of_two,
    shared_parameters,
)
from ._vectors import norm_elastic_net, soft


@shared_parameters
def prox_total_variation(
    v: ArrayLike,
    kappa: float | ArrayLike,
    *,
    metric: ArrayLike | None = None,
    positive: bool = False,
) -> NDArray:
    r"""Proximal operator of the total variation of a sequence.

    .. math::
        \operatorname*{arg\,min}_w\; \tfrac12 \sum_i D_i (w_i - v_i)^2
        + \sum_{i=1}^{n-1} \kappa_i |w_{i+1} - w_i|

    Exact, in O(n).

    Parameters
    ----------
    {v}

    kappa : float or array-like of shape (n - 1,)
        Strength between neighbours, finite and >= 0.

    {metric}

    {positive}

    Returns
    -------
    {result}
        Piecewise constant.

    Raises
    ------
    ValueError
        Naming the parameter.

    Notes
    -----
    Dynamic programming: the derivative of the cost of the entries up to i, as a
    function of :math:`w_i`, is increasing and piecewise linear. One step clips the
    derivative to :math:`\pm\kappa_i` and adds :math:`D (w - v)`. Every step adds two
    knots and removes the knots that it clips, so that the total cost is linear [1]_.

    References
    ----------
    .. [1] N. A. Johnson, "A dynamic programming algorithm for the fused lasso and
       L0-segmentation", Journal of Computational and Graphical Statistics 22, 2013.

    Examples
    --------
    >>> from sklstruct.prox import prox_total_variation
    >>> prox_total_variation([1.0, 2.0, 8.0, 9.0], 1.0)
    array([2., 2., 8., 8.])
    """
    w, dtype = check_vector(v)
    n = w.size
    kappa = check_per_entry(kappa, max(n - 1, 0), "kappa", what="two neighbours")
    metric = check_per_entry(metric, n, "metric", positive=True, what="entry")
    positive = check_positive(positive)
    if n > 1:
        top = np.abs(w).max()
        unit = power_of_two(np.log2(top)) if top > 0 else 1.0
        heavy = power_of_two(np.log2(metric.max()))
        with np.errstate(over="ignore", under="ignore"):
            # a kappa above the sum of all slopes has the effect of this sum
            kappa = np.minimum(kappa / unit / heavy, 4.0 * n)
        w /= unit
        metric = np.ascontiguousarray(np.broadcast_to(metric / heavy, (n,)))
        kappa = np.ascontiguousarray(np.broadcast_to(kappa, (n - 1,)))
        knots = np.empty((3, 2 * n))
        bounds = np.empty((2, n))
        kernels.total_variation(w, kappa, metric, knots, bounds)
        w *= unit
    if positive:
        # Clipping all entries at one level keeps all subgradients valid.
        np.maximum(w, 0.0, out=w)
    return w.astype(dtype, copy=False)


def norm_total_variation(v: ArrayLike, weights: float | ArrayLike = 1.0) -> float:
    r"""Total variation, :math:`\sum_{i=1}^{n-1} a_i |v_{i+1} - v_i|`.

    Parameters
    ----------
    v : array-like of shape (n,)
        Finite values.

    weights : float or array-like of shape (n - 1,), default=1.0
        Weights a, finite and >= 0.

    Returns
    -------
    value : float
        0 for less than two entries. It is a seminorm.

    Examples
    --------
    >>> from sklstruct.prox import norm_total_variation
    >>> norm_total_variation([1.0, 3.0, 2.0])
    3.0
    """
    v = check_vector(v)[0]
    weights = check_per_entry(
        weights, max(v.size - 1, 0), "weights", what="two neighbours"
    )
    return float((weights * np.abs(np.diff(v))).sum()) if v.size > 1 else 0.0


@shared_parameters
def prox_fused_lasso(
    v: ArrayLike,
    kappa: float,
    *,
    gamma: float = 0.0,
    fusion: float = 1.0,
    positive: bool = False,
) -> NDArray:
    r"""Proximal operator of the fused lasso.

    .. math::
        \operatorname*{arg\,min}_w\; \tfrac12 \|w - v\|^2 + \kappa \Bigl(
        \|w\|_1 + \tfrac{\gamma}{2} \|w\|^2
        + \delta \sum_{i=1}^{n-1} |w_{i+1} - w_i| \Bigr)

    The operators of the total variation, of soft thresholding and of scaling are
    applied in this order.

    Parameters
    ----------
    {v}

    {kappa}

    gamma : float, default=0.0
        Weight of the squares, finite and >= 0.

    fusion : float, default=1.0
        Weight :math:`\delta` of the differences of neighbours, finite and >= 0.

    {positive}

    Returns
    -------
    {result}
        Sparse and piecewise constant.

    Raises
    ------
    ValueError
        Naming the parameter.

    See Also
    --------
    prox_total_variation : The operator for the differences alone.

    References
    ----------
    A. Nelakanti, thesis, 2014, section 2.2.1 and table 2.1 (there the squares are not
    halved). J. Friedman, T. Hastie, H. Höfling, R. Tibshirani, "Pathwise coordinate
    optimization", Annals of Applied Statistics 1, 2007 (the composition).

    Examples
    --------
    >>> from sklstruct.prox import prox_fused_lasso
    >>> prox_fused_lasso([1.0, 0.5, 8.0, 9.0], 1.0)
    array([0.25, 0.25, 7.  , 7.  ])
    """
    kappa = check_real("kappa", kappa, "[0, inf)")
    gamma = check_real("gamma", gamma, "[0, inf)")
    fusion = check_real("fusion", fusion, "[0, inf)")
    dtype = check_vector(v)[1]
    v = np.asarray(v, dtype=np.float64)
    w = prox_total_variation(v, min(kappa * fusion, 1e300), positive=positive)
    return (soft(w, kappa) / (1 + kappa * gamma)).astype(dtype, copy=False)


def norm_fused_lasso(v: ArrayLike, gamma: float = 0.0, fusion: float = 1.0) -> float:
    r"""The fused lasso; not a norm if gamma > 0.

    .. math::
        \|v\|_1 + \tfrac{\gamma}{2} \|v\|^2
        + \delta \sum_{i=1}^{n-1} |v_{i+1} - v_i|

    Parameters
    ----------
    v : array-like of shape (n,)
        Finite values.

    gamma : float, default=0.0
        Weight of the squares, finite and >= 0.

    fusion : float, default=1.0
        Weight :math:`\delta` of the differences, finite and >= 0.

    Returns
    -------
    value : float
        The penalty.

    Examples
    --------
    >>> from sklstruct.prox import norm_fused_lasso
    >>> norm_fused_lasso([1.0, 3.0])
    6.0
    """
    fusion = check_real("fusion", fusion, "[0, inf)")
    return norm_elastic_net(v, gamma) + fusion * norm_total_variation(v)
