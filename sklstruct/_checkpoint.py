"""Checkpoints: the state of a long fit in a file, from which a later fit goes on.

A file holds the *identity* of a fit (digests of its data and settings) and the state of
its solver. It is written aside, synced and renamed: a process that is killed at any
moment leaves the last whole file.

    magic | length and checksum of the header | header (JSON) | bytes of the arrays, one
    after the other | their checksum

The checksums find bits that changed on the disk, which would otherwise end in another
model without any error.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import json
import math
import numbers
import os
import time
import warnings
from hashlib import blake2b
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

from ._compat import BaseEstimator, Interval
from ._files import check_writable, open_read, open_write

_MAGIC = b"sklstruct checkpoint 2\n"

# Bytes that are written or read in one call: signals are handled between calls.
_BLOCK = 1 << 24

# Numbers, texts, None and lists and dicts of these, and arrays, by name.
State = dict[str, Any]

# Prefix of the names of a part's state in the state of the whole fit.
_PART = "part "

# A state is copied at most every so many times as long as the copy before took.
_COPY_EVERY = 20.0


class Checkpoint(BaseEstimator):
    r"""The place of a long fit's state, and how often the state is written.

    .. math::
        \text{work lost by a killed process} \le \text{interval}
        + \text{one iteration} .

    A fit that finds its file checks that the file is of the same data and settings,
    reads the state and ends as it would have ended: bit by bit, on the same machine.
    Ctrl-C (a KeyboardInterrupt) writes the last state before the fit ends, whatever the
    interval. The file stays after the fit; remove it to fit anew. A process that is
    killed while it writes leaves a hidden file beside it, ``.*.tmp``, which is never
    read.

    A state is all that the next iteration reads: points and gradients, the steps that
    make a quasi-Newton metric, the generator, the order of the mini-batches and the
    place in it, and the built part of a tree that grows. Arrays that follow from the
    data alone are computed again.

    **A file or a folder**: the name decides. A name with a suffix, such as
    ``fit.ckpt``, is a file, which serves one fit. A name without a suffix, such as
    ``fits``, or with a slash at its end, is a folder, which is made where it is
    missing and serves any number of fits: each has a file in it, whose name is a digest
    of its data and settings, `tol` and `max_iter` included. A fit that is done leaves
    its result there, and the same fit reads the result instead of computing it again.
    Models that make many fits take folders only.

    Parameters
    ----------
    path : str or os.PathLike
        A file, or a folder. The folder that it is in must exist. A file with one of
        the suffixes ``.gz``, ``.bz2``, ``.xz`` and ``.zst`` is compressed, which takes
        longer than it saves.

    interval : float, default=60.0
        Seconds between two checkpoints, at least 0, which is one each iteration.

    Notes
    -----
    For Ctrl-C the arrays of the state are copied now and then, in a twentieth of the
    time at most. They take as much memory again.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklstruct.loglinear import Checkpoint, StructuredLogLinearLM
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(os.path.join(folder, "fit.ckpt"), interval=0)
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

    @property
    def is_folder(self) -> bool:
        """Whether the name is that of a folder: one without a suffix."""
        return not os.path.splitext(os.fspath(self.path))[1]

    @classmethod
    def of(cls, given: Checkpoint | str | os.PathLike | None) -> Checkpoint | None:
        """The object of a parameter that may be a path.

        Raises
        ------
        ValueError, OSError
            If a checkpoint cannot be written there. A folder is made where it is
            missing.
        """
        checkpoint = cls._made(given)
        if checkpoint is not None:
            checkpoint._check_path()
        return checkpoint

    @classmethod
    def of_kind(
        cls,
        given: str | os.PathLike | Checkpoint | None,
        whose: object,
        *,
        folder: bool,
    ) -> Checkpoint | None:
        """As `of`; a ValueError if it is no folder, or no file, as `whose` needs."""
        checkpoint = cls._made(given)
        if checkpoint is not None and checkpoint.is_folder != folder:
            path, name = os.fspath(checkpoint.path), type(whose).__name__
            raise ValueError(
                f"checkpoint={path!r} must be a folder, as {name} makes many fits, "
                "each of which has a file in it; use a name without a suffix"
                if folder
                else f"checkpoint={path!r} must be a file for {name}; use a name with "
                "a suffix, such as .ckpt"
            )
        return cls.of(checkpoint)

    @classmethod
    def _made(cls, given):
        if given is None:
            return None
        checkpoint = given if isinstance(given, cls) else cls(given)
        checkpoint._validate_params()
        if not math.isfinite(checkpoint.interval):
            raise ValueError(f"interval must be finite, got {checkpoint.interval}")
        if not isinstance(os.fspath(checkpoint.path), str):
            raise ValueError(
                f"checkpoint must be a text or a path, got {checkpoint.path!r}"
            )
        return checkpoint

    def _check_path(self):
        path = os.fspath(self.path)
        if not path:
            raise ValueError("checkpoint is an empty path; name a file or a folder")
        above = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(above):
            raise FileNotFoundError(
                errno.ENOENT, "the folder of checkpoint does not exist", path
            )
        if not self.is_folder:
            if os.path.isdir(path):
                raise ValueError(
                    f"checkpoint={path!r} has a suffix, so that it must be a file, and "
                    "a folder is there; for a folder, end the name with a slash"
                )
            check_writable(path, name="checkpoint")
            return
        if not os.path.isdir(path):
            if os.path.exists(path):
                raise ValueError(
                    f"checkpoint={path!r} has no suffix, so that it must be a folder, "
                    "and something else is there; give a file a suffix, such as .ckpt"
                )
            check_writable(path, name="checkpoint")  # the name, and the folder above
            os.mkdir(path)
        check_writable(os.path.join(path, "fit"), name="checkpoint")


class FitKeeper:
    """Reads and writes the state of a fit; this one keeps nothing.

    Attributes
    ----------
    in_folder : bool
        Whether other fits have files beside its own.
    """

    in_folder = False

    def load(self, like: State | None = None) -> State | None:
        """The state of an earlier run, None where there is none.

        Parameters
        ----------
        like : dict, default=None
            The names that it must have, and a value like each; see `check_like`.
        """
        return None

    def save(self, **state: Any) -> None:
        """Write the state, if it is time to."""

    def damaged(self, why: object) -> ValueError:
        """The error of a state that cannot be gone on from; it names the file."""
        return ValueError(why)

    def checked(self, state: State, like: State) -> State:
        """The state; an error if it is not like `like`, see `check_like`."""
        wrong = check_like(state, like)
        if wrong:
            raise self.damaged(wrong)
        return state

    def result(self, like: State | None = None) -> State | None:
        """The result of a fit that is done, None where there is none."""
        return None

    def finish(self, **result: Any) -> None:
        """Keep the result: the fit is done."""

    def check(self, there: dict[str, Any], here: dict[str, Any]) -> None:
        """An `OtherFit` where two identities differ.

        Parameters
        ----------
        there, here : dict of str to str or number
            The identity in the file, and that of the fit.
        """

    def __enter__(self) -> FitKeeper:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """The end of the fit, or of a part of it."""


NO_KEEPER = FitKeeper()


class PartKeeper(FitKeeper):
    """The keeper of a part of a fit; the file holds the state of the whole as well.

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

    def load(self, like: State | None = None) -> State | None:
        return self.checked(self._part, like or {}) if self._part else None

    def save(self, **state: Any) -> None:
        self._keeper.save(**join_part(self._whole, state))

    def damaged(self, why: object) -> ValueError:
        return self._keeper.damaged(why)


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
        The place and the interval.

    identity : dict of str to str or number
        Data and settings of the fit; a file with others is refused.

    stop : dict of str to str or number, default=None
        The settings that decide on the end of the fit alone. A result in a folder
        depends on them, a state in a file does not.
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
        self.in_folder = checkpoint.is_folder
        if self.in_folder:
            self.identity |= _plain_of(stop or {})
            text = _dumps(self.identity).encode()
            name = os.path.join(self.path, blake2b(text, digest_size=16).hexdigest())
            self.path, self._result_path = f"{name}.running", f"{name}.fitted"
        self._written = time.monotonic()
        # A state that is not in the file yet, and when the next copy may be taken.
        self._copy: State | None = None
        self._copy_again = 0.0

    def load(self, like: State | None = None) -> State | None:
        """The state of an earlier run, None where there is no file.

        Raises
        ------
        ValueError
            If the file is no checkpoint, or of another fit, or its state is not like
            `like`.
        """
        return self._state_in(self.path, like)

    def result(self, like: State | None = None) -> State | None:
        return self._state_in(self._result_path, like) if self.in_folder else None

    def damaged(self, why: object) -> ValueError:
        return self._damaged(self.path, why)

    def _state_in(self, path, like):
        if not os.path.exists(path):
            return None
        try:
            if not os.path.isfile(path):
                raise TypeError("it is no regular file")
            header, arrays = _read(path, lambda there: self.check(there, self.identity))
            state = {**header["state"], **arrays}
            wrong = check_like(state, like or {})
        except OtherFit:
            raise
        except (
            ArithmeticError, AttributeError, EOFError, LookupError, RecursionError,
            TypeError, ValueError,
        ) as exc:  # fmt: skip
            raise self._damaged(path, exc) from exc
        if wrong:
            raise self._damaged(path, wrong)
        return state

    def _damaged(self, path, why):
        return ValueError(
            f"checkpoint: {path!r} is no checkpoint of this version of the package, or "
            f"is damaged ({why}); remove the file to fit anew"
        )

    def check(self, there: dict[str, Any], here: dict[str, Any]) -> None:
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
            raise OtherFit(
                f"checkpoint: {self.path!r} belongs to another fit ({what}). Name "
                "another file, remove this one to fit anew, or name a folder (without "
                "a suffix), where each fit has a file of its own"
            )

    def save(self, **state: Any) -> None:
        """Write the state, if the last time is longer ago than the interval.

        Otherwise it may be copied, to be written on Ctrl-C. A full disk does not end
        the fit: the file before stays, and a warning says why.
        """
        now = time.monotonic()
        if now - self._written >= self.interval:
            self._try_to_write(self.path, state)
            self._copy, self._written = None, time.monotonic()
        elif now >= self._copy_again:
            try:
                self._copy = copy.deepcopy(state)
            except MemoryError:
                self._copy = None
            end = time.monotonic()
            self._copy_again = end + _COPY_EVERY * (end - now)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the last copy if it is Ctrl-C that ends the fit."""
        last, self._copy = self._copy, None
        if last is not None and kind and issubclass(kind, KeyboardInterrupt):
            self._try_to_write(self.path, last)

    def finish(self, **result: Any) -> None:
        if self.in_folder and self._try_to_write(self._result_path, result):
            with contextlib.suppress(OSError):
                os.unlink(self.path)

    def _try_to_write(self, path, state):
        try:
            _write(path, self.identity, state)
        except OSError as exc:
            warnings.warn(
                f"checkpoint: {path!r} could not be written ({exc}); the file is as it "
                "was before, and the fit goes on",
                RuntimeWarning,
                stacklevel=3,
            )
            return False
        return True

    def write(self, **state: Any) -> None:
        """Write the state now; OSError where that fails."""
        _write(self.path, self.identity, state)


class OtherFit(ValueError):
    """A checkpoint of other data or settings."""


def keeps_state(estimator: Any) -> bool:
    """Whether an estimator with a parameter `checkpoint` uses it as it is set."""
    says = getattr(estimator, "__sklstruct_resumable__", None)
    return says is None or says()


def check_like(state: State, like: State) -> str:
    """Why a state is not as expected, or an empty text.

    Parameters
    ----------
    state : dict
        As read from a file.

    like : dict
        The names that `state` must have, and an example of each value: an array of
        the same type and shape; a type of numbers, for an array of one dimension and
        any length; a whole number, which must not be negative; a float; a text; a
        truth value; None; a dict; a list of one example, for a list of any length, or
        of as many as the list must have; a tuple of alternatives.
    """
    for name, example in like.items():
        if name not in state:
            return f"it has no {name!r}"
        if not _is_like(state[name], example):
            return f"its {name!r} is of another kind or size"
    return ""


def _is_like(value, like):
    if isinstance(like, tuple):
        return any(_is_like(value, one) for one in like)
    if isinstance(like, np.dtype):
        return isinstance(value, np.ndarray) and (value.dtype, value.ndim) == (like, 1)
    if isinstance(like, np.ndarray):
        return isinstance(value, np.ndarray) and (
            (value.dtype, value.shape) == (like.dtype, like.shape)
        )
    if isinstance(like, list):
        if not isinstance(value, list) or len(like) not in (1, len(value)):
            return False
        return all(map(_is_like, value, like if len(like) > 1 else like * len(value)))
    if isinstance(like, bool) or like is None or isinstance(like, (str, dict)):
        return type(value) is type(like)
    if isinstance(value, bool):
        return False
    if isinstance(like, int):
        return isinstance(value, int) and value >= 0
    return isinstance(value, (int, float))


def digest_generator(rng: np.random.RandomState) -> str:
    """A short text that tells the states of generators apart."""
    text = _dumps(rng.get_state(legacy=False)).encode()
    return blake2b(text, digest_size=8).hexdigest()


def _dumps(value):
    return json.dumps(value, default=_plain)


def _plain_of(identity):
    """The identity as it is read from a file."""
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
    largest = os.path.getsize(path)
    with open_read(path, name="checkpoint") as (file, _):
        if _exactly(file, len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin as one")
        size, checksum = _read_number(file), _read_number(file)
        text = _exactly(file, size)
        if crc32(text) != checksum:
            raise ValueError("the checksum of its header is another")
        header = json.loads(text)
        check(header["identity"])
        arrays, checksum = {}, 0
        for name, (dtype, shape) in header["arrays"].items():
            arrays[name] = _read_array(file, np.dtype(dtype), shape, largest)
            for block in _blocks(arrays[name]):
                checksum = crc32(block, checksum)
        if checksum != _read_number(file) or file.read(1):
            raise ValueError("the checksum of its arrays is another")
    return header, arrays


def _read_array(file, dtype, shape, largest):
    """An array; one of more than `largest` bytes only as far as the file has them."""
    if dtype.kind not in "biuf":
        raise TypeError(f"an array is of {dtype}, not of numbers")
    n_bytes = dtype.itemsize * math.prod(shape)
    if n_bytes > largest:  # compressed, or not true
        return np.frombuffer(_exactly(file, n_bytes), dtype).reshape(shape).copy()
    array = np.empty(shape, dtype=dtype)
    for block in _blocks(array):
        block[:] = _exactly(file, block.nbytes)
    return array
