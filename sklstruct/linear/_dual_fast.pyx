"""Dual coordinate descent of a linear model of many outcomes, sample by sample.

Minimises over W (features, outcomes)

    1/2 ||W||^2 + sum_i C_i loss(z_i, y_i),      z_i = W' x_i,

where W = sum_i x_i a_i' for dual variables a_i, one per outcome. A step takes a sample
and updates all of its duals together: one pass over the rows of W of its features gives
all scores, a second pass updates W. The weights of a feature are contiguous, so both
passes are streams of wide additions (`_dual.h`), without a gather per outcome.
With q = ||x_i||^2 and s = 1 for the outcomes of the sample, -1 for others:

squared hinge, sum_k max(0, 1 - s z)^2
    a = s b, b >= 0, b <- max(0, b - (s z - 1 + h b) / (q + h)) with h = 1 / (2 C_i),
    the exact minimum in each coordinate.
logistic, sum_k log(1 + exp(-s z))
    a = s b, b = C_i sigma(-t) at the root of t = s z - q b + q C_i sigma(-t), by
    Newton's method from a start from which the iterates are monotone: t0 = s z - q b if
    t0 > 0, t0 + q C_i if this is negative, else 0. From the start s z the iterates
    oscillate if q C_i is large.
multinomial, log sum_k exp(z_k) - z_y, one outcome per sample
    a = C_i (e_y - p). With d = softmax(z) - p the step is p <- p + t d. The derivative
    of the dual along d is -kl at t = 0 and q C_i ||d||^2 at t = 1, kl the sum of both
    divergences of softmax(z) and p; t is the zero of the line through these two values.
    In the first epochs, when the derivative is far from a line, a secant step follows.

One-vs-rest losses separate over outcomes, so callers may fit strips of outcomes: then W
is narrow, its rows stay in the cache from one epoch to the next, and a step of the
squared hinge on 16 or 32 lanes stays in registers.

Steps of many multinomial outcomes on dense rows are taken in blocks of samples: the
scores of a block are one product with W. A step then adds its effect to the scores of
the later samples of the block, and W gets all steps at the end of the block. The steps
are those of one sample after the other, up to rounding.

The order of the samples is drawn anew for each epoch. A step changes scores by at most
q sum |change|; the update of W is skipped if this is below rounding. The descent ends
after an epoch whose change of the duals (sum of absolute values) is at most `tol` times
the change in the first epoch.

The weights of a feature that only sample i has are its value times the duals a_i. They
add the square of the value times the duals to the scores of sample i, and need not be
stored during the descent.

Cost of an epoch: 2 nnz M multiply-adds, nnz the values of features that several samples
have, and M the outcomes padded to a multiple of 16; memory 4 M (columns + samples)
bytes.
The intercept is the weight of a feature that has the same value in every sample, as in
LIBLINEAR.

References: C.-J. Hsieh et al., ICML 2008 (squared hinge); H.-F. Yu, F.-L. Huang,
C.-J. Lin, Machine Learning 85, 2011 (logistic); S. Shalev-Shwartz, T. Zhang,
Mathematical Programming 155, 2016 (steps on all duals of a sample).
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy, memmove

from .._prefetch cimport prefetch
from .._watch cimport Watch, over, propagate, watch_of
from ._blas cimport gemm, sgemm
from ._weights_fast cimport FloatRows

cdef extern from "_dual.h" nogil:
    ctypedef struct sklstruct_sample:
        const float* x
        const int32_t* index
        Py_ssize_t n
        float own
        float q
        float C
        const int32_t* y
        Py_ssize_t n_y

    enum:
        SKLSTRUCT_LOCAL
        SKLSTRUCT_HINGE
        SKLSTRUCT_LOGISTIC
        SKLSTRUCT_MULTINOMIAL

    void sklstruct_prefetch_rows(
        Py_ssize_t n, const int32_t* index, const float* W, Py_ssize_t M) noexcept
    void sklstruct_scores(
        Py_ssize_t n, const float* x, const int32_t* index, const float* W,
        Py_ssize_t M, float* z) noexcept
    double sklstruct_step(
        int loss, Py_ssize_t M, const sklstruct_sample* sample, float constant,
        float rest, int correct, const float* live, float* W, float* last, float* a,
        float* room) noexcept
    double sklstruct_multinomial(
        Py_ssize_t M, const float* z, const float* live, Py_ssize_t y, float C,
        float q, int correct, float* a, float* step, float* old, float* d) noexcept

cdef enum:
    # Epochs whose multinomial steps are corrected.
    CORRECTED = 2
    # Samples of a block.
    BLOCK = 8
    # Number of multiplications from which on OpenBLAS copies the matrices.
    FEW = 1000000

LOSS_CODES = {
    "squared_hinge": SKLSTRUCT_HINGE, "ovr_log_loss": SKLSTRUCT_LOGISTIC,
    "log_loss": SKLSTRUCT_MULTINOMIAL,
}

cdef enum:
    # Rows of `room`, of M floats: scores and steps of a block of samples, two more, and
    # the lanes in use.
    SCORES = 0
    STEPS = BLOCK
    OLD = 2 * BLOCK
    MOVE = OLD + 1
    LIVE = OLD + 2

# Numbers of rows of `room` and `x` in `descend`.
ROOM, SAMPLES = LIVE + 1, BLOCK

# Changes of scores up to this are skipped: no pass over the weights.
cdef float NEGLIGIBLE = 1e-7

cdef enum:
    # A sample is prefetched this many steps before its turn.
    FAR = 4


cdef class DescentProblem:
    """The problem of some outcomes: samples, their lanes and costs.

    rows: the samples. own: for each sample the sum of the squares of the features that
    the rows leave out. q: the sum of the squares of all features and of the constant.
    lane[lane_ptr[i]] to lane[lane_ptr[i + 1]]: the outcomes of sample i. cost: C_i.
    constant: value of the feature whose weights are the intercepts (the last row of W),
    0 without intercepts.
    """

    cdef FloatRows rows
    cdef const float[::1] own
    cdef const float[::1] q
    cdef const int64_t[::1] lane_ptr
    cdef const int32_t[::1] lane
    cdef const float[::1] cost
    cdef int loss
    cdef float constant

    def __init__(self, FloatRows rows, const float[::1] own, const float[::1] q,
                 const int64_t[::1] lane_ptr, const int32_t[::1] lane,
                 const float[::1] cost, int loss, float constant):
        self.rows, self.own, self.q = rows, own, q
        self.lane_ptr, self.lane, self.cost = lane_ptr, lane, cost
        self.loss, self.constant = loss, constant


cdef inline uint64_t draw(uint64_t* state) noexcept nogil:
    """The next number of a xorshift64* generator; the state is not 0."""
    cdef uint64_t x = state[0]
    x ^= x >> 12
    x ^= x << 25
    x ^= x >> 27
    state[0] = x
    return (x * <uint64_t>2685821657736338717) >> 32


cdef void shuffle(int32_t[::1] order, uint64_t* state) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(order.shape[0] - 1, 0, -1):
        # 32 random bits: the bias is of the order n / 2^32
        j = <Py_ssize_t>((draw(state) * <uint64_t>(i + 1)) >> 32)
        order[i], order[j] = order[j], order[i]


cdef inline void read_sample(
    DescentProblem problem, Py_ssize_t i, sklstruct_sample* sample,
) noexcept nogil:
    sample.n = problem.rows.row(i, &sample.x, &sample.index)
    sample.own, sample.q = problem.own[i], problem.q[i]
    sample.C = problem.cost[i]
    sample.n_y = problem.lane_ptr[i + 1] - problem.lane_ptr[i]
    sample.y = &problem.lane[problem.lane_ptr[i]] if sample.n_y else NULL


cdef inline void prefetch_next(
    DescentProblem problem, const int32_t[::1] order, Py_ssize_t position,
    const float[:, ::1] W, const float[:, ::1] dual,
) noexcept nogil:
    """Prefetch the sample FAR steps ahead, and the weights of the next sample."""
    cdef Py_ssize_t i, n
    cdef const float* x = NULL
    cdef const int32_t* index = NULL
    if position + FAR < order.shape[0]:
        i = order[position + FAR]
        n = problem.rows.row(i, &x, &index)
        prefetch(x, 4 * n)
        if index != NULL:
            prefetch(index, 4 * n)
        prefetch(&dual[i, 0], 4 * min(dual.shape[1], 64))
    if position + 1 < order.shape[0]:
        n = problem.rows.row(order[position + 1], &x, &index)
        sklstruct_prefetch_rows(n, index, &W[0, 0], W.shape[1])


cdef void multiply(
    char* trans, int lanes, int n, int k, float* A, float* B, int width, float before,
    float* C,
) noexcept nogil:
    """C = before C + A B, or before C + A B', column-major, in parts of lanes.

    C (lanes, n), A (lanes, k).
    """
    cdef int part = max(16, FEW // (n * k) // 16 * 16), at = 0, size
    cdef float unit = 1
    while at < lanes:
        size = min(part, lanes - at)
        sgemm("N", trans, &size, &n, &k, &unit, A + at, &lanes, B, &width, &before,
              C + at, &lanes)
        at += part


cdef double block_steps(
    DescentProblem problem, const int32_t* samples, float[:, ::1] W,
    float[:, ::1] dual, float[:, ::1] room, float[:, ::1] x, bint correct,
) noexcept nogil:
    """Multinomial steps on BLOCK dense samples, one after the other.

    The scores of a sample are the scores before the first step, plus the products of
    the sample with each earlier sample times the step on the earlier sample: W is read
    and written once per block. x (BLOCK, features): room.
    """
    cdef Py_ssize_t M = W.shape[1], last = W.shape[0] - 1, b, c, j
    cdef sklstruct_sample[BLOCK] found
    cdef float[BLOCK * BLOCK] product
    cdef float constant = problem.constant
    cdef float* z
    cdef float* step
    cdef double change, total = 0
    cdef int lanes = <int>M, width = <int>last, size = BLOCK
    for b in range(BLOCK):
        found[b].x, found[b].index = NULL, NULL
        read_sample(problem, samples[b], &found[b])
        memcpy(&x[b, 0], found[b].x, last * sizeof(float))
    multiply("N", lanes, size, width, &W[0, 0], &x[0, 0], width, 0, &room[SCORES, 0])
    gemm("T", "N", size, size, width, &x[0, 0], width, &x[0, 0], width, product)
    for b in range(BLOCK):
        z, step = &room[SCORES + b, 0], &room[STEPS + b, 0]
        for j in range(M):
            z[j] += constant * W[last, j]
        for c in range(b):
            product[BLOCK * b + c] += constant * constant
        sklstruct_scores(b, product + BLOCK * b, NULL, &room[STEPS, 0], M, z)
        change = sklstruct_multinomial(
            M, z, &room[LIVE, 0], found[b].y[0], found[b].C, found[b].q, correct,
            &dual[samples[b], 0], step, &room[OLD, 0], &room[MOVE, 0],
        )
        total += change
        if change * found[b].q <= NEGLIGIBLE:
            for j in range(M):
                step[j] = 0
    multiply("T", lanes, width, size, &room[STEPS, 0], &x[0, 0], width, 1, &W[0, 0])
    for b in range(BLOCK):
        for j in range(M):
            W[last, j] += constant * room[STEPS + b, j]
    return total


cdef double epoch(
    DescentProblem problem, const int32_t[::1] order, float[:, ::1] W,
    float[:, ::1] dual, float[:, ::1] room, float[:, ::1] x, bint correct,
    Watch* watch,
) noexcept nogil:
    """One step on each sample; returns the sum of the absolute changes of the duals."""
    cdef Py_ssize_t M = W.shape[1], last = W.shape[0] - 1, position = 0, i
    cdef Py_ssize_t in_blocks = 0
    cdef sklstruct_sample sample
    cdef double total = 0
    sample.x, sample.index, sample.y = NULL, NULL, NULL
    if (
        problem.loss == SKLSTRUCT_MULTINOMIAL and M > SKLSTRUCT_LOCAL
        and not problem.rows.is_sparse and W.shape[0] > 1
    ):
        in_blocks = order.shape[0] - order.shape[0] % BLOCK
    while position < in_blocks:
        total += block_steps(problem, &order[position], W, dual, room, x, correct)
        position += BLOCK
        if over(watch, 2 * BLOCK * (W.shape[0] + 8) * M):
            return total
    for position in range(in_blocks, order.shape[0]):
        prefetch_next(problem, order, position, W, dual)
        i = order[position]
        read_sample(problem, i, &sample)
        total += sklstruct_step(
            problem.loss, M, &sample, problem.constant, NEGLIGIBLE, correct,
            &room[LIVE, 0], &W[0, 0], &W[last, 0], &dual[i, 0], &room[SCORES, 0],
        )
        if over(watch, 2 * (sample.n + 8) * M):
            break
    return total


def descend(
    DescentProblem problem, float[:, ::1] W, float[:, ::1] dual, float[:, ::1] room,
    float[:, ::1] x, int32_t[::1] order, uint64_t[::1] state, double first, double tol,
    Py_ssize_t max_iter, Py_ssize_t before, int32_t[::1] stop,
):
    """Epochs over the samples `order`; `order`, W and dual are changed in place.

    W: (columns of the rows + 1, M), for all samples so far: a later call may add
    samples, whose duals are 0 until then. room: (ROOM, M), its last row 1 at the
    outcomes and 0 at the padding; x: (SAMPLES, features). first: the change of the
    first epoch, to which `tol` is relative; negative if this call makes the first
    epoch. before: number of epochs over `order` in the earlier calls. Returns (epochs,
    change of the last epoch, `first`).
    """
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t done = 0
    cdef double change = 0
    with nogil:
        while done < max_iter:
            shuffle(order, &state[0])
            change = epoch(
                problem, order, W, dual, room, x, before + done < CORRECTED, &watch,
            )
            done += 1
            if first < 0:
                first = change
            if change <= tol * first or stop[0]:
                break
    propagate()
    return done, change, first


def add_lone(
    float[:, ::1] W, Py_ssize_t n_shared, const int32_t[::1] sample,
    const float[::1] value, const float[:, ::1] dual,
):
    """Insert the weights of the features that only one sample has.

    W (features + 1, M): before the call, its first rows are the n_shared features of
    several samples and the constant; after it, all features and the constant. sample,
    value: for each feature its only sample (-1: several) and the value.
    """
    cdef Py_ssize_t M = W.shape[1], k = n_shared, i, j
    with nogil:
        # Backwards, so that no row is overwritten before it is moved.
        for i in range(W.shape[0] - 1, -1, -1):
            if i == sample.shape[0] or sample[i] < 0:
                memmove(&W[i, 0], &W[k, 0], M * sizeof(float))
                k -= 1
            else:
                for j in range(M):
                    W[i, j] = value[i] * dual[sample[i], j]


def scores(
    DescentProblem problem, const float[:, ::1] W, const int32_t[::1] samples,
    float[:, ::1] out, float[:, ::1] room, int32_t[::1] stop,
):
    """Fill out (samples, outcomes) with the scores of `samples`; duals must be 0."""
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t M = W.shape[1], last = W.shape[0] - 1, position, j, n
    cdef const float* x = NULL
    cdef const int32_t* index = NULL
    cdef float* z = &room[0, 0]
    with nogil:
        for position in range(samples.shape[0]):
            n = problem.rows.row(samples[position], &x, &index)
            for j in range(M):
                z[j] = problem.constant * W[last, j]
            sklstruct_scores(n, x, index, &W[0, 0], M, z)
            for j in range(out.shape[1]):
                out[position, j] = z[j]
            if over(&watch, (n + 8) * M):
                break
    propagate()
