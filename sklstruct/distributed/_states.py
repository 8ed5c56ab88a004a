"""The states of the fits of shards in files, from which the fit continues.

Each shard writes its state when the driver asks for it. The state is valid as soon as
all shards have written theirs and the driver has written its number.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Any

from .._checkpoint import Checkpoint, FileStore, StateStore
from .._warnings import warn
from ._lockstep import KEEP, KEPT, Meeting


class Manifest:
    """The file with the number of the last state that all shards have written.

    Its path is that of the checkpoint, and the prefix of the names of the states.
    """

    def __init__(self, checkpoint: Checkpoint, n_shards: int) -> None:
        self.path = os.path.abspath(checkpoint.path)
        self._store = FileStore(checkpoint, {"n_shards": n_shards}, whole=self.path)
        self._written = time.monotonic()
        state = self._store.load({"number": 0})
        self.number: int | None = None if state is None else state["number"]

    def due(self) -> int | None:
        """The number of the state to write now, None if it is not time."""
        if self.number is None:
            return 0  # so that another fit is refused from the start
        early = time.monotonic() - self._written < self._store.interval
        return None if early else self.number + 1

    def commit(self, number: int, problems: list[str | None]) -> bool:
        """Record that the shards have written a state; False if that failed."""
        self._written = time.monotonic()
        wrong = [problem for problem in problems if problem is not None]
        try:
            if not wrong:
                self._store.write(number=number)
        except OSError as exc:
            wrong = [str(exc)]
        if wrong:
            warn(
                f"checkpoint: {self.path!r} could not be written ({wrong[0]}); the fit "
                "continues, and the old checkpoint is kept",
                RuntimeWarning,
            )
            return False
        self.number = number
        return True


def state_path(path: str, shard: int, number: int) -> str:
    """The path of the state of a shard; even and odd numbers have a file each."""
    return f"{path}.shard{shard}.{number % 2}"


class ShardStore(StateStore):
    """Keeps the state of one shard; the driver decides when, for all shards at once.

    path: common beginning of the names of the files.
    number: of the state to continue from, or None.
    identity: of the fit; see `Checkpoint`.
    """

    def __init__(
        self,
        meeting: Meeting,
        path: str,
        shard: int,
        number: int | None,
        identity: dict[str, Any],
    ) -> None:
        self._meeting, self._identity = meeting, identity
        self._path, self._shard, self._number = path, shard, number

    def _store(self, number):
        path = state_path(self._path, self._shard, number)
        return FileStore(Checkpoint(path), self._identity, whole=self._path)

    def load(self, like: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """The state to continue from, or None."""
        if self._number is None:
            return None
        state = self._store(self._number).load(like)
        if state is None:
            raise FileNotFoundError(
                errno.ENOENT,
                "checkpoint: the state of a shard is gone; the folder must be one that "
                f"all workers and the client see; remove {self._path!r} to fit anew",
                state_path(self._path, self._shard, self._number),
            )
        return state

    def damaged(self, why: object) -> ValueError:
        """The error of a state from which no fit can continue."""
        return self._store(self._number).damaged(why)

    def save(self, **state: Any) -> None:
        """Write the state, if the driver answers that it is time."""
        number = self._meeting.ask(KEEP)
        if number is None:
            return
        problem = None
        try:
            self._store(number).write(**state)
        except OSError as exc:
            problem = str(exc)
        self._meeting.ask(KEPT, problem)
