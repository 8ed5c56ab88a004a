"""The models of the nodes: compiled logistic regressions, or any classifier.

Both kinds answer the same questions, and the classifier does not ask which it has:

``fit(problems, rows, samples, rng, progress, parallel)``
    Fit the nodes of one more tree.
``join(forest)``
    All trees are fitted; `forest` numbers their nodes.
``rows(X, use, n_jobs)``
    Call ``use(slice, log_proba)`` with the log-probabilities of all classes, for
    blocks of rows.
``best(X, prediction, n_jobs)``
    (most probable class, dot products) of each row.
``search(X, k, n_jobs)``
    (the k most probable classes, their log-probabilities) of each row.
``target(X, code, n_jobs)``
    Log-probability of the class of each row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed, effective_n_jobs
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import clone

from .._checks import INT32_MAX
from .._compat import BaseEstimator, _check_method_params
from .._parallel import ThreadMap, row_blocks, rows_per_block, single_blas_thread
from .._progress import Progress
from ..taxonomy import Forest
from ._forest_fast import ForestArrays, Model, SampleRows, full_rows
from ._problems import NodeProblems
from ._regularization import Regularization, as_regularization
from ._search_fast import follow, search, targets
from ._walks_fast import narrow_rows, walk

# Samples that one thread searches in a row: enough to hide the start of a thread.
_SEARCH_ROWS = 4096

# A sample saves what it takes to copy about nine rows of weights to single precision:
# with fewer samples than rows / 8 the search goes without the copy.
_ROWS_A_SAMPLE = 8

# Parts of a block of full rows: several passes over small blocks stay in the cache, and
# the allocator keeps their arrays.
_PARTS_OF_A_BLOCK = 32

Use = Callable[[slice, NDArray], None]


class Samples(NamedTuple):
    """The samples of positive weight."""

    X: NDArray | sp.csr_matrix
    code: NDArray  # number of the class of each
    weight: NDArray
    index: NDArray  # of each among the n_passed samples of `fit`
    n_passed: int


class LogisticNodes:
    """Multinomial logistic regressions of all nodes, in compiled loops.

    Parameters
    ----------
    regularization : str or Regularization

    C : float

    options : dict
        `fit_intercept`, `tol` and `max_iter` of `NodeProblems.fit`.

    Attributes
    ----------
    coef : ndarray of shape (n_rows, n_features)

    intercept : ndarray of shape (n_rows,)

    C : ndarray of shape (n_models,)

    n_iter : ndarray of shape (n_models,)

    status : ndarray of shape (n_models,)
        Of `NodeProblems.fit`.

    regularizations : list of Regularization
        As fitted to each tree.
    """

    def __init__(
        self, regularization: str | Regularization, C: float, options: dict[str, Any]
    ) -> None:
        self.regularizations: list[Regularization] = []
        self._settings = regularization, C, options
        self._fits: list = []

    def fit(
        self,
        problems: NodeProblems,
        rows: NDArray,
        samples: Samples,
        rng: RandomState,
        progress: Progress,
        parallel: ThreadMap,
    ) -> None:
        regularization, C, options = self._settings
        own = as_regularization(regularization)

        def fit(C, *, problems=problems, **more):
            return problems.fit(C, parallel=parallel, **options, **more)

        found = own.solve(problems, C, fit, rng, progress)
        dtype = problems.X.dtype
        self.regularizations.append(own)
        self._fits.append(
            found._replace(
                coef=found.coef.astype(dtype, copy=False),
                intercept=found.intercept.astype(dtype),
            )
        )

    def join(self, forest: Forest) -> None:
        self.forest = forest
        # rows of the weights follow the nodes, within a tree and from tree to tree
        self.coef, self.intercept, self.C, self.n_iter, self.status = (
            parts[0] if len(parts) == 1 else np.concatenate(parts)
            for parts in zip(*self._fits)
        )
        del self._fits, self._settings

    @property
    def dtype(self) -> np.dtype:
        """Type of the X that the methods take."""
        return self.coef.dtype

    def rows(self, X: NDArray | sp.csr_matrix, use: Use, n_jobs: int | None) -> None:
        forest = self.forest
        n_classes = forest.terminal.shape[1]
        width = forest.n_nodes + 2 * forest.n_rows + n_classes
        arrays = ForestArrays(*forest)
        # SciPy copies a transposed matrix for every product with a sparse one
        weights = self.coef.T
        if sp.issparse(X):
            weights = np.ascontiguousarray(weights)

        def block(part):
            with np.errstate(over="ignore", invalid="ignore"):
                scores = X[part] @ weights
                if sp.issparse(scores):
                    scores = scores.toarray()
                # in double from here on, so that rows of float32 sum to 1 too
                scores = np.ascontiguousarray(scores, dtype=np.float64)
                scores += self.intercept
                soft = np.abs(scores)
                np.negative(soft, out=soft)
                np.log1p(np.exp(soft, out=soft), out=soft)
            out = np.empty((scores.shape[0], n_classes))
            work = np.empty(forest.n_nodes + forest.terminal.size)
            _check_scores(full_rows(arrays, scores, soft, work, out))
            use(part, out)

        step = rows_per_block(_PARTS_OF_A_BLOCK * width)
        with single_blas_thread(), ThreadMap(n_jobs) as parallel:
            parallel(block, row_blocks(X.shape[0], step))

    def best(
        self, X: NDArray | sp.csr_matrix, prediction: str, n_jobs: int | None
    ) -> tuple[NDArray, NDArray]:
        # The full rows would cost an exponential and a logarithm per class on top of
        # the products: "joint" searches too.
        n, greedy = X.shape[0], prediction == "greedy"
        best = np.zeros((n, 1), dtype=np.int32)
        n_dots = np.zeros(n, dtype=np.int64)
        model = self._model()
        walks = self.forest.n_trees == 1 and self.coef.size > 0
        narrow = None
        if walks and not sp.issparse(X) and n >= self.coef.shape[0] // _ROWS_A_SAMPLE:
            narrow = narrow_rows(self.coef, self.intercept)

        def block(part, stop):
            z, rows = self._room(), X[part]
            if walks:
                samples, found = _as_rows(rows), best[part, 0]
                walk(model, samples, z, narrow, greedy, found, n_dots[part], stop)
                part = part.start + np.flatnonzero(found < 0)
                if part.size == 0:
                    return True
                rows = X[part]  # the few that single precision leaves open
            samples, found, dots = _as_rows(rows), best[part], n_dots[part]
            if greedy:
                good = follow(model, samples, z, found, dots, stop)
            else:
                log_proba = np.empty(found.shape)
                good = search(model, samples, z, found, log_proba, dots, stop)
            best[part], n_dots[part] = found, dots
            return good

        # each block makes tables of bounds, which take as long as 100 samples
        step = _SEARCH_ROWS * (16 if effective_n_jobs(n_jobs) == 1 else 1)
        self._blocks(block, n, step, n_jobs)
        return best[:, 0], n_dots

    def search(
        self, X: NDArray | sp.csr_matrix, k: int, n_jobs: int | None
    ) -> tuple[NDArray, NDArray]:
        n = X.shape[0]
        best, log_proba = np.zeros((n, k), dtype=np.int32), np.empty((n, k))
        n_dots, model = np.zeros(n, dtype=np.int64), self._model()

        def block(part, stop):
            return search(
                model,
                _as_rows(X[part]),
                self._room(),
                best[part],
                log_proba[part],
                n_dots[part],
                stop,
            )

        self._blocks(block, n, _SEARCH_ROWS, n_jobs)
        return best, log_proba

    def target(
        self, X: NDArray | sp.csr_matrix, code: NDArray, n_jobs: int | None
    ) -> NDArray:
        out, code = np.empty(X.shape[0]), code.astype(np.int32)
        model = self._model()

        def block(part, stop):
            samples = _as_rows(X[part])
            return targets(model, samples, self._room(), code[part], out[part], stop)

        self._blocks(block, out.size, _SEARCH_ROWS, n_jobs)
        return out

    def _model(self):
        coef, intercept = self.coef, self.intercept
        if coef.size == 0:  # one class leaves no rows
            coef = np.zeros((1, max(coef.shape[1], 1)), dtype=coef.dtype)
            intercept = np.zeros(1, dtype=coef.dtype)
        return Model(ForestArrays(*self.forest), coef, intercept)

    def _room(self):
        return np.empty(max(self.coef.shape[0], 1), dtype=self.coef.dtype)

    @staticmethod
    def _blocks(block, n, step, n_jobs):
        """block(slice, stop) for all rows, in threads."""
        stop = np.zeros(1, dtype=np.int32)
        with single_blas_thread(), ThreadMap(n_jobs) as parallel:
            try:
                parallel(
                    lambda part: _check_scores(block(part, stop)), row_blocks(n, step)
                )
            except BaseException:
                stop[0] = 1  # for the other threads
                raise


def _as_rows(X):
    if sp.issparse(X):
        return SampleRows.sparse(X.data, X.indices, X.indptr, X.shape[1])
    return SampleRows.dense(X)


class EstimatorNodes:
    """A classifier with `predict_proba` at every node.

    Parameters
    ----------
    estimator : classifier
        Cloned for each node.

    params : dict
        Parameters of its `fit`, for all samples that were passed.

    n_jobs : int
        Of joblib over the nodes.

    Attributes
    ----------
    estimators : list of classifiers
        In the order of ``forest.model_nodes``.
    """

    def __init__(
        self, estimator: BaseEstimator, params: dict[str, Any], n_jobs: int | None
    ) -> None:
        self.estimators: list = []
        self._settings = estimator, params, n_jobs

    dtype = (np.float64, np.float32)

    def fit(
        self,
        problems: NodeProblems,
        rows: NDArray,
        samples: Samples,
        rng: RandomState,
        progress: Progress,
        parallel: ThreadMap,
    ) -> None:
        estimator, params, n_jobs = self._settings
        jobs = []
        for v in range(problems.n_nodes):
            bound = problems.bounds_of(v)
            outcome = np.repeat(np.arange(bound.size - 1), np.diff(bound))
            jobs.append(
                (seeded(clone(estimator), rng), rows[bound[0] : bound[-1]], outcome)
            )

        def fit(model, rows, outcome):
            # cut once, from what was passed: a list that is not per sample may have
            # as many entries as samples are kept
            mine = _check_method_params(
                range(samples.n_passed), params, samples.index[rows]
            )
            return model.fit(samples.X[rows], outcome, **mine)

        # joblib and not our threads: estimators of the user's may hold the GIL, and
        # joblib.parallel_config can give them processes
        models = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(
            delayed(fit)(*job) for job in jobs
        )
        for number, (model, (_, _, outcome)) in enumerate(zip(models, jobs)):
            if len(model.classes_) != outcome[-1] + 1:
                raise ValueError(
                    f"estimator kept {len(model.classes_)} of {outcome[-1] + 1} "
                    f"outcomes of a node: {model!r}"
                )
            self.estimators.append(model)
            progress.step(
                f"model {number + 1} of {len(jobs)} fitted to {outcome.size} samples",
                "node",
            )

    def join(self, forest: Forest) -> None:
        self.forest = forest
        del self._settings

    def rows(self, X: NDArray | sp.csr_matrix, use: Use, n_jobs: int | None) -> None:
        forest = self.forest
        width = forest.n_nodes + 2 * forest.n_rows + forest.terminal.shape[1]
        with single_blas_thread(), ThreadMap(n_jobs) as parallel:
            parallel(
                lambda part: use(part, self._block(X[part])),
                row_blocks(X.shape[0], rows_per_block(width)),
            )

    def _block(self, X):
        forest = self.forest
        total = np.zeros((X.shape[0], forest.n_nodes))
        of_node = self._by_node()
        for v in np.flatnonzero(forest.n_child).tolist():
            a = forest.first_child[v]
            children = slice(a, a + forest.n_child[v])
            total[:, children] = total[:, [v]]
            if v in of_node:
                total[:, children] += _conditional(of_node[v], X)
        out = total[:, forest.terminal[0]]
        for t in range(1, forest.n_trees):
            out = np.logaddexp(out, total[:, forest.terminal[t]])
        return out - np.log(forest.n_trees) if forest.n_trees > 1 else out

    def _by_node(self):
        return dict(zip(self.forest.model_nodes.tolist(), self.estimators))

    def best(
        self, X: NDArray | sp.csr_matrix, prediction: str, n_jobs: int | None
    ) -> tuple[NDArray, NDArray]:
        if prediction != "joint" and self.forest.n_trees == 1:
            return self._walk(X, prediction == "greedy", n_jobs)
        code = np.empty(X.shape[0], dtype=np.int64)

        def use(part, log_proba):
            code[part] = log_proba.argmax(axis=1)

        self.rows(X, use, n_jobs)
        return code, np.full(code.size, self.forest.n_rows, dtype=np.int64)

    def search(
        self, X: NDArray | sp.csr_matrix, k: int, n_jobs: int | None
    ) -> tuple[NDArray, NDArray]:
        best = np.empty((X.shape[0], k), dtype=np.int64)
        log_proba = np.empty((X.shape[0], k))

        def use(part, rows):
            best[part] = np.argsort(-rows, axis=1, kind="stable")[:, :k]
            log_proba[part] = np.take_along_axis(rows, best[part], axis=1)

        self.rows(X, use, n_jobs)
        return best, log_proba

    def target(
        self, X: NDArray | sp.csr_matrix, code: NDArray, n_jobs: int | None
    ) -> NDArray:
        out = np.empty(code.size)

        def use(part, rows):
            out[part] = np.take_along_axis(rows, code[part, None], axis=1)[:, 0]

        self.rows(X, use, n_jobs)
        return out

    def _walk(self, X, greedy, n_jobs):
        """(classes, dot products) along one tree, greedily or best first.

        In rounds: every sample names the node it expands next, and each model sees
        the samples of its node in one call.
        """
        forest = self.forest
        of_node = self._by_node()
        cost = forest.rows_of_node
        code = np.empty(X.shape[0], dtype=np.int64)
        n_dots = np.zeros(X.shape[0], dtype=np.int64)

        def block(part):
            rows_of_X, count = X[part], n_dots[part]
            n = rows_of_X.shape[0]
            reached = np.full((n, forest.n_nodes), -np.inf)
            reached[:, 0] = 0.0
            at = np.zeros(n, dtype=np.int64)
            active = np.arange(n)
            while active.size:
                active = active[forest.node_class[at[active]] < 0]
                for v in np.unique(at[active]).tolist():
                    rows = active[at[active] == v]
                    a = forest.first_child[v]
                    children = slice(a, a + forest.n_child[v])
                    here = reached[rows, v][:, None]
                    if v in of_node:
                        here = here + _conditional(of_node[v], rows_of_X[rows])
                        count[rows] += cost[v]
                    if greedy:
                        reached[rows] = -np.inf
                    reached[rows, v] = -np.inf
                    reached[rows, children] = here
                # node numbers of terminals do not follow those of classes, thus ties
                # are left to the smallest class explicitly
                top = reached[active].max(axis=1, initial=-np.inf, keepdims=True)
                key = np.where(forest.node_class < 0, -1, forest.node_class)
                tied = np.where(reached[active] == top, key, forest.n_nodes)
                at[active] = tied.argmin(axis=1)
            code[part] = forest.node_class[at]

        with ThreadMap(n_jobs) as parallel:
            parallel(block, row_blocks(X.shape[0], rows_per_block(2 * forest.n_nodes)))
        return code, n_dots


def seeded(estimator: Any, rng: RandomState, replace: bool = False) -> Any:
    """The estimator, each random_state that is None (replace: all) now an integer."""
    if hasattr(estimator, "get_params"):
        params = estimator.get_params(deep=True)
        seeds = {
            key: int(rng.randint(INT32_MAX))
            for key in sorted(params)
            if key.split("__")[-1] == "random_state"
            and (replace or params[key] is None)
        }
        if seeds:
            estimator.set_params(**seeds)
    return estimator


def _conditional(model, X):
    """Conditional log-probabilities of the children by a model of the user's."""
    p = np.asarray(model.predict_proba(X), dtype=np.float64)
    total = p.sum(axis=1, keepdims=True)
    if not ((p >= 0).all() and (total > 0).all() and np.isfinite(total).all()):
        raise ValueError(
            f"predict_proba of the node model {model!r} gave a row that is no "
            "distribution (not a number, negative, or all zeros). Scale X as in "
            "training, or take another estimator"
        )
    with np.errstate(divide="ignore"):
        return np.log(p / total)


def _check_scores(good):
    if not good:
        raise ValueError(
            "X holds values so large that a score is not a number; scale it as the "
            "training data, for example by StandardScaler in a Pipeline"
        )
