"""Parts: they read contexts once for an estimator, and fit one model for each group.

A part reads X once for all models of its estimator (`learn`, `read`), then fits one
model for each group of the samples (`fit`): the words of each class, or all samples in
one group.

Estimators with another kind of part (mixtures, factored models) have a method
``__sklstruct_part__(classes, facts)`` that makes it.
"""

from __future__ import annotations

import pickle
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from .._compat import BaseEstimator
from .._likelihood import innermost, last_step, reads_history
from .._parallel import ThreadMap
from .._warnings import FallbackWarning
from ..backoff import (
    BackoffClassifier,
    BackoffModel,
    Distribution,
    DistributionClassifier,
    Model,
    count_windows,
    single_precision,
)
from ..backoff._classifier import ClassifierModel
from ..backoff._distribution import by_group, take
from ..backoff._trees_fast import Backoff
from ..context_tree import Columns, check_windows, read_windows
from ..loglinear import JointLogLinear
from ..symbols import Labels, TextWindows, learn_symbols
from ..symbols._encoding import SymbolIndex
from ..word_classes import ContextRefiner
from ..word_classes._refiner import fit_clusterings, share_clusterings
from ._models import UniformModel
from ._sources import TokenSources


def quiet(text: str) -> None:
    """Report nothing."""


class Samples(NamedTuple):
    """Contexts in groups, and the outcomes that followed them."""

    contexts: Any  # from `Part.read`, one row per sample
    group: NDArray  # (n,) int
    outcome: NDArray  # (n,) int; those of a group count from 0
    weight: NDArray  # (n,) positive

    def of_part(self, k: int) -> Samples:
        """With the contexts of one of the parts that read them."""
        return self._replace(contexts=self.contexts[k])

    @property
    def own_weight(self) -> NDArray | None:
        """The weights; None if all are 1."""
        return self.weight if (self.weight != 1.0).any() else None

    def select(self, rows: Any) -> Samples:
        """Some of them."""
        return Samples(
            take(self.contexts, rows), self.group[rows], self.outcome[rows],
            self.weight[rows],
        )  # fmt: skip


class GroupFit(NamedTuple):
    """The arguments of `Part.fit`, which fits a model for each group of samples."""

    samples: Samples
    sizes: NDArray  # number of outcomes of each group
    held_out: Samples | None = None  # from which weights of mixtures are learnt
    like: list[Distribution] | None = None  # models whose weights are used
    n_jobs: int | None = None
    report: Callable[[str], Any] = quiet  # called after each piece of work


class LazyTransform:
    """Contexts that readers make of X where a model is fitted.

    Those of all models at once would take more memory than the models.

    Parameters
    ----------
    readers : list of Reader
        One for each matrix of contexts.

    X : array-like
        Contexts as the user gives them.
    """

    def __init__(self, readers: list[Reader], X: Any) -> None:
        self.readers, self.X = readers, X

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    def __getitem__(self, rows: Any) -> LazyTransform:
        return LazyTransform(self.readers, take(self.X, rows))

    def __iter__(self) -> Iterator[Columns]:
        """The contexts that each reader makes, one after the other."""
        return (reader.columns(self.X) for reader in self.readers)

    def fit_model(
        self,
        estimator: BackoffClassifier,
        labels: Labels,
        samples: Samples,
        facts: bool,
    ) -> BackoffModel:
        """The model of an estimator of the contexts of the only reader.

        Parameters
        ----------
        estimator : BackoffClassifier
            Not fitted; it is fitted afterwards.

        labels : Labels
            The outcomes, and the ids that the reader gives.

        samples : Samples
            Outcomes and weights of these contexts.

        facts : bool
            Whether the model gets the training weight of its nodes.
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
        if facts:
            weight = single_precision(whole.pairs.node_sums(whole.count))
        estimator.fit_counted(counted, overwrite=True)
        model = estimator.backoff_model_
        if facts:
            if model.tree is not whole.pairs.tree:
                weight = weight_at(model, columns, samples.weight)
            model.node_weight = weight
        return model


class Reader:
    """Turns X into the contexts of models: by transformers, then to ids of symbols.

    Parameters
    ----------
    steps : list of transformers
        The steps of a pipeline before the last, not fitted.

    estimator : classifier
        The last step.

    encodes : bool
        True: it gets ids, if the steps give windows.

    padding : object
        The symbol that marks missing history in these windows.
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
        """Fit the steps; the contexts of X, `Unread` if they are ids."""
        made = X
        for step in self.steps:
            step.fit(made, y)
            if step is self._refiner():
                # Its ids are known without those of all samples.
                first = step.transform(made[:1])
                check_windows(self.estimator, first, self.padding, reset=True)
                self.symbols = np.arange(step.n_symbols_, dtype=np.int32)
                return LazyTransform([self], X)
            made = step.transform(made)
        if self.encodes and not sp.issparse(made):
            made = check_windows(self.estimator, made, self.padding, reset=True)
            self.symbols = learn_symbols(made, self.padding)
            return LazyTransform([self], X)
        return _indexable(made)

    def _refiner(self):
        """The last step, if the ids that it makes are those of the model."""
        last = self.steps[-1] if self.steps else None
        ids = self.encodes and isinstance(self.padding, int) and self.padding == -1
        return last if ids and isinstance(last, ContextRefiner) else None

    def read(self, X: Any) -> Any:
        """The contexts of other X."""
        for step in self.steps:
            X = step.transform(X)
        if self.symbols is None:
            return _indexable(X)
        return read_windows(
            self.estimator, X, self.padding, reset=False, symbols=self.symbols
        )[0]

    def columns(self, X: Any) -> Columns:
        """The contexts of other X, of a model that gets ids, a column at a time."""
        refiner = self._refiner()
        for step in self.steps:
            if step is refiner:
                return step.columns(X)
            X = step.transform(X)
        X = check_windows(self.estimator, X, self.padding, reset=False)
        index = SymbolIndex(cast(np.ndarray, self.symbols))

        def make(k):
            return index.ids(np.ascontiguousarray(X[:, -k]))

        return Columns(make, *X.shape)


class TransformCache:
    """X for several parts; equal readers read it once.

    Parameters
    ----------
    X : array-like or TextWindows
        Contexts as the user gives them.

    y : ndarray, default=None
        Their targets, if readers are to be fitted.

    report : callable, default=quiet
        Called with a text after each piece of work.
    """

    def __init__(
        self, X: Any, y: NDArray | None = None, report: Callable[[str], Any] = quiet
    ) -> None:
        self.text = X  # may be `TextWindows`
        self.X = X.array if isinstance(X, TextWindows) else X
        self.y, self.report = y, report
        self._readers: dict[str, Reader] = {}
        self._contexts: dict[int, Any] = {}
        self.clusterings: dict = {}  # for `share_clusterings`

    def learn(
        self, steps: list, estimator: BaseEstimator, encodes: bool, padding: Any
    ) -> Reader:
        """A reader that is fitted to X, the same one for equal steps."""
        try:
            # Parameters may be arrays, which repr cuts short.
            key = joblib.hash((steps, encodes, padding))
        except pickle.PicklingError:  # a function of a notebook: a separate reader
            key = f"reader {len(self._readers)}"
        if key not in self._readers:
            steps = [clone(step) for step in steps]
            reader = Reader(steps, clone(estimator), encodes, padding)
            with share_clusterings(self.clusterings):
                self._contexts[id(reader)] = reader.learn(self.X, self.y)
            self._readers[key] = reader
        return self._readers[key]

    def read(self, reader: Reader) -> Any:
        """The contexts that a reader makes of X; those of `learn` may be `Unread`."""
        if id(reader) not in self._contexts:
            self._contexts[id(reader)] = reader.read(self.X)
        return self._contexts[id(reader)]


class Part(ABC):
    """Reads the contexts of one estimator, and fits its model for each group."""

    transforms = False  # whether models read the output of transformers, not X
    reads_history = False  # whether models read more of a sentence than its windows
    holds_out = False  # whether held-out samples are used
    # The share of the samples to hold out where none are given, and whether models are
    # then fitted to all of them.
    validation_fraction = 0.0
    refit = False

    @abstractmethod
    def learn(self, reading: TransformCache) -> Any:
        """Fit the readers; returns the contexts of X."""

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
        self, fit_group: Callable[[Samples, int], Distribution], task: GroupFit
    ) -> list[Distribution]:
        """A model for each group, in threads; uniform where it has no samples."""
        samples, sizes = task.samples, task.sizes
        models: list[Distribution] = [UniformModel(int(n)) for n in sizes]

        def one(item):
            g, rows = item
            models[g] = fit_group(samples.select(rows), int(sizes[g]))

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with ThreadMap(task.n_jobs) as parallel:
                parallel(one, list(by_group(samples.group, sizes.size)))
        _warn_once(caught, int(sizes.size))
        # One gate serves all groups: each model has facts about as many trees.
        n_trees = max((len(m.fact_depths) for m in models), default=0)
        for model in models:
            if isinstance(model, UniformModel):
                model.fact_depths = (0,) * n_trees
        return models


class ComposedPart(Part):
    """A part that is made of others; its contexts are a tuple of theirs."""

    parts: list[Part]

    def __init__(self, parts: list[Part]) -> None:
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


class EstimatorPart(Part):
    """Any classifier, at the end of a pipeline or alone.

    The transforming steps of a pipeline are fitted once, to all samples and to the
    targets themselves, so that what they learn (classes of words, say) does not
    depend on the group; the last step is cloned for each group.
    """

    def __init__(self, estimator: BaseEstimator, facts: bool = False) -> None:
        self.facts = facts
        self.steps: list[BaseEstimator] = []
        if isinstance(estimator, Pipeline):
            self.steps = [
                step
                for _, step in estimator.steps[:-1]
                if step is not None and not isinstance(step, str)
            ]
            estimator = estimator.steps[-1][1]
        self.transforms = bool(self.steps)
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
        # One array of symbols for all groups: a pickle holds it once.
        labels = Labels(np.arange(n_outcomes, dtype=np.int32), symbols)
        return samples.contexts.fit_model(estimator, labels, samples, self.facts)

    def _fit_estimator(self, estimator, samples, n_outcomes):
        outcomes = np.arange(n_outcomes)
        if "classes" in estimator.get_params(deep=False):
            estimator.set_params(classes=outcomes)
        keywords = {}
        if samples.own_weight is not None:
            if not has_fit_parameter(estimator, "sample_weight"):
                raise ValueError(
                    "sample_weight was given, but "
                    f"{type(estimator).__name__}.fit does not take it"
                )
            keywords["sample_weight"] = samples.weight
        estimator.fit(samples.contexts, samples.outcome, **keywords)
        return ClassifierModel(estimator, outcomes)


class JointPart(Part):
    """A `JointLogLinear`, each of whose paths has a reader."""

    def __init__(self, estimator: JointLogLinear, facts: bool = False) -> None:
        self.estimator, self.facts = clone(estimator), facts

    def learn(self, reading: TransformCache) -> Any:
        estimator = self.estimator
        paths, self.readers = estimator.read_paths(), []
        refiners = [step for step in paths if isinstance(step, ContextRefiner)]
        with share_clusterings(reading.clusterings):
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
        # Threads go over the models, or over the shards of the only one.
        estimator = clone(self.estimator)
        if estimator.n_jobs is None:
            estimator.set_params(n_jobs=task.n_jobs if task.sizes.size == 1 else 1)

        def fit_group(here, n_outcomes):
            outcomes = np.arange(n_outcomes, dtype=np.int32)
            options = {"sample_weight": here.own_weight, "keep_positions": True}
            # One path after the other: the windows of all take much memory.
            counted = (
                count_windows(
                    columns, here.outcome, Labels(outcomes, reader.symbols), **options
                )
                for columns, reader in zip(here.contexts, self.readers)
            )
            return clone(estimator).fit_counted(counted).distribution_

        return self._fit_groups(fit_group, task)


class LocatedModel(BackoffModel):
    """A back-off model whose contexts are its nodes already."""

    def locate(self, contexts: ArrayLike) -> NDArray:
        return self._check_nodes(contexts, "contexts")

    def compiled(self, source: Any) -> Model:
        if isinstance(source, np.ndarray):
            return Backoff(self, source.astype(np.int32, copy=False))
        return super().compiled(source)


class FrozenPart(Part):
    """An estimator that is fitted already and stays as it is.

    Parameters
    ----------
    estimator : FrozenEstimator
        Around the fitted one.

    classes : ndarray of shape (n_outcomes,)
        Names of the outcomes.
    """

    def __init__(
        self, estimator: FrozenEstimator, classes: NDArray, facts: bool = False
    ) -> None:
        self.estimator = estimator.estimator
        if hasattr(self.estimator, "__sklstruct_over_ids__"):
            raise TypeError(
                f"models: a fitted {type(self.estimator).__name__} is mixed inside "
                "another, whose sentences it reads; here give its classifier, "
                "FrozenEstimator(model.estimator_)"
            )
        self.transforms = isinstance(self.estimator, Pipeline)
        self.reads_history = reads_history(self.estimator)
        self.classes = classes
        self.facts = facts
        known = np.asarray(self.estimator.classes_)
        self.same = np.array_equal(known, classes)
        if not self.same and not np.isin(known, classes).all():
            other = known[~np.isin(known, classes)][0]
            raise ValueError(
                f"models: the fitted {type(self.estimator).__name__} knows the class "
                f"{other!r}, which is neither among the targets nor in classes; give "
                "all classes by the parameter classes"
            )

    def learn(self, reading: TransformCache) -> Any:
        return self.read(reading)

    def read(self, reading: TransformCache) -> Any:
        X = reading.text if self.reads_history else reading.X
        if not self.same:
            return _indexable(X)
        estimator, X = last_step(self.estimator, X)
        if isinstance(estimator, BackoffClassifier):
            return estimator.locate(X)
        if hasattr(estimator, "__sklstruct_part__"):
            return estimator.part_.read(TransformCache(X))
        if isinstance(estimator, DistributionClassifier):
            return estimator.locate(X)
        return _indexable(X)

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


def weight_at(model: BackoffModel, columns: Columns, weight: NDArray) -> NDArray:
    """Weight of the training samples at or below each node of a model."""
    tree = model.tree
    node = model.locate(columns.windows())
    return single_precision(tree.add_up(np.bincount(node, weight, tree.n_nodes)))


def check_probabilities(what: str, estimator: Any, hint: str = "") -> None:
    """TypeError for an estimator that gives no probabilities.

    what: the name of the estimator in the message, which ends with the hint.
    """
    if not any(hasattr(estimator, f"predict_{p}") for p in ("proba", "log_proba")):
        raise TypeError(
            f"{what} must give probabilities, but {type(estimator).__name__} has "
            f"neither predict_proba nor predict_log_proba{hint}"
        )


def part_of(estimator: Any, classes: NDArray, facts: bool = False) -> Part:
    """The part of an estimator.

    Parameters
    ----------
    estimator : classifier
        Not fitted, or a FrozenEstimator.

    classes : ndarray
        Names of the outcomes, for estimators that are fitted already.

    facts : bool
        Whether a gate needs facts about the contexts.
    """
    if isinstance(estimator, FrozenEstimator):
        return FrozenPart(estimator, classes, facts)
    if isinstance(estimator, JointLogLinear):
        return JointPart(estimator, facts)
    if hasattr(estimator, "__sklstruct_part__"):
        return clone(estimator).__sklstruct_part__(classes, facts)
    return EstimatorPart(estimator, facts)


def _indexable(X):
    """X with rows that can be selected."""
    return X.tocsr() if sp.issparse(X) else X


def _warn_once(caught, n_groups):
    """Issue one warning of each kind for all groups, in place of one per group."""
    kinds: dict[type, list] = {}
    for warning in caught:
        if n_groups > 1 and issubclass(warning.category, FallbackWarning):
            continue  # some of many groups are small
        kinds.setdefault(warning.category, []).append(warning)
    for category, some in kinds.items():
        text = str(some[0].message)
        if len(some) > 1:
            text = f"{len(some)} warnings in {n_groups} models, the first: {text}"
        warnings.warn(text, category, stacklevel=4)
