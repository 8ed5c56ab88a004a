"""Blocks of rows, an ordered map over threads, one BLAS thread.

Our kernels release the GIL and share memory, so threads share the work. A `ThreadMap`
keeps its threads for a whole fit and passes work to them without polling: a fit calls
it hundreds of times, with a few milliseconds of work each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    # scikit-learn requires it, so sklstruct does not declare the requirement.
    from threadpoolctl import ThreadpoolController

T = TypeVar("T")

# 64 MB: this bounds the memory if an (n_samples, n_classes) matrix would take
# gigabytes, and the overhead per block does not matter.
BLOCK_BYTES = 1 << 26

# Limit of the number of threads: more than a machine has, and small enough for kernels
# and ranges.
_MOST_THREADS = 1 << 16

# Seconds between checks for signals by a thread that waits. The thread wakes at once
# when the work ends; on some systems a signal does not interrupt a wait.
_SIGNAL_CHECK = 0.5


def rows_per_block(width: int) -> int:
    """Number of rows of `width` float64 numbers in one block, at least 1."""
    return max(1, BLOCK_BYTES // (8 * width))


def runs(first: int, last: int, step: int) -> list[tuple[int, int]]:
    """(start, end) of the steps from first to last."""
    return [(a, min(a + step, last)) for a in range(first, last, step)]


def row_blocks(n_rows: int, step: int) -> list[slice]:
    """Slices of at most `step` rows that cover n_rows rows in order."""
    return [slice(*run) for run in runs(0, n_rows, step)]


def serial_map(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """A plain loop, with the signature of a `ThreadMap`."""
    return [function(item) for item in items]


class ThreadMap:
    """An ordered map over threads that live as long as the context.

    ``with ThreadMap(n_jobs) as parallel: results = parallel(function, items)``

    The calling thread works, too; n_jobs - 1 other threads are started when a map has
    more than one item. A free thread takes the next item, so a result must not depend
    on the thread or the time of its computation.

    If `function` raises an exception, the exception of the first such item is raised,
    as in a loop; later items may or may not have been computed. A KeyboardInterrupt
    does not wait for the running items of other threads. These items end later, and
    their results are not used. `function` may call the map that calls `function`.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        from joblib import effective_n_jobs

        self.n_threads = min(effective_n_jobs(n_jobs), _MOST_THREADS)
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> ThreadMap:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)
            self._pool = None

    def __call__(
        self, function: Callable[[Any], Any], items: Iterable[Any]
    ) -> list[Any]:
        """[function(item) for item in items]."""
        items = list(items)
        n_helpers = min(self.n_threads, len(items)) - 1
        if n_helpers < 1:
            return serial_map(function, items)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_threads - 1, "sklstruct")
        todo = deque(enumerate(items))
        results: list[Any] = [None] * len(items)
        errors: list[tuple[int, Exception]] = []

        def work() -> None:
            while True:
                try:
                    i, item = todo.popleft()
                except IndexError:
                    return
                try:
                    results[i] = function(item)
                except Exception as error:
                    # Items before i are finished or running, so the first error of a
                    # loop is among those collected.
                    errors.append((i, error))
                    todo.clear()

        try:
            # The context carries numpy.errstate into the threads.
            helpers = [
                self._pool.submit(copy_context().run, work) for _ in range(n_helpers)
            ]
            work()
            for helper in helpers:
                # A helper that has not started is cancelled: no item is left, and in a
                # nested map it might wait for this thread.
                if not helper.cancel():
                    _join(helper)
        except BaseException:
            todo.clear()
            raise
        if errors:
            try:
                raise min(errors, key=lambda pair: pair[0])[1]
            finally:
                errors.clear()  # else a reference cycle with the traceback keeps arrays
        return results


def _join(future: Future[T]) -> T:
    while not wait([future], timeout=_SIGNAL_CHECK).done:
        pass
    return future.result()


@contextmanager
def stop_flag() -> Iterator[NDArray[np.int32]]:
    """An array with one 0 that becomes 1 if an exception leaves the context.

    For kernels in several threads of a `ThreadMap`: each kernel checks the flag
    repeatedly, and ends early if another thread has failed or was interrupted.
    """
    stop = np.zeros(1, dtype=np.int32)
    try:
        yield stop
    except BaseException:
        stop[0] = 1
        raise


def interruptible(function: Callable[..., T], *arguments: Any) -> T:
    """Call function(*arguments) in another thread, so that Ctrl-C can interrupt.

    For one long call of a library that releases the GIL and does not check for
    signals. After an interrupt the thread continues to the end of the call; Python can
    exit earlier.
    """
    future: Future[T] = Future()
    context = copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(function, *arguments))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return _join(future)


@cache
def _controller() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    # Listing the loaded libraries takes milliseconds: once per process.
    return ThreadpoolController()


def single_blas_thread() -> AbstractContextManager:
    """Context in which BLAS uses one thread.

    Results then do not depend on the number of cores, and threads over nodes do not
    each start a team of BLAS threads.
    """
    return _controller().limit(limits=1, user_api="blas")
