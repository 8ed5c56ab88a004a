# splitmix64: one 64-bit word of state, the same stream on every machine.
#
# Steele, Lea, Flood (2014), "Fast splittable pseudorandom number generators". Every
# sample has its own word of state, so results depend neither on batches nor on threads.
from libc.math cimport exp
from libc.stdint cimport uint64_t


cdef inline double draw(uint64_t* state) noexcept nogil:
    """A uniform number in [0, 1)."""
    state[0] += <uint64_t>0x9E3779B97F4A7C15
    cdef uint64_t z = state[0]
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    z = z ^ (z >> 31)
    return <double>(z >> 11) * (1.0 / 9007199254740992.0)


cdef inline Py_ssize_t draw_below(uint64_t* state, Py_ssize_t n) noexcept nogil:
    """A uniform integer from 0 to n - 1; for n < 2**31 the bias is below 2**-22."""
    return <Py_ssize_t>(draw(state) * <double>n)


cdef inline Py_ssize_t pick(
    const double* score, Py_ssize_t n, double top, double t, Py_ssize_t now,
    uint64_t* seed,
) noexcept nogil:
    """The index of one of n scores, of maximum top, drawn at temperature t >= 0.

    now: the present index.
    """
    cdef Py_ssize_t a
    cdef double total = 0.0, u
    if t <= 0.0:
        # the present value wins ties, so that coordinate ascent ends
        if score[now] >= top:
            return now
        for a in range(n):
            if score[a] == top:
                return a
    for a in range(n):
        total += exp((score[a] - top) / t)
    u = draw(seed) * total
    for a in range(n):
        u -= exp((score[a] - top) / t)
        if u < 0.0:
            return a
    return now  # rounding used up all the mass
