"""Warnings of a fit in another thread or on another machine: collected, issued later.

`warnings.catch_warnings` changes filters of the whole process, so it cannot collect the
warnings of one thread or machine for the caller of `fit`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class FallbackWarning(UserWarning):
    """Too few data for an estimate, whose default takes its place."""


_collected: ContextVar[list | None] = ContextVar("_collected", default=None)


def warn(message: str, category: type[Warning], stacklevel: int = 1) -> None:
    """`warnings.warn`; inside of `collect_warnings` the warning is stored instead."""
    notes = _collected.get()
    if notes is None:
        warnings.warn(message, category, stacklevel=stacklevel + 1)
    else:
        notes.append((message, category))


@contextmanager
def collect_warnings() -> Iterator[list[tuple[str, type[Warning]]]]:
    """A list of the calls of `warn` in this thread and context."""
    notes: list[tuple[str, type[Warning]]] = []
    token = _collected.set(notes)
    try:
        yield notes
    finally:
        _collected.reset(token)
