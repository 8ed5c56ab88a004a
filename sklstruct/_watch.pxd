# Long loops that react to Ctrl-C.
#
# A loop tells `over` how much it has done. After about a tenth of a second the main
# thread looks for signals; a handler that raises leaves its exception pending, and the
# flag `stop` tells the other threads. Loops then return as fast as they can, whatever
# they have made, and the Python function at the top calls `propagate`.
from cpython.exc cimport PyErr_Occurred
from libc.stdint cimport int32_t, int64_t


cdef extern from "Python.h":
    int PyErr_CheckSignals() noexcept


cdef enum:
    # Multiplications between two looks.
    BREATH = 1 << 27


cdef struct Watch:
    int64_t left
    int32_t* stop


cdef inline Watch watch_of(int32_t[::1] stop) noexcept:
    cdef Watch watch
    watch.left, watch.stop = BREATH, &stop[0]
    return watch


cdef inline bint over(Watch* watch, int64_t work) noexcept nogil:
    """Whether to stop, after `work` multiplications more."""
    watch.left -= work
    if watch.left > 0:
        return watch.stop[0] != 0
    watch.left = BREATH
    if watch.stop[0] == 0:
        with gil:
            if PyErr_CheckSignals() != 0:
                watch.stop[0] = 1
    return watch.stop[0] != 0


cdef inline int propagate() except -1:
    """Raise the exception that a look for signals has left, if any."""
    return -1 if PyErr_Occurred() != NULL else 0
