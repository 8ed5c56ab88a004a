r"""Levels and widths of a tree over many classes of sparse samples, by what they cost.

A node of m outcomes and n_v samples of k entries is fitted in time proportional to
n_v k m, with m weights for each of its c_v columns and m dual variables for each
sample. With all samples at every routing level and shared out among the leaves, k and n
cancel from the comparison of times, which leaves the sum of the widths, and memory is
what a limit is set on.
"""

from __future__ import annotations

from math import ceil, log2
from numbers import Integral
from typing import NamedTuple

# Up to here one node with all classes.
_FLAT = 100
# Classes of a leaf: more cost time in proportion and lose less at the routing nodes,
# which matters more with many classes; but four leaves at least, whose evidence
# corrects each other, are better than one node with all classes.
_LEAF = 100
_LEAVES = 4
_MANY, _LARGE_LEAF = 5000, 200
# Beyond it the weights of a routing node fall out of the caches.
_WIDEST = 128
# Outcomes are padded to so many single-precision numbers.
_LANES = 16
# Entries of a sample, where nobody knows.
_ENTRIES = 64


class TreeShape(NamedTuple):
    """Levels and widths of a tree, and what they cost."""

    max_leaf: int
    """Classes of a leaf; all of them for a flat model."""

    max_children: int
    """Children of a routing node, a power of two; 1 for a flat model."""

    n_levels: int
    """Routing levels above the leaves; 0 for a flat model."""

    width: int
    """Weight vectors that a sample meets in training, the sum of the widths."""

    n_bytes: float
    """Of the largest node in training: weights and dual variables, single precision."""


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
    :math:`G^r \ge K / L`, a sample meets

    .. math::

        r\, G + L

    weight vectors in training, and the largest node takes
    :math:`4 m (c_v + n_v)` bytes: m outcomes, n_v samples, :math:`c_v \le \min(d, n_v
    k)` columns. Few large leaves are more accurate than many small ones, so L is the
    largest that is worth its time: all classes up to 100, then a quarter of them and at
    most 100, from 5 000 classes 200. r is the smallest for which :math:`G \le 128` and
    routing nodes fit `max_bytes`; leaves are halved until they fit.

    Parameters
    ----------
    n_classes, n_samples, n_features : int
        K, n and d, >= 1.

    n_entries : int, default=None
        Entries of X that are not zero, k n; None assumes 64 a sample.

    max_leaf : int, default=None
        L, >= 1, where it is chosen already. None chooses.

    max_bytes : float, default=2**28
        Limit of the largest node, > 0. Where no shape meets it, the smallest is given.

    Returns
    -------
    shape : TreeShape

    Raises
    ------
    ValueError
        A parameter out of its range.

    See Also
    --------
    Taxonomy.stop_at : Leaves of at most L classes.

    Taxonomy.widen : Nodes of up to G children.

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
        if not isinstance(value, Integral) or value < (name != "n_entries"):
            least = int(name != "n_entries")
            raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    if not max_bytes > 0:
        raise ValueError(f"max_bytes must be positive, got {max_bytes!r}")
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
