"""Checkpoints: the state of a long fit in a file, from which it goes on.

A file holds what it is about (the *identity*: digests of the data and the settings) and
the state of the solver. It is written aside, synced and renamed, so that whoever ends
the process at any moment leaves the last whole one.

    magic | length and checksum of the header | header (JSON) | bytes of the arrays, one
    after the other | their checksum

The checksums are there because a fit goes on from numbers that it cannot judge: a bit
that fell over on a disk would end in another model, and nobody would know.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import numbers
import os
import time
import warnings
from abc import ABCMeta, abstractmethod
from hashlib import blake2b
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

from ._compat import BaseEstimator, Interval
from ._files import DamagedData, open_read, open_write

_MAGIC = b"sklstruct checkpoint 2\n"

# Bytes that are written or read in one call: signals are heard between calls.
_BLOCK = 1 << 24

# Numbers, texts, None and lists and dicts of these, and arrays, by name.
State = dict[str, Any]

# Before the names of what belongs to a part of a fit.
_PART = "part "


class Checkpoint(BaseEstimator):
    r"""Where a long fit writes its state every so often, and where it goes on from.

    .. math::
        \text{work lost by a killed process} \le \text{interval}
        + \text{one iteration} .

    A fit that finds the file checks that it is about the same data and settings, takes
    the state up and ends as it would have ended: bit by bit, on the same machine. The
    file stays after the fit; remove it to fit anew. A process that is killed while it
    writes leaves a hidden file beside it, ``.*.tmp``, which nothing reads.

    A state is all that the next iteration reads: points and gradients, the steps that
    make a quasi-Newton metric, the generator, the order of the mini-batches and the
    place in it, and where a tree grows, the part that is built. What the data alone
    say is made anew.

    Models that hold others fit many, one after the other, and a folder serves them all:
    each fit has a file of its own there, with a name that is made of its data and
    settings, and leaves its result when it is done, which is then found and not
    computed again.

    Parameters
    ----------
    path : str or os.PathLike
        A file, whose folder must exist, or a folder that is there. A file is
        compressed as its suffix says (``.gz``, ``.xz``), which takes longer than it
        saves.

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
        if not os.fspath(checkpoint.path):
            raise ValueError("checkpoint is an empty path; name a file or a folder")
        path = os.path.abspath(os.fspath(checkpoint.path))
        if not os.path.isdir(os.path.dirname(path)):
            raise FileNotFoundError(
                errno.ENOENT, "the folder of checkpoint does not exist", path
            )
        return checkpoint

    @classmethod
    def of_many(
        cls, given: str | os.PathLike | Checkpoint | None, whose: object
    ) -> Checkpoint | None:
        """Of `whose`, which makes many fits: a folder. Or None."""
        checkpoint = cls.of(given)
        if checkpoint is not None and not os.path.isdir(checkpoint.path):
            raise ValueError(
                f"checkpoint={os.fspath(checkpoint.path)!r} must be a folder that is "
                f"there, as {type(whose).__name__} makes many fits, each of which "
                "has a file in it"
            )
        return checkpoint


class FitKeeper(metaclass=ABCMeta):
    """What a fit is given to keep its state with."""

    @abstractmethod
    def load(self) -> State | None:
        """The state of an earlier run, None where there is none."""

    @abstractmethod
    def save(self, **state: Any) -> None:
        """Write the state, if it is time to."""

    def result(self) -> State | None:
        """What a fit that is done has left, None where there is nothing."""
        return None

    def finish(self, **result: Any) -> None:
        """The fit is done."""
        del result


class PartKeeper(FitKeeper):
    """The keeper of a part of a fit, whose state stands beside that of the whole.

    Parameters
    ----------
    keeper : FitKeeper
        Of the whole.

    whole : dict
        State of the whole, which stays as it is while the part runs.

    part : dict
        State of the part from an earlier run, empty where it had not begun.
    """

    def __init__(self, keeper: FitKeeper, whole: State, part: State) -> None:
        self._keeper, self._whole, self._part = keeper, whole, part

    def load(self) -> State | None:
        return self._part or None

    def save(self, **state: Any) -> None:
        self._keeper.save(**join_part(self._whole, state))


def join_part(whole: State, part: State) -> State:
    """The state of a fit with that of a part of it."""
    return {**whole, **{_PART + name: value for name, value in part.items()}}


def split_part(state: State) -> tuple[State, State]:
    """(whole, part) as they were joined."""
    part = {k: value for k, value in state.items() if k.startswith(_PART)}
    whole = {k: value for k, value in state.items() if k not in part}
    return whole, {k.removeprefix(_PART): value for k, value in part.items()}


class Keeper(FitKeeper):
    """Reads and writes the checkpoints of one fit.

    Parameters
    ----------
    checkpoint : Checkpoint
        Where and how often.

    identity : dict of str to str or number
        What the state belongs to; a file with another one is refused.

    stop : dict of str to str or number, default=None
        What decides on the end of the fit alone. A state does not belong to it, a
        result does.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        identity: dict[str, Any],
        stop: dict[str, Any] | None = None,
    ) -> None:
        self.path = os.fspath(checkpoint.path)
        self.interval = float(checkpoint.interval)
        self.identity = _plain_of(identity)
        self._result_path = None
        if os.path.isdir(self.path):
            self.identity |= _plain_of(stop or {})
            text = _dumps(self.identity).encode()
            name = os.path.join(self.path, blake2b(text, digest_size=16).hexdigest())
            self.path, self._result_path = f"{name}.running", f"{name}.fitted"
        self._written = time.monotonic()

    @property
    def in_folder(self) -> bool:
        """Whether other fits have files beside its own."""
        return self._result_path is not None

    def load(self) -> State | None:
        """The state of an earlier run, None where there is no file.

        Raises
        ------
        ValueError
            If the file is no checkpoint, or belongs to other data or settings.
        """
        return self._state_in(self.path)

    def result(self) -> State | None:
        return self._state_in(self._result_path) if self.in_folder else None

    def _state_in(self, path):
        if not os.path.exists(path):
            return None
        try:
            header, arrays = _read(path, lambda there: self.check(there, self.identity))
        except (DamagedData, EOFError, KeyError, TypeError, UnicodeDecodeError) as exc:
            raise ValueError(
                f"checkpoint: {path!r} is no checkpoint of this version of the "
                f"package, or is damaged ({exc}); remove the file to fit anew"
            ) from exc
        return {**header["state"], **arrays}

    def check(self, there: dict[str, Any], here: dict[str, Any]) -> None:
        """ValueError where a later part of the fit belongs to something else.

        Parameters
        ----------
        there, here : dict of str to str or number
            What the state in the file says of that part, and what it is.
        """
        here = _plain_of(here)
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
                "another file, remove this one to fit anew, or name a folder, where "
                "each fit has a file of its own"
            )

    def save(self, **state: Any) -> None:
        """Write the state, if the last time is longer ago than the interval.

        A fit outlives a disk without room: the file before stays, and a warning says
        what is wrong.
        """
        if time.monotonic() - self._written < self.interval:
            return
        self._try_to_write(self.path, state)
        self._written = time.monotonic()

    def finish(self, **result: Any) -> None:
        if self.in_folder and self._try_to_write(self._result_path, result):
            with contextlib.suppress(OSError):
                os.unlink(self.path)

    def _try_to_write(self, path, state):
        try:
            _write(path, self.identity, state)
        except OSError as exc:
            warnings.warn(
                f"checkpoint: {path!r} could not be written ({exc}); the fit goes on, "
                "and the file is as it was before",
                RuntimeWarning,
                stacklevel=3,
            )
            return False
        return True

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


def digest_generator(rng: np.random.RandomState) -> str:
    """A short text that tells the states of generators apart."""
    text = _dumps(rng.get_state(legacy=False)).encode()
    return blake2b(text, digest_size=8).hexdigest()


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
    forms = {k: (v.dtype.str, v.shape) for k, v in arrays.items()}
    text = _dumps({"identity": identity, "state": rest, "arrays": forms}).encode()
    with open_write(path, name="checkpoint") as file:
        file.write(_MAGIC + _number(len(text)) + _number(crc32(text)) + text)
        checksum = 0
        for array in arrays.values():
            for block in _blocks(np.ascontiguousarray(array)):
                file.write(block)
                checksum = crc32(block, checksum)
        file.write(_number(checksum))


def _number(value):
    return value.to_bytes(8, "little")


def _blocks(array):
    """The bytes of a contiguous array, piece by piece."""
    data = array.reshape(-1).view(np.uint8)
    return [data[i : i + _BLOCK].data for i in range(0, data.size, _BLOCK)]


def _exactly(file, n_bytes):
    parts = []
    while n_bytes:
        parts.append(file.read(min(n_bytes, 1 << 20)))
        if not parts[-1]:
            raise EOFError("it ends too early")
        n_bytes -= len(parts[-1])
    return b"".join(parts)


def _read_number(file):
    return int.from_bytes(_exactly(file, 8), "little")


def _read(path, check):
    with open_read(path, name="checkpoint") as (file, _):
        if _exactly(file, len(_MAGIC)) != _MAGIC:
            raise DamagedData("it does not begin as one")
        size, checksum = _read_number(file), _read_number(file)
        text = _exactly(file, size)
        if crc32(text) != checksum:
            raise DamagedData("the checksum of its header is another")
        header = json.loads(text)
        check(header["identity"])
        arrays, checksum = {}, 0
        for name, (dtype, shape) in header["arrays"].items():
            arrays[name] = np.empty(shape, dtype=dtype)
            for block in _blocks(arrays[name]):
                block[:] = _exactly(file, block.nbytes)
                checksum = crc32(block, checksum)
        if checksum != _read_number(file) or file.read(1):
            raise DamagedData("the checksum of its arrays is another")
    return header, arrays
