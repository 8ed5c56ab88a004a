"""Operators and norms of groups: a partition, nested groups, any groups.

A partition separates into blocks. Nested groups are a forest, for which the kernels of
`_tree_prox` are exact. Other overlapping groups have no closed form, and the
dual problem is solved by ascent over its blocks, one per group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from .._checks import as_ids, check_count, check_ids, check_real
from .._warnings import warn
from . import _overlapping_fast as kernels
from ._arguments import check_per_entry, check_power, check_vector, shared_parameters
from ._vectors import block_norms, prox_blocks

# Block steps of one call of the kernel: signals are handled between calls.
_CALL = 1 << 22


# ------------------------------------------------------------------- partitions


def _check_labels(groups, n):
    """(group of each entry from 0, number of groups)."""
    groups = np.asarray(groups)
    if groups.shape != (n,):
        raise ValueError(
            f"groups must have shape ({n},), the label of the group of each entry of "
            f"v, got shape {groups.shape}"
        )
    if groups.dtype.kind not in "iubUSO":
        raise ValueError(
            f"groups must hold labels, integers or strings, got dtype {groups.dtype}"
        )
    labels, group = np.unique(groups, return_inverse=True)
    return group.astype(np.intp), labels.size


@shared_parameters
def prox_group_lasso(
    v: ArrayLike,
    groups: ArrayLike,
    kappa: float | ArrayLike,
    *,
    p: float = 2,
    metric: ArrayLike | None = None,
    positive: bool = False,
) -> NDArray:
    r"""Proximal operator of the group lasso on a partition.

    .. math::
        \operatorname*{arg\,min}_w\; \tfrac12 \sum_i D_i (w_i - v_i)^2
        + \sum_g \kappa_g \|w_g\|_p

    Every entry belongs to one group. For p > 1 a group vanishes as a whole.

    Parameters
    ----------
    {v}

    groups : array-like of shape (n,)
        Label of the group of each entry, integers or strings.

    kappa : float or array-like of shape (n_groups,)
        Strength of each group, in the order of the sorted labels; finite and >= 0.

    p : float, default=2
        Norm within a group, from 1 to infinity.

    {metric}

    {positive}

    Returns
    -------
    {result}
        Groups that vanish are exactly 0.

    Raises
    ------
    ValueError
        Naming the parameter.

    See Also
    --------
    prox_lp : The operator of one group.
    prox_overlapping_groups : Groups that are nested or overlap.

    References
    ----------
    A. Nelakanti, thesis, 2014, equation 2.7 and table 2.1.

    Examples
    --------
    >>> from sklstruct.prox import prox_group_lasso
    >>> prox_group_lasso([3.0, 4.0, 1.0], ["a", "a", "b"], 1.0)
    array([2.4, 3.2, 0. ])
    """
    p = check_power(p)
    w, dtype = check_vector(v, positive=positive)
    group, n_groups = _check_labels(groups, w.size)
    kappa = check_per_entry(kappa, n_groups, "kappa", what="group")
    metric = check_per_entry(metric, w.size, "metric", positive=True, what="entry")
    kappa = np.broadcast_to(kappa, (n_groups,))
    return prox_blocks(w, group, kappa, p, metric).astype(dtype, copy=False)


def norm_group_lasso(
    v: ArrayLike,
    groups: ArrayLike,
    weights: float | ArrayLike = 1.0,
    *,
    p: float = 2,
) -> float:
    r"""Norm of the group lasso on a partition, :math:`\sum_g a_g \|v_g\|_p`.

    Parameters
    ----------
    v : array-like of shape (n,)
        Finite values.

    groups : array-like of shape (n,)
        Label of the group of each entry, integers or strings.

    weights : float or array-like of shape (n_groups,), default=1.0
        Weights a in the order of the sorted labels, finite and >= 0.

    p : float, default=2
        Norm within a group, from 1 to infinity.

    Returns
    -------
    norm : float
        0 for an empty vector.

    Examples
    --------
    >>> from sklstruct.prox import norm_group_lasso
    >>> norm_group_lasso([3.0, 4.0, 1.0], [0, 0, 1])
    6.0
    """
    p = check_power(p)
    size = np.abs(check_vector(v)[0])
    group, n_groups = _check_labels(groups, size.size)
    of_group = check_per_entry(weights, n_groups, "weights", what="group")
    return float((of_group * block_norms(size, group, n_groups, p)).sum())


# ------------------------------------------------------------- groups as lists


class Members(NamedTuple):
    """Groups as lists of entries; group g is entry[ptr[g]:ptr[g + 1]]."""

    ptr: NDArray  # (n_groups + 1,) int64
    entry: NDArray  # int32, ascending within a group

    @classmethod
    def of(
        cls, groups: Iterable[ArrayLike], n: int, what: str = "place in v"
    ) -> Members:
        """Checked groups of 0 ... n - 1; what: name of an entry in messages."""
        parts = [as_ids(f"groups[{g}]", part, 1) for g, part in enumerate(groups)]
        size = np.array([part.size for part in parts], dtype=np.int64)
        group = np.repeat(np.arange(size.size), size)
        entry = np.concatenate(parts or [np.empty(0, dtype=np.int32)])
        # All groups are checked together: one check per group is slower than the
        # operator.
        empty = np.flatnonzero(size == 0)
        if empty.size:
            raise ValueError(f"groups[{empty[0]}] is empty: give at least one {what}")
        if entry.size and not 0 <= entry.min() <= entry.max() < n:
            for g, part in enumerate(parts):
                check_ids(f"groups[{g}]", part, 0, n, what)
        entry = entry[np.lexsort((entry, group))]
        twice = (entry[1:] == entry[:-1]) & (group[1:] == group[:-1])
        if twice.any():
            i = twice.argmax()
            raise ValueError(
                f"groups[{group[i]}] holds {entry[i]} twice: give each {what} once"
            )
        return cls(np.append(0, np.cumsum(size)), entry)

    @property
    def n_groups(self) -> int:
        return self.ptr.size - 1


@shared_parameters
def prox_overlapping_groups(
    v: ArrayLike,
    groups: Iterable[ArrayLike],
    kappa: float | ArrayLike,
    *,
    p: float = 2,
    positive: bool = False,
    tol: float = 1e-7,
    max_iter: int = 10_000,
) -> NDArray:
    r"""Proximal operator of groups that are nested or overlap in any way.

    .. math::
        \operatorname*{arg\,min}_w\; \tfrac12 \|w - v\|^2
        + \sum_g \kappa_g \|w_g\|_p

    Parameters
    ----------
    {v}

    groups : list of array-like of int
        The entries of each group; groups may overlap. An entry need not be in a group.

    kappa : float or array-like of shape (n_groups,)
        Strength of each group, finite and >= 0.

    p : {2, inf}, default=2
        Norm within a group.

    {positive}

    tol : float, default=1e-7
        Largest distance of the result from the minimiser, relative to :math:`\|v\|`; at
        least 1e-12.

    max_iter : int, default=10000
        Largest number of rounds over the groups, at least 1.

    Returns
    -------
    {result}
        Groups that vanish are 0 up to `tol`; exactly 0 if the groups are nested.

    Raises
    ------
    ValueError
        Naming the parameter.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` rounds do not reach `tol`.

    See Also
    --------
    prox_tree_l2, prox_tree_linf : Nested groups given by a forest over the entries.

    Notes
    -----
    With a dual vector :math:`\xi_g` for each group, zero outside of the group, the
    minimiser is :math:`v - \sum_g \xi_g`, where the dual vectors solve

    .. math::
        \min_\xi\; \tfrac12 \Bigl\|v - \sum_g \xi_g\Bigr\|^2
        \quad\text{subject to } \|\xi_g\|_q \le \kappa_g .

    A round projects the residual of v on the ball of one group after the other. Every
    :math:`\xi` gives a bound of the error: the objective is strongly convex, so the
    squared distance to the minimiser is at most twice the gap between primal and dual
    objective. A round goes from the smallest to the largest group. If every two groups
    are nested or have no entry in common, as in the sparse group lasso, one round is
    exact [1]_.

    References
    ----------
    .. [1] R. Jenatton, J. Mairal, G. Obozinski, F. Bach, "Proximal methods for
       hierarchical sparse coding", JMLR 12, 2011.
    .. [2] A. Nelakanti, thesis, 2014, equations 2.8 and 2.9.

    Examples
    --------
    >>> from sklstruct.prox import prox_overlapping_groups
    >>> prox_overlapping_groups([3.0, 4.0, 1.0], [[0, 1], [1, 2]], 1.0).round(4)
    array([2.298 , 2.3311, 0.709 ])

    A sparse group lasso, two groups and a group for every single entry:

    >>> groups = [[0, 1], [2, 3], [0], [1], [2], [3]]
    >>> prox_overlapping_groups([4.0, 5.0, 1.2, -1.0], groups, 1.0).round(2)
    array([2.4, 3.2, 0. , 0. ])
    """
    p = check_power(p, (2, np.inf))
    w, dtype = check_vector(v, positive=positive)
    members = Members.of(groups, w.size)
    kappa = check_per_entry(kappa, members.n_groups, "kappa", what="group")
    kappa = np.ascontiguousarray(np.broadcast_to(kappa, (members.n_groups,)))
    check_real("tol", tol, "[1e-12, inf)")  # less is rounding
    max_iter = check_count("max_iter", max_iter, 1)
    unit = np.abs(w).max(initial=0.0)
    if unit == 0 or members.n_groups == 0:
        return w.astype(dtype, copy=False)
    w /= unit
    with np.errstate(over="ignore"):
        # a larger kappa has no other effect
        kappa = np.minimum(kappa / unit, 4.0 * w.size)
    start = w.copy()
    enough = 0.5 * tol**2 * float(start @ start)
    dual = np.zeros(members.entry.size)
    order = np.argsort(np.diff(members.ptr), kind="stable").astype(np.int64)
    room = np.empty(int(np.diff(members.ptr).max()))
    batch = max(1, _CALL // members.entry.size)
    rounds = 0
    while True:
        gap = kernels.rounds(
            members.ptr, members.entry, kappa, order, p == np.inf, start, w, dual,
            room, enough, min(batch, max_iter - rounds),
        )  # fmt: skip
        rounds += batch
        if gap <= enough:
            break
        if rounds >= max_iter:
            error = np.sqrt(2 * gap / float(start @ start))
            warn(
                f"max_iter={max_iter} rounds leave an error up to {error:.2g} ||v||, "
                f"above tol={tol:g}; increase max_iter or tol",
                ConvergenceWarning,
            )
            break
    return (w * unit).astype(dtype, copy=False)


def norm_overlapping_groups(
    v: ArrayLike,
    groups: Iterable[ArrayLike],
    weights: float | ArrayLike = 1.0,
    *,
    p: float = 2,
) -> float:
    r"""Norm of groups that may overlap, :math:`\sum_g a_g \|v_g\|_p`.

    Parameters
    ----------
    v : array-like of shape (n,)
        Finite values.

    groups : list of array-like of int
        The entries of each group.

    weights : float or array-like of shape (n_groups,), default=1.0
        Weights a of the groups, finite and >= 0.

    p : float, default=2
        Norm within a group, from 1 to infinity.

    Returns
    -------
    norm : float
        0 without groups.

    Examples
    --------
    >>> from sklstruct.prox import norm_overlapping_groups
    >>> norm_overlapping_groups([3.0, 4.0, 3.0], [[0, 1], [1, 2]])
    10.0
    """
    p = check_power(p)
    size = np.abs(check_vector(v)[0])
    members = Members.of(groups, size.size)
    of_group = check_per_entry(weights, members.n_groups, "weights", what="group")
    group = np.repeat(np.arange(members.n_groups), np.diff(members.ptr))
    norms = block_norms(size[members.entry], group, members.n_groups, p)
    return float((of_group * norms).sum())
