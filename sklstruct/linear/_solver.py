"""The fit of the outcomes of one node by dual coordinate descent.

One-vs-rest losses separate over outcomes, so that outcomes are fitted in blocks of
`BLOCK`: memory is that of one block, and threads share the blocks. Within a block the
descent takes strips of `STRIP` outcomes: a narrow strip of weights stays in the cache
for all of its epochs, a whole block would be read from memory in each.

The descent first converges without the samples of the fold and scores them; these are
the scores of samples that the model has not seen. Then it continues from its dual
variables to the optimum of all samples. The other order, to fit all samples and then
remove the duals of the fold, needs a second copy of the weights and further epochs.

A later batch starts from the weights of the earlier ones. The dual variables of earlier
samples are fixed, and the descent updates those of the batch:

    min over W of  1/2 ||W - W_before||^2 + sum over the batch of C_i loss_i.

W_before scores the fold of the batch: its samples are unseen by it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from . import _dual_fast as kernels
from ._targets import Targets
from ._weights import Division, FittedStrip, Piece, lanes_of, packed, whole

# Tolerance of the descent without the fold, in units of that of the whole.
_ROUGH = 2.0

# Outcomes of a one-vs-rest loss that are stored together, and outcomes that are fitted
# together: two lines of the cache.
BLOCK = 256
STRIP = 32


class DescentSettings(NamedTuple):
    """Settings of the fit of every node."""

    loss: str
    constant: float  # of the feature whose weight is the intercept; 0: none
    tol: float
    max_iter: int
    threshold: float
    stop: NDArray  # (1,) int32, not 0: all threads stop

    @classmethod
    def of(
        cls, estimator: Any, loss: str, threshold: float, stop: NDArray
    ) -> DescentSettings:
        """Those of a `DualLinearClassifier`, with another loss and threshold."""
        constant = 0.0
        if estimator.fit_intercept:
            constant = float(estimator.intercept_scaling)
        return cls(loss, constant, estimator.tol, estimator.max_iter, threshold, stop)


class BlockFit(NamedTuple):
    """The fit of one block of outcomes."""

    piece: Piece
    fold_scores: NDArray  # (fold samples, outcomes)
    n_iter: int
    converged: bool
    n_wrong: int  # samples on the wrong side of an own outcome, by the squared hinge


class NodeSolver:
    """The problem of a node on the columns of X that its samples have.

    Parameters
    ----------
    X : ndarray or CSR matrix of float32, indices int32

    start, stop : int
        The rows of X that are the samples of the node.

    targets : Targets
        Outcomes of each of these samples.

    cost : ndarray of shape (stop - start,)
        float32 C_i, positive.

    held : ndarray of int32
        The fold, positions among the samples, ascending.

    divide : bool, default=True
        Whether the features of one sample are stored apart: faster, but weights that
        are stored whole have to be copied.
    """

    def __init__(
        self,
        X: NDArray | sp.csr_matrix,
        start: int,
        stop: int,
        targets: Targets,
        cost: NDArray,
        held: NDArray,
        divide: bool = True,
    ) -> None:
        self.targets, self.cost, self.held = targets, cost, held
        self.division = Division.of(X, start, stop, divide)
        self.n_rows = targets.n_rows

    def blocks(self, settings: DescentSettings) -> list[tuple[int, int]]:
        """(first, last) outcomes of each call of `fit`."""
        if settings.loss == "log_loss":
            return [(0, self.n_rows)]
        return runs(0, self.n_rows, BLOCK)

    def fit(
        self,
        block: tuple[int, int],
        settings: DescentSettings,
        seed: int,
        before: Piece | None = None,
    ) -> BlockFit:
        """Fit some outcomes; before: their weights after the earlier batches."""
        m = block[1] - block[0]
        fold_scores = np.empty((self.held.size, m), dtype=np.float32)
        n_iter, converged, n_wrong = 0, True, 0
        q = self._squares(settings)
        # the multinomial loss does not separate
        step = m if settings.loss == "log_loss" else STRIP
        old = None if before is None else self._weights_of(before, settings.constant)

        def strips():
            nonlocal n_iter, converged, n_wrong
            for a, b in runs(*block, step):
                own = None if old is None else old[:, a - block[0] : b - block[0]]
                strip, scores, epochs, met = self._descend(
                    a, b - a, q, settings, seed, own
                )
                fold_scores[:, a - block[0] : b - block[0]] = scores
                n_iter, converged = max(n_iter, epochs), converged and met
                n_wrong += self._n_wrong(a, strip, settings.loss)
                yield strip

        if settings.threshold == 0:
            piece = whole(self.division, strips(), m, settings.constant)
        else:
            piece = packed(
                self.division, strips(), m, settings.constant, settings.threshold
            )
        return BlockFit(piece, fold_scores, n_iter, converged, n_wrong)

    def fold_scores(self, settings: DescentSettings, seed: int) -> tuple[NDArray, int]:
        """((fold samples, outcomes), `n_wrong`) of the models of the other samples."""
        q = self._squares(settings)
        step = self.n_rows if settings.loss == "log_loss" else STRIP
        found, n_wrong = [], 0
        for a, b in runs(0, self.n_rows, step):
            strip, scores, *_ = self._descend(a, b - a, q, settings, seed, whole=False)
            found.append(scores)
            n_wrong += self._n_wrong(a, strip, settings.loss)
        return np.hstack(found), n_wrong

    def _n_wrong(self, first, strip, loss):
        """Samples on the wrong side of an own outcome of the strip.

        A dual variable of the squared hinge is 2 C max(0, 1 - s z), above 2 C where
        the score z has the wrong sign.
        """
        if loss != "squared_hinge":
            return 0
        if self.n_rows == 1:
            size = np.abs(strip.dual[:, 0])
            return int(np.count_nonzero(size > 2 * self.cost))
        ptr, lane = self.targets.lanes(first, strip.n_outcomes)
        sample = np.repeat(np.arange(ptr.size - 1), np.diff(ptr))
        size = np.abs(strip.dual[sample, lane])
        return int(np.count_nonzero(size > 2 * self.cost[sample]))

    def _squares(self, settings):
        q = np.empty(self.targets.n_samples, dtype=np.float32)
        kernels.squares(self.division.rows, settings.constant, q)
        return q + self.division.own

    def _weights_of(self, before, constant):
        """(columns + 1, lanes) at the columns of the samples, the last the constant."""
        columns = self.division.features.columns()
        # without an intercept there is none before, either
        last = before.intercept / np.float32(constant or 1.0)
        return np.vstack([before.at(columns), last])

    def _descend(self, first, m, q, settings, seed, old=None, whole=True):
        """(FittedStrip, fold scores, epochs, whether tol was met) of m outcomes.

        old: weights of earlier batches to start from, or None. whole: whether the fold
        is learned afterwards.
        """
        M, n = lanes_of(m), self.targets.n_samples
        lane_ptr, lane = self.targets.lanes(first, m)
        loss = settings.loss
        if self.n_rows == 1 and loss == "log_loss":
            loss = "ovr_log_loss"
        division = self.division
        task = kernels.DescentProblem(
            division.rows,
            division.own,
            q,
            lane_ptr,
            lane,
            self.cost,
            kernels.LOSS_CODES[loss],
            settings.constant,
        )
        W = _zeros(division.shared.size + 1, M)
        dual = _zeros(n, M)
        room = _zeros(kernels.ROOM, M)
        room[-1, :m] = 1
        state = np.array([seed], dtype=np.uint64)
        stop, tol = settings.stop, settings.tol

        def descend(order, reference, tol, most):
            return kernels.descend(
                task, W, dual, room, order, state, reference, tol, most, stop
            )

        held = self.held
        every = np.arange(n, dtype=np.int32)
        fold_scores = np.empty((held.size, m), dtype=np.float32)
        if old is not None:
            W[:, :m] = old
            kernels.scores(task, W, held, fold_scores, room, stop)
            n_iter, change, reference = descend(every, -1.0, tol, settings.max_iter)
            met = bool(change <= tol * reference)
            return FittedStrip(W, dual, m), fold_scores, n_iter, met
        others = np.delete(np.arange(n, dtype=np.int32), held)
        # the scores of the fold need not be as exact
        rough = tol if held.size == 0 else _ROUGH * tol
        n_iter, change, reference = descend(others, -1.0, rough, settings.max_iter)
        converged = change <= rough * reference
        if held.size:
            kernels.scores(task, W, held, fold_scores, room, stop)
        if held.size and whole:
            # the samples of the fold alone first: the others are at their optimum
            descend(held.copy(), reference, 0.0, 1)
            more, change, _ = descend(every, reference, tol, settings.max_iter)
            n_iter += more
            converged = converged and change <= tol * reference
        return FittedStrip(W, dual, m), fold_scores, n_iter, bool(converged)


def runs(first: int, last: int, step: int) -> list[tuple[int, int]]:
    """(start, end) of the steps from first to last."""
    return [(a, min(a + step, last)) for a in range(first, last, step)]


def _zeros(n, M):
    """(n, M) floats from the start of a line of the cache."""
    base = np.zeros(n * M + 15, dtype=np.float32)
    skip = -base.ctypes.data % 64 // 4
    return base[skip : skip + n * M].reshape(n, M)


def peak_bytes(
    n_samples: int, n_columns: int, n_rows: int, loss: str, n_threads: int = 1
) -> float:
    """Peak memory of `NodeSolver.fit`, the weights and duals of concurrent blocks."""
    width = n_rows if loss == "log_loss" else min(n_rows, BLOCK)
    at_once = min(n_threads, -(-n_rows // width))
    return 4.0 * at_once * lanes_of(width) * (float(n_samples) + n_columns + 1)


def stored_bytes(n_columns: int, n_rows: int) -> float:
    """Weights without a threshold."""
    return 4.0 * lanes_of(n_rows) * (n_columns + 1.0)
