"""Checkpoints: the state of a long fit in a file, from which it goes on.

A file holds what it is about (the *identity*: digests of the data and the settings) and
the state of the solver. It is written aside, synced and renamed, so that whoever ends
the process at any moment leaves the last whole one.

    magic | length of the header | header (JSON) | arrays, one after the other (npy)
"""

from __future__ import annotations

import json
import math
import numbers
import os
import time
import warnings
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from ._compat import Interval
from ._files import DamagedData, open_read, open_write

_MAGIC = b"sklstruct checkpoint 1\n"

# Numbers, texts, None and lists of these, and arrays, by name.
State = dict[str, Any]


class Checkpoint(BaseEstimator):
    r"""Where a long fit writes its state every so often, and where it goes on from.

    .. math::
        \text{work lost by a killed process} \le \text{interval}
        + \text{one iteration} .

    A fit that finds the file checks that it is about the same data and settings, takes
    the state up and ends as it would have ended: bit by bit, on the same machine. The
    file stays after the fit; remove it to fit anew.

    Parameters
    ----------
    path : str or os.PathLike
        The file. Its folder must exist. Compressed as its suffix says (``.gz``,
        ``.xz``), which takes longer than it saves.

    interval : float, default=60.0
        Seconds between two checkpoints, at least 0, which is one each iteration.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklstruct.loglinear import Checkpoint, StructuredLogLinearLM
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(os.path.join(folder, "fit"), interval=0)
    ...     model = StructuredLogLinearLM(checkpoint=checkpoint, padding="")
    ...     first = model.fit([["", "a"], ["a", "b"]], ["b", "a"]).coef_
    ...     again = model.fit([["", "a"], ["a", "b"]], ["b", "a"]).coef_
    >>> bool((first == again).all())
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "path": [str, os.PathLike],
        "interval": [Interval(numbers.Real, 0, None, closed="left")],
    }

    def __init__(self, path: str | os.PathLike, interval: float = 60.0) -> None:
        self.path = path
        self.interval = interval

    @classmethod
    def of(cls, given: Checkpoint | str | os.PathLike | None) -> Checkpoint | None:
        """The object of a parameter that may be a path, checked before any work."""
        if given is None:
            return None
        checkpoint = given if isinstance(given, cls) else cls(given)
        checkpoint._validate_params()
        if not math.isfinite(checkpoint.interval):
            raise ValueError(f"interval must be finite, got {checkpoint.interval}")
        path = os.path.abspath(os.fspath(checkpoint.path))
        if os.path.isdir(path):
            raise IsADirectoryError(21, "checkpoint is a folder; name a file", path)
        if not os.path.isdir(os.path.dirname(path)):
            raise FileNotFoundError(2, "the folder of checkpoint does not exist", path)
        return checkpoint


class Keeper:
    """Reads and writes the checkpoints of one fit.

    Parameters
    ----------
    checkpoint : Checkpoint
        Where and how often.

    identity : dict of str to str or number
        What the state belongs to; a file with another one is refused.
    """

    def __init__(self, checkpoint: Checkpoint, identity: dict[str, Any]) -> None:
        self.path = os.fspath(checkpoint.path)
        self.interval = float(checkpoint.interval)
        self.identity = _plain_of(identity)
        self._written = time.monotonic()

    def load(self) -> State | None:
        """The state of an earlier run, None where there is no file.

        Raises
        ------
        ValueError
            If the file is no checkpoint, or belongs to other data or settings.
        """
        if not os.path.exists(self.path):
            return None
        try:
            header, arrays = _read(self.path, self._check_header)
        except (DamagedData, EOFError, KeyError, TypeError, UnicodeDecodeError) as exc:
            raise self._unreadable(exc) from exc
        return {**header["state"], **arrays}

    def _unreadable(self, exc):
        return ValueError(
            f"checkpoint: {self.path!r} is no checkpoint of this version of the "
            f"package, or is damaged ({exc}); remove the file to fit anew"
        )

    def _check_header(self, header):
        self._compare(header["identity"], self.identity)

    def check(self, there: dict[str, Any], here: dict[str, Any]) -> None:
        """ValueError where a later part of the fit belongs to something else.

        Parameters
        ----------
        there, here : dict of str to str or number
            What the state in the file says of that part, and what it is.
        """
        self._compare(there, _plain_of(here))

    def _compare(self, there, here):
        differ = [
            name
            for name in sorted({*there, *here})
            if there.get(name) != here.get(name)
        ]
        if differ:
            what = "; ".join(
                f"{name}: {there.get(name)!r} there, {here.get(name)!r} here"
                for name in differ
            )
            raise ValueError(
                f"checkpoint: {self.path!r} belongs to another fit ({what}). Name "
                "another file, or remove this one to fit anew"
            )

    def save(self, **state: Any) -> None:
        """Write the state, if the last time is longer ago than the interval.

        A fit outlives a disk without room: the file before stays, and a warning says
        what is wrong.
        """
        if time.monotonic() - self._written < self.interval:
            return
        try:
            self.write(**state)
        except OSError as exc:
            warnings.warn(
                f"checkpoint: {self.path!r} could not be written ({exc}); the fit "
                "goes on, and the file is as it was before",
                RuntimeWarning,
                stacklevel=2,
            )
        self._written = time.monotonic()

    def write(self, **state: Any) -> None:
        """Write the state now; OSError where that fails."""
        _write(self.path, self.identity, state)


def digest(*arrays: np.ndarray | None, size: int = 8) -> str:
    """A short text, of so many bytes, that tells arrays apart."""
    found = blake2b(digest_size=size)
    for array in arrays:
        if array is None:
            found.update(b"None")
        else:
            found.update(f"{array.dtype.str}{array.shape}".encode())
            found.update(np.ascontiguousarray(array).data.cast("B"))
    return found.hexdigest()


def _dumps(value):
    return json.dumps(value, default=_plain)


def _plain_of(identity):
    """As it is read from a file."""
    return json.loads(_dumps(identity))


def _plain(value):
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} has no place in a checkpoint")


def _write(path, identity, state):
    arrays = {k: v for k, v in state.items() if isinstance(v, np.ndarray)}
    rest = {k: v for k, v in state.items() if k not in arrays}
    header = {"identity": identity, "state": rest, "arrays": list(arrays)}
    text = _dumps(header).encode()
    with open_write(path, name="checkpoint") as file:
        file.write(_MAGIC + len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            np.lib.format.write_array(file, array, allow_pickle=False)


def _exactly(file, n_bytes):
    parts = []
    while n_bytes:
        parts.append(file.read(min(n_bytes, 1 << 20)))
        if not parts[-1]:
            raise EOFError("it ends too early")
        n_bytes -= len(parts[-1])
    return b"".join(parts)


def _read(path, check):
    with open_read(path, name="checkpoint") as (file, _):
        if _exactly(file, len(_MAGIC)) != _MAGIC:
            raise DamagedData("it does not begin as one")
        size = int.from_bytes(_exactly(file, 8), "little")
        try:
            header = json.loads(_exactly(file, size))
        except json.JSONDecodeError as exc:
            raise DamagedData(f"its header is no JSON: {exc}") from exc
        check(header)
        arrays = {}
        for name in header["arrays"]:
            try:
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
            except ValueError as exc:
                raise DamagedData(f"{name}: {exc}") from exc
    return header, arrays
