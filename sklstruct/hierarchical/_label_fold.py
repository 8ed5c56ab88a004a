"""Calibration and choice of the threshold on a fold, for several labels per sample.

Each node that a sample of the fold reaches scores a yes/no question for each of its
children, by weights that had not seen the sample. Two sigmoids, one for routing nodes
and one for leaves, are fitted to these scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from .._parallel import row_blocks, rows_per_block
from ..linear._calibration import Sigmoid, f1_threshold, fit_answers
from ..linear._samples import Samples
from ..linear._targets import Targets
from ..taxonomy import Forest
from ._evidence_fast import ROLES
from ._inner_labels import RaisedLabels

# Smallest threshold that is considered.
_LEAST = 0.01


class NodeFold(NamedTuple):
    """The members of the fold that reach a node."""

    member: NDArray  # their numbers in the fold
    targets: Targets  # the outcomes of each
    scores: NDArray  # (members, outcomes), of weights that had not seen them


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
    if np.isnan([route, leaf]).all():
        return (*routing, *leaves), np.nan
    total = np.nansum([route, leaf]) / weight.sum()
    return (*routing, *leaves), float(total)


def choose_threshold(
    X: Samples,
    targets: Targets,
    weight: NDArray,
    forest: Forest,
    role: NDArray,
    numbers: NDArray,
    final_scores: Callable[[int, Samples], NDArray],
    folds: dict[int, NodeFold],
    raised: RaisedLabels | None = None,
) -> float:
    """The threshold of the largest micro-averaged F1 on the fold X.

    final_scores(v, X): the scores of node v by the final weights. They are used for
    samples that do not belong to the node: it did not train on them. raised: as in
    `DualNodes`.
    """
    n = X.shape[0]
    if n == 0:
        return 0.5
    proba, yes, each = [], [], []
    missed = 0.0
    for part in row_blocks(n, rows_per_block(2 * forest.n_nodes)):
        P = np.zeros((part.stop - part.start, forest.terminal.shape[1]))
        scores_of = _fold_scores(part.start, X, final_scores, folds)
        for t in range(forest.n_trees):
            log_p = node_log_proba(
                len(P), forest, role, t, numbers[t], scores_of, np.log(_LEAST)
            )
            P += np.exp(log_p[:, forest.terminal[t] - forest.tree_ptr[t]])
        P /= forest.n_trees
        if raised is not None:
            raised.raise_rows(P)
        here = np.arange(part.start, part.stop)
        truth = targets.take(here).indicator()
        sample, label = np.nonzero(P >= _LEAST)
        proba.append(P[sample, label])
        yes.append(truth[sample, label])
        each.append(weight[here][sample])
        missed += float(weight[here] @ (truth & (P < _LEAST)).sum(axis=1))
    return f1_threshold(
        np.concatenate(proba), np.concatenate(yes), np.concatenate(each), missed, _LEAST
    )


def _fold_scores(start, X, final_scores, folds):
    """`scores_of` for `node_log_proba`: the members of the fold from `start` on."""

    def scores_of(v, who):
        scores = final_scores(v, X[who + start])
        own = np.full(X.shape[0], -1)
        own[folds[v].member] = np.arange(folds[v].member.size)
        mine = own[who + start]
        scores[mine >= 0] = folds[v].scores[mine[mine >= 0]]
        return scores

    return scores_of


def node_log_proba(
    n: int,
    forest: Forest,
    role: NDArray,
    t: int,
    numbers: NDArray,
    scores_of: Callable[[int, NDArray], NDArray],
    least: float = -np.inf,
) -> NDArray:
    """log P of the nodes of tree t for n samples; -inf below nodes of at most `least`.

    scores_of(v, who): the scores of node v for the samples `who`.
    """
    root, end = forest.tree_ptr[t : t + 2].tolist()
    log_p = np.full((n, end - root), -np.inf)
    log_p[:, 0] = 0.0
    level = [root]
    while level:
        below: list[int] = []
        for v in level:
            first, m = int(forest.first_child[v]), int(forest.n_child[v])
            who = np.flatnonzero(log_p[:, v - root] > least)
            if m == 0 or who.size == 0:
                continue
            below += range(first, first + m)
            answer = 0.0
            if m > 1:
                first_number = 3 * int(role[v] == ROLES["leaf"])
                sigmoid = Sigmoid(*numbers[first_number : first_number + 3])
                answer = log_expit(sigmoid.odds(scores_of(v, who)))
            above = log_p[who, v - root][:, None]
            log_p[who, first - root : first - root + m] = above + answer
        level = below
    return log_p
