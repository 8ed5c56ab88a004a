"""Multinomial logistic regressions at all nodes.

The probability of a class is the product along its path. Predictions are compiled
searches with bounds, which compute few of the scores.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from .._checks import INT32_MAX, check_length, check_memory
from .._parallel import ThreadMap, rows_per_block, single_blas_thread, stop_flag
from ..linear import LinearClassifier
from ..linear._labels import Use
from ..linear._quasi_newton import PER_TOL, NodeProblems
from ..linear._samples import Samples, narrow_indices, single
from ..linear._solver import DescentSettings
from ..taxonomy import Forest
from ._forest_fast import ForestArrays, full_rows
from ._nodes import NodeModels, Run, TrainingSet
from ._problems import solver_of, warn_not_converged
from ._search_fast import search
from ._searches import StrengthSearch, fit_at
from ._walks_fast import narrow_rows, walk

# Samples per block of the search. Making the arrays of a block takes as long as the
# search of some hundreds of samples.
_SEARCH_ROWS = 16384

# Per sample, weights in single precision save about the time of copying nine rows of
# weights. They are copied to single precision for n_rows / 8 samples or more.
_ROWS_PER_SAMPLE = 8

# Factor by which the blocks of `rows` are smaller than other blocks: their arrays stay
# in the cache, and the allocator reuses them.
_PARTS_PER_BLOCK = 32


# Largest number of classes times features of sparse X for `ChainNodes`.
_MOST_WEIGHTS = 2**24

_BATCH_PARAMS = "C", "loss", "intercept_scaling"


def too_wide(estimator: LinearClassifier, data: TrainingSet) -> bool:
    """Whether `DualNodes`, whose weights are packed, predict faster.

    Up to `_MOST_WEIGHTS` the searches of `ChainNodes` take a tenth of the time of
    `DualNodes` along deep trees. With more weights each score of a sparse sample misses
    the cache, and a tree of few large leaves is faster.
    """
    wide = float(data.X.shape[1]) * data.n_classes > _MOST_WEIGHTS
    return wide and sp.issparse(data.X) and not of_one_solver(estimator)


def fit_nodes(
    estimator: LinearClassifier,
    seed: int,
    parallel: ThreadMap,
    stop: NDArray,
    problems: NodeProblems,
    C: NDArray,
    *,
    start: tuple[NDArray, NDArray] | None = None,
    nodes: NDArray | None = None,
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Fit nodes at given C with the solver of the estimator.

    Returns the values of `NodeProblems.fit`. If L-BFGS fits all nodes, one call fits
    them in the precision of X: a call per node would take longer than a small node.
    Otherwise each node chooses its solver and is fitted in single precision.
    """
    settings = DescentSettings.of(estimator, "log_loss", 1.0, 0.0, stop)
    if of_one_solver(estimator):
        return problems.fit(
            C, constant=settings.constant, tol=PER_TOL * estimator.tol,
            max_iter=settings.iterations, start=start, nodes=nodes, parallel=parallel,
            stop=stop,
        )  # fmt: skip
    coef, intercept = problems.empty_coef() if start is None else start
    n_iter, status = np.zeros((2, problems.n_nodes), dtype=np.int32)
    nodes = np.arange(problems.n_nodes) if nodes is None else nodes
    work = (problems.sizes * problems.n_rows)[nodes]
    order = nodes[np.argsort(-work, kind="stable")].tolist()

    def fit(v):
        node = solver_of(problems, v)
        mine = settings._replace(C=float(C[v]))
        (block,) = node.blocks(mine)
        return node.fit(block, mine, (seed + v) % INT32_MAX + 1)

    for v, found in zip(order, parallel(fit, order)):
        rows = slice(*problems.row_ptr[v : v + 2].tolist())
        piece, m = found.piece, found.piece.n_outcomes
        coef[rows] = 0
        coef[rows, piece.features.columns()] = piece.weights()[:, :m].T
        intercept[rows] = piece.intercept[:m]
        n_iter[v], status[v] = found.n_iter, not found.converged
    return coef, intercept, n_iter, status


def of_one_solver(estimator: LinearClassifier) -> bool:
    """Whether all nodes are fitted by L-BFGS."""
    return estimator.solver == "quasi_newton" or np.isinf(estimator.intercept_scaling)


def batch_params(estimator: LinearClassifier) -> dict:
    """The parameters that are the same for all batches of samples."""
    return {name: getattr(estimator, name) for name in _BATCH_PARAMS}


class ChainNodes(NodeModels):
    """Multinomial logistic regressions of all nodes.

    The probability of a class is the product along its path. `is_chain` is true for the
    estimator. A `search` that is not None chooses C of each node; `searches` has its
    fitted copy for each tree. `NodeProblems.fit` describes `status`.
    """

    def __init__(
        self, estimator: LinearClassifier, search: StrengthSearch | None
    ) -> None:
        self.searches: list[StrengthSearch] = []
        self.n_steps = 2 if search is None else 1 + search.n_solves()
        self._settings, self.params = (estimator, search), batch_params(estimator)
        self.learns_batches = search is None and not of_one_solver(estimator)
        self._max_iter = estimator.max_iter
        self._fits: list = []

    def prepare(self, data: TrainingSet, n_trees: int) -> TrainingSet:
        n_features, n_classes = data.X.shape[1], data.n_classes
        # a tree of binary splits has the fewest weight vectors
        check_memory(
            8 * float(n_trees) * (n_classes - 1) * (n_features + 1),
            f"n_taxonomies={n_trees} trees of {n_classes} classes with {n_features} "
            "features",
            "use fewer trees or features, or a weight_threshold of the estimator",
        )
        if not of_one_solver(self._settings[0]):
            data = data._replace(X=single(data.X))
        return data

    def fit(self, problems: NodeProblems, data: TrainingSet, run: Run) -> None:
        estimator, strength = self._settings
        C = float(estimator.C)
        seed = 0 if of_one_solver(estimator) else int(run.rng.randint(INT32_MAX))
        with single_blas_thread(), stop_flag() as stop:
            solver = partial(fit_nodes, estimator, seed, run.parallel, stop)
            if strength is None:
                each = np.full(problems.n_nodes, C)
                found = fit_at(problems, each, solver, run.progress)
            else:
                own = clone(strength)
                found = own.solve(problems, C, solver, run)
                self.searches.append(own)
        dtype = problems.X.dtype
        self._fits.append(
            found._replace(
                coef=found.coef.astype(dtype, copy=False),
                intercept=found.intercept.astype(dtype),
            )
        )

    def join(self, forest: Forest) -> None:
        self.forest = forest
        # rows of the weights are in the order of the nodes and of the trees
        self.coef, self.intercept, self.C, self.n_iter, self.status = (
            parts[0] if len(parts) == 1 else np.concatenate(parts)
            for parts in zip(*self._fits)
        )
        self.dtype = self.coef.dtype
        self.learns_batches &= forest.n_trees == 1
        del self._fits, self._settings

    def coef_of(self, v: int) -> NDArray:
        """The rows of `coef` of node v."""
        first = self.forest.row[v]
        return self.coef[first : first + self.forest.rows_of_node[v]]

    def _check_arrays(self) -> None:
        super()._check_arrays()
        for name in ("coef", "intercept"):
            check_length(name, getattr(self, name), self.forest.n_rows, "the outcomes")

    def warn(self) -> None:
        warn_not_converged(self.status, self._max_iter)

    def rows(self, X: Samples, use: Use, n_jobs: int | None) -> None:
        forest = self.forest
        n_classes = forest.terminal.shape[1]
        width = forest.n_nodes + 2 * forest.n_rows + n_classes
        arrays = ForestArrays(*forest)
        # SciPy would copy a transposed matrix in every product with a sparse matrix.
        # The last digits of a dense product in float32 depend on the number of rows.
        if sp.issparse(X):
            weights = np.ascontiguousarray(self.coef.T)
        else:
            weights = self.coef.astype(np.float64, copy=False).T

        def block(part, stop):
            with np.errstate(over="ignore", invalid="ignore"):
                rows = X[part]
                if sp.issparse(rows):
                    scores = (rows @ weights).astype(np.float64, copy=False)
                else:
                    scores = rows.astype(np.float64, copy=False) @ weights
                scores += self.intercept
                soft = np.abs(scores)
                np.negative(soft, out=soft)
                np.log1p(np.exp(soft, out=soft), out=soft)
            out = np.empty((scores.shape[0], n_classes))
            work = np.empty(forest.n_nodes + forest.terminal.size)
            _check_scores(full_rows(arrays, scores, soft, work, out))
            use(part, out)

        step = rows_per_block(_PARTS_PER_BLOCK * width)
        self._blocks(block, X.shape[0], step, n_jobs)

    def best(self, X: Samples, n_jobs: int | None) -> tuple[NDArray, NDArray]:
        # a search, because `rows` costs an exponential and a logarithm per class
        n, dense = X.shape[0], not sp.issparse(X)
        best, n_dots = np.full((n, 1), -1, dtype=np.int32), np.zeros(n, dtype=np.int64)
        model = self._model()
        few = dense and n < self.coef.shape[0] // _ROWS_PER_SAMPLE
        if self.forest.n_trees == 1 and self.coef.size and not few:
            narrow = None, 0.0
            if dense:
                narrow = narrow_rows(self.coef, self.intercept)

            def block(part, stop):
                found = best[part, 0], n_dots[part]
                walk(*model, *self._samples(X[part]), *narrow, *found, stop)

            self._blocks(block, n, _SEARCH_ROWS, n_jobs)
        left = np.flatnonzero(best[:, 0] < 0)  # undecided in single precision
        if left.size:
            rows = X if left.size == n else X[left]  # without a copy of all
            code = best[left]
            n_dots[left] += self._search(model, rows, False, code, n_jobs)[1]
            best[left] = code
        return best[:, 0], n_dots

    def search(self, X: Samples, k: int, n_jobs: int | None) -> tuple[NDArray, NDArray]:
        best = np.zeros((X.shape[0], k), dtype=np.int32)
        return best, self._search(self._model(), X, False, best, n_jobs)[0]

    def target(self, X: Samples, code: NDArray, n_jobs: int | None) -> NDArray:
        code = code.astype(np.int32)[:, None]
        return self._search(self._model(), X, True, code, n_jobs)[0][:, 0]

    def _search(self, model, X, given, code, n_jobs):
        """(log-probabilities, dot products) of the classes in `code`.

        given: whether `code` has the classes; else the best classes are written to it.
        """
        log_proba, n_dots = np.empty(code.shape), np.zeros(X.shape[0], dtype=np.int64)

        def block(part, stop):
            answers = code[part], log_proba[part], n_dots[part]
            rows = self._samples(X[part])
            _check_scores(search(*model, *rows, given, *answers, stop))

        self._blocks(block, X.shape[0], _SEARCH_ROWS, n_jobs)
        return log_proba, n_dots

    def _model(self):
        return ForestArrays(*self.forest), self.coef, self.intercept

    def _samples(self, X):
        """(values, indices, pointers, room for scores) of X.

        Indices and pointers of dense X are None.
        """
        if X.shape[1] != self.coef.shape[1]:
            raise ValueError("coef of the pickled model does not fit its features")
        room = np.empty(max(self.coef.shape[0], 1), dtype=self.coef.dtype)
        if sp.issparse(X):
            return X.data, narrow_indices(X), X.indptr.astype(np.int64), room
        return X.reshape(-1), None, None, room


def _check_scores(good):
    if not good:
        raise ValueError(
            "X has values so large that a score is not a number; scale X as the "
            "training data, for example by StandardScaler in a Pipeline"
        )
