"""What fits of the same samples share: counted trees and solutions."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock, RLock
from typing import NamedTuple
from uuid import uuid4
from weakref import WeakValueDictionary

import numpy as np

from .._checkpoint import digest
from .._checks import check_count, physical_memory
from ..backoff import Counted
from ..context_tree import Pairs

# Solutions that are kept for one tree: as many as a start looks at.
SOLUTIONS = 4

# Memories that other processes sent here; nobody else holds them between two tasks.
_HELD = 4


class Solution(NamedTuple):
    """Weights of a fit, and what they minimise beside the strength."""

    kind: tuple  # penalty, signs
    beta: np.ndarray  # by depth
    strength: np.ndarray  # by depth, for a lam of 1
    lam: float
    w: np.ndarray
    loss: float = np.nan  # without the penalty, where it is known

    def differs_in_lam(self, other: Solution) -> bool:
        """Whether only `lam` and the weights may be others."""
        return (
            self.kind == other.kind
            and np.array_equal(self.beta, other.beta)
            and np.allclose(self.strength, other.strength, rtol=1e-12, atol=0.0)
        )


class _Entry:
    """A counted tree; `ready` is held while it is counted."""

    def __init__(self) -> None:
        self.ready = Lock()
        self.counted: Counted | None = None
        self.node_weight: np.ndarray | None = None
        self.solutions: list[Solution] = []

    def size(self) -> int:
        if self.counted is None:
            return 0
        size = self.counted.nbytes + sum(s.w.nbytes for s in self.solutions)
        return size + (0 if self.node_weight is None else self.node_weight.nbytes)


class FitMemory:
    r"""Counted trees and solutions that the fits of a search share.

    Given to the clones of a `StructuredLogLinearLM` as its `memory`, in
    ``GridSearchCV`` for one, it counts the tree of equal samples once, and not once a
    candidate; with ``warm_start=True`` fits also start from the nearest solutions on
    the same tree. Samples are equal if a digest of their ids, weights and numbers of
    classes and symbols is, so that another fold, another weight or another type of a
    number is another tree. All clones of an estimator have the same memory, and so have
    threads. A process that is sent it has one of its own, empty at first, which lasts
    from task to task. What was used longest ago is dropped first.

    Parameters
    ----------
    max_bytes : int, default=None
        Largest total size of what is kept, at least 0. Larger trees are counted each
        time. None: a quarter of the machine's memory.

    Attributes
    ----------
    n_counted, n_found : int
        How often, in this process, a tree was counted, and how often it was there.

    Notes
    -----
    Without ``warm_start=True`` a fit with a memory is bit by bit the fit without one.
    With it, the solution that a fit starts from depends on which fits came before, and
    results agree within `tol`.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklstruct.datasets import load_python_topics
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.loglinear import FitMemory, StructuredLogLinearLM
    >>> memory = FitMemory()
    >>> model = StructuredLogLinearLM(penalty="l2", memory=memory, warm_start=True)
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
            Tells samples apart.

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

    def node_weight(self, pairs: Pairs) -> np.ndarray | None:
        """Weight of the samples that end at each node of a tree that `counted` gave,
        None for others."""
        with self._lock:
            entry = self._entry_of(pairs)
            if entry is None:
                return None
            if entry.node_weight is None:
                entry.node_weight = pairs.terminal_weight(entry.counted.count)
                entry.node_weight.flags.writeable = False
            return entry.node_weight

    # --------------------------------------------------------------- solutions

    def keep(self, pairs: Pairs, solution: Solution) -> None:
        """Keep a solution on a tree that `counted` gave; others are not kept."""
        with self._lock:
            entry = self._entry_of(pairs)
            if entry is None:
                return
            solution.w.flags.writeable = False
            others = [
                s
                for s in entry.solutions
                if s.lam != solution.lam or not s.differs_in_lam(solution)
            ]
            entry.solutions = [*others, solution][-SOLUTIONS:]
        self._drop()

    def solutions(self, pairs: Pairs) -> list[Solution]:
        """The solutions on a tree that `counted` gave, the latest last."""
        with self._lock:
            entry = self._entry_of(pairs)
            return [] if entry is None else list(entry.solutions)

    def _entry_of(self, pairs):
        for entry in self._entries.values():
            if entry.counted is not None and entry.counted.pairs is pairs:
                return entry
        return None

    def _drop(self):
        with self._lock:
            total = sum(entry.size() for entry in self._entries.values())
            for key in list(self._entries):
                if total <= self._limit:
                    return
                entry = self._entries[key]
                while entry.solutions and total > self._limit:
                    total -= entry.solutions.pop(0).w.nbytes
                if total > self._limit and entry.counted is not None:
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
    # Another thread of the parent may have held a lock, which nobody here releases.
    for memory in list(_MEMORIES.values()):
        memory._begin(memory._name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
