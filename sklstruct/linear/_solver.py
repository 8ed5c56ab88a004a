"""The fit of the outcomes of one node, by dual coordinate descent or by L-BFGS.

Both solve the same problem; `NodeSolver.solver` chooses. The dual descent ("the dual")
needs one pass over sparse rows for all outcomes, and few epochs if the data are nearly
separable. L-BFGS (`_quasi_newton`) needs products with all of X, which the BLAS makes
if X is dense. Its iterations hardly grow with C, but the epochs of the dual grow with C
if labels are noisy. So solver="auto" uses L-BFGS for the logistic losses on dense tall
X if C is large relative to the rows (`_strong`), and always for two classes: the dual
is fast because a step updates many outcomes. If the choice is wrong, the dual may never
end; L-BFGS takes up to eight times as long as the dual, on wide sparse X eighty times.
For tall X a least-squares fit measures how noisy the labels are. On other dense X the
dual runs `WATCHED` epochs, or half of them if its variables still change much. Then
L-BFGS continues from its weights, unless the rate of convergence promises that few
epochs are left (`Relay`). With fewer samples than weights the classes are often
separable, and the dual is fast.

One-vs-rest losses separate over outcomes, so that outcomes are fitted in blocks of
`BLOCK`: one block per thread is in memory. Within a block the descent takes strips of
`STRIP` outcomes: a narrow strip of weights stays in the cache for all of its epochs; a
whole block would be read from memory in each epoch.

The descent first converges without the samples of the fold, and its weights score
these unseen samples. Then it continues from its dual variables to the optimum of all
samples. The other order, to fit all samples and then remove the duals of the fold,
needs a second copy of the weights and further epochs.

A later batch starts from the weights after the earlier batches. The dual variables of
earlier samples are fixed, and the descent updates the dual variables of the batch:

    min over W of  1/2 ||W - W_before||^2 + sum over the batch of C_i loss_i.

W_before scores the fold of the batch, whose samples it has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import row_norms

from .._parallel import runs
from . import _dual_fast as kernels
from ._quasi_newton import QuasiNewton, metric_pays
from ._samples import Samples, costs, is_sparse
from ._targets import Targets
from ._weights import (
    LANES,
    Features,
    FittedStrip,
    LocalRows,
    Piece,
    lanes_of,
    packed,
    whole,
)

# Tolerance of the descent without the fold, in units of `tol`.
_ROUGH = 2.0

# solver="auto" uses L-BFGS if it starts from the metric of the features, which saves
# most iterations, and if C is large relative to the rows (`_strong`): the epochs of the
# dual grow with C. The constants were fitted to the times of both solvers on 740
# problems of 3 to 60 classes.
#
# `NOISE` is the exponent of the fraction of the variance of the outcomes that the
# features do not explain: if they explain everything, the dual takes six epochs for
# every C. If they explain nothing, L-BFGS needs only three iterations, and the limit of
# `_strong` is multiplied by `CHANCE`.
NOISE, CHANCE = 1.5, 0.3

# On other dense X the dual continues while the rate after each `WATCHED` epochs
# promises convergence within `PATIENCE` epochs (`PATIENCE + WATCHED` from the second
# estimate on). An epoch takes about as long as an iteration of L-BFGS.
WATCHED = 10
PATIENCE = 40

# With at most `LANES` outcomes the dual also ends if after half of the first `WATCHED`
# epochs the change of the duals is more than the fraction `SLOW` of their change in the
# first epoch. With more outcomes an epoch takes less time than an iteration, and the
# first epochs say little: with 136 classes, 15 epochs can be enough although the
# fraction is 0.36 after 5. If the fraction is above `NEAR`, the weights of the dual are
# a worse start of L-BFGS than weights 0.
SLOW = 0.33
NEAR = 0.55

# Limits of epochs and of L-BFGS iterations for max_iter=None.
MOST_STEPS = 200, 1000

# Epochs of the multinomial loss in a trial: its log-loss is then about 1 % above the
# log-loss at the optimum.
_EPOCHS = 4

# Outcomes of a one-vs-rest loss that are stored together, and outcomes that are fitted
# together: 32 floats are two lines of the cache.
BLOCK = 256
STRIP = 32


class DescentSettings(NamedTuple):
    """Settings of the fit of every node."""

    loss: str
    C: float
    # value of the feature whose weight is the intercept; 0: no intercepts, inf:
    # intercepts without penalty
    constant: float
    tol: float
    max_iter: int
    threshold: float
    stop: NDArray  # (1,) int32, not 0: all threads stop
    solver: str = "dual"  # or "quasi_newton", or "auto"
    iterations: int = 1000  # of L-BFGS; max_iter: epochs

    @property
    def unit(self) -> float:
        """Factor from the last row of `FittedStrip` to the intercepts."""
        return 1.0 if np.isinf(self.constant) else self.constant

    @classmethod
    def of(
        cls, estimator: Any, loss: str, C: float, threshold: float, stop: NDArray
    ) -> DescentSettings:
        """The settings of a `LinearClassifier` with the given loss, C and threshold."""
        constant, most = float(estimator.intercept_scaling), estimator.max_iter
        epochs, iterations = MOST_STEPS if most is None else (most, most)
        return cls(
            loss, C, constant, estimator.tol, epochs, threshold, stop, estimator.solver,
            iterations,
        )  # fmt: skip


class BlockFit(NamedTuple):
    """The fit of one block of outcomes."""

    piece: Piece
    fold_scores: NDArray  # (fold samples, outcomes)
    n_iter: int
    converged: bool
    solver: str = "dual"


class Descent:
    """The descent of `m` outcomes of a node from `first` on.

    It can be paused before the fold is learned, without any effect on the result.
    `cost` and `q` are C_i and the squared length of each sample.
    """

    hasty = False  # whether `finish` skips the fold if `tol` was not met before

    def __init__(
        self,
        node: NodeSolver,
        first: int,
        m: int,
        settings: DescentSettings,
        seed: int,
        cost: NDArray,
        q: NDArray,
    ) -> None:
        self.held, self.settings, self.m = node.held, settings, m
        self.solver = "dual"
        M, n, local = lanes_of(m), node.targets.n_samples, node.local
        self._divided = local.divided
        rows, width = local.rows, local.features.size
        own = np.zeros(n, dtype=np.float32)
        if self._divided is not None:
            rows, width, own, *_ = self._divided
        loss = settings.loss
        if node.n_rows == 1 and loss == "log_loss":
            loss = "ovr_log_loss"
        self._task = kernels.DescentProblem(
            rows,
            own,
            q,
            *node.targets.lanes(first, m),
            cost,
            kernels.LOSS_CODES[loss],
            settings.constant,
        )
        # `strip` adds the weights of features that only one sample has.
        self._weights = aligned_zeros(local.features.size + 1, M)
        self.W = self._weights[: width + 1]
        self.dual = aligned_zeros(n, M)
        self._room = aligned_zeros(kernels.ROOM, M)
        width = 0 if is_sparse(node.X) else local.features.size
        self._x = aligned_zeros(kernels.SAMPLES, width)
        self._room[-1, :m] = 1
        self._state = np.array([seed], dtype=np.uint64)
        self._every = node.order
        self._others = node.order[np.isin(node.order, self.held, invert=True)]
        multinomial = settings.loss == "log_loss"
        # largest number of epochs of a trial
        self.few = min(_EPOCHS, settings.max_iter) if multinomial else settings.max_iter
        self.n_iter, self._change, self._reference = 0, np.inf, -1.0

    def _descend(self, order, tol, most):
        done, self._change, self._reference = kernels.descend(
            self._task, self.W, self.dual, self._room, self._x, order, self._state,
            self._reference, tol, most, self.n_iter, self.settings.stop,
        )  # fmt: skip
        self.n_iter += done

    def _met(self, tol):
        return bool(self._change <= tol * self._reference)

    def without_fold(self, tol: float, most: int) -> None:
        """Epochs over the samples outside of the fold, until `tol` or `most` in all."""
        if self.n_iter < most and not (self.n_iter and self._met(tol)):
            self._descend(self._others, tol, most - self.n_iter)

    def fold_scores(self) -> NDArray:
        """(fold samples, outcomes) by the weights before the fold is learned."""
        out = np.empty((self.held.size, self.m), dtype=np.float32)
        if self.held.size:
            kernels.scores(
                self._task, self.W, self.held, out, self._room, self.settings.stop
            )
        return out

    @property
    def rough(self) -> float:
        """Tolerance without the fold: its scores need less accuracy."""
        return (_ROUGH if self.held.size else 1.0) * self.settings.tol

    @property
    def progress(self) -> float:
        """Change of the duals in the last epoch over the change in the first epoch."""
        return float(self._change / self._reference)

    def promises(self) -> bool:
        """Whether about `PATIENCE` epochs are enough without the fold.

        Runs epochs until the answer is known. The change of the duals falls by about
        the same factor from epoch to epoch, but slower later if labels are noisy.
        """
        for most in range(WATCHED, PATIENCE + 1, WATCHED):
            self.without_fold(self.rough, most - WATCHED // 2)
            before, done = self._change, self.n_iter
            if self.m <= LANES and self.progress > SLOW:
                return False
            self.without_fold(self.rough, most)
            if self._met(self.rough) or self.n_iter == done:
                return True
            rate = np.log(max(self._change, 1e-300) / before) / (self.n_iter - done)
            left = np.log(self.rough * self._reference / self._change)
            allowed = PATIENCE if most == WATCHED else PATIENCE + WATCHED
            if rate >= 0 or self.n_iter + left / rate > allowed:
                return False
        return True

    def finish(self) -> tuple[NDArray, bool]:
        """Complete the descent; returns (fold scores, whether `tol` was met)."""
        tol, most, held = self.settings.tol, self.settings.max_iter, self.held
        self.without_fold(self.rough, most)
        converged = self._met(self.rough)
        found = self.fold_scores()
        if held.size and (converged or not self.hasty):
            n_iter = self.n_iter
            # first only the samples of the fold: other samples are at their optimum
            self.n_iter = 0
            self._descend(held.copy(), 0.0, 1)
            self.n_iter = 0
            self._descend(self._every.copy(), tol, most)
            self.n_iter += n_iter
            converged = converged and self._met(tol)
        return found, converged

    def batch(self, old: NDArray) -> tuple[NDArray, bool]:
        """As `finish`, for a batch; old: the weights after the earlier batches."""
        self.W[:, : self.m] = old
        found = self.fold_scores()
        settings = self.settings
        self._descend(self._every.copy(), settings.tol, settings.max_iter)
        return found, self._met(settings.tol)

    def strip(self, features: Features) -> FittedStrip:
        """The weights; `features` are those of the node."""
        if self._divided is not None:
            _, n_shared, _, sample, value = self._divided
            kernels.add_lone(self._weights, n_shared, sample, value, self.dual)
        return FittedStrip(self._weights, self.m)


class Relay(Descent):
    """`Descent` while it is fast; then `other`, from its weights if they are near."""

    hasty = True

    def __init__(self, other: Callable[[], QuasiNewton], *given: Any) -> None:
        super().__init__(*given)
        self._make_other = other
        self._other: QuasiNewton | None = None

    def finish(self) -> tuple[NDArray, bool]:
        met = False
        if self.promises():
            found, met = super().finish()
        if not met:
            self._other = other = self._make_other()
            if self.progress <= NEAR:
                other.begin_at(self.W)
            found, met = other.finish()
            self.n_iter, self.solver = self.n_iter + other.n_iter, other.solver
        return found, met

    def strip(self, features: Features) -> FittedStrip:
        if self._other is None:
            return super().strip(features)
        return self._other.strip(features)


Fit = Descent | QuasiNewton


class NodeSolver:
    """The problem of a node on the columns of X that its samples have.

    held: the positions of the samples of the fold. order: a permutation of the samples,
    which epochs shuffle further; with it the result is that for sorted samples, without
    a sorted copy of X. None: the order of X.
    """

    def __init__(
        self,
        X: Samples,
        targets: Targets,
        weight: NDArray,
        held: NDArray,
        order: NDArray | None = None,
    ) -> None:
        self.X, self.targets, self.weight, self.held = X, targets, weight, held
        n = targets.n_samples
        self.order = np.arange(n, dtype=np.int32) if order is None else order
        self.n_rows = targets.n_rows

    @cached_property
    def local(self) -> LocalRows:
        """The samples, with only the features that they have."""
        return LocalRows.of(self.X)

    def blocks(self, settings: DescentSettings) -> list[tuple[int, int]]:
        """(first, last) outcomes of each call of `fit`."""
        if settings.loss == "log_loss":
            return [(0, self.n_rows)]
        return runs(0, self.n_rows, BLOCK)

    def solver(self, settings: DescentSettings) -> str:
        """The solver of the node, or "relay"; "auto" chooses by its samples."""
        loss, constant = settings.loss, settings.constant
        binary = loss == "ovr_log_loss" and self.n_rows == 1
        if settings.solver != "auto" or not (loss == "log_loss" or binary):
            return "dual" if settings.solver == "auto" else settings.solver
        if np.isinf(constant):  # the dual needs a finite constant
            return "quasi_newton"
        if sp.issparse(self.X):
            return "dual"
        if self.n_rows == 1:
            return "quasi_newton"
        n, d = self.X.shape
        tall = n >= self.n_rows * d and metric_pays(n, d, self.n_rows)
        if tall and self._strong(settings.C):
            return "quasi_newton"
        return "relay" if settings.max_iter > PATIENCE else "dual"

    def _strong(self, C):
        """Whether C is so large that L-BFGS is faster than the dual on dense X."""
        (n, d), K = self.X.shape, self.n_rows
        strength = row_norms(self.X, True) @ self.weight * (C / n)
        # a step of the dual costs the same for one outcome as for all of its lanes
        least = K**2 / (5 * lanes_of(K) ** 0.5) * (1 + K * d / n)
        if strength < CHANCE * least:
            return False
        told = explained(self.X, self.targets.outcome, K)
        least *= min(1.0, max(CHANCE, 0.5 * K * told))
        return bool(strength * (1 - told) ** NOISE >= least)

    def descents(
        self, block: tuple[int, int], settings: DescentSettings, seed: int
    ) -> Iterator[Fit]:
        """A fit for each strip of a block of outcomes, made when it is needed."""
        cost, solver = costs(settings.C, self.weight), self.solver(settings)

        if solver == "quasi_newton":
            yield QuasiNewton(self, settings)
            return
        q = row_norms(self.X, squared=True) + np.float32(settings.constant) ** 2
        if solver == "relay":
            brief = settings._replace(
                max_iter=min(PATIENCE + WATCHED, settings.max_iter)
            )
            other = partial(QuasiNewton, self, settings)
            yield Relay(other, self, 0, self.n_rows, brief, seed, cost, q)
            return
        # the multinomial loss does not separate
        step = block[1] - block[0] if settings.loss == "log_loss" else STRIP
        for a, b in runs(*block, step):
            yield Descent(self, a, b - a, settings, seed, cost, q)

    def fit(
        self,
        block: tuple[int, int],
        settings: DescentSettings,
        seed: int,
        before: Piece | None = None,
        paused: Iterable[Fit] | None = None,
    ) -> BlockFit:
        """Fit a block of outcomes.

        before: the weights of the block after the earlier batches. paused: the
        `descents` of the block, if they have begun.
        """
        m = block[1] - block[0]
        fold_scores = np.empty((self.held.size, m), dtype=np.float32)
        n_iter, converged = 0, True
        unit, solver = settings.unit, "dual"
        features = self.local.features
        if before is not None:  # only the dual solves the problem of a batch
            settings = settings._replace(solver="dual")
            # No weight is a value times duals: weights start from earlier batches.
            self.local = self.local._replace(divided=None)
            # (columns + 1, lanes); with constant 0 the intercepts are 0
            last = before.intercept / np.float32(settings.constant or 1.0)
            old = np.vstack([before.at(features.columns()), last])
        if paused is None:
            paused = self.descents(block, settings, seed)

        def strips():
            nonlocal n_iter, converged, solver
            first = 0
            for descent in paused:
                lanes = slice(first, first + descent.m)
                if before is not None and isinstance(descent, Descent):
                    scores, met = descent.batch(old[:, lanes])
                else:
                    scores, met = descent.finish()
                fold_scores[:, lanes] = scores
                n_iter, converged = max(n_iter, descent.n_iter), converged and met
                first, solver = lanes.stop, descent.solver
                strip = descent.strip(features)
                del descent  # frees the duals before the weights are packed
                yield strip

        if settings.threshold == 0:
            piece = whole(features, strips(), m, unit)
        else:
            piece = packed(features, strips(), m, unit, settings.threshold)
        return BlockFit(piece, fold_scores, n_iter, converged, solver)


def explained(X: NDArray, outcome: NDArray, n_outcomes: int) -> float:
    """Fraction of the variance of the indicators of outcomes that X explains.

    By least squares on 20 rows per column, drawn at random because X may be sorted.
    """
    n, d = X.shape
    rows = np.random.RandomState(0).permutation(n)[: 20 * d]
    x, y = X[rows], np.float32(outcome[rows, None] == np.arange(n_outcomes))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    moment, shared = (x.T @ x).astype(np.float64), (x.T @ y).astype(np.float64)
    # columns may be dependent, constant, and of different scales
    moment.flat[:: d + 1] += 1e-6 * d * moment.diagonal() + 1e-30
    fitted = (shared * np.linalg.solve(moment, shared)).sum()
    found = fitted / max(float((y**2).sum()), 1e-30) - d / rows.size
    return float(np.clip(found, 0, 1))


def aligned_zeros(n: int, M: int) -> NDArray:
    """(n, M) zeros in float32 that begin at the start of a cache line."""
    base = np.zeros(n * M + 15, dtype=np.float32)
    skip = -base.ctypes.data % 64 // 4
    return base[skip : skip + n * M].reshape(n, M)


def peak_bytes(
    n_samples: int, n_columns: int, n_rows: int, loss: str, n_threads: int = 1
) -> float:
    """Peak memory of `NodeSolver.fit`: the weights and duals of concurrent blocks."""
    width = n_rows if loss == "log_loss" else min(n_rows, BLOCK)
    at_once = min(n_threads, -(-n_rows // width))
    return 4.0 * at_once * lanes_of(width) * (float(n_samples) + n_columns + 1)


def stored_bytes(n_columns: int, n_rows: int) -> float:
    """Bytes of the weights of a node without a `weight_threshold`."""
    return 4.0 * lanes_of(n_rows) * (n_columns + 1.0)
