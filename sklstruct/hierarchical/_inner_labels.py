"""Several labels per sample, some of which are inner nodes of a given tree.

A map to parents may have columns of y as inner nodes. The labels above a positive label
are positive. A label that is an inner node gets its own leaf below this node. The
conditional probability of that leaf is 1, so that the label has the probability of the
node, which is at least that of the labels below it.

In two cases the tree has no such node. If the label is above all other labels, its node
is the root, which has probability 1 even for samples without labels. `max_depth` or
`max_leaf` may merge the node with other nodes. In both cases the label is a yes/no
question like other labels, and `RaisedLabels` gives the label at least the probability
of the labels below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..taxonomy._io import is_nest, parents_of


class RaisedLabels(NamedTuple):
    """Replaces P(l) by the maximum of P(l) and of P of the labels below l."""

    below: sp.csr_matrix  # (n_labels, n_labels): row l is 1 at l and the labels below

    def raise_rows(self, log_proba: NDArray) -> None:
        """Change log-probabilities (n, n_labels) in place."""
        each = log_proba[:, self.below.indices]
        np.maximum.reduceat(each, self.below.indptr[:-1], axis=1, out=log_proba)

    def close(self, sample: NDArray, label: NDArray) -> tuple[NDArray, NDArray]:
        """The pairs (sample, label) and the pairs of the labels above, sorted."""
        pairs = np.ones(sample.size, dtype=np.int64), (sample, label)
        shape = int(sample.max(initial=-1)) + 1, self.below.shape[0]
        closed = sp.csr_matrix(sp.csr_matrix(pairs, shape=shape) @ self.below.T)
        closed.sort_indices()
        return closed.nonzero()


class InnerLabels(NamedTuple):
    """The labels that are inner nodes of a map to parents."""

    parents: dict[Any, Any]  # the map, with a new leaf for each of these labels
    above: sp.csr_matrix  # (L, L): row l is 1 at l and the labels above

    @classmethod
    def of(cls, taxonomy: Any, n_labels: int) -> InnerLabels | None:
        """None unless the taxonomy is a map to parents with labels as inner nodes."""
        if isinstance(taxonomy, tuple) and len(taxonomy) == 1:
            taxonomy = taxonomy[0]
        if not isinstance(taxonomy, Mapping):
            return None
        values = list(taxonomy.values())
        if any(map(is_nest, values)):
            return None
        parents = {
            _name(k, n_labels): _name(v, n_labels)
            for k, v in parents_of(taxonomy).items()
        }
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
                    raise ValueError(f"taxonomy has a cycle at or above {label!r}")
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
                f"taxonomy has the node {taken.pop()!r}, a name that is reserved for "
                "the inner node of this label: rename the node"
            )

        def name(node):
            return f"label {node}" if node in inner else node

        wrapped = {name(k): name(v) for k, v in parents.items()}
        return cls(wrapped | {label: name(label) for label in inner}, above)

    def close(self, Y: sp.csr_matrix) -> sp.csr_matrix:
        """Y with 1 also at the labels above its positive labels."""
        closed = sp.csr_matrix(Y @ self.above)
        closed.sort_indices()
        closed.data = np.ones(closed.data.size, dtype=Y.dtype)
        return closed

    def raised(self, known: NDArray) -> RaisedLabels:
        """The `RaisedLabels` of the known labels, numbered from 0."""
        return RaisedLabels(self.above[known][:, known].T.tocsr())

    def sizes(self, known: NDArray) -> NDArray:
        """Number of known labels at and below each known label; 0 for leaves."""
        size = np.asarray(self.above[known][:, known].sum(axis=0)).ravel()
        return np.where(size > 1, size, 0)


def _name(node: Any, n_labels: int) -> Any:
    """The node, as int if it is a label: a column of parents with NaN has floats."""
    whole = isinstance(node, float) and node.is_integer()
    return int(node) if whole and 0 <= node < n_labels else node


def _is_label(node: Any, n_labels: int) -> bool:
    return isinstance(node, int) and not isinstance(node, bool) and 0 <= node < n_labels
