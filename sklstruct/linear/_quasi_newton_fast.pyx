"""Multinomial logistic regressions of many nodes in one call, by L-BFGS.

The samples of every node are one range of rows of X, and those of each of its
outcomes a sub-range: X is sorted by the leaf order of the tree, once, and no node
copies anything. Node v minimises

    (1 / S) sum_i s_i loss(i) + (1 / (2 C S)) (||W||^2 + rho ||b||^2),  S = sum_i s_i,

scikit-learn's objective divided by C S, rho = 0 where intercepts are not penalised.
Two outcomes have one weight vector (logit of the second outcome), m > 2 outcomes have
m. Samples may have weight 0, but not all of an outcome.

An intercept that is penalised as the weight of a feature of value a has rho = 1 / a^2.
The unknown is b / unit with unit = min(1, a): neither a small nor a large a then makes
curvatures of other sizes than those of the features.

Weight j alone lowers the objective by g_j^2 / (2 h_j) at least, h_j the bound of its
second derivative, sum_i s_i x_ij^2 / (4 S) + lam. A node is done when the largest such
promise is at most tol^2 times that of the weights at W = 0 (with the intercepts of
`start`). The gradient itself depends on the scales of the features: a column of large
numbers would hide the others.

One iteration needs two products with X, whatever the number of trial steps: scores
are linear along a direction d, so X d is made once and every trial step costs
O(n r), r the number of weight vectors; the other product is the gradient. The line
search is the bisection for the weak Wolfe conditions (Lewis and Overton), which
keeps the L-BFGS metric positive definite.

Start metric. L-BFGS starts from a multiple of the identity or, where the caller hands
over moments of the features (`_quasi_newton` says when), from the inverse H0 of

    H(a) = (diag(a) - a a' / sum(a)) (x) M + lam I,       lam = 1 / (C S),

which is the Hessian where every sample has the probabilities a, so at W = 0, where they
are the shares of the outcomes; M is the second moment of the features. An intercept
turns M into the covariance: in b + W mean in place of b the Hessian is block-diagonal,
so that gradients (g_w - g_b mean', g_b) are mapped to steps (s_w, s_b - s_w mean). In
M's eigenbasis, variances v_j, it falls apart into one r x r matrix for each j, whose
solution for a right-hand side u that sums to zero also does: x = (u - kappa a) / (a v_j
+ lam), kappa such that sum x = 0. That is Sherman and Morrison's formula without its
differences of almost equal numbers. The gradient sums to zero but for rounding (and for
a start that does not, in which direction any positive value does). In general a_k is
mean(p_k (1 - p_k)) / (1 - mean(p_k)) over samples, taken at the start and after 1, 2,
4, 8 ... iterations, and H0 is multiplied by the usual scalar s'y / y'H0 y. Both matter:
with the first a throughout and no scalar, separable data needs several times the
iterations. Separate variances for every outcome, sum_i p (1 - p) (x_i q_j)², save
iterations on few data sets only, for another product with X. An iteration costs three
products of r d d more, beside 2 n d r; memory 2 r d.

With a penalty of the intercepts the mean that is taken out is a part of the mean, and M
the moment that is left (`_quasi_newton`).

With this metric the gradient of a model that separates the samples may fall below tol
everywhere while the loss can still fall along the small eigenvalues. The iteration
therefore continues while g'H0 g / 2, the expected decrease, exceeds tol nats.

Sparse X: the columns that a node's samples use are numbered locally, because the
weights of all others are zero at the optimum. A node of few samples then costs its
non-zeros and not the width of X.

Cost of a node with n samples and r vectors: O(iterations n d r) (dense) or
O(iterations nnz r); memory O(n r + 2 MEMORY d r). Exponentials of 10 outcomes and more
go through the loops of `_softmax.h`.
"""

cimport cython
from libc.math cimport INFINITY, exp, fabs, isfinite, log, log1p
from libc.stdint cimport int32_t, int64_t

from ._blas cimport daxpy, dot, gemm, gemv
from .._watch cimport OPS_BETWEEN_SIGNAL_CHECKS, Watch, over, propagate, watch_of

cdef extern from "_softmax.h" nogil:
    double sklstruct_exp_sum(
        Py_ssize_t n, const double* u, double top, double* e) noexcept
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
    # Weight vectors below which the row passes of _softmax.h cost more than one loop
    # over libm's exp.
    NARROW = 10

# If no step descends and the loss could still fall by less (nats), rounding is the
# cause and the node has converged; else the scales of the features are the cause.
cdef double STALLED = 1e-6

# Least `promise` at the start, in nats, that a tolerance refers to.
cdef double LEAST = 1e-6

# Largest decrease of the mean loss that the metric expects at the end, in units of tol.
cdef double EXPECTED = 1

# Least curvature of an outcome, as a part of its share.
cdef double FLOOR = 1e-3

MEMORY = HISTORY  # pairs (step, change of gradient) that L-BFGS keeps


cdef inline void axpy(Py_ssize_t n, double a, double* x, double* y) noexcept nogil:
    cdef int size = <int>n, one = 1
    daxpy(&size, &a, x, &one, y, &one)


cdef void dense_scores(
    cython.floating* X, Py_ssize_t n, Py_ssize_t d, Py_ssize_t r,
    cython.floating* W, cython.floating* Z,
) noexcept nogil:
    """Z (n, r) = X W', W (r, d); all row-major, so BLAS sees the transposes."""
    if r == 1:
        gemv("T", <int>d, <int>n, X, W, 1, Z)
    else:
        gemm("T", "N", <int>r, <int>n, <int>d, W, <int>d, X, <int>d, Z)


cdef void dense_gradient(
    cython.floating* X, Py_ssize_t n, Py_ssize_t d, Py_ssize_t r,
    cython.floating* R, Py_ssize_t stride, cython.floating* G,
) noexcept nogil:
    """G (r, d) = R' X, R (n, r) with rows `stride` numbers apart."""
    if r == 1:
        gemv("N", <int>d, <int>n, X, R, <int>stride, G)
    else:
        gemm("N", "T", <int>d, <int>r, <int>n, X, <int>d, R, <int>stride, G)


cdef inline Py_ssize_t least(Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    return a if a < b else b


cdef inline Py_ssize_t slice_of(Py_ssize_t n, Py_ssize_t cost) noexcept nogil:
    """Number of equal pieces of work to do between two checks for signals."""
    cdef Py_ssize_t step = OPS_BETWEEN_SIGNAL_CHECKS // (cost + 1) + 1
    return step if step < n else n


cdef struct LogisticNode:
    const int64_t* bound  # of the outcomes: rows of X
    const double* weight  # of all rows of X
    double tol
    Py_ssize_t max_iter
    Watch* watch
    Py_ssize_t n          # samples
    Py_ssize_t d          # columns (local ones if sparse)
    Py_ssize_t r          # weight vectors
    Py_ssize_t m          # outcomes
    Py_ssize_t size       # penalised entries, r d
    Py_ssize_t p          # all entries: r d, then r intercepts
    bint intercept
    double unit           # of the intercepts
    double rho            # penalty of an intercept, in its unit; that of a weight is 1
    double lam            # 1 / (C S)
    double scale          # 1 / S


cdef inline double inner(LogisticNode* node, double* x, double* y) noexcept nogil:
    """The product whose square is the penalty."""
    cdef double out = dot(<int>node.size, x, y)
    if node.intercept:
        out += node.rho * dot(<int>node.r, x + node.size, y + node.size)
    return out


cdef struct Sparse:
    const int64_t* indptr   # of the node's rows; entries relative to `base`
    const int32_t* index    # local columns
    int64_t base


cdef struct Metric:
    const double* basis      # (d, d), its columns: directions of the features
    const double* variance   # (d,) of the features along them, >= 0
    const double* mean       # (d,) of the features; 0 without intercept
    double* share            # (r,) of the weight, by outcome
    double* mean_p           # (r,) mean probabilities
    double* curvature        # (r,) a
    double* inverse          # (r, d) 1 / (a v + lam)
    double* total            # (d,) its sums over outcomes
    double* rotated          # (r, d) room
    double* sums             # (2, d) room


cdef inline void rotate(
    LogisticNode* node, char* transpose, const double* basis, double* x, double* out,
) noexcept nogil:
    """out (r, d) = x (r, d) basis ("N") or x basis' ("T")."""
    cdef int d = <int>node.d, r
    cdef Py_ssize_t k = 0, step = slice_of(node.r, node.d * node.d)
    while k < node.r:
        r = <int>least(step, node.r - k)
        gemm(transpose, "N", d, r, d, <double*>basis, d, x + k * d, d, out + k * d)
        if over(node.watch, r * node.d * node.d):
            return
        k += step


cdef void update_inverse(LogisticNode* node, Metric* metric) noexcept nogil:
    """Compute `inverse` and `total` from the curvatures."""
    cdef Py_ssize_t j, k, d = node.d
    cdef double a
    cdef double* inverse
    for j in range(d):
        metric.total[j] = 0
    for k in range(node.r):
        a = metric.curvature[k]
        inverse = metric.inverse + k * d
        for j in range(d):
            inverse[j] = 1 / (a * metric.variance[j] + node.lam)
            metric.total[j] += inverse[j]


cdef void update_metric(
    LogisticNode* node, Metric* metric, cython.floating* R,
) noexcept nogil:
    """The metric of the probabilities p that left the residuals R = s (p - y).

    If all samples have the same p, a is p. FLOOR keeps the metric positive if all
    samples have a probability near 0 or 1 of an outcome.
    """
    cdef Py_ssize_t i, k, r = node.r
    cdef double each, e
    cdef double* a = metric.curvature
    cdef double* mean = metric.mean_p
    cdef cython.floating* ri
    for k in range(r):
        a[k] = 0
        mean[k] = metric.share[k]
    for i in range(node.n):
        each = node.weight[node.bound[0] + i] * node.scale
        if each == 0:
            continue
        each = 1 / each
        ri = R + i * r
        if over(node.watch, r):
            return
        for k in range(r):
            e = fabs(ri[k])
            a[k] += e - e * e * each
            mean[k] += ri[k]
    for k in range(r):
        e = max(1 - mean[k], 1e-12)
        a[k] = max(a[k] / e, FLOOR * metric.share[k])
    update_inverse(node, metric)


cdef double precondition(
    LogisticNode* node, Metric* metric, double* x, bint whole,
) noexcept nogil:
    """x' H0 x; x becomes H0 x, or without `whole` is destroyed."""
    cdef Py_ssize_t j, k, d = node.d, r = node.r
    cdef double* b = x + node.size
    cdef double* u = metric.rotated
    cdef double* inverse
    cdef double* total = metric.total
    cdef double* mean = metric.sums
    cdef double* kappa = mean + d
    cdef double a, new, penalty, out = 0, lam = node.lam, mean_b = 0
    if node.intercept:
        for k in range(r):
            b[k] /= node.unit
            axpy(d, -b[k], <double*>metric.mean, x + k * d)
            mean_b += b[k] / r
    rotate(node, "N", metric.basis, x, u)
    for j in range(d):
        mean[j] = kappa[j] = 0
    for k in range(r):
        inverse = metric.inverse + k * d
        for j in range(d):
            mean[j] += u[k * d + j]
            kappa[j] += u[k * d + j] * inverse[j]
    for j in range(d):
        mean[j] /= r
        # sum_k a / (a v + lam) times v; 0 where v = 0
        a = r - lam * total[j]
        kappa[j] = (kappa[j] - mean[j] * total[j]) / a if a > 0 else 0.0
    for k in range(r):
        inverse = metric.inverse + k * d
        for j in range(d):
            new = (u[k * d + j] - mean[j]) * inverse[j]
            new += mean[j] * total[j] / r - kappa[j] * (1 - lam * inverse[j])
            out += new * u[k * d + j]
            u[k * d + j] = new
    if node.intercept:
        new = 0
        penalty = lam * node.rho / (node.unit * node.unit)
        for k in range(r):
            a = b[k] - mean_b
            b[k] = a / (metric.curvature[k] + penalty)
            out += a * b[k]
            new += b[k] / r
        for k in range(r):
            b[k] -= new
    if whole:
        rotate(node, "T", metric.basis, u, x)
        if node.intercept:
            for k in range(r):
                b[k] = (b[k] - dot(<int>d, x + k * d, <double*>metric.mean)) / node.unit
    return out


cdef void scores(
    LogisticNode* node, cython.floating* X, Sparse* sparse, double* w,
    cython.floating* cast, cython.floating* Z,
) noexcept nogil:
    """Z = X W' + b. Layout of w: dense (r, d), sparse (d, r); then intercepts."""
    cdef Py_ssize_t i, k, n = node.n, r = node.r, d = node.d, step
    cdef int64_t a
    cdef cython.floating v
    cdef double* at
    cdef cython.floating* z
    cdef cython.floating* wf
    if sparse == NULL:
        if cython.floating is double:
            wf = w
        else:
            for i in range(node.size):
                cast[i] = <cython.floating>w[i]
            wf = cast
        step = slice_of(n, d * r)
        i = 0
        while i < n:
            dense_scores(X + i * d, least(step, n - i), d, r, wf, Z + i * r)
            if over(node.watch, least(step, n - i) * d * r):
                return
            i += step
    else:
        for i in range(n):
            if over(node.watch, (sparse.indptr[i + 1] - sparse.indptr[i] + 1) * r):
                return
            z = Z + i * r
            for k in range(r):
                z[k] = 0
            for a in range(sparse.indptr[i], sparse.indptr[i + 1]):
                v = X[a]
                at = w + <Py_ssize_t>sparse.index[a - sparse.base] * r
                for k in range(r):
                    z[k] += v * <cython.floating>at[k]
    if node.intercept:
        for i in range(n):
            for k in range(r):
                Z[i * r + k] += <cython.floating>(node.unit * w[node.size + k])


cdef void gradient(
    LogisticNode* node, cython.floating* X, Sparse* sparse, double* w,
    cython.floating* R, cython.floating* cast, double* g,
) noexcept nogil:
    cdef Py_ssize_t i, k, n = node.n, r = node.r, d = node.d, step
    cdef int64_t a
    cdef double v
    cdef double* at
    cdef cython.floating* z
    if sparse == NULL:
        step = slice_of(r, n * d)
        k = 0
        while k < r:
            if cython.floating is double:
                dense_gradient(X, n, d, least(step, r - k), R + k, r, g + k * d)
            else:
                dense_gradient(X, n, d, least(step, r - k), R + k, r, cast + k * d)
            if over(node.watch, n * d * least(step, r - k)):
                return
            k += step
        if cython.floating is float:
            for i in range(node.size):
                g[i] = cast[i]
    else:
        for i in range(node.size):
            g[i] = 0
        for i in range(n):
            if over(node.watch, (sparse.indptr[i + 1] - sparse.indptr[i] + 1) * r):
                return
            z = R + i * r
            for a in range(sparse.indptr[i], sparse.indptr[i + 1]):
                v = X[a]
                at = g + <Py_ssize_t>sparse.index[a - sparse.base] * r
                for k in range(r):
                    at[k] += v * z[k]
    axpy(node.size, node.lam, w, g)
    if node.intercept:
        for k in range(r):
            g[node.size + k] = 0
        for i in range(n):
            for k in range(r):
                g[node.size + k] += R[i * r + k]
        for k in range(r):
            v = node.lam * node.rho * w[node.size + k]
            g[node.size + k] = node.unit * g[node.size + k] + v


cdef double evaluate(
    LogisticNode* node, double* Z, cython.floating* D, double t, double* row,
    cython.floating* R, double* slope,
) noexcept nogil:
    """Mean loss at the scores Z + t D, its derivative in t, and the residuals R."""
    cdef Py_ssize_t i, k, j, r = node.r
    cdef const int64_t* bound = node.bound
    cdef const double* weight = node.weight
    cdef Py_ssize_t first = bound[0]
    cdef double loss = 0, rise = 0, z, top, total, s, e, residual
    cdef double* zi
    cdef cython.floating* di
    cdef cython.floating* ri
    for k in range(node.m):
        for i in range(bound[k] - first, bound[k + 1] - first):
            s = weight[first + i] * node.scale
            zi = Z + i * r
            di = D + i * r
            ri = R + i * r
            # an exponential takes about as long as these multiplications
            if over(node.watch, 32 * r):
                return loss
            if r == 1:
                z = zi[0] + t * di[0]
                # loss log(1 + exp(-u)) of the margin u; residual = d loss / d z
                if k == 0:
                    z = -z
                if z > 0:
                    e = exp(-z)
                    loss += s * log1p(e)
                    residual = -s * e / (1 + e)
                else:
                    e = exp(z)
                    loss += s * (log1p(e) - z)
                    residual = -s / (1 + e)
                if k == 0:
                    residual = -residual
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
                total = sklstruct_exp_sum(r, row, top, row)
                loss += s * log(total)
                if cython.floating is double:
                    rise += sklstruct_residual_double(r, row, s / total, di, ri)
                else:
                    rise += sklstruct_residual_float(r, row, s / total, di, ri)
                ri[k] -= <cython.floating>s
                rise -= s * di[k]
    slope[0] = rise
    return loss


cdef double steepest_step(
    LogisticNode* node, cython.floating* D, double slope, double dd,
) noexcept nogil:
    """A step along a direction with scores D that is certain to descend.

    The second derivative of a sample's loss along D is the variance of its scores
    under the model's probabilities, at most a quarter of their squared range.
    """
    cdef Py_ssize_t i, k, r = node.r
    cdef double low, high, d, curvature = node.lam * dd
    for i in range(node.n):
        low = high = D[i * r] if r > 1 else 0.0
        for k in range(r):
            d = D[i * r + k]
            low, high = min(low, d), max(high, d)
        curvature += (
            node.weight[node.bound[0] + i] * node.scale * (high - low) * (high - low)
            / 4
        )
    return -slope / curvature if curvature > 0 else 1.0


cdef void bound_curvatures(
    LogisticNode* node, cython.floating* X, Sparse* sparse, double* bound,
) noexcept nogil:
    """bound (d,): the largest second derivative by a weight of each feature."""
    cdef Py_ssize_t i, j, n = node.n, d = node.d
    cdef int64_t a
    cdef double s, x
    for j in range(d):
        bound[j] = node.lam
    for i in range(n):
        s = node.weight[node.bound[0] + i] * node.scale / 4
        if over(node.watch, d):
            return
        if sparse == NULL:
            for j in range(d):
                x = X[i * d + j]
                bound[j] += s * x * x
        else:
            for a in range(sparse.indptr[i], sparse.indptr[i + 1]):
                x = X[a]
                bound[sparse.index[a - sparse.base]] += s * x * x


cdef double promise(
    LogisticNode* node, bint by_feature, double* g, double* bound,
) noexcept nogil:
    """Largest decrease (nats) that a single weight promises.

    by_feature: g is (d, r).
    """
    cdef Py_ssize_t i, width = node.r if by_feature else node.d
    cdef double most = 0, h
    for i in range(node.size):
        h = bound[i // width if by_feature else i % width]
        most = max(most, g[i] / (2 * h) * g[i])
    return most


cdef double promise_of_intercepts(LogisticNode* node, double* g) noexcept nogil:
    cdef Py_ssize_t k
    cdef double most = 0, gj
    cdef double bound = node.unit * node.unit / 4 + node.lam * node.rho
    if node.intercept:
        for k in range(node.r):
            gj = g[node.size + k]
            most = max(most, gj / (2 * bound) * gj)
    return most


cdef int minimise(
    LogisticNode* node, cython.floating* X, Sparse* sparse, double* w, Metric* metric,
    double* bound, double first, double* work, cython.floating* fwork, int* n_iter,
) noexcept nogil:
    """0: converged, 1: max_iter reached, 2: not finite, 3: no step found, 4: stopped.

    metric: NULL for a multiple of the identity. bound: of `bound_curvatures`. first:
    `promise` of the weights at W = 0; negative: w is this.
    work: p (2 HISTORY + 2) + r + n r doubles; fwork: 2 n r + size.
    """
    cdef Py_ssize_t n = node.n, r = node.r, p = node.p
    cdef double tol = node.tol, most, most_b
    cdef double* g = work
    cdef double* step = g + p
    cdef double* S = step + p
    cdef double* Y = S + HISTORY * p
    cdef double* row = Y + HISTORY * p
    cdef double* Z = row + r
    cdef cython.floating* D = fwork
    cdef cython.floating* R = D + n * r
    cdef cython.floating* cast = R + n * r
    cdef double[HISTORY] rho, alpha
    cdef double f, f_old, slope, slope_old, data, wd, dd, ww, t, low, high
    cdef double sy, yy, a, gamma = 1.0, gg
    cdef Py_ssize_t it, i, k, q, stored = 0, last = -1, _trial
    cdef bint fresh, plain = metric == NULL
    cdef Py_ssize_t max_iter = node.max_iter

    scores(node, X, sparse, w, cast, D)
    for i in range(n * r):
        Z[i] = D[i]
    ww = inner(node, w, w)
    f = evaluate(node, Z, D, 0.0, row, R, &data) + 0.5 * node.lam * ww
    if not plain:
        update_metric(node, metric, R)
    gradient(node, X, sparse, w, R, cast, g)
    for it in range(max_iter + 1):
        n_iter[0] = <int>it
        if over(node.watch, 0):
            return 4
        most = promise(node, sparse != NULL, g, bound)
        most_b = promise_of_intercepts(node, g)
        if first < 0:
            first = most
        gg = dot(<int>p, g, g)
        if not (isfinite(f) and isfinite(gg)):
            return 2
        # rounding leaves something where X says nothing
        if max(most, most_b) <= tol * tol * max(first, LEAST):
            if plain:
                return 0
            for i in range(p):
                step[i] = g[i]
            a = gamma * precondition(node, metric, step, False) / 2
            if not a > EXPECTED * tol:
                return 0
        if it == max_iter:
            return 1
        # direction: two loops over the stored pairs
        for i in range(p):
            step[i] = -g[i]
        for q in range(stored):
            over(node.watch, 4 * p)
            k = (last - q + HISTORY) % HISTORY
            alpha[k] = rho[k] * dot(<int>p, S + k * p, step)
            axpy(p, -alpha[k], Y + k * p, step)
        if not plain:
            precondition(node, metric, step, True)
        if stored > 0:
            for i in range(p):
                step[i] *= gamma
        for q in range(stored - 1, -1, -1):
            k = (last - q + HISTORY) % HISTORY
            a = rho[k] * dot(<int>p, Y + k * p, step)
            axpy(p, alpha[k] - a, S + k * p, step)
        slope_old = dot(<int>p, step, g)
        if stored == 0 and not (slope_old < 0 and isfinite(slope_old)):
            plain = True
        fresh = stored == 0 and plain or not (slope_old < 0 and isfinite(slope_old))
        if fresh:
            # a unit vector: X g may overflow float32
            stored = 0
            slope_old = -(gg ** 0.5)
            for i in range(p):
                step[i] = g[i] / slope_old
        scores(node, X, sparse, step, cast, D)
        wd = inner(node, w, step)
        dd = inner(node, step, step)
        # weak Wolfe by bisection; the trial steps need no product with X
        t = 1.0
        if fresh:
            t = steepest_step(node, D, slope_old, dd)
        low, high, f_old = 0.0, INFINITY, f
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
            t = 2 * t if high == INFINITY else 0.5 * (low + high)
        else:
            # rounding hides the descent: restart once from the gradient, then stop
            if not fresh:
                # first without the pairs, then without the metric
                plain = plain or stored == 0
                stored = 0
                f = evaluate(node, Z, D, 0.0, row, R, &data)
                f += 0.5 * node.lam * ww
                continue
            return 3 if max(most, most_b) > STALLED else 0
        for i in range(n * r):
            Z[i] += t * D[i]
        ww += t * (2 * wd + t * dd)
        last = (last + 1) % HISTORY
        for i in range(p):
            S[last * p + i] = t * step[i]
            w[i] += S[last * p + i]
            Y[last * p + i] = -g[i]
        gradient(node, X, sparse, w, R, cast, g)
        axpy(p, 1.0, g, Y + last * p)
        sy = dot(<int>p, S + last * p, Y + last * p)
        yy = dot(<int>p, Y + last * p, Y + last * p)
        # relative to the descent: relative to yy it would depend on the scale of X
        if sy > -1e-12 * t * slope_old and yy > 0:
            rho[last] = 1.0 / sy
            gamma = sy / yy
            if not plain:
                if (it + 1) & it == 0:
                    update_metric(node, metric, R)
                for i in range(p):
                    step[i] = Y[last * p + i]
                a = sy / precondition(node, metric, step, False)
                if a > 0 and isfinite(a):
                    gamma = a
                else:
                    plain = True
            stored = min(stored + 1, <Py_ssize_t>HISTORY)
        else:
            last = (last - 1 + HISTORY) % HISTORY
            stored = min(stored, <Py_ssize_t>(HISTORY - 1))
        # scikit-learn's limit for its own solvers: 64 ulp of the objective
        if f_old - f <= 64 * 2.220446049250313e-16 * max(fabs(f_old), fabs(f), 1.0):
            n_iter[0] = <int>(it + 1)
            most = promise(node, sparse != NULL, g, bound)
            most_b = promise_of_intercepts(node, g)
            return 3 if max(most, most_b) > STALLED else 0
    return 1


cdef void start(LogisticNode* node, double* w) noexcept nogil:
    """Zero weights, and the optimal intercepts for them if they are not penalised."""
    cdef Py_ssize_t i, k
    cdef double s, mean = 0
    for i in range(node.p):
        w[i] = 0
    if not node.intercept or node.rho > 0:
        return
    for k in range(node.m):
        s = 0
        for i in range(node.bound[k], node.bound[k + 1]):
            s += node.weight[i]
        if node.r == 1:
            w[node.size] += log(s) if k else -log(s)
        else:
            w[node.size + k] = log(s)
            mean += log(s) / node.m
    if node.r > 1:
        for k in range(node.m):
            w[node.size + k] -= mean


cdef double steepness(
    LogisticNode* node, cython.floating* X, Sparse* sparse, double* w, double* bound,
    double* work, cython.floating* fwork,
) noexcept nogil:
    """`promise` of the weights at W = 0; w is overwritten."""
    cdef Py_ssize_t i, k, n = node.n, r = node.r
    cdef double slope
    cdef double* g = work
    cdef double* row = g + node.p
    cdef double* Z = row + r
    cdef cython.floating* D = fwork
    cdef cython.floating* R = D + n * r
    start(node, w)
    for i in range(n):
        for k in range(r):
            Z[i * r + k] = node.unit * w[node.size + k] if node.intercept else 0.0
            D[i * r + k] = 0
    evaluate(node, Z, D, 0.0, row, R, &slope)
    gradient(node, X, sparse, w, R, R + n * r, g)
    return promise(node, sparse != NULL, g, bound)


cdef class SortedSamples:
    """The samples of all nodes, sorted by the leaf order of the tree.

    X: C-contiguous (n, d) array, or (data, indices, indptr) of a CSR matrix with d
    columns, indices int32 and indptr int64. Outcome k of node v has the rows
    bounds[ptr[v] + k] ... bounds[ptr[v] + k + 1]; its weight vectors are the rows
    row_ptr[v] ... of coef.
    """
    cdef void* X
    cdef const int32_t* index
    cdef const int64_t* indptr
    cdef const double* weight
    cdef const int64_t* bounds
    cdef const int64_t* ptr
    cdef const int64_t* row_ptr
    cdef Py_ssize_t d
    cdef object keep

    def __init__(
        self, X, Py_ssize_t d, const double[::1] weight, const int64_t[::1] bounds,
        const int64_t[::1] ptr, const int64_t[::1] row_ptr,
    ):
        cdef const double[::1] wide
        cdef const float[::1] narrow
        cdef const int32_t[::1] index
        cdef const int64_t[::1] indptr
        self.keep = X, weight, bounds, ptr, row_ptr
        self.d = d
        self.index, self.indptr = NULL, NULL
        if isinstance(X, tuple):
            data, index, indptr = X
            self.indptr = &indptr[0]
            self.index = &index[0] if index.shape[0] else NULL
        else:
            data = X.reshape(-1)
        self.X = NULL
        if data.shape[0] and data.dtype == "float32":
            narrow = data
            self.X = <void*>&narrow[0]
        elif data.shape[0]:
            wide = data
            self.X = <void*>&wide[0]
        self.weight = &weight[0] if weight.shape[0] else NULL
        self.bounds = &bounds[0] if bounds.shape[0] else NULL
        self.ptr, self.row_ptr = &ptr[0], &row_ptr[0]


cdef class LbfgsTask:
    """C (n_nodes,), the options of the solver, and the flag that stops all threads; and
    arrays to fill: coef (n_rows, d), intercept (n_rows,), n_iter and status (n_nodes,).

    constant: value of the feature whose weight is the intercept; 0: no intercepts, inf:
    they are not penalised. warm: whether the arrays hold a start.
    """
    cdef const double[::1] C
    cdef double constant
    cdef bint warm
    cdef double tol
    cdef Py_ssize_t max_iter
    cdef int32_t[::1] stop
    cdef double[:, ::1] coef
    cdef double[::1] intercept
    cdef int32_t[::1] n_iter
    cdef int32_t[::1] status

    def __init__(
        self, const double[::1] C, double constant, bint warm, double tol,
        Py_ssize_t max_iter, int32_t[::1] stop, tuple solution,
    ):
        self.C, self.constant, self.warm = C, constant, warm
        self.tol, self.max_iter, self.stop = tol, max_iter, stop
        self.coef, self.intercept, self.n_iter, self.status = solution


cdef class LbfgsWorkspace:
    """Work arrays for the largest node of a call: `work` doubles, and for sparse X
    `local` (d,), -1 on entry and exit, `columns` for its columns and `index` for its
    non-zeros."""
    cdef double[::1] work
    cdef int32_t[::1] local
    cdef int32_t[::1] columns
    cdef int32_t[::1] index

    def __init__(
        self, double[::1] work, int32_t[::1] local, int32_t[::1] columns,
        int32_t[::1] index,
    ):
        self.work, self.local = work, local
        self.columns, self.index = columns, index


cdef class Moments:
    """Eigenvectors (d, d) and eigenvalues (d,) of the second moment of the features
    of one node, and their mean (d,)."""
    cdef const double[:, ::1] basis
    cdef const double[::1] variance
    cdef const double[::1] mean

    def __init__(
        self, const double[:, ::1] basis, const double[::1] variance,
        const double[::1] mean,
    ):
        self.basis, self.variance, self.mean = basis, variance, mean


cdef void describe(
    LogisticNode* node, SortedSamples samples, LbfgsTask options, Py_ssize_t v,
    Py_ssize_t d, Watch* watch,
) noexcept nogil:
    """Sizes and options of node v, of which d columns are used."""
    cdef Py_ssize_t i
    node.bound, node.weight = samples.bounds + samples.ptr[v], samples.weight
    node.tol, node.max_iter, node.watch = options.tol, options.max_iter, watch
    node.m = samples.ptr[v + 1] - samples.ptr[v] - 1
    node.n = node.bound[node.m] - node.bound[0]
    node.d = d
    node.r = 1 if node.m == 2 else node.m
    node.size = node.r * d
    node.intercept = options.constant > 0
    node.unit = min(options.constant, 1.0) if node.intercept else 1.0
    node.rho = (node.unit / options.constant) ** 2 if node.intercept else 0.0
    node.p = node.size + (node.r if node.intercept else 0)
    node.scale = 0
    for i in range(node.bound[0], node.bound[node.m]):
        node.scale += node.weight[i]
    node.scale = 1 / node.scale
    node.lam = node.scale / options.C[v]


cdef double* lay_out(
    LogisticNode* node, Metric* metric, Moments moments, double* room,
) noexcept nogil:
    """Put the metric's arrays into `room`; returns the room behind them."""
    cdef Py_ssize_t i, k
    metric.basis, metric.variance = &moments.basis[0, 0], &moments.variance[0]
    metric.mean = &moments.mean[0]
    metric.share = room
    metric.mean_p = metric.share + node.r
    metric.curvature = metric.mean_p + node.r
    metric.sums = metric.curvature + node.r
    metric.total = metric.sums + 2 * node.d
    metric.rotated = metric.total + node.d
    metric.inverse = metric.rotated + node.size
    for k in range(node.r):
        metric.share[k] = 0
        for i in range(node.bound[k], node.bound[k + 1]):
            metric.share[k] += node.weight[i] * node.scale
    return metric.inverse + node.size


cdef Py_ssize_t number_columns(
    SortedSamples samples, Py_ssize_t v, LbfgsWorkspace space, Sparse* sparse,
) noexcept nogil:
    """Number the columns that the samples of node v use; returns how many there are."""
    cdef const int64_t* bound = samples.bounds + samples.ptr[v]
    cdef int64_t lo = samples.indptr[bound[0]], a
    cdef int64_t hi = samples.indptr[bound[samples.ptr[v + 1] - samples.ptr[v] - 1]]
    cdef Py_ssize_t i, j, d = 0
    for a in range(lo, hi):
        j = samples.index[a]
        if space.local[j] < 0:
            space.local[j] = <int32_t>d
            space.columns[d] = <int32_t>j
            d += 1
        space.index[a - lo] = space.local[j]
    for i in range(d):
        space.local[space.columns[i]] = -1
    sparse.indptr, sparse.base = samples.indptr + bound[0], lo
    sparse.index = &space.index[0]
    return d


def solve(
    SortedSamples samples, LbfgsTask options,
    const int64_t[::1] todo, LbfgsWorkspace space, cython.floating[::1] fwork,
    Moments moments,
):
    """Fit the nodes `todo`. fwork: room in the type of X. moments: the moments of the
    dense features of the one node in `todo`, or None: start from a multiple of I."""
    cdef Py_ssize_t at, v, i, k, j, d = samples.d, first, by_row, by_column
    cdef LogisticNode node
    cdef Sparse found
    cdef Sparse* sparse = &found if samples.indptr != NULL else NULL
    cdef Watch watch = watch_of(options.stop)
    cdef double* w = &space.work[0]
    cdef double* work
    cdef double* bound
    cdef cython.floating* X
    cdef bint use = moments is not None
    cdef Metric metric
    cdef double steep
    cdef int count
    with nogil:
        for at in range(todo.shape[0]):
            v = todo[at]
            first = samples.row_ptr[v]
            if sparse != NULL:
                d = number_columns(samples, v, space, sparse)
            describe(&node, samples, options, v, d, &watch)
            # the layout of w: dense (r, d), sparse (d, r)
            by_row, by_column = d, 1
            X = <cython.floating*>samples.X
            if sparse != NULL:
                by_row, by_column = 1, node.r
            else:
                X += node.bound[0] * d
            bound = w + node.p
            work = bound + d
            if use:
                work = lay_out(&node, &metric, moments, work)
            bound_curvatures(&node, X, sparse, bound)
            steep = -1
            if options.warm:
                steep = steepness(&node, X, sparse, w, bound, work, &fwork[0])
                for k in range(node.r):
                    for i in range(d):
                        j = space.columns[i] if sparse != NULL else i
                        w[k * by_row + i * by_column] = options.coef[first + k, j]
                    if node.intercept:
                        w[node.size + k] = options.intercept[first + k] / node.unit
            else:
                start(&node, w)
            options.status[v] = minimise(
                &node, X, sparse, w, &metric if use else NULL, bound, steep, work,
                &fwork[0], &count,
            )
            if watch.stop[0]:
                break
            options.n_iter[v] = count
            for k in range(node.r):
                if sparse != NULL:
                    for j in range(samples.d):
                        options.coef[first + k, j] = 0
                for i in range(d):
                    j = space.columns[i] if sparse != NULL else i
                    options.coef[first + k, j] = w[k * by_row + i * by_column]
                if node.intercept:
                    options.intercept[first + k] = node.unit * w[node.size + k]
    propagate()
