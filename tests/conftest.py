import gc
import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # As many workers as processors: threads of BLAS would wait for each other. These
    # variables are read when NumPy is imported.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect the tests without the garbage collector.

    The collection makes millions of objects that live until the end. The collector
    would examine them again and again, during the collection and during the tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_addoption(parser):
    parser.addoption(
        "--everything",
        action="store_true",
        help="run every case of every test, and the tests marked `processes`; without "
        "this option each test function runs with its first case only, but for the "
        "tests marked `house`",
    )


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Read the files backwards in every second worker.

    In a new clone the first worker that reads a file compiles this file, for all. Two
    workers that begin at the two ends compile half of the files each.
    """
    report = yield
    odd = os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579"
    if odd and isinstance(collector, pytest.Dir | pytest.Session):
        report.result.reverse()
    return report


@pytest.hookimpl(trylast=True)  # after the selections -k and -m
def pytest_collection_modifyitems(config, items):
    """Without --everything, keep the first case of each test function.

    With --everything the tests that start processes come first, because the longest
    test should not begin when other workers have ended.
    """
    items.sort(key=lambda item: item.path.parts)  # the same order in every worker
    if config.getoption("everything"):
        items.sort(key=lambda item: item.get_closest_marker("processes") is None)
        return
    kept, dropped, seen = [], [], set()
    for item in items:
        function = item.nodeid.split("[")[0]
        first = function not in seen and not item.get_closest_marker("processes")
        seen.add(function)
        keep = first or item.get_closest_marker("house")
        (kept if keep else dropped).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)


@pytest.fixture(autouse=True)
def seed():
    """Estimators with random_state=None draw the same numbers in every run."""
    np.random.seed(0)  # noqa: NPY002, the generator of random_state=None


@pytest.fixture(autouse=True, scope="session")
def synced():
    """Do not wait until the disk has the bytes: no test outlasts a failure of power."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt, also in a process started to ignore it."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, old)


@pytest.fixture
def interrupt():
    """interrupt(): KeyboardInterrupt soon, as Ctrl-C raises it.

    interrupt(working=True): after a tenth of a second of work of this process, however
    little of the time a busy machine gives to it.
    """
    if not hasattr(signal, "setitimer"):
        pytest.skip("the system has no timers that signal")
    timers = {signal.ITIMER_REAL: signal.SIGALRM, signal.ITIMER_PROF: signal.SIGPROF}
    old = [
        signal.signal(number, signal.default_int_handler) for number in timers.values()
    ]

    def start(working=False):
        timer = signal.ITIMER_PROF if working else signal.ITIMER_REAL
        signal.setitimer(timer, 0.1)

    yield start
    for (timer, number), handler in zip(timers.items(), old):
        signal.setitimer(timer, 0)
        signal.signal(number, handler)


@pytest.fixture
def load_program(monkeypatch):
    """load_program(name): a program of benchmarks/, which is forgotten afterwards."""
    folder = Path(__file__).resolve().parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)

    def load(name):
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        # the main of the programs finds their docstring there
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    yield load
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).parent == folder:
            del sys.modules[name]


@pytest.fixture
def pyplot():
    """matplotlib.pyplot without a screen; figures are closed afterwards."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")
