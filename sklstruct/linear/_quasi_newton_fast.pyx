"""A multinomial logistic regression by L-BFGS.

The samples of every outcome are a range of rows of X: for a tree, X is sorted by the
leaf order once, and no node copies samples. The node minimises

    (1 / S) sum_i s_i loss(i) + (1 / (2 C S)) (||W||^2 + rho ||b||^2),  S = sum_i s_i,

which is scikit-learn's objective divided by C S; rho = 0 if intercepts are not
penalised. Two outcomes have one weight vector (logit of the second outcome), m > 2
outcomes have m vectors. Samples may have weight 0, but not all samples of an outcome.

An intercept that is penalised as the weight of a feature of value a has rho = 1 / a^2.
The unknown is b / unit with unit = min(1, a), so that for small and large a the
curvatures of intercepts are of the size of the curvatures of weights.

A change of weight j alone can lower the objective by at least its promise, g_j^2 /
(2 h_j), with h_j = sum_i s_i x_ij^2 / (4 S) + lam, a bound of the second derivative. A
node is done when the largest promise is at most tol^2 times the largest promise at
W = 0 (with the best intercepts). The gradient itself depends on the scales of the
features: a column of large numbers would hide the other columns.

One iteration needs two products with X, whatever the number of trial steps: scores
are linear along a direction d, so X d is made once and every trial step costs
O(n r), r the number of weight vectors; the other product is the gradient. The line
search is the bisection for the weak Wolfe conditions (Lewis and Overton), which
keeps the L-BFGS metric positive definite. A first step that is too short grows by
secants.

Start metric. L-BFGS starts from a multiple of the identity or, if the caller passes
moments of the features (`_quasi_newton` says when), from the inverse H0 of

    H(a) = diag(a) (x) M + lam I,       lam = 1 / (C S),

on the weights that sum to zero over the outcomes; M is the second moment of the
features. The Hessian is (diag(p) - p p') (x) M + lam I if all samples have the same
probabilities p. If p is 1 / r, the second term of the Hessian vanishes on these weights
and H with a = p is exact; otherwise H is an approximation without this term. With
intercepts M is the covariance: in terms of b + W mean instead of b the Hessian is
block-diagonal, so that gradients (g_w - g_b mean', g_b) are mapped to steps (s_w, s_b -
s_w mean). In the eigenbasis of M, with variances v_j, H separates into one problem of r
numbers for each j: x = (u - kappa) / (a v_j + lam), kappa such that sum x = 0. The
gradient sums to zero over the outcomes, and the caller centres the start. a_k is
mean(p_k (1 - p_k)) r / (r - 1) over samples, which is 1 / r at W = 0 and outcomes of
equal shares. It is computed at the start and after 1, 2, 4, 8 ... iterations, and H0 is
multiplied by the usual scalar s'y / y'H0 y. Both matter: if a stays as at the start,
without the scalar, separable data needs several times the iterations. Equal a for all
outcomes needs more iterations. Separate variances for every outcome, sum_i p (1 - p)
(x_i q_j)^2, save iterations on few data sets only, for another product with X. An
iteration costs three products of r d d in addition to 2 n d r; memory is r d.

With a penalty of the intercepts only a part of the mean is subtracted, and M is the
moment that remains (`_quasi_newton`).

With this metric the gradient of a model that separates the samples may fall below tol
everywhere while the loss can still decrease along directions of small eigenvalues. The
iteration therefore continues while g'H0 g / 2, the expected decrease, exceeds tol nats.

Cost of a node with n samples and r vectors: O(iterations n d r) (dense) or
O(iterations nnz r); memory O(n r + 2 MEMORY d r). Exponentials of 10 outcomes and more
go through the loops of `_softmax.h`.
"""

cimport cython
from libc.math cimport INFINITY, exp, fabs, isfinite, log, log1p
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from ._blas cimport daxpy, dot, gemm, gemv
from .._exp_sum cimport exp_sum
from .._watch cimport OPS_BETWEEN_SIGNAL_CHECKS, Watch, over, propagate, watch_of

cdef extern from "_softmax.h" nogil:
    double sklstruct_move_double(
        Py_ssize_t n, const double* z, const double* d, double t, double* u) noexcept
    double sklstruct_move_float(
        Py_ssize_t n, const double* z, const float* d, double t, double* u) noexcept
    double sklstruct_residual_double(
        Py_ssize_t n, const double* e, double a, const double* d, double* out) noexcept
    double sklstruct_residual_float(
        Py_ssize_t n, const double* e, double a, const float* d, float* out) noexcept

cdef enum:
    HISTORY = 10
    TRIALS = 100
    # With fewer weight vectors a loop over libm's exp is faster than _softmax.h.
    NARROW = 10
    BLOCK = 1024  # numbers per block of `axpy_dot`

# If no step descends and the largest promise is below this (nats), rounding is the
# cause and the node has converged; otherwise the scales of the features are the cause.
cdef double STALLED = 1e-6

# Least value, in nats, of the promise at the start to which tol is relative.
cdef double LEAST = 1e-6

# Largest expected decrease (by the metric) at convergence, in units of tol nats.
cdef double EXPECTED = 1

# Least curvature a_k, in units of 1 / r.
cdef double FLOOR = 1e-3

MEMORY = HISTORY  # pairs (step, change of gradient) that L-BFGS keeps


cdef struct Node:
    const int64_t* bound    # (m + 1,) of the outcomes: samples
    const double* weight    # (n,)
    const int64_t* indptr   # of the samples; NULL: X is dense
    const int32_t* index
    const double* basis     # (d, d), its columns: directions of the features; or NULL
    const double* variance  # (d,) of the features along them, >= 0
    const double* mean      # (d,) of the features; 0 without intercept
    Watch* watch
    Py_ssize_t n            # samples
    Py_ssize_t d            # columns
    Py_ssize_t r            # weight vectors
    Py_ssize_t m            # outcomes
    Py_ssize_t size         # d r weights
    Py_ssize_t p            # size, plus r if there are intercepts
    double unit             # of the intercepts
    double rho              # penalty of (b / unit)^2 relative to that of a weight
    double lam              # 1 / (C S)
    double scale            # 1 / S


cdef inline void axpy(Py_ssize_t n, double a, double* x, double* y) noexcept nogil:
    cdef int size = <int>n, one = 1
    daxpy(&size, &a, x, &one, y, &one)


cdef double axpy_dot(
    Py_ssize_t n, double a, double* x, double* y, double* z,
) noexcept nogil:
    """y += a x; returns y' z. In blocks, so that the second pass has y in the cache."""
    cdef Py_ssize_t i = 0, size
    cdef double out = 0
    while i < n:
        size = min(n - i, <Py_ssize_t>BLOCK)
        axpy(size, a, x + i, y + i)
        out += dot(<int>size, y + i, z + i)
        i += size
    return out


cdef inline Py_ssize_t slice_of(
    Py_ssize_t start, Py_ssize_t n, Py_ssize_t cost,
) noexcept nogil:
    """Number of pieces of work, of the n - start left, until the next signal check.

    cost: operations per piece.
    """
    cdef Py_ssize_t step = OPS_BETWEEN_SIGNAL_CHECKS // (cost + 1) + 1
    return step if step < n - start else n - start


cdef inline double inner(Node* node, double* x, double* y) noexcept nogil:
    """Inner product with weight rho of intercepts; inner(w, w) is the penalty."""
    cdef double out = dot(<int>node.size, x, y)
    if node.p > node.size:
        out += node.rho * dot(<int>node.r, x + node.size, y + node.size)
    return out


cdef void rotate(Node* node, bint back, double* x, double* out) noexcept nogil:
    """out (d, r) = basis' x, or basis x if `back`."""
    cdef Py_ssize_t j = 0, d = node.d, r = node.r, step
    cdef double* basis = <double*>node.basis
    while j < d:
        step = slice_of(j, d, r * d)
        gemm(
            "N", "N" if back else "T", <int>r, <int>step, <int>d, x, <int>r,
            basis + (j * d if back else j), <int>d, out + j * r,
        )
        if over(node.watch, step * r * d):
            return
        j += step


cdef void mean_curvatures(Node* node, cython.floating* R, double* a) noexcept nogil:
    """Compute a (r,) of the metric from the residuals R = s (p - y)."""
    cdef Py_ssize_t i, k, r = node.r
    cdef double s, e
    for k in range(r):
        a[k] = 0
    for i in range(node.n):
        s = node.weight[i] * node.scale
        if s == 0:
            continue
        if over(node.watch, r):
            return
        for k in range(r):
            e = fabs(R[i * r + k])
            a[k] += e - e * e / s
    for k in range(r):
        a[k] = max(a[k] * r / (r - 1), FLOOR / r)


cdef inline double divide(
    Py_ssize_t r, const double* a, double v, double lam, double* u,
) noexcept nogil:
    """Replace u by x = (u - kappa) / (a v + lam), of sum 0; returns u' x."""
    cdef Py_ssize_t k
    cdef double x, up = 0, low = 0, out = 0
    for k in range(r):
        x = 1 / (a[k] * v + lam)
        up += u[k] * x
        low += x
    for k in range(r):
        x = (u[k] - up / low) / (a[k] * v + lam)
        out += u[k] * x
        u[k] = x
    return out


cdef double precondition(
    Node* node, double* a, double* x, double* u, bint whole,
) noexcept nogil:
    """Returns x' H0 x. x becomes H0 x if `whole`, or is destroyed. u (d, r): room."""
    cdef Py_ssize_t j, k, d = node.d, r = node.r
    cdef double* b = x + node.size
    cdef double out = 0
    if node.p > node.size:
        for k in range(r):
            b[k] /= node.unit
            for j in range(d):
                x[j * r + k] -= b[k] * node.mean[j]
        out = divide(r, a, 1.0, node.lam * node.rho / (node.unit * node.unit), b)
    rotate(node, False, x, u)
    for j in range(d):
        out += divide(r, a, node.variance[j], node.lam, u + j * r)
    if whole:
        rotate(node, True, u, x)
        if node.p > node.size:
            for k in range(r):
                for j in range(d):
                    b[k] -= x[j * r + k] * node.mean[j]
                b[k] /= node.unit
    return out


cdef void scores(
    Node* node, cython.floating* X, double* w, bint empty, cython.floating* cast,
    cython.floating* Z,
) noexcept nogil:
    """Z (n, r) = X W + b, W = 0 if `empty`. `cast` (size,): room for W."""
    cdef Py_ssize_t i = 0, k, n = node.n, r = node.r, d = node.d, step
    cdef int64_t a
    cdef cython.floating* z
    for k in range(node.size):
        cast[k] = <cython.floating>w[k]
    if empty:
        for i in range(n * r):
            Z[i] = 0
    elif node.indptr == NULL:
        while i < n:
            step = slice_of(i, n, d * r)
            if r == 1:
                gemv("T", <int>d, <int>step, X + i * d, cast, Z + i)
            else:
                gemm(
                    "N", "N", <int>r, <int>step, <int>d, cast, <int>r, X + i * d,
                    <int>d, Z + i * r,
                )
            if over(node.watch, step * d * r):
                return
            i += step
    else:
        for i in range(n):
            if over(node.watch, (node.indptr[i + 1] - node.indptr[i] + 1) * r):
                return
            z = Z + i * r
            for k in range(r):
                z[k] = 0
            for a in range(node.indptr[i], node.indptr[i + 1]):
                for k in range(r):
                    z[k] += X[a] * cast[node.index[a] * r + k]
    if node.p > node.size:
        for i in range(n):
            for k in range(r):
                Z[i * r + k] += <cython.floating>(node.unit * w[node.size + k])


cdef void gradient(
    Node* node, cython.floating* X, double* w, cython.floating* R,
    cython.floating* cast, double* g,
) noexcept nogil:
    """g (p,) of the objective at w, from the residuals R (n, r)."""
    cdef Py_ssize_t i, j = 0, k, n = node.n, r = node.r, d = node.d, step
    cdef int64_t a
    cdef double v
    cdef double* at
    if node.indptr == NULL:
        while j < r:
            step = slice_of(j, r, n * d)
            if r == 1:
                gemv("N", <int>d, <int>n, X, R, cast)
            else:  # the transpose of g: BLAS copies X and R in less time
                gemm(
                    "N", "T", <int>d, <int>step, <int>n, X, <int>d, R + j, <int>r,
                    cast + j * d,
                )
            if over(node.watch, step * n * d):
                return
            j += step
        for i in range(d):
            for k in range(r):
                g[i * r + k] = cast[k * d + i]
    else:
        for i in range(node.size):
            g[i] = 0
        for i in range(n):
            if over(node.watch, (node.indptr[i + 1] - node.indptr[i] + 1) * r):
                return
            for a in range(node.indptr[i], node.indptr[i + 1]):
                v = X[a]
                at = g + node.index[a] * r
                for k in range(r):
                    at[k] += v * R[i * r + k]
    axpy(node.size, node.lam, w, g)
    if node.p > node.size:
        at = g + node.size
        for k in range(r):
            at[k] = 0
        for i in range(n):
            for k in range(r):
                at[k] += R[i * r + k]
        for k in range(r):
            at[k] = node.unit * at[k] + node.lam * node.rho * w[node.size + k]


cdef double evaluate(
    Node* node, double* Z, cython.floating* D, double t, double* row,
    cython.floating* R, double* slope,
) noexcept nogil:
    """Mean loss at the scores Z + t D, its derivative in t, and the residuals R."""
    cdef Py_ssize_t i, k, j, r = node.r
    cdef const int64_t* bound = node.bound
    cdef double loss = 0, rise = 0, z, top, total, s, e, residual, sign
    cdef double* zi
    cdef cython.floating* di
    cdef cython.floating* ri
    for k in range(node.m):
        sign = 2 * k - 1  # the score of two outcomes is that of the second
        for i in range(bound[k], bound[k + 1]):
            s = node.weight[i] * node.scale
            zi = Z + i * r
            di = D + i * r
            ri = R + i * r
            # an exponential takes about as long as these multiplications
            if over(node.watch, 32 * r):
                return loss
            if r == 1:
                # loss log(1 + exp(-z)) of the margin z; residual = d loss / d score
                z = sign * (zi[0] + t * di[0])
                e = exp(-fabs(z))
                loss += s * (log1p(e) - min(z, 0.0))
                residual = -sign * s * (e if z > 0 else 1.0) / (1 + e)
                ri[0] = <cython.floating>residual
                rise += residual * di[0]
            elif r < NARROW:
                top = -INFINITY
                for j in range(r):
                    z = zi[j] + t * di[j]
                    if z > top:
                        top = z
                total = 0
                for j in range(r):
                    e = exp(zi[j] + t * di[j] - top)
                    ri[j] = <cython.floating>e
                    total += e
                loss += s * (log(total) + (top - (zi[k] + t * di[k])))
                total = s / total
                for j in range(r):
                    residual = total * ri[j]
                    if j == k:
                        residual -= s
                    ri[j] = <cython.floating>residual
                    rise += residual * di[j]
            else:
                if cython.floating is double:
                    top = sklstruct_move_double(r, zi, di, t, row)
                else:
                    top = sklstruct_move_float(r, zi, di, t, row)
                loss += s * (top - row[k])
                total = exp_sum(r, row, top, row)
                loss += s * log(total)
                if cython.floating is double:
                    rise += sklstruct_residual_double(r, row, s / total, di, ri)
                else:
                    rise += sklstruct_residual_float(r, row, s / total, di, ri)
                ri[k] -= <cython.floating>s
                rise -= s * di[k]
    slope[0] = rise
    return loss


cdef void bound_curvatures(
    Node* node, cython.floating* X, double* bound,
) noexcept nogil:
    """bound (d,): the largest second derivatives by a weight of each feature.

    bound[d] is the bound for the intercepts, if there are any.
    """
    cdef Py_ssize_t i, j, d = node.d
    cdef int64_t a
    cdef double s, x
    for j in range(d):
        bound[j] = node.lam
    if node.p > node.size:
        bound[d] = node.unit * node.unit / 4 + node.lam * node.rho
    for i in range(node.n):
        s = node.weight[i] * node.scale / 4
        if over(node.watch, d):
            return
        if node.indptr == NULL:
            for j in range(d):
                x = X[i * d + j]
                bound[j] += s * x * x
        else:
            for a in range(node.indptr[i], node.indptr[i + 1]):
                x = X[a]
                bound[node.index[a]] += s * x * x


cdef double promise(
    Py_ssize_t n, Py_ssize_t r, const double* g, const double* bound, double enough,
) noexcept nogil:
    """Largest promise (nats) of a weight of the first n features.

    Stops at the first promise above `enough`: most iterations need not look further.
    """
    cdef Py_ssize_t j, k
    cdef double top, most = 0
    for j in range(n):
        top = 0
        for k in range(r):
            top = max(top, fabs(g[j * r + k]))
        most = max(most, top / (2 * bound[j]) * top)
        if most > enough:
            break
    return most


cdef double begin(
    Node* node, cython.floating* X, double* w, bint empty, double* Z, double* row,
    cython.floating* D, double* ww, double* g,
) noexcept nogil:
    """The objective at w, and the scores Z, the squared norm ww, the gradient g.

    empty: all weights are 0, so that the scores are the intercepts.
    """
    cdef Py_ssize_t i
    cdef double f, slope
    cdef cython.floating* R = D + node.n * node.r
    cdef cython.floating* cast = R + node.n * node.r
    scores(node, X, w, empty, cast, D)
    for i in range(node.n * node.r):
        Z[i] = D[i]
    ww[0] = inner(node, w, w)
    f = evaluate(node, Z, D, 0.0, row, R, &slope) + 0.5 * node.lam * ww[0]
    gradient(node, X, w, R, cast, g)
    return f


cdef int descend(
    Node* node, cython.floating* X, double* w, double* zero, double tol,
    Py_ssize_t max_iter, double* work, cython.floating* fwork, Py_ssize_t* n_iter,
) noexcept nogil:
    """0: converged, 1: max_iter reached, 2: not finite, 3: no step found, 4: stopped.

    zero: W = 0 with its best intercepts, to which `tol` refers; NULL: w is this point.
    """
    cdef Py_ssize_t n = node.n, r = node.r, p = node.p
    cdef double limit, most
    cdef double* g = work
    cdef double* step = g + p
    cdef double* bound = step + p
    cdef double* S = bound + p // r
    cdef double* Y = S + HISTORY * p
    cdef double* room = Y + HISTORY * p
    cdef double* share = room + node.size
    cdef double* row = share + r
    cdef double* Z = row + r
    cdef cython.floating* D = fwork
    cdef cython.floating* R = D + n * r
    cdef cython.floating* cast = R + n * r
    cdef double[HISTORY] rho, alpha
    cdef double f, f_old, slope, slope_old, wd, dd, ww, t, low, high
    cdef double sy, a, gamma = 1.0, gg
    # The pairs oldest, ..., pairs - 1 are kept, pair q in place q modulo HISTORY.
    cdef Py_ssize_t it, i, k, q, oldest = 0, pairs = 0, _trial
    cdef bint fresh, restarted = False

    bound_curvatures(node, X, bound)
    f = begin(node, X, w if zero == NULL else zero, True, Z, row, D, &ww, g)
    limit = tol * tol * max(promise(node.d, r, g, bound, INFINITY), LEAST)
    if zero != NULL:
        f = begin(node, X, w, False, Z, row, D, &ww, g)
    if node.basis != NULL:
        mean_curvatures(node, R, share)
    for it in range(max_iter + 1):
        n_iter[0] = it
        if over(node.watch, 0):
            return 4
        gg = dot(<int>p, g, g)
        if not (isfinite(f) and isfinite(gg)):
            return 2
        # never exactly 0: rounding leaves small promises even if X has no information
        if promise(p // r, r, g, bound, limit) <= limit:
            if node.basis == NULL:
                return 0
            memcpy(step, g, p * sizeof(double))
            a = gamma * precondition(node, share, step, room, False) / 2
            if not a > EXPECTED * tol:
                return 0
        if it == max_iter:
            return 1
        # direction: two loops over the stored pairs
        for i in range(p):
            step[i] = -g[i]
        a = dot(<int>p, step, S + (pairs - 1) % HISTORY * p if pairs > oldest else g)
        for q in range(pairs - 1, oldest - 1, -1):
            over(node.watch, 4 * p)
            k, i = q % HISTORY, (q - 1) % HISTORY
            alpha[k] = rho[k] * a
            a = axpy_dot(p, -alpha[k], Y + k * p, step, S + i * p if q > oldest else g)
        if node.basis != NULL:
            precondition(node, share, step, room, True)
        if pairs > oldest:
            for i in range(p):
                step[i] *= gamma
        slope_old = dot(<int>p, step, Y + oldest % HISTORY * p if pairs > oldest else g)
        for q in range(oldest, pairs):
            k, i = q % HISTORY, (q + 1) % HISTORY
            a = alpha[k] - rho[k] * slope_old
            slope_old = axpy_dot(
                p, a, S + k * p, step, Y + i * p if q < pairs - 1 else g,
            )
        if not (slope_old < 0 and isfinite(slope_old)):
            oldest, node.basis = pairs, NULL
        fresh = pairs == oldest and node.basis == NULL
        if fresh:
            # The Hessian is at most d times its diagonal, so this step descends for
            # every scale of the features. A longer step may not descend; a line search
            # that only doubled the step takes 37 iterations on isolet, this one 31.
            for i in range(p):
                step[i] = -g[i] / (bound[i // r] * (node.d + 1))
            slope_old = dot(<int>p, step, g)
        scores(node, X, step, False, cast, D)
        wd = inner(node, w, step)
        dd = inner(node, step, step)
        # weak Wolfe by bisection; the trial steps need no product with X
        t, low, high, f_old = 1.0, 0.0, INFINITY, f
        for _trial in range(TRIALS):
            if over(node.watch, 0):
                return 4
            f = evaluate(node, Z, D, t, row, R, &slope)
            f += 0.5 * node.lam * (ww + t * (2 * wd + t * dd))
            slope += node.lam * (wd + t * dd)
            # not (<=): a score that overflowed makes f nan, and the step shrinks
            if not f <= f_old + 1e-4 * t * slope_old:
                high = t
            elif slope < 0.9 * slope_old:
                low = t
            else:
                break
            if high == INFINITY:  # a first step grows to the root of the slope's secant
                a = slope_old / (slope_old - slope) if fresh else 2.0
                t *= max(2.0, min(100.0, a))
            else:
                t = 0.5 * (low + high)
        else:
            # rounding errors exceed the descent: restart from the gradient, then stop
            if not fresh:
                # first without the pairs, then without the metric
                if pairs == oldest:
                    node.basis = NULL
                oldest, f = pairs, f_old
                continue
            return 3 if promise(p // r, r, g, bound, STALLED) > STALLED else 0
        for i in range(n * r):
            Z[i] += t * D[i]
        ww += t * (2 * wd + t * dd)
        k = pairs % HISTORY
        oldest = max(oldest, pairs - (HISTORY - 1))
        for i in range(p):
            S[k * p + i] = t * step[i]
            w[i] += S[k * p + i]
            Y[k * p + i] = -g[i]
        gradient(node, X, w, R, cast, g)
        axpy(p, 1.0, g, Y + k * p)
        sy = dot(<int>p, S + k * p, Y + k * p)
        # a bound relative to the descent; one relative to Y depends on the scale of X
        if sy > -1e-12 * t * slope_old:
            rho[k] = 1.0 / sy
            gamma = sy / dot(<int>p, Y + k * p, Y + k * p)
            if node.basis != NULL:
                if (it + 1) & it == 0:
                    mean_curvatures(node, R, share)
                memcpy(step, Y + k * p, p * sizeof(double))
                gamma = sy / precondition(node, share, step, room, False)
            pairs += 1
        # scikit-learn's limit for its own solvers: 64 ulp of the objective
        if f_old - f <= 64 * 2.220446049250313e-16 * max(fabs(f_old), fabs(f), 1.0):
            # rounding may have damaged the pairs: restart once from the gradient
            most = promise(p // r, r, g, bound, STALLED)
            if restarted or most <= STALLED:
                n_iter[0] = it + 1
                return 3 if most > STALLED else 0
            restarted, oldest, node.basis = True, pairs, NULL
    return 1


def minimise(
    const cython.floating[::1] X, const int32_t[::1] index, const int64_t[::1] indptr,
    const int64_t[::1] bound, const double[::1] weight, double[::1] w,
    double[::1] zero, double C, double constant, double tol, Py_ssize_t max_iter,
    const double[:, ::1] basis, const double[::1] variance, const double[::1] mean,
    double[::1] work, cython.floating[::1] fwork, int32_t[::1] stop,
):
    """Fit a node: w (p,) in place; returns (iterations, status).

    X: (n d,) numbers, or the numbers of a CSR matrix with `index` and `indptr`. bound:
    the first sample of each outcome, and the number of samples. w: weights (d, r), then
    intercepts divided by unit. zero: the point of weights 0 to which `tol` refers;
    None: w is this point.
    constant: value of the feature whose weight is the intercept; 0: no intercepts, inf:
    they are not penalised. basis, variance, mean: eigenvectors (d, d) and eigenvalues
    (d,) of the second moment of dense features, and their mean; None: the metric is
    diagonal. work: (2 MEMORY + 3) p + p / r + (n + 2) r; fwork: 2 n r + p.
    """
    cdef Watch watch = watch_of(stop)
    cdef Node node
    cdef Py_ssize_t i, n_iter = 0
    cdef int status
    cdef cython.floating* x = <cython.floating*>&X[0] if X.shape[0] else NULL
    node.bound, node.weight, node.watch = &bound[0], &weight[0], &watch
    node.indptr, node.index = NULL, NULL
    if indptr is not None:
        node.indptr = &indptr[0]
        if index.shape[0]:
            node.index = &index[0]
    node.basis = NULL
    if basis is not None:
        node.basis, node.variance, node.mean = &basis[0, 0], &variance[0], &mean[0]
    node.n, node.m, node.p = weight.shape[0], bound.shape[0] - 1, w.shape[0]
    node.r = 1 if node.m == 2 else node.m
    node.size = node.p - (node.r if constant > 0 else 0)
    node.d = node.size // node.r
    node.unit = min(constant, 1.0) if constant > 0 else 1.0
    node.rho = (node.unit / constant) ** 2 if constant > 0 else 0.0
    node.scale = 0
    for i in range(node.n):
        node.scale += weight[i]
    node.scale = 1 / node.scale
    node.lam = node.scale / C
    with nogil:
        status = descend(
            &node, x, &w[0], &zero[0] if zero is not None else NULL, tol, max_iter,
            &work[0], &fwork[0], &n_iter,
        )
    propagate()
    return n_iter, status
