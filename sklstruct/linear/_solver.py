"""The fit of the outcomes of one node by dual coordinate descent.

One-vs-rest losses separate over outcomes, which come in blocks of `BLOCK`: memory is
that of a block, however many there are, and the blocks can be shared out to threads.

The samples of a fold come last. The descent first ends without them, and what it then
says of them is what a model says of samples that it has not seen; after that they join,
and the descent goes on from the duals that it has to the optimum of all. Fitting all
samples first and taking the duals of the fold out again costs a second copy of the
weights, and epochs that have to lead away from the optimum before they can be trusted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from . import _dual_fast as kernels
from ._weights import Features, Piece, as_rows, lanes_of, piece_of

# Tolerance of the descent without the fold, in units of that of the whole.
_ROUGH = 2.0

# Outcomes of a one-vs-rest loss that are fitted together.
BLOCK = 256


class Settings(NamedTuple):
    """What all nodes of a fit have in common."""

    loss: str
    constant: float  # of the feature whose weight is the intercept; 0: none
    tol: float
    max_iter: int
    threshold: float
    stop: NDArray  # (1,) int32, not 0 when threads are to end


class Fit(NamedTuple):
    """Of one block of outcomes."""

    piece: Piece
    fold_scores: NDArray  # (fold samples, outcomes)
    n_iter: int
    converged: bool


class Node:
    """The samples of a node, on the columns that they have.

    Parameters
    ----------
    X : ndarray or CSR matrix of float32, indices int32

    start, stop : int
        Its rows.

    outcome : ndarray of shape (stop - start,)
        int32. Of two, the second has the weights and the first is the rest.

    cost : ndarray of shape (stop - start,)
        float32 C_i, positive.

    n_outcomes : int
        At least 2.

    held : ndarray of int32
        The fold, positions among the samples, ascending.
    """

    def __init__(
        self,
        X: NDArray | sp.csr_matrix,
        start: int,
        stop: int,
        outcome: NDArray,
        cost: NDArray,
        n_outcomes: int,
        held: NDArray,
    ) -> None:
        self.outcome, self.cost, self.held = outcome, cost, held
        self.rows = as_rows(X, start, stop)
        if sp.issparse(X):
            index = X.indices[X.indptr[start] : X.indptr[stop]]
            self.features = Features.of(index, X.shape[1])
            indptr = X.indptr[start : stop + 1].astype(np.int64)
            rows = type(self.rows).sparse(X.data, self.features.rows(index), indptr)
            self.rows = rows
        else:
            self.features = Features.all(X.shape[1])
        # two outcomes are one problem, whatever the loss
        self.n_rows = 1 if n_outcomes == 2 else n_outcomes

    def blocks(self, settings: Settings) -> list[tuple[int, int]]:
        """(first, last) outcomes of each call of `fit`."""
        if settings.loss == "log_loss":
            return [(0, self.n_rows)]
        return [(a, min(a + BLOCK, self.n_rows)) for a in range(0, self.n_rows, BLOCK)]

    def fit(self, block: tuple[int, int], settings: Settings, seed: int) -> Fit:
        """Fit some outcomes."""
        m = block[1] - block[0]
        # duals are let go before the weights are packed
        W, *rest = self._descend(block[0], m, settings, seed)
        piece = piece_of(W, self.features, m, settings.threshold, settings.constant)
        return Fit(piece, *rest)

    def _descend(self, first, m, settings, seed):
        """(weights, fold scores, epochs, whether tol was met)."""
        M, n = lanes_of(m), self.outcome.size
        lane = self.outcome - np.int32(1 if self.n_rows == 1 else first)
        lane[lane >= m] = -1
        loss = settings.loss
        if self.n_rows == 1 and loss == "log_loss":
            loss = "ovr_log_loss"
        task = kernels.Task(
            self.rows, lane, self.cost, kernels.LOSS_CODES[loss], settings.constant
        )
        W = np.zeros((self.features.size + 1, M), dtype=np.float32)
        dual = np.zeros((n, M), dtype=np.float32)
        room = np.zeros((kernels.ROOM, M), dtype=np.float32)
        room[-1, :m] = 1
        state = np.array([seed], dtype=np.uint64)
        stop, tol = settings.stop, settings.tol

        def descend(order, reference, tol, most):
            return kernels.descend(
                task, W, dual, room, order, state, reference, tol, most, stop
            )

        held = self.held
        others = np.delete(np.arange(n, dtype=np.int32), held)
        # what only the fold will see need not be as exact
        rough = tol if held.size == 0 else _ROUGH * tol
        n_iter, change, reference = descend(others, -1.0, rough, settings.max_iter)
        converged = change <= rough * reference
        fold_scores = np.empty((held.size, m), dtype=np.float32)
        if held.size:
            kernels.scores(task, W, held, fold_scores, room, stop)
            # the newcomers alone first: the others would only be visited in vain
            descend(held.copy(), reference, 0.0, 1)
            every = np.arange(n, dtype=np.int32)
            more, change, _ = descend(every, reference, tol, settings.max_iter)
            n_iter += more
            converged = converged and change <= tol * reference
        return W, fold_scores, n_iter, bool(converged)


def peak_bytes(
    n_samples: int, n_columns: int, n_outcomes: int, loss: str, n_threads: int = 1
) -> float:
    """What `Node.fit` needs at a time: weights and duals of the blocks under way."""
    n_rows = 1 if n_outcomes == 2 else n_outcomes
    width = n_rows if loss == "log_loss" else min(n_rows, BLOCK)
    at_once = min(n_threads, -(-n_rows // width))
    return 4.0 * at_once * lanes_of(width) * (float(n_samples) + n_columns + 1)


def stored_bytes(n_columns: int, n_outcomes: int) -> float:
    """Weights without a threshold."""
    return 4.0 * lanes_of(1 if n_outcomes == 2 else n_outcomes) * (n_columns + 1.0)
