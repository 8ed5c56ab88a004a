"""Linear models of the nodes by dual coordinate descent, and their posterior.

The models are those of `linear`: a node is fitted on the columns that its samples have,
and small weights are dropped. The posterior is in the notes of
`HierarchicalClassifier`.
"""

from __future__ import annotations

from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.random import RandomState
from numpy.typing import NDArray

from .._checks import (
    INT32_MAX,
    as_ids,
    check_ids,
    check_length,
    check_memory,
    check_pointers,
    check_sparse,
)
from .._parallel import (
    ThreadMap,
    row_blocks,
    rows_per_block,
    single_blas_thread,
    stop_flag,
)
from .._progress import Progress
from ..linear import LinearClassifier
from ..linear._calibration import BEYOND, Sigmoid, draw_fold, scale_of
from ..linear._samples import single, warn_uneven
from ..linear._solver import (
    BLOCK,
    BlockFit,
    DescentSettings,
    NodeSolver,
    peak_bytes,
    runs,
    stored_bytes,
)
from ..linear._targets import Targets
from ..linear._trial import Trial, choose_loss, trial_bytes
from ..linear._weights import NodeWeights, Piece, as_rows
from ..linear._weights_fast import all_scores
from ..taxonomy import Forest
from ._evidence import CHAIN, fit_numbers
from ._evidence_fast import LOSSES, ROLES, Posterior, Scratch
from ._inner_labels import RaisedLabels
from ._label_fold import NodeFold, choose_threshold, fit_sigmoids, node_log_proba
from ._label_problems import LabelProblems
from ._nodes import NodeModels, TrainingSet, Use, best_of_rows, target_of_rows
from ._problems import NodeProblems, warn_not_converged
from ._tree_fold import TreeFold

# Routing nodes of a level that are expanded, for each evaluated leaf.
_BEAM = 4

# Candidates for n_leaves=None: the smallest whose log-loss on the fold is within
# _TOLERANCE of the best. Larger ones are tried while a step lowers it by _GAIN.
_LEAF_CANDIDATES = (2, 3, 5, 8)
_TOLERANCE = 0.015
_GAIN = 0.003

# Samples of a block of the search, which one thread answers.
_ROWS = 1024

# loss="auto" compares the losses at nodes with this part of the fold samples of all.
_TRIED = 0.1

# Assumed part of the weights that a threshold keeps, for the check of memory.
_LEFT = 0.25

# A score so large that every scale makes a probability of 1 of it.
_SURE = 1e20

# Size of the window, and the least number of new samples in it after which the numbers
# of the posterior are fitted again.
_WINDOW = 2000
_FRESH = 100


class Window(NamedTuple):
    """The last samples of the batches, scored before they were learned (one tree)."""

    X: NDArray | sp.csr_matrix
    targets: Targets
    weight: NDArray
    unseen: dict[int, NodeFold]  # of each node with a model

    def check(self, n_features: int, n_classes: int) -> None:
        """ValueError if the arrays of a damaged pickle contradict each other."""
        X, n = self.X, self.weight.size
        check_sparse(X, "window")
        if X.shape != (n, n_features) or X.dtype != np.float32:
            raise ValueError("window of the pickled model does not fit its features")
        check_length("targets", self.targets.outcome, n, "one a sample")
        check_ids("targets", self.targets.outcome, 0, n_classes, "class")
        for node in self.unseen.values():
            check_ids("member", node.member, 0, n, "sample")
            check_length("scores", node.scores, node.member.size, "one a member")

    def followed_by(self, other: Window) -> Window:
        """The last `_WINDOW` samples of this window and the other."""
        n_old, n_new = self.weight.size, other.weight.size
        kept = slice(max(n_old + n_new - _WINDOW, 0), n_old + n_new)
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


class _FittedTree(NamedTuple):
    """One fitted tree."""

    fits: list[list[BlockFit]]  # blocks of each node
    # of each node: the members of the fold below it, and their outcomes
    held: list[tuple[NDArray, Targets]]


class DualNodes(NodeModels):
    """Linear models of all nodes by dual coordinate descent.

    Parameters
    ----------
    estimator : LinearClassifier
        Its parameters are those of every node.

    n_leaves : int or None
        Leaves that are evaluated for each sample; None: `join` chooses.

    in_batches : bool, default=False
        Whether `learn` will be called: all weights are kept, and a `Window`.

    Attributes
    ----------
    loss : str

    n_leaves : int

    weights : NodeWeights

    numbers : ndarray of shape (n_trees, 5)
        w_r, w_l, eta, c and c' of each tree (notes of `HierarchicalClassifier`); with
        several labels, of shape (n_trees, 6), w_r, b_r, p_r, w_l, b_l, p_l.

    fold_log_loss : ndarray of shape (n_trees,)

    threshold : float
        Labels of a larger probability are predicted, with several labels a sample.

    raised : RaisedLabels or None
        Labels with at least the probability of those below them, which the trees do
        not ensure.

    C, n_iter, status : ndarray of shape (n_models,)
    """

    wide = True

    def __init__(
        self,
        estimator: LinearClassifier,
        n_leaves: int | None,
        several: bool = False,
        threshold: float | str = 0.5,
        in_batches: bool = False,
    ) -> None:
        self.window: Window | None = None
        self.raised: RaisedLabels | None = None
        self.fresh = 0  # samples in the window since numbers were fitted to it
        self.in_batches, self.any_leaves = in_batches, n_leaves is None
        # with several labels leaves are evaluated while they may hold an answer
        self.n_leaves = 1 if several else n_leaves
        self.several, self.threshold = several, threshold
        self.searches: list = []
        self.loss = estimator.loss
        self.n_steps = 2 + (estimator.loss == "auto")
        self._C = float(estimator.C)
        self._max_iter = estimator.max_iter
        self._estimator = estimator
        self._trees: list[_FittedTree] = []
        self._fold: Any = None  # drawn with the first tree

    # ------------------------------------------------------------------ fitting

    def prepare(self, data: TrainingSet, n_trees: int) -> TrainingSet:
        data = data._replace(X=single(data.X))
        if self.loss != "log_loss":
            warn_uneven(data.X, stacklevel=6)
        return data

    def fit(
        self,
        problems: NodeProblems | LabelProblems,
        rows: NDArray,
        data: TrainingSet,
        rng: RandomState,
        progress: Progress,
        parallel: ThreadMap,
    ) -> None:
        estimator, n = self._estimator, rows.size
        if self._fold is None:
            held = np.empty(0, dtype=np.int32)
            if estimator.calibration is not None:
                # in random order: where the fold is too large its first part is used
                known = data.known.astype(np.int32)
                held = draw_fold(data.targets.take(known), rng)
                held = rng.permutation(known[held])
            self._fold = (
                held,
                data.X[held],
                data.targets.take(held),
                data.weight[held],
            )
        self._check_size(problems, parallel.n_threads)
        number = np.full(n, -1, dtype=np.int64)
        number[self._fold[0]] = np.arange(self._fold[0].size)
        number = number[rows]  # of each row in the fold, -1: not in it
        seeds = rng.randint(1, INT32_MAX, size=problems.n_nodes)
        begun: dict = {}
        with single_blas_thread(), stop_flag() as stop:
            if self.loss == "auto":
                begun = self._choose(problems, number, seeds, stop, parallel)
                progress.step(f"loss={self.loss} with C={self._C:g}", "choose")
            settings = self._settings(self.loss, self._C, stop)
            fits = self._solve(problems, number, seeds, settings, parallel, begun)
        members = [_members(problems, v, number) for v in range(problems.n_nodes)]
        most = max((f.n_iter for fit in fits.values() for f in fit), default=0)
        for v in np.flatnonzero(problems.sizes == 0).tolist():  # of a first batch
            m = int(problems.n_rows[v])
            whole = [(0, m)] if self.loss == "log_loss" else runs(0, m, BLOCK)
            fits[v] = [_no_fit(b - a, data.X.shape[1]) for a, b in whole]
        if isinstance(problems, LabelProblems):
            for v, sure in enumerate(problems.sure):
                _answer_yes(fits[v], sure)
        self._trees.append(_FittedTree([fits[v] for v in range(len(fits))], members))
        progress.step(f"fitted, {len(fits)} nodes, at most {most} epochs", "solve")

    def _settings(self, loss, C, stop):
        threshold = 0.0 if self.in_batches else self._estimator.weight_threshold
        return DescentSettings.of(self._estimator, loss, C, threshold, stop)

    def _solve(self, problems, number, seeds, settings, parallel, begun, old=None):
        """{node: fits of its blocks}, for the nodes that have samples.

        begun: the halted descents of nodes. old: for each node the weights of its
        blocks after the earlier batches.
        """

        def fit(v):
            before, halted = [None] if old is None else old[v], begun.get(v)
            if halted is None:
                t = _trial(problems, number, v)
                node = NodeSolver(*t[:-1], divide=old is None)
            else:
                node = halted.solver
            blocks = node.blocks(settings)
            descents = [None] * len(blocks) if halted is None else halted.blocks
            return [
                node.fit(block, settings, int(seeds[v]) + k, piece, descent)
                for k, (block, piece, descent) in enumerate(
                    zip(blocks, cycle(before), descents)
                )
            ]

        work = problems.sizes * problems.n_rows
        order = np.argsort(-work, kind="stable")
        order = order[work[order] > 0].tolist()
        return dict(zip(order, parallel(fit, order)))

    def _choose(self, problems, number, seeds, stop, parallel):
        """Set loss and C by the fold's log-loss at some of the nodes.

        Returns {node: its descents, halted}.
        """
        if problems.n_nodes == 0:  # one class
            self.loss, self._C = "squared_hinge", float(self._estimator.C)
            return {}
        order = np.random.RandomState(seeds[:1]).permutation(problems.n_nodes)
        size = problems.sizes
        order = order[size[order] > 0]
        if order.size > 1:  # without the root, which costs as much as all leaves
            order = order[order != size.argmax()]
        members = [_members(problems, v, number)[0].size for v in order.tolist()]
        enough = max(_TRIED * sum(members), 100)
        order = order[: int(np.searchsorted(np.cumsum(members), enough)) + 1]
        self.loss, self._C, begun = choose_loss(
            [_trial(problems, number, v) for v in order.tolist()],
            lambda loss, C: self._settings(loss, C, stop),
            float(self._estimator.C),
            seeds[order],
            parallel,
        )
        return {} if begun is None else {int(order[0]): begun}

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
            None,
            f"a tree of {n.size} nodes, the largest with "
            f"{int(problems.n_outcomes.max(initial=1))} outcomes and "
            f"{int(d.max(initial=0))} features,",
            remedy + "or fewer features",
        )

    def join(self, forest: Forest) -> None:
        self.forest = forest
        pieces, counts = [], []
        for tree in self._trees:
            for fits in tree.fits:
                pieces += [f.piece for f in fits]
                counts.append(len(fits))
        models = forest.model_nodes
        per_node = np.zeros(forest.n_nodes, dtype=np.int64)
        per_node[models] = counts
        self.model_ptr = np.concatenate([[0], np.cumsum(per_node)])
        fold = self._fold
        n_features = fold[1].shape[1]
        self.weights = NodeWeights(pieces, n_features)
        every = [fits for tree in self._trees for fits in tree.fits]
        self.n_iter = np.array(
            [max(f.n_iter for f in fits) for fits in every], dtype=np.int32
        )
        # 1 as in `NodeProblems.fit`: stopped at max_iter
        self.status = np.array(
            [not all(f.converged for f in fits) for fits in every], dtype=np.int32
        )
        self.C = np.full(len(every), self._C)
        self.role = _roles(forest)
        self.numbers = np.tile(self._plain_numbers, (forest.n_trees, 1))
        self.fold_log_loss = np.full(forest.n_trees, np.nan)
        _, X, targets, weight = fold
        first, folds = 0, dict[int, NodeFold]()
        for t, tree in enumerate(self._trees):
            mine = models[first : first + len(tree.fits)].tolist()
            unseen = {
                v: _node_fold(held, fits)
                for v, held, fits in zip(mine, tree.held, tree.fits)
            }
            folds |= unseen
            window = Window(X, targets, weight, unseen)
            if weight.size:
                self._calibrate(t, window)
            if self.in_batches:
                self.window = window
            first += len(tree.fits)
        if self.n_leaves is None:
            self.n_leaves = _LEAF_CANDIDATES[0]
        if self.threshold == "f1":
            self.threshold = choose_threshold(
                X, targets, weight, forest, self.role, self.numbers, self._scores,
                folds, self.raised,
            )  # fmt: skip
        del self._trees, self._fold, self._estimator

    def learn(
        self,
        estimator: LinearClassifier,
        problems: NodeProblems,
        rows: NDArray,
        data: TrainingSet,
        rng: RandomState,
        parallel: ThreadMap,
    ) -> None:
        """Learn one more batch, of one tree; the parameters are those of `fit`.

        Samples of the batch are scored, added to the window, and then learned.
        """
        self._estimator, self.in_batches = estimator, True
        self._max_iter = estimator.max_iter
        n, models = data.weight.size, self.forest.model_nodes.tolist()
        held = np.empty(0, dtype=np.int32)
        if estimator.calibration is not None:
            held = rng.permutation(n)[:_WINDOW].astype(np.int32)
        self._check_size(problems, parallel.n_threads)
        number = np.full(n, -1, dtype=np.int64)
        number[held] = np.arange(held.size)
        number = number[rows]
        seeds = rng.randint(1, INT32_MAX, size=problems.n_nodes)
        pieces = [self.weights.piece(j) for j in range(self.weights.n_nodes)]
        ptr = self.model_ptr
        old = [pieces[ptr[v] : ptr[v + 1]] for v in models]
        with stop_flag() as stop:
            settings = self._settings(self.loss, self._C, stop)
            fits = self._solve(problems, number, seeds, settings, parallel, {}, old)
        unseen = {}
        for v, (node, before) in enumerate(zip(models, old)):
            mine = fits.get(v, [])
            for k, fit in enumerate(mine):
                pieces[ptr[node] + k] = before[k].replaced(fit.piece)
            self.n_iter[v] = max((f.n_iter for f in mine), default=0)
            self.status[v] = not all(f.converged for f in mine)
            mine = mine or [_no_fit(p.n_outcomes, data.X.shape[1]) for p in before]
            unseen[node] = _node_fold(_members(problems, v, number), mine)
        self.weights = NodeWeights(pieces, data.X.shape[1])
        new = Window(data.X[held], data.targets.take(held), data.weight[held], unseen)
        self.window = new if self.window is None else self.window.followed_by(new)
        self.fresh += held.size
        if self.fresh >= max(_FRESH, self.window.weight.size // 10):
            self._calibrate(0, self.window)
            self.fresh = 0
        del self._estimator

    @property
    def _plain_numbers(self) -> tuple[float, ...]:
        """The numbers of a model without a fold."""
        return 2 * Sigmoid() if self.several else CHAIN

    def _check_arrays(self) -> None:
        super()._check_arrays()
        forest, weights = self.forest, self.weights
        per_node = np.diff(as_ids("model_ptr", self.model_ptr, 1, np.int64))
        check_pointers("model_ptr", self.model_ptr, 0, weights.n_nodes)
        first = np.concatenate([[0], np.cumsum(weights.n_outcomes)])
        for name, right in {
            "model_ptr": per_node.size == forest.n_nodes,
            "numbers": np.shape(self.numbers)
            == (forest.n_trees, len(self._plain_numbers)),
            "role": np.array_equal(self.role, _roles(forest)),
        }.items():
            if not right:
                raise ValueError(f"{name} of the pickled model does not fit its forest")
        if not np.isfinite(self.numbers).all():
            raise ValueError("numbers of the pickled model are not finite")
        if self.several and not (self.numbers[:, [0, 2, 3, 5]] > 0).all():
            raise ValueError("w or p of the pickled model are not positive")
        n_outcomes = np.diff(first[self.model_ptr])
        rows = forest.rows_of_node
        if self.several:
            rows = np.where(forest.n_child >= 2, forest.n_child, 0)
        if not np.array_equal(n_outcomes, rows):
            raise ValueError("n_outcomes of the pickled model does not fit its forest")
        if self.window is not None:
            self.window.check(weights.n_features, forest.terminal.shape[1])

    # -------------------------------------------------------------- calibration

    def _calibrate(self, t: int, window: Window) -> None:
        """Fit the numbers of tree t, and `n_leaves` if the user gave None."""
        X, targets, weight, unseen = window
        root = int(self.forest.tree_ptr[t])
        if self.several:
            found = fit_sigmoids(unseen, self.role, weight)
        elif self.role[root] == ROLES["leaf"]:  # w_l alone matters
            member, own, scores = unseen[root]
            w, log_loss = scale_of(scores, own.outcome, weight[member], self.loss)
            found = (1.0, w, *CHAIN[2:]), log_loss
        else:
            fold = TreeFold(
                X, targets, weight, self.forest, self.role, t, self.loss,
                self._scores, unseen,
            )  # fmt: skip
            if self.any_leaves and (t == 0 or self.n_leaves is None):
                found = self._choose_leaves(fold)
            else:
                found = self._fit_numbers(fold, self.n_leaves)
        self.numbers[t], self.fold_log_loss[t] = found

    def _choose_leaves(self, fold: TreeFold) -> tuple[tuple[float, ...], float]:
        """Choose n_leaves by the fold; returns `fit_numbers` for it."""
        most = np.count_nonzero(self.role == ROLES["leaf"])
        found: list[tuple[tuple[float, ...], float]] = []
        for n_leaves in _LEAF_CANDIDATES:
            start = found[-1][0] if found else None
            found.append(self._fit_numbers(fold, n_leaves, start))
            if n_leaves >= most:  # all of them
                break
            if len(found) > 1 and not found[-1][1] < (1 - _GAIN) * found[-2][1]:
                break
        least = min(log_loss for _, log_loss in found)
        near = [log_loss <= (1 + _TOLERANCE) * least for _, log_loss in found]
        k = near.index(True)
        self.n_leaves = _LEAF_CANDIDATES[k]
        return found[k]

    def _fit_numbers(self, fold, n_leaves, start=None):
        return fit_numbers(fold.evidence(n_leaves, _BEAM * n_leaves), start)

    def _scores(self, v, X):
        """Scores of the outcomes of node v by the final weights."""
        a, b = int(self.model_ptr[v]), int(self.model_ptr[v + 1])
        sizes = self.weights.n_outcomes[a:b]
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        out = np.empty((X.shape[0], int(first[-1])), dtype=np.float32)
        room = np.empty(self.weights.lanes, dtype=np.float32)
        stop = np.zeros(1, dtype=np.int32)
        all_scores(self.weights.kernel(), a, as_rows(X), first, out, room, stop)
        return out

    def warn(self, stacklevel: int) -> None:
        warn_not_converged(self.status, self._max_iter, stacklevel + 1)

    # --------------------------------------------------------------- prediction

    @property
    def coef(self) -> sp.csr_matrix:
        return self.weights.sparse()

    @property
    def intercept(self) -> NDArray:
        return self.weights.intercepts()

    def coef_of(self, v: int) -> sp.csr_matrix:
        """The rows of `coef` of node v."""
        return self.weights.sparse(*self.model_ptr[v : v + 2].tolist())

    def _posterior(self):
        return Posterior(
            self.weights.kernel(),
            self.model_ptr,
            self.role,
            self.forest,
            self.numbers,
            LOSSES[self.loss],
            BEYOND,
            self.n_leaves,
            _BEAM * self.n_leaves,
            self.several,
        )

    def _scratch(self):
        n, n_classes = self.forest.n_nodes, self.forest.terminal.shape[1]
        wide = max(int(self.forest.n_child.max(initial=1)), self.forest.n_trees)
        return Scratch(
            n,
            self.weights.lanes,
            n_classes,
            np.empty((5, n)),
            np.empty((3, n), dtype=np.int32),
            np.zeros(n, dtype=np.int8),
            np.empty(self.weights.lanes, dtype=np.float32),
            np.empty((5, wide + 1)),
            np.empty(n_classes),
            np.empty(Scratch.ranked_bytes(n), dtype=np.int8),
        )

    @staticmethod
    def _blocks(block, n, step, n_jobs):
        with ThreadMap(n_jobs) as parallel, stop_flag() as stop:
            parallel(lambda part: block(part, stop), row_blocks(n, step))

    def rows(self, X: NDArray | sp.csr_matrix, use: Use, n_jobs: int | None) -> None:
        X, posterior = single(X), self._posterior()
        n_classes = self.forest.terminal.shape[1]

        def block(part, stop):
            out = np.empty((part.stop - part.start, n_classes))
            posterior.full(
                as_rows(X, part.start, part.stop), self._scratch(), out, stop
            )
            if self.raised is not None:
                self.raised.raise_rows(out)
            use(part, out)

        self._blocks(block, X.shape[0], rows_per_block(4 * n_classes), n_jobs)

    def node_rows(
        self, X: NDArray | sp.csr_matrix, tree: int, use: Use, n_jobs: int | None
    ) -> None:
        """use(slice, log P of all nodes of a tree), for several labels a sample."""
        X, forest = single(X), self.forest

        def block(part):
            rows = X[part]
            use(
                part,
                node_log_proba(
                    rows.shape[0], forest, self.role, tree, self.numbers[tree],
                    lambda v, who: self._scores(v, rows[who]),
                ),
            )  # fmt: skip

        step = rows_per_block(4 * forest.n_nodes)
        with ThreadMap(n_jobs) as parallel:
            parallel(block, row_blocks(X.shape[0], step))

    def best(
        self, X: NDArray | sp.csr_matrix, prediction: str, n_jobs: int | None
    ) -> tuple[NDArray, NDArray]:
        if prediction == "greedy":
            raise ValueError(
                'prediction="greedy" follows best children; this model evaluates the '
                "n_leaves best leaves: use n_leaves=1 in fit"
            )
        best, _, n_dots = self._search(X, 1, n_jobs)
        return best[:, 0], n_dots

    def search(
        self, X: NDArray | sp.csr_matrix, k: int, n_jobs: int | None
    ) -> tuple[NDArray, NDArray]:
        if self.raised is None:
            return self._search(X, k, n_jobs)[:2]
        return best_of_rows(self, X, k, n_jobs)

    def _search(self, X, k, n_jobs):
        X, posterior, n = single(X), self._posterior(), X.shape[0]
        best, log_proba = np.zeros((n, k), dtype=np.int32), np.empty((n, k))
        n_dots = np.zeros(n, dtype=np.int64)

        def block(part, stop):
            rows = as_rows(X, part.start, part.stop)
            posterior.search(
                rows, self._scratch(), best[part], log_proba[part], n_dots[part], stop
            )

        self._blocks(block, n, _ROWS, n_jobs)
        return best, log_proba, n_dots

    def labels(
        self, X: NDArray | sp.csr_matrix, n_jobs: int | None
    ) -> tuple[NDArray, NDArray]:
        """(sample, label) of the labels of a probability above the threshold."""
        X, posterior = single(X), self._posterior()
        n_classes, least = self.forest.terminal.shape[1], np.log(self.threshold)
        found: dict[int, tuple[NDArray, NDArray]] = {}

        def block(part, stop):
            rows = as_rows(X, part.start, part.stop)
            above = np.empty((part.stop - part.start, n_classes), dtype=np.int8)
            posterior.labels(rows, self._scratch(), least, above, stop)
            sample, label = np.nonzero(above)
            found[part.start] = sample + part.start, label

        self._blocks(block, X.shape[0], min(_ROWS, rows_per_block(n_classes)), n_jobs)
        pairs = zip(*(found[start] for start in sorted(found)))
        sample, label = map(np.concatenate, pairs)
        # a label is raised above the threshold by a label below it that is above it
        return (
            (sample, label) if self.raised is None else self.raised.close(sample, label)
        )

    def target(
        self, X: NDArray | sp.csr_matrix, code: NDArray, n_jobs: int | None
    ) -> NDArray:
        if self.raised is not None:
            return target_of_rows(self, X, code, n_jobs)
        X, posterior = single(X), self._posterior()
        out, code = np.empty(X.shape[0]), code.astype(np.int32)

        def block(part, stop):
            rows = as_rows(X, part.start, part.stop)
            posterior.targets(rows, self._scratch(), code[part], out[part], stop)

        self._blocks(block, out.size, _ROWS, n_jobs)
        return out


def _roles(forest: Forest) -> NDArray:
    """Role of each node. A node whose children are all classes is a leaf."""
    terminal = forest.node_class >= 0
    role = np.full(forest.n_nodes, ROLES["route"], dtype=np.int8)
    child = np.flatnonzero(forest.parent >= 0)
    inner = np.zeros(forest.n_nodes, dtype=bool)
    inner[forest.parent[child[~terminal[child]]]] = True
    role[~terminal & ~inner] = ROLES["leaf"]
    role[terminal] = ROLES["single"]
    role[child[role[forest.parent[child]] == ROLES["leaf"]]] = ROLES["class"]
    return role


def _trial(problems, number, v):
    """The problem of node v."""
    X, a, b, at, targets = problems.samples_of(v)
    held = np.flatnonzero(number[at] >= 0).astype(np.int32)
    return Trial(X, a, b, targets, problems.weight[at], held)


def _members(problems, v, number):
    """(members of the fold below node v, their outcomes).

    number: for each row its number in the fold, -1 outside of it.
    """
    at, targets = problems.targets_of(v)
    number = number[at]
    member = np.flatnonzero(number >= 0)
    return number[member], targets.take(member)


def _answer_yes(fits, sure):
    """Give the outcomes `sure` of a node a score that makes their probability 1."""
    first = 0
    for fit in fits:
        m = fit.fold_scores.shape[1]
        lanes = sure[(sure >= first) & (sure < first + m)] - first
        fit.piece.intercept[lanes] = _SURE
        fit.fold_scores[:, lanes] = _SURE
        first += m


def _no_fit(n_outcomes, n_features):
    """The fit of a block of a node without samples."""
    scores = np.empty((0, n_outcomes), dtype=np.float32)
    return BlockFit(Piece.empty(n_outcomes, n_features), scores, 0, True)


def _node_fold(held, fits):
    return NodeFold(*held, np.hstack([f.fold_scores for f in fits]))
