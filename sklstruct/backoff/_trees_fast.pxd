cimport cython
from libc.stdint cimport int64_t

from .._sorted cimport find_child
from ._core_fast cimport Model, address


@cython.final
cdef class Path:
    """The symbol of a tree that each step of a history reads."""
    cdef list keep
    cdef const int** table
    cdef const int[::1] position
    cdef const int[::1] within  # number of steps that read at most 0, 1, 2 ... tokens
    cdef const unsigned char[::1] missing
    cdef int n_steps, n_symbols
    cdef bint plain
    cdef unsigned int n_tokens
    cdef const int[:, :] windows

    cdef Py_ssize_t begin(self, const int** tokens, Py_ssize_t i) noexcept nogil
    cdef int symbol(
        self, int step, const int* tokens, Py_ssize_t i, int* known) noexcept nogil


cdef struct Node:
    int node
    int depth  # negative: not known
    int up     # number of levels from the node up to the pair of the last target


@cython.final
cdef class Tree:
    """A context tree, read along a path."""
    cdef const int[::1] parent, symbol, child_ptr, root_child
    cdef Path path

    cdef void find_many(
        self, const int* tokens, const int64_t* position, Py_ssize_t n, char* out,
        Py_ssize_t stride, const int* first) noexcept nogil


cdef struct Edges:
    const int* root_child
    const int* symbol
    const int* child_ptr


cdef inline Edges edges_of(Tree tree) noexcept nogil:
    """The arrays of a tree, for a loop."""
    cdef Edges out
    out.root_child = address(tree.root_child)
    out.symbol, out.child_ptr = &tree.symbol[0], &tree.child_ptr[0]
    return out


cdef inline int child_of(const Edges* edges, int node, int symbol) noexcept nogil:
    """The child with a symbol, -1 if absent or for the symbol -1."""
    if symbol < 0:
        return -1
    if node == 0:
        return edges.root_child[symbol]
    return find_child(edges.symbol, edges.child_ptr, node, symbol)


cdef struct Step:
    int node
    double total  # of the back-off weights below the node


@cython.final
cdef class Backoff(Model):
    """A back-off model."""
    cdef readonly object model
    cdef object source
    cdef Tree tree
    cdef const int[::1] parent, ptr, cls, root_order, node_of, group
    cdef const double[::1] log_prob, log_backoff, row_sum, root_prob, root_row
    cdef const float[::1] weight
    cdef int max_depth, n_values
    cdef Py_ssize_t row_nodes, rows

    cdef double score(self, int node, int y, int* up) noexcept nogil
    cdef int depth_of(self, Node* at) noexcept nogil
    cdef int fill(self, char* place, double* out, bint proba) except -1 nogil
    cdef keep_rows(self, const double[::1] root_row)
    cdef int copy_row(self, char* place, double* out) noexcept nogil
    cdef const double* row_of(self, char* place, int node, int depth) noexcept nogil
    cdef int after(self, int node, int symbol) except -1 nogil


cdef inline bint is_marked(const unsigned char* seen, int y) noexcept nogil:
    """Whether the bit of a class is set."""
    return (seen[y >> 3] >> (y & 7)) & 1


cdef inline bint mark(unsigned char* seen, int y) noexcept nogil:
    """Set the bit of a class; return whether it was not set before."""
    cdef unsigned char bit = <unsigned char> (1 << (y & 7))
    if seen[y >> 3] & bit:
        return False
    seen[y >> 3] |= bit
    return True
