"""Distribution: the interface of every fitted model of this package.

A *distribution* is P(y | x) over the classes 0 ... n_classes - 1. Its contexts x are
arrays, or nested tuples of arrays, with a row for each sample. ``locate`` turns
contexts into places (such as nodes of a tree), which the other methods take:

==============================  ===================================================
``locate(contexts)``            the place of each context
``target(at, y)``               ln P(y_i | x_i)
``rows(at)``                    ln P of every class
``best(at, k)``                 the k most probable classes
``draw(at, uniform, skip)``     a class for each number in [0, 1)
``proba(at)``                   P of every class
``group_proba(at, g)``          the sum of P over every group of classes
==============================  ===================================================

Mixtures use two more methods: ``gate_features(at)``, features of the history for a
gate, and ``groups()``, the model's own groups of classes.

A compiled model, ``compiled(source)``, answers all these queries; it reads the tokens
of a text or the places of a distribution. A distribution that is written in Python
defines ``rows`` or ``proba``, and ``target`` if one probability is cheaper than a row;
the compiled model calls these methods for many places at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import as_floats, as_ids, check_ids, check_length, check_reals
from ._core_fast import Model
from ._words_fast import ArrayModel


def take(contexts: Any, rows: Any) -> Any:
    """Some rows of contexts."""
    if isinstance(contexts, tuple):
        # Equal readers give several models the same contexts.
        parts = {id(part): part for part in contexts}
        taken = {key: take(part, rows) for key, part in parts.items()}
        return tuple(taken[id(part)] for part in contexts)
    return contexts.iloc[rows] if hasattr(contexts, "iloc") else contexts[rows]


def count_rows(contexts: Any) -> int:
    """Number of samples."""
    while isinstance(contexts, tuple):
        contexts = contexts[0]
    return contexts.shape[0]


def single_precision(weight: NDArray) -> NDArray:
    """Training weights for `gate_features` in half the memory: a gate reads only their
    logarithm, which needs few digits."""
    return np.minimum(weight, np.finfo(np.float32).max).astype(np.float32)


def by_group(group: NDArray, n_groups: int) -> Iterator[tuple[int, Any]]:
    """Yield (group, its rows in order) of every group that has rows."""
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
        # A slice avoids a copy.
        yield g, slice(None) if rows.size == order.size else rows


class Distribution:
    """Base of fitted models: probabilities P(y | x) of classes y after contexts x.

    Subclasses define `rows`, `proba`, or `compiled`.

    Attributes
    ----------
    n_classes : int
        Classes are 0 ... n_classes - 1.

    gate_depths : tuple of int
        The depth of each tree of contexts for which `gate_features` has columns.

    See Also
    --------
    sklstruct.language_model.LanguageModel : With any classifier as its estimator, a
        model of sentences that scores, samples and decodes.

    Examples
    --------
    A distribution that defines only its rows; here contexts are arrays of shape
    (n_samples, 1):

    >>> import numpy as np
    >>> from sklstruct.backoff import Distribution
    >>> class Nearest(Distribution):
    ...     n_classes = 4
    ...     def rows(self, at):
    ...         proba = np.exp(-np.abs(np.arange(self.n_classes) - at))
    ...         return np.log(proba / proba.sum(axis=1, keepdims=True))
    >>> model, contexts = Nearest(), np.array([[0], [3]])
    >>> model.target(contexts, np.array([0, 1])).round(3).tolist()
    [-0.44, -2.44]
    >>> classes, log_prob = model.best(contexts, 2)
    >>> classes.tolist()
    [[0, 1], [3, 2]]
    >>> model.draw(contexts, np.array([0.9, 0.1])).tolist()
    [2, 1]
    """

    n_classes: int
    gate_depths: tuple[int, ...] = ()

    def locate(self, contexts: Any) -> Any:
        """The places, such as nodes of a tree, that the other methods look up.

        Parameters
        ----------
        contexts : array or tuple of arrays
            One row per sample.

        Returns
        -------
        at : array or tuple of arrays
            One row per sample.
        """
        return contexts

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
        return self._ask(at, "rows")

    def target(self, at: Any, y: NDArray) -> NDArray:
        """Natural log-probability of one class per sample.

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
        return self._ask(at, "targets", class_ids(y, self.n_classes))

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
        return self._ask(at, "best_of", k)

    def draw(self, at: Any, uniform: NDArray, skip: int = -1) -> NDArray:
        """Draw a class for each uniform random number.

        Parameters
        ----------
        at : array or tuple of arrays
            From `locate`.

        uniform : float64 ndarray of shape (n_samples,)
            Numbers in [0, 1).

        skip : int, default=-1
            A class that is never drawn; the other probabilities are scaled. -1: no
            class is skipped.

        Returns
        -------
        classes : int ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If only `skip` has a positive probability, or a number is not in [0, 1).
        """
        uniform = as_floats("uniform", uniform)
        check_reals("uniform", uniform, "[0, 1)")
        drawn = self._ask(at, "draws", uniform, skip)
        if drawn.min(initial=0) < 0:
            raise ValueError(
                f"skip={skip}: no class"
                + (f" but class {skip}" if skip >= 0 else "")
                + f" has a probability after context {int(np.argmin(drawn))}"
            )
        return drawn

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
        return self._ask(at, "rows", True)

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
        group = np.ascontiguousarray(group, dtype=np.int32)
        check_length("group", group, self.n_classes, "one per class")
        check_ids("group", group, 0, self.n_classes, "group")
        return self._ask(at, "group_sums", group)[0]

    def gate_features(self, at: Any) -> NDArray:
        """Features of the histories, which do not depend on the class.

        Parameters
        ----------
        at : array or tuple of arrays
            From `locate`.

        Returns
        -------
        features : ndarray of shape (n_samples, 2 * len(gate_depths))
            For each tree of contexts the depth of the node that was found, and the
            natural logarithm of one plus the weight of the training samples at the
            node; zeros if the weights are not known.
        """
        return self._ask(at, "all_features")

    def groups(self) -> NDArray | None:
        """The group of each class in the model's own grouping, or None."""
        return None

    def compiled(self, source: Any) -> Model:
        """The same distribution, compiled.

        Parameters
        ----------
        source : callable, or contexts
            A function ``source(tokens, end)`` that returns the contexts of the
            histories before ``tokens[end]``; or contexts, and the last token of a
            history is then the number of its context. Some subclasses also take a
            `_trees_fast.Path` for the contexts of a tree, or a tuple for the contexts
            of several models.

        Returns
        -------
        model : Model
            In the base class, a model that calls `rows` and `target` of this object.
        """

        def find(tokens, end):
            if callable(source):
                return self.locate(source(tokens, end))
            return self.locate(take(source, tokens[end - 1]))

        return self._array_model(find)

    def compiled_places(self, source: Any) -> Model:
        """As `compiled`, for the places of contexts.

        Parameters
        ----------
        source : array or tuple of arrays
            From `locate`; the last token of a history is the number of its place.

        Returns
        -------
        model : Model
        """
        return self._array_model(lambda tokens, end: take(source, tokens[end - 1]))

    def _array_model(self, find):
        own = {
            name
            for name in ("rows", "proba", "target", "as_tokens")
            if getattr(type(self), name) is not getattr(Distribution, name)
        }
        if not own & {"rows", "proba", "as_tokens"}:
            raise TypeError(f"{type(self).__name__} must define rows, or compiled")
        by_proba = "proba" in own and "rows" not in own
        return ArrayModel(self, find, bool(own & {"target", "as_tokens"}), by_proba)

    def as_tokens(self, at: Any) -> tuple[Model, NDArray, NDArray]:
        """The places as histories of a compiled model.

        Parameters
        ----------
        at : array or tuple of arrays
            From `locate`.

        Returns
        -------
        model : Model

        tokens, end : int32 and int64 ndarray
            Row i is the history before ``tokens[end[i]]``.
        """
        # The only token of a history is the number of the sample.
        number = np.arange(count_rows(at), dtype=np.int32)
        return self.compiled_places(at), number, np.arange(1, number.size + 1)

    def _ask(self, at, question, *arguments):
        model, *where = self.as_tokens(at)
        return getattr(model, question)(*where, *arguments)


def class_ids(y: NDArray, n_classes: int) -> NDArray:
    """Class ids in the form that kernels take; ValueError for invalid ids."""
    y = as_ids("y", y, 1)
    check_ids("y", y, 0, n_classes, "class id")
    return y
