"""FitMemory: counted trees that fits of the same samples share."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock, RLock
from uuid import uuid4
from weakref import WeakValueDictionary

import numpy as np

from .._checks import check_count, physical_memory
from .._digest import digest
from ..backoff import Counted

# Memories from other processes, which this list keeps alive between two tasks.
_HELD = 4


class _Entry:
    """A counted tree; `ready` is held while it is counted."""

    def __init__(self) -> None:
        self.ready = Lock()
        self.counted: Counted | None = None

    def size(self) -> int:
        return 0 if self.counted is None else sys.getsizeof(self.counted)


class FitMemory:
    r"""Counted trees that the fits of a search share.

    Given to the clones of a `StructuredLogLinearLM` as its `memory`, for example in
    ``GridSearchCV``, it counts the tree of equal samples once, and not once a
    candidate. Samples are equal if a digest of their ids, weights and numbers of
    classes and symbols is: another fold, other weights or another type of a number
    make another tree. All clones of an estimator, in all threads, have the same memory.
    Another process has a memory of its own, which is empty at first and lasts from task
    to task. The tree that was used longest ago is dropped first.

    Parameters
    ----------
    max_bytes : int, default=None
        Largest total size of what is kept, at least 0. Larger trees are counted each
        time. None: a quarter of the machine's memory.

    Attributes
    ----------
    n_counted, n_found : int
        Numbers of trees that this process counted, and of look-ups that found one.

    See Also
    --------
    lam_path : Falling strengths on one tree, each fit begun where the last one ended.
    StructuredLogLinearLMCV : A search on held-out samples with such starts.

    Notes
    -----
    A fit with a memory is bit by bit the fit without one. Every fit starts anew; where
    `lam` alone is searched, `lam_path` is faster, as its fits start where the last one
    ended.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklstruct.datasets import load_python_topics
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.loglinear import FitMemory, StructuredLogLinearLM
    >>> memory = FitMemory()
    >>> model = StructuredLogLinearLM(penalty="l2", memory=memory)
    >>> search = GridSearchCV(
    ...     LanguageModel(model, max_depth=2),
    ...     {"estimator__lam": [0.4, 0.2, 0.1], "estimator__alpha": [0.7, 0.8]},
    ...     cv=3,
    ... ).fit(load_python_topics()[:200])
    >>> memory.n_counted  # three folds, and all sentences
    4
    >>> memory.n_found
    15
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        if max_bytes is None:
            self._limit = physical_memory() / 4
        else:
            self._limit = check_count("max_bytes", max_bytes, 0)
        self.max_bytes = max_bytes
        self._begin(uuid4().hex)

    def _begin(self, name):
        self._name = name
        self._lock = RLock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self.n_counted = self.n_found = 0
        _MEMORIES[name] = self

    # ------------------------------------------------------------------- trees

    def counted(self, samples: tuple, count: Callable[[], Counted]) -> Counted:
        """The tree of some samples, counted if it is not there.

        Parameters
        ----------
        samples : tuple of ndarray, int, bool or None
            The identity of the samples.

        count : callable
            Counts them.

        Returns
        -------
        counted : Counted
            Its arrays are shared and cannot be written.
        """
        key = digest(*(x if x is None else np.asarray(x) for x in samples), size=32)
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
        with entry.ready:  # other threads wait for the one that counts
            if entry.counted is None:
                entry.counted = count().freeze()
                self.n_counted += 1
            else:
                self.n_found += 1
            result = entry.counted
        self._drop()
        return result

    def _drop(self):
        with self._lock:
            total = sum(entry.size() for entry in self._entries.values())
            for key in list(self._entries):
                if total <= self._limit:
                    return
                entry = self._entries[key]
                if entry.counted is not None:
                    total -= entry.size()
                    del self._entries[key]

    # ------------------------------------------------------------ object model

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()

    def __sklearn_clone__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _memory_of, (self._name, self.max_bytes)

    def __repr__(self):
        given = "" if self.max_bytes is None else f"max_bytes={self.max_bytes}"
        return f"FitMemory({given})"


_MEMORIES: WeakValueDictionary[str, FitMemory] = WeakValueDictionary()
_SENT: OrderedDict[str, FitMemory] = OrderedDict()


def _memory_of(name: str, max_bytes: int | None) -> FitMemory:
    """This process's memory of that name."""
    memory = _MEMORIES.get(name)
    if memory is None:
        memory = FitMemory(max_bytes)
        memory._begin(name)
        _SENT[name] = memory
        while len(_SENT) > _HELD:
            _SENT.popitem(last=False)
    return memory


def _forked() -> None:
    # A thread of the parent may hold a lock, which no thread of the child releases.
    for memory in list(_MEMORIES.values()):
        memory._begin(memory._name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
