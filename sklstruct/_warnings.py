"""Warnings: at the line of the user, or collected and issued later.

`warnings.catch_warnings` changes filters of the whole process, so it cannot collect the
warnings of one thread or machine for the caller of `fit`.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType


class FallbackWarning(UserWarning):
    """Too few data for an estimate, whose default takes its place."""


_collected: ContextVar[list | None] = ContextVar("_collected", default=None)


# Frames of a call of the user's that are not the user's: of this package, and of the
# libraries through which it is called.
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = tuple(f"{os.sep}{name}{os.sep}" for name in ("sklearn", "joblib"))
_LIBRARIES += (f"{os.sep}contextlib.py",)


def _level_of_user() -> int:
    """The `stacklevel`, for `warn`, of the innermost frame that is the user's."""
    level = 2
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        inside = name.startswith((_HERE, "<frozen"))
        if not inside and not any(part in name for part in _LIBRARIES):
            return level
        level, frame = level + 1, frame.f_back
    return 2


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """`warnings.warn` at the line of the user that led here.

    Inside of `collect_warnings` the warning is stored instead.
    """
    notes = _collected.get()
    if notes is None:
        warnings.warn(message, category, stacklevel=_level_of_user())
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
