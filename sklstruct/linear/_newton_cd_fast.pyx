"""Coordinate descent on the quadratic model of a Newton step, and the gradient.

With the current probabilities p, the Hessian of the loss along a change D = X dW of the
scores (lanes are classes or labels), and the weights v of the curvature, are

    one class per sample:  sum_i s_i [sum_k p_ik D_ik^2 - (sum_k p_ik D_ik)^2],
                         v = s p,
    several labels:      sum_ik s_i p_ik (1 - p_ik) D_ik^2,   v = s p (1 - p).

The first line is the exact Hessian of the multinomial loss and not a bound of it. Its
second term couples the lanes by one number per sample, Q_i = sum_k p_ik D_ik. So the
derivative in a coordinate (j, k),

    g_jk + sum_i x_ij v_ik (D_ik - Q_i),

and the update of D and Q cost one pass over column j each, as with a diagonal Hessian.
With several labels Q stays 0.

X is given by its columns (`ptr`, `row`, `x`). The intercepts, which are in every
sample, take their step in NumPy between two sweeps.
"""

from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t

from .._watch cimport Watch, over, propagate, watch_of

# Added to curvatures against divisions by 0, which columns of zeros, or of values whose
# squares underflow, would cause.
cdef double TINY = 1e-300


cdef inline double shrunk(double x, double l1) noexcept nogil:
    """Soft threshold: x moved towards 0 by l1, but not beyond 0."""
    if x > l1:
        return x - l1
    return x + l1 if x < -l1 else 0.0


def gradient(
    const int64_t[::1] ptr, const int32_t[::1] row, const double[::1] x,
    const int32_t[::1] columns, const double[:, ::1] R, double[:, ::1] out,
    int32_t[::1] stop,
):
    """out (columns, lanes) = the columns of X, transposed, times R (samples, lanes)."""
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t c, a, k, j, K = R.shape[1]
    cdef double v
    cdef const double* r
    cdef double* g
    with nogil:
        for c in range(columns.shape[0]):
            j = columns[c]
            g = &out[c, 0]
            for k in range(K):
                g[k] = 0
            for a in range(ptr[j], ptr[j + 1]):
                r = &R[row[a], 0]
                v = x[a]
                for k in range(K):
                    g[k] += v * r[k]
            if over(&watch, (ptr[j + 1] - ptr[j] + 8) * K):
                break
    propagate()


def derivatives(
    const int64_t[::1] ptr, const int32_t[::1] row, const double[::1] x,
    const int32_t[::1] column, const int32_t[::1] lane,
    const double[:, ::1] R, const double[:, ::1] H,
    double[::1] g, double[::1] h, int32_t[::1] stop,
):
    """First and second derivatives of coordinates (column, lane).

    R (lanes, samples): derivatives by the scores; H: second derivatives.
    """
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t c, a, i, j
    cdef double first, second, v
    cdef const double* r
    cdef const double* w
    with nogil:
        for c in range(column.shape[0]):
            j = column[c]
            r, w = &R[lane[c], 0], &H[lane[c], 0]
            first = second = 0
            for a in range(ptr[j], ptr[j + 1]):
                i, v = row[a], x[a]
                first += v * r[i]
                second += v * v * w[i]
            g[c], h[c] = first, second
            if over(&watch, 2 * (ptr[j + 1] - ptr[j]) + 8):
                break
    propagate()


def sweep(
    const int64_t[::1] ptr, const int32_t[::1] row, const double[::1] x,
    const int32_t[::1] column, const int32_t[::1] lane,
    const double[:, ::1] P, const double[:, ::1] V, bint coupled,
    const double[::1] g, const double[::1] h, const double[::1] damping,
    double l1, double l2, const double[::1] w, bint full,
    double[::1] u, uint8_t[::1] active, double[:, ::1] D, double[::1] Q,
    int32_t[::1] stop,
):
    """One pass over the coordinates; changes u, D, Q in place.

    The model is g e + h e^2 / 2 + damping e^2 / 2 + l1 |u| + l2 u^2 / 2 with e = u - w.
    full: whether all coordinates are visited, or those that are `active`. A visit sets
    `active` to whether the coordinate is not zero or has changed. Returns the sum of
    curvature times squared change.
    """
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t c, a, i, j, k
    cdef double slope, curvature, point, new, change, total = 0, e
    cdef const double* p
    cdef const double* v
    cdef double* d
    with nogil:
        for c in range(column.shape[0]):
            if not full and not active[c]:
                continue
            j, k = column[c], lane[c]
            p, v, d = &P[k, 0], &V[k, 0], &D[k, 0]
            slope = 0
            if coupled:
                for a in range(ptr[j], ptr[j + 1]):
                    i = row[a]
                    slope += x[a] * v[i] * (d[i] - Q[i])
            else:
                for a in range(ptr[j], ptr[j + 1]):
                    i = row[a]
                    slope += x[a] * v[i] * d[i]
            slope += g[c] + l2 * u[c] + damping[c] * (u[c] - w[c])
            # The relative margin keeps rounding from making a flat model rise.
            curvature = h[c] * (1 + 1e-12) + l2 + damping[c] + TINY
            point = curvature * u[c] - slope
            new = shrunk(point, l1) / curvature
            change = new - u[c]
            active[c] = new != 0 or change != 0
            if change != 0:
                u[c] = new
                total += change * change * curvature
                for a in range(ptr[j], ptr[j + 1]):
                    i = row[a]
                    e = change * x[a]
                    d[i] += e
                    if coupled:
                        Q[i] += p[i] * e
            if over(&watch, 4 * (ptr[j + 1] - ptr[j]) + 8):
                break
    propagate()
    return total


def sweep_blocks(
    const int64_t[::1] ptr, const int32_t[::1] row, const double[::1] x,
    const int64_t[::1] start, const int32_t[::1] column,
    const double[:, ::1] P, const double[:, ::1] V, bint coupled,
    const double[:, ::1] g, const double[:, ::1] h, const double[::1] damping,
    const double[::1] l1, const double[:, ::1] w, bint full,
    double[:, ::1] u, uint8_t[::1] active, double[:, ::1] D, double[::1] Q,
    double[:, ::1] room, int32_t[::1] stop,
):
    """One pass over blocks of columns start[b]:start[b + 1], all lanes of each.

    P, V, D have the shape (samples, lanes). The Hessian of a block is at most the
    diagonal matrix of h, which includes the damping. The penalty of a block is l1 times
    the Euclidean norm of all of its weights. room: (largest block + 1, lanes).
    Otherwise as `sweep`.

    With r = h u minus the gradient, weight by weight, the minimum is n r / (n h + l1),
    where n = ||u|| solves f(n) = sum r^2 / (n h + l1)^2 = 1. If f(0) <= 1, the minimum
    is 0. f^-1/2 is concave and increases: the steps of Newton's method from 0 never
    pass the root, and one step is enough if all h are equal.
    """
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t b, c, a, i, j, k, lo, n_entries, K = P.shape[1]
    cdef double size, step, factor, change, total = 0, value, q, f, slope
    cdef const double* p
    cdef const double* v
    cdef double* d
    cdef double* t
    cdef double* last = &room[room.shape[0] - 1, 0]
    with nogil:
        for b in range(l1.shape[0]):
            if not full and not active[b]:
                continue
            lo, n_entries, size, step = start[b], 0, 0, 1
            for c in range(lo, start[b + 1]):
                j, t = column[c], &room[c - lo, 0]
                for k in range(K):
                    t[k] = g[c, k] + damping[c] * (u[c, k] - w[c, k])
                for a in range(ptr[j], ptr[j + 1]):
                    i, value = row[a], x[a]
                    v, d, q = &V[i, 0], &D[i, 0], Q[i]
                    for k in range(K):
                        t[k] += value * v[k] * (d[k] - q)
                n_entries += ptr[j + 1] - ptr[j]
                for k in range(K):
                    t[k] = h[c, k] * u[c, k] - t[k]
            while step > 1e-9 * size:
                f = slope = 0
                for c in range(lo, start[b + 1]):
                    t = &room[c - lo, 0]
                    for k in range(K):
                        factor = 1 / (size * h[c, k] + l1[b])
                        q = t[k] * t[k] * factor * factor
                        f += q
                        slope += q * factor * h[c, k]
                step = f * (sqrt(f) - 1) / slope if f > 1 else 0
                size += step
            change = 0
            for c in range(lo, start[b + 1]):
                j, t = column[c], &room[c - lo, 0]
                for k in range(K):
                    factor = size / (size * h[c, k] + l1[b])
                    last[k] = factor * t[k] - u[c, k]
                    u[c, k] = factor * t[k]
                    change += last[k] * last[k] * h[c, k]
                for a in range(ptr[j], ptr[j + 1]):
                    i, value, q = row[a], x[a], 0
                    p, d = &P[i, 0], &D[i, 0]
                    for k in range(K):
                        d[k] += value * last[k]
                        q += p[k] * last[k]
                    if coupled:
                        Q[i] += value * q
            active[b] = size > 0 or change > 0
            total += change
            if over(&watch, 4 * (n_entries + 8) * K):
                break
    propagate()
    return total


def sweep_gram(
    const double[:, ::1] H, const double[::1] l1, const double[::1] l2, bint full,
    double[::1] u, uint8_t[::1] active, double[::1] slope, int32_t[::1] stop,
):
    """One pass with the whole Hessian H, damping included; u and slope in place.

    slope: the gradient at u of the model without its penalty. Otherwise as `sweep`.
    """
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t c, b, n = H.shape[0]
    cdef double curvature, point, new, change, total = 0
    cdef const double* h
    with nogil:
        for c in range(n):
            if not full and not active[c]:
                continue
            h = &H[c, 0]
            curvature = h[c] + l2[c] + TINY
            point = curvature * u[c] - slope[c] - l2[c] * u[c]
            new = shrunk(point, l1[c]) / curvature
            change = new - u[c]
            active[c] = new != 0 or change != 0
            if change != 0:
                u[c] = new
                total += change * change * curvature
                for b in range(n):
                    slope[b] += change * h[b]
            if over(&watch, n):
                break
    propagate()
    return total
