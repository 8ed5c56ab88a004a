"""Sub-models: the models inside a mixture or a factored model.

A sub-model reads X once for all models of its estimator (`learn`, `read`). Then it fits
a model for each group of samples (`fit`): for the words of each class, or for all
samples as one group.

A composed estimator creates its sub-model by a method
``__sklstruct_sub_model__(classes, for_gate)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from .._checks import need_weights
from .._compat import BaseEstimator
from .._likelihood import innermost, last_step, reads_history
from .._parallel import ThreadMap
from .._warnings import FallbackWarning, catch_warnings, warn
from ..backoff import (
    BackoffClassifier,
    BackoffModel,
    Distribution,
    DistributionClassifier,
    Model,
    count_windows,
)
from ..backoff._classifier import ClassifierModel
from ..backoff._distribution import by_group
from ..backoff._trees_fast import Backoff
from ..loglinear import JointLogLinear
from ..symbols import Labels
from ..word_classes import ContextRefiner
from ..word_classes._refiner import clustering_cache, fit_clusterings
from ._models import UniformModel
from ._sources import TokenSources
from ._transforms import (
    GroupedSamples,
    LazyTransform,
    Report,
    TransformCache,
    quiet,
    selectable,
)


class GroupFit(NamedTuple):
    """The arguments of `SubModel.fit`, which fits a model for each group of samples."""

    samples: GroupedSamples
    sizes: NDArray  # number of outcomes of each group
    held_out: GroupedSamples | None = None  # for the weights of mixtures
    reuse_weights_of: list[Distribution] | None = None  # fitted models, one per group
    n_jobs: int | None = None
    report: Report = quiet


class SubModel(ABC):
    """Reads the contexts of one estimator, and fits its model for each group."""

    reads_history = False  # whether models read more of a sentence than its windows
    holds_out = False  # whether held-out samples are used
    # The share of the samples to hold out if no held-out samples are given, and whether
    # models are then fitted to all samples.
    validation_fraction = 0.0
    refit = False

    def learn(self, reading: TransformCache) -> Any:
        """Fit the readers, if there are any, and return the contexts of X."""
        return self.read(reading)

    @abstractmethod
    def read(self, reading: TransformCache) -> Any:
        """The contexts of other X."""

    @abstractmethod
    def fit(self, task: GroupFit) -> list[Distribution]:
        """A model for each group."""

    def source(self, sources: TokenSources) -> Any:
        """How the models read the tokens of a language model; see
        `Distribution.compiled`."""
        return lambda tokens, end: self.read(
            TransformCache(sources.windows(tokens, end))
        )

    def _fit_groups(
        self, fit_group: Callable[[GroupedSamples, int], Distribution], task: GroupFit
    ) -> list[Distribution]:
        """A model for each group, in threads; uniform for groups without samples."""
        samples, sizes = task.samples, task.sizes
        models: list[Distribution] = [UniformModel(int(n)) for n in sizes]

        def one(item):
            g, rows = item
            models[g] = fit_group(samples.select(rows), int(sizes[g]))

        with catch_warnings() as caught, ThreadMap(task.n_jobs) as parallel:
            parallel(one, list(by_group(samples.group, sizes.size)))
        _warn_of_groups(caught, int(sizes.size))
        # All groups share a gate, so all models have features of the same number of
        # trees.
        n_trees = max((len(m.gate_depths) for m in models), default=0)
        for model in models:
            if isinstance(model, UniformModel):
                model.gate_depths = (0,) * n_trees
        return models


class ComposedSubModel(SubModel):
    """A sub-model with parts; its contexts are a tuple of the parts' contexts."""

    parts: list[SubModel]

    def __init__(self, parts: list[SubModel]) -> None:
        self.holds_out = any(part.holds_out for part in parts)
        self.validation_fraction = max(part.validation_fraction for part in parts)
        self.refit = any(part.refit for part in parts)
        self.reads_history = any(part.reads_history for part in parts)

    def learn(self, reading: TransformCache) -> Any:
        return tuple(part.learn(reading) for part in self.parts)

    def read(self, reading: TransformCache) -> Any:
        return tuple(part.read(reading) for part in self.parts)

    def source(self, sources: TokenSources) -> Any:
        return tuple(part.source(sources) for part in self.parts)


class EstimatorSubModel(SubModel):
    """The sub-model of any classifier, at the end of a pipeline or alone.

    The transforming steps of a pipeline are fitted once, to all samples and to the
    targets themselves, so that they do not depend on the group; the last step is cloned
    for each group.
    """

    def __init__(self, estimator: BaseEstimator, for_gate: bool = False) -> None:
        self.for_gate = for_gate
        self.steps: list[BaseEstimator] = []
        if isinstance(estimator, Pipeline):
            *steps, estimator = [step for _, step in estimator.steps]
            self.steps = [step for step in steps if not isinstance(step, str | None)]
        self.estimator = clone(estimator)
        if isinstance(estimator, BackoffClassifier):
            # The classes are the outcomes of each group.
            names = {"classes", "estimator__classes"} & set(estimator.get_params())
            self.estimator.set_params(**dict.fromkeys(names))

    def learn(self, reading: TransformCache) -> Any:
        encodes = isinstance(self.estimator, BackoffClassifier)
        padding = self.estimator.padding if encodes else None
        self.reader = reading.learn(self.steps, self.estimator, encodes, padding)
        return self.read(reading)

    def read(self, reading: TransformCache) -> Any:
        return reading.read(self.reader)

    def source(self, sources: TokenSources) -> Any:
        path = sources.of_steps(self.reader.steps, self.reader.symbols)
        return super().source(sources) if path is None else path

    def fit(self, task: GroupFit) -> list[Distribution]:
        return self._fit_groups(self._fit_group, task)

    def _fit_group(self, samples, n_outcomes):
        estimator = clone(self.estimator)
        symbols = self.reader.symbols
        if symbols is None:
            return self._fit_estimator(estimator, samples, n_outcomes)
        # All groups share one array of symbols, so that a pickle stores it once.
        labels = Labels(np.arange(n_outcomes, dtype=np.int32), symbols)
        return samples.contexts.fit_model(estimator, labels, samples, self.for_gate)

    def _fit_estimator(self, estimator, samples, n_outcomes):
        outcomes = np.arange(n_outcomes)
        if "classes" in estimator.get_params(deep=False):
            estimator.set_params(classes=outcomes)
        keywords = {}
        if samples.own_weight is not None:
            keywords[need_weights(estimator)] = samples.weight
        estimator.fit(samples.contexts, samples.outcome, **keywords)
        return ClassifierModel(estimator, outcomes)


class JointSubModel(SubModel):
    """The sub-model of a `JointLogLinear`; each path has a reader."""

    def __init__(self, estimator: JointLogLinear) -> None:
        self.estimator = clone(estimator)

    def learn(self, reading: TransformCache) -> Any:
        estimator = self.estimator
        paths, self.readers = estimator.read_paths(), []
        refiners = [step for step in paths if isinstance(step, ContextRefiner)]
        with clustering_cache(reading.clusterings):
            fit_clusterings(refiners, reading.X, reading.y, estimator.n_jobs)
        for step in paths:
            steps = [] if step is None else [step]
            padding = estimator.padding if step is None else -1
            self.readers.append(reading.learn(steps, estimator, True, padding))
        return LazyTransform(self.readers, reading.X)

    def read(self, reading: TransformCache) -> Any:
        return tuple(reading.read(reader) for reader in self.readers)

    def source(self, sources: TokenSources) -> Any:
        paths = [sources.of_steps(r.steps, r.symbols) for r in self.readers]
        return super().source(sources) if None in paths else tuple(paths)

    def fit(self, task: GroupFit) -> list[Distribution]:
        # Threads fit several models, or the shards of a single model.
        estimator = clone(self.estimator)
        if estimator.n_jobs is None:
            estimator.set_params(n_jobs=task.n_jobs if task.sizes.size == 1 else 1)

        def fit_group(here, n_outcomes):
            outcomes = np.arange(n_outcomes, dtype=np.int32)
            options = {"sample_weight": here.own_weight, "keep_positions": True}
            # A generator, because the windows of all paths take much memory.
            counted = (
                count_windows(
                    columns, here.outcome, Labels(outcomes, reader.symbols), **options
                )
                for columns, reader in zip(here.contexts, self.readers)
            )
            return clone(estimator).fit_counted(counted).distribution_

        return self._fit_groups(fit_group, task)


class LocatedModel(BackoffModel):
    """A back-off model whose contexts are nodes."""

    def locate(self, contexts: ArrayLike) -> NDArray:
        return self._check_nodes(contexts, "contexts")

    def compiled(self, source: Any) -> Model:
        if isinstance(source, np.ndarray):
            return Backoff(self, source.astype(np.int32, copy=False))
        return super().compiled(source)


class FrozenSubModel(SubModel):
    """The sub-model of an estimator that is already fitted, and is not changed."""

    def __init__(self, estimator: FrozenEstimator, classes: NDArray) -> None:
        self.estimator = estimator.estimator
        if hasattr(self.estimator, "__sklstruct_over_ids__"):
            raise TypeError(
                f"models: a fitted {type(self.estimator).__name__} is mixed inside "
                "another, whose sentences it reads; here give its classifier, "
                "FrozenEstimator(model.estimator_)"
            )
        if not hasattr(self.estimator, "classes_"):
            raise NotFittedError(
                f"models: the {type(self.estimator).__name__} in a FrozenEstimator is "
                "not fitted; fit it, or give it without FrozenEstimator"
            )
        self.reads_history = reads_history(self.estimator)
        self.classes = classes
        known = np.asarray(self.estimator.classes_)
        self.same = np.array_equal(known, classes)
        if not self.same and not np.isin(known, classes).all():
            other = known[~np.isin(known, classes)][0]
            raise ValueError(
                f"models: the fitted {type(self.estimator).__name__} knows the class "
                f"{other!r:.60}, which is neither among the targets nor in classes; "
                "give all classes by the parameter classes"
            )

    def read(self, reading: TransformCache) -> Any:
        X = reading.text if self.reads_history else reading.X
        if not self.same:
            return selectable(X)
        estimator, X = last_step(self.estimator, X)
        if hasattr(estimator, "__sklstruct_sub_model__"):
            return estimator.part_.read(TransformCache(X))
        if isinstance(estimator, DistributionClassifier):
            return estimator.locate(X)
        return selectable(X)

    def source(self, sources: TokenSources) -> Any:
        found = sources.of_estimator(self.estimator) if self.same else None
        return super().source(sources) if found is None else found

    def fit(self, task: GroupFit) -> list[Distribution]:
        if task.sizes.size > 1:
            raise ValueError(
                "word_estimator: a fitted model cannot be a factor of the words of "
                "each class; mix it with the factored model as a whole"
            )
        if not self.same:
            return [ClassifierModel(self.estimator, self.classes)]
        estimator = innermost(self.estimator)
        if isinstance(estimator, BackoffClassifier):
            model = estimator.backoff_model_
            numbers = model.log_prob, model.log_backoff
            return [LocatedModel(model.pairs, *numbers, model.labels)]
        if isinstance(estimator, DistributionClassifier):
            return [estimator.distribution_]
        return [ClassifierModel(estimator, self.classes)]


def sub_model_of(estimator: Any, classes: NDArray, for_gate: bool = False) -> SubModel:
    """The sub-model of an unfitted estimator, or of a FrozenEstimator.

    classes: labels of the outcomes, for estimators that are already fitted. for_gate:
    whether a gate needs features of the contexts.
    """
    if isinstance(estimator, FrozenEstimator):
        return FrozenSubModel(estimator, classes)
    if isinstance(estimator, JointLogLinear):
        return JointSubModel(estimator)
    if hasattr(estimator, "__sklstruct_sub_model__"):
        return clone(estimator).__sklstruct_sub_model__(classes, for_gate)
    return EstimatorSubModel(estimator, for_gate)


def _warn_of_groups(caught, n_groups):
    """Issue one warning of each kind for all groups, in place of one per group."""
    kinds: dict[type, list] = {}
    for warning in caught:
        if n_groups > 1 and issubclass(warning.category, FallbackWarning):
            continue  # usual, as some groups are small
        kinds.setdefault(warning.category, []).append(warning)
    for category, some in kinds.items():
        text = str(some[0].message)
        if len(some) > 1:
            text = f"{len(some)} warnings in {n_groups} models, the first: {text}"
        warn(text, category)
