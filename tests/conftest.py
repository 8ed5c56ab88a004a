import signal

import pytest


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt, also in a process started to ignore it."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, old)
