"""Counted: a counted text, the input of every fit.

Three constructors, `Counted.of_tokens`, `Counted.of_windows` and `Counted.of_paths`,
count how often each class followed each context. Fits, searches, batches and the
workers of a cluster all take a `Counted`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np

from .._checks import INT32_MAX, check_count, last_share, least_weight
from .._digest import digest
from ..context_tree import (
    Columns,
    ContextTree,
    Histories,
    Pairs,
    expand_pairs,
    tree_of_arrays,
)
from ..context_tree._runs import CountRuns
from ..context_tree._tokens import count_tokens
from ..symbols import Labels, encode, learn_symbols, object_array, sort_symbols
from ._prune import selected_nodes
from ._readers import PathReader, PathTree, WindowReader
from ._slots import HeldOut

# Upper bounds, in bytes, of the memory of counting: per token, and per token and depth
# (a node and a pair of it).
_BYTES_PER_TOKEN, _BYTES_PER_DEPTH = 64, 32
# Pairs of fewer samples than this are forgotten.
SMALLEST = 1e-9

# The arguments of `Pairs.renumber`: for classes and for symbols the new ids, in rising
# order, and their number. -1 marks an id that is gone; its counts are 0.
Numbering = tuple[np.ndarray, int, np.ndarray, int]


class Positions(NamedTuple):
    """Samples as positions of a text or as windows: contexts with their classes."""

    histories: Histories | Columns
    target: np.ndarray  # (n_samples,) int32
    weight: np.ndarray | None  # (n_samples,) float64, positive; None: 1

    @property
    def stored(self) -> Histories:
        """The contexts in memory: columns are made."""
        if isinstance(self.histories, Columns):
            return Histories.from_windows(
                self.histories.windows(), self.histories.depth
            )
        return self.histories

    @classmethod
    def of_tokens(
        cls,
        tokens: np.ndarray,
        depth: int,
        skip: int = -1,
        weight: np.ndarray | None = None,
    ) -> Self:
        """Every position of a running text; see `Counted.of_tokens`."""
        at = np.flatnonzero((tokens >= 0) & (tokens != skip))
        weight = None if weight is None else weight[at]
        return cls(Histories.from_tokens(tokens, at, depth), tokens[at], weight)

    @classmethod
    def of_counts(cls, pairs: Pairs, count: np.ndarray) -> Self:
        """One weighted sample for each pair at which samples end."""
        pairs, source = expand_pairs(pairs)
        terminal = pairs.terminal_counts(count[source])
        at = np.flatnonzero(terminal > 0.0)
        windows = pairs.tree.windows()
        histories = Histories.from_windows(windows, windows.shape[1])
        return cls(histories.select(pairs.nodes()[at]), pairs.target[at], terminal[at])

    def select(self, rows: Any) -> Self:
        """Some of the samples."""
        weight = None if self.weight is None else self.weight[rows]
        return type(self)(self.stored.select(rows), self.target[rows], weight)

    def tree(
        self, labels: Labels, depth: int | None, min_count: int = 1
    ) -> tuple[Pairs, np.ndarray, Any]:
        """(pairs, counts, None): positions belong to no path matrix."""
        n_symbols = labels.known_symbols("counting").size
        tree, terminal = ContextTree.from_histories(
            self.histories, n_symbols, weight=self.weight, min_count=min_count
        )
        n_classes = labels.n_classes
        counted = Pairs.count(tree, terminal, self.target, n_classes, self.weight)
        return *counted, None

    def locate(self, counted: Counted) -> np.ndarray:
        """The deepest node of each context in the tree of other samples."""
        return counted.pairs.tree.find(self.histories)[0]


class PathRows(NamedTuple):
    """Samples as rows of a path matrix; see `SuffixTreeVectorizer`."""

    X: Any  # CSR
    target: np.ndarray
    weight: np.ndarray | None

    def select(self, rows: Any) -> Self:
        """Some of the samples."""
        weight = None if self.weight is None else self.weight[rows]
        return type(self)(self.X[rows], self.target[rows], weight)

    def tree(
        self, labels: Labels, depth: int | None, min_count: int = 1
    ) -> tuple[Pairs, np.ndarray, PathTree]:
        """(pairs, counts, the tree of the columns); all contexts are there already."""
        tree, terminal, node_of_column = ContextTree.from_paths(self.X)
        if depth is not None and tree.max_depth > depth:
            raise _too_long(tree, depth)
        counted = Pairs.count(
            tree, terminal, self.target, labels.n_classes, self.weight
        )
        return *counted, PathTree(tree, node_of_column)

    def locate(self, counted: Counted) -> np.ndarray:
        """The deepest node of each path in the trie of other rows."""
        assert counted.paths is not None  # rows are located among rows
        return PathReader(counted.paths).find(self.X)


class Growth(NamedTuple):
    """The counts before the last batch, for fits that continue from the last fit."""

    before: Counted
    numbering: Numbering  # of its labels now
    weight: float  # of the samples of the batch

    def place(self, pairs: Pairs) -> np.ndarray:
        """The number of each pair before among those now, -1 where it is gone."""
        return _place_in(self.before.pairs, self.numbering, pairs)


@dataclass(frozen=True, eq=False, repr=False)
class Counted:
    r"""Counts of a text, of windows or of paths, to which models over contexts are fit.

    .. math::
        c(n, y) = \sum_{i \,:\, x_i \text{ ends in } n,\ y_i = y} \omega_i

    for every context n that occurs and every class y that followed it, with
    :math:`\omega_i` the weight of a sample. `LanguageModel.count` counts sentences;
    ``fit_counted`` of the estimators over contexts learns from the counts. The object
    is immutable: operations return a new one.

    Parameters
    ----------
    pairs : Pairs
        The contexts, and the classes that followed each.

    count : ndarray of shape (n_pairs,)
        c(n, y), of type float64 or int32.

    labels : Labels
        The meaning of the ids of classes and context symbols.

    max_depth : int
        Number of columns of the context windows.

    depth : int
        Longer contexts were not counted; at most `max_depth`.

    paths : PathTree, default=None
        The nodes of the columns of a path matrix; None for text and windows.

    held_out : HeldOut, default=None
        Held-out samples, for estimators that choose numbers on them.

    whole : Counted, default=None
        The counts of all samples, if the held-out ones are a share of them; the model
        is fitted to these. None: it is fitted to `pairs` and `count`.

    positions : Positions, default=None
        The samples themselves, if only unigrams were counted: for an estimator that
        counts the contexts that it needs.

    closed : bool, default=False
        True: later batches may have no other classes.

    batches : tuple of Counted, default=()
        The last batches, if the counts are those of a window of batches.

    growth : Growth, default=None
        The counts to which the last batch was added.

    See Also
    --------
    sklstruct.language_model.LanguageModel.count : Counts sentences.

    Examples
    --------
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.smoothing import KneserNeyLM, WittenBellLM
    >>> counted = LanguageModel(max_depth=2).count(["a b a", "a b b"])
    >>> counted
    <Counted: 8 samples, 15 (context, class) pairs, contexts of up to 2 of 5 symbols>
    >>> for estimator in (WittenBellLM(), KneserNeyLM(discount=0.5)):
    ...     model = LanguageModel(estimator, max_depth=2).fit(counted)
    ...     print(round(model.perplexity(["a b a b"]), 2))
    2.47
    2.54
    """

    pairs: Pairs
    count: np.ndarray
    labels: Labels
    max_depth: int
    depth: int
    paths: PathTree | None = None
    held_out: HeldOut | None = None
    whole: Counted | None = None
    positions: Positions | None = None
    closed: bool = False
    batches: tuple[Counted, ...] = ()
    growth: Growth | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take pickled counts; ValueError if the labels do not fit the pairs."""
        self.__dict__.update(state)
        self.labels.check_sizes(self.pairs.n_classes, self.pairs.tree.n_symbols)

    # ----------------------------------------------------------- constructors

    @classmethod
    def of_tokens(
        cls,
        tokens: np.ndarray | Iterator[np.ndarray],
        labels: Labels,
        max_depth: int,
        *,
        depth: int | None = None,
        skip: int = -1,
        sample_weight: np.ndarray | None = None,
        share: float | None = None,
        validation: np.ndarray | None = None,
        keep_positions: bool = False,
        extend: bool = False,
        folder: str | None = None,
    ) -> Self:
        """Count every position of a running text.

        Parameters
        ----------
        tokens : int32 ndarray of shape (n_tokens,) or iterator of such
            Tokens of `labels`, -1 before each sentence. The class of a symbol has its
            id. An iterator gives the parts of a text that is larger than memory; their
            counts are merged on the disk, and the options below do not apply, but for
            `depth`, `skip` and `folder`.

        labels : Labels
            The meaning of the ids.

        max_depth : int
            Number of columns of the windows of the text.

        depth : int, default=None
            Longest context that is counted. None: `max_depth`.

        skip : int, default=-1
            A token that is never predicted.

        sample_weight : float64 ndarray of shape (n_tokens,), default=None
            Positive weight of each predicted position.

        share : float, default=None
            Share of the positions, the last ones, that is held out.

        validation : int32 ndarray, default=None
            A text that is held out instead, laid out as `tokens`.

        keep_positions : bool, default=False
            True: count unigrams only, and keep the positions.

        extend : bool, default=False
            True: the pairs keep their `extension`, for a file of the n-grams.

        folder : str, default=None
            Folder for the files of the counts of parts. None: that of the system for
            temporary files.

        Returns
        -------
        counted : Counted
        """
        depth = max_depth if depth is None else min(depth, max_depth)

        def positions(tokens, weight=None):
            return Positions.of_tokens(tokens, depth, skip, weight)

        if keep_positions:
            samples = positions(tokens, sample_weight)
            return cls._unigrams(samples, labels, max_depth, depth)
        if share is not None:
            samples = positions(tokens, sample_weight)
            return cls._of(samples, labels, max_depth, depth, share, None)
        sizes = labels.known_symbols("counting").size, labels.n_classes
        if isinstance(tokens, np.ndarray):
            counts = count_tokens(
                tokens, depth, *sizes, skip=skip, weight=sample_weight,
                extend=extend,
            )  # fmt: skip
        else:
            with CountRuns(folder) as runs:
                for part in tokens:
                    runs.add(*count_tokens(part, depth, *sizes, skip=skip))
                    del part
                counts = runs.finish()
        counted = cls(*counts, labels, max_depth, depth)
        if validation is not None:
            counted = counted._with_held_out(positions(validation))
        return counted

    @classmethod
    def of_windows(
        cls,
        windows: np.ndarray | Columns,
        target: np.ndarray,
        labels: Labels,
        *,
        depth: int | None = None,
        sample_weight: np.ndarray | None = None,
        share: float | None = None,
        validation: tuple[np.ndarray, np.ndarray, np.ndarray | None] | None = None,
        keep_positions: bool = False,
        closed: bool = False,
        min_count: int = 1,
    ) -> Self:
        """Count windows of context symbols and the classes that followed them.

        Parameters
        ----------
        windows : int32 ndarray of shape (n_samples, n_columns), or Columns
            Symbol ids of `labels`, the last column the most recent; -1 ends a
            history. `Columns` without `share` and `validation`, and with positive
            weights.

        target : int32 ndarray of shape (n_samples,)
            Class ids of `labels`.

        labels : Labels
            The meaning of the ids.

        depth : int, default=None
            Longest context that is counted. None: the number of columns.

        sample_weight : float64 ndarray of shape (n_samples,), default=None
            Non-negative weights; 0 is as if absent.

        share : float, default=None
            Share of the samples, the last ones, that is held out.

        validation : tuple of ndarrays, default=None
            Windows, targets and positive weights (None: 1) that are held out instead.

        keep_positions : bool, default=False
            True: count unigrams only, and keep the samples.

        closed : bool, default=False
            True: later batches may have no other classes.

        min_count : int, default=1
            Contexts whose samples weigh less in sum are not made: with it the result
            is that of `frequent`, and takes less memory.

        Returns
        -------
        counted : Counted
        """
        max_depth = windows.depth if isinstance(windows, Columns) else windows.shape[1]
        depth = max_depth if depth is None else min(depth, max_depth)

        def positions(windows, target, weight):
            if isinstance(windows, Columns):
                histories = windows._replace(depth=depth)
            else:
                histories = Histories.from_windows(windows, depth)
            return Positions(histories, target, weight)

        samples = positions(windows, target, sample_weight)
        if sample_weight is not None and not (sample_weight > 0).all():
            samples = samples.select(sample_weight > 0)
        if keep_positions:
            counted = cls._unigrams(samples, labels, max_depth, depth)
            return replace(counted, closed=closed)
        if validation is not None:
            validation = positions(*validation)
        counted = cls._of(
            samples, labels, max_depth, depth, share, validation, min_count
        )
        return replace(counted, closed=closed)

    @classmethod
    def of_paths(
        cls,
        X: Any,
        target: np.ndarray,
        labels: Labels,
        *,
        depth: int | None = None,
        sample_weight: np.ndarray | None = None,
        share: float | None = None,
        validation: tuple[Any, np.ndarray, np.ndarray | None] | None = None,
    ) -> Self:
        """Count the paths of a matrix and the classes that followed them.

        Parameters
        ----------
        X : CSR matrix of shape (n_samples, n_columns)
            Paths; see `SuffixTreeVectorizer`.

        target : int32 ndarray of shape (n_samples,)
            Class ids of `labels`.

        labels : Labels
            The meaning of the class ids; the symbols of the contexts are not known.

        depth : int, default=None
            Longest context that is allowed. None: any.

        sample_weight : float64 ndarray of shape (n_samples,), default=None
            Non-negative weights; 0 is as if absent.

        share : float, default=None
            Share of the samples, the last ones, that is held out.

        validation : tuple, default=None
            Path matrix, targets and positive weights (None: 1) that are held out
            instead.

        Returns
        -------
        counted : Counted
        """
        samples = PathRows(X, target, sample_weight)
        if sample_weight is not None and not (sample_weight > 0).all():
            samples = samples.select(sample_weight > 0)
        if validation is not None:
            validation = PathRows(*validation)
        return cls._of(samples, labels, X.shape[1], depth, share, validation)

    @classmethod
    def _of(cls, samples, labels, max_depth, depth, share, validation, min_count=1):
        def count(samples):
            pairs, numbers, paths = samples.tree(labels, depth, min_count)
            longest = pairs.tree.max_depth if depth is None else depth
            return cls(pairs, numbers, labels, max_depth, longest, paths)

        if share is None:
            counted = count(samples)
            return counted if validation is None else counted._with_held_out(validation)
        n_held = last_share(
            samples.target.size, share, f"validation_fraction={share!r}"
        )
        last = samples.select(slice(-n_held, None))
        tuned = count(samples.select(slice(-n_held)))._with_held_out(last, share)
        return replace(tuned, whole=count(samples))

    @classmethod
    def _unigrams(cls, samples, labels, max_depth, depth):
        root = tree_of_arrays(
            *np.full((2, 1), -1, dtype=np.int32), np.array([0, 1]), labels.n_symbols
        )
        node = np.zeros(samples.target.size, dtype=np.int32)
        counted = Pairs.count(
            root, node, samples.target, labels.n_classes, samples.weight
        )
        return cls(*counted, labels, max_depth, depth, positions=samples)

    def _with_held_out(self, samples, fraction=None):
        if not samples.target.size:
            raise ValueError("X_val holds no sample of positive weight")
        pairs, count = self.trie()
        node = samples.locate(self)
        held_out = HeldOut.of_samples(
            pairs, node, samples.target, samples.weight, fraction
        )
        return replace(self, pairs=pairs, count=count, held_out=held_out)

    # ------------------------------------------------------------- operations

    @classmethod
    def merge(cls, parts: Sequence[Counted], labels: Labels | None = None) -> Self:
        """The counts of several parts of a text, of batches or of shards.

        Parameters
        ----------
        parts : sequence of Counted
            Of text or windows, counted to one depth, without held-out samples.

        labels : Labels, default=None
            Those of the result, which hold the labels of all parts in their order.
            None: the labels of all parts.

        Returns
        -------
        counted : Counted
            Equal to the counts of all parts together, exactly so where sums of weights
            have no rounding error, as for whole numbers.

        Raises
        ------
        ValueError
            If the parts are of different depths, or one of them cannot be merged: a
            path matrix, whose columns belong to one tree, or with held-out samples.
        TypeError
            If a part is not a `Counted`, or the labels of the parts are of kinds that
            do not compare.
        """
        if not parts:
            raise ValueError("parts is empty: there is nothing to merge")
        for k, part in enumerate(parts):
            if not isinstance(part, Counted):
                raise TypeError(
                    f"parts[{k}] must be a Counted, got {type(part).__name__}"
                )
        first = parts[0]
        for part in parts:
            part._check_mergeable(first)
        if labels is None:
            labels = _labels_of_all([part.labels for part in parts])
        moved = [_renumbered(p.pairs, p.count, p.numbering(labels)) for p in parts]
        if len(moved) == 1:
            pairs, count = moved[0]
        else:
            tree, index = ContextTree.merge([pairs.tree for pairs, _ in moved])
            pairs, count = Pairs.merge(
                tree, [(*part, of_part) for part, of_part in zip(moved, index)]
            )
        return cls(
            pairs, count, labels, first.max_depth, first.depth, closed=first.closed
        )

    def _check_mergeable(self, first):
        if self.paths is not None:
            raise ValueError(
                "parts: the columns of a path matrix belong to one tree; count dense "
                "context windows to merge them"
            )
        if self.held_out is not None or self.positions is not None:
            raise ValueError(
                "parts: counts with held-out samples or positions cannot be merged; "
                "count without them"
            )
        if (self.max_depth, self.depth) != (first.max_depth, first.depth):
            raise ValueError(
                f"parts were counted to the depths {first.depth} and {self.depth} of "
                f"windows of {first.max_depth} and {self.max_depth}; count them alike"
            )

    def decayed(self, factor: float) -> Self:
        """All counts times a factor.

        Parameters
        ----------
        factor : float
            Above 0 and at most 1.

        Returns
        -------
        counted : Counted
            Without pairs of less than 1e-9 samples; all classes stay.
        """
        check_forgetting(factor, None)
        count = self.count * float(factor)
        keep = count >= SMALLEST
        counted = replace(self, count=count, batches=(), growth=None)
        if keep[self.pairs.n_classes :].all():
            return counted
        return counted.select(keep)

    def select(self, keep: np.ndarray) -> Self:
        """Some of the pairs.

        Parameters
        ----------
        keep : bool ndarray of shape (n_pairs,)
            Pairs to keep; those of the root stay in any case.

        Returns
        -------
        counted : Counted
            Without path matrix, held-out samples and batches.
        """
        pairs, kept = self.pairs.select(keep)
        return type(self)(
            pairs, self.count[kept], self.labels, self.max_depth, self.depth,
            closed=self.closed,
        )  # fmt: skip

    def cut(self, depth: int | None) -> Counted:
        """The counts of contexts of up to `depth` symbols; None: of all.

        Raises
        ------
        ValueError
            If `depth` is not an integer of at least 0, or contexts were merged into
            paths of several symbols.
        """
        if depth is not None:
            depth = check_count("depth", depth, 0)
        if depth is None or depth >= self.depth:
            return self
        if self.positions is not None:
            flat, offset, length = self.positions.stored
            histories = Histories(flat, offset, np.minimum(length, depth))
            positions = self.positions._replace(histories=histories)
            return replace(self, depth=depth, positions=positions)
        tree = self.pairs.tree
        if tree.max_depth <= depth:
            return replace(self, depth=depth)
        if self.paths is not None:
            raise _too_long(tree, depth)
        cut = self._of_contexts(np.arange(tree.n_nodes) < tree.level(depth).stop)
        whole = None if self.whole is None else self.whole.cut(depth)
        return replace(cut, depth=depth, whole=whole)

    def frequent(self, min_count: int) -> Counted:
        """The counts of the contexts whose samples weigh enough.

        Parameters
        ----------
        min_count : int
            Contexts whose samples weigh less in sum are left out; at least 1, which
            keeps all. Samples held out, or counted in `whole`, do not count here.

        Returns
        -------
        counted : Counted
            Without batches.

        Raises
        ------
        ValueError
            If `min_count` is not an integer of at least 1, or contexts were merged
            into paths of several symbols.
        """
        check_count("min_count", min_count, 1)
        if min_count == 1:
            return self
        tree = self.pairs.tree
        if tree.span is not None:
            raise ValueError(
                f"min_count={min_count} needs a context for every node, but the paths "
                "of X merge contexts; set collapse=False in SuffixTreeVectorizer, or "
                "leave min_count 1"
            )
        whole = None if self.whole is None else self.whole.frequent(min_count)
        keep = self.pairs.node_sums(self.count) >= least_weight(min_count)
        keep[0] = True
        if keep.all():
            return replace(self, whole=whole)
        frequent = self._of_contexts(keep)
        if self.paths is not None:
            # All nodes of the trie have pairs.
            number = tree.select(keep)[1]
            at = self.paths.node_of_column
            column = np.where(at < 0, -1, number[np.maximum(at, 0)]).astype(np.int32)
            paths = PathTree(frequent.pairs.tree, column)
            frequent = replace(frequent, paths=paths)
        return replace(frequent, whole=whole)

    def _of_contexts(self, keep):
        """The counts of some contexts; held-out samples move to those that stay."""
        keep = np.repeat(keep, np.diff(self.pairs.ptr))
        selected = self.select(keep)
        if self.held_out is None:
            return selected
        node, target, weight = self.held_out.samples()
        place = self.pairs.tree.nearest(selected_nodes(self.pairs, keep))
        held_out = HeldOut.of_samples(
            selected.pairs, place[node], target, weight, self.held_out.fraction
        )
        return replace(selected, held_out=held_out)

    def added_to(
        self,
        before: Counted | None,
        *,
        decay: float | None = None,
        window: int | None = None,
    ) -> Counted:
        """The counts of a batch and of those before it.

        Parameters
        ----------
        before : Counted or None
            Of the batches before; None before the first.

        decay : float, default=None
            Factor of the counts before.

        window : int, default=None
            Number of the last batches, this included, that are counted.

        Returns
        -------
        counted : Counted
            With the batches of the window, and with `before` in `growth`.
        """
        if before is None:
            return replace(self, batches=() if window is None else (self.compact(),))
        batches: tuple[Counted, ...] = ()
        if window is None:
            old = before if decay is None else before.decayed(decay)
            counted = Counted.merge([old, self])
        elif not before.batches:
            raise ValueError(
                "window must be given from the first batch on: batches before it were "
                "not kept apart"
            )
        else:
            kept = before.batches[max(0, len(before.batches) - window + 1) :]
            batches = (*kept, self.compact())
            counted = Counted.merge(batches)
        weight = float(self.count[: self.labels.n_classes].sum())
        ids = before.numbering(counted.labels)
        growth = Growth(replace(before, growth=None, batches=()), ids, weight)
        return replace(counted, batches=batches, growth=growth)

    def compact(self) -> Self:
        """The same with counts of four bytes, if that is exact, without `growth`."""
        count = self.count
        if count.dtype != np.int32 and count.max(initial=0.0) <= INT32_MAX:
            small = count.astype(np.int32)
            count = small if np.array_equal(small, count) else count
        return replace(self, count=count, growth=None)

    def trie(self, *, copy: bool = False) -> tuple[Pairs, np.ndarray]:
        """(pairs, counts as floats) of the trie, in which merged contexts are apart.

        copy: True if the caller overwrites the counts, which are then a copy.
        """
        if self.pairs.tree.span is None:
            count = np.array(self.count, dtype=np.float64, copy=copy or None)
            return self.pairs, count
        pairs, source = expand_pairs(self.pairs)
        return pairs, self.count[source]

    def complete(self, min_count: int = 1) -> Counted:
        """The same with the contexts of `positions` counted.

        min_count: as in `frequent`.
        """
        if self.positions is None:
            return self
        pairs, count, _ = self.positions.tree(self.labels, self.depth, min_count)
        return replace(self, pairs=pairs, count=count, positions=None)

    @property
    def undivided(self) -> Counted:
        """The counts of all samples, those that are held out as a share included."""
        return self if self.whole is None else self.whole

    @property
    def longest(self) -> int:
        """Length of the longest context of a sample."""
        if self.positions is not None:
            return int(self.positions.stored.length.max(initial=0))
        return self.pairs.tree.max_depth

    def in_ids(self) -> Self:
        """The same counts, with ids for labels."""
        ids = Labels.of_ids(self.labels.n_classes, self.labels.n_symbols)
        whole = None if self.whole is None else replace(self.whole, labels=ids)
        return replace(self, labels=ids, whole=whole, batches=())

    def freeze(self) -> Self:
        """Make the arrays read-only; returns the same object."""
        tree = self.pairs.tree
        arrays = [self.pairs.ptr, self.pairs.target, self.count]
        if self.pairs.has_parents:
            arrays.append(self.pairs.parent)
        for array in (*arrays, tree.parent, tree.symbol, tree.level_ptr):
            array.flags.writeable = False
        if self.whole is not None:
            self.whole.freeze()
        return self

    # ---------------------------------------------------------------- reading

    @cached_property
    def digest(self) -> str:
        """A hash of the content: equal for equal counts, different for others."""
        tree = self.pairs.tree
        found = blake2b(digest_size=32)
        labels = self.labels
        marks = labels.start, labels.end, labels.unknown
        found.update(repr((self.max_depth, self.depth, self.closed, marks)).encode())
        for array in (labels.classes, labels.symbols):
            values = None if array is None else [(type(v), v) for v in array.tolist()]
            found.update(repr(values).encode())
        span = tree.span
        arrays = [tree.parent, tree.symbol, tree.level_ptr, self.pairs.ptr]
        arrays += [self.pairs.target, np.asarray(self.count, dtype=np.float64)]
        paths = None if self.paths is None else self.paths.node_of_column
        held_out = [None] if self.held_out is None else self.held_out.samples()
        found.update(digest(*arrays, span, paths, *held_out, size=32).encode())
        if self.positions is not None:
            target, weight = self.positions.target, self.positions.weight
            found.update(digest(*self.positions.stored, target, weight).encode())
        for other in (self.whole, *self.batches):
            found.update(str(None if other is None else other.digest).encode())
        return found.hexdigest()

    def reader(self, padding: Any) -> PathReader | WindowReader:
        """The reader that finds the node of each row of X for a fitted model."""
        if self.paths is not None:
            return PathReader(self.paths)
        return WindowReader(padding, self.labels.known_symbols("reading windows"))

    def numbering(self, labels: Labels) -> Numbering:
        """The ids that the classes and symbols have in other labels, -1 for none.

        Raises
        ------
        TypeError
            If the other labels are not in the order of these.
        """
        ids = []
        old, what = self.labels, "merging"
        for known, new in (
            (old.classes, labels.classes),
            (old.known_symbols(what), labels.known_symbols(what)),
        ):
            found = encode(known, new)
            there = found[found >= 0]
            if (there[1:] <= there[:-1]).any():
                raise TypeError(
                    "X: the symbols of the batches are of kinds that do not compare, "
                    "so their order is not kept; give vocabulary to partial_fit"
                )
            ids.append(found)
        return ids[0], labels.n_classes, ids[1], labels.known_symbols(what).size

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of pairs and counts."""
        tree, pairs = self.pairs.tree, self.pairs
        arrays = [pairs.ptr, pairs.target, self.count, tree.parent, tree.symbol]
        if pairs.has_parents:
            arrays.append(pairs.parent)
        return sum(array.nbytes for array in arrays)

    def __sizeof__(self):
        # Dask plans with this size.
        labels = [self.labels.classes, self.labels.symbols]
        size = object.__sizeof__(self) + self.pairs.__sizeof__() + self.count.nbytes
        return size + sum(array.nbytes for array in labels if array is not None)

    def __repr__(self):
        weight = float(self.count[: self.pairs.n_classes].sum())
        n_symbols = self.pairs.tree.n_symbols
        return (
            f"<Counted: {weight:g} samples, {self.pairs.n_pairs} (context, class) "
            f"pairs, contexts of up to {self.longest} of {n_symbols} symbols>"
        )


def bytes_per_token(max_depth: int) -> int:
    """Upper bound, in bytes, of the memory of counting a text, for each token."""
    return _BYTES_PER_TOKEN + _BYTES_PER_DEPTH * max_depth


def check_forgetting(decay: Any, window: Any) -> None:
    """Errors about the arguments of `partial_fit`."""
    if decay is not None and window is not None:
        raise ValueError("decay and window both forget: give one of them")
    if decay is not None and not (
        isinstance(decay, Real) and 0.0 < float(decay) <= 1.0
    ):
        raise ValueError(f"decay must be above 0 and at most 1, got {decay!r}")
    if window is not None:
        check_count("window", window, 1)


def _too_long(tree, depth):
    return ValueError(
        f"max_depth={depth}, but the paths of X are up to {tree.max_depth} symbols "
        "long: set max_depth on SuffixTreeVectorizer, and leave it None here"
    )


def _renumbered(pairs, count, ids):
    """(pairs, counts) under other ids."""
    class_ids, n_classes, symbol_ids, n_symbols = ids
    same = class_ids.size == n_classes and symbol_ids.size == n_symbols
    if same and class_ids.min(initial=0) >= 0 and symbol_ids.min(initial=0) >= 0:
        # Rising ids without a gap equal the old ones.
        return pairs, np.asarray(count, dtype=np.float64)
    pairs, place = pairs.renumber(*ids)
    out = np.zeros(pairs.n_pairs)
    there = place >= 0
    out[place[there]] = count[there]
    return pairs, out


def _place_in(old, ids, new):
    """The number of each old pair among new ones of another numbering, -1 for none."""
    class_ids, _, symbol_ids, _ = ids
    tree, stays = old.tree, np.ones(old.tree.n_nodes, dtype=bool)
    for k in range(1, tree.n_levels):
        here = tree.level(k)
        stays[here] = stays[tree.parent[here]] & (symbol_ids[tree.symbol[here]] >= 0)
    moved, kept = old.select(stays[old.nodes()] & (class_ids[old.target] >= 0))
    moved, place = moved.renumber(*ids)
    tree, (of_moved, of_new) = ContextTree.merge([moved.tree, new.tree])
    node = np.full(tree.n_nodes, -1, dtype=np.int32)
    node[of_new] = np.arange(of_new.size, dtype=np.int32)
    node = node[of_moved[moved.nodes()]]
    there = np.flatnonzero(node >= 0)
    at = np.full(moved.n_pairs, -1, dtype=np.int32)
    at[there] = new.find(node[there], moved.target[there])
    stays = place >= 0  # the root has the classes that are gone, too
    out = np.full(old.n_pairs, -1, dtype=np.int32)
    out[kept[stays]] = at[place[stays]]
    return out


def _labels_of_all(parts):
    """The labels of several parts: sorted, and the marks last."""
    first, *others = parts
    if all(other == first for other in others):
        return first
    for other in others:
        if first.settings != other.settings:
            raise ValueError(
                "parts were counted with other marks (start, end, unknown) or another "
                "analyzer; count them alike"
            )
    # The order of the marks in a LanguageModel.
    last = [m for m in (first.unknown, first.end, first.start) if m is not None]
    classes = _union("y", [part.classes for part in parts], last)
    symbols = _union("X", [part.symbols for part in parts], last)
    return Labels(classes, symbols, **first.settings)


def _union(name: str, parts: Iterable[np.ndarray], last: list) -> np.ndarray:
    """The labels of all, sorted; the marks that are among them last."""
    parts = list(parts)
    if all(np.array_equal(part, parts[0]) for part in parts):
        return parts[0]
    if last:
        known = dict.fromkeys(value for part in parts for value in part.tolist())
        words = sort_symbols(word for word in known if word not in last)
        return object_array(words + [mark for mark in last if mark in known])
    kinds = {"S" if a.dtype.kind in "OSU" else "n" for a in parts if a.size}
    if len(kinds) > 1:
        # numpy would turn the numbers into strings.
        raise TypeError(
            f"{name} holds strings in one batch and numbers in another; use one kind"
        )
    return learn_symbols(np.concatenate(parts), name=name)
