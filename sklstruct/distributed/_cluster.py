"""The client's side: counts a text in shards on the workers, and drives their fits.

in:   parts of a text, in any order
1.    words of each part, merged by the client into one vocabulary
2.    counts of each part, with the ids of this vocabulary, in a file of its worker
3.    counts of each shard, merged from ranges of the files of all parts
4.    the fits of the shards, in lockstep: requests in, one answer out
out:  the numbers of the model, shard by shard, in files of the workers

Apart from the tree of a shard, no step needs memory that grows with the text. A worker
has one of its shards in memory at a time, or as many as fit into half of its memory.
Tasks of step 1 are run again by the cluster if a worker is lost. The counts of parts
are lost with their worker, and are counted again when a shard asks for them. A shard
that is lost in step 4 is merged again, and its state restored by the answers to all
shards since the last checkpoint.
"""

from __future__ import annotations

import math
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..context_tree._shards import most_symbols, prefixes_of_keys, shard_bounds
from ..symbols import Labels
from . import _client
from . import _tasks as tasks
from ._client import (
    SchedulerLost,
    WorkersWatch,
    check_scheduler,
    is_lost,
    killed_worker,
    wait_for,
)

# Minimum number of prefixes of a shard, unless their contexts cannot be divided
# further: the largest shard is then larger than the mean by at most one such part.
_PREFIXES = 4
# A shard may take this multiple of the memory in which a part is counted, and at least
# these bytes, because each shard has open files.
_SHARE = 2
_LEAST_ROOM = 1 << 24


class Cluster:
    """A text on the workers of a cluster.

    parts: a function that returns the parts of the text for `read_part`, or futures of
    them. It is called again whenever they are needed again.
    analyzer: the rule by which the workers split strings.
    memory: bytes that a worker may use for counting.
    """

    def __init__(
        self,
        client: Any,
        parts: Callable[[], list],
        analyzer: str = "word",
        memory: float = math.inf,
    ) -> None:
        self.client, self._analyzer, self._memory = client, analyzer, memory
        self._parts = parts
        self._check_workers()
        self._texts: list | None = None

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
                if time.monotonic() - since > _client.WORKERS_BACK:
                    raise
                check_scheduler(self.client)
                time.sleep(_client.PATIENCE / 10)

    def submit(self, function: Callable, *args: Any, actor: bool = False) -> Any:
        """A new task. If the result is lost, the task runs again, except an actor."""
        name = f"sklstruct-{function.__name__}-{uuid.uuid4().hex}"
        return self.client.submit(function, *args, key=name, actor=actor)

    def give(self, x: Any) -> Any:
        """A task with the result x, which is sent once for all tasks that take it."""
        with warnings.catch_warnings():
            # Dask warns because words and their classes are larger than a task should
            # be. But data sent in another way would be lost with its worker.
            warnings.filterwarnings("ignore", "Sending large graph")
            return self.submit(tasks.as_given, x)

    def result(self, future: Any) -> Any:
        """The result of a task."""
        return self._result(future, self._wait(future))

    def _wait(self, future):
        return wait_for(self.client, future, WorkersWatch(self.client).look)

    def _result(self, future, answer):
        error = answer.exception()
        if error is None:
            return answer.result()
        if isinstance(error, killed_worker()):
            raise RuntimeError(
                "client: several workers were lost while they counted the same "
                f"part of the text; {_client.MORE_MEMORY}"
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
        self._n_parts = len(self._texts)
        words = [self.submit(tasks.count_words, text) for text in self._texts]
        for part in range(len(words)):
            try:
                found = self.result(words.pop(0))
            except UnicodeDecodeError as exc:  # without a text, after its journey
                codec, data, start, stop, _ = exc.args
                raise ValueError(
                    f"X: partition {part} is not {codec}: {data[start:stop]!r} after "
                    f"{data[max(0, start - 30) : start]!r}; give the encoding of the "
                    "files, such as dask.bag.read_text(..., encoding='latin-1')"
                ) from None
            yield found

    def count(
        self,
        labels: Labels,
        sizes: np.ndarray,
        max_depth: int,
        depth: int | None,
        n_shards: int,
        divide: bool = True,
    ) -> None:
        """Count every part, and set the `bounds` of the shards.

        sizes: occurrences of each symbol.
        max_depth, depth: columns of the windows, and the longest contexts; None: all
        columns.
        divide: whether contexts that end in one symbol may be in several shards.
        """
        self._labels, n = labels, sizes.size
        keys, width = np.arange(1, n + 1), 1
        if divide:
            most = sizes.sum() / (_PREFIXES * n_shards)
            longest = min(depth or max_depth, max_depth, most_symbols(n))
            keys, sizes, width = self._longer(keys, sizes, most, longest)
        prefixes = prefixes_of_keys(keys, width, n)
        self.bounds = shard_bounds(prefixes, sizes, n_shards, n)
        self._depth = max_depth, min(max_depth, depth or max_depth)
        self._counted: list = [None] * self._n_parts
        self._address: list[str | None] = [None] * self._n_parts
        self._count_parts()

    def _longer(self, keys, sizes, most, longest):
        """(keys, sizes, width) of prefixes of at most so many occurrences, or symbols.

        They are prefixes of one symbol, of which those that are too large are divided.
        """
        n = sizes.size
        for width in range(1, longest):
            large = (sizes > most) & (keys % (n + 1) > 0)
            if not large.any():
                return keys, sizes, width
            texts, given = self.take_texts(), self.give(self._labels)
            counts = [
                self.submit(tasks.count_prefixes, text, given, keys[large], width)
                for text in texts
            ]
            found = [self.result(future) for future in counts]
            self._texts = texts
            keys, sizes = tasks.sums_by_key(
                np.concatenate([keys[~large] * (n + 1), *(k for k, _ in found)]),
                np.concatenate([sizes[~large], *(c for _, c in found)]),
            )
        return keys, sizes, longest

    def _count_parts(self):
        """(address, key) of the counts of each part; counts lost parts again."""
        workers = self.client.nthreads()
        lost = [
            i
            for i, (address, future) in enumerate(zip(self._address, self._counted))
            if address not in workers or future.status not in ("finished", "pending")
        ]
        while lost:
            texts, given = self.take_texts(), self.give(self._labels)
            for i in lost:
                self._counted[i] = self.submit(
                    tasks.PartCounts, texts[i], given, *self._depth, self.bounds,
                    self._memory, actor=True,
                )  # fmt: skip
            del texts, given
            for i in lost:
                self._address[i] = self._place(self._counted[i])
            lost = [i for i in lost if self._address[i] is None]
        return [(a, counted.key) for a, counted in zip(self._address, self._counted)]

    def _place(self, future):
        """Address of the worker that has counted a part; None if the worker is lost."""
        answer = self._wait(future)
        try:
            self._result(future, answer)
            return next(iter(self.client.who_has([future])[future.key]), None)
        except SchedulerLost:
            raise
        except Exception as exc:
            if not is_lost(future, exc):
                raise
            return None

    def take_texts(self) -> list:
        """Futures of the numbered parts, which are freed when their tasks have run."""
        texts, self._texts = self._texts, None
        if texts is None:
            texts = self._read_parts()
        return texts

    def _read_parts(self):
        rule = self._analyzer
        return [
            self.submit(tasks.read_part, part, rule, number)
            for number, part in enumerate(self._parts())
        ]

    def close(self) -> None:
        """Free the counts."""
        self._counted = []

    @property
    def room(self) -> float:
        """Bytes of the shards that a worker has in memory at once."""
        return max(_SHARE * self._memory, _LEAST_ROOM)

    def choose_shards(self, given: int | None, n_bytes: float) -> int:
        """The given number of shards; None: one of them fits into each worker.

        n_bytes: an upper bound of the memory of all shards.
        """
        if given is not None:
            return given
        largest = n_bytes * (1 + 1 / _PREFIXES)
        return max(len(self.client.nthreads()), math.ceil(largest / self.room))

    def shard(self, k: int) -> tuple[Callable[..., tasks.ShardCounts], list]:
        """See `Shards`."""
        sizes = self._labels.n_symbols, self._labels.n_classes, *self._depth
        return tasks.merge_parts, [self._count_parts(), k, *sizes]

    def add_up(self, add: Callable, found: list) -> Any:
        """A future of the sum of some results, two by two."""
        while len(found) > 1:
            rest = found[len(found) // 2 * 2 :]
            found = [
                self.submit(add, a, b) for a, b in zip(found[::2], found[1::2])
            ] + rest
        return found[0]
