"""Counted: a counted text, the input of every fit.

`_counting` has the functions that count how often each class followed each context.
Fits, searches, batches and the workers of a cluster all take a `Counted`. Three
subclasses store more than counts:

===================  =================================================================
`CountedPaths`       rows of a path matrix, with the nodes of its columns
`HeldOutSplit`       counts of the training samples, and the held-out samples
`DeferredCounts`     unigrams, and the samples, whose contexts are counted in the fit
===================  =================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from .._checks import check_count, last_share, least_weight
from ..context_tree import (
    ContextTree,
    Pairs,
    expand_pairs,
    merge_counts,
    renumber_pairs,
)
from ..symbols import (
    Labels,
    check_sizes,
    encode,
    learn_symbols,
    union_labels,
)
from ._readers import PathReader, PathTree, WindowReader
from ._samples import Positions
from ._selected import selected_nodes
from ._slots import HeldOut

# The arguments of `renumber_pairs`: for classes and for symbols the new ids, in rising
# order, and their number. -1 marks a removed id, whose counts are 0.
Numbering = tuple[np.ndarray, int, np.ndarray, int]


@dataclass(frozen=True, eq=False, repr=False)
class Counted:
    r"""Counts of a text, of windows or of paths, for models over contexts.

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

    # The reason why counts of this kind cannot be merged; empty if they can be merged.
    _unmergeable: ClassVar[str] = ""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take pickled counts; ValueError if the labels do not fit the pairs."""
        self.__dict__.update(state)
        check_sizes(self.labels, self.pairs.n_classes, self.pairs.tree.n_symbols)

    @classmethod
    def merge(cls, parts: Sequence[Counted], labels: Labels | None = None) -> Self:
        """Merge the counts of several parts of a text, of batches or of shards.

        Parameters
        ----------
        parts : sequence of Counted
            Counts of text or windows, with the same depth and without held-out samples.

        labels : Labels, default=None
            Labels of the result, which contain the labels of all parts in their order.
            None: the union of the labels of the parts.

        Returns
        -------
        counted : Counted
            The counts of all parts together. They are exact if sums of weights have no
            rounding error, as for whole numbers.

        Raises
        ------
        ValueError
            If the depths of the parts differ, or a part cannot be merged: counts of a
            path matrix, whose columns belong to one tree, counts with held-out samples,
            or counts with a vocabulary that `min_count` or `max_vocabulary` selected on
            one part.
        TypeError
            If a part is not a `Counted`, or labels of different parts cannot be sorted
            together.
        """
        if isinstance(parts, Counted):
            raise TypeError("parts must be a sequence of Counted, got a Counted")
        if not parts:
            raise ValueError("parts is empty: there is nothing to merge")
        for k, part in enumerate(parts):
            if not isinstance(part, Counted):
                raise TypeError(
                    f"parts[{k}] must be a Counted, got {type(part).__name__}"
                )
        first = parts[0]
        depths = first.max_depth, first.depth
        for part in parts:
            part.check_mergeable()
            if (part.max_depth, part.depth) != depths:
                raise ValueError(
                    f"parts were counted to the depths {first.depth} and {part.depth} "
                    f"of windows of {first.max_depth} and {part.max_depth}; count them "
                    "alike"
                )
        if labels is None:
            labels = _labels_of_all([part.labels for part in parts])
        moved = [_renumbered(p.pairs, p.count, p.numbering(labels)) for p in parts]
        pairs, count, _ = merge_counts(moved)
        return cls(pairs, count, labels, *depths)

    def check_mergeable(self) -> None:
        """ValueError if counts of this kind cannot be merged."""
        if self._unmergeable:
            raise ValueError(f"parts: {self._unmergeable}")

    def cut(self, depth: int | None) -> Self:
        """The counts of contexts of at most a given length.

        Parameters
        ----------
        depth : int or None
            Largest number of symbols of a context, at least 0; None: no limit.

        Returns
        -------
        counted : Counted

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
        tree, cut = self.pairs.tree, self
        if tree.max_depth > depth:
            cut = self._of_contexts(np.arange(tree.n_nodes) < tree.level(depth).stop)
        return replace(cut, depth=depth)

    def frequent(self, min_count: int) -> Self:
        """The counts of contexts with a minimum total weight of samples.

        Parameters
        ----------
        min_count : int
            Contexts whose samples have a smaller total weight are left out. At least 1,
            which keeps all contexts. Held-out samples are not counted.

        Returns
        -------
        counted : Counted

        Raises
        ------
        ValueError
            If `min_count` is not an integer of at least 1, or contexts were merged
            into paths of several symbols.
        """
        check_count("min_count", min_count, 1)
        if min_count == 1:
            return self
        if self.pairs.tree.span is not None:
            raise ValueError(
                f"min_count={min_count} needs a context for every node, but the paths "
                "of X merge contexts; set collapse=False in SuffixTreeVectorizer, or "
                "leave min_count 1"
            )
        keep = self.pairs.node_sums(self.count) >= least_weight(min_count)
        keep[0] = True
        return self if keep.all() else self._of_contexts(keep)

    def _of_contexts(self, keep):
        """The counts of some contexts, with the other data of the object."""
        pairs, kept = self.pairs.select(np.repeat(keep, np.diff(self.pairs.ptr)))
        return replace(self, pairs=pairs, count=self.count[kept])

    def with_labels(self, labels: Labels) -> Self:
        """The same counts with other labels, in the same order."""
        return replace(self, labels=labels)

    def with_ids(self) -> Self:
        """Labels replaced by 0, 1, ..., n - 1."""
        ids = Labels.of_ids(self.labels.n_classes, self.labels.n_symbols)
        return self.with_labels(ids)

    def expanded(self, *, copy: bool = False) -> tuple[Pairs, np.ndarray]:
        """(pairs, float64 counts) of the trie, which has one node per context.

        copy: True to return a copy of the counts, which the caller may overwrite.
        """
        if self.pairs.tree.span is None:
            count = np.array(self.count, dtype=np.float64, copy=copy or None)
            return self.pairs, count
        pairs, source = expand_pairs(self.pairs)
        return pairs, self.count[source]

    def count_now(self, min_count: int = 1) -> Counted:
        """The same counts with all contexts; `DeferredCounts` counts the contexts here.

        min_count: as in `frequent`; used by `DeferredCounts`.
        """
        return self

    @property
    def all_counts(self) -> Counted:
        """The counts of all samples, including a held-out share of the samples."""
        return self

    @property
    def longest(self) -> int:
        """Length of the longest context of a sample."""
        return self.pairs.tree.max_depth

    def freeze(self) -> Self:
        """Make the arrays read-only; returns the same object."""
        for part in (self, self.pairs, self.pairs.tree):
            for array in vars(part).values():
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False
        return self

    # ---------------------------------------------------------------- reading

    def locate(self, samples: Any) -> np.ndarray:
        """The deepest node of each context of other samples, in the trie."""
        return samples.locate(self.pairs.tree)

    def reader(self, padding: Any) -> PathReader | WindowReader:
        """The reader that finds the node of each row of X for a fitted model."""
        return WindowReader(padding, self.labels.known_symbols("reading windows"))

    def numbering(self, labels: Labels) -> Numbering:
        """The ids that the classes and symbols have in other labels, -1 if absent.

        Parameters
        ----------
        labels : Labels
            The other labels.

        Returns
        -------
        ids : Numbering

        Raises
        ------
        TypeError
            If the labels have another order in `labels`.
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
                    "X: the symbols of the batches have types that cannot be sorted, "
                    "so their order is not kept; give vocabulary to partial_fit"
                )
            ids.append(found)
        return ids[0], labels.n_classes, ids[1], labels.known_symbols(what).size

    def __sizeof__(self):
        # Dask plans with this size.
        labels = [self.labels.classes, self.labels.symbols]
        size = object.__sizeof__(self) + self.pairs.__sizeof__() + self.count.nbytes
        return size + sum(array.nbytes for array in labels if array is not None)

    def __repr__(self):
        weight = float(self.count[: self.pairs.n_classes].sum())
        n_symbols = self.pairs.tree.n_symbols
        return (
            f"<{type(self).__name__}: {weight:g} samples, {self.pairs.n_pairs} "
            f"(context, class) pairs, contexts of up to {self.longest} of {n_symbols} "
            "symbols>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class FrequentWords(Counted):
    """Counts of a text whose rare words were replaced by the unknown word."""

    _unmergeable = (
        "min_count or max_vocabulary chose the words of each part, and words that are "
        "rare in one part would be lost; count the parts with one vocabulary"
    )


@dataclass(frozen=True, eq=False, repr=False)
class CountedPaths(Counted):
    """Counts of the rows of a path matrix; `paths` has the nodes of its columns."""

    paths: PathTree

    _unmergeable = (
        "the columns of a path matrix belong to one tree; count dense context windows "
        "to merge them"
    )

    def cut(self, depth: int | None) -> Self:
        tree = self.pairs.tree
        if depth is not None and tree.max_depth > check_count("depth", depth, 0):
            raise too_long(tree, depth)
        return super().cut(depth)

    def _of_contexts(self, keep):
        few = super()._of_contexts(keep)
        # All nodes of the trie have pairs.
        number, at = self.pairs.tree.select(keep)[1], self.paths.node_of_column
        column = np.where(at < 0, -1, number[np.maximum(at, 0)]).astype(np.int32)
        return replace(few, paths=PathTree(few.pairs.tree, column))

    def locate(self, samples: Any) -> np.ndarray:
        return samples.locate(self.paths)

    def reader(self, padding: Any) -> PathReader:
        return PathReader(self.paths)


@dataclass(frozen=True, eq=False, repr=False)
class HeldOutSplit(Counted):
    """Counts of training samples, for estimators that tune parameters on held-out
    samples.

    The model is fitted to `full`: the counts of all samples if a share of them is held
    out, the counts of the training samples if the held-out samples are separate.
    """

    held_out: HeldOut
    full: Counted

    _unmergeable = "counts with held-out samples cannot be merged; count without them"

    @classmethod
    def of_samples(
        cls,
        train: Counted,
        samples: Any,
        full: Counted,
        fraction: float | None = None,
    ) -> Self:
        """Combine held-out samples with the counts of the training samples."""
        if not samples.target.size:
            raise ValueError("X_val holds no sample of positive weight")
        pairs, count = train.expanded()
        held_out = HeldOut.of_samples(
            pairs, train.locate(samples), samples.target, samples.weight, fraction
        )
        labels, depths = train.labels, (train.max_depth, train.depth)
        return cls(pairs, count, labels, *depths, held_out, full)

    @classmethod
    def of_share(
        cls, samples: Any, share: float, count: Callable[[Any], Counted]
    ) -> Self:
        """The last share of the samples is held out; `count` counts samples."""
        n_held = last_share(
            samples.target.size, share, f"validation_fraction={share!r}"
        )
        train, last = slice(-n_held), slice(-n_held, None)
        counted = count(samples.select(train))
        return cls.of_samples(counted, samples.select(last), count(samples), share)

    def cut(self, depth: int | None) -> Self:
        return replace(super().cut(depth), full=self.full.cut(depth))

    def frequent(self, min_count: int) -> Self:
        return replace(super().frequent(min_count), full=self.full.frequent(min_count))

    def _of_contexts(self, keep):
        few = super()._of_contexts(keep)
        node, target, weight = self.held_out.samples()
        pairs = np.repeat(keep, np.diff(self.pairs.ptr))
        nearest = self.pairs.tree.nearest(selected_nodes(self.pairs, pairs))
        held_out = HeldOut.of_samples(
            few.pairs, nearest[node], target, weight, self.held_out.fraction
        )
        return replace(few, held_out=held_out)

    def with_labels(self, labels: Labels) -> Self:
        return replace(self, labels=labels, full=self.full.with_labels(labels))

    @property
    def all_counts(self) -> Counted:
        return self.full

    def freeze(self) -> Self:
        self.full.freeze()
        return super().freeze()


@dataclass(frozen=True, eq=False, repr=False)
class DeferredCounts(Counted):
    """Counts of unigrams, with the samples; the estimator counts contexts in its
    fit."""

    positions: Positions

    _unmergeable = (
        "counts whose contexts are not counted yet cannot be merged; count without "
        "keep_positions"
    )

    @classmethod
    def of_samples(
        cls, samples: Positions, labels: Labels, max_depth: int, depth: int
    ) -> Self:
        """Count the unigrams."""
        root = ContextTree(np.array([-1]), np.array([-1]), labels.n_symbols)
        node = np.zeros(samples.target.size, dtype=np.int32)
        counted = Pairs.count(
            root, node, samples.target, labels.n_classes, samples.weight
        )
        return cls(*counted, labels, max_depth, depth, samples)

    def cut(self, depth: int | None) -> Self:
        cut = super().cut(depth)
        if cut is self:
            return self
        return replace(cut, positions=self.positions.cut(cut.depth))

    def count_now(self, min_count: int = 1) -> Counted:
        pairs, count = self.positions.tree(self.labels, min_count)
        return Counted(pairs, count, self.labels, self.max_depth, self.depth)

    @property
    def longest(self) -> int:
        return int(self.positions.stored.length.max(initial=0))


def check_counted(counted: Any, name: str = "counted") -> None:
    """TypeError, with the `name` of the parameter, if `counted` is not a Counted."""
    if not isinstance(counted, Counted):
        raise TypeError(
            f"{name} must be a Counted, from LanguageModel.count, got "
            f"{type(counted).__name__}"
        )


def too_long(tree: ContextTree, depth: int) -> ValueError:
    """The error about paths that are longer than `max_depth`."""
    return ValueError(
        f"max_depth={depth}, but the paths of X are up to {tree.max_depth} symbols "
        "long: set max_depth on SuffixTreeVectorizer, and leave it None here"
    )


def _renumbered(pairs, count, ids):
    """(pairs, counts) under other ids."""
    class_ids, n_classes, symbol_ids, n_symbols = ids
    same = class_ids.size == n_classes and symbol_ids.size == n_symbols
    if same and class_ids.min(initial=0) >= 0 and symbol_ids.min(initial=0) >= 0:
        # Rising ids without a gap equal the old ids.
        return pairs, np.asarray(count, dtype=np.float64)
    out = np.zeros(n_classes + count.size - class_ids.size)
    there = class_ids >= 0
    out[class_ids[there]] = count[: class_ids.size][there]
    out[n_classes:] = count[class_ids.size :]
    return renumber_pairs(pairs, *ids), out


def _labels_of_all(parts):
    """The union of the labels of several parts: sorted, and the marks last."""
    first, *others = parts
    if all(other == first for other in others):
        return first
    for other in others:
        if first.settings != other.settings:
            raise ValueError(
                "parts were counted with other marks (start, end, unknown) or another "
                "analyzer; count them alike"
            )
    if any(mark is not None for mark in (first.unknown, first.end, first.start)):
        return union_labels(parts)
    classes = _union("y", [part.classes for part in parts])
    symbols = _union("X", [part.symbols for part in parts])
    return Labels(classes, symbols, **first.settings)


def _union(name: str, parts: list[np.ndarray]) -> np.ndarray:
    """The union of the labels, sorted."""
    if all(np.array_equal(part, parts[0]) for part in parts):
        return parts[0]
    kinds = {"S" if a.dtype.kind in "OSU" else "n" for a in parts if a.size}
    if len(kinds) > 1:
        # numpy would turn the numbers into strings.
        raise TypeError(
            f"{name} holds strings in one batch and numbers in another; use one kind"
        )
    return learn_symbols(np.concatenate(parts), name=name)
