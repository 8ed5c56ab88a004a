"""BackoffClassifier: what every estimator that fills a back-off model shares.

A language model of this family is one method, `_fit_tree`: pairs over a context tree
and their counts go in, (log-probability per pair, log back-off per node) come out. The
rest (reading windows or path matrices, targets, weights, predicting) is here.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._compat import BaseEstimator, _fit_context
from .._docs import shared_docs
from ..context_tree import ContextTree, Pairs, expand_pairs
from ..context_tree._shards import Joined, PairShard
from ..context_tree._tokens import count_tokens
from ..context_tree._vectorizer import read_windows
from ..symbols import Labels
from ..symbols._encoding import is_nan
from ._model import BackoffModel
from ._online import (
    Counts,
    check_closed,
    check_forgetting,
    join_batches,
    join_counts,
    join_parts,
    place_in,
    small_counts,
)
from ._readers import Reader, WindowReader, reader_of
from ._targets import (
    BackoffMixin,
    read_sample_weight,
    read_targets,
    require_targets,
    target_column,
)

# Blocks of the docstrings of `fit` and `partial_fit`; see `shared_docs`.
SAMPLES = """
X : array-like or CSR matrix of shape (n_samples, n_features)
    Dense: context windows, one symbol a column, the last column the most
    recent. Sparse: the path matrix that `SuffixTreeVectorizer` makes.

y : array-like of shape (n_samples,)
    The symbol that followed each context.

sample_weight : array-like of shape (n_samples,), default=None
    Non-negative weights, fractional or not; weight 0 is as if absent, weight
    2 as a repetition.
"""
BATCH = """
X : array-like of shape (n_samples, n_features)
    Context windows, as wide as in the first batch.

y : array-like of shape (n_samples,)
    The symbol that followed each context.

classes : array-like of shape (n_classes,), default=None
    In the first batch: all classes that there can be, as in scikit-learn.
    None: those of the parameter `classes`, and if that is None too, the
    classes that are seen, batch by batch.

sample_weight : array-like of shape (n_samples,), default=None
    Non-negative weights.

decay : float, default=None
    Factor of all counts so far, above 0 and at most 1: the model is that of one
    `fit` in which the samples of the batch before this weigh `decay`, of the
    one before that ``decay ** 2`` and so on. Pairs of less than 1e-9 samples
    are forgotten; classes stay.

window : int, default=None
    The model is that of one `fit` on the last `window` batches, this included:
    with the number of the batches of a text, those of a second pass take the
    places of their first copies. To be given from the first batch on, not
    together with `decay`. The counts of each of these batches are kept.
"""

# Called with (iteration, objective, optimality); True stops the fit.
Report = Callable[[int, float, float], bool]


class ShardModel(NamedTuple):
    """What `BackoffClassifier.fit_shard` gives."""

    log_prob: np.ndarray  # (n_pairs,)
    log_backoff: np.ndarray  # (n_nodes,)
    of_pairs: dict[str, np.ndarray]  # fitted attributes with an entry a pair
    fitted: dict[str, Any]  # the others, the same in all shards


class BackoffClassifier(BackoffMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the estimators whose fitted model is a `BackoffModel`.

    Subclasses have the parameters `max_depth`, `padding` and `classes`, and
    define `_fit_tree`.
    """

    max_depth: int | None
    padding: Any
    classes: ArrayLike | None
    classes_: np.ndarray
    backoff_model_: BackoffModel

    # What is needed to fit on a shard of a tree: None where it cannot be done, else a
    # tuple with the names of the fitted attributes that have one entry a pair.
    _of_pairs: tuple[str, ...] | None = None

    @abstractmethod
    def _fit_tree(
        self, pairs: Pairs, count: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(log_prob per pair, log_backoff per node), in natural logarithms."""

    def _fit_pairs(
        self, pairs: Pairs, count: np.ndarray
    ) -> tuple[Pairs, np.ndarray, np.ndarray]:
        """(pairs, log_prob, log_backoff) of a trie, from pairs of a collapsed one.

        For estimators that train on the collapsed tree as it is, or whose model has
        other pairs than those that were counted.
        """
        pairs, source = expand_pairs(pairs)
        return pairs, *self._fit_tree(pairs, count[source])

    def _fit_in_place(
        self, pairs: Pairs, count: np.ndarray
    ) -> tuple[Pairs, np.ndarray, np.ndarray]:
        """`_fit_pairs` on a trie, where the counts may be overwritten."""
        return self._fit_pairs(pairs, count)

    @shared_docs(samples=SAMPLES)
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        {samples}

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            If X is neither (the message says where), a target is not in
            `classes`, or a weight is negative.
        """
        return self._fit(X, y, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit(self, X, y, sample_weight, *more):
        self._check_params()
        require_targets(self, y)
        reader = reader_of(X, self.padding)
        data = reader.fit(self, X)
        y = target_column(y, data.shape[0])
        keep, sample_weight = read_sample_weight(sample_weight, data)
        target, self.classes_ = read_targets(
            y if keep is None else y[keep], self.classes
        )
        return self._fit_samples(reader, data, keep, target, sample_weight, *more)

    @shared_docs(batch=BATCH)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        decay: float | None = None,
        window: int | None = None,
    ) -> Self:
        """Learn from more samples.

        Contexts, classes and symbols are added as they are observed, and the counts of
        the batches merge. A model of counts is exactly that of one `fit` on all
        batches (where the sums of weights are exact, as those of whole numbers are).
        Costs the size of the model so far, besides that of the batch.

        Parameters
        ----------
        {batch}

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            As `fit`; if X is a path matrix, whose columns are those of one tree; or if
            the model was fitted on one.
        AttributeError
            If the parameters ask for more than counts, such as numbers that are chosen
            on held-out samples.
        """
        return self._partial_fit(X, y, classes, sample_weight, decay, window)

    @_fit_context(prefer_skip_nested_validation=True)
    def _partial_fit(self, X, y, classes, sample_weight, decay, window):
        self._check_params()
        check_forgetting(decay, window)
        require_targets(self, y)
        before = self._counts_so_far()
        if sp.issparse(X):
            raise ValueError(
                "X: partial_fit takes dense context windows; the columns of a path "
                "matrix belong to the tree of one batch"
            )
        if before is not None:
            check_closed(classes, before.closed)
            closed = before.closed
        else:
            closed = classes if self.classes is None else self.classes
            closed = None if closed is None else column_or_1d(np.asarray(closed))
        ids, symbols = read_windows(self, X, self.padding, reset=before is None)
        y = target_column(y, ids.shape[0])
        keep, sample_weight = read_sample_weight(sample_weight, ids)
        target, found = read_targets(y if keep is None else y[keep], closed)
        tree, terminal = WindowReader(self.padding, symbols).grow(
            ids, keep, self.max_depth
        )
        counts = Counts(
            *Pairs.count(tree, terminal, target, found.size, sample_weight),
            symbols, found, closed,
        )  # fmt: skip
        weight = float(counts.count[: found.size].sum())
        if window is not None:
            kept = () if before is None else before.keep(window)
            counts = join_batches((*kept, counts))
            if before is not None:
                self._continue(lambda: before.place_in(counts), weight)
        elif before is not None:
            counts, place = before.join(counts, decay)
            self._continue(place, weight)
        return self._fit_grown(counts)

    @property
    def text_memory(self) -> Any:
        """What keeps the texts that are read for it, with ``text(key, read)``."""
        return None

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit_tokens(
        self,
        tokens: np.ndarray,
        max_depth: int,
        labels: Labels,
        *,
        old_ids: Any = None,
        skip: int = -1,
        sample_weight: np.ndarray | None = None,
        decay: float | None = None,
        window: int | None = None,
    ) -> Self:
        """Learn from more running text.

        Parameters
        ----------
        tokens, max_depth, labels, skip, sample_weight
            As in `fit_tokens`. The labels are those of all batches so far, or of those
            in the window.

        old_ids : tuple of two int32 ndarrays, default=None
            The ids in `labels` of the classes and of the symbols of the batches
            before, both rising; None in the first. With a window a list of such, those
            of the batches before and then one for each batch that stays, with -1 for
            what occurs in none of these.

        decay, window : float, int, default=None
            As in `partial_fit`.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        self._check_params()
        check_forgetting(decay, window)
        before = self._counts_so_far()
        pairs, count = self.count_tokens(
            tokens, max_depth, labels, skip=skip, sample_weight=sample_weight
        )
        named = labels.symbols, labels.classes, labels.classes
        sizes = labels.n_classes, labels.n_symbols
        same = [np.arange(n, dtype=np.int32) for n in sizes]

        def numbering(ids):
            return ids[0], sizes[0], ids[1], sizes[1]

        weight = float(count[: labels.n_classes].sum())
        batches = ()
        if window is not None:
            kept = () if before is None else before.keep(window)
            batches = (*kept, Counts(pairs, small_counts(count), *named))
            pairs, count = join_parts(
                [
                    (batch.pairs, batch.count, numbering(ids))
                    for batch, ids in zip(batches, [*(old_ids or [None])[1:], same])
                ]
            )
            if before is not None:
                joined = pairs
                self._continue(
                    lambda: place_in(before.pairs, numbering(old_ids[0]), joined),
                    weight,
                )
        elif before is not None:
            pairs, count, place = join_counts(
                before.pairs, before.count, numbering(old_ids),
                pairs, count, numbering(same), decay,
            )  # fmt: skip
            self._continue(place, weight)
        self.n_features_in_ = max_depth
        return self._fit_grown(Counts(pairs, count, *named, batches))

    def _counts_so_far(self):
        """What earlier batches have counted, None before the first."""
        counts = getattr(self, "_counts", None)
        if counts is None and hasattr(self, "backoff_model_"):
            raise ValueError(
                f"this {type(self).__name__} was fitted on path matrices or inside a "
                "LanguageModel, and kept no counts that partial_fit could add to; "
                "clone it, and pass the first batch to partial_fit"
            )
        return counts

    def _continue(self, place: Callable[[], np.ndarray], weight: float) -> None:
        """For estimators that start where they were: the new number of each old pair
        (-1 where it is gone), and the weight of the new samples."""

    def _fit_grown(self, counts):
        self.classes_ = counts.classes
        reader = WindowReader(self.padding, counts.symbols)
        self._fit_counts(reader, counts.pairs, counts.count)
        self._counts = replace(counts, count=small_counts(counts.count))
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_tokens(
        self,
        tokens: np.ndarray,
        max_depth: int,
        labels: Labels,
        *,
        skip: int = -1,
        sample_weight: np.ndarray | None = None,
    ) -> Self:
        """Fit on every position of a running text, without windows.

        Parameters
        ----------
        tokens : int32 ndarray of shape (n_tokens,)
            Symbol ids of `labels`, -1 before each sentence. The class of a symbol
            has its id.

        max_depth : int
            Columns that the windows of the text would have.

        labels : Labels
            What the ids mean. The fitted estimator takes and gives these labels.

        skip : int, default=-1
            A symbol that is never predicted.

        sample_weight : float64 ndarray of shape (n_tokens,), default=None
            Positive weight of each predicted position.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        self._check_params()
        pairs, count = self.count_tokens(
            tokens, max_depth, labels, skip=skip, sample_weight=sample_weight
        )
        return self._fit_labelled(pairs, count, max_depth, labels, overwrite=True)

    def count_tokens(
        self,
        tokens: np.ndarray,
        max_depth: int,
        labels: Labels,
        *,
        skip: int = -1,
        sample_weight: np.ndarray | None = None,
    ) -> tuple[Pairs, np.ndarray]:
        """The pairs and counts that `fit_tokens` would learn from."""
        self._validate_params()
        self._check_params()
        return count_tokens(
            tokens, self._depth_of(max_depth), labels.n_symbols, labels.n_classes,
            skip=skip, weight=sample_weight,
        )  # fmt: skip

    def _depth_of(self, n_columns: int) -> int:
        """Longest context of windows of so many columns."""
        return n_columns if self.max_depth is None else min(n_columns, self.max_depth)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counts(
        self,
        pairs: Pairs,
        count: np.ndarray,
        max_depth: int,
        labels: Labels,
        *,
        overwrite: bool = False,
    ) -> Self:
        """Fit on what `count_tokens` counted, of a text or merged from its parts.

        Parameters
        ----------
        pairs, count, max_depth, labels
            As in `fit_tokens` and from `count_tokens`.

        overwrite : bool, default=False
            Whether `count` may be overwritten, which saves memory.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        self._check_params()
        return self._fit_labelled(pairs, count, max_depth, labels, overwrite)

    def _fit_labelled(self, pairs, count, max_depth, labels, overwrite):
        reader = self._read_labelled(max_depth, labels)
        return self._fit_counts(reader, pairs, count, overwrite)

    def _read_labelled(self, max_depth, labels):
        self.n_features_in_ = max_depth
        self.classes_ = labels.classes
        return WindowReader(self.padding, labels.symbols)

    def check_shards(self) -> None:
        """Errors, before any work, if the model cannot be fitted shard by shard."""
        self._validate_params()
        self._check_params()
        if self._of_pairs is None:
            raise TypeError(
                f"estimator: {type(self).__name__} cannot be fitted on the shards of a "
                "tree; a log-linear model, KneserNeyLM, AbsoluteDiscountLM, "
                "WittenBellLM and KatzLM can"
            )

    def fit_shard(
        self,
        shard: PairShard,
        count: np.ndarray,
        keep: Callable[[Callable[[], dict]], Any],
        report: Report,
    ) -> ShardModel:
        """The part of the model that belongs to a shard.

        To be called on all shards at once, each in a thread or process of its own, on
        clones of one estimator.

        Parameters
        ----------
        shard : PairShard
            Some of the branches, and the way to the others.

        count : float64 ndarray of shape (n_pairs,)
            The counts, which may be overwritten; those of the root are of the whole
            tree.

        keep : callable
            For fits that take long: called with a function that makes what the state
            belongs to, gives the keeper of the state (see `Checkpoint`) or None.

        report : callable
            Called with (iteration, objective, optimality) after each iteration; True
            stops the fit.

        Returns
        -------
        model : ShardModel
            Numbers beside the pairs and the nodes, and fitted attributes.
        """
        self.classes_ = np.arange(shard.n_classes, dtype=np.int32)
        numbers = self._fit_shard(shard, count, keep, report)
        fitted = {
            name: value
            for name, value in vars(self).items()
            if name.endswith("_") and not name.startswith("_") and name != "classes_"
        }
        of_pairs = {name: fitted.pop(name) for name in self._of_pairs}
        return ShardModel(*numbers, of_pairs, fitted)

    def _fit_shard(self, shard, count, keep, report):
        return self._fit_tree(shard, count)

    def set_shards(
        self, joined: Joined, models: list[ShardModel], max_depth: int, labels: Labels
    ) -> Self:
        """The fitted model, from those of all shards.

        Parameters
        ----------
        joined : Joined
            The whole tree.

        models : list of ShardModel
            What `fit_shard` gave.

        max_depth, labels
            As in `fit_tokens`.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        reader = self._read_labelled(max_depth, labels)
        self._counts = None
        self.depth_ = joined.pairs.tree.max_depth
        for name, value in models[0].fitted.items():
            setattr(self, name, value)
        for name in self._of_pairs:
            parts = [model.of_pairs[name] for model in models]
            setattr(self, name, joined.of_pairs(parts))
        self._set_model(
            reader,
            joined.pairs,
            joined.of_pairs([model.log_prob for model in models]),
            joined.of_nodes([model.log_backoff for model in models]),
        )
        self._shards_set()
        return self

    @contextmanager
    def reporting(self) -> Iterator[Report]:
        """The context of a fit on shards: what its iterations call."""
        yield lambda iteration, objective, optimality: False

    def _shards_set(self) -> None:
        """For estimators with fitted numbers that are sums over the shards."""

    def fit_ids(
        self,
        windows: np.ndarray,
        target: np.ndarray,
        labels: Labels,
        sample_weight: np.ndarray,
    ) -> Self:
        """Fit on windows of ids, without encoding anything.

        Parameters
        ----------
        windows : int32 ndarray of shape (n_samples, n_columns)
            Symbol ids of `labels`, the last column the most recent; -1 ends a
            history.

        target : int32 ndarray of shape (n_samples,)
            Class ids of `labels`.

        labels : Labels
            What the ids mean. The fitted estimator takes and gives these labels.

        sample_weight : float64 ndarray of shape (n_samples,)
            Non-negative weights; 0 is as if absent.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        return self._fit_ids(windows, target, labels, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit_ids(self, windows, target, labels, sample_weight, *more):
        """Fit on windows of ids and ids of classes; weight 0 is as if absent."""
        self._check_params()
        self.n_features_in_ = windows.shape[1]
        self.classes_ = labels.classes
        keep, sample_weight = read_sample_weight(sample_weight, windows)
        if keep is not None:
            target = target[keep]
        reader = WindowReader(self.padding, labels.symbols)
        return self._fit_samples(reader, windows, keep, target, sample_weight, *more)

    def _fit_samples(self, reader: Reader, data, keep, target, sample_weight):
        pairs, count = self._count(reader, data, keep, target, sample_weight)
        self._fit_counts(reader, pairs, count)
        if isinstance(reader, WindowReader) and hasattr(self, "partial_fit"):
            closed = None if self.classes is None else self.classes_
            self._counts = Counts(
                pairs, small_counts(count), reader.symbols, self.classes_, closed
            )
        return self

    def _count(self, reader, data, keep, target, sample_weight):
        tree, terminal = reader.grow(data, keep, self.max_depth)
        return Pairs.count(tree, terminal, target, self.classes_.size, sample_weight)

    def _fit_counts(
        self, reader: Reader, pairs: Pairs, count: np.ndarray, overwrite: bool = False
    ) -> Self:
        self._counts = None  # partial_fit keeps them
        self.depth_ = pairs.tree.max_depth
        fit = self._fit_in_place if overwrite else self._fit_pairs
        fitted = fit(pairs, count)
        if overwrite:
            fitted[0].forget_parents()
        return self._set_model(reader, *fitted)

    def _set_model(self, reader, pairs, log_prob, log_backoff):
        self._reader = reader
        self.backoff_model_ = BackoffModel(
            pairs, log_prob, log_backoff, Labels(self.classes_, reader.symbols)
        )
        return self

    def vectorized_model(
        self, columns: ContextTree, symbols: np.ndarray, labels: Labels
    ) -> BackoffModel:
        """The model under the symbols of the text that a vectorizer read.

        Parameters
        ----------
        columns : ContextTree
            The vectorizer's tree: its nodes are the columns of the path matrix that
            this estimator was fitted on.

        symbols : int ndarray of shape (n,)
            The symbol id of `labels` for each symbol of `columns`.

        labels : Labels
            What the ids mean; the classes are this estimator's, in order.
        """
        model = self.backoff_model_
        tree = self._reader.columns_to_symbols(model.tree, columns)
        symbol = tree.symbol.copy()
        symbol[1:] = symbols[symbol[1:]]
        tree = tree.with_symbols(symbol, labels.n_symbols)
        pairs = Pairs.of_arrays(tree, model.pairs.ptr, model.pairs.target)
        return BackoffModel(pairs, model.log_prob, model.log_backoff, labels)

    def _check_params(self):
        """Errors about parameters that scikit-learn's declarations cannot express."""

    def __sklstruct_ids__(self, labels: Labels) -> dict:
        """Parameters with which the estimator learns from windows of class ids."""
        return {**super().__sklstruct_ids__(labels), "padding": -1}

    # ----------------------------------------------------------- prediction

    def locate(self, X: Any) -> np.ndarray:
        """Node of the back-off model for each row of X.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Contexts, in the form that `fit` was given.

        Returns
        -------
        nodes : ndarray of shape (n_samples,), int32
            That of the longest known context, for the methods of
            ``backoff_model_``.
        """
        check_is_fitted(self)
        return self._reader.nodes(self, self.backoff_model_.tree, X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = is_nan(self.padding)
        return tags
