"""The probability of a whole group of classes after a context."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._parallel import row_blocks, rows_per_block
from ._model import BackoffModel


def log_group_proba(
    model: BackoffModel, nodes: NDArray, group: NDArray, wanted: NDArray
) -> NDArray:
    r"""Natural logarithm of the sum of P(y | n) over the classes of a group.

    .. math::
        P(g \mid n) = \sum_{y \in g,\, (n, y)} P(y \mid n) + b(n) \Big(
        P(g \mid \mathrm{parent}(n)) - \sum_{y \in g,\, (n, y)}
        P(y \mid \mathrm{parent}(n)) \Big),

    so that a node costs its pairs and the number of groups, not the number of classes.

    Parameters
    ----------
    model : BackoffModel
        Any.

    nodes : int32 ndarray of shape (n,)
        Node ids, from `BackoffModel.find`.

    group : int ndarray of shape (n_classes,)
        The group of each class, from 0.

    wanted : int ndarray of shape (n,)
        A group for each node.

    Returns
    -------
    log_prob : ndarray of shape (n,)
    """
    group = np.asarray(group, dtype=np.int64)
    n_groups = int(group.max()) + 1
    out = np.empty(len(nodes))
    order = np.argsort(nodes, kind="stable")
    root = np.exp(model.predict_log_proba(np.zeros(1, dtype=np.int32))[0])
    root = np.bincount(group, weights=root, minlength=n_groups)
    for s in row_blocks(len(nodes), rows_per_block(n_groups)):
        rows = order[s]
        ids, mass = _masses(model, nodes[rows], group, root)
        with np.errstate(divide="ignore"):
            out[rows] = np.log(mass[np.searchsorted(ids, nodes[rows]), wanted[rows]])
    return out


def _masses(model, nodes, group, root):
    """(the nodes and their ancestors, P(g | n) of all groups at each)."""
    tree, pairs = model.tree, model.pairs
    used = np.zeros(tree.n_nodes, dtype=bool)
    used[nodes] = True
    for k in range(tree.n_levels - 1, 0, -1):
        here = tree.level(k)
        used[tree.parent[here][used[here]]] = True
    used[0] = True
    ids = np.flatnonzero(used)
    mass = np.empty((ids.size, root.size))
    mass[0] = root
    for k in range(1, tree.n_levels):
        level = tree.level(k)
        a, b = np.searchsorted(ids, (level.start, level.stop))
        if a == b:
            continue
        here = ids[a:b]
        parent = tree.parent[here]
        n_pairs = np.diff(pairs.ptr)[here]
        own = np.repeat(np.arange(here.size), n_pairs)
        # The pairs of each node are consecutive.
        slot = np.arange(own.size) + np.repeat(
            pairs.ptr[here] - (np.cumsum(n_pairs) - n_pairs), n_pairs
        )
        target = pairs.target[slot]
        key = own * root.size + group[target]
        size = here.size * root.size
        explicit = np.bincount(
            key, weights=np.exp(model.log_prob[slot]), minlength=size
        )
        above = np.exp(model.log_proba(parent[own], target))
        above = np.bincount(key, weights=above, minlength=size)
        rest = mass[np.searchsorted(ids, parent)] - above.reshape(here.size, -1)
        # A group all of whose classes are explicit may leave a rounding below 0.
        np.maximum(rest, 0.0, out=rest)
        rest *= np.exp(model.log_backoff[here])[:, None]
        mass[a:b] = rest + explicit.reshape(here.size, -1)
    return ids, mass
