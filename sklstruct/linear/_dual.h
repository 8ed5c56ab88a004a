/* The inner loops of the dual coordinate descent, for all outcomes of one sample.
 * _vector.h says why they are in C.
 *
 * M lanes: one for each outcome, padded to a multiple of SKLSTRUCT_STRIDE; a single
 * outcome has M = 1. live[j] is 1 for outcomes, 0 for padding, whose scores and duals
 * stay 0. The formulas are in _dual_fast.pyx.
 */
#ifndef SKLSTRUCT_DUAL_H
#define SKLSTRUCT_DUAL_H

#include "_vector.h"

enum { SKLSTRUCT_HINGE = 0, SKLSTRUCT_LOGISTIC = 1, SKLSTRUCT_MULTINOMIAL = 2 };

/* A sample, as a step reads it. */
typedef struct {
    const float *x;       /* (n,) values of the features */
    const int32_t *index; /* their rows of W; NULL: 0, 1, 2, ... */
    ptrdiff_t n;
    float own; /* sum of the squares of the values of features of this sample alone */
    float q; /* sum of the squares of all values, and of the constant */
    float C;
    const int32_t *y; /* (n_y,) lanes of its outcomes, each once */
    ptrdiff_t n_y;
} sklstruct_sample;

/* Prefetch the first lines of the rows of W of a sample's features; the hardware
 * prefetches the rest of a long row. */
static inline void sklstruct_prefetch_rows(
    ptrdiff_t n, const int32_t *index, const float *W, ptrdiff_t M)
{
    ptrdiff_t k, i, lines = M < 64 ? M : 64;
    if (index)
        for (k = 0; k < n; k++)
            for (i = 0; i < lines; i += 16)
                SKLSTRUCT_PREFETCH(W + index[k] * M + i);
}

#if defined(__GNUC__) || defined(__clang__)
#define SKLSTRUCT_INLINE static inline __attribute__((always_inline))
#else
#define SKLSTRUCT_INLINE static inline
#endif

/* z += sum_k x[k] W[index[k]] for `vectors` times 8 lanes from i on, which stay in
 * registers for the whole row. Two running sums for each lane, because an addition waits
 * for the previous addition. */
#define SKLSTRUCT_ROW(k) (W + (index ? index[k] : (k)) * M + i)
#define SKLSTRUCT_SUM_ROWS(vectors)                                                 \
    {                                                                               \
        sklstruct_v8 *out = (sklstruct_v8 *)(z + i), sum[vectors];                  \
        sklstruct_v8 more[vectors] = {{0}};                                         \
        for (j = 0; j < vectors; j++)                                               \
            sum[j] = out[j];                                                        \
        for (k = 0; k + 2 <= n; k += 2) {                                           \
            const sklstruct_v8 *w = (const sklstruct_v8 *)SKLSTRUCT_ROW(k);         \
            const sklstruct_v8 *v = (const sklstruct_v8 *)SKLSTRUCT_ROW(k + 1);     \
            for (j = 0; j < vectors; j++) {                                         \
                sum[j] += x[k] * w[j];                                              \
                more[j] += x[k + 1] * v[j];                                         \
            }                                                                       \
        }                                                                           \
        if (k < n) {                                                                \
            const sklstruct_v8 *w = (const sklstruct_v8 *)SKLSTRUCT_ROW(k);         \
            for (j = 0; j < vectors; j++)                                           \
                sum[j] += x[k] * w[j];                                              \
        }                                                                           \
        for (j = 0; j < vectors; j++)                                               \
            out[j] = sum[j] + more[j];                                              \
    }

/* z += sum_k x[k] W[index[k]]; a dense row has index NULL, for 0, 1, 2, ... The order of
 * additions does not depend on M. */
SKLSTRUCT_INLINE void sklstruct_scores_of(
    ptrdiff_t n, const float *x, const int32_t *index, const float *W, ptrdiff_t M,
    float *z)
{
    ptrdiff_t i = 0, j, k;
    if (M == 1) {
        for (k = 0; k < n; k++)
            z[0] += x[k] * W[index ? index[k] : k];
        return;
    }
#ifdef SKLSTRUCT_VECTORS
    for (; i + 64 <= M; i += 64)
        SKLSTRUCT_SUM_ROWS(8)
    for (; i + 32 <= M; i += 32)
        SKLSTRUCT_SUM_ROWS(4)
    if (i < M)
        SKLSTRUCT_SUM_ROWS(2)
#else
    for (k = 0; k < n; k++)
        for (j = 0; j < M; j++)
            z[j] += x[k] * SKLSTRUCT_ROW(k)[j];
#endif
}

/* sklstruct_scores_of for callers outside of a step. */
SKLSTRUCT_WIDE static void sklstruct_scores(
    ptrdiff_t n, const float *x, const int32_t *index, const float *W, ptrdiff_t M,
    float *z)
{
    sklstruct_scores_of(n, x, index, W, M, z);
}

/* W[index[k]] += x[k] step, row by row. Explicit vectors, because the compiler does not
 * know that W and step do not overlap. */
SKLSTRUCT_INLINE void sklstruct_spread(
    ptrdiff_t n, const float *x, const int32_t *index, const float *step, ptrdiff_t M,
    float *W)
{
    ptrdiff_t j, k;
    for (k = 0; k < n; k++) {
        float *w = W + (index ? index[k] : k) * M;
#ifdef SKLSTRUCT_VECTORS
        if (M > 1) {
            for (j = 0; j < M; j += 16) {
                sklstruct_v8 *to = (sklstruct_v8 *)(w + j);
                const sklstruct_v8 *move = (const sklstruct_v8 *)(step + j);
                to[0] += x[k] * move[0];
                to[1] += x[k] * move[1];
            }
            continue;
        }
#endif
        for (j = 0; j < M; j++)
            w[j] += x[k] * step[j];
    }
}

/* The largest of 16 numbers. Pairwise, because sixteen comparisons one after the other
 * would take as long as the products. */
SKLSTRUCT_INLINE float sklstruct_largest(const float *top)
{
    float half[8];
    ptrdiff_t j, width;
    for (j = 0; j < 8; j++)
        half[j] = top[j] > top[j + 8] ? top[j] : top[j + 8];
    for (width = 4; width > 0; width /= 2)
        for (j = 0; j < width; j++)
            half[j] = half[j] > half[j + width] ? half[j] : half[j + width];
    return half[0];
}

SKLSTRUCT_INLINE float sklstruct_total(const float *sum)
{
    float half[8];
    ptrdiff_t j, width;
    for (j = 0; j < 8; j++)
        half[j] = sum[j] + sum[j + 8];
    for (width = 4; width > 0; width /= 2)
        for (j = 0; j < width; j++)
            half[j] += half[j + width];
    return half[0];
}

/* Runs the code for every lane i + j of 0 .. M, sixteen lanes j for each i. */
#define SKLSTRUCT_LANES(...)                                                        \
    do {                                                                            \
        if (M == 1) {                                                               \
            i = j = 0;                                                              \
            __VA_ARGS__                                                             \
        } else                                                                      \
            for (i = 0; i < M; i += 16)                                             \
                for (j = 0; j < 16; j++) {                                          \
                    __VA_ARGS__                                                     \
                }                                                                   \
    } while (0)

/* a += step; returns the sum of |step|. */
SKLSTRUCT_INLINE float sklstruct_move(ptrdiff_t M, const float *step, float *a)
{
    float sum[16] = {0};
    ptrdiff_t i, j;
    SKLSTRUCT_LANES({
        a[i + j] += step[i + j];
        sum[j] += fabsf(step[i + j]);
    });
    return sklstruct_total(sum);
}

/* Squared hinge. a holds sign * b; y are the n_y outcomes of the sample. Returns the
 * sum of |step|. */
SKLSTRUCT_INLINE double sklstruct_hinge(
    ptrdiff_t M, const float *z, const float *live, const int32_t *y, ptrdiff_t n_y,
    float C, float q, float *a, float *step)
{
    const float h = 0.5f / C, inverse = 1.0f / (q + h);
    ptrdiff_t i, j;
    SKLSTRUCT_LANES({
        float b = -a[i + j];
        float new = b - (-z[i + j] - 1.0f + h * b) * inverse;
        step[i + j] = (b - (new > 0 ? new : 0)) * live[i + j];
    });
    for (i = 0; i < n_y; i++) {
        float own = a[y[i]], new = own - (z[y[i]] - 1.0f + h * own) * inverse;
        step[y[i]] = (new > 0 ? new : 0) - own;
    }
    return sklstruct_move(M, step, a);
}

/* 1 / (1 + exp(-x)) for any x. */
SKLSTRUCT_INLINE float sklstruct_sigmoid(float x)
{
    float e = sklstruct_expf(-fabsf(x));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

enum { SKLSTRUCT_NEWTON = 30 };

/* Logistic loss of every outcome against the rest. Arguments as of sklstruct_hinge; `t`
 * is room. */
SKLSTRUCT_INLINE double sklstruct_logistic(
    ptrdiff_t M, const float *z, const float *live, const int32_t *y, ptrdiff_t n_y,
    float C, float q, float *a, float *step, float *t)
{
    const float all = q * C;
    ptrdiff_t i, j, round;
    /* step is t0 = s z - q b for now; own lanes have s = 1 */
    SKLSTRUCT_LANES({ step[i + j] = q * a[i + j] - z[i + j]; });
    for (i = 0; i < n_y; i++)
        step[y[i]] = z[y[i]] - q * a[y[i]];
    SKLSTRUCT_LANES({
        float t0 = step[i + j];
        t[i + j] = t0 > 0 ? t0 : (t0 + all < 0 ? t0 + all : 0);
    });
    for (round = 0; round < SKLSTRUCT_NEWTON; round++) {
        float far[16] = {0};
        SKLSTRUCT_LANES({
            float s = sklstruct_sigmoid(-t[i + j]);
            float move = (t[i + j] - step[i + j] - all * s) /
                         (1.0f + all * s * (1.0f - s));
            t[i + j] -= move;
            move = fabsf(move) * live[i + j];
            far[j] = move > far[j] ? move : far[j];
        });
        /* a quadratic step from here is below the rounding of t */
        if (sklstruct_largest(far) < 1e-3f)
            break;
    }
    SKLSTRUCT_LANES({
        float b = C * sklstruct_sigmoid(-t[i + j]);
        step[i + j] = (-b - a[i + j]) * live[i + j];
        t[i + j] = b;
    });
    for (i = 0; i < n_y; i++)
        step[y[i]] = t[y[i]] - a[y[i]];
    return sklstruct_move(M, step, a);
}

/* log(max(x, 1e-6)), relative error of a few 1e-7 (S. Moshier's Cephes). The maximum is
 * 2^e m with m in [sqrt(1/2), sqrt(2)). Bits of positive floats have the order of the
 * floats, so that no branch is needed, and loops over this function vectorise. */
SKLSTRUCT_INLINE float sklstruct_logf(float x)
{
    const int32_t root = 0x3f3504f3, least = 0x358637bd; /* the bits of sqrt(1/2), 1e-6 */
    int32_t bits;
    float m, e, y, w;
    memcpy(&bits, &x, 4);
    bits = (bits > least ? bits : least) - root;
    e = (float)(bits >> 23);
    bits = (bits & 0x007fffff) + root;
    memcpy(&m, &bits, 4);
    m -= 1.0f;
    w = m * m;
    y = 7.0376836292e-2f;
    y = y * m - 1.1514610310e-1f;
    y = y * m + 1.1676998740e-1f;
    y = y * m - 1.2420140846e-1f;
    y = y * m + 1.4249322787e-1f;
    y = y * m - 1.6668057665e-1f;
    y = y * m + 2.0000714765e-1f;
    y = y * m - 2.4999993993e-1f;
    y = y * m + 3.3333331174e-1f;
    y = y * m * w;
    y += -2.12194440e-4f * e;
    y += -0.5f * w;
    return m + y + 0.693359375f * e;
}

/* Multinomial loss with y >= 0 and M >= 16. Arguments as of sklstruct_hinge; `old` and
 * `d` are room. `correct`: whether the length of the step gets a secant correction. */
SKLSTRUCT_INLINE double sklstruct_multinomial_of(
    ptrdiff_t M, const float *restrict z, const float *restrict live, ptrdiff_t y,
    float C, float q, int correct, float *restrict a, float *restrict step,
    float *restrict old, float *restrict d)
{
    float part[16] = {0}, square[16] = {0}, sum[16] = {0};
    float best[16], high, log_sum, size, t, kl, curvature, inverse = 1.0f / C;
    ptrdiff_t i, j;
    for (j = 0; j < 16; j++)
        best[j] = -INFINITY;
    SKLSTRUCT_LANES({ old[i + j] = -a[i + j] * inverse; });
    old[y] += 1.0f;
    SKLSTRUCT_LANES({
        float s = z[i + j] + (live[i + j] - 1.0f) * 1e30f;
        best[j] = s > best[j] ? s : best[j];
        /* logarithms of the old probabilities, while the scores are not ready yet */
        step[i + j] = sklstruct_logf(old[i + j]);
    });
    high = sklstruct_largest(best);
    SKLSTRUCT_LANES({
        /* scores of outcomes are at most `high`, scores of the padding may be larger */
        float e = sklstruct_expf(-fabsf(z[i + j] - high)) * live[i + j];
        d[i + j] = e;
        sum[j] += e;
    });
    size = sklstruct_total(sum);
    log_sum = high + sklstruct_logf(size);
    size = 1.0f / size;
    /* kl: the sum of both divergences between the old and the new probabilities */
    SKLSTRUCT_LANES({
        float move = d[i + j] * size - old[i + j], log_new = z[i + j] - log_sum;
        log_new = log_new > -80.0f ? log_new : -80.0f;
        d[i + j] = move;
        part[j] += move * (log_new - step[i + j]) * live[i + j];
        square[j] += move * move;
    });
    kl = sklstruct_total(part);
    curvature = sklstruct_total(square) * q * C;
    if (!(kl > 0))
        return 0;
    t = kl / (kl + curvature);
    if (correct) {
        float slope = t * curvature, wrong, gap[16] = {0};
        SKLSTRUCT_LANES({
            float p = old[i + j] + t * d[i + j];
            float log_new = z[i + j] - log_sum;
            log_new = log_new > -80.0f ? log_new : -80.0f;
            gap[j] += d[i + j] * (sklstruct_logf(p) - log_new) * live[i + j];
        });
        /* the derivative: -kl at 0, `wrong` at t, `curvature` at 1 */
        wrong = slope + sklstruct_total(gap);
        if (wrong > 0)
            t *= kl / (kl + wrong);
        else
            t += (1.0f - t) * wrong / (wrong - curvature);
    }
    SKLSTRUCT_LANES({ step[i + j] = -t * C * d[i + j] * live[i + j]; });
    return sklstruct_move(M, step, a);
}

/* sklstruct_multinomial_of for callers that have the scores of a sample. */
SKLSTRUCT_WIDE static double sklstruct_multinomial(
    ptrdiff_t M, const float *z, const float *live, ptrdiff_t y, float C, float q,
    int correct, float *a, float *step, float *old, float *d)
{
    return sklstruct_multinomial_of(M, z, live, y, C, q, correct, a, step, old, d);
}

/* Largest number of lanes for which the room of a step is on the stack. */
enum { SKLSTRUCT_LOCAL = 128 };

SKLSTRUCT_INLINE double sklstruct_step_of(
    int loss, ptrdiff_t M, const sklstruct_sample *s, float constant, float rest,
    int correct, const float *live, float *W, float *last, float *a, float *room)
{
    float local[4 * SKLSTRUCT_LOCAL];
    float *z = M <= SKLSTRUCT_LOCAL ? local : room;
    float *step = z + M, *old = step + M, *move = old + M;
    double total;
    ptrdiff_t j;
    for (j = 0; j < M; j++)
        z[j] = constant * last[j] + s->own * a[j];
    sklstruct_scores_of(s->n, s->x, s->index, W, M, z);
    if (loss == SKLSTRUCT_HINGE)
        total = sklstruct_hinge(M, z, live, s->y, s->n_y, s->C, s->q, a, step);
    else if (loss == SKLSTRUCT_LOGISTIC)
        total = sklstruct_logistic(
            M, z, live, s->y, s->n_y, s->C, s->q, a, step, old);
    else
        total = sklstruct_multinomial_of(
            M, z, live, s->y[0], s->C, s->q, correct, a, step, old, move);
    if (total * s->q > rest) {
        sklstruct_spread(s->n, s->x, s->index, step, M, W);
        for (j = 0; j < M; j++)
            last[j] += constant * step[j];
    }
    return total;
}

/* A step on one sample: its duals a, W and `last`, the weights of the constant. Changes
 * of scores up to `rest` are skipped. Returns the sum of |change of the duals|. room:
 * (4 M,). For 16 and 32 lanes the compiler knows M, which makes a step faster, most of
 * all for the squared hinge. */
SKLSTRUCT_WIDE static double sklstruct_step(
    int loss, ptrdiff_t M, const sklstruct_sample *s, float constant, float rest,
    int correct, const float *live, float *W, float *last, float *a, float *room)
{
#define SKLSTRUCT_STEP(M)                                                           \
    sklstruct_step_of(loss, M, s, constant, rest, correct, live, W, last, a, room)
    return M == 16 ? SKLSTRUCT_STEP(16)
                   : M == 32 ? SKLSTRUCT_STEP(32) : SKLSTRUCT_STEP(M);
}

#endif
