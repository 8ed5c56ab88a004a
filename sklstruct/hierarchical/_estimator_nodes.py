"""A scikit-learn classifier at every node."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone

from .._compat import BaseEstimator, _check_method_params
from .._parallel import rows_per_block
from ..linear._labels import Use
from ..linear._quasi_newton import NodeProblems
from ..linear._samples import Samples
from ..taxonomy import Forest
from ._nodes import NodeModels, Run, TrainingSet, seeded


class EstimatorNodes(NodeModels):
    """A classifier with `predict_proba` at every node.

    params: parameters of the `fit` of the classifier, for all samples that were passed.
    n_jobs: number of joblib's jobs over the nodes.
    estimators: the fitted clones, in the order of ``forest.model_nodes``.
    """

    def __init__(
        self, estimator: BaseEstimator, params: dict[str, Any], n_jobs: int | None
    ) -> None:
        self.estimators: list = []
        self._settings = estimator, params, n_jobs

    def fit(self, problems: NodeProblems, data: TrainingSet, run: Run) -> None:
        estimator, params, n_jobs = self._settings
        jobs = []
        for v in range(problems.n_nodes):
            at, targets = problems.targets_of(v)
            model = seeded(clone(estimator), run.rng)
            jobs.append((model, problems.rows[at], targets.outcome.astype(np.int64)))

        def fit(model, rows, outcome):
            # index the parameters as the user passed them: without the samples of
            # weight 0 the length of a list would not tell whether the list has an entry
            # per sample
            mine = _check_method_params(
                range(data.n_passed), params, data.position[rows]
            )
            return model.fit(data.X[rows], outcome, **mine)

        # joblib, not `ThreadMap`: these estimators may hold the GIL, and
        # joblib.parallel_config can give them processes
        models = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(
            delayed(fit)(*job) for job in jobs
        )
        for number, (model, (_, _, outcome)) in enumerate(zip(models, jobs)):
            if len(model.classes_) != outcome[-1] + 1:
                raise ValueError(
                    f"estimator learned {len(model.classes_)} of the {outcome[-1] + 1} "
                    f"children of a node: {model!r}. Use an estimator that keeps all "
                    "classes of y"
                )
            self.estimators.append(model)
            run.progress.step(
                f"model {number + 1} of {len(jobs)} fitted to {outcome.size} samples",
                "node",
            )

    def join(self, forest: Forest) -> None:
        self.forest = forest
        del self._settings

    def rows(self, X: Samples, use: Use, n_jobs: int | None) -> None:
        forest = self.forest
        width = forest.n_nodes + 2 * forest.n_rows + forest.terminal.shape[1]
        self._blocks(
            lambda part, stop: use(part, self._block(X[part])),
            X.shape[0], rows_per_block(width), n_jobs,
        )  # fmt: skip

    def _block(self, X):
        forest = self.forest
        total = np.zeros((X.shape[0], forest.n_nodes))
        for v, model in zip(forest.model_nodes.tolist(), self.estimators):
            a = forest.first_child[v]
            children = slice(a, a + forest.n_child[v])
            total[:, children] = total[:, [v]] + _conditional(model, X)
        of_trees = total[:, forest.terminal]
        return np.logaddexp.reduce(of_trees, axis=1) - np.log(forest.n_trees)

    def best(self, X: Samples, n_jobs: int | None) -> tuple[NDArray, NDArray]:
        # A call of a model costs more than the arithmetic for a sample: a search that
        # calls each model for the samples that reach its node takes longer.
        code, _ = self.search(X, 1, n_jobs)
        return code[:, 0], np.full(code.size, self.forest.n_rows, dtype=np.int64)


def _conditional(model, X):
    """Log-probabilities of the children of a node from the model of the node."""
    p = np.asarray(model.predict_proba(X), dtype=np.float64)
    total = p.sum(axis=1, keepdims=True)
    if not ((p >= 0).all() and (total > 0).all() and np.isfinite(total).all()):
        raise ValueError(
            f"predict_proba of the node model {model!r} returned a row that is not a "
            "distribution (not a number, negative, or all zeros). Scale X as in "
            "training, or use another estimator"
        )
    with np.errstate(divide="ignore"):
        return np.log(p / total)
