import signal

import pytest


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt, also in a process started to ignore it."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, old)


@pytest.fixture
def interrupt():
    """interrupt(): KeyboardInterrupt soon, as Ctrl-C raises it."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("the system has no timers that signal")
    old = signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 0.1)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, old)


@pytest.fixture
def pyplot():
    """matplotlib.pyplot without a screen; figures are closed afterwards."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")
