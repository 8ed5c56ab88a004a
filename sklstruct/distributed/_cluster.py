"""The client: counts a text into shards on workers, and drives the fits of the shards.

in:   parts of a text, in any order
1.    words of each part, merged by the client into one vocabulary
2.    counts of each part, with the ids of this vocabulary
3.    counts of each shard, merged from the counts of the parts
4.    the fits of the shards, in lockstep: requests in, one answer out
out:  the numbers of the model, shard by shard

Steps 1 to 3 are tasks of the cluster, which runs them again if a worker is lost. A
shard that is lost in step 4 is counted by the same tasks, and its state restored by the
answers to all shards since the last checkpoint.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import pickle
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._checkpoint import Checkpoint
from .._files import open_write
from ..backoff import BackoffClassifier
from ..context_tree._shards import Joined, shard_bounds
from ..symbols import Labels
from . import _tasks as tasks
from ._lockstep import DONE, ERROR, KEEP, LARGEST, REPORT, TOTAL, Request, answer
from ._models import gather

# Seconds between two checks whether the cluster, or a worker that has not answered,
# still exists.
_PATIENCE = 1.0

# Longest time in seconds without any worker.
_WORKERS_BACK = 60.0

# Longest time in seconds with all workers paused. Dask pauses workers that are short of
# memory; they may be spilling to the disk.
_PAUSED = 300.0

# Largest number of losses of a shard without an answer in between; beyond it the shard
# is too large for the workers.
_MOST_LOSSES = 3

# After this time in seconds without an answer a shard is asked whether it has answered:
# the answer may be lost. After the second time a call that it does not know is lost.
_DOUBT = 20.0
_NEVER_ARRIVED = 300.0

# Bytes of a piece of an answer that did not arrive as a whole.
_PIECE = 1 << 22

# The result of a call to a shard whose worker is lost.
_LOST = Request("lost")


def import_distributed() -> Any:
    """Dask's module `distributed`, or an error that says how to install it."""
    try:
        import_module("dask.bag")
        return import_module("distributed")
    except ImportError as exc:
        raise ImportError(
            "DaskLanguageModel needs Dask: pip install 'sklstruct[distributed]'"
        ) from exc


def find_client(client: Any) -> Any:
    """The client of a cluster: given, by address, or the current one."""
    distributed = import_distributed()
    if isinstance(client, distributed.Client):
        found = client
    elif isinstance(client, str):
        found = distributed.get_client(address=client)
    elif client is None:
        if _inside_a_task(distributed):
            raise RuntimeError(
                "client: a task of a cluster cannot train on the workers, because it "
                "occupies one of them; use LanguageModel if whole fits are sent to "
                "workers"
            )
        try:
            found = distributed.get_client()
        except ValueError as exc:
            raise ValueError(
                "client: there is no Dask client; make one before fit, "
                "distributed.Client(address), or pass it as client"
            ) from exc
    else:
        raise TypeError(
            "client must be a distributed.Client, the address of a scheduler or None, "
            f"got {type(client).__name__}"
        )
    if found.asynchronous:
        raise TypeError(
            "client must not be an asynchronous one: fit waits for the cluster"
        )
    return found


def _inside_a_task(distributed):
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


class SchedulerLost(RuntimeError):
    """The scheduler of the cluster is lost, during a fit or with a model on workers."""


def check_scheduler(client: Any) -> None:
    """Raise an error if a client has lost its scheduler."""
    if client.status != "running":
        raise SchedulerLost("client: the scheduler of the cluster is gone")


async def _gather(client, future):
    [found] = await client.gather([future], asynchronous=True)
    return found


def wait_for(client: Any, future: Any, look: Callable[[], None]) -> Future:
    """Wait until a task has ended and its result has arrived, or an error.

    ``future.result(timeout=...)`` must not be used: all results of a client come
    through one shared request. If a time-out or Ctrl-C cancels a wait just before this
    request is sent, Dask keeps the cancelled request, and no result of this client can
    be received any more (dask/distributed #8514). Here nothing cancels the request.

    Parameters
    ----------
    client : distributed.Client
        The client of the task.

    future : distributed.Future
        The task. It is cancelled if `look` raises an error, and by Ctrl-C.

    look : callable
        Called every `_PATIENCE` seconds; it raises an error to end the wait.

    Returns
    -------
    answer : concurrent.futures.Future
        Has ended; ``answer.result()`` is the result or raises the error.
    """
    loop = client.loop.asyncio_loop
    answer = asyncio.run_coroutine_threadsafe(_gather(client, future), loop)
    try:
        while not wait([answer], timeout=_PATIENCE).done:
            look()
    except BaseException:
        with suppress(OSError, CancelledError, RuntimeError):  # the cluster is gone
            client.cancel([future])
        raise
    if answer.cancelled():
        check_scheduler(client)
        raise RuntimeError(
            "client: it cannot receive results any more, because a time-out or Ctrl-C "
            "in future.result() has cancelled its request for results (dask/"
            "distributed #8514); make a new distributed.Client"
        )
    return answer


class WorkersWatch:
    """Finds out when a wait would never end: no workers, or all of them paused.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._seen = self._worked = time.monotonic()

    def look(self) -> None:
        """Raise an error if there has long been no worker, or none that can work."""
        check_scheduler(self._client)
        now = time.monotonic()
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        except (OSError, CancelledError) as exc:
            raise SchedulerLost("client: the scheduler of the cluster is gone") from exc
        if workers:
            self._seen = now
        elif now - self._seen > _WORKERS_BACK:
            raise RuntimeError(
                f"client: the cluster has had no worker for {_WORKERS_BACK:g} seconds"
            )
        if not workers or any(_works(worker) for worker in workers):
            self._worked = now
        elif now - self._worked > _PAUSED:
            raise RuntimeError(
                f"client: all workers have been paused for {_PAUSED:g} seconds, as "
                "they are short of memory; give the workers more"
            )


def _works(worker):
    tasks_of = worker.get("metrics", {}).get("task_counts", {})
    return worker.get("status") != "paused" or bool(tasks_of.get("executing"))


def _killed_worker():
    return import_distributed().scheduler.KilledWorker


def _is_loss(error):
    """True if the error of a task means that its workers were lost."""
    if isinstance(error, _killed_worker()):
        return True
    # Dask has no special class for this error.
    return isinstance(error, RuntimeError) and str(error).startswith(
        "Worker holding Actor was lost"
    )


@contextmanager
def _noted(text):
    """Errors inside get a note."""
    try:
        yield
    except Exception as exc:
        exc.add_note(text)
        raise


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
        """Keep the answers so far: they precede the load of any state."""
        self._file.seek(0, os.SEEK_END)
        self._restart = self._file.tell()

    def restart(self) -> None:
        """Drop the answers after `mark_start`: a state has been written."""
        self._file.truncate(self._restart)

    def __iter__(self) -> Iterator[Any]:
        self._file.seek(0, os.SEEK_END)
        end = self._file.tell()
        at = 0
        while at < end:
            self._file.seek(at)
            value = pickle.load(self._file)
            at = self._file.tell()
            yield value

    def close(self) -> None:
        """Delete the file."""
        self._file.close()


class Manifest:
    """The file with the number of the last state that all shards have written.

    Parameters
    ----------
    checkpoint : Checkpoint
        Its `path` is that of the manifest, and the prefix of the names of the states.

    n_shards : int
        Number of shards.
    """

    def __init__(self, checkpoint: Checkpoint, n_shards: int) -> None:
        self.path = os.path.abspath(os.fspath(checkpoint.path))
        self._interval = float(checkpoint.interval)
        self._n_shards = n_shards
        self._written = time.monotonic()
        self.number = self._read()

    def _read(self):
        try:
            with open(self.path, encoding="utf-8") as file:
                found = json.load(file)
            number, n_shards = int(found["number"]), int(found["n_shards"])
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as exc:
            raise ValueError(
                f"checkpoint: {self.path!r} is not a checkpoint of shards ({exc}); "
                "remove the file to start a new fit"
            ) from exc
        if n_shards != self._n_shards:
            raise ValueError(
                f"checkpoint: {self.path!r} belongs to {n_shards} shards, and there "
                f"are {self._n_shards}; set n_shards={n_shards}, or remove it to start "
                "a new fit"
            )
        return number

    def due(self) -> int | None:
        """The number of the state to write now, None if it is not time."""
        if time.monotonic() - self._written < self._interval:
            return None
        return 0 if self.number is None else self.number + 1

    def commit(self, number: int, problems: list[str | None]) -> bool:
        """Record that the shards have written a state; False if that failed."""
        self._written = time.monotonic()
        wrong = [problem for problem in problems if problem is not None]
        try:
            if not wrong:
                text = json.dumps({"number": number, "n_shards": self._n_shards})
                with open_write(self.path, name="checkpoint") as file:
                    file.write(text.encode())
        except OSError as exc:
            wrong = [str(exc)]
        if wrong:
            warnings.warn(
                f"checkpoint: {self.path!r} could not be written ({wrong[0]}); the fit "
                "continues, and the old checkpoint is kept",
                RuntimeWarning,
                stacklevel=2,
            )
            return False
        self.number = number
        return True


class Shards(Protocol):
    """The counts of a text, divided into shards.

    Attributes
    ----------
    client : distributed.Client
        The client of the cluster.

    bounds : list of (int, int)
        The newest symbols of the contexts of each shard.

    n_levels : int
        Number of levels of the whole tree.
    """

    client: Any
    bounds: list[tuple[int, int]]
    n_levels: int

    def shard(self, k: int) -> Any:
        """A future of the counts of a shard."""

    def release(self) -> None:
        """Free the memory; lost shards are counted again."""

    def close(self) -> None:
        """Free what is needed to count lost shards again."""


class Cluster:
    """A text on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.

    parts : callable
        Returns the parts of the text for `read_part`, or futures of them. It is called
        again when they are needed again.

    analyzer : {"word", "kenlm", "char"}, default="word"
        The rule by which the workers split strings.
    """

    def __init__(
        self, client: Any, parts: Callable[[], list], analyzer: str = "word"
    ) -> None:
        self.client, self._analyzer = client, analyzer
        self._parts = parts
        self._check_workers()
        self._texts: list | None = None
        self._counted: list | None = None

    def _check_workers(self):
        if not self.client.nthreads():
            raise RuntimeError(
                "client: the cluster has no workers; wait for them with "
                "client.wait_for_workers(n)"
            )
        try:
            found = self._versions()
        except (ImportError, AttributeError) as exc:
            raise RuntimeError(
                f"client: a worker cannot import sklstruct ({exc}); install the same "
                "versions on all machines"
            ) from exc
        wanted = tasks.versions()
        other = {f"worker {k}": v for k, v in found.items() if v != wanted}
        if other:
            raise RuntimeError(tasks.version_error(wanted, other))

    def _versions(self):
        since = time.monotonic()
        while True:
            try:
                return self.client.run(tasks.versions)
            except OSError:
                # A worker is lost; the scheduler will notice.
                if time.monotonic() - since > _WORKERS_BACK:
                    raise
                check_scheduler(self.client)
                time.sleep(_PATIENCE / 10)

    def submit(self, function: Callable, *args: Any) -> Any:
        """A new task; if its result is lost the cluster runs it again."""
        name = f"sklstruct-{function.__name__}-{uuid.uuid4().hex}"
        return self.client.submit(function, *args, key=name)

    def give(self, x: Any) -> Any:
        """A task with the result x, which is sent once for all tasks that take it."""
        with warnings.catch_warnings():
            # Words and their classes take more bytes than a task should have, for Dask;
            # but data that was sent in another way would be lost with its worker.
            warnings.filterwarnings("ignore", "Sending large graph")
            return self.submit(tasks.as_given, x)

    def result(self, future: Any) -> Any:
        """The result of a task."""
        answer = wait_for(self.client, future, WorkersWatch(self.client).look)
        error = answer.exception()
        if error is None:
            return answer.result()
        if isinstance(error, _killed_worker()):
            raise RuntimeError(
                "client: several workers were lost while they counted the same "
                "part of the text; give the workers more memory"
            ) from error
        if future.status in ("error", "finished"):
            raise error
        raise SchedulerLost(
            "client: the cluster, or data of X that it cannot compute again, "
            f"was lost while it counted the text ({error})"
        ) from error

    # ------------------------------------------------------------- counting

    def read(self) -> Iterator[tasks.PartWords]:
        """Number the words of every part; yields the words of each."""
        self._texts = self._read_parts()
        words = [self.submit(tasks.count_words, text) for text in self._texts]
        while words:
            yield self.result(words.pop(0))

    def count(
        self,
        estimator: BackoffClassifier,
        labels: Labels,
        max_depth: int,
        n_shards: int,
    ) -> None:
        """Count every part, and set the `bounds` of the shards."""
        self._how = labels, estimator, max_depth
        sizes, self.n_levels = np.zeros(labels.known_symbols("counting").size), 1
        counted = self._count_parts()
        for future in [self.submit(tasks.measure_part, c) for c in counted]:
            part_sizes, n_levels = self.result(future)
            sizes += part_sizes
            self.n_levels = max(self.n_levels, n_levels)
        self.bounds = shard_bounds(sizes, n_shards)

    def _count_parts(self):
        if self._counted is None:
            labels, *how = self._how
            given = self.give(labels)
            self._counted = [
                self.submit(tasks.count_part, text, given, *how)
                for text in self.take_texts()
            ]
        return self._counted

    def take_texts(self) -> list:
        """Futures of the numbered parts, which are freed when their tasks have run."""
        texts, self._texts = self._texts, None
        if texts is None:
            texts = self._read_parts()
        return texts

    def _read_parts(self):
        rule = self._analyzer
        return [self.submit(tasks.read_part, part, rule) for part in self._parts()]

    def release(self) -> None:
        """Free the counts of the parts; lost shards count them again."""
        self._counted = None

    def close(self) -> None:
        """Free the counts of the parts."""
        self.release()

    def shard(self, k: int) -> Any:
        """A future of the counts of a shard, merged two by two."""
        found = [
            self.submit(tasks.cut_part, counted, self.bounds[k])
            for counted in self._count_parts()
        ]
        return self.add_up(tasks.merge_counted, found)

    def add_up(self, add: Callable, found: list) -> Any:
        """A future of the sum of some results, two by two."""
        while len(found) > 1:
            rest = found[len(found) // 2 * 2 :]
            found = [
                self.submit(add, a, b) for a, b in zip(found[::2], found[1::2])
            ] + rest
        return found[0]


class Call(NamedTuple):
    """A running call to a shard."""

    actor: Any  # that of the call; a restored shard has another one
    number: int
    answer: Any


class ShardDriver:
    """The fits of all shards, in lockstep.

    Parameters
    ----------
    shards : Shards
        The text, counted.

    estimator : BackoffClassifier
        Unfitted; without a checkpoint of its own.

    checkpoint : Checkpoint or None
        Place of the states of the shards.

    facts : bool, default=False
        Whether the models have the weight of the samples in each context.

    Attributes
    ----------
    client : distributed.Client
        Must be the current client when methods are called.

    bounds : list of (int, int)
        The newest symbols of the contexts of each shard.

    n_exchanges : int
        Number of sums and maxima over all shards.

    n_bytes : int
        Bytes of the arrays that the shards sent and received for them.

    n_losses : int
        Number of restored shards.
    """

    def __init__(
        self,
        shards: Shards,
        estimator: BackoffClassifier,
        checkpoint: Checkpoint | None = None,
        facts: bool = False,
    ) -> None:
        self._shards, self._estimator, self._facts = shards, estimator, facts
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
        self._log.add(None)  # starts the fit
        self._started = False  # True after the first KEEP request
        self.n_exchanges = self.n_bytes = self.n_losses = 0

    # ------------------------------------------------------------- one round

    def run(
        self, report: Callable[[int, float, float], bool]
    ) -> list[tuple[str, type[Warning]]]:
        """Drive the fits to their end; the warnings of the first shard."""
        self._make(range(self.n_shards))
        last = [None]
        while True:
            requests = self._round(last)
            kinds = {request.kind for request in requests}
            for request in requests:
                if request.kind == ERROR:
                    raise request.value.error()
            if kinds == {DONE}:
                return requests[0].value
            last = [self._answer(kinds, requests, report)]
            self._losses = [0] * self.n_shards

    def _answer(self, kinds, requests, report):
        kind = requests[0].kind
        if len(kinds) > 1 or kind in (TOTAL, LARGEST):
            reply = answer(requests)
            self.n_exchanges += 1
            self.n_bytes += self.n_shards * reply.nbytes
            self.n_bytes += sum(r.value.nbytes for r in requests)
        elif kind == REPORT:
            reply = report(*requests[0].value)
        elif kind == KEEP:
            if not self._started:
                self._log.mark_start()
                self._started = True
            reply = None if self._manifest is None else self._manifest.due()
            self._due = reply
        else:
            reply = None
            if self._manifest.commit(self._due, [r.value for r in requests]):
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
        """True if Dask knows a worker with the shard."""
        return self._futures[k].status in ("finished", "pending")

    def _wait(self, k, call):
        """The result of a call to a shard, _LOST if its worker is lost."""
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
                return answer.result(timeout=min(_PATIENCE, limit))
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
        size = self._ask_about(k, call, "pack", call.number)
        if isinstance(size, tasks.Failure):
            raise size.error()
        if size is _LOST:
            return _LOST
        note = (
            f"client: raised while receiving an answer of shard {k}, of {size} bytes, "
            f"from its worker {self._addresses[k]}"
        )
        with _noted(note):
            packed = bytearray(size)
        for at in range(0, size, _PIECE):
            piece = self._ask_about(k, call, "packed", at, at + _PIECE)
            if piece is _LOST:
                return _LOST
            packed[at : at + _PIECE] = piece
        with _noted(note):
            return pickle.loads(packed)

    def ask(
        self, k: int, method: str, *arguments: Any, call: Call | None = None,
        again: Callable[[int], None] | None = None,
    ) -> Any:  # fmt: skip
        """The result of a method of a shard, which is restored if it is lost.

        Parameters
        ----------
        k, method, arguments
            Number of the shard, and a method of `tasks.ShardFit` with its arguments.

        call : Call or None, default=None
            The result of `begin` with the same arguments. If the shard has been
            restored since, the call is made again.

        again : callable, default=None
            Called with k after the shard was restored and before the call is repeated.
        """
        if call is None or call.actor is not self._actors[k]:
            call = self.begin(k, method, *arguments)
        found = self._wait(k, call)
        while found is _LOST:
            self._lose([k])
            self._make([k])
            if self._replay(k) is not _LOST:
                if again is not None:
                    again(k)
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
        joined = Joined(self.ask_all("pairs"))
        gather(estimator, joined, partial(self.ask_all, "model"), max_depth, labels)

    def _round(self, answers):
        """The requests of all shards after the answers; lost shards are restored."""
        calls = [self.begin(k, "advance", answers) for k in range(self.n_shards)]
        requests = [self._wait(k, call) for k, call in enumerate(calls)]
        while any(request is _LOST for request in requests):
            lost = [k for k, request in enumerate(requests) if request is _LOST]
            self._lose(lost)
            self._make(lost)
            for k in lost:
                requests[k] = self._replay(k)
        return requests

    def _replay(self, k):
        """The request of a new shard after all answers so far; _LOST if it is lost."""
        request = _LOST
        for reply in self._log:
            request = self._wait(k, self.begin(k, "advance", [reply]))
            if request is _LOST:
                break
        return request

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
        """Put shards on workers of the scheduler's choice."""
        self._workers()  # SchedulerLost if there is no cluster
        checkpoint = None
        if self._manifest is not None:
            checkpoint = self._manifest.path, self._manifest.number
        wanted = tasks.versions()
        counts = {k: self._shards.shard(k) for k in which}
        for k in which:
            self._futures[k] = self.client.submit(
                tasks.ShardFit, counts[k], self._estimator, k, self._shards.n_levels,
                checkpoint, wanted, self._facts, actor=True, pure=False,
            )  # fmt: skip
        del counts
        self._shards.release()
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
            if future.status == "error":
                if not _is_loss(exc):
                    raise  # of counting, or of making the shard
            elif future.status == "finished" and not isinstance(exc, OSError):
                raise
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
