"""The client of a cluster: finding it, waiting for its tasks, and noticing its loss."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

# Seconds between two checks whether the cluster, or a worker that has not answered,
# still exists.
PATIENCE = 1.0

# Longest time in seconds without any worker.
WORKERS_BACK = 60.0

# Longest time in seconds with all workers paused. Dask pauses workers that are short of
# memory; they may be spilling to the disk. After the second time it is an error if a
# disk has fewer free bytes than _ROOM, because Dask tries forever to write to a full
# disk.
PAUSED = 300.0
PAUSED_BY_DISK = 20.0
_ROOM = 1 << 25

# The remedies for too little memory. A TextFile is cut to the memory of the workers.
MORE_MEMORY = (
    "give the workers more memory, or X in smaller parts: a TextFile, "
    "dask.bag.read_text(..., blocksize=2**22) or X.repartition(n)"
)


@contextmanager
def noted(text: str, kind: type[Exception] = Exception) -> Iterator[None]:
    """Add a note to the errors of this kind that are raised inside."""
    try:
        yield
    except kind as exc:
        exc.add_note(text)
        raise


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
        try:
            found = distributed.get_client(address=client)
        except (OSError, ValueError) as exc:
            raise ValueError(
                f"client={client!r} must be the address of a running scheduler, such "
                f"as 'tcp://127.0.0.1:8786' ({exc})"
            ) from exc
    elif client is None:
        with suppress(ValueError):  # outside of a task
            distributed.get_worker()
            raise RuntimeError(
                "client: a task of a cluster cannot train on the workers, because it "
                "occupies one of them; use LanguageModel if whole fits are sent to "
                "workers"
            )
        try:
            found = distributed.get_client()
        except ValueError as exc:
            raise ValueError(
                "client: a Dask client was not found; call distributed.Client(address) "
                "before fit, or pass a client"
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
    check_scheduler(found)
    return found


class SchedulerLost(RuntimeError):
    """The scheduler of the cluster is lost, during a fit or with a model on workers."""


class PartLost(RuntimeError):
    """The counts of a part that a shard needs are lost with their worker."""


def is_lost(future: Any, error: Exception) -> bool:
    """Whether a task failed by the loss of a worker, and not by an error of the task.

    future: that of the task, which has ended. error: the exception that was raised when
    its result was requested.
    """
    if future.status != "error":
        return future.status != "finished" or isinstance(error, OSError)
    # Dask has no special class for the loss of an actor.
    return isinstance(error, (killed_worker(), PartLost)) or (
        isinstance(error, RuntimeError)
        and str(error).startswith("Worker holding Actor was lost")
    )


def check_scheduler(client: Any) -> None:
    """Raise an error if a client has lost its scheduler."""
    if client.status != "running":
        raise SchedulerLost(
            "client: the scheduler of the cluster is gone, or the client is closed; "
            "make a new distributed.Client"
        )


async def _gather(client, future):
    [found] = await client.gather([future], asynchronous=True)
    return found


def wait_for(client: Any, future: Any, look: Callable[[], None]) -> Future:
    """Wait until a task has ended and its result has arrived, or an error.

    ``future.result(timeout=...)`` must not be used: all results of a client come
    through one shared request. If a time-out or Ctrl-C cancels a wait just before this
    request is sent, Dask keeps the cancelled request, and no result of this client can
    be received any more (dask/distributed #8514). Here nothing cancels the request.

    `look` is called every `PATIENCE` seconds, and raises an error to end the wait: the
    task is cancelled then, and after Ctrl-C. The returned future has ended: its
    ``result()`` is that of the task, or raises its error.
    """
    loop = client.loop.asyncio_loop
    answer = asyncio.run_coroutine_threadsafe(_gather(client, future), loop)
    try:
        while not wait([answer], timeout=PATIENCE).done:
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
    """Detects waits that would never end, because all workers are lost or paused."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._seen = self._worked = time.monotonic()

    def look(self) -> None:
        """Raise an error if no worker was there, or able to work, for a long time."""
        check_scheduler(self._client)
        now = time.monotonic()
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        except (OSError, CancelledError) as exc:
            raise SchedulerLost("client: the scheduler of the cluster is gone") from exc
        if workers:
            self._seen = now
        elif now - self._seen > WORKERS_BACK:
            raise RuntimeError(
                f"client: the cluster has had no worker for {WORKERS_BACK:g} seconds"
            )
        if not workers or any(_works(worker) for worker in workers):
            self._worked = now
        elif now - self._worked > PAUSED:
            raise RuntimeError(
                f"client: all workers have been paused for {PAUSED:g} seconds, as "
                f"they are short of memory; {MORE_MEMORY}"
            )
        elif now - self._worked > PAUSED_BY_DISK:
            self._check_disks()

    def _check_disks(self):
        for address, (folder, free) in self._client.run(_free_bytes).items():
            if free < _ROOM:
                raise RuntimeError(
                    f"client: all workers are paused, as they are short of memory, and "
                    f"the disk to which worker {address} moves data is full: {free} "
                    f"bytes are free in {folder!r}. Free it, start the workers with "
                    f"another --local-directory, or {MORE_MEMORY}"
                )


def _free_bytes(dask_worker):
    folder = dask_worker.local_directory
    return folder, shutil.disk_usage(folder).free


def _works(worker):
    tasks_of = worker.get("metrics", {}).get("task_counts", {})
    return worker.get("status") != "paused" or bool(tasks_of.get("executing"))


def killed_worker() -> type[Exception]:
    """Dask's error about a task whose workers were lost."""
    return import_distributed().scheduler.KilledWorker
