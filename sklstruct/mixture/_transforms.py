"""Transformation of X by its readers, once for all models that are fitted to X."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from .._compat import BaseEstimator
from ..backoff import BackoffClassifier, BackoffModel, count_windows, single_precision
from ..backoff._distribution import take
from ..context_tree import HistoryColumns, check_windows, read_windows
from ..symbols import Labels, TextWindows, learn_symbols
from ..symbols._encoding import SymbolIndex
from ..word_classes import ContextRefiner
from ..word_classes._refiner import clustering_cache

Report = Callable[[str], Any]  # called after each piece of work


def quiet(text: str) -> None:
    """Report nothing."""


class GroupedSamples(NamedTuple):
    """Contexts in groups, and the outcomes that followed them."""

    contexts: Any  # from `SubModel.read`, one row per sample
    group: NDArray  # (n,) int
    outcome: NDArray  # (n,) int, from 0 in each group
    weight: NDArray  # (n,) positive

    def of_part(self, k: int) -> GroupedSamples:
        """The samples with the contexts of part k."""
        return self._replace(contexts=self.contexts[k])

    @property
    def own_weight(self) -> NDArray | None:
        """The weights; None if all are 1."""
        return self.weight if (self.weight != 1.0).any() else None

    def select(self, rows: Any) -> GroupedSamples:
        """Some of the samples."""
        return GroupedSamples(
            take(self.contexts, rows), self.group[rows], self.outcome[rows],
            self.weight[rows],
        )  # fmt: skip


class LazyTransform:
    """The contexts of X, which are computed when a model is fitted.

    The contexts of all models at once would take more memory than the models. There is
    one reader for each matrix of contexts.
    """

    def __init__(self, readers: list[ContextReader], X: Any) -> None:
        self.readers, self.X, self.shape = readers, X, X.shape

    def __getitem__(self, rows: Any) -> LazyTransform:
        return LazyTransform(self.readers, take(self.X, rows))

    def __iter__(self) -> Iterator[HistoryColumns]:
        """Yield the contexts of each reader."""
        return (reader.columns(self.X) for reader in self.readers)

    def fit_model(
        self,
        estimator: BackoffClassifier,
        labels: Labels,
        samples: GroupedSamples,
        for_gate: bool,
    ) -> BackoffModel:
        """Fit an estimator to the contexts of the only reader, and return its model.

        labels: the outcomes, and the ids that the reader gives.
        samples: outcomes and weights of these contexts.
        for_gate: whether the model gets the training weight of its nodes.
        """
        (columns,) = self
        options: dict[str, Any] = {"depth": estimator.max_depth}
        options["min_count"] = estimator.least_context
        options["share"] = estimator.held_out_share
        options["keep_positions"] = estimator.keeps_positions
        options["sample_weight"] = samples.own_weight
        at_once = options["share"] is not None or options["keep_positions"]
        windows = columns.windows() if at_once else columns
        counted = count_windows(windows, samples.outcome, labels, **options)
        del windows
        whole, weight = counted.all_counts, None
        if for_gate:
            weight = single_precision(whole.pairs.node_sums(whole.count))
        estimator.fit_counted(counted, overwrite=True)
        model = estimator.backoff_model_
        if for_gate:
            if model.tree is not whole.pairs.tree:
                at = np.bincount(
                    model.locate(columns.windows()), samples.weight, model.n_nodes
                )
                weight = single_precision(model.tree.add_up(at))
            model.node_weight = weight
        return model


class ContextReader:
    """Turns X into contexts of models, by transformers and an encoding of symbols as
    ids.

    The transformers are the unfitted steps of a pipeline before the last step, the
    estimator. If `encodes` is True and the steps give windows, the estimator gets ids;
    `padding` marks missing history in the windows.
    """

    def __init__(
        self,
        steps: list[Any],
        estimator: BaseEstimator,
        encodes: bool,
        padding: Any,
    ) -> None:
        self.steps, self.estimator = steps, estimator
        self.encodes, self.padding = encodes, padding
        self.symbols: NDArray | None = None

    def learn(self, X: Any, y: NDArray | None) -> Any:
        """Fit the steps, and return the contexts of X, a `LazyTransform` if they are
        ids."""
        made = X
        for step in self.steps:
            step.fit(made, y)
            if step is self._refiner():
                # The ids of a refiner are known without transforming all samples.
                first = step.transform(made[:1])
                check_windows(self.estimator, first, self.padding, reset=True)
                self.symbols = np.arange(step.n_symbols_, dtype=np.int32)
                return LazyTransform([self], X)
            made = step.transform(made)
        if self.encodes and not sp.issparse(made):
            made = check_windows(self.estimator, made, self.padding, reset=True)
            self.symbols = learn_symbols(made, self.padding)
            return LazyTransform([self], X)
        return selectable(made)

    def _refiner(self):
        """The last step, if it is a ContextRefiner whose ids the model takes."""
        last = self.steps[-1] if self.steps else None
        ids = self.encodes and isinstance(self.padding, int) and self.padding == -1
        return last if ids and isinstance(last, ContextRefiner) else None

    def read(self, X: Any) -> Any:
        """The contexts of other X."""
        for step in self.steps:
            X = step.transform(X)
        if self.symbols is None:
            return selectable(X)
        return read_windows(
            self.estimator, X, self.padding, reset=False, symbols=self.symbols
        )[0]

    def columns(self, X: Any) -> HistoryColumns:
        """The contexts of another X as columns of ids, which are computed one at a
        time."""
        refiner = self._refiner()
        for step in self.steps:
            if step is refiner:
                return step.columns(X)
            X = step.transform(X)
        X = check_windows(
            self.estimator, X, self.padding, reset=False, symbols=self.symbols
        )
        index = SymbolIndex(cast(np.ndarray, self.symbols))

        def make(k):
            return index.ids(np.ascontiguousarray(X[:, -k]))

        return HistoryColumns(make, *X.shape)


class TransformCache:
    """X for several sub-models; equal readers read X once.

    y: the targets, if readers are fitted. report: called with a text after each step.
    """

    def __init__(
        self, X: Any, y: NDArray | None = None, report: Report = quiet
    ) -> None:
        self.text = X  # may be `TextWindows`
        self.X = X.array if isinstance(X, TextWindows) else X
        self.y, self.report = y, report
        self._readers: dict[str, ContextReader] = {}
        self._contexts: dict[int, Any] = {}
        self.clusterings: dict = {}  # for `clustering_cache`

    def learn(
        self, steps: list, estimator: BaseEstimator, encodes: bool, padding: Any
    ) -> ContextReader:
        """A reader that is fitted to X; equal steps share a reader."""
        try:
            # Not repr, which shortens arrays among the parameters.
            key = joblib.hash((steps, encodes, padding))
        except pickle.PicklingError:  # a function of a notebook: a separate reader
            key = f"reader {len(self._readers)}"
        if key not in self._readers:
            steps = [clone(step) for step in steps]
            reader = ContextReader(steps, clone(estimator), encodes, padding)
            with clustering_cache(self.clusterings):
                self._contexts[id(reader)] = reader.learn(self.X, self.y)
            self._readers[key] = reader
        return self._readers[key]

    def read(self, reader: ContextReader) -> Any:
        """The contexts of X by a reader; after `learn` they may be a
        `LazyTransform`."""
        if id(reader) not in self._contexts:
            self._contexts[id(reader)] = reader.read(self.X)
        return self._contexts[id(reader)]


def selectable(X: Any) -> Any:
    """X with rows that can be selected."""
    return X.tocsr() if sp.issparse(X) else X
