/* The inner loops of the dual coordinate descent, for all outcomes of one sample. In C
 * for the reason that _vector.h gives.
 *
 * M lanes: one for each outcome, padded to a multiple of SKLSTRUCT_STRIDE; a single
 * outcome has M = 1. live[j] is 1 for outcomes, 0 for padding, whose scores and duals
 * stay 0. The formulas are in _dual_fast.pyx.
 */
#ifndef SKLSTRUCT_DUAL_H
#define SKLSTRUCT_DUAL_H

#include "_vector.h"

/* A sample, as a step reads it. */
typedef struct {
    const float *x;       /* (n,) values of the features that others have too */
    const int32_t *index; /* their rows of W; NULL: 0, 1, 2, ... */
    ptrdiff_t n;
    float own; /* sum of the squares of the values that no other sample has */
    float q;   /* that of all values, and of the constant */
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

/* Prefetch n numbers of 32 bits. */
static inline void sklstruct_prefetch_run(ptrdiff_t n, const void *start)
{
    const char *line = (const char *)start, *end = line + 4 * n;
    for (; line < end; line += 64)
        SKLSTRUCT_PREFETCH(line);
    if (n > 0)
        SKLSTRUCT_PREFETCH(end - 1);
}

/* z += sum_k x[k] W[index[k]]; a dense row has index NULL, for 0, 1, 2, ... Four times
 * sixteen lanes at once, which stay in registers for the whole row. Each lane is added
 * up in the order of k, whatever M is. */
SKLSTRUCT_WIDE static void sklstruct_scores(
    ptrdiff_t n, const float *x, const int32_t *index, const float *W, ptrdiff_t M,
    float *z)
{
    ptrdiff_t i = 0, j, k;
    if (M == 1) {
        float total = z[0];
        for (k = 0; k < n; k++)
            total += x[k] * W[index ? index[k] : k];
        z[0] = total;
        return;
    }
#ifdef SKLSTRUCT_VECTORS
    for (; i + 64 <= M; i += 64) {
        sklstruct_v16 *out = (sklstruct_v16 *)(z + i);
        sklstruct_v16 a = out[0], b = out[1], c = out[2], d = out[3];
        for (k = 0; k < n; k++) {
            const sklstruct_v16 *w =
                (const sklstruct_v16 *)(W + (index ? index[k] : k) * M + i);
            a += x[k] * w[0];
            b += x[k] * w[1];
            c += x[k] * w[2];
            d += x[k] * w[3];
        }
        out[0] = a;
        out[1] = b;
        out[2] = c;
        out[3] = d;
    }
    for (; i < M; i += 16) {
        sklstruct_v16 *out = (sklstruct_v16 *)(z + i);
        sklstruct_v16 a = out[0];
        for (k = 0; k < n; k++)
            a += x[k] *
                 *(const sklstruct_v16 *)(W + (index ? index[k] : k) * M + i);
        out[0] = a;
    }
    (void)j;
#else
    for (k = 0; k < n; k++) {
        const float *w = W + (index ? index[k] : k) * M;
        for (j = 0; j < M; j++)
            z[j] += x[k] * w[j];
    }
    (void)i;
#endif
}

/* W[index[k]] += x[k] step. The compiler does not know that W and step are apart, and
 * would read the step again for each k: vectors keep it in registers. */
SKLSTRUCT_WIDE static void sklstruct_spread(
    ptrdiff_t n, const float *x, const int32_t *index, const float *step, ptrdiff_t M,
    float *W)
{
    ptrdiff_t i = 0, j, k;
    if (M == 1) {
        for (k = 0; k < n; k++)
            W[index ? index[k] : k] += x[k] * step[0];
        return;
    }
#ifdef SKLSTRUCT_VECTORS
    for (; i + 64 <= M; i += 64) {
        const sklstruct_v16 *in = (const sklstruct_v16 *)(step + i);
        const sklstruct_v16 a = in[0], b = in[1], c = in[2], d = in[3];
        for (k = 0; k < n; k++) {
            sklstruct_v16 *w =
                (sklstruct_v16 *)(W + (index ? index[k] : k) * M + i);
            w[0] += x[k] * a;
            w[1] += x[k] * b;
            w[2] += x[k] * c;
            w[3] += x[k] * d;
        }
    }
    for (; i < M; i += 16) {
        const sklstruct_v16 a = *(const sklstruct_v16 *)(step + i);
        for (k = 0; k < n; k++)
            *(sklstruct_v16 *)(W + (index ? index[k] : k) * M + i) += x[k] * a;
    }
    (void)j;
#else
    for (k = 0; k < n; k++) {
        float *w = W + (index ? index[k] : k) * M;
        for (j = 0; j < M; j++)
            w[j] += x[k] * step[j];
    }
    (void)i;
#endif
}

SKLSTRUCT_WIDE static float sklstruct_product(
    ptrdiff_t n, const float *x, const float *y)
{
    float sum[16] = {0}, total = 0;
    ptrdiff_t i, j;
    for (i = 0; i + 16 <= n; i += 16)
        for (j = 0; j < 16; j++)
            sum[j] += x[i + j] * y[i + j];
    for (; i < n; i++)
        total += x[i] * y[i];
    for (j = 0; j < 16; j++)
        total += sum[j];
    return total;
}

/* Products of SKLSTRUCT_BLOCK dense rows x and W: four rows and 64 lanes stay in
 * registers, so that a weight is read once for four rows. */
enum { SKLSTRUCT_BLOCK = 8 };

#define SKLSTRUCT_SCORES_TILE(vectors)                                              \
    for (b = 0; b < SKLSTRUCT_BLOCK; b += 4) {                                      \
        sklstruct_v16 sum[4][vectors];                                              \
        for (c = 0; c < 4; c++)                                                     \
            for (j = 0; j < vectors; j++)                                           \
                sum[c][j] = ((sklstruct_v16 *)(z + (b + c) * M + i))[j];            \
        for (k = 0; k < n; k++) {                                                   \
            const sklstruct_v16 *w = (const sklstruct_v16 *)(W + k * M + i);        \
            for (c = 0; c < 4; c++)                                                 \
                for (j = 0; j < vectors; j++)                                       \
                    sum[c][j] += x[b + c][k] * w[j];                                \
        }                                                                           \
        for (c = 0; c < 4; c++)                                                     \
            for (j = 0; j < vectors; j++)                                           \
                ((sklstruct_v16 *)(z + (b + c) * M + i))[j] = sum[c][j];            \
    }
#define SKLSTRUCT_SPREAD_TILE(vectors)                                              \
    for (b = 0; b < SKLSTRUCT_BLOCK; b += 4) {                                      \
        sklstruct_v16 move[4][vectors];                                             \
        for (c = 0; c < 4; c++)                                                     \
            for (j = 0; j < vectors; j++)                                           \
                move[c][j] = ((const sklstruct_v16 *)(step + (b + c) * M + i))[j];  \
        for (k = 0; k < n; k++) {                                                   \
            sklstruct_v16 *w = (sklstruct_v16 *)(W + k * M + i);                    \
            for (j = 0; j < vectors; j++) {                                         \
                sklstruct_v16 sum = w[j];                                           \
                for (c = 0; c < 4; c++)                                             \
                    sum += x[b + c][k] * move[c][j];                                \
                w[j] = sum;                                                         \
            }                                                                       \
        }                                                                           \
    }

/* z[b] += sum_k x[b][k] W[k] for each row b; z is (SKLSTRUCT_BLOCK, M). */
SKLSTRUCT_WIDE static void sklstruct_block_scores(
    ptrdiff_t n, const float *const *x, const float *W, ptrdiff_t M, float *z)
{
    ptrdiff_t b, c, i = 0, j, k;
#ifdef SKLSTRUCT_VECTORS
    for (; i + 64 <= M; i += 64)
        SKLSTRUCT_SCORES_TILE(4)
    for (; i < M; i += 16)
        SKLSTRUCT_SCORES_TILE(1)
#else
    for (b = 0; b < SKLSTRUCT_BLOCK; b++)
        for (k = 0; k < n; k++)
            for (j = 0; j < M; j++)
                z[b * M + j] += x[b][k] * W[k * M + j];
    (void)c, (void)i;
#endif
}

/* W[k] += sum_b x[b][k] step[b]; step is (SKLSTRUCT_BLOCK, M). */
SKLSTRUCT_WIDE static void sklstruct_block_spread(
    ptrdiff_t n, const float *const *x, const float *step, ptrdiff_t M, float *W)
{
    ptrdiff_t b, c, i = 0, j, k;
#ifdef SKLSTRUCT_VECTORS
    for (; i + 64 <= M; i += 64)
        SKLSTRUCT_SPREAD_TILE(4)
    for (; i < M; i += 16)
        SKLSTRUCT_SPREAD_TILE(1)
#else
    for (b = 0; b < SKLSTRUCT_BLOCK; b++)
        for (k = 0; k < n; k++)
            for (j = 0; j < M; j++)
                W[k * M + j] += x[b][k] * step[b * M + j];
    (void)c, (void)i;
#endif
}

/* Pairwise: sixteen steps one after the other would take as long as the products. */
static inline float sklstruct_largest(const float *top)
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

static inline float sklstruct_total(const float *sum)
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

/* Squared hinge. a holds sign * b; y are the n_y outcomes of the sample. Returns the
 * sum of |step|, *most its largest. */
SKLSTRUCT_WIDE static double sklstruct_hinge(
    ptrdiff_t M, const float *z, const float *live, const int32_t *y, ptrdiff_t n_y,
    float C, float q, float *a, float *step, float *most)
{
    float sum[16] = {0}, top[16] = {0};
    const float h = 0.5f / C, inverse = 1.0f / (q + h);
    ptrdiff_t i, j;
    SKLSTRUCT_LANES({
        float b = -a[i + j];
        float new = b - (-z[i + j] - 1.0f + h * b) * inverse;
        new = new > 0 ? new : 0;
        step[i + j] = (b - new) * live[i + j];
    });
    for (i = 0; i < n_y; i++) {
        float own = a[y[i]], new = own - (z[y[i]] - 1.0f + h * own) * inverse;
        step[y[i]] = (new > 0 ? new : 0) - own;
    }
    SKLSTRUCT_LANES({
        float size = fabsf(step[i + j]);
        a[i + j] += step[i + j];
        sum[j] += size;
        top[j] = size > top[j] ? size : top[j];
    });
    *most = sklstruct_largest(top);
    return sklstruct_total(sum);
}

/* Scores, step and change of the weights of 16 or 32 lanes, fused: the lanes stay in
 * registers. A row of W is one or two cache lines, so separate passes over the lanes
 * would take as long as the weights. Two running sums for each lane, because an
 * addition waits for the one before. It is fastest where W and `last`, the weights of
 * the constant, are aligned to cache lines. `sums` (16,) gets the sizes of the steps. */
#ifdef SKLSTRUCT_VECTORS
typedef int32_t sklstruct_i16 __attribute__((vector_size(64), aligned(4), may_alias));

#define SKLSTRUCT_STRIP_SCORES(row)                                                 \
    do {                                                                            \
        for (k = 0; k + 2 <= s->n; k += 2) {                                        \
            const float *one = W + (ptrdiff_t)(row(k)) * M;                         \
            const float *two = W + (ptrdiff_t)(row(k + 1)) * M;                     \
            for (j = 0; j < M / 16; j++) {                                          \
                z[j] += s->x[k] * ((const sklstruct_v16 *)one)[j];                  \
                more[j] += s->x[k + 1] * ((const sklstruct_v16 *)two)[j];           \
            }                                                                       \
        }                                                                           \
        if (k < s->n) {                                                             \
            const float *one = W + (ptrdiff_t)(row(k)) * M;                         \
            for (j = 0; j < M / 16; j++)                                            \
                z[j] += s->x[k] * ((const sklstruct_v16 *)one)[j];                  \
        }                                                                           \
    } while (0)
#define SKLSTRUCT_STRIP_SPREAD(row)                                                 \
    for (k = 0; k < s->n; k++) {                                                    \
        sklstruct_v16 *w = (sklstruct_v16 *)(W + (ptrdiff_t)(row(k)) * M);          \
        for (j = 0; j < M / 16; j++)                                                \
            w[j] += s->x[k] * step.all[j];                                          \
    }
#define SKLSTRUCT_INDEXED(k) s->index[k]
#define SKLSTRUCT_COUNTED(k) (k)

#define SKLSTRUCT_HINGE_STRIP(name, lanes)                                          \
    SKLSTRUCT_WIDE static void name(                                                \
        const sklstruct_sample *s, float constant, float rest, const float *live,   \
        float *W, float *last, float *a, float *sums)                               \
    {                                                                               \
        enum { M = lanes };                                                         \
        union { sklstruct_v16 all[M / 16]; float lane[M]; } step;                   \
        union { sklstruct_i16 all; int64_t part[8]; } far;                          \
        sklstruct_v16 z[M / 16], more[M / 16];                                      \
        sklstruct_v16 *dual = (sklstruct_v16 *)a, *bias = (sklstruct_v16 *)last;    \
        const sklstruct_v16 *use = (const sklstruct_v16 *)live;                     \
        const float h = 0.5f / s->C, inverse = 1.0f / (s->q + h);                   \
        int64_t any = 0;                                                            \
        ptrdiff_t j, k;                                                             \
        for (j = 0; j < M / 16; j++) {                                              \
            z[j] = constant * bias[j] + s->own * dual[j];                           \
            more[j] = (sklstruct_v16){0};                                           \
        }                                                                           \
        if (s->index)                                                               \
            SKLSTRUCT_STRIP_SCORES(SKLSTRUCT_INDEXED);                              \
        else                                                                        \
            SKLSTRUCT_STRIP_SCORES(SKLSTRUCT_COUNTED);                              \
        for (j = 0; j < M / 16; j++) {                                              \
            sklstruct_v16 b = -dual[j], new;                                        \
            z[j] += more[j];                                                        \
            new = b - (h * b - z[j] - 1.0f) * inverse;                              \
            new = (sklstruct_v16)((sklstruct_i16)new & (sklstruct_i16)(new > 0));   \
            step.all[j] = (b - new) * use[j];                                       \
        }                                                                           \
        for (j = 0; j < s->n_y; j++) {                                              \
            float own = a[s->y[j]], score = ((const float *)z)[s->y[j]];            \
            float new = own - (score - 1.0f + h * own) * inverse;                   \
            step.lane[s->y[j]] = (new > 0 ? new : 0) - own;                         \
        }                                                                           \
        far.all = (sklstruct_i16){0};                                               \
        for (j = 0; j < M / 16; j++) {                                              \
            sklstruct_v16 size = (sklstruct_v16)(                                   \
                (sklstruct_i16)step.all[j] & 0x7fffffff);                           \
            dual[j] += step.all[j];                                                 \
            *(sklstruct_v16 *)sums += size;                                         \
            far.all |= (sklstruct_i16)(size * s->q > rest);                         \
        }                                                                           \
        for (j = 0; j < 8; j++)                                                     \
            any |= far.part[j];                                                     \
        if (!any)                                                                   \
            return;                                                                 \
        for (j = 0; j < M / 16; j++)                                                \
            bias[j] += constant * step.all[j];                                      \
        if (s->index)                                                               \
            SKLSTRUCT_STRIP_SPREAD(SKLSTRUCT_INDEXED)                               \
        else                                                                        \
            SKLSTRUCT_STRIP_SPREAD(SKLSTRUCT_COUNTED)                               \
    }

SKLSTRUCT_HINGE_STRIP(sklstruct_hinge_16, 16)
SKLSTRUCT_HINGE_STRIP(sklstruct_hinge_32, 32)
#endif

/* Whether there is a fused step for M lanes, and that step. */
static inline int sklstruct_has_strip(ptrdiff_t M)
{
#ifdef SKLSTRUCT_VECTORS
    return M == 16 || M == 32;
#else
    (void)M;
    return 0;
#endif
}

static inline void sklstruct_hinge_strip(
    ptrdiff_t M, const sklstruct_sample *s, float constant, float rest,
    const float *live, float *W, float *last, float *a, float *sums)
{
#ifdef SKLSTRUCT_VECTORS
    if (M == 16)
        sklstruct_hinge_16(s, constant, rest, live, W, last, a, sums);
    else
        sklstruct_hinge_32(s, constant, rest, live, W, last, a, sums);
#else
    (void)M, (void)s, (void)constant, (void)rest, (void)live;
    (void)W, (void)last, (void)a, (void)sums;
#endif
}

/* 1 / (1 + exp(-x)) for any x. */
static inline float sklstruct_sigmoid(float x)
{
    float e = sklstruct_expf(-fabsf(x));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

enum { SKLSTRUCT_NEWTON = 30 };

/* Logistic loss of every outcome against the rest; as sklstruct_hinge. `t` is room. */
SKLSTRUCT_WIDE static double sklstruct_logistic(
    ptrdiff_t M, const float *z, const float *live, const int32_t *y, ptrdiff_t n_y,
    float C, float q, float *a, float *step, float *t, float *most)
{
    float sum[16] = {0}, top[16] = {0};
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
    SKLSTRUCT_LANES({
        float size = fabsf(step[i + j]);
        a[i + j] += step[i + j];
        sum[j] += size;
        top[j] = size > top[j] ? size : top[j];
    });
    *most = sklstruct_largest(top);
    return sklstruct_total(sum);
}

/* log(max(x, 1e-6)), relative error of a few 1e-7 (S. Moshier's Cephes): the larger one is
 * 2^e m, m in [sqrt(1/2), sqrt(2)), by its bits, which are ordered as the numbers are.
 * Without a branch, so that loops over it vectorise. */
static inline float sklstruct_logf(float x)
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

/* The multinomial step of up to 128 lanes, fused as that of the squared hinge; one
 * outcome a sample. On few lanes it waits for one sum over all lanes after the other: the
 * largest score is therefore not subtracted before the exponential, unless it is too large
 * for it. It is not too small: the duals of a sample, and with them its scores, sum to 0.
 * `correct`: a secant correction of the length of the step. */
#ifdef SKLSTRUCT_VECTORS
#define SKLSTRUCT_INLINE static inline __attribute__((always_inline))

/* Macros: a function that takes a vector depends on the instruction set. */
#define SKLSTRUCT_PICK(mask, yes, no)                                               \
    ((sklstruct_v16)(((sklstruct_i16)(yes) & (mask)) | ((sklstruct_i16)(no) & ~(mask))))

/* *x = exp(*x), as sklstruct_expf, for x <= 88 */
SKLSTRUCT_INLINE void sklstruct_exp16(sklstruct_v16 *x)
{
    const sklstruct_v16 shift = (sklstruct_v16){0} + 12582912.0f;
    sklstruct_v16 k, n, r, p, low = (sklstruct_v16){0} - 87.0f;
    sklstruct_i16 bits;
    *x = SKLSTRUCT_PICK((sklstruct_i16)(*x < low), low, *x);
    k = *x * 1.44269504f + shift;
    n = k - shift;
    r = *x - n * 0.693145752f;
    r = r - n * 1.42860677e-6f;
    p = r * (1.0f / 5040.0f) + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    bits = ((sklstruct_i16)k + 127) << 23;
    *x = p * (sklstruct_v16)bits;
}

/* *x = log(max(*x, 1e-6)), as sklstruct_logf */
SKLSTRUCT_INLINE void sklstruct_log16(sklstruct_v16 *x)
{
    const int32_t root = 0x3f3504f3, least = 0x358637bd;
    sklstruct_i16 bits = (sklstruct_i16)*x, above = (sklstruct_i16)(bits > least);
    sklstruct_v16 e, m, w, y;
    bits = ((bits & above) | (least & ~above)) - root;
    e = __builtin_convertvector(bits >> 23, sklstruct_v16);
    m = (sklstruct_v16)((bits & 0x007fffff) + root) - 1.0f;
    w = m * m;
    y = m * 7.0376836292e-2f - 1.1514610310e-1f;
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
    *x = m + y + 0.693359375f * e;
}

#define SKLSTRUCT_HALF(x, first)                                                    \
    ((sklstruct_v8){(x)[first], (x)[first + 1], (x)[first + 2], (x)[first + 3],     \
                    (x)[first + 4], (x)[first + 5], (x)[first + 6], (x)[first + 7]})
#define SKLSTRUCT_QUARTER(x, first)                                                 \
    ((sklstruct_v4){(x)[first], (x)[first + 1], (x)[first + 2], (x)[first + 3]})

SKLSTRUCT_INLINE float sklstruct_sum16(const sklstruct_v16 *x)
{
    sklstruct_v8 half = SKLSTRUCT_HALF(*x, 0) + SKLSTRUCT_HALF(*x, 8);
    sklstruct_v4 quarter = SKLSTRUCT_QUARTER(half, 0) + SKLSTRUCT_QUARTER(half, 4);
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

SKLSTRUCT_INLINE int sklstruct_any16(const sklstruct_i16 *x)
{
    const int64_t *part = (const int64_t *)x;
    int64_t any = 0;
    ptrdiff_t j;
    for (j = 0; j < 8; j++)
        any |= part[j];
    return any != 0;
}

#define SKLSTRUCT_MULTINOMIAL_STRIP(name, lanes)                                    \
    SKLSTRUCT_WIDE static void name(                                                \
        const sklstruct_sample *s, float constant, float rest, int correct,         \
        const float *live, float *W, float *last, float *a, float *sums)            \
    {                                                                               \
        enum { M = lanes };                                                         \
        const sklstruct_i16 count = {0, 1, 2,  3,  4,  5,  6,  7,                   \
                                     8, 9, 10, 11, 12, 13, 14, 15};                 \
        struct { sklstruct_v16 all[M / 16]; } step;                                 \
        sklstruct_v16 z[M / 16], more[M / 16], old[M / 16], log_old[M / 16];        \
        sklstruct_v16 *dual = (sklstruct_v16 *)a, *bias = (sklstruct_v16 *)last;    \
        const sklstruct_v16 *use = (const sklstruct_v16 *)live;                     \
        sklstruct_v16 sum = {0}, square = {0}, part = {0};                          \
        sklstruct_i16 large = {0}, far = {0};                                       \
        const float inverse = 1.0f / s->C;                                          \
        float high = 0, size, log_sum, kl, bend, t;                                 \
        ptrdiff_t j, k;                                                             \
        for (j = 0; j < M / 16; j++) {                                              \
            sklstruct_i16 own = (sklstruct_i16)(count + (int32_t)(16 * j) == *s->y);\
            z[j] = constant * bias[j] + s->own * dual[j];                           \
            more[j] = (sklstruct_v16){0};                                           \
            old[j] = -dual[j] * inverse;                                            \
            old[j] += (sklstruct_v16)(0x3f800000 & own);                            \
            log_old[j] = old[j];                                                    \
            sklstruct_log16(&log_old[j]);                                           \
        }                                                                           \
        if (s->index)                                                               \
            SKLSTRUCT_STRIP_SCORES(SKLSTRUCT_INDEXED);                              \
        else                                                                        \
            SKLSTRUCT_STRIP_SCORES(SKLSTRUCT_COUNTED);                              \
        for (j = 0; j < M / 16; j++) {                                              \
            z[j] += more[j];                                                        \
            step.all[j] = z[j];                                                     \
            sklstruct_exp16(&step.all[j]);                                          \
            step.all[j] *= use[j];                                                  \
            sum += step.all[j];                                                     \
            large |= (sklstruct_i16)(z[j] > 80.0f);                                 \
        }                                                                           \
        if (sklstruct_any16(&large)) {                                              \
            high = -INFINITY;                                                       \
            for (j = 0; j < M; j++) {                                               \
                float score = ((const float *)z)[j];                                \
                high = live[j] > 0 && score > high ? score : high;                  \
            }                                                                       \
            sum = (sklstruct_v16){0};                                               \
            for (j = 0; j < M / 16; j++) {                                          \
                step.all[j] = z[j] - high;                                          \
                step.all[j] *= use[j];                                              \
                sklstruct_exp16(&step.all[j]);                                      \
                step.all[j] *= use[j];                                              \
                sum += step.all[j];                                                 \
            }                                                                       \
        }                                                                           \
        size = sklstruct_sum16(&sum);                                               \
        log_sum = high + sklstruct_logf(size);                                      \
        size = 1.0f / size;                                                         \
        for (j = 0; j < M / 16; j++) {                                              \
            sklstruct_v16 log_new = z[j] - log_sum, low = (sklstruct_v16){0} - 80.0f;\
            log_new = SKLSTRUCT_PICK((sklstruct_i16)(log_new > low), log_new, low); \
            z[j] = log_new;                                                         \
            step.all[j] = step.all[j] * size - old[j];                              \
            part += step.all[j] * (log_new - log_old[j]) * use[j];                  \
            square += step.all[j] * step.all[j];                                    \
        }                                                                           \
        kl = sklstruct_sum16(&part);                                                \
        bend = sklstruct_sum16(&square) * s->q * s->C;                              \
        if (!(kl > 0))                                                              \
            return;                                                                 \
        t = kl / (kl + bend);                                                       \
        if (correct) {                                                              \
            float wrong;                                                            \
            part = (sklstruct_v16){0};                                              \
            for (j = 0; j < M / 16; j++) {                                          \
                sklstruct_v16 p = old[j] + t * step.all[j];                         \
                sklstruct_log16(&p);                                                \
                part += step.all[j] * (p - z[j]) * use[j];                          \
            }                                                                       \
            /* the derivative: -kl at 0, `wrong` at t, `bend` at 1 */               \
            wrong = t * bend + sklstruct_sum16(&part);                              \
            if (wrong > 0)                                                          \
                t *= kl / (kl + wrong);                                             \
            else                                                                    \
                t += (1.0f - t) * wrong / (wrong - bend);                           \
        }                                                                           \
        for (j = 0; j < M / 16; j++) {                                              \
            sklstruct_v16 length;                                                   \
            step.all[j] *= -t * s->C * use[j];                                      \
            dual[j] += step.all[j];                                                 \
            length = (sklstruct_v16)((sklstruct_i16)step.all[j] & 0x7fffffff);      \
            *(sklstruct_v16 *)sums += length;                                       \
            far |= (sklstruct_i16)(length * s->q > rest);                           \
        }                                                                           \
        if (!sklstruct_any16(&far))                                                 \
            return;                                                                 \
        for (j = 0; j < M / 16; j++)                                                \
            bias[j] += constant * step.all[j];                                      \
        if (s->index)                                                               \
            SKLSTRUCT_STRIP_SPREAD(SKLSTRUCT_INDEXED)                               \
        else                                                                        \
            SKLSTRUCT_STRIP_SPREAD(SKLSTRUCT_COUNTED)                               \
    }

SKLSTRUCT_MULTINOMIAL_STRIP(sklstruct_multinomial_16, 16)
SKLSTRUCT_MULTINOMIAL_STRIP(sklstruct_multinomial_32, 32)
SKLSTRUCT_MULTINOMIAL_STRIP(sklstruct_multinomial_48, 48)
SKLSTRUCT_MULTINOMIAL_STRIP(sklstruct_multinomial_64, 64)
SKLSTRUCT_MULTINOMIAL_STRIP(sklstruct_multinomial_80, 80)
SKLSTRUCT_MULTINOMIAL_STRIP(sklstruct_multinomial_96, 96)
SKLSTRUCT_MULTINOMIAL_STRIP(sklstruct_multinomial_112, 112)
SKLSTRUCT_MULTINOMIAL_STRIP(sklstruct_multinomial_128, 128)
#endif

static inline int sklstruct_has_multinomial_strip(ptrdiff_t M)
{
#ifdef SKLSTRUCT_VECTORS
    return M % 16 == 0 && M <= 128;
#else
    (void)M;
    return 0;
#endif
}

static inline void sklstruct_multinomial_strip(
    ptrdiff_t M, const sklstruct_sample *s, float constant, float rest, int correct,
    const float *live, float *W, float *last, float *a, float *sums)
{
#ifdef SKLSTRUCT_VECTORS
    static void (*const strips[])(
        const sklstruct_sample *, float, float, int, const float *, float *, float *,
        float *, float *) = {
        sklstruct_multinomial_16, sklstruct_multinomial_32, sklstruct_multinomial_48,
        sklstruct_multinomial_64, sklstruct_multinomial_80, sklstruct_multinomial_96,
        sklstruct_multinomial_112, sklstruct_multinomial_128,
    };
    strips[M / 16 - 1](s, constant, rest, correct, live, W, last, a, sums);
#else
    (void)M, (void)s, (void)constant, (void)rest, (void)correct, (void)live;
    (void)W, (void)last, (void)a, (void)sums;
#endif
}

/* Multinomial loss; as sklstruct_hinge, y >= 0 and M >= 16. `old` and `d` are room.
 * `correct`: a secant correction of the length of the step. */
SKLSTRUCT_WIDE static double sklstruct_multinomial(
    ptrdiff_t M, const float *restrict z, const float *restrict live, ptrdiff_t y,
    float C, float q, int correct, float *restrict a, float *restrict step,
    float *restrict old, float *restrict d, float *most)
{
    float part[16], square[16] = {0}, sum[16] = {0}, top[16] = {0};
    float best[16], high, log_sum, size, t, kl, bend, inverse = 1.0f / C;
    ptrdiff_t i, j;
    for (j = 0; j < 16; j++)
        best[j] = -INFINITY;
    SKLSTRUCT_LANES({
        float s = z[i + j] + (live[i + j] - 1.0f) * 1e30f;
        best[j] = s > best[j] ? s : best[j];
    });
    high = sklstruct_largest(best);
    SKLSTRUCT_LANES({
        /* scores of outcomes are not above `high`, those of the padding may be */
        float e = sklstruct_expf(-fabsf(z[i + j] - high)) * live[i + j];
        d[i + j] = e;
        sum[j] += e;
    });
    size = sklstruct_total(sum);
    log_sum = high + logf(size);
    size = 1.0f / size;
    for (j = 0; j < 16; j++)
        part[j] = 0;
    SKLSTRUCT_LANES({ old[i + j] = -a[i + j] * inverse; });
    old[y] += 1.0f;
    /* kl: the sum of both divergences between the old and the new probabilities */
    SKLSTRUCT_LANES({
        float p = old[i + j], move = d[i + j] * size - p, log_new, log_old;
        log_new = z[i + j] - log_sum;
        log_new = log_new > -80.0f ? log_new : -80.0f;
        log_old = sklstruct_logf(p);
        d[i + j] = move;
        part[j] += move * (log_new - log_old) * live[i + j];
        square[j] += move * move;
    });
    kl = sklstruct_total(part);
    bend = sklstruct_total(square) * q * C;
    *most = 0;
    if (!(kl > 0))
        return 0;
    t = kl / (kl + bend);
    if (correct) {
        float slope = t * bend, wrong;
        for (j = 0; j < 16; j++)
            part[j] = 0;
        SKLSTRUCT_LANES({
            float p = old[i + j] + t * d[i + j];
            float log_new = z[i + j] - log_sum;
            log_new = log_new > -80.0f ? log_new : -80.0f;
            p = sklstruct_logf(p);
            part[j] += d[i + j] * (p - log_new) * live[i + j];
        });
        /* the derivative: -kl at 0, `wrong` at t, `bend` at 1 */
        wrong = slope + sklstruct_total(part);
        if (wrong > 0)
            t *= kl / (kl + wrong);
        else
            t += (1.0f - t) * wrong / (wrong - bend);
    }
    for (j = 0; j < 16; j++)
        sum[j] = 0;
    SKLSTRUCT_LANES({
        float length;
        step[i + j] = -t * C * d[i + j] * live[i + j];
        a[i + j] += step[i + j];
        length = fabsf(step[i + j]);
        sum[j] += length;
        top[j] = length > top[j] ? length : top[j];
    });
    *most = sklstruct_largest(top);
    return sklstruct_total(sum);
}

#endif
