"""The ordered thread map, blocks of rows, and the reporter of progress."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from _callbacks import needs_callbacks
from joblib import parallel_config
from sklearn.base import BaseEstimator

from sklstruct import _parallel
from sklstruct._compat import HAS_CALLBACKS, CallbackSupportMixin, with_callbacks
from sklstruct._parallel import (
    ThreadMap,
    _controller,
    row_blocks,
    rows_per_block,
    serial_map,
    single_blas_thread,
)
from sklstruct._progress import Progress


@pytest.mark.parametrize(
    "n_jobs, n_items",
    [(1, 2), (2, 0), (2, 1), (2, 2), (5, 100), (10**30, 2), (10**30, 100)],
)
def test_map_is_an_ordered_loop(n_jobs, n_items):
    with ThreadMap(n_jobs) as parallel:
        for _ in range(3):
            found = parallel(lambda i: i * i, iter(range(n_items)))
            assert found == serial_map(lambda i: i * i, range(n_items))


def test_all_threads_work_and_end_with_the_context():
    before = set(threading.enumerate())
    meet = threading.Barrier(3, timeout=600)
    with ThreadMap(3) as parallel:
        names = parallel(lambda _: (meet.wait(), threading.current_thread())[1], "abc")
        again = parallel(lambda _: (meet.wait(), threading.current_thread())[1], "abc")
        assert len(set(names)) == 3 and threading.current_thread() in names
        assert set(names) == set(again)  # the same threads for all maps
    assert set(threading.enumerate()) == before


def test_one_job_stays_in_the_calling_thread():
    with ThreadMap(1) as parallel:
        threads = parallel(lambda _: threading.current_thread(), range(9))
    assert set(threads) == {threading.current_thread()}


def test_n_jobs_means_what_it_means_in_joblib():
    assert ThreadMap().n_threads == 1
    assert ThreadMap(-1).n_threads >= 1
    with parallel_config(n_jobs=3):
        assert ThreadMap().n_threads == 3
        assert ThreadMap(2).n_threads == 2
    with pytest.raises(ValueError, match="n_jobs"):
        ThreadMap(0)


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_the_first_error_of_a_loop_is_raised(n_jobs):
    def fail(i):
        if i in (3, 7, 50):
            time.sleep(0.02 if i == 3 else 0.0)
            raise ValueError(f"item {i}")
        return i

    with ThreadMap(n_jobs) as parallel:
        with pytest.raises(ValueError, match="item 3"):
            parallel(fail, range(100))
        assert parallel(abs, [-1, -2]) == [1, 2]  # still usable


def test_a_map_inside_a_map_does_not_wait_for_itself():
    with ThreadMap(2) as parallel:
        table = parallel(lambda i: parallel(lambda j: i * j, range(4)), range(6))
    assert table == [[i * j for j in range(4)] for i in range(6)]


def test_errstate_holds_in_the_threads():
    meet = threading.Barrier(2, timeout=600)

    def divide(x):
        meet.wait()
        return np.float64(x) / np.float64(0.0)

    with (
        ThreadMap(2) as parallel,
        np.errstate(divide="raise"),
        pytest.raises(FloatingPointError),
    ):
        parallel(divide, [1.0, 2.0])


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupt_does_not_wait_for_the_other_threads(interrupts, monkeypatch):
    done = []
    started, release = threading.Event(), threading.Event()

    def work(i):
        if threading.current_thread() is threading.main_thread():
            # wait until the other thread is busy, then end: the map joins it
            assert started.wait(600)
        else:
            started.set()
            release.wait(600)
        done.append(i)

    def interrupted(*_, **__):  # in the wait for the other thread
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(600)

    monkeypatch.setattr(_parallel, "wait", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt), ThreadMap(2) as parallel:
            parallel(work, range(2))
        assert len(done) == 1  # the other is still under way
    finally:
        release.set()


def test_blocks_of_rows_cover_them_in_order():
    for n in (0, 1, 7, 12):
        rows = np.arange(n)
        parts = [rows[part] for part in row_blocks(n, 4)]
        assert all(0 < part.size <= 4 for part in parts)
        assert np.array_equal(np.concatenate([rows[:0], *parts]), rows)
    assert rows_per_block(1 << 40) == 1
    assert rows_per_block(1000) * 1000 * 8 <= 1 << 26


def test_one_blas_thread():
    np.ones((2, 2)) @ np.ones((2, 2))
    with single_blas_thread():
        # Those of NumPy and SciPy. A peer that another test has loaded since may bring
        # its own.
        pools = _controller().select(user_api="blas").info()
        assert pools and all(pool["num_threads"] == 1 for pool in pools)


class Worker(CallbackSupportMixin, BaseEstimator):
    def __init__(self, verbose=0):
        self.verbose = verbose

    @with_callbacks
    def fit(self, X=None, y=None):
        self.done_ = []
        with Progress.of_fit(self, max_subtasks=2) as progress:
            for t in range(2):
                with progress.task("round", 5, prefix=f"round {t}: ") as task:
                    for i in range(5):
                        self.done_.append((t, i))
                        if task.step(f"piece {i}"):
                            break
                if task.stopped:
                    break
        return self


class Recorder:
    def __init__(self, stop=None):
        self.stop, self.begun, self.ended = stop, [], []

    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context):
        self.begun.append((context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context):
        self.ended.append((context.task_name, context.task_id))
        return (context.task_name, context.task_id) == self.stop


@needs_callbacks
@pytest.mark.parametrize(
    "stop, n_done", [(None, 10), (("iteration", 2), 6), (("round", 0), 5)]
)
def test_progress_tells_the_callbacks_and_stops_the_loop_that_they_name(stop, n_done):
    recorder = Recorder(stop)
    model = Worker().set_callbacks(recorder).fit()
    assert len(model.done_) == n_done
    assert sorted(recorder.begun) == sorted(recorder.ended)
    assert recorder.begun[0] == recorder.ended[-1] == ("fit", 0)


@pytest.mark.skipif(HAS_CALLBACKS, reason="this scikit-learn has callbacks")
def test_old_versions_of_scikit_learn_refuse_callbacks():
    assert len(Worker().set_callbacks().fit().done_) == 10
    with pytest.raises(ImportError, match=r"callbacks need scikit-learn 1\.9"):
        Worker().set_callbacks(Recorder())


@pytest.mark.parametrize("verbose, n_lines", [(0, 0), (False, 0), (True, 10), (2, 6)])
def test_verbose_prints_every_so_many_steps(verbose, n_lines, capsys):
    Worker(verbose).fit()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == n_lines
    if lines:
        assert lines[0] == "[Worker] round 0: piece 0"
        assert lines[-1] == "[Worker] round 1: piece 4"
