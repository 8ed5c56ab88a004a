"""The classification problems of the nodes of a tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import column_or_1d

from .._warnings import warn
from ..linear._quasi_newton import NodeProblems
from ..linear._solver import NodeSolver
from ..taxonomy import Taxonomy
from ..taxonomy._node_answers import lowest_nodes
from ._label_problems import LabelProblems, outcome_starts
from ._nodes import TrainingSet

Problems = NodeProblems | LabelProblems


def problems_of(
    taxonomy: Taxonomy, data: TrainingSet, n_below: NDArray | None = None
) -> Problems:
    """The problems of the nodes of a tree.

    n_below: as in `LabelProblems`; None: no label is an inner node.
    """
    known, K = data.known, taxonomy.n_classes
    if data.several:
        n_below = np.zeros(K) if n_below is None else n_below
        return LabelProblems(taxonomy, data, n_below)
    counts = np.bincount(data.code[known], minlength=K)
    position = np.argsort(taxonomy.class_sets.order)
    code, stopped = data.code, np.zeros(taxonomy.n_nodes, dtype=np.int64)
    if data.n_candidates is None:
        rows = np.argsort(position[code], kind="stable")
    else:
        # samples whose class is not known follow all others of their node
        node = lowest_nodes(taxonomy, code, data.n_candidates)
        end, level = taxonomy.class_sets.stop[node], taxonomy.level_of_node[node]
        end[known], level[known] = position[code[known]] + 1, taxonomy.n_nodes
        rows = np.lexsort((-level, end))
        other = data.n_candidates > 1
        stopped = np.bincount(node[other], minlength=taxonomy.n_nodes)
        code = code + K * other  # other codes: folds are stratified by known classes
    bounds = outcome_bounds(taxonomy, counts, stopped)
    return NodeProblems(data.X, data.weight[rows], bounds, code[rows], rows)


def mark_known(
    data: TrainingSet,
    taxonomy: Taxonomy | None,
    known_levels: ArrayLike,
    classes: NDArray,
) -> TrainingSet:
    """The data with `n_candidates`; taxonomy: the given tree, or None."""
    levels = column_or_1d(known_levels)
    if levels.dtype.kind not in "iu" or (levels < 0).any():
        raise ValueError("known_levels must be integers >= 0")
    if levels.size != data.n_passed:
        raise ValueError(
            f"known_levels has {levels.size} entries for {data.n_passed} samples"
        )
    if taxonomy is None:
        raise ValueError(
            "known_levels are levels of one given tree: set taxonomy to it (a "
            "Taxonomy, nested lists or mappings), and n_taxonomies=1"
        )
    levels = levels[data.position].astype(np.int64)
    data = data._replace(n_candidates=_candidates(taxonomy, data.code, levels))
    absent = np.ones(classes.size, dtype=bool)
    absent[data.code[data.known]] = False
    if absent.any():
        label = classes[absent].tolist()[0]
        raise ValueError(
            f"known_levels: the class {label!r} has no sample whose class is known; "
            "use other classes of the group as y"
        )
    return data


def _candidates(taxonomy, code, levels):
    """Number of classes below the node at the known level of each sample."""
    found = np.ones(code.size, dtype=np.int64)  # 1: the level is below the leaf
    reached = taxonomy.level_of_node[taxonomy.leaf_of_class][code] >= levels
    for level in np.unique(levels[reached]).tolist():
        at = reached & (levels == level)
        leaf = taxonomy.limit(max_depth=level).leaf_of_class
        found[at] = np.bincount(leaf)[leaf[code[at]]]
    return found


def solver_of(problems: Problems, v: int, number: NDArray | None = None) -> NodeSolver:
    """The solver of node v.

    number: for each row of `problems` its number in the fold, -1: not in the fold.
    """
    at, targets = problems.targets_of(v)
    rows, weight, X, order = problems.rows[at], problems.weight[at], problems.X, None
    held = np.empty(0, dtype=np.int64)
    if number is not None:
        held = np.flatnonzero(number[at] >= 0)
    if rows.size < X.shape[0]:
        X = X[rows]
    elif not targets.several:  # all rows: in the order of X, which is not copied
        place = np.argsort(rows)
        targets, weight, held = targets.take(place), weight[place], rows[held]
        order = rows.astype(np.int32)
    return NodeSolver(X, targets, weight, held.astype(np.int32), order)


def outcome_bounds(
    taxonomy: Taxonomy, counts: NDArray, stopped: NDArray
) -> list[NDArray]:
    """Boundaries of the outcomes of each node that has a model.

    counts: number of samples of each class. If samples are sorted by the position of
    their class in ``taxonomy.class_sets.order``, the classes below a node are a range,
    and so are their samples. stopped: for each node the number of samples whose path
    is known down to this node only; they follow the other samples of the node, lower
    nodes first. The nodes are those of `Forest.model_nodes`, in order; a node of m
    outcomes has m + 1 boundaries.
    """
    order, _, stop = taxonomy.class_sets
    ends = np.concatenate([[0], np.cumsum(counts[order])])
    ends += np.cumsum(np.bincount(stop, stopped, ends.size).astype(np.int64))
    # samples of the node and of nodes above it that end with the same class
    behind = stopped.copy()
    parent = taxonomy.parent
    for v in (1 + np.flatnonzero(stop[1:] == stop[parent[1:]])).tolist():
        behind[v] += behind[parent[v]]
    bounds = []
    for v, starts in outcome_starts(taxonomy):
        bounds.append(ends[starts])
        bounds[-1][-1] -= behind[v]
    return bounds


def warn_not_converged(status: NDArray, max_iter: int | None) -> None:
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
        warn(" ".join(texts), ConvergenceWarning)
