"""The protocol of node models, and the training set that their fits read.

`NodeModels` are the models at all nodes of all trees. `HierarchicalClassifier` chooses
one of three classes (`ChainNodes`, `DualNodes`, `EstimatorNodes`) and then calls the
methods of this protocol only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from .._checks import INT32_MAX, CheckedState
from .._parallel import ThreadMap, row_blocks, single_blas_thread, stop_flag
from .._progress import Progress
from ..linear._labels import Use, best_of_rows, target_of_rows
from ..linear._samples import Samples
from ..linear._targets import Targets
from ..taxonomy import Forest


class TrainingSet(NamedTuple):
    """The samples of positive weight."""

    X: Samples
    targets: Targets  # number of the class, or of the labels, of each sample
    weight: NDArray
    position: NDArray  # of each sample among the n_passed samples of `fit`
    n_passed: int
    # for each sample the number of classes that it may have: 1 if its class is known,
    # else the number below a node of the given tree; None: all classes are known
    n_candidates: NDArray | None = None

    @property
    def known(self) -> NDArray:
        """The samples whose class is known."""
        if self.n_candidates is None:
            return np.arange(self.weight.size)
        return np.flatnonzero(self.n_candidates == 1)

    @property
    def n_classes(self) -> int:
        return self.targets.n_outcomes

    @property
    def several(self) -> bool:
        """Whether samples have any number of labels."""
        return self.targets.several

    @property
    def code(self) -> NDArray:
        """Number of the class of each sample; for one label per sample."""
        return self.targets.outcome.astype(np.int64)

    def by_label(self) -> tuple[Any, NDArray, NDArray]:
        """(X, class, weight) with a row for each label of each sample.

        Builders of trees read these rows: the mean of a class is then the mean of the
        samples with this label.
        """
        if not self.several:
            return self.X, self.code, self.weight
        sample = self.targets.sample
        return self.X[sample], self.targets.outcome, self.weight[sample]


class Run(NamedTuple):
    """The random numbers, the reports and the threads of a fit."""

    rng: RandomState
    progress: Progress
    parallel: ThreadMap


class NodeModels(CheckedState, ABC):
    """The models at all nodes of all trees."""

    dtype: Any = (np.float64, np.float32)
    """Types of X that the methods take."""

    wide: bool = False
    """Whether nodes of many outcomes are cheap and `n_leaves` leaves are evaluated."""

    n_steps: int | None = None
    """Steps that the fit of a tree reports; None: not known."""

    learns_batches: bool = False
    """Whether `DualNodes.learn` can continue from the fitted models."""

    forest: Forest

    def _check_arrays(self) -> None:
        self.forest.check()

    def prepare(self, data: TrainingSet, n_trees: int) -> TrainingSet:
        """The training set as `fit` reads it.

        Raises ValueError or MemoryError, before any work, if it cannot be fitted.
        """
        return data

    @abstractmethod
    def fit(self, problems: Any, data: TrainingSet, run: Run) -> None:
        """Fit the nodes of one more tree.

        problems: NodeProblems, or LabelProblems with several labels per sample; their
        row i is row ``problems.rows[i]`` of `data`.
        """

    @abstractmethod
    def join(self, forest: Forest) -> None:
        """End the fit of all trees; `forest` has their nodes."""

    def warn(self) -> None:
        """Warn of models that have not converged."""

    @abstractmethod
    def rows(self, X: Samples, use: Use, n_jobs: int | None) -> None:
        """Call use(slice, log-probabilities of all classes) for each block of rows."""

    @abstractmethod
    def best(self, X: Samples, n_jobs: int | None) -> tuple[NDArray, NDArray]:
        """(most probable class, dot products) of each row."""

    def search(self, X: Samples, k: int, n_jobs: int | None) -> tuple[NDArray, NDArray]:
        """(the k most probable classes, their log-probabilities) of each row."""
        return best_of_rows(lambda use: self.rows(X, use, n_jobs), X.shape[0], k)

    def target(self, X: Samples, code: NDArray, n_jobs: int | None) -> NDArray:
        """Log-probability of one class for each row."""
        return target_of_rows(lambda use: self.rows(X, use, n_jobs), code)

    @staticmethod
    def _blocks(
        block: Callable[[slice, NDArray], Any], n: int, step: int, n_jobs: int | None
    ) -> None:
        """`in_blocks` for functions that call the BLAS."""
        with single_blas_thread():
            in_blocks(block, n, step, n_jobs)


def in_blocks(
    block: Callable[[slice, NDArray], Any], n: int, step: int, n_jobs: int | None
) -> None:
    """Call block(slice, flag that stops all threads) for all blocks, in threads."""
    with ThreadMap(n_jobs) as parallel, stop_flag() as stop:
        parallel(lambda part: block(part, stop), row_blocks(n, step))


def seeded(estimator: Any, rng: RandomState, replace: bool = False) -> Any:
    """Set each random_state that is None (`replace`: every one) to a drawn integer."""
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
