"""Samples on the workers, for composed models and models that leave contexts out.

A composed model reads windows in the order of the text, and the contexts of its trees
differ from those of the text. Therefore the parts stay on the workers as tokens:

1. the symbols of all windows and the classes of all targets
2. word classes, from counts of neighbours that are summed over the parts
3. the contexts of each part, in files of a folder, sorted by newest symbol
4. the tree of each shard, level by level from the files: contexts of few samples are
   left out before those that extend them are made
5. the fits of the shards, as those of other models

The rest (weights of a mixture, held-out samples) is computed as in one process.
"""

from __future__ import annotations

import operator
import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from ..backoff import BackoffClassifier, BackoffModel
from ..context_tree._shards import shard_bounds
from ..mixture import MixtureLM
from ..mixture._base import one_group
from ..mixture._sub_models import EstimatorSubModel, SubModel
from ..mixture._transforms import (
    ContextReader,
    GroupedSamples,
    Report,
    TransformCache,
    quiet,
)
from ..symbols import Labels, need_symbols
from ..word_classes import ContextRefiner, ExchangeClustering
from ..word_classes._counts import check_offsets, neighbour_ids
from ..word_classes._refiner import store_clustering, unfitted_clusterings
from . import _row_tasks as tasks
from ._cluster import Cluster
from ._driver import ShardDriver
from ._sharded_fit import most_bytes, sharded_fit
from ._tasks import ShardCounts


def check_composed(estimator: Any, n_columns: int) -> None:
    """Errors about a mixture or pipeline that cannot be fitted on a cluster.

    n_columns: of the windows of the text.
    """
    if type(estimator) is MixtureLM:
        for name, model in estimator.get_params().items():
            if isinstance(model, FrozenEstimator):
                raise _no_member(f"models: {name!r}")
        part = estimator.__sklstruct_sub_model__(np.arange(1), False)
        for name, of_model in zip(part.names, part.parts):
            _check_member(f"models: {name!r}", of_model, n_columns)
        return
    member = EstimatorSubModel(estimator) if type(estimator) is Pipeline else None
    if member is None or [type(step) for step in member.steps] != [ContextRefiner]:
        sharded_fit(estimator)  # raises
    _check_member("estimator", member, n_columns)


def _check_member(name, part, n_columns):
    if type(part) is not EstimatorSubModel:
        raise _no_member(name)
    sharded_fit(part.estimator, name)
    if getattr(part.estimator, "checkpoint", None) is not None:
        raise ValueError(
            f"{name}: checkpoint is not possible in a mixture or pipeline on a "
            "cluster; set it to None"
        )
    for step in part.steps:
        if type(step) is not ContextRefiner or len(part.steps) > 1:
            raise TypeError(
                f"{name}: {type(step).__name__} cannot be fitted on a cluster; one "
                "ContextRefiner can"
            )
        for clustering in unfitted_clusterings(step, n_columns).values():
            if type(clustering) not in (ExchangeClustering, FrozenEstimator):
                raise TypeError(
                    f"{name}: {type(clustering).__name__} cannot be fitted on a "
                    "cluster; fit it before and give a FrozenEstimator around it, or "
                    "use ExchangeClustering"
                )


def _no_member(name):
    return TypeError(
        f"{name} cannot be fitted on a cluster: a mixture there has models over "
        "contexts, alone or after a ContextRefiner, none of them fitted already"
    )


def for_workers(estimator: BackoffClassifier) -> BackoffClassifier:
    """A copy for the workers: without checkpoint, memory and verbose."""
    silent = {"checkpoint": None, "memory": None, "verbose": 0}
    given = estimator.get_params(deep=False)
    given |= {name: value for name, value in silent.items() if name in given}
    return type(estimator)(**given)


class RowShards:
    """The `Shards` of the contexts that a reader makes of samples.

    parts: futures of `PartRows`, and the number of samples to use from each.
    totals: number of samples of each class.
    depth, min_count: longest context, and the least number of its samples.
    """

    def __init__(
        self,
        cluster: Cluster,
        parts: list,
        reader: ContextReader,
        totals: np.ndarray,
        depth: int,
        min_count: int,
        n_shards: int,
        folder: str | None,
    ) -> None:
        assert reader.symbols is not None  # it gives ids
        self.client, self.room = cluster.client, cluster.room
        self._folder = tempfile.TemporaryDirectory(
            prefix="sklstruct-", dir=folder, ignore_cleanup_errors=True
        )
        n_symbols = reader.symbols.size
        self._how = cluster.give(totals), n_symbols, depth, min_count
        given = cluster.give(reader)
        paths = [os.path.join(self._folder.name, f"{i}") for i in range(len(parts))]
        written = [
            cluster.submit(tasks.write_rows, rows, n, given, depth, path)
            for (rows, n), path in zip(parts, paths)
        ]
        sizes = np.zeros(n_symbols, dtype=np.int64)
        for future in written:
            sizes += cluster.result(future)
        newest = np.arange(n_symbols)[:, np.newaxis]
        self.bounds = shard_bounds(newest, sizes, n_shards, n_symbols)
        self._pieces: list[list[tasks.PartSlice]] = [[] for _ in self.bounds]
        for path, future in zip(paths, written):
            start = np.concatenate([[0], np.cumsum(cluster.result(future))])
            for pieces, (first, last) in zip(self._pieces, self.bounds):
                a, b = (start[prefix[0] if prefix else 0] for prefix in (first, last))
                piece = tasks.PartSlice(path, int(a), int(b))
                pieces.append(piece)

    def shard(self, k: int) -> tuple[Callable[..., ShardCounts], list]:
        """See `Shards`."""
        return tasks.count_shard, [self._pieces[k], *self._how]

    def close(self) -> None:
        """Remove the files."""
        self._folder.cleanup()


class RowsReading(TransformCache):
    """The first samples of a text on the workers, for readers that learn from them.

    Readers learn the symbols from these samples: their X is a few windows in which
    every symbol occurs. Clusterings are fitted on the workers, and the readers find
    them here.
    """

    def __init__(self, rows: TextRows, n: int, report: Report) -> None:
        symbols, self._totals = rows.learn_symbols(n)
        super().__init__(_windows_of(symbols, rows.n_columns), None, report)
        self._rows, self._n, self._symbols = rows, n, symbols
        self._neighbours: dict = {}  # by offsets

    def learn(
        self, steps: list, estimator: Any, encodes: bool, padding: Any
    ) -> ContextReader:
        todo: dict = {}
        for step in steps:
            for key, clustering in unfitted_clusterings(step, self.X.shape[1]).items():
                known = (key, id(self.X), id(self.y)) in self.clusterings
                if not known and type(clustering) is ExchangeClustering:
                    todo[key] = self._begin(clustering)
        for key, future in todo.items():
            clustering = self._rows.cluster.result(future)
            store_clustering(self.clusterings, key, clustering, self.X, self.y)
        return super().learn(steps, estimator, encodes, padding)

    def _begin(self, clustering):
        """A future of the fitted clustering."""
        rows, cluster = self._rows, self._rows.cluster
        offsets = check_offsets(clustering.offsets)
        if offsets not in self._neighbours:
            known = self._symbols, np.flatnonzero(self._totals).astype(np.int32)
            given = [cluster.give(x) for x in known]
            counts = [
                cluster.submit(tasks.count_neighbours, *part, *given, offsets)
                for part in rows.parts(self._n)
            ]
            words, *_ = neighbour_ids(self.X[:0], np.empty(0, int), *known, offsets)
            total = cluster.add_up(operator.add, counts)
            self._neighbours[offsets] = cluster.give(words), total
        found, shape = self._neighbours[offsets], (self._n, rows.n_columns)
        fit = ExchangeClustering.fit_counts
        return cluster.submit(fit, clustering, *found, *shape)

    def read(self, reader: ContextReader) -> Any:
        width = reader.columns(self.X).depth
        return RowsContexts(self._rows, self._n, reader, width, self._totals)


class RowsContexts:
    """The contexts that a reader makes of samples on the workers; as `LazyTransform`.

    n: how many of the rows, the first ones.
    width: symbols of a context.
    totals: number of these samples of each class.
    """

    def __init__(
        self, rows: TextRows, n: int, reader: ContextReader, width: int, totals: NDArray
    ) -> None:
        self._rows, self._n, self._reader = rows, n, reader
        self._width, self._totals = width, totals
        self.shape = n, rows.n_columns

    def __getitem__(self, rows: Any) -> RowsContexts:
        assert rows == slice(None)  # all samples are one group
        return self

    def shards(self, estimator: BackoffClassifier) -> RowShards:
        """The shards of the contexts that an estimator counts."""
        longest, rows = estimator.max_depth, self._rows
        depth = self._width if longest is None else min(longest, self._width)
        n_bytes = most_bytes(estimator, self._n, depth)
        return RowShards(
            rows.cluster, rows.parts(self._n), self._reader, self._totals, depth,
            estimator.least_context, rows.cluster.choose_shards(rows.n_shards, n_bytes),
            rows.folder,
        )  # fmt: skip

    def fit_model(
        self,
        estimator: BackoffClassifier,
        labels: Labels,
        samples: GroupedSamples | None,
        for_gate: bool,
    ) -> BackoffModel:
        """As `LazyTransform.fit_model`, on the workers."""
        shards = self.shards(estimator)
        driver = ShardDriver(shards, for_workers(estimator), for_gate=for_gate)
        try:
            sizes = driver.fit(estimator)
            driver.gather(estimator, self._width, labels)
        finally:
            driver.close()
        self._rows.fits.append((driver, sizes))
        return estimator.backoff_model_


class TextRows:
    """The samples of a text on the workers; `Rows` of a composed model.

    n_columns: columns of the windows.
    n_shards: of a model; see `Cluster.choose_shards`.
    folder: of files that all workers and this process see; None: that of the system for
    temporary files.
    exclude: whether words without a class are left out; else they are an error.

    `fits` are the ended fits, with the sizes of their shards.
    """

    def __init__(
        self,
        cluster: Cluster,
        labels: Labels,
        n_columns: int,
        n_shards: int | None,
        folder: str | None = None,
        exclude: bool = False,
    ) -> None:
        self.cluster, self.labels, self.n_columns = cluster, labels, n_columns
        self.n_shards, self.folder = n_shards, folder
        self.fits: list = []
        self._learnt: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        given = cluster.give(labels)
        before = cluster.give(np.full(n_columns, -1, dtype=np.int32))
        self._parts = []
        for text in cluster.take_texts():
            tokens = cluster.submit(tasks.encode_part, text, given, exclude)
            rows = cluster.submit(tasks.rows_of_part, before, tokens, given)
            before = cluster.submit(tasks.last_tokens, before, tokens)
            self._parts.append(rows)
        counts = [cluster.submit(tasks.count_rows, rows) for rows in self._parts]
        self._sizes = np.array([cluster.result(future) for future in counts])
        self._first = np.cumsum(self._sizes) - self._sizes
        self.n_samples = int(self._sizes.sum())
        if not self.n_samples:
            raise ValueError(
                "X: every sentence is empty and end=None: there is nothing to predict"
            )

    def parts(self, n: int) -> list:
        """(future of `PartRows`, how many of its samples) for the first n samples."""
        sizes = np.clip(n - self._first, 0, self._sizes)
        return [(rows, size) for rows, size in zip(self._parts, sizes.tolist()) if size]

    def learn_symbols(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """(distinct symbols of the first n windows, number of samples by class)."""
        if n in self._learnt:
            return self._learnt[n]
        submit, symbols = self.cluster.submit, np.empty(0, dtype=np.int32)
        totals = np.zeros(self.labels.n_classes, dtype=np.int64)
        for future in [submit(tasks.learn_rows, *part) for part in self.parts(n)]:
            of_part, counts = self.cluster.result(future)
            symbols, totals = np.union1d(symbols, of_part), totals + counts
        self._learnt[n] = symbols, totals
        return symbols, totals

    def learn(self, part: SubModel, n: int, report: Report) -> GroupedSamples:
        # Outcomes are with the parts; here only their number matters.
        none = np.broadcast_to(np.int32(0), (n,))
        return one_group(part.learn(RowsReading(self, n, report)), none, none)

    def known_after(self, n: int) -> tuple[Any, NDArray, NDArray]:
        _, totals = self.learn_symbols(n)
        found = []
        for rows, first, size in zip(self._parts, self._first, self._sizes):
            if first + size > n:
                windows, target = self.cluster.result(rows).first(size)
                later = slice(max(n - first, 0), None)
                found.append((windows[later], target[later]))
        windows, target = (np.concatenate(parts) for parts in zip(*found))
        seen = totals[target] > 0
        target = target[seen]
        return windows[seen], target, np.broadcast_to(1.0, target.shape)

    def words(self, estimator: BackoffClassifier) -> RowsContexts:
        """The windows themselves as the contexts of an estimator; ids of symbols stay
        what they are."""
        n_symbols = need_symbols(self.labels, "counting")
        X = _windows_of(np.arange(n_symbols, dtype=np.int32), self.n_columns)
        reader = ContextReader([], clone(estimator), True, -1)
        reader.learn(X, None)
        n = self.n_samples
        return RowsContexts(self, n, reader, self.n_columns, self.learn_symbols(n)[1])

    def fit_pipeline(self, pipeline: Pipeline) -> Pipeline:
        """A pipeline of a `ContextRefiner` and a model, fitted to all samples."""
        part = EstimatorSubModel(pipeline)
        contexts = self.learn(part, self.n_samples, quiet).contexts
        outcomes = np.arange(self.labels.n_classes, dtype=np.int32)
        model = part.estimator.set_params(classes=outcomes)
        contexts.fit_model(model, Labels(outcomes, part.reader.symbols), None, False)
        fitted = [
            (name, part.reader.steps[0] if type(step) is ContextRefiner else step)
            for name, step in pipeline.steps[:-1]
        ]
        last, _ = pipeline.steps[-1]
        return pipeline.set_params(steps=[*fitted, (last, model)])


def _windows_of(symbols, n_columns):
    """Windows in which every symbol occurs."""
    X = np.full(max(1, -(-symbols.size // n_columns)) * n_columns, -1, dtype=np.int32)
    X[: symbols.size] = symbols
    return X.reshape(-1, n_columns)
