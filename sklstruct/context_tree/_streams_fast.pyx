"""Streams: block-wise inputs and outputs of kernels.

A kernel sees pointers into the current blocks. At the end of a block, Python code
provides the next block of an input or takes the full block of an output: Python reads
and writes files, raises errors, and handles signals.
"""

from libc.stdlib cimport calloc, free

import numpy as np

# A node of a level. Numbers are those within a level, so that 64 bits suffice for any
# text, and a node has no more pairs than there are classes.
NODE = np.dtype([("parent", np.int64), ("symbol", np.int32), ("n_pairs", np.int32)])


cdef class Streams:
    """Inputs and outputs of a kernel.

    Parameters
    ----------
    sources : list of iterators over ndarrays
        The blocks of each input, contiguous. A block may be overwritten when the next
        one is asked for.

    sinks : list of (callable, ndarray)
        The block of each output, and a function. The function is called with the
        records of the block whenever the block is full, and at the end. The block is
        used again.
    """

    def __cinit__(self, list sources, list sinks):
        cdef Py_ssize_t i
        cdef unsigned char[::1] view
        self._sources = [iter(source) for source in sources]
        self.keep = [None] * len(sources)
        self._sinks = [sink for sink, _ in sinks]
        self._arrays = [block for _, block in sinks]
        self.ins = <Buffer*> calloc(max(len(sources), 1), sizeof(Buffer))
        self.outs = <Buffer*> calloc(max(len(sinks), 1), sizeof(Buffer))
        if not self.ins or not self.outs:
            raise MemoryError
        for i, block in enumerate(self._arrays):
            if block.size:
                view = block.view(np.uint8)
                self.outs[i].data = <char*> &view[0]
                self.outs[i].n = block.size

    def __dealloc__(self):
        free(self.ins)
        free(self.outs)

    cdef int fill(self, Py_ssize_t i) except -1 nogil:
        cdef const unsigned char[::1] view
        with gil:
            for block in self._sources[i]:
                if block.size:
                    view = block.view(np.uint8)
                    self.keep[i] = view
                    self.ins[i].data = <char*> &view[0]
                    self.ins[i].n = block.size
                    self.ins[i].at = 0
                    return 1
        return 0

    cdef int flush(self, Py_ssize_t i) except -1 nogil:
        with gil:
            self._sinks[i](self._arrays[i][: self.outs[i].at])
            self.outs[i].at = 0
        return 0

    def close(self):
        """Pass the remaining records of the outputs to their sinks."""
        for i in range(len(self._sinks)):
            self.flush(i)
