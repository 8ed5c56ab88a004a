"""Checkpoints: a file with the state of a long fit, from which a later fit continues.

A file holds the *identity* of a fit (digests of its data and settings) and the state of
its solver. The state is written to a temporary file, which replaces the old file when
it is complete. A process that is killed at any moment leaves a complete file.

The file is an archive of NumPy (``.npz``) with the arrays of the state, and the rest as
JSON. The checksums of the archive detect damage on the disk, which would otherwise
change the model without any error.
"""

from __future__ import annotations

import contextlib
import copy
import json
import numbers
import os
import time
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np

from ._compat import BaseEstimator, Interval
from ._files import FullWriter, check_writable, open_read, open_write
from ._warnings import warn

# Version of the format, and the name of the header among the arrays.
_FORMAT, _HEADER = 3, " header"

# By name: arrays, or numbers, texts, None, and lists and dicts of these.
State = dict[str, Any]

# Prefix of the names of the state of a part in the state of the whole fit.
_PART = "part "

# The least time between two copies of a state, in units of the time of the first copy.
_COPY_EVERY = 20.0


class Checkpoint(BaseEstimator):
    r"""The path and the interval of the checkpoints of a long fit.

    .. math::
        \text{work lost by a killed process} \le \text{interval}
        + \text{one iteration} .

    If the file exists, a fit checks that the file belongs to the same data and
    settings, reads the state and continues. On the same machine the result is
    identical, bit by bit, to the result of a fit without interruption. The end of the
    fit and Ctrl-C (a KeyboardInterrupt) write the last state, even within the interval.
    The file stays after the fit; remove it to start again. A process that is killed
    during a write leaves a hidden file ``.*.tmp`` in the same folder, which is never
    read.

    The state is everything that the next iteration reads: points and gradients, the
    pairs of a quasi-Newton method, the random generator, the order of the mini-batches
    and the position in it, and the finished part of a tree. Arrays that depend on the
    data alone are computed again.

    **A file or a folder**: the name decides. A name with a suffix, such as
    ``fit.ckpt``, is a file for one fit: a fit with other data or settings is an error.
    A name without a suffix, such as ``fits``, or with a slash at its end, is a folder.
    The folder is created at the first write and is for any number of fits. Each fit has
    its own file in the folder, named by a digest of its data and settings (including
    `tol` and `max_iter`). A finished fit writes its result there, and a fit with equal
    data and settings reads the result instead of computing it again. A search such as
    `GridSearchCV` needs a folder: with a file, every fit after the first is an error.
    Models that make many fits accept folders only.

    Parameters
    ----------
    path : str or os.PathLike
        A file or a folder. Its parent folder must exist. A file with the suffix
        ``.gz``, ``.bz2``, ``.xz`` or ``.zst`` is compressed, which is usually not
        worth its time.

    interval : float, default=60.0
        Seconds between two checkpoints of a running fit, at least 0. With 0 every
        iteration writes one.

    Notes
    -----
    The arrays of the state are copied from time to time, so that the end of the fit and
    Ctrl-C have a state to write. The copies take at most a twentieth of the time, and
    as much memory as the state.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklstruct.loglinear import Checkpoint, StructuredLogLinearLM
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(os.path.join(folder, "fit.ckpt"), interval=0)
    ...     model = StructuredLogLinearLM(checkpoint=checkpoint, padding="")
    ...     first = model.fit([["", "a"], ["a", "b"]], ["b", "a"]).coef_
    ...     again = model.fit([["", "a"], ["a", "b"]], ["b", "a"]).coef_
    >>> float(abs(first - again).max())
    0.0
    """

    _parameter_constraints: ClassVar[dict] = {
        "path": [str, os.PathLike],
        "interval": [Interval(numbers.Real, 0, np.finfo(float).max, closed="both")],
    }

    def __init__(self, path: str | os.PathLike, interval: float = 60.0) -> None:
        self.path = path
        self.interval = interval

    @property
    def is_folder(self) -> bool:
        """Whether the path names a folder: it has no suffix."""
        return not os.path.splitext(os.fspath(self.path))[1]

    @classmethod
    def of(
        cls,
        given: Checkpoint | str | os.PathLike | None,
        whose: object = None,
        folder: bool | None = None,
    ) -> Checkpoint | None:
        """The Checkpoint of a parameter that may be a path.

        Parameters
        ----------
        given : Checkpoint, str, os.PathLike or None
            The parameter.

        whose : object, default=None
            The estimator, for messages about `folder`.

        folder : bool, default=None
            True: `whose` needs a folder; False: a file. None: either is allowed.

        Returns
        -------
        checkpoint : Checkpoint or None

        Raises
        ------
        ValueError, OSError
            If a checkpoint cannot be written there.
        """
        if given is None:
            return None
        checkpoint = given if isinstance(given, Checkpoint) else cls(given)
        checkpoint._validate_params()
        if folder not in (None, checkpoint.is_folder):
            path, name = os.fspath(checkpoint.path), type(whose).__name__
            raise ValueError(
                f"checkpoint={path!r} must be a folder, as {name} makes many fits, "
                "which have a file each; use a name without a suffix"
                if folder
                else f"checkpoint={path!r} must be a file for {name}; use a name with "
                "a suffix, such as .ckpt"
            )
        checkpoint._check_path()
        return checkpoint

    def _check_path(self):
        path = os.fspath(self.path)
        if not path:
            raise ValueError("checkpoint is an empty path; name a file or a folder")
        if not self.is_folder:
            if os.path.isdir(path):
                raise ValueError(
                    f"checkpoint={path!r} has a suffix, so it must be a file, but is a "
                    "folder; for a folder, end the name with a slash"
                )
        elif os.path.isdir(path):
            path = os.path.join(path, "fit")
        elif os.path.exists(path):
            raise ValueError(
                f"checkpoint={path!r} has no suffix, so it must be a folder, but it is "
                "not; for a file, use a suffix, such as .ckpt"
            )
        check_writable(path, name="checkpoint")  # the name, and the folder above


class StateStore:
    """Base of the stores, which read and write the state of a fit; it stores nothing.

    in_folder: whether the checkpoint is a folder, with files of other fits.
    """

    in_folder = False

    def load(self, like: State | None = None) -> State | None:
        """The state of an earlier run, or None. It must be `like`; see `check_like`."""
        return None

    def save(self, **state: Any) -> None:
        """Write the state if the interval has passed."""

    def damaged(self, why: object) -> ValueError:
        """The error for a state that cannot be used; it names the file."""
        return ValueError(why)

    def checked(self, state: State, like: State) -> State:
        """The state, checked by `check_like`."""
        wrong = check_like(state, like)
        if wrong:
            raise self.damaged(wrong)
        return state

    def result(self, like: State | None = None) -> State | None:
        """The result of the same fit if an earlier run finished it, or None."""
        return None

    def finish(self, **result: Any) -> None:
        """Store the result of the finished fit."""

    def __enter__(self) -> StateStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the fit, or a part of it."""


NO_STORE = StateStore()


class PartStore(StateStore):
    """The store of one part of a fit, in the file of the whole fit.

    whole: state of the whole fit, which does not change while the part runs. part:
    state of the part from an earlier run; empty if the part had not started.
    """

    def __init__(self, store: StateStore, whole: State, part: State) -> None:
        self._store, self._whole, self._part = store, whole, part

    def load(self, like: State | None = None) -> State | None:
        return self.checked(self._part, like or {}) if self._part else None

    def save(self, **state: Any) -> None:
        self._store.save(**join_part(self._whole, state))

    def damaged(self, why: object) -> ValueError:
        return self._store.damaged(why)


def join_part(whole: State, part: State) -> State:
    """One state from that of the whole fit and that of a part."""
    return {**whole, **{_PART + name: value for name, value in part.items()}}


def split_part(state: State) -> tuple[State, State]:
    """(whole, part): the inverse of `join_part`."""
    part = {k: value for k, value in state.items() if k.startswith(_PART)}
    whole = {k: value for k, value in state.items() if k not in part}
    return whole, {k.removeprefix(_PART): value for k, value in part.items()}


class FileStore(StateStore):
    """Reads and writes the checkpoints of one fit.

    A file with another identity (digests of the data and the settings of the fit)
    raises OtherFit. The settings of the stopping rule, `stop`, are part of the identity
    in a folder, which has results, but not in a file, which has a state.

    whole: on a cluster, the file that the user names and removes for a new fit.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        identity: dict[str, Any],
        stop: dict[str, Any] | None = None,
        whole: str | None = None,
    ) -> None:
        self.path, self._whole = os.fspath(checkpoint.path), whole
        self.interval = float(checkpoint.interval)
        self._result_path = None
        self.in_folder = checkpoint.is_folder
        if self.in_folder:
            identity = identity | (stop or {})
        self.identity = json.loads(_dumps(identity))  # as it is read from a file
        if self.in_folder:
            text = _dumps(self.identity).encode()
            name = os.path.join(self.path, blake2b(text, digest_size=16).hexdigest())
            self.path, self._result_path = f"{name}.running", f"{name}.fitted"
        self._written = time.monotonic()
        # The latest state that is not in the file, and the time of the next copy.
        self._copy: State | None = None
        self._copy_again = 0.0

    def load(self, like: State | None = None) -> State | None:
        """The state of an earlier run, or None if there is no file.

        ValueError if the file is not a checkpoint, belongs to another fit, or is not
        `like`.
        """
        return self._state_in(self.path, like)

    def result(self, like: State | None = None) -> State | None:
        return self._state_in(self._result_path, like) if self.in_folder else None

    def _state_in(self, path, like):
        if not os.path.exists(path):
            return None
        try:
            if not os.path.isfile(path):
                raise TypeError("it is not a regular file")
            state = _read(path, self._check_identity)
            wrong = check_like(state, like or {})
        except (OSError, OtherFit):
            raise
        except Exception as exc:  # of JSON, NumPy and the archive: many classes
            raise self.damaged(exc, path) from exc
        if wrong:
            raise self.damaged(wrong, path)
        return state

    def damaged(self, why: object, path: str | None = None) -> ValueError:
        what = "the file" if self._whole is None else repr(self._whole)
        return ValueError(
            f"checkpoint: {path or self.path!r} is not a checkpoint of this version of "
            f"the package, or is damaged ({why}); remove {what} to fit anew"
        )

    def _check_identity(self, there):
        """Raise OtherFit if `there`, the identity in a file, is of another fit."""
        here = self.identity
        names = sorted({*there, *here})
        differ = [name for name in names if there.get(name) != here.get(name)]
        if differ:
            what = "; ".join(
                f"{name}: {there.get(name)!r} there, {here.get(name)!r} here"
                for name in differ
            )
            remedy = "Name another file, or remove this one to fit anew"
            if self._whole is None:
                remedy += ", or name a folder (without a suffix) for many fits"
            raise OtherFit(
                f"checkpoint: {self._whole or self.path!r} belongs to another fit "
                f"({what}). {remedy}"
            )

    def save(self, **state: Any) -> None:
        """Write the state if the interval has passed since the last write.

        Otherwise the state may be copied, for a write at the end. A full disk does not
        end the fit: the old file stays, and a warning gives the reason.
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
        """Write the last copy if the fit ends without an error, or by Ctrl-C."""
        last, self._copy = self._copy, None
        failed = kind is not None and not issubclass(kind, KeyboardInterrupt)
        if last is not None and not failed:
            self._try_to_write(self.path, last)

    def finish(self, **result: Any) -> None:
        if self.in_folder and self._try_to_write(self._result_path, result):
            self._copy = None
            with contextlib.suppress(OSError):
                os.unlink(self.path)

    def _try_to_write(self, path, state):
        try:
            if self.in_folder:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            _write(path, self.identity, state)
        except OSError as exc:
            warn(
                f"checkpoint: {path!r} could not be written ({exc}); the file is "
                "unchanged, and the fit continues",
                RuntimeWarning,
            )
            return False
        return True

    def write(self, **state: Any) -> None:
        """Write the state now; raises OSError if that fails."""
        _write(self.path, self.identity, state)


class OtherFit(ValueError):
    """The checkpoint belongs to other data or other settings."""


def refuse_in_batches(checkpoint: Any) -> None:
    """ValueError if there is a checkpoint, which `partial_fit` does not write."""
    if checkpoint is not None:
        raise ValueError(
            "checkpoint is for fit: each batch of partial_fit has other data; set "
            "checkpoint=None, and save the model between batches"
        )


def keeps_state(estimator: Any) -> bool:
    """Whether an estimator with a parameter `checkpoint` uses it with its settings."""
    says = getattr(estimator, "__sklstruct_resumable__", None)
    return says is None or says()


def check_like(state: State, like: State) -> str:
    """The first difference between a state and the examples, or an empty text.

    like: the names that `state` must have, with an example of each value. An array
    allows arrays of its dtype and shape; an int non-negative ints; a float any number;
    a str, bool, dict or None values of its type. A list of one example allows lists of
    any length, a longer list lists of its length, and a tuple any of its examples.
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


def _dumps(value):
    return json.dumps(value, default=_plain)


def _plain(value):
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be stored in a checkpoint")


def _write(path, identity, state):
    arrays = {k: v for k, v in state.items() if isinstance(v, np.ndarray)}
    rest = {k: v for k, v in state.items() if k not in arrays}
    text = _dumps({"format": _FORMAT, "identity": identity, "state": rest}).encode()
    header = np.frombuffer(text, dtype=np.uint8)
    with open_write(path, name="checkpoint") as file:
        # Compressed files can only be written from the front to the end.
        np.savez(FullWriter(file, path), **{_HEADER: header}, **arrays)


def _read(path, check):
    """The state in a file whose identity passes `check`."""
    with (
        open_read(path, name="checkpoint") as (file, _),
        np.load(file, allow_pickle=False) as archive,
    ):
        header = json.loads(archive[_HEADER].tobytes())
        if header["format"] != _FORMAT:
            raise ValueError(f"its format is {header['format']!r}")
        check(header["identity"])
        names = [name for name in archive.files if name != _HEADER]
        return {**header["state"], **{name: archive[name] for name in names}}
