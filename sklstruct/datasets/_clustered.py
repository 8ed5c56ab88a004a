"""Classes in the orthants of a space: data with a known hierarchy of classes."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from numpy.random import Generator, RandomState
from numpy.typing import NDArray

from .._checks import as_random_state
from .._compat import Interval, validate_params


@validate_params(
    {
        "n_classes": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "n_samples_per_class": [Interval(Integral, 1, None, closed="left")],
        "disperse": [Interval(Real, 0, None, closed="left")],
        "variance": [Interval(Real, 0, None, closed="left")],
        "shuffle": ["boolean"],
        "return_centers": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def make_clustered_classes(
    *,
    n_classes: int = 50,
    n_features: int = 200,
    n_samples_per_class: int = 200,
    disperse: float = 5.0,
    variance: float = 8.0,
    shuffle: bool = True,
    return_centers: bool = False,
    random_state: int | RandomState | Generator | None = None,
) -> tuple[NDArray, ...]:
    r"""Uniform clouds, one per class, in orthants counted in binary.

    Class i is in the orthant given by the binary digits of i, :math:`b_i \in
    \{2, -1\}^d` with 2 for the digit 0 and -1 for the digit 1, and

    .. math::

        x = \mathrm{disperse} \cdot b_i + g_i + \mathrm{variance} \cdot u,
        \qquad g_i \sim \mathcal N(0, I_d) \text{ once per class}, \quad
        u \sim \mathcal U[0, 1]^d .

    Classes that share leading digits are close, which gives a hierarchy of classes.

    Parameters
    ----------
    n_classes : int, default=50
        Number of classes, >= 1.

    n_features : int, default=200
        Dimension d, >= 1.

    n_samples_per_class : int, default=200
        Samples of each class, >= 1.

    disperse : float, default=5.0
        Factor of :math:`b_i`, >= 0: the distance of the orthants from the origin per
        coordinate (twice as much for the digit 0).

    variance : float, default=8.0
        Width of the clouds per coordinate, >= 0: 8 is the set WS50 of the source, whose
        classes are well separated, 17 the set PO50, whose classes overlap. The name is
        from the source; the variance of a coordinate is the square of this width
        over 12.

    shuffle : bool, default=True
        Whether to shuffle the samples; otherwise they are sorted by class.

    return_centers : bool, default=False
        Whether to also return the corner :math:`\mathrm{disperse} \cdot b_i + g_i` of
        every cloud.

    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Returns
    -------
    X : float64 ndarray of shape (n_classes * n_samples_per_class, n_features)
        Samples.

    y : int64 ndarray of shape (n_classes * n_samples_per_class,)
        Classes, 0 to n_classes - 1.

    centers : float64 ndarray of shape (n_classes, n_features)
        The corners. Only with ``return_centers=True``.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Notes
    -----
    If there are more classes than the :math:`2^d` orthants, orthants are used again in
    order, and classes of one orthant differ by g only.

    References
    ----------
    Nelakanti (2014), Modélisation du langage à l'aide de pénalités structurées, thesis,
    appendix B.

    Examples
    --------
    >>> from sklstruct.datasets import make_clustered_classes
    >>> X, y = make_clustered_classes(n_samples_per_class=4, random_state=0)
    >>> X.shape, y.max()
    ((200, 200), np.int64(49))
    """
    k, d, m = n_classes, n_features, n_samples_per_class
    rng = as_random_state(random_state)

    # Most significant digit first; digits beyond the 63 of an int64 are 0.
    shift = np.minimum(np.arange(d)[::-1], 62)
    digit = (np.arange(k)[:, np.newaxis] >> shift) & 1
    centers = disperse * np.where(digit == 0, 2.0, -1.0)
    centers += rng.standard_normal((k, d))
    X = rng.random_sample((k * m, d))
    X *= variance
    X += np.repeat(centers, m, axis=0)
    y = np.repeat(np.arange(k), m)
    if shuffle:
        order = rng.permutation(k * m)
        X, y = X[order], y[order]
    return (X, y, centers) if return_centers else (X, y)
