r"""Levels and widths of a tree over many classes of sparse samples, by their costs.

A node of m outcomes and n_v samples of k entries is fitted in time proportional to
n_v k m, with m weights for each of its c_v columns and m dual variables for each
sample. Each sample is in one node per routing level and in one leaf. So the time of a
tree is n k times the sum of the numbers of outcomes (widths) on a path. The memory of a
node is limited.
"""

from __future__ import annotations

from math import ceil, log2
from typing import NamedTuple

from .._checks import check_count, check_real

# Up to this number of classes the tree is one node.
_FLAT = 100
# Classes per leaf. Larger leaves take more time and lose less accuracy at the routing
# nodes, which matters more with many classes. At least three leaves, in practice four:
# the evidence of several leaves makes such a tree more accurate than a flat model.
_LEAF = 100
_LEAVES = 3
_MANY, _LARGE_LEAF = 5000, 200
# Largest number of children: the weights of a wider node do not fit into the caches.
_WIDEST = 128
# Outcomes are padded to a multiple of this.
_LANES = 16
# Assumed number of entries per sample if `n_entries` is None.
_ENTRIES = 64


class TreeShape(NamedTuple):
    """Levels and widths of a tree, and its costs."""

    max_leaf: int
    """Largest number of classes of a leaf; all classes for a flat model."""

    max_children: int
    """Largest number of children of a node, a power of two; 1 for a flat model."""

    n_levels: int
    """Routing levels above the leaves; 0 for a flat model."""

    width: int
    """Number of weight vectors that a training sample updates."""

    n_bytes: float
    """Bytes of the weights and dual variables of the largest node in training."""


def choose_shape(
    n_classes: int,
    n_samples: int,
    n_features: int,
    *,
    n_entries: int | None = None,
    max_leaf: int | None = None,
    max_bytes: float = 2**28,
) -> TreeShape:
    r"""Levels and widths of a tree for a linear model of many classes.

    For K classes, leaves of at most L and r routing levels of G children with
    :math:`G^r \ge K / L`, a training sample updates

    .. math::

        r\, G + L

    weight vectors, and a node takes :math:`4 m (c_v + n_v)` bytes for m outcomes,
    padded to 16, n_v samples and :math:`c_v \le \min(d, n_v k)` columns. Few
    large leaves are more accurate than many small leaves, but take more time. L is K up
    to 100 classes, then a third of K but at most 100, and 200 from 5 000 classes on. r
    is the smallest number for which :math:`G \le 128` and routing nodes need at most
    `max_bytes`; leaves are halved until they need at most `max_bytes`.

    Parameters
    ----------
    n_classes, n_samples, n_features : int
        K, n and d, >= 1.

    n_entries : int, default=None
        Number of non-zero entries of X, k n >= 0. None assumes 64 per sample.

    max_leaf : int, default=None
        Largest number of classes of a leaf, >= 1; replaces the rule for L. The model is
        flat up to this number of classes.

    max_bytes : float, default=2**28
        Limit of the largest node in bytes, > 0. If every shape exceeds the limit, the
        result is the shape with the smallest nodes.

    Returns
    -------
    shape : TreeShape

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    See Also
    --------
    Taxonomy.limit : Leaves of at most L classes, nodes of up to G children.

    Examples
    --------
    >>> from sklstruct.taxonomy import choose_shape
    >>> choose_shape(1000, 40_000, 100_000)
    TreeShape(max_leaf=100, max_children=16, n_levels=1, width=79, n_bytes=26240000.0)
    >>> choose_shape(100_000, 1_000_000, 1_000_000).n_levels
    2
    """
    sizes = {"n_classes": n_classes, "n_samples": n_samples, "n_features": n_features}
    optional = {"n_entries": n_entries, "max_leaf": max_leaf}
    sizes |= {name: value for name, value in optional.items() if value is not None}
    for name, value in sizes.items():
        check_count(name, value, int(name != "n_entries"))
    check_real("max_bytes", max_bytes, "(0, inf]")
    entries = _ENTRIES if n_entries is None else n_entries / n_samples

    def node(n_outcomes: int, share: float) -> float:
        """Bytes of a node with a share of the samples."""
        samples = n_samples * share
        columns = min(n_features, samples * entries)
        return 4.0 * _LANES * ceil(n_outcomes / _LANES) * (columns + samples)

    flat = node(n_classes, 1.0)
    if n_classes <= (_FLAT if max_leaf is None else max_leaf) and flat <= max_bytes:
        return TreeShape(n_classes, 1, 0, n_classes, flat)
    if max_leaf is None:
        max_leaf = _LARGE_LEAF if n_classes >= _MANY else _LEAF
        max_leaf = min(max_leaf, ceil(n_classes / _LEAVES))
    max_leaf = min(max_leaf, max(n_classes // 2, 1))
    doublings = max(1, ceil(log2(n_classes / max_leaf)))
    while node(ceil(n_classes / 2**doublings), 0.5**doublings) > max_bytes:
        if 2**doublings >= n_classes:
            break
        doublings += 1
        max_leaf = min(max_leaf, max(1, ceil(n_classes / 2**doublings)))
    for n_levels in range(1, doublings + 1):
        n_children = 2 ** ceil(doublings / n_levels)
        if n_children <= _WIDEST and node(n_children, 1.0) <= max_bytes:
            break
    held = ceil(n_classes / 2**doublings)
    n_bytes = max(node(n_children, 1.0), node(held, 0.5**doublings))
    return TreeShape(
        max_leaf, n_children, n_levels, n_levels * n_children + held, n_bytes
    )
