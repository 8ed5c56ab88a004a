"""Distribution: the interface of every fitted model of this package.

A *distribution* is P(y | x) over the classes 0 ... n_classes - 1. Its contexts x are
arrays, or nested tuples of arrays, with a row for each sample. ``locate`` turns
contexts into places (such as nodes of a tree), which the other methods take:

================================  ===================================================
``locate(contexts)``              the place of each context
``target(at, y)``                 ln P(y_i | x_i)
``rows(at)``                      ln P of every class
``best(at, k)``                   the k most probable classes
``draw(at, uniform, skip)``       a class for each number in [0, 1)
``proba(at)``                     P of every class
``group_proba(at, g)``            the sum of P over every group of classes
``target_with_groups(at, y, g)``  ``target`` and ``group_proba``
================================  ===================================================

Mixtures use two more: ``facts(at)``, numbers about the history for a gate, and
``groups()``, the model's own groups of classes. ``compiled(source)`` is the same
distribution as a compiled model, which answers about the tokens of a text; models that
are made of others, and language models, ask these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import check_ids, check_length
from .._parallel import row_blocks, rows_per_block
from ._core_fast import ArrayModel, Model


def take(contexts: Any, rows: Any) -> Any:
    """Some rows of contexts."""
    if isinstance(contexts, tuple):
        return tuple(take(part, rows) for part in contexts)
    return contexts.iloc[rows] if hasattr(contexts, "iloc") else contexts[rows]


def count_rows(contexts: Any) -> int:
    """Number of samples."""
    while isinstance(contexts, tuple):
        contexts = contexts[0]
    return contexts.shape[0]


def single_precision(weight: NDArray) -> NDArray:
    """Training weights for `facts`, in half the memory: the logarithm that a gate reads
    needs no more digits."""
    return np.minimum(weight, np.finfo(np.float32).max).astype(np.float32)


def draw_columns(proba: NDArray, uniform: NDArray) -> NDArray:
    """The column of each row of probabilities that a number in [0, 1) falls on."""
    total = np.cumsum(proba, axis=1)
    # Rows may miss the sum 1 by rounding: the number is scaled, not the row.
    drawn = (total <= (uniform * total[:, -1])[:, None]).sum(axis=1)
    return np.minimum(drawn, proba.shape[1] - 1)


def by_group(group: NDArray, n_groups: int) -> Iterator[tuple[int, Any]]:
    """(group, its rows in order) of every group that has some."""
    if n_groups == 1:
        if group.size:
            yield 0, slice(None)
        return
    # numpy sorts small integers by counting them.
    small = group.astype(np.int16) if n_groups < 1 << 15 else group
    order = np.argsort(small, kind="stable")
    bounds = np.searchsorted(small[order], np.arange(n_groups + 1))
    for g in np.flatnonzero(bounds[1:] > bounds[:-1]).tolist():
        rows = order[bounds[g] : bounds[g + 1]]
        # A slice takes no copy.
        yield g, slice(None) if rows.size == order.size else rows


class Distribution(ABC):
    """P(y | x) over `n_classes` classes given contexts.

    Subclasses define `rows`. The other methods here compute whole rows; subclasses
    override them with faster ones.

    Attributes
    ----------
    n_classes : int
        Classes are 0 ... n_classes - 1.

    fact_depths : tuple of int
        The depth of each tree of contexts that `facts` has columns for.
    """

    n_classes: int
    fact_depths: tuple[int, ...] = ()

    def locate(self, contexts: Any) -> Any:
        """The places, such as nodes of a tree, that the other methods look up.

        Parameters
        ----------
        contexts : array or tuple of arrays
            With a row a sample.

        Returns
        -------
        at : array or tuple of arrays
            With a row a sample.
        """
        return contexts

    @abstractmethod
    def rows(self, at: Any) -> NDArray:
        """Natural log-probabilities of all classes.

        Parameters
        ----------
        at : array or tuple of arrays
            From `locate`.

        Returns
        -------
        log_prob : ndarray of shape (n_samples, n_classes)
            A new array.
        """

    def target(self, at: Any, y: NDArray) -> NDArray:
        """Natural log-probability of one class a sample.

        Parameters
        ----------
        at : array or tuple of arrays
            From `locate`.

        y : int ndarray of shape (n_samples,)
            Class ids.

        Returns
        -------
        log_prob : ndarray of shape (n_samples,)
        """
        out = np.empty(len(y))
        for s in self._blocks(len(y)):
            rows = self.rows(take(at, s))
            out[s] = rows[np.arange(len(rows)), y[s]]
        return out

    def best(self, at: Any, k: int) -> tuple[NDArray, NDArray]:
        """The k most probable classes.

        Parameters
        ----------
        at : array or tuple of arrays
            From `locate`.

        k : int
            1 ... n_classes.

        Returns
        -------
        classes : int ndarray of shape (n_samples, k)
            Most probable first; equal probabilities by class id.

        log_prob : ndarray of shape (n_samples, k)
            Natural logarithms.
        """
        n = count_rows(at)
        classes, log_prob = np.empty((n, k), dtype=np.int64), np.empty((n, k))
        for s in self._blocks(n):
            rows = self.rows(take(at, s))
            classes[s] = np.argsort(-rows, axis=1, kind="stable")[:, :k]
            log_prob[s] = np.take_along_axis(rows, classes[s], axis=1)
        return classes, log_prob

    def draw(self, at: Any, uniform: NDArray, skip: int = -1) -> NDArray:
        """The class that each number in [0, 1) falls on.

        Parameters
        ----------
        at : array or tuple of arrays
            From `locate`.

        uniform : float64 ndarray of shape (n_samples,)
            Numbers in [0, 1).

        skip : int, default=-1
            A class that is never drawn; the row of the others is scaled. -1: none.

        Returns
        -------
        classes : int ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If nothing but `skip` has a probability.
        """
        out = np.empty(len(uniform), dtype=np.int64)
        for s in self._blocks(len(uniform)):
            proba = np.exp(self.rows(take(at, s)))
            if skip >= 0:
                proba[:, skip] = 0.0
            if not (proba.max(axis=1) > 0).all():
                raise ValueError(nothing_to_draw(skip))
            out[s] = draw_columns(proba, uniform[s])
        return out

    def proba(self, at: Any) -> NDArray:
        """Probabilities of all classes.

        Parameters
        ----------
        at : array or tuple of arrays
            From `locate`.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            A new array.
        """
        rows = self.rows(at)
        return np.exp(rows, out=rows)

    def group_proba(self, at: Any, group: NDArray) -> NDArray:
        """Probabilities of groups of classes, the sums over their classes.

        Parameters
        ----------
        at : array or tuple of arrays
            From `locate`.

        group : int ndarray of shape (n_classes,)
            The group of each class, from 0, without gaps.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_groups)
        """
        n = count_rows(at)
        out = np.empty((n, int(group.max()) + 1))
        order = np.argsort(group, kind="stable")
        first = np.searchsorted(group[order], np.arange(out.shape[1]))
        for s in self._blocks(n):
            proba = self.proba(take(at, s))
            out[s] = np.add.reduceat(proba[:, order], first, axis=1)
        return out

    def target_with_groups(
        self, at: Any, y: NDArray, group: NDArray
    ) -> tuple[NDArray, NDArray]:
        """`target` and `group_proba`; a model with these groups is asked once.

        Parameters
        ----------
        at : array or tuple of arrays
            From `locate`.

        y : int ndarray of shape (n_samples,)
            Class ids.

        group : int ndarray of shape (n_classes,)
            The group of each class, from 0, without gaps.

        Returns
        -------
        log_prob : ndarray of shape (n_samples,)

        proba : ndarray of shape (n_samples, n_groups)
        """
        return self.target(at, y), self.group_proba(at, group)

    def facts(self, at: Any) -> NDArray:
        """Numbers about the histories, which do not depend on the class.

        Parameters
        ----------
        at : array or tuple of arrays
            From `locate`.

        Returns
        -------
        facts : ndarray of shape (n_samples, 2 * len(fact_depths))
            For each tree of contexts the depth of the node that was found, and the
            logarithm of one plus the weight of the training samples at it; zeros if
            these are not known.
        """
        return np.zeros((count_rows(at), 2 * len(self.fact_depths)))

    def groups(self) -> NDArray | None:
        """The group of each class in the model's own grouping, None if absent."""
        return None

    def compiled(self, source: Any) -> Model:
        """The same distribution, compiled.

        Parameters
        ----------
        source : callable, or contexts
            A function ``source(tokens, end)`` that returns the contexts of the
            histories before ``tokens[end]``; or contexts, of which the last token of a
            history is the number. Other kinds of distributions also take a
            `_core_fast.Path` for the contexts of a tree, and a tuple for those of
            several models.

        Returns
        -------
        model : Model
            Here one that asks the methods of this object, about many contexts at once.
        """

        def find(tokens, end):
            if callable(source):
                return self.locate(source(tokens, end))
            return self.locate(take(source, tokens[end - 1]))

        return ArrayModel(self, find)

    def _blocks(self, n_samples):
        return row_blocks(n_samples, rows_per_block(self.n_classes))


class CompiledDistribution(Distribution):
    """A distribution whose questions are answered by a compiled model."""

    @abstractmethod
    def ask(self, at: Any) -> tuple[Model, NDArray, NDArray]:
        """(model, int32 tokens, int64 ends): the places as histories of the model."""

    def rows(self, at: Any) -> NDArray:
        model, *where = self.ask(at)
        return model.rows(*where)

    def proba(self, at: Any) -> NDArray:
        model, *where = self.ask(at)
        return model.rows(*where, proba=True)

    def target(self, at: Any, y: NDArray) -> NDArray:
        model, tokens, end = self.ask(at)
        y = self._class_ids(y)
        if not model.sorted_is_faster:
            return model.targets(tokens, end, y)
        out, order = np.empty(y.size), model.order(tokens, end)
        out[order] = model.targets(tokens, end[order], y[order])
        return out

    def best(self, at: Any, k: int) -> tuple[NDArray, NDArray]:
        model, *where = self.ask(at)
        return model.best_of(*where, k)

    def draw(self, at: Any, uniform: NDArray, skip: int = -1) -> NDArray:
        model, *where = self.ask(at)
        drawn = model.draws(*where, np.ascontiguousarray(uniform), skip)
        if drawn.size and drawn.min() < 0:
            raise ValueError(nothing_to_draw(skip))
        return drawn

    def group_proba(self, at: Any, group: NDArray) -> NDArray:
        model, *where = self.ask(at)
        return model.group_sums(*where, group_ids(group, self.n_classes))[0]

    def target_with_groups(
        self, at: Any, y: NDArray, group: NDArray
    ) -> tuple[NDArray, NDArray]:
        model, *where = self.ask(at)
        group, y = group_ids(group, self.n_classes), self._class_ids(y)
        proba, log_prob = model.group_sums(*where, group, y=y)
        return log_prob, proba

    def facts(self, at: Any) -> NDArray:
        model, *where = self.ask(at)
        return model.all_facts(*where)

    def _class_ids(self, y):
        y = np.ascontiguousarray(y, dtype=np.int32)
        check_ids("y", y, 0, self.n_classes, "class id")
        return y


def group_ids(group: NDArray, n_classes: int) -> NDArray:
    """The groups of classes as kernels take them; ValueError for others."""
    group = np.ascontiguousarray(group, dtype=np.int32)
    check_length("group", group, n_classes, "one per class")
    check_ids("group", group, 0, n_classes, "group")
    return group


def nothing_to_draw(skip: int) -> str:
    """The text of an error."""
    return (
        f"skip={skip}: nothing but the class {skip}, which is to be skipped, has a "
        "probability after some context"
    )
