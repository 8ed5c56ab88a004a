"""The classification problems of the nodes of a tree, over one sorted X."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from .._parallel import single_blas_thread
from ..linear._quasi_newton import SortedProblems
from ..linear._targets import Targets
from ..taxonomy import Taxonomy


class NodeSamples(NamedTuple):
    """The samples of a node."""

    X: Any  # rows start to stop are the samples
    start: int
    stop: int
    at: slice | NDArray  # their numbers among the samples of all nodes
    targets: Targets  # their outcomes


class NodeProblems(SortedProblems):
    """`SortedProblems` of the nodes of a tree.

    Parameters
    ----------
    X, weight, bounds
        As of `SortedProblems`.

    code : ndarray of shape (n_samples,), default=None
        Class of each row, for folds that are stratified by class.
    """

    def __init__(
        self,
        X: NDArray | sp.csr_matrix,
        weight: NDArray,
        bounds: list[NDArray],
        code: NDArray | None = None,
    ) -> None:
        super().__init__(X, weight, bounds)
        self.code: Any = code

    def targets_of(self, v: int) -> tuple[slice, Targets]:
        """(the samples of a node, the outcome of each)."""
        bound = self.bounds_of(v)
        m = bound.size - 1
        outcome = np.repeat(np.arange(m, dtype=np.int32), np.diff(bound))
        return slice(bound[0], bound[-1]), Targets.one_each(outcome, m)

    def samples_of(self, v: int) -> NodeSamples:
        """The samples of a node and their outcomes."""
        at, targets = self.targets_of(v)
        return NodeSamples(self.X, int(at.start), int(at.stop), at, targets)

    def subset(self, rows: NDArray) -> NodeProblems:
        """The problems on some of their rows, which must leave no outcome empty."""
        before = np.searchsorted(rows, self.bounds)
        bounds = [before[a:b] for a, b in zip(self.ptr[:-1], self.ptr[1:])]
        return NodeProblems(self.X[rows], self.weight[rows], bounds)

    def loss(self, held: NDArray, coef: NDArray, intercept: NDArray) -> NDArray:
        """Total loss of the rows `held` (ascending) at each node."""
        loss = np.zeros(self.n_nodes)
        lo = np.searchsorted(held, self.first)
        hi = np.searchsorted(held, self.last)
        with single_blas_thread():
            for v in np.flatnonzero(hi > lo).tolist():
                rows = held[lo[v] : hi[v]]
                outcome = np.searchsorted(self.bounds_of(v), rows, side="right") - 1
                a, b = self.row_ptr[v], self.row_ptr[v + 1]
                z = self.X[rows] @ coef[a:b].T.astype(self.X.dtype)
                z = np.asarray(z.toarray() if sp.issparse(z) else z) + intercept[a:b]
                if z.shape[1] == 1:
                    z = np.hstack([np.zeros_like(z), z])
                top = z.max(axis=1)
                log_total = np.log(np.exp(z - top[:, None]).sum(axis=1))
                loss[v] = self.weight[rows] @ (
                    log_total + (top - z[np.arange(rows.size), outcome])
                )
        return loss


def outcome_bounds(
    taxonomy: Taxonomy, counts: NDArray, stopped: NDArray | None = None
) -> list[NDArray]:
    """Boundaries of the outcomes of each node that has a model.

    counts: number of samples of each class. If samples are sorted by the position of
    their class in ``taxonomy.class_sets.order``, the classes below a node are a range,
    and so are their samples. stopped: for each node the number of samples whose class
    is known down to this node only; they follow the others of the node, lower nodes
    first. The nodes are those of `Forest.model_nodes`, in order; a node of m outcomes
    has m + 1 boundaries.
    """
    order, start, stop = taxonomy.class_sets
    ends = np.concatenate([[0], np.cumsum(counts[order])])
    behind = np.zeros(taxonomy.n_nodes, dtype=np.int64)
    if stopped is not None:
        ends += np.cumsum(np.bincount(stop, stopped, ends.size).astype(np.int64))
        # samples of the node and of nodes above it that end with the same class
        behind[:] = stopped
        for v in range(1, taxonomy.n_nodes):
            if stop[v] == stop[taxonomy.parent[v]]:
                behind[v] += behind[taxonomy.parent[v]]
    first, last = taxonomy.child_ptr[:-1].tolist(), taxonomy.child_ptr[1:].tolist()
    bounds = []
    for v, (a, b) in enumerate(zip(first, last)):
        if b - a >= 2:
            starts = ends[start[a:b]]
        elif a == b and stop[v] - start[v] >= 2:
            starts = ends[start[v] : stop[v]]
        else:
            continue
        bounds.append(np.append(starts, ends[stop[v]] - behind[v]))
    return bounds


def warn_not_converged(status: NDArray, max_iter: int | None, stacklevel: int) -> None:
    """One warning for all nodes."""
    slow, failed = int((status == 1).sum()), int((status == 3).sum())
    texts = []
    if slow:
        texts.append(
            f"{slow} of {status.size} node classifiers stopped at max_iter={max_iter} "
            "before they met tol. Scale the features (StandardScaler), or increase "
            "max_iter or tol, or decrease C."
        )
    if failed:
        texts.append(
            f"{failed} of {status.size} node classifiers stopped far from their "
            "optimum: the line search failed, because features differ too much in "
            "scale from each other or from the intercept. Scale them (StandardScaler)."
        )
    if texts:
        warnings.warn(" ".join(texts), ConvergenceWarning, stacklevel=stacklevel + 1)
