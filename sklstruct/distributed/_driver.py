"""The driver: the fits of all shards on the workers, in lockstep.

A shard that is lost is counted again, and its state restored by the answers to all
shards since the last checkpoint.
"""

from __future__ import annotations

import math
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from itertools import count, islice
from typing import Any, NamedTuple, Protocol

from .._checkpoint import Checkpoint
from .._warnings import warn
from ..backoff import BackoffClassifier
from ..context_tree._shards import Prefix
from ..symbols import Labels
from . import _client
from . import _tasks as tasks
from ._client import SchedulerLost, WorkersWatch, is_lost, noted, wait_for
from ._lockstep import DONE, ERROR, KEEP, REPORT, TOTAL, Request, for_shard, join
from ._sharded_fit import gather, sharded_fit
from ._states import Manifest

# Largest number of losses of a shard without an answer in between; beyond it the shard
# is too large for the workers.
_MOST_LOSSES = 3

# After this time in seconds without an answer a shard is asked whether it has answered:
# the answer may be lost. After the second time a call that it does not know is lost.
_DOUBT = 20.0
_NEVER_ARRIVED = 300.0

# Bytes of one piece when an answer is fetched in pieces, and of the answers that are
# sent together to a restored shard.
_PIECE = 1 << 22

# Shards for each worker that continue before their requests are needed.
_AHEAD = 4

# The result of a call to a shard whose worker is lost.
_LOST = Request("lost")


class AnswerLog:
    """A file of the answers to the shards, which restore a lost shard."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="sklstruct-")  # noqa: SIM115
        self._restart = 0  # where the answers before the first state end

    def add(self, value: Any) -> None:
        """Append an answer."""
        self._file.seek(0, os.SEEK_END)
        pickle.dump(value, self._file, protocol=5)

    def mark_start(self) -> None:
        """Keep the answers so far, which come before a shard loads a state."""
        self._file.seek(0, os.SEEK_END)
        self._restart = self._file.tell()

    def restart(self) -> None:
        """Drop the answers after `mark_start`: a state has been written."""
        self._file.truncate(self._restart)

    def __iter__(self) -> Iterator[list]:
        """The answers in order, a few megabytes at a time."""
        self._file.seek(0, os.SEEK_END)
        end = self._file.tell()
        at = 0
        while at < end:
            self._file.seek(at)
            first, some = at, []
            while at < end and at < first + _PIECE:
                some.append(pickle.load(self._file))
                at = self._file.tell()
            yield some

    def close(self) -> None:
        """Delete the file."""
        self._file.close()


class Shards(Protocol):
    """The counts of a text, divided into shards.

    bounds: the first context of each shard, and the first after them; see `PairShard`.
    room: bytes of the shards that a worker has in memory at once.
    """

    client: Any
    bounds: list[tuple[Prefix, Prefix]]
    room: float

    def shard(self, k: int) -> tuple[Callable[..., tasks.ShardCounts], list]:
        """A function that returns the counts of a shard, and its arguments."""

    def close(self) -> None:
        """Free what is needed to count lost shards again."""


class Call(NamedTuple):
    """A running call to a shard."""

    actor: Any  # that of the call; a restored shard has another one
    number: int
    answer: Any


class ShardDriver:
    """The fits of all shards of a counted text, in lockstep.

    The estimator is not fitted and has no checkpoint: the parameter `checkpoint` says
    where the states of the shards are. The client of the shards must be the current
    client when methods are called. `n_exchanges` is the number of sums over all shards,
    `n_bytes` the size of the arrays that the shards sent and received for them, and
    `n_losses` the number of times a shard was restored. With `for_gate` the models
    contain the weight of the samples in each context.
    """

    def __init__(
        self,
        shards: Shards,
        estimator: BackoffClassifier,
        checkpoint: Checkpoint | None = None,
        for_gate: bool = False,
    ) -> None:
        self._shards, self._estimator, self._for_gate = shards, estimator, for_gate
        # Actors use the current client, whichever it is: it must be this one when
        # shards are called.
        self.client = shards.client
        self.bounds = shards.bounds
        self.n_shards = len(shards.bounds)
        self._manifest = None
        if checkpoint is not None:
            self._manifest = Manifest(checkpoint, self.n_shards)
        self._futures: list = [None] * self.n_shards
        self._actors: list = [None] * self.n_shards
        self._addresses: list = [None] * self.n_shards
        self._losses = [0] * self.n_shards
        self._numbers = count(1)  # of calls
        self._log = AnswerLog()
        self._started = False  # True after the first KEEP request
        self.n_exchanges = self.n_bytes = self.n_losses = 0

    # ------------------------------------------------------------- one round

    def run(
        self, report: Callable[[int, float, float], bool]
    ) -> list[tuple[str, type[Warning]]]:
        """Drive the fits to their end; returns the warnings of the first shard."""
        self._make(range(self.n_shards))
        last = [max(self.ask_all("n_levels"))]
        self._log.add(last[0])  # starts the fit
        while True:
            request = join(self._round(last))
            if request.kind == DONE:
                return request.value[0]
            last = [self._answer(*request, report)]
            self._losses = [0] * self.n_shards

    def fit(self, estimator: BackoffClassifier) -> list:
        """Fit the shards; returns the results of their `describe`.

        estimator: the estimator of this process, which reports and warns.
        """
        with sharded_fit(estimator).reporting(estimator) as report:
            notes = self.run(report)
        for message, category in notes:
            warn(message, category)
        return self.ask_all("describe")

    def _answer(self, kind, value, report):
        if kind == TOTAL:
            reply = value
            self.n_exchanges += 1
        elif kind == REPORT:
            reply = report(*value[0])
        elif kind == KEEP:
            if not self._started:
                self._log.mark_start()
                self._started = True
            reply = None if self._manifest is None else self._manifest.due()
            self._due = reply
        else:
            reply = None
            if self._manifest.commit(self._due, value):
                # A shard that loads this state asks KEEP first, as now.
                self._log.restart()
        self._log.add(reply)
        return reply

    def begin(self, k: int, method: str, *arguments: Any) -> Call | None:
        """Begin a call to a shard, for `ask`; None if its worker is known to be lost.

        Other errors are raised.
        """
        actor, number = self._actors[k], next(self._numbers)
        answer = self._begin(k, actor, "do", number, method, *arguments)
        return None if answer is None else Call(actor, number, answer)

    def _begin(self, k, actor, method, *arguments):
        if actor is None or not self._held(k):
            return None
        try:
            return getattr(actor, method)(*arguments)
        except RuntimeError:
            # Dask raises it if it notices the loss now.
            if self._held(k):
                raise
            return None

    def _held(self, k):
        """True if Dask knows a worker that has the shard."""
        return self._futures[k].status in ("finished", "pending")

    def _wait(self, k, call):
        """The result of a call to a shard; _LOST if its worker is lost."""
        if call is None:
            return _LOST
        since = time.monotonic()
        done = self._receive(k, call.answer, _DOUBT)
        while done is None:
            # Dask waits forever for an answer that could not be received.
            answered = self._ask_about(k, call, "has_answered", call.number)
            if answered is not _LOST:
                done = self._receive(k, call.answer, _DOUBT)
            if answered is _LOST or done is _LOST:
                return _LOST
            if done is None and answered:
                done = self._fetch(k, call)
            elif done is None and time.monotonic() - since > _NEVER_ARRIVED:
                raise RuntimeError(
                    f"client: a call to shard {k} did not arrive at its worker "
                    f"{self._addresses[k]}; the log of the worker or of the client may "
                    "say why"
                )
        if done is not _LOST and done.kind == ERROR:
            raise done.value.error()
        return done if done is _LOST else done.value

    def _receive(self, k, answer, limit=math.inf):
        """The answer of a shard: None if it takes too long, _LOST if it is lost."""
        since = time.monotonic()
        while answer is not None:
            try:
                return answer.result(timeout=min(_client.PATIENCE, limit))
            except TimeoutError:
                if not self._alive(k):
                    return _LOST
                if time.monotonic() - since > limit:
                    return None
            except (OSError, CancelledError):
                # An error of the network: errors of the program are returned as values.
                return _LOST
        return _LOST

    def _ask_about(self, k, call, method, *arguments):
        """The result of a method about a call, such as `has_answered`."""
        return self._receive(k, self._begin(k, call.actor, method, *arguments))

    def _fetch(self, k, call):
        """The answer to a call that did not arrive, in pieces."""
        size = self._ask_about(k, call, "pack")
        if isinstance(size, tasks.Failure):
            raise size.error()
        if size is _LOST:
            return _LOST
        note = (
            f"client: raised while receiving an answer of shard {k}, of {size} bytes, "
            f"from its worker {self._addresses[k]}"
        )
        with noted(note):
            packed = bytearray(size)
        for at in range(0, size, _PIECE):
            piece = self._ask_about(k, call, "packed", at, at + _PIECE)
            if piece is _LOST:
                return _LOST
            packed[at : at + _PIECE] = piece
        with noted(note):
            return pickle.loads(packed)

    def ask(
        self, k: int, method: str, *arguments: Any, call: Call | None = None
    ) -> Any:
        """The result of a method of `tasks.ShardFit`; a shard that is lost is restored.

        call: the result of `begin` with the same arguments. If the shard has been
        restored since, the call is made again.
        """
        if call is None or call.actor is not self._actors[k]:
            call = self.begin(k, method, *arguments)
        found = self._wait(k, call)
        while found is _LOST:
            self._lose([k])
            self._make([k])
            if self._replay(k) is not _LOST:
                found = self._wait(k, self.begin(k, method, *arguments))
        self._losses[k] = 0
        return found

    def ask_all(self, method: str, *arguments: Any) -> list:
        """The results of a method of all shards, at once."""
        calls = [self.begin(k, method, *arguments) for k in range(self.n_shards)]
        return [self.ask(k, method, *arguments, call=c) for k, c in enumerate(calls)]

    def gather(
        self, estimator: BackoffClassifier, max_depth: int, labels: Labels
    ) -> None:
        """Copy the model from the shards into an estimator; see `gather`."""
        gather(estimator, partial(self.ask_all, "model"), max_depth, labels)

    def _round(self, answers):
        """The requests of all shards after the answers; lost shards are restored.

        The requests come in the order of the shards. Only the next few shards continue
        meanwhile, as this process has the requests that have come before their turn.
        """
        calls, shards = {}, iter(range(self.n_shards))
        ahead = _AHEAD * len(set(self._addresses))
        for k in range(self.n_shards):
            for j in islice(shards, ahead if k == 0 else 1):
                calls[j] = self._advance(j, answers)
            found = self._wait(k, calls.pop(k)) if k in calls else self._replay(k)
            while found is _LOST:
                lost = [k, *(j for j in calls if not self._alive(j))]
                self._lose(lost)
                self._make(lost)
                calls = {j: call for j, call in calls.items() if j not in lost}
                found = self._replay(k)
            if found.kind == ERROR:
                raise found.value.error()
            if found.kind == TOTAL:
                self.n_bytes += 2 * sum(x.nbytes for x in found.value.values())
            yield found
            del found

    def _replay(self, k):
        """The request of a new shard after all answers so far; _LOST if it is lost."""
        request = None
        for replies in self._log:
            request = self._wait(k, self._advance(k, replies))
            if request is _LOST:
                break
        return request

    def _advance(self, k, answers):
        some = [for_shard(answer, self.bounds[k]) for answer in answers]
        return self.begin(k, "advance", some)

    def _alive(self, k):
        """True if the worker of a shard exists and still has it."""
        workers = self._workers()
        return self._addresses[k] in workers and self._held(k)

    def _workers(self):
        if self.client.status != "running":
            raise self._gone()
        try:
            return self.client.nthreads()
        except (OSError, CancelledError) as exc:
            raise self._gone() from exc

    def _gone(self):
        text = "client: the scheduler of the cluster is gone, and the fit with it"
        if self._manifest is not None and self._manifest.number is not None:
            where = self._manifest.path
            text += f"; the same fit on another cluster continues from {where!r}"
        return SchedulerLost(text)

    def _lose(self, lost):
        for k in lost:
            self._actors[k] = self._futures[k] = None
            self.n_losses += 1
            self._losses[k] += 1
            if self._losses[k] > _MOST_LOSSES:
                raise RuntimeError(
                    f"client: the worker of shard {k} was lost {self._losses[k]} times "
                    "in the same step; give the workers more memory, or increase "
                    "n_shards and the number of workers"
                )

    # --------------------------------------------------------------- workers

    def _make(self, which):
        """Place shards on workers, which the scheduler chooses."""
        self._workers()  # SchedulerLost if the cluster is gone
        checkpoint = None
        if self._manifest is not None:
            checkpoint = self._manifest.path, self._manifest.number
        wanted = tasks.versions()
        for k in which:
            self._futures[k] = self.client.submit(
                tasks.ShardFit, *self._shards.shard(k), self._estimator, k,
                self.bounds[k], checkpoint, wanted, self._shards.room, self._for_gate,
                actor=True, pure=False,
            )  # fmt: skip
        for k in which:
            self._actors[k] = self._place(k)

    def _place(self, k):
        """The actor of a new shard; None if its worker is lost already."""
        future, watch = self._futures[k], WorkersWatch(self.client)

        def look():
            self._workers()
            watch.look()

        answer = wait_for(self.client, future, look)
        try:
            actor = answer.result()
            where = self.client.who_has([future])
        except Exception as exc:
            if not is_lost(future, exc):
                raise  # of counting, or of making the shard
            self._workers()
            return None
        self._addresses[k] = next(iter(where[future.key]), None)
        return actor

    def close(self) -> None:
        """Free the workers."""
        self._actors = [None] * self.n_shards
        # The cluster may be gone.
        with suppress(OSError, CancelledError, RuntimeError):
            self.client.cancel([f for f in self._futures if f is not None])
        self._futures = [None] * self.n_shards
        self._shards.close()
        self._log.close()
