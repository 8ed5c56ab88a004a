"""loss="auto": the loss of the smaller log-loss on the fold, tried on a few classes.

The choice must not cost more than the fit. So both losses are fitted to the samples of
a random part of the classes, without the fold and to a rough tolerance. With several
labels the classes are independent problems, and a part of these problems is tried.
Where the trial is on all of a problem, its descents are halted, and that of the chosen
loss is continued to the fit.

The logistic loss has the smaller log-loss where labels are not certain: where equal
samples have different ones. Then the squared hinge cannot have all of its training
samples on the right side. If it has, with one label a sample, the logistic loss is not
fitted at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._parallel import ThreadMap
from ._calibration import both_outcomes, evidence, fit_answers, fit_scale, fold_size
from ._samples import AUTO_C
from ._solver import Descent, DescentSettings, Fit, NodeSolver, peak_bytes
from ._targets import Targets

# Least number of outcomes that are tried, and the number of fold samples that they
# should have. Of noisy labels a smaller part looks more certain than the whole.
_FEWEST = 64
_MEMBERS = 150

# From this part of the outcomes on, all are tried: the fit can then continue the trial.
_ALMOST = 0.75

# Tolerance of the descent, in units of that of the fit.
_ROUGH = 10.0

# The multinomial loss is not tried if this part of the training samples, or less, is on
# the wrong side of its own class by the squared hinge.
_CERTAIN = 0.001

# The logistic loss is chosen if its log-loss is smaller by so many nats a sample: where
# labels are nearly certain its predictions are no better. The multinomial one must also
# be smaller by a part: its descent takes up to one and a half times as long as that of
# the squared hinge, and where the two losses are close it predicts a little less well.
# The yes/no losses of several labels take at most about twice as long.
_NATS = 0.01
_WORTH = {"log_loss": 0.03, "ovr_log_loss": 0.0}


class Trial(NamedTuple):
    """A problem on which losses are tried."""

    X: NDArray | sp.csr_matrix
    start: int
    stop: int
    targets: Targets
    weight: NDArray
    held: NDArray  # the fold, positions among the samples, ascending
    divide: bool = True  # as in `NodeSolver`, for the multinomial loss

    def solver(self, loss: str) -> NodeSolver:
        X, start, stop, targets, weight, held, divide = self
        divide = divide or loss != "log_loss"
        return NodeSolver(X, start, stop, targets, weight, held, divide)

    def part(self, seed: int) -> Trial:
        """The problem of some of the outcomes."""
        m = self.targets.n_outcomes
        most = n_tried(m, self.held.size)
        if most == m:
            return self
        chosen = np.random.RandomState(seed).permutation(m)[:most]
        rows, targets = self.targets.among(np.sort(chosen))
        held = np.flatnonzero(np.isin(rows, self.held)).astype(np.int32)
        if self.targets.several:
            return self._replace(targets=targets)
        X = self.X[rows + self.start]
        return Trial(X, 0, rows.size, targets, self.weight[rows], held, self.divide)


def n_tried(n_outcomes: int, n_held: int) -> int:
    """Number of outcomes of the trial of a problem with a fold of n_held samples."""
    share = min(_MEMBERS / max(n_held, 1), 1.0)
    most = max(_FEWEST, int(np.ceil(n_outcomes * share)))
    return n_outcomes if most >= _ALMOST * n_outcomes else most


def trial_bytes(n_samples: int, n_columns: int, n_outcomes: int, n_rows: int) -> float:
    """Peak memory of the trial of a problem: the descents of a loss are kept together.

    So are those of both losses, if they are kept until one of them is chosen.
    """
    tried = n_tried(n_outcomes, fold_size(n_samples))
    one = peak_bytes(n_samples, n_columns, min(tried, n_rows), "log_loss")
    return one if tried < n_outcomes else 2 * one


class Begun(NamedTuple):
    """The descents of all outcomes of a problem with one loss, halted."""

    solver: NodeSolver
    blocks: list[list[Fit]]  # as `NodeSolver.blocks`

    @classmethod
    def of(cls, solver: NodeSolver, settings: DescentSettings, seed: int) -> Begun:
        """The descents of the trial."""
        blocks = [
            list(solver.descents(block, settings, seed + k))
            for k, block in enumerate(solver.blocks(settings))
        ]
        for block in blocks:
            for descent in block:
                descent.without_fold(_ROUGH * settings.tol, descent.few)
        return cls(solver, blocks)

    @property
    def fold_scores(self) -> NDArray:
        return np.hstack([d.fold_scores() for block in self.blocks for d in block])

    @property
    def n_wrong(self) -> int:
        """Of the squared hinge."""
        return sum(
            d.n_wrong()
            for block in self.blocks
            for d in block
            if isinstance(d, Descent)
        )


class Choice(NamedTuple):
    """The loss that was chosen, its C, and its descents if they can be continued."""

    loss: str
    C: float
    begun: Begun | None


def choose_loss(
    trials: Sequence[Trial],
    settings_of: Callable[[str, float], DescentSettings],
    C: float,
    seeds: NDArray,
    parallel: ThreadMap,
) -> Choice:
    """The loss of the smaller log-loss on the fold; without fold the logistic.

    Its descents are returned if there is one trial, and that of all of its problem.
    """
    several = trials[0].targets.several
    second = "ovr_log_loss" if several else "log_loss"
    hinge, other = ("squared_hinge", C), (second, AUTO_C * C)
    if not any(t.held.size for t in trials):
        return Choice(*other, None)
    parts = [t.part(int(seed)) for t, seed in zip(trials, seeds)]
    kept = len(parts) == 1 and parts[0] is trials[0]

    def tried(candidate, solvers):
        """[(fold scores, n_wrong)], and what is `begun`."""
        settings = settings_of(*candidate)

        def scores(k):
            solver = solvers[k] or parts[k].solver(settings.loss)
            begun = Begun.of(solver, settings, int(seeds[k]))
            return begun.fold_scores, begun.n_wrong, begun if kept else None

        found = parallel(scores, range(len(parts)))
        return found, found[0][-1]

    def log_loss(found, loss):
        return fold_log_loss(parts, [scores for scores, *_ in found], loss)

    found, begun = tried(hinge, [None] * len(parts))
    if not several:
        n_samples = sum(part.targets.n_samples for part in parts)
        if sum(n_wrong for _, n_wrong, _ in found) <= _CERTAIN * n_samples:
            return Choice(*hinge, begun)
    least = log_loss(found, "squared_hinge")
    most = min(least * (1 - _WORTH[second]), least - _NATS)
    if most <= 0:  # no log-loss is below 0
        return Choice(*hinge, begun)
    shared = begun.solver if kept and trials[0].divide else None
    found, then = tried(other, [shared] * len(parts))
    if most <= log_loss(found, second):
        return Choice(*hinge, begun)
    return Choice(*other, then)


def fold_log_loss(
    parts: Sequence[Trial], scores: Sequence[NDArray], loss: str
) -> float:
    """Mean log-loss of the folds of some problems, with one calibration for all."""
    held = [t.targets.take(t.held) for t in parts]
    weights = [t.weight[t.held] for t in parts]
    if parts[0].targets.several:
        total = fit_answers(scores, held, weights)[1]
        return total / max(sum(w.sum() for w in weights), 1e-300)
    pairs = [both_outcomes(z, loss) if z.shape[1] == 1 else z for z in scores]
    blocks = [evidence(z, loss) for z in pairs]
    wide = max(g.shape[1] for g in blocks)
    g = np.vstack(
        [
            np.pad(g, ((0, 0), (0, wide - g.shape[1])), constant_values=-1e6)
            for g in blocks
        ]
    )
    outcome = np.concatenate([t.outcome for t in held])
    return fit_scale(g, outcome, np.concatenate(weights))[1]
