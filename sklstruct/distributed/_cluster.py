"""The client: counts a text into shards on workers, and drives the fits of the shards.

in:   parts of a text, in any order
1.    words of each part, merged by the client into one vocabulary
2.    counts of each part, with the ids of this vocabulary, merged in groups of parts
3.    counts of each shard, merged from the counts of the groups
4.    the fits of the shards, in lockstep: requests in, one answer out
out:  the numbers of the model, shard by shard

Steps 1 to 3 are tasks of the cluster, which runs them again if a worker is lost. A
shard that is lost in step 4 is counted by the same tasks, and its state restored by the
answers to all shards since the last checkpoint.
"""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from ..backoff import BackoffClassifier
from ..context_tree._shards import shard_bounds
from ..symbols import Labels
from . import _client
from . import _tasks as tasks
from ._client import (
    SchedulerLost,
    WorkersWatch,
    check_scheduler,
    killed_worker,
    wait_for,
)


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
                if time.monotonic() - since > _client.WORKERS_BACK:
                    raise
                check_scheduler(self.client)
                time.sleep(_client.PATIENCE / 10)

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
        words = [self.submit(tasks.count_words, text) for text in self._texts]
        for part in range(len(words)):
            try:
                found = self.result(words.pop(0))
            except UnicodeDecodeError as exc:  # without a text, after its journey
                codec, data, start, stop, _ = exc.args
                raise ValueError(
                    f"X: part {part} is not {codec}: {data[start:stop]!r} after "
                    f"{data[max(0, start - 30) : start]!r}; give the encoding of the "
                    "files, such as dask.bag.read_text(..., encoding='latin-1')"
                ) from None
            yield found

    def count(
        self,
        estimator: BackoffClassifier,
        labels: Labels,
        max_depth: int,
        n_shards: int,
    ) -> None:
        """Count every part, and set the `bounds` of the shards."""
        self._how, self._n_shards = (labels, estimator, max_depth), n_shards
        sizes, self.n_levels = np.zeros(labels.known_symbols("counting").size), 1
        counted = self._count_groups()
        for future in [self.submit(tasks.measure_part, c) for c in counted]:
            part_sizes, n_levels = self.result(future)
            sizes += part_sizes
            self.n_levels = max(self.n_levels, n_levels)
        self.bounds = shard_bounds(sizes, n_shards)

    def _count_groups(self):
        """Counts of as many groups of parts as there are shards.

        Each group is cut for each shard. To cut and to merge 8000 parts for 50 shards
        takes 13 000 tasks; without groups it would take 800 000.
        """
        if self._counted is None:
            labels, *how = self._how
            given = self.give(labels)
            parts = [
                self.submit(tasks.count_part, text, given, *how)
                for text in self.take_texts()
            ]
            cuts = np.linspace(0, len(parts), min(len(parts), self._n_shards) + 1)
            self._counted = [
                self.add_up(tasks.merge_counted, parts[a:b])
                for a, b in pairwise(cuts.astype(np.int64).tolist())
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
        """Free the counts of the groups; lost shards count them again."""
        self._counted = None

    def close(self) -> None:
        """Free the counts of the groups."""
        self.release()

    def shard(self, k: int) -> Any:
        """A future of the counts of a shard, merged two by two."""
        found = [
            self.submit(tasks.cut_part, counted, self.bounds[k])
            for counted in self._count_groups()
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
