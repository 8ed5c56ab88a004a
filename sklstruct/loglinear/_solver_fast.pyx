"""Fused vector passes of the proximal solvers, over a range of pairs.

Metric of a pair: D = kappa * scale * count, built on the fly; `scale`, `l1` and
`l2` hold one entry for the whole range or one for each pair, `rho` (a further
quadratic weight) may be empty. Pairs of count 0 (classes never seen, at the
root) keep weight 0. Every pass is bound by memory: 40 to 60 bytes per pair.
"""

from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t


def separable_step(Py_ssize_t lo, Py_ssize_t hi, double kappa,
                   const double[::1] scale, const double[::1] l1,
                   const double[::1] l2, const double[::1] rho, bint positive,
                   const double[::1] count, const double[::1] y,
                   const double[::1] g, double[::1] out, double[::1] sums):
    """out = argmin over u of g u + D/2 (u - y)^2 + l1 |u| + (l2 + rho)/2 u^2.

    sums[0] += squared distance of -g to the subdifferential, over count;
    sums[1] += the penalty at y (without rho).
    """
    cdef Py_ssize_t p
    cdef Py_ssize_t ss = 0 if scale.shape[0] == 1 else 1
    cdef Py_ssize_t s1 = 0 if l1.shape[0] == 1 else 1
    cdef Py_ssize_t s2 = 0 if l2.shape[0] == 1 else 1
    cdef bint has_rho = rho.shape[0] > 0
    cdef double c, d, z, a, q, full, v, r, residual = 0.0, penalty = 0.0
    with nogil:
        for p in range(lo, hi):
            c = count[p]
            if c == 0.0:
                out[p] = 0.0
                continue
            d = kappa * scale[p * ss] * c
            a = l1[p * s1]
            q = l2[p * s2]
            v = y[p]
            penalty += a * fabs(v) + 0.5 * q * v * v
            full = q + rho[p] if has_rho else q
            z = d * v - g[p]
            if z > a:
                z = (z - a) / (d + full)
            elif z < -a and not positive:
                z = (z + a) / (d + full)
            else:
                z = 0.0
            out[p] = z
            r = (d + full) * (v - z)
            residual += r * r / c
        sums[0] += residual
        sums[1] += penalty


def gradient_step(Py_ssize_t lo, Py_ssize_t hi, const double[::1] metric,
                  const double[::1] y, const double[::1] g, bint positive,
                  double[::1] out):
    """out = y - g / D, clipped at 0 where weights are non-negative."""
    cdef Py_ssize_t p, ms = 0 if metric.shape[0] == 1 else 1
    cdef double v
    with nogil:
        for p in range(lo, hi):
            v = y[p] - g[p] / metric[p * ms]
            out[p] = 0.0 if positive and v < 0.0 else v


def mapping_residual(Py_ssize_t lo, Py_ssize_t hi, const double[::1] metric,
                     const double[::1] count, const double[::1] y,
                     const double[::1] out):
    """Sum of (D (y - out))^2 / count."""
    cdef Py_ssize_t p, ms = 0 if metric.shape[0] == 1 else 1
    cdef double r, total = 0.0
    with nogil:
        for p in range(lo, hi):
            if count[p] > 0.0:
                r = metric[p * ms] * (y[p] - out[p])
                total += r * r / count[p]
    return total


def curvature(Py_ssize_t lo, Py_ssize_t hi, const double[::1] scale,
              const double[::1] count, const double[::1] y,
              const double[::1] y_prev, const double[::1] g, double[::1] sums):
    """sums[0] += g (y_prev - y), sums[1] += D (y_prev - y)^2 with kappa = 1."""
    cdef Py_ssize_t p, ss = 0 if scale.shape[0] == 1 else 1
    cdef double d, linear = 0.0, square = 0.0
    with nogil:
        for p in range(lo, hi):
            d = y_prev[p] - y[p]
            linear += g[p] * d
            square += scale[p * ss] * count[p] * d * d
        sums[0] += linear
        sums[1] += square


def restart_test(Py_ssize_t lo, Py_ssize_t hi, const double[::1] scale,
                 const double[::1] count, const double[::1] y,
                 const double[::1] w, const double[::1] new):
    """Sum of D (y - new)(new - w): positive when the momentum points uphill."""
    cdef Py_ssize_t p, ss = 0 if scale.shape[0] == 1 else 1
    cdef double total = 0.0
    with nogil:
        for p in range(lo, hi):
            total += (scale[p * ss] * count[p]
                      * (y[p] - new[p]) * (new[p] - w[p]))
    return total


def extrapolate(Py_ssize_t lo, Py_ssize_t hi, double momentum, bint positive,
                double[::1] y, double[::1] y_prev, double[::1] w,
                const double[::1] new):
    """y_prev <- y, y <- new + momentum (new - w), w <- new."""
    cdef Py_ssize_t p
    cdef double v
    with nogil:
        for p in range(lo, hi):
            y_prev[p] = y[p]
            v = new[p] + momentum * (new[p] - w[p])
            # Off the orthant the sweeps would lose their no-cancellation bound.
            y[p] = 0.0 if positive and v < 0.0 else v
            w[p] = new[p]


def group_weights(Py_ssize_t lo, Py_ssize_t hi, double weight, bint own,
                  double epsilon, const int32_t[::1] parent,
                  double[::1] square):
    """Squared norms become rho_p = sum over groups g that hold p of
    weight / ||w_g||, parents before children.

    The norms are smoothed by epsilon. own=False leaves the pair's own group out
    (a leaf: its norm is |w_p|, treated exactly).
    """
    cdef Py_ssize_t p
    cdef double above, e2 = epsilon * epsilon
    with nogil:
        for p in range(lo, hi):
            above = square[parent[p]] if parent[p] >= 0 else 0.0
            if own:
                above += weight / sqrt(square[p] + e2)
            square[p] = above


def split_groups(Py_ssize_t lo, Py_ssize_t hi, double kappa,
                 const double[::1] scale, double weight, double threshold,
                 const int32_t[::1] parent, const double[::1] count,
                 double[::1] rho, double[::1] metric, double[::1] group_kappa,
                 int32_t[::1] cut):
    """Split the groups by their norm, parents before children.

    In `rho` are the squared norms. Groups above the threshold are smooth there and
    join the quadratic weight rho (their majoriser); the others, near zero, keep
    their norm and form their own forests: cut[p] is p's parent inside such a
    forest, else -1. A forest has one metric, D + rho of its top pair, so that the
    exact operator applies; group_kappa is -1 outside of the forests.
    """
    cdef Py_ssize_t p, ss = 0 if scale.shape[0] == 1 else 1
    cdef double norm, above
    cdef int32_t q
    cdef bint inside
    with nogil:
        for p in range(lo, hi):
            norm = sqrt(rho[p])
            q = parent[p]
            inside = q >= 0 and group_kappa[q] >= 0.0
            above = rho[q] if q >= 0 else 0.0
            cut[p] = -1
            if inside:
                cut[p] = q
                rho[p] = above
                metric[p] = metric[q]
                group_kappa[p] = weight
            elif norm <= threshold:
                rho[p] = above
                metric[p] = kappa * scale[p * ss] * count[p] + above
                group_kappa[p] = weight
            else:
                rho[p] = above + weight / norm
                metric[p] = kappa * scale[p * ss] * count[p] + rho[p]
                group_kappa[p] = -1.0
            if metric[p] == 0.0:
                metric[p] = 1.0


def forest_centres(Py_ssize_t lo, Py_ssize_t hi, bint positive,
                   double[::1] rho, const double[::1] metric,
                   const double[::1] y, const double[::1] g,
                   double[::1] group_kappa, double[::1] out):
    """out = argmin of g u + (metric - rho)/2 (u - y)^2 + rho/2 u^2; the groups'
    thresholds become those of the operator (0 outside of the forests, inside of which
    rho becomes -1)."""
    cdef Py_ssize_t p
    cdef double v
    with nogil:
        for p in range(lo, hi):
            v = y[p] - (g[p] + rho[p] * y[p]) / metric[p]
            out[p] = 0.0 if positive and v < 0.0 else v
            if group_kappa[p] < 0.0:
                group_kappa[p] = 0.0
            else:
                group_kappa[p] = group_kappa[p] / metric[p]
                rho[p] = -1.0
