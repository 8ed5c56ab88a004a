"""Proximal operators and norms of tree-structured group penalties on forests.

Layers: the public functions check arguments, `_NodeOrder` converts parents in any
numbering to the numbering parent < child that the kernels need, and `_tree_prox_fast`
does the sweeps.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import as_ids
from . import _tree_prox_fast as kernels
from ._arguments import check_per_entry, check_vector, power_of_two

# Nodes per kernel call: Ctrl-C is noticed between calls (about every 10 ms).
_STRIDE = 1 << 18


class _NodeOrder:
    """Checked parents of a forest, renumbered so that parent < child.

    `order` is None if parents have smaller numbers already.
    """

    def __init__(self, parents: ArrayLike):
        parents = np.asarray(parents)
        wide = parents.dtype.itemsize > 4  # not converted: a copy takes 10 % more time
        given = as_ids("parents", parents, 1, np.int64 if wide else np.int32)
        self.n = n = given.size
        self.parent = np.empty(n, dtype=np.int32)
        bad, ordered = kernels.check_parents(given, self.parent)
        if bad >= 0:
            raise ValueError(
                f"parents must hold node numbers from 0 to {n - 1} or -1 for a root, "
                f"got parents[{bad}] = {given[bad]}"
            )
        self.order: NDArray | None = None
        if not ordered:
            self._renumber()

    def _renumber(self) -> None:
        order = np.empty(self.n, dtype=np.int32)
        reached = kernels.topological_order(
            self.parent, np.zeros(self.n, dtype=np.int32), order
        )
        if reached < self.n:
            # `order` has the nodes that were reached at its end
            node = np.setdiff1d(np.arange(self.n), order[self.n - reached :])[0]
            raise ValueError(
                f"parents must describe a forest, but {self.n - reached} of the "
                f"{self.n} nodes, the first of them {node}, lie on a cycle; every node "
                "must reach a root (-1)"
            )
        new = np.empty(self.n + 1, dtype=np.int32)
        new[order] = np.arange(self.n, dtype=np.int32)
        new[-1] = -1  # the parent of a root
        self.parent = new[self.parent[order]]
        self.order = order

    def arrange(self, x: NDArray) -> NDArray:
        """Values per node in the numbering of the kernels."""
        return x if self.order is None or x.size == 1 else x[self.order]

    def restore(self, x: NDArray) -> NDArray:
        """Values per node in the numbering of the user."""
        if self.order is None:
            return x
        out = np.empty_like(x)
        out[self.order] = x
        return out

    def up(self, kernel, *arrays) -> float:
        """Run an upward kernel on all nodes; returns the sum of its results."""
        total = 0.0
        for hi in range(self.n, 0, -_STRIDE):
            total += kernel(self.parent, *arrays, max(hi - _STRIDE, 0), hi) or 0.0
        return total

    def down(self, kernel, *arrays) -> None:
        for lo in range(0, self.n, _STRIDE):
            kernel(self.parent, *arrays, lo, min(lo + _STRIDE, self.n))


def _read(
    v: ArrayLike,
    parents: ArrayLike,
    name: str,
    strength: float | ArrayLike,
    multiplicity: ArrayLike | None,
    positive: bool = False,
) -> tuple[_NodeOrder, NDArray, np.dtype, NDArray, NDArray]:
    """(forest, v, its type, strengths, multiplicities), checked."""
    forest = _NodeOrder(parents)
    w, dtype = check_vector(v, forest.n, "parents", positive=positive)
    strength = check_per_entry(strength, forest.n, name)
    mult = check_per_entry(multiplicity, forest.n, "multiplicity", positive=True)
    return forest, w, dtype, strength, mult


def _safe_unit(v: NDArray, mult: NDArray) -> float:
    """1.0, or a power of two to divide v by so that no square leaves float64."""
    top = max(v.max(initial=0.0), -v.min(initial=0.0))
    if top == 0:
        return 1.0
    exponent = np.log2(top) + 0.5 * np.log2(mult.max() * v.size)
    if -333 < exponent < 500:
        return 1.0
    return power_of_two(exponent)


def _sum_or_inf(total: float) -> float:
    """inf for NaN, which compensated summation returns on overflow of valid input."""
    return float("inf") if np.isnan(total) else total


def prox_tree_l2(
    v: ArrayLike,
    parents: ArrayLike,
    kappa: float | ArrayLike,
    *,
    multiplicity: ArrayLike | None = None,
    positive: bool = False,
) -> NDArray:
    r"""Proximal operator of the tree-structured :math:`\ell_2` norm.

    .. math::

        \operatorname*{arg\,min}_w\;
        \tfrac12 \sum_i c_i (w_i - v_i)^2
        + \sum_g \kappa_g \Bigl(\sum_{i \in T(g)} c_i w_i^2\Bigr)^{1/2}

    where :math:`T(g)` holds node g and all nodes below it. Every node of the forest
    is the root of one group. Computed exactly by one upward and one downward sweep.

    Parameters
    ----------
    v : array-like of shape (n,)
        Finite values, of any sign.

    parents : array-like of int, shape (n,)
        Parent of each node, -1 for a root. Any forest in any numbering; fastest
        where every parent has a smaller number than its children.

    kappa : float or array-like of shape (n,)
        Threshold of each node's group, finite and >= 0.

    multiplicity : float or array-like of shape (n,), default=None
        Numbers c > 0: node i stands for c_i equal entries, all of them in the same
        groups, and counts c_i times in the sums above. There is still **one** group
        per node. (A collapsed path of a suffix tree is not such a node, because it
        stands for c nested groups: this operator does not keep the entries of the path
        equal, so the whole trie is needed. See `prox_tree_linf`.) None means 1.

    positive : bool, default=False
        Minimise over w >= 0: negative entries of v are set to 0 first.

    Returns
    -------
    w : ndarray of shape (n,)
        float32 where v is float32 (the computation is in float64), else float64.
        Groups that vanish are exactly 0.

    Raises
    ------
    ValueError
        Naming the parameter: wrong shape, not finite, negative threshold,
        multiplicity <= 0, a parent out of range, a cycle.

    See Also
    --------
    prox_tree_linf : The operator with maxima instead of Euclidean norms.
    norm_tree_l2 : The norm.

    Notes
    -----
    The parameter ``metric`` does not exist here: with different quadratic weights in
    one group, the step of an outer group would change the direction of the vectors of
    inner groups, and the composition of the steps from the leaves to the root would not
    be the proximal operator.

    Cost: O(n) time, 12 bytes per node in addition to input and result.

    References
    ----------
    Jenatton, Mairal, Obozinski, Bach (2011), Proximal methods for hierarchical sparse
    coding, JMLR 12, algorithm 2. Nelakanti, Archambeau, Mairal, Bach, Bouchard (2013),
    Structured penalties for log-linear language models, EMNLP, algorithm 2.

    Examples
    --------
    >>> from sklstruct.prox import prox_tree_l2
    >>> parents = [-1, 0, 1, 2, 3, 3, 1, 6]
    >>> prox_tree_l2([3, 4, 6, 6, 4, 5, 7, 7], parents, 0.8).round(2)
    array([2.81, 3.51, 4.81, 4.33, 2.31, 3.03, 5.61, 4.97])
    >>> prox_tree_l2([3.0, -4.0], [-1, -1], 1.0)   # roots only: soft threshold
    array([ 2., -3.])
    """
    forest, w, dtype, kappa, mult = _read(
        v, parents, "kappa", kappa, multiplicity, positive
    )
    w, kappa, mult = map(forest.arrange, (w, kappa, mult))
    unit = _safe_unit(w, mult)
    if unit != 1.0:  # prox(v, kappa) = unit * prox(v / unit, kappa / unit)
        with np.errstate(over="ignore", under="ignore"):  # kappa = inf: all 0
            w, kappa = w / unit, kappa / unit
    state = np.zeros(forest.n)
    forest.up(kernels.tree_l2_up, kappa, mult, w, state)
    forest.down(kernels.tree_l2_down, kappa, w, state)
    if unit != 1.0:
        w *= unit
    return forest.restore(w).astype(dtype, copy=False)


def prox_tree_linf(
    v: ArrayLike,
    parents: ArrayLike,
    kappa: float | ArrayLike,
    *,
    multiplicity: ArrayLike | None = None,
    metric: ArrayLike | None = None,
    positive: bool = False,
) -> NDArray:
    r"""Proximal operator of the tree-structured :math:`\ell_\infty` norm.

    .. math::

        \operatorname*{arg\,min}_w\;
        \tfrac12 \sum_i c_i D_i (w_i - v_i)^2
        + \sum_g c_g \kappa_g \max_{i \in T(g)} |w_i|

    where :math:`T(g)` holds node g and all nodes below it. Every node of the forest
    is the root of one group (of c_g nested ones, see `multiplicity`). Exact for any
    diagonal metric D.

    Parameters
    ----------
    v : array-like of shape (n,)
        Finite values, of any sign.

    parents : array-like of int, shape (n,)
        Parent of each node, -1 for a root. Any forest in any numbering; fastest
        where every parent has a smaller number than its children.

    kappa : float or array-like of shape (n,)
        Threshold of each node's group, finite and >= 0.

    multiplicity : float or array-like of shape (n,), default=None
        Numbers c > 0: node i stands for a non-branching path of c_i nodes of the
        uncollapsed tree which share the values v_i, kappa_i and D_i. Its value counts
        c_i times in sums and its c_i nested groups become **one step with threshold**
        ``c_i * kappa_i``. The result is the same as on the uncollapsed tree
        (propositions 1 and 2 of Nelakanti et al.). None means 1.

    metric : float or array-like of shape (n,), default=None
        Diagonal D > 0 of the quadratic term. None means 1.

    positive : bool, default=False
        Minimise over w >= 0: negative entries of v are set to 0 first.

    Returns
    -------
    w : ndarray of shape (n,)
        float32 where v is float32 (the computation is in float64), else float64.
        Groups that vanish are exactly 0.

    Raises
    ------
    ValueError
        Naming the parameter: wrong shape, not finite, negative threshold,
        multiplicity or metric <= 0, a parent out of range, a cycle.

    See Also
    --------
    prox_tree_l2 : The operator with Euclidean norms instead of maxima.
    norm_tree_linf : The norm.

    Notes
    -----
    At each node, children first: if :math:`\sum D_i |v_i|` of the subtree is at most
    kappa, all values become 0; otherwise the largest values are lowered to the common r
    with :math:`\sum D_i (|v_i| - r)_+ = \kappa`. For any D, a step only clips a subtree
    from above to one level: the largest entries of an inner group stay the largest
    through all outer steps, so the subgradient of the inner group stays valid, and the
    composition of the steps is the proximal operator.

    Cost: O(n log n) time at worst, 28 bytes per node in addition to input and result.
    Equal values are stored as one cluster of a mergeable heap, so that the cost does
    not depend on how many values exceed the level.

    References
    ----------
    Jenatton, Mairal, Obozinski, Bach (2011), Proximal methods for hierarchical sparse
    coding, JMLR 12. Nelakanti, Archambeau, Mairal, Bach, Bouchard (2013), Structured
    penalties for log-linear language models, EMNLP, algorithm 4, propositions 1 and 2.

    Examples
    --------
    >>> from sklstruct.prox import prox_tree_linf
    >>> parents = [-1, 0, 1, 2, 3, 3, 1, 6]
    >>> prox_tree_linf([3, 4, 6, 6, 4, 5, 7, 7], parents, 0.8).round(2)
    array([3. , 4. , 5.2, 5.2, 3.2, 4.2, 5.4, 5.4])

    Nodes 2, 3 and nodes 6, 7 are non-branching paths of equal values (all but the
    last node of a path have exactly one child), so each can be one node:

    >>> prox_tree_linf([3, 4, 6, 4, 5, 7], [-1, 0, 1, 2, 2, 1], 0.8,
    ...                multiplicity=[1, 1, 2, 1, 1, 2]).round(2)
    array([3. , 4. , 5.2, 3.2, 4.2, 5.4])
    """
    forest, w, dtype, strength, mult = _read(
        v, parents, "kappa", kappa, multiplicity, positive
    )
    n = forest.n
    diagonal = check_per_entry(metric, n, "metric", positive=True)
    with np.errstate(over="ignore"):
        strength = strength * mult
        diagonal = diagonal * mult
        largest = n * diagonal.max(initial=0.0) * np.abs(w).max(initial=1.0)
    if not np.isfinite(strength.max(initial=0.0)) or not np.isfinite(largest):
        raise ValueError(
            "multiplicity * kappa and the sum of multiplicity * metric * |v| must stay "
            "below 1.8e308; divide kappa and metric by a common factor"
        )
    w, strength, diagonal = map(forest.arrange, (w, strength, diagonal))
    slots = kernels.tree_linf_slots(n)
    forest.up(kernels.tree_linf_up, strength, diagonal, w, slots)
    forest.down(kernels.tree_linf_down, w, slots)
    return forest.restore(w).astype(dtype, copy=False)


def norm_tree_l2(
    v: ArrayLike,
    parents: ArrayLike,
    weights: float | ArrayLike = 1.0,
    *,
    multiplicity: ArrayLike | None = None,
) -> float:
    r"""Tree-structured :math:`\ell_2` norm.

    .. math::

        \Omega(v) = \sum_g a_g \Bigl(\sum_{i \in T(g)} c_i v_i^2\Bigr)^{1/2}

    where :math:`T(g)` holds node g and all nodes below it.

    Parameters
    ----------
    v : array-like of shape (n,)
        Finite values.

    parents : array-like of int, shape (n,)
        Parent of each node, -1 for a root; any forest in any numbering.

    weights : float or array-like of shape (n,), default=1.0
        Weights a of the groups, finite and >= 0.

    multiplicity : float or array-like of shape (n,), default=None
        Numbers c > 0 as in `prox_tree_l2`: node i counts c_i times in the sums, and
        there is one group per node. None means 1.

    Returns
    -------
    norm : float
        Zero for an empty forest.

    Raises
    ------
    ValueError
        Naming the parameter, as in `prox_tree_l2`.

    References
    ----------
    Nelakanti et al. (2013), Structured penalties for log-linear language models,
    EMNLP, section 4.1.

    Examples
    --------
    >>> from sklstruct.prox import norm_tree_l2
    >>> norm_tree_l2([3.0, 4.0], [-1, 0])   # 5 for the root's group, 4 for the leaf's
    9.0
    """
    forest, v, _, weights, mult = _read(v, parents, "weights", weights, multiplicity)
    v, weights, mult = map(forest.arrange, (v, weights, mult))
    unit = _safe_unit(v, mult)
    if unit != 1.0:
        v = v / unit
    state = np.zeros(forest.n)
    return unit * _sum_or_inf(
        forest.up(kernels.tree_norm_up, weights, mult, v, state, False)
    )


def norm_tree_linf(
    v: ArrayLike,
    parents: ArrayLike,
    weights: float | ArrayLike = 1.0,
    *,
    multiplicity: ArrayLike | None = None,
) -> float:
    r"""Tree-structured :math:`\ell_\infty` norm.

    .. math::

        \Omega(v) = \sum_g c_g a_g \max_{i \in T(g)} |v_i|

    where :math:`T(g)` holds node g and all nodes below it.

    Parameters
    ----------
    v : array-like of shape (n,)
        Finite values.

    parents : array-like of int, shape (n,)
        Parent of each node, -1 for a root; any forest in any numbering.

    weights : float or array-like of shape (n,), default=1.0
        Weights a of the groups, finite and >= 0.

    multiplicity : float or array-like of shape (n,), default=None
        Numbers c > 0 as in `prox_tree_linf`: node i stands for a non-branching path of
        c_i nodes with one value, hence for c_i nested groups with the same maximum.
        None means 1.

    Returns
    -------
    norm : float
        Zero for an empty forest.

    Raises
    ------
    ValueError
        Naming the parameter, as in `prox_tree_linf`.

    References
    ----------
    Nelakanti et al. (2013), Structured penalties for log-linear language models,
    EMNLP, section 4.1.

    Examples
    --------
    >>> from sklstruct.prox import norm_tree_linf
    >>> norm_tree_linf([3.0, -4.0], [-1, 0])
    8.0
    """
    forest, v, _, weights, mult = _read(v, parents, "weights", weights, multiplicity)
    v, weights = map(forest.arrange, (v, weights * mult))
    state = np.zeros(forest.n)
    return _sum_or_inf(forest.up(kernels.tree_norm_up, weights, mult, v, state, True))
