"""Dual coordinate descent of a linear model of many outcomes, sample by sample.

Minimises over W (features, outcomes)

    1/2 ||W||^2 + sum_i C_i loss(z_i, y_i),      z_i = W' x_i,

where W = sum_i x_i a_i' for dual variables a_i, one an outcome. A step takes a sample
and moves all of its duals together: one pass over the rows of W that x_i meets makes
all scores, one more changes them. A feature's weights are contiguous, so that both
passes are streams of wide additions (`_dual.h`) instead of a gather an outcome. With
q = ||x_i||^2 and s = 1 for the outcomes of the sample, -1 for others:

squared hinge, sum_k max(0, 1 - s z)^2
    a = s b, b >= 0, b <- max(0, b - (s z - 1 + h b) / (q + h)) with h = 1 / (2 C_i),
    the exact minimum in each coordinate.
logistic, sum_k log(1 + exp(-s z))
    a = s b, b = C_i sigma(-t) at the root of t = s z - q b + q C_i sigma(-t), by
    Newton's method from an end at which it is monotone: t0 = s z - q b if that is
    positive, t0 + q C_i if that is negative, else 0. From s z it oscillates where
    q C_i is large.
multinomial, log sum_k exp(z_k) - z_y, of one outcome a sample
    a = C_i (e_y - p). With d = softmax(z) - p the step is p <- p + t d, where the
    derivative of the dual along d is -kl at t = 0 and q C_i ||d||^2 at t = 1, kl the
    sum of both divergences of softmax(z) and p: t is the zero of the line between. In
    the first epochs, when the derivative is far from a line, one more secant step.

The weights of a feature that one sample alone has are x_i times its duals, whatever
they are: they are not kept, and count as the square of x_i times the duals in the
scores of that sample. In text a good part of the features is of this kind, and their
rows of W would be the ones that no cache has.

One-vs-rest losses separate over outcomes, so that callers may bring them in strips:
then W is narrow, its rows stay in the cache from one epoch to the next, and a step of
the squared hinge on 16 or 32 lanes never leaves the registers.

Samples come in an order drawn anew for each epoch. A step moves scores by at most
q max |change|; below rounding it is left out. The descent ends with an epoch that
changes the duals by less than `tol` times what the first did, in sums of sizes.

Cost of an epoch: 2 nnz M additions with products, nnz those of shared features and M
the outcomes padded to a multiple of 16; memory 4 M (shared columns + samples) bytes.
The intercept is the weight of a feature that has the same value in every sample, as in
LIBLINEAR.

References: C.-J. Hsieh et al., ICML 2008 (squared hinge); H.-F. Yu, F.-L. Huang,
C.-J. Lin, Machine Learning 85, 2011 (logistic); S. Shalev-Shwartz, T. Zhang,
Mathematical Programming 155, 2016 (steps on all duals of a sample).
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from .._watch cimport Watch, over, propagate, watch_of
from ._weights_fast cimport Rows

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

    float sklstruct_squares(Py_ssize_t n, const float* x) noexcept
    void sklstruct_ask(
        Py_ssize_t n, const int32_t* index, const float* W, Py_ssize_t M) noexcept
    void sklstruct_ask_run(Py_ssize_t n, const void* start) noexcept
    bint sklstruct_has_strip(Py_ssize_t M) noexcept
    void sklstruct_hinge_strip(
        Py_ssize_t M, const sklstruct_sample* sample, float constant, float rest,
        const float* live, float* W, float* last, float* a, float* sums) noexcept
    void sklstruct_scores(
        Py_ssize_t n, const float* x, const int32_t* index, const float* W,
        Py_ssize_t M, float* z) noexcept
    void sklstruct_spread(
        Py_ssize_t n, const float* x, const int32_t* index, const float* step,
        Py_ssize_t M, float* W) noexcept
    double sklstruct_hinge(
        Py_ssize_t M, const float* z, const float* live, const int32_t* y,
        Py_ssize_t n_y, float C, float q, float* a, float* step,
        float* most) noexcept
    double sklstruct_logistic(
        Py_ssize_t M, const float* z, const float* live, const int32_t* y,
        Py_ssize_t n_y, float C, float q, float* a, float* step, float* t,
        float* most) noexcept
    double sklstruct_multinomial(
        Py_ssize_t M, const float* z, const float* live, Py_ssize_t y, float C,
        float q, int correct, float* a, float* step, float* old, float* d,
        float* most) noexcept

cdef enum:
    HINGE = 0
    LOGISTIC = 1
    MULTINOMIAL = 2
    # Epochs whose multinomial steps are corrected.
    CORRECTED = 2

LOSS_CODES = {
    "squared_hinge": HINGE, "ovr_log_loss": LOGISTIC, "log_loss": MULTINOMIAL,
}

ROOM = 6  # arrays of M floats that `descend` works in

# Largest change of a score that is not worth a pass over the weights.
cdef float REST = 1e-7

cdef enum:
    # Steps by which the memory of a sample is asked for before its turn.
    FAR = 4
    # Steps whose sizes are added up in single precision.
    BATCH = 256


cdef class Task:
    """One problem: samples, their lanes and costs.

    rows: the shared features of the samples. own: of each sample the sum of the
    squares of the others, q: that of all and of the constant. lane[lane_ptr[i]] to
    lane[lane_ptr[i + 1]]: of the outcomes of sample i. cost: C_i. constant: value
    of the feature that stands for the intercept, 0 without; its weights are the last
    row of W.
    """

    cdef Rows rows
    cdef const float[::1] own
    cdef const float[::1] q
    cdef const int64_t[::1] lane_ptr
    cdef const int32_t[::1] lane
    cdef const float[::1] cost
    cdef int loss
    cdef float constant

    def __init__(self, Rows rows, const float[::1] own, const float[::1] q,
                 const int64_t[::1] lane_ptr, const int32_t[::1] lane,
                 const float[::1] cost, int loss, float constant):
        self.rows, self.own, self.q = rows, own, q
        self.lane_ptr, self.lane, self.cost = lane_ptr, lane, cost
        self.loss, self.constant = loss, constant


def squares(Rows rows, float constant, float[::1] q):
    """q[i] = the sum of the squares of sample i and of the constant."""
    cdef Py_ssize_t i, n
    cdef const float* x = NULL
    cdef const int32_t* index = NULL
    with nogil:
        for i in range(rows.n):
            n = rows.row(i, &x, &index)
            q[i] = sklstruct_squares(n, x) + constant * constant


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
    cdef int32_t kept
    for i in range(order.shape[0] - 1, 0, -1):
        # 32 random bits: the bias is that of n / 2^32
        j = <Py_ssize_t>((draw(state) * <uint64_t>(i + 1)) >> 32)
        kept = order[i]
        order[i] = order[j]
        order[j] = kept


cdef inline void look(Task task, Py_ssize_t i, sklstruct_sample* sample) noexcept nogil:
    sample.n = task.rows.row(i, &sample.x, &sample.index)
    sample.own, sample.q = task.own[i], task.q[i]
    sample.C, sample.n_y = task.cost[i], task.lane_ptr[i + 1] - task.lane_ptr[i]
    sample.y = &task.lane[task.lane_ptr[i]] if sample.n_y else NULL


cdef inline void ask(
    Task task, const int32_t[::1] order, Py_ssize_t position, const float[:, ::1] W,
    const float[:, ::1] dual,
) noexcept nogil:
    """Ask for what the samples after `position` will need, in two steps."""
    cdef Py_ssize_t i, n
    cdef const float* x = NULL
    cdef const int32_t* index = NULL
    if position + FAR < order.shape[0]:
        i = order[position + FAR]
        n = task.rows.row(i, &x, &index)
        sklstruct_ask_run(n, x)
        if index != NULL:
            sklstruct_ask_run(n, index)
        sklstruct_ask_run(dual.shape[1] if dual.shape[1] < 64 else 64, &dual[i, 0])
    if position + 1 < order.shape[0]:
        n = task.rows.row(order[position + 1], &x, &index)
        sklstruct_ask(n, index, &W[0, 0], W.shape[1])


cdef double epoch(
    Task task, const int32_t[::1] order, float[:, ::1] W, float[:, ::1] dual,
    float[:, ::1] room, bint correct, Watch* watch,
) noexcept nogil:
    """One step on each sample; the sum of the sizes of all changes."""
    cdef Py_ssize_t M = W.shape[1], last = W.shape[0] - 1, position, i, j
    cdef sklstruct_sample sample
    cdef float* z = &room[0, 0]
    cdef float* step = &room[1, 0]
    cdef float* a
    cdef const float* live = &room[5, 0]
    cdef float most = 0, constant = task.constant
    cdef float[16] sums
    cdef double total = 0
    cdef bint fused = task.loss == HINGE and sklstruct_has_strip(M)
    sample.x, sample.index, sample.y = NULL, NULL, NULL
    for j in range(16):
        sums[j] = 0
    for position in range(order.shape[0]):
        ask(task, order, position, W, dual)
        i = order[position]
        look(task, i, &sample)
        a = &dual[i, 0]
        if fused:
            sklstruct_hinge_strip(
                M, &sample, constant, REST, live, &W[0, 0], &W[last, 0], a, sums
            )
            if position % BATCH == BATCH - 1:
                for j in range(16):
                    total += sums[j]
                    sums[j] = 0
            if over(watch, 2 * (sample.n + 8) * M):
                break
            continue
        for j in range(M):
            z[j] = constant * W[last, j] + sample.own * a[j]
        sklstruct_scores(sample.n, sample.x, sample.index, &W[0, 0], M, z)
        if task.loss == HINGE:
            total += sklstruct_hinge(
                M, z, live, sample.y, sample.n_y, sample.C, sample.q, a, step, &most
            )
        elif task.loss == LOGISTIC:
            total += sklstruct_logistic(
                M, z, live, sample.y, sample.n_y, sample.C, sample.q, a, step,
                &room[2, 0], &most,
            )
        else:
            total += sklstruct_multinomial(
                M, z, live, sample.y[0], sample.C, sample.q, correct, a, step,
                &room[2, 0], &room[3, 0], &most,
            )
        if most * sample.q > REST:
            sklstruct_spread(sample.n, sample.x, sample.index, step, M, &W[0, 0])
            for j in range(M):
                W[last, j] += constant * step[j]
        if over(watch, 2 * (sample.n + 8) * M):
            break
    for j in range(16):
        total += sums[j]
    return total


def descend(
    Task task,
    float[:, ::1] W,
    float[:, ::1] dual,
    float[:, ::1] room,
    int32_t[::1] order,
    uint64_t[::1] state,
    double first,
    double tol,
    Py_ssize_t max_iter,
    int32_t[::1] stop,
):
    """Epochs over the samples `order`, which is left shuffled; W and dual move.

    W: (shared columns + 1, M), of all samples so far: a later call may bring more,
    whose duals are 0 until then. room:
    (ROOM, M), its last row 1 at the outcomes and 0 at the padding. first: the change
    of the first epoch that `tol` is relative to, negative if this is it. Returns
    (epochs, change of the last one, `first`).
    """
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t done = 0
    cdef double change = 0
    with nogil:
        while done < max_iter:
            shuffle(order, &state[0])
            change = epoch(
                task, order, W, dual, room, first < 0 or done < CORRECTED, &watch
            )
            done += 1
            if first < 0:
                first = change
            if change <= tol * first or stop[0]:
                break
    propagate()
    return done, change, first


def scores(
    Task task, const float[:, ::1] W, const int32_t[::1] samples, float[:, ::1] out,
    float[:, ::1] room, int32_t[::1] stop,
):
    """out (samples, outcomes): scores of some samples, whose duals are 0."""
    cdef Watch watch = watch_of(stop)
    cdef Py_ssize_t M = W.shape[1], last = W.shape[0] - 1, position, j, n
    cdef const float* x = NULL
    cdef const int32_t* index = NULL
    cdef float* z = &room[0, 0]
    with nogil:
        for position in range(samples.shape[0]):
            n = task.rows.row(samples[position], &x, &index)
            for j in range(M):
                z[j] = task.constant * W[last, j]
            sklstruct_scores(n, x, index, &W[0, 0], M, z)
            for j in range(out.shape[1]):
                out[position, j] = z[j]
            if over(&watch, (n + 8) * M):
                break
    propagate()
