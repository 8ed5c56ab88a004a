"""Warnings, at the line of the user, or collected and issued later.

`warnings.catch_warnings` changes filters of the whole process, so it cannot collect the
warnings of one thread or machine for the caller of `fit`.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType


class FallbackWarning(UserWarning):
    """The data are too few for an estimate, and a default is used instead."""


_collected: ContextVar[list | None] = ContextVar("_collected", default=None)


# Packages whose frames are not the user's.
_LIBRARIES = {__name__.partition(".")[0], "sklearn", "joblib", "contextlib"}
# Modules that start a thread or process: their callers are not lines of the user.
_BEGIN = {"threading", "multiprocessing", "concurrent"}


def _library_of(frame: FrameType) -> str:
    """The top-level package of the module of a frame, even if it is run as main."""
    names = frame.f_globals
    name = getattr(names.get("__spec__"), "name", None) or names.get("__name__")
    return str(name).partition(".")[0]


def _level_of_user() -> int:
    """The `stacklevel`, for `warn`, of the innermost frame of the user.

    Without a frame of the user, the level of the caller of `warn`.
    """
    level = 2
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = _library_of(frame)
        if name in _BEGIN:
            return 2
        frozen = frame.f_code.co_filename.startswith("<frozen")
        if name not in _LIBRARIES and not frozen:
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


@contextmanager
def catch_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """A list of all warnings, those of `warn` and others, of all threads."""
    token = _collected.set(None)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield caught
    finally:
        _collected.reset(token)


@contextmanager
def warn_once() -> Iterator[None]:
    """Collect warnings, and issue only the last of each kind at the end.

    Warnings are of one kind if their category and their text up to the first number or
    parenthesis are equal.
    """
    with collect_warnings() as notes:
        yield
    last = {(kind, re.split(r"[(\d]", text)[0]): text for text, kind in notes}
    for (kind, _), text in last.items():
        warn(text, kind)
