"""Lockstep: the fit of one shard in a thread that waits at every request.

The fits of all shards are the same program. When it needs a number of the whole tree,
it makes a request (`Meeting`) and waits for the answer. The driver collects the
requests of all shards and gives all of them the same answer (`Lockstep.advance`), in
threads of one process or over a network.

The state of a shard depends only on its data and the answers so far. A lost shard is
therefore restored by giving a new one the same answers. A shard of few requests need
not stay in memory between them: it is restored in the same way for the next answer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from .._warnings import collect_warnings
from ..context_tree._shards import Prefix

# Kinds of requests: the answer to the first is a sum over all shards, the driver
# decides the answers to the next three, and the last two are the end of a fit.
TOTAL = "total"
REPORT, KEEP, KEPT = "report", "keep", "kept"
DONE, ERROR = "done", "error"


class Request(NamedTuple):
    """A request of a shard, or its end."""

    kind: str
    value: Any = None


class Abandoned(BaseException):
    """Raised in the thread of a shard to end it."""


class Meeting:
    """The fit's end of the connection: makes requests and waits for the answers.

    `given` is the argument of the first call of `Lockstep.advance`.
    """

    given: Any = None

    def __init__(self) -> None:
        self.requests: queue.SimpleQueue = queue.SimpleQueue()
        self.answers: queue.SimpleQueue = queue.SimpleQueue()

    def ask(self, kind: str, value: Any = None) -> Any:
        """The answer to a request."""
        self.requests.put(Request(kind, value))
        answer = self.answers.get()
        if answer is Abandoned:
            # Not an object that this frame knows: it would keep the frame, and with it
            # the arrays of the fit.
            raise Abandoned
        return answer

    def total(self, x: dict[Prefix, np.ndarray]) -> dict[Prefix, np.ndarray]:
        """See `Exchange`."""
        return {name: np.array(y) for name, y in self.ask(TOTAL, x).items()}

    def report(self, iteration: int, objective: float, optimality: float) -> bool:
        """Report an iteration to the driver; True: stop."""
        return bool(self.ask(REPORT, (iteration, objective, optimality)))


class Lockstep:
    """A function in its own thread, run from one request to the next.

    The function is called with a `Meeting`. The result of the function is the value of
    the last request.
    """

    def __init__(self, function: Callable[[Meeting], Any]) -> None:
        self._meeting = meeting = Meeting()
        self._thread = threading.Thread(
            target=_run, args=(function, meeting), name="sklstruct-shard", daemon=True
        )
        self._started = False

    def advance(self, answer: Any = None) -> Request:
        """Continue with the answer to the last request; returns the next request."""
        if self._started:
            self._meeting.answers.put(answer)
        else:
            self._started, self._meeting.given = True, answer
            self._thread.start()
        return self._meeting.requests.get()

    def close(self) -> None:
        """End the thread at its request."""
        self._meeting.answers.put(Abandoned)

    def end(self) -> None:
        """End the thread at its request, and wait until its memory is free."""
        self.close()
        self._thread.join()

    __del__ = close


def _run(function, meeting):
    try:
        with collect_warnings() as notes:
            value = function(meeting)
        meeting.requests.put(Request(DONE, (value, notes)))
    except Abandoned:
        pass
    except BaseException as error:
        meeting.requests.put(Request(ERROR, error))


def join(requests: Iterable[Request]) -> Request:
    """Combine the requests of all shards, which are not kept, into one.

    The value is the sums of the arrays by name, in the order of the shards, if the kind
    is TOTAL; else the list of the values. RuntimeError if the requests differ: then the
    shards do not run the same program.
    """
    kinds, shapes, values = set(), set(), []
    found: dict[Prefix, np.ndarray] = {}
    for kind, value in requests:
        kinds.add(kind)
        if kind != TOTAL:
            values.append(value)
            continue
        shapes.add(np.shape(value[()]))
        if len(shapes) == 1:
            for name, x in value.items():
                found[name] = found[name] + x if name in found else x
        del value  # while the next request is awaited
    if len(kinds) > 1 or len(shapes) > 1:
        raise RuntimeError(
            "the shards differ in their steps: their requests are "
            f"{', '.join(sorted(kinds))}. All workers must have the same processor, "
            "numpy and package, because rounding decides the number of iterations"
        )
    kind = kinds.pop()
    return Request(kind, found if kind == TOTAL else values)


def for_shard(answer: Any, bounds: tuple[Prefix, Prefix]) -> Any:
    """The part of an answer that a shard needs: the sums for the contexts that it
    has."""
    if not isinstance(answer, dict):
        return answer
    names = {prefix[:k] for prefix in bounds for k in range(len(prefix))}
    return {name: answer[name] for name in names if name in answer}
