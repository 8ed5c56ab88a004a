"""Scores of a fold, and the numbers fitted to them for several labels per sample.

With several labels each node that a sample of the fold reaches scores a yes/no question
for each of its children, by weights fitted without the sample. Two sigmoids, one for
routing nodes and one for leaves, are fitted to these scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._checks import check_ids, check_length, check_sparse
from .._parallel import row_blocks, rows_per_block
from ..linear._calibration import f1_threshold, fit_answers
from ..linear._samples import Samples
from ..linear._targets import Targets
from ._evidence_fast import ROLES, Unseen

# Smallest threshold that is considered.
LEAST = 0.01

# Largest number of samples of a window.
WINDOW = 2000


class NodeFold(NamedTuple):
    """The members of the fold that reach a node."""

    member: NDArray  # numbers of the members in the fold
    targets: Targets  # the outcomes of each member
    scores: NDArray  # (members, outcomes), by weights fitted without the members


class Window(NamedTuple):
    """The last samples of the batches, scored before they were learned (one tree)."""

    X: Samples
    targets: Targets
    weight: NDArray
    unseen: dict[int, NodeFold]  # for each node with a model

    def check(self, n_features: int, n_classes: int) -> None:
        """ValueError if the arrays of a damaged pickle contradict each other."""
        X, n = self.X, self.weight.size
        check_sparse(X, "window")
        if X.shape != (n, n_features) or X.dtype != np.float32:
            raise ValueError("window of the pickled model does not fit its features")
        check_length("targets", self.targets.outcome, n, "one per sample")
        check_ids("targets", self.targets.outcome, 0, n_classes, "class")
        for node in self.unseen.values():
            check_ids("member", node.member, 0, n, "sample")
            check_length("scores", node.scores, node.member.size, "one per member")

    def followed_by(self, other: Window) -> Window:
        """The last `WINDOW` samples of this window and then the other window."""
        n_old, n_new = self.weight.size, other.weight.size
        kept = slice(max(n_old + n_new - WINDOW, 0), n_old + n_new)
        parts: list[Any] = [self.X, other.X]
        if any(map(sp.issparse, parts)):
            X = sp.vstack([*map(sp.csr_matrix, parts)], format="csr")[kept]
        else:
            X = np.vstack(parts)[kept]
        outcome = np.concatenate([self.targets.outcome, other.targets.outcome])[kept]
        unseen = {}
        for v, new in other.unseen.items():
            old = self.unseen[v]
            member = np.concatenate([old.member, new.member + n_old]) - kept.start
            there = np.flatnonzero(member >= 0)
            own = np.concatenate([old.targets.outcome, new.targets.outcome])[there]
            scores = np.vstack([old.scores, new.scores])[there]
            of_node = Targets.one_each(own, old.targets.n_outcomes)
            unseen[v] = NodeFold(member[there], of_node, scores)
        targets = Targets.one_each(outcome, self.targets.n_outcomes)
        weight = np.concatenate([self.weight, other.weight])[kept]
        return Window(X, targets, weight, unseen)


def fit_sigmoids(
    folds: dict[int, NodeFold], role: NDArray, weight: NDArray
) -> tuple[tuple[float, ...], float]:
    """((w_r, b_r, p_r, w_l, b_l, p_l), mean log-loss of all answers) of a tree.

    The log-loss is the sum over all questions of a sample, in nats.
    """
    found = []
    for kind in ("route", "leaf"):
        part = [f for v, f in folds.items() if role[v] == ROLES[kind]]
        member, targets, scores = zip(*part) if part else ((), (), ())
        found.append(fit_answers(scores, targets, [weight[m] for m in member]))
    (routing, route), (leaves, leaf) = found
    total = np.nansum([route, leaf]) / weight.sum()
    return (*routing, *leaves), float(total)


def choose_threshold(
    rows: Callable[[slice], NDArray], targets: Targets, weight: NDArray
) -> float:
    """The threshold of the largest micro-averaged F1 on the fold.

    rows(part): the log-probabilities of all labels for a part of the fold. They need
    not be exact for probabilities below `LEAST`.
    """
    if weight.size == 0:
        return 0.5
    proba, yes, each = [], [], []
    missed = 0.0
    for part in row_blocks(weight.size, rows_per_block(2 * targets.n_outcomes)):
        P = np.exp(rows(part))
        here = np.arange(part.start, part.stop)
        truth = targets.take(here).indicator()
        sample, label = np.nonzero(P >= LEAST)
        proba.append(P[sample, label])
        yes.append(truth[sample, label])
        each.append(weight[here][sample])
        missed += float(weight[here] @ (truth & (P < LEAST)).sum(axis=1))
    return f1_threshold(
        np.concatenate(proba), np.concatenate(yes), np.concatenate(each), missed, LEAST
    )


def unseen_scores(folds: dict[int, NodeFold], n: int) -> Unseen:
    """The scores of the nodes of all trees, by sample of the fold of n samples."""
    nothing = [np.empty(0, dtype=np.int64)]
    sizes = [f.member.size for f in folds.values()]
    node = np.repeat(np.array(list(folds), dtype=np.int32), sizes)
    member = np.concatenate(nothing + [f.member for f in folds.values()])
    width = np.repeat([f.scores.shape[1] for f in folds.values()], sizes)
    scores = np.concatenate(nothing + [f.scores.ravel() for f in folds.values()])
    order = np.argsort(member, kind="stable")
    ptr = np.searchsorted(member[order], np.arange(n + 1))
    place = (np.cumsum(width) - width).astype(np.int64)
    return Unseen(ptr, node[order], place[order], scores.astype(np.float32))
