"""Warnings of a fit that runs elsewhere: collected there, raised here.

The filters of Python's `warnings` belong to the process, so neither threads nor other
machines can catch with them what is meant for the caller of `fit`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_collected: ContextVar[list | None] = ContextVar("_collected", default=None)


def warn(message: str, category: type[Warning], stacklevel: int = 1) -> None:
    """`warnings.warn`, or a note of it where warnings are collected."""
    notes = _collected.get()
    if notes is None:
        warnings.warn(message, category, stacklevel=stacklevel + 1)
    else:
        notes.append((message, category))


@contextmanager
def collect_warnings() -> Iterator[list[tuple[str, type[Warning]]]]:
    """A list that takes what `warn` is called with, in this thread and context."""
    notes: list[tuple[str, type[Warning]]] = []
    token = _collected.set(notes)
    try:
        yield notes
    finally:
        _collected.reset(token)
