"""The operator of the total variation, by dynamic programming in O(n).

The cost of the entries up to i as a function of w_i has an increasing, piecewise linear
derivative. It is stored as its first piece, its last piece, and between them knots in a
queue: knot j at x[j], where slope and constant grow by a[j] and b[j]. A step clips the
derivative to [-kappa, kappa]: pieces below -kappa are removed at the left, pieces above
kappa at the right, and the two places of the clipping become knots. Then D (w - v) is
added to all pieces, for which it is enough to change the first and the last piece.
Backwards, w_i is w_(i + 1) clipped to the interval between the two places.
"""


def total_variation(double[::1] w, const double[::1] kappa, const double[::1] metric,
                    double[:, ::1] knots, double[:, ::1] bounds):
    """Replace v by w in place; knots (3, 2 n) and bounds (2, n) are room; n > 1."""
    cdef Py_ssize_t n = w.shape[0], i, left = n, right = n - 1, lo, hi
    cdef double *x = &knots[0, 0]
    cdef double *a = &knots[1, 0]
    cdef double *b = &knots[2, 0]
    # the pieces at the left end and at the right end
    cdef double first_a = metric[0], first_b = -metric[0] * w[0]
    cdef double last_a = first_a, last_b = first_b
    cdef double k
    with nogil:
        for i in range(n - 1):
            k = kappa[i]
            lo = left
            while lo <= right and first_a * x[lo] + first_b <= -k:
                first_a += a[lo]
                first_b += b[lo]
                lo += 1
            hi = right
            while hi >= lo and last_a * x[hi] + last_b >= k:
                last_a -= a[hi]
                last_b -= b[hi]
                hi -= 1
            if hi < lo:
                # one piece is left, which rounding must not split in two
                last_a, last_b = first_a, first_b
            left = lo - 1
            right = hi + 1
            bounds[0, i] = x[left] = (-k - first_b) / first_a
            bounds[1, i] = x[right] = max((k - last_b) / last_a, x[left])
            a[left] = first_a
            b[left] = first_b + k
            a[right] = -last_a
            b[right] = k - last_b
            first_a = last_a = metric[i + 1]
            first_b = -k - metric[i + 1] * w[i + 1]
            last_b = k - metric[i + 1] * w[i + 1]
        lo = left
        while lo <= right and first_a * x[lo] + first_b <= 0:
            first_a += a[lo]
            first_b += b[lo]
            lo += 1
        w[n - 1] = -first_b / first_a
        for i in range(n - 2, -1, -1):
            w[i] = min(max(w[i + 1], bounds[0, i]), bounds[1, i])
