"""Fits of all nodes of a tree with the solver of a `LinearClassifier`."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._checks import check_memory
from ..linear._samples import single, warn_uneven
from ..linear._solver import DescentSettings, peak_bytes, stored_bytes
from ..linear._targets import Targets
from ..linear._trial import choose_loss, trial_bytes
from ._nodes import NodeModels, TrainingSet
from ._problems import Problems, solver_of

# loss="auto" compares the losses at nodes with this part of the fold samples of all.
_TRIED = 0.1

# Assumed part of the weights that a threshold keeps, for the check of memory.
_LEFT = 0.25


class DualFits(NodeModels):
    """Base of `DualNodes`: the choice of the loss, and the fits of the nodes."""

    loss: str
    several: bool
    in_batches: bool
    _C: float
    _estimator: Any

    def prepare(self, data: TrainingSet, n_trees: int) -> TrainingSet:
        data = data._replace(X=single(data.X))
        if self.loss != "log_loss":
            warn_uneven(data.X)
        return data

    def _begin(self, problems, held, run):
        """Check the memory; for each row of the problems its number in the fold."""
        self._check_size(problems, run.parallel.n_threads)
        number = np.full(problems.weight.size, -1, dtype=np.int64)
        number[held] = np.arange(held.size)
        return number[problems.rows]

    def _settings(self, loss, C, stop):
        threshold = 0.0 if self.in_batches else self._estimator.weight_threshold
        return DescentSettings.of(self._estimator, loss, C, threshold, stop)

    def _solve(self, problems, number, seeds, stop, run, paused, old=None):
        """{node: fits of its blocks}, for the nodes that have samples.

        paused: the begun descents of nodes. old: for each node the weights of its
        blocks after the earlier batches.
        """
        settings = self._settings(self.loss, self._C, stop)

        def fit(v):
            before, begun = [None] if old is None else old[v], paused.get(v)
            if begun is None:
                node = solver_of(problems, v, number)
            else:
                node = begun.solver
            blocks = node.blocks(settings)
            descents = [None] * len(blocks) if begun is None else begun.blocks
            return [
                node.fit(block, settings, int(seeds[v]) + k, piece, descent)
                for k, (block, piece, descent) in enumerate(
                    zip(blocks, cycle(before), descents)
                )
            ]

        work = problems.sizes * problems.n_rows
        order = np.argsort(-work, kind="stable")
        order = order[work[order] > 0].tolist()
        return dict(zip(order, run.parallel(fit, order)))

    def _choose(self, problems, number, seeds, stop, run):
        """Set loss and C by the fold's log-loss at some of the nodes.

        Returns {node: its descents, begun}.
        """
        if problems.n_nodes == 0:  # one class
            self.loss, self._C = "squared_hinge", float(self._estimator.C)
            return {}
        order = np.random.RandomState(seeds[:1]).permutation(problems.n_nodes)
        size = problems.sizes
        order = order[size[order] > 0]
        if order.size > 1:  # without the root, which costs as much as all leaves
            order = order[order != size.argmax()]
        members = [members_of(problems, v, number)[0].size for v in order.tolist()]
        enough = max(_TRIED * sum(members), 100)
        order = order[: int(np.searchsorted(np.cumsum(members), enough)) + 1]
        self.loss, self._C, paused = choose_loss(
            [solver_of(problems, v, number) for v in order.tolist()],
            lambda loss, C: self._settings(loss, C, stop),
            float(self._estimator.C), seeds[order], run.parallel,
        )  # fmt: skip
        return {} if paused is None else {int(order[0]): paused}

    def _check_size(self, problems, n_threads):
        X = problems.X
        n = problems.sizes.astype(float)
        d = np.full(n.size, float(X.shape[1]))
        if sp.issparse(X):
            d = np.minimum(d, problems.n_entries)
        n_rows, loss = problems.n_rows, self.loss
        if loss == "auto":
            loss = "ovr_log_loss" if self.several else "log_loss"
        work = np.array([peak_bytes(*of, loss) for of in zip(n, d, n_rows)])
        stored = sum(stored_bytes(*of) for of in zip(d, n_rows))
        if self._estimator.weight_threshold > 0 and not self.in_batches:
            stored *= _LEFT
        words = 12.0 * n.size * (X.shape[1] // 64 + 1)
        working = np.sort(work)[-n_threads:].sum()
        if self.loss == "auto":
            tried = np.array(
                [
                    trial_bytes(int(size), columns, int(m), int(rows))
                    for size, columns, m, rows in zip(n, d, problems.n_outcomes, n_rows)
                ]
            )
            working = max(working, np.sort(tried)[-n_threads:].sum())
        remedy = "use smaller leaves (max_leaf), "
        if stored > working and not self.in_batches:
            remedy += "a larger weight_threshold, "
        check_memory(
            working + stored + words,
            f"a tree of {n.size} nodes, the largest with "
            f"{int(problems.n_outcomes.max(initial=1))} outcomes and "
            f"{int(d.max(initial=0))} features,",
            remedy + "or fewer features",
        )


def members_of(problems: Problems, v: int, number: NDArray) -> tuple[NDArray, Targets]:
    """(members of the fold below node v, their outcomes).

    number: for each row its number in the fold, -1 outside of it.
    """
    at, targets = problems.targets_of(v)
    number = number[at]
    member = np.flatnonzero(number >= 0)
    return number[member], targets.take(member)
