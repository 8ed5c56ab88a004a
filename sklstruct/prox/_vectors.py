"""Operators and norms of penalties of single vectors, without groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import check_real
from ._arguments import check_per_entry, check_power, check_vector, shared_parameters

# Largest number of steps of the safeguarded Newton methods; about ten are usual.
_STEPS = 200


def _read(v, kappa, metric, positive):
    """(v, dtype, kappa, metric), checked; with `positive` v is projected to v >= 0."""
    w, dtype = check_vector(v, positive=positive)
    kappa = check_per_entry(kappa, w.size, "kappa", what="entry")
    metric = check_per_entry(metric, w.size, "metric", positive=True, what="entry")
    return w, dtype, kappa, metric


@shared_parameters
def prox_l0(
    v: ArrayLike,
    kappa: float | ArrayLike,
    *,
    metric: ArrayLike | None = None,
    positive: bool = False,
) -> NDArray:
    r"""Hard thresholding, a minimiser for the number of non-zero entries.

    .. math::
        \operatorname*{arg\,min}_w\; \tfrac12 \sum_i D_i (w_i - v_i)^2
        + \sum_i \kappa_i [w_i \ne 0], \qquad
        w_i = v_i\, [\tfrac12 D_i v_i^2 > \kappa_i]

    Parameters
    ----------
    {v}

    kappa : float or array-like of shape (n,)
        Price of an entry, finite and >= 0.

    {metric}

    {positive}

    Returns
    -------
    {result}

    Raises
    ------
    ValueError
        Naming the parameter.

    Notes
    -----
    The penalty is not convex: if :math:`\tfrac12 D v^2 = \kappa`, both 0 and v are
    minimisers, and 0 is returned.

    References
    ----------
    A. Nelakanti, thesis, 2014, section 2.2.1.

    Examples
    --------
    >>> from sklstruct.prox import prox_l0
    >>> prox_l0([3.0, -1.0, 1.5], 1.0)
    array([ 3. , -0. ,  1.5])
    """
    w, dtype, strength, diagonal = _read(v, kappa, metric, positive)
    # as a root, so that no square overflows
    return (w * (np.abs(w) > np.sqrt(2 * strength / diagonal))).astype(
        dtype, copy=False
    )


def soft(w: NDArray, threshold: NDArray | float) -> NDArray:
    """sign(w) (|w| - threshold)+."""
    return np.sign(w) * np.maximum(np.abs(w) - threshold, 0.0)


@shared_parameters
def prox_l1(
    v: ArrayLike,
    kappa: float | ArrayLike,
    *,
    metric: ArrayLike | None = None,
    positive: bool = False,
) -> NDArray:
    r"""Soft thresholding, the proximal operator of :math:`\sum_i \kappa_i |w_i|`.

    .. math::
        w_i = \operatorname{sign}(v_i)\, [\,|v_i| - \kappa_i / D_i]_+

    Parameters
    ----------
    {v}

    {kappa_of_entry}

    {metric_term}

    {positive}

    Returns
    -------
    {result}

    Raises
    ------
    ValueError
        Naming the parameter.

    References
    ----------
    A. Nelakanti, thesis, 2014, table 2.1.

    Examples
    --------
    >>> from sklstruct.prox import prox_l1
    >>> prox_l1([3.0, -2.0, 0.5], 1.0)
    array([ 2., -1.,  0.])
    """
    w, dtype, strength, diagonal = _read(v, kappa, metric, positive)
    return soft(w, strength / diagonal).astype(dtype, copy=False)


@shared_parameters
def prox_l2_squared(
    v: ArrayLike,
    kappa: float | ArrayLike,
    *,
    metric: ArrayLike | None = None,
    positive: bool = False,
) -> NDArray:
    r"""Scaling, the proximal operator of :math:`\tfrac12 \sum_i \kappa_i w_i^2`.

    .. math:: w_i = v_i\, D_i / (D_i + \kappa_i)

    Parameters
    ----------
    {v}

    {kappa_of_entry}

    {metric_term}

    {positive}

    Returns
    -------
    {result}

    Raises
    ------
    ValueError
        Naming the parameter.

    References
    ----------
    A. Nelakanti, thesis, 2014, table 2.1.

    Examples
    --------
    >>> from sklstruct.prox import prox_l2_squared
    >>> prox_l2_squared([3.0, -4.0], 1.0)
    array([ 1.5, -2. ])
    """
    w, dtype, strength, diagonal = _read(v, kappa, metric, positive)
    return (w / (1 + strength / diagonal)).astype(dtype, copy=False)


@shared_parameters
def prox_lp(
    v: ArrayLike,
    kappa: float,
    p: float,
    *,
    metric: ArrayLike | None = None,
    positive: bool = False,
) -> NDArray:
    r"""Proximal operator of :math:`\kappa \|w\|_p`.

    .. math::
        \operatorname*{arg\,min}_w\; \tfrac12 \sum_i D_i (w_i - v_i)^2
        + \kappa \Bigl(\sum_i |w_i|^p\Bigr)^{1/p}

    For D = 1 the result is v minus its projection on the ball of radius :math:`\kappa`
    of the dual norm, with the power q, :math:`1/p + 1/q = 1`.

    Parameters
    ----------
    {v}

    {kappa}

    p : float
        From 1 (soft thresholding) to infinity (lowering the largest entries).

    {metric}

    {positive}

    Returns
    -------
    {result}
        Exactly 0 where :math:`\|D v\|_q \le \kappa`.

    Raises
    ------
    ValueError
        Naming the parameter.

    Notes
    -----
    With :math:`t = \|w\|_p` and :math:`s = |w| / t` the optimality conditions are
    :math:`D_i t s_i + \kappa s_i^{p-1} = D_i |v_i|` and :math:`\sum_i s_i^p = 1`. Given
    t, the left side of the first equation increases in :math:`s_i`, and the solutions
    decrease in t. A safeguarded Newton method finds t, and in each of its steps Newton
    methods find all log s, exact to rounding. O(n) for each of about ten steps; for
    p = infinity each step reads fewer entries than the step before.

    For p = 2 and D = 1 the operator is block soft thresholding, :math:`w = [1 - \kappa
    / \|v\|_2]_+ v`. For p = infinity the largest entries are lowered to a level r, with
    :math:`\sum_i D_i [\,|v_i| - r]_+ = \kappa`.

    References
    ----------
    A. Nelakanti, thesis, 2014, section 2.4 and table 2.1.

    Examples
    --------
    >>> from sklstruct.prox import prox_lp
    >>> prox_lp([3.0, -4.0, 1.0], 2.0, 3).round(4)
    array([ 2.0316, -2.5154,  0.836 ])
    """
    p = check_power(p)
    strength = np.array([check_real("kappa", kappa, "[0, inf)")])
    w, dtype, _, diagonal = _read(v, 0.0, metric, positive)
    one = np.zeros(w.size, dtype=np.intp)
    w = prox_blocks(w, one, strength, p, diagonal)
    return w.astype(dtype, copy=False)


def norm_lp(v: ArrayLike, p: float) -> float:
    r"""The :math:`\ell_p` norm, :math:`(\sum_i |v_i|^p)^{1/p}`.

    Parameters
    ----------
    v : array-like of shape (n,)
        Finite values.

    p : float
        From 1 to infinity, the maximum.

    Returns
    -------
    norm : float
        0 for an empty vector.

    Examples
    --------
    >>> from sklstruct.prox import norm_lp
    >>> norm_lp([3.0, -4.0, 1.0], 3).__round__(4)
    4.5144
    """
    p = check_power(p)
    size = np.abs(check_vector(v)[0])
    one = np.zeros(size.size, dtype=np.intp)
    return float(block_norms(size, one, 1, p)[0])


@shared_parameters
def prox_elastic_net(
    v: ArrayLike,
    kappa: float | ArrayLike,
    gamma: float = 1.0,
    *,
    metric: ArrayLike | None = None,
    positive: bool = False,
) -> NDArray:
    r"""Threshold and scale, the operator of the elastic net.

    .. math::
        \operatorname*{arg\,min}_w\; \tfrac12 \sum_i D_i (w_i - v_i)^2
        + \sum_i \kappa_i \bigl(|w_i| + \tfrac{\gamma}{2} w_i^2\bigr), \qquad
        w_i = \operatorname{sign}(v_i)
        \frac{[D_i |v_i| - \kappa_i]_+}{D_i + \kappa_i \gamma}

    Parameters
    ----------
    {v}

    {kappa_of_entry}

    gamma : float, default=1.0
        Weight of the squares, finite and >= 0.

    {metric}

    {positive}

    Returns
    -------
    {result}

    Raises
    ------
    ValueError
        Naming the parameter.

    References
    ----------
    A. Nelakanti, thesis, 2014, table 2.1 (there the squares are not halved).

    Examples
    --------
    >>> from sklstruct.prox import prox_elastic_net
    >>> prox_elastic_net([3.0, -2.0, 0.5], 1.0, 1.0)
    array([ 1. , -0.5,  0. ])
    """
    gamma = check_real("gamma", gamma, "[0, inf)")
    w, dtype, strength, diagonal = _read(v, kappa, metric, positive)
    share = strength / diagonal
    return (soft(w, share) / (1 + share * gamma)).astype(dtype, copy=False)


def norm_elastic_net(v: ArrayLike, gamma: float = 1.0) -> float:
    r"""The elastic net, :math:`\sum_i |v_i| + \tfrac{\gamma}{2} v_i^2`; not a norm.

    Parameters
    ----------
    v : array-like of shape (n,)
        Finite values.

    gamma : float, default=1.0
        Weight of the squares, finite and >= 0.

    Returns
    -------
    value : float
        The penalty.

    Examples
    --------
    >>> from sklstruct.prox import norm_elastic_net
    >>> norm_elastic_net([3.0, -4.0], 2.0)
    32.0
    """
    gamma = check_real("gamma", gamma, "[0, inf)")
    v = check_vector(v)[0]
    with np.errstate(over="ignore"):
        return norm_lp(v, 1) + (0.5 * gamma * float(v @ v) if gamma else 0.0)


# ------------------------------------------------------- many blocks at a time


def block_norms(v: NDArray, block: NDArray, n_blocks: int, p: float) -> NDArray:
    """The lp norm of each block of v >= 0, block[i] the block of entry i."""
    top = np.zeros(n_blocks)
    np.maximum.at(top, block, v)
    if p == np.inf:
        return top
    unit = np.where(top > 0, top, 1.0)
    power = np.power(v / unit[block], p)
    with np.errstate(over="ignore"):
        return unit * np.bincount(block, power, n_blocks) ** (1 / p)


def prox_blocks(
    v: NDArray, block: NDArray, kappa: NDArray, p: float, metric: NDArray
) -> NDArray:
    """`prox_lp` in every block at once, block[i] the block of entry i.

    kappa: of each block. metric: (n,) or (1,).
    """
    if v.size == 0:
        return v.copy()
    sign, size = np.sign(v), np.abs(v)
    if p == 1:
        return sign * np.maximum(size - kappa[block] / metric, 0.0)
    # in units of the largest value and the largest metric, against overflow
    unit, heavy = size.max() or 1.0, metric.max()
    with np.errstate(under="ignore", over="ignore"):
        size, metric = size / unit, np.broadcast_to(metric / heavy, size.shape)
        kappa = kappa / unit / heavy
    if p == np.inf:
        return sign * unit * _lower(size, block, kappa, metric)
    n_blocks = kappa.size
    slope = metric * size
    dual = block_norms(slope, block, n_blocks, p / (p - 1))
    if p == 2 and metric.min() == 1:  # block soft thresholding
        return v * (np.maximum(dual - kappa, 0.0) / (dual + (dual == 0)))[block]
    alive = (dual > kappa) & (kappa > 0)
    here = alive[block] & (slope > 0)
    part = (np.cumsum(alive) - 1)[block[here]]
    w = np.where((kappa == 0)[block], size, 0.0)
    if part.size:
        w[here] = _on_sphere(
            slope[here], metric[here], part, kappa[alive], p, size[here]
        )
    return sign * unit * w


def _lower(size, block, kappa, metric):
    """min(size, r) with sum of metric (size - r)+ = kappa in each block.

    The entries above r determine r. The first r is computed from all entries; it
    increases while entries below r are left out (C. Michelot, Journal of Optimization
    Theory and Applications 50, 1986). Sums by block, not differences of cumulative
    sums, keep the digits of blocks of small entries.
    """
    r, n_above = np.where(kappa > 0, 0.0, np.inf), -1
    above = np.flatnonzero(size > r[block])
    while above.size != n_above:
        n_above = above.size
        b, d = block[above], metric[above]
        weight = np.bincount(b, d, kappa.size)
        total = np.bincount(b, d * size[above], kappa.size) - kappa
        np.maximum(r, total / np.where(weight > 0, weight, np.inf), out=r)
        above = above[size[above] > r[b]]
    return np.minimum(size, r[block])


def _on_sphere(slope, metric, block, kappa, p, size):
    """w > 0 with metric w + kappa (w / t)^(p-1) = slope, t the norm of w in its block.

    Newton's method in t for 1 / ||s|| = 1, s = w / t: without kappa, 1 / ||s|| is
    proportional to t.
    """
    n_blocks = kappa.size
    low, high = np.zeros(n_blocks), block_norms(size, block, n_blocks, p)
    # the start of t, which is between 0 and ||v||
    t = 0.5 * high
    for _ in range(_STEPS):
        log_s, rate = _entries(slope, metric * t[block], kappa[block], p)
        top = np.full(n_blocks, -np.inf)
        np.maximum.at(top, block, log_s)
        power = np.exp(p * (log_s - top[block]))
        total = np.bincount(block, power, n_blocks)
        log_norm = top + np.log(total) / p
        low, high = np.where(log_norm > 0, t, low), np.where(log_norm > 0, high, t)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            share = np.bincount(block, power * rate, n_blocks) / total
            new = t * (1 + np.expm1(log_norm) / share)
        inside = (new == t) | (new > low) & (new < high)
        new = np.where(inside, new, 0.5 * (low + high))
        done = np.abs(new - t) <= 1e-15 * new
        t = new
        if done.all():
            break
    # log_s is for the previous t; after its scaling the error is of second order
    return t[block] * np.exp(log_s - log_norm[block])


def _entries(slope, a, kappa, p):
    """Logarithms of the roots s of a s + kappa s^(p-1) = slope > 0; -d log s / d log a.

    The variable x is log s or (p - 1) log s, so that the terms are exp(x - x0) and
    exp(m (x - x1)) with m >= 1. Their sum is convex: Newton's method comes down
    monotonically from any point above the root.
    """
    r = p - 1
    if r == 1:
        return np.log(slope / (a + kappa)), a / (a + kappa)
    linear, curved, m = (a, kappa, r) if r >= 1 else (kappa, a, 1 / r)
    with np.errstate(divide="ignore", over="ignore"):
        x0, x1 = np.log(slope / linear), np.log(slope / curved) / m
    x = np.minimum(x0, x1)
    for _ in range(_STEPS):
        less, power = np.expm1(x - x0), np.exp(m * (x - x1))
        slant = 1 + less + m * power
        step = (less + power) / slant
        # Steps are positive up to rounding, at which they end.
        if (step <= 4e-16 * np.maximum(1 / m, np.abs(x))).all():
            break
        x = x - np.maximum(step, 0.0)
    return (x, (1 + less) / slant) if r >= 1 else (m * x, m * power / slant)
