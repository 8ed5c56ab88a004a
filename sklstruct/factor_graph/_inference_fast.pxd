from libc.stdint cimport int32_t, int64_t


cdef class Potentials:
    cdef readonly Py_ssize_t n_instances
    cdef const int64_t[::1] var_ptr, edge_ptr, cand_ptr, pair_ptr, adj_ptr
    cdef const int32_t[::1] edge_u, edge_v, adj_edge
    cdef const double[::1] unary, pair


cdef inline int32_t other_end(Potentials p, int32_t e, Py_ssize_t v) noexcept nogil:
    return p.edge_v[e] if p.edge_u[e] == v else p.edge_u[e]
