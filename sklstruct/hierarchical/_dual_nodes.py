"""Linear models of the nodes by dual coordinate descent, and their posterior.

The models are those of `sklstruct.linear`: a node is fitted on the columns that its
samples have, and small weights are dropped. The notes of `HierarchicalClassifier` have
the formula of the posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._checks import INT32_MAX, as_ids, check_memory, check_pointers, check_sparse
from .._parallel import rows_per_block, runs, single_blas_thread, stop_flag
from ..linear import LinearClassifier
from ..linear._calibration import BEYOND, Sigmoid, draw_fold, scale_of
from ..linear._labels import Use
from ..linear._quasi_newton import NodeProblems
from ..linear._samples import Samples, single, warn_uneven
from ..linear._solver import (
    BLOCK,
    BlockFit,
    DescentSettings,
    peak_bytes,
    stored_bytes,
)
from ..linear._targets import Targets
from ..linear._trial import choose_loss, trial_bytes
from ..linear._weights import Features, NodeWeights, Piece, as_rows, lanes_of
from ..taxonomy import Forest
from ._chain_nodes import ChainNodes, batch_params
from ._evidence import CHAIN, Evidence, fit_numbers
from ._evidence_fast import ROLES, Posterior, Scratch
from ._inner_labels import RaisedLabels
from ._label_fold import (
    LEAST,
    WINDOW,
    NodeFold,
    Window,
    choose_threshold,
    fit_sigmoids,
    unseen_scores,
)
from ._label_problems import LabelProblems
from ._nodes import NodeModels, Run, TrainingSet, in_blocks
from ._problems import Problems, solver_of, warn_not_converged

# loss="auto" compares the losses at nodes that have together this fraction of the fold
# samples of all nodes.
_TRIED = 0.1

# Assumed fraction of the weights that a threshold keeps, for the check of memory.
_LEFT = 0.25

# Routing nodes expanded per level and per evaluated leaf.
_BEAM = 4

# Candidates for n_leaves. The smallest candidate whose log-loss on the fold is within a
# fraction _TOLERANCE of the best is chosen. Larger candidates are tried while each
# lowers the log-loss by a fraction _GAIN.
_LEAF_CANDIDATES = (2, 3, 5, 8)
_TOLERANCE = 0.015
_GAIN = 0.003

# Largest number of doubles of an `Evidence`, and the number of samples that are used
# even if they need more.
_FOLD_SIZE = 20_000_000
_FEWEST = 200

# Samples per block of the search; one thread predicts a block.
_ROWS = 1024

# Largest number of outcomes of a block of weights in `over_scores`.
_WHOLE = 1 << 15

# A score so large that its probability is 1 at every scale; -_SURE has probability 0.
_SURE = 1e20

# Least number of new samples in the window after which the numbers of the posterior are
# fitted again.
_FRESH = 100


class DualNodes(NodeModels):
    """Linear models of all nodes by dual coordinate descent, with the parameters of one
    estimator.

    several: whether samples have any number of labels.
    threshold: with several labels, labels of a larger probability are predicted; "f1"
    chooses the threshold.
    in_batches: whether `learn` will be called: all weights are kept, and a `Window`.
    n_leaves: leaves that are evaluated for each sample.
    numbers: for each tree w_r, w_l, eta, c and c' (notes of `HierarchicalClassifier`);
    with several labels w_r, b_r, p_r, w_l, b_l, p_l.
    fold_log_loss: mean log-loss of the fold in each tree.
    params: parameters of the estimator that are the same for all batches.
    raised: if the trees do not ensure that a label is at least as probable as each
    label below, the `RaisedLabels` that ensure it; else None.
    C, n_iter, status: for each model C, epochs, and 1 if `max_iter` was reached.
    """

    wide = True

    def __init__(
        self,
        estimator: LinearClassifier,
        several: bool = False,
        threshold: float | str = 0.5,
        in_batches: bool = False,
    ) -> None:
        self.window: Window | None = None
        self.raised: RaisedLabels | None = None
        self.fresh = 0  # samples in the window since numbers were fitted to it
        self.in_batches, self.several, self.threshold = in_batches, several, threshold
        # with several labels the search itself evaluates all leaves that may matter
        self.n_leaves = 1 if several else _LEAF_CANDIDATES[0]
        self.searches: list = []
        self.loss, self.params = estimator.loss, batch_params(estimator)
        self.n_steps = 2 + (estimator.loss == "auto")
        self._C = float(estimator.C)
        self._max_iter = estimator.max_iter
        self._estimator = estimator
        # for each tree: the fits of the blocks of each node, and for each node the
        # members of the fold below the node with their outcomes
        self._trees: list[
            tuple[list[list[BlockFit]], list[tuple[NDArray, Targets]]]
        ] = []
        self._fold: Any = None  # drawn with the first tree

    @classmethod
    def of_chain(cls, chain: ChainNodes, estimator: LinearClassifier) -> DualNodes:
        """Nodes with the models and probabilities of `chain`, for learning batches."""
        nodes, forest = cls(estimator, in_batches=True), chain.forest
        d, pieces = chain.coef.shape[1], []
        every = Features.of(np.arange(d, dtype=np.int32), d)
        for v in forest.model_nodes.tolist():
            m = int(forest.rows_of_node[v])
            rows = slice(forest.row[v], forest.row[v] + m)
            W = np.zeros((d + 1, lanes_of(m)), dtype=np.float32)
            W[:-1, :m], W[-1, :m] = chain.coef[rows].T, chain.intercept[rows]
            cell = W[:-1].reshape(-1).view(np.uint32)
            pieces.append(Piece(every, None, cell, W[-1], m))
        nodes.loss = "log_loss"
        nodes._assemble(forest, NodeWeights(pieces, d), 1)
        return nodes

    @classmethod
    def over_scores(cls, forest: Forest, model: Any) -> DualNodes:
        """Nodes for an X of scores: column j of X is score j.

        model: the `ScoreModel`.
        """
        several = model.columns is not None
        nodes = cls(LinearClassifier(), several, model.threshold)
        rows = forest.n_child if several else forest.rows_of_node
        every = [runs(0, m, _WHOLE) for m in rows[forest.model_nodes].tolist()]
        sizes = [b - a for blocks in every for a, b in blocks]
        nodes._assemble(forest, NodeWeights.of_scores(sizes), [*map(len, every)])
        nodes.loss, nodes.numbers = model.loss, model.numbers
        nodes.n_leaves = model.n_leaves
        nodes._check_arrays()
        return nodes

    def _assemble(self, forest: Forest, weights: NodeWeights, n_blocks: Any) -> None:
        """Set the attributes of models that are not calibrated.

        n_blocks: the number of blocks of each model.
        """
        models = forest.model_nodes
        self.forest, self.role, self.weights = forest, _roles(forest), weights
        self.learns_batches = not self.several and forest.n_trees == 1
        self.model_ptr = np.zeros(forest.n_nodes + 1, dtype=np.int64)
        self.model_ptr[models + 1] = n_blocks
        np.cumsum(self.model_ptr, out=self.model_ptr)
        self.C = np.full(models.size, self._C)
        self.n_iter, self.status = np.zeros((2, models.size), dtype=np.int32)
        self.numbers = np.tile(plain_numbers(self.several), (forest.n_trees, 1))
        self.fold_log_loss = np.full(forest.n_trees, np.nan)
        del self._trees, self._fold, self._estimator

    # ------------------------------------------------------------------ fitting

    def prepare(self, data: TrainingSet, n_trees: int) -> TrainingSet:
        data = data._replace(X=single(data.X))
        if self.loss != "log_loss":
            warn_uneven(data.X)
        return data

    def _begin(self, problems, held, run):
        """Check the memory; returns the number in the fold, or -1, of each row."""
        self._check_size(problems, run.parallel.n_threads)
        number = np.full(problems.weight.size, -1, dtype=np.int64)
        number[held] = np.arange(held.size)
        return number[problems.rows]

    def _settings(self, loss, C, stop):
        threshold = 0.0 if self.in_batches else self._estimator.weight_threshold
        return DescentSettings.of(self._estimator, loss, C, threshold, stop)

    def _solve(self, problems, number, seeds, stop, run, paused, old=None):
        """{node: fits of its blocks}, for the nodes that have samples.

        paused: the `PausedDescents` of some nodes. old: for each node the weights of
        its blocks after the earlier batches.
        """
        settings = self._settings(self.loss, self._C, stop)

        def fit(v):
            before, begun = [None] if old is None else old[v], paused.get(v)
            if begun is None:
                node = solver_of(problems, v, number)
            else:
                node = begun.solver
            blocks = node.blocks(settings)
            descents = [None] * len(blocks) if begun is None else begun.blocks
            return [
                node.fit(block, settings, int(seeds[v]) + k, piece, descent)
                for k, (block, piece, descent) in enumerate(
                    zip(blocks, cycle(before), descents)
                )
            ]

        work = problems.sizes * problems.n_rows
        order = np.argsort(-work, kind="stable")
        order = order[work[order] > 0].tolist()
        return dict(zip(order, run.parallel(fit, order)))

    def _choose(self, problems, number, seeds, stop, run):
        """Set loss and C to those with the least log-loss of the fold at some nodes.

        Returns {node: its `PausedDescents`}.
        """
        if problems.n_nodes == 0:  # one class
            self.loss, self._C = "squared_hinge", float(self._estimator.C)
            return {}
        order = np.random.RandomState(seeds[:1]).permutation(problems.n_nodes)
        size = problems.sizes
        order = order[size[order] > 0]
        if order.size > 1:  # without the root, which costs as much as all leaves do
            order = order[order != size.argmax()]
        members = [members_of(problems, v, number)[0].size for v in order.tolist()]
        enough = max(_TRIED * sum(members), 100)
        order = order[: int(np.searchsorted(np.cumsum(members), enough)) + 1]
        self.loss, self._C, paused = choose_loss(
            [solver_of(problems, v, number) for v in order.tolist()],
            lambda loss, C: self._settings(loss, C, stop),
            float(self._estimator.C), seeds[order], run.parallel,
        )  # fmt: skip
        return {} if paused is None else {int(order[0]): paused}

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
            f"a tree of {n.size} nodes, the largest with "
            f"{int(problems.n_outcomes.max(initial=1))} outcomes and "
            f"{int(d.max(initial=0))} features,",
            remedy + "or fewer features",
        )

    def fit(self, problems: Problems, data: TrainingSet, run: Run) -> None:
        estimator = self._estimator
        if self._fold is None:
            held = np.empty(0, dtype=np.int32)
            if estimator.calibration is not None:
                # in random order: if the fold is too large, its first part is used
                known = data.known.astype(np.int32)
                held = draw_fold(data.targets.take(known), run.rng)
                held = run.rng.permutation(known[held])
            fold = data.X[held], data.targets.take(held), data.weight[held]
            self._fold = (held, *fold)
        number = self._begin(problems, self._fold[0], run)
        seeds = run.rng.randint(1, INT32_MAX, size=problems.n_nodes)
        paused: dict = {}
        with single_blas_thread(), stop_flag() as stop:
            if self.loss == "auto":
                paused = self._choose(problems, number, seeds, stop, run)
                run.progress.step(f"loss={self.loss} with C={self._C:g}", "choose")
            fits = self._solve(problems, number, seeds, stop, run, paused)
        members = [members_of(problems, v, number) for v in range(problems.n_nodes)]
        most = max((f.n_iter for fit in fits.values() for f in fit), default=0)
        d = data.X.shape[1]
        for v in np.flatnonzero(problems.sizes == 0).tolist():  # in a first batch
            m = int(problems.n_rows[v])
            whole = [(0, m)] if self.loss == "log_loss" else runs(0, m, BLOCK)
            fits[v] = [_no_fit(Piece.empty(b - a, d)) for a, b in whole]
        if isinstance(problems, LabelProblems):
            for v, (sure, never) in enumerate(zip(problems.sure, problems.never)):
                _answer(fits[v], sure, _SURE)
                _answer(fits[v], never, -_SURE)
        self._trees.append(([fits[v] for v in range(len(fits))], members))
        run.progress.step(f"fitted, {len(fits)} nodes, at most {most} epochs", "solve")

    def join(self, forest: Forest) -> None:
        trees, (_, X, targets, weight) = self._trees, self._fold
        every = [fits for tree, _ in trees for fits in tree]
        pieces = [f.piece for fits in every for f in fits]
        weights = NodeWeights(pieces, X.shape[1])
        self._assemble(forest, weights, [*map(len, every)])
        for v, fits in enumerate(every):
            self.n_iter[v] = max(f.n_iter for f in fits)
            # 1 as in `NodeProblems.fit`: stopped at max_iter
            self.status[v] = not all(f.converged for f in fits)
        first, folds = 0, dict[int, NodeFold]()
        for t, (tree, members) in enumerate(trees):
            mine = forest.model_nodes[first : first + len(tree)].tolist()
            unseen = {
                v: _node_fold(held, fits) for v, held, fits in zip(mine, members, tree)
            }
            folds |= unseen
            window = Window(X, targets, weight, unseen)
            if weight.size:
                self._calibrate(t, window)
            if self.in_batches:
                self.window = window
            first += len(tree)
        if self.threshold == "f1":
            unseen = unseen_scores(folds, weight.size)
            self.threshold = choose_threshold(
                lambda part: self._rows_of_fold(X, unseen, part), targets, weight
            )

    def learn(
        self,
        estimator: LinearClassifier | None,
        problems: NodeProblems,
        data: TrainingSet,
        run: Run,
    ) -> None:
        """Learn one more batch, of one tree.

        Samples of the batch are scored, added to the window, and then learned.
        estimator: must have the `params` of the earlier batches, or the loss and C that
        `loss="auto"` chose. None stands for the `params` of the earlier batches.
        """
        if estimator is None:
            estimator = LinearClassifier(**self.params)
        given = batch_params(estimator)
        chosen = self.params | {"C": self._C, "loss": self.loss}
        if given != self.params and given != chosen:
            name = next(k for k, v in self.params.items() if given[k] != v)
            raise ValueError(
                f"estimator: {name}={given[name]!r}, but the batches before were "
                f"learned with {name}={self.params[name]!r}; set it back, or call fit"
            )
        self._estimator, self.in_batches = estimator, True
        self._max_iter = estimator.max_iter
        models, d = self.forest.model_nodes.tolist(), data.X.shape[1]
        held = np.empty(0, dtype=np.int32)
        if estimator.calibration is not None:
            held = run.rng.permutation(data.weight.size)[:WINDOW].astype(np.int32)
        number = self._begin(problems, held, run)
        seeds = run.rng.randint(1, INT32_MAX, size=problems.n_nodes)
        pieces = [self.weights.piece(j) for j in range(self.weights.n_nodes)]
        ptr = self.model_ptr
        old = [pieces[ptr[v] : ptr[v + 1]] for v in models]
        with stop_flag() as stop:
            fits = self._solve(problems, number, seeds, stop, run, {}, old)
        unseen = {}
        for v, (node, before) in enumerate(zip(models, old)):
            mine = fits.get(v, [])
            for k, fit in enumerate(mine):
                pieces[ptr[node] + k] = before[k].replaced(fit.piece)
            self.n_iter[v] = max((f.n_iter for f in mine), default=0)
            self.status[v] = not all(f.converged for f in mine)
            mine = mine or [_no_fit(Piece.empty(p.n_outcomes, d)) for p in before]
            unseen[node] = _node_fold(members_of(problems, v, number), mine)
        self.weights = NodeWeights(pieces, d)
        new = Window(data.X[held], data.targets.take(held), data.weight[held], unseen)
        self.window = new if self.window is None else self.window.followed_by(new)
        self.fresh += held.size
        if self.fresh >= max(_FRESH, self.window.weight.size // 10):
            self._calibrate(0, self.window)
            self.fresh = 0
        del self._estimator

    def _check_arrays(self) -> None:
        super()._check_arrays()
        forest, weights = self.forest, self.weights
        per_node = np.diff(as_ids("model_ptr", self.model_ptr, 1, np.int64))
        check_pointers("model_ptr", self.model_ptr, weights.n_nodes)
        first = np.concatenate([[0], np.cumsum(weights.n_outcomes)])
        for name, right in {
            "model_ptr": per_node.size == forest.n_nodes,
            "numbers": np.shape(self.numbers)
            == (forest.n_trees, len(plain_numbers(self.several))),
            "role": np.array_equal(self.role, _roles(forest)),
        }.items():
            if not right:
                raise ValueError(f"{name} of the pickled model does not fit its forest")
        if not np.isfinite(self.numbers).all():
            raise ValueError("numbers of the pickled model are not finite")
        if self.several and not (self.numbers[:, [0, 2, 3, 5]] > 0).all():
            raise ValueError("w or p of the pickled model are not positive")
        n_outcomes = np.diff(first[self.model_ptr])
        rows = forest.n_child if self.several else forest.rows_of_node
        if not np.array_equal(n_outcomes, rows):
            raise ValueError("n_outcomes of the pickled model does not fit its forest")
        if self.raised is not None:
            check_sparse(self.raised.below, "raised")
        if self.window is not None:
            self.window.check(weights.n_features, forest.terminal.shape[1])

    # -------------------------------------------------------------- calibration

    def _calibrate(self, t: int, window: Window) -> None:
        """Fit the numbers of tree t; the first tree with routing sets `n_leaves`."""
        weight, unseen = window.weight, window.unseen
        root = int(self.forest.tree_ptr[t])
        if self.several:
            found = fit_sigmoids(unseen, self.role, weight)
        elif self.role[root] == ROLES["leaf"]:  # w_l alone matters
            member, own, scores = unseen[root]
            w, log_loss = scale_of(scores, own.outcome, weight[member], self.loss)
            found = (1.0, w, *CHAIN[2:]), log_loss
        else:
            deep = self.role[self.forest.tree_ptr[:-1]] != ROLES["leaf"]
            if t == deep.argmax():
                found = self._choose_leaves(t, window)
            else:
                found = fit_numbers(self._evidence(t, window, self.n_leaves))
        self.numbers[t], self.fold_log_loss[t] = found

    def _choose_leaves(self, t: int, window: Window) -> tuple[tuple[float, ...], float]:
        """Choose n_leaves by the log-loss of the fold; returns its `fit_numbers`."""
        most = np.count_nonzero(self.role == ROLES["leaf"])
        found: list[tuple[tuple[float, ...], float]] = []
        for n_leaves in _LEAF_CANDIDATES:
            start = found[-1][0] if found else None
            found.append(fit_numbers(self._evidence(t, window, n_leaves), start))
            if n_leaves >= most:  # all leaves are evaluated
                break
            if len(found) > 1 and not found[-1][1] < (1 - _GAIN) * found[-2][1]:
                break
        least = min(log_loss for _, log_loss in found)
        near = [log_loss <= (1 + _TOLERANCE) * least for _, log_loss in found]
        k = near.index(True)
        self.n_leaves = _LEAF_CANDIDATES[k]
        return found[k]

    def _evidence(self, t: int, window: Window, n_leaves: int) -> Evidence:
        """The evidence of the members of the fold in tree t.

        Nodes above the class of a member score the member by weights fitted without
        this member, other nodes by their final weights.
        """
        forest = self.forest
        mine = self.role[forest.tree_ptr[t] : forest.tree_ptr[t + 1]]
        n_items = int(np.count_nonzero(mine != ROLES["class"]))
        m = int(forest.n_child[self.role == ROLES["leaf"]].max(initial=1))
        most = _FOLD_SIZE // max(n_items, n_leaves * m)
        n = min(window.weight.size, max(_FEWEST, most))
        fold = Evidence.empty(window.weight[:n], n_items, n_leaves, m)
        posterior = self._posterior(np.array([CHAIN] * forest.n_trees), n_leaves)
        stop = np.zeros(1, dtype=np.int32)
        posterior.record(
            as_rows(window.X, slice(n)), scratch_of(self),
            unseen_scores(window.unseen, n), t, window.targets.outcome, *fold[:-1],
            stop,
        )  # fmt: skip
        return fold

    def _rows_of_fold(self, X, unseen, part):
        """log P of the labels above `LEAST` for a part of the fold."""
        code, log_proba = _empty(part.stop - part.start, self.forest.terminal.shape[1])
        log_proba[:] = -np.inf
        answers = "labels", code, log_proba, np.zeros(1, dtype=np.int32), np.log(LEAST)
        self._fill(self._posterior(), X, part, *answers, unseen.part(part.start))
        if self.raised is not None:
            self.raised.raise_rows(log_proba)
        return log_proba

    def warn(self) -> None:
        warn_not_converged(self.status, self._max_iter)

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

    def _posterior(self, numbers=None, n_leaves=None):
        n_leaves = self.n_leaves if n_leaves is None else n_leaves
        numbers = self.numbers if numbers is None else numbers
        return Posterior(self, numbers, n_leaves, _BEAM * n_leaves, BEYOND)

    def _fill(self, posterior, X, part, kind, code, log_proba, stop, least=0.0, *more):
        """Fill `code` and `log_proba`; returns the numbers of dot products."""
        n_dots = np.zeros(len(log_proba), dtype=np.int64)
        answers = kind, code, log_proba, n_dots, least, stop
        posterior.answer(as_rows(X, part), scratch_of(self), *answers, *more)
        return n_dots

    def _answer(self, X, kind, code, log_proba, n_jobs):
        """`_fill` for all rows, in threads."""
        X, posterior = single(X), self._posterior()
        n_dots = np.empty(X.shape[0], dtype=np.int64)

        def block(part, stop):
            arrays = code[part], log_proba[part]
            n_dots[part] = self._fill(posterior, X, part, kind, *arrays, stop)

        in_blocks(block, X.shape[0], _ROWS, n_jobs)
        return n_dots

    def each(
        self,
        X: Samples,
        kind: str,
        n_columns: int,
        use: Callable[[slice, NDArray, NDArray], None],
        n_jobs: int | None,
        least: float = 0.0,
        tree: int = 0,
    ) -> None:
        """Call use(slice, code, log_proba) with each block of `Posterior.answer`.

        tree: the tree whose nodes the kind "nodes" asks for.
        """
        X, posterior = single(X), self._posterior()

        def block(part, stop):
            n = part.stop - part.start
            code, _ = _empty(n, n_columns if kind == "labels" else 0)
            out = np.empty((n, n_columns))
            self._fill(posterior, X, part, kind, code, out, stop, least, None, tree)
            use(part, code, out)

        in_blocks(block, X.shape[0], rows_per_block(4 * n_columns), n_jobs)

    def rows(self, X: Samples, use: Use, n_jobs: int | None) -> None:
        def raise_rows(part, _, out):
            if self.raised is not None:
                self.raised.raise_rows(out)
            use(part, out)

        self.each(X, "all", self.forest.terminal.shape[1], raise_rows, n_jobs)

    def best(self, X: Samples, n_jobs: int | None) -> tuple[NDArray, NDArray]:
        best, log_proba = _empty(X.shape[0], 1)
        n_dots = self._answer(X, "best", best, log_proba, n_jobs)
        return best[:, 0], n_dots

    def search(self, X: Samples, k: int, n_jobs: int | None) -> tuple[NDArray, NDArray]:
        if self.raised is not None:
            return super().search(X, k, n_jobs)
        best, log_proba = _empty(X.shape[0], k)
        self._answer(X, "best", best, log_proba, n_jobs)
        return best, log_proba

    def labels(self, X: Samples, n_jobs: int | None) -> tuple[NDArray, NDArray]:
        """(sample, label) of all labels with a probability above the threshold."""
        n_classes, least = self.forest.terminal.shape[1], np.log(self.threshold)
        found: list[tuple[NDArray, NDArray]] = []

        def use(part, code, _):
            sample, label = np.nonzero(code)
            found.append((sample + part.start, label))

        self.each(X, "labels", n_classes, use, n_jobs, least)
        sample, label = map(np.concatenate, zip(*found))
        # a label exceeds the threshold if a label below it does
        if self.raised is not None:
            return self.raised.close(sample, label)
        return sample, label

    def target(self, X: Samples, code: NDArray, n_jobs: int | None) -> NDArray:
        if self.raised is not None:
            return super().target(X, code, n_jobs)
        given, log_proba = code.astype(np.int32)[:, None], np.empty((code.size, 1))
        self._answer(X, "given", given, log_proba, n_jobs)
        return log_proba[:, 0]


def members_of(problems: Problems, v: int, number: NDArray) -> tuple[NDArray, Targets]:
    """(members of the fold below node v, their outcomes).

    number: for each row its number in the fold, -1 outside of it.
    """
    at, targets = problems.targets_of(v)
    number = number[at]
    member = np.flatnonzero(number >= 0)
    return number[member], targets.take(member)


def plain_numbers(several: bool) -> tuple[float, ...]:
    """The numbers of the posterior of models that are not calibrated."""
    return 2 * Sigmoid() if several else CHAIN


def _empty(n, k):
    return np.zeros((n, k), dtype=np.int32), np.empty((n, k))


def scratch_of(nodes: DualNodes) -> Scratch:
    """Room for one sample, of one thread."""
    forest = nodes.forest
    wide = max(int(forest.n_child.max(initial=1)), forest.n_trees)
    return Scratch(forest.n_nodes, nodes.weights.lanes, wide)


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


def _answer(fits, outcomes, score):
    """Set the score of some outcomes of a node."""
    first = 0
    for fit in fits:
        m = fit.fold_scores.shape[1]
        lanes = outcomes[(outcomes >= first) & (outcomes < first + m)] - first
        fit.piece.intercept[lanes] = score
        fit.fold_scores[:, lanes] = score
        first += m


def _no_fit(piece):
    """The fit of a block of a node without samples."""
    scores = np.empty((0, piece.n_outcomes), dtype=np.float32)
    return BlockFit(piece, scores, 0, True)


def _node_fold(held, fits):
    return NodeFold(*held, np.hstack([f.fold_scores for f in fits]))
