"""loss="auto": the loss of the smaller log-loss on the fold, tried on a few classes.

The choice must not cost more than the fit. So both losses are fitted to the samples of
a random part of the classes, without the fold and to a rough tolerance. With several
labels the classes are independent problems, and a part of these problems is tried.

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
from ._calibration import both_outcomes, evidence, fit_answers, fit_scale
from ._samples import AUTO_C, costs
from ._solver import BlockFit, DescentSettings, NodeSolver
from ._targets import Targets

# Least number of outcomes that are tried, and the number of fold samples that they
# should have. Of noisy labels a smaller part looks more certain than the whole.
_FEWEST = 64
_MEMBERS = 150

# From this part of the outcomes on, all are tried: the trial of the squared hinge can
# then be its fit.
_ALMOST = 0.75

# Tolerance of the descent, in units of that of the fit.
_ROUGH = 5.0

# The multinomial loss is not tried if this part of the training samples, or less, is on
# the wrong side of its own class by the squared hinge.
_CERTAIN = 0.001

# The logistic loss is chosen if its log-loss is smaller by so many nats a sample: where
# labels are nearly certain its predictions are no better. The multinomial one must also
# be smaller by a part: its descent takes up to twice as long as that of the squared
# hinge, and where the two losses are close it predicts a little less well. The yes/no
# losses of several labels take at most about twice as long, too.
_NATS = 0.01
_WORTH = {"log_loss": 0.05, "ovr_log_loss": 0.0}


class Trial(NamedTuple):
    """A problem on which losses are tried."""

    X: NDArray | sp.csr_matrix
    start: int
    stop: int
    targets: Targets
    weight: NDArray
    held: NDArray  # the fold, positions among the samples, ascending

    def part(self, seed: int) -> Trial:
        """The problem of some of the outcomes."""
        m = self.targets.n_outcomes
        share = _MEMBERS / max(self.held.size, 1)
        most = max(_FEWEST, int(np.ceil(m * min(share, 1.0))))
        if most >= _ALMOST * m:
            return self
        chosen = np.random.RandomState(seed).permutation(m)[:most]
        rows, targets = self.targets.among(np.sort(chosen))
        held = np.flatnonzero(np.isin(rows, self.held)).astype(np.int32)
        if self.targets.several:
            return self._replace(targets=targets)
        X = self.X[rows + self.start]
        return Trial(X, 0, rows.size, targets, self.weight[rows], held)


def scores_of(fits: Sequence[BlockFit]) -> tuple[NDArray, int]:
    """(fold scores, `n_wrong`) of the blocks of a node."""
    scores = np.hstack([f.fold_scores for f in fits])
    return scores, sum(f.n_wrong for f in fits)


def choose_loss(
    trials: Sequence[Trial],
    C: float,
    settings_of: Callable[[str], DescentSettings],
    seeds: NDArray,
    parallel: ThreadMap,
    hinge: Sequence[tuple[NDArray, int]] | None = None,
) -> tuple[str, float]:
    """(loss, C) of the smaller log-loss on the fold; without fold the logistic.

    hinge: `scores_of` the squared hinge for each trial, if it was fitted already and no
    trial has parts.
    """
    parts = [t.part(int(seed)) for t, seed in zip(trials, seeds)]
    several = trials[0].targets.several
    second = "ovr_log_loss" if several else "log_loss"

    def fitted(loss, C):
        settings = settings_of(loss)
        settings = settings._replace(tol=_ROUGH * settings.tol)

        def scores(k):
            X, start, stop, targets, weight, held = parts[k]
            node = NodeSolver(X, start, stop, targets, costs(C, weight), held)
            return node.fold_scores(settings, int(seeds[k]))

        return parallel(scores, range(len(parts)))

    def log_loss(found, loss):
        return fold_log_loss(parts, [scores for scores, _ in found], loss)

    if hinge is None:
        hinge = fitted("squared_hinge", C)
    if not several and any(part.held.size for part in parts):
        n_samples = sum(part.targets.n_samples for part in parts)
        if sum(n_wrong for _, n_wrong in hinge) <= _CERTAIN * n_samples:
            return "squared_hinge", C
    least = log_loss(hinge, "squared_hinge")
    most = min(least * (1 - _WORTH[second]), least - _NATS)
    # no log-loss is below 0
    if most <= 0 or most <= log_loss(fitted(second, AUTO_C * C), second):
        return "squared_hinge", C
    return second, AUTO_C * C


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
