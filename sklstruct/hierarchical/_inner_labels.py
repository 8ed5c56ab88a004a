"""Several labels a sample, some of which are inner nodes of a given tree.

A map to parents may have columns of y as inner nodes. A label above a positive one is
positive. Such a label gets a leaf of its own below its node, and the answer there is
yes: its probability is that of the node, and no less than that of the labels below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..taxonomy._labels import as_scalar


class InnerLabels(NamedTuple):
    """The labels that are inner nodes of a map to parents."""

    parents: dict[Any, Any]  # the map, with a leaf for each of them
    above: sp.csr_matrix  # (L, L): 1 at each label and those above it

    @classmethod
    def of(cls, taxonomy: Any, n_labels: int) -> InnerLabels | None:
        """None if the taxonomy is no such map."""
        if not isinstance(taxonomy, Mapping):
            return None
        values = list(taxonomy.values())
        if any(isinstance(v, list | tuple | Mapping | np.ndarray) for v in values):
            return None
        parents = {as_scalar(k): as_scalar(v) for k, v in taxonomy.items()}
        inner = {v for v in parents.values() if _is_label(v, n_labels)}
        if not inner:
            return None
        pairs = []
        for label in {*parents, *inner}:
            node, steps = label, 0
            while (
                _is_label(label, n_labels) and (node := parents.get(node)) is not None
            ):
                steps += 1
                if steps > len(parents):
                    raise ValueError(f"cycle: the parents of {label!r} lead back to it")
                if node in inner:
                    pairs.append((label, node))
        own = np.arange(n_labels)
        below, node = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        rows, columns = np.append(own, below), np.append(own, node)
        above = sp.csr_matrix(
            (np.ones(rows.size, dtype=np.int64), (rows, columns)),
            shape=(n_labels, n_labels),
        )

        taken = {f"label {v}" for v in inner} & {*parents, *parents.values()}
        if taken:
            raise ValueError(
                f"taxonomy has the node {taken.pop()!r}, which is the name that the "
                "node of this label gets: call it something else"
            )

        def name(node):
            return f"label {node}" if node in inner else node

        wrapped = {name(k): name(v) for k, v in parents.items()}
        return cls(wrapped | {label: name(label) for label in inner}, above)

    def close(self, Y: sp.csr_matrix) -> sp.csr_matrix:
        """Y with the labels above its positives."""
        closed = sp.csr_matrix(Y @ self.above)
        closed.sort_indices()
        closed.data = np.ones(closed.data.size, dtype=Y.dtype)
        return closed

    def sizes(self, known: NDArray) -> NDArray:
        """Known labels at and below each known label, if there are any below."""
        size = np.asarray(self.above[known][:, known].sum(axis=0)).ravel()
        return np.where(size > 1, size, 0)


def _is_label(node: Any, n_labels: int) -> bool:
    return isinstance(node, int) and not isinstance(node, bool) and 0 <= node < n_labels
