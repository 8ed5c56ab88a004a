# Ctrl-C in long loops.
#
# A loop reports its work to `over`. About every tenth of a second the main thread
# checks for signals. If a signal handler raises, its exception is pending, and the flag
# `stop` stops the other threads. The loops then return at once without finishing, and
# the Python function that called them calls `propagate`, which raises the exception.
from cpython.exc cimport PyErr_Occurred
from libc.stdint cimport int32_t, int64_t


cdef extern from "Python.h":
    int PyErr_CheckSignals() noexcept


cdef enum:
    # Multiplications between two checks for signals.
    OPS_BETWEEN_SIGNAL_CHECKS = 1 << 27


cdef struct Watch:
    int64_t left
    int32_t* stop


cdef inline Watch watch_of(int32_t[::1] stop) noexcept:
    cdef Watch watch
    watch.left, watch.stop = OPS_BETWEEN_SIGNAL_CHECKS, &stop[0]
    return watch


cdef inline bint over(Watch* watch, int64_t work) noexcept nogil:
    """Report `work` multiplications; returns whether to stop."""
    watch.left -= work
    if watch.left > 0:
        return watch.stop[0] != 0
    watch.left = OPS_BETWEEN_SIGNAL_CHECKS
    if watch.stop[0] == 0:
        with gil:
            if PyErr_CheckSignals() != 0:
                watch.stop[0] = 1
    return watch.stop[0] != 0


cdef inline int interrupt() except -1 nogil:
    """Check for signals; raise the exception of a signal handler."""
    with gil:
        return PyErr_CheckSignals()


cdef inline int propagate() except -1:
    """Raise the exception of a signal handler, if one is pending."""
    return -1 if PyErr_Occurred() != NULL else 0
