"""Updates of single weights: iterative scaling and coordinate descent.

All minimise, weight by weight, an upper bound of the objective that depends on this
weight alone. With E its expected and c its observed count, the bounds on the
loss are, up to constants,

    scaling        sum_j beta E_j / s_j exp(s_j d) - beta c d,    d = u - w,

E_j the expected count of the samples whose active features sum to s_j (one term for GIS
and SCIS, one per depth for IIS), and, for coordinate descent, from |f'''| <= beta f'',

    curvature      g d + h / beta^2 (exp(beta |d|) - 1 - beta |d|)

with the slope g and the curvature h at w. To these come l1 |u| + l2 u^2 / 2 and, where
weights are not negative, u >= 0. The derivative is convex in |d| and is solved by
Newton's method from beyond the root, so that it falls at every step.

`scale_pairs` changes all weights of a range at once: a few exponentials per pair, for
IIS times the depth. `sweep_columns` changes one after the other, class by class,
and keeps the normalisers Z of the contexts up to date. Contexts are in the order of
a depth-first walk, in which those that a feature is active in are a range, so that a
pair costs the number of contexts at or below its own, in sequential passes.
"""

from libc.math cimport exp, fabs, log, log1p
from libc.stdint cimport int32_t

cdef extern from "_columns.h" nogil:
    void moments "sklstruct_moments"(
        Py_ssize_t, const double*, const double*, const double*, double*
    ) noexcept
    void rescale "sklstruct_rescale"(
        Py_ssize_t, double, double*, double*
    ) noexcept


# The exponent that one update adds to a score is at most this: a part of the way to the
# minimum of a convex bound goes down as well, and exponentials stay in range.
cdef double LONGEST = 30.0


cdef double _root(const double *e, const double *s, Py_ssize_t n, double beta,
                  double r, double q, double least) noexcept nogil:
    """d with beta sum_j e_j exp(s_j d) + q d = r, or any d <= least if it is below;
    s rises. r > 0, or q > 0, or least is finite."""
    cdef Py_ssize_t j, _
    cdef double d = 0.0, total = 0.0, h, slope, v, step
    for j in range(n):
        total += beta * e[j]
    if total < r:
        d = LONGEST / s[n - 1]
        if total > 0.0 and log(r / total) < d * s[0]:
            d = log(r / total) / s[0]
        if r - total < q * d:
            d = (r - total) / q
    for _ in range(100):
        h = q * d - r
        slope = q
        for j in range(n):
            if e[j] > 0.0:
                v = beta * e[j] * exp(s[j] * d)
                h += v
                slope += s[j] * v
        # Newton's method comes from the right; what is left is rounding, or the
        # longest step.
        if h <= 0.0 or not slope > 0.0:
            break
        step = h / slope
        d -= step
        if step <= 1e-15 * fabs(d) or d <= least:
            break
    return d


cdef double _scaled(const double *e, const double *s, Py_ssize_t n, double beta,
                    double c, double l1, double l2, double w,
                    bint positive) noexcept nogil:
    """The minimum u of the scaling bound."""
    cdef double r = beta * c - l1 - l2 * w, u
    if r > 0.0 or l2 > 0.0:
        u = w + _root(e, s, n, beta, r, l2, -w)
        if u > 0.0:
            return u
    if positive:
        return 0.0
    u = w + _root(e, s, n, beta, beta * c + l1 - l2 * w, l2, -1e300)
    return u if u < 0.0 else 0.0


cdef double _length(double slope, double h, double beta, double q) noexcept nogil:
    """x >= 0 with h (exp(beta x) - 1) / beta + q x = slope."""
    cdef double x, v, left, step
    cdef int _
    if not h > 0.0:
        if q == 0.0:
            return 1e300 if slope > 0.0 else 0.0
        return slope / q
    x = log1p(beta * slope / h) / beta
    if q == 0.0:
        return x
    if slope / (h + q) < x:
        x = slope / (h + q)
    for _ in range(100):
        v = h * exp(beta * x)
        left = (v - h) / beta + q * x - slope
        if left <= 0.0:
            break
        step = left / (v + q)
        x -= step
        if step <= 1e-15 * x:
            break
    return x


cdef double _descended(double g, double h, double beta, double l1, double l2,
                       double w, bint positive) noexcept nogil:
    """The minimum u of the curvature bound."""
    cdef double slope = g + l1 + l2 * w, x, u
    x = _length(fabs(slope), h, beta, l2)
    if x * beta > LONGEST:
        x = LONGEST / beta
    u = w - x if slope > 0.0 else w + x
    if u > 0.0:
        return u
    if positive:
        return 0.0
    slope = g - l1 + l2 * w
    x = _length(fabs(slope), h, beta, l2)
    if x * beta > LONGEST:
        x = LONGEST / beta
    u = w - x if slope > 0.0 else w + x
    return u if u < 0.0 else 0.0


def split_expected(Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t k, bint push,
                   const int32_t[::1] pair_parent, const double[::1] beta,
                   const double[::1] count, const double[::1] g,
                   double[:, ::1] shares):
    """shares[p, j]: expected count of the samples below p whose deepest pair of its
    class is at level j, for the pairs lo:hi of level k, after those below.

    beta has one entry, or one per pair. On entry the entries above k hold the sums over
    the child pairs; push adds those of p to its parent's.
    """
    cdef Py_ssize_t p, q, j, n = shares.shape[1]
    cdef Py_ssize_t bs = 0 if beta.shape[0] == 1 else 1
    cdef double b, own
    with nogil:
        for p in range(lo, hi):
            b = beta[p * bs]
            own = g[p] / b + count[p] if b > 0.0 else count[p]
            for j in range(k + 1, n):
                own -= shares[p, j]
            # Rounding can take it below 0, and E = 0 below any count.
            shares[p, k] = own if own > 1e-15 * count[p] else 1e-15 * count[p]
            if push:
                q = pair_parent[p]
                for j in range(k, n):
                    shares[q, j] += shares[p, j]


def push_shares(Py_ssize_t lo, Py_ssize_t hi, const int32_t[::1] pair_parent,
                double[:, ::1] shares):
    """The shares of level 1 are added to those of the root's pairs."""
    cdef Py_ssize_t p, q, j, n = shares.shape[1]
    with nogil:
        for p in range(lo, hi):
            q = pair_parent[p]
            for j in range(1, n):
                shares[q, j] += shares[p, j]


def scale_pairs(Py_ssize_t lo, Py_ssize_t hi, Py_ssize_t k, bint positive,
                const double[::1] rates, const double[:, ::1] shares,
                const double[::1] beta, const double[::1] l1, const double[::1] l2,
                const double[::1] count, double[::1] w):
    """w of the pairs lo:hi becomes the minimum of the scaling bound with the terms
    k, k + 1, ... of rates and shares; beta, l1, l2 have one entry, or one per pair."""
    cdef Py_ssize_t p, n = rates.shape[0] - k
    cdef Py_ssize_t bs = 0 if beta.shape[0] == 1 else 1
    cdef Py_ssize_t s1 = 0 if l1.shape[0] == 1 else 1
    cdef Py_ssize_t s2 = 0 if l2.shape[0] == 1 else 1
    with nogil:
        for p in range(lo, hi):
            if count[p] > 0.0:
                w[p] = _scaled(&shares[p, k], &rates[k], n, beta[p * bs], count[p],
                               l1[p * s1], l2[p * s2], w[p], positive)


def sweep_columns(Py_ssize_t first, Py_ssize_t last, bint newton, bint positive,
                  const int32_t[::1] column, const int32_t[:, ::1] span,
                  const double[:, ::1] terms, const double[::1] es,
                  const double[::1] weight, double[::1] w, double[::1] z,
                  double[::1] s):
    """One update of every weight of the classes first:last, each with Z up to date.

    Pairs are in order of class, then of the walk: column[v]:column[v + 1] are those of
    class v, the root's first. span: the range of contexts of each; terms: its beta,
    count, l1 and l2; es: exp(score). weight and z are t and Z of the contexts; s (as
    long) is working memory, exp(score) of the class in every context.
    """
    cdef Py_ssize_t v, p, x, lo, hi
    cdef double b, c, new, h
    cdef double sums[2]
    with nogil:
        for v in range(first, last):
            if terms[column[v], 1] == 0.0:
                continue  # never seen: its only weight stays 0
            for p in range(column[v], column[v + 1]):
                for x in range(span[p, 0], span[p, 1]):
                    s[x] = es[p]
            for p in range(column[v], column[v + 1]):
                lo, hi = span[p, 0], span[p, 1]
                b, c = terms[p, 0], terms[p, 1]
                moments(hi - lo, &weight[lo], &s[lo], &z[lo], sums)
                if newton:
                    h = sums[1] if sums[1] > 1e-12 * sums[0] else 1e-12 * sums[0]
                    new = _descended(b * (sums[0] - c), b * b * h, b, terms[p, 2],
                                     terms[p, 3], w[p], positive)
                else:
                    new = _scaled(&sums[0], &b, 1, b, c, terms[p, 2], terms[p, 3],
                                  w[p], positive)
                if new != w[p]:
                    rescale(hi - lo, exp(b * (new - w[p])), &s[lo], &z[lo])
                    w[p] = new
