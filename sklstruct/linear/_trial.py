"""loss="auto": the loss with the smaller log-loss on the fold, tried on a few classes.

The choice must not cost more than the fit. So both losses are fitted to the samples of
a random part of the classes, without the fold and to a rough tolerance. With several
labels the labels are independent problems, and a part of these problems is tried. If
there are many samples, only a part of the samples is tried. If the trial has all
classes and samples, the fit continues the paused descent of the chosen loss.

The loss on the training samples does not tell which loss is better. With more columns
than samples the squared hinge classifies all training samples correctly; the logistic
loss is then better for dense columns, and often worse for text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._parallel import ThreadMap
from ._calibration import fit_answers, fit_scale, fold_size, outcome_evidence
from ._solver import DescentSettings, Fit, NodeSolver, peak_bytes

# Least number of outcomes that are tried, and the number of fold samples that they
# should have. With noisy labels, a few outcomes are predicted with more certainty than
# all outcomes.
_FEWEST = 64
_MEMBERS = 150

# If at least this fraction of the outcomes would be tried, all outcomes are tried: the
# fit can then continue the trial.
_ALMOST = 0.75

# If there are more than `_MANY` samples, the fold and `_LEARNED` other samples are
# tried. The fit cannot continue this trial, but a trial of all samples costs more.
_MANY, _LEARNED = 15_000, 5_000

# Tolerance of the descent, in units of `tol`, and the largest tolerance: rougher scores
# of the squared hinge would favour the logistic loss.
_ROUGH = 10.0
_ROUGHEST = 0.1

# Margins by which the logistic loss must win: nats per sample, and the fraction of the
# log-loss for each logistic loss. The descent of the multinomial loss takes up to 1.5
# times as long as the descent of the squared hinge.
_LEAST_MARGIN = 0.01
_RELATIVE_MARGIN = {"log_loss": 0.03, "ovr_log_loss": 0.0}

# C of the logistic candidate, in units of C: its curvature is C p (1 - p), smaller than
# the 2 C of the squared hinge.
_STRONGER = 10.0


def part_of(node: NodeSolver, seed: int) -> NodeSolver:
    """The problem of some of the outcomes of a node, and of some of its samples."""
    m, rng = node.targets.n_outcomes, np.random.RandomState(seed)
    most, n = n_tried(m, node.held.size), node.targets.n_samples
    if most == m and n <= _MANY:
        return node
    chosen = np.sort(rng.permutation(m)[:most])
    rows, targets = node.targets.take(node.order).among(chosen)
    if rows.size > _MANY:
        is_held = np.isin(node.order[rows], node.held)
        learned = rng.permutation(np.flatnonzero(~is_held))[:_LEARNED]
        taken = np.sort(np.append(np.flatnonzero(is_held), learned))
        rows, targets = rows[taken], targets.take(taken)
    rows = node.order[rows]
    held = np.flatnonzero(np.isin(rows, node.held)).astype(np.int32)
    X, weight = node.X, node.weight
    if not targets.several or rows.size < n:
        X, weight = X[rows], weight[rows]
    return NodeSolver(X, targets, weight, held)


def n_tried(n_outcomes: int, n_held: int) -> int:
    """Number of outcomes of the trial of a problem with a fold of n_held samples."""
    share = min(_MEMBERS / max(n_held, 1), 1.0)
    most = max(_FEWEST, int(np.ceil(n_outcomes * share)))
    return n_outcomes if most >= _ALMOST * n_outcomes else most


def trial_bytes(n_samples: int, n_columns: int, n_outcomes: int, n_rows: int) -> float:
    """Peak memory of the trial of a problem.

    The descents of all outcomes are kept. If all outcomes are tried, the descents of
    both losses are kept until a loss is chosen.
    """
    tried = n_tried(n_outcomes, fold_size(n_samples))
    one = peak_bytes(n_samples, n_columns, min(tried, n_rows), "log_loss")
    return one if tried < n_outcomes else 2 * one


class PausedDescents(NamedTuple):
    """The descents of all outcomes with one loss, paused before the fold is learned."""

    solver: NodeSolver
    blocks: list[list[Fit]]  # as `NodeSolver.blocks`

    @classmethod
    def of(
        cls, solver: NodeSolver, settings: DescentSettings, seed: int
    ) -> PausedDescents:
        """The descents of the trial."""
        blocks = [
            list(solver.descents(block, settings, seed + k))
            for k, block in enumerate(solver.blocks(settings))
        ]
        tol = max(min(_ROUGH * settings.tol, _ROUGHEST), settings.tol)
        for block in blocks:
            for descent in block:
                descent.without_fold(tol, descent.few)
        return cls(solver, blocks)

    @property
    def fold_scores(self) -> NDArray:
        return np.hstack([d.fold_scores() for block in self.blocks for d in block])


class Choice(NamedTuple):
    """The chosen loss, its C, and its descents if the fit can continue them."""

    loss: str
    C: float
    paused: PausedDescents | None


def choose_loss(
    nodes: Sequence[NodeSolver],
    settings_of: Callable[[str, float], DescentSettings],
    C: float,
    seeds: NDArray,
    parallel: ThreadMap,
) -> Choice:
    """The loss with the smaller log-loss on the fold; the logistic loss without a fold.

    Its descents are returned if there is one node, and all of it is tried.
    """
    several = nodes[0].targets.several
    second = "ovr_log_loss" if several else "log_loss"
    hinge, other = ("squared_hinge", C), (second, _STRONGER * C)
    if not any(node.held.size for node in nodes):
        return Choice(*other, None)
    parts = [part_of(node, int(seed)) for node, seed in zip(nodes, seeds)]
    kept = len(parts) == 1 and parts[0] is nodes[0]

    def tried(candidate):
        """The scores of the folds, and the paused descents or None."""
        settings = settings_of(*candidate)

        def run(k):
            paused = PausedDescents.of(parts[k], settings, int(seeds[k]))
            return paused.fold_scores, paused if kept else None

        scores, paused = zip(*parallel(run, range(len(parts))))
        return scores, paused[0]

    scores, paused = tried(hinge)
    least = fold_log_loss(parts, scores, "squared_hinge")
    most = min(least * (1 - _RELATIVE_MARGIN[second]), least - _LEAST_MARGIN)
    if most <= 0:  # no log-loss is below 0
        return Choice(*hinge, paused)
    scores, then = tried(other)
    better = fold_log_loss(parts, scores, second) < most
    return Choice(*other, then) if better else Choice(*hinge, paused)


def fold_log_loss(
    parts: Sequence[NodeSolver], scores: Sequence[NDArray], loss: str
) -> float:
    """Mean log-loss of the folds of some problems, with one calibration for all."""
    held = [t.targets.take(t.held) for t in parts]
    weights = [t.weight[t.held] for t in parts]
    if parts[0].targets.several:
        total = fit_answers(scores, held, weights)[1]
        return total / max(sum(w.sum() for w in weights), 1e-300)
    blocks = [outcome_evidence(z, loss) for z in scores]
    wide = max(g.shape[1] for g in blocks)
    g = np.full((sum(map(len, blocks)), wide), -1e6)
    for rows, block in zip(np.split(g, np.cumsum([*map(len, blocks)])), blocks):
        rows[:, : block.shape[1]] = block
    outcome = np.concatenate([t.outcome for t in held])
    return fit_scale(g, outcome, np.concatenate(weights))[1]
