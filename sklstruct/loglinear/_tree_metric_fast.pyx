"""A step in the tree metric: Gauss elimination on the forest of pairs.

Weights of one class on one path act only through the score of its deepest pair. With
sigma_p the sum of beta d over p and its ancestors, the model of the objective at y is

    sum_p  kappa/2 h_p (sigma_p + s)^2 + r_p/2 d_p^2 + G_p d_p,     y + d >= 0,

G the gradient of its smooth part and s one number for all pairs: scores that all move
by s leave the probabilities as they are. `eliminate` goes from the deepest pairs up:
with a_p and b_p the quadratic and the linear weight of sigma_p when everything below p
is minimised out, it hands (A, B) to the parent and keeps d as a function of the
parent's sigma, `d = -(keep_a sigma + keep_b)`. The pairs of the root hand on the model
as a function of s, which stands above them like a parent's sigma.
`substitute` goes down and inserts. No fill-in arises, so both cost O(1) a pair; each
reads and writes about 80 bytes per pair, the parents' within a block of branches that
fits a cache.

work[0], work[1], work[2] hold, before a pair is eliminated, the sums of A, B and of the
expected counts of its children; afterwards keep_a, keep_b, h; after the
substitution, sigma + s of the step, the same of the move with momentum, and h.
"""

from libc.math cimport sqrt
from libc.stdint cimport int32_t

# The variance of a class is below p (1 - p) <= p of its expected count p: the second
# factor, with p averaged over the context, down to this.
cdef double SHARE = 0.3

# Below it a reciprocal may not be finite.
cdef double TINY = 1e-290


def eliminate(Py_ssize_t lo, Py_ssize_t hi, const int32_t[::1] pair_ptr,
              const int32_t[::1] pair_parent, const double[::1] beta,
              const double[::1] l1, const double[::1] l2, const double[::1] rho,
              const double[::1] count, const double[::1] terminal,
              const double[::1] y, const double[::1] y_prev,
              const double[::1] moves, const double[::1] numbers, double[::1] g,
              double[:, ::1] work, double[:, ::1] top, double[::1] sums):
    """One level's nodes lo:hi, after those below; g becomes the gradient G.

    beta has one entry, or one per node; l1 and l2 one, or one per pair. rho (or empty)
    is a further quadratic weight, and where it is negative the pair goes to `moves`
    whatever its relatives do. numbers: kappa, the Levenberg factor of beta^2 count, the
    factor of beta count in the diagonal metric of the residual, and s, which decides
    where the bounds of the root's pairs bind. The parents' parts are added to their
    columns of `work`, or of `top` if that has any.

    sums[0] += g (y_prev - y); without rho, sums[1] += squared distance of -g to the
    subdifferential over count, sums[2] += the penalty at y. Of pairs without a parent,
    sums[3] s^2 / 2 + sums[4] s is added to the model.
    """
    cdef Py_ssize_t n, p, q, unseen = -1
    cdef Py_ssize_t bs = 0 if beta.shape[0] == 1 else 1
    cdef Py_ssize_t s1 = 0 if l1.shape[0] == 1 else 1
    cdef Py_ssize_t s2 = 0 if l2.shape[0] == 1 else 1
    cdef bint has_rho = rho.shape[0] > 0
    cdef double kappa = numbers[0], levenberg = numbers[1], scale = numbers[2]
    cdef double common = numbers[3], common_a = 0.0, common_b = 0.0, rest
    cdef double b, total, c, l, quad, v, grad, expected, e, t, h, share
    cdef double d, z, r, a, linear, den, num, limit, up_a, up_b
    cdef double per_b, per_total, per_den
    cdef double *above_a = &top[0, 0] if top.shape[1] else &work[0, 0]
    cdef double *above_b = &top[1, 0] if top.shape[1] else &work[1, 0]
    cdef double *above_e = &top[2, 0] if top.shape[1] else &work[2, 0]
    cdef double *wa = &work[0, 0]
    cdef double *wb = &work[1, 0]
    cdef double *wh = &work[2, 0]
    cdef double slope = 0.0, residual = 0.0, penalty = 0.0
    with nogil:
        for n in range(lo, hi):
            b = beta[n * bs]
            total = 0.0
            for p in range(pair_ptr[n], pair_ptr[n + 1]):
                total += count[p]
            rest = total
            per_b = 1.0 / b if b > TINY else 0.0
            per_total = 1.0 / total if total > 0.0 else 0.0
            for p in range(pair_ptr[n], pair_ptr[n + 1]):
                c = count[p]
                q = pair_parent[p]
                if c == 0.0:
                    wa[p] = wb[p] = wh[p] = g[p] = 0.0
                    if q < 0:
                        unseen = p
                    continue
                l = l1[p * s1]
                quad = l2[p * s2]
                v = y[p]
                grad = g[p]
                slope += grad * (y_prev[p] - v)
                if not has_rho:
                    penalty += (l + 0.5 * quad * v) * v
                    d = scale * b * c
                    z = d * v - grad - l
                    d += quad
                    # (d + l2) (v - z), z the proximal point clipped at 0
                    r = d * v - (z if z > 0.0 else 0.0)
                    residual += r * r / c
                else:
                    quad += rho[p]

                # The curvature along sigma is e, the expected count of the samples
                # whose deepest pair of this class is p, and will be near t, the
                # observed one. A step across both is bounded by their mean.
                expected = grad * per_b + c
                if expected < 0.0:  # rounding
                    expected = 0.0
                e = expected - wh[p]
                if e < 1e-12 * expected:
                    e = 1e-12 * expected
                t = terminal[p]
                h = sqrt(e * t) if e < t else e
                share = 2.0 * (1.0 - expected * per_total)
                h *= SHARE if share < SHARE else (1.0 if share > 1.0 else share)

                a = kappa * h + wa[p]
                linear = wb[p]
                wh[p] = h
                if q < 0:  # for moves that differ between the classes
                    a += levenberg * c
                if has_rho and rho[p] < 0.0:
                    d = moves[p] - v
                    up_a = a
                    up_b = linear + a * b * d
                    wa[p] = 0.0
                    wb[p] = -d
                    g[p] = -scale * b * c * d
                else:
                    grad += l + quad * v
                    g[p] = grad
                    # An l1 term has no curvature; weights are of order 1.
                    if quad < 0.5 * l:
                        quad = 0.5 * l
                    r = quad if q < 0 else quad + levenberg * b * b * c
                    den = b * b * a + r
                    num = b * linear + grad
                    if not den > TINY:
                        up_a, up_b = a, linear
                        wa[p] = wb[p] = 0.0
                    else:
                        per_den = 1.0 / den
                        limit = num if q >= 0 else num + a * b * common
                        if v * den <= limit:  # clipped at 0
                            up_a = a
                            up_b = linear - a * b * v
                        else:
                            up_a = a * r * per_den
                            up_b = linear - a * b * num * per_den
                        wa[p] = a * b * per_den
                        wb[p] = num * per_den
                if q >= 0:
                    above_a[q] += up_a
                    above_b[q] += up_b
                    above_e[q] += expected
                else:
                    common_a += up_a
                    common_b += up_b
                    rest -= expected
            if unseen >= 0 and rest > 0.0:
                # Classes that stay at 0 without a gradient depend on s alone.
                wh[unseen] = rest
                common_a += kappa * rest
                unseen = -1
        sums[0] += slope
        sums[1] += residual
        sums[2] += penalty
        sums[3] += common_a
        sums[4] += common_b


def substitute(Py_ssize_t lo, Py_ssize_t hi, const int32_t[::1] pair_ptr,
               const int32_t[::1] pair_parent, const double[::1] beta,
               const double[::1] rho, const double[::1] count, double momentum,
               double common, const double[::1] g, double[:, ::1] work,
               double[::1] y, double[::1] y_prev, double[::1] w, double[::1] sums):
    """One level's nodes lo:hi, after those above: y_prev <- y, w <- y + d,
    y <- w + momentum (w - the old w). common is s.

    sums: += G d, G (w - old w), G (y - y_prev), h (sigma(y - y_prev) + s')^2. With any
    s' that is a bound on how much the loss curves along the move; with the one at which
    the root's scores stay where they are, on average, it is nearly the least.
    """
    cdef Py_ssize_t n, p, q
    cdef Py_ssize_t bs = 0 if beta.shape[0] == 1 else 1
    cdef bint has_rho = rho.shape[0] > 0
    cdef double b, v, d, above, above_move, new, move
    cdef double *wa = &work[0, 0]
    cdef double *wb = &work[1, 0]
    cdef double *wh = &work[2, 0]
    cdef double newton = 0.0, uphill = 0.0, slope = 0.0, square = 0.0
    cdef double mean, mass
    with nogil:
        for n in range(lo, hi):
            b = beta[n * bs]
            mean = mass = 0.0
            for p in range(pair_ptr[n], pair_ptr[n + 1]):
                q = pair_parent[p]
                above = wa[q] if q >= 0 else common
                above_move = wb[q] if q >= 0 else 0.0
                v = y[p]
                d = -(wa[p] * above + wb[p])
                if d < -v:
                    d = -v
                new = v + d
                move = new - w[p]
                newton += g[p] * d
                uphill += g[p] * move
                y_prev[p] = v
                w[p] = new
                if not (has_rho and rho[p] < 0.0):
                    # Off the orthant the sweeps would lose their no-cancellation bound.
                    move = new + momentum * move
                    new = 0.0 if move < 0.0 else move
                y[p] = new
                move = new - v
                slope += g[p] * move
                wa[p] = above + b * d
                wb[p] = above_move + b * move
                if q >= 0:
                    square += wh[p] * wb[p] * wb[p]
                else:
                    mean += count[p] * wb[p]
                    mass += count[p]
            if mass > 0.0:
                mean /= mass
                for p in range(pair_ptr[n], pair_ptr[n + 1]):
                    wb[p] -= mean
                    square += wh[p] * wb[p] * wb[p]
        sums[0] += newton
        sums[1] += uphill
        sums[2] += slope
        sums[3] += square
