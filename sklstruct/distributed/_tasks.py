"""Tasks of the workers: reading, counting, cutting, merging, and the shards' fits.

All tasks but the fits are functions of their arguments alone, so that a cluster can run
them again if a worker is lost. A fit is an object with a state, one for each shard.
"""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import platform
import traceback
import weakref
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._checkpoint import NO_STORE
from ..backoff import BackoffClassifier, Counted, count_parts
from ..context_tree import CountRuns, Level, RunFile, Spill, Stored
from ..context_tree._shards import PairShard, Prefix, prefix_keys
from ..symbols import (
    Labels,
    NumberedText,
    SentenceEncoder,
    TextFile,
    check_symbols,
    need_symbols,
    number_sentences,
)
from ..symbols._text import OddSpaces
from . import _client
from ._array_file_fast import ArrayFile
from ._client import PartLost, import_distributed, noted
from ._lockstep import DONE, ERROR, Lockstep, Request
from ._sharded_fit import FITS, ShardModel, fit_shard
from ._states import ShardStore

# Bytes of the records that are sent at once from a part to a shard.
_BATCH = 1 << 22
# Tokens whose contexts are in memory at once.
_TOKENS = 1 << 18
# Name of the file with the plan of a save, in the folder in which the shards write.
PLAN = "plan"


def versions() -> dict[str, str]:
    """Versions that must be the same on all machines."""
    return {
        "sklstruct": version("sklstruct"),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }


def as_given(x: Any) -> Any:
    """x, as a task whose result other tasks share."""
    return x


def get_worker() -> Any:
    """The worker that runs this task."""
    return import_distributed().get_worker()


def _process_name():
    return f"{platform.node()}:{os.getpid()}"


# ------------------------------------------------------------------- counting


def read_part(part: Any, analyzer: str, number: int) -> NumberedText:
    """A part of a text, numbered by itself.

    number: of the part, for messages about a partition of Dask.
    """
    note = (
        f"On the worker {_process_name()}: files must be there, under the same names, "
        "for all workers"
    )
    with noted(note, FileNotFoundError):
        name = f"X: partition {number}"
        text = number_sentences(part, name=name, analyzer=analyzer)
    if not isinstance(part, NumberedText | TextFile):
        text.where = partial("partition {}, sentence {}".format, number)
    return text


class PartWords(NamedTuple):
    """The words of a part of a text."""

    n_sentences: int
    symbols: list
    counts: np.ndarray
    odd: OddSpaces


def count_words(text: NumberedText) -> PartWords:
    """The words and their counts."""
    counts = text.counts()
    check_symbols(text, counts)
    return PartWords(text.n_sentences, text.symbols, counts, text.odd)


def count_prefixes(
    text: NumberedText, labels: Labels, known: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """The contexts that extend some prefixes by a symbol, and their occurrences.

    known: `prefix_keys` of the prefixes, of `width` symbols. The keys that are returned
    have one symbol more, which is -1 where a sentence begins.
    """
    encoder, n = SentenceEncoder(labels), need_symbols(labels, "counting")
    tokens = encoder.encode_known(text, front=width)
    keys, counts = np.empty((2, 0), dtype=np.int64)
    for first in range(width, tokens.size, _TOKENS):
        at = np.arange(first, min(first + _TOKENS, tokens.size))
        rows = tokens[at[:, np.newaxis] - np.arange(width + 1)]
        for k in range(width):  # a start mark is the oldest symbol of a context
            ended = (rows[:, k] < 0) | (rows[:, k] == encoder.start)
            rows[ended, k + 1] = -1
        rows = rows[np.isin(prefix_keys(rows, width, n), known)]
        keys = np.append(keys, prefix_keys(rows, width + 1, n))
        counts = np.append(counts, np.ones(len(rows), dtype=np.int64))
        keys, counts = sums_by_key(keys, counts)
    return keys, counts


def sums_by_key(keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys, rising, and the sums of their counts."""
    keys, of = np.unique(keys, return_inverse=True)
    return keys, np.bincount(of, counts, keys.size).astype(np.int64)


class PartCounts:
    """The counts of a part of a text, in a file of the worker that counted them.

    The object is an actor of Dask and stays on its worker. The file does not have a
    name, and is removed together with the object.

    max_depth, depth: columns of the windows of the text, and the longest contexts that
    are counted.
    bounds: the contexts of each shard.
    memory: bytes for counting.
    """

    def __init__(
        self,
        text: NumberedText,
        labels: Labels,
        max_depth: int,
        depth: int,
        bounds: list[tuple[Prefix, Prefix]],
        memory: float,
    ) -> None:
        encoder = SentenceEncoder(labels)
        tokens = encoder.encode_known(text, front=max_depth - 1)
        del text
        self._run = count_parts(
            iter([tokens]), labels, depth, skip=encoder.start,
            folder=get_worker().local_directory, memory=memory,
        )  # fmt: skip
        self._places = self._run.places([(), *(last for _, last in bounds)])

    def of_shard(self, shard: int) -> RunFile:
        """The counts of a shard, in the file of the part."""
        begin, end = self._places
        return self._run.range(begin[..., shard], end[..., shard + 1])

    def sizes(self, shard: int) -> list[tuple[int, int, int]]:
        """(number of the first node, nodes, pairs) of each level of a shard."""
        levels = self.of_shard(shard).levels
        return [(level.first, level.nodes.size, level.target.size) for level in levels]

    def read(self, shard: int, wanted: list[tuple[int, int, int]]) -> list[np.ndarray]:
        """Entries of columns of a shard: (column, start, stop)."""
        columns = self.of_shard(shard).columns()
        return [columns[j].read(start, stop) for j, start, stop in wanted]


class ShardCounts(NamedTuple):
    """The counts of a shard, in a file of its worker."""

    run: RunFile
    n_classes: int
    max_depth: int
    depth: int

    @classmethod
    def of_counted(cls, counted: Counted) -> ShardCounts:
        """Write counts to a file of this worker."""
        folder = get_worker().local_directory
        run = RunFile.of_pairs(counted.pairs, counted.count, folder)
        return cls(run, counted.labels.n_classes, counted.max_depth, counted.depth)

    def load(self) -> Counted:
        """The counts in memory."""
        labels = Labels.of_ids(self.n_classes, self.run.n_symbols)
        return Counted(*self.run.pairs(), labels, self.max_depth, self.depth)


def merge_parts(
    parts: list[tuple[str, str]], shard: int, n_symbols: int, *sizes: int
) -> ShardCounts:
    """The counts of a shard, merged from the counts of all parts.

    The counts of parts of other workers are copied to the disk of this worker in
    batches of records, and all are merged from there. PartLost if the worker of a part
    is lost.

    parts: the address of the worker and the key of the `PartCounts` of each part.
    n_symbols, sizes: the fields of `ShardCounts`.
    """
    folder = get_worker().local_directory
    runs = CountRuns(folder)
    for address, key in parts:
        runs.take(_copy_part(address, key, shard, n_symbols, folder))
    return ShardCounts(runs.finish(), *sizes)


def _copy_part(address, key, shard, n_symbols, folder):
    """The counts of a shard in a part of the text, in a file of this worker."""
    worker, sync = get_worker(), import_distributed().utils.sync
    if address == worker.address and key in worker.state.actors:
        return worker.state.actors[key].of_shard(shard)

    def ask(method, *arguments):
        # As `distributed.Actor` does, which waits forever for some lost workers.
        async def call():
            asked = asyncio.ensure_future(
                worker.rpc(address).actor_execute(
                    actor=key, function=method, args=[shard, *arguments]
                )
            )
            try:
                # Dask tries for half a minute to reach a worker that is gone.
                while not (await asyncio.wait([asked], timeout=_client.PATIENCE))[0]:
                    if not (await worker.scheduler.who_has(keys=[key]))[key]:
                        raise KeyError(key)
                return await asked
            finally:  # also if the scheduler is gone
                asked.cancel()

        try:
            found = sync(worker.loop, call)
        except (OSError, KeyError) as exc:
            raise PartLost(f"counts on the worker {address} are lost") from exc
        if found["status"] != "OK":
            raise found["exception"]
        return found["result"]

    file = Spill(folder)
    sizes = ask("sizes")
    levels = [Level.empty(file, first) for first, _, _ in sizes]
    run = RunFile(levels, n_symbols)
    columns = run.columns()
    n_entries = [n for _, nodes, pairs in sizes for n in (nodes, pairs, pairs)]
    for batch in _batches(n_entries, [column.dtype.itemsize for column in columns]):
        for (j, _, _), entries in zip(batch, ask("read", batch)):
            columns[j].append(entries)
    return run


def _batches(sizes, widths):
    """(column, start, stop) of all entries of some columns, about _BATCH bytes each."""
    batch, room = [], _BATCH
    for j, (size, width) in enumerate(zip(sizes, widths)):
        start = 0
        while start < size:
            stop = min(size, start + max(1, room // width))
            batch.append((j, start, stop))
            room -= (stop - start) * width
            if room < width:
                yield batch
                batch, room = [], _BATCH
            start = stop
    if batch:
        yield batch


# -------------------------------------------------------------------- fitting


class Failure(NamedTuple):
    """An error in a form that can be sent: the receiver may not know its class.

    Causes and tracebacks are not pickled, and some errors cannot be unpickled.
    """

    text: str
    trace: str
    pickled: bytes  # empty if it cannot be pickled

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """From an exception."""
        trace = "".join(traceback.format_exception(error))
        try:
            pickled = pickle.dumps(error)
        except Exception:
            pickled = b""
        return cls(f"{type(error).__name__}: {error}", trace, pickled)

    def error(self) -> BaseException:
        """The error with a note of its origin; a RuntimeError if it cannot be read."""
        try:
            error = pickle.loads(self.pickled)
        except Exception:
            error = RuntimeError(self.text)
        error.add_note(f"On the worker of a shard:\n{self.trace}")
        return error


# Files of this process whose pages may be in memory, the most recently used one last.
_in_memory: list[weakref.ref[ArrayFile]] = []


def make_room(arrays: ArrayFile, room: float) -> None:
    """Release pages of other fits from the memory of this process, as many as needed.

    arrays: of the fit that continues. room: bytes for all fits.
    """
    others = [found for ref in _in_memory if (found := ref()) not in (None, arrays)]
    # The fits take turns: the most recently used one will be needed last.
    while others and arrays.size + sum(other.size for other in others) > room:
        others.pop().release()
    _in_memory[:] = map(weakref.ref, [*others, arrays])


# The fit of each worker that restarts and is in memory. A process can have several
# workers.
_at_work: weakref.WeakKeyDictionary[Any, weakref.ref[ShardFit]]
_at_work = weakref.WeakKeyDictionary()


def take_turn(fit: ShardFit) -> None:
    """Free the memory of another fit that restarts: a worker has one at a time."""
    worker = get_worker()
    other = _at_work[worker]() if worker in _at_work else None
    if other not in (None, fit):
        other.leave()
    _at_work[worker] = weakref.ref(fit)


class ShardFit:
    """The fit of one shard on a worker, driven from outside; see `Lockstep`.

    The counts and the fitted model are in files of the worker, and in memory only while
    a method needs them. A fit that `restarts` is in memory until that of another shard
    continues; see `take_turn`. Arrays of other fits are in a mapped file if the memory
    has a limit; see `make_room`.

    count, arguments: a function that returns the contexts and their counts, a
    `ShardCounts`, and its arguments.
    bounds: the contexts of the shard.
    checkpoint: path of the states, and the number of the state to continue from.
    wanted: the `versions` of the client.
    room: bytes of the shards that a worker has in memory at once.
    for_gate: whether the model has the weight of the samples in each context.
    """

    def __init__(
        self,
        count: Callable[..., ShardCounts],
        arguments: list,
        estimator: BackoffClassifier,
        shard: int,
        bounds: tuple[Prefix, Prefix],
        checkpoint: tuple[str, int | None] | None,
        wanted: dict[str, str],
        room: float,
        for_gate: bool = False,
    ) -> None:
        here = versions()
        if here != wanted:
            raise RuntimeError(version_error(wanted, {"a worker": here}))
        self._counts = counts = count(*arguments)
        self._n_levels = len(counts.run.levels)
        self._how = FITS[type(estimator)]
        self._shard, self._room = shard, room
        self._arrays: ArrayFile | None = None
        self._model: ShardModel | None = None  # of `Stored`

        # The thread must not refer to this object, whose deletion ends the thread.
        def run(meeting):
            def keep(identity):
                if checkpoint is None:
                    return NO_STORE
                path, number = checkpoint
                return ShardStore(meeting, path, shard, number, identity())

            counted, model = counts.load(), clone(estimator)
            # The number of levels of the whole tree is given.
            pairs = PairShard(counted.pairs, bounds, meeting.given, meeting)
            return fit_shard(model, pairs, counted, keep, meeting.report, for_gate)

        self._run = run
        self._lockstep: Lockstep | None = None
        # All answers, if the fit restarts. A worker has many such shards, none of which
        # may leave arrays in memory.
        self._given: Stored | None = None
        # The number and the answer of the last call, in case that the client could not
        # receive it: there is one call to a shard at a time.
        self._last: tuple[int, Any] = -1, Request(DONE)
        self._packed = b""

    def n_levels(self) -> int:
        """Number of levels of the fitted model; before, of the counts."""
        return self._n_levels

    def describe(self) -> tuple[str, int, int]:
        """(process, numbers of counted nodes and pairs)."""
        levels = self._counts.run.levels
        n_nodes = sum(level.nodes.size for level in levels)
        return _process_name(), n_nodes, sum(level.target.size for level in levels)

    def do(self, number: int, method: str, *arguments: Any) -> Request:
        """The result of a method, for the call of this number.

        Its errors are returned as values; a call raises the errors of the network only.
        """
        try:
            found = Request(DONE, getattr(self, method)(*arguments))
        except Exception as exc:
            found = Request(ERROR, Failure.of(exc))
        waits = self._how.restarts and method == "advance"
        kept = self._store(found) if waits else found
        self._last, self._packed = (number, kept), b""
        return found

    def _store(self, x):
        return Stored(x, get_worker().local_directory)

    # One thread runs the calls to a shard in order: `has_answered` runs after all
    # calls that arrived before it have ended.

    def has_answered(self, number: int) -> bool:
        """True if the call of this number has arrived and ended."""
        return number == self._last[0]

    def pack(self) -> int | Failure:
        """Pickle the answer to the last call, for `packed`; its size in bytes."""
        try:
            _, found = self._last
            found = found.load() if isinstance(found, Stored) else found
            self._packed = pickle.dumps(found, protocol=5)
        except Exception as exc:
            return Failure.of(exc)
        return len(self._packed)

    def packed(self, start: int, stop: int) -> bytes:
        """Some of the bytes of that answer."""
        return self._packed[start:stop]

    def advance(self, answers: list) -> Request:
        """Continue with one answer after the other; the request after the last."""
        if self._how.restarts:
            take_turn(self)
            before = self._given.load() if self._given else []
            self._given = self._store(before + answers)
            if self._lockstep is None:
                answers = before + answers
        self._lockstep = lockstep = self._lockstep or Lockstep(self._begin())
        if self._arrays is not None:
            make_room(self._arrays, self._room)
        for answer in answers:
            request = lockstep.advance(answer)
            if request.kind in (DONE, ERROR):
                break  # also in a repetition: the thread is gone and answers no more
        if request.kind == DONE or (self._how.restarts and request.kind == ERROR):
            self.leave()
        if request.kind == DONE:
            model, notes = request.value
            self._model = ShardModel(*map(self._store, model))
            self._n_levels = model.pairs.tree.n_levels
            return Request(DONE, notes)
        if request.kind == ERROR:
            return Request(ERROR, Failure.of(request.value))
        return request

    def leave(self) -> None:
        """End the thread of the fit, and free its memory."""
        if self._lockstep is not None:
            self._lockstep.end()
        self._lockstep = self._arrays = None

    def _begin(self):
        """The function of a new fit."""
        if self._how.restarts or self._room == math.inf:
            return self._run
        n_bytes = self.describe()[2] * self._how.bytes_per_pair
        arrays, run = ArrayFile(get_worker().local_directory, n_bytes), self._run
        self._arrays = arrays
        return lambda meeting: arrays.call(partial(run, meeting))

    def model(self, name: str) -> Any:
        """A field of the fitted model."""
        if self._model is None:
            raise RuntimeError("the fit of this shard has not ended")
        return getattr(self._model, name).load()

    def write(self, folder: str, step: str, *arguments: Any) -> Any:
        """A step of writing a file, by the plan in a folder that all workers see."""
        note = (
            "path: the folder of the file must be one that this process and all "
            "workers see under the same name"
        )
        with (
            noted(note, FileNotFoundError),
            open(os.path.join(folder, PLAN), "rb") as file,
        ):
            plan = pickle.load(file)
        if hasattr(plan, step):  # needs no numbers of the model
            return getattr(plan, step)(self._shard, *arguments)
        numbers = map(self.model, ("pairs", "log_prob", "log_backoff"))
        writer = plan.shard(plan, self._shard, *numbers)
        return getattr(writer, step)(*arguments)


def version_error(wanted: dict[str, str], found: dict[str, Any]) -> str:
    """The error message about workers that differ from the client."""
    lines = "; ".join(
        f"{name} has "
        + ", ".join(f"{k} {v}" for k, v in here.items() if wanted.get(k) != v)
        for name, here in found.items()
    )
    mine = ", ".join(f"{k} {v}" for k, v in wanted.items())
    return (
        f"client: {lines}, but the client has {mine}. Install the same versions on all "
        "machines: results depend on them"
    )
